"""Sentences for somebody whose data may be used: what is promised, how surely, and over several publications.

No symbols and no formulas. Beliefs are "so many in 100", changes are percentage points, and every number is an upper
bound, rounded up, or the lower end of an interval, rounded down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adversary.policy.limits import USUAL, Limit, limits_after, limits_of, releases_within, usual_limit
from adversary.policy.phrases import ends, failing, holding, in_100, points
from adversary.policy.titles import of_the_release
from adversary.privacy.guarantees import Guarantee
from adversary.privacy.pairs import PrivacyLoss

DIGITS = 2

GROUPS = (
    "All this is about your data, not about what the results say of people in general: if they show what is common in "
    "a group you belong to, readers can apply that to you, and could do so if your data had not been used."
)
NOTHING = (
    "Nothing is promised about what the results may tell about you: a reader may become sure whether your data were "
    "used."
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
    about = "whatever they work out from the results"
    if of_the_release(guarantee):
        about = "as long as they look at the results themselves, not only at something worked out from them"
    return (
        "This is an upper bound. It covers every reader, even one who holds the complete data of everybody else and "
        f"lacks only whether yours were used, {about}. It applies whether your data were used or not, and also if "
        "your answer is the only one of its kind."
    )


def _certainty(limit: Limit) -> str:
    if limit.certain:
        return "" if points(limit.difference, DIGITS) == "100" else "A larger change cannot happen."
    return (
        f"The limit holds {holding(limit.failure)}. The other times, {failing(limit.failure)}, the change may be "
        "larger."
    )


def _tighter(other: Limit) -> str:
    return f"The change stays within {points(other.difference, DIGITS)} percentage points {holding(other.failure)}."


def _another(guarantee: Guarantee, limit: Limit, priors: Sequence[float] | None) -> Iterator[str]:
    """Nothing is promised, or nothing at the failure that was asked for."""
    other = usual_limit(guarantee)
    if other is None:
        yield NOTHING
        return
    how_often = "with certainty" if limit.certain else holding(limit.failure)
    yield (
        f"No limit to what the results may tell about you holds {how_often}. What follows may fail "
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
    limits = limits_after(guarantee, releases, failure)
    if not limits[0].exists and usual_limit(guarantee) is None:
        yield "Several such publications promise nothing either."
        return
    if limits[0].loss == 0.0:
        yield "Further publications of this kind do not depend on your data either, however many there are."
        return
    yield (
        "Every further publication from the same data lets readers learn more about whether yours were used. "
        f"{_together(limits, releases)}{_once(guarantee, failure)}"
    )
    if not limits[0].exists and failure < USUAL and usual_limit(guarantee):
        failure, limits = USUAL, limits_after(guarantee, releases, USUAL)
        yield f"{_together(limits, releases)}{_once(guarantee, failure)}"
    if limits[-1].exists and prior < threshold:
        yield _until(guarantee, failure, prior, threshold)
    yield (
        "These are upper bounds for every reader, over "
        + (
            "everything this noise may produce."
            if isinstance(guarantee, PrivacyLoss)
            else "all the ways of publishing that keep this protection. A particular one may stay below them."
        )
    )


def _together(limits: Sequence[Limit], releases: int) -> str:
    each = "one publication" if releases == 1 else f"{releases:,} publications with this protection each, together,"
    if not limits[0].exists:
        how_often = "with certainty" if limits[0].certain else holding(limits[0].failure)
        return f"For {each} no limit holds {how_often}."
    told = [f"{points(limit.difference, DIGITS)} percentage points, {_surely(limit)}" for limit in limits]
    return f"For {each} the limit is a change of at most {'; and of at most '.join(told)}."


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
