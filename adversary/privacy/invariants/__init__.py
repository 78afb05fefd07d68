"""Invariants: statistics published exactly together with a noisy release, and the guarantees that remain.

`Margins` is the set of databases with given one-way margins, and `semi_adjacency` the number of records that may have
to change together among them; `guarantee.given(margins)` is the guarantee that remains. `sensitivity_space`, `KNorm`
and `SpanGaussian` make noise for the changes that the invariants allow.
"""

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

MOVED = {"CanonicalNoise", "OddsRatioTest", "Tulap", "canonical_noise", "umpu"}
"""Names that moved from this package to `adversary.literature`."""


def __getattr__(name: str) -> object:
    if name in MOVED:
        raise AttributeError(f"invariants.{name} is called adversary.literature.{name} now")
    return _public(name)
