"""The HTML page about every block of a spine: what was read and promised, how the risk is spread, the worst blocks.

It is laid out like the report of an audit and needs nothing outside itself. Geocodes and everything else from files are
escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from adversary._core import __version__, between, figure_of, percent, share
from adversary.desk.kit import PageSection, PageTable, check_directory, page_template, shown
from adversary.nmf.runs import (
    FAILURE,
    MISTAKEN,
    PROVEN,
    QUANTILES,
    Columns,
    Findings,
    Question,
    Run,
    cells_of,
    column,
    description,
    findings,
    of_cell,
)

if TYPE_CHECKING:
    import xarray as xr

NAME = "spine.html"
DRAWN = 12
"""Rows of the figure of blocks."""
NOTED = 12
"""Notes on what was read."""

UNKNOWN = "nothing of the others in the block, who follow the prior of the blocks' counts given everything else"

MEANING = {
    "ok": "found, and proven to the tolerance",
    "rerun": "found and proven in a second run, with windows about what the reader knows",
    "certain": "settled by counts that are published exactly; no noise protects it",
    "impossible": "what the reader is said to know contradicts the exact counts",
    MISTAKEN: "the release contradicts what the reader is said to know; left out of all other numbers",
    "unresolved": "not proven, so that no number is given",
    "loose": "more may have been left out than the tolerance allows",
}
"""What a block's status means."""


@dataclass(frozen=True)
class SpinePage:
    """What a page is about.

    Parameters
    ----------
    table : results by column, see `spine_units.COLUMNS`, of one cell; or what was found in them, as `findings` gives it
    source, query, cell : where the counts came from, the query, and its cell in words
    prior : of the reader about the one person
    known : what the reader is taken to know of the others in the block, in words
    leaf_prior : what is believed of the other blocks' counts, in words
    dropped, tolerance : the proven bound on what was left out, None where it was not kept; and what was asked for
    failure : with which the bounds of the promise may fail
    thresholds : ratios of posterior to prior to read shares off at
    prob : of the intervals of counts
    errors : `spine_results.errors`, where the truth is known
    exact : what was used that has no noise, in words
    mistaken : posterior probability of what the reader knows below which a block is listed apart
    notes : what else to say of what was read
    synthetic : whether nobody in it exists
    """

    table: Columns | Findings
    source: str
    query: str
    cell: str = ""
    prior: float = 0.1
    known: str = UNKNOWN
    leaf_prior: str = ""
    dropped: float | None = None
    tolerance: float = 1e-10
    failure: float = FAILURE
    thresholds: Sequence[float] = (1.25, 1.5, 2.0, 3.0)
    prob: float = 0.9
    errors: xr.Dataset | None = None
    exact: Sequence[str] = ()
    mistaken: float = 1e-3
    notes: Sequence[str] = ()
    synthetic: bool = False


def write_report(account: SpinePage, directory: str | Path, name: str = NAME) -> Path:
    """Write the page into a directory, which is made if need be, under a temporary name at first.

    Raises
    ------
    OSError : the directory cannot be written, said before any figure is drawn
    """
    folder = check_directory(directory)
    page = render(account)
    with TemporaryDirectory(dir=folder, prefix=".") as hidden:
        html = Path(hidden) / name
        html.write_text(page, encoding="utf-8")
        return html.replace(folder / name)


def write_reports(question: Question, run: Run, cell_names: Mapping[int, str] | None = None, **more: Any) -> list[Path]:
    """A page for every cell of a run over a Noisy Measurement File, `spine.html` or `spine-<cell>.html`, beside it.

    Parameters
    ----------
    question, run : what was asked and what `spine_runs.run` made; of its Parquet files one cell is read at a time
    cell_names : cells in words, by number
    more : fields of `SpinePage`, such as failure and thresholds
    """
    files = run.files
    cells = cells_of(files)
    made = []
    for cell in cells:
        found = of_cell(files, cell, more.get("failure", FAILURE))
        named = dict(zip(run.read.cells.tolist(), run.read.labels, strict=True))[cell]
        account = _account(question, run, found, (cell_names or {}).get(cell, named), **more)
        made.append(write_report(account, run.out, NAME if len(cells) == 1 else f"spine-{cell}.html"))
    return made


def warnings(question: Question, run: Run, found: Findings, failure: float = FAILURE) -> list[str]:
    """What to know before the numbers of a cell are believed: as the page has it."""
    return list(_warnings(_account(question, run, found, "", failure=failure), found))


