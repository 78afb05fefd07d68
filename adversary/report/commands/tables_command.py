"""`adversary tables` and `plan`: risks of people in several tables of a file, and noise that satisfies a profile."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr

from adversary._core import DEFAULT_FAILURE
from adversary.adversaries.tables import Population, PublishedTable, TableAdversary
from adversary.driver.columns import counts_of_other_file, largest_household, population, resolve_tables
from adversary.privacy.mechanisms import DiscreteGaussian, Geometric, Mechanism, listable
from adversary.report.answers import tables_answer
from adversary.report.commands.options import SEED, answering, number
from adversary.report.files import TablesFile, load_profile_file, load_table_data, load_tables_file, parse_table
from adversary.report.kit import Answer

# Added to last year's counts as expected ones: a cell that was empty may have somebody in it now.
EXPECTED = 0.5

# Exit code of `--check` if the noise does not satisfy the profile.
CHECK_FAILED = 3
File = Annotated[
    Path,
    typer.Argument(
        help="People or counts (CSV, Excel, Parquet, Stata, SPSS), or a TOML file that names them and the tables.",
        metavar="FILE",
    ),
]
Specs = Annotated[
    list[str] | None,
    typer.Option(
        "--table", help='A table: "district: age x sex, rho 0.3"; may be repeated.', metavar="PLACE: FEATURES, NOISE"
    ),
]
LevelNames = Annotated[
    str | None,
    typer.Option(
        "--levels", help="In place of --table: the same cells at each of these places, finest first.", metavar="A,B,C"
    ),
]
Places = Annotated[str | None, typer.Option(help="Columns that name places.", metavar="A,B")]
Features = Annotated[str | None, typer.Option(help="Columns that are features.", metavar="A,B")]
Sheet = Annotated[str | None, typer.Option(help="Sheet of an Excel file with several.", metavar="NAME")]
Counts = Annotated[str | None, typer.Option(help="Columns of counts.", metavar="A,B")]
LeaveOut = Annotated[
    list[str] | None,
    typer.Option(help='Columns to leave out, or rows: "sex=Total"; may be repeated.', metavar="COLUMN"),
]
Certain = Annotated[
    list[str] | None,
    typer.Option(
        help="A column that would be refused as a code, a year or a total; may be repeated.", metavar="COLUMN"
    ),
]
Decimal = Annotated[str | None, typer.Option(help='The decimal mark, "." or ",", where 1.204 leaves it open.')]
Below = Annotated[
    int | None, typer.Option(help='Smallest count that is not suppressed, for cells such as "x".', metavar="N")
]
People = Annotated[bool, typer.Option("--people", help="Each row is a person, where the columns leave it open.")]
Suppressed = Annotated[
    str, typer.Option(help='Suppressed cells: "draw" what they may be, or "leave out".', metavar="HOW")
]


@answering("file")
def tables_command(
    file: File,
    table: Specs = None,
    levels: LevelNames = None,
    rho: Annotated[
        str | None,
        typer.Option(
            help="With --levels: total rho, split evenly over them, or one of each: 0.05,0.03. Discrete Gaussian.",
            metavar="NUMBERS",
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="With --levels: total epsilon, split evenly over them, or one of each: 0.5,0.3. Geometric.",
            metavar="NUMBERS",
        ),
    ] = None,
    prior: Annotated[
        float | None, typer.Option(help="The adversary's prior, such as 0.1.", metavar="P", show_default="0.5")
    ] = None,
    knows: Annotated[
        str | None,
        typer.Option(help='Of others: those in the same "cell", "everybody" or "nobody".', show_default="cell"),
    ] = None,
    places: Places = None,
    features: Features = None,
    counts: Counts = None,
    people: People = False,
    leave_out: LeaveOut = None,
    yes_these_are_counts: Certain = None,
    decimal: Decimal = None,
    suppressed_below: Below = None,
    suppressed: Suppressed = "draw",
    sheet: Sheet = None,
    profile: Annotated[
        Path | None, typer.Option(help="Profile file (TOML) to judge the noise by.", metavar="PROFILE.toml")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with code 3 unless the profile is kept.")] = False,
    before: Annotated[
        Path | None,
        typer.Option(
            help="The file before, of which the same tables were published, with fresh noise.", metavar="FILE"
        ),
    ] = None,
    failure: Annotated[
        float | None,
        typer.Option(help="Probability with which a bound that is not certain may fail.", show_default="0.05"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of simulated releases.")] = SEED,
) -> Answer:
    """Who is most at risk in several tables of one file, person by person."""
    given = _reading(
        places, features, counts, people, leave_out, yes_these_are_counts, decimal, suppressed_below, suppressed
    )
    if file.suffix.lower() == ".toml":
        if table or levels:
            raise ValueError(f"{file}: the file says which tables there are: leave out --table and --levels")
        read = load_tables_file(file)
        read = replace(read, sheet=sheet or read.sheet, household=read.household if knows is None else "")
        data, solve, who, tolerated = read.data, partial(solve_file, read, given), read.adversary, read.profile
        chance, specs = read.failure, list(read.tables)
    else:
        data, who, tolerated, chance = file, TableAdversary(), None, DEFAULT_FAILURE
        specs = _specs(file, table, levels, rho, epsilon, sheet)
        persons, tables = _read(data, specs, levels, given, sheet)
        solve = partial(tables_answer.solve, file.stem, persons, tables)
    who = replace(who, prior=who.prior if prior is None else prior, knows=who.knows if knows is None else knows)
    judged: dict[str, Any] = {}
    if profile is not None:
        tolerated, kept_how = _profile(profile)
        chance = min(chance, kept_how["failure"])
        judged = {"statistic": kept_how["statistic"], "again": kept_how["releases"]}
    if check and tolerated is None:
        raise ValueError("--check needs --profile, the risk that is tolerated")
    if before is not None:
        judged["before"] = _read_beside(before, specs, levels, given)
    tree = solve(who, profile=tolerated, failure=chance if failure is None else failure, rng=seed, **judged)
    satisfied = not check or bool(tree.attrs["profile_kept"])
    workbook = data.suffix.lower() in (".xlsx", ".xls")
    problem = "" if satisfied else "the noise does not keep the risk profile"
    return Answer(tree, partial(tables_answer.document, workbook=workbook), 0 if satisfied else CHECK_FAILED, problem)


def solve_file(read: TablesFile, given: dict[str, Any], who: TableAdversary, **how: Any) -> xr.DataTree:
    """Tree of the answer to a file of several tables.

    Parameters
    ----------
    read : the file
    given : options for the columns of its data, in place of the file's
    who : the adversary
    **how : arguments of `tables_answer.solve`
    """
    if read.guarantees and len(read.guarantees) > 1:
        raise ValueError(f"{read.path}: guarantee: must state one definition, got {', '.join(read.guarantees)}")
    guarantee = next(iter(read.guarantees.values())) if read.guarantees else None
    options = read.options | given
    frame, where = load_table_data(_there(read.path, "data.file", read.data), sheet=read.sheet)
    persons = population(frame, read.tables, **options, where=where)
    tables = resolve_tables(read.tables, persons)
    if read.household:
        reading = {name: value for name, value in options.items() if name != "people"}
        known = largest_household(frame, read.tables, persons, read.household, **reading, where=where)
        who = replace(who, knows="nobody", at_least=known)
    if read.last_year is not None:
        before = _read_beside(_there(read.path, "adversary.last_year", read.last_year), list(read.tables), None, {})
        who = replace(who, belief=counts_of_other_file(persons, before, str(read.last_year)) + EXPECTED)
    title = read.title or read.path.stem
    return tables_answer.solve(title, persons, tables, who, guarantee=guarantee, unit=read.unit, **how)


@answering("file")
def plan_command(
    file: File,
    profile: Annotated[Path, typer.Option(help="Profile file (TOML) with the tolerated risk.", metavar="PROFILE.toml")],
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            help='A table without noise: "district: age x sex", or with a weight: "..., weight 2".',
            metavar="PLACE: FEATURES",
        ),
    ] = None,
    levels: LevelNames = None,
    places: Places = None,
    features: Features = None,
    counts: Counts = None,
    people: People = False,
    leave_out: LeaveOut = None,
    yes_these_are_counts: Certain = None,
    decimal: Decimal = None,
    suppressed_below: Below = None,
    suppressed: Suppressed = "draw",
    sheet: Sheet = None,
) -> Answer:
    """The noise of several tables that keeps a tolerated risk with the least error."""
    tolerated, how = _profile(profile)
    given = _reading(
        places, features, counts, people, leave_out, yes_these_are_counts, decimal, suppressed_below, suppressed
    )
    texts, weights = [], []
    for one in table or ():
        text, *clauses = [part.strip() for part in one.split(",")]
        given_weight = [part for part in clauses if part.split()[:1] == ["weight"]]
        if len(clauses) != len(given_weight) or len(clauses) > 1:
            raise ValueError(
                f'--table {one!r}: plan chooses the noise: after a comma, one weight alone, such as ", weight 2"'
            )
        texts.append(text)
        weights.append(number("--table: weight", clauses[0].removeprefix("weight")) if clauses else 1.0)
    if not texts and not levels:
        raise ValueError(
            f'give the tables to plan, such as --table "district: age x sex", or --levels: {file} has the columns '
            f"{_columns(file, sheet)}"
        )
    specs = _specs(file, [f"{one}, rho 1" for one in texts], levels, "1" if levels else None, None)
    persons, tables = _read(file, specs, levels, given, sheet)
    weight_of = dict(zip([one.name for one in tables], weights, strict=True)) if texts else None
    by = {one.name: one.by for one in tables}
    tree = tables_answer.solve_plan(file.stem, persons, by, tolerated, weights=weight_of, **how)
    specifications = [f"--table {shlex.quote(f'{one}, rho ')[:-1]}RHO'" for one in texts]
    spec = " ".join(specifications) if texts else f"--levels {levels} --rho {','.join(['RHO'] * len(by))}"
    rest = " --people" * people + _repeated(
        places=places, features=features, counts=counts, leave_out=leave_out,
        yes_these_are_counts=yes_these_are_counts, decimal=decimal,
        suppressed_below=None if suppressed_below is None else str(suppressed_below),
        suppressed=None if suppressed == "draw" else suppressed, sheet=sheet,
    )  # fmt: skip
    command = f"adversary tables {file} {spec}{rest}"
    return Answer(tree, partial(tables_answer.plan_document, command))


def _repeated(**options: Any) -> str:
    """Options as on the command line, from their values; options without a value are left out."""
    parts = [
        (name, one)
        for name, value in options.items()
        if value
        for one in ([value] if isinstance(value, str) else value)
    ]
    return "".join(f" --{name.replace('_', '-')} {shlex.quote(one)}" for name, one in parts)


def _reading(
    places: str | None,
    features: str | None,
    counts: str | None,
    people: bool,
    leave_out: list[str] | None,
    certain: list[str] | None,
    decimal: str | None,
    below: int | None,
    suppressed: str,
) -> dict[str, Any]:
    """Arguments of `population` from the options of a command, without those that are not given."""
    given = {
        "places": _names(places), "features": _names(features), "counts": _names(counts),
        "people": people, "leave_out": leave_out, "yes_these_are_counts": certain,
        "decimal": decimal, "suppressed_below": below, "suppressed": suppressed if suppressed != "draw" else None,
    }  # fmt: skip
    return {name: value for name, value in given.items() if value is not None and value is not False and value != []}


def _specs(
    file: Path,
    table: Sequence[str] | None,
    levels: str | None,
    rho: str | None,
    epsilon: str | None,
    sheet: str | None = None,
) -> list[PublishedTable]:
    """Published tables of `--table`, or of `--levels` with their budgets: one place each, without features yet."""
    if table:
        if levels or rho is not None or epsilon is not None:
            raise ValueError("--table names the noise of its table: leave out --levels, --rho and --epsilon")
        return [parse_table(one, file.parent) for one in table]
    if not levels:
        raise ValueError(
            f'give the tables that are published, such as --table "district: age x sex, rho 0.3", or --levels with '
            f"--rho: {file} has the columns {_columns(file, sheet)}"
        )
    if (rho is None) == (epsilon is None):
        raise ValueError("--rho or --epsilon must be given, and not both")
    option, text = ("--rho", rho) if rho is not None else ("--epsilon", str(epsilon))
    law: Callable[[float], Mechanism] = Geometric if rho is None else DiscreteGaussian.from_rho
    names = _names(levels)
    budgets = _level_budgets(text, option, names)
    return [PublishedTable((name,), _noise(option, law, x), name) for name, x in zip(names, budgets, strict=True)]


def _columns(file: Path, sheet: str | None) -> str:
    """Names of a file's columns, for a message."""
    frame, _ = load_table_data(file, sheet=sheet)
    return ", ".join(map(str, frame.columns))


