"""Attacks: meanings of "in" and of the adversary's prior knowledge that share one log Bayes factor.

The log Bayes factor depends only on the count under "in" and the count under "out". So participation, misreport and
unknown attribute are the characteristics attack with another prior. An adversary who does not know several people
besides the target has a belief about the lowest level: `all_but`, `one_of`.

References
----------
Kazan and Reiter (2025), "Assessing statistical disclosure risk for differentially private, hierarchical count data",
Statistica Sinica 35, sections 2.6.1 and 2.6.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, check_probability, check_whole, refuse_masked, values_by_count
from adversary.adversaries.beliefs import Others, as_law, is_law
from adversary.adversaries.path.adversary import Adversary
from adversary.adversaries.path.posterior_belief import PosteriorBelief

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "characteristics": "the target is in the cell",
        "participation": "the target responded",
        "misreport": "the target's recorded answer is right",
        "unknown attribute": "the target's unknown attribute has the value of the cell",
    }
)
"""Meaning of "in", the event whose probability is the prior, by name of the attack."""

# Largest number of unknown people for `all_but`, `one_of` and `independent`; memory and time grow with it.
LARGEST_UNKNOWN = 100_000

Known = int | tuple[int, ...]


def characteristics(prior: float = 0.5, known: Known = 0, beliefs: Mapping[str, Any] | None = None) -> Adversary:
    """The characteristics attack: the adversary knows every row but the target's. Is the target in the cell?

    Parameters
    ----------
    prior : probability that the target is in the cell
    known : count of everybody else in the cell; one per cell when the plan has two
    beliefs : about the upper levels, by name
    """
    return Adversary(prior, known, beliefs or {}, attack="characteristics")


def participation(prior: float = 0.5, known: Known = 0, beliefs: Mapping[str, Any] | None = None) -> Adversary:
    """The participation attack: the adversary knows every row and that the others responded. Did the target respond?

    Only for plans of one cell: somebody who did not respond is in no cell.

    Parameters
    ----------
    prior : probability that the target responded at all
    known : count of the others in the target's cell
    beliefs : about the upper levels, by name

    References
    ----------
    Kazan and Reiter (2025), section 2.6.1.
    """
    return Adversary(prior, known, beliefs or {}, attack="participation")


def misreport(prior: float = 0.5, known: Known = 0, beliefs: Mapping[str, Any] | None = None) -> Adversary:
    """The misreport attack: the adversary knows every row and that the others were recorded correctly. Was the target?

    With one cell the adversary reads the cell of the correct answer. With `Plan(cells=2)` the adversary also reads the
    cell where a wrong answer puts the target; the sum of the two log Bayes factors is on average twice that of one.

    Parameters
    ----------
    prior : probability that the recorded answer is correct
    known : count of the others in the cell of the correct answer; one per cell when the plan has two
    beliefs : about the upper levels, by name

    References
    ----------
    Kazan and Reiter (2025), section 2.6.1.
    """
    return Adversary(prior, known, beliefs or {}, attack="misreport")


def unknown_attribute(prior: float = 0.5, known: Known = 0, beliefs: Mapping[str, Any] | None = None) -> Adversary:
    """The unknown attribute attack: the adversary knows every row but one attribute of the target. Is it the cell's?

    With one cell the adversary reads the cell of one value. With `Plan(cells=2)` the attribute has two values and the
    adversary reads both cells; the sum of the two log Bayes factors is on average twice that of one.

    Parameters
    ----------
    prior : probability of the value of the cell
    known : count of the others in that cell; one per cell when the plan has two
    beliefs : about the upper levels, by name

    References
    ----------
    Kazan and Reiter (2025), section 2.6.2.
    """
    return Adversary(prior, known, beliefs or {}, attack="unknown attribute")


def all_but(counts: ArrayLike, known: int = 0, *, level: str, beliefs: Mapping[str, Any] | None = None) -> Adversary:
    r"""An adversary to whom n people of the lowest unit, the target among them, are unknown and exchangeable.

    With K the number of these n people who are in the cell,

    .. math::
       P(\text{in}) = E[K] / n, \qquad
       P(K = k \mid \text{in}) \propto k P(K = k), \qquad P(K = k \mid \text{out}) \propto (n - k) P(K = k),

    so that the posterior of "in" is E[K | release] / n. For plans of one cell.

    Parameters
    ----------
    counts : pmf of K over 0, 1, ..., n as a list, or a discrete distribution with a largest value n (`binom(3, 0.5)`)
    known : number of people in the cell whom the adversary knows
    level : name of the lowest level
    beliefs : about the upper levels, by name

    >>> adversary = all_but([0.125, 0.375, 0.375, 0.125], level="block")
    >>> adversary.prior
    0.5
    """
    pmf, known = count_pmf(counts), int(check_whole("known", known, minimum=0))
    share = np.arange(pmf.size) / (pmf.size - 1)
    prior = float(np.clip((pmf * share).sum(), 0.0, 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.log(np.stack([pmf * (1 - share) / (1 - prior), pmf * share / prior]))
    # NaN is log(0 / 0): nobody, or everybody, is in the cell for certain, which excludes one hypothesis.
    rows = np.where(np.isnan(rows), -np.inf, rows)
    belief = PosteriorBelief(np.arange(2.0), known + np.arange(float(pmf.size)), rows)
    return Adversary(prior, known, {**_beliefs_without(level, beliefs), level: belief})


def one_of(
    chances: ArrayLike, target: int, known: int = 0, *, level: str, beliefs: Mapping[str, Any] | None = None
) -> Adversary:
    """An adversary to whom n people of the lowest unit are unknown, each in the cell with a probability of their own.

    The n people are independent of one another.

    Parameters
    ----------
    chances : probability of each unknown person to be in the cell, shape (n,)
    target : index of the target among them, 0..n-1; its entry of `chances` is the prior
    known : number of people in the cell whom the adversary knows
    level : name of the lowest level
    beliefs : about the upper levels, by name
    """
    each = _chances(chances)
    index, known = int(check_whole("target", target, minimum=0)), int(check_whole("known", known, minimum=0))
    if index >= each.size:
        raise ValueError(f"target must be one of the {each.size} people, 0 to {each.size - 1}, got {target}")
    rest = np.delete(each, index)
    others = np.concatenate([np.zeros(known), independent(rest) if rest.size else np.ones(1)])
    return Adversary(float(each[index]), known, {**_beliefs_without(level, beliefs), level: Others(others)})


def independent(chances: ArrayLike) -> Floats:
    """Pmf of the number of n independent people in the cell, each with a probability of their own (Poisson binomial).

    With this pmf `all_but` takes the target as one of the n at random; `one_of` takes a particular one.

    Parameters
    ----------
    chances : probability of each person to be in the cell, (n,)

    Returns
    -------
    Probabilities of 0, 1, ..., n, (n + 1,)

    >>> independent([0.5, 0.5]).tolist()
    [0.25, 0.5, 0.25]
    """
    pmf = np.ones(1)
    for chance in _chances(chances):
        pmf = np.append(pmf, 0.0) * (1 - chance) + np.append(0.0, pmf) * chance
    return pmf


def count_pmf(counts: ArrayLike) -> Floats:
    """Check a distribution of a count of n people, at least one, and return its pmf over 0, ..., n.

    Parameters
    ----------
    counts : probabilities of 0, 1, ..., n, which sum to 1; or a discrete distribution with a largest value (frozen
        scipy.stats, or PreliZ)

    Returns
    -------
    Probabilities, (n + 1,), normalised

    Raises
    ------
    ValueError : a distribution without a largest value or with negative values, n below 1 or above 100,000,
        probabilities that are negative or do not sum to 1
    TypeError : neither a distribution nor numbers

    >>> from scipy.stats import binom
    >>> count_pmf(binom(2, 0.5)).round(6).tolist(), count_pmf([0.25, 0.75]).tolist()
    ([0.25, 0.5, 0.25], [0.25, 0.75])
    """
    law = as_law(counts)
    if is_law(law):
        low, high = law.support()
        if low < 0 or not np.isfinite(high):
            raise ValueError(
                f"counts must be a law on 0, 1, ..., n: this one goes from {low} to {high}; "
                "truncate it, or give the probabilities of 0, 1, ..., n as a list"
            )
        if high > LARGEST_UNKNOWN:
            raise ValueError(f"counts must be about at most {LARGEST_UNKNOWN} people, got {int(high)}")
        pmf = np.exp(np.asarray(law.logpmf(np.arange(int(high) + 1)), dtype=np.float64))
    else:
        refuse_masked("counts", counts)
        listed = values_by_count("counts", counts)
        try:
            pmf = np.array(listed, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"counts must be probabilities of 0, 1, ..., n or a discrete law, got {counts!r}") from None
    if pmf.ndim != 1 or not np.isfinite(pmf).all() or (pmf < 0).any():
        raise ValueError(f"counts must be a list of non-negative probabilities of 0, 1, ..., n, got {counts!r}")
    if pmf.size < 2:
        raise ValueError(f"counts must be about at least one unknown person, the target: got {pmf.tolist()}")
    if abs(pmf.sum() - 1.0) > 1e-9:
        raise ValueError(
            f"counts must sum to one, got {float(pmf.sum())!r}: chances of single people go through independent()"
        )
    return np.asarray(pmf / pmf.sum())


def _chances(chances: ArrayLike) -> Floats:
    each = check_probability("chances", values_by_count("chances", chances, gaps=False))
    if each.ndim != 1 or not 0 < each.size <= LARGEST_UNKNOWN:
        raise ValueError(f"chances must be a list, one probability for each unknown person, got {chances!r}")
    return each


def _beliefs_without(level: str, beliefs: Mapping[str, Any] | None) -> Mapping[str, Any]:
    given: Mapping[str, Any] = beliefs or {}
    if level in given:
        raise ValueError(f"beliefs: level {level!r} is the one whose unknown people are described; leave it out")
    return given
