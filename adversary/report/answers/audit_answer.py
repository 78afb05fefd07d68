"""Answer of `adversary audit`: the audit of a scenario, its verdict, and the failures of `--check`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import (
    error_text,
    format_bound,
    format_parameter,
    join_words,
    sentence,
)
from adversary.driver import ALSO, EVERYTHING, GROUPS, audit
from adversary.privacy import Guarantee
from adversary.report.files import Scenario
from adversary.report.kit import LEFT_OUT, Summary, audit_words, left_out, profile_verdict

_BESIDE = [name for key, one in GROUPS.items() for name in ((key,) if one.listed is None else one.listed)]

# Groups whose numbers JSON lists, and those of the sensitivity analysis.
LISTED = ("risk", "bound", *_BESIDE, "profile", "diagnostics")

# Statuses of a guarantee, the worst last.
RANK = ("holds", "exceeded", "unreliable", "violated")


def solve(
    scenario: Scenario, *, failure: float | None = None, whole: bool = True, also: Sequence[str] = (), **how: Any
) -> xr.DataTree:
    """Audit of a scenario, with its summary, and group `profile` if it has a risk profile.

    Parameters
    ----------
    scenario : to audit
    failure : failure probability in place of the scenario's
    whole : compute all groups that the page shows; otherwise the usual ones, for screen and JSON, and those of `also`
    also : further groups by name
    **how : further arguments of `adversary.audit`

    Returns
    -------
    DataTree of `adversary.audit`; attribute `not_applicable` has other meanings of the budget that do not apply
    """
    others, refused = audit_words.readings(scenario) if whole else ({}, {})
    tree = audit(
        scenario.plan,
        scenario.adversary,
        scenario.truth,
        guarantee=scenario.guarantee,
        invariants=scenario.margins,
        failure=scenario.failure if failure is None else failure,
        also=EVERYTHING if whole else (*ALSO, *also),
        alternatives={name: (one.plan, one.adversary, one.truth) for name, one in others.items()},
        profile=scenario.profile,
        sensitivity=scenario.sensitivity.given if whole and scenario.sensitivity else None,
        keep_going=whole,
        **how,
    )
    tree.attrs |= {"title": scenario.name, "scenario": fingerprint(scenario), "not_applicable": json.dumps(refused)}
    if budget := audit_words.budget(scenario):
        tree.attrs["budget"] = budget
    try:
        tree = profile_verdict.with_verdicts(scenario, tree)
    except Exception as error:
        tree.attrs[LEFT_OUT] = json.dumps(left_out(tree) | {"profile": error_text(error)})
    swept = tree["sensitivity"].subtree if "sensitivity" in tree.children else ()
    listed = [name for name in LISTED if name in tree.children]
    listed += [node.path.strip("/") for node in swept if node.data_vars]
    return Summary(scenario.name, listed, *verdict(scenario, tree), audit_words.warnings(tree)).on(tree)


def verdict(scenario: Scenario, tree: xr.DataTree) -> tuple[str, str]:
    """Verdict on the guarantees and, if there is one, on the profile: text and status."""
    status = worst_status(tree)
    has_profile = scenario.profile is not None and "profile" not in left_out(tree)
    judged = profile_verdict.verdicts(scenario, tree) if has_profile else None
    broken = judged is not None and judged.attrs["status"] == "broken"
    violations = _violations(scenario, tree) if status == "violated" else []
    if violations:
        first = violations[0]
        lines = [f"{sentence(first)}."]
        # where the profile is broken too, its remedy is for both
        if not broken:
            lines.append(f"{'Guarantee that much, or add' if ' spends ' in first else 'Add'} noise.")
    else:
        lines = [UNLIMITED if audit_words.is_unlimited(tree["bound"].to_dataset()) else VERDICTS[status]]
    if judged is not None:
        lines.append(profile_verdict.verdict_sentence(judged, also=bool(violations)))
        status = "violated" if status == "holds" and broken else status
    return " ".join(lines), status


def fingerprint(scenario: Scenario) -> str:
    """SHA-256 of a scenario's TOML document, in hexadecimal."""
    return hashlib.sha256(json.dumps(scenario.document, sort_keys=True, default=str).encode()).hexdigest()


