"""Markov chains for noisy statistics of bounded data: published samplers and ours.

`statistics_gibbs` draws mean, variance and exact statistics; `record_gibbs` draws the records as well; `chains` runs
either with many chains at once.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
