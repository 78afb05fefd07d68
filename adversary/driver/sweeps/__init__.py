"""Sweeps over the inputs of an audit: the cases, the models among them, and the tables of what they come to."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
