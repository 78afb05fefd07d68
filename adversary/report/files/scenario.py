"""Scenario files: plan, adversary, truth and guarantee, read from TOML and checked.

Nothing in a file is executed. Every key is known, typed and checked; an error names the file, the key, the rule and
the value, and suggests the key that was probably meant. Its tables are documented in `plan_keys`, `belief_keys`,
`profile_keys`, `guarantee_keys` and `invariant_keys`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from adversary._core import DEFAULT_FAILURE, check_whole
from adversary.adversaries.beliefs import Belief
from adversary.adversaries.path import MEANINGS, Adversary, all_but, count_pmf, settle_truth
from adversary.adversaries.plans import Plan
from adversary.budget import STATISTICS, RiskProfile
from adversary.privacy import Guarantee
from adversary.privacy.invariants import Margins
from adversary.report.files.belief_keys import BELIEF, read_beliefs
from adversary.report.files.guarantee_keys import GUARANTEE, UNITS, read_guarantees, read_unit
from adversary.report.files.invariant_keys import INVARIANTS, Published, check_agreement, read_invariants
from adversary.report.files.keys import PRODUCT, FileDescription, Key, Keys, probability, texts
from adversary.report.files.kinds import ABOUT
from adversary.report.files.plan_keys import PLAN, origins, read_plan, sequences
from adversary.report.files.profile_keys import PROFILE, read_profile
from adversary.report.files.sensitivity_keys import SENSITIVITY, Ranges, read_ranges
from adversary.report.files.toml_text import read_toml

BELIEFS = Key("open", "of the levels above, and of the lowest where `known` is left out", None, keys={"*": BELIEF},
              live=True)  # fmt: skip
UNKNOWN = {
    "probabilities": Key("numbers", "of 0, 1, ..., n of them in the cell", None, example="[0.5, 0.3, 0.2]"),
    "n": Key("whole", "how many people", None, example="3"),
    "chance": Key("number", "that each of them is in the cell", None, example="0.1"),
}
ADVERSARY = {
    "attack": Key("word", "what the adversary asks about the target", "characteristics", tuple(MEANINGS)),
    "prior": Key("number", "probability that the target is in, before the release", None, example='"1/2"', live=True),
    "known": Key("any", "how many others of the lowest level are in the cell", None, example="0", live=True),
    "hypotheses": Key("numbers", "counts of the target, [out, in]", None, example="[0, 1]"),
    "beliefs": BELIEFS,
    "sampling_rate": Key("number", "of a Poisson sample, where the adversary does not know whether the target is in it",
                         1, example="0.1"),
    "unknown": Key("table", "people the adversary misses, in place of a prior", None, keys=UNKNOWN),
}  # fmt: skip
TRUTH = {
    "*": Key(
        "any",
        "true count of the level; one per cell where two are published",
        None,
        example=["block = 1", "tract = 4"],
        live=True,
    ),
    "in": Key("whole", "whether the target is truly in, 1 or 0; else settled by the counts", None, example="1"),
    "siblings": Key(
        "open",
        "true counts of siblings that are read one by one",
        None,
        keys={"*": Key("list", "of the level", None, example=["block = [0, 2, 1]"])},
    ),
}
FILE = {
    **texts(),
    **UNITS,
    "failure": Key("real", "probability with which a bound that is not certain may fail", DEFAULT_FAILURE, live=True,
                   make=probability),
    "plan": Key("table", "what is published, with which noise", keys=PLAN),
    "truth": Key("open", "the true counts, of every level", None, keys=TRUTH, live=True),
    "truths": Key("named", "several truths by name, in place of [truth]", None, keys=TRUTH),
    "adversary": Key("table", "who reads the release", None, keys=ADVERSARY, live=True),
    "adversaries": Key("named", "several by name, in place of [adversary]", None, keys=ADVERSARY),
    "guarantee": Key("table", "what is guaranteed, to be checked", None, keys=GUARANTEE, live=True),
    "profile": Key("open", "the risk that is tolerated", None,
                   keys={"statistic": Key("word", "what is published", "any", STATISTICS), **PROFILE}),
    "invariants": Key("table", "margins that are published exactly", None, keys=INVARIANTS),
    "sensitivity": Key("table", "what is gone over, one input at a time", None, keys=SENSITIVITY),
}  # fmt: skip


def read_adversary(table: Keys, plan: Plan) -> Adversary:
    """Adversary of a table, every key checked, and every belief against the plan."""
    attack = table["attack"]
    beliefs = read_beliefs(table.table("beliefs")) if table.has("beliefs") else {}
    rule = f"how many others of {plan.levels[0].unit!r} are in the published cell, a whole number, or one per cell"
    known = table.get("known", (int, list), rule, 0 if plan.levels[0].unit in beliefs else ...)
    if table.has("unknown"):
        part = table.table("unknown")
        make = partial(_all_but, table, part, plan, known, beliefs, attack, _sampling_rate(table))
        return part.build("", make)  # type: ignore[no-any-return]
    prior = table.number("prior")
    pair = table.get("hypotheses", list, "two whole numbers [out, in]", None)
    rate = _sampling_rate(table)
    counts = tuple(known) if isinstance(known, list) else known
    hypotheses = tuple(pair) if pair else None
    make = partial(Adversary, prior, counts, beliefs, hypotheses, attack=attack, sampling_rate=rate)
    return table.build("", lambda: _fitting(plan, make()))  # type: ignore[no-any-return]


def _sampling_rate(table: Keys) -> float:
    """Rate of a Poisson sample, 1 if not given; a sample of fixed size is refused."""
    given = table.values.get("sampling_rate")
    if isinstance(given, str | dict) and not re.fullmatch(PRODUCT, str(given)):
        raise ValueError(
            f"{table.where('sampling_rate')}: must be the rate of a Poisson sample, a number such as 0.1, got "
            f"{given!r}; in a sample of fixed size, without replacement, another person takes "
            "the place of a target who is not drawn, so that what is known of others depends on it: write a model"
        )
    return float(table.number("sampling_rate", 1.0))


def _all_but(
    table: Keys,
    unknown: Keys,
    plan: Plan,
    known: int | list[int],
    beliefs: dict[str, Belief],
    attack: str,
    rate: float,
) -> Adversary:
    """Adversary to whom several people of the lowest unit are unknown, all exchangeable; the prior follows."""
    for key in ("prior", "hypotheses"):
        if table.has(key):
            raise ValueError(
                f"{table.where(key)}: must be left out where {table.key}.unknown describes the people the adversary "
                f"misses: it follows from their distribution, got {table.values[key]!r}"
            )
    if attack != "characteristics" or isinstance(known, list) or plan.cells > 1:
        raise ValueError(
            "people unknown to the adversary are described for the characteristics attack on one cell, got "
            f"attack {attack!r} and {plan.cells} cell{'s' * (plan.cells > 1)}"
        )
    if unknown.has("probabilities") == (unknown.has("n") or unknown.has("chance")):
        raise ValueError("give either probabilities of 0, 1, ..., n, or n and chance")
    if unknown.has("probabilities"):
        counts = unknown.numbers("probabilities")
    else:
        from scipy.stats import binom

        people = int(check_whole("n", unknown.get("n", int, "a whole number of people"), minimum=1))
        counts = binom(people, float(unknown.number("chance")))
    pmf = count_pmf([float(p) for p in counts] if isinstance(counts, list) else counts)
    who = all_but(pmf, known, level=plan.levels[0].unit, beliefs=beliefs)
    return _fitting(plan, replace(who, sampling_rate=rate))


def _fitting(plan: Plan, adversary: Adversary) -> Adversary:
    """The adversary; ValueError if their beliefs or their attack do not fit the plan."""
    adversary.level_beliefs(plan)
    return adversary


@dataclass(frozen=True)
class Scenario(FileDescription):
    """Scenario file, read and checked.

    Parameters
    ----------
    plan : what is published, with which noise
    adversary, truth : one each, or a mapping of names to several
    guarantee : by the name of its definition, or None
    failure : probability with which a bound that is not certain may fail
    document : the TOML document
    sensitivity : ranges of a sensitivity analysis, or None
    profile : the risk that the agency tolerates, or None
    statistic : what the profile says is published: "any" thing, or one "count" of people whom it would harm
    invariants : margins published exactly, or None
    """

    plan: Plan
    adversary: Adversary | dict[str, Adversary]
    truth: dict[str, Any]
    guarantee: dict[str, Guarantee] | None
    failure: float
    document: Mapping[str, Any]
    sensitivity: Ranges | None = None
    profile: RiskProfile | None = None
    statistic: str = "any"
    invariants: Published | None = None

    @property
    def adversaries(self) -> dict[str, Adversary]:
        """Adversaries by name; a single one has the name ""."""
        return _named(self.adversary)

    @property
    def margins(self) -> Margins | None:
        """Margins published exactly, as `audit` takes them; None if the file has none."""
        return None if self.invariants is None else self.invariants.margins

    @property
    def neighbours(self) -> str:
        """Neighbour relation of the budget: "unbounded" or "bounded"."""
        return self.plan.neighbours

    @property
    def is_local(self) -> bool:
        """True if every published number is a unit's own answer (local DP)."""
        return all(level.mechanism.is_local for level in self.plan.levels)

    @property
    def sequences(self) -> dict[str, int]:
        """Number of releases of each level that is published more than once, by level."""
        return sequences(self.document)

    @property
    def origins(self) -> dict[str, str]:
        """Level of the file behind every level of the plan, which has several for one that is published repeatedly."""
        return origins(self.document)

    def with_neighbours(self, neighbours: str, cells: int = 1) -> Scenario:
        """Scenario with the same budget for other neighbours, read in `cells` cells.

        If two cells become one, the knowledge and the truth about the second are dropped.
        """
        document = {**self.document, "neighbours": neighbours, "plan": {**self.document["plan"], "cells": cells}}
        if "privacy_unit" in document:
            document["privacy_unit"] = {**document["privacy_unit"], "neighbours": neighbours}
        if cells == 1:
            named = {"adversaries", "truths"} & set(document)
            for key in {"adversary", "truth"} & set(document):
                document[key] = _first_cell(document[key])
            for key in named:
                document[key] = {name: _first_cell(table) for name, table in document[key].items()}
        return read_scenario(document, self.path)

    def with_truth(self, counts: Mapping[str, Any]) -> Scenario:
        """Copy with some true counts replaced, checked as in a file."""
        key = "truths" if "truths" in self.document else "truth"
        old = self.document[key]
        new = {name: {**one, **counts} for name, one in old.items()} if key == "truths" else {**old, **counts}
        return read_scenario({**self.document, key: new}, self.path)


