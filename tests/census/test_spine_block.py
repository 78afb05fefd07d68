"""`adversary spine --block`: one block by name, every cell and query of it, persons beside housing units."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary import nmf
from adversary.census.nmf.runs import RunInput, one_block
from adversary.census.report import spine_block, spine_figures
from adversary.report.kit.figure_files import figure_of
from adversary.report.kit.rendering import to_markdown
from tests import commands

pytest.importorskip("pyarrow")
GEOID = "440010000001000"


def answer(published: Any, **more: Any) -> Any:
    question = RunInput(str(published[0]), "hhgq", "all", product="US_Person_PL", **more)
    return spine_block.solve_block(question, GEOID)


def test_every_cell_of_a_query_is_as_in_the_posterior_of_its_tract(published: Any) -> None:
    tree = answer(published)
    cells = tree["cells"].to_dataset()
    code = tree.attrs["geocode"]
    read = nmf.read(published[0], "hhgq", "all", product="US_Person_PL", root=code[:11])
    assert tuple(cells["label"].values) == read.labels
    found = adv.spine.posterior(read.tree, read.released, read.rho, bounds=read.bounds, whole=False)
    at = int(read.tree.index(code))
    np.testing.assert_allclose(cells["mean"], found.mean.values[at], rtol=1e-9)
    np.testing.assert_allclose(cells["noisy"], read.published[at])
    ratio = found.membership(0.1)["ratio"].sel(unit=code).values
    np.testing.assert_allclose(cells["ratio"], ratio, rtol=1e-9)
    assert code.endswith("1000")
    assert tree.attrs["blocks"] == 20


def test_persons_stand_beside_the_housing_units_of_the_same_archive(published: Any) -> None:
    tree = answer(published)
    beside, both = (tree[name].to_dataset() for name in ("beside", "together"))
    assert beside["comparison"].values.tolist() == ["occupied housing units"]
    assert float(beside["gap"][0]) == float(beside["persons"][0] - beside["implied"][0])
    persons = both.sel(of="persons", read="alone")
    place = tree["cells"]["label"].values.tolist().index("households")
    assert float(persons["mean"]) == pytest.approx(float(tree["cells"]["mean"][place]))
    assert float(both["mean"].sel(of="persons", read="together")) >= float(
        both["mean"].sel(of="occupied", read="together")
    )
    text = commands.flat(to_markdown(spine_block.document(tree)))
    assert "Persons beside housing" in text
    assert "They do not contradict each other." in text


def test_a_block_that_is_not_there_names_the_nearest_and_how_many_there_are(published: Any) -> None:
    path = next(one for one in published[0].iterdir() if one.name.startswith("US_Person_PL"))
    with pytest.raises(
        ValueError, match="no block '440010000001999' among its 20 blocks; nearest: '440010000001005' and '4"
    ):
        one_block.find_block(path, "440010000001999")
    with pytest.raises(ValueError, match="must be a GEOID of 15 digits"):
        one_block.find_block(path, "44 001")
    code, root, _ = one_block.find_block(path, GEOID)
    assert code.startswith(root)
    assert one_block.find_block(path, code)[0] == code


def test_the_command_answers_about_one_block_and_refuses_what_is_missing(published: Any, tmp_path: Path) -> None:
    file = ("spine", str(published[0]), "--product", "US_Person_PL")
    found = commands.answered(*file, "--block", GEOID, "--query", "hhgq", "--cell", "households", "--json")
    assert commands.numbers(found, "noisy", group="cells")
    assert found["title"] == f"Block {GEOID}"
    commands.refused(tmp_path, *file, "--block", "440010000001999", words="nearest:")
    assert "--out must be given, or one block with --block" in commands.run(*file, "--query", "hhgq").stderr
    commands.refused(tmp_path, *file, words="--query must be given")
    commands.refused(tmp_path, *file, "--households", "x.csv", words="name it with --block GEOID")


def test_households_by_size_come_from_a_file(published: Any, tmp_path: Path) -> None:
    file = tmp_path / "sizes.csv"
    rows = [(GEOID, 1, 20, 10), (GEOID, 2, 10, 10), (GEOID, 3, 9, 10)]
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows([("geocode", "size", "noisy", "variance"), *rows])
    question = RunInput(str(published[0]), "hhgq", "all", product="US_Person_PL")
    tree = spine_block.solve_block(question, GEOID, None, file)
    one = tree["beside"].to_dataset().sel(comparison="households by size")
    assert float(one["implied"]) == 67.0
    assert float(one["expected"]) == pytest.approx(20 * float(one["chance"]))
    summary = json.loads(tree.attrs["summary"])
    assert summary["status"] == "unreliable"
    assert "Noise does not explain it" in summary["verdict"]
    file.write_text("geocode,size,noisy,variance\n1,2,3,4\n")
    with pytest.raises(ValueError, match=f"none of its 1 rows is of block {GEOID}"):
        spine_block.solve_block(question, GEOID, None, file)


def test_the_figure_of_a_block_shows_its_largest_cells(published: Any) -> None:
    cells = answer(published)["cells"].to_dataset()
    figure = figure_of(spine_figures.block_cells(cells, 5))
    assert len(figure.axes[0].get_yticks()) == 5
