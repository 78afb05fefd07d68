"""Explanations of guarantees, recommendations, budgets, verdicts and audits, for the lay, regulators and experts.

They cover the limits of a guarantee and its failures, several releases together, the choice of an epsilon, the verdict
on a release budget, and the results of an audit. Numbers are those of the library's own functions; bounds are rounded
outward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from adversary._core import check_probability, check_whole, failure_of, one_number
from adversary.budget import (
    BOUNDED,
    STATISTICS,
    Recommendation,
    ReleaseBudget,
    RiskProfile,
    Verdict,
    check_word,
    recommend_epsilon,
)
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.definitions import PureDP
from adversary.report.words import audit_facts, budget_facts, guarantee_facts
from adversary.report.words.belief_limits import limits_of, usual_failure
from adversary.report.words.guarantee_facts import paragraphs

AUDIENCES = ("lay", "regulator", "technical")

# Other names of audiences.
ALSO = {"respondent": "lay", "curator": "technical"}

TOPICS = ("guarantee", "pure or approximate", "composition", "audit", "budget", "tolerance")
OF_GUARANTEES = TOPICS[:3]


# Completes "the largest ..." about a recommended guarantee.
KEEPS = "that keeps the profile"


@dataclass(frozen=True)
class _Options:
    """Options of an explanation: its audience, and the numbers to state, as `explain` documents them.

    `budgeted` completes "the largest ..." if the guarantee follows from a budget.
    """

    audience: str
    priors: list[float] | None
    failure: float | None
    threshold: float
    kept: bool
    unit: PrivacyUnit | None = None
    budgeted: str = ""

    def topic_paragraphs(self, topic: str, facts: dict[str, Any]) -> Iterator[str]:
        """Paragraphs of a topic from its facts, with the privacy unit's name for a record."""
        yield from paragraphs(self.audience, topic, facts | guarantee_facts.record_words(self.unit))

    def texts(self, subject: Any, topic: str | None, releases: int | None) -> Iterator[str]:
        """Paragraphs about a subject of any kind; ValueError for a topic that does not fit it."""
        match subject:
            case Guarantee():
                yield from self._guarantee_paragraphs(subject, _fitting(topic, OF_GUARANTEES, "a guarantee"), releases)
            case Recommendation() if topic in OF_GUARANTEES:
                if subject.status != BOUNDED:
                    raise ValueError(
                        f"there is no recommended guarantee to explain, the recommendation is {subject.status}"
                    )
                pure = PureDP(budget_facts.without_rounding(subject).epsilon)
                yield from replace(self, budgeted=KEEPS)._guarantee_paragraphs(pure, topic, releases)
            case Recommendation():
                _fitting(topic, ("budget", "tolerance", *OF_GUARANTEES), "a recommendation")
                facts = budget_facts.recommendation_facts(subject, self.audience, self.priors)
                yield from self.topic_paragraphs(topic or "budget", facts)
            case ReleaseBudget():
                _fitting(topic, ("budget", *OF_GUARANTEES), "a release budget")
                yield from self._release_budget_paragraphs(subject, topic, releases)
            case Verdict():
                _fitting(topic, ("budget",), "a verdict")
                yield from self.topic_paragraphs("verdict", budget_facts.verdict_facts(subject, self.audience))
            case xr.DataTree():
                _fitting(topic, ("audit",), "an audit")
                if missing := [name for name in ("risk", "bound") if name not in subject.children]:
                    raise ValueError(f"the tree is not an audit: it has no group {missing[0]!r}")
                facts = audit_facts.facts_of_audit(subject, self.audience)
                yield from self.topic_paragraphs("audit", facts)
            case _:
                raise TypeError(
                    "subject must be a Guarantee, a Recommendation, a RiskProfile, a ReleaseBudget, a Verdict or the "
                    f"DataTree of an audit, got {type(subject).__name__}"
                )

    def _guarantee_paragraphs(self, guarantee: Guarantee, topic: str | None, releases: int | None) -> Iterator[str]:
        """Paragraphs about a guarantee: one release, several together, or both."""
        if topic == "composition" and releases is None:
            raise ValueError("composition needs releases, the number of releases with this guarantee each")
        who = self.audience
        if not self.kept:
            yield from self.topic_paragraphs("not kept", guarantee_facts.names_of(guarantee))
            return
        if topic != "composition":
            limits = limits_of(guarantee, self._failure(guarantee))
            facts = guarantee_facts.guarantee_facts_of(guarantee, who, limits, self.priors, self.budgeted)
            yield from self.topic_paragraphs(topic or "guarantee", facts)
        if topic == "composition" or (topic is None and releases is not None):
            number = int(check_whole("releases", releases, minimum=1))
            prior = self.priors[0] if self.priors else 0.5
            failure = self._failure(guarantee, number)
            facts = guarantee_facts.composition_facts(
                guarantee, who, number, failure, prior, self.threshold, self.budgeted
            )
            yield from self.topic_paragraphs("composition", facts)

    def _failure(self, guarantee: Guarantee, releases: int = 1) -> float:
        """The given failure probability, or one that suits the guarantee."""
        return usual_failure(guarantee, releases) if self.failure is None else self.failure

    def _release_budget_paragraphs(self, made: ReleaseBudget, topic: str | None, releases: int | None) -> Iterator[str]:
        """Paragraphs about a release budget; on a topic of guarantees, about one release and all of them together."""
        if releases not in (None, made.releases):
            raise ValueError(f"releases of a ReleaseBudget are its own, {made.releases}, got {releases}")
        if topic not in OF_GUARANTEES:
            facts = budget_facts.release_budget_facts(made, self.audience, self.priors)
            yield from self.topic_paragraphs("release budget", facts)
            return
        one = budget_facts.unrounded_budget(made)
        if one.guarantee is None:
            raise ValueError(f"there is no guarantee to explain, the release budget is {made.status}")
        options = replace(self, failure=made.failure or None) if self.failure is None else self
        together = f"with which {made.releases:,} releases together keep the profile" if made.releases > 1 else KEEPS
        options = replace(options, budgeted=f"{together} {failure_of(made.failure)}")
        several = made.releases if made.releases > 1 or topic == "composition" else None
        if topic == "pure or approximate":
            yield from options._guarantee_paragraphs(one.guarantee, topic, None)
        else:
            yield from options._guarantee_paragraphs(one.guarantee, None if topic == "guarantee" else topic, several)


