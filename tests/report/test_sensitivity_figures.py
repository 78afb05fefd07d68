"""Tornado and fan: labelled, finite, true to the sweeps they draw, with a finding for a title."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import adversary as adv
from adversary.driver.sensitivity import TRUTHS, most_moving, one_at_a_time, sweep
from adversary.report.kit.figure_files import figure_of
from adversary.report.plot import fan, tornado

PLAN = adv.Plan(
    [
        adv.Level("block", adv.DiscreteGaussian.from_rho(0.1), 3),
        adv.Level("tract", adv.DiscreteGaussian.from_rho(0.2)),
    ]
)
READER = adv.Adversary(0.5, 0, {"tract": adv.Uniform(12)})
TRUTH = {"block": 1, "tract": 2}
BELIEFS = {"sure of 9": {"tract": adv.Point(9)}, "none elsewhere": {"tract": adv.Others([1.0])}}


@cache
def moved() -> xr.Dataset:
    given = {"prior": [0.02, 0.5, 0.9], "rho": [0.05, 0.3, 1.0], "siblings": [1, 3, 9]}
    return one_at_a_time(PLAN, READER, {"block": 1, "tract": 1}, **given, beliefs=BELIEFS)  # type: ignore[arg-type]


@cache
def along(dim: str) -> xr.Dataset:
    values = {"prior": [0.001, 0.01, 0.1, 0.5, 0.9], "rho": [0.05, 0.1, 0.3, 0.9]}[dim]
    return sweep(PLAN, READER, TRUTH, **{dim: values})  # type: ignore[arg-type]


def part(figure: Figure, gid: str) -> list[object]:
    return [a for ax in figure.axes for a in ax.get_children() if a.get_gid() == gid]


DRAWN = {
    "tornado": lambda: figure_of(tornado(moved())),
    "tornado of differences": lambda: figure_of(tornado(moved(), "difference_mean")),
    "fan over priors": lambda: figure_of(fan(along("prior"), "prior")),
    "fan over budgets": lambda: figure_of(fan(along("rho"), "rho")),
}


def test_inputs_that_move_as_much_are_named_together() -> None:
    """Equal to rounding, or within the errors of simulated ends; and none where nothing moves."""
    plan, reader = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))]), adv.Adversary(0.5)
    found = one_at_a_time(plan, reader, {"block": 1}, prior=[0.2, 0.9], rho=[0.05, 0.3])
    title = figure_of(tornado(found)).get_suptitle()
    assert title == "The prior moves the average posterior most, by up to 69 points"
    twins = xr.concat([found.isel(input=0), found.isel(input=0), found.isel(input=1)], "input")
    twins = twins.assign_coords(input=["prior", "beliefs", "rho"])
    title = figure_of(tornado(twins)).get_suptitle().replace("\n", " ")
    assert title == "The prior and the beliefs about others move the average posterior equally, and most"
    gap = found["posterior_mean"].sel(end="high") - found["posterior_mean"].sel(end="low")
    apart = float(gap.max("truth").sel(input="prior") - gap.max("truth").sel(input="rho"))
    for error, names in ((apart / 5.0, ["prior", "rho"]), (apart / 7.0, ["prior"])):  # 3 sqrt(4) errors apart: 6
        errors = xr.full_like(found["posterior_mean"], error).expand_dims(measure=["posterior_mean"])
        assert most_moving(found.assign(mcse=errors)) == names
    still = found.assign(posterior_mean=found["posterior_mean"].sel(end="base").broadcast_like(found["posterior_mean"]))
    assert figure_of(tornado(still)).get_suptitle() == "No input moves the average posterior"


@pytest.mark.parametrize("truth", TRUTHS)
def test_bars_reach_from_the_base_to_the_ends(truth: str) -> None:
    figure, found = figure_of(tornado(moved())), moved()["posterior_mean"].sel(truth=truth)
    panel = figure.axes[TRUTHS.index(truth)]
    for name in found["input"].values:
        low, base, high = (float(found.sel(input=name, end=end)) for end in ("low", "base", "high"))
        for which, start, length in (("low", low, base - low), ("high", base, high - base)):
            bars = [bar for bar in part(figure, f"{name} {which}") if bar.axes is panel]  # type: ignore[attr-defined]
            assert len(bars) == (length > 0)
            for bar in bars:
                assert bar.get_x() == pytest.approx(start)  # type: ignore[attr-defined]
                assert bar.get_width() == pytest.approx(length)  # type: ignore[attr-defined]


def test_the_longest_bar_is_on_top_and_named_in_the_title() -> None:
    figure, found = figure_of(tornado(moved())), moved()["posterior_mean"]
    swing = (found.sel(end="high") - found.sel(end="low")).max("truth")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    order = swing["input"].values[np.argsort(-swing.values)].tolist()
    words = {"prior": "prior", "rho": "budget rho", "siblings": "number of siblings", "beliefs": "beliefs about others"}
    assert labels == [words[name] for name in order]
    assert words[order[0]] in figure.get_suptitle()


def test_ends_of_bars_are_labelled_with_what_the_input_is_there() -> None:
    texts = [text.get_text() for ax in figure_of(tornado(moved())).axes for text in ax.texts]
    assert {"2%", "90%", "sure of 9"} <= set(texts)
    assert any(text.startswith("as it is: ") for text in texts)


@pytest.mark.parametrize("dim", ["prior", "rho"])
def test_bands_are_the_quantiles_of_the_sweep(dim: str) -> None:
    figure, swept = figure_of(fan(along(dim), dim)), along(dim)
    measure = "ratio" if dim == "prior" else "posterior"
    for ax, truth in zip(figure.axes, TRUTHS, strict=True):
        (mean,) = [line for line in ax.lines if line.get_gid() == "mean"]
        (median,) = [line for line in ax.lines if line.get_gid() == "median"]
        np.testing.assert_allclose(mean.get_ydata(), swept[f"{measure}_mean"].sel(truth=truth))
        np.testing.assert_allclose(median.get_ydata(), swept[f"{measure}_quantile"].sel(truth=truth, quantile=0.5))
        for gid, quantiles in (("nine in ten", (0.05, 0.95)), ("middle half", (0.25, 0.75))):
            (band,) = [one for one in ax.collections if one.get_gid() == gid]
            edges = band.get_paths()[0].vertices[:, 1]
            values = swept[f"{measure}_quantile"].sel(truth=truth, quantile=list(quantiles)).values
            assert edges.min() == pytest.approx(values.min())
            assert edges.max() == pytest.approx(values.max())


def test_what_cannot_be_drawn_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="measure must be one of"):
        figure_of(tornado(moved(), "accuracy"))
    with pytest.raises(ValueError, match="along must be the only input swept, got 'prior'"):
        figure_of(fan(along("rho"), "prior"))
    settled = adv.Plan([PLAN.levels[0], adv.Level("tract", adv.Exact())])
    sure = adv.Adversary(0.5, 0, {"tract": adv.Point(2)})
    found = one_at_a_time(settled, sure, TRUTH, prior=[0.1])
    assert len(figure_of(tornado(found)).axes) == 1
    with pytest.raises(ValueError, match="holds no truth possible"):
        figure_of(tornado(found.assign(posterior_mean=found["posterior_mean"] * np.nan)))


def test_an_axis_of_probabilities_ends_where_they_do() -> None:
    moved_far = one_at_a_time(PLAN, READER, TRUTH, prior=[0.001, 0.999])
    for ax in figure_of(tornado(moved_far)).axes:
        ends = ax.spines["bottom"].get_bounds()
        assert ends == (max(0.0, ax.get_xlim()[0]), min(1.0, ax.get_xlim()[1]))
        ticks = np.asarray(ax.get_xticks())
        assert 0.0 <= ticks.min() < ticks.max() <= 1.0
        assert 3 <= ticks.size <= 7
        shown = [float(label.get_text().removesuffix("%")) for label in ax.get_xticklabels()]
        np.testing.assert_allclose(shown, 100.0 * ticks, atol=1e-9)
    below = figure_of(tornado(moved_far, "difference_mean")).axes[1].get_xticklabels()
    assert any(label.get_text().startswith("\u2212") for label in below)


@pytest.mark.parametrize("dim", ["prior", "rho"])
def test_bands_and_lines_pass_through_the_same_points_and_the_scenario_is_marked(dim: str) -> None:
    swept = along(dim)
    own = float(swept[dim][2])
    for ax in figure_of(fan(swept, dim, own=own)).axes:
        lines = {line.get_gid(): line for line in ax.lines}
        assert set(np.asarray(lines["own"].get_xdata())) == {own}
        assert lines["median"].get_drawstyle() == lines["mean"].get_drawstyle() == "default"
        for band in ax.collections:
            assert set(band.get_paths()[0].vertices[:, 0]) == set(swept[dim].values)
    for drawn in (figure_of(fan(swept, dim)), figure_of(fan(swept, dim, own=2.0 * float(swept[dim].max())))):
        assert not part(drawn, "own")
