"""Attacks: meanings of "in" and of the adversary's prior knowledge that share one log Bayes factor.

The log Bayes factor depends only on the count under "in" and the count under "out". So participation, misreport and
unknown attribute are the characteristics attack with another prior. Adversaries who do not know several people besides
the target are beliefs about the lowest level: `all_but`, `one_of`.

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
from adversary.adversaries.path.posterior_belief import Learned

MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "characteristics": "the target is in the cell",
        "participation": "the target responded",
        "misreport": "the target's recorded answer is right",
        "unknown attribute": "the target's unknown attribute has the value of the cell",
    }
)
"""Meaning of "in", the event whose probability is the prior, by name of the attack."""

LARGEST_UNKNOWN = 100_000
"""People unknown to a reader beyond which `all_but` is refused."""

Known = int | tuple[int, ...]


def characteristics(prior: float = 0.5, known: Known = 0, beliefs: Mapping[str, Any] | None = None) -> Adversary:
    """The main attack: the reader knows everybody's row but the target's.

    Parameters
    ----------
    prior : probability that the target is in the cell
    known : count of everybody else in the cell; one per cell when the plan has two
    beliefs : about the upper levels, by name
    """
    return Adversary(prior, known, beliefs or {}, attack="characteristics")


def participation(prior: float = 0.5, known: Known = 0, beliefs: Mapping[str, Any] | None = None) -> Adversary:
    """The reader knows every row, the target's too, and assumes that the others answered: did the target respond?

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
    """The reader knows every row and assumes that the others were recorded right: was the target?

    With one cell the reader looks at the cell of the right answer. `Plan(cells=2)` is the reader who also looks at the
    cell where a wrong answer put the target; the two log Bayes factors add up to twice one of them on average.

    Parameters
    ----------
    prior : probability that the recorded answer is right
    known : count of the others in the cell of the right answer; one per cell when the plan has two
    beliefs : about the upper levels, by name

    References
    ----------
    Kazan and Reiter (2025), section 2.6.1.
    """
    return Adversary(prior, known, beliefs or {}, attack="misreport")


def unknown_attribute(prior: float = 0.5, known: Known = 0, beliefs: Mapping[str, Any] | None = None) -> Adversary:
    """The reader knows every row but for one attribute of the target: does it have the value of the cell?

    With one cell the reader looks at the cell of that value. `Plan(cells=2)` is the reader of an attribute with two
    values who looks at both cells; the two log Bayes factors add up to twice one of them on average.

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
    r"""A reader who misses n people of the lowest unit, the target one of them, all alike to this reader.

    With K the number of the n who are in the cell,

    .. math::
       P(\text{in}) = E[K] / n, \qquad
       P(K = k \mid \text{in}) \propto k P(K = k), \qquad P(K = k \mid \text{out}) \propto (n - k) P(K = k),

    so that the posterior of "in" is E[K | release] / n. For plans of one cell.

    Parameters
    ----------
    counts : pmf of K over 0, 1, ..., n as a list, or a discrete law with a largest value n (`binom(3, 0.5)`)
    known : count in the cell of those whom the reader knows
    level : name of the lowest level
    beliefs : about the upper levels, by name

    >>> reader = all_but([0.125, 0.375, 0.375, 0.125], level="block")
    >>> reader.prior
    0.5
    """
    pmf, known = count_pmf(counts), int(check_whole("known", known, minimum=0))
    share = np.arange(pmf.size) / (pmf.size - 1)
    prior = float(np.clip((pmf * share).sum(), 0.0, 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.log(np.stack([pmf * (1 - share) / (1 - prior), pmf * share / prior]))
    rows = np.where(np.isnan(rows), -np.inf, rows)  # nobody, or everybody, is in the cell: one hypothesis excluded
    belief = Learned(np.arange(2.0), known + np.arange(float(pmf.size)), rows)
    return Adversary(prior, known, {**_beliefs_without(level, beliefs), level: belief})


def one_of(
    chances: ArrayLike, target: int, known: int = 0, *, level: str, beliefs: Mapping[str, Any] | None = None
) -> Adversary:
    """A reader who misses several people of the lowest unit, each in the cell with their own chance, independently.

    Parameters
    ----------
    chances : probability of each of them to be in the cell, shape (n,)
    target : which of them is the target, 0..n-1; their chance is the prior
    known : count in the cell of those whom the reader knows
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
    """Pmf, shape (n + 1,), of how many of n independent people are in the cell, each with their own chance.

    Given to `all_but` it makes the target any of them at random; for one of them by name use `one_of`.

    >>> independent([0.5, 0.5]).tolist()
    [0.25, 0.5, 0.25]
    """
    pmf = np.ones(1)
    for chance in _chances(chances):
        pmf = np.append(pmf, 0.0) * (1 - chance) + np.append(0.0, pmf) * chance
    return pmf


def count_pmf(counts: ArrayLike) -> Floats:
    """Check a law of a count of n people, at least one, and return its pmf over 0, ..., n.

    Parameters
    ----------
    counts : probabilities of 0, 1, ..., n, which sum to 1; or a discrete law with a largest value (frozen scipy.stats,
        or PreliZ)

    Returns
    -------
    Probabilities (n + 1,), normalised

    Raises
    ------
    ValueError : a law with an infinite end or negative values, n below 1 or above 100,000, probabilities that are
        negative or do not sum to 1
    TypeError : neither a law nor numbers

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
