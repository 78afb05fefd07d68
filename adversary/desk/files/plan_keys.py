"""The `[plan]` of a scenario file: levels, their noise, what is done to the numbers afterwards, and repeated releases.

A level that is published several times is several levels of the same people: "block", "block, release 2", ..., with no
siblings between them. The siblings' own counts are published once, with the last of them. So are the other queries of
its unit, "block, TOTAL", which are named in a table `queries` of the level.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from adversary._core import check_whole
from adversary.desk.files.counts_file import load_counts
from adversary.desk.files.keys import Keys
from adversary.privacy.mechanisms import Mechanism, kinds, listable
from adversary.reader.plans import Level, Plan
from adversary.reader.postprocessing import (
    RULES,
    Clamped,
    LeastSquares,
    NonNegative,
    Postprocessing,
    Rounded,
    Suppressed,
    clamped,
    rounded,
    suppressed,
)

NOISES = kinds()
"""Noise a level may have."""
PARAMETERS = tuple(dict.fromkeys(key for law in NOISES.values() for key in law.parameters))
"""What fixes a noise, one at a time."""
OPTIONS = tuple(dict.fromkeys(key for law in NOISES.values() for key in law.options))
MOST_RELEASES = 1000
"""Of one level: every one of them is a level of the plan."""
MOST_NOISE = 100_000
"""Values over which the noise of a file may spread: an audit lists them, many times over and within seconds."""
MOST_SIBLINGS = 5000
"""Of one level, more than the 3,142 counties of the United States: the noise of their sum takes time with each."""
MOST_OPTION = 1000
"""Of categories of randomized response, for instance: every answer is listed for every count."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
PROCESSED = ("clamp", "round", "ties", "suppress")
ADJUSTMENTS = ("least squares", "nonnegative")


def read_plan(table: Keys, neighbours: str) -> Plan:
    """The plan, every key checked."""
    table.only("cells", "level", "postprocessing")
    cells = table.get("cells", int, "1 or 2", 1)
    rows = table.get("level", list, "a list of [[plan.level]] tables, lowest first")
    levels: list[Level] = []
    queries: dict[str, dict[str, Mechanism]] = {}
    for i, row in enumerate(rows):
        part = Keys(row, table.file, f"plan.level[{i + 1}]")
        levels += part.build("", partial(_levels, part, neighbours))
        if part.has("queries"):
            queries[levels[-1].name] = part.build("queries", partial(_queries, part, neighbours))
        part.finish()
    adjusting = _postprocessing(table.table("postprocessing")) if table.has("postprocessing") else None
    table.finish()
    made: Plan = table.build("", partial(Plan, levels, cells, adjusting, neighbours=neighbours, queries=queries))
    return made


def origins(document: Mapping[str, Any]) -> dict[str, str]:
    """The level of the file behind every published one, lowest first."""
    found: dict[str, str] = {}
    for row in document["plan"]["level"]:
        found |= {f"{row['name']}, {query}": row["name"] for query in row.get("queries", ())}
        found |= dict.fromkeys(_published(row["name"], row.get("releases", 1)), row["name"])
    return found


def sequences(document: Mapping[str, Any]) -> dict[str, int]:
    """How often a level is published, for those published more than once."""
    return {row["name"]: row["releases"] for row in document["plan"]["level"] if row.get("releases", 1) > 1}


def _published(name: str, releases: int) -> list[str]:
    return [name] + [f"{name}, release {k}" for k in range(2, releases + 1)]


def check_releases(given: Any) -> int:
    """Number of releases of a level or table, checked.

    Parameters
    ----------
    given : whole number from 1 to `MOST_RELEASES`

    Raises
    ------
    TypeError : not a number
    ValueError : not whole, or out of range

    >>> check_releases(3)
    3
    """
    releases = int(check_whole("releases", given, minimum=1))
    if releases > MOST_RELEASES:
        raise ValueError(f"releases must be at most {MOST_RELEASES:,}, got {releases}")
    return releases


def check_siblings[T: int | None](where: str, siblings: T) -> T:
    """The siblings of a level, or ValueError for too many."""
    if siblings is not None and siblings > MOST_SIBLINGS:
        raise ValueError(f"{where}: must be at most {MOST_SIBLINGS:,}, got {siblings:,}")
    return siblings


def _levels(table: Keys, neighbours: str) -> list[Level]:
    table.only("name", "noise", *PARAMETERS, *OPTIONS, "sensitivity", "siblings", "releases", "queries", *PROCESSED)
    name = table.get("name", str, "text")
    noise = read_noise(table, neighbours)
    mechanism = _processed(table, noise)
    inside = mechanism.mechanism if isinstance(mechanism, Suppressed) else mechanism
    if noise.is_continuous and isinstance(inside, Rounded):
        table.build(next(key for key in PARAMETERS if table.has(key)), partial(_check_rounded, inside))
    siblings = check_siblings(table.where("siblings"), table.get("siblings", int, "a whole number", None))
    releases = check_releases(table.get("releases", int, "a whole number", 1))
    names = _published(name, releases)
    return [Level(each, mechanism, 0) for each in names[:-1]] + [Level(names[-1], mechanism, siblings)]


