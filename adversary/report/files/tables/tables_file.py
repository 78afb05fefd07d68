"""Tables files of `adversary tables`: published tables of one population, adversary and guarantee, read and checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import DEFAULT_FAILURE, closest_name
from adversary.adversaries.beliefs import Others, Uniform
from adversary.adversaries.tables import KNOWS, PublishedTable, TableAdversary
from adversary.budget import STATISTICS, RiskProfile
from adversary.privacy import Guarantee, PrivacyUnit, unit_rho
from adversary.report.files.belief_keys import BELIEF, read_belief
from adversary.report.files.guarantee_keys import GUARANTEE, UNITS, read_guarantees, read_unit
from adversary.report.files.keys import FileDescription, Key, Keys, probability, texts
from adversary.report.files.profile_keys import PROFILE, read_profile
from adversary.report.files.tables.table_text import TABLE, read_table
from adversary.report.files.toml_text import as_toml, read_toml

# Treatments of suppressed cells: all counts that they can have equally likely, or nobody in them.
SUPPRESSED = ("draw", "leave out")
DATA = {
    "file": Key("text", "people or counts: CSV, Excel, Parquet, Stata or SPSS, by its path from this file's",
                example='"people.csv"'),
    "sheet": Key("text", "of an Excel file with several", ""),
    "places": Key("list", "columns that are places", None, example='["district"]'),
    "features": Key("list", "columns that are features", None, example='["age", "sex"]'),
    "counts": Key("list", "columns of counts", None, example='["n"]'),
    "people": Key("flag", "each row is a person (true) or a cell (false); its columns decide unless given", None,
                  example="true"),
    "leave_out": Key("list", 'columns, or rows as "sex=Total"', None, example='["total"]'),
    "yes_these_are_counts": Key("list", "columns of counts that look like codes, years or totals", None,
                                example='["year"]'),
    "decimal": Key("word", "the decimal mark", None, (".", ","), example='","'),
    "suppressed": Key("word", "suppressed cells have a count that is drawn, or nobody", SUPPRESSED[0], SUPPRESSED),
    "suppressed_below": Key("whole", "the smallest count that is not suppressed", None, example="5"),
}  # fmt: skip
ADVERSARY = {
    "prior": Key("number", "probability, before the release, that the person is in the file", 0.5, example='"1/2"',
                 live=True),
    "knows": Key("text", f'of others: {", ".join(KNOWS)}, or "household COLUMN"', KNOWS[0], example='"cell"',
                 live=True),
    "belief": BELIEF._replace(about='about others in each cell that is not known: "uniform", or a table of one kind',
                              example='"uniform"', live=False),
    "last_year": Key("text", "a file of expected counts, such as last year's, in place of belief", "",
                     example='"last_year.csv"'),
}  # fmt: skip
FILE = {
    **texts(),
    **UNITS,
    "failure": Key("real", "probability with which a bound that is not certain may fail", DEFAULT_FAILURE, live=True,
                   make=probability),
    "data": Key("table", "the people, and what its columns are", keys=DATA),
    "table": Key(
        "rows", "what is published of them, each with noise of its own", keys=TABLE,
        example=[{"of": '"district: age x sex"', "rho": "0.3"}, {"of": '"country: age"', "rho": "0.1"}],
    ),
    "adversary": Key("table", "who asks about one person", None, keys=ADVERSARY, live=True),
    "guarantee": Key("table", "what is guaranteed, to be checked", None, keys=GUARANTEE),
    "profile": Key("open", "the risk that is tolerated", None,
                   keys={"statistic": Key("word", "what is published", "any", STATISTICS), **PROFILE}),
}  # fmt: skip


@dataclass(frozen=True)
class TablesFile(FileDescription):
    """File of several tables, read and checked; its data are not read yet.

    Parameters
    ----------
    data : path of the data
    sheet : of an Excel file, or None
    options : roles of its columns, arguments of `population`
    tables : published tables; a place that is no column is the whole file
    adversary : prior, knowledge and belief
    household : column of households, the members of which the adversary knows, or ""
    last_year : path of counts that the adversary expects, or None
    unit : privacy unit of the guarantees
    guarantees : by the name of their definition, or None
    profile : the risk that the agency tolerates, or None
    failure : probability with which a bound that is not certain may fail
    document : the TOML document
    """

    data: Path
    sheet: str | None
    options: dict[str, Any]
    tables: tuple[PublishedTable, ...]
    adversary: TableAdversary
    household: str
    last_year: Path | None
    unit: PrivacyUnit
    guarantees: dict[str, Guarantee] | None
    profile: RiskProfile | None
    failure: float
    document: dict[str, Any]


def load_tables_file(path: str | Path) -> TablesFile:
    """Read a file of several tables, the input of `adversary tables`.

    Parameters
    ----------
    path : TOML file with `[data]` and at least one `[[table]]`

    Returns
    -------
    TablesFile

    Raises
    ------
    OSError : the file cannot be read
    ValueError : it is not TOML, a key is unknown, missing, of the wrong kind or out of range, or two tables have
        the same name; the message names file, key, rule and value
    """
    file = Path(path)
    document = read_toml(file)
    top = Keys.of_file(document, file, "a file of several tables", FILE)
    unit = read_unit(top).resolved(None)
    data = top.table("data")
    tables = _published_tables(top, unit)
    who = top.table("adversary") if top.has("adversary") else Keys({}, file, "adversary", ADVERSARY)
    knows, household = _knowledge(who)
    tolerated = top.table("profile") if top.has("profile") else None
    if tolerated is not None:
        tolerated.one_of("statistic", STATISTICS, "any")
    last_year = who["last_year"]
    if last_year and who.has("belief"):
        raise ValueError(f"{who.where('last_year')}: must be left out where there is a belief, got {last_year!r}")
    belief = _belief(who) if who.has("belief") else None
    total = partial(_total_rho, tables, unit)
    guarantees = read_guarantees(top.table("guarantee"), total) if top.has("guarantee") else None
    words = {name: top.get(name, str, "text", "") for name in texts()}
    return TablesFile(
        **words,
        path=file,
        data=file.parent / data["file"],
        sheet=data["sheet"] or None,
        options=_options(data),
        tables=tables,
        adversary=who.build("prior", partial(TableAdversary, who["prior"], knows, belief)),
        household=household,
        last_year=file.parent / last_year if last_year else None,
        unit=unit,
        guarantees=guarantees,
        profile=None if tolerated is None else read_profile(tolerated),
        failure=top["failure"],
        document=document,
    )


def _published_tables(top: Keys, unit: PrivacyUnit) -> tuple[PublishedTable, ...]:
    """The published tables of a file, one for every `[[table]]`; ValueError if there is none or a name is repeated."""
    rows = top.get("table", list, 'a list of [[table]] tables, such as of = "district: age", rho = 0.1')
    if not rows:
        raise ValueError(f"{top.where('table')}: must be one table at least, got none")
    parts = [Keys(row, top.file, f"table[{i}]", TABLE) for i, row in enumerate(rows, 1)]
    made = tuple(part.build("", partial(read_table, part, unit)) for part in parts)
    names = [one.name for one in made]
    for i, (name, part) in enumerate(zip(names, parts, strict=True)):
        if name in names[:i]:
            raise ValueError(
                f"{part.where('name')}: must be another than that of table[{names.index(name) + 1}], got {name!r} "
                "again: give it a name, or write releases = 2"
            )
    return made


def _options(data: Keys) -> dict[str, Any]:
    """Arguments of `population` that the file gives."""
    options: dict[str, Any] = {}
    for key in DATA:
        if key in ("file", "sheet") or not data.has(key):
            continue
        if DATA[key].kind == "list":
            given = data.get(key, (list, str), "a list of names")
            given = [given] if isinstance(given, str) else given
            if not all(isinstance(one, str) and one.strip() for one in given):
                raise ValueError(f"{data.where(key)}: must be a list of names, got {as_toml(given)}")
            options[key] = given
        else:
            options[key] = data[key]
    if not data["file"].strip():
        raise ValueError(f"{data.where('file')}: must be the path of a file, such as people.csv, got nothing")
    return options


def _knowledge(who: Keys) -> tuple[str, str]:
    """(knowledge of the adversary about others, one of `KNOWS`; column of households, or "")."""
    given = who["knows"]
    first, _, column = given.partition(" ")
    if first == "household" and column.strip():
        return KNOWS[0], column.strip()
    if given not in KNOWS:
        raise ValueError(
            f"{who.where('knows')}: must be one of {', '.join(KNOWS)}, or household and a column, such as "
            f"'household hh_id', got {given!r}{closest_name(given, KNOWS)}"
        )
    return given, ""


def _belief(who: Keys) -> Others | None:
    """Distribution of the number of others in each cell; None for the improper flat one."""
    made = who.build("belief", partial(read_belief, who, "belief"))
    if isinstance(made, Uniform):
        return None if made.upper is None else Others(np.full(made.upper + 1, 1.0 / (made.upper + 1)))
    if not isinstance(made, Others):
        raise ValueError(
            f"{who.where('belief')}: must be a law of the others in one cell, such as "
            f'{{ law = "poisson", mu = 2 }}, got ' + as_toml(who.values["belief"])
        )
    return made


def _total_rho(tables: tuple[PublishedTable, ...], unit: PrivacyUnit) -> float:
    """zCDP rho of one unit over every release of all tables with noise of its own."""
    return float(unit_rho([one.noise for each in tables for one in each.single_releases], unit))
