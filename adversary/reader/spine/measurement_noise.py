"""The likelihoods of a tree's measurements: discrete Gaussian by rho, any other integer noise by its mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from adversary._core import Floats, Integers, as_array
from adversary.privacy.mechanisms import DiscreteGaussian, Exact, Geometric, Mechanism
from adversary.reader.spine.problem import Likelihood, aligned, check_measurements
from adversary.reader.spine.tree import Tree

FAR_NATS = 760.0
"""A count whose likelihood is below exp(-760) of the largest is taken to be impossible: doubles end there."""
LONGEST = 1 << 16


def likelihoods(
    tree: Tree, released: Any, rho: Any, noise: Mapping[str, Mechanism] | None
) -> tuple[list[Likelihood], bool]:
    """One `Likelihood` per cell, and whether there is one cell only.

    noise : mechanisms by name of a unit or of a level, in place of rho there; a unit's own comes before its level's
    """
    chosen = _by_unit(tree, noise or {})
    released, rho = aligned(tree, released, rho)
    precision = as_array(rho)
    if chosen:
        shape = np.broadcast_shapes(np.shape(released), (len(tree),) + (1,) * (np.ndim(released) - 1))
        precision = precision[:, None] if precision.ndim == 1 and len(shape) == 2 else precision
        precision = np.broadcast_to(precision, shape).copy()
        for unit, mechanism in chosen.items():
            precision[unit] = mechanism.rho if isinstance(mechanism, DiscreteGaussian | Exact) else 1.0
    values, precision, single = check_measurements(tree, released, precision)
    alpha = np.zeros_like(values)
    others = {}
    for unit, mechanism in chosen.items():
        if isinstance(mechanism, Geometric):
            alpha[unit], precision[unit] = mechanism.epsilon, 0.0
        elif not isinstance(mechanism, DiscreteGaussian | Exact):
            others[unit], precision[unit] = mechanism, 0.0
    return [
        Likelihood(
            values[:, cell],
            precision[:, cell],
            alpha[:, cell],
            {unit: _table(str(tree.names[unit]), m, values[unit, cell]) for unit, m in sorted(others.items())},
        )
        for cell in range(values.shape[1])
    ], single


def _by_unit(tree: Tree, noise: Mapping[str, Mechanism]) -> dict[int, Mechanism]:
    levels: dict[int, Mechanism] = {}
    units: dict[int, Mechanism] = {}
    for name, mechanism in noise.items():
        if not isinstance(mechanism, Mechanism):
            raise TypeError(f"noise of {name!r} must be a Mechanism, got {mechanism!r}")
        if name in tree.levels:
            here: Integers = np.flatnonzero(tree.level == tree.levels.index(name))
            levels |= dict.fromkeys(here.tolist(), mechanism)
        else:
            units[int(tree.index(name))] = mechanism
    return levels | units


def _table(name: str, mechanism: Mechanism, released: float) -> Floats:
    """Log likelihood of the counts 0, 1, ... as far as they are possible."""
    reach = mechanism.reach(FAR_NATS)
    if not np.isfinite(reach) or max(released, 0.0) + reach > LONGEST:
        raise ValueError(
            f"the noise {mechanism!r} of unit {name!r} leaves more than {LONGEST:,} counts possible: "
            "only a discrete Gaussian or geometric one can be followed so far"
        )
    counts = np.arange(int(max(released, 0.0) + reach) + 1, dtype=np.float64)
    log = np.asarray(mechanism.log_likelihood(np.full(counts.size, released), counts), dtype=np.float64)
    if not (log > -np.inf).any():
        raise ValueError(f"no count makes the noisy count {released:.0f} of unit {name!r} possible under {mechanism!r}")
    return log
