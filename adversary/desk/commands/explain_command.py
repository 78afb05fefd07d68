"""`adversary explain`: a guarantee, a scenario or a tolerated risk in words, for whoever must trust the numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from adversary._core import check_probability
from adversary.desk.answers import bounds_answer
from adversary.desk.commands.options import (
    SEED,
    Truths,
    answering,
    number,
    read_scenario,
    whole,
)
from adversary.desk.files import Scenario, check_releases, load_profile_file, read_toml
from adversary.desk.kit import Document, audit_words
from adversary.desk.report import EVERYONE, ExplainRequest, explain_answer
from adversary.driver import audit
from adversary.policy.explain import AUDIENCES, TOPICS


@answering("file")
def explain_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="Scenario or profile file (TOML).", metavar="SCENARIO.toml|PROFILE.toml"),
    ] = None,
    audience: Annotated[str, typer.Option(help=f"For whom: {', '.join((*AUDIENCES, EVERYONE))}.")] = AUDIENCES[0],
    topic: Annotated[str | None, typer.Option(help=f"Of what, of these: {', '.join(TOPICS)}.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Pure DP with this epsilon; with --delta, approximate DP.", metavar="NUMBER")
    ] = None,
    delta: Annotated[str | None, typer.Option(help="With --epsilon: its delta.", metavar="NUMBER")] = None,
    rho: Annotated[str | None, typer.Option(help="Zero-concentrated DP with this rho.", metavar="NUMBER")] = None,
    mu: Annotated[str | None, typer.Option(help="Gaussian DP with this mu.", metavar="NUMBER")] = None,
    prior: Annotated[
        list[str] | None,
        typer.Option(help="Where an adversary starts, such as 0.1 or 1/864; may be repeated.", metavar="P"),
    ] = None,
    failure: Annotated[
        str | None,
        typer.Option(help="Probability with which a limit may fail that is not certain; else the file's.", metavar="P"),
    ] = None,
    releases: Annotated[
        str | None, typer.Option(help="Tell of so many releases together, each with the guarantee.", metavar="K")
    ] = None,
    truth: Truths = None,
) -> Document:
    """What a guarantee, a tolerated risk or an audit means, in words."""
    given = {"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}
    numbers = {name: number(f"--{name}", text) for name, text in given.items() if text is not None}
    asked_of = {"priors": prior, "failure": failure, "releases": releases}
    options: dict[str, Any] = {
        "audience": audience,
        "topic": topic,
        "priors": [number("--prior", text) for text in prior] if prior else None,
        "releases": None if releases is None else whole("--releases", releases),
        "given": tuple(name for name, text in asked_of.items() if text),
    }
    chance = None if failure is None else number("--failure", failure)
    if (file is None) != bool(numbers):
        what = "both" if numbers else "neither"
        raise ValueError(f"give either a file or one of --epsilon, --rho and --mu, got {what}")
    scenario = file is not None and _is_scenario(file)
    if truth and not scenario:
        raise ValueError("--truth replaces a count of a scenario file, and there is none")
    if file is None:
        return _of_guarantee(numbers, options, chance)
    if scenario:
        return _of_scenario(read_scenario(file, truth), options, chance)
    return _of_profiles(file, options, chance)


def _of_guarantee(numbers: dict[str, float], options: dict[str, Any], failure: float | None) -> Document:
    """A guarantee by its numbers."""
    names = [name for name in numbers if name != "delta"]
    if "delta" in numbers and names != ["epsilon"]:
        others = " and ".join(f"--{name}" for name in names if name != "epsilon") or "nothing"
        raise ValueError(f"--delta belongs to --epsilon, got it with {others}")
    parts = {name: numbers.get(name) for name in ("epsilon", "rho", "mu", "delta")}
    guarantee, parameters = bounds_answer.guarantee_of(**parts)
    title = bounds_answer.title(guarantee, parameters)
    subject = explain_answer.of_guarantee(guarantee, guarantee.definition)
    asked = ExplainRequest(**options, failure=failure)
    return explain_answer.document(title, explain_answer.solve([subject], asked))


def _of_scenario(scenario: Scenario, options: dict[str, Any], failure: float | None) -> Document:
    """A scenario, audited where that is to be told."""
    chance, tree = scenario.failure if failure is None else failure, None
    if options["topic"] in (None, "audit"):
        what = (scenario.plan, scenario.adversary, scenario.truth)
        tree = audit(*what, guarantee=scenario.guarantee, invariants=scenario.margins, failure=chance, rng=SEED)
    subjects = explain_answer.of_scenario(scenario, tree, chance)
    said = failure is not None or "failure" in scenario.document
    told = min(chance, explain_answer.BELOW_ONE) if said else None
    title, asked = scenario.title or scenario.path.name, ExplainRequest(**options, failure=told)
    warnings = [] if tree is None else audit_words.warnings(tree)
    found = explain_answer.solve(subjects, asked)
    return explain_answer.document(title, found, explain_answer.notes(scenario, tree), warnings)


def _of_profiles(file: Path, options: dict[str, Any], failure: float | None) -> Document:
    """A profile file, with what its releases may each be given, and what may fail, as the file or the options say."""
    read = load_profile_file(file)
    if failure is not None:
        read = replace(read, failure=float(check_probability("failure", failure)))
    releases = read.releases if options["releases"] is None else check_releases(options["releases"])
    others = failure is not None or any(name in read.document for name in ("failure", "delta", "releases"))
    subjects = explain_answer.of_profiles(read, releases=None if releases is None else int(releases), others=others)
    asked = ExplainRequest(**{**options, "releases": None}, failure=failure)
    return explain_answer.document(read.title or file.name, explain_answer.solve(subjects, asked))


def _is_scenario(file: Path) -> bool:
    """Whether the file has a plan, or cannot be read as TOML, which reading it as a scenario will tell."""
    try:
        return "plan" in read_toml(file)
    except ValueError:
        return True
