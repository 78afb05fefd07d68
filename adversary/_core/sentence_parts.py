"""Parts of sentences: numbers as people write them, without powers of ten and trailing zeros, and names in a row.

Bounds are rounded outward, as in `number_formats`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Decimal

import numpy as np

from adversary._core.number_formats import DIGITS, format_bound, outward, percentage, round_outward

DECIMALS = 10
NEAR_THE_END = 4
"""Most decimals of a percentage in a sentence, and most that are there only to keep it apart from 0 and 100."""
RARE = 1e-6
"""Probabilities below are not written as numbers."""
SPELLED = 3
"""Items that share an end of a ranking are named up to so many; of more, how many."""
_LONGEST = 12
"""Characters of a parameter, at most, that is written in full."""
AT_A_TIME = "for any one person and adversary at a time, not for all of them at once"
"""Scope of a probability that a bound holds, in words."""


def plain(value: float, upper: bool, digits: int = 3) -> str:
    """An end of a bound to so many significant digits, rounded outward, with separators of thousands.

    Parameters
    ----------
    value : the bound
    upper : True for an upper end, False for a lower one
    digits : significant digits, >= 1

    >>> plain(2.71828, True), plain(1096.63, True), plain(0.367879, False, 2)
    ('2.72', '1,100', '0.36')
    """
    if not np.isfinite(value):
        return format_bound(value, upper)
    return tidy(round_outward(Decimal(repr(float(value))), upper, digits))


def tidy(number: Decimal) -> str:
    """A decimal number in full, with separators of thousands and without trailing zeros.

    Parameters
    ----------
    number : finite

    >>> tidy(Decimal("12500.50")), tidy(Decimal("1E+3"))
    ('12,500.5', '1,000')
    """
    text = f"{number:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def in_percent(value: float, upper: bool, decimals: int) -> str:
    """An end of a bound on a probability, times 100, rounded outward to so many decimals, without the sign.

    Parameters
    ----------
    value : probability, or difference of two
    upper : True for an upper end, False for a lower one
    decimals : of the percentage, >= 0

    >>> in_percent(0.12341, True, 1), in_percent(0.12341, False, 1)
    ('12.4', '12.3')
    """
    rounded = outward(100 * Decimal(repr(float(value))), Decimal(1).scaleb(-decimals), upper)
    return tidy(abs(rounded) if rounded == 0 else rounded)


def decimals_for(*sizes: float, digits: int = 3) -> int:
    """Decimals of a percentage that show so many significant digits of each of these probabilities; 0 is passed over.

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
    """Ends of an interval of beliefs about `start`, times 100, rounded outward; fine enough to show how far each moves.

    Parameters
    ----------
    start : belief before the release, in [low, high]
    low, high : beliefs after it, probabilities
    digits : significant digits of each movement, >= 1

    >>> ends(0.5, 0.2689414, 0.7310586), ends(0.5, 0.49999975, 0.50000025)
    (('26.8', '73.2'), ('49.999975', '50.000025'))
    """
    lower = max(decimals_for(start - low, digits=digits), _decimals_apart(low, digits))
    upper = max(decimals_for(high - start, digits=digits), _decimals_apart(1.0 - high, digits))
    return in_percent(low, False, lower), in_percent(high, True, upper)


def _decimals_apart(gap: float, digits: int) -> int:
    """Decimals that keep an end apart from 0 or 100, as far as that is worth telling."""
    return min(NEAR_THE_END, decimals_for(gap, digits=digits))


def points(difference: float, digits: int = 3) -> str:
    """The most that a belief moves, in percentage points, rounded up.

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
    """A probability times 100, to the nearest of three significant digits (two of its rest), and `finer` more.

    For what is no bound: the prior of an adversary, and averages.

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
    """The probability that `in_100` will be read as; itself where it is written in words.

    Parameters
    ----------
    p, finer : as `in_100` takes them

    >>> as_read(1 / 3)
    0.333
    """
    text = in_100(p, finer)
    return float(Decimal(text) / 100) if text[0].isdigit() else p


