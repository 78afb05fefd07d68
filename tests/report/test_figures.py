"""Figures: every one has labels, a finding for a title and finite data that agree with the audit."""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import expit

import adversary as adv
from adversary.adversaries.path import settle_truth
from adversary.adversaries.risk import bayes_factor_law
from adversary.driver import EVERYTHING, OWN
from adversary.report.answers import audit_answer
from adversary.report.files.scenario import Scenario
from adversary.report.kit.figure_files import figure_of
from adversary.report.plot import audit_figures, interval_figures, marks, table_figures
from tests.tables import DATA


def posterior_by_release(scenario: Scenario, tree: xr.DataTree) -> Figure:
    return figure_of(audit_figures.posterior_by_release(tree, level=scenario.plan.levels[scenario.plan.own].name))


def ratio_by_prior(_: Scenario, tree: xr.DataTree) -> Figure:
    return figure_of(audit_figures.ratio_by_prior(tree))


def risk_by_budget(_: Scenario, tree: xr.DataTree) -> Figure:
    return figure_of(audit_figures.risk_by_budget(tree))


def trade_off(scenario: Scenario, tree: xr.DataTree) -> Figure:
    return figure_of(audit_figures.tests(scenario, tree))


EVERY = [
    posterior_by_release,
    ratio_by_prior,
    risk_by_budget,
    trade_off,
]
SINGLE = EVERY[:3]
Draw = Callable[[Scenario, xr.DataTree], Figure]


@cache
def audited(name: str) -> tuple[Scenario, xr.DataTree]:
    scenario = adv.load_scenario(DATA / f"{name}.toml")
    return scenario, audit_answer.solve(scenario, rng=1)


@cache
def drawn(draw: Draw, name: str) -> Figure:
    return draw(*audited(name))


def lines(figure: Figure, gid: str) -> list[Any]:
    return [line for ax in figure.axes for line in ax.lines if str(line.get_gid()).startswith(gid)]


def named(figure: Figure, gid: str) -> list[Any]:
    return [line for line in lines(figure, gid) if line.get_gid() == gid]


def labelled(ax: Axes) -> bool:
    """Whether an axes shows ticks of its own: the bars behind a curve do not."""
    return bool(len(ax.get_yticks()))


CASES = [(draw, "dare_1940") for draw in EVERY] + [(draw, "granville_1940") for draw in SINGLE]


def test_the_posterior_at_each_release_is_the_readers_own() -> None:
    scenario, _ = audited("dare_1940")
    line = lines(drawn(posterior_by_release, "dare_1940"), "reader 1/5")[0]
    reader = scenario.adversary["1/5"]  # type: ignore[index]
    expected = reader.posterior(scenario.plan, scenario.plan.observe({"block": line.get_xdata()}))["posterior"]
    np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-12)


def test_the_average_posterior_lies_inside_its_band() -> None:
    """A twentieth of the releases with each count of the block leave the posterior below the band, and above it."""
    figure, (_, tree) = drawn(posterior_by_release, "granville_1940"), audited("granville_1940")
    line = lines(figure, "posterior")[0]
    band = next(part for ax in figure.axes for part in ax.collections if part.get_gid() == "band")
    edges = band.get_paths()[0].vertices
    block, weight = (tree["release"][name].values for name in ("noisy", "weight"))
    posterior = tree["exact"]["posterior"].values
    for x, y in line.get_xydata():
        column = edges[edges[:, 0] == x, 1]
        low, high = column.min(), column.max()
        assert low < y < high
        here = block[:, 0] == x
        share = weight * here / weight[here].sum()
        assert share[posterior < low].sum() < 0.05 <= share[posterior <= low].sum() + 1e-12
        assert share[posterior > high].sum() <= 0.05 + 1e-12
        assert share[posterior >= high].sum() > 0.05


def test_bars_hold_the_probability_of_each_value() -> None:
    figure = drawn(posterior_by_release, "dare_1940")
    bars = [bar for bar in figure.axes[-1].patches if bar.get_gid() == "probability"]
    heights = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in bars}
    assert heights[1] == pytest.approx(0.177721, abs=1e-6)
    assert sum(heights.values()) > 0.998


def test_the_bound_of_the_verdict_and_the_plans_own_are_labelled_lines() -> None:
    for name in ("dare_1940", "granville_1940"):
        figure, bound = drawn(ratio_by_prior, name), audited(name)[1]["bound"].to_dataset()
        if "adversary" in bound.dims:
            bound = bound.isel(adversary=0)
        texts = " ".join(text.get_text() for ax in figure.axes for text in ax.texts)
        for definition in ("zCDP", OWN):
            (upper,) = lines(figure, f"bound {definition} ≤")
            prior, ratio = upper.get_xydata().T
            at = float(bound["ratio"].sel(definition=definition, side="upper"))
            assert np.interp(np.log(0.5), np.log(prior), ratio) == pytest.approx(at, rel=2e-3)
            assert audit_figures.definition_words(str(definition)) in texts


def test_the_expected_ratio_passes_through_every_reader() -> None:
    figure, (scenario, tree) = drawn(ratio_by_prior, "dare_1940"), audited("dare_1940")
    for name, reader in scenario.adversary.items():  # type: ignore[union-attr]
        (dot,) = named(figure, f"reader {name}")
        assert dot.get_xdata()[0] == reader.prior
        assert dot.get_ydata()[0] == float(tree["risk"]["ratio_mean"].sel(adversary=name))


