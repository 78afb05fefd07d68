"""Noisy Measurement Files in the published layout: what is there is read, only what is asked for, and nothing twice."""

from __future__ import annotations

import csv
import shutil
import sys
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import poisson

from adversary import nmf
from adversary.census import spine
from adversary.census.nmf import check, runs
from adversary.census.nmf.exact_counts import state_totals
from adversary.census.nmf.file_layout import arrow, bare, flat_cells, product_of, spelling_in_file
from adversary.census.nmf.products import DHC_PERSONS, PL_LEVELS, PL_PERSONS, PL_UNITS
from adversary.census.nmf.units import geoid, name_of
from tests.oracles.noisy_measurement_file import Replica, answer

PERSONS, UNITS, PUERTO_RICO, DHC = "US_Person_PL_PROD", "US_Unit_PL_PROD", "PR_Person_PL_PROD", "US_DHCP_PROD"


@pytest.fixture
def file(published: tuple[Path, dict[str, Replica]], tmp_path: Path) -> Path:
    """A copy of its persons, to be changed."""
    return Path(shutil.copytree(published[0] / PERSONS, tmp_path / PERSONS))


def read(published: tuple[Path, dict[str, Replica]], product: str, query: str, cells: Any = None, **more: Any) -> Any:
    """One query of the archive, with the totals of its states."""
    return nmf.read(published[0], query, cells, product=product, **({"totals": published[0] / "totals.csv"} | more))


def records(folder: Path, kind: str, query: str) -> dict[str, Any]:
    """Value and variance of every record of a query by geocode, read without the package."""
    found = {}
    for path in folder.glob(f"*.parquet/{kind}/**/*.parquet"):
        for row in pq.ParquetFile(path).read().to_pylist():
            if row["query_name"] == query:
                found[row["geocode"] or "US"] = np.array(row["value"], float), row["variance"]
    return found


QUERIES = [
    (PERSONS, "total", None),
    (PERSONS, "votingage * hispanic", "all"),
    (PERSONS, "detailed", [0, (3, 1, 0, 0), (3, 0, 0, 0), (5, 1, 1, 2)]),
    (PERSONS, "hhinstlevels", "all"),
    (UNITS, "detailed", "all"),
    (PUERTO_RICO, "hhgq", "all"),
    (DHC, "popSehsdTargetsRelship", "all"),
    (DHC, "hispanic * sex", "all"),
]


@pytest.mark.parametrize(("product", "query", "cells"), QUERIES)
def test_every_product_reads_without_a_warning_and_as_it_was_written(
    published: tuple[Path, dict[str, Replica]], product: str, query: str, cells: Any
) -> None:
    made = published[1][product]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read(published, product, query, cells)
    written = records(made.folder, "DPQuery", f"{query}_dpq")
    tree = found.tree
    count = found.cells.size
    rho, released, shown = (x.reshape(len(tree), count) for x in (found.rho, found.released, found.published))
    low, high = (x.reshape(len(tree), count) for x in found.bounds)
    assert set(tree.names) - {"44", "04", "72"} == {code or "US" for code in made.truth}
    assert query == found.query
    for v, name in enumerate(tree.names.tolist()):
        if tree.levels[tree.level[v]] == "Whole_State":
            continue
        if name in written:
            np.testing.assert_array_equal(shown[v], written[name][0][found.cells])
            finite = np.isfinite(rho[v])
            twice = 1 + (product == UNITS)  # by the other cell, and the exact number of both
            np.testing.assert_allclose(rho[v][finite], twice * 0.5 / written[name][1], rtol=1e-15)
            if twice == 1:
                np.testing.assert_array_equal(released[v][finite], shown[v][finite])
        else:
            assert name in made.unmeasured
            assert np.isin(rho[v], (0.0, np.inf)).all()
    words = next(iter(_words(made.folder, f"{query}_dpq")))
    for v, name in enumerate(tree.names.tolist()):
        code = "" if name == "US" else name
        if code not in made.truth:
            continue
        true = answer(made.truth[code], words).ravel()[found.cells]
        np.testing.assert_array_equal(true[np.isinf(rho[v])], released[v][np.isinf(rho[v])])
        assert ((low[v] <= true) & (true <= high[v])).all()
    assert check.contents(made.folder)["problems"] == []


