"""An audit: posterior and risk averaged over releases, beside the bounds that guarantees set.

`audit` answers for plans, adversaries and truths, `audit_model` for any `pm.Model`; `sensitivity` varies their
inputs. `case` and `model_case` describe one combination, `posteriors` holds what was found.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
