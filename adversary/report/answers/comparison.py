"""Two audits side by side: one document, a column for each scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import xarray as xr

from adversary._core import format_number, format_probability, tied
from adversary.driver import shown_bound, side_by_side
from adversary.report import figures
from adversary.report.answers import audit_answer
from adversary.report.files import Scenario
from adversary.report.kit import (
    Card,
    Column,
    Document,
    Figure,
    Section,
    Summary,
    attempt,
    audit_words,
    guarded_document,
    profile_verdict,
    tabulate,
)
from adversary.report.kit.audit_words import definition_words, group, joined
from adversary.report.sections import method_sections, result_sections

COLUMNS = {
    "truth": Column("truth"),
    "adversary": Column("adversary"),
    "file": Column("plan"),
    "prior": Column("before", "probability"),
    "posterior_mean": Column("after, on average", "probability"),
    "range": Column("nine releases in ten", "% interval"),
    "bound": Column("at most", "% at most"),
    "bounded_by": Column("by"),
    "detections": Column("detections at 5 % false alarms", "probability"),
    "deviation": Column("error (people)", "number"),
    "status": Column("guarantee", "status"),
}
"""Of the table: risk, bound and error of each plan, the truths and adversaries of one above the other."""
LONGEST = 30
"""Letters of a title that names a plan in a table."""
Audits = Mapping[str, tuple[Scenario, xr.DataTree]]


def named(scenarios: Sequence[Scenario]) -> dict[str, Scenario]:
    """Scenarios by their titles, where these are short and tell them apart; else by their files."""
    titles, stems = [one.title for one in scenarios], [one.path.stem for one in scenarios]
    short = len(set(titles)) == len(titles) and all(0 < len(one) <= LONGEST for one in titles)
    paths = stems if len(set(stems)) == len(stems) else [str(one.path) for one in scenarios]
    return dict(zip(titles if short else paths, scenarios, strict=True))


def solve(audits: Audits) -> xr.DataTree:
    """Groups `compared` (file, truth, adversary) and `verdicts` (file)."""
    files = {
        file: side_by_side({name: _numbers_of_truth(part) for name, _, part in audit_words.cases(*one)}, "truth")
        for file, one in audits.items()
    }
    found = side_by_side(files, "file")
    own = [one.plan.levels[one.plan.own] for one, _ in audits.values()]
    found["deviation"] = ("file", [float(np.sqrt(level.mechanism.variance)) for level in own])
    judged = {"verdict": [_verdict(*one) for one in audits.values()]}
    judged["status"] = [audit_answer.worst_status(one) for _, one in audits.values()]
    verdicts = xr.Dataset({key: ("file", said) for key, said in judged.items()}, {"file": list(audits)})
    tree = xr.DataTree.from_dict({"compared": found, "verdicts": verdicts})
    tree.attrs = {f"scenario_{name}": audit_answer.fingerprint(one) for name, (one, _) in audits.items()}
    warned = [f"{name}: {line}" for name, (_, one) in audits.items() for line in audit_words.warnings(one)]
    return Summary(" and ".join(audits), ["compared", "verdicts"], _comparison(found), warnings=warned).on(tree)


def _numbers_of_truth(tree: xr.DataTree) -> xr.Dataset:
    """The numbers of one truth, over adversaries."""
    risk, bound = tree["risk"].to_dataset(), tree["bound"].to_dataset()
    shown = shown_bound(bound)
    found = joined(
        risk, prior=(risk, "prior"), unused=(group(tree, "baseline"), "posterior_mean"),
        posterior_mean=(risk, "posterior_mean"), ratio_mean=(risk, "ratio_mean"),
        detections=(result_sections.detections(tree), "detections"), epsilon=(group(tree, "empirical"), "epsilon"),
    )  # fmt: skip
    ends = {name: risk["posterior_quantile"].isel(quantile=at, drop=True) for name, at in (("low", 0), ("high", -1))}
    upper = shown["posterior"].sel(side="upper").drop_vars(["definition", "side"])
    named = shown["definition"].astype(object).drop_vars("definition")
    found = found.assign(ends | {"bound": upper.assign_attrs(direction="upper"), "bounded_by": named})
    return found if "adversary" in found.dims else found.expand_dims(adversary=[""])


def _verdict(scenario: Scenario, tree: xr.DataTree) -> str:
    said = audit_answer.VERDICTS[audit_answer.worst_status(tree)]
    if scenario.profile is None:
        return said
    return f"{said} {profile_verdict.verdict_sentence(profile_verdict.verdicts(scenario, tree))}"


@guarded_document
def document(audits: Audits, tree: xr.DataTree) -> Document:
    """The answer of `solve` for people."""
    found = tree["compared"].to_dataset()
    return Document(
        tree,
        Card(
            figure=Figure(
                "compared",
                partial(figures.audit_figures.compared_ranges, found),
                "The probability that the target is in, before and after each release, and the most it can be.",
            )
        ),
        [
            f"{name}: {one.name}. {tree['verdicts']['verdict'].sel(file=name).item()}"
            for name, (one, _) in audits.items()
        ],
        [
            attempt("Risk and error", _compared, tree),
            attempt("What is published", _published, audits),
        ],
        [("Scenario file", str(one.path.name)) for one, _ in audits.values()],
    )


def _compared(tree: xr.DataTree) -> Section:
    found = tree["compared"].to_dataset()
    ends = xr.concat([found["low"], found["high"]], "side")
    named = found["bounded_by"].astype(object).values
    words = [definition_words(str(one)) if isinstance(one, str) else "–" for one in named.ravel()]
    made = found.assign(range=ends, status=tree["verdicts"]["status"])
    made["bounded_by"] = (found["bounded_by"].dims, np.reshape(words, named.shape))
    table = tabulate(made, COLUMNS, name="compared", missing="–")
    return Section("Risk and error", tables=[table])


def _published(audits: Audits) -> Section:
    tables = [method_sections.levels(scenario) for scenario, _ in audits.values()]
    for name, table in zip(audits, tables, strict=True):
        table.title = name
    return Section("What is published", tables=tables)


def _comparison(found: xr.Dataset) -> str:
    """The highest risk of both files, and their errors, in a sentence."""
    second = str(found["file"].values[1])
    places = found["posterior_mean"].stack(place=("truth", "adversary"))
    at = places.argmax("place")
    ends, errors = places.isel(place=at).values, np.zeros(2)
    if "mcse" in found and "posterior_mean" in found["mcse"]["measure"].values:
        spread = found["mcse"].sel(measure="posterior_mean").stack(place=("truth", "adversary"))
        errors = spread.isel(place=at).fillna(0.0).values
    before, after = map(format_probability, ends)
    if tied(ends, errors).all():
        within = ", within the errors of the numbers" * bool(errors.any())
        said, price = f"The highest risk is the same in both, {before}{within}", "with"
    else:
        lower = ends[1] < ends[0]
        said = f"{second} {'lowers' if lower else 'raises'} the highest risk from {before} to {after}"
        price = "at the price of" if lower and found["deviation"][1] > found["deviation"][0] else "with"
    old, new = (format_number(float(one)) for one in found["deviation"].values)
    return (
        f"{said}, {price} errors of {new} instead of {old} people."
        if old != new
        else f"{said}; errors of {old} people."
    )
