"""What is wrong with a Noisy Measurement File is told with file, geocode and query, by reader, check and run."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adversary import nmf
from adversary.census.nmf import check
from tests import commands

Columns = dict[str, Any]
Change = Callable[[Columns, int], Columns]
PERSONS = "US_Person_PL_PROD"


@pytest.fixture
def file(published: tuple[Path, Any], tmp_path: Path) -> Path:
    """A copy of persons of two states, to be damaged."""
    return Path(shutil.copytree(published[0] / PERSONS, tmp_path / PERSONS))


def part(file: Path, level: str = "Block", kind: str = "DPQuery", state: str = "State=004") -> Path:
    """The one Parquet file of a level, a kind and a part of a state."""
    (found,) = (file / f"{level}.parquet" / kind / state).glob("*.parquet")
    return Path(found)


def rewritten(path: Path, query: str, change: Change) -> str:
    """A Parquet file with other columns; `change` has them as lists, and the first row of a query. Its geocode."""
    table = pq.ParquetFile(path).read()
    types = {name: table.schema.field(name).type for name in table.schema.names}
    columns = {name: table[name].to_pylist() for name in types}
    row = columns["query_name"].index(query)
    code = str(columns["geocode"][row])
    changed = change({name: list(values) for name, values in columns.items()}, row)
    arrays = [
        values if isinstance(values, pa.Array) else pa.array(values, types.get(name))
        for name, values in changed.items()
    ]
    pq.write_table(pa.table(arrays, names=list(changed)), path)
    return code


def put(name: str, value: Any) -> Change:
    """The row has another value in a column."""

    def change(columns: Columns, row: int) -> Columns:
        columns[name][row] = value
        return columns

    return change


def whole_column(name: str, values: Callable[[list[Any]], Any]) -> Change:
    """A column has other values."""
    return lambda columns, row: columns | {name: values(columns[name])}


def twice(columns: Columns, row: int) -> Columns:
    """The row is there twice."""
    return {name: [*values, values[row]] for name, values in columns.items()}


def without(name: str) -> Change:
    """A column is absent."""
    return lambda columns, row: {key: values for key, values in columns.items() if key != name}


def code_with(change: Callable[[str], str]) -> Change:
    """The row has another geocode."""

    def made(columns: Columns, row: int) -> Columns:
        columns["geocode"][row] = change(columns["geocode"][row])
        return columns

    return made


def moved(change: Callable[[str], str]) -> Change:
    """All rows of the first unit have another geocode."""

    def made(columns: Columns, row: int) -> Columns:
        old = columns["geocode"][row]
        columns["geocode"] = [change(code) if code == old else code for code in columns["geocode"]]
        return columns

    return made


def floats(first: Any) -> Change:
    """Values are floats, those of the row not whole."""

    def made(columns: Columns, row: int) -> Columns:
        values = [[float(x) for x in one] for one in columns["value"]]
        values[row] = [first]
        return columns | {"value": pa.array(values)}

    return made


ROWS: dict[str, tuple[Change, str]] = {
    "too many values": (put("value", [1, 2]), "2 values do not fill the shape 1 x 1 x 1 x 1 (1 cells)"),
    "no values": (put("value", None), "0 values do not fill the shape 1 x 1 x 1 x 1"),
    "a value is missing": (put("value", [None]), "values must be whole numbers, got None"),
    "a value that is not whole": (floats(0.5), "values must be whole numbers, got 0.5"),
    "a value that is no number": (floats(float("nan")), "values must be whole numbers, got nan"),
    "a negative variance": (put("variance", -2.0), "variance must be non-negative, got -2"),
    "a variance beyond reason": (put("variance", 3e38), "variance must be 0 (exact) or within [1e-12, 1e+10]"),
    "an infinite variance": (put("variance", float("inf")), "of a unit that is not measured there is no record, got"),
    "a budget of another variance": (put("plb", 3.0), "plb must be 1 / variance, 0.3"),
    "a budget that is none": (put("plb", float("nan")), ", got nan"),
    "half a budget": (
        lambda columns, row: put("plb", 0.5 * columns["plb"][row])(columns, row),
        "plb must be 1 / variance, 0.3",
    ),
    "a variance that is no number": (put("variance", float("nan")), "variance is NaN"),
    "an exact count below zero": (
        lambda columns, row: put("value", [-1])(put("variance", 0.0)(columns, row), row),
        "an exact count must be non-negative, got -1",
    ),
    "a record twice": (twice, "there is more than one record of this unit"),
    "no shape": (whole_column("query_shape", lambda old: [None] * len(old)), "query_shape must be lengths of the 4"),
    "a shape of fewer axes": (whole_column("query_shape", lambda old: [[1]] * len(old)), "lengths of the 4 axes"),
    "another partition": (code_with(lambda code: "1" + code[1:]), "it does not belong into partition 004"),
    "a geocode cut short": (moved(lambda code: code[:-1]), "characters, the others of level Block"),
    "another word on an axis": (
        lambda columns, row: put("cenrace", "cenrace")(
            columns, [i for i, name in enumerate(columns["query_name"]) if name == "total_dpq"][-1]
        ),
        "axis cenrace must hold '*', as in the other records, got 'cenrace'",
    ),
}  # fmt: skip
KNOWN: dict[str, tuple[Change, str]] = {
    "a sign": (put("sign", "about"), "sign must be =, >= or <=, got 'about'"),
    "a lower bound turned over": (put("sign", "<="), "sign must be >=, as its name says, got '<='"),
    "a lower bound that is exact": (put("sign", "="), "sign must be >=, as its name says, got '='"),
    "a negative constraint": (put("value", [-4] + [0] * 7), "a constraint must be non-negative, got -4"),
    "a constraint twice": (twice, "there is more than one record of this unit"),
    "an orphan": (moved(lambda code: code[:8] + "9" + code[9:]), "an orphan, "),
}
FILES: dict[str, tuple[Change, str]] = {
    "a column is absent": (without("variance"), "column variance is absent, there are geocode, query_name"),
    "an axis is absent": (without("cenrace"), "the axis cenrace is absent"),
    "words for values": (
        whole_column("value", lambda old: pa.array([["one"]] * len(old))),
        "column value must hold a list of numbers, it holds list<",
    ),
    "numbers for geocodes": (
        whole_column("geocode", lambda old: pa.array(range(len(old)))),
        "column geocode must hold text, it holds int64",
    ),
    "words for variances": (
        whole_column("variance", lambda old: pa.array(["wide"] * len(old))),
        "column variance must hold a number, it holds string",
    ),
    "no geocode": (put("geocode", None), "geocode None: query total: the geocode is missing"),
    "bytes that are no text": (
        whole_column("geocode", lambda old: pa.array([b"\xff\xfe"] * len(old), pa.binary()).view(pa.string())),
        "cannot be read as Parquet: ",
    ),
    "text for shapes": (
        whole_column("query_shape", lambda old: pa.array([["two"]] * len(old))),
        "column query_shape must hold a list of whole numbers",
    ),
}


def told(file: Path, path: Path, *words: str) -> None:
    """The reader and the check name the file, and what is wrong with it."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        nmf.read(file, "total")
    for word in (str(path), *words):
        assert word in str(caught.value), str(caught.value)
    problems = check.contents(file)["problems"]
    assert any(all(word in one for word in (str(path), *words)) for one in problems), problems


