"""Synthetic Noisy Measurement Files: the same for a seed, sums that add up, noise of the size that 2020 had."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

import adversary as adv
from adversary import nmf
from adversary.census.nmf import check
from adversary.census.nmf.synthetic.population import random_settlement
from adversary.census.nmf.synthetic.recipe import CHUNK, SHAPE
from adversary.census.nmf.synthetic.synthesis import synthetic_units
from adversary.census.nmf.writer import Records, Writer
from tests import commands
from tests._core.test_store import contents

BLOCKS = 9000
OF = {
    "US": "nation", "State": "state", "County": "county", "Tract": "tract", "Block_Group": "block group",
    "Block": "block",
}  # fmt: skip
LEVELS = ("US", "Whole_State", *tuple(OF)[1:])
BLOCK = LEVELS.index("Block")


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two counties and an American Indian area, one of them of more than one chunk."""
    return nmf.synthesise(tmp_path_factory.mktemp("synthetic") / "state", nmf.Recipe(BLOCKS, 3, seed=1, areas=1))


@pytest.fixture(scope="module")
def read(state: Path) -> Callable[..., Any]:
    """Queries of the state, each read once, with the truth behind them."""
    known: dict[Any, Any] = {}

    def reading(query: str, cells: Any = None) -> tuple[nmf.Measurements, np.ndarray[Any, Any]]:
        if (query, cells) not in known:
            found = nmf.read(state, query, cells)
            known[query, cells] = found, nmf.truth_of(state, found.tree.names, found.query, found.cells)
        made: tuple[nmf.Measurements, np.ndarray[Any, Any]] = known[query, cells]
        return made

    return reading


def test_the_same_seed_makes_the_same_bytes(tmp_path: Path) -> None:
    recipes = {"a": 1, "b": 1, "c": 2}
    a, b, c = (
        contents(nmf.synthesise(tmp_path / name, nmf.Recipe(300, 2, seed=seed, queries=("TOTAL",))))
        for name, seed in recipes.items()
    )
    assert a == b
    assert a["truth.parquet"] != c["truth.parquet"]


def test_a_chunk_is_made_alone_as_among_the_others(state: Path) -> None:
    recipe = nmf.Recipe(BLOCKS, 3, seed=1, areas=1)
    chunks = [chunk for county in recipe.chunks for chunk in county]
    assert len(chunks) > 2
    assert sum(chunk.blocks for chunk in chunks) == BLOCKS
    assert all(0 < chunk.blocks <= CHUNK for chunk in chunks)
    for chunk in reversed(chunks):
        for units in synthetic_units(recipe, chunk, np.random.default_rng(chunk.seed)):
            kept = nmf.truth_of(state, units.geocodes, "detailed", range(int(np.prod(SHAPE))))
            np.testing.assert_array_equal(units.people.reshape(kept.shape), kept)


def test_parents_are_sums_of_children(read: Any) -> None:
    for query, cells in (("total", None), ("detailed", "all"), ("hispanic * cenrace", "all")):
        found, truth = read(query, cells)
        tree = found.tree
        added = np.zeros_like(truth)
        np.add.at(added, tree.parent[1:], truth[1:])
        inner = tree.children > 0
        np.testing.assert_array_equal(added[inner], truth[inner])
        assert (tree.level == tree.levels.index("Block")).sum() == BLOCKS
        assert (tree.children[tree.level < BLOCK] > 0).all()


def test_queries_are_marginals_of_the_histogram(read: Any) -> None:
    people = read("detailed", "all")[1].reshape(-1, *SHAPE)
    np.testing.assert_array_equal(read("total")[1][:, 0], people.sum(axis=(1, 2, 3, 4)))
    np.testing.assert_array_equal(read("votingage", "all")[1], people.sum(axis=(1, 3, 4)))
    both = people.sum(axis=(1, 2)).reshape(len(people), -1)
    np.testing.assert_array_equal(read("hispanic * cenrace", "all")[1], both)


def test_the_eight_group_quarters_of_the_release_fall_into_three_kinds(tmp_path: Path) -> None:
    recipe = nmf.Recipe(40, 1, shape=(8, 1, 1, 2), queries=("HHINSTLEVELS", "DETAILED", "HHGQ"))
    nmf.synthesise(tmp_path / "f", recipe)
    found = nmf.read(tmp_path / "f", "hhinstlevels", "all")
    assert found.shape == (3, 1, 1, 1)
    three = nmf.truth_of(tmp_path / "f", found.tree.names, "hhinstlevels", range(3))
    eight = nmf.truth_of(tmp_path / "f", found.tree.names, "hhgq", range(8))
    np.testing.assert_array_equal(three, np.stack([eight[:, 0], eight[:, 1:5].sum(1), eight[:, 5:].sum(1)], axis=1))


