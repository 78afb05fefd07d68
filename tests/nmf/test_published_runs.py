"""`adversary spine` on the published layout, as the independent script writes it: names, exact counts, parts of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests import commands
from tests.oracles.noisy_measurement_file import Replica, archive


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Replica]]:
    """An archive of four products, and the counts behind it."""
    folder = tmp_path_factory.mktemp("archive")
    return folder, archive(folder)


def answered(folder: Path, out: Path, product: str, query: str, *more: str) -> dict[str, Any]:
    """What the command says as JSON."""
    totals = ("--state-totals", str(folder / "totals.csv"))
    command = ("spine", str(folder), "--product", product, "--query", query, *totals, "--out", str(out), *more)
    return commands.answered(*command, silent=False)


def test_a_state_has_both_parts_its_total_and_names(published: tuple[Path, dict[str, Replica]], tmp_path: Path) -> None:
    folder, made = published
    prior = ("--leaf-prior", "negative-binomial=0.5,8")
    answer = answered(folder, tmp_path / "out", "US_Person_PL", "total", "--state", "04", *prior)
    total = made["US_Person_PL_PROD"].truth["004"].sum() + made["US_Person_PL_PROD"].truth["104"].sum()
    assert f"Whole_State: Arizona has {total} residents" in answer["exact"]
    (one,) = answer["by_cell"]
    assert (one["label"], answer["pieces"], one["leaves"]) == ("P1 total", 3, 11)
    assert all(len(row["name"]) == 15 and row["geocode"].endswith(row["name"][-4:]) for row in one["worst"])
    above = pq.ParquetFile(tmp_path / "out/above.parquet").read().to_pylist()
    assert {row["geocode"]: row["name"] for row in above} == {
        "04": "Arizona",
        "004": "Arizona, outside American Indian, Alaska Native and Hawaiian areas",
        "104": "Arizona, inside American Indian, Alaska Native and Hawaiian areas",
    }
    assert above[0]["mean"] == total
    assert sum(row["mean"] for row in above[1:]) == pytest.approx(total)
    page = (tmp_path / "out/spine.html").read_text(encoding="utf-8")
    assert "P1 total" in page
    assert one["worst"][0]["name"] in page
    assert "What is known exactly" in page
    assert json.loads((tmp_path / "out/summary.json").read_text())["exact"] == answer["exact"]


def test_cells_are_asked_for_in_words(published: tuple[Path, dict[str, Replica]], tmp_path: Path) -> None:
    words = ("--cell", "Hispanic, 18 and over", "--cell", "0", "--county", "44001")
    answer = answered(published[0], tmp_path / "out", "US_Person_PL", "VOTINGAGE*HISPANIC", *words)
    assert [(one["cell"], one["label"]) for one in answer["by_cell"]] == [
        (3, "Hispanic, 18 and over"), (0, "not Hispanic, under 18"),
    ]  # fmt: skip
    assert answer["pieces"] == 1
    page = (tmp_path / "out/spine-3.html").read_text(encoding="utf-8")
    assert "votingage * hispanic, Hispanic, 18 and over" in page


@pytest.mark.parametrize(
    ("product", "query", "cell"),
    [("US_Unit_PL", "detailed", "occupied"), ("PR_Person_PL", "hhgq", "households"), ("US_DHCP", "hispanic*sex", "3")],
)
def test_other_products_run_too(
    published: tuple[Path, dict[str, Replica]], tmp_path: Path, product: str, query: str, cell: str
) -> None:
    prior = ("--leaf-prior", "negative-binomial=0.5,4")
    answer = answered(published[0], tmp_path / "out", product, query, "--cell", cell, *prior)
    (one,) = answer["by_cell"]
    assert one["answered"] == one["leaves"] > 0
    assert set(one["status"]) <= {"ok", "certain"}


def test_without_a_product_the_folders_are_named(published: tuple[Path, dict[str, Replica]], tmp_path: Path) -> None:
    result = commands.run("spine", str(published[0]), "--query", "total", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "several products lie in it (PR_Person_PL_PROD, US_DHCP_PROD" in commands.flat(result.stderr)
    assert commands.run("nmf", "check", str(published[0] / "US_DHCP_PROD")).exit_code == 0
