"""How a notebook is run and compared with the executed copy beside it, and which take so long that they have a file.

The text that is edited is `NAME.py`; `NAME.ipynb` is the same with outputs, to be read where it is hosted. After a
change: `python -m tests.notebooks NAME ...` (all, if none is named).
"""

import os
import re
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
LONG = (
    "precision_and_recall_of_an_adversary.py",
    "what_post_processing_leaves.py",
    "what_if_the_adversary_is_wrong.py",
    "write_your_own_adversary.py",
    "choosing_epsilon.py",
    "a_noisy_mean_and_variance.py",
    "what_an_exact_total_costs.py",
)
NAMES = sorted(path.name for path in NOTEBOOKS.glob("*.py") if path.with_suffix(".ipynb").exists())
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def run(name: str) -> None:
    """From top to bottom, warnings included; it prints the numbers of the copy beside it."""
    found, kept = executed(name), nbformat.read((NOTEBOOKS / name).with_suffix(".ipynb"), as_version=4)
    words, numbers = printed(found)
    kept_words, kept_numbers = printed(kept)
    assert words == kept_words
    assert numbers == pytest.approx(kept_numbers, rel=1e-6, abs=1e-9)
    assert len(numbers) > 10


def executed(name: str) -> NotebookNode:
    """The notebook with its outputs, without what changes from run to run."""
    notebook = jupytext.read(NOTEBOOKS / name)
    place = {"metadata": {"path": NOTEBOOKS}}
    before = os.environ.get("MPLBACKEND")
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    try:
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place, record_timing=False).execute()
    finally:
        if before is None:
            del os.environ["MPLBACKEND"]
        else:
            os.environ["MPLBACKEND"] = before
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"], "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        cell.id = str(number)
        for output in cell.get("outputs", []):
            if "dataframe" not in output.get("data", {}).get("text/html", "dataframe"):
                del output["data"]["text/html"]  # a tree's is 100 kB of style
        if alt := alternative(cell):
            cell.metadata["mystnb"] = {"image": {"alt": alt}}
    return notebook


def alternative(cell: NotebookNode) -> str:
    """Alternative text of the pictures of a cell: the plain text beside them, which `adv.plot.style` sets."""
    outputs = [one["data"] for one in cell.get("outputs", []) if "image/png" in one.get("data", {})]
    texts = [data.get("text/plain", "") for data in outputs]
    return " ".join(text for text in texts if not text.startswith("<"))


def printed(notebook: NotebookNode) -> tuple[list[str], list[float]]:
    """Words and numbers of its outputs, but for figures, seconds measured, progress, compiling, addresses in memory."""
    cells = [cell for cell in notebook.cells if "measured" not in cell.metadata.get("tags", [])]
    outputs = [one for cell in cells for one in cell.get("outputs", []) if one.get("name") != "stderr"]
    outputs = [one for one in outputs if "image/png" not in one.get("data", {})]  # the text of a figure is its title
    texts = [one.get("text") or one.get("data", {}).get("text/plain", "") for one in outputs]
    texts = [text for text in texts if not text.startswith("compiling for this machine")]
    text = re.sub(r"0x[0-9a-f]+", "", "\n".join(texts))
    return NUMBER.sub("", text).split(), [float(one) for one in NUMBER.findall(text)]


def write(name: str) -> None:
    """Execute a notebook and put the copy with outputs beside it."""
    nbformat.write(executed(name), (NOTEBOOKS / name).with_suffix(".ipynb"))


if __name__ == "__main__":
    for name in sys.argv[1:] or NAMES:
        write(Path(name).name)
