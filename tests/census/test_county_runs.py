"""A spine done county by county is the whole tree, to the ledger's bound; who does it, and when, changes no byte."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import adversary as adv
from adversary import nmf
from adversary._core.store import RECORDS
from adversary.census.nmf.runs import county_runs
from adversary.census.nmf.runs.county_runs import run
from adversary.census.nmf.runs.run_findings import of_cell, write_blocks_csv
from adversary.census.nmf.runs.run_input import RunInput, description, leaf_prior
from adversary.census.nmf.units import geoid, name_of
from adversary.census.report import spine_answer, spine_page
from tests import commands
from tests._core.test_store import contents

CELLS = [1, (1, 0, 0, 2)]
COUNTIES = ("09910001", "09910002", "19900001")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state of two counties and an American Indian area; its total is exact, its cells are not."""
    recipe = nmf.Recipe(70, 3, seed=1, areas=1, shape=(2, 2, 1, 3), queries=("TOTAL", "DETAILED"))
    return nmf.synthesise(tmp_path_factory.mktemp("spine") / "state", recipe)


@pytest.fixture(scope="module")
def asked(file: Path) -> RunInput:
    """Two cells of it."""
    return RunInput(str(file), "detailed", CELLS, prior=0.2)


@pytest.fixture(scope="module")
def done(asked: RunInput, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run in this process, without interruption."""
    return run(asked, tmp_path_factory.mktemp("runs") / "done")


def rows(made: Any) -> dict[tuple[str, int], dict[str, Any]]:
    """Every row of a run by geocode and cell, of all its files."""
    files = [*made.pieces.values(), *made.out.glob(county_runs.ABOVE)]
    found = [row for one in files for row in pq.ParquetFile(one).read().to_pylist()]
    by_name = {(row["geocode"], row["cell"]): row for row in found}
    assert len(by_name) == len(found)
    return by_name


def test_every_block_and_cell_has_a_row_in_a_csv_file(done: Any, tmp_path: Path) -> None:
    path = write_blocks_csv(done, tmp_path / "blocks.csv")
    with path.open(encoding="utf-8", newline="") as opened:
        found = list(csv.DictReader(opened))
    assert len(found) == 70 * len(CELLS)
    every = rows(done)
    for row in found:
        one = every[row["geocode"], int(row["cell"])]
        assert row["GEOID"] == one["name"] == geoid(row["geocode"])
        assert float(row["mean"]) == pytest.approx(one["mean"])
        assert row["status"] == one["status"]
    assert {row["label"] for row in found} == set(done.measurements.labels)
    assert [one.name for one in tmp_path.iterdir()] == ["blocks.csv"]


@pytest.mark.slow
def test_pieces_are_the_whole_tree_to_the_bound_of_the_ledger(done: Any, asked: RunInput) -> None:
    read = nmf.read(asked.directory, asked.query, CELLS)
    whole = adv.spine.posterior(read.tree, read.released, read.rho, bounds=read.bounds)
    sets, members = whole.hdi(), whole.membership(0.2).set_coords("status")
    found = rows(done)
    assert len(found) == 2 * len(read.tree)
    assert float(np.max(done.above.truncation_bound)) < 1e-12
    np.testing.assert_allclose(done.above.log_evidence, whole.log_evidence, atol=1e-11)
    leaves = read.tree.leaves.tolist()
    for i, cell in enumerate(read.cells.tolist()):
        for v, name in enumerate(read.tree.names.tolist()):
            row, near = found[name, cell], 1e-11 + 100 * float(np.max(whole.truncation_bound))
            assert row["truncation_bound"] < 1e-12
            assert row["level"] == read.tree.levels[read.tree.level[v]]
            assert row["noisy"] == (None if np.isnan(read.published[v, i]) else read.published[v, i])
            assert row["variance"] == (0.5 / read.rho[v, i] if read.rho[v, i] > 0 else None)
            assert row["name"] == (name_of(name, row["level"], read.states) or None)
            assert row["mean"] == pytest.approx(float(whole.mean[v, i]), abs=near)
            assert row["sd"] == pytest.approx(float(whole.sd[v, i]), abs=near)
            assert (row["hdi_lower"], row["hdi_upper"]) == (sets["lower"][v, i], sets["upper"][v, i])
            assert row["hdi_mass"] == pytest.approx(float(sets["mass"][v, i]), abs=near)
            pmf = whole.pmf(name, i)
            assert row["p_zero"] == pytest.approx(float(pmf.sel(count=0)) if 0 in pmf["count"] else 0.0, abs=near)
            if v not in leaves:
                assert (row["ratio"], row["log_odds"], row["path_rho"]) == (None, None, None)
                continue
            one = members.isel(unit=leaves.index(v), cell=i)
            assert row["log_odds"] == pytest.approx(float(one["log_odds"]), abs=1e-9)
            assert row["posterior"] == pytest.approx(float(one["posterior"]), abs=1e-7)
            assert row["ratio"] == pytest.approx(row["posterior"] / 0.2, rel=1e-12)
            assert row["status"] == ("certain" if read.rho[v, i] == np.inf and read.released[v, i] == 0 else "ok")
            assert (row["known"], row["tail"]) == (None, None)
            path = [v]
            while path[-1] > 0:
                path.append(int(read.tree.parent[path[-1]]))
            rho = read.rho[path, i]
            assert row["path_rho"] == pytest.approx(rho[np.isfinite(rho)].sum(), rel=1e-12)
            assert row["path_exact"] is bool(np.isinf(rho).any())


def test_an_exact_total_is_kept_across_counties(file: Path, tmp_path: Path) -> None:
    asked = RunInput(str(file), "total", leaf_prior=adv.spine.NegativeBinomial(0.5, 40.0))
    read = nmf.read(file, "total")
    whole = adv.spine.posterior(read.tree, read.released, read.rho, asked.leaf_prior, bounds=read.bounds)
    made = run(asked, tmp_path)
    assert made.above is not None
    assert made.above.mean.sel(unit="99").values.item() == read.released[1]
    found = rows(made)
    for v, name in enumerate(read.tree.names.tolist()):
        assert found[name, 0]["mean"] == pytest.approx(float(whole.mean[v]), rel=1e-9, abs=1e-9)
        assert found[name, 0]["path_exact"] is (v in read.tree.leaves)
    free = [row["path_rho"] for row in found.values() if row["path_rho"] and row["variance"] != 0.0]
    bound = spine_answer.solve(asked, made)[0]["guarantee"].to_dataset()
    assert float(bound["rho"][0]) == pytest.approx(2 * max(free))
    assert int(bound["records"][0]) == 2


def test_what_is_known_exactly_and_what_it_changed_is_told(file: Path, tmp_path: Path) -> None:
    made = run(RunInput(str(file), "total", leaf_prior=adv.spine.NegativeBinomial(0.5, 40.0)), tmp_path)
    answer, _ = spine_answer.solve(RunInput(str(file), "total"), made)
    assert "Whole_State: made-up state has" in answer.attrs["exact"]
    blocks = of_cell(made.files, 0).levels["Block"]
    assert blocks.exact == blocks.replaced > 0
    noisy = [row for row in rows(made).values() if row["level"] == "Block" and row["variance"] == 0.0]
    assert blocks.moved == pytest.approx(sum((row["noisy"] - row["mean"]) ** 2 for row in noisy))
    assert int(answer["levels"]["exact"].sel(level="Block")[0]) == blocks.exact


def test_readers_who_know_are_told_apart_where_the_release_contradicts_them(file: Path, tmp_path: Path) -> None:
    read = nmf.read(file, "total")
    blocks = read.tree.names[read.tree.leaves]
    truth = nmf.truth_of(file, blocks, "total", [0])[:, 0].astype(int)
    table = tmp_path / "known.csv"
    lines = [
        f"{geoid(code) if i % 2 else code},{n}" for i, (code, n) in enumerate(zip(blocks[:-1], truth, strict=False))
    ]
    table.write_text("\n".join(["geocode,known", *lines]) + "\n")
    told = RunInput(str(file), "total", known=str(table))
    made = run(told, tmp_path / "right")
    card = spine_page.document(*spine_answer.solve(told, made)).card
    assert f"how many others are there, in the blocks for which it is given ({table})" in str(card)
    right = rows(made)
    for code, n in zip(blocks[:-1], truth, strict=False):
        assert right[code, 0]["known"] == n
    assert right[blocks[-1], 0]["known"] is None
    assert sum(row["status"] == "mistaken" for row in right.values()) <= 3  # 70 readers at 0.001
    asked = RunInput(str(file), "total", known=0)
    wrong = run(asked, tmp_path / "wrong")
    found = rows(wrong)
    mistaken = {code for code in blocks if found[code, 0]["status"] == "mistaken"}
    assert str(blocks[truth.argmax()]) in mistaken
    assert all(found[code, 0]["tail"] < 1e-3 for code in mistaken)
    answer, _ = spine_answer.solve(asked, wrong)
    assert int(answer["statuses"]["blocks"].sel(status="mistaken")[0]) == len(mistaken)
    assert not mistaken & set(answer["worst"]["geocode"].values.ravel())
    assert set(answer["mistaken"]["geocode"].values.ravel()) <= mistaken
    bad = tmp_path / "bad.csv"
    bad.write_text("geocode,known\nx,1\n")
    with pytest.raises(ValueError, match="none of its 1 geocodes is a block of the file"):
        run(RunInput(str(file), "total", known=str(bad)), tmp_path / "no")
    bad.write_text("geocode,known\nx,0.5\n")
    with pytest.raises(ValueError, match=r"bad\.csv: row 2 must have columns geocode and known"):
        run(RunInput(str(file), "total", known=str(bad)), tmp_path / "no")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_is_one_line_that_says_how_to_go_on(
    sent: signal.Signals, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(sent)
    monkeypatch.setattr("adversary.census.report.spine_command.run", lambda *_, **__: signal.raise_signal(sent))
    result = commands.run("spine", str(file), "--query", "TOTAL", "--out", str(tmp_path))
    assert (result.exit_code, result.stderr) == (130, "interrupted: go on with --resume\n")
    assert signal.getsignal(sent) is before


def test_ctrl_c_waits_for_compiled_code() -> None:
    """Its answer is made into objects of Python by code that does not look for exceptions: it crashed."""
    from adversary._core.compiling import call

    before, finished = signal.getsignal(signal.SIGINT), []

    def function() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        finished.append(True)

    function.signatures = [()]  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        call(function)
    assert finished
    assert signal.getsignal(signal.SIGINT) is before


def test_a_county_is_bound_to_its_place_and_what_was_half_written_is_swept(
    done: Any, asked: RunInput, tmp_path: Path
) -> None:
    run(asked, tmp_path)
    messages, units = tmp_path / "messages" / "1e-34", tmp_path / "units"
    for one, other in (
        (units / f"County={COUNTIES[0]}/part.parquet", messages / f"{COUNTIES[0]}.npz"),
        (units / RECORDS / f"{COUNTIES[0]}.json", messages / RECORDS / f"{COUNTIES[0]}.json"),
        (units / f"County={COUNTIES[1]}/part.parquet", units / f"County={COUNTIES[2]}/part.parquet"),
        (units / RECORDS / f"{COUNTIES[1]}.json", units / RECORDS / f"{COUNTIES[2]}.json"),
    ):
        kept = one.read_bytes()
        one.write_bytes(other.read_bytes())
        other.write_bytes(kept)
    for name in (".above.parquet.", "units/_chunks/.x.json.", "messages/1e-34/._manifest.json.", ".report.html."):
        (tmp_path / f"{name}{'0f' * 16}").write_bytes(b"half")
    again = run(asked, tmp_path, resume=True)
    assert (again.unchanged, again.damaged) == ((), (COUNTIES[0], *COUNTIES))
    assert contents(tmp_path) == contents(done.out)


def test_a_run_that_is_refused_leaves_nothing_behind(
    asked: RunInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve = county_runs.solve_piece

    def refused(question: RunInput, piece: Any) -> Any:
        if piece.measurements.tree.names[0] == COUNTIES[1]:
            raise ValueError("no counts are possible")
        return solve(question, piece)

    monkeypatch.setattr(county_runs, "solve_piece", refused)
    with pytest.raises(ValueError, match="no counts are possible"):
        run(asked, tmp_path / "new" / "out")
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(ValueError, match="no counts are possible"):
        run(asked, tmp_path)
    assert list(contents(tmp_path)) == ["mine.txt"]


def test_other_questions_and_other_files_are_refused(done: Any, asked: RunInput, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"parameters\.prior is 0\.2 there, and 0\.3 now"):
        run(RunInput(asked.directory, asked.query, CELLS, prior=0.3), done.out, resume=True)
    with pytest.raises(ValueError, match=r'parameters\.leaf_prior\.kind is "SharedRate" there, and "Flat" now'):
        run(RunInput(asked.directory, asked.query, CELLS, adv.spine.Flat(), 0.2), done.out, resume=True)
    other = nmf.synthesise(
        tmp_path / "other", nmf.Recipe(70, 3, seed=2, areas=1, shape=(2, 2, 1, 3), queries=("DETAILED",))
    )
    with pytest.raises(ValueError, match=r"results of other work: its inputs were others, by their digest: delete it"):
        run(RunInput(str(other), asked.query, CELLS, prior=0.2), done.out, resume=True)
    with pytest.raises(ValueError, match=r"parameters\.known is null there, and 2 now"):
        run(replace(asked, known=2), done.out, resume=True)
    with pytest.raises(ValueError, match="level must be one of US, State, County, Tract, Block_Group, got 'Block'"):
        run(RunInput(asked.directory, asked.query, CELLS, level="Block"), tmp_path / "new")


def test_a_file_of_one_level_or_a_run_of_one_block_is_answered_or_refused_in_words(file: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copytree(next(file.glob("*_PROD")), tmp_path / "US_Person_PL_PROD"))
    for level in ("US", "State", "County", "Tract", "Block_Group"):
        shutil.rmtree(alone / f"{level}.parquet")
    assert len(rows(run(RunInput(str(alone), "total"), tmp_path / "blocks"))) >= 70  # an extract: all in one piece
    with pytest.raises(ValueError, match=r"level must be one of Block, got 'Tract'"):
        run(RunInput(str(alone), "total", level="Tract"), tmp_path / "new")
    block = str(nmf.read(file, "total").tree.names[-1])
    with pytest.raises(ValueError, match=rf"got '{block}' alone: give its count a prior of its own, flat or negative"):
        run(RunInput(str(file), "total", root=block), tmp_path / "new")
    asked = RunInput(str(alone), "total", root=block, level="Block", leaf_prior=adv.spine.Flat())
    assert len(rows(run(asked, tmp_path / "one"))) == 1


def test_workers_are_not_started_for_little_work(
    asked: RunInput, done: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(county_runs, "tell_watchers", told.append)
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    assert contents(run(asked, tmp_path, workers=2).out) == contents(done.out)
    assert told == ["2 workers are not used: to start them would take longer than the work"]


def test_results_do_not_go_into_the_file_or_over_others(done: Any, asked: RunInput, file: Path) -> None:
    before = contents(file)
    for inside in (file / "US_Person_PL_PROD", file / "US_Person_PL_PROD/results"):
        with pytest.raises(ValueError, match="results must not lie inside of"):
            run(asked, inside)
    assert contents(file) == before


def test_cells_keep_their_evidence_in_whatever_order_they_are_asked_for(done: Any, file: Path, tmp_path: Path) -> None:
    turned = RunInput(str(file), "detailed", CELLS[::-1], prior=0.2)
    told = [
        spine_answer.solve(question, made)[0]["cells"]["log_evidence"].to_series().to_dict()
        for question, made in ((turned, run(turned, tmp_path)), (RunInput(str(file), "detailed", CELLS), done))
    ]
    assert list(told[0]) == [8, 1]
    assert told[0] == pytest.approx(told[1], abs=1e-9)
    assert abs(told[0][1] - told[0][8]) > 1e-3


def test_a_file_without_a_column_of_results_is_refused(done: Any, tmp_path: Path) -> None:
    old = pq.read_table(done.files[0]).rename_columns({"truncation_bound": "dropped"})
    pq.write_table(old, tmp_path / "part.parquet")
    with pytest.raises(ValueError, match="column truncation_bound is absent: it is of another version"):
        of_cell([tmp_path / "part.parquet"], 0)


def test_a_row_group_has_one_cell(done: Any, asked: RunInput) -> None:
    for one in done.files:
        opened = pq.ParquetFile(one)
        assert [set(opened.read_row_group(i)["cell"].to_pylist()) for i in range(opened.num_row_groups)] == [{1}, {8}]
    assert (done.measurements.shape, done.measurements.synthetic) == ((2, 2, 1, 3), True)


@pytest.mark.parametrize("where", [{"level": "State"}, {"county": "99001"}, {"root": "199"}, {"state": "99"}])
def test_a_part_is_asked_for_alone(file: Path, tmp_path: Path, where: dict[str, str]) -> None:
    asked = RunInput(str(file), "detailed", CELLS, prior=0.2, **where)  # type: ignore[arg-type]
    read = nmf.read(file, "detailed", CELLS, **{name: code for name, code in where.items() if name != "level"})
    whole = adv.spine.posterior(read.tree, read.released, read.rho, bounds=read.bounds)
    made = run(asked, tmp_path)
    found = rows(made)
    assert {name for name, _ in found} == set(read.tree.names.tolist())
    for v, name in enumerate(read.tree.names.tolist()):
        for i, cell in enumerate(read.cells.tolist()):
            assert found[name, cell]["mean"] == pytest.approx(float(whole.mean[v, i]), abs=1e-10)


def test_priors_in_words() -> None:
    assert description(leaf_prior("negative-binomial=0.5,3")) == {"kind": "NegativeBinomial", "shape": 0.5, "mean": 3.0}
    assert description(leaf_prior("flat")) == {"kind": "Flat"}
    assert description(leaf_prior("shared-rate"))["shape"] == 0.5
    for bad in ("none", "poisson", "poisson=a", "flat=1", "negative-binomial=1"):
        with pytest.raises(ValueError, match="the prior of leaves must be shared-rate, flat"):
            leaf_prior(bad)


def test_the_summary_counts_leaves_and_puts_the_bound_beside_them(done: Any, asked: RunInput) -> None:
    answer, _ = spine_answer.solve(asked, done, (1.0, 2.0))
    found = rows(done)
    for cell in (1, 8):
        here = [row for (_, c), row in found.items() if c == cell and row["ratio"] is not None]
        ratios = np.array([row["ratio"] for row in here])
        one = {name: node.to_dataset().sel(cell=cell) for name, node in answer.children.items()}
        assert int(one["cells"]["leaves"]) == ratios.size == 70
        noisy = [row["ratio"] for row in here if row["variance"] != 0.0 and row["status"] != "certain"]
        assert float(one["risk"]["ratio"].sel(quantile=0.5)) == pytest.approx(np.median(noisy))
        assert one["thresholds"]["share"].values.tolist() == [(ratios > 1).mean(), (ratios > 2).mean()]
        assert float(one["worst"]["ratio"][0]) == ratios.max()
        free = [row["path_rho"] * (1 + row["path_exact"]) for row in here if row["variance"] != 0.0]
        limit = adv.ZeroConcentratedDP(max(free)).ratio_bounds(0.2, 0.05)[1]
        assert float(one["bounds"]["ratio"].sel(prior=0.2, side="upper")) == pytest.approx(limit)
        assert float(one["guarantee"]["share_above"]) <= 0.05


REPORTED = (".html", ".nc", ".csv", ".svg")


@pytest.mark.slow
def test_the_command_writes_shows_resumes_and_refuses(file: Path, done: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("spine", str(file), "--query", "detailed", "--cell", "1", "--cell", "1,0,0,2", "--prior", "1/5", "--out")
    answer = commands.answered(*command, str(out), silent=False)
    about = answer["attributes"]
    assert (about["pieces"], about["kept"], about["cells"]) == (3, "[]", "[1, [1, 0, 0, 2]]")
    ours = contents(out)
    assert b"Every block" in ours["report.html"]
    assert {name: content for name, content in ours.items() if not name.endswith(REPORTED)} == contents(done.out)
    again = commands.run(*command, str(out))
    assert again.exit_code == 2
    assert "has results already: resume them" in again.stderr
    shown = commands.run(*command, str(out), "--resume", "--threshold", "1.5", "--full")
    assert shown.exit_code == 0, shown.stderr
    for words in (
        "Every block: detailed",
        "knows nothing of the others",
        "In 50 blocks",
        "No noise protects 20 blocks more",
        "zCDP",
        "blocks have a ratio of 1.5 or more",
    ):
        assert words in commands.flat(shown.stdout)
    for wrong, told in (
        (("--state", "4"), "state must be its FIPS code of 2 digits"),
        (("--query", "detialed"), "did you mean 'detailed'?"),
        (("--cell", "-1"), "--cell must be a number"),
        (("--known", "-3"), "--known must be a CSV file with columns geocode and known, or a whole number of people"),
        (("--known", "2.5"), "or a whole number of people, got '2.5'"),
        (("--known", "others.csv"), "or a whole number of people, got 'others.csv'"),
        (("--threshold", "0"), "--threshold must be positive"),
        (("--failure", "2"), "--failure must be in [0, 1], got 2"),
        (("--leaf-prior", "x"), "the prior of leaves must be"),
        (("--cell", "1", "--scheduler", "tcp://x:1", "--workers", "2"), "give one of the two"),
    ):
        result = commands.run("spine", str(file), "--query", "detailed", "--out", str(tmp_path / "no"), *wrong)
        assert result.exit_code == 2
        assert told in commands.flat(result.stderr)
        assert not (tmp_path / "no").exists()
