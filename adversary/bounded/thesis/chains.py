r"""Compiled Gibbs samplers on [0, 1], their full conditionals, and exact draws from truncated distributions.

A prior is five numbers (mu0, kappa0, power, scale, pull), with the density

.. math:: (\sigma^2)^{-power} \exp(-(scale + \kappa_0 (\mu - \mu_0)^2) / (2 \sigma^2))

`pull` is the kappa0 that the update of sigma2 uses: kappa0 itself, or 0 as printed in the thesis (erratum E1). The flat
prior is all zeros.

References: the thesis, equations 4.27 to 4.58; Robert (1995), Simulation of truncated normal variables; Michael,
Schucany and Haas (1976) for the inverse Gaussian.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from adversary._core import Floats, compilers

Size = tuple[int, int, int]
"""Number of recorded draws, of sweeps before them, and of sweeps per recorded draw."""
Quadruple = tuple[float, float, float, float]
Prior = tuple[float, float, float, float, float]
FLAT: Prior = (0.0, 0.0, 0.0, 0.0, 0.0)

# Replaces 0 in denominators.
_TINY = 1e-300

# Largest number of proposals per draw; nine in ten are accepted, so more mean an error in the numbers given.
_TRIES = 100_000

compiled, _ = compilers(__file__)


@compiled
def truncated_normal(centre: float, sd: float, low: float, high: float, rng: Generator) -> float:
    """One draw of N(centre, sd^2) on [low, high], which may be infinite: exact at any distance from the centre."""
    a, b = (low - centre) / sd, (high - centre) / sd
    flipped = b < 0.0
    if flipped:
        a, b = -b, -a
    z = a
    if a <= 0.0 and b - a > 2.5:
        while True:
            z = rng.standard_normal()
            if a <= z <= b:
                break
    else:  # uniform proposals for a short interval around the centre, exponential ones for a tail
        rate = 0.0 if a <= 0.0 else min(0.5 * (a + math.sqrt(a * a + 4.0)), b)
        mass = math.expm1(-rate * (b - a)) if rate > 0.0 else 0.0
        while True:
            u = rng.random()
            z = a + u * (b - a) if rate == 0.0 else a - math.log1p(u * mass) / rate
            if not rng.standard_exponential() < 0.5 * (z - rate) ** 2:
                break
    return min(max(centre + sd * (-z if flipped else z), low), high)


@compiled
def truncated_normals(centre: Floats, sd: Floats, low: Floats, high: Floats, rng: Generator) -> Floats:
    """Independent draws of N(centre, sd^2) on [low, high], one for each element; compiled.

    Parameters
    ----------
    centre, sd : mean and standard deviation before truncation, (k,), sd > 0
    low, high : ends, (k,), may be infinite
    rng : Generator

    Returns
    -------
    Draws (k,); 0 where low >= high, because rounding leaves no interval (Robert 1995)
    """
    drawn = np.zeros(low.size)
    for i in np.flatnonzero(low < high):
        drawn[i] = truncated_normal(centre[i], sd[i], low[i], high[i], rng)
    return drawn


@compiled
def _log_density(t: float, logs: bool, power: float, beta: float, rate: float, tau: float) -> float:
    """Log density of `tilted_gamma` at t, up to a constant; t is log x with `logs`, else x."""
    x = math.exp(t) if logs else t
    log_power = 0.0 if power == 0.0 else power * (t if logs else math.log(t) if t > 0.0 else -math.inf)
    return log_power - beta * x - rate * abs(x - tau)


@compiled
def _slope(t: float, logs: bool, power: float, fall: float) -> float:
    """Derivative of `_height` at t, where the exponential rate is `fall`."""
    return power - fall * math.exp(t) if logs else (power / t if power != 0.0 else 0.0) - fall


@compiled
def _unit_fall_distance(t: float, logs: bool, power: float, fall: float) -> float:
    """Distance from the mode t over which the log density falls by about 1, on the side where the rate is `fall`."""
    slope = abs(_slope(t, logs, power, fall))
    bend = fall * math.exp(t) if logs else power / (t * t) if power != 0.0 else 0.0
    return 2.0 / max(slope + math.sqrt(slope * slope + 2.0 * max(bend, 0.0)), _TINY)


@compiled
def tilted_gamma(alpha: float, beta: float, rate: float, tau: float, low: float, high: float, rng: Generator) -> float:
    """One exact draw from the density proportional to x^(alpha-1) exp(-beta x - rate |x - tau|) on [low, high].

    A truncated gamma if rate is 0, otherwise the truncated gamma mixture of the thesis (Definition 7). The kernel
    is log-concave in x for alpha >= 1, whatever the sign of beta - rate, and in log x for smaller alpha (also below 0,
    if low > 0) and beta >= rate. Rejection sampling; the envelope is flat at the mode, with a tangent on either
    side; about nine in ten proposals are accepted, also if [low, high] lies far in a tail.

    Parameters
    ----------
    alpha, beta : shape and rate of the gamma part
    rate, tau : rate >= 0 and centre of the Laplace part
    low, high : ends, 0 <= low < high
    rng : Generator

    Returns
    -------
    The draw; NaN if an argument is NaN, or if no proposal is accepted
    """
    logs = alpha < 1.0
    power = alpha if logs else alpha - 1.0
    first, last = (math.log(low) if low > 0.0 else -math.inf, math.log(high)) if logs else (low, high)
    mode_above_tau = max(power, 0.0) / (beta + rate)
    mode_below_tau = max(power, 0.0) / (beta - rate) if beta > rate else math.inf
    peak = min(max(min(max(tau, mode_above_tau), mode_below_tau), low), high)
    mode = math.log(peak) if logs else peak
    top = _log_density(mode, logs, power, beta, rate, tau)
    left, left_slope, left_mass = first, 0.0, 0.0
    if mode > first:
        fall = beta - rate if peak <= tau else beta + rate
        t = max(mode - _unit_fall_distance(mode, logs, power, fall), mode - 0.75 * (mode - first))
        left_slope = _slope(t, logs, power, beta - rate if (math.exp(t) if logs else t) < tau else beta + rate)
        if left_slope > 0.0:
            left = min(max(t + (top - _log_density(t, logs, power, beta, rate, tau)) / left_slope, first), mode)
            left_mass = -math.expm1(-left_slope * (left - first)) / left_slope
    right, right_slope, right_mass = last, 0.0, 0.0
    if mode < last:
        fall = beta + rate if peak >= tau else beta - rate
        t = min(mode + _unit_fall_distance(mode, logs, power, fall), mode + 0.75 * (last - mode))
        if logs:  # exp(t) grows faster than the parabola behind `_reach`
            t = min(t, max(mode + 1.0, 0.5 - math.log(beta + rate)))
        right_slope = -_slope(t, logs, power, beta - rate if (math.exp(t) if logs else t) < tau else beta + rate)
        if right_slope > 0.0:
            right = max(min(t - (top - _log_density(t, logs, power, beta, rate, tau)) / right_slope, last), mode)
            right_mass = -math.expm1(-right_slope * (last - right)) / right_slope
    for _ in range(_TRIES):
        t, log_envelope = left + (right - left) * rng.random(), 0.0
        position = rng.random() * (left_mass + (right - left) + right_mass)
        if position < left_mass:
            log_envelope = math.log1p(-left_slope * position)
            t = left + log_envelope / left_slope
        elif position > left_mass + (right - left):
            log_envelope = math.log1p(-right_slope * (position - left_mass - (right - left)))
            t = right - log_envelope / right_slope
        if -rng.standard_exponential() <= _log_density(t, logs, power, beta, rate, tau) - top - log_envelope:
            return min(max(math.exp(t) if logs else t, low), high)
    return math.nan


@compiled
def inverse_gaussian(mean: float, shape: float, rng: Generator) -> float:
    """One inverse Gaussian draw, in a form without cancellation for large mean / shape."""
    a = mean * rng.standard_normal() ** 2 / (2.0 * shape)
    root = 1.0 + a + math.sqrt(a * (2.0 + a))
    return mean / root if rng.random() * (1.0 + root) <= root else mean * root


@compiled
def mean_conditional(ybar: float, sigma2: float, n: int, mu0: float, kappa0: float) -> tuple[float, float]:
    """Mean and variance of the normal full conditional of mu."""
    return (n * ybar + kappa0 * mu0) / (n + kappa0), sigma2 / (n + kappa0)


@compiled
def variance_conditional(mu: float, ybar: float, s2: float, n: int, prior: Prior) -> tuple[float, float]:
    """Shape and scale of the inverse gamma full conditional of sigma2."""
    mu0, _, power, scale, pull = prior
    squares = scale + (n - 1) * s2 + n * (ybar - mu) ** 2 + pull * (mu - mu0) ** 2
    return 0.5 * n + power - 1.0, 0.5 * squares


@compiled
def sample_mean_conditional(mu: float, sigma2: float, precision: float, n: int, ystar: float) -> tuple[float, float]:
    """Mean and variance of the normal full conditional of Ybar; `precision` is 1 / w2 of the noise."""
    total = precision + n / sigma2
    return (precision * ystar + n / sigma2 * mu) / total, 1.0 / total


@compiled
def sample_variance_conditional(sigma2: float, n: int) -> tuple[float, float]:
    """alpha and beta of the full conditional of S2, a truncated gamma mixture; rate and tau follow from the release."""
    return 0.5 * (n - 1), 0.5 * (n - 1) / sigma2


@compiled
def precision_conditional(ybar: float, ystar: float, rate: float) -> tuple[float, float]:
    """Mean and shape of the inverse Gaussian full conditional of 1 / w2, w2 the variance of the mean's noise."""
    return rate / max(abs(ystar - ybar), 1e-12), rate * rate


