"""Skeleton of a belief: copy it to `adversary/adversaries/beliefs/`, then change the law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from adversary._core import Floats, check_probability, check_whole, format_number, one_number
from adversary.adversaries.beliefs.belief import IndependentBelief


@dataclass(frozen=True)
class Turnout(IndependentBelief):
    """Each of n others is counted with the same known chance c, independently: P(k) = C(n, k) c^k (1 - c)^(n - k).

    Parameters
    ----------
    n : number of other people, >= 0
    chance : c, in [0, 1]

    >>> round(float(np.exp(Turnout(2, 0.5).log_prob(1, 0))), 12)
    0.5
    """

    # Scenario files know the belief as { law = "...", n = 2, chance = 0.5 } once it has a `kind`.

    n: int
    chance: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", int(check_whole("n", one_number("n", self.n), minimum=0)))
        object.__setattr__(self, "chance", float(check_probability("chance", one_number("chance", self.chance))))

    def log_pmf(self, count: Floats) -> Floats:
        possible = (count >= 0) & (count <= self.n)
        k, n = np.where(possible, count, 0.0), self.n
        choose = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
        return np.where(possible, choose + xlogy(k, self.chance) + xlog1py(n - k, -self.chance), -np.inf)

    def outside(self) -> tuple[int, int | None]:
        return 0, self.n

    def bulk(self) -> tuple[int, int]:
        return 0, self.n

    def describe(self, level: str, inside: str) -> str:
        others = f"each of {self.n} people of the {level} outside the {inside}"
        return f"{others} is counted with chance {format_number(self.chance)}"
