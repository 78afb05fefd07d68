"""What a privacy definition guarantees against every adversary, and the bounds on beliefs that follow from it.

A guarantee says two things: its profile `delta(epsilon)` and `loss_bound(failure)`, the smallest e such that the
privacy loss stays within [-e, e] with probability at least 1 - failure, under both truths and after any
post-processing. Bounds on the posterior, the ratio and the difference follow (Kazan, Sharma, Zhang, Jiang and Yan 2025,
"Interpreting differential privacy in terms of disclosure risk", Theorems 3.1 to 3.5 and 3.9). So does what a test can
do: the profile and the trade-off `power(level)` are dual to each other (Dong, Roth and Su 2022, Proposition 2.13), and
precision, F-score and probabilistic bounds are read off either. All of it is derived here once.
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
    as_array,
    check_non_negative,
    check_probability,
    elementwise,
    format_parameter,
    labelled,
    logit,
    over_labels,
    past_ties,
    posterior_after,
    posterior_ratio,
    scalar_or_array,
)
from adversary.privacy.profiles import (
    LOSSES,
    area_under,
    either_way,
    epsilon_from_profile,
    f_score_from_profile,
    level_from_profile,
    loss_at,
    smallest_over_losses,
    tail_bound,
)

DISCLOSED = "one database conforms: every record is disclosed, whatever the noise, and no privacy is left"
"""Said where invariants leave one database, whose semi-adjacency is 0."""


@singledispatch
def where_else(guarantee: Any, name: str) -> str:
    """End of a message that names the object to ask for what a guarantee does not have; losses register it."""
    del guarantee, name
    return ""


@singledispatch
def compose(first: Any, second: Any) -> Any:
    """The guarantee of two releases with independent noise, behind `+`; `definitions.addition` registers it."""
    raise TypeError(f"no rule composes {first!r} with {second!r}")


@singledispatch
def repeat(guarantee: Any, times: int) -> Any:
    """The guarantee of that many releases with the same guarantee together, behind `*`."""
    raise TypeError(f"no rule repeats {guarantee!r}")


@singledispatch
def group_of(guarantee: Any, size: int) -> Guarantee:
    """The guarantee for hypotheses `size` records apart, where another class says it: `definitions.group` registers."""
    raise TypeError(f"no rule groups {guarantee!r}")


@singledispatch
def no_privacy(guarantee: Any) -> Guarantee:
    """The guarantee that is left where statistics published exactly fix every record: none."""
    raise TypeError(f"no rule for {guarantee!r}")


class Invariants(Protocol):
    """Statistics published exactly, as far as a guarantee asks of them."""

    @property
    def semi_adjacency(self) -> int:
        """Records in which conforming databases must be allowed to differ, for any one record to be anyone's."""


