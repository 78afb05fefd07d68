"""Numerics of plain NumPy arrays: functions in log space, ties, minima, and roots rounded to the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

Seed = (
    int | np.integer[Any] | Sequence[int] | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None
)
"""The source of random numbers, as `numpy.random.default_rng` takes it; None draws a fresh one."""
Size = int | tuple[int, ...] | None
"""Shape of simulated values, as NumPy's generators take it."""

TAIL_NATS = 41.5
"""Nats of a mass that supports may omit: exp(-41.5) is below 1e-18."""

SMALLEST = 5e-324
"""The smallest double."""

# Types of a single number, which cannot be masked.
PLAIN = (float, int, Fraction)


def as_array(x: Any) -> Floats:
    """Float64 array of anything array-like, a Fraction included; a number too large for a double becomes infinite.

    Parameters
    ----------
    x : a number, or numbers

    Raises
    ------
    ValueError : a masked entry

    >>> as_array([1, 2]).tolist(), float(as_array(10**400))
    ([1.0, 2.0], inf)
    """
    refuse_masked("the array", x)
    try:
        return np.asarray(float(x) if isinstance(x, Fraction) else x, dtype=np.float64)
    except OverflowError:
        return np.asarray(np.inf if x > 0 else -np.inf)


def refuse_masked(name: str, x: Any) -> None:
    """Refuse masked entries, whose underlying values are meaningless.

    Parameters
    ----------
    name : of the argument, for the message
    x : anything; each entry of a list or tuple is checked

    Raises
    ------
    ValueError : a masked entry

    >>> refuse_masked("x", np.ma.masked_equal([1, 2], 2))
    Traceback (most recent call last):
    ValueError: x must have no masked entries, got 1: leave them out (.compressed()) or fill them (.filled(value))
    """
    if type(x) in PLAIN or type(x) is np.ndarray:
        return
    for one in x if isinstance(x, (list, tuple)) else (x,):
        if isinstance(one, np.ma.MaskedArray) and np.ma.getmaskarray(one).any():
            raise ValueError(
                f"{name} must have no masked entries, got {int(np.ma.count_masked(one))}: leave them out "
                "(.compressed()) or fill them (.filled(value))"
            )


def scalar_or_array(x: ArrayLike) -> Any:
    """A float for a 0-d array, otherwise the array: scalars in, scalars out.

    Parameters
    ----------
    x : a number or an array

    >>> scalar_or_array(np.float64(0.5)), scalar_or_array([0.5]).tolist()
    (0.5, [0.5])
    """
    array = np.asarray(x)
    return array.item() if array.ndim == 0 else array


def exponential_excess(x: ArrayLike) -> Floats:
    """e^x - 1 - x without cancellation; never negative.

    Parameters
    ----------
    x : real numbers, of any shape

    >>> float(exponential_excess(1e-9))
    5.000000001666...e-19
    """
    x = as_array(x)
    # Taylor series to x^11 / 11! where |x| <= 0.1: the next term is below 1e-18 of the sum.
    near = np.clip(x, -0.1, 0.1)
    series = np.ones_like(near)
    for k in range(11, 2, -1):
        series = 1.0 + near / k * series
    return np.where(x == near, 0.5 * near * near * series, np.expm1(x) - x)


def log_sum_exp(x: Floats, axis: int = -1) -> Floats:
    """Log of the sum of exponentials along an axis; a slice of -inf alone gives -inf without a warning.

    Parameters
    ----------
    x : logarithms, -inf allowed
    axis : axis of the sum, which the result no longer has

    >>> log_sum_exp(np.array([[-1000.0, -1000.0]])).round(4).tolist()
    [-999.3069]
    """
    top = x.max(axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.squeeze(top, axis) + np.log(np.exp(x - top).sum(axis=axis)), dtype=np.float64)


def logit(p: ArrayLike) -> Floats:
    """log(p / (1 - p)); -inf at 0 and +inf at 1, without a warning.

    Parameters
    ----------
    p : probabilities, of any shape

    >>> logit([0.0, 0.5, 1.0]).tolist()
    [-inf, 0.0, inf]
    """
    p = as_array(p)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)


def posterior_ratio(prior: ArrayLike, loss: ArrayLike) -> Floats:
    """Posterior over prior: 1 / (p + (1 - p) exp(-loss)), with exp(loss) at p = 0.

    Parameters
    ----------
    prior : probability p of the hypothesis before the release
    loss : log likelihood ratio of the hypothesis, in nats; infinities allowed. Both broadcast

    >>> float(posterior_ratio(0.5, np.log(3)).round(12))
    1.5
    """
    p, z = as_array(prior), as_array(loss)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.exp(-np.logaddexp(np.log(p), np.log1p(-p) - z))
    return np.asarray(np.where(p == 1.0, 1.0, ratio), dtype=np.float64)


