r"""Averages over draws of the prior weighed by a release, with the tail of the weights smoothed and judged.

.. math::
   E[f(\theta) \mid y] = \sum_i w_i f(\theta_i), \qquad w_i \propto p(y \mid \theta_i), \quad \theta_i \sim p(\theta)

Draws of the prior are in every mode that has a fair share of it, whatever a chain does. What they cannot do is resolve
a posterior much narrower than the prior: then few weights carry all, as the shape :math:`\hat k` of their tail shows.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry (2024), "Pareto smoothed importance sampling", JMLR 25.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]

LARGEST_KHAT = 0.7
"""Shape of the tail of the weights beyond which their averages are not to be trusted (Vehtari et al., section 3)."""
SMALLEST_ESS = 200.0
"""Effective number of draws below which averages over them are not given."""
_FEWEST = 100  # possible draws below which no tail is fitted
_SAME = 1e-9


@dataclass(frozen=True)
class Importance:
    """Smoothed weights of draws of the prior, shape (draw,), and the shape of their tail.

    Parameters
    ----------
    weights : they add up to 1
    k_hat : infinite where no tail can be fitted, minus infinite where there is none
    log_total : log of the sum of the smoothed weights as they were given
    """

    weights: Floats
    k_hat: float
    log_total: float = 0.0

    @classmethod
    def of(cls, log_likelihood: Floats) -> Importance:
        """From the log likelihood of a release at independent draws of the prior, up to a constant."""
        weights, possible = np.zeros(log_likelihood.size), np.flatnonzero(log_likelihood > -np.inf)
        if possible.size == 0:
            return cls(weights, np.inf, -np.inf)
        finite = log_likelihood[possible]
        top = finite.max()
        smoothed, k_hat = _smooth_tail(finite - top)
        total = smoothed.sum()
        weights[possible] = smoothed / total
        return cls(weights, k_hat, float(np.log(total) + top))

    @property
    def ess(self) -> float:
        """Effective number of draws, Kish's."""
        square = float((self.weights**2).sum())
        return 1.0 / square if square > 0 else 0.0


def _smooth_tail(log_weights: Floats) -> tuple[Floats, float]:
    """Weights, from their logs of which the largest is 0, with their tail smoothed as far as it can be, and its shape.

    The tail is as long as Vehtari et al. have it, the fit of Zhang and Stephens with their prior on its shape.
    """
    weights, n = np.exp(log_weights), log_weights.size
    if n < _FEWEST:
        return weights, np.inf
    if log_weights.min() > -_SAME:  # a release that tells nothing has weights without a tail
        return weights, -np.inf
    tail = int(min(0.2 * n, 3.0 * np.sqrt(n)))
    place = np.argpartition(log_weights, -tail - 1)[-tail - 1 :]
    place = place[np.argsort(log_weights[place])]
    top = log_weights[place[1:]]
    if top[0] > -_SAME or (top[tail // 4] <= top[0] + _SAME and (top > -_SAME).sum() > 0.1 * tail):
        return weights, -np.inf  # many draws share the largest weight: of few values, and bounded
    cutoff = weights[place[0]]
    shape, scale = pareto_tail(weights[place[1:]] - cutoff)
    if not np.isfinite(shape):
        return weights, np.inf
    probability = (np.arange(tail) + 0.5) / tail
    with np.errstate(all="ignore"):
        quantile = scale * np.expm1(-shape * np.log1p(-probability)) / shape
    weights[place[1:]] = np.minimum(quantile + cutoff, 1.0)
    return weights, shape


def pareto_tail(excess: Floats) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto law fitted to excesses (draw,) in ascending order; NaN where it fails.

    The empirical Bayes estimate of Zhang and Stephens (2009), "A new and efficient estimation method for the
    generalized Pareto distribution", Technometrics 51; the shape is drawn to 1/2 by the weight of ten excesses, as in
    appendix C of Vehtari et al.
    """
    n = excess.size
    grid = 30 + int(np.sqrt(n))
    with np.errstate(all="ignore"):
        b = 1.0 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))
        b = b / (3.0 * excess[int(n / 4 + 0.5) - 1]) + 1.0 / excess[-1]
        k = np.log1p(-b[:, None] * excess).mean(axis=1)
        log_profile = n * (np.log(-b / k) - k - 1.0)
        weights = np.exp(log_profile - log_profile.max())
        weights /= weights.sum()
        b_mean = (b * np.where(weights >= 10 * np.finfo(float).eps, weights, 0.0)).sum()
        shape = np.log1p(-b_mean * excess).mean()
        return float((n * shape + 5.0) / (n + 10.0)), float(-shape / b_mean)


@dataclass(frozen=True)
class Hypotheses:
    """Posterior of a target given one release, with the diagnostics of its weights.

    Parameters
    ----------
    present, out : P(target = 1) and P(target = 0)
    spread : standard error of the log odds, of which that of either probability follows
    k_hat : shape of the tail of the weights, the worse of the two hypotheses
    ess : effective number of draws, the smaller of the two
    weights : smoothed weights of the draws under both together, (draw,), adding up to 1
    chances : P(target = 1 | draw, release), (draw,)
    log_total : log of the sum of these weights as they were given
    """

    present: float
    out: float
    spread: float
    k_hat: float
    ess: float
    weights: Floats
    chances: Floats
    log_total: float = 0.0

    @classmethod
    def of(cls, log_in: Floats, log_out: Floats) -> Hypotheses:
        r"""From the log weights of draws under each hypothesis, (draw,) each.

        Each evidence is smoothed and judged by itself, so that a hypothesis that few draws speak for is seen to be
        so. The error is that of the log odds, :math:`\sum_i (w_i^1 / \sum w^1 - w_i^0 / \sum w^0)^2`: what moves both
        alike does not count.
        """
        if log_in.size == 1:  # nothing is drawn: all latents are summed out
            with np.errstate(invalid="ignore"):
                odds = float((log_in - log_out)[0])
            total = float(np.logaddexp(log_in, log_out)[0])
            chance = float(expit(odds))
            return cls(chance, float(expit(-odds)), 0.0, -np.inf, np.inf, np.ones(1), np.array([chance]), total)
        with np.errstate(invalid="ignore"):
            apart = log_in - log_out
        given = expit(apart)
        known = apart[~np.isnan(apart)]
        if known.size and (np.ptp(known) < _SAME if np.isfinite(known).all() else (known == known[0]).all()):
            both = Importance.of(np.logaddexp(log_in, log_out))  # no draw changes the odds: there is no error
            chances = float(expit(known[0])), float(expit(-known[0]))
            return cls(*chances, 0.0, both.k_hat, both.ess, both.weights, given, both.log_total)
        inside, outside = Importance.of(log_in), Importance.of(log_out)
        odds = inside.log_total - outside.log_total
        present, out = float(expit(odds)), float(expit(-odds))
        spread = float(np.sqrt(((inside.weights - outside.weights) ** 2).sum()))
        k_hat, ess = max(inside.k_hat, outside.k_hat), min(inside.ess, outside.ess)
        weights = present * inside.weights + out * outside.weights
        total = float(np.logaddexp(inside.log_total, outside.log_total))
        return cls(present, out, spread, k_hat, ess, weights, given, total)

    @property
    def mcse(self) -> float:
        """Monte Carlo standard error of either probability."""
        return self.present * self.out * self.spread

    @property
    def reliable(self) -> bool:
        """True where the draws carry the answer: an exact one needs them only to reach the release at all."""
        return bool(self.k_hat <= LARGEST_KHAT and self.ess >= SMALLEST_ESS)
