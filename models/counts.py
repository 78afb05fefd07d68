"""The generative story of noisy nested counts as PyMC models, their release left free.

.. math::
   \\text{in} &\\sim \\text{Bernoulli}(p), \\qquad k_0 = \\text{out or in contribution} \\\\
   X_1 \\mid k_0 &\\sim \\text{belief}_1, \\qquad X_{l+1} \\mid X_l \\sim \\text{belief}_{l+1} \\\\
   \\text{noisy}_l &= X_l + \\text{noise}_l \\\\
   \\text{sibling sum}_l &= (X_{l+1} - X_l) + \\text{sum of } d_l \\text{ noises of level } l

One story serves prior prediction, calibration, `pm.observe`, `pm.do`, enumeration and sampling. Counts of other people
are the latents, never the totals: a flat law of the others on {0, ..., U} tends to the improper flat law of the total
as U grows, whatever lies inside.

References
----------
Kazan and Reiter (2025), "Assessing statistical disclosure risk for differentially private, hierarchical count data",
Statistica Sinica 35, section 2.3, eqs 2.9-2.11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor.variable import TensorVariable

from adversary._numeric import check_whole
from adversary.reader.beliefs import Belief, Known, Others, Point, Uniform
from adversary.reader.inference import Adversary
from adversary.reader.plans import Plan

from .noise import released
from .tables import Tabulated

__all__ = ["hierarchical_counts", "membership"]

LARGEST_TABLE = 20_000_000
"""Entries of a belief's table beyond which the model is refused."""

Upper = int | Mapping[str, int] | None
Dims = tuple[str, ...] | None


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


