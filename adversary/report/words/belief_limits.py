"""Limits on the change of any adversary's belief: bounds on the privacy loss, each with its failure probability.

A limit is certain if the guarantee implies a certain one; otherwise it holds except with a failure probability that
must be chosen. Several releases together have a limit of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from adversary._core import DEFAULT_FAILURE, as_read, check_whole
from adversary.budget import first_beyond
from adversary.privacy import Guarantee
from adversary.privacy.definitions import NoPrivacy, PureDP, worst_prior

# Largest number of releases up to which a threshold is searched: for definitions that compose in closed form, and for
# losses, whose composition takes much longer.
LARGEST = 1_000_000
LARGEST_OF_LOSSES = 1_000

# Failure probabilities to state instead of the default, if nearly the same limit holds.
SMALLER = (0.01, 1e-3, 1e-4, 1e-5, 1e-6)

# Limits are nearly the same if the loss of one is at most so many times the other's: less than three digits show.
NEARLY = 1.01

# Failure probabilities to state if no limit holds at the given one: the first of them at which one does.
LARGER = (0.05, 0.1, 0.2, 0.5, 0.9, 0.99, 0.999999)

# A limit counts as tighter than another if its loss is below this share of the other's.
CLEARLY = 0.99


@dataclass(frozen=True)
class BeliefLimit:
    """Limit on an adversary's beliefs: log odds move by at most `loss` nats, except with probability `failure`.

    It holds in both directions and under both truths, whether the record is in the data or not. With an infinite loss
    nothing is guaranteed.
    """

    loss: float
    failure: float

    @property
    def exists(self) -> bool:
        """True if the loss is finite, so that something is guaranteed."""
        return bool(np.isfinite(self.loss))

    @property
    def certain(self) -> bool:
        """True if the failure probability is 0."""
        return self.failure == 0.0

    @property
    def guarantee(self) -> Guarantee:
        """Pure DP with the loss as epsilon, whose bounds are those of the limit; `NoPrivacy` without one."""
        return PureDP(self.loss) if self.exists else NoPrivacy()

    def posterior(self, prior: Any) -> tuple[Any, Any]:
        """(lower, upper) bound on the posterior from a prior."""
        return self.guarantee.posterior_bounds(prior)

    def posterior_as_read(self, prior: float) -> tuple[float, float]:
        """(lower, upper) bound on the posterior that holds for a prior and for its rounded form in `in_100`."""
        both = self.posterior(np.array([prior, as_read(prior, self.finer)]))
        return float(both[0].min()), float(both[1].max())

    def ratio(self, prior: Any = None) -> Any:
        """Largest posterior over prior; at every prior if none is given."""
        return self.guarantee.ratio_bounds(prior)[1]

    def ratio_as_read(self, prior: float) -> float:
        """Largest posterior over prior, for a prior and for its rounded form."""
        return float(self.ratio(np.array([prior, as_read(prior, self.finer)])).max())

    @property
    def difference(self) -> float:
        """Largest change of a belief, up or down, at every prior."""
        return float(self.guarantee.difference_bounds()[1])

    @property
    def finer(self) -> int:
        """Additional digits with which a posterior differs visibly from its prior under so small a loss."""
        return int(np.clip(np.ceil(-1.0 - np.log10(self.loss)), 0, 9)) if self.loss > 0.0 else 0

    @property
    def worst_prior(self) -> float:
        """Prior of the largest rise; the largest fall has its mirror image."""
        return worst_prior(self.loss)[0]


def limits_of(guarantee: Guarantee, failure: float) -> tuple[BeliefLimit, ...]:
    """Certain limit of a guarantee, and that at `failure` if it is clearly tighter; a single infinite one without any.

    >>> limits_of(PureDP(1.0), 0.05)
    (BeliefLimit(loss=1.0, failure=0.0),)
    """
    return _tightest(float(guarantee.loss_bound(0.0)), lambda: float(guarantee.loss_bound(failure)), failure)


def usual_limit(guarantee: Guarantee) -> BeliefLimit | None:
    """Limit of a guarantee at the first failure probability of `LARGER` at which there is one; None without any."""
    limits = (limits_of(guarantee, failure)[0] for failure in LARGER)
    return next((limit for limit in limits if limit.exists), None)


def usual_failure(guarantee: Guarantee, releases: int = 1) -> float:
    """Failure probability to state: the default, or the smallest of `SMALLER` whose limit is at most 1 % above its.

    What a small delta adds to epsilon, for instance, is negligible down to failures not far above it.
    """
    usual, chosen = limits_after(guarantee, releases, DEFAULT_FAILURE)[-1], DEFAULT_FAILURE
    if usual.certain:
        return DEFAULT_FAILURE
    most = NEARLY * usual.loss
    for failure in SMALLER:
        if not limits_after(guarantee, releases, failure)[-1].loss <= most < np.inf:
            break
        chosen = failure
    return chosen


def limits_after(guarantee: Guarantee, releases: int, failure: float) -> tuple[BeliefLimit, ...]:
    """Limits of several releases together, as `limits_of` one: each has independent noise and this guarantee.

    Certain losses add up; at a failure above 0 they compose as `releases * guarantee` does. Probabilistic DP
    counts as the approximate DP that it implies, which composes.

    >>> limits_after(PureDP(0.5), 3, 0.0)
    (BeliefLimit(loss=1.5, failure=0.0),)
    """
    n = int(check_whole("releases", releases, minimum=1))
    once = float(guarantee.loss_bound(0.0))
    certain = n * once
    one = guarantee.after_postprocessing if n > 1 else guarantee

    def at_failure() -> float:
        # losses of hundreds of nats overflow to infinity, which is a valid answer
        with np.errstate(all="ignore"):
            return min(certain, float((n * one).loss_bound(failure)))

    return _tightest(certain, at_failure, failure)


def _tightest(certain: float, at_failure: Callable[[], float], failure: float) -> tuple[BeliefLimit, ...]:
    """Certain limit with this loss, if finite, and the one at `failure` unless it is hardly tighter."""
    sure = [BeliefLimit(certain, 0.0)] if np.isfinite(certain) else []
    if failure == 0.0:
        return tuple(sure) or (BeliefLimit(np.inf, 0.0),)
    other = BeliefLimit(at_failure(), failure)
    if sure and not other.loss < CLEARLY * certain:
        return tuple(sure)
    return *sure, other


def limits_together(guarantee: Guarantee, releases: int, failure: float) -> list[tuple[float, tuple[BeliefLimit, ...]]]:
    """Pairs (failure probability, limits) of several releases: one pair if there is a finite limit at `failure`.

    Otherwise also those at the first larger probability with a finite limit; an empty list if there is none.
    """
    limits = limits_after(guarantee, releases, failure)
    if limits[0].exists:
        return [(failure, limits)]
    for larger in LARGER:
        if larger > failure and (larger_limits := limits_after(guarantee, releases, larger))[0].exists:
            return [(failure, limits), (larger, larger_limits)]
    return []


def releases_within(guarantee: Guarantee, prior: float, threshold: float, failure: float) -> tuple[int, bool]:
    """(largest number of releases after which no posterior from `prior` exceeds `threshold`, True if it is final).

    It is not final if the search ended, at `LARGEST` releases, or at `LARGEST_OF_LOSSES` if composition has no closed
    form. The bound is the tightest at this failure probability, and grows with every release.

    >>> releases_within(PureDP(0.5), 0.1, 0.5, 0.0)
    (4, True)
    """
    most = LARGEST if guarantee.multiple(1) is not None else LARGEST_OF_LOSSES
    first = first_beyond(lambda n: bool(limits_after(guarantee, n, failure)[-1].posterior(prior)[1] <= threshold), most)
    return (most, False) if first is None else (first - 1, True)
