"""Sections on the risk profile of a scenario: the verdicts, and the limits of its adversaries."""

from __future__ import annotations

import numpy as np
import xarray as xr

from adversary._core import failure_of, format_bound, format_uncrossed, percentage, sentence
from adversary.budget import KEPT, NOT_COVERED, SURE
from adversary.driver import GROUPS, OWN
from adversary.report.files import Scenario
from adversary.report.kit import Section, Table, tabulate
from adversary.report.kit.audit_words import definition_words
from adversary.report.kit.profile_verdict import verdict_sentence, verdicts
from adversary.report.words import coverage

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


def section(scenario: Scenario, tree: xr.DataTree) -> Section | None:
    """Section on the verdicts; None if the scenario has no profile."""
    if scenario.profile is None:
        return None
    verdict_table = verdicts(scenario, tree)
    own = verdict_table.sel(definition=OWN)
    table = Table(
        [
            "guarantee",
            "verdict",
            ("privacy loss", "at most"),
            ("allowed", "at least"),
            ("failure probability", "probability"),
        ],
        title=sentence(str(verdict_table.attrs["words"])),
        name="profile",
    )
    for name in verdict_table["definition"].values:
        one = verdict_table.sel(definition=name)
        status = str(one["status"].item())
        judged = status if bool(one["true"].item()) else f"{status}, but the noise violates this guarantee"
        table.add(definition_words(str(name)), judged, *_losses(one), percentage(float(one["failure"]), True))
    status = verdict_table.attrs["status"]
    covered = [SURE_ONLY] if verdict_table.attrs["adversaries"] == SURE and status != NOT_COVERED else []
    noise = []
    if status != NOT_COVERED:
        loss, allowed = _losses(own)
        limits = "bounds no privacy loss" if np.isinf(own["loss"]) else f"limits the privacy loss to {loss}"
        asks = "asks for nothing here" if np.isinf(own["allowed"]) else f"allows {allowed}"
        failure = float(own["failure"])
        surely = f"in all but {percentage(failure, True)} of releases" if failure else "for certain"
        noise = [f"The noise {limits} {surely}; the profile {asks}."]
    why = verdict_table["words"].values[verdict_table["status"].values == NOT_COVERED]
    replaced = scenario.neighbours == "bounded"
    # a replaced record changes two things of a release of any kind, as if added and removed: half the loss for each
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
        *filter(None, [str(verdict_table.attrs["caveat"])]),
    ]
    paragraphs = [*covered, *noise, str(verdict_table.attrs["recommendation"])]
    return Section("The risk profile", verdict_sentence(verdict_table), paragraphs, [table], notes=notes)


def tolerated_section(scenario: Scenario, tree: xr.DataTree) -> Section:
    """Section on the scenario's own adversaries: what the profile tolerates of each, and P(release beyond that).

    `tree` is the audit; its group "tolerated" is read.
    """
    tolerated = tree["tolerated"].to_dataset()
    limits = ["any" if one >= 1.0 else percentage(one, False) for one in np.ravel(tolerated["posterior"])]
    tolerated["limit"] = tolerated["posterior"].copy(data=np.reshape(limits, tolerated["posterior"].shape))
    tolerated = tolerated.assign(
        prior=tolerated["inclusion"] * tolerated["value"],
        tolerated=tolerated["ratio"].where(tolerated["ratio"] < np.inf),
    )
    columns = {
        "adversary": "adversary", "prior": ("prior", "probability"), "inclusion": ("inclusion", "probability"),
        "value": ("value", "probability"), "tolerated": ("ratio tolerated", "at least"),
        "limit": ("posterior tolerated", "probability"), "outside": ("P(beyond it)", "% at most"),
    }  # fmt: skip
    table, worst = (
        tabulate(tolerated, columns, name="profile of adversaries", missing="any"),
        float(tolerated["outside"].max()),
    )
    often = f"A release takes an adversary past the profile with probability {percentage(worst, True)} at most."
    finding = often if worst else "No release takes an adversary of this scenario past the profile."
    return Section(GROUPS["tolerated"].title, finding, tables=[table])


def _losses(one: xr.Dataset) -> tuple[str, str]:
    """(loss of a guarantee, rounded up; allowed loss, rounded down), with digits that agree with the verdict."""
    status, loss, allowed = str(one["status"].item()), float(one["loss"]), float(one["allowed"])
    if status == NOT_COVERED:
        return "–", "–"
    if status != KEPT or np.isinf(allowed):
        return format_bound(loss, True), format_bound(allowed, False)
    return format_uncrossed(loss, allowed, range(3, 10)) or (format_bound(loss, True),) * 2
