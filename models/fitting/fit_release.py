"""Fit of one release for ArviZ: prior and posterior draws, diagnostics, and the terms that power-scaling needs.

If all latents are discrete, the draws are independent draws of their joint posterior. Otherwise the discrete latents
are summed out, the continuous ones are sampled, and the discrete ones are drawn from their conditional distribution.
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

from adversary._core import Sampling, Seed, blocks, check_mapping
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
    target : binary latent or Deterministic; default "in" if the model has it, otherwise none
    variables : names of latents and deterministics to draw; default: all that do not read the release, except
        deterministics of more than 20 million numbers over all draws
    sampling : number and length of the chains
    support : values (n,) of latents without a finite support of their own
    rng : seed
    progress : whether to show nutpie's progress bar
    step : your own step methods in place of NUTS: a function from the model given the release to one or several of
        PyMC's step methods, for instance ``lambda given: pm.Slice([given["rate"]])``. Discrete latents are still summed
        out where possible, and the same diagnostics decide on the status

    Returns
    -------
    DataTree with these groups, draws with dims (chain, draw):

    - `posterior` and `prior`: `variables`, and "P(in)" (or P of the target's name), the target's probability given the
      latents that are not summed out and, in `posterior`, the release. If all latents are summed out this is constant,
      and gets noise of a billionth for ArviZ's plots
    - `posterior_predictive` and `prior_predictive`: one release per draw
    - `sample_stats`: diverging, energy, lp, and with NUTS tree_depth, n_steps, acceptance_rate and step_size; without
      NUTS the energy is -lp
    - `log_prior`: one variable per latent and potential; `log_likelihood`: one term per element released or observed
    - `observed_data` (release and side data), and `constant_data` if there are any
    - `exact` or `estimate`: `posterior` = P(target = 1 | release) and `prior`. `estimate` has also the Monte Carlo
      errors of the probability (`mcse`) and of its log odds (`log_odds_mcse`), `r_hat`, `ess`, `divergences`, `k_hat`
      (see `Fit`) and `status`. With a `support` also `edge_mass`, the probability that a latent is at or beyond its
      ends; above 1e-6 the status is "unreliable"

    Without a target the entries about it are missing. A fit that fails its diagnostics is run once more, four times as
    long; one that fails again is "unreliable" and has a NaN `posterior`. Every prior here is conditional on the side
    data observed in the model. Attributes: engine, seed, sampling, versions, and ArviZ's attributes of an inference
    library.

    Raises
    ------
    ValueError : an improper prior, an impossible release, a target with values other than 0 and 1, or a `step`
        although all latents are summed out
    TypeError : a continuous latent in a term without a gradient, or a `step` that is not a function

    Notes
    -----
    `log_prior` has a term for every latent, also for one whose distribution depends on another latent. In a
    hierarchical model, name the terms to be power-scaled; otherwise these conditional distributions count as prior too:
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
    check_mapping("observed", observed, "{'noisy': 3}")
    if not observed:
        raise ValueError("observed must name the release, such as {'noisy': 3}, got none")
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
    """Probability that a latent is at or beyond the ends of its support; NaN if it cannot be computed."""
    before = {name: value.reshape(-1, *value.shape[2:]) for name, value in prior.items()}
    after = {name: value.reshape(-1, 1, *value.shape[2:]) for name, value in latents.items()}
    return float(np.ravel(edge_of_draws(model, support, before, after)[0])[0])


def _summary(one: Fit, before: float | None, sampled: bool, edge: float | None) -> xr.Dataset:
    """Summary of the target, and of the draws if sampled; `edge` is the probability at or beyond a support's ends."""
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
    """The release as arrays of the model's shapes and dtypes; ValueError for several releases."""
    row = {}
    for slot in slots:
        batch, _ = slot.batch(observed[slot.name])
        if batch.shape[1] != 1:
            raise ValueError(f"fit takes one release, got {batch.shape[1]} of {slot.name}; adversary.audit takes many")
        row[slot.name] = batch[0, 0]
    return row
