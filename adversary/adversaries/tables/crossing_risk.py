"""Exact risk from tables that cross: others' counts are summed out, for every finest cell at once.

Averages are over simulated releases, one set for all cells. The noise of every count of every table is drawn by the
inverse distribution function from a scrambled Sobol sequence. Eight independent scramblings give the standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln, ndtri, xlogy

from adversary._core import Floats, Integers, Seed, as_array, blocks
from adversary.adversaries.tables.cell_risks import CellRisks, risks_of_releases
from adversary.adversaries.tables.crossing import row_likelihoods
from adversary.adversaries.tables.elimination import Elimination
from adversary.adversaries.tables.published import Joined, TableAdversary
from adversary.privacy.mechanisms import Mechanism

# Largest number of terms for all releases of one audit; some seconds.
MOST_WORK = 1.5e9
SHIFTS, LEAST, DRAWS = 8, 32, 256
"""Number of scrambled sequences, and the smallest and largest number of releases of each."""

# Largest number of cells for which an elimination order is searched.
MOST_CELLS = 20_000
LEFT_OUT = 24.0
"""Nats by which the likelihood of a count outside its window has fallen at least: under 1e-9 in a probability."""
_MEMORY = 2e7

# Largest dimension of scipy's Sobol sequence.
_SOBOL = 21_201


@dataclass(frozen=True)
class CrossingRisk:
    """Tables that cross, an adversary and a truth.

    Parameters
    ----------
    world : tables and their finest cells
    who : the adversary
    counts : true counts of people, (cell,)
    """

    world: Joined
    who: TableAdversary
    counts: Integers

    @property
    def feasible(self) -> bool:
        """True if the smallest number of releases stays within MOST_WORK."""
        return self.world.size <= MOST_CELLS and self.plan.terms * SHIFTS * LEAST <= MOST_WORK

    @cached_property
    def plan(self) -> Elimination:
        """The order in which counts are summed out."""
        shape = self.world.population.counts.shape
        index = np.indices(shape).reshape(len(shape), -1).T
        rows = [query.rows for query in self.world.queries]
        return Elimination(rows, self.windows.width, index, MOST_WORK / (SHIFTS * LEAST))

    @cached_property
    def windows(self) -> _CountRanges:
        """The range of counts of each cell that is summed."""
        return _CountRanges.of(self.world, self.who, self.counts)

    def risks(self, limit: float, rng: Seed, draws: int | None = None) -> CellRisks:
        """The risk in each cell, averaged over releases of the truth.

        Parameters
        ----------
        limit : the largest |log Bayes factor| that is tolerated, nats
        rng : seed of the releases
        draws : releases of each of the eight sequences, a power of two; by default as many as fit in `MOST_WORK`

        Returns
        -------
        CellRisks, (cell,) each

        Raises
        ------
        ValueError : a belief under which simulated releases are impossible, in or out
        """
        if draws is None:
            most = min(DRAWS, MOST_WORK / (self.plan.terms * SHIFTS))
            draws = 2 ** int(np.log2(max(most, LEAST)))
        drawn = drawn_tables(self.world, self.counts, draws, rng)
        values = np.concatenate(list(self.log_bayes_factors(drawn)), axis=1)
        if (ruled_out := np.flatnonzero(np.isnan(values).any(axis=1))).size:
            people = self.world.population
            cell = [int(i) for i in np.unravel_index(int(ruled_out[0]), people.counts.shape)]
            raise ValueError(
                "adversary: belief must leave what is published possible, got releases that it rules out, in or out, "
                f"for {', '.join(people.label(cell).values())}: give a belief that reaches the largest count, "
                f"{self.counts.max()}"
            )
        return risks_of_releases(values, self.who.prior, np.minimum(self.counts, 1), limit, blocks=SHIFTS)

    def log_bayes_factors(self, noisy: Sequence[Floats]) -> Iterator[Floats]:
        """Log Bayes factors of every cell, nats, in blocks (cell, release) of some releases.

        Parameters
        ----------
        noisy : releases of each table, (release, row)
        """
        releases, each = len(noisy[0]), int(np.clip(_MEMORY / self.plan.stored, 1, 256))
        for start in range(0, releases, each):
            part = [one[start : start + each] for one in noisy]
            laws = self.windows.laws(part)
            messages = self.plan.run(laws, row_likelihoods(self.world.noises, part))
            log_factors = np.zeros((self.world.size, len(part[0])))
            for cell, message in enumerate(messages):
                law, offset = laws[cell]
                log_factors[cell] = self._factor(cell, message, law, offset)
            yield log_factors

    def _factor(self, cell: int, message: Floats, law: Floats, offset: Any) -> Floats:
        """Log Bayes factors of one cell, (release,): others plus the target, against others only, known or averaged."""
        if self.who.knows == "cell":
            others = int(self.counts[cell]) - min(int(self.counts[cell]), 1)
            place = np.clip(others - np.asarray(offset).astype(np.int64), 0, message.shape[1] - 2)[:, None]
            out, present = (np.take_along_axis(message, place + k, axis=1)[:, 0] for k in (0, 1))
        else:
            out, present = (message * law).sum(axis=1), (message[:, 1:] * law[:, :-1]).sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(present) - np.log(out))


@dataclass(frozen=True)
class _CountRanges:
    """Ranges of counts of the cells: from a fixed count on, or around the release of a table row with this cell only.

    Parameters
    ----------
    width : number of counts, (cell,)
    first : smallest count, (cell,), for cells without such a row
    shown : for each cell the table and the row that holds it alone, (-1, 0) without one, (cell, 2)
    reach : largest distance of a release from the count, by table
    believed : distribution of others by cell; None for a flat belief
    least : others known to be in each cell, (cell,)
    """

    width: Integers
    first: Integers
    shown: Integers
    reach: tuple[int, ...]
    believed: Any
    least: Integers

    @classmethod
    def of(cls, world: Joined, who: TableAdversary, counts: Integers) -> _CountRanges:
        """The ranges for releases of these true counts."""
        reach = tuple(math.ceil(noise.tail_radius(LEFT_OUT)) for noise in world.noises)
        shown = np.tile([-1, 0], (world.size, 1))
        most = np.full(world.size, np.inf)
        for i in sorted(range(len(reach)), key=lambda i: -reach[i]):
            query = world.queries[i]
            alone = np.bincount(query.rows, minlength=query.size)[query.rows] == 1
            shown[alone] = np.stack([np.full(int(alone.sum()), i), query.rows[alone]], axis=1)
            most = np.minimum(most, world.sums(counts)[i].astype(np.int64)[query.rows] + 2.0 * reach[i] + 1.0)
        least = np.minimum(known_least(world, who), counts)
        first = least.copy()
        own = shown[:, 0] >= 0
        width = np.where(own, 2 * np.array([*reach, 0])[shown[:, 0]] + 3, most - first + 2).astype(np.int64)
        believed = None
        if who.belief is not None:
            believed = believed_laws(world, who)
            of_law = {id(law): law.bulk() for law in believed}
            ends = np.array([of_law[id(law)] for law in believed], dtype=np.float64)
            low, high = ends[:, 0] + least, ends[:, 1] + least + 1.0
            if who.knows == "cell":
                low, high = np.minimum(low, np.maximum(counts - 1, 0)), np.maximum(high, counts + 1.0)
            narrow = high - low + 1.0 <= width
            first, width = np.where(narrow, low, first), np.where(narrow, high - low + 1.0, width)
            shown[narrow] = [-1, 0]
        return cls(width.astype(np.int64), first.astype(np.int64), shown, reach, believed, least)

    def laws(self, noisy: Sequence[Floats]) -> dict[int, tuple[Floats, Any]]:
        """By cell, the belief about its counts (release, count), scaled to a maximum of 1, and the first count."""
        laws_by_cell: dict[int, tuple[Floats, Any]] = {}
        for cell, (table, row) in enumerate(self.shown):
            if table < 0:
                offset = np.full(len(noisy[0]), float(self.first[cell]))
            else:
                offset = np.rint(noisy[table][:, row]) - self.reach[table] - 1.0
            count = offset[:, None] + np.arange(self.width[cell], dtype=np.float64) - self.least[cell]
            if self.believed is None:
                law = (count >= 0.0).astype(np.float64)
            else:
                log = self.believed[cell].log_pmf(count)
                top = log.max(axis=1, keepdims=True)
                law = np.exp(log - np.where(np.isfinite(top), top, 0.0))
            laws_by_cell[cell] = law, offset
        return laws_by_cell


def known_least(world: Joined, who: TableAdversary) -> Integers:
    """Numbers of others whom the adversary knows to be in each cell.

    Parameters
    ----------
    world : the tables over their finest cells
    who : the adversary; `at_least` is over the axes of the file

    Returns
    -------
    People, (cell,)
    """
    if who.at_least is None:
        return np.zeros(world.size, dtype=np.int64)
    return np.asarray(world.over_cells("at_least", who.at_least).astype(np.int64))


@dataclass(frozen=True)
class PoissonLaw:
    """A Poisson distribution of others with the methods of `Others`, without scipy's slow checks."""

    mean: float

    def log_pmf(self, count: Floats) -> Floats:
        """Log probability of each count, minus infinity below 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log = xlogy(np.maximum(count, 0.0), self.mean) - self.mean - gammaln(np.maximum(count, 0.0) + 1.0)
        return np.where(count >= 0.0, log, -np.inf)

    def bulk(self) -> tuple[int, int]:
        """First and last count of a range with at most 1e-18 of the mass on either side."""
        reach = 9.0 * math.sqrt(self.mean)
        return max(math.floor(self.mean - reach), 0), math.ceil(self.mean + reach + 20.0) if self.mean else 0


def believed_laws(world: Joined, who: TableAdversary) -> list[Any]:
    """The distribution of others in each cell, beyond those known to be there, (cell,)."""
    if not isinstance(who.belief, np.ndarray):
        return [who.belief] * world.size
    mean = world.over_cells("belief", who.belief)
    laws = {one: PoissonLaw(float(one)) for one in np.unique(mean)}
    return [laws[one] for one in mean]


def drawn_tables(world: Joined, counts: Integers, draws: int, rng: Seed) -> list[Floats]:
    """Simulated releases of every table, eight sequences one after another.

    Parameters
    ----------
    world : tables and their finest cells
    counts : true counts of people, (cell,)
    draws : releases of each sequence, a power of two
    rng : seed

    Returns
    -------
    By table, noisy counts (release, row), 8 * draws releases
    """
    from scipy.stats import qmc

    sums = world.sums(counts)
    numbers = sum(query.size for query in world.queries)
    every: list[list[Floats]] = [[] for _ in sums]
    for seed in blocks.seed_sequence(rng).spawn(SHIFTS):
        generator = np.random.default_rng(seed)
        points = (
            qmc.Sobol(numbers, rng=generator).random(draws) if numbers <= _SOBOL else generator.random((draws, numbers))
        )
        start = 0
        for table, (noise, total) in enumerate(zip(world.noises, sums, strict=True)):
            part = points[:, start : start + total.size]
            every[table].append(_released(noise, total.astype(np.int64), part, generator))
            start += total.size
    return [np.concatenate(one) for one in every]


def _released(noise: Mechanism, counts: Integers, uniform: Floats, generator: np.random.Generator) -> Floats:
    """Releases of counts (row,) by the inverse distribution function at (release, row); plain draws if it has none."""
    if not noise.is_continuous:
        values_drawn = np.zeros(uniform.shape)
        common = noise.is_additive
        for count in [0] if common else np.unique(counts):
            values, weights = noise.releases(int(count))
            upto = np.cumsum(weights)
            here = np.ones(counts.size, dtype=bool) if common else counts == count
            place = np.searchsorted(upto, uniform[:, here] * upto[-1], side="right")
            values_drawn[:, here] = values[np.minimum(place, values.size - 1)]
        return values_drawn + counts if common else values_drawn
    if noise.is_additive and noise.parabola is not None:
        tiny = np.finfo(np.float64).tiny
        return np.asarray(counts + np.sqrt(noise.variance) * ndtri(np.clip(uniform, tiny, 1.0 - 1e-16)))
    return as_array(noise.sample(np.broadcast_to(counts, uniform.shape), generator))
