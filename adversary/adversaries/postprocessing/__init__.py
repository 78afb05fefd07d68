"""Releases changed after the noise: clamped, rounded, made nonnegative, or made to add up."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
