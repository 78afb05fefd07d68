"""Verdict and warnings about every block of a spine.

Both are derived from the tree of `spine_answer.gather`, and are stored with it in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import xarray as xr

from adversary._core import HEADLINE, format_chance, format_number, format_probability, outward_percent, percent
from adversary.adversaries.tables import misstatement
from adversary.census.nmf.runs import MISTAKEN, PROVEN

# Number of cells above which warnings that differ only in their numbers are given once.
MANY = 4
NUMBER = re.compile(r"\d[\d.,]*(?:e-?\d+)?")

# Error of a probability above which the page warns.
MISSTATED = 0.1


class SpineVerdict:
    """Verdict and warnings about every block.

    Parameters
    ----------
    tree : from `spine_answer.gather`; the verdict is about the cell with the largest ratio
    """

    def __init__(self, tree: xr.DataTree) -> None:
        self.about = tree.attrs
        self.data = {name: node.to_dataset() for name, node in tree.children.items()}
        self.labels = [str(label) for label in self.data["cells"]["label"].values]
        self.several = len(self.labels) > 1
        self.prior, self.failure = float(tree.attrs["prior"]), float(tree.attrs["failure"])
        self.answered = self.data["cells"]["answered"].values > 0
        self.all_queries = "one_query_ratio" in self.data["risk"]
        largest = self.data["risk"]["ratio"].isel(quantile=-1).fillna(0.0).values
        self.most = int(np.argmax(np.where(self.answered, largest, -1.0)))
        """Position of the cell with the largest ratio: verdict and findings are about it."""

    @property
    def title(self) -> str:
        """Title: query, and its cell if there is one only."""
        only = "" if self.several else self.labels[0]
        return f"Every block: {self.about['query']}{f', {only}' if only else ''}"

    def of(self, group: str, cell: int | None = None) -> xr.Dataset:
        """Dataset of a group for one cell, by position; default that with the largest ratio."""
        return self.data[group].isel(cell=self.most if cell is None else cell)

    def about_cell(self, text: str, cell: int | None = None) -> str:
        """Sentence about one cell, prefixed by its label if there are several."""
        return f"{self.labels[self.most if cell is None else cell]}: {text}" if self.several and text else text

    def protected(self, cell: int) -> bool:
        """True if noise protects some block of a cell with a proven answer."""
        return bool(self.of("cells", cell)["answered"] > self.of("cells", cell)["unprotected"])

    def beyond(self, cell: int) -> float:
        """Share of the protected blocks of a cell with a ratio outside the bounds of the guarantee."""
        one = self.of("guarantee", cell)
        return float(one["share_below"]) + float(one["share_above"])

    def ends(self, quantity: str) -> tuple[float, float]:
        """Bounds of the guarantee on "posterior" or "ratio", at the adversary's prior."""
        low, high = self.of("bounds")[quantity].sel(prior=self.prior).values
        return float(low), float(high)

    def listed(self, name: str) -> list[str]:
        """Attribute of the tree that is a list, from its JSON; empty if absent."""
        return list(json.loads(self.about.get(name, "[]")))

    @property
    def verdict(self) -> tuple[str, str]:
        """(sentence, status): range of the ratios over blocks; status of the guarantee, or "unreliable"."""
        if not self.answered.any():
            return "No block has an answer that is proven.", "unreliable"
        cells, one, prior = range(len(self.labels)), self.of("cells"), format_probability(self.prior)
        exceeded, has_protected = any(self.beyond(i) > self.failure for i in cells), any(map(self.protected, cells))
        unproven, leaves = (self.data["cells"][name].values for name in ("unproven", "leaves"))
        worst_cell = int(np.argmax(unproven / leaves))
        unproven_blocks, all_blocks = int(unproven[worst_cell]), int(leaves[worst_cell])
        settled, surely_there = int(one["unprotected"]), int(one["surely_there"])
        addition = f"; in {surely_there:,} of them one more person is there for certain" * (surely_there > 0)
        warning = self.about_cell(
            f"{unproven_blocks:,} of {blocks_words(all_blocks)} have no proven answer. ", worst_cell
        ) * (2 * unproven_blocks > all_blocks)
        text = f"Exact counts determine the result in all {blocks_words(settled)} with an answer{addition}."
        if self.protected(self.most):
            low, half, high = (format_number(float(x), HEADLINE) for x in self.quantiles)
            protected_blocks = blocks_words(int(one["answered"]) - settled)
            text = f"In {protected_blocks} the release multiplies a prior of {prior} by {low} to {high}; "
            text += f"in half of them by less than {half}."
            text += f" No noise protects {blocks_words(settled)} more{addition}." * (settled > 0)
        status = "exceeded" if exceeded else "unreliable" * bool(warning) or "holds" * has_protected
        return warning + self.about_cell(text), status

    @property
    def quantiles(self) -> tuple[float, float, float]:
        """Smallest, median and largest ratio of the protected blocks."""
        low, half, high = map(float, self.of("risk")["ratio"].sel(quantile=[0.0, 0.5, 1.0]).values)
        return low, half, high

    def warnings(self) -> Iterator[str]:
        """Yield the warnings about all cells, similar ones merged."""
        yield from (f"{name}: its file was damaged, and has been written again." for name in self.listed("damaged"))
        if self.about.get("synthetic"):
            yield "This population is synthetic. Nobody in it exists, and no number here is about a real place."
        # warnings that are equal up to their numbers, each with its cells
        cells_by_text: dict[str, dict[str, list[str]]] = {}
        for i, label in sorted(enumerate(self.labels), key=lambda one: (one[0] != self.most, one[0])):
            for text in self.warnings_of(i):
                kind = NUMBER.sub("#", text) if len(self.labels) > MANY else text
                cells_by_text.setdefault(kind, {}).setdefault(text, []).append(label)
        for texts in cells_by_text.values():
            text, cells = next(iter(texts.items()))
            others = sum(map(len, texts.values())) - 1
            if len(self.labels) > MANY and others:
                yield f"{cells[0]}: {text} So, with other numbers, in {others:,} more of {len(self.labels):,} cells."
            else:
                yield f"{'; '.join(cells)}: {text}" if self.several else text

    def misstated(self, i: int) -> float:
        """Bound on the error of probabilities from effective measurements, which neglect non-negativity."""
        spread = self.of("levels", i)["largest_sd"].values
        return misstatement(float(self.of("guarantee", i)["path_rho"]) - float(np.nansum(0.5 / spread**2)))

    def warnings_of(self, i: int) -> Iterator[str]:
        """Yield the warnings about one cell."""
        one, statuses = self.of("cells", i), self.of("statuses", i)["blocks"].to_series()
        bound, tolerance = float(one["truncation_bound"]), float(self.about.get("tolerance", np.inf))
        if self.about.get("queries") == "all" and (limit := self.misstated(i)) > MISSTATED:
            yield (
                "Estimates from all queries do not use that the other cells are not negative. An adversary who does "
                f"can differ from these probabilities by up to {outward_percent(limit, True, 2)} points, and most "
                "where cells hold few people."
            )
        if bound > tolerance:
            yield f"The truncated mass is proven to be below {bound:.1e} only, above the tolerance of {tolerance:.1e}."
        if unprotected := int(one["unprotected"]):
            yield (
                f"No noise protects {blocks_words(unprotected)}: exact counts determine whether one more person is "
                "there. The guarantee does not cover them: medians, ranges and shares beyond the bounds "
                "are of the others."
            )
        if (beyond := self.beyond(i)) > self.failure:
            yield (
                f"{format_chance(beyond)} of blocks are beyond the bounds, more than their failure probability of "
                f"{percent(self.failure)}. The guarantee covers adversaries whose belief about the others is right; "
                "that of this one may not be."
            )
        if mistaken := int(statuses.get(MISTAKEN, 0)):
            yield (
                f"In {blocks_words(mistaken)} the release contradicts the count that the adversary knows: such counts "
                f"have a posterior probability below {percent(float(self.about['mistaken']))}. They are "
                "listed separately, and excluded from all other numbers."
            )
        if unproven := int(one["unproven"]):
            verb = "has" if unproven == 1 else "have"
            yield f"{blocks_words(unproven)} {verb} no number; the statuses below say why."
        if self.all_queries and np.isnan(self.of("risk", i)["one_query_ratio"]).all():
            single_query = self.of("statuses", i)["one_query_blocks"].to_series()
            if unproven := int(single_query.drop([*PROVEN]).sum()):
                status_counts = ", ".join(f"{count:,} {name}" for name, count in single_query[single_query > 0].items())
                verb = "has" if unproven == 1 else "have"
                yield (
                    f"Under one query {unproven:,} of {blocks_words(int(single_query.sum()))} {verb} no number "
                    f"({status_counts}). No quantiles under one query are given: they would be of the others only."
                )


def blocks_words(number: int) -> str:
    """Number of blocks as text: "1 block", "2,000 blocks"."""
    return f"{number:,} block{'s' * (number != 1)}"
