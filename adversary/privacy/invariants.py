"""Statistics published exactly beside a noisy release: everything about them that concerns every reader, by one name.

`Margins` are the databases that conform to published one-way margins and `semi_adjacency` how many records of them must
be allowed to differ; `guarantee.given(margins)` is what a guarantee then promises. `sensitivity_space`, `KNorm` and
`SpanGaussian` make noise for what can still change, `umpu` tests an odds ratio with it, and `compare` orders promises.
"""

from __future__ import annotations

from adversary.privacy.adjacency import coupling_radius as coupling_radius
from adversary.privacy.adjacency import semi_adjacency as semi_adjacency
from adversary.privacy.adjacency import semi_adjacency_bound as semi_adjacency_bound
from adversary.privacy.adjacency import semi_adjacency_limits as semi_adjacency_limits
from adversary.privacy.adjacency import semi_adjacency_of as semi_adjacency_of
from adversary.privacy.baselines import CellGaussian as CellGaussian
from adversary.privacy.baselines import L1Noise as L1Noise
from adversary.privacy.baselines import L2Noise as L2Noise
from adversary.privacy.baselines import LInfinityNoise as LInfinityNoise
from adversary.privacy.canonical import CanonicalNoise as CanonicalNoise
from adversary.privacy.canonical import canonical_noise as canonical_noise
from adversary.privacy.cells import TableSpace as TableSpace
from adversary.privacy.cells import sensitivity_space as sensitivity_space
from adversary.privacy.conforming import Margins as Margins
from adversary.privacy.conforming import conforming as conforming
from adversary.privacy.costs import compare_costs as compare_costs
from adversary.privacy.grouped import Grouped as Grouped
from adversary.privacy.odds_ratio import OddsRatioTest as OddsRatioTest
from adversary.privacy.odds_ratio import umpu as umpu
from adversary.privacy.orders import Promise as Promise
from adversary.privacy.orders import compare as compare
from adversary.privacy.orders import compose_first as compose_first
from adversary.privacy.orders import implies as implies
from adversary.privacy.orders import semi_first as semi_first
from adversary.privacy.sensitivities import Sensitivities as Sensitivities
from adversary.privacy.sensitivities import SensitivitySpace as SensitivitySpace
from adversary.privacy.sensitivities import group_space as group_space
from adversary.privacy.spaces import Databases as Databases
from adversary.privacy.spaces import Space as Space
from adversary.privacy.spaces import Unrestricted as Unrestricted
from adversary.privacy.span_noise import KNorm as KNorm
from adversary.privacy.span_noise import SpanGaussian as SpanGaussian
from adversary.privacy.tulap import Tulap as Tulap
from adversary.privacy.vector_noise import VectorNoise as VectorNoise
