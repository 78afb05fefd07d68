"""Cells of the audit's tables: of several adversaries, of a number with its error, of one truth."""

from __future__ import annotations

import numpy as np
import xarray as xr

from adversary.desk.files import Scenario
from adversary.desk.kit import Column, Measured
from adversary.desk.kit.audit_words import of_reader


def head(scenario: Scenario) -> list[Column]:
    """The first column, where there are several adversaries."""
    return [Column("adversary")] * isinstance(scenario.adversary, dict)


def named(scenario: Scenario, name: str) -> list[str]:
    """Its cell."""
    return [name] * isinstance(scenario.adversary, dict)


def group(tree: xr.DataTree, name: str, reader: str) -> xr.Dataset | None:
    """A group, of one adversary; None where there is none."""
    if name not in tree.children:
        return None
    found = tree[name].to_dataset()
    if "adversary" in found.dims and reader not in found["adversary"].values:
        return None
    return of_reader(found, reader)


def measured(one: xr.Dataset, name: str) -> Measured | str:
    """A number with its standard error; words where there is none."""
    value = float(one[name])
    if np.isnan(value):
        return "–"
    known = "mcse" in one and name in one["measure"].values
    return Measured(value, float(np.nan_to_num(one["mcse"].sel(measure=name)))) if known else Measured(value)


def of_side(one: xr.Dataset, name: str, side: str, dim: str = "target") -> Measured | str:
    """A number under one truth, or that the adversary rules it out."""
    at = one.sel({dim: side})
    return measured(at, name) if bool(at["possible"]) else "ruled out"
