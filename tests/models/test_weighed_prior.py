"""Posteriors by weighed draws of the prior: right against quadrature and brute force, or said not to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy.stats as st
from scipy.special import expit, logsumexp

from adversary import DiscreteGaussian, Gaussian, Geometric, Laplace
from adversary.models import noise
from adversary.models.importance import PriorPredictive, Sample, WeighedPrior

Build = Callable[[], pm.Model]
Exact = Callable[[Any], float]


def weighed(model: pm.Model, data: dict[str, Any], **options: Any) -> list[Sample]:
    """Every release by a few thousand draws of the prior."""
    prior = WeighedPrior.of(model, tuple(data), rng=3, draws=4000, **options)
    return list(prior.weigh({name: np.asarray(value) for name, value in data.items()}, 4))


def right_or_unreliable(samples: list[Sample], expected: Any) -> int:
    """How many answers are given; all of these must be right."""
    kept = [(one.answer, exact) for one, exact in zip(samples, expected, strict=True) if one.reliable]
    for answer, exact in kept:
        assert abs(answer.present - exact) <= 4 * answer.mcse + 1e-10
        assert answer.present + answer.out == pytest.approx(1.0, abs=1e-12)
    return len(kept)


def ratio(log_in: Any, log_out: Any) -> float:
    return float(expit(logsumexp(log_in) - logsumexp(log_out)))


# Models that are not in the library


def mixture_on_counts() -> tuple[pm.Model, dict[str, Any], Exact]:
    law = Geometric(0.5)
    with pm.Model() as model:
        share = pm.Beta("share", 2.0, 2.0)
        dense = pm.Bernoulli("dense", share)
        present = pm.Bernoulli("in", 0.2 + 0.5 * share)
        others = pm.Truncated("others", pm.Poisson.dist(pt.switch(dense, 12.0, 2.0)), upper=60)
        noise.released("noisy", law, present + others)

    def exact(y: Any) -> float:
        s, k = np.linspace(0, 1, 2001)[1:-1, None], np.arange(61)
        others = s * st.poisson.pmf(k, 12.0) + (1 - s) * st.poisson.pmf(k, 2.0)
        inside, prior = (0.2 + 0.5 * s), st.beta(2, 2).pdf(s)
        parts = [
            prior * p * others * np.exp(law.log_prob(y["noisy"], k + i)) for i, p in ((1, inside), (0, 1 - inside))
        ]
        return float(parts[0].sum() / (parts[0].sum() + parts[1].sum()))

    return model, {"noisy": np.array([0, 3, 14, 20])}, exact


def zero_inflated() -> tuple[pm.Model, dict[str, Any], Exact]:
    law = DiscreteGaussian(1.5)
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 0.5)
        others = pm.ZeroInflatedPoisson("others", 0.6, rate)
        noise.released("noisy", law, pm.Bernoulli("in", 0.4) + others)

    def exact(y: Any) -> float:
        k = np.arange(80)
        law_others = 0.6 * st.nbinom(2, 0.5 / 1.5).pmf(k) + 0.4 * (k == 0)
        joint = [p * law_others @ np.exp(law.log_prob(y["noisy"], k + i)) for i, p in ((1, 0.4), (0, 0.6))]
        return float(joint[0] / sum(joint))

    return model, {"noisy": np.array([-1, 0, 2, 5])}, exact


def household() -> tuple[pm.Model, dict[str, Any], Exact]:
    """Everybody in a household shares its propensity; the total of the block is published."""
    law = DiscreteGaussian(2.0)
    with pm.Model() as model:
        level = pm.Normal("level", -1.0, 1.0)
        present = pm.Bernoulli("in", pm.math.sigmoid(level))
        relatives = pm.Bernoulli("relatives", pm.math.sigmoid(level), shape=3)
        noise.released("noisy", law, present + relatives.sum())

    def exact(y: Any) -> float:
        x, k = np.linspace(-8, 6, 4001)[:, None], np.arange(4)
        p, prior = expit(x), st.norm(-1, 1).pdf(x)
        others = st.binom.pmf(k, 3, p)
        parts = [prior * q * others * np.exp(law.log_prob(y["noisy"], k + i)) for i, q in ((1, p), (0, 1 - p))]
        return float(parts[0].sum() / (parts[0].sum() + parts[1].sum()))

    return model, {"noisy": np.array([-2, 1, 4, 7])}, exact


def hidden_markov() -> tuple[pm.Model, dict[str, Any], Exact]:
    """A person's state over three years, its persistence unknown, and a count that includes it each year."""
    law = DiscreteGaussian(1.0)
    with pm.Model(coords={"year": [2020, 2021, 2022]}) as model:
        stay = pm.Beta("stay", 4.0, 2.0)
        states = [pm.Bernoulli("first", 0.3)]
        for i in (1, 2):
            states.append(pm.Bernoulli(f"later{i}", pt.switch(states[-1], stay, 0.1)))
        pm.Deterministic("in", states[-1])
        noise.released("noisy", law, pt.stack(states) + np.array([2, 2, 2]), dims="year")

    def exact(y: Any) -> float:
        s = np.linspace(0, 1, 2001)[1:-1]
        parts = np.zeros((2, s.size))
        for a in (0, 1):
            for b in (0, 1):
                for c in (0, 1):
                    p = (0.3 if a else 0.7) * np.where(a, s if b else 1 - s, 0.1 if b else 0.9)
                    p = p * np.where(b, s if c else 1 - s, 0.1 if c else 0.9)
                    seen = np.exp(law.log_prob(y["noisy"], 2 + np.array([a, b, c])).sum())
                    parts[c] += p * seen * st.beta(4, 2).pdf(s)
        return float(parts[1].sum() / parts.sum())

    return model, {"noisy": np.array([[3, 2, 3], [2, 2, 2], [3, 3, 4]])}, exact


