r"""Posterior of the mean and variance of bounded data given a noisy release.

.. math::

    p(\mu, \sigma^2 \mid \text{release}) \propto p(\mu, \sigma^2)\, 1[\sigma^2 \le \mu(1-\mu)]
    \int_0^1 N(y; \mu, \sigma^2/n)\, q_1(Y^* - y)
    \int_0^{u(y)} \mathrm{Gamma}(s; \tfrac{n-1}2, \tfrac{n-1}{2\sigma^2})\, q_2(S^* - s)\, ds\, dy

on [0, 1]; without constraints, the indicator and both limits are dropped. `feasibility="event"` (the thesis) conditions
on the event that the statistics are feasible; "normalised" divides the sampling density by its mass over the feasible
statistics, C(mu, sigma2), as for statistics that are always feasible. With `quantity="data"` mean and variance are
those of the n values themselves, with mu and sigma2 of their population integrated out. All results come from two
marginals on a grid (`grid`). `quadrature_error` compares solutions on different grids.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from adversary._core import Extra, Floats, Labels, Seed, as_array, check_number, check_probability, one_number
from adversary.bounded.bounded_release import BoundedRelease
from adversary.bounded.grid import GridFit, GridInput, LineLaw, solve_all
from adversary.bounded.prior import Flat, NormalInverseGamma, Prior, align_priors, as_prior, grid_rows, log_prior_mass
from adversary.bounded.propriety import check_proper, variance_limits

if TYPE_CHECKING:
    import xarray as xr

FEASIBILITIES = ("event", "normalised")
QUANTITIES = ("population", "data")
UNSURE = 1e-2
"""Estimated quadrature error above which `posterior` warns."""
NAMES = ("mu", "sigma2", "sigma")
# Power of the width of the bounds in the unit of each quantity.
_POWERS = {"mu": 1, "sigma2": 2, "sigma": 1}
# Labels of an interval along its dimension "ci_bound", as in ArviZ.
_ENDS = ("lower", "upper")


@dataclass(frozen=True)
class Predictive:
    """Posterior predictive of a new value: mean and sd in the units of the data, mass below and above the bounds."""

    mean: Any
    sd: Any
    below: Any
    above: Any

    @property
    def outside(self) -> Any:
        """Mass outside the bounds; 0 if the posterior is constrained to them."""
        return self.below + self.above


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of mu, sigma2 and sigma, in the units of the data; made by `posterior`.

    Names are "mu", "sigma2" and "sigma": mean, variance and standard deviation of the population, or with `quantity`
    "data" of the values themselves (divisor n - 1). Results are numbers for one release under one prior, and arrays of
    `shape` for many; intervals have a last axis of two. Labels (xarray) of releases and priors carry over.
    """

    release: BoundedRelease
    prior: Prior
    constrained: bool
    feasibility: str
    grid_input: GridInput
    solutions: list[GridFit]
    shape: tuple[int, ...]
    cap: Floats
    labels: Labels = field(default_factory=Labels)
    quantity: str = QUANTITIES[0]

    @property
    def quadrature_error(self) -> Any:
        """Estimated numerical error, a number per release.

        It applies to probabilities, `log_evidence` and the log of a finite sd, and in units of the sd to the mean and
        the central 95 % interval. It is 3e-5 plus three times the difference of two grids: more than the error in at
        least 99 of 100 random settings. Finer grids follow until it is below 1e-3.
        """
        return self.with_release_shape([one.quadrature_error for one in self.solutions])

    @property
    def max_variance(self) -> Any:
        """Upper bound on sigma2 of the population, in squared units of the data: from the bounds, or the cap."""
        return self.with_release_shape(self.cap * self.release.width**2)

    def mean(self, name: str) -> Any:
        """Posterior mean. With a flat prior, no bounds and no cap, that of sigma2 is infinite for n <= 5, and for n = 4
        that of sigma is infinite and that of mu does not exist (NaN)."""
        values = self._moments(name)
        power, none = {"mu": (0.5, np.nan), "sigma": (0.5, np.inf), "sigma2": (1.0, np.inf)}[name]
        return self.with_release_shape(np.where(self.grid_input.has_moment(power), values, none))

    def sd(self, name: str) -> Any:
        """Posterior standard deviation; infinite if the tail of the variance is too heavy."""
        centre = self._moments(name)
        squares = self._moments(name, centre, 2)
        power = {"mu": 1.0, "sigma": 1.0, "sigma2": 2.0}[name]
        return self.with_release_shape(np.where(self.grid_input.has_moment(power), np.sqrt(squares), np.inf))

    def mode(self, name: str) -> Any:
        """Mode of the marginal density. The mode of sigma is not the root of that of sigma2."""
        return self.with_release_shape(self._each(name, lambda law: law.mode))

    def hdi(self, name: str, prob: float = 0.95) -> Any:
        """Highest density interval (low, high); with several modes, the shortest interval (`regions` has the union).

        The density is equal at both ends, so the ends for sigma are not the roots of those for sigma2, which the thesis
        reports. The lower end for a variance may be 0.

        Raises
        ------
        ValueError : prob not strictly between 0 and 1
        """
        share = _share("prob", prob)
        return self.with_release_shape(self._each(name, lambda law: law.interval(share), 2), {"ci_bound": list(_ENDS)})

    def regions(self, name: str, prob: float = 0.95) -> list[tuple[float, float]]:
        """Highest density region as a list of intervals, for one release."""
        self._require_single()
        stretches = self.in_units(name, np.array(self._marginals(name)[0].stretches(_share("prob", prob))), 0)
        return [(float(lo), float(hi)) for lo, hi in stretches]

    def eti(self, name: str, prob: float = 0.95) -> Any:
        """Equal-tailed interval (low, high)."""
        tail = 0.5 * (1.0 - _share("prob", prob))
        return self.with_release_shape(self._quantiles(name, np.array([tail, 1.0 - tail])), {"ci_bound": list(_ENDS)})

    def quantile(self, name: str, q: ArrayLike) -> Any:
        """Quantiles at probabilities q, whose axes come last; at 0 and 1, the ends of the support."""
        shares = check_probability("q", q)
        return self._at(self._quantiles(name, shares.ravel()), q, "quantile")

    def density(self, name: str, x: ArrayLike) -> Any:
        """Marginal density at x, per unit of the data; the axes of x come last."""
        points, factor = self._points(name, x)
        laws = self._marginals(name)
        density = as_array([law.density(row) for law, row in zip(laws, points, strict=True)])
        return self._at(density * factor, x, f"{name}_grid")

    def cdf(self, name: str, x: ArrayLike) -> Any:
        """Marginal cdf at x; the axes of x come last."""
        points, _ = self._points(name, x)
        laws = self._marginals(name)
        cdf = as_array([law.cdf(row) for law, row in zip(laws, points, strict=True)])
        return self._at(np.clip(cdf, 0.0, 1.0), x, f"{name}_grid")

    def expect(self, function: Callable[[Floats, Floats], ArrayLike]) -> Any:
        """Posterior mean of a function of (mu, sigma2), called with arrays (mu, 1) and (sigma2,) in data units.

        It may return several values, (..., mu, sigma2). Sharp edges are resolved only to the spacing of the grid.
        """
        expectations = self.expectations(function)
        return self.with_release_shape(expectations, {f"value_{i}": None for i in range(expectations.ndim - 1)})

    def expectations(
        self, function: Callable[[Floats, Floats], ArrayLike], several: tuple[int, ...] | None = None
    ) -> Floats:
        """`expect` with one row per release; `several` is the shape of a row, needed only if there are no releases."""
        rows = [self._expect_row(i, function) for i in range(len(self.solutions))]
        return np.array(rows) if rows else np.zeros((0, *(several or ())))

    def with_release_shape(self, rows: ArrayLike, extra: Extra | None = None) -> Any:
        """Reshape rows, one per release, to the releases' shape, and add labels; `extra` names further axes."""
        array = as_array(rows)
        return self.labels.put_on(array.reshape((*self.shape, *array.shape[1:])), extra)

    @cached_property
    def infeasible(self) -> Any:
        """P(sigma2 > (mu - a)(b - mu), or mu outside the bounds): infeasible for data; 0 if constrained."""
        shares = [0.0 if self.constrained else 1.0 - one.feasible for one in self.solutions]
        return self.with_release_shape(np.clip(shares, 0.0, 1.0))

    @cached_property
    def log_evidence(self) -> Any:
        """Log marginal likelihood (nats) of the released numbers, in the units of the data.

        If constrained, the prior is truncated to the feasible region, and with feasibility "event" the density is joint
        with the event that the statistics are feasible. A flat prior without constraints has density 1 on the unit
        scale (Theorem 18's integral); a user's log density is not normalised.
        """
        release = self.release
        log = as_array([one.log_mass for one in self.solutions]) - log_prior_mass(
            self.prior, release.bounds, self.constrained, self.shape
        )
        units = (release.mean is not None) + 2 * (release.variance is not None)
        return self.with_release_shape(log - units * np.log(release.width))

    def predictive(self) -> Predictive:
        """Posterior predictive of a new value: N(mu, sigma2), truncated to the bounds if the posterior is constrained.

        Returns
        -------
        Predictive : mean and sd in the units of the data; mass below and above the bounds

        Raises
        ------
        ValueError : a posterior of the data themselves
        """
        if self.quantity == "data":
            raise ValueError('predictive() is of a new value from the population: use quantity="population"')
        return _predictive_law(self)

    def sample(self, draws: int = 4000, rng: Seed = None) -> xr.DataTree:
        """Independent posterior draws of mu, sigma2 and sigma, dims (chain = 1, draw), for ArviZ."""
        from adversary.bounded.export import drawn

        self._require_single()
        return drawn(self, draws, rng)

    def to_xarray(self) -> xr.DataTree:
        """DataTree with groups `density` (marginals on grids), `summary` and `release`; it can be written to NetCDF."""
        from adversary.bounded.export import exported

        return exported(self)

    def _marginals(self, name: str) -> list[LineLaw]:
        if name not in NAMES:
            raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
        law = {"mu": "mean", "sigma2": "variance", "sigma": "deviation"}[name]
        return [getattr(one, law) for one in self.solutions]

    def _each(self, name: str, read: Callable[[LineLaw], Any], *more: int) -> Floats:
        """Statistic `read` of every marginal, (row, *more), in the units of the data."""
        laws = self._marginals(name)
        return self.in_units(name, as_array([read(law) for law in laws]).reshape(len(laws), *more))

    def in_units(self, name: str, unit: Floats, row: int | None = None) -> Floats:
        """Convert a quantity from [0, 1] to the units of the data, for rows along the first axis or for one row."""
        units = self._units(name) if row is None else self._units(name)[row]
        offset = self.release.bounds[0] if name == "mu" else 0.0
        return np.asarray(offset + units.reshape(-1, *(1,) * (unit.ndim - 1)) * unit)

    def _units(self, name: str) -> Floats:
        """Data units per unit on [0, 1], (row,). On [0, 1] the variance of the data has divisor n, as in the bounds."""
        n = np.broadcast_to(self.release.size, self.shape).ravel()
        divisor = n / (n - 1.0) if self.quantity == "data" and name != "mu" else np.ones(n.size)
        return np.asarray((self.release.width**2 * divisor) ** (0.5 * _POWERS[name]))

    def _moments(self, name: str, about: Any = 0.0, power: int = 1) -> Floats:
        """Moments of the distance from `about`, one per row."""
        laws = self._marginals(name)
        about = np.broadcast_to(about, len(laws))
        return as_array([
            (law.weights * (self.in_units(name, law.x, i) - about[i]) ** power).sum() for i, law in enumerate(laws)
        ])  # fmt: skip

    def _quantiles(self, name: str, shares: Floats) -> Floats:
        """Quantiles in rows; at 0 and 1 the ends of the support, not of the grid."""
        unit = as_array([law.quantiles(shares) for law in self._marginals(name)]).reshape(-1, shares.size)
        low, high = (0.0, np.ones((1, 1))) if self.constrained else (-np.inf, np.full((1, 1), np.inf))
        if name != "mu":
            most = np.where(self.constrained, 0.25, np.inf) if self.quantity == "data" else self.cap
            low, high = 0.0, np.broadcast_to(most, len(unit))[:, None] ** (0.5 * _POWERS[name])
        unit = np.where(shares == 0.0, low, np.where(shares == 1.0, high, unit))
        return self.in_units(name, unit)

    def _at(self, rows: Floats, x: ArrayLike, name: str) -> Any:
        """Reshape rows so that the axes of x come last, with the labels of x or a dimension called `name`."""
        return self.labels.put_last(rows.reshape((*self.shape, *np.shape(x))), x, name)

    def _points(self, name: str, x: ArrayLike) -> tuple[Floats, Floats]:
        """Points on [0, 1] per row, and the factor (row, 1) from a density on [0, 1] to one per unit of the data."""
        points, factor = check_number("x", x), 1.0 / self._units(name)[:, None]
        return (points - self.release.bounds[0] * (name == "mu")).ravel() * factor, factor

    def _expect_row(self, i: int, function: Callable[[Floats, Floats], ArrayLike]) -> Floats:
        mu, v, weights = self.solutions[i].joint()
        values = np.asarray(function(self.in_units("mu", mu, i), self.in_units("sigma2", v, i)), dtype=np.float64)
        return np.where(weights != 0.0, weights * values, 0.0).sum((-2, -1))  # undefined values may have weight 0

    def _require_single(self) -> None:
        if self.shape != ():
            raise ValueError(f"this is for one release under one prior, got an array of shape {self.shape}")


