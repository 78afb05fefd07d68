"""The kinds of tolerance a risk profile may have: a ratio or a posterior, a difference, a function, and combinations.

The binding adversary is known in closed form for the first two (Kazan's thesis, Theorems 10 to 12, Equations 3.27 to
3.31, Table 3.4): one rule on a rectangle of priors, written without 0/0 on the boundaries of its cases.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import PERCENT, Floats, as_array, check_number, one_number, plain, unit_interval_rule
from adversary.budget.risk_bounds import check_prior, epsilon_of_room

Range = tuple[float, float]
EVERYBODY: tuple[Range, Range] = ((0.0, 1.0), (0.0, 1.0))

# The smallest positive double, in place of a prior of 0.
TINY = 5e-324


class Binding(NamedTuple):
    """The binding adversary, who needs the smallest epsilon; a limit if a prior is 0."""

    epsilon: float
    inclusion: float
    value: float

    @property
    def attained(self) -> bool:
        """True if this adversary exists; False if it is only a limit."""
        return self.inclusion > 0.0 and self.value > 0.0


class Tolerance(ABC):
    """Tolerated ratio r*(inclusion, value); a subclass defines `tolerated`, `domain`, `decreasing` and `words`."""

    __slots__ = ()

    kind: ClassVar[str] = ""
    """Name in a profile file, whose other keys are its numeric fields; empty if the file has another form, or none."""

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
        """True if r* is non-increasing in both priors within the domain."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The tolerance as a clause: "no ratio above 3"."""

    @property
    def parts(self) -> tuple[Tolerance, ...]:
        """Tolerances whose minimum this one is."""
        return (self,)

    @property
    def about_values(self) -> bool:
        """True if the domain has value priors below 1: the value of a record matters, not only its inclusion."""
        return self.domain[1][0] < 1.0

    @property
    def of_product(self) -> bool:
        """True if r* depends on p q only, within the domain."""
        return False

    @property
    def is_function(self) -> bool:
        """True if r* is a user's function, known by its values only."""
        return False

    def closed(self, domain: tuple[Range, Range], statistic: str) -> Binding | None:
        """The binding adversary of a domain within its own, if there is a formula; None otherwise."""
        del domain, statistic
        return None

    def ratios(self, p: Floats, q: Floats) -> Floats:
        """r* at arrays of checked priors, infinite outside the domain; ValueError if it is below 1 or NaN."""
        (p0, p1), (q0, q1) = self.domain
        p, q = np.broadcast_arrays(p, q)
        inside = (p >= p0) & (p <= p1) & (q >= q0) & (q <= q1)
        ratios = np.full(p.shape, np.inf)
        ratios[inside] = self.tolerated(p[inside], q[inside])
        if (bad := ~(ratios >= 1.0)).any():
            at = f"({p[bad][0]:.6g}, {q[bad][0]:.6g})"
            raise ValueError(
                f"a risk profile must be a ratio in [1, inf] everywhere, got {ratios[bad][0]:.6g} at (p, q) = {at}: "
                "less than no information cannot be released"
            )
        return ratios


