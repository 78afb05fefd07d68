"""Annex: frameworks, tests and samplers that readers of single papers look for."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
