r"""Posteriors of sums of units, differences and shares: of a place off the spine, or of two places beside one another.

Means and standard deviations are moments, passed up the tree. The law of a sum S is the Fourier inverse of its
characteristic function over a window: what lies outside of it folds back, and is bounded by Chernoff's inequality;
frequencies beyond which the characteristic function is proven to be negligible are not worked out, a few dozen of
thousands being left for a sum of many units. The share of S in a total T has the moments

.. math:: E[(S / T)^k] = \sum_{t > 0} t^{-k} E[S^k ; T = t] / P(T > 0)

where T is the count of one unit without any inversion, otherwise with one over T alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from adversary._core import Floats, Integers, check_probability
from adversary.census.spine.solution import Solution
from adversary.census.spine.tree import Tree
from adversary.census.spine.unit_sums import (
    Chosen,
    characteristic_bound,
    conditional_values,
    expectation,
    message,
    sum_moments,
    unit_posterior,
)

if TYPE_CHECKING:
    import xarray as xr

Units = str | Iterable[str]

# Probability outside of a window that is small enough, and sum of the frequencies left out that is.
FOLDED = 1e-12

# Half a window at first, in standard deviations of the sum.
DEVIATIONS = 10.0

# Of Chernoff's bound, times the standard deviation.
TILTS = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0)
ROUNDING = 1e-13

# Frequencies, and numbers, of a joint law of two sums up to which it is worked out.
SMALL, LARGE = 1 << 13, 1 << 22
EQUAL_TAILED = "equal-tailed, of the posterior"
BETA = "of the beta law with this mean and standard deviation"


class CountLaw(NamedTuple):
    """Posterior of a linear combination: lowest value, probabilities, error, mean and standard deviation."""

    low: int
    pmf: Floats
    error: float
    mean: float
    sd: float


def sum_law(tree: Tree, solution: Solution, units: Units, prob: float) -> xr.Dataset:
    """Law of the sum of disjoint units: see `SpinePosterior.sum`."""
    places = _disjoint(tree, units, "units")
    law = _law(tree, solution, places, np.ones(places.size))
    return _sum_dataset(law, "count", prob, units=[str(name) for name in tree.names[places]])


def difference_law(tree: Tree, solution: Solution, one: Units, other: Units, prob: float) -> xr.Dataset:
    """Law of the difference of two sums: see `SpinePosterior.compare`."""
    names = _unit_names(one), _unit_names(other)
    places = _disjoint(tree, [*names[0], *names[1]], "a and b together")
    law = _law(tree, solution, places, np.where(np.isin(places, tree.index(names[0])), 1.0, -1.0))
    side = np.sign(law.low + np.arange(law.pmf.size))
    chances = {"greater": law.pmf[side > 0].sum(), "equal": law.pmf[side == 0].sum(), "less": law.pmf[side < 0].sum()}
    dataset = _sum_dataset(law, "difference", prob, a=names[0], b=names[1])
    return dataset.assign({name: ((), min(max(float(p), 0.0), 1.0)) for name, p in chances.items()})


def share_law(tree: Tree, solution: Solution, part: Units, whole: Units, prob: float) -> xr.Dataset:
    """Law of the share of some units in others that hold them: see `SpinePosterior.share`."""
    import xarray as xr

    _need_resolved(solution)
    inside, around = _disjoint(tree, part, "units"), _disjoint(tree, whole, "of")
    rest = _complement_units(tree, around, inside)
    if around.size == 1:
        total, first, second, error = _moments_in_unit(tree, solution, inside, int(around[0]))
    else:
        total, first, second, error = _moments_given_sum(tree, solution, inside, rest)
    t = total.low + np.arange(total.pmf.size)
    held = t > 0
    there = float(total.pmf[held].sum())
    mean = float((first[held] / t[held]).sum()) / there
    square = float((second[held] / t[held] ** 2).sum()) / there
    values = {
        "mean": min(max(mean, 0.0), 1.0),
        "sd": float(np.sqrt(max(square - mean**2, 0.0))),
        "empty": max(0.0, float(total.pmf[~held].sum())),
        "error": error,
    }
    columns: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    ends, kind = _beta_ends(values["mean"], values["sd"], prob), BETA
    if (joint := _joint(tree, solution, inside, rest, int(around[0]) if around.size == 1 else None)) is not None:
        count, others, table = joint
        both = count[:, None] + others
        ratio, mass = count[:, None] / np.maximum(both, 1), np.where(both > 0, table, 0.0)
        ends, kind = _ends(ratio.ravel(), mass.ravel(), prob), EQUAL_TAILED
        if others.ndim == 1:
            coords, columns = {"count": count, "rest": others}, {"joint": (("count", "rest"), table)}
    columns |= {name: ((), value) for name, value in (values | {"lower": ends[0], "upper": ends[1]}).items()}
    attributes = {"units": _unit_names(part), "of": _unit_names(whole), "prob": prob, "interval": kind}
    return xr.Dataset(columns, coords, attributes)


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


def _need_resolved(solution: Solution) -> None:
    if not solution.resolved:
        raise ValueError(
            f"the posterior is not resolved, up to {solution.truncation_bound:.2g} of it was dropped: no sums of it"
        )


def _law(tree: Tree, solution: Solution, places: Integers, sign: Floats) -> CountLaw:
    """Law of a sum of units, each added or subtracted."""
    _need_resolved(solution)
    chosen = Chosen.of(tree, places, sign)
    mean, variance = sum_moments(tree, solution, chosen)
    sd = float(np.sqrt(variance))
    low, high, folded = _window(tree, solution, chosen, mean, sd)
    size = high - low + 1
    used, beyond = _frequencies(tree, solution, chosen, size)
    omega = 2.0 * np.pi * np.arange(used) / size
    values, off = expectation(tree, solution, chosen, 1j * omega[:, None] * chosen.coefficients)
    spectrum = np.zeros(size // 2 + 1, dtype=np.complex128)
    spectrum[:used] = values[0] * np.exp(-1j * omega * (low - _centre(solution, chosen)))
    pmf = np.fft.irfft(np.conj(spectrum), size)
    error = 2.0 * solution.truncation_bound + folded + beyond + float(np.sqrt(2.0 * used)) * off + ROUNDING
    return CountLaw(low, np.maximum(pmf, 0.0), error, mean, sd)


def _frequencies(
    tree: Tree, solution: Solution, chosen: Chosen, size: int, reach: float = 1.0, spared: int = 0
) -> tuple[int, float]:
    """Number of frequencies that are worked out, and a bound on what the others add to the law in all.

    reach : the most that a factor beside the transform can be; `spared`: units in which it may lie
    """
    bound, missed = characteristic_bound(tree, solution, chosen, size, spared)
    # by Parseval a law is off, in total, by no more than the root of the sum of squares of what its transform is
    beyond = reach * np.sqrt(np.append(np.cumsum(2.0 * (bound + missed)[::-1] ** 2)[::-1], 0.0))
    used = max(1, int(np.argmax(beyond <= FOLDED)))
    return used, float(beyond[used])


def _centre(solution: Solution, chosen: Chosen) -> float:
    """Value of the combination from which powers count."""
    places, kinds = np.array([*chosen.kinds]), [*chosen.kinds.values()]
    return float(chosen.coefficients[kinds] @ np.rint(solution.mean[places]))


def _window(tree: Tree, solution: Solution, chosen: Chosen, mean: float, sd: float) -> tuple[int, int, float]:
    """Ends of a window of the combination, and a bound on the probability outside of it."""
    signs = chosen.coefficients[[*chosen.kinds.values()]]
    ends = np.array([(one.low, one.high) for one in (message(solution, v) for v in chosen.kinds)])
    across = np.sort(ends * signs[:, None], axis=1).sum(axis=0).astype(np.int64)
    half = int(np.ceil(DEVIATIONS * sd)) + 4
    tilts = np.array([-one for one in TILTS[::-1]] + list(TILTS)) / max(sd, 1.0)
    log: Floats | None = None
    while True:
        low, high = max(int(across[0]), int(mean) - half), min(int(across[1]), int(mean) + half)
        if low == across[0] and high == across[1]:
            return low, high, 0.0
        if log is None:
            log = _log_generating(tree, solution, chosen, tilts)
        centre = _centre(solution, chosen)
        folded = 0.0
        for side, end in ((1.0, high + 1), (-1.0, low - 1)):
            own = side * tilts > 0.0
            folded += float(np.exp(np.min(log[own] - tilts[own] * (end - centre), initial=0.0)))
        if folded <= FOLDED:
            return low, high, folded
        half *= 2


def _log_generating(tree: Tree, solution: Solution, chosen: Chosen, tilts: Floats) -> Floats:
    """Log of the moment generating function of the combination, infinite beyond what doubles hold."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        values, _ = expectation(tree, solution, chosen, tilts[:, None] * chosen.coefficients, direct=True)
        log = np.log(values[0])
    return np.where(np.isfinite(log), log, np.inf)


