"""Figures of a recommended epsilon: labelled, and with the library's numbers, rounded to the safe side in the title."""

import io
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import adversary as adv
from adversary.budget.accuracy import tradeoff_table
from adversary.budget.release_budget import release_curve
from adversary.report.files.profile_file import load_profile_file
from adversary.report.kit.figure_files import figure_of
from adversary.report.plot import accuracy, budget_figures, epsilon_profile, sheet
from adversary.report.plot.epsilon_map import COLOURED, NOTHING
from tests.tables import DATA

Profile = adv.RiskProfile
PROFILES = {
    "everybody": Profile.ratio_or_absolute(3, 0.25),
    "approached": Profile.constant(3),
    "inclusion": Profile.ratio_or_absolute(2, 0.25, value=1),
    "values": Profile.ratio_or_absolute(3, 0.15, inclusion=0.05),
    "point": Profile.point(1.5, 0.5, 1.0),
    "box": Profile.box(3, (0.2, 0.9), (0.3, 0.8)),
    "both kinds": Profile.difference(0.2).minimum(Profile.ratio_or_absolute(1.2, 0.1, value=1)),
}
NOBODY = {"may learn": Profile.constant(1), "asks": Profile.box(3, (0.5, 1), (0.8, 1))}


def recommended(*names: str) -> dict[str, adv.budget.Recommendation]:
    return {name: adv.recommend_epsilon((PROFILES | NOBODY)[name]) for name in names}


def parts(ax: Axes, gid: str) -> list[Any]:
    return [part for part in (*ax.lines, *ax.collections, *ax.texts) if part.get_gid() == gid]


def heading(figure: Figure) -> str:
    return " ".join(figure.get_suptitle().replace("\u00a0", " ").split())


def saved(figure: Figure) -> Figure:
    figure.savefig(io.BytesIO(), format="png", dpi=40)
    return figure


def xy(line: Any) -> tuple[Any, Any]:
    return np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)


@pytest.mark.parametrize("name", PROFILES)
def test_the_map_marks_the_reader_who_binds_and_says_what_they_need(name: str) -> None:
    (one,) = recommended(name).values()
    figure = saved(figure_of(epsilon_profile({"": one})))
    verb, shown = heading(figure).removeprefix("The smallest epsilon ").split()[:2]
    assert one.epsilon * 0.99 <= float(shown.strip(",")) <= one.epsilon
    assert verb == ("is" if one.attained else "nears")
    axes = [ax for ax in figure.axes if parts(ax, "binds")]
    assert len(axes) == (1 if name in ("inclusion", "values") else 2)
    for ax in axes:
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        (dot,) = parts(ax, "binds")
        x, y = (float(end[0]) for end in xy(dot))
        least = ax.get_xlim()[0]
        if name == "inclusion":
            assert (x, y) == (max(one.inclusion, least), one.epsilon)
        elif name == "values":
            assert (x, y) == (max(one.value, least), one.epsilon)
        else:
            assert (x, y) == (max(one.inclusion, least), max(one.value, least))
        assert (dot.get_markerfacecolor() == sheet.PAPER) == (not one.attained)


def test_the_colours_are_the_epsilons_of_the_readers() -> None:
    (one,) = recommended("everybody").values()
    figure = figure_of(epsilon_profile({"": one}))
    plain, log = figure.axes[:2]
    assert (plain.get_xscale(), log.get_xscale()) == ("linear", "log")
    for ax in (plain, log):
        (mesh,) = parts(ax, COLOURED[0])
        corners = mesh.get_coordinates()
        x, y = corners[0, :, 0], corners[:, 0, 1]
        middle = [np.sqrt(e[1:] * e[:-1]) if ax is log else 0.5 * (e[1:] + e[:-1]) for e in (x, y)]
        expected = adv.budget.risk_surface(one.profile, *middle)["epsilon"].T
        values = np.ma.masked_array(mesh.get_array()).reshape(expected.shape)
        np.testing.assert_array_equal(values.mask, ~np.isfinite(expected))
        np.testing.assert_allclose(values.compressed(), expected.values[np.isfinite(expected)], rtol=1e-12)
    assert parts(plain, NOTHING)


def test_a_curve_of_one_prior_is_the_epsilon_of_its_readers() -> None:
    (one,) = recommended("inclusion").values()
    figure = figure_of(epsilon_profile({"": one}))
    (ax,) = figure.axes
    p, epsilon = xy(parts(ax, "epsilon")[0])
    expected = adv.budget.epsilon_for_risk(p, 1.0, one.profile(p, 1.0))
    np.testing.assert_array_equal(np.isnan(epsilon), ~np.isfinite(expected))
    np.testing.assert_array_equal(epsilon[np.isfinite(expected)], expected[np.isfinite(expected)])
    assert np.nanmax(epsilon) > ax.get_ylim()[1]  # it leaves the axes where readers allow anything
    assert parts(ax, NOTHING)


@pytest.mark.parametrize("name", NOBODY)
def test_regions_without_an_epsilon_are_named(name: str) -> None:
    figure = saved(figure_of(epsilon_profile(recommended(name))))
    texts = {text.get_text().replace("\n", " ") for ax in figure.axes for text in ax.texts}
    assert ("may learn nothing" if name == "may learn" else NOTHING) in texts
    start = "No epsilon above 0" if name == "may learn" else "Every epsilon"
    assert heading(figure).startswith(start)


def county() -> xr.Dataset:
    file = load_profile_file(DATA / "durham_infant_mortality.toml")
    assert file.utility is not None
    return tradeoff_table(
        file.profiles, base=file.utility.base, target=file.utility.target, deviations=file.utility.deviations
    )


