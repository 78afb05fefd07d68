"""Decorators of compiled functions: machine code is kept on disk, and never outlives the source of any of them.

numba keeps compiled code by the file a function stands in. One that calls another from a changed file would go on with
the old machine code; here the name under which it is kept holds a digest of all these files.

Imported inside functions only, because it brings numba.
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
    """Digest of all sources in a folder, whose compiled functions call one another.

    Parameters
    ----------
    folder : of `*.py` files

    Returns
    -------
    SHA-256, as 64 hexadecimal digits.
    """
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()


class Decorator(Protocol):
    """A decorator that keeps a function's type."""

    def __call__[F: Callable[..., Any]](self, function: F) -> F: ...


_INNER: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_VECTORISED = {"nnan", "nsz", "reassoc", "contract"}


def compilers(source: str) -> tuple[Decorator, Decorator]:
    """Decorators (of functions called from Python, of inner ones) of one file in a folder of compiled functions.

    Machine code runs without the interpreter's lock, and x / 0 is infinite, as in numpy. Inner functions are reached
    from compiled ones alone: nothing is kept for them, and no way to them from Python is compiled, which takes long.

    Parameters
    ----------
    source : the file's `__file__`
    """
    digest = digest_of(Path(source).parent)

    def compiled(function: Callable[..., Any]) -> Any:
        function.__qualname__ += f"_{digest[:12]}"
        return njit(cache=True, nogil=True, error_model="numpy")(function)

    return compiled, cast(Decorator, njit(**_INNER))


inlined = cast(Decorator, njit(**_INNER, forceinline=True, fastmath=_VECTORISED))
"""Decorator of inner functions whose loops work out several numbers at once: sums in the compiler's order, no NaN.

They stand in their callers. A copy of their own would be optimised once less, with another order of sums, and would be
the one called where the caller was compiled just now, but not where it came from the disk."""


def call(function: Any, *arguments: Any) -> Any:
    """A compiled function's answer; where its machine code is not at hand yet, a line on standard error says so.

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
    """Ctrl-C waits for the end of the block.

    Numba makes Python objects of a compiled function's answer without looking for exceptions. An interruption raised
    in between is a segmentation fault.
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
