"""Posterior-to-posterior comparison: the effect of one record's use on an adversary, and its bound by a guarantee.

The posterior from the actual release is compared with that from a release made without the record (`compare_worlds`).
A comparison of prior and posterior would also count the information of everyone else's records about the target. A
guarantee bounds the ratio of the two posteriors, after any post-processing, in four theorems:

7.1  any prior, any release:                         e^-epsilon <= ratio <= e^epsilon under pure epsilon-DP
7.3  rest known, release as the adversary expects:   P(ratio >= e^epsilon) <= exp(-(epsilon - gamma) alpha - gamma)
7.4  rest known, release given the true record:      P(its ratio > e^epsilon) <= pbdp_delta(epsilon)
7.5  any prior, release given the true record:       P(its ratio >= e^epsilon) <= exp((alpha - 1)(gamma - epsilon))

(7.3 and 7.5 by Renyi divergence gamma of order alpha, so at the best order of zCDP, (epsilon + rho) / (2 rho).)

References
----------
Kifer, Abowd, Ashmead, Cumings-Menon, Leclerc, Machanavajjhala, Sexton and Zhuravlev (2022), "Bayesian and frequentist
semantics for common variations of differential privacy: applications to the 2020 Census", section 7.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from xarray.ufuncs import exp

from adversary._core import (
    Floats,
    above_ties,
    as_array,
    check_non_negative,
    check_probability,
    labelled,
    scalar_or_array,
)
from adversary.adversaries.counterfactual.ratio_bounds import (
    Guarantees,
    functional_bound,
    guarantees_of,
    known_rest_bound,
    true_record_bound,
)
from adversary.adversaries.counterfactual.worlds import select_records
from adversary.privacy.losses import PrivacyLoss, check_loss

# Rounding error of log ratios of listed releases, nats: sums over worlds of likelihoods hundreds of nats below one.
#
# In `ratio_tail` a loss below 1e-12 is therefore a tie with 0. `PrivacyLoss.tail_from` has its own tolerance.
_ERROR = 2.5e-13

_EVENTS = {
    "7.1": "P(|log ratio| > epsilon): any prior, release as the adversary expects it",
    "7.3": "P(log ratio >= epsilon): rest known, release as the adversary expects it",
    "7.4": "P(log ratio > epsilon): rest known, release given the record",
    "7.5": "P(log ratio >= epsilon): any prior, release given the record",
}


def ratio_tail(worlds: xr.Dataset, epsilon: ArrayLike, given: Any = None, *, strict: bool = False) -> xr.DataArray:
    """Exact P(actual / counterfactual >= e^epsilon) over releases; with `strict`, >, as in Theorem 7.4.

    Parameters
    ----------
    worlds : from `compare_worlds`, with all releases listed (to a mass of 1e-9); undefined ratios are not counted
    epsilon : log of the ratio, nats, any real numbers; a plain list gets the dim epsilon
    given : None for releases as the adversary expects them and the ratio of every record (dim record); or labels of the
        true record, for releases given that record and its own ratio
    strict : whether the ratio must exceed e^epsilon

    Returns
    -------
    Probabilities, dims ([record,] [epsilon]); NaN for records with prior 0
    """
    if worlds.attrs.get("measure") == "density":
        raise ValueError("the releases hold densities, which do not add up: round them, adv.postprocessing.rounded")
    ratio, weight, prior = worlds["log_ratio"], exp(worlds["log_prob"]), worlds["prior"]
    if given is not None:
        ratio, prior = select_records(ratio, given), select_records(prior, given)
        weight = exp(select_records(worlds["log_prob_given"], given))
    _check_complete(weight.values, weight.get_axis_num("release"))
    thresholds = _thresholds(epsilon)
    tail: xr.DataArray = xr.apply_ufunc(
        _mass_from,
        ratio.fillna(-np.inf),
        weight.fillna(0.0),
        xr.apply_ufunc(above_ties, thresholds, _ERROR) if strict else -xr.apply_ufunc(above_ties, -thresholds, _ERROR),
        input_core_dims=[["release"], ["release"], thresholds.dims],
        output_core_dims=[thresholds.dims],
        vectorize=True,
    )
    return tail.where(prior > 0).rename("tail").drop_attrs()


def _check_complete(weight: Floats, axis: int | tuple[int, ...]) -> None:
    total = weight.sum(axis=axis)
    short = total[abs(total - 1.0) > 1e-9]
    if short.size:
        raise ValueError(f"the releases listed must carry all of the probability, got {short[0]} of it")


def _mass_from(values: Floats, weights: Floats, thresholds: Floats) -> Floats:
    """Sum of the weights of values at or above each threshold, added from the far tail inwards."""
    order = np.argsort(values)
    beyond = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)
    return np.asarray(np.minimum(beyond[np.searchsorted(values[order], thresholds)], 1.0))


def _thresholds(epsilon: Any) -> xr.DataArray:
    values = as_array(epsilon)
    if np.isnan(values).any():
        raise ValueError("epsilon must be a number, got nan")
    if isinstance(epsilon, xr.DataArray):
        return epsilon
    if values.ndim > 1:
        raise ValueError(f"epsilon must be one number or a list, got {values.ndim} axes: label them in a DataArray")
    return xr.DataArray(values, dims=("epsilon",)[: values.ndim], coords={"epsilon": values})


@labelled
def known_rest_tail(loss: PrivacyLoss, prior: ArrayLike, epsilon: ArrayLike) -> tuple[Any, Any]:
    """Exact P(ratio >= e^epsilon) of one of two possible records, with everybody else's records known.

    ratio >= e^epsilon  <=>  L >= -log k,  k = (e^-epsilon - prior) / (1 - prior); never, if k < 0.

    L is the privacy loss of the record against the other one.

    Parameters
    ----------
    loss : privacy loss of the record against the other
    prior : probability of the record, in [0, 1)
    epsilon : log of the ratio, nats, >= 0; broadcasts with `prior`

    Returns
    -------
    (given that record, given the other): two probabilities. Over releases as the adversary expects them the
    probability is the mixture prior x first + (1 - prior) x second (Theorem 7.3); given the record it is the first
    (Theorem 7.4).

    Raises
    ------
    ValueError : a prior outside [0, 1), a negative epsilon
    TypeError : `loss` is not a privacy loss
    """
    check_loss("loss", loss)
    p, e = check_probability("prior", prior), check_non_negative("epsilon", epsilon)
    if (p == 1.0).any():
        raise ValueError("prior must be below 1: an adversary who is sure is not moved")
    # k - 1 and log1p, since for a tiny epsilon the threshold is equally tiny and log k would cancel.
    fall = np.expm1(-e) / (1.0 - p)
    with np.errstate(divide="ignore"):
        threshold = np.minimum(-np.log1p(np.maximum(fall, -1.0)), 1e300)
    first, second = (np.where(above_ties(fall) >= -1.0, as_array(tail), 0.0) for tail in loss.tail_from(threshold))
    return scalar_or_array(first), scalar_or_array(second)


def semantics(worlds: xr.Dataset, guarantee: Guarantees, epsilon: ArrayLike) -> xr.Dataset:
    """Exact probabilities of large posterior ratios, with the bound of each of the four theorems.

    Parameters
    ----------
    worlds : from `compare_worlds`
    guarantee : the mechanism's guarantee for replacing the target's record (or for dropping it, if the counterfactual
        world has none); of several the best bound is used
    epsilon : log of the ratio, nats, >= 0

    Returns
    -------
    Dataset over theorem, record and epsilon: `achieved`, the exact probability of the event in the coordinate `event`;
    `bound`, an upper bound on it, NaN if the theorem does not apply (7.3 and 7.4 need a known rest, 7.3 to 7.5 a
    counterfactual record drawn from the prior); `holds`, whether achieved <= bound to 1e-12. `largest` is the largest
    |log ratio| of any listed release, and `largest_bound` its bound by Theorem 7.1.
    """
    check_non_negative("epsilon", epsilon)
    thresholds, each = _thresholds(epsilon), guarantees_of(guarantee)
    drawn = worlds.attrs["counterfactual"] == "resample"
    certain = min(float(g.loss_bound(0.0)) for g in each) * (1.0 if drawn else 2.0)
    absolute = worlds.assign(log_ratio=abs(worlds["log_ratio"].variable))
    records, known = worlds["record"].values, worlds["rest_known"] & drawn
    achieved = {
        "7.1": ratio_tail(absolute, thresholds, strict=True),
        "7.3": ratio_tail(worlds, thresholds),
        "7.4": ratio_tail(worlds, thresholds, records, strict=True),
        "7.5": ratio_tail(worlds, thresholds, records),
    }
    bound = {
        "7.1": (xr.apply_ufunc(above_ties, thresholds) < certain).astype(np.float64),
        "7.3": known_rest_bound(each, thresholds).where(known),
        "7.4": functional_bound(each, thresholds).where(known),
        "7.5": true_record_bound(each, thresholds).where(drawn),
    }
    names = xr.DataArray(list(_EVENTS), dims="theorem", name="theorem")
    result = xr.Dataset(
        {
            name: xr.concat(list(parts.values()), dim=names, coords="minimal", compat="override")
            for name, parts in (("achieved", achieved), ("bound", bound))
        }
    ).assign_coords(theorem=list(_EVENTS), event=("theorem", list(_EVENTS.values())))
    result["holds"] = result["achieved"].fillna(0.0) <= result["bound"].fillna(1.0) + 1e-12
    result["largest"] = absolute["log_ratio"].where(worlds["log_prob"] > -np.inf).max("release")
    result["largest_bound"] = certain
    for name in ("bound", "largest_bound"):
        result[name].attrs["direction"] = "upper"
    for name in ("achieved", "largest"):
        result[name].attrs["direction"] = "exact"
    return result.assign_attrs(guarantee=", ".join(g.definition for g in each), **worlds.attrs)
