"""Laws of the log Bayes factor for siblings one by one, post-processed counts and wrapped noise; the empirical epsilon.

Every law is held against a listing of raw noise in which nothing of the package is used but its names.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import poisson

import adversary as adv
from adversary.adversaries import risk
from adversary.adversaries.path import windows
from adversary.adversaries.path.truth import Truth, opposite, settle_truth
from adversary.adversaries.risk import bayes_factors, law_of_plan, upper_evidence
from adversary.adversaries.risk.bayes_factors import BayesFactorLaw
from adversary.adversaries.risk.law_of_plan import bayes_factor_law
from adversary.adversaries.risk.law_parts import DiscretePart
from adversary.adversaries.risk.listed_releases import release_table
from tests.catalogue import DG, RHO1, STORIES

RHO = 2.0
REACH = 5


def noise(offset: Any, rho: float = RHO) -> Any:
    """Discrete Gaussian pmf."""
    return np.exp(-rho * np.asarray(offset, dtype=float) ** 2) / sum(math.exp(-rho * k * k) for k in range(-40, 41))


def around(count: int) -> range:
    return range(count - REACH, count + REACH + 1)


def averages(weight: Any, factor: Any, prior: float, target: int) -> dict[str, float]:
    """What follows from every release, by plain sums."""
    odds = logit(prior) + factor
    assert weight.sum() == pytest.approx(1.0, abs=1e-11)
    return {
        "posterior_mean": float((weight * expit(odds)).sum()),
        "ratio_mean": float((weight * expit(odds)).sum() / prior),
        "prob_correct": float(weight[(odds > 1e-9) == bool(target)].sum()),
        "tie_mass": float(weight[np.abs(odds) <= 1e-9].sum()),
    }


def agree(plan: adv.Plan, reader: adv.Adversary, truth: dict[str, Any], expected: dict[str, float]) -> None:
    law = bayes_factor_law(plan, reader, settle_truth(plan, reader, truth))
    assert not law.simulated
    summary = risk.risk_summary(law)
    for name, value in expected.items():
        assert float(summary[name]) == pytest.approx(value, abs=1e-10), name


# Siblings one by one

PMF = (0.5, 0.3, 0.2)


def blocks(siblings: int = 2) -> adv.Plan:
    return adv.Plan([adv.Level("block", DG(RHO), siblings=siblings), adv.Level("tract", DG(RHO))])


def each_factor(y: Any, others: Any, parent: Any) -> Any:
    """Log Bayes factor of a block, its siblings' releases and its tract, every state listed."""
    like = []
    for k in (0, 1):
        total = 0.0
        for counts in itertools.product(range(3), repeat=len(others)):
            chance = math.prod(PMF[c] for c in counts) * noise(parent - k - sum(counts))
            for release, count in zip(others, counts, strict=True):
                chance = chance * noise(release - count)
            total = total + chance
        like.append(noise(y - k) * total)
    return np.log(like[1]) - np.log(like[0])


@pytest.mark.parametrize(("target", "siblings"), [(1, [0, 2]), (0, [1, 1]), (1, [2])])
def test_siblings_read_one_by_one_visit_every_release(target: int, siblings: list[int]) -> None:
    plan, total = blocks(len(siblings)), target + sum(siblings)
    reader = adv.Adversary(0.3, beliefs={"tract": adv.Each(PMF)})
    truth = {"block": target, "tract": total, "siblings": {"block": siblings}}
    axes = [around(target), *(around(k) for k in siblings), around(total)]
    y, *rest = (g.ravel() for g in np.meshgrid(*axes, indexing="ij"))
    centre = [target, *siblings, total]
    weight = np.prod([noise(column - c) for column, c in zip((y, *rest), centre, strict=True)], axis=0)
    expected = averages(weight, each_factor(y, rest[:-1], rest[-1]), 0.3, target)
    agree(plan, reader, truth, expected)
    release, mass = release_table(plan, settle_truth(plan, reader, truth))
    assert mass.attrs["direction"] == "exact"
    assert release["siblings"].dims == ("release", "level", "sibling")
    each = release["siblings"].sel(level="block")
    np.testing.assert_array_equal(release["sibling_sum"].sel(level="block"), each.sum("sibling"))
    posterior = reader.posterior(plan, release)["posterior"].values
    assert float((mass.values * posterior).sum()) == pytest.approx(expected["posterior_mean"], abs=1e-10)


