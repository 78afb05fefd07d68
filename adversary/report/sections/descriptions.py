"""Descriptions of adversaries, truths and post-processing in sentences, and of priors and errors of a spine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import format_probability, join_words, percent
from adversary.adversaries.path import MEANINGS, Adversary
from adversary.adversaries.plans import Plan
from adversary.adversaries.postprocessing import TIES, LeastSquares, NonNegative, Postprocessing
from adversary.report.files import Scenario
from adversary.report.kit import Section, Table, tabulate
from adversary.report.words import record_words

# Section on the meaning of the numbers of every block of a spine.
SPINE_NUMBERS = Section(
    "How to read the numbers",
    paragraphs=[
        "Posterior: the probability that one more person is in the block's cell, for an adversary of the prior given, "
        "who knows of the others what is said above. Ratio: posterior over prior; 1 means that nothing was learned.",
        "Every posterior is exact, given the prior of the blocks' counts, up to the mass stated at the end. It uses "
        "the noisy counts of all levels at once.",
        "The bounds hold for one person at a time. Over many blocks, the share beyond them is at most their failure "
        "probability, on average over releases, for adversaries whose belief about the others is right.",
    ],
    on_screen=False,
)


# Aspects of an adversary, with the heads of their columns if adversaries differ in them.
ASPECTS = {
    "prior": ("prior", "probability"), "asks": "“in” means that", "knows": "of the others", "believes": "beliefs",
    "drawn": ("P(drawn)", "probability"), "records": ("k", "count"),
}  # fmt: skip


def adversaries(plan: Plan, every: Mapping[str, Adversary]) -> tuple[str, list[Table]]:
    """(sentences on what the adversaries have in common, a table of their differences if there are several)."""
    aspects = {name: _aspects(plan, one) for name, one in every.items()}
    first, *others = aspects.values()
    shared = {key: value for key, value in first.items() if all(one[key] == value for one in others)}
    clauses = [f"asks whether {shared['asks']}"] if "asks" in shared else []
    if {"prior", "asks"} <= shared.keys():
        clauses = [f"starts from a probability of {format_probability(shared['prior'])} that {shared['asks']}"]
    clauses += filter(None, [shared.get("knows"), shared.get("believes") and f"believes that {shared['believes']}"])
    lines = [f"{'Every' if others else 'The'} adversary {join_words([*clauses])}."] * bool(clauses)
    if any(one["drawn"] != 1.0 for one in aspects.values()):
        # None: the table has the probabilities
        drawn = shared.get("drawn")
        lines.append(SAMPLED.format(f", which has a probability of {format_probability(drawn)}" if drawn else ""))
    if (k := shared.get("records")) is not None:
        whose = "every" if others else "this"
        record = record_words(plan.privacy_unit)["record"]
        lines.append(f"For {whose} adversary the two hypotheses differ in {k} {record}{'s' * (k > 1)} (k = {k}).")
    heads = {key: head for key, head in ASPECTS.items() if key not in shared}
    table = Table(["adversary", *heads.values()], name="adversaries")
    for name, one in aspects.items():
        table.add(name, *(one[key] for key in heads))
    return " ".join(lines), [table] * bool(others)


SAMPLED = (
    "The counts are of a sample: the adversary does not know whether the target was drawn{}. What is known and "
    "believed of others is of the sample, and so is the truth, in which “in” means drawn and in; guarantees are of its "
    "records, and bounds follow from both."
)


def _aspects(plan: Plan, one: Adversary) -> dict[str, Any]:
    """Aspects of one adversary by the keys of `ASPECTS`."""
    chain, lowest = one.level_beliefs(plan), plan.levels[0].unit
    parts = [
        given.describe(level, inside)
        for given, level, inside in zip(chain[1:], plan.names[1:], plan.names[:-1], strict=True)
        if given.known_count != 0
    ]
    attack = "" if one.attack == "characteristics" else f" (a {one.attack} attack: this is what “in” means)"
    return {
        "prior": one.prior,
        "asks": f"{MEANINGS[one.attack]}{attack}",
        "knows": (
            f"knows everybody else in the {lowest} (in the cell: {_counts(one.known)})"
            if chain[0].known_count is not None
            else f"does not know all the others in the {lowest}: {chain[0].describe(lowest, 'target')}"
        ),
        "believes": "; that ".join(parts),
        "drawn": one.sampling_rate,
        "records": one.records(plan),
    }


def _counts(known: Any) -> str:
    """Known counts of one cell or two, in words."""
    counts = np.ravel(known)
    return f"{counts[0]}, and {counts[1]} in the second cell" if counts.size > 1 else f"{counts[0]}"


def published_levels(scenario: Scenario) -> str:
    """Number of levels, and number of releases of each level that is published more than once."""
    count = len(set(scenario.origins.values()))
    again = "".join(f"; the {name} is published {number} times" for name, number in scenario.sequences.items())
    return f"{count} levels, lowest first{again}" if count > 1 else f"1 level{again}"


def truth(scenario: Scenario, target: int) -> str:
    """Sentence on the true counts under which the averages are taken."""
    return f"True counts of the cell: {counts(scenario, ', ')}; in truth the target is “{'in' if target else 'out'}”."


def counts(scenario: Scenario, between: str = ", ") -> str:
    """True counts of every level of the file, and of siblings if they are given one by one, in words."""
    one: Mapping[str, Any] = scenario.truth
    origins = scenario.origins
    shown = [f"{name} {_number(value)}" for name, value in one.items() if origins.get(name) == name]
    siblings = [f"siblings of the {origins[name]} {_number(v)}" for name, v in one.get("siblings", {}).items()]
    return between.join(shown + siblings)


def _number(value: Any) -> str:
    return json.dumps(np.asarray(value).tolist())


def processing(scenario: Scenario) -> list[str]:
    """Post-processing of the noisy numbers: a sentence per level, and one for the plan's adjustment."""
    plan, origins = scenario.plan, scenario.origins
    own = plan.levels[:1] if plan.postprocessing is not None else plan.levels
    done = {origins[level.name]: steps for level in own if (steps := level.mechanism.steps)}
    sentences = [f"At the {name}, {'; then '.join(steps)}." for name, steps in done.items()]
    return sentences if plan.postprocessing is None else [*sentences, _adjusting(plan.postprocessing, *plan.names)]


