"""Sums of very many independent losses on one grid, by Fourier transforms of tilted distributions, with error bounds.

The distribution of a sum has the transform phi_1^n_1 phi_2^n_2 ...; the inverse transform gives all masses with an
error of about n 1e-16 of the largest. Exponential tilting, masses times e^(theta loss), moves the accurate region, so
that several tilts together have relative accuracy over the whole range. Each tilt needs a grid of the width of its
tilted distribution only: mass outside is folded onto it (aliasing), and bounded by Chernoff's inequality.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

# its transforms are imported when they are used
import scipy

from adversary._core import Floats, Integers, log_sum_exp

# Nats: the window of a tilted distribution ends where less than e^-42 of it lies beyond.
FOLDED = 42.0

# exp(-690) is 1e-300, near the smallest normal double.
DEEPEST = 690.0
"""Nats: masses of a sum are computed down to e^-690."""

# Standard deviations between the centres of neighbouring tilts.
APART = 6.0

# Standard deviation, in grid points, below which a tilted distribution is concentrated at the end of its range.
NARROW = 0.3

MOST_TILTS = 60

# Largest number of points of one transform.
MOST_BINS = 2**20

# Largest distance, in grid points, of a tilt from the mean of the sum.
MOST_PLACES = 2**22

_EPS = 2.3e-16
_STEPS = (0.02, 0.06, 0.15, 0.35, 0.65, 1.0, 1.5)


class Part(NamedTuple):
    """Distribution on the grid, and the number of independent losses that have it."""

    place: Integers
    mass: Floats
    times: int


class TiltedLaw(NamedTuple):
    """Log masses at `first`, `first` + 1, ... times the step, logs of their error bounds, and the mass outside.

    `above` and `below` are upper bounds on the mass above and below these grid points.
    """

    first: int
    log_mass: Floats
    log_error: Floats
    above: float
    below: float


@dataclass(frozen=True)
class Tilt:
    """Tilted sum, with masses times e^(theta loss): log total mass, mean and standard deviation in grid points."""

    theta: float
    log_total: float
    mean: float
    deviation: float

    def exponent(self, step: float) -> float:
        """Log of Chernoff's bound on the mass from the tilted mean outwards, for theta other than 0."""
        return self.log_total - self.theta * step * self.mean


