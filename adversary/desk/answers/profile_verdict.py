"""Whether a planned release keeps the risk profile of its scenario: a verdict on every promise and on the noise itself.

A profile limits the privacy loss. Every promise limits it too, all but for a probability of failure, and so does the
plan's own loss, the sharpest of them. One of them within the profile is enough: what is published then stays inside it
whatever the other promises leave open. A promise that the noise does not keep counts for nothing.

Three things can be true of the target: in and in S, in and not in S, out. Of unbounded neighbours the first and the
last are one record apart, which moves one count of every query; the first two are two records apart, but one person
moves two counts by one each, not one count by two, and the plan's own loss is taken as that. Of bounded neighbours the
first two are one step apart, and being out is not covered, since the size of the data is public. Where only one count
is published, the first two differ by one in it, whatever the neighbours.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import finite, listed
from adversary.desk.files import Scenario
from adversary.desk.kit import readers_of
from adversary.driver import OWN
from adversary.policy.budget import BROKEN, KEPT, NOT_COVERED, Verdict, recommend_epsilon, verdict
from adversary.privacy import Guarantee
from adversary.privacy.definitions import NoPrivacy
from adversary.privacy.losses import PrivacyLoss
from adversary.reader.plans import Plan

GROUP = "profile"

EVERY, SURE = "all", "inclusion 1"
"""Readers of a profile whom the verdicts speak of: all, or those who are sure that the target is in the data."""
_COLUMNS = ("loss", "allowed", "failure", "status")


def judged(scenario: Scenario, tree: xr.DataTree) -> xr.DataTree:
    """The audit with its verdicts in the group "profile"; as it is where the scenario has no profile."""
    if scenario.profile is None:
        return tree
    result = tree.copy()
    result[GROUP] = xr.DataTree(verdicts(scenario, tree))
    return result


def verdicts(scenario: Scenario, tree: xr.DataTree) -> xr.Dataset:
    """Every promise of the scenario, and the plan's own loss, against the scenario's profile.

    Returns
    -------
    Dataset, dim `definition` (named as in the group `bound`)
        `loss`, the epsilon it amounts to in nats; `allowed`, the largest that keeps the profile; `failure`; `status`,
        "kept", "broken" or "not covered"; `true`, whether the noise keeps the promise; `words`. Attributes: `status` of
        the planned release; `readers`, all that the profile asks of or only those sure of inclusion; what
        `recommend_epsilon` says (`epsilon`, `inclusion`, `value`, `attained`, `method`, `recommendation`); the profile
        in `words`; `statistic`; `caveat`, of readers whom no profile covers, or nothing

    Raises
    ------
    ValueError : the scenario has no profile
    """
    if GROUP in tree.children:
        return tree[GROUP].to_dataset()
    if scenario.profile is None:
        raise ValueError(f"{scenario.path}: profile: is needed to judge the release by, and missing")
    failure, bound = float(tree.attrs.get("failure", scenario.failure)), tree["bound"].to_dataset()
    rows = judgements(scenario, failure)
    true = [not bool((bound["status"].sel(definition=name) == "violated").any()) for name in rows]
    best = recommend_epsilon(scenario.profile, statistic=scenario.statistic)
    columns: dict[str, list[Any]] = {name: [getattr(one, name) for one in rows.values()] for name in _COLUMNS}
    columns |= {"true": true, "words": [_words(scenario, one) for one in rows.values()]}
    made = xr.Dataset(
        {name: ("definition", np.array(values)) for name, values in columns.items()},
        coords={"definition": list(rows)},
        attrs={
            "status": _together(columns["status"], true),
            "readers": _readers(scenario),
            "epsilon": best.epsilon,
            "inclusion": best.inclusion,
            "value": best.value,
            "attained": int(best.attained),
            "method": best.method,
            "recommendation": best.words,
            "words": scenario.profile.words,
            "statistic": scenario.statistic,
            "caveat": caveat(scenario),
        },
    )
    for name, direction in (("loss", "upper"), ("allowed", "lower")):
        made[name].attrs["direction"] = direction
    return made


def judgements(scenario: Scenario, failure: float) -> dict[str, Verdict]:
    """The verdict on every promise by name, and on the plan's own loss; none where the scenario has no profile."""
    if scenario.profile is None:
        return {}
    promised = {name: _verdict(scenario, one, failure) for name, one in (scenario.guarantee or {}).items()}
    return {**promised, OWN: own_judgement(scenario, failure)}


