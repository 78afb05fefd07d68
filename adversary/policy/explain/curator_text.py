"""Sentences for who keeps the data: prior, worst case, definition and parameters, formulas, failure, both truths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from adversary._core import AT_A_TIME, PERCENT, exactly, outward, outward_percent
from adversary.policy.budget import Limit, Verdict, composed, releases_within, stricter, usual_limit
from adversary.policy.explain.guarantee_names import of_the_release, stands_for, wider
from adversary.policy.explain.regulator_text import GROUPS, PRIORS, over_all
from adversary.privacy import Guarantee
from adversary.privacy.definitions import PureDP
from adversary.privacy.losses import PrivacyLoss

DIGITS = 4

SETTING = (
    "P and Q are the laws of the release under two hypotheses that differ in one record (the target's record is in the "
    "data, or it is not), and p is a reader's prior of the first. "
)
WORST = (
    "The worst case is a reader who holds everybody else's complete records, knows the mechanism and lacks only this; "
    "readers whose beliefs about the others do not depend on the target are covered too."
)
INFORMED = (
    "Covered is the reader who holds everybody else's complete records, knows the mechanism and lacks only this; one "
    "who is unsure of the others sees the release averaged over them, which is post-processing, and may learn more."
)


def guarantee_told(guarantee: Guarantee, limits: Sequence[Limit], priors: Sequence[float] | None) -> Iterator[str]:
    """Definition, setting, bound with its formula and failure, values at a few priors, worst priors."""
    yield f"{stands_for(guarantee)} {guarantee.meaning}".rstrip()
    yield SETTING + (INFORMED if of_the_release(guarantee) else WORST)
    limit = limits[0]
    if not limit.exists:
        other = usual_limit(guarantee)
        if guarantee.vacuous or other is None:
            yield "No bound on the posterior X of the first hypothesis holds but 0 <= X <= 1."
            return
        yield f"No bound on the privacy loss holds {_asked(limit)}; at failure {exactly(other.failure)}:"
        limit = other
    yield f"{_formula(limit)} {wider(guarantee)}"
    if limit.loss == 0.0:
        yield "So X = p at every prior: the release does not depend on the record."
    else:
        yield f"Rounded outward: {'; '.join(_row(limit, p) for p in priors or PRIORS)}."
        yield _worst(limit)
    for other in limits[1:]:
        yield (
            f"And {_surely(other)}, e = {outward(other.loss, True)} and |X - p| <= {outward(other.difference, True)}."
        )
    counted = [f"A failure is counted {AT_A_TIME}."] * any(not one.certain for one in limits)
    yield " ".join([*_household(guarantee, limit), _after(guarantee), *counted])
    yield GROUPS


def _formula(limit: Limit) -> str:
    return (
        f"Upper bound on the privacy loss, |log(P / Q)| <= e = {outward(limit.loss, True)} nats, {_surely(limit)}. The "
        "posterior X then lies in p / (p + (1 - p) exp(e)) <= X <= p / (p + (1 - p) exp(-e)), that is, logit X within "
        "e of logit p; the ratio X / p lies between exp(-e) and exp(e) at every prior, and |X - p| <= tanh(e / 4)."
    )


def _surely(limit: Limit) -> str:
    """Certainty or failure, under both truths."""
    if limit.certain:
        return "for certain, under both truths (a release drawn from P or from Q)"
    return f"but for a probability of at most {exactly(limit.failure)} under each truth (a release drawn from P or Q)"


def _asked(limit: Limit) -> str:
    return "for certain" if limit.certain else f"with a failure probability as small as {exactly(limit.failure)}"


def _row(limit: Limit, prior: float) -> str:
    low, high = (float(end) for end in limit.posterior(prior))
    digits = DIGITS + limit.finer
    shown = f"{outward_percent(low, False, digits)} to {outward_percent(high, True, digits)}{PERCENT}"
    return f"p = {exactly(prior)}: X in {shown}, ratio at most {outward(limit.ratio(prior), True, digits)}"


def _worst(limit: Limit) -> str:
    p = limit.worst_prior
    return (
        f"Worst priors: the rise X - p is largest, at most {outward(limit.difference, True)}, at p = 1 / (1 + "
        f"exp(e / 2)) = {p:.4g}; the fall p - X, as much, at 1 / (1 + exp(-e / 2)) = {1.0 - p:.4g}; the ratio as p "
        f"tends to 0, at most {outward(limit.ratio(), True, DIGITS + limit.finer)}."
    )


def _household(guarantee: Guarantee, limit: Limit) -> Iterator[str]:
    """Two records that change together; of a computed loss the plan knows better."""
    if isinstance(guarantee, PrivacyLoss):
        return
    e = float(guarantee.group(2).loss_bound(limit.failure))
    told = f"is at most {outward(e, True)} nats" if np.isfinite(e) else "has no bound"
    at = "for certain" if limit.certain else "at the same failure"
    yield f"For hypotheses that differ in two records the privacy loss {told}, {at}."


def _after(guarantee: Guarantee) -> str:
    if of_the_release(guarantee):
        return "These bounds speak of the release itself and do not survive post-processing."
    return "These bounds survive any post-processing."


def certainty_told(guarantee: Guarantee, limits: Sequence[Limit]) -> Iterator[str]:
    """Pure or approximate: on what the bound depends, and whether it may be exceeded."""
    limit = limits[0] if limits[0].exists else usual_limit(guarantee)
    yield (
        "Under a pure guarantee |log(P / Q)| <= epsilon for every release, so that the bound on the posterior depends "
        "on epsilon alone and is never exceeded. Under an approximate one (approximate, zero-concentrated, Gaussian, "
        "Renyi) the bound e depends on all parameters and on the failure allowed, and is exceeded with at most that "
        "probability; (epsilon, delta)-DP even allows a release that tells all with probability delta."
    )
    yield f"{stands_for(guarantee)} {guarantee.meaning}".rstrip()
    if limit is None:
        yield "No bound holds at all."
        return
    if limit.certain:
        kind = "pure" if guarantee == PureDP(limit.loss) else "as good as pure"
        yield f"It is {kind}: |log(P / Q)| <= {outward(limit.loss, True)} for certain, under both truths."
        return
    every = {outward(one.loss, True): one for one in stricter(guarantee, limit)}
    told = [f"e = {loss} at failure {exactly(one.failure)}" for loss, one in every.items()]
    yield (f"It is approximate: nothing holds for certain. {', '.join(told)}; each under both truths, and {AT_A_TIME}.")


def composition_told(
    guarantee: Guarantee, releases: int, failure: float, prior: float, threshold: float
) -> Iterator[str]:
    """Several releases with independent noise: the bound on their loss, and how many stay below a threshold."""
    yield f"{stands_for(guarantee).replace('The release', 'Each release')} {guarantee.meaning}".rstrip()
    together = composed(guarantee, releases, failure)
    if not together.told:
        yield f"{_several(releases)}: no bound on the privacy loss holds at any failure."
        return
    for limits in together.told:
        yield from _together(limits, releases, prior)
    if not together.unmoved and prior < threshold:
        yield _until(guarantee, together.failure, prior, threshold)
    if together.may_fail:
        yield f"A failure is counted {AT_A_TIME}."
    yield over_all(guarantee)


def _several(releases: int) -> str:
    return "One release" if releases == 1 else f"{releases:,} releases with independent noise, together"


def _together(limits: Sequence[Limit], releases: int, prior: float) -> Iterator[str]:
    together = _several(releases)
    if not limits[0].exists:
        yield f"{together}: no bound on the privacy loss holds {_asked(limits[0])}."
        return
    for limit in limits:
        yield (
            f"{together}: e = {outward(limit.loss, True)} nats {_surely(limit)}; {_row(limit, prior)}; |X - p| <= "
            f"{outward(limit.difference, True)} at every prior."
        )


def _until(guarantee: Guarantee, failure: float, prior: float, threshold: float) -> str:
    kept, final = releases_within(guarantee, prior, threshold, failure)
    if kept == 0:
        return (
            f"From p = {exactly(prior)} the upper bound on X is above {exactly(threshold)} from the first release on."
        )
    above = f"{kept + 1:,} is the first number of releases with a bound above it" if final else "maybe for more"
    return (
        f"From p = {exactly(prior)} the upper bound on X is at or below {exactly(threshold)} for up to {kept:,} "
        f"release{'' if kept == 1 else 's'}, with a failure of all together of at most {exactly(failure)}; {above}."
    )


def not_kept(guarantee: Guarantee) -> Iterator[str]:
    """Of a promise that the noise does not keep: that it is not kept, and nothing of its bounds."""
    yield (
        f"{stands_for(guarantee).replace('The release keeps', 'The promise is')} {guarantee.meaning} The noise does "
        "not keep it: for some pair of neighbouring data the release's own privacy loss goes beyond it. Its bounds do "
        "not hold for this release and are not told here; those of the plan's own loss do."
    )


def verdict_told(found: Verdict) -> Iterator[str]:
    """The losses compared."""
    yield found.words
    if np.isfinite(found.allowed) and np.isfinite(found.loss):
        kept = "for certain" if found.failure == 0.0 else f"but for failure {exactly(found.failure)} under every truth"
        yield (
            "Compared are the epsilon that the guarantee is worth, the smallest whose bound on every reader it keeps "
            f"{kept}, and the largest that the profile allows. Readers' beliefs about everybody else must not depend "
            f"on the target{'' if found.failure == 0.0 else f'; the failure is counted {AT_A_TIME}'}."
        )
