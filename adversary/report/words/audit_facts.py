"""Facts of an audit for the templates: each adversary's prior and expected posterior, and the bounds of guarantees.

Averages are exact or estimates, and are marked as such; they are not bounds. Bounds are rounded outward.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import (
    RARE,
    exactly,
    format_bound,
    format_number,
    format_probability,
    give_or_take,
    holding,
    how_often,
    in_100,
    join_words,
    outward_percent,
    percentage,
    tied,
)
from adversary.driver import OWN, UNRELIABLE, shown_bound

STATUS = {
    "holds": "holds",
    "exceeded": "exceeded: this adversary's beliefs are mistaken or do not add up to one; the guarantee is true",
    "violated": "violated: the noise does not satisfy the guarantee",
    UNRELIABLE: "unreliable, because the sampler failed, so that this cannot be judged",
}
"""Statuses of a bound, with their meanings."""

# Standard errors up to this are rounding errors.
NEGLIGIBLE = 1e-12

# Up to so many adversaries of a case are all described; of more, those with the least and the largest average ratio.
SPELLED = 6


def facts_of_audit(tree: xr.DataTree, audience: str) -> dict[str, Any]:
    """Facts of an audit: every plan and truth with its adversaries, and all statuses."""
    attrs, cases = tree.attrs, []
    for where, finding in findings(tree):
        some, rest = selected(finding)
        cases.append({"where": where, "rest": rest, "adversaries": [_adversary(one, audience) for one in some]})
    every = [str(status) for status in np.unique(tree["bound"].to_dataset()["status"].values) if status]
    truths = json.loads(attrs.get("truth", "{}"))
    counts = [f"{f'under truth “{name}”, ' * (len(truths) > 1)}{_counts(truth)}" for name, truth in truths.items()]
    return {
        "cases": cases, "target": attrs.get("target", "in"), "engine": attrs.get("engine", "exact"),
        "neighbours": attrs.get("neighbours", "unknown"), "truth": json.dumps(truths.get("truth", truths)),
        "counts": "; ".join(counts), "statuses": [one for one in every if one != "holds"],
        "all_hold": every == ["holds"],
    }  # fmt: skip


def _counts(truth: Any) -> str:
    """True counts of every level, and of siblings, in words."""
    if not isinstance(truth, dict):
        return str(truth)
    siblings = truth.get("siblings", {})
    named = [f"“{name}” {_counts_text(n)}" for name, n in truth.items() if name != "siblings"]
    return join_words([*named, *(f"its siblings at “{name}” {_counts_text(n)}" for name, n in siblings.items())])


def _counts_text(counts: Any) -> str:
    return join_words([format_number(float(x)) for x in np.ravel(counts)])


def _adversary(one: Finding, audience: str) -> dict[str, Any]:
    """Facts of one adversary: prior, exact levels, averages with their errors, and bounds, the plan's own last."""
    write = in_100 if audience == "lay" else format_probability
    before = one.before if one.settled else None
    facts = {
        "who": one.who, "settled": one.settled, "sure": one.sure, "unreliable": one.unreliable, "exact": one.exact,
        "prior": write(one["prior"]), "before": "" if before is None else write(before),
        "invariant_ratio": format_number(one["invariant_ratio"]) if one.settled else "",
        "bounds": [_bound(bound) for bound in [*one.guarantees, one.own]],
        "headline": [_bound(bound) for bound in one.headline], "failed": "",
    }  # fmt: skip
    if one.unreliable:
        mass = one["unreliable_mass"] if "unreliable_mass" in one.risk else 0.0
        return facts | {"failed": format_probability(mass) if mass else ""}
    low, high = (float(one.risk["posterior_quantile"][i]) for i in (0, -1))
    word, comma, rest = how_often(one["prob_correct"]).partition(",")
    error = one.error("posterior_mean")
    return facts | {
        "mean": write(one["posterior_mean"]), "ratio": format_number(one["ratio_mean"]),
        "correct": format_probability(one["prob_correct"]),
        "error": in_100(error) if error > 0.0 else "", "mean_error": give_or_take(100.0 * error),
        "ratio_error": give_or_take(one.error("ratio_mean")),
        "correct_error": give_or_take(100.0 * one.error("prob_correct")),
        "right": f"right {word}" if word[0].isdigit() else f"{word} right{comma}{rest}",
        "quantiles": (percentage(low, False), percentage(high, True)),
        "difference": format_number(100.0 * one["difference_mean"]),
        "ties": format_probability(one["tie_mass"]),
    }  # fmt: skip


def _bound(bound: xr.Dataset) -> dict[str, Any]:
    """Facts of a bound at an adversary's prior: its ends, failure probability and P(release beyond it)."""
    low, high = (float(end) for end in bound["posterior"].values)
    least, most = (float(end) for end in bound["ratio"].values)
    failure, outside, loss = (float(bound[key]) for key in ("failure", "outside", "loss_bound"))
    name, status, finite = str(bound["definition"].item()), str(bound["status"].item()), bool(np.isfinite(loss))
    # with the digits of the report's tables, for every audience
    shown = outward_percent(low, False), outward_percent(high, True)
    return {
        "name": name, "own": name == OWN, "status": status, "says": STATUS[status], "finite": finite,
        "k": int(bound["k"]), "certain": failure == 0.0, "holding": holding(failure) if failure else "",
        "share": percentage(failure, True), "failure": exactly(failure), "low": shown[0], "high": shown[1],
        "most": format_bound(most, True) if finite else "", "loss": format_bound(loss, True) if finite else "",
        "ratio": (format_bound(least, False), format_bound(most, True)),
        "outside": "" if np.isnan(outside) else _percent_above(outside),
        "beyond": how_often(outside) if outside < RARE else f"{_percent_above(outside)} times in 100",
    }  # fmt: skip


