"""Readers who know some statistics exactly: explicit databases, tables with known margins, and what bounds them.

`condition` and `posterior_given` read a noisy release over listed databases, `record_law` and `record_odds` say what
follows for one record; `table_posterior` does it for a table of counts whose margins were published. Everywhere what
the exact statistic taught (`invariant_ratio`, bounded by nothing) is kept apart from what the noisy release added
(`ratio`, bounded by the guarantee at as many records as conforming databases differ in: `odds_bound`, `guess_bound`).

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics".
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
