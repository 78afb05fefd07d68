r"""PyMC model of a table of counts with known margins and its noisy release, the release left free.

.. math::
   \text{free cells} \mid \text{margins} &\sim \exp \Big( \sum_{ij} t_{ij}(x_{ij}) \Big), \qquad
   x = \text{the free cells and what the margins make of the others} \\
   \text{noisy} \mid x &\sim \text{the mechanism}, \qquad
   \text{in} \mid x \sim \operatorname{Bernoulli}\big( (x_{jk} - \text{known}_{jk}) / n \big)

The margins hold exactly in every state, without penalty or rejection. Small tables are enumerated, large ones sampled
by `MarginGibbs`; `adversary.known_totals.table_posterior` gives the same posterior without PyMC.

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", section 5.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from adversary._core import check_whole
from adversary.adversaries.known_totals import KnownMargins
from adversary.models.noise import released as released_cells
from adversary.models.noise import released_together
from adversary.privacy.invariants import VectorNoise
from adversary.privacy.mechanisms import Mechanism

from .free_cells import FreeCells, completed_table


def invariants(
    margins: Any,
    mechanism: Any,
    prior: Any = None,
    *,
    known: ArrayLike | None = None,
    target: tuple[int, int] | None = None,
    released: ArrayLike | None = None,
) -> pm.Model:
    """PyMC model of a noisy table whose margins were published exactly.

    Parameters
    ----------
    margins : Margins of two features, or (row totals, column totals)
        Exact margins (people), at least two rows and two columns.
    mechanism : Mechanism or VectorNoise (`KNorm`, `SpanGaussian`)
        Noise of each cell, or joint noise of all cells.
    prior : TablePrior or array_like (rows, columns), optional
        Prior of the table, or cell probabilities of independent records; default: equal probabilities.
    known : array_like (rows, columns), optional
        Table of the records that the adversary knows already.
    target : (row, column), optional
        Adds ``in``: 1 if a given record, not a known one, is in this cell.
    released : array_like (rows, columns), optional
        A published table, to be observed; default: ``noisy`` is left free.

    Returns
    -------
    pymc.Model
        Free: ``free_cells``, counts of the unknown records in all rows and columns but the last; ``noisy``, dims (row,
        column); ``in`` if there is a target. Deterministic: ``table``, including known records, dims (row, column).

    Raises
    ------
    ValueError
        The margins determine the table, the target is outside it, or `released` has fractions under integer noise.
    TypeError
        `mechanism` is neither a Mechanism nor a VectorNoise.

    Notes
    -----
    Sample a table that is too large to enumerate with ``pm.sample(step=MarginGibbs())``. A step that changes one free
    cell at a time may not reach every table, and no diagnostic shows that.

    Examples
    --------
    >>> from adversary import DiscreteGaussian, enumerate_posterior
    >>> model = invariants(([2, 1], [2, 1]), DiscreteGaussian(1.0), target=(0, 0))
    >>> round(enumerate_posterior(model, {"noisy": [[2, 0], [0, 1]]}).posterior.item(), 6)
    0.595662
    """
    if not isinstance(mechanism, Mechanism | VectorNoise):
        raise TypeError(f"mechanism must be a Mechanism or a VectorNoise, got {mechanism!r}")
    story = KnownMargins.of(margins, prior, known)
    shape = story.known.shape
    if min(shape) < 2:
        raise ValueError(f"a table of {shape[0]} x {shape[1]} is settled by its margins: there is nothing to model")
    where = None if target is None else _cell(target, shape)
    with pm.Model(coords={"row": np.arange(shape[0]), "column": np.arange(shape[1])}) as model:
        free = FreeCells("free_cells", story.prior, story.rows, story.columns)
        rows, columns = pt.constant(story.rows), pt.constant(story.columns)
        unknown = completed_table(free, rows, columns)
        table = pm.Deterministic("table", unknown + pt.constant(story.known), dims=("row", "column"))
        if where is not None:
            pm.Bernoulli("in", unknown[where].astype("float64") / np.float64(story.records))
        publish: Any = released_cells if isinstance(mechanism, Mechanism) else released_together
        publish("noisy", mechanism, table, dims=("row", "column"))
    return model if released is None else pm.observe(model, {"noisy": _as_released(model, released)})


def _as_released(model: pm.Model, released: ArrayLike) -> Any:
    """The published table in the dtype of the variable; fractions are refused under integer noise."""
    values = np.asarray(released)
    return check_whole("released", values) if model["noisy"].dtype.startswith("int") else values.astype(np.float64)


def _cell(target: tuple[int, int], shape: tuple[int, ...]) -> tuple[int, int]:
    row, column = (int(check_whole("target", place, minimum=0)) for place in target)
    if row >= shape[0] or column >= shape[1]:
        raise ValueError(f"target must be a cell of the {shape[0]} x {shape[1]} table, got {target}")
    return row, column
