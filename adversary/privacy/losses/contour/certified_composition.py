"""Certified composition of discrete Gaussian losses by contour sums.

`Composition` holds any number of discrete Gaussian releases and a Gaussian release. If their losses share a lattice,
the contour sum is exact up to a proved error. Otherwise a Gaussian release of small variance t is composed with them.
With delta_t and p_t the profile and the density under P of the resulting loss,

    delta_t(eps) - t e^(t/8) p_t(eps) <= delta(eps) <= delta_t(eps).

Upper bound: a further release never reveals less. Lower bound: in y = e^eps delta_tau satisfies a heat equation,
d delta_tau / d tau = p_tau / 2, so the gap is E G(eps - L), where G(x) = (1/2) integral over tau < t of the
N(tau/2, tau) density at x. It is at most e^(x/2) sqrt(t) phi(x / sqrt(t)) = t e^(t/8) times the N(t/2, t) density at x.
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
"""Target relative width of certified intervals."""

ROUGH = 1e-8
"""Target relative width for computations with thousands of numbers; wider intervals are accepted to save time."""

RESOLUTION = 1e-240
"""Smallest probability that is distinguished from 0."""

_LAST_DIGITS = 1e-15
_TOP = 1.0 - 1.2e-15
# Largest half-period pi / step of a lattice that is summed exactly; longer ones are smoothed instead.
_FINEST = 1e8


class Family(NamedTuple):
    """`copies` releases with discrete Gaussian noise, sigma^2 = 1 / v, whose counts change by `shift` people."""

    v: Fraction | float
    shift: int
    copies: int


def normal_form(families: Sequence[Family]) -> tuple[Family, ...]:
    """Normal form of discrete Gaussian families: sorted, equal kinds merged, empty ones dropped.

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
    """(spacing of the lattice of total losses, whether it is exact); spacing None if there is no simple lattice.

    Fractions are exact. The ratio of a float to the first v is read as the nearest fraction with denominator up to
    10,000, if it is within four units in the last place.
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
    """zCDP parameter of all releases, in nats.

    Parameters
    ----------
    families : in normal form, as for `compose_by_contour`
    variance : of a Gaussian release's loss, mu^2; 0 for none
    """
    return float(sum(f.copies * f.shift**2 * float(f.v) for f in families)) / 2.0 + variance / 2.0


def compose_by_contour(
    families: Sequence[Family], variance: float = 0.0, goal: float = GOAL, most: Work = MOST, widest: float = 0.0
) -> Composition | None:
    """Sharpest composition within a work limit: without smoothing if possible, otherwise with as little as necessary.

    Parameters
    ----------
    families : in normal form; see `normal_form`
    variance : of a Gaussian release's loss, mu^2; 0 for none
    goal : target relative width, about the width that the least smoothing adds
    most : limit on windows searched and nodes summed
    widest : largest smoothing variance beyond the least that is tried

    Returns
    -------
    Composition, or None if there is none within `most`.
    """
    rho = total_rho(families, variance)
    v, shift, count = (np.array([float(x) for x in column]) for column in zip(*families, strict=True))
    probe = _end(rho) * np.linspace(0.0, 1.0, 7) ** 2
    for step, smoothing, slack in _candidates(families, variance, max(0.1 * goal * min(1.0, rho), 1e-18), widest):
        contour = Contour(v, shift, count, step, smoothing + variance, slack)
        # A stricter tolerance than any later call, so that no call exceeds the limit.
        work = contour.work(probe, 0.05 * goal, most)
        if work is not None:
            return Composition(rho, goal, contour, smoothing, work)
    return None


def _candidates(
    families: Sequence[Family], variance: float, smoothing: float, widest: float
) -> Iterator[tuple[float | None, float, float]]:
    """Yield (lattice step, smoothing variance, slack) of candidate contours, the sharpest first."""
    step, exact = (None, True) if variance > 0.0 else common_step(families)
    if variance > 0.0 or (step is not None and np.pi / step <= _FINEST):
        yield step, 0.0, 1.0 if exact else 8.0
    yield None, smoothing, 1.0
    while (smoothing := 30.0 * smoothing) < widest:
        yield None, smoothing, 1.0


def _end(rho: float) -> float:
    """Epsilon beyond which delta is below RESOLUTION, by Chernoff's bound."""
    return rho + 2.0 * float(np.sqrt(rho * -math.log(RESOLUTION)))


