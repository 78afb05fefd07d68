r"""Posteriors of sums of units, of their differences and of shares, such as for a place that is not on the spine.

Means and standard deviations are moments, passed up the tree. The pmf of a sum S is the Fourier inverse of its
characteristic function over a window. Mass outside the window is aliased into it, and bounded by Chernoff's inequality.
Frequencies at which the characteristic function is proven to be negligible are omitted: for a sum of many units a few
dozen of thousands remain. The share of S in a total T has the moments

.. math:: E[(S / T)^k] = \sum_{t > 0} t^{-k} E[S^k ; T = t] / P(T > 0)

They need no Fourier inversion if T is the count of one unit, and otherwise one over T alone.
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
    Combination,
    characteristic_bound,
    conditional_expectation,
    expectation,
    message,
    sum_moments,
    unit_posterior,
)

if TYPE_CHECKING:
    import xarray as xr

Units = str | Iterable[str]

# Largest probability outside a window, and largest total effect of omitted frequencies on a pmf.
FOLDED = 1e-12

# First half-width of a window, in standard deviations of the sum.
DEVIATIONS = 10.0

# Exponents at which Chernoff's bound is evaluated, times the standard deviation.
TILTS = (0.5, 1.0, 2.0, 4.0, 8.0, 12.0)

# Allowance for rounding errors of the transforms, added to every reported error.
ROUNDING = 1e-13

# Largest number of frequencies, and of entries, of a joint pmf of two sums that is computed.
SMALL, LARGE = 1 << 13, 1 << 22
EQUAL_TAILED = "equal-tailed, of the posterior"
BETA = "of the beta law with this mean and standard deviation"


class CombinationPmf(NamedTuple):
    """Posterior pmf of a linear combination: lowest value, (value,) probabilities, error bound, mean and sd."""

    low: int
    pmf: Floats
    error: float
    mean: float
    sd: float


def sum_distribution(tree: Tree, solution: Solution, units: Units, prob: float) -> xr.Dataset:
    """Posterior of the sum of disjoint units: see `SpinePosterior.sum`."""
    places = _disjoint(tree, units, "units")
    law = _combination_pmf(tree, solution, places, np.ones(places.size))
    return _sum_dataset(law, "count", prob, units=[str(name) for name in tree.names[places]])


def difference_distribution(tree: Tree, solution: Solution, one: Units, other: Units, prob: float) -> xr.Dataset:
    """Posterior of the difference of two sums: see `SpinePosterior.compare`."""
    names = _as_list(one), _as_list(other)
    places = _disjoint(tree, [*names[0], *names[1]], "a and b together")
    law = _combination_pmf(tree, solution, places, np.where(np.isin(places, tree.index(names[0])), 1.0, -1.0))
    side = np.sign(law.low + np.arange(law.pmf.size))
    chances = {"greater": law.pmf[side > 0].sum(), "equal": law.pmf[side == 0].sum(), "less": law.pmf[side < 0].sum()}
    dataset = _sum_dataset(law, "difference", prob, a=names[0], b=names[1])
    return dataset.assign({name: ((), min(max(float(p), 0.0), 1.0)) for name, p in chances.items()})


def share_distribution(tree: Tree, solution: Solution, part: Units, whole: Units, prob: float) -> xr.Dataset:
    """Posterior of the share of some units in others that contain them: see `SpinePosterior.share`."""
    import xarray as xr

    _refuse_unresolved(solution)
    part_units, whole_units = _disjoint(tree, part, "units"), _disjoint(tree, whole, "of")
    rest = _complement_units(tree, whole_units, part_units)
    if whole_units.size == 1:
        total, first, second, error = _moments_in_unit(tree, solution, part_units, int(whole_units[0]))
    else:
        total, first, second, error = _moments_given_sum(tree, solution, part_units, rest)
    totals = total.low + np.arange(total.pmf.size)
    is_positive = totals > 0
    prob_positive = float(total.pmf[is_positive].sum())
    mean = float((first[is_positive] / totals[is_positive]).sum()) / prob_positive
    square = float((second[is_positive] / totals[is_positive] ** 2).sum()) / prob_positive
    values = {
        "mean": min(max(mean, 0.0), 1.0),
        "sd": float(np.sqrt(max(square - mean**2, 0.0))),
        "empty": max(0.0, float(total.pmf[~is_positive].sum())),
        "error": error,
    }
    columns: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    interval, kind = _beta_interval(values["mean"], values["sd"], prob), BETA
    if (
        joint := _joint_pmf(tree, solution, part_units, rest, int(whole_units[0]) if whole_units.size == 1 else None)
    ) is not None:
        count, others, table = joint
        total_counts = count[:, None] + others
        ratio, mass = count[:, None] / np.maximum(total_counts, 1), np.where(total_counts > 0, table, 0.0)
        interval, kind = _equal_tailed_interval(ratio.ravel(), mass.ravel(), prob), EQUAL_TAILED
        if others.ndim == 1:
            coords, columns = {"count": count, "rest": others}, {"joint": (("count", "rest"), table)}
    columns |= {name: ((), value) for name, value in (values | {"lower": interval[0], "upper": interval[1]}).items()}
    attributes = {"units": _as_list(part), "of": _as_list(whole), "prob": prob, "interval": kind}
    return xr.Dataset(columns, coords, attributes)


def _as_list(units: Units) -> list[str]:
    """One name or several, as a list."""
    return [units] if isinstance(units, str) else [str(name) for name in units]


def _disjoint(tree: Tree, units: Units, what: str) -> Integers:
    """(name,) indices of units, none of which lies in another; ValueError naming two that overlap."""
    names = _as_list(units)
    if not names:
        raise ValueError(f"{what} must name at least one unit")
    places = np.asarray(tree.index(names), dtype=np.int64)
    taken = set(places.tolist())
    if len(taken) < places.size:
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{what} must name disjoint units, {repeated!r} comes twice")
    for place in places.tolist():
        v = int(tree.parent[place])
        while v >= 0:
            if v in taken:
                inner, outer = str(tree.names[place]), str(tree.names[v])
                raise ValueError(f"{what} must name disjoint units, {inner!r} lies in {outer!r}")
            v = int(tree.parent[v])
    return places


def _complement_units(tree: Tree, whole_units: Integers, part_units: Integers) -> Integers:
    """Disjoint units that together make up `whole_units` without `part_units`; ValueError for a part outside them."""
    excluded, outer = set(part_units.tolist()), set(whole_units.tolist())
    ancestors: set[int] = set()
    for place in part_units.tolist():
        v = place
        while v >= 0 and v not in outer:
            ancestors.add(v)
            v = int(tree.parent[v])
        if v < 0:
            raise ValueError(f"unit {str(tree.names[place])!r} lies in none of the units of `of`")
        ancestors.add(v)
    rest, stack = [], list(outer)
    while stack:
        v = stack.pop()
        if v in excluded:
            continue
        if v not in ancestors:
            rest.append(v)
            continue
        stack.extend(range(int(tree.first_child[v]), int(tree.first_child[v] + tree.children[v])))
    return np.array(sorted(rest), dtype=np.int64)


def _refuse_unresolved(solution: Solution) -> None:
    """ValueError if the posterior is not resolved."""
    if not solution.resolved:
        raise ValueError(
            f"the posterior is not resolved, up to {solution.truncation_bound:.2g} of it was dropped: no sums of it"
        )


def _combination_pmf(tree: Tree, solution: Solution, places: Integers, coefficients: Floats) -> CombinationPmf:
    """Posterior pmf of a linear combination of units with coefficients 1 or -1."""
    _refuse_unresolved(solution)
    combination = Combination.of(tree, places, coefficients)
    mean, variance = sum_moments(tree, solution, combination)
    sd = float(np.sqrt(variance))
    low, high, aliased = _window(tree, solution, combination, mean, sd)
    size = high - low + 1
    frequencies, omitted = _needed_frequencies(tree, solution, combination, size)
    omega = 2.0 * np.pi * np.arange(frequencies) / size
    values, expectation_error = expectation(tree, solution, combination, 1j * omega[:, None] * combination.coefficients)
    spectrum = np.zeros(size // 2 + 1, dtype=np.complex128)
    spectrum[:frequencies] = values[0] * np.exp(-1j * omega * (low - _rounded_centre(solution, combination)))
    pmf = np.fft.irfft(np.conj(spectrum), size)
    error = (
        2.0 * solution.truncation_bound
        + aliased
        + omitted
        + float(np.sqrt(2.0 * frequencies)) * expectation_error
        + ROUNDING
    )
    return CombinationPmf(low, np.maximum(pmf, 0.0), error, mean, sd)


def _needed_frequencies(
    tree: Tree, solution: Solution, combination: Combination, size: int, factor_bound: float = 1.0, omitted: int = 0
) -> tuple[int, float]:
    """Number of frequencies to compute, and a bound on the total effect of the others on the pmf.

    factor_bound : largest value of a factor that multiplies the transform, such as S^2 / T^2
    omitted : order of the moment in that factor, as in `characteristic_bound`
    """
    bound, missed = characteristic_bound(tree, solution, combination, size, omitted)
    # Parseval and Cauchy-Schwarz: the sum of absolute errors of the pmf is at most the root of the sum of squares of
    # the omitted part of its transform
    omitted_bound = factor_bound * np.sqrt(np.append(np.cumsum(2.0 * (bound + missed)[::-1] ** 2)[::-1], 0.0))
    used = max(1, int(np.argmax(omitted_bound <= FOLDED)))
    return used, float(omitted_bound[used])


def _rounded_centre(solution: Solution, combination: Combination) -> float:
    """Value of the combination at the rounded means of its units, at which `exponents` are centred."""
    places, kinds = np.array([*combination.kinds]), [*combination.kinds.values()]
    return float(combination.coefficients[kinds] @ np.rint(solution.mean[places]))


def _window(tree: Tree, solution: Solution, combination: Combination, mean: float, sd: float) -> tuple[int, int, float]:
    """Ends of a window of values of the combination, and a bound on the probability outside it."""
    signs = combination.coefficients[[*combination.kinds.values()]]
    ends = np.array([(one.low, one.high) for one in (message(solution, v) for v in combination.kinds)])
    extremes = np.sort(ends * signs[:, None], axis=1).sum(axis=0).astype(np.int64)
    half = int(np.ceil(DEVIATIONS * sd)) + 4
    tilts = np.array([-one for one in TILTS[::-1]] + list(TILTS)) / max(sd, 1.0)
    log: Floats | None = None
    while True:
        low, high = max(int(extremes[0]), int(mean) - half), min(int(extremes[1]), int(mean) + half)
        if low == extremes[0] and high == extremes[1]:
            return low, high, 0.0
        if log is None:
            log = _log_generating(tree, solution, combination, tilts)
        centre = _rounded_centre(solution, combination)
        aliased = 0.0
        for side, end in ((1.0, high + 1), (-1.0, low - 1)):
            same_sign = side * tilts > 0.0
            aliased += float(np.exp(np.min(log[same_sign] - tilts[same_sign] * (end - centre), initial=0.0)))
        if aliased <= FOLDED:
            return low, high, aliased
        half *= 2


def _log_generating(tree: Tree, solution: Solution, combination: Combination, tilts: Floats) -> Floats:
    """(tilt,) log moment generating function of the combination about its rounded centre; infinite on overflow."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        values, _ = expectation(tree, solution, combination, tilts[:, None] * combination.coefficients, direct=True)
        log = np.log(values[0])
    return np.where(np.isfinite(log), log, np.inf)