def test_what_is_exact_is_true(read: Any) -> None:
    found, truth = read("total")
    assert found.tree.levels == LEVELS
    exact = np.isinf(found.rho)
    assert exact[:2].all()
    np.testing.assert_array_equal(found.released[exact], truth[exact, 0])
    assert (found.released[exact][2:] == 0).all()
    assert ((found.low <= truth[:, 0]) & (truth[:, 0] <= found.high)).all()
    cells, people = read("detailed", "all")
    np.testing.assert_array_equal(cells.released[np.isinf(cells.rho)], people[np.isinf(cells.rho)])
    assert 0.05 < np.isinf(cells.rho[cells.tree.leaves, 0]).mean() < 0.3  # nobody has a home there
    assert np.isinf(cells.rho[cells.tree.leaves, -1]).mean() > 0.9


@pytest.mark.parametrize("query", ["total", "detailed", "hispanic * cenrace"])
def test_every_variance_is_that_of_2020_and_parents_have_that_of_an_only_child(read: Any, query: str) -> None:
    found, _ = read(query, None if query == "total" else "all")
    tree, rho = found.tree, found.rho.reshape(len(found.tree), -1)[:, 0]
    own = [Fraction(0) if name == "Whole_State" else adv.census.rho_star(OF[name], query.replace(" ", ""))
           for name in tree.levels]  # fmt: skip
    place = tree.levels.index("State")
    lone = np.zeros(len(tree), dtype=bool)
    lone[1:] = (tree.children[tree.parent[1:]] == 1) & (tree.level[1:] > place)
    assert lone.any()
    held = [own[level] for level in tree.level]
    for node in range(len(tree) - 1, 0, -1):
        if lone[node]:
            held[tree.parent[node]] += held[node]
    expected = np.where(lone, 0.0, np.array([float(x) for x in held]) / 2)  # sigma^2 = 1 / rho_star
    free = np.isfinite(rho)
    np.testing.assert_allclose(rho[free], expected[free], rtol=1e-6)  # single precision
    assert set(np.asarray(tree.levels)[tree.level[lone]]) >= {"Block_Group", "County"}


@pytest.mark.parametrize("query", ["total", "detailed", "votingage", "hispanic * cenrace"])
def test_the_noise_has_that_variance_at_every_level(read: Any, query: str) -> None:
    found, truth = read(query, None if query == "total" else "all")
    released, rho = (x.reshape(truth.shape) for x in (found.published, found.rho))
    for level in range(3, BLOCK + 1):
        used = (found.tree.level == level)[:, None] & (rho > 0) & np.isfinite(rho)
        squares = 2 * rho[used] * (released - truth)[used] ** 2
        chance = stats.chi2.cdf(squares.sum(), squares.size)
        assert 1e-4 < chance < 1 - 1e-4, (query, level)


def test_noise_of_different_units_cells_and_queries_is_unrelated(read: Any) -> None:
    found, truth = read("detailed", "all")
    noise = (found.published - truth)[found.tree.level == BLOCK]
    noise = noise[np.isfinite(noise).all(axis=1)] * float(adv.census.rho_star("block", "detailed")) ** 0.5
    rows, columns = noise.shape
    for pairs in (noise[:-1] * noise[1:], noise[:, :-1] * noise[:, 1:]):
        assert abs(pairs.mean()) < 5 / np.sqrt(rows * columns)


def test_many_blocks_are_empty_and_some_are_large(read: Any) -> None:
    found, truth = read("total")
    blocks = truth[found.tree.level == BLOCK, 0]
    assert 0.2 < (blocks == 0).mean() < 0.5
    assert blocks.max() > 30 * np.median(blocks[blocks > 0])
    assert 25 < blocks.mean() < 70
    detailed = read("detailed", "all")[1][found.tree.level == BLOCK]
    assert (detailed == 0).mean() > 0.8


@pytest.mark.slow
def test_geocodes_are_those_of_the_published_layout(state: Path, read: Any) -> None:
    tree = read("total")[0].tree
    names = {level: tree.names[tree.level == i].tolist() for i, level in enumerate(tree.levels)}
    assert names["US"] == ["US"]
    assert names["State"] == ["099", "199"]
    assert names["County"] == ["09910001", "09910002", "19900001"]
    for code in names["Block"]:
        assert code[-16:-11] in ("99001", "99002", "99003")
        assert code[-5] == code[-4]  # the digit of the block group is doubled
    assert len({code[-16:] for code in names["Block"]}) == BLOCKS
    folders = {path.name for path in (state / "US_Person_PL_PROD").glob("Block.parquet/DPQuery/*")}
    assert folders == {"State=099", "State=199"}
    widths = {
        pq.read_schema(path).field("value").type.value_type.bit_width
        for path in state.glob("*/*.parquet/DPQuery/**/*.parquet")
    }
    assert len(widths) > 1
    assert check.contents(state)["problems"] == []


