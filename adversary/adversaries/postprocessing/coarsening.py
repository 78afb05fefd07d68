"""Post-processing of single releases, clamping and rounding: mechanisms that wrap a mechanism.

Both are non-decreasing functions g of the release y of the mechanism inside, so a published number r has probability

    P(g(y) = r) = P(first(r) <= y <= last(r)),      first(r) = min {y : g(y) >= r},  last(r) = max {y : g(y) <= r},

and wrappers nest: the preimage of an interval is an interval. The published number depends on the data only through
the release inside, so every guarantee of the mechanism inside holds for it (post-processing).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import TAIL_NATS, Floats, Integers, as_array, check_whole, labelled, scalar_or_array
from adversary.adversaries.postprocessing.interval_mass import LISTED_NATS, MOST_LISTED, listed_loss, log_between
from adversary.adversaries.postprocessing.rounding import TIES, check_rule, last_numerator, nearest, ties_go_down
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import PrivacyLoss, repeat_loss
from adversary.privacy.mechanisms import Exact, Mechanism

_FAR_NATS = TAIL_NATS + 8.0


class Coarsened(Mechanism):
    """A mechanism whose releases are a non-decreasing function of those of another mechanism.

    A subclass is a frozen dataclass with a field `mechanism`, and defines `image`, `first`, `last`, `step` and `reach`,
    and also `is_continuous`, `variance` and `smallest_release` if they differ from those inside. Integer noise inside
    is summed exactly and continuous noise integrated over intervals. If a release has a single preimage in continuous
    noise (between the ends of `Clamped`), "log probability" is a log density. An impossible release has -inf.
    """

    __slots__ = ()
    is_additive = False
    mechanism: Mechanism

    @abstractmethod
    def image(self, release: ArrayLike) -> Any:
        """The number published in place of a release of the mechanism inside."""

    @abstractmethod
    def first(self, release: Floats) -> Floats:
        """Smallest release of the mechanism inside whose image is at least this; infinities allowed."""

    @abstractmethod
    def last(self, release: Floats) -> Floats:
        """Largest release of the mechanism inside whose image is at most this; infinities allowed."""

    @property
    @abstractmethod
    def step(self) -> str:
        """The post-processing of this wrapper, in words."""

    @property
    def is_continuous(self) -> bool:
        return self.mechanism.is_continuous

    @property
    def log_concave(self) -> bool:
        """True if the mechanism inside is log-concave: the mass of a shifted interval is then log-concave too."""
        return self.mechanism.log_concave

    @property
    def variance(self) -> float:
        return self.mechanism.variance

    @property
    def log_peak(self) -> float:
        return self.mechanism.log_peak if self.is_continuous else 0.0

    @property
    def smallest_release(self) -> float:
        return float(self.image(self.mechanism.smallest_release))

    @property
    def noise(self) -> Mechanism:
        return self.mechanism.noise

    @property
    def steps(self) -> tuple[str, ...]:
        return *self.mechanism.steps, self.step

    def describe(self) -> str:
        return "; then ".join([self.noise.describe(), *self.steps])

    def check_value(self, value: ArrayLike, name: str = "value") -> Integers:
        return self.mechanism.check_value(value, name)

    @property
    def nominal_guarantee(self) -> Guarantee:
        return self.mechanism.nominal_guarantee

    def log_likelihood(self, release: ArrayLike, value: ArrayLike) -> Floats:
        return log_between(self, as_array(release), as_array(release), as_array(value))

    @labelled
    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        at = self._releases(release)
        return scalar_or_array(log_between(self, at, at, self._values(value)))

    @labelled
    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        at = self._releases(release)
        return scalar_or_array(np.exp(log_between(self, np.full_like(at, -np.inf), at, self._values(value))))

    @labelled
    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        at = self._releases(release)
        beyond = np.nextafter(at, np.inf) if self.is_continuous else at + 1.0
        return scalar_or_array(np.exp(log_between(self, beyond, np.full_like(at, np.inf), self._values(value))))

    def rho(self, change: float = 1) -> float:
        """The rho of the mechanism inside: post-processing has no privacy cost."""
        return self.mechanism.rho(change)

    def contribution_loss(self, most: float, cells: int = 1) -> PrivacyLoss:
        """The loss of the mechanism inside, an upper bound."""
        return self.mechanism.contribution_loss(most, cells)

    def contribution_rho(self, most: float) -> float:
        return self.mechanism.contribution_rho(most)

    @property
    def is_local(self) -> bool:
        return self.mechanism.is_local

    def report_loss(self, apart: float | None = None, cells: int = 1) -> PrivacyLoss:
        """The loss of the mechanism inside, an upper bound."""
        return self.mechanism.report_loss(apart, cells)

    @property
    def calibration(self) -> tuple[float, int]:
        return self.mechanism.calibration

    def scaled(self, factor: float) -> Self:
        return replace(self, mechanism=self.mechanism.scaled(factor))  # type: ignore[type-var]

    def support(self, value: int) -> Integers:
        return np.unique(self.image(self.mechanism.support(value)))

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Any = None) -> Any:
        return scalar_or_array(self.image(np.asarray(self.mechanism.sample(value, rng, size))))

    def total(self, count: int) -> Mechanism:
        count = int(check_whole("count", count, minimum=0))
        if count <= 1:
            return self if count else Exact()
        raise ValueError(
            f"count must be at most 1, got {count}: {type(self).__name__.lower()} releases are not additive noise, so "
            "their sum has no law of its own. Read the siblings one by one, with a belief Each"
        )

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        """The loss of the mechanism inside: an upper bound at every value, by data processing.

        Clamping attains it in the limit of values far from the ends.
        """
        return self.mechanism.privacy_loss(sensitivity, cells)

    def _releases(self, release: ArrayLike) -> Floats:
        if not self.is_continuous:
            return check_whole("release", release).astype(np.float64)
        array = as_array(release)
        if not np.isfinite(array).all():
            raise ValueError(f"release must be finite, got {array[~np.isfinite(array)].ravel()[0]}")
        return array

    def _values(self, value: ArrayLike) -> Floats:
        return self.check_value(value).astype(np.float64)


@log_between.register
def _(mechanism: Coarsened, first: Floats, last: Floats, value: Floats) -> Floats:
    """The log mass of the preimage, an interval of releases inside."""
    return log_between(mechanism.mechanism, mechanism.first(first), mechanism.last(last), value)


@dataclass(frozen=True, slots=True)
class Clamped(Coarsened):
    """Releases clamped to [lower, upper]: max(lower, min(upper, y)).

    The ends have the mass of whole tails, P(lower) = P(y <= lower) and P(upper) = P(y >= upper); between them nothing
    changes. For continuous noise the ends are atoms with log masses, and between them there are log densities.

    `variance` is that of the mechanism inside: exact far from the ends, an upper bound for every value between them.

    Parameters
    ----------
    mechanism : the mechanism inside
    lower, upper : whole numbers, None for no end on that side; at least one of them

    References
    ----------
    Kazan and Reiter 2025, section 2.11 (negative counts are set to 0).

    >>> from adversary.privacy.mechanisms import Geometric
    >>> noise = Geometric(1.0)
    >>> Clamped(noise).log_prob(0, 2) == float(np.log(noise.cdf(0, 2))), Clamped(noise).log_prob(-1, 2)
    (True, -inf)
    """

    mechanism: Mechanism
    lower: int | None = 0
    upper: int | None = None

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)
        if self.lower is None and self.upper is None:
            raise ValueError("lower or upper must be a whole number, got None for both: nothing is clamped")
        for name in ("lower", "upper"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, int(check_whole(name, getattr(self, name))))
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(f"lower must be at most upper, got {self.lower} > {self.upper}")

    @property
    def step(self) -> str:
        if self.lower is None:
            return f"numbers above {self.upper} are published as {self.upper}"
        if self.upper is None:
            return f"numbers below {self.lower} are published as {self.lower}"
        return f"numbers outside {self.lower} to {self.upper} are published as the nearer end"

    def image(self, release: ArrayLike) -> Any:
        return np.clip(release, self.lower, self.upper)

    def first(self, release: Floats) -> Floats:
        low, high = self._ends
        return np.where(release <= low, -np.inf, np.where(release > high, np.inf, release))

    def last(self, release: Floats) -> Floats:
        low, high = self._ends
        return np.where(release < low, -np.inf, np.where(release >= high, np.inf, release))

    @property
    def _ends(self) -> tuple[float, float]:
        return -np.inf if self.lower is None else self.lower, np.inf if self.upper is None else self.upper

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        """As `Mechanism.tail_radius`, for counts >= 0; infinite with an upper end, which fits large counts."""
        return np.inf if self.upper is not None else self.mechanism.tail_radius(nats) + abs(self.lower or 0)


@dataclass(frozen=True, slots=True)
class Rounded(Coarsened):
    """Releases rounded to the nearest multiple of `base`.

    P(r) is the mass of the numbers nearer to r than to any other multiple. Numbers half way go by the rule `ties`: to
    the even multiple, the larger, or the smaller ("up" is towards +inf, for negative numbers too). Continuous noise
    becomes a discrete distribution on the multiples.

    `variance` is an average over values, since it depends on their remainders: the variance inside plus the mean square
    rounding error, (base^2 - 1) / 12 for odd and (base^2 + 2) / 12 for even bases, base^2 / 12 for continuous noise.
    (Errors of two roundings are added as if independent.)

    Parameters
    ----------
    mechanism : the mechanism inside
    base : a whole number, at least 1
    ties : "half_even", "half_up" or "half_down"

    >>> from adversary.privacy.mechanisms import Geometric
    >>> Rounded(Geometric(1.0), 5).support(2)[-4:].tolist(), Rounded(Geometric(1.0), 5).log_prob(3, 2)
    ([30, 35, 40, 45], -inf)
    """

    mechanism: Mechanism
    base: int
    ties: str = "half_even"

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)
        object.__setattr__(self, "base", int(check_whole("base", self.base, minimum=1)))
        check_rule("ties", self.ties)

    is_continuous = False

    @property
    def step(self) -> str:
        return f"numbers are rounded to multiples of {self.base}, {TIES[self.ties]}"

    @property
    def smallest_release(self) -> float:
        inside = self.mechanism.smallest_release
        return float(self.image(inside)) if np.isfinite(inside) else inside

    def image(self, release: ArrayLike) -> Any:
        return np.asarray(self.base * nearest(release, self.base, self.ties)).astype(np.int64)

    def first(self, release: Floats) -> Floats:
        before = self._last_rounding_to(np.ceil(release / self.base) - 1.0)
        if not self.mechanism.is_continuous:
            return before + 1.0
        return np.where(np.isfinite(before), np.nextafter(before, np.inf), before)

    def last(self, release: Floats) -> Floats:
        return self._last_rounding_to(np.floor(release / self.base))

    def _last_rounding_to(self, index: Floats) -> Floats:
        """The largest release inside that is rounded to at most index * base."""
        if not self.mechanism.is_continuous:
            return last_numerator(index, self.base, self.ties)
        edge = self.base * (index + 0.5)
        down = ties_go_down(np.where(np.isfinite(index), index, 0.0), self.ties) | ~np.isfinite(index)
        return np.where(down, edge, np.nextafter(edge, -np.inf))

    def support(self, value: int) -> Integers:
        if not self.mechanism.is_continuous:
            return Coarsened.support(self, value)
        low, high = (int(self.image(end)) for end in _hull(self.mechanism, float(check_whole("value", value))))
        return np.arange(low, high + 1, self.base)

    @property
    def variance(self) -> float:
        b = self.base
        ties = 0.0 if self.mechanism.is_continuous else (2.0 if b % 2 == 0 else -1.0)
        return self.mechanism.variance + (b * b + ties) / 12.0

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        """The reach of the mechanism inside plus one base for the rounding."""
        return self.mechanism.tail_radius(nats) + self.base

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        """The loss of the rounded release, for the worst remainder of the count; or the loss inside, an upper bound, if
        the mechanism inside is not additive noise or has too many releases to list.

        >>> from adversary.privacy.mechanisms import Laplace
        >>> noise = Rounded(Laplace(1.0), 1)
        >>> round(noise.privacy_loss().delta(0.9), 4), round(noise.mechanism.privacy_loss().delta(0.9), 4)
        (0.0289, 0.0488)
        """
        change, copies = self.mechanism.change(sensitivity, cells)
        if not self.mechanism.is_additive or change != round(change) or not change or not copies:
            return self.mechanism.privacy_loss(sensitivity, cells)
        remainders = range(self.base * (2 if self.ties == "half_even" else 1))
        reach, inside = self.noise.tail_radius(LISTED_NATS), self.mechanism.privacy_loss(change, 1)
        if not reach < MOST_LISTED * self.base:
            return self.mechanism.privacy_loss(sensitivity, cells)
        most = float(self.image(remainders[-1] + change + np.ceil(reach)))
        releases = np.arange(float(self.image(-np.ceil(reach))), most + 1.0, self.base)
        loss = listed_loss(self, releases, round(change), remainders, inside)
        return self.mechanism.privacy_loss(sensitivity, cells) if loss is inside else repeat_loss(loss, copies)

    def contribution_loss(self, most: float, cells: int = 1) -> PrivacyLoss:
        """The loss of the largest change, the worst one for log-concave noise, also if rounded."""
        if self.mechanism.is_additive and (self.log_concave or most == 1):
            return self.privacy_loss(most, cells)
        return self.mechanism.contribution_loss(most, cells)


def clamped(mechanism: Mechanism, lower: int | None = 0, upper: int | None = None) -> Mechanism:
    """The mechanism with its releases clamped to [lower, upper]; see `Clamped`.

    Parameters
    ----------
    mechanism : the noise; if its releases are never below `lower` and `upper` is None, it is returned unchanged (for
        instance `Exact`)
    lower, upper : whole numbers, None for no end on that side; at least one of them

    Returns
    -------
    Mechanism with the privacy guarantee of the one inside (post-processing)

    Raises
    ------
    ValueError : no end, or a lower end above the upper

    >>> from adversary.privacy.mechanisms import Geometric
    >>> clamped(Geometric(1.0)).log_prob(-1, 2)
    -inf
    """
    check_mechanism(mechanism)
    if upper is None and lower is not None and mechanism.smallest_release >= lower:
        return mechanism
    return Clamped(mechanism, lower, upper)


rounded = Rounded
"""Function form of `Rounded`, as `clamped` is of `Clamped`."""


def _hull(mechanism: Mechanism, value: float) -> tuple[Any, Any]:
    """First and last release of coarsened continuous noise in a range with all but 1e-18 of the mass."""
    if isinstance(mechanism, Coarsened):
        low, high = _hull(mechanism.mechanism, value)
        return mechanism.image(low), mechanism.image(high)
    width = mechanism.tail_radius(_FAR_NATS)
    return max(value - width, mechanism.smallest_release), value + width


def check_mechanism(mechanism: Any) -> None:
    """TypeError unless the argument is a Mechanism."""
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"mechanism must be a Mechanism, got {mechanism!r}")
