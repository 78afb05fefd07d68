"""Pages: the audit's, with one module per section, and the one of a run over a whole spine."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
