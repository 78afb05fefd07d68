"""Setting a privacy budget from the disclosure risk an agency tolerates: everything that belongs to it, by one name.

`RiskProfile` says what is tolerated and `recommend_epsilon` what that allows; `allocate` and `budget_table` say the
same in zCDP, Gaussian or approximate DP and over several releases; `verdict` judges a guarantee already made;
`attained_profile` is what a mechanism really does beside the worst case; `tradeoff_table` is what it costs in accuracy;
`compare_proposals` is what others have proposed.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
