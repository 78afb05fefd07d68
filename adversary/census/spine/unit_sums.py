r"""Sums of units of a solved tree: conditional moments and characteristic functions, passed up the tree.

Given the count x_v of a unit, what lies below it is independent of everything else. So whatever is wanted of a linear
combination S of units is passed up as its conditional expectation,

.. math::

    \varphi_v(\omega \mid x) = \frac{\sum_{x_1 + \dots + x_n = x} \prod_c I_c(x_c) \varphi_c(\omega \mid x_c)}
                                    {\sum_{x_1 + \dots + x_n = x} \prod_c I_c(x_c)}, \qquad
    \varphi(\omega) = \sum_x p_v(x) \, \varphi_v(\omega \mid x)

with the upward messages I, exp(i omega a x) for a unit that enters with coefficient a, 1 for one that does not, and the
posterior p_v of the lowest unit v that holds all of them. Derivatives at omega = 0 are moments: they need one frequency
and no inversion. Every term of the numerator has its modulus in the denominator, so that direct sums cancel nothing;
where there are too many terms Fourier transforms take their place, with an absolute error that is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adversary._core import Floats, Integers
from adversary.census.spine.solution import Solution
from adversary.census.spine.tree import Tree

# Products of one unit up to which its children are combined directly.
DIRECT = 3e7

# Counts up to which a sum is worked out count by count.
FEW = 100
AT_ONCE = 1 << 21
"""Numbers of one convolution held at once."""

# Units whose conditional characteristic functions are multiplied to bound that of a sum.
FACTORS = 48

# Frequencies that are worked out without looking for more of these.
ENOUGH = 64

# Posterior probability of counts that such a bound may leave out, each side of each unit.
UNLIKELY = 1e-19
EPSILON = float(np.finfo(np.float64).eps)


class Counts(NamedTuple):
    """Numbers over consecutive counts, from `low` on; counts are the last axis."""

    low: int
    values: Any

    @property
    def high(self) -> int:
        """The largest count."""
        return self.low + int(self.values.shape[-1]) - 1

    def within(self, low: int, high: int) -> Counts:
        """Restriction to the counts from `low` to `high`; a single 0 where none is left."""
        first, stop = max(low, self.low), min(high, self.high) + 1
        if stop <= first:
            return Counts(min(max(self.low, low), high), np.zeros((*self.values.shape[:-1], 1)))
        return Counts(first, self.values[..., first - self.low : stop - self.low])

    def on(self, low: int, size: int) -> Any:
        """Numbers on a window, 0 where there are none."""
        out = np.zeros((*self.values.shape[:-1], size), dtype=self.values.dtype)
        first, stop = max(low, self.low), min(low + size - 1, self.high) + 1
        if stop > first:
            out[..., first - low : stop - low] = self.values[..., first - self.low : stop - self.low]
        return out


class Chosen(NamedTuple):
    """Units of a linear combination: kind by unit, the lowest unit that holds all, and (kind,) coefficients."""

    kinds: dict[int, int]
    top: int
    coefficients: Floats

    @classmethod
    def of(cls, tree: Tree, places: Integers, coefficients: Floats) -> Chosen:
        """Units of which each enters with a coefficient; equal coefficients are one kind."""
        values, kind = np.unique(coefficients, return_inverse=True)
        return cls(dict(zip(places.tolist(), kind.ravel().tolist(), strict=True)), lowest_common(tree, places), values)


def lowest_common(tree: Tree, places: Integers) -> int:
    """The lowest unit that holds all others."""
    here: set[int] = set(places.tolist())
    while len(here) > 1:
        last = max(here)
        here.discard(last)
        here.add(int(tree.parent[last]))
    return here.pop()


def message(solution: Solution, v: int) -> Counts:
    """A unit's upward message."""
    window = solution.messages.windows[v]
    return Counts(int(window["low"]), solution.messages.data[window["place"] : window["place"] + window["size"]])


def unit_posterior(solution: Solution, v: int) -> Floats:
    """Posterior probabilities of a unit's count, on the window of its message."""
    window = solution.messages.windows[v]
    p = message(solution, v).values * solution.outer[window["place"] : window["place"] + window["size"]]
    return np.asarray(p / p.sum())


def times(one: Any, other: Any) -> Any:
    """Moments of orders 0, 1 and 2 of a sum of two independent parts, from theirs, along axis 0.

    If axis 0 of one of them has length 1 (no moments), the result is the plain product.
    """
    if len(one) == 1 or len(other) == 1:
        return one * other
    first = one[0] * other[1] + one[1] * other[0]
    return np.stack([one[0] * other[0], first, one[0] * other[2] + 2.0 * one[1] * other[1] + one[2] * other[0]])


