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
OF_PRIOR = 0.1
"""Share of the prior among the proposals, so that no weight can exceed ten times the likelihood."""
_CENTRES = 100
_NEIGHBOURS = (
    0.15,
    0.03,
)  # shares of the points near a centre: of every other one fewer, so that small modes have theirs
_FREEDOM = 5.0
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
        order = ((centres[:, None] / unit - scaled) ** 2).sum(axis=2).argsort(axis=1)
        wide, narrow = (max(int(share * _POINTS), 2 * (points.shape[1] + 1)) for share in _NEIGHBOURS)
        spread = np.concatenate([_covariances(chosen[order[0::2, :wide]]), _covariances(chosen[order[1::2, :narrow]])])
        centres = np.concatenate([centres[0::2], centres[1::2]])
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


def _covariances(groups: Floats) -> Floats:
    """Of points (group, point, cell)."""
    middle = groups - groups.mean(axis=1, keepdims=True)
    return np.asarray(middle.transpose(0, 2, 1) @ middle / groups.shape[1])


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


def starting_points(points: Floats, weights: Floats, chains: int, rng: np.random.Generator) -> Floats:
    """Points (chain, cell) to start chains at: draws by tempered weights, each far from those before it.

    Parameters
    ----------
    points, weights : draws (draw, cell), and their weights; where all are zero, every draw counts
    chains : number of starting points
    rng : generator
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights) if weights.any() else np.zeros(len(points))
    tempered = np.exp(temper(log_weights, 25.0 * (points.shape[1] + 2)))
    drawn = points[rng.choice(len(points), 25 * chains, p=tempered / tempered.sum())]
    scaled = drawn / (drawn.std(axis=0) + 1e-300)
    chosen, near = [0], np.full(len(drawn), np.inf)
    for _ in range(chains - 1):
        near = np.minimum(near, ((scaled - scaled[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(near.argmax()))
    return drawn[chosen]


@dataclass(frozen=True)
class Proposal:
    """Draws of a mixture, with a share of what was proposed before it: draws of the prior, or of an earlier proposal.

    Parameters
    ----------
    mixture : its components
    before : what was proposed before; None for the prior
    share : share of the draws that are like those before
    """

    mixture: Mixture
    before: Proposal | None = None
    share: float = OF_PRIOR

    def log_density(self, points: Floats, log_prior: Floats) -> Floats:
        """Log density at points (draw, cell) whose log density under the prior is given."""
        found = self.mixture.log_density(points)
        if not self.share:
            return found
        earlier = log_prior if self.before is None else self.before.log_density(points, log_prior)
        return np.asarray(np.logaddexp(np.log1p(-self.share) + found, np.log(self.share) + earlier))

    def draw(self, earlier: Floats, size: int, rng: np.random.Generator) -> Floats:
        """Points (draw, cell), some of them from `earlier` ones."""
        few = int(self.share * size)
        drawn = self.mixture.draw(size - few, rng)
        return np.concatenate([drawn, earlier[rng.integers(len(earlier), size=few)]]) if few else drawn


@dataclass(frozen=True)
class Refined:
    """Draws of a better proposal.

    Parameters
    ----------
    points : (draw, cell)
    log_joint : log joint density under each hypothesis, (draw,) each
    log_prior, log_proposal : log density under the prior and under the proposal, (draw,) each
    proposal : what made the draws
    """

    points: Floats
    log_joint: tuple[Floats, Floats]
    log_prior: Floats
    log_proposal: Floats
    proposal: Proposal

    @property
    def log_weights(self) -> tuple[Floats, Floats]:
        """Under each hypothesis, (draw,) each."""
        return self.log_joint[0] - self.log_proposal, self.log_joint[1] - self.log_proposal


def refine_proposal(
    points: Floats,
    log_weights: tuple[Floats, Floats],
    proposal: Callable[[Mixture], Proposal],
    density: Callable[[Floats], tuple[Floats, Floats, Floats]],
    enough: Callable[[Floats, Floats], bool],
    size: int,
    rng: np.random.Generator,
) -> Refined:
    """Draws of a better proposal.

    Parameters
    ----------
    points, log_weights : draws (draw, cell) to start from, and their log weights under each hypothesis, (draw,) each
    proposal : the proposal that a mixture is a part of
    density : log joint density of points under each hypothesis, and their log density under the prior
    enough : whether the log weights of a stage will do
    size : number of draws of every stage
    rng : generator
    """
    earlier = points
    for _ in range(STAGES):
        found = proposal(Mixture.around(points, _evenly(*log_weights), rng))
        points = found.draw(earlier, size, rng)
        present, out, log_prior = density(points)
        stage = Refined(points, (present, out), log_prior, found.log_density(points, log_prior), found)
        log_weights = stage.log_weights
        if enough(*log_weights):
            break
    return stage


def _evenly(present: Floats, out: Floats) -> Floats:
    """Log weights of which half are of each hypothesis, so that draws are made where the rarer one has its mass too."""
    totals = logsumexp(present), logsumexp(out)
    kept = [one - total for one, total in zip((present, out), totals, strict=True) if total > -np.inf]
    return np.asarray(logsumexp(kept, axis=0))
