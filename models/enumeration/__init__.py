"""The exact posterior of a PyMC model whose latent variables are discrete and finite."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
