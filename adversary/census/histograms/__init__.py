"""MCMC sampler of the histograms of a small tree of units, given noisy answers to many queries."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
