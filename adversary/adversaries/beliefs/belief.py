"""Beliefs of an adversary about other people's counts.

A belief is a distribution of a level's total given the count inside the target's unit one level below (at the lowest
level: given the target's contribution). The kinds give different answers and are never converted into one another: an
improper uniform has one constant for every count inside, a bounded one is normalised for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    as_array,
    check_whole,
    has_labels,
    instance_hint,
    one_number,
    refuse_masked,
    scalar_or_array,
    values_by_count,
)
from adversary.adversaries.beliefs.elicited import (
    PrelizLaw,
    as_law,
    describe_law,
    has_own_tail,
    is_law,
    law_edges,
    looked_up,
    mass_within_reach,
)

# Limits for listing a distribution: log mass (nats), distance from the bulk (counts), number of counts.
FAINT_NATS, BESIDE, MOST_LISTED = 700.0, 4096, 1 << 16


class Belief(ABC):
    """Distribution of a level's total given the count inside.

    A subclass defines `log_prob`, `support` (upper end None if there is none), `window` (the range of the mass, None if
    improper), `proper`, `others_gap` (number of other records that differ between hypotheses about the count inside),
    and `describe`. The properties below declare special cases, for which the engines have faster formulas.
    """

    __slots__ = ()

    kind: ClassVar[str] = ""
    """Name of the distribution in a file, `{ law = "...", ... }`; the other keys are the fields. Empty without one."""

    @abstractmethod
    def log_prob(self, total: ArrayLike, inside: ArrayLike) -> Any:
        """Log probability of the total given the count inside, nats, up to a constant if improper; broadcasts."""

    @abstractmethod
    def support(self, inside: int) -> tuple[int, int | None]:
        """Smallest and largest possible total given the count inside; None for no largest."""

    @abstractmethod
    def window(self, inside: int) -> tuple[int, int] | None:
        """First and last total of a range with all but 2e-18 of the mass; None if improper."""

    @property
    @abstractmethod
    def proper(self) -> bool:
        """True where the probabilities sum to one."""

    @abstractmethod
    def others_gap(self, gap: int) -> int:
        """Coupling distance between the others given two counts inside that differ by `gap`.

        The number of other records that differ too; 0 if the belief about others does not depend on it."""

    @abstractmethod
    def describe(self, level: str, inside: str) -> str:
        """A clause that states the belief about this level's total; `inside` names the unit below, or the target."""

    @property
    def independent(self) -> bool:
        """True if the distribution of total - inside does not depend on the count inside; False is always safe."""
        return False

    @property
    def flat(self) -> bool:
        """True if every total from the count inside upwards is equally likely, without an upper end."""
        return False

    @property
    def known_count(self) -> int | None:
        """The count outside the unit if the adversary is certain of it; None otherwise."""
        return None

    @property
    def known_total(self) -> int | None:
        """The total if the adversary is certain of it, rightly or wrongly; None otherwise."""
        return None

    @property
    def each(self) -> Any:
        """The belief itself if it is about every sibling of the unit, like `Each`; None if it is about their total."""
        return None

    @property
    def ties(self) -> bool:
        """True if the count outside the unit depends on the count inside under this belief."""
        return self.others_gap(1) > 0


@dataclass(frozen=True)
class Uniform(Belief):
    """Uniform belief: every total from the count inside upwards is equally likely.

    Without `upper` it is improper: weight 1 on {inside, inside + 1, ...}, for every count inside. With `upper`, the
    largest possible total, it has probability 1 / (upper - inside + 1) on {inside, ..., upper}."""

    upper: int | None = None

    def __post_init__(self) -> None:
        if self.upper is not None:
            object.__setattr__(self, "upper", int(check_whole("upper", one_number("upper", self.upper), minimum=0)))

    def log_prob(self, total: ArrayLike, inside: ArrayLike) -> Any:
        t, k = as_array(total), as_array(inside)
        if self.upper is None:
            return scalar_or_array(np.where(t >= k, 0.0, -np.inf))
        size = self.upper - k + 1.0
        return scalar_or_array(np.where((t >= k) & (t <= self.upper), -np.log(np.maximum(size, 1.0)), -np.inf))

    def support(self, inside: int) -> tuple[int, int | None]:
        return inside, self.upper

    def window(self, inside: int) -> tuple[int, int] | None:
        return None if self.upper is None else (inside, self.upper)

    @property
    def proper(self) -> bool:
        return self.upper is not None

    def others_gap(self, gap: int) -> int:
        return 0 if self.upper is None else gap

    @property
    def independent(self) -> bool:
        return self.flat

    @property
    def flat(self) -> bool:
        return self.upper is None

    def describe(self, level: str, inside: str) -> str:
        end = "upwards" if self.upper is None else f"to {self.upper}"
        return f"all totals of the {level} from the {inside}'s count {end} are equally likely"


