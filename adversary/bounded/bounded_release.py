r"""A noisy mean and variance of n values in a public interval, as published under replace-one differential privacy.

.. math:: Y^* = \bar Y + \mathrm{noise}, \quad S^* = S^2 + \mathrm{noise}

with sensitivities (b - a) / n of the mean and (b - a)^2 / n of the sample variance (divisor n - 1). Noise is Laplace
with scale sensitivity / epsilon, or Gaussian with standard deviation sensitivity / sqrt(2 rho) (zCDP).
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    Integers,
    Labels,
    as_array,
    broadcast_arguments,
    check_bounds,
    check_number,
    check_positive,
    check_whole,
    common_shape,
)

FAR = 20.0
"""Distance from feasible statistics, in noise scales, above which a release warns: Laplace noise exceeds it with
probability 2e-9."""

# Steps of the ternary search for the nearest feasible statistics.
_THIRDS = 120


@dataclass(frozen=True, eq=False)
class BoundedRelease:
    """Noisy sample mean and sample variance of `n` values in `bounds`, or one of the two.

    Parameters
    ----------
    mean, variance : the released numbers, in the units of the data (squared for the variance); arrays are many releases
        at once; None if that statistic was not released. Noise may make them infeasible for data: nothing is clipped.
    n : public number of values, at least 2
    epsilon : privacy parameters (mean, variance) of Laplace noise; one number if only one statistic was released
    bounds : the public interval (a, b)
    rho : zCDP parameters (mean, variance) of Gaussian noise, instead of epsilon

    Numbers broadcast against one another; `shape` is their common shape. With labels (xarray) they broadcast by the
    names of dimensions, and results have their labels.

    Raises
    ------
    ValueError : n below 2 or not whole, budgets not positive, numbers not finite, a >= b, bounds not 1e-60 to 1e60
        apart, no statistic at all, shapes or labels that do not go together

    Warns
    -----
    UserWarning : both released numbers together are more than 20 noise scales from those of any data within the bounds;
        probably the units differ from those of `bounds`, or n or the privacy parameters are wrong

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
        check_bounds("bounds", self.bounds)
        for name, value in zip(("mean", "variance"), self.budgets, strict=True):
            if getattr(self, name) is not None:
                check_positive(f"{self._budget} of the {name}", value)
        if any(hasattr(x, "dims") for x in self.numbers.values()):
            self._set(broadcast_arguments(self.numbers))
        _ = self.shape
        if caution := self._caution():
            warnings.warn(caution, stacklevel=3)

    @property
    def numbers(self) -> dict[str, Any]:
        """Fields that broadcast, by their names in messages; None for a statistic that was not released."""
        first, second = self.budgets
        return {
            "mean": self.mean, "variance": self.variance, "n": self.n,
            f"{self._budget} of the mean": first, f"{self._budget} of the variance": second,
        }  # fmt: skip

    def with_numbers(self, numbers: Mapping[str, Any]) -> BoundedRelease:
        """Copy with all `numbers` replaced, without checks."""
        changed = copy.copy(self)
        changed._set(numbers)
        return changed

    def _set(self, numbers: Mapping[str, Any]) -> None:
        mean, variance, n, *budgets = numbers.values()
        for name, value in (("mean", mean), ("variance", variance), ("n", n), (self._budget, tuple(budgets))):
            object.__setattr__(self, name, value)

    def _caution(self) -> str:
        """Warning if released numbers, alone or jointly, are more than FAR noise scales from feasible ones; else ""."""
        n, unit, scales = self.size, (self.unit_mean, self.unit_variance), self.unit_scales
        tops = np.ones(()), 0.25 * n / (n - 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            beyond = [np.maximum(-x, x - top) / scale for x, top, scale in zip(unit, tops, scales, strict=True)]
        most = {name: float(np.max(x, initial=0.0)) for name, x in zip(("mean", "variance"), beyond, strict=True)}
        far = {name: x for name, x in most.items() if x >= FAR}
        if not far:
            far = {"mean and variance": float(np.max(self.noise_scales_to_data, initial=0.0))}
        if not max(far.values()) >= FAR:
            return ""
        names, counts = " and ".join(far), " and ".join(f"{x:,.0f}" for x in far.values())
        verb = "lies" if names in most else "lie"
        return (
            f"the released {names} {verb} {counts} noise scales from what any values within bounds={self.bounds} can "
            f"have, farther than noise reaches ({FAR:g} scales): did you forget bounds=?"
        )

    @property
    def noise_scales_to_data(self) -> Floats:
        """Distance, in noise scales, of the released numbers from those of any n values in the bounds.

        It is the minimum, over feasible means and variances, of the larger of the two distances: a convex function of
        the mean, minimised by ternary search.
        """
        n, (first, second) = self.size, self.unit_scales
        mean, variance = (np.nan_to_num(x) for x in (self.unit_mean, self.unit_variance))

        def noise(y: Floats) -> Floats:
            beyond = np.maximum(variance - n / (n - 1.0) * y * (1.0 - y), -variance)
            return np.maximum(np.abs(mean - y) / first, np.maximum(beyond, 0.0) / second)

        low, high = np.zeros(self.shape), np.ones(self.shape)
        with np.errstate(over="ignore"):
            for _ in range(_THIRDS):
                third = (high - low) / 3.0
                left = noise(low + third) <= noise(high - third)
                low, high = np.where(left, low, low + third), np.where(left, high - third, high)
            return noise(0.5 * (low + high))

    @property
    def _budget(self) -> str:
        return "epsilon" if self.rho is None else "rho"

    @property
    def noise(self) -> str:
        """ "laplace" or "gaussian"."""
        return "laplace" if self.rho is None else "gaussian"

    @property
    def budgets(self) -> tuple[Any, Any]:
        """Privacy parameters (mean, variance), epsilon or rho; None for a statistic that was not released."""
        given = self.rho if self.epsilon is None else self.epsilon
        if not isinstance(given, (tuple, list)) and np.ndim(given) == 0:
            if self.mean is not None and self.variance is not None:
                raise ValueError(f"{self._budget} must be two numbers, (mean, variance), got {given!r}")
            given = (given, given)
        if len(given) != 2:
            raise ValueError(f"{self._budget} must be two numbers, (mean, variance), got {given!r}")
        return (None if self.mean is None else given[0], None if self.variance is None else given[1])

    @property
    def shape(self) -> tuple[int, ...]:
        """Common shape of everything released: () for one release."""
        return common_shape(self.numbers)

    @property
    def labels(self) -> Labels:
        """Labels of the fields that have any (xarray)."""
        return Labels.of(*self.numbers.values())

    @property
    def width(self) -> float:
        """Width b - a of the bounds."""
        return float(self.bounds[1]) - float(self.bounds[0])

    @property
    def size(self) -> Integers:
        """n as whole numbers."""
        return check_whole("n", self.n, minimum=2)

    @property
    def unit_mean(self) -> Floats:
        """Released mean on the unit scale (Theorem 13); NaN if not released."""
        return as_array(np.nan if self.mean is None else (as_array(self.mean) - self.bounds[0]) / self.width)

    @property
    def unit_variance(self) -> Floats:
        """Released variance on the unit scale; NaN if not released."""
        return as_array(np.nan if self.variance is None else as_array(self.variance) / self.width**2)

    @property
    def unit_scales(self) -> tuple[Floats, Floats]:
        """Noise scales (mean, variance) on the unit scale: Laplace 1 / (n epsilon), or Gaussian sd 1 / (n sqrt(2 rho)).

        They are infinite for a statistic that was not released.
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
        """Simulated release: sample mean and variance of `values` along the last axis, with fresh noise.

        The noise is drawn in floating point, for studies; it is not hardened against attacks on its last bits.

        Raises
        ------
        ValueError : a value outside the bounds or not a number, or fewer than two values
        """
        low, high = check_bounds("bounds", bounds)
        data = check_number("values", values)
        if data.ndim == 0 or data.shape[-1] < 2:
            raise ValueError(f"a release needs at least two values, along the last axis, got shape {data.shape}")
        outside = (data < low) | (data > high)
        if outside.any():
            raise ValueError(f"values must lie within bounds={bounds}, got {data[outside][0]}")
        labels = Labels.of(values).before(1)
        mean, variance = (labels.put_on(x) for x in (data.mean(-1), data.var(-1, ddof=1)))
        exact = cls(mean, variance, data.shape[-1], epsilon, bounds, rho)
        generator = np.random.default_rng(rng)
        draw = generator.laplace if rho is None else generator.normal
        first, second = (draw(0.0, np.broadcast_to(scale, exact.shape)) for scale in exact.unit_scales)
        return exact.with_added_noise(first, second)

    def with_added_noise(self, first: Floats, second: Floats) -> BoundedRelease:
        """Copy with noise, on the unit scale, added to mean and variance; without the warning about units."""
        mean, variance = as_array(self.mean) + self.width * first, as_array(self.variance) + self.width**2 * second
        noisy = {"mean": self.labels.put_on(mean), "variance": self.labels.put_on(variance)}
        return self.with_numbers(self.numbers | noisy)