def test_who_lives_where_matters_to_a_reader_of_single_siblings_only() -> None:
    plan = blocks()
    truths = [{"block": 1, "tract": 3, "siblings": {"block": one}} for one in ([0, 2], [1, 1])]
    single, summed = (adv.Adversary(0.3, beliefs={"tract": b}) for b in (adv.Each(PMF), adv.Others([0.25, 0.3, 0.45])))
    means = [
        [bayes_factor_law(plan, r, settle_truth(plan, r, t)).posterior_mean()[0] for t in truths]
        for r in (single, summed)
    ]
    assert abs(means[0][0] - means[0][1]) > 1e-4
    assert means[1][0] == pytest.approx(means[1][1], abs=1e-12)
    alone = {"block": 1, "tract": 3}
    assert bayes_factor_law(plan, summed, settle_truth(plan, summed, alone)).posterior_mean()[0] == means[1][0]


@pytest.mark.parametrize(
    ("plan", "belief", "siblings"),
    [
        (blocks(), adv.Each(PMF), {"siblings": {"block": [0, 2]}}),
        (adv.Plan(blocks().levels, postprocessing=adv.postprocessing.LeastSquares()), adv.Uniform(), {}),
    ],
    ids=["siblings beside the block's own release", "a wide parent"],
)
def test_what_is_too_much_to_list_is_simulated(
    plan: adv.Plan, belief: adv.Belief, siblings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = adv.Adversary(0.3, beliefs={"tract": belief})
    truth = settle_truth(plan, reader, {"block": 1, "tract": 3, **siblings})
    exact = bayes_factor_law(plan, reader, truth)
    monkeypatch.setattr(upper_evidence, "MAX_GRID", 100)
    found = bayes_factor_law(plan, reader, truth, draws=10_000, rng=1)
    assert found.simulated
    assert found.separable == bool(siblings)
    for name in ("posterior_mean", "prob_correct"):
        value, error = getattr(found, name)()
        assert 0 < error < 0.01
        assert value == pytest.approx(getattr(exact, name)()[0], abs=4 * error)


THREE = adv.Plan(
    [adv.Level(name, adv.DiscreteGaussian.from_rho(2.0), siblings=n) for name, n in (("a", 2), ("b", 2), ("c", None))]
)
"""A grid above its lowest level of 6e4 releases."""


def test_releases_are_listed_where_that_is_no_more_work_than_the_draws_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = adv.Adversary(0.3, beliefs={"b": adv.Uniform(), "c": adv.Uniform()})
    truth = settle_truth(THREE, reader, {"a": 1, "b": 3, "c": 4})
    exact = bayes_factor_law(THREE, reader, truth)
    assert not exact.simulated
    monkeypatch.setattr(law_of_plan, "_MOST_LISTED", 1e4)
    few, many = (bayes_factor_law(THREE, reader, truth, draws=n, rng=1) for n in (500, 50_000))
    assert (few.draws, many.draws) == (500, 0)
    value, error = few.posterior_mean()
    assert 0 < error < 0.02
    assert value == pytest.approx(exact.posterior_mean()[0], abs=4 * error)
    assert many.posterior_mean() == exact.posterior_mean()


def test_a_pruned_grid_has_as_many_releases_as_counted_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their evidence is what it is without the limit, to the mass left out; those left out are counted from above."""
    reader = adv.Adversary(0.3, beliefs={"b": adv.Uniform(), "c": adv.Uniform(40)})
    truth = settle_truth(THREE, reader, {"a": 1, "b": 3, "c": 4})
    path = reader.path(THREE)
    whole = upper_evidence.evidence_above(THREE, path, truth, 0, False, np.inf)
    monkeypatch.setattr(upper_evidence, "_LARGE", 1_000)
    counted: list[int] = []
    least_kept = upper_evidence._least_kept

    def counting(*what: Any) -> tuple[float, int]:
        counted.append(least_kept(*what)[1])
        return least_kept(*what)

    monkeypatch.setattr(upper_evidence, "_least_kept", counting)
    pruned = upper_evidence.evidence_above(THREE, path, truth, 0, False, np.inf)
    assert whole is not None
    assert pruned is not None
    assert pruned.values.size < 0.7 * whole.values.size
    assert pruned.values.size == pytest.approx(counted[0], rel=0.05)
    assert 0.0 <= whole.weights.sum() - pruned.weights.sum() <= upper_evidence.LEFT_OUT
    assert np.isin(np.round(pruned.values, 9), np.round(whole.values, 9)).all()
    assert upper_evidence.evidence_above(THREE, path, truth, 0, False, counted[0] / 2) is None


def test_releases_that_underflow_are_evaluated_one_by_one_in_every_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = adv.Adversary(0.3, beliefs={"b": adv.Uniform(), "c": adv.Uniform(40)})
    truth = settle_truth(THREE, reader, {"a": 1, "b": 3, "c": 4})
    path = reader.path(THREE)
    whole = upper_evidence.evidence_above(THREE, path, truth, 0, False, np.inf)
    product = upper_evidence.log_matrix_product
    monkeypatch.setattr(upper_evidence, "_ROWS", 1_000)

    def lost(*tables: Any) -> Any:
        result = product(*tables)
        result[::7] = np.nan
        return result

    monkeypatch.setattr(upper_evidence, "log_matrix_product", lost)
    again = upper_evidence.evidence_above(THREE, path, truth, 0, False, np.inf)
    assert whole is not None
    assert again is not None
    for power in (0, 1, 2):
        mean = whole.weights @ whole.values**power
        np.testing.assert_allclose(again.weights @ again.values**power, mean, rtol=1e-9)


def test_a_long_list_leaves_its_least_probable_releases_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adversary who does not know the others of the lowest level: every release is gone over."""
    reader = adv.Adversary(0.3, beliefs={"a": poisson(2), "b": adv.Uniform(20)})
    plan = adv.Plan([THREE.levels[0], adv.Level("b", DG(1.0))])
    truth = settle_truth(plan, reader, {"a": 1, "b": 3, "in": 1})
    whole = bayes_factor_law(plan, reader, truth)
    monkeypatch.setattr(upper_evidence, "_LONG", 100)
    shorter = bayes_factor_law(plan, reader, truth)
    assert shorter.listed.values.size < 0.7 * whole.listed.values.size
    assert shorter.posterior_mean()[0] == pytest.approx(whole.posterior_mean()[0], abs=1e-12)
    assert shorter.loss_bound(1e-14) == pytest.approx(whole.loss_bound(1e-14), rel=1e-12)
    monkeypatch.setattr(law_of_plan, "_MOST_LISTED", 1e3)
    assert bayes_factor_law(plan, reader, truth, draws=10, rng=1).simulated


def test_stored_blocks_of_other_siblings_are_not_taken(tmp_path: Any) -> None:
    plan = adv.Plan([adv.Level("block", adv.Gaussian(1.0), siblings=2), adv.Level("tract", adv.Gaussian(1.0))])
    reader = adv.Adversary(0.3, beliefs={"tract": adv.Each(PMF)})
    means = []
    for siblings in ([0, 2], [1, 1], [0, 2]):
        truth = settle_truth(plan, reader, {"block": 1, "tract": 3, "siblings": {"block": siblings}})
        means.append(bayes_factor_law(plan, reader, truth, draws=500, rng=1, store=tmp_path).posterior_mean())
    assert means[0] == means[2]
    assert means[0] != means[1]


def test_two_cells_take_the_siblings_of_one() -> None:
    plan = adv.Plan([adv.Level("block", DG(1.5), siblings=2), adv.Level("tract", DG(1.5))], cells=2)
    reader = adv.Adversary(beliefs={"tract": adv.Each(PMF)})
    truth = settle_truth(plan, reader, {"block": 1, "tract": 3, "siblings": {"block": [0, 2]}})
    np.testing.assert_array_equal(truth.counts, [[1, 0], [3, 2]])
    np.testing.assert_array_equal(truth.siblings["block"], [[0, 0], [2, 2]])


# Post-processing


# Wrapped noise


@pytest.mark.parametrize("prior", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("rho", [RHO1, 1.0])
def test_clamping_never_tells_more(rho: float, prior: float) -> None:
    """Data processing; every negative release pooled at 0, at any prior, limits included."""
    raw = adv.Plan([adv.Level("block", DG(rho))])
    plan = adv.Plan(raw.levels, postprocessing=adv.postprocessing.clamped)
    reader = adv.Adversary(prior)
    y = np.arange(-20, 22)
    p, q = (np.array([noise(y[y <= 0] - k, rho).sum(), *noise(y[y > 0] - k, rho)]) for k in (1, 0))
    for target, law in enumerate((q, p)):
        truth = settle_truth(plan, reader, {"block": target})
        found, unclamped = bayes_factor_law(plan, reader, truth), bayes_factor_law(raw, reader, truth)
        ratio = float((law * p / (prior * p + (1 - prior) * q)).sum())
        assert found.ratio_mean()[0] == pytest.approx(ratio, rel=1e-10)
        gain = unclamped.ratio_mean()[0] - found.ratio_mean()[0]
        assert gain > 1e-7 if target else gain < 1e-15


def test_long_sequences_of_clamped_releases_keep_their_limit() -> None:
    """At prior 0 the mean ratio of n releases is the n-th power of one's."""
    noises = [adv.postprocessing.clamped(DG(0.3))] * 40
    one = float(risk.unique_target(noises[:1], 0.0)["ratio_mean"])
    assert float(risk.unique_target(noises, 0.0)["ratio_mean"]) == pytest.approx(one**40, rel=1e-9)


# What one attack could do

LISTED = [
    name
    for name in STORIES
    if not name.endswith(("gaussian", "laplace", "three levels", "two levels, two cells", "squares, invariant"))
]


def every_factor(plan: adv.Plan, reader: adv.Adversary, truth: Truth) -> tuple[Any, Any]:
    """|log Bayes factor| of every release, and its probability."""
    release, weight = release_table(plan, truth)
    assert weight.attrs["direction"] == "exact"
    return np.abs(reader.posterior(plan, release)["log_odds"].values - reader.prior_log_odds), weight.values


@pytest.mark.parametrize("failure", [0.3, 0.05, 0.001])
@pytest.mark.parametrize("name", LISTED)
def test_empirical_epsilon_is_the_smallest_that_holds_under_both_truths(name: str, failure: float) -> None:
    plan, reader, truth = STORIES[name]
    settled = settle_truth(plan, reader, truth)
    found = min(risk.empirical_epsilon(plan, reader, truth, failure), 1e300)
    above, at_least, nearest = [], [], []
    for one in (settled, opposite(plan, reader, settled)):
        size, weight = every_factor(plan, reader, one)
        size = np.minimum(size, 1e300)  # releases that settle the question
        above.append(weight[size > found + 1e-9].sum())
        at_least.append(weight[size >= found - 1e-9].sum())
        nearest.append(np.abs(size - found).min())
    assert max(above) <= failure + 2e-12
    assert max(at_least) > failure - 2e-12
    assert min(nearest) < 1e-9


@pytest.mark.parametrize("name", ["one block", "one block, two cells", "two levels, same people"])
def test_one_attack_stays_below_what_the_accounting_allows(name: str) -> None:
    plan, reader, truth = STORIES[name]
    failures = [0.5, 0.2, 0.05, 0.01, 1e-4, 1e-9]
    found = [risk.empirical_epsilon(plan, reader, truth, failure) for failure in failures]
    assert np.all(np.diff(found) >= 0)
    for value, failure in zip(found, failures, strict=True):
        assert value <= plan.privacy_loss().loss_bound(failure) + 1e-12


@pytest.mark.parametrize(
    ("mechanism", "largest"),
    [
        (DG(0.2), math.inf),
        (adv.Gaussian(1.0), math.inf),
        (adv.Exact(), math.inf),
        (adv.postprocessing.clamped(DG(0.2)), math.inf),
        (adv.Geometric(0.7), 0.7),
        (adv.Laplace(2.0), 0.5),
        (adv.RandomizedResponse(1.2), 1.2),
    ],
    ids=["discrete gaussian", "gaussian", "exact", "clamped", "geometric", "laplace", "randomized response"],
)
def test_without_failure_it_is_the_largest_of_all(mechanism: adv.Mechanism, largest: float) -> None:
    plan = adv.Plan([adv.Level("block", mechanism)])
    assert risk.empirical_epsilon(plan, adv.Adversary(), {"block": 1}, 0) == pytest.approx(largest, rel=1e-12)
    assert risk.empirical_epsilon(plan, adv.Adversary(), {"block": 1}, 1) == 0.0
    twice = adv.Plan([adv.Level("block", mechanism, siblings=0), adv.Level("tract", mechanism)])
    if not isinstance(mechanism, adv.Laplace):  # two of those are simulated
        found = risk.empirical_epsilon(twice, adv.Adversary(), {"block": 1, "tract": 1}, 0)
        assert found == pytest.approx(2 * largest, rel=1e-12)


def test_noise_above_a_total_the_reader_is_sure_of_tells_nothing() -> None:
    levels = [adv.Level("block", adv.Geometric(0.7), siblings=1), adv.Level("tract", DG(0.2))]
    sure, unsure = (adv.Adversary(beliefs={"tract": belief}) for belief in (adv.Point(1), adv.Uniform()))
    truth = {"block": 1, "tract": 1}
    assert risk.empirical_epsilon(adv.Plan(levels), sure, truth, 0) <= 1.4 + 1e-12
    assert risk.empirical_epsilon(adv.Plan(levels), unsure, truth, 0) == math.inf


def test_only_truths_the_reader_holds_possible_count() -> None:
    """With the target in, the tract would hold 4, and the reader is sure it holds at most 3."""
    plan, reader, truth = blocks(1), adv.Adversary(beliefs={"tract": adv.Uniform(3)}), {"block": 0, "tract": 3}
    settled = settle_truth(plan, reader, truth)
    with pytest.raises(ValueError, match="outside the adversary's belief"):
        opposite(plan, reader, settled)
    size, weight = every_factor(plan, reader, settled)
    found = risk.empirical_epsilon(plan, reader, truth, 0.05)
    assert weight[size > found + 1e-9].sum() <= 0.05 < weight[size >= found - 1e-9].sum()


def test_large_grids_leave_out_no_mass_that_counts() -> None:
    """1e-15 at most, so that a certain bound cannot be missed by what is not listed: of many levels, and of a pair."""
    noises = [DG(rho) for rho in adv.census.DETAILED_RHO.values()]
    many = adv.Plan(adv.Level(f"level {i}", one, None if i == 5 else 0) for i, one in enumerate(noises))
    wide = adv.Plan([adv.Level("block", DG(2e-4), siblings=2), adv.Level("tract", DG(2e-4))])
    for plan, reader in ((many, adv.Adversary()), (wide, adv.Adversary(beliefs={"tract": adv.Uniform(40)}))):
        law = bayes_factor_law(plan, reader, settle_truth(plan, reader, dict.fromkeys(plan.names, 1)))
        assert not law.simulated
        for part in (law.analytic, law.listed):
            assert isinstance(part, DiscretePart)
            assert abs(1.0 - part.weights.sum()) < 1e-12


def test_many_levels_and_two_parts_agree() -> None:
    """The listing of all sums and the search in two halves: 3 of 4 levels' atoms fit, those of 6 do not."""
    noises = [DG(rho) for rho in adv.census.DETAILED_RHO.values()]
    plan = adv.Plan(adv.Level(f"level {i}", one, None if i == 5 else 0) for i, one in enumerate(noises))
    reader, truth = adv.Adversary(), {f"level {i}": 1 for i in range(6)}
    found = risk.empirical_epsilon(plan, reader, truth, 0.05)
    rng, draws = np.random.default_rng(7), 200_000
    factor = np.abs(sum(one.log_ratio(one.sample(1, rng, draws), 1, 0) for one in noises))
    assert np.mean(factor > found) == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / draws))


