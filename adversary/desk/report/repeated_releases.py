"""The section on counts that are published more than once: what each further release adds."""

from __future__ import annotations

from functools import partial

import numpy as np
import xarray as xr

from adversary._core import blocks, figure_of, give_or_take, share
from adversary.desk.files import Scenario
from adversary.desk.kit import PageSection, PageTable, as_audited, readers_of, shown, source, spread_of
from adversary.driver import TRUTHS, sweep


def after_each(scenario: Scenario, tree: xr.DataTree, level: str, name: str = "") -> xr.Dataset:
    """Risk under both truths after 1, 2, ... releases of a level: a sweep with the dim `releases`.

    Where releases are simulated, those of the whole sequence are the audit's own.

    Parameters
    ----------
    level : published more than once
    name : of the reader
    """
    numbers = np.arange(1, scenario.sequences[level] + 1)
    rows = []
    for number in blocks.track(list(numbers), f"releases of the {level}"):
        one = scenario.with_releases(level, int(number))
        reader = readers_of(one)[name]
        rows.append(sweep(one.plan, reader, one.truth, **as_audited(one, tree), progress=False))
    return xr.concat(rows, xr.DataArray(numbers, dims="releases", name="releases"))


def section(scenario: Scenario, tree: xr.DataTree) -> PageSection | None:
    """The part of the report; None where everything is published once."""
    if not scenario.sequences:
        return None
    from adversary.desk.figures import tornado

    several = isinstance(scenario.adversary, dict)
    heads = ["level", *["reader"] * several, "releases", "expected posterior, in", "expected posterior, out"]
    table = PageTable([*heads, "expected ratio, in", "right guesses, in", "right guesses, out"], texts=1 + several)
    figures = []
    for level in scenario.sequences:
        for name in readers_of(scenario):
            found = after_each(scenario, tree, level, name)
            for number in found["releases"].values:
                row = found.sel(releases=number)
                table.add(level, *[name] * several, str(number), *_cells(row))
            if name == next(iter(readers_of(scenario))) and found.sizes["releases"] > 2:
                text = f"Posteriors{f' of reader {name}' if name else ''} after 1, 2, ... releases of the {level}."
                figures.append(shown(partial(tornado.fan, found, "releases"), text))
    often = ", ".join(f"the {level} {number} times" for level, number in scenario.sequences.items())
    lines = [
        *source(tree),
        f"The same count is published again and again with fresh noise: {often}. Log Bayes factors add up, in any "
        "order; expected ratios do not multiply. The siblings' own counts, where there are any, are published once.",
    ]
    return PageSection("What each further release adds", lines, table, figures=figures)


def _cells(row: xr.Dataset) -> list[str]:
    def at(measure: str, truth: str, told: str) -> str:
        if not bool(row["possible"].sel(truth=truth)):
            return "not held possible"
        value = float(row[measure].sel(truth=truth))
        error = spread_of(row.sel(truth=truth), measure)
        if told == "share":
            return share(value) + give_or_take(100.0 * error)
        return figure_of(value) + give_or_take(error)

    return [
        *(at("posterior_mean", truth, "share") for truth in TRUTHS),
        at("ratio_mean", "in", "figure"),
        *(at("prob_correct", truth, "share") for truth in TRUTHS),
    ]
