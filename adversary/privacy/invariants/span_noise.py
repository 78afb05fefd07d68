"""Noise that stays where the invariants leave room: the Gaussian and the optimal K-norm mechanism on a span.

Cho and Awan: a query published next to an invariant it determines varies on a subspace only (Proposition 25), noise
projected there protects as well (Proposition 26), and the K-norm mechanism of the hull of the sensitivity space is the
best K-norm mechanism there in the containment order (Theorem 31). The release then keeps the margins of the table.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from adversary._core import Floats, check_positive, check_whole, one_number
from adversary.privacy.definitions import GaussianDP, NoPrivacy, PureDP
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.invariants.sensitivities import Sensitivities
from adversary.privacy.invariants.vector_noise import NormBall, VectorNoise

_PROPOSALS = 1 << 14
"""Points proposed at a time."""


class OnSpan(VectorNoise):
    """Noise on the span of a sensitivity space, `space`: zero off it."""

    space: Sensitivities

    @property
    def shape(self) -> tuple[int, ...]:
        return self.space.shape

    @property
    def dimension(self) -> int:
        return self.space.rank

    def on_span(self, noise: Floats, size: Any = 0.0) -> Any:
        return self.space.on_span(noise, size)


@dataclass(frozen=True)
class SpanGaussian(OnSpan):
    """Gaussian noise on the span of a sensitivity space: N(0, (Delta_2 / mu)^2 P), P the projection (Algorithm 1).

    For one pair of databases the trade-off is that of mu |phi(X) - phi(Y)| / Delta_2, exactly (Lemma 43).

    Parameters
    ----------
    space : the changes to cover
    mu : Gaussian DP parameter, > 0

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
        """(Delta_2 / mu)^2 P, singular: (cells, cells)."""
        return self.scale**2 * self.space.projection

    @property
    def guarantee(self) -> GaussianDP:
        return GaussianDP(self.mu)

    def under(self, space: Sensitivities) -> Guarantee:
        """mu Delta_2' / Delta_2-Gaussian DP for another space on the span."""
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
class KNorm(OnSpan, NormBall):
    """The K-norm mechanism of a sensitivity space: density proportional to exp(-epsilon ||v||_K), K its convex hull.

    ||v||_K = min {c >= 0 : v in c K} on the span, infinite off it; the sensitivity is 1 (Theorem 31, Algorithm 2).
    Sampled exactly by rejection from a box along the basis of the space (Algorithm 3).

    Parameters
    ----------
    space : the changes to cover, of rank at most 8
    epsilon : nats, > 0
    tries : proposals for one draw after which `sample` gives up; an approximate draw would void the guarantee

    Raises
    ------
    ValueError : epsilon not positive, or a space of too high a rank
    RuntimeError : from `sample`, no proposal accepted in that many tries; whether it happens does not depend on data

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
        self.space.hull  # noqa: B018  refuses a rank too high
        _warn_if_exact(self.space)

    @property
    def acceptance(self) -> float:
        """Probability that one proposal is accepted: vol(K) / prod(2 c_i) along the basis, exact."""
        return self.space.hull.filled

    @property
    def rate(self) -> float:
        return self.epsilon

    @property
    def guarantee(self) -> PureDP:
        return PureDP(self.epsilon)

    def length(self, vector: Floats) -> Floats:
        return self.space.hull.gauge(self.space.along(vector))

    @property
    def log_volume(self) -> float:
        """In coordinates along the basis B it is vol(K); on the span sqrt(det(B B')) times that."""
        basis = self.space.basis
        return float(np.log(self.space.hull.volume) + 0.5 * np.linalg.slogdet(basis @ basis.T)[1])

    @property
    def mean_norm(self) -> float:
        return self.space.hull.mean_surface(self.space.basis)

    def inside(self, rng: np.random.Generator, count: int) -> Floats:
        hull, found = self.space.hull, np.empty((count, self.dimension))
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
            found[waiting[done]] = proposed[done, first[done]]
            waiting, tried = waiting[~done], tried + each
        return np.asarray(found @ self.space.basis, dtype=np.float64)


def chi_mean(dimension: int) -> float:
    """E|Z| of a standard normal in m dimensions: sqrt(2) Gamma((m + 1) / 2) / Gamma(m / 2); 0 at m = 0.

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
