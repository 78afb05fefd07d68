"""The section on diagnostics: whether a sampler's draws can be trusted, release by release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import figure_of, finite, share
from adversary.desk.files import Scenario
from adversary.desk.kit import PageSection, PageTable, of_reader, readers_of, unreliable
from adversary.driver import UNRELIABLE

WORST = {"r_hat": max, "ess": min, "divergences": max}
"""Per-release diagnostics, with what the worst of them is."""


def is_sampled(tree: xr.DataTree) -> bool:
    """Whether posteriors came from a sampler."""
    return "estimate" in tree.children


def worst(scenario: Scenario, tree: xr.DataTree) -> dict[str, dict[str, Any]]:
    """For every reader: status, share of releases that are unreliable, and the worst of each diagnostic."""
    found: dict[str, dict[str, Any]] = {}
    for name in readers_of(scenario):
        risk, estimate = (of_reader(tree[group].to_dataset(), name) for group in ("risk", "estimate"))
        weight = tree["release"].to_dataset()["weight"].values > 0
        rows: dict[str, Any] = {"status": UNRELIABLE if unreliable(risk) else "ok"}
        if "unreliable_mass" in risk:
            rows["unreliable_mass"] = finite(risk["unreliable_mass"].item())
        if "status" in estimate:
            rows["unreliable_releases"] = int(np.sum(estimate["status"].values[weight].astype(str) == UNRELIABLE))
        rows["releases"] = int(weight.sum())
        if rows.get("unreliable_releases") == rows["releases"] and "unreliable_mass" in rows:
            rows["unreliable_mass"] = 1.0  # but for what the table of releases leaves out
        for measure, pick in WORST.items():
            if measure in estimate:
                values = estimate[measure].values[weight]
                rows[measure] = finite(pick(values[np.isfinite(values)], default=np.nan))
        if "mcse" in risk:
            rows["mcse"] = finite(float(risk["mcse"].sel(measure="posterior_mean")))
        found[name] = rows
    return found


HEADS = {
    "status": "status",
    "releases": "different releases",
    "unreliable_releases": "unreliable",
    "unreliable_mass": "their share",
    "r_hat": "largest R-hat",
    "ess": "smallest effective sample",
    "divergences": "most divergences",
    "mcse": "standard error, expected posterior",
}


def cells(row: dict[str, Any]) -> Iterator[str]:
    """One reader's diagnostics in words, in the order of `HEADS`."""
    for key in HEADS:
        value = row.get(key)
        if value is None:
            yield "–"
        elif key == "status":
            yield str(value)
        else:
            yield share(value) if key in ("unreliable_mass", "mcse") else figure_of(float(value))


def section(scenario: Scenario, tree: xr.DataTree) -> PageSection | None:
    """The part of the report; None where nothing was sampled."""
    if not is_sampled(tree):
        return None
    several = isinstance(scenario.adversary, dict)
    table = PageTable([*["reader"] * several, *HEADS.values()], texts=1 + several)
    every = worst(scenario, tree)
    for name, row in every.items():
        table.add(*[name] * several, *cells(row))
    lines = [
        f"Posteriors were sampled (engine {tree.attrs['engine']}), release by release. R-hat compares chains and "
        "should be close to 1; the effective sample is how many independent draws they are worth; a divergence is a "
        "step that the sampler could not follow.",
    ]
    notes = list(reasons(every))
    return PageSection("Diagnostics", lines, table, notes=notes)


def reasons(every: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Why a reader's averages are unreliable."""
    for name, row in every.items():
        if row["status"] != UNRELIABLE:
            continue
        who = f"Reader {name}" if name else "The reader"
        mass = row.get("unreliable_mass")
        what = f"releases with a share of {share(mass)} in all" if mass else "some releases"
        yield (
            f"{who}: {UNRELIABLE}, because the posteriors of {what} could not be sampled so that the diagnostics hold, "
            "and an average without them would be of other releases. A model that is easier to sample, or the exact "
            "engine where it applies, are the remedies."
        )
