"""What the noise promises every reader."""

import lazy_loader

import adversary.privacy.definitions.addition  # noqa: F401  (how guarantees compose is registered there)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
