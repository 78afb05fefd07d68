r"""Posteriors of sums of units, differences and shares: of a place off the spine, or of two places beside one another.

Given the count x_v of a unit, what lies below it is independent of everything else. So the characteristic function of
a linear combination S of units, given x_v, is passed up the tree,

.. math::

    \varphi_v(\omega \mid x) = \frac{\sum_{x_1 + \dots + x_n = x} \prod_c I_c(x_c) \varphi_c(\omega \mid x_c)}
                                    {\sum_{x_1 + \dots + x_n = x} \prod_c I_c(x_c)}, \qquad
    \varphi(\omega) = \sum_x p_v(x) \, \varphi_v(\omega \mid x)

with the upward messages I, exp(i omega a x) for a unit that enters with coefficient a, 1 for one that does not, and the
posterior p_v of the lowest unit v that holds all of them. Every term of the numerator has its modulus in the
denominator: nothing cancels, and probabilities of S have an absolute error of rounding only. The law of S is the
Fourier inverse over a window; what lies outside of it folds back, and is bounded by Chernoff's inequality with the
moment generating function from the same recursion at imaginary frequencies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adversary._core import Floats, Integers
from adversary.census.spine.solution import Solution
from adversary.census.spine.tree import Tree

if TYPE_CHECKING:
    import xarray as xr

Complex = NDArray[np.complex128]
Units = str | Iterable[str]

FOLDED = 1e-12
"""Probability outside of a window that is small enough."""
DEVIATIONS = 10.0
"""Half a window at first, in standard deviations of the sum were its units independent."""
AT_ONCE = 1 << 22
"""Numbers of one convolution held at once."""
ROUNDING = 1e-13
NOTHING = (0, np.ones(1))


def sum_law(tree: Tree, solution: Solution, units: Units) -> xr.Dataset:
    """Law of the sum of disjoint units: see `SpinePosterior.sum`."""
    places = _disjoint(tree, units, "units")
    low, pmf, error = _law(tree, solution, places, np.ones(places.size))
    return _sum_dataset(low, pmf, error, "count", units=[str(name) for name in tree.names[places]])


def difference_law(tree: Tree, solution: Solution, one: Units, other: Units) -> xr.Dataset:
    """Law of the difference of two sums: see `SpinePosterior.compare`."""
    places = _disjoint(tree, [*_unit_names(one), *_unit_names(other)], "a and b together")
    sign = np.where(np.isin(places, tree.index(_unit_names(one))), 1.0, -1.0)
    low, pmf, error = _law(tree, solution, places, sign)
    found = _sum_dataset(low, pmf, error, "difference", a=_unit_names(one), b=_unit_names(other))
    side = np.sign(low + np.arange(pmf.size))
    chances = {"greater": pmf[side > 0].sum(), "equal": pmf[side == 0].sum(), "less": pmf[side < 0].sum()}
    return found.assign({name: ((), min(max(float(p), 0.0), 1.0)) for name, p in chances.items()})


def share_law(tree: Tree, solution: Solution, part: Units, whole: Units) -> xr.Dataset:
    """Law of the share of some units in others that hold them: see `SpinePosterior.share`."""
    import xarray as xr

    inside, around = _disjoint(tree, part, "units"), _disjoint(tree, whole, "of")
    rest = _complement_units(tree, around, inside)
    places = np.concatenate([inside, rest])
    laws = [_law(tree, solution, own, np.ones(own.size)) if own.size else (*NOTHING, 0.0) for own in (inside, rest)]
    sizes = [pmf.size for _, pmf, _ in laws]
    steps = [2.0 * np.pi * np.arange(size) / size for size in sizes]
    omega = np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, 2)
    coefficients = np.zeros((places.size, 2))
    coefficients[: inside.size, 0], coefficients[inside.size :, 1] = 1.0, 1.0
    spectrum = _characteristic(tree, solution, places, coefficients, omega).reshape(sizes)
    joint = np.fft.fft2(spectrum).real / spectrum.size
    for axis, ((low, _, _), own) in enumerate(zip(laws, (inside, rest), strict=True)):
        joint = np.roll(joint, int(_centre(solution, own).sum()) - low, axis=axis)
    counts = [low + np.arange(pmf.size) for low, pmf, _ in laws]
    total = counts[0][:, None] + counts[1][None, :]
    held = total > 0
    share = np.where(held, counts[0][:, None] / np.maximum(total, 1), 0.0)
    p = np.maximum(joint, 0.0) * held
    mean = (p * share).sum() / p.sum()
    values = {
        "mean": mean,
        "sd": np.sqrt((p * (share - mean) ** 2).sum() / p.sum()),
        "empty": max(0.0, float(joint[~held].sum())),
        "error": 2.0 * solution.truncation_bound + sum(error for _, _, error in laws) + ROUNDING,
    }
    named = {name: ((), float(value)) for name, value in values.items()}
    coords = {"count": counts[0], "rest": counts[1]}
    attributes = {"units": _unit_names(part), "of": _unit_names(whole)}
    return xr.Dataset({"joint": (("count", "rest"), np.maximum(joint, 0.0)), **named}, coords, attributes)


def _unit_names(units: Units) -> list[str]:
    return [units] if isinstance(units, str) else [str(name) for name in units]


def _disjoint(tree: Tree, units: Units, what: str) -> Integers:
    """(some,) indices of units, none of which lies in another; ValueError naming two that overlap."""
    names = _unit_names(units)
    if not names:
        raise ValueError(f"{what} must name at least one unit")
    places = np.asarray(tree.index(names), dtype=np.int64)
    taken = set(places.tolist())
    if len(taken) < places.size:
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{what} must name disjoint units, {twice!r} comes twice")
    for place in places.tolist():
        v = int(tree.parent[place])
        while v >= 0:
            if v in taken:
                inner, outer = str(tree.names[place]), str(tree.names[v])
                raise ValueError(f"{what} must name disjoint units, {inner!r} lies in {outer!r}")
            v = int(tree.parent[v])
    return places


def _complement_units(tree: Tree, around: Integers, inside: Integers) -> Integers:
    """Disjoint units that make up what lies in some units and not in others; ValueError for one that lies outside."""
    taken, outer = set(inside.tolist()), set(around.tolist())
    path: set[int] = set()
    for place in inside.tolist():
        v = place
        while v >= 0 and v not in outer:
            path.add(v)
            v = int(tree.parent[v])
        if v < 0:
            raise ValueError(f"unit {str(tree.names[place])!r} lies in none of the units whose share is asked for")
        path.add(v)
    rest, stack = [], list(outer)
    while stack:
        v = stack.pop()
        if v in taken:
            continue
        if v not in path:
            rest.append(v)
            continue
        stack.extend(range(int(tree.first_child[v]), int(tree.first_child[v] + tree.children[v])))
    return np.array(sorted(rest), dtype=np.int64)


def _window(solution: Solution, v: int) -> tuple[int, Floats]:
    """(lowest count, numbers) of a unit's upward message."""
    window = solution.messages.windows[v]
    return int(window["low"]), solution.messages.data[window["place"] : window["place"] + window["size"]]