def _account(question: Question, run: Run, found: Findings, cell: str, **more: Any) -> SpinePage:
    fields: dict[str, Any] = {
        "prior": question.prior,
        "prob": question.prob,
        "synthetic": run.read.synthetic,
        "known": known_in_words(question.known),
        "leaf_prior": _told(description(question.leaf_prior)),
        "tolerance": question.tolerance,
        "dropped": found.dropped,
        "mistaken": question.mistaken,
        "exact": run.read.exact,
        "notes": run.read.notes,
    }
    return SpinePage(found, str(question.directory), run.read.query, cell, **fields | more)


def known_in_words(known: Any) -> str:
    """What the reader of a question knows of the others in a block."""
    if known is None:
        return UNKNOWN
    return f"that {known:,} others are there" if isinstance(known, int) else f"how many others are there, from {known}"


def _told(prior: Mapping[str, Any]) -> str:
    """A prior's kind and parameters in a row."""
    kind, *rest = prior.items()
    parts = [
        f"{name} {', '.join(f'{x:.3g}' for x in value) if isinstance(value, list) else value}" for name, value in rest
    ]
    return "; ".join([str(kind[1]), *parts])


def render(account: SpinePage) -> str:
    """The page as HTML."""
    found = account.table
    if not isinstance(found, Findings):
        found = findings([found], account.failure)
    parts = [_read(account, found), _exactly(account, found), _promised(account, found), _spread(account, found)]
    parts += [_worst(account, found), _mistaken(account, found), _counts(found)]
    parts = [part for part in parts if part is not None]
    if account.errors is not None:
        parts.append(_errors(account.errors))
    return page_template(Path(__file__).parent / "templates", "spine_report.html.j2").render(
        title=f"Every block: {account.query}{f', {account.cell}' if account.cell else ''}",
        summary=list(_summary(account, found)),
        warnings=list(_warnings(account, found)),
        sections=[*parts, _reading()],
        provenance=list(_provenance(account)),
    )


def _summary(account: SpinePage, found: Findings) -> Iterator[str]:
    ratio = found.ratios
    if not ratio.size:
        yield "No block has an answer that is proven."
        return
    yield (
        f"In {ratio.size:,} blocks a reader wonders whether one more person is there, starts at "
        f"{share(account.prior)}, and knows {account.known}. The release multiplies that by "
        f"{figure_of(float(ratio.min()))} at least and {figure_of(float(ratio.max()))} at most; in half of the blocks "
        f"by less than {figure_of(float(np.median(ratio)))}."
    )
    if found.protected.any():
        low, high = found.promised.ratio(account.prior)
        over = sum(found.beyond(account.prior))
        yield (
            f"The noise promises {between(low, high)}, for any one person in all but {percent(account.failure)} of "
            f"releases. {share(over)} of the blocks it is about go beyond it, which leaves room for "
            f"{percent(account.failure)}."
        )


def _warnings(account: SpinePage, found: Findings) -> Iterator[str]:
    if account.synthetic:
        yield "This population is made up. Nobody in it exists, and no number here is about a real place."
    if account.dropped is not None and account.dropped > account.tolerance:
        yield (
            f"What was left out is proven to be below {account.dropped:.1e} only, not below the "
            f"{account.tolerance:.1e} that was asked for."
        )
    if found.unprotected:
        yield (
            f"No noise protects {_blocks(found.unprotected)}: counts that are published exactly settle whether one "
            "more person is there. The promise leaves such blocks out; ratios below are of all blocks, shares beyond "
            "the promise of the others."
        )
    over = sum(found.beyond(account.prior))
    if over > account.failure:
        yield (
            f"{share(over)} of blocks are beyond the bounds, more than the {percent(account.failure)} they may fail "
            "in. The guarantee covers readers whose belief about the others is right; that of this one may not be."
        )
    if wrong := found.status.get(MISTAKEN, 0):
        yield (
            f"In {_blocks(wrong)} the release contradicts what the reader is said to know: such counts have a "
            f"posterior probability below {percent(account.mistaken)}. They are listed apart, and in no other number."
        )
    lost = sum(n for name, n in found.status.items() if name not in (*PROVEN, MISTAKEN))
    if lost:
        yield f"{_blocks(lost)} {'has' if lost == 1 else 'have'} no number; the statuses below say why."


def _blocks(number: int) -> str:
    return f"{number:,} block{'s' * (number != 1)}"


def _read(account: SpinePage, found: Findings) -> PageSection:
    """Levels, units, and how well each is measured."""
    table = PageTable(["level", "units", "measured", "exact", "standard deviation of the noise, people"])
    for name, one in found.levels.items():
        span = sorted({figure_of(float(x)) for x in np.sqrt(one.variance)}, key=float) if one.measured else ["none"]
        table.add(name, f"{one.units:,}", f"{one.measured:,}", f"{one.exact:,}", " to ".join(span))
    cell = f", {account.cell}," if account.cell else ","
    lines = [
        f"The query {account.query}{cell} in every unit of the tree. Units that are not measured are in the tree all "
        "the same: their counts are the sums of what lies in them."
    ]
    notes = [*account.notes[:NOTED], *[f"and {len(account.notes) - NOTED:,} more"] * (len(account.notes) > NOTED)]
    return PageSection("What was read", lines, table, notes)


