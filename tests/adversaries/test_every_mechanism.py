"""Every mechanism of the catalogue on a path: posteriors and averages against sums over all counts and releases."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.privacy.mechanisms import IntegerNoise, LocalReport
from tests.catalogue import MECHANISMS
from tests.tables import over

PMF = [0.2, 0.5, 0.0, 0.3]
FARTHEST = 400_000
"""Counts that are added up at most."""


def _log_weights(belief: Any, count: np.ndarray[Any, Any]) -> Any:
    """log P(so many others), up to a constant: flat, or by the list above."""
    if isinstance(belief, adv.Uniform):
        return np.zeros(count.size)
    with np.errstate(divide="ignore"):
        return np.log(np.where(count < len(PMF), np.take(PMF, np.minimum(count, len(PMF) - 1).astype(int)), 0.0))


def _log_odds(noise: adv.Mechanism, belief: Any, own: float, sibling: float, tract: float, end: int) -> float:
    """Of 1 against 0 people in the block, whose others are known to be 0; one sibling, and the tract of both."""
    count = np.arange(end, dtype=np.float64)
    weight = _log_weights(belief, count) + noise.log_likelihood(sibling, count)
    sums = [
        float(noise.log_likelihood(own, x))
        + float(np.logaddexp.reduce(weight + noise.log_likelihood(tract, x + count)))
        for x in (0.0, 1.0)
    ]
    return sums[1] - sums[0] if np.isfinite(sums).any() else math.nan


def _releases(noise: adv.Mechanism) -> list[tuple[float, float, float]]:
    """Numbers that the noise may release of (block, sibling, tract), a few of them far from one another."""
    rng = np.random.default_rng(3)
    truths = (0, 1, 1) if isinstance(noise, LocalReport) else (1, 2, 3)
    drawn = [tuple(float(noise.sample(x, rng)) for x in truths) for _ in range(4)]
    if not noise.is_additive or noise.is_exact:
        return drawn
    far = round(3.0 * math.sqrt(noise.variance)) + 5.0
    return [*drawn, (0.0, 1.0, far), (far, 0.0, 1.0), (1.0, far, 2.0), (-far, -far, -far)]


@pytest.mark.parametrize("belief", [adv.Others(PMF), adv.Each(PMF), adv.Uniform()], ids=["others", "each", "flat"])
@over(MECHANISMS, "noise")
def test_the_posterior_is_that_of_all_counts(noise: Any, belief: Any) -> None:
    plan = adv.Plan([adv.Level("block", noise, siblings=1), adv.Level("tract", noise)])
    reader, seen = adv.Adversary(0.5, beliefs={"tract": belief}), 0
    reach = noise.tail_radius(60.0)
    if isinstance(belief, adv.Uniform) and not math.isfinite(reach):
        belief = adv.Uniform(40)
        reader = adv.Adversary(0.5, beliefs={"tract": belief})
    for own, sibling, tract in _releases(noise):
        end = len(PMF) if not isinstance(belief, adv.Uniform) else int(min(reach + 10.0 + 2 * max(sibling, tract), 1e9))
        if end > FARTHEST:
            continue
        release = plan.observe({"block": own, "tract": tract}, siblings={"block": [sibling]})
        if isinstance(belief, adv.Uniform) and belief.upper is not None:
            wanted = _log_odds_up_to(noise, belief.upper, own, sibling, tract)
        else:
            wanted = _log_odds(noise, belief, own, sibling, tract, max(end, len(PMF)))
        if math.isnan(wanted):
            with pytest.raises(ValueError, match="impossible"):
                reader.posterior(plan, release)
            continue
        found = float(reader.posterior(plan, release)["log_odds"])
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9), (own, sibling, tract)
        seen += 1
    assert seen or isinstance(belief, adv.Uniform) or noise.noise.is_exact


def _log_odds_up_to(noise: adv.Mechanism, upper: int, own: float, sibling: float, tract: float) -> float:
    """The same where every total from the count inside up to a largest one is equally likely."""
    sums = []
    for x in (0, 1):
        count = np.arange(upper - x + 1.0)
        above = noise.log_likelihood(sibling, count) + noise.log_likelihood(tract, x + count)
        sums.append(
            float(noise.log_likelihood(own, float(x))) + float(np.logaddexp.reduce(above)) - math.log(count.size)
        )
    return sums[1] - sums[0] if np.isfinite(sums).any() else math.nan


@over({name: noise for name, noise in MECHANISMS.items() if not noise.is_continuous and not noise.is_exact}, "noise")
@pytest.mark.parametrize("target", [0, 1])
def test_the_average_posterior_is_the_sum_over_all_releases(noise: Any, target: int) -> None:
    plan, reader = adv.Plan([adv.Level("block", noise)]), adv.Adversary(0.3)
    support = noise.support(target)
    p, q = (np.exp(noise.log_prob(support, x)) for x in (1, 0))
    some = p + q > 0.0
    posterior = np.where(some, 0.3 * p / np.where(some, 0.3 * p + 0.7 * q, 1.0), 0.0)
    tree = adv.audit(plan, reader, {"block": target})
    assert float(tree["risk"].posterior_mean) == pytest.approx(float(posterior @ (p if target else q)), rel=1e-10)


@dataclass(frozen=True, slots=True)
class Uniform(IntegerNoise):
    """Noise that ends: every whole number up to 3 away is equally likely, and no other."""

    def describe(self) -> str:
        return "uniform"

    variance = 4.0
    rho = math.inf

    def log_noise(self, offset: Any) -> Any:
        return np.where(np.abs(offset) <= 3, -math.log(7.0), -np.inf)

    def log_survival(self, offset: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(np.clip(4.0 - offset, 0.0, 7.0) / 7.0)

    def tail_radius(self, nats: float = 40.0) -> int:
        return 4 if nats > 0 else 0

    def total(self, count: int) -> adv.Mechanism:
        return self if count else adv.Exact()

    def scaled(self, factor: float) -> adv.Mechanism:
        raise ValueError(f"no uniform noise has {factor} times the rho")


@pytest.mark.slow_cases("1")
@pytest.mark.parametrize("siblings", [None, 1])
def test_noise_that_ends_rules_counts_out(siblings: int | None) -> None:
    """Alone, 1 of 7 releases proves where the target is and the others say nothing."""
    above = [] if siblings is None else [adv.Level("tract", adv.Laplace(1e9))]
    plan = adv.Plan([adv.Level("block", Uniform(), siblings), *above])
    reader = adv.Adversary(0.3, 2, {level.name: adv.Known(0) for level in above})
    truth = {"block": 3, "in": 1} | {level.name: 3 for level in above}
    tree = adv.audit(plan, reader, truth, rng=1)
    assert float(tree["risk"].posterior_mean) == pytest.approx((1.0 + 6.0 * 0.3) / 7.0, abs=1e-6)
    assert tree["risk"]["status"] == "ok"
