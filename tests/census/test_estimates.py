"""All queries of a file read together: in each unit dense least squares over its records; and what exact sums add."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adversary import nmf
from adversary.census import spine
from adversary.census.nmf.runs import RunInput, run
from adversary.census.nmf.runs.run_findings import of_cell
from tests import commands
from tests.census.test_nmf import PERSONS, UNITS, records
from tests.oracles.noisy_measurement_file import PERSONS as AXES
from tests.oracles.noisy_measurement_file import Replica, answer, words

DETAILED = dict.fromkeys(AXES, "detailed")
MEASURED = {
    "total": words(AXES),
    "hhgq": words(AXES, hhgq="hhgq"),
    "votingage * hispanic": words(AXES, votingage="votingage", hispanic="hispanic"),
    "hhinstlevels": words(AXES, hhgq="hhinstlevels"),
    "detailed": DETAILED,
}
SHAPE = tuple(AXES.values())
KIND = np.indices(SHAPE)[0].ravel()


def rows(kept: Any, held: dict[str, str]) -> Any:
    """(row, cell) which of some cells each row of a query counts."""
    return np.array([answer(one, held).ravel() for one in np.eye(KIND.size)[kept].reshape(-1, *SHAPE)]).T


def dense(made: Replica, code: str, recorded: Any, of: dict[str, str]) -> tuple[Any, Any]:
    """(row,) estimates of a query's rows, and their variances, from all records of a unit and the kinds it has."""
    kept = np.flatnonzero((made.facilities[code] > 0)[KIND])
    exact = int(code == "")
    normal, right = np.zeros((kept.size + exact, kept.size + exact)), np.zeros(kept.size + exact)
    for name, held in MEASURED.items():
        value, variance = recorded[name][code or "US"]
        one = rows(kept, held)
        normal[: kept.size, : kept.size] += one.T @ one / variance
        right[: kept.size] += one.T @ value / variance
    if exact:
        normal[-1, :-1] = normal[:-1, -1] = 1.0
        right[-1] = made.truth[code].sum()
    table, inverse = rows(kept, of), np.linalg.inv(normal)
    return table @ (inverse @ right)[: kept.size], ((table @ inverse[: kept.size, : kept.size]) * table).sum(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "of", "cells"), [("hhgq", MEASURED["hhgq"], [0, 3]), ("detailed", DETAILED, [0, 261, 1700])]
)
def test_estimates_are_dense_least_squares_over_every_record_of_a_unit(
    published: tuple[Path, dict[str, Replica]], query: str, of: dict[str, str], cells: list[int]
) -> None:
    folder, made = published[0], published[1][PERSONS]
    recorded = {name: records(made.folder, "DPQuery", f"{name}_dpq") for name in MEASURED}
    found = nmf.read(folder, query, cells, product=PERSONS, totals=folder / "totals.csv", queries="all")
    assert found.single_query is not None
    blocks = [code for code, level in made.level_of.items() if level == "Block"]
    mixed, plain = (
        next(code for code in blocks if (made.facilities[code] > 0).sum() == n and code in recorded[query])
        for n in (2, 1)
    )
    for code in (mixed, plain, "104", ""):
        mean, variance = dense(made, code, recorded, of)
        v = int(found.tree.index(code or "US"))
        for i, cell in enumerate(cells):
            if variance[cell] < 1e-9:  # nobody can be there
                assert (found.rho[v, i], found.released[v, i]) == (np.inf, 0.0)
                continue
            assert found.released[v, i] == pytest.approx(mean[cell], rel=1e-9, abs=1e-8)
            assert 0.5 / found.rho[v, i] == pytest.approx(variance[cell], rel=1e-8)
            assert found.rho[v, i] > found.single_query.rho[v, i]
        assert found.total_precision[v, 0] == pytest.approx(
            sum(0.5 / recorded[name][code or "US"][1] for name in MEASURED)
        )
        assert found.has_exact[v, 0] == (code == "")
    assert found.has_exact[found.tree.index("44")].all()
    alone = nmf.read(folder, query, cells, product=PERSONS, totals=folder / "totals.csv")
    for name in ("released", "rho", "low", "high", "published", "total_precision", "has_exact"):
        np.testing.assert_array_equal(getattr(found.single_query, name), getattr(alone, name))


