"""Sections on the method of an audit: covered adversaries, the release, other meanings of the budget, provenance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import as_given, format_number, join_words
from adversary.adversaries.path import MEANINGS
from adversary.adversaries.plans import STATISTICS, Level
from adversary.driver import GROUPS, UNRELIABLE, side_by_side
from adversary.privacy.mechanisms import Exact
from adversary.report.files import Scenario
from adversary.report.kit import Column, Section, Table, audit_words, tabulate
from adversary.report.kit.audit_words import joined
from adversary.report.sections import descriptions
from adversary.report.words import is_usual, record_words, unit_words


def coverage_section(scenario: Scenario) -> Section:
    """Section on the adversaries that the bounds cover, and on the neighbour relation."""
    adversaries = scenario.adversaries
    most = max(one.records(scenario.plan) for one in adversaries.values())
    plan, record = scenario.plan, record_words(scenario.plan.privacy_unit)["record"]
    usual = is_usual(plan.privacy_unit, plan.contribution)
    unit = [] if usual else [unit_words(plan.privacy_unit, plan.contribution, scenario.is_local)]
    who, tables = descriptions.adversaries(scenario.plan, adversaries)
    sentence = (
        "The bounds hold for every adversary whose beliefs about everybody else do not depend on the target, whatever "
        "else they know or compute."
        if most == 1
        else f"The bounds hold for adversaries whose two hypotheses differ in at most k {record}s, here up to {most}."
    )
    return Section(
        "For whom this holds",
        sentence,
        [
            f"The privacy budget of this scenario is for neighbours {_neighbours(scenario)}.",
            *unit,
            who,
        ],
        tables,
    )


def _neighbours(scenario: Scenario, neighbours: str | None = None) -> str:
    """Clause on the neighbours of the scenario, or of another kind, and the variance of Gaussian noise for them."""
    plan = scenario.plan
    unit = replace(plan.privacy_unit, neighbours=neighbours or plan.neighbours)
    record, n, most = record_words(unit)["record"], unit.changed_cells, plan.contribution
    if scenario.is_local:
        apart = "any other" if unit.contribution is None else f"one at most {format_number(float(most))} away"
        return f"that differ in what one {record} answers: every answer may become {apart}"
    if unit.is_replaced:
        says = f"what one {record} says" if record == "record" else f"one {record}, replaced by another"
        differ = f"that differ in {says} (bounded neighbours, as in the 2020 Census)"
    else:
        differ = f"that differ in one {record} more or less (unbounded neighbours)"
    words = {1: "one count", 2: "two counts"}
    counts, each = words.get(n, f"at most {n} counts"), " each" * (n > 1)
    by = "one" if most == 1 else f"at most {format_number(most)}"
    moves = f"{differ}: {counts} of every query move{'s' * (n == 1)} by {by}{each}"
    if all(level.mechanism.parabola is None for level in plan.levels):
        return moves
    share = n * most**2
    over = (
        "1/(2 rho)"
        if share == 1
        else f"{format_number(share / 2)}/rho"
        if share > 1
        else f"{format_number(share)}/(2 rho)"
    )
    twice = ", twice the variance" if unit.is_replaced else ""
    return f"{moves}, and {'the same rho' if twice else 'the budget rho'} buys noise with sigma² = {over}{twice}"


def other_meanings(scenario: Scenario, tree: xr.DataTree) -> Section | None:
    """Section on the same budget for other neighbours, or read in other cells; None if it was not computed."""
    if "alternatives" not in tree.children:
        return None
    own = audit_words.reading(scenario.neighbours, scenario.plan.cells)
    plans = {own: scenario} | audit_words.readings(scenario)[0]
    plans = dict(sorted(plans.items()))
    risk, others = tree["risk"].to_dataset(), tree["alternatives"].to_dataset()
    of_each = {key: risk if key == own else others.sel(alternative=key, drop=True) for key in plans}
    means = {key: joined(risk, mean=(one, "posterior_mean"), ratio=(one, "ratio_mean")) for key, one in of_each.items()}
    meanings = side_by_side(means, "plan")
    noises = [{one.origins[level.name]: level.mechanism for level in one.plan.levels} for one in plans.values()]
    meanings["variance"] = ("plan", [", ".join(format_number(x.variance) for x in one.values()) for one in noises])
    columns = {
        "plan": "neighbours", "adversary": "adversary", "variance": "noise variance by level",
        "mean": ("expected posterior", "probability"), "ratio": ("ratio", "number"),
    }  # fmt: skip
    table = tabulate(meanings, columns, name="other meanings", marked={"plan": own}, missing=UNRELIABLE)
    other = _neighbours(scenario, "bounded" if scenario.neighbours == "unbounded" else "unbounded")
    return Section(
        GROUPS["alternatives"].title,
        "The same privacy budget gives other risks for other neighbours, or where both cells are read.",
        [f"It could have been meant for neighbours {other}."],
        [table],
        notes=[
            "Highlighted: this scenario. Guarantees written as numbers stay; only the noise and the cells read change.",
            *(f"Not applicable: {why}." for why in json.loads(tree.attrs.get("not_applicable", "[]"))),
        ],
    )


def published(scenario: Scenario) -> Section:
    """Section on the release: its levels with their noise."""
    return Section("What is published", publication_words(scenario), tables=[levels(scenario)])


def reading_section(scenario: Scenario, tree: xr.DataTree) -> Section:
    """Section that explains the terms of the page."""
    words = list(_reading(scenario, tree))
    return Section("How to read the numbers", paragraphs=words, on_screen=False, folded=True)


def publication_words(scenario: Scenario) -> str:
    """Sentences on the release: cells, levels, exact ones, siblings, and the budget."""
    plan = scenario.plan
    two = "two cells, those between which the hypotheses move the target"
    one = "one cell, the target's own" if plan.cells == 1 else two
    text = f"Noisy counts of {one}, at {descriptions.published_levels(scenario)}."
    exact = [level.name for level in plan.levels if isinstance(level.mechanism, Exact)]
    if exact:
        text += f" Without noise, exactly: {join_words(exact)}."
    if any(level.siblings for level in plan.levels):
        text += " Siblings are the other units of the same parent" + _siblings_read(scenario)
    if description := STATISTICS[plan.published].description:
        text += f" {description}"
    return f"{text} The budget is {spent}." if (spent := audit_words.budget(scenario)) else text


def _siblings_read(scenario: Scenario) -> str:
    """End of a sentence on the use of the siblings' noisy counts."""
    plan = scenario.plan
    if plan.postprocessing is not None:
        return "; their noisy counts enter the unit's own published count."
    if any(level.name in scenario.truth.get("siblings", {}) for level in plan.levels):
        return "; their noisy counts are published one by one."
    if any(plan.sibling_noise(i) is not None for i in range(len(plan.levels))):
        return "; the adversary uses the sum of their noisy counts too."
    return "; their own counts are not read."


