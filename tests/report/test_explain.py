"""Every number in a text is read back and held against the function it comes from; lay texts have no symbols."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import adversary as adv
from adversary.budget.recommend import recommend_epsilon
from adversary.budget.release_budget import allocate
from adversary.budget.risk_bounds import absolute_risk_bound
from adversary.budget.risk_profile import RiskProfile
from adversary.budget.verdict_on_guarantee import verdict
from adversary.privacy.definitions.concentrated_bounds import published_loss_bound
from adversary.privacy.guarantee import Guarantee
from adversary.report.words.belief_limits import limits_after, releases_within, usual_failure
from adversary.report.words.budget_facts import worth
from adversary.report.words.explanation import AUDIENCES, explain

NUMBER = r"(\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)"
SLACK = 2e-15
"""Rounding of doubles: a bound within it of a round number is that number."""

LAY_NEVER = re.compile(
    r"[=<>≤≥±^%|{}\[\]*_~+]|[α-ωΑ-Ω]|"
    r"\b(epsilon|delta|delta0|rho|mu|sigma|nats|log|logit|exp|tanh|DP|zCDP|differential|privacy loss|prior|priors|"
    r"posterior|probability|hypothesis|hypotheses|likelihood|parameter|mechanism|interval|variance|inf|nan|None|"
    r"unlimited|infinite)\b"
)
NEVER = re.compile(r"\b(nan|inf|None|unlimited|infinite|alarming|unfortunately|merely|safe|don't worry)\b")

guarantees = st.one_of(
    st.floats(1e-6, 12.0).map(adv.PureDP),
    st.tuples(st.floats(1e-4, 8.0), st.floats(1e-12, 9e-4)).map(lambda pair: adv.ApproximateDP(*pair)),
    st.tuples(st.floats(1e-4, 8.0), st.floats(1e-12, 9e-4)).map(lambda pair: adv.ProbabilisticDP(*pair)),
    st.floats(1e-6, 2.0).map(adv.ZeroConcentratedDP),
    st.floats(1e-3, 3.0).map(adv.GaussianDP),
)
failures = st.floats(1e-3, 0.3)
starts = st.floats(1e-6, 1.0 - 1e-6)


def explanations(subject: Any, **options: Any) -> dict[str, str]:
    """The text for every audience, by its name."""
    return {audience: explain(subject, audience, **options) for audience in AUDIENCES}


def read(text: str) -> float:
    return float(text.replace(",", ""))


def found(pattern: str, text: str) -> list[tuple[float, ...]]:
    """The numbers of every match of a pattern in which # stands for a number."""
    rows = re.findall(re.escape(pattern).replace(r"\#", NUMBER).replace(r"\ ", " "), text)
    return [tuple(read(x) for x in (row if isinstance(row, tuple) else (row,))) for row in rows]


def one(pattern: str, text: str) -> tuple[float, ...]:
    rows = found(pattern, text)
    assert len(rows) == 1, (pattern, text)
    return rows[0]


def is_upper(said: float, exact: float, share: float = 0.11, least: float = 1e-9) -> None:
    """A number said of an upper end is not below it, and not far above."""
    assert said >= exact * (1.0 - SLACK)
    assert said <= exact * (1.0 + share) + least


def is_interval(said: tuple[float, float], start: float, ends: tuple[float, float], share: float = 0.12) -> None:
    """An interval that is said holds the exact one, and does not exaggerate the moves from the start."""
    low, high = (100.0 * float(end) for end in ends)
    assert said[0] <= low * (1.0 + SLACK)
    assert said[1] >= high * (1.0 - SLACK)
    assert 100.0 * start - said[0] <= (100.0 * start - low) * (1.0 + share) + 1e-9
    assert said[1] - 100.0 * start <= (high - 100.0 * start) * (1.0 + share) + 1e-9


def chance_of(guarantee: Guarantee, failure: float) -> float:
    return 0.0 if np.isfinite(guarantee.loss_bound(0.0)) else failure


# Guarantees


@settings(max_examples=50, deadline=None)
@given(guarantees, failures, starts)
@example(adv.PureDP(1.0), 0.25, 0.999999)
def test_a_respondent_reads_the_bounds_of_the_guarantee(guarantee: Guarantee, failure: float, start: float) -> None:
    assume(guarantee.difference_bounds(None, failure)[1] < 0.9999)
    text = explain(guarantee, failure=failure, priors=[start])
    chance = chance_of(guarantee, failure)
    is_upper(
        one("moves that belief by at most # percentage points", text)[0],
        100.0 * guarantee.difference_bounds(None, chance)[1],
    )
    first, *ends = (
        one("starts at # in 100 ends no lower than # and no higher than # in 100", text) if start > 1e-8 else (0, 0, 0)
    )
    assert first == pytest.approx(100.0 * start, rel=1e-2)
    # next to 0 and 100 the last digit of a text, rounded outward, is as large as a small move
    share = 0.35 if 0.01 <= start <= 0.99 else 10.0
    is_interval((ends[0], ends[1]), start, guarantee.posterior_bounds(start, chance), share)
    if chance:
        held, times = one("at least # times in #.", text)
        assert held / times <= 1.0 - failure + 1e-12
        assert held / times >= 1.0 - 1.02 * failure - 1e-12
    else:
        assert "cannot happen" in text
    assert not LAY_NEVER.search(text)


