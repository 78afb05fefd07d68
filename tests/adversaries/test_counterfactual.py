"""Posterior to posterior: two worlds against brute force, PyMC and closed forms, and no theorem's bound is breached."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.special import expit

import adversary as adv
from adversary import models
from adversary.adversaries import counterfactual as cf
from adversary.models.enumeration.enumerate import enumerate_posterior
from adversary.privacy.definitions.renyi import RenyiDP
from adversary.privacy.losses.analytic import GaussianLoss
from adversary.privacy.losses.lattice import LatticeLoss
from tests.catalogue import DG

REST, RECORD, ANSWERS = [0.7, 0.3], [[0.95, 0.05], [0.6, 0.4]], [[0, 1], [1, 2]]


def some_prior(rng: np.random.Generator, rest: int, record: int) -> tuple[Any, Any]:
    """Uneven priors, some of them nearly sure."""
    sharp = rng.choice([0.05, 0.3, 1.0])
    return rng.dirichlet(np.full(rest, sharp + 0.2)), rng.dirichlet(np.full(record, sharp) + 1e-3, size=rest)


def brute_force(rest: Any, record: Any, likelihood: Any, fed: Any) -> tuple[Any, Any]:
    """(actual, counterfactual) of every record and release, added up world by world; fed(d, w) is the other."""
    k, n, releases = np.shape(likelihood)
    actual, other = np.zeros((n, releases)), np.zeros((n, releases))
    for d, r, w in itertools.product(range(k), range(n), range(releases)):
        actual[r, w] += rest[d] * record[d][r] * likelihood[d][r][w]
        other[r, w] += rest[d] * record[d][r] * fed(d, w)
    return actual / actual.sum(0), other / other.sum(0)


def random_law(rng: np.random.Generator, *shape: int) -> Any:
    return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])


@pytest.mark.parametrize("seed", range(6))
def test_both_worlds_agree_with_sums_over_every_data_set(seed: int) -> None:
    rng = np.random.default_rng(seed)
    (rest, record), law = some_prior(rng, 3, 4), random_law(rng, 3, 4, 5)
    without = random_law(rng, 3, 5)
    fed = {
        "resample": lambda d, w: sum(record[d][s] * law[d][s][w] for s in range(4)),
        "default": lambda d, w: law[d][2][w],
        "drop": lambda d, w: without[d][w],
    }
    other_world = {"resample": {}, "default": {"default": 2}, "drop": {"dropped": np.log(without)}}
    for kind, m in fed.items():
        worlds = cf.compare_worlds(rest, record, np.log(law), **other_world[kind])
        actual, other = brute_force(rest, record, law, m)
        assert worlds.attrs["counterfactual"] == kind
        assert worlds.actual.values == pytest.approx(actual, abs=1e-14)
        assert worlds.counterfactual.values == pytest.approx(other, abs=1e-14)
        assert np.exp(worlds.log_ratio.values) == pytest.approx(actual / other, rel=1e-12)
        assert worlds.log_odds.values == pytest.approx(np.log(actual / (1 - actual)), abs=1e-11)
        assert worlds.counterfactual_log_odds.values == pytest.approx(np.log(other / (1 - other)), abs=1e-11)
    assert np.exp(worlds.log_prob.values) == pytest.approx(np.einsum("d,dr,drw->w", rest, record, law), rel=1e-13)
    given = np.einsum("d,dr,drw->rw", rest, record, law) / np.einsum("d,dr->r", rest, record)[:, None]
    assert np.exp(worlds.log_prob_given.values) == pytest.approx(given, rel=1e-12)


def test_while_the_rest_is_known_the_three_counterfactuals_agree() -> None:
    noise = DG(0.4)
    law = cf.log_likelihood(noise, [3, 4, 6])
    without = cf.log_likelihood(noise, xr.DataArray([2], dims="rest"), law.release)
    worlds = [
        cf.compare_worlds(1.0, [0.5, 0.3, 0.2], law, **kind) for kind in ({}, {"default": 2}, {"dropped": without})
    ]
    for other in worlds:
        assert other.rest_known.item()
        assert other.counterfactual.sel(record=1).values == pytest.approx(0.3, rel=1e-12)
        xr.testing.assert_allclose(other.log_ratio, worlds[0].log_ratio, atol=1e-12)


def test_a_fixed_default_can_move_a_reader_by_two_epsilon() -> None:
    """Replacing the target changes what the release says about everyone else too; a copy drawn anew does not."""
    tiny = 1e-6
    law = cf.log_likelihood(adv.Geometric(1.0), [[0, 1, 0], [0, 1, 1]])
    rest, record = [tiny, 1 - tiny], [[tiny, 1 - 2 * tiny, tiny], [1 - 2 * tiny**2, tiny**2, tiny**2]]
    drawn, fixed = cf.compare_worlds(rest, record, law), cf.compare_worlds(rest, record, law, default=2)
    assert abs(drawn.log_ratio).max() <= 1.0 + 1e-12
    assert 1.999 < abs(fixed.log_ratio).max() <= 2.0
    shown = cf.semantics(fixed, adv.PureDP(1.0), [0.5, 1.0, 2.0])
    assert shown.largest_bound.item() == 2.0
    assert shown.holds.all()
    assert shown.bound.sel(theorem=["7.3", "7.4", "7.5"]).isnull().all()


def test_without_a_record_no_reader_is_moved_by_more_than_two_epsilon() -> None:
    rng, noise = np.random.default_rng(5), adv.Geometric(0.9)
    for _ in range(20):
        rest, record = some_prior(rng, 3, 2)
        others = rng.integers(0, 3, size=3)
        law = cf.log_likelihood(noise, others[:, None] + rng.integers(0, 2, size=(3, 2)))
        without = cf.log_likelihood(noise, xr.DataArray(others, dims="rest"), law.release)
        shown = cf.semantics(cf.compare_worlds(rest, record, law, dropped=without), adv.PureDP(0.9), [0.3, 1.8])
        assert shown.holds.all()
        assert (shown.largest <= 1.8 + 1e-12).all()
        assert shown.attrs["counterfactual"] == "drop"


# the exact tail


def test_the_tail_is_the_sum_over_releases() -> None:
    worlds = cf.compare_worlds(REST, RECORD, cf.log_likelihood(DG(0.3), ANSWERS))
    epsilons = [-0.5, 0.0, 0.1, 0.3, 0.6, 5.0]
    expected, given = cf.ratio_tail(worlds, epsilons), cf.ratio_tail(worlds, epsilons, [0, 1])
    for record, epsilon in itertools.product((0, 1), epsilons):
        above = worlds.log_ratio.sel(record=record).values >= epsilon
        p, q = np.exp(worlds.log_prob.values), np.exp(worlds.log_prob_given.sel(record=record).values)
        assert expected.sel(record=record, epsilon=epsilon).item() == pytest.approx(math.fsum(p[above]), rel=1e-13)
        assert given.sel(record=record, epsilon=epsilon).item() == pytest.approx(math.fsum(q[above]), rel=1e-13)


def test_ties_count_for_at_least_and_not_for_more_than() -> None:
    worlds = cf.compare_worlds(1.0, [0.6, 0.4], cf.log_likelihood(adv.Geometric(1.0), [1, 2]))
    tie = worlds.log_ratio.sel(record=1, release=2).item()
    at_least, more = cf.ratio_tail(worlds, tie, 1), cf.ratio_tail(worlds, tie, 1, strict=True)
    assert at_least.item() == pytest.approx(math.e / (1 + math.e), rel=1e-14)
    assert more.item() == 0.0
    assert cf.ratio_tail(worlds, [tie - 1e-13, tie + 1e-13], 1).values == pytest.approx(
        [at_least.item()] * 2, rel=1e-14
    )


@pytest.mark.parametrize("name", ["geometric", "discrete gaussian", "randomised response", "two cells"])
@pytest.mark.parametrize("prior", [0.0, 0.01, 0.4, 0.97])
def test_two_known_records_have_the_tail_of_the_privacy_loss(name: str, prior: float) -> None:
    noise = {"geometric": adv.Geometric(0.8), "randomised response": adv.RandomizedResponse(1.3)}.get(name, DG(0.3))
    law, loss = cf.log_likelihood(noise, [0, 1]), noise.privacy_loss()
    if name == "two cells":
        law, loss = cf.together(law, cf.log_likelihood(noise, [1, 0])), noise.privacy_loss(cells=2)
    epsilons = np.array([0.0, 0.02, 0.3, 0.9, 2.0])
    first, second = cf.known_rest_tail(loss, max(prior, 1e-30), epsilons)
    worlds = cf.compare_worlds(1.0, [1 - max(prior, 1e-30), max(prior, 1e-30)], law)
    assert cf.ratio_tail(worlds, epsilons, 1).values == pytest.approx(first, abs=1e-13)
    mixture = prior * first + (1 - prior) * second
    assert cf.ratio_tail(worlds, epsilons).sel(record=1).values == pytest.approx(mixture, abs=1e-13)


@pytest.mark.parametrize("e", [4e-15, 1e-100, 0.3])
def test_a_tiny_loss_is_no_tie(e: float) -> None:
    for loss in (adv.RandomizedResponse(e).privacy_loss(), adv.Geometric(e).privacy_loss(), adv.PureDP(e).worst_pair):
        attained = -math.log1p(0.5 * math.expm1(-e))  # of the largest ratio at prior 1/2
        first, second = cf.known_rest_tail(loss, 0.5, [0.99 * attained, attained, 1.01 * attained])
        assert first == pytest.approx([expit(e), expit(e), 0.0], rel=1e-12)
        assert second == pytest.approx([expit(-e), expit(-e), 0.0], rel=1e-12)


def test_an_infinite_loss_makes_the_reader_sure() -> None:
    loss = LatticeLoss(np.zeros(1), np.log([0.95]), np.log([0.95]), 0.05, 0.05)
    sure = -math.log(0.2)
    first, second = cf.known_rest_tail(loss, 0.2, [0.0, 0.5, sure - 1e-12, sure + 1e-9])
    assert first == pytest.approx([1.0, 0.05, 0.05, 0.0], abs=1e-15)
    assert second == pytest.approx([0.95, 0.0, 0.0, 0.0], abs=1e-15)


def test_rounded_continuous_noise_has_the_closed_tail_where_an_edge_is_the_threshold() -> None:
    rho, prior = 0.1115, 0.01
    noise, mu = adv.Gaussian.from_rho(rho), math.sqrt(2 * rho)
    law = cf.log_likelihood(adv.postprocessing.rounded(noise, 1, "half_up"), [0, 1])
    worlds = cf.compare_worlds(1.0, [1 - prior, prior], law)
    for edge in (1.5, 2.5, 6.5):
        epsilon = -math.log(prior + (1 - prior) * math.exp(rho - 2 * rho * edge))
        first, second = cf.known_rest_tail(GaussianLoss(mu), prior, epsilon)
        from_edge = worlds.log_ratio.sel(record=1).values[worlds.release.values > edge].min()
        assert from_edge > epsilon > worlds.log_ratio.sel(record=1).values[worlds.release.values < edge].max()
        assert cf.ratio_tail(worlds, epsilon, 1).item() == pytest.approx(first, rel=1e-12)
        tail = cf.ratio_tail(worlds, epsilon).sel(record=1).item()
        assert tail == pytest.approx(prior * first + (1 - prior) * second, rel=1e-12)


def test_releases_seen_together_are_independent() -> None:
    one, two = cf.log_likelihood(DG(0.3), [0, 1]), cf.log_likelihood(adv.RandomizedResponse(1.0), [0, 1])
    both = cf.together(one, two)
    assert both.sizes["release"] == one.sizes["release"] * 2
    assert both.sel(record=1, release=(2, 0)).item() == one.sel(record=1, release=2) + two.sel(record=1, release=0)
    assert both.attrs["measure"] == "probability"
    assert cf.together(one, cf.log_likelihood(adv.Laplace(1.0), [0, 1], [0.5])).attrs["measure"] == "density"


# the theorems


CASES: dict[str, tuple[adv.Mechanism, list[Any]]] = {
    "geometric": (adv.Geometric(1.0), [adv.PureDP(1.0), adv.Geometric(1.0).privacy_loss()]),
    "discrete gaussian": (
        DG(0.5),
        [adv.ZeroConcentratedDP(0.5), DG(0.5).privacy_loss(), [RenyiDP(2, 1), RenyiDP(4, 2)]],
    ),
    "weak discrete gaussian": (DG(5.0), [adv.ZeroConcentratedDP(5.0), DG(5.0).privacy_loss()]),
    "gaussian": (adv.Gaussian.from_rho(0.8), [adv.GaussianDP(math.sqrt(1.6)), adv.ZeroConcentratedDP(0.8)]),
    "laplace": (adv.Laplace(1.5), [adv.PureDP(1 / 1.5), adv.Laplace(1.5).privacy_loss()]),
}


@pytest.mark.parametrize("known", [True, False], ids=["rest known", "rest unknown"])
@pytest.mark.parametrize("name", CASES)
def test_no_reader_breaches_a_bound(name: str, known: bool) -> None:
    """A breach beyond 1e-12 is a bug: of the tail, of a bound, or of the claim that the mechanism keeps the promise."""
    noise, guarantees = CASES[name]
    rng = np.random.default_rng(7)
    epsilons = np.array([0.0, 1e-3, 0.05, 0.2, 0.5, 0.8, 1.0, 1.5, 3.0, 6.0])
    for _ in range(4):
        k, n = (1, 2) if known else (3, 2)
        rest, record = some_prior(rng, k, n)
        answers = rng.integers(0, 4, size=(k, 1)) + np.array([0, 1])
        if name in ("gaussian", "laplace"):
            law = cf.log_likelihood(adv.postprocessing.rounded(noise, 1), answers)
        else:
            law = cf.log_likelihood(noise, answers)
        worlds = cf.compare_worlds(rest, record, law)
        for guarantee in guarantees:
            shown = cf.semantics(worlds, guarantee, epsilons)
            assert shown.holds.all(), shown.where(~shown.holds, drop=True)
            assert (shown.largest <= shown.largest_bound + 1e-12).all()
            assert shown.bound.sel(theorem=["7.3", "7.4"]).notnull().all() == known
            assert shown.bound.sel(theorem=["7.1", "7.5"]).notnull().all()


def test_no_reader_breaches_a_bound_with_several_records_two_cells_and_after_postprocessing() -> None:
    rng = np.random.default_rng(11)
    noise = DG(0.6, cells=2)
    for _ in range(3):
        rest, record = some_prior(rng, 2, 3)
        counts = rng.integers(0, 3, size=(2, 1, 3)) + np.eye(3, dtype=int)  # a record is in one of three cells
        answers = xr.DataArray(counts, dims=("rest", "record", "cell"))
        law = cf.together(*(cf.log_likelihood(noise, answers.isel(cell=i)) for i in range(2)))
        bins = rng.integers(0, 12, size=law.sizes["release"])
        merged = np.log(np.stack([np.exp(law.values[..., bins == b]).sum(-1) for b in range(12)], axis=-1))
        for each in (law, merged):
            worlds = cf.compare_worlds(rest, record, each)
            shown = cf.semantics(worlds, adv.ZeroConcentratedDP(0.6), [0.0, 0.1, 0.7, 1.2, 3.0])
            assert shown.holds.all()


def test_a_false_promise_is_seen() -> None:
    worlds = cf.compare_worlds(1.0, [0.99, 0.01], cf.log_likelihood(adv.Geometric(2.0), [0, 1]))
    shown = cf.semantics(worlds, adv.PureDP(0.5), [0.6])
    assert not shown.holds.sel(record=1).any()
    assert (shown.largest > shown.largest_bound).any()
    assert shown.bound.attrs["direction"] == "upper"
    assert shown.achieved.attrs["direction"] == "exact"
    assert shown.attrs["guarantee"] == "pure DP"
    assert shown.event.sel(theorem="7.4").item() == "P(log ratio > epsilon): rest known, release given the record"


EPSILONS = np.array([0.0, 0.01, 0.3, 1.0, 2.5, 7.0, 40.0])
THEOREMS = (
    (cf.known_rest_bound, cf.known_rest_epsilon),
    (cf.functional_bound, cf.functional_epsilon),
    (cf.true_record_bound, cf.true_record_epsilon),
)


@pytest.mark.parametrize("rho", [0.0, 1e-3, 0.1115, 0.926, 2.63])
def test_the_bounds_of_zcdp_have_their_closed_forms(rho: float) -> None:
    g, e = adv.ZeroConcentratedDP(rho), EPSILONS
    with np.errstate(divide="ignore", invalid="ignore"):
        known = np.where(e > rho, np.exp(-((e + rho) ** 2) / (4 * rho)), np.exp(-e))
        true = np.where(e > rho, np.exp(-((e - rho) ** 2) / (4 * rho)), 1.0)
    assert cf.known_rest_bound(g, e) == pytest.approx(known, rel=1e-12)
    assert cf.true_record_bound(g, e) == pytest.approx(true, rel=1e-12)
    assert (cf.known_rest_bound(g, e) <= cf.true_record_bound(g, e)).all()
    assert (cf.functional_bound(g, e) <= cf.true_record_bound(g, e) * (1 + 1e-12)).all()
    assert cf.known_rest_bound(adv.GaussianDP(math.sqrt(2 * rho)), e) == pytest.approx(known, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("rho", [1e-3, 0.1115, 2.63])
def test_the_inverses_undo_the_bounds(rho: float) -> None:
    g = adv.ZeroConcentratedDP(rho)
    for delta in (0.9, 0.3, 0.05, 1e-6, 1e-200):
        nats = -math.log(delta)
        expected = 2 * math.sqrt(rho * nats) - rho if nats >= rho else nats
        assert cf.known_rest_epsilon(g, delta) == pytest.approx(expected, rel=1e-12)
        assert cf.true_record_epsilon(g, delta) == pytest.approx(rho + 2 * math.sqrt(rho * nats), rel=1e-12)
        assert cf.known_rest_bound(g, cf.known_rest_epsilon(g, delta)) <= delta * (1 + 1e-12)
    assert cf.known_rest_epsilon(g, [1.0, 0.0]).tolist() == [0.0, math.inf]
    assert cf.true_record_epsilon(g, 1.0) == 0.0
    assert cf.true_record_epsilon(adv.PureDP(0.7), 0.0) == 0.7
    assert cf.true_record_epsilon(adv.NoPrivacy(), 0.5) == math.inf
    assert cf.known_rest_epsilon(adv.NoPrivacy(), 0.5) == pytest.approx(math.log(2), rel=1e-14)


def test_outside_their_validity_bounds_are_trivial() -> None:
    """Markov's e^-epsilon where the rest is known, otherwise 1; never a number below the truth."""
    for g in (adv.ZeroConcentratedDP(3.0), RenyiDP(2.0, 3.0), adv.NoPrivacy(), adv.ApproximateDP(0.1, 1e-6)):
        assert cf.true_record_bound(g, 2.0) == 1.0
        assert cf.known_rest_bound(g, 2.0) == math.exp(-2.0)
    assert cf.known_rest_bound(adv.PureDP(1.0), [1.0, 1.0 + 1e-9])[1] == 0.0
    assert cf.functional_bound(adv.PureDP(1.0), [0.0, 1.0]).tolist() == [1.0, 0.0]


