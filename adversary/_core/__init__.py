"""Tools of every wing: argument checks, numerics in log space, labels, number formats, and long work.

`argument_checks` refuses what is no probability, scale or count; `numeric` holds the functions that keep relative
accuracy in tails, `gaussian_sums` those of the discrete Gaussian; `labels` and `axes` keep the names of xarray objects;
`number_formats` writes figures, and `sentence_parts` numbers within sentences.
`workers` maps pieces of long work over threads, processes or a cluster, `store` keeps finished ones so that it resumes,
`blocks` gives each a seed, and `compiling` keeps compiled code on disk. `diagnosis` judges Markov chains.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
