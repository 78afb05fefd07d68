"""Privacy definitions and how they relate: each is a `Guarantee`.

`pure_approximate` holds pure, approximate and probabilistic differential privacy, `moments` Renyi, zero-concentrated
and Gaussian differential privacy. `group` widens a guarantee to several records, `addition` composes, `conversions`,
`concentrated_bounds` and `composition_rules` are the published rules beside the exact ones.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