def test_of_several_guarantees_the_best_counts() -> None:
    pairs = [RenyiDP(1.5, 0.6), RenyiDP(4.0, 1.0), RenyiDP(30.0, 2.0)]
    for bound, epsilon in THEOREMS:
        alone = np.min([bound(pair, EPSILONS) for pair in pairs], axis=0)
        assert bound(pairs, EPSILONS) == pytest.approx(alone, rel=1e-14)
        assert epsilon(pairs, 0.01) == pytest.approx(min(epsilon(pair, 0.01) for pair in pairs), rel=1e-12)


@pytest.mark.parametrize("rho", [0.01, 0.1115, 0.926, 2.63])
def test_a_gaussian_count_respects_every_theorem(rho: float) -> None:
    mu = math.sqrt(2 * rho)
    loss, z = GaussianLoss(mu), adv.ZeroConcentratedDP(rho)
    e = np.linspace(0.01, 8.0, 41)
    for prior in (1e-9, 0.01, 0.1, 0.5, 0.9):
        first, second = cf.known_rest_tail(loss, prior, e)
        assert (first <= cf.functional_bound(adv.GaussianDP(mu), e) + 1e-12).all()
        assert (first <= cf.true_record_bound(z, e) + 1e-12).all()
        assert (prior * first + (1 - prior) * second <= cf.known_rest_bound(z, e) + 1e-12).all()


