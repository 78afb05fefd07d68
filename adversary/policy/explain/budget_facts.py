"""What texts about a tolerated risk, an epsilon for it and releases that keep it are fed with: numbers as written.

A recommendation is described by adversaries: where each starts, how far the bound of Theorem 4 at that epsilon would
let them rise, and what the profile tolerates of them. What is said of a release that satisfies it is no statement
about a planned one: that is the verdict's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from adversary._core import (
    PERCENT,
    decimals_for,
    exactly,
    format_bound,
    holding,
    in_100,
    in_percent,
    percentage,
    points,
    tidy,
)
from adversary.policy.budget import (
    BOUNDED,
    SEARCH,
    Recommendation,
    ReleaseBudget,
    absolute_risk_bound,
    allocate,
    equivalent_epsilon,
)
from adversary.policy.explain.belief_limits import limits_of
from adversary.policy.explain.guarantee_facts import DIGITS, PRIORS, belief
from adversary.privacy.losses import PrivacyLoss

SAME = 1e-12
"""What is reached and what is tolerated count as equal within this relative difference: they were solved for."""

CLOSER = 3
"""Decimals to add, at most, so that what is reached and what is tolerated do not cross."""


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


def of_recommendation(found: Recommendation, audience: str, priors: Sequence[float] | None) -> dict[str, Any]:
    """A profile, the epsilon for it, and how far that would let adversaries rise."""
    bounded = found.status == BOUNDED
    low, high = found.bracket
    every = rises(without_rounding(found), priors) if bounded else []
    return {
        **_profile(found),
        "epsilon": exactly(found.epsilon), "rounded": found.round_down is not None, "zero": found.epsilon == 0.0,
        "decimals": found.round_down, "attained": found.attained,
        "bracket": (format_bound(low, False), format_bound(high, True)),
        "certified": low > 0.0, "rises": [_rise(one, audience) for one in every],
        "binding": _starts(found.inclusion, found.value).rstrip(",") if bounded else "",
    }  # fmt: skip


def _profile(found: Recommendation) -> dict[str, Any]:
    return {
        "profile": found.profile.words, "about_values": found.profile.about_values, "words": found.words,
        "status": found.status, "searched": found.method == SEARCH, "method": METHODS.get(found.method, ""),
        "formula": FORMULAS[found.statistic], "loss": format_bound(found.loss, False),
    }  # fmt: skip


def _rise(rise: Rise, audience: str) -> dict[str, Any]:
    """How far an adversary would come, and what is tolerated of them."""
    digits, (unit, most) = DIGITS[audience], UNITS[audience]
    return {
        "start": in_100(rise.start), "starts": _starts(rise.inclusion, rise.value), "limited": rise.limited,
        "asked": rise.asked, "up_to": rise.up_to(min(digits, 3)), "most": rise.ends(digits, unit, most),
        "priors": f"p = {rise.inclusion:.6g}, q = {rise.value:.6g}",
    }  # fmt: skip


def _starts(inclusion: float, value: float) -> str:
    """Starting beliefs of an adversary; only that of inclusion where the value is not in question."""
    being_in = f"{belief(inclusion)} to the person being in the data"
    if value == 1.0:
        return being_in
    return f"{being_in} and {belief(value)} to a sensitive value if so, together {belief(inclusion * value)},"


def of_release_budget(made: ReleaseBudget, audience: str, priors: Sequence[float] | None) -> dict[str, Any]:
    """A profile, the guarantee of each release that keeps it, and what all of them together would do."""
    words, made = made.words, unrounded_budget(made)
    found, failure = made.recommended, made.failure
    facts: dict[str, Any] = {
        **_profile(found), "made": words, "releases": f"{made.releases:,}", "many": made.releases > 1,
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
        "total": "" if isinstance(made.total, PrivacyLoss) else made.total.describe(),
        "rises": [_rise(rise, audience) for rise in rises(found, priors, worth(made))],
    }  # fmt: skip
    if made.releases > 1 and one.exists and every.exists:
        digits = min(DIGITS[audience], 3)
        facts |= {"alone": points(one.difference, digits), "all": points(every.difference, digits)}
    return facts


@dataclass(frozen=True)
class Rise:
    """How far an epsilon lets one adversary rise, and what is tolerated of them.

    `start` is p q, `reached` an upper bound on the posterior, `tolerated` p q r*(p, q), 1 at most; `asked` says whether
    the profile is about this adversary.
    """

    inclusion: float
    value: float
    start: float
    reached: float
    tolerated: float
    asked: bool = True

    @classmethod
    def of(cls, found: Recommendation, inclusion: float, value: float, epsilon: float) -> Rise:
        """Of the adversary with these priors, at this epsilon."""
        start = inclusion * value
        ratio = float(found.profile(inclusion, value))
        most = min(1.0, start * ratio)
        high = float(absolute_risk_bound(inclusion, value, epsilon, statistic=found.statistic))
        reached = most if abs(high - most) <= SAME * most else high
        return cls(inclusion, value, start, reached, most, bool(np.isfinite(ratio)))

    @property
    def limited(self) -> bool:
        """Whether anything above 0 and below 1 is ruled out."""
        return self.tolerated < 1.0

    def up_to(self, digits: int) -> str:
        """What is tolerated, times 100, rounded down."""
        return in_percent(self.tolerated, False, decimals_for(self.tolerated, digits=digits + 2))

    def ends(self, digits: int, unit: str, most: str) -> str:
        """ "up to so much", and what was tolerated; `most` says that it is what was tolerated."""
        least = decimals_for(self.reached - self.start, digits=digits)
        for decimals in range(least, least + CLOSER + 1):
            up = in_percent(self.reached, True, decimals)
            down = in_percent(self.tolerated, False, max(decimals, decimals_for(self.tolerated, digits=digits + 1)))
            if self.reached > self.tolerated or _number(up) <= _number(down):
                break
        if self.reached > self.tolerated:  # by a search that missed this adversary
            return f"{up}{unit}, beyond the {down}{unit} that {most}"
        if self.reached < self.tolerated and _number(up) <= _number(down):
            return f"{up}{unit}" if not self.limited else f"{up}{unit}, and up to {down}{unit} {most}"
        places = decimals_for(self.tolerated, digits=4)
        if (shown := in_percent(self.tolerated, True, places)) == in_percent(self.tolerated, False, places):
            return f"{shown}{unit}, which is what {most}"
        nearest = (100 * Decimal(repr(self.tolerated))).quantize(Decimal(1).scaleb(-places))
        return f"what {most}, about {tidy(nearest)}{unit}"


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def rises(found: Recommendation, priors: Sequence[float] | None, epsilon: float | None = None) -> list[Rise]:
    """The adversary who binds, where there is one, and adversaries with the priors asked for whom the profile is about.

    Where values are in question the priors are of the value, for adversaries as sure of inclusion as the profile has
    them; otherwise they are of inclusion.
    """
    (p0, p1), (q0, q1) = found.profile.domain
    about_values = found.profile.about_values
    asked = [(p1, prior) if about_values else (prior, 1.0) for prior in (PRIORS if priors is None else priors)]
    pairs = [(p, q) for p, q in asked if p0 <= p <= p1 and q0 <= q <= q1 and p * q > 0.0]
    binding = [(found.inclusion, found.value)] if found.attained else []
    at = found.epsilon if epsilon is None else epsilon
    every = [Rise.of(found, p, q, at) for p, q in dict.fromkeys([*binding, *pairs])]
    return [one for one in every if one.tolerated < 1.0 or one.start < 1.0]


def without_rounding(found: Recommendation) -> Recommendation:
    """The recommendation without its rounding, where that leaves nothing of it."""
    return replace(found, round_down=None) if found.status == BOUNDED and found.epsilon == 0.0 else found


def unrounded_budget(made: ReleaseBudget) -> ReleaseBudget:
    """The same of a release budget."""
    if made.status != BOUNDED or made.parameter > 0.0:
        return made
    each = made.delta_each if made.definition == "approximate DP" else 0.0
    return allocate(
        made.recommended, made.definition, failure=made.failure, delta=made.delta, releases=made.releases,
        composition=made.composition, delta_each=each,
    )  # fmt: skip


def worth(made: ReleaseBudget) -> float:
    """Epsilon that all releases of a bounded guarantee amount to."""
    found = made.recommended
    assert made.total is not None
    values = found.statistic == "any" and found.profile.about_values
    return min(found.loss, equivalent_epsilon(made.total, made.failure, values=values, two=made.two))
