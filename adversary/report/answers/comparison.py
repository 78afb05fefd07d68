"""Two audits side by side: one document, a column for each scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import xarray as xr

from adversary._core import format_number, format_probability, tied
from adversary.driver import shown_bound, side_by_side
from adversary.report import figures
from adversary.report.answers import audit_answer
from adversary.report.files import Scenario
from adversary.report.kit import (
    Column,
    Document,
    Figure,
    Section,
    Summary,
    Table,
    attempt,
    audit_words,
    guarded_document,
    profile_verdict,
    tabulate,
)
from adversary.report.kit.audit_words import definition_words, group, joined
from adversary.report.sections import method_sections, result_sections

TABLES = {
    "probabilities": ("probability", {
        "prior": "prior",
        "unused": "expected posterior, record not used",
        "posterior_mean": "expected posterior",
        "detections": "detections at 5 % false alarms",
    }),
    "ranges": ("% interval", {"range": "nine releases in ten"}),
    "bounds": ("% at most", {}),
    "numbers": ("number", {"ratio_mean": "expected ratio", "epsilon": "empirical epsilon"}),
}  # fmt: skip
"""Kind of the columns of each table, its quantities, and what they are called; bounds by the names they have."""
Audits = Mapping[str, tuple[Scenario, xr.DataTree]]


def solve(audits: Audits) -> xr.DataTree:
    """Groups `compared` (file, truth, adversary) and `verdicts` (file)."""
    files = {
        file: side_by_side({name: _numbers_of_truth(part) for name, _, part in audit_words.cases(*one)}, "truth")
        for file, one in audits.items()
    }
    found = side_by_side(files, "file")
    verdicts = xr.Dataset({"verdict": ("file", [_verdict(*one) for one in audits.values()])}, {"file": list(audits)})
    tree = xr.DataTree.from_dict({"compared": found, "verdicts": verdicts})
    tree.attrs = {f"scenario_{name}": audit_answer.fingerprint(one) for name, (one, _) in audits.items()}
    warned = [f"{name}: {line}" for name, (_, one) in audits.items() for line in audit_words.warnings(one)]
    largest = f"Largest expected posterior: {_largest(found, 'posterior_mean', format_probability)}."
    return Summary(" and ".join(audits), ["compared", "verdicts"], largest, warnings=warned).on(tree)


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
        None,
        [f"{name}: {one.name}" for name, (one, _) in audits.items()],
        [
            attempt("What adversaries learn", _learned, audits, found),
            attempt("Verdicts", _judged, audits, tree["verdicts"].to_dataset()),
            attempt("What is published", _published, audits),
        ],
        [("Scenario file", str(one.path.name)) for one, _ in audits.values()],
    )


def _learned(audits: Audits, found: xr.Dataset) -> Section:
    ratios = _largest(found, "ratio_mean", format_number)
    first = {name: audit_words.cases(*one)[0][2] for name, one in audits.items()}
    drawn = [
        Figure(
            f"beliefs {name}",
            partial(figures.audit_figures.belief_ranges, part),
            f"{name}: before and after the release.",
        )
        for name, part in first.items()
    ]
    tables = [_table(found, name) for name in TABLES]
    return Section("What adversaries learn", f"Largest expected ratio: {ratios}.", tables=tables, figures=drawn)


def _judged(audits: Audits, verdicts: xr.Dataset) -> Section:
    rows = [(str(name), str(verdicts["verdict"].sel(file=name).item())) for name in audits]
    return Section("Verdicts", tables=[Table(["scenario", "verdict"], [*rows], name="verdicts")])


def _published(audits: Audits) -> Section:
    tables = [method_sections.levels(scenario) for scenario, _ in audits.values()]
    for name, table in zip(audits, tables, strict=True):
        table.title = name
    return Section("What is published", tables=tables)


def _largest(found: xr.Dataset, measure: str, write: Callable[[float], str]) -> str:
    """The largest average in each file, or that it is the same in both."""
    names, places = [str(name) for name in found["file"].values], found[measure].stack(place=("truth", "adversary"))
    ends = places.isel(place=places.argmax("place"))
    errors = np.zeros(len(names))
    if "mcse" in found and measure in found["mcse"]["measure"].values:
        of_measure = found["mcse"].sel(measure=measure).stack(place=("truth", "adversary"))
        errors = of_measure.isel(place=places.argmax("place")).fillna(0.0).values
    if tied(ends.values, errors).all():
        return f"{write(float(ends[0]))}, the same in both{' within the errors of the numbers' * bool(errors.any())}"
    return ", ".join(f"{write(float(end))} ({name})" for end, name in zip(ends.values, names, strict=True))


def _table(found: xr.Dataset, name: str) -> Table:
    """Quantities by truth and adversary, a column for each file."""
    kind, words = TABLES[name]
    names = [str(name) for name in found["file"].values]
    if name == "ranges":
        found = found.assign(range=xr.concat([found["low"], found["high"]], "side"))
    if name == "bounds":
        chosen = [str(one) for one in np.unique(found["bounded_by"].values.astype(str)) if one != "nan"]
        words = {one: f"posterior at most, by {definition_words(one)}" for one in chosen}
        found = found.assign({one: found["bound"].where(found["bounded_by"] == one) for one in chosen})
    values = found[list(words)].to_dataarray("quantity")
    made = values.to_dataset("file")[names]
    if "mcse" in found:
        errors = found["mcse"].rename(measure="quantity").reindex(quantity=list(words)).fillna(0.0)
        made = made.assign(mcse=errors.rename(file="measure"))
    columns = {"truth": "truth", "adversary": "adversary", "quantity": ""} | {
        name: Column(name, kind) for name in names
    }
    return tabulate(made, columns, name=name, called={"quantity": words}, missing="–")
