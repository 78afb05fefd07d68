"""The five 2020 Census data products: budgets, noise and thresholds of their configurations, and guarantees."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
