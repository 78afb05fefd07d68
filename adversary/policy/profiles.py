"""Risk profiles: how far an agency will let any reader's belief rise, as a function of the reader's prior.

A profile maps (inclusion, value) = (p, q) to the largest tolerated ratio r*(p, q) of posterior to prior, in [1, inf];
infinite means that these readers do not matter. It says nothing of epsilon; `recommend_epsilon` does. Leaves say
`tolerated`, `domain`, and, where there is one, the reader who binds in closed form (Kazan's thesis, Theorems 10 to 12
and Table 3.4, all of them cases of one rule on a rectangle of priors).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adversary._numeric import Floats, as_array, check_number, one_number
from adversary.policy.risks import check_prior, epsilon_of_room
from adversary.privacy.auxiliary import over_labels

Range = tuple[float, float]
EVERYBODY: tuple[Range, Range] = ((0.0, 1.0), (0.0, 1.0))
TINY = 5e-324
"""The smallest prior there is."""


class Binding(NamedTuple):
    """The reader who needs the smallest epsilon: a limit, if a prior is 0."""

    epsilon: float
    inclusion: float
    value: float

    @property
    def attained(self) -> bool:
        """Whether there is such a reader, or only ever closer ones."""
        return self.inclusion > 0.0 and self.value > 0.0


class RiskProfile(ABC):
    """Tolerated ratio r*(inclusion, value). To write one: `tolerated`, `domain`, `decreasing`, `words`."""

    __slots__ = ()

    @staticmethod
    def constant(ratio: float) -> RiskProfile:
        """The same ratio for every reader."""
        return RatioOrAbsolute(ratio)

    @staticmethod
    def ratio_or_absolute(
        ratio: float, absolute: float, inclusion: float | Range | None = None, value: float | Range | None = None
    ) -> RiskProfile:
        """max(ratio, absolute / (p q)): a posterior up to `absolute` is harmless, beyond it the ratio counts.

        Parameters
        ----------
        ratio : >= 1
        absolute : in [0, 1]; 0 leaves the ratio alone, 1 asks for nothing
        inclusion, value : the readers it is about, a prior or a range (low, high); all, where None
        """
        everybody: Any = EVERYBODY
        return RatioOrAbsolute(
            ratio, absolute, everybody[0] if inclusion is None else inclusion, everybody[1] if value is None else value
        )

    @staticmethod
    def box(ratio: float, inclusion: Range = (0.0, 1.0), value: Range = (0.0, 1.0)) -> RiskProfile:
        """The same ratio for readers with priors in a rectangle."""
        return RatioOrAbsolute(ratio, 0.0, inclusion, value)

    @staticmethod
    def difference(b: float) -> RiskProfile:
        """Posterior minus prior at most b, in (0, 1), for every reader: 1 + b / (p q)."""
        return Difference(b)

    @staticmethod
    def point(ratio: float, inclusion: float, value: float) -> RiskProfile:
        """A ratio for readers with exactly these priors."""
        return RatioOrAbsolute(ratio, 0.0, inclusion, value)

    @staticmethod
    def custom(function: Callable[[Any, Any], Any], *, decreasing: bool = False) -> RiskProfile:
        """Any function of arrays (inclusion, value) with values in [1, inf].

        Parameters
        ----------
        function : called with arrays that broadcast; one that takes single numbers only is called for each, slowly
        decreasing : a promise that the function never rises in either prior, with which the optimum is certified; a
            function seen to break it is refused
        """
        return Custom(function, decreasing)

    @abstractmethod
    def tolerated(self, p: Floats, q: Floats) -> Any:
        """r* at arrays of priors inside the domain."""

    @property
    @abstractmethod
    def domain(self) -> tuple[Range, Range]:
        """Ranges of inclusion and value outside of which r* is infinite."""

    @property
    @abstractmethod
    def decreasing(self) -> bool:
        """Whether r* rises in neither prior within the domain."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The profile as a clause: "no ratio above 3"."""

    @property
    def parts(self) -> tuple[RiskProfile, ...]:
        """Profiles this one is the least of."""
        return (self,)

    @property
    def about_values(self) -> bool:
        """Whether what a record says is in question, or only whether it is there (value 1)."""
        return self.domain[1][0] < 1.0

    @property
    def of_product(self) -> bool:
        """Whether r* depends on p q alone within the domain."""
        return False

    def closed(self, statistic: str) -> Binding | None:
        """The reader who binds, where there is a formula."""
        del statistic
        return None

    def __call__(self, inclusion: ArrayLike, value: ArrayLike) -> Any:
        """Largest tolerated ratio of posterior to prior; arrays broadcast, labels are kept."""
        check_prior("inclusion", inclusion)
        check_prior("value", value)
        return over_labels(self.ratios, inclusion, value)

    def ratios(self, p: Floats, q: Floats) -> Floats:
        """The same, of arrays known to be priors."""
        (p0, p1), (q0, q1) = self.domain
        p, q = np.broadcast_arrays(p, q)
        inside = (p >= p0) & (p <= p1) & (q >= q0) & (q <= q1)
        if inside.all():
            return np.array(np.broadcast_to(self.tolerated(p, q), p.shape), dtype=np.float64)
        found = np.full(p.shape, np.inf)
        found[inside] = self.tolerated(p[inside], q[inside])
        return found

    def minimum(self, *others: RiskProfile) -> RiskProfile:
        """The stricter of several profiles at every prior."""
        for other in others:
            if not isinstance(other, RiskProfile):
                raise TypeError(f"a profile's minimum must be of other profiles, got {other!r}")
        return Least(tuple(part for one in (self, *others) for part in one.parts))

    def within(self, inclusion: Range = (0.0, 1.0), value: Range = (0.0, 1.0)) -> RiskProfile:
        """The same tolerance for readers with priors in a rectangle; the others do not matter."""
        return Within(self, _range("inclusion", inclusion), _range("value", value))


