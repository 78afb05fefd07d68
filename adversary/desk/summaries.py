"""What frames a report: what came out, what is published, how to read the numbers, and where they come from."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import xarray as xr

from adversary.desk import portraits, words
from adversary.desk.grids import Table
from adversary.desk.scenarios import Scenario
from adversary.desk.words import figure_of, of_reader, readers_of, share
from adversary.privacy.mechanisms import Exact
from adversary.reader.attacks import MEANINGS
from adversary.reader.beliefs import Uniform
from adversary.reader.each import Each
from adversary.reader.truths import settle_truth


def _summary(name: str, scenario: Scenario, tree: xr.DataTree) -> Iterator[str]:
    """What came out, in two sentences per truth."""
    risk, bound = tree["risk"].to_dataset(), tree["bound"].to_dataset()
    where = f"Under the truth {name}: " if name else ""
    start = f"{where}{'a' if where else 'A'}"
    if "adversary" in risk.dims:
        ratio = risk["ratio_mean"]
        least, most = str(ratio.idxmin("adversary").item()), str(ratio.idxmax("adversary").item())
        rest = "; the others lie between" if ratio.size > 2 else ""
        yield (
            f"{start}veraged over releases, the posterior is {figure_of(float(ratio.min()))} times the prior for "
            f"reader {least} and {figure_of(float(ratio.max()))} times it for reader {most}{rest}."
        )
    else:
        low, high = (float(risk["posterior_quantile"][i]) for i in (0, -1))
        prior, mean, correct = (share(float(risk[name])) for name in ("prior", "posterior_mean", "prob_correct"))
        yield (
            f"{start} reader who starts at {prior} ends, averaged over releases, at {mean} that the target is in, "
            f"{figure_of(float(risk['ratio_mean']))} times the prior. Nine releases in ten leave them between "
            f"{share(low)} and {share(high)}. Their best guess is right in {correct} of releases."
        )
    found = [str(status) for status in np.unique(bound["status"].values)]
    if found == ["holds"]:
        yield "Every promise holds for every reader here."
    else:
        yield " ".join(
            ["Not every promise holds here.", *(f"{words.STATUS[s].capitalize()}." for s in found if s != "holds")]
        )


def _published(plan: Plan) -> str:
    two = "two cells, those between which the hypotheses move the target"
    one = "one cell, the target's own" if plan.cells == 1 else two
    text = f"Noisy counts of {one}, at {len(plan.levels)} level{'s' * (len(plan.levels) > 1)}, lowest first."
    if any(level.siblings for level in plan.levels):
        text += " Siblings are the other units of the same parent; the reader uses the sum of their noisy counts too."
    return text


def _levels(scenario: Scenario) -> Table:
    table = Table(["level", "noise", "rho of the noise, one count", "standard deviation (people)", "siblings"], texts=2)
    for level in scenario.plan.levels:
        rho, deviation = level.mechanism.rho, float(np.sqrt(level.mechanism.variance))
        siblings = "–" if level.siblings is None else str(level.siblings)
        table.add(level.name, portraits.noise(level.mechanism), figure_of(rho), figure_of(deviation), siblings)
    return table


def _warnings(scenario: Scenario) -> list[str]:
    """Improper beliefs that a small count turns into evidence."""
    plan = scenario.plan
    found: dict[str, int] = {}
    for one in readers_of(scenario).values():
        counts = settle_truth(plan, one, scenario.truth).counts
        for cell in range(plan.cells):
            for i, given in enumerate(one.chain(plan, cell)):
                inside = counts[i - 1, cell] if i else 0
                near = 4.0 * np.sqrt(plan.levels[i].mechanism.variance)
                if isinstance(given, Uniform) and given.upper is None and counts[i, cell] - inside < near:
                    found.setdefault(plan.names[i], int(counts[i, cell]))
    return [
        f"The belief about the {name} is uniform without an upper end, and the true count there is small ({count}). "
        "Such a belief is not neutral about the target. A total is never below what lies inside it, so “in” rules out "
        "the smallest total that “out” still allows; a release that points to a small total then counts as evidence "
        f"for “out”, whatever the {plan.names[0]}'s own count shows, and the average is tilted. With a large total the "
        "tilt fades; with a belief that has an end and adds up to one it is made good elsewhere. Read these averages "
        "as those of this particular belief, not as what any careful neighbour would conclude."
        for name, count in found.items()
    ]


def _reading(tree: xr.DataTree) -> list[str]:
    definitions = [str(name) for name in tree["bound"].to_dataset()["definition"].values]
    itself = ", except that of probabilistic DP, which speaks of the release itself"
    after = (itself if "probabilistic DP" in definitions else "") + "."
    return [
        "Posterior and ratio always speak of “in”, also where the target is in truth out.",
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


def _provenance(scenario: Scenario, tree: xr.DataTree) -> list[tuple[str, str]]:
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
    for level in scenario.plan.levels:
        spent = "exact" if isinstance(level.mechanism, Exact) else f"{level.mechanism!r}"
        rows.append((f"Allocation: {level.name}", spent + _budget(scenario, level.name)))
    for name, promise in (scenario.guarantee or {}).items():
        rows.append((f"Promise: {name}", repr(promise)))
    return rows


def _budget(scenario: Scenario, name: str) -> str:
    """The budget of a level as the file states it."""
    row = next(row for row in scenario.document["plan"]["level"] if row["name"] == name)
    return "".join(f", from {key} = {row[key]}" for key in ("rho", "sigma", "epsilon", "scale") if key in row)
