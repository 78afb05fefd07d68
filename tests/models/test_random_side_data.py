"""Models made at random with side data of several modes, small shapes, cut supports and many cells, against grids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
from numpy.typing import NDArray
from pymc.distributions.transforms import Interval, ordered
from scipy.special import comb, expit, logsumexp

import adversary as adv
from adversary.models import noise

Floats = NDArray[np.float64]

COUNT, OTHERS = adv.Geometric(1.0), 4
MODELS, SEEDS = 30, 10


@dataclass(frozen=True)
class Story:
    """A model, and the same on a grid of its latents.

    `log_weight` is the log prior of each node given the side data, `chance` that of the target and of everybody else;
    `value` is what further cells publish, where there are any, with Gaussian noise of scale 1.
    """

    build: Callable[[], pm.Model]
    log_weight: Floats
    chance: Floats
    value: Floats | None = None

    @property
    def prior(self) -> float:
        """P(in = 1) before the release."""
        return float(np.exp(logsumexp(self.log_weight, b=self.chance) - logsumexp(self.log_weight)))

    def posterior(self, noisy: int, cells: Floats | None) -> float:
        """P(in = 1 | release)."""
        k, q = np.arange(OTHERS + 1), self.chance[:, None]
        law = comb(OTHERS, k) * q**k * (1.0 - q) ** (OTHERS - k)
        weight = self.log_weight
        if self.value is not None and cells is not None:
            weight = weight + self.value * cells.sum() - 0.5 * cells.size * self.value**2
        parts = [
            logsumexp(weight, b=chance * (law @ np.exp(COUNT.log_prob(noisy, k + i))))
            for i, chance in ((1, self.chance), (0, 1.0 - self.chance))
        ]
        return float(expit(parts[0] - parts[1]))


def released(chance: Any) -> None:
    """The count of the target and others, each of whom has the trait with this probability."""
    noise.released("noisy", COUNT, pm.Bernoulli("in", chance) + pm.Binomial("others", OTHERS, chance))


def modes_of_a_sign(rng: np.random.Generator) -> Story:
    share, place, exact = rng.uniform(0.6, 0.95), rng.uniform(1.0, 3.0), 10.0 ** rng.uniform(-2.5, -0.7)
    seen = place + exact * rng.normal(size=4)

    def build() -> pm.Model:
        with pm.Model() as model:
            a = pm.NormalMixture("a", np.array([share, 1 - share]), np.array([place, -place]), sigma=0.3)
            pm.Normal("side", pm.math.abs(a), exact, observed=seen)
            released(pm.math.switch(a > 0, 0.9, 0.1))
        return model

    x = np.linspace(-8.0, 8.0, 200_001)
    law = np.logaddexp(np.log(share) + st.norm(place, 0.3).logpdf(x), np.log1p(-share) + st.norm(-place, 0.3).logpdf(x))
    return Story(build, law + st.norm(np.abs(x)[:, None], exact).logpdf(seen).sum(axis=1), np.where(x > 0, 0.9, 0.1))


def direction_of_a_survey(rng: np.random.Generator) -> Story:
    a, b, n = rng.uniform(1.0, 3.0), rng.uniform(1.0, 5.0), int(10 ** rng.uniform(1.5, 4.2))
    yes = int(rng.uniform(0.1, 0.4) * n)

    def build() -> pm.Model:
        with pm.Model() as model:
            rate, flip = pm.Beta("rate", a, b), pm.Bernoulli("flip", 0.5)
            pm.Binomial("survey", n, pm.math.switch(flip, 1 - rate, rate), observed=yes)
            released(rate)
        return model

    x = (np.arange(400_000) + 0.5) / 400_000
    side = np.logaddexp(st.binom.logpmf(yes, n, x), st.binom.logpmf(yes, n, 1 - x))
    return Story(build, st.beta(a, b).logpdf(x) + side, x)


def ordered_pair(rng: np.random.Generator) -> Story:
    centre, scale, slope = rng.normal(0.0, 0.7, 2), rng.uniform(0.5, 1.5), rng.uniform(0.5, 3.0)

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", centre, scale, shape=2, transform=ordered, initval=[-1.0, 1.0])
            released(pm.math.sigmoid(slope * (x[1] + 0.5 * x[0])))
        return model

    z = np.linspace(-6.0, 6.0, 601)
    x = [middle + scale * z for middle in centre]
    first, second = (part.ravel() for part in np.meshgrid(*x, indexing="ij"))
    gap = np.clip((second - first) / (scale * (z[1] - z[0])) + 0.5, 1e-300, 1.0)  # share of a node that is in order
    weight = st.norm(centre[0], scale).logpdf(first) + st.norm(centre[1], scale).logpdf(second) + np.log(gap)
    return Story(build, weight, expit(slope * (second + 0.5 * first)))


def small_beta(rng: np.random.Generator) -> Story:
    a, b = 10.0 ** rng.uniform(-1.7, 0.0, 2)

    def build() -> pm.Model:
        with pm.Model() as model:
            released(pm.Beta("p", a, b))
        return model

    u = np.linspace(-1500.0, 1500.0, 600_001)
    return Story(build, -a * np.logaddexp(0, -u) - b * np.logaddexp(0, u), expit(u))


def small_gamma(rng: np.random.Generator) -> Story:
    shape, rate = 10.0 ** rng.uniform(-1.7, 0.0), rng.uniform(0.3, 2.0)

    def build() -> pm.Model:
        with pm.Model() as model:
            released(1 - pm.math.exp(-pm.Gamma("g", shape, rate)))
        return model

    u = np.linspace(-1500.0, 6.0, 600_001)
    return Story(build, shape * u - rate * np.exp(u), -np.expm1(-np.exp(u)))


def small_dirichlet(rng: np.random.Generator) -> Story:
    shape = 10.0 ** rng.uniform(-1.5, 0.0, 3)

    def build() -> pm.Model:
        with pm.Model() as model:
            released(pm.Dirichlet("share", shape)[0])
        return model

    u = np.linspace(-1500.0, 1500.0, 600_001)
    return Story(build, -shape[0] * np.logaddexp(0, -u) - shape[1:].sum() * np.logaddexp(0, u), expit(u))


def threshold(rng: np.random.Generator) -> Story:
    cut, exact = rng.normal(0.0, 1.0), 10.0 ** rng.uniform(-3.0, 0.0)
    seen = cut + exact * rng.normal()

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0.0, 2.0)
            pm.Normal("side", x, exact, observed=seen)
            released(pm.math.switch(x > cut, 0.8, 0.3))
        return model

    x = cut + np.linspace(-12.0, 12.0, 1_200_001)
    return Story(build, st.norm(0.0, 2.0).logpdf(x) + st.norm(x, exact).logpdf(seen), np.where(x > cut, 0.8, 0.3))


def many_cells(rng: np.random.Generator) -> Story:
    """A rare place far from the others: the releases come from one or the other."""
    n, rare, nats = int(rng.integers(100, 1500)), 10.0 ** -rng.uniform(1.0, 7.0), rng.uniform(5.0, 50.0)
    d = float(np.sqrt(2.0 * nats / n))
    width = d / 40

    def build() -> pm.Model:
        with pm.Model() as model:
            place = pm.NormalMixture("place", np.array([1 - rare, rare]), np.array([0.0, d]), sigma=width)
            released(pm.math.switch(place > d / 2, 0.9, 0.1))
            noise.released("cells", adv.Gaussian(1.0), place * np.ones(n))
        return model

    x = np.linspace(-8 * width, d + 8 * width, 20_001)
    logs = np.log1p(-rare) + st.norm(0.0, width).logpdf(x), np.log(rare) + st.norm(d, width).logpdf(x)
    return Story(build, np.logaddexp(*logs), np.where(x > d / 2, 0.9, 0.1), x)


def on_a_grid(build: Callable[[], pm.Model], side: Callable[[Any, Any], Floats], chance: Callable[[Any], Any]) -> Story:
    """Two normal latents, their side data, and the target's probability by the first of them."""
    x = np.linspace(-5.0, 5.0, 2501)
    first, second = (part.ravel() for part in np.meshgrid(x, x, indexing="ij"))
    weight = -0.5 * (first**2 + second**2) + side(first, second)
    heavy = weight > weight.max() - 40.0
    return Story(build, weight[heavy], chance(first[heavy]))


