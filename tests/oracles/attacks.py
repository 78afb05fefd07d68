"""Brute force for the zoo of readers: list every world, person by person and noise by noise, and count.

A world is (probability, whether the target is in, what was released). Nothing is imported from the package, sums are
plain, and noise is narrow, so that a window of a few integers holds all but 1e-15 of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from tests.oracles import postprocessing
from tests.oracles.postprocessing import Pmf

Release = tuple[int, ...]


class World(NamedTuple):
    """One thing that can happen."""

    probability: float
    target: int
    release: Release


NOTHING: Pmf = {0: 1.0}
"""The noise of an exact release."""


def listed(pmf: Sequence[float]) -> Pmf:
    """A pmf over 0, 1, 2, ..."""
    return {k: p for k, p in enumerate(pmf) if p > 0}


def each_way(laws: Iterable[Pmf]) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Every combination of independent values with its probability."""
    for items in itertools.product(*(law.items() for law in laws)):
        yield math.prod(p for _, p in items), tuple(value for value, _ in items)


def two_sided(prior: float) -> Iterator[tuple[float, int]]:
    """The target out, and in."""
    yield 1 - prior, 0
    yield prior, 1


def posterior(worlds: Iterable[World], release: Release) -> float:
    """P(in | release): the worlds with this release, and those of them with the target in."""
    return summary(worlds, [release]).posteriors[0]


class Summary(NamedTuple):
    """P(in | release) for some releases, and mean and variance of every released number."""

    posteriors: list[float]
    means: list[float]
    variances: list[float]


def summary(worlds: Iterable[World], releases: Sequence[Release]) -> Summary:
    """All of it in one pass."""
    masses: dict[Release, list[list[float]]] = {release: [[], []] for release in releases}
    total, firsts, seconds, width = 0.0, [0.0] * 8, [0.0] * 8, 0
    for probability, target, release in worlds:
        if release in masses:
            masses[release][target].append(probability)
        total, width = total + probability, len(release)
        for i, value in enumerate(release):
            firsts[i] += probability * value
            seconds[i] += probability * value * value
    means = [first / total for first in firsts[:width]]
    variances = [second / total - mean**2 for second, mean in zip(seconds, means, strict=False)]
    return Summary([math.fsum(yes) / math.fsum(no + yes) for no, yes in masses.values()], means, variances)


def mixed_poisson(shape: float, rate: float, exposure: float, size: int) -> Pmf:
    """Counts 0..size-1 that are Poisson given a rate with a gamma law, the rate summed out on a fine grid."""
    steps, end, log_norm = 12_000, 3.0, shape * math.log(rate) - math.lgamma(shape)
    pmf = dict.fromkeys(range(size), 0.0)
    for i in range(steps):
        t = (i + 0.5) * end / steps
        x = t**4  # smooth at 0 for any shape above a quarter
        weight = math.exp(log_norm + (shape - 1) * math.log(x) - rate * x) * 4 * t**3 * end / steps
        term = weight * math.exp(-x * exposure)
        for k in pmf:
            pmf[k] += term
            term *= x * exposure / (k + 1)
    return pmf


def mixed_binomial(n: int, alpha: float, beta: float) -> Pmf:
    """Counts of n people with the trait, the chance they share having a beta law, summed out on a fine grid."""
    log_norm = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    pmf, steps = dict.fromkeys(range(n + 1), 0.0), 20_000

    def flat_at_the_ends(u: float) -> float:
        return u**4 * (35 - 84 * u + 70 * u**2 - 20 * u**3)

    for i in range(steps):
        u = (i + 0.5) / steps
        x, rest = flat_at_the_ends(u), flat_at_the_ends(1 - u)
        slope = 140 * u**3 * (1 - u) ** 3
        weight = math.exp(log_norm + (alpha - 1) * math.log(x) + (beta - 1) * math.log(rest)) * slope / steps
        for k in pmf:
            pmf[k] += weight * math.comb(n, k) * x**k * rest ** (n - k)
    return pmf


