"""Annex: privacy frameworks, private tests, canonical noise and Gibbs samplers of single papers."""

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

MOVED = {"JointLaw": "JointDistribution", "published_gibbs_law": "published_gibbs_probability"}
"""Former names of this package, and their present ones."""


def __getattr__(name: str) -> object:
    if name in MOVED:
        raise AttributeError(f"literature.{name} is called literature.{MOVED[name]} now")
    return _public(name)
