r"""The truncated gamma mixture, and the two convolutions behind a noisy mean and variance.

A gamma variable seen through Laplace noise has the kernel :math:`x^{\alpha-1} e^{-\beta x - \lambda |x - \tau|}`: one
gamma below the centre, another above it, joined at a corner. Everything is in log space and relative to the
Gamma(alpha, beta) law, so that tails and distant centres keep their digits. The thesis (Definition 7) needs
beta > lambda; Kummer's function removes that condition, because the lower gamma only ever runs to a finite end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, gammainc, gammaincc, gammainccinv, gammaincinv, gammaln, log_ndtr, xlogy

from adversary._core import (
    Floats,
    as_array,
    check_non_negative,
    check_number,
    check_positive,
    check_whole,
    scalar_or_array,
)
from adversary.analyst.bounded.incomplete_gamma import log_gamma_between

_MOST_STEPS = 200
_EPS = 2e-15


def invert(law: Any, log_below: Floats, log_above: Floats) -> Floats:
    """Quantiles from the smaller of two tails, the same one throughout: Newton on its log in log x, in a bracket."""
    lower, total = bool(log_below[0] < log_above[0]), law._log_mass(np.inf)
    sign, target = (1.0, log_below) if lower else (-1.0, log_above)

    def miss(x: Floats) -> tuple[Floats, Floats]:
        """sign * (log tail - target), and the step in log x for each unit of it."""
        value = (law._log_mass(x) if lower else law._log_mass(np.inf, x)) - total
        with np.errstate(over="ignore", invalid="ignore"):
            return sign * (value - target), np.exp(value - as_array(law.logpdf(x))) / x

    low, high = np.full(target.shape, 1e-300), _far(law, lambda x: miss(x)[0])
    x = np.clip(_start(law, log_below, log_above), low, high)
    open_, large = np.ones(x.shape, dtype=bool), as_array(law.alpha) + np.abs(as_array(law.rate) * as_array(law.centre))
    noise = _EPS * (1.0 + np.abs(target) + large)  # rounding of the log of a tail
    for _ in range(_MOST_STEPS):
        off, scale = miss(x)
        low, high = np.where(off <= 0.0, x, low), np.where(off >= 0.0, x, high)
        with np.errstate(over="ignore", invalid="ignore"):
            fresh = x * np.exp(-off * scale)
        halved = np.where(high > 2.0 * low, np.sqrt(low) * np.sqrt(high), low + 0.5 * (high - low))
        fresh = np.where((fresh >= low) & (fresh <= high), fresh, halved)
        x, step = np.where(open_, fresh, x), np.abs(fresh - x)
        open_ &= (step > _EPS * x) & (np.abs(off) > noise) & (high - low > _EPS * high)
        if not open_.any():
            break
    return np.asarray(np.minimum(x, law.upper))


def _far(law: Any, miss: Callable[[Floats], Floats]) -> Floats:
    """A point beyond the quantile: the end of the support, or found by doubling."""
    alpha, beta, rate, centre, upper = law._parameters
    x = np.minimum((alpha + 1.0) / (beta + rate) + np.maximum(centre, 0.0), upper)
    for _ in range(_MOST_STEPS):
        short = (miss(x) < 0.0) & (x < upper)
        if not short.any():
            break
        x = np.where(short, np.minimum(2.0 * x, upper), x)
    return np.asarray(x)


def _start(law: Any, log_below: Floats, log_above: Floats) -> Floats:
    """The quantile by scipy's inverse incomplete gammas where these do not underflow; the mode elsewhere."""
    alpha, beta, rate, centre, upper = law._parameters
    middle = np.clip(centre, 0.0, upper)
    weights = law.log_weights
    with np.errstate(all="ignore"):
        share, rest = np.exp(log_below - weights[0]), np.exp(log_above - weights[1])
        slope = np.where(beta > rate, beta - rate, np.nan)
        below = gammaincinv(alpha, gammainc(alpha, slope * middle) * share) / slope
        ends = (gammaincc(alpha, (beta + rate) * x) for x in (middle, upper))
        above = gammainccinv(alpha, sum(part * q for part, q in zip((rest, 1.0 - rest), ends, strict=True)))
        guess = np.where(share < 1.0, below, above / (beta + rate))
    usable = np.isfinite(guess) & (guess > 0.0)
    return np.asarray(np.where(usable, guess, np.maximum(law.mode(), 1e-300)))


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_SHARP = 1e-4
_TINY = 2.0**-60


