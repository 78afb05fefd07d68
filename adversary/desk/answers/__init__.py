"""What commands compute before anything is shown: plain dictionaries of numbers, one module per command."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
