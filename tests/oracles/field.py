"""PyMC models of the field whose latents are discrete, and P(in | release) from a list of all their states.

Every state is one row: its probability, the cells that would be published without noise, and the target.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import scipy.stats as st
from numpy.typing import NDArray

import adversary as adv
from adversary.models.noise import released

NOISE = adv.Geometric(0.9)
SHARE = np.array([0.5, 0.3, 0.2])

State = tuple[float, NDArray[np.float64], int]


class FieldModel(NamedTuple):
    """A model, and its states one by one."""

    build: Callable[[], pm.Model]
    states: Callable[[], Iterator[State]]

    def posterior(self, release: NDArray[np.int64]) -> float:
        """P(in | release), by a sum over all states."""
        masses = [0.0, 0.0]
        for chance, cells, target in self.states():
            masses[target] += chance * float(np.exp(NOISE.log_prob(release, cells).sum()))
        return masses[1] / sum(masses)


def vectors(total: int, cells: int) -> NDArray[np.int64]:
    """Counts that add up to a total."""
    return np.array([c for c in itertools.product(range(total + 1), repeat=cells) if sum(c) == total])


def _multinomial() -> pm.Model:
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.3)
        others = pm.Multinomial("others", 4, SHARE)
        released("noisy", NOISE, others + present * np.array([1, 0, 0]))
    return model


def _multinomial_states() -> Iterator[State]:
    for counts, present in itertools.product(vectors(4, 3), (0, 1)):
        chance = st.multinomial(4, SHARE).pmf(counts) * (0.3 if present else 0.7)
        yield chance, counts + present * np.array([1, 0, 0]), present


_BLOCKS = (2, 3)


def _blocks() -> pm.Model:
    with pm.Model(coords={"block": [1, 2], "race": ["x", "y", "z"]}) as model:
        record = pm.Categorical("record", SHARE)
        others = pm.DirichletMultinomial("others", n=np.array(_BLOCKS), a=4.0 * SHARE, dims=("block", "race"))
        pm.Deterministic("in", pm.math.eq(record, 0).astype("int64"))
        released("noisy", NOISE, pt.inc_subtensor(others[0, record], 1), dims=("block", "race"))
    return model


def _block_states() -> Iterator[State]:
    laws = [st.dirichlet_multinomial(4.0 * SHARE, n) for n in _BLOCKS]
    lists = (vectors(n, 3) for n in _BLOCKS)
    for *rows, record in itertools.product(*lists, range(3)):
        chance = SHARE[record] * np.prod([law.pmf(row) for law, row in zip(laws, rows, strict=True)])
        cells = np.array(rows)
        cells[0, record] += 1
        yield float(chance), cells, int(record == 0)


def _sample() -> pm.Model:
    """Four of nine people are in a sample; five of the nine have the trait, maybe the target among those sampled."""
    with pm.Model() as model:
        sampled = pm.HyperGeometric("sampled", N=9, k=5, n=4, shape=2)
        present = pm.Bernoulli("in", sampled[0] / 4.0)
        released("noisy", NOISE, pt.set_subtensor(sampled[1], sampled[1] + present))
    return model


def _sample_states() -> Iterator[State]:
    for a, b, present in itertools.product(range(5), range(5), (0, 1)):
        chance = st.hypergeom.pmf(a, 9, 5, 4) * st.hypergeom.pmf(b, 9, 5, 4) * (a / 4 if present else 1 - a / 4)
        yield float(chance), np.array([a, b + present]), present


FIELD: dict[str, FieldModel] = {
    "multinomial cells": FieldModel(_multinomial, _multinomial_states),
    "Dirichlet-multinomial blocks": FieldModel(_blocks, _block_states),
    "hypergeometric sample": FieldModel(_sample, _sample_states),
}
"""Models, by name."""