def _moments_in_unit(
    tree: Tree, solution: Solution, inside: Integers, v: int
) -> tuple[CountLaw, Floats, Floats, float]:
    """Law of one unit's count T; E[S ; T = t] and E[S^2 ; T = t] of the sum of units in it; and the error."""
    p, low = unit_posterior(solution, v), message(solution, v).low
    chosen = Chosen.of(tree, inside, np.ones(inside.size))._replace(top=v)
    values, _ = conditional_values(tree, solution, chosen, np.zeros((1, 1)), chosen.coefficients)
    centre = float(solution.mean[inside].sum())
    zeroth, first, second = values[:, 0] * p
    error = 2.0 * solution.truncation_bound + ROUNDING
    total = CountLaw(low, zeroth, error, float(solution.mean[v]), float(np.sqrt(solution.variance[v])))
    return total, first + centre * zeroth, second + 2.0 * centre * first + centre**2 * zeroth, error


def _moments_given_sum(
    tree: Tree, solution: Solution, inside: Integers, rest: Integers
) -> tuple[CountLaw, Floats, Floats, float]:
    """Law of the sum T of several units, E[S^k ; T = t] by Fourier inversion of E[S^k exp(i omega T)]; the error."""
    places = np.concatenate([inside, rest])
    total = _law(tree, solution, places, np.ones(places.size))
    plain = Chosen.of(tree, places, np.ones(places.size))
    windows = solution.messages.windows["size"][inside]
    reach, size = float(windows.sum()) / max(total.low, 1), total.pmf.size
    used, beyond = _frequencies(tree, solution, plain, size, reach**2, 2)
    chosen = Chosen.of(tree, places, np.repeat([1.0, 0.0], [inside.size, rest.size]))
    centre, around = float(solution.mean[inside].sum()), float(np.rint(solution.mean[places]).sum())
    omega = 2.0 * np.pi * np.arange(used) / size
    turn = 1j * omega[:, None] * np.ones(chosen.coefficients.size)
    values, off = expectation(tree, solution, chosen, turn, chosen.coefficients)
    spectrum = np.zeros((3, size // 2 + 1), dtype=np.complex128)
    spectrum[:, :used] = values * np.exp(-1j * omega * (total.low - around))
    zeroth, first, second = np.fft.irfft(np.conj(spectrum), size)
    error = total.error + beyond + float(np.sqrt(2.0 * used)) * off
    total = total._replace(pmf=np.maximum(zeroth, 0.0))
    return total, first + centre * zeroth, second + 2.0 * centre * first + centre**2 * zeroth, error


def _joint(
    tree: Tree, solution: Solution, inside: Integers, rest: Integers, unit: int | None
) -> tuple[Integers, Integers, Floats] | None:
    """(count,) counts of the units, (rest,) or (count, rest) of the others, and probabilities of both.

    Counts of the others by count of the units where the table of both would be large; None where it takes too long.
    """
    places = np.concatenate([inside, rest])
    laws = [_law(tree, solution, own, np.ones(own.size)) if own.size else None for own in (inside, rest)]
    lows, sizes = zip(*((0, 1) if law is None else (law.low, law.pmf.size) for law in laws), strict=True)
    counts = [low + np.arange(size) for low, size in zip(lows, sizes, strict=True)]
    if unit is not None:
        p, total = unit_posterior(solution, unit), message(solution, unit)
        if sizes[0] * p.size > LARGE:
            return None
        given = _law_in_unit(tree, solution, inside, unit, lows[0], sizes[0]) * p
        others = total.low + np.arange(p.size) - counts[0][:, None]
        if np.prod(sizes) > LARGE:
            return counts[0], np.maximum(others, 0), np.where(others >= 0, given, 0.0)
        out = np.zeros(sizes)
        row, at = np.nonzero((others >= lows[1]) & (others < lows[1] + sizes[1]))
        out[row, others[row, at] - lows[1]] = given[row, at]
        return counts[0], counts[1], out
    if np.prod(sizes) > SMALL:
        return None
    chosen = Chosen.of(tree, places, np.repeat([1.0, 0.0], [inside.size, rest.size]))
    steps = [2.0 * np.pi * np.arange(size) / size for size in sizes]
    omega = np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, 2)
    turn = 1j * omega[:, [1, 0]] if chosen.coefficients.size == 2 else 1j * omega[:, :1]
    values, _ = expectation(tree, solution, chosen, turn)
    out = np.fft.fft2(values[0].reshape(sizes)).real / values.size
    for axis, (low, own) in enumerate(zip(lows, (inside, rest), strict=True)):
        out = np.roll(out, int(np.rint(solution.mean[own]).sum()) - low, axis=axis)
    return counts[0], counts[1], np.maximum(out, 0.0)


def _law_in_unit(tree: Tree, solution: Solution, inside: Integers, unit: int, low: int, size: int) -> Floats:
    """(count, count of the unit) probabilities of a sum of units given the count of a unit that holds them."""
    chosen = Chosen.of(tree, inside, np.ones(inside.size))
    used = _frequencies(tree, solution, chosen, size)[0]
    omega = 2.0 * np.pi * np.arange(used) / size
    values, _ = conditional_values(tree, solution, chosen._replace(top=unit), 1j * omega[:, None], direct=False)
    spectrum = np.zeros((size // 2 + 1, values.shape[-1]), dtype=np.complex128)
    spectrum[:used] = values[0] * np.exp(-1j * omega * (low - _centre(solution, chosen)))[:, None]
    return np.maximum(np.fft.irfft(np.conj(spectrum), size, axis=0), 0.0)


def _ends(values: Floats, p: Floats, prob: float) -> tuple[float, float]:
    """Equal-tailed interval of a law on some values, in any order."""
    check_probability("prob", prob)
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(p[order])
    places = np.searchsorted(mass, mass[-1] * np.array([0.5 - 0.5 * prob, 0.5 + 0.5 * prob]))
    low, high = values[order][np.minimum(places, values.size - 1)]
    return float(low), float(high)


def _beta_ends(mean: float, sd: float, prob: float) -> tuple[float, float]:
    """Equal-tailed interval of the beta law with a mean and standard deviation; the mean where there is none."""
    if not (0.0 < mean < 1.0 and 0.0 < sd**2 < mean * (1.0 - mean)):
        return mean, mean
    both = mean * (1.0 - mean) / sd**2 - 1.0
    low, high = (float(betaincinv(mean * both, (1.0 - mean) * both, q)) for q in (0.5 - 0.5 * prob, 0.5 + 0.5 * prob))
    return low, high


def _sum_dataset(law: CountLaw, dim: str, prob: float, **named: Any) -> xr.Dataset:
    import xarray as xr

    values = law.low + np.arange(law.pmf.size)
    lower, upper = _ends(values.astype(np.float64), law.pmf, prob)
    numbers = {"mean": law.mean, "sd": law.sd, "lower": lower, "upper": upper, "error": law.error}
    columns = {"pmf": ((dim,), law.pmf), **{name: ((), value) for name, value in numbers.items()}}
    return xr.Dataset(columns, {dim: values}, named | {"prob": prob, "interval": EQUAL_TAILED})
