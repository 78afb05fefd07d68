"""What a reader learns about one person from a noisy table, beside what its privacy guarantee leaves open.

The way through, in order: a `Plan` says what is published at nested `Level`s and how noisy it is; an `Adversary` says
who reads it, with which prior and which beliefs about everybody else; `plan.release` and `plan.observe` make releases;
`adversary.posterior` reads one exactly; `audit` averages over releases and puts the bounds of a `Guarantee` beside it.
`load_scenario` reads all of that from a TOML file, and `adversary.models` holds the same story as PyMC models.

>>> import adversary as adv
>>> plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))])
>>> reader = adv.Adversary(prior=0.5, known=0)
>>> round(float(reader.posterior(plan, plan.observe({"block": 2}))["posterior"]), 4)
0.5744
"""

from adversary._distribution import __version__ as __version__
from adversary.analyst import bounded as bounded
from adversary.analyst import regression as regression
from adversary.desk.scenarios import Scenario as Scenario
from adversary.desk.scenarios import load_scenario as load_scenario
from adversary.driver import audit as audit
from adversary.policy import budget as budget
from adversary.policy import census as census
from adversary.policy.explain import explain as explain
from adversary.policy.profiles import RiskProfile as RiskProfile
from adversary.policy.recommendations import recommend_epsilon as recommend_epsilon
from adversary.privacy import auxiliary as auxiliary
from adversary.privacy import decisions as decisions
from adversary.privacy import frameworks as frameworks
from adversary.privacy import guarantees as guarantees
from adversary.privacy import invariants as invariants
from adversary.privacy.definitions import ApproximateDP as ApproximateDP
from adversary.privacy.definitions import GaussianDP as GaussianDP
from adversary.privacy.definitions import NoPrivacy as NoPrivacy
from adversary.privacy.definitions import ProbabilisticDP as ProbabilisticDP
from adversary.privacy.definitions import PureDP as PureDP
from adversary.privacy.definitions import RenyiDP as RenyiDP
from adversary.privacy.definitions import ZeroConcentratedDP as ZeroConcentratedDP
from adversary.privacy.guarantees import Guarantee as Guarantee
from adversary.privacy.losses import PrivacyLoss as PrivacyLoss
from adversary.privacy.mechanisms import DiscreteGaussian as DiscreteGaussian
from adversary.privacy.mechanisms import Exact as Exact
from adversary.privacy.mechanisms import Gaussian as Gaussian
from adversary.privacy.mechanisms import Geometric as Geometric
from adversary.privacy.mechanisms import Laplace as Laplace
from adversary.privacy.mechanisms import Mechanism as Mechanism
from adversary.privacy.mechanisms import RandomizedResponse as RandomizedResponse
from adversary.reader import attacks as attacks
from adversary.reader import conditioned as conditioned
from adversary.reader import counterfactual as counterfactual
from adversary.reader import postprocessing as postprocessing
from adversary.reader import risk as risk
from adversary.reader import sensitivity as sensitivity
from adversary.reader import spine as spine
from adversary.reader.beliefs import Belief as Belief
from adversary.reader.beliefs import Known as Known
from adversary.reader.beliefs import Others as Others
from adversary.reader.beliefs import Point as Point
from adversary.reader.beliefs import Uniform as Uniform
from adversary.reader.each import Each as Each
from adversary.reader.enumeration import enumerate_posterior as enumerate_posterior
from adversary.reader.inference import Adversary as Adversary
from adversary.reader.plans import Level as Level
from adversary.reader.plans import Plan as Plan
from adversary.reader.rates import BetaBinomial as BetaBinomial
from adversary.reader.rates import GammaPoisson as GammaPoisson
from adversary.reader.releases import observed as observed
