"""The five 2020 data products as their configurations have them: budgets, noise, thresholds, and what follows."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