def _adjusting(postprocessing: Postprocessing, lower: str, upper: str) -> str:
    start = f"The {upper}'s number comes first, at least 0. The noisy counts of the {lower} and its siblings are then"
    match postprocessing:
        case LeastSquares():
            w0, w = postprocessing.own_weight, postprocessing.sibling_weight
            weights = "" if w0 == w else f", the {lower}'s own squares weighing {w0} and each sibling's {w}"
            return (
                f"{start} moved as little as possible, in squares{weights}, to add up to it; the {lower}'s is rounded, "
                f"{TIES[postprocessing.rounding]}, and kept between 0 and the {upper}'s."
            )
        case NonNegative():
            return (
                f"{start} replaced by the nearest non-negative numbers that add up to it; the {lower}'s is rounded, "
                f"{TIES[postprocessing.rounding]}."
            )
        case _:
            return f"{start} put through {postprocessing!r}."


def described_prior(prior: str) -> str:
    """Kind and parameters of a prior in words, from its JSON; other texts unchanged."""
    if not prior.startswith("{"):
        return prior
    kind, *rest = json.loads(prior).items()
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(kind[1])).lower()
    return "; ".join([words, *(f"{name} {_in_a_row(value)}" for name, value in rest)])


def _in_a_row(value: Any) -> str:
    """Numbers one after another; equal ones once."""
    if not isinstance(value, list):
        return str(value)
    numbers = [f"{x:.3g}" for x in value]
    return f"{numbers[0]} each" if len(numbers) > 1 == len(set(numbers)) else ", ".join(numbers)


def described_others(known: int | str | None) -> str:
    """Knowledge of an adversary about the others in a block: none, a number for every block, or a file."""
    if known is None:
        return "nothing of the others in the block, who follow the prior of the blocks' counts given everything else"
    if isinstance(known, int):
        return f"that {known:,} others are there"
    return f"how many others are there, in the blocks for which it is given ({known})"


def accuracy(errors: xr.Dataset) -> Section:
    """Section on the errors of estimates, and the coverage of their intervals, if the truth is known."""
    prob = percent(float(errors.attrs["prob"]))
    columns = {
        "level": "level", "estimate": "estimate", "rmse": ("root mean square error", "number"),
        "bias": ("mean error", "number"), "coverage": (f"{prob} intervals that hold it", "probability"),
        "claimed": ("probability they claim", "probability"),
    }  # fmt: skip
    return Section(
        "Beside the truth",
        "The truth is known here: errors in people, and how often the intervals hold the truth, level by level.",
        tables=[tabulate(errors, columns, name="errors", missing="none")],
    )
