"""Every notebook runs from top to bottom, warnings included."""

import os
from pathlib import Path

import jupytext
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in NOTEBOOKS.glob("*.py")))
def test_notebook_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = jupytext.read(NOTEBOOKS / name)
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": NOTEBOOKS}}).execute()
    assert sum(bool(cell.get("outputs")) for cell in notebook.cells) > 10
