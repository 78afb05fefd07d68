"""Random population: tracts, block groups and blocks of a county that does not exist, and the people in them.

Nothing here is data, or fitted to data. It has the features that make inference on a spine hard: a third of the blocks
are empty, the sizes of the others have heavy tails, neighbouring blocks are similar, and most cells of a histogram are
zero. Block groups have 34 blocks on average and tracts 2.8 block groups, as in the United States.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from adversary._core import Floats, Integers

# Average in the United States.
BLOCKS_PER_GROUP = 34.0

# Most blocks in a block group: a block number has three digits.
LARGEST_GROUP = 900

# Average in the United States.
GROUPS_PER_TRACT = 2.76

# Most block groups in a tract: the number of a block group has one digit.
LARGEST_TRACT = 9

# Index of nursing facilities among the kinds of group quarters.
NURSING = 3


@dataclass(frozen=True)
class Settlement:
    """Tracts with their block groups and blocks, and the people in each block.

    Parameters
    ----------
    group : (block,) index of its block group, non-decreasing
    tract : (group,) index of its tract, non-decreasing
    people : (block, group quarters, age, ethnicity, race) counts
    facilities : (block, group quarters) housing units, then facilities of each kind; no people without a facility
    """

    group: Integers
    tract: Integers
    people: Integers
    facilities: Integers


def sums_by_group(values: Integers, group: Integers) -> Integers:
    """(group, ...) sums of rows with the same index; indices are non-decreasing and none is skipped."""
    return np.add.reduceat(values, np.flatnonzero(np.diff(group, prepend=-1)), axis=0)


def blocks_per_county(blocks: int, counties: int, rng: np.random.Generator) -> Integers:
    """(county,) random number of blocks in each county, at least one, with lognormal shares."""
    weight = np.exp(rng.normal(0.0, 0.9, counties))
    return np.asarray(1 + rng.multinomial(blocks - counties, weight / weight.sum()), dtype=np.int64)


def random_settlement(blocks: int, shape: tuple[int, int, int, int], rng: np.random.Generator) -> Settlement:
    """Random settlement of `blocks` blocks, with people counted by (group quarters, age, ethnicity, race).

    The first category of group quarters is households; shape (8, 2, 2, 63) is that of the redistricting release.
    """
    group = _part_index(blocks, 1 + rng.poisson(rng.gamma(1.5, (BLOCKS_PER_GROUP - 1) / 1.5, blocks)), LARGEST_GROUP)
    groups = int(group[-1]) + 1
    tract = _part_index(groups, 1 + rng.binomial(8, (GROUPS_PER_TRACT - 1) / 8, groups), LARGEST_TRACT)
    people, facilities = _people(group, tract, shape, rng)
    return Settlement(group, tract, people, facilities)


def _part_index(total: int, sizes: Integers, largest: int) -> Integers:
    """(total,) index of the part of each element, if parts of these sizes (at most `largest`) are filled in turn."""
    return np.repeat(np.arange(sizes.size), np.minimum(sizes, largest))[:total]


def _people(
    group: Integers, tract: Integers, shape: tuple[int, int, int, int], rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Random (block, group quarters, age, ethnicity, race) counts, and (block, group quarters) facilities.

    Households have lognormal sizes with effects of tract and block group; 1.2 % of blocks have one group quarters
    facility, with a Pareto number of people.
    """
    blocks, groups = group.size, tract.size
    size_effect = (rng.normal(0.0, 0.6, int(tract[-1]) + 1)[tract] + rng.normal(0.0, 0.4, groups))[group]
    inhabited = rng.random(blocks) > expit(-0.7 - 0.8 * size_effect)
    households = np.where(inhabited, np.ceil(np.exp(3.2 + 0.5 * size_effect + rng.normal(0.0, 1.1, blocks))), 0)
    share = _shares(tract, shape[1:], rng)[group]
    people = np.zeros((blocks, shape[0], *share.shape[1:]), dtype=np.int64)
    people[:, 0] = _multinomial(households, share, rng)
    facilities = np.zeros((blocks, shape[0]), dtype=np.int64)
    facilities[:, 0] = np.where(inhabited, np.ceil(households / 2.4), rng.random(blocks) < 0.5)
    if shape[0] > 1:
        with_quarters = np.flatnonzero(rng.random(blocks) < 0.012)
        number = np.minimum(np.ceil(5 + 20 * rng.pareto(1.2, with_quarters.size)), 4000)
        kind = 1 + rng.integers(shape[0] - 1, size=with_quarters.size)
        people[with_quarters, kind] = _multinomial(number, _mostly_last_age(share[with_quarters]), rng)
        facilities[with_quarters, kind] = 1
    people = people.reshape(blocks, *shape)
    # minors in nursing facilities are a structural zero
    if shape[0] > NURSING:
        people[:, NURSING, -1] += people[:, NURSING, :-1].sum(axis=1)
        people[:, NURSING, :-1] = 0
    return people, facilities


def _shares(tract: Integers, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Random shares (group, age, ethnicity, race) of the people in each block group; they sum to 1 in each group.

    Shares of ethnicities are the same throughout a tract; the weights of races decay geometrically.

    Parameters
    ----------
    tract : (group,) index of its tract, non-decreasing
    shape : numbers of ages, ethnicities and races
    """
    ages, ethnicities, races = shape
    groups = tract.size
    age = _beta(ages, 40.0 * np.array([0.22, 0.78]), groups, rng)
    ethnicity = _beta(ethnicities, 7.0 * np.array([0.83, 0.17]), int(tract[-1]) + 1, rng)[tract]
    race = rng.dirichlet(0.1 + 6.0 * 0.4 ** np.arange(races), (groups, ethnicities))
    return age[:, :, None, None] * ethnicity[:, None, :, None] * race[:, None, :, :]


def _beta(categories: int, weight: Floats, size: int, rng: np.random.Generator) -> Floats:
    """(size, category) Dirichlet shares of two categories; equal shares for another number of categories."""
    drawn = rng.dirichlet(weight, size)
    return np.asarray(drawn if categories == 2 else np.full((size, categories), 1.0 / categories), dtype=np.float64)


def _mostly_last_age(share: Floats) -> Floats:
    """Shares of the same ethnicities and races, with 96 % of the people in the last age."""
    ages = share.shape[1]
    age_share = np.full(ages, 0.04 / max(ages - 1, 1))
    age_share[-1] = 1.0 - age_share[:-1].sum()
    return np.asarray(share.sum(axis=1, keepdims=True) * age_share[:, None, None])


def _multinomial(number: Floats, share: Floats, rng: np.random.Generator) -> Integers:
    """(block, ...) multinomial counts, `number` people in each block by its shares."""
    flat = share.reshape(number.size, int(np.prod(share.shape[1:])))
    flat = flat / flat.sum(axis=1, keepdims=True)
    return np.asarray(rng.multinomial(number.astype(np.int64), flat), dtype=np.int64).reshape(share.shape)
