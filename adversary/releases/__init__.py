"""Annex: real releases, each with its sources, its guarantee and, where they are known, its plan and one adversary.

`records()` are those that come with the toolkit, `read` opens one of your own or of the deployments registry, and
`gallery` puts beside each what its guarantee allows an adversary to conclude.

>>> from adversary import releases
>>> releases.records()["google_mobility"].guarantee
PureDP(epsilon0=2.64)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
