"""Equivalent attacks on one count, each with its own generative story, and a reader who misses several people.

The first three put the target's record into a cell or not, for different reasons; the arithmetic is that of
`membership`. With two published cells a record that is not in the first is in the second.

References
----------
Kazan and Reiter (2025), "Assessing statistical disclosure risk for differentially private, hierarchical count data",
Statistica Sinica 35, sections 2.6.1 and 2.6.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from adversary._core import check_probability, check_whole
from adversary.models.noise import released
from adversary.reader.path import Known, count_pmf
from adversary.reader.plans import Plan

from .tabulated import Tabulated


def participation(plan: Plan, prior: float = 0.5, known: Known = 0) -> pm.Model:
    r"""Did the target respond at all? The reader knows every row, and that everybody else responded.

    .. math:: \text{in} \sim \text{Bernoulli}(p), \qquad X = m + \text{in}, \qquad \text{noisy} = X + \text{noise}

    Somebody who did not respond is in no cell, so the plan has one.

    Parameters
    ----------
    plan : Plan
        Levels that publish one count (no siblings), one cell.
    prior : float
        Probability p that the target responded.
    known : int
        Count m of the others in the target's cell.

    Returns
    -------
    pymc.Model
        Free: ``in``, ``noisy[level]``. Deterministic: ``count``.

    References
    ----------
    Kazan and Reiter (2025), section 2.6.1.
    """
    if plan.cells > 1:
        raise ValueError(
            f"a participation attack needs a plan of one cell, got {plan.cells}: somebody who did not respond is in no "
            "cell; misreport puts the target in another one"
        )
    with pm.Model(coords=_coords(plan)) as model:
        responded = pm.Bernoulli("in", p=_prior(prior))
        _publish(plan, _known(plan, known) + responded)
    return model


def misreport(plan: Plan, prior: float = 0.5, known: Known = 0) -> pm.Model:
    r"""Is the target's recorded answer right? The reader knows the true rows, and that the others' are recorded right.

    .. math::
       \text{in} &\sim \text{Bernoulli}(p), \qquad \text{record} = (\text{in}, 1 - \text{in}) \\
       X_c &= m_c + \text{record}_c, \qquad \text{noisy}_c = X_c + \text{noise}_c

    Cell 0 is that of the right answer; cell 1, read only with two cells, the one where a wrong answer puts the target.

    Parameters
    ----------
    plan : Plan
        Levels that publish one count (no siblings), one cell or two.
    prior : float
        Probability p that the recorded answer is right.
    known : int or tuple of int
        Count of the others in the cell; one per cell with two.

    Returns
    -------
    pymc.Model
        Free: ``in``, ``noisy[level]``. Deterministic: ``record`` and ``count``; all but ``in`` with dim ``cell`` when
        there are two.

    References
    ----------
    Kazan and Reiter (2025), section 2.6.1.
    """
    return _recorded(plan, prior, known)


def unknown_attribute(plan: Plan, prior: float = 0.5, known: Known = 0) -> pm.Model:
    r"""Does the target's one unknown attribute have the value of the cell? The reader knows all else about everybody.

    .. math::
       \text{in} &\sim \text{Bernoulli}(p), \qquad \text{record} = (\text{in}, 1 - \text{in}) \\
       X_c &= m_c + \text{record}_c, \qquad \text{noisy}_c = X_c + \text{noise}_c

    Cell 0 holds the people like the target with the value in question; cell 1, read only with two cells, those with the
    other value.

    Parameters
    ----------
    plan : Plan
        Levels that publish one count (no siblings), one cell or two.
    prior : float
        Probability p of the value in question.
    known : int or tuple of int
        Count of the others in the cell; one per cell with two.

    Returns
    -------
    pymc.Model
        Free: ``in``, ``noisy[level]``. Deterministic: ``record`` and ``count``; all but ``in`` with dim ``cell`` when
        there are two.

    References
    ----------
    Kazan and Reiter (2025), section 2.6.2.
    """
    return _recorded(plan, prior, known)


def _recorded(plan: Plan, prior: float, known: Known) -> pm.Model:
    """The target's record is in cell 0 if in, in cell 1 if out."""
    with pm.Model(coords=_coords(plan)) as model:
        in_first = pm.Bernoulli("in", p=_prior(prior))
        _publish(plan, _known(plan, known) + _record(plan, in_first))
    return model


def all_but(plan: Plan, counts: Any, known: int = 0) -> pm.Model:
    r"""The reader misses n people, all alike, the target one of them.

    .. math::
       K \sim \text{counts}, \qquad \text{in} \mid K \sim \text{Bernoulli}(K / n), \qquad X = m + K, \qquad
       \text{noisy} = X + \text{noise}

    Parameters
    ----------
    plan : Plan
        Levels that publish one count (no siblings), one cell.
    counts : list or law
        Pmf of K over 0, 1, ..., n, or a discrete law with a largest value n.
    known : int
        Count m in the cell of those whom the reader knows.

    Returns
    -------
    pymc.Model
        Free: ``unknown`` (K), ``in``, ``noisy[level]``. Deterministic: ``count``.

    References
    ----------
    Beyond Kazan and Reiter (2025), where one person is unknown; its section 2.6 names the case.
    """
    if plan.cells > 1:
        raise ValueError(f"all_but is about one cell, the plan has {plan.cells}")
    pmf = count_pmf(counts)
    with np.errstate(divide="ignore"):
        log_pmf = np.log(pmf)
    with pm.Model(coords=_coords(plan)) as model:
        unknown = Tabulated("unknown", log_pmf)
        pm.Bernoulli("in", p=unknown / np.float64(pmf.size - 1))
        _publish(plan, _known(plan, known) + unknown)
    return model


def _coords(plan: Plan) -> dict[str, Sequence[Any]]:
    linked = [level.name for level in plan.levels if level.siblings]
    if linked:
        raise ValueError(
            f"the model of an attack is about one count, but level {linked[0]!r} has siblings: give the adversary of "
            "adversary.reader.path.attacks, with its beliefs, to hierarchical_counts"
        )
    coords: dict[str, Sequence[Any]] = {"level": plan.names}
    return coords if plan.cells == 1 else {**coords, "cell": range(plan.cells)}


def _prior(prior: float) -> np.float64:
    return np.float64(check_probability("prior", prior)[()])


def _known(plan: Plan, known: Known) -> Any:
    """Count of the others: a number, or one per cell."""
    counts = check_whole("known", known, minimum=0)
    if counts.ndim and counts.shape != (plan.cells,):
        raise ValueError(f"known must be one count, or one for each of {plan.cells} cells, got {known}")
    return np.broadcast_to(counts, (plan.cells,)) if plan.cells > 1 else counts.reshape(())


def _record(plan: Plan, present: TensorVariable) -> TensorVariable:
    """Where the target's record is: in the first cell if `present`, else in the second, published or not."""
    record = present if plan.cells == 1 else pt.stack([present, 1 - present])
    return pm.Deterministic("record", record, dims=_dims(plan))


def _publish(plan: Plan, count: TensorVariable) -> None:
    count = pm.Deterministic("count", count, dims=_dims(plan))
    for level in plan.levels:
        released(f"noisy[{level.name}]", level.mechanism, count, dims=_dims(plan))


def _dims(plan: Plan) -> tuple[str, ...] | None:
    return ("cell",) if plan.cells > 1 else None
