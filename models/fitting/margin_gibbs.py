"""Gibbs sampling of a table with known margins, along lines of tables with the same margins.

A line goes through the current table in the direction of a basic move: two opposite corners of a rectangle of cells
gain s records, and the other two lose s. Each update draws from the exact conditional along a line. Basic moves connect
all tables with the margins. Updates of one free cell at a time do not: with one record in each row and column they can
get stuck.

References
----------
Diaconis and Sturmfels (1998), "Algebraic algorithms for sampling from conditional distributions", Annals of Statistics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray

from adversary._core import check_whole
from adversary.adversaries.known_totals import complete_tables
from adversary.models.stories import FreeCellsRV

from .gibbs_step import GibbsStep, Point

# Largest number of tables per update. A longer line is cut to a random stretch that includes the current table.
LONGEST_LINE = 4096


class MarginGibbs(GibbsStep):
    r"""Update the free cells of `invariants` along random lines of tables with the same margins.

    .. math:: x \to x + s \, (e_{ij} + e_{km} - e_{im} - e_{kj}), \qquad P(s \mid \text{rest}) \propto p(x + s \, v)

    over every s that leaves no cell negative.

    Parameters
    ----------
    vars : list of variables, optional
        Vectors of free cells; default: all of the model.
    updates : int, optional
        Lines per step; default: two per free cell.
    model : pymc.Model, optional
        Default: the model in context.
    rng : seed or numpy.random.Generator, optional

    Raises
    ------
    ValueError
        The model has no free cells, or `updates` is not a positive whole number.
    TypeError
        A variable is not a vector of free cells.

    Notes
    -----
    Every table with the margins must be possible, as with additive noise and positive cell probabilities. If some
    tables are impossible, lines may not connect the others. Start at a point of positive probability.

    Examples
    --------
    >>> from adversary import DiscreteGaussian
    >>> from adversary.models import invariants
    >>> noisy = np.array([[30, 9], [21, 42]])
    >>> with invariants(([41, 59], [49, 51]), DiscreteGaussian(3.0), released=noisy) as model:
    ...     draws = pm.sample(100, tune=0, step=MarginGibbs(), progressbar=False, quiet=True)  # doctest: +SKIP
    """

    name = "margin_gibbs"

    def __init__(self, vars: Any = None, updates: int | None = None, model: Any = None, **options: Any) -> None:
        model = pm.modelcontext(model)
        free = [rv for rv in model.free_RVs if isinstance(rv.owner.op, FreeCellsRV)]
        self.prepare(free if vars is None else vars, model, options)
        if not self.vars:
            raise ValueError("the model has no free cells of a table with known margins: see models.invariants")
        self.margins = {}
        for rv in (model.values_to_rvs[value] for value in self.vars):
            if not isinstance(rv.owner.op, FreeCellsRV):
                raise TypeError(
                    f"MarginGibbs updates the free cells of a table with known margins, {rv.name!r} is not such"
                )
            self.margins[rv.name] = [parameter.data for parameter in rv.owner.op.dist_params(rv.owner)[:2]]
        self.updates = None if updates is None else int(check_whole("updates", updates, minimum=1))

    def step(self, point: Point) -> tuple[Point, list[dict[str, Any]]]:
        """One step: `updates` lines for each table."""
        for name, margins in self.margins.items():
            places = [np.flatnonzero(margin) for margin in margins]
            free = (places[0].size - 1) * (places[1].size - 1)
            for _ in range((self.updates or 2 * free) if free > 0 else 0):
                point = {**point, name: self.chosen(name, self._line(point[name], margins, places), point)}
        return point, [{}]

    def _line(self, cells: NDArray[Any], margins: list[Any], places: list[NDArray[Any]]) -> NDArray[Any]:
        """Free cells (table, cell) of the tables along a random line through the current one."""
        (i, k), (j, m) = (self.rng.choice(place, 2, replace=False) for place in places)
        table = complete_tables(cells, *margins)
        steps = self._steps(min(table[i, j], table[k, m]), min(table[i, m], table[k, j]), self.rng)
        batch = np.repeat(table[None], steps.size, axis=0)
        for row, column, sign in ((i, j, 1), (k, m, 1), (i, m, -1), (k, j, -1)):
            batch[:, row, column] += sign * steps
        return batch[:, :-1, :-1].reshape(steps.size, -1)

    @staticmethod
    def _steps(down: int, up: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Steps from -down to up, or a stretch of them with 0 at a uniformly drawn position."""
        if down + up < LONGEST_LINE:
            return np.arange(-down, up + 1)
        # A stretch from a to b is as likely from each of its tables, so the update leaves the conditional invariant.
        first = -int(rng.integers(LONGEST_LINE))
        return np.arange(max(first, -down), min(first + LONGEST_LINE - 1, up) + 1)