def explain(
    subject: Any,
    audience: str = "lay",
    *,
    topic: str | None = None,
    priors: ArrayLike | None = None,
    failure: float | None = None,
    releases: int | None = None,
    statistic: str = "any",
    threshold: float = 0.8,
    kept: bool = True,
    privacy_unit: PrivacyUnit | None = None,
) -> str:
    """Text about a guarantee, recommendation, release budget, verdict or audit; a blank line between paragraphs.

    Parameters
    ----------
    subject : a `Guarantee` (or `PrivacyLoss`), a `Recommendation`, a `RiskProfile` (for its recommendation), a
        `ReleaseBudget` of one or several releases, a `Verdict`, or the DataTree of an `audit`
    audience : "lay" (also "respondent"): no symbols; "regulator": numbers in percent, no formulas; "technical" (also
        "curator"): definitions, formulas, worst case
    topic : for a guarantee "guarantee", "pure or approximate" or "composition", by default the first, and the last too
        if `releases` is given; for a recommendation or profile "budget" (the effect of a release with that epsilon),
        "tolerance" (the tolerated risk, without any release), or those of a guarantee, for the recommended pure DP; for
        a release budget "budget", or those of a guarantee, for each release and for all; for a verdict "budget"; for an
        audit "audit"
    priors : of adversaries, in [0, 1]; a few usual ones if None
    failure : failure probability, in [0, 1), of limits that are not certain; if None the default, or a smaller one at
        which nearly the same limit holds; of a `ReleaseBudget` its own
    releases : number of releases, each with this guarantee, that are described together
    statistic : of a `RiskProfile`, as in `recommend_epsilon`
    threshold : belief in (0, 1); the text states the number of releases after which an adversary with the first of
        `priors`, or 1/2, may exceed it
    kept : whether the release satisfies the guarantee; otherwise the text says only that it does not
    privacy_unit : whose data the guarantee protects, for its name in the text; a person unless given

    Returns
    -------
    str, paragraphs separated by blank lines

    Raises
    ------
    ValueError, TypeError : naming the argument, the rule and the value

    >>> explain(PureDP(1.0)).split("\\n\\n")[1].split(". ")[1]
    'Someone who starts at 50 in 100 ends no lower than 26.8 and no higher than 73.2 in 100.'
    """
    who = check_word("audience", ALSO.get(audience, audience), AUDIENCES)
    if topic is not None:
        check_word("topic", topic, TOPICS)
    starts = None if priors is None else [float(p) for p in np.ravel(check_probability("priors", priors))]
    chance = None if failure is None else _share("failure", failure, zero=True)
    options = _Options(who, starts or None, chance, _share("threshold", threshold), kept, privacy_unit)
    check_word("statistic", statistic, STATISTICS)
    if isinstance(subject, RiskProfile):
        subject = recommend_epsilon(subject, statistic=statistic)
    return "\n\n".join(options.texts(subject, topic, releases))


def _fitting(topic: str | None, topics: Sequence[str], subject: str) -> str | None:
    """The topic, None for the default one; ValueError for one that does not fit the subject."""
    if topic is not None and topic not in topics:
        raise ValueError(f"topic of {subject} must be one of {', '.join(map(repr, topics))}, got {topic!r}")
    return topic


def _share(name: str, x: Any, *, zero: bool = False) -> float:
    """A probability below 1, and above 0 unless zero is allowed."""
    p = float(check_probability(name, one_number(name, x)))
    if p == 1.0 or (p == 0.0 and not zero):
        raise ValueError(f"{name} must be in {'[' if zero else '('}0, 1), got {p:g}")
    return p
