"""Thumbnails of the site's gallery, drawn again by `python -m tests.thumbnails NAME ...` (all, if none is named).

`notebooks/thumbnails/NAME.svg` is the first figure of a notebook at 360 by 240 pixels, without its words, and
`..._dark.svg` its dark twin. The notebook's first cell of code is executed for it.
"""

import re
import sys
from contextlib import chdir
from typing import Any

import jupytext
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from adversary.report.kit.figure_files import to_svg
from tests.notebooks import NAMES, NOTEBOOKS

FOLDER = NOTEBOOKS / "thumbnails"
SIZE = (3.6, 2.4)
"""Inches, of 100 pixels."""
LETTERS = 15 * 0.72
"""Points."""
PATH = re.compile(r' d="[^"]*"')
MARGIN = 0.03
"""Share of the width and of the height."""


def first_figure(name: str) -> Figure:
    """The figure of a notebook's first cell of code."""
    cells = jupytext.read(NOTEBOOKS / f"{name}.py").cells
    code = next(cell.source for cell in cells if cell.cell_type == "code")
    plt.close("all")
    plt.show = lambda *_, **__: None
    with chdir(NOTEBOOKS):
        exec(code.replace("%matplotlib inline", ""), {"__name__": name})
    return plt.gcf()


def shrink(figure: Figure) -> None:
    """Leave marks and at most three numbers along the horizontal axis."""
    for text in [*figure.texts, *figure.legends, *([figure._suptitle] if figure._suptitle else [])]:  # type: ignore[attr-defined]
        text.set_visible(False)
        text.set_in_layout(False)
    for ax in figure.axes:
        if ax.get_label() == "<colorbar>":
            ax.remove()
            continue
        _without_words(ax)
    figure.set_size_inches(SIZE)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(MARGIN, MARGIN, 1.0 - 2.0 * MARGIN, 1.0 - 2.0 * MARGIN))


def _without_words(ax: Axes) -> None:
    for text in [one for one in ax.get_children() if isinstance(one, Text)]:
        text.set_visible(False)
        text.set_in_layout(False)
    if legend := ax.get_legend():
        legend.remove()
    ax.set(xlabel="", ylabel="")
    ax.set_yticks([])
    low, high = sorted(ax.get_xlim())
    ticks = [tick for tick in np.asarray(ax.get_xticks(), dtype=float) if low <= tick <= high]
    names = [ax.xaxis.get_major_formatter()(tick, i) for i, tick in enumerate(ticks)]
    keep = sorted({0, len(ticks) // 2, len(ticks) - 1}) if len(ticks) > 2 else range(len(ticks))
    ax.minorticks_off()
    if all(any(letter.isdigit() for letter in names[i]) and len(names[i]) < 7 for i in keep):
        ax.set_xticks([ticks[i] for i in keep], [names[i] for i in keep], fontsize=LETTERS)
    else:
        ax.set_xticks([])


def write(name: str) -> None:
    """Both thumbnails of a notebook."""
    figure = first_figure(name)
    shrink(figure)
    FOLDER.mkdir(exist_ok=True)
    for end, mode in (("", "light"), ("_dark", "dark")):
        drawn = to_svg(figure, mode).decode()
        (FOLDER / f"{name}{end}.svg").write_text(PATH.sub(_rounded, drawn), encoding="utf-8")


def _rounded(path: re.Match[str]) -> str:
    """A path to a tenth of a point."""
    return re.sub(r"(\.\d)\d+", r"\1", path[0])


if __name__ == "__main__":
    mpl.use("agg")
    for given in sys.argv[1:] or [name.removesuffix(".py") for name in NAMES]:
        print(given, flush=True)
        write(given)
