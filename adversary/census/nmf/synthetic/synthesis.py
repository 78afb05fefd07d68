"""Synthetic Noisy Measurement Files: a random population, measured like the redistricting release of 2020.

Nobody in these files exists. The noise is as published: discrete Gaussian of sigma^2 = 1 / rho, with the budgets of the
2020 persons tables (`adversary.census`) for every query and level. So is the layout: a state in two parts, only
children bypassed, bounds on group quarters, structural zeros, and a table of the state's exact total. The true counts
are in `truth.parquet`, for tests of what is inferred without them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adversary._core import Floats, Integers, track
from adversary.census.allocation import query_name
from adversary.census.nmf.exact_counts import TOTALS, UNLIMITED
from adversary.census.nmf.file_layout import AT_LEAST, AT_MOST, arrow
from adversary.census.nmf.records import US
from adversary.census.nmf.synthetic.population import NURSING, random_settlement, sums_by_group
from adversary.census.nmf.synthetic.recipe import AXES, CHUNK, FOLDER, LEVELS, STATE, Chunk, Recipe, RecipeQuery
from adversary.census.nmf.writer import Records, Writer, parquet_file

TRUTH = "truth.parquet"
Record = Callable[[Sequence["SyntheticUnits"]], None]

README = """# A synthetic Noisy Measurement File

**Nothing in this directory is data about anybody.** The population was made up by a random number generator, the state
with the code 99 does not exist, and no number was taken from, or fitted to, a census.

What is real is the noise: every count was given discrete Gaussian noise of the size that the same query had, at the
same geographic level, in the redistricting release of the 2020 Census (variance 1 / rho for bounded neighbours).
{shape}

- `{folder}/<Geolevel>.parquet/DPQuery`: noisy counts, a record for each query of each unit that was measured
- `{folder}/<Geolevel>.parquet/Constraint`: bounds and counts without noise
- `state_totals.csv`: the state's total, as it is
- `truth.parquet`: the made-up counts themselves, to compare with; a real file has nothing of the kind

