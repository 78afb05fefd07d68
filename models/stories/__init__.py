"""Generative stories: counts of a plan, attacks, sequences of releases, tables with known margins."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