def test_bypassed_units_have_no_record_of_an_answer(state: Path, read: Any) -> None:
    found, _ = read("votingage", "all")
    tree = found.tree
    lone = np.flatnonzero((tree.children[np.maximum(tree.parent, 0)] == 1) & (tree.level > 2))
    assert lone.size
    assert np.isnan(found.published[lone]).all()
    assert np.isfinite(found.published[np.setdiff1d(np.flatnonzero(tree.level > 2), lone)]).all()


def test_every_file_says_that_it_is_synthetic(state: Path) -> None:
    files = [path for path in state.rglob("*.parquet") if path.is_file()]
    assert files
    assert all(pq.read_schema(path).metadata[b"synthetic"] == b"true" for path in files)
    assert "Nothing in this directory is data about anybody" in (state / "README.md").read_text()


def test_a_settlement_is_whole() -> None:
    made = random_settlement(2000, (3, 2, 2, 7), np.random.default_rng(3))
    assert made.people.shape == (2000, 3, 2, 2, 7)
    for index in (made.group, made.tract):
        assert index[0] == 0
        assert set(np.diff(index)) <= {0, 1}
    assert np.bincount(made.tract).max() <= 9
    assert made.facilities.shape == (2000, 3)
    assert (made.people.sum(axis=(2, 3, 4))[made.facilities == 0] == 0).all()


def test_truth_is_asked_for_in_vain_where_there_is_none(state: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no truth in this directory"):
        nmf.truth_of(tmp_path, ["99"], "total", [0])
    with pytest.raises(ValueError, match="there is no unit 'nowhere'"):
        nmf.truth_of(state, ["99", "nowhere"], "total", [0])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"blocks": 0}, "blocks"),
        ({"blocks": 5, "counties": 6}, "counties must be at most the blocks"),
        ({"seed": -1}, "seed >= 0"),
        ({"shape": (2, 2)}, "shape must have a length >= 1 for hhgq"),
        ({"shape": (2, 3, 2, 2)}, "at most two ages"),
        ({"queries": ("AGE",)}, "query must be one of TOTAL"),
        ({"queries": ("OCCUPANCY STATUS",)}, "'OCCUPANCY STATUS' counts housing units"),
        ({"counties": 2, "areas": 2}, "areas must be fewer than the counties, 2, got 2"),
    ],
)
def test_recipes_that_cannot_be_made_are_refused(asked: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nmf.Recipe(**asked)


def test_a_county_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="a county may have 405504 blocks at most"):
        _ = nmf.Recipe(500_000, 1).chunks


def test_the_command_makes_a_file_and_another_checks_it(tmp_path: Path) -> None:
    made = tmp_path / "state"
    found = commands.answered(
        "nmf", "synth", str(made), "--blocks", "120", "--counties", "2", "--seed", "5", "--shape", "2x2x1x3",
        "--query", "TOTAL", "--query", "detailed",
    )  # fmt: skip
    assert found["attributes"]["synthetic"] == 1
    assert [commands.number(found, name) for name in ("blocks", "counties")] == [120, 2]
    assert commands.numbers(found, "shape") == [2, 2, 1, 3]
    assert commands.numbers(found, "queries") == ["total", "detailed"]
    assert commands.number(found, "bytes") == sum(len(raw) for raw in contents(made).values())
    told = commands.answered("nmf", "check", str(made))
    assert not commands.rows(told, "problem")
    assert told["attributes"]["synthetic"] == 1
    assert told["attributes"]["product"] == "PL 94-171 persons"
    assert [row["level"] for row in commands.rows(told, "units", group="levels")] == list(OF)
    assert commands.numbers(told, "units", group="levels")[-1] == 120
    columns = ("level", "query", "kind", "shape", "largest_variance")
    rows = list(zip(*(commands.numbers(told, name, group="queries") for name in columns), strict=True))
    top, second = rows[0][0], next(row[0] for row in rows if row[0] != rows[0][0])
    state = {row[1:3]: row[3:] for row in rows if row[0] == second}
    assert set(state) == {
        ("total", "measurement"), ("detailed", "measurement"), ("hhgq_total_lb", "constraint >="),
        ("hhgq_total_ub", "constraint <="),
    }  # fmt: skip
    assert state["detailed", "measurement"][0] == "2 x 2 x 1 x 3"
    assert state["hhgq_total_lb", "constraint >="][1] is None
    assert ("total", "constraint =") in {row[1:3] for row in rows if row[0] == top}
    shown = commands.printed("nmf", "check", str(made))
    assert "synthetic" in shown
    assert "Nothing is missing or malformed" in shown
    same = contents(nmf.synthesise(tmp_path / "again", nmf.Recipe(120, 2, 5, (2, 2, 1, 3), ("TOTAL", "detailed"))))
    assert same == contents(made)