Made by `adversary nmf synth` with {parameters}.
"""


class SyntheticUnits(NamedTuple):
    """Units of one level: geocodes, counts, facilities, index of the deepest level whose budget each gets.

    `bypassed` units are only children: they are not measured, and their budget goes to their parent.
    """

    level: str
    geocodes: list[str]
    people: Integers
    facilities: Integers
    deepest: Integers
    bypassed: NDArray[np.bool_]


def synthesise(
    directory: str | Path, recipe: Recipe | None = None, *, overwrite: bool = False, progress: bool = False
) -> Path:
    """Generate a random population and write its Noisy Measurement File.

    Memory does not grow with the number of blocks: they are generated and written 4,096 at a time.

    Parameters
    ----------
    directory : where to write; it must not exist, or be empty
    recipe : size, seed and queries; 5,000 blocks by default
    overwrite : replace a Noisy Measurement File of that name
    progress : show a progress bar

    Returns
    -------
    The directory.

    Raises
    ------
    FileExistsError : the directory has files, and `overwrite` is False or they are of no Noisy Measurement File
    ImportError : pyarrow is not installed
    """
    used_recipe = Recipe() if recipe is None else recipe
    sizes = {"blocks": used_recipe.blocks, "counties": used_recipe.county_number, "areas": used_recipe.area_number}
    parameters = ", ".join(f"{name} {number}" for name, number in (sizes | {"seed": used_recipe.seed}).items())
    across = "x".join(map(str, used_recipe.shape))
    shape = f"Its histogram has {across} cells ({', '.join(AXES)}), that of the release 8x2x2x63."
    metadata = {"synthetic": "true", "population": "made up by a random number generator", "recipe": parameters}
    metadata |= {"shape": across}
    readme = README.format(shape=shape, folder=FOLDER, parameters=parameters)
    with Writer(directory, FOLDER, overwrite=overwrite, metadata=metadata, readme=readme) as writer:
        schema = _truth_table([], used_recipe, metadata).schema
        with parquet_file(writer.temporary / TRUTH, schema) as truth:
            _write_all(
                used_recipe,
                writer,
                lambda units: truth.write_table(_truth_table(units, used_recipe, metadata)),
                progress,
            )
    return Path(directory)


def _write_all(recipe: Recipe, writer: Writer, record: Record, progress: bool) -> None:
    """Generate, measure and write all units, chunk by chunk, and pass them to `record`."""
    tracts_by_county: dict[int, list[SyntheticUnits]] = {}
    last = {one.county: one.number for chunks in recipe.chunks for one in chunks}
    parts_of_state: dict[bool, list[SyntheticUnits]] = {False: [], True: []}
    all_chunks = [one for chunks in recipe.chunks for one in chunks]
    for chunk in track(all_chunks, "chunks of blocks", enabled=progress):
        rng = np.random.default_rng(chunk.seed)
        units = synthetic_units(recipe, chunk, rng)
        for one in units:
            _measure(recipe, writer, one, rng)
        record(units)
        tracts_by_county.setdefault(chunk.county, []).append(units[0])
        if chunk.number == last[chunk.county]:
            is_area = recipe.is_area(chunk.county)
            only_county = recipe.area_number == 1 if is_area else recipe.county_number - recipe.area_number == 1
            county = _parent_unit("County", recipe.code(chunk.county), tracts_by_county.pop(chunk.county), only_county)
            _measure(recipe, writer, county, np.random.default_rng(recipe.noise_seed(chunk.county)))
            record([county])
            parts_of_state[is_area].append(county)
    rng = np.random.default_rng(recipe.noise_seed(None))
    parts = [_parent_unit("State", f"{int(inside)}{STATE}", made) for inside, made in parts_of_state.items() if made]
    # the nation has its own budget only, as if there were other states
    nation = _parent_unit(US, "", parts)._replace(deepest=np.zeros(1, dtype=np.int64))
    total = int(nation.people.sum())
    for top in (*parts, nation):
        _measure(recipe, writer, top, rng)
        record([top])
    writer.write_level(US, [Records("total", [""], np.array([[total]]), None, (1,) * 4, dict.fromkeys(AXES, "*"))])
    (writer.temporary / TOTALS).write_text(f"state,name,population\n{STATE},made-up state,{total}\n", encoding="utf-8")


def _parent_unit(level: str, code: str, below: Sequence[SyntheticUnits], alone: bool = False) -> SyntheticUnits:
    """Common parent of some units; if there is only one of them, the parent gets its budget as well.

    alone : whether the parent is itself an only child
    """
    people, facilities = (
        np.concatenate([getattr(one, name) for one in below]).sum(axis=0, keepdims=True)
        for name in ("people", "facilities")
    )
    single = sum(len(one.geocodes) for one in below) == 1
    deepest = below[0].deepest[:1] if single else np.array([LEVELS.index(level)])
    return SyntheticUnits(level, [code], people, facilities, deepest, np.array([alone]))


def synthetic_units(recipe: Recipe, chunk: Chunk, rng: np.random.Generator) -> list[SyntheticUnits]:
    """Random tracts, block groups and blocks of a chunk, with their counts."""
    settlement = random_settlement(chunk.blocks, recipe.shape, rng)  # type: ignore[arg-type]
    tract, group = settlement.tract, settlement.group
    codes = _geocodes(recipe, chunk, tract, group)
    lone_block, lone_group = np.bincount(group) == 1, np.bincount(tract) == 1
    lone_tract = np.full(int(tract[-1]) + 1, tract[-1] == 0 and len(recipe.chunks[chunk.county]) == 1)
    deepest = np.where(lone_block, 5, 4)
    first = np.flatnonzero(np.diff(tract, prepend=-1))
    people = [settlement.people, sums_by_group(settlement.people, group)]
    facilities = [settlement.facilities, sums_by_group(settlement.facilities, group)]
    return [
        SyntheticUnits("Tract", codes[0], sums_by_group(people[1], tract), sums_by_group(facilities[1], tract),
             np.where(lone_group, deepest[first], 3), lone_tract),
        SyntheticUnits("Block_Group", codes[1], people[1], facilities[1], deepest, lone_group[tract]),
        SyntheticUnits("Block", codes[2], people[0], facilities[0], np.full(group.size, 5), lone_block[group]),
    ]  # fmt: skip


def _geocodes(recipe: Recipe, chunk: Chunk, tract: Integers, group: Integers) -> tuple[list[str], list[str], list[str]]:
    """Geocodes of tracts, block groups and blocks: the parent's geocode and a running number.

    Those of blocks end in the tabulation code: 2 + 3 + 6 digits of state, county and tract, the block group's digit,
    and the 4 digits of the block.
    """
    number = np.arange(group.size) - np.flatnonzero(np.diff(group, prepend=-1))[group]
    digit = 1 + np.arange(tract.size) - np.flatnonzero(np.diff(tract, prepend=-1))[tract]
    tracts = [f"{recipe.code(chunk.county)}{chunk.number:02d}{i:04d}" for i in range(int(tract[-1]) + 1)]
    groups = [f"{tracts[t]}{d}" for t, d in zip(tract, digit, strict=True)]
    tabulation_prefix = f"{STATE}{chunk.county + 1:03d}{chunk.number:02d}"
    blocks = [
        f"{groups[g]}{tabulation_prefix}{tract[g]:04d}{digit[g]}{digit[g]}{n:03d}"
        for g, n in zip(group, number, strict=True)
    ]
    return tracts, groups, blocks


def _measure(recipe: Recipe, writer: Writer, units: SyntheticUnits, rng: np.random.Generator) -> None:
    """Draw noisy answers to all queries in these units, and write them with the constraints."""
    records = [_answers(recipe, units, query, rng) for query in recipe.measured_queries]
    partition = {} if units.level == US else {"State": units.geocodes[0][:3]}
    writer.write_level(
        units.level, [*(one for one in records if one is not None), *_constraints(recipe, units)], partition
    )


def _answers(recipe: Recipe, units: SyntheticUnits, query: RecipeQuery, rng: np.random.Generator) -> Records | None:
    """Noisy answers to one query in all units that are measured."""
    level = LEVELS.index(units.level)
    truth = query.of(units.people).reshape(len(units.geocodes), -1)
    released, variance = np.zeros_like(truth), np.full(truth.shape[0], np.inf)
    for deepest in np.unique(units.deepest):
        here = np.flatnonzero((units.deepest == deepest) & ~units.bypassed)
        noise = recipe.noise(query, level, int(deepest))
        if noise is not None and here.size:
            released[here], variance[here] = noise.sample(truth[here], rng), float(noise.sigma2 or 0.0)
    measured = np.flatnonzero(np.isfinite(variance))
    codes = [units.geocodes[i] for i in measured]
    return Records(
        query.file_name,
        codes,
        released[measured],
        variance[measured],
        query.shape,
        query.axes,
        1.0 / variance[measured],
    )


def _constraints(recipe: Recipe, units: SyntheticUnits) -> list[Records]:
    """Constraints: bounds on the people in each kind of group quarters, nobody under 18 in nursing facilities."""
    axes, shape = {"hhgq": "hhgq"} | dict.fromkeys(AXES[1:], "*"), (recipe.shape[0], 1, 1, 1)
    lower_bounds = units.facilities * (np.arange(recipe.shape[0]) > 0)
    constraints = [
        Records("hhgq_total_lb", units.geocodes, lower_bounds, None, shape, axes, sign=AT_LEAST),
        Records("hhgq_total_ub", units.geocodes, units.facilities * UNLIMITED, None, shape, axes, sign=AT_MOST),
    ]
    if recipe.shape[0] > NURSING and recipe.shape[1] == 2:
        zeros = np.zeros((len(units.geocodes), 1), dtype=np.int64)
        words = axes | {"hhgq": "gqNursingTotal", "votingage": "nonvoting"}
        constraints.append(Records("nurse_nva_0", units.geocodes, zeros, None, (1,) * 4, words))
    return constraints


def _truth_table(units: Sequence[SyntheticUnits], recipe: Recipe, metadata: dict[str, str]) -> Any:
    """Arrow table of the true histograms of units."""
    pa = arrow()
    levels = [one.level for one in units for _ in one.geocodes]
    size = int(np.prod(recipe.shape))
    counts = np.concatenate([np.zeros((0, size), dtype=np.int32), *(one.people.reshape(-1, size) for one in units)])
    lists = pa.FixedSizeListArray.from_arrays(pa.array(counts.astype(np.int32).ravel()), size)
    columns = {
        "geolevel": pa.array(levels, pa.string()),
        "geocode": pa.array([name or US for one in units for name in one.geocodes], pa.string()),
        "people": lists,
    }
    return pa.table(columns, metadata=dict(metadata))


def truth_of(directory: str | Path, names: Sequence[str] | NDArray[np.str_], query: str, cells: Any) -> Floats:
    """True counts behind the answers to a query in a synthetic file.

    Parameters
    ----------
    directory : of the synthetic Noisy Measurement File
    names : (unit,) geocodes; two digits for a whole state
    query : name of the query
    cells : (cell,) flat indices of its cells

    Returns
    -------
    (unit, cell) float64 counts, in people.

    Raises
    ------
    FileNotFoundError : the directory has no `truth.parquet`: it is no synthetic file
    ValueError : a unit is absent, or the query is unknown
    """
    pa, path = arrow(), Path(directory) / TRUTH
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no truth in this directory, so it was not made up here")
    codes, place_of = np.unique([US if name == STATE else name for name in names], return_inverse=True)
    wanted = pa.array(codes.tolist(), pa.string())
    counts = np.full((len(wanted), len(cells)), np.nan)
    file = pa.parquet.ParquetFile(path)
    shape = tuple(map(int, file.schema_arrow.metadata[b"shape"].decode().split("x")))
    recipe_query = RecipeQuery(query_name(query), shape)
    for batch in file.iter_batches(CHUNK, columns=["geocode", "people"]):
        place = pa.compute.index_in(batch.column(0), value_set=wanted).fill_null(-1).to_numpy(zero_copy_only=False)
        people = batch.column(1).flatten().to_numpy().reshape(-1, *shape)
        here = np.flatnonzero(place >= 0)
        counts[place[here]] = recipe_query.of(people[here]).reshape(here.size, int(np.prod(recipe_query.shape)))[
            :, np.asarray(cells)
        ]
    if (missing := np.flatnonzero(np.isnan(counts).any(axis=1))).size:
        raise ValueError(f"{path}: there is no unit {str(codes[missing[0]])!r}")
    return counts[place_of]
