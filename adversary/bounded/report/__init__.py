"""Files, answers, figures and the command `infer` of the annex on bounded data."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