def test_simulated_laws_give_an_estimate() -> None:
    plan = adv.Plan([adv.Level("block", DG(0.4), siblings=2), adv.Level("tract", adv.Gaussian(1.2))])
    reader, truth = adv.Adversary(beliefs={"tract": adv.Uniform(8)}), {"block": 1, "tract": 3}
    found = risk.empirical_epsilon(plan, reader, truth, 0.05, draws=20_000, rng=4)
    shares = []
    for one in (truth, {"block": 0, "tract": 2}):
        odds = reader.posterior(plan, plan.release(one, 2020, 40_000))["log_odds"]
        shares.append(float((np.abs(odds) > found).mean()))
    assert max(shares) == pytest.approx(0.05, abs=0.008)


def test_failures_below_what_is_listed_are_refused_where_noise_is_unbounded() -> None:
    plan, reader, truth = STORIES["one block"]
    with pytest.raises(ValueError, match="failure must be 0 or at least 1e-14, got 1e-17"):
        risk.empirical_epsilon(plan, reader, truth, 1e-17)
    bounded = adv.Plan([adv.Level("block", adv.Geometric(0.4))])
    assert risk.empirical_epsilon(bounded, reader, truth, 1e-17) == pytest.approx(0.4, rel=1e-12)


def test_clamped_continuous_counts_are_simulated_about_their_integral() -> None:
    """An atom at 0 and a density above it, summed by hand."""
    sigma, prior = 2.0, 0.3
    plan = adv.Plan([adv.Level("block", adv.Gaussian(sigma))], postprocessing=adv.postprocessing.clamped)
    found = adv.audit(plan, adv.Adversary(prior), {"block": 1}, rng=1)["risk"]
    assert found["posterior_mean"].attrs["direction"] == "estimate"
    x = np.linspace(0.0, 1.0 + 12.0 * sigma, 200_001)
    density = np.exp(-0.5 * ((x - 1.0) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))
    odds = logit(prior) + ((x - 0.0) ** 2 - (x - 1.0) ** 2) / (2 * sigma**2)
    below = [0.5 * math.erfc(mean / (sigma * math.sqrt(2))) for mean in (0.0, 1.0)]
    expected = float(np.trapezoid(density * expit(odds), x))
    expected += below[1] * prior * below[1] / (prior * below[1] + (1 - prior) * below[0])
    error = float(found["mcse"].sel(measure="posterior_mean"))
    assert abs(float(found["posterior_mean"]) - expected) < 4 * error


