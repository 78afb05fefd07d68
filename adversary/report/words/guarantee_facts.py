"""Facts of a guarantee for the templates: its name, limits and composition, with numbers as text.

The sentences are in `templates`, one file for each audience. A limit, an interval or a ratio is a bound: upper ends are
rounded up, lower ends down.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import (
    AT_A_TIME,
    PERCENT,
    decimals_for,
    ends,
    exactly,
    failing,
    format_bound,
    format_number,
    holding,
    in_100,
    join_words,
    outward_percent,
    percentage,
    plain,
    points,
    sentence,
    tidy,
)
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.definitions import NoPrivacy, PureDP
from adversary.privacy.losses import PrivacyLoss
from adversary.report.words.belief_limits import (
    BeliefLimit,
    limits_after,
    limits_of,
    limits_together,
    releases_within,
    usual_limit,
)
from adversary.report.words.template_cache import environment

# Default priors of adversaries: two base rates, and even odds.
PRIORS = (0.01, 0.1, 0.5)

# Default priors for an audience that should see fewer.
STARTS: dict[str, tuple[float, ...]] = {"lay": (0.5,)}
DIGITS = {"lay": 2, "regulator": 3, "technical": 3}

# Ratios above this are called unlimited in practice, not spelled out.
MANY = 1e6

# Priors below this are not spelled out as those of the largest rise: nobody has a feeling for them.
TINY = 1e-3

APART = "whose beliefs about everybody else do not depend on your data"

# Adversaries whom a guarantee about one record covers: for texts to the person in the data (above) and to others.
COVERED = "whose beliefs about everybody else do not depend on this person"
GROUPS = (
    "What a release teaches about people in general, or about a group, is not limited: conclusions about a person "
    "that would be drawn just as well without their record."
)

# Words for the data of a privacy unit that is a person.
RECORD = {"record": "record", "one_record": "one person's record"}
SHARED = {"APART": APART, "COVERED": COVERED, "GROUPS": GROUPS, "AT_A_TIME": AT_A_TIME, "PERCENT": PERCENT}


def paragraphs(audience: str, topic: str, facts: Mapping[str, Any]) -> Iterator[str]:
    """Paragraphs of a topic for an audience, from its template and facts, each on one line."""
    text = _template(audience).render(topic=topic, **{**SHARED, **RECORD, **facts})
    yield from (
        paragraph for part in re.split(r"\n[ \t]*\n", text) if (paragraph := re.sub(r"[ \t\n]+", " ", part).strip(" "))
    )


@cache
def _template(audience: str) -> Any:
    """Jinja template of an audience, compiled once."""
    made = environment(Path(__file__).parent / "templates", trim_blocks=True, lstrip_blocks=True)
    made.filters.update(listed=lambda items: join_words(list(items)), sentence=sentence)
    return made.get_template(f"{audience}.j2")


def record_words(unit: PrivacyUnit | None) -> dict[str, str]:
    """Words for the data of one privacy unit, such as "household"; "record" if it is a person.

    Parameters
    ----------
    unit : privacy unit; None for a person

    Returns
    -------
    dict of template variables: `record`, `one_record`, and sentences in which the unit occurs

    >>> record_words(PrivacyUnit("household"))["one_record"]
    'one household'
    """
    if unit is None or unit.name == "person":
        return dict(RECORD)
    one = f"one {unit.name}"
    groups = GROUPS.replace("about a person", f"about {one}").replace("without their record", "without it")
    return {"record": unit.name, "one_record": one, "COVERED": COVERED.replace("person", unit.name), "GROUPS": groups}


def is_usual(unit: PrivacyUnit, contribution: float | None = None) -> bool:
    """True for the usual unit, a person in one period who changes one count by one, which texts need not mention.

    Parameters
    ----------
    unit : privacy unit, with any neighbour relation
    contribution : largest change of a number by one unit; the unit's own unless given
    """
    most = unit.contribution if contribution is None else contribution
    return most in (None, 1) and replace(unit, contribution=None, neighbours=None) == PrivacyUnit()


def unit_words(unit: PrivacyUnit, contribution: float | None = None, local: bool = False) -> str:
    """Sentences on the privacy unit: its name, and the largest change of a release by one unit.

    Parameters
    ----------
    unit : privacy unit
    contribution : largest change of a number by one unit; the unit's own unless given
    local : whether the release is the unit's own answer

    >>> print(unit_words(PrivacyUnit("household", 10, neighbours="unbounded")))
    The guarantee protects one household, added or removed: it changes a published number by at most 10.
    """
    most = unit.contribution if contribution is None else contribution
    change = "replaced by another" if unit.is_replaced else "added or removed"
    if local:
        apart = f" at most {format_number(float(unit.contribution))} away" if unit.contribution else ""
        text = f"The guarantee protects the answer of one {unit.name}, which may be any other{apart}"
        text += f", in each of {unit.cells} reports." if unit.cells > 1 else "."
    else:
        changes = (
            [] if most in (None, math.inf) else [f"a published number by at most {format_number(float(most or 0))}"]
        )
        several = unit.cells > 1 or (unit.is_replaced and most is not None)
        changes += [f"at most {unit.changed_cells} numbers of one level or table"] if several else []
        amount = f": it changes {', and '.join(changes)}" if changes else ""
        text = f"The guarantee protects one {unit.name}, {change}{amount}."
    if unit.periods > 1:
        text += (
            f" It is the guarantee of one period; the same {unit.name} may be present in {unit.periods:,} periods, "
            "whose guarantees add up."
        )
    return text


REPLACED = (
    "The guarantees of this scenario are about one {record} that is replaced by another. Where a text speaks of data "
    "that are used or not, of a {record} that is in the data or not, read: data that say one thing or another."
)

LOCAL = (
    "The guarantees of this scenario are about what one {record} answers, which is published after noise of its own. "
    "Where a text speaks of data that are used or not, of a {record} that is in the data or not, read: a {record} that "
    "answers one thing or another."
)


def unit_notes(unit: PrivacyUnit, contribution: float | None = None, local: bool = False) -> list[str]:
    """Notes on the privacy unit that texts about a guarantee lack: its contribution, and that it is replaced.

    Parameters
    ----------
    unit, contribution, local : as for `unit_words`
    """
    lines = [] if is_usual(unit, contribution) and not local else [unit_words(unit, contribution, local)]
    if local or unit.is_replaced:
        lines.append((LOCAL if local else REPLACED).format(record=record_words(unit)["record"]))
    return lines


def guarantee_facts_of(
    guarantee: Guarantee,
    audience: str,
    limits: Sequence[BeliefLimit],
    priors: Sequence[float] | None,
    budgeted: str = "",
) -> dict[str, Any]:
    """Facts of a guarantee: its names, the first limit (the usual one if that is infinite), and further limits.

    Parameters
    ----------
    guarantee : to explain
    audience : one of `AUDIENCES`
    limits : of the guarantee at the given failure probability
    priors : of adversaries, None for the default ones
    budgeted : completes "the largest ..." if the guarantee follows from a budget
    """
    first_limits, starts = limits[0], priors or STARTS.get(audience, PRIORS)
    other = None if first_limits.exists else usual_limit(guarantee)
    limit = first_limits if first_limits.exists else other
    facts = {**names_of(guarantee, budgeted), "asked": _limit(first_limits, audience, ()), "more": [], "limit": None}
    facts["may_fail"] = any(not one.certain for one in limits)
    if limit is not None:
        facts |= {"limit": _limit(limit, audience, starts), "household": _household(guarantee, limit)}
        facts["more"] = [_limit(one, audience, starts) for one in limits[1:]]
        facts["stricter"] = _stricter(guarantee, limit, audience)
    return facts


def names_of(guarantee: Guarantee, budgeted: str = "") -> dict[str, Any]:
    """Facts on the name and kind of a guarantee; `budgeted` completes "the largest ..." if it follows from a budget."""
    return {
        "named": described(guarantee, upper=not budgeted),
        "stands_for": stands_for(guarantee, budgeted), "each_stands_for": stands_for(guarantee, budgeted, "each "),
        "meaning": guarantee.meaning,
        "wider": wider(guarantee), "of_the_release": is_of_release_only(guarantee),
        "pure": isinstance(guarantee, PureDP),
        "vacuous": isinstance(guarantee, NoPrivacy), "loss": isinstance(guarantee, PrivacyLoss),
    }  # fmt: skip


def _limit(limit: BeliefLimit, audience: str, starts: Sequence[float]) -> dict[str, Any]:
    """Facts of a limit: its failure probability, and the change of a belief from any prior and each of `starts`."""
    may_fail: dict[str, Any] = {"exists": limit.exists, "certain": limit.certain}
    if not limit.certain:
        may_fail |= {"holding": holding(limit.failure), "failing": failing(limit.failure)}
        may_fail |= {"share": percentage(limit.failure, True), "failure": exactly(limit.failure)}
    if not limit.exists:
        return may_fail
    digits, most = DIGITS[audience], limit.difference
    many = plain(limit.ratio(), True, 3 + limit.finer) if limit.ratio() <= MANY else ""
    return {
        **may_fail,
        "unmoved": limit.loss == 0.0,
        "points": points(most, digits),
        "loss": format_bound(limit.loss, True),
        "difference": format_bound(most, True),
        "ratio": format_bound(limit.ratio(), True, digits + limit.finer),
        "useful_ratio": many,
        "worst": _worst(limit) if limit.loss > 0.0 else {},
        "starts": [_start(limit, p, audience) for p in starts],
    }


def _start(limit: BeliefLimit, p: float, audience: str) -> dict[str, Any]:
    """Facts on the posterior range of an adversary with prior p, in percent and as a ratio.

    Texts that a report's page has too, for regulators and experts, have the digits of its tables.
    """
    as_read = limit.posterior_as_read(p)
    low, high = ends(p, *as_read, digits=DIGITS[audience])
    least, most = (float(end) for end in limit.posterior(p))
    fine, anything = DIGITS["technical"] + limit.finer, (low, high) == ("0", "100")
    # near 1 enough digits to show the complement
    if audience == "lay":
        near = max(fine, 2 + decimals_for(1.0 - p))
        low, high = outward_percent(as_read[0], False, near), outward_percent(as_read[1], True, near)
    ratio = plain(limit.ratio_as_read(p), True, 3 + limit.finer) if 0.0 < p < 1.0 and limit.ratio(p) <= MANY else ""
    return {
        "sure": p in (0.0, 1.0), "p": exactly(p), "start": in_100(p, limit.finer),
        "low": low, "high": high, "anything": anything,
        "least": outward_percent(least, False, fine), "most": outward_percent(most, True, fine),
        "ratio": format_bound(limit.ratio(p), True, fine), "useful_ratio": ratio,
    }  # fmt: skip


def _worst(limit: BeliefLimit) -> dict[str, Any]:
    """Facts on the prior of the largest change, rounded, and the bounds there."""
    shown = (100 * Decimal(repr(limit.worst_prior))).quantize(Decimal(1).scaleb(-decimals_for(limit.worst_prior)))
    start = float(shown / 100)
    return {
        "all": points(limit.difference) == "100", "tiny": start < TINY, "points": points(limit.difference),
        "rise": tidy(shown), "fall": tidy(100 - shown),
        "high": "" if start < TINY else ends(start, *limit.posterior(start))[1],
        "low": "" if start < TINY else ends(1.0 - start, *limit.posterior(1.0 - start))[0],
        "p": f"{limit.worst_prior:.4g}", "q": f"{1.0 - limit.worst_prior:.4g}",
    }  # fmt: skip


def _household(guarantee: Guarantee, limit: BeliefLimit) -> str | None:
    """Loss if two records change together, as text; None for a computed loss, which the plan derives better."""
    if isinstance(guarantee, PrivacyLoss):
        return None
    e = float(guarantee.group(2).loss_bound(limit.failure))
    return format_bound(e, True) if np.isfinite(e) else ""


def _stricter(guarantee: Guarantee, limit: BeliefLimit, audience: str) -> list[dict[str, Any]]:
    """Facts of limits at ever smaller failure probabilities; of those with the same text, the last only."""
    if limit.certain:
        return []
    shares = (100.0,) if audience == "lay" else (10.0, 100.0, 1000.0)
    further = [limits_of(guarantee, limit.failure / share)[0] for share in shares]
    every = [one for one in ([] if audience == "lay" else [limit]) + further if one.exists]
    key = "loss" if audience == "technical" else "points"
    return list({one[key]: one for one in (_limit(one, audience, ()) for one in every)}.values())


def composition_facts(
    guarantee: Guarantee,
    audience: str,
    releases: int,
    failure: float,
    prior: float,
    threshold: float,
    budgeted: str = "",
) -> dict[str, Any]:
    """Facts of several releases with independent noise: limits on all and on one, and the number below a threshold."""
    together = limits_together(guarantee, releases, failure)
    facts: dict[str, Any] = {
        **names_of(guarantee, budgeted),
        "releases": f"{releases:,}",
        "together": [],
        "until": None,
    }
    for chance, limits in together:
        alone = _limit(limits_of(guarantee, chance)[0], audience, ())
        facts["together"].append({"limits": [_limit(one, audience, (prior,)) for one in limits], "alone": alone})
    if together:
        chance, last = together[-1]
        unmoved = together[0][1][0].loss == 0.0
        facts |= {"unmoved": unmoved, "may_fail": len(last) > 1 or not last[0].certain}
        if not (unmoved or prior >= threshold):
            facts["until"] = _until(guarantee, audience, chance, prior, threshold)
    return facts


def _until(guarantee: Guarantee, audience: str, failure: float, prior: float, threshold: float) -> dict[str, Any]:
    """Facts on the number of releases after which a belief stays below a threshold."""
    most, final = releases_within(guarantee, prior, threshold, failure)
    limit = limits_of(guarantee, failure)[-1] if most == 0 else limits_after(guarantee, most, failure)[-1]
    return {
        "kept": most, "final": final, "shown": f"{most:,}", "next": f"{most + 1:,}",
        "limit": _limit(limit, audience, ()),
        "start": in_100(prior), "threshold": in_100(threshold), "p": exactly(prior), "x": exactly(threshold),
        "failure": exactly(failure),
    }  # fmt: skip


def is_of_release_only(guarantee: Guarantee) -> bool:
    """True if the guarantee covers the release itself, not what is computed from it."""
    return guarantee.after_postprocessing is not guarantee


# Digits of a parameter that satisfies a profile: it is rounded down, as a larger one does not, so that few digits would
# give much away.
DIGITS_OF_A_BUDGET = 7


def described(guarantee: Guarantee, *, upper: bool, digits: int = DIGITS_OF_A_BUDGET) -> str:
    """Name of a guarantee with its parameters: in full as by `describe`, or rounded down if they are a largest budget.

    >>> described(PureDP(4.655963355), upper=False), described(PureDP(4.655963355), upper=True)
    ('pure differential privacy with epsilon 4.655963', 'pure differential privacy with epsilon 4.655963355')
    """
    if upper or not guarantee.budget:
        return guarantee.describe()
    parts = [f"{name} {plain(float(x), False, digits)}" for name, x in guarantee.budget.items()]
    return f"{guarantee.name} with {join_words(parts)}"


def stands_for(guarantee: Guarantee, budgeted: str = "", each: str = "") -> str:
    """Sentence on the releases that a text is about, by their guarantee, or on the noise if it is a computed loss."""
    if isinstance(guarantee, PrivacyLoss):
        return "This is about the privacy loss of the noise itself, worked out for one pair of data."
    if guarantee.vacuous:
        return f"This is about releases that {each}satisfy no privacy definition."
    most = f", the largest {budgeted}, rounded down" if budgeted else ""
    return f"This is about releases that {each}satisfy {described(guarantee, upper=not budgeted)}{most}."


def wider(guarantee: Guarantee) -> str:
    """Sentence on the parameters whose larger values let a belief move further."""
    names = " or ".join(guarantee.budget)
    return f"A larger {names} lets it move further." if names else "Less noise lets it move further."
