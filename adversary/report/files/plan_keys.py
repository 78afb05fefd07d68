"""Table `[plan]` of a scenario file: levels, their noise, post-processing, and repeated releases.

A level that is published several times becomes several levels of the same people: "block", "block, release 2", ...,
with no siblings between them; if its answer is memoised, one. The siblings' own counts are published once, with the
last of them. So are the other queries of its unit, "block, TOTAL", which a table `queries` of the level names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from adversary._core import check_whole, closest_name, quoted
from adversary.adversaries import postprocessing
from adversary.adversaries.plans import COUNTS, PUBLISHED, Level, Plan
from adversary.privacy import PrivacyUnit
from adversary.privacy.mechanisms import ENDS, Mechanism, PerturbationTable, RangedNoise, kinds, listable
from adversary.report.files.keys import Key, Keys
from adversary.report.files.tables.table_data import load_table_data
from adversary.report.files.toml_text import as_toml

# Mechanisms that a level may have, by name.
NOISES = kinds()

# Parameters of all mechanisms: a level has exactly one, and its mechanism follows.
PARAMETERS = tuple(dict.fromkeys(key for law in NOISES.values() for key in law.parameters))

# Further keys of mechanisms, with their kinds.
OPTIONS = {key: kind for law in NOISES.values() for key, kind in law.options.items()}

# Releases of one level: every one of them is a level of the plan.
MOST_RELEASES = 1000

# Values over which the noise of a file may spread, and counts that may be behind one number that was clamped or
# suppressed: an audit lists them, many times over and within seconds.
MOST_NOISE, MOST_BELOW = 100_000, 10_000

# Largest count of noise within a range: every pair of counts is listed.
MOST_LARGEST = 1000

# Siblings of one level, more than the 3,142 counties of the United States: if discrete Gaussian noise is narrow (rho
# from about 0.2) the distribution of their sum takes time with the square of their number, 24 s for 5,000; and a page
# goes over ten times the budget, at which wide noise is narrow too.
MOST_SIBLINGS = 5000

# Size of an option, such as the categories of randomized response: every answer is listed, for every possible count.
MOST_OPTION = 10_000
PASSES = (">=", ">")
ADJUSTMENTS = ("least squares", "nonnegative")

NOISE = {
    "noise": Key("word", "distribution of the noise", "discrete gaussian", tuple(NOISES)),
    "rho": Key("number", "zCDP of one count: a number, or a product of fractions", None, example='"1/10"'),
    "sigma": Key("number", "its parameter instead: of Gaussian noise", None, example="2.0"),
    "epsilon": Key("number", "of geometric noise, Laplace noise or randomized response", None, example="1.0"),
    "scale": Key("number", "of Laplace noise", None, example="1.0"),
    "categories": Key("whole", "answers of randomized response", None, example="2"),
    "closed": Key("flag", "the last row of a perturbation table is that of the last possible count", False),
    "local": Key("flag", "of a table or a range: what is perturbed is one unit's own answer", False),
    "table": Key("any", "a perturbation table as the office wrote it, a CSV file", None, example='"ptable.csv"'),
    "transitions": Key("any", "one whose columns are published counts", None, example='"ptable.csv"'),
    "V": Key("number", "variance of the perturbation table of largest entropy", None, example="1.05"),
    "D": Key("whole", "its largest perturbation", None, example="2"),
    "js": Key("whole", "it releases no count from 1 to this", None, example="1"),
    "largest": Key("whole", "the largest possible count, within which noise stays", None, example="4"),
    "ends": Key("word", "how it stays between 0 and that", None, ENDS),
    "stay": Key("real", "chance that a 1 of unary encoding is reported as 1", None, example="0.75"),
    "rise": Key("real", "chance that a 0 of it is reported as 1", None, example="0.25"),
    "ones": Key("whole", "bits of it that one of two answers sets and the other does not", None, example="1"),
    "permanent": Key("real", "chance that a bit of it is first replaced by a coin, f of RAPPOR", None, example="0.5"),
    "optimised": Key("flag", "its epsilon is spent with stay = 1/2", False),
    "sensitivity": Key("number", "by how much one privacy unit changes the count: its contribution unless given", None,
                       example="1"),
}  # fmt: skip
NOISE |= {name: Key("any", "parameter of a noise", None, example='"..."') for name in PARAMETERS if name not in NOISE}
LEVEL = {
    "name": Key("text", "what its units are called"),
    **NOISE,
    "siblings": Key("whole", "other units of the same parent; not of the highest level", None),
    "clamp": Key("any", "smallest value that is published, or [smallest, largest]", None, example="0"),
    "round": Key("whole", "base to which it is rounded", None, example="5"),
    "ties": Key("word", "how ties are rounded", None, postprocessing.RULES),
    "suppress": Key(
        "any", "smallest count that is published, or [first, last] of the counts that are not", None, example="5"
    ),
    "threshold": Key("whole", "noisy count from which a key exists; one that nobody has does not", None, example="6"),
    "passes": Key("word", "whether a noisy count equal to it passes", None, PASSES),
    "releases": Key("whole", "how often the count is published, each time with fresh noise", 1),
    "memoised": Key("flag", "the releases repeat one noisy answer, with fresh noise on top at most", False),
    "queries": Key(
        "open", "noise of other queries of its unit, by name", None, keys={"*": Key("table", "", keys=NOISE)}
    ),
}
ADJUSTMENT = {
    "kind": Key("word", "how the counts are made to add up", words=ADJUSTMENTS),
    "rounding": Key("word", "how ties are rounded", postprocessing.RULES[0], postprocessing.RULES),
    "own_weight": Key("number", "of the unit's own square, in least squares", 1),
    "sibling_weight": Key("number", "of each sibling's square", 1),
}
PLAN = {
    "cells": Key("whole", "published cells in which the adversary's hypotheses differ", 1, rule="1 or 2", live=True),
    "published": Key("word", "what is published of the noisy counts, which are audited", COUNTS, PUBLISHED),
    "postprocessing": Key("table", "what makes a level and its siblings add up", None, keys=ADJUSTMENT),
    "level": Key(
        "rows", "what is published, the lowest level first", keys=LEVEL,
        example=[{"name": '"block"', "rho": '"1/10"', "siblings": "3"}, {"name": '"tract"', "rho": "0.2"}],
    ),
}  # fmt: skip


def read_plan(table: Keys, unit: PrivacyUnit) -> Plan:
    """Plan of a table `[plan]`, every key checked; `unit` is the privacy unit of the file."""
    cells = table["cells"]
    rows = table.get("level", list, "a list of [[plan.level]] tables, lowest first")
    levels: list[Level] = []
    queries: dict[str, dict[str, Mechanism]] = {}
    for i, row in enumerate(rows):
        part = Keys(row, table.file, f"plan.level[{i + 1}]", LEVEL)
        levels += part.build("", partial(_levels, part, unit))
        if part.has("queries"):
            queries[levels[-1].name] = part.build("queries", partial(_queries, part, unit))
    adjusting = _postprocessing(table.table("postprocessing")) if table.has("postprocessing") else None
    published: dict[str, Any] = {"queries": queries, "privacy_unit": unit, "published": table["published"]}
    made: Plan = table.build("", partial(Plan, levels, cells, adjusting, **published))
    return made


def origins(document: Mapping[str, Any]) -> dict[str, str]:
    """Level of the file behind every level of the plan, lowest first."""
    origin: dict[str, str] = {}
    for row in document["plan"]["level"]:
        origin |= {f"{row['name']}, {query}": row["name"] for query in row.get("queries", ())}
        origin |= dict.fromkeys(_published_levels(row["name"], _releases(row)), row["name"])
    return origin


def sequences(document: Mapping[str, Any]) -> dict[str, int]:
    """Number of releases of each level that is published more than once, by level."""
    return {row["name"]: row["releases"] for row in document["plan"]["level"] if _releases(row) > 1}


def _releases(row: Mapping[str, Any]) -> int:
    """Number of times a level enters the plan: once if its releases are memoised."""
    return 1 if row.get("memoised", False) else int(row.get("releases", 1))


def _published_levels(name: str, releases: int) -> list[str]:
    """Names of the levels of a plan that a level of the file becomes."""
    return [name] + [f"{name}, release {k}" for k in range(2, releases + 1)]


def check_releases(given: Any) -> int:
    """Number of releases of a level or table, after a check of its range.

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
    """Number of siblings of a level; ValueError for more than `MOST_SIBLINGS`."""
    if siblings is not None and siblings > MOST_SIBLINGS:
        raise ValueError(
            f"{where}: must be at most {MOST_SIBLINGS:,}, got {siblings:,}: the law of the sum of their noise takes "
            "time with the square of their number where the noise is narrow, as wide noise is at larger budgets. In "
            "Python, adversary.Plan takes any number"
        )
    return siblings