@settings(max_examples=50, deadline=None)
@given(guarantees, failures, st.lists(st.floats(1e-4, 0.99), min_size=1, max_size=3, unique=True))
@example(adv.PureDP(0.125), 0.25, [0.9887905506851138, 0.984375])
@example(adv.PureDP(0.01171875), 0.25, [0.96875])
def test_a_regulator_reads_bounds_at_every_prior_and_at_the_worst(
    guarantee: Guarantee, failure: float, priors: list[float]
) -> None:
    text, chance = explain(guarantee, "regulator", failure=failure, priors=priors), chance_of(guarantee, failure)
    rows = found("rom #% a belief ends between #% and #%", text)
    assert len(rows) == len(priors)
    for prior, (start, low, high) in zip(priors, rows, strict=True):
        assert start == pytest.approx(100.0 * prior, rel=1e-2)
        ends = guarantee.posterior_bounds(prior, chance)
        # the interval is also that of the start as it is written: next to 100 its last digit may be as large as a move
        move = min(abs(float(end) - prior) for end in ends)
        rounding = abs(start / 100.0 - prior) / move if move else 0.0
        is_interval((low, high), prior, ends, 0.12 + 1.5 * rounding)
    loss = guarantee.loss_bound(chance)
    same = adv.PureDP(loss)
    for start, high in found("a rise is about #%, from where a belief may rise to #%", text):
        is_interval((0.0, high), start / 100.0, (0.0, same.posterior_bounds(start / 100.0)[1]), 1e9)
        assert start == pytest.approx(100.0 / (1.0 + np.exp(loss / 2.0)), rel=6e-3)
        is_upper(high, 100.0 * same.posterior_bounds(start / 100.0)[1], 0.02)
    for start, low in found("a fall is about #%, from where it may fall to #%", text):
        assert low <= 100.0 * same.posterior_bounds(start / 100.0)[0] * (1.0 + SLACK)
    for (most,) in found("From any start the change is at most # percentage points", text):
        is_upper(most, 100.0 * same.difference_bounds()[1], 0.02)
    for ratio, start in found("at most # from #%", text):
        is_upper(ratio, guarantee.ratio_bounds(start / 100.0, chance)[1], 0.011)
    for (ratio,) in found("at most # from any start", text):
        is_upper(ratio, guarantee.ratio_bounds(None, chance)[1], 0.011)
    if chance:
        is_upper(one("upper bounds that hold but for at most #% of releases", text)[0], 100.0 * failure, 0.01)


@settings(max_examples=50, deadline=None)
@given(guarantees, failures)
def test_a_curator_reads_loss_intervals_and_worst_priors(guarantee: Guarantee, failure: float) -> None:
    text, chance = explain(guarantee, "technical", failure=failure), chance_of(guarantee, failure)
    loss = guarantee.loss_bound(chance)
    is_upper(one("|log(P / Q)| <= e = # nats", text)[0], loss, 1e-2)
    rows = found("p = #: X in # to #%, ratio at most #", text)
    assert [row[0] for row in rows] == [0.01, 0.1, 0.5]
    for prior, low, high, ratio in rows:
        is_interval((low, high), prior, guarantee.posterior_bounds(prior, chance), 1e9)
        is_upper(high, 100.0 * guarantee.posterior_bounds(prior, chance)[1], 1e-2)
        is_upper(ratio, guarantee.ratio_bounds(prior, chance)[1], 1e-2)
    rise, prior, fall, ratio = one(
        "the rise X - p is largest, at most #, at p = 1 / (1 + exp(e / 2)) = #; the fall p - X, as much, at "
        "1 / (1 + exp(-e / 2)) = #; the ratio as p tends to 0, at most #",
        text,
    )
    is_upper(rise, guarantee.difference_bounds(None, chance)[1], 1e-2)
    assert prior == pytest.approx(adv.definitions.worst_prior(loss)[0], rel=1e-2)
    assert fall == pytest.approx(adv.definitions.worst_prior(loss, "fall")[0], rel=1e-2)
    is_upper(ratio, np.exp(loss), 1e-2)
    for part in ("p / (p + (1 - p) exp(e)) <= X <= p / (p + (1 - p) exp(-e))", "tanh(e / 4)", "truth"):
        assert part in text
    informed = isinstance(guarantee, adv.ProbabilisticDP)  # it does not survive averaging over what one is unsure of
    assert ("Covered is the adversary who holds" if informed else "The worst case is an adversary who holds") in text
    if chance:
        assert one("probability of at most # under each truth", text)[0] == failure


def test_no_formula_for_a_regulator() -> None:
    for guarantee in (adv.PureDP(1.0), adv.ZeroConcentratedDP(0.1), adv.RenyiDP(3.0, 0.2), adv.NoPrivacy()):
        for text in (
            explain(guarantee, "regulator", releases=12),
            explain(guarantee, "regulator", topic="pure or approximate"),
        ):
            assert not re.search(r"[=<>^|*]|\bexp\b|\blog|tanh", text)


def test_the_worst_prior_and_a_base_rate_are_among_a_regulators_numbers() -> None:
    """F4: "19% to 81%" was printed for 30 days of the example; 67% of change forces 16.4% to 83.6%."""
    loss = published_loss_bound(0.3, 0.01)
    assert loss == pytest.approx(3.260531, abs=1e-5)
    text = explain(adv.PureDP(loss), "regulator", priors=[0.1, 0.5])
    assert one("a rise is about #%, from where a belief may rise to #%", text) == (16.4, 83.7)
    assert one("From any start the change is at most # percentage points", text) == (67.3,)
    assert "base rate" in text
    assert one("rom 10% a belief ends between #% and #%", text)[1] == pytest.approx(74.4, abs=0.1)


def test_audiences_have_two_names() -> None:
    g = adv.PureDP(1.0)
    assert explain(g, "respondent") == explain(g, "lay") == explain(g)
    assert explain(g, "curator") == explain(g, "technical")


# Edges


def test_a_small_delta_is_told_at_a_failure_that_suits_it() -> None:
    guarantee = adv.ApproximateDP(1.0, 1e-7)
    failure = usual_failure(guarantee)
    assert failure == 1e-4
    assert guarantee.loss_bound(failure) <= 1.01 * guarantee.loss_bound(0.05) < guarantee.loss_bound(failure / 10.0)
    assert "at least 9,999 times in 10,000" in explain(guarantee)
    assert explain(guarantee) == explain(guarantee, failure=failure)
    assert "at least 95 times in 100" in explain(guarantee, failure=0.05)
    assert "at least 95 times in 100" in explain(adv.ZeroConcentratedDP(0.1))
    assert usual_failure(guarantee, 12) == 0.05


