"""Texts of other people: made safe to show on a terminal, a page or a figure, and to name files and groups after.

Names and titles come from files that anybody may have written. What moves a cursor, reorders or hides text, or is no
character of an XML file, is taken out by `printable` on every way out: screen, page, Markdown, CSV, figures and
messages. The numbers keep names as they are: JSON escapes them, NetCDF has them as values, never as names of groups.
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

# Lines, tabs, and the joiners without which some scripts cannot be written.
_KEPT = "\n\t\u200c\u200d"
_NO_CHARACTERS = "\ufffe\uffff"

# Characters of a file name, far below what any file system allows.
_LONGEST = 80

# What stands in no file name.
FOR_FILES = r"[^\w.-]"


def netcdf(tree: xr.DataTree) -> bytes:
    """A NetCDF file in memory: HDF5 ends the process, or says RuntimeError, when it runs out of disk."""
    buffer, dask = BytesIO(), sys.modules.get("dask")
    unasked = dask is not None and "distributed" not in sys.modules
    with dask.config.set(scheduler=dask.get) if dask else nullcontext():
        # xarray imports it to see whether a cluster holds these arrays, which takes half a second
        if unasked:
            sys.modules["distributed"] = None  # type: ignore[assignment]
        try:
            tree.to_netcdf(buffer, engine="h5netcdf")
        finally:
            if unasked:
                del sys.modules["distributed"]
    return buffer.getvalue()


def printable(text: str) -> str:
    """The text without control characters, escape sequences' first of all, and without what turns its direction.

    >>> printable("a\\x1b[31mb\\u202ec")
    'a[31mbc'
    """
    return "\n".join(line if line.isprintable() else "".join(filter(_is_shown, line)) for line in text.split("\n"))


def _is_shown(c: str) -> bool:
    return c in _KEPT or (category(c) not in ("Cc", "Cf", "Cs") and c not in _NO_CHARACTERS)


def tell(text: str) -> None:
    """A line on standard error, safe to show.

    Parameters
    ----------
    text : of the line
    """
    print(printable(text), file=sys.stderr)


def safe_names(names: Iterable[str]) -> dict[str, str]:
    """A name for a file for each of these: no two alike, not even in another case.

    Parameters
    ----------
    names : any texts

    Returns
    -------
    The names of files, by name.

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
