"""Table `[invariants]` of a file: one-way margins that are published exactly, with names for the features.

```toml
[invariants]
features = ["district"]          # optional names
margins = [[45, 955]]          # counts of the levels of each published feature
reading = "worst"                # or "literal", of semi-adjacency
```
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from adversary.adversaries.plans import Plan
from adversary.privacy.invariants import READINGS, Margins
from adversary.report.files.keys import Key, Keys
from adversary.report.files.toml_text import as_toml

INVARIANTS = {
    "features": Key("list", "a name for each published feature", None, example='["sex", "work"]', live=True),
    "margins": Key("list", "its counts, for each feature", example="[[12, 9], [7, 14]]"),
    "reading": Key("word", "of semi-adjacency", READINGS[0], READINGS),
}


@dataclass(frozen=True)
class Published:
    """Margins published exactly, with the names of their features.

    Parameters
    ----------
    margins : counts of the levels of each feature
    features : a name for each
    """

    margins: Margins
    features: tuple[str, ...]

    @property
    def named(self) -> dict[str, list[int]]:
        """Exact counts of the levels of each feature, by the feature's name."""
        return {name: list(counts) for name, counts in zip(self.features, self.margins.counts, strict=True)}


def read_invariants(table: Keys) -> Published:
    """Margins of a table `[invariants]`, after checks; ValueError if no database can have them."""
    rows = table.get("margins", list, "a list of lists of counts, one for each published feature")
    for row in rows:
        if not isinstance(row, list):
            raise ValueError(f"{table.where('margins')}: must be lists of counts, got {as_toml(row)}")
    for count in (x for row in rows for x in row):
        if isinstance(count, str | bool | list | dict):
            raise ValueError(f"{table.where('margins')}: must hold counts, whole numbers, got {as_toml(count)}")
    reading = table["reading"]
    margins = table.build("margins", partial(Margins, rows, reading))
    default = [f"feature {k}" for k in range(1, len(rows) + 1)]
    names = table.get("features", list, "a list of names, one for each margin", default)
    texts = [name for name in names if isinstance(name, str) and name.isprintable()]
    if len(set(texts)) < len(names) or len(names) != len(rows):
        raise ValueError(
            f"{table.where('features')}: must be {len(rows)} different names, one for each margin, got {as_toml(names)}"
        )
    table.finish()
    # computed here and cached, without its warning that a(t) is an upper bound only: answers say so themselves
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        margins.semi_adjacency  # noqa: B018
    return Published(margins, tuple(names))


def check_agreement(table: Keys, published: Published, plan: Plan, truth: Mapping[str, Any]) -> None:
    """ValueError if a count that the plan publishes exactly is not among the margins."""
    counts = {count for levels in published.margins.counts for count in levels}
    for level in plan.levels:
        for count in np.ravel(truth[level.name]) if level.is_exact else ():
            if int(count) not in counts:
                raise ValueError(
                    f"{table.where('margins')}: must hold every count that is published exactly; level {level.name!r} "
                    f"publishes {int(count)}, got {[list(levels) for levels in published.margins.counts]}"
                )
