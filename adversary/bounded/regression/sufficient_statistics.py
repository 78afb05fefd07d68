r"""Sufficient sums of simple regression, their release under replace-one differential privacy, and feasible sums.

.. math:: S = (n, \sum x, \sum x^2, \sum y, \sum xy, \sum y^2), \quad M_k = \sum x^k, \; k = 0, \dots, 4

With x and y in [0, 1] every sum except n changes by at most 1 when one record is replaced, so each is published with
Laplace noise of scale 1 / epsilon. n is public: noise on it would cost two more queries and protect nothing.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from adversary._core import (
    Floats,
    Seed,
    as_array,
    check_bounds,
    check_number,
    check_positive,
    check_whole,
    one_number,
    paired_arrays,
)
from adversary.bounded.bounded_release import FAR
from adversary.bounded.regression.regressor_moments import MOMENTS, check_moments, power_sums

SUMS = ("n", "x", "xx", "y", "xy", "yy")
"""Names of the six sums of S."""

_NAMES = (*SUMS[1:], *(f"moment {name}" for name in MOMENTS[1:]))

# Indices in S of the entries of the moment matrix [[X'X, X'y], [y'X, y'y]].
MATRIX = np.array([[0, 1, 3], [1, 2, 4], [3, 4, 5]])

# Constraints on the sums of n records in [0, 1]^2, in the order of their check.
CONSTRAINTS = (
    "0 <= Sx <= n",
    "0 <= Sxx <= Sx",
    "0 <= Sy <= n",
    "0 <= Syy <= Sy",
    "0 <= Sxy <= min(Sx, Sy)",
    "moment matrix positive definite",
)

Interval = tuple[float, float]

# Pairs of sums of which the first is at most the second: its terms are smaller, or it is the same sum.
_AT_MOST = (
    ("xx", "x"), ("xy", "x"), ("xy", "y"), ("yy", "y"), ("moment x2", "moment x"), ("moment x3", "moment x2"),
    ("moment x4", "moment x3"), ("x", "moment x"), ("moment x", "x"), ("xx", "moment x2"), ("moment x2", "xx"),
)  # fmt: skip


class Statistics(NamedTuple):
    """Sums S, shape (..., 6), and moment sums of x, shape (..., 5)."""

    sums: Floats
    moments: Floats


def statistics(x: ArrayLike, y: ArrayLike) -> Statistics:
    """Sufficient statistics of a simple regression: S = (n, Sx, Sxx, Sy, Sxy, Syy) and the sums of x^0, ..., x^4.

    Parameters
    ----------
    x, y : records in [0, 1], along the last axis, at least two; further axes are data sets

    Returns
    -------
    Statistics: `sums` (..., 6) and `moments` (..., 5)

    Raises
    ------
    ValueError : values outside [0, 1], x and y of different lengths, fewer than two records, or x all the same (the
        design has rank 1)

    >>> statistics([0.0, 0.5, 1.0], [0.0, 0.0, 1.0]).sums
    array([3.  , 1.5 , 1.25, 1.  , 1.  , 1.  ])
    """
    x, y = paired_arrays({"x": x, "y": y})
    first, second = _unit("x", x), _unit("y", y)
    if first.shape != second.shape or first.ndim == 0 or first.shape[-1] < 2:
        raise ValueError(
            f"x and y must be two or more records each, as many of both, got {first.shape}, {second.shape}"
        )
    if (np.ptp(first, axis=-1) == 0.0).any():
        raise ValueError(f"x must take at least two values (the design is rank-deficient), got only {first.ravel()[0]}")
    records = np.stack([np.ones_like(first), first, first**2, second, first * second, second**2], axis=-1)
    return Statistics(records.sum(axis=-2), power_sums(first))


def _unit(name: str, values: ArrayLike) -> Floats:
    """The values as array; ValueError naming one outside [0, 1]."""
    array = check_number(name, values)
    outside = (array < 0.0) | (array > 1.0)
    if outside.any():
        raise ValueError(f"{name} must lie in [0, 1], got {array[outside].ravel()[0]}: rescale it by its public range")
    return array


def feasible_sums(sums: ArrayLike, n: ArrayLike) -> NDArray[np.bool_] | bool:
    """True where the sums satisfy `CONSTRAINTS`, necessary conditions for n records in [0, 1]^2.

    Parameters
    ----------
    sums : (Sx, Sxx, Sy, Sxy, Syy), (..., 5), or with n in front, (..., 6); that n is ignored
    n : number of records, whole, >= 2

    Returns
    -------
    bool, or an array (...)

    Raises
    ------
    ValueError : a last axis of another length, or n below 2

    References
    ----------
    The thesis, section 4.5.

    >>> feasible_sums([12.2, 4.8, 16.0, 5.7, 8.0], n=46), feasible_sums([12.2, 4.8, 16.0, 5.7, 17.0], n=46)
    (True, False)
    """
    s = check_number("sums", sums)
    if s.ndim == 0 or s.shape[-1] not in (5, 6):
        raise ValueError(f"sums must be (Sx, Sxx, Sy, Sxy, Syy), after n or not, got shape {s.shape}")
    answer = satisfied_constraints(s[..., -5:], as_array(check_whole("n", n, minimum=2))).all(axis=-1)
    return bool(answer) if answer.ndim == 0 else np.asarray(answer)


def satisfied_constraints(sums: Floats, n: float | Floats) -> NDArray[np.bool_]:
    """(..., 6) mask of the `CONSTRAINTS` that sums (Sx, Sxx, Sy, Sxy, Syy), shape (..., 5), of n records satisfy."""
    x, xx, y, xy, yy = (sums[..., i] for i in range(5))
    minor, last = n * xx - x * x, n * yy - y * y
    rules = [
        (x >= 0.0) & (x <= n),
        (xx >= 0.0) & (xx <= x),
        (y >= 0.0) & (y <= n),
        (yy >= 0.0) & (yy <= y),
        (xy >= 0.0) & (xy <= np.minimum(x, y)),
        (minor > 0.0) & (minor * last > (n * xy - x * y) ** 2),
    ]
    return np.stack(rules, axis=-1)


@dataclass(frozen=True, eq=False)
class RegressionRelease:
    """Noisy sums and noisy moment sums of n records, with x and y rescaled to [0, 1] by their public bounds.

    Parameters
    ----------
    sums : noisy S, of the rescaled data: (Sx, Sxx, Sy, Sxy, Syy), or six numbers with n first
    moments : noisy sums of x, x^2, x^3, x^4, or five numbers with that of x^0 first
    n : number of records, public
    epsilon : budget of each query (not of all): Laplace noise of scale 1 / epsilon
    n_known : whether n was published without noise; a first number of six, or of five, is then ignored
    x_bounds, y_bounds : public ranges of the data

    Raises
    ------
    ValueError : wrong lengths, numbers not finite, n below 2, epsilon not positive, bounds not a < b, or 1e60 apart

    Warns
    -----
    UserWarning : a sum that is 20 noise scales or more outside [0, n], or above another that it cannot exceed: the data
        were probably not rescaled

    References
    ----------
    The thesis, section 4.5; Bernstein and Sheldon (2019), "Differentially private Bayesian linear regression".
    """

    sums: ArrayLike
    moments: ArrayLike
    n: int
    epsilon: float
    n_known: bool = True
    x_bounds: Interval = (0.0, 1.0)
    y_bounds: Interval = (0.0, 1.0)

    def __post_init__(self) -> None:
        check_whole("n", self.n, minimum=2)
        check_positive("epsilon", one_number("epsilon", self.epsilon))
        for name, bounds in (("x_bounds", self.x_bounds), ("y_bounds", self.y_bounds)):
            check_bounds(name, bounds)
        for name, full in (("sums", len(SUMS)), ("moments", len(MOMENTS))):
            self._numbers(name, full)
        if far := self._implausible_sums:
            named = ", ".join(f"{name} by {excess:,.0f}" for name, excess in far.items())
            warnings.warn(
                f"the released sums are farther from those of any data in [0, 1] than noise reaches ({FAR:g} scales): "
                f"{named} noise scales; are they of data rescaled to [0, 1]?",
                stacklevel=3,
            )

    @property
    def _implausible_sums(self) -> dict[str, float]:
        """Sums at least `FAR` noise scales outside [0, n], or else above a larger sum, and that number of scales."""
        values = dict(zip(_NAMES, [*self.noisy_sums[1:], *self.noisy_moments[1:]], strict=True))
        outside = {name: max(-x, x - self.n) for name, x in values.items()}
        above = {f"{low} above {high}": values[low] - values[high] for low, high in _AT_MOST}
        for excess in (outside, above):
            scales = {name: float(x) * float(self.epsilon) for name, x in excess.items()}
            if far := {name: x for name, x in scales.items() if x >= FAR}:
                return far
        return {}

    def _numbers(self, name: str, full: int) -> Floats:
        """Field `name` as an array of `full` numbers, or one fewer if n is known; ValueError otherwise."""
        given = check_number(name, getattr(self, name))
        if given.shape != (full,) and not (self.n_known and given.shape == (full - 1,)):
            raise ValueError(
                f"{name} must be {full} numbers{f', or {full - 1} without n' if self.n_known else ''}, "
                f"got shape {given.shape}"
            )
        if not np.isfinite(given).all():
            raise ValueError(f"{name} must be finite, got {given}")
        return given

    @property
    def noisy_sums(self) -> Floats:
        """(6,) released (n, Sx, Sxx, Sy, Sxy, Syy), with the exact n if it is known."""
        return self._with_n(self._numbers("sums", len(SUMS)), len(SUMS))

    @property
    def noisy_moments(self) -> Floats:
        """(5,) released sums of x^0, ..., x^4, with the exact n if it is known."""
        return self._with_n(self._numbers("moments", len(MOMENTS)), len(MOMENTS))

    def _with_n(self, given: Floats, full: int) -> Floats:
        """The numbers, with the exact n first if it is known."""
        return np.concatenate([[float(self.n)], given[1 - full :]]) if self.n_known else given

    @property
    def queries(self) -> int:
        """Number of noisy numbers published: 9, or 11 if n has noise too (twice)."""
        return len(SUMS) + len(MOMENTS) - (2 if self.n_known else 0)

    @property
    def total_epsilon(self) -> float:
        """Epsilon of the whole release, by simple composition: queries times epsilon."""
        return self.queries * float(self.epsilon)

    @property
    def observed(self) -> dict[str, Floats]:
        """Released variables by their names in `models.regression`, for `pm.observe`."""
        return {"noisy[sums]": self.noisy_sums[1:], "noisy[moments]": self.noisy_moments[1:]}

    @classmethod
    def of(
        cls,
        x: ArrayLike,
        y: ArrayLike,
        epsilon: float,
        rng: Seed = None,
        n_known: bool = True,
        *,
        x_bounds: Interval = (0.0, 1.0),
        y_bounds: Interval = (0.0, 1.0),
    ) -> RegressionRelease:
        """Release of n records with fresh noise, for simulation studies; its total cost is `total_epsilon`.

        The noise is drawn in floating point; it is not hardened against attacks on its last bits.

        Parameters
        ----------
        x, y : records within their bounds, (n,) each
        epsilon : budget of each query
        rng : seed or Generator
        n_known : whether n is published without noise
        x_bounds, y_bounds : public ranges of the data

        Raises
        ------
        ValueError : a value outside its bounds, x and y of different lengths, x all the same
        """
        x, y = paired_arrays({"x": x, "y": y})
        x01, y01 = (_rescale(*given) for given in (("x", x, x_bounds), ("y", y, y_bounds)))
        exact = statistics(x01, y01)
        if exact.sums.ndim != 1:
            raise ValueError(f"x and y must be one data set, got shape {np.shape(x01)}")
        release = cls(*exact, int(exact.sums[0]), epsilon, n_known, x_bounds, y_bounds)
        noise = np.random.default_rng(rng).laplace(0.0, 1.0 / epsilon, release.queries)
        split = len(SUMS) - 1 if n_known else len(SUMS)
        sums, moments = exact.sums[-split:] + noise[:split], check_moments("moments", exact.moments)
        # copied, not constructed: simulated data need no warning about their units
        noisy = copy.copy(release)
        object.__setattr__(noisy, "sums", sums)
        object.__setattr__(noisy, "moments", moments[1 - split :] + noise[split:])
        return noisy


def _rescale(name: str, values: ArrayLike, bounds: Interval) -> Floats:
    """Values rescaled from their public bounds to [0, 1]; ValueError naming one outside."""
    array = check_number(name, values)
    low, high = check_bounds(f"{name}_bounds", bounds)
    outside = (array < low) | (array > high)
    if outside.any():
        raise ValueError(f"{name} must lie within {name}_bounds={bounds}, got {array[outside].ravel()[0]}")
    return np.asarray((array - low) / (high - low))
