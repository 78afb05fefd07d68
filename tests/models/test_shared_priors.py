"""Several priors over one compiled model: the numbers of each alone, and only where all else is the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pymc as pm
import pytest
from pymc.model.transform.conditioning import remove_value_transforms

import adversary as adv
from adversary.models import noise
from adversary.models.importance import Likeness, PooledDraws, SharedModel, WeighedPrior

NOISY = {"noisy": np.array([-1, 4, 9])}


def region(
    law: Callable[[str], Any] | None = None,
    mechanism: Any = None,
    others: int = 6,
    survey: int | None = None,
    target: float | None = None,
) -> pm.Model:
    with pm.Model() as model:
        level = (law or (lambda name: pm.Normal(name, 0.0, 1.0)))("level")
        rate = pm.math.sigmoid(level)
        people = pm.Binomial("others", others, rate)
        present = pm.Bernoulli("in", rate if target is None else np.float64(target))
        if survey is not None:
            pm.Binomial("survey", 20, rate, observed=survey)
        noise.released("noisy", mechanism or adv.DiscreteGaussian(1.5), people + present)
    return model


def likeness(model: pm.Model, target: str = "in") -> Likeness | None:
    return Likeness.of(remove_value_transforms(model), target)


def test_models_with_the_same_laws_are_alike_and_others_are_not() -> None:
    base, again = likeness(region()), likeness(region())
    wide = likeness(region(lambda name: pm.Normal(name, 0.0, 2.0)))
    assert base is not None
    assert wide is not None
    assert base == again
    assert (wide.rest, wide.drawn) == (base.rest, base.drawn)
    assert wide.prior != base.prior
    different = {
        "noise": region(mechanism=adv.DiscreteGaussian(2.0)),
        "kind of noise": region(mechanism=adv.Geometric(1.0)),
        "others": region(others=7),
        "side data": region(survey=3),
        "target": region(target=0.3),
    }
    for name, model in different.items():
        other = likeness(model)
        assert other is not None
        assert other.rest != base.rest, name
        assert other.prior == base.prior, name
    assert likeness(region(survey=3)) != likeness(region(survey=4))


def test_a_law_that_cannot_be_compared_is_like_itself_only() -> None:
    def own(name: str) -> Any:
        return pm.CustomDist(name, logp=lambda value: -0.5 * value**2, random=lambda rng, size: rng.normal(size=size))

    model = region(own)
    assert likeness(model) != likeness(region(own))
    alone = region(lambda name: pm.Normal(name, np.float64(3.0) * pm.Bernoulli("kind", np.float64(0.5))))
    assert likeness(alone) is None  # its law reads a discrete latent
    assert Likeness.of(region(lambda name: pm.Beta(name, 1.0, 1.0)), "in") is None  # not on its own scale


@pytest.mark.slow
def test_of_every_prior_the_shared_numbers_are_those_of_the_model_alone() -> None:
    """Over the same draws, with side data: prior, posterior, its error and the shape of the weights."""
    laws = {
        "normal": lambda name: pm.Normal(name, 0.0, 1.5),
        "skewed": lambda name: pm.Gumbel(name, 0.5, 1.0),
        "shifted": lambda name: pm.Normal(name, 1.0, 0.5),
    }
    models: dict[Hashable, pm.Model] = {
        name: remove_value_transforms(region(law, survey=12)) for name, law in laws.items()
    }
    pool = PooledDraws.of(models, ["level"], 1000, 1)
    assert pool.everywhere == "normal"
    seed = np.random.SeedSequence(2)
    shared = SharedModel.of(models["normal"], "normal", pool, ["noisy"], "in", {}, (), seed)
    assert shared is not None
    for name, model in models.items():
        found = shared.prior(name)
        alone = WeighedPrior.of(model, ["noisy"], rng=1, draws=1000)
        own, others = alone.terms.base(pool.values), found.log_density
        np.testing.assert_allclose(found.log_prior, own, atol=1e-9)
        joint = zip(found.log_joint(NOISY), alone.terms.hypotheses(pool.values, NOISY), strict=True)
        for one, expected in joint:
            np.testing.assert_allclose(one, expected, atol=1e-8)
        assert abs(found.before()[0] - alone.before()[0]) < 5 * np.hypot(found.before()[1], alone.before()[1])
        there = np.exp(own - others)
        assert there.max() < 3.1  # a mixture of three: no weight is larger
        assert there.mean() == pytest.approx(1.0, abs=0.1)


def test_a_prior_that_no_other_reaches_over_has_no_shared_model() -> None:
    def between(low: float, high: float) -> pm.Model:
        return remove_value_transforms(region(lambda name: pm.Uniform(name, low, high)))

    apart: dict[Hashable, pm.Model] = {"low": between(0.0, 1.0), "high": between(2.0, 3.0)}
    assert PooledDraws.of(apart, ["level"], 100, 1).everywhere is None
    assert PooledDraws.of(apart | {"both": between(0.0, 3.0)}, ["level"], 100, 1).everywhere == "both"
