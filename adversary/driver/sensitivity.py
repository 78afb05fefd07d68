"""Sensitivity of an adversary's posterior to the prior, the noise, the siblings and the beliefs about others.

The distribution of the log Bayes factor over releases does not depend on the prior, so many priors cost little; every
value of another input needs a distribution of its own (for models see `model_sweep`). Results are always under both
truths: a belief that helps an adversary under one of them hurts under the other, and one alone misleads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from adversary._core import DEFAULT_FAILURE, Sampling, Seed, blocks, check_probability, check_whole, tied
from adversary.adversaries.path import Adversary, ImpossibleRelease, Truth, settle_truth
from adversary.adversaries.plans import Plan
from adversary.adversaries.risk import DRAWS, QUANTILES, invariant_factor, risk_summary
from adversary.driver.case import named_guarantees
from adversary.driver.posteriors import MEASURES as MEASURES
from adversary.driver.shared_laws import SharedLaws
from adversary.driver.sweeps import (
    SHARES,
    ModelSweep,
    SweepGuarantees,
    SweptCase,
    both_model_truths,
    case_at,
    input_words,
    range_ends,
    sibling_dim,
    sweep_dataset,
    sweep_summary,
    swept_inputs,
    values_of,
    with_prior,
)
from adversary.driver.sweeps import TRUTHS as TRUTHS
from adversary.privacy import Guarantee, PrivacyUnit

if TYPE_CHECKING:
    import pymc as pm

_INPUTS = ("prior", "rho", "siblings", "beliefs", "data")


def sweep(
    plan: Plan | None,
    adversary: Adversary | pm.Model | Callable[..., pm.Model],
    truth: Mapping[str, Any],
    *,
    prior: Any = None,
    rho: Any = None,
    siblings: Any = None,
    beliefs: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    released: str | Iterable[str] | None = None,
    target: str = "in",
    support: Mapping[str, ArrayLike] | None = None,
    sampling: Sampling | None = None,
    guarantee: Guarantee | Mapping[str, Guarantee] | None = None,
    failure: float = DEFAULT_FAILURE,
    records: int = 1,
    privacy_unit: PrivacyUnit | None = None,
    draws: int | None = None,
    rng: Any = None,
    progress: bool = True,
    coarse: bool = False,
    laws: SharedLaws | None = None,
) -> xr.Dataset | xr.DataTree:
    """Risk averaged over releases at every combination of the inputs given, under both truths.

    Parameters
    ----------
    plan, adversary, truth : as in `adversary.audit`; an input that is not swept is fixed. The adversary may also be a
        `pymc.Model` with its release left free, or a function that builds one, of the names in `data` and, if it asks
        for it, of `plan`. Of models the truth names the target, and the other truth has it the other way, with one
        person less or more at every level of the plan; give {"in": ..., "out": ...} for another. Without a plan (None)
        releases are drawn from the first model, as `adversary.audit_model` draws them, and every other one reads these
    prior : probabilities that the target is in; or a distribution over them, frozen, of scipy.stats or PreliZ: its
        quantiles at the midpoints of 50 equal shares, so that a plain mean along `prior` averages over it. Of a model
        only the odds of the target are changed, and no distribution given the target
    rho : zCDP budgets of the whole plan, in nats; the noise of every level gets the same factor. An exact level stays.
        This and `siblings` are for an `Adversary` or a function of `plan`
    siblings : numbers of other units, for the lowest level; or a mapping of level name to such numbers, one dim each
    beliefs : named mappings of level to belief, each in place of the adversary's own; or named adversaries, models and
        functions that build them
    data : of models, values by name of their `pm.Data` or of arguments of the function, one dim each: numbers; a frozen
        distribution over them, as its quantiles at the midpoints of 20 equal shares; or a mapping of names to whatever
        the function takes, such as distributions of PreliZ
    released, target, support, sampling : of models, as for `adversary.audit_model`
    guarantee : the guarantee claimed for the release, one or a mapping of names: its bounds are computed too, and those
        of the privacy loss of the plan's or the model's own noise
    failure : probability with which a bound that is not certain may fail
    records : of models, number of privacy units in which the two hypotheses differ
    privacy_unit : of models without a plan, as for `adversary.audit_model`; a plan has its own
    draws, rng : number of simulated releases and seed, if a distribution is simulated; every case uses the same random
        numbers
    progress : show a bar on longer work
    coarse : reduce each distribution to at most 2000 values first: faster, for figures, averages to about 1e-5
    laws : cache of distributions, of an audit of this plan and truth, in place of draws and seed

    Returns
    -------
    Dataset with dims `prior`, `rho`, `siblings` (`siblings[level]` for a mapping), `beliefs` and names of `data` as far
    as given, and always `truth`: "in" and "out", everybody else as they truly are. Variables are those of the risk
    group of an audit: `posterior_mean`, `ratio_mean`, `difference_mean`, `prob_correct`, `tie_mass`,
    `posterior_quantile` and `ratio_quantile` (dim `quantile`), and `mcse` if anything was simulated. `possible` is
    False for a truth that an adversary excludes: the other variables are then missing, and the attribute `impossible`
    has the reason. Coordinate `budget` is the factor that makes each rho. With
    a guarantee, or for other `records` than one, also `loss_bound`, `outside` (probability of a release beyond it) and
    `bound_status`, dim `definition`, and `bound`, the posterior's (`definition`, `side`): as group `bound` of an audit.

    With models a DataTree, that Dataset in group `risk`, with `status` ("unreliable" entries have no numbers), `k_hat`
    (largest over releases) and `anew` (share of releases for which the shared draws were unreliable, fitted by draws of
    the model's own). All priors of the same latents share one set of draws, from the mixture of these priors. The
    groups of ArviZ are those of the first model given its most probable release: `arviz.psense_summary(tree)`.

    Raises
    ------
    ValueError, TypeError : naming the argument, the rule and the value; also where neither truth is ever possible

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> from adversary.adversaries.plans import Level
    >>> plan = Plan([Level("block", DiscreteGaussian.from_rho(0.1))])
    >>> risk = sweep(plan, Adversary(), {"block": 1}, prior=[0.1, 0.5])
    >>> [round(float(p), 4) for p in risk["posterior_mean"].sel(truth="in")]
    [0.1169, 0.5238]

    A model by values of its data:

    >>> import pymc as pm
    >>> from adversary.models import noise
    >>> with pm.Model() as model:
    ...     present = pm.Bernoulli("in", pm.Data("chance", 0.3))
    ...     noisy = noise.released("noisy", DiscreteGaussian.from_rho(0.1), present)
    >>> tree = sweep(plan, model, {"block": 1, "in": 1}, data={"chance": [0.1, 0.5]}, rng=1)
    >>> [round(float(p), 4) for p in tree["risk/posterior_mean"].sel(truth="in")]
    [0.1169, 0.5238]
    """
    inputs = {"prior": prior, "rho": rho, "siblings": siblings, "beliefs": beliefs, "data": data}
    how = _how(laws, draws, rng, released, target, support, sampling)
    guarantees = None
    if privacy_unit is not None and plan is not None:
        raise ValueError("privacy_unit is for models without a plan, which has its own: Plan(privacy_unit=...)")
    if guarantee is not None or privacy_unit is not None or records != 1:
        chance = float(check_probability("failure", failure))
        units = int(check_whole("records", records, minimum=1))
        guarantees = SweepGuarantees(named_guarantees(guarantee), chance, units, privacy_unit)
    risk, models = _swept(plan, adversary, truth, inputs, *how, progress, coarse, guarantees)
    return risk if models is None else xr.DataTree.from_dict({"risk": risk, **models.groups()})


def _how(
    laws: SharedLaws | None, draws: int | None, rng: Any, released: Any, target: str, support: Any, sampling: Any
) -> tuple[dict[str, Any], SharedLaws]:
    """(options of `ModelSweep`, cache of distributions), from the arguments of a sweep."""
    seed = blocks.seed_sequence(rng)
    size = DRAWS if draws is None else int(check_whole("draws", draws, minimum=1))
    of_models = {"released": released, "target": target, "support": support or {}, "draws": draws, "seed": seed}
    return of_models | {"sampling": sampling or Sampling()}, laws or SharedLaws(size, seed)


def _swept(
    plan: Plan | None,
    adversary: Any,
    truth: Mapping[str, Any],
    inputs: Mapping[str, Any],
    of_models: Mapping[str, Any],
    laws: SharedLaws,
    progress: bool,
    coarse: bool = False,
    guarantees: SweepGuarantees | None = None,
) -> tuple[xr.Dataset, ModelSweep | None]:
    """(averages of a sweep, as `sweep` returns them; its models, None if it has none)."""
    prior = inputs.get("prior")
    ranges = swept_inputs(
        plan, adversary, truth, *(inputs.get(name) for name in ("rho", "siblings", "beliefs", "data"))
    )
    priors = None if prior is None else check_probability("prior", values_of("prior", prior, SHARES))
    shape = tuple(len(one.values) for one in ranges)
    places = list(np.ndindex(*shape))
    chosen = {p: [one.values[i] for one, i in zip(ranges, p, strict=True)] for p in places}
    cases = {p: case_at(SweptCase(plan, adversary), ranges, chosen[p]) for p in places}
    model_cases = {p: case for p, case in cases.items() if case.is_model}
    models = None
    if model_cases:
        sides = both_model_truths(plan, truth, of_models["target"])
        models = ModelSweep(model_cases, sides, **of_models)
    both = _both_truths(plan, adversary, truth) if isinstance(adversary, Adversary) else sides
    in_order = places if models is None else models.in_order(places)
    work = [(*place, side) for place in in_order for side in range(2)]
    table: dict[tuple[int, ...], list[xr.Dataset]] = {}
    reasons: dict[tuple[int, ...], str] = {}
    for place in blocks.track(work, "laws of the sweep", enabled=progress and len(work) > 8):
        case, side = cases[place[:-1]], TRUTHS[place[-1]]
        try:
            if models is not None and case.is_model:
                posteriors = models.posteriors(place[:-1], side)
                one_by_prior = [posteriors] if priors is None else [with_prior(posteriors, float(p)) for p in priors]
                table[place] = [sweep_summary(one) for one in one_by_prior]
                if guarantees is not None:
                    bounds = [guarantees.of_model(case, models.names(case), one) for one in one_by_prior]
                    table[place] = [one.merge(more) for one, more in zip(table[place], bounds, strict=True)]
                continue
            settled = settle_truth(case.plan, case.adversary, both[side])
        except ValueError as error:
            reasons[place] = input_words(ranges, chosen[place[:-1]]) + f"truth {side!r}: {error}"
            continue
        try:
            law = laws.of(case.plan, case.adversary, settled, coarse=coarse)
        except ImpossibleRelease as error:
            reasons[place] = input_words(ranges, chosen[place[:-1]]) + f"truth {side!r}: {error}"
            continue
        invariant = invariant_factor(case.plan, case.adversary, settled)
        laws_by_prior = [law] if priors is None else [law.at_prior(float(p)) for p in priors]
        factors = law.quantiles(QUANTILES)
        table[place] = [risk_summary(one, invariant, factors=factors) for one in laws_by_prior]
        if guarantees is not None:
            bounds = [guarantees.of_adversary(case, one, invariant, settled.target) for one in laws_by_prior]
            table[place] = [one.merge(more) for one, more in zip(table[place], bounds, strict=True)]
    if not table:
        raise ValueError(f"no truth is possible for any adversary of the sweep: {next(iter(reasons.values()))}")
    return sweep_dataset(plan, adversary, ranges, priors, table, reasons), models


def one_at_a_time(plan: Plan, adversary: Any, truth: Mapping[str, Any], **options: Any) -> xr.Dataset:
    """Range of each measure as one input goes over its values, all others fixed: the numbers of a tornado figure.

    Parameters
    ----------
    plan, adversary, truth : as in `sweep`
    **options : of `base_and_sweeps`, at least one input among them

    Returns
    -------
    Dataset of the measures of `sweep`, dims (input, truth, end): `end` is "low" (the least value over the input's
    range), "base" (the plan and adversary as they are) and "high" (the largest); ends are never inside the base.
    `at_<measure>` is the input's value at each end, "as it is" if the base itself is the end. Truths that an adversary
    excludes are left out of the range; one excluded at the base is missing throughout.
    """
    return extremes(*base_and_sweeps(plan, adversary, truth, **options))


def base_and_sweeps(
    plan: Plan,
    adversary: Any,
    truth: Mapping[str, Any],
    *,
    target: str = "in",
    support: Mapping[str, Any] | None = None,
    sampling: Sampling | None = None,
    draws: int | None = None,
    rng: Seed = None,
    progress: bool = True,
    laws: SharedLaws | None = None,
    **inputs: Any,
) -> tuple[xr.Dataset, dict[str, xr.Dataset]]:
    """One-at-a-time sweeps: the base case, and a `sweep` over each input with all others fixed.

    Parameters
    ----------
    plan, adversary, truth, target, support, sampling : as in `sweep`
    draws : number of simulated releases, where a law is simulated
    rng : seed; every sweep sees the same random numbers
    progress : show a bar on longer work
    laws : of an audit of this plan and truth, in place of draws and seed for every `Adversary`
    **inputs : `prior`, `rho`, `siblings`, `beliefs` or `data`, as in `sweep`; a mapping of siblings is one input for
        each level, and one of data for each name

    Returns
    -------
    (base, {dim: swept}) : Datasets as group `risk` of `sweep`, the base without a swept dim.

    Raises
    ------
    ValueError, TypeError : no input is given, or as of `sweep`
    """
    varied = {name: values for name, values in inputs.items() if values is not None}
    if unknown := [name for name in varied if name not in _INPUTS]:
        raise TypeError(f"inputs are {', '.join(_INPUTS)}, got {unknown[0]!r}")
    alone: dict[str, dict[str, Any]] = {}
    for name, values in varied.items():
        if name == "data" or (name == "siblings" and isinstance(values, Mapping)):
            dim = sibling_dim if name == "siblings" else str
            alone |= {dim(part): {name: {part: one}} for part, one in values.items()}
        else:
            alone[name] = {name: values}
    if not alone:
        raise ValueError("give at least one of prior, rho, siblings, beliefs or data to go over, got none")
    how = _how(laws, draws, rng, None, target, support, sampling)
    base, *swept = (_swept(plan, adversary, truth, one, *how, progress)[0] for one in ({}, *alone.values()))
    return base, dict(zip(alone, swept, strict=True))


def extremes(base: xr.Dataset, swept: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Least and largest value of every measure over the range of each input.

    Parameters
    ----------
    base, swept : the two results of `base_and_sweeps`

    Returns
    -------
    Dataset of the measures and `at_<measure>`, dims (input, truth, end), with `end` "low", "base" and "high"; and
    `mcse` (measure), their standard errors, where anything was simulated.
    """
    rows = [range_ends(base, one, dim) for dim, one in swept.items()]
    table = xr.concat(rows, xr.DataArray(list(swept), dims="input", name="input"))
    if not any("mcse" in one for one in (base, *swept.values())):
        table = table.drop_vars(["mcse", "measure"])
    return table.assign_attrs(base.attrs)


def most_moving(table: xr.Dataset, measure: str = "posterior_mean") -> list[str]:
    """Names of the inputs with the largest range of a measure: several if their ranges are equal within error.

    Parameters
    ----------
    table : result of `extremes`
    measure : one of its variables

    Returns
    -------
    list of names, empty if no input changes the measure by more than its error

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> from adversary.adversaries.plans import Level
    >>> plan = Plan([Level("block", DiscreteGaussian.from_rho(0.1))])
    >>> most_moving(one_at_a_time(plan, Adversary(), {"block": 1}, prior=[0.1, 0.9], rho=[0.05, 0.2]))
    ['prior']
    """
    high, low = (table[measure].sel(end=end) for end in ("high", "low"))
    swing, error = (high - low).max("truth").values, np.zeros(table.sizes["input"])
    if "mcse" in table:
        spread = table["mcse"].sel(measure=measure, end=["low", "high"])
        error = ((spread**2).sum("end").max("truth") ** 0.5).values
    none = tied(np.append(swing, 0.0), np.append(error, 0.0))[-1]
    return [] if none else [str(name) for name in table["input"].values[tied(swing, error)]]


def _both_truths(plan: Any, adversary: Adversary, truth: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Truths with the target in and with the target out, all other records fixed; counts by level and "in".

    They are not checked: the adversary may exclude either.
    """
    settled = settle_truth(plan, adversary, truth)
    truths = {}
    for target, name in ((1, "in"), (0, "out")):
        cells = [adversary.contributions(cell) for cell in range(plan.cells)]
        count_change = np.array([pair[target] - pair[settled.target] for pair in cells])
        truths[name] = {**Truth(settled.counts + count_change, target, settled.siblings).by_level(plan), "in": target}
    return truths
