"""What commands, figures and pages share: tables on the screen, colours and marks, words and text that is safe."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
