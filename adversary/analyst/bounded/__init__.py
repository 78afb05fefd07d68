"""Inference from noisy statistics of bounded data: everything that belongs to it, by one name.

`BoundedRelease` is what was published, `posterior` what it says about the mean and variance of the data, with the
bounds used for free, in milliseconds. `gibbs` and `gibbs_records` are the samplers of the literature beside it;
`coverage_study` measures how often intervals cover.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
