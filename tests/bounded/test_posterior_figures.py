"""Figures of posteriors: what is drawn is what the library says, and the title says what is drawn."""

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import adversary as adv
from adversary.bounded.prior import Flat, NormalInverseGamma
from adversary.bounded.report import posterior_figures as bounded_posterior
from adversary.bounded.report.posterior_figures import joint_density, predictive_density, prior_marginal
from adversary.report.kit.figure_files import figure_of

BOTH = ("using the bounds", "ignoring the bounds")


@cache
def posteriors() -> dict[str, Any]:
    release = adv.bounded.BoundedRelease(34.3026826, 2224.800114, 43, (0.25, 0.25), (0, 100))
    return {
        name: adv.bounded.posterior(release, "flat", constrained)
        for name, constrained in zip(BOTH, (True, False), strict=True)
    }


def drawn(figure: Figure) -> dict[str, Any]:
    """Every marked line, patch and collection, by its mark."""
    parts = [part for ax in figure.axes for part in (*ax.lines, *ax.patches, *ax.collections)]
    return {str(part.get_gid()): part for part in parts if part.get_gid()}


def said(figure: Figure) -> str:
    return " ".join(figure.get_suptitle().split()).replace("\u00a0", " ")


def test_marginals_are_the_densities_of_the_library() -> None:
    every = posteriors()
    figure = figure_of(bounded_posterior.posterior_marginals(every, 0.9, quantity="lead", unit="g"))
    parts = drawn(figure)
    for quantity in ("mu", "sigma"):
        for name, one in every.items():
            x, y = parts[f"{quantity} {name}"].get_data()
            np.testing.assert_allclose(y, one.density(quantity, x))
        (shaded,) = parts[f"interval {quantity}"].get_paths()
        low, high = every[BOTH[0]].hdi(quantity, 0.9)
        assert (shaded.vertices[:, 0].min(), shaded.vertices[:, 0].max()) == pytest.approx((low, high))
    assert [ax.get_xlabel() for ax in figure.axes] == [
        "population mean of lead (g)",
        "population standard deviation of lead (g)",
    ]
    assert re.fullmatch(r"The population mean of lead is [\d.]+ to [\d.]+ with probability 90%", said(figure))
    assert to_hex(parts["prior mu"].get_color()) == to_hex(bounded_posterior.sheet.QUIET)
    assert "prior sigma" in parts


def test_a_prior_that_is_no_density_is_not_drawn_and_one_posterior_is_enough() -> None:
    alone = {BOTH[1]: posteriors()[BOTH[1]]}
    assert not [
        mark for mark in drawn(figure_of(bounded_posterior.posterior_marginals(alone))) if mark.startswith("prior")
    ]


def test_the_joint_density_stays_inside_the_boundary() -> None:
    every = posteriors()
    figure = figure_of(bounded_posterior.posterior_joint(every))
    parts = drawn(figure)
    mu, sigma = parts["boundary"].get_data()
    np.testing.assert_allclose(sigma**2, mu * (100.0 - mu), atol=1e-9)
    x, y = parts["released"].get_data()
    assert (float(x[0]), float(y[0])) == pytest.approx((34.3026826, 47.16779), abs=1e-4)
    inside = [path.vertices for path in parts[BOTH[0]].get_paths() if path.vertices.size]
    for vertices in inside:
        assert (vertices[:, 1] <= np.sqrt(vertices[:, 0] * (100.0 - vertices[:, 0])) + 1.0).all()
    assert said(figure) == "Ignoring the bounds makes 61% of the posterior impossible"


def test_figures_of_the_data_themselves_say_so_and_have_no_prior() -> None:
    release = adv.bounded.BoundedRelease(34.3026826, 2224.800114, 3, (0.25, 0.25), (0, 100))
    one = adv.bounded.posterior(release, "flat", quantity="data")
    figure = figure_of(bounded_posterior.posterior_marginals({BOTH[0]: one}, quantity="lead", unit="g"))
    assert [ax.get_xlabel() for ax in figure.axes] == [
        "sample mean of lead (g)",
        "sample standard deviation of lead (g)",
    ]
    assert said(figure).startswith("The sample mean of lead is ")
    assert not [mark for mark in drawn(figure) if mark.startswith("prior")]
    mu, sigma = drawn(figure_of(bounded_posterior.posterior_joint({BOTH[0]: one})))["boundary"].get_data()
    np.testing.assert_allclose(sigma**2, 1.5 * mu * (100.0 - mu), atol=1e-9)


