"""Risk averaged over releases: the law of the log Bayes factor, and what follows from it.

`bayes_factors` has that law, `law_of_plan` finds it for a plan and an adversary, `averages` are posterior, ratio and
probability of a correct decision; `postprocessed_risk` does the same for releases made to add up.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
