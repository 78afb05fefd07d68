"""Decorators of this wing's compiled functions, which call one another: see `compiling`.

Imported inside functions only, because it brings numba.
"""

from __future__ import annotations

from pathlib import Path

from numba import njit

from adversary._core import call as call
from adversary._core import compiler, digest_of

_DIGEST = digest_of(Path(__file__).parent)
compiled = compiler(_DIGEST)
compiled_freely = compiler(_DIGEST, fastmath={"reassoc", "contract", "nsz"})
"""For sums whose terms may be added up in any order: several are then worked out at once."""
compiled_in_place = njit(nogil=True, error_model="numpy", inline="always")
"""For what is called in inner loops with arrays: copied into its callers, as handing arrays on costs."""
