r"""Simulation-based calibration: if a model draws truth and release, the truth's posterior rank must be uniform.

.. math::
   (s, y) \sim p(s, y), \qquad u = P(v < v(s) \mid y) + V \, P(v = v(s) \mid y), \qquad V \sim \text{Uniform}(0, 1)

u is uniform for every quantity v if the posterior is that of p. A posterior that ignored the release (the prior) would
pass for any v that is a function of the latents alone. The likelihood :math:`\log p(y \mid v)` is therefore ranked too,
because it depends on the release; with posterior draws it is :math:`\log p(y \mid s)`, given all latents. Enumerated
posteriors need no draws: u comes from exact probabilities, for all simulations at once.

References
----------
Talts, Betancourt, Simpson, Vehtari and Gelman (2018), "Validating Bayesian inference algorithms with simulation-based
calibration", arXiv:1804.06788.
Modrak, Moon, Kim, Burkner, Huurre, Faltejskova, Gelman and Vehtari (2023), "Simulation-based calibration checking for
Bayesian computation: the choice of test quantities shapes sensitivity", Bayesian Analysis.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from pymc.vartypes import discrete_types

from adversary._core import NAME, Sampling, Seed, blocks, check_whole
from adversary.models.enumeration import latent_names, released_names, wanted_names
from adversary.models.fitting import Groups, label_arrays
from adversary.models.importance import PriorPredictive

from .posteriors_to_rank import (
    Enumerated,
    Posterior,
    Ranked,
    as_law,
    likelihoods,
    listed_laws,
    posterior_draws,
)

Arrays = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]

_GROUPS = ("prior_sbc", "likelihood_sbc")
_BINS = 20
# Default numbers of simulations: enumerated posteriors are cheap, a fit by importance sampling or NUTS is not.
_SIMULATIONS, _FITTED = 20_000, 1000
# A pmf sums to one up to rounding, so u may leave [0, 1] by as much.
_ROUNDING = 1e-9
# simulations between two steps of the progress bar where each is a fit
_FITS = 256


def calibrate(
    model: pm.Model,
    *,
    variables: Sequence[str] | None = None,
    target: str | None = None,
    simulations: int | None = None,
    posterior: Posterior | None = None,
    support: Mapping[str, ArrayLike] | None = None,
    released: Iterable[str] | None = None,
    likelihood: bool = True,
    sampling: Sampling | None = None,
    rng: Seed = None,
    progress: bool = True,
) -> xr.DataTree:
    """Simulation-based calibration: draw truths and releases from the model, and rank each truth in its posterior.

    Parameters
    ----------
    model : pymc.Model
        The model, its release left free. It must be possible to draw from it: see `PriorPredictive`.
    variables : names of latents and deterministics to rank; default: every latent, and the target
    target : a deterministic to rank in addition to the latents; default "in", if the model has it
    simulations : number of simulated truths; default 20,000 for enumerated posteriors, otherwise 1,000
    posterior : the posterior to calibrate, a function from released arrays (simulation, ...) to the distribution of
        each variable, as (values, pmf) or as independent draws; see `Enumerated`, `posterior_of`. Default: the model's
        own, enumerated if its latents are discrete, otherwise 400 draws of each
    support : values of discrete latents without a finite support of their own, as in `enumerate_posterior`
    released : names of the released variables; default: those called noisy, sibling_sum or siblings
    likelihood : whether to rank the likelihood too. A model with discrete latents only is then enumerated, whatever
        `posterior` is, for log p(y | variable). With continuous latents it is log p(y | latents), called "latents", if
        the posterior has draws of every latent
    sampling : numbers of draws, for posteriors that are sampled
    rng : seed
    progress : whether to show a progress bar on long work

    Returns
    -------
    DataTree with group ``prior_sbc``, one array u per variable, dims (chain = 1, draw = simulation[, the variable's
    own]), as `az.plot_ecdf_pit` takes it; and ``likelihood_sbc``, the same for the log likelihoods.
    Attributes: engine, seed, simulations, acceptance (share of prior draws accepted, see `PriorPredictive`), versions.

    Raises
    ------
    ValueError : `simulations` is not a positive whole number, `posterior` lacks a variable or has a wrong shape, or a
        posterior's sampling diagnostics fail

    Examples
    --------
    >>> from adversary import DiscreteGaussian
    >>> from adversary.models import noise
    >>> with pm.Model() as model:
    ...     count = pm.Binomial("count", np.int64(3), np.float64(0.4))
    ...     noisy = noise.released("noisy", DiscreteGaussian(2.0), count)
    >>> bool(uniformity(calibrate(model, rng=1)).overall > 1e-3)
    True
    """
    given, seeds = released_names(model, released), blocks.seed_sequence(rng)
    names = wanted_names(model, given, variables, target)
    discrete = all(model[name].dtype in discrete_types for name in latent_names(model, given))
    exact = Enumerated.of(model, names, support, given) if discrete and (likelihood or posterior is None) else None
    listed = discrete and (posterior is None or isinstance(posterior, Enumerated))
    if simulations is None:
        simulations = _SIMULATIONS if listed else _FITTED
    simulations = int(check_whole("simulations", simulations, minimum=1))
    engine = "given" if posterior is not None else "enumeration" if discrete else "importance"
    if engine == "importance":
        posterior = posterior_draws(model, names, support, given, seeds.spawn(1)[0], sampling)
    wide = None if discrete or not likelihood else Groups.of(model, given)
    prior = PriorPredictive.of(model, dict.fromkeys([*names, *given, *latent_names(model, given)]))
    block = _FITS if engine == "importance" else blocks.BLOCK
    sizes = [min(block, simulations - start) for start in range(0, simulations, block)]
    work = list(zip(sizes, seeds.spawn(len(sizes)), strict=True))
    parts, shares = [], []
    for size, seed in blocks.track(work, "simulations", enabled=progress and len(work) > 2):
        generator = np.random.default_rng(seed)
        worlds, share = prior.draw(size, generator)
        shares.append(share)
        parts.append(
            _rank_worlds(worlds, names, {name: worlds[name] for name in given}, exact, wide, posterior, generator)
        )
    groups = [group for group in _GROUPS if group in parts[0] and (likelihood or group == "prior_sbc")]
    attrs = {
        "engine": engine,
        "seed": str(seeds.entropy),
        "simulations": simulations,
        "acceptance": float(np.average(shares, weights=sizes)),
        "released": json.dumps(given),
        "versions": json.dumps({name: version(name) for name in (NAME, "pymc", "pytensor", "numpy")}),
    }
    joined = {g: {v: np.concatenate([part[g][v] for part in parts]) for v in parts[0][g]} for g in groups}
    tree = {
        g: label_arrays(model, {n: u[None] for n, u in arrays.items()}, ("chain", "draw"))
        for g, arrays in joined.items()
    }
    return xr.DataTree.from_dict({"/": xr.Dataset(attrs=attrs), **tree})


def uniformity(tree: xr.DataTree) -> xr.Dataset:
    r"""Tests that the ranks of a simulation-based calibration are uniform: one per quantity, and all together.

    Parameters
    ----------
    tree : the result of `calibrate`, with groups ``prior_sbc``, ``likelihood_sbc`` or both, of values u in [0, 1]

    Returns
    -------
    Dataset of ``p_value`` (quantity, test): Kolmogorov and Smirnov's test and a chi-square test with 20 equal bins
    (fewer below 100 simulations); ``statistic``, likewise; ``adjusted``, the p-values after Holm's correction for all
    of them, and ``overall``, the smallest of those. Quantities are called by their variable, "log p(y | in)" for a
    likelihood, with an index for parts of an array.

    Raises
    ------
    ValueError : both groups are missing, or a value lies outside [0, 1]

    Notes
    -----
    A correct posterior has ``overall`` below a with probability at most a. Read a value below 1e-6 as a wrong
    posterior, and one below 1e-3 as a reason to run again with another seed and more simulations. With n simulations, a
    cdf of u that differs from the uniform one by :math:`\Delta` is detected if :math:`\Delta > 3 / \sqrt{n}`,
    approximately.
    """
    from scipy.stats import chisquare, kstest

    columns = dict(_columns(tree))
    if not columns:
        raise ValueError(f"the tree has none of the groups {_GROUPS}: give what calibrate returns")
    outside = [name for name, u in columns.items() if not ((u >= -_ROUNDING) & (u <= 1 + _ROUNDING)).all()]
    if outside:
        raise ValueError(f"{outside[0]} must lie between 0 and 1: divide ranks by the number of draws plus one")
    bins = max(2, min(_BINS, min(u.size for u in columns.values()) // 5))
    tests = []
    for u in (np.clip(u, 0.0, 1.0) for u in columns.values()):
        counts = np.histogram(u, bins=bins, range=(0.0, 1.0))[0]
        tests.append([kstest(u, "uniform"), chisquare(counts)])
    p_value = np.array([[float(test.pvalue) for test in row] for row in tests])
    adjusted = _holm(p_value)
    dims = ("quantity", "test")
    return xr.Dataset(
        {
            "p_value": (dims, p_value),
            "statistic": (dims, np.array([[float(test.statistic) for test in row] for row in tests])),
            "adjusted": (dims, adjusted),
            "overall": adjusted.min(),
        },
        coords={"quantity": list(columns), "test": ["Kolmogorov-Smirnov", "chi-square"]},
        attrs={"simulations": max(u.size for u in columns.values()), "bins": bins},
    )


def _holm(p_value: Floats) -> Floats:
    """Holm's adjusted p-values: the k-th smallest of n times n - k + 1, made non-decreasing and cut at 1."""
    order = np.argsort(p_value, axis=None)
    steps = np.maximum.accumulate(p_value.ravel()[order] * np.arange(p_value.size, 0, -1))
    adjusted = np.empty(p_value.size)
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted.reshape(p_value.shape)


