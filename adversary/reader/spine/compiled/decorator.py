"""Decorator of the spine's compiled functions, which call one another: see `compiling`.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

from pathlib import Path

from adversary._core import compiler, digest_of

_DIGEST = digest_of(Path(__file__).parent)
compiled = compiler(_DIGEST)
inner = compiler(_DIGEST, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Of functions that only compiled ones call: nothing is compiled to reach them from Python, which takes long."""
