r"""Sweeps of a Gibbs sampler for regression from noisy sums, vectorized over chains.

One sweep draws the sums given coefficients and release, the coefficients given the sums, and the scales of the Laplace
noise. Laplace noise is a scale mixture of normals with variance w2, and 1/w2 is inverse Gaussian given the noise;
so the first step is a normal draw. Draws that violate constraints are rejected; a chain without an accepted draw takes
steps of `hit_and_run` instead. Chains are the first axis of every array: an operation costs about as much for a hundred
chains as for one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from adversary._core import Floats, Integers
from adversary.bounded.regression.hit_and_run import INSIDE, hit_and_run_coefficients, hit_and_run_sums
from adversary.bounded.regression.regression_law import in_region
from adversary.bounded.regression.regressor_moments import record_law
from adversary.bounded.regression.sufficient_statistics import CONSTRAINTS, MATRIX, SUMS, satisfied_constraints

# Largest variance of values in [0, 1].
LARGEST_SIGMA2 = 0.25

# Lower limits that make inverses finite: of eigenvalues of the covariance of a record, and of the noise of a sum.
SMALLEST_EIGENVALUE = 1e-8
SMALLEST_NOISE = 1e-12

# Largest number of proposals per chain in one step of rejection sampling.
_BLOCK = 4096
_REMEDY = "the noise contradicts the constraints, and the published script knows no other step: use gibbs"

Proposal = Callable[[Integers, int], tuple[NDArray[np.bool_], tuple[Floats, ...]]]


class SamplerStuck(RuntimeError):
    """Error of the published script: a constraint, named in the message, rejected all of `tries` draws."""


class SweepTrace(NamedTuple):
    """Draws: theta (chain, draw, 2) intercept and slope, sigma2 (chain, draw), sums (chain, draw, statistic)."""

    theta: Floats
    sigma2: Floats
    sums: Floats


@dataclass(frozen=True, eq=False)
class Sweeps:
    """Gibbs sampler of sums, coefficients and residual variance, with its settings.

    Parameters
    ----------
    n : number of records
    noisy : released sums (Sx, Sxx, Sy, Sxy, Syy), or with n first
    moments : E x^0, ..., E x^4
    rate : rate of the Laplace noise, epsilon of one query
    centre, precision, shape, scale : prior parameters mu0, Lambda0, a0, b0
    constrained : whether sums, coefficients and sigma2 are restricted to feasible values for data in [0, 1]
    tight : whether the smaller region of coefficients is used
    published : whether to repeat the errors of the published script; a chain with only rejections then raises
    tries : largest number of draws in one rejection step
    """

    n: float
    noisy: Floats
    moments: Floats
    rate: float
    centre: Floats
    precision: Floats
    shape: float
    scale: float
    constrained: bool
    tight: bool
    published: bool
    tries: int

    def run(self, chains: int, burn: int, draws: int, rng: np.random.Generator) -> SweepTrace:
        """Run `chains` Gibbs chains of `draws` recorded sweeps, after `burn` sweeps.

        Each chain starts from its own draw of the prior (with constraints: of lines that stay in [0, 1]). If all such
        draws are rejected, it starts with steps from the line 1/2 and sigma2 = 1/8. Sums start from those of records
        spread evenly over the unit square.
        """
        size = self.noisy.size
        trace = SweepTrace(np.empty((draws, chains, 2)), np.empty((draws, chains)), np.empty((draws, chains, size)))
        weights = np.full((chains, size), self.rate**2 / 2.0)
        prior_parameters = [
            np.repeat(np.asarray(x)[None], chains, axis=0) for x in (self.centre, self.precision, self.scale)
        ]
        start = replace(self, tight=True)
        flat_line = np.tile([0.5, 0.0], (chains, 1)), np.full(chains, LARGEST_SIGMA2 / 2.0)
        theta, sigma2 = start.coefficients(
            (prior_parameters[0], prior_parameters[1], self.shape, prior_parameters[2]), flat_line, rng
        )
        sums = np.tile(self.n * INSIDE, (chains, 1))
        for sweep in range(-burn, draws):
            sums = self.sums((theta, sigma2), weights, sums, rng)
            theta, sigma2 = self.coefficients(self.conjugate(sums), (theta, sigma2), rng)
            noise = np.maximum(np.abs(self.noisy - sums), SMALLEST_NOISE)
            weights = inverse_gaussian(self.rate / noise, self.rate**2, rng)
            if sweep >= 0:
                trace.theta[sweep], trace.sigma2[sweep], trace.sums[sweep] = theta, sigma2, sums
        return SweepTrace(*(np.swapaxes(part, 0, 1) for part in trace))

    def sums(self, given: tuple[Floats, Floats], weights: Floats, before: Floats, rng: np.random.Generator) -> Floats:
        """Draw the confidential sums given coefficients, release and scales of the noise: (chain, statistic).

        Parameters
        ----------
        given : theta (chain, 2) and sigma2 (chain,)
        weights : (chain, statistic) values of 1/w2
        before : (chain, statistic) feasible sums, from which a chain takes steps if all its draws are rejected
        rng : Generator
        """
        size = self.noisy.size
        mean, covariance_of_record = record_law(*given, self.moments, published=self.published)
        values, vectors = np.linalg.eigh(covariance_of_record[:, -size:, -size:])
        inverse = (vectors / np.maximum(values, SMALLEST_EIGENVALUE)[:, None]) @ np.swapaxes(vectors, 1, 2)
        precision = inverse / self.n + weights[:, None] * np.eye(size)
        covariance = np.linalg.inv(precision)
        weighted_mean = (inverse @ mean[:, -size:, None])[..., 0] + weights * self.noisy
        centre = (covariance @ weighted_mean[..., None])[..., 0]
        root = np.swapaxes(np.linalg.cholesky(covariance), 1, 2)

        def propose(pending: Integers, block: int) -> tuple[NDArray[np.bool_], tuple[Floats, ...]]:
            drawn = centre[pending, None] + rng.standard_normal((pending.size, block, size)) @ root[pending]
            if not self.constrained:
                return np.ones((pending.size, block), dtype=bool), (drawn,)
            accepted = satisfied_constraints(drawn, self.n)
            violations[:] = (~accepted).sum(axis=(0, 1))
            return accepted.all(axis=-1), (drawn,)

        violations = np.zeros(len(CONSTRAINTS), dtype=np.int64)
        (sums,), left = first_accepted(propose, len(centre), self.tries)
        if left.size and self.published:
            name = CONSTRAINTS[int(np.argmax(violations))]
            raise SamplerStuck(f"no feasible sums in {self.tries} tries, most often for want of {name}; {_REMEDY}")
        if left.size:
            sums[left] = hit_and_run_sums(before[left], centre[left], precision[left], root[left], self.n, rng)
        return sums

    def conjugate(self, sums: Floats) -> tuple[Floats, Floats, float, Floats]:
        """Parameters mu_n, Lambda_n, a_n, b_n of the conjugate distribution given sums (chain, statistic).

        Without constraints, the moment matrix is first projected to the positive semidefinite ones.
        """
        full = np.concatenate([np.full((len(sums), len(SUMS) - sums.shape[1]), self.n), sums], axis=1)
        matrix = full[:, MATRIX]
        if not self.constrained:
            values, vectors = np.linalg.eigh(matrix)
            matrix = (vectors * np.maximum(values, 0.0)[:, None]) @ np.swapaxes(vectors, 1, 2)
        before = self.precision @ self.centre
        precision = matrix[:, :2, :2] + self.precision
        right = matrix[:, :2, 2] + before
        centre = np.linalg.solve(precision, right[..., None])[..., 0]
        gain = matrix[:, 2, 2] + self.centre @ before - (centre * right).sum(axis=-1)
        return centre, precision, self.shape + self.n / 2.0, self.scale + np.maximum(gain, 0.0) / 2.0

    def coefficients(
        self,
        law: tuple[Floats, Floats, float, Floats],
        before: tuple[Floats, Floats],
        rng: np.random.Generator,
    ) -> tuple[Floats, Floats]:
        """Draw theta (chain, 2) and sigma2 (chain,) from their conjugate distribution, truncated to the region.

        Parameters
        ----------
        law : mu_n, Lambda_n, a_n, b_n, from `conjugate`
        before : theta and sigma2 in the region, from which a chain takes steps if all its draws are rejected
        rng : Generator
        """
        centre, precision, shape, scale = law
        root = np.swapaxes(np.linalg.cholesky(np.linalg.inv(precision)), 1, 2)

        def propose(pending: Integers, block: int) -> tuple[NDArray[np.bool_], tuple[Floats, ...]]:
            size, rate = (pending.size, block), scale[pending, None]
            normal = rng.standard_normal((*size, 2)) @ root[pending]
            if not self.constrained:
                tau, accepted = rng.standard_gamma(shape, size) / rate, np.ones(size, dtype=bool)
            elif self.published:
                tau, accepted = gamma_below(shape, rate, LARGEST_SIGMA2, size, rng)
            else:
                tau, accepted = gamma_above(shape, rate, 1.0 / LARGEST_SIGMA2, size, rng)
            theta = centre[pending, None] + normal / np.sqrt(tau)[..., None]
            if self.constrained:
                accepted = accepted & in_region(theta, self.tight)
            return accepted, (theta, 1.0 / tau)

        (theta, sigma2), left = first_accepted(propose, len(centre), self.tries)
        if left.size and self.published:
            raise SamplerStuck(
                f"no coefficients in {self.tries} tries, for want of an intercept and a slope in the region; {_REMEDY}"
            )
        if left.size:
            remaining = (centre[left], precision[left], shape, scale[left])
            line, tau = before[0][left], 1.0 / before[1][left]
            theta[left], tau = hit_and_run_coefficients(line, tau, remaining, 1.0 / LARGEST_SIGMA2, self.tight, rng)
            sigma2[left] = 1.0 / tau
        return theta, sigma2


def first_accepted(propose: Proposal, chains: int, tries: int) -> tuple[tuple[Floats, ...], Integers]:
    """Rejection sampling for all chains: first accepted of at most `tries` proposals each, in blocks of growing size.

    `propose(pending, block)` returns, for the chains `pending`, a mask (pending, block) of accepted proposals, and the
    proposals. Returns the accepted values, (chain, ...) each, and the indices of chains without one, whose values are
    arbitrary.
    """
    pending, tried, block = np.arange(chains), 0, 2
    chosen: tuple[Floats, ...] | None = None
    while pending.size and tried < tries:
        size = min(block, tries - tried)
        accepted, proposals = propose(pending, size)
        has_accepted, first = accepted.any(axis=1), accepted.argmax(axis=1)
        if chosen is None:
            chosen = tuple(np.empty((chains, *part.shape[2:])) for part in proposals)
        for target, part in zip(chosen, proposals, strict=True):
            target[pending[has_accepted]] = part[has_accepted, first[has_accepted]]
        pending, tried, block = pending[~has_accepted], tried + size, min(4 * block, _BLOCK)
    assert chosen is not None
    return chosen, pending


def gamma_above(
    shape: float, rate: Floats, low: float, size: tuple[int, ...], rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """Proposals for Gamma(shape, rate) truncated to values above `low`, and a mask of those to accept; shape > 1.

    They come from Gamma(shape, rate) itself, or, if `low` is at least one standard deviation above its mode, from an
    exponential distribution that touches its log-concave density at `low`.
    """
    is_tail = rate * low >= shape - 1.0 + np.sqrt(shape)
    step = rng.standard_exponential(size) / np.where(is_tail, rate - (shape - 1.0) / low, 1.0)
    log_accept = (shape - 1.0) * (np.log1p(step / low) - step / low)
    direct = rng.standard_gamma(shape, size) / rate
    accepted = np.where(is_tail, np.log1p(-rng.random(size)) <= log_accept, direct >= low)
    return np.where(is_tail, low + step, np.maximum(direct, low)), accepted


def gamma_below(
    shape: float, rate: Floats, high: float, size: tuple[int, ...], rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """Proposals for Gamma(shape, rate) truncated to values below `high`, and a mask of those to accept.

    They come from Gamma(shape, rate) itself, or, if `high` is at least one standard deviation below its mean, from an
    exponential distribution of the logarithm that touches its log-concave density at log(high).
    """
    is_tail = rate * high <= shape - np.sqrt(shape)
    back = rng.standard_exponential(size) / np.where(is_tail, shape - rate * high, 1.0)
    log_accept = -rate * high * (np.expm1(-back) + back)
    direct = rng.standard_gamma(shape, size) / rate
    accepted = np.where(is_tail, np.log1p(-rng.random(size)) <= log_accept, direct <= high)
    return np.where(is_tail, high * np.exp(-back), np.minimum(direct, high)), accepted


def inverse_gaussian(mean: Floats, shape: float, rng: np.random.Generator) -> Floats:
    """Inverse Gaussian draws of this mean (any shape) and shape parameter (Michael, Schucany and Haas 1976).

    The smaller root of the quadratic is written without cancellation for large mean / shape.
    """
    half = mean * rng.standard_normal(mean.shape) ** 2 / (2.0 * shape)
    root = 1.0 + half + np.sqrt(half * (half + 2.0))
    return np.where(rng.random(mean.shape) * (1.0 + 1.0 / root) <= 1.0, mean / root, mean * root)
