"""An audit as one JSON object, and as tables on the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adversary._core import finite, numbers
from adversary.desk.answers import exact_adversaries, profile_verdict
from adversary.desk.files import Scenario
from adversary.desk.kit import add, audit_words, show_warnings, table
from adversary.desk.report import (
    descriptions,
    diagnostics_section,
    empirical_epsilon_section,
    profile_section,
)

MEASURES = ("posterior_mean", "ratio_mean", "prob_correct", "tie_mass")


def summary(scenario: Scenario, tree: xr.DataTree) -> dict[str, Any]:
    """The audit as one JSON object: numbers if there is one reader, else objects keyed by the readers' names.

    With several truths, objects keyed by the truths' names lie inside those. What is not a finite number is null.
    """
    risk, bound = tree["risk"].to_dataset(), tree["bound"].to_dataset()
    result: dict[str, Any] = {
        "title": scenario.title,
        "engine": tree.attrs["engine"],
        "seed": tree.attrs["seed"],
        "neighbours": scenario.neighbours,
        "cells": scenario.plan.cells,
        "truth": scenario.truth,
        "warnings": audit_words.warnings(tree),
    }
    for name in (*MEASURES, *(name for name in ("prior", "invariant_ratio") if name in risk)):
        result[name] = _keyed(risk, partial(_number, name))
    if "mcse" in risk:
        errors = risk["mcse"]
        measures = [str(name) for name in errors["measure"].values]
        result["mcse"] = _keyed(errors, lambda one: dict(zip(measures, map(finite, one.values), strict=True)))
    if "status" in risk:
        result["status"] = _keyed(risk, lambda one: audit_words.UNRELIABLE if audit_words.unreliable(one) else "ok")
    if diagnostics_section.is_sampled(tree):
        result["diagnostics"] = _by_reader(scenario, tree, diagnostics_section.worst)
    result["bounds"] = _keyed(bound, _bounds)
    if exact_adversaries.totals_of(scenario) is not None:
        result["invariants"] = _by_truth(scenario, tree, exact_adversaries.brief)
    result["both_truths"] = _by_reader(scenario, tree, _capable)
    if scenario.profile is not None:
        readers = _by_reader(scenario, tree, profile_section.answer)
        result["profile"] = {**profile_verdict.answer(profile_verdict.verdicts(scenario, tree)), "readers": readers}
    return result


def _number(name: str, risk: xr.Dataset) -> Any:
    """One average, or the word "unreliable" in its place."""
    return finite(risk[name].item()) if name == "prior" or not audit_words.unreliable(risk) else audit_words.UNRELIABLE


def _by_reader(scenario: Scenario, tree: xr.DataTree, read: Callable[[Scenario, xr.DataTree], dict[str, Any]]) -> Any:
    """What `read` says of every reader under every truth, in the same shape as `_keyed`."""
    found = {truth: read(one, part) for truth, one, part in audit_words.cases(scenario, tree)}
    nested = {
        name: rows if "truths" in scenario.document else rows[""]
        for name in audit_words.readers_of(scenario)
        if (rows := {truth: each[name] for truth, each in found.items()})
    }
    return nested if isinstance(scenario.adversary, dict) else nested[""]


def _by_truth(scenario: Scenario, tree: xr.DataTree, read: Callable[[Scenario, xr.DataTree], Any]) -> Any:
    """What `read` says of every truth; itself where there is one."""
    found = {truth: read(one, part) for truth, one, part in audit_words.cases(scenario, tree)}
    return found.get("", found)


def _capable(scenario: Scenario, tree: xr.DataTree) -> dict[str, Any]:
    """Every reader under both truths, with their own epsilon beside what the accounting allows."""
    return {
        name: {
            "posterior_mean": {truth: _given(p) for truth, p in one.posterior.items()},
            "prob_correct": {truth: _given(p) for truth, p in one.correct.items()},
            "empirical_epsilon": _given(one.epsilon),
            "failure": one.failure,
            "allowed": {definition: finite(value) for definition, value in one.allowed.items()},
        }
        for name, one in empirical_epsilon_section.capabilities(scenario, tree).items()
    }


def _given(x: float | None) -> float | None:
    return None if x is None else finite(x)


def _keyed(data: Any, read: Callable[[Any], Any]) -> Any:
    """`read` of the data for every reader and truth."""
    for dim in ("adversary", "truth"):
        if dim in data.dims:
            return {str(name): _keyed(data.sel({dim: name}, drop=True), read) for name in data[dim].values}
    return read(data)


def _bounds(bound: xr.Dataset) -> dict[str, Any]:
    rows = {}
    for name in bound["definition"].values:
        one = bound.sel(definition=name)
        intervals = {key: numbers(one[key].values) for key in ("posterior", "ratio", "difference")}
        rows[str(name)] = {
            **intervals,
            "outside": finite(one["outside"].item()),
            "failure": finite(one["failure"].item()),
            "k": int(one["k"]),
            "status": str(one["status"].item()),
        }
    return rows


def show(scenario: Scenario, tree: xr.DataTree, console: Console) -> None:
    """The audit as tables: readers and what they learn, then every bound with its status."""
    console.print(Text(scenario.title or scenario.path.name, style="bold"))
    for name, one, part in audit_words.cases(scenario, tree):
        counts = descriptions.counts(one)
        where = f"{name}: " if name else ""
        console.print(Text(f"{where}true counts {counts}; {scenario.neighbours} neighbours; {how(part)}"))
        console.print(_learned(one, part))
        console.print(_promised(one, part))
        for sentence in _said(one, part):
            console.print(Text(sentence))
        for status in np.unique(part["bound"].to_dataset()["status"].values):
            if status != "holds":
                console.print(Text(audit_words.STATUS[str(status)], style="red"))
        profile_section.show_readers(one, part, console)
    profile_section.show(scenario, tree, console)
    show_warnings(audit_words.warnings(tree), console)


def _said(scenario: Scenario, tree: xr.DataTree) -> Iterator[str]:
    """What is done to the numbers, what exact totals cost, what readers could do, and why a sampler is not believed."""
    yield from descriptions.processing(scenario)
    if exact_adversaries.totals_of(scenario) is not None:
        yield from exact_adversaries.sentences(exact_adversaries.brief(scenario, tree))
    yield from empirical_epsilon_section.told(empirical_epsilon_section.capabilities(scenario, tree))
    if diagnostics_section.is_sampled(tree):
        every = diagnostics_section.worst(scenario, tree)
        for name, row in every.items():
            pairs = zip(diagnostics_section.HEADS.values(), diagnostics_section.cells(row), strict=True)
            yield f"diagnostics{f' of reader {name}' if name else ''}: " + ", ".join(f"{k} {v}" for k, v in pairs)
        yield from diagnostics_section.reasons(every)


def how(tree: xr.DataTree) -> str:
    """How the averages of an audit were computed, in a phrase: the engine, and exactly or by simulation.

    Parameters
    ----------
    tree : what `adversary.audit` returns for one adversary and truth

    Returns
    -------
    str, such as "engine exact, exact averages over releases"; of a simulation it names draws and seed.
    """
    if tree["risk"]["posterior_mean"].attrs.get("direction") == "exact":
        return f"engine {tree.attrs['engine']}, exact averages over releases"
    draws, seed = tree.attrs["draws"], tree.attrs["seed"]
    return f"engine {tree.attrs['engine']}, {draws} simulated releases, seed {seed}, ± standard error"


def _learned(scenario: Scenario, tree: xr.DataTree) -> Table:
    given = "invariant_ratio" in tree["risk"].to_dataset()
    start = "prior given exact levels" if given else "prior"
    heads = [start, "expected posterior", "expected ratio", "right guesses", "ties"]
    learned = table("What the reader learns", ["reader"], heads)
    for name in audit_words.readers_of(scenario):
        one = audit_words.of_reader(tree["risk"].to_dataset(), name)
        ratio = audit_words.figure_of(float(one["ratio_mean"])) + audit_words.error(one, "ratio_mean")
        posterior, correct = (
            audit_words.share(float(one[key])) + audit_words.error(one, key, 100.0)
            for key in ("posterior_mean", "prob_correct")
        )
        numbers = [posterior, ratio, correct, audit_words.share(float(one["tie_mass"]))]
        shown = [audit_words.stated(one, number) for number in numbers]
        add(learned, name or "the reader", audit_words.share(float(one["prior"])), *shown)
    return learned


def _promised(scenario: Scenario, tree: xr.DataTree) -> Table:
    heads = ["posterior", "ratio", "may fail in", "releases beyond", "k"]
    promised = table("What was promised (lower ends rounded down, upper ends up)", ["reader", "promise"], heads)
    promised.add_column("status")
    for name in audit_words.readers_of(scenario):
        bound = audit_words.of_reader(tree["bound"].to_dataset(), name)
        for definition in bound["definition"].values:
            one = bound.sel(definition=definition)
            status = str(one["status"].item())
            cells = [
                name or "the reader",
                audit_words.called(str(definition)),
                audit_words.between(*map(float, one["posterior"].values), percent=True),
                audit_words.between(*map(float, one["ratio"].values)),
                audit_words.share(float(one["failure"])),
                audit_words.beyond(float(one["outside"])),
                str(int(one["k"])),
            ]
            style = "green" if status == "holds" else "red"
            promised.add_row(*map(Text, cells), Text(status, style=style))
    return promised
