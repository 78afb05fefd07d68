"""Noisy Measurement Files: directories of Parquet as published for the 2020 Census.

`read` opens one: the counts of a query in every unit, their noise, and what is known exactly. `check` goes through all
of it and lists what is wrong; `synthesise` makes one up. `products` has the tables, axes and categories that are
published, `file_layout` what lies where, `units` the geocodes, `exact_counts` constraints and state totals.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
