"""Document about every block of a spine: distribution of the risk, worst blocks, guarantee, input.

Tables have all cells of the query; findings are about the cell with the largest ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import (
    __version__,
    format_chance,
    format_interval,
    format_number,
    format_probability,
    percent,
    percentage,
    sentence,
)
from adversary.census import report
from adversary.census.report import spine_cells
from adversary.census.report.spine_answer import DRAWN_CELLS, MEANING, Cell
from adversary.census.report.spine_verdict import MANY, SpineVerdict
from adversary.report.kit import Card, Document, Figure, Section, Table, attempt, guarded_document, tabulate
from adversary.report.sections.descriptions import SPINE_NUMBERS, accuracy, described_others, described_prior

# Largest number of notes on the input.
NOTED = 12

DOUBLED = "One count of the path is exact, so another record must change with this person's: two paths change."


@guarded_document
def document(tree: xr.DataTree, drawn: Sequence[Cell]) -> Document:
    """Document from the results of `spine_answer.solve` or `gather`.

    Parameters
    ----------
    tree : numbers of all cells
    drawn : cells with figures

    Returns
    -------
    Document
    """
    page = _Page(tree)
    page.drawn = drawn
    sections = [*page.sections(), SPINE_NUMBERS]
    settled = bool(tree["cells"].to_dataset()["unprotected"].values.any())
    return Document(tree, page.card(), list(page.lead()), sections, list(page.provenance()), partly=settled)


Columns = Mapping[str, Sequence[str] | None]

# Replaces numbers that are not proven for every block, or for this one.
UNPROVEN = {name: {None: "unresolved"} for name in ("one_query_ratio", "one_query_posterior")}


class _Page(SpineVerdict):
    """Parts of the document, from the numbers of all cells and the summaries of the `drawn` ones."""

    drawn: Sequence[Cell] = ()

    @property
    def known(self) -> str:
        """Description of the adversary's knowledge of the others."""
        return described_others(self.about.get("known"))

    def table(self, group: str, columns: Columns, name: str = "", **more: Any) -> Table:
        """Table of a group for every cell, with a column of cells if there are several.

        columns : heads by name; more : options of `tabulate`, and `data` to replace the group
        """
        numbers = self.data["cells"]["cell"].values.tolist()
        words = {n: (label or str(n)) * self.several for n, label in zip(numbers, self.labels, strict=True)}
        data = more.pop("data", self.data[group])
        called = UNPROVEN | {"cell": words}
        return tabulate(data, {"cell": "cell", **columns}, name=name or group, called=called, **more)

    def figures(self, name: str, draw: Callable[[Cell], Any], caption: str) -> list[Figure]:
        """Figure of each drawn cell, by a function of the cell."""
        if len(self.drawn) == 1:
            return [Figure(name, partial(draw, self.drawn[0]), caption)]
        return [Figure(f"{name} {one.number}", partial(draw, one), f"{one.label}. {caption}") for one in self.drawn]

    def limits(self, cell: Cell) -> tuple[float, float] | None:
        """Ratio bounds that the figure of a cell shows; None if no block of it is protected."""
        return cell.findings.guarantee.ratio(self.prior) if cell.findings.protected.any() else None

    def card(self) -> Card | None:
        """Card with prior, posteriors and bound; None without a proven answer."""
        if not self.answered.any():
            return None
        numbers = [("Before the release", percent(self.prior))]
        if self.protected(self.most):
            _, half, high = self.quantiles
            for name, ratio in (("in the median block", half), ("where most is learned", high)):
                numbers.append((f"After it, {name}", percent(min(ratio * self.prior, 1.0))))
            limit = percentage(self.ends("posterior")[1], True)
            numbers.append((f"At most, but in {percent(self.failure)} of releases", limit))
        meaning = "Percentages are probabilities, to an adversary, that one more person is in the block's cell. "
        return Card(numbers, sentence=f"{meaning}This one knows {self.known}.")

    def lead(self) -> Iterator[str]:
        """Sentence on the bounds of the guarantee, and on the blocks outside them."""
        if self.answered.any() and self.protected(self.most):
            yield self.about_cell(
                f"The guarantee allows ratios of {format_interval(*self.ends('ratio'))} for any one person, in all but "
                f"{percent(self.failure)} of releases. {sentence(format_chance(self.beyond(self.most)))} of "
                "the blocks that it "
                f"covers are beyond these bounds; up to {percent(self.failure)} may be."
            )

    def sections(self) -> Iterator[Section]:
        """Sections of the document, those of `spine_cells` for many cells."""
        if len(self.labels) > MANY:
            yield from spine_cells.sections(self)
            if "errors" in self.data:
                yield attempt("Beside the truth", accuracy, self.data["errors"])
            return
        yield attempt("How the risk is spread over the blocks", self.spread)
        if "worst" in self.data:
            yield attempt("The blocks where most is learned", self.worst)
        if "mistaken" in self.data:
            yield attempt("Blocks where the adversary is mistaken", self.mistaken)
        yield attempt("The guarantee", self.guarantee)
        yield attempt("What was read", self.read)
        if "errors" in self.data:
            yield attempt("Beside the truth", accuracy, self.data["errors"])

    def spread(self) -> Section:
        """Section with quantiles of the ratios, and shares of blocks at or above thresholds."""
        risk = {"quantile": ("share of protected blocks at or below", "probability"), "ratio": ("ratio", "number"),
                "posterior": ("posterior", "probability")}  # fmt: skip
        if self.all_queries:
            risk["one_query_ratio"] = ("ratio under one query", "number")
        above = {"threshold": ("ratio", "parameter"), "share": ("blocks with it, or more", "probability")}
        tables = [self.table("risk", risk)] * any(map(self.protected, range(len(self.labels))))
        tables.append(self.table("thresholds", above))
        shares = self.of("thresholds")["share"].to_series()
        shares_in_words = [
            f"{format_chance(float(share))} of blocks have a ratio of {at:g} or more" for at, share in shares.items()
        ]
        statuses = self.data["statuses"]
        words = ("status", [MEANING.get(str(name), "") for name in statuses["status"].values])
        columns = {"status": "status", "blocks": ("blocks", "count"),
                   "one_query_blocks": ("under one query", "count"), "meaning": "meaning"}  # fmt: skip
        statuses_shown = statuses.assign(meaning=words, some=sum(statuses.data_vars.values()) > 0)

        def draw(cell: Cell) -> Any:
            ratios, at = cell.findings.ratios, self.data["thresholds"]["threshold"].values
            marked = next((float(x) for x in at if ratios.size and x <= ratios.max()), None)
            table = {"ratio": ratios, "protected": cell.findings.protected}
            return report.spine_figures.block_ratios(table, self.limits(cell), marked, self.failure)

        return Section(
            "How the risk is spread over the blocks",
            self.about_cell(f"{'; '.join(shares_in_words)}.") if self.answered.any() else "",
            tables=[
                *tables * bool(self.answered.any()),
                self.table("statuses", columns, data=statuses_shown, where="some"),
            ],
            figures=self.figures("risk", draw, "Blocks by ratio, and the share of blocks at or above each ratio."),
            notes=[f"Figures are of the first {DRAWN_CELLS} cells."] * (len(self.labels) > len(self.drawn)),
        )

    def blocks(self, group: str, columns: Columns) -> Table:
        """Table of blocks of every cell, by name, or by geocode if they have none."""
        blocks = self.data[group]
        with_names = blocks.assign(block=blocks["name"].where(blocks["name"] != "", blocks["geocode"]))
        shown = {"rank": None, "block": "block", **columns, "place": "rank", "status": "status"}
        return self.table(group, shown, data=with_names.assign(there=blocks["geocode"] != ""), where="there")

    def worst(self) -> Section:
        """Section with the blocks of largest ratio."""
        prob, most_learned = percent(float(self.about.get("prob", 0.9))), self.of("worst").isel(rank=0)
        tied_blocks = int(self.of("cells")["most"])
        tie = f", as much as in {tied_blocks - 1:,} more" if tied_blocks > 1 else ""
        columns = {
            "noisy": ("noisy count", "count"), "posterior": ("posterior", "probability"), "ratio": ("ratio", "number"),
            "mean": ("posterior mean", "number"), "hdi_lower": (f"{prob} set from", "count"),
            "hdi_upper": ("to", "count"),
        }  # fmt: skip
        if self.all_queries:
            columns["one_query_posterior"] = ("under one query", "probability")
        return Section(
            "The blocks where most is learned",
            self.about_cell(
                f"Most is learned in block {most_learned['name'].item() or most_learned['geocode'].item()}{tie}: "
                f"the posterior is {format_probability(float(most_learned['posterior']))}."
            ),
            tables=[self.blocks("worst", columns)],
            notes=["Counts and their sets come from everything published, under the prior of all blocks."],
        )

    def mistaken(self) -> Section:
        """Section with the blocks where the release contradicts the known count."""
        columns = {
            "noisy": ("noisy count", "count"), "mean": ("posterior mean", "number"),
            "known": ("others known", "count"), "tail": ("posterior probability", "probability"),
        }  # fmt: skip
        return Section(
            "Blocks where the adversary is mistaken",
            "The count that the adversary knows contradicts the release, so no posterior is given.",
            ["Posterior probability: of a count at least as far off as the known one."],
            [self.blocks("mistaken", columns)],
        )

    def guarantee(self) -> Section:
        """Section on the guarantee of the noise on the weakest path."""
        guarantee, title = self.data["guarantee"], "The guarantee"
        covered = np.isfinite(guarantee["rho"])
        if not covered.any():
            return Section(title, "Exact counts determine the result in all blocks: no guarantee covers them.")
        columns = {
            "definition": "guarantee", "path_rho": ("rho of one path", "number"),
            "records": ("records", "count"), "rho": ("rho", "number"),
            "share_below": ("blocks below its bounds", "probability"),
            "share_above": ("blocks above", "probability"),
        }  # fmt: skip
        ends = {"posterior": ("posterior", "% interval"), "ratio": ("ratio", "interval")}
        cell = self.most if bool(covered[self.most]) else int(covered.argmax())
        rho = format_number(float(guarantee["rho"][cell]))
        return Section(
            title,
            self.about_cell(f"The noise on the weakest path is zero-concentrated DP with rho = {rho}.", cell),
            [
                "One person more or less in a block changes one count in every unit above it."
                + f" {DOUBLED}" * bool((guarantee["records"] > 1).any()),
                "It covers all queries that were read."
                if self.about.get("queries") == "all"
                else "Other queries of the same release reveal more, and the guarantee for all of them is weaker.",
            ],
            [
                self.table("guarantee", columns, data=guarantee.assign(covered=covered), where="covered"),
                self.table(
                    "bounds", {"prior": ("prior", "probability"), **ends}, marked={"prior": self.prior},
                    data=self.data["bounds"].assign(covered=covered), where="covered",
                    notes=[f"Rounded outward; for any one person, in all but {percent(self.failure)} of releases."],
                ),
            ],
        )  # fmt: skip

    def read(self) -> Section:
        """Section on the input: levels and units, their noise, exact counts, and shifts of the posterior means."""
        levels, exact, notes = self.data["levels"], self.listed("exact"), self.listed("notes")
        rest = [f"and {len(notes) - NOTED:,} more"] * (len(notes) > NOTED)
        shifts = self.of("levels")["shift"].dropna("level")
        shift_sentence = (
            f" The posterior moves {shifts['level'].values[-1]} counts by {format_number(float(shifts[-1]))} people."
        )
        levels_drawn = [one for cell in self.drawn for one in cell.findings.levels.values()]
        thinned = " Of levels with many units some are drawn." * any(
            x.points.shape[1] < x.measured for x in levels_drawn
        )
        measured = {
            "level": "level", "units": ("units", "count"), "measured": ("measured", "count"),
            "least_sd": ("sd of the noise, from", "number"), "largest_sd": ("to", "number"),
            "shift": ("posterior mean against noisy count", "number"),
            "below": ("noisy counts below 0", "count"),
        }  # fmt: skip
        known = {
            "level": "level", "exact": ("exact", "count"), "bounded": ("limited by bounds", "count"),
            "replaced": ("noisy counts replaced", "count"), "exact_error": ("their error", "number"),
        }  # fmt: skip
        cells = {
            "leaves": ("blocks", "count"), "answered": ("with an answer", "count"),
            "unprotected": ("not protected", "count"), "log_evidence": ("log evidence", "number"),
            "truncation_bound": ("mass left out", "number"),
        }  # fmt: skip
        evidence = self.data["cells"]["log_evidence"].round(2)
        counted = self.table("cells", cells, data=self.data["cells"].assign(log_evidence=evidence))
        some = levels.assign(some=(levels["exact"] > 0) | (levels["bounded"] > 0))
        fixed = self.table("levels", known, "exact", data=some, where="some", title="What is known exactly")
        fixed.notes = ["A noisy count beside them adds nothing; it was off by the error shown.", *exact[:NOTED]]
        return Section(
            "What was read",
            f"The query {self.about['query']} was read for {int(levels['units'].isel(cell=0).sum()):,} units."
            + shift_sentence * bool(shifts.size),
            ["Counts of units that are not measured are the sums of what lies in them."],
            [self.table("levels", measured), *[fixed] * bool(fixed.rows or exact), counted],
            self.figures(
                "shrinkage",
                lambda cell: report.spine_figures.shrinkage(cell.findings.levels),
                f"A point is a unit. On the diagonal the posterior mean repeats the noisy count.{thinned}",
            ),
            ["Numbers are of people, errors root mean squares.", *notes[:NOTED], *rest],
        )

    def provenance(self) -> Iterator[tuple[str, str]]:
        """Yield (name, value) of the input, priors, truncation bound and version."""
        yield "Read from", str(self.about.get("directory", ""))
        yield "Query and cells", f"{self.about['query']}{': ' * any(self.labels)}{', '.join(filter(None, self.labels))}"
        yield "The adversary", f"prior {format_probability(self.prior)}; knows {self.known}"
        if prior := str(self.about.get("leaf_prior", "")):
            yield "Prior of the blocks' counts", described_prior(prior)
        bound = float(self.data["cells"]["truncation_bound"].max())
        tolerance = float(self.about.get("tolerance", np.inf))
        if np.isfinite(bound):
            state = "within" if bound <= tolerance else "beyond"
            yield (
                "Mass left out",
                f"counts off their windows have a probability of {bound:.1e} at most, {state} the tolerance of "
                f"{tolerance:.1e}; it bounds the error of every probability above",
            )
        yield "Versions", f"adversary {__version__}"
