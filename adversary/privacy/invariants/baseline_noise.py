"""The usual noise for every cell of a table, which ignores that its margins are published.

Independent Gaussian noise and the l_1, l_2 and l_infinity mechanisms (Cho and Awan, section 5.2 and appendix B), each
for a stated sensitivity: what a curator would use who only divides the privacy parameter by the number of records that
may change.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erf, erfcx, gammaln

from adversary._core import Floats, check_positive, check_whole, one_number
from adversary.privacy.definitions import GaussianDP, PureDP
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.invariants.sensitivities import Sensitivities
from adversary.privacy.invariants.span_noise import chi_mean
from adversary.privacy.invariants.vector_noise import NormBall, VectorNoise

_LOG_Z = np.arange(-30.0, 42.0, 0.05)
_SERIES = 0.01


class OnCells(VectorNoise):
    """Noise on every cell of a table: its span is everything."""

    table: int | tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return _shape(self.table)

    @property
    def dimension(self) -> int:
        return self.cells

    def on_span(self, noise: Floats, size: Any = 0.0) -> Any:
        return np.isfinite(noise).all(-1)


@dataclass(frozen=True)
class CellGaussian(OnCells):
    """Independent Gaussian noise on every cell, with standard deviation Delta_2 / mu.

    Parameters
    ----------
    table : shape of the table, or a number of cells
    sensitivity : Delta_2, largest l_2 norm of a change, > 0
    mu : Gaussian DP parameter, > 0
    """

    table: int | tuple[int, ...]
    sensitivity: float
    mu: float

    def __post_init__(self) -> None:
        _check_calibration(self, "mu")

    @property
    def scale(self) -> float:
        """Standard deviation of a cell, in people."""
        return self.sensitivity / self.mu

    def log_density(self, noise: Floats) -> Floats:
        z = noise / self.scale
        return np.asarray(-0.5 * (z**2).sum(-1) - self.cells * np.log(self.scale * np.sqrt(2.0 * np.pi)))

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        return np.asarray(self.scale * rng.standard_normal((count, self.cells)))

    @property
    def guarantee(self) -> GaussianDP:
        return GaussianDP(self.mu)

    def under(self, space: Sensitivities) -> Guarantee:
        return GaussianDP(self.mu * space.norm(2) / self.sensitivity)

    @property
    def expected_cost(self) -> float:
        return self.scale * chi_mean(self.cells)


@dataclass(frozen=True)
class CellNorm(OnCells, NormBall):
    """Noise on every cell with density proportional to exp(-(epsilon / Delta_p) ||v||_p).

    Parameters
    ----------
    table : shape of the table, or a number of cells
    sensitivity : Delta_p, largest l_p norm of a change, > 0
    epsilon : nats, > 0
    """

    table: int | tuple[int, ...]
    sensitivity: float
    epsilon: float

    def __post_init__(self) -> None:
        _check_calibration(self, "epsilon")

    @property
    @abstractmethod
    def order(self) -> float:
        """p of the norm."""

    @property
    def rate(self) -> float:
        return self.epsilon / self.sensitivity

    def length(self, vector: Floats) -> Floats:
        return np.asarray(np.linalg.norm(vector, ord=self.order, axis=-1), dtype=np.float64)

    @property
    def guarantee(self) -> PureDP:
        return PureDP(self.epsilon)

    def under(self, space: Sensitivities) -> Guarantee:
        return PureDP(self.rate * space.norm(self.order))


@dataclass(frozen=True)
class L1Noise(CellNorm):
    """Independent Laplace noise of scale Delta_1 / epsilon on every cell.

    `sensitivity` is Delta_1.
    """

    order = 1.0

    @property
    def log_volume(self) -> float:
        return float(self.cells * np.log(2.0) - gammaln(self.cells + 1))

    def inside(self, rng: np.random.Generator, count: int) -> Floats:
        corners = rng.standard_exponential((count, self.cells + 1))
        signs = rng.choice((-1.0, 1.0), (count, self.cells))
        return np.asarray(signs * corners[:, 1:] / corners.sum(1, keepdims=True), dtype=np.float64)

    @property
    def mean_norm(self) -> float:
        """E|x| / d for independent x_i exponential, as the l_1 norm of x is Gamma(d)."""
        moments = (2.0, 24.0, 720.0)
        return mean_length(lambda z: np.sqrt(np.pi) / (2.0 * z) * erfcx(0.5 / z), moments, self.cells) / self.cells


@dataclass(frozen=True)
class L2Noise(CellNorm):
    """A uniform direction times a Gamma(cells) length over epsilon / Delta_2.

    `sensitivity` is Delta_2.
    """

    order = 2.0

    @property
    def log_volume(self) -> float:
        return float(0.5 * self.cells * np.log(np.pi) - gammaln(0.5 * self.cells + 1))

    def inside(self, rng: np.random.Generator, count: int) -> Floats:
        z = rng.standard_normal((count, self.cells))
        length = rng.random((count, 1)) ** (1.0 / self.cells)
        return np.asarray(length * z / np.linalg.norm(z, axis=1, keepdims=True), dtype=np.float64)

    mean_norm = 1.0


@dataclass(frozen=True)
class LInfinityNoise(CellNorm):
    """A uniform point of the cube times a Gamma(cells + 1) radius over epsilon / Delta_infinity.

    `sensitivity` is Delta_infinity.
    """

    @property
    def order(self) -> float:
        return float("inf")

    @property
    def log_volume(self) -> float:
        return float(self.cells * np.log(2.0))

    def inside(self, rng: np.random.Generator, count: int) -> Floats:
        return rng.uniform(-1.0, 1.0, (count, self.cells))

    @property
    def mean_norm(self) -> float:
        """(d + 1) / d times E|u| for u uniform on the cube."""
        d = self.cells
        moments = (1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0)
        return (d + 1) / d * mean_length(lambda z: np.sqrt(np.pi) / (2.0 * z) * erf(z), moments, d)


def mean_length(transform: Callable[[Floats], Floats], moments: tuple[float, float, float], count: int) -> float:
    """E sqrt(x_1^2 + ... + x_count^2) of independent x_i, from z -> E exp(-z^2 x^2) and the moments E x^2, x^4, x^6.

    E sqrt(S) = pi^(-1/2) times the integral over z > 0 of (1 - E exp(-z^2 S)) / z^2; trapezium rule in log z, with the
    series of the transform near 0, where one minus it would cancel. Relative error below 1e-9.
    """
    z = np.exp(_LOG_Z)
    t = z**2
    near = t * (moments[0] - t * (moments[1] / 2.0 - t * moments[2] / 6.0))
    log_transform = np.where(z < _SERIES, np.log1p(-np.minimum(near, 0.5)), np.log(transform(z)))
    integrand = -np.expm1(count * log_transform) / z
    return float(integrand.sum() * (_LOG_Z[1] - _LOG_Z[0]) / np.sqrt(np.pi))


def _shape(table: int | tuple[int, ...]) -> tuple[int, ...]:
    return tuple(np.atleast_1d(check_whole("table", table, minimum=1)).tolist())


def _check_calibration(noise: Any, parameter: str) -> None:
    _shape(noise.table)
    for name in ("sensitivity", parameter):
        check_positive(name, getattr(noise, name))
        object.__setattr__(noise, name, one_number(name, getattr(noise, name)))
