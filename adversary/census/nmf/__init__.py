"""Noisy Measurement Files: directories of Parquet as published for the 2020 Census.

`read` opens one: the counts of a query in every unit, their noise, and what is known exactly. `check` reads all records
and lists faults; `synthesise` generates a synthetic one. `products` has the published tables, axes and categories,
`file_layout` folders and names of queries, `units` geocodes, `exact_counts` constraints and state totals.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
