"""Privacy budgets: chosen from a tolerated risk, those of the 2020 Census, and in words for the public."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
