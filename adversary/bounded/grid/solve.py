r"""Quadrature of posteriors on adaptive grids, one release at a time.

The log density per dt ds, with the mean at :math:`\mu(s)` and the variance at :math:`v(t)`, has two parts. One is
computed at every node; the other, the log probability of the bounds (`noisy_likelihood.log_cut`), is computed on a
coarser grid and interpolated, by cubics through its normal quantile, which is nearly linear where the probability
decreases. Nodes are equidistributed in the cube root of the marginals, and partly spaced evenly. A cell that the edge
of the region crosses counts with its part inside, by the density at the middle of that part.

Two solutions on different grids, the second adapted to the first, give an estimate of the error; further ones follow
until it is small. Rows are solved separately, so no result depends on other rows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from adversary._core import Floats, in_threads
from adversary.bounded.grid.grid_input import GridInput
from adversary.bounded.grid.line import COSH, EXP, FINER, INSIDE, LOWEST, SINH, Line, LineLaw, trapezoid_weights
from adversary.bounded.grid.noisy_likelihood import ReleasedStatistics, log_cut, log_free
from adversary.bounded.grid.sample_statistics import log_noise, log_statistics

# Nodes along either axis of the coarse and the fine grid, in one solution after another.
SIZES = ((18, 120), (30, 200), (40, 320), (60, 480))

# Estimated error at which refinement stops.
CLOSE = 1e-3

# Nats below the maximum of a density at which a grid ends.
DEPTH = 22.0

# Share of the nodes that are spaced evenly over the range of the grid.
_EVEN = 0.3

# Factor on the difference of two solutions, and constant, of the estimated error.
_SAFETY, _LEAST = 3.0, 3e-5

# Probabilities of the quantiles that are compared between two solutions.
_ENDS = np.array([0.025, 0.975])

# Nodes along either axis, and largest number of rounds, in the search for the mass.
_FIRST, _ROUNDS = 24, 60

# Tolerance, in nats, for rough log densities in the search, which may be too high.
_ROUGH = 8.0

# Largest normal quantile (probability 1) and smallest one of the probability of the bounds.
_SURE, _LOWEST = 7.5, 1e6

# Nodes of the coarse grid, and quantiles there with their signs.
Bounds = tuple[Floats, Floats, list[tuple[float, Floats]]]


@dataclass(frozen=True)
class GridFit:
    """Solution for one release: marginals of mean and variance on [0, 1], log mass and estimated error."""

    grid_input: GridInput
    mean: LineLaw
    variance: LineLaw
    log_mass: float
    quadrature_error: float
    bounds: Bounds
    top: float

    @cached_property
    def deviation(self) -> LineLaw:
        """Marginal of sigma, on the nodes of the variance."""
        return self.variance.root()

    def log_density(self, mu: Floats, v: Floats) -> Floats:
        """Log density at every (mean, variance) on [0, 1], shape (mean, variance), up to a constant; -inf beyond the
        grid. The edge of the region is ignored."""
        s, t = self.mean.line.t(mu), self.variance.line.t(v)
        ends = self.mean.nodes[[0, -1]], self.variance.nodes[[0, -1]]
        beyond = ((s < ends[0][0]) | (s > ends[0][1]))[:, None] | (t < ends[1][0]) | (t > ends[1][1])
        s, t = np.clip(s, *ends[0]), np.clip(t, *ends[1])
        lines = self.mean.line, self.variance.line
        with np.errstate(all="ignore"):
            logs = _exact_part(self.grid_input, *lines, s, t) + _spread(self.bounds, s, t)
            logs = logs - lines[0].log_slope(s)[:, None] - lines[1].log_slope(t)
        return np.where(beyond | np.isnan(logs), -np.inf, logs)

    def joint(self) -> tuple[Floats, Floats, Floats]:
        """mu (..., 1), sigma2 (...,) and weights (mu, sigma2), which sum to 1."""
        s, t = self.mean.nodes[::FINER], self.variance.nodes[::FINER]
        weights = self._cells(s, t) * trapezoid_weights(t)
        return self.mean.line.x(s)[:, None], self.variance.line.x(t), weights / weights.sum()

    @property
    def feasible(self) -> float:
        """Probability of values feasible for data in [0, 1], under a posterior without the bounds."""
        s, turn = self.mean.nodes[::FINER], float(self.variance.line.t(0.25))
        # more nodes below the largest feasible variance, where the feasible part ends steeply
        t = np.union1d(self.variance.nodes[::FINER], turn - np.geomspace(1e-5, 3.0, 150))
        t = t[(t >= self.variance.nodes[0]) & (t < turn)]
        if not t.size:
            return 0.0
        inside, whole = (self._cells(s, t, limit=part) @ trapezoid_weights(t) for part in (True, False))
        return float(self.variance.cdf(0.25) * inside.sum() / whole.sum())

    def _cells(self, s: Floats, t: Floats, *, limit: bool = False) -> Floats:
        """Probabilities of cells per dt, up to a constant that does not depend on `limit`."""
        lines = self.mean.line, self.variance.line
        with np.errstate(all="ignore"):
            logs = _exact_part(self.grid_input, *lines, s, t) + _spread(self.bounds, s, t)
            return _cells(self.grid_input, *lines, s, t, logs - logs.max(), limit=limit)[0]


def solve_all(grid_input: GridInput) -> list[GridFit]:
    """Solutions for all rows, on all processors.

    Parameters
    ----------
    grid_input : rows of releases and priors

    Raises
    ------
    RuntimeError : a row has no posterior mass on the grid; the message names the first
    """

    def solved(i: int) -> GridFit | None:
        return solve(grid_input.row(i))

    result = in_threads(solved, range(len(grid_input.seen)), os.cpu_count() or 1)
    for i, one in enumerate(result):
        if one is None:
            raise RuntimeError(
                f"no posterior mass was found for release {i}: mean and variance "
                f"{grid_input.seen[i, [3, 6]].tolist()}, n {grid_input.seen[i, 0]:g}; the prior may have "
                "no mass on what the data can be, or hardly any"
            )
    return [one for one in result if one is not None]


def solve(grid_input: GridInput) -> GridFit | None:
    """Solve one row on finer and finer grids until two solutions agree; None without any mass."""
    mean, variance = _lines(grid_input)
    with np.errstate(all="ignore"):  # far out, where the density is 0
        start = _find(grid_input, mean, variance)
        if start is None:
            return None
        laws, before, highest = start[:2], None, start[2]
        for size in SIZES:
            result = _integrate(grid_input, laws, size)
            if result is None:
                return None
            laws = result.mean, result.variance
            if before is not None:
                error = _SAFETY * _difference(grid_input, before, result) + _LEAST
                error = error if result.top > highest - _ROUGH else np.inf  # the search left the mass
                result = replace(result, quadrature_error=error)
                if error < CLOSE:
                    break
            before = result
    return result


def _lines(grid_input: GridInput) -> tuple[Line, Line]:
    """Lines of mean and variance; without bounds, of the mean about the released one or that of the prior."""
    if grid_input.constrained:
        return Line(INSIDE), Line(COSH)
    seen, (known, mu0, kappa, _, s2) = ReleasedStatistics.of(grid_input.seen), grid_input.beliefs
    if grid_input.seen[1]:
        spread = max(float(np.abs(grid_input.seen[6])) if grid_input.seen[4] else 0.0, s2 if known else 0.0) / seen.n
        return Line(SINH, seen.mean.centre, float(np.hypot(grid_input.seen[2], np.sqrt(spread)))), Line(EXP)
    return Line(SINH, mu0 if known else 0.5, float(np.sqrt(s2 / kappa)) if known else 0.1), Line(EXP)


def _exact_part(grid_input: GridInput, mean: Line, variance: Line, s: Floats, t: Floats) -> Floats:
    """Part of the log density that is computed at every node, (mean, variance), ignoring the region."""
    mu, v = mean.x(s)[:, None], variance.x(t)
    logs = mean.log_slope(s)[:, None] + variance.log_slope(t)
    if grid_input.of_data:
        return np.asarray(logs + log_noise(grid_input, mu, v) + log_statistics(grid_input, mu, v, free=True)[0])
    return np.asarray(logs + grid_input.log_prior(mu, v) + log_free(ReleasedStatistics.of(grid_input.seen), mu, v))


def _bounds_part(
    grid_input: GridInput, mean: Line, variance: Line, s: Floats, t: Floats, *, rough: bool = False
) -> list[tuple[float, Floats]]:
    """Part that is interpolated: log probabilities of the bounds, (mean, variance), each with its sign."""
    if not grid_input.constrained:
        return []
    mu, v = mean.x(s)[:, None], variance.x(t)
    if grid_input.of_data:
        return [(1.0, log_statistics(grid_input, mu, v, rough=rough)[1])]
    seen, pairs = ReleasedStatistics.of(grid_input.seen), np.broadcast_arrays(mu, v)
    result = [(1.0, log_cut(seen, *pairs, rough=rough))]
    return [*result, (-1.0, log_cut(seen.nothing, *pairs, rough=rough))] if grid_input.normalised else result


def _spread(bounds: Bounds, s: Floats, t: Floats) -> Any:
    """Interpolate the part of the bounds to a finer grid, by monotone cubics of its normal quantiles."""
    from scipy.interpolate import PchipInterpolator

    coarse_s, coarse_t, parts = bounds
    result: Any = 0.0
    for sign, quantiles in parts:
        fine = PchipInterpolator(coarse_t, PchipInterpolator(coarse_s, quantiles)(s), axis=1)(t)
        result = result + sign * log_ndtr(fine)
    return result


def _limits(grid_input: GridInput, mean: Line, variance: Line) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ends of the search range on both lines."""
    far = 18.0 if grid_input.constrained else 300.0
    cap = np.inf if grid_input.of_data else float(grid_input.caps)
    top = (
        float(variance.t(min(cap, 0.25)))
        if grid_input.constrained
        else float(variance.t(cap))
        if cap < np.inf
        else 340.0
    )
    return (-far, far), (-17.9 if grid_input.constrained else -340.0, top)


