"""Noisy Measurement Files: what is written is read, only what is asked for is read, in the published layout too."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversary import nmf
from adversary.nmf.file_layout import arrow, bare, flat_cells
from adversary.nmf.writer import Records, Writer
from adversary.reader.spine.tree import Tree

LEVELS = ("State", "County", "Tract")
PLACES = {"99": None, "99001": "99", "99003": "99", "a": "99001", "b": "99001", "c": "99003"}
RHO = np.array([np.inf, 0.1, 0.0, 0.2, 0.3, 0.4])
RACE = np.arange(36.0).reshape(6, 6) - 7


def tree() -> Tree:
    """A state, two counties, three tracts; geocodes of tracts tell nothing."""
    return Tree.of(PLACES, LEVELS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a total, known exactly at the top and not measured in one county, and a query of 2 x 1 x 3 cells."""
    answers = {
        "total": nmf.Answers(np.arange(6), RHO),
        "race": nmf.Answers(RACE, np.full(6, 0.25), (2, 1, 3)),
    }
    return nmf.write(tmp_path / "made", tree(), answers)


def parts(directory: Path, level: str, kind: str = "DPQuery") -> list[Path]:
    """Parquet files of a level."""
    return sorted((directory / f"{level}.parquet" / kind).rglob("*.parquet"))


def test_a_total_comes_back_with_its_invariant_and_without_what_was_not_measured(file: Path) -> None:
    found = nmf.read(file, "total")
    assert found.tree.names.tolist() == list(PLACES)
    assert found.tree.levels == LEVELS
    np.testing.assert_array_equal(found.released, [0, 1, np.nan, 3, 4, 5])
    np.testing.assert_allclose(found.rho, RHO, rtol=1e-15)
    assert found.shape == (1,)
    assert found.cells.tolist() == [0]
    assert found.query == "total"
    assert not found.notes


def test_cells_are_flat_or_by_axis_one_or_several(file: Path) -> None:
    np.testing.assert_array_equal(nmf.read(file, "race", 4).released, RACE[:, 4])
    np.testing.assert_array_equal(nmf.read(file, "race_dpq", (1, 0, 1)).released, RACE[:, 4])
    np.testing.assert_array_equal(nmf.read(file, "RACE", (1, 1)).released, RACE[:, 4])
    found = nmf.read(file, "race", [5, (0, 2)])
    np.testing.assert_array_equal(found.released, RACE[:, [5, 2]])
    assert found.rho.shape == (6, 2)
    assert found.cell(0) == (1, 0, 2)
    np.testing.assert_array_equal(nmf.read(file, "race", "all").released, RACE)


def test_what_is_known_of_other_queries_is_said_to_be_unused(file: Path) -> None:
    assert nmf.read(file, "race", 0).notes == ("State: constraint total_con is of another query and not used",)


def test_a_part_of_the_tree_is_read_by_its_root_or_its_partition(file: Path) -> None:
    for given_ in ({"root": "99001"}, {"state": "99", "county": "001"}):
        found = nmf.read(file, "race", 0, levels=("County", "Tract"), **given_)  # type: ignore[arg-type]
        assert found.tree.names.tolist() == ["99001", "a", "b"]
        np.testing.assert_array_equal(found.released, RACE[[1, 3, 4], 0])
    top = nmf.read(file, "race", 0, levels=("State", "County"))
    assert top.tree.names.tolist() == ["99", "99001", "99003"]


def test_the_subtrees_of_a_level_are_what_read_takes(file: Path) -> None:
    found = nmf.subtrees(file)
    assert found == [{"root": f"9900{i}", "state": "99", "county": f"00{i}"} for i in (1, 3)]
    sizes = [len(nmf.read(file, "total", levels=("County", "Tract"), **one).tree) for one in found]  # type: ignore[arg-type]
    assert sizes == [3, 2]


def test_parents_may_be_a_mapping_a_directory_or_the_file_s_own(file: Path, tmp_path: Path) -> None:
    mapping = {name: over for name, over in PLACES.items() if over is not None} | {"c": "99001", "b": "99003"}
    moved = nmf.read(file, "total", parents=mapping)
    assert [moved.tree.names[moved.tree.parent[moved.tree.index(name)]] for name in "abc"] == [
        "99001",
        "99003",
        "99001",
    ]
    assert moved.released[moved.tree.index("c")] == 5
    elsewhere = (file / "Parents.parquet").rename(tmp_path / "table")
    assert nmf.read(file, "total", parents=elsewhere).tree.names.tolist() == list(PLACES)
    with pytest.raises(ValueError, match=r"geocode a of level Tract is an orphan: no parent of it is known"):
        nmf.read(file, "total")


def test_row_groups_of_other_queries_are_not_read(file: Path) -> None:
    path = parts(file, "Tract")[0]
    spoil(path, query="race_dpq")
    np.testing.assert_array_equal(nmf.read(file, "total").released, [0, 1, np.nan, 3, 4, 5])
    with pytest.raises(ValueError, match=f"{path}: cannot be read as Parquet"):
        nmf.read(file, "race", 0)


