"""Beliefs about each sibling, and siblings' releases read one by one, against listing every world."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.signal
import scipy.stats
from scipy.special import comb

import adversary as adv
from adversary.adversaries.path import log_products, recursion
from adversary.adversaries.path.log_products import log_convolutions
from tests.catalogue import DG
from tests.tables import refusals

TOP = 24
"""Counts beyond which nothing of weight lies in these small worlds."""

LAWS: dict[str, tuple[Any, Callable[[int], float]]] = {
    "flat": (None, lambda k: 1.0),
    "pmf": ([0.2, 0.5, 0.0, 0.3], lambda k: [0.2, 0.5, 0.0, 0.3][k] if k < 4 else 0.0),
    "poisson": (scipy.stats.poisson(1.3), lambda k: math.exp(-1.3) * 1.3**k / math.factorial(k)),
}
NOISES: dict[str, adv.Mechanism] = {
    "discrete gaussian": DG(1.5),
    "geometric": adv.Geometric(1.6),
    "gaussian": adv.Gaussian(0.6),
    "clamped": adv.postprocessing.clamped(DG(1.5)),
}


def listed(
    law: Callable[[int], float],
    noise: adv.Mechanism,
    upper: adv.Mechanism,
    seen: tuple[int, int, list[int]],
    prior: float,
) -> float:
    """P(in | block, tract, siblings one by one), nobody else in the block, by listing the counts of all siblings."""
    block, tract, siblings = seen
    own = [[math.exp(noise.log_prob(y, k)) * law(k) for k in range(TOP)] for y in siblings]
    weight = [0.0, 0.0]
    for counts in itertools.product(range(TOP), repeat=len(siblings)):
        there = math.prod(row[k] for row, k in zip(own, counts, strict=True))
        if there < 1e-40:
            continue
        for target in (0, 1):
            total = target + sum(counts)
            weight[target] += there * math.exp(noise.log_prob(block, target) + upper.log_prob(tract, total))
    return prior * weight[1] / (prior * weight[1] + (1 - prior) * weight[0])


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize("law", LAWS)
def test_siblings_one_by_one_equal_listing_every_world(law: str, name: str) -> None:
    belief, pmf = LAWS[law]
    plan = adv.Plan([adv.Level("block", NOISES[name], siblings=2), adv.Level("tract", adv.Geometric(1.2))])
    reader = adv.Adversary(0.3, beliefs={"tract": adv.Each(belief)})
    for seen in [(1, 3, [0, 2]), (0, 0, [1, 0]), (2, 6, [3, 1])]:
        release = plan.observe({"block": seen[0], "tract": seen[1]}, siblings={"block": seen[2]})
        got = reader.posterior(plan, release)["posterior"].item()
        assert got == pytest.approx(listed(pmf, NOISES[name], adv.Geometric(1.2), seen, 0.3), rel=1e-10), seen


def test_order_of_siblings_is_irrelevant_and_many_releases_are_read_as_each_alone() -> None:
    plan = adv.Plan([adv.Level("block", DG(0.4), siblings=3), adv.Level("tract", DG(0.3))])
    reader = adv.Adversary(beliefs={"tract": adv.Each(scipy.stats.poisson(0.7))})
    each = np.array([[0, 1, 4], [4, 0, 1], [2, 2, -1]])
    many = plan.observe({"block": [1, 1, 0], "tract": [3, 3, 5]}, siblings={"block": each})
    posterior = reader.posterior(plan, many)["posterior"].values
    assert posterior[0] == posterior[1]
    for i in range(3):
        one = plan.observe({"block": [1, 1, 0][i], "tract": [3, 3, 5][i]}, siblings={"block": each[i]})
        assert reader.posterior(plan, one)["posterior"].item() == pytest.approx(posterior[i], rel=1e-12)


def test_siblings_one_by_one_tell_more_than_their_sum() -> None:
    """For a proper belief the siblings' releases hold their sum, so on average the reader does no worse."""
    plan = adv.Plan([adv.Level("block", DG(1.0), siblings=2), adv.Level("tract", DG(3.0))])
    law = [0.7, 0.0, 0.0, 0.3]
    reader, sum_reader = (
        adv.Adversary(beliefs={"tract": b}) for b in (adv.Each(law), adv.Others(np.convolve(law, law)))
    )
    gains = []
    for counts, chance in [((0, 0), 0.49), ((0, 3), 0.42), ((3, 3), 0.09)]:
        for target in (0, 1):
            truth = {"block": target, "tract": target + sum(counts), "siblings": {"block": list(counts)}}
            release = plan.release(truth, rng=7, draws=4000)
            right = [
                abs(r.posterior(plan, release)["posterior"] - (1 - target)).mean().item() for r in (reader, sum_reader)
            ]
            gains.append(chance * (right[0] - right[1]))
    assert sum(gains) > 0.001


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("law", LAWS)
def test_the_total_has_the_d_fold_convolution(law: str, d: int) -> None:
    belief, pmf = LAWS[law]
    bound = adv.Each(belief).with_count(d)
    single = np.array([pmf(k) for k in range(60)])
    total = np.ones(1)
    for _ in range(d):
        total = np.convolve(total, single)
    got = np.exp(bound.log_prob(np.arange(3, 43), 3))
    assert got == pytest.approx(total[:40], rel=1e-11, abs=1e-300)