def _words(folder: Path, query: str) -> Any:
    for path in folder.glob("*.parquet/DPQuery/**/*.parquet"):
        for row in pq.ParquetFile(path).read().to_pylist():
            if row["query_name"] == query:
                yield {name: row[name] for name in row if name in (*PL_PERSONS.axes, *PL_UNITS.axes, *DHC_PERSONS.axes)}


def test_a_parent_is_a_prefix_and_both_parts_of_a_state_have_one(published: tuple[Path, dict[str, Replica]]) -> None:
    tree = read(published, PERSONS, "total").tree
    assert tree.levels == ("US", "Whole_State", "State", "County", "Tract", "Block_Group", "Block")
    above = {str(tree.names[v]): str(tree.names[tree.parent[v]]) for v in range(1, len(tree))}
    assert (above["004"], above["104"], above["044"], above["44"]) == ("04", "04", "44", "US")
    below = [name for name in above if len(name) > 3]
    assert all(name.startswith(above[name]) for name in below)
    assert read(published, PUERTO_RICO, "total").tree.levels[0] == "State"


def test_the_older_code_of_the_united_states_is_read_too(file: Path) -> None:
    for path in file.glob("US.parquet/*/*.parquet"):
        table = pq.ParquetFile(path).read()
        pq.write_table(table.set_column(0, "geocode", [["0"] * table.num_rows]), path)
    assert nmf.read(file, "total").tree.names[0] == "US"
    assert check.contents(file)["problems"] == []


@pytest.mark.parametrize(
    ("where", "top", "levels"),
    [
        ({"state": "04"}, "04", 6), ({"county": "44003"}, "04410003", 4), ({"root": "104"}, "104", 5),
        ({"root": "00410001001"}, "00410001001", 3),
    ],
)  # fmt: skip
def test_a_part_is_read_alone_as_in_the_whole_file(
    published: tuple[Path, dict[str, Replica]], where: Any, top: str, levels: int
) -> None:
    whole, part = read(published, PERSONS, "total"), read(published, PERSONS, "total", **where)
    assert part.tree.names[0] == top
    assert len(part.tree.levels) == levels
    here = whole.tree.below(top)
    assert part.tree.names.tolist() == whole.tree.names[here].tolist()
    for name in ("released", "rho", "low", "high", "published"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[here])


@pytest.mark.parametrize("kept", [("County",), ("Block",), ("County", "Tract"), ("US", "State", "County")])
def test_an_extract_of_some_levels_is_checked_and_read_as_far_as_it_goes(file: Path, kept: tuple[str, ...]) -> None:
    whole = nmf.read(file, "total")
    for folder in file.glob("*.parquet"):
        if folder.name.removesuffix(".parquet") not in kept:
            shutil.rmtree(folder)
    assert check.contents(file)["problems"] == []
    assert check.contents(file)["absent"] == [name for name in PL_LEVELS if name not in kept]
    part = nmf.read(file, "total")
    assert part.tree.levels[0] == (kept[0] if kept[0] == "US" else "Extract")
    assert part.tree.levels[-1] == kept[-1]
    for level in kept:
        here, there = (np.array(one.tree.levels)[one.tree.level] == level for one in (part, whole))
        assert part.tree.names[here].tolist() == whole.tree.names[there].tolist()
        for name in ("released", "rho", "published"):
            np.testing.assert_array_equal(getattr(part, name)[here], getattr(whole, name)[there])
    notes = "; ".join(part.notes)
    assert (f"nothing above level {kept[0]} is in the file" in notes) == (kept[0] != "US")
    assert (f"nothing below level {kept[-1]} is in the file" in notes) == (kept[-1] != "Block")


