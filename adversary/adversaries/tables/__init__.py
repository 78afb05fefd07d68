"""Queries of a table: how each counts cells, the measurements they amount to, and an adversary who knows the rest."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
