"""Averages over releases against visiting every release, and against simulation where that is too long."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import xarray as xr
from scipy.special import expit

import adversary as adv
from adversary.adversaries.path.truth import settle_truth
from adversary.adversaries.risk.averages import empirical_epsilon, risk_summary
from adversary.adversaries.risk.bayes_factors import BayesFactorLaw
from adversary.adversaries.risk.law_of_plan import bayes_factor_law, invariant_factor
from adversary.adversaries.risk.listed_releases import release_table
from tests.catalogue import BELIEFS, DG, STORIES
from tests.oracles import paths

LAWS = {
    "discrete gaussian": (DG(0.6), lambda count: paths.discrete_gaussian(0.6, count, reach=14)),
    "discrete gaussian, narrow": (DG(2.0), lambda count: paths.discrete_gaussian(2.0, count, reach=10)),
    "geometric": (adv.Geometric(2.5), lambda count: paths.geometric(2.5, count, reach=24)),
}
REACH = {"discrete gaussian": 7, "discrete gaussian, narrow": 4, "geometric": 8}


def law_of(plan: adv.Plan, reader: adv.Adversary, truth: Any, **options: Any) -> BayesFactorLaw:
    return bayes_factor_law(plan, reader, settle_truth(plan, reader, truth), **options)


def agree(summary: xr.Dataset, expected: paths.PathRisk) -> None:
    """Every average, to what the oracle's windows leave out."""
    lost = 2 * (1 - expected.mass) + 1e-11
    assert lost < 1e-5
    assert float(summary["posterior_mean"]) == pytest.approx(expected.posterior_mean, abs=lost)
    assert float(summary["ratio_mean"]) == pytest.approx(expected.ratio_mean, abs=lost * 100)
    assert float(summary["prob_correct"]) == pytest.approx(expected.prob_correct, abs=lost)
    assert float(summary["tie_mass"]) == pytest.approx(expected.tie_mass, abs=lost)
    for q, value in expected.quantiles.items():
        assert float(summary["posterior_quantile"].sel(quantile=q)) == pytest.approx(value, rel=1e-9, abs=1e-13)
    if "wrong_to_right" in summary:
        assert float(summary["wrong_to_right"]) == pytest.approx(expected.wrong_to_right, abs=lost)
        assert float(summary["right_to_wrong"]) == pytest.approx(expected.right_to_wrong, abs=lost)


@pytest.mark.parametrize("noise", LAWS)
@pytest.mark.parametrize("prior", [0.5, 0.2, 0.03])
@pytest.mark.parametrize(
    ("belief", "hypotheses"),
    [("", (0, 1)), ("others pmf", (0, 1)), ("flat to 6", (0, 1)), ("", (1, 0)), ("", (0, 2)), ("", (3, 1))],
)
@pytest.mark.parametrize("target", [0, 1])
def test_one_level_visits_every_release(
    noise: str, prior: float, belief: str, hypotheses: tuple[int, int], target: int
) -> None:
    mechanism, law = LAWS[noise]
    plan = adv.Plan([adv.Level("block", mechanism)])
    reader = adv.Adversary(prior, 1, {"block": BELIEFS[belief].belief} if belief else {}, hypotheses)
    truth = hypotheses[target] + (2 if belief else 1)
    expected = paths.path_risk(
        [truth],
        target,
        [law(1)],
        [],
        [BELIEFS[belief].oracle if belief else paths.known(1)],
        prior,
        hypotheses,
        counts=[range(9)],
        releases=[range(truth - 2 * REACH[noise] + 2, truth + 2 * REACH[noise] - 1)],
    )
    found = law_of(plan, reader, {"block": truth, "in": target})
    assert not found.simulated
    agree(risk_summary(found), expected)


@pytest.mark.parametrize(
    "noise", [("discrete gaussian", "discrete gaussian"), ("geometric", "discrete gaussian, narrow")]
)
@pytest.mark.parametrize("belief", [name for name in BELIEFS if name != "sure of 0"])
@pytest.mark.parametrize("truth", [(1, 4), (0, 4), (1, 2)])
def test_two_levels_visit_every_release(noise: tuple[str, str], belief: str, truth: tuple[int, int]) -> None:
    (low, low_law), (high, high_law) = (LAWS[name] for name in noise)
    d = 2
    plan = adv.Plan([adv.Level("block", low, siblings=d), adv.Level("tract", high)])
    reader = adv.Adversary(0.3, beliefs={"tract": BELIEFS[belief].belief})
    held = BELIEFS[belief].oracle
    if held(truth[1], truth[0]) == -math.inf and not belief.startswith("sure"):
        with pytest.raises(ValueError, match="outside the adversary's belief"):
            settle_truth(plan, reader, {"block": truth[0], "tract": truth[1]})
        return
    reach = [REACH[name] for name in noise]
    expected = paths.path_risk(
        truth,
        truth[0],
        [low_law(1), high_law(1)],
        [low_law(d)],
        [paths.known(0), held],
        0.3,
        counts=[range(2), range(24)],
        releases=[range(t - r, t + r + 1) for t, r in zip(truth, reach, strict=True)],
        sums=range(truth[1] - truth[0] - 2 * reach[0], truth[1] - truth[0] + 2 * reach[0] + 1),
    )
    found = law_of(plan, reader, {"block": truth[0], "tract": truth[1]})
    assert not found.simulated
    summary = risk_summary(found)
    assert "wrong_to_right" in summary
    agree(summary, expected)


