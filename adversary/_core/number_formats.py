"""Formats of numbers: probabilities in percent, figures to a few digits, bounds rounded outward.

A lower end is rounded down and an upper end up, so that a rounded bound never claims more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np

PERCENT = "\u00a0%"


def percent(p: float) -> str:
    """A probability in percent at a glance: fewer digits in the middle, more near 0 and 1.

    Parameters
    ----------
    p : probability

    >>> [percent(p).replace("\u00a0", " ") for p in (0.57, 0.0012, 0.9997)]
    ['57 %', '0.12 %', '99.97 %']
    """
    if not 0.0 < p < 1.0:
        return f"{100 * p:g}{PERCENT}"
    near = min(p, 1.0 - p)
    digits = 0 if near >= 0.0995 else int(np.clip(np.ceil(-np.log10(near)) - 1, 1, 8))
    shown = f"{100 * p:.{digits}f}"
    return (shown.rstrip("0").rstrip(".") if digits else shown) + PERCENT


def format_number(x: float) -> str:
    """A number to four significant digits; a whole number as it is. Powers of ten as `format_bound` writes them.

    Parameters
    ----------
    x : any number; "none" stands for NaN, "unlimited" for infinity

    >>> format_number(1 / 3), format_number(12345.0), format_number(float("inf"))
    ('0.3333', '12345', 'unlimited')
    """
    if not np.isfinite(x):
        return "none" if np.isnan(x) else "unlimited" if x > 0 else "-unlimited"
    if abs(x - np.rint(x)) <= 1e-12 * abs(x) < 1e-8:
        return f"{x:.0f}"
    short = _short_exponent(f"{x:.3e}")
    exponent = int(short.partition("e")[2])
    return f"{x:.{max(3 - exponent, 0)}f}" if -6 < exponent < 9 else short


def format_probability(p: float) -> str:
    """A probability in percent to four significant digits; to more where it would read as certain and is not.

    Parameters
    ----------
    p : probability

    >>> [format_probability(p).replace("\u00a0", " ") for p in (1 / 3, 0.999999, 1e-9)]
    ['33.33 %', '99.9999 %', '< 0.000001 %']
    """
    if 0.0 < p < 1e-8:
        return f"< 0.000001{PERCENT}"
    if 0.99999999 < p < 1.0:
        return f"> 99.999999{PERCENT}"
    digits = next((n for n in range(3, 7) if f"{100.0 * p:.{n}f}" != f"{100:.{n}f}"), 6)
    return (f"{100.0 * p:.{digits}f}" if 0.9999 < p < 1.0 else format_number(100.0 * p)) + PERCENT


def give_or_take(spread: float) -> str:
    """A standard error as text to follow its number; nothing where the number is exact (no error, or none known).

    Parameters
    ----------
    spread : standard error, >= 0 or NaN

    >>> "0.5" + give_or_take(0.0123), "0.5" + give_or_take(0.0)
    ('0.5 ± 0.012', '0.5')
    """
    return f" ± {spread:#.2g}".rstrip(".") if spread > 0.0 else ""


def format_bound(value: float, upper: bool, digits: int = 4) -> str:
    """A bound to so many significant digits: upper ends are rounded up, lower ends down.

    A value within the last digits of a double of a round one (four parts in 10^16) is that one.

    Parameters
    ----------
    value : the bound; infinity is "unlimited"
    upper : True for an upper end, False for a lower one
    digits : significant digits, >= 1

    >>> format_bound(2.71828, True), format_bound(2.71828, False), format_bound(1.23456e-9, True, 2)
    ('2.719', '2.718', '1.3e-9')
    """
    if not np.isfinite(value):
        return "unlimited" if value > 0 else "-unlimited"
    exact = Decimal(repr(float(value)))
    if exact == 0:
        return "0"
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    rounded = outward(exact, unit, upper)
    if rounded.adjusted() > exact.adjusted():  # 0.99999 up is 1.000, not 1.0000
        rounded = rounded.quantize(unit.scaleb(1))
    return f"{rounded:f}" if -6 < exact.adjusted() < 9 else _short_exponent(f"{float(rounded):.{digits - 1}e}")


def outward(exact: Decimal, unit: Decimal, upper: bool) -> Decimal:
    """A number to a whole multiple of a unit, up or down; the nearest where that is the same to a double's digits."""
    nearest = exact.quantize(unit)
    if abs(nearest - exact) <= Decimal("4e-16") * abs(exact):
        return nearest
    return exact.quantize(unit, ROUND_CEILING if upper else ROUND_FLOOR)


