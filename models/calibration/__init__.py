"""Checks of a model's posteriors: simulation-based calibration and draws of the prior predictive."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
