"""Abstract class of mechanisms: the interface of all noise."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    TAIL_NATS,
    Floats,
    Integers,
    Size,
    as_array,
    check_positive,
    check_whole,
    one_number,
    scalar_or_array,
)
from adversary.privacy.definitions import PureDP, ZeroConcentratedDP, concentrated_rho
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import PrivacyLoss, way_to_loss

MOST_VALUES = 10_000_000
"""Largest number of values of a release that are listed: with about ten numbers each they take 1 GiB."""


def _fields(law: type) -> Mapping[str, Any]:
    """The fields of a dataclass."""
    return getattr(law, "__dataclass_fields__", {})


class Mechanism(ABC):
    """Distribution of a noisy release given the true value.

    Subclasses are frozen dataclasses with the abstract methods, and with `kind` and `parameters` if scenario files can
    name them. Additive noise inherits from `IntegerNoise` or `ContinuousNoise` and defines `log_noise`, `log_survival`,
    `tail_radius`, `variance`, `total`, `scaled` and `describe`; `Geometric` in `integers` is the shortest example.
    """

    __slots__ = ()

    kind: ClassVar[str] = ""
    """Name in scenario files; empty if they cannot name it."""
    parameters: ClassVar[tuple[str, ...]] = ()
    """Parameters in scenario files, each of which determines the mechanism; see `from_parameter`."""
    options: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Optional parameters in scenario files and their types: "whole" number, "real" number, or "flag" (true, false)."""
    tables: ClassVar[tuple[str, ...]] = ()
    """Parameters that name a CSV file, see `from_table`."""
    is_additive: ClassVar[bool] = True
    """True if the distribution of release minus value does not depend on the value."""
    is_exact: ClassVar[bool] = False
    """True if the value itself is published: an invariant, which restricts the databases that are compared."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse a budget, such as rho, passed to the class; the error names the constructor that takes it."""
        for given in kwargs:
            if given in cls.parameters and hasattr(cls, f"from_{given}") and given not in _fields(cls):
                raise TypeError(f"{cls.__name__} is not made by {given}: write {cls.__name__}.from_{given}(...)")
        return super().__new__(cls)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{type(self).__name__} has no {name}{way_to_loss(self, name)}", name=name, obj=self)

    @abstractmethod
    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        """Log probability (mass, or density for continuous noise) of a release given the true value; broadcasts."""

    @abstractmethod
    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        """P(a release <= `release`) given the value."""

    @abstractmethod
    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        """P(a release > `release`) given the value, with relative accuracy in the tail."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the release about the value."""

    @abstractmethod
    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        """Simulated releases, for audits only: a publication needs an exact sampler with secure randomness."""

    @abstractmethod
    def support(self, value: int) -> Integers:
        """Releases with all but 1e-18 of the mass, ascending; TypeError for continuous noise."""

    @abstractmethod
    def log_likelihood(self, release: ArrayLike, value: ArrayLike) -> Floats:
        """`log_prob` of checked float arrays, without further checks; -inf at an impossible value."""

    @abstractmethod
    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        """Distance from the release beyond which the log likelihood of a value is at least `nats` below its peak."""

    @abstractmethod
    def describe(self) -> str:
        """The mechanism in words, with its parameter."""

    @property
    @abstractmethod
    def is_continuous(self) -> bool:
        """True if some releases have a density; False if all releases are whole numbers."""

    @property
    def log_concave(self) -> bool:
        """True if the log likelihood of a release is concave in the value; False if not, or unknown.

        The likelihood ratio of two values is then monotone in the release, so that its extremes lie in the tails. A
        product of such likelihoods has one maximum and decreases away from it at least as fast as each factor.
        """
        return False

    @property
    def smallest_release(self) -> float:
        """Lower bound on the releases of counts; minus infinity if there is none."""
        return -np.inf

    def check_value(self, value: ArrayLike, name: str = "value") -> Integers:
        """Values as whole numbers; ValueError for a value outside the domain of the mechanism."""
        return check_whole(name, value)

    @property
    def noise(self) -> Mechanism:
        """The mechanism before post-processing: itself, unless it wraps another."""
        return self

    @property
    def steps(self) -> tuple[str, ...]:
        """Post-processing steps applied to the releases of `noise`, in words and in order; empty if there are none."""
        return ()

    @property
    def summands(self) -> tuple[Mechanism, int]:
        """(summand, number of summands) of a sum of independent noise; (itself, 1) for other noise."""
        return self, 1

    @property
    def log_peak(self) -> float:
        """Upper bound >= 0 on the log density of a release; 0 for discrete noise."""
        return 0.0

    @property
    def curvature(self) -> float:
        """Precision weight of a release: 1 / (2 variance), or the curvature of a quadratic log likelihood."""
        return 0.5 / variance if (variance := self.variance) else float("inf")

    @property
    def parabola(self) -> tuple[float, float] | None:
        """(curvature, log peak) of a log likelihood log peak - curvature (release - value)^2; otherwise None."""
        return None

    @property
    def laplace_rate(self) -> float | None:
        """Epsilon of a log likelihood log peak - epsilon |release - value|; otherwise None."""
        return None

    @property
    def tail_rate(self) -> float:
        """Asymptotic decrease of the log likelihood per unit of distance from the release, in nats."""
        single = self.summands[0]
        if single.parabola:
            return np.inf
        if single.laplace_rate is None:
            raise NotImplementedError(f"the tail of {self!r} is not known here")
        return single.laplace_rate

    @property
    def nominal_guarantee(self) -> Guarantee:
        """Guarantee for one count that changes by 1, in the usual definition of the mechanism.

        Pure DP with `laplace_rate`, otherwise zCDP with `rho()`; if neither exists, the privacy loss.
        """
        if self.laplace_rate is not None:
            return PureDP(self.laplace_rate)
        return ZeroConcentratedDP(rho) if (rho := self.rho()) < np.inf else self.privacy_loss(1, 1)

    @classmethod
    def from_parameter(
        cls, parameter: str, value: float, sensitivity: float = 1, cells: int = 1, **options: Any
    ) -> Self:
        """Mechanism from one of its `parameters`: a budget, such as rho, or a distribution parameter, such as sigma.

        Parameters
        ----------
        parameter : one of `parameters`
        value : > 0
        sensitivity, cells : the change that a budget covers; with a distribution parameter only `sensitivity` is used
        options : as listed in `options`
        """
        of_budget: Any = getattr(cls, f"from_{parameter}", None)
        if of_budget:
            made: Self = of_budget(value, sensitivity, cells, **options)
            return made
        law: Any = cls
        keeps = {"sensitivity": sensitivity} if "sensitivity" in getattr(cls, "__dataclass_fields__", {}) else {}
        return law(**{parameter: value}, **keeps, **options)  # type: ignore[no-any-return]

    def releases(self, value: int) -> tuple[Floats, Floats]:
        """(support, probabilities) of the releases of a value; shared arrays, which callers must not modify."""
        return _mass(self, int(value))

    def memoised(self, releases: int) -> Mechanism:
        """Mechanism of several releases of one memoised answer: itself, because repetitions reveal nothing more.

        Parameters
        ----------
        releases : number of releases, >= 1

        Raises
        ------
        ValueError : the mechanism includes post-processing
        """
        check_whole("releases", one_number("releases", releases), minimum=1)
        if self.steps:
            raise ValueError(f"memoised releases must be those of the noise inside, got {self.describe()}")
        return self

    @abstractmethod
    def total(self, count: int) -> Mechanism:
        """Mechanism of a sum of `count` independent releases; `Exact()` for 0."""

    @abstractmethod
    def scaled(self, factor: float) -> Mechanism:
        """Mechanism of the same kind with its width divided by sqrt(factor); itself if it has no width.

        Epsilon is multiplied by sqrt(factor), the rho of Gaussian noise by `factor`.
        """

    @abstractmethod
    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        """Privacy loss log P(release | value + sensitivity) / P(release | value) of `cells` independent releases.

        The default change is the one that the noise is calibrated for (see `calibration`).
        """

    def pair_loss(self, value: int, other: int) -> PrivacyLoss:
        """Privacy loss log P(release | value) / P(release | other) of one release for a pair of values.

        By default the `privacy_loss` of their distance; mechanisms that depend on the values themselves override it.
        """
        return self.privacy_loss(abs(value - other), 1)

    @property
    def calibration(self) -> tuple[float, int]:
        """(sensitivity, cells) of the change that the noise is calibrated for; (1, 1) by default."""
        return 1, 1

    def change(self, sensitivity: float | None, cells: int | None) -> tuple[float, int]:
        """(sensitivity, cells) of `privacy_loss`, with None replaced by the calibration."""
        own_sensitivity, own_cells = self.calibration
        n = int(check_whole("cells", own_cells if cells is None else cells, minimum=0))
        return own_sensitivity if sensitivity is None else sensitivity, n

    @property
    def is_local(self) -> bool:
        """True for a local report: the value is the answer of one unit, and neighbours may have any other answer."""
        return False

    def report_loss(self, apart: float | None = None, cells: int = 1) -> PrivacyLoss:
        """Privacy loss of a local report: the smallest one that dominates all pairs of answers.

        Parameters
        ----------
        apart : largest distance between the answers of a pair; None for all pairs
        cells : number of independent reports

        Raises
        ------
        TypeError : the mechanism is not local
        """
        raise TypeError(f"{self!r} is not local: its value is a count, of which privacy_loss says what a change costs")

    def report_rho(self, apart: float | None = None) -> float:
        """zCDP parameter of one local report, in nats; `apart` as in `report_loss`."""
        return concentrated_rho(self.report_loss(apart))

    def contribution_loss(self, most: float, cells: int = 1) -> PrivacyLoss:
        """Privacy loss of a unit that changes each of `cells` values by at most `most`: the worst of these changes.

        For additive noise the loss of the largest change.
        """
        return self.privacy_loss(most, cells)

    def contribution_rho(self, most: float) -> float:
        """zCDP parameter of one release for any change up to `most`, in nats."""
        return self.rho(most)

    def rho(self, change: float = 1) -> float:
        """zCDP parameter of one release for a change of this size, in nats; inf if there is none.

        By default `concentrated_rho` of the privacy loss, within about 0.1 % of the smallest. For Gaussian noise only,
        it is proportional to the square of the change.

        Parameters
        ----------
        change : change of the value, >= 0; a whole number for integer noise
        """
        return concentrated_rho(self.privacy_loss(change, 1))

    @classmethod
    def from_table(
        cls, parameter: str, table: Any, place: Callable[[int], str] = "row {}".format, **flags: Any
    ) -> Self:
        """Mechanism from a table of numbers.

        Parameters
        ----------
        parameter : one of `tables`
        table : DataFrame of text, with the names or labels of columns as its header
        place : name of a row in messages, from its number, which starts at 0
        **flags : some of `options`

        Raises
        ------
        TypeError : the mechanism has no tables
        """
        raise TypeError(f"{cls.__name__} is not made from a table")

    def log_ratio(self, release: ArrayLike, value: ArrayLike, other: ArrayLike) -> Any:
        """log P(release | value) - log P(release | other); NaN if the release is impossible under both."""
        # The difference of two parabolas in factored form, without cancellation.
        if self.parabola:
            a, b = check_whole("value", value), check_whole("other", other)
            return scalar_or_array(self.parabola[0] * (a - b) * (2.0 * as_array(release) - a - b))
        above, below = as_array(self.log_prob(release, value)), as_array(self.log_prob(release, other))
        with np.errstate(invalid="ignore"):
            return scalar_or_array(above - below)