def _percent_above(p: float) -> str:
    """A probability times 100, rounded up."""
    return outward_percent(p, True) if p == 0.0 or p >= 1e-8 else "less than 0.000001"


@dataclass(frozen=True)
class Finding:
    """Results of an audit for one adversary, under one plan and truth; indexing gives an average by name."""

    name: str
    risk: xr.Dataset
    bound: xr.Dataset

    def __getitem__(self, measure: str) -> float:
        return float(self.risk[measure])

    @property
    def unreliable(self) -> bool:
        """True if the sampler failed, so that averages are not numbers."""
        return "status" in self.risk and str(self.risk["status"].item()) == UNRELIABLE

    @property
    def exact(self) -> bool:
        """True if averages are exact."""
        return self.risk["posterior_mean"].attrs.get("direction") == "exact" or not self.error("posterior_mean")

    def error(self, measure: str) -> float:
        """Monte Carlo standard error of an average; 0 if it is exact."""
        if "mcse" not in self.risk:
            return 0.0
        error = float(np.nan_to_num(self.risk["mcse"].sel(measure=measure)))
        return error if error > NEGLIGIBLE else 0.0

    @property
    def settled(self) -> bool:
        """True if some levels are published exactly, so that the prior is given these."""
        return "invariant_ratio" in self.risk and bool(np.isfinite(self["invariant_ratio"]))

    @property
    def sure(self) -> bool:
        """True if the adversary is certain before the noisy levels."""
        return self["prior"] in (0.0, 1.0)

    @property
    def before(self) -> float | None:
        """Prior before the exact levels; None if the factor or the prior given them is 0."""
        factor, base = self["invariant_ratio"], self["prior"]
        return base / factor if factor > 0.0 and base > 0.0 else None

    @property
    def who(self) -> str:
        """The adversary's name for a sentence."""
        return f"adversary “{self.name}”" if self.name else "the adversary"

    @property
    def guarantees(self) -> list[xr.Dataset]:
        """Bounds of the guarantees, the tightest first, without the plan's own loss."""
        every = [self.bound.sel(definition=name) for name in self.bound["definition"].values if name != OWN]
        return sorted(every, key=lambda one: float(one["loss_bound"]))

    @property
    def headline(self) -> list[xr.Dataset]:
        """Few bounds for a short text: the tightest that is violated or exceeded, and last the one of `shown_bound`."""
        shown, bad = shown_bound(self.bound), ("violated", "exceeded", UNRELIABLE)
        others = [one for one in self.guarantees if one["definition"].item() != shown["definition"].item()]
        return [*[one for status in bad for one in others if str(one["status"].item()) == status][:1], shown]

    @property
    def own(self) -> xr.Dataset:
        """Bound of the plan's own loss."""
        return self.bound.sel(definition=OWN)


def findings(tree: xr.DataTree) -> Iterator[tuple[str, list[Finding]]]:
    """(plan and truth in words, results of its adversaries) of every case; the words are "" for a single case."""
    risk, bound = tree["risk"].to_dataset(), tree["bound"].to_dataset()
    dims = [dim for dim in ("plan", "truth") if dim in risk.dims]
    for names in product(*(risk[dim].values for dim in dims)):
        where = dict(zip(dims, names, strict=True))
        parts = [data.sel({k: v for k, v in where.items() if k in data.dims}, drop=True) for data in (risk, bound)]
        yield join_words([f"{dim} “{name}”" for dim, name in where.items()]), list(_of_adversaries(*parts))


def _of_adversaries(risk: xr.Dataset, bound: xr.Dataset) -> Iterator[Finding]:
    """Results of every adversary; a single one without dim adversary has the name ""."""
    if "adversary" not in risk.dims:
        yield Finding("", risk, bound)
        return
    for name in risk["adversary"].values:
        yield Finding(
            str(name),
            risk.sel(adversary=name, drop=True),
            bound.sel(adversary=name, drop=True) if "adversary" in bound.dims else bound,
        )


def selected(findings_left: list[Finding]) -> tuple[list[Finding], str]:
    """(results of adversaries to describe one by one, a sentence about the others)."""
    sure = [one for one in findings_left if not one.unreliable]
    if len(findings_left) <= SPELLED or not sure:
        return findings_left[:SPELLED], f"There are {len(findings_left)} adversaries in all." * (
            len(findings_left) > SPELLED
        )
    least, most = min(sure, key=lambda one: one["ratio_mean"]), max(sure, key=lambda one: one["ratio_mean"])
    failed = len(findings_left) - len(sure)
    if tied([one["ratio_mean"] for one in sure], [one.error("ratio_mean") for one in sure]).all():
        least, alike = most, "are the same within the errors of the numbers"
    else:
        alike = "lie between these two"
    rest = f"; for {failed} of them there is no number, because the sampler failed" if failed else ""
    shown = [least] if least is most else [least, most]
    return shown, f"The other adversaries' average ratios {alike}, {len(findings_left)} in all{rest}."
