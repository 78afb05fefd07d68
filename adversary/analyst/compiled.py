"""The decorator of compiled functions: machine code is kept on disk, and never outlives the source of any of them.

numba keeps compiled code by the file a function stands in. One that calls another from a changed file would go on with
the old machine code; here the name under which it is kept holds a digest of all these files.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

TOGETHER = ("panels", "kernels", "layouts", "quadrature")
"""Modules of this folder whose compiled functions call one another."""

_DIGEST = hashlib.sha256(b"".join(Path(__file__).with_name(f"{name}.py").read_bytes() for name in TOGETHER))


def compiled(function: Callable[..., Any]) -> Any:
    """The function compiled, without the interpreter's lock; divisions by zero give infinities, as in numpy."""
    function.__qualname__ += f"_{_DIGEST.hexdigest()[:12]}"
    return njit(cache=True, nogil=True, error_model="numpy")(function)
