"""The HTML report of an audit, in plain words, with its figures inside; and the audit itself as NetCDF beside it.

The words live in `report.html.j2`; this module gathers what they speak of. Everything from a scenario file is escaped.
"""

from __future__ import annotations

import base64
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from adversary._numeric import logit
from adversary.desk import portraits, words
from adversary.desk.scenarios import Scenario
from adversary.desk.words import between, figure_of, of_reader, readers_of, share
from adversary.privacy.mechanisms import Exact
from adversary.reader.beliefs import Uniform
from adversary.reader.inference import Adversary
from adversary.reader.laws import factor_law, invariant_factor
from adversary.reader.plans import Plan
from adversary.reader.truths import settle_truth

NAMES = ("report.html", "audit.nc")
ALTERNATIVES = (("unbounded", 1), ("bounded", 1), ("bounded", 2))


@dataclass
class Table:
    """Rows of text; the first `texts` columns are words, the others numbers. `used` rows are highlighted."""

    heads: list[str]
    texts: int = 1
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, *cells: str, used: bool = False, **more: Any) -> None:
        if len(cells) > len(self.heads):
            raise ValueError(f"a row has at most {len(self.heads)} cells, got {len(cells)}")
        self.rows.append({"cells": cells, "used": used, **more})


def write_report(scenario: Scenario, tree: xr.DataTree, directory: str | Path) -> tuple[Path, Path]:
    """Write `report.html` and `audit.nc` into a directory, which is made if need be; both or neither.

    Each is written under a temporary name there and renamed. The report needs nothing outside itself.

    Raises
    ------
    OSError : the directory cannot be written, said before any figure is drawn
    """
    folder = check_directory(directory)
    page = render(scenario, tree)
    with _temporary(folder, NAMES) as (html, data):
        html.write_text(page, encoding="utf-8")
        tree.to_netcdf(data, engine="h5netcdf")
        return html.replace(folder / NAMES[0]), data.replace(folder / NAMES[1])


def check_directory(directory: str | Path) -> Path:
    """The directory, made if need be and known to be writable; OSError otherwise."""
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        why = "it is a file" if folder.is_file() else error.strerror or error
        raise OSError(f"cannot write into {folder}: {why}") from None