def test_flat_siblings_are_not_a_flat_total() -> None:
    j = np.arange(8)
    assert np.exp(adv.Each().with_count(3).log_prob(j + 2, 2)) == pytest.approx(comb(j + 2, 2), rel=1e-12)


def test_three_levels_with_each_sibling_believed_apart_equal_the_sums_of_one_sibling() -> None:
    levels = [
        adv.Level("block", DG(2.0), siblings=1),
        adv.Level("tract", DG(2.0), siblings=1),
        adv.Level("county", DG(2.0)),
    ]
    plan = adv.Plan(levels)
    law = [0.4, 0.4, 0.2]
    reader = adv.Adversary(0.4, beliefs={"tract": adv.Each(law), "county": adv.Each(law)})
    same = adv.Adversary(0.4, beliefs={"tract": adv.Others(law), "county": adv.Others(law)})
    noisy, each = {"block": 1, "tract": 2, "county": 2}, {"block": [0], "tract": [1]}
    apart = reader.posterior(plan, plan.observe(noisy, siblings=each))
    summed = same.posterior(plan, plan.observe(noisy, {"block": 0, "tract": 1}))
    assert apart["posterior"].item() == pytest.approx(summed["posterior"].item(), rel=1e-12)
    assert np.allclose(apart["count"], summed["count"], atol=1e-12)


def test_a_strong_drift_of_many_flat_siblings_is_followed() -> None:
    """With 40 flat siblings the weight of a total grows as its 39th power: the window must reach that far."""
    plan = adv.Plan([adv.Level("block", DG(0.01), siblings=40), adv.Level("tract", DG(0.001))])
    reader = adv.Adversary(beliefs={"tract": adv.Each()})
    got = reader.posterior(plan, plan.observe({"block": 1, "tract": 3}, {"block": 5}))["log_odds"].item()
    j = np.arange(0.0, 4000.0)
    link = DG(0.01).total(40).log_likelihood(5.0, j) + adv.Each().with_count(40).log_prob(j, 0)
    terms = [link + DG(0.001).log_likelihood(3.0, j + k) for k in (0, 1)]
    peak = max(float(t.max()) for t in terms)
    out, present = (float(np.log(np.exp(t - peak).sum())) for t in terms)
    assert got == pytest.approx(0.01 * (2 * 1 - 1) + present - out, abs=1e-11)


def test_many_siblings_one_by_one_are_simulated_with_an_error() -> None:
    plan = adv.Plan([adv.Level("block", DG(0.5), siblings=4), adv.Level("tract", DG(0.3))])
    reader = adv.Adversary(beliefs={"tract": adv.Each([0.5, 0.5])})
    counts = {"block": [1, 0, 0, 1]}
    runs = [
        adv.audit(plan, reader, {"block": 1, "tract": 3, "siblings": counts}, rng=seed, draws=3000)["risk"]
        for seed in (1, 2)
    ]
    means, errors = zip(
        *((float(r["posterior_mean"]), float(r["mcse"].sel(measure="posterior_mean"))) for r in runs), strict=True
    )
    assert runs[0]["posterior_mean"].attrs["direction"] == "estimate"
    assert abs(means[0] - means[1]) < 4 * np.hypot(*errors)
    assert means[0] != means[1]


def test_observed_gives_siblings_one_by_one_or_their_sum() -> None:
    plan = adv.Plan([adv.Level("block", DG(0.5), siblings=2), adv.Level("tract", DG(0.3))])
    release = plan.observe({"block": [1, 2], "tract": [2, 2]}, siblings={"block": [[1, 0], [2, -1]]})
    assert set(adv.observed(release)) == {"noisy[block]", "noisy[tract]", "sibling_sum[block]"}
    apart = adv.observed(release, individually=True)
    assert set(apart) == {"noisy[block]", "noisy[tract]", "siblings[block]"}
    assert apart["siblings[block]"].tolist() == [[1, 0], [2, -1]]
    assert release["siblings"].dims == ("release", "level", "sibling")


PLAN = adv.Plan([adv.Level("block", DG(0.5), siblings=2), adv.Level("tract", DG(0.3))])
CLAMPED = adv.Plan([adv.Level("block", adv.postprocessing.clamped(DG(0.5)), siblings=2), adv.Level("tract", DG(0.3))])


