"""Risk from two releases of the same tables, of files of two years that share some of their people."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from adversary._core import shared_ranks
from adversary.adversaries.tables import Population, PublishedTable, TableAdversary
from adversary.driver.columns import counts_of_other_file, population
from adversary.driver.tables_audit import audit_tables

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

EVERYBODY = "everybody"

# Unit separator of ASCII: no label of a category has it.
_APART = "\x1f"


def audit_two_releases(
    data: Any,
    before: Any,
    tables: Iterable[PublishedTable],
    adversary: TableAdversary | None = None,
    **how: Any,
) -> pd.DataFrame:
    """Risk of one person, if the same tables were published before of an earlier file, with fresh noise.

    The adversary knows everybody else in both files, who may differ. A person in a cell that had people before is
    assumed to be in both releases, which both reveal information; a person in a cell that was empty is in this release
    only. Noise must be additive: the evidence of a release then does not depend on the number of others.

    Parameters
    ----------
    data, before : this file and the one before, as of `audit_tables`; cells are aligned by their categories' names
    tables : published of each
    adversary : one who knows everybody else, `TableAdversary(prior, "everybody")`; prior 1/2 unless given
    **how : `guarantee` (of both releases together), `privacy_unit`, `failure`, `rng`, of `audit_tables`

    Returns
    -------
    DataFrame of `audit_tables`, with a column "before", people of the cell in the file before. `attrs["cautions"]` says
    how many people are in both.

    Raises
    ------
    ValueError : an adversary who does not know everybody else, noise that is not additive, or a file before without the
        columns or categories of this one

    >>> import pandas as pd
    >>> from adversary.privacy.mechanisms import Geometric
    >>> now = pd.DataFrame({"area": ["A", "B"], "n": [3, 2]})
    >>> then = pd.DataFrame({"area": ["A", "C"], "n": [5, 9]})
    >>> tables = [PublishedTable("area", Geometric(1.0))]
    >>> risks = audit_two_releases(now, then, tables, TableAdversary(0.1, "everybody"))
    >>> risks[["area", "before"]].values.tolist(), risks["posterior_mean"].round(4).tolist()
    ([['A', 5], ['B', 0]], [0.2814, 0.1801])
    """
    import pandas as pd

    published, known_adversary = [*tables], adversary or TableAdversary(knows=EVERYBODY)
    if known_adversary.knows != EVERYBODY:
        raise ValueError(
            f'knows must be "everybody" beside a file before, got {known_adversary.knows!r}: what is unknown of others '
            "in one year is not what is unknown in the other (--knows everybody)"
        )
    if not_additive := [one for one in published if not one.noise.is_additive]:
        raise ValueError(
            f"table {not_additive[0].name!r}: noise must be additive beside a file before, "
            f"got {not_additive[0].noise!r}"
        )
    people, earlier = (one if isinstance(one, Population) else population(one, published) for one in (data, before))
    twice = [replace(one, releases=2 * one.releases) for one in published]
    single, double = (audit_tables(people, some, known_adversary, **how) for some in (published, twice))
    counts = counts_of_other_file(people, earlier, "the file before")
    columns = [name for name in people.columns if name in single]
    count_before = _by_label(people, counts, columns)
    for frame in (single, double):
        frame.index = frame[columns].astype(str).agg(_APART.join, axis=1)
        frame["before"] = frame.index.map(count_before)
    in_both = (single["before"] > 0) & (single["count"] > 0)
    joined = pd.concat([single[~in_both], double.loc[single.index[in_both]]])
    joined = joined.sort_values("posterior_mean", ascending=False, kind="stable", ignore_index=True)
    joined["rank"] = shared_ranks(joined["posterior_mean"], joined["mcse"])
    most_in_both = int(np.minimum(people.counts, counts).sum())
    caution = (
        "Whoever is in a cell that had people before is taken to be in both releases: "
        f"at most {most_in_both:,} people are."
    )
    joined.attrs.update(double.attrs | {"cautions": [*double.attrs["cautions"], caution]})
    return joined


def _by_label(people: Population, counts: Any, columns: list[str]) -> dict[str, int]:
    """Counts (*axes) summed over the axes of all other columns, by the labels of these columns joined by `_APART`."""
    counts_by_label: dict[str, int] = {}
    for cell in np.ndindex(counts.shape):
        label = people.label(cell)
        key = _APART.join(label[name] for name in columns)
        counts_by_label[key] = counts_by_label.get(key, 0) + int(counts[cell])
    return counts_by_label