def _predictive_law(posterior: Posterior) -> Predictive:
    """N(mu, sigma2) averaged over a posterior, truncated to the bounds if that is constrained."""
    a, b = posterior.release.bounds
    if posterior.constrained:
        first, second = posterior.expectations(lambda m, v: np.stack(_truncated_moments(m, v, a, b)), (2,)).T
        nothing = posterior.with_release_shape(np.zeros(first.size))
        return Predictive(
            posterior.with_release_shape(first),
            posterior.with_release_shape(np.sqrt(second - first**2)),
            nothing,
            nothing,
        )
    spread = as_array(posterior.sd("mu")) ** 2 + as_array(posterior.mean("sigma2"))
    tails = posterior.expectations(lambda m, v: ndtr(np.stack([a - m, m - b]) / np.sqrt(v)), (2,)).T
    below, above = (posterior.with_release_shape(tail) for tail in tails)
    return Predictive(posterior.mean("mu"), posterior.with_release_shape(np.sqrt(spread).ravel()), below, above)


def _truncated_moments(mu: Floats, v: Floats, a: float, b: float) -> tuple[Floats, Floats]:
    """First and second moment of N(mu, v) truncated to [a, b], for mu within."""
    sd = np.sqrt(v)
    low, high = (a - mu) / sd, (b - mu) / sd
    mass = np.maximum(ndtr(high) - ndtr(low), 1e-300)  # for mu within the bounds it is near 1/2 or more
    at_low, at_high = (np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi) for z in (low, high))
    first = mu + sd * (at_low - at_high) / mass
    second = mu * mu + v + sd * ((mu + a) * at_low - (mu + b) * at_high) / mass
    return np.asarray(first), np.asarray(second)


