"""Exact posterior of a tree of counts, whole or in pieces, and empirical Bayes estimates of its prior."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, Integers, as_array, check_positive, check_whole
from adversary.census.spine.leaf_priors import LeafPrior, SharedRate, default_prior
from adversary.census.spine.problem import FAR_NATS, Likelihood, Message, align_labels, check_measurements
from adversary.census.spine.solution import CHUNK_TAU, TAU, Solution, map_threads, solve, upward_message_of_cell
from adversary.census.spine.spine_posterior import SpinePosterior
from adversary.census.spine.tree import Tree
from adversary.privacy.mechanisms import Mechanism

# Largest count up to which a likelihood is listed, for noise other than discrete Gaussian and geometric.
LONGEST = 1 << 16


def likelihoods(
    tree: Tree,
    released: Any,
    rho: ArrayLike,
    noise: Mapping[str, Mechanism] | None,
    bounds: Bounded | None = None,
    whole: bool = True,
) -> tuple[list[Likelihood], bool]:
    """One `Likelihood` per cell, and True if the counts have no cell dimension. Arguments as for `posterior`.

    noise : mechanisms by name of a unit or level, in place of rho there; a unit's own replaces its level's
    """
    mechanisms = _mechanism_by_unit(tree, noise or {})
    released, rho = align_labels(tree, released, rho)
    precision = as_array(rho)
    if mechanisms:
        shape = np.broadcast_shapes(np.shape(released), (len(tree),) + (1,) * (np.ndim(released) - 1))
        precision = precision[:, None] if precision.ndim == 1 and len(shape) == 2 else precision
        precision = np.broadcast_to(precision, shape).copy()
        for unit, mechanism in mechanisms.items():
            precision[unit] = mechanism.curvature if _is_discrete_gaussian(mechanism) else 1.0
    values, precision, single = check_measurements(tree, released, precision, whole)
    alpha = np.zeros_like(values)
    tabulated = {}
    for unit, mechanism in mechanisms.items():
        if mechanism.laplace_rate and not mechanism.is_continuous:
            alpha[unit], precision[unit] = mechanism.laplace_rate, 0.0
        elif not _is_discrete_gaussian(mechanism):
            tabulated[unit], precision[unit] = mechanism, 0.0
    low, high = _whole_bounds(tree, (0.0, np.inf) if bounds is None else bounds, values, precision)
    return [
        Likelihood(
            values[:, cell],
            precision[:, cell],
            alpha[:, cell],
            {
                unit: _log_likelihood_table(str(tree.names[unit]), m, values[unit, cell])
                for unit, m in sorted(tabulated.items())
            },
            low[:, cell],
            high[:, cell],
        )
        for cell in range(values.shape[1])
    ], single


def _is_discrete_gaussian(mechanism: Mechanism) -> bool:
    """True if the mechanism is discrete Gaussian or exact, so that rho describes it completely."""
    return mechanism.is_exact or (mechanism.parabola is not None and not mechanism.is_continuous)


def _mechanism_by_unit(tree: Tree, noise: Mapping[str, Mechanism]) -> dict[int, Mechanism]:
    """Mechanism by index of unit; a unit's own replaces its level's."""
    levels: dict[int, Mechanism] = {}
    units: dict[int, Mechanism] = {}
    for name, mechanism in noise.items():
        if not isinstance(mechanism, Mechanism):
            raise TypeError(f"noise of {name!r} must be a Mechanism, got {mechanism!r}")
        if name in tree.levels:
            units_of_level: Integers = np.flatnonzero(tree.level == tree.levels.index(name))
            levels |= dict.fromkeys(units_of_level.tolist(), mechanism)
        else:
            units[int(tree.index(name))] = mechanism
    return levels | units


def _log_likelihood_table(name: str, mechanism: Mechanism, released: float) -> Floats:
    """Log likelihood of the counts 0, 1, ... up to the largest possible one; ValueError if there are too many."""
    reach = mechanism.tail_radius(FAR_NATS)
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


def _whole_bounds(tree: Tree, bounds: Bounded, values: Floats, precision: Floats) -> tuple[Floats, Floats]:
    """(unit, cell) bounds rounded to whole counts; ValueError naming a unit with none, or an exact count outside."""
    columns = [np.asarray(one, float) for one in bounds]
    stated = [np.broadcast_to(one.reshape(len(tree), -1) if one.ndim else one, values.shape) for one in columns]
    low, high = np.maximum(np.ceil(stated[0]), 0.0), np.floor(stated[1])
    outside = np.isinf(precision) & ((values < low) | (values > high))
    for wrong, rule in (
        (~((low <= high) & np.isfinite(low)), "no count of unit {name!r} lies within its bounds"),
        (outside, "the exact count of unit {name!r}, {count:.0f}, lies outside its bounds"),
    ):
        if wrong.any():
            unit, cell = np.argwhere(wrong)[0]
            fault = rule.format(name=str(tree.names[unit]), count=values[unit, cell])
            raise ValueError(f"{fault}, [{stated[0][unit, cell]:g}, {stated[1][unit, cell]:g}]")
    return low, high


Bounded = tuple[ArrayLike, ArrayLike]
Messages = Mapping[str, Message | Sequence[Message]]


def posterior(
    tree: Tree,
    released: ArrayLike,
    rho: ArrayLike = 0.0,
    prior: LeafPrior | None = None,
    *,
    noise: Mapping[str, Any] | None = None,
    bounds: Bounded | None = None,
    messages: Messages | None = None,
    outside: Message | Sequence[Message] | None = None,
    tolerance: float = 1e-10,
    tau: float = TAU,
    workers: int = 1,
    cells: Sequence[Any] | None = None,
    whole: bool = True,
) -> SpinePosterior:
    r"""The exact posterior of every count of a tree, by sum-product on tilted windows.

    Leaves have independent priors (given a shared rate, if any), every other count is the sum of its children's, and
    any unit may have a noisy measurement. Counts are truncated to windows: the result is the posterior given that every
    count lies on its window, and `truncation_bound` bounds the probability of the complement.

    Parameters
    ----------
    tree : the spine
    released : (unit,) or (unit, cell) whole noisy counts in the tree's order, or by name: a mapping, or an
        `xarray.DataArray` labelled over "unit"; NaN where not measured
    rho : the same shape, or one per unit: likelihood exp(-rho (released - x)^2), rho = 1 / (2 variance) of a discrete
        Gaussian; 0: not measured, infinite: exact
    prior : of the leaves; default `SharedRate()`, with one rate for the whole tree if some leaves have siblings with
        children, and `Flat()` for a tree of one unit
    noise : other integer noise by name of level or unit: any `Mechanism` of integers (it replaces rho there)
    bounds : (smallest, largest) counts known without noise, each shaped like rho; 0 and infinite if unknown. A count is
        exact if the two are equal
    messages : upward messages of separate subtrees, by name of their tops, which are leaves here; see `upward_message`
    outside : message of the rest of a larger tree to this tree's root; see `SpinePosterior.downward_message`
    tolerance : largest truncation bound for status "ok"; windows are widened up to twice to reach it
    tau : share of mass that one trim of a window may drop in the first attempt
    workers : number of threads, over cells
    cells : labels of the cells; default those of `released`
    whole : refuse noisy counts that are not whole; False for estimates, such as `queries.effective_measurements`, whose
        Gaussian likelihood exp(-rho (released - x)^2) is read at whole counts x

    Returns
    -------
    SpinePosterior

    >>> from adversary.census.spine import Flat
    >>> tree = Tree.of({"group": None, "a": "group", "b": "group"})
    >>> counts = posterior(tree, [1, 2, -1], [0.25, 0.1, 0.1], Flat())
    >>> counts.mean.round(3).values.tolist()
    [1.756, 1.196, 0.56]
    """
    prior = default_prior(tree, messages or {}) if prior is None else prior
    like, single = likelihoods(tree, released, rho, noise, bounds, whole)
    if cells is None and "cell" in getattr(released, "coords", ()):
        cells = released.coords["cell"].values.tolist()  # type: ignore[union-attr]
    count = len(like)
    if cells is not None and len(cells) != count:
        raise ValueError(f"cells must name all {count} cells, got {len(cells)}")
    check_positive("tolerance", tolerance)
    check_positive("tau", tau)
    cell_messages = [
        {name: _message_of_cell(m, i, count) for name, m in (messages or {}).items()} for i in range(count)
    ]
    cell_outside = [None if outside is None else _message_of_cell(outside, i, count) for i in range(count)]
    solve_cell = partial(_solve, tree, prior, tolerance, tau)
    solutions = map_threads(solve_cell, list(zip(like, cell_messages, cell_outside, strict=True)), workers)
    return SpinePosterior(tree, prior, tuple(solutions), tolerance, single, None if cells is None else tuple(cells))


def upward_message(
    tree: Tree,
    released: ArrayLike,
    rho: ArrayLike = 0.0,
    prior: LeafPrior | None = None,
    *,
    noise: Mapping[str, Any] | None = None,
    bounds: Bounded | None = None,
    tau: float = CHUNK_TAU,
    whole: bool = True,
) -> Any:
    """Upward message of a subtree: the likelihood of its top's count, for the tree in which that top is a leaf.

    To solve a tree in pieces: compute the `upward_message` of every piece; pass them as `messages` to `posterior` of
    the tree above the pieces; pass that posterior's `downward_message` for each piece as `outside` to `posterior` of
    the piece. The top's own measurement is left out of both messages, and is given in both calls of `posterior`.

    Parameters
    ----------
    tree : the subtree
    released : (unit,) or (unit, cell) whole noisy counts, as for `posterior`; NaN where not measured
    rho : the same shape, or one per unit: 1 / (2 variance) of the noise; 0: not measured, infinite: exact
    prior : of the leaves; default as in `posterior`
    noise : other integer noise by name of level or unit, in place of rho there
    bounds : smallest and largest counts known without noise, as in `posterior`
    tau : share of mass that one trim of a window may drop
    whole : refuse noisy counts that are not whole; False for estimates, as in `posterior`

    Returns
    -------
    Message, or a tuple of one per cell where `released` has cells
    """
    prior = default_prior(tree, {}) if prior is None else prior
    like, single = likelihoods(tree, released, rho, noise, bounds, whole)
    messages = tuple(upward_message_of_cell(tree, one, prior, tau) for one in like)
    return messages[0] if single else messages


def fit_rate_prior(
    tree: Tree,
    released: ArrayLike,
    rho: ArrayLike = 0.0,
    prior: SharedRate | None = None,
    rounds: int = 8,
    **options: Any,
) -> SharedRate:
    """Empirical Bayes: fit the weights of a shared rate's prior to the release, by the EM algorithm.

    Each step replaces the weights by the posterior weights, averaged over cells and over the units within which a rate
    is shared. Units all of whose leaves have exact counts do not enter.

    Parameters
    ----------
    tree : the spine
    released : (unit,) or (unit, cell) whole noisy counts, as for `posterior`
    rho : the same shape, or one per unit: 1 / (2 variance) of the noise
    prior : start of EM; default `SharedRate()`
    rounds : number of EM steps, >= 0
    options : further arguments of `posterior`

    Returns
    -------
    SharedRate with the same rates and new weights
    """
    prior = SharedRate() if prior is None else prior
    for _ in range(int(check_whole("rounds", rounds, minimum=0))):
        rows = posterior(tree, released, rho, prior, **options).rate_weights().reshape(-1, prior.eta.size)
        rows = rows[np.isfinite(rows).all(axis=1)]
        prior = prior.weighted(rows.mean(axis=0)) if rows.size else prior
    return prior


def _message_of_cell(message: Message | Sequence[Message], cell: int, cells: int) -> Message:
    """Message of one cell, from one message or one per cell."""
    if isinstance(message, Message):
        if cells != 1:
            raise ValueError(f"messages must be one for each of the {cells} cells")
        return message
    if len(message) != cells:
        raise ValueError(f"messages must be one for each of the {cells} cells, got {len(message)}")
    return message[cell]


def _solve(tree: Tree, prior: LeafPrior, tolerance: float, tau: float, cell: Any) -> Solution:
    """`solve` for one cell: a tuple of likelihood, upward messages and downward message."""
    like, messages, outside = cell
    return solve(tree, like, prior, messages, outside, tolerance, tau)