def _levels(table: Keys, unit: PrivacyUnit) -> list[Level]:
    """Levels of the plan that a level of the file becomes, one for each release."""
    name = table.get("name", str, "text")
    noise, releases = read_noise(table, unit), check_releases(table["releases"])
    if table["memoised"]:
        noise, releases = noise.memoised(releases), 1
    mechanism = processed(table, noise)
    siblings = check_siblings(table.where("siblings"), table["siblings"])
    if releases > 1 and unit.periods > 1:
        raise ValueError(
            f"{table.where('releases')}: must be left out where privacy_unit.periods is {unit.periods}, as each period "
            f"has one release of every level, got {releases}"
        )
    names = _published_levels(name, releases)
    return [Level(each, mechanism, 0) for each in names[:-1]] + [Level(names[-1], mechanism, siblings)]


def _queries(table: Keys, unit: PrivacyUnit) -> dict[str, Mechanism]:
    """Mechanisms of the other queries of a level's unit, by name."""
    if table.values.get("releases", 1) != 1:
        raise ValueError(f"{table.where('queries')}: must be left out where the level is published several times")
    part, noises = table.table("queries"), {}
    for name in part.values:
        one = Keys(part.get(name, dict, "a table"), table.file, f"{part.key}.{name}", NOISE)
        noises[name] = one.build("", partial(read_noise, one, unit))
    return noises


