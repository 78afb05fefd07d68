r"""Gibbs sampler with every confidential record in the state, and the bias of the thesis's version of it.

Given a release, each record is proposed anew from N(mu, sigma2) and accepted by the likelihood of the noise (Ju et al.
2022). The thesis rejects proposals outside the bounds but uses the untruncated conditionals of mu and sigma2: that
multiplies the model of truncated normal records by

.. math:: Z(\mu, \sigma^2)^n, \quad Z = P(0 \le Y \le 1 \mid \mu, \sigma^2)

which favours small sigma2 and central mu, so much that coverage is nearly 0 for small n.

References
----------
Ju, Awan, Gong and Rao (2022), "Data augmentation MCMC for Bayesian inference from privatized data"; the thesis,
section 4.4.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from adversary._core import Floats, Seed
from adversary.bounded.bounded_release import BoundedRelease
from adversary.bounded.propriety import unit_cap
from adversary.bounded.thesis.statistics_gibbs import as_tree, chain_input, check_size, run_chains, settings

if TYPE_CHECKING:
    import xarray as xr


def gibbs_records(
    release: BoundedRelease,
    prior: Any = "flat",
    constrained: bool = True,
    feasibility: str = "normalised",
    *,
    draws: int = 20_000,
    burn: int = 2_000,
    chains: int = 4,
    thin: int = 10,
    rng: Seed = None,
    cap: float | None = None,
) -> xr.DataTree:
    r"""Draws of mu, sigma2 and the sample statistics, with all n records in the state; n proposals per sweep.

    A proposal y' ~ N(mu, sigma2) replaces a record with probability

    .. math::
        \min(1, \exp(-n \epsilon_1 (|Y^* - \bar Y'| - |Y^* - \bar Y|) - n \epsilon_2 (|S^* - S'^2| - |S^* - S^2|)))

    Parameters
    ----------
    release, prior, draws, burn, chains, thin, rng : as in `adversary.bounded.thesis.statistics_gibbs.gibbs`
    constrained : records stay inside the bounds, and sigma2 <= mu (1 - mu); False: the target is that of `gibbs`
    feasibility : "normalised" (default): records are truncated normal; a new mu or sigma2 is accepted with probability
        min(1, (Z old / Z new)^n). "event": the thesis's algorithm, which omits Z^n and has another target: at n = 10,
        epsilon 0.1 + 0.1, its 95% intervals cover a mean of 0.1 in fewer than 1% of data sets, the normalised ones in
        about 65%.
        Without constraints there is no difference.
    cap : largest sigma2, in the squared unit of the data; default without constraints (n - 1) / (2 n epsilon2) on
        [0, 1] if that is above 1/4, else no limit

    Returns
    -------
    xarray.DataTree as from `gibbs`; group "sample_stats" has `acceptance_rate`, the share of accepted proposals.

    Raises
    ------
    ValueError : as for `gibbs`, except for large epsilon2, which this sampler accepts; another feasibility

    Warns
    -----
    UserWarning : an effective sample below 400, or R-hat above 1.01: expected for large n, as records move one by one
    """
    if feasibility not in ("event", "normalised"):
        raise ValueError(f'feasibility must be "event" or "normalised", got {feasibility!r}')
    inputs, size = chain_input(release, prior, constrained, cap), check_size(draws, burn, thin)
    if cap is not None:
        top = unit_cap(cap, release)
    else:
        top = math.inf if constrained or inputs.limit <= 0.25 else inputs.limit
    normalised = inputs.constrained and feasibility == "normalised"
    from adversary.bounded.thesis.chains import records_chain

    def chain(generator: np.random.Generator) -> Floats:
        return records_chain(generator, size, *inputs[:4], normalised, top)

    attrs = {"sampler": "gibbs, record level", "feasibility": feasibility, **settings(inputs, size, prior)}
    return as_tree(run_chains(chain, chains, rng), release, attrs)