def _read(
    data: Path, specs: list[PublishedTable], levels: str | None, given: dict[str, Any], sheet: str | None = None
) -> tuple[Population, list[PublishedTable]]:
    """(population of a file, its tables); tables of `--levels` get all columns that are no places as features."""
    frame, where = load_table_data(data, sheet=sheet)
    if levels:
        chosen = _names(levels)
        if "all" in {name.casefold() for name in chosen} - {str(name).casefold() for name in frame.columns}:
            raise ValueError(
                f"{data}: --levels: the whole file, all, is no column: give every table by itself, --table "
                f'"PLACE: FEATURES, rho 0.1" and --table "all: FEATURES, rho 0.1"'
            )
        people = population(frame, **{"places": chosen} | given, where=where)
        inner = {name for axis in people.axes if set(chosen) & set(axis.columns) for name in axis.columns}
        features = tuple(name for name in people.columns if name not in inner)
        specs = [replace(one, by=(*one.by, *features)) for one in specs]
    else:
        people = population(frame, specs, **given, where=where)
    return people, resolve_tables(specs, people)


def _read_beside(data: Path, specs: list[PublishedTable], levels: str | None, given: dict[str, Any]) -> Population:
    """Population of a second file; errors of its contents begin with its name."""
    try:
        return _read(data, specs, levels, given)[0]
    except ValueError as error:
        raise ValueError(f"{data}: {str(error).removeprefix(f'{data}: ')}") from None


