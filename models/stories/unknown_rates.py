r"""Readers who do not know how common the trait is: the rate behind other people's counts is a latent of its own.

.. math::
   \lambda_l \sim \text{Gamma}(a, b), \qquad X_{l+1} - X_l \mid \lambda_l \sim \text{Poisson}(\lambda_l e)
   \qquad \text{or} \qquad
   \theta_l \sim \text{Beta}(\alpha, \beta), \quad X_{l+1} - X_l \mid \theta_l \sim \text{Binomial}(n, \theta_l)

and all else as in `counts`. Integrating the rate out gives `hierarchical_counts` of the same reader.

References
----------
Kazan and Reiter (2025), "Assessing statistical disclosure risk for differentially private, hierarchical count data",
Statistica Sinica 35, section 2.3, for the levels; Gelman et al. (2013), "Bayesian Data Analysis", sections 2.6 and 5.3,
for the priors on rates.
"""

from __future__ import annotations

import numpy as np
import pymc as pm

from adversary.reader.beliefs import BetaBinomial, GammaPoisson
from adversary.reader.path import Adversary
from adversary.reader.plans import Plan

from .belief_priors import OthersDraw, OthersOfLevel, Upper, believed
from .counts import nested_counts


def uncertain_rates(plan: Plan, reader: Adversary, upper: Upper = None) -> pm.Model:
    """Nested published levels with unknown rates: ``rate[level]`` is continuous, everything else discrete.

    Parameters
    ----------
    plan : Plan
        As for `hierarchical_counts`.
    reader : Adversary
        With a belief `GammaPoisson` or `BetaBinomial` about at least one level.
    upper : int or mapping of level name to int, optional
        Largest total to consider at levels with an improper belief, as in `hierarchical_counts`, and at those with a
        Poisson law, which otherwise reach until the law with its rate integrated out has less than 1e-18 left.

    Returns
    -------
    pymc.Model
        As `hierarchical_counts`, and free ``rate[level]``: the Poisson mean per unit of exposure, or each person's
        chance of the trait. One per cell with two cells.
    """
    chains = [reader.level_beliefs(plan, cell) for cell in range(plan.cells)]
    if not any(isinstance(belief, GammaPoisson | BetaBinomial) for chain in chains for belief in chain):
        raise ValueError(
            "uncertain_rates needs a belief GammaPoisson or BetaBinomial about some level, got "
            f"{dict(reader.beliefs)}: without one use hierarchical_counts"
        )
    return nested_counts(plan, reader, upper, _rated)


def _rated(outside: OthersOfLevel) -> OthersDraw:
    """The others given their rate, where the belief has one."""
    if all(isinstance(belief, GammaPoisson) for belief in outside.beliefs):
        return _poisson(outside)
    if all(isinstance(belief, BetaBinomial) for belief in outside.beliefs):
        return _binomial(outside)
    if any(isinstance(belief, GammaPoisson | BetaBinomial) for belief in outside.beliefs):
        raise ValueError(f"level {outside.name!r}: give both cells the same kind of belief, got {outside.beliefs}")
    return believed(outside)


def _poisson(outside: OthersOfLevel) -> OthersDraw:
    name, dims = outside.name, outside.dims
    beliefs = [belief for belief in outside.beliefs if isinstance(belief, GammaPoisson)]
    a, b, e = (_fields([getattr(belief, field) for belief in beliefs]) for field in ("shape", "rate", "exposure"))
    limit = outside.limit
    high = limit.width(name) if limit.given(name) else max(belief.bulk()[1] for belief in beliefs)
    rate = pm.Gamma(f"rate[{name}]", alpha=a, beta=b, dims=dims)
    law = pm.Poisson.dist(mu=rate * e)
    others = pm.Truncated(f"others[{name}]", law, lower=np.float64(0), upper=np.float64(high), dims=dims)
    return OthersDraw(others, outside.inside.plus(others, 0, high))


def _binomial(outside: OthersOfLevel) -> OthersDraw:
    name, dims = outside.name, outside.dims
    beliefs = [belief for belief in outside.beliefs if isinstance(belief, BetaBinomial)]
    n, alpha, beta = (_fields([getattr(belief, field) for belief in beliefs]) for field in ("n", "alpha", "beta"))
    rate = pm.Beta(f"rate[{name}]", alpha=alpha, beta=beta, dims=dims)
    others = pm.Binomial(f"others[{name}]", n=n, p=rate, dims=dims)
    return OthersDraw(others, outside.inside.plus(others, 0, int(np.max(n))))


def _fields(values: list[float]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """One parameter, or one per cell, in double precision."""
    return np.array(values[0] if len(values) == 1 else values, dtype=np.float64)