def test_a_run_over_an_extract_is_one_piece(file: Path, tmp_path: Path) -> None:
    """Nothing binds the counties of an extract: under a law of its own each is read as if it were alone."""
    for folder in file.glob("*.parquet"):
        if folder.name != "County.parquet":
            shutil.rmtree(folder)
    made = runs.run(runs.RunInput(str(file), "total", leaf_prior=spine.Poisson(300.0)), tmp_path / "out")
    assert list(made.pieces) == ["Extract"]
    table = pq.read_table(made.files[0]).to_pydict()
    read = nmf.read(file, "total")
    one = int(np.flatnonzero(read.rho > 0)[0])
    x = np.arange(0.0, 2.0 * read.released[one] + 1000.0)
    weight = np.exp(poisson(300.0).logpmf(x) - read.rho[one] * (read.released[one] - x) ** 2)
    place = table["geocode"].index(read.tree.names[one])
    assert table["mean"][place] == pytest.approx(float(x @ weight / weight.sum()), rel=1e-9)


@pytest.mark.parametrize(("state", "other"), [("04", "044"), ("44", "004")])
def test_files_of_other_partitions_are_not_opened(file: Path, state: str, other: str) -> None:
    for path in file.rglob("*.parquet"):
        if path.is_file() and (f"State={other}" in str(path) or path.parts[-3] == "US.parquet"):
            path.write_bytes(b"this is not Parquet")
    assert nmf.read(file, "total", state=state).tree.names[0] == state
    with pytest.raises(ValueError, match=r"cannot be read as Parquet"):
        nmf.read(file, "total", state=other[1:])


def test_other_counties_of_dhc_are_not_opened(published: tuple[Path, dict[str, Replica]], tmp_path: Path) -> None:
    file = Path(shutil.copytree(published[0] / DHC, tmp_path / DHC))
    for path in file.rglob("County=04410003/*.parquet"):
        path.write_bytes(b"this is not Parquet")
    assert nmf.read(file, "hispanic * sex", 0, county="44001").tree.names[0] == "04410001"


def test_row_groups_of_other_queries_are_not_read(tmp_path: Path) -> None:
    file = nmf.synthesise(tmp_path / "s", nmf.Recipe(blocks=50, queries=("TOTAL", "CENRACE")))
    whole = nmf.read(file, "total")
    for path in file.glob("*/*.parquet/DPQuery/**/*.parquet"):
        spoil(path, query="cenrace_dpq")
    np.testing.assert_array_equal(nmf.read(file, "total").published, whole.published)
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        nmf.read(file, "cenrace", 0)


def test_columns_not_asked_for_are_not_read(tmp_path: Path) -> None:
    file = nmf.synthesise(tmp_path / "s", nmf.Recipe(blocks=50, queries=("TOTAL",)))
    whole = nmf.read(file, "total")
    for path in file.glob("*/Block.parquet/Constraint/**/*.parquet"):
        spoil(path, column="variance")
        with pytest.raises(OSError, match=r"."):
            pq.read_table(path)
    np.testing.assert_array_equal(nmf.read(file, "total").published, whole.published)


