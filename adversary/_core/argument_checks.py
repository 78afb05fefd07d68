"""Checks that every argument goes through: errors name the argument, the rule and the first value against it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversary._core.numeric import PLAIN, SMALLEST, Floats, Integers, as_array, refuse_masked

_BETWEEN = re.compile(r"[\s_-]+")
_LAST_WHOLE = {"float16": 11, "float32": 24}
DEFAULT_FAILURE = 0.05
"""Probability with which a bound that is not certain may fail, where nothing else is asked."""
WIDEST = 1e60
"""Ends of an interval are so far apart at most, and one over it at least: powers of its width are numbers too."""


def check_probability(name: str, x: Any) -> Floats:
    """Array of probabilities.

    Parameters
    ----------
    name : of the argument, for messages
    x : a number, or numbers

    Raises
    ------
    ValueError, TypeError : a value outside [0, 1], or no number

    >>> check_probability("prior", 50)
    Traceback (most recent call last):
    ValueError: prior must be in [0, 1] (50% is 0.5), got 50.0
    """
    return _check(name, x, _in_unit_interval, lambda a: (a >= 0) & (a <= 1))


def _in_unit_interval(first: float) -> str:
    """The rule of a probability, for the first value against it."""
    return f"must be in [0, 1] ({first:g}% is {first / 100:g})" if 2.0 < first <= 100.0 else "must be in [0, 1]"


def check_number(name: str, x: Any) -> Floats:
    """Array of numbers, infinities included.

    Parameters
    ----------
    name : of the argument, for messages
    x : a number, or numbers

    Raises
    ------
    ValueError, TypeError : NaN, or no number
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
    ValueError, TypeError : a value that is not positive, or not finite; no number
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
    finite : refuse infinity too

    Raises
    ------
    ValueError, TypeError : a value below 0, or not finite; no number
    """
    rule = "must be non-negative" + (" and finite" if finite else "")
    return _check(name, x, rule, lambda a: (a >= 0) & (np.isfinite(a) | (not finite)))


def check_scale(name: str, x: Any) -> float:
    """A scale that noise is made with, as a float: its square enters rho.

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
    """A refusal of a rho whose Gaussian noise, sigma^2 = change / (2 rho), has a sigma that `check_scale` refuses.

    Parameters
    ----------
    rho : zCDP budget, positive
    change : squared change of the released numbers, sensitivity^2 times cells

    Raises
    ------
    ValueError, TypeError : such a rho, or not one number
    """
    check_positive("rho", rho)
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
    """Int64 array of whole numbers; what is none, or may not have stayed one, is refused and never truncated.

    Parameters
    ----------
    name : of the argument, for messages
    x : a number, or numbers, below 2^53 in size
    minimum : least number allowed

    Raises
    ------
    ValueError, TypeError : fractions, NaN, infinities, numbers from 2^53 on, below `minimum`, or that may be rounded

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
    """A refusal of counts of a type that may have rounded them: from 2^24 on in float32, from 2^11 on in float16.

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

    A positive fraction too small for a double is the smallest positive double: no parameter is rounded to 0.

    Parameters
    ----------
    name : of the argument, for messages
    x : a number, a Fraction, or an array of no axes

    Raises
    ------
    TypeError : a list, an array with axes, a word or a truth value
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
    """The end of an error about an object of the wrong type: a remedy where a class was given, not called.

    Parameters
    ----------
    given : the object

    >>> instance_hint(dict), instance_hint({})
    (': dict is the class, write dict(...)', '')
    """
    return f": {given.__name__} is the class, write {given.__name__}(...)" if isinstance(given, type) else ""


def quoted(words: Iterable[str]) -> str:
    """Words in quotation marks, as a message lists the choices there are.

    Parameters
    ----------
    words : the choices

    >>> quoted(["bounded", "unbounded"])
    "'bounded', 'unbounded'"
    """
    return ", ".join(map(repr, words))


def meant(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the nearest known one, however it is written, or nothing.

    Parameters
    ----------
    name : that is not known
    known : names that are

    >>> meant("Discrete_gausian", ["discrete gaussian", "laplace"])
    "; did you mean 'discrete gaussian'?"
    """
    folded = {_BETWEEN.sub(" ", one.casefold()): one for one in known}
    near = get_close_matches(_BETWEEN.sub(" ", name.casefold()), folded, 1)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""
