"""Figures of the simulation study: the study's own numbers, labelled, with a title that says what they show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from adversary.desk.figures import coverage_figures
from adversary.desk.figures.coverage_figures import ERRORS, USES

DIMS = ("n", "truth", "epsilon", "prior", "constrained")
FIGURES = {"length": coverage_figures.length, "coverage": coverage_figures.coverage, "rmse": coverage_figures.rmse}


def study(
    n: Any = (100, 10, 1000), truths: int = 2, budgets: int = 1, priors: int = 1, uses: tuple[bool, ...] = (True, False)
) -> xr.Dataset:
    """Made-up numbers in the form of a study."""
    sizes = (len(n), truths, budgets, priors, len(uses))
    rng = np.random.default_rng(1)
    length = 6.0 / np.array(n, dtype=float)[:, None, None, None, None] * rng.uniform(0.5, 1.0, sizes)
    parts: dict[str, Any] = {"coverage": (DIMS, rng.uniform(0.6, 1.0, sizes)), "length": (DIMS, length)}
    rmse = np.stack([length / 3, length / 4], axis=-1)
    parts["rmse"] = ((*DIMS, "estimate"), rmse)
    parts |= {f"{name}_mcse": (dims, 0.01 * value) for name, (dims, value) in list(parts.items())}
    mu = [0.1, 0.5][:truths]
    coords = {
        "n": list(n),
        "truth": [f"mu = {m}, sigma = 0.2" for m in mu],
        "epsilon": [0.1, 1.0][:budgets],
        "prior": ["flat", "near 0.1", "near 0.5"][:priors],
        "constrained": list(uses),
        "estimate": ["mode", "mean"],
        "epsilon_mean": ("epsilon", [0.1, 1.0][:budgets]),
        "epsilon_variance": ("epsilon", [0.1, 1.0][:budgets]),
    }
    return xr.Dataset(parts, coords, {"parameter": "mu", "prob": 0.95, "datasets": 2000})


def lines(ax: Axes) -> dict[str, Any]:
    return {line.get_gid(): line for line in ax.lines if line.get_marker() == "o"}


def heading(figure: Figure) -> str:
    return " ".join(figure.get_suptitle().replace("\u00a0", " ").split())


@pytest.mark.parametrize(("name", "budgets"), [("length", 1), ("coverage", 2), ("rmse", 1)])
def test_every_line_is_the_study(name: str, budgets: int) -> None:
    data = study(budgets=budgets)
    figure = FIGURES[name](data)
    assert len(figure.axes) == 2 * budgets
    values = data[name].sel(estimate="mode") if name == "rmse" else data[name]
    for i, ax in enumerate(figure.axes):
        row, column = divmod(i, 2)
        assert ax.get_title(loc="left").split("\n")[0] == data["truth"].values[column]
        for use in (True, False):
            line = lines(ax)[USES[use]]
            expected = values.isel(epsilon=row, truth=column, prior=0).sel(constrained=use).sortby("n")
            np.testing.assert_array_equal(line.get_xdata(), [10, 100, 1000])
            np.testing.assert_allclose(line.get_ydata(), expected)
            low, high = ax.get_ylim()
            assert low <= expected.min() <= expected.max() <= high


def test_of_rmse_the_estimate_can_be_chosen() -> None:
    data = study()
    line = lines(coverage_figures.rmse(data, "mean").axes[0])["with the bounds"]
    expected = data["rmse"].sel(estimate="mean", constrained=True).isel(truth=0, epsilon=0, prior=0).sortby("n")
    np.testing.assert_allclose(line.get_ydata(), expected)
    with pytest.raises(ValueError, match="estimate must be one of mode, mean, got 'median'"):
        coverage_figures.rmse(data, "median")


def test_coverage_is_beside_its_nominal_level_and_what_chance_explains() -> None:
    (ax, _) = coverage_figures.coverage(study()).axes
    (nominal,) = (line for line in ax.lines if line.get_gid() == "nominal")
    assert nominal.get_ydata()[0] == 0.95
    (band,) = (patch for patch in ax.patches if patch.get_gid() == "chance")
    half = ERRORS * np.sqrt(0.95 * 0.05 / 2000)
    assert (band.get_y(), band.get_y() + band.get_height()) == pytest.approx((0.95 - half, 0.95 + half))


def test_bands_are_two_standard_errors() -> None:
    data = study(n=(10,), truths=1, uses=(True,))
    (ax,) = coverage_figures.length(data).axes
    (band,) = (part for part in ax.collections if part.get_gid() == "error")
    y = band.get_paths()[0].vertices[:, 1]
    value, error = data["length"].item(), ERRORS * data["length_mcse"].item()
    assert (y.min(), y.max()) == pytest.approx((value - error, value + error))


def test_titles_say_how_much_the_bounds_help() -> None:
    data = study(truths=1)
    data["length"].loc[{"constrained": True}] = 0.5 * data["length"].sel(constrained=False).values
    data["length"].loc[{"n": 10, "constrained": True}] = 0.25 * data["length"].sel(n=10, constrained=False).values
    assert heading(coverage_figures.length(data)) == "Ignoring the bounds makes intervals up to 4 times as long"
    assert heading(coverage_figures.rmse(data)).startswith("Ignoring the bounds makes errors up to ")
    assert heading(coverage_figures.length(data.isel(constrained=[0]))).startswith("Intervals with the bounds: ")


def test_the_title_of_coverage_has_the_extremes() -> None:
    data = study(budgets=2)
    data["coverage"].values[:] = 0.95
    data["coverage"].values[1, 0, 0, 0, 0], data["coverage"].values[2, 1, 1, 0, 1] = 0.62, 1.0
    assert heading(coverage_figures.coverage(data)) == "95 % intervals cover in 62 % to 100 % of data sets"


@pytest.mark.parametrize(("name", "uses"), [("length", (True,)), ("rmse", (False,)), ("coverage", (False, True))])
def test_several_priors_have_colours_of_their_own(name: str, uses: tuple[bool, ...]) -> None:
    data = study(priors=3, uses=uses)
    figure = FIGURES[name](data)
    found = lines(figure.axes[0])
    assert set(found) == {f"{prior}, {USES[use]}" for prior in data["prior"].values for use in uses}
    assert len({line.get_color() for line in found.values()}) == 3
    for label, line in found.items():
        assert line.is_dashed() == label.endswith("without the bounds")


@pytest.mark.parametrize(
    ("name", "shape"),
    [("rmse", {"budgets": 2, "priors": 3}), ("length", {}), *((name, {"n": (50,), "truths": 1}) for name in FIGURES)],
)
def test_nothing_overlaps(name: str, shape: dict[str, Any]) -> None:
    """The legend is outside of the axes and their labels, and no text leaves the figure."""
    figure = FIGURES[name](study(**shape))
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    (legend,) = figure.legends
    box = legend.get_window_extent(renderer)
    for ax in figure.axes:
        assert not box.overlaps(ax.get_tightbbox(renderer))
    titled = figure.texts[0].get_window_extent(renderer)
    for inner in (box, titled):
        assert inner.x0 >= figure.bbox.x0
        assert inner.x1 <= figure.bbox.x1
        assert inner.y0 >= figure.bbox.y0 - 1


def test_standard_errors_that_are_not_known_are_not_drawn() -> None:
    data = study()
    data["length_mcse"].values[:] = np.nan
    ax = coverage_figures.length(data).axes[0]
    assert np.isfinite(ax.dataLim.extents).all()
