"""A plan, a reader's law or a mechanism changed in one respect: another budget, another prior, fewer values.

One law of the log Bayes factor over releases serves every prior; another budget asks for a law of its own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from adversary._core import check_probability, logit
from adversary.reader.path import Adversary
from adversary.reader.plans import Plan
from adversary.reader.risk.bayes_factors import BayesFactorLaw
from adversary.reader.risk.law_parts import DiscretePart

GROUPS, SIMULATED_GROUPS = 2000, 200
"""Values to which `coarse_law` reduces a part of a law: of exact laws, and of simulated ones."""


def at_prior(law: BayesFactorLaw, prior: float) -> BayesFactorLaw:
    """The same law of the log Bayes factor, for an adversary with another prior.

    Parameters
    ----------
    law : law of the log Bayes factor
    prior : probability of "in", in [0, 1]

    Returns
    -------
    BayesFactorLaw; only `log_odds` differs

    Raises
    ------
    ValueError : a prior outside [0, 1]
    """
    return replace(law, log_odds=float(logit(check_probability("prior", prior))))


def same_law(one: Adversary, other: Adversary) -> bool:
    """Whether two adversaries differ in their prior only, so that one law of the log Bayes factor serves both.

    Parameters
    ----------
    one, other : adversaries

    Returns
    -------
    True if `known`, `beliefs`, `hypotheses` and `sampling_rate` are equal

    >>> same_law(Adversary(prior=0.1), Adversary(prior=0.5)), same_law(Adversary(known=0), Adversary(known=1))
    (True, False)
    """
    parts = ((who.known, who.beliefs, who.hypotheses, who.sampling_rate) for who in (one, other))
    return next(parts) == next(parts)


def total_rho(plan: Plan) -> float:
    """zCDP parameter of the plan: the rho of its noisy levels added up, twice for bounded neighbours.

    Under bounded neighbours a person changes cell, so two counts of each level move.

    Parameters
    ----------
    plan : what is published

    Returns
    -------
    rho in nats; exact levels are left out, and noise that no zCDP covers makes it infinite

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> from adversary.reader.plans import Level
    >>> total_rho(Plan([Level("block", DiscreteGaussian.from_rho(0.5))]))
    0.5
    """
    moved = 2 if plan.neighbours == "bounded" else 1
    return float(sum(moved * level.mechanism.rho for level in plan.levels if not level.is_exact))


def scaled_plan(plan: Plan, factor: float) -> Plan:
    """The plan with the rho of every noisy level multiplied by one factor.

    Parameters
    ----------
    plan : what is published
    factor : > 0; above 1 for less noise

    Returns
    -------
    Plan with the same levels, whose mechanisms are `mechanism.scaled(factor)`; exact levels stay exact
    """
    return replace(plan, levels=tuple(replace(one, mechanism=one.mechanism.scaled(factor)) for one in plan.levels))


def coarse_law(law: BayesFactorLaw) -> BayesFactorLaw:
    """The law with each part on at most 2000 values, 200 if simulated: accurate to about 1e-5 in a smooth average.

    Parameters
    ----------
    law : law of the log Bayes factor

    Returns
    -------
    BayesFactorLaw; a continuous first part stays as it is
    """
    groups = SIMULATED_GROUPS if law.simulated else GROUPS
    first = gathered(law.first, groups) if isinstance(law.first, DiscretePart) else law.first
    return replace(law, first=first, rest=gathered(law.rest, groups))


def gathered(part: DiscretePart, groups: int) -> DiscretePart:
    """The part's weight in equally wide groups, each at its mean."""
    if part.values.size <= groups or not np.isfinite(part.values).all():
        return part
    edges = np.linspace(part.values[0], part.values[-1], groups + 1)
    bins = np.clip(np.searchsorted(edges, part.values, side="right") - 1, 0, groups - 1)
    weight = np.bincount(bins, part.weights, groups)
    value = np.bincount(bins, part.weights * part.values, groups)
    used = weight > 0
    return DiscretePart(value[used] / weight[used], weight[used])
