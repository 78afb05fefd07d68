"""Exact inference of one adversary: beliefs, plans, posteriors and risk along a path of nested levels."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