@dataclass(frozen=True)
class RatioOrAbsolute(Tolerance):
    """max(ratio, absolute / (p q))."""

    ratio: float
    absolute: float = 0.0

    def __post_init__(self) -> None:
        ratio, absolute = one_real("ratio", self.ratio), one_real("absolute", self.absolute)
        if not ratio >= 1.0:
            raise ValueError(f"ratio must be at least 1, got {ratio:g}: less than no information cannot be released")
        if not 0.0 <= absolute <= 1.0:
            rule = unit_interval_rule(absolute, "must be a probability in [0, 1]")
            raise ValueError(f"absolute {rule}, got {absolute:g}")
        object.__setattr__(self, "ratio", ratio)
        object.__setattr__(self, "absolute", absolute)

    def tolerated(self, p: Floats, q: Floats) -> Any:
        with np.errstate(over="ignore", divide="ignore"):
            return np.maximum(self.absolute / (p * q) if self.absolute else 0.0, self.ratio)

    domain = EVERYBODY
    decreasing = True
    of_product = True

    @property
    def words(self) -> str:
        ratio = f"no ratio above {plain(self.ratio, True, 6)}"
        absolute = f"{plain(100.0 * self.absolute, True, 6)}{PERCENT}"
        if not self.absolute:
            return ratio
        return f"{'no rise' if self.ratio == 1.0 else ratio} unless the posterior stays at or below {absolute}"

    def closed(self, domain: tuple[Range, Range], statistic: str) -> Binding:
        """The point on the curve p q = a / r, where both tolerances are equal, with the largest p; else a corner.

        Where the absolute tolerance applies, epsilon falls in both priors (Lemma 8), and falls in p along the curve.
        Where the ratio applies, it rises in q, and falls in p below q = 1 / (r + 1) only (Lemma 9).
        """
        (p0, p1), (q0, q1) = domain
        # One count depends on p q only, as for inclusion with prior p q at value 1.
        if statistic == "count":
            product = self.closed(((p0 * q0, max(p1 * q1, TINY)), (1.0, 1.0)), "any")
            return Binding(product.epsilon, *factors(product.inclusion, domain))
        r, a = self.ratio, self.absolute
        switch = a / r
        if 0.0 < p1 * q1 <= switch:
            return _binding(p1, q1, p1 * q1 * (1.0 - a) / a, max(a / (p1 * q1), r))
        if p1 * q0 < switch:
            return _binding(p1, min(switch / p1, q1), (1.0 - a) / r, r)
        if q0 <= 1.0 / (r + 1.0):
            return _binding(p1, q0, 1.0 / r - p1 * q0, r)
        if p0 * q0 < switch:
            return _binding(min(switch / q0, p1), q0, (1.0 - a) / r, r)
        return _binding(p0, q0, 1.0 / r - p0 * q0, r)


@dataclass(frozen=True)
class Difference(Tolerance):
    """1 + b / (p q): posterior minus prior at most b."""

    b: float

    def __post_init__(self) -> None:
        b = one_real("b", self.b)
        if not 0.0 < b < 1.0:
            raise ValueError(f"b must be a difference of probabilities in (0, 1), got {b:g}")
        object.__setattr__(self, "b", b)

    def tolerated(self, p: Floats, q: Floats) -> Any:
        with np.errstate(over="ignore", divide="ignore"):
            return 1.0 + self.b / (p * q)

    domain = EVERYBODY
    decreasing = True
    of_product = True

    @property
    def words(self) -> str:
        return f"no rise of more than {plain(100.0 * self.b, True, 6)} percentage points"

    def closed(self, domain: tuple[Range, Range], statistic: str) -> Binding | None:
        """log((1 + b) / (1 - b)) at p = 1, q = (1 - b) / 2 (Equation 3.31), if in the domain; twice for one count."""
        once, q = float(np.log1p(self.b) - np.log1p(-self.b)), 0.5 * (1.0 - self.b)
        if domain[0][1] < 1.0 or not domain[1][0] <= q <= domain[1][1]:
            return None
        return Binding(once if statistic == "any" else 2.0 * once, 1.0, q)


@dataclass(frozen=True)
class Custom(Tolerance):
    """A tolerance given as a function."""

    function: Callable[[Any, Any], Any]
    falls: bool = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"a custom profile must be a function of (inclusion, value), got {self.function!r}")

    def tolerated(self, p: Floats, q: Floats) -> Any:
        p, q = np.broadcast_arrays(p, q)
        with np.errstate(all="ignore"):
            values = self._values(np.array(p), np.array(q))
        if values.shape not in ((), p.shape):
            raise TypeError(f"a custom profile must return one ratio per prior, shape {p.shape}, got {values.shape}")
        return values

    def _values(self, p: Floats, q: Floats) -> Floats:
        try:
            values = self.function(p, q)
        except (TypeError, ValueError):
            # A function of single numbers, such as one with `if p > 0.5` or `math.log(p)`.
            values = np.array([self.function(float(a), float(b)) for a, b in zip(p.ravel(), q.ravel(), strict=True)])
            values = values.reshape(p.shape) if values.ndim == 1 else values
        if np.asarray(values).dtype.kind not in "iuf":
            raise TypeError(f"a custom profile must return numbers, got {values!r}")
        return as_array(values)

    domain = EVERYBODY
    is_function = True

    @property
    def decreasing(self) -> bool:
        return self.falls

    @property
    def words(self) -> str:
        name = getattr(self.function, "__name__", "<")
        return f"no ratio above what {'the given function' if name.startswith('<') else name} says"