@contextmanager
def _temporary(folder: Path, names: tuple[str, ...]) -> Iterator[list[Path]]:
    paths = [folder / f".{os.getpid()}-{name}" for name in names]
    try:
        yield paths
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def render(scenario: Scenario, tree: xr.DataTree) -> str:
    """The report as one HTML page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(Path(__file__).parent)
    page = Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template("report.html.j2")
    every = words.cases(scenario, tree)
    return page.render(
        title=scenario.title or scenario.path.name,
        description=scenario.description,
        source=scenario.source.rstrip("."),
        summary=[line for name, one, part in every for line in _summary(name, one, part)],
        published=_published(scenario.plan),
        levels=_levels(scenario),
        readers=[portraits.reader(scenario.plan, one, name) for name, one in readers_of(scenario).items()],
        warnings=_warnings(every[0][1]),
        neighbours=_neighbours(scenario, every[0][0]),
        alternatives=_alternatives(every[0][1], every[0][2]),
        cases=[_case(name, one, part) for name, one, part in every],
        reading=_reading(tree),
        provenance=_provenance(scenario, tree),
    )


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


def _neighbours(scenario: Scenario, truth: str) -> list[str]:
    unbounded = (
        "a record is added or removed (unbounded neighbours): one count of every query moves by one, and the budget "
        "rho buys noise with sigma² = 1/(2 rho)"
    )
    bounded = (
        "a record changes (bounded neighbours, as in the 2020 Census): two counts of every query move by one each, and "
        "the same rho buys noise with sigma² = 1/rho, twice the variance"
    )
    mine, other = (unbounded, bounded) if scenario.neighbours == "unbounded" else (bounded, unbounded)
    return [
        f"This scenario's budget speaks of neighbours between which {mine}.",
        f"The same budget could have been meant for neighbours between which {other}. Under bounded neighbours it also "
        "matters whether the reader watches the target's cell alone or both cells that a change would move. The table "
        f"gives the averages under each reading of the budget{f', for the truth {truth}' if truth else ''}.",
    ]


def _alternatives(scenario: Scenario, tree: xr.DataTree) -> Table:
    """The same budget and reader under the other neighbours."""
    several = isinstance(scenario.adversary, dict)
    heads = ["neighbours", "cells read", *["reader"] * several, "noise variance, level by level (people²)"]
    table = Table([*heads, "expected posterior", "ratio", "right guesses"], texts=len(heads) - 1)
    own = (scenario.neighbours, scenario.plan.cells)
    for neighbours, cells in sorted({*ALTERNATIVES, own}, key=lambda pair: (pair[0] == "bounded", pair[1])):
        used = (neighbours, cells) == own
        try:
            other = scenario if used else scenario.with_neighbours(neighbours, cells)
        except (ValueError, TypeError) as error:
            table.add(neighbours, str(cells), *["–"] * several, f"does not apply: {error}")
            continue
        variance = ", ".join(figure_of(level.mechanism.variance) for level in other.plan.levels)
        for name, one in readers_of(other).items():
            numbers = _averages(tree, name) if used else _computed(other, one)
            cell = "one" if cells == 1 else "both"
            table.add(neighbours, cell, *[name] * several, variance, *_shown(numbers), used=used)
    return table


def _averages(tree: xr.DataTree, name: str) -> tuple[float, float, float]:
    one = of_reader(tree["risk"].to_dataset(), name)
    return float(one["posterior_mean"]), float(one["ratio_mean"]), float(one["prob_correct"])


def _computed(scenario: Scenario, one: Adversary) -> tuple[float, float, float]:
    from adversary.desk.sweeps import coarse_law

    truth = settle_truth(scenario.plan, one, scenario.truth)
    law = factor_law(scenario.plan, one, truth, rng=0, progress=True)
    correct = law.prob_correct()[0]
    law = coarse_law(law) if law.simulated else law
    posterior = law.posterior_mean()[0]
    invariant = invariant_factor(scenario.plan, one, truth)
    base = float(expit(logit(one.prior) + invariant)) if invariant else 0.0
    ratio = posterior / base if base else law.ratio_mean()[0]
    return posterior, ratio, correct


def _shown(numbers: tuple[float, float, float]) -> tuple[str, str, str]:
    return share(numbers[0]), figure_of(numbers[1]), share(numbers[2])


def _case(name: str, scenario: Scenario, tree: xr.DataTree) -> dict[str, Any]:
    """One truth: results, bounds, figures."""
    first = next(iter(readers_of(scenario).values()))
    target = settle_truth(scenario.plan, first, scenario.truth).target
    return {
        "name": name,
        "truth": portraits.truth(scenario, target),
        "results": _results(scenario, tree),
        "notes": _notes(scenario, tree),
        "bounds": _bounds(scenario, tree),
        "figures": _figures(scenario, tree),
    }


def _results(scenario: Scenario, tree: xr.DataTree) -> Table:
    several = isinstance(scenario.adversary, dict)
    heads = [*["reader"] * several, "prior", "expected posterior", "in nine releases of ten", "expected ratio"]
    table = Table([*heads, "expected difference (points)", "right guesses", "ties"], texts=int(several))
    for name in readers_of(scenario):
        one = of_reader(tree["risk"].to_dataset(), name)
        quantile = one["posterior_quantile"].values
        table.add(
            *[name] * several,
            share(float(one["prior"])),
            share(float(one["posterior_mean"])) + words.error(one, "posterior_mean", 100.0),
            f"{share(float(quantile[0]))} to {share(float(quantile[-1]))}",
            figure_of(float(one["ratio_mean"])) + words.error(one, "ratio_mean"),
            figure_of(100.0 * float(one["difference_mean"])) + words.error(one, "difference_mean", 100.0),
            share(float(one["prob_correct"])) + words.error(one, "prob_correct", 100.0),
            share(float(one["tie_mass"])),
        )
    return table


def _notes(scenario: Scenario, tree: xr.DataTree) -> Iterator[str]:
    """What the numbers are, and what the further releases are worth."""
    risk = tree["risk"].to_dataset()
    if risk["posterior_mean"].attrs.get("direction") == "exact":
        yield "These averages are exact sums over every release, up to a mass below the one stated at the end."
    else:
        yield (
            f"These averages are estimates from {int(tree.attrs.get('draws', 0))} simulated releases; ± is one Monte "
            "Carlo standard error."
        )
    if "invariant_ratio" in risk:
        yield "Prior here means the prior given what is published exactly; ratio and difference start from there."
    if len(scenario.plan.levels) * scenario.plan.cells > 1 and "wrong_to_right" in risk:
        for name in readers_of(scenario):
            one = of_reader(risk, name)
            gained, lost = float(one["wrong_to_right"]), float(one["right_to_wrong"])
            alone = float(one["prob_correct"]) - gained + lost
            yield (
                f"{f'Reader {name}: w' if name else 'W'}ith the lowest release alone the guess would be right in "
                f"{share(alone)} of releases. The further releases turn {share(gained)} of them from wrong to right "
                f"and {share(lost)} from right to wrong."
            )


def _bounds(scenario: Scenario, tree: xr.DataTree) -> Table:
    several = isinstance(scenario.adversary, dict)
    heads = [*["reader"] * several, "promise", "posterior", "ratio", "difference (points)"]
    heads += ["may fail in", "releases beyond it", "k", "status"]
    table = Table(heads, texts=1 + several)
    for name in readers_of(scenario):
        bound = of_reader(tree["bound"].to_dataset(), name)
        for definition in bound["definition"].values:
            one = bound.sel(definition=definition)
            difference = [100.0 * float(v) for v in one["difference"].values]
            table.add(
                *[name] * several,
                words.called(str(definition)),
                between(*(float(v) for v in one["posterior"].values), percent=True),
                between(*(float(v) for v in one["ratio"].values)),
                between(difference[0], difference[1]),
                share(float(one["failure"])),
                words.beyond(float(one["outside"])),
                str(int(one["k"])),
                status=str(one["status"].item()),
                verdict=words.STATUS[str(one["status"].item())],
            )
    return table


def _figures(scenario: Scenario, tree: xr.DataTree) -> Iterator[dict[str, str]]:
    from adversary.desk import audited, figures

    lowest = scenario.plan.names[0]
    more = len(scenario.plan.levels) * scenario.plan.cells > 1
    averaged = " The curve averages over everything else that is released." if more else ""
    drawn: list[tuple[Callable[[Scenario, xr.DataTree], Any], str]] = [
        (
            figures.posterior_by_release,
            f"What a released count of the {lowest} does to the reader's belief. Bars show how often each value comes "
            f"up.{averaged}",
        ),
        (
            figures.ratio_by_prior,
            "Posterior over prior at other priors, all else as in this scenario. Solid: average over releases; dotted: "
            "what 19 releases in 20 stay below; dashed: bounds, rounded outward. Dots: the scenario's readers.",
        ),
        (
            figures.risk_by_budget,
            "The same scenario with the budget of every level multiplied by one tenth to ten. Large dots: as planned. "
            "Right guesses are computed at separate budgets and not joined: below a prior of one half they jump.",
        ),
    ]
    drawn += [
        (
            audited.tests_of_readers,
            "What a test can detect. Curves: the most any test detects at each rate of false alarms, under each "
            "promise (dashed) and with this noise when everybody else is known (solid). Dots: tests that decide “in” "
            "where this reader's posterior is large enough, everybody else being as they truly are.",
        ),
        (
            audited.posteriors_of_readers,
            "How sure the release leaves the reader, over all releases, everybody else being as they truly are: with "
            "the target in and with the target out. Intervals: what each promise allows at that prior.",
        ),
    ]
    if isinstance(scenario.adversary, dict):
        drawn.append((figures.risk_by_reader, "Every reader beside the bounds that cover them."))
    for draw, text in drawn:
        try:
            yield {"source": _inline(draw(scenario, tree)), "text": text}
        except ValueError as error:
            yield {"source": "", "text": f"Left out: {text} ({error})"}


def _inline(figure: Any) -> str:
    """The figure as an SVG inside a data address."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


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
