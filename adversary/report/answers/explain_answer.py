"""Answer of `adversary explain`, and the explanations of a report: texts of `report.words` about several subjects.

A scenario has several subjects: every guarantee (or the noise, without one), its risk profile, the verdict on that, and
the audit. Each is a `Subject` with the topics that fit it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from adversary import budget
from adversary._core import DEFAULT_FAILURE, error_text, percent, percentage
from adversary.adversaries.path import settle_truth
from adversary.driver import OWN
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.definitions import NoPrivacy, PureDP
from adversary.report import plot
from adversary.report.answers import bounds_answer
from adversary.report.files import ProfileFile, Scenario
from adversary.report.kit import (
    LEFT_OUT,
    Card,
    Document,
    Figure,
    Section,
    Summary,
    attempt,
    audit_words,
    guarded_document,
    left_out,
    profile_verdict,
)
from adversary.report.sections import descriptions
from adversary.report.words import ALSO, AUDIENCES, OF_GUARANTEES, TOPICS, explain, is_usual, unit_notes

EVERYONE = "all"

# Heading of a text, by its audience.
FOR = {"lay": "For the person in the data", "regulator": "For a regulator", "technical": "For whoever keeps the data"}

# Audiences whose texts the report has.
ON_THE_PAGE = ("lay", "technical")

# Largest failure probability of a text, the double below 1: a bound that may fail with certainty is none.
BELOW_ONE = 1.0 - 2.0**-53


# Options that a text on a topic uses.
USES: dict[str, frozenset[str]] = {
    "guarantee": frozenset({"priors", "failure"}),
    "pure or approximate": frozenset({"failure"}),
    "composition": frozenset({"releases", "priors", "failure"}),
    "audit": frozenset({"failure"}),
    "budget": frozenset({"priors"}),
    "tolerance": frozenset({"priors"}),
}


@dataclass(frozen=True)
class Subject:
    """Subject of an explanation.

    Parameters
    ----------
    name : in JSON
    title : heading of its text
    thing : the guarantee, recommendation, release budget, verdict or audit, as `explain` takes it
    topics : that fit it
    kept : False for a guarantee that the noise violates
    uses : further options that the thing was made with
    failure : failure probability of a release budget, in place of that of the request
    guaranteed : heading under the topics of a guarantee, "" for the title
    """

    name: str
    title: str
    thing: Any
    topics: tuple[str, ...]
    kept: bool = True
    uses: frozenset[str] = frozenset()
    failure: float | None = None
    guaranteed: str = ""

    def heading(self, topic: str | None) -> str:
        """Heading of its text on a topic."""
        return self.guaranteed if self.guaranteed and topic in OF_GUARANTEES else self.title

    def takes(self, topic: str | None) -> frozenset[str]:
        """Options that its text on a topic uses."""
        usable = [one for one in self.topics if one == topic]
        if topic is None:
            usable = ["guarantee", "composition"] if self.topics == OF_GUARANTEES else [self.topics[0]]
        return self.uses.union(*(USES[one] for one in usable))


@dataclass(frozen=True)
class ExplainRequest:
    """Options of an explanation, as `report.words.explain` documents them; None if not given.

    `given` are the names of the options on the command line, and `unit` is the privacy unit.
    """

    audience: str = "lay"
    topic: str | None = None
    priors: Sequence[float] | None = None
    failure: float | None = None
    releases: int | None = None
    given: tuple[str, ...] = ()
    unit: PrivacyUnit | None = None

    @property
    def audiences(self) -> tuple[str, ...]:
        """Audience requested, under its main name ("lay" for "respondent"), or all; ValueError for an unknown name."""
        if self.audience == EVERYONE:
            return AUDIENCES
        return (ALSO.get(budget.check_word("audience", self.audience, (*AUDIENCES, *ALSO, EVERYONE)), self.audience),)

    def text(self, subject: Subject, audience: str) -> str:
        """Text about a subject for an audience."""
        topic = "tolerance" if subject.topics == ONLY_TOLERATED else self.topic
        made = isinstance(subject.thing, budget.ReleaseBudget)
        options: dict[str, Any] = {
            "topic": topic,
            "priors": self.priors,
            "failure": subject.failure if made else self.failure,
        }
        releases = None if made else self.releases
        if releases is None and self.unit is not None and self.unit.periods > 1 and subject.topics == OF_GUARANTEES:
            releases = self.unit.periods
        return explain(subject.thing, audience, **options, releases=releases, kept=subject.kept, privacy_unit=self.unit)


# Topics of a profile whose text is about the tolerance alone, since a verdict, or guarantees, are subjects too.
ONLY_TOLERATED = ("budget", "tolerance")


def guarantee_subject(guarantee: Guarantee, name: str, true: bool = True) -> Subject:
    """Subject of a guarantee; `true` says whether the noise satisfies it."""
    broken = "" if true else ", which the noise does not keep"
    return Subject(name, f"What {name} guarantees{broken}", guarantee, OF_GUARANTEES, true)


def scenario_subjects(scenario: Scenario, tree: xr.DataTree | None, failure: float) -> list[Subject]:
    """Subjects of a scenario: its guarantees, its profile and the verdict on that, and its audit if there is one.

    The privacy loss of the noise is a subject if there is no guarantee, or one that the noise violates.
    """
    guarantees, loss = scenario.guarantee or {}, scenario.plan.unit_loss()
    true = {name: one.is_satisfied_by(loss) for name, one in guarantees.items()}
    subjects = [guarantee_subject(one, name, true[name]) for name, one in guarantees.items()]
    if not all(true.values()) or not guarantees:
        unit = scenario.plan.privacy_unit
        whole = "" if is_usual(unit, scenario.plan.contribution) else f" for one {unit.name}, in all its numbers"
        subjects.append(Subject(OWN, f"What the noise itself delivers{whole}", loss, OF_GUARANTEES))
    subjects += _scenario_profile_subjects(scenario, failure)
    return subjects if tree is None else [*subjects, Subject("audit", "What the audit found", tree, ("audit",))]


def _scenario_profile_subjects(scenario: Scenario, failure: float) -> list[Subject]:
    """Subjects of a scenario's profile: the tolerance, and the verdict on the noise; none without a profile."""
    if scenario.profile is None:
        return []
    best = budget.recommend_epsilon(scenario.profile, statistic=scenario.statistic)
    subjects = [Subject("profile", "The risk that is tolerated", best, ONLY_TOLERATED)]
    # a verdict is about guarantees, and none covers an exact level
    if budget.has_exact(scenario.plan):
        return subjects
    own = budget.own_verdict(scenario.plan, scenario.profile, failure, scenario.statistic)
    return [*subjects, Subject("verdict", "Whether the noise keeps it", own, ("budget",), uses=frozenset({"failure"}))]