def test_no_record_is_read_twice(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from adversary.census.nmf import parquet_source

    seen: list[Any] = []
    batches = parquet_source.ParquetSource.batches

    def counted(self: Any, columns: Any, *more: Any, **how: Any) -> Any:
        for found, batch in batches(self, columns, *more, **how):
            if "value" in columns:
                names = batch.column(columns.index("query_name")).to_pylist()
                seen.extend((found.path, *one) for one in zip(batch.column(0).to_pylist(), names, strict=True))
            yield found, batch

    monkeypatch.setattr(parquet_source.ParquetSource, "batches", counted)
    nmf.read(file, "total")
    assert len(seen) == len(set(seen)) > 0
    seen.clear()
    check.contents(file)
    rows = sum(pq.ParquetFile(path).metadata.num_rows for path in file.rglob("*.parquet") if path.is_file())
    assert len(seen) == len(set(seen)) == rows


def test_batches_do_not_change_what_is_read(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = nmf.read(file, "hhgq", "all")
    monkeypatch.setattr("adversary.census.nmf.parquet_source.BATCH", 1)
    np.testing.assert_array_equal(nmf.read(file, "hhgq", "all").released, whole.released)


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


def test_which_product_is_asked_for_where_there_are_several(published: tuple[Path, dict[str, Replica]]) -> None:
    with pytest.raises(ValueError, match=r"several products lie in it \(PR_Person_PL_PROD, US_DHCP_PROD, US_Person_PL"):
        nmf.read(published[0], "total")
    with pytest.raises(ValueError, match="product 'Person' must name one of"):
        nmf.read(published[0], "total", product="Person")
    for name, product in ((PERSONS, PL_PERSONS), (UNITS, PL_UNITS), (PUERTO_RICO, PL_PERSONS), (DHC, DHC_PERSONS)):
        assert product_of(published[0] / name)[0] == product


def test_names_of_queries_keep_their_case_and_are_found_without_it(published: tuple[Path, dict[str, Replica]]) -> None:
    assert read(published, DHC, "popsehsdtargetsrelship", 0).query == "popSehsdTargetsRelship"
    assert read(published, PERSONS, "HISPANIC*VOTINGAGE", 0).query == "votingage * hispanic"
    assert spelling_in_file("total_dpq", ["TOTAL_dpq", "total_dpq"]) == "total_dpq"
    assert bare("HISPANIC*CENRACE") == "HISPANIC * CENRACE"
    with pytest.raises(ValueError, match=r"query 'votingag .* is not there; there are .*; did you mean 'votingage"):
        read(published, PERSONS, "votingag * hispanic")


def test_cells_have_names(published: tuple[Path, dict[str, Replica]]) -> None:
    found = read(published, PERSONS, "votingage * hispanic", "all")
    assert found.labels == (
        "not Hispanic, under 18", "Hispanic, under 18", "not Hispanic, 18 and over", "Hispanic, 18 and over",
    )  # fmt: skip
    assert read(published, PERSONS, "votingage*hispanic", "hispanic, 18 and over").cells.tolist() == [3]
    assert read(published, PERSONS, "total").labels == ("P1 total",)
    assert read(published, UNITS, "total").labels == ("H1 total",)
    assert read(published, UNITS, "detailed", "all").labels == ("vacant", "occupied")
    assert read(published, DHC, "popSehsdTargetsRelship", 27).labels == ("nursing facilities",)
    several = read(published, PERSONS, "detailed", (0, 1, 1, 6)).labels[0]
    assert several == "White and Black, Hispanic, 18 and over, households"
    assert len(set(PL_PERSONS.axes["cenrace"])) == 63
    assert PL_PERSONS.shape == (8, 2, 2, 63)
    assert DHC_PERSONS.shape == (42, 2, 116, 2, 63)
    assert read(published, PERSONS, "hhinstlevels", "all").labels[1] == "institutions"


def test_units_have_names(published: tuple[Path, dict[str, Replica]]) -> None:
    states = state_totals(published[0] / "totals.csv", published[0])
    tree = read(published, PERSONS, "total").tree
    block = tree.names[-1]
    assert geoid(block) == block[-16:-5] + block[-4:]
    assert len(name_of(block, "Block", states)) == 15
    assert name_of("44", "Whole_State", states) == "Rhode Island"
    assert name_of("104", "State", states) == "Arizona, inside American Indian, Alaska Native and Hawaiian areas"
    assert name_of("04410003", "County", states) == "county 44003, Rhode Island"
    assert name_of("10400100", "County", states) == "area 0100, Arizona"
    assert name_of("04410003001", "Tract", states) == ""


def test_state_totals_are_exact_and_bind_both_parts(published: tuple[Path, dict[str, Replica]], tmp_path: Path) -> None:
    found = read(published, PERSONS, "total", state="04")
    truth = published[1][PERSONS].truth
    assert (found.rho[0], found.released[0]) == (np.inf, truth["004"].sum() + truth["104"].sum())
    posterior = spine.posterior(found.tree, found.released, found.rho, bounds=found.bounds)
    assert posterior.sd.values[0] == 0.0
    assert posterior.mean.values[1:3].sum() == pytest.approx(found.released[0], abs=1e-9)
    far = read(published, PERSONS, "total", state="04", totals=None)
    assert far.rho[0] == 0
    assert "Whole_State: the total of Arizona does not fit the noisy counts of its parts and is not used" in far.notes
    assert read(published, PERSONS, "hhgq", 0, state="04").rho[0] == 0
    (tmp_path / "bad.csv").write_text("state,name,population\n04,Arizona,many\n")
    with pytest.raises(ValueError, match=r"bad\.csv: row 2 must have columns state, name and population"):
        read(published, PERSONS, "total", totals=tmp_path / "bad.csv")


def test_the_shipped_totals_are_those_of_the_2020_census() -> None:
    with (Path(__file__).parents[2] / "data/state_population_2020.csv").open() as file:
        rows = list(csv.DictReader(file))
    totals = state_totals(None, Path("nowhere/product"))
    assert {row["state"]: (row["name"], int(row["population"])) for row in rows} == totals
    assert len(totals) == 51
    assert sum(one.population for one in totals.values()) == 331_449_281  # resident population, 1 April 2020


def test_bounds_and_structural_zeros_fix_cells(published: tuple[Path, dict[str, Replica]]) -> None:
    made = published[1][PERSONS]
    quarters = read(published, PERSONS, "hhgq", 3)
    for v, name in enumerate(quarters.tree.names.tolist()):
        if name in made.facilities and quarters.tree.levels[quarters.tree.level[v]] == "Block":
            facilities = made.facilities[name][3]
            assert (quarters.rho[v] == np.inf) == (facilities == 0)
            assert quarters.low[v] == facilities
    minors = read(published, PERSONS, "detailed", (3, 0, 1, 4))
    fixed = [v for v, code in enumerate(minors.tree.names) if len(code) != 2 or code == "US"]
    assert np.isinf(minors.rho[fixed]).all()
    assert (minors.released[fixed] == 0).all()
    total = read(published, PERSONS, "total")
    blocks = total.tree.leaves
    least = np.array([made.facilities[name][1:].sum() for name in total.tree.names[blocks]])
    np.testing.assert_array_equal(total.low[blocks], np.where(np.isinf(total.rho[blocks]), 0, least))
    units = read(published, UNITS, "total")
    assert np.isinf(units.rho[units.tree.level > 1]).all()
    occupied = read(published, UNITS, "detailed", "occupied")
    known = published[1][UNITS].truth
    limits = [known[name].sum() for name in occupied.tree.names[occupied.tree.leaves]]
    free = np.isfinite(occupied.rho[occupied.tree.leaves])
    np.testing.assert_array_equal(occupied.high[occupied.tree.leaves][free], np.array(limits)[free])


def test_the_published_table_that_dhc_had_to_meet_is_not_taken_as_exact(
    published: tuple[Path, dict[str, Replica]],
) -> None:
    found = read(published, DHC, "hispanic * sex", "all")
    assert "pl94_con has noise in it, and is not used" in found.notes
    assert not any("pl94" in one for one in found.exact)


def test_one_shape_and_one_reading_of_cells() -> None:
    everything = flat_cells("all", (2, 3), "q")[0]
    by_axis = [(i, j) for i in range(2) for j in range(3)]
    assert flat_cells(by_axis, (2, 3), "q")[0].tolist() == everything.tolist() == list(range(6))
    assert flat_cells(["B"], (2,), "q", ("a", "b"))[0].tolist() == [1]
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
        ("some", "query q has no cell 'some'"),
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