def _find(grid_input: GridInput, mean: Line, variance: Line) -> tuple[LineLaw, LineLaw, float] | None:
    """Rough marginals over the range of non-negligible mass, and the highest log density evaluated.

    Rounds zoom in on the highest node until the range is resolved.
    """
    limits = _limits(grid_input, mean, variance)
    seen, (known, mu0, _, _, s2) = ReleasedStatistics.of(grid_input.seen), grid_input.beliefs
    away = 8.0 ** np.arange(-7.0, 2.0)
    away = np.concatenate([-away[::-1], [0.0], away])
    places = [np.linspace(-17.0, 17.0, 18) if grid_input.constrained else np.linspace(-40.0, 40.0, 41)]
    depths = [np.linspace(-17.0, 0.0, 18) if grid_input.constrained else np.linspace(-40.0, 40.0, 81)]
    if grid_input.seen[1]:
        places.append(mean.t(seen.mean.centre + grid_input.seen[2] * away))
    if grid_input.seen[4]:
        depths.append(variance.t(np.maximum(seen.variance.centre + grid_input.seen[5] * away, 0.0)))
    if known:
        places.append(mean.t(mu0) + away)
        depths.append(variance.t(s2) + away)
    s, t = (np.unique(np.clip(np.concatenate(one), *ends)) for one, ends in zip((places, depths), limits, strict=True))
    highest = -np.inf
    for further in reversed(range(_ROUNDS)):
        if s[0] < 0.0 < s[-1]:
            s = np.union1d(s, 0.0)  # where the largest variances are
        bounds = _bounds_part(grid_input, mean, variance, s, t, rough=True)
        logs = _exact_part(grid_input, mean, variance, s, t) + sum(sign * cut for sign, cut in bounds)
        logs = _masked(grid_input, s, t, logs)
        if not np.isfinite(logs.max()):
            return None
        highest = max(highest, float(logs.max()))
        weighed = _weighed(grid_input, logs, t)
        ranges = [_range(x, weighed.max(axis), ends) for x, axis, ends in ((s, 1, limits[0]), (t, 0, limits[1]))]
        if not further or all(enough for _, _, enough in ranges):
            break
        s, t = (
            x if enough else np.linspace(low, high, _FIRST)
            for x, (low, high, enough) in zip((s, t), ranges, strict=True)
        )
    p = np.exp(weighed - weighed.max())
    return LineLaw.of(mean, s, p @ trapezoid_weights(t)), LineLaw.of(variance, t, trapezoid_weights(s) @ p), highest