def best_power(p: Any, q: Any, level: float) -> float:
    """Neyman and Pearson by hand: reject where p / q is largest, the last atom in part."""
    power = 0.0
    for k in sorted(range(len(p)), key=lambda k: -p[k] / q[k]):
        share = min(1.0, level / q[k])
        power, level = power + share * p[k], level - share * q[k]
    return power


def test_not_knowing_the_rest_gives_no_test_more_power() -> None:
    """Theorem 6.5: "everyone else ~ F, and r0 or r1" is no easier to tell than the best-told pair of neighbours."""
    rng = np.random.default_rng(3)
    levels = np.array([0.005, 0.05, 0.2, 0.6, 0.95])
    randomised = cf.log_likelihood(adv.RandomizedResponse(1.2, categories=5), np.array([[0, 1], [2, 3], [4, 0]]))
    counted = cf.log_likelihood(adv.Geometric(1.2), np.array([[0, 1], [2, 1], [5, 6]]), np.arange(-30, 37))
    cases = ((randomised, adv.PureDP(1.2)), (counted, adv.PureDP(1.2)), (counted, adv.Geometric(1.2).privacy_loss()))
    for law, guarantee in cases:
        allowed = np.asarray(guarantee.power(levels))
        for _ in range(20):
            weights = rng.dirichlet(np.full(3, 0.5))
            p, q = (weights @ np.exp(law.values[:, r]) for r in (1, 0))
            achieved = [best_power(p / p.sum(), q / q.sum(), level) for level in levels]
            assert (achieved <= allowed + 1e-12).all()
            assert LatticeLoss.from_log_probs(np.log(p), np.log(q)).power(levels) == pytest.approx(achieved, abs=1e-10)


