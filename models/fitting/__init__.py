"""Sampling a model's posterior given a release: fits with diagnostics, Gibbs steps, importance sampling."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
