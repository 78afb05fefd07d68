"""Slow twins of the composition engine, written to be checked by eye.

Four ways to the law of L = log P / Q of many independent releases, none of which imports the package:

* whole numbers: every mass is a whole multiple of 2^-BITS and every loss a whole multiple of one exact fraction, so
  sums, products and comparisons are exact and 40 digits remain of any delta above 1e-45 at epsilon up to 200;
* sums of positive doubles over one coarse lattice, or two: right to about 1e-14, relative, however small the answer;
* one FFT over a whole lattice, whose tails are moved to its centre by a whole tilt;
* an integral of the characteristic function (Gil-Pelaez), for laws without sizeable atoms.

A `Family` is `count` counts released with discrete Gaussian noise, P(x) ~ exp(-v x^2 / 2), each moved by `shift`
between the two data sets: L = v shift (shift - 2 x) / 2 each. The noise has mean 0 under P and `shift` under Q.
"""

from __future__ import annotations

import csv
import functools
import itertools
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import scipy.fft
import scipy.optimize
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Masses = NDArray[np.object_]  # whole multiples of 2^-BITS
Real = Any  # an mpmath number; the library carries no types

BITS = 640
ONE = 1 << BITS
DIGITS = 200
MAX_ATOMS = 1_000_000


class Family(NamedTuple):
    """`count` releases with noise P(x) ~ exp(-v x^2 / 2), each moved by `shift`; rho = count shift^2 v / 2."""

    v: Fraction
    shift: int = 1
    count: int = 1

    @property
    def rho(self) -> Fraction:
        return self.count * self.shift**2 * Fraction(self.v) / 2


def total_rho(families: Sequence[Family]) -> Fraction:
    return sum((family.rho for family in families), Fraction(0))


def common_unit(units: Sequence[Fraction]) -> Fraction:
    """Largest fraction of which all are whole multiples."""
    denominator = math.lcm(*(unit.denominator for unit in units))
    return Fraction(math.gcd(*(int(unit * denominator) for unit in units)), denominator)


# ---------------------------------------------------------------------------------------------------------------------
# Whole numbers
# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ExactLaw:
    """Losses `values` times `unit`, ascending, their masses under P and Q, and the masses of infinite losses."""

    unit: Fraction
    values: NDArray[Any]
    p: Masses
    q: Masses
    infinite_p: int = 0
    infinite_q: int = 0

    @functools.cached_property
    def above(self) -> tuple[list[int], list[int]]:
        """Masses under P and Q of the losses from the k-th on, k = 0, ..., and 0 behind the last; infinity included."""
        p = list(itertools.accumulate(self.p[::-1], initial=self.infinite_p))[::-1]
        return p, list(itertools.accumulate(self.q[::-1], initial=0))[::-1]

    @functools.cached_property
    def ordered(self) -> list[int]:
        return [int(value) for value in self.values]

    def first_above(self, threshold: float | Fraction) -> int:
        """Index of the first loss strictly above the threshold; whole numbers against a fraction, so never wrong."""
        return bisect_right(self.ordered, Fraction(threshold) / self.unit)

    def tail(self, threshold: float | Fraction) -> tuple[Real, Real]:
        """(P(L > threshold), Q(L > threshold))."""
        k = self.first_above(threshold)
        return real(self.above[0][k]), real(self.above[1][k])

    def delta(self, epsilon: float | Fraction) -> Real:
        """P(L > epsilon) - e^epsilon Q(L > epsilon)."""
        p, q = self.tail(epsilon)
        with mpmath.workdps(DIGITS):
            return p - mpmath.exp(number(epsilon)) * q

    def far_delta(self, epsilon: float | Fraction) -> Real:
        """The same far out, where e^epsilon magnifies the rounding of Q: sum of P(L = l) (1 - e^(epsilon - l))."""
        k = self.first_above(epsilon)
        with mpmath.workdps(DIGITS):
            terms = zip(self.ordered[k:], self.p[k:], strict=True)
            gaps = ((number(value * self.unit) - number(epsilon), mass) for value, mass in terms)
            return mpmath.fsum(-mpmath.expm1(-gap) * int(mass) for gap, mass in gaps) / ONE

    def epsilon(self, delta: float) -> Real:
        """Root of delta(epsilon) = delta, perhaps negative: between losses delta is a straight line in e^epsilon."""
        target = int(Fraction(delta) * ONE)
        below, beyond = -1, len(self.ordered)  # delta(loss below) > target >= delta(loss beyond)
        while beyond - below > 1:
            middle = (below + beyond) // 2
            if self.delta(self.ordered[middle] * self.unit) > real(target):
                below = middle
            else:
                beyond = middle
        p, q = self.above[0][beyond], self.above[1][beyond]
        with mpmath.workdps(DIGITS):
            return mpmath.log(real(p - target) / real(q))

    def power(self, level: float | Fraction) -> Real:
        """Largest P(reject) with Q(reject) = level: reject the largest losses, and the next one by a coin."""
        target = int(Fraction(level) * ONE)
        below, beyond = 0, len(self.ordered)  # Q(at or above the loss below) > target >= Q(at or above beyond)
        if target >= self.above[1][0]:
            return real(self.above[0][0])
        while beyond - below > 1:
            middle = (below + beyond) // 2
            if self.above[1][middle] > target:
                below = middle
            else:
                beyond = middle
        with mpmath.workdps(DIGITS):
            coin = real(target - self.above[1][beyond]) / real(self.q[below])
            return real(self.above[0][beyond]) + coin * real(self.p[below])


