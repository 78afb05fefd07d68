"""What `adversary explain` and the report say in words: the texts of `policy.explain`, about a file or a promise.

A scenario has several things to explain: every promise it makes (or, without one, what its noise delivers), the risk it
tolerates, whether that is kept, and what the audit found. Each is a `Subject` with the topics that fit it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import xarray as xr
from rich.console import Console
from rich.text import Text

from adversary.desk import profile_verdicts
from adversary.desk.profile_files import ProfileFile
from adversary.desk.scenarios import Scenario
from adversary.driver import OWN
from adversary.policy.explain import ALSO, AUDIENCES, OF_GUARANTEES, TOPICS, explain
from adversary.policy.recommendations import BOUNDED, recommend_epsilon
from adversary.policy.risks import check_word
from adversary.privacy.guarantees import Guarantee

EVERYONE = "all"
FOR = {"lay": "For the person in the data", "regulator": "For a regulator", "technical": "For whoever keeps the data"}
"""What a text is called, by its audience."""

ON_THE_PAGE = ("lay", "technical")
"""Audiences whose texts the report has."""

_BELOW_ONE = 1.0 - 2.0**-53
"""The largest failure a text can speak of."""


@dataclass(frozen=True)
class Subject:
    """Something to explain: what it is called in JSON and as a heading, and the topics that fit it."""

    name: str
    title: str
    thing: Any
    topics: tuple[str, ...]


@dataclass(frozen=True)
class Asked:
    """To whom to explain, and of what numbers; the options of `policy.explain.explain`."""

    audience: str = "lay"
    topic: str | None = None
    priors: Sequence[float] | None = None
    failure: float = 0.05
    releases: int | None = None

    @property
    def audiences(self) -> tuple[str, ...]:
        """One audience by its first name, or all of them."""
        if self.audience == EVERYONE:
            return AUDIENCES
        return (ALSO.get(check_word("audience", self.audience, (*AUDIENCES, *ALSO, EVERYONE)), self.audience),)

    def text(self, subject: Subject, audience: str) -> str:
        """One text."""
        options: dict[str, Any] = {"topic": self.topic, "priors": self.priors, "failure": self.failure}
        return explain(subject.thing, audience, **options, releases=self.releases)


def of_guarantee(guarantee: Guarantee, name: str, true: bool = True) -> Subject:
    """A promise, and whether the noise keeps it."""
    kept = "" if true else ", which the noise does not keep"
    return Subject(name, f"What {name} promises{kept}", guarantee, OF_GUARANTEES)


def of_scenario(scenario: Scenario, tree: xr.DataTree | None, failure: float) -> list[Subject]:
    """The promises of a scenario, its profile if it has one, and, where there is one, its audit."""
    if scenario.guarantee is None:
        found = [Subject(OWN, "What the noise itself delivers", scenario.plan.privacy_loss(), OF_GUARANTEES)]
    else:
        false = set() if tree is None else _violated(tree)
        found = [of_guarantee(one, name, name not in false) for name, one in scenario.guarantee.items()]
    found += _of_profile(scenario, failure)
    return found if tree is None else [*found, Subject("audit", "What the audit found", tree, ("audit",))]


def _violated(tree: xr.DataTree) -> set[str]:
    """Promises that the noise does not keep."""
    status = tree["bound"].to_dataset()["status"]
    return {str(name) for name in status["definition"].values if (status.sel(definition=name) == "violated").any()}


def _of_profile(scenario: Scenario, failure: float) -> list[Subject]:
    """The profile of a scenario, and the verdict that settles whether it is kept."""
    if scenario.profile is None:
        return []
    best = recommend_epsilon(scenario.profile, statistic=scenario.statistic)
    found = [Subject("profile", "The risk that is tolerated", best, ("budget",))]
    if profile_verdicts.has_exact(scenario.plan):  # a verdict speaks of promises, and none covers what is exact
        return found
    own = profile_verdicts.judgements(scenario, failure)[OWN]
    return [*found, Subject("verdict", "Whether the noise keeps it", own, ("budget",))]


def of_profiles(file: ProfileFile) -> list[Subject]:
    """The profiles of a file, with the pure DP that each recommends."""
    found = []
    for name, profile in file.profiles.items():
        best = recommend_epsilon(profile, statistic=file.statistic, round_down=file.round_down)
        promised = OF_GUARANTEES if best.status == BOUNDED and best.epsilon > 0.0 else ()
        title = f"The risk that is tolerated{f': {name}' if name else ''}"
        found.append(Subject(name or "profile", title, best, ("budget", *promised)))
    return found


def notes(scenario: Scenario) -> list[str]:
    """What the texts about a scenario leave to be said: which neighbours its promises are about."""
    return [REPLACED] if scenario.neighbours == "bounded" else []


REPLACED = (
    "The promises of this scenario are about a record that is replaced by another. Where a text speaks of data that "
    "are used or not, of a record that is in the data or not, read: data that say one thing or another."
)


def answer(title: str, subjects: Sequence[Subject], asked: Asked, notes: Sequence[str] = ()) -> dict[str, Any]:
    """Every text as one JSON object, by subject and audience; of those subjects that the topic fits.

    Parameters
    ----------
    notes : what holds for all of them

    Raises
    ------
    ValueError : the topic or the audience is unknown, or the topic fits nothing here
    """
    fitting = subjects
    if asked.topic is not None:
        check_word("topic", asked.topic, TOPICS)
        check_word("topic", asked.topic, tuple(dict.fromkeys(topic for one in subjects for topic in one.topics)))
        fitting = [one for one in subjects if asked.topic in one.topics]
    return {
        "title": title,
        "topic": asked.topic,
        "notes": list(notes),
        "texts": {
            one.name: {"title": one.title, **{audience: asked.text(one, audience) for audience in asked.audiences}}
            for one in fitting
        },
    }


def show(found: dict[str, Any], console: Console) -> None:
    """The texts of an `answer`, under the names of what they are about and for whom they are."""
    console.print(Text(found["title"], style="bold"))
    for note in found["notes"]:
        console.print(Text(note))
    for texts in found["texts"].values():
        for audience in (one for one in AUDIENCES if one in texts):
            console.print()
            console.print(Text(f"{texts['title']}. {FOR[audience]}", style="bold"))
            for paragraph in texts[audience].split("\n\n"):
                console.print(Text(f"\n{paragraph}"))


def page(scenario: Scenario, tree: xr.DataTree) -> list[dict[str, Any]]:
    """What the report explains: each subject with its title and, for each audience, the paragraphs."""
    failure = min(float(tree.attrs.get("failure", scenario.failure)), _BELOW_ONE)
    asked = Asked(failure=failure)
    return [
        {
            "title": one.title,
            "texts": [
                {"audience": FOR[audience], "paragraphs": asked.text(one, audience).split("\n\n")}
                for audience in ON_THE_PAGE
            ],
        }
        for one in of_scenario(scenario, tree, failure)
    ]
