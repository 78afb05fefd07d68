"""Privacy losses: the law of the log-likelihood ratio of a release under two hypotheses.

`loss` is the abstract class, `derived_answers` what follows from it. `lattice` losses are exact,
`dominating` ones lie above or below another; `analytic` ones have formulas, `mixed` ones both atoms and a density,
`discrete_gaussian` is the noise of the 2020 Census; `composition` composes them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
