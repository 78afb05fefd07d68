r"""The truncated gamma mixture, and the two convolutions behind a noisy mean and variance.

Given its value with Laplace noise, a gamma variable has the kernel
:math:`x^{\alpha-1} e^{-\beta x - \lambda |x - \tau|}`: one gamma below the centre and another above, with a corner.
The thesis (Definition 7) needs beta > lambda. Here each side is integrated numerically in log x, from its maximum
outward, which is accurate for either sign of beta - lambda, in tails and for distant centres.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, gammaln, log_ndtr, xlogy

from adversary._core import (
    Floats,
    as_array,
    check_non_negative,
    check_number,
    check_positive,
    check_whole,
    log_sum_exp,
    scalar_or_array,
)

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)

# Nats below the maximum at which an integral is cut.
_DEPTH = 45.0

# Largest log x beyond the maximum: the kernel is negligible long before, and exp does not overflow.
_FARTHEST = 300.0


@dataclass(frozen=True, eq=False)
class TruncatedGammaMixture:
    r"""Distribution of x on (0, upper] with density proportional to

    .. math:: x^{\alpha-1} \exp(-\beta x - \lambda |x - \tau|)

    Parameters
    ----------
    alpha, beta : shape and rate of the gamma, positive
    rate : :math:`\lambda`, rate of the Laplace factor, non-negative; may exceed beta
    centre : :math:`\tau`, the location of the corner; finite, any sign
    upper : end of the support, positive, infinite for none

    Parameters broadcast against one another and against the arguments of the methods.

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

    def _sides(self, high: ArrayLike = np.inf) -> list[tuple[Floats, Floats, Floats]]:
        """Quadrature of (0, high] below and above the centre: points start + away, and logs of kernel times weight."""
        alpha, beta, rate, centre, upper, high = np.broadcast_arrays(*self._parameters, as_array(high))
        end, middle = np.minimum(high, upper), np.maximum(centre, 0.0)
        below = _from_top(alpha, beta - rate, np.zeros(end.shape), np.minimum(middle, end))
        above = _from_top(alpha, beta + rate, np.minimum(middle, end), end)
        shift = (rate * centre)[..., None]
        return [(*below[:2], below[2] - shift), (*above[:2], above[2] + shift)]

    def _log_masses(self, high: ArrayLike = np.inf) -> tuple[Floats, Floats]:
        """Log integrals of the kernel over (0, high], below the centre and above."""
        below, above = (log_sum_exp(logs) for _, _, logs in self._sides(high))
        return below, above

    def _log_mass(self, high: ArrayLike) -> Floats:
        return np.asarray(np.logaddexp(*self._log_masses(high)))

    @property
    def log_normaliser(self) -> Any:
        """Log of the integral of the kernel over (0, upper]."""
        return scalar_or_array(self._log_mass(np.inf))

    @property
    def log_weights(self) -> tuple[Any, Any]:
        """Log probability of (0, centre] and of (centre, upper]."""
        below, above = self._log_masses()
        total = np.logaddexp(below, above)
        return scalar_or_array(below - total), scalar_or_array(above - total)

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
        """Log P(X <= x), with relative accuracy in the tail."""
        high = np.maximum(check_number("x", x), 0.0)
        return scalar_or_array(np.minimum(self._log_mass(high) - self.log_normaliser, 0.0))

    def moment(self, k: float) -> Any:
        """Moment E[X^k] for real k above -alpha: the ratio of the normalisers for alpha + k and alpha.

        Raises
        ------
        ValueError : k at or below -alpha, where the moment is infinite
        """
        if not (as_array(self.alpha) + k > 0.0).all():
            raise ValueError(f"k must be above -alpha for the moment to be finite, got {k!r}")
        raised = replace(self, alpha=as_array(self.alpha) + k)
        return scalar_or_array(np.exp(raised.log_normaliser - self.log_normaliser))

    def mean(self) -> Any:
        """Mean E[X]."""
        return self.moment(1)

    def var(self) -> Any:
        """Variance."""
        start, away, logs = (np.concatenate(parts, axis=-1) for parts in zip(*self._sides(), strict=True))
        mass = np.exp(logs - log_sum_exp(logs)[..., None])
        gap = start - as_array(self.mode())[..., None] + away
        return scalar_or_array((mass * (gap - (mass * gap).sum(-1, keepdims=True)) ** 2).sum(-1))

    def mode(self) -> Any:
        """Mode of the density: a stationary point of one piece, or the corner; 0 for alpha < 1."""
        alpha, beta, rate, centre, upper = self._parameters
        right = (alpha - 1.0) / (beta + rate)
        steep = beta > rate
        left = np.where(steep, (alpha - 1.0) / np.where(steep, beta - rate, 1.0), np.inf)
        peak = np.clip(np.minimum(np.maximum(centre, right), left), 0.0, upper)
        return scalar_or_array(np.where(alpha < 1.0, 0.0, peak))


