"""Setting a privacy budget from the disclosure risk an agency tolerates: everything that belongs to it, by one name.

`RiskProfile` says what is tolerated and `recommend_epsilon` what that allows; `promise` and `budget_table` say the same
in zCDP, Gaussian or approximate DP and over several releases; `verdict` judges a promise already made;
`attained_profile` is what a mechanism really does beside the worst case; `tradeoff_table` is what it costs in accuracy;
`compare_proposals` is what others have proposed.
"""

from __future__ import annotations

from adversary.policy.profiles import RiskProfile as RiskProfile
from adversary.policy.recommendations import Recommendation as Recommendation
from adversary.policy.recommendations import recommend_epsilon as recommend_epsilon
from adversary.policy.risks import absolute_risk_bound as absolute_risk_bound
from adversary.policy.risks import epsilon_for_risk as epsilon_for_risk
from adversary.policy.risks import relative_risk_bound as relative_risk_bound
from adversary.policy.risks import risk_surface as risk_surface
