"""Decorators of compiled functions: machine code is cached on disk until any source file of the folder changes.

numba's cache is keyed by the file that defines a function. A function that calls another from a changed file would
keep the old machine code. The names of cached functions therefore contain a digest of all files in the folder.

This module imports numba, so import it inside functions only.
"""

from __future__ import annotations

import hashlib
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

from numba import njit

from adversary._core.workers import notify_after


def digest_of(folder: Path) -> str:
    """Digest of all source files in a folder of compiled functions that call one another.

    Parameters
    ----------
    folder : with the `*.py` files

    Returns
    -------
    SHA-256, as 64 hexadecimal digits.
    """
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()


class Decorator(Protocol):
    """A decorator that preserves a function's type."""

    def __call__[F: Callable[..., Any]](self, function: F) -> F: ...


# Without wrappers for Python and C an inner function compiles in a fraction of the time.
_INNER: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# LLVM's flags that let it reorder and vectorise sums; infinities keep their meaning ("ninf" is not set).
_VECTORISED = {"nnan", "nsz", "reassoc", "contract"}


def compilers(source: str) -> tuple[Decorator, Decorator]:
    """Decorators (for functions called from Python, for inner functions) of one file in a folder of compiled functions.

    Machine code runs without the interpreter's lock, and x / 0 is infinite, as in numpy. Inner functions are called
    from compiled functions only. They have no cache and no Python wrapper, which would be slow to compile.

    Parameters
    ----------
    source : the file's `__file__`

    Returns
    -------
    Decorator of functions called from Python, decorator of inner functions.
    """
    digest = digest_of(Path(source).parent)

    def compiled(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_{digest[:12]}"
        return njit(cache=True, nogil=True, error_model="numpy")(function)

    return compiled, cast(Decorator, njit(**_INNER))


inlined = cast(Decorator, njit(**_INNER, forceinline=True, fastmath=_VECTORISED))
"""Decorator of inner functions with vectorised loops: sums in the compiler's order, NaN not supported.

The functions are inlined. A separate copy would be optimised differently, with another order of summation, and would be
called by freshly compiled callers but not by cached ones: results would depend on the cache."""


def call(function: Any, *arguments: Any) -> Any:
    """Result of a compiled function; a line on standard error announces a compilation that takes long.

    Parameters
    ----------
    function : compiled by numba
    *arguments : of the function
    """
    with defer_interrupt():
        if function.signatures:
            return function(*arguments)
        with notify_after("compiling for this machine: up to a minute, once"):
            return function(*arguments)


@contextmanager
def defer_interrupt() -> Iterator[None]:
    """Context that delays Ctrl-C until its end.

    Numba converts a compiled function's result to Python objects without checking for exceptions. A KeyboardInterrupt
    during the conversion causes a segmentation fault.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    waiting: list[Any] = []
    signal.signal(signal.SIGINT, lambda *raised: waiting.append(raised))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting:
            before(*waiting[0])
