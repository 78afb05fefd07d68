"""The section on diagnostics: whether a sampler's draws can be trusted, release by release."""

from __future__ import annotations

import numpy as np
import xarray as xr

from adversary._core import share
from adversary.desk.files import Scenario
from adversary.desk.kit import Column, Section, tabulate
from adversary.desk.kit.audit_words import of_reader, readers_of, unreliable
from adversary.driver import UNRELIABLE

COLUMNS = {
    "adversary": "adversary",
    "judged": Column("status", "status"),
    "releases": Column("different releases", "count"),
    "unreliable_releases": Column("unreliable", "count"),
    "unreliable_mass": Column("their share", "probability"),
    "r_hat": Column("largest R-hat", "number"),
    "ess": Column("smallest effective sample", "number"),
    "divergences": Column("most divergences", "number"),
}


def section(scenario: Scenario, tree: xr.DataTree) -> Section | None:
    """The part of the document; None where nothing was sampled."""
    if "diagnostics" not in tree.children:
        return None
    found, failed, notes = tree["diagnostics"].to_dataset(), dict[str, bool](), list[str]()
    for name in readers_of(scenario):
        failed[name] = unreliable(of_reader(tree["risk"].to_dataset(), name))
        if failed[name]:
            notes.append(
                f"{f'Adversary {name}' if name else 'The adversary'} is {UNRELIABLE}: posteriors of releases with a "
                f"share of {share(float(of_reader(found, name)['unreliable_mass']))} could not be sampled so that the "
                "diagnostics hold, and an average without them would be of other releases. A model that is easier to "
                "sample, or the exact engine where it applies, are the remedies."
            )
    judged = xr.DataArray([UNRELIABLE if one else "ok" for one in failed.values()], {"adversary": list(failed)})
    shown = found.where(np.isfinite(found)).assign(judged=judged if "adversary" in found.dims else judged[0])
    for key in COLUMNS:
        shown[key] = shown.get(key, np.nan) if key != "adversary" else judged["adversary"]
    table = tabulate(shown, COLUMNS, name="diagnostics", missing="–")
    said = "Some posteriors could not be sampled reliably." if notes else "All posteriors were sampled reliably."
    lines = [
        f"Posteriors were sampled (engine {tree.attrs['engine']}), release by release. R-hat compares chains and "
        "should be close to 1; the effective sample is how many independent draws they are worth; a divergence is a "
        "step that the sampler could not follow.",
    ]
    return Section("Diagnostics", said, lines, [table], notes=notes)