def failure_of(p: float) -> str:
    """The chance that a bound fails: "for certain", or "but for probability 5%", rounded up.

    Parameters
    ----------
    p : probability that it fails

    >>> failure_of(0.0), failure_of(0.05)
    ('for certain', 'but for probability 5%')
    """
    return f"but for probability {percentage(p, True)}" if p else "for certain"


def holding(failure: float) -> str:
    """The least frequency with which a bound holds, in times: the failures are rounded up.

    Parameters
    ----------
    failure : probability that it fails, in (0, 1]

    >>> holding(0.05), holding(1e-6)
    ('at least 95 times in 100', 'at least 999,999 times in 1,000,000')
    """
    failures, times = out_of(failure)
    return f"at least {times - failures:,} times in {times:,}"


def failing(failure: float) -> str:
    """The largest frequency with which a bound fails, in times.

    Parameters
    ----------
    failure : probability that it fails, in (0, 1]

    >>> failing(0.05), failing(0.01)
    ('at most 5 times in 100', 'at most once in 100')
    """
    failures, times = out_of(failure)
    return f"at most {'once' if failures == 1 else f'{failures:,} times'} in {times:,}"


def out_of(failure: float) -> tuple[int, int]:
    """(failures, times), failures / times at least `failure` and close to it; times is a power of ten, 100 at least."""
    exact, times = Decimal(repr(float(failure))), 100
    while times < 10**15 and int((exact * times).to_integral_value(ROUND_CEILING)) > exact * times * Decimal("1.01"):
        times *= 10
    return int((exact * times).to_integral_value(ROUND_CEILING)), times


def how_often(p: float) -> str:
    """The frequency of an event: "never" only where it cannot happen, "always" only where it must.

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
    """A parameter as it was given, in full where that is short, else to 15 digits.

    Parameters
    ----------
    x : finite number

    >>> exactly(0.1), exactly(1e6), exactly(1e-13)
    ('0.1', '1,000,000', '1e-13')
    """
    number = Decimal(repr(float(x)))
    return tidy(number) if -12 < number.adjusted() < 9 else f"{x:.15g}"


def format_parameter(x: float) -> str:
    """A parameter in full where that is short; else rounded up, the weaker guarantee, to six digits.

    Parameters
    ----------
    x : finite number

    >>> format_parameter(0.1), format_parameter(1 / 3)
    ('0.1', '0.333334')
    """
    full = exactly(x)
    return full if len(full) <= _LONGEST else plain(x, True, 6)


def join_words(items: Sequence[str], word: str = "and") -> str:
    """Items in a row: "a", "a and b", "a, b and c".

    Parameters
    ----------
    items : any number of them
    word : before the last

    >>> join_words(["a", "b", "c"], "or")
    'a, b or c'
    """
    return f" {word} ".join([", ".join(items[:-1])] * (len(items) > 1) + [*items[-1:]])


def those_tied(names: Sequence[str], of: int, noun: str) -> str:
    """Those that share an end of a ranking of `of` items: by name, or their number, or that it is all of them.

    Parameters
    ----------
    names : of those that share it, one at least
    of : items in the ranking
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
    """Ranks as they are written: one that is shared has a sign of equality.

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
    """A text with a capital letter at the start.

    Parameters
    ----------
    text : may be empty

    >>> sentence("at most 5%")
    'At most 5%'
    """
    return text[:1].upper() + text[1:]


def error_text(error: Exception) -> str:
    """An error in one line: its text, after its kind unless that is a plain ValueError.

    Parameters
    ----------
    error : any exception; of a package that is missing, what to install is named

    >>> error_text(ValueError("rho must be positive")), error_text(KeyError("rho"))
    ('rho must be positive', "KeyError: 'rho'")
    """
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0].replace("_", "-")
        return f"{package} is not installed: python3 -m pip install {package}"
    text = " ".join(str(error).split())
    return text if type(error) is ValueError and text else f"{type(error).__name__}: {text}".removesuffix(": ")