def _there(file: Path, key: str, path: Path) -> Path:
    """Path given by a key of a file; ValueError if there is no such file."""
    if not path.is_file():
        raise ValueError(f"{file}: {key}: must be a file, by its path from this file's: there is no file {path}")
    return path


def _profile(path: Path) -> tuple[Any, dict[str, Any]]:
    """(the only profile of a file, its failure probability, statistic and number of releases)."""
    file = load_profile_file(path)
    if len(file.profiles) != 1:
        raise ValueError(f"{path}: must have one profile, got {', '.join(file.profiles)}")
    how = {"failure": file.failure, "statistic": file.statistic, "releases": file.releases or 1}
    return next(iter(file.profiles.values())), how


def _level_budgets(text: str, option: str, levels: Sequence[str]) -> list[float]:
    """Budget of each level, from a text: one number is split evenly over them, several are theirs in order."""
    given = [number(option, one) for one in text.split(",")]
    if len(given) not in (1, len(levels)):
        raise ValueError(f"{option} must be one number, or one for each of {len(levels)} levels, got {len(given)}")
    if min(given) <= 0.0:
        raise ValueError(f"{option} must be positive, such as 0.1, or 0.1,0.2 for two levels, got {text}")
    return [given[0] / len(levels)] * len(levels) if len(given) == 1 else given


def _noise(option: str, law: Callable[[float], Mechanism], budget: float) -> Mechanism:
    """Mechanism with a budget; ValueError names the option."""
    try:
        made = law(budget)
        listable(made, int(made.tail_radius()))
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    return made


def _names(text: str | None) -> list[str]:
    """Names separated by commas."""
    return [] if text is None else [name.strip() for name in text.split(",") if name.strip()]
