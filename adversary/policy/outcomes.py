"""What of an audit's tree a text speaks of: every reader under every plan and truth, and the bounds beside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr

from adversary.driver import OWN
from adversary.policy.phrases import listed

UNRELIABLE = "unreliable"
STATUS = {
    "holds": "holds",
    "exceeded": "exceeded, because this reader's beliefs are mistaken or do not add up to one; the promise is true",
    "violated": "violated, because the noise does not keep the promise, whoever reads",
    UNRELIABLE: "unreliable, because the sampler failed, so that this cannot be judged",
}
"""What the status of a bound means."""

NEGLIGIBLE = 1e-12
"""Standard errors up to this are those of rounding."""

SPELLED = 6
"""Readers of one case that are all told; of more, those with the least and the largest average ratio."""


@dataclass(frozen=True)
class Finding:
    """One reader under one plan and truth."""

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
        """Whether the reader is sure before the noise is read."""
        return self["prior"] in (0.0, 1.0)

    @property
    def before(self) -> float | None:
        """The prior before the exact levels; None where it cannot be told from what they left."""
        factor, base = self["invariant_ratio"], self["prior"]
        return base / factor if factor > 0.0 and base > 0.0 else None

    @property
    def who(self) -> str:
        """The reader in a sentence."""
        return f"reader “{self.name}”" if self.name else "the reader"

    @property
    def promises(self) -> list[xr.Dataset]:
        """The bounds of what was promised, the tightest first; without the plan's own loss."""
        every = [self.bound.sel(definition=name) for name in self.bound["definition"].values if name != OWN]
        return sorted(every, key=lambda one: float(one["loss_bound"]))

    @property
    def told(self) -> xr.Dataset:
        """The bound to tell of if only one is: a promise before the plan's own loss, one that fails, the tightest."""
        bad = ("violated", "exceeded", UNRELIABLE)
        failing = [one for status in bad for one in self.promises if str(one["status"].item()) == status]
        return [*failing, *self.promises, self.own][0]

    @property
    def own(self) -> xr.Dataset:
        """The bound of the plan's own loss."""
        return self.bound.sel(definition=OWN)


def findings(tree: xr.DataTree) -> Iterator[tuple[str, list[Finding]]]:
    """(which plan and truth, readers) of every case; "" where there is only one."""
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
    """(readers to tell of one by one, what to say of the others)."""
    sure = [one for one in found if not one.unreliable]
    if len(found) <= SPELLED or not sure:
        return found[:SPELLED], f"There are {len(found)} readers in all." * (len(found) > SPELLED)
    least, most = min(sure, key=lambda one: one["ratio_mean"]), max(sure, key=lambda one: one["ratio_mean"])
    failed = len(found) - len(sure)
    rest = f"; for {failed} of them there is no number, because the sampler failed" if failed else ""
    return [least, most], f"The other readers' average ratios lie between these two, {len(found)} in all{rest}."
