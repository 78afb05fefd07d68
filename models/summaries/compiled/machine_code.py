"""Which of the models' functions are compiled together: their machine code is kept until one of the sources changes."""

from __future__ import annotations

from pathlib import Path

from adversary._core import compilers, digest_of

SOURCE = digest_of(Path(__file__).parent)
"""Digest of the modules with compiled functions, which call one another."""

compiled, _ = compilers(__file__)
