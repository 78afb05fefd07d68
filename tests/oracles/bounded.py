"""A slow twin of the posterior of (mu, sigma2) given a noisy mean and variance of n values in [0, 1].

Written from the model (sections 1 to 4 of the notes), with v = sigma2, y the sample mean and S the sample variance:

    prior(mu, v) 1[v <= mu (1 - mu)] N(y; mu, v / n) Gamma(S; (n-1)/2, (n-1)/(2v)) 1[S <= u(y)] f(Y* - y) f(S* - S)

f the density of the noise, without the indicators when unconstrained, divided by C(mu, v) = P(S <= u(y), 0 <= y <= 1)
given mu and v when normalised.
Nested, in the order S, y, v, everything as logarithms:

* S by Gauss-Legendre in sqrt(S) on the stretch within 45 nats of the mode, split at mode and corner;
* mu given y and v is a truncated normal: by formula, or by Gauss-Legendre where C or the prediction need it;
* y on the stretch within 45 nats of its mode (golden section: the integrand is log-concave), split at every kink;
* v by composite Gauss-Legendre in a logit, on the stretch within 45 nats that a scan finds.

No window is guessed from the release, so the released numbers may contradict each other. Nothing of the package's
quadrature is used. `refine` multiplies the panels: two values agreeing is the check of accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PPoly
from scipy.special import gammainc, gammaln, log_ndtr, logsumexp, ndtr, xlogy

Floats = NDArray[np.float64]

NATS = 45.0
_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class Setting:
    """One release and prior on [0, 1]. `scales`: Laplace scales or Gaussian standard deviations; `prior`: None (flat)
    or (mu0, kappa0, nu0, s0); `cap`: upper limit of sigma2, beside 1/4 when constrained."""

    ystar: float | None
    sstar: float | None
    n: int
    scales: tuple[float, float]
    noise: str = "laplace"
    prior: tuple[float, float, float, float] | None = None
    constrained: bool = True
    feasibility: str = "event"
    cap: float = np.inf

    @classmethod
    def of(cls, release: Any, prior: Any = None, **kwargs: Any) -> Setting:
        """From a BoundedRelease and None or a NormalInverseGamma, in the units of the data; cap on [0, 1]."""
        law = None
        if prior is not None:
            unit = prior.on_unit(release.bounds)
            law = tuple(float(x) for x in (unit.mu0, unit.kappa0, unit.nu0, unit.s0))
        return cls(
            None if release.mean is None else float(release.unit_mean),
            None if release.variance is None else float(release.unit_variance),
            int(release.size),
            tuple(float(x) for x in release.unit_scales),
            release.noise,
            law,
            **kwargs,
        )

    @property
    def top(self) -> float:
        return min(self.cap, 0.25) if self.constrained else self.cap


def log_noise(kind: str, scale: float, difference: Floats) -> Floats:
    if kind == "laplace":
        return np.asarray(-np.abs(difference) / scale - np.log(2.0 * scale))
    return np.asarray(-0.5 * (difference / scale) ** 2 - np.log(scale) - 0.5 * _LOG_2PI)


def log_mass_between(low: Floats, high: Floats) -> Floats:
    """log(Phi(high) - Phi(low)), whichever tail."""
    a, b = np.where(low > 0.0, -high, low), np.where(low > 0.0, -low, high)
    with np.errstate(divide="ignore"):
        return np.asarray(log_ndtr(b) + np.log(-np.expm1(np.minimum(log_ndtr(a) - log_ndtr(b), 0.0))))


def gauss(count: int) -> tuple[Floats, Floats]:
    """Nodes and weights on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(count)
    return 0.5 * (x + 1.0), 0.5 * w


def composite(edges: Floats, count: int) -> tuple[Floats, Floats]:
    """Nodes and log weights of Gauss-Legendre between sorted edges, (..., k) -> (..., (k - 1) count)."""
    x, w = gauss(count)
    width = np.diff(edges)
    nodes = edges[..., :-1, None] + width[..., None] * x
    with np.errstate(divide="ignore"):
        weights = np.log(width)[..., None] + np.log(w)
    shape = (*edges.shape[:-1], -1)
    return nodes.reshape(shape), weights.reshape(shape)


def log_sample_variance_part(s: Setting, upper: Floats, v: Floats, count: int = 32) -> Floats:
    """log of the integral over 0 < S <= upper of Gamma(S; alpha, beta) noise(S* - S); upper may be infinite."""
    upper, v = np.broadcast_arrays(np.asarray(upper, dtype=float), v)
    shape, upper, v = upper.shape, upper.ravel(), np.asarray(v, dtype=float).ravel()
    result = np.empty(upper.size)
    for i in range(0, upper.size, 50_000):
        part = slice(i, i + 50_000)
        result[part] = _log_sample_variance_part(s, upper[part], v[part], count)
    return result.reshape(shape)


