"""Recipe of a synthetic Noisy Measurement File: its size, its seeds, and the queries of the 2020 release.

Persons are counted by four attributes; every query is a marginal of that histogram, with the budget that the
redistricting release gave it at each level (Kifer et al. 2022, Tables 3 to 5).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from adversary._core import Integers, check_whole, seed_sequence
from adversary.census.allocation import PERSONS, query_name
from adversary.census.nmf.products import PL_PERSONS, Product, Shape
from adversary.census.nmf.synthetic.population import blocks_per_county
from adversary.privacy.mechanisms import DiscreteGaussian

LEVELS = PL_PERSONS.levels
AXES = tuple(PL_PERSONS.axes)
FOLDER = "US_Person_PL_PROD"
GROUPED = "hhinstlevels"
SHAPE = (3, 2, 2, 7)
"""Default shape of the histogram; that of the release, (8, 2, 2, 63), has 24 times as many cells."""

# Code of the synthetic state, which no state has.
STATE = "99"

# Blocks that are generated together, with a seed of their own.
CHUNK = 4096


@dataclass(frozen=True)
class RecipeQuery:
    """Query: a marginal of the histogram of persons.

    Parameters
    ----------
    name : as the Bureau spells it, such as "HISPANIC*CENRACE"
    histogram : shape of the histogram
    """

    name: str
    histogram: Shape

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the crossed attributes; none for the total."""
        return () if self.name == "TOTAL" else tuple(self.name.lower().split("*"))

    @property
    def detailed(self) -> bool:
        """True if the query is the histogram itself."""
        return set(self.attributes) == set(AXES)

    @property
    def file_name(self) -> str:
        """Name in a file, without suffix: "hispanic * cenrace", "detailed"."""
        return "detailed" if self.detailed else " * ".join(self.attributes) or "total"

    @property
    def product(self) -> Product:
        """Product of the persons of the release, cut to the shape of the histogram."""
        return PL_PERSONS.cut(self.histogram)

    @property
    def axes(self) -> dict[str, str]:
        """Word of every axis in the query, "*" if it is summed over."""
        if self.detailed:
            return dict.fromkeys(AXES, "detailed")
        is_area = dict(zip(AXES, AXES, strict=True)) | ({"hhgq": GROUPED} if GROUPED in self.attributes else {})
        return {axis: is_area[axis] if is_area[axis] in self.attributes else "*" for axis in AXES}

    def of(self, people: Integers) -> Integers:
        """(unit, ...) true answers from a histogram (unit, ...); axes that are summed over have length one."""
        if GROUPED in self.attributes:
            groups = (self.product.groups("hhgq", GROUPED, n) for n in (3, 2, 1))
            starts = [min(one.members) for one in next(group for group in groups if group)]
            people = np.add.reduceat(people, starts, axis=1)
        over = tuple(1 + i for i, label in enumerate(self.axes.values()) if label == "*")
        return people.sum(axis=over, keepdims=True)

    @property
    def shape(self) -> Shape:
        """Lengths of the four axes of the query."""
        return self.of(np.zeros((1, *self.histogram), dtype=np.int64)).shape[1:]


class Chunk(NamedTuple):
    """Blocks of a county that are generated together: county, number in the county, number of blocks, seed."""

    county: int
    number: int
    blocks: int
    seed: np.random.SeedSequence


