"""One release of one model, for ArviZ: draws before and after, diagnostics, and the terms that power-scaling needs.

Where all latents are discrete the draws are independent ones from the enumerated joint posterior, so that diagnostics
are perfect; otherwise the discrete latents are summed out, the continuous ones sampled, and the discrete drawn back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from pymc.vartypes import discrete_types
from pytensor.tensor.variable import TensorVariable

from adversary._core import blocks, check_whole
from adversary.models.enumeration import (
    NUMPY_MODE,
    Conditioned,
    Grid,
    Marginal,
    Slot,
    batched,
    condition,
    derived,
    summed,
    support_of,
    target_of,
    vectorized,
    wanted_names,
)

from .fit_records import labelled
from .fit_releases import fit_twice
from .marginalised import Marginalised, Settings
from .prior_draws import Priors

Arrays = dict[str, NDArray[Any]]
Seeds = list[np.random.SeedSequence]

LARGEST_JOINT = 5_000_000
"""Joint states from which independent draws are taken."""

TIED = 1e-9
_CHAIN_DRAW = ("chain", "draw")


def fit(
    model: Any,
    observed: Mapping[str, ArrayLike],
    target: str | None = None,
    *,
    variables: Sequence[str] | None = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    support: Mapping[str, ArrayLike] | None = None,
    rng: Any = None,
    progress: bool = True,
) -> xr.DataTree:
    """Posterior draws of latents given one release.

    Parameters
    ----------
    model : pymc.Model with its release left free
    observed : one release, by the names of the model's variables: see `adversary.observed`
    target : binary latent or Deterministic; "in" unless given, where the model has it. It needs none
    variables : names of latents and deterministics to draw; every latent unless given
    draws, tune, chains : draws kept of each chain, steps to tune it, and independent chains
    support : values of latents without a finite support of their own
    rng : seed
    progress : show nutpie's bar

    Returns
    -------
    DataTree with groups `posterior` and `prior` (`variables`), `sample_stats` (diverging, lp, and `probability` =
    P(target = 1 | continuous latents, release)), `log_prior` (a variable per latent and potential), `log_likelihood`
    (a variable per released or observed one), `observed_data`, and `exact` or `estimate`: `posterior` = P(target = 1 |
    release), `prior`, and in `estimate` its `mcse`, `r_hat`, `ess`, `divergences`, `k_hat` (see `Refits`) and `status`.
    Without a target what would be said of it is left out. A fit that fails is run once more, four times as long; one
    that fails again is "unreliable" and has no `posterior`. What is called prior is given the side data observed in the
    model.

    Notes
    -----
    `log_prior` has a term for every latent, also for one whose law depends on another latent. In a hierarchical model
    name the terms whose power is to be scaled, or those conditional laws count as prior too:
    ``arviz.psense_summary(tree, prior_var_names=["rate"])``.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     present = pm.Bernoulli("in", np.float64(0.5))
    ...     noisy = pm.Normal("noisy", present, np.float64(2.0))
    >>> float(fit(model, {"noisy": 1.5}, draws=10, rng=1)["exact"]["posterior"].round(4))
    0.5622
    """
    lengths = ("chains", chains), ("tune", tune), ("draws", draws)
    settings = Settings(*(int(check_whole(name, value, minimum=1)) for name, value in lengths))
    seeds = blocks.seed_sequence(rng).spawn(3)
    unknown = [rv for rv in model.free_RVs if rv.name not in observed]
    target, names = target_of(model, target), wanted_names(model, observed, variables or [rv.name for rv in unknown])
    smooth = any(rv.dtype not in discrete_types for rv in unknown)
    if smooth:
        found = _sampled(model, observed, target, support or {}, settings, seeds, progress)
    else:
        found = _enumerated(model, observed, target, support or {}, settings, seeds)
    log_prior, log_likelihood = found.terms()
    lp = sum(log_prior.values()) + sum(log_likelihood.values())
    groups = {
        "posterior": labelled(found.given, found.chosen(found.latents, names), _CHAIN_DRAW),
        "prior": labelled(found.given, found.chosen(found.prior, names), _CHAIN_DRAW),
        "sample_stats": xr.Dataset({n: (_CHAIN_DRAW, v) for n, v in {**found.told, "lp": lp}.items()}),
        "log_prior": _untied(log_prior),
        "log_likelihood": _untied(log_likelihood),
        "observed_data": labelled(found.given, found.row, ()),
        "estimate" if smooth else "exact": xr.Dataset(found.summary),
    }
    axes = {"chain": np.arange(settings.chains), "draw": np.arange(settings.draws)}
    groups = {name: group.assign_coords(axes) if "chain" in group.dims else group for name, group in groups.items()}
    return xr.DataTree.from_dict({name: xr.DataTree(group) for name, group in groups.items()})


@dataclass(frozen=True)
class _Found:
    """Draws of one release: latents (chain, draw, *shape) on their own scale, `values` on the sampler's."""

    given: Conditioned
    row: Arrays
    latents: Arrays
    values: Arrays
    told: Arrays
    prior: Arrays
    summary: Mapping[str, Any]

    def chosen(self, draws: Arrays, names: Sequence[str]) -> Arrays:
        """Latents and deterministics of these names, from draws (chain, draw, *shape) of every latent."""
        extra = [name for name in names if name not in draws]
        latents = [draws[name] for name in (*self.given.latents, *self.given.continuous)]
        sizes = latents[0].shape[:2]
        found = derived(self.given, extra)(*(v.reshape(-1, *v.shape[2:]) for v in latents)) if extra else []
        values = [np.broadcast_to(v, (sizes[0] * sizes[1], *v.shape[1:])) for v in found]
        worked_out = {n: v.reshape(*sizes, *v.shape[1:]) for n, v in zip(extra, values, strict=True)}
        return {name: (draws | worked_out)[name] for name in names}

    def terms(self) -> tuple[Arrays, Arrays]:
        """Log densities at every draw (chain, draw): of latents and potentials, and of what was observed."""
        model, given = self.given.model, self.given
        values = model.replace_rvs_by_values(model.potentials)
        told = [p for p, v in zip(model.potentials, values, strict=True) if given.uses_release(v)]
        untold = [p for p in model.potentials if p not in told]
        return self._at_draws([*model.free_RVs, *untold]), self._at_draws([*model.observed_RVs, *told])

    def _at_draws(self, variables: Sequence[TensorVariable]) -> Arrays:
        if not variables:
            return {}
        given, shape = self.given, self.told["diverging"].shape
        drawn = {v: self.latents[n].astype(v.dtype) for n, v in given.latents.items()}
        drawn |= {v: self.values[n] for n, v in given.continuous.items()}
        inputs = {v: array.reshape(-1, *array.shape[2:]) for v, array in drawn.items()}
        places = {v: pt.tensor(dtype=v.dtype, shape=(None, *array.shape[1:])) for v, array in inputs.items()}
        for name, variable in given.released.items():
            inputs[variable] = np.asarray(self.row[name], variable.dtype)[None]
            places[variable] = pt.tensor(dtype=variable.dtype, shape=inputs[variable].shape)
        graphs = [summed(given.model.logp(vars=[one], sum=False, jacobian=False)) for one in variables]
        outputs = vectorized(graphs, places)
        evaluate = pytensor.function(list(places.values()), outputs, mode=NUMPY_MODE, on_unused_input="ignore")
        size = shape[0] * shape[1]
        terms = [np.broadcast_to(np.ravel(term), (size,)).reshape(shape) for term in evaluate(*inputs.values())]
        return {one.name: term for one, term in zip(variables, terms, strict=True)}


