"""What frames a report: what came out, what is published, how to read the numbers, and where they come from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import numpy as np
import xarray as xr

from adversary._core import figure_of, listed, share
from adversary.desk.files import Scenario
from adversary.desk.kit import PageTable, audit_words, readers_of
from adversary.desk.report import descriptions
from adversary.reader.path import MEANINGS
from adversary.reader.plans import Level


def summary(name: str, scenario: Scenario, tree: xr.DataTree) -> Iterator[str]:
    """What came out, in two sentences per truth."""
    risk, bound = tree["risk"].to_dataset(), tree["bound"].to_dataset()
    where = f"Under the truth {name}: " if name else ""
    start = f"{where}{'a' if where else 'A'}"
    if audit_words.unreliable(risk):
        yield (
            f"{where}{'t' if where else 'T'}he sampler's diagnostics failed on some releases. What follows from "
            f"them is called {audit_words.UNRELIABLE}, and no number is given; the section on diagnostics says why."
        )
        return
    readers = readers_of(scenario)
    if len(readers) > 1:
        ratio = risk["ratio_mean"]
        least, most = str(ratio.idxmin("adversary").item()), str(ratio.idxmax("adversary").item())
        rest = "; the others lie between" if ratio.size > 2 else ""
        yield (
            f"{start}veraged over releases, the posterior is {figure_of(float(ratio.min()))} times the prior for "
            f"reader {least} and {figure_of(float(ratio.max()))} times it for reader {most}{rest}."
        )
    else:
        ((reader, one),) = readers.items()
        risk = audit_words.of_reader(risk, reader)
        low, high = (float(risk["posterior_quantile"][i]) for i in (0, -1))
        prior, mean, correct = (share(float(risk[name])) for name in ("prior", "posterior_mean", "prob_correct"))
        attack, error = one.attack, partial(audit_words.error, risk)
        meaning = "the target is in" if attack == "characteristics" else MEANINGS[attack]
        yield (
            f"{start} reader who starts at {prior} ends, averaged over releases, at {mean}"
            f"{error('posterior_mean', 100.0)} that {meaning}, {figure_of(float(risk['ratio_mean']))}"
            f"{error('ratio_mean')} times the prior. Nine releases in ten leave them between {share(low)} and "
            f"{share(high)}. Their best guess is right in {correct}{error('prob_correct', 100.0)} of releases."
        )
    found = [str(status) for status in np.unique(bound["status"].values)]
    if found == ["holds"]:
        yield "Every promise holds for every reader here."
    else:
        yield " ".join(
            [
                "Not every promise holds here.",
                *(f"{audit_words.STATUS[s].capitalize()}." for s in found if s != "holds"),
            ]
        )


def published(scenario: Scenario) -> str:
    """What is released, in a few sentences."""
    plan = scenario.plan
    two = "two cells, those between which the hypotheses move the target"
    one = "one cell, the target's own" if plan.cells == 1 else two
    text = f"Noisy counts of {one}, at {descriptions.published_levels(scenario)}."
    exact = [level.name for level in plan.levels if level.is_exact]
    if exact:
        text += f" Without noise, exactly: {listed(exact)}."
    if any(level.siblings for level in plan.levels):
        text += " Siblings are the other units of the same parent" + _siblings_read(scenario)
    return text


def _siblings_read(scenario: Scenario) -> str:
    plan = scenario.plan
    single = [level.name for level in plan.levels if level.name in scenario.truth.get("siblings", {})]
    if plan.postprocessing is not None:
        return "; their noisy counts enter the unit's own published count."
    if single:
        return (
            "; their noisy counts are published one by one, and a reader who believes something of each reads them so."
        )
    if any(plan.sibling_noise(i) is not None for i in range(len(plan.levels))):
        return "; the reader uses the sum of their noisy counts too."
    return "; their own counts are not read."


def levels(scenario: Scenario) -> PageTable:
    """Every level of the file: its noise, what is done to its numbers, its siblings, and how often it is published."""
    repeated, last = scenario.sequences, {level: name for name, level in scenario.origins.items()}
    heads = ["level", "noise", "rho of the noise, one count", "standard deviation (people)", "siblings"]
    table = PageTable([*heads, *["published"] * bool(repeated)], texts=2)
    by_name = {level.name: level for level in scenario.plan.levels}
    for name, published_as in last.items():
        level = by_name[published_as]
        rho, deviation = level.mechanism.rho, float(np.sqrt(level.mechanism.variance))
        siblings = "–" if level.siblings is None else str(level.siblings)
        times = repeated.get(name, 1)
        often = ["once" if times == 1 else f"{times} times"] * bool(repeated)
        table.add(name, level.mechanism.describe(), figure_of(rho), figure_of(deviation), siblings, *often)
    return table


def reading(scenario: Scenario, tree: xr.DataTree) -> list[str]:
    """How to read the numbers."""
    definitions = [str(name) for name in tree["bound"].to_dataset()["definition"].values]
    itself = ", except that of probabilistic DP, which speaks of the release itself"
    after = (itself if "probabilistic DP" in definitions else "") + "."
    attacks = dict.fromkeys(one.attack for one in readers_of(scenario).values())
    return [
        "Posterior and ratio always speak of “in”, also where the target is in truth out.",
        *(f"“In” means, in a {one} attack, that {MEANINGS[one]}." for one in attacks if one != "characteristics"),
        "A bound is an inequality: whatever the release, and whatever a reader covered by it believes of others, the "
        "posterior is at least the lower end and at most the upper end, except with the probability under “may fail "
        "in”. Lower ends are rounded down, upper ends up.",
        "“Releases beyond it” is the probability, under this truth, of a release that takes this reader past a bound.",
        "k is the number of records in which the reader's two hypotheses differ. Where what they believe of others "
        "depends on the target, a promise about one record has to be stretched over k of them, and the bound widens.",
        "“The plan's own loss” is not a promise: it is what the noise delivers by itself, worked out exactly or from "
        "above. A promise is called violated when the noise cannot keep it, whoever reads; exceeded when the promise "
        "is kept but this reader's beliefs, being mistaken or not adding up to one, lead them beyond it more often "
        "than it may fail.",
        f"Every bound also covers whatever is computed from the release afterwards{after}",
        f"What truncation leaves out is at most {tree.attrs.get('truncation_mass', 1e-12):g} of probability.",
    ]


def provenance(scenario: Scenario, tree: xr.DataTree) -> list[tuple[str, str]]:
    """Where the numbers come from."""
    attrs = tree.attrs
    simulated = tree["risk"]["posterior_mean"].attrs.get("direction") != "exact"
    versions = ", ".join(f"{name} {number}" for name, number in json.loads(attrs["versions"]).items())
    rows = [
        ("Scenario file", scenario.path.name),
        ("Engine", str(attrs["engine"])),
        ("Seed", f"{attrs['seed']}" + ("" if simulated else " (the averages above do not depend on it)")),
        ("Simulated releases, where any are", str(attrs["draws"])),
        ("Failure probability asked for", f"{float(attrs['failure']):g}"),
        ("Neighbours and cells read", f"{attrs['neighbours']}, {attrs['cells']}"),
        ("Versions", versions),
    ]
    if scenario.plan.postprocessing is not None:
        rows.append(("Post-processing", repr(scenario.plan.postprocessing)))
    for level in scenario.plan.levels:
        spent = "exact" if level.is_exact else f"{level.mechanism!r}"
        rows.append((f"Allocation: {level.name}", spent + _budget(scenario, level)))
    for name, promise in (scenario.guarantee or {}).items():
        rows.append((f"Promise: {name}", repr(promise)))
    return rows


def _budget(scenario: Scenario, level: Level) -> str:
    """The budget of a level as the file states it."""
    row = next(row for row in scenario.document["plan"]["level"] if row["name"] == scenario.origins[level.name])
    return "".join(f", from {key} = {row[key]}" for key in level.mechanism.noise.parameters if key in row)