def mean_and_total() -> tuple[pm.Model, dict[str, Any], Exact]:
    """Real-valued releases that read a continuous latent: the target earns 9, the others mu on average."""
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.5)
        mu = pm.Normal("mu", 5.0, 1.0)
        total = 9.0 * mu + pt.switch(present, 9.0, 5.0)
        noise.released("mean", Laplace(0.4), total / 10.0)
        noise.released("total", Gaussian(3.0), total)

    def exact(y: Any) -> float:
        x = np.linspace(0, 10, 20_001)
        logs = []
        for own in (9.0, 5.0):
            total = 9.0 * x + own
            seen = st.laplace(total / 10.0, 0.4).logpdf(y["mean"]) + st.norm(total, 3.0).logpdf(y["total"])
            logs.append(st.norm(5, 1).logpdf(x) + seen)
        return ratio(*logs)

    return model, {"mean": np.array([5.2, 6.1, 4.0]), "total": np.array([52.0, 57.0, 44.0])}, exact


def bimodal_prior() -> tuple[pm.Model, dict[str, Any], Exact]:
    with pm.Model() as model:
        place = pm.NormalMixture("place", np.array([0.8, 0.2]), np.array([-4.0, 4.0]), sigma=0.7)
        present = pm.Bernoulli("in", pm.math.sigmoid(place))
        noise.released("noisy", Laplace(1.0), place + present)

    def exact(y: Any) -> float:
        x = np.linspace(-10, 10, 40_001)
        prior = np.logaddexp(np.log(0.8) + st.norm(-4, 0.7).logpdf(x), np.log(0.2) + st.norm(4, 0.7).logpdf(x))
        own = (np.log(expit(x)), np.log(expit(-x)))
        return ratio(*(prior + p + st.laplace(x + i).logpdf(y["noisy"]) for i, p in zip((1, 0), own, strict=True)))

    return model, {"noisy": np.array([-4.0, 0.3, 4.5])}, exact


