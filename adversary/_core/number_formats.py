"""Number formats: probabilities in percent, numbers to a few significant digits, bounds rounded outward.

Verdicts and cards show two significant digits, tables and bounds three; more only where two numbers would otherwise
read the same. Lower bounds are rounded down and upper bounds up, so that a rounded bound remains valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np

PERCENT = "%"
DIGITS, HEADLINE = 3, 2
"""Significant digits: of bounds and numbers in tables; of numbers in verdicts and on cards."""
MOST_DIGITS = 5
"""Largest number of significant digits used to tell two numbers apart."""
SMALL, RARE_EVENT, NOTHING = 1e-4, 1e-9, 1e-12
"""Thresholds of probabilities: below them "1 in 40,000", "below 1 in 1,000,000,000" and "none" are written."""
LARGE = 1.0 - 0.995 * SMALL
"""Threshold above which probabilities are not distinguished: "above 99.99%", and 100% as an upper bound."""
NONE = "none (below 1e-12)"


def percent(p: float, digits: int = HEADLINE) -> str:
    """A probability in percent to two significant digits; above 50 %, two digits of its complement.

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
    if p > LARGE:
        return f"above 99.99{PERCENT}"
    near = min(p, 1.0 - p)
    # 0.995 instead of 1: from 9.95 % on a number rounds to 10 %, with one decimal less.
    decimals = int(np.clip(digits - 3 - np.floor(np.log10(near / 0.995)), 0, 8))
    shown = f"{100 * p:.{decimals}f}"
    return (shown.rstrip("0").rstrip(".") if decimals else shown) + PERCENT


def format_number(x: float, digits: int = DIGITS) -> str:
    """A number to three significant digits; whole numbers and integer parts in full, with thousands separators.

    Numbers from 1e9, and below 1e-5, are written with powers of ten, as by `format_bound`.

    Parameters
    ----------
    x : any number; NaN is written "none", infinity "unlimited"
    digits : significant digits, >= 1

    >>> format_number(1 / 3), format_number(12345.0), format_number(float("inf")), format_number(4.6e-15)
    ('0.333', '12,345', 'unlimited', 'none (below 1e-12)')
    """
    if not np.isfinite(x):
        return "none" if np.isnan(x) else "unlimited" if x > 0 else "−unlimited"
    if 0.0 < abs(x) < NOTHING:
        return NONE
    # Whole up to rounding, and below 10,000; larger numbers follow the general rule.
    if abs(x - np.rint(x)) <= 1e-12 * abs(x) < 1e-8:
        return _signed(f"{x:,.0f}")
    short = _short_exponent(f"{x:.{digits - 1}e}")
    exponent = int(short.partition("e")[2])
    return _signed(f"{x:,.{max(digits - 1 - exponent, 0)}f}" if -6 < exponent < 9 else short)


def format_probability(p: float, digits: int = DIGITS) -> str:
    """A probability in percent to three significant digits; to more if it would otherwise read as 100%.

    Parameters
    ----------
    p : probability
    digits : significant digits, >= 1

    >>> [format_probability(p) for p in (1 / 3, 0.9997, 1 / 40000, 1e-11, 1e-15, 0.999999)]
    ['33.3%', '99.97%', '1 in 40,000', 'below 1 in 1,000,000,000', 'none (below 1e-12)', 'above 99.99%']
    """
    if 0.0 < p < SMALL:
        return _one_in(p)
    if LARGE < p < 1.0:
        return f"above 99.99{PERCENT}"
    shown = format_number(100.0 * p, digits)
    if p < 1.0 and float(shown) >= 100.0:
        shown = f"{100.0 * p:.2f}"
    return shown + PERCENT


def format_chance(p: float, digits: int = DIGITS) -> str:
    """The probability of an event that should be rare; values below 0.01% are not distinguished.

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
    """Numbers as text, to the fewest significant digits that separate them: at least `digits`, at most `MOST_DIGITS`.

    Parameters
    ----------
    write : formats a number to a given number of digits
    values : numbers that are shown side by side
    digits : smallest number of significant digits, >= 1

    >>> format_apart(percent, [0.5, 0.52]), format_apart(percent, [0.5, 0.503], 2), format_apart(percent, [0.5, 0.5])
    (['50%', '52%'], ['50%', '50.3%'], ['50%', '50%'])
    """
    numbers = list(values)
    written = [[write(x, n) for x in numbers] for n in range(digits, max(digits, MOST_DIGITS) + 1)]
    return next(texts for texts in written if len(set(texts)) == len(set(written[-1])))


def give_or_take(spread: float) -> str:
    """A standard error as text to follow its number; empty for an error of 0 or NaN.

    Parameters
    ----------
    spread : standard error, >= 0 or NaN

    >>> "0.5" + give_or_take(0.0123), "0.5" + give_or_take(0.0)
    ('0.5 ± 0.012', '0.5')
    """
    return f" ± {spread:#.2g}".rstrip(".") if spread > 0.0 else ""


def format_bound(value: float, upper: bool, digits: int = DIGITS) -> str:
    """A bound to a number of significant digits: upper bounds are rounded up, lower bounds down.

    A value within four parts in 10^16, the precision of a double, of a round number is written as that number.

    Parameters
    ----------
    value : the bound; infinity is written "unlimited"
    upper : True for an upper bound, False for a lower one
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
    """A bound to a number of significant digits, an upper bound rounded up, a lower one down."""
    if exact == 0:
        return Decimal(0)
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    rounded = outward(exact, unit, upper)
    # 0.99999 rounded up is 1.00, not 1.000.
    if rounded.adjusted() > exact.adjusted():
        rounded = rounded.quantize(unit.scaleb(1))
    return rounded


