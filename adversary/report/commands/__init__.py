"""The command line `adversary`: a module for each command or two, and the options that all share."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
