r"""Linear combinations of units of a solved tree: conditional moments and characteristic functions, passed up the tree.

Given the count x_v of a unit, the counts below it are independent of everything else. So the characteristic function of
a linear combination S of units is passed up as a conditional expectation,

.. math::

    \varphi_v(\omega \mid x) = \frac{\sum_{x_1 + \dots + x_n = x} \prod_c I_c(x_c) \varphi_c(\omega \mid x_c)}
                                    {\sum_{x_1 + \dots + x_n = x} \prod_c I_c(x_c)}, \qquad
    \varphi(\omega) = \sum_x p_v(x) \, \varphi_v(\omega \mid x)

with the upward messages I, phi_c = exp(i omega a x) for a unit with coefficient a, phi_c = 1 for a unit outside the
combination, and the posterior p_v of the lowest common ancestor v. Derivatives at omega = 0 are moments: they need one
frequency and no inversion. The modulus of every term of the numerator is a term of the denominator, so direct sums are
accurate to rounding; if they have too many terms, Fourier transforms replace them, with a bounded absolute error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adversary._core import Floats, Integers
from adversary.census.spine.solution import Solution
from adversary.census.spine.tree import Tree

# Largest number of products with which the children of one unit are convolved directly rather than by FFT.
DIRECT = 3e7

# Largest number of totals for which a convolution is summed one total at a time.
FEW = 100
AT_ONCE = 1 << 21
"""Numbers of one convolution held in memory at once (32 MiB if complex)."""

# Largest number of units whose conditional characteristic functions are multiplied to bound that of a combination.
FACTORS = 48

# Number of frequencies that are always computed: no further factors are needed if the bound is negligible beyond.
ENOUGH = 64

# Posterior probability that such a bound may leave out in each tail of each unit.
UNLIKELY = 1e-19
EPSILON = float(np.finfo(np.float64).eps)


class Counts(NamedTuple):
    """Function of consecutive counts: `values` (..., count) at the counts `low`, `low` + 1, ..."""

    low: int
    values: Any

    @property
    def high(self) -> int:
        """The largest count."""
        return self.low + int(self.values.shape[-1]) - 1

    def within(self, low: int, high: int) -> Counts:
        """Restriction to the counts from `low` to `high`; a single 0 if none is left."""
        first, stop = max(low, self.low), min(high, self.high) + 1
        if stop <= first:
            return Counts(min(max(self.low, low), high), np.zeros((*self.values.shape[:-1], 1)))
        return Counts(first, self.values[..., first - self.low : stop - self.low])

    def on(self, low: int, size: int) -> Any:
        """Values at the counts `low`, ..., `low` + size - 1, zero outside the stored range."""
        padded = np.zeros((*self.values.shape[:-1], size), dtype=self.values.dtype)
        first, stop = max(low, self.low), min(low + size - 1, self.high) + 1
        if stop > first:
            padded[..., first - low : stop - low] = self.values[..., first - self.low : stop - self.low]
        return padded


class Combination(NamedTuple):
    """Linear combination of units: index into `coefficients` by unit (its kind), the units' lowest common ancestor, and
    the (kind,) distinct coefficients.
    """

    kinds: dict[int, int]
    top: int
    coefficients: Floats

    @classmethod
    def of(cls, tree: Tree, places: Integers, coefficients: Floats) -> Combination:
        """Combination of the units at `places`, each with its coefficient."""
        values, kind = np.unique(coefficients, return_inverse=True)
        return cls(dict(zip(places.tolist(), kind.ravel().tolist(), strict=True)), lowest_common(tree, places), values)


def lowest_common(tree: Tree, places: Integers) -> int:
    """Lowest common ancestor of some units, by index."""
    ancestors: set[int] = set(places.tolist())
    while len(ancestors) > 1:
        last = max(ancestors)
        ancestors.discard(last)
        ancestors.add(int(tree.parent[last]))
    return ancestors.pop()


def message(solution: Solution, v: int) -> Counts:
    """Upward message of a unit, as `Counts`."""
    window = solution.messages.windows[v]
    return Counts(int(window["low"]), solution.messages.data[window["place"] : window["place"] + window["size"]])


def unit_posterior(solution: Solution, v: int) -> Floats:
    """(count,) posterior pmf of a unit's count, on the window of its message."""
    window = solution.messages.windows[v]
    p = message(solution, v).values * solution.outer[window["place"] : window["place"] + window["size"]]
    return np.asarray(p / p.sum())