def outward(exact: Decimal, unit: Decimal, upper: bool) -> Decimal:
    """A number rounded up or down to a multiple of a unit; to the nearest if both agree in double precision."""
    nearest = exact.quantize(unit)
    if abs(nearest - exact) <= Decimal("4e-16") * abs(exact):
        return nearest
    return exact.quantize(unit, ROUND_CEILING if upper else ROUND_FLOOR)


def format_uncrossed(reached: float, tolerated: float, digits: Iterable[int]) -> tuple[str, str] | None:
    """A risk and its tolerance as text, to the fewest digits at which the rounded risk stays within the tolerance.

    Parameters
    ----------
    reached : attained risk, rounded up
    tolerated : tolerated risk, rounded down
    digits : numbers of significant digits, tried in this order

    Returns
    -------
    (reached, tolerated), or None if the rounded risk exceeds the rounded tolerance at each of these digits.

    >>> format_uncrossed(0.12341, 0.12349, range(3, 8))
    ('0.12341', '0.12349')
    """
    exact = Decimal(repr(float(reached))), Decimal(repr(float(tolerated)))
    fits = (n for n in digits if round_outward(exact[0], True, n) <= round_outward(exact[1], False, n))
    return next(((format_bound(reached, True, n), format_bound(tolerated, False, n)) for n in fits), None)


def shown_epsilon(epsilon: float, loss: float, digits: int | None) -> str:
    """A recommended epsilon as text: with its own decimals if it was rounded, else three digits rounded down.

    Parameters
    ----------
    epsilon : recommended value
    loss : largest epsilon that the tolerances allow, >= epsilon
    digits : decimals to which epsilon was rounded down; None if it was not rounded

    >>> shown_epsilon(1.09, 1.0986123, 2), shown_epsilon(1.0986123, 1.0986123, None)
    ('1.09', '1.09')
    """
    rounded = digits is not None and epsilon < loss
    return f"{epsilon:.{min(digits or 0, 15)}f}" if rounded else format_bound(epsilon, False)


def outward_percent(p: float, upper: bool, digits: int = DIGITS) -> str:
    """A bound on a probability in percent, without the sign; to more digits if it would otherwise read as 100.

    Parameters
    ----------
    p : probability
    upper : True for an upper bound, False for a lower one
    digits : significant digits, >= 1

    >>> outward_percent(0.123456, True), outward_percent(0.999999, True)
    ('12.4', '99.9999')
    """
    exact, last = Decimal(repr(float(100.0 * p))), max(digits, 10)
    enough = (n for n in range(digits, last) if p >= 1.0 or round_outward(exact, upper, n) < 100)
    many = next(enough, None)
    return "100" if many is None else format_bound(100.0 * p, upper, many)


def percentage(p: float, upper: bool, digits: int = DIGITS) -> str:
    """A bound on a probability in percent, with the sign, or as "1 in 40,000"; rounded outward, to 99.99% or 100%.

    Parameters
    ----------
    p : probability
    upper : True for an upper bound, False for a lower one
    digits : significant digits, >= 1

    >>> percentage(0.123456, True), percentage(0.05, True), percentage(2.4e-5, True), percentage(2.4e-5, False)
    ('12.4%', '5%', '1 in 41,000', '1 in 42,000')
    >>> percentage(0.99975, True), percentage(0.999999, True), percentage(0.999999, False)
    ('99.98%', '100%', '99.99%')
    """
    if LARGE < p < 1.0:
        return f"{'100' if upper else '99.99'}{PERCENT}"
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
    percent : write the ends, which are probabilities, in percent
    digits : significant digits of each end, >= 1

    >>> format_interval(0.12344, 0.98765), format_interval(0.12344, 0.98765, percent=True)
    ('0.123 to 0.988', '12.3% to 98.8%')
    """
    if percent:
        return f"{percentage(low, False, digits)} to {percentage(high, True, digits)}"
    return f"{format_bound(low, False, digits)} to {format_bound(high, True, digits)}"


def interval(ends: Sequence[float], digits: int = 3) -> str:
    """An interval, rounded outward to a number of significant digits of its length.

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
    # Decimal's default context has 28 digits; larger numbers are written with powers of ten, as elsewhere.
    if abs(x) >= 1e9:
        return format_bound(x, upper)
    rounded = Decimal(repr(x)).quantize(Decimal(1).scaleb(-places), ROUND_CEILING if upper else ROUND_FLOOR)
    return _signed(f"{rounded:,f}")


def as_given(x: float) -> str:
    """A parameter in its shortest decimal form, to 15 significant digits.

    Parameters
    ----------
    x : any number

    >>> as_given(0.1), as_given(1e-05)
    ('0.1', '1e-5')
    """
    return _short_exponent(f"{x:.15g}")


def _signed(text: str) -> str:
    """A number as text, with the typographic minus sign."""
    return f"−{text[1:]}" if text.startswith("-") else text


def _short_exponent(text: str) -> str:
    """A number as text, without the leading zero of a negative exponent: 1e-5, not 1e-05."""
    return text.replace("e-0", "e-")


def finite(x: Any) -> float | None:
    """A number that JSON can represent: None for NaN and infinities, 0.0 for negative zero.

    Parameters
    ----------
    x : one number

    >>> finite(0.5), finite(-0.0), finite(float("inf"))
    (0.5, 0.0, None)
    """
    return float(x) + 0.0 if np.isfinite(x) else None
