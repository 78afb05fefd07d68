"""Audits of small plans by listing: every release, every count behind it, plain sums of products.

Nothing is imported from the package. A mechanism is read by the name of its class and its parameters, and what an
adversary believes is a function log_prob(total, inside), as in `paths`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.stats
from numpy.typing import NDArray

from tests.oracles.paths import Law
from tests.oracles.postprocessing import Pmf, added, nearest

Floats = NDArray[np.float64]

NATS = 42.0
"""Releases of additive noise are listed until they are less likely than the count itself by exp(-42)."""


@cache
def release_law(noise: Any) -> Callable[[int], Pmf]:
    """The law of a release given a count; TypeError where the releases cannot be listed."""
    kind = type(noise).__name__
    if kind in ("DiscreteGaussian", "Geometric", "DiscreteLogistic"):
        return _shifted(_additive(noise))
    if kind in ("DiscreteGaussianSum", "GeometricSum"):
        return _shifted(added(_additive(noise.single), noise.count))
    if kind == "Exact":
        return lambda count: {count: 1.0}
    if kind == "RandomizedResponse":
        weight = math.exp(noise.epsilon)
        total = weight + noise.categories - 1
        return lambda count: {y: (weight if y == count else 1.0) / total for y in range(noise.categories)}
    if kind == "UnaryEncoding":
        return lambda answer: _places(noise, answer)
    if kind == "RandomRounding":
        return lambda count: _random_rounding(count, noise.base)
    if kind == "PerturbationTable":
        return lambda count: _row(noise, count)
    inside = noise.mechanism
    if kind == "Rounded" and type(inside).__name__ in TAILS:
        return lambda count: _rounded_density(inside, noise.base, count)
    if kind == "Selected":  # a key that nobody has is never published
        shown = release_law(inside)
        return lambda count: (
            _pushed(shown(count), lambda y: max(y, noise.below - 1)) if count else {noise.below - 1: 1.0}
        )
    law, image = release_law(inside), IMAGES[kind]
    return lambda count: _pushed(law(count), lambda y: image(noise, y))


def _additive(noise: Any) -> Pmf:
    """Law of release minus count."""
    if type(noise).__name__ == "Geometric":
        reach = math.ceil(NATS / noise.epsilon)
        return {k: math.exp(-noise.epsilon * abs(k)) * math.tanh(noise.epsilon / 2.0) for k in range(-reach, reach + 1)}
    if type(noise).__name__ == "DiscreteLogistic":
        reach, s = math.ceil(NATS * noise.scale), noise.scale
        return {k: math.sinh(0.5 / s) / (math.cosh(k / s) + math.cosh(0.5 / s)) for k in range(-reach, reach + 1)}
    variance = float(noise.sigma2)
    reach = math.ceil(math.sqrt(2.0 * variance * NATS))
    weight = {k: math.exp(-k * k / (2.0 * variance)) for k in range(-reach, reach + 1)}
    total = math.fsum(weight.values())
    return {k: w / total for k, w in weight.items()}


def _shifted(noise: Pmf) -> Callable[[int], Pmf]:
    return lambda count: {count + k: p for k, p in noise.items()}


def bit_vectors(noise: Any, answer: int) -> dict[tuple[int, ...], float]:
    """Every sequence of reported vectors with its probability: bits of answer 1 first, then those of answer 0.

    A bit is first replaced by a coin with chance `permanent`, and then reported `reports` times.
    """
    bits = [int(answer == 1)] * noise.ones + [int(answer == 0)] * noise.ones
    chance_of_one, half = {1: noise.stay, 0: noise.rise}, noise.permanent / 2.0
    found = {}
    for seen in itertools.product((0, 1), repeat=len(bits) * noise.reports):
        chance = 1.0
        for i, bit in enumerate(bits):
            own = seen[i * noise.reports : (i + 1) * noise.reports]
            each = {fixed: math.prod(one if s else 1.0 - one for s in own) for fixed, one in chance_of_one.items()}
            chance *= (1.0 - half) * each[bit] + half * each[1 - bit]
        found[seen] = chance
    return found


def _places(noise: Any, answer: int) -> Pmf:
    """The place of the likelihood ratio of the vectors among all ratios, that of 1 in the middle."""
    both = [bit_vectors(noise, each) for each in (0, 1)]
    ratio = {seen: round(math.log(p / both[0][seen]), 9) + 0.0 for seen, p in both[1].items()}
    places = {one: i for i, one in enumerate(sorted({*ratio.values()}))}
    found = dict.fromkeys((place - places[0.0] for place in places.values()), 0.0)
    for seen, p in both[answer].items():
        found[places[ratio[seen]] - places[0.0]] += p
    return found


def _random_rounding(count: int, base: int) -> Pmf:
    rest = count % base
    below = count - rest
    return {below: 1.0} if rest == 0 else {below: (base - rest) / base, below + base: rest / base}


def _row(noise: Any, count: int) -> Pmf:
    listed = count
    while listed >= len(noise.probabilities):
        listed -= noise.period
    row = noise.probabilities[listed]
    return {count + noise.lowest + i: p for i, p in enumerate(row) if p > 0.0}


def _staircase_tail(noise: Any, x: float) -> float:
    """P(noise > x), x >= 0: what is left of the step that x is in, and the steps beyond."""
    b, w = math.exp(-noise.epsilon), float(noise.sensitivity)
    g = 1.0 / (1.0 + math.exp(noise.epsilon / 2.0)) if noise.gamma is None else noise.gamma
    k, y = int(x // w), x % w
    a = (1.0 - b) / (2.0 * w * (g + b * (1.0 - g)))
    high, low = max(g * w - y, 0.0), w - max(y, g * w)
    return a * b**k * (high + b * low) + a * b ** (k + 1) * w * (g + b * (1.0 - g)) / (1.0 - b)


TAILS: dict[str, Callable[[Any, float], float]] = {
    "Gaussian": lambda noise, x: float(scipy.stats.norm.sf(x, scale=noise.sigma)),
    "Laplace": lambda noise, x: 0.5 * math.exp(-x / noise.scale),
    "Staircase": _staircase_tail,
}
"""P(noise > x) of continuous noise, which is symmetric, from 0 on."""


def _rounded_density(noise: Any, base: int, count: int) -> Pmf:
    """Masses between half multiples; each is a difference of tails on its own side."""

    def tail(x: float) -> float:
        return TAILS[type(noise).__name__](noise, x)

    far = 1.0
    while tail(far) > math.exp(-NATS):
        far *= 1.5
    result = {}
    for r in range(base * math.floor((count - far) / base), base * math.ceil((count + far) / base) + 1, base):
        low, high = sorted((abs(r - base / 2.0 - count), abs(r + base / 2.0 - count)))
        about = r - base / 2.0 < count < r + base / 2.0
        result[r] = 1.0 - tail(low) - tail(high) if about else tail(low) - tail(high)
    return result


def _pushed(law: Pmf, image: Callable[[int], int]) -> Pmf:
    result: dict[int, list[float]] = {}
    for y, p in law.items():
        result.setdefault(image(y), []).append(p)
    return {y: math.fsum(parts) for y, parts in result.items()}


def _clamped(noise: Any, y: int) -> int:
    y = y if noise.lower is None else max(y, noise.lower)
    return y if noise.upper is None else min(y, noise.upper)


def _rounded(noise: Any, y: int) -> int:
    return int(noise.base * nearest(Fraction(y, noise.base), noise.ties))


IMAGES: dict[str, Callable[[Any, int], int]] = {
    "Clamped": _clamped,
    "Rounded": _rounded,
    "Suppressed": lambda noise, y: (
        y if y >= noise.below or (noise.least is not None and y < noise.least) else noise.below - 1
    ),
}
"""What is published in place of a release, by wrapper."""


# ---------------------------------------------------------------------------------------------------------------------
# A path of levels
# ---------------------------------------------------------------------------------------------------------------------


class Tier(NamedTuple):
    """One level: its noise, the belief about its count given the one inside, and its siblings.

    `each` is the law of one sibling's count where the releases of the siblings are read one by one.
    """

    noise: Any
    belief: Law
    siblings: int = 0
    each: Sequence[float] | None = None


class Listing(NamedTuple):
    """Every combination of releases: its probability under the truth, and under "out" and "in"."""

    weight: Floats
    out: Floats
    present: Floats

    def log_odds(self, prior: float, rate: float = 1.0) -> Floats:
        """Of "in" after each release; `rate` is the probability that the target was sampled."""
        present = rate * self.present + (1.0 - rate) * self.out
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.log(prior * present) - np.log((1.0 - prior) * self.out)
        return np.where(self.weight > 0.0, odds, 0.0)

    def beside(self, other: Listing, most: int) -> Listing | None:
        """Both together, of two cells; None if there are more than `most`."""
        if self.weight.size * other.weight.size > most:
            return None
        return Listing(*(np.multiply.outer(a, b).ravel() for a, b in zip(self, other, strict=True)))


def list_path(
    tiers: Sequence[Tier],
    contributions: tuple[int, int],
    truth: Sequence[int],
    siblings: dict[int, Sequence[int]],
    largest: int,
    most: int = 1_000_000,
) -> Listing | None:
    """Every release of a path of levels, lowest first; None if there are more than `most`.

    Parameters
    ----------
    tiers : the levels
    contributions : what the target adds to the lowest count if (out, in)
    truth : the true count of each level
    siblings : true counts of the siblings, by the place of the level, where they are read one by one
    largest : counts go up to it
    most : releases, at most
    """
    counts = np.arange(largest + 1)
    weights: list[Floats] = []
    message: Floats | None = None
    for place in reversed(range(len(tiers))):
        tier = tiers[place]
        own, own_weight = _table(tier.noise, counts, truth[place])
        weights[:0] = [own_weight]
        if message is None:
            message = own
            continue
        above = tiers[place + 1]
        believed = np.exp([[above.belief(int(t), int(x)) for t in counts] for x in counts])  # (x, total)
        if tier.siblings == 0:
            passed = message @ believed.T
        else:
            link, link_weight = _link(tier, counts, siblings.get(place), truth[place + 1] - truth[place])
            if link.shape[0] * message.shape[0] * own.shape[0] > most:
                return None
            weights[1:1] = [link_weight]
            if tier.each is not None and place in siblings:
                believed = np.ones_like(believed)  # the law of the counts is in the link
            gap = counts[None, :] - counts[:, None]
            told = np.where(gap >= 0, link[:, np.maximum(gap, 0)], 0.0) * believed  # (release, x, total)
            passed = np.einsum("sxt,mt->smx", told, message, optimize=True).reshape(-1, counts.size)
        if passed.shape[0] * own.shape[0] > most:
            return None
        message = (own[:, None, :] * passed[None, :, :]).reshape(-1, counts.size)
    assert message is not None
    first = np.exp([[tiers[0].belief(int(x), k) for x in counts] for k in contributions])
    weight = np.ones(1)
    for one in weights:
        weight = np.multiply.outer(weight, one).ravel()
    out, present = (message @ row for row in first)
    return Listing(weight, out, present)


def _table(noise: Any, counts: Any, truth: int) -> tuple[Floats, Floats]:
    """P(release | count), (release, count), over the releases of the true count, and their probabilities."""
    law = release_law(noise)
    here = law(truth)
    values = [y for y, p in here.items() if p > 0.0]
    columns = [law(int(x)) for x in counts if _has_releases(noise, int(x))]
    table = np.array([[column.get(y, 0.0) for column in columns] for y in values])
    table = np.pad(table, ((0, 0), (0, len(counts) - table.shape[1])))
    return table, np.array([here[y] for y in values])


def _has_releases(noise: Any, count: int) -> bool:
    while hasattr(noise, "mechanism"):
        noise = noise.mechanism
    return count < getattr(noise, "categories", math.inf)


def _link(tier: Tier, counts: Any, siblings: Sequence[int] | None, others: int) -> tuple[Floats, Floats]:
    """P(releases of the siblings | the others' count), and its probabilities under the truth.

    One by one where the counts of the siblings are given and each has a law: then (releases and others' count).
    """
    if tier.each is None or siblings is None:
        noise = tier.noise
        if tier.siblings > 1 and type(noise).__name__ != "Exact":
            law = _shifted(added(_additive(noise), tier.siblings))
            here = law(others)
            values = list(here)
            return np.array([[law(int(x)).get(y, 0.0) for x in counts] for y in values]), np.array([*here.values()])
        return _table(noise, counts, others)
    law = np.zeros(len(counts))
    law[: len(tier.each)] = tier.each[: len(counts)]
    result, weight = np.eye(1, len(counts)), np.ones(1)
    for count in siblings:
        table, mine = _table(tier.noise, counts, count)
        one = table * law
        result = np.array([np.convolve(a, b)[: len(counts)] for a, b in itertools.product(result, one)])
        weight = np.multiply.outer(weight, mine).ravel()
    return result, weight
