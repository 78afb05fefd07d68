"""One call from a plan, a reader and a truth to the risk averaged over releases, with the bounds beside it.

Four engines answer: `exact` (the recursion of `reader.path`), `enumerate` (the PyMC model's own log probability summed
over its states), `importance` (draws of its prior, weighed) and `mcmc` (the model sampled). They must agree. A reader
may be a `pymc.Model` of one's own.
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
from adversary.driver.further_groups import ALSO, Beside, by_name, check_also, further_groups, sweep_groups
from adversary.driver.groups import Question, concat_cohorts, concat_groups
from adversary.driver.model_case import ModelCase, is_model, settle_model_truth
from adversary.driver.other_plans import COARSE_DRAWS
from adversary.driver.posteriors import Groups
from adversary.driver.sensitivity import base_and_sweeps
from adversary.driver.shared_laws import Cohort, SharedLaws, cohorts
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.invariants import Databases, Margins

ENGINES = ("exact", "enumerate", "importance", "mcmc")

# Adversaries whose posterior of every release an exact audit has; of more it has log Bayes factors, once a law.
FEW = 20

# Attribute of an audit without posteriors: what they are.
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
    guarantee : what was promised, one or a mapping of names; the plan's own privacy loss is always shown beside it
    failure : probability with which a bound that is not certain may fail
    engine : "exact", "enumerate", "importance" or "mcmc". Of a model, "exact" enumerates where its latents are discrete
        and finite; otherwise it is "importance", which sums out the discrete ones as far as it can and weighs draws of
        the others from their prior by every release; "mcmc" samples continuous latents release by release with NUTS (of
        an Adversary's model there are none: all its latents are summed out)
    target : name of the target in a model, a latent or Deterministic with values 0 and 1; the truth must name it (or
        "in"). "in" for every Adversary
    support : of a model, values of latents without a finite support of their own, by name. `edge_mass` in `risk` is the
        probability, averaged over releases, that a latent is at an end of these values beyond which its law goes on, or
        outside them, before the release or after it, whichever is larger. Above 1e-6 nothing is answered: `status` is
        "unreliable". Latents whose law is not known are in its attribute `not_checked`
    records : of a model, number of privacy units in which its two hypotheses differ; an Adversary knows
    invariants : everything published exactly, as `adv.invariants.Margins`, where that is more than the plan's exact
        levels, or their counts are known: its semi-adjacency is shown instead of that of one published feature
    also : further groups about every `Adversary`, of `driver.GROUPS`, each law of the log Bayes factor computed once.
        "both_truths": `both_truths` (target), the averages with the target in and with the target out, everybody else
        as they are; `empirical`, the smallest epsilon that log Bayes factors exceed with the failure probability at
        most; `tests` (level), the best tests' detections at so many false alarms. "baseline": `baseline`, the expected
        posterior were the target's record not used. "queries": `queries` (published), of a plan with several queries
        of a unit, the risk where the cell's own is read beside that where all are. "repeated": the risk after 1, 2,
        ... releases of a count published again. "postprocessing": of the raw and the published numbers. "priors",
        "budgets": at others than the given
    alternatives : other plans by name, each with the adversary and the truth it is read by (mappings of the same names
        where `adversary` and `truth` are): `alternatives` has their risk. For one plan
    profile : the largest tolerated ratio of posterior to prior, of (inclusion, value), such as `RiskProfile`:
        `tolerated` has where every `Adversary` stands in it, and how often a release takes them past it
    sensitivity : inputs of `sensitivity.sweep` to go over one at a time, of the first adversary (`prior`, `data` and
        `beliefs` where that is a model): groups `base`, `extremes` and one for each input under `sensitivity`, or
        `sensitivity/NAME` of several truths. For one plan
    keep_going : where a group beside the audit itself fails, whether it is left out, and attribute `left_out` (JSON)
        says why by its name, for a long audit; otherwise its error is raised
    draws : number of simulated releases, where releases are simulated: only when listing them all is over a second's
        work and more than these draws are, or when they are too many to fit one by one. Unless given as many as a
        second allows, 500 to 20,000, or 1,000 where continuous latents are sampled
    sampling : lengths of sampled posteriors, `adversary.Sampling`
    rng : seed
    progress : show a bar with the time left on work of more than a few seconds
    store : folder for finished blocks of simulated or fitted work, from which a later call goes on
    scheduler : address of a Dask scheduler, such as "tcp://10.0.0.1:8786", whose workers do these blocks; they change
        no number
    workers : without an address: processes of a `LocalCluster` of Dask that do; this process where 1, or not given

    Returns
    -------
    DataTree with groups `release` (noisy, sibling_sum, weight), `exact` (posterior, log_odds, ratio per release),
    `risk` (averages) and `bound` (dims definition, side). Of more than 20 adversaries `exact` has no posteriors but
    `log_bayes_factor` (law, release), once for all who differ in their prior only, and `law_index` and `prior_log_odds`
    of each: a posterior is expit(prior_log_odds + log_bayes_factor[law_index]), as the attribute `posterior` says. A
    model's prior counts the side data observed in it. Beside exact levels `risk` has `invariant_ratio`, what they alone
    taught, and `bound` has `semi_adjacency`, a(t), with the limit of every guarantee for that many records
    (`semi_loss_bound`) and, as a warning, for the target's record alone
    (`single_record_bound`): no bound, since nobody can change alone; releases exceed it with probability
    `prob_beyond_single_record`. Where posteriors are sampled: `estimate` instead of `exact`, with `mcse` and
    `log_odds_mcse` (standard errors of the posterior and of its log odds), `r_hat`, `ess`, `divergences` (with
    continuous latents also `k_hat`, of their weights under the prior) and `status` of every fit; draws in the groups of
    ArviZ, as `models.fit` has them, with dim release (`isel(release=0, drop=True)` is one fit); in `risk`, `status`
    "ok", or "unreliable" and NaN for every average where the fits of some releases (`unreliable_mass`) failed, with the
    `reason` among its attributes. What to know before these averages are believed is in the attribute `warnings`, a
    list as JSON; `published` is what of the audited counts is published. `adversary.to_draws` makes draws of an exact
    audit.

    Raises
    ------
    ValueError, TypeError : naming the argument, the rule and the value
    ImportError : several workers without Dask, naming the extra it comes with
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    check_probability("failure", failure)
    plans, readers = named(plan, "plan"), named(adversary, "adversary")
    _check_options(readers, target, support, records)
    truths = named_truths(truth, "level name to count")
    check_also(also, plans, alternatives, sensitivity)
    size = None if draws is None else int(check_whole("draws", draws, minimum=1))
    seed = blocks.seed_sequence(rng)
    promises = named_guarantees(guarantee)
    work = _Work(engine, float(failure), target, support or {}, records, promises, size, invariants, sampling)
    drawn: list[int] = []
    others = by_name(alternatives or {}, readers, truths)
    swept, beside = Groups(), Beside(keep_going)
    together = work.cohorts(readers, others)
    factors_only = work.has_factors_only(readers)
    by_plan = []
    with dask_address(scheduler, workers) as address:
        how = {"progress": progress, "store": store, "scheduler": address}
        for plan_name, one_plan in plans.items():
            by_truth = []
            for truth_name, one_truth in truths.items():
                laws = work.laws(one_plan, together, one_truth, _child_seed(seed, one_plan, one_truth), how)
                drawn.append(work.drawn(laws))
                cases = []
                for cohort in together:
                    case, more = work.case(one_plan, cohort, one_truth, seed), Groups()
                    own = laws.at(cohort.log_odds) if len(cohort.names) > 1 else laws
                    # only an `Adversary` has laws to answer further groups from
                    if isinstance(case, Case):
                        alternative = others.get((cohort.names[0], truth_name), {})
                        what = Question(own, one_plan, cohort, case.truth, one_truth, failure, alternative, profile)
                        more = further_groups(what, also, beside)
                    cases.append((cohort, work.run(case, own, how, factors_only) | more))
                by_truth.append((truth_name, concat_cohorts(cases, [*readers])))
                if sensitivity:
                    first = next(iter(readers.values()))
                    sweeps = partial(work.swept, one_plan, first, one_truth, truth_name, sensitivity, laws)
                    swept |= beside.made("sensitivity", sweeps)
            by_plan.append((plan_name, concat_groups(by_truth, "truth")))
    groups = concat_groups(by_plan, "plan") | swept
    tree = xr.DataTree.from_dict({name: xr.DataTree(group) for name, group in groups.items()})
    tree.attrs.update(_attributes(plans, [one.adversary for one in together], truths, work, min(drawn), seed, rng))
    if factors_only:
        tree.attrs["posterior"] = POSTERIOR
    if beside.left_out:
        tree.attrs["left_out"] = json.dumps(beside.left_out)
    return tree


@dataclass(frozen=True)
class _Work:
    """Inputs that every plan, adversary and truth share."""

    engine: str
    failure: float
    target: str
    support: Mapping[str, ArrayLike]
    records: int
    promises: dict[str, Guarantee]
    draws: int | None
    invariants: Margins | Databases | None = None
    sampling: Sampling | None = None

    def cohorts(self, readers: Mapping[Any, Any], others: Mapping[Any, Mapping[str, Any]]) -> list[Cohort]:
        """Adversaries audited together; a model stands alone, and so does every adversary that is read as one."""
        if self.engine != "exact":
            return [Cohort.of({name: one}) for name, one in readers.items()]
        elsewhere: dict[Any, list[Adversary]] = {name: [] for name in readers}
        for (name, _), plans in others.items():
            elsewhere[name] += [adversary for _, adversary, _ in plans.values()]
        return cohorts(readers, elsewhere)

    def has_factors_only(self, readers: Mapping[Any, Any]) -> bool:
        """True of adversaries too many for a posterior of each from every release."""
        return self.engine == "exact" and len(readers) > FEW and not any(map(is_model, readers.values()))

    def laws(self, plan: Plan, together: list[Cohort], truth: Any, seed: int, how: Mapping[str, Any]) -> SharedLaws:
        """The laws of one plan and truth, of as many simulated releases as were asked for, or as all readers manage."""
        if self.engine != "exact":
            return SharedLaws(max(self.draws or DRAWS, COARSE_DRAWS), seed, how)
        if self.draws is not None:
            return SharedLaws(self.draws, seed, how)
        known = [one.adversary for one in together if not is_model(one.adversary)]
        each = (affordable_draws(plan, one, settle_truth(plan, one, truth)) for one in known)
        return SharedLaws(min(each, default=DRAWS), seed, how)

    def drawn(self, laws: SharedLaws) -> int:
        """Number of releases simulated to be read; an engine of models draws its own, fewer than the laws have."""
        return laws.draws if self.engine == "exact" else self.draws or DRAWS

    def case(self, plan: Plan, cohort: Cohort, truth: Any, seed: Any) -> Case | ModelCase:
        """One plan, its adversaries and truth, checked."""
        totals, adversary = exact_totals(plan, self.invariants), cohort.adversary
        if not is_model(adversary):
            return Case(plan, cohort, settle_truth(plan, adversary, truth), self.failure, totals, self.sampling)
        settled = settle_model_truth(plan, truth, self.target)
        prior_seed = int(seed.generate_state(5)[-1])
        of_model = (self.target, self.records, self.support, prior_seed)
        return ModelCase(plan, adversary, settled, self.failure, *of_model, totals, self.sampling)

    def run(self, case: Case | ModelCase, laws: SharedLaws, how: Mapping[str, Any], factors_only: bool) -> Groups:
        """Groups of one case."""
        if isinstance(case, Case):
            return case.run(self.engine, self.promises, self.drawn(laws), laws, factors_only=factors_only)
        return case.run(self.engine, self.promises, self.draws, laws.seed, **how)

    def swept(
        self, plan: Plan, adversary: Any, truth: Any, name: Any, inputs: Mapping[str, Any], laws: SharedLaws
    ) -> Groups:
        """Sweeps over each input alone, by the names of their groups."""
        options: dict[str, Any] = {"target": self.target, "support": self.support, "sampling": self.sampling}
        options |= {"draws": self.draws, "rng": laws.seed, "progress": laws.how["progress"]}
        base, swept = base_and_sweeps(plan, adversary, truth, **inputs, **options, laws=laws)
        return {f"sensitivity/{group}": one for group, one in sweep_groups(base, swept, name).items()}


def named(value: Any, name: str) -> dict[Any, Any]:
    """One or several by name; None is the name of one alone."""
    listing = dict(value) if isinstance(value, Mapping) else {None: value}
    if not listing:
        raise ValueError(f"{name} must not be an empty mapping")
    for one in listing.values():
        if name == "plan" and not isinstance(one, Plan):
            raise TypeError(f"plan must be a Plan or a mapping of names to them, got {one!r}")
        if name == "adversary" and not (isinstance(one, Adversary) or is_model(one)):
            raise TypeError(f"adversary must be an Adversary, a pymc.Model or a mapping of names to them, got {one!r}")
    return listing


def _check_options(readers: Mapping[Any, Any], target: str, support: Any, records: Any) -> None:
    """`target`, `support` and `records` speak of models; an Adversary settles them itself."""
    models = [one_adversary for one_adversary in readers.values() if is_model(one_adversary)]
    if target != "in" and len(models) < len(readers):
        raise ValueError(f'target must be "in", the target of every Adversary, got {target!r}')
    check_whole("records", records, minimum=1)
    if support is not None and not isinstance(support, Mapping):
        raise TypeError(f"support must be a mapping of latent name to its values, got {support!r}")
    for name, given in (("support", support), ("records", None if records == 1 else records)):
        if given is not None and not models:
            raise ValueError(f"{name} is for a pymc.Model; an Adversary says so itself, got {given!r}")


def named_truths(truth: Any, what: str) -> Mapping[Any, Mapping[str, Any]]:
    """One truth or several by name; None is the name of one alone. `what` describes the mapping in errors."""
    if not isinstance(truth, Mapping):
        raise TypeError(f"truth must be a mapping of {what}, or of names to such mappings, got {truth!r}")
    several = bool(truth) and all(isinstance(value, Mapping) for value in truth.values())
    return truth if several else {None: truth}


def _child_seed(seed: np.random.SeedSequence, plan: Plan, truth: Mapping[str, Any]) -> int:
    """Seed of the simulations for one plan, by its levels' names, and truth, whatever else is audited in the call."""
    text = json.dumps([plan.names, dict(truth)], default=lambda value: np.asarray(value).tolist())
    words = np.frombuffer(text.encode().ljust(-(-len(text) // 4) * 4), dtype=np.uint32)
    return int(
        np.random.SeedSequence([*np.atleast_1d(seed.generate_state(4)), *words]).generate_state(2, np.uint64)[0] >> 1
    )


def unit_of(unit: PrivacyUnit, contribution: float | None = None) -> dict[str, Any]:
    """The privacy unit in plain values; the contribution is None where an answer may change to any other.

    Parameters
    ----------
    unit : as a plan or an audit of a model has it
    contribution : by which one unit changes a number, as the plan settles it; the unit's own unless given

    >>> unit_of(PrivacyUnit("household", 10, neighbours="unbounded"))["contribution"]
    10
    """
    most = unit.contribution if contribution is None else contribution
    return asdict(unit) | {"contribution": None if most is None or np.isinf(most) else most}


def _attributes(
    plans: Mapping[Any, Plan],
    readers: Sequence[Any],
    truths: Mapping[Any, Any],
    work: _Work,
    drawn: int,
    seed: Any,
    rng: Any,
) -> dict[str, Any]:
    """Attributes that say what was done, in values that NetCDF can hold."""
    allocation = {
        str(name or "plan"): {
            level.name: {"noise": repr(level.mechanism), "siblings": level.siblings} for level in one.levels
        }
        for name, one in plans.items()
    }
    named = {str(name or "truth"): dict(one) for name, one in truths.items()}
    believers = [one for one in readers if not is_model(one)]
    warned = [line for plan in plans.values() for line in cautions(plan, believers, truths.values())]
    if sure := [one.prior for one in believers if one.prior_log_odds in (-np.inf, np.inf)]:
        warned.append(
            f"No release moves a prior of {sure[0]:.0%}: these averages say nothing of what the release reveals. Ask "
            "about a prior between 0 and 1."
        )
    warned += filter(None, [STATISTICS[plan.published].caution for plan in plans.values()])
    shifts = (str(work.records if is_model(one) else one.shift) for one in readers)
    models = work.engine != "exact" or any(is_model(one) for one in readers)
    own = {
        "engine": work.engine,
        "target": work.target,
        "failure": work.failure,
        "draws": drawn,
        "neighbours": ", ".join(dict.fromkeys(one.neighbours for one in plans.values())),
        "cells": ", ".join(dict.fromkeys(str(one.cells) for one in plans.values())),
        "published": ", ".join(dict.fromkeys(one.published for one in plans.values())),
        "privacy_unit": json.dumps(
            {str(name or "plan"): unit_of(one.privacy_unit, one.contribution) for name, one in plans.items()}
        ),
        "sensitivity": ", ".join(dict.fromkeys(shifts)),
        "allocation": json.dumps(allocation),
        "warnings": json.dumps(list(dict.fromkeys(warned))),
    }
    return own | origin(seed, rng, named, work.support, ["pymc", "nutpie"] if models else [])


def origin(
    seed: np.random.SeedSequence, rng: Seed, truth: Mapping[str, Any], support: Any, packages: list[str]
) -> dict[str, Any]:
    """Attributes of every audit: its seed, truth, the mass left out, and the versions it was made with."""
    return {
        "seed": str(seed.entropy if rng is None or isinstance(rng, (int, np.integer)) else "given as a generator"),
        "truth": json.dumps(truth, default=lambda value: np.asarray(value).tolist()),
        "truncation_mass": np.nan if support else 1e-12,
        "versions": json.dumps({name: version(name) for name in (NAME, "numpy", "scipy", "xarray", *packages)}),
    }
