"""Synthetic Noisy Measurement Files: a recipe of queries and budgets, a population, and its noisy tables."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
