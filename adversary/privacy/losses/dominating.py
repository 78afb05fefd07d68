"""Lattice bounds on a privacy loss: from above by chords of its profile, from below by cells of its values.

Also group privacy of a loss, and the smallest loss that dominates several pairs of hypotheses given by their tails.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit

from adversary._core import SMALLEST, Floats, above_ties, as_array, check_number, labelled, scalar_or_array
from adversary.privacy.guarantee import Guarantee, group_of
from adversary.privacy.losses.derived_answers import Bracket
from adversary.privacy.losses.lattice import MARGIN, LatticeLoss, merge_atoms
from adversary.privacy.losses.loss import Expectation, PrivacyLoss, Route
from adversary.privacy.profiles import area_under, level_from_profile

# Tolerance within which masses add up to one.
_WHOLE = 1e-12

# Relative difference within which profiles are equal.
TIED = 1e-13
_DIGITS = 3e-16

# Number of values, pairs times arguments, that are computed at a time.
_AT_ONCE = 2**18


def lattice_above(guarantee: Guarantee, nodes: Floats) -> LatticeLoss:
    """Upper bound on a guarantee: the loss whose profile is linear in e^epsilon between the nodes.

    Between nodes a and b, Q(L > a) = (delta(a) - delta(b)) / (e^b - e^a). Left of 0 the profile with P and Q exchanged
    gives P's masses in the same way, so that both tails have relative accuracy (Doroshenko et al. 2022, "Connect the
    dots").

    Parameters
    ----------
    guarantee : with `delta` and `swapped`
    nodes : ascending losses in nats, 0 included
    """
    centre = int(np.searchsorted(nodes, 0.0))
    right, beyond_q = _outer_masses(as_array(guarantee.delta(nodes[centre:])), nodes[centre:])  # under P
    left, beyond_p = _outer_masses(as_array(guarantee.swapped.delta(-nodes[centre::-1])), -nodes[centre::-1])  # under Q
    infinite_p, infinite_q = float(guarantee.delta(nodes[-1])), float(guarantee.swapped.delta(-nodes[0]))
    # P(L > 0) = delta(0) + Q(L > 0).
    middle = max(0.0, 1.0 - float(guarantee.delta(0.0)) - beyond_q - beyond_p)
    with np.errstate(divide="ignore"):
        log_right, log_left, log_middle = np.log(right), np.log(left[::-1]), np.log(middle)
    outer = nodes[:centre], nodes[centre + 1 :]
    log_q = np.concatenate([log_left, [log_middle], log_right - outer[1]])
    log_p = np.concatenate([log_left + outer[0], [log_middle], log_right])
    return LatticeLoss(*merge_atoms(nodes, log_p, log_q), infinite_p, infinite_q, rounded=True)


def _outer_masses(delta: Floats, nodes: Floats) -> tuple[Floats, float]:
    """Masses under P of the nodes beyond the first, which is 0; and the total mass beyond 0 under Q.

    At nodes a < b < c, P(L = b) is (delta(a) - delta(b)) / (1 - e^(a - b)) - (delta(b) - delta(c)) / (e^(c - b) - 1).
    Masses under P are used because e^-node underflows for large nodes.
    """
    drop, gap = delta[:-1] - delta[1:], np.diff(nodes)
    with np.errstate(over="ignore"):
        after = np.append(drop / np.expm1(gap), 0.0)
    return np.maximum(drop / -np.expm1(-gap) - after[1:], 0.0), float(after[0])


def default_nodes(loss: PrivacyLoss, count: int = 1201) -> Floats:
    """Equally spaced losses, 0 included, over the range of a loss up to a mass of 1e-18."""
    high, low = loss.tail_end, loss.swapped.tail_end
    upper = int(np.clip(round(count * high / (high + low)), 8, count - 8))
    return np.concatenate([np.linspace(-low, 0.0, count - upper)[:-1], np.linspace(0.0, high, upper)])


def lattice_below(loss: PrivacyLoss, nodes: Floats) -> LatticeLoss:
    """Lower bound on a loss: the loss of its discretisation to cells between nodes, which is post-processing."""
    p, q = (as_array(tail) for tail in loss.tail(nodes))
    below_q, below_p = (as_array(tail) for tail in loss.swapped.tail(-nodes))
    # The mass of a cell is a difference of tails on its own side of 0, where these are small.
    upper = nodes >= 0.0
    cells = []
    for beyond, below in ((p, below_p), (q, below_q)):
        inner = np.where(upper[:-1], beyond[:-1] - beyond[1:], below[1:] - below[:-1])
        cells.append(np.maximum(np.concatenate([[below[0]], inner, [beyond[-1]]]), 0.0))
    with np.errstate(divide="ignore"):
        return LatticeLoss.from_log_probs(np.log(cells[0]), np.log(cells[1]))


class LargestLoss(PrivacyLoss):
    """Smallest loss that dominates several pairs of hypotheses: the loss with the maximum of their profiles.

    The maximum of profiles is the profile of a pair (Zhu, Dong and Wang 2022, Proposition 8). At every epsilon one pair
    attains it, and its tails there are those of the pair. Expectations are interpolated between a lower and an upper
    bound on 1,201 points; moments are those of the upper bound.

    Subclasses are dataclasses with `pairs`, `each_delta`, `each_behind`, `each_tail`, `maximum` and `swapped`.
    """

    route = Route.ROUNDED

    @property
    @abstractmethod
    def pairs(self) -> int:
        """Number of pairs."""

    @abstractmethod
    def each_delta(self, epsilon: Floats) -> Floats:
        """Profile of every pair at epsilon >= 0, (pair, epsilon)."""

    @abstractmethod
    def each_behind(self, epsilon: Floats) -> Floats:
        """Profile of Q against P of every pair at epsilon >= 0, (pair, epsilon)."""

    @abstractmethod
    def each_tail(self, threshold: Floats) -> tuple[Floats, Floats]:
        """(P(L > threshold), Q(L > threshold)) of every pair, (pair, threshold)."""

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        e = check_number("epsilon", epsilon)
        flat, delta = np.ravel(e), np.empty(np.size(e))
        for part in _parts(flat.size, self.pairs):
            here = flat[part]
            size, falls, below = np.abs(here), here < 0.0, np.zeros(here.size)
            if (~falls).any():
                below[~falls] = self.each_delta(size[~falls]).max(axis=0)
            if falls.any():
                below[falls] = self.each_behind(size[falls]).max(axis=0)
            delta[part] = np.where(falls, -np.expm1(-size) + np.exp(-size) * below, below)
        return scalar_or_array(np.clip(delta, 0.0, 1.0).reshape(np.shape(e)))

    def above_ties(self, threshold: Floats) -> Floats:
        """Threshold with an absolute margin for rounding, needed near 0, where the profiles of two pairs cross."""
        return above_ties(threshold, _DIGITS)

    @labelled
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        """Tail of the pair with the largest profile at the threshold; of tied pairs, the smallest tail under Q."""
        t = self.above_ties(check_number("threshold", threshold))
        flat, tails = np.ravel(t), np.empty((2, np.size(t)))
        for part in _parts(flat.size, self.pairs):
            here = np.clip(flat[part], -1e300, 1e300)
            p, q = self.each_tail(flat[part])
            delta, falls = np.empty(p.shape), here < 0.0
            if (~falls).any():
                delta[:, ~falls] = self.each_delta(here[~falls])
            if falls.any():
                delta[:, falls] = self.each_behind(-here[falls])
            best = np.where(delta >= delta.max(axis=0) * (1.0 - TIED), q, np.inf).argmin(axis=0)
            tails[:, part] = p[best, np.arange(best.size)], q[best, np.arange(best.size)]
        return scalar_or_array(tails[0].reshape(t.shape)), scalar_or_array(tails[1].reshape(t.shape))

    @property
    def bracket(self) -> Bracket:
        """Profile with a margin for rounding in a difference of two tails; power and tails without a margin."""

        def delta(epsilon: ArrayLike) -> tuple[Any, Any]:
            value = as_array(self.delta(epsilon))
            room = MARGIN * (value + as_array(self.tail(epsilon)[0]))
            return scalar_or_array(np.maximum(value - room, 0.0)), scalar_or_array(np.minimum(value + room, 1.0))

        return Bracket(self, delta, lambda level: (self.power(level),) * 2, lambda t: (self.tail(t)[0],) * 2)

    @cached_property
    def below(self) -> LatticeLoss:
        """Lower bound, on 1,200 cells."""
        nodes = default_nodes(self)
        return lattice_below(self, 0.5 * (nodes[1:] + nodes[:-1]))

    @cached_property
    def above(self) -> LatticeLoss:
        """Upper bound, on 1,201 nodes."""
        return lattice_above(self, default_nodes(self))

    @labelled
    def level(self, power: ArrayLike) -> Any:
        return level_from_profile(self, power)

    @property
    def auc(self) -> float:
        return area_under(self, 401)

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        """Weighted mean of the lower and the upper bound, whose leading errors are in the ratio -1 to 2."""
        below, above = (law.expect(function) for law in (self.below, self.above))
        p, q = ((2.0 * as_array(x) + as_array(y)) / 3.0 for x, y in zip(below, above, strict=True))
        return scalar_or_array(p), scalar_or_array(q)

    def log_moment(self, order: float) -> float:
        """Log moment of `above`: an upper bound for orders outside [-1, 0], for which it measures divergence."""
        return self.above.log_moment(order)

    @property
    def kl_divergence(self) -> float:
        """Divergence of `above`, an upper bound."""
        return self.above.kl_divergence


def _parts(size: int, pairs: int) -> list[slice]:
    """Slices of a long array of arguments, so that pairs times arguments stay within `_AT_ONCE`."""
    step = max(1, _AT_ONCE // pairs)
    return [slice(start, start + step) for start in range(0, size, step)]


@group_of.register(PrivacyLoss)
def group_lattice(loss: PrivacyLoss, size: int) -> LatticeLoss:
    """Group privacy of a loss: the iterated trade-off for hypotheses that differ in `size` records.

    P of one step is Q of the next (Dong, Roth and Su 2022, Theorem 2.14). On each segment of their common axis the two
    losses are constant and add up.

    Parameters
    ----------
    loss : for one record
    size : number of records, >= 1
    """
    one = (
        loss
        if isinstance(loss, LatticeLoss) and loss.losses.size <= 4000
        else lattice_above(loss.coarse, default_nodes(loss))
    )
    # An unbounded loss whose last mass underflows must not appear bounded.
    if loss.maximum == np.inf and one.infinite_p == 0.0:
        one = replace(one, infinite_p=SMALLEST)
    total = one
    for _ in range(size - 1):
        total = _chain(total, one)
    return total


def _chain(inner: LatticeLoss, outer: LatticeLoss) -> LatticeLoss:
    """Loss of two steps: the pair of Q of the inner step and P of the outer step."""
    inner_power = _log_odds(inner.log_p, inner.infinite_p, 0.0)
    outer_level = _log_odds(outer.log_q, 0.0, outer.infinite_q)
    ends = np.concatenate([inner_power, outer_level])
    # Clipped, so that a corner that is off by rounding does not create a new segment.
    ends = np.unique(np.clip(ends, inner_power[0], outer_level[-1]))
    low, high = ends[:-1], ends[1:]
    left = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 1.0) - 2.0)
    # A point inside each segment, also for infinite ends.
    piece = 0.5 * (left + np.where(np.isfinite(high), high, left + 2.0))
    inner_loss = inner.losses[::-1][np.clip(np.searchsorted(inner_power, piece) - 1, 0, inner.losses.size - 1)]
    outer_loss = outer.losses[::-1][np.clip(np.searchsorted(outer_level, piece) - 1, 0, outer.losses.size - 1)]
    mass = as_array(log_expit(high) + log_expit(-low) + np.log(-np.expm1(low - high)))
    infinite_p = float(outer.power(inner.infinite_p)) if inner.infinite_p else outer.infinite_p
    infinite_q = 1.0 - float(inner.level(1.0 - outer.infinite_q)) if outer.infinite_q else inner.infinite_q
    loss = inner_loss + outer_loss
    order = np.argsort(loss, kind="stable")
    atoms = merge_atoms(loss[order], (mass + outer_loss)[order], (mass - inner_loss)[order])
    return LatticeLoss(*atoms, infinite_p, infinite_q, inner.bounded and outer.bounded, rounded=True)


def _log_odds(log_mass: Floats, beyond: float, below: float) -> NDArray[np.longdouble]:
    """Log odds of the cumulative masses from the largest loss down, with relative accuracy at both ends.

    `beyond` and `below` are the masses above and below all losses. Masses down to exp(-2000) are represented. If the
    masses do not add up to one, as after rounding to a grid, they are capped at one.
    """
    with np.errstate(divide="ignore"):
        last, first = np.log(np.array([beyond, below], dtype=np.longdouble))
    tails = np.logaddexp.accumulate(np.concatenate([[last], log_mass[::-1]]))
    rests = np.logaddexp.accumulate(np.concatenate([[first], log_mass]))[::-1]
    if abs(np.exp(np.logaddexp(tails[-1], first)) - 1.0) > _WHOLE:
        tails = np.minimum(tails, 0.0)
        with np.errstate(divide="ignore"):
            rests = np.log1p(-np.exp(tails))
    return np.asarray(tails - rests)
