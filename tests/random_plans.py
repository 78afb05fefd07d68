"""Random plans, adversaries and truths: every mechanism and wrapper, up to three levels, siblings, kinds of belief.

Beliefs come with the same law by hand, so that `tests.oracles.audits` can list what the package computes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

import adversary as adv
from tests.oracles import paths

ENDLESS = 30
"""The largest count that is listed where a belief has no end."""


class Held(NamedTuple):
    """A belief, the same law by hand, and the law of each sibling where the belief is about them."""

    belief: Any
    oracle: paths.Law
    each: list[float] | None = None

    def largest(self, inside: int) -> int:
        """The largest total over a count of up to `inside`; `ENDLESS` for any that is larger."""
        below, totals = range(inside + 1), range(ENDLESS + 1)
        return max((t for t in totals if any(self.oracle(t, x) > -math.inf for x in below)), default=ENDLESS)


class Drawn(NamedTuple):
    """A random plan, adversary and truth; the beliefs, lowest first, and the largest count that each allows."""

    plan: adv.Plan
    reader: adv.Adversary
    truth: dict[str, Any]
    held: list[Held]
    tops: list[int]

    @property
    def ends(self) -> bool:
        """Whether every belief has an end."""
        return max(self.tops) < ENDLESS


def weights(rng: np.random.Generator, size: int) -> list[float]:
    """Probabilities in sixteenths, some of them 0."""
    return [float(n) / 16.0 for n in rng.multinomial(16, np.ones(size) / size)]


def pick(rng: np.random.Generator, *options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


# Mechanisms


def additive(rng: np.random.Generator) -> adv.Mechanism:
    if rng.random() < 0.5:
        return adv.Geometric(pick(rng, 0.9, 1.5, 3.0))
    return adv.DiscreteGaussian.from_rho(pick(rng, 0.2, 0.5, 2.0))


def perturbation(rng: np.random.Generator) -> adv.Mechanism:
    """A row of its own for each of the first counts, and no release below 0."""
    lowest, rows = -int(rng.integers(1, 3)), []
    for count in range(int(rng.integers(1, 6))):
        row = np.array(weights(rng, 5))
        row[: max(-lowest - count, 0)] = 0.0
        rows.append((row / row.sum()).tolist() if row.sum() else np.eye(5)[-lowest].tolist())
    return adv.PerturbationTable(rows, lowest=lowest)


def wrapped(rng: np.random.Generator, inside: adv.Mechanism) -> adv.Mechanism:
    kind = pick(rng, "suppressed", "clamped", "rounded")
    if kind == "suppressed":
        return adv.postprocessing.suppressed(inside, int(rng.integers(1, 6)))
    if kind == "clamped":
        return adv.postprocessing.clamped(inside, *pick(rng, (0, None), (1, None), (0, 4), (-1, 6), (None, 3)))
    ties = pick(rng, "half_even", "half_up", "half_down")
    return adv.postprocessing.rounded(inside, int(rng.integers(2, 6)), ties)


def listed(rng: np.random.Generator, largest: int) -> adv.Mechanism:
    """Any kind whose releases of counts up to the largest can be listed."""
    kind = int(rng.integers(9))
    if kind < 3:
        return additive(rng)
    if kind == 3:
        return adv.RandomRounding(pick(rng, 2, 3, 5))
    if kind == 4:
        return perturbation(rng)
    if kind == 5 and largest < ENDLESS:
        return adv.RandomizedResponse(pick(rng, 0.5, 1.5, 3.0), max(largest, 1) + 1 + int(rng.integers(0, 2)))
    if kind == 6:
        inside = pick(rng, adv.Laplace(0.5), adv.Laplace(1.0), adv.Gaussian(1.0), adv.Staircase(1.5))
        return adv.postprocessing.rounded(inside, int(rng.integers(1, 4)))
    return wrapped(rng, listed(rng, largest))


# Beliefs


def about_total(rng: np.random.Generator, inside: int) -> Held:
    """About a total over a unit that holds up to `inside`."""
    kind = int(rng.integers(13))
    if kind < 2:
        upper = inside + int(rng.integers(0, 4))
        return Held(adv.Uniform(upper), paths.flat_to(upper))
    if kind < 4:
        total = inside + int(rng.integers(0, 3))
        return Held(adv.Point(total), paths.point(total))
    if kind < 6:
        count = int(rng.integers(0, 4))
        return Held(adv.Known(count), paths.known(count))
    if kind < 8:
        n = int(rng.integers(1, 4))
        pmf = scipy.stats.betabinom(n, 1.5, 2.0).pmf(np.arange(n + 1))
        return Held(adv.BetaBinomial(n, 1.5, 2.0), paths.others(pmf.tolist()))
    if kind == 8:
        law = scipy.stats.binom(2, 0.4)
        return Held(law, paths.others(law.pmf(np.arange(3)).tolist()))
    if kind == 9:
        return Held(adv.Uniform(), paths.flat)
    if kind == 10:
        pmf = scipy.stats.nbinom(2.0, 2.0 / 3.0).pmf(np.arange(200))
        return Held(adv.GammaPoisson(2.0, 2.0), paths.others(pmf.tolist()))
    pmf = weights(rng, int(rng.integers(2, 5)))
    return Held(adv.Others(pmf), paths.others(pmf))


def about_each(rng: np.random.Generator, siblings: int) -> Held:
    pmf, total = weights(rng, int(rng.integers(2, 4))), np.ones(1)
    for _ in range(siblings):
        total = np.convolve(total, pmf)
    return Held(adv.Each(pmf), paths.others(total.tolist()), pmf)


# Plans


def draw(seed: int, most_levels: int = 3) -> Drawn:
    """A random plan, an adversary, and a truth that the adversary holds possible."""
    rng = np.random.default_rng(seed)
    cells = 2 if rng.random() < 0.1 else 1
    size = int(rng.integers(1, min(most_levels, 4 - cells) + 1))
    hypotheses = pick(rng, (0, 1), (0, 1), (0, 1), (0, 1), (1, 0), (0, 2))
    held = [Held(adv.Known(count := int(rng.integers(0, 3))), paths.known(count))]
    if rng.random() < 0.3:
        held = [about_total(rng, max(hypotheses))]
    levels, tops = [], [held[0].largest(max(hypotheses))]
    for place in range(size):
        siblings = pick(rng, 0, 1, 1, 2, 3) if place + 1 < size else None
        if siblings is not None:
            same = Held(adv.Known(0), paths.known(0))
            each = siblings and rng.random() < 0.4
            held.append(about_each(rng, siblings) if each else about_total(rng, tops[-1]) if siblings else same)
            tops.append(held[-1].largest(tops[-1]))
        single = not siblings or siblings == 1 or held[-1].each is not None
        levels.append(adv.Level(f"level {place}", _noise(rng, place, single, tops[-1]), siblings))
    adjusted = None
    if size == 2 and cells == 1 and levels[0].siblings and rng.random() < 0.1:
        levels = [adv.Level(level.name, additive(rng), level.siblings) for level in levels]
        few = (levels[0].siblings or 0) <= 2
        adjusted = pick(rng, adv.postprocessing.LeastSquares(), adv.postprocessing.NonNegative()) if few else None
    plan = adv.Plan(levels, cells, adjusted)
    unsampled = cells == 2 or any(level.is_exact for level in levels) or hypotheses != (0, 1)
    beliefs = {
        level.name: one.belief
        for level, below, one in zip(levels, [None, *levels], held, strict=False)
        if below is None or below.siblings != 0
    }
    reader = adv.Adversary(
        pick(rng, 0.04, 0.3, 0.5, 0.85),
        beliefs=beliefs,
        hypotheses=hypotheses,
        sampling_rate=1.0 if unsampled or rng.random() < 0.9 else 0.4,
    )
    every = list(itertools.islice(_worlds(plan, reader, held, tops), 2000))
    chances = np.array([chance for chance, _ in every])
    if not chances.sum() > 0.0:  # no truth that is possible to this adversary
        return draw(seed + 10**6, most_levels)
    return Drawn(plan, reader, every[int(rng.choice(len(every), p=chances / chances.sum()))][1], held, tops)


def _noise(rng: np.random.Generator, place: int, single: bool, largest: int) -> adv.Mechanism:
    """Of one level; `single`: the releases of its siblings are not summed."""
    kind = rng.random()
    if kind < 0.02:
        return pick(rng, adv.Laplace(1.0), adv.Staircase(1.5)) if single else adv.Laplace(1.0)
    if kind < 0.04:
        return adv.postprocessing.clamped(adv.Gaussian(1.0)) if single else adv.Gaussian(1.0)
    if kind < 0.12 and place:
        return adv.Exact()
    return listed(rng, largest) if single else additive(rng)


def worlds(drawn: Drawn) -> list[tuple[float, dict[str, Any]]]:
    """Every truth with its probability: whether the target is counted, then the counts level by level.

    Siblings one by one where the belief is about each; their order does not matter.
    """
    found: dict[str, tuple[float, dict[str, Any]]] = {}
    for chance, truth in _worlds(drawn.plan, drawn.reader, drawn.held, drawn.tops):
        siblings = {name: sorted(map(repr, each)) for name, each in truth["siblings"].items()}
        key = repr({**truth, "siblings": siblings})
        found[key] = found.get(key, (0.0, truth))[0] + chance, truth
    return list(found.values())


def _worlds(
    plan: adv.Plan, reader: adv.Adversary, held: list[Held], tops: list[int]
) -> Iterator[tuple[float, dict[str, Any]]]:
    counted = reader.prior * reader.sampling_rate
    for target, chance in ((0, 1.0 - counted), (1, counted)):
        cells = [list(_paths(plan, held, tops, reader.contributions(cell)[target])) for cell in range(plan.cells)]
        for chosen in itertools.product(*cells):
            truth: dict[str, Any] = {"in": target, "siblings": {}}
            for place, name in enumerate(plan.names):
                counts = [one[1][place] for one in chosen]
                truth[name] = counts if plan.cells > 1 else counts[0]
            for name, each in chosen[0][2].items():
                apart = [list(row) for row in zip(*(one[2][name] for one in chosen), strict=True)]
                truth["siblings"][name] = apart if plan.cells > 1 else list(each)
            yield chance * math.prod(one[0] for one in chosen), truth


Branch = tuple[float, tuple[int, ...], dict[str, tuple[int, ...]]]


def _paths(plan: adv.Plan, held: list[Held], tops: list[int], start: int) -> Iterator[Branch]:
    """(probability, counts, siblings by level) of one cell; six counts of a belief without an end."""
    branches: list[Branch] = [(1.0, (), {})]
    for place, one in enumerate(held):
        longer: list[Branch] = []
        for weight, counts, siblings in branches:
            inside = counts[-1] if counts else start
            if one.each is not None:
                below = plan.levels[place - 1]
                for each in itertools.product(range(len(one.each)), repeat=below.siblings or 0):
                    more = weight * math.prod(one.each[k] for k in each)
                    longer.append((more, (*counts, inside + sum(each)), siblings | {below.name: each}))
                continue
            last = tops[place] if tops[place] < ENDLESS else inside + 5
            for total in range(inside, last + 1):
                longer.append((weight * math.exp(one.oracle(total, inside)), (*counts, total), siblings))
        branches = [branch for branch in longer if branch[0] > 0.0]
    yield from branches