def read_noise(table: Keys, unit: PrivacyUnit) -> Mechanism:
    """Mechanism of a table with noise and its one parameter; within a range if `largest` is given."""
    ends = table.one_of("ends", ENDS, None)
    if not table.has("largest"):
        if ends is not None:
            raise ValueError(f"ends says how noise stays within a range, and needs largest, got {ends!r} without it")
        return _free_noise(table, unit)
    largest = table.get("largest", int, "the largest possible count, such as 4")
    if largest > MOST_LARGEST:
        raise ValueError(f"{table.where('largest')}: must be at most {MOST_LARGEST:,}, got {largest:,}")
    local = table.has("local") and table.get("local", bool, "true or false")
    noise, ends = _free_noise(table, unit), ends or ENDS[0]
    if noise.is_continuous:
        return RangedNoise(noise, largest, ends, local)
    made: Mechanism = PerturbationTable.on_range(noise, largest, ends, local=local)
    return made


def _free_noise(table: Keys, unit: PrivacyUnit) -> Mechanism:
    """Mechanism of a table with noise and its one parameter, without a range."""
    noise = table.get("noise", str, f"one of {quoted(NOISES)}", "discrete gaussian")
    if noise not in NOISES:
        raise ValueError(f"noise must be one of {quoted(NOISES)}, got {noise!r}{closest_name(noise, NOISES)}")
    law = NOISES[noise]
    given = [key for key in PARAMETERS if table.has(key)]
    wanted = law.parameters
    if len(given) != (1 if wanted else 0) or (given and given[0] not in wanted):
        others = [f'noise = "{name}"' for name, one in NOISES.items() if len(given) == 1 and given[0] in one.parameters]
        hint = f"; {given[0]} is for {', '.join(others)}" if others and not {*given} & {*wanted} else ""
        takes = f"one of {', '.join(wanted)}" if len(wanted) > 1 else "".join(wanted) or "no parameter"
        raise ValueError(f"{noise} noise takes {takes}, got {', '.join(given) or 'nothing'}{hint}")
    sensitivity = table.measure("sensitivity", unit.contribution or 1)
    if not given:
        return law()
    ranged = ("local",) if table.has("largest") else ()
    options = {key: _option(table, key, kind) for key, kind in OPTIONS.items() if table.has(key) and key not in ranged}
    if others := [key for key in options if key not in law.options]:
        fits = [f'noise = "{name}"' for name, one in NOISES.items() if others[0] in one.options]
        raise ValueError(f"{table.where(others[0])}: must be left out of {noise} noise; it is for {', '.join(fits)}")
    if given[0] in law.tables:
        listed: Mechanism = table.build(given[0], partial(_of_table, law, table, given[0], options))
        return listed
    own = getattr(law, "is_local", None) is True or ("local" in ranged and table.has("local") and table["local"])
    cells = unit.cells if own else unit.changed_cells
    made = law.from_parameter(given[0], table.measure(given[0]), sensitivity, cells, **options)
    if not made.is_continuous:
        table.build(given[0], lambda: listable(made, int(made.tail_radius()), MOST_NOISE))
    return made


