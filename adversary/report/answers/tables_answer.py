"""Answers of `adversary tables` and `plan`: risks of people in several published tables, and budgets for these."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from adversary import budget
from adversary._core import (
    HEADLINE,
    failure_of,
    format_apart,
    format_bound,
    format_number,
    format_uncrossed,
    percent,
    percentage,
    ranks_shown,
    sentence,
    those_tied,
    tied,
)
from adversary.adversaries.plans import Level, Plan
from adversary.adversaries.tables import Population, PublishedTable, TableAdversary
from adversary.budget import RiskProfile
from adversary.driver import audit_tables, audit_two_releases
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.mechanisms import DiscreteGaussian, Mechanism
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
    tabulate,
)
from adversary.report.kit.audit_words import budget_words, may_fail, remedy
from adversary.report.words import coverage

# Rows of the table of the largest risks.
WORST = 20

# Up to so many rows of people are in JSON; more are in the data file and the CSV file alone.
LISTED = 10_000
NUMBERS = (
    "posterior_mean", "ratio_mean", "prob_correct", "posterior_low", "posterior_high", "bound", "outside",
)  # fmt: skip
KNOWS = {
    "everybody": "The adversary knows everybody else.",
    "cell": "The adversary knows everybody else in the person's own cell of all columns together, and of other cells "
    "what is published",
    "nobody": "The adversary knows nobody else, but for what is published",
}
ANY = "every count is equally likely to them beforehand."
TOTALS = (
    "every total that the person is in is equally likely to them beforehand, and of the cells beside they read the sum."
)
EXPECTED = "beforehand they expect the given counts in every cell, as Poisson distributions."
LAW = (
    "beforehand they believe the same distribution of every cell; one of few people with an end pulls below the prior."
)
HOUSEHOLD = "Of the largest household of each cell they know all but the person."


def solve(
    title: str,
    people: Population,
    tables: Sequence[PublishedTable],
    adversary: TableAdversary,
    *,
    guarantee: Guarantee | None = None,
    unit: PrivacyUnit | None = None,
    profile: RiskProfile | None = None,
    statistic: str = "any",
    again: int = 1,
    before: Population | None = None,
    **how: Any,
) -> xr.DataTree:
    """Tree of the risks: groups `people` (row), of `audit_tables`; `tables` (table); and `summary`.

    Parameters
    ----------
    title : of the answer
    people : population of the file
    tables : that are published
    adversary : prior, knowledge and belief
    guarantee, unit : as for `audit_tables`
    profile : risk profile to judge the noise by
    statistic : of the profile, what may be published
    again : number of times that all tables are published, for the profile
    before : population of an earlier file of which the same tables were published, as for `audit_two_releases`
    **how : `failure`, `rng` and further arguments of `audit_tables`
    """
    options = how | {"guarantee": guarantee, "privacy_unit": unit}
    if before is None:
        frame = audit_tables(people, tables, adversary, **options)
    else:
        frame = audit_two_releases(people, before, tables, adversary, **options)
    released_tables = tables if before is None else [replace(one, releases=2 * one.releases) for one in tables]
    named = [name for name in people.columns if name in frame]
    columns: dict[str, Any] = {name: ("row", frame[name].to_numpy()) for name in ("count", "rank", *NUMBERS)}
    columns["most"] = ("row", frame["most" if "most" in frame else "count"].to_numpy())
    if "before" in frame:
        columns["before"] = ("row", frame["before"].to_numpy())
    words = {f"column_{name}": name for name in named}
    words |= {name: name for name in ("target", "status", "tells_most")}
    columns |= {key: ("row", frame[name].to_numpy().astype(str)) for key, name in words.items()}
    columns["bound"] = (*columns["bound"], {"direction": "upper"})
    columns["mcse"] = (("measure", "row"), frame["mcse"].to_numpy()[None])
    risk, published = frame["posterior_mean"], _published(people, tables)
    certain = all(np.isfinite(one.noise.privacy_loss(1, 1).loss_bound(0.0)) for one in tables)
    summary: dict[str, Any] = {
        "shared": int(tied(risk, frame["mcse"]).sum()),
        "people": int(people.counts.sum()),
        "cells": len(frame),
        "prior": adversary.prior,
        "worst": float(risk.iloc[0]),
        "median": float(risk.median()),
        "bound": xr.DataArray(float(frame["bound"].max()), attrs={"direction": "upper"}),
        "failure": 0.0 if certain else float(how["failure"]),
    }
    rows = xr.Dataset(columns, {"measure": ["posterior_mean"]})
    tree = xr.DataTree.from_dict({"people": rows, "tables": published, "summary": xr.Dataset(summary)})
    released = _released(released_tables)
    spent = budget_words(((one.name, noise) for one, noise in released), unit)
    *lines, last = people.understood or ("",)
    counted = _in_counts(len(released), unit)
    each = counted + (f": {spent}" if spent else "") + "."
    tree.attrs.update(
        columns=named, understood=[*lines, f"{last} {each}".strip()], budget=spent, knows=adversary.knows,
        counted=counted,
        adversary=_adversary_words(adversary, frame.attrs["route"] == "nested"),
        route=str(frame.attrs["route_words"]), failure=how["failure"], seed=how["rng"],
    )  # fmt: skip
    cautions = list(frame.attrs.get("cautions", ()))
    if adversary.prior in (0.0, 1.0):
        cautions.append(f"No release moves a prior of {adversary.prior:.0%}: ask about a prior between 0 and 1.")
    judged = set(frame["status"])
    status = next(one for one in ("unreliable", "violated", "exceeded", "holds") if one in judged)
    if profile is not None:
        true = None if status == "violated" or guarantee is None else again * guarantee
        plan, chance = plan_of(released_tables, unit, again), float(how["failure"])
        satisfied = _profile_kept(plan, profile, true, chance, statistic)
        tree.attrs["profile"], tree.attrs["profile_kept"] = profile.words, int(satisfied)
        status = status if satisfied else "violated"
    start, end = format_apart(percent, (adversary.prior, float(summary["worst"])), HEADLINE)
    rise = f"from {start} before the release to {end}"
    verdict = f"The largest risk is {_where(tree)}: {rise} after it on average."
    if profile is not None:
        every = f", in {again} releases of all tables," * (again > 1)
        verdict += f" The noise{every} {'keeps' if satisfied else 'does not keep'} the risk profile: {profile.words}."
        verdict += "" if satisfied else f" {remedy(plan, profile, chance, statistic, again)}"
    listed = ("tables", "summary", *(["people"] if len(frame) <= LISTED else []))
    return Summary(title, listed, verdict, status, cautions).on(tree)


def _adversary_words(adversary: TableAdversary, nested: bool) -> str:
    """Sentences on the adversary's knowledge and belief about others, by cell or by the totals of nested tables."""
    if adversary.knows == "everybody":
        return KNOWS["everybody"]
    flat = TOTALS if nested else ANY
    belief = flat if adversary.belief is None else EXPECTED if isinstance(adversary.belief, np.ndarray) else LAW
    return f"{KNOWS[adversary.knows]}; {belief}" + f" {HOUSEHOLD}" * (adversary.at_least is not None)


