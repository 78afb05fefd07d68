"""PyMC distributions of noise on the integers: discrete Gaussian, two-sided geometric, and exact release.

The first two allow any real centre and random parameters. Their tails are exact, so `pm.Truncated` and `pm.Censored` of
them are exact too. All constants are float64: PyTensor would otherwise store 0.25 as float32.

References
----------
Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential privacy", NeurIPS.
Ghosh, Roughgarden and Sundararajan (2012), "Universally utility-maximizing privacy mechanisms", SIAM J. Comput. 41(6).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.distributions.dist_math import check_icdf_parameters, check_icdf_value, check_parameters
from pymc.distributions.distribution import Discrete
from pymc.distributions.shape_utils import rv_size_is_none
from pymc.vartypes import discrete_types
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from .compiled_draws import discrete_gaussian, draws_of

# sigma^2 at which both sides of Poisson summation converge equally fast: exp(-k^2 / (2 v)) = exp(-2 pi^2 v k^2).
_CROSSOVER = np.float64(1 / (2 * np.pi))
# Terms of either series: the first neglected one is about exp(-25 pi).
_TERMS = np.arange(1, 5)
# Atoms of a tail sum: enough for sigma^2 <= 100, or further than half a variance from the centre.
_ATOMS = np.arange(90)


def float64(value: Any) -> TensorVariable:
    """Convert a number, array or tensor to a float64 tensor, without rounding through a smaller type.

    Parameters
    ----------
    value : number, array_like or tensor, of any shape

    Returns
    -------
    TensorVariable of the same shape.

    >>> float64(3).dtype, float(float64(3).eval())
    ('float64', 3.0)
    """
    if isinstance(value, TensorVariable):
        return value.astype("float64")
    return pt.as_tensor_variable(np.asarray(value, dtype=np.float64))


def on_lattice(value: TensorVariable, logp: TensorVariable) -> TensorVariable:
    """`logp` at whole numbers, minus infinity elsewhere."""
    if value.dtype in discrete_types:
        return logp
    whole = value.astype("float64")
    return pt.switch(pt.eq(whole, pt.floor(whole)), logp, np.float64(-np.inf))


def centre(rv: Any, size: Any, mu: Any, *rest: Any) -> TensorVariable:
    """Support point (start of a chain): the first parameter of a distribution."""
    del rv, rest
    return mu if rv_size_is_none(size) else pt.full(size, mu)


def _mode(rv: Any, size: Any, mu: Any, scale: Any) -> TensorVariable:
    """Support point (start of a chain): the centre, rounded to a whole number."""
    return centre(rv, size, pt.round(mu + pt.zeros_like(scale)))


def log_theta(shift: TensorVariable, sigma2: TensorVariable) -> TensorVariable:
    r"""Log normaliser :math:`\log \sum_k \exp(-(k - s)^2 / (2 \sigma^2))` for a shift :math:`|s| \le 1/2`.

    Summed directly for small sigma^2 and, by Poisson summation, as
    :math:`\sqrt{2 \pi \sigma^2} (1 + 2 \sum_k e^{-2 \pi^2 \sigma^2 k^2} \cos 2 \pi k s)` for large. Each series is
    evaluated only at parameters for which it converges (clipped elsewhere), which also keeps both gradients finite.
    """
    small, large = pt.minimum(sigma2, _CROSSOVER)[..., None], pt.maximum(sigma2, _CROSSOVER)[..., None]
    s = shift[..., None]
    pairs = pt.exp(-(_TERMS**2 - 2 * _TERMS * s) / (2 * small)) + pt.exp(-(_TERMS**2 + 2 * _TERMS * s) / (2 * small))
    direct = -(shift**2) / (2 * small[..., 0]) + pt.log1p(pt.sum(pairs, axis=-1))
    waves = pt.exp(-2 * np.pi**2 * large * _TERMS**2) * pt.cos(2 * np.pi * _TERMS * s)
    dual = 0.5 * pt.log(2 * np.pi * large[..., 0]) + pt.log1p(2 * pt.sum(waves, axis=-1))
    return pt.switch(sigma2 < _CROSSOVER, direct, dual)


def _log_lower_sum(x: TensorVariable, sigma2: TensorVariable) -> TensorVariable:
    r"""Log :math:`\sum_{n \ge 0} \exp(-(x - n)^2 / (2 \sigma^2))` for x below or near 0: the lower tail, unnormalised.

    The sum is direct if 90 atoms suffice. Otherwise sigma is large, and the midpoint Euler-Maclaurin series around the
    normal integral is used, with relative error below 1e-8.
    """
    steps = _ATOMS * (_ATOMS - 2 * x[..., None]) / (2 * sigma2[..., None])
    direct = -(x**2) / (2 * sigma2) + pt.logsumexp(-steps, axis=-1)
    wide = pt.maximum(sigma2, np.float64(100.0))
    scale = pt.sqrt(wide)
    # The series is not used further out; the clip keeps its gradient finite there.
    z = pt.maximum((x + 0.5) / scale, -0.5 * scale)
    he3, he5 = z**3 - 3 * z, z**5 - 10 * z**3 + 15 * z
    series = z / (24 * wide) - 7 * he3 / (5760 * wide**2) + 31 * he5 / (967680 * wide**3)
    # log cdf plus z^2 / 2: the scaled form does not underflow.
    log_normal = pt.log(0.5 * pt.erfcx(-z / np.sqrt(2.0)))
    smooth = (
        pt.log(scale * np.sqrt(2 * np.pi))
        - z**2 / 2
        + log_normal
        + pt.log1p(series * pt.exp(-log_normal) / np.sqrt(2 * np.pi))
    )
    return pt.switch(pt.or_(sigma2 < 100.0, x < -0.5 * sigma2), direct, smooth)


def draw_discrete_gaussian(
    rng: np.random.Generator, mu: NDArray[np.float64], sigma2: NDArray[np.float64]
) -> NDArray[np.int64]:
    """One draw for each pair of parameters (same shapes), by rejection from a two-sided geometric.

    The acceptance bound is the largest ratio over the integers, not over the line: for a centre half way between
    integers and a small sigma^2 the latter would accept one proposal in exp(25).
    """
    mu, variance = np.ravel(mu), np.ravel(sigma2)
    centre = np.rint(mu)
    shift, width = mu - centre, np.floor(np.sqrt(variance)) + 1

    def log_ratio(y: NDArray[np.float64], i: Any) -> NDArray[np.float64]:
        return np.asarray(-((y - shift[i]) ** 2) / (2 * variance[i]) + np.abs(y) / width[i])

    peaks = [side(shift + sign * variance / width) for side in (np.floor, np.ceil) for sign in (-1, 1)]
    bound = np.max([log_ratio(peak, slice(None)) for peak in [*peaks, np.zeros_like(mu)]], axis=0)
    draws, pending = np.empty(mu.shape), np.arange(mu.size)
    while pending.size:
        proposal = np.subtract(*rng.geometric(-np.expm1(-1 / width[pending]), size=(2, pending.size))).astype(float)
        accepted = np.log(rng.random(pending.size)) < log_ratio(proposal, pending) - bound[pending]
        draws[pending[accepted]] = proposal[accepted]
        pending = pending[~accepted]
    return (centre + draws).astype(np.int64)


class DiscreteGaussianRV(RandomVariable):
    """Draws of `DiscreteGaussian`."""

    name = "discrete_gaussian"
    signature = "(),()->()"
    dtype = "int64"
    _print_name = ("DiscreteGaussian", "\\operatorname{DiscreteGaussian}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, mu: Any, sigma2: Any, size: Any = None) -> NDArray[np.int64]:
        shape = np.broadcast_shapes(np.shape(mu), np.shape(sigma2)) if size is None else tuple(size)
        flat = draw_discrete_gaussian(rng, np.broadcast_to(mu, shape), np.broadcast_to(sigma2, shape))
        return flat.reshape(shape)


draws_of(DiscreteGaussianRV)(discrete_gaussian)


class DiscreteGaussian(Discrete):
    r"""Discrete Gaussian: :math:`P(k) \propto \exp(-(k - \mu)^2 / (2 \sigma^2))` on the integers.

    Parameters
    ----------
    mu : tensor_like
        Centre, any real number (people).
    sigma2 : tensor_like, optional
        Squared scale, > 0 (people squared); close to the variance, but not the variance, when small.
    rho : tensor_like, optional
        zCDP of one such release of sensitivity 1, :math:`\rho = 1 / (2 \sigma^2)`; give this or `sigma2`.

    References
    ----------
    Canonne, Kamath and Steinke (2020), Definition 1.

    Examples
    --------
    >>> import pymc as pm
    >>> round(pm.logp(DiscreteGaussian.dist(0, rho=0.0992263542), 0).exp().eval().item(), 6)
    0.177721
    """

    rv_op = DiscreteGaussianRV()

    @classmethod
    def dist(cls, mu: Any, sigma2: Any = None, *, rho: Any = None, **kwargs: Any) -> TensorVariable:
        if (sigma2 is None) == (rho is None):
            raise ValueError(f"give exactly one of sigma2 and rho, got sigma2={sigma2}, rho={rho}")
        if rho is not None:
            sigma2 = 0.5 / (rho if isinstance(rho, TensorVariable) else np.asarray(rho, dtype=np.float64))
        return super().dist([float64(mu), float64(sigma2)], **kwargs)

    support_point = _mode

    def logp(value: Any, mu: Any, sigma2: Any) -> TensorVariable:
        kernel = -((value - mu) ** 2) / (2 * sigma2) - log_theta(mu - pt.round(mu), sigma2)
        return check_parameters(on_lattice(value, kernel), sigma2 > 0, msg="sigma2 > 0")

    def logcdf(value: Any, mu: Any, sigma2: Any) -> TensorVariable:
        k, log_total = pt.floor(value.astype("float64")), log_theta(mu - pt.round(mu), sigma2)
        below = _log_lower_sum(pt.minimum(k - mu, np.float64(0.0)), sigma2) - log_total
        above = _log_lower_sum(pt.minimum(mu - k - 1, np.float64(0.0)), sigma2) - log_total
        return check_parameters(pt.switch(k < mu, below, pt.log1mexp(above)), sigma2 > 0, msg="sigma2 > 0")

    def logccdf(value: Any, mu: Any, sigma2: Any) -> TensorVariable:
        k = pt.floor(value.astype("float64"))
        return DiscreteGaussian.logcdf(-k - 1, -mu, sigma2)


class TwoSidedGeometricRV(RandomVariable):
    """Draws of `TwoSidedGeometric`."""

    name = "two_sided_geometric"
    signature = "(),()->()"
    dtype = "int64"
    _print_name = ("Geometric", "\\operatorname{Geometric}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, mu: Any, epsilon: Any, size: Any = None) -> NDArray[np.int64]:
        shape = np.broadcast_shapes(np.shape(mu), np.shape(epsilon)) if size is None else tuple(size)
        floor = np.floor(mu)
        # Ratio of the mass above floor(mu) to the mass at or below it.
        odds_above = np.exp(-epsilon * (1 - 2 * (mu - floor)))
        above = rng.random(shape) < odds_above / (1 + odds_above)
        distance = rng.geometric(-np.expm1(-epsilon), size=shape)
        return np.asarray(np.where(above, floor + distance, floor + 1 - distance), dtype=np.int64)


@draws_of(TwoSidedGeometricRV)
def _two_sided_geometric(rng: Any, mu: float, epsilon: float) -> int:
    floor = np.floor(mu)
    odds_above = np.exp(-epsilon * (1.0 - 2.0 * (mu - floor)))
    distance = rng.geometric(-np.expm1(-epsilon))
    return int(floor + distance if rng.random() < odds_above / (1.0 + odds_above) else floor + 1 - distance)


def _log_sides(mu: TensorVariable, epsilon: TensorVariable) -> TensorVariable:
    """Log of (1 - q) times the normaliser, q = exp(-epsilon): the two geometric tails next to mu."""
    shift = mu - pt.floor(mu)
    return pt.logaddexp(-epsilon * shift, -epsilon * (1 - shift))


class Geometric(Discrete):
    r"""Two-sided geometric, or discrete Laplace: :math:`P(k) \propto \exp(-\epsilon |k - \mu|)` on the integers.

    Parameters
    ----------
    mu : tensor_like
        Centre, any real number (people).
    epsilon : tensor_like
        Rate, > 0 (nats per person): the pure DP epsilon of one release of sensitivity 1.

    References
    ----------
    Ghosh, Roughgarden and Sundararajan (2012), Definition 2.3.
    """

    rv_op = TwoSidedGeometricRV()

    @classmethod
    def dist(cls, mu: Any, epsilon: Any, **kwargs: Any) -> TensorVariable:
        return super().dist([float64(mu), float64(epsilon)], **kwargs)

    support_point = _mode

    def logp(value: Any, mu: Any, epsilon: Any) -> TensorVariable:
        kernel = -epsilon * pt.abs(value - mu) + pt.log1mexp(-epsilon) - _log_sides(mu, epsilon)
        return check_parameters(on_lattice(value, kernel), epsilon > 0, msg="epsilon > 0")

    def logcdf(value: Any, mu: Any, epsilon: Any) -> TensorVariable:
        k, sides = pt.floor(value.astype("float64")), _log_sides(mu, epsilon)
        below = epsilon * pt.minimum(k - mu, np.float64(0.0)) - sides
        above = epsilon * pt.minimum(mu - k - 1, np.float64(0.0)) - sides
        return check_parameters(pt.switch(k < mu, below, pt.log1mexp(above)), epsilon > 0, msg="epsilon > 0")

    def logccdf(value: Any, mu: Any, epsilon: Any) -> TensorVariable:
        k = pt.floor(value.astype("float64"))
        return Geometric.logcdf(-k - 1, -mu, epsilon)

    def icdf(value: Any, mu: Any, epsilon: Any) -> TensorVariable:
        sides = _log_sides(mu, epsilon)
        below = pt.ceil(mu + (pt.log(value) + sides) / epsilon)
        above = pt.ceil(mu - 1 - (pt.log1p(-value) + sides) / epsilon)
        k = pt.switch(below < mu, below, above)
        # One step back if rounding went past the quantile.
        down = pt.exp(Geometric.logcdf(k - 1, mu, epsilon)) >= value
        quantile = check_icdf_value(pt.switch(down, k - 1, k), value)
        return check_icdf_parameters(quantile, epsilon > 0, msg="epsilon > 0")


class ExactRV(RandomVariable):
    """Draws of `Exact`."""

    name = "exact"
    signature = "()->()"
    dtype = "int64"
    _print_name = ("Exact", "\\operatorname{Exact}")

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, value: Any, size: Any = None) -> NDArray[np.int64]:
        del rng
        return np.array(np.broadcast_to(value, np.shape(value) if size is None else tuple(size)), dtype=np.int64)


@draws_of(ExactRV)
def _exact(rng: Any, value: float) -> int:
    return int(value)


class Exact(Discrete):
    """Exact release (an invariant): log probability 0 at the true count and minus infinity elsewhere.

    It is like `pm.DiracDelta`, but two invariants of the same count remain two variables.

    Parameters
    ----------
    value : tensor_like
        The published count (people).
    """

    rv_op = ExactRV()

    @classmethod
    def dist(cls, value: Any, **kwargs: Any) -> TensorVariable:
        return super().dist([float64(value)], **kwargs)

    support_point = centre

    def logp(value: Any, exact: Any) -> TensorVariable:
        return pt.switch(pt.eq(value, exact), np.float64(0.0), np.float64(-np.inf))

    def logcdf(value: Any, exact: Any) -> TensorVariable:
        return pt.switch(pt.ge(value, exact), np.float64(0.0), np.float64(-np.inf))
