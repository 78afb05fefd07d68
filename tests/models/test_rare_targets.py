"""Rare targets, computed from continuous latents or with a rare chance of their own: right, with an error that is."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
from numpy.typing import NDArray
from scipy.special import expit

import adversary as adv
from adversary.models import noise
from adversary.models.fitting import Fitter
from adversary.models.importance import releases_under

Floats = NDArray[np.float64]

COUNT = adv.Geometric(1.0)
PRIORS = (1e-2, 1e-4, 1e-6)
SEEDS = 20


@dataclass(frozen=True)
class Rare:
    """A model, and the same on nodes of its latents: their weights, the chance that the target is in, and the law of
    everybody else (node, count)."""

    model: pm.Model
    weight: Floats
    chance: Floats
    others: Floats

    @property
    def prior(self) -> float:
        """P(in = 1)."""
        return float(self.weight @ self.chance / self.weight.sum())

    def log_odds(self, noisy: int) -> float:
        """Of the target, given a release."""
        k = np.arange(self.others.shape[1])
        joint = [self.weight * p @ (self.others @ np.exp(COUNT.log_prob(noisy, k + i))) for i, p in self._hypotheses]
        return float(np.log(joint[0]) - np.log(max(joint[1], 1e-300)))

    def posterior(self, noisy: int) -> float:
        """P(in = 1 | release)."""
        return float(expit(self.log_odds(noisy)))

    def mean_of_others(self) -> float:
        """E[others | in = 1]."""
        return float(self.weight * self.chance @ (self.others @ np.arange(self.others.shape[1]))) / float(
            self.weight @ self.chance
        )

    @property
    def _hypotheses(self) -> tuple[tuple[int, Floats], tuple[int, Floats]]:
        return (1, self.chance), (0, 1.0 - self.chance)


def nodes(*edges: float) -> tuple[Floats, Floats]:
    """Nodes between edges, and the weights of Gauss and Legendre there."""
    x, w = np.polynomial.legendre.leggauss(400)
    parts = [((b - a) / 2 * x + (a + b) / 2, (b - a) / 2 * w) for a, b in itertools.pairwise(edges)]
    return np.concatenate([p for p, _ in parts]), np.concatenate([w for _, w in parts])


def released(others: Any, present: Any) -> None:
    noise.released("noisy", COUNT, pm.Deterministic("in", present) + others)


def far_out(prior: float) -> Rare:
    """One score of a hundred, or of a million, is as large as the target's."""
    q = st.norm.isf(prior)
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        released(pm.Binomial("others", 20, pm.math.sigmoid(x)), (x > q).astype("int64"))
    x, w = nodes(-9.0, q, q + 6.0)
    return Rare(model, w * st.norm.pdf(x), 1.0 * (x > q), st.binom.pmf(np.arange(21), 20, expit(x)[:, None]))


def a_rate(prior: float) -> Rare:
    """Where the rate of a trait is large, the target has it."""
    q = st.norm.isf(prior)
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        released(pm.Poisson("others", pm.math.exp(x)), (x > q).astype("int64"))
    x, w = nodes(-9.0, q, q + 3.0)
    return Rare(model, w * st.norm.pdf(x), 1.0 * (x > q), st.poisson.pmf(np.arange(3500), np.exp(x)[:, None]))


def two_scores(prior: float) -> Rare:
    """The sum of two scores is large; their difference is the others' chance."""
    q = st.norm.isf(prior)
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=2)
        released(pm.Binomial("others", 12, pm.math.sigmoid(x[0] - x[1])), (x.sum() > q * 2**0.5).astype("int64"))
    u, w = nodes(-9.0, q, q + 6.0)
    v, other = nodes(-8.0, 8.0)
    law = (other * st.norm.pdf(v)) @ st.binom.pmf(np.arange(13), 12, expit(2**0.5 * v)[:, None])
    return Rare(model, w * st.norm.pdf(u), 1.0 * (u > q), np.broadcast_to(law, (u.size, 13)))