# the same worlds in PyMC


@pytest.mark.slow_cases("default")
@pytest.mark.parametrize(
    ("noise", "kind"),
    [
        (adv.Geometric(1.0), "resample"),
        (adv.Geometric(1.0), "default"),
        (adv.Geometric(1.0), "drop"),
        (DG(0.3), "resample"),
        (adv.Laplace(2.0), "resample"),
    ],
    ids=["resample", "default", "drop", "discrete gaussian", "laplace"],
)
def test_pymc_agrees(noise: adv.Mechanism, kind: str) -> None:
    releases = np.array([-1, 0, 1, 2])
    law = cf.log_likelihood(noise, ANSWERS, releases)
    without = {"dropped": cf.log_likelihood(noise, xr.DataArray([0, 1], dims="rest"), releases)}
    exact: dict[str, dict[str, Any]] = {"resample": {}, "default": {"default": 1}, "drop": without}
    drawn: dict[str, dict[str, Any]] = {**exact, "drop": {"dropped": [0, 1]}}
    worlds = cf.compare_worlds(REST, RECORD, law, **exact[kind])
    counterfactual = models.counterfactual_world(REST, RECORD, noise, ANSWERS, **drawn[kind])
    found = enumerate_posterior(counterfactual, {"noisy": releases}, target="record")
    assert found.probability.values.transpose() == pytest.approx(worlds.counterfactual.values, abs=1e-13)
    if kind == "resample":
        actual = enumerate_posterior(
            models.actual_world(REST, RECORD, noise, ANSWERS), {"noisy": releases}, target="record"
        )
        assert actual.probability.values.transpose() == pytest.approx(worlds.actual.values, abs=1e-13)
        for log_evidence in (actual.log_evidence, found.log_evidence):
            assert log_evidence.values == pytest.approx(worlds.log_prob.values, abs=1e-12)