def profile_subjects(file: ProfileFile, *, releases: int | None, others: bool) -> list[Subject]:
    """Subjects of a profile file: every profile, and release budgets that satisfy it.

    Parameters
    ----------
    file : with the profiles
    releases : number of releases of each budget; None for the recommendation alone
    others : include budgets of definitions that may fail
    """
    subjects = []
    for name, profile in file.profiles.items():
        best = budget.recommend_epsilon(profile, statistic=file.statistic, round_down=file.round_down)
        bounded = best.status == budget.BOUNDED
        alone = ("budget", *(OF_GUARANTEES if bounded else ()), "tolerance")
        topics = alone if releases is None else ONLY_TOLERATED
        named = f": {name}" if name else ""
        largest = f"What pure DP with the largest epsilon that keeps the profile would guarantee{named}"
        subjects.append(
            Subject(name or "profile", f"The risk that is tolerated{named}", best, topics, guaranteed=largest)
        )
        if bounded:
            for made in _release_budgets(file, best, releases, others):
                each = f" in each of {made.releases:,} releases" if made.releases > 1 else ""
                subjects.append(
                    Subject(
                        f"{name or 'profile'}, {made.definition}",
                        f"How {made.definition}{each} would keep it{named}",
                        made,
                        ("budget", *OF_GUARANTEES) if made.guarantee is not None else ("budget",),
                        uses=frozenset({"failure", "releases"}),
                        failure=min(file.failure, BELOW_ONE),
                    )
                )
    return subjects


def _release_budgets(
    file: ProfileFile, best: budget.Recommendation, releases: int | None, others: bool
) -> list[budget.ReleaseBudget]:
    """Release budgets for a recommendation: pure DP, which is certain, and with `others` definitions that may fail."""
    n, failure = releases or 1, file.failure
    budgets = [] if releases is None else [budget.allocate(best, "pure DP", releases=n, composition="basic")]
    if others and 0.0 < failure < 1.0:
        if file.delta < failure:
            budgets.append(budget.allocate(best, "approximate DP", failure=failure, delta=file.delta, releases=n))
        budgets.append(budget.allocate(best, "zCDP", failure=failure, releases=n))
    return budgets