@compiled
def _feasible_means(variance: float, constrained: bool) -> tuple[float, float]:
    """Feasible means for a variance, 1/2 -+ sqrt(1/4 - variance); infinite ends without constraints.

    The lower end is computed without cancellation.
    """
    if not constrained:
        return -math.inf, math.inf
    high = 0.5 + math.sqrt(max(0.25 - variance, 0.0))
    return min(variance / high, 0.5), high


@compiled
def _log_mass(mu: float, sigma2: float) -> float:
    """log Z, Z the mass of N(mu, sigma2) on [0, 1], for mu inside."""
    root = math.sqrt(2.0 * sigma2)
    return math.log1p(-0.5 * math.erfc(mu / root) - 0.5 * math.erfc((1.0 - mu) / root))


@compiled
def _draw_mu_and_sigma2(
    state: Quadruple, n: int, prior: Prior, constrained: bool, cap: float, power: float, rng: Generator
) -> tuple[float, float]:
    """Draw mu, then sigma2 in (0, top] through its precision, a gamma truncated to values above 1 / top.

    A new value is accepted with probability min(1, (Z old / Z new)^power), Z the mass of N(mu, sigma2) on [0, 1].
    """
    mu, sigma2, ybar, s2 = state
    centre, variance = mean_conditional(ybar, sigma2, n, prior[0], prior[1])
    low, high = _feasible_means(sigma2, constrained)
    new = truncated_normal(centre, math.sqrt(variance), low, high, rng)
    if power == 0.0 or -rng.standard_exponential() <= power * (_log_mass(mu, sigma2) - _log_mass(new, sigma2)):
        mu = new
    top = max(min(mu * (1.0 - mu), cap), _TINY) if constrained else cap
    shape, scale = variance_conditional(mu, ybar, s2, n, prior)
    new = 1.0 / tilted_gamma(shape, max(scale, _TINY), 0.0, 0.0, 1.0 / top, math.inf, rng)
    if power == 0.0 or -rng.standard_exponential() <= power * (_log_mass(mu, sigma2) - _log_mass(mu, new)):
        sigma2 = new
    return mu, sigma2