def _released(tables: Sequence[PublishedTable]) -> list[tuple[PublishedTable, Mechanism]]:
    """(table, mechanism) of every release that has noise of its own."""
    return [(one, single.noise) for one in tables for single in one.single_releases]


def _in_counts(releases: int, unit: PrivacyUnit | None) -> str:
    """Clause with the number of published counts that one unit is in."""
    name, each = ("person", 1) if unit is None else (unit.name, unit.changed_cells)
    counts = f"{releases * each} count{'s' * (releases * each > 1)}"
    return f"One person is in {counts}" if (name, each) == ("person", 1) else f"One {name} changes {counts} at most"


def plan_of(tables: Sequence[PublishedTable], unit: PrivacyUnit | None = None, again: int = 1) -> Plan:
    """Plan of all tables as levels of the same people, one for each release, as one unit is in one cell of each."""
    released = [noise for _ in range(again) for _, noise in _released(tables)]
    *below, top = (Level(f"release {i}", noise, 0) for i, noise in enumerate(released, 1))
    return Plan([*below, replace(top, siblings=None)], privacy_unit=unit)


def _profile_kept(
    plan: Plan, profile: RiskProfile, guarantee: Guarantee | None, failure: float, statistic: str
) -> bool:
    """True if the noise of all tables together, or the guarantee, satisfies a risk profile."""
    given = None if guarantee is None else {"guarantee": guarantee}
    verdicts = budget.verdicts(plan, profile, given, failure, statistic=statistic)
    return bool(verdicts.attrs["status"] == budget.KEPT)


