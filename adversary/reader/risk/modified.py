"""A plan, a reader's law or a mechanism changed in one respect: another budget, another prior, fewer values.

One law of the log Bayes factor over releases serves every prior; another budget asks for a law of its own. What tells
one law from another in a store is its fingerprint.
"""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import fields, is_dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np

from adversary._core import check_probability, logit
from adversary.reader.beliefs import Others, is_law
from adversary.reader.path import Adversary, Truth
from adversary.reader.plans import Plan
from adversary.reader.risk.bayes_factors import BayesFactorLaw
from adversary.reader.risk.law_parts import DiscretePart

GROUPS, SIMULATED_GROUPS = 2000, 200
"""Values to which `coarse_law` reduces a part of a law: of exact laws, and of simulated ones."""
_LISTED = 2**16
"""Counts at which a law is looked at to tell it from others; the names of laws settle the rest."""


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


def law_fingerprint(plan: Plan, reader: Adversary, truth: Truth) -> str:
    """What tells one reader's stored blocks from another's, the same in every process."""
    chains = [reader.level_beliefs(plan, cell) for cell in range(plan.cells)]
    siblings = {name: counts.tolist() for name, counts in truth.siblings.items()}
    who = (reader.prior_log_odds, reader.hypotheses, reader.sampling_rate)
    told = (plan, chains, *who, truth.counts.tolist(), truth.target, siblings)
    content = BytesIO()
    _Fingerprint(content).dump(told)
    return hashlib.sha256(content.getvalue()).hexdigest()


class _Fingerprint(pickle.Pickler):
    """Pickles that are only compared, the same for the same values whatever has been computed with them before.

    A law of `scipy.stats` holds the state of a generator, which differs from process to process: its place takes what
    it is called, and what it says of the counts in its bulk. Of a dataclass the fields count, and no cached property.
    """

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file, protocol=4)
        self.fast = True  # equal values are written alike, whether or not they are one object

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type):
            return NotImplemented
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return np.frombuffer, (value.tobytes(), value.dtype.str, value.shape)
        if is_law(value):
            return is_law, _described(value)
        if is_dataclass(value):
            return type(value), tuple(getattr(value, field.name) for field in fields(value))
        return NotImplemented


def _described(law: Any) -> tuple[Any, ...]:
    """Kind, name and parameters of a law, and log probabilities: laws of lists of values have the rest in common."""
    belief, kind = Others(law), getattr(law, "dist", law)
    low, high = belief.bulk()
    counts = np.unique(np.linspace(low, high, _LISTED).astype(np.int64)).astype(np.float64)
    parameters = (getattr(law, "args", ()), sorted(getattr(law, "kwds", {}).items()))
    return type(kind).__qualname__, getattr(kind, "name", ""), parameters, low, high, belief.log_pmf(counts)