def test_the_commands_say_what_is_wrong_in_a_line(tmp_path: Path) -> None:
    assert "Nobody in it exists" in commands.printed("nmf", "synth", str(tmp_path / "state"), "--blocks", "30")
    bad = commands.run("nmf", "synth", str(tmp_path / "b"), "--shape", "many")
    assert bad.exit_code == 2
    assert "--shape must be four numbers such as 8x2x2x63, got 'many'" in bad.stderr
    assert commands.run("nmf", "check", str(tmp_path / "nowhere")).exit_code == 2


def test_nothing_is_overwritten_unless_told(tmp_path: Path) -> None:
    recipe = nmf.Recipe(20, 1, queries=("TOTAL",))
    made = nmf.synthesise(tmp_path / "made", recipe)
    with pytest.raises(FileExistsError, match="is not overwritten unless `overwrite` is set"):
        nmf.synthesise(made, recipe)
    nmf.synthesise(made, recipe, overwrite=True)
    assert [one.name for one in tmp_path.iterdir()] == ["made"]
    (made / "thesis.docx").write_text("five years of work")
    with pytest.raises(FileExistsError, match=r"not overwritten, thesis\.docx does not belong"):
        nmf.synthesise(made, recipe, overwrite=True)
    assert (made / "thesis.docx").exists()
    with pytest.raises(FileExistsError, match="there is a file of this name"):
        nmf.synthesise(made / "thesis.docx", recipe)


KILLED = """
import os, signal, sys
from adversary import nmf
from adversary.census.nmf import writer

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(writer.Writer if sys.argv[2] == "write_level" else writer.shutil, sys.argv[2], die)
nmf.synthesise(sys.argv[1], nmf.Recipe(20, 1, queries=("TOTAL",)), overwrite=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["write_level", "rmtree"])
def test_what_a_process_that_was_killed_was_writing_is_cleared_up(tmp_path: Path, when: str) -> None:
    """Killed while it writes, and after it took a directory's place, before that was removed."""
    recipe = nmf.Recipe(20, 1, queries=("TOTAL",))
    made = nmf.synthesise(tmp_path / "made", recipe)
    where = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", KILLED, str(made), when]
    assert subprocess.run(command, env=where, capture_output=True).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    other = tmp_path / ".made.of_mine"
    other.mkdir()
    nmf.synthesise(made, recipe, overwrite=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == [".made.of_mine", "made"]


def test_a_directory_that_was_being_replaced_gets_its_name_back(tmp_path: Path) -> None:
    recipe = nmf.Recipe(20, 1, queries=("TOTAL",))
    made = nmf.synthesise(tmp_path / "made", recipe)
    before = contents(made)
    made.rename(tmp_path / ".made.abcd1234.old")
    with pytest.raises(FileExistsError, match="is not overwritten unless `overwrite` is set"):
        nmf.synthesise(made, recipe)
    assert contents(made) == before


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    with Writer(tmp_path / "made", "US_Person_PL_PROD") as first:
        with Writer(tmp_path / "made", "US_Person_PL_PROD") as second:
            assert first.temporary.exists()
            second.write_level("State", [Records("total", ["099"], np.array([[1]]), 1.0, (1,))])
        shutil.rmtree(tmp_path / "made")
        first.write_level("State", [Records("total", ["099"], np.array([[2]]), 1.0, (1,))])
    assert [one.name for one in tmp_path.iterdir()] == ["made"]


def test_a_termination_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "write_level", lambda *_: signal.raise_signal(signal.SIGTERM))
    ended = commands.run("nmf", "synth", str(tmp_path / "made"), "--blocks", "20")
    assert (ended.exit_code, ended.stderr) == (130, "interrupted\n")
    assert not list(tmp_path.iterdir())


def test_what_fails_while_being_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = nmf.Recipe(20, 1, queries=("TOTAL",))
    made = nmf.synthesise(tmp_path / "made", recipe)
    before = contents(made)

    def stopped() -> None:
        with Writer(tmp_path / "other", "US_Person_PL_PROD") as writer:
            writer.write_level("State", [Records("total", ["099"], np.array([[1]]), 1.0, (1,))])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        stopped()

    def refuse(source: Path, target: Path) -> None:
        if Path(source).name.startswith(".made.") and not str(source).endswith(".old"):
            raise OSError(28, "No space left on device")
        os.rename(source, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OSError, match="No space left"):
        nmf.synthesise(made, recipe, overwrite=True)
    assert [one.name for one in tmp_path.iterdir()] == ["made"]
    assert contents(made) == before
