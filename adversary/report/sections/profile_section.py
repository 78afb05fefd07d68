"""Whether the planned release keeps the risk profile of its scenario, and where its adversaries stand in it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import xarray as xr

from adversary import budget
from adversary._core import failure_of, format_bound, format_uncrossed, join_words, percentage, sentence
from adversary.budget import BROKEN, KEPT, NOT_COVERED, SURE
from adversary.driver import GROUPS, OWN
from adversary.report.files import Scenario
from adversary.report.kit import Section, Table, tabulate
from adversary.report.kit.audit_words import definition_words
from adversary.report.words import coverage

GROUP = "profile"
UNPROMISED = "broken, and nothing guaranteed"
SAID = {
    KEPT: "The planned release keeps the risk profile.",
    BROKEN: "The risk profile is broken: neither a guarantee nor the noise itself keeps it.",
    UNPROMISED: "The risk profile is broken: the noise does not keep it.",
    NOT_COVERED: "The risk profile is not covered: no guarantee here is about the adversaries it protects against.",
}
"""The verdict on the planned release in a sentence."""
SURE_ONLY = (
    "This holds for adversaries who are sure that the target is in the data: the guarantees are about records that are "
    "replaced, and do not cover the others, of whom the profile asks too."
)
ABOUT = (
    "Losses are in nats, as an epsilon: that of a guarantee is rounded up, what the profile allows down. “Broken” "
    "means that the guarantee alone allows more than the profile. The plan's own loss is what the noise itself bounds, "
    "the sharpest of them; one that is kept is enough."
)
ASSUMED = (
    "A profile limits what a release reveals of one person to adversaries whose beliefs about everybody else do not "
    "depend on that person, whatever else they know."
)


def with_verdicts(scenario: Scenario, tree: xr.DataTree) -> xr.DataTree:
    """The audit with its verdicts in the group "profile"; as it is where the scenario has no profile."""
    if scenario.profile is None:
        return tree
    result = tree.copy()
    result[GROUP] = xr.DataTree(verdicts(scenario, tree))
    return result


def verdicts(scenario: Scenario, tree: xr.DataTree) -> xr.Dataset:
    """Those of `policy.budget.verdicts`; attribute `caveat` tells of adversaries whom no profile covers."""
    if GROUP in tree.children:
        return tree[GROUP].to_dataset()
    if scenario.profile is None:
        raise ValueError(f"{scenario.path}: profile: is required (what the release is judged by)")
    bound = tree["bound"].to_dataset()["status"]
    violated = [str(name) for name in bound["definition"].values if (bound.sel(definition=name) == "violated").any()]
    failure = float(tree.attrs.get("failure", scenario.failure))
    plan, kind = scenario.plan, scenario.statistic
    found = budget.verdicts(plan, scenario.profile, scenario.guarantee, failure, statistic=kind, violated=violated)
    return found.assign_attrs(caveat=caveat(scenario))


def dependent_adversaries(scenario: Scenario) -> dict[str, int]:
    """Adversaries whose beliefs about others depend on the target, with the people these move with the target."""
    moved = {name: (one.count_shift(scenario.plan), one.shift) for name, one in scenario.readers.items()}
    return {name: count for name, (count, own) in moved.items() if count > own}


def depends(names: Collection[str]) -> str:
    """That what these adversaries believe of everybody else depends on the target, as a sentence."""
    named = f"adversar{'ies' if len(names) > 1 else 'y'} {join_words(list(names))}"
    who = named if all(names) else "this adversary"
    return f"What {who} believe{'s' * (len(names) == 1)} of everybody else depends on whether the target is in."


def caveat(scenario: Scenario) -> str:
    """What is to be said of adversaries whom no profile speaks of; nothing where there are none."""
    if not (names := dependent_adversaries(scenario)):
        return ""
    return (
        f"{depends(names)} A profile is not about such beliefs, and a release may take them further than it tolerates "
        "though it is kept."
    )


def verdict_sentence(found: xr.Dataset) -> str:
    """The sentence of these verdicts."""
    status = str(found.attrs["status"])
    return SAID[UNPROMISED if status == BROKEN and found.sizes["definition"] == 1 else status]


def broken_line(found: xr.Dataset) -> str:
    """Which profile is not kept, what it allows, and what every guarantee and the noise spend; "" where it is kept."""
    status = str(found.attrs["status"])
    if status == KEPT:
        return ""
    profile = f"the risk profile ({found.attrs['words']}) is {status}"
    true = found.isel(definition=found["true"].values & (found["status"].values == status))
    if status == NOT_COVERED:
        return f"{profile}: {true['words'].values[-1]}"
    spent = [
        f"{format_bound(loss, True)} by {definition_words(str(name))} ({failure_of(failure)})"
        for name, loss, failure in zip(*(true[key].values for key in ("definition", "loss", "failure")), strict=True)
    ]
    allowed = np.nan_to_num(float(true["allowed"][-1]), nan=0.0)  # NaN asks for less than no information
    return f"{profile}: it allows a privacy loss of {format_bound(allowed, False)}, and spent are {join_words(spent)}"


def section(scenario: Scenario, tree: xr.DataTree) -> Section | None:
    """The verdicts; None where the scenario has no profile."""
    if scenario.profile is None:
        return None
    found = verdicts(scenario, tree)
    own = found.sel(definition=OWN)
    table = Table(
        [
            "guarantee",
            "verdict",
            ("privacy loss", "at most"),
            ("allowed", "at least"),
            ("failure probability", "probability"),
        ],
        title=sentence(str(found.attrs["words"])),
        name="profile",
    )
    for name in found["definition"].values:
        one = found.sel(definition=name)
        status = str(one["status"].item())
        judged = status if bool(one["true"].item()) else f"{status}, but the noise violates this guarantee"
        table.add(definition_words(str(name)), judged, *_losses(one), percentage(float(one["failure"]), True))
    status = found.attrs["status"]
    covered = [SURE_ONLY] if found.attrs["adversaries"] == SURE and status != NOT_COVERED else []
    noise = []
    if status != NOT_COVERED:
        loss, allowed = _losses(own)
        limits = "bounds no privacy loss" if np.isinf(own["loss"]) else f"limits the privacy loss to {loss}"
        asks = "asks for nothing here" if np.isinf(own["allowed"]) else f"allows {allowed}"
        failure = float(own["failure"])
        surely = f"in all but {percentage(failure, True)} of releases" if failure else "for certain"
        noise = [f"The noise {limits} {surely}; the profile {asks}."]
    why = found["words"].values[found["status"].values == NOT_COVERED]
    replaced = scenario.neighbours == "bounded"
    halved = 2.0 if replaced and scenario.statistic == "any" else 1.0
    covered_words = coverage(
        scenario.profile,
        float(own["loss"]) / halved,
        scenario.statistic,
        f", {failure_of(float(own['failure']))}" * (float(own["failure"]) > 0.0),
        sure=replaced,
    )
    notes = [
        *dict.fromkeys(map(str, why)),
        ABOUT,
        ASSUMED,
        *filter(None, [covered_words]),
        *filter(None, [str(found.attrs["caveat"])]),
    ]
    paragraphs = [*covered, *noise, str(found.attrs["recommendation"])]
    return Section("The risk profile", verdict_sentence(found), paragraphs, [table], notes=notes)


def of_readers(scenario: Scenario, tree: xr.DataTree) -> Section:
    """The audit's own adversaries in the profile."""
    found = tree["tolerated"].to_dataset()
    limits = ["any" if one >= 1.0 else percentage(one, False) for one in np.ravel(found["posterior"])]
    found["limit"] = found["posterior"].copy(data=np.reshape(limits, found["posterior"].shape))
    found = found.assign(
        prior=found["inclusion"] * found["value"], tolerated=found["ratio"].where(found["ratio"] < np.inf)
    )
    columns = {
        "adversary": "adversary", "prior": ("prior", "probability"), "inclusion": ("inclusion", "probability"),
        "value": ("value", "probability"), "tolerated": ("ratio tolerated", "at least"),
        "limit": ("posterior tolerated", "probability"), "outside": ("P(beyond it)", "% at most"),
    }  # fmt: skip
    table, worst = tabulate(found, columns, name="profile of adversaries", missing="any"), float(found["outside"].max())
    often = f"A release takes an adversary past the profile with probability {percentage(worst, True)} at most."
    finding = often if worst else "No release takes an adversary of this scenario past the profile."
    return Section(GROUPS["tolerated"].title, finding, tables=[table])


def _losses(one: xr.Dataset) -> tuple[str, str]:
    """What a guarantee amounts to, rounded up, and what is allowed, rounded down, to digits that fit the verdict."""
    status, loss, allowed = str(one["status"].item()), float(one["loss"]), float(one["allowed"])
    if status == NOT_COVERED:
        return "–", "–"
    if status != KEPT or np.isinf(allowed):
        return format_bound(loss, True), format_bound(allowed, False)
    return format_uncrossed(loss, allowed, range(4, 10)) or (format_bound(loss, True),) * 2