# Many priors, one law


@pytest.mark.parametrize("spread", [0.3, 3.0, 40.0])
def test_condensed_parts_have_the_same_averages(spread: float) -> None:
    rng = np.random.default_rng(5)
    part = DiscretePart(spread * rng.standard_normal(100_000), rng.dirichlet(np.ones(100_000)))
    few = part.condensed
    assert few.values.size < 0.2 * part.values.size
    for start in (-600.0, -30.0, -1.0, 0.0, 2.0, 30.0):
        exact = float((part.weights * expit(start + part.values)).sum())
        assert float((few.weights * expit(start + few.values)).sum()) == pytest.approx(exact, rel=1e-11)


def test_either_part_may_be_listed_for_tails_and_ties() -> None:
    rng = np.random.default_rng(2)
    small = DiscretePart(np.array([-np.inf, -1.0, 0.5, 2.0]), np.array([0.1, 0.3, 0.4, 0.2]))
    large = DiscretePart(rng.integers(-8, 9, 500) / 2.0, rng.dirichlet(np.ones(500)))
    one, other = (BayesFactorLaw(0.5, 1, a, b, 0, 0.5, False) for a, b in ((small, large), (large, small)))
    values = (small.values[:, None] + large.values).ravel()
    weights = (small.weights[:, None] * large.weights).ravel()
    for law in (one, other):
        assert law.prob_correct()[0] == pytest.approx(weights[values > -0.5].sum(), abs=1e-14)
        assert law.tie()[0] == pytest.approx(weights[values == -0.5].sum(), abs=1e-14)
        assert law.outside(1.5, 0.25)[0] == pytest.approx(weights[np.abs(values - 0.25) > 1.5].sum(), abs=1e-14)
        for edge in (-np.inf, -2.0, 0.0, 3.5, np.inf):
            assert law.sf(edge)[0] == pytest.approx(weights[values > edge].sum(), abs=1e-14)


