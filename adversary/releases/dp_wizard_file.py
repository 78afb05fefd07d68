"""Analyses written by DP Wizard as YAML: their guarantee, privacy unit and plans of noisy counts.

After the source of DP Wizard 0.9 (`code_generators`): an analysis has one query for each column, and epsilon is split
among them by their weights. A histogram is `len()` with integer Laplace noise in each bin of each group; all
`contributions` rows of one unit may fall into one bin, so the scale is contributions / epsilon of the column. A mean is
a noisy sum over a noisy count and a median an exponential mechanism: neither is a noisy count.

Nodes tagged as Python objects are read as plain mappings and lists, and nothing in a file is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from adversary._core import check_whole
from adversary.adversaries.plans import Level, Plan
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.definitions import ApproximateDP, PureDP
from adversary.privacy.mechanisms import Geometric
from adversary.releases.yaml_text import load_yaml
from adversary.report.files.keys import Key, Keys

HISTOGRAM = "Histogram"
STATISTICS = (HISTOGRAM, "Mean", "Median")
PRODUCTS = ("STATISTICS", "SYNTHETIC_DATA")
COLUMN = {
    "statistic_name": Key("word", "what is published of the column", words=STATISTICS),
    "lower_bound": Key("number", "of the column's values"),
    "upper_bound": Key("number", "of the column's values"),
    "bin_count": Key("whole", "bins of a histogram, candidates of a median", None),
    "weight": Key("whole", "share of epsilon, among the weights of all columns"),
}
ANALYSIS = {
    "product": Key("word", "statistics, or synthetic data", words=PRODUCTS),
    "path": Key("any", "of the data, which are not read", None),
    "contributions": Key("whole", "the most rows of one unit"),
    "contributions_entity": Key("text", "what a unit is called", "person"),
    "epsilon": Key("number", "of the whole analysis"),
    "max_rows": Key("whole", "of the data, at most"),
    "groups": Key("open", "values of each grouping column; none where they are not public", {}),
    "analysis_columns": Key("open", "what is published of each column"),
    "schema_columns": Key("any", "types of the columns", None),
}
FILE = {
    "environment": Key("any", "versions of DP Wizard and Python", None),
    "analysis_plan": Key("open", "the analysis", keys=ANALYSIS),
}


@dataclass(frozen=True)
class DpWizardAnalysis:
    """Analysis of DP Wizard, as its YAML file states it.

    Parameters
    ----------
    guarantee : pure DP with the file's epsilon; approximate DP if a grouping column has no public values
    unit : the entity that contributes up to so many rows, added or removed
    plans : by column, for each histogram: the noisy count of one bin of one group
    others : by column, the statistic ("Mean", ...) of every column without such a plan
    notes : caveats, in sentences: what does not follow from the file
    """

    guarantee: Guarantee
    unit: PrivacyUnit
    plans: Mapping[str, Plan]
    others: Mapping[str, str]
    notes: tuple[str, ...]


def read_dp_wizard(path: str | Path) -> DpWizardAnalysis:
    """Read the YAML that DP Wizard writes of an analysis.

    Parameters
    ----------
    path : file with `environment` and `analysis_plan`

    Returns
    -------
    DpWizardAnalysis

    Raises
    ------
    ImportError : PyYAML is not installed (extra `interop`)
    OSError : the file cannot be read
    ValueError : it is not YAML, or a key is unknown, missing, of the wrong kind or out of range; the message names
        file, key, rule and value
    """
    file = Path(path)
    top = Keys(_plain_document(file), file, "", FILE)
    table = Keys(top.get("analysis_plan", dict, "the analysis, a mapping"), file, "analysis_plan", ANALYSIS)
    entries = table.read()
    product = entries["product"]
    epsilon = float(table.measure("epsilon"))
    if not epsilon > 0.0:
        raise ValueError(f"{table.where('epsilon')}: must be positive, got {epsilon:g}")
    contributions, max_rows = (_positive(table, name) for name in ("contributions", "max_rows"))
    unlisted_groups = [
        name for name, values in table.get("groups", dict, "a mapping of columns", {}).items() if not values
    ]
    is_pure = product == PRODUCTS[1] or not unlisted_groups
    # DP Wizard's own delta for groups whose names are released
    guarantee = PureDP(epsilon) if is_pure else ApproximateDP(epsilon, 1.0 / max(1e7, max_rows))
    name = entries["contributions_entity"] or "person"
    unit = table.build("contributions_entity", partial(PrivacyUnit, name, contributions, neighbours="unbounded"))
    columns = _columns(table)
    notes: list[str] = []
    plans: dict[str, Plan] = {}
    if product == PRODUCTS[1]:
        notes.append("Synthetic data: the noise of what they are made from is not in the file. The guarantee holds.")
    else:
        total = sum(column["weight"] for column in columns.values())
        for column, values in columns.items():
            if values["statistic_name"] == HISTOGRAM:
                noise = Geometric(epsilon * values["weight"] / total / contributions)
                plans[column] = Plan([Level(f"{column}, one bin", noise)], privacy_unit=unit)
    if unlisted_groups and plans:
        notes.append(
            f"The values of {', '.join(unlisted_groups)} are not listed, and the histograms that are generated take "
            "the groups for public: that a group has somebody in it is published as it is, which no guarantee covers."
        )
    others = {column: values["statistic_name"] for column, values in columns.items() if column not in plans}
    return DpWizardAnalysis(guarantee, unit, plans, others, tuple(notes))


def _columns(table: Keys) -> dict[str, dict[str, Any]]:
    """Entries of each column's statistic ("statistic_name", "weight", ...) by column; exactly one per column."""
    statistics_by_column = table.get("analysis_columns", dict, "a mapping of columns to a list of one statistic")
    if not statistics_by_column:
        raise ValueError(f"{table.where('analysis_columns')}: must have at least one column, got none")
    columns = {}
    for name, statistics in statistics_by_column.items():
        where = f"{table.key}.analysis_columns.{name}"
        if not isinstance(statistics, list) or len(statistics) != 1:
            raise ValueError(f"{table.file}: {where}: must be a list of one statistic, got {statistics!r}")
        part = Keys(statistics[0], table.file, where, COLUMN)
        columns[str(name)] = part.read() | {"weight": _positive(part, "weight")}
    return columns


def _positive(table: Keys, key: str) -> int:
    """A required whole number >= 1 of a table."""
    value = table.get(key, int, "a whole number")
    return int(table.build(key, partial(check_whole, key, value, minimum=1)))


def _plain_document(file: Path) -> Any:
    """The document of a DP Wizard file as plain mappings and lists; ValueError without `analysis_plan`."""
    document = load_yaml(file, "files of DP Wizard", tagged=True)
    if not isinstance(document, Mapping) or "analysis_plan" not in document:
        raise ValueError(f"{file}: must have environment and analysis_plan, as DP Wizard writes them")
    return document
