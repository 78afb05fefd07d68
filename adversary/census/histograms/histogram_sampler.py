"""MCMC sampling of the joint posterior of all histograms of a small tree, such as a block group, given all queries.

The only approximation is Monte Carlo error: counts are whole and non-negative, units add up, every answer has discrete
Gaussian noise or is exact. One step changes a few cells only, so its cost is proportional to the number of queries. The
adversary's posterior about the target is the average of exact conditional probabilities given everybody else (a
Rao-Blackwell estimate).

The sampler is the slow check of `effective_measurements` in the spine. The table has the absolute error of the
posterior probability that somebody is in a cell of a block, mean and largest, against the sampled one: prior 0.5, four
blocks of 2 x 2 cells under a block group, 60 to 100 synthetic groups at each mean count of a cell. Queries: total, both
axes, detailed, at both levels; either with the 2020 budget of TOTAL, VOTINGAGE, HISPANIC and the detailed query, or
with the level's whole budget in equal parts.

==========  ==========================  ==========================  ==========================  =====================
people per  2020: effective             2020: detailed query alone  equal parts: effective      equal parts: detailed
cell
==========  ==========================  ==========================  ==========================  =====================
0.1         0.058, 0.203                0.076, 0.266                0.076, 0.318                0.120, 0.448
0.3         0.041, 0.214                0.059, 0.251                0.062, 0.263                0.103, 0.386
1           0.019, 0.077                0.031, 0.117                0.039, 0.199                0.065, 0.260
3           0.006, 0.044                0.012, 0.061                0.028, 0.094                0.046, 0.193
10          0.002, 0.007                0.005, 0.022                0.015, 0.073                0.029, 0.156
==========  ==========================  ==========================  ==========================  =====================

Effective measurements recover a quarter to two thirds of the information that one query misses. They ignore that other
cells are non-negative, which can be worth more than 10 percentage points if a cell holds fewer than about two people on
average; `neglected` bounds this from the variances alone.

Non-negativity matters most for sums of many cells. In a block group of twelve blocks of 0 to 62 people, with the eleven
person queries of 2020 and 2,016 cells, nearly all empty, the standard deviation of a block's total is 22 to 55 people
from one query, 18 to 45 from effective measurements, and 4 to 7 sampled. Means of detailed cells differ by 0.3 people
on average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, Integers, call, check_probability, check_whole, diagnose, logit
from adversary.adversaries.tables.answers import Answers, check_answers
from adversary.adversaries.tables.effective import effective_measurements
from adversary.adversaries.tables.query import Query, flat_cell
from adversary.census.spine import LeafPrior, SharedRate, Tree

# Increasing precisions (rho) with which exact answers are softened, to anneal towards a histogram that satisfies them.
RAMP = (0.02, 0.1, 0.5, 2.0, 10.0, 50.0)


def sample_histograms(
    tree: Tree,
    queries: Sequence[Query],
    released: Mapping[str, ArrayLike],
    variance: Mapping[str, ArrayLike],
    prior: LeafPrior | None = None,
    *,
    target: str | None = None,
    present: Any = None,
    absent: Any = None,
    target_prior: float = 0.5,
    known: ArrayLike | None = None,
    cells: Any = "all",
    draws: int = 2000,
    burn: int = 500,
    chains: int = 4,
    rng: Any = None,
) -> Any:
    """Draw the histograms of all leaves given all queries of all units, by Gibbs sampling.

    Parameters
    ----------
    tree : the units; counts of a unit are the sums of its children's
    queries : marginals of one histogram
    released, variance : by name of the query, (unit, row) answers and variances, in the tree's order, as for
        `effective_measurements`. Of any two exact queries, one must be a coarsening of the other
    prior : of the count of every cell in every leaf; default `SharedRate()`: each cell has a rate of its own in each
        parent of leaves, which counts that exact answers determine do not share. A Poisson or negative binomial prior
        may have a parameter for each (leaf, cell), flat in that order
    target : leaf of the target, a person who is not part of the counts under the prior; None: no target
    present, absent : cell of the target if in and if out, flat or with an index per axis; absent None: not counted
    target_prior : prior probability of "in"
    known : (cell,) everybody else in the target's leaf, if the adversary knows them; None: not known
    cells : cells whose counts are recorded; flat, or with an index per axis; or "all"
    draws, burn : recorded sweeps per chain, and sweeps before them
    chains : number of chains
    rng : seed or numpy Generator

    Returns
    -------
    Dataset of `histogram` (chain, draw, unit, cell): people in the leaves, including the target. With a target, also
    `in` (chain, draw); `in_given_others` (chain, draw), the exact probability given everybody else; their average
    `posterior`, its Monte Carlo standard error `mcse`, `r_hat`, and `log_bayes_factor`.

    Raises
    ------
    ValueError : arguments that do not fit together; a listed prior; exact answers that are not nested, or for which
        the search ended without a histogram that satisfies them

    >>> from adversary.census.spine import Poisson
    >>> tree, query = Tree.of({"block": None}), Query("detailed", ((0, 1),))
    >>> sample = sample_histograms(
    ...     tree, [query], {"detailed": [[3, 0]]}, {"detailed": 2.0}, Poisson(0.5), target="block", present=0, rng=1
    ... )
    >>> abs(sample["posterior"].item() - 0.6871) < 0.01
    True
    """
    import xarray as xr

    given = check_answers(queries, released, variance)
    if given.variance.shape[0] != len(tree):
        raise ValueError(f"released must have the tree's {len(tree)} units, got {given.variance.shape[0]}")
    all_cells = isinstance(cells, str) and cells == "all"
    cells_given = (
        range(given.queries[0].rows.size) if all_cells else cells if isinstance(cells, list | range) else [cells]
    )
    kept_cells = np.array([flat_cell(cell, given.shape) for cell in cells_given], dtype=np.int64)
    if target is not None and present is None:
        raise ValueError("present must be the target's cell if in")
    target_leaf = -1 if target is None else int(np.searchsorted(tree.leaves, tree.index(target)))
    if target is not None and (target_leaf >= tree.leaves.size or tree.leaves[target_leaf] != tree.index(target)):
        raise ValueError(f"target must be in a leaf, {target!r} has children")
    target_cells = [-1 if cell is None else flat_cell(cell, given.shape) for cell in (present, absent)]
    if target is not None and target_cells[0] == target_cells[1]:
        raise ValueError(f"present and absent must be two cells, got {present} and {absent}")
    odds = float(logit(float(check_probability("target_prior", target_prior))))
    problem = _problem(
        tree, given, SharedRate() if prior is None else prior, target_leaf, target_cells, odds, known is not None
    )
    count, size = tree.leaves.size, given.queries[0].rows.size
    others = np.zeros((0,), dtype=np.int64)
    if known is not None:
        others = check_whole("known", known, minimum=0).ravel()
        if target_leaf < 0 or others.size != size:
            raise ValueError(f"known must be ({size},), everybody else in the target's leaf, got shape {others.shape}")
    chain_count, draw_count, burn_count = (
        int(check_whole(name, value, minimum=low))
        for name, value, low in (("chains", chains, 1), ("draws", draws, 1), ("burn", burn, 0))
    )
    start = _starting_histogram(tree, given)
    results = []
    for seed in np.random.default_rng(rng).spawn(chain_count):
        x = start.copy()
        if known is not None:
            x[target_leaf] = others
        results.append(
            _run_chain(tree, given, problem, x.reshape(count, size), draw_count, burn_count, kept_cells, seed)
        )
    counts, states, probability_in = (np.stack(part) for part in zip(*results, strict=True))
    labels = {"unit": tree.names[tree.leaves], "cell": kept_cells}
    sample = xr.Dataset({"histogram": (("chain", "draw", "unit", "cell"), counts)}, labels)
    if target is None:
        return sample
    mean, diagnosis = float(probability_in.mean()), diagnose(probability_in[:, :, None])
    columns = {
        "posterior": mean,
        "mcse": diagnosis.mcse[0],
        "r_hat": diagnosis.r_hat[0],
        "log_bayes_factor": logit(mean) - odds,
    }
    chains_of = {"in": (("chain", "draw"), states), "in_given_others": (("chain", "draw"), probability_in)}
    return sample.assign({**chains_of, **{name: ((), float(value)) for name, value in columns.items()}})


def _problem(
    tree: Tree, given: Answers, prior: LeafPrior, target_leaf: int, target_cells: Any, odds: float, known: bool
) -> Any:
    """Input of the compiled sampler; ValueError for priors or exact answers that it does not support."""
    from adversary.census.histograms.compiled import LineProblem
    from adversary.census.spine.leaf_priors import sharing_units

    leaves, shape, size = tree.leaves, given.shape, given.queries[0].rows.size
    distributions = prior.distributions(leaves.size * size)
    if distributions.pmf is not None:
        raise ValueError(f"prior must be Flat, Poisson, NegativeBinomial or SharedRate, got {prior!r}")
    exact = given.variance == 0.0
    _check_nested([query for query, any_exact in zip(given.queries, exact.any(axis=0), strict=True) if any_exact])
    group = np.zeros((leaves.size, size), dtype=np.int64)
    rates = (np.zeros(0), np.zeros(0), np.zeros(0))
    if isinstance(prior, SharedRate):
        group = sharing_units(tree, prior, {})[:, None] * size + np.arange(size)
        determined = _determined(tree, given)
        group[determined] = len(tree) * size + np.arange(determined.sum())  # each has a rate of its own
        rates = (prior.eta, prior.log_weight, prior.log_norm)
    group, leaves_sharing = np.unique(group, return_inverse=True, return_counts=True)[1:]
    with np.errstate(divide="ignore"):
        rho = np.where(exact, 0.0, 0.5 / given.variance)
    first = np.cumsum([0, *(query.size for query in given.queries[:-1])])
    fixed = np.zeros(leaves.size, dtype=np.bool_)
    if known and target_leaf >= 0:
        fixed[target_leaf] = True
    return LineProblem(
        np.stack([query.rows + f for query, f in zip(given.queries, first, strict=True)]),
        np.indices(shape).reshape(len(shape), -1),
        np.array([int(np.prod(shape[a + 1 :])) for a in range(len(shape))], dtype=np.int64),
        _ancestor_paths(tree),
        rho,
        exact,
        distributions.slope.reshape(-1, size),
        distributions.start.reshape(-1, size),
        rates[0],
        rates[1],
        rates[2],
        group.reshape(leaves.size, size),
        leaves_sharing,
        fixed,
        target_leaf,
        target_cells[0],
        target_cells[1],
        odds,
    )


def _ancestor_paths(tree: Tree) -> Integers:
    """(leaf, depth) indices of a leaf and all units above it, -1 beyond the root."""
    path = [tree.leaves]
    while (path[-1] > 0).any():
        path.append(np.where(path[-1] > 0, tree.parent[np.maximum(path[-1], 0)], -1))
    return np.ascontiguousarray(np.stack(path, axis=1))


def _determined(tree: Tree, given: Answers) -> Any:
    """(leaf, cell) True where exact answers determine a count, by iterated propagation of limits between entries."""
    low, high = np.zeros((2, tree.leaves.size, given.queries[0].rows.size))
    high[:] = np.inf
    below, exact = tree.sums(np.eye(tree.leaves.size)) > 0, np.argwhere(given.variance == 0.0)
    last_sums = np.full(2, np.nan)
    while (last_sums != (new_sums := np.array([low.sum(), high[np.isfinite(high)].sum()]))).any():
        last_sums = new_sums
        for unit, number in exact:
            leaves_below, rows = below[unit], given.queries[number].rows
            answer = given.released[number][unit][rows]
            least = np.bincount(rows, low[leaves_below].sum(axis=0))[rows]
            high[leaves_below] = np.minimum(high[leaves_below], answer - (least - low[leaves_below]))
            most = np.bincount(rows, high[leaves_below].sum(axis=0))[rows]
            low[leaves_below] = np.maximum(low[leaves_below], answer - (most - high[leaves_below]))
        if (low > high).any():
            raise ValueError("no histogram was found that satisfies the exact answers")
    return low == high


def _check_nested(queries: Sequence[Query]) -> None:
    """ValueError unless one of every two queries is a coarsening of the other.

    Between exact answers that are not nested, the lines of the sampler might not connect all histograms.
    """
    for i, one in enumerate(queries):
        for other in queries[:i]:
            pairs = np.unique(np.stack([one.rows, other.rows]), axis=1).shape[1]
            if pairs > max(one.size, other.size):
                raise ValueError(f"exact queries must be nested, {other.name!r} and {one.name!r} are not")


def _starting_histogram(tree: Tree, given: Answers) -> Integers:
    """(leaf, cell) least squares estimates of every leaf by itself, rounded, at least 0; 0 where undetermined."""
    released = {query.name: y[tree.leaves] for query, y in zip(given.queries, given.released, strict=True)}
    variance = {query.name: v[tree.leaves] for query, v in zip(given.queries, given.variance.T, strict=True)}
    combined = effective_measurements(given.queries, released, variance)
    estimate: Floats = np.nan_to_num(combined["estimate"].values)
    return np.rint(np.maximum(estimate, 0.0)).astype(np.int64)


def _run_chain(tree: Tree, given: Answers, problem: Any, x: Any, draws: int, burn: int, cells: Any, rng: Any) -> Any:
    """Run one chain, after annealing to a histogram that satisfies the exact answers."""
    from adversary.census.histograms.compiled import sample_chain

    is_in = bool(rng.random() < 0.5) and problem.leaf >= 0
    people = x.astype(np.float64)
    cell = problem.present if is_in else problem.absent
    if problem.leaf >= 0 and cell >= 0:
        people[problem.leaf, cell] += 1
    units = tree.sums(people)
    gap = np.concatenate([y - q.answer(units) for q, y in zip(given.queries, given.released, strict=True)], axis=1)
    if problem.exact.any():
        no_exact = np.zeros_like(problem.exact)
        for precision in RAMP:
            softened = problem._replace(rho=np.where(problem.exact, precision, problem.rho), exact=no_exact)
            _, states, _ = call(sample_chain, softened, x, gap, is_in, 20, 0, cells[:0], rng)
            is_in = bool(states[-1])
        widths = [query.size for query in given.queries]
        if np.any(gap[np.repeat(problem.exact, widths, axis=1)]):
            raise ValueError("no histogram was found that satisfies the exact answers")
    return call(sample_chain, problem, x, gap, is_in, draws, burn, cells, rng)