def _sampled(
    model: Any,
    observed: Mapping[str, ArrayLike],
    target: str | None,
    support: Mapping[str, ArrayLike],
    settings: Settings,
    seeds: Seeds,
    progress: bool,
) -> _Found:
    """Draws of a model with continuous latents."""
    fitter = Marginalised.of(model, tuple(observed), target, support, seeds[0])
    given, priors, row = fitter.conditioned, fitter.priors, _row(fitter.slots, observed)
    table = fitter.tables({name: value[None] for name, value in row.items()})[..., 0]
    found = fit_twice(fitter, table, row, settings, seeds[1], progress)
    sizes = (settings.chains, settings.draws)
    points = priors.split(found["points"].reshape(-1, priors.size))
    values = {name: one.reshape(*sizes, *one.shape[1:]) for name, one in zip(given.continuous, points, strict=True)}
    passed = bool(found["passed"])
    summary = {name: found[name] for name in ("mcse", "r_hat", "ess", "divergences", "k_hat")}
    told = {"diverging": found["diverging"] == 1}
    if target is None:
        del summary["mcse"]
    else:
        summary |= {
            "posterior": found["posterior"] if passed else np.nan,
            "prior": priors.chance(given, fitter.states, fitter.one)[0],
        }
        told["probability"] = found["probability"]
    summary["status"] = "ok" if passed else "unreliable"
    latents = {name: found[name] for name in priors.latents}
    prior = priors.drawn(priors.weights(given), sizes, np.random.default_rng(seeds[2]))
    return _Found(given, row, latents, values, told, prior, summary)


