"""Privacy losses with countably many values, as lists of atoms with their masses under P and Q.

All quantities are sums of positive terms over the atoms, without cancellation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversary._core import (
    Floats,
    above_ties,
    as_array,
    check_non_negative,
    check_number,
    check_probability,
    check_whole,
    exponential_excess,
    labelled,
    paired_arrays,
    scalar_or_array,
)
from adversary.privacy.losses.derived_answers import Bracket
from adversary.privacy.losses.loss import Expectation, PrivacyLoss, Route

# Tolerance for the sum of probabilities; within it they are rescaled to one.
SUM_TOLERANCE = 1e-9


# Relative margin of certified bounds, for rounding in masses given as logarithms in double precision.
MARGIN = 5e-13


_DIGITS = 3e-16

# Relative distance, to 1 + |loss|, within which losses are merged; for losses below 1, relative to their own size.
MERGED = 3e-14

_NEGLIGIBLE = -745.0

# Losses, log masses under P, log masses under Q.
Atoms = tuple[Floats, Floats, Floats]


FAR = 11_000.0
"""Nats whose exponential is within the range of extended precision; beyond, delta is bounded by P(L > epsilon)."""


@dataclass(frozen=True, eq=False)
class LatticeLoss(PrivacyLoss):
    """Privacy loss with countably many values, as a list of atoms.

    Parameters
    ----------
    losses : values in nats, ascending, (atom,)
    log_p, log_q : log masses under P and under Q, (atom,)
    infinite_p : mass under P of releases that are impossible under Q (L = +inf)
    infinite_q : mass under Q of releases that are impossible under P (L = -inf)
    bounded : True if no finite loss lies beyond the atoms, at either end, so that the last atom is the `maximum`. False
        if masses below exp(-745) were omitted beyond them: then `maximum` is infinite, and there is no bound with
        failure probability 0
    rounded : True if losses were rounded to a grid, so that Q's masses, p e^-loss, need not add up to one
    blur : rounding error of the losses, relative to 1 + |loss|
    parts : the losses whose sum was listed here, so that further composition does not depend on the order

    Raises
    ------
    ValueError : arrays of several lengths, losses that are not ascending, NaN, or masses that do not add up to one
        within 1e-9
    """

    losses: Floats
    log_p: Floats
    log_q: Floats
    infinite_p: float = 0.0
    infinite_q: float = 0.0
    bounded: bool = True
    rounded: bool = False
    blur: float = 5e-16
    parts: tuple[PrivacyLoss, ...] = ()
    route = Route.LISTED

    def __post_init__(self) -> None:
        atoms = {"losses": self.losses, "log_p": self.log_p, "log_q": self.log_q}
        for name, values in zip(atoms, paired_arrays(atoms), strict=True):
            object.__setattr__(self, name, as_array(values))
        sizes = {np.shape(x) for x in (self.losses, self.log_p, self.log_q)}
        if len(sizes) != 1:
            raise ValueError(f"losses, log_p and log_q must have one length, got {sorted(sizes)}")
        if not np.all(self.losses[1:] > self.losses[:-1]):  # NaN included
            raise ValueError("losses must rise: sort them and merge equal ones, or use from_probs")
        for name, log_mass, infinite in (("p", self.log_p, self.infinite_p), ("q", self.log_q, self.infinite_q)):
            # Losses far below 0 that were rounded to a grid may overflow under Q.
            with np.errstate(over="ignore"):
                total = float(np.exp(log_mass).sum()) + infinite
            if not (abs(total - 1.0) <= SUM_TOLERANCE or (self.rounded and total >= 0.0)):
                raise ValueError(f"the masses of {name}, the infinite one included, must add up to 1, got {total}")
        if not self.rounded and self.losses.size < 100_000:
            gap = np.abs(self.log_p - self.log_q - self.losses) / (1.0 + np.abs(self.losses))
            if not np.all(gap <= 1e-6):
                worst = int(np.argmax(gap))
                raise ValueError(
                    f"losses must be log_p - log_q, got {self.losses[worst]} for "
                    f"{self.log_p[worst]} - {self.log_q[worst]}"
                )

    @classmethod
    def from_log_probs(cls, log_p: Floats, log_q: Floats, *, bounded: bool = True) -> Self:
        """Loss from log probabilities of outcomes under P and under Q, (outcome,); labelled outcomes are aligned."""
        log_p, log_q = map(as_array, paired_arrays({"log_p": log_p, "log_q": log_q}))
        if log_p.shape != log_q.shape:
            raise ValueError(f"log_p and log_q must list the same outcomes, got {log_p.size} and {log_q.size}")
        both = np.isfinite(log_p) & np.isfinite(log_q)
        only_p = float(np.exp(log_p[np.isneginf(log_q) & np.isfinite(log_p)]).sum())
        only_q = float(np.exp(log_q[np.isneginf(log_p) & np.isfinite(log_q)]).sum())
        atoms, spread = merged_within(log_p[both] - log_q[both], log_p[both], log_q[both])
        return cls(*atoms, only_p, only_q, bounded, blur=_DIGITS + spread)

    @classmethod
    def from_losses(cls, losses: Floats, log_p: Floats, log_q: Floats) -> Self:
        """Loss from exact values of L, which differences of log probabilities would lose for tiny losses."""
        losses, log_p, log_q = map(as_array, paired_arrays({"losses": losses, "log_p": log_p, "log_q": log_q}))
        return cls(*merged_within(losses, log_p, log_q, min(1.0, _largest(losses)))[0], blur=0.0)

    @classmethod
    def from_probs(cls, p: ArrayLike, q: ArrayLike) -> Self:
        """Loss from probabilities of outcomes under P and under Q, (outcome,); labelled outcomes are aligned.

        Raises
        ------
        ValueError : different lengths or labels, values outside [0, 1], or sums that differ from one by more than 1e-9

        >>> LatticeLoss.from_probs([0.95, 0.05, 0.0], [0.95, 0.0, 0.05]).pbdp_epsilon(0.05)
        inf
        """
        one, other = (_pmf(name, law) for name, law in zip("pq", paired_arrays({"p": p, "q": q}), strict=True))
        if one.shape != other.shape:
            raise ValueError(f"p and q must list the same outcomes, got {one.size} and {other.size}")
        with np.errstate(divide="ignore"):
            return cls.from_log_probs(np.log(one), np.log(other))

    @cached_property
    def _tails(self) -> tuple[NDArray[np.longdouble], ...]:
        """Masses at and beyond each atom under P and under Q, and sums over j > k of
        P(L >= l_j) (exp(-l_(j-1)) - exp(-l_j)), each followed by 0; infinite losses excluded.

        Extended precision is needed for the range of exponents and the last digits.
        """
        losses = self.losses.astype(np.longdouble)
        p, q = (_behind(np.exp(mass.astype(np.longdouble))) for mass in (self.log_p, self.log_q))
        sizes = np.exp(np.minimum(-losses[:-1], FAR))
        steps = p[1:-1] * sizes * -np.expm1(losses[:-1] - losses[1:])
        return p, q, np.append(_behind(steps), np.zeros(min(1, self.losses.size), np.longdouble))

    def above_ties(self, threshold: Floats) -> Floats:
        """Threshold plus the rounding error, so that ties do not exceed it; the margin stays below `MERGED`."""
        return above_ties(threshold, min(self.blur, MERGED / 8.0) * (1.0 + np.minimum(np.abs(threshold), 1e300)))

    @labelled
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        first = np.searchsorted(self.losses, self.above_ties(check_number("threshold", threshold)), side="right")
        p, q, _ = self._tails
        # L = -inf, possible under Q only, never exceeds a threshold.
        beyond_p = np.minimum(as_array(p[first]) + self.infinite_p, 1.0)
        return scalar_or_array(beyond_p), scalar_or_array(np.minimum(as_array(q[first]), 1.0))

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """Sum of P(L = l) (1 - e^(epsilon - l)) over l > epsilon, plus the infinite mass; all terms are positive."""
        e = check_number("epsilon", epsilon).astype(np.longdouble)
        first = np.searchsorted(self.losses, as_array(e), side="right")
        p, _, excess = self._tails
        e = np.where(first < self.losses.size, e, 0.0)
        next_loss = self.losses[np.minimum(first, self.losses.size - 1)] if self.losses.size else np.zeros(e.shape)
        finite = p[first] * -np.expm1(np.minimum(e - next_loss, 0.0)) + np.exp(np.minimum(e, FAR)) * excess[first]
        finite = np.where(e > FAR, p[first], finite)
        return scalar_or_array(np.clip(as_array(finite) + self.infinite_p, 0.0, 1.0))

    @property
    def bracket(self) -> Bracket:
        """Values with a margin for rounding in masses and losses; the slope of delta is e^epsilon Q(L >= epsilon)."""

        def delta(epsilon: ArrayLike) -> tuple[Any, Any]:
            e, value = np.clip(as_array(epsilon), -1e300, 1e300), as_array(self.delta(epsilon))
            moved = self.blur * (1.0 + np.abs(e))
            with np.errstate(over="ignore", invalid="ignore"):
                slope = np.exp(e + np.log(np.maximum(as_array(self.tail(e - moved)[1]), 1e-300)))
                shifted = np.minimum(moved * slope, 1.0)
            margin = MARGIN * value + np.where(np.isfinite(slope), shifted, 0.0)
            return scalar_or_array(np.maximum(value - margin, 0.0)), scalar_or_array(np.minimum(value + margin, 1.0))

        def power(level: ArrayLike) -> tuple[Any, Any]:
            value = as_array(self.power(level))
            return scalar_or_array(value * (1.0 - MARGIN)), scalar_or_array(np.minimum(value * (1.0 + MARGIN), 1.0))

        return Bracket(self, delta, power, lambda threshold: (self.tail(threshold)[0],) * 2)

    @property
    def fingerprint(self) -> tuple[Any, ...]:
        """Key that is equal for losses with identical numbers."""
        arrays = tuple(x.tobytes() for x in (self.losses, self.log_p, self.log_q))
        return *arrays, self.infinite_p, self.infinite_q, self.bounded, self.rounded, self.blur

    @property
    def summands(self) -> tuple[PrivacyLoss, ...]:
        return self.parts or (self,)

    @cached_property
    def corners(self) -> tuple[Floats, Floats]:
        """(level, power) at the corners of the trade-off, from the largest loss down; linear between them."""
        p, q, _ = self._tails
        level = np.concatenate([as_array(q[::-1]), [1.0]])
        power = np.concatenate([as_array(p[::-1]) + self.infinite_p, [1.0]])
        return np.minimum(level, 1.0), np.minimum(power, 1.0)

    @labelled
    def power(self, level: ArrayLike) -> Any:
        """Exact trade-off, linear between its corners, where the test randomises at one atom."""
        a = check_probability("level", level)
        return scalar_or_array(np.where(a > 0.0, np.interp(a, *self.corners), self.infinite_p))

    @labelled
    def level(self, power: ArrayLike) -> Any:
        corner_level, corner_power = self.corners
        # Below the first atom possible under P the level increases without an increase of power.
        possible = np.flatnonzero(np.isfinite(self.log_p))
        last = self.losses.size - int(possible[0]) if possible.size else 0
        r = check_probability("power", power)
        level = np.interp(r, np.append(corner_power[:last], 1.0), corner_level[: last + 1])
        return scalar_or_array(np.where(r <= self.infinite_p, 0.0, level))

    @property
    def auc(self) -> float:
        level, power = self.corners
        return float(np.clip(np.diff(level) @ (power[1:] + power[:-1]) / 2.0, 0.5, 1.0))

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        value = function(self.losses)
        p, q = value @ np.exp(self.log_p), value @ np.exp(self.log_q)
        if self.infinite_p:
            p = p + self.infinite_p * function(np.array([np.inf]))[..., 0]
        if self.infinite_q:
            q = q + self.infinite_q * function(np.array([-np.inf]))[..., 0]
        return scalar_or_array(p), scalar_or_array(q)

    def log_moment(self, order: float) -> float:
        if self.infinite_p and order > 0:
            return float("inf")
        moment = float(np.logaddexp.reduce(self.log_p + order * self.losses))
        if self.rounded or order <= 0.0 or moment > 1e-3:
            return moment
        # E_Q of e^((s + 1) L) - 1 - (s + 1)(e^L - 1), a sum of positive terms, as both distributions add up to 1.
        terms = _weighed_excess(self.log_q, (order + 1.0) * self.losses)
        terms = terms - (order + 1.0) * _weighed_excess(self.log_q, self.losses)
        return float(np.log1p(np.maximum(terms, 0.0).sum() + order * self.infinite_q))

    @property
    def kl_divergence(self) -> float:
        if self.rounded or self.infinite_p:
            return super().kl_divergence
        return float(_weighed_excess(self.log_p, -self.losses).sum() + self.infinite_q)

    @cached_property
    def swapped(self) -> LatticeLoss:
        mirrored = -self.losses[::-1], self.log_q[::-1], self.log_p[::-1]
        turned = tuple(part.swapped for part in self.parts)
        return LatticeLoss(*mirrored, self.infinite_q, self.infinite_p, self.bounded, self.rounded, self.blur, turned)

    @property
    def maximum(self) -> float:
        if self.infinite_p or not self.bounded:
            return float("inf")
        return float(self.losses[-1]) if self.losses.size else 0.0


def _weighed_excess(log_mass: Floats, x: Floats) -> Floats:
    """Mass times (e^x - 1 - x), without overflow if mass e^x is representable."""
    near, mass = np.clip(x, -1.0, 1.0), np.exp(log_mass)
    return np.where(x == near, mass * exponential_excess(near), np.exp(log_mass + x) - mass * (1.0 + x))


def merge_atoms(losses: Floats, log_p: Floats, log_q: Floats) -> Atoms:
    """Atoms of `merged_within`."""
    return merged_within(losses, log_p, log_q)[0]


def merged_within(losses: Floats, log_p: Floats, log_q: Floats, unit: float = 1.0) -> tuple[Atoms, float]:
    """Finite atoms sorted by loss, with neighbours within MERGED (unit + |loss|) merged; and the largest merged gap.

    The gap is relative to unit + |loss|. Atoms below exp(-745) under both P and Q are dropped, except the smallest and
    the largest loss, which determine the certain bounds.
    """
    possible = np.maximum(log_p, log_q) > -np.inf
    losses, log_p, log_q = losses[possible], log_p[possible], log_q[possible]
    keep = np.maximum(log_p, log_q) > _NEGLIGIBLE
    if losses.size:
        keep[[np.argmin(losses), np.argmax(losses)]] = True
    order = np.argsort(losses[keep], kind="stable")
    losses, log_p, log_q = losses[keep][order], log_p[keep][order], log_q[keep][order]
    if losses.size == 0:
        return (losses, log_p, log_q), 0.0
    steps = np.diff(losses) / (unit + np.abs(losses[1:]))
    new = np.concatenate([[True], steps > MERGED])
    starts = np.flatnonzero(new)
    atoms = losses[starts], np.logaddexp.reduceat(log_p, starts), np.logaddexp.reduceat(log_q, starts)
    return atoms, float(steps[~new[1:]].max(initial=0.0))


def convolve_lattices(a: LatticeLoss, b: LatticeLoss) -> LatticeLoss:
    """Loss of two independent releases, from all pairs of atoms."""
    off = max(a.blur, b.blur)
    # Equal sums of losses differ by rounding of this size, in units of _DIGITS.
    unit = min(1.0, _largest(a.losses) + _largest(b.losses) + off / _DIGITS)
    both = (a.losses, b.losses), (a.log_p, b.log_p), (a.log_q, b.log_q)
    losses, log_p, log_q = (np.add.outer(x, y).ravel() for x, y in both)
    atoms, spread = merged_within(losses, log_p, log_q, unit)
    infinite = either([a.infinite_p, b.infinite_p]), either([a.infinite_q, b.infinite_q])
    return LatticeLoss(
        *atoms,
        *infinite,
        a.bounded and b.bounded,
        a.rounded or b.rounded,
        off + unit * _DIGITS + min(1.0, 2.0 * unit) * spread,
    )


def _largest(losses: Floats) -> float:
    return float(np.abs(losses).max(initial=0.0))


def either(chances: Iterable[float]) -> float:
    """Probability of at least one of several independent events."""
    return reduce(lambda a, b: a + b - a * b, chances, 0.0)


def repeat_product[T](base: T, times: int, unit: T, together: Callable[[T, T], T]) -> T:
    """`together` applied to `times` copies of one value, by repeated squaring.

    Parameters
    ----------
    base : value to combine with itself
    times : number of copies, >= 0
    unit : neutral element of `together`, the result for no copies
    together : associative operation of two values

    Returns
    -------
    base combined with itself `times` times.

    Raises
    ------
    ValueError : times is not a whole number >= 0

    >>> repeat_product(3, 4, 1, lambda a, b: a * b)
    81
    """
    times, total = int(check_whole("times", times, minimum=0)), unit
    while times:
        total = together(total, base) if times & 1 else total
        times >>= 1
        base = together(base, base) if times else base
    return total


NOTHING = LatticeLoss(np.zeros(1), np.zeros(1), np.zeros(1))
"""Loss of no release: 0 with certainty."""


def _pmf(name: str, law: ArrayLike) -> Floats:
    mass = np.ravel(check_non_negative(name, law))
    total = float(mass.sum())
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise ValueError(f"{name} must add up to 1, got {total}")
    return mass / total


def _behind(mass: NDArray[np.longdouble]) -> NDArray[np.longdouble]:
    """Sums from each entry to the end, followed by 0."""
    return np.append(np.cumsum(mass[::-1])[::-1], np.zeros(1, np.longdouble))
