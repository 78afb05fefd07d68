"""Audit of any `pymc.Model`, as adversary and as release mechanism: no plan, released variables of any kind and shape.

The result has the groups of an audit of a plan. Variables that the truth names are fixed in the model, all others are
drawn from their conditional distribution, and releases from the model; or a function of the user simulates them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary._core import (
    DEFAULT_FAILURE,
    PerThread,
    Sampling,
    Seed,
    blocks,
    check_probability,
    check_whole,
    dask_address,
)
from adversary.adversaries.risk import DRAWS
from adversary.driver.case import Bounds, groups_of, named_guarantees
from adversary.driver.groups import concat_groups
from adversary.driver.model_case import FITS, RecognisedNoise, is_model, latents_of, target_side
from adversary.driver.posteriors import NUTS, Groups, distinct_arrays, model_posteriors
from adversary.driver.run_audit import ENGINES, named_truths, origin, unit_of
from adversary.driver.sweeps import SweptCase
from adversary.privacy import Guarantee, PrivacyUnit

if TYPE_CHECKING:
    import pymc as pm

Simulator = Callable[[np.random.Generator, int], Mapping[str, ArrayLike]]


def audit_model(
    model: pm.Model | Mapping[str, pm.Model],
    truth: Mapping[str, Any],
    *,
    released: str | Iterable[str] | None = None,
    target: str = "in",
    data: Mapping[str, Any] | None = None,
    guarantee: Guarantee | Mapping[str, Guarantee] | None = None,
    records: int = 1,
    privacy_unit: PrivacyUnit | None = None,
    failure: float = DEFAULT_FAILURE,
    engine: str = "exact",
    support: Mapping[str, ArrayLike] | None = None,
    simulate: Simulator | None = None,
    draws: int | None = None,
    sampling: Sampling | None = None,
    rng: Seed = None,
    progress: bool = True,
    store: Any = None,
    scheduler: str | None = None,
    workers: int | None = None,
) -> xr.DataTree:
    """Audit of an adversary who believes a model: posterior and risk of its target, averaged over releases of a truth.

    Parameters
    ----------
    model : pymc.Model with its released variables left free, of any number, shape and kind; or a mapping of names for
        several, which become dim "adversary". The first makes the releases, and all read these
    truth : values by name: of the target, and of the latents and deterministics that are to be fixed. All others are
        drawn from their distribution given these and the side data observed in the model. Or a mapping of names to
        several truths, which become dim "truth"
    released : names of the released variables; unless given every variable called noisy, sibling_sum or siblings, alone
        or with a level, as in "noisy[block]"
    target : a latent or Deterministic with values 0 and 1
    data : values by name of the model's `pm.Data`, one dim each: numbers, or a mapping of names to arrays. They change
        the adversaries' beliefs only: releases are simulated by the (first) model with its own data
    guarantee : the guarantee claimed for the release, one or a mapping of names. The composed privacy loss of the
        model's own mechanisms is shown too, if all releases were made by `models.noise.released`
    records : number of privacy units in which the two hypotheses differ
    privacy_unit : whose data a guarantee protects, and how much of the release one of them changes; unless given, a
        person who changes what the noise was calibrated for
    failure : probability with which a bound that is not certain may fail
    engine : "exact" enumerates where all latents are discrete and finite; otherwise, and with "importance", discrete
        latents are summed out as far as they can be and draws of the others weighed by every release. "enumerate" adds
        up states or refuses, "mcmc" samples continuous latents release by release with NUTS
    support : values of latents without a finite support of their own
    simulate : makes the releases instead of the model: a function of (generator, number of releases) that returns
        arrays (release, *shape) by name
    draws : number of simulated releases. Unless given 20,000 where states are enumerated, and otherwise 1,000
    sampling : lengths of sampled posteriors, `adversary.Sampling`
    rng : seed
    progress : as for `audit`; what is expected to take ten seconds or more is named before it starts, and in the
        attribute `expected_seconds`
    store, scheduler, workers : as for `audit`, for releases that are not enumerated

    Returns
    -------
    DataTree with groups `release` (the released variables and `weight`), `exact` or `estimate` (posterior, log_odds and
    ratio per release; estimates with mcse, log_odds_mcse, ess, k_hat and status), `risk`, `bound`, and draws, where
    there are any, in the groups of ArviZ: as `audit` returns them.

    Raises
    ------
    ValueError, TypeError : naming the argument, the rule and the value

    Examples
    --------
    >>> import pymc as pm
    >>> from adversary import DiscreteGaussian, models
    >>> with pm.Model() as model:
    ...     sick = pm.Bernoulli("in", np.float64(0.1))
    ...     others = pm.Binomial("others", 20, np.float64(0.1))
    ...     noisy = models.noise.released("noisy", DiscreteGaussian(1.0), sick + others)
    >>> tree = audit_model(model, {"in": 1}, draws=1000, rng=1)
    >>> round(float(tree["risk"]["posterior_mean"]), 2), tree["bound"]["status"].values.tolist()
    (0.13, ['holds'])

    Both truths at once:

    >>> both = audit_model(model, {"sick": {"in": 1}, "well": {"in": 0}}, draws=1000, rng=1)
    >>> both["risk"]["posterior_mean"].sel(truth=["sick", "well"]).round(2).values.tolist()
    [0.13, 0.1]
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    check_probability("failure", failure)
    if sampling is not None and not isinstance(sampling, Sampling):
        raise TypeError(f"sampling must be an adversary.Sampling, got {sampling!r}")
    check_whole("records", records, minimum=1)
    models, truths = _named_models(model), named_truths(truth, "the model's variables to values")
    first_name, first = next(iter(models.items()))
    names = _released_by_all(models, released)
    methods_by_name = {name: _method_of(one, names, target, support or {}, engine) for name, one in models.items()}
    default_size = DRAWS if set(methods_by_name.values()) == {"enumerate"} else FITS
    size = default_size if draws is None else int(check_whole("draws", draws, minimum=1))
    seed = blocks.seed_sequence(rng)
    prior_seed, release_seed, fit_seed = seed.spawn(3)
    by_truth, methods, expected = [], [], 0.0
    with dask_address(scheduler, workers) as address:
        how: dict[str, Any] = {"support": support or {}, "sampling": sampling, "progress": progress, "store": store}
        how["scheduler"] = address
        bounds = (privacy_unit, int(records), float(failure), named_guarantees(guarantee))
        inputs = _ModelInputs(tuple(names), target, size, (prior_seed, fit_seed), how, *bounds)
        fitters = {
            name: inputs.compiled(one, NUTS.get(methods_by_name[name])) for name, one in models.items() if not data
        }
        for truth_name, one_truth in truths.items():
            side, generator = target_side(one_truth, target), np.random.default_rng(_unspawned(release_seed))
            simulated = _simulated(
                first, names, one_truth, simulate, size, generator, (fitters.get(first_name), target)
            )
            releases = distinct_arrays(simulated)
            cases = []
            for name, one in models.items():
                compute_groups = partial(
                    inputs.groups, NUTS.get(methods_by_name[name]), side, *releases, fitters.get(name)
                )
                cases.append((name, _over_data(one, data or {}, compute_groups)))
                groups_of_case = cases[-1][1].values()
                methods += [group.attrs["method"] for group in groups_of_case if "method" in group.attrs]
                expected += sum(group.attrs.get("expected_seconds", 0.0) for group in groups_of_case)
            by_truth.append((truth_name, concat_groups(cases, "adversary")))
    groups = concat_groups(by_truth, "truth")
    tree = xr.DataTree.from_dict({name: xr.DataTree(group) for name, group in groups.items()})
    attributes = {"engine": engine, "method": ", ".join(dict.fromkeys(methods)), "target": target, "failure": failure}
    attributes |= {
        "draws": size,
        "sensitivity": str(records),
        "released": json.dumps(names),
        "warnings": json.dumps([]),
    }
    attributes |= {"expected_seconds": round(expected, 1)} if expected else {}
    attributes |= {} if privacy_unit is None else {"privacy_unit": json.dumps({"model": unit_of(privacy_unit)})}
    attributes |= dict(groups["posterior"].attrs) if "posterior" in groups else {}
    truths_by_name = truth if None in truths else {str(name): dict(one) for name, one in truths.items()}
    tree.attrs |= attributes | origin(seed, rng, truths_by_name, support, ["pymc"])
    return tree


