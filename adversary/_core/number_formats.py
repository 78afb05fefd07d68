"""Formats of numbers: probabilities in percent, figures to a few digits, bounds rounded outward.

Two significant digits in verdicts and on cards, three in tables and of bounds; more only where two numbers differ in
them alone. A lower end is rounded down and an upper end up, so that a rounded bound never claims more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np

PERCENT = "%"
DIGITS, HEADLINE = 3, 2
"""Significant digits of numbers in tables and of bounds, and of numbers in verdicts and on cards."""
MOST_DIGITS = 5
"""Digits that are written where two numbers differ in them alone."""
SMALL, RARE_EVENT, NOTHING = 1e-4, 1e-9, 1e-12
"""Probabilities below are written "1 in 40,000", not as numbers, and as none."""
NONE = "none (below 1e-12)"


def percent(p: float, digits: int = HEADLINE) -> str:
    """A probability in percent at a glance: two digits, of its distance from 1 where that is the smaller.

    Parameters
    ----------
    p : probability
    digits : significant digits, >= 1

    >>> [percent(p) for p in (0.57, 0.0012, 0.9997, 1 / 40000)]
    ['57%', '0.12%', '99.97%', '1 in 40,000']
    """
    if not 0.0 < p < 1.0:
        return f"{100 * p:g}{PERCENT}"
    if p < SMALL:
        return _one_in(p)
    near = min(p, 1.0 - p)
    decimals = int(np.clip(digits - 3 - np.floor(np.log10(near / 0.995)), 0, 8))  # 9.96% is written as 10%
    shown = f"{100 * p:.{decimals}f}"
    return (shown.rstrip("0").rstrip(".") if decimals else shown) + PERCENT


def format_number(x: float, digits: int = DIGITS) -> str:
    """A number to three significant digits; whole numbers and whole parts in full, with separators of thousands.

    Powers of ten are those of `format_bound`.

    Parameters
    ----------
    x : any number; "none" stands for NaN, "unlimited" for infinity
    digits : significant digits, >= 1

    >>> format_number(1 / 3), format_number(12345.0), format_number(float("inf")), format_number(4.6e-15)
    ('0.333', '12,345', 'unlimited', 'none (below 1e-12)')
    """
    if not np.isfinite(x):
        return "none" if np.isnan(x) else "unlimited" if x > 0 else "−unlimited"
    if 0.0 < abs(x) < NOTHING:
        return NONE
    if abs(x - np.rint(x)) <= 1e-12 * abs(x) < 1e-8:
        return _signed(f"{x:,.0f}")
    short = _short_exponent(f"{x:.{digits - 1}e}")
    exponent = int(short.partition("e")[2])
    return _signed(f"{x:,.{max(digits - 1 - exponent, 0)}f}" if -6 < exponent < 9 else short)


def format_probability(p: float, digits: int = DIGITS) -> str:
    """A probability in percent to three significant digits; to more where it would read as certain and is not.

    Parameters
    ----------
    p : probability
    digits : significant digits, >= 1

    >>> [format_probability(p) for p in (1 / 3, 0.999999, 1 / 40000, 1e-11, 1e-15)]
    ['33.3%', '99.9999%', '1 in 40,000', 'below 1 in 1,000,000,000', 'none (below 1e-12)']
    """
    if 0.0 < p < SMALL:
        return _one_in(p)
    if 0.99999999 < p < 1.0:
        return f"above 99.999999{PERCENT}"
    shown = format_number(100.0 * p, digits)
    if p < 1.0 and float(shown) >= 100.0:
        shown = next((text for n in range(1, 7) if (text := f"{100.0 * p:.{n}f}") != f"{100:.{n}f}"), "99.999999")
    return shown + PERCENT


def format_chance(p: float, digits: int = DIGITS) -> str:
    """The probability of an event that should be rare: below 0.01% it does not matter how small.

    Parameters
    ----------
    p : probability
    digits : significant digits, >= 1

    >>> [format_chance(p) for p in (0.00276, 3.3e-13, 0.0, 3.3e-11)]
    ['0.276%', 'none (below 1e-12)', '0%', 'below 0.01%']
    """
    return f"below 0.01{PERCENT}" if NOTHING <= p < SMALL else format_probability(p, digits)


def _one_in(p: float) -> str:
    """A small probability, "1 in 40,000", to two digits."""
    if p < RARE_EVENT:
        return NONE if p < NOTHING else f"below 1 in {1 / RARE_EVENT:,.0f}"
    return f"1 in {float(f'{1.0 / p:.1e}'):,.0f}"


def format_apart(write: Callable[[Any, int], str], values: Iterable[Any], digits: int = DIGITS) -> list[str]:
    """Numbers as text, to the fewest digits at which all that differ read differently; to `digits` where none do.

    Parameters
    ----------
    write : writes a number to so many digits
    values : to be read side by side
    digits : significant digits, >= 1; `MOST_DIGITS` at most

    >>> format_apart(percent, [0.5, 0.52]), format_apart(percent, [0.5, 0.503], 2), format_apart(percent, [0.5, 0.5])
    (['50%', '52%'], ['50%', '50.3%'], ['50%', '50%'])
    """
    numbers = list(values)
    written = [[write(x, n) for x in numbers] for n in range(digits, max(digits, MOST_DIGITS) + 1)]
    return next(texts for texts in written if len(set(texts)) == len(set(written[-1])))


def give_or_take(spread: float) -> str:
    """A standard error as text to follow its number; nothing where the number is exact (no error, or none known).

    Parameters
    ----------
    spread : standard error, >= 0 or NaN

    >>> "0.5" + give_or_take(0.0123), "0.5" + give_or_take(0.0)
    ('0.5 ± 0.012', '0.5')
    """
    return f" ± {spread:#.2g}".rstrip(".") if spread > 0.0 else ""


def format_bound(value: float, upper: bool, digits: int = DIGITS) -> str:
    """A bound to so many significant digits: upper ends are rounded up, lower ends down; a whole one as it is.

    A value within the last digits of a double of a round one (four parts in 10^16) is that one.

    Parameters
    ----------
    value : the bound; infinity is "unlimited"
    upper : True for an upper end, False for a lower one
    digits : significant digits, >= 1

    >>> format_bound(2.71828, True), format_bound(2.71828, False), format_bound(1.23456e-9, True, 2)
    ('2.72', '2.71', '1.3e-9')
    >>> format_bound(1096.63, True), format_bound(2.0, True)
    ('1,100', '2')
    """
    if not np.isfinite(value):
        return "unlimited" if value > 0 else "−unlimited"
    exact = Decimal(repr(float(value)))
    rounded = round_outward(exact, upper, digits)
    if not -6 < exact.adjusted() < 9 and exact:
        return _signed(_short_exponent(f"{float(rounded):.{digits - 1}e}"))
    return _signed(f"{rounded:,.0f}" if rounded == exact == exact.to_integral_value() else f"{rounded:,f}")


def round_outward(exact: Decimal, upper: bool, digits: int) -> Decimal:
    """A bound to so many significant digits, an upper end up, a lower one down."""
    if exact == 0:
        return Decimal(0)
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    rounded = outward(exact, unit, upper)
    if rounded.adjusted() > exact.adjusted():  # 0.99999 up is 1.00, not 1.000
        rounded = rounded.quantize(unit.scaleb(1))
    return rounded


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

    >>> format_uncrossed(0.12341, 0.12349, range(3, 8))
    ('0.12341', '0.12349')
    """
    exact = Decimal(repr(float(reached))), Decimal(repr(float(tolerated)))
    fits = (n for n in digits if round_outward(exact[0], True, n) <= round_outward(exact[1], False, n))
    return next(((format_bound(reached, True, n), format_bound(tolerated, False, n)) for n in fits), None)