def ordered() -> tuple[pm.Model, dict[str, Any], Exact]:
    """The target answers on a scale of three, and says so through randomised response of a noisy kind."""
    law = Geometric(1.0)
    with pm.Model() as model:
        eta = pm.Normal("eta", 0.0, 1.5)
        answer = pm.OrderedLogistic("answer", eta=eta, cutpoints=np.array([-1.0, 1.0]), compute_p=False)
        pm.Deterministic("in", pt.eq(answer, 2).astype("int64"))
        noise.released("noisy", law, answer)
        noise.released("scale", Gaussian(1.0), eta)

    def exact(y: Any) -> float:
        x = np.linspace(-12, 12, 20_001)
        p = np.stack([expit(-1.0 - x), expit(1.0 - x) - expit(-1.0 - x), expit(x - 1.0)])
        weight = st.norm(0, 1.5).pdf(x) * st.norm(x, 1.0).pdf(y["scale"])
        joint = (p * weight).sum(axis=1) * np.exp(law.log_prob(y["noisy"], np.arange(3)))
        return float(joint[2] / joint.sum())

    return model, {"noisy": np.array([0, 2, 4]), "scale": np.array([0.2, 2.0, -1.5])}, exact


def random_walk() -> tuple[pm.Model, dict[str, Any], Exact]:
    """The trait's rate drifts over four years; everybody else's counts are published each year."""
    law = Gaussian(1.0)
    with pm.Model() as model:
        walk = pm.GaussianRandomWalk("walk", sigma=0.3, init_dist=pm.Normal.dist(0.0, 0.3), shape=4)
        present = pm.Bernoulli("in", pm.math.sigmoid(walk[-1] - 1.0))
        noise.released("noisy", law, 4.0 * walk + pt.stack([0.0, 0.0, 0.0, 1.0]) * present)

    def exact(y: Any) -> float:
        steps = np.tril(np.ones((4, 4))) * 0.3
        cov, s = steps @ steps.T, np.linspace(-5, 5, 4001)
        logs = []
        for i in (1, 0):  # all but the last value of the walk are Gaussian given it
            shift = y["noisy"] - np.array([0, 0, 0, i])
            slope = cov[:3, 3] / cov[3, 3]
            rest = 16.0 * (cov[:3, :3] - np.outer(slope, cov[:3, 3])) + np.eye(3)
            early = st.multivariate_normal(np.zeros(3), rest).logpdf(shift[:3] - 4.0 * slope * s[:, None])
            own = np.log(expit(s - 1.0) if i else expit(1.0 - s))
            logs.append(st.norm(0, np.sqrt(cov[3, 3])).logpdf(s) + own + early + st.norm(4 * s, 1.0).logpdf(shift[3]))
        return ratio(*logs)

    return model, {"noisy": np.array([[0.0, 1.0, 1.5, 3.0], [-1.0, -2.0, 0.0, -3.0]])}, exact


def histogram_of_a_block() -> tuple[pm.Model, dict[str, Any], Exact]:
    """Sex by age by trait, each cell with its own rate, the target in the last cell or in none."""
    law = DiscreteGaussian(2.0)
    with pm.Model() as model:
        scale = pm.Gamma("scale", 8.0, 4.0)
        present = pm.Bernoulli("in", 0.3)
        others = pm.Poisson("others", scale * np.ones((2, 2, 2)))
        where = np.zeros((2, 2, 2), dtype=np.int64)
        where[1, 1, 1] = 1
        noise.released("table", law, others + where * present)

    def exact(y: Any) -> float:
        x, k = np.linspace(0.05, 8, 800)[:, None, None], np.arange(40)
        cells = y["table"].ravel()[:, None]
        shares = st.poisson.pmf(k, x)
        kept = np.log((shares * np.exp(law.log_prob(cells, k))).sum(axis=-1))
        moved = np.log((shares * np.exp(law.log_prob(cells, k + 1))).sum(axis=-1))
        base = st.gamma(8, scale=0.25).logpdf(x[:, 0, 0]) + kept[:, :-1].sum(axis=1)
        return ratio(np.log(0.3) + base + moved[:, -1], np.log(0.7) + base + kept[:, -1])

    table = np.array([[[2, 1], [3, 0]], [[1, 2], [2, 4]]])
    return model, {"table": np.stack([table, table[::-1]])}, exact


