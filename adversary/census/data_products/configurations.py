"""Loading of the five data products from TOML files of this folder, each with its source, file and commit."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from adversary.census.allocation import LEVELS, OCCUPANCY, RHO_STAR, match_option
from adversary.census.data_products.data_product import DataProduct
from adversary.census.data_products.table_budget import TableBudget

# TOML file by product, in the order of publication.
FILES = {"PL94": "pl94", "DHC": "dhc", "DDHC-A": "ddhc_a", "DDHC-B": "ddhc_b", "S-DHC": "s_dhc"}

_SPELLINGS = {
    "pl94171": "pl94", "redistricting": "pl94", "detaileddhca": "ddhca", "detaileddhcb": "ddhcb",
    "supplementaldhc": "sdhc",
}  # fmt: skip


def product(name: str) -> DataProduct:
    """Data product of the 2020 Census by name.

    Parameters
    ----------
    name : "PL94", "DHC", "DDHC-A", "DDHC-B" or "S-DHC", in any common spelling

    Returns
    -------
    DataProduct

    Raises
    ------
    ValueError : an unknown name; the message lists the names

    >>> product("ddhc a").budget("nation", "detailed").margin().__round__(2)
    3.0
    """
    return _load(match_option("product", name, FILES, _name_key))


def products() -> Mapping[str, DataProduct]:
    """All five data products by name, in the order of publication.

    >>> [str(one.rho().limit_denominator(10**6)) for one in products().values()][:3]
    ['263/100', '126627/10000', '618/125']
    """
    return MappingProxyType({name: _load(name) for name in FILES})


def _name_key(name: object) -> str:
    """Common key of all spellings of a product's name."""
    key = re.sub("[^a-z0-9]", "", str(name).lower())
    return _SPELLINGS.get(key, key)


@cache
def _load(name: str) -> DataProduct:
    """Data product from its TOML file, read once."""
    text = (files("adversary.census.data_products") / f"{FILES[name]}.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    stated_budget = data["stated"]
    has_tables = "table" in data
    decider = data.get("decided_by")
    return DataProduct(
        **{key: data[key] for key in ("name", "title", "published", "unit", "neighbours")},
        rows=tuple(row for table in data["table"] for row in _table_budgets(table, data["levels"]))
        if has_tables
        else _redistricting_budgets(),
        levels=tuple(data["levels"]) if has_tables else LEVELS,
        within=MappingProxyType({key: tuple(value) for key, value in data.get("within", {}).items()}),
        siblings=MappingProxyType(data.get("siblings", {})),
        stated_rho=Fraction(stated_budget["rho"]),
        stated_neighbours=stated_budget["neighbours"],
        adds=stated_budget.get("adds", ""),
        decider=_load(decider) if decider else None,
        sources=tuple(data["sources"]),
        notes=tuple(data["notes"]),
    )


def _table_budgets(table: dict[str, Any], levels: Sequence[str]) -> list[TableBudget]:
    """`TableBudget` of one table for each level with a budget, finest first."""
    suppression = Fraction(table["suppression"]) if "suppression" in table else None
    budgets = []
    for level in levels:
        if rho := Fraction(table["rho"].get(level, 0)):
            budgets.append(
                TableBudget(
                    level,
                    table["name"],
                    table["universe"],
                    rho,
                    **{key: table[key] for key in ("sensitivity", "cells", "tau") if key in table},
                    part_of=table.get("of", ""),
                    stage_one=Fraction(table.get("stage_one", 0)),
                    thresholds=tuple(table.get("thresholds", {}).get(level, ())),
                    decided_by=table.get("decided_by", ""),
                    details=tuple(table.get("details", ())),
                    counts=tuple(table.get("counts", ())),
                    suppression=suppression if level in table.get("suppressed", ()) else None,
                )
            )
    return budgets


def _redistricting_budgets() -> tuple[TableBudget, ...]:
    """`TableBudget` of every query and level of the redistricting release, from its allocation."""
    return tuple(
        TableBudget(level, query, "housing units" if query == OCCUPANCY else "persons", rho, cells=2)
        for (level, query), rho in RHO_STAR.items()
        if rho
    )