def _enumerated(
    model: Any,
    observed: Mapping[str, ArrayLike],
    target: str | None,
    support: Mapping[str, ArrayLike],
    settings: Settings,
    seeds: Seeds,
) -> _Found:
    """Independent draws from the joint posterior of a model with discrete latents alone."""
    given = condition(model, tuple(observed))
    grid = Grid.over({n: support_of(given.model[n], support, given.moving) for n in given.latents}, LARGEST_JOINT)
    row = _row([Slot(name, v.dtype, v.type.shape) for name, v in given.released.items()], observed)
    density, extra = batched(given, [given.log_joint()]), [value[None, None] for value in row.values()]
    parts = [np.broadcast_to(density(*grid.states(a, b), *extra)[0], (b - a, 1))[:, 0] for a, b in grid.blocks]
    log_p = np.concatenate(parts)
    if not np.isfinite(log_p.max()):
        raise ValueError(f"the release has probability zero, or no density, in every state of the latents: {row}")
    weights = np.exp(log_p - log_p.max())
    sizes, generator = (settings.chains, settings.draws), np.random.default_rng(seeds[1])
    place = generator.choice(grid.size, sizes[0] * sizes[1], p=weights / weights.sum())
    shapes = zip(given.latents, grid.axes.values(), grid.shapes.values(), strict=True)
    indices = iter(np.unravel_index(place, grid.lengths))
    latents = {n: np.stack([v[next(indices)] for v in axes], -1).reshape(*sizes, *shape) for n, axes, shape in shapes}
    priors = Priors.of(given, seeds[0])
    summary: dict[str, float] = {}
    told = {"diverging": np.zeros(sizes, dtype=bool)}
    if target is not None:
        marginal = Marginal.over(grid, target, given)
        one = (marginal.values[marginal.index] == 1).all(axis=1)
        summary["posterior"] = float(weights[one].sum() / weights.sum())
        summary["prior"] = priors.chance(given, grid.states(0, grid.size), one)[0]
        told["probability"] = np.full(sizes, summary["posterior"])
    prior = priors.drawn(priors.weights(given), sizes, np.random.default_rng(seeds[2]))
    return _Found(given, row, latents, {}, told, prior, summary)


def _row(slots: Sequence[Slot], observed: Mapping[str, ArrayLike]) -> Arrays:
    """The release as the model's variables hold it; ValueError for several releases."""
    row = {}
    for slot in slots:
        batch, _ = slot.batch(observed[slot.name])
        if batch.shape[1] != 1:
            raise ValueError(f"fit takes one release, got {batch.shape[1]} of {slot.name}; adversary.audit takes many")
        row[slot.name] = batch[0, 0]
    return row


def _untied(terms: Arrays) -> xr.Dataset:
    """Terms as a Dataset, spread by a billionth of a nat: ArviZ's power-scaling refuses tails of equal values, which
    the terms of discrete latents always have."""
    rng = np.random.default_rng(0)
    return xr.Dataset({n: (_CHAIN_DRAW, term + rng.uniform(-TIED, TIED, term.shape)) for n, term in terms.items()})
