"""Beliefs about others whose rate is unknown, with the rate integrated out exactly.

The adversary does not know how common a trait is. With a conjugate prior on its rate, the count of others has a
closed-form distribution. `models.hierarchical_counts(..., rates=True)` has the same belief with a latent rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import betainc, gammaln

from adversary._core import Floats, check_positive, check_whole, format_number, one_number
from adversary.adversaries.beliefs.belief import IndependentBelief, others_of
from adversary.adversaries.beliefs.elicited import law_edges


@dataclass(frozen=True)
class GammaPoisson(IndependentBelief):
    """Poisson count of others with a Gamma-distributed unknown rate: negative binomial after integration.

        rate ~ Gamma(shape a, rate b),   others | rate ~ Poisson(rate * exposure e)
        P(others = k) = Gamma(k + a) / (Gamma(a) k!) (b / (b + e))^a (e / (b + e))^k

    Parameters
    ----------
    shape : a > 0
    rate : b > 0, per unit of exposure
    exposure : e > 0, for instance the number of other units, or of other people

    References
    ----------
    Gelman et al. (2013), Bayesian Data Analysis, section 2.6.

    >>> round(float(np.exp(GammaPoisson(1.0, 1.0).log_prob(0, 0))), 12)
    0.5
    """

    kind = "gamma poisson"

    shape: float
    rate: float
    exposure: float = 1.0

    def __post_init__(self) -> None:
        for name in ("shape", "rate", "exposure"):
            check_positive(name, getattr(self, name))
            object.__setattr__(self, name, one_number(name, getattr(self, name)))

    def log_pmf(self, count: Floats) -> Floats:
        k, a, b, e = np.maximum(count, 0.0), self.shape, self.rate, self.exposure
        choose = gammaln(k + a) - gammaln(a) - gammaln(k + 1.0)
        value = choose - a * np.log1p(e / b) - k * np.log1p(b / e)
        return np.where(count >= 0, value, -np.inf)

    def outside(self) -> tuple[int, int | None]:
        return 0, None

    def bulk(self) -> tuple[int, int]:
        return self._edges

    def describe(self, level: str, inside: str) -> str:
        law = f"a Gamma law of shape {format_number(self.shape)} and rate {format_number(self.rate)}"
        mean = format_number(self.shape * self.exposure / self.rate)
        exposure = f", times {format_number(self.exposure)}" * (self.exposure != 1.0)
        others = others_of(level, inside)
        return f"{others} are Poisson with a rate not known: {law}{exposure} ({mean} people expected)"

    @cached_property
    def _edges(self) -> tuple[int, int]:
        a, part = self.shape, self.rate / (self.rate + self.exposure)
        rest = self.exposure / (self.rate + self.exposure)
        mean = int(self.shape * self.exposure / self.rate)
        return law_edges(
            mean,
            (0, np.inf),
            lambda k: float(betainc(a, k + 1.0, part)) if k >= 0 else 0.0,
            lambda k: float(betainc(k + 1.0, a, rest)),
        )


@dataclass(frozen=True)
class BetaBinomial(IndependentBelief):
    """Binomial count of n others with a Beta-distributed unknown chance: beta-binomial after integration.

        chance ~ Beta(alpha, beta),   others | chance ~ Binomial(n, chance)
        P(others = k) = C(n, k) B(k + alpha, n - k + beta) / B(alpha, beta)

    Parameters
    ----------
    n : number of other people, >= 0
    alpha, beta : parameters of the Beta distribution, > 0

    References
    ----------
    Gelman et al. (2013), Bayesian Data Analysis, section 5.3.

    >>> round(float(np.exp(BetaBinomial(4, 1.0, 1.0).log_prob(2, 0))), 12)
    0.2
    """

    kind = "beta binomial"

    n: int
    alpha: float
    beta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", int(check_whole("n", self.n, minimum=0)))
        for name in ("alpha", "beta"):
            check_positive(name, getattr(self, name))
            object.__setattr__(self, name, one_number(name, getattr(self, name)))

    def log_pmf(self, count: Floats) -> Floats:
        possible = (count >= 0) & (count <= self.n)
        k, n, a, b = np.where(possible, count, 0.0), self.n, self.alpha, self.beta
        choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
        value = choose + _log_beta(k + a, n - k + b) - _log_beta(a, b)
        return np.where(possible, value, -np.inf)

    def outside(self) -> tuple[int, int | None]:
        return 0, self.n

    def bulk(self) -> tuple[int, int]:
        return 0, self.n

    def describe(self, level: str, inside: str) -> str:
        chance = f"a Beta law, alpha = {format_number(self.alpha)}, beta = {format_number(self.beta)}"
        mean = format_number(self.n * self.alpha / (self.alpha + self.beta))
        return (
            f"each of {self.n} people of the {level} outside the {inside} is in the cell with the same chance, "
            f"which is not known: {chance} ({mean} people expected)"
        )


def _log_beta(a: Floats | float, b: Floats | float) -> Floats:
    return np.asarray(gammaln(a) + gammaln(b) - gammaln(a + b), dtype=np.float64)
