"""Plain sentences on what publishing totals exactly costs: what they taught alone, what the noise added, which bound is
none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from adversary._core import exactly, figure_of, give_or_take, listed, outward, share
from adversary.desk.kit.audit_words import called
from adversary.driver import UNRELIABLE

GONE = "What is published exactly fixes every record: no privacy is left, whatever the noise."

PROVISO = (
    "a(t) limits readers who believe people's records to have nothing to do with one another. Who believes them tied "
    "may learn more than that about one person, up to the promise for as many records as their hypotheses differ in, k."
)

UNTOLD = (
    "No level of the plan is exact, so its readers are not told the margins: what these teach them, and what the noise "
    "adds to that, is not worked out here."
)

SAME = 5e-5
"""Ratios this close to 1 are told as no change."""


def cost(found: Mapping[str, Any]) -> Iterator[str]:
    """What it does to a promise: from a summary with `published` and `promises`."""
    published = found["published"]
    features = list(published["features"] or ())
    margins = f"the margins of {listed(features)}" if len(features) > 1 else "the margins"
    what = margins if len(features) > 1 else _counts(published["levels"]) or margins
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
            others = f", and {after} for all changes of {covered}" if before != after else ""
            reach = one["made_for"] if others else max(one["made_for"], covered)
            yield f"The {name} has {before} for changes of up to {reach} records that keep them{others}."
            continue
        yield (
            f"The promise of {name}, {before} for one record, is beside it {after}, for {covered}. Between data sets "
            "that fit and differ in one record, in what is not counted exactly, the former stays."
        )
    yield PROVISO


def _counts(levels: list[str]) -> str:
    return listed([f"the {name}'s count" for name in levels])


def untold(published: Mapping[str, Any]) -> Iterator[str]:
    """What is published exactly that readers of a plan are not conditioned on."""
    if published["disclosed"]:
        return
    if not published["levels"]:
        yield UNTOLD
    elif len(published["features"] or ()) > 1:
        yield (
            f"Of these, readers are told {_counts(published['levels'])}; the other margins count in a(t) alone, and "
            "what they teach is not worked out here."
        )


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
    mean, ratio = after(one)
    times = "many times" if one["ratio_mean"] is None else f"{ratio} times"
    return f"The noisy release then takes them to {mean} on average, {times} that."


def after(one: Mapping[str, Any]) -> tuple[str, str]:
    """Expected posterior and ratio of a reader, with their standard errors where releases are simulated."""
    mean, ratio = one["posterior_mean"], one["ratio_mean"]
    return (
        UNRELIABLE if mean is None else share(mean) + give_or_take(100.0 * one["mcse"]["posterior_mean"]),
        UNRELIABLE if ratio is None else figure_of(ratio) + give_or_take(one["mcse"]["ratio_mean"]),
    )


def _times(ratio: float | None) -> str:
    return "many times" if ratio is None else f"{figure_of(ratio)} times"


def broken(found: Mapping[str, Any]) -> Iterator[str]:
    """Promises that the plan does not keep, whatever is published exactly."""
    for name in found["violated"]:
        yield f"The plan does not keep {called(name)}: its own privacy loss exceeds it, and none of its limits holds."


def telling(found: Mapping[str, Any], names: Iterable[str]) -> tuple[list[str], list[str]]:
    """(promises that the plan keeps, those of them that releases pass when read for one record), by these readers."""
    unsure = [found["readers"][name]["bounds"] for name in names]
    kept = [key for rows in unsure[:1] for key in rows if key not in found["violated"]]
    return kept, [key for key in kept if any(rows[key]["naive_broken"] for rows in unsure)]


def naive(found: Mapping[str, Any]) -> Iterator[str]:
    """Whether releases pass the limit of a promise that is read as if nothing were published exactly.

    Of the first promise that is kept and passed, or of the first kept, the reader who passes it most often.
    """
    unsure = {name: one["bounds"] for name, one in found["readers"].items() if one["given"] not in (0.0, 1.0)}
    kept, passed = telling(found, unsure)
    every = [key for key in kept if next(iter(unsure.values()))[key]["naive"] is not None]
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


def parameter(one: Mapping[str, Any]) -> str:
    """The parameters of a promise, as `stated` gives them, in words."""
    return ", ".join(f"{name} = {exactly(float(f'{x:.6g}'))}" for name, x in one["parameters"].items()) or "no privacy"
