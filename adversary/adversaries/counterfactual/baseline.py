"""A person whose record was not used: what an adversary would conclude of them all the same.

The release is made from everybody else's records, and the adversary knows that. Whatever they conclude then follows
from what other people's records say, through beliefs that tie these to the target; it is the baseline beside which a
release that did use the record is judged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from adversary._core import posterior_after
from adversary.adversaries.path import Adversary, Truth
from adversary.adversaries.plans import Plan, Released, release_arrays
from adversary.adversaries.risk import DRAWS, release_table
from adversary.privacy.losses import amplified_loss


def unused_record(plan: Plan, reader: Adversary, truth: Truth, *, draws: int = DRAWS, rng: Any = None) -> xr.Dataset:
    """Expected posterior of the target's side where the release is computed without the target's record.

    If P(w | h) is the law of a release under a hypothesis, and c_h what the target adds to every count under it, noise
    that is added makes P(w + c_h | h) the law of the release without the record (`compare_worlds` with `dropped`).

    Parameters
    ----------
    plan : what is published; noise that is added to counts, exact counts among them
    reader : the adversary
    truth : checked true counts, from `settle_truth`; the target's own record is taken out of them
    draws, rng : number of simulated releases, and their seed or Generator, where they cannot be listed

    Returns
    -------
    Dataset of `posterior_mean` and `ratio_mean` (posterior / prior), and `mcse` (measure) where releases are simulated.
    Both are those of the prior where what the adversary believes of others does not depend on the target.

    Raises
    ------
    ValueError : the noise is not added (clamped, rounded or made to add up, or randomized response) and beliefs about
        others depend on the target; or a release is impossible under these beliefs

    References
    ----------
    Kifer et al. 2022, section 7.1.

    >>> from adversary.privacy.mechanisms import Geometric
    >>> from adversary.adversaries.beliefs import Point
    >>> from adversary.adversaries.path import settle_truth
    >>> from adversary.adversaries.plans import Level
    >>> plan = Plan([Level("block", Geometric(1.0), siblings=2), Level("tract", Geometric(1.0))])
    >>> reader = Adversary(prior=0.5, beliefs={"tract": Point(4)})
    >>> truth = settle_truth(plan, reader, {"block": 1, "tract": 4})
    >>> round(float(unused_record(plan, reader, truth)["posterior_mean"]), 4)
    0.633
    """
    if reader.count_shift(plan) == reader.shift:
        return _dataset(reader.prior, reader.prior, 0.0)
    if plan.postprocessing is not None or not all(level.mechanism.is_additive for level in plan.levels):
        raise ValueError("what a person whose record is not used would face is known for noise that is added to counts")
    cells = range(plan.cells)
    own = np.array([reader.contributions(cell)[truth.target] for cell in cells])
    without = Truth(truth.counts - own, truth.target, truth.siblings)
    release, weight = release_table(plan, without, draws=draws, rng=rng)
    released = release_arrays(plan, release)
    factor = np.zeros(weight.size)
    for cell in cells:
        one, path = released.cell(cell), reader.path(plan, cell)
        out, present = (
            path.log_likelihoods(Released(one.noisy + added, one.sums, one.siblings))[:, side]
            for side, added in enumerate(reader.contributions(cell))
        )
        if (np.isneginf(out) & np.isneginf(present)).any():
            raise ValueError("a release without the target's record is impossible under this adversary's beliefs")
        factor += present - out
    posterior = posterior_after(reader.prior_log_odds, amplified_loss(factor, reader.sampling_rate))
    mean = float(weight.values @ posterior)
    simulated = weight.attrs["direction"] != "exact"
    return _dataset(reader.prior, mean, float(posterior.std() / np.sqrt(weight.size)) if simulated else 0.0)


def _dataset(prior: float, mean: float, error: float) -> xr.Dataset:
    ratio = mean / prior if prior > 0.0 else 1.0
    measures = ["posterior_mean", "ratio_mean"]
    found = xr.Dataset(dict(zip(measures, (mean, ratio), strict=True)))
    for array in found.values():
        array.attrs["direction"] = "estimate" if error else "exact"
    if not error:
        return found
    return found.assign(mcse=("measure", [error, error / prior])).assign_coords(
        measure=["posterior_mean", "ratio_mean"]
    )
