"""Published samplers for bounded data, and the study of the coverage of their intervals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
