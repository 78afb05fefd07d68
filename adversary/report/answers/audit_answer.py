"""An audit as one document: verdict, for whom it holds, what adversaries learn, method, words, provenance."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import (
    PERCENT,
    error_text,
    format_bound,
    format_parameter,
    format_probability,
    join_words,
    outward_percent,
)
from adversary.adversaries.path import MEANINGS
from adversary.driver import ALSO, EVERYTHING, GROUPS, audit, shown_bound
from adversary.privacy import Guarantee
from adversary.report import figures
from adversary.report.answers import explain_answer
from adversary.report.files import Scenario
from adversary.report.kit import (
    LEFT_OUT,
    Card,
    Document,
    Figure,
    Section,
    Summary,
    attempt,
    audit_words,
    guarded_document,
    left_out,
)
from adversary.report.kit.audit_words import cases, of_reader
from adversary.report.sections import method_sections, profile_section, result_sections

_BESIDE = [name for key, one in GROUPS.items() for name in ((key,) if one.listed is None else one.listed)]
LISTED = ("risk", "bound", *_BESIDE, "profile", "diagnostics")
"""Groups whose numbers JSON lists, and those of the sensitivity analysis."""
TITLES = {name: one.title for name, one in GROUPS.items()}
TITLES |= {"sensitivity": "Sensitivity", "profile": "The risk profile"}
"""What the page calls a group that an audit left out because it failed."""
RANK = ("holds", "exceeded", "unreliable", "violated")


def solve(
    scenario: Scenario, *, failure: float | None = None, whole: bool = True, also: Sequence[str] = (), **how: Any
) -> xr.DataTree:
    """`adversary.audit` of a scenario (`how` as there), and group `profile` where it has one.

    `whole`: with all that the page shows; else what an audit has without being asked, which screen and JSON show, and
    the groups that are named in `also`. Attribute `not_applicable` says which other meanings of the budget there are
    none of, and why.
    """
    others, refused = method_sections.readings(scenario) if whole else ({}, {})
    tree = audit(
        scenario.plan,
        scenario.adversary,
        scenario.truth,
        guarantee=scenario.guarantee,
        invariants=scenario.margins,
        failure=scenario.failure if failure is None else failure,
        also=EVERYTHING if whole else (*ALSO, *also),
        alternatives={name: (one.plan, one.adversary, one.truth) for name, one in others.items()},
        profile=scenario.profile,
        sensitivity=scenario.sensitivity.given if whole and scenario.sensitivity else None,
        keep_going=whole,
        **how,
    )
    tree.attrs |= {"title": scenario.name, "scenario": fingerprint(scenario), "not_applicable": json.dumps(refused)}
    if budget := method_sections.budget(scenario):
        tree.attrs["budget"] = budget
    try:
        tree = profile_section.with_verdicts(scenario, tree)
    except Exception as error:
        tree.attrs[LEFT_OUT] = json.dumps(left_out(tree) | {"profile": error_text(error)})
    swept = tree["sensitivity"].subtree if "sensitivity" in tree.children else ()
    listed = [name for name in LISTED if name in tree.children]
    listed += [node.path.strip("/") for node in swept if node.data_vars]
    return Summary(scenario.name, listed, *verdict(scenario, tree), audit_words.warnings(tree)).on(tree)


def verdict(scenario: Scenario, tree: xr.DataTree) -> tuple[str, str]:
    """What becomes of the guarantees, and of the profile if there is one, and the status of both."""
    status = worst_status(tree)
    said = [UNLIMITED if result_sections.is_unlimited(tree["bound"].to_dataset()) else VERDICTS[status]]
    if scenario.profile is not None and "profile" not in left_out(tree):
        found = profile_section.verdicts(scenario, tree)
        said.append(profile_section.verdict_sentence(found))
        status = "violated" if status == "holds" and found.attrs["status"] == "broken" else status
    return " ".join(said), status


def fingerprint(scenario: Scenario) -> str:
    """SHA-256 of what its file says, in hexadecimal."""
    return hashlib.sha256(json.dumps(scenario.document, sort_keys=True, default=str).encode()).hexdigest()


@guarded_document
def document(scenario: Scenario, tree: xr.DataTree, *, words: bool = True) -> Document:
    """What `solve` found for people; `words`: explained to two audiences at the end."""
    missing = left_out(tree)
    if "profile" in missing:
        scenario = replace(scenario, profile=None)
    every = cases(scenario, tree)
    sections = [attempt("For whom this holds", method_sections.coverage_section, scenario)]
    told = [result_sections.results(name, one, part) for name, one, part in every]
    _say_once(told)
    for later in told[1:]:
        later.notes.append("What does not depend on the truth stands under the first.")
    sections += told
    more = [
        attempt("The risk profile", profile_section.section, scenario, tree),
        attempt(GROUPS["alternatives"].title, method_sections.other_meanings, *every[0][1:]),
        attempt("What is published", method_sections.published, scenario),
        attempt("How to read the numbers", method_sections.reading_section, scenario, tree),
    ]
    sections += filter(None, more)
    sections += [Section(TITLES.get(name, name), failure=why) for name, why in missing.items()]
    if words:
        sections.append(attempt("In words", _in_words, scenario, tree))
    return Document(
        tree,
        card=_card(*every[0][1:]),
        lead=[line for line in (scenario.description, scenario.source and f"Source: {scenario.source}") if line],
        sections=sections,
        provenance=[*method_sections.provenance(scenario, tree), ("Written", date.today().isoformat())],
    )


def _in_words(scenario: Scenario, tree: xr.DataTree) -> Section:
    said, notes = explain_answer.page(scenario, tree), explain_answer.notes(scenario)
    return Section("In words", parts=said, notes=notes, on_screen=False)


def _say_once(sections: Iterable[Section]) -> None:
    """What holds under several truths is said of the first; a figure is left out where the page is written."""
    said: set[str] = set()
    first: dict[str, Any] = {}
    for section in sections:
        for part in section.walk():
            for lines in (part.paragraphs, part.notes, *(table.notes for table in part.tables)):
                lines[:] = [line for line in lines if line not in said]
                said.update(lines)
            found = part.finding, [(table.columns, table.texts) for table in part.tables]
            if first.setdefault(part.title, found) is not found and first[part.title] == found:
                part.finding, part.tables = "", []
        section.drop_empty_parts()


def _card(one: Scenario, part: xr.DataTree) -> Card:
    """Numbers about the adversary who learns most under the first truth, of which these are scenario and audit."""
    risk = part["risk"].to_dataset()
    if audit_words.unreliable(risk):
        return Card(sentence=result_sections.finding(one, part))
    name, *also = result_sections.most_informed(risk)
    of_one, bound = of_reader(risk, name), shown_bound(of_reader(part["bound"].to_dataset(), name))
    limit = float(bound["posterior"].sel(side="upper"))
    named = audit_words.bound_name(shown_bound(part["bound"].to_dataset()))
    may_fail = audit_words.may_fail(float(bound["failure"]))
    whose = f", adversary {name}" if len(one.readers) > 1 else ""
    whose += f", one of {len(also) + 1} who learn as much" if also else ""
    numbers = [
        (f"Before the release{whose}", format_probability(float(of_one["prior"]))),
        ("After it, on average", format_probability(float(of_one["posterior_mean"]))),
        ("In nine releases of ten", audit_words.nine_in_ten(of_one)),
        (f"At most, by {audit_words.bound_name(bound)}", outward_percent(limit, True) + PERCENT),
    ]
    finding = result_sections.finding(one, part)
    asked = dict.fromkeys(MEANINGS[reader.attack] for reader in one.readers.values())
    return Card(
        numbers,
        Figure(
            "beliefs",
            lambda: figures.audit_figures.belief_ranges(part),
            f"Before and after the release, and the most that {named} allows.",
            finding,
        ),
        "Percentages are probabilities, to the adversary, that " + "; or that ".join(asked) + "." + may_fail,
    )


def worst_status(tree: xr.DataTree) -> str:
    """Of all guarantees, adversaries and truths."""
    statuses = {str(status) for status in tree["bound"].to_dataset()["status"].values.ravel()} - {""}
    return max(statuses, key=RANK.index)


VERDICTS = {
    "holds": "Every guarantee holds for every adversary here.",
    "exceeded": "A guarantee is exceeded: an adversary with mistaken or improper beliefs passes its bound more often "
    "than it may fail. The guarantee itself is true.",
    "unreliable": "Not judged: some posteriors could not be sampled reliably.",
    "violated": "A guarantee is violated: the plan's own privacy loss exceeds it.",
}
UNLIMITED = "Nothing is guaranteed here: no guarantee is stated, and the privacy loss of the noise is unlimited."


def check_failure(scenario: Scenario, tree: xr.DataTree) -> str:
    """What `--check` fails on, in one line: which guarantee or profile, what it allows, what is spent; "" if nothing.

    A guarantee that is violated, a profile that is not kept, and a verdict that the sampler could not reach.
    """
    statuses = tree["bound"].to_dataset()["status"]
    lines, loss = [], scenario.plan.neighbour_loss()
    for name, guarantee in (scenario.guarantee or {}).items():
        if bool((statuses.sel(definition=name) == "violated").any()):
            lines.append(f"guarantee {name} is violated: {_spent(guarantee, loss)}")
    if "profile" in (missing := left_out(tree)):
        lines.append(f"the profile is not judged: {missing['profile']}")
    elif scenario.profile is not None:
        lines += filter(None, [profile_section.broken_line(profile_section.verdicts(scenario, tree))])
    if bool((statuses == "unreliable").any()):
        lines.append("not judged: some posteriors could not be sampled reliably")
    return "; ".join(lines)


LARGEST_FACTOR = 2.0**40
"""Budgets beyond so many times the guaranteed one are not looked for."""


def _spent(guarantee: Guarantee, loss: Guarantee) -> str:
    """The parameters of a violated guarantee, and those of its kind that the noise satisfies, rounded up."""
    low, high = 1.0, 2.0
    try:
        while not guarantee.scaled(high).is_satisfied_by(loss):
            low, high = high, high * high
            if high > LARGEST_FACTOR:
                return f"it allows {_budget(guarantee)}, and the noise satisfies no such guarantee"
    except TypeError:  # a definition without a budget
        return f"it allows {_budget(guarantee)}, and the privacy loss of the noise exceeds it"
    while high > (1.0 + 1e-10) * low:  # closer than the tolerance of `is_satisfied_by`: epsilon 2 is not written 2.001
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if guarantee.scaled(middle).is_satisfied_by(loss) else (middle, high)
    spent = _budget(guarantee.scaled(high), partial(format_bound, upper=True))
    return f"it allows {_budget(guarantee)}, and the noise spends {spent}"


def _budget(guarantee: Guarantee, write: Callable[[float], str] = format_parameter) -> str:
    return join_words([f"{name} {write(float(x))}" for name, x in guarantee.budget.items()])


def how(tree: xr.DataTree) -> str:
    """The way in which the averages of an audit were computed, in a phrase: the engine, and exactly or by simulation.

    Parameters
    ----------
    tree : answer of `adversary.audit`
    """
    if tree["risk"]["posterior_mean"].attrs.get("direction") == "exact":
        return f"engine {tree.attrs['engine']}, exact averages over releases"
    draws, seed = tree.attrs["draws"], tree.attrs["seed"]
    return f"engine {tree.attrs['engine']}, {draws} simulated releases, seed {seed}, ± standard error"
