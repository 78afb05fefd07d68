"""PyMC model of a unit's histogram, and its exact Gibbs step."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