@pytest.mark.parametrize("case", ROWS)
def test_a_malformed_measurement_is_named(file: Path, case: str) -> None:
    change, message = ROWS[case]
    path = part(file)
    rewritten(path, "total_dpq", change)
    told(file, path, "geocode ", "query ", message)


@pytest.mark.parametrize("case", KNOWN)
def test_a_malformed_constraint_is_named(file: Path, case: str) -> None:
    change, message = KNOWN[case]
    path = part(file, kind="Constraint")
    query = "hhgq_total_lb_con"
    rewritten(path, query, change)
    told(file, path, "geocode ", "query hhgq_total_", message)


@pytest.mark.parametrize("level", ["Block", "County"])
def test_bounds_that_contradict_are_named(file: Path, tmp_path: Path, level: str) -> None:
    path = part(file, level, kind="Constraint")
    code = rewritten(path, "hhgq_total_lb_con", put("value", [0, 50] + [0] * 6))
    rewritten(path, "hhgq_total_ub_con", put("value", [0, 5] + [0] * 6))
    said = f"geocode {code}: query .*: constraints leave no count possible, at least 50 and at most 5"
    with pytest.raises(ValueError, match=said):
        nmf.read(file, "hhgq", "all")
    assert any(re.search(said, one) for one in check.contents(file)["problems"])
    run = commands.run("spine", str(file), "--query", "hhgq", "--cell", "all", "--out", str(tmp_path / "out"))
    assert run.exit_code == 2
    assert re.search(said, commands.flat(run.stderr))


