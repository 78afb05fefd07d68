"""Kit of commands, figures and pages: answers, documents, tables, their rendering, and texts that are safe to show."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