def _from_top(alpha: Floats, slope: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
    """Quadrature points of (low, high] and logs of x^(alpha - 1) exp(-slope x) times weights; -inf if it is empty.

    Panels in t = log x grow fourfold away from the maximum; over the first the log density falls by about 1. Points are
    returned as the maximum plus a distance, which avoids cancellation.
    """
    some = high > low
    low, high = np.where(some, low, 0.0), np.where(some, high, 1.0)
    top = np.clip(np.where(slope > 0.0, alpha / np.where(slope > 0.0, slope, 1.0), np.inf), low, high)
    steep, bend = np.abs(alpha - slope * top), np.maximum(slope * top, 0.0)
    first = 2.0 / (steep + np.sqrt(steep * steep + 2.0 * bend))
    farthest = float(np.max(_DEPTH * np.maximum(1.0, 1.0 / (alpha * first)), initial=1.0))
    ratios = np.concatenate([[0.0], 4.0 ** np.arange(np.ceil(np.log(farthest) / np.log(4.0)) + 1.0)])
    with np.errstate(divide="ignore"):
        edges = first[..., None] * np.concatenate([-ratios[::-1], ratios])
        last = np.minimum(np.log(high / top), _FARTHEST)
        edges = np.clip(edges, np.log(low / top)[..., None], last[..., None])
        half = 0.5 * np.diff(edges)[..., None]
        step = 0.5 * (edges[..., 1:] + edges[..., :-1])[..., None] + half * _NODES
        weights = np.log(half * _WEIGHTS) + 0.0 * step
    step, weights = (x.reshape(*top.shape, step.shape[-2] * step.shape[-1]) for x in (step, weights))
    a, s, x = alpha[..., None], slope[..., None], top[..., None]
    away = x * np.expm1(step)
    logs = np.where(some[..., None], a * np.log(x) - s * x + a * step - s * away + weights, -np.inf)
    return np.broadcast_to(x, away.shape), away, logs


def normal_laplace_logpdf(x: ArrayLike, mu: ArrayLike, variance: ArrayLike, rate: ArrayLike) -> Any:
    r"""Log density at x of a N(mu, variance) variable plus Laplace noise of scale 1 / rate.

    .. math:: \tfrac{\lambda}{2}\, [e^{\lambda^2 t/2 - \lambda d}\, \Phi((d - \lambda t)/\sqrt t)
              + e^{\lambda^2 t/2 + \lambda d}\, \Phi(-(d + \lambda t)/\sqrt t)], \quad d = x - \mu

    with t the variance (section 4.2 of the thesis).

    Parameters
    ----------
    x : points; all arguments broadcast
    mu : mean of the normal variable
    variance : t, its variance, >= 0
    rate : lambda, > 0, one over the scale of the Laplace noise

    Returns
    -------
    Log density, nats, of the broadcast shape

    Raises
    ------
    ValueError : a negative variance, or a rate that is not positive

    >>> round(normal_laplace_logpdf(0.343, 0.3, 0.04 / 43, 10.75), 9)
    1.236637363
    """
    d = check_number("x", x) - check_number("mu", mu)
    t, r = check_non_negative("variance", variance), check_positive("rate", rate)
    sides = [_log_side(sign * d, t, r) for sign in (1.0, -1.0)]
    return scalar_or_array(np.log(0.5 * r) + np.logaddexp(*sides))


def _log_side(d: Floats, t: Floats, rate: Floats) -> Floats:
    """rate^2 t / 2 - rate d + log Phi((d - rate t) / sqrt t); the scaled erfc avoids cancellation of large terms."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (rate * t - d) / np.sqrt(2.0 * t)
        tail = -0.5 * d * d / t + np.log(0.5 * erfcx(np.maximum(z, 0.0)))
        body = rate * (0.5 * rate * t - d) + log_ndtr(-np.sqrt(2.0) * z)
        point = np.where(d > 0.0, -rate * d, np.where(d < 0.0, -np.inf, -np.log(2.0)))
    return np.asarray(np.where(t == 0.0, point, np.where(z > 0.0, tail, body)))


def gamma_laplace_logz(upper: ArrayLike, sigma2: ArrayLike, n: ArrayLike, rate: ArrayLike, centre: ArrayLike) -> Any:
    r"""Log likelihood of a noisy variance, with the confidential variance at most `upper`.

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
    Log likelihood in nats, of the broadcast shape

    Raises
    ------
    ValueError : sigma2 or rate not positive, n below 2, a negative upper

    >>> round(gamma_laplace_logz(0.2, 0.1, 43, 10.75, 0.2225), 8)
    0.39297676
    """
    end, rate = check_non_negative("upper", upper, finite=False), check_positive("rate", rate)
    alpha = 0.5 * (check_whole("n", n, minimum=2) - 1.0)
    beta = alpha / check_positive("sigma2", sigma2)
    density = np.log(0.5 * rate) + alpha * np.log(beta) - gammaln(alpha)
    return scalar_or_array(density + TruncatedGammaMixture(alpha, beta, rate, centre)._log_mass(end))
