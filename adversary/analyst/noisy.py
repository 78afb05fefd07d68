r"""A noisy mean and variance of n values in a public interval, as published under replace-one differential privacy.

.. math:: Y^* = \bar Y + \mathrm{noise}, \quad S^* = S^2 + \mathrm{noise}

with sensitivities (b - a) / n of the mean and (b - a)^2 / n of the sample variance (divisor n - 1). Noise is Laplace
with scale sensitivity / epsilon, or Gaussian with standard deviation sensitivity / sqrt(2 rho) (zCDP).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from adversary._numeric import Floats, Integers, as_array, check_number, check_positive, check_whole

__all__ = ["BoundedRelease"]

_FAR = 10.0
"""A released mean this many interval widths away is more likely in other units than noise."""


@dataclass(frozen=True, eq=False)
class BoundedRelease:
    """A noisy sample mean and sample variance of `n` values in `bounds`, or one of the two.

    Parameters
    ----------
    mean, variance : the released numbers, in the units of the data; arrays are many releases at once; None where that
        statistic was not released. Noise may carry them outside what data can have: nothing is clipped.
    n : number of values, public, at least 2
    epsilon : budgets (mean, variance) of Laplace noise; one number where one statistic was released
    bounds : the public interval (a, b)
    rho : zCDP budgets (mean, variance) of Gaussian noise, instead of epsilon

    Numbers broadcast against one another; `shape` is their common shape.

    Raises
    ------
    ValueError : n below 2 or not whole, budgets not positive, numbers not finite, a >= b, no statistic at all

    References
    ----------
    The thesis, section 4.2 and Theorem 13.

    >>> BoundedRelease(34.3, 2224.8, n=43, epsilon=(0.25, 0.25), bounds=(0, 100)).unit_mean
    array(0.343)
    """

    mean: ArrayLike | None
    variance: ArrayLike | None
    n: ArrayLike
    epsilon: Any = None
    bounds: tuple[float, float] = (0.0, 1.0)
    rho: Any = None

    def __post_init__(self) -> None:
        if self.mean is None and self.variance is None:
            raise ValueError("a release needs a mean or a variance")
        for name in ("mean", "variance"):
            value = getattr(self, name)
            if value is not None and not np.isfinite(check_number(name, value)).all():
                raise ValueError(f"{name} must be finite, got {value!r}")
        check_whole("n", self.n, minimum=2)
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("give epsilon (Laplace noise) or rho (Gaussian noise), one of the two")
        self._check_bounds()
        for name, value in zip(("mean", "variance"), self.budgets, strict=True):
            if getattr(self, name) is not None:
                check_positive(f"{self._budget} of the {name}", value)
        _ = self.shape
        if self.mean is not None and (np.abs(self.unit_mean) > _FAR).any():
            warnings.warn(
                f"the released mean lies more than {_FAR:g} widths of bounds={self.bounds} away: "
                "did you forget bounds=?",
                stacklevel=3,
            )

    def _check_bounds(self) -> None:
        bounds = np.asarray(self.bounds, dtype=np.float64)
        if bounds.shape != (2,) or not np.isfinite(bounds).all():
            raise ValueError(f"bounds must be two finite numbers (a, b), got {self.bounds!r}")
        if bounds[0] >= bounds[1]:
            raise ValueError(f"bounds must be (a, b) with a < b, got {self.bounds!r}")

    @property
    def _budget(self) -> str:
        return "epsilon" if self.rho is None else "rho"

    @property
    def noise(self) -> str:
        """ "laplace" or "gaussian"."""
        return "laplace" if self.rho is None else "gaussian"

    @property
    def budgets(self) -> tuple[Any, Any]:
        """(mean, variance): epsilon or rho of each; None for a statistic that was not released."""
        given = self.rho if self.epsilon is None else self.epsilon
        if np.ndim(given) == 0:
            if self.mean is not None and self.variance is not None:
                raise ValueError(f"{self._budget} must be two numbers, (mean, variance), got {given!r}")
            given = (given, given)
        if len(given) != 2:
            raise ValueError(f"{self._budget} must be two numbers, (mean, variance), got {given!r}")
        return (None if self.mean is None else given[0], None if self.variance is None else given[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Common shape of everything released: () for one release."""
        given = (self.mean, self.variance, self.n, *self.budgets)
        return np.broadcast_shapes(*(np.shape(cast(Any, x)) for x in given if x is not None))

    @property
    def width(self) -> float:
        """b - a."""
        return float(self.bounds[1]) - float(self.bounds[0])

    @property
    def size(self) -> Integers:
        """n as whole numbers."""
        return check_whole("n", self.n, minimum=2)

    @property
    def unit_mean(self) -> Floats:
        """The released mean on [0, 1] (Theorem 13); NaN where none was released."""
        return as_array(np.nan if self.mean is None else (as_array(self.mean) - self.bounds[0]) / self.width)

    @property
    def unit_variance(self) -> Floats:
        """The released variance on [0, 1]; NaN where none was released."""
        return as_array(np.nan if self.variance is None else as_array(self.variance) / self.width**2)

    @property
    def unit_scales(self) -> tuple[Floats, Floats]:
        """Noise on [0, 1] of (mean, variance): Laplace scale 1 / (n epsilon), or Gaussian sd 1 / (n sqrt(2 rho)).

        Infinite where that statistic was not released.
        """
        rates = (self._rate(budget) for budget in self.budgets)
        first, second = (as_array(np.inf if rate is None else 1.0 / rate) for rate in rates)
        return first, second

    def _rate(self, budget: Any) -> Any:
        if budget is None:
            return None
        return self.size * (as_array(budget) if self.rho is None else np.sqrt(2.0 * as_array(budget)))

    @classmethod
    def of(
        cls,
        values: ArrayLike,
        epsilon: Any = None,
        bounds: tuple[float, float] = (0.0, 1.0),
        rng: Any = None,
        *,
        rho: Any = None,
    ) -> BoundedRelease:
        """Release data: sample mean and variance of `values` along the last axis, with fresh noise.

        The noise is drawn in floating point, for studies; it is not hardened against attacks on its last bits.

        Raises
        ------
        ValueError : a value outside the bounds, fewer than two values
        """
        data = check_number("values", values)
        if data.ndim == 0 or data.shape[-1] < 2:
            raise ValueError("a release needs at least two values, along the last axis")
        exact = cls(data.mean(-1), data.var(-1, ddof=1), data.shape[-1], epsilon, bounds, rho)
        outside = (data < exact.bounds[0]) | (data > exact.bounds[1])
        if outside.any():
            raise ValueError(f"values must lie within bounds={exact.bounds}, got {data[outside][0]}")
        generator = np.random.default_rng(rng)
        draw = generator.laplace if rho is None else generator.normal
        first, second = (draw(0.0, np.broadcast_to(scale, exact.shape)) for scale in exact.unit_scales)
        mean, variance = as_array(exact.mean) + exact.width * first, as_array(exact.variance) + exact.width**2 * second
        return cls(mean, variance, data.shape[-1], epsilon, bounds, rho)