def _published(people: Population, tables: Sequence[PublishedTable]) -> xr.Dataset:
    """Group `tables`: cells, mean count, noise, its standard deviation and relative error of every table."""
    totals = [people.table(one.by).answer(people.counts) for one in tables]
    deviation = np.sqrt([float(one.noise.variance) for one in tables])
    mean = np.array([float(total.mean()) for total in totals])
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = {"cells": [one.size for one in totals], "mean_count": mean, "deviation": deviation}
        columns |= {"error": deviation / mean, "noise": [one.noise.describe() for one in tables]}
    return xr.Dataset(
        {key: ("table", value) for key, value in columns.items()}, {"table": [one.name for one in tables]}
    )


@guarded_document
def document(tree: xr.DataTree, workbook: bool = False) -> Document:
    """Document of the risks: the largest ones, what is published, and everybody.

    Parameters
    ----------
    tree : of `solve`
    workbook : whether the tables are written as one Excel file too
    """
    people, summary = tree["people"].to_dataset(), tree["summary"].to_dataset()
    worst, bound, prior = (float(summary[name]) for name in ("worst", "bound", "prior"))
    shared, cells = int(summary["shared"]), int(summary["cells"])
    before, after, median = format_apart(percent, (prior, worst, float(summary["median"])), HEADLINE)
    card = Card(
        numbers=[
            ("before the release", before),
            (f"after it, on average: largest risk{' (shared)' * (shared > 1)}", after),
            ("median", median),
            ("at most, by the noise of all tables", percentage(bound, True)),
        ],
        figure=Figure(
            "risk_by_count",
            lambda: plot.risk_by_count(people, prior=prior, bound=bound),
            f"Probability that one person is in each of {cells:,} cells, after the release on average, by the people "
            "in it; larger points stand for more cells.",
        ),
        sentence=str(tree.attrs["adversary"]) + may_fail(float(summary["failure"])),
    )
    more = f" {WORST} of the {shared:,} that share the first are listed." * (shared > WORST)
    sections = [
        attempt(
            "The largest risks",
            lambda: Section(
                "The largest risks",
                "Worst first; = marks a rank that is shared, within the errors of the numbers." + more,
                tables=[_people(people.isel(row=slice(WORST)), tree, "worst")],
            ),
        ),
        attempt("What is published", _published_section, tree),
        attempt(
            "Everybody",
            lambda: Section(
                "Everybody",
                f"All {cells:,} cells, worst first.",
                tables=[_people(people, tree, "people", whole=True)],
                folded=True,
                on_screen=False,
            ),
        ),
    ]
    named = ("budget", "route", "seed")
    source: list[tuple[str, str]] = [(str(name), str(tree.attrs[name])) for name in named if name in tree.attrs]
    return Document(
        tree, card, sections=sections, provenance=source, understood=tree.attrs["understood"], workbook=workbook
    )