def shown_epsilon(epsilon: float, loss: float, digits: int | None) -> str:
    """A recommended epsilon: with the decimals it was rounded down to, else to three digits, rounded down.

    Parameters
    ----------
    epsilon : recommended
    loss : largest epsilon that the tolerances allow, >= epsilon
    digits : decimals that epsilon was rounded down to, None where it was not

    >>> shown_epsilon(1.09, 1.0986123, 2), shown_epsilon(1.0986123, 1.0986123, None)
    ('1.09', '1.09')
    """
    rounded = digits is not None and epsilon < loss
    return f"{epsilon:.{min(digits or 0, 15)}f}" if rounded else format_bound(epsilon, False)


def outward_percent(p: float, upper: bool, digits: int = DIGITS) -> str:
    """A bound on a probability in percent, without the sign; to more digits where it would read as 100 and is not.

    Parameters
    ----------
    p : probability
    upper : True for an upper end, False for a lower one
    digits : significant digits, >= 1

    >>> outward_percent(0.123456, True), outward_percent(0.999999, True)
    ('12.4', '99.9999')
    """
    exact, last = Decimal(repr(float(100.0 * p))), max(digits, 10)
    enough = (n for n in range(digits, last) if p >= 1.0 or round_outward(exact, upper, n) < 100)
    many = next(enough, None)
    return "100" if many is None else format_bound(100.0 * p, upper, many)


def percentage(p: float, upper: bool, digits: int = DIGITS) -> str:
    """A bound on a probability in percent with its sign, or "1 in 40,000", rounded outward.

    Parameters
    ----------
    p : probability
    upper : True for an upper end, False for a lower one
    digits : significant digits, >= 1

    >>> percentage(0.123456, True), percentage(0.05, True), percentage(2.4e-5, True), percentage(2.4e-5, False)
    ('12.4%', '5%', '1 in 41,000', '1 in 42,000')
    """
    if RARE_EVENT <= p < SMALL:
        return f"1 in {format_bound(1.0 / p, not upper, HEADLINE)}"
    if 0.0 < p < SMALL:
        return f"1 in {1 / RARE_EVENT:,.0f}" if upper else f"0{PERCENT}"
    return outward_percent(p, upper, digits) + PERCENT


def format_interval(low: float, high: float, *, percent: bool = False, digits: int = DIGITS) -> str:
    """An interval, rounded outward.

    Parameters
    ----------
    low, high : ends
    percent : the ends are probabilities, written in percent
    digits : significant digits of each end, >= 1

    >>> format_interval(0.12344, 0.98765), format_interval(0.12344, 0.98765, percent=True)
    ('0.123 to 0.988', '12.3% to 98.8%')
    """
    if percent:
        return f"{percentage(low, False, digits)} to {percentage(high, True, digits)}"
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
    return _signed(f"{rounded:,f}")


def as_given(x: float) -> str:
    """A parameter as people write it, to 15 digits.

    Parameters
    ----------
    x : any number

    >>> as_given(0.1), as_given(1e-05)
    ('0.1', '1e-5')
    """
    return _short_exponent(f"{x:.15g}")


def _signed(text: str) -> str:
    """A negative number with the sign for minus."""
    return f"−{text[1:]}" if text.startswith("-") else text


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
