"""Profile of composed discrete Gaussians by a contour sum with a proved error bound.

With l0 = eps + r the smallest lattice point above eps, h the lattice step and z = s + iu,

    delta(eps) = (1 / 2 pi) integral over |u| <= pi / h of M(z) e^(-z l0) K(z) du,   s > 0,
    K(z) = h [(1 - e^-r) + e^(-zh) (e^-r - e^-h)] / ((1 - e^(-zh)) (1 - e^(-(z+1)h))),

and the same integral is -(1 - delta(eps)) for -1 < s < 0. The error bound has three parts.

Trapezium rule. F(u) = h sum over j of delta(eps + jh) e^((s+iu) j h), so a sum over one whole period with spacing
2 pi / T is exactly the sum over m of delta(eps + mT) e^(s m T): never too small, and too large by at most the terms
m != 0, bounded by Chernoff: delta(e) <= t^t / (1 + t)^(1 + t) exp(-(e - rho)^2 / (4 rho)), t = (e - rho) / (2 rho).

Omitted nodes. |F(u)| <= e^(rho s (s+1) - s eps + kappa h) Phi(u) / (|s (s+1)| + 4 u^2 / pi^2), kappa = s + 1/2 (1/2
for s < 0), by the Cauchy-Schwarz inequality and |sin x| >= 2 |x| / pi. Where Phi(u) <= tau sqrt(1 + u^2 / u0^2), the
sum of the omitted terms grows only logarithmically with the period; `revivals` lists where Phi may be larger.

Rounding. 2^-53 times the sum of absolute terms times the number of operations: a model, which exceeds the error in all
tests.

A Gaussian release of variance t multiplies M by e^(t z (z+1) / 2). The sum is then over the whole line, with the kernel
1 / (z (z + 1)), and needs no lattice.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr

from adversary._core import Floats
from adversary.privacy.losses.contour.contour_terms import (
    Blocks,
    Nodes,
    NodesNeeded,
    curvature,
    decay,
    lattice_kernels,
    smooth_kernels,
    twisted_product,
    waves,
)
from adversary.privacy.losses.contour.revivals import (
    MOST,
    RevivalWindows,
    Threshold,
    TooManyRevivals,
    Work,
    nodes_of,
    revivals,
)

_FEW = 257
_KEPT_WINDOWS = 6
_KEPT_NODES = 1_000_000
_UNIT = 2.0**-53


class Sums(NamedTuple):
    """Contour sums per epsilon: value, and bounds on its excess over and shortfall below the exact number."""

    value: Floats
    above: Floats
    below: Floats


@dataclass(frozen=True, eq=False)
class Contour:
    """Contour sum for families of discrete Gaussian releases and a Gaussian release.

    Parameters
    ----------
    v, shift, count : arrays (family,); v = 1 / sigma^2, shift in people
    step : spacing of the lattice of total losses, in nats; None without a usable lattice, which requires variance > 0
    variance : variance mu^2 of the loss of a Gaussian release; 0 for none
    slack : factor of the rounding model, larger if v was read as the nearest simple fraction
    """

    v: Floats
    shift: Floats
    count: Floats
    step: float | None
    variance: float
    slack: float = 1.0

    @cached_property
    def rho(self) -> float:
        """zCDP parameter of all releases; the Gaussian approximation of the loss has variance 2 rho."""
        return float(self.count @ (self.shift**2 * self.v)) / 2.0 + self.variance / 2.0

    def sums(self, eps: Floats, tol: float) -> tuple[Sums, Any]:
        """Sums for eps >= 0, and a mask: delta(eps) where it is True, 1 - delta(eps) where it is False.

        The tolerance is relative to a Gaussian approximation of the result; if that was too large (very coarse
        lattices), the sum is repeated with the computed size.
        """
        s = self.tilts(eps)
        beyond = s > 0.0
        log_size = np.where(beyond, *self._shadow(eps))
        sums = self._sum_nodes(eps, s, log_size, tol)
        for _ in range(3):
            wide = np.flatnonzero((sums.above + sums.below > tol * np.abs(sums.value)) & (sums.value > 0.0))
            lower = np.log(np.maximum(sums.value[wide], 1e-300))
            wide, lower = wide[lower < log_size[wide] - 0.3], lower[lower < log_size[wide] - 0.3]
            if wide.size == 0:
                break
            log_size[wide] = lower
            again = self._sum_nodes(eps[wide], s[wide], lower, tol)
            sums = Sums(*(_where_replaced(old, wide, new) for old, new in zip(sums, again, strict=True)))
        return sums, beyond

    def tail(self, eps: Floats, tol: float, kind: str, *, strict: bool = True) -> Sums:
        """P(L > eps) (kind "p") or Q(L > eps) (kind "q") for eps >= 0; if not `strict`, with L >= eps.

        The nodes are those of delta. These kernels decay more slowly, so that error bounds are wide for long periods.
        Between the poles the sum for P is -(1 - P(L > eps)); right of both it would cancel for epsilon far below rho.
        """
        s = self.tilts(eps)
        sums = self._sum_nodes(eps, s, np.where(s > 0.0, *self._shadow(eps)), tol, kind=kind, strict=strict)
        return sums._replace(value=sums.value + ((s < 0.0) & (kind == "p")))

    def density(self, eps: Floats, tol: float) -> Floats:
        """Upper bound on the density of L under P at eps >= 0; requires a Gaussian release."""
        s = np.abs(self.tilts(eps))
        sums = self._sum_nodes(eps, s, self._shadow(eps)[0], tol, kind="density")
        return np.asarray(np.maximum(sums.value + sums.below, 0.0))

    def peak_density(self) -> float:
        """Upper bound on the density of L under P: the integral of the absolute value of its Fourier transform."""
        spacing, log_tau = 2.0 * np.pi / (60.0 * np.sqrt(self.rho)), -20.0
        grid = self._grid(np.inf, spacing, Threshold(log_tau, np.inf))
        end = np.sqrt(-2.0 * log_tau / self.variance)
        # of densities, one period apart: never too small
        density = np.abs(self._weighted_phi(grid, Fraction(0))).sum()
        return float(density + np.exp(log_tau) * (end + 1.0 / (self.variance * end)) / np.pi)

    def tilts(self, eps: Floats) -> Floats:
        """Real part s of the contour: near the saddle point (eps - rho) / (2 rho), away from the poles 0 and -1.

        Whole numbers for rho up to 6 and half-integers up to 16, so that one Phi serves all; finer beyond, as rounding
        errors grow like e^(rho (s - saddle)^2).
        """
        rho = self.rho
        saddle = (eps - rho) / (2.0 * rho)
        if rho <= 6.0:
            s = np.rint(np.maximum(saddle, max(1.0, 1.0 / np.sqrt(rho))))
            return np.asarray(np.where(rho * (1.0 - saddle) ** 2 > 4.0, np.where(saddle < 1.0, -0.5, s), s))
        if rho <= 16.0:
            return np.asarray(np.where(saddle < 0.0, -0.5, np.maximum(np.rint(2.0 * saddle) / 2.0, 0.5)))
        part = 1.0 / np.ceil(2.0 * np.sqrt(rho))
        s = np.rint(saddle / part) * part
        return np.asarray(np.where(saddle < 0.0, np.clip(s, -1.0 + 2.0 * part, -2.0 * part), np.maximum(s, 2.0 * part)))

    def _shadow(self, eps: Floats) -> tuple[Floats, Floats]:
        """Log delta and log(1 - delta) of the Gaussian mechanism with the same rho."""
        mu = np.sqrt(2.0 * self.rho)
        upper, lower = log_ndtr(mu / 2 - eps / mu), eps + log_ndtr(-mu / 2 - eps / mu)
        delta = upper + np.log(-np.expm1(np.minimum(lower - upper, -1e-12)))
        miss = np.logaddexp(log_ndtr(eps / mu - mu / 2), lower)
        return np.asarray(delta), np.asarray(miss)

    def work(self, eps: Floats, tol: float, most: Work) -> Work | None:
        """Cost of the revival search and of a sum with this tolerance at these epsilons; None if above `most`."""
        size, tilt = self._shadow(eps), self.tilts(eps)
        grids = [self._nodes_for(eps, tilt, np.where(tilt > 0.0, *size), tol, "delta")]
        if self.step is None:
            grids += [self._nodes_for(eps, tilt, np.where(tilt > 0.0, *size), tol, kind) for kind in ("p", "q")]
            grids.append(self._nodes_for(eps, np.abs(tilt), size[0], tol, "density"))
        if grids[0].last <= _FEW // 2:
            return Work(0, float(grids[0].last))
        hardest = Threshold(min(a.threshold.log_tau for a in grids), max(a.threshold.u0 for a in grids))
        try:
            windows = self._windows(hardest, most.windows)
        except TooManyRevivals:
            return None
        nodes = (windows.high - windows.low).sum() / min(a.spacing for a in grids)
        work = Work(windows.searched, float(nodes))
        return work if work.fits(most) else None

    @cached_property
    def _grids(self) -> dict[Any, Nodes]:
        return {}

    def _grid(self, last: float, spacing: float, threshold: Threshold) -> Nodes:
        """Nodes where Phi may exceed tau(u); a cache holds the most recent ones, as calls repeat them."""
        key = (spacing, threshold)
        if key in self._grids:
            self._grids[key] = self._grids.pop(key)
        else:
            n = np.arange(last + 1.0) if last <= _FEW // 2 else nodes_of(self._windows(threshold), spacing, last)
            weight = np.full(n.size, spacing / np.pi)
            weight[:1] *= 0.5
            turn = n * spacing * (self.step or 0.0)
            wave = 2.0 * np.sin(0.5 * turn) ** 2 + 1j * np.sin(turn)
            self._grids[key] = Nodes(n, spacing, weight, wave, bool(n.size == last + 1.0), Blocks.of(n), {})
            while len(self._grids) > 1 and sum(grid.n.size for grid in self._grids.values()) > _KEPT_NODES:
                self._grids.pop(next(iter(self._grids)))
        return self._grids[key]

    @cached_property
    def _windows_by_threshold(self) -> dict[Threshold, RevivalWindows]:
        return {}

    def _windows(self, threshold: Threshold, most: int = MOST.windows) -> RevivalWindows:
        """Windows outside which Phi is at most tau(u); those of a slightly stricter threshold are reused."""
        for other, windows in self._windows_by_threshold.items():
            if 0.0 <= threshold.log_tau - other.log_tau <= 9.0 and 1.0 <= other.u0 / threshold.u0 <= 8.0:
                return windows
        if len(self._windows_by_threshold) >= _KEPT_WINDOWS:
            self._windows_by_threshold.pop(next(iter(self._windows_by_threshold)))
        weights = np.array([curvature(float(v)) for v in self.v]) * self.count * self.shift**2 * self.v / 2.0
        periods = 2.0 * np.pi / (self.shift * self.v)
        end = np.pi / self.step if self.step else np.inf
        revived = revivals(periods, weights, threshold, end, self.variance / 2.0, most)
        self._windows_by_threshold[threshold] = revived
        return revived

    def _weighted_phi(self, grid: Nodes, residue: Fraction) -> Any:
        """Phi_s at the nodes, s = residue modulo 1, times the weights of the trapezium rule."""
        if residue not in grid.phi:
            u = grid.n * grid.spacing
            gaussian = np.exp(-0.5 * self.variance * u * u)
            grid.phi[residue] = grid.weight * gaussian * twisted_product(self.v, self.shift, self.count, u, residue)
        return grid.phi[residue]

    def _sum_nodes(
        self, eps: Floats, s: Floats, log_size: Floats, tol: float, kind: str = "delta", *, strict: bool = True
    ) -> Sums:
        """The sum over nodes, and its certificate, for one kernel."""
        grid, period, left_out = self._grid_for(eps, s, log_size, tol, kind)
        value, rounding = self._total(eps, s, grid, kind, strict)
        alias = self._alias(eps, s, period, kind)
        return Sums(value, alias + left_out + rounding, left_out + rounding)

    def _grid_for(self, eps: Floats, s: Floats, log_size: Floats, tol: float, kind: str) -> tuple[Nodes, float, Floats]:
        """(nodes, period, bound on the omitted terms)."""
        needs = self._nodes_for(eps, s, log_size, tol, kind)
        grid = self._grid(needs.last, needs.spacing, needs.threshold)
        return grid, needs.period, np.zeros_like(eps) if grid.whole else needs.left_out

    def _nodes_for(self, eps: Floats, s: Floats, log_size: Floats, tol: float, kind: str) -> NodesNeeded:
        """Period and threshold for the tolerance, rounded to steps so that grids are shared."""
        rho, h = self.rho, self.step
        saddle = (eps - rho) / (2.0 * rho)
        nats = np.maximum(np.log(2.5 / tol) - log_size, 6.0)
        off = s - saddle
        right = 2.0 * rho * off + 2.0 * np.sqrt(rho * np.maximum(nats - rho * saddle**2 + rho * off**2, 0.0))
        wide = np.where(s > 0.0, right, (nats + eps) / (1.0 + s))
        period = float(np.maximum(nats / np.abs(s), wide).max())
        period = float(2.0 ** (np.ceil(4.0 * np.log2(period)) / 4.0))
        last = np.inf
        if h is not None:
            last = np.ceil(0.5 * (period / h - 1.0))
            period = (2.0 * last + 1.0) * h
        spacing = 2.0 * np.pi / period
        scale = rho * s * (s + 1.0) - s * eps  # log of the factor before Phi
        kappa = 0.0 if h is None else np.where(s > 0, s + 0.5, 0.5) * h
        threshold, left_out = self._dropping(s, scale + kappa, log_size, tol, spacing, last, kind)
        return NodesNeeded(float(last), spacing, period, threshold, left_out)

    def _dropping(
        self, s: Floats, log_scale: Floats, log_size: Floats, tol: float, spacing: float, last: float, kind: str
    ) -> tuple[Threshold, Floats]:
        """tau such that omitted terms stay below tol / 2.5 of every result, and the bound on them per epsilon."""
        product = np.abs(s * (s + 1.0))
        lattice = self.step is not None
        own = (np.pi / 2.0 if lattice else 1.0) * np.sqrt(product)
        u0 = float(2.0 ** np.floor(np.log2(own.min())))
        end = last * spacing if lattice else np.sqrt(300.0 / self.variance)
        if kind == "delta":
            log_sum = np.log(own * (own / u0) * np.arcsinh(end / own) + spacing) - np.log(np.pi * product)
            if not lattice:
                log_sum = np.logaddexp(log_sum, -np.log(np.pi * end))
        elif kind == "density":
            log_sum = np.full_like(s, np.log(end * np.hypot(1.0, end / u0) / np.pi))
        # Kernels of tails decay like 1 / u, so that their sum grows with the period.
        else:
            log_sum = np.full_like(s, np.log(0.5 * (end / u0 + np.arcsinh(end / u0)) + spacing / u0))
        log_tau = float(np.min(np.log(tol / 2.5) + log_size - log_scale - (0.0 if kind == "density" else log_sum)))
        log_tau = float(np.clip(4.0 * np.floor(log_tau / 4.0), -700.0 if lattice else -150.0, -1.0))
        return Threshold(log_tau, u0), np.exp(np.minimum(log_scale + log_tau + log_sum, 700.0))

    def _total(self, eps: Floats, s: Floats, grid: Nodes, kind: str, strict: bool) -> tuple[Floats, Floats]:
        """Sums over the nodes per epsilon, computed by tilt, and their rounding errors by the model."""
        value, rounding = np.empty_like(eps), np.empty_like(eps)
        for tilt in np.unique(s):
            rows = np.flatnonzero(s == tilt)
            value[rows], rounding[rows] = self._tilted_sum(eps[rows], float(tilt), grid, kind, strict)
        return np.where((s < 0) & (kind == "delta"), -value, value), rounding

    def _tilted_sum(self, eps: Floats, s: float, grid: Nodes, kind: str, strict: bool) -> tuple[Floats, Floats]:
        rho, u = self.rho, grid.n * grid.spacing
        phi = self._weighted_phi(grid, Fraction(s).limit_denominator(10_000) % 1)
        if self.step is None:
            start, short = eps, np.zeros_like(eps)
            kernels = smooth_kernels(s, u, kind)
            shares: list[Any] = [1.0]
        else:
            h = self.step
            index = np.floor((eps - rho) / h) + 1.0 if strict else np.ceil((eps - rho) / h)
            start = rho + h * index
            short = np.clip(start - eps, 0.0, h)
            kernels = lattice_kernels(s, grid.wave, h, kind)
            shares = [-np.expm1(-short), np.exp(-h) * np.expm1(h - short)] if kind == "delta" else [1.0]
        turn = rho * (2.0 * s + 1.0) - start
        log_front = rho * s * (s + 1.0) - s * start - (start if kind == "q" else 0.0)
        total, size, moment = np.zeros_like(eps), np.zeros_like(eps), np.zeros_like(eps)
        parts = [phi * kernel for kernel in kernels]
        sums = waves(grid, turn, parts)
        for share, part, wave in zip(shares, parts, sums, strict=True):
            absolute = np.abs(part)
            total = total + share * wave
            size = size + share * absolute.sum()
            # a threaded dot product stalls on shared cores
            moment = moment + share * (absolute * u).sum()
        front = np.exp(np.minimum(log_front, 700.0))
        slope = np.zeros_like(eps) if self.step is None or kind != "delta" else self._slope(s, start, short, grid, phi)
        steps = 20.0 + 2.0 * self.count.sum() + np.abs(rho * s * (s + 1.0)) + np.abs(s * start) + np.abs(eps)
        turning = np.abs(turn) + rho * (1.0 + np.abs(2.0 * s + 1.0)) + np.abs(start)  # `turn` is what is left of these
        misplaced = slope * (np.abs(start) + np.abs(eps) + 2.0 * rho)
        return front * total, self.slack * _UNIT * front * (size * steps + moment * turning + misplaced)

    def _slope(self, s: float, start: Floats, short: Floats, grid: Nodes, phi: Any) -> Floats:
        """Upper bound on e^eps Q(L > eps) over the factor of the sum: the effect of an error of the lattice point.

        Next to a lattice point the point itself is included, as rounding may have put it on the other side.
        """
        h = self.step or 0.0
        total = np.abs(phi * (h / decay(s + 1.0, grid.wave, h))).sum()
        at = np.where(h - short <= 1e-14 * (np.abs(start) + self.rho), h, 0.0)
        return np.asarray(total * np.exp(np.minimum(s * at - (short - at), 700.0)))

    def _alias(self, eps: Floats, s: Floats, period: float, kind: str) -> Floats:
        """Upper bound on the aliasing error: the contribution of all other periods."""
        rho = self.rho
        if kind != "delta":
            s_right = s + 1.0 if kind == "q" else s
            m = np.arange(1, 4)[:, None]
            ahead = np.maximum(eps + m * period - rho, 0.0)
            right = np.exp(np.minimum(s * m * period - (eps if kind == "q" else 0.0) - ahead**2 / (4.0 * rho), 700.0))
            peak = 1.0 if kind in ("p", "q") else 1.0 / np.sqrt(2.0 * np.pi * self.variance)
            left = np.exp(np.minimum(-s_right * m * period, 700.0))
            # between the poles 1 - P(L > eps), at most e^eps far to the left
            if kind == "p":
                right = np.where(s < 0.0, np.exp(np.minimum(s * m * period, 0.0)), right)
                left = np.where(s < 0.0, np.exp(np.minimum(eps - (1.0 + s) * m * period, 700.0)), left)
            return np.asarray(peak * 1.01 * (right + left).sum(0))
        m = np.arange(1, 4)[:, None]
        if (s < 0).all():
            left, right = np.exp(s * m * period), np.exp(np.minimum(eps - (1.0 + s) * m * period, 700.0))
        else:
            left = np.exp(np.minimum(self._log_ceiling(eps - m * period) - s * m * period, 700.0))
            right = np.exp(np.minimum(self._log_ceiling(eps + m * period) + s * m * period, 700.0))
            miss = np.exp(np.minimum(s, 0.0) * m * period) + np.exp(np.minimum(eps - (1.0 + s) * m * period, 700.0))
            left, right = np.where(s < 0, miss, left), np.where(s < 0, 0.0, right)
        terms = left + right
        return np.asarray(terms[0] + terms[1] + 1.01 * terms[2])

    def _log_ceiling(self, eps: Floats) -> Floats:
        """Log of Chernoff's bound on delta(eps); 0 for eps up to rho."""
        t = np.maximum(eps - self.rho, 0.0) / (2.0 * self.rho)
        with np.errstate(divide="ignore", invalid="ignore"):
            corner = np.where(t > 0.0, t * np.log(t), 0.0) - (1.0 + t) * np.log1p(t)
        return np.asarray(corner - self.rho * t * t)


def _where_replaced(old: Floats, where: Any, new: Floats) -> Floats:
    result = old.copy()
    result[where] = new
    return result
