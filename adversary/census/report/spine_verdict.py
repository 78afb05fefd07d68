"""What came out of every block of a spine, in a sentence, and what to know before its numbers are believed.

Both come from the numbers of all cells, as `spine_answer.gather` has them; they stand beside these in JSON.
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

# Cells from which on a warning that differs in its numbers only is given once.
MANY = 4
NUMBER = re.compile(r"\d[\d.,]*(?:e-?\d+)?")

# Error of a probability from which on the page warns of it.
MISSTATED = 0.1


class SpineVerdict:
    """Verdict and warnings about every block.

    Parameters
    ----------
    tree : as `spine_answer.gather` makes it; a verdict is about the cell in which most is learned
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
        """The cell in which most is learned: findings are about it."""

    @property
    def title(self) -> str:
        """The question, as a title."""
        only = "" if self.several else self.labels[0]
        return f"Every block: {self.about['query']}{f', {only}' if only else ''}"

    def of(self, group: str, cell: int | None = None) -> xr.Dataset:
        """Numbers of one cell: of that where most is learned, if none is given."""
        return self.data[group].isel(cell=self.most if cell is None else cell)

    def about_cell(self, text: str, cell: int | None = None) -> str:
        """A sentence about one cell, which is named where there are several."""
        return f"{self.labels[self.most if cell is None else cell]}: {text}" if self.several and text else text

    def protected(self, cell: int) -> bool:
        """True where noise protects any block with an answer."""
        return bool(self.of("cells", cell)["answered"] > self.of("cells", cell)["unprotected"])

    def beyond(self, cell: int) -> float:
        one = self.of("guarantee", cell)
        return float(one["share_below"]) + float(one["share_above"])

    def ends(self, quantity: str) -> tuple[float, float]:
        """Ends of a quantity that the guarantee allows the adversary."""
        low, high = self.of("bounds")[quantity].sel(prior=self.prior).values
        return float(low), float(high)

    def listed(self, name: str) -> list[str]:
        """An attribute that is a list."""
        return list(json.loads(self.about.get(name, "[]")))

    @property
    def verdict(self) -> tuple[str, str]:
        """Verdict on the release's effect on the adversary's prior over the blocks, and on the guarantee."""
        if not self.answered.any():
            return "No block has an answer that is proven.", "unreliable"
        cells, one, prior = range(len(self.labels)), self.of("cells"), format_probability(self.prior)
        over, judged = any(self.beyond(i) > self.failure for i in cells), any(map(self.protected, cells))
        lost, leaves = (self.data["cells"][name].values for name in ("unproven", "leaves"))
        at = int(np.argmax(lost / leaves))
        some, every = int(lost[at]), int(leaves[at])
        settled, there = int(one["unprotected"]), int(one["surely_there"])
        also = f"; in {there:,} of them one more person is there for certain" * (there > 0)
        first = self.about_cell(f"{some:,} of {blocks_words(every)} have no proven answer. ", at) * (2 * some > every)
        text = f"Exact counts settle what is asked in all {blocks_words(settled)} with an answer{also}."
        if self.protected(self.most):
            low, half, high = (format_number(float(x), HEADLINE) for x in self.quantiles)
            many = blocks_words(int(one["answered"]) - settled)
            text = f"In {many} the release multiplies a prior of {prior} by {low} to {high}; "
            text += f"in half of them by less than {half}."
            text += f" No noise protects {blocks_words(settled)} more{also}." * (settled > 0)
        status = "exceeded" if over else "unreliable" * bool(first) or "holds" * judged
        return first + self.about_cell(text), status

    @property
    def quantiles(self) -> tuple[float, float, float]:
        """The smallest, the median and the largest ratio of the blocks that noise protects."""
        low, half, high = map(float, self.of("risk")["ratio"].sel(quantile=[0.0, 0.5, 1.0]).values)
        return low, half, high

    def warnings(self) -> Iterator[str]:
        yield from (f"{name}: its file was damaged, and was made anew." for name in self.listed("damaged"))
        if self.about.get("synthetic"):
            yield "This population is synthetic. Nobody in it exists, and no number here is about a real place."
        # every warning once but for its numbers, with the cells it is about
        of: dict[str, dict[str, list[str]]] = {}
        for i, label in sorted(enumerate(self.labels), key=lambda one: (one[0] != self.most, one[0])):
            for text in self.warnings_of(i):
                kind = NUMBER.sub("#", text) if len(self.labels) > MANY else text
                of.setdefault(kind, {}).setdefault(text, []).append(label)
        for texts in of.values():
            text, cells = next(iter(texts.items()))
            others = sum(map(len, texts.values())) - 1
            if len(self.labels) > MANY and others:
                yield f"{cells[0]}: {text} So, with other numbers, in {others:,} more of {len(self.labels):,} cells."
            else:
                yield f"{'; '.join(cells)}: {text}" if self.several else text

    def misstated(self, i: int) -> float:
        """Most by which probabilities can be misstated by what effective measurements neglect."""
        spread = self.of("levels", i)["largest_sd"].values
        return misstatement(float(self.of("guarantee", i)["path_rho"]) - float(np.nansum(0.5 / spread**2)))

    def warnings_of(self, i: int) -> Iterator[str]:
        """Warnings to read before the numbers of a cell are believed."""
        one, statuses = self.of("cells", i), self.of("statuses", i)["blocks"].to_series()
        bound, tolerance = float(one["truncation_bound"]), float(self.about.get("tolerance", np.inf))
        if self.about.get("queries") == "all" and (limit := self.misstated(i)) > MISSTATED:
            yield (
                "Estimates from all queries do not use that the other cells are not negative. An adversary who does "
                f"can differ from these probabilities by up to {outward_percent(limit, True, 2)} points, and most "
                "where cells hold few people."
            )
        if bound > tolerance:
            yield f"What was left out is proven to be below {bound:.1e} only, not the {tolerance:.1e} asked for."
        if unprotected := int(one["unprotected"]):
            yield (
                f"No noise protects {blocks_words(unprotected)}: counts that are published exactly settle whether one "
                "more person is there. The guarantee does not cover them: medians, ranges and shares beyond the bounds "
                "are of the others."
            )
        if (over := self.beyond(i)) > self.failure:
            yield (
                f"{format_chance(over)} of blocks are beyond the bounds, more than their failure probability of "
                f"{percent(self.failure)}. The guarantee covers adversaries whose belief about the others is right; "
                "that of this one may not be."
            )
        if wrong := int(statuses.get(MISTAKEN, 0)):
            yield (
                f"In {blocks_words(wrong)} the release contradicts what the adversary is said to know: such counts "
                f"have a posterior probability below {percent(float(self.about['mistaken']))}. They are "
                "listed apart, and in no other number."
            )
        if lost := int(one["unproven"]):
            yield f"{blocks_words(lost)} {'has' if lost == 1 else 'have'} no number; the statuses below say why."
        if self.all_queries and np.isnan(self.of("risk", i)["one_query_ratio"]).all():
            alone = self.of("statuses", i)["one_query_blocks"].to_series()
            if lost := int(alone.drop([*PROVEN]).sum()):
                each = ", ".join(f"{count:,} {name}" for name, count in alone[alone > 0].items())
                yield (
                    f"Under one query {lost:,} of {blocks_words(int(alone.sum()))} {'has' if lost == 1 else 'have'} no "
                    f"number ({each}). No quantiles under one query are given: they would be of the others only."
                )


def blocks_words(number: int) -> str:
    """Number of blocks in words."""
    return f"{number:,} block{'s' * (number != 1)}"
