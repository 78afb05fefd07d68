"""Answers of the commands: each solves for a tree of data and shows it as one document."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
