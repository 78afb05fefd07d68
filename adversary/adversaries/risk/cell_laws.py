"""Distributions of the log Bayes factor for many cells of a table at once.

With additive whole-number noise and flat beliefs, cells with equal numbers of siblings differ only in the lower limit
of the sums below: others cannot be fewer than 0. They share their simulated noise and cumulative sums, and each cell
takes the sum up to its own limit. Let V be the number of others at the level above, a the noise of the siblings' sum
and b the noise of the total. The evidence for a count x, with true count x*, is

    sum over k <= V + a of P(siblings' noise = k) P(noise = x* - x + b - a + k) (message from above).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from adversary._core import Floats, Integers, Seed, blocks
from adversary.adversaries.path import Adversary, Path, Truth
from adversary.adversaries.plans import Plan
from adversary.adversaries.risk.bayes_factors import BayesFactorLaw
from adversary.adversaries.risk.law_of_plan import PRUNED, bayes_factor_law, is_bounded, own_release
from adversary.adversaries.risk.law_parts import DiscretePart, probable
from adversary.adversaries.risk.listed_releases import DRAWS, grid
from adversary.privacy.mechanisms import IntegerNoise, Mechanism

# Largest number of releases of the levels above that are listed with exact weights; otherwise simulated.
MOST_LISTED = 60_000

# Releases per batch, and largest number of cached sums over the steps above, for other cells.
_ROWS, _SHARED = 2**12, 48

# Simulated releases from a scrambled Sobol sequence: in smooth averages as accurate as many more random draws.
POINTS = 2**12


def laws_of_cells(
    plan: Plan, adversary: Adversary, truths: Sequence[Truth], *, rng: Seed = None
) -> list[BayesFactorLaw]:
    """The distribution of the log Bayes factor under each of many truths, for the same adversary.

    Parameters
    ----------
    plan : the published counts
    adversary : the adversary; if only differences of counts matter, its `known` need not fit every truth
    truths : checked true counts, from `settle_truth`
    rng : seed of simulated releases, if there are too many to list

    Returns
    -------
    list of BayesFactorLaw, as from `bayes_factor_law` one by one: equal if releases are listed, within standard errors
    if they are simulated. The stated standard errors are those of independent draws, larger than the actual ones

    >>> from adversary.privacy.mechanisms import Geometric
    >>> from adversary.adversaries.path import settle_truth
    >>> from adversary.adversaries.plans import Level
    >>> plan, adversary = Plan([Level("block", Geometric(1.0))]), Adversary(known=3)
    >>> law, = laws_of_cells(plan, adversary, [settle_truth(plan, adversary, {"block": 4})])
    >>> round(law.posterior_mean()[0], 6)
    0.606776
    """
    path = adversary.path(plan)
    flat = all(step.belief.flat for step in path.steps[1:])
    if not (shift_invariant(plan, adversary) and flat and len(path.steps) > 1 and adversary.sampling_rate == 1.0):
        return [bayes_factor_law(plan, adversary, truth, draws=DRAWS, rng=rng) for truth in truths]
    laws: list[Any] = [None] * len(truths)
    for target in {truth.target for truth in truths}:
        alike = [i for i, truth in enumerate(truths) if truth.target == target]
        cells = _Cells(plan, path, adversary.prior_log_odds, truths[alike[0]], blocks.seed_sequence(rng))
        others = np.array([_others(path, truths[i]) for i in alike])
        for i, law in zip(alike, cells.laws(others), strict=True):
            laws[i] = law
    return laws


def shift_invariant(plan: Plan, adversary: Adversary) -> bool:
    """True if only differences of counts matter: additive whole-number noise, and beliefs without an upper end.

    Parameters
    ----------
    plan : the published counts
    adversary : the adversary

    Returns
    -------
    bool
    """
    first, *above = adversary.level_beliefs(plan)
    additive = all(isinstance(level.mechanism, IntegerNoise) for level in plan.levels)
    alone = plan.cells == 1 and plan.postprocessing is None and first.known_count is not None
    return additive and alone and all(belief.flat or belief.known_count == 0 for belief in above)


def _others(path: Path, truth: Truth) -> list[int]:
    """True count of everybody outside the unit below, at each step above the lowest."""
    counts = truth.counts[:, 0]
    return [
        int(counts[above.levels[0]] - counts[below.link_level])
        for below, above in zip(path.steps[:-1], path.steps[1:], strict=True)
    ]


@dataclass(frozen=True)
class _Cells:
    """Cells with equal numbers of siblings, and the target on the same side."""

    plan: Plan
    path: Path
    log_odds: float
    example: Truth
    seed: np.random.SeedSequence

    def laws(self, others: Integers) -> Iterator[BayesFactorLaw]:
        """One distribution for each row of others, (cell, step above the lowest)."""
        laws_by_truth: dict[tuple[int, ...], BayesFactorLaw] = {}
        # With more others than this the limit at 0 lies outside the noise's support, and all cells are alike.
        clipped = np.minimum(others, [2 * noise.tail_radius() for noise in self._links])
        for upper in np.unique(clipped[:, 1:], axis=0):
            rows = (clipped[:, 1:] == upper).all(axis=1)
            lowest = np.unique(clipped[rows, 0])
            for own, evidence in zip(lowest, self._evidence(lowest, upper), strict=True):
                laws_by_truth[(int(own), *map(int, upper))] = self._law(evidence)
        return (laws_by_truth[tuple(map(int, row))] for row in clipped)

    def _law(self, evidence: Floats) -> BayesFactorLaw:
        _, weights, draws = self._upper_releases
        first, rest, one = self._lowest_part, DiscretePart(evidence, weights), len(self.path.steps[0].levels) == 1
        return BayesFactorLaw(
            self.log_odds, self.example.target, first, rest, draws, first.spacing, one, not self._bounded
        )

    @cached_property
    def _links(self) -> list[Mechanism]:
        return [step.link.noise for step in self.path.steps[:-1] if step.link]

    @cached_property
    def _lowest_part(self) -> DiscretePart:
        """The distribution of the log Bayes factor of the lowest count's releases."""
        first, *more = (
            own_release(self.plan, self.path, self.example, level, 0) for level in self.path.steps[0].levels
        )
        assert isinstance(first, DiscretePart)
        for part in more:
            assert isinstance(part, DiscretePart)
            first = first.plus(part)
        return first

    @cached_property
    def _bounded(self) -> bool:
        return all(is_bounded(level.mechanism) for level in self.plan.levels)

    @cached_property
    def _noises(self) -> list[Mechanism]:
        """Noise of the siblings' sums, then of the levels above the lowest count."""
        return [*self._links, *(noise for step in self.path.steps[1:] for noise in step.noises)]

    @cached_property
    def _upper_releases(self) -> tuple[Floats, Floats, int]:
        """(noise of all numbers above the lowest count (release, number), weights, number simulated or 0 if listed)."""
        laws = [noise.releases(0) for noise in self._noises]
        if math.prod(len(values) for values, _ in laws) <= MOST_LISTED:
            values, weights = grid(laws)
            keep = probable(weights, PRUNED)
            return values[keep], weights[keep], 0
        from scipy.stats import qmc

        generator = np.random.default_rng(self.seed)
        points = qmc.Sobol(len(laws), rng=generator).random(POINTS)
        drawn = [
            values[np.minimum(np.searchsorted(np.cumsum(weight), column, side="right"), len(values) - 1)]
            for (values, weight), column in zip(laws, points.T, strict=True)
        ]
        return np.stack(drawn, axis=1), np.full(POINTS, 1.0 / POINTS), POINTS

    def _evidence(self, lowest: Integers, upper: Integers) -> Iterable[Floats]:
        """Log Bayes factors of the releases above, for each number of others at the first step above."""
        if len(self.path.steps) > 3 or any(len(step.noises) > 1 for step in self.path.steps[2:]):
            yield from self._evidence_of_many(lowest, upper)
            return
        noise, links = self._upper_releases[0], len(self._links)
        sums = noise[:, 0]
        keys = [own - sums for own in noise[:, links : links + len(self.path.steps[1].noises)].T]
        if upper.size:
            keys += [noise[:, -1] - sums - noise[:, 1], upper[0] + noise[:, 1]]
        rows, place = np.unique(np.stack(keys, axis=1), axis=0, return_inverse=True)
        reach = self._links[0].tail_radius()
        k = np.arange(-reach, reach + 1.0)
        out, present = (self._cumulative(rows, k, x) for x in self.path.known_counts())
        for others in lowest:
            last = np.clip(others + sums, -reach, reach).astype(np.int64) + reach
            yield present[place.ravel(), last] - out[place.ravel(), last]

    def _evidence_of_many(self, lowest: Integers, upper: Integers) -> Iterator[Floats]:
        """Log Bayes factors as in `_evidence` for any number of steps: sums over others' counts, from the top down.

        Let u be the true count less the hypothesised one, a the noise of the siblings' sum and b that of the totals. A
        step sums P(siblings' noise = k) E(u + k) over k <= others + a, where E(v) is P(noise = v + b - all noise a so
        far) times the message from above.
        """
        sums, reach = self._upper_releases[0][:, 0], int(self._links[0].tail_radius())
        away = [int(self.example.counts[0, 0] - x) for x in self.path.known_counts()]
        log_evidence = np.empty((2, len(sums), lowest.size))
        for start in range(0, len(sums), _ROWS):
            weight, terms = self._terms(0, start, tuple(map(int, upper)))
            last = np.clip(lowest + sums[start : start + _ROWS, None], -reach, reach).astype(np.int64) + reach
            for side, u in enumerate(away):
                total = np.cumsum(weight * terms[:, 1 + u : 1 + u + weight.size], axis=1)
                with np.errstate(divide="ignore"):
                    log_evidence[side, start : start + _ROWS] = np.log(np.take_along_axis(total, last, axis=1))
        yield from (log_evidence[1] - log_evidence[0]).T

    def _terms(self, step: int, start: int, upper: tuple[int, ...]) -> tuple[Floats, Floats]:
        """(probabilities of the siblings' noise, E of a step), given the others of the steps above it.

        Cached for other cells with the same numbers of others there.
        """
        key = step, start, upper
        if key in self._shared:
            return self._shared[key]
        link, noise = self._links[step], self._upper_releases[0][start : start + _ROWS]
        k = np.arange(-link.tail_radius(), link.tail_radius() + 1.0)
        weight, at_counts = np.exp(link.log_likelihood(k, 0.0)), self._own_terms(step, start)
        if step + 1 < len(self._links):
            above, terms = self._terms(step + 1, start, upper[1:])
            reach = (above.size - 1) // 2
            within = np.arange(-reach, reach + 1.0) <= (upper[0] + noise[:, step + 1])[:, None]
            message = (sliding_window_view(terms, above.size, axis=1) @ (above * within)[:, :, None])[:, :, 0]
            at_counts = at_counts * (message / message.max(axis=1, keepdims=True))
        if step:
            if len(self._shared) >= _SHARED:
                self._shared.clear()
            self._shared[key] = weight, at_counts
        return weight, at_counts

    def _own_terms(self, step: int, start: int) -> Floats:
        """Likelihood of the published totals of a step over its maximum, (release, v): E(v) without the message."""
        if (step, start) not in self._own:
            noise, links = self._upper_releases[0][start : start + _ROWS], len(self._links)
            place = links + sum(len(one.noises) for one in self.path.steps[1 : step + 1])
            width = 1 + sum(int(one.tail_radius()) for one in self._links[: step + 1])
            v, shift = np.arange(-width, width + 1.0), noise[:, : step + 1].sum(axis=1)
            log = np.zeros((len(noise), v.size))
            for i, law in enumerate(self.path.steps[step + 1].noises):
                log += law.log_likelihood(v + (noise[:, place + i] - shift)[:, None], 0.0)
            self._own[step, start] = np.exp(log - log.max(axis=1, keepdims=True))
        return self._own[step, start]

    @cached_property
    def _shared(self) -> dict[tuple[int, int, tuple[int, ...]], tuple[Floats, Floats]]:
        return {}

    @cached_property
    def _own(self) -> dict[tuple[int, int], Floats]:
        return {}

    def _cumulative(self, rows: Floats, k: Floats, x: float) -> Floats:
        """Log of the sums up to each k, (row, k)."""
        second, away = self.path.steps[1], float(self.example.counts[0, 0]) - x
        terms = np.broadcast_to(self._links[0].log_likelihood(k, 0.0), (len(rows), k.size))
        for noise, offset in zip(second.noises, rows.T, strict=False):
            terms = terms + noise.log_likelihood(away + offset[:, None] + k, 0.0)
        if len(self.path.steps) > 2:
            low, table = self._message
            place = (rows[:, -2:-1] + k + away).astype(np.int64) - low
            reach = (table.shape[1] - 1) // 2
            last = np.clip(rows[:, -1:], -reach, reach).astype(np.int64) + reach
            terms = terms + table[place, last]
        return _log_cumulative(terms)

    @cached_property
    def _message(self) -> tuple[int, Floats]:
        """(first offset, log of the sums up to each noise of the upper siblings): from the third step."""
        (noise,) = self.path.steps[2].noises
        below, link = (one.tail_radius() for one in self._links)
        wide = noise.tail_radius() + 2 * below + link + 2
        offset, k = np.arange(-wide, wide + 1.0), np.arange(-link, link + 1.0)
        terms = noise.log_likelihood(offset[:, None] + k, 0.0) + self._links[1].log_likelihood(k, 0.0)
        return -int(wide), _log_cumulative(terms)


def _log_cumulative(terms: Floats) -> Floats:
    """Log of the sums of exp(terms) up to each place, along the rows, scaled by the largest term.

    No sum in use underflows: it contains the term of the true counts, which is within about 200 nats of the largest
    since releases lie within the supports of the noise.
    """
    top = terms.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.cumsum(np.exp(terms - top), axis=1)) + top)