@dataclass(frozen=True)
class RatioOrAbsolute(RiskProfile):
    """max(ratio, absolute / (p q)) on a rectangle of priors."""

    ratio: float
    absolute: float = 0.0
    inclusion: Any = (0.0, 1.0)
    value: Any = (0.0, 1.0)

    def __post_init__(self) -> None:
        ratio, absolute = _one("ratio", self.ratio), _one("absolute", self.absolute)
        if not ratio >= 1.0:
            raise ValueError(f"ratio must be at least 1, got {ratio:g}: less than no information cannot be released")
        if not 0.0 <= absolute <= 1.0:
            raise ValueError(f"absolute must be a probability in [0, 1], got {absolute:g}")
        object.__setattr__(self, "ratio", ratio)
        object.__setattr__(self, "absolute", absolute)
        object.__setattr__(self, "inclusion", _range("inclusion", self.inclusion))
        object.__setattr__(self, "value", _range("value", self.value))

    def tolerated(self, p: Floats, q: Floats) -> Any:
        with np.errstate(over="ignore", divide="ignore"):
            return np.maximum(self.absolute / (p * q) if self.absolute else 0.0, self.ratio)

    @property
    def domain(self) -> tuple[Range, Range]:
        return self.inclusion, self.value

    @property
    def decreasing(self) -> bool:
        return True

    @property
    def of_product(self) -> bool:
        return True

    @property
    def words(self) -> str:
        ratio, absolute = f"no ratio above {self.ratio:.6g}", f"{100.0 * self.absolute:.6g} %"
        if not self.absolute:
            return ratio + _readers(self.domain)
        allowance = f" unless the posterior stays at or below {absolute}"
        return f"{'no rise' if self.ratio == 1.0 else ratio}{allowance}{_readers(self.domain)}"

    def closed(self, statistic: str) -> Binding:
        """Where the two tolerances meet, p q = a / r, as far up in p as the rectangle goes; else a corner.

        epsilon falls in both priors where the absolute tolerance rules (Lemma 8) and falls in p along the curve; where
        the ratio rules it rises in q, and falls in p below q = 1 / (r + 1) only (Lemma 9).
        """
        if statistic == "count":
            return self._of_product()
        (p0, p1), (q0, q1) = self.domain
        r, a = self.ratio, self.absolute
        switch = a / r
        if 0.0 < p1 * q1 <= switch:
            return _binding(p1, q1, p1 * q1 * (1.0 - a) / a, max(a / (p1 * q1), r))
        if p1 * q0 < switch:
            return _binding(p1, min(switch / p1, q1), (1.0 - a) / r, r)
        if q0 < 1.0 / (r + 1.0):
            return _binding(p1, q0, 1.0 / r - p1 * q0, r)
        if p0 * q0 < switch:
            return _binding(min(switch / q0, p1), q0, (1.0 - a) / r, r)
        return _binding(p0, q0, 1.0 / r - p0 * q0, r)

    def _of_product(self) -> Binding:
        """One count tells of p q alone: the question of inclusion, at value 1, with that prior."""
        (p0, p1), (q0, q1) = self.domain
        product = RatioOrAbsolute(self.ratio, self.absolute, (p0 * q0, max(p1 * q1, TINY)), (1.0, 1.0)).closed("any")
        return Binding(product.epsilon, *factors(product.inclusion, self.domain))


