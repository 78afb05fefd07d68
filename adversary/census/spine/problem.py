"""What is known about a tree of counts: measurements and leaf priors, checked and laid out for the compiled code.

Exact totals and bounds are carried through the tree first: every unit gets the smallest and largest count that any
solution of them allows, so that a subtree under an exact zero is all zeros before any inference, and totals that no
counts satisfy are named. A leaf that has one count left is settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversary._core import Floats, as_array, refuse_rounded
from adversary.census.spine.leaf_priors import LeafLaws, LeafPrior, SharedRate, sharing_units
from adversary.census.spine.tree import Tree, in_order

if TYPE_CHECKING:
    from adversary.census.spine.compiled import Layout

VARIANCES = (1e-12, 1e10)
"""Least and largest variance of a measurement: beyond, it is one of an exact count, or as good as none."""
UNBOUNDED = 1 << 61


@dataclass(frozen=True, eq=False)
class Message:
    """What a subtree says about the count of its top, as a table: in(x) without the top's own measurement.

    in(lowest + k) = values[k] exp(tilt (lowest + k) + log_scale); `truncation_bound` bounds what is left out of
    `values`, as a share of their sum. A message from outside has the same form, its top's measurement left out too.
    """

    lowest: int
    values: Floats
    tilt: float
    log_scale: float = 0.0
    truncation_bound: float = 0.0
    bounds: tuple[float, float] = (0.0, np.inf)
    """Smallest and largest count that exact totals allow."""
    around: tuple[int, Floats, Floats, float] | None = None
    """Of a message from outside, for membership: the same on a wider window up to a constant, as its lowest count,
    values, bounds on what they lack, and a bound on all values beyond.
    """


class Likelihood(NamedTuple):
    """One cell: noisy counts (NaN: none), discrete Gaussian rho (inf: exact), geometric alpha, tables of others, and
    least and largest counts known without noise.
    """

    released: Floats
    rho: Floats
    alpha: Floats
    tables: dict[int, Floats]
    low: Floats
    high: Floats


class Limits(NamedTuple):
    """(unit,) smallest and largest counts: of all information; of everything outside the unit only; of a leaf alone."""

    low: Floats
    high: Floats
    outer_low: Floats
    outer_high: Floats
    own_low: Floats
    own_high: Floats


def plausible(variance: Floats) -> NDArray[np.bool_]:
    """Mask of noise variances that the solver accepts: within `VARIANCES`, 0 (an exact count) or infinite (unmeasured).

    Parameters
    ----------
    variance : squared counts, >= 0, any shape

    Returns
    -------
    bool array of the same shape

    >>> plausible(np.array([0.0, 1.0, np.inf])).tolist()
    [True, True, True]
    """
    within = (VARIANCES[0] * (1 - 1e-9) <= variance) & (variance <= VARIANCES[1] * (1 + 1e-9))
    return np.asarray(within | (variance == 0) | np.isinf(variance))


def align_labels(tree: Tree, released: Any, rho: ArrayLike) -> tuple[Any, Any]:
    """Put labelled counts and rho in the order of the tree's units, and the cells of rho in that of the counts.

    Parameters
    ----------
    tree : the spine
    released : (unit,) or (unit, cell) noisy counts: an array in the tree's order, a mapping or Series by unit name, or
        a DataArray labelled over "unit"
    rho : the same, or one per unit

    Returns
    -------
    (released, rho), both in the tree's order; unlabelled arrays as they are

    Raises
    ------
    ValueError : a unit or cell that is missing, unknown or doubled
    """
    released, rho = in_order(tree.names, released, "released"), in_order(tree.names, rho, "rho")
    if all("cell" in getattr(values, "coords", ()) for values in (released, rho)):
        rho = in_order(released["cell"].values, rho, "rho", "cell").transpose("unit", ...)
    return released, rho


def check_measurements(tree: Tree, released: Any, rho: ArrayLike, whole: bool = True) -> tuple[Floats, Floats, bool]:
    """(unit, cell) noisy counts and rho, and whether there is one cell only; ValueError naming the unit.

    rho must be 0 where nothing was measured, infinite where the count is exact, and otherwise of a variance within
    `VARIANCES`; counts must be whole where they were measured (if not `whole`, where exact), and not negative where
    they are exact.
    """
    counts, rho = align_labels(tree, released, rho)
    if whole:
        refuse_rounded("released", counts)
    values, precision = as_array(counts), as_array(rho)
    if values.ndim not in (1, 2) or values.shape[0] != len(tree):
        raise ValueError(f"released must be (unit,) or (unit, cell) with {len(tree)} units, got shape {values.shape}")
    single = values.ndim == 1
    if precision.ndim < values.ndim and precision.shape in ((), (len(tree),)):
        precision = precision[..., None] if precision.ndim and not single else precision
    try:
        precision = np.broadcast_to(precision, values.shape)
    except ValueError:
        raise ValueError(
            f"rho must be as released, {values.shape}, or one number per unit, got {precision.shape}"
        ) from None
    values, precision = (np.array(a.reshape(len(tree), -1)) for a in (values, precision))
    _refuse(tree, np.isnan(precision) | (precision < 0), precision, "rho", "must be non-negative")
    measured = precision > 0
    rule = "must be 0 (not measured), infinite (exact), or 1 / (2 variance) of a variance within [{:g}, {:g}]"
    with np.errstate(divide="ignore"):
        _refuse(tree, measured & ~plausible(0.5 / precision), precision, "rho", rule.format(*VARIANCES))
    within = np.isfinite(values) & (np.abs(values) < 2.0**53)
    fits = within & ((values == np.rint(values)) | (np.isfinite(precision) & (not whole)))
    _refuse(tree, measured & ~fits, values, "the noisy count", "must be a whole number between -2^53 and 2^53")
    _refuse(tree, np.isinf(precision) & (values < 0), values, "the exact count", "must be at least 0")
    return np.where(measured, values, np.nan), precision, single


def _refuse(tree: Tree, wrong: Any, values: Floats, what: str, rule: str) -> None:
    if wrong.any():
        unit, cell = (int(i[0]) for i in np.nonzero(wrong))
        raise ValueError(f"{what} of unit {str(tree.names[unit])!r} {rule}, got {values[unit, cell]}")


def feasible(
    tree: Tree, least: Floats, most: Floats, low: Floats, high: Floats, limits: tuple[float, float] = (0.0, np.inf)
) -> Limits:
    """Counts that exact totals and bounds leave possible, from the limits of the leaves; ValueError where none are.

    Up: a unit's limits are the sums of its children's, within its own. Down: what a child can have is what its parent
    can have without the others; `limits` is what the root can have.

    least, most : known of each unit without noise, one and the same where its count is exact
    low, high : of leaves, what their laws allow
    """
    own_low, own_high = low, high
    low, high, n = low.copy(), high.copy(), len(tree)
    total_low, total_high, endless = np.zeros(n), np.zeros(n), np.zeros(n)
    for level in reversed(tree.generations):
        inner = tree.children[level] > 0
        low[level] = np.where(inner, total_low[level], low[level])
        high[level] = np.where(inner, np.where(endless[level] > 0, np.inf, total_high[level]), high[level])
        wrong = (most[level] < low[level]) | (least[level] > high[level])
        if wrong.any():
            unit = level.start + int(np.flatnonzero(wrong)[0])
            ends = f"{least[unit]:.0f}" + f" to {most[unit]:.0f}" * bool(least[unit] < most[unit])
            raise ValueError(
                f"no count vector satisfies the exact totals of {str(tree.names[unit])!r}: it is {ends}, "
                f"and what lies in it holds between {low[unit]:.0f} and {high[unit]:.0f}"
            )
        low[level], high[level] = np.maximum(low[level], least[level]), np.minimum(high[level], most[level])
        if level.start > 0:
            parent = tree.parent[level]
            total_low += np.bincount(parent, low[level], n)
            total_high += np.bincount(parent, np.where(np.isinf(high[level]), 0.0, high[level]), n)
            endless += np.bincount(parent, np.isinf(high[level]), n)
    outer_low, outer_high = np.zeros(n), np.full(n, np.inf)
    outer_low[0], outer_high[0] = limits
    for level in tree.generations[1:]:
        parent = tree.parent[level]
        limit = np.maximum(least, outer_low)[parent], np.minimum(most, outer_high)[parent]
        others_high = total_high[parent] - np.where(np.isinf(high[level]), 0.0, high[level])
        others_endless = endless[parent] - np.isinf(high[level])
        outer_low[level] = np.where(others_endless > 0, 0.0, np.maximum(limit[0] - others_high, 0.0))
        outer_high[level] = limit[1] - (total_low[parent] - low[level])
    low, high = np.maximum(low, outer_low), np.minimum(high, outer_high)
    return Limits(low, high, outer_low, outer_high, own_low, own_high)


def layout(
    tree: Tree, like: Likelihood, prior: LeafPrior, messages: Mapping[str, Message], outside: Message | None
) -> tuple[Layout, Limits]:
    """One cell as arrays for the compiled code, with what exact totals leave possible."""
    from adversary.census.spine.compiled import RATE, UNIT, Layout

    n, leaves = len(tree), tree.leaves
    laws = prior.laws(leaves.size)
    low, high = np.zeros(n), np.full(n, np.inf)
    held = np.zeros(0) if laws.pmf is None else np.flatnonzero(laws.pmf)
    if held.size:
        low[leaves], high[leaves] = held[0], held[-1]
    for name, message in messages.items():
        unit = int(tree.index(name))
        if tree.children[unit]:
            raise ValueError(f"unit {name!r} has children in this tree, so no message can stand for them")
        low[unit], high[unit] = message.bounds
    exact = np.isinf(like.rho)
    least, most = (np.where(exact, like.released, limit) for limit in (like.low, like.high))
    for unit, table in like.tables.items():
        possible = np.flatnonzero(np.isfinite(table))
        least[unit], most[unit] = max(least[unit], possible[0]), min(most[unit], possible[-1])
    bounds = feasible(tree, least, most, low, high, (0.0, np.inf) if outside is None else outside.bounds)
    sharing, settled = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    if isinstance(prior, SharedRate):
        above, counts = sharing_units(tree, prior, messages), bounds.low[leaves]
        drawn = (counts < bounds.high[leaves]) & (above >= 0)
        np.add.at(sharing, above[drawn], 1)
        others = ~drawn & (above >= 0)
        np.add.at(settled, above[others], counts[others].astype(np.int64))
        alone = prior.log_mass_alone(np.where(drawn, 0.0, counts))
        rise, start = np.where(drawn, laws.slope, 1.0), np.where(drawn, laws.start, 1.0)
        laws = LeafLaws(rise, start, np.where(drawn, laws.base, alone))
    slope, start, base = np.ones(n), np.ones(n), np.zeros(n)
    slope[leaves], start[leaves], base[leaves] = laws.slope, laws.start, laws.base
    pieces, place = [np.zeros(0)], 0
    given_first, given_size, given_low = (np.zeros(n, dtype=np.int64) for _ in range(3))
    given_tilt, given_dropped = np.zeros(n), np.zeros(n)

    def give(units: Any, values: Floats, lowest: int, log_scale: float = 0.0) -> None:
        nonlocal place
        given_first[units], given_size[units], given_low[units] = place, values.size, lowest
        base[units] = log_scale + np.log(values.sum())
        pieces.append(values / values.sum())
        place += values.size

    if held.size:
        give(leaves, np.asarray(laws.pmf)[held[0] : held[-1] + 1], int(held[0]))
    for unit, table in like.tables.items():
        if tree.children[unit] == 0 and given_size[unit] == 0:
            k = np.arange(table.size)
            give(unit, np.exp(_log_prior(laws, int(np.searchsorted(leaves, unit)), k)), 0)
    for name, message in messages.items():
        unit = int(tree.index(name))
        give(unit, message.values, message.lowest, message.log_scale)
        given_tilt[unit], given_dropped[unit] = message.tilt, message.truncation_bound
    table_first, table_size = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    place = 0
    for unit, table in sorted(like.tables.items()):
        table_first[unit], table_size[unit] = place, table.size
        place += table.size
    measured = (like.rho > 0) | (like.alpha > 0)
    columns = {
        "parent": tree.parent,
        "first": tree.first_child,
        "children": tree.children,
        "low": bounds.low,
        "high": np.where(np.isinf(bounds.high), UNBOUNDED, bounds.high),
        "sharing": sharing,
        "settled": settled,
        "given_first": given_first,
        "given_size": given_size,
        "given_low": given_low,
        "table_first": table_first,
        "table_size": table_size,
        "released": np.where(measured, like.released, 0.0),
        "rho": np.where(exact, 0.0, like.rho),
        "alpha": like.alpha,
        "slope": slope,
        "start": start,
        "base": base,
        "given_tilt": given_tilt,
        "given_dropped": given_dropped,
        "least": least,
        "most": most,
        "trim": 1.0,
    }
    units = np.zeros(n, UNIT)
    for name, column in columns.items():
        units[name] = column
    rates = np.zeros(1, RATE)
    if isinstance(prior, SharedRate):
        rates = np.zeros(prior.eta.size, RATE)
        rates["eta"], rates["log_weight"], rates["log_norm"] = prior.eta, prior.log_weight, prior.log_norm
    table = np.concatenate([np.zeros(0), *(like.tables[u] for u in sorted(like.tables))])
    top_tilt = 0.0 if outside is None else outside.tilt
    return Layout(units, rates, np.concatenate(pieces), table, top_tilt), bounds


# A count whose likelihood is below exp(-760) of the largest is taken to be impossible: doubles end there.
FAR_NATS = 760.0


def within_reach(tree: Tree, like: Likelihood, made: Layout, bounds: Limits) -> Layout | None:
    """The layout with limits of counts that are not measured, of leaves and where a rate is shared: what lies above and
    beside leaves them.

    The law of such a total falls no faster than its largest rate, whatever the tilt, and that of a leaf by its tilt
    alone: without limits a bound holds at counts only that the measurements of other units exclude, and the walk over
    a leaf takes millions of steps. None where there is no such unit, or no count is left.
    """
    units = made.units
    leaf = (tree.children == 0) & (units["given_size"] == 0)
    open_ended = ((units["sharing"] > 0) | leaf) & (units["rho"] == 0) & (units["alpha"] == 0)
    open_ended &= units["table_size"] == 0
    open_ended &= (units["low"] < units["high"]) & (units["near"] == 0)
    if not open_ended.any():
        return None
    low, high, n = bounds.low.copy(), bounds.high.copy(), len(tree)
    noisy = (like.rho > 0) & np.isfinite(like.rho)
    reach = np.sqrt(FAR_NATS / np.where(noisy, like.rho, 1.0))
    low = np.where(noisy, np.maximum(low, np.ceil(like.released - reach)), low)
    high = np.where(noisy, np.minimum(high, np.floor(like.released + reach)), high)
    total_low, total_high = np.zeros(n), np.zeros(n)
    for level in reversed(tree.generations):
        inner = tree.children[level] > 0
        low[level] = np.where(inner, np.maximum(low[level], total_low[level]), low[level])
        high[level] = np.where(inner, np.minimum(high[level], total_high[level]), high[level])
        if level.start > 0:
            total_low += np.bincount(tree.parent[level], low[level], n)
            total_high += np.bincount(tree.parent[level], high[level], n)
    for level in tree.generations[1:]:
        parent = tree.parent[level]
        # infinite without all of its children's
        with np.errstate(invalid="ignore"):
            beside = np.nan_to_num(total_high[parent] - high[level], nan=np.inf, posinf=np.inf)
        least, most = low[parent] - beside, high[parent] - (total_low[parent] - low[level])
        low[level], high[level] = np.maximum(low[level], least), np.minimum(high[level], most)
    open_ended &= np.isfinite(high)
    if (low > high).any() or not open_ended.any():
        return None
    units = units.copy()
    units["low"], units["high"] = (
        np.where(open_ended, limit, units[name]) for name, limit in (("low", low), ("high", high))
    )
    units["near"] = open_ended
    return made._replace(units=units)


def check_proper(tree: Tree, made: Layout, outside: Message | None) -> None:
    """ValueError naming a leaf that nothing measures and whose prior is improper."""
    if outside is not None:
        return
    units = made.units
    free = (units["rho"] == 0) & (units["alpha"] == 0) & (units["table_size"] == 0) & (units["high"] >= UNBOUNDED)
    free &= units["sharing"] == 0
    open_above = free.copy()
    for v in range(1, len(tree)):
        open_above[v] = free[v] and open_above[tree.parent[v]]
    improper = open_above & (tree.children == 0) & (units["given_size"] == 0) & (units["slope"] >= 1.0)
    if improper.any():
        name = str(tree.names[int(np.flatnonzero(improper)[0])])
        raise ValueError(
            f"the posterior of unit {name!r} is improper: its prior is flat and neither it nor anything above it was "
            "measured"
        )


def with_count_of_leaf(made: Layout, unit: int, count: int) -> Layout:
    """This layout with one leaf known to have a count, and not measured."""
    units = made.units.copy()
    units[unit]["given_first"], units[unit]["given_size"], units[unit]["given_low"] = made.given.size, 1, count
    for name in ("given_tilt", "given_dropped", "released", "rho", "alpha", "table_size"):
        units[unit][name] = 0
    units[unit]["low"] = units[unit]["high"] = count
    return made._replace(units=units, given=np.append(made.given, 1.0))


def _log_prior(laws: Any, leaf: int, k: Any) -> Floats:
    steps = np.log((laws.slope[leaf] * k[:-1] + laws.start[leaf]) / (k[:-1] + 1.0))
    return np.asarray(laws.base[leaf] + np.concatenate([[0.0], np.cumsum(steps)]))
