"""Draws from an audit's posterior of the target, in the groups that ArviZ plots and tabulates."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import expit

from adversary._core import NAME, Sampling, Seed, __version__, check_whole
from adversary.driver.posteriors import UNRELIABLE

CHANCE = "P(in)"

# Relative jitter of equal draws: ArviZ fails on a density of a single value and on ranks of ties.
SPREAD = 1e-9

Floats = NDArray[np.float64]


def to_draws(
    tree: xr.DataTree, *, release: int | None = None, sampling: Sampling | None = None, rng: Seed = None
) -> xr.DataTree:
    """Draws of whether an audit's target is in, from its posterior averaged over releases or given one release.

    Parameters
    ----------
    tree : result of `adversary.audit` or `adversary.audit_model`, of one adversary, plan and truth or of several
    release : index of one release among those of the audit; by default every draw has a release of its own, drawn by
        its probability under the truth
    sampling : number and length of the chains
    rng : seed

    Returns
    -------
    DataTree with groups `posterior` and `prior`, dims (chain, draw) and those of several adversaries, plans and truths:
    "in", 1 or 0, and "P(in)", its chance given the release of the draw; `sample_stats`; and of one release
    `observed_data`, `log_prior` and `log_likelihood`, the latter up to a constant that both hypotheses share, as
    ``arviz.psense_summary`` needs them. The mean of "P(in)" is the audit's `posterior_mean`. Equal numbers are jittered
    by a billionth of themselves.

    Raises
    ------
    ValueError, TypeError : no audit is given, there is no such release, or one of those drawn was not answered

    Examples
    --------
    >>> from adversary import Adversary, DiscreteGaussian, Level, Plan, audit
    >>> plan = Plan([Level("block", DiscreteGaussian(2.0))])
    >>> tree = audit(plan, Adversary(0.3), {"block": 1}, progress=False)
    >>> draws = to_draws(tree, rng=1)
    >>> bool(abs(draws["posterior"]["P(in)"].mean() - tree["risk"]["posterior_mean"]) < 0.01)
    True
    """
    if not isinstance(tree, xr.DataTree) or not {"release", "risk"} <= set(tree.children):
        raise TypeError(f"tree must be the DataTree of an audit, got {type(tree).__name__}")
    groups = [with_posteriors(tree[group].to_dataset()) for group in ("exact", "estimate") if group in tree.children]
    published = tree["release"].to_dataset()
    weight = _weights(published["weight"], release)
    if any(bool(((one["status"] == UNRELIABLE) & (weight > 0)).any()) for one in groups if "status" in one):
        raise ValueError(
            "releases of this audit are unreliable, and have no posterior to draw from: see its group risk"
        )
    posteriors = [one["posterior"].reset_coords(drop=True) for one in groups]
    audited = (
        posteriors[0] if len(posteriors) == 1 else xr.concat(posteriors, "adversary")
    )  # some enumerated, some drawn
    settings, generator = sampling or Sampling(), np.random.default_rng(rng)
    posterior, shares, prior = xr.broadcast(audited, weight, tree["risk"]["prior"])
    posterior, shares = (one.transpose("release", ...) for one in (posterior, shares))
    sizes = (settings.chains, settings.draws)
    chance = np.empty((*sizes, *posterior.shape[1:]))
    for index in np.ndindex(posterior.shape[1:]):
        weights = shares.values[(slice(None), *index)]
        release_of_draw = generator.choice(weights.size, sizes, p=weights / weights.sum())
        chance[(..., *index)] = posterior.values[(release_of_draw, *index)]
    other = posterior.isel(release=0, drop=True)
    prior_draws = np.broadcast_to(prior.transpose(*posterior.dims).values[0], chance.shape)
    return _tree(
        chance,
        prior_draws,
        other,
        published.isel(release=release, drop=True) if release is not None else None,
        generator,
    )


def with_posteriors(group: xr.Dataset) -> xr.Dataset:
    """Group `exact` with `posterior` and `log_odds`, computed from log Bayes factors if it has only these.

    Parameters
    ----------
    group : of an audit, of all adversaries or of one

    >>> factors = (("law", "release"), [[0.0, 1.0]])
    >>> group = xr.Dataset({"log_bayes_factor": factors, "law_index": 0, "prior_log_odds": 0.0})
    >>> with_posteriors(group)["posterior"].values.round(3).tolist()
    [0.5, 0.731]
    """
    if "log_bayes_factor" not in group:
        return group
    odds = group["prior_log_odds"] + group["log_bayes_factor"].isel(law=group["law_index"].astype(np.int64))
    return group.drop_vars("log_bayes_factor").assign(posterior=expit(odds), log_odds=odds)


def _weights(weight: xr.DataArray, release: int | None) -> xr.DataArray:
    """Weights of the releases; with a chosen one, 1 for it and 0 for all others."""
    if release is None:
        return weight
    place, size = int(check_whole("release", release, minimum=0)), weight.sizes["release"]
    if place >= size:
        raise ValueError(f"release must be below {size}, the number of releases of the audit, got {place}")
    return weight.copy(data=np.broadcast_to(np.arange(size) == place, weight.shape).astype(np.float64))


def _tree(
    chance: Floats,
    prior_chance: Floats,
    dims_and_coords: xr.DataArray,
    published: xr.Dataset | None,
    rng: np.random.Generator,
) -> xr.DataTree:
    """Groups of ArviZ from P(in) after the release and before it, (chain, draw, *dims of adversaries ...)."""
    dims = ("chain", "draw", *dims_and_coords.dims)
    coords = {"chain": np.arange(len(chance)), "draw": np.arange(chance.shape[1]), **dims_and_coords.coords}
    present, present_before = (rng.random(one.shape) < one for one in (chance, prior_chance))

    def group(**values: Any) -> xr.Dataset:
        library = {"inference_library": NAME, "inference_library_version": __version__}
        return xr.Dataset({name: (dims, value) for name, value in values.items()}, coords, library)

    def without_ties(values: Floats) -> Floats:
        """Values with a relative jitter of `SPREAD`, so that none are equal."""
        return values + SPREAD * rng.uniform(-1.0, 1.0, values.shape)

    with np.errstate(divide="ignore"):
        log_posterior, log_prior = (np.log(np.where(present, one, 1.0 - one)) for one in (chance, prior_chance))
    groups = {}
    for name, probability, is_in in (("posterior", chance, present), ("prior", prior_chance, present_before)):
        groups[name] = group(
            **{
                "in": is_in.astype(np.int64),
                CHANCE: probability + probability * (1.0 - probability) * (without_ties(probability) - probability),
            }
        )
    groups["sample_stats"] = group(
        diverging=np.zeros(chance.shape, dtype=bool),
        lp=without_ties(log_posterior),
        energy=-without_ties(log_posterior),
    )
    if published is not None:
        groups["log_prior"] = group(**{"in": without_ties(log_prior)})
        groups["log_likelihood"] = group(release=without_ties(log_posterior - log_prior))
        groups["observed_data"] = published.drop_vars("weight")
    return xr.DataTree.from_dict({name: xr.DataTree(one) for name, one in groups.items()})
