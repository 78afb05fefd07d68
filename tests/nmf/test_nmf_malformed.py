"""What is wrong with a Noisy Measurement File is told with file, geocode and query, by `read` and by the check."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adversary import nmf
from adversary.nmf import check
from adversary.nmf.writer import Records, Writer
from adversary.reader.spine.tree import Tree

LEVELS = ("State", "County", "Tract")
PLACES = {"99": None, "99001": "99", "99003": "99", "a": "99001", "b": "99001", "c": "99003"}
TREE = Tree.of(PLACES, LEVELS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A good file: a total that is exact in one tract, and a query of two cells."""
    total = nmf.Answers(np.arange(6), np.array([0.5, 0.5, 0.5, 0.5, np.inf, 0.5]))
    pair = nmf.Answers(np.arange(12).reshape(6, 2), np.full(6, 0.5), (2,))
    return nmf.write(tmp_path / "made", TREE, {"total": total, "pair": pair})


def rewritten(path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Path:
    """A Parquet file with other columns, given and taken as lists or arrays."""
    table = pq.ParquetFile(path).read()
    types = {name: table.schema.field(name).type for name in table.schema.names}
    columns = change({name: table[name].to_pylist() for name in types})
    arrays = {
        name: values if isinstance(values, pa.Array) else pa.array(values, types.get(name))
        for name, values in columns.items()
    }
    pq.write_table(pa.table(arrays), path)
    return path


def first(name: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The first record has another value in a column."""
    return lambda columns: columns | {name: [value, *columns[name][1:]]}


def whole(name: str, values: Callable[[list[Any]], Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A column has other values."""
    return lambda columns: columns | {name: values(columns[name])}


def doubled(columns: dict[str, Any]) -> dict[str, Any]:
    """The first record is there twice."""
    return {name: [values[0], *values] for name, values in columns.items()}


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A column is absent."""
    return lambda columns: {key: values for key, values in columns.items() if key != name}


def refused(file: Path, kind: str, change: Callable[[dict[str, Any]], dict[str, Any]], message: str) -> Path:
    """The file of tracts that was changed, which a reader names with what is wrong."""
    path = rewritten(file / f"Tract.parquet/{kind}/State=99/County=001/part-00000.parquet", change)
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        nmf.read(file, "total")
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    return path


A = "geocode a: query total: "
CASES = {
    "shape and values": (first("value", [1, 2]), A + "2 values do not fill the shape 1 (1 cells)"),
    "no values": (first("value", None), A + "0 values do not fill the shape 1"),
    "negative variance": (first("variance", -2.0), A + "variance must be non-negative, got -2"),
    "variance beyond reason": (first("variance", 1e300), A + "variance must be 0 (exact), infinite (not measured) or"),
    "variance NaN": (first("variance", float("nan")), A + "variance is NaN"),
    "orphan": (first("geocode", "z"), "geocode z: query total: an orphan, it is no unit of level Tract"),
    "no geocode": (first("geocode", None), "geocode None: query total: the geocode is missing"),
    "twice": (doubled, A + "there is more than one record of this unit"),
    "other shape": (
        lambda columns: (
            {name: values + values[:1] for name, values in columns.items()}
            | {"geocode": [*columns["geocode"], "b"], "query_shape": [*columns["query_shape"], [1, 1]]}
        ),
        "geocode b: query total: query_shape [1, 1] is not that of the other records, [1]",
    ),
    "no shape": (whole("query_shape", lambda old: [None] * len(old)), A + "query_shape must be lengths of axes"),
    "values not whole": (
        whole("value", lambda old: pa.array([[0.5], *([float(x) for x in v] for v in old[1:])])),
        A + "values must be whole numbers, got 0.5",
    ),
    "values NaN": (
        whole("value", lambda old: pa.array([[float("nan")], *([float(x) for x in v] for v in old[1:])])),
        A + "values must be whole numbers, got nan",
    ),
    "a value is missing": (first("value", [None]), A + "values must be whole numbers, got None"),
    "values of words": (
        whole("value", lambda old: pa.array([["one"]] * len(old))),
        "column value must hold a list of numbers, it holds list<",
    ),
    "values not in lists": (
        whole("value", lambda old: pa.array([1] * len(old))),
        "column value must hold a list of numbers, it holds int64",
    ),
    "geocodes as numbers": (
        whole("geocode", lambda old: pa.array(range(len(old)))),
        "column geocode must hold text, it holds int64",
    ),
    "variance of words": (
        whole("variance", lambda old: pa.array(["wide"] * len(old))),
        "column variance must hold a number, it holds string",
    ),
    "shape of words": (
        whole("query_shape", lambda old: pa.array([["two"]] * len(old))),
        "column query_shape must hold a list of whole numbers",
    ),
    "column absent": (without("variance"), "column variance is absent, there are geocode, query_name"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_malformed_measurement_is_named(file: Path, case: str) -> None:
    change, message = CASES[case]
    path = refused(file, "DPQuery", change, message)
    found = check.contents(file)
    assert any(str(path) in problem and message in problem for problem in found["problems"]), found["problems"]


KNOWN = {
    "sign": (first("sign", "about"), "geocode b: query total: sign must be =, >= or <=, got 'about'"),
    "negative": (first("value", [-4]), "geocode b: query total: a constraint must be non-negative, got -4"),
    "twice": (doubled, "geocode b: query total: there is more than one record of this unit"),
    "sign absent": (without("sign"), "column sign is absent"),
}


@pytest.mark.parametrize("case", KNOWN)
def test_a_malformed_constraint_is_named(file: Path, case: str) -> None:
    change, message = KNOWN[case]
    path = refused(file, "Constraint", change, message)
    assert any(str(path) in problem for problem in check.contents(file)["problems"])


def test_a_bound_is_not_used_and_said_so(file: Path) -> None:
    rewritten(file / "Tract.parquet/Constraint/State=99/County=001/part-00000.parquet", first("sign", ">="))
    found = nmf.read(file, "total")
    assert found.rho[found.tree.index("b")] == 0
    assert found.notes == ("Tract: 1 constraints of total are inequalities, which are not used",)


PARENTS = "Parents.parquet/Tract/State=99/County=001/part-00000.parquet"
NESTING = {
    "orphan": (first("parent", "99005"), "geocode a of level Tract is an orphan: its parent 99005 is not among"),
    "no parent": (first("parent", None), "geocode a of level Tract is an orphan: no parent of it is known"),
    "twice": (doubled, "geocode a is listed twice at level Tract"),
    "no geocode": (first("geocode", None), "geocode is missing in row 0"),
    "as above": (first("geocode", "99003"), "geocode 99003 is a unit of levels County and Tract"),
}


@pytest.mark.parametrize("case", NESTING)
def test_a_malformed_nesting_is_named(file: Path, case: str) -> None:
    change, message = NESTING[case]
    rewritten(file / PARENTS, change)
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        nmf.read(file, "total")
    assert str(file) in str(refused.value)
    assert message in str(refused.value)
    assert check.contents(file)["problems"]


def test_a_unit_that_nothing_lies_in_is_named(file: Path) -> None:
    for path in file.rglob("County=003/*.parquet"):
        if "Tract" in str(path):
            path.unlink()
    with pytest.raises(ValueError, match=r"geocode 99003 of level County has no unit of level Tract in it"):
        nmf.read(file, "total")
    assert any("99003" in problem for problem in check.contents(file)["problems"])


def test_a_file_that_is_not_parquet_is_named_and_the_others_are_checked(file: Path) -> None:
    path = file / "Tract.parquet/DPQuery/State=99/County=001/part-00000.parquet"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=f"{path}: cannot be read as Parquet"):
        nmf.read(file, "total")
    found = check.contents(file)
    tract = next(level for level in found["levels"] if level["level"] == "Tract")
    assert {one["query"]: one["units"] for one in tract["queries"] if one["kind"] == "measurement"} == {
        "total": 1, "pair": 1,
    }  # fmt: skip
    assert any(str(path) in problem for problem in found["problems"])


def test_one_shape_at_all_levels(file: Path) -> None:
    path = file / "State.parquet/DPQuery/State=99/part-00000.parquet"
    rewritten(path, whole("query_shape", lambda old: [[1, 1]] * len(old)))
    with pytest.raises(ValueError, match=r"Tract|County.*query_shape \(1,\), which is \(1, 1\)"):
        nmf.read(file, "total")
    assert any("pair" in problem for problem in check.contents(file)["problems"])


@pytest.mark.parametrize(
    ("asked", "kind", "message"),
    [
        ({"query": "age"}, ValueError, "query 'age' is not there; there are pair, total"),
        ({"query": "pair"}, ValueError, "query pair has 2 cells: say which"),
        ({"query": "pair", "cells": 2}, ValueError, "cell 2 lies outside query pair, which has 2 cells"),
        (
            {"levels": ("State", "Block")},
            FileNotFoundError,
            "level Block is absent, there is no directory",
        ),
        ({"levels": ()}, ValueError, "levels must be distinct and at least one"),
        ({"levels": ("County", "Tract")}, ValueError, "level County has 2 units, 99001, 99003, ...: name the one"),
        ({"levels": ("County", "Tract"), "root": "99"}, ValueError, "there is no unit '99' at level County"),
        ({"county": "001"}, ValueError, "county '001' is only a part of level State: read the levels from County down"),
        ({"state": "98"}, ValueError, "level State has no unit with State '98'"),
        ({"levels": ("State", "Tract")}, ValueError, "geocode a of level Tract is an orphan: its parent 99001"),
        ({"parents": "elsewhere"}, FileNotFoundError, "there is no table of the parents of level State"),
        ({"parents": {"99001": "99"}}, ValueError, "geocode 99003 of level County is an orphan"),
    ],
)
def test_what_is_asked_for_and_not_there_is_named(file: Path, asked: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as refused:
        nmf.read(file, **{"query": "total", **asked})
    assert message in str(refused.value)


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no such directory"):
        nmf.read(tmp_path / "nowhere", "total")
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="this is a file"):
        nmf.read(tmp_path / "file", "total")
    with pytest.raises(ValueError, match="this is no Noisy Measurement File"):
        nmf.read(tmp_path, "total")


def test_a_level_that_is_skipped_or_unknown_is_named(file: Path) -> None:
    (file / "Tract.parquet").rename(file / "Block.parquet")
    with pytest.raises(FileNotFoundError, match=r"level Tract is absent"):
        nmf.read(file, "total")
    (file / "Block.parquet").rename(file / "Parish.parquet")
    with pytest.raises(ValueError, match=r"Parish\.parquet is no level of the spines known"):
        nmf.read(file, "total")


def test_a_level_that_only_its_parents_are_known_of_is_named(file: Path) -> None:
    shutil.rmtree(file / "Tract.parquet")
    for use in (lambda: nmf.read(file, "total"), lambda: check.contents(file)):
        with pytest.raises(FileNotFoundError, match=r"level Tract is absent, there is no directory Tract\.parquet$"):
            use()
    with pytest.raises(FileNotFoundError, match="did you mean 'County'"):
        nmf.read(file, "total", levels=("State", "Couny"))


def test_a_partition_without_records_is_told(file: Path) -> None:
    shutil.rmtree(file / "Tract.parquet/DPQuery/State=99/County=003")
    told = check.contents(file)["problems"]
    assert told == [
        f"{file}/Tract.parquet: geocode c has no record that can be read, neither DPQuery nor Constraint (1 such)"
    ]
    found = nmf.read(file, "total")
    assert found.rho[found.tree.index("c")] == 0
    assert found.notes == ("Tract: 1 of 3 units have no record of total, such as c; they are taken as not measured",)


def test_a_problem_is_told_once(file: Path) -> None:
    path = file / "Tract.parquet/DPQuery/State=99/County=001/part-00000.parquet"
    path.write_bytes(path.read_bytes()[:100])
    told = check.contents(file)["problems"]
    assert sum(str(path) in one for one in told) == 1


def test_a_level_without_records_is_a_problem(file: Path) -> None:
    for path in (file / "County.parquet").rglob("*.parquet"):
        if path.is_file():
            path.unlink()
    assert any("there is no record" in problem for problem in check.contents(file)["problems"])


def test_nothing_is_overwritten_unless_told(file: Path) -> None:
    answers = {"total": nmf.Answers(np.arange(6), 1.0 + np.zeros(6))}
    with pytest.raises(FileExistsError, match="it is not overwritten unless told so"):
        nmf.write(file, TREE, answers)
    nmf.write(file, TREE, answers, overwrite=True)
    assert (nmf.read(file, "total").rho == 1).all()
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_a_directory_of_other_things_is_never_overwritten(file: Path) -> None:
    (file / "thesis.docx").write_text("five years of work")
    with pytest.raises(FileExistsError, match=r"not overwritten, thesis\.docx does not belong"):
        nmf.write(file, TREE, {"total": nmf.Answers(np.arange(6), np.ones(6))}, overwrite=True)
    assert (file / "thesis.docx").exists()
    with pytest.raises(FileExistsError, match="there is a file of this name"):
        nmf.write(file / "thesis.docx", TREE, {}, overwrite=True)


def test_what_fails_while_being_written_leaves_nothing_behind(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped() -> None:
        with Writer(file.parent / "other") as writer:
            writer.put("State", [Records("total", ["99"], np.array([[1]]), 1.0, (1,))])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        stopped()
    before = nmf.read(file, "total").released

    def refuse(source: Path, target: Path) -> None:
        if Path(source).name.startswith(f".{file.name}.") and not str(source).endswith(".old"):
            raise OSError(28, "No space left on device")
        os.rename(source, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OSError, match="No space left"):
        nmf.write(file, TREE, {"total": nmf.Answers(np.arange(6), np.ones(6))}, overwrite=True)
    assert [one.name for one in file.parent.iterdir()] == [file.name]
    np.testing.assert_array_equal(nmf.read(file, "total").released, before)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (nmf.Answers(np.full(6, 0.5), np.ones(6)), "must have whole answers, it has not in unit '99'"),
        (nmf.Answers(np.full(6, np.nan), np.ones(6)), "must have whole answers"),
        (nmf.Answers(np.arange(6), -np.ones(6)), "rho of query q must be non-negative"),
        (nmf.Answers(np.ones((6, 2)), np.arange(12.0).reshape(6, 2)), "several rho in the cells of unit '99'"),
        (nmf.Answers(np.ones((6, 2)), np.ones(6), (3,)), r"has 2 cells, which do not fill the shape \(3,\)"),
    ],
)
def test_answers_that_cannot_be_written_are_refused(tmp_path: Path, answers: nmf.Answers, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nmf.write(tmp_path / "new", TREE, {"q": answers})
    assert not list(tmp_path.iterdir())
