"""What texts speak of: adversaries whom a recommendation lets rise; adversaries, plans and truths of an audit's
tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product

import numpy as np
import xarray as xr

from adversary._core import decimals_for, in_percent, listed, tidy
from adversary.driver import OWN, UNRELIABLE
from adversary.policy.budget import (
    BOUNDED,
    Recommendation,
    ReleaseBudget,
    absolute_risk_bound,
    allocate,
    equivalent_epsilon,
)
from adversary.policy.explain.guarantee_facts import PRIORS

SAME = 1e-12
"""What is reached and what is tolerated count as equal within this relative difference: they were solved for."""

CLOSER = 3
"""Decimals to add, at most, so that what is reached and what is tolerated do not cross."""

STATUS = {
    "holds": "holds",
    "exceeded": "exceeded: this adversary's beliefs are mistaken or do not add up to one; the guarantee is true",
    "violated": "violated: the noise does not satisfy the guarantee",
    UNRELIABLE: "unreliable, because the sampler failed, so that this cannot be judged",
}
"""What the status of a bound means."""

NEGLIGIBLE = 1e-12
"""Standard errors up to this are those of rounding."""

SPELLED = 6
"""Adversaries of one case that are all told; of more, those with the least and the largest average ratio."""


@dataclass(frozen=True)
class Rise:
    """How far an epsilon lets one adversary rise, and what is tolerated of them.

    `start` is p q, `reached` an upper bound on the posterior, `tolerated` p q r*(p, q), 1 at most; `asked` says whether
    the profile is about this adversary.
    """

    inclusion: float
    value: float
    start: float
    reached: float
    tolerated: float
    asked: bool = True

    @classmethod
    def of(cls, found: Recommendation, inclusion: float, value: float, epsilon: float) -> Rise:
        """Of the adversary with these priors, at this epsilon."""
        start = inclusion * value
        ratio = float(found.profile(inclusion, value))
        most = min(1.0, start * ratio)
        high = float(absolute_risk_bound(inclusion, value, epsilon, statistic=found.statistic))
        reached = most if abs(high - most) <= SAME * most else high
        return cls(inclusion, value, start, reached, most, bool(np.isfinite(ratio)))

    @property
    def limited(self) -> bool:
        """Whether anything above 0 and below 1 is ruled out."""
        return self.tolerated < 1.0

    def up_to(self, digits: int) -> str:
        """What is tolerated, times 100, rounded down."""
        return in_percent(self.tolerated, False, decimals_for(self.tolerated, digits=digits + 2))

    def ends(self, digits: int, unit: str, most: str) -> str:
        """ "up to so much", and what was tolerated; `most` says that it is what was tolerated."""
        least = decimals_for(self.reached - self.start, digits=digits)
        for decimals in range(least, least + CLOSER + 1):
            up = in_percent(self.reached, True, decimals)
            down = in_percent(self.tolerated, False, max(decimals, decimals_for(self.tolerated, digits=digits + 1)))
            if self.reached > self.tolerated or _number(up) <= _number(down):
                break
        if self.reached > self.tolerated:  # by a search that missed this adversary
            return f"{up}{unit}, beyond the {down}{unit} that {most}"
        if self.reached < self.tolerated and _number(up) <= _number(down):
            return f"{up}{unit}" if not self.limited else f"{up}{unit}, and up to {down}{unit} {most}"
        places = decimals_for(self.tolerated, digits=4)
        if (shown := in_percent(self.tolerated, True, places)) == in_percent(self.tolerated, False, places):
            return f"{shown}{unit}, which is what {most}"
        nearest = (100 * Decimal(repr(self.tolerated))).quantize(Decimal(1).scaleb(-places))
        return f"what {most}, about {tidy(nearest)}{unit}"


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def rises(found: Recommendation, priors: Sequence[float] | None, epsilon: float | None = None) -> list[Rise]:
    """The adversary who binds, where there is one, and adversaries with the priors asked for whom the profile is about.

    Where values are in question the priors are of the value, for adversaries as sure of inclusion as the profile has
    them; otherwise they are of inclusion.
    """
    (p0, p1), (q0, q1) = found.profile.domain
    about_values = found.profile.about_values
    asked = [(p1, prior) if about_values else (prior, 1.0) for prior in (PRIORS if priors is None else priors)]
    pairs = [(p, q) for p, q in asked if p0 <= p <= p1 and q0 <= q <= q1 and p * q > 0.0]
    binding = [(found.inclusion, found.value)] if found.attained else []
    at = found.epsilon if epsilon is None else epsilon
    every = [Rise.of(found, p, q, at) for p, q in dict.fromkeys([*binding, *pairs])]
    return [one for one in every if one.tolerated < 1.0 or one.start < 1.0]


def unrounded(found: Recommendation) -> Recommendation:
    """The recommendation without its rounding, where that leaves nothing of it."""
    return replace(found, round_down=None) if found.status == BOUNDED and found.epsilon == 0.0 else found


def kept_by(made: ReleaseBudget) -> ReleaseBudget:
    """The same of a release budget."""
    if made.status != BOUNDED or made.parameter > 0.0:
        return made
    each = made.delta_each if made.definition == "approximate DP" else 0.0
    return allocate(
        made.recommended, made.definition, failure=made.failure, delta=made.delta, releases=made.releases,
        composition=made.composition, delta_each=each,
    )  # fmt: skip


def worth(made: ReleaseBudget) -> float:
    """Epsilon that all releases of a bounded guarantee amount to."""
    found = made.recommended
    assert made.total is not None
    values = found.statistic == "any" and found.profile.about_values
    return min(found.loss, equivalent_epsilon(made.total, made.failure, values=values, two=made.two))


# Of an audit


@dataclass(frozen=True)
class Finding:
    """One adversary under one plan and truth."""

    name: str
    risk: xr.Dataset
    bound: xr.Dataset

    def __getitem__(self, measure: str) -> float:
        return float(self.risk[measure])

    @property
    def unreliable(self) -> bool:
        """Whether the sampler failed, so that averages are not numbers."""
        return "status" in self.risk and str(self.risk["status"].item()) == UNRELIABLE

    @property
    def exact(self) -> bool:
        """Whether averages are exact."""
        return self.risk["posterior_mean"].attrs.get("direction") == "exact" or not self.error("posterior_mean")

    def error(self, measure: str) -> float:
        """Monte Carlo standard error of an average; 0 where it is exact."""
        if "mcse" not in self.risk:
            return 0.0
        found = float(np.nan_to_num(self.risk["mcse"].sel(measure=measure)))
        return found if found > NEGLIGIBLE else 0.0

    @property
    def settled(self) -> bool:
        """Whether some levels are published exactly, and moved the prior."""
        return "invariant_ratio" in self.risk and bool(np.isfinite(self["invariant_ratio"]))

    @property
    def sure(self) -> bool:
        """Whether the adversary is sure before the noise is read."""
        return self["prior"] in (0.0, 1.0)

    @property
    def before(self) -> float | None:
        """The prior before the exact levels; None where it cannot be told from what they left."""
        factor, base = self["invariant_ratio"], self["prior"]
        return base / factor if factor > 0.0 and base > 0.0 else None

    @property
    def who(self) -> str:
        """The adversary in a sentence."""
        return f"adversary “{self.name}”" if self.name else "the adversary"

    @property
    def promises(self) -> list[xr.Dataset]:
        """The bounds of what was guaranteed, the tightest first; without the plan's own loss."""
        every = [self.bound.sel(definition=name) for name in self.bound["definition"].values if name != OWN]
        return sorted(every, key=lambda one: float(one["loss_bound"]))

    @property
    def told(self) -> xr.Dataset:
        """The bound to tell of if only one is: a guarantee before the plan's own loss, one that fails, the tightest."""
        bad = ("violated", "exceeded", UNRELIABLE)
        failing = [one for status in bad for one in self.promises if str(one["status"].item()) == status]
        return [*failing, *self.promises, self.own][0]

    @property
    def own(self) -> xr.Dataset:
        """The bound of the plan's own loss."""
        return self.bound.sel(definition=OWN)