@pytest.mark.parametrize("noise", [adv.Gaussian(1.5), adv.Laplace(1.5)], ids=["gaussian", "laplace"])
@pytest.mark.parametrize("target", [0, 1])
def test_one_level_of_continuous_noise_against_integrals(noise: Any, target: int) -> None:
    plan, prior = adv.Plan([adv.Level("block", noise)]), 0.3
    summary = risk_summary(law_of(plan, adv.Adversary(prior), {"block": target}))

    def odds(y: Any) -> Any:
        return math.log(prior / (1 - prior)) + noise.log_prob(y, 1) - noise.log_prob(y, 0)

    pieces = [(-60.0, 0.0), (0.0, 1.0), (1.0, 61.0)]

    def mean(function: Any) -> float:
        return sum(
            scipy.integrate.quad(lambda y: math.exp(noise.log_prob(y, target)) * function(y), *piece, limit=400)[0]
            for piece in pieces
        )

    assert float(summary["posterior_mean"]) == pytest.approx(mean(lambda y: expit(odds(y))), abs=1e-8)
    if noise == adv.Gaussian(1.5):
        edge = 0.5 + 1.5**2 * math.log((1 - prior) / prior)
        right = noise.sf(edge, target) if target else noise.cdf(edge, target)
    else:
        # odds never exceed 0.3/0.7 e^(2/3) < 1: this reader always says "out"
        right = 0.0 if target else 1.0
    assert float(summary["prob_correct"]) == pytest.approx(right, abs=1e-9)
    quantile = float(summary["posterior_quantile"].sel(quantile=0.25))
    sample = noise.sample(target, np.random.default_rng(1), 100_000)
    simulated = expit(odds(sample))
    assert np.mean(simulated < quantile - 1e-6) <= 0.25 + 6e-3
    assert np.mean(simulated <= quantile + 1e-6) >= 0.25 - 6e-3


def test_narrow_noise_gives_the_same_evidence_on_the_grid_as_one_by_one() -> None:
    """rho = 1e3 on both levels, truth (1, 5): the one likely release has log Bayes factor 2000 - log 28 = 1996.668."""
    plan = adv.Plan([adv.Level("block", DG(1e3), siblings=27), adv.Level("tract", DG(1e3))])
    reader = adv.Adversary(beliefs={"tract": adv.Uniform()})
    found = reader.posterior(plan, plan.observe({"block": 1, "tract": 5}, {"block": 4}))
    assert float(found["log_odds"]) == pytest.approx(2000 - math.log(28), rel=1e-12)
    law = law_of(plan, reader, {"block": 1, "tract": 5})
    assert law.quantiles([0.5])[0] == pytest.approx(2000 - math.log(28), rel=1e-9)
    assert law.outside(1999.0)[0] == pytest.approx(0.0, abs=1e-12)


def test_continuous_noise_above_is_simulated_with_its_error() -> None:
    plan = adv.Plan([adv.Level("block", DG(0.4), siblings=2), adv.Level("tract", adv.Gaussian(1.2))])
    near = adv.Plan([adv.Level("block", DG(0.4), siblings=2), adv.Level("tract", DG(0.5 / 1.2**2))])
    reader = adv.Adversary(beliefs={"tract": adv.Uniform(8)})
    truth = {"block": 1, "tract": 3}
    simulated, exact = law_of(plan, reader, truth, draws=20_000, rng=4), law_of(near, reader, truth)
    assert simulated.simulated
    assert not exact.simulated
    mean, error = simulated.posterior_mean()
    assert 0 < error < 3e-3
    assert mean == pytest.approx(exact.posterior_mean()[0], abs=4 * error + 1e-4)  # wide lattices are nearly continuous