@pytest.mark.parametrize("feasibility", ["event", "normalised", "ignored", "data"])
@pytest.mark.parametrize("mean", [0.3, None])
def test_the_joint_density_adds_up_to_both_marginals(feasibility: str, mean: float | None) -> None:
    prior = adv.bounded.NormalInverseGamma(0.3, 2.0, 4.0, 0.2)
    release = adv.bounded.BoundedRelease(mean, 0.06, 12, rho=(None if mean is None else 0.5, 0.5), bounds=(-1.0, 2.0))
    how = (feasibility != "ignored", "normalised" if feasibility == "normalised" else "event")
    one = adv.bounded.posterior(release, prior, *how, quantity="data" if feasibility == "data" else "population")
    points = 120 if feasibility == "data" else 500
    mu, sigma = np.linspace(-0.999, 1.999, points), np.linspace(0.002, 1.6, points)
    density = joint_density(one, mu, sigma)
    for name, x, other, axis in (("mu", mu, sigma, 1), ("sigma", sigma, mu, 0)):
        marginal = np.trapezoid(density, other, axis=axis)
        marginal /= np.trapezoid(marginal, x)
        expected = one.density(name, x)
        np.testing.assert_allclose(marginal, expected / np.trapezoid(expected, x), atol=0.01 * float(expected.max()))


def test_a_new_value_is_smooth_where_deviations_are_tiny() -> None:
    release = adv.bounded.BoundedRelease(0.5, 1e-6, 50, (0.5, 0.5))
    one = adv.bounded.posterior(release, adv.bounded.NormalInverseGamma(0.5, 1e-3, 500.0, 1e-3))
    edges = np.linspace(0.0, 1.0, 101)
    density = predictive_density(one, edges)
    middle = (edges[1:] + edges[:-1]) / 2.0
    assert float((density * 0.01).sum()) == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(density, one.density("mu", middle), atol=0.03 * float(density.max()))


def test_the_predictive_density_holds_all_that_the_bounds_allow() -> None:
    every = posteriors()
    figure = figure_of(bounded_posterior.posterior_predictive(every, quantity="lead"))
    steps = {patch.get_gid(): patch for patch in figure.axes[0].patches if patch.get_gid() in BOTH}
    for name, one in every.items():
        density, edges, _ = steps[name].get_data()
        mass = density * np.diff(edges)
        inside = (edges[:-1] >= -1e-9) & (edges[1:] <= 100.0 + 1e-9)
        assert mass[inside].sum() == pytest.approx(1.0 - one.predictive().outside, abs=2e-3)
        if one.constrained:
            assert mass[~inside].sum() == pytest.approx(0.0, abs=1e-12)
    assert said(figure) == "Ignoring the bounds makes 34% of new values impossible"


@pytest.mark.slow
@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize(
    "prior", [Flat(), NormalInverseGamma(12.5, 1.0, 1.0, 3.8), NormalInverseGamma(80.0, 20.0, 9.0, 38.0)]
)
def test_marginals_of_a_prior_have_mass_one_and_agree_with_its_joint_density(prior: Any, constrained: bool) -> None:
    bounds = (0.0, 100.0)
    if isinstance(prior, Flat) and not constrained:
        assert prior_marginal(prior, "mu", np.ones(2), bounds, constrained=False) is None
        return
    for name, top in (("mu", 100.0), ("sigma", 50.0)):
        x = np.linspace(0.0, top, 20_001)
        density = prior_marginal(prior, name, x, bounds, constrained=constrained)
        assert density is not None
        mass = float(np.trapezoid(density, x))
        assert mass == pytest.approx(1.0, abs=5e-3) if constrained else mass < 1.0
    mu = np.array([20.0, 60.0])
    sigma = np.linspace(1e-3, 50.0 if constrained else 5000.0, 400_001)[:, None]
    joint = np.exp(prior.log_prob(mu, sigma**2)) * 2.0 * sigma * ((sigma**2 <= mu * (100.0 - mu)) | (not constrained))
    integral = np.trapezoid(joint, sigma, axis=0)
    density = prior_marginal(prior, "mu", mu, bounds, constrained=constrained)
    assert density is not None
    assert density[0] / density[1] == pytest.approx(integral[0] / integral[1], rel=5e-2)


def test_a_prior_of_the_users_own_is_left_out() -> None:
    own = lambda mu, sigma2: -sigma2  # noqa: E731
    assert prior_marginal(own, "mu", np.ones(2), (0.0, 1.0), constrained=True) is None