@dataclass(frozen=True, eq=False)
class TruncatedGammaMixture:
    r"""The law of x on (0, upper] with density proportional to

    .. math:: x^{\alpha-1} \exp(-\beta x - \lambda |x - \tau|)

    Parameters
    ----------
    alpha, beta : shape and rate of the gamma, positive
    rate : :math:`\lambda`, rate of the Laplace factor, non-negative; may exceed beta
    centre : :math:`\tau`, where the corner is; finite, any sign
    upper : end of the support, positive, infinite for none

    Numbers broadcast against one another and against the arguments of the methods.

    Raises
    ------
    ValueError : a parameter outside its range, named

    References
    ----------
    The thesis, Definition 7 and section 4.3; beta <= rate is ours.

    >>> law = TruncatedGammaMixture(2.0, 2.0, 1.0, 1.0)
    >>> round(law.mean(), 6), law.mode()
    (0.916977, 1.0)
    """

    alpha: ArrayLike
    beta: ArrayLike
    rate: ArrayLike
    centre: ArrayLike
    upper: ArrayLike = np.inf

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)
        check_positive("beta", self.beta)
        check_non_negative("rate", self.rate)
        if not np.isfinite(check_number("centre", self.centre)).all():
            raise ValueError(f"centre must be finite, got {self.centre!r}")
        if not (check_number("upper", self.upper) > 0.0).all():
            raise ValueError(f"upper must be positive, got {self.upper!r}")

    @property
    def _parameters(self) -> tuple[Floats, ...]:
        every = (self.alpha, self.beta, self.rate, self.centre, self.upper)
        return tuple(np.broadcast_arrays(*(as_array(x) for x in every)))

    @property
    def log_normaliser(self) -> Any:
        """Log of the integral of the kernel over (0, upper]."""
        return scalar_or_array(self._log_gamma_constant + self._log_mass(np.inf))

    @property
    def _log_gamma_constant(self) -> Floats:
        """Log of the integral of x^(alpha - 1) exp(-beta x) over all x."""
        alpha, beta = as_array(self.alpha), as_array(self.beta)
        return np.asarray(gammaln(alpha) - alpha * np.log(beta))

    @property
    def log_weights(self) -> tuple[Any, Any]:
        """Log probability of (0, centre] and of (centre, upper]."""
        lower, upper = self._log_pieces(0.0, np.inf)
        total = np.logaddexp(lower, upper)
        return scalar_or_array(lower - total), scalar_or_array(upper - total)

    def _log_pieces(self, low: ArrayLike, high: ArrayLike) -> tuple[Floats, Floats]:
        """Log integrals of Gamma(x; alpha, beta) exp(-rate |x - centre|) over (low, high], below and above centre."""
        alpha, beta, rate, centre, upper = self._parameters
        start, end = np.maximum(low, 0.0), np.minimum(high, upper)
        middle = np.maximum(centre, 0.0)
        below = log_gamma_between(alpha, beta, -rate, np.minimum(start, middle), np.minimum(end, middle))
        above = log_gamma_between(alpha, beta, rate, np.maximum(start, middle), np.maximum(end, middle))
        return below - rate * centre, above + rate * centre

    def _log_mass(self, high: ArrayLike, low: ArrayLike = 0.0) -> Floats:
        return np.asarray(np.logaddexp(*self._log_pieces(low, high)))

    def logpdf(self, x: ArrayLike) -> Any:
        """Log density at x; -inf outside the support."""
        x = check_number("x", x)
        alpha, beta, rate, centre, upper = self._parameters
        inside = (x >= 0.0) & (x <= upper) & np.isfinite(x)
        z = np.where(inside, x, 1.0)
        log = xlogy(alpha - 1.0, z) - beta * z - rate * np.abs(z - centre) - self.log_normaliser
        return scalar_or_array(np.where(inside, log, -np.inf))

    def pdf(self, x: ArrayLike) -> Any:
        """Density at x."""
        return scalar_or_array(np.exp(self.logpdf(x)))

    def logcdf(self, x: ArrayLike) -> Any:
        """Log of P(X <= x), to relative accuracy however small."""
        return scalar_or_array(np.minimum(self._log_mass(check_number("x", x)) - self._log_mass(np.inf), 0.0))

    def logsf(self, x: ArrayLike) -> Any:
        """Log of P(X > x), to relative accuracy however small."""
        x = check_number("x", x)
        return scalar_or_array(np.minimum(self._log_mass(np.inf, x) - self._log_mass(np.inf), 0.0))

    def cdf(self, x: ArrayLike) -> Any:
        """P(X <= x)."""
        return scalar_or_array(np.exp(self.logcdf(x)))

    def sf(self, x: ArrayLike) -> Any:
        """P(X > x)."""
        return scalar_or_array(np.exp(self.logsf(x)))

    def ppf(self, q: ArrayLike) -> Any:
        """The x with P(X <= x) = q; NaN outside [0, 1]."""
        q = check_number("q", q)
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._quantile(np.log(q), np.log1p(-q))

    def isf(self, q: ArrayLike) -> Any:
        """The x with P(X > x) = q, for upper tails; NaN outside [0, 1]."""
        q = check_number("q", q)
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._quantile(np.log1p(-q), np.log(q))

    def _quantile(self, log_below: Floats, log_above: Floats) -> Any:
        """Newton steps on the log of the smaller tail, kept inside a bracket."""
        shape = np.broadcast_shapes(log_below.shape, self._parameters[0].shape)
        flat = TruncatedGammaMixture(*(np.broadcast_to(p, shape).ravel() for p in self._parameters))
        below, above = (np.broadcast_to(log, shape).ravel() for log in (log_below, log_above))
        x = np.full(below.shape, np.nan)
        x[below == -np.inf] = 0.0
        x[above == -np.inf] = as_array(flat.upper)[above == -np.inf]
        for side in (below < above, below >= above):
            some = side & np.isfinite(below) & np.isfinite(above)
            if some.any():
                part = TruncatedGammaMixture(*(p[some] for p in flat._parameters))
                x[some] = invert(part, below[some], above[some])
        return scalar_or_array(x.reshape(shape))

    def rvs(self, size: int | tuple[int, ...] | None = None, rng: Any = None) -> Any:
        """Independent draws by inversion, from the upper tail above the median; `size` as in scipy, `rng` a seed."""
        shape = self._parameters[0].shape if size is None else size
        u = np.random.default_rng(rng).random(shape)
        return self.ppf(np.maximum(u, _TINY))

    def moment(self, k: float) -> Any:
        """E X^k, for any real k above -alpha: a ratio of normalisers, alpha + k over alpha.

        Raises
        ------
        ValueError : k at or below -alpha, where the moment is infinite
        """
        if not (as_array(self.alpha) + k > 0.0).all():
            raise ValueError(f"k must be above -alpha for the moment to be finite, got {k!r}")
        return scalar_or_array(np.exp(self._log_moment(k)))

    def _log_moment(self, k: float) -> Floats:
        raised = replace(self, alpha=as_array(self.alpha) + k)
        return np.asarray(raised.log_normaliser - self.log_normaliser)

    def mean(self) -> Any:
        """E X."""
        return self.moment(1)

    def var(self) -> Any:
        """Variance."""
        first, second = self._log_moment(1), self._log_moment(2)
        square = np.asarray(np.expm1(np.maximum(second - 2.0 * first, 0.0)))  # of the coefficient of variation
        variance, sharp = np.asarray(np.exp(2.0 * first) * square), square < _SHARP
        if sharp.any():
            part = TruncatedGammaMixture(*(p[sharp] for p in self._parameters))
            variance[sharp] = part._central_square()
        return scalar_or_array(variance)

    def _central_square(self) -> Floats:
        """Variance by quadrature on either side of the mode: ratios of normalisers cancel where a law is sharp."""
        low, top, high = (as_array(x)[..., None] for x in (self.ppf(1e-17), self.mode(), self.isf(1e-17)))
        nodes, weights = 0.5 * (1.0 + _NODES), np.concatenate([0.5 * _WEIGHTS] * 2)
        with np.errstate(all="ignore"):
            x = np.concatenate([low + (top - low) * nodes, top + (high - top) * nodes], -1)
            law = TruncatedGammaMixture(*(p[..., None] for p in self._parameters))
            width = np.concatenate([(top - low) + 0.0 * nodes, (high - top) + 0.0 * nodes], -1)
            mass = weights * width * law.pdf(x)
            mass = mass / mass.sum(-1, keepdims=True)
            gap = x - top
            return np.asarray((mass * (gap - (mass * gap).sum(-1, keepdims=True)) ** 2).sum(-1))

    def std(self) -> Any:
        """Standard deviation."""
        return scalar_or_array(np.sqrt(self.var()))

    def mode(self) -> Any:
        """Where the density is largest: a stationary point of one piece, or the corner; 0 for alpha < 1."""
        alpha, beta, rate, centre, upper = self._parameters
        right = (alpha - 1.0) / (beta + rate)
        steep = beta > rate
        left = np.where(steep, (alpha - 1.0) / np.where(steep, beta - rate, 1.0), np.inf)
        peak = np.clip(np.minimum(np.maximum(centre, right), left), 0.0, upper)
        return scalar_or_array(np.where(alpha < 1.0, 0.0, peak))

    def support(self) -> tuple[Any, Any]:
        """(0, upper)."""
        upper = self._parameters[-1]
        return scalar_or_array(np.zeros_like(upper)), scalar_or_array(upper)


