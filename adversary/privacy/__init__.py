"""Mechanisms, their privacy losses, guarantees, and the bounds that hold for every adversary."""

import lazy_loader

# Imported for their registrations: composition behind `+` and `*`, and group privacy.
import adversary.privacy.definitions.addition
import adversary.privacy.definitions.group  # noqa: F401

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
