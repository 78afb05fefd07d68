r"""Adaptive importance sampling (population Monte Carlo) for a release that prior draws do not represent well.

Each stage tempers the weights until many draws count, and places Student t components around some of these draws.
Each component has the covariance of its own neighbours, so that distant modes and narrow necks get components of their
own. New draws come from this mixture, and stages repeat until the weights are reliable. Draws of all stages are weighed
together, by the mixture of all proposals:

.. math:: w_i = \frac{p(\theta_i, y)}{\sum_t n_t q_t(\theta_i) / \sum_t n_t}

A mode that a later mixture has lost is still represented by earlier draws, with their weights, and no weight exceeds
the likelihood times a constant. Modes far from every draw of the prior remain undetected; see `fit_limits`.

References
----------
Cappe, Douc, Guillin, Marin and Robert (2008), "Adaptive importance sampling in general mixture classes", Statistics
and Computing 18.
Cornuet, Marin, Mira and Robert (2012), "Adaptive multiple importance sampling", Scandinavian Journal of Statistics 39.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

Floats = NDArray[np.float64]

# Largest number of stages with all draws.
STAGES = 8

# Largest number of additional pilot stages, with few draws each.
_PILOTS = 8

# Largest number of continuous cells: in more dimensions a mixture of so few components fits poorly.
LARGEST_DIMENSION = 12
_CENTRES = 100
# Shares of the points that are neighbours of a centre: wide for every other centre, narrow for the rest.
_NEIGHBOURS = 0.15, 0.03
# Largest ratio of the neighbours' volume to that of the nearest few: farther points belong to another mode.
_FARTHER = 40.0
_FREEDOM = 5.0
_WIDER = 1.3
# Number of draws among which neighbours are searched.
_POINTS = 800
# Effective number of draws that tempering leaves.
_COUNTED = 400.0
# Nats below the largest weight at which a draw is dropped.
_NEGLIGIBLE = 60.0
_AT_ONCE = 4096
# Relative effective sample size of a pilot stage at which the stages with all draws begin.
_PILOTED = 0.1


@dataclass(frozen=True)
class Mixture:
    """Mixture of Student t components: centres (component, cell), and Cholesky factors of their scale matrices."""

    centres: Floats
    factors: Floats

    @classmethod
    def around(cls, points: Floats, log_weights: Floats, rng: np.random.Generator) -> Mixture:
        """Mixture around points (draw, cell), chosen by tempered weights."""
        weights = np.exp(temper(log_weights, _COUNTED))
        place = rng.choice(len(points), _POINTS, p=weights / weights.sum())
        chosen, centres = points[np.unique(place)], points[place[:: _POINTS // _CENTRES]]
        unit = np.std(points[place], axis=0) + 1e-12 * np.std(points, axis=0) + 1e-300
        distances = ((centres[:, None] / unit - chosen / unit) ** 2).sum(axis=2)
        largest = len(chosen)
        least = min(2 * (points.shape[1] + 1), largest)
        wide, narrow = (min(max(int(share * largest), least), largest) for share in _NEIGHBOURS)
        order = distances.argsort(axis=1)[:, :wide]
        near = np.take_along_axis(distances, order, axis=1)
        neighbours = near <= _FARTHER ** (2.0 / points.shape[1]) * near[:, least - 1 : least]
        neighbours[1::2, narrow:] = False
        share = neighbours / neighbours.sum(axis=1, keepdims=True)
        groups = chosen[order]
        middle = groups - (share[..., None] * groups).sum(axis=1, keepdims=True)
        spread = (middle * share[..., None]).transpose(0, 2, 1) @ middle
        floor = np.maximum(np.diagonal(spread, axis1=1, axis2=2), 1e-6 * unit**2) * 1e-3
        spread = spread + floor[:, :, None] * np.eye(points.shape[1])
        return cls(centres, _WIDER * np.linalg.cholesky(spread))

    def draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw points (draw, cell)."""
        which = rng.integers(len(self.centres), size=size)
        normal = rng.normal(size=(size, self.centres.shape[1]))
        shrunk = normal / np.sqrt(rng.chisquare(_FREEDOM, size) / _FREEDOM)[:, None]
        return np.asarray(self.centres[which] + np.einsum("nij,nj->ni", self.factors[which], shrunk))

    def log_density(self, points: Floats) -> Floats:
        """Log density at points (draw, cell)."""
        d = self.centres.shape[1]
        constant = gammaln((_FREEDOM + d) / 2) - gammaln(_FREEDOM / 2) - d / 2 * np.log(_FREEDOM * np.pi)
        inverse = np.linalg.inv(self.factors).transpose(0, 2, 1)
        logdet = np.log(np.abs(np.diagonal(self.factors, axis1=1, axis2=2))).sum(axis=1)
        log_density = np.empty(len(points))
        for start in range(0, len(points), _AT_ONCE):
            away = (points[None, start : start + _AT_ONCE] - self.centres[:, None]) @ inverse
            log_t = -(_FREEDOM + d) / 2 * np.log1p((away**2).sum(axis=2) / _FREEDOM) - logdet[:, None]
            log_density[start : start + _AT_ONCE] = logsumexp(log_t, axis=0)
        return np.asarray(log_density + constant - np.log(len(self.centres)))


