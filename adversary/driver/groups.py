"""Further groups of an audit: the question they answer, their function and their title.

A further group is a function of a `Question` in the file that it belongs to, one line in that file's `GROUPS`, and
where people are to read it, a section in `report.sections`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from adversary.adversaries.path import Adversary, Truth
from adversary.adversaries.plans import Plan
from adversary.driver.posteriors import Groups
from adversary.driver.shared_laws import SharedLaws

Alternative = tuple[Plan, Any, Mapping[str, Any]]
"""A plan, with the adversaries and the truths it is read by."""


@dataclass(frozen=True)
class Question:
    """One plan, one adversary and one truth, about which groups are made.

    Parameters
    ----------
    laws : of the log Bayes factor, each computed once
    plan, adversary, truth : as the audit has them
    counts : the truth as it was given, by level
    failure : probability with which a bound may fail
    alternatives : other plans by name, each with the adversary and the truth it is read by
    profile : the largest tolerated ratio of posterior to prior, of (inclusion, value)
    """

    laws: SharedLaws
    plan: Plan
    adversary: Adversary
    truth: Truth
    counts: Mapping[str, Any]
    failure: float
    alternatives: Mapping[str, Alternative] = field(default_factory=dict)
    profile: Callable[[float, float], Any] | None = None


class Group(NamedTuple):
    """Something that may stand beside an audit.

    Parameters
    ----------
    title : what people call it
    make : groups of the audit's tree by name; none where there is nothing to say
    shown : whether every audit has it, without being asked
    given : whether it has an argument of its own, and is made where that is given, whatever else is asked
    listed : groups of the tree whose numbers JSON lists; that of its own name where not given
    """

    title: str
    make: Callable[[Question], Groups]
    shown: bool = False
    given: bool = False
    listed: Sequence[str] | None = None
