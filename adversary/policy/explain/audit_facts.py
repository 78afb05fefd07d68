"""What texts about an audit are fed with: where each adversary starts and ends on average, and the bounds beside it.

Averages are exact or estimates, and each says which; they are not bounds. Bounds are rounded outward.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import (
    RARE,
    ends,
    exactly,
    figure_of,
    give_or_take,
    holding,
    how_often,
    in_100,
    listed,
    outward,
    outward_percent,
    percentage,
    plain,
    share,
)
from adversary.driver import OWN
from adversary.policy.explain.guarantee_facts import DIGITS
from adversary.policy.explain.outcomes import STATUS, Finding, findings, told


def of_audit(tree: xr.DataTree, audience: str) -> dict[str, Any]:
    """An audit: every plan and truth, its adversaries, and all statuses."""
    attrs, cases = tree.attrs, []
    for where, found in findings(tree):
        some, rest = told(found)
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
    if not isinstance(truth, dict):
        return str(truth)
    siblings = truth.get("siblings", {})
    named = [f"“{name}” {_numbers(n)}" for name, n in truth.items() if name != "siblings"]
    return listed([*named, *(f"its siblings at “{name}” {_numbers(n)}" for name, n in siblings.items())])


def _numbers(counts: Any) -> str:
    return listed([figure_of(float(x)) for x in np.ravel(counts)])


def _adversary(one: Finding, audience: str) -> dict[str, Any]:
    """One adversary: both steps, averages with their errors, and every bound, the plan's own last."""
    write = in_100 if audience == "lay" else share
    before = one.before if one.settled else None
    facts = {
        "who": one.who, "settled": one.settled, "sure": one.sure, "unreliable": one.unreliable, "exact": one.exact,
        "prior": write(one["prior"]), "before": "" if before is None else write(before),
        "invariant_ratio": figure_of(one["invariant_ratio"]) if one.settled else "",
        "bounds": [_bound(one, bound, audience) for bound in [*one.promises, one.own]],
        "told": _bound(one, one.told, audience), "failed": "",
    }  # fmt: skip
    if one.unreliable:
        mass = one["unreliable_mass"] if "unreliable_mass" in one.risk else 0.0
        return facts | {"failed": share(mass) if mass else ""}
    low, high = (float(one.risk["posterior_quantile"][i]) for i in (0, -1))
    word, comma, rest = how_often(one["prob_correct"]).partition(",")
    error = one.error("posterior_mean")
    return facts | {
        "mean": write(one["posterior_mean"]), "ratio": figure_of(one["ratio_mean"]),
        "correct": share(one["prob_correct"]),
        "error": in_100(error) if error > 0.0 else "", "mean_error": give_or_take(100.0 * error),
        "ratio_error": give_or_take(one.error("ratio_mean")),
        "correct_error": give_or_take(100.0 * one.error("prob_correct")),
        "right": f"right {word}" if word[0].isdigit() else f"{word} right{comma}{rest}",
        "quantiles": (share(low), share(high)), "difference": figure_of(100.0 * one["difference_mean"]),
        "ties": share(one["tie_mass"]),
    }  # fmt: skip


def _bound(one: Finding, bound: xr.Dataset, audience: str) -> dict[str, Any]:
    """A bound at this adversary's start, how often it fails and how often it is passed."""
    low, high = (float(end) for end in bound["posterior"].values)
    least, most = (float(end) for end in bound["ratio"].values)
    failure, outside, loss = (float(bound[key]) for key in ("failure", "outside", "loss_bound"))
    name, status, finite = str(bound["definition"].item()), str(bound["status"].item()), bool(np.isfinite(loss))
    shown = ends(one["prior"], low, high, digits=min(DIGITS[audience], 3)) if finite and not one.sure else ("", "")
    return {
        "name": name, "own": name == OWN, "status": status, "says": STATUS[status], "finite": finite,
        "k": int(bound["k"]), "certain": failure == 0.0, "holding": holding(failure) if failure else "",
        "share": percentage(failure, True), "failure": exactly(failure), "low": shown[0], "high": shown[1],
        "most": plain(most, True) if finite else "", "loss": outward(loss, True) if finite else "",
        "x": (outward_percent(low, False), outward_percent(high, True)),
        "ratio": (outward(least, False), outward(most, True)),
        "outside": "" if np.isnan(outside) else _above(outside),
        "beyond": how_often(outside) if outside < RARE else f"{_above(outside)} times in 100",
    }  # fmt: skip


def _above(p: float) -> str:
    """A probability times 100, rounded up."""
    return outward_percent(p, True) if p == 0.0 or p >= 1e-8 else "less than 0.000001"
