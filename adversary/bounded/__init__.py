"""Annex: posteriors of a mean and a standard deviation, or of a regression, published with noise and known bounds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