# Pure or approximate


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(guarantees, failures)
def test_whether_a_larger_change_can_happen(guarantee: Guarantee, failure: float) -> None:
    chance = chance_of(guarantee, failure)
    told = explanations(guarantee, topic="pure or approximate", failure=failure)
    most = 100.0 * guarantee.difference_bounds(None, chance)[1]
    if chance:
        rows = found("changes by more than # percentage points at most", told["lay"])
        is_upper(rows[0][0], most)
        assert "unlikely but possible" in told["lay"]
        assert "It is of the second sort" in told["regulator"]
        assert "nothing holds for certain" in told["technical"]
        for loss, at in found("e = # at failure #", told["technical"]):
            is_upper(loss, guarantee.loss_bound(at), 1e-2)
        for change, often in found("# points in at most #% of releases", told["regulator"]):
            assert change >= 100.0 * guarantee.difference_bounds(None, min(often / 100.0, 0.999))[1] * (1.0 - 1e-9)
    else:
        is_upper(one("cannot change by more than # percentage points", told["lay"])[0], most)
        is_upper(one("changes by more than # percentage points", told["regulator"])[0], most)
        assert "It is pure" in told["technical"]
    assert not LAY_NEVER.search(told["lay"])


# Composition


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.one_of(
        st.floats(1e-3, 1.0).map(adv.PureDP),
        st.tuples(st.floats(1e-3, 1.0), st.floats(1e-12, 1e-6)).map(lambda pair: adv.ApproximateDP(*pair)),
        st.floats(1e-5, 0.3).map(adv.ZeroConcentratedDP),
        st.floats(1e-2, 1.0).map(adv.GaussianDP),
    ),
    st.integers(2, 60),
    failures,
)
def test_several_releases_are_told_as_they_compose(guarantee: Guarantee, releases: int, failure: float) -> None:
    told = explanations(guarantee, topic="composition", releases=releases, failure=failure)
    total = releases * guarantee
    losses = [row[0] for row in found("together: e = # nats", told["technical"])]
    expected = []
    if isinstance(guarantee, adv.PureDP):
        expected.append(releases * guarantee.epsilon0)
        assert f"{releases} releases together, for certain" in told["regulator"]
    if not expected or total.loss_bound(failure) < 0.99 * expected[0]:
        expected.append(total.loss_bound(failure))
    assert len(losses) == len(expected)
    for said, exact in zip(losses, expected, strict=True):
        is_upper(said, exact, 1e-2)
    changes = [row[0] for row in found("a belief changes by at most # percentage points", told["regulator"])]
    for said, exact in zip(changes, expected, strict=True):
        is_upper(said, 100.0 * adv.PureDP(exact).difference_bounds()[1], 0.02)
    assert "upper bounds over all mechanisms" in told["regulator"]
    assert "all the ways of publishing" in told["lay"]
    assert not LAY_NEVER.search(told["lay"])


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.one_of(st.floats(1e-3, 1.0).map(adv.PureDP), st.floats(1e-4, 0.3).map(adv.ZeroConcentratedDP)), failures)
def test_the_number_of_releases_is_the_last_below_the_threshold(guarantee: Guarantee, failure: float) -> None:
    kept, final = releases_within(guarantee, 0.5, 0.8, failure)

    def bound(n: int) -> float:
        return float(limits_after(guarantee, n, failure)[-1].posterior(0.5)[1])

    assert kept == 0 or bound(kept) <= 0.8
    assert not final or bound(kept + 1) > 0.8
    text = explain(guarantee, topic="composition", releases=2, failure=failure)
    if kept > 1:
        assert f"With up to {kept:,} publications" in text
        assert ("from" in text.split("With up to")[1]) == final or not final


def test_many_small_releases_are_counted_to_an_end() -> None:
    assert releases_within(adv.ZeroConcentratedDP(1e-12), 0.5, 0.8, 0.05) == (1_000_000, False)
    assert releases_within(adv.PureDP(5.0), 0.5, 0.8, 0.05) == (0, True)
    assert releases_within(adv.NoPrivacy(), 0.5, 0.8, 0.05) == (0, True)
    text = explain(adv.ZeroConcentratedDP(1e-12), topic="composition", releases=2)
    assert "With up to 1,000,000 publications" in text
    assert "above that" not in text


# Budgets

PROFILES = {
    "two-dimensional": RiskProfile.ratio_or_absolute(3.0, 0.25),
    "values at a fraction": RiskProfile.ratio_or_absolute(3.0, 0.15, inclusion=0.05),
    "inclusion": RiskProfile.ratio_or_absolute(2.0, 0.25, value=1.0),
    "difference": RiskProfile.difference(0.2),
    "constant": RiskProfile.constant(3.0),
    "point": RiskProfile.point(1.5, 0.5, 1.0),
    "least": RiskProfile.difference(0.1).minimum(RiskProfile.ratio_or_absolute(3.0, 0.15, inclusion=0.05)),
}


