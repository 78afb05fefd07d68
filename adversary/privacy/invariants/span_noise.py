"""Noise on the span of a sensitivity space, for tables with invariants: Gaussian and optimal K-norm mechanisms.

Given an invariant, a query varies on a subspace only (Cho and Awan, Proposition 25). Noise projected onto it gives the
same guarantee (Proposition 26), and the K-norm mechanism of the hull of the sensitivity space is the best K-norm
mechanism there in the containment order (Theorem 31). The release then preserves the margins of the table. Such noise
has a density with respect to Lebesgue measure on its span, and none on all cells.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from adversary._core import Floats, check_number, check_positive, check_whole, one_number, scalar_or_array
from adversary.privacy.definitions import GaussianDP, NoPrivacy, PureDP
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.invariants.sensitivities import Sensitivities

# Number of proposals per batch of the rejection sampler.
_PROPOSALS = 1 << 14


class VectorNoise(ABC):
    """Additive noise for a vector of cells, on the span of a sensitivity space, `space`.

    Subclasses define `log_density`, `draw`, `guarantee`, `under(space)` and `expected_cost`. Values and releases are
    arrays (..., *shape) or flat arrays (..., cells).
    """

    space: Sensitivities

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one value, (cells,) or (rows, columns)."""
        return self.space.shape

    @property
    def dimension(self) -> int:
        """Dimension s of the span of the noise."""
        return self.space.rank

    def on_span(self, noise: Floats, size: Any = 0.0) -> Any:
        """Mask (...) of noise vectors (..., cells) on the span, as differences of numbers of magnitude `size`."""
        return self.space.on_span(noise, size)

    @abstractmethod
    def log_density(self, noise: Floats) -> Floats:
        """Log density of noise (..., cells) on the span, with respect to s-dimensional Lebesgue measure there."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Random noise vectors, (count, cells)."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """Guarantee for the changes of `space`."""

    @abstractmethod
    def under(self, space: Sensitivities) -> Guarantee:
        """Guarantee for the changes of another space; `NoPrivacy` if some lie off the span of the noise."""

    @property
    @abstractmethod
    def expected_cost(self) -> float:
        """Expected l_2 length of the noise, in people."""

    @property
    def cells(self) -> int:
        """Number of entries of one value."""
        return prod(self.shape)

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Any = None) -> Any:
        """Simulated releases of a value, (*size, *value.shape).

        For audits only: a publication needs an exact sampler with a secure source of randomness.
        """
        centre = check_number("value", value)
        flat = self._flat("value", centre)
        lead = () if size is None else tuple(np.atleast_1d(size).tolist())
        shape = (*lead, *flat.shape)
        noise = self.draw(rng, prod(shape[:-1])).reshape(shape)
        return (flat + noise).reshape(*lead, *centre.shape)

    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        """Log density of releases given values, on the span; -inf if release - value lies off it. Broadcasts.

        At dimension 0 it is a log probability: 0 if release and value agree.
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


@dataclass(frozen=True)
class SpanGaussian(VectorNoise):
    """Gaussian noise on the span of a sensitivity space: N(0, (Delta_2 / mu)^2 P), with P the projection.

    For one pair of databases it satisfies Gaussian DP with mu |phi(X) - phi(Y)| / Delta_2, exactly.

    Parameters
    ----------
    space : the changes to cover
    mu : Gaussian DP parameter, > 0

    References: Cho and Awan, Algorithm 1 and Lemma 43.

    >>> from adversary.privacy.invariants import sensitivity_space
    >>> noise = SpanGaussian(sensitivity_space(3, 3, 2), mu=1.0)
    >>> noise.scale, round(noise.expected_cost, 6), round(noise.under(sensitivity_space(3, 3, 3)).mu, 6)
    (2.0, 3.759942, 1.224745)
    """

    space: Sensitivities
    mu: float

    def __post_init__(self) -> None:
        check_positive("mu", self.mu)
        object.__setattr__(self, "mu", one_number("mu", self.mu))
        _warn_if_exact(self.space)

    @property
    def scale(self) -> float:
        """Delta_2 / mu: standard deviation along any direction of the span, in people."""
        return self.space.norm(2) / self.mu

    @property
    def covariance(self) -> Floats:
        """Singular covariance matrix (Delta_2 / mu)^2 P, (cells, cells)."""
        return self.scale**2 * self.space.projection

    @property
    def guarantee(self) -> GaussianDP:
        return GaussianDP(self.mu)

    def under(self, space: Sensitivities) -> Guarantee:
        """Gaussian DP with mu Delta_2' / Delta_2 for another space on the span, of sensitivity Delta_2'."""
        if not np.all(self.on_span(space.basis)):
            return NoPrivacy()
        return GaussianDP(self.mu * space.norm(2) / self.space.norm(2) if space.rank else 0.0)

    @property
    def expected_cost(self) -> float:
        return self.scale * chi_mean(self.dimension)

    def log_density(self, noise: Floats) -> Floats:
        if not self.dimension:
            return np.zeros(noise.shape[:-1])
        z = noise @ self.space.orthonormal.T / self.scale
        return np.asarray(-0.5 * (z**2).sum(-1) - self.dimension * np.log(self.scale * np.sqrt(2.0 * np.pi)))

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        z = rng.standard_normal((count, self.dimension))
        return np.asarray(self.scale * z @ self.space.orthonormal, dtype=np.float64)


