"""Certified composition of discrete Gaussian losses, by contour.

`Composition` holds any number of discrete Gaussians (and a Gaussian). Where its losses share a lattice the contour sum
is exact up to a proved error. Where they share none, one more Gaussian release of small variance t is composed in:
with delta_t and p_t the profile and the density under P of the loss that results,

    delta_t(eps) - t e^(t/8) p_t(eps) <= delta(eps) <= delta_t(eps).

Right: one more release never helps less. Left: in y = e^eps delta_tau obeys a heat equation, d delta_tau / d tau =
p_tau / 2, so the gap is E G(eps - L), G(x) = (1/2) integral over tau < t of the N(tau/2, tau) density at x, which is
at most e^(x/2) sqrt(t) phi(x / sqrt(t)) = t e^(t/8) times the N(t/2, t) density at x.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from adversary._core import Floats
from adversary.privacy.losses.contour.contour_sum import Contour
from adversary.privacy.losses.contour.revivals import MOST, Work
from adversary.privacy.profiles import delta_at_negative

GOAL = 1e-12
"""Relative width aimed at, of every certified interval."""

ROUGH = 1e-8
"""Relative width that is good enough where thousands of numbers are needed; a wider interval is taken for speed."""

RESOLUTION = 1e-240
"""Probabilities below are not told apart from 0."""

_LAST_DIGITS = 1e-15
_TOP = 1.0 - 1.2e-15
_FINEST = 1e8


class Family(NamedTuple):
    """`copies` releases with discrete Gaussian noise, sigma^2 = 1 / v, each moved by `shift` people."""

    v: Fraction | float
    shift: int
    copies: int


def normal_form(families: Sequence[Family]) -> tuple[Family, ...]:
    """Normal form of discrete Gaussian families: sorted, those of one kind counted together, empty ones dropped.

    Parameters
    ----------
    families : triples (v, shift, copies), sigma^2 = 1 / v

    Returns
    -------
    Tuple of Family, ascending in (v, shift); the same for every order of the input.

    >>> normal_form([Family(2.0, 1, 1), Family(1.0, 1, 2), Family(1.0, 1, 3)])
    (Family(v=1.0, shift=1, copies=5), Family(v=2.0, shift=1, copies=1))
    """
    counts: dict[tuple[Fraction | float, int], int] = {}
    for v, shift, count in families:
        counts[v, shift] = counts.get((v, shift), 0) + count
    return tuple(Family(v, shift, n) for (v, shift), n in sorted(counts.items()) if shift and n)


def common_step(families: Sequence[Family]) -> tuple[float | None, bool]:
    """(spacing of the lattice on which the total loss lives, whether it is exact); None where there is no simple one.

    Fractions are exact. A float is read relative to the first v as the nearest simple fraction, if it lies within four
    units in its last place.
    """
    unit, parts, exact = families[0].v, [], True
    for v, shift, _ in families:
        if isinstance(v, Fraction) and isinstance(unit, Fraction):
            ratio = v / unit
        else:
            quotient = float(v) / float(unit)
            ratio, exact = Fraction(quotient).limit_denominator(10_000), exact and v == unit
            if abs(float(ratio) - quotient) > 4.0 * math.ulp(quotient):
                return None, False
        parts.append(ratio * shift)
    numerator = math.gcd(*(part.numerator for part in parts))
    step = Fraction(numerator, math.lcm(*(part.denominator for part in parts))) * Fraction(unit)
    return float(step), exact


def total_rho(families: Sequence[Family], variance: float) -> float:
    """zCDP of the releases together, in nats.

    Parameters
    ----------
    families : gathered, as for `compose_by_contour`
    variance : of a Gaussian release's loss, mu^2; 0 for none
    """
    return float(sum(f.copies * f.shift**2 * float(f.v) for f in families)) / 2.0 + variance / 2.0


def compose_by_contour(
    families: Sequence[Family], variance: float = 0.0, goal: float = GOAL, most: Work = MOST, widest: float = 0.0
) -> Composition | None:
    """The sharpest composition that takes at most so much work: without smoothing, else with the least that does.

    Parameters
    ----------
    families : gathered; see `normal_form`
    variance : of a Gaussian release's loss, mu^2; 0 for none
    goal : relative width aimed at; the least smoothing widens answers by it
    most : windows to be searched and nodes to be added up
    widest : smoothing variance up to which more is tried than the least

    Returns
    -------
    Composition, or None where there is none within `most`.
    """
    rho = total_rho(families, variance)
    v, shift, count = (np.array([float(x) for x in column]) for column in zip(*families, strict=True))
    probe = _end(rho) * np.linspace(0.0, 1.0, 7) ** 2
    for step, smoothing, slack in _candidates(families, variance, max(0.1 * goal * min(1.0, rho), 1e-18), widest):
        contour = Contour(v, shift, count, step, smoothing + variance, slack)
        work = contour.work(probe, 0.05 * goal, most)  # a harder goal than is asked later
        if work is not None:
            return Composition(rho, goal, contour, smoothing, work)
    return None


def _candidates(
    families: Sequence[Family], variance: float, smoothing: float, widest: float
) -> Iterator[tuple[float | None, float, float]]:
    """(lattice step, smoothing variance, slack) of contours, the sharpest first."""
    step, exact = (None, True) if variance > 0.0 else common_step(families)
    if variance > 0.0 or (step is not None and np.pi / step <= _FINEST):
        yield step, 0.0, 1.0 if exact else 8.0
    yield None, smoothing, 1.0
    while (smoothing := 30.0 * smoothing) < widest:
        yield None, smoothing, 1.0


def _end(rho: float) -> float:
    """An epsilon beyond which delta is below RESOLUTION (Chernoff)."""
    return rho + 2.0 * float(np.sqrt(rho * -math.log(RESOLUTION)))


@dataclass(frozen=True, eq=False)
class Composition:
    """Independent discrete Gaussian releases and at most one Gaussian, composed by one contour and certified.

    Parameters
    ----------
    rho : zCDP of the whole
    goal : relative width aimed at
    contour : that answers
    smoothing : variance of the smoothing release in it; 0 where it is exact
    work : what a number takes

    The laws of the loss under P and of minus the loss under Q are the same, as all noise is symmetric.
    """

    rho: float
    goal: float
    contour: Contour
    smoothing: float
    work: Work

    def delta(self, epsilon: Floats) -> tuple[Floats, Floats]:
        """Certified (lower, upper) of the profile at any real epsilon."""
        e = np.abs(np.ravel(epsilon)).astype(np.float64)
        low, high = self._smoothed(e)
        if self.smoothing and (some := low > 0.0).any():
            low[some] -= self._lift * self.contour.density(e[some], self.goal)
        return _anywhere(epsilon, np.maximum(low, 0.0), -_LAST_DIGITS), _anywhere(epsilon, high, _LAST_DIGITS)

    def upper(self, epsilon: Floats) -> Floats:
        """The upper end of `delta`, which needs no density."""
        return _anywhere(epsilon, self._smoothed(np.abs(np.ravel(epsilon)).astype(np.float64))[1], _LAST_DIGITS)

    def _smoothed(self, eps: Floats) -> tuple[Floats, Floats]:
        """(lower, upper) of the profile of what the contour adds up, at eps >= 0; the upper one holds for all."""
        low, high = np.zeros_like(eps), np.full_like(eps, RESOLUTION)
        inside = eps <= self._end
        if inside.any():
            sums, beyond = self.contour.sums(eps[inside], self.goal)
            value = np.where(beyond, sums.value, 1.0 - sums.value)
            low[inside] = np.maximum(value - np.where(beyond, sums.above, sums.below), 0.0)
            high[inside] = np.maximum(value + np.where(beyond, sums.below, sums.above), RESOLUTION)
        return low, high

    @property
    def _end(self) -> float:
        return _end(self.rho)

    @property
    def _lift(self) -> float:
        """By how much smoothing raises the profile at most, over the density of the loss."""
        return float(self.smoothing * np.exp(self.smoothing / 8.0))

    def tails(self, threshold: Floats) -> tuple[Floats, Floats]:
        """(P(L > t), Q(L > t)): sums without a certificate; smoothed, where there is no lattice."""
        t = np.ravel(threshold)
        far = np.abs(t) > self._end
        p, q = (np.where(far, (t < 0.0) * 1.0, tail(t)[0]) for tail in (self._tail_p, self._tail_q))
        return p.reshape(np.shape(threshold)), q.reshape(np.shape(threshold))

    def epsilon(self, target: Floats) -> Floats:
        """Smallest epsilon >= 0 with an upper bound on delta at most the target; Newton's method on log delta.

        Raises
        ------
        ValueError : a target below RESOLUTION
        ArithmeticError : no root within the certificate (never returned as a number)
        """
        goal = np.ravel(target)
        if (goal < RESOLUTION).any():
            raise ValueError(
                f"delta must be at least {RESOLUTION}, the numerical resolution of the profile, got {goal.min()}"
            )
        width = np.sqrt(2.0 * self.rho)
        low, high = np.zeros_like(goal), self.rho + width * np.sqrt(2.0 * -np.log(np.minimum(goal, 0.999999)))
        reached = self._smoothed(low)[1] <= goal
        e = np.where(reached, 0.0, np.clip(self.rho - width * ndtri(np.minimum(goal, 0.999999)), 1e-3 * high, high))
        for i in range(200):
            delta = self._smoothed(e)[1]
            safe = delta <= goal
            low, high = np.where(safe, low, np.maximum(low, e)), np.where(safe, np.minimum(high, e), high)
            beyond = self._tail_q(e)[0]
            with np.errstate(divide="ignore", over="ignore"):  # a tail that is lost leaves halving
                slope = np.where(beyond > 1e-290, np.exp(e + np.log(beyond) - np.log(delta)), 0.0)
            newton = e + np.log(delta / goal) / np.maximum(slope, 1e-300)
            near = newton + 2e-16 * np.maximum(e, width)  # just past the root, on its safe side
            newton_helps = (near > low) & (near < high) & (i % 3 < 2)
            step = np.where(newton_helps, near, 0.5 * (low + high))
            done = (
                reached | (safe & (np.abs(newton - e) <= 1e-14 * np.maximum(e, width))) | (high - low <= 4e-16 * high)
            )
            if done.all():
                break
            e = np.where(done, e, step)
        e = np.where(reached, 0.0, np.where(safe, e, high))
        delta = self._smoothed(e)[1]
        jump = high - low <= 4e-16 * high  # delta passes the target between two neighbouring numbers
        wrong = (delta > goal) | ((e > 0.0) & (delta < goal * (1.0 - 1e-9)) & ~jump)
        if wrong.any():
            raise ArithmeticError(f"epsilon for delta {goal[wrong][0]} was not found within its certificate")
        return np.asarray(e).reshape(np.shape(target))

    def power(self, level: Floats) -> tuple[Floats, Floats]:
        """Certified (lower, upper) of the trade-off: the least of delta(e) + e^e level, between tangents."""
        a = np.ravel(level).astype(np.float64)
        inner = np.clip(a, 1.01 * RESOLUTION, _TOP)
        between = (a > 0.0) & (a < 1.0)
        low, high = np.zeros_like(a), np.ones_like(a)
        if between.any():
            low[between], high[between] = self._power(inner[between])
        low = np.maximum(np.where(a < inner, low * (a / inner), low), a)  # concave, and never below its level
        high = np.where(a == 0.0, 0.0, np.where(a > _TOP, 1.0, high))
        shape = np.shape(level)
        return np.clip(low, 0.0, 1.0).reshape(shape), np.clip(high, 0.0, 1.0).reshape(shape)

    def _power(self, a: Floats) -> tuple[Floats, Floats]:
        """Cutting planes: tangents at two thresholds whose slopes differ in sign meet below the minimum."""
        width = np.sqrt(2.0 * self.rho)
        nudge = max(1e-7 * width, 1.01 * (self.contour.step or 0.0))
        floor, best = np.zeros_like(a), np.full_like(a, np.inf)
        open_ = np.arange(a.size)
        e = -self.rho - width * ndtri(a)
        left, right = _Tangent.none(a, -np.inf), _Tangent.none(a, np.inf)
        for i in range(40):
            level = a[open_]
            low, high = self.delta(e)
            tail, error = self._tail_q(e)
            tangent = _Tangent(e, low + np.exp(e) * level, level - tail, error)
            best[open_] = np.minimum(best[open_], high + np.exp(e) * level)
            falls = tangent.slope < 0.0
            left, right = left.replaced(falls, tangent), right.replaced(~falls, tangent)
            both = np.isfinite(left.e) & np.isfinite(right.e)
            cross, height = _meeting(left, right)
            spread = np.where(both, np.exp(right.e) - np.exp(left.e), 0.0)
            slack = np.maximum(left.error, right.error) * spread
            floor[open_] = np.where(both, height * (1.0 - _LAST_DIGITS) - slack, 0.0)
            newton = 1.5 * width * (_normal_score(tail) - ndtri(level)) + np.where(falls, nudge, -nudge) * 2.0**i
            e = np.where(both, np.clip(cross, left.e, right.e), e + newton)
            gap = best[open_] - floor[open_]
            moves = (e != left.e) & (e != right.e)
            wide = ~both | (moves & (gap > 2.0 * _LAST_DIGITS * best[open_] + 2.0 * (high - low)))
            open_, e = open_[wide], e[wide]
            left, right = (_Tangent(*(x[wide] for x in side)) for side in (left, right))
            if open_.size == 0:
                break
        if self.smoothing:
            floor = floor - self._lift * self.contour.peak_density()
        return np.minimum(np.maximum(floor, a), best), best

    def level(self, power: Floats) -> Floats:
        """A lower bound on the level that a power needs, sharp to rounding and relatively accurate however small.

        exp(-e) (power - delta(e)) bounds it at every e, and is largest where P(L > e) = power.
        """
        r = np.ravel(power).astype(np.float64)
        inner = self._level(np.clip(r, RESOLUTION, _TOP))
        level = np.where(r >= 1.0, 1.0, np.where(r < RESOLUTION, 0.0, inner))
        return level.reshape(np.shape(power))

    def _level(self, r: Floats) -> Floats:
        width, step = np.sqrt(2.0 * self.rho), self.contour.step or 0.0
        e = self.rho - width * ndtri(r)
        low, high = np.full_like(r, -self._end), np.full_like(r, self._end)
        best, open_ = np.zeros_like(r), np.arange(r.size)
        for i in range(60):
            at, goal = e[open_], r[open_]
            best[open_] = np.maximum(best[open_], self._level_at(goal, at))
            tail = self._tail_p(at)[0]
            low[open_] = np.where(tail >= goal, np.maximum(low[open_], at), low[open_])
            high[open_] = np.where(tail < goal, np.minimum(high[open_], at), high[open_])
            newton = at + width * (_normal_score(tail) - ndtri(goal))
            halved = (newton < low[open_]) | (newton > high[open_]) | (i > 8)  # a tail may fall in steps
            e[open_] = np.where(halved, 0.5 * (low + high)[open_], newton)
            open_ = open_[np.abs(e[open_] - at) > max(1e-9 * width, step)]
            if open_.size == 0:
                break
        for corner in (-1.0, 0.0, 1.0):  # on a lattice the best threshold is a lattice point
            near = e if step == 0.0 else self.rho + step * (np.rint((e - self.rho) / step) + corner)
            best = np.maximum(best, self._level_at(r, near))
        return np.minimum(best, r)

    def _level_at(self, r: Floats, e: Floats) -> Floats:
        size = np.exp(-np.abs(e))
        high = self._smoothed(np.abs(e))[1]
        with np.errstate(divide="ignore", over="ignore"):  # far below 0 the bound is empty
            return np.where(e >= 0.0, size * (r - high), 1.0 - high - (1.0 - r) / size)

    def _tail_p(self, threshold: Floats) -> tuple[Floats, Floats]:
        """(P(L > t), how far it may be off); left of 0 it is 1 - Q(L >= -t)."""
        return self._tail(threshold, "p", "q")

    def _tail(self, threshold: Floats, right: str, left: str) -> tuple[Floats, Floats]:
        e = np.minimum(np.abs(threshold), self._end)
        mass, error = np.empty_like(e), np.empty_like(e)
        for side, kind in ((threshold >= 0.0, right), (threshold < 0.0, left)):
            if side.any():
                part = self.contour.tail(e[side], self.goal, kind, strict=kind == right)
                mass[side] = part.value if kind == right else 1.0 - part.value
                error[side] = part.above + part.below
        return np.clip(mass, 0.0, 1.0), error

    def _tail_q(self, threshold: Floats) -> tuple[Floats, Floats]:
        """(Q(L > t), how far it may be off); left of 0 it is 1 - P(L >= -t)."""
        return self._tail(threshold, "q", "p")


def _anywhere(epsilon: Floats, delta: Floats, digits: float) -> Floats:
    """The profile of a symmetric loss at any real epsilon from that at |epsilon|, moved by its last digits."""
    delta_there: Floats = delta_at_negative(np.ravel(epsilon), delta) * (1.0 + digits)
    return np.clip(delta_there, 0.0, 1.0).reshape(np.shape(epsilon))


def _normal_score(tail: Floats) -> Floats:
    return np.asarray(ndtri(np.clip(tail, 1e-300, 1.0 - 1e-16)))


class _Tangent(NamedTuple):
    """A line below a convex function of y = e^e: at e of height `value`, with this slope in y, known to `error`."""

    e: Floats
    value: Floats
    slope: Floats
    error: Floats

    @classmethod
    def none(cls, like: Floats, e: float) -> _Tangent:
        return cls(np.full_like(like, e), *(np.zeros_like(like) for _ in range(3)))

    def replaced(self, where: NDArray[np.bool_], other: _Tangent) -> _Tangent:
        return _Tangent(*(np.where(where, new, old) for old, new in zip(self, other, strict=True)))


def _meeting(left: _Tangent, right: _Tangent) -> tuple[Floats, Floats]:
    """(e, height) where a falling and a rising tangent meet: between their points, though slopes have errors."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        gap = np.expm1(right.e - left.e)  # (y2 - y1) / y1
        scale = np.exp(left.e)
        fall = (right.value - left.value - right.slope * scale * gap) / (left.slope - right.slope) / scale
        height = np.fmin(np.fmin(left.value, right.value), left.value + left.slope * fall * scale)
        return left.e + np.log1p(np.fmin(np.fmax(fall, 0.0), gap)), height