def check_rises(told: dict[str, str], profile: RiskProfile, epsilon: float, statistic: str = "any") -> None:
    """Every reader's end is an upper bound at this epsilon, and what is said to be tolerated is not more than is."""
    starts = found("starts at # in 100 would end no higher than", told["lay"])
    readers = found("p = #, q = #: posterior at most", told["technical"])
    assert readers
    assert len(starts) == len(readers)
    for (start,), (p, q) in zip(starts, readers, strict=True):
        assert start == pytest.approx(100.0 * p * q, rel=1e-2)

    def most(p: float, q: float) -> float:
        """Priors are told to six digits."""
        return 100.0 * float(absolute_risk_bound(p, q, epsilon, statistic=statistic)) * (1.0 - 1e-6)

    for p, q, reached in found("p = #, q = #: posterior at most #%", told["technical"]):
        is_upper(reached, most(p, q), 1e-2)
    for start, reached in found("starts at # in 100 would end no higher than # in 100", told["lay"]):
        is_upper(reached, next(most(p, q) for p, q in readers if 100.0 * p * q == pytest.approx(start, rel=1e-2)))
    for p, q, reached, tolerated in found(
        "p = #, q = #: posterior at most #%, and up to #% is tolerated", told["technical"]
    ):
        assert reached <= tolerated <= 100.0 * min(1.0, p * q * float(profile(p, q))) * (1.0 + 1e-5)
    for p, q, tolerated in found("p = #, q = #: posterior at most #%, which is what is tolerated", told["technical"]):
        assert tolerated == pytest.approx(100.0 * p * q * float(profile(p, q)), rel=1e-5)
    for text in told.values():
        assert not re.search(r"\d\.\d{9,}", text)


@pytest.mark.parametrize("statistic", ["any", "count"])
@pytest.mark.parametrize("name", PROFILES)
def test_rises_are_those_of_the_recommended_epsilon(name: str, statistic: str) -> None:
    profile = PROFILES[name]
    recommended = recommend_epsilon(profile, statistic=statistic, round_down=2)
    told = explanations(recommended)
    check_rises(told, profile, recommended.epsilon, statistic)
    (epsilon,) = one("that keeps it is #, rounded down", told["regulator"])
    assert epsilon == recommended.epsilon
    assert not LAY_NEVER.search(told["lay"])
    for text in told.values():
        assert "people in general" in text
        assert "cannot be exceeded" not in text


def test_an_epsilon_that_rounds_to_nothing_can_still_be_kept() -> None:
    profile = RiskProfile.difference(0.001)
    rounded, plain = (recommend_epsilon(profile, round_down=digits) for digits in (2, None))
    assert (rounded.epsilon, rounded.status) == (0.0, "bounded")
    assert explain(rounded) == explain(plain)
    assert "cannot be kept" not in explain(rounded)
    (epsilon,) = one("that keeps it is #; rounded down to 2 decimals it would read 0", explain(rounded, "regulator"))
    assert epsilon == pytest.approx(plain.loss, rel=1e-2)
    assert explain(rounded, topic="guarantee") == explain(adv.PureDP(plain.loss))
    check_rises(explanations(rounded), profile, plain.loss)


def test_a_reader_beyond_what_an_uncertified_search_found_is_not_said_to_be_within() -> None:
    strict = RiskProfile.custom(lambda p, q: 1.0 + 0.3 / (p * q))
    loose = dataclasses.replace(recommend_epsilon(strict), loss=5.0)
    (start, reached, decided) = found(
        "starts at # in 100 would end no higher than # in 100, beyond the # in 100 that was decided", explain(loose)
    )[-1]
    assert reached > decided
    assert start == 50.0


# Whom a profile covers

RARE = RiskProfile.ratio_or_absolute(1.0, 0.05, inclusion=(1e-5, 1 / 2000), value=1.0)
"""No posterior above 5%, for those who begin at 1 in 2,000 or below."""
LARGEST = np.log(0.05 / 0.95 * 0.9995 / 0.0005)
"""Its epsilon: the odds of 5% over those of 1 in 2,000."""
OUTSIDE = 1.0 / (1.0 + 99.0 * np.exp(-LARGEST))
"""Where that lets an adversary come who begins at 1%, by Bayes' rule."""
WIDE = re.compile(r"what anyone|anyone's belief|nobody|any adversary|[Tt]he release keeps|[Ww]hatever anyone|Yours is")
"""Words for everybody, or for a release that there is none of."""


@pytest.mark.parametrize("audience", AUDIENCES)
@pytest.mark.parametrize(
    ("subject", "topic"),
    [
        (RARE, "budget"),
        (RARE, "tolerance"),
        (allocate(RARE, releases=3, composition="basic"), "budget"),
        (allocate(RARE, "zCDP", failure=0.01), "budget"),
        (verdict(RARE, adv.PureDP(float(LARGEST))), "budget"),
    ],
    ids=["recommended", "tolerated", "three releases", "zCDP", "verdict"],
)
def test_a_profile_names_whom_it_is_about_and_where_somebody_else_may_come(
    subject: Any, topic: str, audience: str
) -> None:
    """Somebody who begins at 1% may reach 51.52%, ten times what is tolerated of those it is about."""
    text = explain(subject, audience, topic=topic)
    (most,) = {"lay": found("as much as # in 100", text), "regulator": found("to as much as #%", text)}.get(
        audience, found("p = 0.01, q = 1, whose posterior may reach #%", text)
    )
    is_upper(most[0], 100.0 * OUTSIDE, 1e-2)
    if audience == "lay":
        assert "was decided for people who give 0.001 to 0.05 in 100 to your data being used" in text
        assert "someone who starts at 1 in 100, about whom nothing was decided, may come to as much as" in text
    elif audience == "regulator":
        assert "Covered are adversaries who give 0.001 to 0.05% to the person being in the data, and whose" in text
        assert "Not covered is an adversary who gives 1% to the person being in the data" in text
    assert not WIDE.search(text)


@pytest.mark.parametrize("topic", ["guarantee", "pure or approximate", "composition"])
def test_the_guarantee_of_a_profile_is_of_no_release_and_no_larger_than_what_keeps_it(topic: str) -> None:
    """Rounded to more than what keeps it, epsilon would be one that does not."""
    for subject, releases in ((RARE, 1), (allocate(RARE, releases=3, composition="basic"), 3)):
        for audience in ("regulator", "technical"):
            text = explain(subject, audience, topic=topic, releases=releases)
            (epsilon,) = found("satisfy pure differential privacy with epsilon #, the largest", text)[0]
            assert LARGEST / releases - 1e-6 <= epsilon <= LARGEST / releases
            assert epsilon == round(LARGEST / releases, 6) or releases > 1  # right to the digits shown, also upwards
            assert not WIDE.search(text)


