"""Whether the planned release keeps the risk profile of its scenario, and whom no profile is about."""

from __future__ import annotations

from collections.abc import Collection

import xarray as xr

from adversary._core import listed
from adversary.desk.files import Scenario
from adversary.desk.kit.audit_words import readers_of
from adversary.policy import budget

GROUP = "profile"


def judged(scenario: Scenario, tree: xr.DataTree) -> xr.DataTree:
    """The audit with its verdicts in the group "profile"; as it is where the scenario has no profile."""
    if scenario.profile is None:
        return tree
    result = tree.copy()
    result[GROUP] = xr.DataTree(verdicts(scenario, tree))
    return result


def verdicts(scenario: Scenario, tree: xr.DataTree) -> xr.Dataset:
    """Those of `policy.budget.verdicts`; attribute `caveat` tells of adversaries whom no profile covers.

    Raises
    ------
    ValueError : the scenario has no profile
    """
    if GROUP in tree.children:
        return tree[GROUP].to_dataset()
    if scenario.profile is None:
        raise ValueError(f"{scenario.path}: profile: is needed to judge the release by, and missing")
    bound = tree["bound"].to_dataset()["status"]
    violated = [str(name) for name in bound["definition"].values if (bound.sel(definition=name) == "violated").any()]
    failure = float(tree.attrs.get("failure", scenario.failure))
    plan, kind = scenario.plan, scenario.statistic
    found = budget.verdicts(plan, scenario.profile, scenario.guarantee, failure, statistic=kind, violated=violated)
    return found.assign_attrs(caveat=caveat(scenario))


def tied(scenario: Scenario) -> dict[str, int]:
    """Adversaries whose beliefs about others depend on the target, with the people these move with the target."""
    moved = {name: (one.count_shift(scenario.plan), one.shift) for name, one in readers_of(scenario).items()}
    return {name: count for name, (count, own) in moved.items() if count > own}


def called_readers(names: Collection[str]) -> str:
    """Adversaries by name, or the only one."""
    if not all(names):
        return "this adversary"
    return f"adversar{'ies' if len(names) > 1 else 'y'} {listed(list(names))}"


def depends(names: Collection[str]) -> str:
    """That what these adversaries believe of everybody else depends on the target, as a sentence."""
    return (
        f"What {called_readers(names)} believe{'s' * (len(names) == 1)} of everybody else depends on whether the "
        "target is in."
    )


def caveat(scenario: Scenario) -> str:
    """What is to be said of adversaries whom no profile speaks of; nothing where there are none."""
    if not (names := tied(scenario)):
        return ""
    return (
        f"{depends(names)} A profile is not about such beliefs, and a release may take them further than it tolerates "
        "though it is kept."
    )