def product_of_moments(first: Any, second: Any) -> Any:
    """Moments of orders 0, 1 and 2 of a sum of two independent parts, from theirs, along axis 0.

    If axis 0 of one of them has length 1 (no moments), the result is the plain product.
    """
    if len(first) == 1 or len(second) == 1:
        return first * second
    mixed = first[0] * second[1] + first[1] * second[0]
    return np.stack(
        [first[0] * second[0], mixed, first[0] * second[2] + 2.0 * first[1] * second[1] + first[2] * second[0]]
    )


def convolve_directly(parts: Sequence[Counts], low: int, high: int) -> Counts:
    """Convolution of several `Counts` by direct summation, restricted to totals from `low` to `high`."""
    rest_low, rest_high = sum(one.low for one in parts[1:]), sum(one.high for one in parts[1:])
    total = parts[0].within(low - rest_high, high - rest_low)
    for one in parts[1:]:
        rest_low, rest_high = rest_low - one.low, rest_high - one.high
        lowest, highest = low - rest_high, high - rest_low
        if total.values.ndim == 1:
            whole = np.convolve(total.values, one.values)
            total = Counts(total.low + one.low, whole).within(lowest, highest)
        else:
            total = (
                _convolve(total, one).within(lowest, highest)
                if highest - lowest > FEW
                else _convolve_at(total, one, lowest, highest)
            )
    return total


def _convolve(one: Counts, other: Counts) -> Counts:
    """Convolution of two `Counts`, with moments, by direct summation over all totals."""
    long, short = (one, other) if one.values.shape[-1] >= other.values.shape[-1] else (other, one)
    size, steps = long.values.shape[-1], short.values.shape[-1]
    lead = np.broadcast_shapes(long.values.shape[:-1], short.values.shape[:-1])
    out = np.zeros((*lead, size + steps - 1), dtype=np.result_type(long.values, short.values))
    for k in range(steps):
        out[..., k : k + size] += product_of_moments(long.values, short.values[..., k : k + 1])
    return Counts(one.low + other.low, out)


def _convolve_at(one: Counts, other: Counts, low: int, high: int) -> Counts:
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
        out[..., x - low] = product_of_moments(own, theirs).sum(axis=-1)
    return Counts(low, out)


def convolve_by_fft(parts: Sequence[Counts], low: int, high: int) -> tuple[Counts, float]:
    """Convolution of several `Counts` by FFT, and a bound on its absolute error if each sums to 1 in modulus."""
    from scipy.fft import fft, ifft, next_fast_len

    clipped = []
    for i, one in enumerate(parts):
        others = [*parts[:i], *parts[i + 1 :]]
        clipped.append(one.within(low - sum(x.high for x in others), high - sum(x.low for x in others)))
    size = sum(one.values.shape[-1] for one in clipped) - len(clipped) + 1
    length = next_fast_len(size)
    spectrum = fft(clipped[0].values, length)
    for one in clipped[1:]:
        spectrum = product_of_moments(spectrum, fft(one.values, length))
    total = Counts(sum(one.low for one in clipped), ifft(spectrum)[..., :size])
    return total.within(low, high), 4.0 * EPSILON * len(clipped) * float(np.log2(length) + 1.0)


def conditional_expectation(
    tree: Tree,
    solution: Solution,
    combination: Combination,
    exponents: Any,
    moments: Floats | None = None,
    direct: bool = True,
) -> tuple[Any, float]:
    """(order, frequency, count) E[(S - E S)^order exp(exponents . (kind totals - centres)) | count of the top].

    Returns the array, and a bound on its absolute error averaged over the posterior of the top.

    exponents : (frequency, kind), real for moment generating functions, imaginary for characteristic functions
    moments : (kind,) coefficients of S, for the orders 0, 1 and 2; None: order 0 only
    direct : direct summation even where Fourier transforms would be faster
    """
    windows, error = solution.messages.windows, 0.0
    if combination.top in combination.kinds:
        own = Counts(int(windows["low"][combination.top]), np.ones(int(windows["size"][combination.top])))
        kind = combination.kinds[combination.top]
        return _tilted_kind_sum(solution, [combination.top], own, exponents[:, kind], moments, kind).values, 0.0
    conditional: dict[int, Any] = {}
    for v in sorted(units_to_condition_on(tree, combination), reverse=True):
        low, size = int(windows["low"][v]), int(windows["size"][v])
        high, children = low + size - 1, range(int(tree.first_child[v]), int(tree.first_child[v] + tree.children[v]))
        groups: dict[int, list[int]] = {}
        for c in children:
            groups.setdefault(-2 - c if c in conditional else combination.kinds.get(c, -1), []).append(c)
        sums = {kind: _sum_of_children(solution, members, children, low, high) for kind, members in groups.items()}
        denominator = convolve_directly([*sums.values()], low, high).on(low, size)
        parts = []
        for kind, members in groups.items():
            if kind < -1:
                own = message(solution, members[0])
                parts.append(Counts(own.low, own.values * conditional.pop(members[0])))
            elif kind < 0:
                parts.append(Counts(sums[kind].low, sums[kind].values[None, None, :]))
            else:
                parts.append(_tilted_kind_sum(solution, members, sums[kind], exponents[:, kind], moments, kind))
        parts.sort(key=lambda one: one.values.shape[-1])
        lengths = [one.values.shape[-1] for one in parts]
        products = exponents.shape[0] * (1 if moments is None else 6) * sum(
            min(sum(lengths[:i]), size + sum(lengths[i:])) * n for i, n in enumerate(lengths[1:], 1)
        )  # fmt: skip
        if direct or products <= DIRECT:
            total = convolve_directly(parts, low, high)
        else:
            total, transform_error = convolve_by_fft(parts, low, high)
            p = unit_posterior(solution, v)
            error += transform_error * float((p[denominator > 0.0] / denominator[denominator > 0.0]).sum())
        possible = denominator > 0.0
        conditional[v] = np.where(possible, total.on(low, size) / np.where(possible, denominator, 1.0), 0.0)
    return conditional[combination.top], error


