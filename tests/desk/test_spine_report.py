"""The page about every block: its words and numbers, what is escaped, and how it is written."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary import nmf
from adversary.desk.kit import section
from adversary.desk.report import spine_page
from adversary.nmf.runs import (
    block_results,
    county_runs,
    run_findings,
)
from tests.desk.test_spine_figures import PRIOR, county, table


def account(**more: Any) -> spine_page.SpinePage:
    found = county()[-1]
    given = {"dropped": found.dropped, "leaf_prior": "a rate per group", "known": "the others", **more}
    return spine_page.SpinePage(table(), "county/", "TOTAL", **given)


def words(one: spine_page.SpinePage) -> str:
    """The text of the page, no picture in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(section, "inline", lambda figure: "data:image/svg+xml;base64,")
        page = spine_page.render(one)
    body = re.sub(r"<[^>]+>", " ", page.split("<body>")[1])
    return " ".join(html.unescape(body).replace("\u00a0", " ").split())


def test_it_says_what_was_read_promised_and_found() -> None:
    text = words(account())
    ratio = block_results.blocks(table(), "ratio")
    assert "Every block: TOTAL" in text
    assert "In 60 blocks a reader wonders" in text
    assert "zero-concentrated DP with rho = 0.3500 on the weakest path." in text
    assert f"{ratio.max():.3f} at most" in text
    assert "group 6 6 0 1.581" in text
    assert "ok: 60 blocks, found, and proven to the tolerance." in text
    assert "within the tolerance of 1.0e-10" in text
    assert "prior of the blocks' counts a rate per group" in text
    assert "Take care" not in text
    worst = table()["geocode"][block_results.worst_rows(table(), 1)[0]]
    assert worst in text


def test_shares_above_thresholds_are_those_of_the_blocks() -> None:
    ratio = block_results.blocks(table(), "ratio")
    text = words(account(thresholds=(1.25,)))
    assert f"shares of blocks at 1.25 or more: {100 * (ratio >= 1.25).mean():.4g}".rstrip("0") in text


def test_geocodes_and_words_are_escaped() -> None:
    names = table()["geocode"].copy()
    names[block_results.worst_rows(table(), 1)] = "<script>alert(1)</script>"
    page = spine_page.render(replace(account(cell="<i>5</i>"), table={**table(), "geocode": names}))
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "<i>" not in page
    assert page.count("data:image/svg+xml;base64,") == 3


def test_it_warns_of_what_is_made_up_and_of_what_is_not_proven() -> None:
    text = words(account(synthetic=True, dropped=1e-3))
    assert "This population is made up." in text
    assert "proven to be below 1.0e-03 only" in text
    assert "beyond the tolerance" in text


def test_blocks_whose_readers_are_mistaken_are_listed_apart() -> None:
    tree, truth, released, rho, found = county()
    members = found.membership(0.1, truth[tree.leaves] + 12)
    wrong = block_results.results(released, rho, found, members)
    mistaken = members["tail"].values < 1e-3
    assert 10 < mistaken.sum() <= 60
    assert (wrong["status"][tree.leaves] == "mistaken").sum() == mistaken.sum()
    text = words(replace(account(), table=wrong))
    assert f"In {mistaken.sum()} blocks the release contradicts what the reader is said to know" in text
    assert "Blocks whose readers are mistaken" in text
    codes = set(tree.names[tree.leaves][mistaken])
    assert not codes & set(run_findings.findings([wrong]).worst.get("geocode", []))
    assert "Blocks whose readers are mistaken" not in words(account())


def test_the_reader_who_does_not_know_the_others_is_within_the_bounds() -> None:
    _, _, released, rho, found = county()
    fair = block_results.results(released, rho, found, found.membership(0.1))
    low, high = block_results.path_guarantee(fair).ratio(0.1)
    ratio = block_results.blocks(fair, "ratio")
    assert ((low <= ratio) & (ratio <= high)).mean() >= 0.95
    text = words(replace(account(), table=fair, known=spine_page.UNKNOWN))
    assert "knows nothing of the others in the block, who follow the prior of the blocks' counts" in text
    assert "Take care" not in text


def test_what_is_known_exactly_has_a_section() -> None:
    text = words(replace(account(exact=("hhgq_total_ub_con (block)",)), table=settled()))
    assert "What is known exactly" in text
    assert "hhgq_total_ub_con (block)" in text
    assert "What is known exactly" not in words(account())