class Guarantee(ABC):
    """A guarantee against every adversary. Leaves say what they are (`definition`, `name`, `meaning`) and `delta`,
    `loss_bound`, `group`, `is_satisfied_by`; bounds are derived.

    A leaf with fields of numbers has `parameters` of the same names. With a `kind` it can be written in scenario files.
    What else a leaf may say: how it adds up (`plus`, `multiple`, `conversion`), `scaled`, `implied_rho`.
    """

    __slots__ = ()

    kind: ClassVar[str] = ""
    """Key of the definition in the `[guarantee]` of a file, with `parameter_names` below it; empty where none."""

    vacuous: ClassVar[bool] = False
    """Whether it guarantees nothing at all."""

    conversion: ClassVar[str] = ""
    """What a definition without a worst pair can be turned into to be composed with others."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuses a parameter by another name with the names there are: epsilon and delta are methods."""
        names = getattr(cls, "__dataclass_fields__", kwargs)
        for given in kwargs:
            if given not in names:
                raise TypeError(f"{cls.__name__} takes {', '.join(names) or 'nothing'}, got {given}={kwargs[given]!r}")
        return super().__new__(cls)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{type(self).__name__} has no {name}{where_else(self, name)}", name=name, obj=self)

    @property
    @abstractmethod
    def definition(self) -> str:
        """Name of the privacy definition, as tables and figures show it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The definition written out, as in a sentence: "pure differential privacy"."""

    @property
    @abstractmethod
    def meaning(self) -> str:
        """The definition as an inequality, a sentence of P, Q, the parameters and L = log(P / Q); empty for none."""

    @abstractmethod
    def delta(self, epsilon: ArrayLike) -> Any:
        """Privacy profile: the largest of P(S) - e^epsilon Q(S) over events S, at any real epsilon."""

    @abstractmethod
    def loss_bound(self, failure: float) -> float:
        """Smallest e, in nats, with P(|L| > e) <= failure under both truths, after any post-processing; inf if none."""

    @abstractmethod
    def group(self, size: int) -> Guarantee:
        """The guarantee for hypotheses that differ in `size` records."""

    @abstractmethod
    def is_satisfied_by(self, loss: Any) -> bool:
        """True where a mechanism with this privacy loss satisfies the guarantee, up to rounding (`tolerated`)."""

    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """Names of the parameters in the order of the fields, as people use them: `epsilon0` is "epsilon"."""
        return tuple(name.rstrip("0") for name in getattr(cls, "__dataclass_fields__", ()))

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters by name, as they were given; none of a privacy loss."""
        values = (getattr(self, name) for name in getattr(self, "__dataclass_fields__", ()))
        return dict(zip(self.parameter_names(), values, strict=True))

    @property
    def budget(self) -> dict[str, Any]:
        """The parameters that weaken the guarantee as they grow."""
        return self.parameters

    def describe(self) -> str:
        """The definition by name with its parameters, those rounded up that are long: a weaker guarantee."""
        parameters = " and ".join(f"{name} {format_parameter(x)}" for name, x in self.budget.items())
        return f"{self.name} with {parameters}" if parameters else self.name

    @property
    def after_postprocessing(self) -> Guarantee:
        """Guarantee after post-processing, as averaging over unknown others is: itself, unless a leaf differs."""
        return self

    @property
    def implied_rho(self) -> Any:
        """The rho of the zCDP that this implies, with which it is composed with zCDP; None where no rule says."""
        return None

    def scaled(self, factor: float) -> Guarantee:
        """The guarantee of noise with `factor` times the budget: rho times `factor`, epsilon and mu times its root."""
        del factor
        raise TypeError(f"{self!r} has no budget to scale")

    def plus(self, other: Guarantee) -> Guarantee | None:
        """The guarantee of both together by a rule of this definition's own; None where there is none for the other."""
        del other
        return None

    def multiple(self, times: int) -> Guarantee | None:
        """This definition of that many releases, where its parameter adds up; None where only worst pairs do."""
        del times
        return None

    def implies(self, other: Guarantee) -> bool:
        """True where every release with this guarantee also satisfies the other one, decided by its worst pair."""
        return other.is_satisfied_by(self.worst_pair)

    def given(self, invariants: Invariants) -> Guarantee:
        """The guarantee beside statistics published exactly: `group(a)`, a the semi-adjacency of what conforms to them.

        Of pairs of conforming databases at most a records apart, the release protects each as this says (Cho and Awan,
        Proposition 15). Where a is 0 the statistics fix every record: `NoPrivacy`, with a warning, never "no loss".

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
        """This guarantee with P and Q exchanged: itself, for a definition."""
        return self

    @property
    def directions(self) -> tuple[Guarantee, ...]:
        """The directions to check: the guarantee itself, as it is symmetric."""
        return (self,)

    @property
    def worst_pair(self) -> Any:
        """A privacy loss no mechanism with this guarantee exceeds; what optimal composition composes.

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
        """Smallest epsilon >= 0 with `delta(epsilon) <= delta`; inf where none is; at 0 the bound on the loss."""
        return epsilon_from_profile(self, delta)

    def worst_delta(self, epsilon: ArrayLike) -> Any:
        """The profile in the worse direction; `delta` itself for a definition, which is symmetric."""
        if self.swapped is self:
            return self.delta(epsilon)
        return scalar_or_array(np.maximum(self.delta(epsilon), self.swapped.delta(epsilon)))

    @labelled
    def power(self, level: ArrayLike) -> Any:
        """Largest power (probability of "in" under P) of a test whose level (the same under Q) is at most `level`.

        The least of delta(e) + exp(e) level over real e: every e gives a valid bound, so errors are towards more risk.
        """
        a = check_probability("level", level)
        least = a[..., None]

        def bound(e: Floats, delta: Floats) -> Floats:
            size = np.exp(-np.abs(e))
            return np.where(e >= 0, delta + least / size, 1.0 - size * (1.0 - least - delta))

        return scalar_or_array(np.where(a >= 1.0, 1.0, np.clip(smallest_over_losses(self, bound), a, 1.0)))

    @labelled
    def attack_success(self, baseline: ArrayLike) -> Any:
        """Most that any attack succeeds which succeeds with probability `baseline` without the release: `power`."""
        return scalar_or_array(np.maximum(*(as_array(one.power(baseline)) for one in (self, self.swapped))))

    @cached_property
    def at_losses(self) -> Floats:
        """The profile at `LOSSES`, where every point of the trade-off begins."""
        return either_way(self, LOSSES)

    @labelled
    def level(self, power: ArrayLike) -> Any:
        """Smallest level (probability of "in" under Q) at which a test can have this power under P; the inverse curve.

        The largest of exp(-e) (power - delta(e)) over real e, relatively accurate however small; 0 up to the mass of
        infinite losses.
        """
        return level_from_profile(self, power)

    def profile_level(self, power: ArrayLike) -> Any:
        """The level from the profile alone; it differs only where `power` and `level` have a sharper theorem."""
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
        """Area under power against level, both hypotheses tested by the best score: 1/2 is no information."""
        return area_under(self)

    @labelled
    def precision(self, recall: ArrayLike, prior: ArrayLike) -> Any:
        """Largest P(in | decided "in") at this recall: p T / (p T + (1 - p) level(T)).

        At recall 0 the limit, where level(T) / T is e^-(largest loss).

        References: Liu, He, Chanyaswad, Wang and Mittal 2019, Theorem 2.
        """
        p, t = check_probability("prior", prior), check_probability("recall", recall)
        share = np.where(t > 0.0, as_array(self.level(t)) / np.where(t > 0.0, t, 1.0), np.exp(-self.maximum))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            precision = 1.0 / (1.0 + (1.0 - p) / p * share)
        return scalar_or_array(np.where(p == 0.0, 0.0, np.maximum(precision, p)))

    @property
    def maximum(self) -> float:
        """Largest loss of P against Q, in nats; inf if none is."""
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
        """(lower, upper) posterior: expit(logit(prior) -+ e), e = loss_bound(failure). Priors 0 and 1 stay put."""
        p, e = check_probability("prior", prior), self.loss_bound(failure)
        lower = np.minimum(posterior_after(logit(p), -e), p)  # rounding must not carry a bound past the prior
        upper = np.maximum(posterior_after(logit(p), e), p)
        return scalar_or_array(lower), scalar_or_array(upper)

    @labelled
    def ratio_bounds(self, prior: ArrayLike | None = None, failure: Any = 0.0) -> tuple[Any, Any]:
        """(lower, upper) posterior over prior: 1 / (p + (1 - p) e^(+-e)); exp(-+e) at every prior if none is given."""
        e = self.loss_bound(failure)
        p = check_probability("prior", 0.0 if prior is None else prior)
        return scalar_or_array(posterior_ratio(p, -e)), scalar_or_array(posterior_ratio(p, e))

    @labelled
    def difference_bounds(self, prior: ArrayLike | None = None, failure: Any = 0.0) -> tuple[Any, Any]:
        """(lower, upper) posterior minus prior; -+tanh(e / 4) at every prior if none is given."""
        if prior is None:
            widest = np.tanh(as_array(self.loss_bound(failure)) / 4.0)
            return scalar_or_array(-widest), scalar_or_array(widest)
        lower, upper = self.posterior_bounds(prior, failure)
        p = as_array(prior)
        return scalar_or_array(lower - p), scalar_or_array(upper - p)

    def never_exceeds(self, epsilon: float) -> bool:
        """True where no loss is above epsilon, in either direction; ties count as equal."""
        return bool(past_ties(epsilon) >= self.loss_bound(0.0))

    @elementwise
    def pbdp_delta(self, epsilon: float) -> float:
        """Post-processing-proof bound on P(L > epsilon), the worse direction: least delta(e) / (1 - e^(e - epsilon)).

        Over e < epsilon; every e gives a valid bound. Probabilistic-bound DP (Kifer et al. 2022, Definition 5.2).
        """
        if not epsilon > 0.0:
            raise ValueError(f"epsilon must be positive for a probabilistic bound, got {epsilon}")
        if epsilon == np.inf or self.never_exceeds(epsilon):
            return float(self.worst_delta(np.inf))
        return max(tail_bound(side, epsilon) for side in self.directions)

    @elementwise
    def pbdp_epsilon(self, delta: float) -> float:
        """Smallest e with P(L > e) <= delta after any post-processing: log(delta / level(delta)), the worse direction.

        Infinite where delta is at most the mass of infinite losses; at 0, and at most, the largest possible loss.
        """
        target = float(check_probability("delta", delta))
        if target == 0.0:
            return self.loss_bound(0.0)
        return min(self.loss_bound(0.0), max(loss_at(side, target) for side in self.directions))

    def __add__(self, other: Any) -> Any:
        """Composition: the guarantee of two releases with independent noise together. `sum` starts at 0."""
        return compose(self, other)

    __radd__ = __add__

    def __mul__(self, times: int) -> Any:
        """Composition of a whole number of releases with this guarantee each."""
        return repeat(self, times)

    __rmul__ = __mul__
