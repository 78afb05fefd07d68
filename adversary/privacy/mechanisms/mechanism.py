"""The abstract noise law: what every mechanism says of itself."""

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
"""Values of a release that may be listed: with some ten numbers each they take 1 GiB."""


def _fields(law: type) -> Mapping[str, Any]:
    """The fields of a dataclass."""
    return getattr(law, "__dataclass_fields__", {})


class Mechanism(ABC):
    """A noise law.

    To add one: a frozen dataclass with the abstract methods, and with `kind` and `parameters` if scenario files may ask
    for it. Additive noise inherits from `IntegerNoise` or `ContinuousNoise` and gives `log_noise`,
    `log_survival`, `reach`, `variance`, `total`, `scaled` and `describe` (`Geometric` in `integers` is the
    shortest example).
    """

    __slots__ = ()

    kind: ClassVar[str] = ""
    """What scenario files call it; nothing where they cannot ask for it."""
    parameters: ClassVar[tuple[str, ...]] = ()
    """Numbers any one of which fixes it, as scenario files name them; see `from_parameter`."""
    options: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What scenario files may add, by name: a "whole" number, a "real" number, or a "flag", true or false."""
    tables: ClassVar[tuple[str, ...]] = ()
    """Parameters that name a CSV file, see `from_table`."""
    is_additive: ClassVar[bool] = True
    """Whether release minus value has one law whatever the value."""
    is_exact: ClassVar[bool] = False
    """Whether the value itself is published: an invariant, which conditions what is compared and is no noise."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuses a parameter that another constructor takes, by its name: a budget, such as rho."""
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
        """P(release' <= release) given the value."""

    @abstractmethod
    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        """P(release' > release) given the value, accurate in the tail."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the release about the value."""

    @abstractmethod
    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        """Simulated releases, for audits. A genuine publication needs an exact sampler on a secure source."""

    @abstractmethod
    def support(self, value: int) -> Integers:
        """Releases that carry all but 1e-18 of the mass, ascending; TypeError for continuous noise."""

    @abstractmethod
    def log_likelihood(self, release: ArrayLike, value: ArrayLike) -> Floats:
        """`log_prob` without its checks, for float arrays that have passed them; -inf at an impossible value."""

    @abstractmethod
    def reach(self, nats: float = TAIL_NATS) -> float:
        """Distance from the release beyond which a value's log likelihood has fallen by at least that many nats."""

    @abstractmethod
    def describe(self) -> str:
        """The noise in words, with the parameter that fixes it."""

    @property
    @abstractmethod
    def is_continuous(self) -> bool:
        """True where some releases lie on a continuum, with a density; the releases of others are whole numbers."""

    @property
    def log_concave(self) -> bool:
        """True where the log likelihood of a release is concave in the value; False also where that is not known.

        The ratio of the likelihoods of two values then never falls along the releases, so that its extremes lie in the
        tails, and a product of such likelihoods falls away from its one summit at least as fast as each of them.
        """
        return False

    @property
    def smallest_release(self) -> float:
        """No release of a count is below it; minus infinity where there is no such number."""
        return -np.inf

    def check_value(self, value: ArrayLike, name: str = "value") -> Integers:
        """Values as whole numbers, or ValueError for one that has no release."""
        return check_whole(name, value)

    @property
    def noise(self) -> Mechanism:
        """The mechanism before anything is done to its releases: itself, unless it wraps another."""
        return self

    @property
    def steps(self) -> tuple[str, ...]:
        """Steps done to the releases of `noise`, in words, first things first; none unless it wraps another."""
        return ()

    @property
    def summands(self) -> tuple[Mechanism, int]:
        """(one of them, how many) of the independent noises it is the sum of; itself once, unless it is a sum."""
        return self, 1

    @property
    def log_peak(self) -> float:
        """The largest log density of a release, if positive: no release of other noise has more than mass one."""
        return 0.0

    @property
    def curvature(self) -> float:
        """1 / (2 variance), by which releases are weighed against each other; where the log likelihood is a parabola,
        its curvature."""
        return 0.5 / variance if (variance := self.variance) else float("inf")

    @property
    def parabola(self) -> tuple[float, float] | None:
        """(curvature, log peak) of a log likelihood log peak - curvature (release - value)^2; None elsewhere."""
        return None

    @property
    def laplace_rate(self) -> float | None:
        """Epsilon where the log likelihood is log peak - epsilon |release - value|; None elsewhere."""
        return None

    @property
    def tail_rate(self) -> float:
        """Nats by which the log likelihood falls per unit of distance from the release, in the limit."""
        single = self.summands[0]
        if single.parabola:
            return np.inf
        if single.laplace_rate is None:
            raise NotImplementedError(f"the tail of {self!r} is not known here")
        return single.laplace_rate

    @property
    def nominal_guarantee(self) -> Guarantee:
        """The guarantee for one count that changes by 1, by its parameter.

        Pure DP of `laplace_rate`, else zCDP of `rho()`; where both say nothing, its own privacy loss.
        """
        if self.laplace_rate is not None:
            return PureDP(self.laplace_rate)
        return ZeroConcentratedDP(rho) if (rho := self.rho()) < np.inf else self.privacy_loss(1, 1)

    @classmethod
    def from_parameter(
        cls, parameter: str, value: float, sensitivity: float = 1, cells: int = 1, **options: Any
    ) -> Self:
        """The noise with one of its `parameters`: a budget, such as rho, for the whole change, or a number of its law.

        Parameters
        ----------
        parameter : one of `parameters`
        value : > 0
        sensitivity, cells : the change for which a budget is; noise made by a number of its law keeps the former
        options : those of `options`
        """
        of_budget: Any = getattr(cls, f"from_{parameter}", None)
        if of_budget:
            made: Self = of_budget(value, sensitivity, cells, **options)
            return made
        law: Any = cls
        keeps = {"sensitivity": sensitivity} if "sensitivity" in getattr(cls, "__dataclass_fields__", {}) else {}
        return law(**{parameter: value}, **keeps, **options)  # type: ignore[no-any-return]

    def releases(self, value: int) -> tuple[Floats, Floats]:
        """(support, probabilities) of the releases of a value; shared arrays, not to be changed."""
        return _mass(self, int(value))

    def memoised(self, releases: int) -> Mechanism:
        """The noise of so many releases of one memoised answer: itself, as the same again says nothing new.

        Parameters
        ----------
        releases : whole number >= 1

        Raises
        ------
        ValueError : something is done to its releases afterwards
        """
        check_whole("releases", one_number("releases", releases), minimum=1)
        if self.steps:
            raise ValueError(f"memoised releases must be those of the noise inside, got {self.describe()}")
        return self

    @abstractmethod
    def total(self, count: int) -> Mechanism:
        """The noise of a sum of `count` independent releases, again a mechanism; `Exact()` for none."""

    @abstractmethod
    def scaled(self, factor: float) -> Mechanism:
        """This kind of noise, its width divided by sqrt(factor): epsilon times that, a Gaussian rho times the factor.

        Itself where it has no width.
        """

    @abstractmethod
    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        """Law of log P(release | value + sensitivity) / P(release | value), `cells` independent releases together.

        What is left out is what the noise was calibrated for (see `calibration`).
        """

    def pair_loss(self, value: int, other: int) -> PrivacyLoss:
        """Law of log P(release | value) / P(release | other) of one release; that of `privacy_loss` unless it depends
        on more than how far the two values are apart."""
        return self.privacy_loss(abs(value - other), 1)

    @property
    def calibration(self) -> tuple[float, int]:
        """(sensitivity, cells) of the change that the noise was made for; (1, 1) where none was named."""
        return 1, 1

    def change(self, sensitivity: float | None, cells: int | None) -> tuple[float, int]:
        """(sensitivity, cells) as given to `privacy_loss`, each as calibrated for where it is None."""
        own_sensitivity, own_cells = self.calibration
        n = int(check_whole("cells", own_cells if cells is None else cells, minimum=0))
        return own_sensitivity if sensitivity is None else sensitivity, n

    @property
    def is_local(self) -> bool:
        """True where the value is one unit's own answer, which neighbours change to any other: a local report."""
        return False

    def report_loss(self, apart: float | None = None, cells: int = 1) -> PrivacyLoss:
        """The loss of a local report: the smallest that dominates those of all pairs of answers.

        Parameters
        ----------
        apart : of pairs at most so far apart; None for all
        cells : number of independent reports

        Raises
        ------
        TypeError : the mechanism is not local
        """
        raise TypeError(f"{self!r} is not local: its value is a count, of which privacy_loss says what a change costs")

    def report_rho(self, apart: float | None = None) -> float:
        """zCDP of one local report, by its largest divergence over the order; `apart` as in `report_loss`."""
        return concentrated_rho(self.report_loss(apart))

    def contribution_loss(self, most: float, cells: int = 1) -> PrivacyLoss:
        """The loss of a unit that changes each of `cells` values by at most `most`: the largest of all such changes.

        Of additive noise, that of the whole change: a smaller one moves the law less far.
        """
        return self.privacy_loss(most, cells)

    def contribution_rho(self, most: float) -> float:
        """zCDP of one release for any change of at most that size, in nats."""
        return self.rho(most)

    def rho(self, change: float = 1) -> float:
        """zCDP of one release for a change of that size, in nats: the least, or near it; inf where there is none.

        Where a law has no formula, `concentrated_rho` of its loss. It does not grow with the square of the change for
        other than Gaussian noise.

        Parameters
        ----------
        change : by how much the value moves, >= 0; a whole number where the noise is on the integers
        """
        return concentrated_rho(self.privacy_loss(change, 1))

    @classmethod
    def from_table(
        cls, parameter: str, table: Any, place: Callable[[int], str] = "row {}".format, **flags: Any
    ) -> Self:
        """The noise of a table of numbers.

        Parameters
        ----------
        parameter : one of `tables`
        table : DataFrame of text, its header the names of columns or labels
        place : what messages call a row, by its number from 0
        **flags : some of `options`
        """
        raise TypeError(f"{cls.__name__} is not made from a table")

    def log_ratio(self, release: ArrayLike, value: ArrayLike, other: ArrayLike) -> Any:
        """log P(release | value) - log P(release | other); NaN where both are impossible."""
        if self.parabola:  # without the cancellation of two squares
            a, b = check_whole("value", value), check_whole("other", other)
            return scalar_or_array(self.parabola[0] * (a - b) * (2.0 * as_array(release) - a - b))
        above, below = as_array(self.log_prob(release, value)), as_array(self.log_prob(release, other))
        with np.errstate(invalid="ignore"):
            return scalar_or_array(above - below)


def root_of(factor: float) -> float:
    """Square root of a factor of the precision: epsilon grows by it, and the width of noise is divided by it.

    Parameters
    ----------
    factor : by which 1 / variance is multiplied, > 0; one number

    Returns
    -------
    sqrt(factor), a float.

    Raises
    ------
    ValueError : a factor that is not positive and finite
    TypeError : more than one number, or none

    >>> root_of(4.0)
    2.0
    """
    check_positive("factor", factor)
    return math.sqrt(one_number("factor", factor))


def listable(noise: Mechanism, reach: int, most: int = MOST_VALUES) -> int:
    """The reach of a noise law, checked so that its 2 reach + 1 releases can be listed.

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
