"""Canonical noise: additive noise whose trade-off function at a shift of one is exactly the guaranteed one.

A cdf F is a canonical noise distribution of a trade-off f (Awan and Vadhan 2023; Cho and Awan, Definition 35) if it is
symmetric about 0, T(F, F(. - m)) >= f for shifts m up to 1, with equality at 1, and the best test of a shift rejects
large values. Tests and estimates of a count have the most power when they are built on it. Here f(u) = T(P, Q)(u) is
the smallest type II error of tests of type I error 1 - u, in this package `guarantee.level(u)`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    TAIL_NATS,
    Floats,
    as_array,
    check_non_negative,
    check_number,
    check_probability,
    check_whole,
    format_number,
    one_number,
    scalar_or_array,
    solve_decreasing_each,
)
from adversary.privacy.definitions import ApproximateDP, GaussianDP, NoPrivacy, PureDP, pure_rho
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import PrivacyLoss, compose_losses, repeat_loss
from adversary.privacy.mechanisms import ContinuousNoise, Exact, Gaussian, Mechanism, root_of

# Midpoints of 2,048 cells of [-1/2, 1/2]: the midpoint rule then has a relative error of about 1e-7.
_CELL = (np.arange(2048) + 0.5) / 2048 - 0.5

# Difference of delta(epsilon) between a loss and its exchange, from quadrature and rounding, up to which it counts as
# symmetric.
_ASYMMETRY = 1e-9


class AbstractCanonicalNoise(ContinuousNoise):
    """Canonical noise for a count that one record moves by at most 1: unit of noise = unit of the count.

    To write one: `nominal_guarantee`, `upper_quantile`, and what any continuous noise needs. Shifted by k it has the
    trade-off of k records, f iterated: F(F^-1(u) - k).
    """

    __slots__ = ()

    @property
    @abstractmethod
    def nominal_guarantee(self) -> Guarantee:
        """The guarantee whose trade-off function the noise attains at a shift of one."""

    @abstractmethod
    def upper_quantile(self, mass: Floats) -> Floats:
        """Upper quantile of the noise: the x >= 0 with P(noise > x) = mass, for masses in (0, 1/2]."""

    def breaks(self, end: float) -> Floats:
        return np.asarray(np.arange(np.ceil(end) + 1.0) + 0.5)

    def ppf(self, probability: ArrayLike) -> Any:
        """Quantile of the noise.

        Raises
        ------
        ValueError : a probability that is not strictly between 0 and 1
        """
        u = check_number("probability", probability)
        if not ((u > 0.0) & (u < 1.0)).all():
            raise ValueError(f"probability must be strictly between 0 and 1, got {u[~((u > 0) & (u < 1))].ravel()[0]}")
        size = self.upper_quantile(np.minimum(u, 1.0 - u))
        return scalar_or_array(np.where(u < 0.5, -size, size))

    def draw(self, rng: np.random.Generator, shape: Any) -> Floats:
        """By inversion: a uniform mass of one tail, and a fair sign."""
        size = self.upper_quantile(0.5 * (1.0 - rng.random(shape)))
        return np.asarray(size * rng.choice((-1.0, 1.0), shape), dtype=np.float64)

    def total(self, count: int) -> Mechanism:
        n = int(check_whole("count", count, minimum=0))
        if n > 1:
            raise NotImplementedError(
                f"the distribution of a sum of {n} canonical noises is not derived: give the total its own"
            )
        return self if n else Exact()

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        """Privacy loss of a whole-number shift: that of the worst pair of the guarantee for so many records."""
        change, count = self.change(sensitivity, cells)
        shift = int(check_whole("sensitivity", change, minimum=0))
        return repeat_loss(self.nominal_guarantee.group(shift).worst_pair if shift else compose_losses([]), count)

    def rho(self, change: float = 1) -> float:
        """zCDP rho implied by the guarantee for `change` records; infinite where no theorem gives one."""
        shift = int(check_whole("change", change, minimum=0))
        group = self.nominal_guarantee.group(shift) if shift else None
        rho = 0.0 if group is None else group.implied_rho
        return pure_rho(group.loss_bound(0.0)) if group is not None and rho is None else float(rho)


@dataclass(frozen=True)
class CanonicalNoise(AbstractCanonicalNoise):
    """Canonical noise of any symmetric trade-off function, built piece by piece (Cho and Awan, Lemma 36).

    With c = (1 - advantage) / 2, the fixed point f(1 - c) = c, it is uniform with density 1 - 2c on [-1/2, 1/2], and
    F(x) = f(F(x + 1)) to the left, 1 - f(1 - F(x - 1)) to the right.

    Parameters
    ----------
    guarantee : one that is its trade-off (pure, approximate or Gaussian DP, their groups and compositions, none
        at all) or the loss of a pair, if it is symmetric

    Raises
    ------
    ValueError : nothing may be released, f(u) = u; or a loss whose distribution changes when P and Q are exchanged
    TypeError : a definition that is not determined by its trade-off (zCDP, Renyi, probabilistic DP)

    >>> noise = CanonicalNoise(GaussianDP(1.0))
    >>> round(noise.cdf(1.0, 0), 6), round(noise.sf(0.5, 0), 6)
    (0.841345, 0.308538)
    """

    guarantee: Guarantee

    def __post_init__(self) -> None:
        check_trade_off(self.guarantee)

    def describe(self) -> str:
        return f"canonical noise of {self.guarantee!r}"

    @property
    def nominal_guarantee(self) -> Guarantee:
        return self.guarantee

    @property
    def _height(self) -> float:
        """Density on [-1/2, 1/2], 1 - 2c."""
        return self.nominal_guarantee.advantage

    @property
    def variance(self) -> float:
        """Four times the integral of x P(noise > x) over x > 0, by the midpoint rule: to about 1e-7 of itself."""
        mass, total, k = 0.5 - self._height * _CELL, 0.0, 0
        half = _CELL > 0.0
        total += float((_CELL * mass)[half].sum())
        while mass[0] > 1e-18:
            k, mass = k + 1, as_array(self.nominal_guarantee.level(mass))
            total += float(((_CELL + k) * mass).sum())
        return 4.0 * total / _CELL.size

    def scaled(self, factor: float) -> CanonicalNoise:
        root_of(factor)
        try:
            return CanonicalNoise(self.guarantee.scaled(factor))
        except TypeError:
            raise ValueError(
                f"the canonical noise of {self.guarantee!r} has no budget to scale: give that of pure, approximate or "
                "Gaussian DP"
            ) from None

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        """Smallest whole number at which the density has fallen by `nats` from its peak, or no mass is left beyond."""
        mass, lost, k = np.array([0.5]), 0.0, 0
        while mass[0] > 0.0 and lost < nats:
            lost += float(_loss_at(self.nominal_guarantee.worst_pair, mass)[0])
            mass, k = as_array(self.nominal_guarantee.level(mass)), k + 1
        return float(max(k, 1))

    def log_survival(self, offset: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.log(self._survival(as_array(offset)))

    def _survival(self, x: Floats) -> Floats:
        """P(noise > x), any sign of x."""
        beyond = self._chain(np.abs(x))[0]
        return np.where(x >= 0.0, beyond, 1.0 - beyond)

    def log_noise(self, offset: Floats) -> Floats:
        """log(1 - 2c) minus the loss of the best test at each step outwards, as f' = e^-loss."""
        beyond, lost = self._chain(np.abs(as_array(offset)), losses=True)
        return np.where(beyond > 0.0, np.log(self._height) - lost, -np.inf)

    def _chain(self, x: Floats, *, losses: bool = False) -> tuple[Floats, Floats]:
        """P(noise > x) for x >= 0, by iterating f from [-1/2, 1/2] outwards; and the sum of the losses at each step.

        The second array is 0 unless `losses` are wanted: they cost a root search each.
        """
        steps = np.ceil(np.ravel(x) - 0.5)
        mass, lost = 0.5 - self._height * (np.ravel(x) - steps), np.zeros(np.size(x))
        done = 0
        while (live := np.flatnonzero((steps > done) & (mass > 0.0))).size:
            if losses:
                lost[live] += _loss_at(self.nominal_guarantee.worst_pair, mass[live])
            mass[live] = self.nominal_guarantee.level(mass[live])
            done += 1
        return mass.reshape(np.shape(x)), lost.reshape(np.shape(x))

    def upper_quantile(self, mass: Floats) -> Floats:
        c = 0.5 * (1.0 - self._height)
        u, steps = np.ravel(as_array(mass)).copy(), np.zeros(np.size(mass))
        while (live := np.flatnonzero(u < c)).size:
            u[live] = np.maximum(self.nominal_guarantee.power(u[live]), np.nextafter(u[live], 1.0))
            steps[live] += 1
        return (steps + (0.5 - u) / self._height).reshape(np.shape(mass))


