"""Inference over every unit of a Noisy Measurement File, in stored pieces that can be resumed.

`run` is the entry point. `unit_table` makes the table with a row for every unit, `block_results` selects from it and
computes the guarantee of the noise, and `run_findings` summarises all blocks.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