def real(mass: int) -> Real:
    with mpmath.workdps(DIGITS):
        return mpmath.mpf(mass) / ONE


def number(x: Any) -> Real:
    """The exact value of a float or a fraction, to DIGITS digits; an mpmath number as it is."""
    if isinstance(x, mpmath.mpf):
        return x
    with mpmath.workdps(DIGITS):
        return mpmath.mpf(Fraction(x).numerator) / Fraction(x).denominator


@functools.cache
def noise_masses(v: Fraction) -> Masses:
    """P(x) = exp(-v x^2 / 2) / theta at x = -reach, ..., reach, where it first rounds to nothing."""
    with mpmath.workdps(DIGITS + 20):
        weights, reach = [mpmath.mpf(1)], 0
        while weights[-1] > mpmath.mpf(2) ** -(BITS + 4):
            reach += 1
            weights.append(mpmath.exp(-number(v) * reach * reach / 2))
        theta = 2 * mpmath.fsum(weights) - 1
        half = [int(weight / theta * ONE) for weight in weights]
    return np.array(half[:0:-1] + half, dtype=object)


def family_law(family: Family) -> ExactLaw:
    """L = v a (n a - 2 S) / 2 with S the sum of the n noises: mass f(S) under P, f(S - n a) under Q."""
    v, shift, count = Fraction(family.v), family.shift, family.count
    f = one = noise_masses(v)
    for _ in range(count - 1):
        f = np.convolve(f, one) >> BITS
    reach, nothing = len(f) // 2, np.array([0] * count * shift, dtype=object)
    total = np.arange(-reach, reach + count * shift + 1)
    p, q = np.concatenate([f, nothing]), np.concatenate([nothing, f])
    return _kept(ExactLaw(v * shift / 2, (count * shift - 2 * total)[::-1], p[::-1], q[::-1]))


def finite_law(p: Sequence[Any], q: Sequence[Any]) -> ExactLaw:
    """Law of log p_i / q_i over the outcomes of any finite mechanism, losses rounded to a multiple of 2^-BITS."""
    with mpmath.workdps(2 * DIGITS):
        masses = [(int(number(a) * ONE), int(number(b) * ONE)) for a, b in zip(p, q, strict=True)]
        finite = [(int(mpmath.log(mpmath.mpf(a) / b) * ONE), a, b) for a, b in masses if a and b]
    columns = np.array(finite, dtype=object).reshape(-1, 3).T
    only_p, only_q = sum(a for a, b in masses if not b), sum(b for a, b in masses if not a)
    return _merged(ExactLaw(Fraction(1, ONE), *columns, only_p, only_q))


def combined(first: ExactLaw, second: ExactLaw) -> ExactLaw:
    """Law of the sum of two independent losses: every pair of values, at most MAX_ATOMS of them."""
    if len(first.values) * len(second.values) > MAX_ATOMS:
        raise ValueError("these laws have too many atoms to list")
    unit = common_unit([first.unit, second.unit])
    sides = [law.values.astype(object) * int(law.unit / unit) for law in (first, second)]
    values = np.add.outer(*sides).ravel()
    p, q = np.multiply.outer(first.p, second.p).ravel(), np.multiply.outer(first.q, second.q).ravel()
    infinite_p = first.infinite_p + second.infinite_p - (first.infinite_p * second.infinite_p >> BITS)
    infinite_q = first.infinite_q + second.infinite_q - (first.infinite_q * second.infinite_q >> BITS)
    return _kept(_merged(ExactLaw(unit, values, p >> BITS, q >> BITS, infinite_p, infinite_q)))