def findings(tree: xr.DataTree) -> Iterator[tuple[str, list[Finding]]]:
    """(which plan and truth, adversaries) of every case; "" where there is only one."""
    risk, bound = tree["risk"].to_dataset(), tree["bound"].to_dataset()
    dims = [dim for dim in ("plan", "truth") if dim in risk.dims]
    for names in product(*(risk[dim].values for dim in dims)):
        where = dict(zip(dims, names, strict=True))
        parts = [data.sel({k: v for k, v in where.items() if k in data.dims}, drop=True) for data in (risk, bound)]
        yield listed([f"{dim} “{name}”" for dim, name in where.items()]), list(_readers(*parts))


def _readers(risk: xr.Dataset, bound: xr.Dataset) -> Iterator[Finding]:
    if "adversary" not in risk.dims:
        yield Finding("", risk, bound)
        return
    for name in risk["adversary"].values:
        yield Finding(
            str(name),
            risk.sel(adversary=name, drop=True),
            bound.sel(adversary=name, drop=True) if "adversary" in bound.dims else bound,
        )


def told(found: list[Finding]) -> tuple[list[Finding], str]:
    """(adversaries to tell of one by one, what to say of the others)."""
    sure = [one for one in found if not one.unreliable]
    if len(found) <= SPELLED or not sure:
        return found[:SPELLED], f"There are {len(found)} adversaries in all." * (len(found) > SPELLED)
    least, most = min(sure, key=lambda one: one["ratio_mean"]), max(sure, key=lambda one: one["ratio_mean"])
    failed = len(found) - len(sure)
    rest = f"; for {failed} of them there is no number, because the sampler failed" if failed else ""
    return [least, most], f"The other adversaries' average ratios lie between these two, {len(found)} in all{rest}."
