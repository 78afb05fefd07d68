"""Sentences for a regulator: the numbers in percent at a few priors, a base rate and the worst one among them.

No formulas. Upper ends are rounded up and lower ends down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from adversary._core import (
    AT_A_TIME,
    PERCENT,
    decimals_for,
    ends,
    in_100,
    listed,
    percentage,
    plain,
    points,
    sentence,
    tidy,
)
from adversary.driver import OWN
from adversary.policy.budget import (
    BROKEN,
    KEPT,
    Limit,
    Verdict,
    composed,
    limits_after,
    releases_within,
    stricter,
    usual_limit,
)
from adversary.policy.explain.guarantee_names import of_the_release, stands_for
from adversary.privacy import Guarantee
from adversary.privacy.losses import PrivacyLoss

PRIORS = (0.01, 0.1, 0.5)
"""Where readers start, unless told: two base rates, and one who finds both as likely."""

MANY = 1e6
"""Ratios above this are not spelled out."""

TINY = 1e-3
"""Worst priors below this are not spelled out."""

GROUPS = (
    "What the release teaches about people in general, or about a group, is not limited: conclusions about a person "
    "that would be drawn just as well without their record."
)


def guarantee_told(guarantee: Guarantee, limits: Sequence[Limit], priors: Sequence[float] | None) -> Iterator[str]:
    """What is promised at a few priors, for certain or but for a failure."""
    if guarantee.vacuous:
        yield f"{stands_for(guarantee)} {NOTHING}"
        return
    if of_the_release(guarantee):
        yield (
            f"{stands_for(guarantee)} That limits what a reader who holds the complete records of everybody else can "
            "conclude from the release, exactly as it is published, about whether one person's record is in the data. "
            "Readers who know less of the others, and what is computed from the release, are not covered."
        )
    else:
        yield (
            f"{stands_for(guarantee)} That limits what any reader can conclude from the release, and from anything "
            "computed from it, about whether one person's record is in the data. The reader may hold the complete "
            f"records of everybody else. Covered is every reader {APART}."
        )
    limit = limits[0]
    if not limit.exists:
        other = usual_limit(guarantee)
        if other is None:
            yield NOTHING
            return
        yield f"No bound on beliefs holds {_asked(limit)}. What follows may fail in at most {_often(other)}."
        limit = other
    yield from _bounds(limit, priors or PRIORS)
    for other in limits[1:]:
        yield (
            f"But for at most {_often(other)}, the change is smaller: at most {points(other.difference)} percentage "
            f"points from any start. That share is {AT_A_TIME}."
        )
    yield GROUPS


APART = "whose beliefs about everybody else do not hang on this person"
"""Readers whom a promise about one record covers."""

NOTHING = "Nothing is promised: every belief is possible after the release."


def _bounds(limit: Limit, priors: Sequence[float]) -> Iterator[str]:
    truths = "whether the record is in truth in the data or not"
    if limit.certain:
        yield f"The following are upper bounds for every release, {truths}. They cannot be exceeded."
    else:
        yield (
            f"The following are upper bounds that hold but for at most {_often(limit)}, {truths}. In those a belief "
            f"may move further. The share is {AT_A_TIME}."
        )
    if limit.loss == 0.0:
        yield "Every belief stays where it was: the release does not depend on any one record."
        return
    yield (
        "A reader who only knows how common it is to be in the data starts at that share, the base rate; one to whom "
        f"both seem as likely starts at 50{PERCENT}. {sentence('; '.join(_interval(limit, p) for p in priors))}."
    )
    yield _worst(limit)
    yield _ratios(limit, priors)


def belief(p: float, finer: int = 0) -> str:
    """A belief in percent, to the nearest: where a reader starts."""
    return in_100(p, finer) + PERCENT


def _interval(limit: Limit, prior: float) -> str:
    if prior in (0.0, 1.0):
        return f"from {belief(prior)} a belief does not move"
    low, high = ends(prior, *limit.posterior_as_read(prior))
    return f"from {belief(prior, limit.finer)} a belief ends between {low}{PERCENT} and {high}{PERCENT}"


def _worst(limit: Limit) -> str:
    """The start that moves most, as it is written, and the bound there."""
    most = points(limit.difference)
    if most == "100":
        return "From the worst start the change may be up to 100 percentage points: next to nothing is ruled out."
    shown = stated(limit.worst_prior)
    start = float(shown / 100)
    if start < TINY:
        return (
            f"From any start the change is at most {most} percentage points; it is largest from starts near 0 or "
            f"100{PERCENT}."
        )
    high = ends(start, *limit.posterior(start))[1]
    low = ends(1.0 - start, *limit.posterior(1.0 - start))[0]
    return (
        f"The worst start for a rise is about {tidy(shown)}{PERCENT}, from where a belief may rise to {high}{PERCENT}; "
        f"the worst for a fall is about {tidy(100 - shown)}{PERCENT}, from where it may fall to {low}{PERCENT}. From "
        f"any start the change is at most {most} percentage points."
    )


def stated(prior: float) -> Decimal:
    """A prior in percent to three significant digits, as it will be read: what is said of it is worked out there."""
    return (100 * Decimal(repr(prior))).quantize(Decimal(1).scaleb(-decimals_for(prior)))


def _ratios(limit: Limit, priors: Sequence[float]) -> str:
    digits, inside = 3 + limit.finer, [p for p in priors if 0.0 < p < 1.0]
    found = [
        f"at most {plain(limit.ratio_as_read(p), True, digits)} from {belief(p, limit.finer)}"
        for p in inside
        if limit.ratio(p) <= MANY
    ]
    if limit.ratio() <= MANY:
        found.append(f"at most {plain(limit.ratio(), True, digits)} from any start")
    else:
        found.append("without a useful bound where the start is near 0")
    return (
        f"As a ratio, the belief after over the belief before is {listed(found)}. The largest ratios belong to the "
        "smallest starting beliefs, where many times as much can still be few percentage points."
    )


def _often(limit: Limit) -> str:
    return f"{percentage(limit.failure, True)} of releases"


def _surely(limit: Limit) -> str:
    return "for certain" if limit.certain else f"but for at most {_often(limit)}"


def _asked(limit: Limit) -> str:
    return "for certain" if limit.certain else f"with a failure in as few as {_often(limit)}"


def certainty_told(guarantee: Guarantee, limits: Sequence[Limit]) -> Iterator[str]:
    """Pure or approximate: whether a bound cannot be exceeded, or is exceeded with a small probability."""
    limit = limits[0] if limits[0].exists else usual_limit(guarantee)
    yield (
        "Under a pure promise a change of belief beyond the bound cannot happen, whatever is released. Under an "
        "approximate one it is unlikely but possible."
    )
    if limit is None:
        yield f"Here there is neither. {NOTHING}"
        return
    most = points(limit.difference)
    if limit.certain:
        yield (
            f"{stands_for(guarantee)} It is of the first sort: no belief about one record changes "
            f"{'at all' if limit.loss == 0.0 else f'by more than {most} percentage points'}."
        )
        return
    every = {points(one.difference): one for one in stricter(guarantee, limit)}
    told = [f"{most} points in at most {_often(one)}" for most, one in every.items()]
    yield (
        f"{stands_for(guarantee)} It is of the second sort. A belief about one record changes by more than "
        f"{listed(told)}, counted {AT_A_TIME}. How far it moves in those releases is not limited."
    )


def composition_told(
    guarantee: Guarantee, releases: int, failure: float, prior: float, threshold: float
) -> Iterator[str]:
    """Several releases together, and how many stay below a threshold."""
    together = composed(guarantee, releases, failure)
    if not together.told:
        yield f"{_several(releases)}: {NOTHING[:1].lower()}{NOTHING[1:]}"
        return
    if together.unmoved:
        yield "Further releases of this kind do not depend on any one record either, however many there are."
        return
    yield (
        "Releases from the same data, each with noise of its own, add up. "
        f"{stands_for(guarantee).replace('The release', 'Each release')}"
    )
    for limits in together.told:
        yield from _together(limits, releases, prior)
    if prior < threshold:
        yield _until(guarantee, together.failure, prior, threshold)
    if together.may_fail:
        yield f"Shares of releases are {AT_A_TIME}."
    yield over_all(guarantee)


def _several(releases: int) -> str:
    return "One release" if releases == 1 else f"{releases:,} releases together"


def _together(limits: Sequence[Limit], releases: int, prior: float) -> Iterator[str]:
    together = _several(releases)
    if not limits[0].exists:
        yield f"For {together[:1].lower()}{together[1:]} no bound on beliefs holds {_asked(limits[0])}."
        return
    for limit in limits:
        low, high = ends(prior, *limit.posterior_as_read(prior))
        yield (
            f"{together}, {_surely(limit)}: a belief changes by at most {points(limit.difference)} percentage points, "
            f"and one of {belief(prior, limit.finer)} ends between {low}{PERCENT} and {high}{PERCENT}."
        )


def _until(guarantee: Guarantee, failure: float, prior: float, threshold: float) -> str:
    kept, final = releases_within(guarantee, prior, threshold, failure)
    if kept == 0:
        return f"The bound on a belief of {belief(prior)} is above {belief(threshold)} from the first release on."
    limit = limits_after(guarantee, kept, failure)[-1]
    more = f" From release {kept + 1:,} on the bound is above that." if final else ""
    count = "One release keeps" if kept == 1 else f"Up to {kept:,} releases keep"
    return f"{count} a belief of {belief(prior)} at or below {belief(threshold)}, {_surely(limit)}.{more}"


def over_all(guarantee: Guarantee) -> str:
    """Over what the bounds of several releases are bounds."""
    if isinstance(guarantee, PrivacyLoss):
        return f"These are upper bounds for this noise, against every reader {APART}."
    return (
        f"These are upper bounds over all mechanisms with this guarantee, against every reader {APART}, such as one "
        "who knows everybody else; a particular mechanism may stay below them."
    )


def not_kept(guarantee: Guarantee) -> Iterator[str]:
    """Of a promise that the noise does not keep: that it is not kept, and nothing of its limits."""
    yield (
        f"It is promised that the release keeps {guarantee.describe()}. The noise does not keep this promise: some "
        "releases move beliefs further than it allows. What it would limit is therefore not told here."
    )


def verdict_told(found: Verdict) -> Iterator[str]:
    """Whether a tolerance is kept, with the name of the definition and what is tolerated."""
    what = "The noise itself" if found.definition == OWN else f"The promise ({found.definition})"
    readers = "" if found.neighbours == "unbounded" else " of readers who are sure that the person is in the data"
    share = f"at most {percentage(found.failure, True)} of releases"
    search = ", as far as a search without certificate has found" if found.searched else ""
    if found.status == KEPT:
        surely = "for certain" if found.failure == 0.0 else f"but for {share}, {AT_A_TIME}"
        text = f"keeps the tolerance{readers} {surely}{search}. Covered is every reader {APART}"
    elif found.status == BROKEN:
        even = "" if found.failure == 0.0 else f", even if it may fail in {share}"
        text = f"does not keep the tolerance{readers}{even}"
    else:
        text = "says nothing of the readers whom the tolerance is about"
    yield f"{what} {text}. The tolerance: {found.profile}."