def normal_laplace_logpdf(x: ArrayLike, mu: ArrayLike, variance: ArrayLike, rate: ArrayLike) -> Any:
    r"""Log density at x of a N(mu, variance) variable plus Laplace noise of scale 1 / rate.

    .. math:: \tfrac{\lambda}{2}\, [e^{\lambda^2 t/2 - \lambda d}\, \Phi((d - \lambda t)/\sqrt t)
              + e^{\lambda^2 t/2 + \lambda d}\, \Phi(-(d + \lambda t)/\sqrt t)], \quad d = x - \mu

    with t the variance (section 4.2 of the thesis).

    Parameters
    ----------
    x : where the density is asked for; all arguments broadcast
    mu : mean of the normal variable
    variance : t, its variance, >= 0
    rate : lambda, > 0, one over the scale of the Laplace noise

    Returns
    -------
    Log density, nats, of the broadcast shape

    Raises
    ------
    ValueError : a negative variance, a rate that is not positive

    >>> round(normal_laplace_logpdf(0.343, 0.3, 0.04 / 43, 10.75), 9)
    1.236637363
    """
    d = check_number("x", x) - check_number("mu", mu)
    t, r = check_non_negative("variance", variance), check_positive("rate", rate)
    sides = [_log_side(sign * d, t, r) for sign in (1.0, -1.0)]
    return scalar_or_array(np.log(0.5 * r) + np.logaddexp(*sides))


