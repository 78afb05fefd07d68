"""Releases of a plan: simulated from true counts, or read from published numbers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import (
    CELL,
    SIBLING,
    Floats,
    Integers,
    Seed,
    arrays_over,
    check_mapping,
    refuse_rounded,
    seed_sequence,
)
from adversary.adversaries.plans.release import Layout, make_release


def simulate_releases(plan: Layout, counts: Integers, each: Mapping[str, Integers], rng: Seed, size: int) -> xr.Dataset:
    """Simulated releases of true counts, for `Plan.release`.

    Parameters
    ----------
    plan : the published counts
    counts : true counts in people, (level, cell)
    each : true counts of single siblings, (sibling, cell), by level name; their releases are drawn one by one
    rng : seed or numpy Generator
    size : number of releases

    Returns
    -------
    Dataset of `noisy` and `sibling_sum`, dims (release, level[, cell]), and `siblings` if `each` is not empty
    """
    rng = rng if isinstance(rng, np.random.Generator) else np.random.default_rng(seed_sequence(rng))
    shape = (size, plan.cells)
    noisy = np.stack(
        [level.mechanism.sample(row, rng, shape) for level, row in zip(plan.levels, counts, strict=True)], 1
    )
    if plan.postprocessing is not None:
        return _postprocessed_draws(plan, counts, each, np.asarray(noisy), rng)
    sums = np.full(noisy.shape, np.nan)
    apart = np.full((size, len(plan.levels), max(map(len, each.values()), default=0), plan.cells), np.nan)
    for i, level in enumerate(plan.levels[:-1]):
        noise = plan.sibling_noise(i)
        if level.name in each:
            d = len(each[level.name])
            apart[:, i, :d] = level.mechanism.sample(each[level.name], rng, (size, d, plan.cells))
            if noise is not None:
                sums[:, i] = apart[:, i, :d].sum(axis=1)
        elif noise is not None:
            sums[:, i] = noise.sample(counts[i + 1] - counts[i], rng, shape)
    return make_release(plan, noisy, sums, apart if each else None)


def _postprocessed_draws(
    plan: Layout, counts: Integers, each: Mapping[str, Integers], noisy: Any, rng: Any
) -> xr.Dataset:
    """Releases after post-processing: the upper level's, and the lower level's adjusted to it."""
    assert plan.postprocessing is not None
    lower, known = plan.levels[0], each.get(plan.levels[0].name)
    own, parent = noisy[:, 0, 0], noisy[:, 1, 0]
    others = int(counts[1, 0] - counts[0, 0])
    counted = None if known is None else known[:, 0]
    fitted = plan.postprocessing.sample(own, parent, others, lower.mechanism, lower.siblings or 0, rng, counted)
    pair = np.stack([fitted, parent], axis=1)[..., None]
    return make_release(plan, pair, np.full(pair.shape, np.nan))


def published_release(
    plan: Layout, noisy: Mapping[str, Any], sibling_sum: Mapping[str, Any], siblings: Mapping[str, Any]
) -> xr.Dataset:
    """A release from published numbers by level name: scalars, or arrays over releases; see `Plan.observe`."""
    for what, numbers_of in (("noisy", noisy), ("sibling_sum", sibling_sum), ("siblings", siblings)):
        check_mapping(what, numbers_of, f"{{{plan.names[0]!r}: 2}}")
    cell = CELL if plan.cells > 1 else ()
    given = {f"noisy of level {name!r}": (values, cell) for name, values in noisy.items()}
    given |= {f"sibling_sum of level {name!r}": (values, cell) for name, values in sibling_sum.items()}
    given |= {f"siblings of level {name!r}": (values, (*cell, *SIBLING)) for name, values in siblings.items()}
    arrays, labels = arrays_over(given)
    numbers = iter(arrays.values())
    noisy, sibling_sum, siblings = (dict(zip(one, numbers, strict=False)) for one in (noisy, sibling_sum, siblings))
    each = {name: _sibling_releases(plan, name, values) for name, values in siblings.items()}
    both = sorted(set(each) & set(sibling_sum))
    if both:
        raise ValueError(f"level {both[0]!r}: give either sibling_sum or siblings, not both")
    summed = {name: values.sum(-1) for name, values in each.items() if _sums(plan, name)}
    if plan.cells == 1:
        summed = {name: values[..., 0] for name, values in summed.items()}
    columns = [
        _columns(plan, "noisy", noisy, set(plan.names)),
        _columns(plan, "sibling_sum", {**sibling_sum, **summed}, {name for name in plan.names if _sums(plan, name)}),
    ]
    lengths = [(name, v.shape[0]) for column in columns for name, v in column.items() if v.ndim == 2]
    lengths += [(name, values.shape[0]) for name, values in each.items() if values.ndim == 3]
    size = max((n for _, n in lengths), default=1)
    for name, n in lengths:
        if n != size:
            raise ValueError(f"releases must have one length, got {n} and {size} for level {name!r}")
    blocks = [np.full((size, len(plan.levels), plan.cells), np.nan) for _ in columns]
    for block, column in zip(blocks, columns, strict=True):
        for name, values in column.items():
            block[:, plan.names.index(name)] = values
    widest = max((values.shape[-1] for values in each.values()), default=0)
    apart = np.full((size, len(plan.levels), widest, plan.cells), np.nan)
    for name, values in each.items():
        apart[:, plan.names.index(name), : values.shape[-1]] = np.moveaxis(values, -1, -2)
    release = make_release(plan, blocks[0], blocks[1], apart if each else None, labels)
    return release if lengths else release.isel(release=0)


def _sums(plan: Layout, name: str) -> bool:
    """True where the sum of a level's siblings is published, or follows from their releases."""
    return name in plan.names and plan.sibling_noise(plan.names.index(name)) is not None


