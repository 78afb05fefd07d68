"""`adversary explain`: a guarantee, a scenario or a tolerated risk in words, for whoever must trust the numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from adversary._core import DEFAULT_FAILURE, check_probability
from adversary.driver import audit
from adversary.report.answers import EVERYONE, ExplainRequest, bounds_answer, explain_answer
from adversary.report.commands.options import SEED, Epsilon, Mu, Rho, Truths, answering, guarantee_of, read_scenario
from adversary.report.files import KINDS, Scenario, check_releases, load_guarantee, load_profile_file, read_toml
from adversary.report.files.kinds import ABOUT
from adversary.report.kit import Answer, audit_words
from adversary.report.words import AUDIENCES, TOPICS, unit_notes


@answering("file")
def explain_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="Scenario, profile or guarantee file (TOML).", metavar="FILE.toml"),
    ] = None,
    audience: Annotated[str, typer.Option(help=f"For whom: {', '.join((*AUDIENCES, EVERYONE))}.")] = AUDIENCES[0],
    topic: Annotated[str | None, typer.Option(help=f"Of what, of these: {', '.join(TOPICS)}.")] = None,
    epsilon: Epsilon = None,
    delta: Annotated[float | None, typer.Option(help="With --epsilon: its delta.", metavar="NUMBER")] = None,
    rho: Rho = None,
    mu: Mu = None,
    prior: Annotated[
        list[float] | None,
        typer.Option(help="Where an adversary starts, such as 0.1 or 1/864; may be repeated.", metavar="P"),
    ] = None,
    failure: Annotated[
        float | None,
        typer.Option(help="Probability with which a limit may fail that is not certain; else the file's.", metavar="P"),
    ] = None,
    releases: Annotated[
        int | None, typer.Option(help="Tell of so many releases together, each with the guarantee.", metavar="K")
    ] = None,
    truth: Truths = None,
) -> Answer:
    """What a guarantee, a tolerated risk or an audit means, in words."""
    given = {"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}
    numbers = {name: x for name, x in given.items() if x is not None}
    options = {"priors": prior or None, "failure": failure, "releases": releases}
    used = tuple(name for name, value in options.items() if value is not None)
    request = ExplainRequest(audience, topic, prior or None, failure, releases, used)
    if (file is None) != bool(numbers):
        what = "both" if numbers else "neither"
        raise ValueError(f"give either a file or one of --epsilon, --rho and --mu, got {what}")
    kind = "" if file is None else _kind(file)
    scenario = kind == "scenario"
    if truth and not scenario:
        raise ValueError("--truth replaces a count of a scenario file, and there is none")
    if file is None:
        return _guarantee_answer(numbers, request)
    if kind == "guarantee":
        return _guarantee_file_answer(file, request)
    return _scenario_answer(read_scenario(file, truth), request) if scenario else _profiles_answer(file, request)


def _guarantee_answer(numbers: dict[str, float], request: ExplainRequest) -> Answer:
    """Answer about a guarantee given by options."""
    names = [name for name in numbers if name != "delta"]
    if "delta" in numbers and names != ["epsilon"]:
        others = " and ".join(f"--{name}" for name in names if name != "epsilon") or "nothing"
        raise ValueError(f"--delta belongs to --epsilon, got it with {others}")
    parts = {name: numbers.get(name) for name in ("epsilon", "rho", "mu", "delta")}
    guarantee, parameters = guarantee_of(**parts)
    title = bounds_answer.title(guarantee, parameters)
    subject = explain_answer.guarantee_subject(guarantee, guarantee.definition)
    return Answer(explain_answer.solve(title, [subject], request), explain_answer.document)


def _guarantee_file_answer(file: Path, request: ExplainRequest) -> Answer:
    """Answer about the guarantee of a file without a plan, for one period and for all."""
    read = load_guarantee(file)
    subject = explain_answer.guarantee_subject(read.guarantee, read.guarantee.definition)
    chance = read.failure if request.failure is None else request.failure
    failure_given = request.failure is not None or read.failure != DEFAULT_FAILURE
    whole_request = replace(
        request, failure=min(chance, explain_answer.BELOW_ONE) if failure_given else None, unit=read.unit
    )
    notes = unit_notes(read.unit)
    return Answer(
        explain_answer.solve(read.name, [subject], whole_request, notes, (), read.about), explain_answer.document
    )


def _scenario_answer(scenario: Scenario, request: ExplainRequest) -> Answer:
    """Answer about a scenario, which is audited first if the topic is the audit or not given."""
    chance, tree = scenario.failure if request.failure is None else request.failure, None
    if request.topic in (None, "audit"):
        what = (scenario.plan, scenario.adversary, scenario.truth)
        guarantee, margins = scenario.guarantee, scenario.margins
        # texts are about each adversary's risk and bound, and nothing else that an audit can add
        tree = audit(*what, guarantee=guarantee, invariants=margins, failure=chance, also=(), rng=SEED)
    subjects = explain_answer.scenario_subjects(scenario, tree, chance)
    failure_given = request.failure is not None or "failure" in scenario.document
    whole_request = replace(
        request,
        failure=min(chance, explain_answer.BELOW_ONE) if failure_given else None,
        unit=scenario.plan.privacy_unit,
    )
    warnings = [] if tree is None else audit_words.warnings(tree)
    notes = explain_answer.notes(scenario, tree)
    return Answer(
        explain_answer.solve(scenario.name, subjects, whole_request, notes, warnings, scenario.about),
        explain_answer.document,
    )


def _profiles_answer(file: Path, request: ExplainRequest) -> Answer:
    """Answer about a profile file, with its number of releases and failure probability, or those of the options."""
    read = load_profile_file(file)
    if request.failure is not None:
        read = replace(read, failure=float(check_probability("failure", request.failure)))
    releases = read.releases if request.releases is None else check_releases(request.releases)
    others = request.failure is not None or any(name in read.document for name in ("failure", "delta", "releases"))
    subjects = explain_answer.profile_subjects(
        read, releases=None if releases is None else int(releases), others=others
    )
    answer = explain_answer.solve(read.name, subjects, replace(request, releases=None), about=read.about)
    return Answer(answer, explain_answer.document)


def _kind(file: Path) -> str:
    """Kind of a file by its tables; "scenario" for a file that is not TOML, so that reading it gives the error."""
    try:
        document = read_toml(file)
    except ValueError:
        return "scenario"
    tables = {table for kind in ("scenario", "profile", "guarantee") for table in KINDS[kind].tables}
    other = next((key for key in document if key in ABOUT and key not in tables), None)
    if other is not None and not tables & document.keys():
        raise ValueError(f"{file}: {other}: this is {ABOUT[other]}; explain reads scenarios, profiles, guarantees")
    kinds = (kind for kind in ("scenario", "profile", "guarantee") if {*KINDS[kind].tables} & document.keys())
    return next(kinds, "guarantee" if "privacy_unit" in document else "profile")