def test_columns_not_asked_for_are_not_read(tmp_path: Path) -> None:
    nmf.synthesise(tmp_path / "s", nmf.Recipe(blocks=50, queries=("TOTAL", "CENRACE")))
    whole = nmf.read(tmp_path / "s", "total")
    for path in parts(tmp_path / "s", "Block"):
        for column in ("plb", "hhgq", "cenrace"):
            spoil(path, column=column)
        with pytest.raises(OSError, match=r"."):
            pq.read_table(path)
    np.testing.assert_array_equal(nmf.read(tmp_path / "s", "total").released, whole.released)


def test_files_of_other_partitions_are_not_opened(file: Path) -> None:
    for level in ("County", "Tract"):
        for path in parts(file, level):
            if "County=003" in str(path):
                path.write_bytes(b"this is not Parquet")
    found = nmf.read(file, "total", levels=("County", "Tract"), state="99", county="001")
    np.testing.assert_array_equal(found.released, [1, 3, 4])
    with pytest.raises(ValueError, match=r"County=003.*cannot be read as Parquet"):
        nmf.read(file, "total")


def test_batches_do_not_change_what_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adversary.nmf.parquet_source.BATCH", 1)
    np.testing.assert_array_equal(nmf.read(file, "race", "all").released, RACE)


def spoil(path: Path, query: str | None = None, column: str | None = None) -> None:
    """Overwrite the bytes of the row groups of a query, or of a column, with rubbish."""
    metadata = pq.ParquetFile(path).metadata
    raw = bytearray(path.read_bytes())
    for i in range(metadata.num_row_groups):
        chunks = [metadata.row_group(i).column(j) for j in range(metadata.num_columns)]
        names = {chunk.path_in_schema.split(".")[0]: chunk for chunk in chunks}
        for name, chunk in names.items():
            if name == column or (query is not None and names["query_name"].statistics.min == query):
                start = min(x for x in (chunk.dictionary_page_offset, chunk.data_page_offset) if x is not None)
                raw[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(raw)


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """The layout of the published files: no table of parents, partitions by state only, single precision variances,
    dictionaries of texts, a column for each attribute, constraints with a variance of 0, and bounds among them."""
    units = {"US": ["0"], "State": ["050", "051"], "County": ["050001", "050003", "051001"]}
    for level, names in units.items():
        for name in names:
            state = {} if level == "US" else {"State": name[1:3]}
            rows = {
                "geocode": [name] * 2,
                "query_name": ["total_dpq", "hispanic * cenrace_dpq"],
                "hispanic": ["*", "hispanic"],
                "query_shape": [[1, 1, 1, 1], [1, 1, 2, 3]],
                "value": [[len(name)], list(range(6))],
            }
            variance = pa.array([np.inf if name == "050003" else 4.0, 2.5], pa.float32())
            table = pa.table(rows).append_column("variance", variance)
            column = table.schema.get_field_index("geocode")
            table = table.set_column(column, "geocode", table["geocode"].dictionary_encode())
            save(table, tmp_path, level, "DPQuery", state, name)
            known = {
                "geocode": [name] * 2,
                "query_name": ["total_con", "hhgq_total_lb_con"],
                "sign": ["=" if level == "US" else ">=", ">="],
                "query_shape": [[1, 1, 1, 1], [3, 1, 1, 1]],
                "value": [[7], [0, 0, 1]],
                "variance": pa.array([0.0, 0.0], pa.float32()),
            }
            save(pa.table(known), tmp_path, level, "Constraint", state, name)
    return tmp_path


def save(table: Any, directory: Path, level: str, kind: str, state: dict[str, str], name: str) -> None:
    """A file of one unit."""
    folder = directory.joinpath(f"{level}.parquet", kind, *(f"{key}={value}" for key, value in state.items()))
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / f"part-{name}.snappy.parquet")


def test_the_published_layout_is_read_by_prefixes(published: Path) -> None:
    found = nmf.read(published, "total")
    assert found.tree.levels == ("US", "State", "County")
    assert above(found.tree) == {
        "0": "", "050": "0", "051": "0", "050001": "050", "050003": "050", "051001": "051",
    }  # fmt: skip
    value, rho = ({name: x[found.tree.index(name)] for name in found.tree.names} for x in (found.released, found.rho))
    assert value["0"] == 7
    assert rho["0"] == np.inf
    assert value["051001"] == 6
    assert rho["051001"] == 0.125
    assert np.isnan(value["050003"])
    assert rho["050003"] == 0
    assert "State: 2 constraints of total are inequalities, which are not used" in found.notes
    assert "County: constraint hhgq_total_lb_con is of another query and not used" in found.notes


def test_a_state_of_the_published_layout_is_read_without_the_others(published: Path) -> None:
    for path in published.rglob("State=51/*.parquet"):
        path.unlink()
    found = nmf.read(published, "hispanic*cenrace", (1, 2), levels=("State", "County"), state="50")
    assert found.tree.names.tolist() == ["050", "050001", "050003"]
    np.testing.assert_array_equal(found.released, 5.0)
    np.testing.assert_array_equal(found.rho, 0.2)


