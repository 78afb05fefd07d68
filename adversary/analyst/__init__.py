"""Honest inference from noisy statistics of bounded data: a mean and variance, or a regression."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
