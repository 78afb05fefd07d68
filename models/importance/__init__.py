"""Importance sampling: prior draws of a model, made once and reweighted for every release."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
