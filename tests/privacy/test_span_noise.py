"""Noise for whole tables: laws against their densities, promises against pairs of releases, costs against samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import adversary as adv
from adversary.privacy.invariants.noise_costs import compare_costs, naive_costs
from adversary.privacy.invariants.sensitivities import SensitivitySpace
from adversary.privacy.invariants.span_noise import KNorm, SpanGaussian, VectorNoise
from adversary.privacy.invariants.two_way_tables import sensitivity_space
from tests.oracles import invariant_tables
from tests.oracles.invariant_tables import group_space

LOPSIDED = SensitivitySpace([[1.0, 2.0, 0.5], [-1.0, -2.0, -0.5], [0.0, 0.0, 1.0], [0.0, 0.0, -1.0]])

NOISES: dict[str, VectorNoise] = {
    "gaussian on a span": SpanGaussian(sensitivity_space(2, 3, 2), 0.8),
    "gaussian on a span, six-cycles": SpanGaussian(sensitivity_space(3, 3, 3), 1.5),
    "k-norm, 2 x 2": KNorm(sensitivity_space(2, 2, 2), 0.7),
    "k-norm, 2 x 3": KNorm(sensitivity_space(2, 3, 2), 1.3),
    "k-norm, 3 x 3": KNorm(sensitivity_space(3, 3, 2), 1.0),
    "k-norm, six-cycles": KNorm(sensitivity_space(3, 3, 3), 1.0),
    "k-norm, empty row": KNorm(sensitivity_space((2, 0, 3), (1, 1, 3), 3), 1.0),
    "k-norm, of ordinary changes": KNorm(group_space(3), 1.0),
    "k-norm, any vectors": KNorm(LOPSIDED, 2.0),
}
BALLS = {name: noise for name, noise in NOISES.items() if isinstance(noise, KNorm)}


def over(noises: dict[str, Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", noises)


# Every noise


@over(NOISES)
def test_density_is_that_of_the_sampler(name: str) -> None:
    """E[q(V) / p(V)] = 1 for a lighter Gaussian density q on the span, if p is the density of V."""
    noise = NOISES[name]
    draws = noise.draw(np.random.default_rng(11), 40_000)
    assert np.all(noise.on_span(draws))
    lengths = np.linalg.norm(draws, axis=1)
    scale = 0.5 * float(np.median(lengths)) / math.sqrt(noise.dimension)
    log_q = -0.5 * (lengths / scale) ** 2 - noise.dimension * math.log(scale * math.sqrt(2 * math.pi))
    ratio = np.exp(log_q - noise.log_prob(draws, np.zeros(noise.cells)))
    assert ratio.mean() == pytest.approx(1.0, abs=4.5 * ratio.std() / 200.0)


@over(NOISES)
def test_expected_cost_is_that_of_a_sample(name: str) -> None:
    noise = NOISES[name]
    lengths = np.linalg.norm(noise.draw(np.random.default_rng(5), 40_000), axis=1)
    assert lengths.mean() == pytest.approx(noise.expected_cost, abs=4.5 * lengths.std() / 200.0)


@over(NOISES)
def test_promise_is_kept_for_the_changes_it_covers(name: str) -> None:
    noise = NOISES[name]
    space = noise.space
    draws = noise.draw(np.random.default_rng(2), 400)
    change = np.asarray(space.vectors, dtype=float)[:, None]
    loss = noise.log_prob(draws, np.zeros(noise.cells)) - noise.log_prob(draws, change)
    assert noise.under(space).delta(0.3) == pytest.approx(noise.guarantee.delta(0.3), rel=1e-9)
    if isinstance(noise, KNorm):
        bound = noise.guarantee.loss_bound(0.0)
        assert np.abs(loss).max() <= bound * (1 + 1e-12)
        assert noise.under(space).loss_bound(0.0) == pytest.approx(bound, rel=1e-12)
    else:
        largest = noise.guarantee.mu  # type: ignore[attr-defined]
        # one pair: Gaussian DP of mu |u| / Delta_2, so the loss is N(m^2 / 2, m^2)
        pair = largest * np.linalg.norm(change[:, 0], axis=-1) / space.norm(2)
        assert loss.mean(1) == pytest.approx(0.5 * pair**2, abs=4.5 * largest / 20.0)


@over(NOISES)
def test_shapes_of_releases(name: str) -> None:
    noise, rng = NOISES[name], np.random.default_rng(0)
    value = np.arange(noise.cells).reshape(noise.shape)
    assert noise.sample(value, rng).shape == noise.shape
    assert noise.sample(value.ravel(), rng, 5).shape == (5, noise.cells)
    released = noise.sample(np.stack([value, value + 1]), rng, (4, 3))
    assert released.shape == (4, 3, 2, *noise.shape)
    assert noise.log_prob(released, np.stack([value, value + 1])).shape == (4, 3, 2)
    one = noise.log_prob(released[0, 0, 0], value)
    assert isinstance(one, float)
    assert one == pytest.approx(noise.log_prob(released[0, 0, 0].ravel(), value.ravel()), rel=1e-13)
    again = noise.sample(value, np.random.default_rng(9), 3)
    np.testing.assert_array_equal(again, noise.sample(value, np.random.default_rng(9), 3))
    with pytest.raises(ValueError, match="value must end in the shape"):
        noise.sample(np.zeros(noise.cells + 1), rng)
    with pytest.raises(ValueError, match="release must be a number, got nan"):
        noise.log_prob(np.full(noise.shape, np.nan), value)
    assert noise.log_prob(np.full(noise.shape, np.inf), value) == -math.inf


# Norm balls


@over(BALLS)
def test_norm_of_the_noise_is_gamma(name: str) -> None:
    """A radius Gamma(s + 1) times U^(1/s) is Gamma(s)."""
    noise = BALLS[name]
    length = np.asarray(noise.norm(noise.draw(np.random.default_rng(21), 4000)))
    law = scipy.stats.gamma(noise.dimension, scale=1.0 / noise.epsilon)
    assert scipy.stats.kstest(length, law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("adjacency", [2, 3])
def test_direction_of_k_norm_noise_follows_cone_measure(adjacency: int) -> None:
    """Each facet is met in proportion to the volume of its cone; those volumes by their own triangulation."""
    from scipy.spatial import ConvexHull

    space = sensitivity_space(3, 3, adjacency)
    noise, hull = KNorm(space, 1.0), space.hull
    draws = space.along(noise.draw(np.random.default_rng(8), 20_000))
    met = np.bincount((draws @ hull.facets.T).argmax(1), minlength=len(hull.facets))
    cones = []
    for normal in hull.facets:
        corners = hull.points[np.abs(hull.points @ normal - 1.0) < 1e-9]
        cones.append(ConvexHull(np.vstack([np.zeros((1, 4)), corners])).volume)
    expected = np.array(cones) / hull.volume
    assert expected.sum() == pytest.approx(1.0, abs=1e-12)
    assert scipy.stats.chisquare(met, expected * met.sum()).pvalue > 1e-3


def test_sampler_gives_up_rather_than_approximate() -> None:
    noise = KNorm(sensitivity_space(3, 3, 2), 1.0, tries=1)
    assert noise.acceptance == pytest.approx(11 / 64)
    with pytest.raises(RuntimeError, match=r"no proposal of 1 fell inside .* acceptance is 0.172"):
        noise.sample(np.zeros((3, 3)), np.random.default_rng(0), 50)


# On a span


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["gaussian on a span", "k-norm, 2 x 3"]))
def test_releases_keep_both_margins(seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 40, (2, 3))
    released = NOISES[name].sample(table, rng, 4)
    np.testing.assert_allclose(released.sum(-1) - table.sum(-1), 0.0, atol=1e-9)
    np.testing.assert_allclose(released.sum(-2) - table.sum(-2), 0.0, atol=1e-9)
    moved = table.copy()
    moved[0, 0] += 1
    assert np.all(NOISES[name].log_prob(released, moved) == -np.inf), "another margin is impossible"
    moved[[0, 1, 1], [1, 0, 1]] += [-1, -1, 1]
    assert np.all(np.isfinite(NOISES[name].log_prob(released, moved)))


def test_tables_of_large_counts_are_read_to_their_rounding() -> None:
    table = np.array([[331_449_281, 5, 17], [40_000_000, 123_456_789, 0]])
    for name in ("gaussian on a span", "k-norm, 2 x 3"):
        released = NOISES[name].sample(table, np.random.default_rng(3), 50)
        assert np.all(np.isfinite(NOISES[name].log_prob(released, table)))
        assert np.all(NOISES[name].log_prob(released + np.eye(2, 3), table) == -np.inf)


def test_empty_rows_and_columns_get_no_noise() -> None:
    draws = NOISES["k-norm, empty row"].draw(np.random.default_rng(1), 20).reshape(20, 3, 3)
    assert not draws[:, 1].any()
    assert draws[:, [0, 2]].any()
    wide = SpanGaussian(sensitivity_space((3, 2), (2, 0, 3), 2), 1.0)
    assert np.abs(wide.draw(np.random.default_rng(1), 20).reshape(20, 2, 3)[..., 1]).max() < 1e-14


def test_singular_gaussian_is_that_of_scipy_on_the_span() -> None:
    noise = SpanGaussian(sensitivity_space(3, 4, 3), 0.9)
    law = scipy.stats.multivariate_normal(np.zeros(12), noise.covariance, allow_singular=True)
    draws = noise.draw(np.random.default_rng(6), 10)
    np.testing.assert_allclose(noise.log_prob(draws, np.zeros(12)), law.logpdf(draws), rtol=1e-10)
    assert np.trace(noise.covariance) == pytest.approx(6 * 6 / 0.81)


def test_noise_for_fewer_records_promises_less_for_more() -> None:
    """Moves against six-cycles in 3 x 3: a factor sqrt(6) / 2 in mu and 2 in epsilon; nothing off the span."""
    moves, cycles = sensitivity_space(3, 3, 2), sensitivity_space(3, 3, 3)
    gaussian, k_norm = SpanGaussian(moves, 0.8).under(cycles), KNorm(moves, 0.8).under(cycles)
    assert isinstance(gaussian, adv.GaussianDP)
    assert gaussian.mu == pytest.approx(0.8 * math.sqrt(6) / 2)
    assert k_norm.loss_bound(0.0) == pytest.approx(1.6)
    assert max(invariant_tables.k_norm(moves.vectors, v) for v in cycles.vectors[::5]) == pytest.approx(2.0)
    assert SpanGaussian(cycles, 0.8).under(moves).loss_bound(0.1) < SpanGaussian(cycles, 0.8).guarantee.loss_bound(0.1)
    for noise in (SpanGaussian(moves, 1.0), KNorm(moves, 1.0)):
        assert noise.under(group_space(9)) == adv.NoPrivacy()


@pytest.mark.parametrize("kind", [SpanGaussian, KNorm])
def test_a_table_its_margins_determine_is_released_exactly(kind: Any) -> None:
    with pytest.warns(RuntimeWarning, match="released exactly"):
        noise = kind(sensitivity_space((5, 0), (2, 3), 3), 1.0)
    table = np.array([[2, 3], [0, 0]])
    np.testing.assert_array_equal(noise.sample(table, np.random.default_rng(0), 2), [table, table])
    assert (noise.log_prob(table, table), noise.log_prob(table + 1, table)) == (0.0, -math.inf)
    assert noise.expected_cost == 0.0
    assert noise.under(noise.space).loss_bound(0.0) == 0.0


def test_bad_parameters_are_refused() -> None:
    space = sensitivity_space(2, 2, 2)
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: SpanGaussian(space, 0.0), "mu must be positive"),
        (lambda: KNorm(space, -1.0), "epsilon must be positive"),
        (lambda: KNorm(space, math.inf), "epsilon must be positive and finite"),
        (lambda: KNorm(space, 1.0, tries=0), "tries must be at least 1"),
        (lambda: KNorm(sensitivity_space(4, 4, 2), 1.0), "rank 9 has too many facets"),
        (lambda: compare_costs(1, 5), "two non-empty rows and columns"),
        (lambda: compare_costs(2, 2, epsilon=0.0), "epsilon must be positive"),
    ]
    for make, match in cases:
        with pytest.raises(ValueError, match=match):
            make()


# Costs


@pytest.mark.parametrize("cells", [3, 4, 9])
def test_costs_of_usual_noise_are_those_of_samples(cells: int) -> None:
    costs = naive_costs(cells, 2, mu=1.2, epsilon=0.9)
    for name, draws in invariant_tables.usual_noise(np.random.default_rng(5), 40_000, cells, 2, 1.2, 0.9).items():
        lengths = np.linalg.norm(draws, axis=1)
        assert lengths.mean() == pytest.approx(costs[name], abs=4.5 * lengths.std() / 200.0)


def test_costs_are_labelled_and_compared_like_for_like() -> None:
    costs = compare_costs((3, 4, 0, 2), (5, 4), mu=2.0, epsilon=0.5)
    assert dict(costs["own"].sizes) == {"adjacency": 2, "mechanism": 2}
    assert dict(costs["naive"].sizes) == {"adjacency": 2, "baseline": 4}
    assert costs["ratio"].dims == ("adjacency",)
    once = compare_costs((3, 4, 0, 2), (5, 4))
    assert float(costs["own"].sel(adjacency=3, mechanism="gaussian")) == pytest.approx(
        0.5 * float(once["own"].sel(adjacency=3, mechanism="gaussian"))
    )
    assert float(costs["naive"].sel(adjacency=2, baseline="l2")) == pytest.approx(8 * math.sqrt(8) * 2)
    for records in (2, 3):
        own = SpanGaussian(sensitivity_space(3, 2, records), 2.0).expected_cost
        naive = naive_costs(8, records, 2.0, 0.5)["gaussian"]
        assert float(costs["ratio"].sel(adjacency=records)) == pytest.approx(own / naive)
    assert list(compare_costs(4, 4)["mechanism"].values) == ["gaussian"]


def test_own_noise_always_costs_less() -> None:
    for k in range(2, 7):
        costs = compare_costs(k, k)
        assert (costs["ratio"] < 1.0).all()
        assert (costs["own_sensitivity"] <= costs["naive_sensitivity"]).all()
        if k <= 3:
            assert (costs["own"].sel(mechanism="k-norm") < costs["naive"].drop_sel(baseline="gaussian").min()).all()