@dataclass(frozen=True)
class Difference(RiskProfile):
    """1 + b / (p q): posterior minus prior at most b."""

    b: float

    def __post_init__(self) -> None:
        b = _one("b", self.b)
        if not 0.0 < b < 1.0:
            raise ValueError(f"b must be a difference of probabilities in (0, 1), got {b:g}")
        object.__setattr__(self, "b", b)

    def tolerated(self, p: Floats, q: Floats) -> Any:
        with np.errstate(over="ignore", divide="ignore"):
            return 1.0 + self.b / (p * q)

    @property
    def domain(self) -> tuple[Range, Range]:
        return EVERYBODY

    @property
    def decreasing(self) -> bool:
        return True

    @property
    def of_product(self) -> bool:
        return True

    @property
    def words(self) -> str:
        return f"no rise of more than {100.0 * self.b:.6g} percentage points"

    def closed(self, statistic: str) -> Binding:
        """log((1 + b) / (1 - b)) at p = 1, q = (1 - b) / 2 (Equation 3.31); twice that for a single count."""
        once = float(np.log1p(self.b) - np.log1p(-self.b))
        return Binding(once if statistic == "any" else 2.0 * once, 1.0, 0.5 * (1.0 - self.b))


@dataclass(frozen=True)
class Custom(RiskProfile):
    """A function's values, checked."""

    function: Callable[[Any, Any], Any]
    falls: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"a custom profile must be a function of (inclusion, value), got {self.function!r}")

    def tolerated(self, p: Floats, q: Floats) -> Any:
        p, q = np.broadcast_arrays(p, q)
        with np.errstate(all="ignore"):
            found = self._values(np.array(p), np.array(q))
        if found.shape not in ((), p.shape):
            raise TypeError(f"a custom profile must return one ratio per prior, shape {p.shape}, got {found.shape}")
        found = np.broadcast_to(found, p.shape)
        if (bad := np.isnan(found)).any():
            at = f"({p[bad].ravel()[0]:.6g}, {q[bad].ravel()[0]:.6g})"
            raise ValueError(f"a custom profile must return a ratio in [1, inf] everywhere, got nan at (p, q) = {at}")
        return found

    def _values(self, p: Floats, q: Floats) -> Floats:
        try:
            found = self.function(p, q)
        except (TypeError, ValueError):  # it takes single numbers: `if p > 0.5`, `math.log(p)`
            found = np.array([self.function(float(a), float(b)) for a, b in zip(p.ravel(), q.ravel(), strict=True)])
            found = found.reshape(p.shape) if found.ndim == 1 else found
        try:
            return as_array(found)
        except (TypeError, ValueError):
            raise TypeError(f"a custom profile must return numbers, got {found!r}") from None

    @property
    def domain(self) -> tuple[Range, Range]:
        return EVERYBODY

    @property
    def decreasing(self) -> bool:
        return self.falls

    @property
    def words(self) -> str:
        name = getattr(self.function, "__name__", "<")
        return f"no ratio above what {'the given function' if name.startswith('<') else name} says"


