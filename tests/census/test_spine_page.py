"""The document about every block: its words and numbers, cells beside one another, and what of it is known exactly."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.stats import norm

import adversary as adv
from adversary import nmf
from adversary.census.nmf.runs import block_results, county_runs, findings, run_findings, run_input
from adversary.census.report import spine_answer, spine_cells, spine_page
from adversary.report.kit import Document, as_json, write
from adversary.report.kit.rendering import to_html, to_markdown
from tests import commands
from tests.census.test_spine_figures import PRIOR, county, table


def made(results: Any = None, *, thresholds: tuple[float, ...] = (2.0,), errors: Any = None, **more: Any) -> Document:
    """The document about a table of results."""
    found = findings([table() if results is None else results])
    about = {"query": "TOTAL", "prior": 0.1, "known": "a file", "tolerance": 1e-10, "leaf_prior": "a rate", **more}
    label = about.pop("label", "")
    return spine_page.document(
        *spine_answer.gather([spine_answer.Cell(0, label, found)], about, thresholds, errors=errors)
    )


def words(document: Document) -> str:
    """Its text on one line."""
    return commands.flat(to_markdown(document).replace("\\", ""))


def test_it_says_what_was_read_guaranteed_and_found() -> None:
    document = made(truncation_bound=county()[-1].truncation_bound)
    text, answer = words(document), as_json(document.data)
    ratio = block_results.blocks(table(), "ratio")
    assert "# Every block: TOTAL" in text
    assert "In 60 blocks the release multiplies a prior of 10% by" in text
    assert f"to {ratio.max():.1f};" in text
    assert "zero-concentrated DP with rho = 0.350." in text
    assert "| group | 6 | 6 | 1.58 | 1.58 |" in text
    assert "| ok | 60 | proven within the tolerance |" in text
    assert "Take care" not in text
    assert commands.number(answer, "ratio", group="risk", cell=0, quantile=1.0) == ratio.max()
    assert commands.number(answer, "rho", group="guarantee") == pytest.approx(0.35)
    assert commands.numbers(answer, "geocode", group="worst", rank=1) == [
        table()["geocode"][block_results.worst_rows(table(), 1)[0]]
    ]


def test_blocks_with_the_same_ratio_share_their_place() -> None:
    same = table()
    first, *more = block_results.worst_rows(same, 3)
    alike = {name: np.array(same[name]) for name in ("ratio", "posterior")}
    for values in alike.values():
        values[more] = values[first]
    document = made(same | alike)
    assert commands.numbers(as_json(document.data), "place", group="worst")[:4] == ["1=", "1=", "1=", "4"]
    assert ", as much as in 2 more: the posterior is" in words(document)
    assert commands.numbers(as_json(made().data), "place", group="worst")[:2] == ["1", "2"]


def test_shares_above_thresholds_are_those_of_the_blocks() -> None:
    ratio = block_results.blocks(table(), "ratio")
    answer = as_json(made(thresholds=(1.25,)).data)
    assert commands.number(answer, "share", threshold=1.25) == (ratio >= 1.25).mean()


def test_it_warns_of_what_is_made_up_and_of_what_is_not_proven() -> None:
    loose = {**table(), "truncation_bound": np.full(table()["geocode"].size, 1e-3)}
    warnings = made(loose, synthetic=True).summary.warnings
    assert "This population is synthetic." in warnings[0]
    assert "proven to be below 1.0e-03 only" in warnings[1]


def test_blocks_where_the_adversary_is_mistaken_are_listed_apart() -> None:
    tree, truth, released, rho, found = county()
    members = found.membership(0.1, truth[tree.leaves] + 12)
    wrong = block_results.results(released, rho, found, members)
    mistaken = members["tail"].values < 1e-3
    assert 10 < mistaken.sum() <= 60
    assert (wrong["status"][tree.leaves] == "mistaken").sum() == mistaken.sum()
    document = made(wrong, mistaken=1e-3)
    assert f"In {mistaken.sum()} blocks the release contradicts the count that the adversary knows" in words(document)
    answer = as_json(document.data)
    codes = set(tree.names[tree.leaves][mistaken])
    assert set(commands.numbers(answer, "geocode", group="mistaken")) <= codes
    assert not codes & {row["value"] for row in commands.rows(answer, "geocode", group="worst")}
    assert "mistaken" not in made().data.children


def test_the_adversary_who_does_not_know_the_others_is_within_the_bounds() -> None:
    _, _, released, rho, found = county()
    fair = block_results.results(released, rho, found, found.membership(0.1))
    low, high = block_results.path_guarantee(fair).ratio(0.1)
    ratio = block_results.blocks(fair, "ratio")
    assert ((low <= ratio) & (ratio <= high)).mean() >= 0.95
    document = made(fair, known=None)
    assert "knows nothing of the others in the block, who follow the prior of the blocks' counts" in words(document)
    assert not document.summary.warnings
    assert document.summary.status == "holds"


def test_what_is_known_exactly_has_a_table() -> None:
    text = words(made(settled(), exact=["hhgq_total_ub_con (block)"]))
    assert "What is known exactly" in text
    assert "hhgq_total_ub_con (block)".replace("_", "_") in text
    assert "What is known exactly" not in words(made())


def test_blocks_without_a_number_are_counted() -> None:
    status, ratio = table()["status"].copy(), table()["ratio"].copy()
    status[-2:], ratio[-2:] = "unresolved", np.nan
    text = words(made({**table(), "status": status, "ratio": ratio}))
    assert "2 blocks have no number; the statuses below say why." in text
    assert "In 58 blocks" in text
    assert "| unresolved | 2 | not proven, so no number is given |" in text


def test_a_page_without_any_proven_block_is_a_page() -> None:
    status = np.where(np.isfinite(table()["path_rho"].astype(float)), "unresolved", table()["status"])
    page = to_html(made({**table(), "status": status}))
    assert "No block has an answer that is proven." in page
    assert "Left out:" in page


def test_beside_an_exact_total_rho_doubles() -> None:
    document = made(table(exact=True))
    assert "rho = 0.600" in words(document)
    assert commands.number(as_json(document.data), "records", group="guarantee") == 2


def settled() -> dict[str, Any]:
    """The table with the count of one block exact, and one settled by the counts of others."""
    variance, status, ratio = (table()[name].copy() for name in ("variance", "status", "ratio"))
    leaves = np.flatnonzero(np.isfinite(table()["path_rho"]))
    variance[leaves[0]], status[leaves[:2]], ratio[leaves[:2]] = 0.0, "certain", (0.0, 10.0)
    return {**table(), "variance": variance, "status": status, "ratio": ratio}


def test_blocks_that_no_noise_protects_are_risks_and_not_under_the_guarantee() -> None:
    found = run_findings.findings([settled()])
    assert (found.leaves, found.ratios.size, found.unprotected) == (60, 60, 2)
    assert found.guarantee == block_results.path_guarantee(settled()) == block_results.path_guarantee(table())
    assert (found.ratios.min(), found.ratios.max(), found.worst["ratio"][0]) == (0.0, 10.0, 10.0)
    assert found.at_least(9.0) == pytest.approx(1 / 60)
    assert found.beyond(0.1)[1] == (block_results.blocks(table(), "ratio")[2:] > found.guarantee.ratio(0.1)[1]).mean()
    document = made(settled())
    text, ratio = words(document), block_results.blocks(table(), "ratio")[2:]
    ends = [f"{x:.2g}" for x in (ratio.min(), ratio.max(), np.median(ratio))]
    assert f"In 58 blocks the release multiplies a prior of 10% by {ends[0]} to {ends[1]};" in text
    assert f"in half of them by less than {ends[2]}. No noise protects 2 blocks more; in 1 of them one more" in text
    assert commands.number(as_json(document.data), "ratio", group="risk", quantile=0.5) == np.median(ratio)
    assert commands.number(as_json(document.data), "surely_there", group="cells") == 1
    assert "No noise protects 2 blocks: exact counts determine" in text


def test_where_exact_counts_settle_all_blocks_no_range_is_given() -> None:
    every, leaves = settled(), np.isfinite(table()["path_rho"])
    status, ratio = every["status"].copy(), every["ratio"].copy()
    status[leaves], ratio[leaves] = "certain", 0.0
    document = made(every | {"status": status, "ratio": ratio})
    assert document.summary.verdict == "Exact counts determine the result in all 60 blocks with an answer."
    assert document.card is not None
    assert (document.summary.status, len(document.card.numbers)) == ("", 1)


@pytest.mark.parametrize(("lost", "first"), [(31, True), (30, False)])
def test_a_verdict_over_few_proven_blocks_says_so_first(lost: int, first: bool) -> None:
    leaves = np.flatnonzero(np.isfinite(table()["path_rho"].astype(float)))[:lost]
    status, ratio = table()["status"].copy(), table()["ratio"].copy()
    status[leaves], ratio[leaves] = "unresolved", np.nan
    summary = made({**table(), "status": status, "ratio": ratio}).summary
    assert summary.verdict.startswith("31 of 60 blocks have no proven answer. In 29 blocks the") == first
    assert summary.status == ("unreliable" if first else "holds")


def test_parts_found_one_by_one_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_findings, "WORST", 4)
    size = table()["geocode"].size
    cuts = [0, 1, 7, 30, size]
    parts = [{name: values[a:b] for name, values in settled().items()} for a, b in pairwise(cuts)]
    one, many = run_findings.findings([settled()]), run_findings.findings(parts)
    np.testing.assert_array_equal(one.ratios, many.ratios)
    np.testing.assert_array_equal(one.protected, many.protected)
    np.testing.assert_array_equal(one.worst["geocode"], many.worst["geocode"])
    assert one.worst["geocode"].size == 4
    assert (one.guarantee, one.status, one.leaves) == (many.guarantee, many.status, many.leaves)
    for name, level in one.levels.items():
        assert (level.units, level.measured, level.exact, level.variance, level.below) == tuple(
            getattr(many.levels[name], each) for each in ("units", "measured", "exact", "variance", "below")
        )
        np.testing.assert_array_equal(level.points, many.levels[name].points)
        assert level.squares == pytest.approx(many.levels[name].squares)


def test_points_are_thinned_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_findings, "POINTS", 20)
    level = run_findings.findings([table()]).levels["block"]
    assert (level.points.shape, level.measured) == ((2, 15), 60)
    assert any("Of levels with many units some are drawn." in one.caption for one in made().figures)


def test_errors_have_a_section_of_their_own() -> None:
    tree, truth, released, _, found = county()
    checked = block_results.errors(tree, truth, {"posterior": found, "noisy": released})
    document = made(errors=checked)
    assert "Beside the truth" in words(document)
    answer = as_json(document.data)
    assert commands.number(answer, "rmse", level="block", estimate="posterior") == float(
        checked["rmse"].sel(level="block", estimate="posterior")
    )
    assert set(commands.numbers(answer, "coverage", estimate="noisy")) == {None}


@pytest.mark.parametrize("prob", [0.5, 0.9])
def test_intervals_of_least_squares_hold_what_they_claim(prob: float) -> None:
    """Errors are the quantiles of a normal law, times the standard deviations: so many of a thousand lie within."""
    tree = adv.spine.Tree.of({"g": None} | {f"b{i}": "g" for i in range(1000)})
    sd = np.linspace(20.0, 90.0, 1001)
    miss = np.append(0.0, norm.ppf((np.arange(1000) + 0.5) / 1000)) * sd
    truth = np.arange(1001) * 7 + 1000
    squares = xr.Dataset({"mean": ("unit", truth + miss), "sd": ("unit", sd)})
    found = block_results.errors(tree, truth, {"squares": squares}, prob).sel(level="level 1", estimate="squares")
    assert (float(found["coverage"]), float(found["claimed"])) == (pytest.approx(prob), pytest.approx(prob))
    assert float(found["rmse"]) == pytest.approx(np.sqrt((miss[1:] ** 2).mean()))


@pytest.mark.slow
def test_cells_of_a_run_stand_beside_one_another(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    recipe = nmf.Recipe(60, 2, 5, (1, 2, 1, 2), ("VOTINGAGE * CENRACE",))
    file = nmf.synthesise(tmp_path / "file", recipe)
    question = run_input.RunInput(str(file), "VOTINGAGE * CENRACE", [0, 1], adv.spine.NegativeBinomial(0.5, 3.0))
    run = county_runs.run(question, tmp_path / "out")
    document = spine_page.document(*spine_answer.solve(question, run))
    answer, text = as_json(document.data), words(document)
    for cell in (0, 1):
        ratios = run_findings.of_cell(run.files, cell).ratios
        assert commands.number(answer, "ratio", group="risk", cell=cell, quantile=1.0) == ratios.max()
    assert "votingage * cenrace" in text.lower()
    assert "Black alone, under 18" in text
    assert "This population is synthetic." in text
    names = {path.name for path in write(document, run.out)}
    assert {"report.html", "data.nc", "worst.csv", "risk.csv", "risk_0.svg", "risk_1.svg"} <= names
    assert PRIOR is not question.leaf_prior


def test_what_is_unresolved_under_one_query_has_a_status_and_no_number() -> None:
    """Under one query only settled blocks have a ratio, 0: quantiles of them would not be of the blocks beside them."""
    every, leaves = settled(), np.isfinite(table()["path_rho"])
    status = np.where(leaves, np.where(every["status"] == "certain", "certain", "unresolved").astype(object), None)
    alone = np.where(status == "certain", 0.0, np.nan)
    partly = every | {"one_query_status": status, "one_query_ratio": alone, "one_query_posterior": alone}
    document = made(partly, queries="all")
    text, answer = words(document), as_json(document.data)
    assert "Under one query 58 of 60 blocks have no number (2 certain, 58 unresolved)." in text
    assert set(commands.numbers(answer, "one_query_ratio", group="risk")) == {None}
    counts = {"certain": 2, "unresolved": 58, "ok": 0}
    for name, count in counts.items():
        assert commands.number(answer, "one_query_blocks", group="statuses", status=name) == count
    assert "| unresolved | 0 | 58 |" in text
    risk, worst = (next(one for one in document.tables if one.name == name) for name in ("risk", "worst"))
    assert {row[-1] for row in risk.rows} == {"unresolved"}
    assert [row[-3] for row in worst.rows] == [0.0 if row[-1] == "certain" else "unresolved" for row in worst.rows]
    done = np.where(leaves, 1.5, np.nan)
    whole = every | {"one_query_status": np.where(leaves, "ok", None), "one_query_ratio": done}
    document = made(whole | {"one_query_posterior": 0.1 * done}, queries="all")
    assert "Under one query" not in words(document)
    assert set(commands.numbers(as_json(document.data), "one_query_ratio", group="risk")) == {1.5}


def test_a_warning_about_several_cells_is_said_once() -> None:
    found = findings([settled()])
    about = {"query": "TOTAL", "prior": 0.1, "known": "a file", "tolerance": 1e-10}
    cells = [spine_answer.Cell(i, label, found) for i, label in enumerate(("young", "old"))]
    cells.append(spine_answer.Cell(2, "any", findings([table()])))
    warnings = spine_page.document(*spine_answer.gather(cells, about)).summary.warnings
    assert [text.partition(" 2 ")[0] for text in warnings] == ["young; old: No noise protects"]


def many(count: int = 6) -> Document:
    """The document about so many cells, one of them without an answer."""
    about = {"query": "DETAILED", "prior": 0.1, "known": "a file", "tolerance": 1e-10}
    cells = []
    for i in range(count - 1):
        ratio, status = table()["ratio"] * (1.0 + 0.1 * i), table()["status"].copy()
        status[-2 - i :] = "unresolved"
        ratio = np.where(status == "unresolved", np.nan, ratio)
        cells.append(spine_answer.Cell(i, f"cell {i}", findings([{**table(), "ratio": ratio, "status": status}])))
    status = np.where(np.isfinite(table()["path_rho"].astype(float)), "unresolved", table()["status"])
    lost = findings([{**table(), "status": status}])
    cells.append(spine_answer.Cell(count - 1, "lost", lost))
    return spine_page.document(*spine_answer.gather(cells, about))


def test_many_cells_have_a_list_first_and_a_section_each() -> None:
    document = many()
    assert not document.failures
    titles = [section.title for section in document.sections]
    assert titles[:4] == ["The cells", "Cell by cell", "The guarantee", "What was read"]
    listed = document.sections[0].tables[0]
    assert [row[1] for row in listed.rows] == [f"cell {i}" for i in (4, 3, 2, 1, 0)] + ["lost"]
    parts = document.sections[1].parts
    assert [part.title for part in parts] == [row[1] for row in listed.rows]
    assert parts[-1].finding == "No block that noise protects has a proven answer."
    assert all(len(part.tables[0].rows) <= spine_cells.BLOCKS for part in parts[:-1])
    assert "Blocks that are unresolved: 6." in parts[0].paragraphs[0]
    rest = [table for section in document.sections[2:] for table in section.tables]
    assert all("cell" not in [column.head for column in table.columns] for table in rest)
    assert {"cells", "cells_1"} & {figure.name for figure in document.figures}


def test_a_warning_that_differs_in_its_numbers_is_given_once_for_many_cells() -> None:
    (warning,) = [text for text in many().summary.warnings if "no number" in text]
    assert warning.startswith("cell 4: 6 blocks have no number;")
    assert warning.endswith("So, with other numbers, in 5 more of 6 cells.") or "in 4 more of 6" in warning


def test_few_cells_stand_beside_one_another_as_before() -> None:
    document = many(4)
    assert document.sections[0].title == "How the risk is spread over the blocks"