def _exactly(account: SpinePage, found: Findings) -> PageSection | None:
    """What is known without noise, and what it changed."""
    fixed = {name: one for name, one in found.levels.items() if one.exact or one.bounded}
    if not fixed and not account.exact:
        return None
    table = PageTable(["level", "exact", "limited by bounds", "noisy counts replaced", "their error, people"])
    for name, one in fixed.items():
        error = figure_of(float(np.sqrt(one.moved / one.replaced))) if one.replaced else "none"
        table.add(name, f"{one.exact:,}", f"{one.bounded:,}", f"{one.replaced:,}", error)
    lines = [
        "Totals and bounds that were published without noise. Where bounds meet, or the largest is 0, the count is "
        "known; its noisy count then adds nothing, and was off by the error shown (root mean square)."
    ]
    return PageSection("What is known exactly", lines, table, list(account.exact[:NOTED]))


def _mistaken(account: SpinePage, found: Findings) -> PageSection | None:
    """The blocks where the release contradicts what the reader knows."""
    if not found.mistaken.get("geocode", np.zeros(0)).size:
        return None
    table = PageTable(["block", "noisy count", "posterior mean", "others known", "posterior probability"])
    for i, name in enumerate(_block_names(found.mistaken)):
        noisy, mean, known, tail = (float(found.mistaken[one][i]) for one in ("noisy", "mean", "known", "tail"))
        table.add(name, _counted(noisy), f"{mean:,.2f}", _counted(known), share(tail))
    lines = [
        "What the reader knows cannot be right here: counts as far off, or farther, have the posterior probability "
        "shown. What such a reader concludes says nothing about the release, and is not given."
    ]
    return PageSection("Blocks whose readers are mistaken", lines, table)


def _block_names(table: Columns) -> list[str]:
    """GEOIDs of blocks, or their geocodes where they have none."""
    names = table["name"] if "name" in table else table["geocode"]
    return [str(name or code) for name, code in zip(names, table["geocode"], strict=True)]


def _counted(count: float) -> str:
    return f"{count:,.0f}" if np.isfinite(count) else "none"


def _promised(account: SpinePage, found: Findings) -> PageSection:
    made = found.promised
    if not np.isfinite(made.rho):
        text = "Exact counts settle what is asked in all blocks, so that nothing is promised about them."
        return PageSection("What was promised", [text])
    lines = [
        f"A person more or less in a block moves one count in every unit above it. The noise of those counts is "
        f"zero-concentrated DP with rho = {figure_of(made.rho)} on the weakest path"
        + (
            f"; because one count of the path is exact, somebody else must make up for the person, two paths change, "
            f"and rho doubles to {figure_of(made.total)}."
            if made.records > 1
            else "."
        ),
        "This is about the one cell that was read. Other queries of the same release tell more, and the promise for "
        "all of them together is weaker.",
    ]
    table = PageTable(["prior", "posterior", "ratio"], texts=0)
    for prior in sorted({0.01, 0.1, 0.5, account.prior}):
        ends = made.posterior(prior), made.ratio(prior)
        table.add(share(prior), between(*ends[0], percent=True), between(*ends[1]), used=prior == account.prior)
    note = f"Bounds, rounded outward, that hold in all but {percent(made.failure)} of releases for any one person."
    return PageSection("What was promised", lines, table, [note])


def _spread(account: SpinePage, found: Findings) -> PageSection:
    """Quantiles of the risk, and shares of blocks beyond thresholds."""
    from adversary.desk.figures import spine_figures

    ratio, bounds = found.ratios, found.promised.ratio(account.prior)
    section = PageSection("How the risk is spread over the blocks")
    if ratio.size:
        table = PageTable(["share of blocks at or below", "ratio", "posterior"], texts=0)
        for q in QUANTILES:
            at = float(np.quantile(ratio, q))
            table.add(percent(q), figure_of(at), share(min(at * account.prior, 1.0)))
        section.table = table
        said = "; ".join(f"{x:g} or more: {share(found.at_least(x))}" for x in account.thresholds)
        section.lines = [f"Ratio of posterior to prior, shares of blocks at {said}."]
        if found.protected.any():
            below, above = found.beyond(account.prior)
            section.lines[0] += f" Above the bound of {between(*bounds)}: {share(above)}; below it: {share(below)}."
    marked = next((x for x in account.thresholds if ratio.size and x <= ratio.max()), None)
    limits = bounds if found.protected.any() else None
    table_of = {"ratio": ratio, "protected": found.protected}
    draw = partial(spine_figures.risk, table_of, limits, marked, account.failure)
    section.figures = [shown(draw, "Left: blocks by ratio. Right: share of blocks at or above each ratio.")]
    section.notes = [f"{name}: {_blocks(count)}, {MEANING.get(name, name)}." for name, count in found.status.items()]
    return section