def _masked(grid_input: GridInput, s: Floats, t: Floats, logs: Floats) -> Floats:
    """Log densities with -inf outside the feasible region."""
    logs = np.where(np.isnan(logs), -np.inf, logs)
    return np.where(np.abs(s)[:, None] <= np.abs(t), logs, -np.inf) if grid_input.constrained else logs


def _weighed(grid_input: GridInput, logs: Floats, t: Floats) -> Floats:
    """Log density (s, t) raised where finite moments of sigma2 need mass, to find the grid's range; as is with bounds.

    At t beyond that of the highest density, the density is multiplied by sigma2^p relative to sigma2 there, with p the
    largest of 2, 1 and 1/2 for which sigma2^p has a finite mean, else 0. `t` is the variance's, log(sigma2) / 2.
    """
    if grid_input.constrained:
        return logs
    power = next((p for p in (2.0, 1.0, 0.5) if grid_input.has_moment(p)), 0.0)
    middle = t[np.argmax(logs.max(0))]
    return np.asarray(logs + 2.0 * power * np.maximum(t - middle, 0.0))


def _range(x: Floats, profile: Floats, limits: tuple[float, float]) -> tuple[float, float, bool]:
    """Range of non-negligible mass plus one node on either side, and a flag: True if it is resolved and closed."""
    counts = np.flatnonzero(profile >= profile.max() - DEPTH)
    first, last, width = counts[0], counts[-1], x[-1] - x[0]
    low = x[first - 1] if first else max(limits[0], x[0] - width)
    high = x[last + 1] if last < x.size - 1 else min(limits[1], x[-1] + width)
    closed = (first > 0 or x[0] <= limits[0]) and (last < x.size - 1 or x[-1] >= limits[1])
    return low, high, bool(closed and counts.size >= 0.5 * x.size and x.size <= _FIRST + 1)