@dataclass(frozen=True)
class Within(RiskProfile):
    """Another profile on a rectangle of priors."""

    profile: RiskProfile
    inclusion: Range
    value: Range

    def tolerated(self, p: Floats, q: Floats) -> Any:
        return self.profile.tolerated(p, q)

    @property
    def domain(self) -> tuple[Range, Range]:
        (p0, p1), (q0, q1) = (
            (max(own[0], other[0]), min(own[1], other[1]))
            for own, other in zip((self.inclusion, self.value), self.profile.domain, strict=True)
        )
        return (p0, p1), (q0, q1)

    @property
    def decreasing(self) -> bool:
        return self.profile.decreasing

    @property
    def of_product(self) -> bool:
        return self.profile.of_product

    @property
    def words(self) -> str:
        return self.profile.words + _readers((self.inclusion, self.value))

    @property
    def parts(self) -> tuple[RiskProfile, ...]:
        every = self.profile.parts
        return (self,) if len(every) == 1 else tuple(Within(part, self.inclusion, self.value) for part in every)

    def closed(self, statistic: str) -> Binding | None:
        (p0, p1), (q0, q1) = self.domain
        if p0 > p1 or q0 > q1:
            return Binding(np.inf, np.nan, np.nan)
        if isinstance(self.profile, RatioOrAbsolute):
            return RatioOrAbsolute(self.profile.ratio, self.profile.absolute, *self.domain).closed(statistic)
        found = self.profile.closed(statistic)
        there = found is not None and p0 <= found.inclusion <= p1 and q0 <= found.value <= q1
        return found if there else None


@dataclass(frozen=True)
class Least(RiskProfile):
    """The least of several profiles."""

    profiles: tuple[RiskProfile, ...]

    def tolerated(self, p: Floats, q: Floats) -> Any:
        return np.min([profile.ratios(p, q) for profile in self.profiles], axis=0)

    @property
    def domain(self) -> tuple[Range, Range]:
        every = np.array([profile.domain for profile in self.profiles])
        low, high = every[..., 0].min(0), every[..., 1].max(0)
        return (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))

    @property
    def decreasing(self) -> bool:
        return False

    @property
    def words(self) -> str:
        return ", and ".join(profile.words for profile in self.profiles)

    @property
    def parts(self) -> tuple[RiskProfile, ...]:
        return self.profiles

    @property
    def about_values(self) -> bool:
        return any(profile.about_values for profile in self.profiles)


def _binding(p: float, q: float, room: float, ratio: float) -> Binding:
    """The reader (p, q) and their epsilon, room being 1 / ratio - p q; nobody where it is infinite."""
    epsilon = float(epsilon_of_room(np.asarray(p), np.asarray(q), np.asarray(room)))
    if epsilon == np.inf:
        return Binding(np.inf, np.nan, np.nan)
    return Binding(max(epsilon, 0.0) if ratio > 1.0 else 0.0, p, q)


def factors(product: float, domain: tuple[Range, Range]) -> Range:
    """Priors (p, q) in a rectangle with this product p q, the largest p of them; NaN of NaN."""
    (p0, p1), (q0, q1) = domain
    q = min(max(product / p1, q0), q1) if product == product else product
    return (min(max(product / q, p0), p1) if q > 0.0 else p1 if q == q else q), q


def _readers(domain: tuple[Range, Range]) -> str:
    """Whom a profile is about, after a comma; nothing if it is everybody."""
    named = [
        f"{name} prior {low:.6g}" if low == high else f"{name} prior from {low:.6g} to {high:.6g}"
        for name, (low, high) in zip(("inclusion", "value"), domain, strict=True)
        if (low, high) != (0.0, 1.0)
    ]
    return f", for readers with {' and '.join(named)}" if named else ""


def _one(name: str, x: Any) -> float:
    """One number, not NaN."""
    return float(check_number(name, one_number(name, x)))


def _range(name: str, x: Any) -> Range:
    """(low, high) with 0 <= low <= high and 0 < high <= 1; one prior is a range of its own."""
    if np.ndim(x) == 0:
        return (float(check_prior(name, one_number(name, x))),) * 2
    ends = tuple(x)
    if len(ends) != 2:
        raise ValueError(f"{name} must be a prior or a range (low, high), got {x!r}")
    low, high = (_one(f"an end of {name}", end) for end in ends)
    if not 0.0 <= low <= high <= 1.0 or high == 0.0:
        raise ValueError(f"{name} must be a range 0 <= low <= high <= 1 with high above 0, got ({low:g}, {high:g})")
    return low, high
