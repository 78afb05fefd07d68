"""Totals that a plan publishes exactly, and their semi-adjacency: records in which conforming databases must differ.

Counts published exactly at nested levels are the counts of one partition of the people. This is one published feature,
with semi-adjacency 2: a record can only change if another one takes its place. A release with further exact counts
states them as `Margins`, whose semi-adjacency is used instead.

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", Theorem 16 and Proposition 15.
"""

from __future__ import annotations

from dataclasses import dataclass

from adversary.adversaries.plans import Plan
from adversary.privacy import Guarantee
from adversary.privacy.definitions import NoPrivacy
from adversary.privacy.invariants import Databases, Margins

ONE_FEATURE = 2
"""Semi-adjacency of the counts of one feature with two levels in use."""


@dataclass(frozen=True)
class ExactTotals:
    """Totals that a plan publishes exactly, with their semi-adjacency.

    Parameters
    ----------
    levels : names of the levels published exactly
    semi_adjacency : a(t), number of records that are replaced; 0 if the exact counts determine every record
    exact : whether this is a(t) itself, not an upper bound
    reading : reading of a(t), "worst" or "literal"
    each : privacy units per replaced record: 2 for unbounded neighbours if both cells of the hypotheses are
        published, otherwise 1

    >>> from adversary.privacy.mechanisms import Exact
    >>> from adversary.adversaries.plans import Level
    >>> exact_totals(Plan([Level("tract", Exact())])).records
    2
    """

    levels: tuple[str, ...]
    semi_adjacency: int
    exact: bool
    reading: str
    each: int

    @property
    def records(self) -> int:
        """Number of records that a guarantee must cover for pairs of databases a(t) apart."""
        return self.each * self.semi_adjacency

    @property
    def disclosed(self) -> bool:
        """True if the exact counts determine every record, regardless of the noise."""
        return self.semi_adjacency == 0

    def group_guarantee(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee for `records` records that follows from one for one record; no privacy if a(t) is 0."""
        return NoPrivacy() if self.disclosed else guarantee.group(self.records)


def exact_totals(plan: Plan, invariants: Margins | Databases | None = None) -> ExactTotals | None:
    """Totals that a plan publishes exactly, with their semi-adjacency; None without exact levels and `invariants`.

    Parameters
    ----------
    plan : the published counts
    invariants : all exact counts, as `adv.invariants.Margins` or `Databases`, if there are more than the plan's exact
        levels or their values are known

    Returns
    -------
    ExactTotals of the plan's exact levels, with the semi-adjacency of `invariants` or, by default, that of one feature;
    or None
    """
    levels = tuple(level.name for level in plan.levels if level.is_exact)
    each = 2 if plan.cells == 2 and plan.neighbours == "unbounded" else 1
    if invariants is not None:
        if not isinstance(invariants, Margins | Databases):
            raise TypeError(f"invariants must be as adv.invariants.Margins or Databases, got {invariants!r}")
        return ExactTotals(levels, invariants.semi_adjacency, invariants.exact, invariants.reading, each)
    return ExactTotals(levels, ONE_FEATURE, True, "worst", each) if levels else None
