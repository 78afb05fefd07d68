"""Answer about one block, with its document: every cell of every query, and persons compared with housing."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import HEADLINE, __version__, format_chance, format_number, format_probability, percent, percentage
from adversary.census import report, spine
from adversary.census.nmf.file_layout import open_product, product_of
from adversary.census.nmf.runs import RunInput, one_block
from adversary.census.nmf.units import geoid
from adversary.report.kit import Card, Document, Figure, Section, Summary, attempt, guarded_document, tabulate
from adversary.report.sections.descriptions import SPINE_NUMBERS, described_others, described_prior

# Number of cells of a query above which its table is folded on the page, and not shown on the screen.
FOLDED, ON_SCREEN = 12, 60

# P-value below which noise is not taken to explain a contradiction between persons and housing.
UNLIKELY = 0.01
NUMBERS = ("noisy", "variance", "mean", "sd", "hdi_lower", "hdi_upper", "p_zero", "known", "posterior", "ratio",
           "path_rho", "one_query_mean", "one_query_sd")  # fmt: skip


def solve_block(
    run_input: RunInput, block: str, queries: list[str] | None = None, households: Path | None = None
) -> xr.DataTree:
    """Tree with the numbers of one block.

    Parameters
    ----------
    run_input : file and beliefs; its query and cells are used if `queries` is None
    block : GEOID or geocode
    queries : names of queries, all cells of which are wanted; an empty list: all queries
    households : CSV file of published households by size, with columns geocode, size, noisy and variance

    Returns
    -------
    DataTree with groups `cells` (row); `beside` (comparison), tests of persons against housing; and `together` (of,
    read), the joint posterior, if housing units were published beside the persons. Attributes: the input
    """
    rows, code, blocks = one_block.read_block(run_input, block, queries)
    columns: dict[str, Any] = {name: ("row", np.asarray(rows[name], dtype=np.float64)) for name in NUMBERS}
    columns |= {name: ("row", np.asarray(rows[name], dtype=str)) for name in ("query", "label", "status")}
    columns["cell"] = ("row", np.asarray(rows["cell"], dtype=np.int64))
    columns["noise_sd"] = ("row", np.sqrt(columns["variance"][1]))
    groups = {"cells": xr.Dataset(columns, {"row": np.arange(len(rows["label"]))})}
    comparisons: list[dict[str, Any]] = []
    housing = one_block.persons_and_housing(run_input, code, rows)
    if housing is not None:
        comparisons.append(housing[0])
        groups["together"] = housing[1]
    if households is not None:
        comparisons.append(_by_size(households, code, rows))
    if comparisons:
        for one in comparisons:
            one["expected"] = one["chance"] * blocks
        names = [name for name in comparisons[0] if name not in ("what", "query")]
        columns_beside: dict[str, Any] = {
            name: ("comparison", [float(one[name]) for one in comparisons]) for name in names
        }
        columns_beside["query"] = ("comparison", [str(one["query"]) for one in comparisons])
        groups["beside"] = xr.Dataset(columns_beside, {"comparison": [str(one["what"]) for one in comparisons]})
    path = open_product(run_input.directory, run_input.product)
    about = run_input.parameters | {
        "directory": str(run_input.directory), "geocode": code, "block": geoid(code), "blocks": blocks,
        "synthetic": int(product_of(path)[1]),
    }  # fmt: skip
    tree = xr.DataTree.from_dict(groups)
    serialised = {
        name: value if isinstance(value, str | int | float) else json.dumps(value) for name, value in about.items()
    }
    tree.attrs = {name: value for name, value in serialised.items() if value != "null"}
    page = BlockPage(tree)
    Summary(f"Block {geoid(code)}", list(groups), page.verdict, page.status, list(page.warnings())).on(tree)
    return tree


def _by_size(file: Path, code: str, rows: dict[str, Any]) -> dict[str, Any]:
    """Test of persons in households, or of all persons, against households by size from a CSV file."""
    with file.open(encoding="utf-8-sig", newline="") as lines:
        listed = list(csv.DictReader(lines))
    try:
        sizes, counts, variances = one_block.variances_by_size(listed, code)
        place = _persons_row(rows)
        count, variance = float(rows["noisy"][place]), float(rows["variance"][place])
        test = spine.persons_beside_households(count, variance, counts, variances, sizes)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    numbers: dict[str, Any] = {str(name): float(value) for name, value in test.data_vars.items()}
    return {"persons": count, "what": "households by size", "query": str(rows["query"][place]), **numbers}


def _persons_row(rows: dict[str, Any]) -> int:
    """Row of the persons in households, or else of all persons; ValueError if there is neither."""
    label, query = (np.char.lower(np.asarray(rows[name], dtype=str)) for name in ("label", "query"))
    measured = np.isfinite(np.asarray(rows["noisy"], dtype=np.float64))
    for wanted in (label == one_block.HOUSEHOLDS, query == "total"):
        if (rows_found := np.flatnonzero(wanted & measured)).size:
            return int(rows_found[0])
    raise ValueError("the block has no noisy count of persons in households, nor of all persons, to compare with them")


@guarded_document
def document(tree: xr.DataTree) -> Document:
    """Document from the tree of `solve_block`."""
    page = BlockPage(tree)
    return Document(tree, page.card(), list(page.lead()), [*page.sections(), SPINE_NUMBERS], list(page.provenance()))


class BlockPage:
    """Verdict and parts of the document about one block, from the tree of `solve_block`."""

    def __init__(self, tree: xr.DataTree) -> None:
        self.about = tree.attrs
        self.cells = tree["cells"].to_dataset()
        self.beside = tree["beside"].to_dataset() if "beside" in tree.children else None
        self.together = tree["together"].to_dataset() if "together" in tree.children else None

    @property
    def rarest(self) -> int:
        """Index of the comparison with the smallest p-value."""
        assert self.beside is not None
        return int(np.argmin(self.beside["chance"].values))

    @property
    def status(self) -> str:
        """ "unreliable" if noise does not explain a contradiction, else ""."""
        if self.beside is None:
            return ""
        return "unreliable" if float(self.beside["chance"].min()) < UNLIKELY else ""

    @property
    def verdict(self) -> str:
        """Sentence on persons against housing if both were read; otherwise on the ratios of the cells."""
        if self.beside is not None:
            rarest = self.rarest
            return self.comparison(rarest)
        ratio = self.cells["ratio"].where(self.cells["status"] == "ok")
        if not np.isfinite(ratio).any():
            return "Exact counts determine every cell of this block."
        return (
            f"Of {int(np.isfinite(ratio).sum()):,} noisy cells, the release multiplies a prior of "
            f"{percent(float(self.about['prior']))} that one more person is in a cell by "
            f"{format_number(float(ratio.min()), HEADLINE)} to {format_number(float(ratio.max()), HEADLINE)}."
        )

    def comparison(self, index: int) -> str:
        """Sentences on one comparison: whether noise explains the gap."""
        assert self.beside is not None
        one = self.beside.isel(comparison=index)
        persons, implied, gap, chance = (float(one[name]) for name in ("persons", "implied", "gap", "chance"))
        what = str(one["comparison"].item())
        opening = f"{persons:,.0f} published persons compare with at least {implied:,.0f} implied by {what}."
        if gap >= 0:
            return f"{opening} They do not contradict each other."
        frequency = f"in {format_chance(chance)} of blocks{' at most' * (chance >= 1e-4)}"
        explanation = f"noise alone makes persons fall short by {-gap:,.0f} or more {frequency}."
        if chance < UNLIKELY:
            return f"{opening} Noise does not explain it: {explanation}"
        return f"{opening} It can be the noise: {explanation}"

    def warnings(self) -> Iterator[str]:
        """Warnings before the numbers: synthetic data, cells without a posterior, persons against housing units."""
        if self.about.get("synthetic"):
            yield "This population is synthetic. Nobody in it exists, and no number here is about a real place."
        for name, words in (("mistaken", "the release contradicts the count that the adversary knows"),
                            ("unresolved", "the posterior is not proven, and no number is given")):  # fmt: skip
            if number := int((self.cells["status"] == name).sum()):
                yield f"In {number:,} cells {words}."
        if self.together is not None and (chance := float(self.together["consistent"])) < UNLIKELY:
            agree = format_probability(chance)
            yield f"By their separate posteriors, persons and housing units agree with probability {agree} only."

    def card(self) -> Card | None:
        """Card with the numbers of the most significant comparison; None without one."""
        if self.beside is None:
            return None
        one = self.beside.isel(comparison=self.rarest)
        numbers = [
            ("Persons, noisy", f"{float(one['persons']):,.0f}"),
            ("Implied by housing", f"{float(one['implied']):,.0f}"),
            ("Noise of the gap, sd", format_number(float(one["sd"]), HEADLINE)),
        ]
        if not float(one["gap"]) < 0:
            return Card(numbers)
        numbers.append(("Chance of such a gap, at most", percentage(float(one["chance"]), True)))
        return Card(numbers, sentence="The chance assumes that persons are as many as housing implies.")

    def lead(self) -> Iterator[str]:
        """Sentences on the comparisons that the verdict does not name, and on how many gaps noise explains."""
        if self.beside is not None:
            rarest = self.rarest
            yield from (self.comparison(i) for i in range(self.beside.sizes["comparison"]) if i != rarest)
            expected, blocks = float(self.beside["expected"][rarest]), int(self.about["blocks"])
            if float(self.beside["gap"][rarest]) < 0:
                yield f"Noise makes up to {format_number(expected)} such gaps among the file's {blocks:,} blocks."

    def sections(self) -> Iterator[Section]:
        """Section on persons beside housing, and one section for each query."""
        if self.beside is not None:
            yield attempt("Persons beside housing", self.housing)
        yield attempt("Every cell of every query", self.queries)

    def housing(self) -> Section:
        """Section with the comparisons, and the joint posterior."""
        assert self.beside is not None
        columns = {
            "comparison": "beside", "query": "persons of", "persons": ("persons", "count"),
            "implied": ("implied", "count"), "gap": ("gap", "count"), "sd": ("sd of its noise", "number"),
            "chance": ("chance of it", "chance"), "expected": ("blocks expected", "number"),
        }  # fmt: skip
        tables = [tabulate(self.beside, columns, name="beside")]
        notes = ["Chance: of a gap at least as large if persons are exactly as many as implied; an upper bound."]
        if self.together is not None:
            columns_together = {
                "of": "posterior of", "read": "read", "mean": ("mean", "number"), "sd": ("sd", "number"),
                "p_zero": ("P(nobody)", "probability"),
            }  # fmt: skip
            tables.append(tabulate(self.together, columns_together, name="together"))
            agree = format_probability(float(self.together["consistent"]))
            notes.append(
                f"Together: given that the two counts agree, which separate posteriors do with probability {agree}."
            )
        return Section("Persons beside housing", self.comparison(self.rarest), tables=tables,
                       notes=notes)  # fmt: skip

    def queries(self) -> Section:
        """Section with one part per query."""
        prob = percent(float(self.about.get("prob", 0.9)))
        columns = {
            "row": None, "label": "cell", "noisy": ("noisy", "count"), "noise_sd": ("sd of noise", "number"),
            "mean": ("posterior mean", "number"), "sd": ("sd", "number"), "hdi_lower": (f"{prob} set from", "count"),
            "hdi_upper": ("to", "count"), "p_zero": ("P(nobody)", "probability"), "ratio": ("ratio", "number"),
            "status": "status",
        }  # fmt: skip
        parts = []
        for query in dict.fromkeys(self.cells["query"].values.tolist()):
            cells = self.cells.isel(row=self.cells["query"].values == query)
            name = "cells_" + "".join(c if c.isalnum() else "_" for c in str(query))
            rows = cells.sizes["row"]
            table = tabulate(cells, columns, name=name)
            parts.append(Section(str(query), tables=[table], folded=rows > FOLDED, on_screen=rows <= ON_SCREEN))
        caption = "The cells with the largest posterior means. Orange: noisy counts, with one sd of their noise."
        return Section(
            "Every cell of every query",
            f"{self.cells.sizes['row']:,} cells of {len(parts):,} queries.",
            ["Each posterior uses the noisy counts of its own cell in the block, its neighbours and the levels above."],
            figures=[Figure("cells", lambda: report.spine_figures.block_cells(self.cells), caption)],
            parts=parts,
        )

    def provenance(self) -> Iterator[tuple[str, str]]:
        """Provenance of the numbers: directory, block, adversary, prior of the blocks' counts, version."""
        yield "Read from", str(self.about.get("directory", ""))
        yield (
            "Block",
            f"{self.about['block']}, geocode {self.about['geocode']}, of {int(self.about['blocks']):,} blocks",
        )
        known = described_others(self.about.get("known"))
        yield "The adversary", f"prior {format_probability(float(self.about['prior']))}; knows {known}"
        if prior := str(self.about.get("leaf_prior", "")):
            yield "Prior of the blocks' counts", described_prior(prior)
        yield "Versions", f"adversary {__version__}"
