"""Privacy budgets from the disclosure risk that an agency tolerates.

`RiskProfile` is the tolerated risk and `recommend_epsilon` the largest epsilon that satisfies it. `allocate` and
`budget_table` convert it to zCDP, Gaussian or approximate DP and to several releases. `verdict` judges an existing
guarantee. `attained_profile` is the risk that a mechanism attains, next to the worst case; `tradeoff_table` is the
cost in accuracy; `compare_proposals` has earlier proposals; `Ledger` adds up releases under one limit.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