def _where(tree: xr.DataTree) -> str:
    """Clause on the cells whose risk ties with the largest: one by its name, several by what they have in common."""
    people = tree["people"].to_dataset()
    risk, counts = people["posterior_mean"].values, people["count"].values
    most = tied(risk, people["mcse"].values[0])
    columns = [people[f"column_{name}"].values[most] for name in tree.attrs["columns"]]
    called = [", ".join(map(str, one)) for one in zip(*columns, strict=True)]
    if len(called) == 1:
        return f"in {called[0]}"
    hidden = people["most"].values > counts
    kinds = {"occupied ": (counts > 0) | hidden, "empty ": (counts == 0) & ~hidden, "suppressed ": hidden}
    kind = next((kind for kind, part in kinds.items() if np.array_equal(most, part) and not part.all()), None)
    where = those_tied(called, risk.size, "cells") if kind is None else f"all {len(called):,} {kind}cells"
    if tied(risk[most]).all():
        return f"the same in {where}"
    return f"in {where}, which the errors of the numbers do not tell apart"


def _people(people: xr.Dataset, tree: xr.DataTree, name: str, *, whole: bool = False) -> Table:
    """Table of the risks of people; with `whole` every number is a column."""
    named = list(tree.attrs["columns"])
    labels: dict[str, Any] = {"who": Column(", ".join(named))}
    if whole:
        labels = {f"column_{one}": Column(one) for one in named}
    columns: dict[str, Any] = {
        "row": None, **labels, "count": ("people", "count"), "people": "people",
        "most": ("people at most", "count"), "posterior_mean": ("after, on average", "probability"),
        "range": ("9 of 10 releases", "% interval"), "bound": ("at most", "% at most"), "shown_rank": "rank",
        "target": "person", "before": ("people before", "count"),
    }  # fmt: skip
    least, most = people["count"].values, people["most"].values
    hidden = bool((most > least).any())
    for key in ("most", "people") if not hidden else ("people",) if whole else ("count", "most"):
        del columns[key]
    if len(set(tree["people"].to_dataset()["tells_most"].values)) > 1:
        columns["tells_most"] = "tells most"
    if whole:
        columns |= {
            "prior": ("before", "probability"), "ratio_mean": ("ratio", "number"),
            "prob_correct": ("P(correct)", "probability"), "outside": ("P(beyond bound)", "chance"),
        }  # fmt: skip
    if whole or (people["status"] != "holds").any():
        columns["status"] = ("status", "status")
    ends = xr.concat([people["posterior_low"], people["posterior_high"]], "side")
    ranks, prior = ("row", ranks_shown(people["rank"].values)), float(tree["summary"]["prior"])
    who = [", ".join(map(str, one)) for one in zip(*(people[f"column_{name}"].values for name in named), strict=True)]
    ranges = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in zip(least.tolist(), most.tolist(), strict=True)]
    made = people.assign(
        shown_rank=ranks, who=("row", np.array(who)), people=("row", np.array(ranges)), range=ends,
        prior=("row", np.full(people.sizes["row"], prior)),
    )  # fmt: skip
    return tabulate(made, columns, name=name)


def _published_section(tree: xr.DataTree) -> Section:
    """Section on the published tables, and on the one that says most about everybody."""
    most = sorted(set(map(str, tree["people"].to_dataset()["tells_most"].values)))
    several = tree["tables"].sizes["table"] > 1
    claim = f"Table {most[0]} tells most about everybody." if len(most) == 1 and several else ""
    return Section("What is published", claim, tables=[_table_of_tables(tree)])


def _table_of_tables(tree: xr.DataTree) -> Table:
    """Table of group `tables`, with the budget as a note."""
    columns = {
        "table": Column("table"), "cells": Column("cells", "count"), "noise": Column("noise"),
        "deviation": Column("standard deviation of the noise (people)", "number"),
        "mean_count": Column("mean count", "number"), "error": Column("over the mean count", "probability"),
    }  # fmt: skip
    table = tabulate(tree["tables"].to_dataset(), columns, name="tables", missing="–")
    if budget_said := str(tree.attrs["budget"]):
        table.notes = [sentence(f"{tree.attrs['counted']}: {budget_said}.")]
    return table