MODELS = (
    mixture_on_counts, zero_inflated, household, hidden_markov, mean_and_total, bimodal_prior, ordered, random_walk,
    histogram_of_a_block,
)  # fmt: skip


@pytest.mark.slow_cases("zero_inflated")
@pytest.mark.parametrize("build", MODELS, ids=lambda build: build.__name__)
def test_a_model_of_ones_own_is_right_or_said_not_to_be(build: Callable[[], tuple[pm.Model, Any, Exact]]) -> None:
    model, data, exact = build()
    size = len(next(iter(data.values())))
    expected = [exact({name: value[i] for name, value in data.items()}) for i in range(size)]
    given = right_or_unreliable(weighed(model, data), expected)
    assert given >= size - (build is not histogram_of_a_block)


# Traps


def test_two_modes_far_apart_and_narrow_are_both_kept() -> None:
    """The square of a latent is published: its sign, which is the target, has a likelihood of two narrow modes."""
    with pm.Model() as model:
        x = pm.Normal("x", 1.0, 20.0)
        pm.Deterministic("in", (x > 0).astype("int64"))
        noise.released("noisy", Gaussian(0.5), x**2)
    grid = np.linspace(-60, 60, 2_000_001)
    data = np.array([900.0, 1600.0])
    expected = []
    for y in data:
        log_p = st.norm(1, 20).logpdf(grid) + st.norm(grid**2, 0.5).logpdf(y)
        expected.append(ratio(log_p[grid > 0], log_p[grid <= 0]))
    assert 0.5 < expected[0] < 0.6
    samples = weighed(model, {"noisy": data})
    right_or_unreliable(samples, expected)


def test_a_funnel_is_right_or_said_not_to_be() -> None:
    with pm.Model() as model:
        width = pm.Normal("width", 0.0, 3.0)
        x = pm.Normal("x", 0.0, pm.math.exp(width / 2))
        present = pm.Bernoulli("in", pm.math.sigmoid(width))
        noise.released("noisy", Gaussian(0.1), x + 0.2 * present)
    v = np.linspace(-20, 20, 40_001)
    data, expected = np.array([0.05, 0.6, 9.0]), []
    for y in data:
        logs = [
            st.norm(0, 3).logpdf(v)
            + np.log(expit(v if i else -v))
            + st.norm(0.2 * i, np.sqrt(np.exp(v) + 0.01)).logpdf(y)
            for i in (1, 0)
        ]
        expected.append(ratio(*logs))
    assert right_or_unreliable(weighed(model, {"noisy": data}), expected) > 0


def test_a_release_that_no_draw_of_the_prior_explains_is_answered_from_far_points_or_not_at_all() -> None:
    """One world in a hundred million lies elsewhere, and the release comes from there: no draw is near it."""
    with pm.Model() as model:
        place = pm.NormalMixture("place", np.array([1 - 1e-8, 1e-8]), np.array([0.0, 60.0]), sigma=1.0)
        present = pm.Bernoulli("in", pm.math.sigmoid(place - 30.0))
        noise.released("noisy", Gaussian(5.0), place + present)
    x = np.linspace(-10.0, 70.0, 80_001)
    law = np.logaddexp(np.log1p(-1e-8) + st.norm(0, 1).logpdf(x), np.log(1e-8) + st.norm(60, 1).logpdf(x))
    logs = [law + np.log(expit(s * (x - 30.0))) + st.norm(x + i, 5.0).logpdf(60.0) for s, i in ((1, 1), (-1, 0))]
    prior = WeighedPrior.of(model, ("noisy",), rng=3, draws=4000)
    release = {"noisy": np.array([60.0])}
    (alone,) = prior.weigh(release, 4, refine=False)
    assert not alone.reliable
    assert alone.explained < -20
    (sample,) = prior.weigh(release, 4)
    assert not sample.reliable or abs(sample.answer.present - ratio(*logs)) < 4 * sample.answer.mcse < 0.04


