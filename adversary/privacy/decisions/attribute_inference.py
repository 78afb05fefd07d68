"""Attribute inference: success probability of the best guess of one person's attribute, without and with a release.

An attribute has k values with prior probabilities p_v. Without a release the best guess is the most probable value.
With a release a guess is right with probability sum_v p_v P_v(guess = v), where P_v is the distribution of the release
for value v. A guarantee between P_v and a distribution R gives P_v(guess = v) <= a_v e^e + delta(e) at every e, with
a_v = R(guess = v). The a_v add up to 1, so for every l > 0

    success  <=  l + sum_v p_v delta(log(l / p_v)).

For a guarantee under adding or removing a person, R is the distribution without the person. For a guarantee under a
change of value, R is the distribution of one value w, whose own term is max(p_w - l, 0). The bound is the minimum over
l, and over w.
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
    """Success probability of the best guess of an attribute.

    Parameters
    ----------
    baseline : without the release: the largest prior probability
    expected : with the release, on average over values and releases; an upper bound if derived from a guarantee, exact
        if derived from a mechanism
    worst : largest posterior of any value over releases, except with the failure probability
    """

    baseline: float
    expected: float
    worst: float

    @property
    def advantage(self) -> float:
        """Increase of the expected success probability by the release."""
        return self.expected - self.baseline


def attribute_bound(
    guarantee: Guarantee, prior: ArrayLike, *, neighbours: str = "bounded", failure: float = 0.0
) -> AttributeInference:
    """Upper bound on the success probability of any guess of an attribute, under a guarantee.

    It holds for adversaries whose beliefs about all other records do not depend on the person.

    Parameters
    ----------
    guarantee : of the release
    prior : probabilities of the values, (k,), k >= 2
    neighbours : "bounded" if the guarantee covers a change of one person's value, "unbounded" if it covers adding or
        removing a person
    failure : probability with which `worst` may be exceeded

    Returns
    -------
    AttributeInference, upper bounds.

    Raises
    ------
    ValueError : fewer than two values, or probabilities that do not add up to 1

    >>> from adversary.privacy.definitions import PureDP
    >>> bound = attribute_bound(PureDP(np.log(3.0)), [0.5, 0.5])
    >>> round(bound.expected, 6), round(bound.worst, 6)
    (0.75, 0.75)
    """
    check_guarantee("guarantee", guarantee)
    p = _prior(prior)
    if neighbours not in NEIGHBOURS:
        raise ValueError(f"neighbours must be one of {', '.join(NEIGHBOURS)}, got {neighbours!r}")
    values = np.arange(p.size)
    references = values if neighbours == "bounded" else [-1]
    # The bound is convex in l between its kinks, which lie at l = p_v: include them in the grid.
    grid = np.unique(np.concatenate([np.linspace(-12.0, 12.0, 481), np.log(p[p > 0.0] / p.max())]))
    best = min(_least(guarantee, p, int(w), grid + np.log(p.max())) for w in references)
    # Under unbounded neighbours two values are two steps apart: remove the person, add the other value.
    inside = guarantee if neighbours == "bounded" else guarantee.group(2)
    worst = float(np.max(as_array(inside.posterior_bounds(p, failure)[1])))
    return AttributeInference(float(p.max()), float(np.clip(best, p.max(), 1.0)), worst)


def _least(guarantee: Guarantee, p: Floats, reference: int, logs: Floats) -> float:
    """Minimum of the bound over l, with R of one value, or without the person (-1); every l gives a valid bound."""
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
    """Exact success probability of the best guess from a local report of the value, such as randomised response.

    Parameters
    ----------
    mechanism : of a local report with finitely many answers; the values are 0, 1, ..., k - 1
    prior : probabilities of the values, (k,)

    Returns
    -------
    AttributeInference, exact.

    Raises
    ------
    ValueError : another mechanism, or a prior that does not add up to 1

    >>> from adversary.privacy.mechanisms import RandomizedResponse
    >>> success = attribute_of_report(RandomizedResponse(np.log(3.0), 3), [0.4, 0.3, 0.3])
    >>> round(success.expected, 6), round(success.worst, 6)
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
    """Exact success probability of the best guess from noisy counts per value, if all other records are known.

    The person adds one to the count of their value. The counts have independent noise. The best guess compares the log
    likelihood ratios of each count with and without the person, whose distribution is `mechanism.privacy_loss()`.

    Parameters
    ----------
    mechanism : additive integer noise of each count
    prior : probabilities of the values, (k,)

    Returns
    -------
    AttributeInference; `worst` is 1 if a release can reveal the value with certainty.

    Raises
    ------
    ValueError : noise whose loss is not a listed lattice, or a prior that does not add up to 1

    >>> from adversary.privacy.mechanisms import Geometric
    >>> success = attribute_of_counts(Geometric(1.0), [0.5, 0.5])
    >>> round(success.expected, 6), round(success.worst, 6)
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
                # Ties go to the first value, so that each release is counted once.
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
