"""Whether a guarantee keeps a risk profile: its equivalent epsilon beside the profile's own.

For unbounded neighbours, a record added or removed, the two compare as they are. Bounded neighbours, a record replaced
while the size of the data is public, say nothing of who is in the data: only readers who are sure that the target is in
are covered, and for them "in S" and "in, not in S" are one step apart, not two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from adversary._core import check_probability, failure_of, outward, uncrossed
from adversary.policy.budget.equivalents import equivalent_epsilon
from adversary.policy.budget.recommend import SEARCH, SEARCHED, UNCONSTRAINED, recommend_epsilon
from adversary.policy.budget.risk_bounds import check_word
from adversary.policy.budget.risk_profile import RiskProfile
from adversary.privacy import TOLERANCE, Guarantee
from adversary.privacy.losses import check_guarantee
from adversary.reader.plans import NEIGHBOURS

KEPT, BROKEN, NOT_COVERED = "kept", "broken", "not covered"


@dataclass(frozen=True)
class Verdict:
    """A guarantee judged by a risk profile.

    Parameters
    ----------
    definition : of the guarantee
    loss : what the guarantee is worth, an epsilon in nats; infinite where it bounds nothing at this failure
    allowed : what the profile allows, in the same unit; infinite where it asks for nothing, NaN where it asks for less
        than no information
    failure : probability, under every truth, of a release beyond the profile; 0 where it is kept for certain
    status : "kept", to a relative 1e-9; "broken"; "not covered", the profile asks only of readers of whom the
        guarantee does not speak
    profile, neighbours : what was judged, in words, and for which neighbours
    searched : whether `allowed` was found by a search that proves nothing of readers it did not meet
    """

    definition: str
    loss: float
    allowed: float
    failure: float
    status: str
    profile: str = ""
    neighbours: str = "unbounded"
    searched: bool = False

    @property
    def kept(self) -> bool:
        """Whether the status is "kept"."""
        return self.status == KEPT

    @property
    def words(self) -> str:
        """The verdict in a sentence or two, losses rounded outward."""
        chance = failure_of(self.failure)
        if self.status == NOT_COVERED:
            return (
                f"The guarantee ({self.definition}, records replaced) says nothing of readers who are unsure whether "
                f"the person is in the data, and the profile ({self.profile}) asks of no others."
            )
        covered = "" if self.neighbours == "unbounded" else " of readers who are sure that the person is in the data"
        found = f" {SEARCHED}" if self.searched else ""
        if self.allowed == np.inf:
            return f"The profile ({self.profile}) asks nothing{covered}: every guarantee keeps it.{found}"
        if not self.allowed > 0.0 and not self.kept:
            return f"No release keeps the profile ({self.profile}): it asks for no information at all, or for less."
        who = "the release itself" if self.definition == "privacy loss" else f"the guarantee ({self.definition})"
        worth, allows = self._sides()
        told = f"{who} {worth} {chance}, and the profile ({self.profile}) allows {allows}{covered}."
        others = " It says nothing of other readers." if covered else ""
        return f"{'Kept' if self.kept else 'Broken'}: {told}{others}{found}"

    def _sides(self) -> tuple[str, str]:
        """The two losses in words: rounded outward, to as many digits as show which is the larger."""
        if self.loss == np.inf:
            return "bounds no privacy loss", outward(self.allowed, False)
        plainly = outward(self.loss, True), outward(self.allowed, False)
        shown = uncrossed(self.loss, self.allowed, range(4, 10)) if self.kept else plainly
        loss, allowed = shown or (plainly[0], "just that")
        return f"bounds the privacy loss by {loss}", allowed


def verdict(
    profile: RiskProfile,
    guarantee: Guarantee,
    failure: float = 0.05,
    *,
    statistic: str = "any",
    neighbours: str = "unbounded",
    two: Guarantee | None = None,
) -> Verdict:
    """Whether a guarantee keeps a profile, for certain if it can, else but for a failure probability.

    Of readers who believe the same of everybody else's records whatever is true of the target.

    Parameters
    ----------
    failure : probability allowed of a release beyond the profile
    statistic : what is published, "any" thing or one "count" of the people in S
    neighbours : of the guarantee; "bounded" is judged on the readers with inclusion prior 1 alone, who are allowed a
        loss of 2 epsilon between any two records (epsilon for one count)
    two : the guarantee for hypotheses two records apart, where it is known better than as `guarantee.group(2)`

    >>> from adversary.privacy.definitions import PureDP
    >>> found = verdict(RiskProfile.difference(0.2), PureDP(0.5))
    >>> found.status, found.loss, round(found.allowed, 6)
    ('broken', 0.5, 0.405465)
    """
    check_guarantee("guarantee", guarantee)
    chance = float(check_probability("failure", failure))
    replaced = check_word("neighbours", neighbours, NEIGHBOURS) == "bounded"
    found = recommend_epsilon(profile, statistic=statistic)
    asked = found.status
    if replaced:
        found = recommend_epsilon(profile.within(inclusion=(1.0, 1.0)), statistic=statistic)
    values = statistic == "any" and profile.about_values and not replaced
    allowed = found.loss * (2.0 if replaced and statistic == "any" else 1.0)
    limit = allowed * (1.0 + TOLERANCE)
    certain, loss = (equivalent_epsilon(guarantee, f, values=values, two=two) for f in (0.0, chance))
    if certain <= limit or loss >= certain * (1.0 - TOLERANCE) < np.inf:
        chance, loss = 0.0, certain
    status = KEPT if loss <= limit else BROKEN
    if replaced and found.status == UNCONSTRAINED and asked != UNCONSTRAINED:
        status = NOT_COVERED
    searched = found.method == SEARCH
    return Verdict(guarantee.definition, loss, allowed, chance, status, profile.words, neighbours, searched)