# what is refused, and what is undefined


def test_a_record_of_probability_zero_has_no_ratio() -> None:
    law = cf.log_likelihood(adv.Geometric(1.0), [0, 1, 2])
    with pytest.warns(RuntimeWarning, match="record 2 has probability 0: its ratio is undefined"):
        worlds = cf.compare_worlds(1.0, [0.5, 0.5, 0.0], law)
    assert np.isnan(worlds.log_ratio.sel(record=2)).all()
    assert (worlds.actual.sel(record=2) == 0.0).all()
    assert worlds.log_ratio.sel(record=[0, 1]).notnull().all()
    tails = cf.ratio_tail(worlds, [0.1, 0.2])
    assert np.isnan(tails.sel(record=2)).all()
    assert np.isnan(cf.ratio_tail(worlds, 0.1, 2))
    assert tails.sel(record=[0, 1]).notnull().all()
    shown = cf.semantics(worlds, adv.PureDP(2.0), [0.5])
    assert shown.holds.all()


def test_a_release_of_probability_zero_says_nothing() -> None:
    law = cf.log_likelihood(adv.Exact(), [0, 1], np.array([0, 1, 5, 6]))
    with pytest.warns(RuntimeWarning, match=r"release 5 \(and 1 more\) has probability 0"):
        worlds = cf.compare_worlds(1.0, [0.8, 0.2], law)
    impossible = worlds.sel(release=[5, 6])
    for name in ("actual", "counterfactual", "log_ratio"):
        assert np.isnan(impossible[name]).all()
    assert (impossible.log_prob == -np.inf).all()
    assert worlds.log_ratio.sel(record=1, release=[0, 1]).values.tolist() == [-math.inf, pytest.approx(math.log(5))]
    assert cf.ratio_tail(worlds, 1.0).values == pytest.approx([0.0, 0.2], abs=1e-15)


