"""Figures of guarantees and losses: every one labelled and finite, its numbers those of the guarantees it draws."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

import adversary as adv
from adversary.report.kit.figure_files import figure_of
from adversary.report.plot import epsilon_delta, guarantee_figures
from tests.tables import refusals

RHO = 2.63
LAPLACE, GAUSSIAN = adv.Laplace(0.5).privacy_loss(), adv.Gaussian(1.0).privacy_loss()
BLOCK = adv.DiscreteGaussian.from_rho(0.0992).privacy_loss()
SEVERAL = {"Laplace noise": LAPLACE, "any pure DP": adv.PureDP(2.0), "Gaussian noise": GAUSSIAN}
EVERY = {
    "definition": adv.PureDP(1.0),
    "zCDP": adv.ZeroConcentratedDP(RHO),
    "approximate DP": adv.ApproximateDP(1.0, 1e-5),
    "Renyi DP": adv.RenyiDP(2.0, 0.5),
    "block": BLOCK,
    "no noise": adv.NoPrivacy(),
}
TESTS: dict[str, tuple[Any, Any]] = {
    "reader 1/5": (0.2, 0.3),
    "reader 1/2": (np.array([0.05, 0.3]), np.array([0.1, 0.4])),
    "shy": (0.0, 0.0),
}
PRIORS = (0.5, 0.2, 0.001)

DRAWN: dict[str, Callable[[], Figure]] = {
    "trade-off of one": lambda: figure_of(guarantee_figures.trade_off(adv.PureDP(0.1))),
    "trade-off of every kind": lambda: figure_of(guarantee_figures.trade_off(EVERY)),
    "trade-off with tests": lambda: figure_of(
        guarantee_figures.trade_off({"own loss": BLOCK, "zCDP": adv.ZeroConcentratedDP(0.0992)}, TESTS)
    ),
    "ladder of a rho": lambda: figure_of(epsilon_delta(rho=RHO)),
    "ladder of a loss": lambda: figure_of(epsilon_delta({"block": BLOCK}, rho=0.0992)),
    "ladder of definitions": lambda: figure_of(
        epsilon_delta(guarantees={**EVERY, "rounded": adv.Laplace(1.0).privacy_loss() + GAUSSIAN}, deltas=[0.3, 1e-6])
    ),
}


@cache
def drawn(name: str) -> Figure:
    return DRAWN[name]()


def named(figure: Figure, gid: str) -> list[Line2D]:
    return [line for ax in figure.axes for line in ax.lines if line.get_gid() == gid]


def data(line: Line2D) -> tuple[Any, Any]:
    return np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)


def texts(figure: Figure) -> str:
    return "\n".join(text.get_text().replace("\n", " ") for ax in figure.axes for text in ax.texts)


def test_a_trade_off_draws_the_power_of_everything() -> None:
    figure = drawn("trade-off of every kind")
    for name, guarantee in EVERY.items():
        (whole,) = named(figure, f"power {name}")
        level, power = data(whole)
        np.testing.assert_allclose(power, guarantee.power(level), rtol=1e-12)
        assert level[[0, -1]].tolist() == [0.0, 1.0]
        assert whole.get_linestyle() == ("-" if isinstance(guarantee, adv.PrivacyLoss) else "--")
    for line in named(figure, "no information"):
        level, power = data(line)
        assert (level == power).all()


def test_the_title_of_a_trade_off_states_the_power_at_five_percent() -> None:
    assert adv.PureDP(0.1).power(0.05) == pytest.approx(0.0552585, abs=1e-7)
    assert "5%" in drawn("trade-off of one").get_suptitle().replace("\u00a0", " ")
    assert "5.53%" in drawn("trade-off of one").get_suptitle()
    title = figure_of(
        guarantee_figures.trade_off({"weak": adv.GaussianDP(1.0), "zCDP": adv.ZeroConcentratedDP(RHO)})
    ).get_suptitle()
    assert "26.0% under weak, or 94.7% under zCDP" in " ".join(title.split(" ")).replace("\n", " ")


def test_what_tests_achieve_stands_as_dots_under_the_curves() -> None:
    figure = drawn("trade-off with tests")
    for name, (level, power) in TESTS.items():
        for line in named(figure, f"point {name}"):
            x, y = data(line)
            assert (x == np.ravel(level)).all()
            assert (y == np.ravel(power)).all()
            assert line.get_linestyle() == "None"
    legend = figure.axes[0].get_legend()
    assert [text.get_text() for text in legend.texts][-len(TESTS) :] == list(TESTS)
    used = {
        (name, a): (t - a) / (BLOCK.power(a) - a)
        for name, (level, power) in TESTS.items()
        for a, t in zip(np.ravel(level), np.ravel(power), strict=True)
        if t > a
    }
    assert max(used, key=used.__getitem__) == ("reader 1/2", 0.05)
    assert figure.get_suptitle().startswith("Reader 1/2 detects 10% at 5% false alarms")


def test_a_test_better_than_a_guarantee_allows_is_the_finding() -> None:
    title = figure_of(
        guarantee_figures.trade_off({"pure": adv.PureDP(1.0)}, {"fine": (0.1, 0.2), "cheat": (0.1, 0.5)})
    ).get_suptitle()
    assert "Cheat detects 50% at 10% false alarms" in title
    assert "allows no more than 27.2%" in title.replace("\n", " ")


def test_rungs_pass_through_the_profile_of_each_guarantee() -> None:
    figure = drawn("ladder of a loss")
    for name, guarantee in {"tight zCDP": adv.ZeroConcentratedDP(0.0992), "block": BLOCK}.items():
        (line,) = named(figure, f"epsilon {name}")
        delta, epsilon = data(line)
        np.testing.assert_allclose(delta, np.maximum(guarantee.delta(epsilon), 1e-12), rtol=1e-12)
        assert epsilon[0] == guarantee.epsilon(0.1)
        assert epsilon[-1] == guarantee.epsilon(1e-12)
    (line,) = named(figure, "epsilon simple zCDP")
    delta, epsilon = data(line)
    np.testing.assert_allclose(adv.definitions.simple_epsilon(0.0992, delta[1:]), epsilon[1:], rtol=1e-9)


def test_the_ladder_states_epsilon_at_its_reference() -> None:
    figure = drawn("ladder of a rho")
    gaussian = adv.GaussianDP(float(np.sqrt(2 * RHO)))
    expected = {
        "simple zCDP": 18.193803,
        "tight zCDP": 17.430584,
        "Gaussian noise": gaussian.epsilon(1e-10),
    }
    for name, epsilon in expected.items():
        (dot,) = named(figure, f"asked {name}")
        assert data(dot)[0] == 1e-10
        assert data(dot)[1] == pytest.approx(epsilon, abs=1e-6)
    assert "At delta = 1e-10, epsilon is 18.2 (simple zCDP), or 16.8 (Gaussian noise)" in figure.get_suptitle()
    assert "tight zCDP: 17.5, 0.76 less" in texts(figure)


def test_a_rung_that_no_epsilon_reaches_says_so() -> None:
    figure = drawn("ladder of definitions")
    assert "no noise: unlimited" in texts(figure)
    assert "approximate DP: unlimited" in texts(figure)
    assert "epsilon is unlimited" in figure.get_suptitle()
    assert not named(figure, "asked no noise")
    (line,) = named(figure, "epsilon approximate DP")
    assert data(line)[0].min() == pytest.approx(1e-5, rel=1e-6), "its delta0 is a wall"


def test_the_certified_interval_of_a_rounded_loss_is_drawn() -> None:
    figure = drawn("ladder of definitions")
    loss = adv.Laplace(1.0).privacy_loss() + GAUSSIAN
    (band,) = [one for one in figure.axes[0].collections if one.get_gid() == "certified rounded"]
    assert isinstance(band, PolyCollection)
    delta, epsilon = np.asarray(band.get_paths()[0].vertices).T
    lower, upper = loss.bracket.delta(2.0)
    near = delta[np.abs(epsilon - 2.0) < 0.05]
    assert near.min() < lower < upper < near.max()


def test_names_are_never_read_as_formulas() -> None:
    name = "$\\frac$ <b>"
    for figure in (
        figure_of(guarantee_figures.trade_off({name: GAUSSIAN}, {name: (0.1, 0.1)})),
        figure_of(epsilon_delta(guarantees={name: GAUSSIAN})),
    ):
        figure.draw_without_rendering()


test_bad_input_is_refused_in_the_callers_words = refusals(
    (lambda: figure_of(guarantee_figures.trade_off({})), "guarantees must hold at least one"),
    (
        lambda: figure_of(guarantee_figures.trade_off({"x": 1.0})),
        "guarantees must be guarantees or losses, got float as 'x'",
        TypeError,
    ),
    (lambda: figure_of(guarantee_figures.trade_off(BLOCK, {"t": (0.1, 1.2)})), "power must be in"),
    (lambda: figure_of(guarantee_figures.trade_off(BLOCK, {"t": (-0.1, 0.2)})), "level must be in"),
    (lambda: figure_of(epsilon_delta()), "rho or guarantees must be given"),
    (lambda: figure_of(epsilon_delta(rho=-1.0)), "rho must be positive"),
    (lambda: figure_of(epsilon_delta(rho=1.0, deltas=[0.1])), "deltas must hold two different values"),
    (lambda: figure_of(epsilon_delta(rho=1.0, deltas=[0.0, 0.1])), "strictly between 0 and 1"),
)
