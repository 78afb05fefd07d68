"""`adversary invariants`: the privacy cost of exact statistics, for a scenario or for a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import xarray as xr

from adversary.driver import audit
from adversary.privacy import Guarantee
from adversary.report.answers import how, table_answer
from adversary.report.commands.options import SEED, Truths, answering, read_scenario
from adversary.report.files import Scenario, TableFile, load_table_file, read_toml
from adversary.report.kit import (
    Answer,
    Card,
    Document,
    Figure,
    Section,
    Summary,
    attempt,
    audit_words,
    guarded_document,
    safe_names,
)
from adversary.report.sections import exact_adversaries, exact_guarantees
from adversary.report.sections.exact_guarantees import GuaranteesWithTotals


@answering("scenario")
def invariants_command(
    scenario: Annotated[
        Path,
        typer.Argument(
            help=r"Scenario file with an exact level or \[invariants], or a table file.", metavar="SCENARIO.toml"
        ),
    ],
    truth: Truths = None,
    failure: Annotated[
        float | None, typer.Option(help="Probability with which a bound that is not certain may fail.", metavar="P")
    ] = None,
) -> Answer:
    """What exact totals beside a noisy release cost: guarantees with and without them, and what is learned."""
    return (_table if _is_table(scenario) else _plan)(scenario, truth, failure)


def _is_table(path: Path) -> bool:
    """True for a table file, False for a scenario; ValueError for both in one file."""
    document = read_toml(path)
    if "table" in document and "plan" in document:
        raise ValueError(f"{path}: give either [plan] or [table], got both")
    return "table" in document


def _plan(path: Path, changes: list[str] | None, failure: float | None) -> Answer:
    """Answer about a scenario, which is audited by the exact engine; `changes` are those of `--truth`."""
    scenario = read_scenario(path, changes)
    totals = exact_adversaries.require_totals(scenario)
    chance = scenario.failure if failure is None else failure
    what = (scenario.plan, scenario.adversary, scenario.truth)
    tree = audit(
        *what, guarantee=scenario.guarantee, invariants=scenario.margins, failure=chance, rng=SEED, progress=True
    )
    pairs = exact_guarantees.before_and_after(scenario.guarantee, totals)
    beside = GuaranteesWithTotals(scenario.invariants, totals, pairs, exact_adversaries.releases(scenario))
    groups = beside.solve()
    cases = audit_words.cases(scenario, tree)
    solved = [exact_adversaries.solve(one, part) for _, one, part in cases]
    names = [name for name, _, _ in cases]
    for group in solved[0]:
        each = [one[group] for one in solved]
        groups[group] = xr.concat(each, dim="truth").assign_coords(truth=names) if names[0] else each[0]
    for group, numbers_of in groups.items():
        tree[group] = xr.DataTree(numbers_of)
    computed = [("Computed by", how(cases[0][2]))] * bool(solved[0])
    show = partial(_plan_document, scenario, beside, list(zip(cases, solved, strict=True)), computed)
    return Answer(_summarised(scenario, tree, beside, groups, audit_words.warnings(tree)), show)


def _table(path: Path, changes: list[str] | None, failure: float | None) -> Answer:
    """Answer about a table file."""
    if changes:
        raise ValueError(f"--truth replaces counts of a scenario; {path} is a table file, got {changes[0]!r}")
    file = load_table_file(path, failure)
    beside, results = table_answer.guarantees_with_totals(file), table_answer.solve(file)
    groups = beside.solve() | results
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(seed=table_answer.SEED, **{key: results["table"].attrs[key] for key in ("engine", "status")})
    return Answer(_summarised(file, tree, beside, groups), partial(_table_document, file, beside))


def _summarised(
    file: Any,
    tree: xr.DataTree,
    beside: GuaranteesWithTotals,
    groups: Mapping[str, xr.Dataset],
    warnings: Sequence[str] = (),
) -> xr.DataTree:
    """Store title, source and summary in the tree, and return it."""
    tree.attrs.update(title=file.name, source=file.source)
    return Summary(file.name, list(groups), beside.verdict, warnings=warnings).on(tree)


@guarded_document
def _plan_document(
    scenario: Scenario,
    beside: GuaranteesWithTotals,
    cases: Sequence[tuple[tuple[str, Scenario, xr.DataTree], Mapping[str, xr.Dataset]]],
    computed: Sequence[tuple[str, str]],
    tree: xr.DataTree,
) -> Document:
    """Document on a plan: the guarantees, then the results of adversaries under each truth."""
    files = safe_names(name for (name, *_), _ in cases)
    parts = [
        attempt(exact_adversaries.LEARNED, exact_adversaries.learned, one, part, numbers, files[name])
        for (name, one, part), numbers in cases
    ]
    return _document(scenario, beside, [*filter(None, parts)], computed, tree)


@guarded_document
def _table_document(file: TableFile, beside: GuaranteesWithTotals, tree: xr.DataTree) -> Document:
    """Document on a table: the guarantees, then the disclosure by the table and the cost of noise."""
    groups = {name: node.to_dataset() for name, node in tree.children.items()}
    return _document(file, beside, table_answer.sections(file, groups), (), tree)


def _document(
    file: Any,
    beside: GuaranteesWithTotals,
    parts: Sequence[Section],
    computed: Sequence[tuple[str, str]],
    tree: xr.DataTree,
) -> Document:
    """Document of the guarantees and other parts; the first finding of these is the sentence of the card."""
    drawn = [] if beside.totals.disclosed else _trade_off(beside.pairs)
    groups = {name: tree[name].to_dataset() for name in exact_guarantees.LISTED if name in tree.children}
    first = attempt("What exact totals do to the guarantee", beside.section, groups, drawn)
    card = Card(figure=next((figure for part in parts for figure in part.figures), None))
    for part in parts[:1]:
        card.sentence = part.finding
        part.figures = [one for one in part.figures if one is not card.figure]
    return Document(
        tree,
        card,
        [file.description] * bool(file.description),
        [first, *parts],
        provenance=[*file.provenance, *computed],
    )


def _trade_off(pairs: Mapping[str, tuple[Guarantee, Guarantee]]) -> list[Figure]:
    """Figure of the trade-off of the first guarantee, for one record and given the totals."""

    def draw(name: str, before: Guarantee, after: Guarantee) -> Any:
        from adversary.report.plot import trade_off

        return trade_off({f"{name}, one record": before, f"{name}, beside totals": after})

    caption = "Most detections that any test of one record has at each false alarm probability, before and after."
    return [Figure("guarantee", partial(draw, name, *pair), caption) for name, pair in list(pairs.items())[:1]]
