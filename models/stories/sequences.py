"""One count released several times: at the nested levels of a unique target, or in releases one after another.

References
----------
Kazan and Reiter (2025), "Assessing statistical disclosure risk for differentially private, hierarchical count data",
Statistica Sinica 35, sections 2.6.3 and 2.10.
"""

from __future__ import annotations

from collections.abc import Iterable

import pymc as pm

from adversary.privacy.mechanisms import Mechanism
from adversary.reader.path import Adversary
from adversary.reader.plans import Level, Plan

from .counts import hierarchical_counts


def unique_target(mechanisms: Iterable[Mechanism], prior: float = 0.5) -> pm.Model:
    r"""A target known to be the only one of their kind at several nested levels.

    .. math::
       \text{in} \sim \text{Bernoulli}(p), \qquad X_l = \text{in}, \qquad \text{noisy}_l = X_l + \text{noise}_l,
       \qquad l = 1, \ldots, L

    Parameters
    ----------
    mechanisms : list of Mechanism
        The noise of each level, lowest first.
    prior : float
        Probability p that the target has the guessed value.

    Returns
    -------
    pymc.Model
        Free: ``in``, ``noisy[level 1]``, ``noisy[level 2]``, ... Deterministic: ``count[level 1]``, ...

    References
    ----------
    Kazan and Reiter (2025), section 2.6.3, eq. 2.12.
    """
    return hierarchical_counts(repeated_plan("level", mechanisms), Adversary(prior))


def sequential(mechanisms: Iterable[Mechanism], known: int = 0, prior: float = 0.5) -> pm.Model:
    r"""Several releases of one count, independent given the count.

    .. math::
       \text{in} \sim \text{Bernoulli}(p), \qquad X = m + \text{in}, \qquad \text{noisy}_k = X + \text{noise}_k,
       \qquad k = 1, \ldots, K

    Log Bayes factors add up, so the order of the releases does not matter to the posterior after all of them.

    Parameters
    ----------
    mechanisms : list of Mechanism
        The noise of each release.
    known : int
        Count m of everybody else in the cell.
    prior : float
        Probability p that the target is in the cell.

    Returns
    -------
    pymc.Model
        Free: ``in``, ``noisy[release 1]``, ``noisy[release 2]``, ... Deterministic: ``count[release 1]``, ...

    References
    ----------
    Kazan and Reiter (2025), section 2.10.
    """
    return hierarchical_counts(repeated_plan("release", mechanisms), Adversary(prior, known))


def repeated_plan(word: str, mechanisms: Iterable[Mechanism]) -> Plan:
    """The same people at every level: "word 1", "word 2", ..."""
    noises = list(mechanisms)
    if not noises:
        raise ValueError("mechanisms must hold at least one, got an empty sequence: there is nothing to read")
    names = [f"{word} {i}" for i in range(1, len(noises) + 1)]
    below = [Level(name, noise, siblings=0) for name, noise in zip(names[:-1], noises[:-1], strict=True)]
    return Plan([*below, Level(names[-1], noises[-1])])