def _option(table: Keys, key: str, kind: str) -> Any:
    """Option of a noise besides its main parameter: a whole number, a real one, or true or false."""
    if kind == "flag":
        return table.get(key, bool, "true or false")
    number = table.get(key, int, "a whole number") if kind == "whole" else float(table.number(key))
    if number > MOST_OPTION:
        raise ValueError(f"{table.where(key)}: must be at most {MOST_OPTION:,}, got {number:,}")
    return number


def _of_table(law: type[Mechanism], table: Keys, key: str, options: Mapping[str, Any]) -> Mechanism:
    """Mechanism defined by a table in a CSV file; ValueError if it has too many values to list."""
    path = table.path_of(key)
    made = _from_csv(law, path, key, options)
    listable(made, int(made.tail_radius()), MOST_NOISE)
    return made


def _from_csv(law: type[Mechanism], path: Path, key: str, options: Mapping[str, Any]) -> Mechanism:
    """Mechanism defined by a table in a CSV file; errors name the file."""
    try:
        frame, place = load_table_data(path)
        if not frame.columns.is_unique:
            raise ValueError(f"columns must have different names, got {', '.join(frame.columns)}")
        decimal_comma = frame.attrs.get("separator") == ";"
        frame = frame.astype(str)
        return law.from_table(key, frame.map(_with_point) if decimal_comma else frame, place, **options)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _with_point(cell: str) -> str:
    """Number with a decimal point in place of a comma."""
    return cell.replace(",", ".")


def load_perturbation_table(path: str | Path, *, closed: bool = False, local: bool = False) -> PerturbationTable:
    """Read a perturbation table in the layout of a statistical office or its software.

    Parameters
    ----------
    path : CSV, or text separated by semicolons, with the columns count, release, probability; i, j, p of the R package
        ptable, its files for tau-ARGUS among them; pcv, ckey, pvalue of the ONS; or a matrix, a row for each count and
        a column for each published count or each perturbation
    closed : the last row is that of the last possible count
    local : the count is one unit's own answer

    Returns
    -------
    PerturbationTable; its `layout` says how the columns were understood.

    Raises
    ------
    OSError : the file cannot be read
    ValueError : another layout, a cell that is no number, probabilities that do not add up to 1, or a matrix whose
        columns may be either; the message names file, line, column, rule, value and remedy
    """
    made = _from_csv(PerturbationTable, Path(path), "table", {"closed": closed, "local": local})
    assert isinstance(made, PerturbationTable)
    return made