def test_quantiles_are_those_of_every_sum_where_releases_exclude_the_target() -> None:
    rng = np.random.default_rng(4)
    one, other = (
        DiscretePart(
            np.append(-np.inf, 10.0 * rng.standard_normal(n)), np.append(p, (1 - p) * rng.dirichlet([1.0] * n))
        )
        for n, p in ((300, 0.1), (400, 0.05))
    )
    law = BayesFactorLaw(0.0, 0, one, other, 0, 0.5, False)
    levels = [1e-9, 0.1449, 0.1451, 0.5, 0.95, 1.0]  # 0.145 at minus infinity
    found = law.quantiles(levels)
    assert np.isneginf(found).tolist() == [True, True, False, False, False, False]
    values = (one.values[:, None] + other.values).ravel()
    order = np.argsort(values)
    below = np.cumsum((one.weights[:, None] * other.weights).ravel()[order])
    every = values[order][np.searchsorted(below, np.array(levels) - 1e-12)]
    np.testing.assert_allclose(found, every, rtol=1e-12)
    grouped = replace(law, listed=bayes_factors._group_values(other, 100)).quantiles(levels)
    np.testing.assert_array_equal(np.isneginf(grouped), np.isneginf(found))
    np.testing.assert_allclose(grouped[2:], found[2:], atol=2.0)