def test_a_release_the_other_world_cannot_make_has_an_infinite_ratio() -> None:
    law = cf.log_likelihood(adv.Exact(), [[0, 1], [1, 2]])
    with pytest.warns(RuntimeWarning, match=r"release 2 is impossible in the counterfactual world"):
        worlds = cf.compare_worlds(REST, RECORD, law, default=0)
    assert worlds.log_ratio.sel(record=1, release=2).item() == math.inf
    assert np.isnan(worlds.counterfactual.sel(release=2)).all()
    assert cf.ratio_tail(worlds, 50.0, 1).item() == pytest.approx(0.12 / 0.155, rel=1e-13)
    assert worlds.log_ratio.sel(record=0, release=2).isnull()


def test_a_record_ruled_out_in_both_worlds_is_undefined_there() -> None:
    law = cf.log_likelihood(adv.Exact(), [[0, 1], [7, 8]])
    worlds = cf.compare_worlds([0.5, 0.5], [[1.0, 0.0], [0.5, 0.5]], law.sel(release=[0, 7, 8]))
    assert np.isnan(worlds.log_ratio.sel(record=1, release=0))
    assert cf.ratio_tail(worlds, 0.1).sel(record=1).item() == pytest.approx(0.25, abs=1e-15)


def flat(*shape: int) -> Any:
    return np.zeros(shape)


