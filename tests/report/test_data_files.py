"""Every file in data/ goes through every command that takes it; and no result is lost to a page that fails."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from adversary.report.kit import Figure, rendering
from tests.commands import answered, printed, run
from tests.report import test_canvas
from tests.tables import DATA

FILES = sorted(DATA.glob("*.toml"))
SCHOOL = DATA / "school_classes.toml"


@pytest.fixture
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page with its captions alone."""
    monkeypatch.setattr(Figure, "svg", b"<svg/>")


def commands(document: dict[str, Any]) -> list[list[str]]:
    """The commands that take a file of this kind, with their options."""
    if "data" in document:
        return [["tables"]]
    if "curator" in document:
        return [["gallery"]]
    if "limit" in document:
        return [["ledger"]]
    if "table" in document:
        return [["invariants"]]
    if {"release", "regression"} & set(document):
        return [["infer"]]
    if "plan" not in document and "guarantee" in document:
        return [["bounds"], ["explain"]]
    if "plan" not in document:
        return [["epsilon"], ["explain"]]
    exact = any(level.get("noise") == "exact" for level in document["plan"]["level"]) or "invariants" in document
    few = ["--draws", "20"]
    found = [["audit", *few], ["explain"], ["invariants"] * exact, ["sensitivity"] * ("sensitivity" in document)]
    return [one for one in found if one]


ELSEWHERE = ("invariants redistricting_2020_state_totals", *test_canvas.COMMANDS)
"""Whose numbers are in `test_cli_invariants`, and whose figures are looked at."""


@pytest.mark.slow_cases(
    "clinic_visits-audit",
    "granville_1940_bounded-audit",
    "redistricting_2020_state_totals-audit",
    "redistricting_2020_state_totals-explain",
    "school_classes-audit",
)
@pytest.mark.parametrize(
    ("file", "command"),
    [
        (file, one)
        for file in FILES
        for one in commands(tomllib.loads(file.read_text(encoding="utf-8")))
        if f"{one[0]} {file.stem}" not in ELSEWHERE
    ],
    ids=lambda one: one.stem if isinstance(one, Path) else one[0],
)
def test_every_data_file_goes_through_every_command_that_takes_it(
    file: Path, command: list[str], tmp_path: Path, without_figures: None
) -> None:
    name, *options = command
    if name == "audit":
        written = run(name, str(file), *options, "--out", str(tmp_path), "--json")
        assert (written.exit_code, written.stderr) == (0, f"page, tables, figures and numbers in {tmp_path}\n")
        assert json.loads(written.stdout)["records"]
        assert {path.suffix for path in tmp_path.iterdir()} == {".nc", ".html", ".csv", ".svg"}
    else:
        assert answered(name, str(file), *options)


def test_every_data_file_is_described() -> None:
    told = (DATA / "README.md").read_text(encoding="utf-8")
    for file in {*DATA.iterdir()} - {DATA / "README.md"}:
        assert f"`{file.name}`" in told


def test_true_counts_of_siblings_are_told_in_words() -> None:
    assert "“class” 2, “school” 4 and its siblings at “class” 0 and 2" in printed("explain", str(SCHOOL))


@pytest.mark.slow
def test_the_numbers_of_an_audit_outlive_a_page_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> str:
        raise TypeError("no such words")

    monkeypatch.setattr(rendering, "to_html", fails)
    result = run("audit", str(DATA / "dare_1940.toml"), "--out", str(tmp_path))
    assert (result.exit_code, result.stdout) == (2, "")
    told = f"no such words (the numbers are in {tmp_path / 'data.nc'}, without a page)\n"
    assert result.stderr == f"error: {DATA / 'dare_1940.toml'}: {told}"
    assert [path.name for path in tmp_path.iterdir()] == ["data.nc"]
    with xr.open_datatree(tmp_path / "data.nc", engine="h5netcdf") as tree:
        assert float(tree["risk"]["posterior_mean"][0]) > 0.5