def posterior(
    release: BoundedRelease,
    prior: Any = "flat",
    constrained: bool = True,
    feasibility: str = "event",
    *,
    cap: float | None = None,
    quantity: str = "population",
) -> Posterior:
    """Posterior of the mean and variance of bounded data given a noisy release.

    Parameters
    ----------
    release : one `BoundedRelease`, or many in arrays; labels (xarray) carry over to the results
    prior : "flat", a `NormalInverseGamma` (arrays of parameters are many priors and broadcast against releases), or a
        function (mu, sigma2) -> log density in the units of the data, up to a constant
    constrained : whether to use sigma2 <= (mu - a)(b - mu), and the same constraint on the statistics
    feasibility : "event", conditional on the event that the statistics are feasible, or "normalised", with their
        sampling density renormalised over the feasible ones; the two differ little
    cap : upper bound on sigma2, in squared data units; default without constraints `default_cap` (math.inf for none)
    quantity : "population", mean and variance of the population the values are drawn from, or "data", of the values
        themselves, which needs "flat" or a `NormalInverseGamma`, and feasibility "event"

    Returns
    -------
    Posterior

    Raises
    ------
    ValueError : an improper posterior (Theorems 17 and 18), an unknown prior, feasibility, cap or quantity
    RuntimeError : the prior has no mass where the data can be

    Warns
    -----
    RuntimeWarning : the `quadrature_error` of a release is above 1e-2

    >>> release = BoundedRelease(34.30, 2224.8, n=43, epsilon=(0.25, 0.25), bounds=(0, 100))
    >>> round(posterior(release).mean("mu"), 1), round(posterior(release, quantity="data").mean("mu"), 1)
    (38.5, 37.9)
    """
    if feasibility not in FEASIBILITIES:
        raise ValueError(f"feasibility must be one of {', '.join(FEASIBILITIES)}, got {feasibility!r}")
    if feasibility == "normalised" and not constrained:
        raise ValueError('feasibility="normalised" needs constrained=True: without the bounds nothing is infeasible')
    if not isinstance(release, BoundedRelease):
        raise TypeError(f"release must be a BoundedRelease, got {release!r}")
    known = as_prior(prior)
    _check_quantity(quantity, known, feasibility)
    check_proper(release, known, constrained, cap)
    release, known, labels = align_priors(release, known)
    caps = variance_limits(release, constrained, cap)
    grid_input, shape = grid_rows(release, known, constrained, feasibility == "normalised", caps)
    grid_input = replace(grid_input, of_data=quantity == "data")
    solutions = solve_all(grid_input)
    errors = as_array([one.quadrature_error for one in solutions])
    unsure = np.flatnonzero(~(errors < UNSURE))
    if len(unsure):
        warnings.warn(
            f"the quadrature of {len(unsure)} of {len(errors)} releases has not converged (first release {unsure[0]}, "
            f"estimated error {errors[unsure[0]]:.2g}): prior and release contradict one another, the release "
            "contradicts itself, or a tail is too heavy for its moments; see `quadrature_error`",
            RuntimeWarning,
            stacklevel=2,
        )
    return Posterior(
        release, known, constrained, feasibility, grid_input, solutions, shape, grid_input.caps, labels, quantity
    )


def _check_quantity(quantity: str, prior: Prior, feasibility: str) -> None:
    """ValueError for an unknown quantity, or where that of the data has no formula."""
    if quantity not in QUANTITIES:
        raise ValueError(f"quantity must be one of {', '.join(QUANTITIES)}, got {quantity!r}")
    if quantity == "data" and feasibility != "event":
        raise ValueError(f'quantity="data" needs feasibility="event", got {feasibility!r}')
    if quantity == "data" and not isinstance(prior, (Flat, NormalInverseGamma)):
        raise ValueError('quantity="data" needs a flat prior or a NormalInverseGamma, got a log density')


def _share(name: str, value: float) -> float:
    share = one_number(name, value)
    if not 0.0 < share < 1.0:
        raise ValueError(f"{name} must be strictly between 0 and 1, got {value!r}")
    return share
