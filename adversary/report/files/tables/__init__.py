"""Files of several tables of one population: the data of an office, and what is published of it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
