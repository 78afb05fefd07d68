"""Page of an audit: verdict, covered adversaries, results under each truth, method, explanations, provenance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from typing import Any

import xarray as xr

from adversary._core import HEADLINE, format_apart, percent, percentage
from adversary.adversaries.path import MEANINGS
from adversary.driver import GROUPS, shown_bound
from adversary.report import plot
from adversary.report.answers import explain_answer
from adversary.report.files import Scenario
from adversary.report.kit import (
    Card,
    Document,
    Figure,
    Section,
    attempt,
    audit_words,
    guarded_document,
    left_out,
)
from adversary.report.kit.audit_words import cases, group_of_adversary
from adversary.report.sections import method_sections, profile_section, result_sections

# Titles of sections on groups that an audit left out because they failed.
TITLES = {name: one.title for name, one in GROUPS.items()}
TITLES |= {"sensitivity": "Sensitivity", "profile": "The risk profile"}


@guarded_document
def document(scenario: Scenario, tree: xr.DataTree, *, words: bool = True) -> Document:
    """Document of an audit's page.

    Parameters
    ----------
    scenario : that was audited
    tree : of `audit_answer.solve`
    words : whether explanations for two audiences stand at the end
    """
    missing = left_out(tree)
    if "profile" in missing:
        scenario = replace(scenario, profile=None)
    every = cases(scenario, tree)
    sections = [attempt("For whom this holds", method_sections.coverage_section, scenario)]
    results = [result_sections.results(name, one, part) for name, one, part in every]
    _say_once(results)
    for later in results[1:]:
        later.notes.append("What does not depend on the truth stands under the first.")
    sections += results
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
        lead=scenario.about,
        sections=sections,
        main=next((table for section in results for table in section.tables), None),
        provenance=[*method_sections.provenance(scenario, tree), ("Written", date.today().isoformat())],
    )


def _in_words(scenario: Scenario, tree: xr.DataTree) -> Section:
    """Section with explanations for two audiences."""
    paragraphs, notes = explain_answer.page(scenario, tree), explain_answer.notes(scenario)
    return Section("In words", parts=paragraphs, notes=notes, on_screen=False)


def _say_once(sections: Iterable[Section]) -> None:
    """Remove texts and tables that repeat an earlier section; figures are left out when the page is written."""
    seen_lines: set[str] = set()
    first: dict[str, Any] = {}
    for section in sections:
        for part in section.walk():
            for lines in (part.paragraphs, part.notes, *(table.notes for table in part.tables)):
                lines[:] = [line for line in lines if line not in seen_lines]
                seen_lines.update(lines)
            content = part.finding, [(table.columns, table.texts) for table in part.tables]
            if first.setdefault(part.title, content) is not content and first[part.title] == content:
                part.finding, part.tables = "", []
        section.drop_empty_parts()


def _card(one: Scenario, part: xr.DataTree) -> Card:
    """Card of the adversary who learns most under the first truth, whose scenario and audit these are."""
    risk = part["risk"].to_dataset()
    if audit_words.unreliable(risk):
        return Card(sentence=result_sections.finding(one, part))
    name, *also = result_sections.most_informed(risk)
    of_one, bound = group_of_adversary(risk, name), shown_bound(group_of_adversary(part["bound"].to_dataset(), name))
    limit = float(bound["posterior"].sel(side="upper"))
    named = audit_words.bound_name(shown_bound(part["bound"].to_dataset()))
    may_fail = audit_words.may_fail(float(bound["failure"]))
    whose = f", adversary {name}" if len(one.adversaries) > 1 else ""
    whose += f", one of {len(also) + 1} who learn as much" if also else ""
    before, after = format_apart(percent, (float(of_one[key]) for key in ("prior", "posterior_mean")), HEADLINE)
    numbers = [
        (f"Before the release{whose}", before),
        ("After it, on average", after),
        ("In 9 of 10 releases", audit_words.nine_in_ten(of_one, HEADLINE, limit)),
        (f"At most, by {audit_words.bound_name(bound)}", percentage(limit, True)),
    ]
    if "posterior_all_periods" in bound:
        every = group_of_adversary(part["bound"].to_dataset(), name)
        every = shown_bound(every.assign(loss_bound=every["loss_bound_all_periods"]))
        over = float(every["posterior_all_periods"].sel(side="upper"))
        head = f"Over {one.plan.privacy_unit.periods:,} periods, by {audit_words.bound_name(every)}"
        numbers.append((head, percentage(over, True)))
    finding = result_sections.finding(one, part)
    meanings = dict.fromkeys(MEANINGS[one_adversary.attack] for one_adversary in one.adversaries.values())
    return Card(
        numbers,
        Figure(
            "beliefs",
            lambda: plot.before_after(part),
            f"Before and after the release, and the most that {named} allows.",
            finding,
        ),
        "Percentages are probabilities, to the adversary, that " + "; or that ".join(meanings) + "." + may_fail,
    )