def solve_plan(
    title: str, people: Population, tables: Mapping[str, Sequence[str]], profile: RiskProfile, **how: Any
) -> xr.DataTree:
    """Tree of a split of rho over tables: group `plan` (table), of `split_rho`.

    Parameters
    ----------
    title : of the answer
    people : population of the file
    tables : columns of every table, by name
    profile : risk profile that the noise has to satisfy
    **how : further arguments of `split_rho`
    """
    split = budget.split_rho(people, tables, profile, **how)
    split["loss"].attrs["direction"], split["allowed"].attrs["direction"] = "upper", "lower"
    tree = xr.DataTree.from_dict({"plan": split})
    noises = zip(map(str, split["table"].values), map(DiscreteGaussian.from_rho, split["rho"].values), strict=True)
    surely = f", {failure_of(float(how['failure']))}" * (float(how["failure"]) > 0.0)
    covered = coverage(profile, float(split["loss"]), how["statistic"], surely)
    settings = {key: how[key] for key in ("failure", "statistic", "releases")}
    tree.attrs.update(profile=profile.words, covered=covered, budget=budget_words(noises), **settings)
    tree.attrs["understood"] = list(people.understood)
    largest, again = format_bound(float(split["total"]), False), int(how["releases"])
    each = "" if again == 1 else f", in each of {again} releases,"
    verdict = f"rho = {largest} over all tables{each} keeps the risk profile: {profile.words}."
    return Summary(title, ("plan",), verdict).on(tree)


@guarded_document
def plan_document(command: str, tree: xr.DataTree) -> Document:
    """Document of a split of rho: budgets and errors of the tables, and the `command` that audits people under them."""
    planned = tree["plan"].to_dataset()
    names = [str(one) for one in planned["table"].values]
    again = int(tree.attrs["releases"])
    loss, allowed = (float(planned[name]) for name in ("loss", "allowed"))
    reached = format_uncrossed(loss, allowed, range(3, 10)) or (format_bound(loss, True), "just that")
    weight = planned["weight"].values
    quadratic = [float((weight * planned[name].values ** 2).sum()) for name in ("error", "even_error")]
    card = Card(
        numbers=[
            (f"rho of {name}", f"{float(one):.15g}") for name, one in zip(names, planned["rho"].values, strict=True)
        ],
        sentence=f"{sentence(failure_of(float(tree.attrs['failure'])))}, no adversary whom the profile is about and "
        "whose beliefs about others do not depend on the person learns more than it allows.",
    )
    heads = {
        "table": Column("table"),
        "weight": Column("weight", "number"),
        "rho": Column("rho", "parameter"),
        "mean_count": Column("mean count", "number"),
        "deviation": Column("standard deviation of the noise (people)", "number"),
        "error": Column("over the mean count", "probability"),
        "even_error": Column("were rho split evenly", "probability"),
    }
    if (weight == weight[0]).all():
        del heads["weight"]
    table = tabulate(planned, heads, name="plan")
    weighed = "Weighed, the" if "weight" in heads else "The"
    table.notes = [
        f"{weighed} squares of the errors over the mean counts add up to {format_number(quadratic[0])}, the least for "
        f"this total; with an even split to {format_number(quadratic[1])}.",
        f"Privacy loss of all noise together: {reached[0]}; allowed: {reached[1]}. Every rho is rounded down.",
    ]
    divided = f"The budget{' of each release' * (again > 1)} is {tree.attrs['budget']}."
    rho = iter(f"{x:.15g}" for x in planned["rho"].values)
    todo = "What the tables reveal, person by person: " + re.sub("RHO", lambda _: next(rho), command)
    return Document(
        tree,
        card,
        todo=todo,
        sections=[Section("Budgets", divided, [*filter(None, [tree.attrs["covered"]]), todo], [table])],
        understood=tree.attrs["understood"],
    )
