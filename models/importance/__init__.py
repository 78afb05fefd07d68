"""Importance sampling: draws of a model's prior, made once, and weighed by every release."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