def test_quantiles_of_millions_of_releases_are_exact() -> None:
    """Values that were put into groups of neighbours first were off by 1e-5."""
    plan, reader = (
        adv.Plan([adv.Level("block", DG(0.01), siblings=27), adv.Level("block group", DG(0.01))]),
        adv.Adversary(beliefs={"block group": adv.Uniform()}),
    )
    law = bayes_factor_law(plan, reader, settle_truth(plan, reader, {"block": 1, "block group": 40}))
    found = law.quantiles(risk.QUANTILES)
    over = 1.0 - np.array(risk.QUANTILES)
    assert (law.sf(found) <= over + 2e-12).all()
    assert (law.sf(found - 1e-9) > over).all()


def test_no_probability_exceeds_one_by_the_rounding_of_weights() -> None:
    part = DiscretePart(np.array([0.0, 1.0]), np.array([0.5, 0.5 + 2.0**-52]))
    assert BayesFactorLaw(0.5, 1, part, part, 0, 0.5, False).sf(-1.0).tolist() == [1.0]


def _narrow_tract(counts: tuple[int, int, int], **held: Any) -> tuple[adv.Plan, adv.Adversary, Truth]:
    plan = adv.Plan(
        [
            adv.Level("block", DG(2.0), siblings=2),
            adv.Level("group", DG(3.0), siblings=1),
            adv.Level("tract", DG(2.0)),
        ]
    )
    block, group, tract = counts
    beliefs = {"group": poisson(group - block), "tract": poisson(tract - group), **held}
    reader = adv.Adversary(0.3, block - 1, beliefs)
    return plan, reader, settle_truth(plan, reader, {"block": block, "group": group, "tract": tract})