def add_directly(parts: Sequence[Counts], low: int, high: int) -> Counts:
    """Sum of independent counts, as far as it can lie between `low` and `high`: term by term."""
    rest_low, rest_high = sum(one.low for one in parts[1:]), sum(one.high for one in parts[1:])
    total = parts[0].within(low - rest_high, high - rest_low)
    for one in parts[1:]:
        rest_low, rest_high = rest_low - one.low, rest_high - one.high
        least, most = low - rest_high, high - rest_low
        if total.values.ndim == 1:
            whole = np.convolve(total.values, one.values)
            total = Counts(total.low + one.low, whole).within(least, most)
        else:
            total = _convolve(total, one).within(least, most) if most - least > FEW else _at(total, one, least, most)
    return total


def _convolve(one: Counts, other: Counts) -> Counts:
    long, short = (one, other) if one.values.shape[-1] >= other.values.shape[-1] else (other, one)
    size, steps = long.values.shape[-1], short.values.shape[-1]
    lead = np.broadcast_shapes(long.values.shape[:-1], short.values.shape[:-1])
    out = np.zeros((*lead, size + steps - 1), dtype=np.result_type(long.values, short.values))
    for k in range(steps):
        out[..., k : k + size] += times(long.values, short.values[..., k : k + 1])
    return Counts(one.low + other.low, out)


def _at(one: Counts, other: Counts, low: int, high: int) -> Counts:
    """Convolution of two `Counts` at the totals from `low` to `high`, both included, by direct summation.

    Entries are multiplied by `times`. If no pair adds up to any of these totals, the result is a single 0.
    """
    low, high = max(low, one.low + other.low), min(high, one.high + other.high)
    lead = np.broadcast_shapes(one.values.shape[:-1], other.values.shape[:-1])
    if high < low:
        return Counts(low, np.zeros((*lead, 1)))
    out = np.zeros((*lead, high - low + 1), dtype=np.result_type(one.values, other.values))
    for x in range(low, high + 1):
        first, last = max(one.low, x - other.high), min(one.high, x - other.low)
        own = one.values[..., first - one.low : last - one.low + 1]
        theirs = other.values[..., x - last - other.low : x - first - other.low + 1][..., ::-1]
        out[..., x - low] = times(own, theirs).sum(axis=-1)
    return Counts(low, out)


def add_by_transforms(parts: Sequence[Counts], low: int, high: int) -> tuple[Counts, float]:
    """Sum of independent counts by Fourier transforms, and an error bound for parts that sum to 1 in modulus."""
    from scipy.fft import fft, ifft, next_fast_len

    clipped = []
    for i, one in enumerate(parts):
        others = [*parts[:i], *parts[i + 1 :]]
        clipped.append(one.within(low - sum(x.high for x in others), high - sum(x.low for x in others)))
    size = sum(one.values.shape[-1] for one in clipped) - len(clipped) + 1
    length = next_fast_len(size)
    spectrum = fft(clipped[0].values, length)
    for one in clipped[1:]:
        spectrum = times(spectrum, fft(one.values, length))
    total = Counts(sum(one.low for one in clipped), ifft(spectrum)[..., :size])
    return total.within(low, high), 4.0 * EPSILON * len(clipped) * float(np.log2(length) + 1.0)


