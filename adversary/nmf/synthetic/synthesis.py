"""Synthetic Noisy Measurement Files: a made-up population, measured as the redistricting release of 2020 was.

Nobody in these files exists. The noise is real: discrete Gaussian of sigma^2 = 1 / rho, the budget of every query at
every level that of the 2020 persons tables (`adversary.policy.census`), the state's total published as it is. The
truth lies beside them, in `truth.parquet`, for tests of what is inferred without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adversary._core import Floats, Integers, track
from adversary.nmf.file_layout import arrow
from adversary.nmf.synthetic.population import Settlement, settle
from adversary.nmf.synthetic.recipe import AXES, CHUNK, LEVELS, SPINES, STATE, Chunk, Query, Recipe
from adversary.nmf.writer import Records, Writer, parquet_file
from adversary.policy.census import query_name

TRUTH = "truth.parquet"
Record = Callable[[Sequence["Made"]], None]

README = """# A synthetic Noisy Measurement File

**Nothing in this directory is data about anybody.** The population was made up by a random number generator, the state
with the code 99 does not exist, and no number was taken from, or fitted to, a census.

What is real is the noise: every count was given discrete Gaussian noise of the size that the same query had, at the
same geographic level, in the redistricting release of the 2020 Census (variance 1 / rho for bounded neighbours). The
state's total is published as it is. {shape}

- `<Geolevel>.parquet/DPQuery`: noisy counts, a record for each query of each unit
- `<Geolevel>.parquet/Constraint`: counts published without noise
- `Parents.parquet/<Geolevel>`: the unit of the level above in which each unit lies ({spine} spine)
- `truth.parquet`: the made-up counts themselves, to compare with; a real file has nothing of the kind

