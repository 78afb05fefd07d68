"""Small models made at random, of priors, links and noises, against sums and dense grids: right, or said not to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
from numpy.typing import NDArray
from scipy.special import comb, expit, logsumexp, ndtr

from adversary import DiscreteGaussian, Gaussian, Geometric, Laplace
from adversary.models import noise
from adversary.models.importance import WeighedPrior

Floats = NDArray[np.float64]

PRIORS: dict[str, tuple[Any, Any]] = {
    "normal": (lambda: pm.Normal("x", 0.5, 1.5), st.norm(0.5, 1.5)),
    "gamma": (lambda: pm.Gamma("x", 2.0, 1.0), st.gamma(2.0)),
    "beta": (lambda: pm.Beta("x", 2.0, 3.0), st.beta(2.0, 3.0)),
    "uniform": (lambda: pm.Uniform("x", -2.0, 4.0), st.uniform(-2.0, 6.0)),
    "student": (lambda: pm.StudentT("x", 3.0, mu=0.0, sigma=1.0), st.t(3.0)),
}
LINKS: dict[str, tuple[Any, Any]] = {
    "logit": (lambda x: pm.math.sigmoid(2.0 * x - 1.0), lambda x: expit(2.0 * x - 1.0)),
    "probit": (lambda x: pm.math.invprobit(x - 0.5), lambda x: ndtr(x - 0.5)),
    "none": (lambda x: 0.3, lambda x: np.full_like(x, 0.3)),
}
OTHERS: dict[str, tuple[Any, Any]] = {
    "binomial": (
        lambda x: pm.Binomial("others", 8, pm.math.sigmoid(x)),
        lambda x, k: comb(8, k) * expit(x) ** k * expit(-x) ** np.maximum(8.0 - k, 0.0),
    ),
    "poisson": (
        lambda x: pm.Truncated("others", pm.Poisson.dist(pm.math.exp(0.5 * pm.math.tanh(x))), upper=14),
        lambda x, k: st.poisson.pmf(k, np.exp(0.5 * np.tanh(x))) / st.poisson.cdf(14, np.exp(0.5 * np.tanh(x))),
    ),
    "known": (lambda x: 0, lambda x, k: np.where(k == 0, 1.0, 0.0) + 0.0 * x),
}
COUNTS = [Geometric(0.3), Geometric(2.0), DiscreteGaussian(0.6), DiscreteGaussian(3.0)]
NUMBERS = [None, Laplace(0.5), Gaussian(2.0), Gaussian(0.15)]
GRID = 40_001
MODELS = 200
AT_ONCE = 20


@dataclass(frozen=True)
class Story:
    """One model, by the names of its parts."""

    prior: str
    link: str
    others: str
    count: Any
    number: Any
    shift: float

    @classmethod
    def at_random(cls, rng: np.random.Generator) -> Story:
        def one(of: Any) -> Any:
            return list(of)[int(rng.integers(len(of)))]

        return cls(one(PRIORS), one(LINKS), one(OTHERS), one(COUNTS), one(NUMBERS), float(one([0.0, 1.0, 3.0])))

    def model(self) -> pm.Model:
        with pm.Model() as model:
            x = PRIORS[self.prior][0]()
            present = pm.Bernoulli("in", LINKS[self.link][0](x))
            noise.released("count", self.count, present + OTHERS[self.others][0](x))
            if self.number is not None:
                noise.released("number", self.number, x + self.shift * present)
        return model

    def exact(self, count: int, number: float | None) -> float:
        """P(in = 1 | release) over a grid of x, even in the prior's own probability and wide in its tails."""
        law, k = PRIORS[self.prior][1], np.arange(15)
        low, high = law.ppf(1e-13), law.isf(1e-13)
        x = np.linspace(low, high, GRID) if self.prior != "student" else np.sinh(np.linspace(-12, 12, GRID))
        step = np.gradient(x)
        x, step = x[1:-1], step[1:-1]
        inside = LINKS[self.link][1](x)
        shares = OTHERS[self.others][1](x[:, None], k)
        logs = []
        for own, p in ((1, inside), (0, 1.0 - inside)):
            with np.errstate(divide="ignore"):
                seen = np.log(shares @ np.exp(self.count.log_prob(count, k + own)))
                log_p = law.logpdf(x) + np.log(step) + np.log(p) + seen
            if self.number is not None:
                scale = getattr(self.number, "scale", None) or self.number.sigma
                noisy = st.laplace if isinstance(self.number, Laplace) else st.norm
                log_p = log_p + noisy(x + self.shift * own, scale).logpdf(number)
            logs.append(logsumexp(log_p))
        return float(expit(logs[0] - logs[1]))


def check(seed: int) -> tuple[int, int]:
    """How many releases of one model are answered, and how many some draw explains; every answer is right.

    A release far from all that the model makes is refused whatever its weights look like.
    """
    rng = np.random.default_rng([20, seed])
    story = Story.at_random(rng)
    x = float(PRIORS[story.prior][1].rvs(random_state=rng))
    counts = np.array([int(rng.integers(0, 5)), int(rng.integers(5, 12)), -3])
    data: dict[str, Any] = {"count": counts}
    numbers: list[float | None] = [None] * 3
    if story.number is not None:
        data["number"] = np.array([x, x + story.shift + float(rng.normal()), x + 3.0])
        numbers = data["number"].tolist()
    prior = WeighedPrior.of(story.model(), tuple(data), rng=seed, draws=4000)
    answered = reached = 0
    for i, sample in enumerate(prior.weigh(data, seed)):
        reached += sample.reached
        if not sample.reliable:
            continue
        answered += 1
        expected = story.exact(int(counts[i]), numbers[i])
        off = abs(sample.answer.present - expected)
        assert off <= max(4 * sample.answer.mcse, 1e-10), (seed, i, story, sample.answer.present, expected)
    return answered, reached


@pytest.mark.slow
def test_models_made_at_random_are_right_or_said_not_to_be() -> None:
    assert sum(check(seed)[0] for seed in (1, 2, 3)) > 3


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("start", range(0, MODELS, AT_ONCE))
def test_two_hundred_models_are_right_or_said_not_to_be(start: int) -> None:
    found = np.array([check(seed) for seed in range(start, start + AT_ONCE)])
    answered, reached = found.sum(axis=0)
    assert reached > 1.5 * AT_ONCE
    assert answered > 0.95 * reached
