"""Summary of an answer (title, verdict, warnings) and its JSON, both from the DataTree that `solve` returns.

The summary is an attribute of the tree, so that screen, page, JSON and data file agree, and JSON needs no document:
neither tables nor figures nor sections.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from adversary._core import finite

# Version of the keys of JSON records.
SCHEMA = 1

# Attribute of the tree with its `Summary`, as JSON.
ATTRIBUTE = "summary"

# Attribute of the tree with the parts that could not be computed and the reasons, by name, as JSON.
LEFT_OUT = "left_out"

_LABELS = {"type": ["string", "number", "boolean", "null"]}
RESULT = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "What a command prints with --json",
    "type": "object",
    "additionalProperties": False,
    "required": ["schema", "title", "attributes", "verdict", "warnings", "records"],
    "properties": {
        "schema": {"const": SCHEMA},
        "title": {"type": "string"},
        "attributes": {"type": "object", "description": "where the numbers come from"},
        "verdict": {
            "type": ["object", "null"],
            "required": ["text", "status"],
            "properties": {
                "text": {"type": "string"},
                "status": {"enum": ["holds", "exceeded", "violated", "unreliable", ""]},
            },
        },
        "warnings": {"type": "array", "items": {"type": "string"}},
        "records": {
            "type": "array",
            "items": {
                "type": "object",
                "description": "a number; its other keys are its labels, such as adversary or truth",
                "required": ["group", "quantity", "value", "error", "direction"],
                "properties": {
                    "group": {"type": "string"},
                    "quantity": {"type": "string"},
                    "value": _LABELS | {"description": "null where it is infinite or there is none"},
                    "error": {"type": ["number", "null"], "description": "standard error; null where it is exact"},
                    "direction": {"enum": ["exact", "estimate", "lower", "upper"]},
                },
                "additionalProperties": _LABELS,
            },
        },
    },
}
"""The JSON schema of `as_json`."""


class Summary(NamedTuple):
    """Title, verdict and warnings of an answer.

    Parameters
    ----------
    title : of the file or the question
    listed : groups whose numbers JSON lists
    verdict : conclusion in a sentence or two, "" for none
    status : "holds", "exceeded", "violated", "unreliable", or "" if nothing is judged
    warnings : cautions about the numbers
    """

    title: str
    listed: Sequence[str] = ()
    verdict: str = ""
    status: str = ""
    warnings: Sequence[str] = ()

    def on(self, tree: xr.DataTree) -> xr.DataTree:
        """Store the summary as an attribute of a tree, and return the tree."""
        tree.attrs[ATTRIBUTE] = json.dumps(self._asdict() | {name: list(getattr(self, name)) for name in LISTS})
        return tree


# Fields that JSON has as lists.
LISTS = ("listed", "warnings")


def summary_of(tree: xr.DataTree) -> Summary:
    """Summary of an answer; for a tree without one, its title and the names of all its groups.

    Parameters
    ----------
    tree : as `solve` returns it, or as its NetCDF file has it

    Returns
    -------
    Summary

    >>> summary_of(Summary("One cell", ["risk"], "It holds.").on(xr.DataTree())).verdict
    'It holds.'
    """
    if ATTRIBUTE in tree.attrs:
        return Summary(**json.loads(tree.attrs[ATTRIBUTE]))
    groups = [node.path.strip("/") for node in tree.subtree if node.data_vars and node.path != "/"]
    return Summary(str(tree.attrs.get("title", "Numbers")), groups)


def left_out(tree: xr.DataTree) -> dict[str, str]:
    """Parts of an answer that could not be computed, by name, with the reason.

    Parameters
    ----------
    tree : an answer

    Returns
    -------
    dict, empty if nothing is missing.

    >>> left_out(xr.DataTree())
    {}
    """
    return dict(json.loads(tree.attrs.get(LEFT_OUT, "{}")))


def as_json(tree: xr.DataTree) -> dict[str, Any]:
    """Answer as plain values under stable keys: title, verdict, warnings, and records of the listed groups.

    Parameters
    ----------
    tree : an answer

    Returns
    -------
    dict that satisfies the schema `RESULT`.

    >>> tree = xr.DataTree.from_dict({"risk": xr.Dataset({"ratio": 2.0})})
    >>> as_json(Summary("One cell", ["risk"]).on(tree))["records"]
    [{'group': 'risk', 'quantity': 'ratio', 'value': 2.0, 'error': None, 'direction': 'exact'}]
    """
    summary = summary_of(tree)
    attributes = {str(key): plain_value(value) for key, value in tree.attrs.items() if key != ATTRIBUTE}
    return {
        "schema": SCHEMA,
        "title": summary.title,
        "attributes": attributes,
        "verdict": {"text": summary.verdict, "status": summary.status} if summary.verdict else None,
        "warnings": list(summary.warnings),
        "records": [one for group in summary.listed for one in records(tree[group].to_dataset(), group)],
    }


def to_json(tree: xr.DataTree) -> str:
    """`as_json` as text, without NaN or infinity."""
    return json.dumps(as_json(tree), indent=2, allow_nan=False)


def records(dataset: xr.Dataset, group: str = "") -> Iterator[dict[str, Any]]:
    """Numbers of a dataset, each with its labels, error and direction.

    Parameters
    ----------
    dataset : an array "mcse" over "measure", if there is one, has the standard errors of the arrays it names; an
        array's attribute "direction" says whether its numbers are exact, estimates or bounds, and labels along "side"
        or "end" which bound each is
    group : name of the dataset's group

    Returns
    -------
    dicts of `group`, the labels by dimension, `quantity`, `value` (a finite number, words, or None), `error` (a
    standard error, or None) and `direction` ("exact", "estimate", "lower" or "upper").

    >>> one = xr.Dataset({"ratio": ("side", [0.5, 2.0])}, {"side": ["lower", "upper"]})
    >>> [(row["quantity"], row["value"], row["direction"]) for row in records(one)]
    [('ratio', 0.5, 'lower'), ('ratio', 2.0, 'upper')]
    """
    errors = dataset.get("mcse")
    has_error = [] if errors is None else [str(name) for name in errors["measure"].values]
    for name, array in dataset.data_vars.items():
        if name == "mcse":
            continue
        dims = [str(dim) for dim in array.dims]
        labels = [[plain_value(label) for label in array[dim].values] for dim in dims]
        values = np.asarray(array.values)
        spread = None
        if errors is not None and str(name) in has_error:
            spread = np.asarray(errors.sel(measure=str(name)).transpose(*dims).values)
        for place, where in zip(np.ndindex(values.shape), product(*labels), strict=True):
            named = dict(zip(dims, where, strict=True))
            side = str(named.get("side", named.get("end", "")))
            direction = side if side in ("lower", "upper") else str(array.attrs.get("direction", "exact"))
            error = None if spread is None else finite(spread[place])
            yield {
                "group": group,
                **named,
                "quantity": str(name),
                "value": plain_value(values[place]),
                "error": error,
                "direction": direction,
            }


def plain_value(value: Any) -> Any:
    """Value in a form that JSON can hold: finite numbers, words, None, and lists and mappings of these."""
    if value is None or isinstance(value, str):
        return value and str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, np.integer | int):
        return int(value)
    if isinstance(value, np.floating | float):
        return finite(value)
    if isinstance(value, Mapping):
        return {str(key): plain_value(one) for key, one in value.items()}
    if isinstance(value, Iterable):
        return [plain_value(one) for one in value]
    return str(value)
