"""Answer of `adversary compare`: two audits side by side, of scenarios or of files of several tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import xarray as xr

from adversary._core import HEADLINE, Floats, format_apart, format_number, percent, tied
from adversary.driver import shown_bound, side_by_side
from adversary.report import plot
from adversary.report.answers import audit_answer
from adversary.report.files import FileDescription, Scenario, TablesFile
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
    summary_of,
    tabulate,
)
from adversary.report.kit.audit_words import definition_words, group, joined
from adversary.report.sections import method_sections, result_sections

# Columns of the table of risk, bound and error, with a row for each truth, adversary and plan.
COLUMNS = {
    "truth": Column("truth"),
    "adversary": Column("adversary"),
    "file": Column("plan"),
    "prior": Column("before", "probability"),
    "posterior_mean": Column("after, on average", "probability"),
    "range": Column("9 of 10 releases", "% interval"),
    "bound": Column("at most", "% at most"),
    "bounded_by": Column("by"),
    "detections": Column("detections at 5% false alarms", "probability"),
    "deviation": Column("error (people)", "number"),
    "status": Column("guarantee", "status"),
}

# Longest title, in letters, that names a plan in a table; longer ones are replaced by the name of the file.
LONGEST = 30
type Audits = Mapping[str, tuple[Scenario, xr.DataTree]]


def named[File: FileDescription](scenarios: Sequence[File]) -> dict[str, File]:
    """Files by their titles if these are short and different, else by the names of the files."""
    titles, stems = [one.title for one in scenarios], [one.path.stem for one in scenarios]
    short = len(set(titles)) == len(titles) and all(0 < len(one) <= LONGEST for one in titles)
    paths = stems if len(set(stems)) == len(stems) else [str(one.path) for one in scenarios]
    return dict(zip(titles if short else paths, scenarios, strict=True))


def solve(audits: Audits) -> xr.DataTree:
    """Tree of a comparison: groups `compared` (file, truth, adversary) and `verdicts` (file), and the summary."""
    files = {
        file: side_by_side({name: _numbers_of_truth(part) for name, _, part in audit_words.cases(*one)}, "truth")
        for file, one in audits.items()
    }
    compared = side_by_side(files, "file")
    own = [one.plan.levels[one.plan.own] for one, _ in audits.values()]
    compared["deviation"] = ("file", [float(np.sqrt(level.mechanism.variance)) for level in own])
    judged = {"verdict": [_verdict(*one) for one in audits.values()]}
    judged["status"] = [audit_answer.worst_status(one) for _, one in audits.values()]
    verdicts = xr.Dataset({key: ("file", status_words) for key, status_words in judged.items()}, {"file": list(audits)})
    tree = xr.DataTree.from_dict({"compared": compared, "verdicts": verdicts})
    tree.attrs = {f"scenario_{name}": audit_answer.fingerprint(one) for name, (one, _) in audits.items()}
    warned = [f"{name}: {line}" for name, (_, one) in audits.items() for line in audit_words.warnings(one)]
    worst = compared["posterior_mean"].stack(place=("truth", "adversary"))
    at = worst.argmax("place")
    errors = np.zeros(2)
    if "mcse" in compared and "posterior_mean" in compared["mcse"]["measure"].values:
        spread = compared["mcse"].sel(measure="posterior_mean").stack(place=("truth", "adversary"))
        errors = spread.isel(place=at).fillna(0.0).values
    sentence = _comparison(
        str(compared["file"].values[1]), worst.isel(place=at).values, errors, compared["deviation"].values
    )
    return Summary(" and ".join(audits), ["compared", "verdicts"], sentence, warnings=warned).on(tree)


def _numbers_of_truth(tree: xr.DataTree) -> xr.Dataset:
    """Averages and bounds of one audit under one truth, by adversary."""
    risk, bound = tree["risk"].to_dataset(), tree["bound"].to_dataset()
    shown = shown_bound(bound)
    numbers = joined(
        risk, prior=(risk, "prior"), unused=(group(tree, "baseline"), "posterior_mean"),
        posterior_mean=(risk, "posterior_mean"), ratio_mean=(risk, "ratio_mean"),
        detections=(result_sections.detections(tree), "detections"), epsilon=(group(tree, "empirical"), "epsilon"),
    )  # fmt: skip
    ends = {name: risk["posterior_quantile"].isel(quantile=at, drop=True) for name, at in (("low", 0), ("high", -1))}
    upper = shown["posterior"].sel(side="upper").drop_vars(["definition", "side"])
    named = shown["definition"].astype(object).drop_vars("definition")
    numbers = numbers.assign(ends | {"bound": upper.assign_attrs(direction="upper"), "bounded_by": named})
    return numbers if "adversary" in numbers.dims else numbers.expand_dims(adversary=[""])


def _verdict(scenario: Scenario, tree: xr.DataTree) -> str:
    """Verdict on the guarantees, and on the profile if there is one."""
    words = audit_answer.VERDICTS[audit_answer.worst_status(tree)]
    if scenario.profile is None:
        return words
    return f"{words} {profile_verdict.verdict_sentence(profile_verdict.verdicts(scenario, tree))}"


@guarded_document
def document(audits: Audits, tree: xr.DataTree) -> Document:
    """Document of a comparison of scenarios."""
    compared = tree["compared"].to_dataset()
    return Document(
        tree,
        Card(
            figure=Figure(
                "compared",
                partial(plot.compared_ranges, compared),
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
    """Section with the table of risk, bound and error."""
    compared = tree["compared"].to_dataset()
    ends = xr.concat([compared["low"], compared["high"]], "side")
    named = compared["bounded_by"].astype(object).values
    words = [definition_words(str(one)) if isinstance(one, str) else "–" for one in named.ravel()]
    made = compared.assign(range=ends, status=tree["verdicts"]["status"])
    made["bounded_by"] = (compared["bounded_by"].dims, np.reshape(words, named.shape))
    table = tabulate(made, COLUMNS, name="compared", missing="–")
    return Section("Risk and error", tables=[table])


def _published(audits: Audits) -> Section:
    """Section with the levels of each plan."""
    tables = [method_sections.levels(scenario) for scenario, _ in audits.values()]
    for name, table in zip(audits, tables, strict=True):
        table.title = name
    return Section("What is published", tables=tables)


def _comparison(second: str, risks: Floats, errors: Floats, deviations: Floats, where: str = "") -> str:
    """Sentence on the largest risk of both files and the errors of their noise.

    Parameters
    ----------
    second : name of the second file
    risks, errors : largest risk of each file, and its standard error
    deviations : standard deviation of the noise of each file, in people
    where : end of the sentence, on the table whose noise it is
    """
    before, after = format_apart(percent, map(float, risks), HEADLINE)
    if tied(risks, errors).all():
        within = ", within the errors of the numbers" * bool(errors.any())
        sentence, price = f"The highest risk is the same in both, {before}{within}", "with"
    else:
        lower = risks[1] < risks[0]
        sentence = f"{second} {'lowers' if lower else 'raises'} the highest risk from {before} to {after}"
        price = "at the price of" if lower and deviations[1] > deviations[0] else "with"
    old, new = format_apart(format_number, map(float, deviations), HEADLINE)
    if old == new:
        return f"{sentence}; errors of {old} people{where}."
    return f"{sentence}, {price} errors of {new} instead of {old} people{where}."


def solve_tables(trees: Mapping[str, xr.DataTree]) -> xr.DataTree:
    """Tree of a comparison of files of several tables: groups `compared` (file) and `errors` (file, table)."""
    names = [*trees]
    risks = {name: one["people"].to_dataset() for name, one in trees.items()}
    rows = {
        "prior": [float(one["summary"]["prior"]) for one in trees.values()],
        "posterior_mean": [float(one["posterior_mean"][0]) for one in risks.values()],
        "low": [float(one["posterior_low"][0]) for one in risks.values()],
        "high": [float(one["posterior_high"][0]) for one in risks.values()],
        "median": [float(one["summary"]["median"]) for one in trees.values()],
        "bound": [float(one["summary"]["bound"]) for one in trees.values()],
        "status": [summary_of(one).status for one in trees.values()],
    }
    compared = xr.Dataset({key: ("file", value) for key, value in rows.items()}, {"file": names})
    compared["bound"].attrs["direction"] = "upper"
    deviations = [one["tables"].to_dataset()["deviation"] for one in trees.values()]
    errors = xr.concat(deviations, "file", join="outer").assign_coords(file=names).to_dataset(name="deviation")
    tree = xr.DataTree.from_dict({"compared": compared, "errors": errors})
    common = errors["deviation"].dropna("table")
    shown = common.isel(table=0) if common.sizes["table"] else deviations
    spread = [float(one["mcse"].isel(measure=0, row=0)) for one in risks.values()]
    wide = np.array([float(one.values.ravel()[0]) for one in shown])
    where = f" in {common['table'].values[0]}" if common.sizes["table"] else " in the first table of each"
    sentence = _comparison(names[1], compared["posterior_mean"].values, np.array(spread), wide, where)
    warned = [f"{name}: {line}" for name, one in trees.items() for line in summary_of(one).warnings]
    if len({*compared["prior"].values.tolist()}) > 1:
        before, after = format_apart(percent, map(float, compared["prior"].values), HEADLINE)
        warned.insert(0, f"The priors differ, {before} and {after}: the risks differ by that too.")
    if not common.sizes["table"]:
        warned.insert(0, "No table is in both files: the risks may be those of different people.")
    return Summary(" and ".join(names), ["compared", "errors"], sentence, warnings=warned).on(tree)


@guarded_document
def tables_document(files: Mapping[str, TablesFile], tree: xr.DataTree) -> Document:
    """Document of a comparison of files of several tables."""
    compared, errors = tree["compared"].to_dataset(), tree["errors"].to_dataset()
    names = [str(one) for one in errors["table"].values]
    wide = {f"error {i}": errors["deviation"].sel(table=name, drop=True) for i, name in enumerate(names)}
    made = compared.assign(wide | {"range": xr.concat([compared["low"], compared["high"]], "side")})
    columns = {key: COLUMNS[key] for key in ("file", "prior", "posterior_mean", "range")}
    columns |= {"median": Column("median", "probability"), "bound": COLUMNS["bound"]}
    columns |= {key: Column(f"error (people): {name}", "number") for key, name in zip(wide, names, strict=True)}
    columns["status"] = COLUMNS["status"]
    table = tabulate(made, columns, name="compared", missing="–")
    drawn = compared.expand_dims(truth=[""], adversary=[""])
    caption = "The highest risk in each: before and after the release, and the most that the noise allows."
    return Document(
        tree,
        Card(figure=Figure("compared", partial(plot.compared_ranges, drawn), caption)),
        [f"{name}: {one.name}." for name, one in files.items() if one.name != name],
        [Section("Risk and error", "The highest risk of each plan, and the error of every table.", tables=[table])],
        [("File", str(one.path.name)) for one in files.values()],
    )
