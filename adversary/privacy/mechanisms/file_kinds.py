"""Mechanisms that scenario files can name: every exported mechanism with a `kind`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from adversary.privacy import mechanisms
from adversary.privacy.mechanisms.mechanism import Mechanism


@cache
def kinds() -> Mapping[str, type[Mechanism]]:
    """Mechanisms by their name in scenario files, in alphabetical order, "exact" last.

    Returns
    -------
    Mapping of `Mechanism.kind` to the class.

    >>> ", ".join(kinds())
    'discrete gaussian, gaussian, geometric, laplace, ..., staircase, unary encoding, exact'
    """
    exported = (getattr(mechanisms, name) for name in dir(mechanisms))
    leaves = [one for one in exported if isinstance(one, type) and issubclass(one, Mechanism) and one.kind]
    return MappingProxyType({one.kind: one for one in sorted(leaves, key=lambda one: (one.is_exact, one.kind))})
