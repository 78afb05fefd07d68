"""A made-up population: tracts, block groups and blocks of a county that does not exist, and who lives in them.

Nothing here is data, or fitted to data. What it imitates is what makes inference on a spine hard: a third of the blocks
is empty, the sizes of the others have heavy tails, neighbours are alike, and most cells of a histogram are zero. Block
groups have 34 blocks on average and tracts 2.8 block groups, as in the United States.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from adversary._core import Floats, Integers

BLOCKS_PER_GROUP = 34.0

# A block number has three digits.
LARGEST_GROUP = 900

GROUPS_PER_TRACT = 2.76

# The number of a block group has one digit.
LARGEST_TRACT = 9

# Nursing facilities among the kinds of group quarters.
NURSING = 3


@dataclass(frozen=True)
class Settlement:
    """Some tracts: which block lies in which block group, which of these in which tract, and who lives in each block.

    Parameters
    ----------
    group : (block,) index of its block group, never falling
    tract : (group,) index of its tract, never falling
    people : (block, group quarters, age, ethnicity, race) counts
    facilities : (block, group quarters) housing units, then facilities of each kind; nobody lives where there is none
    """

    group: Integers
    tract: Integers
    people: Integers
    facilities: Integers


def sums(values: Integers, group: Integers) -> Integers:
    """Sums of consecutive rows with the same index; indices never fall and none is left out."""
    return np.add.reduceat(values, np.flatnonzero(np.diff(group, prepend=-1)), axis=0)


def county_blocks(blocks: int, counties: int, rng: np.random.Generator) -> Integers:
    """(county,) blocks of each, one at least: shares are lognormal."""
    weight = np.exp(rng.normal(0.0, 0.9, counties))
    return np.asarray(1 + rng.multinomial(blocks - counties, weight / weight.sum()), dtype=np.int64)


def settle(blocks: int, shape: tuple[int, int, int, int], rng: np.random.Generator) -> Settlement:
    """A settlement of so many blocks, counted by (group quarters, age, ethnicity, race).

    The first category of group quarters is households; shape (8, 2, 2, 63) is that of the redistricting release.
    """
    group = _part_index(blocks, 1 + rng.poisson(rng.gamma(1.5, (BLOCKS_PER_GROUP - 1) / 1.5, blocks)), LARGEST_GROUP)
    groups = int(group[-1]) + 1
    tract = _part_index(groups, 1 + rng.binomial(8, (GROUPS_PER_TRACT - 1) / 8, groups), LARGEST_TRACT)
    people, facilities = _people(group, tract, shape, rng)
    return Settlement(group, tract, people, facilities)


def _part_index(total: int, sizes: Integers, largest: int) -> Integers:
    """(total,) index of the part that each lies in, when parts of these sizes are filled one after the other."""
    return np.repeat(np.arange(sizes.size), np.minimum(sizes, largest))[:total]


def _people(
    group: Integers, tract: Integers, shape: tuple[int, int, int, int], rng: np.random.Generator
) -> tuple[Integers, Integers]:
    blocks, groups = group.size, tract.size
    town = (rng.normal(0.0, 0.6, int(tract[-1]) + 1)[tract] + rng.normal(0.0, 0.4, groups))[group]
    inhabited = rng.random(blocks) > expit(-0.7 - 0.8 * town)
    households = np.where(inhabited, np.ceil(np.exp(3.2 + 0.5 * town + rng.normal(0.0, 1.1, blocks))), 0)
    share = _shares(tract, shape[1:], rng)[group]
    people = np.zeros((blocks, shape[0], *share.shape[1:]), dtype=np.int64)
    people[:, 0] = _spread(households, share, rng)
    facilities = np.zeros((blocks, shape[0]), dtype=np.int64)
    facilities[:, 0] = np.where(inhabited, np.ceil(households / 2.4), rng.random(blocks) < 0.5)
    if shape[0] > 1:
        here = np.flatnonzero(rng.random(blocks) < 0.012)
        number = np.minimum(np.ceil(5 + 20 * rng.pareto(1.2, here.size)), 4000)
        kind = 1 + rng.integers(shape[0] - 1, size=here.size)
        people[here, kind] = _spread(number, _mostly_last_age(share[here]), rng)
        facilities[here, kind] = 1
    people = people.reshape(blocks, *shape)
    # where minors are a structural zero
    if shape[0] > NURSING:
        people[:, NURSING, -1] += people[:, NURSING, :-1].sum(axis=1)
        people[:, NURSING, :-1] = 0
    return people, facilities


def _shares(tract: Integers, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Random shares (group, age, ethnicity, race) of the kinds of people in each group; each group's sum to 1.

    Shares of ethnicities are the same throughout a tract; few races are common.

    Parameters
    ----------
    tract : index of each group's tract, rising
    shape : numbers of ages, ethnicities and races
    """
    ages, ethnicities, races = shape
    groups = tract.size
    age = _beta(ages, 40.0 * np.array([0.22, 0.78]), groups, rng)
    ethnicity = _beta(ethnicities, 7.0 * np.array([0.83, 0.17]), int(tract[-1]) + 1, rng)[tract]
    race = rng.dirichlet(0.1 + 6.0 * 0.4 ** np.arange(races), (groups, ethnicities))
    return age[:, :, None, None] * ethnicity[:, None, :, None] * race[:, None, :, :]


def _beta(categories: int, weight: Floats, size: int, rng: np.random.Generator) -> Floats:
    """(size, category) shares; an axis of one category has them all."""
    drawn = rng.dirichlet(weight, size)
    return np.asarray(drawn if categories == 2 else np.full((size, categories), 1.0 / categories), dtype=np.float64)


def _mostly_last_age(share: Floats) -> Floats:
    """Shares with nearly all of the last age."""
    ages = share.shape[1]
    old = np.full(ages, 0.04 / max(ages - 1, 1))
    old[-1] = 1.0 - old[:-1].sum()
    return np.asarray(share.sum(axis=1, keepdims=True) * old[:, None, None])


def _spread(number: Floats, share: Floats, rng: np.random.Generator) -> Integers:
    """(block, ...) multinomial counts."""
    flat = share.reshape(number.size, int(np.prod(share.shape[1:])))
    flat = flat / flat.sum(axis=1, keepdims=True)
    return np.asarray(rng.multinomial(number.astype(np.int64), flat), dtype=np.int64).reshape(share.shape)
