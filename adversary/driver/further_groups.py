"""Further groups of an audit, all from distributions of the log Bayes factor that are computed once and shared."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import xarray as xr

from adversary._core import closest_name, error_text, quoted
from adversary.adversaries.plans import Plan
from adversary.driver import both_truths, other_plans
from adversary.driver.groups import Alternative, AuditGroup, Question
from adversary.driver.posteriors import Groups
from adversary.driver.sensitivity import extremes

_TOLERATED = AuditGroup("These adversaries and the risk profile", both_truths.tolerated_group, given=True)
GROUPS = {**both_truths.GROUPS, **other_plans.GROUPS, "tolerated": _TOLERATED}
"""Further groups of an audit, by name."""
ALSO = tuple(name for name, one in GROUPS.items() if one.shown)
"""Groups about an `Adversary` that every audit has, unless it says which others."""
EVERYTHING = tuple(name for name, one in GROUPS.items() if not one.given)
"""Groups that can be requested by name: all without an argument of their own."""


@dataclass
class GuardedGroups:
    """Computation of further groups in which an error need not end the audit.

    With `keep_going` a group that fails is left out, and its error is recorded in `left_out` by its name.
    """

    keep_going: bool
    left_out: dict[str, str] = field(default_factory=dict)

    def compute(self, name: str, make: Callable[[], Groups]) -> Groups:
        """The groups that `make` returns; empty if it fails and errors are recorded."""
        try:
            return make()
        except OSError:
            # a disk or a worker has failed, which the audit itself needs too
            raise
        except Exception as error:
            if not self.keep_going:
                raise
            self.left_out[name] = error_text(error)
            return {}


def further_groups(question: Question, also: Collection[str], guarded: GuardedGroups) -> Groups:
    """Further groups of one case by name: those listed in `also`, and those with an argument of their own."""
    if "both_truths" in also:
        # refused before long work begins
        both_truths.refuse_unlisted(question)
    groups: Groups = {}
    for name in dict.fromkeys([*also, *(name for name, one in GROUPS.items() if one.given)]):
        groups |= guarded.compute(name, partial(GROUPS[name].make, question))
    return groups


def check_also(also: Any, plans: Mapping[Any, Plan], alternatives: Any, sensitivity: Any) -> None:
    """ValueError for an unknown group, or one that is for one plan where there are several."""
    if isinstance(also, str):
        raise TypeError(f"also must be a list of names, such as ['priors'], got {also!r} alone")
    for one in also:
        if one not in EVERYTHING:
            raise ValueError(f"also must be of {quoted(EVERYTHING)}, got {one!r}{closest_name(str(one), EVERYTHING)}")
    for name, given in (("alternatives", alternatives), ("sensitivity", sensitivity)):
        if given and len(plans) > 1:
            raise ValueError(f"{name} is for one plan, got {len(plans)}")


def alternatives_by_case(
    alternatives: Mapping[str, tuple[Plan, Any, Mapping[str, Any]]],
    adversaries: Mapping[Any, Any],
    truths: Mapping[Any, Any],
) -> dict[Any, dict[str, Alternative]]:
    """Alternative plans of each case, by (name of adversary, name of truth), and then by the plan's name.

    The names None stand for a single unnamed adversary or truth.
    """
    return {
        (name, truth): {
            key: (plan, who[name] if name is not None else who, counts[truth] if truth is not None else counts)
            for key, (plan, who, counts) in alternatives.items()
        }
        for name in adversaries
        for truth in truths
    }


def sweep_groups(base: xr.Dataset, swept: Mapping[str, xr.Dataset], truth: Any = None) -> Groups:
    """Groups of one-at-a-time sweeps: `base`, `extremes` and one for each input, under the truth's name if it has one.

    Attributes `input` and `truth` have the original names; those of groups are without slashes and leading dots.

    Parameters
    ----------
    base, swept : results of `base_and_sweeps`
    truth : name of the truth, None for a single one

    Returns
    -------
    dict of group name to Dataset
    """
    start = "" if truth is None else f"{group_name(str(truth))}/"
    coordinates = {} if truth is None else {"truth": str(truth)}
    groups = {
        f"{start}base": base.assign_attrs(coordinates),
        f"{start}extremes": extremes(base, swept).assign_attrs(coordinates),
    }
    return groups | {
        f"{start}{group_name(dim)}": one.assign_attrs(coordinates, input=dim) for dim, one in swept.items()
    }


def group_name(name: str) -> str:
    """Name of a group of a tree: without slashes, control characters and leading dots.

    Parameters
    ----------
    name : any text

    >>> group_name("x/../y"), group_name("..")
    ('x_.._y', '__')
    """
    return re.sub(r"^\.+", lambda dots: "_" * len(dots[0]), re.sub(r"[/\x00-\x1f]", "_", name))
