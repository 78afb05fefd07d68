"""Comparison of a release with one's record to the same release without it.

`worlds` are the two releases, `posterior_to_posterior` compares the adversary's posteriors from either, and
`ratio_bounds` are the guarantees' bounds on it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
