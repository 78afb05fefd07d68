"""Answers of the commands: each module computes a tree of data (`solve`) and a document about it (`document`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
