r"""The distribution of a table with known margins, before and after a release: listed or sampled weighted tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from adversary._core import Floats, Integers, Sampling, Seed, log_sum_exp
from adversary.adversaries.known_totals.contingency import (
    TablePrior,
    cell_bounds,
    conforming_tables,
    table_prior,
    unknown_margins,
)
from adversary.adversaries.known_totals.table_release import cell_likelihood, table_likelihood
from adversary.adversaries.known_totals.table_walk import random_tables, walk
from adversary.privacy.mechanisms import Mechanism

# Largest product of the numbers of releases and tables; more are refused.
LARGEST_BATCH = 50_000_000


@dataclass(frozen=True, eq=False)
class KnownMargins:
    """Knowledge of a table before its release: margins, known records and prior.

    Parameters
    ----------
    rows, columns : margins of the records that the adversary does not know, (r,) and (c,)
    known : table of the known records, (r, c)
    prior : of the table of unknown records
    """

    rows: Integers
    columns: Integers
    known: Integers
    prior: TablePrior

    @classmethod
    def of(cls, margins: Any, prior: ArrayLike, known: Any) -> KnownMargins:
        """Knowledge from user input, checked."""
        rows, columns, table = unknown_margins(margins, known)
        return cls(rows, columns, table, table_prior(prior, rows, columns).given(table))

    @property
    def records(self) -> int:
        """Number of unknown records."""
        return int(self.rows.sum())

    @property
    def largest(self) -> int:
        """Largest possible count of any cell."""
        return int((self.known + np.minimum(self.rows[:, None], self.columns)).max())

    def tables(self, largest: int) -> Integers | None:
        """Every table of unknown records, (tables, r, c); None if there are more than `largest`."""
        return conforming_tables(self.rows, self.columns, largest)


@dataclass(frozen=True, eq=False)
class TableLaw:
    """Tables of unknown records and their probabilities.

    Parameters
    ----------
    tables : (table, r, c)
    weights : probabilities of the tables, (release, table), with sum 1 in each row
    log_evidence : log probability of each release given the margins, (release,), nats; None if sampled
    diagnosis : for sampled tables, r_hat, ess and mcse of each cell's mean, (r * c,), and `passed`; None if listed
    """

    tables: Integers
    weights: Floats
    log_evidence: Floats | None = None
    diagnosis: Any = None

    @property
    def mean(self) -> Floats:
        """Expected counts of the unknown records, (release, r, c)."""
        flat = self.weights @ self.tables.reshape(len(self.tables), -1)
        return np.asarray(flat.reshape(-1, *self.tables.shape[1:]))

    @property
    def reliable(self) -> bool:
        """True if listed, or if every cell's mean converged; a cell that the margins determine is constant."""
        return self.diagnosis is None or bool((self.diagnosis.passed | self.diagnosis.constant).all())

    def cell_laws(self, known: Integers, size: int) -> Floats:
        """P(cell = count), known records included, for counts below `size`: (release, r, c, count)."""
        tables, index = self.tables + known, np.arange(len(self.tables))
        laws = np.empty((len(self.weights), *known.shape, size))
        for i, j in np.ndindex(*known.shape):
            member = csr_array((np.ones(index.size), (index, tables[:, i, j])), shape=(index.size, size))
            laws[:, i, j] = self.weights @ member
        return laws


def listed_law(
    story: KnownMargins, tables: Integers, mechanism: Any = None, released: Floats | None = None
) -> TableLaw:
    """The exact distribution over all tables, given the margins or also releases (release, r, c)."""
    log_prior = story.prior.log_weight(tables)
    total = log_sum_exp(log_prior)
    if np.isneginf(total):
        raise ValueError(
            "the prior gives probability 0 to every table with these margins: these beliefs contradict an exact release"
        )
    log_given = log_prior - total
    if released is None:
        return TableLaw(tables, np.exp(log_given)[None])
    if len(released) * len(tables) > LARGEST_BATCH:
        raise ValueError(
            f"{len(released)} releases of {len(tables)} possible tables are too many at once: at most "
            f"{LARGEST_BATCH // len(tables)} at a time"
        )
    joint = table_likelihood(mechanism, released, tables + story.known) + log_given
    evidence = log_sum_exp(joint)
    if np.isneginf(evidence).any():
        place = int(np.argmax(np.isneginf(evidence)))
        raise ValueError(f"no table with these margins can have led to release {place}: {released[place].tolist()}")
    return TableLaw(tables, np.exp(joint - evidence[:, None]), evidence)


def walked_law(
    story: KnownMargins, sampling: Sampling, rng: Seed, mechanism: Any = None, released: Floats | None = None
) -> TableLaw:
    """The distribution by sampling, given the margins or also one release (1, r, c).

    Draws are independent if all databases are equally likely and nothing was released. Otherwise they come from a
    random walk; if it has not converged, it is run once more, four times as long.
    """
    if released is None and story.prior.independent_features:
        size, chains = sampling.chains * sampling.draws, sampling.chains
        tables = random_tables(story.rows, story.columns, size, np.random.default_rng(rng))
        return _law_of_draws(tables.reshape(chains, -1, *tables.shape[1:]))
    terms = story.prior.cell_terms(int(cell_bounds(story.rows, story.columns)[1].max()))
    if released is not None and isinstance(mechanism, Mechanism):
        terms = terms + cell_likelihood(mechanism, released, story.known, terms.shape[-1] - 1)[0]
    together: Any = None
    if released is not None and not isinstance(mechanism, Mechanism):

        def together(tables: Integers) -> Floats:
            return np.asarray(table_likelihood(mechanism, released, tables + story.known)[0])

    first = _law_of_draws(walk(story.rows, story.columns, terms, sampling, rng, together))
    return (
        first
        if first.reliable
        else _law_of_draws(walk(story.rows, story.columns, terms, sampling.longer(4), rng, together))
    )


def _law_of_draws(draws: Integers) -> TableLaw:
    """Draws (chain, draw, r, c) as equally likely tables, with their diagnosis."""
    from adversary._core import diagnose

    tables = draws.reshape(-1, *draws.shape[2:])
    diagnosis = diagnose(draws.reshape(*draws.shape[:2], -1))
    return TableLaw(tables, np.full((1, len(tables)), 1.0 / len(tables)), diagnosis=diagnosis)
