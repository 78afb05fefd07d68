"""Linear regression from noisy sufficient statistics.

`gibbs` is the way in; `sufficient_statistics` says what is released and with which noise, `regressor_moments` models
the moments of the regressors, `regression_law` and `gibbs_sweeps` are the steps of the sampler, and `hit_and_run`
keeps statistics feasible. `load_cirrhosis` is the example of the literature.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