@pytest.mark.parametrize("name", [name for name in STORIES if "invariant" not in name])
def test_averages_are_sums_over_every_release(name: str) -> None:
    """Each release with its probability, its posterior by the engine that is held against lists of states elsewhere."""
    plan, reader, truth = STORIES[name]
    settled = settle_truth(plan, reader, truth)
    release, weight = release_table(plan, settled, draws=4000, rng=3)
    found = reader.posterior(plan, release)
    posterior, odds = found["posterior"].values, found["log_odds"].values
    mean = float(weight.values @ posterior)
    law = bayes_factor_law(plan, reader, settled, draws=20_000, rng=5)
    exact, error = law.posterior_mean()
    if weight.attrs["direction"] != "exact":
        assert float(weight.sum()) == pytest.approx(1.0, abs=1e-12)
        assert mean == pytest.approx(exact, abs=4 * math.hypot(posterior.std() / math.sqrt(4000), error))
        return
    assert 1 - 1.1e-12 <= weight.attrs["mass"] <= 1 + 1e-9
    assert mean == pytest.approx(exact, abs=1e-11 + 4 * error)
    if law.simulated:
        return
    summary = risk_summary(law)
    assert float(summary["ratio_mean"]) == pytest.approx(mean / reader.prior, rel=1e-9)
    right = weight.values[(odds > 1e-9) == bool(settled.target)].sum()
    assert float(summary["prob_correct"]) == pytest.approx(right, abs=1e-11)
    assert float(summary["tie_mass"]) == pytest.approx(weight.values[np.abs(odds) <= 1e-9].sum(), abs=1e-11)
    for q, value in zip(summary["quantile"].values, summary["posterior_quantile"].values, strict=True):
        assert weight.values[posterior <= value * (1 + 1e-9)].sum() >= q - 1e-9
        assert weight.values[posterior < value * (1 - 1e-9)].sum() <= q + 1e-9


@pytest.mark.parametrize("name", ["one block", "two levels, flat", "one block, gaussian"])
def test_certain_priors_stay_and_the_ratio_has_its_limit(name: str) -> None:
    plan, reader, truth = STORIES[name]
    for prior in (0.0, 1.0):
        sure = adv.Adversary(prior, reader.known, reader.beliefs)
        summary = risk_summary(law_of(plan, sure, truth))
        assert float(summary["posterior_mean"]) == prior
        assert np.all(summary["posterior_quantile"] == prior)
    tiny = risk_summary(law_of(plan, adv.Adversary(1e-12, reader.known, reader.beliefs), truth))
    limit = risk_summary(law_of(plan, adv.Adversary(0.0, reader.known, reader.beliefs), truth))
    assert float(limit["ratio_mean"]) == pytest.approx(float(tiny["ratio_mean"]), rel=1e-6)
    one = risk_summary(law_of(plan, adv.Adversary(1.0, reader.known, reader.beliefs), truth))
    assert float(one["ratio_mean"]) == pytest.approx(1.0, rel=1e-12)


# What a truth says


def test_truths_are_settled_by_counts_or_by_name() -> None:
    plan, reader, _ = STORIES["two levels, flat"]
    assert settle_truth(plan, reader, {"block": 1, "tract": 3}).target == 1
    assert settle_truth(plan, reader, {"block": 0, "tract": 3}).target == 0
    assert settle_truth(plan, reader, {"block": 0, "tract": 3, "in": 0}).target == 0
    unsure = STORIES["one block, others unknown"]
    assert settle_truth(unsure.plan, unsure.reader, {"block": 0}).target == 0
    assert settle_truth(unsure.plan, unsure.reader, {"block": 3}).target == 1
    assert settle_truth(unsure.plan, unsure.reader, {"block": 2, "in": 0}).target == 0


def test_a_mistaken_point_may_be_contradicted_by_the_truth() -> None:
    plan = STORIES["two levels, flat"].plan
    reader = adv.Adversary(beliefs={"tract": adv.Point(9)})
    assert settle_truth(plan, reader, {"block": 1, "tract": 3}).target == 1


@pytest.mark.parametrize(
    ("name", "truth", "message"),
    [
        ("one block", {"block": 2}, "'block' is 2, outside the adversary's belief"),
        ("one block", {"block": 1, "in": 0}, '"in" = 0 contradicts a count of 1'),
        ("one block", {"block": 1, "in": 2}, '"in" must be 0 or 1, got 2'),
        ("one block", {"block": 1, "in": "yes"}, "\"in\" must be 0 or 1, got 'yes'"),
        ("one block", {"tract": 1}, "unknown level 'tract'"),
        ("one block", {}, "no count for level 'block'"),
        ("one block", {"block": 1.5}, r"whole number.*1\.5"),
        ("one block, others unknown", {"block": 2}, "do not settle whether the target is in"),
        ("one block, others unknown", {"block": 5, "in": 1}, "'block' is 5, outside the adversary's belief"),
        ("two levels, flat to 8", {"block": 1, "tract": 9}, "'tract' is 9, outside the adversary's belief"),
        ("two levels, flat", {"block": 1, "tract": 0}, "'tract' holds level 'block'"),
        ("one block, two cells", {"block": [1, 3]}, "outside the adversary's belief"),
    ],
)
def test_impossible_truths_are_refused(name: str, truth: dict[str, Any], message: str) -> None:
    plan, reader, _ = STORIES[name]
    with pytest.raises(ValueError, match=message):
        settle_truth(plan, reader, truth)


