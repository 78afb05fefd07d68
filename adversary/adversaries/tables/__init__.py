"""Several published tables or queries of the same people, and the risk of one person from all of them together."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
