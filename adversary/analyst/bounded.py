"""Inference from noisy statistics of bounded data: everything that belongs to it, by one name.

`BoundedRelease` is what was published, `posterior` what it says about the mean and variance of the data, with the
bounds used for free, in a millisecond. `gibbs`, `published_gibbs` and `gibbs_records` are the samplers of the
literature beside it; `coverage_study` measures how often intervals hold what they promise.
"""

from __future__ import annotations

from adversary.analyst.gibbs import gibbs as gibbs
from adversary.analyst.gibbs import published_gibbs as published_gibbs
from adversary.analyst.mixtures import TruncatedGammaMixture as TruncatedGammaMixture
from adversary.analyst.mixtures import gamma_laplace_logz as gamma_laplace_logz
from adversary.analyst.mixtures import normal_laplace_logpdf as normal_laplace_logpdf
from adversary.analyst.noisy import BoundedRelease as BoundedRelease
from adversary.analyst.posteriors import Posterior as Posterior
from adversary.analyst.posteriors import Predictive as Predictive
from adversary.analyst.posteriors import posterior as posterior
from adversary.analyst.priors import Flat as Flat
from adversary.analyst.priors import NormalInverseGamma as NormalInverseGamma
from adversary.analyst.propriety import default_cap as default_cap
from adversary.analyst.propriety import is_proper as is_proper
from adversary.analyst.records import gibbs_records as gibbs_records
from adversary.analyst.region import feasible_mass as feasible_mass
from adversary.analyst.region import largest_sample_variance as largest_sample_variance
from adversary.analyst.region import largest_variance as largest_variance
from adversary.analyst.region import mean_range as mean_range
from adversary.analyst.study import coverage_study as coverage_study