def exact_law(families: Sequence[Family]) -> ExactLaw:
    """Law of the total loss of a few small families: every combination of their sums of noises."""
    return functools.reduce(combined, [family_law(family) for family in families])


def repeated_law(law: ExactLaw, count: int) -> ExactLaw:
    """`count` >= 1 independent copies."""
    return functools.reduce(combined, [law] * count)


def _merged(law: ExactLaw) -> ExactLaw:
    """The same law, ascending, with equal losses added up."""
    values = law.values
    if len(values) and max(abs(int(values.min())), abs(int(values.max()))) < 2**62:
        values = values.astype(np.int64)
    order = np.argsort(values, kind="stable")
    values, p, q = values[order], law.p[order], law.q[order]
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1])) if len(values) else order
    if len(starts):
        values, p, q = values[starts], np.add.reduceat(p, starts), np.add.reduceat(q, starts)
    return ExactLaw(law.unit, values, p, q, law.infinite_p, law.infinite_q)


def _kept(law: ExactLaw) -> ExactLaw:
    """Without the losses whose masses have rounded to nothing under both."""
    kept = (law.p > 0) | (law.q > 0)
    return ExactLaw(law.unit, law.values[kept], law.p[kept], law.q[kept], law.infinite_p, law.infinite_q)


# ---------------------------------------------------------------------------------------------------------------------
# Sums of positive doubles
# ---------------------------------------------------------------------------------------------------------------------

MAX_POINTS = 20_000


class Lattice(NamedTuple):
    """P(L = first + step k) = mass[k]."""

    first: float
    step: Fraction
    mass: Floats

    @property
    def losses(self) -> Floats:
        return self.first + float(self.step) * np.arange(len(self.mass))