def units_to_condition_on(tree: Tree, combination: Combination) -> set[int]:
    """Indices of the ancestors of the combination's units, up to their lowest common ancestor."""
    mixed: set[int] = set()
    for v in combination.kinds:
        u = v
        while u != combination.top:
            u = int(tree.parent[u])
            if u in mixed:
                break
            mixed.add(u)
    return mixed


def _sum_of_children(solution: Solution, members: Sequence[int], children: range, low: int, high: int) -> Counts:
    """Convolution of the messages of some children, at totals that can bring the parent between `low` and `high`."""
    windows, others = solution.messages.windows, np.setdiff1d(np.arange(children.start, children.stop), members)
    least = int(windows["low"][others].sum())
    most = least + int((windows["size"][others] - 1).sum())
    return convolve_directly([message(solution, c) for c in members], low - most, high - least)


def _tilted_kind_sum(
    solution: Solution, members: Sequence[int], total: Counts, exponents: Any, moments: Floats | None, kind: int
) -> Counts:
    """Message of the sum of units of one kind, times exp(exponents . (sum - centre)), with moments about its mean."""
    count = total.low + np.arange(total.values.size)
    centre = np.rint(solution.mean[list(members)]).sum()
    values = total.values * np.exp(exponents[:, None] * (count - centre))
    if moments is None:
        return Counts(total.low, values[None])
    deviation = moments[kind] * (count - solution.mean[list(members)].sum())
    return Counts(total.low, np.stack([values, values * deviation, values * deviation**2]))