def conditional_values(
    tree: Tree, solution: Solution, chosen: Chosen, turn: Any, moments: Floats | None = None, direct: bool = True
) -> tuple[Any, float]:
    """(order, frequency, count) E[(S - c)^order exp(turn . (counts - centres)) | count of the top], and its error.

    Orders are 0, 1 and 2 with `moments`, (kind,) the coefficients of S, whose c is the sum of means; 0 alone without.

    turn : (frequency, kind), real for moment generating functions, imaginary for characteristic functions
    direct : term by term whatever it takes; otherwise by Fourier transforms where these take less
    """
    windows, error = solution.messages.windows, 0.0
    if chosen.top in chosen.kinds:
        own = Counts(int(windows["low"][chosen.top]), np.ones(int(windows["size"][chosen.top])))
        kind = chosen.kinds[chosen.top]
        return _marked(solution, [chosen.top], own, turn[:, kind], moments, kind).values, 0.0
    given: dict[int, Any] = {}
    for v in sorted(mixed_units(tree, chosen), reverse=True):
        low, size = int(windows["low"][v]), int(windows["size"][v])
        high, children = low + size - 1, range(int(tree.first_child[v]), int(tree.first_child[v] + tree.children[v]))
        groups: dict[int, list[int]] = {}
        for c in children:
            groups.setdefault(-2 - c if c in given else chosen.kinds.get(c, -1), []).append(c)
        sums = {kind: _total(solution, members, children, low, high) for kind, members in groups.items()}
        real = add_directly([*sums.values()], low, high).on(low, size)
        parts = []
        for kind, members in groups.items():
            if kind < -1:
                own = message(solution, members[0])
                parts.append(Counts(own.low, own.values * given.pop(members[0])))
            elif kind < 0:
                parts.append(Counts(sums[kind].low, sums[kind].values[None, None, :]))
            else:
                parts.append(_marked(solution, members, sums[kind], turn[:, kind], moments, kind))
        parts.sort(key=lambda one: one.values.shape[-1])
        lengths = [one.values.shape[-1] for one in parts]
        products = turn.shape[0] * (1 if moments is None else 6) * sum(
            min(sum(lengths[:i]), size + sum(lengths[i:])) * n for i, n in enumerate(lengths[1:], 1)
        )  # fmt: skip
        if direct or products <= DIRECT:
            total = add_directly(parts, low, high)
        else:
            total, off = add_by_transforms(parts, low, high)
            p = unit_posterior(solution, v)
            error += off * float((p[real > 0.0] / real[real > 0.0]).sum())
        possible = real > 0.0
        given[v] = np.where(possible, total.on(low, size) / np.where(possible, real, 1.0), 0.0)
    return given[chosen.top], error


def mixed_units(tree: Tree, chosen: Chosen) -> set[int]:
    """Units that hold some of the chosen, up to the one that holds all."""
    mixed: set[int] = set()
    for v in chosen.kinds:
        u = v
        while u != chosen.top:
            u = int(tree.parent[u])
            if u in mixed:
                break
            mixed.add(u)
    return mixed


def _total(solution: Solution, members: Sequence[int], children: range, low: int, high: int) -> Counts:
    """Law of the sum of some children, as far as the others leave their parent between `low` and `high`."""
    windows, others = solution.messages.windows, np.setdiff1d(np.arange(children.start, children.stop), members)
    least = int(windows["low"][others].sum())
    most = least + int((windows["size"][others] - 1).sum())
    return add_directly([message(solution, c) for c in members], low - most, high - least)


def _marked(
    solution: Solution, members: Sequence[int], total: Counts, turn: Any, moments: Floats | None, kind: int
) -> Counts:
    """Sum of units of one kind, times exp(turn . ), with its moments about its mean."""
    count = total.low + np.arange(total.values.size)
    centre = np.rint(solution.mean[list(members)]).sum()
    values = total.values * np.exp(turn[:, None] * (count - centre))
    if moments is None:
        return Counts(total.low, values[None])
    away = moments[kind] * (count - solution.mean[list(members)].sum())
    return Counts(total.low, np.stack([values, values * away, values * away**2]))


