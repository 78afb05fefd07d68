"""Plain sentences on what publishing totals exactly costs: what they taught alone, what the noise added, which bound is
none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from adversary.desk.exact_promises import parameter
from adversary.desk.words import called, figure_of, outward, share
from adversary.policy.phrases import listed

GONE = "What is published exactly fixes every record: no privacy is left, whatever the noise."

PROVISO = (
    "a(t) limits readers who believe people's records to have nothing to do with one another. Who believes them tied "
    "may learn more than that about one person, up to the promise for as many records as their hypotheses differ in, k."
)


SAME = 5e-5
"""Ratios this close to 1 are told as no change."""


def cost(found: Mapping[str, Any]) -> Iterator[str]:
    """What it does to a promise: from a summary with `published` and `promises`."""
    published = found["published"]
    what = listed([f"the {name}'s count" for name in published["levels"]]) or "the margins"
    if published["disclosed"]:
        yield GONE
        return
    a, covered = published["used"], published["records_covered"]
    yield (
        f"Published exactly: {what}. Data sets that do not fit are ruled out. In those that remain nobody is counted "
        f"elsewhere unless others make up for it: up to a(t) = {a} records have to change together."
    )
    for name, one in found["promises"].items():
        before, after = (parameter(one[when]) for when in ("before", "after"))
        if "made_for" in one:
            yield (
                f"The {name} has {before} for changes of up to {one['made_for']} records that keep them, and {after} "
                f"for all changes of {covered}."
            )
            continue
        yield (
            f"The promise of {name}, {before} for one record, is beside it {after}, for {covered}. Between data sets "
            "that fit and differ in one record, in what is not counted exactly, the former stays."
        )
    yield PROVISO


def learned(name: str, one: Mapping[str, Any]) -> str:
    """The two steps of one reader: from the prior to the prior given the totals, and from there on."""
    who = f"Reader “{name}”" if name else "The reader"
    alone = (
        "learn nothing from what is published exactly"
        if one["invariant_ratio"] is not None and abs(one["invariant_ratio"] - 1.0) < SAME
        else f"go to {share(one['given'])} by what is published exactly alone, {_times(one['invariant_ratio'])} as "
        "much, which no promise limits"
    )
    return f"{who}: {share(one['prior'])} before anything. They {alone}. {_added(one)}"


def _added(one: Mapping[str, Any]) -> str:
    if one["posterior_mean"] is None:
        return "What the noisy release adds could not be worked out."
    if one["given"] in (0.0, 1.0):
        return "They are then sure, and the noise hides nothing from them."
    return (
        f"The noisy release then takes them to {share(one['posterior_mean'])} on average, "
        f"{_times(one['ratio_mean'])} that."
    )


def _times(ratio: float | None) -> str:
    return "many times" if ratio is None else f"{figure_of(ratio)} times"


def naive(found: Mapping[str, Any]) -> Iterator[str]:
    """Whether releases pass the limit of a promise that is read as if nothing were published exactly.

    Of the first promise that is passed, or of the first, the reader who passes it most often.
    """
    unsure = {name: one["bounds"] for name, one in found["readers"].items() if one["given"] not in (0.0, 1.0)}
    every = [key for rows in list(unsure.values())[:1] for key in rows if rows[key]["naive"] is not None]
    passed = [key for key in every if any(rows[key]["naive_broken"] for rows in unsure.values())]
    for key in (passed or every)[:1]:
        worst = max(unsure, key=lambda name: unsure[name][key]["naive_outside"] or 0.0)
        row, who = unsure[worst][key], f"reader “{worst}”" if worst else "this reader"
        often = f", but for {share(row['failure'])} of releases" if row["failure"] else ""
        said = (
            f"Read for one record as if nothing were published exactly, {called(key)} would keep odds within a factor "
            f"exp({outward(row['naive'], True)}){often}. That is no bound"
        )
        beyond = f": {share(row['naive_outside'])} of releases take {who} beyond it."
        yield said + (beyond if passed else ", though nobody here is seen to pass it.")


def of_table(found: Mapping[str, Any]) -> Iterator[str]:
    """What the margins taught, what the release added, and which bound is none."""
    one = found["table"]
    if one["status"] == "unreliable":
        yield "The walk over tables did not converge, so no number is given."
        return
    ratios = [x for row in one["invariant_ratio"] for x in row if x is not None and x > 0.0]
    most = max(max(ratios), 1.0 / min(ratios))
    yield (
        f"The margins alone change the probability that a record is in a cell by a factor of up to {figure_of(most)}, "
        "which no promise limits."
    )
    if "achieved" not in one:
        return
    if one["radius"] == 0:
        yield "With what this reader knows they settle where the record is: the noise hides nothing from them."
        return
    yield (
        f"The noisy table moves the odds of a cell by a factor of up to exp({figure_of(one['achieved'])}); a promise "
        f"lets it move them by exp({outward(one['odds_bound'], True)}), for this reader's k = {one['radius']} records."
        if one["odds_bound"] is not None
        else "Nothing limits how far the noisy table may move the odds of a cell."
    )
    if one["naive"] is not None:
        passed = "this release goes beyond it" if one["naive_broken"] else "though this release does not pass it"
        yield f"Read for one record alone it would be exp({outward(one['naive'], True)}): that is no bound, {passed}."


def verdict(found: Mapping[str, Any]) -> str:
    """The conclusion of a summary, in one or two sentences."""
    if found["published"]["disclosed"]:
        return GONE
    first = next(iter(found["promises"].items()), None)
    parts = []
    if first is not None:
        name, one = first
        before, after = parameter(one["before"]), parameter(one["after"])
        made = f"The {name} has {before} for changes of {one.get('made_for')} records that keep them"
        turned = f"Publishing totals exactly turns {name} with {before} into {after}"
        parts.append(made if "made_for" in one else turned)
    sure = [name for name, one in found.get("readers", {}).items() if one["given"] in (0.0, 1.0)]
    most = max((one["invariant_ratio"] or np.inf for one in found.get("readers", {}).values()), default=1.0)
    if sure:
        who = "the reader" if sure == [""] else listed([f"reader “{name}”" for name in sure])
        parts.append(f"{who} {'is' if len(sure) == 1 else 'are'} sure of the target before any noise is read")
    elif most > 1.0:
        parts.append(f"it alone makes a reader believe {_times(most)} as much as before")
    return ("; ".join(parts) or "Some totals are published exactly") + "."
