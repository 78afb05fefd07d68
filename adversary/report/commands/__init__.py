"""The command line, `adversary`: one module per command, with its options, and what all of them share."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
