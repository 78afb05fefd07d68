"""Risk profiles: how far an agency will let any reader's belief rise, as a function of the reader's prior.

A profile maps (inclusion, value) = (p, q) to the largest tolerated ratio r*(p, q) of posterior to prior, in [1, inf];
infinite means that these readers do not matter. It says nothing of epsilon; `recommend_epsilon` does. The kinds are in
`tolerances`: each says `tolerated`, `domain`, and, where there is one, the reader who binds in closed form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, check_number, one_number
from adversary.policy.budget.risk_bounds import check_prior
from adversary.privacy.decisions import over_labels

Range = tuple[float, float]
EVERYBODY: tuple[Range, Range] = ((0.0, 1.0), (0.0, 1.0))


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
        from adversary.policy.budget.tolerances import RatioOrAbsolute

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
        from adversary.policy.budget.tolerances import RatioOrAbsolute

        return RatioOrAbsolute(
            ratio, absolute, everybody[0] if inclusion is None else inclusion, everybody[1] if value is None else value
        )

    @staticmethod
    def box(ratio: float, inclusion: Range = (0.0, 1.0), value: Range = (0.0, 1.0)) -> RiskProfile:
        """The same ratio for readers with priors in a rectangle."""
        from adversary.policy.budget.tolerances import RatioOrAbsolute

        return RatioOrAbsolute(ratio, 0.0, inclusion, value)

    @staticmethod
    def difference(b: float) -> RiskProfile:
        """Posterior minus prior at most b, in (0, 1), for every reader: 1 + b / (p q)."""
        from adversary.policy.budget.tolerances import Difference

        return Difference(b)

    @staticmethod
    def point(ratio: float, inclusion: float, value: float) -> RiskProfile:
        """A ratio for readers with exactly these priors."""
        from adversary.policy.budget.tolerances import RatioOrAbsolute

        return RatioOrAbsolute(ratio, 0.0, one_number("inclusion", inclusion), one_number("value", value))

    @staticmethod
    def custom(function: Callable[[Any, Any], Any], *, decreasing: bool = False) -> RiskProfile:
        """Any function of arrays (inclusion, value) with values in [1, inf].

        Parameters
        ----------
        function : called with arrays that broadcast; one that takes single numbers only is called for each, slowly
        decreasing : a promise that the function never rises in either prior, with which the optimum is certified; a
            function seen to break it is refused
        """
        from adversary.policy.budget.tolerances import Custom

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
        """The same, of arrays known to be priors; ValueError where the profile has no ratio from 1 to infinity."""
        (p0, p1), (q0, q1) = self.domain
        p, q = np.broadcast_arrays(p, q)
        inside = (p >= p0) & (p <= p1) & (q >= q0) & (q <= q1)
        found = np.full(p.shape, np.inf)
        found[inside] = self.tolerated(p[inside], q[inside])
        if (bad := ~(found >= 1.0)).any():
            at = f"({p[bad][0]:.6g}, {q[bad][0]:.6g})"
            raise ValueError(
                f"a risk profile must be a ratio in [1, inf] everywhere, got {found[bad][0]:.6g} at (p, q) = {at}: "
                "less than no information cannot be released"
            )
        return found

    def minimum(self, *others: RiskProfile) -> RiskProfile:
        """The stricter of several profiles at every prior."""
        for other in others:
            if not isinstance(other, RiskProfile):
                raise TypeError(f"a profile's minimum must be of other profiles, got {other!r}")
        from adversary.policy.budget.tolerances import Least

        return Least(tuple(part for one in (self, *others) for part in one.parts))

    def within(self, inclusion: Range = (0.0, 1.0), value: Range = (0.0, 1.0)) -> RiskProfile:
        """The same tolerance for readers with priors in a rectangle; the others do not matter."""
        from adversary.policy.budget.tolerances import Within

        return Within(self, prior_range("inclusion", inclusion), prior_range("value", value))


def one_real(name: str, x: Any) -> float:
    """One number, not NaN."""
    return float(check_number(name, one_number(name, x)))


def prior_range(name: str, x: Any) -> Range:
    """(low, high) with 0 <= low <= high and 0 < high <= 1; one prior is a range of its own."""
    if np.ndim(x) == 0:
        return (float(check_prior(name, one_number(name, x))),) * 2
    ends = tuple(x)
    if len(ends) != 2:
        raise ValueError(f"{name} must be a prior or a range (low, high), got {x!r}")
    low, high = (one_real(f"an end of {name}", end) for end in ends)
    if not 0.0 <= low <= high <= 1.0 or high == 0.0:
        raise ValueError(f"{name} must be a range 0 <= low <= high <= 1 with high above 0, got ({low:g}, {high:g})")
    return low, high
