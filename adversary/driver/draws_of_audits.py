"""Draws from an audit's posterior of the target, for figures and tables of ArviZ."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import expit

from adversary._core import NAME, Sampling, Seed, __version__, check_whole
from adversary.driver.posteriors import UNRELIABLE

CHANCE = "P(in)"

# Relative jitter of equal draws: ArviZ has no density of a single value, and no ranks of ties.
SPREAD = 1e-9

Floats = NDArray[np.float64]


def to_draws(
    tree: xr.DataTree, *, release: int | None = None, sampling: Sampling | None = None, rng: Seed = None
) -> xr.DataTree:
    """Draws of an audit's target: of its posterior averaged over releases, or given one release.

    Parameters
    ----------
    tree : what `adversary.audit` or `adversary.audit_model` returned, of one adversary, plan and truth or of several
    release : place of one release among those of the audit; unless given, every draw has a release of its own, drawn by
        its probability under the truth
    sampling : number and length of the chains
    rng : seed

    Returns
    -------
    DataTree with groups `posterior` and `prior`, dims (chain, draw) and those of several adversaries, plans and truths:
    "in", 1 or 0, and "P(in)", its chance given the release of the draw; `sample_stats`; and of one release
    `observed_data`, `log_prior` and `log_likelihood`, the latter up to what both hypotheses share, as
    ``arviz.psense_summary`` asks for them. The mean of "P(in)" is the audit's `posterior_mean`. Numbers that are the
    same in all draws are spread by a billionth of themselves.

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
    every = [one["posterior"].reset_coords(drop=True) for one in groups]
    audited = every[0] if len(every) == 1 else xr.concat(every, "adversary")  # some enumerated, some drawn
    settings, generator = sampling or Sampling(), np.random.default_rng(rng)
    posterior, shares, prior = xr.broadcast(audited, weight, tree["risk"]["prior"])
    posterior, shares = (one.transpose("release", ...) for one in (posterior, shares))
    sizes = (settings.chains, settings.draws)
    chance = np.empty((*sizes, *posterior.shape[1:]))
    for place in np.ndindex(posterior.shape[1:]):
        law = shares.values[(slice(None), *place)]
        drawn = generator.choice(law.size, sizes, p=law / law.sum())
        chance[(..., *place)] = posterior.values[(drawn, *place)]
    other = posterior.isel(release=0, drop=True)
    before = np.broadcast_to(prior.transpose(*posterior.dims).values[0], chance.shape)
    return _tree(
        chance, before, other, published.isel(release=release, drop=True) if release is not None else None, generator
    )


def with_posteriors(group: xr.Dataset) -> xr.Dataset:
    """Group `exact` with `posterior` and `log_odds`, where an audit of many adversaries has none.

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
    """Probabilities of the releases, or 1 for the one that is chosen."""
    if release is None:
        return weight
    place, size = int(check_whole("release", release, minimum=0)), weight.sizes["release"]
    if place >= size:
        raise ValueError(f"release must be below {size}, the number of releases of the audit, got {place}")
    return weight.copy(data=np.broadcast_to(np.arange(size) == place, weight.shape).astype(np.float64))


def _tree(
    chance: Floats, before: Floats, other: xr.DataArray, published: xr.Dataset | None, rng: np.random.Generator
) -> xr.DataTree:
    """The groups of ArviZ, of chances (chain, draw, *other dims) after the release and before it."""
    dims = ("chain", "draw", *other.dims)
    coords = {"chain": np.arange(len(chance)), "draw": np.arange(chance.shape[1]), **other.coords}
    present, held = (rng.random(one.shape) < one for one in (chance, before))

    def group(**values: Any) -> xr.Dataset:
        made = {"inference_library": NAME, "inference_library_version": __version__}
        return xr.Dataset({name: (dims, value) for name, value in values.items()}, coords, made)

    def apart(values: Floats) -> Floats:
        """Values without ties."""
        return values + SPREAD * rng.uniform(-1.0, 1.0, values.shape)

    with np.errstate(divide="ignore"):
        after, prior = (np.log(np.where(present, one, 1.0 - one)) for one in (chance, before))
    groups = {}
    for name, law, is_in in (("posterior", chance, present), ("prior", before, held)):
        groups[name] = group(**{"in": is_in.astype(np.int64), CHANCE: law + law * (1.0 - law) * (apart(law) - law)})
    groups["sample_stats"] = group(diverging=np.zeros(chance.shape, dtype=bool), lp=apart(after), energy=-apart(after))
    if published is not None:
        groups["log_prior"] = group(**{"in": apart(prior)})
        groups["log_likelihood"] = group(release=apart(after - prior))
        groups["observed_data"] = published.drop_vars("weight")
    return xr.DataTree.from_dict({name: xr.DataTree(one) for name, one in groups.items()})
