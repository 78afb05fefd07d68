r"""Published adversaries of noisy counts: nested areas, the census neighbor, and differencing of two totals.

All of them know, or have a prior for, the other records of the target's block, and read counts with additive noise:

.. math:: \text{in} \sim \text{Bernoulli}(p), \qquad \text{noisy} = \text{known} + \text{in} + \text{noise}

They differ in the counts that are published and in the number of counts that include the target's record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm

from adversary._core import check_probability, check_whole
from adversary.adversaries.path import Adversary, attacks
from adversary.adversaries.plans import Level, Plan
from adversary.models.noise import released
from adversary.models.stories import hierarchical_counts
from adversary.privacy.mechanisms import DiscreteGaussian, Mechanism


def kazan_reiter(
    rho: float | Sequence[float],
    prior: float = 0.5,
    known: int = 0,
    *,
    attack: str = "characteristics",
    siblings: int = 27,
    beliefs: Mapping[str, Any] | None = None,
    upper: int | None = None,
) -> pm.Model:
    """Kazan and Reiter's adversary, who knows a block's other records and reads noisy counts of nested areas.

    Parameters
    ----------
    rho : zCDP parameter of one cell of the block's count; a sequence gives those of nested areas, named "level 1",
        "level 2", ..., block first
    prior : prior probability of the attack's hypothesis
    known : count of the other records in the target's cell
    attack : "characteristics", "participation", "misreport" or "unknown attribute"
    siblings : number of other areas with the same parent, at each level below the top
    beliefs : prior of the counts at every level above the block, by name
    upper : largest total considered under an improper belief

    Returns
    -------
    pymc.Model, as `hierarchical_counts` returns it: ``in``, and free ``noisy[level 1]`` and so on.

    Raises
    ------
    ValueError : an unknown attack, a level without a belief, or an argument out of range

    References
    ----------
    Kazan and Reiter (2025), "Assessing statistical disclosure risk for differentially private, hierarchical count
    data", Statistica Sinica 35, sections 2.2, 2.3 and 2.6.

    Examples
    --------
    >>> from adversary import audit_model
    >>> tree = audit_model(kazan_reiter(0.0992263542), {"in": 1}, rng=1)
    >>> round(float(tree["risk"]["posterior_mean"]), 2), round(float(tree["risk"]["prob_correct"]), 2)
    (0.52, 0.59)
    """
    if attack not in attacks.MEANINGS:
        raise ValueError(f"attack must be one of {[*attacks.MEANINGS]}, got {attack!r}")
    rhos = [float(one) for one in np.atleast_1d(rho)]
    levels = [
        Level(f"level {i}", DiscreteGaussian.from_rho(one), siblings=siblings if i < len(rhos) else None)
        for i, one in enumerate(rhos, 1)
    ]
    return hierarchical_counts(Plan(levels), Adversary(prior, known, beliefs or {}, attack=attack), upper)


def census_neighbor(
    rho: float, prior: float = 0.5, others: tuple[int, int] = (0, 0), *, both_cells: bool = True
) -> pm.Model:
    """The neighbor of the census papers, who knows every record of a block except one attribute of one person.

    Neighboring databases differ in one replaced record, as in the 2020 Census: two cells of every query change, so the
    noise variance parameter is sigma^2 = 1 / rho in each cell.

    Parameters
    ----------
    rho : zCDP parameter of the block's query
    prior : prior probability that the target is in the first of two cells, not the second
    others : counts of the other records in the two cells
    both_cells : whether the adversary reads both counts, or the first only

    Returns
    -------
    pymc.Model, as `hierarchical_counts` returns it: ``in``, and free ``noisy[block]``, with dim ``cell`` of both.

    Raises
    ------
    ValueError : an argument out of range

    References
    ----------
    Abowd et al. (2022), "The 2020 Census Disclosure Avoidance System TopDown Algorithm", Harvard Data Science Review,
    special issue 2; Kifer et al. (2022), "Bayesian and frequentist semantics for common variations of differential
    privacy: applications to the 2020 Census".

    Examples
    --------
    >>> from adversary import audit_model
    >>> tree = audit_model(census_neighbor(0.0992263542), {"in": 1}, rng=1)
    >>> round(float(tree["risk"]["posterior_mean"]), 2)
    0.52
    """
    cells = 2 if both_cells else 1
    plan = Plan([Level("block", DiscreteGaussian.from_rho(rho, cells=2))], cells=cells, neighbours="bounded")
    return hierarchical_counts(plan, Adversary(prior, tuple(others) if both_cells else others[0]))


def differencing(
    mechanism: Mechanism, prior: float = 0.5, others: int = 100, *, of_rest: Mechanism | None = None
) -> pm.Model:
    """The differencing adversary, who subtracts a total without the target from a total with the target.

    Two published totals differ by one person, for instance a district and the same district without one address. Their
    difference is the target's value plus the difference of the two noises; without noise it is exact.

    Parameters
    ----------
    mechanism : noise of the total with the target; `Exact` publishes it without noise
    prior : prior probability that the target counts
    others : largest number of others; the prior is uniform on 0, ..., others
    of_rest : noise of the total without the target; default: `mechanism`

    Returns
    -------
    pymc.Model
        Free: ``in``, ``others``, ``noisy[all]``, ``noisy[rest]``.

    Raises
    ------
    ValueError : an argument out of range

    References
    ----------
    Denning, Denning and Schwartz (1979), "The tracker: a threat to statistical database security", ACM Transactions on
    Database Systems 4; Dinur and Nissim (2003), "Revealing information while preserving privacy", PODS.

    Examples
    --------
    >>> from adversary import Exact, Geometric, audit_model
    >>> float(audit_model(differencing(Exact(), 0.01), {"in": 1}, rng=1)["risk"]["posterior_mean"])
    1.0
    >>> tree = audit_model(differencing(Geometric(1.0), 0.01), {"in": 1}, rng=1)
    >>> round(float(tree["risk"]["posterior_mean"]), 2)
    0.01
    """
    check_probability("prior", prior)
    most = int(check_whole("others", others, minimum=0))
    with pm.Model() as model:
        target = pm.Bernoulli("in", np.float64(prior))
        rest = pm.DiscreteUniform("others", 0, most)
        released("noisy[all]", mechanism, rest + target)
        released("noisy[rest]", of_rest or mechanism, rest)
    return model
