"""The verdicts on a scenario's profile as lines and tables, on the screen and in the report; and its own readers.

Where a reader of the audit stands in the profile follows from what "in" means to them: one who asks whether the target
responded holds the answer itself for certain (value 1); all others hold it for certain that the target is in the data
(inclusion 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Console
from rich.text import Text

from adversary._core import PERCENT, finite, give_or_take, logit, outward, outward_percent, percentage, share
from adversary.desk.answers import SURE, profile_verdict
from adversary.desk.files import Scenario
from adversary.desk.kit import PageSection, PageTable, add, as_audited, beyond, put, readers_of, source, table
from adversary.desk.kit.audit_words import called
from adversary.driver import OWN
from adversary.policy.budget import BROKEN, KEPT, NOT_COVERED
from adversary.privacy import TOLERANCE
from adversary.reader.path import Adversary, settle_truth
from adversary.reader.risk import bayes_factor_law

TITLE = "Whether the risk profile is kept"

UNPROMISED = "broken, and nothing promised"
SAID = {
    KEPT: "The planned release keeps the profile.",
    BROKEN: "Neither a promise nor the noise itself keeps the profile.",
    UNPROMISED: "The noise does not keep the profile.",
    NOT_COVERED: "The profile is about readers to whom nothing is promised here.",
}
"""The verdict on the planned release in a sentence."""


def said(found: xr.Dataset) -> str:
    """The sentence of these verdicts."""
    status = str(found.attrs["status"])
    return SAID[UNPROMISED if status == BROKEN and found.sizes["definition"] == 1 else status]


SURE_ONLY = (
    "Said only of readers who are sure that the target is in the data: the promises are about records that are "
    "replaced, and others, of whom the profile asks too, are not covered."
)

ASSUMED = (
    "A profile limits what a release tells of one person, whatever readers know of everybody else, as long as they "
    "believe the same of everybody else whether the target is in the data or not, and whatever their record says."
)


@dataclass(frozen=True)
class ReaderVerdict:
    """A reader of the audit in the profile.

    Parameters
    ----------
    inclusion, value : their prior, as the profile reads it
    tolerated : the largest ratio of posterior to prior; infinite where the profile is not about them
    posterior : the largest posterior, therefore
    beyond : probability of a release that takes them further, under the audit's truth
    error : its standard error, 0 where it is exact
    """

    inclusion: float
    value: float
    tolerated: float
    posterior: float
    beyond: float
    error: float


def standings(scenario: Scenario, tree: xr.DataTree) -> dict[str, ReaderVerdict]:
    """Every reader with a prior above 0, everybody else as they truly are, by the exact engine; one truth."""
    return {
        name: _standing(scenario, tree, reader) for name, reader in readers_of(scenario).items() if reader.prior > 0.0
    }


def _standing(scenario: Scenario, tree: xr.DataTree, reader: Adversary) -> ReaderVerdict:
    assert scenario.profile is not None
    p, q = (reader.prior, 1.0) if reader.attack == "participation" else (1.0, reader.prior)
    tolerated = float(scenario.profile(p, q))
    limit = min(1.0, reader.prior * tolerated)
    if limit >= 1.0:
        return ReaderVerdict(p, q, tolerated, limit, 0.0, 0.0)
    law = bayes_factor_law(
        scenario.plan, reader, settle_truth(scenario.plan, reader, scenario.truth), **as_audited(scenario, tree)
    )
    change = float(logit(limit) - logit(reader.prior))
    beyond = float(law.sf(change + TOLERANCE * max(1.0, abs(change)))[0])
    error = np.sqrt(beyond * (1.0 - beyond) / law.draws) if law.simulated else 0.0
    return ReaderVerdict(p, q, tolerated, limit, beyond, float(error))


def answer(scenario: Scenario, tree: xr.DataTree) -> dict[str, Any]:
    """`standings` for JSON: of every reader by name, of a single one under ""; None for one with prior 0."""
    found = standings(scenario, tree)
    return {name: _row(found[name]) if name in found else None for name in readers_of(scenario)}


def _row(one: ReaderVerdict) -> dict[str, Any]:
    numbers = ("inclusion", "value", "tolerated", "posterior", "beyond")
    return {name: finite(getattr(one, name)) for name in numbers}


def summary(scenario: Scenario, tree: xr.DataTree) -> list[str]:
    """Whether the planned release keeps the profile, in a sentence or two; nothing where there is no profile."""
    if scenario.profile is None:
        return []
    found = profile_verdict.verdicts(scenario, tree)
    own, status = found.sel(definition=OWN), found.attrs["status"]
    if status == NOT_COVERED:
        return [said(found)]
    loss, allowed = _losses(own)
    limits = "bounds no privacy loss" if np.isinf(own["loss"]) else f"limits the privacy loss to {loss}"
    asks = "asks for nothing here" if np.isinf(own["allowed"]) else f"allows {allowed}"
    noise = f"The noise {limits} {_surely(own)}; the profile {asks}."
    return [" ".join([said(found), *_covered(found), noise, found.attrs["caveat"]]).strip()]


def _covered(found: xr.Dataset) -> list[str]:
    """Whom the verdicts leave out, if anybody."""
    return [SURE_ONLY] if found.attrs["readers"] == SURE and found.attrs["status"] != NOT_COVERED else []


def _surely(one: xr.Dataset) -> str:
    failure = float(one["failure"])
    return f"in all but {percentage(failure, True)} of releases" if failure else "for certain"


def section(scenario: Scenario, tree: xr.DataTree) -> PageSection | None:
    """The part of the report with the verdicts; None where the scenario has no profile."""
    if scenario.profile is None:
        return None
    found = profile_verdict.verdicts(scenario, tree)
    made = PageTable(["promise", "verdict", *HEADS], texts=2)
    for cells in _rows(found):
        made.add(*cells)
    lines = [" ".join([said(found), *_covered(found)]), found.attrs["recommendation"]]
    return PageSection(TITLE, lines, made, notes=[*_explained(found), ABOUT, ASSUMED])


def readers(scenario: Scenario, tree: xr.DataTree) -> PageSection | None:
    """The part of the report with the audit's own readers in the profile; None where there is nothing to say."""
    if scenario.profile is None or not (found := standings(scenario, tree)):
        return None
    several = isinstance(scenario.adversary, dict)
    made = PageTable([*["reader"] * several, *READERS], texts=int(several))
    for name, one in found.items():
        made.add(*[name] * several, *_cells(one))
    lines = [
        *source(tree),
        "What the profile tolerates of the readers above, and how often a release takes them further under this truth. "
        "A promise covers every reader; these are the ones the scenario is about.",
    ]
    caveat = profile_verdict.caveat(scenario)
    return PageSection("These readers and the profile", lines, made, notes=[caveat] if caveat else [])