@dataclass(frozen=True)
class _ModelInputs:
    """Inputs of `audit_model` that all models and truths share.

    Parameters
    ----------
    names, target, size : released variables, target and number of simulated releases
    seeds : of the prior and of fits, the same for every model
    how : support, sampling, progress, store and scheduler of fits
    unit, records, failure, guarantees : of the bounds
    """

    names: tuple[str, ...]
    target: str
    size: int
    seeds: tuple[np.random.SeedSequence, np.random.SeedSequence]
    how: Mapping[str, Any]
    unit: PrivacyUnit | None
    records: int
    failure: float
    guarantees: dict[str, Guarantee]

    def compiled(self, model: pm.Model, nuts: str | None) -> PerThread[Any] | None:
        """A model compiled once for releases of all truths; None where it is enumerated."""
        if nuts is None:
            return None
        from adversary.models.fitting import compiled_once

        how = (self.how["support"], (), _unspawned(self.seeds[0]), self.how["sampling"], nuts, self.how["progress"])
        return compiled_once(model, self.names, self.target, *how)

    def groups(
        self,
        nuts: str | None,
        side: int,
        releases: dict[str, NDArray[Any]],
        weight: xr.DataArray,
        compiled: PerThread[Any] | None,
        model: pm.Model,
    ) -> Groups:
        """Groups of an audit of one model.

        `side` is 1 if the truth has the target in, else 0; `nuts` as for `model_posteriors`; the simulated releases are
        given as arrays (release, *shape) by name with their `weight` (release,).
        """
        from adversary.models.fitting import label_arrays

        prior, fit = (_unspawned(seed) for seed in self.seeds)
        release = label_arrays(model, releases, ("release",))
        options: dict[str, Any] = {**self.how, "target": self.target, "nuts": nuts, "rng": fit, "prior_rng": prior}
        options |= {} if compiled is None else {"compiled": compiled}
        posteriors = model_posteriors(model, side, release, weight, releases, self.size, **options)
        bounds = Bounds(RecognisedNoise(model, self.names, self.unit), self.records, self.records, self.failure)
        return groups_of(posteriors, posteriors.risk(), bounds.table(self.guarantees, posteriors.law, posteriors))


