"""Published adversaries, each by its paper, as one-line models with their releases left free.

`kazan_reiter` and `census_neighbor` read counts with noise, `differencing` two counts that differ by one person,
`lee_clifton` a statistic of all but one of a known population, `mcclure_reiter` synthetic data, and
`block_reconstruction` the tables of a small block. Each is audited in one line, by `adversary.audit_model`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