def test_a_rare_place_that_explains_as_well_as_draws_do_counts_in_the_error() -> None:
    """A place of weight 5e-6 without a draw: a release from between has about the same joint density in both."""
    n, rare, d = 1000, 5e-6, 0.15
    with pm.Model() as model:
        place = pm.NormalMixture("place", np.array([1 - rare, rare]), np.array([0.0, d]), sigma=d / 40)
        present = pm.Bernoulli("in", pm.math.switch(place > d / 2, 0.9, 0.1))
        noise.released("noisy", Geometric(1.0), present)
        noise.released("cells", Gaussian(1.0), place * np.ones(n))
    wave = np.random.default_rng(1).normal(size=n)
    nats = np.array([[9.0], [6.0], [12.2]])  # by which a release favours the rare place
    cells = wave - wave.mean() + d / 2 + nats / (n * d)
    noisy = np.array([1, 2, 4])
    x = np.linspace(-d / 5, 6 * d / 5, 7001)
    law = np.logaddexp(np.log1p(-rare) + st.norm(0, d / 40).logpdf(x), np.log(rare) + st.norm(d, d / 40).logpdf(x))
    chance = np.where(x > d / 2, 0.9, 0.1)
    prior = WeighedPrior.of(model, ("noisy", "cells"), rng=2, draws=2000)
    assert (prior.values[0] < d / 2).all()
    before, error = prior.before()
    assert abs(before - 0.1 - 0.8 * rare) < 5 * error < 1e-4
    released = {"noisy": noisy, "cells": cells}
    pairs = zip(prior.weigh(released, 4, refine=False), prior.weigh(released, 4), strict=True)
    for (alone, sample), count, values in zip(pairs, noisy, cells, strict=True):
        here = law + x * values.sum() - 0.5 * n * x**2
        logs = [here + np.log(p) + Geometric(1.0).log_prob(count, i) for i, p in ((1, chance), (0, 1.0 - chance))]
        assert not alone.reliable or abs(alone.answer.present - ratio(*logs)) < 5 * alone.answer.mcse
        assert sample.reliable
        assert abs(sample.answer.present - ratio(*logs)) < 4 * sample.answer.mcse < 0.04


@pytest.mark.slow
@pytest.mark.parametrize("build", [bimodal_prior, hidden_markov], ids=["bimodal", "hidden Markov"])
def test_releases_of_the_model_itself_are_explained(build: Callable[[], tuple[pm.Model, Any, Exact]]) -> None:
    """The check that refuses the release above refuses none of 500 that a right model makes."""
    model, data, _ = build()
    worlds, _ = PriorPredictive.of(model, data).draw(500, np.random.default_rng(9))
    assert all(sample.reached and sample.reliable for sample in weighed(model, worlds))


