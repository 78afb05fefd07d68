"""Sums of independent noises, each with an exact density everywhere: what the total of several noisy counts carries.

Agencies publish the counts of all the units of a parent, so a reader can add the siblings of a unit; the sum carries
the noise of each of them. The densities below are exact at any distance from the centre, with no truncation and no
normal approximation, and every term of every sum is positive.

References
----------
Kazan and Reiter (2025), "Assessing statistical disclosure risk for differentially private, hierarchical count data",
Statistica Sinica 35, Proposition 2, approximates the first of these laws by a single discrete Gaussian.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.distributions.continuous import Continuous
from pymc.distributions.distribution import Discrete
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable
from scipy.special import gammaln

from adversary._core import log_theta

from .compiled_draws import discrete_gaussian, draws_of
from .lattice_laws import centre, draw_discrete_gaussian, float64, on_lattice


def _check_count_scale(count: Any, name: str, scale: Any) -> tuple[int, float]:
    if int(count) != count or count < 1:
        raise ValueError(f"count must be a whole number of noises, at least 1, got {count}")
    if not (np.ndim(scale) == 0 and 0 < scale < np.inf):
        raise ValueError(f"{name} of a sum must be one positive number, got {scale}")
    return int(count), float(scale)


def _shape(mu: Any, size: Any) -> tuple[int, ...]:
    return np.shape(mu) if size is None else tuple(size)


def _log_choose(n: Any, k: Any) -> NDArray[np.float64]:
    """Log binomial coefficient, 0 <= k <= n."""
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def residue_log_probs(rho: float, count: int) -> NDArray[np.float64]:
    r"""Log pmf h of the sum of d discrete Gaussians at the d integers from -(d // 2) upwards.

    By direct convolution, which keeps relative accuracy; or as one discrete Gaussian of d times the variance where that
    is the same law: by Poisson summation they differ by a relative :math:`2 d e^{-\pi^2 (1 - 1/d) / \rho}`.
    """
    residues = np.arange(count) - count // 2
    if count == 1 or 2 * count * np.exp(-(np.pi**2) * (1 - 1 / count) / rho) < 1e-17:
        return np.asarray(-rho * residues**2 / count - log_theta(rho / count))
    reach = int(np.ceil(np.sqrt(60 / rho)))
    single = np.exp(-rho * np.arange(-reach, reach + 1) ** 2)
    total = reduce(np.convolve, [single / single.sum()] * count)
    return np.asarray(np.log(total[total.size // 2 + residues]))


class DiscreteGaussianSumRV(RandomVariable):
    """Draws of `DiscreteGaussianSum`: what is left of the sum modulo d, and how many times d it is beyond that."""

    name = "discrete_gaussian_sum"
    signature = "(),(),(d)->()"
    dtype = "int64"
    _print_name = ("DiscreteGaussianSum", "\\operatorname{DiscreteGaussianSum}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, mu: Any, rho: Any, log_h: Any, size: Any = None) -> NDArray[np.int64]:
        shape, d = _shape(mu, size), np.shape(log_h)[-1]
        sigma2 = 0.5 / (float(np.ravel(rho)[0]) * d)
        shift = (np.arange(d) - d // 2) / d
        chance = np.exp(np.reshape(log_h, -1)[:d] + shift**2 / (2 * sigma2) + log_theta(0.5 / sigma2, shift))
        drawn = rng.choice(shift, p=chance / chance.sum(), size=shape)
        steps = draw_discrete_gaussian(rng, -drawn, np.full(shape, sigma2)).reshape(shape)
        return np.asarray(np.rint(mu) + d * steps + np.rint(d * drawn), dtype=np.int64)


@draws_of(DiscreteGaussianSumRV)
def _discrete_gaussian_sum(rng: Any, mu: float, rho: float, log_h: Any) -> int:
    total = int(np.rint(mu))
    for _ in range(log_h.shape[-1]):
        total += discrete_gaussian(rng, 0.0, 0.5 / rho)
    return total


class DiscreteGaussianSum(Discrete):
    r"""A whole number plus the sum of d independent discrete Gaussians, pmf h.

    .. math:: h(d a + r) = h(r) \exp(-\rho (d a^2 + 2 a r)), \qquad a \in \mathbb{Z},

    because moving every one of the d noises by a changes the joint density by that factor. So d values of h, at
    :math:`|r| \le d / 2`, give it exactly at every integer.

    Parameters
    ----------
    mu : tensor_like
        The true total, a whole number (people).
    rho : float
        zCDP of each of the noises, > 0; a number, not a tensor.
    count : int
        Number d of noises, >= 1.

    References
    ----------
    Kazan and Reiter (2025), eq. 2.9 and Proposition 2, where h is approximated by a discrete Gaussian.
    """

    rv_op = DiscreteGaussianSumRV()

    @classmethod
    def dist(cls, mu: Any, *, rho: float, count: int, **kwargs: Any) -> TensorVariable:
        count, rho = _check_count_scale(count, "rho", rho)
        return super().dist([float64(mu), float64(rho), float64(residue_log_probs(rho, count))], **kwargs)

    support_point = centre

    def logp(value: Any, mu: Any, rho: Any, log_h: Any) -> TensorVariable:
        d = log_h.shape[-1].astype("float64")
        k = pt.round(value - mu)
        shift = pt.floor((k + pt.floor(d / 2)) / d)
        residue = k - d * shift
        index = (residue + pt.floor(d / 2)).astype("int64")
        logp = pt.take(log_h, index[..., None])[..., 0] - rho * shift * (d * shift + 2 * residue)
        return on_lattice(value - mu, logp)


class GeometricSumRV(RandomVariable):
    """Draws of `GeometricSum`."""

    name = "two_sided_geometric_sum"
    signature = "(),(),(d)->()"
    dtype = "int64"
    _print_name = ("GeometricSum", "\\operatorname{GeometricSum}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, mu: Any, epsilon: Any, log_b: Any, size: Any = None) -> NDArray[np.int64]:
        up, down = rng.negative_binomial(np.shape(log_b)[-1], -np.expm1(-epsilon), size=(2, *_shape(mu, size)))
        return np.asarray(np.rint(mu) + up - down, dtype=np.int64)


@draws_of(GeometricSumRV)
def _geometric_sum(rng: Any, mu: float, epsilon: float, log_b: Any) -> int:
    count, stop = log_b.shape[-1], -np.expm1(-epsilon)
    return int(np.rint(mu) + rng.negative_binomial(count, stop) - rng.negative_binomial(count, stop))


class GeometricSum(Discrete):
    r"""A whole number plus the sum of d independent two-sided geometrics, a difference of two negative binomials.

    With :math:`q = e^{-\epsilon}`, :math:`n = d - 1` and k the distance from mu,

    .. math:: P(k) = \Big(\frac{1 - q}{1 + q}\Big)^d q^k
              \sum_{j=0}^{n} \binom{n + j}{j} \Big(\frac{q^2}{1 - q^2}\Big)^j \binom{k + n}{n - j}.

    Parameters
    ----------
    mu : tensor_like
        The true total, a whole number (people).
    epsilon : float
        Rate of each of the noises, > 0 (nats per person); a number, not a tensor.
    count : int
        Number d of noises, >= 1.

    References
    ----------
    Pfaff's transformation of the hypergeometric sum over both tails.
    """

    rv_op = GeometricSumRV()

    @classmethod
    def dist(cls, mu: Any, *, epsilon: float, count: int, **kwargs: Any) -> TensorVariable:
        count, epsilon = _check_count_scale(count, "epsilon", epsilon)
        n, j = count - 1, np.arange(count)
        log_odds = -2 * epsilon - np.log(-np.expm1(-2 * epsilon))
        log_b = _log_choose(n + j, j) + j * log_odds + count * np.log(np.tanh(epsilon / 2))
        return super().dist([float64(mu), float64(epsilon), float64(log_b)], **kwargs)

    support_point = centre

    def logp(value: Any, mu: Any, epsilon: Any, log_b: Any) -> TensorVariable:
        k, count = pt.abs(value - mu), log_b.type.shape[-1]
        log_choose, terms = pt.zeros_like(k, dtype="float64"), []
        for m in range(count):  # written out: PyTensor would run a cumulative sum state by state
            if m:
                log_choose = log_choose + pt.log((k + np.float64(count - m)) / np.float64(m))  # of k + n over m
            terms.append(log_b[..., count - 1 - m] + log_choose)
        return on_lattice(value - mu, pt.logsumexp(pt.stack(terms, axis=-1), axis=-1) - epsilon * k)


class LaplaceSumRV(RandomVariable):
    """Draws of `LaplaceSum`."""

    name = "laplace_sum"
    signature = "(),(),(d)->()"
    dtype = "floatX"
    _print_name = ("LaplaceSum", "\\operatorname{LaplaceSum}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, mu: Any, b: Any, log_c: Any, size: Any = None) -> NDArray[np.float64]:
        up, down = rng.gamma(np.shape(log_c)[-1], b, size=(2, *_shape(mu, size)))
        return np.asarray(mu + up - down, dtype=np.float64)


@draws_of(LaplaceSumRV)
def _laplace_sum(rng: Any, mu: float, b: float, log_c: Any) -> float:
    count = log_c.shape[-1]
    return float(mu + rng.gamma(count, b) - rng.gamma(count, b))


class LaplaceSum(Continuous):
    r"""A value plus the sum of d independent Laplace noises, a difference of two gamma variables.

    With :math:`z = |y - \mu| / b` and :math:`n = d - 1`,

    .. math:: f(y) = \frac{e^{-z}}{b \, n!^2} \sum_{i=0}^{n} \binom{n}{i} \frac{(n + i)!}{2^{d + i}} z^{n - i}.

    Parameters
    ----------
    mu : tensor_like
        The true total, any real number.
    b : float
        Scale of each of the noises, > 0, in units of the query; a number, not a tensor.
    count : int
        Number d of noises, >= 1.

    References
    ----------
    Kotz, Kozubowski and Podgorski (2001), "The Laplace distribution and generalizations", section 2.3.1.
    """

    rv_op = LaplaceSumRV()

    @classmethod
    def dist(cls, mu: Any, *, b: float, count: int, **kwargs: Any) -> TensorVariable:
        count, b = _check_count_scale(count, "b", b)
        n, i = count - 1, np.arange(count)
        log_c = _log_choose(n, i) + gammaln(count + i) - (count + i) * np.log(2) - 2 * gammaln(count) - np.log(b)
        return super().dist([float64(mu), float64(b), float64(log_c)], **kwargs)

    support_point = centre

    def logp(value: Any, mu: Any, b: Any, log_c: Any) -> TensorVariable:
        z, power = pt.abs(value - mu) / b, pt.arange(log_c.shape[-1])[::-1].astype("float64")
        log_power = pt.switch(power > 0, power * pt.log(z)[..., None], np.float64(0.0))
        return pt.logsumexp(log_c + log_power, axis=-1) - z