@dataclass(frozen=True)
class KNorm(VectorNoise):
    """K-norm mechanism of a sensitivity space: density proportional to exp(-epsilon ||v||_K), with K its convex hull.

    ||v||_K = min {c >= 0 : v in c K} on the span, infinite off it. The sensitivity in this norm is 1, and the loss of a
    change u is at most epsilon ||u||_K. A draw is a Gamma(s + 1) radius over epsilon times a uniform point of K (Hardt
    and Talwar 2010), sampled exactly by rejection from a box along the basis of the space.

    Parameters
    ----------
    space : the changes to cover, of rank at most 8
    epsilon : nats, > 0
    tries : largest number of proposals per draw of `sample`; an approximate draw would void the guarantee

    Raises
    ------
    ValueError : epsilon not positive, or a space of rank above 8
    RuntimeError : from `sample`, if no proposal is accepted in `tries`; this does not depend on the data

    References: Cho and Awan, Theorem 31 and Algorithms 2 and 3.

    >>> from adversary.privacy.invariants import sensitivity_space
    >>> noise = KNorm(sensitivity_space(2, 3, 2), epsilon=1.0)
    >>> round(noise.acceptance, 12), round(noise.expected_cost, 6), round(noise.norm([[1, 1, -2], [-1, -1, 2]]), 12)
    (0.75, 3.647918, 2.0)
    """

    space: Sensitivities
    epsilon: float
    tries: int = 1_000_000

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", one_number("epsilon", self.epsilon))
        check_whole("tries", self.tries, minimum=1)
        # Computed for its check of the rank.
        self.space.hull  # noqa: B018
        _warn_if_exact(self.space)

    @property
    def acceptance(self) -> float:
        """Exact probability that a proposal is accepted: vol(K) / prod(2 c_i) along the basis."""
        return self.space.hull.filled

    @property
    def guarantee(self) -> PureDP:
        return PureDP(self.epsilon)

    def under(self, space: Sensitivities) -> Guarantee:
        """Pure DP with epsilon times the largest norm of a change."""
        largest = float(np.max(self.norm(space.vectors)))
        return PureDP(self.epsilon * largest) if np.isfinite(largest) else NoPrivacy()

    def norm(self, vector: ArrayLike) -> Any:
        """K-norm of vectors (..., *shape); infinite off the span."""
        v = self._flat("vector", check_number("vector", vector))
        return scalar_or_array(np.where(self.on_span(v), self._gauge(v), np.inf))

    def _gauge(self, vector: Floats) -> Floats:
        """Gauge of vectors (..., cells) known to be on the span."""
        return self.space.hull.gauge(self.space.along(vector))

    def log_density(self, noise: Floats) -> Floats:
        """s log(epsilon) - log Gamma(s + 1) - log vol(K) - epsilon ||v||.

        The volume on the span is sqrt(det(B B')) times the volume in coordinates along the basis B.
        """
        s, basis = self.dimension, self.space.basis
        log_volume = np.log(self.space.hull.volume) + 0.5 * np.linalg.slogdet(basis @ basis.T)[1]
        return np.asarray(s * np.log(self.epsilon) - gammaln(s + 1) - log_volume - self.epsilon * self._gauge(noise))

    @property
    def expected_cost(self) -> float:
        """(s / epsilon) E|w|, with w on the surface of K under cone measure."""
        return self.dimension / self.epsilon * self.space.hull.mean_surface(self.space.basis)

    def draw(self, rng: np.random.Generator, count: int) -> Floats:
        radius = rng.gamma(self.dimension + 1, 1.0 / self.epsilon, size=count)
        return np.asarray(radius[:, None] * self._inside(rng, count), dtype=np.float64)

    def _inside(self, rng: np.random.Generator, count: int) -> Floats:
        """Uniform points of K, (count, cells)."""
        hull, inside_hull = self.space.hull, np.empty((count, self.dimension))
        waiting, tried, enough = np.arange(count), 0, int(np.ceil(2.0 / self.acceptance))
        while waiting.size:
            each = min(max(1, _PROPOSALS // waiting.size), enough, self.tries - tried)
            if each == 0:
                raise RuntimeError(
                    f"no proposal of {self.tries} fell inside the hull for {waiting.size} of {count} draws: acceptance "
                    f"is {self.acceptance:.3g}; raise tries or use SpanGaussian"
                )
            proposed = rng.uniform(-1.0, 1.0, (waiting.size, each, self.dimension)) * hull.box
            accepted = hull.gauge(proposed) <= 1.0
            done, first = accepted.any(1), accepted.argmax(1)
            inside_hull[waiting[done]] = proposed[done, first[done]]
            waiting, tried = waiting[~done], tried + each
        return np.asarray(inside_hull @ self.space.basis, dtype=np.float64)


def chi_mean(dimension: int) -> float:
    """Mean length E|Z| of a standard normal vector in m dimensions: sqrt(2) Gamma((m + 1) / 2) / Gamma(m / 2).

    Parameters
    ----------
    dimension : m >= 0; the mean is 0 at m = 0

    >>> round(chi_mean(4), 6)
    1.879971
    """
    m = int(check_whole("dimension", dimension, minimum=0))
    return float(np.sqrt(2.0) * np.exp(gammaln((m + 1) / 2.0) - gammaln(m / 2.0))) if m else 0.0


def _warn_if_exact(space: Sensitivities) -> None:
    if space.rank == 0:
        warnings.warn(
            "the sensitivity space is {0}: the invariants determine the query, and it is released exactly",
            RuntimeWarning,
            stacklevel=4,
        )
