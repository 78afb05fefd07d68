"""The likelihood of a noisy mean and variance, the one compiled loop of their posterior."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