def plain(dim: str, *labels: str) -> xr.DataArray:
    return xr.DataArray(np.full(len(labels), 1 / len(labels)), dims=dim, coords={dim: list(labels)})


LAPLACE, GEOMETRIC, PURE = adv.Laplace(1.0), adv.Geometric(1.0), adv.PureDP(1.0)
BOTH: dict[str, Any] = {"default": 0, "dropped": flat(1, 1)}
REFUSED: dict[str, Any] = {
    "prior_rest must sum to 1 over 'rest', got 0.9": lambda: cf.compare_worlds([0.5, 0.4], [1.0], flat(2, 1, 1)),
    "likelihood must hold log prob.* got nan": lambda: cf.compare_worlds(1.0, [1.0], [[[math.nan]]]),
    "must have the same labels": lambda: cf.compare_worlds([0.5, 0.5], [0.5, 0.5], flat(3, 2, 4)),
    "must have the same labels: .*record": lambda: cf.compare_worlds(
        1.0, plain("record", "a", "b"), plain("record", "b", "a").expand_dims("release")
    ),
    "likelihood must have dim 'release'": lambda: cf.compare_worlds(1.0, [1.0], plain("record", "a")),
    "default or dropped, not both": lambda: cf.compare_worlds(1.0, [1.0], flat(1, 1, 1), **BOTH),
    "record 'x' is not among the 2 records": lambda: cf.compare_worlds(
        1.0, plain("record", "a", "b"), flat(1, 2, 1), default="x"
    ),
    "see together for several queries": lambda: cf.log_likelihood(GEOMETRIC, plain("cell", "a", "b").astype(int)),
    "prior must be below 1": lambda: cf.known_rest_tail(GaussianLoss(1.0), 1.0, 1.0),
}


