"""Log-space helpers, and the checks every argument goes through. Everything here takes plain numpy arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TAIL_NATS = 41.5
"""A mass of exp(-41.5) is below 1e-18: what a support may leave out."""

WIDEST = 1e60
"""Ends of an interval are so far apart at most, and one over it at least: powers of its width are numbers too."""

SMALLEST = 5e-324
"""The smallest double."""

_PLAIN = (float, int, Fraction)
_BETWEEN = re.compile(r"[\s_-]+")


def as_array(x: Any) -> Floats:
    """Float64 array of anything array-like, a Fraction included; a number beyond doubles is an infinity.

    Masked entries are refused.
    """
    refuse_masked("the array", x)
    try:
        return np.asarray(float(x) if isinstance(x, Fraction) else x, dtype=np.float64)
    except OverflowError:
        return np.asarray(np.inf if x > 0 else -np.inf)


def refuse_masked(name: str, x: Any) -> None:
    """ValueError for an array with masked entries, or a list of such arrays: the number behind a mask is no number."""
    if type(x) in _PLAIN or type(x) is np.ndarray:
        return
    for one in x if isinstance(x, (list, tuple)) else (x,):
        if isinstance(one, np.ma.MaskedArray) and np.ma.getmaskarray(one).any():
            raise ValueError(
                f"{name} must have no masked entries, got {int(np.ma.count_masked(one))}: leave them out "
                "(.compressed()) or fill them (.filled(value))"
            )


def scalar_or_array(x: ArrayLike) -> Any:
    """A float for a 0-d array, otherwise the array: scalars in, scalars out."""
    array = np.asarray(x)
    return array.item() if array.ndim == 0 else array


def check_probability(name: str, x: Any) -> Floats:
    """Array of probabilities, or ValueError naming the argument and the first value outside [0, 1]."""
    percent = isinstance(x, (int, float)) and 2.0 < x <= 100.0
    rule = f"must be in [0, 1] ({x:g} % is {x / 100:g})" if percent else "must be in [0, 1]"
    return _check(name, x, rule, lambda a: (a >= 0) & (a <= 1))


def check_number(name: str, x: Any) -> Floats:
    """Array of numbers, infinities included, or ValueError naming the argument if one is NaN."""
    return _check(name, x, "must be a number", lambda a: ~np.isnan(a))


def meant(name: str, known: Iterable[str]) -> str:
    """What ends an error about a name that is not known: the nearest that is, however it is written, or nothing.

    >>> meant("Discrete_gausian", ["discrete gaussian", "laplace"])
    "; did you mean 'discrete gaussian'?"
    """
    folded = {_BETWEEN.sub(" ", one.casefold()): one for one in known}
    near = get_close_matches(_BETWEEN.sub(" ", name.casefold()), folded, 1)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


def one_number(name: str, x: Any) -> float:
    """A single number as a float; TypeError for a list, an array, a word or a truth value.

    A positive fraction too small for a double is the smallest positive double: no parameter is rounded to 0.
    """
    refuse_masked(name, x)
    if np.ndim(x) or x is None or isinstance(x, (bool, np.bool_, str)):
        raise TypeError(f"{name} must be one number, got {x!r}")
    return float(x) or (SMALLEST if x > 0 else 0.0)


def check_scale(name: str, x: Any) -> float:
    """One number from 1e-150 to 1e150, as a float: what noise is made with, whose square enters rho."""
    check_positive(name, x)
    scale = one_number(name, x)
    if not 1e-150 <= scale <= 1e150:
        raise ValueError(f"{name} must be between 1e-150 and 1e150, where rho is a number, got {scale}")
    return scale


def check_budget(rho: Any, change: float) -> None:
    """A rho whose Gaussian noise, sigma^2 = change / (2 rho), has a sigma that `check_scale` takes, or ValueError."""
    check_positive("rho", rho)
    least, most = 0.5e-300 * change, 0.5e300 * change
    if not least <= (given := one_number("rho", rho)) <= most:
        raise ValueError(f"rho must be between {least:g} and {most:g}, for a sigma from 1e-150 to 1e150, got {given:g}")


def check_positive(name: str, x: Any) -> Floats:
    """Array of finite positive numbers, or ValueError naming the argument and the value."""
    if type(x) in _PLAIN and 0.0 < (size := as_array(x)) < np.inf:
        return size
    return _check(name, x, "must be positive and finite", lambda a: (a > 0) & np.isfinite(a))


def check_non_negative(name: str, x: Any, *, finite: bool = True) -> Floats:
    """Array of non-negative numbers, finite ones if `finite`, or ValueError naming the argument and the value."""
    rule = "must be non-negative" + (" and finite" if finite else "")
    return _check(name, x, rule, lambda a: (a >= 0) & (np.isfinite(a) | (not finite)))


def check_bounds(name: str, bounds: Any) -> tuple[float, float]:
    """Ends of a public interval as two numbers, or ValueError."""
    ends = check_number(name, bounds).tolist()
    if np.shape(ends) != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise ValueError(f"{name} must be two finite numbers (a, b) with a < b, got {bounds!r}")
    if not 1.0 / WIDEST <= ends[1] - ends[0] <= WIDEST:
        raise ValueError(f"{name} must be {1.0 / WIDEST:g} to {WIDEST:g} apart, got {bounds!r}")
    return ends[0], ends[1]


_LAST_WHOLE = {"float16": 11, "float32": 24}


def refuse_rounded(name: str, x: Any) -> None:
    """ValueError for counts of a type that may have rounded them: from 2^24 on in float32, from 2^11 on in float16.

    >>> refuse_rounded("n", np.float32(16_777_217))
    Traceback (most recent call last):
    ValueError: n must be below 2^24 in size where it is float32, which rounds larger counts, got 16777216: give float64
    """
    if type(x) is int or (kind := np.asarray(x).dtype.name) not in _LAST_WHOLE:
        return
    array = np.asarray(x, dtype=np.float64)
    large = array[np.abs(array) >= 2.0 ** _LAST_WHOLE[kind]]
    if large.size:
        raise ValueError(
            f"{name} must be below 2^{_LAST_WHOLE[kind]} in size where it is {kind}, which rounds larger counts, got "
            f"{large[0]:.0f}: give float64"
        )


def check_whole(name: str, x: Any, *, minimum: int | None = None) -> Integers:
    """Int64 array of whole numbers; fractions, NaN, infinities and numbers from 2^53 on are refused, not truncated.

    So are those that a smaller type may have rounded: see `refuse_rounded`.
    """
    if type(x) is int and abs(x) < 2**53 and (minimum is None or x >= minimum):
        return np.asarray(x, dtype=np.int64)
    array: NDArray[Any]
    if type(x) is np.ndarray and x.dtype == np.int64 and ((x > -(2**53)) & (x < 2**53)).all():
        array = x
    else:
        rule = "must be a whole number between -2^53 and 2^53"
        array = _check(name, x, rule, lambda a: (np.abs(a) < 2**53) & (a == np.rint(a)))
        refuse_rounded(name, x)
    whole = array.astype(np.int64)
    if minimum is not None and not (whole >= minimum).all():
        raise ValueError(f"{name} must be at least {minimum}, got {whole[whole < minimum].ravel()[0]}")
    return whole


def _check(name: str, x: Any, rule: str, ok: Callable[[Floats], Any]) -> Floats:
    if isinstance(x, (bool, str)) or x is None:
        raise TypeError(f"{name} must be a number, got {x!r}")
    refuse_masked(name, x)
    try:
        array = as_array(x)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numeric, got {x!r}") from None
    good = np.asarray(ok(array))
    if not good.all():
        raise ValueError(f"{name} {rule}, got {array[~good].ravel()[0]}")
    return array


def exponential_excess(x: ArrayLike) -> Floats:
    """e^x - 1 - x without cancellation; never negative."""
    x = as_array(x)
    near = np.clip(x, -0.1, 0.1)
    series = np.ones_like(near)
    for k in range(11, 2, -1):
        series = 1.0 + near / k * series
    return np.where(x == near, 0.5 * near * near * series, np.expm1(x) - x)


def log_sum_exp(x: Floats, axis: int = -1) -> Floats:
    """Log of the sum of exponentials along an axis; a slice that is all -inf gives -inf, silently."""
    top = x.max(axis=axis, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.squeeze(top, axis) + np.log(np.exp(x - top).sum(axis=axis)), dtype=np.float64)


def logit(p: ArrayLike) -> Floats:
    """log(p / (1 - p)); -inf at 0 and +inf at 1, silently."""
    p = as_array(p)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)


def posterior_ratio(prior: ArrayLike, loss: ArrayLike) -> Floats:
    """Posterior over prior after log-likelihood ratio `loss`: 1 / (p + (1 - p) exp(-loss)), with exp(loss) at p = 0."""
    p, z = as_array(prior), as_array(loss)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.exp(-np.logaddexp(np.log(p), np.log1p(-p) - z))
    return np.asarray(np.where(p == 1.0, 1.0, ratio), dtype=np.float64)


def posterior_after(start: ArrayLike, loss: ArrayLike) -> Floats:
    """Posterior after a loss, from the logit of the prior; priors of 0 and 1 stay put, even at an infinite loss."""
    start, loss = np.broadcast_arrays(as_array(start), as_array(loss))
    certain = np.isinf(start)
    return np.asarray(expit(np.where(certain, start, start + np.where(certain, 0.0, loss))))


def past_ties(threshold: ArrayLike, error: ArrayLike = 0.0) -> Floats:
    """What a loss must exceed to be greater than a threshold, rather than equal to it up to rounding.

    The one rule for ties: a loss within four errors of computing it, or four last digits, of a threshold equals it.
    Thus P(L > t) is a tail at past_ties(t), and P(L >= t) is 1 - P(-L > -t).

    Parameters
    ----------
    error : absolute, of the losses near the threshold
    """
    t = as_array(threshold)
    size = np.where(np.isfinite(t), np.abs(t), 0.0)
    with np.errstate(over="ignore"):  # past the largest double is infinity
        return np.asarray(t + 4.0 * np.maximum(error, np.finfo(np.float64).eps * size), dtype=np.float64)


def tied(values: ArrayLike, errors: ArrayLike = 0.0, *, largest: bool = True) -> NDArray[np.bool_]:
    """Which values cannot be told from the largest, or from the smallest: within three standard errors, or rounding.

    Parameters
    ----------
    values : one axis; what is NaN is tied with nothing
    errors : standard errors of the values, NaN where there is none
    largest : of which end

    >>> tied([0.602, 0.602 - 1e-12, 0.5]).tolist(), tied([0.60, 0.61, 0.5], 0.004).tolist()
    ([True, True, False], [True, True, False])
    """
    x = as_array(values)
    if np.isnan(x).all():
        return np.zeros(x.shape, dtype=bool)
    error = np.broadcast_to(np.nan_to_num(as_array(errors)), x.shape)
    at = int(np.nanargmax(x) if largest else np.nanargmin(x))
    return np.asarray(_equal(x, x[at], np.hypot(error, error[at])))


EQUAL = 1e-9
"""Relative difference below which two numbers of a ranking are equal: what summation leaves of equal ones."""


def _equal(x: Any, y: Any, error: Any) -> Any:
    """Whether numbers cannot be told from y, given the standard errors of their differences."""
    with np.errstate(invalid="ignore"):  # two infinities are equal, and their difference is no number
        return (x == y) | (np.isfinite(y) & (np.abs(np.subtract(x, y)) <= 3.0 * error + EQUAL * np.abs(y)))


def shared_ranks(values: ArrayLike, errors: ArrayLike = 0.0) -> Integers:
    """Ranks of values in falling order, 1 the largest; what cannot be told from the first of a rank shares it.

    >>> shared_ranks([0.7, 0.7, 0.6, 0.2], [0.0, 0.0, 0.01, 0.0]).tolist()
    [1, 1, 3, 4]
    """
    x = as_array(values)
    spread = np.broadcast_to(np.nan_to_num(as_array(errors)), x.shape).tolist()
    ranks, first = np.arange(1, x.size + 1), 0
    for i, (value, error) in enumerate(zip(x.tolist(), spread, strict=True)):
        if not _equal(value, x[first], math.hypot(error, spread[first])):
            first = i
        ranks[i] = first + 1
    return ranks


def smallest(function: Callable[[Floats], Floats], points: Floats, known: Floats | None = None) -> Floats:
    """Least value of a function along the last axis of a grid of points, refined about the best point of each row.

    Values at the points that are `known` are not asked for again. Ten zooms by a factor of eight between the
    neighbours: for a function with one minimum, to rounding. Whatever the function, the result is a value it takes.
    """
    values = np.asarray(function(points) if known is None else known, dtype=np.float64)
    points, least = np.broadcast_to(points, values.shape), values.min(-1)
    for _ in range(10):
        best = np.argmin(values, -1)[..., None]
        low = np.take_along_axis(points, np.maximum(best - 1, 0), -1)
        high = np.take_along_axis(points, np.minimum(best + 1, points.shape[-1] - 1), -1)
        points = low + (high - low) * np.linspace(0.0, 1.0, 17)
        values = np.asarray(function(points), dtype=np.float64)
        least = np.minimum(least, values.min(-1))
    return np.asarray(least, dtype=np.float64)


def solve_decreasing(function: Callable[[float], float], low: float, high: float) -> float:
    """The smallest point found at which a decreasing function is <= 0: bisection that ends on the safe side.

    Widens `high` until the function is <= 0 there; returns `low` if it already is at `low`, infinity if never.
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
    """The same for `count` decreasing functions at once, from 0 on: (count,) points give (count,) values."""
    low, high = np.zeros(count), np.ones(count)
    never = np.asarray(function(np.full(count, 1e250))) > 0.0
    while True:
        above = ~never & (np.asarray(function(high)) > 0.0)
        if not above.any():
            break
        low, high = np.where(above, high, low), np.where(above, 2.0 * high + 1.0, high)
    high = halved(lambda middle: np.asarray(function(middle)) <= 0.0, low, high)
    found = np.where(np.asarray(function(np.zeros(count))) <= 0.0, 0.0, high)
    return np.where(never, np.inf, found)


def halved(safe: Callable[[Floats], NDArray[np.bool_]], low: Floats, high: Floats, least: float = 0.0) -> Floats:
    """Upper ends of intervals that are halved down to rounding, relative to `least` or more, safe ones from above.

    A finished one waits: no answer depends on its neighbours.
    """
    for _ in range(1100):
        middle = 0.5 * (low + high)
        done = (high - low <= 4e-16 * np.maximum(np.abs(high), least)) | (middle <= low) | (middle >= high)
        if done.all():
            break
        kept = safe(middle)
        low, high = np.where(kept | done, low, middle), np.where(kept & ~done, middle, high)
    return high