def test_the_expected_ratio_tends_to_the_exponential_of_twice_rho() -> None:
    line = lines(drawn(ratio_by_prior, "dare_1940"), "expected")[0]
    assert line.get_ydata()[0] == pytest.approx(1.219514, abs=1e-4)


def test_the_sweep_meets_exact_values() -> None:
    scenario, _ = audited("granville_1940")
    (line,) = lines(drawn(risk_by_budget, "granville_1940"), "expected")
    factors = np.geomspace(0.1, 10.0, 13)
    for i in (0, 6, 12):
        plan = scenario.plan.scaled(float(factors[i]))
        truth = settle_truth(plan, scenario.adversary, scenario.truth)  # type: ignore[arg-type]
        law = bayes_factor_law(plan, scenario.adversary, truth)  # type: ignore[arg-type]
        assert line.get_ydata()[i] == pytest.approx(law.posterior_mean()[0], abs=2e-5)
    assert line.get_ydata()[6] == pytest.approx(0.435613, abs=2e-5)
    assert line.get_xdata()[6] == pytest.approx(0.3457109, abs=1e-6)


def test_every_adversary_stands_beside_the_tightest_guarantee() -> None:
    scenario, tree = audited("dare_1940")
    figure = figure_of(interval_figures.before_after(tree))
    for name in scenario.adversary:  # type: ignore[union-attr]
        row = interval_figures.odds_words(name, scenario.adversary[name].prior)  # type: ignore[index]
        (dot,) = named(figure, f"expected {row}")
        mean = float(tree["risk"]["posterior_mean"].sel(adversary=name))
        assert expit(dot.get_xdata()[0]) == pytest.approx(mean, rel=1e-12)
        (bound,) = named(figure, f"bound {row}")
        limits = scenario.guarantee["zCDP"].posterior_bounds(scenario.adversary[name].prior, 0.05)  # type: ignore[index]
        assert expit(bound.get_xdata()) == pytest.approx([float(end) for end in limits], rel=1e-12)
    title = " ".join(figure.get_suptitle().replace("\u00a0", "").split())
    assert title == "One noisy count moves a 20% suspicion to 23% on average; the guarantee allows 46.3%"
    assert any("Bound: by zCDP" in text.get_text() for text in figure.texts)


def test_titles_say_the_finding_in_at_most_ninety_letters() -> None:
    for draw, name in CASES:
        title = drawn(draw, name).get_suptitle()
        assert len(title) <= 90, title


def test_names_are_never_read_as_formulas() -> None:
    plan = adv.Plan([adv.Level("b_$x^$", adv.DiscreteGaussian.from_rho(0.5))])
    scenario, _ = audited("dare_1940")
    readers = {"$\\frac$": adv.Adversary(0.5), "<b>": adv.Adversary(0.1)}
    truth = {"b_$x^$": 1}
    changed = Scenario(
        plan, readers, truth, None, 0.05, {"truth": truth, "plan": {"level": []}},
        title="t", description="", source="", path=scenario.path,
    )  # fmt: skip
    tree = adv.audit(plan, readers, truth, rng=1, also=EVERYTHING)
    for draw in EVERY:
        draw(changed, tree).draw_without_rendering()


def test_labels_are_pushed_apart_in_order() -> None:
    places = marks.separate_labels([0.5, 0.5, 0.1], [0.1, 0.1, 0.1])
    assert places[2] < places[0] < places[1]
    assert places[1] - places[0] == pytest.approx(0.1, abs=1e-3)


def test_continuous_noise_is_gathered_into_bins(tmp_path: Path) -> None:
    path = tmp_path / "gaussian.toml"
    path.write_text(
        'title = "g"\nneighbours = "unbounded"\n[plan]\n[[plan.level]]\nname = "block"\nnoise = "gaussian"\nrho = 0.1\n'
        '[truth]\nblock = 1\n[adversary]\nprior = 0.3\nknown = 0\n[guarantee]\n"Gaussian DP" = 0.5\n'
    )
    scenario = adv.load_scenario(path)
    tree = audit_answer.solve(scenario, draws=2048, rng=1)
    for draw in SINGLE:
        figure = draw(scenario, tree)
        for line in lines(figure, "posterior") + lines(figure, "expected") + lines(figure, "bound"):
            assert np.isfinite(line.get_xydata()).all()


@pytest.mark.parametrize("most", [3.0, 40.0, 999.0, 40_000.0])
def test_labels_of_counts_stand_apart(most: float) -> None:
    rows = {"count": [1.0, most], "posterior_mean": 0.2, "posterior_low": 0.1, "posterior_high": 0.3}
    found = xr.Dataset({name: ("row", np.broadcast_to(x, 2)) for name, x in rows.items()})
    figure = figure_of(table_figures.risk_by_count(found, prior=0.1, bound=0.4))
    figure.draw_without_rendering()
    boxes = [one.get_window_extent() for one in figure.axes[0].get_xticklabels()]
    apart = 0.5 * boxes[0].width
    assert all(left.x1 + apart < right.x0 for left, right in pairwise(boxes))
