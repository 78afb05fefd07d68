"""Shared parts of answers with two posteriors of a release: with the bounds of the data, and without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import xarray as xr

from adversary._core import PERCENT, interval, percent
from adversary.bounded.report.regression_file import RegressionFile
from adversary.bounded.report.release_file import ReleaseFile
from adversary.report.kit import Card, Column, Document, Section, Summary, Table, tabulate

READINGS = {"constrained": "using the bounds", "unconstrained": "ignoring the bounds"}
"""Names of the two posteriors of a release."""

# Groups of the tree that are printed.
LISTED = ("parameters", "predictive", "fit", "release", "prior")


File = ReleaseFile | RegressionFile


def posteriors_by_reading[P](file: File, read: Callable[[str], P]) -> tuple[dict[str, P], dict[str, str]]:
    """Posteriors by the names of `READINGS`, the requested one first, and the error message of a missing one.

    read : function of a name that computes the posterior; its error is raised for the requested one
    """
    names = list(READINGS) if file.constrained else list(READINGS)[::-1]
    posteriors: dict[str, P] = {}
    refused: dict[str, str] = {}
    for name in names:
        try:
            posteriors[name] = read(name)
        except (ValueError, RuntimeError) as error:
            if name == names[0]:
                raise ValueError(f"{file.path}: {error}") from None
            refused[name] = str(error)
    return posteriors, refused


def tree_of(file: File, groups: Mapping[str, xr.Dataset], refused: Mapping[str, str], **more: Any) -> xr.DataTree:
    """Tree of the groups of an answer, with fields of the file as attributes; `main` names the requested posterior.

    refused : error messages of missing posteriors, by name
    """
    tree = xr.DataTree.from_dict({name: group for name, group in groups.items() if group})
    tree.attrs.update(
        title=file.name, source=file.source, prob=file.prob,
        main="constrained" if file.constrained else "unconstrained",
        **more, **{f"refused_{name}": why for name, why in refused.items()},
    )  # fmt: skip
    return tree


def document(
    file: File,
    tree: xr.DataTree,
    card: Card,
    released: Sequence[str],
    sections: Sequence[Section],
) -> Document:
    """Document from an answer.

    card : card of the page; released : sentences on the release and the prior; sections : sections of the page
    """
    missing = [
        f"There is no posterior {READINGS[name]}: {tree.attrs[f'refused_{name}']}."
        for name in READINGS
        if f"refused_{name}" in tree.attrs
    ]
    lead = [line for line in (file.description, *released, *missing) if line]
    return Document(tree, card, lead, [*sections], file.provenance)


def summarised(tree: xr.DataTree, verdict: str, warnings: Sequence[str] = ()) -> xr.DataTree:
    """The tree itself, with title, verdict and warnings of its summary added."""
    listed = [name for name in LISTED if name in tree.children]
    return Summary(tree.attrs["title"], listed, verdict, warnings=warnings).on(tree)


def intervals(tree: xr.DataTree, names: Mapping[str, str], measures: Sequence[str]) -> Table:
    """Table of every parameter of both posteriors: `measures`, and both intervals."""
    prob = percent(tree.attrs["prob"])
    columns = {name: Column(name, "number") for name in measures} | {
        key: Column(f"{kind} {prob} interval", "posterior interval")
        for key, kind in (("hdi", "shortest"), ("eti", "equal-tailed"))
    }
    called = {"reading": READINGS, "parameter": names}
    heads = {"reading": "posterior", "parameter": "parameter", **columns}
    return tabulate(tree["parameters"].to_dataset(), heads, name="parameters", called=called, missing="none")


def side_by_side(tree: xr.DataTree, group: str, columns: Mapping[str, Column], name: str) -> Table:
    """Table of a group, with one row per posterior."""
    heads = {"reading": "posterior", **columns}
    return tabulate(tree[group].to_dataset(), heads, name=name, called={"reading": READINGS}, missing="none")


def hdi(tree: xr.DataTree, parameter: str, reading: str | None = None) -> tuple[float, float]:
    """(lower, upper) shortest interval of a parameter, by default of the requested posterior."""
    hdi_array = tree["parameters"].to_dataset()["hdi"]
    low, high = hdi_array.sel(reading=reading or tree.attrs["main"], parameter=parameter).values.tolist()
    return low, high


def interval_text(tree: xr.DataTree, parameter: str, unit: str = "") -> str:
    """Shortest interval of a parameter as text, with its unit, if any."""
    return f"{interval(hdi(tree, parameter))} {unit}".rstrip()


def gain(tree: xr.DataTree, names: Mapping[str, str], known: str, impossible: str) -> str:
    """Sentences on the benefit of the bounds: shorter intervals, and the infeasible probability without them.

    names : parameters to compare, with their names in words
    known : fact about the bounds; impossible : noun for infeasible values
    """
    refused = {name: tree.attrs.get(f"refused_{name}") for name in READINGS}
    if refused["unconstrained"]:
        return f"Without the fact that {known}, no posterior exists."
    if refused["constrained"]:
        return f"The posterior does not use the fact that {known}; with it, no posterior exists."
    share = float(tree["fit"]["infeasible"].sel(reading="unconstrained"))
    infeasible = percent(round(share, 3) if 0.0005 <= share <= 0.9995 else share)
    changes = " and that ".join(f"of the {called} {_shorter(tree, name)}" for name, called in names.items())
    return (
        f"Using the fact that {known} costs no privacy and makes the interval {changes}. Ignoring it gives probability "
        f"{infeasible} to {impossible}."
    )


def _shorter(tree: xr.DataTree, parameter: str) -> str:
    """Change of an interval's length by using the bounds, in words: "12 % shorter"."""
    using, ignoring = (high - low for low, high in (hdi(tree, parameter, name) for name in READINGS))
    change = round(100.0 * abs(1.0 - using / ignoring)) if ignoring > 0.0 else 0
    return f"{change}{PERCENT} {'shorter' if using < ignoring else 'longer'}" if change else "no shorter"
