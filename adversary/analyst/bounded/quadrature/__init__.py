"""The likelihood of a noisy mean and variance by quadrature, and panels for integrals over its parameters.

`likelihood` integrates over the exact sample mean, `variance_law` over the exact sample variance; `panels` lays
Gauss-Legendre panels where a density is.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