def _worst(account: SpinePage, found: Findings) -> PageSection:
    from adversary.desk.figures import spine_figures

    section = PageSection("The blocks where most is learned")
    if not found.ratios.size:
        return section
    heads = ["block", "noisy count", "posterior mean", f"{percent(account.prob)} set", "posterior", "ratio"]
    section.table = PageTable(heads)
    given = ("noisy", "mean", "hdi_lower", "hdi_upper", "posterior", "ratio")
    columns = {name: column(found.worst, name) for name in given}
    names = _block_names(found.worst)
    for i in range(len(columns["ratio"])):
        noisy, mean, low, high, posterior, ratio = (float(columns[name][i]) for name in given)
        numbers = (f"{mean:,.2f}", f"{low:,.0f} to {high:,.0f}", share(posterior), figure_of(ratio))
        section.table.add(names[i], _counted(noisy), *numbers)
    limits = found.promised.ratio(account.prior) if found.protected.any() else None
    draw = partial(spine_figures.worst, found.worst, DRAWN, limits)
    text = "Left: the ratio. Right: the count; the cross is what was published, the bar the set with most probability."
    section.figures = [shown(draw, text)]
    section.notes = [
        "The count and its set come from everything that was published, under the prior of all blocks. The posterior "
        "of the one person is that of this page's reader."
    ]
    return section


def _counts(found: Findings) -> PageSection:
    from adversary.desk.figures import spine_figures

    text = (
        "Each point is a unit. On the diagonal the posterior mean repeats the noisy count; off it, the other levels "
        "and the rule that no count is negative have moved it."
    )
    if any(one.points.shape[1] < one.measured for one in found.levels.values()):
        text += " Of levels with many units some are drawn."
    draw = partial(spine_figures.shrinkage, found.levels)
    return PageSection("What the posterior makes of the noisy counts", figures=[shown(draw, text)])


def _errors(errors: xr.Dataset) -> PageSection:
    from adversary.desk.figures import spine_figures

    names = [str(x) for x in errors["estimate"].values]
    covered = [name for name in names if np.isfinite(errors["coverage"].sel(estimate=name)).any()]
    table = PageTable(["level", *(f"{name}: error" for name in names), *(f"{name}: covers" for name in covered)])
    for level in errors["level"].values:
        one = errors.sel(level=level)
        rates = [percent(float(x)) if np.isfinite(x) else "none" for x in one["coverage"].sel(estimate=covered).values]
        table.add(str(level), *(figure_of(float(x)) for x in one["rmse"].values), *rates)
    lines = [
        "The truth is known here. Root mean square error in people, and how often the "
        f"{percent(float(errors.attrs['prob']))} intervals hold the truth, level by level."
    ]
    drawn = shown(partial(spine_figures.accuracy, errors), "The same as a figure.")
    return PageSection("Beside the truth", lines, table, figures=[drawn])


def _reading() -> PageSection:
    lines = [
        "Posterior: the probability that the person is in the block's cell, for a reader of the prior given, who knows "
        "of the others what is said below. Ratio: posterior over prior; 1 means that nothing was learned.",
        "Every posterior is exact, given the prior of the blocks' counts, up to the mass stated at the end. It uses "
        "the noisy counts of all levels at once.",
        "The bounds hold for one person at a time. Over many blocks, the share beyond them is at most what they may "
        "fail in, on average over releases, for readers whose belief about the others is right.",
    ]
    return PageSection("How to read the numbers", lines)


def _provenance(account: SpinePage) -> Iterator[tuple[str, str]]:
    yield "read from", account.source
    yield "query and cell", f"{account.query}{f', {account.cell}' if account.cell else ''}"
    yield "the reader", f"prior {share(account.prior)}; knows {account.known}"
    if account.leaf_prior:
        yield "prior of the blocks' counts", account.leaf_prior
    if account.dropped is not None:
        state = "within" if account.dropped <= account.tolerance else "beyond"
        yield (
            "what was left out",
            f"counts off their windows have a probability of {account.dropped:.1e} at most, {state} the tolerance of "
            f"{account.tolerance:.1e}; it bounds the error of every probability above",
        )
    yield "adversary", __version__
