"""TOML and CSV files in: scenarios, risk profiles, releases, regressions and tables.

A `Keys` is a table of a file that knows its path, so that every message names the file and the key. The `*_keys`
modules read one kind of table each; `scenario`, `profile_file`, `release_file`, `regression_file` and `table_file`
read whole files.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