def posterior_after(start: ArrayLike, loss: ArrayLike) -> Floats:
    """Posterior probability given a privacy loss; priors of 0 and 1 do not change, even at an infinite loss.

    Parameters
    ----------
    start : logit of the prior
    loss : log likelihood ratio of the hypothesis, in nats; infinities allowed. Both broadcast

    >>> posterior_after([0.0, -np.inf], np.inf).tolist()
    [1.0, 0.0]
    """
    start, loss = np.broadcast_arrays(as_array(start), as_array(loss))
    certain = np.isinf(start)
    return np.asarray(expit(np.where(certain, start, start + np.where(certain, 0.0, loss))))


def above_ties(threshold: ArrayLike, error: ArrayLike = 0.0) -> Floats:
    """Threshold plus a margin for rounding: computed losses up to it count as equal to the threshold.

    The margin is four times the larger of `error` and the rounding unit of the threshold. P(L > t) is the tail at
    above_ties(t), and P(L >= t) is 1 - P(-L > -t).

    Parameters
    ----------
    threshold : in nats; infinities allowed
    error : absolute numerical error of losses near the threshold, in nats

    Returns
    -------
    Thresholds, in nats, of the broadcast shape.
    """
    t = as_array(threshold)
    size = np.where(np.isfinite(t), np.abs(t), 0.0)
    # Beyond the largest double the result is infinity, as intended.
    with np.errstate(over="ignore"):
        return np.asarray(t + 4.0 * np.maximum(error, np.finfo(np.float64).eps * size), dtype=np.float64)


def tied(values: ArrayLike, errors: ArrayLike = 0.0, *, largest: bool = True) -> NDArray[np.bool_]:
    """Mask of the values equal to the largest, or the smallest, within three standard errors or rounding.

    Parameters
    ----------
    values : one axis; NaN is never tied
    errors : standard errors of the values, NaN where unknown
    largest : compare with the largest value, otherwise with the smallest

    >>> tied([0.602, 0.602 - 1e-12, 0.5]).tolist(), tied([0.60, 0.61, 0.5], 0.004).tolist()
    ([True, True, False], [True, True, False])
    """
    x = as_array(values)
    if np.isnan(x).all():
        return np.zeros(x.shape, dtype=bool)
    error = np.broadcast_to(np.nan_to_num(as_array(errors)), x.shape)
    at = int(np.nanargmax(x) if largest else np.nanargmin(x))
    return np.asarray(_equal(x, x[at], np.hypot(error, error[at])))


# Relative difference up to which two numbers of a ranking are equal; rounding in sums stays below it.
EQUAL = 1e-9


def _equal(x: Any, y: Any, error: Any) -> Any:
    """Mask of the numbers equal to y within three standard errors of the difference, or rounding."""
    # Equal infinities are ties; their difference is NaN.
    with np.errstate(invalid="ignore"):
        return (x == y) | (np.isfinite(y) & (np.abs(np.subtract(x, y)) <= 3.0 * error + EQUAL * np.abs(y)))


def shared_ranks(values: ArrayLike, errors: ArrayLike = 0.0) -> Integers:
    """Ranks of values in falling order, 1 for the largest; values tied with the first of a rank share it.

    Parameters
    ----------
    values : one axis, in falling order
    errors : standard errors of the values, NaN where unknown

    >>> shared_ranks([0.7, 0.7, 0.6, 0.2], [0.0, 0.0, 0.01, 0.0]).tolist()
    [1, 1, 3, 4]
    """
    x = as_array(values)
    spread = np.broadcast_to(np.nan_to_num(as_array(errors)), x.shape)
    new = np.append(True, (x[1:] != x[:-1]) | (spread[1:] != spread[:-1]))[: x.size]
    ranks, first = np.zeros(x.size, dtype=np.int64), 0
    for i in np.flatnonzero(new).tolist():
        if not _equal(float(x[i]), x[first], math.hypot(spread[i], spread[first])):
            first = i
        ranks[i] = first + 1
    return np.maximum.accumulate(ranks)


