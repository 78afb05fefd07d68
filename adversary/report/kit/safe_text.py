"""Texts from files, made safe to show on a terminal, a page or a figure, and to use in names of files.

Names and titles come from files that anybody may have written. `printable` removes characters that move a cursor,
reorder or hide text, or are not allowed in XML; it is applied to all output: screen, page, Markdown, CSV, figures and
messages. In the numbers names stay unchanged: JSON escapes them, NetCDF has them as values, never as names of groups.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from io import BytesIO
from typing import TYPE_CHECKING
from unicodedata import category

if TYPE_CHECKING:
    import xarray as xr

# Control and format characters that stay: newlines, tabs, and the joiners that some scripts need.
_KEPT = "\n\t\u200c\u200d"

# Code points that are no characters, and not allowed in XML.
_NO_CHARACTERS = "\ufffe\uffff"

# Characters of a file name, far below the limit of any file system.
_LONGEST = 80

# Characters that are replaced in file names.
FOR_FILES = r"[^\w.-]"


def netcdf(tree: xr.DataTree) -> bytes:
    """Bytes of a NetCDF file of a tree."""
    # made in memory: HDF5 ends the process, or raises RuntimeError, when the disk is full
    buffer, dask = BytesIO(), sys.modules.get("dask")
    unasked = dask is not None and "distributed" not in sys.modules
    with dask.config.set(scheduler=dask.get) if dask else nullcontext():
        # xarray would import distributed to see whether a cluster holds these arrays, which takes half a second
        if unasked:
            sys.modules["distributed"] = None  # type: ignore[assignment]
        try:
            tree.to_netcdf(buffer, engine="h5netcdf")
        finally:
            if unasked:
                del sys.modules["distributed"]
    return buffer.getvalue()


def printable(text: str) -> str:
    """The text without control characters, above all those of escape sequences, and without changes of direction.

    >>> printable("a\\x1b[31mb\\u202ec")
    'a[31mbc'
    """
    return "\n".join(line if line.isprintable() else "".join(filter(_is_shown, line)) for line in text.split("\n"))


def _is_shown(c: str) -> bool:
    """True for characters that `printable` leaves."""
    return c in _KEPT or (category(c) not in ("Cc", "Cf", "Cs") and c not in _NO_CHARACTERS)


def print_error(text: str) -> None:
    """Print a line on standard error, made safe to show.

    Parameters
    ----------
    text : of the line
    """
    print(printable(text), file=sys.stderr)


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """Names for files from any texts, all different even if case is ignored, as it is by some file systems.

    Parameters
    ----------
    names : any texts

    Returns
    -------
    dict of text to name of a file

    >>> safe_names(["a b", "a/b", "A_B", "..", ""])
    {'a b': 'a_b', 'a/b': 'a_b_2', 'A_B': 'A_B_3', '..': '__', '': ''}
    """
    unique_names: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        start = re.sub(FOR_FILES, "_", printable(name))[:_LONGEST]
        start = re.sub(r"^\.+", lambda dots: "_" * len(dots[0]), start)
        made, number = start, 1
        while made.casefold() in used:
            number += 1
            made = f"{start}_{number}"
        used.add(made.casefold())
        unique_names[name] = made
    return unique_names