def _moments_in_unit(
    tree: Tree, solution: Solution, inside: Integers, v: int
) -> tuple[CombinationPmf, Floats, Floats, float]:
    """Pmf of one unit's count T; E[S ; T = t] and E[S^2 ; T = t] for a sum S of units inside it; error bound."""
    p, low = unit_posterior(solution, v), message(solution, v).low
    combination = Combination.of(tree, inside, np.ones(inside.size))._replace(top=v)
    values, _ = conditional_expectation(tree, solution, combination, np.zeros((1, 1)), combination.coefficients)
    centre = float(solution.mean[inside].sum())
    zeroth, first, second = values[:, 0] * p
    error = 2.0 * solution.truncation_bound + ROUNDING
    total = CombinationPmf(low, zeroth, error, float(solution.mean[v]), float(np.sqrt(solution.variance[v])))
    return total, first + centre * zeroth, second + 2.0 * centre * first + centre**2 * zeroth, error


def _moments_given_sum(
    tree: Tree, solution: Solution, inside: Integers, rest: Integers
) -> tuple[CombinationPmf, Floats, Floats, float]:
    """Pmf of a sum T of units; E[S ; T = t], E[S^2 ; T = t], inverted from E[S^k exp(i omega T)]; error bound."""
    places = np.concatenate([inside, rest])
    total = _combination_pmf(tree, solution, places, np.ones(places.size))
    plain = Combination.of(tree, places, np.ones(places.size))
    windows = solution.messages.windows["size"][inside]
    largest_ratio, size = float(windows.sum()) / max(total.low, 1), total.pmf.size
    frequencies, omitted = _needed_frequencies(tree, solution, plain, size, largest_ratio**2, 2)
    combination = Combination.of(tree, places, np.repeat([1.0, 0.0], [inside.size, rest.size]))
    centre, rounded_centre = float(solution.mean[inside].sum()), float(np.rint(solution.mean[places]).sum())
    omega = 2.0 * np.pi * np.arange(frequencies) / size
    exponents = 1j * omega[:, None] * np.ones(combination.coefficients.size)
    values, expectation_error = expectation(tree, solution, combination, exponents, combination.coefficients)
    spectrum = np.zeros((3, size // 2 + 1), dtype=np.complex128)
    spectrum[:, :frequencies] = values * np.exp(-1j * omega * (total.low - rounded_centre))
    zeroth, first, second = np.fft.irfft(np.conj(spectrum), size)
    error = total.error + omitted + float(np.sqrt(2.0 * frequencies)) * expectation_error
    total = total._replace(pmf=np.maximum(zeroth, 0.0))
    return total, first + centre * zeroth, second + 2.0 * centre * first + centre**2 * zeroth, error


def _joint_pmf(
    tree: Tree, solution: Solution, inside: Integers, rest: Integers, unit: int | None
) -> tuple[Integers, Integers, Floats] | None:
    """Joint posterior pmf of the count of `inside` and the count of `rest`.

    Returns (counts, rests, table). `rests` is (rest,), or (count, rest) if the full table would be large: then each row
    lists only the counts of `rest` that are possible given the count. None if the computation would take too long.

    unit : index of the unit that `inside` and `rest` make up, or None
    """
    places = np.concatenate([inside, rest])
    pmfs = [_combination_pmf(tree, solution, own, np.ones(own.size)) if own.size else None for own in (inside, rest)]
    lows, sizes = zip(*((0, 1) if law is None else (law.low, law.pmf.size) for law in pmfs), strict=True)
    counts = [low + np.arange(size) for low, size in zip(lows, sizes, strict=True)]
    if unit is not None:
        p, total = unit_posterior(solution, unit), message(solution, unit)
        if sizes[0] * p.size > LARGE:
            return None
        joint = _pmf_given_unit(tree, solution, inside, unit, lows[0], sizes[0]) * p
        others = total.low + np.arange(p.size) - counts[0][:, None]
        if np.prod(sizes) > LARGE:
            return counts[0], np.maximum(others, 0), np.where(others >= 0, joint, 0.0)
        table = np.zeros(sizes)
        row, at = np.nonzero((others >= lows[1]) & (others < lows[1] + sizes[1]))
        table[row, others[row, at] - lows[1]] = joint[row, at]
        return counts[0], counts[1], table
    if np.prod(sizes) > SMALL:
        return None
    combination = Combination.of(tree, places, np.repeat([1.0, 0.0], [inside.size, rest.size]))
    steps = [2.0 * np.pi * np.arange(size) / size for size in sizes]
    omega = np.stack(np.meshgrid(*steps, indexing="ij"), axis=-1).reshape(-1, 2)
    exponents = 1j * omega[:, [1, 0]] if combination.coefficients.size == 2 else 1j * omega[:, :1]
    values, _ = expectation(tree, solution, combination, exponents)
    table = np.fft.fft2(values[0].reshape(sizes)).real / values.size
    for axis, (low, own) in enumerate(zip(lows, (inside, rest), strict=True)):
        table = np.roll(table, int(np.rint(solution.mean[own]).sum()) - low, axis=axis)
    return counts[0], counts[1], np.maximum(table, 0.0)


def _pmf_given_unit(tree: Tree, solution: Solution, inside: Integers, unit: int, low: int, size: int) -> Floats:
    """(count, count of the unit) pmf of a sum of units given the count of a unit that contains them."""
    combination = Combination.of(tree, inside, np.ones(inside.size))
    frequencies = _needed_frequencies(tree, solution, combination, size)[0]
    omega = 2.0 * np.pi * np.arange(frequencies) / size
    values, _ = conditional_expectation(
        tree, solution, combination._replace(top=unit), 1j * omega[:, None], direct=False
    )
    spectrum = np.zeros((size // 2 + 1, values.shape[-1]), dtype=np.complex128)
    spectrum[:frequencies] = values[0] * np.exp(-1j * omega * (low - _rounded_centre(solution, combination)))[:, None]
    return np.maximum(np.fft.irfft(np.conj(spectrum), size, axis=0), 0.0)


def _equal_tailed_interval(values: Floats, p: Floats, prob: float) -> tuple[float, float]:
    """Equal-tailed interval of a discrete distribution; values in any order, `p` need not sum to 1."""
    check_probability("prob", prob)
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(p[order])
    places = np.searchsorted(mass, mass[-1] * np.array([0.5 - 0.5 * prob, 0.5 + 0.5 * prob]))
    low, high = values[order][np.minimum(places, values.size - 1)]
    return float(low), float(high)


def _beta_interval(mean: float, sd: float, prob: float) -> tuple[float, float]:
    """Equal-tailed interval of the beta distribution with this mean and sd; (mean, mean) if there is none."""
    if not (0.0 < mean < 1.0 and 0.0 < sd**2 < mean * (1.0 - mean)):
        return mean, mean
    concentration = mean * (1.0 - mean) / sd**2 - 1.0
    low, high = (
        float(betaincinv(mean * concentration, (1.0 - mean) * concentration, q))
        for q in (0.5 - 0.5 * prob, 0.5 + 0.5 * prob)
    )
    return low, high


def _sum_dataset(law: CombinationPmf, dim: str, prob: float, **named: Any) -> xr.Dataset:
    """Dataset of a pmf over `dim`, its mean, sd, equal-tailed interval and error."""
    import xarray as xr

    values = law.low + np.arange(law.pmf.size)
    lower, upper = _equal_tailed_interval(values.astype(np.float64), law.pmf, prob)
    numbers = {"mean": law.mean, "sd": law.sd, "lower": lower, "upper": upper, "error": law.error}
    columns = {"pmf": ((dim,), law.pmf), **{name: ((), value) for name, value in numbers.items()}}
    return xr.Dataset(columns, {dim: values}, named | {"prob": prob, "interval": EQUAL_TAILED})
