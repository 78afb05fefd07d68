"""Argument checks: errors name the argument, the rule and the first value that violates it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversary._core.numeric import PLAIN, SMALLEST, Floats, Integers, as_array, refuse_masked

_BETWEEN = re.compile(r"[\s_-]+")
# Bits of the significand: whole numbers up to 2^11 and 2^24 are exact in half and single precision.
_LAST_WHOLE = {"float16": 11, "float32": 24}
DEFAULT_FAILURE = 0.05
"""Default failure probability of bounds that do not hold with certainty."""
# The fifth power of a width from 1e-60 to 1e60 neither overflows nor underflows in double precision.
# Largest width of an interval; the smallest is its reciprocal.
WIDEST = 1e60


def check_probability(name: str, x: Any) -> Floats:
    """Array of probabilities.

    Parameters
    ----------
    name : of the argument, for messages
    x : a number, or numbers

    Raises
    ------
    ValueError, TypeError : a value outside [0, 1], or not a number

    >>> check_probability("prior", 50)
    Traceback (most recent call last):
    ValueError: prior must be in [0, 1] (50% is 0.5), got 50.0
    """
    return _check(name, x, unit_interval_rule, lambda a: (a >= 0) & (a <= 1))


def unit_interval_rule(x: float, rule: str = "must be in [0, 1]") -> str:
    """The rule of a probability; values from 2 to 100 look like percentages, and the conversion is shown.

    Parameters
    ----------
    x : the value that is refused
    rule : words on the interval

    >>> unit_interval_rule(50.0), unit_interval_rule(-0.5)
    ('must be in [0, 1] (50% is 0.5)', 'must be in [0, 1]')
    """
    return f"{rule} ({x:g}% is {x / 100:g})" if 2.0 < x <= 100.0 else rule


def check_number(name: str, x: Any) -> Floats:
    """Array of numbers, infinities included.

    Parameters
    ----------
    name : of the argument, for messages
    x : a number, or numbers

    Raises
    ------
    ValueError, TypeError : NaN, or not a number
    """
    return _check(name, x, "must be a number", lambda a: ~np.isnan(a))


def check_positive(name: str, x: Any) -> Floats:
    """Array of finite positive numbers.

    Parameters
    ----------
    name : of the argument, for messages
    x : a number, or numbers

    Raises
    ------
    ValueError, TypeError : a value that is not positive, not finite, or not a number
    """
    if type(x) in PLAIN and 0.0 < (size := as_array(x)) < np.inf:
        return size
    return _check(name, x, "must be positive and finite", lambda a: (a > 0) & np.isfinite(a))


def check_non_negative(name: str, x: Any, *, finite: bool = True) -> Floats:
    """Array of non-negative numbers.

    Parameters
    ----------
    name : of the argument, for messages
    x : a number, or numbers
    finite : refuse infinity as well

    Raises
    ------
    ValueError, TypeError : a value below 0, an infinite value where `finite`, or not a number
    """
    rule = "must be non-negative" + (" and finite" if finite else "")
    return _check(name, x, rule, lambda a: (a >= 0) & (np.isfinite(a) | (not finite)))


def check_scale(name: str, x: Any) -> float:
    """Noise scale as a float, from 1e-150 to 1e150: its square, which enters rho, is then a finite double above 0.

    Parameters
    ----------
    name : of the argument, for messages
    x : one number from 1e-150 to 1e150

    Raises
    ------
    ValueError, TypeError : another value, or not one number
    """
    check_positive(name, x)
    scale = one_number(name, x)
    if not 1e-150 <= scale <= 1e150:
        raise ValueError(f"{name} must be between 1e-150 and 1e150, where rho is a number, got {scale}")
    return scale


def check_budget(rho: Any, change: float) -> None:
    """Refuse a rho whose Gaussian noise, sigma^2 = change / (2 rho), has a sigma that `check_scale` refuses.

    Parameters
    ----------
    rho : zCDP budget, positive
    change : squared change of the released numbers, sensitivity^2 times cells

    Raises
    ------
    ValueError, TypeError : sigma outside 1e-150 to 1e150, or not one number
    """
    check_positive("rho", rho)
    # sigma = 1e150 and sigma = 1e-150, solved for rho.
    least, most = 0.5e-300 * change, 0.5e300 * change
    if not least <= (given := one_number("rho", rho)) <= most:
        raise ValueError(f"rho must be between {least:g} and {most:g}, for a sigma from 1e-150 to 1e150, got {given:g}")


def check_bounds(name: str, bounds: Any) -> tuple[float, float]:
    """Ends of a public interval as two numbers.

    Parameters
    ----------
    name : of the argument, for messages
    bounds : (a, b), finite, b - a from 1e-60 to 1e60

    Raises
    ------
    ValueError, TypeError : other ends

    >>> check_bounds("bounds", (0, 100))
    (0.0, 100.0)
    """
    ends = check_number(name, bounds).tolist()
    if np.shape(ends) != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise ValueError(f"{name} must be two finite numbers (a, b) with a < b, got {bounds!r}")
    if not 1.0 / WIDEST <= ends[1] - ends[0] <= WIDEST:
        raise ValueError(f"{name} must be {1.0 / WIDEST:g} to {WIDEST:g} apart, got {bounds!r}")
    return ends[0], ends[1]


def check_whole(name: str, x: Any, *, minimum: int | None = None) -> Integers:
    """Int64 array of whole numbers; values that are fractional, or that a float may have rounded, are refused.

    Parameters
    ----------
    name : of the argument, for messages
    x : a number, or numbers, below 2^53 in size
    minimum : least number allowed

    Raises
    ------
    ValueError, TypeError : fractions, NaN, infinities, numbers of size 2^53 or more, numbers below `minimum`, and
        numbers that `refuse_rounded` refuses

    >>> check_whole("n", [1.0, 2]).tolist()
    [1, 2]
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