def notes(scenario: Scenario, tree: xr.DataTree | None = None) -> list[str]:
    """Notes that texts about a scenario lack: neighbours, adversaries that are not covered, the assumed truth."""
    plan = scenario.plan
    lines = unit_notes(plan.privacy_unit, plan.contribution, scenario.is_local)
    if names := profile_verdict.dependent_adversaries(scenario):
        lines.append(
            f"{profile_verdict.depends(names)} The limits told here are not about such beliefs: for them a guarantee "
            f"has to stretch over up to {max(names.values())} people, as it does where the audit is told."
        )
        if scenario.profile is not None:
            lines.append(NOT_OF_PROFILE)
    if tree is not None:
        for name, one, _ in audit_words.cases(scenario, tree):
            target = settle_truth(one.plan, next(iter(one.adversaries.values())), one.truth).target
            lines.append(f"{f'Under truth “{name}”: ' if name else ''}{descriptions.truth(one, target)}")
    return lines


NOT_OF_PROFILE = (
    "Nor is the profile about such beliefs: a release may take them further than it tolerates though it is kept."
)


def solve(
    title: str,
    subjects: Sequence[Subject],
    request: ExplainRequest,
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    about: Sequence[str] = (),
) -> xr.DataTree:
    """Tree of explanations: group `texts` with `title` (subject) and `text` (subject, audience).

    Paragraphs have blank lines between them. If a guarantee is explained, groups `beliefs` and `any_prior` have its
    bounds, and the verdict is the largest rise.

    Parameters
    ----------
    title : of the answer
    subjects : to explain, as far as the topic fits them
    request : options
    notes, warnings, about : attributes and cautions: notes on all texts, warnings, and the file's description

    Raises
    ------
    ValueError : a topic that fits no subject, or an option that no text uses
    """
    fitting = subjects
    if request.topic is not None:
        budget.check_word("topic", request.topic, TOPICS)
        budget.check_word(
            "topic", request.topic, tuple(dict.fromkeys(topic for one in subjects for topic in one.topics))
        )
        fitting = [one for one in subjects if request.topic in one.topics]
    _all_used(fitting, request)
    audiences = request.audiences
    texts = np.full((len(fitting), len(audiences)), "", dtype=object)
    failed: dict[str, Exception] = {}
    for place in np.ndindex(*texts.shape):
        one, audience = fitting[place[0]], audiences[place[1]]
        try:
            texts[place] = request.text(one, audience)
        except Exception as error:
            failed[f"{one.title}. {FOR[audience]}"] = error
    if failed and len(failed) == texts.size:
        raise next(iter(failed.values()))
    shown = xr.Dataset(
        {
            "title": ("subject", [one.heading(request.topic) for one in fitting]),
            "text": (("subject", "audience"), texts),
        },
        {"subject": [one.name for one in fitting], "audience": list(audiences)},
    )
    tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs={"topic": request.topic or "all"}), "texts": shown})
    if failed:
        tree.attrs[LEFT_OUT] = json.dumps({title: error_text(error) for title, error in failed.items()})
    tree.attrs.update(title=title, notes="\n\n".join(notes), about="\n\n".join(about))
    return Summary(title, ["texts"], _limits(tree, fitting, request), warnings=warnings).on(tree)


def _limits(tree: xr.DataTree, subjects: Sequence[Subject], request: ExplainRequest) -> str:
    """Add bounds on beliefs by the first satisfied guarantee, or else the profile, to the tree; return their verdict.

    Without such a guarantee nothing is added, and the verdict is "".
    """
    limiting = [(one, guarantee) for one in subjects if (guarantee := _guarantee_of(one)) is not None]
    profiles = [one for one, _ in limiting if isinstance(one.thing, budget.Recommendation)]
    # several profiles are alternatives, so that no single one is the file's
    if not limiting or len(profiles) > 1:
        return ""
    subject, guarantee = limiting[0]
    failure = DEFAULT_FAILURE if request.failure is None else request.failure
    bounds = bounds_answer.beliefs(guarantee, request.priors or bounds_answer.PRIORS, failure)
    for name in ("beliefs", "any_prior"):
        tree[name] = xr.DataTree(bounds[name])
    together = ", in all releases together" if profiles == [subject] else ""
    period = " of one period" if request.unit is not None and request.unit.periods > 1 else ""
    whose = f"{subject.heading('guarantee')}{period}{together}"
    believed = "adversary whose beliefs about everybody else do not depend on the person"
    tree.attrs["limits"] = f"{whose}: limits on every {believed}."
    return bounds_answer.verdict(bounds["beliefs"])


