"""What the noise promises every reader."""

import lazy_loader

import adversary.privacy.definitions.addition
import adversary.privacy.definitions.group  # noqa: F401  (and what they promise to groups)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
