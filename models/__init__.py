"""PyMC models of what a reader sees: counts with formally private noise, their release left free.

`hierarchical_counts` builds the model of a plan and a reader; `uncertain_rates` keeps the unknown rates behind other
people's counts as latents; `postprocessed` is for counts made to add up after the noise. `participation`, `misreport`,
`unknown_attribute` and `all_but` tell other attacks on one count, `unique_target` and `sequential` one count released
several times. `invariants` is a noisy table whose margins are known exactly. `bounded` and `regression` are for an
honest analyst of noisy statistics. `noise.released` gives the law of one release for a model of your own; `ExactGibbs`
samples what is too large to enumerate; `counterfactual_world` withholds one person's record. `fit` is the posterior of
one release for ArviZ, and `calibrate` asks by simulation whether a model's posteriors are right.
"""

from .attacks import all_but as all_but
from .attacks import misreport as misreport
from .attacks import participation as participation
from .attacks import unknown_attribute as unknown_attribute
from .batched import batched_gibbs as batched_gibbs
from .bounded_data import bounded as bounded
from .bounded_data import released_statistics as released_statistics
from .calibration import calibrate as calibrate
from .calibration import uniformity as uniformity
from .consistent import postprocessed as postprocessed
from .counts import hierarchical_counts as hierarchical_counts
from .counts import membership as membership
from .fits import fit as fit
from .gibbs import ExactGibbs as ExactGibbs
from .gibbs import published_gibbs_law as published_gibbs_law
from .margin_gibbs import MarginGibbs as MarginGibbs
from .noise import DiscreteGaussian as DiscreteGaussian
from .noise import DiscreteGaussianSum as DiscreteGaussianSum
from .noise import Exact as Exact
from .noise import Geometric as Geometric
from .noise import GeometricSum as GeometricSum
from .noise import LaplaceSum as LaplaceSum
from .posteriors import Enumerated as Enumerated
from .posteriors import Sampled as Sampled
from .posteriors import posterior_of as posterior_of
from .rates import uncertain_rates as uncertain_rates
from .regressions import regression as regression
from .sequences import sequential as sequential
from .sequences import unique_target as unique_target
from .totals import invariants as invariants
from .worlds import actual_world as actual_world
from .worlds import counterfactual_world as counterfactual_world