def _log_sample_variance_part(s: Setting, upper: Floats, v: Floats, count: int) -> Floats:
    alpha, beta = 0.5 * (s.n - 1), 0.5 * (s.n - 1) / v

    def f(t: Floats, rate: Floats = beta) -> Floats:  # S = t^2: t^(n-2) is smooth at 0 whatever n
        log = xlogy(s.n - 2.0, t) - rate * t * t
        return log if s.sstar is None else np.asarray(log + log_noise(s.noise, s.scales[1], s.sstar - t * t))

    far = (4.0 * alpha + 20.0 * np.sqrt(alpha) + 200.0) / beta + max(s.sstar or 0.0, 0.0)
    end = np.sqrt(np.minimum(upper, far))
    with np.errstate(over="ignore"):
        mode = np.minimum(np.sqrt(_mode(s, 0.5 * (s.n - 2.0), beta)), end)
    level = f(mode) - NATS
    low, high = _edge(f, mode, np.zeros_like(mode), level), _edge(f, mode, end, level)
    corner = mode if s.sstar is None else np.clip(np.sqrt(max(s.sstar, 0.0)), low, high)
    edges = np.sort(np.stack([low, mode, corner, high], -1), -1)
    t, w = composite(edges, count)
    total = logsumexp(f(t, beta[:, None]) + w, axis=-1)
    with np.errstate(invalid="ignore"):
        result = np.log(2.0) + alpha * np.log(beta) - gammaln(alpha) + total
    return np.asarray(np.where(upper > 0.0, result, -np.inf))


def _mode(s: Setting, power: float, beta: Floats) -> Floats:
    """Maximum over S > 0 of S^power exp(-beta S) noise(S* - S)."""
    if s.sstar is None:
        return np.asarray(power / beta)
    if s.noise == "gaussian":
        variance = s.scales[1] ** 2
        b = beta * variance - s.sstar
        root = np.sqrt(b * b + 4.0 * power * variance)
        return np.asarray(np.where(b > 0.0, 2.0 * power * variance / np.maximum(b + root, 1e-300), 0.5 * (root - b)))
    rate = 1.0 / s.scales[1]
    right = power / (beta + rate)
    left = np.where(beta > rate, power / np.where(beta > rate, beta - rate, 1.0), np.inf)
    return np.asarray(np.minimum(np.maximum(s.sstar, right), left))


def _edge(f: Any, inside: Floats, outside: Floats, level: Floats) -> Floats:
    """Between a point above the level and one beyond it: the end of the stretch above, a little too far out.

    Bisection of the log of the distance, from 1e-10 of the whole on: to 5%.
    """
    whole = outside - inside
    with np.errstate(divide="ignore"):
        done = f(outside) >= level
    near, far = np.full_like(whole, np.log(1e-10)), np.zeros_like(whole)
    for _ in range(9):
        middle = 0.5 * (near + far)
        above = f(inside + whole * np.exp(middle)) >= level
        near, far = np.where(above, middle, near), np.where(above, far, middle)
    return np.where(done, outside, inside + whole * np.exp(far))


def _golden(f: Any, low: Floats, high: Floats, steps: int = 44) -> Floats:
    """Maximum of a function with one mode, elementwise."""
    ratio = 0.5 * (np.sqrt(5.0) - 1.0)
    a, b = low, high
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    fc, fd = f(c), f(d)
    for _ in range(steps):
        left = fc >= fd
        a, b = np.where(left, a, c), np.where(left, d, b)
        c, d = np.where(left, b - ratio * (b - a), d), np.where(left, c, a + ratio * (b - a))
        fresh = f(np.where(left, c, d))
        fc, fd = np.where(left, fresh, fd), np.where(left, fc, fresh)
    return np.where(fc >= fd, c, d)


@dataclass(frozen=True)
class Slices:
    """For each of some values of v: nodes in y and the log integrand there, mu integrated out.

    y, log_weight, log_part, log_given: (v, y); log_part = noise(Y* - y) times the part in S, log_given adds mu's.
    """

    v: Floats
    edges: Floats
    y: Floats
    log_weight: Floats
    log_part: Floats
    log_given: Floats

    @property
    def log_total(self) -> Floats:
        return np.asarray(logsumexp(self.log_given + self.log_weight, axis=-1))