def format_uncrossed(reached: float, tolerated: float, digits: Iterable[int]) -> tuple[str, str] | None:
    """A risk within its tolerance, both as text, to the first of these digits at which they do not cross.

    Parameters
    ----------
    reached : risk that is reached, rounded up
    tolerated : risk that is tolerated, rounded down
    digits : numbers of significant digits, tried in this order

    Returns
    -------
    (reached, tolerated), or None where they cross at all of these digits.

    >>> format_uncrossed(0.12341, 0.12349, range(4, 8))
    ('0.12341', '0.12349')
    """
    pairs = ((format_bound(reached, True, n), format_bound(tolerated, False, n)) for n in digits)
    return next((pair for pair in pairs if float(pair[0]) <= float(pair[1])), None)


def shown_epsilon(epsilon: float, loss: float, digits: int | None) -> str:
    """A recommended epsilon: with the decimals it was rounded down to, else to four digits, rounded down.

    Parameters
    ----------
    epsilon : recommended
    loss : largest epsilon that the tolerances allow, >= epsilon
    digits : decimals that epsilon was rounded down to, None where it was not

    >>> shown_epsilon(1.09, 1.0986123, 2), shown_epsilon(1.0986123, 1.0986123, None)
    ('1.09', '1.098')
    """
    rounded = digits is not None and epsilon < loss
    return f"{epsilon:.{min(digits or 0, 15)}f}" if rounded else format_bound(epsilon, False)


def outward_percent(p: float, upper: bool, digits: int = 4) -> str:
    """A bound on a probability in percent, without the sign; to more digits where it would read as 100 and is not.

    Parameters
    ----------
    p : probability
    upper : True for an upper end, False for a lower one
    digits : significant digits, >= 1

    >>> outward_percent(0.123456, True), outward_percent(0.999999, True)
    ('12.35', '99.9999')
    """
    last = max(digits, 10)
    shown = (format_bound(100.0 * p, upper, n) for n in range(digits, last))
    return next((text for text in shown if p >= 1.0 or float(text) < 100.0), format_bound(100.0 * p, upper, digits))


def format_interval(low: float, high: float, *, percent: bool = False, digits: int = 4) -> str:
    """An interval, rounded outward.

    Parameters
    ----------
    low, high : ends
    percent : the ends are probabilities, written in percent
    digits : significant digits of each end, >= 1

    >>> format_interval(0.12344, 0.98765), format_interval(0.12344, 0.98765, percent=True).replace("\u00a0", " ")
    ('0.1234 to 0.9877', '12.34 to 98.77 %')
    """
    if percent:
        return f"{outward_percent(low, False, digits)} to {outward_percent(high, True, digits)}{PERCENT}"
    return f"{format_bound(low, False, digits)} to {format_bound(high, True, digits)}"


def interval(ends: Sequence[float], digits: int = 3) -> str:
    """An interval, rounded outward to so many significant digits of its length.

    Parameters
    ----------
    ends : lower end, upper end
    digits : significant digits of the length, >= 1

    >>> interval([3.0049, 65.601]), interval([0, 0.123456])
    ('3.0 to 65.7', '0 to 0.124')
    """
    low, high = (float(end) for end in ends)
    length = high - low
    places = 0 if not 0.0 < length < np.inf else int(np.clip(digits - 1 - np.floor(np.log10(length)), 0, 15))
    return f"{_to_places(low, places, False)} to {_to_places(high, places, True)}"


def _to_places(x: float, places: int, upper: bool) -> str:
    if x == 0.0 or not np.isfinite(x):
        return format_number(x)
    if abs(x) >= 1e9:  # as elsewhere, by powers of ten; a decimal number has 28 digits
        return format_bound(x, upper)
    rounded = Decimal(repr(x)).quantize(Decimal(1).scaleb(-places), ROUND_CEILING if upper else ROUND_FLOOR)
    return f"{rounded:f}"


def as_given(x: float) -> str:
    """A parameter as people write it, to 15 digits.

    Parameters
    ----------
    x : any number

    >>> as_given(0.1), as_given(1e-05)
    ('0.1', '1e-5')
    """
    return _short_exponent(f"{x:.15g}")


def _short_exponent(text: str) -> str:
    """A small number without the zero that Python puts into its exponent."""
    return text.replace("e-0", "e-")


def finite(x: Any) -> float | None:
    """A number JSON can hold: None for what is not finite, and no negative zero.

    Parameters
    ----------
    x : one number

    >>> finite(0.5), finite(-0.0), finite(float("inf"))
    (0.5, 0.0, None)
    """
    return float(x) + 0.0 if np.isfinite(x) else None
