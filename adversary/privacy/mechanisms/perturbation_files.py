"""File layouts of perturbation tables from statistical offices and their software, recognised by column names.

| columns | written by | a line, or a row |
|---|---|---|
| count, release, probability | hand | each release of each count |
| i, j, p (v, p_int_lb, p_int_ub, type) | sdcTools ptable, for tau-ARGUS and SAS too | each release j of each count i |
| pcv, ckey, pvalue | cell-key-perturbation of the ONS | the perturbation of each count and cell key |
| 0, 1, 2, ... | ptable, its matrix of transitions | probabilities of a count, a column for each published count |
| -2, -1, 0, ... | hand | probabilities of a count, a column for each perturbation |

Read from the sources of ptable 1.0.0 (`pt_export`, `modify_cnt_ptable`) and of cell-key-perturbation
(`create_perturbed_table`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from adversary._core import (
    Floats,
    Integers,
    as_data_array,
    check_probability,
    has_default_index,
    has_labels,
    whole_labels,
)

# Last row of a p-table of the ONS, and its period: counts c above it use row (c - 1) mod 250 + 501
# (`create_perturbed_table`).
LAST_PCV, REPEATED = 750, 250

# Mean perturbation, in people, above which an interpretation of the columns is rejected.
BIASED = 0.5

# Largest mean perturbation, in people, of columns that are perturbations from 0 on.
UNMOVED = 0.05
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_WHOLE = re.compile(r"[+-]?\d+")


class FileLayout(NamedTuple):
    """Possible releases of a perturbation table, and the interpretation of its file.

    Parameters
    ----------
    true_count, release, probability : one entry per possible release, (entry,)
    period : number of last rows that repeat for larger counts
    words : interpretation of the columns, for descriptions
    """

    true_count: Floats
    release: Floats
    probability: Floats
    period: int
    words: str


def read_layout(frame: Any, place: Callable[[int], str], parameter: str = "table") -> FileLayout:
    """Possible releases of a perturbation table in any of the layouts above.

    Parameters
    ----------
    frame : DataFrame of text, with column names as its header
    place : name of a row in messages, from its number, which starts at 0
    parameter : "transitions" if the scenario file declares the columns to be published counts, otherwise "table"

    Raises
    ------
    ValueError : unknown columns; a cell that is not a number; a table for magnitudes, or v other than j - i; an
        incomplete p-table; a matrix whose columns may be published counts or perturbations

    >>> import pandas as pd
    >>> layout = read_layout(pd.DataFrame({"i": ["0", "1"], "j": ["0", "3"], "p": ["1", "1"]}), str)
    >>> layout.release.tolist(), layout.words
    ([0.0, 3.0], 'i, j, p of ptable')
    """
    columns = {str(name).strip(): frame[name] for name in frame}
    if parameter == "table":
        for names, read in LONG.items():
            if {*names} <= {*columns}:
                return read(columns, place)
    return _matrix(frame, place, parameter)


def _numbers(name: str, column: Any, place: Callable[[int], str]) -> Floats:
    """Numbers of a column of text."""
    cells = [str(cell).strip() for cell in column]
    for row, cell in enumerate(cells):
        if not _NUMBER.fullmatch(cell):
            raise ValueError(f"{place(row)}: column {name!r}: must be a number, got {cell!r}")
    return np.array(cells, dtype=np.float64)


def _long(columns: Mapping[str, Any], place: Callable[[int], str]) -> FileLayout:
    names = ("count", "release", "probability")
    count, release, probability = (_numbers(name, columns[name], place) for name in names)
    return FileLayout(count, release, probability, 1, "lines of count, release, probability")


def _ptable(columns: Mapping[str, Any], place: Callable[[int], str]) -> FileLayout:
    """Layout of the R package ptable; its columns v and type, if present, are checked."""
    i, j, p = (_numbers(name, columns[name], place) for name in "ijp")
    for row, kind in enumerate(columns.get("type", ())):
        if str(kind).strip().strip('"') != "all":
            raise ValueError(
                f"{place(row)}: column 'type': must be 'all', a table for counts, got {kind!r}: perturbation of "
                "magnitudes is no perturbation of a count"
            )
    v = _numbers("v", columns["v"], place) if "v" in columns else j - i
    if (wrong := np.flatnonzero(np.abs(v - (j - i)) > 1e-6)).size:
        row = int(wrong[0])
        raise ValueError(f"{place(row)}: column 'v': must be j - i = {j[row] - i[row]:g}, got {v[row]:g}")
    return FileLayout(i, j, p, 1, "i, j, p of ptable")


def _cell_keys(columns: Mapping[str, Any], place: Callable[[int], str]) -> FileLayout:
    """Layout of a p-table of the ONS: keys are uniform, and counts of keys without a line are not perturbed."""
    pcv, key, step = (_numbers(name, columns[name], place) for name in ("pcv", "ckey", "pvalue"))
    for name, column, least in (("pcv", pcv, 0.0), ("ckey", key, 0.0), ("pvalue", step, -np.inf)):
        if (wrong := np.flatnonzero((column != np.floor(column)) | (column < least))).size:
            rule = "a whole number" + " from 0 on" * (least == 0.0)
            raise ValueError(f"{place(int(wrong[0]))}: column {name!r}: must be {rule}, got {column[wrong[0]]:g}")
    if missing := sorted({*range(1, LAST_PCV + 1)} - {*pcv.astype(int).tolist()}):
        raise ValueError(
            f"column 'pcv': must have every count from 1 to {LAST_PCV}, of which 501 to {LAST_PCV} repeat above, got "
            f"none of {missing[0]} (the last is {pcv.max():g}): give the whole file, or a table of count, release, "
            "probability"
        )
    keys = int(key.max()) + 1
    pairs = pcv * keys + key
    if np.unique(pairs).size < pairs.size:
        row = int(np.setdiff1d(np.arange(pairs.size), np.unique(pairs, return_index=True)[1])[0])
        raise ValueError(
            f"{place(row)}: column 'ckey': must have each key of a count once, got {key[row]:g} of pcv {pcv[row]:g} "
            "again"
        )
    cells, times = np.unique(np.stack([pcv, step]), axis=1, return_counts=True)
    lines = np.bincount(pcv.astype(np.int64), minlength=int(pcv.max()) + 1)
    # Keys without a line have perturbation 0, as in the package.
    count = np.append(cells[0], np.arange(lines.size))
    step, weight = np.append(cells[1], np.zeros(lines.size)), np.append(times, keys - lines)
    possible = (weight > 0) & (count <= LAST_PCV)
    count, step, weight = count[possible], step[possible], weight[possible]
    words = f"pcv, ckey, pvalue of the ONS: {keys} keys, each as likely"
    return FileLayout(count, count + step, weight / keys, REPEATED, words)


LONG: Mapping[tuple[str, ...], Callable[..., FileLayout]] = MappingProxyType(
    {("count", "release", "probability"): _long, ("i", "j", "p"): _ptable, ("pcv", "ckey", "pvalue"): _cell_keys}
)
"""Readers of files with a line per release or key, by the names of their columns."""


def _matrix(frame: Any, place: Callable[[int], str], parameter: str) -> FileLayout:
    """Layout of a matrix: a row per count (named in a first column with a non-numeric name), a column per release."""
    names = [str(name).strip() for name in frame]
    counted = bool(names) and not _WHOLE.fullmatch(names[0])
    labels = names[counted:]
    if wrong := [name for name in labels if not _WHOLE.fullmatch(name)] if labels else names:
        known = "; ".join(", ".join(one) for one in LONG)
        raise ValueError(
            f"columns must be {known}; or whole numbers, the published counts or perturbations of a matrix; got "
            f"{wrong[0]!r} among {', '.join(names)}"
        )
    count = np.arange(len(frame), dtype=np.float64)
    if counted:
        count = _numbers(names[0], frame.iloc[:, 0], place)
    ends = np.array(labels, dtype=np.float64)
    probs = np.stack([_numbers(name, frame.iloc[:, counted + k], place) for k, name in enumerate(labels)], axis=1)
    transitions = _are_transitions(count, ends, probs, parameter)
    row, column = np.nonzero(probs)
    release = ends[column] if transitions else count[row] + ends[column]
    what = "published count" if transitions else "perturbation"
    return FileLayout(count[row], release, probs[row, column], 1, f"a matrix, a column for each {what}")


def _are_transitions(count: Floats, ends: Floats, probs: Floats, parameter: str) -> bool:
    """True if the columns of a matrix are published counts, judged by their labels and the mean of every row."""
    if (ends < 0.0).any():
        if parameter == "transitions":
            raise ValueError(
                f"column '{ends.min():g}': a published count must be at least 0; write table in the place of "
                "transitions where columns are perturbations"
            )
        return False
    if parameter == "transitions":
        return True
    mean = probs @ ends
    published, moved = float(np.abs(mean - count).max()), float(np.abs(mean).max())
    if published <= BIASED and moved > UNMOVED:
        return True
    if moved <= UNMOVED and published > BIASED:
        return False
    raise ValueError(
        "columns may be published counts or perturbations: read as the former they move a count by up to "
        f"{published:.3g} on average, as the latter by {moved:.3g}; write transitions in the place of table where they "
        "are published counts, or name perturbations with their sign from a negative one on"
    )


def labelled_rows(table: Any, lowest: int) -> tuple[Any, int]:
    """Rows of the counts 0, 1, ... and the perturbation of the first column, from the labels of a table.

    Parameters
    ----------
    table : DataFrame or DataArray, (count, perturbation)
    lowest : perturbation of the first column according to the caller; 0 if not given

    Raises
    ------
    ValueError : labels that are not counts and consecutive perturbations, or that contradict `lowest`
    """
    if has_default_index(table):
        return table.to_numpy(), lowest
    counts, steps, probs = labelled_matrix(table)
    if {*counts.tolist()} != {*range(len(counts))} or int(np.ptp(steps)) + 1 != steps.size:
        raise ValueError(
            f"probabilities must be labelled by counts 0, 1, ... and perturbations one apart, got {counts.tolist()} "
            f"and {steps.tolist()}"
        )
    if lowest not in (0, first := int(steps.min())):
        raise ValueError(f"lowest must be the first perturbation, {first} by the labels of probabilities, got {lowest}")
    return probs[np.argsort(counts)][:, np.argsort(steps)], first


def labelled_matrix(matrix: Any) -> tuple[Integers, Integers, Floats]:
    """(labels of rows, labels of columns, entries) of a matrix; 0, 1, ... without labels.

    Parameters
    ----------
    matrix : array, DataFrame or DataArray, (count, published count)

    Raises
    ------
    ValueError : not two axes, labels that are not whole numbers, or entries outside [0, 1]
    """
    if hasattr(matrix, "iloc") and matrix.ndim == 2 and has_default_index(matrix.iloc[:, 0].rename(None)):
        try:
            whole_labels("the first column", matrix.columns[:1])
        except ValueError:
            matrix = matrix.set_index(matrix.columns[0])
    array = as_data_array(matrix) if has_labels(matrix) else None
    probs = check_probability("matrix", matrix if array is None else array.values)
    if probs.ndim != 2:
        raise ValueError(
            f"matrix must have a row for each count and a column for each release, got shape {probs.shape}"
        )
    labels = [None if array is None else array.indexes.get(dim) for dim in (array.dims if array is not None else "rc")]
    counts, columns = (
        np.arange(size) if index is None else whole_labels(f"the {axis}s of matrix", index)
        for axis, index, size in zip(("row", "column"), labels, probs.shape, strict=True)
    )
    return counts, columns, probs
