"""One adversary under both truths: averages, tests, empirical epsilon, and the baseline without the target's record.

One truth alone misleads: an adversary inclined to believe "in" does well if the target is in, and badly if out. All
results come from distributions of the log Bayes factor, with all other records fixed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from adversary._core import Floats, logit, posterior_ratio
from adversary.adversaries.counterfactual import unused_record
from adversary.adversaries.path import Adversary, ImpossibleRelease, Truth, opposite
from adversary.adversaries.plans import Plan
from adversary.adversaries.risk import (
    BayesFactorLaw,
    DiscretePart,
    check_listed,
    empirical_epsilon_of,
    invariant_factor,
    is_unbounded,
    risk_summary,
)
from adversary.driver.groups import AuditGroup, Question, side_by_side
from adversary.driver.posteriors import Groups
from adversary.driver.shared_laws import SharedLaws
from adversary.privacy import TOLERANCE

SIDES = ("in", "out")

# False alarm probabilities of the tests.
LEVELS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)

# Parts into which simulated releases are split: the standard error of an epsilon is that of its mean over the parts.
PARTS = 16

# Priors at which the ratio is computed for every adversary, dense on the log scale below 1/2, where ratios are large.
PRIORS = np.unique(np.concatenate([np.geomspace(1e-4, 0.5, 41), 1.0 - np.geomspace(0.5, 0.05, 11)]))


def possible_truths(
    laws: SharedLaws, plan: Plan, adversary: Adversary, truth: Truth, sides: Sequence[str] = SIDES
) -> dict[str, Truth]:
    """Truths "in" and "out" that the adversary considers possible: the audit's truth, and the opposite one.

    A truth of `sides` is left out if the adversary excludes its counts or one of its releases.
    """
    truths, side = _truth_and_opposite(plan, adversary, truth), SIDES[truth.target]
    if side in truths and side in sides:
        try:
            laws.of(plan, adversary, truths[side])
        except ImpossibleRelease:
            del truths[side]
    return truths


def _truth_and_opposite(plan: Plan, adversary: Adversary, truth: Truth) -> dict[str, Truth]:
    """The truth, and its opposite if the adversary considers those counts possible, by `SIDES`."""
    truths = {SIDES[1 - truth.target]: truth}
    with suppress(ValueError):
        truths[SIDES[truth.target]] = opposite(plan, adversary, truth)
    return truths


def risk_by_side(
    laws: SharedLaws, plan: Plan, adversary: Adversary, truths: Mapping[str, Truth], sides: Sequence[str] = SIDES
) -> xr.Dataset:
    """Averages of `risk_summary` under each truth, dim target; missing for a truth that the adversary excludes."""
    parts = {}
    for side in sides:
        if side in truths:
            parts[side] = risk_summary(
                laws.of(plan, adversary, truths[side]), invariant_factor(plan, adversary, truths[side])
            )
    risks = side_by_side(parts, "target")
    return risks.assign(possible=("target", [side in parts for side in risks["target"].values])).reindex(
        target=list(sides), fill_value={"possible": False}
    )


def both_truths_groups(question: Question) -> Groups:
    """Groups `both_truths` (target), `empirical` (the adversary's own epsilon), `tests` (level) and `guess`."""
    laws, plan, adversary, truth = question.laws, question.plan, question.adversary, question.truth
    invariants = _invariants(plan, adversary, truth)
    truths = possible_truths(laws, plan, adversary, truth)
    groups = {"both_truths": risk_by_side(laws, plan, adversary, truths)}
    if np.isfinite([invariants[side] for side in truths]).all():
        conditional_laws = [
            _without_invariant(laws.of(plan, adversary, one), invariants[side]) for side, one in truths.items()
        ]
        groups["empirical"] = _epsilon(conditional_laws, question.failure)
    if len(truths) == 2 and np.isfinite(adversary.prior_log_odds):
        groups["tests"] = _detections(laws.of(plan, adversary, truths["in"]), laws.of(plan, adversary, truths["out"]))
        if not any(invariants.values()):
            groups["guess"] = _guess(laws.of(plan, adversary, truth).prior, groups["both_truths"]["prob_correct"])
    return groups


def _guess(prior: Any, correct: xr.DataArray) -> xr.Dataset:
    """P(best guess is right) without and with the release, if the target is in with the prior probability."""
    present, out = (correct.sel(target=side, drop=True) for side in SIDES)
    baseline = np.maximum(prior, 1.0 - prior)
    success = prior * present.values + (1.0 - prior) * out.values
    parts = {"baseline": baseline, "success": success, "advantage": success - baseline}
    return xr.Dataset({name: (present.dims, value, correct.attrs) for name, value in parts.items()})


def _invariants(plan: Plan, adversary: Adversary, truth: Truth) -> dict[str, float]:
    """Log Bayes factor of the exact levels, in nats, under each truth that the adversary considers possible."""
    return {
        side: invariant_factor(plan, adversary, one)
        for side, one in _truth_and_opposite(plan, adversary, truth).items()
    }


def refuse_unlisted(question: Question) -> None:
    """ValueError for a failure probability below the mass to which releases are listed."""
    plan, adversary = question.plan, question.adversary
    if np.isfinite(list(_invariants(plan, adversary, question.truth).values())).all():
        check_listed(question.failure, is_unbounded(plan, [adversary.path(plan, cell) for cell in range(plan.cells)]))


def _without_invariant(law: BayesFactorLaw, invariant: float) -> BayesFactorLaw:
    """The distribution of the log Bayes factor without that of the exact levels."""
    return replace(law, listed=DiscretePart(law.listed.values - invariant, law.listed.weights)) if invariant else law


def _epsilon(laws: Sequence[BayesFactorLaw], failure: float) -> xr.Dataset:
    """The smallest e with P(|log Bayes factor| > e) <= failure under every truth, and its standard error.

    The error is NaN where an epsilon is infinite.
    """
    simulated = any(law.simulated for law in laws)
    epsilons = xr.Dataset(
        {"epsilon": ((), empirical_epsilon_of(laws, failure), {"direction": "estimate" if simulated else "exact"})},
        attrs={"failure": failure},
    )
    if not simulated:
        return epsilons
    parts = [empirical_epsilon_of([_subsample(law, k) for law in laws], failure) for k in range(PARTS)]
    error = float(np.std(parts, ddof=1) / np.sqrt(PARTS)) if np.isfinite(parts).all() else np.nan
    return epsilons.assign(mcse=("measure", [error])).assign_coords(measure=["epsilon"])


def _subsample(law: BayesFactorLaw, offset: int) -> BayesFactorLaw:
    """Distribution from one of `PARTS` random parts of its simulated releases; an exact one unchanged."""
    size = law.listed.values.size
    if not law.simulated or size < 2 * PARTS:
        return law
    # the same permutation for every part, so that the parts are disjoint
    sample = np.sort(np.random.default_rng(0).permutation(size)[offset::PARTS])
    weights = law.listed.weights[sample]
    return replace(law, listed=DiscretePart(law.listed.values[sample], weights / weights.sum()), draws=sample.size)


def _detections(present: BayesFactorLaw, out: BayesFactorLaw) -> xr.Dataset:
    """Power of the most powerful test of "in" at each of `LEVELS`, randomised at the threshold to attain the level."""
    levels = np.array(LEVELS)
    threshold = out.quantiles(1.0 - levels)
    slack = np.where(np.isfinite(threshold), TOLERANCE * np.maximum(1.0, np.abs(threshold)), 0.0)
    (alarms, most_alarms), (sure_detections, most_detections) = (
        (law.sf(threshold + slack), law.sf(threshold - slack)) for law in (out, present)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        tie_share = np.nan_to_num(np.clip((levels - alarms) / (most_alarms - alarms), 0.0, 1.0))
    direction = {"direction": "estimate" if out.simulated else "exact"}
    return xr.Dataset(
        {"detections": ("level", sure_detections + tie_share * (most_detections - sure_detections), direction)},
        {"level": list(LEVELS)},
    )


def baseline_group(question: Question) -> Groups:
    """Group `baseline`; NaN, with the attribute `reason`, if it cannot be computed."""
    laws, case = question.laws, (question.plan, question.adversary, question.truth)
    try:
        return {"baseline": unused_record(*case, draws=laws.draws, rng=laws.seed, log_odds=laws.log_odds)}
    except ValueError as why:
        return {"baseline": xr.Dataset({"posterior_mean": np.nan, "ratio_mean": np.nan}, attrs={"reason": str(why)})}


def priors_group(question: Question) -> Groups:
    """Group `priors`: mean and 95 % quantile of the ratio at `PRIORS`; absent if exact levels determine the target."""
    case = question.plan, question.adversary, question.truth
    invariant = invariant_factor(*case)
    if not np.isfinite(invariant):
        return {}
    law = question.laws.of(*case, coarse=True)
    base = expit(logit(PRIORS) + invariant)
    mean = np.array([law.at_prior(p).posterior_mean()[0] for p in PRIORS])
    largest: Floats = np.asarray(posterior_ratio(base, law.quantiles([0.95])[0] - invariant))
    direction = {"direction": "estimate"}
    return {
        "priors": xr.Dataset(
            {
                "ratio_mean": ("at", mean / base, direction),
                "ratio_95": ("at", largest, direction),
                "given": ("at", base),
            },
            {"at": PRIORS},
        )
    }


def tolerated_group(question: Question) -> Groups:
    """Group `tolerated`: the adversary's limit in a risk profile, and the probability of a release beyond it.

    In a participation attack the adversary is certain of the target's answer (value 1); in all others, that the target
    is in the data (inclusion 1). Absent without a profile, or for prior 0.
    """
    laws, adversary, profile = question.laws, question.adversary, question.profile
    prior = np.asarray(question.cohort.prior)
    if profile is None or adversary.prior <= 0.0:
        return {}
    certain, dims = np.ones_like(prior), ("adversary",) * prior.ndim
    inclusion, value = (prior, certain) if adversary.attack == "participation" else (certain, prior)
    pairs = zip(inclusion.ravel().tolist(), value.ravel().tolist(), strict=True)
    ratio = np.array([float(profile(*pair)) for pair in pairs]).reshape(prior.shape)
    limit, beyond, error = np.asarray(np.minimum(1.0, prior * ratio)), np.zeros(prior.shape), np.zeros(prior.shape)
    if (below_one := limit < 1.0).any():
        law = laws.of(question.plan, adversary, question.truth)
        change = logit(limit[below_one]) - logit(prior[below_one])
        beyond[below_one] = law.sf(change + TOLERANCE * np.maximum(1.0, np.abs(change)))
        error = np.asarray(np.sqrt(beyond * (1.0 - beyond) / law.draws)) if law.simulated else error
    group = xr.Dataset(
        {
            "inclusion": (dims, inclusion),
            "value": (dims, value),
            "ratio": (dims, ratio, {"direction": "lower"}),
            "posterior": (dims, limit, {"direction": "lower"}),
            "outside": (dims, beyond, {"direction": "estimate" if error.any() else "exact"}),
        }
    )
    if not error.any():
        return {"tolerated": group}
    mcse = np.where(error, error, np.nan)[..., None]
    return {"tolerated": group.assign(mcse=((*dims, "measure"), mcse)).assign_coords(measure=["outside"])}


GROUPS = {
    "both_truths": AuditGroup(
        "Both truths, and tests of “in” against “out”",
        both_truths_groups,
        shown=True,
        listed=("both_truths", "empirical", "tests", "guess"),
    ),
    "baseline": AuditGroup("Record not used", baseline_group, shown=True),
    "priors": AuditGroup("Other priors", priors_group, listed=()),
}
"""Further groups of an audit, about the same plan, by name."""
