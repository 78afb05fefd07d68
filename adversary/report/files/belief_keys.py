"""Beliefs about other people in a scenario file: "uniform", or a table of one kind.

| table | belief |
|---|---|
| `{ upper = 10 }` | `Uniform(10)` |
| `{ total = 25 }` | `Point(25)` |
| `{ known = 25 }` | `Known(25)`: so many others, for certain |
| `{ probabilities = [0.5, 0.3, 0.2] }` | `Others` with that pmf over 0, 1, 2, ... |
| `{ law = "poisson", mu = 2 }` | `Others` with that distribution |
| `{ law = "negative binomial", mu = 2, alpha = 3 }` | `Others` with that distribution, of mean mu and shape alpha |
| `{ law = "gamma poisson", shape = 3, rate = 1, exposure = 27 }` | `GammaPoisson` |
| `{ law = "beta binomial", n = 40, alpha = 1, beta = 9 }` | `BetaBinomial` |
| `{ between = [3, 20], mass = 0.9, law = "negative binomial" }` | `Others(law_between(3, 20, 0.9))` |
| `{ counts = "2010.csv", column = "renters" }` | `Others(law_of_counts(...))` of a CSV file's column |
| `{ sampled = 3, population = 60 }` | `Others(law_of_sample(3, 60))`: fk and Fk of sdcMicro |
| `{ each = "uniform" }`, `{ each = [0.5, 0.5] }`, `{ each = { law = "poisson", mu = 2 } }` | `Each` |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import partial
from typing import Any

import numpy as np

from adversary._core import Integers, check_positive, closest_name, quoted, refuse_rounded
from adversary.adversaries import beliefs
from adversary.privacy.mechanisms import MOST_VALUES
from adversary.report.files.keys import Key, Keys
from adversary.report.files.toml_text import as_toml

# Discrete distributions of `scipy.stats` that a scenario may name, with scipy's own parameter names.
LAWS = (
    "poisson",
    "binom",
    "nbinom",
    "geom",
    "betabinom",
    "betanbinom",
    "hypergeom",
    "randint",
    "zipf",
    "logser",
    "planck",
    "boltzmann",
    "bernoulli",
)

# Further names of some of them, those usual in the literature.
NAMES = {"binomial": "binom", "negative binomial": "nbinom"}

# Those whose quantiles scipy computes without adding up probabilities from 0.
INVERTED = ("poisson", "binom", "nbinom", "geom", "randint", "planck", "boltzmann")

# Largest count of any other distribution, as adding up probabilities for each quantile takes long beyond it.
MOST_ADDED = 100_000

# Standard deviations within which a distribution with light tails has all but 1e-18 of its mass, with room to spare.
DEVIATIONS = 40.0

# Beliefs with a kind that `adversaries.beliefs` exports: named as distributions, their fields being the keys.
RATES: dict[str, type[beliefs.IndependentBelief]] = {
    one.kind: one
    for one in (getattr(beliefs, name) for name in dir(beliefs))
    if isinstance(one, type) and issubclass(one, beliefs.IndependentBelief) and one.kind
}
KINDS = ("upper", "total", "known", "probabilities", "law", "each", "between", "counts", "sampled")

# Declaration of the belief about a level.
BELIEF = Key("any", 'what is believed of its count: "uniform", or a table of one kind', None,
             example=['tract = "uniform"'], live=True)  # fmt: skip


def read_beliefs(table: Keys) -> dict[str, beliefs.Belief]:
    """Beliefs of a table, by level."""
    return {name: table.build(name, partial(read_belief, table, name)) for name in table.values}


def read_belief(parent: Keys, name: str) -> beliefs.Belief:
    """Belief under one key of a table: "uniform", or a table of one kind."""
    if parent.values[name] == "uniform":
        parent.has(name)
        return beliefs.Uniform()
    if not isinstance(parent.values[name], dict):
        given = parent.values[name]
        hint = closest_name(given, ["uniform"]) if isinstance(given, str) else ""
        raise ValueError(f'a belief is "uniform" or a table such as {{ upper = 10 }}, got {as_toml(given)}{hint}')
    table = parent.table(name)
    if "law" not in table.values:
        table.only(*KINDS, "mass", "column", "population")
    kinds = [kind for kind in KINDS if table.has(kind) and not (kind == "law" and table.has("between"))]
    if len(kinds) != 1:
        raise ValueError(
            "a belief table has exactly one of upper (uniform), total (point), known (others), probabilities (pmf), "
            f"law, each, between, counts or sampled, got {', '.join(kinds) or 'none'}"
        )

    def whole(key: str) -> int:
        return int(table.get(key, int, "a whole number"))

    makers: dict[str, Callable[[], beliefs.Belief]] = {
        "upper": lambda: beliefs.Uniform(whole("upper")),
        "total": lambda: beliefs.Point(whole("total")),
        "known": lambda: beliefs.Known(whole("known")),
        "probabilities": lambda: beliefs.Others(table.get("probabilities", list, "a list of probabilities")),
        "law": lambda: _unknown_rate(table) if table.values["law"] in RATES else beliefs.Others(_law(table)),
        "each": lambda: beliefs.Each(_one_sibling(table)),
        "between": lambda: beliefs.Others(_law_between(table)),
        "counts": lambda: beliefs.Others(_law_from_column(table)),
        "sampled": lambda: beliefs.Others(beliefs.law_of_sample(whole("sampled"), float(table.measure("population")))),
    }
    made = makers[kinds[0]]()
    table.finish()
    return made


def _law_between(table: Keys) -> Any:
    """Distribution with a given mass between two counts, of a table with `between`."""
    ends = table.get("between", list, "a list of two whole numbers")
    if len(ends) != 2 or not all(type(one) is int for one in ends):
        raise ValueError(f"{table.where('between')}: must be a list of two whole numbers, got {as_toml(ends)}")
    law = table.get("law", str, f"one of {', '.join(beliefs.BETWEEN)}", "")
    try:
        return beliefs.law_between(ends[0], ends[1], float(table.number("mass", 0.9)), law or None)
    except ImportError as error:
        raise ValueError(str(error)) from None


def _law_from_column(table: Keys) -> Any:
    """Empirical distribution of the counts in a column of a CSV file, of a table with `counts`."""
    name = table.get("column", str, "the name of its column of counts")
    path, frame, where = table.frame("counts", name)
    column = frame[name]
    return beliefs.law_of_counts(_whole_column(column, name, lambda row: f"{path}: {where(row)}"))


def _one_sibling(table: Keys) -> Any:
    """Distribution of one sibling's count, of a table with `each`; None for a flat one."""
    given = table.get("each", (str, list, dict), '"uniform", a list of probabilities, or a law')
    if isinstance(given, str):
        if given != "uniform":
            raise ValueError(f'each must be "uniform", a list of probabilities, or a law, got {given!r}')
        return None
    if isinstance(given, list):
        return given
    law = _law(table.table("each"))
    # a distribution on too many counts is refused here, where the error names its key
    beliefs.Others(law).followed()
    return law


