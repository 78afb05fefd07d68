"""What texts about a tolerated risk, an epsilon for it and releases that keep it are fed with: numbers as written.

A recommendation is told by adversaries: where each starts, how far the bound of Theorem 4 at that epsilon would let
them rise, and what the profile tolerates of them. What is told of a release that keeps it is no statement about any
that is planned: that is a verdict's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adversary._core import PERCENT, exactly, holding, in_100, outward, percentage, points
from adversary.policy.budget import BOUNDED, SEARCH, Recommendation, ReleaseBudget, limits_of
from adversary.policy.explain.guarantee_facts import DIGITS, belief
from adversary.policy.explain.outcomes import Rise, kept_by, rises, unrounded, worth
from adversary.privacy.losses import PrivacyLoss

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
    every = rises(unrounded(found), priors) if bounded else []
    return {
        **_profile(found),
        "epsilon": exactly(found.epsilon), "rounded": found.round_down is not None, "zero": found.epsilon == 0.0,
        "decimals": found.round_down, "attained": found.attained, "bracket": (outward(low, False), outward(high, True)),
        "certified": low > 0.0, "rises": [_rise(one, audience) for one in every],
        "binding": _starts(found.inclusion, found.value).rstrip(",") if bounded else "",
    }  # fmt: skip


def _profile(found: Recommendation) -> dict[str, Any]:
    return {
        "profile": found.profile.words, "about_values": found.profile.about_values, "words": found.words,
        "status": found.status, "searched": found.method == SEARCH, "method": METHODS.get(found.method, ""),
        "formula": FORMULAS[found.statistic], "loss": outward(found.loss, False),
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
    words, made = made.words, kept_by(made)
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
        "attainable": True, "parameter": outward(made.parameter, False),
        "delta": f"{made.delta_each:.4g}" if made.delta_each else "",
        "total": "" if isinstance(made.total, PrivacyLoss) else made.total.describe(),
        "rises": [_rise(rise, audience) for rise in rises(found, priors, worth(made))],
    }  # fmt: skip
    if made.releases > 1 and one.exists and every.exists:
        digits = min(DIGITS[audience], 3)
        facts |= {"alone": points(one.difference, digits), "all": points(every.difference, digits)}
    return facts
