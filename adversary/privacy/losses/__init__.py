"""Privacy losses: distributions of the log likelihood ratio of a release under two hypotheses.

`loss` is the abstract class, `derived_answers` holds quantities derived from it. `lattice` losses are exact lists,
`dominating` losses bound another from above or below, `analytic` losses have formulas, `mixed` losses combine a list
with another loss, `discrete_gaussian` is the loss of the noise of the 2020 Census. `composition` composes losses.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
