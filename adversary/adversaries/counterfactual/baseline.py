"""Baseline risk: the adversary's posterior about a person whose record was not used.

The release is made from everybody else's records, and the adversary knows that. The posterior changes only because the
adversary believes other people's records to depend on the target. It is the baseline for a release with the record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from adversary._core import posterior_after
from adversary.adversaries.path import Adversary, Truth
from adversary.adversaries.plans import Plan, Released, release_arrays
from adversary.adversaries.risk import DRAWS, NOTHING, BayesFactorLaw, DiscretePart, release_table
from adversary.privacy.losses import amplified_loss


def unused_record(
    plan: Plan, adversary: Adversary, truth: Truth, *, draws: int = DRAWS, rng: Any = None, log_odds: Any = None
) -> xr.Dataset:
    """Mean posterior of "in" if the release is computed without the target's record.

    Let P(w | h) be the distribution of a release under a hypothesis, and c_h the target's contribution to every count
    under it. With additive noise, the release without the record has distribution P(w + c_h | h) (`compare_worlds` with
    `dropped`).

    Parameters
    ----------
    plan : the published counts, with additive noise or exact
    adversary : the adversary
    truth : checked true counts, from `settle_truth`; the target's own record is subtracted
    draws, rng : number of simulated releases, and their seed or Generator, if they cannot be listed
    log_odds : log-odds of several priors in place of the adversary's own, (adversary,), all finite

    Returns
    -------
    Dataset of `posterior_mean` and `ratio_mean` (posterior / prior), and `mcse` (measure) if releases are simulated;
    with several priors each has the dim adversary. If beliefs about others do not depend on the target, the posterior
    is the prior.

    Raises
    ------
    ValueError : the noise is not additive (clamped, rounded, adjusted, or randomized response) and beliefs about others
        depend on the target; or a release is impossible under these beliefs

    References
    ----------
    Kifer et al. 2022, section 7.1.

    >>> from adversary.privacy.mechanisms import Geometric
    >>> from adversary.adversaries.beliefs import Point
    >>> from adversary.adversaries.path import settle_truth
    >>> from adversary.adversaries.plans import Level
    >>> plan = Plan([Level("block", Geometric(1.0), siblings=2), Level("tract", Geometric(1.0))])
    >>> adversary = Adversary(prior=0.5, beliefs={"tract": Point(4)})
    >>> truth = settle_truth(plan, adversary, {"block": 1, "tract": 4})
    >>> round(float(unused_record(plan, adversary, truth)["posterior_mean"]), 4)
    0.633
    """
    prior = adversary.prior if log_odds is None else expit(log_odds)
    if adversary.count_shift(plan) == adversary.shift:
        return _dataset(prior, prior, 0.0 * np.asarray(prior))
    if plan.postprocessing is not None or not all(level.mechanism.is_additive for level in plan.levels):
        raise ValueError("what a person whose record is not used would face is known for noise that is added to counts")
    cells = range(plan.cells)
    own = np.array([adversary.contributions(cell)[truth.target] for cell in cells])
    without = Truth(truth.counts - own, truth.target, truth.siblings)
    release, weight = release_table(plan, without, draws=draws, rng=rng)
    released = release_arrays(plan, release)
    factor = np.zeros(weight.size)
    for cell in cells:
        one, path = released.cell(cell), adversary.path(plan, cell)
        out, present = (
            path.log_likelihoods(Released(one.noisy + added, one.sums, one.siblings))[:, side]
            for side, added in enumerate(adversary.contributions(cell))
        )
        if (np.isneginf(out) & np.isneginf(present)).any():
            raise ValueError("a release without the target's record is impossible under this adversary's beliefs")
        factor += present - out
    factor = amplified_loss(factor, adversary.sampling_rate)
    simulated = weight.attrs["direction"] != "exact"
    if log_odds is not None:
        size = weight.size if simulated else 0
        law = BayesFactorLaw(log_odds, truth.target, NOTHING, DiscretePart(factor, weight.values), size, 1.0, False)
        return _dataset(prior, *law.posterior_mean())
    posterior = posterior_after(adversary.prior_log_odds, factor)
    mean = weight.values @ posterior
    return _dataset(prior, mean, posterior.std() / np.sqrt(weight.size) if simulated else 0.0 * mean)


def _dataset(prior: Any, mean: Any, error: Any) -> xr.Dataset:
    dims, measures = ("adversary",) * np.ndim(mean), ["posterior_mean", "ratio_mean"]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [
            np.where(np.greater(prior, 0.0), np.divide(one, prior), at_zero)
            for one, at_zero in ((mean, 1.0), (error, np.inf))
        ]
    direction = {"direction": "estimate" if np.any(error) else "exact"}
    pairs = zip(measures, (mean, ratios[0]), strict=True)
    risks = xr.Dataset({name: (dims, value, direction) for name, value in pairs})
    if not np.any(error):
        return risks
    return risks.assign(mcse=((*dims, "measure"), np.stack([error, ratios[1]], axis=-1))).assign_coords(
        measure=measures
    )