def _posterior(solution: Solution, v: int) -> Floats:
    window = solution.messages.windows[v]
    p = _window(solution, v)[1] * solution.outer[window["place"] : window["place"] + window["size"]]
    return np.asarray(p / p.sum())


def _top(tree: Tree, places: Integers) -> int:
    """The lowest unit that holds all others."""
    here: set[int] = set(places.tolist())
    while len(here) > 1:
        last = max(here)
        here.discard(last)
        here.add(int(tree.parent[last]))
    return here.pop()


def _characteristic(tree: Tree, solution: Solution, places: Integers, coefficients: Floats, omega: Any) -> Complex:
    """(frequency,) E exp(i omega . (S - c)): S_k sums coefficients[:, k] times the units' counts, c as `_centre` says.

    omega : (frequency, combination), radians; imaginary for moment generating functions
    """
    top = _top(tree, places)
    kinds, kind = np.unique(coefficients, axis=0, return_inverse=True)
    below = dict(zip(places.tolist(), kind.ravel().tolist(), strict=True))
    size = max(1, AT_ONCE // int(solution.messages.windows["size"].max()))
    p, parts = _posterior(solution, top), []
    for start in range(0, len(omega), size):
        turn = 1j * (omega[start : start + size] @ kinds.T)
        parts.append(_conditional_transform(tree, solution, top, below, turn) @ p)
    return np.concatenate(parts)


def _centre(solution: Solution, places: Integers) -> Floats:
    """(unit,) whole counts near the means, from which counts are measured: powers stay within bounds."""
    return np.rint(solution.mean[places])


def _conditional_transform(tree: Tree, solution: Solution, top: int, below: dict[int, int], turn: Complex) -> Complex:
    """(frequency, count) characteristic function given the count of the unit that holds all those in `below`.

    below : unit and which column of `turn` (frequency, kind) it enters with
    """
    if top in below:
        low, numbers = _window(solution, top)
        return _powers(turn[:, below[top]], low - _centre(solution, np.array([top])).sum(), numbers.size)
    given: dict[int, Complex] = {}
    mixed: set[int] = set()
    for v in below:
        u = v
        while u != top:
            u = int(tree.parent[u])
            mixed.add(u)
    for v in sorted(mixed, reverse=True):
        children = range(int(tree.first_child[v]), int(tree.first_child[v] + tree.children[v]))
        real = reduce(_convolve_counts, (_window(solution, c) for c in children))
        plain = reduce(
            _convolve_counts, (_window(solution, c) for c in children if c not in below and c not in given), NOTHING
        )
        low, turned = plain[0], plain[1][None, :].astype(np.complex128)
        for kind in range(turn.shape[1]):
            if own := [c for c in children if below.get(c) == kind]:
                start, some = _joint_transform(solution, own, turn[:, kind])
                low, turned = low + start, _convolve_frequencies(turned, some)
        for c in children:
            if c in given:
                start, numbers = _window(solution, c)
                low, turned = low + start, _convolve_frequencies(turned, numbers * given.pop(c))
        first, numbers = _window(solution, v)
        at = first - low + np.arange(numbers.size)
        inside = (at >= 0) & (at < real[1].size)
        at = np.where(inside, at, 0)
        possible = inside & (real[1][at] > 0.0)
        given[v] = np.where(possible, turned[:, at] / np.where(possible, real[1][at], 1.0), 0.0)
    return given[top]


def _joint_transform(solution: Solution, units: Sequence[int], turn: Complex) -> tuple[int, Complex]:
    """(lowest sum, (frequency, sum) numbers) of units that enter with one coefficient, counted from their centres."""
    low, numbers = reduce(_convolve_counts, (_window(solution, v) for v in units))
    centre = _centre(solution, np.asarray(units)).sum()
    return low, numbers * _powers(turn, low - centre, numbers.size)


def _powers(turn: Complex, first: float, size: int) -> Complex:
    """(frequency, count) exp(turn x) at consecutive counts."""
    return np.asarray(np.exp(turn[:, None] * (first + np.arange(size))))


def _convolve_counts(one: tuple[int, Floats], other: tuple[int, Floats]) -> tuple[int, Floats]:
    """The sum of two independent counts; directly, as all terms are positive."""
    return one[0] + other[0], np.convolve(one[1], other[1])


def _convolve_frequencies(one: Complex, other: Complex) -> Complex:
    """(frequency, count) convolution of two arrays, frequency by frequency; directly."""
    one, other = (one, other) if one.shape[1] >= other.shape[1] else (other, one)
    out = np.zeros((max(len(one), len(other)), one.shape[1] + other.shape[1] - 1), dtype=np.complex128)
    for k in range(other.shape[1]):
        out[:, k : k + one.shape[1]] += one * other[:, k : k + 1]
    return out


def _law(tree: Tree, solution: Solution, places: Integers, sign: Floats) -> tuple[int, Floats, float]:
    """(lowest value, pmf, error) of a sum of units, each added or subtracted."""
    if not solution.resolved:
        raise ValueError(
            f"the posterior is not resolved, up to {solution.truncation_bound:.2g} of it was dropped: no sums of it"
        )
    ends = np.array([[low, low + numbers.size - 1] for low, numbers in (_window(solution, int(v)) for v in places)])
    across = np.sort(ends * sign[:, None], axis=1).sum(axis=0).astype(np.int64)
    centre = int(np.rint(sign @ solution.mean[places]))
    spread = float(np.sqrt(solution.variance[places].sum()))
    half = int(np.ceil(DEVIATIONS * spread)) + 4
    while True:
        low, high = max(int(across[0]), centre - half), min(int(across[1]), centre + half)
        whole = low == across[0] and high == across[1]
        folded = 0.0 if whole else _outside(tree, solution, places, sign, (low, high), max(spread, 1.0))
        if folded <= FOLDED:
            break
        half *= 2
    size = high - low + 1
    omega = 2.0 * np.pi * np.arange(size // 2 + 1) / size
    spectrum = _characteristic(tree, solution, places, sign[:, None], omega[:, None])
    start = low - sign @ _centre(solution, places)
    pmf = np.fft.irfft(np.conj(spectrum * np.exp(-1j * omega * start)), size)
    return low, np.maximum(pmf, 0.0), 2.0 * solution.truncation_bound + folded + ROUNDING


def _outside(tree: Tree, solution: Solution, places: Integers, sign: Floats, ends: Any, spread: float) -> float:
    """Chernoff's bound on the probability of a sum below or above a window."""
    tilts = np.array([0.5, 1.0, 2.0, 4.0, 8.0]) / spread
    worst = 0.0
    for side, end in ((1.0, ends[1] + 1), (-1.0, ends[0] - 1)):
        away = -1j * side * tilts[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            shifted = _characteristic(tree, solution, places, sign[:, None], away).real
            bound = shifted * np.exp(-side * tilts * (end - sign @ _centre(solution, places)))
        worst += float(np.nan_to_num(bound, nan=1.0).min())
    return worst


def _sum_dataset(low: int, pmf: Floats, error: float, dim: str, **named: Any) -> xr.Dataset:
    import xarray as xr

    values = low + np.arange(pmf.size)
    mean = float(pmf @ values / pmf.sum())
    sd = float(np.sqrt(pmf @ (values - mean) ** 2 / pmf.sum()))
    columns = {"pmf": ((dim,), pmf), "mean": ((), mean), "sd": ((), sd), "error": ((), error)}
    return xr.Dataset(columns, {dim: values}, named)