def own_losses(plan: Plan, statistic: str = "any") -> tuple[PrivacyLoss, PrivacyLoss | None]:
    """The plan's loss between the neighbours its promises speak of, and between "in S" and "in, not in S".

    The second is None where the first says it all: of bounded neighbours, and where one count is published.
    """
    one = Plan(plan.levels).privacy_loss()
    if statistic == "count":
        return one, None
    two = Plan(plan.levels, 2).privacy_loss()
    return (two, None) if plan.neighbours == "bounded" else (one, two)


def own_judgement(scenario: Scenario, failure: float) -> Verdict:
    """The verdict on the plan's own loss, of a scenario with a profile."""
    if has_exact(scenario.plan):
        return _verdict(scenario, NoPrivacy(), failure)
    one, two = own_losses(scenario.plan, scenario.statistic)
    return _verdict(scenario, one, failure, two)


def _verdict(scenario: Scenario, guarantee: Guarantee, failure: float, two: PrivacyLoss | None = None) -> Verdict:
    assert scenario.profile is not None
    how: dict[str, Any] = {"statistic": scenario.statistic, "neighbours": scenario.neighbours, "two": two}
    found = verdict(scenario.profile, guarantee, failure, **how)
    covered = not has_exact(scenario.plan) or found.allowed == np.inf
    return found if covered else replace(found, loss=np.inf, failure=failure, status=NOT_COVERED)


def has_exact(plan: Plan) -> bool:
    """Whether something is published exactly, which may settle the target whatever the noise."""
    return any(level.is_exact for level in plan.levels)


def _words(scenario: Scenario, one: Verdict) -> str:
    """A verdict in words, or why there is none."""
    if one.status == NOT_COVERED and has_exact(scenario.plan):
        return "Something is published exactly, and no promise limits what that tells: the profile is not covered."
    return one.words


def tied(scenario: Scenario) -> dict[str, int]:
    """Readers whose beliefs of everybody else depend on the target, with the people these move with the target."""
    moved = {name: (one.count_shift(scenario.plan), one.shift) for name, one in readers_of(scenario).items()}
    return {name: count for name, (count, own) in moved.items() if count > own}


def called_readers(names: Collection[str]) -> str:
    """Readers by name, or the only one."""
    if not all(names):
        return "this reader"
    return f"reader{'s' if len(names) > 1 else ''} {listed(list(names))}"


def depends(names: Collection[str]) -> str:
    """That what these readers believe of everybody else depends on the target, as a sentence."""
    return (
        f"What {called_readers(names)} believe{'s' * (len(names) == 1)} of everybody else depends on whether the "
        "target is in."
    )


def caveat(scenario: Scenario) -> str:
    """What is to be said of readers whom no profile speaks of; nothing where there are none."""
    if not (names := tied(scenario)):
        return ""
    return (
        f"{depends(names)} A profile is not about such beliefs, and a release may take them further than it tolerates "
        "though it is kept."
    )


def _readers(scenario: Scenario) -> str:
    """Whom the verdicts speak of: of bounded neighbours, where the profile asks of others too, not of all."""
    assert scenario.profile is not None
    return SURE if scenario.neighbours == "bounded" and scenario.profile.domain[0][0] < 1.0 else EVERY


def _together(statuses: list[str], true: list[bool]) -> str:
    """Of the planned release: the best of the verdicts on promises that the noise keeps."""
    found = {status for status, stands in zip(statuses, true, strict=True) if stands}
    return next(status for status in (KEPT, BROKEN, NOT_COVERED) if status in found)


def answer(found: xr.Dataset) -> dict[str, Any]:
    """`verdicts` as one JSON object; what is not finite is null."""
    attrs = found.attrs
    return {
        "status": attrs["status"],
        "readers_covered": attrs["readers"],
        **{name: finite(float(attrs[name])) for name in ("epsilon", "inclusion", "value")},
        "attained": bool(attrs["attained"]),
        **{name: attrs[name] for name in ("method", "statistic", "words", "recommendation")},
        "caveat": attrs["caveat"] or None,
        "verdicts": {str(name): _row(found.sel(definition=name)) for name in found["definition"].values},
    }


def _row(one: xr.Dataset) -> dict[str, Any]:
    return {
        "status": str(one["status"].item()),
        **{name: finite(one[name].item()) for name in ("loss", "allowed", "failure")},
        "true": bool(one["true"].item()),
        "words": str(one["words"].item()),
    }
