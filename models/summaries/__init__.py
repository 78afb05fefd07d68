"""Models of noisy summaries of bounded data: mean and variance, and linear regression."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