def expectation(
    tree: Tree, solution: Solution, chosen: Chosen, turn: Any, moments: Floats | None = None, direct: bool = False
) -> tuple[Any, float]:
    """(order, frequency) the same averaged over the count of the top: some frequencies at a time; its error."""
    p, parts, error = unit_posterior(solution, chosen.top), [], 0.0
    orders = 1 if moments is None else 3
    size = max(1, AT_ONCE // (orders * int(solution.messages.windows["size"].max())))
    for start in range(0, len(turn), size):
        values, off = conditional_values(tree, solution, chosen, turn[start : start + size], moments, direct)
        parts.append(values @ p)
        error = max(error, off)
    return np.concatenate(parts, axis=1), error


def sum_moments(tree: Tree, solution: Solution, chosen: Chosen) -> tuple[float, float]:
    """Posterior mean and variance of the combination: no inversion."""
    places = np.array([*chosen.kinds])
    weights = chosen.coefficients[[*chosen.kinds.values()]]
    mean = float(weights @ solution.mean[places])
    (_, first, second), _ = expectation(
        tree, solution, chosen, np.zeros((1, chosen.coefficients.size)), chosen.coefficients, direct=True
    )
    return mean, max(float(second[0] - first[0] ** 2), 0.0)


def characteristic_bound(
    tree: Tree, solution: Solution, chosen: Chosen, size: int, spared: int = 0
) -> tuple[Floats, float]:
    r"""(size // 2 + 1,) bounds on the modulus of a combination's characteristic function at 2 pi k / size.

    Given the counts of the lowest units that hold some of the chosen, the parts of S in these are independent, so that
    the modulus is at most the product of the largest conditional ones. In one of them S moves with the count a of one
    kind of children, given the total y of these and of another kind: a has the law A(a) B(y - a).

    Parameters
    ----------
    spared : so many factors, the smallest at each frequency, are left out: for expectations that have moments of S,
        each of which lies in one of these units

    Returns
    -------
    bounds, and the probability of the counts y that were left out
    """
    # the smallest ones, and the product of all others
    missed, factors = 0.0, np.ones((spared + 1, size // 2 + 1))
    mixed = mixed_units(tree, chosen)
    inner = {int(tree.parent[v]) for v in mixed if v != chosen.top}
    for used, v in enumerate(sorted(mixed - inner, key=lambda v: (-solution.variance[v], v))):
        if used == FACTORS or (factors[-1, ENOUGH:] < EPSILON / size).all():
            break
        if (factor := _conditional_modulus(tree, solution, chosen, v, size)) is not None:
            new = factor[0]
            for i in range(spared):
                factors[i], new = np.minimum(factors[i], new), np.maximum(factors[i], new)
            factors[-1] *= new
            missed += factor[1]
    return factors[-1], missed


def _conditional_modulus(
    tree: Tree, solution: Solution, chosen: Chosen, v: int, size: int
) -> tuple[Floats, float] | None:
    """Largest modulus, given what else is known in one unit, at every frequency; and what was left out of `given`."""
    children = range(int(tree.first_child[v]), int(tree.first_child[v] + tree.children[v]))
    window = solution.messages.windows[v]
    low, high = int(window["low"]), int(window["low"] + window["size"] - 1)
    groups: dict[int, list[int]] = {}
    for c in children:
        groups.setdefault(chosen.kinds.get(c, -1), []).append(c)
    if len(groups) < 2:
        return None
    kinds = sorted(groups, key=lambda kind: (kind >= 0, -len(groups[kind])))  # those that do not enter first
    other, own = kinds[0], kinds[1]
    coefficient = {kind: chosen.coefficients[kind] if kind >= 0 else 0.0 for kind in kinds}
    step = abs(int(coefficient[own] - coefficient[other]))
    sums = {kind: _total(solution, members, children, low, high) for kind, members in groups.items()}
    real = add_directly([*sums.values()], low, high).on(low, high - low + 1)
    p = unit_posterior(solution, v)
    weight = Counts(low, np.where(real > 0.0, p / np.where(real > 0.0, real, 1.0), 0.0))
    # the rest is known as well: y = x - rest
    for kind in kinds[2:]:
        turned = Counts(-sums[kind].high, sums[kind].values[::-1])
        weight = add_directly([weight, turned], low - sums[kind].high, high)
    both = add_directly([sums[own], sums[other]], weight.low, weight.high)
    given = both.values * weight.on(both.low, both.values.size)
    seen, whole = np.cumsum(given), float(given.sum())
    likely = (seen > UNLIKELY * whole) & (np.cumsum(given[::-1])[::-1] > UNLIKELY * whole)
    rows = np.flatnonzero(likely & (both.values > 0.0))
    if not rows.size:
        return None
    count = sums[own].values.size
    largest, together = np.zeros(size // 2 + 1), max(1, AT_ONCE // max(size, count))
    for start in range(0, rows.size, together):
        some = rows[start : start + together]
        rest = (both.low + some)[:, None] - (sums[own].low + np.arange(count))[None, :] - sums[other].low
        inside = (rest >= 0) & (rest < sums[other].values.size)
        law = sums[own].values * np.where(inside, sums[other].values[np.where(inside, rest, 0)], 0.0)
        folded = np.zeros((some.size, -(-count // size) * size))
        folded[:, :count] = law / both.values[some][:, None]
        spectrum = np.fft.rfft(folded.reshape(some.size, -1, size).sum(axis=1))
        largest = np.maximum(largest, np.abs(spectrum).max(axis=0))
    frequencies = (step * np.arange(size // 2 + 1)) % size
    frequencies = np.minimum(frequencies, size - frequencies)
    rounding = 8.0 * EPSILON * np.log2(size + 1.0)
    missed = float(given[~np.isin(np.arange(given.size), rows)].sum()) / whole
    return np.minimum(largest[frequencies] + rounding, 1.0), missed