def test_of_two_cells_with_an_exact_sum_each_is_measured_twice(published: tuple[Path, dict[str, Replica]]) -> None:
    folder, made = published[0], published[1][UNITS]
    noisy, total = records(made.folder, "DPQuery", "detailed_dpq"), records(made.folder, "Constraint", "total_con")
    found = nmf.read(folder, "detailed", "occupied", product=UNITS)
    assert found.exact == ("total_con (US, State, County, Tract, Block_Group, Block)",)
    for code, (value, variance) in noisy.items():
        v = int(found.tree.index(code))
        if found.rho[v] == np.inf:
            continue
        assert found.released[v] == pytest.approx((value[1] + total[code][0][0] - value[0]) / 2)
        assert found.rho[v] == pytest.approx(1 / variance)
        assert (found.published[v], found.has_exact[v]) == (value[1], True)
        assert found.total_precision[v] == pytest.approx(0.5 / variance)


def test_the_two_answers_of_housing_units_are_enumerated() -> None:
    """One block: occupied and vacant with noise each, their sum exact; the posterior is that of both answers."""
    found = spine.posterior(spine.Tree.of({"b": None}), [3.5], [0.25], spine.Flat(), bounds=([0], [6]), whole=False)
    x = np.arange(7)
    p = np.exp(-0.125 * ((4 - x) ** 2 + (3 - (6 - x)) ** 2))  # 4 occupied, 3 vacant of 6
    np.testing.assert_allclose(found.pmf("b"), p / p.sum(), rtol=1e-12)


def test_a_run_has_one_query_beside_all_of_them(tmp_path: Path) -> None:
    recipe = nmf.Recipe(60, 2, seed=4, areas=0, shape=(3, 2, 2, 4))
    file = nmf.synthesise(tmp_path / "file", recipe)
    every = run(
        RunInput(str(file), "detailed", [(0, 1, 0, 0), (0, 0, 1, 1)], prior=0.2, queries="all"), tmp_path / "all"
    )
    one = run(RunInput(str(file), "detailed", [(0, 1, 0, 0), (0, 0, 1, 1)], prior=0.2), tmp_path / "one")
    for cell in every.measurements.cells:
        both, alone = of_cell(every.files, int(cell)), of_cell(one.files, int(cell))
        assert both.ratios.size == 60
        np.testing.assert_allclose(both.single_query_ratios, alone.ratios, rtol=1e-8)
        assert np.isnan(alone.single_query_ratios).all()
        assert np.abs(both.ratios - alone.ratios).max() > 1e-3
        assert both.guarantee.total > alone.guarantee.total


@pytest.mark.slow
def test_the_page_has_the_risk_under_one_query_beside_that_under_all(tmp_path: Path) -> None:
    file = nmf.synthesise(tmp_path / "file", nmf.Recipe(40, 1, seed=4, areas=0, shape=(3, 2, 2, 4)))
    command = ("spine", str(file), "--query", "detailed", "--cell", "0,1,0,0", "--state", "99", "--out")
    answer = commands.answered(*command, str(tmp_path / "all"), "--queries", "all", silent=False)
    assert "one_query_ratio" in json.dumps(answer)
    page = (tmp_path / "all/report.html").read_text(encoding="utf-8")
    for text in ("ratio under one query", "under one query", "other cells are not negative", "covers all queries"):
        assert text in page
    alone = nmf.synthesise(tmp_path / "alone", nmf.Recipe(40, 1, 4, (3, 2, 2, 4), ("detailed",), areas=0))
    told = commands.run("spine", str(alone), *command[2:], str(tmp_path / "told"), "--queries", "all")
    page = (tmp_path / "told/report.html").read_text(encoding="utf-8")
    assert (told.exit_code, "other cells are not negative" in page) == (0, False)
    wrong = commands.run(*command, str(tmp_path / "no"), "--queries", "some")
    assert (wrong.exit_code, "queries must be 'one' or 'all'" in commands.flat(wrong.stderr)) == (2, True)
