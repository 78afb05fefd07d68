"""Noise as PyMC distributions: of one release, of sums of noise, and of a table's noise."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
