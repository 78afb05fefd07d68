"""Sections of an audit's page, one function for each group of the tree."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
