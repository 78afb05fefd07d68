"""What tests, posteriors and targets a guarantee allows: best tests, calibration of noise, auxiliary facts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
