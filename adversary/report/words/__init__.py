"""A privacy budget in words, for a respondent, a regulator and a curator.

`explanation` is the way in; `guarantee_facts`, `budget_facts` and `audit_facts` are the numbers as they are written,
and `templates` the words, one file for each audience.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
