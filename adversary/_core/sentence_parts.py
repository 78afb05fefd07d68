"""Parts of sentences: numbers without powers of ten and trailing zeros, frequencies, and lists of names.

Bounds are rounded outward, as in `number_formats`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Decimal

import numpy as np

from adversary._core.number_formats import DIGITS, as_given, format_bound, outward, percentage, round_outward

DECIMALS = 10

# Most decimals of a percentage in a sentence, and most decimals used only to distinguish it from 0 and 100.
NEAR_THE_END = 4
RARE = 1e-6
"""Probability below which an event is written in words instead of a number."""

# Largest number of tied items listed by name; larger groups are counted.
SPELLED = 3

# Largest number of characters of a parameter that is written in full.
_LONGEST = 12
AT_A_TIME = "for any one person and adversary at a time, not for all of them at once"
"""Scope, in words, of the probability with which a bound holds."""


def plain(value: float, upper: bool, digits: int = 3) -> str:
    """A bound to a number of significant digits, rounded outward, with thousands separators.

    Parameters
    ----------
    value : the bound
    upper : True for an upper bound, False for a lower one
    digits : significant digits, >= 1

    >>> plain(2.71828, True), plain(1096.63, True), plain(0.367879, False, 2)
    ('2.72', '1,100', '0.36')
    """
    if not np.isfinite(value):
        return format_bound(value, upper)
    return tidy(round_outward(Decimal(repr(float(value))), upper, digits))


def tidy(number: Decimal) -> str:
    """A decimal number in full, with thousands separators and without trailing zeros.

    Parameters
    ----------
    number : finite

    >>> tidy(Decimal("12500.50")), tidy(Decimal("1E+3"))
    ('12,500.5', '1,000')
    """
    text = f"{number:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def in_percent(value: float, upper: bool, decimals: int) -> str:
    """A bound on a probability in percent, rounded outward to a number of decimals, without the sign.

    Parameters
    ----------
    value : probability, or difference of two
    upper : True for an upper bound, False for a lower one
    decimals : of the percentage, >= 0

    >>> in_percent(0.12341, True, 1), in_percent(0.12341, False, 1)
    ('12.4', '12.3')
    """
    rounded = outward(100 * Decimal(repr(float(value))), Decimal(1).scaleb(-decimals), upper)
    return tidy(abs(rounded) if rounded == 0 else rounded)


def decimals_for(*sizes: float, digits: int = 3) -> int:
    """Decimals of a percentage needed for a number of significant digits of each probability; 0 is ignored.

    Parameters
    ----------
    *sizes : probabilities, or differences of two
    digits : significant digits, >= 1

    >>> decimals_for(0.24, 0.001, digits=2)
    2
    """
    seen = [100.0 * abs(x) for x in sizes if x != 0.0]
    return max([0, *(min(DECIMALS, digits - 1 - int(np.floor(np.log10(x)))) for x in seen)])


def ends(start: float, low: float, high: float, digits: int = 3) -> tuple[str, str]:
    """Ends of an interval of posteriors in percent, rounded outward, with enough decimals to show both changes.

    Parameters
    ----------
    start : prior probability, in [low, high]
    low, high : smallest and largest posterior probability
    digits : significant digits of each change, start - low and high - start, >= 1

    >>> ends(0.5, 0.2689414, 0.7310586), ends(0.5, 0.49999975, 0.50000025)
    (('26.8', '73.2'), ('49.999975', '50.000025'))
    """
    lower = max(decimals_for(start - low, digits=digits), _decimals_apart(low, digits))
    upper = max(decimals_for(high - start, digits=digits), _decimals_apart(1.0 - high, digits))
    return in_percent(low, False, lower), in_percent(high, True, upper)


def _decimals_apart(gap: float, digits: int) -> int:
    """Decimals that distinguish an end from 0 or 100, at most `NEAR_THE_END`."""
    return min(NEAR_THE_END, decimals_for(gap, digits=digits))


def points(difference: float, digits: int = 3) -> str:
    """Largest change of a belief in percentage points, rounded up.

    Parameters
    ----------
    difference : of two probabilities
    digits : significant digits, >= 1

    >>> points(0.244918662), points(0.99991)
    ('24.5', '99.991')
    """
    decimals = max(decimals_for(difference, digits=digits), _decimals_apart(1.0 - difference, digits))
    return in_percent(difference, True, decimals)


def in_100(p: float, finer: int = 0) -> str:
    """A probability in percent, rounded to nearest: three significant digits, two of its complement, and `finer` more.

    For numbers that are not bounds, such as priors and averages.

    Parameters
    ----------
    p : probability
    finer : further digits, >= 0

    >>> in_100(0.125), in_100(1 / 864), in_100(0.99987654), in_100(1 - 1e-9)
    ('12.5', '0.116', '99.988', 'more than 99.9999')
    """
    rest = min(NEAR_THE_END + finer, decimals_for(1.0 - p, digits=2 + finer))
    unit = Decimal(1).scaleb(-max(rest, decimals_for(p, digits=DIGITS + finer)))
    text = tidy((100 * Decimal(repr(float(p)))).quantize(unit))
    if 0.0 < p < 1.0 and text in ("0", "100"):
        return f"{'less' if p < 0.5 else 'more'} than {tidy(unit if p < 0.5 else 100 - unit)}"
    return text


def as_read(p: float, finer: int = 0) -> float:
    """The probability that the text of `in_100` denotes; `p` itself if the text is in words.

    Parameters
    ----------
    p, finer : as `in_100` takes them

    >>> as_read(1 / 3)
    0.333
    """
    text = in_100(p, finer)
    return float(Decimal(text) / 100) if text[0].isdigit() else p


def failure_of(p: float) -> str:
    """Failure probability of a bound in words: "for certain", or "but for probability 5%", rounded up.

    Parameters
    ----------
    p : failure probability

    >>> failure_of(0.0), failure_of(0.05)
    ('for certain', 'but for probability 5%')
    """
    return f"but for probability {percentage(p, True)}" if p else "for certain"


def holding(failure: float) -> str:
    """Smallest frequency with which a bound holds, in words; failures are rounded up.

    Parameters
    ----------
    failure : failure probability, in (0, 1]

    >>> holding(0.05), holding(1e-6)
    ('at least 95 times in 100', 'at least 999,999 times in 1,000,000')
    """
    failures, times = out_of(failure)
    return f"at least {times - failures:,} times in {times:,}"


def failing(failure: float) -> str:
    """Largest frequency with which a bound fails, in words.

    Parameters
    ----------
    failure : failure probability, in (0, 1]

    >>> failing(0.05), failing(0.01)
    ('at most 5 times in 100', 'at most once in 100')
    """
    failures, times = out_of(failure)
    return f"at most {'once' if failures == 1 else f'{failures:,} times'} in {times:,}"


def out_of(failure: float) -> tuple[int, int]:
    """(failures, times) with failures / times from `failure` to 1.01 `failure`; times is a power of ten from 100."""
    exact, times = Decimal(repr(float(failure))), 100
    while times < 10**15 and int((exact * times).to_integral_value(ROUND_CEILING)) > exact * times * Decimal("1.01"):
        times *= 10
    return int((exact * times).to_integral_value(ROUND_CEILING)), times


def how_often(p: float) -> str:
    """Frequency of an event in words; "never" only for probability 0, "always" only for probability 1.

    Parameters
    ----------
    p : probability

    >>> how_often(0.0), how_often(1e-9), how_often(0.125), how_often(1.0)
    ('never', 'hardly ever, less than once in a million times', '12.5 times in 100', 'always')
    """
    if p in (0.0, 1.0):
        return "always" if p else "never"
    if p < RARE:
        return "hardly ever, less than once in a million times"
    if p > 1.0 - RARE:
        return "nearly always, all but less than once in a million times"
    return f"{in_100(p)} times in 100"


def exactly(x: float) -> str:
    """A parameter in full if its decimal exponent is from -11 to 8, otherwise to 15 significant digits.

    Parameters
    ----------
    x : finite number

    >>> exactly(0.1), exactly(1e6), exactly(1e-13)
    ('0.1', '1,000,000', '1e-13')
    """
    number = Decimal(repr(float(x)))
    return tidy(number) if -12 < number.adjusted() < 9 else f"{x:.15g}"


def format_parameter(x: float) -> str:
    """A parameter in full if that is short; otherwise to six digits, rounded up, to the weaker guarantee.

    Below 1e-6 it is written with a power of ten.

    Parameters
    ----------
    x : finite number

    >>> format_parameter(0.1), format_parameter(1 / 3), format_parameter(1e-10)
    ('0.1', '0.333334', '1e-10')
    """
    if 0.0 < x < 1e-6:
        short = as_given(x)
        return short if len(short) <= _LONGEST else format_bound(x, True, 6)
    full = exactly(x)
    return full if len(full) <= _LONGEST else plain(x, True, 6)


def join_words(items: Sequence[str], word: str = "and") -> str:
    """List of items in words: "a", "a and b", "a, b and c".

    Parameters
    ----------
    items : any number of items
    word : before the last item

    >>> join_words(["a", "b", "c"], "or")
    'a, b or c'
    """
    return f" {word} ".join([", ".join(items[:-1])] * (len(items) > 1) + [*items[-1:]])


def those_tied(names: Sequence[str], of: int, noun: str) -> str:
    """Items tied at one end of a ranking, in words: their names, or their number if more than `SPELLED`.

    Parameters
    ----------
    names : of the tied items, at least one
    of : number of items in the ranking
    noun : of the items, plural

    >>> those_tied(["a"], 9, "cells"), those_tied(["a", "b"], 9, "cells"), those_tied(list("abcd"), 9, "cells")
    ('a', 'a and b', '4 of 9 cells, a among them')
    >>> those_tied(list("abcd"), 4, "cells"), those_tied(["a"], 1, "cells")
    ('all 4 cells', 'a')
    """
    if len(names) == of > 1:
        return f"all {of:,} {noun}"
    return join_words(names) if len(names) <= SPELLED else f"{len(names):,} of {of:,} {noun}, {names[0]} among them"


def ranks_shown(ranks: Iterable[int]) -> list[str]:
    """Ranks as text; a shared rank is followed by "=".

    Parameters
    ----------
    ranks : 1 for the first, as `shared_ranks` counts

    >>> ranks_shown([1, 1, 3])
    ['1=', '1=', '3']
    """
    whole = [int(rank) for rank in ranks]
    shared = Counter(whole)
    return [f"{rank}{'=' * (shared[rank] > 1)}" for rank in whole]


def sentence(text: str) -> str:
    """A text with its first letter capitalised.

    Parameters
    ----------
    text : may be empty

    >>> sentence("at most 5%")
    'At most 5%'
    """
    return text[:1].upper() + text[1:]


def first_sentence(text: str) -> str:
    """A text up to the first full stop that ends a sentence.

    Parameters
    ----------
    text : sentences

    >>> first_sentence("At most 0.1 nats. The rest.")
    'At most 0.1 nats.'
    """
    return re.split(r"(?<=[.!?])\s+(?=[A-Z“])", text, maxsplit=1)[0]


def error_text(error: Exception) -> str:
    """An error in one line: its message, preceded by its class unless that is ValueError.

    Parameters
    ----------
    error : any exception; for a missing package the text is the command that installs it

    >>> error_text(ValueError("rho must be positive")), error_text(KeyError("rho"))
    ('rho must be positive', "KeyError: 'rho'")
    """
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0].replace("_", "-")
        return f"{package} is not installed: python3 -m pip install {package}"
    text = " ".join(str(error).split())
    return text if type(error) is ValueError and text else f"{type(error).__name__}: {text}".removesuffix(": ")
