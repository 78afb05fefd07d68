"""Gibbs sampling of histograms along lines: moves of people in and out, between cells, or between units.

Noisy sums are often far more precise than their parts, or exact. A move of one person between cells or units leaves
such sums unchanged and can be accepted; a change of one count alone never is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pymc.vartypes import discrete_types

from adversary._core import check_whole
from adversary.models.fitting import GibbsStep, Point

# Number of states of a line per update.
STRETCH = 16


class HistogramGibbs(GibbsStep):
    r"""Update counts of shape (unit, cell) along random lines, each from its conditional distribution.

    .. math:: x \to x + s \, d, \qquad P(s \mid \text{rest}) \propto p(x + s \, d)

    over a stretch of s with 0 at a random position. Directions d: one count; between two cells of a unit; between two
    units of a cell; and both at once, which preserves the sums of units and of cells.

    Parameters
    ----------
    vars : list of variables, optional
        Non-negative integer variables with two dims (unit, cell); default: ``others`` of the model.
    updates : int, optional
        Lines per step; default: four per count.
    model : pymc.Model, optional
        Default: the model in context.
    rng : seed or numpy.random.Generator, optional

    Raises
    ------
    ValueError
        The model has no variable ``others`` and `vars` is missing, or `updates` is not a positive whole number.
    TypeError
        A variable is not discrete with two dims.

    Notes
    -----
    Start at a point of positive probability. Any prior is allowed, also one with other latents; these need steps of
    their own.

    Examples
    --------
    >>> from adversary.models import noisy_histograms
    >>> from adversary.adversaries.tables import Query
    >>> from adversary.census.spine import Tree
    >>> sexes, tree = Query("sex", ((0, 1),)), Tree.of({"g": None, "a": "g", "b": "g"})
    >>> released = {"sex": [[3, 2], [1, 1], [2, 0]]}
    >>> with noisy_histograms(tree, [sexes], {"sex": 1.5}, released=released):
    ...     draws = pm.sample(100, tune=0, step=HistogramGibbs(), progressbar=False, quiet=True)  # doctest: +SKIP
    """

    name = "histogram_gibbs"

    def __init__(self, vars: Any = None, updates: int | None = None, model: Any = None, **options: Any) -> None:
        model = pm.modelcontext(model)
        if vars is None and "others" not in model.named_vars:
            raise ValueError("the model has no counts called others: see models.noisy_histograms, or give vars")
        self.prepare([model["others"]] if vars is None else vars, model, options)
        for rv in (model.values_to_rvs[value] for value in self.vars):
            if rv.dtype not in discrete_types or rv.ndim != 2:
                raise TypeError(f"HistogramGibbs updates whole counts of shape (unit, cell), {rv.name!r} is not such")
        self.updates = None if updates is None else int(check_whole("updates", updates, minimum=1))

    def step(self, point: Point) -> tuple[Point, list[dict[str, Any]]]:
        """One step: `updates` lines for each histogram."""
        for name in self.densities:
            for _ in range(self.updates or 4 * point[name].size):
                point = {**point, name: self.chosen(name, self._line(point[name]), point)}
        return point, [{}]

    def _line(self, counts: NDArray[Any]) -> NDArray[Any]:
        """States (state, unit, cell) along a random line through the current one."""
        direction = self._direction(counts.shape)
        low = -min((int(n) for n in counts[direction > 0]), default=STRETCH)
        high = min((int(n) for n in counts[direction < 0]), default=STRETCH)
        first = -int(self.rng.integers(STRETCH))
        steps = np.arange(max(first, low), min(first + STRETCH - 1, high) + 1)
        state: NDArray[Any] = (counts + steps[:, None, None] * direction).astype(counts.dtype)
        return state

    def _direction(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """A random direction (unit, cell); a single count if the two random units or cells coincide."""
        direction = np.zeros(shape, dtype=np.int64)
        (a, b), (c, d) = (self.rng.integers(size, size=2) for size in shape)
        kind = int(self.rng.integers(4))
        direction[a, c] += 1
        if kind == 1 and c != d:
            direction[a, d] -= 1
        if kind == 2 and a != b:
            direction[b, c] -= 1
        if kind == 3 and a != b and c != d:
            direction[a, d] -= 1
            direction[b, c] -= 1
            direction[b, d] += 1
        return direction