def _check_rounded(mechanism: postprocessing.Rounded) -> None:
    """ValueError if continuous noise is rounded to more numbers than an audit could list."""
    inside, width = mechanism.mechanism, 2.0 * mechanism.noise.tail_radius()
    if isinstance(inside, postprocessing.Clamped) and inside.lower is not None and inside.upper is not None:
        width = min(width, inside.upper - inside.lower)
    listable(mechanism, int(width / (2 * mechanism.base)), MOST_NOISE)


def processed(table: Keys, noise: Mechanism) -> Mechanism:
    """Mechanism with the post-processing that a table describes: clamping, then rounding, then suppression.

    The key `threshold`, the noisy count from which a key of the data is published at all, excludes these three.
    """
    mechanism = _postprocess(table, noise)
    inside = mechanism.mechanism if isinstance(mechanism, postprocessing.Suppressed) else mechanism
    if noise.is_continuous and isinstance(inside, postprocessing.Rounded):
        table.build(next(key for key in PARAMETERS if table.has(key)), partial(_check_rounded, inside))
    return mechanism


def _postprocess(table: Keys, mechanism: Mechanism) -> Mechanism:
    """Mechanism with post-processing, before the check of its number of values."""
    if table.has("clamp"):
        bounds = table.get("clamp", (int, list), "a smallest value, or [smallest, largest]")
        if isinstance(bounds, list) and len(bounds) != 2:
            raise ValueError(f"clamp must be a smallest value, or [smallest, largest], got {as_toml(bounds)}")
        least, *most = bounds if isinstance(bounds, list) else [bounds]
        mechanism = postprocessing.clamped(mechanism, _check_smallest("clamp", least), *most)
    ties = table.one_of("ties", postprocessing.RULES, None)
    if table.has("round"):
        base = table.get("round", int, "a whole number of people, such as 5")
        mechanism = postprocessing.rounded(mechanism, base, ties or postprocessing.RULES[0])
    elif ties is not None:
        raise ValueError(f"ties says how a level is rounded, and needs round, got {ties!r} without it")
    passes = table.one_of("passes", PASSES, None)
    if table.has("threshold"):
        least = _check_smallest("threshold", table.get("threshold", int, "a whole noisy count, such as 6"))
        if others := [key for key in ("clamp", "round", "suppress") if table.has(key)]:
            raise ValueError(f"{others[0]} must be left out where a threshold decides whether a key exists")
        mechanism = postprocessing.selected(mechanism, least, strict=passes == PASSES[1])
    elif passes is not None:
        raise ValueError(f"passes says which counts pass a threshold, and needs threshold, got {passes!r} without it")
    if table.has("suppress"):
        given = table.get("suppress", (int, list), "the smallest count that is published, such as 5, or [first, last]")
        if isinstance(given, list):
            if len(given) != 2:
                raise ValueError(
                    f"suppress must be the smallest count that is published, or [first, last], got {as_toml(given)}"
                )
            least, last = (check_whole("suppress", one) for one in given)
            mechanism = postprocessing.suppressed(mechanism, _check_smallest("suppress", int(last) + 1), int(least))
        else:
            mechanism = postprocessing.suppressed(mechanism, _check_smallest("suppress", given))
    return mechanism


def _check_smallest(key: str, least: Any) -> Any:
    """Smallest published number; ValueError if it hides more counts below it than an audit could list."""
    if isinstance(least, int) and least > MOST_BELOW:
        raise ValueError(f"{key} must publish numbers from {MOST_BELOW:,} on at the latest, got {least:,}")
    return least


def _postprocessing(table: Keys) -> postprocessing.Postprocessing:
    """Post-processing that makes a level and its siblings add up, of a table `[plan.postprocessing]`."""
    kind = table["kind"]
    keys = ("kind", "rounding", *(("own_weight", "sibling_weight") if kind == ADJUSTMENTS[0] else ()))
    table.only(*keys)
    rounding = table["rounding"]
    if kind == ADJUSTMENTS[1]:
        return postprocessing.NonNegative(rounding)
    weights = [table.number(key, 1) for key in keys[2:]]
    made: postprocessing.Postprocessing = table.build("", partial(postprocessing.LeastSquares, rounding, *weights))
    return made
