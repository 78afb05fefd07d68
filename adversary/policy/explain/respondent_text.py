"""Sentences for somebody whose data may be used: what is promised, how surely, and over several publications.

No symbols and no formulas. Beliefs are "so many in 100", changes are percentage points, and every number is an upper
bound, rounded up, or the lower end of an interval, rounded down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adversary._core import AT_A_TIME, ends, failing, holding, in_100, points
from adversary.driver import OWN
from adversary.policy.budget import (
    BROKEN,
    KEPT,
    Limit,
    Verdict,
    composed,
    limits_after,
    limits_of,
    releases_within,
    usual_limit,
)
from adversary.policy.explain.guarantee_names import of_the_release
from adversary.privacy import Guarantee
from adversary.privacy.losses import PrivacyLoss

DIGITS = 2

GROUPS = (
    "All this is about your data, not about what the results say of people in general: if they show what is common in "
    "a group you belong to, readers can apply that to you, and could do so if your data had not been used."
)
NOTHING = (
    "Nothing is promised about what the results may tell about you: a reader may become sure whether your data were "
    "used."
)

APART = "whose beliefs about everybody else do not hang on your data"
"""Readers whom a promise about one record covers."""

NOT_KEPT = (
    "It is promised that the results move what a reader believes about whether your data were used no further than a "
    "certain limit. There is too little chance in the results for this promise: some results move such beliefs "
    "further. Its limit is therefore not told here."
)
UNTOUCHED = "The results do not depend on your data: nobody's belief about whether they were used is changed by them."
WIDE = "this limit leaves practically every belief open"


def guarantee_told(guarantee: Guarantee, limits: Sequence[Limit], priors: Sequence[float] | None) -> Iterator[str]:
    """What is promised: the limit, whom it covers, how surely, and what it does not limit."""
    limit = limits[0]
    if not limit.exists:
        yield from _another(guarantee, limit, priors)
    elif limit.loss == 0.0:
        yield UNTOUCHED
        yield GROUPS
    else:
        yield (
            "Results are published that your data may be part of. They are made with a deliberate amount of chance, "
            "so that there is a limit, fixed beforehand, to what anyone can tell from them about whether your data "
            "were used."
        )
        yield " ".join([_change(limit), *(_example(limit, p) for p in priors or (0.5,))])
        yield _covered(guarantee)
        if certainty := " ".join([_certainty(limit), *(_tighter(other) for other in limits[1:])]).strip():
            yield certainty
        yield GROUPS


def _change(limit: Limit) -> str:
    most = points(limit.difference, DIGITS)
    if most == "100":
        return (
            "Reading the results may move what a reader believes about whether your data were used by up to 100 "
            f"percentage points: {WIDE}."
        )
    return (
        "Whatever a reader believed beforehand about whether your data were used, reading the results moves that "
        f"belief by at most {most} percentage points, up or down."
    )


def _example(limit: Limit, prior: float) -> str:
    who = f"Someone who starts at {in_100(prior, limit.finer)} in 100"
    if prior in (0.0, 1.0):
        return f"{who}, already sure, stays there."
    low, high = ends(prior, *limit.posterior_as_read(prior), digits=DIGITS)
    if (low, high) == ("0", "100"):
        return f"{who} may end anywhere between 0 and 100 in 100."
    return f"{who} ends no lower than {low} and no higher than {high} in 100."


def _covered(guarantee: Guarantee) -> str:
    who = (
        f"It covers every reader {APART}, even one who holds the complete data of everybody else and lacks only "
        "whether yours were used, whatever they work out from the results."
    )
    if of_the_release(guarantee):
        who = (
            "It covers a reader who holds the complete data of everybody else, lacks only whether yours were used, and "
            "looks at the results themselves, not only at something worked out from them. Readers who know less of "
            "the others may be told more."
        )
    return (
        f"This is an upper bound. {who} It applies whether your data were used or not, and "
        "also if your answer is the only one of its kind."
    )


def _certainty(limit: Limit) -> str:
    if limit.certain:
        return "" if points(limit.difference, DIGITS) == "100" else "For such a reader a larger change cannot happen."
    return (
        f"The limit holds {holding(limit.failure)}. The other times, {failing(limit.failure)}, the change may be "
        f"larger. This is counted {AT_A_TIME}."
    )


def _tighter(other: Limit) -> str:
    most = points(other.difference, DIGITS)
    return f"The change stays within {most} percentage points {holding(other.failure)}, counted {AT_A_TIME}."


def _another(guarantee: Guarantee, limit: Limit, priors: Sequence[float] | None) -> Iterator[str]:
    """Nothing is promised, or nothing at the failure that was asked for."""
    other = usual_limit(guarantee)
    if other is None:
        yield NOTHING
        return
    yield (
        f"No limit to what the results may tell about you holds {_surely(limit)}. What follows may fail "
        f"{failing(other.failure)}."
    )
    yield from guarantee_told(guarantee, (other,), priors)


def certainty_told(guarantee: Guarantee, limits: Sequence[Limit]) -> Iterator[str]:
    """Whether a larger change cannot happen, or is unlikely yet possible."""
    limit = limits[0] if limits[0].exists else usual_limit(guarantee)
    yield (
        "Promises of this kind come in two sorts. With one, a change of a reader's belief beyond the stated limit "
        "cannot happen. With the other, it is unlikely but possible."
    )
    if limit is None:
        yield f"Here there is neither. {NOTHING}"
        return
    most = points(limit.difference, DIGITS)
    belief = "what a reader believes about whether your data were used"
    if limit.certain:
        than = "at all" if limit.loss == 0.0 else f"by more than {most} percentage points"
        wide = f"; {WIDE}" if most == "100" else ""
        yield f"Yours is of the first sort: {belief} cannot change {than}, whatever the results turn out to be{wide}."
        return
    told = [
        f"Yours is of the second sort: {belief} changes by more than {most} percentage points {failing(limit.failure)}."
    ]
    stricter = limits_of(guarantee, limit.failure / 100.0)[0]
    if stricter.exists and points(stricter.difference, DIGITS) != most:
        told.append(
            f"It changes by more than {points(stricter.difference, DIGITS)} points {failing(stricter.failure)}."
        )
    yield " ".join([*told, "When the limit is passed, nothing is said about by how much."])


def composition_told(
    guarantee: Guarantee, releases: int, failure: float, prior: float, threshold: float
) -> Iterator[str]:
    """What several publications tell together, and how many stay below a threshold."""
    together = composed(guarantee, releases, failure)
    if not together.told:
        yield f"For {_several(releases)} nothing is promised: a reader may become sure whether your data were used."
        return
    if together.unmoved:
        yield "Further publications of this kind do not depend on your data either, however many there are."
        return
    yield "Every further publication from the same data lets readers learn more about whether yours were used. " + (
        f"{_together(together.told[0], releases)}{_once(guarantee, failure)}"
    )
    for limits in together.told[1:]:
        yield f"{_together(limits, releases)}{_once(guarantee, together.failure)}"
    if prior < threshold:
        yield _until(guarantee, together.failure, prior, threshold)
    if together.may_fail:
        yield f"What is not certain is counted {AT_A_TIME}."
    yield (
        f"These are upper bounds for every reader {APART}, over "
        + (
            "everything this noise may produce."
            if isinstance(guarantee, PrivacyLoss)
            else "all the ways of publishing that keep this protection. A particular one may stay below them."
        )
    )


def _together(limits: Sequence[Limit], releases: int) -> str:
    each = _several(releases)
    if not limits[0].exists:
        return f"For {each} no limit holds {_surely(limits[0])}."
    told = [f"{points(limit.difference, DIGITS)} percentage points, {_surely(limit)}" for limit in limits]
    return f"For {each} the limit is a change of at most {'; and of at most '.join(told)}."


def _several(releases: int) -> str:
    return "one publication" if releases == 1 else f"{releases:,} publications with this protection each, together,"


def _surely(limit: Limit) -> str:
    return "with certainty" if limit.certain else holding(limit.failure)


def _once(guarantee: Guarantee, failure: float) -> str:
    limit = limits_of(guarantee, failure)[0]
    if not limit.exists:
        return ""
    return f" For one alone it is {points(limit.difference, DIGITS)} percentage points, {_surely(limit)}."


def _until(guarantee: Guarantee, failure: float, prior: float, threshold: float) -> str:
    kept, final = releases_within(guarantee, prior, threshold, failure)
    surely = _surely(limits_of(guarantee, failure)[-1] if kept == 0 else limits_after(guarantee, kept, failure)[-1])
    reader = f"someone who starts at {in_100(prior)} in 100"
    if kept == 0:
        return f"Already after one publication the limit for {reader} is above {in_100(threshold)} in 100."
    more = f"; from {kept + 1:,} on the limit is above that" if final else ""
    count = "one publication" if kept == 1 else f"up to {kept:,} publications"
    return f"With {count}, {reader} ends no higher than {in_100(threshold)} in 100, {surely}{more}."


def not_kept(guarantee: Guarantee) -> Iterator[str]:
    """Of a promise that the results do not keep: that it is not kept, and nothing of its limit."""
    del guarantee
    yield NOT_KEPT


def verdict_told(found: Verdict) -> Iterator[str]:
    """Whether what was decided is kept; no symbols, no formulas."""
    what = "The chance in the results" if found.definition == OWN else "The protection that is promised"
    sure = "who is sure that your data are used and whose beliefs about everybody else do not hang on them"
    readers = f"every reader {APART if found.neighbours == 'unbounded' else sure}"
    anybody = "every reader" if found.neighbours == "unbounded" else "every reader who is sure that your data are used"
    search = ", as far as a search has found" if found.searched else ""
    if found.status == KEPT:
        surely = (
            "; none of them can be brought beyond it"
            if found.failure == 0.0
            else f", {holding(found.failure)}, {AT_A_TIME}"
        )
        text = f"{what} keeps within that {readers}{search}{'' if search and not found.failure else surely}."
    elif found.status == BROKEN:
        even = "" if found.failure == 0.0 else f", even if it may fail {failing(found.failure)}"
        text = f"{what} is not enough to keep {anybody} within that{even}."
    else:
        text = "It is about readers of whom this protection says nothing."
    yield f"It was decided beforehand how far the results may raise anyone's belief about you. {text}"