@dataclass(frozen=True, eq=False)
class TiltedSum:
    """Sum of independent losses on a grid.

    Parameters
    ----------
    parts : distributions on the grid and their multiplicities; masses may add up to less than one
    step : spacing of the grid, nats
    depth : nats; masses are computed down to e^-depth
    """

    parts: tuple[Part, ...]
    step: float
    depth: float = DEEPEST

    def tilt(self, theta: float) -> Tilt:
        """The sum tilted by theta."""
        return self._moments(theta * self.step)

    def _moments(self, rate: float) -> Tilt:
        log_total = mean = variance = 0.0
        for (place, log_mass), part in zip(self._logs, self.parts, strict=True):
            log_weight = log_mass + rate * place
            top = float(log_weight.max())
            weight = np.exp(log_weight - top)
            total = float(weight.sum())
            centre = float((weight * place).sum()) / total
            log_total += part.times * (top + math.log(total))
            mean += part.times * centre
            # Not `weight @ ...`: BLAS would start threads.
            variance += part.times * float((weight * (place - centre) ** 2).sum()) / total
        return Tilt(rate / self.step, log_total, mean, math.sqrt(variance))

    def _log_total(self, rate: float) -> float:
        return sum(
            part.times * float(log_sum_exp(log_mass + rate * place))
            for (place, log_mass), part in zip(self._logs, self.parts, strict=True)
        )

    @cached_property
    def _logs(self) -> list[tuple[Floats, Floats]]:
        return [(part.place.astype(np.float64), np.log(part.mass)) for part in self.parts]

    @cached_property
    def ends(self) -> tuple[int, int]:
        """Smallest and largest grid point of the sum."""
        low, high = (sum(part.times * int(part.place[end]) for part in self.parts) for end in (0, -1))
        return low, high

    @cached_property
    def tilts(self) -> tuple[Tilt, ...]:
        """Tilts from theta = -1, the distribution under the other hypothesis, up to the largest relevant losses."""
        down, up = [self.tilt(0.0)], list[Tilt]()
        while down[-1].theta > -1.0 and len(down) < MOST_TILTS:
            down.append(self._next(down[-1], -1.0))
        here = down[0]
        while len(up) < MOST_TILTS and here.exponent(self.step) > -self.depth:
            here = self._next(here, 1.0)
            if here.deviation < NARROW:
                break
            up.append(here)
        return (*down[::-1], *up)

    def _next(self, here: Tilt, sign: float) -> Tilt:
        """Next tilt, whose distribution is about APART standard deviations away, by a Gaussian approximation."""
        change = sign * APART / (max(here.deviation, NARROW) * self.step)
        for _ in range(60):
            change = change if sign > 0.0 else max(change, -1.0 - here.theta)
            there = self.tilt(here.theta + change)
            near = abs(change) * self.step * abs(there.mean - here.mean) <= APART**2 * 1.2
            if near and (sign < 0.0 or there.exponent(self.step) > -self.depth - 10.0):
                break
            change *= 0.7
        return there

    def _reach(self, here: Tilt) -> tuple[float, float]:
        """Half-width of a window, and Chernoff's bound on the share of a tilted distribution outside it."""
        if here.deviation < NARROW:
            return self.ends[1] - self.ends[0] + 1.0, 0.0
        sides, limits = [], (here.mean - self.ends[0], self.ends[1] - here.mean)
        for sign in (-1.0, 1.0):
            shifts = [sign * share * math.sqrt(2.0 * FOLDED) / (here.deviation * self.step) for share in _STEPS]
            rises = [
                self._log_total((here.theta + s) * self.step) - here.log_total - s * self.step * here.mean
                for s in shifts
            ]
            sides.append([(rise, abs(shift) * self.step) for rise, shift in zip(rises, shifts, strict=True)])
        wide = max(
            min(limit, *((rise + FOLDED) / slope for rise, slope in side))
            for side, limit in zip(sides, limits, strict=True)
        )
        half = min(wide + 1.0, 0.5 * MOST_BINS - 1.0)
        beyond = [
            0.0 if half > limit else math.exp(min(0.0, *(rise - slope * half for rise, slope in side)))
            for side, limit in zip(sides, limits, strict=True)
        ]
        return half, sum(beyond)

    def window(self, here: Tilt) -> tuple[int, Floats, float, float]:
        """Window about the mean of a tilted distribution: first grid point, masses, absolute and relative error."""
        half, folded = self._reach(here)
        size = scipy.fft.next_fast_len(2 * math.ceil(half) + 4, real=True)
        first = round(here.mean) - size // 2
        waves, sizes, input_errors, norms = [], [], [], []
        for (place, log_mass), part in zip(self._logs, self.parts, strict=True):
            log_weight = log_mass + here.theta * self.step * place
            top = float(log_weight.max())
            weight = np.exp(log_weight - top)
            weight /= weight.sum()
            wave = scipy.fft.rfft(np.bincount(part.place % size, weight, size))
            waves.append(wave)
            sizes.append(np.abs(wave) + 1e-13)
            input_errors.append(4.0 * _EPS * (2.0 + float((weight * np.abs(log_weight)).sum())))
            norms.append(_norm(wave))
        total = _product([_power(wave, part.times) for wave, part in zip(waves, self.parts, strict=True)])
        mass = scipy.fft.irfft(total, size)
        log_sizes = sum(part.times * np.log(one) for one, part in zip(sizes, self.parts, strict=True))
        logs, whole = 4.0 * _EPS * math.log2(size), np.exp(log_sizes)
        error = logs * _norm(total) / math.sqrt(size) + folded
        for one, part, own, norm in zip(sizes, self.parts, input_errors, norms, strict=True):
            others = whole / one
            error += part.times * (logs * norm * _norm(others) / size + own * _sum(others) / size)
            error += 6.0 * _EPS * part.times * _sum(whole) / size
        relative = sum(part.times * one for part, one in zip(self.parts, input_errors, strict=True))
        return first, np.roll(mass, -(first % size)), float(error), relative

    def law(self) -> TiltedLaw:
        """Masses of the sum with error bounds, each from the tilt with the smallest error."""
        windows = [(here, *self.window(here)) for here in self._followed]
        low = max(min(first for _, first, *_ in windows), self.ends[0])
        high = min(max(first + mass.size for _, first, mass, *_ in windows) - 1, self.ends[1])
        places = self.step * np.arange(low, high + 1)
        log_mass = np.full(places.size, -np.inf)
        log_error = np.min([here.log_total - here.theta * places for here in self._followed], axis=0)
        for here, first, mass, error, relative in windows:
            start, stop = max(first, low), min(first + mass.size - 1, high)
            if stop < start:
                continue
            inside = slice(start - low, stop - low + 1)
            back = here.log_total - here.theta * self.step * np.arange(start, stop + 1)
            digits = 4.0 * _EPS * (abs(here.log_total) + abs(here.theta) * self.step * max(abs(start), abs(stop)))
            with np.errstate(divide="ignore"):
                there = np.log(np.maximum(mass[start - first : stop - first + 1], 0.0))
                bound = back + np.logaddexp(math.log(error), there + math.log(digits + relative))
            better = bound < log_error[inside]
            log_mass[inside] = np.where(better, back + there, log_mass[inside])
            log_error[inside] = np.where(better, bound, log_error[inside])
        return TiltedLaw(low, log_mass, log_error, self._mass_beyond(high, 1.0), self._mass_beyond(low, -1.0))

    @property
    def _followed(self) -> list[Tilt]:
        """Tilts whose means are within `MOST_PLACES` grid points of the untilted mean."""
        middle = self.tilt(0.0).mean
        return [here for here in self.tilts if abs(here.mean - middle) < MOST_PLACES]

    def _mass_beyond(self, place: int, sign: float) -> float:
        """Chernoff's bound on the mass above (sign 1) or below (sign -1) a grid point."""
        if place == self.ends[1 if sign > 0.0 else 0]:
            return 0.0
        edge = self._followed[-1 if sign > 0.0 else 0]
        shifts = [0.0, *(sign * share * math.sqrt(2.0 * FOLDED) / (edge.deviation * self.step) for share in _STEPS)]
        rates = [(edge.theta + shift) * self.step for shift in shifts]
        return math.exp(min(0.0, *(self._log_total(rate) - rate * place for rate in rates if rate * sign >= 0.0)))


def _power(wave: Any, times: int) -> Any:
    """Integer power by repeated squaring."""
    result, square = None, wave
    while times:
        if times & 1:
            result = square if result is None else result * square
        times >>= 1
        square = square * square if times else square
    return result


def _product(waves: Sequence[Any]) -> Any:
    total = waves[0]
    for wave in waves[1:]:
        total = total * wave
    return total


def _norm(wave: Any) -> float:
    """Upper bound on the Euclidean norm of a full transform, from its real half."""
    return math.sqrt(2.0 * float(np.sum(np.abs(wave) ** 2)))


def _sum(values: Floats) -> float:
    return 2.0 * float(values.sum())
