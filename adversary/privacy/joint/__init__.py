"""The joint distribution of a few records, and privacy frameworks compared on it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