def _over_data(model: pm.Model, data: Mapping[str, Any], compute_groups: Callable[[pm.Model], Groups]) -> Groups:
    """Groups of an audit of a model at every combination of values of its `pm.Data`, one new dim for each name."""
    if not data:
        return compute_groups(model)
    (name, values), *others = data.items()
    values_by_label = (
        dict(values) if isinstance(values, Mapping) else {value: value for value in np.asarray(values).tolist()}
    )
    if not values_by_label:
        raise ValueError(f"data: {name!r} must have at least one value, got none")
    parts = [
        (label, _over_data(SweptCase(None, model, {name: value}).settled().adversary, dict(others), compute_groups))
        for label, value in values_by_label.items()
    ]
    groups = concat_groups(parts, name)
    return {
        group: one.assign_coords({name: list(values_by_label)}) if name in one.dims else one
        for group, one in groups.items()
    }


def _named_models(model: Any) -> dict[Any, Any]:
    """One model or several by name; None is the name of one alone."""
    models_by_name = dict(model) if isinstance(model, Mapping) else {None: model}
    if not models_by_name:
        raise ValueError("model must not be an empty mapping")
    for one in models_by_name.values():
        if not is_model(one):
            raise TypeError(f"model must be a pymc.Model or a mapping of names to them, got {one!r}")
    return models_by_name


def _released_by_all(models: Mapping[Any, Any], released: str | Iterable[str] | None) -> list[str]:
    """Names of the released variables; ValueError unless all models have the same."""
    from adversary.models.enumeration import released_names

    wanted_names = released if released is None or isinstance(released, str) else list(released)
    names_by_model = {name: list(released_names(one, wanted_names)) for name, one in models.items()}
    (first, names), *others = names_by_model.items()
    for other, other_names in others:
        if set(other_names) != set(names):
            raise ValueError(
                f"models must release the same variables: {first!r} has {names}, {other!r} has {other_names}"
            )
    return names


def _unspawned(seed: np.random.SeedSequence) -> np.random.SeedSequence:
    """Copy of a seed sequence that has spawned no children, so that every case sees the same random numbers."""
    return np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)


def _method_of(model: Any, names: list[str], target: str, support: Mapping[str, ArrayLike], engine: str) -> str:
    """Method for a model's posteriors, "enumerate", "importance" or "mcmc"; ValueError if the engine cannot be used."""
    from adversary.models.enumeration import condition, is_enumerable

    continuous = latents_of(model, names, target, support)
    condition(model, names, continuous=True)
    if engine == "enumerate" and continuous:
        raise ValueError(f'engine "enumerate" adds up discrete states, and latent {continuous[0]!r} is continuous')
    if engine == "enumerate" or (engine == "exact" and is_enumerable(model, names, support, [target])):
        return "enumerate"
    return "importance" if engine == "exact" else engine


def _simulated(
    model: Any,
    names: list[str],
    truth: Mapping[str, Any],
    simulate: Simulator | None,
    size: int,
    rng: np.random.Generator,
    compiled_and_target: tuple[PerThread[Any] | None, str],
) -> dict[str, NDArray[Any]]:
    """Simulated releases (release, *shape) by name, of the model or of the user's function.

    With side data the prior draws of the compiled model are used, and made first, so that the expected time is printed
    before any other work.
    """
    from adversary.models.enumeration import check_truth
    from adversary.models.importance import releases_under

    check_truth(model, truth, names)
    if simulate is None:
        compiled, target = compiled_and_target
        prior_draws = None if compiled is None or not model.observed_RVs else (compiled.value.prior, target)
        return releases_under(model, truth, names, size, rng, prior_draws)
    simulated = simulate(rng, size)
    if not isinstance(simulated, Mapping):
        raise TypeError(f"simulate must return a mapping of {names} to arrays, got {type(simulated).__name__}")
    data = {name: np.asarray(value) for name, value in simulated.items()}
    if set(data) != set(names):
        raise ValueError(f"simulate must return {names}, got {list(data)}")
    for name, value in data.items():
        wanted = (size, *(int(n) for n in (model[name].shape.eval() if model[name].ndim else ())))
        if value.shape != wanted:
            raise ValueError(f"simulate: {name} must have shape {wanted}, got {value.shape}")
    return {name: data[name] for name in names}
