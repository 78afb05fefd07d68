"""Shared tools: argument checks, numerics in log space, labels, number formats, and long computations.

`argument_checks` validates probabilities, scales and counts. `numeric` holds functions with relative accuracy in the
tails, `gaussian_sums` those of the discrete Gaussian. `labels` and `axes` align xarray and pandas objects.
`number_formats` formats numbers, `sentence_parts` numbers within sentences. `workers` maps tasks over threads,
processes or a cluster; `store` writes finished blocks to disk, so that a computation can resume; `blocks` assigns each
block a seed; `compiling` caches machine code on disk. `diagnosis` tests the convergence of Markov chains.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
