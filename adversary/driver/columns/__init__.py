"""Columns of a file of people: which are places, features and counts, and what numbers they hold."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