Made by `adversary nmf synth` with {parameters}.
"""


class Made(NamedTuple):
    """Units of one level: their geocodes, parents and counts, and the level whose budget each begins to hold."""

    level: str
    geocodes: list[str]
    parents: list[str]
    people: Integers
    holds: Integers
    bypassed: NDArray[np.bool_]


def synthesise(
    directory: str | Path, recipe: Recipe | None = None, *, overwrite: bool = False, progress: bool = False
) -> Path:
    """Make up a population and write its Noisy Measurement File.

    Memory does not grow with the number of blocks: they are made and written 4,096 at a time.

    Parameters
    ----------
    directory : where to write; it must not exist, or be empty
    recipe : size, seed, queries and spine; 5,000 blocks by default
    overwrite : replace a Noisy Measurement File of that name
    progress : show a bar

    Returns
    -------
    The directory.

    Raises
    ------
    FileExistsError : the directory has files, and `overwrite` is False or they are of no Noisy Measurement File
    ImportError : pyarrow is not installed
    """
    made = Recipe() if recipe is None else recipe
    parameters = f"blocks {made.blocks}, counties {made.county_number}, seed {made.seed}, spine {made.spine}"
    across = " x ".join(map(str, made.shape))
    shape = f"Its histogram has {across} cells ({', '.join(AXES)}), that of the release 8 x 2 x 2 x 63."
    metadata = {"synthetic": "true", "population": "made up by a random number generator", "recipe": parameters}
    readme = README.format(shape=shape, spine=made.spine, parameters=parameters)
    with Writer(directory, overwrite=overwrite, metadata=metadata, readme=readme) as writer:
        schema = _truth_table([], made, metadata).schema
        with parquet_file(writer.temporary / TRUTH, schema) as truth:
            _write_all(made, writer, lambda units: truth.write_table(_truth_table(units, made, metadata)), progress)
    return Path(directory)


def _write_all(recipe: Recipe, writer: Writer, record: Record, progress: bool) -> None:
    total = np.zeros(recipe.shape, dtype=np.int64)
    held: dict[int, Integers] = {}
    last = {one.county: one.number for chunks in recipe.chunks for one in chunks}
    every = [one for chunks in recipe.chunks for one in chunks]
    for chunk in track(every, "chunks of blocks", enabled=progress):
        rng = np.random.default_rng(chunk.seed)
        units = list(made_units(recipe, chunk, rng))
        _measure(recipe, writer, units, recipe.partition(chunk.county), rng)
        record(units)
        held[chunk.county] = held.get(chunk.county, 0) + units[0].people.sum(axis=0)
        if chunk.number == last[chunk.county]:
            people = held.pop(chunk.county)
            _measure_top(recipe, writer, record, chunk.county, people)
            total += people
    _measure_top(recipe, writer, record, None, total)


def made_units(recipe: Recipe, chunk: Chunk, rng: np.random.Generator) -> Iterator[Made]:
    """Tracts, block groups and blocks of a chunk, with their counts."""
    settled = settle(chunk.blocks, recipe.shape, rng)  # type: ignore[arg-type]
    county, tracts, groups, blocks = _geocodes(recipe, chunk, settled, rng)
    passes = recipe.spine == SPINES[0]
    lone_tract = passes & (np.bincount(settled.tract) == 1)
    lone_group = passes & (np.bincount(settled.group) == 1)
    group_holds = np.where(lone_tract[settled.tract], 2, 3)
    block_holds = np.where(lone_group[settled.group], group_holds[settled.group], 4)
    yield Made("Tract", tracts, [county] * len(tracts), settled.tract_people, np.full(len(tracts), 2), lone_tract)
    above = [tracts[i] for i in settled.tract]
    yield Made("Block_Group", groups, above, settled.group_people, group_holds, lone_group)
    above = [groups[i] for i in settled.group]
    yield Made("Block", blocks, above, settled.people, block_holds, np.zeros(len(blocks), dtype=bool))


def _geocodes(
    recipe: Recipe, chunk: Chunk, settled: Settlement, rng: np.random.Generator
) -> tuple[str, list[str], list[str], list[str]]:
    """Geocodes of county, tracts, block groups and blocks.

    A block's are 2 + 3 + 6 + 1 + 4 digits of state, county, tract, block group and block. In the optimized spine
    tracts and block groups have numbers of their own, and the digits in a block's geocode are of other ones.
    """
    county = "".join(recipe.partition(chunk.county).values())
    tract, group = settled.tract, settled.group
    number = np.arange(group.size) - np.flatnonzero(np.diff(group, prepend=-1))[group]
    digit = 1 + np.arange(tract.size) - np.flatnonzero(np.diff(tract, prepend=-1))[tract]
    tracts = [f"{county}{chunk.number:02d}{i:04d}" for i in range(int(tract[-1]) + 1)]
    named = [f"{tracts[t]}{d}" for t, d in zip(tract, digit, strict=True)]
    blocks = [f"{named[g]}{digit[g]}{n:03d}" for g, n in zip(group, number, strict=True)]
    if recipe.spine == "tabulation":
        return county, tracts, named, blocks
    rows = rng.permutation(group.size)
    blocks = [blocks[i] for i in rows]
    return (
        county,
        [f"{county}T{chunk.number:02d}{i:04d}" for i in range(len(tracts))],
        [f"{county}G{chunk.number:02d}{i:04d}" for i in range(tract.size)],
        blocks,
    )


def _measure_top(recipe: Recipe, writer: Writer, record: Record, county: int | None, people: Integers) -> None:
    """The one unit of a county, or of the state, whose total is published exactly too."""
    level = "State" if county is None else "County"
    rng = np.random.default_rng(recipe.top_seed(county))
    name = "".join(recipe.partition(county).values())
    unit = Made(
        level,
        [name],
        ["" if county is None else STATE],
        people[None],
        np.array([LEVELS.index(level)]),
        np.zeros(1, bool),
    )
    _measure(recipe, writer, [unit], recipe.partition(county), rng)
    record([unit])
    if county is None:
        total = np.array([[int(people.sum())]])
        writer.put(level, [Records("total", [name], total, None, (1, 1, 1, 1), axes=dict.fromkeys(AXES, "*"))],
                   recipe.partition(None))  # fmt: skip


def _measure(
    recipe: Recipe, writer: Writer, units: Sequence[Made], partition: Mapping[str, str], rng: np.random.Generator
) -> None:
    """Draw the noise of all answers of these units, and write them."""
    for one in units:
        records = (_answers(recipe, one, query, rng) for query in recipe.asked)
        writer.put(one.level, [record for record in records if record is not None], partition)
        writer.put_parents(one.level, one.geocodes, one.parents, partition)


def _answers(recipe: Recipe, units: Made, query: Query, rng: np.random.Generator) -> Records | None:
    level = LEVELS.index(units.level)
    truth = query.of(units.people).reshape(len(units.geocodes), -1)
    released, variance = np.zeros_like(truth), np.full(truth.shape[0], np.inf)
    plb = np.zeros(truth.shape[0])
    for held in np.unique(units.holds):
        here = np.flatnonzero((units.holds == held) & ~units.bypassed)
        noise = recipe.noise(query, int(held), level)
        if noise is not None and here.size:
            released[here] = noise.sample(truth[here], rng)
            variance[here] = float(noise.sigma2 or 0.0)
            plb[here] = 1.0 / variance[here]
    if np.isinf(variance).all() and not units.bypassed.any():
        return None
    return Records(query.file_name, units.geocodes, released, variance, query.shape, plb, axes=query.axes)


def _truth_table(units: Sequence[Made], recipe: Recipe, metadata: Mapping[str, str]) -> Any:
    pa = arrow()
    levels = [one.level for one in units for _ in one.geocodes]
    size = int(np.prod(recipe.shape))
    counts = np.concatenate([np.zeros((0, size), dtype=np.int32), *(one.people.reshape(-1, size) for one in units)])
    lists = pa.FixedSizeListArray.from_arrays(pa.array(counts.astype(np.int32).ravel()), size)
    columns = {
        "geolevel": pa.array(levels, pa.string()),
        "geocode": pa.array([name for one in units for name in one.geocodes], pa.string()),
        "people": lists,
    }
    shape = {"shape": "x".join(map(str, recipe.shape))}
    return pa.table(columns, metadata={**metadata, **shape})


def truth_of(directory: str | Path, names: Sequence[str] | NDArray[np.str_], query: str, cells: Any) -> Floats:
    """True counts behind the answers to a query in a synthetic file.

    Parameters
    ----------
    directory : of the synthetic Noisy Measurement File
    names : (unit,) geocodes
    query : name of the query
    cells : (cell,) flat indices of its cells

    Returns
    -------
    (unit, cell) float64 counts, in people.

    Raises
    ------
    FileNotFoundError : the directory has no truth, as that of a real file
    ValueError : a unit is not there, or the query is unknown
    """
    pa, path = arrow(), Path(directory) / TRUTH
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no truth in this directory, so it was not made up here")
    wanted = pa.array(np.asarray(names).tolist(), pa.string())
    found = np.full((len(wanted), len(cells)), np.nan)
    file = pa.parquet.ParquetFile(path)
    shape = tuple(map(int, file.schema_arrow.metadata[b"shape"].decode().split("x")))
    asked = Query(query_name(query), shape)
    for batch in file.iter_batches(CHUNK, columns=["geocode", "people"]):
        place = pa.compute.index_in(batch.column(0), value_set=wanted).fill_null(-1).to_numpy(zero_copy_only=False)
        people = batch.column(1).flatten().to_numpy().reshape(-1, *shape)
        here = np.flatnonzero(place >= 0)
        found[place[here]] = asked.of(people[here]).reshape(here.size, int(np.prod(asked.shape)))[:, np.asarray(cells)]
    if (lost := np.flatnonzero(np.isnan(found).any(axis=1))).size:
        raise ValueError(f"{path}: there is no unit {wanted[int(lost[0])].as_py()!r}")
    return found
