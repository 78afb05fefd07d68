"""Sensitivity of an adversary's posterior to the prior, the noise, the siblings and the beliefs about others.

One law of the log Bayes factor over releases serves every prior, so priors cost next to nothing; every other input asks
for a law of its own (models: see `model_sweep`). Both truths are always shown: a belief that helps an adversary
under one of them hurts under the other, and one alone misleads.
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
    Promised,
    SweptCase,
    at_prior_of,
    case_at,
    ends,
    input_words,
    laid_out,
    ranges_of,
    sibling_dim,
    summary_of,
    truths_of_models,
    values_of,
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
    prior : probabilities that the target is in; or a law over them, frozen, of scipy.stats or PreliZ: the middles of 50
        equal shares of it, so that a plain mean along `prior` averages over the law. Of a model, its own odds of the
        target are changed, and nothing that it holds given the target
    rho : zCDP budgets of the whole plan, in nats; the noise of every level gets the same factor. An exact level stays.
        This and `siblings` are for an `Adversary` or a function of `plan`
    siblings : numbers of other units, for the lowest level; or a mapping of level name to such numbers, one dim each
    beliefs : named mappings of level to belief, each in place of the adversary's own; or named adversaries, models and
        functions that build them
    data : of models, values by name of their `pm.Data` or of arguments of the function, one dim each: numbers; a frozen
        law over them, the middles of 20 equal shares; or a mapping of names to whatever the function takes, such as
        laws of PreliZ
    released, target, support, sampling : of models, as for `adversary.audit_model`
    guarantee : what was promised, one or a mapping of names: bounds stand beside the averages, and those of the loss of
        the plan's or the model's own noise
    failure : probability with which a bound that is not certain may fail
    records : of models, number of privacy units in which the two hypotheses differ
    privacy_unit : of models without a plan, as for `adversary.audit_model`; a plan has its own
    draws, rng : simulated releases and seed, where a law is simulated; every case sees the same random numbers
    progress : show a bar on longer work
    coarse : put each law on at most 2000 values first: faster, for figures, and good to about 1e-5 in averages

    Returns
    -------
    Dataset with dims `prior`, `rho`, `siblings` (`siblings[level]` for a mapping), `beliefs` and names of `data` as far
    as given, and always `truth`: "in" and "out", everybody else as they truly are. Variables are those of the risk
    group of an audit: `posterior_mean`, `ratio_mean`, `difference_mean`, `prob_correct`, `tie_mass`,
    `posterior_quantile` and `ratio_quantile` (dim `quantile`), and `mcse` where anything was simulated. `possible` says
    which truths a adversary holds possible; where it is False there is no average (and the attribute `impossible` says
    why), so the entries of the other variables are missing. Coordinate `budget` is the factor that makes each rho. With
    a guarantee, or for other `records` than one, also `loss_bound`, `outside` (probability of a release beyond it) and
    `bound_status`, dim `definition`, and `bound`, the posterior's (`definition`, `side`): as group `bound` of an audit.

    With models a DataTree, that Dataset in group `risk`, with `status` ("unreliable" entries have no numbers), `k_hat`
    (largest over releases) and `anew` (share of releases that the shared draws did not do for, fitted by the model's
    own). All priors of the same latents share one set of draws, made by all of them together. The groups of ArviZ are
    those of the first model given its most probable release: `arviz.psense_summary(tree)`.

    Raises
    ------
    ValueError, TypeError : naming the argument, the rule and the value; also where neither truth is ever possible

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> from adversary.adversaries.plans import Level
    >>> plan = Plan([Level("block", DiscreteGaussian.from_rho(0.1))])
    >>> found = sweep(plan, Adversary(), {"block": 1}, prior=[0.1, 0.5])
    >>> [round(float(p), 4) for p in found["posterior_mean"].sel(truth="in")]
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
    promised = None
    if privacy_unit is not None and plan is not None:
        raise ValueError("privacy_unit is for models without a plan, which has its own: Plan(privacy_unit=...)")
    if guarantee is not None or privacy_unit is not None or records != 1:
        chance = float(check_probability("failure", failure))
        units = int(check_whole("records", records, minimum=1))
        promised = Promised(named_guarantees(guarantee), chance, units, privacy_unit)
    risk, models = _swept(plan, adversary, truth, inputs, *how, progress, coarse, promised)
    return risk if models is None else xr.DataTree.from_dict({"risk": risk, **models.groups()})


def _how(
    laws: SharedLaws | None, draws: int | None, rng: Any, released: Any, target: str, support: Any, sampling: Any
) -> tuple[dict[str, Any], SharedLaws]:
    """Arguments of the models of a sweep, and its laws."""
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
    promised: Promised | None = None,
) -> tuple[xr.Dataset, ModelSweep | None]:
    """The averages of a sweep, and its models if it has any."""
    prior = inputs.get("prior")
    ranges = ranges_of(plan, adversary, truth, *(inputs.get(name) for name in ("rho", "siblings", "beliefs", "data")))
    priors = None if prior is None else check_probability("prior", values_of("prior", prior, SHARES))
    shape = tuple(len(one.values) for one in ranges)
    places = list(np.ndindex(*shape))
    chosen = {p: [one.values[i] for one, i in zip(ranges, p, strict=True)] for p in places}
    cases = {p: case_at(SweptCase(plan, adversary), ranges, chosen[p]) for p in places}
    model_cases = {p: case for p, case in cases.items() if case.is_model}
    models = None
    if model_cases:
        sides = truths_of_models(plan, truth, of_models["target"])
        models = ModelSweep(model_cases, sides, **of_models)
    both = _both_truths(plan, adversary, truth) if isinstance(adversary, Adversary) else sides
    in_order = places if models is None else models.in_order(places)
    work = [(*place, side) for place in in_order for side in range(2)]
    table: dict[tuple[int, ...], list[xr.Dataset]] = {}
    why: dict[tuple[int, ...], str] = {}
    for place in blocks.track(work, "laws of the sweep", enabled=progress and len(work) > 8):
        case, side = cases[place[:-1]], TRUTHS[place[-1]]
        try:
            if models is not None and case.is_model:
                readings = models.readings(place[:-1], side)
                every = [readings] if priors is None else [at_prior_of(readings, float(p)) for p in priors]
                table[place] = [summary_of(one) for one in every]
                if promised is not None:
                    bounds = [promised.of_model(case, models.names(case), one) for one in every]
                    table[place] = [one.merge(more) for one, more in zip(table[place], bounds, strict=True)]
                continue
            settled = settle_truth(case.plan, case.adversary, both[side])
        except ValueError as error:
            why[place] = input_words(ranges, chosen[place[:-1]]) + f"truth {side!r}: {error}"
            continue
        try:
            law = laws.of(case.plan, case.adversary, settled, coarse=coarse)
        except ImpossibleRelease as error:
            why[place] = input_words(ranges, chosen[place[:-1]]) + f"truth {side!r}: {error}"
            continue
        invariant = invariant_factor(case.plan, case.adversary, settled)
        laws_of = [law] if priors is None else [law.at_prior(float(p)) for p in priors]
        factors = law.quantiles(QUANTILES)
        table[place] = [risk_summary(one, invariant, factors=factors) for one in laws_of]
        if promised is not None:
            bounds = [promised.of_adversary(case, one, invariant, settled.target) for one in laws_of]
            table[place] = [one.merge(more) for one, more in zip(table[place], bounds, strict=True)]
    if not table:
        raise ValueError(f"no truth is possible for any adversary of the sweep: {next(iter(why.values()))}")
    return laid_out(plan, adversary, ranges, priors, table, why), models


def one_at_a_time(plan: Plan, adversary: Any, truth: Mapping[str, Any], **options: Any) -> xr.Dataset:
    """Movement of each measure as one input goes over its range, all others as they are: what a tornado draws.

    Parameters
    ----------
    plan, adversary, truth : as in `sweep`
    **options : of `base_and_sweeps`, at least one input among them

    Returns
    -------
    Dataset of the measures of `sweep`, dims (input, truth, end): `end` is "low" (the least value over the input's
    range), "base" (the plan and adversary as they are) and "high" (the largest); ends are never inside the base.
    `at_<measure>` names the input's value at each end, "as it is" where the base itself is the end. Truths that a
    adversary holds impossible are left out of the range; one impossible at the base is missing throughout.
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
    """One-at-a-time sweeps: the case as it is, and `sweep` over each input with all others as they are.

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
    """Least and largest value of every measure over the range of each input: what `base_and_sweeps` returns.

    Parameters
    ----------
    base, swept : the two answers of `base_and_sweeps`

    Returns
    -------
    Dataset of the measures and `at_<measure>`, dims (input, truth, end), with `end` "low", "base" and "high"; and
    `mcse` (measure), their standard errors, where anything was simulated.
    """
    rows = [ends(base, one, dim) for dim, one in swept.items()]
    table = xr.concat(rows, xr.DataArray(list(swept), dims="input", name="input"))
    if not any("mcse" in one for one in (base, *swept.values())):
        table = table.drop_vars(["mcse", "measure"])
    return table.assign_attrs(base.attrs)


def most_moving(table: xr.Dataset, measure: str = "posterior_mean") -> list[str]:
    """The inputs that move a measure most, so far as its errors tell them apart; none where no input does.

    Parameters
    ----------
    table : answer of `extremes`
    measure : one of its variables

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
    """The truth with the target in, and with the target out, everybody else as they are; neither yet held possible."""
    settled = settle_truth(plan, adversary, truth)
    truths = {}
    for target, name in ((1, "in"), (0, "out")):
        cells = [adversary.contributions(cell) for cell in range(plan.cells)]
        moved = np.array([pair[target] - pair[settled.target] for pair in cells])
        truths[name] = {**Truth(settled.counts + moved, target, settled.siblings).by_level(plan), "in": target}
    return truths