def ring(rng: np.random.Generator) -> Story:
    square, exact = rng.uniform(1.0, 5.0), 10.0 ** rng.uniform(-1.3, -0.3)

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0.0, 1.0, shape=2)
            pm.Normal("side", (x**2).sum(), exact, observed=square)
            released(pm.math.sigmoid(2.0 * x[0] - 0.5))
        return model

    law = st.norm(square, exact)
    return on_a_grid(build, lambda x, y: law.logpdf(x**2 + y**2), lambda x: expit(2.0 * x - 0.5))


def two_branches(rng: np.random.Generator) -> Story:
    product, exact = rng.uniform(0.3, 2.0), 10.0 ** rng.uniform(-1.3, -0.3)

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0.0, 1.0, shape=2)
            pm.Normal("side", x[0] * x[1], exact, observed=product)
            released(pm.math.sigmoid(2.0 * x[0] + 1.0))
        return model

    law = st.norm(product, exact)
    return on_a_grid(build, lambda x, y: law.logpdf(x * y), lambda x: expit(2.0 * x + 1.0))


def part_of_a_normal_law(rng: np.random.Generator) -> Story:
    low, width = rng.uniform(-1.5, 0.5), rng.uniform(0.3, 2.0)

    def build() -> pm.Model:
        with pm.Model() as model:
            x = pm.Normal("x", 0.0, 1.0, transform=Interval(low, low + width))
            pm.Normal("side", x**2, 0.5, observed=0.4)
            released(pm.math.sigmoid(3.0 * x))
        return model

    x = low + width * (np.arange(20_000) + 0.5) / 20_000
    return Story(build, st.norm.logpdf(x) + st.norm(x**2, 0.5).logpdf(0.4), expit(3.0 * x))


