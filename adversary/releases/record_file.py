"""Records of real releases, read from TOML files and checked; those that come with the toolkit are such files.

Keys are those of scenario files (`[privacy_unit]`, `[guarantee]`, `[plan]`, and `[scenario]` with a truth and an
adversary) and a few more for the sources. Nothing in a file is executed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

from adversary._core import DEFAULT_FAILURE, check_positive
from adversary.adversaries.plans import Plan
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.definitions import PureDP, ZeroConcentratedDP, simple_epsilon
from adversary.releases.record import KINDS, MODELS, Check, Record, Source
from adversary.releases.registry_file import SUFFIXES, load_registry_record
from adversary.report.files import Scenario, read_scenario, read_toml
from adversary.report.files.guarantee_keys import GUARANTEE, UNITS, read_guarantee, read_unit
from adversary.report.files.keys import Key, Keys, probability, texts
from adversary.report.files.kinds import ABOUT
from adversary.report.files.plan_keys import PLAN, read_plan
from adversary.report.files.scenario import ADVERSARY, TRUTH

# Conversions of zCDP to epsilon at a delta: the optimal one, or rho + 2 sqrt(rho log(1/delta)). Publishers use both.
CONVERSIONS = ("tight", "simple")
WORDS = {
    "curator": "who published it",
    "sector": "government, technology, healthcare, ...",
    "published": "the statistics that are published",
    "mechanism": "the noise, in words",
    "invariants": "what is published exactly",
    "processing": "what is done to noisy numbers before they are published",
    "unknown": "what is not known, and why",
}
SOURCE = {
    "kind": Key("word", "a document of the publisher (primary), the field's registry alone, or nobody's (none)",
                words=KINDS, example='"primary"'),
    "url": Key("text", "its address", "", example='"https://..."'),
    "about": Key("text", "what it says, and its version", "", example='"..."'),
}  # fmt: skip
EPSILON_OF = {
    "rho": Key("number", "zCDP parameter", example="2.63"),
    "delta": Key("number", "at which epsilon is stated", example="1e-10"),
    "conversion": Key("word", "which conversion", CONVERSIONS[0], CONVERSIONS),
}
SCALE = {
    "scale": Key("number", "of Laplace noise", example="10"),
    "sensitivity": Key("number", "most by which one unit changes the number", 1, example="1"),
}
CHECK = {
    "about": Key("text", "what is compared", example='"sum of the levels"'),
    "stated": Key("number", "the number as published; as text it keeps its digits", example='"15.29"'),
    "sum": Key("numbers", "numbers that add up to it", None, example='["4.96", "7.70"]'),
    "product": Key("numbers", "numbers whose product it is", None, example="[4, 4.944]"),
    "epsilon_of": Key("table", "epsilon of a zCDP parameter", None, keys=EPSILON_OF),
    "epsilon_of_laplace": Key("table", "epsilon of a scale", None, keys=SCALE),
}
RULES = ("sum", "product", "epsilon_of", "epsilon_of_laplace")
SCENARIO = {
    "title": Key("text", "what it asks, in a line", "", example='"..."'),
    "neighbours": UNITS["neighbours"]._replace(
        about="for which its budgets are, where not those of the record", live=False
    ),
    "plan": Key("table", "the part of the release that it looks at, if not all of it", None, keys=PLAN),
    "truth": Key("open", "the true counts, of every level", keys=TRUTH),
    "adversary": Key("table", "who reads the release", keys=ADVERSARY),
}
STATED = {**GUARANTEE, "zCDP": GUARANTEE["zCDP"]._replace(example="0.1")}

# Keys of the whole file.
FILE = {
    **{name: key for name, key in texts().items() if name != "source"},
    **{name: Key("text", about, "" if name != "curator" else ..., example='"..."') for name, about in WORDS.items()},
    "date": Key("text", "year, month or day of the publication", "", example='"2023-05-25"', live=True),
    "model": Key("word", "noise added by a curator (central) or by each person (local)", "", words=MODELS,
                 example='"central"', live=True),
    **UNITS,
    "failure": Key("real", "probability with which a bound that is not certain may fail", DEFAULT_FAILURE,
                   make=probability),
    "source": Key("rows", "where its numbers are from", keys=SOURCE,
                  example=[{"kind": '"primary"', "url": '"https://..."'}]),
    "parameters": Key("open", "published numbers by name", None, keys={"*": Key("number", "as published", None)}),
    "guarantee": Key("table", "what is guaranteed to one unit in one period", None, keys=STATED, live=True),
    "replaced": Key("table", "the guarantee for a replaced unit, where it is stated too", None, keys=STATED),
    "plan": Key("table", "everything that is published of one unit, with its noise", None, keys=PLAN),
    "scenario": Key("table", "one adversary, and what is true", None, keys=SCENARIO),
    "check": Key("rows", "a number beside what follows for it from others", None, keys=CHECK,
                 example=[{"about": '"sum of the levels"', "stated": '"0.3"', "sum": '["0.1", "0.2"]'}]),
}  # fmt: skip
_DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")
RECORDS = Path(__file__).parent / "records"
"""Files of the records that come with the toolkit."""


def records() -> dict[str, Record]:
    """Every record that comes with the toolkit, by name.

    Returns
    -------
    dict : name of the file without its suffix, and its record.

    >>> len(records()) >= 40
    True
    """
    return {file.stem: load_record(file) for file in sorted(RECORDS.glob("*.toml"))}


def read(path: str | Path) -> Record:
    """Read a record of a release, written for this toolkit (TOML) or for the deployments registry (YAML).

    Parameters
    ----------
    path : file; `.yaml` and `.yml` are records of the registry, others TOML

    Returns
    -------
    Record

    Raises
    ------
    ImportError : a record of the registry without PyYAML (extra `interop`)
    OSError : the file cannot be read
    ValueError : it is damaged; the message names file, key, rule and value

    >>> read(RECORDS / "google_mobility.toml").unit.name
    'person-day'
    """
    file = Path(path)
    return load_registry_record(file) if file.suffix.lower() in SUFFIXES else load_record(file)


def load_record(path: str | Path) -> Record:
    """Read a record of a release.

    Parameters
    ----------
    path : TOML file

    Returns
    -------
    Record

    Raises
    ------
    OSError : the file cannot be read
    ValueError : it is not TOML, or a key is unknown, missing, of the wrong kind or out of range; the message names
        file, key, rule and value
    """
    file = Path(path)
    document = read_toml(file)
    if "curator" not in document and {"truth", "truths"} & document.keys():
        raise ValueError(f"{file}: curator: is missing: this is {ABOUT['plan']}; a record says who published it")
    top = Keys(document, file, "", FILE)
    words = {name: top.text(name) for name in ("title", "description", *WORDS)}
    for name in ("title", "curator"):
        if not words[name]:
            raise ValueError(f"{top.where(name)}: is required ({FILE[name].about})")
    sources = tuple(Source(**row.read()) for row in _rows(top, "source", SOURCE))
    unit = read_unit(top) or PrivacyUnit()
    plan = _plan(top, unit) if top.has("plan") else None
    scenario = _scenario(top) if top.has("scenario") else None
    checks = tuple(_check(row) for row in _rows(top, "check", CHECK)) if top.has("check") else ()
    guarantee = _guarantee(top, "guarantee")
    return Record(
        **words,
        source="; ".join(one.url for one in sources if one.url),
        path=file,
        date=_date(top),
        model=top["model"],
        sources=sources,
        parameters=_parameters(top.table("parameters")) if top.has("parameters") else {},
        unit=unit,
        guarantee=guarantee,
        replaced=_replaced(top, unit),
        failure=top["failure"],
        plan=plan,
        scenario=scenario,
        checks=checks + _plan_checks(top, guarantee, plan),
    )


def _rows(top: Keys, key: str, declared: Mapping[str, Key]) -> list[Keys]:
    """The tables under `[[key]]` of a file, each with the keys it may have; at least one, or ValueError."""
    rows = top.get(key, list, f"a list of [[{key}]] tables")
    if not rows:
        raise ValueError(f"{top.where(key)}: must hold at least one table, got none")
    return [Keys(row, top.file, f"{key}[{i}]", declared) for i, row in enumerate(rows, 1)]


def _date(top: Keys) -> str:
    """A date in ISO 8601, or as much of it as is known."""
    date = str(top.values.get("date", ""))
    if date and not _DATE.fullmatch(date):
        raise ValueError(f'{top.where("date")}: must be a year, month or day such as "2023-05-25", got {date!r}')
    return date


def _parameters(table: Keys) -> dict[str, Fraction | float]:
    """Published numbers by name; numbers written as text are exact fractions."""
    return {name: table.number(name) for name in table.values}


def _guarantee(top: Keys, key: str) -> Guarantee | None:
    """The guarantee under a key of the file, None without the key."""
    return read_guarantee(top.table(key)) if top.has(key) else None


def _replaced(top: Keys, unit: PrivacyUnit) -> Guarantee | None:
    """The guarantee for a replaced unit; ValueError unless `[guarantee]` is for an added or removed one."""
    if top.has("replaced") and (unit.is_replaced or not top.has("guarantee")):
        got = 'neighbours = "bounded"' if unit.is_replaced else "no [guarantee]"
        raise ValueError(
            f"{top.where('replaced')}: stands beside the [guarantee] of a unit added or removed, got {got}; where one "
            'guarantee is stated, for a replaced unit, it is [guarantee] with neighbours = "bounded"'
        )
    return _guarantee(top, "replaced")


def _plan(top: Keys, unit: PrivacyUnit) -> Plan:
    """The plan of a record, of a unit whose neighbour relation must be stated."""
    if unit.neighbours is None:
        raise ValueError(
            f"{top.where('plan')}: needs privacy_unit.neighbours, whether a unit is added or replaced, since it sets "
            "the noise of a budget; leave the plan out where nobody states it"
        )
    return read_plan(top.table("plan"), unit)


def _scenario(top: Keys) -> Scenario:
    """The scenario of a record, as `load_scenario` reads one; with the plan of the record unless it has its own."""
    part = top.table("scenario")
    for key in ("truth", "adversary"):
        part.table(key)
    if not part.has("plan") and not top.has("plan"):
        raise ValueError(f"{part.where('plan')}: is required where the record has no [plan]")
    shared_keys = {"neighbours", "privacy_unit", "failure", "plan"}
    document = {key: value for key, value in top.values.items() if key in shared_keys} | dict(part.values)
    if part.has("neighbours") and "privacy_unit" in document:
        document["privacy_unit"] = {**document["privacy_unit"], "neighbours": part["neighbours"]}
    return read_scenario(document, top.file, "scenario")


def _check(row: Keys) -> Check:
    """Consistency check of a `[[check]]` table, by the one rule that the table has a key for."""
    rule_keys = [key for key in RULES if row.has(key)]
    if len(rule_keys) != 1:
        raise ValueError(
            f"{row.file}: {row.key}: must have one of {', '.join(RULES)}, got {', '.join(rule_keys) or 'none of them'}"
        )
    if not (about := row.text("about")):
        raise ValueError(f"{row.where('about')}: is required ({CHECK['about'].about})")
    stated = row.number("stated")
    computations: dict[str, Callable[[], float]] = {
        "sum": lambda: float(sum(map(Fraction, row.numbers("sum")))),
        "product": lambda: float(prod(map(Fraction, row.numbers("product")))),
        "epsilon_of": lambda: _epsilon(**row["epsilon_of"].read()),
        "epsilon_of_laplace": lambda: _laplace(**row["epsilon_of_laplace"].read()),
    }
    computed = row.build(rule_keys[0], computations[rule_keys[0]])
    return Check(about, Fraction(stated), computed, _rounding(row.values["stated"]))


def _plan_checks(top: Keys, guarantee: Guarantee | None, plan: Plan | None) -> tuple[Check, ...]:
    """Check of the plan's privacy loss against the stated zCDP or pure DP; none if it is not larger, up to rounding."""
    if plan is None:
        return ()
    if isinstance(guarantee, ZeroConcentratedDP):
        name, stated, computed = "zCDP", guarantee.rho, plan.total_rho
    elif isinstance(guarantee, PureDP):
        name, stated, computed = "pure DP", guarantee.epsilon(0.0), plan.unit_loss().epsilon(0.0)
    else:
        return ()
    rounding = _rounding(top.values["guarantee"][name])
    check = Check(f"{name} of the plan", Fraction(float(stated)), float(computed), rounding)
    return (check,) if computed > stated and not check.agrees else ()


def _epsilon(rho: Any, delta: Any, conversion: str) -> float:
    """Epsilon of rho-zCDP at delta, by one of `CONVERSIONS`."""
    if conversion == CONVERSIONS[0]:
        return float(ZeroConcentratedDP(float(rho)).epsilon(float(delta)))
    return float(simple_epsilon(float(rho), float(delta)))


def _laplace(scale: Any, sensitivity: Any) -> float:
    """Epsilon of Laplace noise: sensitivity / scale."""
    check_positive("scale", scale)
    return float(sensitivity) / float(scale)


def _rounding(written: Any) -> float:
    """Half a unit of the last decimal of a number as it is written; 1e-9 of it for whole numbers and fractions."""
    mantissa, _, exponent = str(written).partition("e")
    digits = mantissa.partition(".")[2]
    if not digits.isdigit():
        return 1e-9 * abs(float(Fraction(written)))
    return 0.5 * 10.0 ** (int(exponent or 0) - len(digits))
