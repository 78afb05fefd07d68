"""Noisy releases as columns, and the law of the sample variance with its noise, up to the largest one a mean allows.

Everything is in logs: a release far outside of what data can have underflows nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln

from adversary._core import Floats

LOG_2PI = float(np.log(2.0 * np.pi))
DEPTH = 36.0
"""Nats below a peak at which an integral over the sample variance ends."""
_X, _W = np.polynomial.legendre.leggauss(12)
_XL, _WL = np.polynomial.laguerre.laggauss(8)
_STEPS = np.concatenate([[0.0], np.geomspace(1e-9, 90.0, 19)])
_FINER = np.linspace(0.0, 1.0, 9)


@dataclass(frozen=True)
class Seen:
    """Releases on [0, 1] as columns: kinds of noise ("laplace", "gaussian" or "none"), and arrays (column,)."""

    kinds: tuple[str, str]
    n: Floats
    mean_scale: Floats
    mean: Floats
    variance_scale: Floats
    variance: Floats

    def take(self, chosen: Any) -> Seen:
        """Some columns."""
        names = ("n", "mean_scale", "mean", "variance_scale", "variance")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    @property
    def nothing(self) -> Seen:
        """The same without either statistic: g is then C(mu, v), the probability that the statistics are feasible."""
        return replace(self, kinds=("none", "none"))


def energy(kind: str, gap: Any, scale: Any) -> Any:
    """How far the log density of noise lies at `gap` below its largest; 0 where nothing was released."""
    if kind == "laplace":
        return np.abs(gap) / scale
    return 0.5 * (gap / scale) ** 2 if kind == "gaussian" else np.zeros_like(gap)


def log_height(kind: str, scale: Floats) -> Floats:
    """The largest log density of noise; 0 where nothing was released."""
    if kind == "laplace":
        return -np.log(2.0 * scale)
    return -np.log(scale) - 0.5 * LOG_2PI if kind == "gaussian" else np.zeros_like(scale)


@dataclass(frozen=True)
class VarianceLaw:
    """The log sample variance w given v, times the noise: v and the release of every column, (column, 1) each."""

    kind: str
    alpha: Floats
    rate: Floats
    scale: Floats
    centre: Floats

    @classmethod
    def of(cls, v: Floats, seen: Seen) -> VarianceLaw:
        """That of every column."""
        alpha = 0.5 * (seen.n - 1.0)
        parts = (alpha, alpha / v, seen.variance_scale, seen.variance)
        return cls(seen.kinds[1], *(x[:, None] for x in parts))

    @property
    def constant(self) -> Floats:
        """What `log` leaves out."""
        found = self.alpha * np.log(self.rate) - gammaln(self.alpha) + log_height(self.kind, self.scale)
        return np.asarray(found[:, 0])

    def log(self, w: Floats) -> Floats:
        """Log of x Gamma(x) q2(S* - x) at x = exp(w), which rises to one peak and falls."""
        x = np.exp(w)
        return np.asarray(self.alpha * w - self.rate * x - energy(self.kind, self.centre - x, self.scale))

    def slope(self, x: Floats) -> Floats:
        """Derivative of `log` in w."""
        tilt: Any = 0.0
        if self.kind == "laplace":
            tilt = np.sign(self.centre - x) / self.scale
        elif self.kind == "gaussian":
            tilt = (self.centre - x) / self.scale**2
        return np.asarray(self.alpha + x * (tilt - self.rate))

    @cached_property
    def peak(self) -> Floats:
        """The w at which `log` is largest, (column, 1)."""
        if self.kind == "laplace":
            tilt = 1.0 / self.scale
            right = self.alpha / (self.rate + tilt)
            with np.errstate(divide="ignore"):
                left = np.where(self.rate > tilt, self.alpha / np.maximum(self.rate - tilt, 0.0), np.inf)
            return np.log(np.minimum(np.maximum(self.centre, right), left))
        if self.kind == "gaussian":  # alpha - rate x + (centre - x) x / scale^2 = 0
            square = self.scale**2
            b = self.centre - self.rate * square
            root = np.sqrt(b * b + 4.0 * self.alpha * square)
            with np.errstate(divide="ignore"):
                return np.log(np.where(b > 0.0, 0.5 * (b + root), 2.0 * self.alpha * square / (root - b)))
        return np.log(self.alpha / self.rate)

    @cached_property
    def far(self) -> Floats:
        """Where `log` has fallen beyond its peak, (column, 1)."""
        return self.fallen(self.peak, 1.0)

    @property
    def corner(self) -> Floats:
        """w of the released variance, where Laplace noise has a corner; infinite if it has none."""
        if self.kind != "laplace":
            return np.full_like(self.alpha, np.inf)
        return np.where(self.centre > 0.0, np.log(np.where(self.centre > 0.0, self.centre, 1.0)), np.inf)

    def take(self, chosen: Any) -> VarianceLaw:
        """Some columns."""
        found = VarianceLaw(self.kind, *(x[chosen] for x in (self.alpha, self.rate, self.scale, self.centre)))
        found.__dict__.update(peak=self.peak[chosen], far=self.far[chosen])
        return found

    def fallen(self, start: Floats, side: float) -> Floats:
        """Where `log` has fallen by DEPTH (or a little more) from `start`, leftwards (side = -1) or rightwards."""
        with np.errstate(over="ignore"):
            level = self.log(start) - DEPTH
            below = self.log(start + side * _STEPS) < level
            first = np.argmax(below, -1)
            near, far = _STEPS[first - 1][:, None], _STEPS[first][:, None]
            finer = near + (far - near) * _FINER
            below = self.log(start + side * finer) < level
        return start + side * np.take_along_axis(finer, np.argmax(below, -1)[:, None], -1)

    def log_tail(self, w: Floats, slope: Floats) -> Floats:
        """`log_below` where `log` rises steeply, by Gauss-Laguerre along its slope, (column,)."""
        logs = self.log(w - _XL / slope) + _XL
        top = logs.max(-1)
        return np.asarray(top + np.log((np.exp(logs - top[:, None]) * _WL).sum(-1) / slope[:, 0]))

    def log_below(self, w: Floats) -> Floats:
        """log Z(exp(w)) up to `constant`, (column,): panels between the window's ends, peak and corner."""
        peak = self.peak
        lo, hi = self.fallen(np.minimum(w, peak), -1.0), np.minimum(w, self.far)
        inner = [np.where(x > lo, np.minimum(x, hi), hi) for x in (peak, self.corner)]
        edges = np.sort(np.concatenate([lo, *inner, hi], -1), -1)
        tail = edges[:, :1] + (edges[:, 1:2] - edges[:, :1]) * np.array([0.55, 0.85])
        points, weights = panel_points(np.sort(np.concatenate([edges, tail], -1), -1), _X, _W)
        logs = self.log(points)
        top = logs.max(-1)
        return np.asarray(top + np.log((np.exp(logs - top[:, None]) * weights).sum(-1)))


def panel_points(edges: Floats, nodes: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Points of Gauss-Legendre panels between `edges` (..., edge) and their weights, (..., point) each."""
    half = 0.5 * (edges[..., 1:] - edges[..., :-1])[..., None]
    points = 0.5 * (edges[..., 1:] + edges[..., :-1])[..., None] + half * nodes
    shape = (*edges.shape[:-1], -1)
    return points.reshape(shape), (half * weights).reshape(shape)