def test_a_bound_below_what_lies_in_the_unit_is_named(file: Path) -> None:
    """Fifty people at least in a block, in a block group of five at most."""
    code = rewritten(part(file, kind="Constraint"), "hhgq_total_lb_con", put("value", [0, 50] + [0] * 6))
    above = part(file, "Block_Group", "Constraint")
    for path in (above, part(file, kind="Constraint")):
        table = pq.ParquetFile(path).read().to_pylist()
        for row in table:
            if row["query_name"] == "hhgq_total_ub_con" and code.startswith(row["geocode"]):
                row["value"] = [99999, 5 if path == above else 99999, *row["value"][2:]]
        pq.write_table(pa.Table.from_pylist(table, pq.read_schema(path)), path)
    said = f"geocode {code[:12]}[0-9]*: query .*: constraints leave no count possible, at least 50 and at most 5, of"
    problems = check.contents(file)["problems"]
    assert any(re.search(said, one) for one in problems), problems


@pytest.mark.parametrize("case", FILES)
def test_a_malformed_file_is_named(file: Path, case: str) -> None:
    change, message = FILES[case]
    path = part(file)
    rewritten(path, "total_dpq", change)
    told(file, path, message)


def test_a_query_name_that_is_missing_is_named(file: Path) -> None:
    kept = part(file, kind="Constraint").read_bytes()
    for value in (None, " "):
        path = part(file, kind="Constraint")
        path.write_bytes(kept)
        rewritten(path, "nurse_nva_0_con", put("query_name", value))
        told(file, path, "query_name is missing in a record")


def test_a_folder_that_is_no_partition_is_named(file: Path) -> None:
    for name in ("State=__HIVE_DEFAULT_PARTITION__", "State=%FF", "State="):
        odd = file / "Block.parquet/DPQuery" / name
        part(file).parent.rename(odd)
        told(file, odd, "partition State must have a code of printable characters")
        odd.rename(file / "Block.parquet/DPQuery/State=004")


def test_units_without_anything_below_or_above_are_named(file: Path) -> None:
    shutil.rmtree(file / "Block.parquet/Constraint/State=104")
    shutil.rmtree(file / "Block.parquet/DPQuery/State=104")
    told(file, part(file, "Block_Group", "Constraint", "State=104"), "geocode 104", "no unit of level Block lies in it")


def test_a_measurement_that_is_missing_is_listed(file: Path) -> None:
    path = part(file)
    code = rewritten(path, "total_dpq", lambda columns, row: {k: v[:row] + v[row + 1 :] for k, v in columns.items()})
    (problem,) = check.contents(file)["problems"]
    assert problem == f"{path}: geocode {code}: query detailed: no record of query total, and no only child"
    assert nmf.read(file, "total").rho[nmf.read(file, "total").tree.index(code)] in (0.0, float("inf"))


def test_shapes_that_are_not_documented_are_listed(file: Path) -> None:
    for level in ("US", "State", "County", "Tract", "Block_Group", "Block"):
        for path in (file / f"{level}.parquet" / "DPQuery").rglob("*.parquet"):
            table = pq.ParquetFile(path).read().to_pylist()
            for row in table:
                if row["query_name"] == "hhgq_dpq":
                    row["query_shape"], row["value"] = [7, 1, 1, 1], row["value"][:7]
            schema = pq.read_schema(path)
            pq.write_table(pa.Table.from_pylist(table, schema), path)
    assert any("axis hhgq (hhgq) has 7 categories, documented are 8" in one for one in check.contents(file)["problems"])


