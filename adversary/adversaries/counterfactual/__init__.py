"""Comparison of a release with one's record to the same release without it.

`worlds` computes the posteriors from both releases, `posterior_to_posterior` the distribution of their ratio,
`ratio_bounds` bounds on it from guarantees, and `baseline` the risk of a person whose record was not used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