@dataclass(frozen=True)
class Tulap(AbstractCanonicalNoise):
    """Truncated-uniform-Laplace: canonical noise of (epsilon, delta)-DP in closed form, for a count of sensitivity 1.

    At delta 0 it is the difference of two geometric variables plus a uniform on (-1/2, 1/2); at positive delta this
    distribution is truncated at `bound` (Awan and Slavkovic 2018; Cho and Awan, section 5.3).

    With b = e^-epsilon, A = (1 - b + 2 delta b) / (1 + b) and k = |x| to the nearest whole number, the density is A b^k
    while P(noise > |x|) = b^k (1/2 - A (|x| - k) - delta (e^(k epsilon) - 1) / (e^epsilon - 1)) is positive, 0 beyond.

    Parameters
    ----------
    epsilon : nats, >= 0
    delta : probability in [0, 1]; positive where epsilon is 0

    >>> noise = Tulap(1.0)
    >>> round(noise.cdf(1.0, 0), 6), round(noise.cdf(-2.0, 0), 6), round(noise.ppf(noise.cdf(1.0, 0)), 12)
    (0.81606, 0.067668, 1.0)
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_non_negative("epsilon", self.epsilon)
        check_probability("delta", self.delta)
        for name in ("epsilon", "delta"):
            object.__setattr__(self, name, one_number(name, getattr(self, name)))
        if self.epsilon == self.delta == 0.0:
            raise ValueError("epsilon or delta must be positive: at (0, 0) nothing may depend on the data")

    def describe(self) -> str:
        return f"Tulap, epsilon = {format_number(self.epsilon)}, delta = {format_number(self.delta)}"

    @property
    def nominal_guarantee(self) -> Guarantee:
        if self.delta == 1.0:
            return NoPrivacy()
        return ApproximateDP(self.epsilon, self.delta) if self.delta else PureDP(self.epsilon)

    @property
    def height(self) -> float:
        """A, the density at 0: the largest total variation of a shift by one."""
        b = np.exp(-self.epsilon)
        return float((-np.expm1(-self.epsilon) + 2.0 * self.delta * b) / (1.0 + b))

    @property
    def bound(self) -> float:
        """Largest value of the noise; infinite at delta 0."""
        return float(self.upper_quantile(np.zeros(()))) if self.delta else float("inf")

    @property
    def variance(self) -> float:
        """Variance: 2b / (1 - b)^2 + 1/12 at delta 0; the sum over cells of constant density otherwise."""
        if self.delta == 0.0:
            return float(2.0 * np.exp(-self.epsilon) / np.expm1(-self.epsilon) ** 2 + 1.0 / 12.0)
        k = np.arange(min(np.ceil(self.bound + 0.5), self.tail_radius(2.0 * TAIL_NATS) + 1.0))
        inner, outer = np.maximum(k - 0.5, 0.0), np.minimum(k + 0.5, self.bound)
        third = np.maximum(outer**3 - inner**3, 0.0) / 3.0
        return float(2.0 * self.height * (np.exp(-self.epsilon * k) @ third))

    def scaled(self, factor: float) -> Tulap:
        root = root_of(factor)
        return Tulap(self.epsilon * root, min(self.delta * root, 1.0))

    def breaks(self, end: float) -> Floats:
        inside = np.arange(np.ceil(min(end, self.bound)) + 1.0) + 0.5
        return np.append(inside, self.bound) if np.isfinite(self.bound) else inside

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        steps = np.ceil(nats / self.epsilon) if self.epsilon else np.inf
        return float(min(max(steps - 0.5, 0.5), self.bound))

    def log_survival(self, offset: Floats) -> Floats:
        outer = self._log_beyond(np.abs(as_array(offset)))
        with np.errstate(divide="ignore"):
            inner = np.log1p(-np.exp(outer))
        return np.where(as_array(offset) >= 0.0, outer, inner)

    def log_noise(self, offset: Floats) -> Floats:
        x = np.abs(as_array(offset))
        inside = np.isfinite(self._log_beyond(x))
        return np.where(inside, np.log(self.height) - self.epsilon * np.rint(np.where(inside, x, 0.0)), -np.inf)

    def _log_beyond(self, x: Floats) -> Floats:
        """log P(noise > x) for x >= 0."""
        k = np.rint(x)
        with np.errstate(divide="ignore", over="ignore"):
            left = 0.5 - self.height * (x - k) - (self.delta * self._geometric_sum(k) if self.delta else 0.0)
            return np.asarray(np.log(np.maximum(left, 0.0)) - self.epsilon * k)

    def _geometric_sum(self, k: Floats) -> Floats:
        """Geometric sum 1 + e^epsilon + ... + e^((k - 1) epsilon)."""
        if not self.epsilon:
            return k
        below = np.expm1(-k * self.epsilon) / np.expm1(-self.epsilon)
        # e^709 is the largest whole power of e that a double holds
        return np.asarray(np.exp(np.minimum((k - 1.0) * self.epsilon, 709.0)) * below)

    def upper_quantile(self, mass: Floats) -> Floats:
        """Upper quantile in closed form.

        The number k of whole cells is the smallest at which b^k (c - delta (e^(k epsilon) - 1) / (e^epsilon - 1)) is at
        most the mass; within a cell the density is constant, so the survival function is a line.
        """
        v, c = as_array(mass), 0.5 * (1.0 - self.height)
        gap = np.maximum(c - v, 0.0)
        if self.epsilon:
            with np.errstate(divide="ignore"):
                spread = np.log(self.delta) - self.epsilon - np.log(-np.expm1(-self.epsilon))
                grown = np.log(gap) - np.logaddexp(np.log(v), spread)
            k = np.ceil(np.logaddexp(0.0, grown) / self.epsilon)
        else:
            k = np.ceil(gap / self.delta)
        with np.errstate(divide="ignore"):
            left = np.exp(np.log(v) + self.epsilon * k) + (self.delta * self._geometric_sum(k) if self.delta else 0.0)
        return np.asarray(k + (0.5 - left) / self.height)


@singledispatch
def canonical_noise(guarantee: Guarantee) -> ContinuousNoise:
    """Canonical noise of a guarantee, in the simplest form known.

    `Tulap` for pure and approximate DP, and for no privacy at all (a uniform distribution); N(0, 1 / mu^2) for
    Gaussian DP; the general construction, `CanonicalNoise`, for the rest.

    Parameters
    ----------
    guarantee : one that is its trade-off, or the privacy loss of a pair, symmetric in P and Q

    Returns
    -------
    Additive noise for a count that one record moves by at most 1, in units of the count.

    Raises
    ------
    TypeError : not a Guarantee, or one that is not determined by its trade-off (zCDP, Renyi, probabilistic DP)
    ValueError : nothing that depends on the data may be released, or the trade-off is not symmetric

    References: Awan and Vadhan 2023; Cho and Awan, Definition 35 and Lemma 36.

    >>> canonical_noise(GaussianDP(2.0)), canonical_noise(PureDP(1.0))
    (Gaussian(sigma=0.5), Tulap(epsilon=1.0, delta=0.0))
    """
    return CanonicalNoise(guarantee)


@canonical_noise.register
def _(guarantee: NoPrivacy) -> ContinuousNoise:
    return Tulap(0.0, 1.0)


@canonical_noise.register(PureDP)
@canonical_noise.register(ApproximateDP)
def _(guarantee: PureDP | ApproximateDP) -> ContinuousNoise:
    check_trade_off(guarantee)
    return Tulap(**guarantee.parameters)


@canonical_noise.register
def _(guarantee: GaussianDP) -> ContinuousNoise:
    check_trade_off(guarantee)
    return Gaussian(1.0 / guarantee.mu)


def check_trade_off(guarantee: Guarantee) -> None:
    """Refuse a guarantee without canonical noise (TypeError or ValueError): see `CanonicalNoise`."""
    if not isinstance(guarantee, Guarantee):
        raise TypeError(f"canonical noise is made for a Guarantee, got {guarantee!r}")
    try:
        guarantee.worst_pair  # noqa: B018
    except TypeError:
        raise TypeError(
            f"{guarantee.definition} is not determined by its trade-off, and noise that attains that might violate "
            "the definition: give pure, approximate or Gaussian DP"
        ) from None
    if not guarantee.advantage > 0.0:
        raise ValueError(f"{guarantee!r} allows no release that depends on the data: it has no canonical noise")
    e = np.linspace(0.0, 30.0, 301)
    if (
        guarantee.swapped is not guarantee
        and np.abs(guarantee.delta(e) - guarantee.swapped.delta(e)).max() > _ASYMMETRY
    ):
        raise ValueError(
            "the loss must have the same distribution when P and Q are exchanged: its trade-off is not symmetric"
        )


def _loss_at(pair: PrivacyLoss, power: Floats) -> Floats:
    """Critical value, in nats, of the likelihood-ratio test of each power: the t with P(loss > t) = power.

    It is not negative: powers are at most 1 - c, the fixed point of the trade-off.
    """
    return solve_decreasing_each(lambda t: as_array(pair.tail(t)[0]) - power, power.size)
