"""Losses with countably many values, and the laws of that kind that dominate any loss: dots and chains.

The pair of pmfs is the object: every statement is a sum of positive terms over its atoms, so nothing cancels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversary._core import (
    Floats,
    as_array,
    check_non_negative,
    check_number,
    check_probability,
    exponential_excess,
    labelled,
    past_ties,
    scalar_or_array,
)
from adversary.privacy.guarantee import Guarantee, group_of
from adversary.privacy.losses.contour import MERGED, merge_atoms, merged_within, product
from adversary.privacy.losses.loss import Bracket, Expectation, PrivacyLoss

SUM_TOLERANCE = 1e-9
"""How far from one the probabilities of a pair may add up; they are rescaled within it."""


MARGIN = 5e-13
"""Relative margin of a certified answer for the rounding of masses given as double logarithms."""


_DIGITS = 3e-16


FAR = 11_000.0
"""Nats whose power of e extended precision still holds; farther out delta is bounded by P(L > epsilon)."""


@dataclass(frozen=True, eq=False)
class LatticeLoss(PrivacyLoss):
    """A loss with countably many values: `losses` ascending, log masses under P and Q, and the two infinite masses.

    Parameters
    ----------
    losses, log_p, log_q : arrays of one length; losses in nats
    infinite_p : P's mass where Q has none (L = +inf)
    infinite_q : Q's mass where P has none (L = -inf)
    bounded : False when the values run on for ever and only masses below exp(-745) were left out
    blur : by how much a loss may be off, relative to 1 + |loss|
    parts : the losses of other kinds this law was listed from, so that more can be composed in any order
    rounded : True when losses were moved to a grid, so that Q's masses, p e^-loss, need not add up to one

    Raises
    ------
    ValueError : arrays of several lengths, losses that do not rise, NaN, masses that do not add up to one within 1e-9
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

    def __post_init__(self) -> None:
        sizes = {np.shape(x) for x in (self.losses, self.log_p, self.log_q)}
        if len(sizes) != 1:
            raise ValueError(f"losses, log_p and log_q must have one length, got {sorted(sizes)}")
        if not np.all(self.losses[1:] > self.losses[:-1]):  # NaN included
            raise ValueError("losses must rise: sort them and merge equal ones, or use from_probs")
        for name, log_mass, infinite in (("p", self.log_p, self.infinite_p), ("q", self.log_q, self.infinite_q)):
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
        """From the log probabilities of each outcome under P and under Q."""
        log_p, log_q = (np.asarray(x, dtype=np.float64) for x in (log_p, log_q))
        if log_p.shape != log_q.shape:
            raise ValueError(f"log_p and log_q must list the same outcomes, got {log_p.size} and {log_q.size}")
        both = np.isfinite(log_p) & np.isfinite(log_q)
        only_p = float(np.exp(log_p[np.isneginf(log_q) & np.isfinite(log_p)]).sum())
        only_q = float(np.exp(log_q[np.isneginf(log_p) & np.isfinite(log_q)]).sum())
        atoms, spread = merged_within(log_p[both] - log_q[both], log_p[both], log_q[both])
        return cls(*atoms, only_p, only_q, bounded, blur=_DIGITS + spread)

    @classmethod
    def from_losses(cls, losses: Floats, log_p: Floats, log_q: Floats) -> Self:
        """From losses known to their last digit: differences of log probabilities cancel where losses are tiny."""
        return cls(*merged_within(losses, log_p, log_q, min(1.0, _largest(losses)))[0], blur=0.0)

    @classmethod
    def from_probs(cls, p: ArrayLike, q: ArrayLike) -> Self:
        """From the probabilities of the same outcomes under P and under Q.

        Raises
        ------
        ValueError : of two lengths, outside [0, 1], or not adding up to one within 1e-9

        >>> LatticeLoss.from_probs([0.95, 0.05, 0.0], [0.95, 0.0, 0.05]).pbdp_epsilon(0.05)
        inf
        """
        one, other = (_pmf(name, law) for name, law in (("p", p), ("q", q)))
        if one.shape != other.shape:
            raise ValueError(f"p and q must list the same outcomes, got {one.size} and {other.size}")
        with np.errstate(divide="ignore"):
            return cls.from_log_probs(np.log(one), np.log(other))

    @cached_property
    def _tails(self) -> tuple[NDArray[np.longdouble], ...]:
        """Masses at and beyond each atom under P and Q, and the sums over j > k of
        P(L >= l_j) (exp(-l_(j-1)) - exp(-l_j)); the finite part, with 0 behind the last. Extended precision keeps
        both the range and the last digits."""
        losses = self.losses.astype(np.longdouble)
        p, q = (_behind(np.exp(mass.astype(np.longdouble))) for mass in (self.log_p, self.log_q))
        sizes = np.exp(np.minimum(-losses[:-1], FAR))
        steps = p[1:-1] * sizes * -np.expm1(losses[:-1] - losses[1:])
        return p, q, np.append(_behind(steps), np.zeros(min(1, self.losses.size), np.longdouble))

    def past_ties(self, threshold: Floats) -> Floats:
        """What a loss must exceed to be greater than a threshold; short of the next atom, which is `MERGED` away."""
        return past_ties(threshold, min(self.blur, MERGED / 8.0) * (1.0 + np.minimum(np.abs(threshold), 1e300)))

    @labelled
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        first = np.searchsorted(self.losses, self.past_ties(check_number("threshold", threshold)), side="right")
        p, q, _ = self._tails
        # L = -inf, possible under Q only, is never above a threshold
        beyond_p = np.minimum(as_array(p[first]) + self.infinite_p, 1.0)
        return scalar_or_array(beyond_p), scalar_or_array(np.minimum(as_array(q[first]), 1.0))

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """Sum of P(L = l) (1 - e^(epsilon - l)) over l > epsilon, and the infinite mass: positive terms only."""
        e = check_number("epsilon", epsilon).astype(np.longdouble)
        first = np.searchsorted(self.losses, as_array(e), side="right")
        p, _, excess = self._tails
        e = np.where(first < self.losses.size, e, 0.0)
        next_loss = np.append(self.losses, 0.0)[first]
        finite = p[first] * -np.expm1(np.minimum(e - next_loss, 0.0)) + np.exp(np.minimum(e, FAR)) * excess[first]
        finite = np.where(e > FAR, p[first], finite)
        return scalar_or_array(np.clip(as_array(finite) + self.infinite_p, 0.0, 1.0))

    @property
    def bracket(self) -> Bracket:
        """A margin for rounding: of the masses, and of the losses, which moves delta by e^epsilon Q(L >= epsilon)."""

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

        return Bracket(of_delta=delta, of_power=power, of_tail=lambda threshold: (self.tail(threshold)[0],) * 2)

    @property
    def summands(self) -> tuple[PrivacyLoss, ...]:
        return self.parts or (self,)

    @cached_property
    def corners(self) -> tuple[Floats, Floats]:
        """(level, power) at the corners of the trade-off, from the largest loss down; randomised ties join them."""
        p, q, _ = self._tails
        level = np.concatenate([as_array(q[::-1]), [1.0]])
        power = np.concatenate([as_array(p[::-1]) + self.infinite_p, [1.0]])
        return np.minimum(level, 1.0), np.minimum(power, 1.0)

    @labelled
    def power(self, level: ArrayLike) -> Any:
        """The trade-off itself, linear between its corners (a test randomises inside an atom)."""
        a = check_probability("level", level)
        return scalar_or_array(np.where(a > 0.0, np.interp(a, *self.corners), self.infinite_p))

    @labelled
    def level(self, power: ArrayLike) -> Any:
        corner_level, corner_power = self.corners
        possible = np.flatnonzero(np.isfinite(self.log_p))  # below the first of them level rises for nothing
        last = self.losses.size - int(possible[0]) if possible.size else 0
        r = check_probability("power", power)
        found = np.interp(r, np.append(corner_power[:last], 1.0), corner_level[: last + 1])
        return scalar_or_array(np.where(r <= self.infinite_p, 0.0, found))

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
        terms = _weighed_excess(self.log_q, (order + 1.0) * self.losses)  # of a positive sum, as both laws add up to 1
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
    """Masses times e^x - 1 - x, where mass e^x is in range even if e^x is not."""
    near, mass = np.clip(x, -1.0, 1.0), np.exp(log_mass)
    return np.where(x == near, mass * exponential_excess(near), np.exp(log_mass + x) - mass * (1.0 + x))