def test_a_heavy_tail_of_the_weights_is_seen() -> None:
    """Forty cells with their own latents: draws of the prior are nowhere near all of them at once."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=40)
        present = pm.Bernoulli("in", 0.5)
        noise.released("noisy", Gaussian(0.3), x + present)
    data = np.random.default_rng(1).normal(size=(2, 40))
    assert not any(sample.reliable for sample in weighed(model, {"noisy": data}))


def test_with_nothing_to_draw_the_answer_is_exact() -> None:
    law = Geometric(0.7)
    with pm.Model() as model:
        noise.released("noisy", law, pm.Bernoulli("in", np.float64(0.3)) + pm.Binomial("others", 3, np.float64(0.5)))
    (sample,) = weighed(model, {"noisy": np.array([2])})
    k = np.arange(4)
    joint = [p * st.binom(3, 0.5).pmf(k) @ np.exp(law.log_prob(2, k + i)) for i, p in ((1, 0.3), (0, 0.7))]
    assert sample.answer.present == pytest.approx(joint[0] / sum(joint), abs=1e-14)
    assert sample.answer.mcse == 0.0


def test_draws_given_a_release_follow_its_posterior() -> None:
    model, data, exact = household()
    prior = WeighedPrior.of(model, ("noisy",), rng=3, draws=4000)
    row = {"noisy": data["noisy"][2]}
    (sample,) = prior.weigh({"noisy": data["noisy"][2:3]})
    drawn = prior.draws_of(sample, row, 4000, np.random.default_rng(1))
    assert drawn["in"].mean() == pytest.approx(exact(row), abs=0.03)
    x, k = np.linspace(-8, 6, 4001)[:, None], np.arange(5)
    weight = st.norm(-1, 1).pdf(x) * st.binom.pmf(k, 4, expit(x)) * np.exp(DiscreteGaussian(2.0).log_prob(4, k))
    weight = weight.sum(axis=1)
    assert drawn["level"].mean() == pytest.approx((x[:, 0] * weight).sum() / weight.sum(), abs=0.05)
    assert drawn["relatives"].shape == (4000, 3)


@pytest.mark.slow_cases("Laplace")
@pytest.mark.parametrize("law", [Gaussian(1.0), Laplace(1.0)], ids=["Gaussian", "Laplace"])
def test_many_released_cells_hide_no_place_that_no_draw_reaches(law: Any) -> None:
    """The log likelihood of 400 cells has a spread of 14 nats and more, and the place that they come from is 30 nats
    better than any draw: without points far from the draws, such releases look like any other. Proposals around these
    points answer them."""
    n, rare = 400, 1e-6
    d = float(np.sqrt(30.0 / (n * 0.5)))
    with pm.Model() as model:
        place = pm.NormalMixture("place", np.array([1 - rare, rare]), np.array([0.0, d]), sigma=d / 60)
        present = pm.Bernoulli("in", pm.math.switch(place > d / 2, 0.9, 0.1))
        noise.released("noisy", law, place * np.ones(n) + present * np.eye(n)[0])
    prior = WeighedPrior.of(model, ("noisy",), rng=1, draws=1000)
    rng = np.random.default_rng(2)
    x = np.linspace(-d / 6, 7 * d / 6, 1001)
    log_prior = np.logaddexp(
        np.log1p(-rare) + st.norm(0, d / 60).logpdf(x), np.log(rare) + st.norm(d, d / 60).logpdf(x)
    )
    chance = np.where(x > d / 2, 0.9, 0.1)
    for true, reached in ((0.0, True), (d, False)):
        noisy = true + np.eye(n)[0] * (true > 0) + law.sample(np.zeros((6, n)), rng)
        alone = list(prior.weigh({"noisy": noisy}, 1, refine=False))
        assert [sample.reached for sample in alone] == [reached] * 6, [sample.explained for sample in alone]
        assert [sample.reliable for sample in alone] == [reached] * 6
        for sample, cells in zip(prior.weigh({"noisy": noisy}, 1), noisy, strict=True):
            shared = log_prior + law.log_prob(cells[1:, None] - x, 0).sum(axis=0)
            logs = [shared + np.log(p) + law.log_prob(cells[0] - x - i, 0) for i, p in ((1, chance), (0, 1 - chance))]
            assert not sample.reliable or abs(sample.answer.present - ratio(*logs)) <= 5 * sample.answer.mcse
            assert sample.reliable or not reached