@dataclass(frozen=True)
class Point(Belief):
    """Certainty about the total, rightly or wrongly: the only belief that a truth may contradict."""

    total: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", int(check_whole("total", one_number("total", self.total), minimum=0)))

    def log_prob(self, total: ArrayLike, inside: ArrayLike) -> Any:
        t, k = as_array(total), as_array(inside)
        return scalar_or_array(np.where((t == self.total) & (k <= self.total), 0.0, -np.inf))

    def support(self, inside: int) -> tuple[int, int | None]:
        return self.total, self.total

    def window(self, inside: int) -> tuple[int, int] | None:
        return self.total, self.total

    proper = True

    def others_gap(self, gap: int) -> int:
        return gap

    @property
    def known_total(self) -> int:
        return self.total

    def describe(self, level: str, inside: str) -> str:
        return f"the {level}'s total is {self.total}, for certain"


class IndependentBelief(Belief):
    """A belief about the count outside the target's unit that does not depend on the count inside.

    A subclass defines `log_pmf` of that count, `outside` (its support), `bulk` (range of the mass) and `describe`.
    """

    __slots__ = ()

    @abstractmethod
    def log_pmf(self, count: Floats) -> Floats:
        """Log probability of each count outside, up to a constant if improper; minus infinity where impossible."""

    @abstractmethod
    def outside(self) -> tuple[int, int | None]:
        """Smallest and largest possible count outside; None for no largest."""

    @abstractmethod
    def bulk(self) -> tuple[int, int] | None:
        """First and last count outside of a range with all but 2e-18 of the mass; None if improper."""

    def log_prob(self, total: ArrayLike, inside: ArrayLike) -> Any:
        count = as_array(total) - as_array(inside)
        low, high = (float(count.min()), float(count.max())) if count.size else (0.0, 0.0)
        if not high - low < count.size / 2:
            return scalar_or_array(self.log_pmf(count))
        # The pmf is evaluated once per distinct count, not once per state: there are far more states.
        table = self.log_pmf(low + np.arange(high - low + 1.0))
        return scalar_or_array(table[(count - low).astype(np.int64)])

    def support(self, inside: int) -> tuple[int, int | None]:
        low, high = self.outside()
        return inside + low, None if high is None else inside + high

    def window(self, inside: int) -> tuple[int, int] | None:
        bulk = self.bulk()
        return None if bulk is None else (inside + bulk[0], inside + bulk[1])

    @property
    def proper(self) -> bool:
        return self.bulk() is not None

    independent = True

    def others_gap(self, gap: int) -> int:
        del gap
        return 0


@dataclass(frozen=True)
class Known(IndependentBelief):
    """Certainty about everybody outside the unit: total = inside + count, exactly."""

    count: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", int(check_whole("known", one_number("known", self.count), minimum=0)))

    def log_pmf(self, count: Floats) -> Floats:
        return np.where(count == self.count, 0.0, -np.inf)

    def outside(self) -> tuple[int, int]:
        return self.count, self.count

    def bulk(self) -> tuple[int, int]:
        return self.count, self.count

    @property
    def known_count(self) -> int:
        return self.count

    def describe(self, level: str, inside: str) -> str:
        return f"everybody of the {level} outside the {inside}: {self.count} in the cell"


