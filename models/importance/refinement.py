r"""A better proposal for one release that draws of the prior do not settle: a mixture around those it is near to.

The draws are weighed by a power of the likelihood small enough that many of them count; around some of these stand
Student t components, each with the covariance of its own neighbours, so that modes far apart and narrow necks have
components of their own. Draws of the mixture, with some of the prior among them, are weighed again, until their
weights can be trusted: a population Monte Carlo. What no draw of the prior is near to stays out of sight.

References
----------
Cappe, Douc, Guillin, Marin and Robert (2008), "Adaptive importance sampling in general mixture classes", Statistics
and Computing 18.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

Floats = NDArray[np.float64]

STAGES = 8
LARGEST_DIMENSION = 12
"""Continuous cells beyond which a mixture of so few components cannot fill the space."""
_CENTRES, _NEIGHBOURS = 100, 0.15
_FREEDOM = 5.0
_OF_PRIOR = 0.1  # share of the prior among the proposals, so that no weight can exceed ten times the likelihood
_WIDER = 1.3
_POINTS = 800  # draws of which neighbours are looked for


@dataclass(frozen=True)
class Mixture:
    """Student t components: centres (component, cell) and lower triangles of their scale matrices."""

    centres: Floats
    factors: Floats

    @classmethod
    def around(cls, points: Floats, log_weights: Floats, rng: np.random.Generator) -> Mixture:
        """Around points (draw, cell), by tempered weights."""
        weights = np.exp(temper(log_weights, 25.0 * (points.shape[1] + 2)))
        chosen = points[rng.choice(len(points), _POINTS, p=weights / weights.sum())]
        centres = chosen[:: _POINTS // _CENTRES]
        unit = np.std(chosen, axis=0) + 1e-12 * np.std(points, axis=0) + 1e-300
        scaled = chosen / unit
        near = ((centres[:, None] / unit - scaled) ** 2).sum(axis=2).argsort(axis=1)[:, : int(_NEIGHBOURS * _POINTS)]
        groups = chosen[near]
        middle = groups - groups.mean(axis=1, keepdims=True)
        spread = middle.transpose(0, 2, 1) @ middle / groups.shape[1]
        floor = np.maximum(np.diagonal(spread, axis1=1, axis2=2), 1e-6 * unit**2) * 1e-3
        spread = spread + floor[:, :, None] * np.eye(points.shape[1])
        return cls(centres, _WIDER * np.linalg.cholesky(spread))

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Points (draw, cell)."""
        which = rng.integers(len(self.centres), size=size)
        normal = rng.normal(size=(size, self.centres.shape[1]))
        shrunk = normal / np.sqrt(rng.chisquare(_FREEDOM, size) / _FREEDOM)[:, None]
        return np.asarray(self.centres[which] + np.einsum("nij,nj->ni", self.factors[which], shrunk))

    def log_density(self, points: Floats) -> Floats:
        """Log density at points (draw, cell)."""
        d = self.centres.shape[1]
        constant = gammaln((_FREEDOM + d) / 2) - gammaln(_FREEDOM / 2) - d / 2 * np.log(_FREEDOM * np.pi)
        inverse = np.linalg.inv(self.factors)
        logdet = np.log(np.abs(np.diagonal(self.factors, axis1=1, axis2=2))).sum(axis=1)
        away = np.einsum("kij,nkj->nki", inverse, points[:, None] - self.centres)
        log_t = constant - logdet - (_FREEDOM + d) / 2 * np.log1p((away**2).sum(axis=2) / _FREEDOM)
        return np.asarray(logsumexp(log_t, axis=1) - np.log(len(self.centres)))


def temper(log_weights: Floats, wanted: float) -> Floats:
    """The weights to the largest power, at most one, at which so many draws count, in logs; as many as possible."""
    finite = np.where(np.isfinite(log_weights), log_weights - log_weights.max(), -1e300)
    wanted = min(wanted, 0.5 * (finite > -1e299).sum())

    def counted(power: float) -> float:
        weights = np.exp(power * finite)
        return float(weights.sum() ** 2 / (weights**2).sum())

    if counted(1.0) >= wanted:
        return finite
    low, high = 0.0, 1.0
    for _ in range(40):
        power = 0.5 * (low + high)
        low, high = (power, high) if counted(power) >= wanted else (low, power)
    return low * finite


def refine_proposal(
    points: Floats,
    log_weights: tuple[Floats, Floats],
    prior: Callable[[int], Floats] | None,
    density: Callable[[Floats], tuple[Floats, Floats, Floats]],
    enough: Callable[[Floats, Floats], bool],
    size: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Draws of a better proposal and their log weights under each hypothesis and relative to the prior.

    `prior` makes so many fresh draws of it (None where its density is known up to a constant only), `density` gives the
    log joint density of points under each hypothesis and their log prior, `enough` judges the weights of a stage.
    """
    for _ in range(STAGES):
        mixture = Mixture.around(points, _evenly(*log_weights), rng)
        few = 0 if prior is None else int(_OF_PRIOR * size)
        points = mixture.draw(size - few, rng)
        points = points if prior is None else np.concatenate([points, prior(few)])
        present, out, base = density(points)
        proposal = mixture.log_density(points)
        if prior is not None:
            proposal = np.logaddexp(np.log1p(-_OF_PRIOR) + proposal, np.log(_OF_PRIOR) + base)
        log_weights = present - proposal, out - proposal
        if enough(*log_weights):
            break
    return points, *log_weights, np.logaddexp(present, out) - base


def _evenly(present: Floats, out: Floats) -> Floats:
    """Log weights of which half are of each hypothesis, so that draws are made where the rarer one has its mass too."""
    totals = logsumexp(present), logsumexp(out)
    kept = [one - total for one, total in zip((present, out), totals, strict=True) if total > -np.inf]
    return np.asarray(logsumexp(kept, axis=0))
