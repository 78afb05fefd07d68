"""Audits: posterior and risk averaged over releases, with the bounds that guarantees set.

`audit` is for plans, adversaries and truths, `audit_model` for any `pm.Model`, `audit_tables` for all cells of a file;
`sensitivity` varies their inputs. `case` and `model_case` compute one combination, `posteriors` holds its posteriors.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