def hierarchical_counts(plan: Plan, reader: Adversary, upper: Upper = None) -> pm.Model:
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
        Largest total to consider where a belief is improper. The others of such a level are flat on
        {0, ..., upper - c}, c the largest possible count at the lowest level; the answer is that of the improper belief
        once `upper` is beyond anything the releases support. Tables of unbounded proper beliefs reach at least as far,
        otherwise until less than 1e-18 of their mass is left.

    Returns
    -------
    pymc.Model
        Free: ``in``, ``others[level]``, ``noisy[level]``, ``sibling_sum[level]``. Deterministic: ``count[level]``.
        Coordinate ``level`` holds the level names. A belief that excludes some count inside adds ``belief[level]``, a
        potential of minus infinity there, or such a row in its table.
    """
    cells = range(plan.cells)
    coords: dict[str, Sequence[Any]] = {"level": plan.names}
    contributions = np.array([reader.contributions(cell) for cell in cells])
    chains = [reader.chain(plan, cell) for cell in cells]
    if plan.cells == 1:
        contributions = contributions[0]
        dims: Dims = None
    else:
        coords["cell"], dims = list(cells), ("cell",)
    with pm.Model(coords=coords) as model:
        target = pm.Bernoulli("in", p=np.float64(reader.prior))
        out, present = contributions[..., 0], contributions[..., 1]
        count = _Count(out + (present - out) * target, int(contributions.min()), int(contributions.max()))
        lowest = [chain[0].count if isinstance(chain[0], Known) else 0 for chain in chains]
        limit = _Limit(upper, count.high + max(lowest))
        for i, level in enumerate(plan.levels):
            below = plan.levels[i - 1] if i else None
            if below is None or below.siblings:
                others, total = _believed(level.name, [chain[i] for chain in chains], count, limit, dims)
                if below is not None:
                    released(f"sibling_sum[{below.name}]", below.mechanism, others, below.siblings or 0, dims=dims)
                count = total
            count = _Count(pm.Deterministic(f"count[{level.name}]", count.value, dims=dims), count.low, count.high)
            released(f"noisy[{level.name}]", level.mechanism, count.value, dims=dims)
    return model


@dataclass(frozen=True)
class _Count:
    """A count in the graph and the range it can take."""

    value: TensorVariable
    low: int
    high: int

    @property
    def range(self) -> NDArray[np.int64]:
        return np.arange(self.low, self.high + 1)


@dataclass(frozen=True)
class _Limit:
    """Where improper laws of the others are cut; `largest` is the largest possible count at the lowest level."""

    upper: Upper
    largest: int

    def width(self, name: str) -> int:
        """Largest number of others at a level; ValueError where nobody gave a limit."""
        total = self.upper.get(name) if isinstance(self.upper, Mapping) else self.upper
        if total is None:
            raise ValueError(
                f"the belief about level {name!r} is improper: give upper, the largest total to consider, for instance "
                f"hierarchical_counts(plan, reader, upper={self.largest + 60})"
            )
        total = int(check_whole("upper", total))
        if total < self.largest:
            raise ValueError(f"upper at level {name!r} must be at least known + 1 = {self.largest}, got {total}")
        return total - self.largest

    def given(self, name: str) -> bool:
        return self.upper is not None and (not isinstance(self.upper, Mapping) or name in self.upper)


def _believed(
    name: str, beliefs: Sequence[Belief], inside: _Count, limit: _Limit, dims: Dims
) -> tuple[TensorVariable, _Count]:
    """The others and the total of a level, given the count inside; one belief per cell."""
    if all(isinstance(belief, Known | Point) for belief in beliefs):
        return _settled(name, beliefs, inside, dims)
    if all(isinstance(belief, Uniform) and belief.upper is None for belief in beliefs):
        width = limit.width(name)
        others = pm.DiscreteUniform(f"others[{name}]", np.float64(0), np.float64(width), dims=dims)
        return others, _Count(inside.value + others, inside.low, inside.high + width)
    return _tabulated(name, beliefs, inside, limit, dims)


def _settled(name: str, beliefs: Sequence[Belief], inside: _Count, dims: Dims) -> tuple[TensorVariable, _Count]:
    """No latent: the reader is sure of the others (`Known`) or of the total (`Point`)."""
    sure = np.array([isinstance(belief, Point) for belief in beliefs])
    number = np.array([b.total if isinstance(b, Point) else b.count for b in beliefs if isinstance(b, Known | Point)])
    ends = [np.where(sure, number, end + number) for end in (inside.low, inside.high)]
    if dims is None:
        sure, number = sure[0], number[0]
    others = pt.switch(sure, number - inside.value, number) if sure.any() else pt.as_tensor_variable(number)
    if sure.any() and (number[sure] < inside.high).any():
        pm.Potential(f"belief[{name}]", pt.switch(others >= 0, np.float64(0), np.float64(-np.inf)))
    return others, _Count(inside.value + others, int(ends[0].min()), int(ends[1].max()))


def _tabulated(
    name: str, beliefs: Sequence[Belief], inside: _Count, limit: _Limit, dims: Dims
) -> tuple[TensorVariable, _Count]:
    """Any belief, through its log probabilities: a row for every count inside, or one row where that is irrelevant."""
    alike = all(isinstance(belief, Others) for belief in beliefs)
    rows = inside.range[:1] if alike else inside.range
    windows = np.array([_window(name, belief, rows, limit) for belief in beliefs])
    start, stop = max(0, int(windows[:, 0].min())), int(windows[:, 1].max()) + 1
    if len(beliefs) * rows.size * (stop - start) > LARGEST_TABLE:
        raise ValueError(f"level {name!r}: a table of {rows.size} counts inside by {stop - start} others is too large")
    totals = rows[:, None] + np.arange(start, stop)
    table = np.stack([np.asarray(belief.log_prob(totals, rows[:, None]), np.float64) for belief in beliefs])
    possible = totals[np.isfinite(table).any(axis=0)]
    if possible.size == 0:
        raise ValueError(f"the belief about level {name!r} excludes every count inside, {inside.low} to {inside.high}")
    cell = rows.size * np.arange(len(beliefs)) if dims else 0
    row = cell if alike else inside.value - inside.low + cell
    others = Tabulated(f"others[{name}]", table.reshape(-1, stop - start), row, start=start, dims=dims)
    spread = inside.high - inside.low if alike else 0
    return others, _Count(inside.value + others, int(possible.min()), int(possible.max()) + spread)


def _window(name: str, belief: Belief, rows: NDArray[np.int64], limit: _Limit) -> tuple[int, int]:
    """Smallest and largest number of others to tabulate, over all counts inside."""
    ends = [belief.window(int(k)) for k in rows]
    if any(end is None for end in ends):
        return 0, limit.width(name)
    lower = np.array([belief.support(int(k))[0] for k in rows]) - rows
    upper = np.array(ends)[:, 1] - rows
    if belief.support(int(rows[0]))[1] is None and limit.given(name):
        upper = np.maximum(upper, limit.width(name))
    return int(lower.min()), int(upper.max())