@pytest.mark.parametrize("statistic", ["any", "count"])
def test_whom_a_profile_does_not_cover_is_bounded_at_its_own_epsilon(statistic: str) -> None:
    kinds = {
        "value": RiskProfile.ratio_or_absolute(2.0, 0.1, value=(0.0, 0.05)),
        "both": RiskProfile.difference(0.2).within((0.1, 0.4), (0.01, 0.2)),
        "above": RiskProfile.box(3.0, (0.6, 1.0), (0.1, 1.0)),
        "least": RiskProfile.point(2.0, 0.02, 0.5).minimum(RiskProfile.point(2.0, 0.2, 0.5)),
        "sure": RiskProfile.difference(0.2).within((1.0, 1.0)),
    }
    for profile in kinds.values():
        best = recommend_epsilon(profile, statistic=statistic)
        text = explain(best, "technical")
        rows = found("p = #, q = #, whose posterior may reach #%", text)
        assert rows
        for p, q, most in rows:
            assert np.isinf(float(profile(p, q)))
            is_upper(most, 100.0 * float(absolute_risk_bound(p, q, best.loss, statistic=statistic)), 1e-2)
    told = explain(kinds["both"], "lay")
    assert "give 10 to 40 in 100 to your data being used and 1 to 20 in 100 to a harmful answer if so" in told
    assert "exactly 2 in 100 to your data being used and exactly 50" in explain(kinds["least"])
    assert "who are sure of the person being in the data" in explain(kinds["sure"], "regulator")
    everyone = explain(PROFILES["two-dimensional"], "regulator")
    assert "Covered is every adversary whose beliefs" in everyone
    assert "Not covered" not in everyone


def test_priors_that_a_profile_is_not_about_are_answered_as_such() -> None:
    text = explain(RARE, priors=[0.0001, 0.2, 0.3])
    assert [row[0] for row in found("someone who starts at # in 100, about whom nothing", text)] == [20.0, 30.0]
    assert found("starts at # in 100 would end no higher than", text) == [(0.05,), (0.01,)]


def test_replaced_records_say_nothing_of_those_unsure_of_inclusion() -> None:
    """Of those sure of it "in S" and "in, not in S" are one step apart: at loss e the odds move by a factor e^e."""
    profile = RiskProfile.ratio_or_absolute(2.0, 0.1, value=(0.0, 0.05))
    judged = verdict(profile, adv.PureDP(1.2), neighbours="bounded")
    (row,) = found("p = #, q = #, whose posterior may reach #%", explain(judged, "technical"))
    assert row[:2] == (1.0, 0.1)
    is_upper(row[2], 100.0 / (1.0 + 9.0 * np.exp(-1.2)), 1e-2)


@pytest.mark.slow
def test_no_text_speaks_of_everybody_or_of_a_release_there_is_none_of() -> None:
    for name in TOLD:
        assert not WIDE.search(shown(name)), name


# Promises


@pytest.mark.parametrize(
    ("definition", "options"),
    [
        ("pure DP", {"composition": "basic"}),
        ("approximate DP", {"failure": 0.05, "delta": 1e-6}),
        ("zCDP", {"failure": 0.01}),
        ("geometric", {}),
    ],
)
@pytest.mark.parametrize("releases", [1, 4])
def test_a_promise_is_told_by_each_release_and_all_of_them(
    definition: str, options: dict[str, Any], releases: int
) -> None:
    profile = PROFILES["difference"]
    made = allocate(profile, definition, releases=releases, **options)
    told = explanations(made)
    assert made.guarantee is not None
    assert made.total is not None
    check_rises(told, profile, worth(made))
    assert made.words in told["technical"]
    chance = f"but for at most {100 * made.failure:g}% of releases" if made.failure else "for certain"
    (parameter,) = one(f"keeps it {chance} is #", told["regulator"])
    assert made.parameter * (1 - 1e-2) <= parameter <= made.parameter
    if releases > 1:
        each, every = one("used by at most # percentage points, all of them together by at most #", told["lay"])
        is_upper(each, 100.0 * made.guarantee.difference_bounds(None, made.failure)[1])
        is_upper(every, 100.0 * made.total.difference_bounds(None, made.failure)[1])
    if made.failure:
        assert "for any one person and adversary at a time" in told["lay"]
    assert not LAY_NEVER.search(told["lay"])
    failure = made.failure or None
    assert explain(made, topic="composition") == explain(
        made.guarantee, topic="composition", releases=releases, failure=failure
    )
    assert explain(made, topic="guarantee").startswith(explain(made.guarantee, failure=failure))
    with pytest.raises(ValueError, match="releases of a ReleaseBudget are its own"):
        explain(made, releases=releases + 1)


def test_promises_that_cannot_be_made_or_round_to_nothing() -> None:
    never = allocate(PROFILES["difference"], "zCDP")
    assert "cannot be kept by a protection of this kind" in explain(never)
    assert "No rho of zCDP above 0 keeps it for certain" in explain(never, "regulator")
    with pytest.raises(ValueError, match="there is no guarantee to explain"):
        explain(never, topic="guarantee")
    free = allocate(RiskProfile.box(3.0, (0.5, 1.0), (0.8, 1.0)), "pure DP", releases=3)
    assert "asks for no protection" in explain(free)
    rounded = allocate(RiskProfile.difference(0.001), "pure DP", releases=3, composition="basic", round_down=2)
    assert (rounded.parameter, rounded.status) == (0.0, "bounded")
    assert "would end no higher than" in explain(rounded)
    assert explain(rounded, topic="guarantee").startswith("Results are published")


