"""Explanations of a privacy budget in words, for a respondent, a regulator and a curator.

`explanation` has the entry point, `explain`; `guarantee_facts`, `budget_facts` and `audit_facts` format the numbers,
and `templates` has the sentences, one file for each audience.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