def levels(scenario: Scenario) -> Table:
    """Table of the levels of the file: noise, siblings, and number of publications."""
    repeated, last = scenario.sequences, {level: name for name, level in scenario.origins.items()}
    heads = [Column("level"), Column("noise"), Column("rho, one count", "number")]
    local = any(level.mechanism.is_local for level in scenario.plan.levels)
    people = scenario.plan.privacy_unit.name == "person" and not local
    counted = " (people)" if people else ""
    heads += [Column(f"standard deviation{counted}", "number"), Column("siblings", "count")]
    table = Table([*heads, *[Column("published")] * bool(repeated)], name="levels")
    by_name = {level.name: level for level in scenario.plan.levels}
    for name, published_as in last.items():
        queries = {one.name: one for one in scenario.plan.levels if one.query_of == name}
        for shown, level in {name: by_name[published_as], **queries}.items():
            noise, times = level.mechanism, repeated.get(shown, 1)
            siblings = "–" if level.siblings is None or shown in queries else level.siblings
            often = ["once" if times == 1 else f"{times} times"] * bool(repeated)
            unit, most = scenario.plan.privacy_unit, scenario.plan.contribution
            rho = noise.report_rho(unit.contribution) if noise.is_local else noise.rho(most)
            table.add(shown, noise.describe(), rho, float(np.sqrt(noise.variance)), siblings, *often)
    return table


