"""Suppression of releases below a threshold: mechanisms that wrap a mechanism, like clamping and rounding.

`Suppressed` hides small numbers of cells that are known to exist. `Selected` hides the existence of a key, or a table:
a key with nobody in it is never published, so a published key reveals that somebody is in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import TAIL_NATS, Floats, Integers, as_array, check_probability, check_whole, scalar_or_array
from adversary.adversaries.postprocessing.coarsening import Coarsened, check_mechanism
from adversary.adversaries.postprocessing.interval_mass import log_between
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import LatticeLoss, PrivacyLoss, compose_losses, lattice_above, repeat_loss
from adversary.privacy.mechanisms import Mechanism, dominating_pairs

# Number of losses at which a profile that cannot be listed is interpolated from above.
_NODES = 801


@dataclass(frozen=True, slots=True)
class Suppressed(Coarsened):
    """Releases below a threshold are published as "suppressed", which is itself a release.

    As a number "suppressed" is `below` - 1, the largest number that is never published: enter that number for a
    suppressed cell of a table. The adversary then knows only that the release inside was less than `below`.
    Complementary suppression hides further cells so that totals do not reveal the first ones. It depends on the whole
    table and is not a mechanism for one count; with it, leave the levels above unpublished in the plan.

    Without noise inside, `suppressed(Exact(), below=5)`, no guarantee holds: the loss is infinite, since counts from 5
    on are published exactly. `variance` is that of the mechanism inside.

    Parameters
    ----------
    mechanism : the mechanism inside
    below : a whole number; releases of at least `below` are published unchanged
    least : if given, releases below it are published too, so only `least` to `below` - 1 are suppressed; 1 if zeros
        are shown

    >>> from adversary.privacy.mechanisms import Exact, Geometric
    >>> Suppressed(Exact(), 5).log_prob([4, 4, 3, 7], [0, 4, 3, 7]).tolist()
    [0.0, 0.0, -inf, 0.0]
    >>> Suppressed(Exact(), 8, least=1).log_prob([0, 7, 3, 8], [0, 3, 3, 8]).tolist()  # 1 to 7 are suppressed
    [0.0, 0.0, -inf, 0.0]
    >>> noise = Geometric(1.0)
    >>> Suppressed(noise, 5).log_prob(4, 6) == float(np.log(noise.cdf(4, 6)))
    True
    """

    mechanism: Mechanism
    below: int
    least: int | None = None

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)
        object.__setattr__(self, "below", int(check_whole("below", self.below)))
        if self.least is not None:
            object.__setattr__(self, "least", int(check_whole("least", self.least)))
            if self.least >= self.below:
                raise ValueError(
                    f"least must be less than below, got {self.least} and {self.below}: nothing suppressed"
                )

    @property
    def step(self) -> str:
        which = f"below {self.below}" if self.least is None else f"from {self.least} to {self.below - 1}"
        return f'numbers {which} are suppressed ("suppressed" stands here as {self.below - 1})'

    @property
    def _start(self) -> float:
        return -np.inf if self.least is None else self.least

    def image(self, release: ArrayLike) -> Any:
        return np.where(np.less(release, self.below) & np.greater_equal(release, self._start), self.below - 1, release)

    def first(self, release: Floats) -> Floats:
        inside = np.where(release < self._start, release, self._start)
        return np.where(release <= self.below - 1, inside, np.maximum(release, self.below))

    def last(self, release: Floats) -> Floats:
        edge = np.nextafter(self.below, -np.inf) if self.is_continuous else self.below - 1.0
        before = np.nextafter(self._start, -np.inf) if self.is_continuous else self._start - 1.0
        shown = np.minimum(release, before)
        return np.where(release < self.below - 1, shown, np.where(release < self.below, edge, release))

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        """Distance as for `Mechanism.tail_radius`, for counts >= 0."""
        return self.mechanism.tail_radius(nats) + abs(self.below)


suppressed = Suppressed
"""Function form of `Suppressed`, as `clamped` is of `Clamped`."""


@dataclass(frozen=True, slots=True)
class Selected(Suppressed):
    """Publication of a key, or a table, with its noisy count only if this count reaches a threshold.

    A count of 0 means a key that nobody has, which is never published. From 1 on the release is that of `Suppressed`,
    with `below` - 1 for an absent key. No epsilon holds without a delta: a key that only the target has is published
    with probability `published(1)`, and then reveals with certainty that the target is in.

    If only the existence of a table is published, not its total, use `clamped(selected(noise, 20), 19, 20)`.

    Parameters
    ----------
    mechanism : additive noise of the count
    below : smallest noisy count that is published, a whole number; T + 1 for "greater than T" with whole-number noise

    References
    ----------
    Korolova, Kenthapadi, Mishra and Ntoulas 2009, "Releasing search queries and clicks privately", WWW.
    Desfontaines, Voss, Gipson and Mandayam 2022, "Differentially private partition selection", PoPETs 2022(1).

    >>> from adversary.privacy.mechanisms import Geometric
    >>> key = Selected(Geometric(1.0), 6)
    >>> round(key.published(1), 7), key.published(0), round(key.privacy_loss().delta(1.0), 7)
    (0.0049258, 0.0, 0.0049258)
    """

    least: None = None
    log_concave = False

    def __post_init__(self) -> None:
        Suppressed.__post_init__(self)
        if not self.mechanism.is_additive or self.mechanism.is_exact:
            raise TypeError(
                f"mechanism must be additive noise, got {self.mechanism!r}: a key passes by its noisy count"
            )

    @property
    def step(self) -> str:
        return (
            f"a key with nobody is never published, others from {self.below} on (an absent key stands here as "
            f"{self.below - 1})"
        )

    def published(self, count: ArrayLike) -> Any:
        """Probability that a key with this count is published; broadcasts."""
        value = self.check_value(count).astype(np.float64)
        return scalar_or_array(np.exp(log_between(self, as_array(self.below), as_array(np.inf), value)))

    def support(self, value: int) -> Integers:
        return Suppressed.support(self, value) if value else np.array([self.below - 1])

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Any = None) -> Any:
        drawn = np.asarray(Suppressed.sample(self, value, rng, size))
        return scalar_or_array(np.where(np.equal(value, 0), self.below - 1, drawn))

    @property
    def nominal_guarantee(self) -> Guarantee:
        return self.privacy_loss(1, 1)

    def rho(self, change: float = 1) -> float:
        """Infinite for any change: a guarantee with a delta has no rho."""
        return np.inf if change else 0.0

    def contribution_rho(self, most: float) -> float:
        return self.rho(most)

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        """A tight upper bound on the loss of a key that only the unit has and of keys that others have too.

        The latter is at most the loss of the noise."""
        change, copies = self.mechanism.change(sensitivity, cells)
        return self._loss(change, copies, self.mechanism.privacy_loss(change, 1))

    def contribution_loss(self, most: float, cells: int = 1) -> PrivacyLoss:
        return self._loss(most, cells, self.mechanism.contribution_loss(most, 1))

    def _loss(self, change: float, copies: int, inside: PrivacyLoss) -> PrivacyLoss:
        if not change or not copies:
            return compose_losses([])
        shown = float(self.published(int(np.ceil(change))))
        alone = LatticeLoss.from_probs([1.0 - shown, shown], [1.0, 0.0])
        law = inside.law
        if isinstance(law, LatticeLoss) and not law.rounded:
            pairs = np.full((2, 2, law.losses.size + 2), -np.inf)
            for pair, one in zip(pairs, (law, alone), strict=True):
                pair[:, : one.losses.size] = one.log_p, one.log_q
                with np.errstate(divide="ignore"):
                    pair[[0, 1], [-2, -1]] = np.log([one.infinite_p, one.infinite_q])
            return repeat_loss(replace(dominating_pairs(pairs), bounded=law.bounded), copies)
        ends = [side.tail_end for side in inside.directions]
        nodes = np.union1d(np.linspace(-ends[-1], ends[0], _NODES), [0.0, *alone.losses])
        return repeat_loss(lattice_above(_Worse(alone, inside.coarse), nodes), copies)  # type: ignore[arg-type]


@log_between.register
def _(mechanism: Selected, first: Floats, last: Floats, value: Floats) -> Floats:
    """The log mass of `Suppressed`; with count 0 the key is absent with certainty."""
    absent = mechanism.below - 1.0
    first, last, value = np.broadcast_arrays(first, last, value)
    inside = log_between(mechanism.mechanism, mechanism.first(first), mechanism.last(last), value)
    return np.where(value == 0.0, np.where((first <= absent) & (absent <= last), 0.0, -np.inf), inside)


@dataclass(frozen=True)
class _Worse:
    """The pointwise maximum of two privacy profiles."""

    one: PrivacyLoss
    other: PrivacyLoss

    def delta(self, epsilon: ArrayLike) -> Floats:
        return np.maximum(as_array(self.one.delta(epsilon)), as_array(self.other.delta(epsilon)))

    @property
    def swapped(self) -> _Worse:
        return _Worse(self.one.swapped, self.other.swapped)


def selected(mechanism: Mechanism, threshold: int, strict: bool = False) -> Selected:
    """A key that is published if its noisy count is at least a threshold, or above it; see `Selected`.

    Parameters
    ----------
    mechanism : additive noise of the count
    threshold : smallest published noisy count, a whole number
    strict : whether the noisy count must be above the threshold; no difference for continuous noise

    >>> from adversary.privacy.mechanisms import Geometric
    >>> selected(Geometric(1.0), 5, strict=True).below
    6
    """
    check_mechanism(mechanism)
    return Selected(mechanism, int(check_whole("threshold", threshold)) + (strict and not mechanism.is_continuous))


def threshold_delta(mechanism: Mechanism, below: int, count: int = 1, keys: int = 1) -> float:
    """The delta of a threshold: probability that at least one of the keys that only one unit has is published.

    Parameters
    ----------
    mechanism, below : as for `Selected`
    count : the unit's own count of each of its keys, >= 1
    keys : number of keys that only this unit has, with independent noise

    Returns
    -------
    Probability in [0, 1]

    >>> from adversary.privacy.mechanisms import Laplace
    >>> round(threshold_delta(Laplace(1.0), 11), 9), round(float(np.exp(-10) / 2), 9)
    (2.27e-05, 2.27e-05)
    """
    shown = float(Selected(mechanism, below).published(int(check_whole("count", count, minimum=1))))
    return float(-np.expm1(check_whole("keys", keys, minimum=1) * np.log1p(-shown))) if shown < 1.0 else 1.0


def threshold_for(mechanism: Mechanism, delta: float, count: int = 1, keys: int = 1) -> int:
    """The smallest threshold with `threshold_delta` at most delta.

    Parameters
    ----------
    mechanism, count, keys : as for `threshold_delta`
    delta : probability in (0, 1)

    Returns
    -------
    Smallest published noisy count, a whole number

    >>> from adversary.privacy.mechanisms import Laplace
    >>> threshold_for(Laplace(1.0), 1e-5)
    12
    """
    target = float(check_probability("delta", delta))
    if not 0.0 < target < 1.0:
        raise ValueError(f"delta must be above 0 and below 1, got {target}")
    low, high = count, count + 1
    while threshold_delta(mechanism, high, count, keys) > target:
        low, high = high, count + 2 * (high - count)
    low = low if threshold_delta(mechanism, low, count, keys) > target else low - int(2 + mechanism.tail_radius())
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if threshold_delta(mechanism, middle, count, keys) > target else (low, middle)
    return high