def _sibling_releases(plan: Layout, name: str, values: Any) -> Floats:
    """Releases of the siblings of a level, ([release,] cell, sibling), checked."""
    wanted = next((level.siblings for level in plan.levels if level.name == name), None)
    if plan.postprocessing is not None:
        raise ValueError(f"siblings of level {name!r}: after post-processing only the unit's own count is read")
    if np.ndim(values) == 0 or np.shape(values)[-1] != wanted:
        got = np.shape(values)[-1] if np.ndim(values) else "one number"
        raise ValueError(f"siblings of level {name!r} needs a last axis over its {wanted} siblings, got {got}")
    array = _numbers(plan, "siblings", name, values)
    if plan.cells == 1:
        return array[..., None, :]
    if array.ndim < 2 or array.shape[-2] != plan.cells:
        raise ValueError(f"siblings of level {name!r} needs an axis over {plan.cells} cells, got {array.shape}")
    return array


def _numbers(plan: Layout, what: str, level: str, value: Any) -> Floats:
    """The released numbers of a level as floats; values that are not whole are refused unless noise is continuous."""
    name = f"{what} of level {level!r}"
    array: Floats | None = None
    if np.asarray(value).dtype.kind in "iufO":
        with suppress(TypeError, ValueError):
            array = np.asarray(value, dtype=np.float64)
    if array is None:
        raise TypeError(f"{name} must be numeric, got {value!r}")
    if array.size == 0:
        raise ValueError(f"{name} must not be empty: there is no release without numbers")
    if not plan.levels[plan.names.index(level)].mechanism.is_continuous:
        refuse_rounded(name, value)
    return array


def _columns(plan: Layout, what: str, values: Mapping[str, Any], needed: set[str]) -> dict[str, Floats]:
    """Each level's values as (cell,) or (release, cell), checked."""
    unknown = sorted(set(values) - set(plan.names))
    if unknown:
        raise ValueError(f"{what}: unknown level {unknown[0]!r}; the plan has {', '.join(plan.names)}")
    missing = sorted(needed - set(values))
    if missing:
        raise ValueError(f"{what}: no value for level {missing[0]!r}")
    extra = sorted(set(values) - needed)
    if extra:
        raise ValueError(f"{what}: level {extra[0]!r} has no siblings whose releases are added up and published")
    arrays = {name: _numbers(plan, what, name, value) for name, value in values.items()}
    if odd := [name for name, array in arrays.items() if array.ndim > 1 + (plan.cells > 1)]:
        raise ValueError(
            f"{what} of level {odd[0]!r} must be one number, or one for each release, got shape {arrays[odd[0]].shape}"
        )
    if plan.cells == 1:
        return {name: array[..., None] for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.ndim == 0 or array.shape[-1] != plan.cells:
            raise ValueError(f"{what} of level {name!r} needs a last axis over {plan.cells} cells, got {array.shape}")
    return arrays