def test_laws_of_three_levels_do_not_depend_on_how_far_counts_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    for counts in ((1, 3, 5), (3, 40, 90)):
        case = _narrow_tract(counts)
        found = bayes_factor_law(*case)
        with monkeypatch.context() as patch:
            patch.setattr(windows, "NEAR_NATS", 1e6)
            wide = bayes_factor_law(*case)
        assert not found.draws
        assert found.posterior_mean()[0] == pytest.approx(wide.posterior_mean()[0], rel=1e-12)
        np.testing.assert_allclose(found.quantiles(risk.QUANTILES), wide.quantiles(risk.QUANTILES), rtol=1e-9)


def test_three_levels_of_large_counts_are_exact_and_all_alike() -> None:
    flat = {"group": adv.Uniform(), "tract": adv.Uniform()}
    sure, unsure = (
        bayes_factor_law(*_narrow_tract((500, 20_000, 300_000))),
        bayes_factor_law(*_narrow_tract((500, 600, 700), **flat)),
    )
    assert (sure.draws, unsure.draws) == (0, 0)
    assert sure.posterior_mean()[0] == pytest.approx(unsure.posterior_mean()[0], abs=1e-4)


def test_the_error_of_a_nearly_infinite_average_does_not_overflow() -> None:
    rest = DiscretePart(np.array([0.0, 500.0]), np.array([0.5, 0.5]))
    mean, error = BayesFactorLaw(-np.inf, 1, DiscretePart(np.zeros(1), np.ones(1)), rest, 100, 1.0, False).ratio_mean()
    assert mean == pytest.approx(np.exp(500.0) / 2)
    assert error == pytest.approx(np.exp(500.0) / 20)


