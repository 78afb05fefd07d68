"""What an honest analyst can still estimate from noisy statistics of bounded data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
