"""Statistics published exactly beside a noisy release: what they mean for every adversary, by one name.

`Margins` are the databases that conform to published one-way margins and `semi_adjacency` how many records of them must
be allowed to differ; `guarantee.given(margins)` is what then remains of a guarantee. `sensitivity_space`, `KNorm` and
`SpanGaussian` make noise for what can still change, and `umpu` tests an odds ratio.
"""

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

MOVED = {"CanonicalNoise", "OddsRatioTest", "Tulap", "canonical_noise", "umpu"}
"""Former names of this package, which `adversary.literature` has now."""


def __getattr__(name: str) -> object:
    if name in MOVED:
        raise AttributeError(f"invariants.{name} is called adversary.literature.{name} now")
    return _public(name)
