"""Sections on other releases of the same counts: repeated ones, and numbers before they were post-processed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import format_probability, join_words
from adversary.driver import GROUPS
from adversary.report import plot
from adversary.report.files import Scenario
from adversary.report.kit import Figure, Section, Table, tabulate
from adversary.report.kit.audit_words import AVERAGES, RULED_OUT, both_targets, group_of_adversary


def repeated_section(scenario: Scenario, tree: xr.DataTree) -> Section:
    """Section on the effect of each further release of a count."""
    every = tree["repeated"].to_dataset()
    columns = {"count": "count", "adversary": "adversary", "releases": ("releases", "count"), **AVERAGES}
    repeated = both_targets(every, every).assign(there=every["possible"].fillna(0).any("target"))
    table = tabulate(
        repeated, columns, name="repeated releases", called=dict.fromkeys(AVERAGES, RULED_OUT), where="there"
    )
    runs = _runs(every)
    often = ", ".join(f"{level} ({number} releases)" for level, number in runs.items())

    def draw(level: str) -> Any:
        return plot.audit_figures.repeated_releases(tree, level, next(iter(scenario.adversaries)))

    drawn = [
        Figure(
            f"releases {level}",
            partial(draw, level),
            f"Posterior after 1, 2, ... releases of the {level}: expected, and in 9 of 10 releases.",
        )
        for level in runs
    ]
    return Section(
        GROUPS["repeated"].title,
        f"The same count is published again with fresh noise: {often}.",
        ["Log Bayes factors add up, in any order; expected ratios do not multiply."],
        [table],
        drawn,
    )


def _runs(every: xr.Dataset) -> dict[str, int]:
    """Number of releases of each count that is published repeatedly."""
    mean = every["posterior_mean"]
    known = {str(level): mean.sel(count=level).dropna("releases", how="all") for level in mean["count"].values}
    return {level: int(one["releases"].max()) for level, one in known.items()}


READ = {"one": "the cell's own query", "all": "all queries of the unit"}
PUBLISHED = {"cell": "the cell's raw release alone", "published": "as published", "raw": "everything raw: the bound"}


def _side_by_side(every: xr.Dataset, name: str, head: str, called: dict[str, str], own: str) -> Table:
    """Table of averages under both truths, for several parts of a release; the row `own` is highlighted."""
    columns = {"adversary": "adversary", "published": head, **AVERAGES}
    words: dict[str, Any] = {"published": called, **dict.fromkeys(AVERAGES, RULED_OUT)}
    both = both_targets(every, every)
    return tabulate(both, columns, name=name, called=words, marked={"published": called[own]})


def queries(scenario: Scenario, tree: xr.DataTree) -> Section:
    """Section on the risk given one query of a unit, and given all of its queries."""
    every = tree["queries"].to_dataset().sel(published=list(READ))
    units = join_words([level for level in dict.fromkeys(one.query_of for one in scenario.plan.levels) if level])
    return Section(
        GROUPS["queries"].title,
        f"Several queries of the {units} count the target. All numbers of this audit are of an adversary who reads "
        "every one of them; to read only the cell's own count understates what is published.",
        ["Such an adversary knows everybody else there, so that the log Bayes factors of the queries add up."],
        [_side_by_side(every, "queries", "read", READ, "all")],
    )


def postprocessing(scenario: Scenario, tree: xr.DataTree) -> Section:
    """Section on post-processing and its effect on the adversary."""
    every = tree["postprocessing"].to_dataset().sel(published=list(PUBLISHED))
    sentences = [_effect_words(name, group_of_adversary(every, name)) for name in scenario.adversaries]
    bound = (
        "What is computed from a release reveals no more than the release: for an adversary with correct beliefs, the "
        "last row bounds the expected posterior with the target in, and every guarantee still holds."
    )
    if scenario.plan.postprocessing is not None:
        bound += " It can reveal more than the raw release of the same cell, because the siblings' releases enter it."
    table = _side_by_side(every, "post-processing", "release", PUBLISHED, "published")
    return Section(GROUPS["postprocessing"].title, " ".join(filter(None, sentences)), [bound], [table])


def _effect_words(name: str, effect: xr.Dataset) -> str:
    """Sentence that compares the published numbers with the cell's raw release: revealing more or less."""
    cell, published, raw = (float(effect["posterior_mean"].sel(published=key, target="in")) for key in PUBLISHED)
    if not np.isfinite([cell, published]).all() or abs(published - cell) < 1e-9:
        return ""
    who = f"To adversary {name} the" if name else "The"
    text = (
        f"{who} published numbers reveal {'more' if published > cell else 'less'} than the cell's raw release alone: "
        f"an expected posterior of {format_probability(published)} against {format_probability(cell)}"
    )
    if published > raw + 1e-9:
        return (
            f"{text}. This exceeds the bound of {format_probability(raw)} for correct beliefs: theirs are mistaken or "
            "improper."
        )
    return f"{text}; everything raw gives {format_probability(raw)}."


# Section of each group, in the order of the page.
SECTIONS = {"queries": queries, "repeated": repeated_section, "postprocessing": postprocessing}
