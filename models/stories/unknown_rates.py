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

from functools import singledispatch

import numpy as np
import pymc as pm

from adversary.reader.beliefs import Belief, BetaBinomial, GammaPoisson
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
    if not any(_has_rate(belief) for chain in chains for belief in chain):
        raise ValueError(
            "uncertain_rates needs a belief GammaPoisson or BetaBinomial about some level, got "
            f"{dict(reader.beliefs)}: without one use hierarchical_counts"
        )
    return nested_counts(plan, reader, upper, _rated)


def _rated(outside: OthersOfLevel) -> OthersDraw:
    """The others given their rate, where the belief has one."""
    if any(_has_rate(belief) for belief in outside.beliefs):
        if len({type(belief) for belief in outside.beliefs}) > 1:
            raise ValueError(f"level {outside.name!r}: give both cells the same kind of belief, got {outside.beliefs}")
        return given_rate(outside.beliefs[0], outside)
    return believed(outside)


@singledispatch
def given_rate(belief: Belief, outside: OthersOfLevel) -> OthersDraw:
    """The others given their rate, a latent of its own: one implementation for each kind of belief that has a rate.

    Parameters
    ----------
    belief : of the first cell; those of all cells, of the same kind, are in `outside`
    outside : everybody outside the target's unit at one level
    """
    raise TypeError(f"{belief!r} has no rate")


def _has_rate(belief: Belief) -> bool:
    return given_rate.dispatch(type(belief)) is not given_rate.dispatch(object)


@given_rate.register
def _(belief: GammaPoisson, outside: OthersOfLevel) -> OthersDraw:
    name, dims = outside.name, outside.dims
    a, b, e = (_fields([getattr(one, field) for one in outside.beliefs]) for field in ("shape", "rate", "exposure"))
    limit = outside.limit
    high = limit.width(name) if limit.given(name) else max(_last(one) for one in outside.beliefs)
    rate = pm.Gamma(f"rate[{name}]", alpha=a, beta=b, dims=dims)
    law = pm.Poisson.dist(mu=rate * e)
    others = pm.Truncated(f"others[{name}]", law, lower=np.float64(0), upper=np.float64(high), dims=dims)
    return OthersDraw(others, outside.inside.plus(others, 0, high))


@given_rate.register
def _(belief: BetaBinomial, outside: OthersOfLevel) -> OthersDraw:
    name, dims = outside.name, outside.dims
    n, alpha, beta = (_fields([getattr(one, field) for one in outside.beliefs]) for field in ("n", "alpha", "beta"))
    rate = pm.Beta(f"rate[{name}]", alpha=alpha, beta=beta, dims=dims)
    others = pm.Binomial(f"others[{name}]", n=n, p=rate, dims=dims)
    return OthersDraw(others, outside.inside.plus(others, 0, int(np.max(n))))


def _last(belief: Belief) -> int:
    """Largest count outside that is worth a look."""
    bulk = belief.window(0)
    assert bulk is not None
    return bulk[1]


def _fields(values: list[float]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """One parameter, or one per cell, in double precision."""
    return np.array(values[0] if len(values) == 1 else values, dtype=np.float64)