def _nodes(law: LineLaw, size: int) -> Floats:
    """Grid of `size` nodes over the range of a marginal, equidistributed in its cube root and partly evenly."""
    first, last = 0, law.nodes.size - 1
    # without bounds a grid reaches as far as its moments
    if law.line.kind in (INSIDE, COSH):
        within = np.flatnonzero(law.logs > -DEPTH)
        first = max((within[0] - 1) // FINER * FINER, 0)
        last = min((within[-1] // FINER + 1) * FINER, last)
    fine = np.linspace(law.nodes[first], law.nodes[last], 2001)
    root = np.interp(fine, law.nodes, np.exp(law.logs / 3.0))
    parts = [np.concatenate([[0.0], np.cumsum(0.5 * (one[1:] + one[:-1]))]) for one in (root, np.ones_like(root))]
    shares = (1.0 - _EVEN) * parts[0] / parts[0][-1] + _EVEN * parts[1] / parts[1][-1]
    return np.asarray(np.interp(np.linspace(0.0, 1.0, size), shares, fine))


def _edges(x: Floats) -> Floats:
    """Edges of the cells of nodes, half way between them."""
    return np.concatenate([x[:1], 0.5 * (x[1:] + x[:-1]), x[-1:]])


def _cells(
    grid_input: GridInput, mean: Line, variance: Line, s: Floats, t: Floats, logs: Floats, *, limit: bool = False
) -> tuple[Floats, Floats]:
    """Integrals over the cells' parts in the region, along the mean and along the variance, (mean, variance) each."""
    edge_s, edge_t = _edges(s)[:, None], _edges(t)[None]
    first, last, most = np.array(-np.inf), np.array(np.inf), np.array(np.inf)
    if grid_input.constrained:
        first, last, most = t, -t, -np.abs(s)[:, None]
    elif limit:
        v, mu = variance.x(t), mean.x(s)
        half = np.sqrt(np.maximum(0.25 - v, 0.0))
        first, last = mean.t(0.5 - half), mean.t(0.5 + half)
        most = variance.t(np.maximum(mu * (1.0 - mu), 0.0))[:, None]
    logs, result = np.maximum(logs, LOWEST), []
    limited: tuple[Floats, Floats] = np.clip(edge_s, first, last), np.minimum(edge_t, most)
    for axis, nodes, edges in zip((0, 1), (s[:, None], t[None]), limited, strict=True):
        middle = 0.5 * (edges[1:] + edges[:-1]) if axis == 0 else 0.5 * (edges[:, 1:] + edges[:, :-1])
        slopes = np.gradient(logs, nodes.ravel(), axis=axis)
        # the density at the middle of the part
        rise = np.clip(slopes * (middle - nodes), -60.0, 1.0)
        result.append(np.exp(np.minimum(logs + rise, 300.0)) * np.diff(edges, axis=axis))
    return result[0], result[1]


def _integrate(grid_input: GridInput, laws: tuple[LineLaw, LineLaw], size: tuple[int, int]) -> GridFit | None:
    """Both marginals, on grids adapted to earlier marginals; None without any mass."""
    lines = laws[0].line, laws[1].line
    (coarse_s, coarse_t), (s, t) = ([_nodes(law, count) for law in laws] for count in size)
    with np.errstate(invalid="ignore"):
        cuts = [
            (sign, ndtri_exp(np.minimum(cut, 0.0)))
            for sign, cut in _bounds_part(grid_input, *lines, coarse_s, coarse_t)
        ]
    quantiles = [(sign, np.clip(np.nan_to_num(cut, nan=-_LOWEST), -_LOWEST, _SURE)) for sign, cut in cuts]
    bounds = coarse_s, coarse_t, quantiles
    logs = _exact_part(grid_input, *lines, s, t) + _spread(bounds, s, t)
    logs = np.where(np.isnan(logs), -np.inf, logs)
    top = (logs if not grid_input.constrained else _masked(grid_input, s, t, logs)).max()
    if not np.isfinite(top):
        return None
    along_mean, along_variance = _cells(grid_input, *lines, s, t, logs - top)
    means, variances = along_variance.sum(1), along_mean.sum(0)
    if not min(means.max(), variances.max()) > 0.0:
        return None
    result = LineLaw.of(lines[0], s, means), LineLaw.of(lines[1], t, variances)
    masses = [law.below[-1] * density.max() for law, density in zip(result, (means, variances), strict=True)]
    return GridFit(grid_input, *result, top + 0.5 * float(np.log(masses).sum()), np.inf, bounds, top)


def _difference(grid_input: GridInput, one: GridFit, other: GridFit) -> float:
    """Largest difference of two solutions: in probabilities, log sds, and, in sds, means and ends of 95 % intervals."""
    result = [abs(one.log_mass - other.log_mass)]
    pairs = ((one.mean, other.mean, 1.0), (one.deviation, other.deviation, 1.0), (one.variance, other.variance, 2.0))
    for first, second, power in pairs:
        shares = np.array([0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
        result.append(float(np.abs(first.cdf(second.quantiles(shares)) - shares).max()))
        if grid_input.has_moment(power):
            (centre, spread), (mean, sd) = first.moments, second.moments
            if not min(sd, spread) > 0.0:
                return np.inf
            gaps = np.abs(first.quantiles(_ENDS) - second.quantiles(_ENDS)) / sd
            result += [abs(centre - mean) / sd, abs(float(np.log(spread / sd))), float(gaps.max())]
    return max(result)