def refuse_rounded(name: str, x: Any) -> None:
    """Refuse counts that their type may have rounded: from 2^24 in float32, from 2^11 in float16.

    Parameters
    ----------
    name : of the argument, for messages
    x : counts

    Raises
    ------
    ValueError : such a count

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


def _check(name: str, x: Any, rule: str | Callable[[float], str], ok: Callable[[Floats], Any]) -> Floats:
    if isinstance(x, (bool, str)) or x is None:
        raise TypeError(f"{name} must be a number, got {x!r}")
    refuse_masked(name, x)
    try:
        array = as_array(x)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numeric, got {x!r}") from None
    good = np.asarray(ok(array))
    if not good.all():
        first = array[~good].ravel()[0]
        raise ValueError(f"{name} {rule if isinstance(rule, str) else rule(float(first))}, got {first}")
    return array


def one_number(name: str, x: Any) -> float:
    """A single number as a float.

    A positive fraction too small for a double becomes the smallest positive double, never 0.

    Parameters
    ----------
    name : of the argument, for messages
    x : a number, a Fraction, or a 0-d array

    Raises
    ------
    TypeError : a list, an array with axes, a string or a bool
    ValueError : a masked entry

    >>> from fractions import Fraction
    >>> one_number("rho", Fraction(1, 4)), one_number("rho", Fraction(1, 10**400))
    (0.25, 5e-324)
    """
    refuse_masked(name, x)
    if np.ndim(x) or x is None or isinstance(x, (bool, np.bool_, str)):
        raise TypeError(f"{name} must be one number, got {x!r}")
    return float(x) or (SMALLEST if x > 0 else 0.0)


def instance_hint(given: Any) -> str:
    """Suffix of a type error: the remedy if a class was passed instead of an instance, otherwise empty.

    Parameters
    ----------
    given : the object of the wrong type

    >>> instance_hint(dict), instance_hint({})
    (': dict is the class, write dict(...)', '')
    """
    return f": {given.__name__} is the class, write {given.__name__}(...)" if isinstance(given, type) else ""


def check_mapping(name: str, given: Any, example: str) -> None:
    """TypeError unless an argument is a mapping, or a table of columns by name.

    Parameters
    ----------
    name : of the argument, for messages
    given : its value
    example : of one, such as "{'block': 2}"

    >>> check_mapping("noisy", 3, "{'block': 2}")
    Traceback (most recent call last):
    TypeError: noisy must be a mapping such as {'block': 2}, got 3
    """
    if not hasattr(given, "items"):
        raise TypeError(f"{name} must be a mapping such as {example}, got {given!r}")


def quoted(words: Iterable[str]) -> str:
    """Choices in quotation marks, separated by commas, for an error message.

    Parameters
    ----------
    words : the choices

    >>> quoted(["bounded", "unbounded"])
    "'bounded', 'unbounded'"
    """
    return ", ".join(map(repr, words))


def closest_name(name: str, known: Iterable[str]) -> str:
    """Suffix of an error about an unknown name: the closest known name, ignoring case, spaces, "_" and "-"; or empty.

    Parameters
    ----------
    name : the unknown name
    known : the valid names

    >>> closest_name("Discrete_gausian", ["discrete gaussian", "laplace"])
    "; did you mean 'discrete gaussian'?"
    """
    folded = {_BETWEEN.sub(" ", one.casefold()): one for one in known}
    near = get_close_matches(_BETWEEN.sub(" ", name.casefold()), folded, 1)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""