def a_steep_chance(prior: float) -> Rare:
    """A variable, whose chance is a steep function of a latent."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        low = np.log(prior) - 4.5
        present = pm.Bernoulli("sick", pm.math.sigmoid(low + 3.0 * x))
        released(pm.Binomial("others", 20, pm.math.sigmoid(x)), present)
    x, w = nodes(-9.0, 0.0, 9.0)
    return Rare(model, w * st.norm.pdf(x), expit(low + 3.0 * x), st.binom.pmf(np.arange(21), 20, expit(x)[:, None]))


RARE: dict[str, Callable[[float], Rare]] = {
    "far out": far_out,
    "a rate": a_rate,
    "two scores": two_scores,
    "a steep chance": a_steep_chance,
}
EACH = [pytest.param(name, p, id=f"{name}, {p:g}") for name in RARE for p in PRIORS]
LONG = pytest.mark.thorough
"""Of audits that take half a minute and more: rates whose counts are summed far out."""
ONCE = [
    pytest.param(name, p, id=f"{name}, {p:g}", marks=LONG if name == "a rate" and p < 1e-2 else ())
    for name in RARE
    for p in PRIORS
]


def errors(rare: Rare, seed: int) -> list[float]:
    """Of the prior and of posteriors that are ok, in standard errors: of releases with the target in and out."""
    tree = adv.audit_model(rare.model, {"in": seed % 2}, draws=12, rng=seed, progress=False)
    estimate, noisy = tree["estimate"], tree["release"]["noisy"].values
    ok = estimate["status"].values == "ok"
    found, error = estimate["log_odds"].values, estimate["log_odds_mcse"].values
    exact = np.array([rare.log_odds(int(y)) for y in noisy])
    off = (found - exact) / error
    before = float(tree["risk"]["prior"]) - rare.prior
    assert ok.mean() > 0.7
    ok &= np.abs(exact) < 25.0  # beyond that the posterior is 0 or 1 to twelve digits
    return [before / float(tree["risk"]["mcse"].sel(measure="prior")), *off[ok]]


def test_a_rare_target_is_right() -> None:
    rare = far_out(1e-4)
    prior = Fitter.of(rare.model, ("noisy",), rng=1, sampling=adv.Sampling(prior_draws=4000)).prior
    before, error = prior.before()
    assert abs(before - rare.prior) < 4 * error < 0.15 * rare.prior
    assert prior.held().ess > 800
    noisy = np.array([14, 22])
    for y, sample in zip(noisy, prior.weigh({"noisy": noisy}, 2), strict=True):
        assert sample.reliable
        assert abs(sample.answer.present - rare.posterior(y)) < 5 * sample.answer.mcse < 0.2 * rare.posterior(y)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["far out", "a steep chance"])
def test_releases_of_a_rare_truth_are_of_its_latents(name: str) -> None:
    """The target is a function of a latent, or of a variable with a chance of its own."""
    rare = RARE[name](1e-6)
    made = releases_under(rare.model, {"in": 1}, ["noisy"], 1000, np.random.default_rng(1))["noisy"]
    assert abs(made.mean() - 1.0 - rare.mean_of_others()) < 5 * made.std() / np.sqrt(500)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "prior"), ONCE)
def test_an_audit_of_a_rare_target_is_right(name: str, prior: float) -> None:
    assert np.abs(errors(RARE[name](prior), 1)).max() < 5


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(("name", "prior"), EACH)
def test_errors_of_audits_of_rare_targets_are_what_they_say(name: str, prior: float) -> None:
    rare = RARE[name](prior)
    z = np.array([errors(rare, seed) for seed in range(SEEDS)], dtype=object)
    every, before = np.concatenate([np.asarray(one, dtype=float) for one in z]), np.array([one[0] for one in z])
    assert np.abs(every).max() < 5
    # of 20 seeds the root mean square of independent errors lies between 0.66 and 1.33 with 95%
    assert 0.6 < np.sqrt(np.mean(before.astype(float) ** 2)) < 1.4


def test_too_many_latents_for_a_proposal_need_more_draws_of_the_prior_and_are_told_how_many() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=20)
        pm.Deterministic("in", (x[3] > 2.3).astype("int64"))
        noise.released("noisy", adv.Gaussian(1.0), x.sum())
    with pytest.raises(ValueError, match=r"the target is rare, use adversary\.Sampling\(prior_draws=\d+0000\)"):
        Fitter.of(model, ("noisy",), rng=1).prior.before()


def test_a_target_that_no_draw_nor_far_point_shows_is_refused() -> None:
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Deterministic("in", (pm.math.abs(x - 1.0) < 1e-9).astype("int64"))
        noise.released("noisy", adv.Gaussian(1.0), x)
    with pytest.raises(ValueError, match="make the target a variable with a probability of its own"):
        Fitter.of(model, ("noisy",), rng=1).prior.before()