def test_blocks_without_a_number_are_counted() -> None:
    status, ratio = table()["status"].copy(), table()["ratio"].copy()
    status[-2:], ratio[-2:] = "unresolved", np.nan
    text = words(replace(account(), table={**table(), "status": status, "ratio": ratio}))
    assert "2 blocks have no number; the statuses below say why." in text
    assert "In 58 blocks" in text
    assert "unresolved: 2 blocks, not proven, so that no number is given." in text


def test_a_page_without_any_proven_block_is_a_page() -> None:
    status = np.where(np.isfinite(table()["path_rho"].astype(float)), "unresolved", table()["status"])
    text = words(replace(account(), table={**table(), "status": status}))
    assert "No block has an answer that is proven." in text
    assert "Left out:" in text


def test_beside_an_exact_total_it_says_that_rho_doubles() -> None:
    assert "two paths change, and rho doubles to 0.6000" in words(replace(account(), table=table(exact=True)))


def settled() -> dict[str, Any]:
    """The table with the count of one block exact, and one settled by the counts of others."""
    variance, status, ratio = (table()[name].copy() for name in ("variance", "status", "ratio"))
    leaves = np.flatnonzero(np.isfinite(table()["path_rho"]))
    variance[leaves[0]], status[leaves[:2]], ratio[leaves[:2]] = 0.0, "certain", (0.0, 10.0)
    return {**table(), "variance": variance, "status": status, "ratio": ratio}


def test_blocks_that_no_noise_protects_are_risks_and_not_under_the_promise() -> None:
    found = run_findings.findings([settled()])
    assert (found.leaves, found.ratios.size, found.unprotected) == (60, 60, 2)
    assert found.promised == block_results.path_guarantee(settled()) == block_results.path_guarantee(table())
    assert (found.ratios.min(), found.ratios.max(), found.worst["ratio"][0]) == (0.0, 10.0, 10.0)
    assert found.at_least(9.0) == pytest.approx(1 / 60)
    assert found.beyond(0.1)[1] == (block_results.blocks(table(), "ratio")[2:] > found.promised.ratio(0.1)[1]).mean()
    text = words(replace(account(), table=settled()))
    assert "In 60 blocks a reader wonders" in text
    assert "No noise protects 2 blocks" in text
    assert "by 0 at least and 10 at most" in text


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
    assert (one.promised, one.status, one.leaves) == (many.promised, many.status, many.leaves)
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
    assert "Of levels with many units some are drawn." in words(account())


def test_errors_have_a_section_of_their_own() -> None:
    tree, truth, released, _, found = county()
    checked = block_results.errors(tree, truth, {"posterior": found, "noisy": released})
    text = words(account(errors=checked))
    assert "Beside the truth" in text
    assert "posterior: covers" in text
    assert "noisy: covers" not in text
    assert "Beside the truth" not in words(account())


def test_it_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(section, "inline", lambda figure: "data:image/svg+xml;base64,")
    page = spine_page.write_report(account(), tmp_path / "new")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert [path.name for path in page.parent.iterdir()] == ["spine.html"]
    page.parent.joinpath("file").touch()
    with pytest.raises(OSError, match="it is a file"):
        spine_page.write_report(account(), page.parent / "file")


def test_a_run_over_a_file_has_a_page_for_every_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(section, "inline", lambda figure: "data:image/svg+xml;base64,")
    recipe = nmf.Recipe(60, 2, 5, (1, 2, 1, 2), ("VOTINGAGE * CENRACE",))
    file = nmf.synthesise(tmp_path / "file", recipe)
    question = county_runs.Question(str(file), "VOTINGAGE * CENRACE", [0, 1], adv.spine.NegativeBinomial(0.5, 3.0))
    pages = spine_page.write_reports(question, county_runs.run(question, tmp_path / "out"), {0: "minors"})
    assert [page.name for page in pages] == ["spine-0.html", "spine-1.html"]
    text = pages[0].read_text(encoding="utf-8")
    assert "votingage * cenrace, minors" in text.lower()
    assert "This population is made up." in text
    assert "Black alone, under 18" in pages[1].read_text(encoding="utf-8")
    assert "State" in text
    assert PRIOR is not question.leaf_prior