@compiled
def statistics_chain(
    rng: Generator, size: Size, n: int, release: Quadruple, prior: Prior, constrained: bool, cap: float
) -> Floats:
    """(draw, variable) draws of mu, sigma2, Ybar, S2 on [0, 1].

    `release` is the noisy mean and variance, then the rates n epsilon of their noise; `cap` the largest sigma2. After a
    draw that fails, all draws are NaN.
    """
    draws, burn, thin = size
    ystar, sstar, rate1, rate2 = release
    states = np.full((draws, 4), np.nan)
    mu = ybar = min(max(ystar, 0.0), 1.0)
    sigma2 = s2 = min(max(sstar, 1e-4), 0.2499)
    precision, largest = 0.5 * rate1 * rate1, math.inf
    for sweep in range(burn + draws * thin):
        mu, sigma2 = _draw_mu_and_sigma2((mu, sigma2, ybar, s2), n, prior, constrained, cap, 0.0, rng)
        centre, variance = sample_mean_conditional(mu, sigma2, precision, n, ystar)
        low, high = _feasible_means((n - 1) * s2 / n, constrained)
        ybar = truncated_normal(centre, math.sqrt(variance), low, high, rng)
        if constrained:
            largest = max(n * ybar * (1.0 - ybar) / (n - 1), _TINY)
        alpha, beta = sample_variance_conditional(sigma2, n)
        s2 = tilted_gamma(alpha, beta, rate2, sstar, 0.0, largest, rng)
        mean, shape = precision_conditional(ybar, ystar, rate1)
        precision = inverse_gaussian(mean, shape, rng)
        if math.isnan(sigma2 + s2):
            break
        if sweep >= burn and (sweep - burn) % thin == thin - 1:
            states[(sweep - burn) // thin] = (mu, sigma2, ybar, s2)
    return states


@compiled
def _statistics(y: Floats) -> tuple[float, float]:
    """Sample mean and variance (divisor n - 1)."""
    ybar = y.mean()
    return ybar, ((y - ybar) ** 2).sum() / (y.size - 1)


@compiled
def _redraw_records(
    y: Floats, mu: float, sd: float, release: Quadruple, constrained: bool, rng: Generator
) -> tuple[float, float, int]:
    """Propose every record anew, in place; return Ybar, S2, and the number of accepted proposals."""
    n, accepted = y.size, 0
    ybar, s2 = _statistics(y)
    ystar, sstar, rate1, rate2 = release
    loss = rate1 * abs(ystar - ybar) + rate2 * abs(sstar - s2)
    for i in range(n):
        new = mu + sd * rng.standard_normal()
        if constrained and not 0.0 <= new <= 1.0:
            continue
        mean = ybar + (new - y[i]) / n
        variance = s2 + (new - y[i]) * (new + y[i] - mean - ybar) / (n - 1)
        new_loss = rate1 * abs(ystar - mean) + rate2 * abs(sstar - variance)
        if new_loss <= loss or rng.random() < math.exp(loss - new_loss):
            y[i], ybar, s2, loss = new, mean, max(variance, 0.0), new_loss
            accepted += 1
    return ybar, s2, accepted


@compiled
def records_chain(
    rng: Generator,
    size: Size,
    n: int,
    release: Quadruple,
    prior: Prior,
    constrained: bool,
    normalised: bool,
    cap: float,
) -> Floats:
    """`statistics_chain` with every record in the state; a fifth column has the share of accepted proposals."""
    draws, burn, thin = size
    states = np.full((draws, 5), np.nan)
    y = rng.random(n)
    ybar, s2 = _statistics(y)
    mu, sigma2 = ybar, min(max(0.5 * ybar * (1.0 - ybar), 1e-4), cap)
    power = float(n) if normalised else 0.0
    for sweep in range(burn + draws * thin):
        mu, sigma2 = _draw_mu_and_sigma2((mu, sigma2, ybar, s2), n, prior, constrained, cap, power, rng)
        ybar, s2, accepted = _redraw_records(y, mu, math.sqrt(sigma2), release, constrained, rng)
        if math.isnan(sigma2 + s2):
            break
        if sweep >= burn and (sweep - burn) % thin == thin - 1:
            states[(sweep - burn) // thin] = (mu, sigma2, ybar, s2, accepted / n)
    return states
