"""Verdict on a guarantee under a risk profile: its equivalent epsilon against the one that the profile allows.

For unbounded neighbours (a record added or removed) the two are compared directly. A guarantee for bounded neighbours
(a record replaced, the size of the data public) does not protect inclusion. It covers only adversaries who are sure
that the target is in, and for them "in S" and "in, not in S" are one step apart, not two.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import xarray as xr

from adversary._core import DEFAULT_FAILURE, check_probability, failure_of, format_bound, format_uncrossed
from adversary.adversaries.plans import Plan
from adversary.budget.recommend import SEARCH, SEARCHED, UNCONSTRAINED, recommend_epsilon
from adversary.budget.risk_bounds import check_word, equivalent_epsilon
from adversary.budget.risk_profile import RiskProfile
from adversary.driver import OWN
from adversary.privacy import NEIGHBOURS, TOLERANCE, Guarantee, tolerated
from adversary.privacy.definitions import NoPrivacy
from adversary.privacy.losses import PrivacyLoss, check_guarantee
from adversary.privacy.mechanisms import Exact

KEPT, BROKEN, NOT_COVERED = "kept", "broken", "not covered"
EVERY, SURE = "all", "inclusion 1"
"""Adversaries of a profile that a verdict covers: all, or those who are sure that the target is in the data."""


@dataclass(frozen=True)
class Verdict:
    """A guarantee judged by a risk profile.

    Parameters
    ----------
    definition : definition of the guarantee, by name
    loss : equivalent epsilon of the guarantee, nats; infinite if it bounds nothing at this failure probability
    allowed : largest epsilon that the profile allows, nats; infinite without a limit, NaN if even epsilon 0 violates it
    failure : probability, under every truth, of a release beyond the profile; 0 if there is none for certain
    status : "kept", to a relative 1e-9; "broken"; or "not covered", if the profile limits only adversaries whom the
        guarantee does not cover
    profile, neighbours : the profile in words, and the neighbouring relation
    searched : whether `allowed` comes from a search that is not certified
    tolerance, statistic : the profile itself, and "any" published statistic or one "count"
    """

    definition: str
    loss: float
    allowed: float
    failure: float
    status: str
    profile: str = ""
    neighbours: str = "unbounded"
    searched: bool = False
    tolerance: RiskProfile | None = field(default=None, repr=False)
    statistic: str = "any"

    @property
    def epsilon(self) -> float:
        """Equivalent epsilon in `absolute_risk_bound`, for adversaries whom the guarantee covers.

        With replaced records "in S" and "in, not in S" are one step apart; for "any" statistic the bound counts two.
        """
        return self.loss / 2.0 if self.neighbours == "bounded" and self.statistic == "any" else self.loss

    @property
    def satisfied(self) -> bool:
        """True if the status is "kept"."""
        return self.status == KEPT

    @property
    def words(self) -> str:
        """The verdict in a sentence or two, losses rounded outward."""
        chance = failure_of(self.failure)
        if self.status == NOT_COVERED:
            return (
                f"The guarantee ({self.definition}, records replaced) does not cover adversaries unsure whether "
                f"the person is in the data, and the profile ({self.profile}) asks of no others."
            )
        covered = (
            "" if self.neighbours == "unbounded" else " of adversaries who are sure that the person is in the data"
        )
        caveat = f" {SEARCHED}" if self.searched else ""
        if self.allowed == np.inf:
            return f"The profile ({self.profile}) asks nothing{covered}: every guarantee keeps it.{caveat}"
        if not self.allowed > 0.0 and not self.satisfied:
            return f"No release keeps the profile ({self.profile}): it asks for no information at all, or for less."
        who = "the release itself" if self.definition == "privacy loss" else f"the guarantee ({self.definition})"
        worth, allows = self._sides()
        finding = f"{who} {worth} {chance}, and the profile ({self.profile}) allows {allows}{covered}."
        others = " It does not cover other adversaries." if covered else ""
        return f"{'Kept' if self.satisfied else 'Broken'}: {finding}{others}{caveat}"

    def _sides(self) -> tuple[str, str]:
        """The two losses in words, rounded outward, with enough digits to show which is larger."""
        if self.loss == np.inf:
            return "bounds no privacy loss", format_bound(self.allowed, False)
        plainly = format_bound(self.loss, True), format_bound(self.allowed, False)
        shown = format_uncrossed(self.loss, self.allowed, range(3, 10)) if self.satisfied else plainly
        loss, allowed = shown or (plainly[0], "just that")
        return f"bounds the privacy loss by {loss}", allowed


def verdict(
    profile: RiskProfile,
    guarantee: Guarantee,
    failure: float = DEFAULT_FAILURE,
    *,
    statistic: str = "any",
    neighbours: str = "unbounded",
    two: Guarantee | None = None,
) -> Verdict:
    """The verdict on a guarantee: whether it satisfies a risk profile, for certain or except for a failure probability.

    Assumes adversaries whose belief about everybody else's records does not depend on the target.

    Parameters
    ----------
    profile : the tolerated risk
    guarantee : the guarantee, or a privacy loss
    failure : tolerated probability of a release beyond the profile
    statistic : "any" published statistic, or one "count" of the people in S
    neighbours : relation of the guarantee; "bounded" is judged for adversaries with inclusion prior 1 only, with
        tolerated loss 2 epsilon between any two records (epsilon for one count)
    two : the guarantee for hypotheses two records apart, if sharper than `guarantee.group(2)`

    Returns
    -------
    Verdict

    >>> from adversary.privacy.definitions import PureDP
    >>> result = verdict(RiskProfile.difference(0.2), PureDP(0.5))
    >>> result.status, result.loss, round(result.allowed, 6)
    ('broken', 0.5, 0.405465)
    """
    check_guarantee("guarantee", guarantee)
    chance = float(check_probability("failure", failure))
    replaced = check_word("neighbours", neighbours, NEIGHBOURS) == "bounded"
    recommendation = recommend_epsilon(profile, statistic=statistic)
    first_status = recommendation.status
    if replaced:
        recommendation = recommend_epsilon(profile.within(inclusion=(1.0, 1.0)), statistic=statistic)
    values = statistic == "any" and profile.about_values and not replaced
    allowed = recommendation.loss * (2.0 if replaced and statistic == "any" else 1.0)
    limit = tolerated(allowed)
    certain, loss = (equivalent_epsilon(guarantee, f, values=values, two=two) for f in (0.0, chance))
    if certain <= limit or loss >= certain * (1.0 - TOLERANCE) < np.inf:
        chance, loss = 0.0, certain
    status = KEPT if loss <= limit else BROKEN
    if replaced and recommendation.status == UNCONSTRAINED and first_status != UNCONSTRAINED:
        status = NOT_COVERED
    searched = recommendation.method == SEARCH
    given = guarantee.definition, loss, allowed, chance, status, profile.words, neighbours, searched
    return Verdict(*given, profile, statistic)


def own_losses(plan: Plan, statistic: str = "any") -> tuple[PrivacyLoss, PrivacyLoss | None]:
    """The plan's loss for one privacy unit, and between "in S" and "in, not in S".

    For unbounded neighbours "in S" and "in, not in S" are two units apart, but one person changes two counts by one
    each, not one count by two. The second loss is None if the first covers it: for bounded neighbours, and if only one
    count is published.
    """
    cells = 1 if statistic == "count" else plan.privacy_unit.cells
    one, two = (
        replace(plan, privacy_unit=replace(plan.privacy_unit, cells=cells, neighbours=word)).unit_loss()
        for word in NEIGHBOURS
    )
    if statistic == "count":
        return one, None
    return (two, None) if plan.neighbours == "bounded" else (one, two)


def has_exact(plan: Plan) -> bool:
    """True if a count is published exactly, which may determine the target's side regardless of the noise.

    Parameters
    ----------
    plan : the published counts
    """
    return any(isinstance(level.mechanism, Exact) for level in plan.levels)


def own_verdict(plan: Plan, profile: RiskProfile, failure: float, statistic: str = "any") -> Verdict:
    """The verdict on the plan's own loss.

    Parameters
    ----------
    plan : the published counts
    profile : the tolerated risk
    failure : tolerated probability of a release beyond the profile
    statistic : "any" or "count", as for `verdict`

    Returns
    -------
    Verdict, "not covered" if a count is published exactly, unless the profile allows an unbounded loss
    """
    if has_exact(plan):
        return _of_plan(plan, profile, NoPrivacy(), failure, statistic)
    one, two = own_losses(plan, statistic)
    return _of_plan(plan, profile, one, failure, statistic, two)


# Of budgets that are tried in place of one that breaks a profile.
SMALLEST_FACTOR = 2.0**-40


def largest_tolerated_factor(
    plan: Plan, profile: RiskProfile, failure: float = DEFAULT_FAILURE, *, statistic: str = "any"
) -> float:
    """The largest factor up to 1 by which a plan's budget may be multiplied so that its own noise keeps a profile.

    By bisection of `Plan.scaled`, the end at which the profile is kept.

    Parameters
    ----------
    plan : what is published
    profile : the tolerated risk
    failure : failure probability of what is not certain
    statistic : what is published, "any" thing or one "count"

    Returns
    -------
    float, of rho; NaN where no such factor is there: the profile asks for no information, or noise has no width.

    >>> from adversary.privacy.mechanisms import Geometric
    >>> from adversary.adversaries.plans import Level
    >>> plan, profile = Plan([Level("block", Geometric(0.5))]), RiskProfile.difference(0.2)
    >>> factor = largest_tolerated_factor(plan, profile)
    >>> [own_verdict(plan.scaled(one), profile, 0.05).status for one in (factor, 1.01 * factor)]
    ['kept', 'broken']
    """

    def satisfied(factor: float) -> bool:
        return own_verdict(plan.scaled(factor), profile, failure, statistic).satisfied

    try:
        low = high = 1.0
        while not satisfied(low):
            low, high = low / 4.0, low
            if low < SMALLEST_FACTOR:
                return np.nan
        while high > (1.0 + 1e-4) * low:
            middle = float(np.sqrt(low * high))
            low, high = (middle, high) if satisfied(middle) else (low, middle)
    except (ValueError, TypeError, ArithmeticError):  # a table or a grid that allows no other budget
        return np.nan
    return low


def _of_plan(
    plan: Plan, profile: RiskProfile, one: Guarantee, failure: float, statistic: str, two: Guarantee | None = None
) -> Verdict:
    one_verdict = verdict(profile, one, failure, statistic=statistic, neighbours=plan.neighbours, two=two)
    covered = not has_exact(plan) or one_verdict.allowed == np.inf
    return one_verdict if covered else replace(one_verdict, loss=np.inf, failure=failure, status=NOT_COVERED)


def verdicts(
    plan: Plan,
    profile: RiskProfile,
    guarantees: Mapping[str, Guarantee] | None = None,
    failure: float = DEFAULT_FAILURE,
    *,
    statistic: str = "any",
    violated: Collection[str] = (),
) -> xr.Dataset:
    """Verdicts on all guarantees of a plan, and on its own loss, under a risk profile.

    A profile limits the privacy loss. Every guarantee bounds it, except with a failure probability, and so does the
    plan's own loss, the sharpest bound: one of them within the profile is enough. A guarantee that the noise violates
    is ignored.

    Parameters
    ----------
    plan : the published counts
    profile : the tolerated risk
    guarantees : guarantees to judge, by name
    failure : tolerated probability of a release beyond the profile
    statistic : "any" published statistic, or one "count"
    violated : names of guarantees that the plan does not satisfy

    Returns
    -------
    Dataset, dim `definition` (named as in the group `bound` of an audit): `loss`, the epsilon it amounts to, nats;
    `allowed`, the largest that keeps the profile; `failure`; `status`, "kept", "broken" or "not covered"; `true`,
    whether the noise satisfies it; `words`. Of `recommend_epsilon`: `epsilon`, `inclusion`, `value` and `attained`, and
    in the attributes `method` and `recommendation`. Attributes: `status` of the planned release; `adversaries`, all of
    the profile or only those sure of inclusion; the profile in `words`; `statistic`.

    >>> from adversary.privacy.mechanisms import Geometric
    >>> from adversary.adversaries.plans import Level
    >>> table = verdicts(Plan([Level("block", Geometric(0.1))]), RiskProfile.difference(0.2))
    >>> table.attrs["status"], table["definition"].values.tolist()
    ('kept', ['privacy loss'])
    """
    given = guarantees or {}
    rows = {name: _of_plan(plan, profile, one, failure, statistic) for name, one in given.items()}
    rows[OWN] = own_verdict(plan, profile, failure, statistic)
    true = [name not in violated for name in rows]
    standing = {one.status for one, stands in zip(rows.values(), true, strict=True) if stands}
    best = recommend_epsilon(profile, statistic=statistic)
    columns = {name: [getattr(one, name) for one in rows.values()] for name in ("loss", "allowed", "failure", "status")}
    columns |= {"true": true, "words": [_words(plan, one) for one in rows.values()]}
    sure = plan.neighbours == "bounded" and profile.domain[0][0] < 1.0
    table = xr.Dataset(
        {
            **{name: ("definition", np.array(values)) for name, values in columns.items()},
            **{name: float(getattr(best, name)) for name in ("epsilon", "inclusion", "value")},
            "attained": bool(best.attained),
        },
        coords={"definition": list(rows)},
        attrs={
            "status": next(status for status in (KEPT, BROKEN, NOT_COVERED) if status in standing),
            "adversaries": SURE if sure else EVERY,
            "method": best.method,
            "recommendation": best.words,
            "words": profile.words,
            "statistic": statistic,
        },
    )
    for name, direction in (("loss", "upper"), ("allowed", "lower"), ("epsilon", "lower")):
        table[name].attrs["direction"] = direction
    return table


def _words(plan: Plan, one: Verdict) -> str:
    """A verdict in words, or the reason why a profile is not covered."""
    if one.status == NOT_COVERED and has_exact(plan):
        return "Something is published exactly, and no guarantee limits what that reveals: the profile is not covered."
    return one.words
