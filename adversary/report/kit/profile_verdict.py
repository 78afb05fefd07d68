"""Verdicts on whether the planned release satisfies the risk profile of its scenario, and sentences about them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import xarray as xr

from adversary import budget
from adversary._core import failure_of, format_bound, join_words
from adversary.budget import BROKEN, KEPT, NOT_COVERED
from adversary.report.files import Scenario
from adversary.report.kit.audit_words import definition_words, remedy

GROUP = "profile"

# Key of the sentence for a broken profile without any guarantee in the scenario.
UNGUARANTEED = "broken, and nothing guaranteed"

# Sentences for the verdicts on the planned release.
SENTENCES = {
    KEPT: "The planned release keeps the risk profile.",
    BROKEN: "The risk profile is broken: neither a guarantee nor the noise itself keeps it.",
    UNGUARANTEED: "The risk profile is broken: the noise does not keep it.",
    NOT_COVERED: "The risk profile is not covered: no guarantee here is about the adversaries it protects against.",
}


def with_verdicts(scenario: Scenario, tree: xr.DataTree) -> xr.DataTree:
    """Copy of an audit with the verdicts in group "profile"; the audit itself if the scenario has no profile."""
    if scenario.profile is None:
        return tree
    result = tree.copy()
    result[GROUP] = xr.DataTree(verdicts(scenario, tree))
    return result


def verdicts(scenario: Scenario, tree: xr.DataTree) -> xr.Dataset:
    """Verdicts of `budget.verdicts` on the scenario's plan, from the audit's group "profile" if it has one.

    Attribute `caveat` is about adversaries whom no profile covers; `remedy` is the budget that would satisfy a broken
    profile, or the input to change.
    """
    if GROUP in tree.children:
        return tree[GROUP].to_dataset()
    if scenario.profile is None:
        raise ValueError(f"{scenario.path}: profile: is required (what the release is judged by)")
    bound = tree["bound"].to_dataset()["status"]
    violated = [str(name) for name in bound["definition"].values if (bound.sel(definition=name) == "violated").any()]
    failure = float(tree.attrs.get("failure", scenario.failure))
    plan, kind = scenario.plan, scenario.statistic
    table = budget.verdicts(plan, scenario.profile, scenario.guarantee, failure, statistic=kind, violated=violated)
    broken = table.attrs["status"] == BROKEN
    cure = remedy(plan, scenario.profile, failure, kind) if broken else ""
    return table.assign_attrs(caveat=caveat(scenario), remedy=cure)


def dependent_adversaries(scenario: Scenario) -> dict[str, int]:
    """Adversaries whose beliefs about others depend on the target: by name, the difference of a count in people."""
    moved = {name: (one.count_shift(scenario.plan), one.shift) for name, one in scenario.adversaries.items()}
    return {name: count for name, (count, own) in moved.items() if count > own}


def depends(names: Collection[str]) -> str:
    """Sentence: these adversaries' beliefs about everybody else depend on whether the target is in."""
    named = f"adversar{'ies' if len(names) > 1 else 'y'} {join_words(list(names))}"
    who = named if all(names) else "this adversary"
    return f"What {who} believe{'s' * (len(names) == 1)} of everybody else depends on whether the target is in."


def caveat(scenario: Scenario) -> str:
    """Caveat on adversaries whose beliefs no profile covers; empty if there are none."""
    if not (names := dependent_adversaries(scenario)):
        return ""
    return (
        f"{depends(names)} A profile is not about such beliefs, and a release may take them further than it tolerates "
        "though it is kept."
    )


def verdict_sentence(table: xr.Dataset, *, also: bool = False) -> str:
    """Sentence on the verdicts, with the remedy if the profile is broken.

    Parameters
    ----------
    table : result of `verdicts`
    also : whether the sentence follows one on a violated guarantee
    """
    status = str(table.attrs["status"])
    sentence = SENTENCES[UNGUARANTEED if status == BROKEN and table.sizes["definition"] == 1 else status]
    if also and status == BROKEN:
        sentence = "The risk profile is broken too."
    return f"{sentence} {table.attrs['remedy']}".strip()


def broken_line(table: xr.Dataset) -> str:
    """Line on a risk profile that the release does not satisfy; "" if it does.

    If the profile is broken: the privacy loss that it allows, the loss by every guarantee that holds and by the noise
    itself, and the remedy. If it is not covered: the reason.
    """
    status = str(table.attrs["status"])
    if status == KEPT:
        return ""
    profile = f"the risk profile ({table.attrs['words']}) is {status}"
    true = table.isel(definition=table["true"].values & (table["status"].values == status))
    if status == NOT_COVERED:
        return f"{profile}: {true['words'].values[-1]}"
    spent = [
        f"{format_bound(loss, True)} by {definition_words(str(name))} ({failure_of(failure)})"
        for name, loss, failure in zip(*(true[key].values for key in ("definition", "loss", "failure")), strict=True)
    ]
    # NaN: the profile allows less than a release without information
    allowed = np.nan_to_num(float(true["allowed"][-1]), nan=0.0)
    cure = str(table.attrs["remedy"])
    allows = f"it allows a privacy loss of {format_bound(allowed, False)}, and spent are {join_words(spent)}"
    return f"{profile}: {allows}; {cure[0].lower()}{cure[1:-1]}"
