"""Readers who know some statistics exactly: explicit databases, tables with known margins, and what bounds them.

`condition` and `learn` read a noisy release over listed databases, `record_law` and `record_odds` say what follows for
one record; `table_posterior` does it for a table of counts whose margins were published. Everywhere what the exact
statistic taught (`invariant_ratio`, bounded by nothing) is kept apart from what the noisy release added (`ratio`,
bounded by the guarantee at as many records as conforming databases differ in: `odds_bound`, `guess_bound`).

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics".
"""

from adversary.reader.contingency import Dirichlet as Dirichlet
from adversary.reader.contingency import Independent as Independent
from adversary.reader.contingency import TablePrior as TablePrior
from adversary.reader.contingency import cell_bounds as cell_bounds
from adversary.reader.contingency import conforming_tables as conforming_tables
from adversary.reader.databases import condition as condition
from adversary.reader.databases import learn as learn
from adversary.reader.databases import record_law as record_law
from adversary.reader.databases import record_log_likelihood as record_log_likelihood
from adversary.reader.databases import record_odds as record_odds
from adversary.reader.odds import guess_bound as guess_bound
from adversary.reader.odds import log_odds_bound as log_odds_bound
from adversary.reader.odds import odds_bound as odds_bound
from adversary.reader.odds import odds_tail as odds_tail
from adversary.reader.table_posteriors import table_posterior as table_posterior
from adversary.reader.table_walks import WalkSettings as WalkSettings
