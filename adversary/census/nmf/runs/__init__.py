"""Inference over every unit of a Noisy Measurement File, in chunks that are stored and resumed.

`run` is the way in. `unit_table` has a row for every unit, `block_results` the guarantee beside them, and
`run_findings` the summary of all blocks.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
