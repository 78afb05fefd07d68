"""Guesses of an attribute of one person: how often the best one is right, before a release and after it.

An attribute has k values with a prior over them. Without a release the best guess, the most probable value, is right
with the largest prior probability. With it, a guess is right with probability sum_v p_v P_v(guess = v), P_v the law of
the release where the attribute is v. Under a guarantee between P_v and a law R, P_v(guess = v) is at most a_v e^e +
delta(e) at every e, a_v = R(guess = v), and the a_v add up to 1; so, for every l > 0,

    success  <=  l + sum_v p_v delta(log(l / p_v)),

R the law without the person. Where the guarantee is between two values, R is the law of one of them, whose own term is
max(p_w - l, 0). The least over l, and over w, is the bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, check_probability
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import LatticeLoss, check_guarantee
from adversary.privacy.mechanisms import Mechanism
from adversary.privacy.privacy_unit import NEIGHBOURS


class AttributeInference(NamedTuple):
    """The success of the best guess of an attribute.

    Parameters
    ----------
    baseline : without the release, the largest prior probability
    expected : with it, on average over values and releases; an upper bound under a guarantee, exact for noise
    worst : after the release that tells most, but for the failure probability
    """

    baseline: float
    expected: float
    worst: float

    @property
    def advantage(self) -> float:
        """By how much the release raises the expected success."""
        return self.expected - self.baseline


def attribute_bound(
    guarantee: Guarantee, prior: ArrayLike, *, neighbours: str = "bounded", failure: float = 0.0
) -> AttributeInference:
    """The most that any adversary's guess of an attribute can succeed under a guarantee.

    Of adversaries whose beliefs about everybody else do not depend on the person.

    Parameters
    ----------
    guarantee : of the release
    prior : probabilities of the values, (k,), k >= 2
    neighbours : "bounded" where the guarantee covers a person whose value changes, "unbounded" where it covers one who
        is added or removed
    failure : probability with which `worst` may be exceeded

    Returns
    -------
    AttributeInference, upper bounds.

    Raises
    ------
    ValueError : fewer than two values, or probabilities that do not add up to 1

    >>> from adversary.privacy.definitions import PureDP
    >>> found = attribute_bound(PureDP(np.log(3.0)), [0.5, 0.5])
    >>> round(found.expected, 6), round(found.worst, 6)
    (0.75, 0.75)
    """
    check_guarantee("guarantee", guarantee)
    p = _prior(prior)
    if neighbours not in NEIGHBOURS:
        raise ValueError(f"neighbours must be one of {', '.join(NEIGHBOURS)}, got {neighbours!r}")
    values = np.arange(p.size)
    references = values if neighbours == "bounded" else [-1]
    # where a value's own term ends and begins lies at log(p); between, the bound is convex in l
    grid = np.unique(np.concatenate([np.linspace(-12.0, 12.0, 481), np.log(p[p > 0.0] / p.max())]))
    best = min(_least(guarantee, p, int(w), grid + np.log(p.max())) for w in references)
    inside = guarantee if neighbours == "bounded" else guarantee.group(2)
    worst = float(np.max(as_array(inside.posterior_bounds(p, failure)[1])))
    return AttributeInference(float(p.max()), float(np.clip(best, p.max(), 1.0)), worst)


def _least(guarantee: Guarantee, p: Floats, reference: int, logs: Floats) -> float:
    """The least over l of the bound with one value, or nobody (-1), as the reference; every l gives a valid one."""
    rest = np.flatnonzero((np.arange(p.size) != reference) & (p > 0.0))

    def bound(log_l: Floats) -> Floats:
        delta = as_array(guarantee.worst_delta(log_l[:, None] - np.log(p[rest])))
        own = np.maximum(p[reference] - np.exp(log_l), 0.0) if reference >= 0 else 0.0
        return np.asarray(np.exp(log_l) + delta @ p[rest] + own)

    for _ in range(4):
        need = bound(logs)
        at = int(np.argmin(need))
        logs = np.linspace(logs[max(at - 1, 0)], logs[min(at + 1, logs.size - 1)], 41)
    return float(need.min())


def attribute_of_report(mechanism: Mechanism, prior: ArrayLike) -> AttributeInference:
    """The success of the best guess from a local report of the value, such as randomised response: exact.

    Parameters
    ----------
    mechanism : of a report with finitely many answers; the values are 0, 1, ..., k - 1
    prior : their probabilities, (k,)

    Raises
    ------
    ValueError : another mechanism, or a prior that does not add up to 1

    >>> from adversary.privacy.mechanisms import RandomizedResponse
    >>> found = attribute_of_report(RandomizedResponse(np.log(3.0), 3), [0.4, 0.3, 0.3])
    >>> round(found.expected, 6), round(found.worst, 6)
    (0.6, 0.666667)
    """
    p = _prior(prior)
    if not mechanism.is_local or mechanism.is_continuous:
        raise ValueError(f"mechanism must be of a local report with finitely many answers, got {mechanism!r}")
    answers = np.unique(np.concatenate([np.ravel(mechanism.support(int(v))) for v in range(p.size)]))
    joint = p * np.exp(as_array(mechanism.log_prob(answers[:, None], np.arange(p.size))))
    largest, total = joint.max(axis=1), joint.sum(axis=1)
    with np.errstate(invalid="ignore"):
        worst = float(np.nanmax(np.where(total > 0.0, largest / total, np.nan)))
    return AttributeInference(float(p.max()), float(largest.sum()), worst)


def attribute_of_counts(mechanism: Mechanism, prior: ArrayLike) -> AttributeInference:
    """The success of the best guess from noisy counts by value, to who knows everybody else: exact.

    The person is one more in the count of their value, and in no other. Every count has noise of its own; what decides
    is the log ratio of each count, with and without one more, whose law is `mechanism.privacy_loss()`.

    Parameters
    ----------
    mechanism : integer noise of every count, additive
    prior : probabilities of the values, (k,)

    Returns
    -------
    AttributeInference; `worst` is 1 where a release can settle the value.

    Raises
    ------
    ValueError : noise whose loss is not listed, or a prior that does not add up to 1

    >>> from adversary.privacy.mechanisms import Geometric
    >>> found = attribute_of_counts(Geometric(1.0), [0.5, 0.5])
    >>> round(found.expected, 6), round(found.worst, 6)
    (0.731059, 0.880797)
    """
    p = _prior(prior)
    loss = mechanism.privacy_loss().law
    if not isinstance(loss, LatticeLoss):
        raise ValueError(f"mechanism must be integer noise whose loss is listed, got {mechanism!r}")
    with np.errstate(divide="ignore"):
        log_prior = np.log(p)
    atoms, in_mass, out_mass = loss.losses, np.exp(loss.log_p), np.exp(loss.log_q)
    expected = 0.0
    for v in range(p.size):
        if p[v] == 0.0:
            continue
        chance = in_mass.copy()
        for w in range(p.size):
            if w != v and p[w] > 0.0:
                # ties go to the first value, so that each release is counted once
                gap = atoms + log_prior[v] - log_prior[w]
                below = np.add.outer(gap, -atoms) > (-1e-12 if v < w else 1e-12)
                chance = chance * (below @ out_mass + loss.infinite_q)
        expected += p[v] * (float(chance.sum()) + loss.infinite_p)
    widest = loss.maximum + loss.swapped.maximum
    worst = float(np.max(1.0 / (1.0 + (1.0 - p) / np.maximum(p, 1e-300) * np.exp(-widest))))
    return AttributeInference(float(p.max()), min(float(expected), 1.0), worst if np.isfinite(widest) else 1.0)


def _prior(prior: ArrayLike) -> Floats:
    p = np.asarray(check_probability("prior", prior), dtype=np.float64)
    if p.ndim != 1 or p.size < 2:
        raise ValueError(f"prior must be probabilities of two values at least, got {p.tolist()}")
    if abs(p.sum() - 1.0) > 1e-9:
        raise ValueError(f"prior must add up to 1, got {p.sum():.12g}")
    return p
