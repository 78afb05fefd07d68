"""Steps of the regression sampler that never fail: the chord of a line, the law each step keeps, and hard releases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from adversary.bounded import regression as reg
from adversary.bounded.regression import hit_and_run, regression_law, sufficient_statistics
from tests.bounded.test_regression import ELSEWHERE, IMPOSSIBLE, RELEASE

pytestmark = pytest.mark.filterwarnings("ignore:the released:UserWarning")
"""Some releases contradict the bounds, or themselves, by more than noise does: on purpose."""

N = 46.0


def feasible(count: int, seed: int) -> Any:
    """Sums of real records, most of them near a side of the region."""
    rng = np.random.default_rng(seed)
    x, y = rng.beta(0.3, 0.5, (2, count, int(N)))
    return reg.statistics(x, y).sums[:, 1:]


# chords


def test_a_chord_ends_where_the_first_constraint_is_broken() -> None:
    start, direction = feasible(400, 1), np.random.default_rng(2).normal(size=(400, 5))
    low, high = hit_and_run.chord(start, direction, N)
    assert (low < 0).all()
    assert (high > 0).all()
    for end in (low, high):
        inside, outside = (start + (share * end)[:, None] * direction for share in (1 - 1e-6, 1 + 1e-6))
        assert sufficient_statistics.satisfied_constraints(inside, N).all()
        assert not sufficient_statistics.satisfied_constraints(outside, N).all(axis=-1).any()


def test_every_constraint_that_does_not_follow_from_others_ends_some_chord() -> None:
    """Sx <= n and Sy <= n follow from the squares and the matrix: they never are the first to be broken."""
    start, direction = feasible(400, 3), np.random.default_rng(4).normal(size=(400, 5))
    beyond = start + 1.000001 * hit_and_run.chord(start, direction, N)[1][:, None] * direction
    broken = (~sufficient_statistics.satisfied_constraints(beyond, N)).any(axis=0)
    np.testing.assert_array_equal(broken, [False, True, False, True, True, True])


# the law that a step keeps


@pytest.mark.slow
def test_steps_of_the_sums_keep_the_law_that_rejection_draws_from() -> None:
    """Sums of a normal law about a point outside the region: moved, rejection's draws look as they did.

    And from one place, far from most of the law, steps alone arrive there.
    """
    rng = np.random.default_rng(5)
    turn = rng.normal(size=(5, 5)) * [2.0, 1.5, 3.0, 1.0, 2.0]
    covariance, centre = turn @ turn.T / 5 + 0.1 * np.eye(5), np.array([4.0, 5.0, 17.0, -1.0, 18.0])
    free = rng.multivariate_normal(centre, covariance, 200_000)
    exact = free[sufficient_statistics.satisfied_constraints(free, N).all(axis=-1)]
    assert 3000 < len(exact) < 100_000  # most are rejected
    exact = exact[:6000]
    half = len(exact) // 2
    root = np.linalg.cholesky(covariance).T
    given = [np.broadcast_to(a, (half, *a.shape)) for a in (centre, np.linalg.inv(covariance), root)]
    fresh, moved = exact[:half], exact[half : 2 * half]
    arrived = np.tile(N * hit_and_run.INSIDE, (half, 1))
    for _ in range(8):
        arrived = hit_and_run.hit_and_run_sums(arrived, *given, N, rng)
    once = hit_and_run.hit_and_run_sums(moved, *given, N, rng)
    for moved in (once, arrived):
        assert sufficient_statistics.satisfied_constraints(moved, N).all()
        for place in range(5):
            assert stats.ks_2samp(fresh[:, place], moved[:, place]).pvalue > 1e-4
        for side in ((1, -1, 0, 0, 0), (0, 0, 1, -1, 0), (0, 0, 1, 0, -1), (1, 1, 1, 1, 1)):
            assert stats.ks_2samp(fresh @ side, moved @ side).pvalue > 1e-4


@pytest.mark.parametrize("tight", [False, True])
def test_steps_of_the_coefficients_have_the_conjugate_law_kept_to_the_region(tight: bool) -> None:
    r"""Against a grid of (height at 0, height at 1), 1 / sigma2 integrated out above 4 by an incomplete gamma.

    .. math:: p(\theta) \propto (b_n + q / 2)^{-(a_n + 1)} Q(a_n + 1, 4 (b_n + q / 2))
    """
    law = reg.RegressionLaw((1.1, -0.9), ((30.0, 12.0), (12.0, 9.0)), 8.0, 1.5)
    precision = np.asarray(law.Lambda0)

    heights = np.linspace(-2, 3, 1001)[:-1] + 0.0025
    start, end = np.meshgrid(heights, heights, indexing="ij")
    theta = np.stack([start, end - start], axis=-1)
    away = theta - law.mean
    scale = law.b0 + np.einsum("...i,ij,...j->...", away, precision, away) / 2
    mass = scale ** -(law.a0 + 1) * stats.gamma(law.a0 + 1).sf(4 * scale) * regression_law.in_region(theta, tight)
    mass /= mass.sum()
    cdf = [np.cumsum(mass.sum(axis=axis)) for axis in (1, 0)]

    rng, chains = np.random.default_rng(6), 400
    given = (np.tile(law.mean, (chains, 1)), np.tile(precision, (chains, 1, 1)), law.a0, np.full(chains, law.b0))
    found, tau, kept = np.tile([0.5, 0.0], (chains, 1)), np.full(chains, 8.0), []
    for sweep in range(60):
        found, tau = hit_and_run.hit_and_run_coefficients(found, tau, given, 4.0, tight, rng)
        assert regression_law.in_region(found, tight).all()
        assert tau.min() >= 4.0
        if sweep >= 30 and sweep % 10 == 9:
            kept.append(np.column_stack([found[:, 0], found.sum(axis=1), tau]))
    draws = np.concatenate(kept)
    for place in range(2):
        distance = stats.kstest(draws[:, place], lambda h, c=cdf[place]: np.interp(h, heights + 0.0025, c)).statistic
        assert distance < 0.06  # 1,200 draws, three of each chain
    expected = (mass * _mean_precision(law.a0 + 1, scale)).sum()
    assert draws[:, 2].mean() == pytest.approx(expected, abs=5 * draws[:, 2].std() / np.sqrt(chains))


def _mean_precision(shape: float, rate: Any) -> Any:
    """E of a Gamma(shape, rate) variable above 4."""
    return shape / rate * stats.gamma(shape + 1).sf(4 * rate) / stats.gamma(shape).sf(4 * rate)


# the sampler


@pytest.mark.filterwarnings("ignore:The draws are unreliable")
def test_the_posterior_is_the_same_however_many_draws_are_tried() -> None:
    """One try, so that most blocks are moved along lines, against a thousand, so that none is."""
    few, many = (
        reg.gibbs(RELEASE, region="tight", draws=60, burn=40, chains=100, rng=rng, max_tries=tries)["posterior"]
        for rng, tries in ((1, 1), (2, 1000))
    )
    for name in ("intercept", "slope", "sigma2"):
        one, other = (tree[name].mean("draw") for tree in (few, many))  # chains are independent
        error = np.hypot(one.std() / 10, other.std() / 10)
        assert abs(float(one.mean() - other.mean())) < 4.5 * float(error)


@pytest.mark.filterwarnings("ignore:The draws are unreliable")
@pytest.mark.filterwarnings("ignore:the released sums of")
def test_what_contradicts_the_constraints_is_sampled_all_the_same() -> None:
    """Sy released as -400 with next to no noise; a prior 30 above the region: rejection alone never moves."""
    for release, prior, region in (
        (IMPOSSIBLE, None, "weak"),
        (IMPOSSIBLE, None, "tight"),
        (RELEASE, ELSEWHERE, "tight"),
        (reg.RegressionRelease([500.0, -300.0, 90.0, 1e4, -1e4], [-50.0, 700.0, 0.0, 1e3], 46, 5.0), None, "tight"),
    ):
        posterior = reg.gibbs(release, prior, region=region, draws=20, burn=20, chains=4, rng=1, max_tries=20)[  # type: ignore[arg-type]
            "posterior"
        ].dataset
        theta = np.stack([posterior.intercept, posterior.slope], axis=-1)
        assert np.asarray(reg.feasible_coefficients(theta, region)).all()  # type: ignore[arg-type]
        assert np.asarray(reg.feasible_sums(posterior.sums.values, 46)).all()
        assert float(posterior.sigma2.max()) <= 0.25
        assert all(float(posterior[name].std("draw").min()) > 0 for name in ("intercept", "slope", "sigma2"))
        assert float(posterior.sums.std("draw").min()) > 0


@pytest.mark.thorough
@pytest.mark.slow
def test_the_cirrhosis_release_is_sampled_at_the_default_length_in_the_tight_region() -> None:
    """The thesis's release of 46 states, fixture of its script's seed: a thousand draws of a block are not enough."""
    release = reg.RegressionRelease(
        [9.56667, 3.94216, 18.6849, -3.92079, 3.61874], [6.15444, 7.43941, 0.99294, 5.27982], 46, 0.1
    )
    posterior = reg.gibbs(release, region="tight", rng=3)["posterior"].dataset
    assert posterior.sizes["draw"] == 4000
    assert posterior.attrs["ess"] > 300
    assert float(posterior.slope.mean()) == pytest.approx(-0.065, abs=0.04)
