"""Document of the gallery: a figure of all releases, a table by model, contradictions, and every record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import as_given, format_probability, percent, percentage, sentence
from adversary.adversaries.plans import STATISTICS
from adversary.releases.audited_records import ALARMS, BASELINE, EVEN, RELATIONS, expected_posteriors
from adversary.releases.record import Record
from adversary.report import plot
from adversary.report.kit import (
    Card,
    Column,
    Document,
    Figure,
    Section,
    Summary,
    Table,
    attempt,
    guarded_document,
    left_out,
    summary_of,
)

TITLE = "Real releases, each audited"

# Up to so many records each have a table of their bounds; more records share one table, as the page would get long.
FEW = 3
EVERY_BOUND = "Every bound"
NEIGHBOURS = {"unbounded": "added or removed", "bounded": "replaced", "": "neighbors not stated"}
SOURCES = {
    "primary": "documents of the publisher", "registry": "the deployments registry",
    "none": "nobody has published the parameters",
}  # fmt: skip

# Reasons for a missing bound, by whether the kind of source is "none".
NO_BOUND = {True: "Nobody has published its parameters", False: "The sources seen state no guarantee for it"}
CAPTION = (
    "Each row is one release. Bar: the most that a belief of {prior} can become, of any adversary whose beliefs about "
    "everybody else do not depend on the person{failing}. Tick: the same if a unit is replaced by another rather than "
    "added or removed, by which rows are sorted. Dot: what one adversary with that prior, of the record's scenario, "
    "expects where the person is in."
)


def named(records: Iterable[Record]) -> dict[str, Record]:
    """Records by the stems of their files, numbered if two are the same.

    Parameters
    ----------
    records : each with its `path`

    Returns
    -------
    dict of name to record, in the given order
    """
    by_stem: dict[str, Record] = {}
    for one in records:
        name, number = one.path.stem, 2
        while name in by_stem:
            name, number = f"{one.path.stem} ({number})", number + 1
        by_stem[name] = one
    return by_stem


def solve(records: Mapping[str, Record], tree: xr.DataTree, own: bool = False) -> xr.DataTree:
    """Add title, verdict and warnings to the tree of `gallery`.

    Parameters
    ----------
    records : by name
    tree : of `gallery`, for these records
    own : whether they are files of the user, each of which is then shown on the screen too

    Returns
    -------
    the same tree
    """
    listed = [name for name in ("bounds", "scenarios", "findings") if name in tree]
    tree.attrs["records_on_screen"] = int(own)
    title = TITLE if len(records) > 1 else next(iter(records.values())).name
    warnings = [f"The scenario of {name} failed: {reason}" for name, reason in left_out(tree).items()]
    return Summary(title, listed, verdict(tree), "", warnings).on(tree)


def verdict(tree: xr.DataTree) -> str:
    """Verdict in a sentence: the number of releases that let a small belief exceed 50 %; for one release its bound."""
    bounds = tree["bounds"].to_dataset().isel(prior=0)
    prior = percent(float(bounds["prior"]))
    most = bounds["posterior"].sel(relation="stated").values
    known = most[np.isfinite(most)]
    if bounds.sizes["release"] == 1:
        if not known.size:
            reason = NO_BOUND[str(bounds["source_kind"].values[0]) == "none"]
            return f"{reason}, so that nothing bounds what an adversary may conclude."
        failure = float(bounds["failure"].values[0])
        start = "For certain" if failure == 0.0 else f"Except with probability {percent(failure)}"
        return f"{start}, a belief of {prior} can become at most {percentage(float(known[0]), True)}."
    above = int((known > EVEN).sum())
    return (
        f"In {above} of {known.size} releases with a published guarantee or method, a belief of {prior} "
        f"can become larger than {percent(EVEN)}."
    )


@guarded_document
def document(records: Mapping[str, Record], tree: xr.DataTree) -> Document:
    """Document of the gallery.

    Parameters
    ----------
    records : by name
    tree : of `solve`
    """
    bounds = tree["bounds"].to_dataset()
    several, shown = len(records) > 1, bool(tree.attrs["records_on_screen"])
    groups = {
        "Protected by the publisher": [name for name, one in _in_order(bounds, records) if one.model != "local"],
        "Noise added by each person": [name for name, one in _in_order(bounds, records) if one.model == "local"],
    }
    tables = [attempt(title, _group, title, tree, records, names) for title, names in groups.items() if names]
    sections = [
        *(tables if several else []),
        *([attempt(CONTRADICTIONS, _contradictions, tree, records)] if tree["findings"].sizes["finding"] else []),
    ]
    alone = len(records) <= FEW
    every = [attempt(one.name, _record, name, one, tree, alone) for name, one in _in_order(bounds, records)]
    if not alone:
        sections.append(attempt(EVERY_BOUND, _every_bound, bounds, records))
    if several:
        every = [Section("Every release", parts=[replace(one, folded=True) for one in every], on_screen=shown)]
    sections += every
    return Document(tree, _card(tree, records) if several else None, lead=[LEAD] if several else [], sections=sections)


LEAD = (
    "A guarantee bounds every adversary; an expectation is of one. Each record names its sources and what is not known."
)


def _in_order(bounds: xr.Dataset, records: Mapping[str, Record]) -> list[tuple[str, Record]]:
    """Names and records, the largest bound first."""
    return [(str(name), records[str(name)]) for name in bounds["release"].values]


def _card(tree: xr.DataTree, records: Mapping[str, Record]) -> Card:
    """Card at the top: four numbers and the figure of all releases."""
    bounds = tree["bounds"].to_dataset().isel(prior=0)
    known = bounds["posterior"].sel(relation="stated").dropna("release")
    prior = percent(float(bounds["prior"]))
    failure = float(bounds["failure"].max())
    failing = f"; except with probability {percent(failure)} where it is not certain" if failure > 0.0 else ""
    unknown = len(records) - known.sizes["release"]
    return Card(
        numbers=[
            ("releases", f"{len(records):,}"),
            ("without a bound", f"{unknown:,}"),
            (f"median of what {prior} can become", f"at most {_upper(float(known.median()))}"),
            ("stated numbers that others do not give", f"{tree['findings'].sizes['finding']:,}"),
        ],
        figure=Figure(
            "gallery",
            lambda: plot.gallery(tree),
            CAPTION.format(prior=prior, failing=failing),
            f"{summary_of(tree).verdict} Rows are sorted from the largest bound to the smallest.",
        ),
    )


def _group(title: str, tree: xr.DataTree, records: Mapping[str, Record], names: list[str]) -> Section:
    """Section with a table of the named releases, the largest bound first."""
    bounds = tree["bounds"].to_dataset().isel(prior=0)
    prior = percent(float(bounds["prior"]))
    table = Table(
        [
            Column("release"), Column(f"{prior} becomes at most", "% at most"), Column("replaced unit", "% at most"),
            Column("expected of one adversary", "probability"), Column("guarantee"), Column("unit"),
        ],
        name=title.lower().replace(" ", "_"),
    )  # fmt: skip
    expected = expected_posteriors(tree)
    for name in names:
        one, row = records[name], bounds.sel(release=name)
        most = [_or_none(row["posterior"].sel(relation=relation)) for relation in RELATIONS]
        table.add(one.name, *most, expected.get(name), budget(one), one.unit.name)
    return Section(title, tables=[table])


CONTRADICTIONS = "Numbers that do not agree"


def _contradictions(tree: xr.DataTree, records: Mapping[str, Record]) -> Section:
    """Section with a table of the failed checks: the stated and the computed number."""
    findings = tree["findings"].to_dataset()
    number = findings.sizes["finding"]
    table = Table(
        [Column("release"), Column("what is compared"), Column("stated", "parameter"), Column("follows", "number")],
        name="contradictions",
    )
    for i in range(number):
        row = findings.isel(finding=i)
        table.add(
            records[str(row["release"].item())].name, str(row["about"].item()), float(row["stated"]),
            float(row["computed"]),
        )  # fmt: skip
    return Section(
        CONTRADICTIONS,
        f"{number} stated number{'s do' if number > 1 else ' does'} not follow from other published numbers, by the "
        "rule that each row names.",
        tables=[table],
        notes=["By arithmetic alone: which of the two numbers is right is for the publisher to say."],
    )


def budget(record: Record) -> str:
    """Parameters of the guarantee as short text ("epsilon 2.64"), or why there is none ("not published")."""
    if record.guarantee is None:
        if record.plan is not None:
            return "none"
        return "not published" if record.kind_of_source == "none" else "not known"
    return ", ".join(f"{name} {as_given(float(x))}" for name, x in record.guarantee.budget.items())


def _record(name: str, record: Record, tree: xr.DataTree, alone: bool) -> Section:
    """Section about one release: its bound in a sentence, its facts; with `alone` a table of all its bounds."""
    bounds = tree["bounds"].to_dataset().sel(release=name)
    caution = "" if record.scenario is None else STATISTICS[record.scenario.plan.published].caution
    facts = {
        "Publisher": ", ".join(filter(None, (record.curator, record.date))),
        "Published": record.published,
        "Guarantee": budget(record) if record.guarantee is None else record.guarantee.describe(),
        "Protected unit": f"{record.unit.name}, {NEIGHBOURS[record.unit.neighbours or '']}"
        + (f"; {record.unit.periods:,} periods a year" if record.unit.periods > 1 else ""),
        "Mechanism": record.mechanism,
        "Published exactly": record.invariants,
        "Afterwards": record.processing,
        "Parameters": "; ".join(f"{key} {as_given(float(x))}" for key, x in record.parameters.items()),
        "Not known": record.unknown,
        "Source": "; ".join(filter(None, (_source(one) for one in record.sources))) or SOURCES["none"],
    }
    sentences = [record.description, _scenario(name, tree), *(f"{sentence(one.words)}." for one in record.findings)]
    known = record.loss is not None
    return Section(
        record.name,
        _finding(bounds, record),
        [text for text in sentences if text],
        tables=[_bounds_table(bounds, record)] * (alone and known),
        notes=[*(f"{key}: {text}" for key, text in facts.items() if text), *filter(None, [caution])],
    )


def _source(one: Any) -> str:
    """A source as text: its address and what it says, or words for its kind."""
    return ", ".join(filter(None, (one.url, one.about))) or SOURCES[one.kind]


def _finding(bounds: xr.Dataset, record: Record) -> str:
    """Bound at the first prior, in a sentence: as stated, for a replaced unit, and over a year."""
    if record.loss is None:
        return f"{NO_BOUND[record.kind_of_source == 'none']}."
    row = bounds.isel(prior=0)
    prior, most = percent(float(row["prior"])), float(row["posterior"].sel(relation="stated"))
    year = float(row["posterior_year"].sel(relation="stated"))
    other = float(row["posterior"].sel(relation="replaced"))
    replaced = f" ({_upper(other)} for a replaced unit)" if other > most * (1.0 + 1e-9) else ""
    over = f", over a year {_upper(year)}" if np.isfinite(year) else ""
    return f"A belief of {prior} can become at most {_upper(most)}{replaced}{over}."


def _every_bound(bounds: xr.Dataset, records: Mapping[str, Record]) -> Section:
    """Section with one table of all bounds: a row for each release, relation and prior."""
    heads = {"posterior": "at most", "posterior_year": "over a year at most"}
    table = Table(
        [Column("release"), Column("neighbors"), Column("belief", "probability"),
         *(Column(head, "% at most") for head in heads.values()),
         Column(f"detections at {percent(ALARMS)} false alarms", "% at most"),
         Column(f"success from {percent(BASELINE)}", "% at most")],
        name="every_bound",
    )  # fmt: skip
    for name, record in _in_order(bounds, records):
        for relation in RELATIONS * (record.loss is not None):
            for prior in bounds["prior"].values:
                row = bounds.sel(release=name, relation=relation, prior=prior)
                cells = [_or_none(row[key]) for key in (*heads, "detections", "attack_success")]
                table.add(record.name, relation, float(prior), *cells)
    return Section(EVERY_BOUND, tables=[table], folded=True, on_screen=False)


def _bounds_table(bounds: xr.Dataset, record: Record) -> Table:
    """Table of one release's bounds: a row for each prior, columns by relation, for one period and for a year."""
    relations = RELATIONS if record.replaced_loss is not record.loss else RELATIONS[:1]
    words = {"stated": f"a unit {NEIGHBOURS[record.unit.neighbours or '']}", "replaced": "a unit replaced"}
    words |= {"stated": "as stated"} if record.unit.neighbours is None else {}
    columns = [Column(f"{words[one]}, at most", "% at most") for one in relations]
    yearly = [Column(f"{words[one]}, over a year", "% at most") for one in relations] * (record.unit.periods > 1)
    table = Table([Column("", "text"), *columns, *yearly], name=f"{record.path.stem}_bounds")
    for prior in bounds["prior"].values:
        row = bounds.sel(prior=prior)
        cells = [float(row["posterior"].sel(relation=one)) for one in relations]
        cells += [float(row["posterior_year"].sel(relation=one)) for one in relations] * bool(yearly)
        table.add(f"a belief of {percent(float(prior))}", *cells)
    no_yearly_bounds = [None] * len(yearly)
    for key, label in (
        ("detections", f"detections at {percent(ALARMS)} false alarms"),
        ("attack_success", f"an attack that succeeds in {percent(BASELINE)} without it"),
    ):
        table.add(label, *(float(bounds[key].sel(relation=one)) for one in relations), *no_yearly_bounds)
    if float(bounds["failure"]) > 0.0:
        table.notes.append(
            f"Bounds of beliefs hold except with probability {percent(float(bounds['failure']))}; the others always."
        )
    return table


def _scenario(name: str, tree: xr.DataTree) -> str:
    """Expected posterior of a release's scenario, in a sentence; "" if it has none."""
    if "scenarios" not in tree or name not in (every := tree["scenarios"].to_dataset())["release"].values:
        return ""
    scenario = every.sel(release=name)
    parts = []
    for prior in scenario["prior"].values[[0, -1]] if scenario.sizes["prior"] > 1 else scenario["prior"].values:
        row = scenario.sel(prior=prior)
        mean, low, high = (format_probability(float(row[key])) for key in ("posterior", "lower", "upper"))
        parts.append(f"from {percent(float(prior))} to {mean} on average ({low} to {high} in 9 of 10 releases)")
    note = "" if (status := str(scenario["status"].item())) == "ok" else f" These numbers are {status}."
    return f"One adversary, {scenario['scenario'].item()}: {' and '.join(parts)}.{note}"


def _upper(p: float) -> str:
    """A probability as a percentage, rounded up."""
    return percentage(p, True)


def _or_none(value: Any) -> float | None:
    """A number, None for NaN: an empty cell of a table."""
    return None if np.isnan(float(value)) else float(value)
