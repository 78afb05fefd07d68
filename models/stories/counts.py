r"""The generative story of noisy nested counts as PyMC models, their release left free.

.. math::
   \text{in} &\sim \text{Bernoulli}(p), \qquad k_0 = \text{out or in contribution} \\
   X_1 \mid k_0 &\sim \text{belief}_1, \qquad X_{l+1} \mid X_l \sim \text{belief}_{l+1} \\
   \text{noisy}_l &= X_l + \text{noise}_l \\
   \text{sibling sum}_l &= (X_{l+1} - X_l) + \text{sum of } d_l \text{ noises of level } l

or, where siblings are read one by one, :math:`\text{sibling}_{l,i} = Y_{l,i} + \text{noise}_{l,i}` with
:math:`X_{l+1} = X_l + \sum_i Y_{l,i}`. One story serves prior prediction, calibration, `pm.observe`, `pm.do`,
enumeration and sampling.

References
----------
Kazan and Reiter (2025), "Assessing statistical disclosure risk for differentially private, hierarchical count data",
Statistica Sinica 35, section 2.3, eqs 2.9-2.11.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable

from adversary.models.noise import released
from adversary.reader.path import Adversary
from adversary.reader.plans import Level, Plan

from .belief_priors import Count, Law, Limit, OthersDraw, OthersOfLevel, Upper, believed, one_by_one, sibling_dim


def membership(plan: Plan, reader: Adversary, upper: Upper = None) -> pm.Model:
    r"""One published level: is the target in the cell?

    .. math:: \text{in} \sim \text{Bernoulli}(p), \qquad X = m + k_0, \qquad \text{noisy} = X + \text{noise}

    Parameters
    ----------
    plan : Plan
        With exactly one level.
    reader : Adversary
        Prior p, known count m (or a belief about the level), hypotheses.
    upper : int, optional
        As in `hierarchical_counts`; only for an improper belief about the level.

    Returns
    -------
    pymc.Model
        Free: ``in``, ``noisy[level]``, and ``others[level]`` when the others are not known. Deterministic:
        ``count[level]``.

    References
    ----------
    Kazan and Reiter (2025), eq. 2.3.
    """
    if len(plan.levels) != 1:
        raise ValueError(f"membership is about one level, the plan has {list(plan.names)}: use hierarchical_counts")
    return hierarchical_counts(plan, reader, upper)


def hierarchical_counts(plan: Plan, reader: Adversary, upper: Upper = None, individually: bool = False) -> pm.Model:
    """Nested published levels around one target, as the reader sees them (see the module for the equations).

    Parameters
    ----------
    plan : Plan
        Levels, lowest first; a level without siblings holds the same people as the next one, which then shares its
        count and has no sibling sum. With two cells, variables have dim ``cell``: the target counts in cell 0 if in, in
        cell 1 if out.
    reader : Adversary
        Prior, hypotheses, beliefs.
    upper : int or mapping of level name to int, optional
        Largest total to consider where a belief is improper. The others of such a level (each sibling, under a flat
        `Each` read individually) are flat on {0, ..., upper - c}, c the largest possible count at the lowest level; the
        answer is that of the improper belief once `upper` is beyond anything the releases support. Tables of unbounded
        proper beliefs reach at least as far, otherwise until less than 1e-18 of their mass is left.
    individually : bool
        Whether siblings under an `Each` belief are released one by one instead of as their sum. Every sibling's count
        is then a latent: enumeration goes through all of them, so this is for few siblings.

    Returns
    -------
    pymc.Model
        Free: ``in``, ``others[level]``, ``noisy[level]``, ``sibling_sum[level]``, and ``sampled`` where the reader does
        not know whether the target was; individually
        ``sibling_count[level]`` and ``siblings[level]``, dim ``sibling of <level>``, instead of others and sum.
        Deterministic: ``count[level]``. Coordinate ``level`` holds the level names. A belief that excludes some count
        inside adds ``belief[level]``, a potential of minus infinity there, or such a row in its table.
    """
    if not individually:
        return nested_counts(plan, reader, upper, believed)
    if not any(belief.each is not None for cell in range(plan.cells) for belief in reader.level_beliefs(plan, cell)):
        raise ValueError("individually: no belief is about each sibling; give some upper level Each(law)")
    return nested_counts(plan, reader, upper, one_by_one)


def nested_counts(plan: Plan, reader: Adversary, upper: Upper, law: Law) -> pm.Model:
    """The model of `hierarchical_counts`, with `law` giving the others of every level that has some."""
    if plan.postprocessing is not None:
        raise ValueError("the counts of this plan are made to add up after the noise: use models.postprocessed")
    model, path = latent_counts(plan, reader, upper, law)
    dims = ("cell",) if plan.cells > 1 else None
    with model:
        for i, (level, count, outside) in enumerate(path):
            if outside is not None:
                _release_siblings(plan, i - 1, outside, dims)
            released(f"noisy[{level.name}]", level.mechanism, count, dims=dims)
    return model


class Counted(NamedTuple):
    """A level, its count in the graph, and everybody outside the unit below; None where it holds the same people."""

    level: Level
    count: TensorVariable
    outside: OthersDraw | None


def latent_counts(plan: Plan, reader: Adversary, upper: Upper, law: Law) -> tuple[pm.Model, list[Counted]]:
    """A model with the target and the count of every level, lowest first, and nothing released yet."""
    cells = range(plan.cells)
    coords: dict[str, Sequence[Any]] = {"level": plan.names}
    contributions = np.array([reader.contributions(cell) for cell in cells])
    chains = [reader.level_beliefs(plan, cell) for cell in cells]
    dims: tuple[str, ...] | None = None
    if plan.cells == 1:
        contributions = contributions[0]
    else:
        coords["cell"], dims = list(cells), ("cell",)
    path: list[Counted] = []
    with pm.Model(coords=coords) as model:
        target = pm.Bernoulli("in", p=np.float64(reader.prior))
        out, present = contributions[..., 0], contributions[..., 1]
        counted = target
        if reader.sampling_rate < 1.0:
            counted = target * pm.Bernoulli("sampled", p=np.float64(reader.sampling_rate))
        count = Count(out + (present - out) * counted, int(contributions.min()), int(contributions.max()))
        lowest = [chain[0].known_count or 0 for chain in chains]
        limit = Limit(upper, count.high + max(lowest))
        for i, level in enumerate(plan.levels):
            below, outside = plan.levels[i - 1].name if i else None, None
            if not i or plan.levels[i - 1].siblings:
                found = law(OthersOfLevel(level.name, below, [chain[i] for chain in chains], count, limit, dims))
                count, outside = found.total, found if i else None
            count = Count(pm.Deterministic(f"count[{level.name}]", count.value, dims=dims), count.low, count.high)
            path.append(Counted(level, count.value, outside))
    return model, path


def _release_siblings(plan: Plan, i: int, outside: OthersDraw, dims: tuple[str, ...] | None) -> None:
    """What the siblings of a level's unit publish: each its own count, or their sum."""
    level = plan.levels[i]
    if outside.siblings is not None:
        both = (sibling_dim(level.name), *(dims or ()))
        released(f"siblings[{level.name}]", level.mechanism, outside.siblings, dims=both)
    elif plan.sibling_noise(i) is None:
        raise ValueError(
            f"the {level.siblings} siblings of level {level.name!r} have no sum to release, they are read one by one: "
            "give the next level a belief Each(law), and individually=True"
        )
    else:
        released(f"sibling_sum[{level.name}]", level.mechanism, outside.others, level.siblings or 0, dims=dims)
