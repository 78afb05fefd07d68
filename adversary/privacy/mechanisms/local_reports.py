"""Local differential privacy: the value is the answer of one unit, and noise is added before collection."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    TAIL_NATS,
    Floats,
    Integers,
    Size,
    check_positive,
    check_scale,
    check_whole,
    format_number,
    labelled,
    one_number,
    scalar_or_array,
)
from adversary.privacy.definitions import PureDP, pure_rho
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import LatticeLoss, PrivacyLoss, compose_losses, repeat_loss
from adversary.privacy.mechanisms.calibrated import Exact, checked_change
from adversary.privacy.mechanisms.mechanism import Mechanism, root_of


class LocalReport(Mechanism):
    """Local report: the answer of one unit, a whole number from 0 to `categories` - 1, with noise added by the unit.

    Subclasses are frozen dataclasses with `categories`, the distribution of releases, `scaled` and `privacy_loss`,
    which is the loss of any two answers.
    """

    __slots__ = ()

    is_continuous = False
    is_additive = False
    is_local = True
    categories: int

    def check_value(self, value: ArrayLike, name: str = "value") -> Integers:
        answer = check_whole(name, value, minimum=0)
        if (answer >= self.categories).any():
            raise ValueError(f"{name} must be below categories = {self.categories}, got {int(answer.max())}")
        return answer

    def report_loss(self, apart: float | None = None, cells: int = 1) -> PrivacyLoss:
        """Privacy loss, which is the same for all pairs of answers."""
        return self.privacy_loss(1, cells)

    def report_rho(self, apart: float | None = None) -> float:
        return self.rho()

    def total(self, count: int) -> Mechanism:
        if int(check_whole("count", count, minimum=0)) == 0:
            return Exact()
        if count == 1:
            return self
        raise ValueError(f"{self.kind} is not additive noise: a sum of {count} releases has no total")


@dataclass(frozen=True, slots=True)
class RandomizedResponse(LocalReport):
    """Randomised response over `categories` answers 0, 1, ...: the truth with odds e^epsilon against each other answer.

    A local report: the value is the answer of one unit. Distributions of releases take time and memory proportional to
    the number of categories; the privacy loss does not depend on it.

    Parameters
    ----------
    epsilon : nats, > 0
    categories : number of answers, >= 2

    References
    ----------
    Warner (1965), "Randomized response: a survey technique for eliminating evasive answer bias", JASA 60, for two
    answers; Kairouz, Bonawitz and Ramage (2016), "Discrete distribution estimation under local privacy", section 3, for
    more.

    >>> RandomizedResponse(1.0, 10_000).privacy_loss().epsilon(0.0)
    1.0
    """

    kind = "randomized response"
    parameters = ("epsilon",)
    options = MappingProxyType({"categories": "whole"})
    smallest_release = 0.0

    epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_scale("epsilon", self.epsilon))
        categories = check_whole("categories", one_number("categories", self.categories), minimum=2)
        object.__setattr__(self, "categories", int(categories))

    @classmethod
    def from_epsilon(cls, epsilon: float, sensitivity: float = 1, cells: int = 1, categories: int = 2) -> Self:
        """Randomised response from the total epsilon of all reports of one unit, divided equally among `cells` reports.

        Parameters
        ----------
        epsilon : nats, > 0
        sensitivity : checked, but not used: an answer may change to any other
        cells : number of reports of one unit, >= 1
        categories : number of answers, >= 2

        >>> RandomizedResponse.from_epsilon(2.0, cells=4, categories=100)
        RandomizedResponse(epsilon=0.5, categories=100)
        """
        check_positive("epsilon", epsilon)
        return cls(float(epsilon) / checked_change(sensitivity, cells)[1], categories)

    def describe(self) -> str:
        return f"randomized response, epsilon = {format_number(self.epsilon)}, {self.categories} categories"

    def log_likelihood(self, release: ArrayLike, value: ArrayLike) -> Floats:
        possible = np.logical_and.reduce(
            [(x >= 0) & (x < self.categories) for x in np.broadcast_arrays(release, value)]
        )
        honest, lie = self.log_prob(0, 0), self.log_prob(1, 0)
        return np.where(possible, np.where(np.equal(release, value), honest, lie), -np.inf)

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        return float(self.categories)

    @labelled
    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        honest = self.check_value(release, "release") == self.check_value(value)
        truth = -np.log1p((self.categories - 1.0) * np.exp(-self.epsilon))
        return scalar_or_array(np.where(honest, truth, truth - self.epsilon))

    @labelled
    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        y, x = self.check_value(release, "release"), self.check_value(value)
        lie, truth = np.exp(self.log_prob(1, 0)), np.exp(self.log_prob(0, 0))
        return scalar_or_array((y + 1 - (x <= y)) * lie + (x <= y) * truth)

    @labelled
    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        y, x = self.check_value(release, "release"), self.check_value(value)
        lie, truth = np.exp(self.log_prob(1, 0)), np.exp(self.log_prob(0, 0))
        return scalar_or_array((self.categories - 1 - y - (x > y)) * lie + (x > y) * truth)

    @property
    def variance(self) -> float:
        """Mean square of release minus value, averaged over values: K (K^2 - 1) / 6 times P(one other answer)."""
        k = float(self.categories)
        return k * (k * k - 1.0) / 6.0 * float(np.exp(self.log_prob(1, 0)))

    @property
    def nominal_guarantee(self) -> Guarantee:
        return PureDP(self.epsilon)

    def rho(self, change: float = 1) -> float:
        """zCDP parameter of the privacy loss; for two answers it is the one that pure DP implies."""
        whole = int(check_whole("change", change, minimum=0))
        return pure_rho(self.epsilon) if whole and self.categories == 2 else Mechanism.rho(self, whole)

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        truth = self.check_value(value)
        shape = truth.shape if size is None else size
        honest = rng.random(shape) < np.exp(self.log_prob(0, 0))
        other = (truth + rng.integers(1, self.categories, shape)) % self.categories
        return scalar_or_array(np.where(honest, truth, other))

    def support(self, value: int) -> Integers:
        self.check_value(value)
        return np.arange(self.categories)

    def scaled(self, factor: float) -> Self:
        return replace(self, epsilon=self.epsilon * root_of(factor))

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        change, cells = self.change(sensitivity, cells)
        if not int(check_whole("sensitivity", change, minimum=0)):
            return compose_losses([])
        truth, lie = self.log_prob(0, 0), self.log_prob(1, 0)
        with np.errstate(divide="ignore"):
            others = np.log(self.categories - 2.0) + lie
        losses = self.epsilon * np.array([-1.0, 0.0, 1.0])
        law = LatticeLoss.from_losses(losses, np.array([lie, others, truth]), np.array([truth, others, lie]))
        return repeat_loss(law, cells)