def test_a_query_measured_at_some_levels_only_is_said_so(tmp_path: Path) -> None:
    with Writer(tmp_path / "f") as writer:
        writer.put("State", [Records("total", ["99"], np.array([[5]]), 2.0, (1,))])
        writer.put("County", [Records("other", ["991", "992"], np.array([[5], [6]]), 2.0, (1,))])
    found = nmf.read(tmp_path / "f", "total")
    assert found.rho.tolist() == [0.25, 0, 0]
    assert found.notes == ("County: total is not measured at this level",)


@st.composite
def spines(draw: st.DrawFn) -> tuple[Tree, np.ndarray[Any, Any], np.ndarray[Any, Any], tuple[int, ...]]:
    """A small tree with geocodes that tell nothing, answers in a random shape, and a rho for every unit."""
    levels = draw(st.sampled_from([LEVELS, ("County", "Block"), ("US", "State", "County", "Tract")]))
    parents: dict[str, str | None] = {"root": None}
    above, number = ["root"], 0
    for _ in levels[1:]:
        here = []
        for over in above:
            for _ in range(draw(st.integers(1, 3))):
                number += 1
                here.append(f"{(number * 37) % 101:03d} é/{number}")
                parents[here[-1]] = over
        above = here
    grown = Tree.of(parents, levels)
    shape = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rho = rng.choice([0.0, 0.125, 0.5, 1 / 3, np.inf], len(grown))
    released = rng.integers(-5, 10**6, (len(grown), int(np.prod(shape)))).astype(float)
    released[np.isinf(rho)] = np.abs(released[np.isinf(rho)])
    return grown, released, rho, shape


@settings(max_examples=25)
@given(spines(), st.integers(1, 5))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, made: Any, batch: int) -> None:
    grown, released, rho, shape = made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adversary.nmf.parquet_source.BATCH", batch)
        patch.setattr("adversary.nmf.writer.NUMBERS", 4)
        path = tmp_path_factory.mktemp("fuzz") / "file"
        nmf.write(path, grown, {"q": nmf.Answers(released, rho, shape)})
        found = nmf.read(path, "q", "all", levels=grown.levels)
    order = found.tree.order(grown.names)
    np.testing.assert_array_equal(found.rho, np.repeat(rho[order, None], released.shape[1], axis=1))
    np.testing.assert_array_equal(found.released, np.where(rho[:, None] > 0, released, np.nan)[order])
    assert found.shape == shape
    assert above(found.tree) == above(grown)


def above(grown: Tree) -> dict[str, str]:
    """Parent of every unit, by name."""
    parents = ["" if i < 0 else str(grown.names[i]) for i in grown.parent]
    return dict(zip(grown.names.tolist(), parents, strict=True))


def test_names_of_queries_and_cells_have_one_reading() -> None:
    assert bare("HISPANIC*CENRACE") == bare("hispanic * cenrace_dpq") == "hispanic * cenrace"
    everything = flat_cells("all", (2, 3), "q")[0]
    by_axis = [(i, j) for i in range(2) for j in range(3)]
    assert flat_cells(by_axis, (2, 3), "q")[0].tolist() == everything.tolist() == list(range(6))
    assert all(a < b for a, b in pairwise(everything))


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (6, "cell 6 lies outside query q, which has 2 x 3 cells"),
        ((2, 0), r"cell \(2, 0\) lies outside"),
        ((0, 0, 0), r"cell \(0, 0, 0\) lies outside"),
        (-1, "cell -1 lies outside"),
        (None, "query q has 2 x 3 cells: say which"),
        ([], "cells must name one cell"),
        ([1, (0, 1)], "cells must be distinct"),
        ("some", "cells must be indices or 'all'"),
        (0.5, "cell must be a whole number"),
    ],
)
def test_cells_that_are_not_there_are_refused(cells: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        flat_cells(cells, (2, 3), "q")


def test_without_pyarrow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"adversary\[scale\]"):
        arrow()


def test_partitions_that_are_columns_are_filtered_too(tmp_path: Path) -> None:
    rows = {"query_name": ["total_dpq"] * 3, "query_shape": [[1]] * 3, "value": [[1], [2], [3]], "variance": [1.0] * 3}
    tops = {"geocode": ["99001", "99003", "98001"], "State": ["99", "99", "98"], "County": ["001", "003", "001"]}
    save(pa.table(tops | rows), tmp_path, "County", "DPQuery", {}, "all")
    below = tops | {"geocode": ["99001a", "99003a", "98001a"]}
    save(pa.table(below | rows), tmp_path, "Tract", "DPQuery", {}, "all")
    found = nmf.read(tmp_path, "total", state="99", county="003")
    assert found.tree.names.tolist() == ["99003", "99003a"]
    np.testing.assert_array_equal(found.released, 2)
