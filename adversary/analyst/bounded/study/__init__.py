"""A simulation study of intervals from noisy statistics: design, populations, coverage."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
