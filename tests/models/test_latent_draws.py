"""Latents are drawn where the model's density has them: at the ends of a support, inside what a transform leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy.stats as st
from pymc.distributions.transforms import Interval, Ordered, ordered
from scipy.special import digamma, expit, polygamma

import adversary as adv
from adversary import Geometric
from adversary.models import noise
from adversary.models.importance import PriorPredictive, WeighedPrior, releases_under

SIZE = 20_000
COUNT = Geometric(1.0)


def drawn(model: pm.Model, name: str, size: int = SIZE) -> Any:
    """Draws on the scale of the value variable."""
    return PriorPredictive.of(model, (), values=[name]).draw(size, np.random.default_rng(1))[0][name]


# Ends of a support


@pytest.mark.parametrize(("a", "b"), [(0.05, 0.05), (0.02, 0.3), (0.3, 0.03)])
def test_no_draw_of_a_beta_law_rounds_to_an_end(a: float, b: float) -> None:
    """The logit of a beta variable has the mean digamma(a) - digamma(b), whatever rounds to 1."""
    with pm.Model() as model:
        pm.Beta("p", np.float64(a), np.float64(b))
    logit = drawn(model, "p")
    assert np.isfinite(logit).all()
    spread = np.sqrt(polygamma(1, a) + polygamma(1, b))
    assert abs(logit.mean() - digamma(a) + digamma(b)) < 4 * spread / np.sqrt(SIZE)
    prior = WeighedPrior.of(with_count(model, model["p"]), ("noisy",), rng=1)
    found, error = prior.before()
    assert prior.lost == 0
    assert abs(found - a / (a + b)) < 4 * error < 0.03


def with_count(model: pm.Model, chance: Any) -> pm.Model:
    """The model with a target of this probability, and a count of it and of four others."""
    with model:
        noise.released("noisy", COUNT, pm.Bernoulli("in", chance) + pm.Binomial("others", 4, chance))
    return model


def test_small_shapes_of_gamma_and_dirichlet_laws_lose_nothing() -> None:
    with pm.Model() as model:
        pm.Gamma("g", np.float64(0.01), np.float64(3.0))
        pm.Dirichlet("d", np.array([0.02, 0.05, 1.0]))
        pm.Beta("p", pm.Uniform("a", np.float64(0.01), np.float64(0.05)), np.float64(0.2), shape=3)
    log_g, simplex = drawn(model, "g"), drawn(model, "d")
    assert (log_g < -745).any()  # which no number holds
    assert abs(log_g.mean() - digamma(0.01) + np.log(3.0)) < 4 * np.sqrt(polygamma(1, 0.01) / SIZE)
    logs = np.column_stack([simplex, -simplex.sum(axis=1)])
    expected = digamma([0.02, 0.05, 1.0])
    spread = np.sqrt(polygamma(1, [0.02, 0.05, 1.0]).sum() / SIZE)
    assert np.abs(logs.mean(axis=0) - expected + expected.mean()).max() < 4 * spread
    assert np.isfinite(drawn(model, "p")).all()


@pytest.mark.slow
def test_the_posterior_of_a_rate_at_either_end_is_the_beta_binomial_one() -> None:
    with pm.Model() as model:
        rate = pm.Beta("p", np.float64(0.05), np.float64(0.05))
    prior = WeighedPrior.of(with_count(model, rate), ("noisy",), rng=2)
    k = np.arange(6)
    law = st.betabinom(5, 0.05, 0.05).pmf(k)  # of all five, one of whom is the target
    for noisy, sample in zip((0, 2, 5), prior.weigh({"noisy": np.array([0, 2, 5])}), strict=True):
        seen = law * np.exp(COUNT.log_prob(noisy, k))
        assert sample.reliable
        assert abs(sample.answer.present - (seen @ k) / 5 / seen.sum()) < 4 * sample.answer.mcse + 1e-12


def test_what_still_rounds_to_an_end_is_lost_and_makes_all_unreliable() -> None:
    """A logit with a spread of 20 is beyond 37 in three draws of a hundred: there the rate is 1, and its logit no
    number."""
    with pm.Model() as model:
        rate = pm.LogitNormal("rate", 0.0, np.float64(20.0))
    prior = WeighedPrior.of(with_count(model, rate), ("noisy",), rng=1)
    assert prior.lost == pytest.approx(st.norm.sf(36.7 / 20), abs=0.01)
    found, error = prior.before()
    assert abs(found - 0.5) < error
    assert not any(sample.reliable for sample in prior.weigh({"noisy": np.array([0, 3])}))


# Transforms that cut a support


def two_ordered(**options: Any) -> pm.Model:
    with pm.Model() as model:
        x = pm.Normal("x", np.array([-0.5, 0.5]), 1.0, shape=2, transform=ordered, **options)
        chance = pm.math.sigmoid(3.0 * x[1])
        noise.released("noisy", COUNT, pm.Bernoulli("in", chance) + pm.Binomial("others", 10, chance))
    return model


def larger_of_two() -> tuple[Any, Any]:
    """A grid of the larger of the two, and its law given that it is the second."""
    x = np.linspace(-7.0, 7.0, 4001)
    law = st.norm(0.5).pdf(x) * st.norm(-0.5).cdf(x)
    return expit(3.0 * x), law / law.sum()


def test_laws_that_draw_in_two_ways_from_one_generator_are_drawn_anew_in_every_batch() -> None:
    """A truncated gamma law does; where many worlds are rejected others are drawn, and none may come again."""
    with pm.Model() as model:
        rate = pm.Truncated("rate", pm.Gamma.dist(2.0, 0.5), lower=1, upper=9)
        pm.Potential("rare", pt.switch(rate > 5, -0.1, -2.0))
    drawn, share = PriorPredictive.of(model, ["rate"]).draw(600, np.random.default_rng(1))
    assert np.unique(drawn["rate"]).size == 600
    inside = st.gamma(2.0, scale=2.0).cdf([1.0, 5.0, 9.0])
    below, above = np.diff(inside) / (inside[2] - inside[0])
    assert abs(share - (below * np.exp(-2.0) + above * np.exp(-0.1))) < 0.06


def test_releases_of_an_open_truth_obey_a_transform() -> None:
    """The mean count given that the target is in, also with the target held, and the prior."""
    chance, law = larger_of_two()
    model = two_ordered(initval=[-1.0, 1.0])
    found = releases_under(model, {"in": 1}, ["noisy"], 4000, np.random.default_rng(1))["noisy"]
    expected = 1.0 + 10.0 * (law @ chance**2) / (law @ chance)
    assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(2000)  # half of the worlds count at least
    unordered = 1.0 + 10.0 * (st.norm(0.5).pdf(np.linspace(-7, 7, 4001)) @ chance**2) / (
        st.norm(0.5).pdf(np.linspace(-7, 7, 4001)) @ chance
    )
    assert expected - unordered > 5 * found.std() / np.sqrt(2000)
    before, error = WeighedPrior.of(model, ("noisy",), rng=1).before()
    assert abs(before - law @ chance) < 4 * error < 0.02
    with pytest.raises(ValueError, match="only 0 are as the truth says"):
        releases_under(model, {"in": 1, "x": [1.0, -1.0]}, ["noisy"], 10, np.random.default_rng(1))


@pytest.mark.slow
def test_an_audit_of_ordered_latents_is_right() -> None:
    chance, law = larger_of_two()
    tree = adv.audit_model(two_ordered(initval=[-1.0, 1.0]), {"in": 1}, draws=400, rng=1, progress=False)
    k = np.arange(11)
    joint = [(law * p) @ st.binom.pmf(k, 10, chance[:, None]) for p in (chance, 1.0 - chance)]
    noisy, estimate = tree["release"]["noisy"].values, tree["estimate"]
    parts = [
        np.array([j @ np.exp(COUNT.log_prob(y, k + i)) for y in noisy]) for j, i in zip(joint, (1, 0), strict=True)
    ]
    assert (estimate["status"] == "ok").all()
    off = estimate["posterior"].values - parts[0] / sum(parts)
    assert (np.abs(off) < 5 * estimate["mcse"].values).all()


def test_cutpoints_are_probabilities_in_every_world_that_is_drawn() -> None:
    """Ordered categories: an unordered draw would make a probability negative, and no world could be drawn."""
    with pm.Model() as model:
        cut = pm.Normal("cut", 0.0, 1.5, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])
        answer = pm.OrderedLogistic("answer", eta=0.5, cutpoints=cut, compute_p=False)
        edges = pt.concatenate([[0.0], pm.math.sigmoid(cut), [1.0]])
        others = pm.Multinomial("others", n=3, p=edges[1:] - edges[:-1])
        pm.Deterministic("in", pm.math.eq(answer, 3).astype("int64"))
        noise.released("noisy", COUNT, pt.inc_subtensor(others[answer], 1))
    worlds, share = PriorPredictive.of(model, ["cut", "answer", "noisy"]).draw(SIZE, np.random.default_rng(1))
    assert share == pytest.approx(1 / 6)  # of three cells alike one order in six
    assert (np.diff(worlds["cut"]) > 0).all()
    rng = np.random.default_rng(2)
    largest = np.sort(rng.normal(0.0, 1.5, (200_000, 3)))[:, 2]
    assert abs((worlds["answer"] == 3).mean() - expit(0.5 - largest).mean()) < 4 * np.sqrt(0.25 / SIZE)


@pytest.mark.parametrize(
    ("law", "transform", "rule"),
    [
        (lambda t: pm.Normal("x", np.array([0.0, 1.0, 2.0]), 1.0, transform=t), ordered, lambda x: np.diff(x) > 0),
        (
            lambda t: pm.Gamma("x", np.float64(2.0), np.float64(1.0), shape=3, transform=t, default_transform=None),
            Ordered(positive=True, ascending=False),
            lambda x: np.diff(x) < 0,
        ),
        (lambda t: pm.Normal("x", 0.0, 1.0, transform=t), Interval(-0.5, 2.0), lambda x: (x > -0.5) & (x < 2.0)),
        (lambda t: pm.Beta("x", 2.0, 2.0, transform=t, default_transform=None), Interval(0.2, 0.5), lambda x: x < 0.5),
    ],
    ids=["ordered", "descending", "interval", "part of a beta law"],
)
def test_every_draw_obeys_its_transform(law: Any, transform: Any, rule: Any) -> None:
    """The share of the law's own draws that do is the share that is accepted."""
    with pm.Model() as model:
        x = law(transform)
    found, share = PriorPredictive.of(model, ["x"]).draw(SIZE, np.random.default_rng(1))
    assert np.atleast_2d(rule(found["x"])).all()
    free = pm.draw(x, 40_000, random_seed=1)
    obeyed = rule(free) if free.ndim == 1 else rule(free).all(axis=1)
    if transform.name == "interval":
        obeyed &= free > (-0.5 if free.min() < 0 else 0.2)
    assert share == pytest.approx(obeyed.mean(), abs=5 * np.sqrt(0.25 / SIZE))
