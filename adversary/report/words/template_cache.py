"""Jinja environment of a folder of templates, with their compiled code cached on disk in the folder's `__pycache__`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any


def environment(folder: Path, **options: Any) -> Any:
    """Jinja environment of the templates in a folder; an undefined variable is an error.

    Templates are compiled once, in the folder's `__pycache__`, if that can be written; otherwise in every process.

    Parameters
    ----------
    folder : of the templates
    **options : of `jinja2.Environment`

    Returns
    -------
    jinja2.Environment
    """
    import jinja2

    class _DiskCache(jinja2.FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: Any) -> None:
            # a full disk must not prevent the answer
            with suppress(OSError):
                super().dump_bytecode(bucket)

    cache = folder / "__pycache__"
    with suppress(OSError):
        cache.mkdir(exist_ok=True)
    writable = os.access(cache, os.W_OK) and not sys.dont_write_bytecode
    kept = _DiskCache(str(cache), f"jinja-{jinja2.__version__}-%s.cache") if writable else None
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), undefined=jinja2.StrictUndefined, bytecode_cache=kept, **options
    )
