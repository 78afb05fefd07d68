"""Mechanisms, their privacy losses, guarantees, and the bounds that hold for every adversary."""

import lazy_loader

import adversary.privacy.definitions.addition
import adversary.privacy.definitions.group  # noqa: F401  (and what they promise to groups)

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
