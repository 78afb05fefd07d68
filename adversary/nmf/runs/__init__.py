"""Inference over every unit of a Noisy Measurement File, in chunks that are stored and resumed.

`run` is the way in. `unit_table` is the tree of units, `block_results` what is stored per leaf, `run_findings` the
summary of all leaves, and `prior_words` describes the leaf prior.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