@pytest.mark.parametrize(("bound", "epsilon"), THEOREMS)
def test_bounds_take_their_arguments_by_name(bound: Any, epsilon: Any) -> None:
    guarantee = adv.ZeroConcentratedDP(0.5)
    assert bound(guarantee=guarantee, epsilon=5.0) == bound(guarantee, 5.0)
    assert epsilon(guarantee=guarantee, delta=1e-3) == epsilon(guarantee, 1e-3)


@pytest.mark.parametrize("message", REFUSED)
def test_bad_values_are_refused_by_name(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        REFUSED[message]()


def test_tails_of_densities_and_of_part_of_the_releases_are_refused() -> None:
    dense = cf.compare_worlds(1.0, [0.5, 0.5], cf.log_likelihood(adv.Laplace(1.0), [0, 1], np.arange(-20.0, 21.0)))
    with pytest.raises(ValueError, match="densities, which do not add up"):
        cf.ratio_tail(dense, 0.1)
    part = cf.compare_worlds(1.0, [0.5, 0.5], cf.log_likelihood(adv.Geometric(1.0), [0, 1], [0, 1, 2]))
    with pytest.raises(ValueError, match=r"must carry all of the probability, got 0\.7"):
        cf.ratio_tail(part, 0.1)
    whole = cf.compare_worlds(1.0, [0.5, 0.5], cf.log_likelihood(adv.Geometric(1.0), [0, 1]))
    with pytest.raises(ValueError, match="record 7 is not among the 2 records"):
        cf.ratio_tail(whole, 0.1, 7)
    with pytest.raises(ValueError, match="epsilon must be a number, got nan"):
        cf.ratio_tail(whole, math.nan)
    with pytest.raises(ValueError, match="epsilon must be one number or a list, got 2 axes"):
        cf.ratio_tail(whole, [[0.1]])
