"""Adversaries who know some statistics exactly: explicit databases, tables with known margins, and what bounds them.

`record_odds` reads a noisy release over databases that are listed (`JointLaw`, conditioned by `given` on what was
published); `table_posterior` reads one of a table of counts whose margins were published. Everywhere what the exact
statistic taught, bounded by nothing, is kept apart from what the noisy release added, bounded by the guarantee at as
many records as conforming databases differ in: `guarantee.group(k)`.

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics".
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