def _reading(scenario: Scenario, tree: xr.DataTree) -> Iterator[str]:
    """Paragraphs on posterior, bound, k, the plan's own loss, and the truncated mass."""
    record = record_words(scenario.plan.privacy_unit)["record"]
    definitions = [str(name) for name in tree["bound"].to_dataset()["definition"].values]
    itself = ", except that of probabilistic DP, which is about the release itself" * (
        "probabilistic DP" in definitions
    )
    yield "Posterior and ratio are always of “in”, also where the target is in truth out."
    for attack in dict.fromkeys(one.attack for one in scenario.adversaries.values()):
        if attack != "characteristics":
            yield f"“In” means, in a {attack} attack, that {MEANINGS[attack]}."
    yield (
        "A bound holds whatever the release, and whatever a covered adversary believes of others, except with the "
        "failure probability. Lower ends are rounded down, upper ends up. P(beyond bound) is the probability, under "
        "this truth, of a release that takes the adversary past it."
    )
    yield (
        f"k is the number of {record}s in which the adversary's two hypotheses differ. Where their beliefs about "
        f"others depend on the target, the guarantee for one {record} is extended to k {record}s, and the bound widens."
    )
    yield (
        "The plan's own loss is not a guarantee: it is what the noise bounds by itself, computed exactly or from "
        "above. A guarantee is violated when the noise does not satisfy it; exceeded when it is satisfied but an "
        "adversary with mistaken or improper beliefs passes its bound more often than it may fail."
    )
    yield f"Every bound also covers whatever is computed from the release afterwards{itself}."
    yield f"Probability left out by truncation: at most {as_given(tree.attrs.get('truncation_mass', 1e-12))}."


def provenance(scenario: Scenario, tree: xr.DataTree) -> list[tuple[str, str]]:
    """Provenance of the numbers, as rows; the scenario's own text last."""
    attrs: Any = tree.attrs
    simulated = tree["risk"]["posterior_mean"].attrs.get("direction") != "exact"
    versions = ", ".join(f"{name} {number}" for name, number in json.loads(attrs["versions"]).items())
    rows = [
        ("Scenario file", scenario.path.name),
        ("Engine", str(attrs["engine"])),
        ("Seed", f"{attrs['seed']}" + ("" if simulated else " (the averages do not depend on it)")),
        ("Simulated releases, where any are", f"{attrs['draws']:,}"),
        ("Failure probability", as_given(attrs["failure"])),
        ("Neighbours and cells read", f"{attrs['neighbours']}, {attrs['cells']}"),
        ("Privacy unit", _unit_in_short(scenario)),
        ("Versions", versions),
    ]
    if scenario.plan.postprocessing is not None:
        rows.append(("Post-processing", " ".join(descriptions.processing(scenario))))
    for level in scenario.plan.levels:
        spent = "exact" if isinstance(level.mechanism, Exact) else level.mechanism.describe()
        rows.append((f"Allocation: {level.name}", spent + _budget(scenario, level)))
    for name, guarantee in (scenario.guarantee or {}).items():
        rows.append((f"Guarantee: {name}", guarantee.describe()))
    return [*rows, ("Scenario", json.dumps(scenario.document, default=str, ensure_ascii=False))]


def _unit_in_short(scenario: Scenario) -> str:
    """Parameters of the privacy unit in a line."""
    unit, most = scenario.plan.privacy_unit, scenario.plan.contribution
    amount = "any answer" if np.isinf(most) else f"contribution {format_number(float(most))}"
    return f"{unit.name}, {amount}, cells {unit.cells}, periods {unit.periods}"


def _budget(scenario: Scenario, level: Level) -> str:
    """Parameter of a level's noise as the file states it, ", from rho = 1/10"."""
    name = scenario.origins[level.name]
    row = next(row for row in scenario.document["plan"]["level"] if row["name"] == name)
    if level.query_of:
        row = row["queries"][level.name.removeprefix(f"{name}, ")]
    return "".join(f", from {key} = {row[key]}" for key in ("rho", "sigma", "epsilon", "scale") if key in row)