def test_a_recommendation_is_explained_as_the_guarantee_it_recommends() -> None:
    recommended = recommend_epsilon(PROFILES["difference"], round_down=2)
    assert explain(recommended, topic="guarantee") == explain(adv.PureDP(0.4))
    assert explain(recommended, topic="composition", releases=3) == explain(
        adv.PureDP(0.4), topic="composition", releases=3
    )


# Audits


def tree_of(plan: Any, reader: Any, truth: Any, **options: Any) -> xr.DataTree:
    return adv.audit(plan, reader, truth, rng=1, progress=False, **options)


BLOCK = adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))


@cache
def audited(name: str) -> xr.DataTree:
    plan, one_reader = adv.Plan([BLOCK]), adv.Adversary(0.3, 0)
    promised = {"zCDP": adv.ZeroConcentratedDP(0.1), "pure": adv.PureDP(0.5)}
    readers = {f"R{i}": adv.Adversary(0.05 + 0.09 * i, 0) for i in range(10)}
    if name == "one":
        return tree_of(plan, one_reader, {"block": 1}, guarantee=promised["zCDP"])
    if name == "violated":
        return tree_of(plan, one_reader, {"block": 1}, guarantee=promised)
    if name == "nothing promised":
        return tree_of(plan, one_reader, {"block": 0})
    if name == "many":
        return tree_of(plan, readers, {"block": 1}, guarantee=promised["zCDP"])
    if name == "truths":
        return tree_of(
            {"A": plan, "B": adv.Plan([adv.Level("block", adv.Gaussian(3.0))])},
            one_reader,
            {"low": {"block": 0}, "high": {"block": 1}},
        )
    if name == "simulated":
        levels = [adv.Level("block", adv.Gaussian(2.0), siblings=3), adv.Level("tract", adv.Gaussian(2.0))]
        reader = adv.Adversary(0.3, 0, {"tract": adv.Others(np.full(11, 1.0 / 11.0))})
        return tree_of(adv.Plan(levels), reader, {"block": 1, "tract": 4}, draws=500)
    levels = [adv.Level("block", adv.DiscreteGaussian.from_rho(0.1), siblings=3), adv.Level("tract", adv.Exact())]
    reader = adv.Adversary(0.3, 0, {"tract": adv.Others(np.arange(1.0, 12.0) / 66.0)})
    return tree_of(adv.Plan(levels), reader, {"block": 1, "tract": 4})


def with_status(tree: xr.DataTree, status: str) -> xr.DataTree:
    """The same audit with another status of its promises; unreliable averages are not numbers."""
    risk, bound = tree["risk"].to_dataset(), tree["bound"].to_dataset()
    statuses = xr.full_like(bound["status"], status, dtype="<U10")
    bound = bound.assign(status=statuses)
    if status == "unreliable":
        averages = [name for name in risk if name != "prior"]
        risk = risk.assign({name: xr.full_like(risk[name], np.nan) for name in averages})
        risk = risk.assign(status="unreliable", unreliable_mass=0.25)
        bound = bound.assign(outside=xr.full_like(bound["outside"], np.nan))
    changed = xr.DataTree.from_dict({"risk": xr.DataTree(risk), "bound": xr.DataTree(bound)})
    changed.attrs.update(tree.attrs)
    return changed


def test_an_audit_is_told_in_its_own_numbers() -> None:
    tree = audited("one")
    risk, bound = tree["risk"], tree["bound"].to_dataset().sel(definition="zCDP")
    told = explanations(tree)
    start, mean = one("starts at # in 100 and ends on average at # in 100", told["lay"])
    assert (start, mean) == (30.0, pytest.approx(100.0 * float(risk["posterior_mean"]), rel=1e-2))
    (guess,) = one("best guess is right # times in 100", told["lay"])
    assert guess == pytest.approx(100.0 * float(risk["prob_correct"]), rel=1e-2)
    ends = one(
        "keeps someone with that start between # and # in 100, at least 95 times in 100. This holds here.", told["lay"]
    )
    is_interval((ends[0], ends[1]), 0.3, tuple(bound["posterior"].values))
    assert "(worked out exactly)" in told["lay"]
    _, mean, ratio, guess = one(
        "starts at #% and ends on average at #%, # times the start; the best guess is right in #%", told["regulator"]
    )
    assert ratio == pytest.approx(float(risk["ratio_mean"]), rel=1e-2)
    low, high, most = one(
        "the guarantee of zCDP allows #% to #%, a ratio of at most #, but for at most 5%", told["regulator"]
    )
    is_interval((low, high), 0.3, tuple(bound["posterior"].values), 0.02)
    is_upper(most, float(bound["ratio"].sel(side="upper")), 0.011)
    (outside,) = found("#% of releases lead beyond it. Status: holds", told["regulator"])[0]
    is_upper(outside, 100.0 * float(bound["outside"]), 1e-2)
    assert "exact averages" in told["regulator"]
    assert "Every bound holds for every adversary here." in told["regulator"]
    low, high = one("In 9 of 10 releases the posterior is between #% and #%", told["technical"])
    quantiles = 100.0 * risk["posterior_quantile"].values
    assert (low, high) == (pytest.approx(quantiles[0], rel=1e-2), pytest.approx(quantiles[-1], rel=1e-2))
    (loss,) = found("zCDP: |log(P / Q)| <= # at failure 0.05", told["technical"])[0]
    is_upper(loss, float(bound["loss_bound"]), 1e-2)


@pytest.mark.parametrize("name", ["one", "violated", "nothing promised", "many", "truths", "simulated", "exact level"])
@pytest.mark.parametrize("audience", AUDIENCES)
def test_every_kind_of_audit_reads_well(name: str, audience: str) -> None:
    text = explain(audited(name), audience)
    assert not NEVER.search(text)
    assert "{" not in text or audience == "technical"
    assert "  " not in text
    if audience == "lay":
        assert not LAY_NEVER.search(re.sub("“.*?”", "", text))
    for paragraph in text.split("\n\n"):
        assert paragraph[0].isupper() or paragraph[0] == "“", paragraph
        assert paragraph.endswith(".")


