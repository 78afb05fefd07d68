"""Post-processing of noisy counts: clamped, rounded, suppressed, made non-negative, or adjusted to add up."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
