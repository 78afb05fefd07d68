"""Facts of risk profiles, recommendations, release budgets and verdicts for the templates, with numbers as text.

A recommendation is described by adversaries: the prior of each, the posterior up to which the bound of Theorem 4 at
that epsilon lets it rise, and what the profile tolerates. Statements about a release that satisfies it are not about a
planned release: the verdict is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from adversary._core import (
    PERCENT,
    check_non_negative,
    decimals_for,
    exactly,
    failing,
    format_bound,
    holding,
    in_100,
    in_percent,
    join_words,
    outward_percent,
    percentage,
    points,
    tidy,
)
from adversary.budget import (
    BOUNDED,
    NOT_COVERED,
    SEARCH,
    Recommendation,
    ReleaseBudget,
    RiskProfile,
    Verdict,
    absolute_risk_bound,
    allocate,
    equivalent_epsilon,
)
from adversary.budget.tolerances import Range
from adversary.driver import OWN
from adversary.privacy.losses import PrivacyLoss
from adversary.report.words.belief_limits import limits_of
from adversary.report.words.guarantee_facts import DIGITS, PRIORS, described

# Relative difference within which a reached and a tolerated posterior count as equal: the epsilon was solved for them.
SAME = 1e-12

# Largest number of decimals to add so that the rounded reached and tolerated posteriors do not cross.
CLOSER = 3


METHODS = {"closed": "a closed form", "certified search": "a certified search", SEARCH: "a search without certificate"}
FORMULAS = {
    "any": "R = 1 / (p q + exp(-2 epsilon) p (1 - q) + exp(-epsilon) (1 - p))",
    "count": "R = 1 / (p q + exp(-epsilon) (1 - p q)), of one published count",
}
UNITS = {
    "lay": (" in 100", "was decided"),
    "regulator": (PERCENT, "is tolerated"),
    "technical": (PERCENT, "is tolerated"),
}


# By audience (all but the lay as the regulator): unit of a probability, and the events that beliefs are about.
GIVES = {
    "lay": (" in 100", "your data being used", "a harmful answer if so"),
    "regulator": (PERCENT, "the person being in the data", "a sensitive value if so"),
}


def people(profile: RiskProfile, audience: str) -> str:
    """Clause on the adversaries that a profile is about, by their priors; "" if it is about all.

    >>> people(RiskProfile.point(2.0, 0.5, 1.0), "lay")
    'give exactly 50 in 100 to your data being used'
    """
    parts = profile.tolerance.parts
    if any(one.is_function for one in parts):
        return "have starting beliefs for which the rule sets a limit"
    every = [_given(one.domain, audience) for one in parts]
    return "" if "" in every else join_words(list(dict.fromkeys(every)), "or")


def _given(domain: tuple[Range, Range], audience: str) -> str:
    """Clause on adversaries with priors in a rectangle (inclusion, value); "" for all priors."""
    unit, *about = GIVES.get(audience, GIVES["regulator"])
    ends = zip(domain, about, strict=True)
    clauses = [f"{_range(*side, unit)} to {what}" for side, what in ends if side != (0.0, 1.0) and side != (1.0, 1.0)]
    sure = domain[0] == (1.0, 1.0) and [f"are sure of {about[0]}"]
    return join_words([*(sure or []), *([f"give {join_words(clauses)}"] if clauses else [])])


def _range(low: float, high: float, unit: str) -> str:
    """Range of a prior in words."""
    if low == high:
        return f"exactly {in_100(low)}{unit}"
    if low == 0.0 or high == 1.0:
        return f"at most {in_100(high)}{unit}" if low == 0.0 else f"at least {in_100(low)}{unit}"
    return f"{in_100(low)} to {in_100(high)}{unit}"


def outsiders(
    profile: RiskProfile,
    epsilon: float,
    statistic: str,
    audience: str,
    priors: Sequence[float] = (),
    *,
    sure: bool = False,
) -> list[dict[str, Any]]:
    """Facts on adversaries that a profile is not about: their priors, and their largest posterior at an epsilon.

    Parameters
    ----------
    profile, statistic : as of a recommendation
    epsilon : of `absolute_risk_bound`, in nats; the list is empty if it is infinite
    audience : one of `AUDIENCES`
    priors : of adversaries; usual ones if empty
    sure : include only adversaries who are sure of inclusion
    """
    if not np.isfinite(epsilon):
        return []
    every = profile.outsiders()
    if priors:
        every = [pair for x in priors if x > 0.0 for pair in profile.outsiders([x])]
    return [
        {
            "gives": _starts(p, q, audience).rstrip(","), "start": in_100(p * q), "plain": q == 1.0,
            "most": outward_percent(float(absolute_risk_bound(p, q, epsilon, statistic=statistic)), True),
            "priors": f"p = {p:.6g}, q = {q:.6g}",
        }
        for p, q in dict.fromkeys(every) if p == 1.0 or not sure
    ]  # fmt: skip


def coverage(
    profile: RiskProfile, epsilon: float, statistic: str = "any", surely: str = "", *, sure: bool = False
) -> str:
    """Sentences on the adversaries that a profile is about, and on the largest posteriors of others; "" if about all.

    Parameters
    ----------
    profile, statistic : as of a recommendation
    epsilon : nats, >= 0, however large
    surely : ends a sentence: the chance that the epsilon fails
    sure : name only adversaries who are sure of inclusion

    >>> about, other = coverage(RiskProfile.point(2.0, 0.5, 1.0), 1.0).split(". ", 1)
    >>> about
    'The profile is about adversaries who give exactly 50% to the person being in the data'
    >>> other
    'It is not about one who gives 1% to the person being in the data, who may come to as much as 2.68%.'
    """
    check_non_negative("epsilon", epsilon, finite=False)
    who = people(profile, "regulator")
    if not who:
        return ""
    others = [
        f" It is not about one who gives {one['gives']}, who may come to as much as {one['most']}{PERCENT}{surely}."
        for one in outsiders(profile, epsilon, statistic, "regulator", sure=sure)
    ]
    return f"The profile is about adversaries who {who}.{''.join(others)}"


def recommendation_facts(
    recommendation: Recommendation, audience: str, priors: Sequence[float] | None
) -> dict[str, Any]:
    """Facts of a recommendation: the profile, the epsilon for it, and the posteriors that it allows."""
    bounded = recommendation.status == BOUNDED
    low, high = recommendation.bracket
    every = rises(without_rounding(recommendation), priors) if bounded else []
    return {
        **_profile(recommendation, audience),
        "outside": _outside(without_rounding(recommendation), audience, priors),
        "epsilon": exactly(recommendation.epsilon), "rounded": recommendation.round_down is not None,
        "zero": recommendation.epsilon == 0.0,
        "decimals": recommendation.round_down, "attained": recommendation.attained,
        "bracket": (format_bound(low, False), format_bound(high, True)),
        "certified": low > 0.0, "rises": [_rise(one, audience) for one in every],
        "binding": _starts(recommendation.inclusion, recommendation.value).rstrip(",") if bounded else "",
    }  # fmt: skip


def _outside(
    recommendation: Recommendation, audience: str, priors: Sequence[float] | None, epsilon: float | None = None
) -> list[dict[str, Any]]:
    """Facts of `outsiders` at the recommended epsilon, or at another; none if no epsilon satisfies the profile."""
    if recommendation.status != BOUNDED:
        return []
    at = recommendation.epsilon if epsilon is None else epsilon
    return outsiders(recommendation.profile, at, recommendation.statistic, audience, priors or ())


def _profile(recommendation: Recommendation, audience: str) -> dict[str, Any]:
    """Facts of the profile of a recommendation, and of the method by which its epsilon was solved for."""
    return {
        "people": people(recommendation.profile, audience),
        "profile": recommendation.profile.words, "about_values": recommendation.profile.about_values,
        "words": recommendation.words, "status": recommendation.status,
        "searched": recommendation.method == SEARCH, "method": METHODS.get(recommendation.method, ""),
        "formula": FORMULAS[recommendation.statistic], "loss": format_bound(recommendation.loss, False),
    }  # fmt: skip


def _rise(rise: Rise, audience: str) -> dict[str, Any]:
    """Facts on the posterior that an adversary could reach, and on the tolerated one."""
    digits, (unit, most) = DIGITS[audience], UNITS[audience]
    return {
        "start": in_100(rise.start), "starts": _starts(rise.inclusion, rise.value, audience), "limited": rise.limited,
        "asked": rise.is_covered, "up_to": rise.up_to(min(digits, 3)), "most": rise.ends(digits, unit, most),
        "priors": f"p = {rise.inclusion:.6g}, q = {rise.value:.6g}",
    }  # fmt: skip


def _starts(inclusion: float, value: float, audience: str = "regulator") -> str:
    """Priors of an adversary in words; that of the value only if it is below 1."""
    unit, being_in, harm = GIVES.get(audience, GIVES["regulator"])
    start = f"{in_100(inclusion)}{unit} to {being_in}"
    if value == 1.0:
        return start
    return f"{start} and {in_100(value)}{unit} to {harm}, together {in_100(inclusion * value)}{unit},"


def release_budget_facts(made: ReleaseBudget, audience: str, priors: Sequence[float] | None) -> dict[str, Any]:
    """Facts of a release budget: the profile, the guarantee of each release, and the posteriors that all allow."""
    words, made = made.words, unrounded_budget(made)
    recommendation, failure = made.recommended, made.failure
    facts: dict[str, Any] = {
        **_profile(recommendation, audience), "made": words, "outside": [],
        "releases": f"{made.releases:,}", "many": made.releases > 1,
        "attainable": False, "certain": not failure, "unit": made.unit, "definition": made.definition,
        "failure": exactly(failure), "share": percentage(failure, True), "alone": "",
        "holding": holding(failure) if failure else "",
    }  # fmt: skip
    if made.total is None or made.guarantee is None:
        return facts
    one, every = (limits_of(g, failure)[-1] for g in (made.guarantee, made.total))
    facts |= {
        "attainable": True, "parameter": format_bound(made.parameter, False),
        "delta": f"{made.delta_each:.4g}" if made.delta_each else "",
        "total": "" if isinstance(made.total, PrivacyLoss) else described(made.total, upper=False, digits=6),
        "rises": [_rise(rise, audience) for rise in rises(recommendation, priors, worth(made))],
        "outside": _outside(recommendation, audience, priors, worth(made)),
    }  # fmt: skip
    if made.releases > 1 and one.exists and every.exists:
        digits = min(DIGITS[audience], 3)
        facts |= {"alone": points(one.difference, digits), "all": points(every.difference, digits)}
    return facts


@dataclass(frozen=True)
class Rise:
    """Largest posterior of one adversary at an epsilon, and the one that the profile tolerates.

    Parameters
    ----------
    inclusion, value : the adversary's priors p and q
    start : p q
    reached : upper bound on the posterior
    tolerated : p q r*(p, q), at most 1
    asked : whether the profile is about this adversary
    """

    inclusion: float
    value: float
    start: float
    reached: float
    tolerated: float
    is_covered: bool = True

    @classmethod
    def of(cls, recommendation: Recommendation, inclusion: float, value: float, epsilon: float) -> Rise:
        """Rise of the adversary with these priors, at this epsilon."""
        start = inclusion * value
        ratio = float(recommendation.profile(inclusion, value))
        most = min(1.0, start * ratio)
        high = float(absolute_risk_bound(inclusion, value, epsilon, statistic=recommendation.statistic))
        reached = most if abs(high - most) <= SAME * most else high
        return cls(inclusion, value, start, reached, most, bool(np.isfinite(ratio)))

    @property
    def limited(self) -> bool:
        """True if the tolerated posterior is below 1."""
        return self.tolerated < 1.0

    def up_to(self, digits: int) -> str:
        """Tolerated posterior in percent, rounded down, as text."""
        return in_percent(self.tolerated, False, decimals_for(self.tolerated, digits=digits + 2))

    def ends(self, digits: int, unit: str, most: str) -> str:
        """Clause with the reached posterior, rounded up, and the tolerated one, rounded down.

        `unit` follows a number, and `most` is a clause such as "is tolerated". Decimals are added until the rounded
        numbers do not cross.
        """
        least = decimals_for(self.reached - self.start, digits=digits)
        for decimals in range(least, least + CLOSER + 1):
            up = in_percent(self.reached, True, decimals)
            down = in_percent(self.tolerated, False, max(decimals, decimals_for(self.tolerated, digits=digits + 1)))
            if self.reached > self.tolerated or _number(up) <= _number(down):
                break
        # possible after a search without certificate, which missed this adversary
        if self.reached > self.tolerated:
            return f"{up}{unit}, beyond the {down}{unit} that {most}"
        if self.reached < self.tolerated and _number(up) <= _number(down):
            return f"{up}{unit}" if not self.limited else f"{up}{unit}, and up to {down}{unit} {most}"
        places = decimals_for(self.tolerated, digits=4)
        if (shown := in_percent(self.tolerated, True, places)) == in_percent(self.tolerated, False, places):
            return f"{shown}{unit}, which is what {most}"
        nearest = (100 * Decimal(repr(self.tolerated))).quantize(Decimal(1).scaleb(-places))
        return f"what {most}, about {tidy(nearest)}{unit}"


def _number(text: str) -> float:
    """Number of a text with commas between thousands."""
    return float(text.replace(",", ""))


def rises(recommendation: Recommendation, priors: Sequence[float] | None, epsilon: float | None = None) -> list[Rise]:
    """Rises of the binding adversary, if there is one, and of those with the given priors that the profile is about.

    If the profile is about values, the priors are of the value, and that of inclusion is the largest of the profile;
    otherwise they are of inclusion.
    """
    (p0, p1), (q0, q1) = recommendation.profile.domain
    about_values = recommendation.profile.about_values
    starts = [(p1, prior) if about_values else (prior, 1.0) for prior in (PRIORS if priors is None else priors)]
    pairs = [(p, q) for p, q in starts if p0 <= p <= p1 and q0 <= q <= q1 and p * q > 0.0]
    binding = [(recommendation.inclusion, recommendation.value)] if recommendation.attained else []
    at = recommendation.epsilon if epsilon is None else epsilon
    every = [Rise.of(recommendation, p, q, at) for p, q in dict.fromkeys([*binding, *pairs])]
    return [one for one in every if one.tolerated < 1.0 or one.start < 1.0]


def without_rounding(recommendation: Recommendation) -> Recommendation:
    """The recommendation, unrounded if rounding down has made its epsilon 0."""
    return (
        replace(recommendation, round_down=None)
        if recommendation.status == BOUNDED and recommendation.epsilon == 0.0
        else recommendation
    )


def unrounded_budget(made: ReleaseBudget) -> ReleaseBudget:
    """The release budget, unrounded if rounding down has made its parameter 0."""
    if made.status != BOUNDED or made.parameter > 0.0:
        return made
    each = made.delta_each if made.definition == "approximate DP" else 0.0
    return allocate(
        made.recommended, made.definition, failure=made.failure, delta=made.delta, releases=made.releases,
        composition=made.composition, delta_each=each,
    )  # fmt: skip


def worth(made: ReleaseBudget) -> float:
    """Epsilon of pure DP with the same bounds as all releases of a bounded budget together."""
    recommendation = made.recommended
    assert made.total is not None
    values = recommendation.statistic == "any" and recommendation.profile.about_values
    return min(recommendation.loss, equivalent_epsilon(made.total, made.failure, values=values, two=made.two))


def verdict_facts(outcome: Verdict, audience: str) -> dict[str, Any]:
    """Facts of a verdict on a profile: status, guarantee, failure probability, and the adversaries it is about."""
    certain, judged, replaced = outcome.failure == 0.0, outcome.status != NOT_COVERED, outcome.neighbours == "bounded"
    profile, outside = outcome.tolerance, list[dict[str, Any]]()
    if profile is not None and judged and np.isfinite(outcome.allowed):
        outside = outsiders(profile, outcome.epsilon, outcome.statistic, audience, sure=replaced)
    return {
        "people": "" if profile is None else people(profile, audience), "outside": outside,
        "status": outcome.status, "own": outcome.definition == OWN, "definition": outcome.definition,
        "unbounded": outcome.neighbours == "unbounded", "searched": outcome.searched, "certain": certain,
        "holding": "" if certain else holding(outcome.failure),
        "failing": "" if certain else failing(outcome.failure),
        "share": percentage(outcome.failure, True), "failure": exactly(outcome.failure),
        "profile": str(outcome.profile), "words": outcome.words,
        "compared": bool(np.isfinite(outcome.allowed) and np.isfinite(outcome.loss)),
    }  # fmt: skip