@pytest.mark.parametrize("query", ["hhgq", "total"])
def test_one_shape_at_all_levels(file: Path, query: str) -> None:
    for path in sorted((file / "County.parquet/DPQuery").glob("*/*.parquet"), reverse=True):
        table = pq.ParquetFile(path).read().to_pylist()
        for row in table:
            if row["query_name"] == f"{query}_dpq":
                row["query_shape"], row["value"], row["hhgq"] = [2, 1, 1, 1], [1, 2], "hhgq2"
        pq.write_table(pa.Table.from_pylist(table, pq.read_schema(path)), path)
    with pytest.raises(ValueError, match=rf"{path}: query {query} has query_shape \(2, 1, 1, 1\), which is"):
        nmf.read(file, query, 0)
    assert any(f"query {query} has query_shape" in one for one in check.contents(file)["problems"])


def test_a_level_that_is_gone_or_unknown_or_of_another_product_is_named(file: Path) -> None:
    (file / "Tract.parquet").rename(file / "Parish.parquet")
    with pytest.raises(ValueError, match=r"Parish\.parquet is no level of PL 94-171 persons \(US > State > County"):
        nmf.read(file, "total")
    shutil.rmtree(file / "Parish.parquet")
    for use in (lambda: nmf.read(file, "total"), lambda: check.contents(file)):
        with pytest.raises(FileNotFoundError, match=r"level Tract is absent, there is no directory Tract\.parquet$"):
            use()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"query": "hhgq"}, "query hhgq has 8 x 1 x 1 x 1 cells: say which"),
        ({"query": "votingage*hispanic"}, "one or a list of them, or 'all'; there are 'not Hispanic, under 18'; "),
        ({"query": "votingage*hispanic", "cells": "minors"}, "no cell 'minors'; there are 'not Hispanic, under 18'; "),
        ({"state": "4"}, "state must be its FIPS code of 2 digits, got '4'"),
        ({"county": "44"}, "county must be its FIPS code of 5 digits, got '44'"),
        ({"state": "44", "county": "44001"}, "give one of root, state and county"),
        ({"state": "99"}, "there is no unit '99' at level Whole_State; there are 04, 44"),
        ({"root": "0441"}, "root '0441' is no geocode of a level, by its length (State: 3, County: 8"),
        ({"root": "04410009"}, "there is no unit '04410009' at level County; did you mean '044100"),
    ],
)
def test_what_is_asked_for_and_not_there_is_named(published: tuple[Path, Any], asked: Any, message: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        nmf.read(published[0] / PERSONS, **{"query": "total", **asked})
    assert message in str(refused.value)


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no such directory"):
        nmf.read(tmp_path / "nowhere", "total")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="this is a file"):
        nmf.read(tmp_path / "file", "total")
    with pytest.raises(ValueError, match="this is no Noisy Measurement File"):
        nmf.read(tmp_path, "total")


def test_axes_of_no_product_are_named(file: Path) -> None:
    for path in file.rglob("*.parquet"):
        if path.is_file():
            table = pq.ParquetFile(path).read()
            pq.write_table(table.rename_columns(["race" if x == "cenrace" else x for x in table.column_names]), path)
    with pytest.raises(ValueError, match=r"its axes \(hhgq, votingage, hispanic, race\) are those of no product"):
        nmf.read(file, "total")


def test_problems_are_told_once_and_a_run_refuses_them_in_the_same_words(file: Path, tmp_path: Path) -> None:
    path = part(file)
    path.write_bytes(path.read_bytes()[:100])
    told_ = check.contents(file)["problems"]
    assert sum(str(path) in one for one in told_) == 1
    checked = commands.run("nmf", "check", str(file), "--quiet")
    assert (checked.exit_code, checked.stdout) == (1, "")
    (line,) = (one for one in checked.stderr.splitlines() if one.startswith("check failed: "))
    assert told_[0] in line
    run = commands.run("spine", str(file), "--query", "total", "--out", str(tmp_path / "new" / "out"))
    assert run.exit_code == 2, run.stderr
    assert commands.flat(next(one for one in told_ if str(path) in one)) in commands.flat(run.stderr)
    assert run.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_variance_of_minus_zero_is_zero(file: Path) -> None:
    code = rewritten(part(file), "total_dpq", lambda c, row: put("value", [3])(put("variance", -0.0)(c, row), row))
    found = nmf.read(file, "total")
    assert found.rho[found.tree.index(code)] == float("inf")