@dataclass(frozen=True, eq=False, repr=False)
class Others(IndependentBelief):
    """A distribution of the count outside the target's unit, independent of the count inside.

    Parameters
    ----------
    law : a pmf over 0, 1, 2, ... as an array, or as a Series or DataArray whose labels are the counts; or any frozen
        discrete `scipy.stats` or PreliZ distribution with support in {0, 1, ...}

    >>> Others([0.5, 0.5]).log_prob(4, 3) == Others([0.5, 0.5]).log_prob(3, 3)
    True
    """

    law: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "law", as_law(self.law))
        if is_law(self.law):
            low = self.law.support()[0]
            if not low >= 0 or low != int(low):
                raise ValueError(f"a belief about a count must have support in 0, 1, 2, ...; this law starts at {low}")
            if not abs(mass_within_reach(self.law) - 1.0) < 1e-6:
                raise ValueError(f"a belief must have mass one, got {self.law!r}")
            return
        refuse_masked("a pmf", self.law)
        listed = values_by_count("a pmf", self.law)
        try:
            pmf = np.array(listed, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"a law must be a pmf or a frozen discrete scipy.stats or PreliZ law, got {self.law!r}"
            ) from None
        if pmf.ndim != 1 or not np.isfinite(pmf).all() or (pmf < 0).any():
            raise ValueError(f"a pmf must be a list of non-negative probabilities over 0, 1, 2, ..., got {self.law!r}")
        if not pmf.sum() > 0:
            raise ValueError(f"a belief needs some mass, got a pmf that sums to {pmf.sum()}")
        if abs(pmf.sum() - 1.0) > 1e-9:
            raise ValueError(f"a pmf must sum to one, got {float(pmf.sum())!r} (50% is 0.5)")
        pmf.setflags(write=False)
        object.__setattr__(self, "law", pmf)

    def log_pmf(self, count: Floats) -> Floats:
        if not isinstance(self.law, np.ndarray):
            return np.where(count >= 0, self.law.logpmf(np.maximum(count, 0.0)), -np.inf)
        with np.errstate(divide="ignore"):
            return looked_up(np.log(self.law), count)

    def outside(self) -> tuple[int, int | None]:
        if isinstance(self.law, np.ndarray):
            positive = np.flatnonzero(self.law)
            return int(positive[0]), int(positive[-1])
        low, high = self.law.support()
        return int(low), int(high) if np.isfinite(high) else None

    def bulk(self) -> tuple[int, int]:
        low, high = self.outside()
        short = high is not None and (isinstance(self.law, np.ndarray) or high - low <= BESIDE)
        return (low, high) if high is not None and short else self._edges

    def followed(self) -> tuple[int, Floats]:
        """First count, and log probabilities from it on, of all but 2e-18 of the mass and `BESIDE` counts either side.

        Without an upper end, up to the last count above exp(-700). ValueError if there are too many counts to list.
        """
        (low, high), (first, last) = self.outside(), self.bulk()
        start, end = max(low, first - BESIDE), last + BESIDE if high is None else min(high, last + BESIDE)
        if end - start >= MOST_LISTED:
            raise ValueError(
                f"the mass of {self!r} lies on more counts than can be listed, {end - start + 1:,}: "
                f"{MOST_LISTED:,} at most"
            )
        log_p = self.log_pmf(np.arange(start, end + 1, dtype=np.float64))
        return start, log_p if high is not None else log_p[: int(np.flatnonzero(log_p > -FAINT_NATS)[-1]) + 1]

    def describe(self, level: str, inside: str) -> str:
        return f"{others_of(level, inside)} follow {describe_law(self.law)}"

    def __repr__(self) -> str:
        if isinstance(self.law, np.ndarray):
            return f"Others({self.law.tolist()})"
        if isinstance(self.law, PrelizLaw):
            return f"Others({self.law!r})"
        # An unfrozen scipy distribution, one without parameters, has no `dist`.
        if not hasattr(self.law, "dist"):
            return f"Others({getattr(self.law, 'name', type(self.law).__name__)})"
        shown = [*map(str, self.law.args), *(f"{key}={value}" for key, value in self.law.kwds.items())]
        return f"Others({self.law.dist.name}({', '.join(shown)}))"

    def __reduce__(self) -> tuple[type[Others], tuple[Any]]:
        return Others, (self.law.distribution if isinstance(self.law, PrelizLaw) else self.law,)

    @cached_property
    def _edges(self) -> tuple[int, int]:
        """Counts with at most LAW_MASS below and above."""
        # scipy's own quantiles fail that far out. A pmf that falls at least as 1 / n^2 has a tail below count * pmf.
        law = self.law
        sf = law.sf if has_own_tail(law) else lambda count: count * law.pmf(count)
        return law_edges(int(law.ppf(0.5)), law.support(), law.cdf, sf)


def others_of(level: str, inside: str) -> str:
    """The people whom a belief is about, in words."""
    return f"the {level}'s people outside the {inside}"


def as_belief(name: str, belief: Any) -> Belief:
    """A Belief unchanged; a distribution or pmf becomes `Others(law)`.

    Parameters
    ----------
    name : the level, for error messages
    belief : a Belief, a frozen discrete scipy.stats or PreliZ distribution, or probabilities of 0, 1, ...

    Returns
    -------
    Belief

    Raises
    ------
    TypeError : anything else

    >>> type(as_belief("block", [0.5, 0.5])).__name__
    'Others'
    """
    if isinstance(belief, Belief):
        return belief
    listed = (isinstance(belief, (Sequence, np.ndarray)) and not isinstance(belief, str)) or has_labels(belief)
    if listed or is_law(as_law(belief)):
        return Others(belief)
    raise TypeError(
        f"belief about {name!r} must be Uniform(), Point(total), Others(law), Each(law) or another Belief, a frozen "
        f"discrete scipy.stats or PreliZ law or a pmf, got {belief!r}{instance_hint(belief)}"
    )