def family_lattice(family: Family, nats: float) -> Lattice:
    """Noises cut at |x| > sqrt(2 nats / v), their sum at sqrt(2 n nats / v); at most 4 n e^-nats of the mass is cut."""
    v, shift, count = float(family.v), family.shift, family.count
    reach = math.ceil(math.sqrt(2 * nats / v))
    x = np.arange(-reach, reach + 1)
    one = np.exp(-v * x * x / 2)
    f = one = one / math.fsum(one)
    for _ in range(count - 1):
        f = np.convolve(f, one)
        far = math.ceil(math.sqrt(2 * count * nats / v))
        f = f[max(len(f) // 2 - far, 0) : len(f) // 2 + far + 1]
    step, reach = Fraction(family.v) * shift, len(f) // 2
    return Lattice(float(family.rho - step * reach), step, f)


def points_together(first: Lattice, second: Lattice) -> int:
    step = common_unit([first.step, second.step])
    return sum(int(lattice.step / step) * (len(lattice.mass) - 1) for lattice in (first, second)) + 1


def together(first: Lattice, second: Lattice) -> Lattice:
    """Law of the sum of two independent losses on their common lattice."""
    step = common_unit([first.step, second.step])
    spread = []
    for lattice in (first, second):
        stride = int(lattice.step / step)
        wide = np.zeros(stride * (len(lattice.mass) - 1) + 1)
        wide[::stride] = lattice.mass
        spread.append(wide)
    return Lattice(first.first + second.first, step, np.convolve(*spread))


def lattice_delta(lattice: Lattice, epsilon: Floats) -> Floats:
    """E_P (1 - e^(epsilon - L))_+ at any epsilon, by D_(k-1) = (1 - e^-h) T_k + e^-h D_k from the top.

    T_k is the mass from the k-th loss on and D_k = delta there. Between losses k - 1 and k, with r what is missing up
    to loss k, delta = (1 - e^-r) T_k + e^-r D_k; below all losses the same with k = 0. Every term is positive.
    """
    h = float(lattice.step)
    tail = np.append(np.cumsum(lattice.mass[::-1])[::-1], 0.0)
    rises = -math.expm1(-h) * tail[1:]
    at_losses = np.zeros(len(tail))  # at_losses[k] = D_k; one more behind the last
    for k in range(len(lattice.mass) - 2, -1, -1):
        at_losses[k] = rises[k] + math.exp(-h) * at_losses[k + 1]
    k = np.clip(np.floor((epsilon - lattice.first) / h).astype(np.int64) + 1, 0, len(lattice.mass))
    missing = np.maximum(lattice.first + h * k - epsilon, 0.0)
    return -np.expm1(-missing) * tail[k] + np.exp(-missing) * at_losses[k]


def positive_delta(families: Sequence[Family], epsilon: ArrayLike) -> Floats:
    """delta(epsilon) of a mixture, every term positive: sum_x P(X = x) delta_Y(epsilon - x).

    Families whose common lattice stays short are convolved on it; Y is then the longest law, X all others together.
    Raises ValueError when X has more than MAX_ATOMS atoms.
    """
    points = np.atleast_1d(np.asarray(epsilon, dtype=np.float64))
    rho, counts = float(total_rho(families)), sum(family.count for family in families)
    deepest = max(float(np.max(points)) - rho, 0.0) ** 2 / (4 * rho)
    nats = 60.0 + math.log(4 * counts) + deepest
    groups: list[Lattice] = []
    for lattice in sorted((family_lattice(family, nats) for family in families), key=lambda group: len(group.mass)):
        for other in groups:
            if points_together(other, lattice) <= MAX_POINTS:
                groups[groups.index(other)] = together(other, lattice)
                break
        else:
            groups.append(lattice)
    groups.sort(key=lambda group: len(group.mass))
    if math.prod(len(group.mass) for group in groups[:-1]) > MAX_ATOMS:
        raise ValueError("these scales have too many atoms to list")
    losses, mass = np.zeros(1), np.ones(1)
    for group in groups[:-1]:
        losses, mass = np.add.outer(losses, group.losses).ravel(), np.multiply.outer(mass, group.mass).ravel()
    return np.array([math.fsum(mass * lattice_delta(groups[-1], e - losses)) for e in points])


# ---------------------------------------------------------------------------------------------------------------------
# Fourier, for releases too many to list
# ---------------------------------------------------------------------------------------------------------------------


def characteristic(v: float, angle: NDArray[Any]) -> NDArray[Any]:
    """E cos(angle x) for one noise, by Poisson summation (waves around 2 pi k) or term by term where v is large."""
    turn = 8 * np.arctan(np.ones(1, angle.dtype))[0]
    angle = np.remainder(angle + turn / 2, turn) - turn / 2
    if v <= 3.0:
        waves = [turn * k for k in range(-5, 6)]
        return sum(np.exp(-((angle + wave) ** 2) / (2 * v)) for wave in waves) / sum(
            np.exp(-(wave**2) / (2 * v)) for wave in waves
        )
    terms = [(x, np.exp(-v * np.full(1, x * x, angle.dtype) / 2)) for x in range(1, 12)]
    numerator = 1 + sum(2 * weight * np.cos(x * angle) for x, weight in terms)
    return np.asarray(numerator / (1 + sum(2 * weight for _, weight in terms)))


def fft_delta(
    families: Sequence[Family], epsilon: ArrayLike, reach: float = 13.0, dtype: type[np.floating[Any]] = np.float64
) -> Floats:
    """delta of families with shift 1 on one lattice, by one FFT over +-reach standard deviations.

    A whole tilt moves the law: P(L = x) = e^(k (k+1) rho - k x) P(L = x - 2 k rho), so with k >= 0 near
    (x - rho) / (2 rho) every tail comes from the centre, where the FFT is accurate.
    """
    h, rho = common_unit([Fraction(family.v) for family in families]), total_rho(families)
    size = scipy.fft.next_fast_len(math.ceil(2 * reach * math.sqrt(2 * rho) / h), real=True)
    j = np.arange(size // 2 + 1)
    turn = 8 * np.arctan(np.ones(1, dtype))[0]
    phi = np.ones(len(j), dtype)
    for family in families:
        v = dtype(family.v.numerator) / dtype(family.v.denominator)
        phi *= characteristic(v, turn * ((j * int(family.v / h)) % size) / size) ** family.count
    mass = np.maximum(np.roll(scipy.fft.irfft(phi, size), size // 2), 0)  # mass[i] = P(L = rho + (i - size // 2) h)
    steps = np.arange(size) - size // 2
    answers = []
    for e in np.atleast_1d(np.asarray(epsilon, dtype=np.float64)):
        k = max(round((e - float(rho)) / (2 * float(rho))), 0)
        start = rho * (2 * k + 1)
        loss = (steps + dtype(int(start / h))) * dtype(h.numerator) / dtype(h.denominator)
        loss += dtype(float(start - int(start / h) * h))
        gap = np.minimum(e - loss, 0)
        log_tilt = k * (k + 1) * dtype(rho.numerator) / dtype(rho.denominator) - k * loss
        answers.append(float(np.sum(np.exp(log_tilt) * mass * -np.expm1(gap))))
    return np.array(answers)


def gil_pelaez_tail(families: Sequence[Family], threshold: float, reach: float, nodes: int = 20_001) -> float:
    """P(L > threshold) = 1/2 - (1/pi) integral over 0 < u < reach of sin(u (threshold - rho)) / u Phi(u).

    Right where Phi is nothing beyond `reach` as far as the density is concerned, that is, where no atom is sizeable.
    """
    u, phi = inverted(tuple(families), reach, nodes)
    from_centre = threshold - float(total_rho(families))
    integral = u[0] * (from_centre / 2 + math.fsum(np.sin(u * from_centre) / u * phi))
    return 0.5 - integral / math.pi


@functools.cache
def inverted(families: tuple[Family, ...], reach: float, nodes: int) -> tuple[Any, Any]:
    """(u, Phi(u)) of a workload; it knows no threshold."""
    u = np.linspace(0.0, reach, nodes)[1:]
    phi = np.ones(len(u))
    for family in families:
        phi *= characteristic(float(family.v), float(family.v) * family.shift * u) ** family.count
    return u, phi


def gil_pelaez_power(families: Sequence[Family], level: float, reach: float) -> float:
    """Power at a level for shifts of 1: Q(L > t) = P(L > t + 2 rho) = level, power P(L > t)."""
    rho = float(total_rho(families))
    side = 8 * math.sqrt(2 * rho)
    threshold = scipy.optimize.brentq(
        lambda t: gil_pelaez_tail(families, t + 2 * rho, reach) - level, -rho - side, -rho + side, xtol=1e-14
    )
    return gil_pelaez_tail(families, threshold, reach)


def gil_pelaez_delta(families: Sequence[Family], epsilon: float, reach: float) -> float:
    """P(L > epsilon) - e^epsilon P(L > epsilon + 2 rho) for shifts of 1; right to about 1e-14 e^epsilon."""
    beyond = gil_pelaez_tail(families, epsilon + 2 * float(total_rho(families)), reach)
    return gil_pelaez_tail(families, epsilon, reach) - math.exp(epsilon) * beyond


# ---------------------------------------------------------------------------------------------------------------------
# Workloads
# ---------------------------------------------------------------------------------------------------------------------

COARSE_SCALES = [
    Family(Fraction(7, 20), 1, 12),
    Family(Fraction(7, 5), 1, 2),
    Family(Fraction(31, 3203), 1, 16),
    Family(Fraction(124, 3203), 1, 3),
]
"""Few coarse scales, whose lattice revivals move delta by 1e-6 to 1e-5."""

# Levels: nation, state, county, tract, block group, block. Queries, per level over the denominator below:
# TOTAL, CENRACE, HISPANIC, VOTINGAGE, HHINSTLEVELS, HHGQ, HxC, VxC, VxH, VxHxC, HHGQxVxHxC
LEVEL_SHARES = [Fraction(share, 4099) for share in (104, 1440, 447, 687, 1256, 165)]
QUERY_SHARES = [
    (4097, (0, 52, 26, 26, 26, 26, 130, 130, 26, 442, 3213)),
    (4097, (3773, 6, 6, 6, 6, 6, 12, 12, 6, 34, 230)),
    (4097, (3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754)),
    (4102, (1567, 8, 5, 5, 5, 5, 1933, 20, 5, 67, 482)),
    (4099, (1705, 3, 3, 3, 3, 3, 1055, 9, 3, 24, 1288)),
    (4097, (5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945)),
]
HOUSING_SHARES = [Fraction(share, 4100) for share in (20, 20, 350, 1456, 1759, 495)]


def redistricting_families(levels: Sequence[int] = range(6), housing: bool = True) -> list[Family]:
    """The 2020 redistricting release, sigma^2 = 1 / rho of the query, two cells of each: v = rho, count 2.

    Persons 2.56 and housing units 0.07 of zCDP, shared out over levels and then queries (US Census Bureau, 2021).
    """
    rhos = [
        Fraction(64, 25) * LEVEL_SHARES[level] * Fraction(share, QUERY_SHARES[level][0])
        for level in levels
        for share in QUERY_SHARES[level][1]
    ]
    if housing:
        rhos += [Fraction(7, 100) * HOUSING_SHARES[level] for level in levels]
    return gathered(rho for rho in rhos if rho)


def path_families(path: Path) -> list[Family]:
    """Every positive entry of a DHC allocation is two counts with sigma^2 = 1 / entry."""
    with path.open(newline="") as file:
        entries = [Fraction(entry) for row in csv.DictReader(file) for entry in row.values()]
    return gathered(entry for entry in entries if entry)


def gathered(scales: Iterable[Fraction]) -> list[Family]:
    """Two counts for every v, equal ones in one family."""
    return [Family(v, 1, 2 * times) for v, times in Counter(scales).items()]