def convolve_lattices(a: LatticeLoss, b: LatticeLoss) -> LatticeLoss:
    """The loss of two independent releases: every pair of atoms."""
    off = max(a.blur, b.blur)
    unit = min(1.0, _largest(a.losses) + _largest(b.losses) + off / _DIGITS)  # what equal sums differ by, in digits
    atoms, spread = product((a.losses, a.log_p, a.log_q), (b.losses, b.log_p, b.log_q), unit)
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
    """Probability that at least one of some independent events happens."""
    return reduce(lambda a, b: a + b - a * b, chances, 0.0)


NOTHING = LatticeLoss(np.zeros(1), np.zeros(1), np.zeros(1))
"""The loss of no release at all: 0."""


def _pmf(name: str, law: ArrayLike) -> Floats:
    mass = np.ravel(check_non_negative(name, law))
    total = float(mass.sum())
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise ValueError(f"{name} must add up to 1, got {total}")
    return mass / total


def _behind(mass: NDArray[np.longdouble]) -> NDArray[np.longdouble]:
    """Sums from each entry to the end, with 0 behind the last."""
    return np.append(np.cumsum(mass[::-1])[::-1], np.zeros(1, np.longdouble))


def lattice_above(guarantee: Guarantee, nodes: Floats) -> LatticeLoss:
    """The law whose profile joins `guarantee.delta` at the nodes by straight lines in e^epsilon: never below it.

    Between nodes a and b, Q(L > a) = (delta(a) - delta(b)) / (e^b - e^a). Left of 0 the profile with P and Q exchanged
    says the same of P, so both tails keep relative accuracy (Doroshenko et al. 2022, "Connect the dots").

    Parameters
    ----------
    nodes : ascending losses, 0 among them
    """
    centre = int(np.searchsorted(nodes, 0.0))
    right, beyond_q = _outer_masses(as_array(guarantee.delta(nodes[centre:])), nodes[centre:])  # under P
    left, beyond_p = _outer_masses(as_array(guarantee.swapped.delta(-nodes[centre::-1])), -nodes[centre::-1])  # under Q
    infinite_p, infinite_q = float(guarantee.delta(nodes[-1])), float(guarantee.swapped.delta(-nodes[0]))
    middle = max(0.0, 1.0 - float(guarantee.delta(0.0)) - beyond_q - beyond_p)  # P(L > 0) = delta(0) + Q(L > 0)
    with np.errstate(divide="ignore"):
        log_right, log_left, log_middle = np.log(right), np.log(left[::-1]), np.log(middle)
    outer = nodes[:centre], nodes[centre + 1 :]
    log_q = np.concatenate([log_left, [log_middle], log_right - outer[1]])
    log_p = np.concatenate([log_left + outer[0], [log_middle], log_right])
    return LatticeLoss(*merge_atoms(nodes, log_p, log_q), infinite_p, infinite_q, rounded=True)


