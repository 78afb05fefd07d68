"""Audit of a plan, an adversary and a truth: risk averaged over releases, with the bounds of guarantees.

There are four engines, which must agree: `exact` (the recursion of `adversaries.path`), `enumerate` (the PyMC model's
log probability summed over its states), `importance` (weighted draws of its prior) and `mcmc` (draws of its posterior).
The adversary may be any `pymc.Model`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from adversary._core import DEFAULT_FAILURE, NAME, Sampling, Seed, blocks, check_probability, check_whole, dask_address
from adversary.adversaries.known_totals import exact_totals
from adversary.adversaries.path import Adversary, settle_truth
from adversary.adversaries.plans import STATISTICS, Plan
from adversary.adversaries.risk import DRAWS, affordable_draws, cautions
from adversary.driver.case import Case, named_guarantees
from adversary.driver.further_groups import (
    ALSO,
    GuardedGroups,
    alternatives_by_case,
    check_also,
    further_groups,
    sweep_groups,
)
from adversary.driver.groups import Question, concat_cohorts, concat_groups
from adversary.driver.model_case import ModelCase, is_model, settle_model_truth
from adversary.driver.other_plans import COARSE_DRAWS
from adversary.driver.posteriors import Groups
from adversary.driver.sensitivity import base_and_sweeps
from adversary.driver.shared_laws import Cohort, SharedLaws, cohorts
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.invariants import Databases, Margins

ENGINES = ("exact", "enumerate", "importance", "mcmc")

# Up to so many adversaries an exact audit has the posterior of each given every release. For more, arrays (adversary,
# release) get large, and it has the log Bayes factors instead, which adversaries of one cohort share.
FEW = 20

# Attribute of an audit without posteriors: the formula that gives them.
POSTERIOR = "expit(prior_log_odds + log_bayes_factor[law]), of each adversary and release"


def audit(
    plan: Plan | Mapping[str, Plan],
    adversary: Any,
    truth: Mapping[str, Any],
    *,
    guarantee: Guarantee | Mapping[str, Guarantee] | None = None,
    failure: float = DEFAULT_FAILURE,
    engine: str = "exact",
    target: str = "in",
    support: Mapping[str, ArrayLike] | None = None,
    records: int = 1,
    invariants: Margins | Databases | None = None,
    also: Collection[str] = ALSO,
    alternatives: Mapping[str, tuple[Plan, Any, Mapping[str, Any]]] | None = None,
    profile: Callable[[float, float], Any] | None = None,
    sensitivity: Mapping[str, Any] | None = None,
    keep_going: bool = False,
    draws: int | None = None,
    sampling: Sampling | None = None,
    rng: Any = None,
    progress: bool = True,
    store: Any = None,
    scheduler: str | None = None,
    workers: int | None = None,
) -> xr.DataTree:
    """Audit of an adversary: posteriors and risks averaged over releases of a truth, beside what the guarantee allows.

    Parameters
    ----------
    plan, adversary, truth : one each, or a mapping of names for several; the names become dims "plan", "adversary",
        "truth". A truth is a mapping of level name to count, with "in" where the counts do not settle the target.
        An adversary is an `Adversary` or a `pymc.Model` with its release left free, under the names of `observed`
    guarantee : the guarantee claimed for the release, one or a mapping of names; the plan's own privacy loss is always
        shown too
    failure : probability with which a bound that is not certain may fail
    engine : "exact", "enumerate", "importance" or "mcmc". Of a model, "exact" enumerates where its latents are discrete
        and finite; otherwise it is "importance", which sums out the discrete ones as far as it can and weighs draws of
        the others from their prior by every release; "mcmc" samples continuous latents release by release with NUTS (of
        an Adversary's model there are none: all its latents are summed out)
    target : name of the target in a model, a latent or Deterministic with values 0 and 1; the truth must name it (or
        "in"). "in" for every Adversary
    support : of a model, values of latents without a finite support of their own, by name. `edge_mass` in `risk` is the
        probability, averaged over releases, that a latent is at an end of these values beyond which its distribution
        continues, or outside them, before the release or after it, whichever is larger. Above 1e-6 there are no
        numbers: `status` is "unreliable". Latents of unknown distribution are in its attribute `not_checked`
    records : of a model, number of privacy units in which its two hypotheses differ; derived for an `Adversary`
    invariants : everything published exactly, as `adv.invariants.Margins`, where that is more than the plan's exact
        levels, or their counts are known: its semi-adjacency is shown instead of that of one published feature
    also : further groups about every `Adversary`, of `driver.GROUPS`.
        "both_truths": `both_truths` (target), the averages with the target in and with the target out, everybody else
        as they are; `empirical`, the smallest epsilon that log Bayes factors exceed with the failure probability at
        most; `tests` (level), the best tests' detections at so many false alarms. "baseline": `baseline`, the expected
        posterior were the target's record not used. "queries": `queries` (published), of a plan with several queries
        of a unit, the risk where the cell's own is read beside that where all are. "repeated": the risk after 1, 2,
        ... releases of a count published again. "postprocessing": of the raw and the published numbers. "priors",
        "budgets": at others than the given
    alternatives : other plans by name, each with its adversary and truth (mappings of the same names if `adversary` and
        `truth` are mappings): group `alternatives` has their risk. For one plan
    profile : the largest tolerated ratio of posterior to prior, of (inclusion, value), such as `RiskProfile`:
        group `tolerated` has the limit of every `Adversary` in it, and the probability of a release beyond it
    sensitivity : inputs of `sensitivity.sweep` to go over one at a time, of the first adversary (`prior`, `data` and
        `beliefs` where that is a model): groups `base`, `extremes` and one for each input under `sensitivity`, or
        `sensitivity/NAME` of several truths. For one plan
    keep_going : whether a further group that fails is left out, its error being recorded in attribute `left_out` (JSON)
        by its name, as suits a long audit; otherwise the error is raised
    draws : number of simulated releases, where releases are simulated: only when listing them all is over a second's
        work and more than these draws are, or when they are too many to fit one by one. Unless given as many as a
        second allows, 500 to 20,000, or 1,000 where continuous latents are sampled
    sampling : lengths of sampled posteriors, `adversary.Sampling`
    rng : seed
    progress : show a bar with the time left on work of more than a few seconds
    store : folder for finished blocks of simulated or fitted work, from which a later call continues
    scheduler : address of a Dask scheduler, such as "tcp://10.0.0.1:8786", whose workers compute these blocks; numbers
        do not depend on it
    workers : without an address, number of processes of a `LocalCluster` of Dask; 1, the default, is this process

    Returns
    -------
    DataTree with groups `release` (noisy, sibling_sum, weight), `exact` (posterior, log_odds, ratio per release),
    `risk` (averages) and `bound` (dims definition, side). Of more than 20 adversaries `exact` has no posteriors but
    `log_bayes_factor` (law, release), once for all who differ in their prior only, and `law_index` and `prior_log_odds`
    of each: a posterior is expit(prior_log_odds + log_bayes_factor[law_index]), as the attribute `posterior` says. A
    model's prior is given the side data observed in it. With exact levels `risk` has `invariant_ratio`, probability
    given these over the prior, and `bound` has `semi_adjacency`, a(t), with the limit of every guarantee for that many
    records (`semi_loss_bound`) and, as a warning, for the target's record alone (`single_record_bound`): this is no
    bound, since no record can change alone; releases exceed it with probability `prob_beyond_single_record`. Where
    posteriors are sampled: `estimate` instead of `exact`, with `mcse` and `log_odds_mcse` (standard errors of the
    posterior and of its log odds), `r_hat`, `ess`, `divergences` (with continuous latents also `k_hat`, of their
    weights under the prior) and `status` of every fit; draws in the groups of ArviZ, as `models.fit` has them, with dim
    release (`isel(release=0, drop=True)` is one fit); in `risk`, `status` "ok", or "unreliable" and NaN for every
    average if the fits of some releases (`unreliable_mass`) failed, with the `reason` among its attributes. Cautions
    about these averages are in the attribute `warnings`, a list as JSON; `published` names the statistic of the audited
    counts that is published. `adversary.to_draws` draws from the posterior of an exact audit.

    Raises
    ------
    ValueError, TypeError : naming the argument, the rule and the value
    ImportError : several workers without Dask, naming the extra it comes with
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    check_probability("failure", failure)
    plans, adversaries = named(plan, "plan"), named(adversary, "adversary")
    _check_options(adversaries, target, support, records)
    truths = named_truths(truth, "level name to count")
    check_also(also, plans, alternatives, sensitivity)
    size = None if draws is None else int(check_whole("draws", draws, minimum=1))
    seed = blocks.seed_sequence(rng)
    guarantees = named_guarantees(guarantee)
    inputs = _AuditInputs(
        engine, float(failure), target, support or {}, records, guarantees, size, invariants, sampling
    )
    draw_counts: list[int] = []
    alternatives_of = alternatives_by_case(alternatives or {}, adversaries, truths)
    sweep_results, guarded = Groups(), GuardedGroups(keep_going)
    cohort_list = inputs.cohorts(adversaries, alternatives_of)
    factors_only = inputs.has_factors_only(adversaries)
    by_plan = []
    with dask_address(scheduler, workers) as address:
        how = {"progress": progress, "store": store, "scheduler": address}
        for plan_name, one_plan in plans.items():
            by_truth = []
            for truth_name, one_truth in truths.items():
                laws = inputs.laws(one_plan, cohort_list, one_truth, _child_seed(seed, one_plan, one_truth), how)
                draw_counts.append(inputs.drawn(laws))
                cases = []
                for cohort in cohort_list:
                    case, further = inputs.case(one_plan, cohort, one_truth, seed), Groups()
                    cohort_laws = laws.at(cohort.log_odds) if len(cohort.names) > 1 else laws
                    # only an `Adversary` has laws to answer further groups from
                    if isinstance(case, Case):
                        alternative = alternatives_of.get((cohort.names[0], truth_name), {})
                        question = Question(
                            cohort_laws, one_plan, cohort, case.truth, one_truth, failure, alternative, profile
                        )
                        further = further_groups(question, also, guarded)
                    cases.append((cohort, inputs.run(case, cohort_laws, how, factors_only) | further))
                by_truth.append((truth_name, concat_cohorts(cases, [*adversaries])))
                if sensitivity:
                    first = next(iter(adversaries.values()))
                    sweeps = partial(inputs.swept, one_plan, first, one_truth, truth_name, sensitivity, laws)
                    sweep_results |= guarded.compute("sensitivity", sweeps)
            by_plan.append((plan_name, concat_groups(by_truth, "truth")))
    groups = concat_groups(by_plan, "plan") | sweep_results
    tree = xr.DataTree.from_dict({name: xr.DataTree(group) for name, group in groups.items()})
    tree.attrs.update(
        _attributes(plans, [one.adversary for one in cohort_list], truths, inputs, min(draw_counts), seed, rng)
    )
    if factors_only:
        tree.attrs["posterior"] = POSTERIOR
    if guarded.left_out:
        tree.attrs["left_out"] = json.dumps(guarded.left_out)
    return tree


@dataclass(frozen=True)
class _AuditInputs:
    """Inputs of `audit` that all plans, adversaries and truths share."""

    engine: str
    failure: float
    target: str
    support: Mapping[str, ArrayLike]
    records: int
    guarantees: dict[str, Guarantee]
    draws: int | None
    invariants: Margins | Databases | None = None
    sampling: Sampling | None = None

    def cohorts(self, adversaries: Mapping[Any, Any], others: Mapping[Any, Mapping[str, Any]]) -> list[Cohort]:
        """Cohorts of adversaries audited together; all alone if the engine is one of models."""
        if self.engine != "exact":
            return [Cohort.of({name: one}) for name, one in adversaries.items()]
        elsewhere: dict[Any, list[Adversary]] = {name: [] for name in adversaries}
        for (name, _), plans in others.items():
            elsewhere[name] += [adversary for _, adversary, _ in plans.values()]
        return cohorts(adversaries, elsewhere)

    def has_factors_only(self, adversaries: Mapping[Any, Any]) -> bool:
        """True if there are too many adversaries for a posterior of each given every release."""
        return self.engine == "exact" and len(adversaries) > FEW and not any(map(is_model, adversaries.values()))

    def laws(self, plan: Plan, cohort_list: list[Cohort], truth: Any, seed: int, how: Mapping[str, Any]) -> SharedLaws:
        """Cache of distributions for one plan and truth.

        Their number of simulated releases is `draws` if given, else the smallest that every adversary can afford.
        """
        if self.engine != "exact":
            return SharedLaws(max(self.draws or DRAWS, COARSE_DRAWS), seed, how)
        if self.draws is not None:
            return SharedLaws(self.draws, seed, how)
        exact_adversaries = [one.adversary for one in cohort_list if not is_model(one.adversary)]
        affordable = (affordable_draws(plan, one, settle_truth(plan, one, truth)) for one in exact_adversaries)
        return SharedLaws(min(affordable, default=DRAWS), seed, how)

    def drawn(self, laws: SharedLaws) -> int:
        """Number of simulated releases of the audit itself; an engine of models draws fewer than the distributions."""
        return laws.draws if self.engine == "exact" else self.draws or DRAWS

    def case(self, plan: Plan, cohort: Cohort, truth: Any, seed: Any) -> Case | ModelCase:
        """Case of one plan, one cohort and one truth, checked; a `ModelCase` if the adversary is a model."""
        totals, adversary = exact_totals(plan, self.invariants), cohort.adversary
        if not is_model(adversary):
            return Case(plan, cohort, settle_truth(plan, adversary, truth), self.failure, totals, self.sampling)
        settled = settle_model_truth(plan, truth, self.target)
        prior_seed = int(seed.generate_state(5)[-1])
        model_options = (self.target, self.records, self.support, prior_seed)
        return ModelCase(plan, adversary, settled, self.failure, *model_options, totals, self.sampling)

    def run(self, case: Case | ModelCase, laws: SharedLaws, how: Mapping[str, Any], factors_only: bool) -> Groups:
        """Groups of the audit of one case."""
        if isinstance(case, Case):
            return case.run(self.engine, self.guarantees, self.drawn(laws), laws, factors_only=factors_only)
        return case.run(self.engine, self.guarantees, self.draws, laws.seed, **how)

    def swept(
        self, plan: Plan, adversary: Any, truth: Any, name: Any, inputs: Mapping[str, Any], laws: SharedLaws
    ) -> Groups:
        """Groups of one-at-a-time sweeps over the inputs of one adversary and truth (`name` is the truth's name)."""
        options: dict[str, Any] = {"target": self.target, "support": self.support, "sampling": self.sampling}
        options |= {"draws": self.draws, "rng": laws.seed, "progress": laws.how["progress"]}
        base, swept = base_and_sweeps(plan, adversary, truth, **inputs, **options, laws=laws)
        return {f"sensitivity/{group}": one for group, one in sweep_groups(base, swept, name).items()}


def named(value: Any, name: str) -> dict[Any, Any]:
    """Inputs by name, from one (whose name is None) or a mapping of several; `name` is the argument's, for errors."""
    listing = dict(value) if isinstance(value, Mapping) else {None: value}
    if not listing:
        raise ValueError(f"{name} must not be an empty mapping")
    for one in listing.values():
        if name == "plan" and not isinstance(one, Plan):
            raise TypeError(f"plan must be a Plan or a mapping of names to them, got {one!r}")
        if name == "adversary" and not (isinstance(one, Adversary) or is_model(one)):
            raise TypeError(f"adversary must be an Adversary, a pymc.Model or a mapping of names to them, got {one!r}")
    return listing


def _check_options(adversaries: Mapping[Any, Any], target: str, support: Any, records: Any) -> None:
    """ValueError for a `target`, `support` or `records` that is given although no adversary is a model."""
    models = [one_adversary for one_adversary in adversaries.values() if is_model(one_adversary)]
    if target != "in" and len(models) < len(adversaries):
        raise ValueError(f'target must be "in", the target of every Adversary, got {target!r}')
    check_whole("records", records, minimum=1)
    if support is not None and not isinstance(support, Mapping):
        raise TypeError(f"support must be a mapping of latent name to its values, got {support!r}")
    for name, given in (("support", support), ("records", None if records == 1 else records)):
        if given is not None and not models:
            raise ValueError(f"{name} is for a pymc.Model; an Adversary says so itself, got {given!r}")


def named_truths(truth: Any, what: str) -> Mapping[Any, Mapping[str, Any]]:
    """Truths by name, from one (whose name is None) or a mapping of several; `what` describes a truth in errors."""
    if not isinstance(truth, Mapping):
        raise TypeError(f"truth must be a mapping of {what}, or of names to such mappings, got {truth!r}")
    several = bool(truth) and all(isinstance(value, Mapping) for value in truth.values())
    return truth if several else {None: truth}


def _child_seed(seed: np.random.SeedSequence, plan: Plan, truth: Mapping[str, Any]) -> int:
    """Seed of the simulations for one plan and truth, from the seed of the call, the levels' names and the truth.

    It does not depend on the other plans and truths of the call, so that each has the same numbers alone.
    """
    text = json.dumps([plan.names, dict(truth)], default=lambda value: np.asarray(value).tolist())
    words = np.frombuffer(text.encode().ljust(-(-len(text) // 4) * 4), dtype=np.uint32)
    return int(
        np.random.SeedSequence([*np.atleast_1d(seed.generate_state(4)), *words]).generate_state(2, np.uint64)[0] >> 1
    )


def unit_of(unit: PrivacyUnit, contribution: float | None = None) -> dict[str, Any]:
    """Fields of a privacy unit as plain values; `contribution` is None if a unit may change a number without limit.

    Parameters
    ----------
    unit : of a plan or an audit of a model
    contribution : largest change of a number by one unit, as the plan determines it; the unit's own unless given

    >>> unit_of(PrivacyUnit("household", 10, neighbours="unbounded"))["contribution"]
    10
    """
    most = unit.contribution if contribution is None else contribution
    return asdict(unit) | {"contribution": None if most is None or np.isinf(most) else most}


def _attributes(
    plans: Mapping[Any, Plan],
    adversaries: Sequence[Any],
    truths: Mapping[Any, Any],
    inputs: _AuditInputs,
    drawn: int,
    seed: Any,
    rng: Any,
) -> dict[str, Any]:
    """Attributes of the audit's tree: its inputs and cautions, in values that NetCDF can hold."""
    allocation = {
        str(name or "plan"): {
            level.name: {"noise": repr(level.mechanism), "siblings": level.siblings} for level in one.levels
        }
        for name, one in plans.items()
    }
    truths_by_name = {str(name or "truth"): dict(one) for name, one in truths.items()}
    exact_adversaries = [one for one in adversaries if not is_model(one)]
    warnings = [line for plan in plans.values() for line in cautions(plan, exact_adversaries, truths.values())]
    if sure := [one.prior for one in exact_adversaries if one.prior_log_odds in (-np.inf, np.inf)]:
        warnings.append(
            f"No release moves a prior of {sure[0]:.0%}: these averages say nothing of what the release reveals. Ask "
            "about a prior between 0 and 1."
        )
    warnings += filter(None, [STATISTICS[plan.published].caution for plan in plans.values()])
    sensitivities = (str(inputs.records if is_model(one) else one.shift) for one in adversaries)
    uses_models = inputs.engine != "exact" or any(is_model(one) for one in adversaries)
    attributes = {
        "engine": inputs.engine,
        "target": inputs.target,
        "failure": inputs.failure,
        "draws": drawn,
        "neighbours": ", ".join(dict.fromkeys(one.neighbours for one in plans.values())),
        "cells": ", ".join(dict.fromkeys(str(one.cells) for one in plans.values())),
        "published": ", ".join(dict.fromkeys(one.published for one in plans.values())),
        "privacy_unit": json.dumps(
            {str(name or "plan"): unit_of(one.privacy_unit, one.contribution) for name, one in plans.items()}
        ),
        "sensitivity": ", ".join(dict.fromkeys(sensitivities)),
        "allocation": json.dumps(allocation),
        "warnings": json.dumps(list(dict.fromkeys(warnings))),
    }
    return attributes | origin(seed, rng, truths_by_name, inputs.support, ["pymc", "nutpie"] if uses_models else [])


def origin(
    seed: np.random.SeedSequence, rng: Seed, truth: Mapping[str, Any], support: Any, packages: list[str]
) -> dict[str, Any]:
    """Attributes of every audit: its seed, truth, truncated mass, and the versions of the packages behind it."""
    return {
        "seed": str(seed.entropy if rng is None or isinstance(rng, (int, np.integer)) else "given as a generator"),
        "truth": json.dumps(truth, default=lambda value: np.asarray(value).tolist()),
        "truncation_mass": np.nan if support else 1e-12,
        "versions": json.dumps({name: version(name) for name in (NAME, "numpy", "scipy", "xarray", *packages)}),
    }