def root_of(factor: float) -> float:
    """Square root of a factor of the precision: the factor of epsilon, and the divisor of the width of noise.

    Parameters
    ----------
    factor : factor of 1 / variance, > 0; one number

    Returns
    -------
    sqrt(factor), a float.

    Raises
    ------
    ValueError : a factor that is not positive and finite
    TypeError : not one number

    >>> root_of(4.0)
    2.0
    """
    check_positive("factor", factor)
    return math.sqrt(one_number("factor", factor))


def listable(noise: Mechanism, reach: int, most: int = MOST_VALUES) -> int:
    """Reach of a mechanism, checked so that its 2 reach + 1 releases can be listed.

    Parameters
    ----------
    noise : for the message
    reach : largest distance of a release from its value, in units of the value
    most : largest number of releases that may be listed

    Returns
    -------
    `reach`

    Raises
    ------
    ValueError : more than `most` releases
    """
    if 2 * reach + 1 > most:
        raise ValueError(
            f"noise must spread a release over at most {most:,} values, "
            f"got {2.0 * reach + 1.0:.3g} with {noise!r}: "
            "choose a smaller sigma or scale, or a larger rho or epsilon"
        )
    return reach


@lru_cache(maxsize=512)
def _mass(noise: Mechanism, value: int) -> tuple[Floats, Floats]:
    support = noise.support(value)
    return support.astype(np.float64), np.exp(as_array(noise.log_prob(support, value)))
