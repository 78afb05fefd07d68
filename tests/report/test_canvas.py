"""What is written in figures: nothing is cut at the canvas, and no two texts run into one another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from adversary.census.nmf.runs import block_results
from adversary.census.report import spine_figures
from adversary.report import kit
from adversary.report.kit.figure_files import alt_text, figure_of, offscreen
from adversary.report.plot import sheet as style
from adversary.report.plot.marks import plain_log_axis
from adversary.report.plot.sheet import house_style
from tests.census.test_spine_figures import table
from tests.commands import answered
from tests.report import test_figures, test_guarantee_figures, test_sensitivity_figures
from tests.tables import DATA

COMMANDS = (
    "bounds --rho 2.63",
    "census scenario A",
    "epsilon durham_infant_mortality",
    "epsilon survey_profile",
    "infer blood_lead",
    "infer cirrhosis_regression",
    "invariants districts_1940_total",
    "invariants town_table",
    "sensitivity clinic_visits",
    "audit granville_1940",
    "audit districts_1940_total",
)
"""Between them they draw every figure of the commands but those of a spine."""


def texts(figure: Figure) -> list[tuple[Text, Any]]:
    """Everything that is written when a figure is drawn, with its place; twins' equal labels once."""
    written: dict[tuple[str, float, float], tuple[Text, Any]] = {}
    drawn: list[Text] = []
    original = Text.draw

    def draw(self: Text, renderer: Any) -> None:
        drawn.append(self)
        original(self, renderer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", draw)
        FigureCanvasAgg(figure).draw()
    for one in drawn:
        if one.get_visible() and one.get_text().strip():
            box = Text.get_window_extent(one)
            written[one.get_text(), round(box.x0), round(box.y0)] = one, box
    return list(written.values())


def flaws(figure: Figure) -> Iterator[str]:
    """Texts that leave the canvas, lie on one another, or follow one another on a line without a gap."""
    found = texts(figure)
    for one, box in found:
        if box.x0 < -0.5 or box.y0 < -0.5 or box.x1 > figure.bbox.width + 0.5 or box.y1 > figure.bbox.height + 0.5:
            yield f"cut: {one.get_text()!r}"
    for (one, a), (other, b) in combinations(found, 2):
        wide, high = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        beside = high > 0.5 * min(a.height, b.height) and wide > -2.0
        if (wide > 2.0 and high > 2.0) or beside:
            yield f"on one another: {one.get_text()!r}, {other.get_text()!r}"


def test_a_cut_text_and_an_overlap_are_noticed() -> None:
    figure = Figure(figsize=(3.0, 2.0))
    for x, y, text in ((0.1, 0.5, "one"), (0.12, 0.5, "two"), (0.8, 0.8, "a long line"), (0.1, 0.1, "fine")):
        figure.text(x, y, text)
    assert list(flaws(figure)) == ["cut: 'a long line'", "on one another: 'one', 'two'"]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_figure_of_a_command_is_legible(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(kit.Figure, "svg", property(partial(_drawn_once, drawn)))
    name, *rest = command.split()
    files = [str(DATA / f"{one}.toml") if (DATA / f"{one}.toml").exists() else one for one in rest]
    answered(name, *files, "--out", str(tmp_path), silent=False)
    assert drawn
    assert {figure.get_suptitle(): [*flaws(figure)] for figure in drawn} == {f.get_suptitle(): [] for f in drawn}


def _drawn_once(drawn: list[Figure], figure: kit.Figure) -> str:
    if not figure.finding.startswith("drawn"):
        drawn.append(figure_of(figure.draw()))
        figure.finding = f"drawn: {figure.finding}"
    return ""


DRAWN: dict[str, Callable[[], Figure]] = {
    **{f"curves, {name}": draw for name, draw in test_guarantee_figures.DRAWN.items()},
    **{f"sweeps, {name}": draw for name, draw in test_sensitivity_figures.DRAWN.items()},
    **{f"audit, {draw.__name__}, {name}": partial(test_figures.drawn, draw, name) for draw, name in test_figures.CASES},
    "spine, risk": lambda: figure_of(
        spine_figures.block_ratios(table(), block_results.path_guarantee(table()).ratio(0.1), 1.25, 0.05)
    ),
    "spine, risk alone": lambda: figure_of(spine_figures.block_ratios(table())),
    "spine, shrinkage": lambda: figure_of(spine_figures.shrinkage(table())),
}


def gaps(figure: Figure) -> Iterator[str]:
    """Axes without words, lines and limits without numbers, a title without a finding."""
    if not any(one.isdigit() for one in figure.get_suptitle()):
        yield "the title has no number"
    if len(alt_text(figure)) < len(figure.get_suptitle()) + 10:
        yield "no sentence on its shape in the alternative text"
    for ax in figure.axes:
        if len(ax.get_yticks()) and not ax.get_xlabel():  # the bars behind a curve have no ticks
            yield "an axis without a label"
        if not np.isfinite([*ax.get_xlim(), *ax.get_ylim()]).all():
            yield "limits without numbers"
        yield from (str(line.get_gid()) for line in ax.lines if not np.isfinite(np.asarray(line.get_xydata())).all())


@pytest.mark.slow_cases("curves, ladder of definitions-column", "curves, ladder of definitions-phone")
@pytest.mark.parametrize("size", ["column", "phone"])
@pytest.mark.parametrize("name", DRAWN)
def test_every_other_figure_is_legible_and_says_something(name: str, size: str) -> None:
    test_figures.drawn.cache_clear()
    with offscreen(size):
        figure = DRAWN[name]()
    assert [*flaws(figure), *gaps(figure)] == []
    assert round(figure.get_figwidth() * 100) == (358 if size == "phone" else 720)


@pytest.mark.parametrize("length", [1, 40, 400])
def test_a_title_of_any_length_is_wrapped(length: int) -> None:
    @house_style
    def draw() -> Axes:
        ax = style.panel(None, 500.0)
        style.headline(ax, " ".join(["WORDS"] * (length // 6) + ["End"]))
        return ax

    figure = figure_of(draw())
    assert list(flaws(figure)) == []
    assert figure.get_suptitle().split()[-1] == "End"


@pytest.mark.parametrize("low", [0.4, 0.02, 1e-4, 1e-30, 1e-300])
@pytest.mark.parametrize("panels", [1, 2, 4])
def test_ticks_of_a_log_axis_have_room(low: float, panels: int) -> None:
    figure = Figure(figsize=(10.0, 4.0), layout="constrained")
    for ax in np.ravel(figure.subplots(1, panels)):
        ax.set(xscale="log", yscale="log", xlim=(low, 1.0), ylim=(low, 1.0))
        for axis in "xy":
            plain_log_axis(ax, axis, lambda p: f"{100 * p:.3g}%")
        assert len(ax.get_xticks()) > 0
    assert list(flaws(figure)) == []
