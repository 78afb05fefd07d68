"""Privacy definitions, each a `Guarantee`, and the relations among them.

`pure_approximate` defines pure, approximate and probabilistic differential privacy, `moments` zero-concentrated and
Gaussian, `renyi` Renyi differential privacy. `group` extends a guarantee to several records, `addition` composes
guarantees. `conversions`, `concentrated_bounds` and `composition_rules` hold published rules for comparison.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
