"""Totals that a plan publishes exactly, and in how many records databases that conform to them must be let differ.

Counts published exactly at nested levels are the counts of one partition of the people: one published feature, whose
semi-adjacency is 2, for a record can only change where another one takes its place. A release that publishes more
exactly says so by its `Margins`, and theirs is used.

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
    semi_adjacency : a(t), records that are replaced; 0 where what is published fixes every record
    exact : whether that is a(t) itself, and not an upper bound
    reading : of a(t), "worst" or "literal"
    each : records of the guarantee's neighbours in one replaced record: 2 where a record added or removed is one, and
        both cells that the hypotheses name are published

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
        """Records that a guarantee has to cover for every pair of databases a(t) apart."""
        return self.each * self.semi_adjacency

    @property
    def disclosed(self) -> bool:
        """True where what is published exactly fixes every record, whatever the noise."""
        return self.semi_adjacency == 0

    def group_guarantee(self, guarantee: Guarantee) -> Guarantee:
        """The guarantee that one of one record gives beside them: of so many records; no privacy where a(t) is 0."""
        return NoPrivacy() if self.disclosed else guarantee.group(self.records)


def exact_totals(plan: Plan, invariants: Margins | Databases | None = None) -> ExactTotals | None:
    """The totals that a plan publishes exactly; None where there are none.

    Parameters
    ----------
    invariants : everything published exactly, where that is more than the plan's exact levels or its counts are known,
        as `adv.invariants.Margins`
    """
    levels = tuple(level.name for level in plan.levels if level.is_exact)
    each = 2 if plan.cells == 2 and plan.neighbours == "unbounded" else 1
    if invariants is not None:
        if not isinstance(invariants, Margins | Databases):
            raise TypeError(f"invariants must be as adv.invariants.Margins or Databases, got {invariants!r}")
        return ExactTotals(levels, invariants.semi_adjacency, invariants.exact, invariants.reading, each)
    return ExactTotals(levels, ONE_FEATURE, True, "worst", each) if levels else None
