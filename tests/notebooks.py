"""How a notebook is run, and which take so long that they have a file of their own."""

import os
from pathlib import Path

import jupytext
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
LONG = (
    "04_precision_and_recall_of_an_adversary.py",
    "05_what_post_processing_leaves.py",
    "06_what_if_the_reader_is_wrong.py",
    "07_write_your_own_adversary.py",
    "08_choosing_epsilon.py",
    "09_a_noisy_mean_and_variance.py",
    "10_what_an_exact_total_costs.py",
)


def run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From top to bottom, as a reader sees it."""
    monkeypatch.setitem(os.environ, "MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = jupytext.read(NOTEBOOKS / name)
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": NOTEBOOKS}}).execute()
    assert sum(bool(cell.get("outputs")) for cell in notebook.cells) > 10
