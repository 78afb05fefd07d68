"""The posterior of a noisy mean and variance on a grid of both: questions in, marginals on nodes out.

`solve_all` is the way in. A `Marginal` is a density on a line of nodes, with its intervals, quantiles and mode.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
