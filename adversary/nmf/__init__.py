"""Noisy Measurement Files: directories of Parquet in the layout of the 2020 Census.

`measurements` opens one, `check` reads all of it and lists what is wrong, `writer` writes one. `file_layout` says
what belongs where, `parquet_source` reads it, `parents` and `record_check` look at units and records.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
