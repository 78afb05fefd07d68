"""A mechanism that the package does not know, with an end: the abstract class is all that audits and models ask of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary import models
from adversary.adversaries.path import settle_truth
from adversary.adversaries.postprocessing import clamped
from adversary.adversaries.risk import bayes_factor_law
from adversary.privacy.mechanisms import IntegerNoise


@dataclass(frozen=True)
class Uniform(IntegerNoise):
    """A whole number from -k to k, each as likely."""

    k: int

    def describe(self) -> str:
        return f"uniform from -{self.k} to {self.k}"

    variance = property(lambda self: self.k * (self.k + 1) / 3.0)
    rho = property(lambda self: math.inf)

    def log_noise(self, offset: Any) -> Any:
        return np.where(np.abs(offset) <= self.k, -math.log(2 * self.k + 1), -np.inf)

    def log_survival(self, offset: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(np.clip((self.k + 1.0 - offset) / (2 * self.k + 1), 0.0, 1.0))

    def tail_radius(self, nats: float = 41.5) -> int:
        return self.k

    def total(self, count: int) -> adv.Mechanism:
        if count > 1:
            raise ValueError("no law of a sum")
        return self if count else adv.Exact()

    def scaled(self, factor: float) -> Uniform:
        return Uniform(max(1, round(self.k / math.sqrt(factor))))


PLANS = {
    "one level": (adv.Plan([adv.Level("block", Uniform(3))]), adv.Adversary(0.3, known=1), {"block": 2}),
    "one level, out": (adv.Plan([adv.Level("block", Uniform(3))]), adv.Adversary(0.3, known=1), {"block": 1}),
    "one level, clamped": (adv.Plan([adv.Level("block", clamped(Uniform(3)))]), adv.Adversary(0.3), {"block": 1}),
    "two levels": (
        adv.Plan([adv.Level("block", Uniform(2), siblings=1), adv.Level("tract", Uniform(4))]),
        adv.Adversary(0.4, beliefs={"tract": adv.Uniform(4)}),
        {"block": 1, "tract": 3},
    ),
    "two levels, clamped": (
        adv.Plan([adv.Level("block", clamped(Uniform(2)), siblings=1), adv.Level("tract", Uniform(4))]),
        adv.Adversary(0.4, beliefs={"tract": adv.Each([0.4, 0.3, 0.0, 0.0, 0.0, 0.3])}),
        {"block": 1, "tract": 1, "siblings": {"block": [0]}},
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_both_engines_audit_it_alike(name: str) -> None:
    plan, reader, truth = PLANS[name]
    exact, listed = (adv.audit(plan, reader, truth, engine=engine, rng=1) for engine in ("exact", "enumerate"))
    for number in ("posterior_mean", "ratio_mean", "prob_correct"):
        assert float(exact["risk"][number]) == pytest.approx(float(listed["risk"][number]), rel=1e-12)
    assert exact["bound"].to_dataset().sel(side="upper").posterior.values.max() == 1.0  # its loss has no limit


def test_its_average_bayes_factor_is_that_of_the_releases_there_can_be() -> None:
    plan, reader, truth = PLANS["one level, out"]
    law = bayes_factor_law(plan, reader, settle_truth(plan, reader, truth))
    assert law.analytic.log_exponential_mean == pytest.approx(math.log(6 / 7), rel=1e-12)


def test_membership_is_a_model_with_its_own_density() -> None:
    plan, reader, _ = PLANS["one level"]
    model = models.membership(plan, reader)
    release = plan.observe({"block": 5})
    found = adv.enumerate_posterior(model, adv.observed(release))
    assert float(found["probability"].sel({"in": 1})) == float(reader.posterior(plan, release).posterior) == 1.0


def test_a_clamped_release_beyond_its_end_is_impossible() -> None:
    noise = clamped(Uniform(3))
    assert noise.log_prob(0, 4) == noise.log_prob(9, 5) == -np.inf
    assert np.exp(noise.log_prob(0, np.arange(4))) == pytest.approx(np.array([4, 3, 2, 1]) / 7, rel=1e-14)
    assert noise.describe() == "uniform from -3 to 3; then numbers below 0 are published as 0"
