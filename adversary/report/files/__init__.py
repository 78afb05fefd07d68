"""Readers of TOML and CSV files: scenarios, risk profiles, guarantees and tables.

A `Keys` is a table of a file that knows its path, so that every message names the file and the key. The `*_keys`
modules read one kind of table each; `scenario`, `profile_file`, `table_file` and `tables_file` read whole files.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
