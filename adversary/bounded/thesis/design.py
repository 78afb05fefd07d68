"""Design of a simulation study: its cells and analyses, with names and seeds that depend on nothing else.

A cell is a sample size, a true (mu, sigma) and a pair of budgets. The seeds of its data sets are children of the
study's seed by the cell's own numbers, not by its position: priors and the use of the bounds are compared on the same
data sets, and adding cells, priors or data sets does not change the others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import BLOCK, check_bounds, check_number, check_positive, check_whole, one_number, work_name
from adversary.bounded.bounded_posterior import FEASIBILITIES
from adversary.bounded.prior import Flat, NormalInverseGamma, Prior, as_prior
from adversary.bounded.thesis.populations import Population, as_population

PARAMETERS: Mapping[str, Callable[[float, float], float]] = {
    "mu": lambda mu, sigma: mu,
    "sigma": lambda mu, sigma: sigma,
    "sigma2": lambda mu, sigma: sigma * sigma,
}
"""Parameters that can be covered, as functions of the population's (mu, sigma)."""


class Trial(NamedTuple):
    """Cell of the study: sample size, true mu and sigma, budgets of mean and variance."""

    n: int
    mu: float
    sigma: float
    epsilon: tuple[float, float]

    def seed(self, root: np.random.SeedSequence, block: int) -> np.random.SeedSequence:
        """Seed of one block of data sets: child of `root` keyed by the cell's numbers and the block number."""
        words = np.frombuffer(hashlib.sha256(json.dumps(self).encode()).digest(), dtype="<u4")
        key = (*root.spawn_key, *(int(word) for word in words), block)
        return np.random.SeedSequence(root.entropy, spawn_key=key, pool_size=root.pool_size)


class Analysis(NamedTuple):
    """Analysis: one prior, with or without the bounds."""

    name: str
    prior: Prior
    constrained: bool


