"""One release of one model, for ArviZ: draws before and after, diagnostics, and the terms that power-scaling needs.

Where all latents are discrete the draws are independent ones from their joint posterior, so that diagnostics are
perfect; otherwise the discrete latents are summed out, the continuous ones sampled, and the discrete drawn back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from pytensor.tensor.variable import TensorVariable

from adversary._core import Sampling, blocks
from adversary.models.enumeration import (
    NUMPY_MODE,
    Conditioned,
    Slot,
    condition,
    derived,
    summed,
    target_of,
    vectorized,
    wanted_names,
)

from .fitter import Fit, Fitter
from .many_fits import labelled

Arrays = dict[str, NDArray[Any]]

TIED = 1e-9
_CHAIN_DRAW = ("chain", "draw")


def fit(
    model: Any,
    observed: Mapping[str, ArrayLike],
    target: str | None = None,
    *,
    variables: Sequence[str] | None = None,
    sampling: Sampling | None = None,
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
    sampling : number and length of the chains
    support : values of latents without a finite support of their own
    rng : seed
    progress : show nutpie's bar

    Returns
    -------
    DataTree with groups `posterior` and `prior` (`variables`), `sample_stats` (diverging, energy, lp, and `probability`
    = P(target = 1 | continuous latents, release)), `log_prior` (a variable per latent and potential), `log_likelihood`
    (a variable per released or observed one), `observed_data`, and `exact` or `estimate`: `posterior` = P(target = 1 |
    release), `prior`, and in `estimate` its `mcse`, `r_hat`, `ess`, `divergences`, `k_hat` (see `Fit`) and `status`.
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
    >>> float(fit(model, {"noisy": 1.5}, rng=1)["exact"]["posterior"].round(4))
    0.5622
    """
    sampling = sampling or Sampling()
    prior_seed, fit_seed, draw_seed = blocks.seed_sequence(rng).spawn(3)
    unknown = [rv for rv in model.free_RVs if rv.name not in observed]
    target, names = target_of(model, target), wanted_names(model, observed, variables or [rv.name for rv in unknown])
    fitter = Fitter.of(model, tuple(observed), target, support, (), prior_seed, sampling, "always")
    given, row = condition(model, tuple(observed), continuous=True), _row(fitter.prior.terms.slots, observed)
    (one,) = fitter.fits({name: value[None] for name, value in row.items()}, [fit_seed], sampling.draws, progress)
    if not fitter.prior.values and not one.passed:
        raise ValueError(f"the release has probability zero, or no density, in every state of the latents: {row}")
    prior = fitter.prior.prior_draws(sampling.chains * sampling.draws, np.random.default_rng(draw_seed))
    sizes = (sampling.chains, sampling.draws)
    prior = {name: value.reshape(*sizes, *value.shape[1:]) for name, value in prior.items()}
    values = dict(zip(fitter.prior.terms.given.continuous, one.values, strict=True))
    told = {"diverging": np.zeros(sizes, dtype=bool)}
    if one.trace is not None:
        told = {"diverging": one.trace.diverging, "energy": one.trace.energy}
    if target is not None:
        told["probability"] = one.chance
    found = _Found(given, row, one.latents, values, told, prior)
    before = None if target is None else fitter.prior.before()[0]
    log_prior, log_likelihood = found.terms()
    lp = sum(term.reshape(*sizes, -1).sum(axis=-1) for term in (*log_prior.values(), *log_likelihood.values()))
    groups = {
        "posterior": labelled(found.given, found.chosen(found.latents, names), _CHAIN_DRAW),
        "prior": labelled(found.given, found.chosen(found.prior, names), _CHAIN_DRAW),
        "sample_stats": xr.Dataset({n: (_CHAIN_DRAW, v) for n, v in {**told, "lp": lp}.items()}),
        "log_prior": _untied(given, log_prior),
        "log_likelihood": _untied(given, log_likelihood),
        "observed_data": labelled(given, row, ()),
        "estimate" if fitter.prior.values else "exact": _summary(one, before, bool(fitter.prior.values)),
    }
    axes = {"chain": np.arange(sizes[0]), "draw": np.arange(sizes[1])}
    groups = {name: group.assign_coords(axes) if "chain" in group.dims else group for name, group in groups.items()}
    return xr.DataTree.from_dict({name: xr.DataTree(group) for name, group in groups.items()})


def _summary(one: Fit, before: float | None, sampled: bool) -> xr.Dataset:
    """What is said of the target, and of the draws where there are any."""
    found: dict[str, Any] = {}
    if before is not None:
        found = {"posterior": one.posterior if one.passed else np.nan, "prior": before}
        found |= {"mcse": one.mcse} if sampled else {}
    if sampled:
        found |= {name: getattr(one, name) for name in ("r_hat", "ess", "divergences", "k_hat")}
        found["status"] = "ok" if one.passed else "unreliable"
    return xr.Dataset({name: value for name, value in found.items() if value == value or name == "posterior"})


@dataclass(frozen=True)
class _Found:
    """Draws of one release: latents (chain, draw, *shape) on their own scale, `values` on the sampler's."""

    given: Conditioned
    row: Arrays
    latents: Arrays
    values: Arrays
    told: Arrays
    prior: Arrays

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
        """Log densities at every draw: of latents and potentials (chain, draw), and of every element of what was
        observed (chain, draw, *shape)."""
        model, given = self.given.model, self.given
        values = model.replace_rvs_by_values(model.potentials)
        told = [p for p, v in zip(model.potentials, values, strict=True) if given.uses_release(v)]
        untold = [p for p in model.potentials if p not in told]
        return self._at_draws([*model.free_RVs, *untold], True), self._at_draws([*model.observed_RVs, *told], False)

    def _at_draws(self, variables: Sequence[TensorVariable], in_all: bool) -> Arrays:
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
        graphs = [given.model.logp(vars=[one], sum=False, jacobian=False)[0] for one in variables]
        graphs = [summed([graph]) for graph in graphs] if in_all else graphs
        outputs = vectorized(graphs, places)
        evaluate = pytensor.function(list(places.values()), outputs, mode=NUMPY_MODE, on_unused_input="ignore")
        size, found = shape[0] * shape[1], evaluate(*inputs.values())
        terms = [np.broadcast_to(one, (size, *one.shape[1:])).reshape(*shape, *one.shape[1:]) for one in found]
        return {one.name: term for one, term in zip(variables, terms, strict=True)}


def _row(slots: Sequence[Slot], observed: Mapping[str, ArrayLike]) -> Arrays:
    """The release as the model's variables hold it; ValueError for several releases."""
    row = {}
    for slot in slots:
        batch, _ = slot.batch(observed[slot.name])
        if batch.shape[1] != 1:
            raise ValueError(f"fit takes one release, got {batch.shape[1]} of {slot.name}; adversary.audit takes many")
        row[slot.name] = batch[0, 0]
    return row


def _untied(given: Conditioned, terms: Arrays) -> xr.Dataset:
    """Labelled terms, spread by a billionth of a nat: ArviZ's power-scaling refuses tails of equal values, which the
    terms of discrete latents always have."""
    rng = np.random.default_rng(0)
    spread = {n: term + rng.uniform(-TIED, TIED, term.shape) for n, term in terms.items()}
    return labelled(replace(given, latents={}), spread, _CHAIN_DRAW) if spread else xr.Dataset()
