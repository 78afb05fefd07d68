"""Inputs of one inference: measurements and leaf priors, checked and laid out as arrays for the compiled code.

Exact totals and bounds are propagated through the tree first. Every unit gets the smallest and largest count that they
allow: a subtree under an exact zero is all zeros before any inference, and an error names totals that no counts
satisfy. A leaf with one possible count is called settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversary._core import Floats, as_array, refuse_rounded
from adversary.census.spine.leaf_priors import LeafDistributions, LeafPrior, SharedRate, sharing_units
from adversary.census.spine.tree import Tree, in_order

if TYPE_CHECKING:
    from adversary.census.spine.compiled import Layout

VARIANCES = (1e-12, 1e10)
"""Smallest and largest variance of a measurement: below, a count is as good as exact; above, as good as unmeasured."""

# Stands for "no upper limit": larger than any count. `compiled.layout` has the same number.
UNBOUNDED = 1 << 61


@dataclass(frozen=True, eq=False)
class Message:
    """Likelihood of the count of a subtree's top, from all information below it, as a table.

    The likelihood of count lowest + k is values[k] exp(tilt (lowest + k) + log_scale), without the top's own
    measurement. `truncation_bound` bounds the mass that `values` lack, as a share of their sum. A downward message,
    from all information outside the subtree, has the same form and leaves out the top's own measurement too.
    """

    lowest: int
    values: Floats
    tilt: float
    log_scale: float = 0.0
    truncation_bound: float = 0.0
    bounds: tuple[float, float] = (0.0, np.inf)
    """Smallest and largest count that exact totals allow."""
    on_wide_window: tuple[int, Floats, Floats, float] | None = None
    """Of a downward message, for membership: the same on a wider window, up to a constant, as (lowest count, values,
    bounds on their errors, bound on all values outside the window).
    """


class Likelihood(NamedTuple):
    """Measurements of one cell, each (unit,).

    released : noisy counts, NaN if not measured
    rho : discrete Gaussian, 1 / (2 variance); infinite: exact, 0: none
    alpha : two-sided geometric, decay per person in nats; 0: none
    tables : log likelihood of the counts 0, 1, ... by index of unit, for other noise
    low, high : smallest and largest count known without noise
    """

    released: Floats
    rho: Floats
    alpha: Floats
    tables: dict[int, Floats]
    low: Floats
    high: Floats


class Limits(NamedTuple):
    """(unit,) smallest and largest counts: by all information, by all outside the unit, by a leaf's own prior."""

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
    """Checked (unit, cell) noisy counts and rho, and True if the counts have no cells; ValueError names the unit.

    rho must be 0 (not measured), infinite (exact), or that of a variance within `VARIANCES`. Measured counts must be
    whole (exact ones only, with `whole` False), and exact counts non-negative.
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


def _refuse(tree: Tree, wrong: Any, values: Floats, name: str, rule: str) -> None:
    """ValueError naming the first unit where `wrong` is true, the rule and the value."""
    if wrong.any():
        unit, cell = (int(i[0]) for i in np.nonzero(wrong))
        raise ValueError(f"{name} of unit {str(tree.names[unit])!r} {rule}, got {values[unit, cell]}")


def feasible(
    tree: Tree, least: Floats, most: Floats, low: Floats, high: Floats, limits: tuple[float, float] = (0.0, np.inf)
) -> Limits:
    """Smallest and largest count of every unit under exact totals and bounds; ValueError if no counts satisfy them.

    Upward pass: a unit's limits are the sums of its children's, within its own. Downward pass: a child's limits are its
    parent's minus those of its siblings.

    least, most : (unit,) limits known without noise, equal for an exact count
    low, high : (unit,) limits of the leaves by their priors
    limits : limits of the root by what lies outside the tree
    """
    own_low, own_high = low, high
    low, high, n = low.copy(), high.copy(), len(tree)
    total_low, total_high, unbounded = np.zeros(n), np.zeros(n), np.zeros(n)
    for level in reversed(tree.generations):
        inner = tree.children[level] > 0
        low[level] = np.where(inner, total_low[level], low[level])
        high[level] = np.where(inner, np.where(unbounded[level] > 0, np.inf, total_high[level]), high[level])
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
            unbounded += np.bincount(parent, np.isinf(high[level]), n)
    outer_low, outer_high = np.zeros(n), np.full(n, np.inf)
    outer_low[0], outer_high[0] = limits
    for level in tree.generations[1:]:
        parent = tree.parent[level]
        limit = np.maximum(least, outer_low)[parent], np.minimum(most, outer_high)[parent]
        others_high = total_high[parent] - np.where(np.isinf(high[level]), 0.0, high[level])
        others_unbounded = unbounded[parent] - np.isinf(high[level])
        outer_low[level] = np.where(others_unbounded > 0, 0.0, np.maximum(limit[0] - others_high, 0.0))
        outer_high[level] = limit[1] - (total_low[parent] - low[level])
    low, high = np.maximum(low, outer_low), np.minimum(high, outer_high)
    return Limits(low, high, outer_low, outer_high, own_low, own_high)


def layout(
    tree: Tree, like: Likelihood, prior: LeafPrior, messages: Mapping[str, Message], outside: Message | None
) -> tuple[Layout, Limits]:
    """Arrays of one cell for the compiled code, and the limits that exact totals and bounds imply."""
    from adversary.census.spine.compiled import RATE, UNIT, Layout

    n, leaves = len(tree), tree.leaves
    distributions = prior.distributions(leaves.size)
    low, high = np.zeros(n), np.full(n, np.inf)
    supported = np.zeros(0) if distributions.pmf is None else np.flatnonzero(distributions.pmf)
    if supported.size:
        low[leaves], high[leaves] = supported[0], supported[-1]
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
        sharing_unit, counts = sharing_units(tree, prior, messages), bounds.low[leaves]
        shares_rate = (counts < bounds.high[leaves]) & (sharing_unit >= 0)
        np.add.at(sharing, sharing_unit[shares_rate], 1)
        not_sharing = ~shares_rate & (sharing_unit >= 0)
        np.add.at(settled, sharing_unit[not_sharing], counts[not_sharing].astype(np.int64))
        log_mass_alone = prior.log_mass_alone(np.where(shares_rate, 0.0, counts))
        leaf_slope, start = (
            np.where(shares_rate, distributions.slope, 1.0),
            np.where(shares_rate, distributions.start, 1.0),
        )
        distributions = LeafDistributions(leaf_slope, start, np.where(shares_rate, distributions.base, log_mass_alone))
    slope, start, base = np.ones(n), np.ones(n), np.zeros(n)
    slope[leaves], start[leaves], base[leaves] = distributions.slope, distributions.start, distributions.base
    pieces, place = [np.zeros(0)], 0
    given_first, given_size, given_low = (np.zeros(n, dtype=np.int64) for _ in range(3))
    given_tilt, given_dropped = np.zeros(n), np.zeros(n)

    def add_leaf_message(units: Any, values: Floats, lowest: int, log_scale: float = 0.0) -> None:
        nonlocal place
        given_first[units], given_size[units], given_low[units] = place, values.size, lowest
        base[units] = log_scale + np.log(values.sum())
        pieces.append(values / values.sum())
        place += values.size

    if supported.size:
        add_leaf_message(leaves, np.asarray(distributions.pmf)[supported[0] : supported[-1] + 1], int(supported[0]))
    for unit, table in like.tables.items():
        if tree.children[unit] == 0 and given_size[unit] == 0:
            k = np.arange(table.size)
            add_leaf_message(unit, np.exp(_log_prior(distributions, int(np.searchsorted(leaves, unit)), k)), 0)
    for name, message in messages.items():
        unit = int(tree.index(name))
        add_leaf_message(unit, message.values, message.lowest, message.log_scale)
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


# Nats below the maximum at which a count is taken to be impossible: exp(-745) is the smallest positive double.
FAR_NATS = 760.0


def within_reach(tree: Tree, like: Likelihood, cell_layout: Layout, bounds: Limits) -> Layout | None:
    """Layout with plausible limits on unmeasured counts of leaves and of units within which a rate is shared.

    The limits follow from the measurements of other units, each taken to be within `FAR_NATS` of its noise. Without
    them the distribution of such a total decays no faster than its largest rate, and that of a leaf by its tilt alone:
    truncation bounds would be dominated by counts that other measurements exclude, and tracing a leaf would take
    millions of steps. None if there is no such unit, or if no count is left.
    """
    units = cell_layout.units
    leaf = (tree.children == 0) & (units["given_size"] == 0)
    open_ended = ((units["sharing"] > 0) | leaf) & (units["rho"] == 0) & (units["alpha"] == 0)
    open_ended &= units["table_size"] == 0
    open_ended &= (units["low"] < units["high"]) & (units["near"] == 0)
    if not open_ended.any():
        return None
    low, high, n = bounds.low.copy(), bounds.high.copy(), len(tree)
    noisy = (like.rho > 0) & np.isfinite(like.rho)
    radius = np.sqrt(FAR_NATS / np.where(noisy, like.rho, 1.0))
    low = np.where(noisy, np.maximum(low, np.ceil(like.released - radius)), low)
    high = np.where(noisy, np.minimum(high, np.floor(like.released + radius)), high)
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
        # inf - inf is NaN: siblings of an unlimited child count as unlimited
        with np.errstate(invalid="ignore"):
            siblings_high = np.nan_to_num(total_high[parent] - high[level], nan=np.inf, posinf=np.inf)
        least, most = low[parent] - siblings_high, high[parent] - (total_low[parent] - low[level])
        low[level], high[level] = np.maximum(low[level], least), np.minimum(high[level], most)
    open_ended &= np.isfinite(high)
    if (low > high).any() or not open_ended.any():
        return None
    units = units.copy()
    units["low"], units["high"] = (
        np.where(open_ended, limit, units[name]) for name, limit in (("low", low), ("high", high))
    )
    units["near"] = open_ended
    return cell_layout._replace(units=units)


def check_proper(tree: Tree, cell_layout: Layout, outside: Message | None) -> None:
    """ValueError naming a leaf whose posterior is improper: flat prior, and no measurement of it or an ancestor."""
    if outside is not None:
        return
    units = cell_layout.units
    unbounded = (units["rho"] == 0) & (units["alpha"] == 0) & (units["table_size"] == 0) & (units["high"] >= UNBOUNDED)
    unbounded &= units["sharing"] == 0
    open_above = unbounded.copy()
    for v in range(1, len(tree)):
        open_above[v] = unbounded[v] and open_above[tree.parent[v]]
    improper = open_above & (tree.children == 0) & (units["given_size"] == 0) & (units["slope"] >= 1.0)
    if improper.any():
        name = str(tree.names[int(np.flatnonzero(improper)[0])])
        raise ValueError(
            f"the posterior of unit {name!r} is improper: its prior is flat and neither it nor anything above it was "
            "measured"
        )


def with_count_of_leaf(cell_layout: Layout, unit: int, count: int) -> Layout:
    """Layout in which one leaf has a known count and no measurement."""
    units = cell_layout.units.copy()
    units[unit]["given_first"], units[unit]["given_size"], units[unit]["given_low"] = cell_layout.given.size, 1, count
    for name in ("given_tilt", "given_dropped", "released", "rho", "alpha", "table_size"):
        units[unit][name] = 0
    units[unit]["low"] = units[unit]["high"] = count
    return cell_layout._replace(units=units, given=np.append(cell_layout.given, 1.0))


def _log_prior(distributions: Any, leaf: int, k: Any) -> Floats:
    """(count,) log prior of one leaf at consecutive counts k from 0."""
    steps = np.log((distributions.slope[leaf] * k[:-1] + distributions.start[leaf]) / (k[:-1] + 1.0))
    return np.asarray(distributions.base[leaf] + np.concatenate([[0.0], np.cumsum(steps)]))