def _rank_worlds(
    worlds: Arrays,
    names: Sequence[str],
    observed: Arrays,
    exact: Enumerated | None,
    wide: Groups | None,
    posterior: Posterior | None,
    rng: np.random.Generator,
) -> dict[str, dict[str, Floats]]:
    """Ranks u of each variable and of its likelihood, for simulated truths (`worlds`) and their releases."""
    table = xr.Dataset() if exact is None else exact.enumerator(observed)
    given = listed_laws(table, names) if posterior is None else posterior(observed)
    missing = [name for name in names if name not in given]
    if missing:
        raise ValueError(f"posterior must give a law of {missing[0]!r}, got {sorted(given)}: name variables it gives")
    laws = {name: as_law(name, given[name], worlds[name].shape) for name in names}
    uniform = {name: rng.random(worlds[name].shape) for name in names}
    placed = {"prior_sbc": {name: laws[name].place(worlds[name], uniform[name]) for name in names}}
    if exact is not None:
        placed["likelihood_sbc"] = {}
        for name, log_p in likelihoods(table, names).items():
            law = replace(laws[name], values=log_p(laws[name].values))
            truth = log_p(worlds[name][..., None])[..., 0]
            placed["likelihood_sbc"][name] = law.place(truth, rng.random(truth.shape))
    elif wide is not None and all(name in given and not isinstance(given[name], tuple) for name in wide.latents):
        drawn = Ranked(
            _log_likelihood(wide, {n: np.moveaxis(np.asarray(given[n]), 1, 0) for n in wide.latents}, observed)
        )
        truth = _log_likelihood(wide, {n: worlds[n][None] for n in wide.latents}, observed)[:, 0]
        placed["likelihood_sbc"] = {"latents": drawn.place(truth, rng.random(truth.shape))}
    return placed


def _log_likelihood(groups: Groups, latents: Arrays, released: Arrays) -> Floats:
    """log p(y | latents), (simulation, draw), of draws (draw, simulation, *shape)."""
    terms = groups.log_densities(latents, released, ("draw", "simulation"), False)[1]
    parts = [one.values.reshape(*one.shape[:2], -1).sum(axis=-1) for one in terms.values()]
    return np.sum(parts, axis=0).T


def _columns(tree: xr.DataTree) -> Iterable[tuple[str, Floats]]:
    """(name, u) of every scalar quantity, u as a plain array."""
    for group, label in zip(_GROUPS, ("{}", "log p(y | {})"), strict=True):
        for name, u in tree[group].data_vars.items() if group in tree else ():
            values = u.transpose("chain", "draw", ...).values
            values = values.reshape(-1, *values.shape[2:])
            for cell in np.ndindex(values.shape[1:]):
                index = f"[{', '.join(map(str, cell))}]" if cell else ""
                yield label.format(f"{name}{index}"), values[(slice(None), *cell)]
