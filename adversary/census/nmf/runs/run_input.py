"""Input of a run over a Noisy Measurement File: file, query, and beliefs; priors of the leaves as text and JSON."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import Floats, check_probability, check_whole
from adversary.census import spine
from adversary.census.nmf.measurements import Measurements, read
from adversary.census.nmf.units import geoid
from adversary.census.spine import Flat, LeafPrior, NegativeBinomial, Poisson, SharedRate

# Leaf priors by the name in their text form, and their number of parameters.
KINDS: dict[str, tuple[Callable[..., LeafPrior], int]] = {
    "shared-rate": (SharedRate, 0),
    "flat": (Flat, 0),
    "poisson": (Poisson, 1),
    "negative-binomial": (NegativeBinomial, 2),
}
FORMS = "shared-rate, flat, poisson=MEAN or negative-binomial=SHAPE,MEAN"


def leaf_prior(text: str) -> LeafPrior:
    """Parse the prior of the leaves' counts from its text form.

    Parameters
    ----------
    text : "shared-rate", "flat", "poisson=MEAN" or "negative-binomial=SHAPE,MEAN", MEAN in people per leaf

    Raises
    ------
    ValueError : another form, or parameters out of range

    >>> leaf_prior("poisson=0.7").mean.tolist()
    0.7
    """
    kind, sign, rest = text.strip().partition("=")
    rule = f"the prior of leaves must be {FORMS}, got {text!r}"
    make, count = KINDS.get(kind, (Flat, -1))
    try:
        values = [float(part) for part in rest.split(",")] if sign else []
    except ValueError:
        raise ValueError(rule) from None
    if len(values) != count:
        raise ValueError(rule)
    return make(*values)


def description(prior: LeafPrior) -> dict[str, Any]:
    """Kind and parameters of a prior of the leaves, ready for JSON.

    Parameters
    ----------
    prior : prior of the leaves' counts

    Returns
    -------
    {"kind": name of its class, parameter: number, list, text or None}.

    >>> description(Poisson(0.7))
    {'kind': 'Poisson', 'mean': 0.7}
    """
    values = {f.name: getattr(prior, f.name) for f in fields(prior) if f.name != "law"}  # type: ignore[arg-type]
    plain = {name: x if isinstance(x, str | None) else np.asarray(x).tolist() for name, x in values.items()}
    return {"kind": type(prior).__name__, **plain}


@dataclass(frozen=True)
class RunInput:
    """Input of a run: file, query, beliefs, and tolerances.

    Parameters
    ----------
    directory, query, cells, product, root, state, county, totals, queries : as for `nmf.read`
    leaf_prior : prior of the leaves' counts
    prior : prior probability, for the adversary of every leaf, that one more person is there
    known : number of other people the adversary knows to be in the leaf: None, not known; one number for all leaves; or
        a CSV file with columns geocode (or GEOID of a block) and known, in which blocks may be missing
    mistaken : tail probability of a known count below which the adversary is taken to be mistaken
    prob : probability of the highest posterior density sets
    tolerance : largest truncation bound for status "ok"
    level : level whose units are the pieces
    """

    directory: str
    query: str
    cells: Any = None
    leaf_prior: LeafPrior = field(default_factory=SharedRate)
    prior: float = 0.1
    known: int | str | Path | None = None
    mistaken: float = 1e-3
    prob: float = 0.9
    tolerance: float = 1e-10
    level: str = "County"
    product: str | None = None
    root: str | None = None
    state: str | None = None
    county: str | None = None
    totals: str | None = None
    queries: str = "one"

    def __post_init__(self) -> None:
        check_probability("prior", self.prior)
        check_probability("mistaken", self.mistaken)
        if isinstance(self.known, int):
            check_whole("known", self.known, minimum=0)

    @property
    def parameters(self) -> dict[str, Any]:
        """All fields but `directory` and `totals`, ready for JSON."""
        cells = self.cells.tolist() if isinstance(self.cells, np.ndarray) else self.cells
        known = str(self.known) if isinstance(self.known, Path) else self.known
        settings = {
            one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("directory", "totals")
        }
        return settings | {"cells": cells, "known": known, "leaf_prior": description(self.leaf_prior)}

    def read(self, *, progress: bool = False) -> Measurements:
        """Read the measurements from the file."""
        names = ("product", "root", "state", "county", "totals", "queries")
        where = {name: getattr(self, name) for name in names}
        return read(self.directory, self.query, self.cells, progress=progress, **where)

    def others(self, tree: spine.Tree) -> Floats | None:
        """(leaf,) known number of other people, NaN where not known; None if not known in any leaf."""
        if self.known is None:
            return None
        if isinstance(self.known, int):
            return np.full(tree.leaves.size, float(self.known))
        counts: dict[str, float] = {}
        with Path(self.known).open(encoding="utf-8-sig", newline="") as file:
            for number, row in enumerate(csv.DictReader(file), 2):
                try:
                    counts[row["geocode"].strip()] = float(check_whole("known", float(row["known"]), minimum=0))
                except (KeyError, AttributeError, TypeError, ValueError):
                    rule = f"must have columns geocode and known, a whole number of people, got {dict(row)}"
                    raise ValueError(f"{self.known}: row {number} {rule}") from None
        codes = tree.names[tree.leaves].tolist()
        known_counts = np.array([counts.get(code, counts.get(geoid(code), np.nan)) for code in codes])
        unmatched = set(counts) - set(codes) - {geoid(code) for code in codes}
        if len(unmatched) == len(counts):
            raise ValueError(
                f"{self.known}: none of its {len(counts)} geocodes is a block of the file, such as {codes[0]}"
            )
        return known_counts
