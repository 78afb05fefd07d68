"""A guarantee judged by a profile: kept, broken, or about other readers; for certain or but for a probability."""

from __future__ import annotations

import numpy as np
import pytest

import adversary as adv
from adversary.budget.recommend import recommend_epsilon
from adversary.budget.risk_profile import RiskProfile
from adversary.budget.verdict_on_guarantee import verdict

TWENTY = RiskProfile.difference(0.2)
ALLOWED = float(np.log(1.5))


def test_pure_dp_is_kept_up_to_the_recommendation_and_no_further() -> None:
    at = recommend_epsilon(TWENTY).loss
    for epsilon, status in ((0.4, "kept"), (at, "kept"), (at * (1 + 1e-10), "kept"), (at * (1 + 1e-8), "broken")):
        judged = verdict(TWENTY, adv.PureDP(epsilon))
        assert (judged.status, judged.failure, judged.loss) == (status, 0.0, epsilon)
    assert judged.allowed == pytest.approx(ALLOWED)


def test_what_is_kept_for_certain_is_said_to_be() -> None:
    """Ten releases: for certain while the sum is within the profile, then but for a probability."""
    sure, likely = (verdict(TWENTY, 10 * adv.PureDP(each)) for each in (0.04, 0.045))
    assert (sure.status, sure.failure) == ("kept", 0.0)
    assert (likely.status, likely.failure) == ("kept", 0.05)
    assert "for certain" in sure.words
    assert "but for probability 5" in likely.words


def test_zcdp_is_kept_with_a_failure_and_broken_without() -> None:
    assert verdict(TWENTY, adv.ZeroConcentratedDP(0.01)).satisfied
    none = verdict(TWENTY, adv.ZeroConcentratedDP(0.01), 0.0)
    assert (none.status, none.loss) == ("broken", np.inf)
    assert "bounds no privacy loss for certain" in none.words
    assert "bounds no privacy loss but for probability 5" in verdict(TWENTY, adv.NoPrivacy()).words


def test_one_count_is_allowed_twice_as_much_by_a_difference() -> None:
    assert verdict(TWENTY, adv.PureDP(0.8), statistic="count").satisfied
    assert not verdict(TWENTY, adv.PureDP(0.8)).satisfied


def test_a_better_known_pair_is_used() -> None:
    """Two of a noise's cells move together less than any two records might."""
    noise = adv.Gaussian.from_rho(0.7)
    alone = verdict(RiskProfile.constant(40.0), noise.privacy_loss(), two=noise.privacy_loss(cells=2))
    chained = verdict(RiskProfile.constant(40.0), noise.privacy_loss())
    assert alone.loss < chained.loss


def test_replaced_records_are_judged_on_readers_sure_of_inclusion() -> None:
    """Between any two records a loss of 2 log 1.5 is allowed, whatever is published."""
    for statistic in ("any", "count"):
        judged = verdict(TWENTY, adv.PureDP(0.8), statistic=statistic, neighbours="bounded")
        assert (judged.status, judged.neighbours) == ("kept", "bounded")
        assert judged.allowed == pytest.approx(2 * ALLOWED)
        said = "who are sure that the person is in the data. It does not cover other adversaries."
        assert judged.words.endswith(said)
        assert not verdict(TWENTY, adv.PureDP(0.82), statistic=statistic, neighbours="bounded").satisfied


def test_replaced_records_say_nothing_of_inclusion() -> None:
    inclusion = RiskProfile.ratio_or_absolute(3.0, 0.1, value=1.0)
    judged = verdict(inclusion, adv.PureDP(0.8), neighbours="bounded")
    assert judged.status == "not covered"
    assert "unsure whether the person is in the data" in judged.words
    assert verdict(inclusion, adv.PureDP(0.8)).satisfied


def test_a_profile_that_asks_nothing_is_kept_by_everything() -> None:
    nothing = RiskProfile.point(4.0, 0.5, 0.5)
    for neighbours in ("unbounded", "bounded"):
        judged = verdict(nothing, adv.NoPrivacy(), neighbours=neighbours)
        assert (judged.status, judged.allowed) == ("kept", np.inf)
        assert "every guarantee keeps it" in judged.words


def test_a_profile_that_no_release_keeps_is_broken() -> None:
    judged = verdict(RiskProfile.constant(1.0), adv.PureDP(0.1))
    assert (judged.status, judged.allowed) == ("broken", 0.0)
    assert judged.words.startswith("No release keeps the profile")
    assert verdict(RiskProfile.constant(1.0), adv.PureDP(0.0)).satisfied


def test_words_round_outward_and_never_contradict_the_status() -> None:
    close = verdict(TWENTY, adv.PureDP(0.40542)).words
    assert "0.40542 for certain" in close
    assert "allows 0.40546." in close
    assert "allows just that" in verdict(TWENTY, adv.PureDP(recommend_epsilon(TWENTY).loss)).words
    assert verdict(TWENTY, adv.PureDP(0.5)).words == (
        "Broken: the guarantee (pure DP) bounds the privacy loss by 0.500 for certain, and the profile "
        "(no rise of more than 20 percentage points) allows 0.405."
    )
    assert "the release itself" in verdict(TWENTY, adv.Geometric(0.3).privacy_loss()).words