def _first_cell(table: Mapping[str, Any]) -> dict[str, Any]:
    """Table of an adversary or truth with the first of every list of counts by cell."""
    cell = {key: value[0] if isinstance(value, list) and key != "hypotheses" else value for key, value in table.items()}
    if isinstance(table.get("siblings"), Mapping):
        pairs = table["siblings"].items()
        cell["siblings"] = {name: [one[0] if isinstance(one, list) else one for one in each] for name, each in pairs}
    return cell


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario file, the input of `adversary audit`.

    Parameters
    ----------
    path : TOML file with a `[plan]`

    Returns
    -------
    Scenario : checked plan, adversary or adversaries, truth, and guarantees where the file has any.

    Raises
    ------
    OSError : the file cannot be read
    ValueError : it is not TOML, or a key is unknown, missing, of the wrong kind or out of range, or the truth is
        impossible; the message names file, key, rule and value
    """
    file = Path(path)
    document = read_toml(file)
    other = next((key for key in ("data", "profile", "curator", "guarantee") if key in document), None)
    if "plan" not in document and other is not None:
        raise ValueError(f"{file}: plan: is missing: this is {ABOUT[other]}")
    scenario = read_scenario(document, file)
    if scenario.statistic == "count" and scenario.plan.cells > 1:
        raise ValueError(f"{file}: profile.statistic: must be 'any' where the adversary watches two cells, got 'count'")
    return scenario


def read_scenario(document: Mapping[str, Any], file: Path, key: str = "") -> Scenario:
    """Scenario of a TOML document that has been parsed.

    Parameters
    ----------
    document : a scenario file as nested tables
    file : its path, for messages
    key : of the table in the file that the document is; "" for the whole file

    Returns
    -------
    Scenario

    Raises
    ------
    ValueError : a key is unknown, missing, of the wrong kind or out of range, or the truth is impossible
    """
    top = Keys.of_file(document, file, "a scenario file", FILE, key)
    words = {name: top.get(name, str, "text", "") for name in texts()}
    unit, failure = read_unit(top), top["failure"]
    if unit.neighbours is None:
        raise ValueError(
            f"{top.where('neighbours')}: is required ({UNITS['neighbours'].about}; for instance "
            'neighbours = "unbounded"), here or under [privacy_unit]'
        )
    plan = read_plan(top.table("plan"), unit)
    published = origins(document)
    adversaries = top.one_or_many("adversary", "adversaries", lambda table: read_adversary(table, plan))
    truths = top.one_or_many("truth", "truths", lambda table: _truth(table, plan, published))
    guarantees = read_guarantees(top.table("guarantee"), lambda: plan.total_rho) if top.has("guarantee") else None
    every, facts = _named(adversaries), truths if top.has("truths") else {"": truths}
    first = next(iter(every.values()))
    ranges = read_ranges(top.table("sensitivity"), plan, first) if top.has("sensitivity") else None
    published_exactly = read_invariants(top.table("invariants")) if top.has("invariants") else None
    tolerated = top.table("profile") if top.has("profile") else None
    statistic = "any" if tolerated is None else tolerated.one_of("statistic", STATISTICS, "any")
    profile = None if tolerated is None else read_profile(tolerated)
    _check_siblings(top, plan, every, facts)
    for one_adversary in every.values():
        for name, truth in facts.items():
            top.build(f"truths.{name}" if name else "truth", partial(settle_truth, plan, one_adversary, truth))
    for truth in facts.values():
        if published_exactly is not None:
            check_agreement(top.table("invariants"), published_exactly, plan, truth)
    read: dict[str, Any] = {"sensitivity": ranges, "profile": profile, "invariants": published_exactly}
    read |= {"statistic": statistic, "failure": failure, "path": file, "document": document}
    return Scenario(plan, adversaries, truths, guarantees, **words, **read)


def _named[T](given: T | dict[str, T]) -> dict[str, T]:
    """Mapping of names, with a single thing under the name ""."""
    return given if isinstance(given, dict) else {"": given}


def _check_siblings(top: Keys, plan: Plan, adversaries: dict[str, Adversary], truths: dict[str, Any]) -> None:
    """ValueError if siblings' releases have to be used one by one, and an adversary or truth lacks what that needs.

    This is so for numbers that are clamped or rounded each: the distribution of the noise of their sum is not known.
    """
    rows = [row["name"] for row in top.values["plan"]["level"]]
    published = origins(top.values)
    for i, (level, above) in enumerate(pairwise(plan.names)):
        count = plan.levels[i].siblings
        if not count or plan.postprocessing is not None or plan.sibling_noise(i) is not None:
            continue
        place = f"plan.level[{rows.index(published[level]) + 1}]"
        rule = (
            f"the sum of releases of {place} has no law (they are clamped, rounded, or of noise whose sums are not "
            f"known), so that its siblings ({place}.siblings = {count}) are read one by one"
        )
        for name, one_adversary in adversaries.items():
            belief = one_adversary.beliefs.get(above)
            if not all(
                one is not None and one.each is not None for one in (belief if isinstance(belief, tuple) else (belief,))
            ):
                whose = f"adversaries.{name}" if name else "adversary"
                raise ValueError(
                    f"{top.where(whose)}.beliefs.{above}: must be {{ each = ... }}, "
                    f"a law of one sibling's count: {rule}"
                )
        for name, truth in truths.items():
            if level not in truth.get("siblings", {}):
                whose = f"truths.{name}" if name else "truth"
                raise ValueError(
                    f"{top.where(whose)}.siblings.{published[level]}: is required (a list of {count} counts in a table "
                    f"[{whose}.siblings]): {rule}"
                )


def _truth(table: Keys, plan: Plan, published: Mapping[str, str]) -> dict[str, Any]:
    """Truth of a table: the true count of every level of the plan, and of siblings one by one if it has them."""
    levels = tuple(dict.fromkeys(published.values()))
    table.only(*levels, "in", "siblings")
    counts = {name: table.get(name, (int, list), "a whole number, or one per cell") for name in levels}
    truth: dict[str, Any] = {name: counts[level] for name, level in published.items()}
    if table.has("in"):
        truth["in"] = table.get("in", int, "a whole number")
    if table.has("siblings"):
        last = {level: name for name, level in published.items()}
        part = table.table("siblings")
        part.only(*levels)
        truth["siblings"] = {last[name]: part.get(name, list, "a list of counts") for name in part.values}
        table.build("siblings", partial(plan.sibling_counts, truth))
    table.finish()
    return truth