def test_the_truth_that_is_assumed_is_told_and_what_never_happens() -> None:
    assert "from counts taken to be true: “block” 1." in explain(audited("one"))
    assert "under truth “low”, “block” 0; under truth “high”, “block” 1." in explain(audited("truths"))
    tree = audited("one")
    for p, words in (
        (0.0, "Their best guess is never right."),
        (1e-9, "Their best guess is hardly ever right, less than once in a million times."),
        (0.25, "Their best guess is right 25 times in 100."),
        (1.0, "Their best guess is always right."),
    ):
        risk = tree["risk"].to_dataset()
        risk["prob_correct"] = xr.full_like(risk["prob_correct"], p)
        changed = xr.DataTree.from_dict({"risk": xr.DataTree(risk), "bound": tree["bound"]})
        changed.attrs.update(tree.attrs)
        assert words in explain(changed)


def test_of_many_readers_the_least_and_the_largest_are_told() -> None:
    tree = audited("many")
    ratio = tree["risk"]["ratio_mean"]
    text = explain(tree)
    named = re.findall("Adversary “(R.)” starts", text)
    assert named == [str(ratio.idxmin().item()), str(ratio.idxmax().item())]
    assert "10 in all" in text


def test_readers_who_learn_as_much_are_told_once() -> None:
    readers = {f"R{i}": adv.Adversary(0.3, 0) for i in range(8)}
    text = explain(tree_of(adv.Plan([BLOCK]), readers, {"block": 1}))
    assert len(re.findall("Adversary “R.” starts", text)) == 1
    assert "average ratios are the same within the errors of the numbers, 8 in all" in text


def test_estimates_are_called_so_with_their_error() -> None:
    tree = audited("simulated")
    assert tree["risk"]["posterior_mean"].attrs["direction"] == "estimate"
    error = 100.0 * float(tree["risk"]["mcse"].sel(measure="posterior_mean"))
    (said,) = one("give or take # (an estimate from simulated results)", explain(tree))
    assert said == pytest.approx(error, rel=1e-2)
    assert "estimates from simulated or sampled releases, ± one standard error" in explain(tree, "technical")


def test_exact_levels_move_the_start_first() -> None:
    tree = audited("exact level")
    risk = tree["risk"]
    before, after = one("They alone take the adversary from # to # in 100", explain(tree))
    assert before == pytest.approx(30.0, rel=1e-2)
    assert after == pytest.approx(100.0 * float(risk["prior"]), rel=1e-2)
    _, _, factor = one("takes the adversary from #% to #%, # times as much", explain(tree, "regulator"))
    assert factor == pytest.approx(float(risk["invariant_ratio"]), rel=1e-2)


def test_an_unreliable_audit_gives_no_averages() -> None:
    tree = with_status(audited("one"), "unreliable")
    told = explanations(tree)
    for text in told.values():
        assert "30" in text
        assert "on average at" not in text
        assert not NEVER.search(text)
    assert "no number is given" in told["lay"]
    assert "on a share of 25" in told["regulator"]
    assert "Status: unreliable, because the sampler failed" in told["regulator"]
    assert "could not be worked out" in told["lay"]


# Requests