def expectation(
    tree: Tree,
    solution: Solution,
    combination: Combination,
    exponents: Any,
    moments: Floats | None = None,
    direct: bool = False,
) -> tuple[Any, float]:
    """(order, frequency) `conditional_expectation` averaged over the posterior of the top, and its error bound."""
    p, parts, error = unit_posterior(solution, combination.top), [], 0.0
    orders = 1 if moments is None else 3
    size = max(1, AT_ONCE // (orders * int(solution.messages.windows["size"].max())))
    for start in range(0, len(exponents), size):
        values, off = conditional_expectation(
            tree, solution, combination, exponents[start : start + size], moments, direct
        )
        parts.append(values @ p)
        error = max(error, off)
    return np.concatenate(parts, axis=1), error


def sum_moments(tree: Tree, solution: Solution, combination: Combination) -> tuple[float, float]:
    """Posterior mean and variance of a combination, from conditional moments."""
    places = np.array([*combination.kinds])
    weights = combination.coefficients[[*combination.kinds.values()]]
    mean = float(weights @ solution.mean[places])
    (_, first, second), _ = expectation(
        tree, solution, combination, np.zeros((1, combination.coefficients.size)), combination.coefficients, direct=True
    )
    return mean, max(float(second[0] - first[0] ** 2), 0.0)


def characteristic_bound(
    tree: Tree, solution: Solution, combination: Combination, size: int, omitted: int = 0
) -> tuple[Floats, float]:
    r"""(size // 2 + 1,) bounds on the modulus of a combination's characteristic function at 2 pi k / size.

    Given the counts of the parents of the combination's units, the parts of S below these parents are independent, so
    the modulus is at most the product of the largest conditional ones. Below one parent, S depends on the count a of
    one kind of children; given the total y of these and of another kind, a has weights A(a) B(y - a).

    Parameters
    ----------
    omitted : number of factors left out of the product, the smallest ones at each frequency: for expectations with a
        moment of S of this order, whose terms involve that many of the parents

    Returns
    -------
    bounds, and the probability of the totals y that were left out
    """
    # the `omitted` smallest factors, and the product of all others
    missed, factors = 0.0, np.ones((omitted + 1, size // 2 + 1))
    mixed = units_to_condition_on(tree, combination)
    inner = {int(tree.parent[v]) for v in mixed if v != combination.top}
    for used, v in enumerate(sorted(mixed - inner, key=lambda v: (-solution.variance[v], v))):
        if used == FACTORS or (factors[-1, ENOUGH:] < EPSILON / size).all():
            break
        if (factor := _conditional_modulus(tree, solution, combination, v, size)) is not None:
            new = factor[0]
            for i in range(omitted):
                factors[i], new = np.minimum(factors[i], new), np.maximum(factors[i], new)
            factors[-1] *= new
            missed += factor[1]
    return factors[-1], missed


def _conditional_modulus(
    tree: Tree, solution: Solution, combination: Combination, v: int, size: int
) -> tuple[Floats, float] | None:
    """Largest conditional modulus below unit v at every frequency, and the probability of totals left out.

    None if all children of v are of one kind, or if no total is likely.
    """
    children = range(int(tree.first_child[v]), int(tree.first_child[v] + tree.children[v]))
    window = solution.messages.windows[v]
    low, high = int(window["low"]), int(window["low"] + window["size"] - 1)
    groups: dict[int, list[int]] = {}
    for c in children:
        groups.setdefault(combination.kinds.get(c, -1), []).append(c)
    if len(groups) < 2:
        return None
    kinds = sorted(
        groups, key=lambda kind: (kind >= 0, -len(groups[kind]))
    )  # first the children outside the combination
    other, own = kinds[0], kinds[1]
    coefficient = {kind: combination.coefficients[kind] if kind >= 0 else 0.0 for kind in kinds}
    step = abs(int(coefficient[own] - coefficient[other]))
    sums = {kind: _sum_of_children(solution, members, children, low, high) for kind, members in groups.items()}
    denominator = convolve_directly([*sums.values()], low, high).on(low, high - low + 1)
    p = unit_posterior(solution, v)
    weight = Counts(low, np.where(denominator > 0.0, p / np.where(denominator > 0.0, denominator, 1.0), 0.0))
    # condition on further kinds as well: y = x - rest
    for kind in kinds[2:]:
        reversed_sum = Counts(-sums[kind].high, sums[kind].values[::-1])
        weight = convolve_directly([weight, reversed_sum], low - sums[kind].high, high)
    pair_sum = convolve_directly([sums[own], sums[other]], weight.low, weight.high)
    probability = pair_sum.values * weight.on(pair_sum.low, pair_sum.values.size)
    cumulative, whole = np.cumsum(probability), float(probability.sum())
    likely = (cumulative > UNLIKELY * whole) & (np.cumsum(probability[::-1])[::-1] > UNLIKELY * whole)
    rows = np.flatnonzero(likely & (pair_sum.values > 0.0))
    if not rows.size:
        return None
    count = sums[own].values.size
    largest, chunk = np.zeros(size // 2 + 1), max(1, AT_ONCE // max(size, count))
    for start in range(0, rows.size, chunk):
        chunk_rows = rows[start : start + chunk]
        rest = (pair_sum.low + chunk_rows)[:, None] - (sums[own].low + np.arange(count))[None, :] - sums[other].low
        inside = (rest >= 0) & (rest < sums[other].values.size)
        weights = sums[own].values * np.where(inside, sums[other].values[np.where(inside, rest, 0)], 0.0)
        folded = np.zeros((chunk_rows.size, -(-count // size) * size))
        folded[:, :count] = weights / pair_sum.values[chunk_rows][:, None]
        spectrum = np.fft.rfft(folded.reshape(chunk_rows.size, -1, size).sum(axis=1))
        largest = np.maximum(largest, np.abs(spectrum).max(axis=0))
    frequencies = (step * np.arange(size // 2 + 1)) % size
    frequencies = np.minimum(frequencies, size - frequencies)
    rounding = 8.0 * EPSILON * np.log2(size + 1.0)
    missed = float(probability[~np.isin(np.arange(probability.size), rows)].sum()) / whole
    return np.minimum(largest[frequencies] + rounding, 1.0), missed