def temper(log_weights: Floats, wanted: float) -> Floats:
    """Log weights times the largest power, at most one, whose effective sample size is `wanted`, if possible."""
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
    """Starting points (chain, cell) of chains: draws by tempered weights, each far from those before it.

    Parameters
    ----------
    points, weights : draws (draw, cell), and their weights (draw,); if all are zero, draws count equally
    chains : number of starting points
    rng : generator

    Returns
    -------
    Points (chain, cell).
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights) if weights.any() else np.zeros(len(points))
    tempered = np.exp(temper(log_weights, _COUNTED))
    drawn = points[rng.choice(len(points), 25 * chains, p=tempered / tempered.sum())]
    scaled = drawn / (drawn.std(axis=0) + 1e-300)
    chosen, near = [0], np.full(len(drawn), np.inf)
    for _ in range(chains - 1):
        near = np.minimum(near, ((scaled - scaled[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(near.argmax()))
    return drawn[chosen]


@dataclass(frozen=True)
class Proposal:
    """Mixture of all proposals so far: the prior or an earlier proposal, and one mixture per stage.

    Parameters
    ----------
    mixtures : one per stage
    sizes : number of draws of each mixture
    earlier : number of draws from the earlier proposal, 0 if they are left out
    before : the earlier proposal; None for the prior
    """

    mixtures: tuple[Mixture, ...]
    sizes: tuple[int, ...]
    earlier: int
    before: Proposal | None = None

    def log_density(self, points: Floats, log_prior: Floats) -> Floats:
        """Log density at points (draw, cell) whose log density under the prior is given."""
        parts = [mixture.log_density(points) for mixture in self.mixtures]
        return self.combined(self.earlier_density(points, log_prior), parts)

    def combined(self, earlier: Floats, parts: Sequence[Floats]) -> Floats:
        """Log density of the whole, from those of the earlier proposal and of each mixture."""
        sizes = np.array([self.earlier, *self.sizes], dtype=np.float64)[:, None]
        return np.asarray(logsumexp([earlier, *parts], axis=0, b=sizes / sizes.sum()))

    def with_one_more(self, mixture: Mixture, size: int) -> Proposal:
        """This proposal with one more mixture and `size` draws of it."""
        return Proposal((*self.mixtures, mixture), (*self.sizes, size), self.earlier, self.before)

    def earlier_density(self, points: Floats, log_prior: Floats) -> Floats:
        """Log density of the earlier proposal."""
        return log_prior if self.before is None or not self.earlier else self.before.log_density(points, log_prior)


@dataclass(frozen=True)
class Worlds:
    """Draws with the log densities that determine their weights.

    Parameters
    ----------
    points : draws (draw, cell)
    log_joint : log joint density under each hypothesis, (draw,) each
    log_prior, log_density : log density under the prior, and under the proposal, (draw,)
    proposal : the proposal; None for the prior, or for draws that cannot be repeated
    pure : terms of the density at these points that do not depend on a release, (draw, state), if needed later
    """

    points: Floats
    log_joint: tuple[Floats, Floats]
    log_prior: Floats
    log_density: Floats
    proposal: Proposal | None = None
    pure: Floats | None = None

    @property
    def log_weights(self) -> tuple[Floats, Floats]:
        """Log weights under each hypothesis, (draw,) each."""
        return self.log_joint[0] - self.log_density, self.log_joint[1] - self.log_density


def refine(
    start: Worlds,
    mixes: bool,
    density: Callable[[Floats], tuple[Floats, Floats, Floats, Floats]],
    enough: Callable[[Floats, Floats], bool],
    size: int,
    rng: np.random.Generator,
    guide: Worlds | None = None,
    pilot: int | None = None,
) -> Worlds:
    """Adapt proposals in stages, and return all draws with a non-negligible weight.

    Parameters
    ----------
    start : draws to start from
    mixes : whether the normalized density of `start` is known; otherwise these draws are left out of the result
    density : function of points (draw, cell) to the log joint density under each hypothesis, the log prior density, and
        `pure`
    enough : function of the log weights under each hypothesis that ends the stages by returning True
    size : number of draws per stage
    rng : generator
    guide : additional points for the first mixture, which are not draws
    pilot : number of draws per pilot stage; pilot draws are left out of the result

    Returns
    -------
    Worlds of all stages.
    """
    drawn_now = size if pilot is None else min(pilot, size)
    proposal = Proposal((), (), len(start.points) if mixes else 0, start.proposal)
    heavy = np.any([part > part.max() - _NEGLIGIBLE for part in start.log_weights], axis=0) & mixes
    # Rows: log joint density under each hypothesis; log density under the prior, the earlier proposal, each mixture.
    columns = np.stack([*start.log_joint, start.log_prior, start.log_density])[:, heavy]
    points, population = start.points[heavy], start
    pure = None if start.pure is None else start.pure[heavy]
    first = points, columns, proposal, pure
    left = STAGES + (_PILOTS if drawn_now < size else 0)
    while left:
        near = [population, guide] if guide is not None and population is start else [population]
        log_weights = [np.concatenate(parts) for parts in zip(*(one.log_weights for one in near), strict=True)]
        mixture = Mixture.around(np.concatenate([one.points for one in near]), _evenly(*log_weights), rng)
        drawn = mixture.draw(drawn_now, rng)
        present, out, log_prior, own = density(drawn)
        parts = [one.log_density(drawn) for one in (*proposal.mixtures, mixture)]
        new = np.stack([present, out, log_prior, proposal.earlier_density(drawn, log_prior), *parts])
        columns = np.concatenate([np.vstack([columns, mixture.log_density(points)]), new], axis=1)
        points, proposal = np.concatenate([points, drawn]), proposal.with_one_more(mixture, drawn_now)
        pure = None if pure is None else np.concatenate([pure, own])
        log_density = proposal.combined(columns[3], [*columns[4:]])
        population = Worlds(points, (columns[0], columns[1]), columns[2], log_density, proposal, pure)
        left -= 1
        if enough(*population.log_weights):
            break
        effective = min(counted(part[-drawn_now:]) for part in population.log_weights)
        if drawn_now < size and effective >= _PILOTED * drawn_now:
            drawn_now, left = size, min(left, STAGES)
            # Pilot draws are dropped: later mixtures adapt to them, which would bias their weights downwards.
            points, columns, proposal, pure = first
    return population


def counted(log_weights: Floats) -> float:
    """Kish's effective number of draws from log weights; 0 if all are minus infinity."""
    top = log_weights.max(initial=-np.inf)
    if top == -np.inf:
        return 0.0
    weights = np.exp(log_weights - top)
    return float(weights.sum() ** 2 / (weights**2).sum())


def _evenly(present: Floats, out: Floats) -> Floats:
    """Log weights with equal totals per hypothesis, so that proposals also cover the rarer hypothesis."""
    totals = logsumexp(present), logsumexp(out)
    columns = [one - total for one, total in zip((present, out), totals, strict=True) if total > -np.inf]
    return np.asarray(logsumexp(columns, axis=0))