@pytest.mark.parametrize(
    ("subject", "options", "error", "message"),
    [
        (1.0, {}, TypeError, "subject must be a Guarantee"),
        (adv.PureDP(1.0), {"audience": "press"}, ValueError, "audience must be one of"),
        (adv.PureDP(1.0), {"topic": "weather"}, ValueError, "topic must be one of"),
        (adv.PureDP(1.0), {"topic": "audit"}, ValueError, "topic of a guarantee must be one of"),
        (adv.PureDP(1.0), {"topic": "composition"}, ValueError, "composition needs releases"),
        (adv.PureDP(1.0), {"releases": 0}, ValueError, "releases must be"),
        (adv.PureDP(1.0), {"failure": 1.0}, ValueError, r"failure must be in \[0, 1\)"),
        (adv.PureDP(1.0), {"failure": float("nan")}, ValueError, "failure must be"),
        (adv.PureDP(1.0), {"threshold": 0.0}, ValueError, r"threshold must be in \(0, 1\)"),
        (adv.PureDP(1.0), {"priors": [0.5, 2.0]}, ValueError, "priors must be"),
        (PROFILES["difference"], {"statistic": "sum"}, ValueError, "statistic must be one of"),
        (PROFILES["difference"], {"topic": "audit"}, ValueError, "topic of a recommendation must be one of"),
        (xr.DataTree(), {}, ValueError, "the tree is not an audit"),
    ],
)
def test_what_cannot_be_explained_is_said(
    subject: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        explain(subject, **options)


def test_verdicts_and_audits_have_one_topic() -> None:
    found_verdict = verdict(RiskProfile.difference(0.2), adv.PureDP(0.1))
    with pytest.raises(ValueError, match="topic of a verdict"):
        explain(found_verdict, topic="guarantee")
    with pytest.raises(ValueError, match="topic of an audit"):
        explain(audited("one"), topic="guarantee")
    assert explain(found_verdict, topic="budget") == explain(found_verdict)
    assert explain(audited("one"), topic="audit") == explain(audited("one"))


# Texts as they are: read the difference before it is kept

SEARCHED = RiskProfile.custom(lambda p, q: 1.0 + 0.3 / (p * q))
FREE, NEVER_KEPT = RiskProfile.box(3.0, (0.5, 1.0), (0.8, 1.0)), RiskProfile.constant(1.0)
WELL = RiskProfile.difference(0.2)
TOLD: dict[str, Callable[[], str]] = {
    "pure DP": lambda: explain(adv.PureDP(1.0)),
    "pure DP, to a regulator": lambda: explain(adv.PureDP(1.0), "regulator"),
    "pure DP, to a curator": lambda: explain(adv.PureDP(1.0), "technical"),
    "approximate DP, published": lambda: explain(adv.ApproximateDP(0.1, 1e-7), failure=0.01),
    "approximate DP, to a regulator": lambda: explain(adv.ApproximateDP(1.8, 1e-5), "regulator", failure=0.05),
    "approximate DP, to a curator": lambda: explain(adv.ApproximateDP(1.0, 1e-6), "technical", failure=0.01),
    "probabilistic DP": lambda: explain(adv.ProbabilisticDP(0.1, 1e-7)),
    "probabilistic DP, too late": lambda: explain(adv.ProbabilisticDP(0.5, 0.1)),
    "probabilistic DP, to a curator": lambda: explain(adv.ProbabilisticDP(0.5, 0.1), "technical"),
    "zCDP, for certain": lambda: explain(adv.ZeroConcentratedDP(0.1), failure=0.0),
    "zCDP, for certain, to a regulator": lambda: explain(adv.ZeroConcentratedDP(0.1), "regulator", failure=0.0),
    "zCDP, for certain, to a curator": lambda: explain(adv.ZeroConcentratedDP(0.1), "technical", failure=0.0),
    "Renyi DP": lambda: explain(adv.RenyiDP(3.0, 0.2), "regulator"),
    "Gaussian DP": lambda: explain(adv.GaussianDP(0.5), "technical", topic="pure or approximate"),
    "noise": lambda: explain(adv.Geometric(1.0).privacy_loss(), "technical"),
    "no guarantee": lambda: explain(adv.NoPrivacy()),
    "no guarantee, to a regulator": lambda: explain(adv.NoPrivacy(), "regulator", releases=3),
    "no guarantee, to a curator": lambda: explain(adv.NoPrivacy(), "technical", topic="composition", releases=3),
    "no loss": lambda: explain(adv.PureDP(0.0), releases=10),
    "a tiny loss": lambda: explain(adv.PureDP(1e-6)),
    "a large loss": lambda: explain(adv.PureDP(50.0)),
    "a large loss, to a regulator": lambda: explain(adv.PureDP(800.0), "regulator"),
    "certain adversaries": lambda: explain(adv.PureDP(1.0), priors=[0.0, 1.0]),
    "a guarantee that is not kept": lambda: explain(adv.PureDP(0.5), kept=False, releases=3),
    "a guarantee that is not kept, to a regulator": lambda: explain(adv.PureDP(0.5), "regulator", kept=False),
    "many releases": lambda: explain(adv.PureDP(0.05), topic="composition", releases=5, failure=0.0),
    "many releases, to a regulator": lambda: explain(
        adv.ZeroConcentratedDP(0.01), "regulator", topic="composition", releases=7, failure=0.01
    ),
    "many releases without certainty": lambda: explain(
        adv.ZeroConcentratedDP(0.01), topic="composition", releases=7, failure=0.0
    ),
    "one release too many": lambda: explain(adv.PureDP(5.0), "technical", topic="composition", releases=2),
    "a profile": lambda: explain(PROFILES["two-dimensional"], "regulator"),
    "a profile of thirds": lambda: explain(RiskProfile.ratio_or_absolute(2.0, 1.0 / 3.0, value=1.0)),
    "a profile nobody binds": lambda: explain(PROFILES["constant"], "regulator"),
    "what is tolerated": lambda: explain(PROFILES["inclusion"], topic="tolerance"),
    "what is tolerated, to a curator": lambda: explain(PROFILES["inclusion"], "technical", topic="tolerance"),
    "everything is tolerated": lambda: explain(FREE, "regulator", topic="tolerance"),
    "a profile that asks for nothing": lambda: explain(FREE),
    "a profile that nothing keeps": lambda: explain(NEVER_KEPT, "regulator"),
    "a profile that was searched": lambda: explain(SEARCHED),
    "a budget that was searched": lambda: explain(allocate(SEARCHED, releases=2, composition="basic"), "regulator"),
    "a verdict that was searched": lambda: explain(verdict(SEARCHED, adv.PureDP(0.1)), "technical"),
    "kept": lambda: explain(verdict(WELL, adv.PureDP(0.1))),
    "kept but for a failure": lambda: explain(verdict(RiskProfile.difference(0.5), adv.ZeroConcentratedDP(0.001))),
    "broken": lambda: explain(verdict(WELL, adv.ZeroConcentratedDP(0.5)), "regulator"),
    "not covered": lambda: explain(
        verdict(RiskProfile.ratio_or_absolute(2.0, 0.25, inclusion=0.5), adv.PureDP(1.0), neighbours="bounded")
    ),
    "adversaries sure of inclusion": lambda: explain(verdict(WELL, adv.PureDP(0.1), neighbours="bounded")),
    "an audit without a guarantee": lambda: explain(audited("nothing promised")),
    "an audit of a violated guarantee": lambda: explain(audited("violated"), "regulator"),
    "an audit of two truths": lambda: explain(audited("truths"), "regulator"),
    "an audit of an exact count": lambda: explain(
        tree_of(adv.Plan([adv.Level("block", adv.Exact())]), adv.Adversary(0.2, 0), {"block": 1})
    ),
    "an audit of a mistaken adversary": lambda: explain(with_status(audited("one"), "exceeded")),
}
READ = Path(__file__).with_name("explanations.txt")
"""What `python -m tests.report.test_explain` writes anew, to be read before it is committed."""


def shown(name: str) -> str:
    return TOLD[name]()


@pytest.mark.parametrize("name", TOLD)
def test_texts_are_those_of_the_file(name: str) -> None:
    approved = dict(part.split("\n\n", 1) for part in READ.read_text("utf-8").removeprefix("## ").split("\n\n## "))
    assert list(approved) == list(TOLD)
    assert shown(name) == approved[name].rstrip("\n")


if __name__ == "__main__":
    READ.write_text("\n\n".join(f"## {name}\n\n{shown(name)}" for name in TOLD) + "\n", "utf-8")