def _outer_masses(delta: Floats, nodes: Floats) -> tuple[Floats, float]:
    """Masses under P of the nodes beyond the first, which is 0; and of all that lies beyond it, under Q.

    Under P, as e^-node leaves the range of doubles where nodes are large: P(L = b) is
    (delta(a) - delta(b)) / (1 - e^(a - b)) - (delta(b) - delta(c)) / (e^(c - b) - 1) at nodes a < b < c.
    """
    drop, gap = delta[:-1] - delta[1:], np.diff(nodes)
    with np.errstate(over="ignore"):
        after = np.append(drop / np.expm1(gap), 0.0)
    return np.maximum(drop / -np.expm1(-gap) - after[1:], 0.0), float(after[0])


def default_nodes(loss: PrivacyLoss, count: int = 1201) -> Floats:
    """Losses from one end of the law to the other, 0 among them: beyond them less than 1e-18 lies."""
    high, low = loss.reach, loss.swapped.reach
    upper = int(np.clip(round(count * high / (high + low)), 8, count - 8))
    return np.concatenate([np.linspace(-low, 0.0, count - upper)[:-1], np.linspace(0.0, high, upper)])


@group_of.register(PrivacyLoss)
def group_lattice(loss: PrivacyLoss, size: int) -> LatticeLoss:
    """A pair of hypotheses `size` steps of this loss apart: the trade-off iterated.

    Dong, Roth and Su 2022, Theorem 2.14. Where two steps meet, P of one is Q of the next: on a piece of that common
    axis losses add and masses follow.
    """
    one = (
        loss if isinstance(loss, LatticeLoss) and loss.losses.size <= 4000 else lattice_above(loss, default_nodes(loss))
    )
    total = one
    for _ in range(size - 1):
        total = _chain(total, one)
    return total