@dataclass(frozen=True, eq=False)
class Design:
    """Checked design of a study: see `coverage.coverage_study`."""

    n: tuple[int, ...]
    truths: Mapping[str, tuple[float, float]]
    epsilon: tuple[tuple[float, float], ...]
    priors: Mapping[str, Prior]
    constrained: tuple[bool, ...]
    datasets: int
    prob: float
    bounds: tuple[float, float]
    parameter: str
    population: Population
    feasibility: str

    @property
    def cells(self) -> Iterator[Trial]:
        """All cells, n slowest."""
        for n, (mu, sigma), epsilon in product(self.n, self.truths.values(), self.epsilon):
            yield Trial(n, mu, sigma, epsilon)

    @property
    def analyses(self) -> list[Analysis]:
        """All pairs of a prior and a use of the bounds, prior slowest."""
        pairs = product(self.priors.items(), self.constrained)
        return [Analysis(name, prior, constrained) for (name, prior), constrained in pairs]

    @property
    def blocks(self) -> list[int]:
        """Data sets in every block of a cell."""
        return [min(BLOCK, self.datasets - start) for start in range(0, self.datasets, BLOCK)]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all cells and analyses: n, truth, epsilon, prior, constrained."""
        return len(self.n), len(self.truths), len(self.epsilon), len(self.priors), len(self.constrained)

    def label(self, root: np.random.SeedSequence, cell: Trial, analysis: Analysis, block: int) -> str:
        """Name of a stored block: a digest of all that its numbers depend on, and of nothing else.

        Laws and priors are known by what they do, on fixed draws and at fixed points, not by what they are called.
        """
        return work_name(
            root, cell, self.bounds, _sample_fingerprint(self.population, cell),
            _prior_fingerprint(analysis.prior, self.bounds), analysis.constrained,
            self.feasibility if analysis.constrained else None, self.parameter, self.prob, block, self.blocks[block],
        )  # fmt: skip


def design(
    n: Any,
    truths: Any,
    epsilon: ArrayLike,
    priors: Any,
    constrained: Any,
    datasets: int,
    prob: float,
    bounds: Any,
    parameter: str,
    population: Any,
    feasibility: str,
) -> Design:
    """Design from the arguments of `coverage_study`; ValueError naming the argument, the rule and the value."""
    checked_bounds = check_bounds("bounds", bounds)
    if parameter not in PARAMETERS:
        raise ValueError(f"parameter must be one of {', '.join(PARAMETERS)}, got {parameter!r}")
    if not 0.0 < one_number("prob", prob) < 1.0:
        raise ValueError(f"prob must lie between 0 and 1, got {prob!r}")
    if feasibility not in FEASIBILITIES:
        raise ValueError(f"feasibility must be one of {', '.join(FEASIBILITIES)}, got {feasibility!r}")
    sizes = tuple(int(size) for size in np.atleast_1d(check_whole("n", n, minimum=2)))
    constrained_values = tuple(np.atleast_1d(constrained).tolist())
    if any(not isinstance(use, bool) for use in constrained_values):
        raise TypeError(f"constrained must be True, False or a sequence of them, got {constrained!r}")
    return Design(
        n=_distinct("n", sizes),
        truths=_truths(truths, checked_bounds),
        epsilon=_distinct("epsilon", tuple(_budget_pairs(epsilon))),
        priors=_priors(priors),
        constrained=_distinct("constrained", constrained_values),
        datasets=int(check_whole("datasets", one_number("datasets", datasets), minimum=1)),
        prob=float(prob),
        bounds=checked_bounds,
        parameter=parameter,
        population=as_population(population, checked_bounds),
        feasibility=feasibility,
    )


def _distinct[T](name: str, values: tuple[T, ...]) -> tuple[T, ...]:
    """The values; ValueError if there are none, or two are equal."""
    if not values:
        raise ValueError(f"{name} must hold at least one value, got none")
    if len(set(values)) < len(values):
        raise ValueError(f"{name} must not name a cell twice, got {list(values)}")
    return values


def _truths(truths: Any, bounds: tuple[float, float]) -> dict[str, tuple[float, float]]:
    """True (mu, sigma) by name; those without a name are named by their numbers."""
    if isinstance(truths, Mapping):
        by_name = {str(name): pair for name, pair in truths.items()}
    else:
        pairs = list(truths) if np.iterable(truths) else [truths]
        if pairs and not any(np.ndim(part) for part in pairs):
            pairs = [truths]
        for pair in pairs:
            _check_pair(pair)
        by_name = {"mu = {:g}, sigma = {:g}".format(*check_number("truths", pair)): pair for pair in pairs}
        _distinct("truths", tuple(tuple(pair) for pair in pairs))
        if len(by_name) < len(pairs):  # numbers that look alike
            by_name = {f"mu = {pair[0]!r}, sigma = {pair[1]!r}": pair for pair in pairs}
    parsed = {}
    for name, pair in by_name.items():
        _check_pair(pair)
        mu, sigma = float(pair[0]), float(pair[1])
        if not bounds[0] <= mu <= bounds[1]:
            raise ValueError(f"truths must have mu within bounds={bounds}, got {mu!r}")
        check_positive("sigma of truths", sigma)
        parsed[name] = (mu, sigma)
    _distinct("truths", tuple(parsed.values()))
    return parsed


def _check_pair(pair: Any) -> None:
    """ValueError unless a truth is a pair (mu, sigma)."""
    if isinstance(pair, str) or np.shape(pair) != (2,):
        raise ValueError(f"truths must be pairs (mu, sigma), got {pair!r}")


def _budget_pairs(epsilon: Any) -> Iterator[tuple[float, float]]:
    """Yield budgets (mean, variance): (e, e) for a number e, a tuple of two numbers itself, each entry of a list."""
    if isinstance(epsilon, tuple) and epsilon and not any(np.ndim(part) for part in epsilon):
        if len(epsilon) != 2:
            raise ValueError(
                f"epsilon as a tuple of numbers is one cell, (mean, variance), got {epsilon!r}: for several cells, "
                "each of one number, give a list"
            )
        epsilon = [epsilon]
    elif not isinstance(epsilon, (list, tuple)) and np.ndim(epsilon) == 0:
        epsilon = [epsilon]
    for part in epsilon:
        pair = check_positive("epsilon", part)
        if pair.shape not in ((), (2,)):
            raise ValueError(f"epsilon must be numbers or pairs (mean, variance), got {part!r}")
        first, second = np.broadcast_to(pair, 2).tolist()
        yield first, second


def _priors(priors: Any) -> dict[str, Prior]:
    """Priors by name; a single one is named by its text or class."""
    if not isinstance(priors, Mapping):
        priors = {priors if isinstance(priors, str) else type(priors).__name__: priors}
    parsed = {str(name): as_prior(prior) for name, prior in priors.items()}
    for name, prior in parsed.items():
        if isinstance(prior, NormalInverseGamma) and prior.shape != ():
            raise ValueError(f"priors must hold one prior under each name, got {prior.shape} of them as {name!r}")
    _distinct("priors", tuple(parsed))
    return parsed


def _sample_fingerprint(population: Population, cell: Trial) -> str:
    """Hash of a population's draws from a fixed generator: it identifies functions by their results."""
    values = population(cell.mu, cell.sigma, (2, min(cell.n, 256)), np.random.default_rng(0))
    return hashlib.sha256(np.ascontiguousarray(values, dtype=np.float64).tobytes()).hexdigest()


def _prior_fingerprint(prior: Prior, bounds: tuple[float, float]) -> tuple[str, str]:
    """Class of a prior, and hash of its densities at fixed points, some of them infeasible for bounded data."""
    steps = np.arange(1.0, 65.0)
    mu = bounds[0] + (bounds[1] - bounds[0]) * (2.0 * (steps * 0.6180339887 % 1.0) - 0.5)
    sigma2 = (bounds[1] - bounds[0]) ** 2 * 10.0 ** (-5.0 * (steps * 0.7548776662 % 1.0))
    with np.errstate(all="ignore"):
        density = prior.log_prob(mu, sigma2) if isinstance(prior, (Flat, NormalInverseGamma)) else prior(mu, sigma2)
    values = np.ascontiguousarray(np.broadcast_to(density, mu.shape), dtype=np.float64)
    return type(prior).__name__, hashlib.sha256(values.tobytes()).hexdigest()