@dataclass(frozen=True, eq=False)
class Composition:
    """Certified composition of independent discrete Gaussian releases and at most one Gaussian, by one contour.

    L under P and -L under Q have the same distribution, as all noise is symmetric.

    Parameters
    ----------
    rho : zCDP parameter of all releases
    goal : target relative width
    contour : the contour sum
    smoothing : variance of the smoothing release in it; 0 if the contour is exact
    work : cost of a number
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
        """Upper end of `delta`, which does not need the density."""
        return _anywhere(epsilon, self._smoothed(np.abs(np.ravel(epsilon)).astype(np.float64))[1], _LAST_DIGITS)

    def _smoothed(self, eps: Floats) -> tuple[Floats, Floats]:
        """(lower, upper) profile of the smoothed loss at eps >= 0; the upper end also bounds the loss itself."""
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
        """Upper bound on the increase of the profile by smoothing, divided by the density of the loss."""
        return float(self.smoothing * np.exp(self.smoothing / 8.0))

    def tails(self, threshold: Floats) -> tuple[Floats, Floats]:
        """(P(L > t), Q(L > t)) without certified errors; of the smoothed loss if there is no lattice."""
        t = np.ravel(threshold)
        far = np.abs(t) > self._end
        p, q = (np.where(far, (t < 0.0) * 1.0, tail(t)[0]) for tail in (self._tail_p, self._tail_q))
        return p.reshape(np.shape(threshold)), q.reshape(np.shape(threshold))

    def epsilon(self, target: Floats) -> Floats:
        """Smallest epsilon >= 0 at which the upper bound on delta is at most the target, by Newton on log delta.

        Raises
        ------
        ValueError : a target below RESOLUTION
        ArithmeticError : the iteration ended without a certified root
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
            # If the tail underflows, bisection replaces Newton's step.
            with np.errstate(divide="ignore", over="ignore"):
                slope = np.where(beyond > 1e-290, np.exp(e + np.log(beyond) - np.log(delta)), 0.0)
            newton = e + np.log(delta / goal) / np.maximum(slope, 1e-300)
            # Slightly past the root, on its safe side.
            near = newton + 2e-16 * np.maximum(e, width)
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
        # delta crosses the target between two neighbouring doubles.
        jump = high - low <= 4e-16 * high
        wrong = (delta > goal) | ((e > 0.0) & (delta < goal * (1.0 - 1e-9)) & ~jump)
        if wrong.any():
            raise ArithmeticError(f"epsilon for delta {goal[wrong][0]} was not found within its certificate")
        return np.asarray(e).reshape(np.shape(target))

    def power(self, level: Floats) -> tuple[Floats, Floats]:
        """Certified (lower, upper) trade-off: the minimum of delta(e) + e^e level, bounded below by tangents."""
        a = np.ravel(level).astype(np.float64)
        inner = np.clip(a, 1.01 * RESOLUTION, _TOP)
        between = (a > 0.0) & (a < 1.0)
        low, high = np.zeros_like(a), np.ones_like(a)
        if between.any():
            low[between], high[between] = self._power(inner[between])
        # The trade-off is concave and never below the level.
        low = np.maximum(np.where(a < inner, low * (a / inner), low), a)
        high = np.where(a == 0.0, 0.0, np.where(a > _TOP, 1.0, high))
        shape = np.shape(level)
        return np.clip(low, 0.0, 1.0).reshape(shape), np.clip(high, 0.0, 1.0).reshape(shape)

    def _power(self, a: Floats) -> tuple[Floats, Floats]:
        """Cutting-plane method: two tangents with slopes of opposite sign intersect below the minimum."""
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
        """Lower bound on the level of a test with this power, sharp to rounding and with relative accuracy.

        exp(-e) (power - delta(e)) is a bound at every e, and is largest at P(L > e) = power.
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
            # Newton's method may fail on a tail that is a step function.
            halved = (newton < low[open_]) | (newton > high[open_]) | (i > 8)
            e[open_] = np.where(halved, 0.5 * (low + high)[open_], newton)
            open_ = open_[np.abs(e[open_] - at) > max(1e-9 * width, step)]
            if open_.size == 0:
                break
        # On a lattice the best threshold is a lattice point.
        for corner in (-1.0, 0.0, 1.0):
            near = e if step == 0.0 else self.rho + step * (np.rint((e - self.rho) / step) + corner)
            best = np.maximum(best, self._level_at(r, near))
        return np.minimum(best, r)

    def _level_at(self, r: Floats, e: Floats) -> Floats:
        size = np.exp(-np.abs(e))
        high = self._smoothed(np.abs(e))[1]
        # Far below 0 the bound is vacuous.
        with np.errstate(divide="ignore", over="ignore"):
            return np.where(e >= 0.0, size * (r - high), 1.0 - high - (1.0 - r) / size)

    def _tail_p(self, threshold: Floats) -> tuple[Floats, Floats]:
        """(P(L > t), error bound); for t < 0 as 1 - Q(L >= -t)."""
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
        """(Q(L > t), error bound); for t < 0 as 1 - P(L >= -t)."""
        return self._tail(threshold, "q", "p")


def _anywhere(epsilon: Floats, delta: Floats, digits: float) -> Floats:
    """Profile of a symmetric loss at any real epsilon from that at |epsilon|, widened by rounding."""
    delta_there: Floats = delta_at_negative(np.ravel(epsilon), delta) * (1.0 + digits)
    return np.clip(delta_there, 0.0, 1.0).reshape(np.shape(epsilon))


def _normal_score(tail: Floats) -> Floats:
    return np.asarray(ndtri(np.clip(tail, 1e-300, 1.0 - 1e-16)))


class _Tangent(NamedTuple):
    """Tangent below a convex function of y = e^e: value at e, and slope in y with its error bound."""

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
    """(e, height) of the intersection of a falling and a rising tangent, clipped to lie between their points."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        gap = np.expm1(right.e - left.e)  # (y2 - y1) / y1
        scale = np.exp(left.e)
        fall = (right.value - left.value - right.slope * scale * gap) / (left.slope - right.slope) / scale
        height = np.fmin(np.fmin(left.value, right.value), left.value + left.slope * fall * scale)
        return left.e + np.log1p(np.fmin(np.fmax(fall, 0.0), gap)), height