def _chain(inner: LatticeLoss, outer: LatticeLoss) -> LatticeLoss:
    """From Q of the inner pair to P of the outer one."""
    inner_power, outer_level = inner.corners[1][:-1], outer.corners[0][:-1]
    ends = np.concatenate([inner_power, outer_level])
    ends = np.unique(
        np.clip(ends, inner_power[0], outer_level[-1])
    )  # clipped: a corner off by one digit stays a corner
    piece, width = 0.5 * (ends[1:] + ends[:-1]), np.diff(ends)
    inner_loss = inner.losses[::-1][np.clip(np.searchsorted(inner_power, piece) - 1, 0, inner.losses.size - 1)]
    outer_loss = outer.losses[::-1][np.clip(np.searchsorted(outer_level, piece) - 1, 0, outer.losses.size - 1)]
    with np.errstate(divide="ignore"):
        mass = np.log(width)
    infinite_p = float(outer.power(inner.infinite_p)) if inner.infinite_p else outer.infinite_p
    infinite_q = 1.0 - float(inner.level(1.0 - outer.infinite_q)) if outer.infinite_q else inner.infinite_q
    loss = inner_loss + outer_loss
    order = np.argsort(loss, kind="stable")
    atoms = merge_atoms(loss[order], (mass + outer_loss)[order], (mass - inner_loss)[order])
    return LatticeLoss(*atoms, infinite_p, infinite_q, inner.bounded and outer.bounded, rounded=True)


def lattice_below(loss: PrivacyLoss, nodes: Floats) -> LatticeLoss:
    """The law of the cell between nodes into which the loss falls: never above the profile of the loss itself."""
    p, q = (as_array(tail) for tail in loss.tail(nodes))
    below_q, below_p = (as_array(tail) for tail in loss.swapped.tail(-nodes))
    upper = nodes >= 0.0  # a cell's mass from the tail on its own side of 0
    cells = []
    for beyond, below in ((p, below_p), (q, below_q)):
        inner = np.where(upper[:-1], beyond[:-1] - beyond[1:], below[1:] - below[:-1])
        cells.append(np.maximum(np.concatenate([[below[0]], inner, [beyond[-1]]]), 0.0))
    with np.errstate(divide="ignore"):
        return LatticeLoss.from_log_probs(np.log(cells[0]), np.log(cells[1]))
