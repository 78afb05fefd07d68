r"""Posteriors over a few databases: exact statistics first, then a noisy release whose effect the guarantee bounds.

    given(X)      = prior(X) 1{T(X) = t} / prior(D_t)    `JointDistribution.given`: no privacy parameter bounds this
    posterior(X)  ~ given(X) p(m | X)                    `JointDistribution.after`: bounded by the guarantee

Any prior, with any dependence between records, is a `JointDistribution`; for tables of counts with known margins see
`table_posterior`.

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", sections 3 and 4.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from adversary._core import Floats, arrays_over, has_labels, log_sum_exp
from adversary.literature.frameworks import JointDistribution
from adversary.privacy import Guarantee
from adversary.privacy.invariants import coupling_radius
from adversary.privacy.mechanisms import Mechanism


def record_log_likelihood(mechanism: Mechanism, released: ArrayLike, joint: JointDistribution) -> Floats:
    """log P(m | X) where every record is released on its own: the sum over records.

    Parameters
    ----------
    mechanism : for instance `RandomizedResponse`
    released : whole numbers ([release,] record)
    joint : joint distribution of the records, which are whole numbers

    Returns
    -------
    Nats ([release,] ...), the last axes those of the distribution
    """
    if has_labels(released):
        names = xr.DataArray(np.arange(joint.array.ndim), {"record": list(joint.records)}, "record")
        released = arrays_over({"the distribution": (names, ("record",)), "released": (released, ("record",))})[0][
            "released"
        ]
    m, records = np.asarray(released), joint.array.ndim
    if m.shape[-1:] != (records,):
        raise ValueError(f"released must have one number per record, {records}, got shape {m.shape}")
    total: Floats = np.zeros(())
    for i, values in enumerate(joint.records.values()):
        log_prob = np.asarray(mechanism.log_prob(m[..., i, None], np.array(values)), dtype=np.float64)
        total = total + log_prob.reshape(*log_prob.shape[:-1], *(-1 if i == j else 1 for j in range(records)))
    return total


def record_odds(
    joint: JointDistribution, log_likelihood: ArrayLike, guarantee: Guarantee, position: int = 0, failure: float = 0.0
) -> xr.Dataset:
    r"""Movement of the odds between two values of one record by a release, beside what the guarantee allows.

    Parameters
    ----------
    joint : of the databases, given what was published exactly
    log_likelihood : log P(m | X) in nats, ([release,] ...), the last axes those of the distribution
    guarantee : of a change of one record, on all databases
    position : the record, from 0
    failure : probability, under either value, of a release beyond the bound; at 0 Gaussian noise has none

    Returns
    -------
    Dataset over (value, other), the values still possible: `log_odds_factor` ([release,] ...), log of
    P(m | X_i = value) / P(m | X_i = other); `radius`, the smallest k such that this adversary's databases given the two
    values can be coupled so that coupled databases differ in at most k records, but for 1e-9 of probability left to
    rounding; `bound`, the largest loss that the guarantee allows between databases that differ in so many. If the
    adversary believes that the record depends on many others, the radius is large, up to the number of records.

    Raises
    ------
    ValueError : a position that no record has, a log-likelihood of another shape

    >>> from adversary.privacy.definitions import PureDP
    >>> from adversary.privacy.mechanisms import RandomizedResponse
    >>> two = JointDistribution.listed([(0, 1), (1, 0)], [0.5, 0.5])
    >>> odds = record_odds(two, record_log_likelihood(RandomizedResponse(1.0), [0, 1], two), PureDP(1.0))
    >>> int(odds.radius.sel(value=0, other=1)), round(float(odds.log_odds_factor.sel(value=0, other=1)), 9)
    (2, 2.0)
    """
    if has_labels(log_likelihood):
        over = tuple(joint.records)
        pair = {"the distribution": (joint.probability, over), "log_likelihood": (log_likelihood, over)}
        log_likelihood = arrays_over(pair)[0]["log_likelihood"]
    nats, records = np.asarray(log_likelihood, dtype=np.float64), joint.array.ndim
    if not 0 <= position < records:
        raise ValueError(f"position must be one of the {records} records, got {position}")
    if nats.shape[-records:] != joint.array.shape or nats.ndim > records + 1:
        raise ValueError(f"log_likelihood must have the distribution's shape {joint.array.shape}, got {nats.shape}")
    prior, nats = (np.moveaxis(x, position - records, -records) for x in (joint.array, nats))
    possible = np.flatnonzero(prior.reshape(len(prior), -1).sum(1))
    values = np.array(list(joint.records.values())[position])[possible]
    prior = prior.reshape(len(prior), -1)[possible]
    with np.errstate(divide="ignore"):
        given = np.log(prior / prior.sum(1, keepdims=True))
    evidence = log_sum_exp(given + nats.reshape(*nats.shape[:-records], nats.shape[-records], -1)[..., possible, :])
    if np.isneginf(evidence).all(-1).any():
        raise ValueError("a release is impossible under every database that is possible")
    databases = np.argwhere(joint.possible)
    weight = joint.array[joint.possible] * (databases[:, position] == possible[:, None])
    radius = np.zeros((possible.size, possible.size), dtype=np.int64)
    for i, j in zip(*np.tril_indices(possible.size, -1), strict=True):
        radius[i, j] = radius[j, i] = coupling_radius(databases, weight[i], weight[j])
    bounds = {k: float(guarantee.group(k).loss_bound(failure)) if k else 0.0 for k in set(radius.ravel().tolist())}
    bound = np.array([bounds[k] for k in radius.ravel().tolist()]).reshape(radius.shape)
    dims = ("value", "other")
    # under two values that both make a release impossible, its odds factor is undefined: NaN
    with np.errstate(invalid="ignore"):
        factor = evidence[..., :, None] - evidence[..., None, :]
    return xr.Dataset(
        {
            "log_odds_factor": (("release", *dims)[3 - factor.ndim :], factor),
            "radius": (dims, radius),
            "bound": (dims, bound, {"direction": "upper"}),
        },
        coords={"value": values, "other": values},
    )