@dataclass(frozen=True)
class Within(Tolerance):
    """Another tolerance on a rectangle of priors."""

    tolerance: Tolerance
    inclusion: Range
    value: Range

    def tolerated(self, p: Floats, q: Floats) -> Any:
        return self.tolerance.tolerated(p, q)

    @property
    def domain(self) -> tuple[Range, Range]:
        (p0, p1), (q0, q1) = (
            (max(own[0], other[0]), min(own[1], other[1]))
            for own, other in zip((self.inclusion, self.value), self.tolerance.domain, strict=True)
        )
        return (p0, p1), (q0, q1)

    @property
    def decreasing(self) -> bool:
        return self.tolerance.decreasing

    @property
    def of_product(self) -> bool:
        return self.tolerance.of_product

    @property
    def is_function(self) -> bool:
        return self.tolerance.is_function

    @property
    def words(self) -> str:
        return self.tolerance.words + _for_whom((self.inclusion, self.value))

    @property
    def parts(self) -> tuple[Tolerance, ...]:
        every = self.tolerance.parts
        return (self,) if len(every) == 1 else tuple(Within(part, self.inclusion, self.value) for part in every)

    def closed(self, domain: tuple[Range, Range], statistic: str) -> Binding | None:
        empty = any(low > high for low, high in domain)
        return Binding(np.inf, np.nan, np.nan) if empty else self.tolerance.closed(domain, statistic)


@dataclass(frozen=True)
class Least(Tolerance):
    """The minimum of several tolerances."""

    tolerances: tuple[Tolerance, ...]

    def tolerated(self, p: Floats, q: Floats) -> Any:
        return np.min([one.ratios(p, q) for one in self.tolerances], axis=0)

    @property
    def domain(self) -> tuple[Range, Range]:
        every = np.array([one.domain for one in self.tolerances])
        low, high = every[..., 0].min(0), every[..., 1].max(0)
        return (float(low[0]), float(high[0])), (float(low[1]), float(high[1]))

    decreasing = False

    @property
    def words(self) -> str:
        return ", and ".join(one.words for one in self.tolerances)

    @property
    def parts(self) -> tuple[Tolerance, ...]:
        return self.tolerances

    @property
    def about_values(self) -> bool:
        return any(one.about_values for one in self.tolerances)


def _binding(p: float, q: float, room: float, ratio: float) -> Binding:
    """The adversary (p, q) and their epsilon, with room = 1 / ratio - p q; no adversary if epsilon is infinite."""
    epsilon = float(epsilon_of_room(np.asarray(p), np.asarray(q), np.asarray(room)))
    if epsilon == np.inf:
        return Binding(np.inf, np.nan, np.nan)
    return Binding(max(epsilon, 0.0) if ratio > 1.0 else 0.0, p, q)


def factors(product: float, domain: tuple[Range, Range]) -> Range:
    """Priors (p, q) in a rectangle with this product, with the largest p; NaN for NaN."""
    (p0, p1), (q0, q1) = domain
    q = min(max(product / p1, q0), q1) if product == product else product
    return (min(max(product / q, p0), p1) if q > 0.0 else p1 if q == q else q), q


def _for_whom(domain: tuple[Range, Range]) -> str:
    """A clause that names a profile's adversaries, after a comma; empty for all adversaries."""
    named = [
        f"{name} prior {low:.6g}" if low == high else f"{name} prior from {low:.6g} to {high:.6g}"
        for name, (low, high) in zip(("inclusion", "value"), domain, strict=True)
        if (low, high) != (0.0, 1.0)
    ]
    return f", for adversaries with {' and '.join(named)}" if named else ""


def one_real(name: str, x: ArrayLike) -> float:
    """One number, not NaN."""
    return float(check_number(name, one_number(name, x)))


def prior_range(name: str, x: Any) -> Range:
    """(low, high) with 0 <= low <= high and 0 < high <= 1; one prior means (prior, prior)."""
    if np.ndim(x) == 0:
        return (float(check_prior(name, one_number(name, x))),) * 2
    ends = tuple(x)
    if len(ends) != 2:
        raise ValueError(f"{name} must be a prior or a range (low, high), got {x!r}")
    low, high = (one_real(f"an end of {name}", end) for end in ends)
    if not 0.0 <= low <= high <= 1.0 or high == 0.0:
        raise ValueError(f"{name} must be a range 0 <= low <= high <= 1 with high above 0, got ({low:g}, {high:g})")
    return low, high
