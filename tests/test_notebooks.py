"""Every notebook runs from top to bottom and prints the numbers of its copy; the long ones in `test_long_notebooks`."""

import ast
import re
import shlex

import jupytext
import nbformat
import pandas as pd
import pytest

import adversary as adv
from tests.commands import answered, number
from tests.notebooks import LONG, NAMES, NOTEBOOKS, run
from tests.tables import DATA


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if name not in LONG])
def test_notebook_runs(name: str) -> None:
    run(name)


@pytest.mark.parametrize("name", NAMES)
def test_the_executed_copy_is_of_this_text(name: str) -> None:
    """So are those that run on demand only; and what they import exists."""
    notebook = jupytext.read(NOTEBOOKS / name)
    kept = nbformat.read((NOTEBOOKS / name).with_suffix(".ipynb"), as_version=4)
    assert [cell.source for cell in kept.cells] == [cell.source for cell in notebook.cells], (
        f"python -m tests.notebooks {name}"
    )
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code").replace(
        "%matplotlib inline", ""
    )
    imports = [
        node
        for node in ast.parse(code.replace("%matplotlib inline", "")).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert imports
    exec(ast.unparse(ast.Module(imports, [])), {})


def test_the_command_of_the_first_notebook_has_the_budget_of_its_table() -> None:
    """Number for number: what it prints is the table that the notebook shows, and says how the budget is divided."""
    cells = jupytext.read(NOTEBOOKS / "audit_your_table_in_five_minutes.py").cells
    source = "\n".join(cell.source for cell in cells).replace("\\\n", " ")
    (line,) = re.findall(r"uv run adversary (tables .*) --out", source)
    answer = answered(*shlex.split(line.replace("data/", f"{DATA}/")))
    noise = adv.DiscreteGaussian.from_rho
    tables = [
        adv.PublishedTable(["district", "age", "sex"], noise(0.3)),
        adv.PublishedTable(["district"], noise(0.1)),
        adv.PublishedTable(["region", "age"], noise(0.1)),
    ]
    risks = adv.audit_tables(pd.read_csv(DATA / "districts.csv", dtype=str), tables, adv.TableAdversary(0.1), rng=2020)
    assert number(answer, "worst") == risks["posterior_mean"].iloc[0]
    assert number(answer, "bound", group="summary") == risks["bound"].max()
    assert answer["attributes"]["budget"].startswith("rho 0.5 in all: 0.3 at the district: age x sex")


def shown(cell: nbformat.NotebookNode) -> bool:
    """Is the code of a cell there to be read? Drawing is folded, checks are left out of the site."""
    return not {"hide-input", "remove-cell"} & set(cell.metadata.get("tags", []))


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_read_in_one_sitting(name: str) -> None:
    cells = jupytext.read(NOTEBOOKS / name).cells
    prose = [line for cell in cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
    code = [cell for cell in cells if cell.cell_type == "code"]
    assert sum(map(shown, code)) <= 12
    assert len(prose) <= 150
    assert not [line for cell in code for line in cell.source.splitlines() if len(line) > 80]


@pytest.mark.parametrize("name", NAMES)
def test_it_begins_with_its_result(name: str) -> None:
    """A title; a figure that says what is drawn, its code folded; the numbers in short."""
    title, figure, short, *_ = nbformat.read((NOTEBOOKS / name).with_suffix(".ipynb"), as_version=4).cells
    assert title.source.startswith("# ")
    assert "hide-input" in figure.metadata.tags
    pictures = [output.data for output in figure.outputs if "image/png" in output.get("data", {})]
    assert pictures
    assert short.source.startswith("**In short.**")
    assert len(re.findall(r"^- ", short.source, re.MULTILINE)) == 3


@pytest.mark.parametrize("name", NAMES)
def test_it_has_thumbnails_without_words(name: str) -> None:
    for end in ("", "_dark"):
        drawn = (NOTEBOOKS / "thumbnails" / f"{name.removesuffix('.py')}{end}.svg").read_text(encoding="utf-8")
        texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
        assert not [text for text in texts if len(re.findall(r"[A-Za-z]{2,}", text)) > 1]
        assert len(texts) <= 6
        assert 'width="360"' in drawn


@pytest.mark.parametrize("name", NAMES)
def test_its_code_is_what_a_user_writes(name: str) -> None:
    """Public names alone are imported, and checks are not part of the story."""
    cells = [cell for cell in jupytext.read(NOTEBOOKS / name).cells if cell.cell_type == "code"]
    for cell in cells:
        for node in ast.walk(ast.parse(cell.source.replace("%matplotlib inline", ""))):
            assert not (shown(cell) and isinstance(node, ast.Assert)), cell.source
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names if one.name.startswith("adversary")]
                assert not [one for one in names if one != "adversary"]
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("adversary"):
                assert (node.module, {one.name for one in node.names}) == ("adversary", {"models"})