@dataclass(frozen=True)
class Recipe:
    """Size, seed and queries of a synthetic file.

    Parameters
    ----------
    blocks, counties : numbers of blocks and counties; default one county per 4,000 blocks
    seed : the same seed gives the same files
    shape : categories of group quarters, age, ethnicity and race; households are the first of group quarters
    queries : names of the queries to measure; default all eleven
    areas : number of the counties that are American Indian areas; default a quarter of them
    """

    blocks: int = 5000
    counties: int | None = None
    seed: int = 2020
    shape: Shape = SHAPE
    queries: tuple[str, ...] = ()
    areas: int | None = None

    def __post_init__(self) -> None:
        check_whole("blocks", self.blocks, minimum=1)
        seed_sequence(self.seed)
        if len(self.shape) != len(AXES) or min(self.shape) < 1:
            raise ValueError(f"shape must have a length >= 1 for {', '.join(AXES)}, got {self.shape}")
        if max(self.shape[1:3]) > 2:
            raise ValueError(f"shape must have at most two ages and two ethnicities, got {self.shape}")
        county_count = int(check_whole("counties", 1 if self.counties is None else self.counties, minimum=1))
        if county_count > min(self.blocks, 999):
            raise ValueError(
                f"counties must be at most the blocks, and 999, got {county_count} for {self.blocks} blocks"
            )
        if int(check_whole("areas", 0 if self.areas is None else self.areas, minimum=0)) >= self.county_number:
            raise ValueError(f"areas must be fewer than the counties, {self.county_number}, got {self.areas}")
        for name in self.queries:
            if query_name(name) not in PERSONS.queries:
                raise ValueError(f"queries must count persons, {name!r} counts housing units")

    @cached_property
    def measured_queries(self) -> tuple[RecipeQuery, ...]:
        """The queries, in the order of the release."""
        names = {query_name(name) for name in self.queries} or set(PERSONS.queries)
        return tuple(RecipeQuery(name, self.shape) for name in PERSONS.queries if name in names)

    @cached_property
    def seeds(self) -> list[np.random.SeedSequence]:
        """Seed of the state, then one for every county."""
        return _child_seeds(seed_sequence(self.seed), 1 + self.county_number)

    @property
    def county_number(self) -> int:
        """Number of counties."""
        if self.counties is not None:
            return int(self.counties)
        return min(max(1, round(self.blocks / 4000)), 999)

    @cached_property
    def chunks(self) -> list[list[Chunk]]:
        """Chunks of every county, each with a seed of its own: its contents do not depend on other chunks."""
        rng = np.random.default_rng(_child_seeds(self.seeds[0], 2)[0])
        sizes = blocks_per_county(self.blocks, self.county_number, rng)
        chunks = []
        for county, (blocks, seed) in enumerate(zip(sizes.tolist(), self.seeds[1:], strict=True)):
            cuts = [min(CHUNK, blocks - start) for start in range(0, blocks, CHUNK)]
            _, *seeds = _child_seeds(seed, 1 + len(cuts))
            chunks.append([Chunk(county, i, n, s) for i, (n, s) in enumerate(zip(cuts, seeds, strict=True))])
        if max(map(len, chunks)) > 99:
            raise ValueError(f"a county may have {99 * CHUNK} blocks at most: ask for more than {len(chunks)} counties")
        return chunks

    def noise_seed(self, county: int | None) -> np.random.SeedSequence:
        """Seed of the noise of a county's own answers, or of those of the state and the nation (None)."""
        return _child_seeds(self.seeds[0], 2)[1] if county is None else _child_seeds(self.seeds[1 + county], 1)[0]

    def noise(self, query: RecipeQuery, level: int, deepest: int) -> DiscreteGaussian | None:
        """Noise of an answer with the summed budgets of the levels from `level` to `deepest`; None without budget.

        A unit with an only child also gets the budgets of the bypassed levels below it.
        """
        names = ("nation" if name == "US" else name for name in LEVELS[level : deepest + 1])
        rho = sum((PERSONS.rho_star(name, query.name) for name in names), Fraction(0))
        return DiscreteGaussian.from_rho(rho, cells=2) if rho else None

    @property
    def area_number(self) -> int:
        """Number of American Indian areas, which are the last counties."""
        return self.county_number // 4 if self.areas is None else int(self.areas)

    def is_area(self, county: int) -> bool:
        """True if a county is an American Indian area."""
        return county >= self.county_number - self.area_number

    def code(self, county: int) -> str:
        """Geocode of a county, or of an American Indian area."""
        if self.is_area(county):
            return f"1{STATE}0{county - self.county_number + self.area_number + 1:04d}"
        return f"0{STATE}10{county + 1:03d}"


def _child_seeds(seed: np.random.SeedSequence, number: int) -> list[np.random.SeedSequence]:
    """Child seeds of a seed, the same on every call."""
    return seed_sequence(seed).spawn(number)
