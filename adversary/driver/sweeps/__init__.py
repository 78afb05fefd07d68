"""Sweeps over the inputs of an audit: the case at each value, PyMC models among them, and tables of the results."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