def _guarantee_of(subject: Subject) -> Guarantee | None:
    """Guarantee of a subject if the noise satisfies it, or pure DP with a profile's largest epsilon; else None."""
    thing = subject.thing
    if isinstance(thing, budget.Recommendation):
        return PureDP(thing.epsilon) if thing.status == budget.BOUNDED else None
    return thing if isinstance(thing, Guarantee) and subject.kept else None


def _card(tree: xr.DataTree) -> Card | None:
    """Card with the largest posterior from each prior, and the figure of all priors; None without bounds."""
    if "beliefs" not in tree.children:
        return None
    limits, loss = tree["beliefs"].to_dataset(), float(tree["any_prior"]["loss_bound"])
    upper = limits["posterior"].sel(side="upper")
    within = PureDP(loss) if np.isfinite(loss) else NoPrivacy()
    priors, chance = limits["prior"].values.tolist(), float(limits.attrs["failure"])
    figure = Figure(
        "posterior_by_prior",
        lambda: plot.posterior_by_prior(within, chance, priors),
        "Range of posteriors that the guarantee allows at each prior.",
    )
    numbers = [
        (f"a prior of {percent(prior)} rises to", f"at most {percentage(float(most), True)}")
        for prior, most in zip(priors, upper.values, strict=True)
    ]
    return Card(numbers, figure, str(tree.attrs["limits"]))


@guarded_document
def document(tree: xr.DataTree) -> Document:
    """Document of the explanations: a section for each subject and audience, after the notes."""
    shown, missing = tree["texts"].to_dataset(), left_out(tree)
    sections: list[Section] = []
    for name in shown["subject"].values:
        one = shown.sel(subject=name)
        head = str(one["title"].item())
        texts = {str(who): str(one["text"].sel(audience=who).item()) for who in one["audience"].values}
        parts = [_text_section(head, who, text, missing, alone=len(texts) == 1) for who, text in texts.items()]
        sections += parts if len(texts) == 1 else [Section(head, parts=parts)]
    lead = [line for name in ("about", "notes") for line in tree.attrs[name].split("\n\n") if line]
    return Document(tree, _card(tree), lead=lead, sections=sections)


def _text_section(head: str, who: str, text: str, missing: dict[str, str], *, alone: bool) -> Section:
    """Section with a text, or the error if it failed; with `alone`, for a single audience, its heading names both."""
    whole = f"{head}. {FOR[who]}"
    why = missing.get(whole, "")
    return Section(whole if alone else FOR[who], paragraphs=[] if why else text.split("\n\n"), failure=why)


def _all_used(subjects: Sequence[Subject], request: ExplainRequest) -> None:
    """ValueError for an option that was given and that no text uses."""
    used = frozenset[str]().union(*(one.takes(request.topic) for one in subjects))
    for name in request.given:
        if name not in used:
            what = f"topic {request.topic!r}" if request.topic else "what is told"
            raise ValueError(f"--{NAMES.get(name, name)} does not apply to {what} here: leave it out")


# Options that go by another name on the command line.
NAMES = {"priors": "prior"}


def page(scenario: Scenario, tree: xr.DataTree) -> list[Section]:
    """Explanations of the report: a folded section for each subject and audience."""
    failure = min(float(tree.attrs.get("failure", scenario.failure)), BELOW_ONE)
    request = ExplainRequest(
        failure=failure if "failure" in scenario.document or failure != DEFAULT_FAILURE else None,
        unit=scenario.plan.privacy_unit,
    )

    def text(title: str, one: Subject, audience: str) -> Section:
        return Section(title, paragraphs=request.text(one, audience).split("\n\n"), folded=True)

    every = scenario_subjects(scenario, tree, failure)
    asked_of = [(f"{one.title}. {FOR[audience]}", one, audience) for one in every for audience in ON_THE_PAGE]
    return [attempt(title, text, title, one, audience) for title, one, audience in asked_of]
