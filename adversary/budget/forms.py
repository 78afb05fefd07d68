"""Forms of a guarantee: a definition or a noise, a number of releases, and a composition.

A form converts the parameter of one release to the joint guarantee of all releases, for hypotheses one and two records
apart. In "exact" composition the failure probability is that of the joint privacy loss of all releases. Published
compositions use a total (epsilon, delta) (Kazan et al. 2025, section 2.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from adversary._core import check_whole
from adversary.budget.risk_bounds import check_word, equivalent_epsilon
from adversary.privacy import Guarantee
from adversary.privacy.definitions import (
    ApproximateDP,
    GaussianDP,
    PureDP,
    ZeroConcentratedDP,
    check_delta,
    compose_advanced,
    compose_lattice,
    compose_optimal,
)
from adversary.privacy.mechanisms import Mechanism, kinds

# Definitions by name: the unit of the parameter, and the guarantee with this parameter and delta.
DEFINITIONS: Mapping[str, tuple[str, Callable[[float, float], Guarantee]]] = MappingProxyType(
    {
        "pure DP": ("epsilon", lambda epsilon, delta: PureDP(epsilon)),
        "approximate DP": ("epsilon", ApproximateDP),
        "zCDP": ("rho", lambda rho, delta: ZeroConcentratedDP(rho)),
        "Gaussian DP": ("mu", lambda mu, delta: GaussianDP(mu)),
    }
)

NOISES: Mapping[str, tuple[str, Callable[[float], Mechanism]]] = MappingProxyType(
    {
        kind: (unit, getattr(law, f"from_{unit}"))
        for unit in ("epsilon", "rho")
        for kind, law in kinds().items()
        if law.is_additive and unit in law.parameters and hasattr(law, f"from_{unit}")
    }
)
"""Noise added to counts, by name: the unit of the parameter, and the mechanism with it, at sensitivity 1."""

# Published compositions: the total epsilon of n releases with (epsilon, each)-DP at a total delta.
TOTALS: Mapping[str, Callable[[float, int, float, float], float]] = MappingProxyType(
    {
        "basic": lambda epsilon, n, delta, each: n * epsilon,
        "advanced": lambda epsilon, n, delta, each: compose_advanced([epsilon] * n, delta, each),
        "lattice": compose_lattice,
        "optimal": compose_optimal,
    }
)

COMPOSITIONS = (*TOTALS, "exact")

# Definitions with published compositions; all others have "exact" only.
COMPOSED = ("pure DP", "approximate DP")


class Together(NamedTuple):
    """Guarantees of one release, of all, and of all for hypotheses two records apart (None for `total.group(2)`)."""

    one: Guarantee
    total: Guarantee
    two: Guarantee | None


@dataclass(frozen=True)
class Form:
    """A definition or noise by name, the number of releases and how they compose.

    Parameters
    ----------
    definition : a name in DEFINITIONS or NOISES
    composition : one of COMPOSITIONS; only pure and approximate DP have one other than "exact"
    releases : number of releases, >= 1
    delta, delta_each : delta of the total (epsilon, delta), and of one release of approximate DP. In "exact" and
        "basic" composition a delta_each of 0 stands for delta / releases
    """

    definition: str
    composition: str = "exact"
    releases: int = 1
    delta: float = 0.0
    delta_each: float = 0.0

    def __post_init__(self) -> None:
        check_word("definition", self.definition, (*DEFINITIONS, *NOISES))
        check_word("composition", self.composition, COMPOSITIONS)
        if self.composition != "exact" and self.definition not in COMPOSED:
            raise ValueError(f"composition of {self.definition} must be 'exact', got {self.composition!r}")
        n = int(check_whole("releases", self.releases, minimum=1))
        delta, each = (float(check_delta(name, getattr(self, name))) for name in ("delta", "delta_each"))
        shared = self.composition in ("basic", "exact")
        if self.definition == "approximate DP":
            each = each or (delta / n if shared else 0.0)
        elif each:
            raise ValueError(f"delta_each must be 0 unless definition is 'approximate DP', got {each}")
        else:
            delta = 0.0 if shared else delta
        if self.composition != "exact" and delta < n * each * (1.0 - 1e-12):
            raise ValueError(f"delta must be at least the {n * each:g} that {n} releases spend, got {delta}")
        for name, x in (("releases", n), ("delta", delta), ("delta_each", each)):
            object.__setattr__(self, name, x)

    @property
    def unit(self) -> str:
        """Name of the parameter: "epsilon", "rho" or "mu"."""
        return (DEFINITIONS.get(self.definition) or NOISES[self.definition])[0]

    def guarantees(self, parameter: float, *, values: bool = True) -> Together:
        """The guarantees of releases with this parameter each, for values and inclusion, or for inclusion only."""
        one: Guarantee
        pair: Guarantee | None
        if self.definition in NOISES:
            noise = NOISES[self.definition][1](parameter)
            one, pair = noise.privacy_loss(1, 1), noise.privacy_loss(1, 2) if values else None
        else:
            one = DEFINITIONS[self.definition][1](parameter, self.delta_each)
            pair = one.group(2) if values else None
        if self.composition == "exact":
            return Together(one, self.releases * one, None if pair is None else self.releases * pair)
        total = TOTALS[self.composition](parameter, self.releases, self.delta, self.delta_each)
        return Together(one, ApproximateDP(total, self.delta) if self.delta else PureDP(total), None)

    def equivalent(self, parameter: float, failure: float, values: bool) -> float:
        """Equivalent epsilon of all releases with this parameter each; see `equivalent_epsilon`."""
        together = self.guarantees(parameter, values=values)
        return equivalent_epsilon(together.total, failure, values=values, two=together.two)

    def guess(self, epsilon: float) -> float:
        """Start of a search: a parameter whose releases have about this equivalent epsilon."""
        spread = 0.3 * epsilon / np.sqrt(self.releases)
        return float({"epsilon": epsilon / self.releases, "rho": 0.5 * spread**2, "mu": spread}[self.unit])
