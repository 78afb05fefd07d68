r"""Pareto smoothed importance sampling: prior draws weighted by the likelihood of a release.

.. math::
   E[f(\theta) \mid y] = \sum_i w_i f(\theta_i), \qquad w_i \propto p(y \mid \theta_i), \quad \theta_i \sim p(\theta)

Draws of the prior cover every mode with a fair share of the prior, which a Markov chain may miss. They cannot resolve a
posterior much narrower than the prior: a few weights then dominate, and the Pareto shape :math:`\hat k` of their tail
is large.

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
"""Largest Pareto shape k-hat of reliable weights (Vehtari et al., section 3)."""

# Smallest effective number of draws of reliable weights.
SMALLEST_ESS = 200.0
# Smallest number of possible draws for a fit of the tail.
_FEWEST = 100
# Nats within which two log weights count as equal.
_SAME = 1e-9


@dataclass(frozen=True)
class Importance:
    """Smoothed importance weights of prior draws, (draw,), and the Pareto shape of their tail.

    Parameters
    ----------
    weights : normalized weights, sum 1
    k_hat : Pareto shape; infinite if no tail can be fitted, minus infinite if the weights are bounded
    log_total : log of the sum of the smoothed weights before normalization
    """

    weights: Floats
    k_hat: float
    log_total: float = 0.0

    @classmethod
    def of(cls, log_likelihood: Floats) -> Importance:
        """Weights from the log likelihood (draw,) of a release at independent prior draws, up to a constant."""
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
        """Kish's effective number of draws."""
        square = float((self.weights**2).sum())
        return 1.0 / square if square > 0 else 0.0


def _smooth_tail(log_weights: Floats) -> tuple[Floats, float]:
    """Weights with a smoothed tail, and its Pareto shape, from log weights whose maximum is 0.

    The length of the tail is that of Vehtari et al.; the fit is that of Zhang and Stephens with their prior on the
    shape.
    """
    weights, n = np.exp(log_weights), log_weights.size
    if n < _FEWEST:
        return weights, np.inf
    # Equal weights (an uninformative release) have no tail.
    if log_weights.min() > -_SAME:
        return weights, -np.inf
    tail = int(min(0.2 * n, 3.0 * np.sqrt(n)))
    place = np.argpartition(log_weights, -tail - 1)[-tail - 1 :]
    place = place[np.argsort(log_weights[place])]
    top = log_weights[place[1:]]
    # Many draws share the largest weight: the weights take few values and are bounded, so a Pareto fit has no meaning.
    if top[0] > -_SAME or (top[tail // 4] <= top[0] + _SAME and (top > -_SAME).sum() > 0.1 * tail):
        return weights, -np.inf
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
    """Shape and scale of a generalised Pareto distribution fitted to ascending excesses (draw,); NaN if it fails.

    The empirical Bayes estimate of Zhang and Stephens (2009), "A new and efficient estimation method for the
    generalized Pareto distribution", Technometrics 51. The shape is shrunk towards 1/2 with the weight of ten
    excesses, as in appendix C of Vehtari et al.
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
    spread : Monte Carlo standard error of the log odds
    k_hat : Pareto shape of the weights, the larger of the two hypotheses
    ess : effective number of draws, the smaller of the two hypotheses
    weights : normalized smoothed weights of the draws under both hypotheses together, (draw,)
    chances : P(target = 1 | draw, release), (draw,)
    log_total : log of the sum of these weights before normalization
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
        r"""Posterior from the log weights of draws under each hypothesis, (draw,) each.

        Each evidence has its own smoothing and diagnostics, so that a hypothesis supported by few draws is detected.
        The squared error is that of the log odds, :math:`\sum_i (w_i^1 / \sum w^1 - w_i^0 / \sum w^0)^2`: errors common
        to both evidences cancel.
        """
        # A single "draw" means that all latents are summed out: the answer is exact.
        if log_in.size == 1:
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
            # The odds are equal at all draws, so they have no Monte Carlo error.
            both = Importance.of(np.logaddexp(log_in, log_out))
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
        """True if the weights are reliable by `LARGEST_KHAT` and `SMALLEST_ESS`; always true for an exact answer."""
        return bool(self.k_hat <= LARGEST_KHAT and self.ess >= SMALLEST_ESS)
