"""Words for those who must trust a number: the person in the data, a regulator, and who keeps the data.

What a guarantee promises, whether it can fail, what several releases tell together, why an epsilon was chosen, whether
a promise keeps what was decided, what an audit found. Numbers are those of the library's own functions, rounded
outward where they are bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from adversary._numeric import check_probability, check_whole, one_number
from adversary.policy import curators, findings, reasons, regulators, respondents
from adversary.policy.limits import limits_of
from adversary.policy.profiles import RiskProfile
from adversary.policy.recommendations import BOUNDED, Recommendation, recommend_epsilon
from adversary.policy.risks import check_statistic, check_word
from adversary.policy.verdicts import Verdict
from adversary.privacy.definitions import PureDP
from adversary.privacy.guarantees import Guarantee

AUDIENCES = ("lay", "regulator", "technical")
ALSO = {"respondent": "lay", "curator": "technical"}
"""Other names of audiences."""

TOPICS = ("guarantee", "pure or approximate", "composition", "audit", "budget")
OF_GUARANTEES = TOPICS[:3]

SPEAKERS: dict[str, ModuleType] = {"lay": respondents, "regulator": regulators, "technical": curators}

AUDITS: dict[str, Callable[[xr.DataTree], Iterator[str]]] = {
    "lay": findings.audit_respondent,
    "regulator": findings.audit_regulator,
    "technical": findings.audit_curator,
}
BUDGETS: dict[str, Callable[[Recommendation, Sequence[float] | None], Iterator[str]]] = {
    "lay": reasons.budget_respondent,
    "regulator": reasons.budget_regulator,
    "technical": reasons.budget_curator,
}
VERDICTS: dict[str, Callable[[Verdict], Iterator[str]]] = {
    "lay": reasons.verdict_respondent,
    "regulator": reasons.verdict_regulator,
    "technical": reasons.verdict_curator,
}


@dataclass(frozen=True)
class _Options:
    """To whom to speak, and of what numbers."""

    audience: str
    priors: list[float] | None
    failure: float
    threshold: float

    def paragraphs(self, subject: Any, topic: str | None, releases: int | None) -> Iterator[str]:
        """The text of a subject, paragraph by paragraph."""
        match subject:
            case Guarantee():
                yield from self._of_guarantee(subject, _fitting(topic, OF_GUARANTEES, "a guarantee"), releases)
            case Recommendation() if topic in OF_GUARANTEES:
                yield from self._of_guarantee(_recommended(subject), topic, releases)
            case Recommendation():
                _fitting(topic, ("budget", *OF_GUARANTEES), "a recommendation")
                yield from BUDGETS[self.audience](subject, self.priors)
            case Verdict():
                _fitting(topic, ("budget",), "a verdict")
                yield from VERDICTS[self.audience](subject)
            case xr.DataTree():
                _fitting(topic, ("audit",), "an audit")
                yield from AUDITS[self.audience](_audited(subject))
            case _:
                raise TypeError(
                    "subject must be a Guarantee, a Recommendation, a RiskProfile, a Verdict or the DataTree of an "
                    f"audit, got {type(subject).__name__}"
                )

    def _of_guarantee(self, guarantee: Guarantee, topic: str | None, releases: int | None) -> Iterator[str]:
        speaker = SPEAKERS[self.audience]
        if topic == "composition" and releases is None:
            raise ValueError("composition needs releases, the number of releases with this guarantee each")
        if topic in (None, "guarantee"):
            yield from speaker.guarantee_told(guarantee, limits_of(guarantee, self.failure), self.priors)
        if topic == "pure or approximate":
            yield from speaker.certainty_told(guarantee, limits_of(guarantee, self.failure))
        if topic == "composition" or (topic is None and releases is not None):
            number = int(check_whole("releases", releases, minimum=1))
            prior = self.priors[0] if self.priors else 0.5
            yield from speaker.composition_told(guarantee, number, self.failure, prior, self.threshold)


def explain(
    subject: Any,
    audience: str = "lay",
    *,
    topic: str | None = None,
    priors: ArrayLike | None = None,
    failure: float = 0.05,
    releases: int | None = None,
    statistic: str = "any",
    threshold: float = 0.8,
) -> str:
    """A text about a guarantee, a recommendation, a verdict or an audit; paragraphs separated by a blank line.

    Parameters
    ----------
    subject : a `Guarantee` (or `PrivacyLoss`), a `Recommendation`, a `RiskProfile` (its recommendation is told), a
        `Verdict`, or the DataTree of an `audit`
    audience : "lay" (also "respondent"): no symbols; "regulator": numbers in percent, no formulas; "technical" (also
        "curator"): definitions, formulas, worst case
    topic : of a guarantee "guarantee", "pure or approximate" or "composition", and without one the first, with the last
        where `releases` is given; of a recommendation or profile "budget", or those of a guarantee for the pure DP it
        recommends; of a verdict "budget"; of an audit "audit"
    priors : where readers start, in [0, 1]; a few usual ones unless told
    failure : probability, in [0, 1), with which a limit may fail that is not certain
    releases : how many releases with this guarantee each are to be told of together
    statistic : of a `RiskProfile`, as in `recommend_epsilon`
    threshold : belief in (0, 1) of which is told after how many releases it may be passed, by a reader who starts at
        the first of `priors`, or at 1/2

    Raises
    ------
    ValueError, TypeError : naming the argument, the rule and the value

    >>> explain(PureDP(1.0)).split("\\n\\n")[1].split(". ")[1]
    'Someone who starts at 50 in 100 ends no lower than 26 and no higher than 74 in 100.'
    """
    who = check_word("audience", ALSO.get(audience, audience), AUDIENCES)
    if topic is not None:
        check_word("topic", topic, TOPICS)
    starts = None if priors is None else [float(p) for p in np.ravel(check_probability("priors", priors))]
    options = _Options(who, starts or None, _share("failure", failure, zero=True), _share("threshold", threshold))
    check_statistic(statistic)
    if isinstance(subject, RiskProfile):
        subject = recommend_epsilon(subject, statistic=statistic)
    return "\n\n".join(options.paragraphs(subject, topic, releases))


def explanations(subject: Any, **options: Any) -> dict[str, str]:
    """The text of `explain` for every audience, by its name; options as there."""
    if isinstance(subject, RiskProfile):
        subject = recommend_epsilon(subject, statistic=options.get("statistic", "any"))
    return {audience: explain(subject, audience, **options) for audience in AUDIENCES}


def _fitting(topic: str | None, topics: Sequence[str], subject: str) -> str | None:
    if topic is not None and topic not in topics:
        raise ValueError(f"topic of {subject} must be one of {', '.join(map(repr, topics))}, got {topic!r}")
    return topic


def _recommended(found: Recommendation) -> Guarantee:
    """The pure DP that is recommended."""
    if found.status != BOUNDED or not found.epsilon > 0.0:
        raise ValueError(f"there is no recommended guarantee to explain, the recommendation is {found.status}")
    return PureDP(found.epsilon)


def _audited(tree: xr.DataTree) -> xr.DataTree:
    if missing := [name for name in ("risk", "bound") if name not in tree.children]:
        raise ValueError(f"the tree is not an audit: it has no group {missing[0]!r}")
    return tree


def _share(name: str, x: Any, *, zero: bool = False) -> float:
    """A probability below 1, and above 0 unless zero is allowed."""
    p = float(check_probability(name, one_number(name, x)))
    if p == 1.0 or (p == 0.0 and not zero):
        raise ValueError(f"{name} must be in {'[' if zero else '('}0, 1), got {p:g}")
    return p