def one_record(prior: float, known: Sequence[int], noises: Sequence[Pmf]) -> Iterator[World]:
    """The target's record is in the first cell if "in", else in the second if there is one; levels publish each cell.

    Release: level by level, cell by cell. Kazan & Reiter (2025), section 2.6.1.
    """
    for chance, target in two_sided(prior):
        counts = [m + (target if cell == 0 else 1 - target) for cell, m in enumerate(known)]
        for p, noise in each_way(law for law in noises for _ in known):
            yield World(chance * p, target, tuple(c + z for c, z in zip(counts * len(noises), noise, strict=True)))


def missing_people(pmf: Sequence[float], known: int, noise: Pmf) -> Iterator[World]:
    """n people, every subset of one size alike; the target is the first of them."""
    n = len(pmf) - 1
    for people in itertools.product((0, 1), repeat=n):
        chance = pmf[sum(people)] / math.comb(n, sum(people))
        for z, p in noise.items():
            yield World(chance * p, people[0], (known + sum(people) + z,))


def own_chances(chances: Sequence[float], target: int, known: int, noise: Pmf) -> Iterator[World]:
    """Independent people, each with their own chance."""
    for people in itertools.product((0, 1), repeat=len(chances)):
        chance = math.prod(c if one else 1 - c for c, one in zip(chances, people, strict=True))
        for z, p in noise.items():
            yield World(chance * p, people[target], (known + sum(people) + z,))


def two_levels(
    prior: float, known: int, siblings: Callable[[], Iterator[tuple[float, tuple[int, ...]]]], low: Pmf, high: Pmf
) -> Iterator[World]:
    """A unit and its siblings in a parent; `siblings` lists their counts with probabilities.

    Release: the unit's, the parent's, then each sibling's own. Kazan & Reiter (2025), section 2.3.
    """
    for chance, target in two_sided(prior):
        for weight, counts in siblings():
            own = known + target
            for p, (z1, z2, *rest) in each_way([low, high, *(low for _ in counts)]):
                others = tuple(c + z for c, z in zip(counts, rest, strict=True))
                yield World(chance * weight * p, target, (own + z1, own + sum(counts) + z2, *others))


def summed(worlds: Iterable[World]) -> Iterator[World]:
    """The same worlds, of which only the sum of the siblings' releases is read."""
    for probability, target, (own, parent, *siblings) in worlds:
        yield World(probability, target, (own, parent, sum(siblings)))


def changed(worlds: Iterable[World], change: Callable[[int], int]) -> Iterator[World]:
    """The same worlds with every number changed on its own."""
    for probability, target, release in worlds:
        yield World(probability, target, tuple(change(value) for value in release))


def consistent(worlds: Iterable[World], adjust: Callable[[int, int, Sequence[int]], int]) -> Iterator[World]:
    """The same worlds after post-processing: the parent clamped at zero, the unit adjusted to it, no siblings."""
    for probability, target, (own, parent, *siblings) in worlds:
        total = max(parent, 0)
        yield World(probability, target, (adjust(own, total, siblings), total))


def least_squares(rounding: str, weights: tuple[float, float] = (1, 1)) -> Callable[[int, int, Sequence[int]], int]:
    """The unit's count when unit and siblings are moved by weighted least squares to add up, then clamped and rounded.

    Kazan & Reiter (2025), eqs 2.41 and 2.42; with weights w0 of the unit and w of each sibling, the discrepancy is
    shared in proportion to 1 / w.
    """
    own_share, sibling_share = (1 / Fraction(w) for w in weights)

    def adjusted(own: int, total: int, siblings: Sequence[int]) -> int:
        missing = total - own - sum(siblings)
        value = own + missing * own_share / (own_share + len(siblings) * sibling_share)
        return postprocessing.nearest(min(max(value, Fraction(0)), Fraction(total)), rounding)

    return adjusted


def simplex(rounding: str) -> Callable[[int, int, Sequence[int]], int]:
    """The unit's count when all counts are moved as little as possible to be non-negative and add up, then rounded."""
    return lambda own, total, siblings: postprocessing.projected_own(own, tuple(siblings), total, rounding)
