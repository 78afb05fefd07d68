r"""Random walk over the tables with given margins, if they are too many to list: Metropolis with basic moves.

A basic move takes two rows and two columns, adds s at two opposite corners and subtracts s at the other two. Moves of
size 1 connect any two tables with the same margins (they are a Markov basis); larger moves only speed up the walk.
Sizes are powers of two and directions are uniform, so a proposal is as likely as its reverse. It is accepted with
probability min(1, weight of the new table / weight of the old).

References
----------
Diaconis and Sturmfels (1998), "Algebraic algorithms for sampling from conditional distributions", Annals of Statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from adversary._core import Floats, Integers, Sampling, Seed
from adversary.adversaries.known_totals.contingency import cell_bounds

LogWeight = Callable[[Integers], Floats]

# steps whose random numbers are drawn at once
_BLOCK = 2000
_RULED_OUT = (
    "{} is ruled out though the margins allow it: a walk of basic moves need not reach every possible table then; "
    "list them all, or leave everything some probability"
)


def random_tables(rows: Integers, columns: Integers, size: int, rng: np.random.Generator) -> Integers:
    """Tables of databases drawn uniformly from those with these margins (multivariate hypergeometric).

    Parameters
    ----------
    rows, columns : row and column totals, whole numbers (r,) and (c,) with the same sum
    size : number of tables
    rng : Generator

    Returns
    -------
    Counts (size, r, c)

    >>> random_tables(np.array([2, 1]), np.array([1, 2]), 5, np.random.default_rng(0)).sum(2)[0].tolist()
    [2, 1]
    """
    from scipy.stats import random_table

    return np.asarray(random_table(rows, columns).rvs(size, random_state=rng), dtype=np.int64).reshape(
        size, rows.size, columns.size
    )


def walk(
    rows: Integers,
    columns: Integers,
    terms: Floats,
    sampling: Sampling,
    rng: Seed = None,
    together: LogWeight | None = None,
) -> Integers:
    """Tables (chain, draw, r, c) with these margins, sampled with probability proportional to exp(log weight).

    Each chain starts at the table of a uniformly drawn database and takes two steps per free cell between two draws.
    The log weight, nats, is the sum of `terms` (r, c, count) over cells and of `together`, a function of tables (chain,
    r, c). It must be finite (else ValueError): if some tables are excluded, basic moves need not connect the others.
    """
    generator = np.random.default_rng(rng)
    places = np.flatnonzero(rows), np.flatnonzero(columns)
    low, high = cell_bounds(rows, columns)
    free = (places[0].size - 1) * (places[1].size - 1)
    if free < 1 or (low == high).all():
        raise ValueError("only one table has these margins: there is nothing to walk over")
    _refuse_impossible(terms, low, high)
    sizes = 1 << np.arange(int((high - low).max()).bit_length())
    shape, flat_terms = (sampling.chains, rows.size, columns.size), terms.reshape(-1, terms.shape[-1])
    chain, sign = np.arange(sampling.chains)[:, None], np.array([1, 1, -1, -1])
    flat = random_tables(rows, columns, sampling.chains, generator).reshape(sampling.chains, -1)
    whole = None if together is None else _finite(together, flat.reshape(shape))
    tables = np.empty((sampling.draws, *flat.shape), dtype=np.int64)
    moves = _moves(*places, columns.size, sizes, sampling.chains, generator)
    for draw in range(-sampling.tune, sampling.draws):
        for _ in range(2 * free):
            cells, size, log_uniform = next(moves)
            old = flat[chain, cells]
            new = old + sign * size[:, None]
            possible = (new >= 0).all(1)
            new = np.where(possible[:, None], new, old)
            gain = (flat_terms[cells, new] - flat_terms[cells, old]).sum(1)
            proposed = flat.copy()
            proposed[chain, cells] = new
            if together is not None and whole is not None:
                there = _finite(together, proposed.reshape(shape))
                accepted = log_uniform < gain + there - whole
                whole = np.where(accepted, there, whole)
            else:
                accepted = log_uniform < gain
            flat = np.where(accepted[:, None], proposed, flat)
        if draw >= 0:
            tables[draw] = flat
    return np.ascontiguousarray(np.moveaxis(tables, 0, 1)).reshape(sampling.chains, sampling.draws, *shape[1:])


def _refuse_impossible(terms: Floats, low: Integers, high: Integers) -> None:
    count = np.arange(terms.shape[-1])
    inside = (count >= low[..., None]) & (count <= high[..., None])
    bad = np.argwhere(inside & ~np.isfinite(terms))
    if bad.size:
        i, j, x = bad[0].tolist()
        raise ValueError(_RULED_OUT.format(f"a count of {x} in cell ({i}, {j})"))


def _finite(together: LogWeight, tables: Integers) -> Floats:
    weight = np.asarray(together(tables), dtype=np.float64)
    if not np.isfinite(weight).all():
        raise ValueError(_RULED_OUT.format(f"the table {tables[np.argmin(np.isfinite(weight))].tolist()}"))
    return weight


def _moves(
    rows: Integers, columns: Integers, width: int, sizes: Integers, chains: int, rng: np.random.Generator
) -> Iterator[tuple[Integers, Integers, Floats]]:
    """Endless proposals: cells (chain, 4), two that gain and two that lose, the move's size, and a log uniform draw."""
    block = _BLOCK, chains
    while True:
        (i, k), (j, m) = _pairs(rows, block, rng), _pairs(columns, block, rng)
        cells = np.stack([i * width + j, k * width + m, i * width + m, k * width + j], axis=-1)
        yield from zip(cells, sizes[rng.integers(sizes.size, size=block)], np.log1p(-rng.random(block)), strict=True)


def _pairs(places: Integers, shape: tuple[int, int], rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Ordered pairs of different places, uniformly."""
    first = rng.integers(places.size, size=shape)
    second = (first + rng.integers(1, places.size, size=shape)) % places.size
    return places[first], places[second]
