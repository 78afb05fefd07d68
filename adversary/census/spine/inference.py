"""Every unit of a tree of counts read at once: its exact posterior, whole or in pieces, and priors learned from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, Integers, as_array, check_positive, check_whole
from adversary.census.spine.leaf_priors import LeafPrior, SharedRate, default_prior
from adversary.census.spine.problem import FAR_NATS, Likelihood, Message, align_labels, check_measurements
from adversary.census.spine.solution import CHUNK_TAU, TAU, Solution, map_threads, rise_one, solve
from adversary.census.spine.spine_posterior import SpinePosterior
from adversary.census.spine.tree import Tree
from adversary.privacy.mechanisms import Mechanism

LONGEST = 1 << 16


def likelihoods(
    tree: Tree,
    released: Any,
    rho: ArrayLike,
    noise: Mapping[str, Mechanism] | None,
    bounds: Bounded | None = None,
    whole: bool = True,
) -> tuple[list[Likelihood], bool]:
    """One `Likelihood` per cell, and whether there is one cell only.

    noise : mechanisms by name of a unit or of a level, in place of rho there; a unit's own comes before its level's
    bounds : least and largest counts, as `posterior` takes them
    """
    chosen = _by_unit(tree, noise or {})
    released, rho = align_labels(tree, released, rho)
    precision = as_array(rho)
    if chosen:
        shape = np.broadcast_shapes(np.shape(released), (len(tree),) + (1,) * (np.ndim(released) - 1))
        precision = precision[:, None] if precision.ndim == 1 and len(shape) == 2 else precision
        precision = np.broadcast_to(precision, shape).copy()
        for unit, mechanism in chosen.items():
            precision[unit] = mechanism.curvature if _is_discrete_gaussian(mechanism) else 1.0
    values, precision, single = check_measurements(tree, released, precision, whole)
    alpha = np.zeros_like(values)
    others = {}
    for unit, mechanism in chosen.items():
        if mechanism.laplace_rate and not mechanism.is_continuous:
            alpha[unit], precision[unit] = mechanism.laplace_rate, 0.0
        elif not _is_discrete_gaussian(mechanism):
            others[unit], precision[unit] = mechanism, 0.0
    low, high = _whole_bounds(tree, (0.0, np.inf) if bounds is None else bounds, values, precision)
    return [
        Likelihood(
            values[:, cell],
            precision[:, cell],
            alpha[:, cell],
            {unit: _table(str(tree.names[unit]), m, values[unit, cell]) for unit, m in sorted(others.items())},
            low[:, cell],
            high[:, cell],
        )
        for cell in range(values.shape[1])
    ], single


def _is_discrete_gaussian(mechanism: Mechanism) -> bool:
    """True where rho says everything about it, infinite of an exact count."""
    return mechanism.is_exact or (mechanism.parabola is not None and not mechanism.is_continuous)


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
    """(unit, cell) least and largest whole counts; ValueError naming a unit with none, or an exact count off them."""
    columns = [np.asarray(one, float) for one in bounds]
    given = [np.broadcast_to(one.reshape(len(tree), -1) if one.ndim else one, values.shape) for one in columns]
    low, high = np.maximum(np.ceil(given[0]), 0.0), np.floor(given[1])
    off = np.isinf(precision) & ((values < low) | (values > high))
    for wrong, rule in (
        (~((low <= high) & np.isfinite(low)), "no count of unit {name!r} lies within its bounds"),
        (off, "the exact count of unit {name!r}, {count:.0f}, lies outside its bounds"),
    ):
        if wrong.any():
            unit, cell = np.argwhere(wrong)[0]
            fault = rule.format(name=str(tree.names[unit]), count=values[unit, cell])
            raise ValueError(f"{fault}, [{given[0][unit, cell]:g}, {given[1][unit, cell]:g}]")
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

    Leaves have independent priors (given what they share), every other count is the sum of its children's, and units
    are measured as the noise allows. What is reported is the posterior given that every count lies on its window, and
    `truncation_bound` proves that the probability of anything else is no larger.

    Parameters
    ----------
    tree : the spine
    released : (unit,) or (unit, cell) whole noisy counts in the tree's order, or by name: a mapping, or an
        `xarray.DataArray` labelled over "unit"; NaN where not measured
    rho : the same shape, or one per unit: likelihood exp(-rho (released - x)^2), rho = 1 / (2 variance) of a discrete
        Gaussian; 0: not measured, infinite: exact
    prior : of the leaves; where not given, `SharedRate()`, for the whole tree where leaves stand beside units with
        children, and `Flat()` of a tree of one unit
    noise : other integer noise by name of level or unit: any `Mechanism` of integers (it replaces rho there)
    bounds : least and largest counts known without noise, as rho each; (0, infinite) where nothing is. Where they meet
        the count is exact
    messages : what subtrees that were cut off say about their tops, leaves of this tree; see `upward_message`
    outside : what the rest of a larger tree says about this tree's root; see `SpinePosterior.downward_message`
    tolerance : of the mass dropped; windows are widened up to twice to meet it
    tau : share of mass that one trim may drop, at first
    workers : threads; cells are shared out among them
    cells : labels of the cells, those of `released` where not given
    whole : refuse noisy counts that are not whole; False for estimates, such as `queries.effective_measurements`, whose
        Gaussian likelihood exp(-rho (released - x)^2) is read at whole counts x

    Returns
    -------
    SpinePosterior

    >>> from adversary.census.spine import Flat
    >>> tree = Tree.of({"group": None, "a": "group", "b": "group"})
    >>> found = posterior(tree, [1, 2, -1], [0.25, 0.1, 0.1], Flat())
    >>> found.mean.round(3).values.tolist()
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
    inside = [{name: _of_cell(m, i, count) for name, m in (messages or {}).items()} for i in range(count)]
    around = [None if outside is None else _of_cell(outside, i, count) for i in range(count)]
    one = partial(_solve, tree, prior, tolerance, tau)
    solutions = map_threads(one, list(zip(like, inside, around, strict=True)), workers)
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

    The first of two passes over a tree in pieces: `upward_message` every piece, give the messages to `posterior` of the
    tree above, and each piece's `downward_message` of that to `posterior` of the piece. The top's own measurement is
    left out here and belongs in both.

    Parameters
    ----------
    tree : the subtree
    released : (unit,) or (unit, cell) whole noisy counts, as for `posterior`; NaN where not measured
    rho : the same shape, or one per unit: 1 / (2 variance) of the noise; 0: not measured, infinite: exact
    prior : of the leaves; as in `posterior` where not given
    noise : other integer noise by name of level or unit, in place of rho there
    bounds : least and largest counts known without noise, as in `posterior`
    tau : share of mass that one trim of a window may drop
    whole : refuse noisy counts that are not whole; False for estimates, as in `posterior`

    Returns
    -------
    Message, or a tuple of one per cell where `released` has cells
    """
    prior = default_prior(tree, {}) if prior is None else prior
    like, single = likelihoods(tree, released, rho, noise, bounds, whole)
    messages = tuple(rise_one(tree, one, prior, tau) for one in like)
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

    Each round replaces the weights by their average posterior weights, over the units within which a rate is shared and
    over cells; where all counts are settled there is no draw of a rate, and nothing to average.

    Parameters
    ----------
    tree : the spine
    released : (unit,) or (unit, cell) whole noisy counts, as for `posterior`
    rho : the same shape, or one per unit: 1 / (2 variance) of the noise
    prior : where EM starts; `SharedRate()` unless given
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


def _of_cell(message: Message | Sequence[Message], cell: int, cells: int) -> Message:
    if isinstance(message, Message):
        if cells != 1:
            raise ValueError(f"messages must be one for each of the {cells} cells")
        return message
    if len(message) != cells:
        raise ValueError(f"messages must be one for each of the {cells} cells, got {len(message)}")
    return message[cell]


def _solve(tree: Tree, prior: LeafPrior, tolerance: float, tau: float, cell: Any) -> Solution:
    like, messages, outside = cell
    return solve(tree, like, prior, messages, outside, tolerance, tau)
