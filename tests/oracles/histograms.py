"""Brute force for histograms of small blocks: all histograms of so many people, one after another.

Nothing is imported from the package.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp


def histograms_of(people: int, cells: int) -> Any:
    """(histogram, cell) every way to put so many people into the cells."""
    states = itertools.product(range(people + 1), repeat=cells)
    return np.array([state for state in states if sum(state) == people])


def shared(weights: Sequence[float], laws: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Log law of (state, leaf) counts that share one of several laws."""
    return lambda x: logsumexp([np.log(w) + law(x).sum(axis=1) for w, law in zip(weights, laws, strict=True)], axis=0)


def posterior(
    blocks: Sequence[Any],
    log_prior: Callable[[Any], Any],
    answers: Sequence[tuple[Sequence[int], Sequence[int], float, float]],
) -> tuple[Any, Any]:
    """All states (state, block, cell) of blocks with these histograms each, and their posterior probabilities.

    answers : (blocks, cells, noisy sum, variance) of the people of these cells in these blocks; variance 0 if exact
    """
    states = np.array(list(itertools.product(*blocks)))
    log = log_prior(states)
    for places, cells, noisy, variance in answers:
        gap = noisy - states[:, list(places)][:, :, list(cells)].sum(axis=(1, 2))
        log = np.where(gap == 0, log, -np.inf) if variance == 0 else log - 0.5 * gap**2 / variance
    return states, np.exp(log - logsumexp(log))
