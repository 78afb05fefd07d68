"""Abstract class of privacy guarantees against every adversary, and the bounds on beliefs that follow from them.

A guarantee has a privacy profile `delta(epsilon)` and a `loss_bound(failure)`: the smallest e such that the privacy
loss lies in [-e, e] with probability at least 1 - failure, under both hypotheses and after any post-processing. Bounds
on posterior, ratio and difference follow from the latter (Kazan, Sharma, Zhang, Jiang and Yan 2025, "Interpreting
differential privacy in terms of disclosure risk", Theorems 3.1 to 3.5 and 3.9). The profile and the trade-off
`power(level)` are dual to each other (Dong, Roth and Su 2022, Proposition 2.13); precision, F-score and probabilistic
bounds follow from either. All of them are derived here once.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from functools import cached_property, singledispatch
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    above_ties,
    as_array,
    check_non_negative,
    check_probability,
    elementwise,
    format_parameter,
    labelled,
    logit,
    over_labels,
    posterior_after,
    posterior_ratio,
    scalar_or_array,
)
from adversary.privacy.profiles import (
    LOSSES,
    area_under,
    epsilon_from_profile,
    f_score_from_profile,
    level_from_profile,
    profile_both_signs,
    smallest_over_losses,
    tail_bound,
    tail_loss_bound,
)

# Warning for invariants that a single database satisfies (semi-adjacency 0).
DISCLOSED = "one database conforms: every record is disclosed, whatever the noise, and no privacy is left"


@singledispatch
def owner_hint(guarantee: Any, name: str) -> str:
    """Suffix of an AttributeError that names the object with the missing attribute; losses register it."""
    del guarantee, name
    return ""


@singledispatch
def compose(first: Any, second: Any) -> Any:
    """Guarantee of two releases with independent noise: the implementation of `+`, which `definitions` registers."""
    raise TypeError(f"no rule composes {first!r} with {second!r}")


@singledispatch
def repeat(guarantee: Any, times: int) -> Any:
    """Guarantee of `times` releases with independent noise and one guarantee each: the implementation of `*`."""
    raise TypeError(f"no rule repeats {guarantee!r}")


@singledispatch
def group_of(guarantee: Any, size: int) -> Guarantee:
    """Guarantee for hypotheses that differ in `size` records; `definitions.group` registers it."""
    raise TypeError(f"no rule groups {guarantee!r}")


@singledispatch
def no_privacy(guarantee: Any) -> Guarantee:
    """Guarantee that remains if exactly published statistics determine every record: none."""
    raise TypeError(f"no rule for {guarantee!r}")


class Invariants(Protocol):
    """Exactly published statistics, as `Guarantee.given` uses them."""

    @property
    def semi_adjacency(self) -> int:
        """Number of records that may have to change together, among databases with these statistics, to change one."""


class Guarantee(ABC):
    """A guarantee against every adversary, for the pair P (target in) and Q (target out).

    Subclasses define `definition`, `name`, `meaning`, `delta`, `loss_bound`, `group` and `is_satisfied_by`; all bounds
    are derived. Scenario files can name a subclass with a `kind`. Optional: `plus`, `multiple`, `conversion`, `scaled`,
    `implied_rho`.
    """

    __slots__ = ()

    kind: ClassVar[str] = ""
    """Name of the definition in the `[guarantee]` table of a file; empty if files cannot name it."""

    vacuous: ClassVar[bool] = False
    """True for a definition that guarantees nothing."""

    conversion: ClassVar[str] = ""
    """Conversions that make a definition without a worst pair composable, as a message."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse unknown parameter names; the error lists the valid ones (`epsilon0`, since epsilon is a method)."""
        names = getattr(cls, "__dataclass_fields__", kwargs)
        for given in kwargs:
            if given not in names:
                raise TypeError(f"{cls.__name__} takes {', '.join(names) or 'nothing'}, got {given}={kwargs[given]!r}")
        return super().__new__(cls)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{type(self).__name__} has no {name}{owner_hint(self, name)}", name=name, obj=self)

    @property
    @abstractmethod
    def definition(self) -> str:
        """Short name of the privacy definition, for tables and figures."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Full name of the privacy definition, for sentences: "pure differential privacy"."""

    @property
    @abstractmethod
    def meaning(self) -> str:
        """The defining inequality as a sentence, in terms of P, Q, the parameters and L = log(P / Q)."""

    @abstractmethod
    def delta(self, epsilon: ArrayLike) -> Any:
        """Privacy profile: the largest P(S) - e^epsilon Q(S) over events S, at any real epsilon (nats)."""

    @abstractmethod
    def loss_bound(self, failure: float) -> float:
        """Smallest e, in nats, with P(|L| > e) <= failure under P and Q, after any post-processing; inf if none."""

    @abstractmethod
    def group(self, size: int) -> Guarantee:
        """The guarantee for hypotheses that differ in `size` records."""

    @abstractmethod
    def is_satisfied_by(self, loss: Any) -> bool:
        """True if a mechanism with this privacy loss satisfies the guarantee, up to rounding (`tolerated`)."""

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """Conventional names of the parameters, in the order of the fields: "epsilon" for `epsilon0`."""
        return tuple(name.rstrip("0") for name in getattr(cls, "__dataclass_fields__", ()))

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters by conventional name; empty for a privacy loss."""
        values = (getattr(self, name) for name in getattr(self, "__dataclass_fields__", ()))
        return dict(zip(self.parameter_names(), values, strict=True))

    @property
    def budget(self) -> dict[str, Any]:
        """Parameters in which the guarantee is decreasing: larger values are weaker guarantees."""
        return self.parameters

    def describe(self) -> str:
        """Name and parameters in words; long parameters are rounded up, to a weaker guarantee."""
        parameters = " and ".join(f"{name} {format_parameter(x)}" for name, x in self.budget.items())
        return f"{self.name} with {parameters}" if parameters else self.name

    @property
    def after_postprocessing(self) -> Guarantee:
        """Guarantee after post-processing, such as averaging over unknown records; the same by default."""
        return self

    @property
    def implied_rho(self) -> Any:
        """The rho of the zCDP that this guarantee implies, used to compose it with zCDP; None if there is no rule."""
        return None

    def scaled(self, factor: float) -> Guarantee:
        """Guarantee with a scaled budget: rho times `factor`; epsilon and mu times its square root."""
        del factor
        raise TypeError(f"{self!r} has no budget to scale")

    def plus(self, other: Guarantee) -> Guarantee | None:
        """Composition with another guarantee by a rule of this definition; None if there is no rule for the other."""
        del other
        return None

    def multiple(self, times: int) -> Guarantee | None:
        """Composition of `times` releases in closed form; None for definitions that compose through worst pairs."""
        del times
        return None

    def implies(self, other: Guarantee) -> bool:
        """True if every release with this guarantee satisfies the other one; decided by the worst pair."""
        return other.is_satisfied_by(self.worst_pair)

    def given(self, invariants: Invariants) -> Guarantee:
        """Guarantee given exactly published statistics: `group(a)`, with a their semi-adjacency.

        It covers pairs of databases with these statistics that differ in at most a records (Cho and Awan, Proposition
        15). At a = 0 the statistics determine every record, and the result is `NoPrivacy`, with a warning.

        Parameters
        ----------
        invariants : anything with a whole `semi_adjacency`, as `adv.invariants.Margins` or `Databases`
        """
        if not hasattr(invariants, "semi_adjacency"):
            raise TypeError(f"invariants must have a semi_adjacency, as Margins and Databases do, got {invariants!r}")
        if invariants.semi_adjacency:
            return self.group(invariants.semi_adjacency)
        warnings.warn(DISCLOSED, RuntimeWarning, stacklevel=2)
        return no_privacy(self)

    @property
    def swapped(self) -> Guarantee:
        """The guarantee with P and Q exchanged; definitions are symmetric."""
        return self

    @property
    def directions(self) -> tuple[Guarantee, ...]:
        """Guarantees to check separately: both directions of a loss, one of a symmetric definition."""
        return (self,)

    @property
    def worst_pair(self) -> Any:
        """Largest privacy loss under this guarantee, which dominates every mechanism; optimal composition uses it.

        Raises
        ------
        TypeError : where there is no single worst pair (zCDP, Renyi, probabilistic DP)
        """
        raise TypeError(
            f"{self.definition} has no worst pair: compose it with its own kind, or convert it first, "
            "as ApproximateDP(g.epsilon(delta), delta)"
        )

    @labelled
    def epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon >= 0 (nats) with `delta(epsilon) <= delta`; inf if none; at delta 0, `loss_bound(0)`."""
        return epsilon_from_profile(self, delta)

    def worst_delta(self, epsilon: ArrayLike) -> Any:
        """Larger profile of the two directions; `delta` itself for a symmetric definition."""
        if self.swapped is self:
            return self.delta(epsilon)
        return scalar_or_array(np.maximum(self.delta(epsilon), self.swapped.delta(epsilon)))

    @labelled
    def power(self, level: ArrayLike) -> Any:
        """Largest power (probability of "in" under P) of a test whose level (the same under Q) is at most `level`.

        The minimum of delta(e) + exp(e) level over real e; every e gives a valid bound, so errors overstate the power.
        """
        a = check_probability("level", level)
        least = a[..., None]

        def bound(e: Floats, delta: Floats) -> Floats:
            size = np.exp(-np.abs(e))
            return np.where(e >= 0, delta + least / size, 1.0 - size * (1.0 - least - delta))

        return scalar_or_array(np.where(a >= 1.0, 1.0, np.clip(smallest_over_losses(self, bound), a, 1.0)))

    @labelled
    def attack_success(self, baseline: ArrayLike) -> Any:
        """Largest success probability of an attack that succeeds with probability `baseline` without the release."""
        return scalar_or_array(np.maximum(*(as_array(one.power(baseline)) for one in (self, self.swapped))))

    @cached_property
    def at_losses(self) -> Floats:
        """Profile on the grid `LOSSES`, from which each point of the trade-off is refined."""
        return profile_both_signs(self, LOSSES)

    @labelled
    def level(self, power: ArrayLike) -> Any:
        """Smallest level (probability of "in" under Q) of a test with this power under P; the inverse of `power`.

        The maximum of exp(-e) (power - delta(e)) over real e, with relative accuracy; 0 for powers up to the mass of
        infinite losses.
        """
        return level_from_profile(self, power)

    def profile_level(self, power: ArrayLike) -> Any:
        """Level derived from the profile alone; smaller than `level` for definitions with a sharper theorem."""
        return self.level(power)

    def log_level(self, power: float) -> float:
        """Log of `profile_level`, for bounds on the loss; -inf at 0."""
        level = float(self.profile_level(power))
        return float(np.log(level)) if level > 0.0 else float("-inf")

    @property
    def advantage(self) -> float:
        """Largest gap between power and level, delta(0): the total variation distance of a pair."""
        return float(self.delta(0.0))

    @property
    def auc(self) -> float:
        """Area under the curve of power against level, for the best score; 1/2 without information."""
        return area_under(self)

    @labelled
    def precision(self, recall: ArrayLike, prior: ArrayLike) -> Any:
        """Largest P(in | decided "in") at recall T and prior p: p T / (p T + (1 - p) level(T)).

        At recall 0 the limit: level(T) / T tends to e^-(largest loss).

        References: Liu, He, Chanyaswad, Wang and Mittal 2019, Theorem 2.
        """
        p, t = check_probability("prior", prior), check_probability("recall", recall)
        share = np.where(t > 0.0, as_array(self.level(t)) / np.where(t > 0.0, t, 1.0), np.exp(-self.maximum))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            precision = 1.0 / (1.0 + (1.0 - p) / p * share)
        return scalar_or_array(np.where(p == 0.0, 0.0, np.maximum(precision, p)))

    @property
    def maximum(self) -> float:
        """Largest privacy loss of P against Q, in nats; inf if unbounded."""
        return self.loss_bound(0.0)

    def f_score(self, prior: ArrayLike, beta: float = 1.0) -> Any:
        """Largest F_beta of any test at this prior: (1 + beta^2) T / (T + r level + beta^2), r = (1 - p) / p.

        The root F of (1 + beta^2 - F) delta(log(r F / (1 + beta^2 - F))) = beta^2 F: the best test decides "in" where
        the posterior is at least F / (1 + beta^2).
        """
        b2 = float(check_non_negative("beta", beta)) ** 2
        check_probability("prior", prior)
        best = np.vectorize(lambda p: f_score_from_profile(self, p, b2), otypes=[np.float64])
        return over_labels(best, prior)

    @labelled
    def posterior_bounds(self, prior: ArrayLike, failure: Any = 0.0) -> tuple[Any, Any]:
        """(lower, upper) posterior: expit(logit(prior) -+ e), e = loss_bound(failure); priors 0 and 1 do not change."""
        p, e = check_probability("prior", prior), self.loss_bound(failure)
        lower = np.minimum(posterior_after(logit(p), -e), p)  # rounding must not move a bound past the prior
        upper = np.maximum(posterior_after(logit(p), e), p)
        return scalar_or_array(lower), scalar_or_array(upper)

    @labelled
    def ratio_bounds(self, prior: ArrayLike | None = None, failure: Any = 0.0) -> tuple[Any, Any]:
        """(lower, upper) posterior over prior: 1 / (p + (1 - p) e^(+-e)); without a prior, over all: exp(-+e)."""
        e = self.loss_bound(failure)
        p = check_probability("prior", 0.0 if prior is None else prior)
        return scalar_or_array(posterior_ratio(p, -e)), scalar_or_array(posterior_ratio(p, e))

    @labelled
    def difference_bounds(self, prior: ArrayLike | None = None, failure: Any = 0.0) -> tuple[Any, Any]:
        """(lower, upper) posterior minus prior; without a prior, over all of them: -+tanh(e / 4)."""
        if prior is None:
            widest = np.tanh(as_array(self.loss_bound(failure)) / 4.0)
            return scalar_or_array(-widest), scalar_or_array(widest)
        lower, upper = self.posterior_bounds(prior, failure)
        p = as_array(prior)
        return scalar_or_array(lower - p), scalar_or_array(upper - p)

    def never_exceeds(self, epsilon: float) -> bool:
        """True if no loss exceeds epsilon, in either direction; ties count as equal."""
        return bool(above_ties(epsilon) >= self.loss_bound(0.0))

    @elementwise
    def pbdp_delta(self, epsilon: float) -> float:
        """Bound on P(L > epsilon) after post-processing, worse direction: inf_e delta(e) / (1 - e^(e - epsilon)).

        Over e < epsilon; every e gives a valid bound. Probabilistic-bound DP (Kifer et al. 2022, Definition 5.2).
        """
        if not epsilon > 0.0:
            raise ValueError(f"epsilon must be positive for a probabilistic bound, got {epsilon}")
        if epsilon == np.inf or self.never_exceeds(epsilon):
            return float(self.worst_delta(np.inf))
        return max(tail_bound(side, epsilon) for side in self.directions)

    @elementwise
    def pbdp_epsilon(self, delta: float) -> float:
        """Smallest e with P(L > e) <= delta after any post-processing: log(delta / level(delta)), worse direction.

        Infinite for delta up to the mass of infinite losses; never above the largest loss, which it is at delta 0.
        """
        target = float(check_probability("delta", delta))
        if target == 0.0:
            return self.loss_bound(0.0)
        return min(self.loss_bound(0.0), max(tail_loss_bound(side, target) for side in self.directions))

    def __add__(self, other: Any) -> Any:
        """Composition: the guarantee of two releases with independent noise. 0, where `sum` starts, is neutral."""
        return compose(self, other)

    __radd__ = __add__

    def __mul__(self, times: int) -> Any:
        """Composition of `times` releases with independent noise and this guarantee each."""
        return repeat(self, times)

    __rmul__ = __mul__
