"""One release of one model, for ArviZ: draws before and after, diagnostics, and the terms that power-scaling needs.

Where all latents are discrete the draws are independent ones from their joint posterior, so that diagnostics are
perfect; otherwise the discrete latents are summed out, the continuous ones sampled, and the discrete drawn back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary._core import Sampling, Seed, blocks
from adversary.models.enumeration import LARGEST_EDGE, Slot, check_support, edge_of_draws, latent_names

from .arviz_groups import Groups, attributes
from .fitter import Fit, Fitter

Arrays = dict[str, NDArray[Any]]

CHAIN_DRAW = ("chain", "draw")


def fit(
    model: Any,
    observed: Mapping[str, ArrayLike],
    target: str | None = None,
    *,
    variables: Sequence[str] | None = None,
    sampling: Sampling | None = None,
    support: Mapping[str, ArrayLike] | None = None,
    rng: Seed = None,
    progress: bool = True,
    step: Callable[[pm.Model], Any] | None = None,
) -> xr.DataTree:
    """Posterior draws of latents given one release.

    Parameters
    ----------
    model : pymc.Model with its release left free
    observed : one release, by the names of the model's variables: see `adversary.observed`
    target : binary latent or Deterministic; "in" unless given, where the model has it. It needs none
    variables : names of latents and deterministics to draw; unless given every one that does not read the release (a
        deterministic of more than 20 million numbers over all draws only when named)
    sampling : number and length of the chains
    support : values of latents without a finite support of their own
    rng : seed
    progress : show nutpie's bar
    step : steps of your own in place of NUTS: a function of the model given the release that returns one of PyMC's step
        methods, or several, for instance ``lambda given: pm.Slice([given["rate"]])``. Latents that can be summed out
        still are, in every draw, and the verdict is the same

    Returns
    -------
    DataTree with groups `posterior` and `prior` (`variables`, and "P(in)", or whatever the target is called: its
    chance given the latents that are not summed out and, in the posterior, the release, spread by a billionth where all
    are), `posterior_predictive` and `prior_predictive` (a release of every draw), `sample_stats` (diverging, energy,
    lp, and with NUTS tree_depth, n_steps, acceptance_rate and step_size; without it the energy is -lp), `log_prior` (a
    variable per latent and potential), `log_likelihood` (of every element released or observed), `observed_data`
    (release and side data), `constant_data` where there are any, and `exact` or `estimate`: `posterior` = P(target = 1
    | release), `prior`, and in `estimate` its `mcse` and that of its log odds (`log_odds_mcse`), `r_hat`, `ess`,
    `divergences`, `k_hat` (see `Fit`) and `status`. With a support also `edge_mass`, the probability that a latent is
    at or beyond its ends; above 1e-6 the answer is "unreliable". Attributes: engine, seed, sampling, versions, and
    those that ArviZ writes of an inference library. Without a target what would be said of it is left out. A fit that
    fails is run once more, four times as long; one that fails again is "unreliable" and has no `posterior`. What is
    called prior is given the side data observed in the model.

    Raises
    ------
    ValueError : an improper prior, a release that is impossible, a target that is not 0 or 1, steps where nothing is
        left to be moved
    TypeError : a continuous latent in a term without a gradient, `step` that is no function

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
    target = "in" if target is None and "in" in model.named_vars else target
    if step is not None and not callable(step):
        raise TypeError(f"step must be a function of the model given the release, got {step!r}")
    check_support(latent_names(model, tuple(observed)), support or {})
    groups = Groups.of(model, tuple(observed))
    fitter = Fitter.of(model, tuple(observed), target, support, (), prior_seed, sampling, "always")
    if step is not None and not fitter.prior.values:
        raise ValueError("step has nothing to move: all latents are summed out, and the answer is exact; leave it out")
    fitter = replace(fitter, step=step)
    row = _row(fitter.prior.terms.slots, observed)
    (one,) = fitter.fits({name: value[None] for name, value in row.items()}, [fit_seed], sampling.draws, progress)
    if not fitter.prior.values and not one.passed:
        raise ValueError(f"the release has probability zero, or no density, in every state of the latents: {row}")
    generator, sizes = np.random.default_rng(draw_seed), (sampling.chains, sampling.draws)
    known, size = fitter.prior.known_sample(), sampling.chains * sampling.draws
    prior, first = fitter.prior.draws_and_chances(known, {}, size, generator)
    prior = {name: value.reshape(*sizes, *value.shape[1:]) for name, value in prior.items()}
    sampled = bool(fitter.prior.values)
    chances = None if target is None else (target, one.chance, first.reshape(sizes))
    result = groups.all_of(one.latents, prior, row, one.stats, CHAIN_DRAW, variables, generator, chances)
    before = None if target is None else fitter.prior.before()[0]
    edge = _edge(model, support, prior, one.latents) if support else None
    result["estimate" if sampled else "exact"] = _summary(one, before, sampled, edge)
    tree = xr.DataTree.from_dict({name: xr.DataTree(group) for name, group in result.items()})
    engine = "enumeration" if not sampled else "importance" if one.trace is None else "pymc" if step else "nutpie"
    if engine == "pymc":
        for group in tree.children.values():
            group.attrs |= {"inference_library": engine, "inference_library_version": version(engine)}
    tree.attrs |= attributes(engine, sampling, rng) | dict(result["posterior"].attrs)
    return tree


def _edge(model: Any, support: Mapping[str, ArrayLike], prior: Arrays, latents: Arrays) -> float:
    """Probability that a latent is at or beyond the ends of the values given for it; NaN where it cannot be told."""
    before = {name: value.reshape(-1, *value.shape[2:]) for name, value in prior.items()}
    after = {name: value.reshape(-1, 1, *value.shape[2:]) for name, value in latents.items()}
    return float(np.ravel(edge_of_draws(model, support, before, after)[0])[0])


def _summary(one: Fit, before: float | None, sampled: bool, edge: float | None) -> xr.Dataset:
    """Summary of the target, and of the draws where there are any; `edge` is the probability a support lacks."""
    summary: dict[str, Any] = {}
    stands = one.passed and (edge is None or edge <= LARGEST_EDGE)
    if before is not None:
        summary = {"posterior": one.posterior if stands else np.nan, "prior": before}
        summary |= {"mcse": one.mcse, "log_odds_mcse": one.log_odds_mcse} if sampled else {}
    if sampled:
        summary |= {name: getattr(one, name) for name in ("r_hat", "ess", "divergences", "k_hat")}
    if sampled or edge is not None:
        summary["status"] = "ok" if stands else "unreliable"
    if edge is not None:
        summary["edge_mass"] = edge
    return xr.Dataset(
        {name: value for name, value in summary.items() if value == value or name in ("posterior", "edge_mass")}
    )


def _row(slots: Sequence[Slot], observed: Mapping[str, ArrayLike]) -> Arrays:
    """The release as the model's variables hold it; ValueError for several releases."""
    row = {}
    for slot in slots:
        batch, _ = slot.batch(observed[slot.name])
        if batch.shape[1] != 1:
            raise ValueError(f"fit takes one release, got {batch.shape[1]} of {slot.name}; adversary.audit takes many")
        row[slot.name] = batch[0, 0]
    return row