KINDS = (
    modes_of_a_sign, direction_of_a_survey, ordered_pair, small_beta, small_gamma, small_dirichlet, threshold,
    many_cells, ring, two_branches, part_of_a_normal_law,
)  # fmt: skip


def off(story: Story, seed: int, draws: int = 4) -> tuple[list[float], int]:
    """Errors of the prior and of every posterior that is ok, in standard errors; and how many are not.

    A refusal counts as none that is ok.
    """
    rng = np.random.default_rng([3, seed])

    def simulate(_: Any, size: int) -> dict[str, Any]:
        place = rng.choice(story.chance.size, size, p=np.exp(story.log_weight - logsumexp(story.log_weight)))
        person = rng.binomial(OTHERS + 1, story.chance[place])
        found = {"noisy": person + COUNT.sample(np.zeros(size, dtype=np.int64), rng)}
        if story.value is not None:
            at = np.where(
                np.arange(size) % 2, story.value[place], story.value.max() * 5 / 6
            )  # half from the rare place
            cells = model["cells"].type.shape[0]
            found["cells"] = at[:, None] + rng.normal(size=(size, cells))
        return found

    model = story.build()
    names = ["noisy", "cells"] if story.value is not None else ["noisy"]
    options: dict[str, Any] = {"simulate": simulate, "released": names, "draws": draws, "progress": False}
    try:
        tree = adv.audit_model(model, {"in": 1}, rng=seed, **options)
    except ValueError:
        return [], draws
    estimate, risk = tree["estimate"], tree["risk"]
    release = {name: tree["release"][name].values for name in names}
    ok = np.flatnonzero(estimate["status"].values == "ok")
    errors = []
    for i in ok:
        exact = story.posterior(int(release["noisy"][i]), release["cells"][i] if "cells" in release else None)
        found, error = (float(estimate[name][i]) for name in ("posterior", "mcse"))
        errors.append((found - exact) / np.hypot(error, 1e-8))
    if ok.size:
        spread = float(risk["mcse"].sel(measure="prior"))
        errors.append((float(risk["prior"]) - story.prior) / np.hypot(spread, 1e-8))
    return errors, estimate["status"].size - ok.size


def story_of(number: int) -> Story:
    return KINDS[number % len(KINDS)](np.random.default_rng([7, number]))


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 3, 7, 10], ids=lambda number: KINDS[number].__name__)
def test_a_model_made_at_random_is_right_or_said_not_to_be(number: int) -> None:
    errors, _ = off(story_of(number), 1)
    assert np.abs(errors).max(initial=0.0) < 5


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("number", range(MODELS), ids=lambda number: f"{number} {KINDS[number % len(KINDS)].__name__}")
def test_thirty_models_made_at_random_are_right_or_said_not_to_be(number: int) -> None:
    story = story_of(number)
    for seed in range(SEEDS):
        errors, _ = off(story, seed)
        assert np.abs(errors).max(initial=0.0) < 5, (seed, errors)