def _law(table: Keys) -> Any:
    """Frozen distribution of `scipy.stats`, of a table with `law` and its parameters."""
    known = (*LAWS, *NAMES, *RATES)
    given = table.get("law", str, f"one of {quoted(known)}")
    if given not in (*LAWS, *NAMES):
        raise ValueError(f"law must be one of {quoted(known)}, got {given!r}{closest_name(given, known)}")
    import scipy.stats

    law = NAMES.get(given, given)
    parameters = {key: float(table.measure(key)) for key in table.values if key != "law"}
    if law == "nbinom" and set(parameters) == {"mu", "alpha"}:
        mean, shape = (float(check_positive(key, parameters[key])) for key in ("mu", "alpha"))
        parameters = {"n": shape, "p": shape / (shape + mean)}
    try:
        frozen = getattr(scipy.stats, law)(**parameters)
    except TypeError:
        shapes = getattr(scipy.stats, law).shapes or ""
        also = ", or mu, alpha (mean and shape)" * (law == "nbinom")
        raise ValueError(
            f"law {given!r} takes the parameters {shapes} (and loc){also}, got "
            f"{', '.join(sorted(parameters)) or 'none'}"
        ) from None
    if not frozen.support()[0] >= 0:
        stated = ", ".join(f"{key} = {x:g}" for key, x in parameters.items())
        raise ValueError(f"law {given!r} must be of counts >= 0, with parameters in their range, got {stated}")
    _check_spread(law, parameters, frozen)
    return frozen


def _check_spread(law: str, parameters: dict[str, float], frozen: Any) -> None:
    """ValueError for a distribution with mass on more counts than can be listed."""
    low, high = frozen.support()
    with np.errstate(all="ignore"):
        if law in INVERTED:
            most, got = MOST_VALUES, float(np.fmin(DEVIATIONS * frozen.std(), high - low))
        else:
            beyond = np.isinf(high) and frozen.sf(MOST_ADDED) > beliefs.LAW_MASS
            most, got = MOST_ADDED, float("inf") if beyond else float(high) if np.isfinite(high) else 0.0
    if not got <= most:
        spread_words = f"about {got:.3g}" if np.isfinite(got) else "more, as scipy adds it up"
        raise ValueError(
            f"law {law!r} with {parameters} must have its mass on at most {most:,} counts, got {spread_words}"
        )


def _unknown_rate(table: Keys) -> beliefs.Belief:
    """Belief about a count whose rate is unknown: one of `RATES`, with its fields as keys."""
    kind = RATES[table.get("law", str, "text")]
    table.only("law", *(field.name for field in fields(kind)))  # type: ignore[arg-type]
    given: dict[str, float] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        default = ... if field.default is MISSING else field.default
        if field.type in (int, "int"):
            given[field.name] = table.get(field.name, int, "a whole number", default)
        else:
            given[field.name] = float(table.measure(field.name, default))
    return _listable(kind(**given))


def _listable(belief: beliefs.IndependentBelief) -> beliefs.Belief:
    """The belief, or ValueError for mass on more counts than can be listed."""
    low, high = belief.bulk() or (0, 0)
    if high - low > MOST_VALUES:
        raise ValueError(f"{belief!r} must have its mass on at most {MOST_VALUES:,} counts, got {high - low + 1:.3g}")
    return belief


def _whole_column(column: Any, name: str, where: Callable[[int], str]) -> Integers:
    """Column of counts as whole numbers.

    Parameters
    ----------
    column : numbers, or words for them
    name : of the column, for messages
    where : name of a row in messages, by its index

    Raises
    ------
    ValueError : an entry that is no whole number >= 0, or may have been rounded; its row is named

    >>> _whole_column(["3", 0.0], "count", lambda row: f"row {row}").tolist()
    [3, 0]
    """
    if hasattr(column, "dtype"):
        refuse_rounded(f"column {name!r}", column)
    values = []
    for row, value in enumerate(column):
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = np.nan
        if not (0.0 <= number <= 2.0**53) or number % 1.0 or isinstance(value, bool):
            raise ValueError(f"{where(row)}: column {name!r}: must be a whole number >= 0, got {value!r}")
        values.append(int(number))
    return np.array(values, dtype=np.int64)