@pytest.mark.parametrize(("rho", "siblings", "truth"), [(0.3, 1, 4), (0.05, 9, 2), (0.05, 9, 40)])
def test_two_levels_are_the_same_by_tails_as_by_going_over_counts(
    rho: float, siblings: int, truth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = adv.DiscreteGaussian.from_rho(rho)
    plan = adv.Plan([adv.Level("block", noise, siblings=siblings), adv.Level("tract", noise)])
    reader = adv.Adversary(0.3, 0, {"tract": adv.Uniform()})
    settled = settle_truth(plan, reader, {"block": 1, "tract": truth})
    assert reader.path(plan).windows.closed_form(0)
    by_tails = bayes_factor_law(plan, reader, settled)
    monkeypatch.setattr(windows.Windows, "closed_form", lambda *_: False)
    by_counts = bayes_factor_law(plan, reader, settled)
    assert by_tails.listed.values.size == by_counts.listed.values.size
    for measure in ("posterior_mean", "prob_correct", "changed"):
        np.testing.assert_allclose(getattr(by_tails, measure)()[0], getattr(by_counts, measure)()[0], rtol=1e-11)
    np.testing.assert_allclose(
        by_tails.quantiles([0.01, 0.5, 0.99]), by_counts.quantiles([0.01, 0.5, 0.99]), atol=1e-10
    )