def smallest(function: Callable[[Floats], Floats], points: Floats, known: Floats | None = None) -> Floats:
    """Minimum of a function along the last axis, by repeated refinement of a grid about its best point.

    Ten refinements, each eight times finer, give the minimum of a unimodal function to rounding. For any function the
    result is one of its values, hence an upper bound on its minimum.

    Parameters
    ----------
    function : of points (..., point), to values (..., point)
    points : increasing along the last axis
    known : values at `points`, if already computed

    Returns
    -------
    Smallest value of each row, (...).

    >>> float(smallest(lambda x: (x - 0.3) ** 2 + 1.0, np.linspace(0.0, 1.0, 5)).round(12))
    1.0
    """
    values = np.asarray(function(points) if known is None else known, dtype=np.float64)
    points, least = np.broadcast_to(points, values.shape), values.min(-1)
    # 17 points span two cells of the previous grid: cells shrink by 8, after ten rounds by 1e-9. A smooth minimum is
    # flat, so its value is then exact to 1e-18 of the curvature.
    for _ in range(10):
        best = np.argmin(values, -1)[..., None]
        low = np.take_along_axis(points, np.maximum(best - 1, 0), -1)
        high = np.take_along_axis(points, np.minimum(best + 1, points.shape[-1] - 1), -1)
        points = low + (high - low) * np.linspace(0.0, 1.0, 17)
        values = np.asarray(function(points), dtype=np.float64)
        least = np.minimum(least, values.min(-1))
    return np.asarray(least, dtype=np.float64)


def solve_decreasing(function: Callable[[float], float], low: float, high: float) -> float:
    """Smallest point at which a decreasing function is <= 0, by bisection that ends on that side.

    Parameters
    ----------
    function : decreasing, of one number
    low, high : initial bracket, low < high; `high` is increased until the function is <= 0 there

    Returns
    -------
    A point at which the function is <= 0, within rounding of the smallest one; `low` if the function is <= 0 there,
    infinity if it is positive up to 1e300.

    >>> solve_decreasing(lambda x: 2.0 - x, 0.0, 1.0), solve_decreasing(lambda x: 1.0, 0.0, 1.0)
    (2.0, inf)
    """
    if function(low) <= 0:
        return low
    while function(high) > 0:
        low, high = high, 2.0 * high + 1.0
        if high > 1e300:
            return float("inf")
    while high - low > 4e-16 * max(1e-300, abs(high)):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (low, middle) if function(middle) <= 0 else (middle, high)
    return high


def solve_decreasing_each(function: Callable[[Floats], Floats], count: int) -> Floats:
    """Smallest points x >= 0 at which decreasing functions are <= 0: `solve_decreasing` for an array of functions.

    Parameters
    ----------
    function : of points (count,), one per function, to values (count,)
    count : number of functions

    Returns
    -------
    Points (count,), infinite where a function is positive up to 1e250.

    >>> solve_decreasing_each(lambda x: np.array([2.0, -1.0]) - x, 2).tolist()
    [2.0, 0.0]
    """
    low, high = np.zeros(count), np.ones(count)
    never = np.asarray(function(np.full(count, 1e250))) > 0.0
    while True:
        above = ~never & (np.asarray(function(high)) > 0.0)
        if not above.any():
            break
        low, high = np.where(above, high, low), np.where(above, 2.0 * high + 1.0, high)
    high = bisect_safely(lambda middle: np.asarray(function(middle)) <= 0.0, low, high)
    root = np.where(np.asarray(function(np.zeros(count))) <= 0.0, 0.0, high)
    return np.where(never, np.inf, root)


def bisect_safely(safe: Callable[[Floats], NDArray[np.bool_]], low: Floats, high: Floats, least: float = 0.0) -> Floats:
    """Upper ends of brackets after bisection to rounding, all at points where `safe` is true.

    A finished bracket no longer changes, so that no result depends on the other brackets of the array.

    Parameters
    ----------
    safe : of points (bracket,), to a mask that is false up to some point of each bracket and true from there on
    low, high : ends (bracket,); `safe` is true at `high`
    least : the tolerance is relative to the size of `high`, or to `least` if that is larger

    Returns
    -------
    Points (bracket,).

    >>> bisect_safely(lambda x: x * x >= 2.0, np.zeros(1), np.ones(1) * 2.0).round(12).tolist()
    [1.414213562373]
    """
    # 1074 halvings take a bracket of width 1 to the smallest double.
    for _ in range(1100):
        middle = 0.5 * (low + high)
        done = (high - low <= 4e-16 * np.maximum(np.abs(high), least)) | (middle <= low) | (middle >= high)
        if done.all():
            break
        holds = safe(middle)
        low, high = np.where(holds | done, low, middle), np.where(holds & ~done, middle, high)
    return high
