"""The loops of inference on a tree of counts, compiled: messages upward and downward, and marginals."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
