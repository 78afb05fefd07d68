"""The posterior of a noisy mean and variance by quadrature: questions in, marginals on panels out.

`solve_all` is the way in, and `map_rows` goes over many rows on all processors. `panel_edges` places the panels, and a
`Marginal` is a density on them, with its intervals, quantiles and modes. Only the likelihood is compiled.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