def show(scenario: Scenario, tree: xr.DataTree, console: Console) -> None:
    """The verdicts as a table after the sentence that sums them up."""
    if scenario.profile is None:
        return
    found = profile_verdict.verdicts(scenario, tree)
    made = table(f"{TITLE}: {found.attrs['words']}", ["promise", "verdict"], HEADS)
    for cells in _rows(found):
        add(made, *cells)
    put(made, console)
    console.print(Text(said(found), style="green" if found.attrs["status"] == KEPT else "red"))
    for line in (*_covered(found), found.attrs["recommendation"], *_explained(found), found.attrs["caveat"]):
        if line:
            console.print(Text(line))


def show_readers(scenario: Scenario, tree: xr.DataTree, console: Console) -> None:
    """The audit's own readers in the profile, as a table."""
    if scenario.profile is None:
        return
    made = table("What the profile tolerates of these readers", ["reader"], READERS)
    for name, one in standings(scenario, tree).items():
        add(made, name or "the reader", *_cells(one))
    console.print(made)


HEADS = ["its privacy loss", "allowed", "may fail in"]
READERS = ["prior", "inclusion", "value", "ratio tolerated", "posterior tolerated", "releases beyond"]

ABOUT = (
    "Losses are in nats, as an epsilon: what a promise amounts to is rounded up, what the profile allows down. Broken "
    "means that the promise alone leaves more open than the profile allows. The plan's own loss is what the noise "
    "itself delivers, the sharpest of them; one that is kept is enough."
)


def _rows(found: xr.Dataset) -> list[list[str]]:
    return [
        [
            called(str(name)),
            _verdict(str(one["status"].item()), bool(one["true"].item())),
            *_losses(one),
            percentage(float(one["failure"]), True),
        ]
        for name in found["definition"].values
        for one in (found.sel(definition=name),)
    ]


def _losses(one: xr.Dataset) -> tuple[str, str]:
    """What a promise amounts to, rounded up, and what is allowed, rounded down, to digits that fit the verdict."""
    status, loss, allowed = str(one["status"].item()), float(one["loss"]), float(one["allowed"])
    if status == NOT_COVERED:
        return "–", "–"
    for digits in range(4, 10):
        shown = outward(loss, True, digits), outward(allowed, False, digits)
        if status != KEPT or np.isinf(allowed) or float(shown[0]) <= float(shown[1]):
            return shown
    return (outward(loss, True),) * 2


def _verdict(status: str, true: bool) -> str:
    return status if true else f"{status}, but the noise does not keep this promise"


def _explained(found: xr.Dataset) -> list[str]:
    """Why something is not covered, each reason once."""
    said = found["words"].values[found["status"].values == NOT_COVERED]
    return list(dict.fromkeys(map(str, said)))


def _cells(one: ReaderVerdict) -> list[str]:
    free = not np.isfinite(one.tolerated)
    return [
        share(one.inclusion * one.value),
        share(one.inclusion),
        share(one.value),
        "any" if free else outward(one.tolerated, False),
        "any" if one.posterior >= 1.0 else f"{outward_percent(one.posterior, False)}{PERCENT}",
        beyond(one.beyond) + give_or_take(100.0 * one.error),
    ]