@dataclass
class Oracle:
    """Posterior of one `Setting`; `refine` 1, 2, ... multiplies the panels in v, y and S.

    `cdf_mean` is asked for at the points `means`, where panels have edges.
    """

    setting: Setting
    refine: int = 1
    means: tuple[float, ...] = ()
    _cache: dict[str, Any] = field(default_factory=dict)

    # the joint density

    def u(self, y: Floats) -> Floats:
        n = self.setting.n
        if not self.setting.constrained:
            return np.full_like(y, np.inf)
        return np.maximum(n / (n - 1.0) * y * (1.0 - y), 0.0)

    def mean_range(self, v: Floats) -> tuple[Floats, Floats]:
        if not self.setting.constrained:
            return np.full_like(v, -np.inf), np.full_like(v, np.inf)
        half = np.sqrt(np.maximum(0.25 - v, 0.0))
        return v / (0.5 + half), 0.5 + half

    def log_prior_variance(self, v: Floats) -> Floats:
        if self.setting.prior is None:
            return np.zeros_like(v)
        _, _, nu0, s0 = self.setting.prior
        a, b = 0.5 * nu0, 0.5 * nu0 * s0 * s0
        return np.asarray(a * np.log(b) - gammaln(a) - (a + 1.0) * np.log(v) - b / v)

    def given(self, y: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
        """mu given y and v, before truncation: log of its factor, centre and standard deviation."""
        n = self.setting.n
        if self.setting.prior is None:
            return np.zeros(np.broadcast_shapes(y.shape, v.shape)), y + 0.0 * v, np.sqrt(v / n) + 0.0 * y
        mu0, kappa0, _, _ = self.setting.prior
        variance = v / n + v / kappa0
        factor = -0.5 * (y - mu0) ** 2 / variance - 0.5 * np.log(variance) - 0.5 * _LOG_2PI
        return factor, (n * y + kappa0 * mu0) / (n + kappa0) + 0.0 * v, np.sqrt(v / (n + kappa0)) + 0.0 * y

    def log_part(self, y: Floats, v: Floats, count: int = 0) -> Floats:
        """noise(Y* - y) times the integral over S."""
        s = self.setting
        if s.constrained:
            log = log_sample_variance_part(s, self.u(y), v, count or 16 + 8 * self.refine)
        else:
            log = np.zeros(np.broadcast_shapes(y.shape, v.shape))  # it does not depend on y: added once per v
        return log if s.ystar is None else np.asarray(log + log_noise(s.noise, s.scales[0], s.ystar - y))

    def log_given(self, y: Floats, v: Floats) -> Floats:
        factor, centre, sd = self.given(y, v)
        low, high = self.mean_range(v)
        return np.asarray(factor + log_mass_between((low - centre) / sd, (high - centre) / sd))

    def slices(self, v: Floats) -> Slices:
        v = np.asarray(v, dtype=float)

        def f(y: Floats) -> Floats:
            return self.log_part(y, v, 10) + self.log_given(y, v)

        low, high = self._mean_bracket(v)
        modes = [_golden(f, low, high)]
        if self.setting.ystar is not None:  # a corner may be narrower than the search is fine
            modes.append(np.clip(self.setting.ystar, low, high))
        mode = np.where(f(modes[0]) >= f(modes[-1]), modes[0], modes[-1])
        level = f(mode) - NATS
        low, high = _edge(f, mode, low, level), _edge(f, mode, high, level)
        edges = self._mean_edges(v, low, mode, high)
        y, weight = composite(edges, 10 + 4 * self.refine)
        part = self.log_part(y, v[:, None])
        return Slices(v, edges, y, weight, part, part + self.log_given(y, v[:, None]))

    def _mean_bracket(self, v: Floats) -> tuple[Floats, Floats]:
        if self.setting.constrained:
            return np.full_like(v, 1e-300), np.ones_like(v)
        centres = [x for x in (self.setting.ystar, self.setting.prior and self.setting.prior[0]) if x is not None]
        reach = 0.0 if self.setting.ystar is None else 50.0 * self.setting.scales[0]
        if self.setting.prior is not None:
            widest = 10.0 * np.sqrt(v / self.setting.n + v / self.setting.prior[1])
            reach = np.minimum(reach, widest) if reach else widest
        return min(centres) - reach + 0.0 * v, max(centres) + reach + 0.0 * v

    def _mean_edges(self, v: Floats, low: Floats, mode: Floats, high: Floats) -> Floats:
        s, points = self.setting, [low, mode, high]
        if s.ystar is not None:
            points.append(np.full_like(v, s.ystar))
        if s.prior is not None:
            points.append(np.full_like(v, s.prior[0]))
        if s.constrained:
            sd = np.sqrt(v / s.n)
            for end in self.mean_range(v):
                points += [end + k * sd for k in (-5.0, -1.5, 1.5, 5.0)]
            tiny = [10.0**-k for k in (1, 2, 3, 4)]
            points += [np.full_like(v, x) for x in (*tiny, 0.5, *(1.0 - t for t in tiny))]
            scaled = 0.0 if s.sstar is None else (s.n - 1.0) / s.n * s.sstar
            if 0.0 < scaled < 0.25:
                root = np.sqrt(0.25 - scaled)
                points += [np.full_like(v, 0.5 - root), np.full_like(v, 0.5 + root)]
        mu0, kappa0 = (0.0, 0.0) if s.prior is None else s.prior[:2]
        share = s.n / (s.n + kappa0)  # mu given y and v is centred at share * y + (1 - share) * mu0
        for x in self.means:
            centre, sd = (x - (1.0 - share) * mu0) / share, np.sqrt(v / (s.n + kappa0)) / share
            points += [centre + k * sd for k in (-7.0, -4.0, -1.5, 1.5, 4.0, 7.0)]
        edges = np.sort(np.clip(np.stack(points, -1), low[:, None], high[:, None]), -1)
        cuts = self.refine if s.constrained else 5 * self.refine
        steps = np.arange(cuts) / cuts
        inner = edges[:, :-1, None] + np.diff(edges)[..., None] * steps
        return np.concatenate([inner.reshape(len(v), -1), edges[:, -1:]], -1)

    # v

    def to_variance(self, r: Floats) -> Floats:
        top = self.setting.top
        return np.asarray(np.exp(r) if np.isinf(top) else top / (1.0 + np.exp(-r)))

    def log_slope(self, r: Floats) -> Floats:
        """log dv / dr."""
        top = self.setting.top
        return np.asarray(r if np.isinf(top) else np.log(top) - np.logaddexp(0.0, r) - np.logaddexp(0.0, -r))

    def to_logit(self, v: float) -> float:
        top = self.setting.top
        return float(np.log(v) if np.isinf(top) else np.log(v / (top - v)) if v < top else np.inf)

    def log_outer(self, v: Floats) -> Floats:
        log = self.log_prior_variance(v)
        if not self.setting.constrained:
            log = log + log_sample_variance_part(self.setting, np.full_like(v, np.inf), v)
        return log

    def log_variance_logit(self, r: Floats) -> Floats:
        """Log density of the logit of v, unnormalised (event)."""
        v = self.to_variance(r)
        return np.asarray(self.log_outer(v) + self.slices(v).log_total + self.log_slope(r))

    @cached_property
    def edges(self) -> Floats:
        """Panels in the logit of v: equal ones on the stretch within 45 nats, closer about all corners inside."""
        low, high = -110.0, 60.0
        for _ in range(8):
            grid = np.linspace(low, high, 81)
            log = self.log_variance_logit(grid)
            kept = np.flatnonzero(log > np.nanmax(log) - NATS)
            first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, 80)
            low, high = grid[first], grid[last]
            if last - first > 40:
                break
        edges = np.linspace(low, high, 24 * self.refine + 1)
        graded = []
        if self.setting.constrained:
            for x in self.means:  # up to v = x (1 - x) the law of mu reaches x
                graded += [self._end(x) + d for d in (-0.3, -0.05, -0.01, 0.0)]
        else:
            steps = 10.0 ** -np.arange(1.0, 9.0)
            graded += [self.to_logit(0.25) + d for d in (0.0, *steps, *-steps)]
            if np.isfinite(self.setting.top):
                graded += [self.to_logit(self.setting.top * (1.0 - d)) for d in 10.0 ** -np.arange(0.5, 8.0, 0.5)]
        if self.setting.sstar is not None and 0.0 < self.setting.sstar < self.setting.top:
            width = np.sqrt(2.0 / self.setting.n)  # to which a corner of the noise is rounded off
            graded += [self.to_logit(self.setting.sstar) + k * width for k in (-5, -3, -1.2, 0, 1.2, 3, 5)]
        edges = np.union1d(edges, [x for x in graded if low < x < high])
        edges = edges[np.concatenate([[True], np.diff(edges) > 1e-9])]
        return np.asarray(edges)

    @cached_property
    def nodes(self) -> tuple[Floats, Floats, Slices]:
        """r, log weights of the slices (prior, slope and quadrature) and the slices."""
        r, weight = composite(self.edges, 10)
        v = self.to_variance(r)
        return r, weight + self.log_slope(r) + self.log_outer(v), self.slices(v)

    @cached_property
    def log_weights(self) -> Floats:
        """(v, y): log of every node's mass, normalised to sum 1, mu integrated out (event)."""
        _, outer, slices = self.nodes
        return np.asarray(outer[:, None] + slices.log_given + slices.log_weight)

    def mean_nodes(self, slices: Slices, count: int = 40) -> tuple[Floats, Floats]:
        """mu and log weight, (v, y, mu): the truncated normal given y and v, weights summing to 1."""
        v = slices.v[:, None]
        _, centre, sd = self.given(slices.y, v)
        low, high = self.mean_range(v)
        mode = np.clip(centre, low, high)
        reach = np.sqrt((mode - centre) ** 2 + 2.0 * NATS * sd**2)
        a, b = np.maximum(low, centre - reach), np.minimum(high, centre + reach)
        mu, weight = composite(np.stack([a, mode, b], -1), count // 2)
        log = weight - 0.5 * ((mu - centre[..., None]) / sd[..., None]) ** 2
        return mu, log - logsumexp(log, axis=-1, keepdims=True)

    def log_feasible(self, mu: Floats, v: float) -> Floats:
        """log C(mu, v), for points mu."""
        n, sd = self.setting.n, np.sqrt(v / self.setting.n)
        low, high = self.mean_range(np.array([v]))
        spots = np.concatenate([end + k * sd for end in (low, high) for k in (-6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0)])
        a, b = np.clip(mu - 10.0 * sd, 0.0, 1.0), np.clip(mu + 10.0 * sd, 0.0, 1.0)
        near = mu[:, None] + sd * np.array([-6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0])
        every = np.concatenate([near, np.broadcast_to(spots, (mu.size, spots.size))], -1)
        edges = np.sort(np.clip(np.concatenate([a[:, None], every, b[:, None]], -1), a[:, None], b[:, None]), -1)
        y, weight = composite(edges, 12)
        mass = gammainc(0.5 * (n - 1), 0.5 * (n - 1) / v * n / (n - 1.0) * y * (1.0 - y))
        density = np.exp(weight - 0.5 * ((y - mu[:, None]) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))
        return np.asarray(np.log((density * mass).sum(-1)))

    def feasible_table(self, v: float) -> PPoly:
        """log C(mu, v) as a piecewise polynomial over the means that v allows."""
        low, high = (float(x[0]) for x in self.mean_range(np.array([v])))
        sd = np.sqrt(v / self.setting.n)
        steps = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0])
        edges = np.concatenate([low + sd * steps, high - sd * steps, np.linspace(low, high, 9)])
        edges = np.unique(edges[(edges >= low) & (edges <= high)])
        edges = edges[np.concatenate([[True], np.diff(edges) > 1e-13])]
        return polynomials(edges, self.log_feasible(composite(edges, 10)[0], v))

    @cached_property
    def log_correction(self) -> Floats:
        """(v, y, mu): -log C at the nodes of mu; zeros for the event."""
        slices = self.nodes[2]
        mu = self.mean_nodes(slices)[0]
        if self.setting.feasibility == "event" or not self.setting.constrained:
            return np.zeros((1, 1, 1))
        return np.stack([-self.feasible_table(float(v))(m) for v, m in zip(slices.v, mu, strict=True)])

    def expect(self, function: Any) -> Floats:
        """E of function(mu, v), (v, y, mu) in; the function may give a list of arrays."""
        _, _, slices = self.nodes
        mu, log = self.mean_nodes(slices)
        log = log + self.log_correction + self.log_weights[..., None]
        weight = np.exp(log - log.max())
        values = np.asarray(function(mu, slices.v[:, None, None] + 0.0 * mu))
        return np.asarray((values * weight).sum((-3, -2, -1)) / weight.sum())

    # answers

    @cached_property
    def log_integral(self) -> float:
        """log of the integral of prior density times likelihood; flat: density 1; informative: of the whole prior."""
        log = self.log_weights
        if self.setting.feasibility == "normalised" and self.setting.constrained:
            log = logsumexp(log[..., None] + self.mean_nodes(self.nodes[2])[1] + self.log_correction, axis=-1)
        return float(logsumexp(log))

    @cached_property
    def log_prior_mass(self) -> float:
        """log of the prior's mass on the region: area for the flat prior (infinite where unconstrained)."""
        s = self.setting
        if s.prior is None and not s.constrained:
            return np.inf
        flat = Oracle(Setting(None, None, s.n, (np.inf, np.inf), s.noise, s.prior, s.constrained, cap=s.cap))
        r = np.linspace(-110.0, 60.0, 3401)
        x, weight = composite(r, 8)
        v = flat.to_variance(x)
        low, high = flat.mean_range(v)
        if s.prior is None:
            inside = np.log(np.maximum(high - low, 1e-300))
        else:
            sd = np.sqrt(v / s.prior[1])
            inside = log_mass_between((low - s.prior[0]) / sd, (high - s.prior[0]) / sd)
        return float(logsumexp(weight + flat.log_slope(x) + flat.log_prior_variance(v) + inside))

    def cdf_mean(self) -> Floats:
        """P(mu <= x) at the points `means`, by formula for mu given y and v (event)."""
        _, _, slices = self.nodes
        v = slices.v[:, None]
        _, centre, sd = self.given(slices.y, v)
        low, high = ((end - centre) / sd for end in self.mean_range(v))
        weight = np.exp(self.log_weights - self.log_weights.max())
        ends = [np.clip((x - centre) / sd, low, high) for x in self.means]
        shares = [np.exp(log_mass_between(low, end) - log_mass_between(low, high)) for end in ends]
        return np.array([(weight * share).sum() for share in shares]) / weight.sum()

    def cdf_variance(self, v: ArrayLike) -> Floats:
        """P(sigma2 <= v) (event)."""
        r, _, slices = self.nodes
        log = self.log_outer(slices.v) + slices.log_total + self.log_slope(r)
        whole = polynomials(self.edges, np.exp(log - log.max())).antiderivative()
        ends = np.clip([self.to_logit(float(x)) for x in np.ravel(v)], self.edges[0], self.edges[-1])
        return np.asarray(whole(ends) / whole(self.edges[-1]))

    @property
    def log_evidence(self) -> float:
        """Log density of the released numbers, the prior normalised on its region (on [0, 1])."""
        return self.log_integral - self.log_prior_mass

    @cached_property
    def moments(self) -> dict[str, float]:
        """mean and sd of mu, mean of sigma2 and of sigma, and sd of both."""
        e = self.expect(lambda mu, v: [mu, v, np.sqrt(v), v * v])
        spread = self.expect(lambda mu, v: (mu - e[0]) ** 2)
        sds = self.expect(lambda mu, v: [(v - e[1]) ** 2, (np.sqrt(v) - e[2]) ** 2])
        return {
            "mu": float(e[0]),
            "sd_mu": float(np.sqrt(spread)),
            "sigma2": float(e[1]),
            "sigma": float(e[2]),
            "sd_sigma2": float(np.sqrt(sds[0])),
            "sd_sigma": float(np.sqrt(sds[1])),
        }

    @cached_property
    def infeasible(self) -> tuple[float, float]:
        """P(sigma2 > mu (1 - mu) with mu in (0, 1)), P(either): by formula for mu given y and v."""
        _, _, slices = self.nodes
        if self.setting.constrained:
            return 0.0, 0.0
        v = slices.v[:, None]
        _, m, sd = self.given(slices.y, v)
        half = np.sqrt(np.maximum(0.25 - v, 0.0))
        inside = np.where(v < 0.25, ndtr((0.5 + half - m) / sd) - ndtr((0.5 - half - m) / sd), 0.0)
        unit = ndtr((1.0 - m) / sd) - ndtr(-m / sd)
        weight = np.exp(self.log_weights - self.log_weights.max())
        weight /= weight.sum()
        return float((weight * (unit - inside)).sum()), float((weight * (1.0 - inside)).sum())

    @cached_property
    def predictive(self) -> dict[str, float]:
        """A new value: normal, or normal truncated to [0, 1] when constrained; mean, sd, below 0, above 1."""
        if not self.setting.constrained:
            mean, v = self.moments["mu"], self.moments["sigma2"]
            below, above = self.expect(lambda m, w: [ndtr(-m / np.sqrt(w)), ndtr((m - 1.0) / np.sqrt(w))])
            sd = np.sqrt(self.moments["sd_mu"] ** 2 + v)
            return {"mean": mean, "sd": float(sd), "below": float(below), "above": float(above)}
        mean, square = self.expect(truncated_moments)
        return {"mean": float(mean), "sd": float(np.sqrt(square - mean**2)), "below": 0.0, "above": 0.0}

    def log_density_variance(self, v: ArrayLike) -> Floats:
        """Log marginal density of sigma2 at points, each by its own integral."""
        points = np.atleast_1d(np.asarray(v, dtype=float))
        inside = (points > 0.0) & (points < self.setting.top)
        safe = np.where(inside, points, 0.5 * min(self.setting.top, 1.0))
        slices = self.slices(safe)
        log = self.log_outer(safe)
        if self.setting.feasibility == "event" or not self.setting.constrained:
            log = log + slices.log_total
        else:
            mu, weight = self.mean_nodes(slices)
            c = np.stack([-self.feasible_table(float(x))(m) for x, m in zip(slices.v, mu, strict=True)])
            log = log + logsumexp((slices.log_given + slices.log_weight)[..., None] + weight + c, axis=(-2, -1))
        return np.asarray(np.where(inside, log - self.log_integral, -np.inf))

    def log_density_mean(self, mu: ArrayLike, *, rough: bool = False) -> Floats:
        """Log marginal density of mu at points: every point its own integral over v and y, cut at v = mu (1 - mu)."""
        points = np.atleast_1d(np.asarray(mu, dtype=float))
        r, outer, slices = self.nodes
        rows = self._log_joint(slices, points) + outer[:, None]
        if not self.setting.constrained:
            return np.asarray(logsumexp(rows, axis=0) - self.log_integral)
        ends = np.array([self._end(float(m)) for m in points])
        whole = np.searchsorted(self.edges, ends, side="right") - 1
        rows = np.where((np.arange(len(r)) // 10)[:, None] < whole, rows, -np.inf)
        cut = (whole >= 0) & (whole < len(self.edges) - 1)
        fresh = np.full((10, points.size), -np.inf)
        if cut.any() and not rough:
            fresh[:, cut] = self._last_panel(points[cut], self.edges[whole[cut]], ends[cut])
        with np.errstate(divide="ignore"):
            return np.asarray(logsumexp(np.concatenate([rows, fresh]), axis=0) - self.log_integral)

    def _end(self, mu: float) -> float:
        """The logit of mu (1 - mu), or of the cap."""
        return self.to_logit(mu * (1.0 - mu)) if 0.0 < mu < 1.0 else -np.inf

    def _last_panel(self, mu: Floats, start: Floats, end: Floats) -> Floats:
        """(10, mu): fresh nodes between the last whole panel and v = mu (1 - mu)."""
        finite = np.minimum(end, self.edges[-1])
        r, weight = composite(np.stack([start, finite], -1), 10)
        slices = self.slices(self.to_variance(r.ravel()))
        log = self._log_joint(slices, np.repeat(mu, 10), paired=True)
        log = log + self.log_slope(r.ravel()) + self.log_outer(slices.v)
        return np.asarray((log.reshape(r.shape) + weight).T)

    def _log_joint(self, slices: Slices, mu: Floats, *, paired: bool = False) -> Floats:
        """(v, mu), or one mu for each v: log of prior(mu | v) times the integral over y of N(y; mu, v / n) times
        the noise and the part in S, divided by C when normalised."""
        rows = [self._log_row(slices, k, mu[k : k + 1] if paired else mu) for k in range(slices.v.size)]
        return np.concatenate(rows) if paired else np.stack(rows)

    def _log_row(self, slices: Slices, k: int, mu: Floats) -> Floats:
        s, v, y = self.setting, slices.v[k], slices.y[k]
        sd, alpha = np.sqrt(v / s.n), 0.5 * (s.n - 1.0) if s.constrained else 0.0
        noise = self._log_mean_noise
        keep = np.concatenate([[True], np.diff(slices.edges[k]) > 0.0])
        edges = slices.edges[k][keep]
        with np.errstate(invalid="ignore"):
            smooth = slices.log_part[k] - noise(y) - (xlogy(alpha, self.u(y)) if alpha else 0.0)
        table = polynomials(edges, smooth.reshape(keep.size - 1, -1)[keep[1:]].ravel())
        near = mu[:, None] + sd * np.array([-9.0, -6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0, 9.0])
        every = np.concatenate([near, np.broadcast_to(edges, (mu.size, edges.size))], -1)
        y, weight = composite(np.sort(np.clip(every, edges[0], edges[-1]), -1), 10)
        log = table(y) + (xlogy(alpha, self.u(y)) if alpha else 0.0) + weight + noise(y)
        log -= 0.5 * ((y - mu[:, None]) / sd) ** 2 + np.log(sd) + 0.5 * _LOG_2PI
        row = logsumexp(log, axis=-1)
        if s.prior is not None:
            variance = v / s.prior[1]
            row = row - 0.5 * ((mu - s.prior[0]) ** 2 / variance + np.log(variance) + _LOG_2PI)
        if s.feasibility == "normalised" and s.constrained:
            low, high = (float(x[0]) for x in self.mean_range(np.array([v])))
            row = row - self.log_feasible(np.clip(mu, low, high), float(v))
        return np.asarray(row)

    def _log_mean_noise(self, y: Floats) -> Floats:
        s = self.setting
        return np.zeros_like(y) if s.ystar is None else log_noise(s.noise, s.scales[0], s.ystar - y)

    # intervals

    @cached_property
    def variance_grid(self) -> tuple[Floats, Floats, Floats]:
        """Fine v, density there and cdf: polynomials through the panels of the outer integral."""
        r, _, slices = self.nodes
        log = self.log_density_variance(slices.v)
        return fine_grid(self.edges, log + self.log_slope(r), self.to_variance, self.log_slope)

    @cached_property
    def mean_grid(self) -> tuple[Floats, Floats, Floats]:
        """Fine mu, density there and cdf: polynomials through panels on the stretch that carries the mass."""
        low, high = self._mean_stretch()
        edges = np.linspace(low, high, 16 * self.refine + 1)
        steps = (high - low) * 3.0 ** -np.arange(2.0, 12.0)
        centres = [x for x in (self.setting.ystar, self.setting.prior and self.setting.prior[0]) if x is not None]
        graded = [x for centre in centres for x in (centre, *(centre - steps), *(centre + steps))]
        if self.setting.constrained:
            graded += [0.5, *(low + steps), *(high - steps)]
        edges = np.union1d(edges, [x for x in graded if low < x < high])
        edges = edges[np.concatenate([[True], np.diff(edges) > 1e-9 * (high - low)])]
        return fine_grid(edges, self.log_density_mean(composite(edges, 10)[0]), lambda x: x, np.zeros_like)

    def _mean_stretch(self) -> tuple[float, float]:
        mean, sd = self.moments["mu"], self.moments["sd_mu"]
        low, high = mean - 40.0 * sd, mean + 40.0 * sd
        if self.setting.constrained:
            low, high = max(low, 1e-12), min(high, 1.0 - 1e-12)
        for _ in range(6):
            grid = np.linspace(low, high, 61)
            log = self.log_density_mean(grid, rough=True)
            kept = np.flatnonzero(log > log.max() - 21.0)
            first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, 60)
            low, high = grid[first], grid[last]
            if last - first > 40:
                break
        return float(low), float(high)

    def regions(self, name: str, prob: float = 0.95) -> list[tuple[float, float]]:
        """Regions of highest density of "mu", "sigma2" or "sigma", each by the density of its own."""
        x, density, cdf = self.mean_grid if name == "mu" else self.variance_grid
        if name == "sigma":
            x, density = np.sqrt(x), 2.0 * np.sqrt(x) * density
        found = highest_density(x, density, cdf, prob)
        if name != "mu":  # no mass to speak of below the grid: a density that rises to its left end reaches 0
            found = [(0.0 if low == x[0] else low, high) for low, high in found]
        return found

    def quantile(self, name: str, q: float) -> float:
        x, _, cdf = self.mean_grid if name == "mu" else self.variance_grid
        value = float(np.interp(q, cdf, x))
        return float(np.sqrt(value)) if name == "sigma" else value


def polynomials(edges: Floats, values: Floats) -> PPoly:
    """Piecewise polynomial through values at the Gauss nodes of `composite(edges, count)`."""
    table = values.reshape(len(edges) - 1, -1)
    x, _ = gauss(table.shape[1])
    legendre = np.linalg.solve(np.polynomial.legendre.legvander(2.0 * x - 1.0, x.size - 1), table.T)
    line = np.polynomial.Polynomial([-1.0, 2.0])
    basis = [np.polynomial.Polynomial(np.polynomial.legendre.leg2poly(row))(line) for row in np.eye(x.size)]
    power = np.stack([np.pad(p.coef, (0, x.size - p.coef.size)) for p in basis], 1) @ legendre
    return PPoly((power / np.diff(edges) ** np.arange(x.size)[:, None])[::-1], edges, extrapolate=True)


def fine_grid(edges: Floats, log: Floats, to: Any, log_slope: Any) -> tuple[Floats, Floats, Floats]:
    """200 points per panel: the variable, its density and its cdf, from log densities of the panels' coordinate."""
    density = polynomials(edges, np.exp(log))
    whole = density.antiderivative()
    x = np.unique(np.concatenate([np.linspace(a, b, 201) for a, b in pairwise(edges)]))
    cdf = whole(x) / whole(edges[-1])
    return to(x), np.exp(polynomials(edges, log)(x) - log_slope(x)), cdf


def highest_density(x: Floats, density: Floats, cdf: Floats, prob: float) -> list[tuple[float, float]]:
    """Stretches where the density is above the level that leaves `prob` inside; the level by bisection."""

    def stretches(level: float) -> list[tuple[float, float]]:
        above = np.concatenate([[False], density > level, [False]])
        starts, ends = np.flatnonzero(above[1:] & ~above[:-1]), np.flatnonzero(above[:-1] & ~above[1:]) - 1
        return [(crossing(i, i - 1, level), crossing(j, j + 1, level)) for i, j in zip(starts, ends, strict=True)]

    def crossing(inside: int, outside: int, level: float) -> float:
        if outside < 0 or outside >= x.size:
            return float(x[inside])
        share = (density[inside] - level) / (density[inside] - density[outside])
        return float(x[inside] + share * (x[outside] - x[inside]))

    low, high = 0.0, float(density.max())
    for _ in range(200):
        level = 0.5 * (low + high)
        mass = sum(np.interp(b, x, cdf) - np.interp(a, x, cdf) for a, b in stretches(level))
        low, high = (level, high) if mass > prob else (low, level)
    return stretches(low)


def truncated_moments(mu: Floats, v: Floats) -> list[Floats]:
    """E Y and E Y^2 of N(mu, v) truncated to [0, 1], by formula."""
    sd = np.sqrt(v)
    a, b = -mu / sd, (1.0 - mu) / sd
    log_mass = log_mass_between(a, b)
    pa, pb = (np.exp(-0.5 * z * z - 0.5 * _LOG_2PI - log_mass) for z in (a, b))
    mean = mu + sd * (pa - pb)
    return [mean, mu * mean + v - sd * pb]
