"""Decisions under a guarantee: best tests, F-scores, attribute inference, target risks, calibration of noise."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
