"""Models that are audited against sums and integrals of their own: what an entry is, and what the entries share.

Nothing here uses the package's arithmetic: noise is written out, latents are listed or integrated on dense nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Released = Mapping[str, NDArray[Any]]
Noise = Callable[[Any], Floats]
"""Density of noise, of whole or of real numbers."""


@dataclass(frozen=True)
class Audited:
    """A model of the field with an oracle.

    Parameters
    ----------
    model : with its release left free, and a target called "in"
    released : names of the released variables
    masses : from releases (release, *shape) by name to their joint density with the target out and in, (2, release)
    prior : P(in = 1) before the release
    """

    model: pm.Model
    released: tuple[str, ...]
    masses: Callable[[Released], Floats]
    prior: float

    def log_odds(self, data: Released) -> Floats:
        """Of the target, given each release."""
        with np.errstate(divide="ignore"):
            out, present = np.log(self.masses(data))
        return np.asarray(present - out)


def geometric(epsilon: float) -> Noise:
    """The two-sided geometric law."""
    a = math.exp(-epsilon)
    return lambda k: (1 - a) / (1 + a) * a ** np.abs(k)


def discrete_gaussian(rho: float) -> Noise:
    """The discrete Gaussian law of variance parameter 1 / (2 rho)."""
    every = np.arange(-400, 401)
    total = np.exp(-rho * every**2.0).sum()
    return lambda k: np.exp(-rho * np.asarray(k) ** 2.0) / total


def laplace(scale: float) -> Noise:
    """The Laplace law."""
    return lambda x: np.exp(-np.abs(x) / scale) / (2 * scale)


def gaussian(sigma: float) -> Noise:
    """The normal law."""
    return lambda x: np.exp(-0.5 * (np.asarray(x) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))


def interval(low: float, high: float, size: int = 80) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss and Legendre."""
    x, w = np.polynomial.legendre.leggauss(size)
    return low + (high - low) * (x + 1) / 2, (high - low) * w / 2


def standard_normal(size: int = 60) -> tuple[Floats, Floats]:
    """Nodes of a standard normal law, and their probabilities."""
    x, w = interval(-8.5, 8.5, size)
    w = w * np.exp(-0.5 * x**2)
    return x, w / w.sum()


def of_density(nodes: tuple[Floats, Floats], density: Callable[[Floats], Any]) -> tuple[Floats, Floats]:
    """Nodes, and their probabilities under a density known up to a constant."""
    x, w = nodes
    w = w * np.asarray(density(x))
    return x, w / w.sum()


def product(*laws: tuple[Floats, Floats]) -> tuple[list[Floats], Floats]:
    """Values of independent latents at every combination of their nodes, and its probability."""
    grids = np.meshgrid(*(x for x, _ in laws), indexing="ij")
    weight = laws[0][1]
    for _, w in laws[1:]:
        weight = np.multiply.outer(weight, w)
    return [grid.ravel() for grid in grids], weight.ravel()


def seen(noise: Noise, released: ArrayLike, law: Floats, start: int = 0) -> Floats:
    """Density (node, release) of releases (release,) of counts with a law (node or 1, count) from `start` on."""
    counts = start + np.arange(law.shape[-1])
    return np.asarray(law @ noise(np.asarray(released)[None, :] - counts[:, None]))


def by_nodes(weight: Floats, chance: Floats, parts: Callable[[Released, int], Floats]) -> Callable[[Released], Floats]:
    """`Audited.masses` from nodes (node,), the chance of the target at each, and the density of releases there.

    Parameters
    ----------
    weight, chance : (node,)
    parts : of the releases and the target's value, (node or 1, release)
    """

    def masses(data: Released) -> Floats:
        pairs = ((0, weight * (1 - chance)), (1, weight * chance))
        return np.stack([_summed(w, parts(data, target)) for target, w in pairs])

    return masses


def _summed(weight: Floats, density: Floats) -> Floats:
    return weight @ density if len(density) > 1 else weight.sum() * density[0]


def by_states(
    chance: ArrayLike, target: ArrayLike, density: Callable[[Released], Floats]
) -> Callable[[Released], Floats]:
    """`Audited.masses` from states (state,) with the target's value in each, and the density (state, release) there."""
    weight, inside = np.asarray(chance, dtype=float), np.asarray(target) == 1

    def masses(data: Released) -> Floats:
        every = density(data)
        return np.stack([weight[mask] @ every[mask] for mask in (~inside, inside)])

    return masses


def cells(noise: Noise, released: NDArray[Any], counts: NDArray[Any]) -> Floats:
    """Density (state, release) of releases (release, cell) of counts (state, cell) with independent noise."""
    found = np.ones((len(counts), len(released)))
    for own, seen_one in zip(counts.T, released.T, strict=True):
        found *= noise(seen_one[None, :] - own[:, None])
    return found