def test_a_truth_that_one_release_proves_and_another_rules_out_has_no_law() -> None:
    levels = [adv.Level("block", adv.Exact(), siblings=1), adv.Level("tract", DG(0.4), siblings=1)]
    plan = adv.Plan([*levels, adv.Level("county", adv.Geometric(0.4))])
    reader = adv.Adversary(known=2, beliefs={"tract": adv.Uniform(9), "county": adv.Point(3)})
    with pytest.raises(ValueError, match="impossible under the adversary's beliefs: their probability is zero whether"):
        law_of(plan, reader, {"block": 3, "tract": 4, "county": 5})
    out = {"block": 2, "tract": 3, "county": 4}
    tree = adv.audit(plan, reader, out, progress=False)
    assert tree["both_truths"]["possible"].values.tolist() == [False, True]
    assert float(tree["risk"]["prob_correct"]) == 1.0
    assert adv.sensitivity.sweep(plan, reader, out, prior=[0.3])["possible"].values.tolist() == [False, True]
    assert np.isinf(empirical_epsilon(plan, reader, out))


# Invariants


def test_invariant_factor_is_the_beliefs_ratio_at_the_total() -> None:
    plan, reader, truth = STORIES["two levels, invariant"]
    factor = invariant_factor(plan, reader, settle_truth(plan, reader, truth))
    assert factor == pytest.approx(math.log(6 / 5), rel=1e-12)  # 1/5 if in against 1/6 if out, at any total from 1 to 5
    summary = risk_summary(law_of(plan, reader, truth), factor)
    base = 0.3 * 6 / (0.3 * 6 + 0.7 * 5)
    assert float(summary["prior"]) == pytest.approx(base, rel=1e-12)
    assert float(summary["invariant_ratio"]) == pytest.approx(base / 0.3, rel=1e-12)
    assert float(summary["ratio_mean"]) == pytest.approx(float(summary["posterior_mean"]) / base, rel=1e-12)
    assert float(summary["difference_mean"]) == pytest.approx(float(summary["posterior_mean"]) - base, rel=1e-9)


def test_invariant_averages_visit_every_release() -> None:
    plan, reader, truth = STORIES["two levels, invariant"]
    noise, sibling = DG(0.4), DG(0.4).total(3)
    first, second = np.arange(-9, 12), np.arange(-15, 22)
    weight = np.exp(noise.log_prob(first, 1))[:, None] * np.exp(sibling.log_prob(second, 3))[None, :]
    odds = math.log(0.3 / 0.7) + math.log(6 / 5) + (noise.log_prob(first, 1) - noise.log_prob(first, 0))[:, None]
    odds = odds + (sibling.log_prob(second, 3) - sibling.log_prob(second, 4))[None, :]
    summary = risk_summary(law_of(plan, reader, truth))
    assert float(summary["posterior_mean"]) == pytest.approx((weight * expit(odds)).sum(), abs=1e-9)
    assert float(summary["prob_correct"]) == pytest.approx(weight[odds > 1e-9].sum(), abs=1e-9)


@pytest.mark.parametrize("prior", [0.0, 1e-320, 1e-12])
def test_ratios_given_an_invariant_have_their_limit_at_prior_0(prior: float) -> None:
    plan = adv.Plan([adv.Level("block", adv.Geometric(2.5), siblings=1), adv.Level("tract", adv.Exact())])
    beliefs = {"tract": adv.Uniform(9)}
    found = adv.audit(plan, adv.Adversary(prior, beliefs=beliefs), {"block": 1, "tract": 3})["risk"]["ratio_mean"]
    near = adv.audit(plan, adv.Adversary(1e-9, beliefs=beliefs), {"block": 1, "tract": 3})["risk"]["ratio_mean"]
    assert float(found) == pytest.approx(float(near), rel=1e-5)


def test_an_opposite_truth_that_cannot_be_computed_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    from adversary.adversaries.risk import averages

    def without_out(plan: adv.Plan, reader: adv.Adversary, truth: Any, **options: Any) -> BayesFactorLaw:
        if truth.target == 0:
            raise ValueError("release number 0 spans too many counts")
        return bayes_factor_law(plan, reader, truth, **options)

    monkeypatch.setattr(averages, "bayes_factor_law", without_out)
    with pytest.raises(ValueError, match="spans too many counts"):
        empirical_epsilon(adv.Plan([adv.Level("block", adv.Geometric(1.0))]), adv.Adversary(), {"block": 1})