def test_accuracy_draws_the_trade_off_table_and_names_every_profile() -> None:
    table = county().sortby("epsilon")
    figure = saved(figure_of(accuracy(table)))
    error, wrong = figure.axes
    np.testing.assert_array_equal(xy(parts(error, "rmse")[0]), [table["epsilon"], table["rmse"]])
    for deviation in table["deviation"].values:
        for side in ("above", "below"):
            (line,) = parts(wrong, f"{deviation:g} {side}")
            np.testing.assert_array_equal(xy(line)[1], table["switch"].sel(deviation=deviation, side=side))
    assert [text.get_text() for text in error.texts] == list(table["profile"].values)
    assert heading(figure) == "The error falls from 7.7 to 0.53 people between epsilon 0.182 and 2.19"


def test_accuracy_of_one_profile_is_drawn_against_the_true_rate() -> None:
    table = county().sel(profile=["2x"])
    figure = saved(figure_of(accuracy(table)))
    (ax,) = figure.axes
    rate, chance = xy(parts(ax, "wrong")[0])
    assert rate == pytest.approx([4.0, 5.0, 5.5, 5.75, 6.25, 6.5, 7.0, 8.0])
    row = table.isel(profile=0)["switch"]
    np.testing.assert_array_equal(chance[:4][::-1], row.sel(side="below"))
    np.testing.assert_array_equal(chance[4:], row.sel(side="above"))
    assert heading(figure) == "At epsilon = 0.693 up to 33% of decisions are wrong"


def test_accuracy_leaves_out_what_has_no_noise() -> None:
    profiles = {**NOBODY, "some": Profile.constant(2), "more": Profile.constant(4)}
    table = tradeoff_table(profiles, base=100, target=0.1, deviations=[0.01])
    figure = saved(figure_of(accuracy(table)))
    assert [text.get_text() for text in figure.axes[0].texts] == ["some", "more"]
    with pytest.raises(ValueError, match="table must hold a profile with noise"):
        figure_of(accuracy(table.sel(profile=list(NOBODY))))


def test_of_deviation_0_both_sides_are_one() -> None:
    profiles = {"some": Profile.constant(2), "more": Profile.constant(4)}
    table = tradeoff_table(profiles, base=100, target=0.1, deviations=[0, 0.01], noise="laplace")
    (ax,) = figure_of(accuracy(table.sel(profile=["some"]))).axes
    assert sorted(xy(parts(ax, "wrong")[0])[0]) == pytest.approx([90, 100, 110])
    assert len(ax.texts) == 3


def test_accuracy_of_an_epsilon_that_rounds_to_0_has_no_place() -> None:
    profiles = {"tiny": Profile.difference(0.001), "some": Profile.constant(2), "more": Profile.constant(4)}
    table = tradeoff_table(profiles, base=100, target=0.1, deviations=[0.01], round_down=2)
    table["rmse"] = table["rmse"].fillna(7.0)
    figure = saved(figure_of(accuracy(table, 2)))
    assert [text.get_text() for text in figure.axes[0].texts] == ["some", "more"]
    assert heading(figure).endswith("between epsilon 0.34 and 0.69")


def test_titles_are_true_of_limits_and_of_an_epsilon_that_was_rounded() -> None:
    tied = Profile.constant(3).within(value=(0.25, 0.25))
    for profile, digits, reader in (
        (tied, None, "The smallest epsilon is 1.09, at inclusion 100%, value 25%"),
        (PROFILES["approached"], None, "The smallest epsilon nears 0.549 towards inclusion"),
        (Profile.difference(0.2), 3, "The smallest epsilon is 0.405, at inclusion 100%"),
    ):
        every = {"": adv.recommend_epsilon(profile, round_down=digits)}
        assert heading(figure_of(epsilon_profile(every))).startswith(reader)


def test_one_count_binds_many_readers() -> None:
    one = adv.recommend_epsilon(PROFILES["everybody"], statistic="count")
    q = one.inclusion * one.value
    assert adv.budget.epsilon_for_risk(1.0, q, one.profile(1.0, q), "count") == pytest.approx(one.loss)
    half = adv.budget.epsilon_for_risk(0.5, 2 * q, one.profile(0.5, 2 * q), "count")
    assert half == pytest.approx(one.loss)


@pytest.mark.parametrize("several", [False, True])
def test_budgets_of_releases_are_the_curves_of_the_library(several: bool) -> None:
    one = adv.recommend_epsilon(Profile.difference(0.2).within(value=(1, 1)))
    curve = release_curve(one, (1, 2, 4), failure=0.01)
    figure = saved(figure_of(budget_figures.epsilon_by_releases({"a": curve, "b": curve} if several else {"": curve})))
    for ax in figure.axes:
        for way in curve["composition"].values:
            (line,) = parts(ax, str(way))
            np.testing.assert_array_equal(xy(line), [[1, 2, 4], curve["parameter"].sel(composition=way)])
    if not several:
        last = float(curve["parameter"].isel(releases=-1).max())
        shown = float(heading(figure).split("epsilon = ")[1].split(" ")[0].strip(","))
        assert last * 0.99 <= shown <= last


def test_budgets_that_nothing_bounds_cannot_be_drawn() -> None:
    one = recommended("point")["point"]
    with pytest.raises(ValueError, match="curves must hold a finite budget above 0"):
        figure_of(budget_figures.epsilon_by_releases({"": release_curve(one, (1, 2), failure=1.0)}))
    figure = saved(
        figure_of(budget_figures.epsilon_by_releases({"": release_curve(one, (1, 2), "pure DP", failure=0.0)}))
    )
    assert heading(figure) == "Each of 2 releases may spend epsilon = 0.549"
