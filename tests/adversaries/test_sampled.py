"""The adversary who does not know whether the target was sampled, beside a list of every sample."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

import adversary as adv

RATE, PRIOR = 0.3, 0.2
BLOCK, OTHER_BLOCK = (1, 1, 0), (1, 0)
"""Who else of the population is in the cell, in the target's block and in the other one."""
NOISE = {"block": adv.Geometric(0.9), "tract": adv.DiscreteGaussian(1.1)}
PLAN = adv.Plan([adv.Level("block", NOISE["block"], siblings=1), adv.Level("tract", NOISE["tract"])])
KNOWING = adv.Adversary(
    PRIOR,
    beliefs={"block": adv.Others(binom(sum(BLOCK), RATE)), "tract": adv.Others(binom(sum(OTHER_BLOCK), RATE))},
    sampling_rate=RATE,
)


def weight(drawn: tuple[int, ...], size: int | None) -> float:
    """Of a sample of everybody, the target first: each drawn by itself, or just so many."""
    if size is None:
        return float(np.prod([RATE if one else 1.0 - RATE for one in drawn]))
    return float(sum(drawn) == size)


def listed(block: int, tract: int, siblings: int, size: int | None = None) -> float:
    """P(target in the cell | release): the sum over every sample, for who knows everybody's record but the target's."""
    others = (*BLOCK, *OTHER_BLOCK)
    found = np.zeros(2)
    for drawn in product((0, 1), repeat=1 + len(others)):
        for present in (0, 1):
            counted = [a * b for a, b in zip(drawn, (present, *others), strict=True)]
            low, apart = sum(counted[: 1 + len(BLOCK)]), sum(counted[1 + len(BLOCK) :])
            logs = [(block, low, "block"), (siblings, apart, "block"), (tract, low + apart, "tract")]
            likelihood = np.exp(sum(float(NOISE[level].log_prob(seen, true)) for seen, true, level in logs))
            found[present] += weight(drawn, size) * likelihood * (PRIOR if present else 1.0 - PRIOR)
    return float(found[1] / found.sum())


@pytest.mark.parametrize(("block", "tract", "siblings"), [(0, 0, 0), (3, 4, 1), (-2, 5, 2)])
def test_the_posterior_is_the_sum_over_every_sample(block: int, tract: int, siblings: int) -> None:
    release = PLAN.observe({"block": block, "tract": tract}, {"block": siblings})
    found = KNOWING.posterior(PLAN, release)
    assert float(found["posterior"]) == pytest.approx(listed(block, tract, siblings), rel=1e-10)
    np.testing.assert_allclose(found["count"].sum("value"), 1.0, rtol=1e-12)


def test_a_sample_of_fixed_size_has_another_answer_which_a_model_gives() -> None:
    """Who is not drawn leaves the place to another: the rest of the sample depends on it, and BF is no mixture."""
    import pymc as pm

    from adversary.models.noise import released

    size = 2
    with pm.Model() as model:
        target, drawn = pm.Bernoulli("in", PRIOR), pm.Bernoulli("drawn", size / 6)
        near = pm.HyperGeometric("near", N=5, k=len(BLOCK), n=size - drawn)
        inside = pm.HyperGeometric("inside", N=len(BLOCK), k=sum(BLOCK), n=near)
        apart = pm.HyperGeometric("apart", N=len(OTHER_BLOCK), k=sum(OTHER_BLOCK), n=size - drawn - near)
        released("block", NOISE["block"], inside + target * drawn)
        released("siblings", NOISE["block"], apart)
        released("tract", NOISE["tract"], inside + target * drawn + apart)
    found = adv.enumerate_posterior(model, {"block": 3, "tract": 4, "siblings": 1})["posterior"].item()
    assert found == pytest.approx(listed(3, 4, 1, size), rel=1e-10)
    independent = replace(KNOWING, sampling_rate=size / 6).posterior(
        PLAN, PLAN.observe({"block": 3, "tract": 4}, {"block": 1})
    )
    assert abs(found - float(independent["posterior"])) > 1e-3


@pytest.mark.parametrize("noise", [adv.Geometric(0.9), adv.DiscreteGaussian(1.1)])
def test_averages_over_samples_are_those_of_the_amplified_loss(noise: adv.Mechanism) -> None:
    plan, who = adv.Plan([adv.Level("block", noise)]), adv.Adversary(PRIOR, known=4, sampling_rate=RATE)
    drawn, left = (adv.audit(plan, who, {"block": count})["risk"]["posterior_mean"].item() for count in (5, 4))
    of_samples = who.privacy_loss(plan).posterior(PRIOR)
    assert RATE * drawn + (1.0 - RATE) * left == pytest.approx(of_samples.mean("in"), rel=1e-9)
    assert left == pytest.approx(of_samples.mean("out"), rel=1e-9)


