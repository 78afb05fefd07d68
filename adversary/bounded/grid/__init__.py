"""Posterior of a noisy mean and variance by quadrature on a grid: `GridInput` in, marginals on nodes out.

`solve_all` is the entry point. A `LineLaw` is a marginal density on a line of nodes, with quantiles and intervals.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
