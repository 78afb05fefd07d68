"""Releases: units that are probably others, data with noise, shapes, none at all; ends of what a posterior answers."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

from adversary.bounded import BoundedRelease, posterior
from adversary.bounded.regression.cirrhosis import load_cirrhosis
from adversary.bounded.regression.sufficient_statistics import RegressionRelease

QUIET = BoundedRelease(0.4, 0.05, n=20, epsilon=(0.3, 0.3))


@pytest.mark.parametrize(
    ("mean", "variance", "which"),
    [
        (34.3, 0.05, "mean lies"),
        (-12.0, None, "mean lies"),
        (None, 2224.8, "variance lies"),
        (34.3, 2224.8, "mean and"),
    ],
)
def test_numbers_in_other_units_are_noticed(mean: Any, variance: Any, which: str) -> None:
    with pytest.warns(UserWarning, match=f"the released {which}.*did you forget bounds=?"):
        BoundedRelease(mean, variance, n=43, epsilon=0.25 if None in (mean, variance) else (0.25, 0.25))


def test_noise_that_wide_is_no_reason_to_ask() -> None:
    """n = 10, epsilon 0.01: a scale of 10 widths. Warnings are errors here."""
    BoundedRelease(60.0, -80.0, n=10, epsilon=(0.01, 0.01))
    BoundedRelease(1.0 + 19.9 / 1000, 0.0, n=1000, epsilon=(1.0, 1.0))


@pytest.mark.parametrize(
    ("mean", "variance", "n", "epsilon", "words"),
    [
        (1.0 + 20.1 / 1000, 0.0, 1000, (1.0, 1.0), "the released mean lies 20 noise scales from what any values"),
        (-271.0 / 1000, 0.1, 1000, (1.0, 1.0), "the released mean lies 271 noise scales"),
        (9.0, 9.0, 1000, (1.0, 1.0), "the released mean and variance lie 8,000 and 8,750 noise scales"),
        (0.5, -30.0 / 1000, 1000, (1.0, 1.0), "the released variance lies 30 noise scales"),
        (0.99, 0.2, 1000, (1.0, 1.0), "the released mean and variance lie 101 noise scales"),  # each by itself could be
    ],
)
def test_what_noise_does_not_reach_comes_with_a_caution(
    mean: float, variance: float, n: int, epsilon: Any, words: str
) -> None:
    with pytest.warns(UserWarning, match=f"{words}.*farther than noise reaches"):
        BoundedRelease(mean, variance, n=n, epsilon=epsilon)


@pytest.mark.parametrize("noise", ["epsilon", "rho"])
def test_the_nearest_statistics_are_those_of_a_search_over_all(noise: str) -> None:
    y = np.linspace(0.0, 1.0, 4001)[:, None]
    s = np.linspace(0.0, 1.0, 1001) * (10 / 9 * y * (1.0 - y))
    rng = np.random.default_rng(3)
    means, variances = rng.uniform(-0.2, 1.2, 12), rng.uniform(-0.1, 0.5, 12)
    release = BoundedRelease(means, variances, n=10, **{noise: (0.8, 0.3)})
    first, second = (np.broadcast_to(scale, 12) for scale in release.unit_scales)
    for i in range(12):
        larger = np.maximum(np.abs(means[i] - y) / first[i], np.abs(variances[i] - s) / second[i])
        assert release.noise_scales_to_data[i] == pytest.approx(larger.min(), abs=5e-3)


def test_simulated_releases_are_never_asked_about_their_units() -> None:
    data = np.full((20_000, 10), 0.5)
    released = BoundedRelease.of(data, (0.02, 0.02), rng=1)
    assert np.abs(released.unit_mean).max() > 40.0
    assert QUIET.with_added_noise(np.array(1e3), np.array(1e3)).mean == pytest.approx(1000.4)


def test_data_are_checked_before_anything_else() -> None:
    for data, message in (
        ([0.1, np.inf], r"values must lie within bounds=\(0.0, 1.0\), got inf"),
        ([0.1, np.nan], "values must be a number, got nan"),
        ([[0.1, 0.2], [0.3, 2.0]], "got 2.0"),
        ([0.1], r"at least two values, along the last axis, got shape \(1,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            BoundedRelease.of(data, (1.0, 1.0), rng=1)


def test_budgets_may_be_arrays_beside_numbers() -> None:
    release = BoundedRelease(0.4, 0.05, 20, (np.array([0.1, 0.2, 0.3]), 0.4))
    assert release.shape == (3,)
    assert posterior(release).mean("mu").shape == (3,)


@pytest.mark.parametrize("shape", [(0,), (0, 3)])
@pytest.mark.parametrize("constrained", [True, False])
def test_no_releases_at_all_have_no_answers(shape: tuple[int, ...], constrained: bool) -> None:
    found = posterior(BoundedRelease(np.zeros(shape), np.zeros(shape), 20, (0.3, 0.3)), constrained=constrained)
    new = found.predictive()
    for answer in (found.mean("mu"), found.sd("sigma2"), found.infeasible, new.mean, new.sd, new.below, new.outside):
        assert answer.shape == shape
    assert found.hdi("mu").shape == found.eti("sigma").shape == (*shape, 2)
    assert found.expect(lambda mu, v: mu + v).shape == shape
    tree = found.to_xarray()
    assert tree["summary"]["mu"].shape == (*shape, 7)
    assert tree["density"]["sigma"].shape == (*shape, 201)


def test_quantiles_at_0_and_1_are_the_ends_of_what_is_possible() -> None:
    bounded, free = posterior(QUIET), posterior(QUIET, constrained=False)
    np.testing.assert_array_equal(bounded.quantile("mu", [0, 1]), [0.0, 1.0])
    np.testing.assert_array_equal(bounded.quantile("sigma", [0, 1]), [0.0, 0.5])
    np.testing.assert_array_equal(free.quantile("mu", [0, 1]), [-np.inf, np.inf])
    np.testing.assert_array_equal(free.quantile("sigma2", [0, 1]), [0.0, free.max_variance])
    assert posterior(QUIET, constrained=False, cap=math.inf).quantile("sigma2", 1.0) == np.inf
    wide = posterior(BoundedRelease([4.0, 6.0], 5.0, 20, (0.3, 0.3), bounds=(-10, 10)))
    np.testing.assert_array_equal(wide.quantile("mu", [0, 1]), [[-10.0, 10.0]] * 2)


@pytest.mark.parametrize("name", ["mu", "sigma", "sigma2"])
def test_densities_far_out_are_0_and_of_no_number_refused(name: str) -> None:
    for found in (posterior(QUIET), posterior(QUIET, constrained=False)):
        np.testing.assert_array_equal(found.density(name, [-np.inf, np.inf]), 0.0)
        np.testing.assert_array_equal(found.cdf(name, [-np.inf, np.inf]), [0.0, 1.0])
        for ask in (found.density, found.cdf):
            with pytest.raises(ValueError, match="x must be a number, got nan"):
                ask(name, math.nan)


def test_means_that_do_not_exist_are_said_not_to() -> None:
    """Flat, no bounds, no cap: the density of sigma2 falls like its -(n-1)/2th power."""
    four, six = (posterior(BoundedRelease(0.4, 0.05, n, (0.3, 0.3)), constrained=False, cap=math.inf) for n in (4, 6))
    assert math.isnan(four.mean("mu"))
    assert [four.mean(name) for name in ("sigma", "sigma2")] == [math.inf, math.inf]
    assert math.isnan(four.predictive().mean)
    assert four.predictive().sd == math.inf
    assert np.isfinite([six.mean(name) for name in ("mu", "sigma", "sigma2")]).all()
    assert np.isfinite(posterior(BoundedRelease(0.4, 0.05, 4, (0.3, 0.3)), constrained=False).mean("sigma2"))


def test_sums_of_data_in_their_own_units_are_noticed() -> None:
    data = load_cirrhosis()
    drink = data.wine.values + data.liquor.values
    sums = [drink.sum(), (drink**2).sum(), 20.0, 900.0, 8.0]
    with pytest.warns(
        UserWarning, match=r"the released sums are farther .*: x by [\d,]+, xx by .*rescaled to \[0, 1\]\?"
    ):
        RegressionRelease(sums, (12.0, 5.0, 3.0, 2.0), n=46, epsilon=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RegressionRelease([900.0, -900.0, 20.0, 900.0, 8.0], (12.0, 5.0, 3.0, 2.0), n=46, epsilon=0.01)
        RegressionRelease([12.0, 5.0, 16.0, 6.0, 8.0], (12.0, 5.0, 3.0, 2.0), n=46, epsilon=0.5)
        RegressionRelease.of(data.x.values, data.y.values, 0.001, rng=3)


@pytest.mark.parametrize(
    ("sums", "moments", "words"),
    [
        ((12.0, 5.0, 16.0, 6.0, -41.0), (12.0, 5.0, 3.0, 2.0), "yy by 20 noise scales"),
        ((12.0, 5.0, 16.0, 6.0, 8.0), (12.0, 5.0, 3.0, 90.0), "moment x4 by 22 noise scales"),
        ((2.0, 44.0, 16.0, 6.0, 8.0), (12.0, 5.0, 3.0, 2.0), "xx above x by 21"),
        ((45.0, 5.0, 16.0, 6.0, 8.0), (2.0, 2.0, 2.0, 2.0), "x above moment x by 22"),
    ],
)
def test_sums_that_noise_does_not_reach_come_with_a_caution(sums: Any, moments: Any, words: str) -> None:
    with pytest.warns(UserWarning, match=words):
        RegressionRelease(sums, moments, n=46, epsilon=0.5)