def _log_side(d: Floats, t: Floats, rate: Floats) -> Floats:
    """rate^2 t / 2 - rate d + log Phi((d - rate t) / sqrt t); the scaled erfc keeps the large terms apart."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (rate * t - d) / np.sqrt(2.0 * t)
        tail = -0.5 * d * d / t + np.log(0.5 * erfcx(np.maximum(z, 0.0)))
        body = rate * (0.5 * rate * t - d) + log_ndtr(-np.sqrt(2.0) * z)
        point = np.where(d > 0.0, -rate * d, np.where(d < 0.0, -np.inf, -np.log(2.0)))
    return np.asarray(np.where(t == 0.0, point, np.where(z > 0.0, tail, body)))


def gamma_laplace_logz(upper: ArrayLike, sigma2: ArrayLike, n: ArrayLike, rate: ArrayLike, centre: ArrayLike) -> Any:
    r"""Log likelihood of a noisy variance, the confidential variance being at most `upper`.

    .. math:: \log \int_0^u \mathrm{Gamma}(x; \alpha, \beta)\, \tfrac{\lambda}{2} e^{-\lambda |\tau - x|}\, dx,
              \quad \alpha = (n-1)/2,\ \beta = (n-1)/(2\sigma^2)

    Either sign of beta - rate is allowed, so no cap on sigma2 is needed.

    Parameters
    ----------
    upper : u, >= 0, may be infinite; 0 gives -inf; all arguments broadcast
    sigma2 : variance of the population, > 0
    n : number of records, whole, >= 2
    rate : lambda, > 0, one over the scale of the Laplace noise
    centre : tau, the noisy variance

    Returns
    -------
    Nats, of the broadcast shape

    Raises
    ------
    ValueError : sigma2 or rate not positive, n below 2, a negative upper

    >>> round(gamma_laplace_logz(0.2, 0.1, 43, 10.75, 0.2225), 8)
    0.39297676
    """
    end = check_non_negative("upper", upper, finite=False)
    alpha = 0.5 * (check_whole("n", n, minimum=2) - 1.0)
    law = TruncatedGammaMixture(alpha, alpha / check_positive("sigma2", sigma2), check_positive("rate", rate), centre)
    return scalar_or_array(np.log(0.5 * as_array(rate)) + law._log_mass(end))
