"""Setting a privacy budget from the disclosure risk an agency tolerates: everything that belongs to it, by one name.

`RiskProfile` says what is tolerated and `recommend_epsilon` what that allows; `promise` and `budget_table` say the same
in zCDP, Gaussian or approximate DP and over several releases; `verdict` judges a promise already made;
`attained_profile` is what a mechanism really does beside the worst case; `tradeoff_table` is what it costs in accuracy;
`compare_proposals` is what others have proposed.
"""

from __future__ import annotations

from adversary.policy.attained import attained_keeps as attained_keeps
from adversary.policy.attained import attained_profile as attained_profile
from adversary.policy.attained import attained_ratio as attained_ratio
from adversary.policy.attained import attained_risk as attained_risk
from adversary.policy.attained import attained_tail as attained_tail
from adversary.policy.attained import sold_as as sold_as
from adversary.policy.equivalents import equivalent_epsilon as equivalent_epsilon
from adversary.policy.equivalents import value_failure as value_failure
from adversary.policy.profiles import RiskProfile as RiskProfile
from adversary.policy.promises import Promise as Promise
from adversary.policy.promises import budget_table as budget_table
from adversary.policy.promises import promise as promise
from adversary.policy.promises import release_curve as release_curve
from adversary.policy.proposals import compare_proposals as compare_proposals
from adversary.policy.proposals import inclusion_epsilon as inclusion_epsilon
from adversary.policy.proposals import lee_clifton_epsilon as lee_clifton_epsilon
from adversary.policy.proposals import participation_bound as participation_bound
from adversary.policy.proposals import participation_epsilon as participation_epsilon
from adversary.policy.recommendations import Recommendation as Recommendation
from adversary.policy.recommendations import recommend_epsilon as recommend_epsilon
from adversary.policy.risks import absolute_risk_bound as absolute_risk_bound
from adversary.policy.risks import epsilon_for_risk as epsilon_for_risk
from adversary.policy.risks import relative_risk_bound as relative_risk_bound
from adversary.policy.risks import risk_surface as risk_surface
from adversary.policy.utility import noise_of as noise_of
from adversary.policy.utility import prob_exact as prob_exact
from adversary.policy.utility import rmse as rmse
from adversary.policy.utility import switch_of_rate as switch_of_rate
from adversary.policy.utility import switch_probability as switch_probability
from adversary.policy.utility import tradeoff_table as tradeoff_table
from adversary.policy.verdicts import Verdict as Verdict
from adversary.policy.verdicts import verdict as verdict
