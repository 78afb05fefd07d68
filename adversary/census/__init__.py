"""Annex: the 2020 Census. Allocations and scenarios, inference over the spine, and Noisy Measurement Files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