test_what_cannot_be_is_refused = refusals(
    (lambda: adv.Adversary(beliefs={"block": adv.Each()}).level_beliefs(PLAN), "the lowest"),
    (lambda: adv.Each([0.5, 0.4]), "sum to one"),
    (lambda: PLAN.release({"block": 1, "tract": 3, "siblings": {"block": [1, 0]}}), "add up to"),
    (lambda: PLAN.release({"block": 1, "tract": 3, "siblings": {"block": [2]}}), "has 2 siblings"),
    (
        lambda: adv.Adversary(beliefs={"tract": adv.Uniform()}).posterior(
            CLAMPED, CLAMPED.observe({"block": 1, "tract": 3})
        ),
        "Each",
    ),
    (
        lambda: adv.Adversary(beliefs={"tract": adv.Each()}).posterior(
            CLAMPED, CLAMPED.observe({"block": 1, "tract": 3})
        ),
        "one by one",
    ),
)


def test_after_refuses_what_it_could_not_keep() -> None:
    release = PLAN.observe({"block": 1, "tract": 3}, siblings={"block": [2, 1]})
    reader = adv.Adversary(beliefs={"tract": adv.Each([0.5, 0.2, 0.3])})
    with pytest.raises(ValueError, match="read one by one have taught"):
        reader.after(PLAN, release)
    summed = release.drop_vars("siblings")
    assert reader.after(PLAN, summed).prior == reader.posterior(PLAN, summed)["posterior"].item()


def test_each_of_a_count_clamped_from_above_reads_the_sum() -> None:
    plan = adv.Plan(
        [
            adv.Level("block", adv.Geometric(0.9), siblings=2),
            adv.Level("tract", adv.postprocessing.clamped(DG(0.5), 0, 6)),
        ]
    )
    reader = adv.Adversary(0.4, known=1, beliefs={"tract": adv.Each()})
    got = reader.posterior(plan, plan.observe({"block": 1, "tract": 6}, {"block": 4}))["log_odds"].item()
    j = np.arange(0.0, 400.0)
    link = adv.Geometric(0.9).total(2).log_likelihood(4.0, j) + np.log(j + 1.0)
    top = plan.levels[1].mechanism
    terms = [np.exp(link + top.log_likelihood(np.full(j.size, 6.0), j + k)).sum() for k in (1, 2)]
    own = adv.Geometric(0.9).log_ratio(1, 2, 1)
    assert got == pytest.approx(np.log(0.4 / 0.6) + own + np.log(terms[1] / terms[0]), abs=1e-9)


@pytest.mark.parametrize(
    "law",
    [scipy.stats.poisson(5000), scipy.stats.binom(9000, 0.5), scipy.stats.nbinom(2, 0.001)],
    ids=["poisson", "binomial", "negative binomial"],
)
def test_a_law_of_many_people_is_followed_where_its_mass_is(law: Any) -> None:
    """Of one sibling it is the law of all others."""
    plan = adv.Plan([adv.Level("block", adv.Geometric(0.5), siblings=1), adv.Level("tract", adv.Geometric(0.5))])
    mean = int(law.mean())
    release = plan.observe({"block": 2, "tract": mean + 3}, sibling_sum={"block": mean})
    each, others = (
        adv.Adversary(0.3, 0, {"tract": one}).posterior(plan, release)["posterior"]
        for one in (adv.Each(law), adv.Others(law))
    )
    assert float(each) == pytest.approx(float(others), rel=1e-12)


def test_laws_too_long_to_add_up_are_refused() -> None:
    plan = adv.Plan([adv.Level("block", adv.Geometric(0.5), siblings=50), adv.Level("tract", adv.Geometric(0.5))])
    release = plan.observe({"block": 2, "tract": 500}, sibling_sum={"block": 498})
    with pytest.raises(ValueError, match=r"each of 50 units follows a law over .* too many to add up"):
        adv.Adversary(0.3, 0, {"tract": adv.Each(scipy.stats.poisson(1e5))}).posterior(plan, release)


