"""Why an epsilon was chosen, and whether a promise keeps what was decided, in sentences.

A recommendation is told by readers: where each starts, how far the bound of Theorem 4 at that epsilon lets them rise,
and what the profile tolerates of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from adversary.driver import OWN
from adversary.policy.phrases import (
    DECIMALS,
    PERCENT,
    decimals_for,
    exactly,
    failing,
    holding,
    in_100,
    in_percent,
    outward,
)
from adversary.policy.recommendations import BOUNDED, UNCONSTRAINED, Recommendation
from adversary.policy.regulators import GROUPS, PRIORS, belief
from adversary.policy.risks import absolute_risk_bound
from adversary.policy.titles import percentage
from adversary.policy.verdicts import BROKEN, KEPT, Verdict

SAME = 1e-12
"""What is reached and what is tolerated count as equal within this relative difference: they were solved for."""

METHODS = {"closed": "a closed form", "certified search": "a certified search", "search": "a search"}

FORMULAS = {
    "any": "R = 1 / (p q + exp(-2 epsilon) p (1 - q) + exp(-epsilon) (1 - p))",
    "count": "R = 1 / (p q + exp(-epsilon) (1 - p q)), of one published count",
}


@dataclass(frozen=True)
class Rise:
    """How far a recommendation lets one reader rise, and what is tolerated of them.

    `start` is p q, `reached` an upper bound on the posterior at the recommended epsilon, `tolerated` p q r*(p, q).
    """

    inclusion: float
    value: float
    start: float
    reached: float
    tolerated: float

    @classmethod
    def of(cls, found: Recommendation, inclusion: float, value: float) -> Rise:
        """Of the reader with these priors."""
        start = inclusion * value
        most = min(1.0, start * float(found.profile(inclusion, value)))
        high = float(absolute_risk_bound(inclusion, value, found.epsilon, statistic=found.statistic))
        return cls(inclusion, value, start, most if abs(high - most) <= SAME * most else high, most)

    def shown(self, digits: int) -> tuple[str, str]:
        """(reached, rounded up; tolerated, rounded down), times 100, fine enough not to cross."""
        least = decimals_for(self.reached - self.start, digits=digits)
        for decimals in range(least, max(least, DECIMALS) + 1):
            up, down = in_percent(self.reached, True, decimals), in_percent(self.tolerated, False, decimals)
            if float(up) <= float(down):
                break
        else:  # equal, and not a round number
            down = up
        return up, down


def rises(found: Recommendation, priors: Sequence[float] | None) -> list[Rise]:
    """The reader who binds, where there is one, and readers with the priors asked for whom the profile is about.

    Where values are in question the priors are of the value, for readers as sure of inclusion as the profile has them;
    otherwise they are of inclusion.
    """
    (p0, p1), (q0, q1) = found.profile.domain
    about_values = found.profile.about_values
    asked = [(p1, prior) if about_values else (prior, 1.0) for prior in (PRIORS if priors is None else priors)]
    pairs = [(p, q) for p, q in asked if p0 <= p <= p1 and q0 <= q <= q1 and p * q > 0.0]
    binding = [(found.inclusion, found.value)] if found.attained else []
    every = [Rise.of(found, p, q) for p, q in dict.fromkeys([*binding, *pairs])]
    return [one for one in every if one.tolerated < 1.0 or one.start < 1.0]


# The person in the data


def budget_respondent(found: Recommendation, priors: Sequence[float] | None) -> Iterator[str]:
    """What was decided, how far readers may rise, and what is not counted; no symbols, no formulas."""
    values = found.profile.about_values
    what = "your data are used and that your answer is one of those that could harm you" if values else BEING_IN
    yield (
        "Before anything is published it was decided how far the results may raise anyone's belief about you: the "
        f"belief that {what}."
    )
    if found.status == UNCONSTRAINED:
        yield "No results could bring anyone beyond what was decided, so it asks for no protection."
        return
    if found.status != BOUNDED or found.epsilon == 0.0:
        yield "What was decided cannot be kept by any results that depend on the data."
        return
    known = "" if found.method != "search" else ", as far as a search has found,"
    yield (
        "The results are made with a deliberate amount of chance, as much as is needed so that "
        f"nobody{known} is brought beyond it. {' '.join(_rise_respondent(rise) for rise in rises(found, priors))}"
    ).rstrip()
    yield (
        "These are upper bounds and cannot be exceeded. They cover every reader about whom it was decided, even one "
        "who holds the complete data of everybody else, and whatever is worked out from the results."
    )
    yield (
        "They do not count what the results say of people in general: if they show what is common in a group you "
        "belong to, readers can apply that to you, and could do so if your data had not been used."
    )


BEING_IN = "your data are used"


def _rise_respondent(rise: Rise) -> str:
    reached, tolerated = rise.shown(2)
    allowed = "which is what was decided" if reached == tolerated else f"and up to {tolerated} was decided"
    if rise.tolerated == 1.0:
        allowed = "and for readers with that start no limit was decided"
    return f"Someone who starts at {in_100(rise.start)} in 100 ends no higher than {reached} in 100, {allowed}."


# The regulator


def budget_regulator(found: Recommendation, priors: Sequence[float] | None) -> Iterator[str]:
    """The tolerance, the epsilon and what it does to a few readers, in percent."""
    yield f"The tolerance: {found.profile.words}."
    if found.status == UNCONSTRAINED:
        yield "It asks for nothing: no release, however exact, brings a reader it is about beyond it."
        return
    if found.status != BOUNDED or found.epsilon == 0.0:
        yield "No release that depends on the data keeps it."
        return
    certified = "" if found.method != "search" else ", as far as a search without certificate has found,"
    yield (
        f"The largest epsilon of pure differential privacy that keeps it{certified} is {_epsilon(found)}"
        f"{'' if found.round_down is None else ', rounded down'}. Records are added or removed."
    )
    if told := [_rise(rise) for rise in rises(found, priors)]:
        yield f"Upper bounds, which hold for every release: {'; '.join(told)}."
    yield _binding(found)
    yield GROUPS


def _epsilon(found: Recommendation) -> str:
    return outward(found.epsilon, False) if found.round_down is None else exactly(found.epsilon)


def _rise(rise: Rise) -> str:
    reached, tolerated = rise.shown(3)
    allowed = f"where up to {tolerated}{PERCENT} is tolerated" if rise.tolerated < 1.0 else "where nothing is asked"
    return f"a reader who gives {_starts(rise.inclusion, rise.value)} may come to at most {reached}{PERCENT}, {allowed}"


def _starts(inclusion: float, value: float) -> str:
    """Starting beliefs of a reader; only that of inclusion where the value is not in question."""
    being_in = f"{belief(inclusion)} to the person being in the data"
    if value == 1.0:
        return being_in
    return f"{being_in} and {belief(value)} to a sensitive value if so, together {belief(inclusion * value)},"


def _binding(found: Recommendation) -> str:
    who = _starts(found.inclusion, found.value).rstrip(",")
    if found.attained:
        return f"The reader who needs it is one who gives {who}."
    return f"No single reader needs it: it is approached by readers who tend to give {who}."


# Who keeps the data


def budget_curator(found: Recommendation, priors: Sequence[float] | None) -> Iterator[str]:
    """The recommendation, its formula, method, bracket and assumptions."""
    yield found.words
    yield (
        "p is the prior of inclusion, q that of a value in S given inclusion, r the ratio of the posterior of both to "
        f"p q. Under pure epsilon-DP for records added or removed, r <= {FORMULAS[found.statistic]}, under every "
        "truth and for every release. The worst case is a reader who holds everybody else's complete records; assumed "
        "is that the reader knows the mechanism and believes the same of the others whatever the target's record is."
    )
    low, high = found.bracket
    if found.status == BOUNDED:
        yield (
            f"Found by {METHODS[found.method]}; the infimum over readers lies between {outward(low, False)} and "
            f"{outward(high, True)}{'' if low > 0.0 else ', the lower end without certificate'}."
        )
        if found.epsilon > 0.0 and (every := rises(found, priors)):
            yield f"Rounded outward: {'; '.join(_rise_curator(rise) for rise in every)}."
    yield GROUPS


def _rise_curator(rise: Rise) -> str:
    reached, tolerated = rise.shown(4)
    return (
        f"p = {exactly(rise.inclusion)}, q = {rise.value:.6g}: posterior at most {reached}{PERCENT}, tolerated "
        f"{tolerated}{PERCENT}"
    )


# Whether a promise keeps it


def verdict_respondent(found: Verdict) -> Iterator[str]:
    """Whether what was decided is kept; no symbols, no formulas."""
    before = "It was decided beforehand how far the results may raise anyone's belief about you."
    what = "The chance in the results" if found.definition == OWN else "The protection that is promised"
    readers = "every reader" if found.neighbours == "unbounded" else "every reader who is sure that your data are used"
    if found.status == KEPT:
        surely = "; this cannot be exceeded" if found.failure == 0.0 else f", {holding(found.failure)}"
        yield f"{before} {what} keeps {readers} within that{surely}."
    elif found.status == BROKEN:
        even = "" if found.failure == 0.0 else f", even if it may fail {failing(found.failure)}"
        yield f"{before} {what} is not enough to keep {readers} within that{even}."
    else:
        yield f"{before} It is about readers of whom this protection says nothing."


def verdict_regulator(found: Verdict) -> Iterator[str]:
    """The same with the name of the definition and what was tolerated."""
    what = "The noise itself" if found.definition == OWN else f"The promise ({found.definition})"
    readers = "" if found.neighbours == "unbounded" else " of readers who are sure that the person is in the data"
    share = f"at most {percentage(found.failure, True)} of releases"
    if found.status == KEPT:
        text = f"keeps the tolerance{readers} {'for certain' if found.failure == 0.0 else 'but for ' + share}"
    elif found.status == BROKEN:
        even = "" if found.failure == 0.0 else f", even if it may fail in {share}"
        text = f"does not keep the tolerance{readers}{even}"
    else:
        text = "says nothing of the readers whom the tolerance is about"
    yield f"{what} {text}. The tolerance: {found.profile}."


def verdict_curator(found: Verdict) -> Iterator[str]:
    """The losses compared."""
    yield found.words
    if np.isfinite(found.allowed) and np.isfinite(found.loss):
        yield (
            "Compared are the epsilon that the guarantee is worth, the smallest whose bound on every reader it keeps "
            f"but for failure {exactly(found.failure)} under every truth, and the largest that the profile allows."
        )