def test_continuous_noise_is_simulated_with_its_error() -> None:
    plan, who = adv.Plan([adv.Level("block", adv.Laplace(1.0))]), adv.Adversary(PRIOR, sampling_rate=RATE)
    risk = adv.audit(plan, who, {"block": 0}, rng=1)["risk"]
    exact = who.privacy_loss(plan).posterior(PRIOR).mean("out")
    assert abs(risk["posterior_mean"].item() - exact) < 4.0 * risk["mcse"].sel(measure="posterior_mean").item()


def test_two_releases_of_one_sample_are_read_as_one_of_both() -> None:
    twice = adv.Plan([adv.Level("block", NOISE["block"], siblings=0), adv.Level("again", NOISE["tract"])])
    who = adv.Adversary(PRIOR, known=1, sampling_rate=RATE)
    first, second = adv.Plan([adv.Level("block", NOISE["block"])]), adv.Plan([adv.Level("again", NOISE["tract"])])
    wise = who.after(first, first.observe({"block": 3}))
    assert RATE < wise.sampling_rate < 1.0
    found = wise.posterior(second, second.observe({"again": 2}))
    both = who.posterior(twice, twice.observe({"block": 3, "again": 2}))
    np.testing.assert_allclose(found["posterior"], both["posterior"], rtol=1e-12)


@pytest.mark.parametrize("failure", [0.0, 0.05])
@pytest.mark.parametrize("noise", [adv.Geometric(0.9), adv.DiscreteGaussian(1.1)])
def test_bounds_hold_whether_or_not_the_target_was_drawn(noise: adv.Mechanism, failure: float) -> None:
    plan = adv.Plan([adv.Level("block", noise)])
    one, knows = adv.Adversary(PRIOR, sampling_rate=RATE), adv.Adversary(PRIOR)
    for count in (0, 1):
        tree = adv.audit(plan, {"one": one, "knows": knows}, {"block": count}, failure=failure)
        assert (tree["bound"]["status"] == "holds").all()
        ends = tree["bound"]["loss_bound"].sel(adversary=["one", "knows"]).values.ravel()
        np.testing.assert_allclose(np.expm1(ends[0]), RATE * np.expm1(ends[1]), rtol=1e-9)
    assert (tree["empirical"]["epsilon"] <= tree["bound"]["loss_bound"].squeeze() * (1 + 1e-9)).all()


def test_a_table_is_read_cell_by_cell() -> None:
    import pandas as pd

    town = pd.DataFrame({"block": ["a", "b"], "tract": ["t", "t"], "renters": [1, 3]})
    who = adv.Adversary(PRIOR, beliefs={"tract": adv.Uniform()}, sampling_rate=RATE)
    tables = [adv.PublishedTable((level.name, "cell"), level.mechanism, level.name) for level in PLAN.levels]
    row = adv.audit_tables(town, tables, who).set_index("block").loc["b"]
    one = adv.audit(PLAN, replace(who, known=2), {"block": 3, "tract": 4})
    assert row["posterior_mean"] == pytest.approx(one["risk"]["posterior_mean"].item(), rel=1e-9)
    assert row["bound"] == pytest.approx(one["bound"]["posterior"].values[0, 1], rel=1e-12)


def test_samples_that_the_formula_does_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="sampling_rate must be positive and finite, got 0"):
        adv.Adversary(sampling_rate=0.0)
    with pytest.raises(ValueError, match=r"sampling_rate is for hypotheses \(0, 1\), .* got \(0, 2\)"):
        adv.Adversary(hypotheses=(0, 2), sampling_rate=0.1)
    who = adv.Adversary(known=(0, 0), sampling_rate=0.1)
    with pytest.raises(ValueError, match="sampling_rate must be 1 with two cells or an exact level, got"):
        who.level_beliefs(adv.Plan([adv.Level("block", adv.Geometric(1.0))], cells=2))
    with pytest.raises(ValueError, match="exact counts of a sample tell by themselves"):
        replace(who, known=0).level_beliefs(adv.Plan([adv.Level("block", adv.Exact())]))