def test_a_convolution_of_many_laws_is_right_however_small_its_entries() -> None:
    """Binomial laws of coins that hardly ever fall on heads, and peaked laws against exact whole numbers."""
    p, n = 1e-9, 40
    coin = np.log([1.0 - p, p])
    made = log_convolutions([coin - coin.max()] * n, 0, n) + n * coin.max()
    np.testing.assert_allclose(made, scipy.stats.binom(n, p).logpmf(np.arange(n + 1)), rtol=1e-12, atol=1e-13)
    rng = np.random.default_rng(7)
    laws = [[2 ** int(rng.integers(0, 900 // (1 + abs(k - 5)))) for k in range(12)] for _ in range(6)]
    exact = [1]
    for law in laws:
        sums = [0] * (len(exact) + len(law) - 1)
        for (i, a), (j, b) in itertools.product(enumerate(exact), enumerate(law)):
            sums[i + j] += a * b
        exact = sums
    wanted = [math.log(x) for x in exact]
    logs = [np.array([math.log(x) for x in law]) for law in laws]
    made = log_convolutions([one - one.max() for one in logs], 3, 60) + sum(one.max() for one in logs)
    np.testing.assert_allclose(made, wanted[3:61], rtol=1e-12)
    holes = log_convolutions([np.array([0.0, -np.inf, -5.0])] * 3, 0, 6)
    np.testing.assert_allclose(
        holes[::2], np.log([1.0, 3 * math.exp(-5), 3 * math.exp(-10), math.exp(-15)]), rtol=1e-12
    )
    assert np.isneginf(holes[1::2]).all()


@pytest.mark.parametrize(
    "noise",
    [
        adv.postprocessing.suppressed(adv.Geometric(0.3), 4),
        adv.postprocessing.clamped(adv.DiscreteGaussian(2.0)),
        adv.Laplace(2.0),
    ],
    ids=["suppressed geometric", "clamped discrete gaussian", "laplace"],
)
def test_thirty_siblings_are_read_one_by_one_as_their_convolution(noise: adv.Mechanism) -> None:
    d, rate, top = 30, 3.0, 260
    seen = [float(y) for y in noise.sample(np.random.default_rng(5).poisson(rate, d), np.random.default_rng(6))]
    upper = adv.Geometric(0.4)
    plan = adv.Plan([adv.Level("block", noise, siblings=d), adv.Level("tract", upper)])
    adversary = adv.Adversary(0.4, known=2, beliefs={"tract": adv.Each(scipy.stats.poisson(rate))})
    own, total = float(noise.sample(3, np.random.default_rng(8))), 97
    release = plan.observe({"block": own, "tract": total}, siblings={"block": seen})
    others = np.ones(1)
    for y in seen:
        counts = np.arange(top)
        others = np.convolve(others, np.exp(noise.log_prob(y, counts)) * scipy.stats.poisson(rate).pmf(counts))[:top]
    weight = [
        math.exp(noise.log_prob(own, k)) * float(others @ np.exp(upper.log_prob(total, k + np.arange(top))))
        for k in (2, 3)
    ]
    wanted = 0.4 * weight[1] / (0.6 * weight[0] + 0.4 * weight[1])
    assert float(adversary.posterior(plan, release).posterior) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("epsilon", [0.2, pytest.param(0.011, marks=pytest.mark.slow)])
def test_four_levels_of_uniform_totals_are_added_up_by_convolution(
    epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More pairs of counts than are held in memory, against sums by fast Fourier transforms."""
    monkeypatch.setattr(recursion, "MAX_STATES", 1000)
    noise, siblings, top = adv.Geometric(epsilon), (4, 6, 3), 2**15
    names = ("block", "group", "tract", "county")
    levels = [adv.Level(name, noise, siblings=d) for name, d in zip(names, (*siblings, None), strict=True)]
    adversary = adv.Adversary(0.4, known=1, beliefs=dict.fromkeys(names[1:], adv.Uniform()))
    seen, sums = {"block": 4, "group": 155, "tract": 4970, "county": 9060}, (150, 4800, 4100)
    plan = adv.Plan(levels)
    release = plan.observe(seen, sibling_sum=dict(zip(names, sums, strict=False)))
    counts = np.arange(top)
    message = np.exp(noise.log_prob(seen["county"], counts))
    for name, d, total in list(zip(names, siblings, sums, strict=False))[:0:-1]:
        others = np.exp(noise.total(d).log_prob(total, counts))
        above = scipy.signal.fftconvolve(message, others[::-1])[top - 1 : 2 * top - 1]
        message = np.exp(noise.log_prob(seen[name], counts)) * above / above.max()
    weight = []
    for x in (1, 2):
        others = np.exp(noise.total(siblings[0]).log_prob(sums[0], counts[: top - x]))
        weight.append(float(others @ message[x:]) * math.exp(noise.log_prob(seen["block"], x)))
    wanted = math.log(weight[1] / weight[0])
    found = float(adversary.posterior(plan, release).log_odds) - math.log(0.4 / 0.6)
    assert found == pytest.approx(wanted, abs=1e-10)
    monkeypatch.setattr(recursion, "MAX_PRODUCTS", 1000)
    with pytest.raises(ValueError, match="too many to add up"):
        adversary.posterior(plan, release)


def test_small_sums_are_added_up_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    table, message = -37.0 * np.arange(60.0)[None], -50.0 * np.arange(8.0)[None, ::-1]
    whole = log_products.log_correlation(table, message)
    monkeypatch.setattr(log_products, "_AT_ONCE", 10)
    np.testing.assert_array_equal(log_products.log_correlation(table, message), whole)
