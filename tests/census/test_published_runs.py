"""`adversary spine` on the published layout, as the independent script writes it: names, exact counts, parts of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests import commands
from tests.oracles.noisy_measurement_file import Replica


def answered(folder: Path, out: Path, product: str, query: str, *more: str) -> dict[str, Any]:
    """What the command says as JSON."""
    totals = ("--state-totals", str(folder / "totals.csv"))
    command = ("spine", str(folder), "--product", product, "--query", query, *totals, "--out", str(out), *more)
    return commands.answered(*command, silent=False)


@pytest.mark.slow
def test_a_state_has_both_parts_its_total_and_names(published: tuple[Path, dict[str, Replica]], tmp_path: Path) -> None:
    folder, made = published
    prior = ("--leaf-prior", "negative-binomial=0.5,8")
    answer = answered(folder, tmp_path / "out", "US_Person_PL", "total", "--state", "04", *prior)
    total = made["US_Person_PL_PROD"].truth["004"].sum() + made["US_Person_PL_PROD"].truth["104"].sum()
    assert f"Whole_State: Arizona has {total} residents" in answer["attributes"]["exact"]
    counted = (commands.number(answer, "label"), answer["attributes"]["pieces"], commands.number(answer, "leaves"))
    assert counted == ("P1 total", 3, 11)
    names, codes = (commands.numbers(answer, quantity, group="worst") for quantity in ("name", "geocode"))
    assert all(len(name) == 15 and code.endswith(name[-4:]) for name, code in zip(names, codes, strict=True))
    above = pq.ParquetFile(tmp_path / "out/above.parquet").read().to_pylist()
    assert {row["geocode"]: row["name"] for row in above} == {
        "04": "Arizona",
        "004": "Arizona, outside American Indian, Alaska Native and Hawaiian areas",
        "104": "Arizona, inside American Indian, Alaska Native and Hawaiian areas",
    }
    assert above[0]["mean"] == total
    assert sum(row["mean"] for row in above[1:]) == pytest.approx(total)
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "P1 total" in page
    assert names[0] in page
    assert "What is known exactly" in page


@pytest.mark.slow
def test_cells_are_asked_for_in_words(published: tuple[Path, dict[str, Replica]], tmp_path: Path) -> None:
    words = ("--cell", "Hispanic, 18 and over", "--cell", "0", "--county", "44001")
    answer = answered(published[0], tmp_path / "out", "US_Person_PL", "VOTINGAGE*HISPANIC", *words)
    labels = [(row["cell"], row["value"]) for row in commands.rows(answer, "label")]
    assert labels == [(3, "Hispanic, 18 and over"), (0, "not Hispanic, under 18")]
    assert answer["attributes"]["pieces"] == 1
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "votingage * hispanic: Hispanic, 18 and over, not Hispanic, under 18" in page


@pytest.mark.slow_cases("US_Unit_PL-detailed-occupied")
@pytest.mark.parametrize(
    ("product", "query", "cell"),
    [("US_Unit_PL", "detailed", "occupied"), ("PR_Person_PL", "hhgq", "households"), ("US_DHCP", "hispanic*sex", "3")],
)
def test_other_products_run_too(
    published: tuple[Path, dict[str, Replica]], tmp_path: Path, product: str, query: str, cell: str
) -> None:
    prior = ("--leaf-prior", "negative-binomial=0.5,4")
    answer = answered(published[0], tmp_path / "out", product, query, "--cell", cell, *prior)
    assert commands.number(answer, "answered") == commands.number(answer, "leaves") > 0
    statuses = {row["status"] for row in commands.rows(answer, "blocks") if row["value"]}
    assert statuses <= {"ok", "certain"}


def test_without_a_product_the_folders_are_named(published: tuple[Path, dict[str, Replica]], tmp_path: Path) -> None:
    result = commands.run("spine", str(published[0]), "--query", "total", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "several products lie in it (PR_Person_PL_PROD, US_DHCP_PROD" in commands.flat(result.stderr)
    assert commands.run("nmf", "check", str(published[0] / "US_DHCP_PROD")).exit_code == 0
