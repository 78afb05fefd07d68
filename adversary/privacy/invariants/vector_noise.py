"""Noise for a whole vector or table at once: releases, densities on the span of the noise, and norm balls.

Noise of lower dimension than the table has no density on all cells: it has one on its span, with respect to Lebesgue
measure there, and none off it. Norm-ball noise is a radius times a uniform point of a convex body (Hardt and Talwar
2010, "On the geometry of differential privacy"); Cho and Awan, Propositions 6 and 7, with their exponent's sign.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from adversary._core import Floats, check_number, scalar_or_array
from adversary.privacy.definitions import NoPrivacy, PureDP
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.invariants.sensitivities import Sensitivities


class VectorNoise(ABC):
    """Additive noise for a vector of cells.

    To write one: `shape`, `dimension`, `on_span`, `log_density`, `draw`, `guarantee`, `under(space)` and
    `expected_cost`. Values and releases are arrays (..., *shape) or, if they do not end so, flat: (..., cells).
    """

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one value, (cells,) or (rows, columns)."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """s, the dimension of the span of the noise."""

    @abstractmethod
    def on_span(self, noise: Floats, size: Any = 0.0) -> Any:
        """Whether noise (..., cells), a difference of numbers of this size, lies on the span: truth values (...)."""

    @abstractmethod
    def log_density(self, noise: Floats) -> Floats:
        """Log density of noise (..., cells) on the span, with respect to s-dimensional Lebesgue measure there."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Noise draws, (count, cells)."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee for the changes it was made for."""

    @abstractmethod
    def under(self, space: Sensitivities) -> Guarantee:
        """The guarantee for the changes of another space; no privacy for changes off the span of the noise."""

    @property
    @abstractmethod
    def expected_cost(self) -> float:
        """Expected l_2 length of the noise, in people."""

    @property
    def cells(self) -> int:
        """Number of entries of one value."""
        return prod(self.shape)

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Any = None) -> Any:
        """Simulated releases of a value, `size` of them in front: (*size, *value.shape).

        For audits: a genuine publication needs an exact sampler on a secure source.
        """
        centre = check_number("value", value)
        flat = self._flat("value", centre)
        lead = () if size is None else tuple(np.atleast_1d(size).tolist())
        shape = (*lead, *flat.shape)
        noise = self.draw(rng, prod(shape[:-1])).reshape(shape)
        return (flat + noise).reshape(*lead, *centre.shape)

    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        """Log density of releases given values, on the span; -inf where release - value is off it; broadcasts.

        At dimension 0 it is a probability: 0 where the two agree.
        """
        y, x = (self._flat(name, check_number(name, a)) for name, a in (("release", release), ("value", value)))
        noise = y - x
        on = self.on_span(noise, np.maximum(np.abs(y).max(-1), np.abs(x).max(-1)))
        return scalar_or_array(np.where(on, self.log_density(np.where(np.isfinite(noise), noise, 0.0)), -np.inf))

    def _flat(self, name: str, x: Floats) -> Floats:
        """The cells along one last axis."""
        k = len(self.shape)
        if x.shape[x.ndim - k :] == self.shape:
            return x.reshape(*x.shape[: x.ndim - k], self.cells)
        if x.ndim and x.shape[-1] == self.cells:
            return x
        raise ValueError(f"{name} must end in the shape {self.shape} or in {self.cells} cells, got shape {x.shape}")


class NormBall(VectorNoise):
    """Noise with density proportional to exp(-rate ||v||) on its span: a Gamma(s + 1) radius over the rate, times a
    uniform point of the unit ball.

    log density = s log(rate) - log Gamma(s + 1) - log vol(ball) - rate ||v||. A change u costs at most rate ||u||.
    To write one: `rate`, `length(vector)`, `log_volume`, `inside(rng, count)` and `mean_norm` besides the span.
    """

    @property
    @abstractmethod
    def rate(self) -> float:
        """epsilon / Delta: nats per unit of the norm."""

    @abstractmethod
    def length(self, vector: Floats) -> Floats:
        """The norm of vectors (..., cells) known to be on the span."""

    @property
    @abstractmethod
    def log_volume(self) -> float:
        """Log of the volume of the unit ball on the span."""

    @abstractmethod
    def inside(self, rng: np.random.Generator, count: int) -> Floats:
        """Uniform points of the unit ball, (count, cells)."""

    @property
    @abstractmethod
    def mean_norm(self) -> float:
        """Expected l_2 length on the surface of the unit ball, under cone measure."""

    def norm(self, vector: ArrayLike) -> Any:
        """The norm of vectors (..., *shape); infinite off the span."""
        v = self._flat("vector", check_number("vector", vector))
        return scalar_or_array(np.where(self.on_span(v), self.length(v), np.inf))

    def log_density(self, noise: Floats) -> Floats:
        s = self.dimension
        return np.asarray(s * np.log(self.rate) - gammaln(s + 1) - self.log_volume - self.rate * self.length(noise))

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        radius = rng.gamma(self.dimension + 1, 1.0 / self.rate, size=count)
        return np.asarray(radius[:, None] * self.inside(rng, count), dtype=np.float64)

    @property
    def expected_cost(self) -> float:
        """(s / rate) E|w|, w on the surface of the unit ball under cone measure."""
        return self.dimension / self.rate * self.mean_norm

    def under(self, space: Sensitivities) -> Guarantee:
        """Pure DP with rate times the largest norm of a change."""
        largest = float(np.max(self.norm(space.vectors)))
        return PureDP(self.rate * largest) if np.isfinite(largest) else NoPrivacy()