def _queries(table: Keys, neighbours: str) -> dict[str, Mechanism]:
    """The noise of the other queries of a level's unit, by name."""
    if table.values.get("releases", 1) != 1:
        raise ValueError(f"{table.where('queries')}: must be left out where the level is published several times")
    part, found = table.table("queries"), {}
    for name in part.values:
        one = part.table(name)
        one.only("noise", *PARAMETERS, *OPTIONS, "sensitivity")
        found[name] = one.build("", partial(read_noise, one, neighbours))
        one.finish()
    part.finish()
    return found


def read_noise(table: Keys, neighbours: str) -> Mechanism:
    """The noise of a table with the one parameter that fixes it."""
    noise = table.get("noise", str, f"one of {tuple(NOISES)}", "discrete gaussian")
    if noise not in NOISES:
        raise ValueError(f"noise must be one of {tuple(NOISES)}, got {noise!r}")
    law = NOISES[noise]
    given = [key for key in PARAMETERS if table.has(key)]
    wanted = law.parameters
    if len(given) != (1 if wanted else 0) or (given and given[0] not in wanted):
        raise ValueError(f"{noise} noise takes {' or '.join(wanted) or 'no parameter'}, got {given or 'nothing'}")
    sensitivity = table.measure("sensitivity", 1)
    if not given:
        return law()
    options = {key: table.get(key, int, "a whole number") for key in law.options if table.has(key)}
    for key, number in options.items():
        if number > MOST_OPTION:
            raise ValueError(f"{table.where(key)}: must be at most {MOST_OPTION:,}, got {number:,}")
    if law.columns:
        listed: Mechanism = table.build(given[0], partial(_of_table, law, table, given[0]))
        return listed
    moved = 2 if neighbours == "bounded" else 1
    made = law.from_parameter(given[0], table.measure(given[0]), sensitivity, moved, **options)
    if not made.is_continuous:
        table.build(given[0], lambda: listable(made, int(made.reach()), MOST_NOISE))
    return made


def _of_table(law: type[Mechanism], table: Keys, key: str) -> Mechanism:
    """The noise whose table is a CSV file, beside this file unless its path says otherwise."""
    path = table.file.parent / table.get(key, str, "the path of a CSV file")
    frame, where = load_counts(path)
    missing = [name for name in law.columns if name not in frame.columns]
    if missing:
        raise ValueError(f"{path}: column {missing[0]!r} is missing; there are {', '.join(frame.columns)}")
    columns = []
    for name in law.columns:
        for row, cell in enumerate(frame[name]):
            if not _NUMBER.fullmatch(cell.strip()):
                raise ValueError(f"{path}: {where(row)}: column {name!r}: must be a number, got {cell!r}")
        columns.append(frame[name].astype(float).to_numpy())
    made = law.from_columns(*columns)
    listable(made, int(made.reach()), MOST_NOISE)
    return made


def _check_rounded(mechanism: Rounded) -> None:
    """ValueError where continuous noise is rounded to more numbers than an audit could list."""
    inside, reach = mechanism.mechanism, 2.0 * mechanism.noise.reach()
    if isinstance(inside, Clamped) and inside.lower is not None and inside.upper is not None:
        reach = min(reach, inside.upper - inside.lower)
    listable(mechanism, int(reach / (2 * mechanism.base)), MOST_NOISE)


def _processed(table: Keys, mechanism: Mechanism) -> Mechanism:
    """The noise with what is done to its numbers: first clamped, then rounded, then suppressed where too small."""
    if table.has("clamp"):
        bounds = table.get("clamp", (int, list), "a smallest value, or [smallest, largest]")
        if isinstance(bounds, list) and len(bounds) != 2:
            raise ValueError(f"clamp must be a smallest value, or [smallest, largest], got {bounds!r}")
        mechanism = clamped(mechanism, *(bounds if isinstance(bounds, list) else [bounds]))
    ties = table.one_of("ties", RULES, None)
    if table.has("round"):
        base = table.get("round", int, "a whole number of people, such as 5")
        mechanism = rounded(mechanism, base, ties or RULES[0])
    elif ties is not None:
        raise ValueError(f"ties says how a level is rounded, and needs round, got {ties!r} without it")
    if table.has("suppress"):
        mechanism = suppressed(mechanism, table.get("suppress", int, "the smallest count that is published, such as 5"))
    return mechanism


def _postprocessing(table: Keys) -> Postprocessing:
    kind = table.one_of("kind", ADJUSTMENTS)
    keys = ("kind", "rounding", *(("own_weight", "sibling_weight") if kind == ADJUSTMENTS[0] else ()))
    table.only(*keys)
    rounding = table.one_of("rounding", RULES, RULES[0])
    if kind == ADJUSTMENTS[1]:
        return NonNegative(rounding)
    weights = [table.number(key, 1) for key in keys[2:]]
    made: Postprocessing = table.build("", partial(LeastSquares, rounding, *weights))
    return made
