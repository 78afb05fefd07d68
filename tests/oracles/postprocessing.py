"""Slow twins of post-processing: plain loops over noises, fractions for every quotient."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

Pmf = dict[int, float]


def discrete_gaussian(rho: float, reach: int) -> Pmf:
    """exp(-rho k^2), normalised over the listed offsets."""
    weights = {k: math.exp(-rho * k * k) for k in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    return {k: w / total for k, w in weights.items()}


def geometric(epsilon: float, reach: int) -> Pmf:
    """exp(-epsilon |k|), normalised over the listed offsets."""
    weights = {k: math.exp(-epsilon * abs(k)) for k in range(-reach, reach + 1)}
    total = math.fsum(weights.values())
    return {k: w / total for k, w in weights.items()}


def added(noise: Pmf, count: int) -> Pmf:
    """Law of a sum of independent copies."""
    law = {0: 1.0}
    for _ in range(count):
        new: dict[int, list[float]] = defaultdict(list)
        for (a, p), (b, q) in itertools.product(law.items(), noise.items()):
            new[a + b].append(p * q)
        law = {k: math.fsum(parts) for k, parts in new.items()}
    return law


def nearest(number: Fraction, rule: str) -> int:
    """The nearest whole number, ties by the rule's name."""
    below = math.floor(number)
    gap = number - below
    if gap != Fraction(1, 2):
        return below + (gap > Fraction(1, 2))
    return {"half_up": below + 1, "half_down": below, "half_even": below + below % 2}[rule]


def pushed(noise: Pmf, value: int, function: Callable[[int], int]) -> Pmf:
    """Law of function(value + noise)."""
    law: dict[int, list[float]] = defaultdict(list)
    for k, p in noise.items():
        law[function(value + k)].append(p)
    return {r: math.fsum(parts) for r, parts in law.items()}


def least_squares(values: list[int], weights: list[Fraction], total: int) -> list[Fraction]:
    """Minimum of sum w_i (t_i - z_i)^2 with sum t_i = total, by its multiplier: t_i = z_i + multiplier / w_i."""
    multiplier = (total - sum(values)) / sum(1 / w for w in weights)
    return [z + multiplier / w for z, w in zip(values, weights, strict=True)]


def project(values: list[int], total: int) -> list[Fraction]:
    """Minimum of sum (t_i - z_i)^2 over t_i >= 0 with sum t_i = total, tried for every choice of positive t_i."""
    best, distance = [], Fraction(10**9)
    for size in range(1, len(values) + 1):
        for kept in itertools.combinations(range(len(values)), size):
            tau = Fraction(sum(values[i] for i in kept) - total, size)
            t = [values[i] - tau if i in kept else Fraction(0) for i in range(len(values))]
            if min(t) >= 0:
                far = sum(((a - b) ** 2 for a, b in zip(t, values, strict=True)), Fraction(0))
                if far < distance:
                    best, distance = t, far
    return best


@cache
def projected_own(own: int, siblings: tuple[int, ...], total: int, rule: str) -> int:
    """The first of the projected counts, rounded: what falls below 0 is set to 0 and left out, until nothing does."""
    kept = [own, *siblings]
    while True:
        tau = Fraction(sum(kept) - total, len(kept))
        left = [z for z in kept if z >= tau]
        if len(left) == len(kept):
            return nearest(max(own - tau, Fraction(0)), rule)
        kept = left


def least_squares_law(
    own: int,
    others: int,
    parent: int,
    siblings: int,
    noise: Pmf,
    rule: str,
    weights: tuple[Fraction, Fraction] = (Fraction(1), Fraction(1)),
) -> Pmf:
    """P(t1 | t2, X1, Y), over every pair of noises (equations 2.41 to 2.45)."""
    law: dict[int, list[float]] = defaultdict(list)
    share = (1 / weights[0]) / (1 / weights[0] + siblings / weights[1])
    total = added(noise, siblings)
    for (n, p), (s, q) in itertools.product(noise.items(), total.items()):
        v = own + n + (parent - own - n - others - s) * share
        law[0 if v < 0 else parent if v > parent else nearest(v, rule)].append(p * q)
    return {a: math.fsum(law.get(a, [0.0])) for a in range(parent + 1)}


def splits(total: int, siblings: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """Counts of the siblings that add up to the total, with probabilities: people placed evenly."""
    every = [c for c in itertools.product(range(total + 1), repeat=siblings) if sum(c) == total]
    weight = [math.factorial(total) / math.prod(map(math.factorial, c)) for c in every]
    for c, w in zip(every, weight, strict=True):
        yield c, w / math.fsum(weight)


def simplex_law(own: int, others: int, parent: int, siblings: int, noise: Pmf, rule: str) -> Pmf:
    """P(t1 | t2, X1, Y) of the projection, over every noise of the unit and of every sibling."""
    vectors: dict[tuple[int, ...], list[float]] = defaultdict(list)
    for counts, weight in splits(others, siblings):
        law = {(): 1.0}
        for y in counts:  # one sibling at a time, in any order: only the sorted vector matters
            new: dict[tuple[int, ...], float] = defaultdict(float)
            for (z, p), (n, q) in itertools.product(law.items(), noise.items()):
                new[tuple(sorted((*z, y + n)))] += p * q
            law = dict(new)
        for z, p in law.items():
            vectors[z].append(weight * p)
    result: dict[int, list[float]] = defaultdict(list)
    for z, parts in vectors.items():
        for n, q in noise.items():
            result[projected_own(own + n, z, parent, rule)].append(math.fsum(parts) * q)
    return {a: math.fsum(result.get(a, [0.0])) for a in range(parent + 1)}


def posterior_mean(prior: float, out: Pmf, inside: Pmf) -> float:
    """sum_a P(a | in) posterior(a) (equations 2.46 and 2.47)."""
    return math.fsum(
        q * prior * q / (prior * q + (1 - prior) * out[a]) for a, q in inside.items() if prior * q + out[a] > 0
    )
