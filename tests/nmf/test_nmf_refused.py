"""What `nmf check` refuses `spine` refuses, in the same words, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from adversary import nmf
from adversary.nmf import check
from adversary.reader.spine.tree import Tree
from tests import commands
from tests.nmf.test_nmf_malformed import LEVELS, PLACES, doubled, first, rewritten, whole

COUNTY = "State=99/County=001"
TRACTS = f"Tract.parquet/DPQuery/{COUNTY}/part-00000.parquet"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A good file, of one query with two cells and of one that is exact in one tract."""
    total = nmf.Answers(np.arange(6), np.array([0.5, 0.5, 0.5, 0.5, np.inf, 0.5]))
    pair = nmf.Answers(np.arange(12).reshape(6, 2), np.full(6, 0.5), (2,))
    return nmf.write(tmp_path / "made", Tree.of(PLACES, LEVELS), {"total": total, "pair": pair})


def no_text(name: str) -> Callable[[Path], None]:
    """The first record has bytes in a column that are no UTF-8."""

    def change(file: Path) -> None:
        raw = [b"\xff\xfe", b"b", b"a", b"b"]
        bad = pa.array(raw, pa.binary()).view(pa.string())
        rewritten(file / TRACTS, lambda columns: columns | {name: bad[: len(columns[name])]})

    return change


def moved(old: str, new: str) -> Callable[[Path], None]:
    """A folder has another name."""
    return lambda file: (file / old).rename((file / old).with_name(new)) and None


def gone(name: str) -> Callable[[Path], None]:
    """All files of these folders are gone."""

    def change(file: Path) -> None:
        for path in list(file.glob(name)):
            path.unlink()

    return change


def records(change: Callable[[dict[str, Any]], dict[str, Any]], of: str = TRACTS) -> Callable[[Path], None]:
    """A Parquet file has other columns."""
    return lambda file: rewritten(file / of, change) and None


STATE = "State.parquet/DPQuery/State=99/part-00000.parquet"
TRACT = "Tract.parquet/DPQuery/State=99"
KNOWN = f"Tract.parquet/Constraint/{COUNTY}/part-00000.parquet"
REFUSED = {
    "no name of a query": (records(first("query_name", None)), "query_name is missing in a record"),
    "an empty name": (records(first("query_name", " ")), "query_name is missing in a record"),
    "a name that is no text": (no_text("query_name"), "cannot be read as Parquet: "),
    "a geocode that is no text": (no_text("geocode"), "cannot be read as Parquet: "),
    "another county": (
        moved(f"{TRACT}/County=001", "County=009"),
        "geocode a of level Tract lies in partition State=99/County=009 (DPQuery), and in State=99/County=001",
    ),
    "another county altogether": (
        lambda file: [moved(str(path.relative_to(file)), "County=009")(file) for path in file.glob("[PT]*/**/*=001")
                      if "Tract" in str(path)],
        "geocode a of level Tract lies in partition State=99/County=009, and its parent 99001 in State=99/County=001",
    ),
    "no county": (
        moved(f"{TRACT}/County=001", "County=__HIVE_DEFAULT_PARTITION__"),
        "partition County must have a code of printable characters, got '__HIVE_DEFAULT_PARTITION__'",
    ),
    "an empty county": (moved(f"{TRACT}/County=001", "County="), "partition County must have a code"),
    "a county with a zero byte": (moved(f"{TRACT}/County=001", "County=001%00"), "got '001%00'"),
    "a county that is no text": (moved(f"{TRACT}/County=001", "County=%FF"), "got '%FF'"),
    "a file gone": (gone(f"{TRACT}/County=003/*"), "geocode c has no record that can be read"),
    "a county gone": (gone("Tract.parquet/*/*/County=003/*"), "geocode c has no record that can be read"),
    "a county gone with its tracts": (gone("*.parquet/**/Tract*/**/County=003/*.parquet"), "99003"),
    "an exact count below zero": (
        records(lambda columns: columns | {"variance": [0.0, *columns["variance"][1:]],
                                           "value": [[-1], *columns["value"][1:]]}),
        "geocode a: query total: an exact count must be non-negative, got -1",
    ),
    "another query": (records(lambda columns: columns | {"variance": [*columns["variance"][:-1], -1.0]}), "query pair"),
    "another shape": (
        records(whole("query_shape", lambda old: [[*one, 1] for one in old]), STATE),
        "has query_shape",
    ),
    "twice": (records(doubled), "there is more than one record of this unit"),
    "a constraint": (records(first("sign", "about"), KNOWN), "sign must be =, >= or <=, got 'about'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_check_refuses_a_run_refuses_in_the_same_words(file: Path, tmp_path: Path, case: str) -> None:
    change, message = REFUSED[case]
    change(file)
    problems = check.contents(file)["problems"]
    assert any(message in problem for problem in problems), problems
    checked = commands.run("nmf", "check", str(file))
    assert checked.exit_code == 1, checked.stderr
    run = commands.run("spine", str(file), "--query", "total", "--out", str(tmp_path / "new" / "out"))
    assert run.exit_code == 2, run.stderr
    assert commands.flat(problems[0]) in commands.flat(run.stderr)
    assert run.stderr.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_variance_of_minus_zero_is_zero(file: Path) -> None:
    rewritten(file / TRACTS, first("variance", -0.0))
    assert check.contents(file)["problems"] == []
    found = nmf.read(file, "total")
    assert found.rho[found.tree.index("a")] == np.inf
