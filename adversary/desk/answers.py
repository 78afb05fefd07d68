"""An audit as one JSON object, and as tables on the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Console
from rich.table import Table
from rich.text import Text

from adversary.desk import words
from adversary.desk.scenarios import Scenario
from adversary.desk.tables import add, finite, numbers, table

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
    }
    for name in (*MEASURES, *(name for name in ("prior", "invariant_ratio") if name in risk)):
        result[name] = _keyed(risk[name], lambda one: finite(one.item()))
    if "mcse" in risk:
        errors = risk["mcse"]
        measures = [str(name) for name in errors["measure"].values]
        result["mcse"] = _keyed(errors, lambda one: dict(zip(measures, map(finite, one.values), strict=True)))
    result["bounds"] = _keyed(bound, _bounds)
    return result


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
    for name, one, part in words.cases(scenario, tree):
        counts = ", ".join(f"{level} {count}" for level, count in one.truth.items())
        where = f"{name}: " if name else ""
        console.print(Text(f"{where}true counts {counts}; {scenario.neighbours} neighbours; {_how(part)}"))
        console.print(_learned(one, part))
        console.print(_promised(one, part))
        for status in np.unique(part["bound"].to_dataset()["status"].values):
            if status != "holds":
                console.print(Text(words.STATUS[str(status)], style="red"))


def _how(tree: xr.DataTree) -> str:
    if tree["risk"]["posterior_mean"].attrs.get("direction") == "exact":
        return f"engine {tree.attrs['engine']}, exact averages over releases"
    draws, seed = tree.attrs["draws"], tree.attrs["seed"]
    return f"engine {tree.attrs['engine']}, {draws} simulated releases, seed {seed}, ± standard error"


def _learned(scenario: Scenario, tree: xr.DataTree) -> Table:
    given = "invariant_ratio" in tree["risk"].to_dataset()
    start = "prior given exact levels" if given else "prior"
    heads = [start, "expected posterior", "expected ratio", "right guesses", "ties"]
    learned = table("What the reader learns", ["reader"], heads)
    for name in words.readers_of(scenario):
        one = words.of_reader(tree["risk"].to_dataset(), name)
        ratio = words.figure_of(float(one["ratio_mean"])) + words.error(one, "ratio_mean")
        posterior, correct = (
            words.share(float(one[key])) + words.error(one, key, 100.0) for key in ("posterior_mean", "prob_correct")
        )
        cells = [name or "the reader", words.share(float(one["prior"])), posterior, ratio, correct]
        add(learned, *cells, words.share(float(one["tie_mass"])))
    return learned


def _promised(scenario: Scenario, tree: xr.DataTree) -> Table:
    heads = ["posterior", "ratio", "may fail in", "releases beyond", "k"]
    promised = table("What was promised (lower ends rounded down, upper ends up)", ["reader", "promise"], heads)
    promised.add_column("status")
    for name in words.readers_of(scenario):
        bound = words.of_reader(tree["bound"].to_dataset(), name)
        for definition in bound["definition"].values:
            one = bound.sel(definition=definition)
            status = str(one["status"].item())
            cells = [
                name or "the reader",
                words.called(str(definition)),
                words.between(*map(float, one["posterior"].values), percent=True),
                words.between(*map(float, one["ratio"].values)),
                words.share(float(one["failure"])),
                words.beyond(float(one["outside"])),
                str(int(one["k"])),
            ]
            style = "green" if status == "holds" else "red"
            promised.add_row(*map(Text, cells), Text(status, style=style))
    return promised
