"""Risk averaged over releases, from the distribution of the log Bayes factor.

`bayes_factors` holds that distribution, and `law_of_plan` computes it for a plan and an adversary. `averages` are the
mean posterior, the mean ratio and the probability of a correct decision; `postprocessed_risk` has them for counts
adjusted to their parent's.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