def worst_status(tree: xr.DataTree) -> str:
    """Worst status over all guarantees, adversaries and truths, in the order of `RANK`."""
    statuses = {str(status) for status in tree["bound"].to_dataset()["status"].values.ravel()} - {""}
    return max(statuses, key=RANK.index)


VERDICTS = {
    "holds": "Every guarantee holds for every adversary here.",
    "exceeded": "A guarantee is exceeded: an adversary with mistaken or improper beliefs passes its bound more often "
    "than it may fail. The guarantee itself is true.",
    "unreliable": "Not judged: some posteriors could not be sampled reliably.",
    "violated": "A guarantee is violated: the plan's own privacy loss exceeds it.",
}
UNLIMITED = "Nothing is guaranteed here: no guarantee is stated, and the privacy loss of the noise is unlimited."


def check_failure(scenario: Scenario, tree: xr.DataTree) -> str:
    """Reason in one line for a failing `--check`: the guarantee or profile, its limit, the loss; "" if nothing fails.

    It fails on a violated guarantee, on a violated profile, and on posteriors that could not be sampled reliably.
    """
    statuses = tree["bound"].to_dataset()["status"]
    lines = _violations(scenario, tree)
    if "profile" in (missing := left_out(tree)):
        lines.append(f"the profile is not judged: {missing['profile']}")
    elif scenario.profile is not None:
        lines += filter(None, [profile_verdict.broken_line(profile_verdict.verdicts(scenario, tree))])
    if bool((statuses == "unreliable").any()):
        lines.append("not judged: some posteriors could not be sampled reliably")
    return "; ".join(lines)


def _violations(scenario: Scenario, tree: xr.DataTree) -> list[str]:
    """A line on every violated guarantee: its parameters, and those of the noise."""
    statuses, loss = tree["bound"].to_dataset()["status"], scenario.plan.unit_loss()
    return [
        f"guarantee {name} is violated: {_spent(guarantee, loss)}"
        for name, guarantee in (scenario.guarantee or {}).items()
        if bool((statuses.sel(definition=name) == "violated").any())
    ]


# The search for the budget that noise spends ends at so many times the guaranteed one.
LARGEST_FACTOR = 2.0**40


def _spent(guarantee: Guarantee, loss: Guarantee) -> str:
    """Clause with the parameters of a violated guarantee, and those that the noise satisfies, rounded up."""
    low, high = 1.0, 2.0
    try:
        while not guarantee.scaled(high).is_satisfied_by(loss):
            low, high = high, high * high
            if high > LARGEST_FACTOR:
                return f"it allows {_budget(guarantee)}, and the noise satisfies no such guarantee"
    # a definition without a budget cannot be scaled
    except TypeError:
        return f"it allows {_budget(guarantee)}, and the privacy loss of the noise exceeds it"
    # closer than the tolerance of `is_satisfied_by`: epsilon 2 is not written 2.001
    while high > (1.0 + 1e-10) * low:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if guarantee.scaled(middle).is_satisfied_by(loss) else (middle, high)
    spent = _budget(guarantee.scaled(high), partial(format_bound, upper=True))
    return f"it allows {_budget(guarantee)}, and the noise spends {spent}"


def _budget(guarantee: Guarantee, write: Callable[[float], str] = format_parameter) -> str:
    """Parameters of a guarantee in words."""
    return join_words([f"{name} {write(float(x))}" for name, x in guarantee.budget.items()])


def how(tree: xr.DataTree) -> str:
    """Method of an audit's averages in a phrase: the engine, and exactly or by simulation.

    Parameters
    ----------
    tree : answer of `adversary.audit`
    """
    if tree["risk"]["posterior_mean"].attrs.get("direction") == "exact":
        return f"engine {tree.attrs['engine']}, exact averages over releases"
    draws, seed = tree.attrs["draws"], tree.attrs["seed"]
    return f"engine {tree.attrs['engine']}, {draws:,} simulated releases, seed {seed}, ± standard error"
