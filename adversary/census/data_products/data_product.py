"""Data product of the 2020 Census: budgets of its configuration, their sum, plans and guarantees.

Configurations are the TOML files of this folder, each with its source, file and commit. Budgets are for the neighbours
of the configuration: a record added or removed (Detailed DHC, S-DHC) or changed (PL94, DHC). A changed record leaves as
many counts as it enters, so it costs twice as much as an added one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from adversary.adversaries.plans import Level, Plan
from adversary.census.allocation import level_key, match_option, query_key
from adversary.census.data_products.table_budget import TableBudget
from adversary.privacy import NEIGHBOURS, PrivacyUnit
from adversary.privacy.definitions import ZeroConcentratedDP
from adversary.privacy.losses import PrivacyLoss, compose_losses

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@dataclass(frozen=True)
class DataProduct:
    """A data product of the 2020 Census.

    Parameters
    ----------
    name, title, published : short name, full name, day of publication
    unit : privacy unit of the budgets: "record" (of a person, or of a housing unit), "person", "household"
    neighbours : neighbouring relation of the budgets: "unbounded" (a unit is added or removed) or "bounded" (changed)
    rows : a `TableBudget` for each table and level with a budget
    levels : geographic levels, finest first
    within : by level, the levels that contain it; default all later ones
    siblings : by level, the number of other units of the same parent, if it is the same everywhere
    stated_rho, stated_neighbours : budget as the Bureau states it, and its neighbouring relation
    adds : product whose budget the stated one includes, or ""
    decider : product whose noisy totals decide the form of the tables with a `decided_by`
    sources, notes : sentences

    >>> from adversary.census import product
    >>> one = product("DDHC-A")
    >>> one.rho(), one.rho("bounded"), one.stated_rho
    (Fraction(618, 125), Fraction(1236, 125), Fraction(2472, 125))
    """

    name: str
    title: str
    published: date
    unit: str
    neighbours: str
    rows: tuple[TableBudget, ...] = field(repr=False)
    levels: tuple[str, ...]
    within: Mapping[str, tuple[str, ...]] = field(repr=False)
    siblings: Mapping[str, int] = field(repr=False)
    stated_rho: Fraction
    stated_neighbours: str
    adds: str = ""
    decider: DataProduct | None = field(default=None, repr=False)
    sources: tuple[str, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables, in the order of the configuration."""
        return tuple(dict.fromkeys(row.table for row in self.rows))

    @property
    def counted(self) -> tuple[TableBudget, ...]:
        """Rows that add up to the budget: without those that spend the budget of another table, for other groups."""
        return tuple(row for row in self.rows if not row.part_of)

    @cached_property
    def budgets(self) -> pd.DataFrame:
        """Budgets and noise, one row per table and level, including rows that spend another table's budget.

        Columns: level, table, universe, rho (and `rho_exact`, a fraction), part_of, sensitivity and cells for which
        the noise is calibrated, tau, sigma2, margin (95 %), largest_error (95 %, whole), stage_one_rho,
        stage_one_sigma2, thresholds, suppressed_up_to; NaN or "" if there is none.
        """
        import pandas as pd

        return pd.DataFrame([row.record for row in self.rows])

    def rho(self, neighbours: str | None = None) -> Fraction:
        """zCDP budget rho of the whole product, in nats, exact: for one unit, over all levels and tables.

        Parameters
        ----------
        neighbours : "unbounded" (a unit is added or removed) or "bounded" (changed); default as in the configuration

        Raises
        ------
        ValueError : another word
        """
        total = sum((row.rho for row in self.counted), Fraction(0))
        return total * self._factor(neighbours)

    def guarantee(self, neighbours: str | None = None) -> ZeroConcentratedDP:
        """Guarantee: zCDP with `rho(neighbours)`.

        Parameters
        ----------
        neighbours : as for `rho`

        >>> from adversary.census import product
        >>> round(product("S-DHC").guarantee("bounded").posterior_bounds(0.01, 0.05)[1], 3)
        0.968
        """
        return ZeroConcentratedDP(float(self.rho(neighbours)))

    def loss(self, neighbours: str | None = None) -> PrivacyLoss:
        """Privacy loss of one unit that changes counts by one, composed over all noisy counts.

        Adaptive tables enter with both stages; groups with a total and no stage one have the same rho, and the same
        loss to 14 digits.

        Parameters
        ----------
        neighbours : as for `rho`

        Raises
        ------
        ValueError : a product in which one unit changes counts by more than one (S-DHC)
        """
        if any(row.sensitivity > 1 for row in self.rows):
            raise ValueError(
                f"{self.name} has no loss of one unit: a person changes counts by up to tau; take guarantee(), or the "
                "loss of a plan of one table"
            )
        factor = self._factor(neighbours)
        return compose_losses(
            [
                noise.privacy_loss(1, int(row.cells * factor))
                for row in self.counted
                for noise in (row.stage_one_noise, row.noise)
                if noise is not None
            ]
        )

    def _factor(self, neighbours: str | None) -> Fraction:
        """Cost for these neighbours relative to the configuration: a changed unit changes twice as many counts."""
        if neighbours not in (None, *NEIGHBOURS):
            raise ValueError(f"neighbours must be one of {', '.join(NEIGHBOURS)}, got {neighbours!r}")
        if neighbours in (None, self.neighbours):
            return Fraction(1)
        return Fraction(2) if neighbours == "bounded" else Fraction(1, 2)

    def level_name(self, level: str) -> str:
        """Name of a level as in `levels`, from another spelling ("US", "CBG"); ValueError lists the levels."""
        return match_option(f"level of {self.name}", level, self.levels, level_key)

    def table_name(self, table: str) -> str:
        """Name of a table as in `tables`, from another spelling; ValueError lists the tables.

        Parameters
        ----------
        table : name in upper or lower case, crossed attributes in any order
        """
        return match_option(f"table of {self.name}", table, self.tables, query_key)

    def budget(self, level: str, table: str) -> TableBudget:
        """`TableBudget` of one table at one level.

        Parameters
        ----------
        level, table : names as `level_name` and `table_name` understand them

        Raises
        ------
        ValueError : an unknown name, or a table without a budget at this level
        """
        level_wanted, table_wanted = self.level_name(level), self.table_name(table)
        for row in self.rows:
            if (row.level, row.table) == (level_wanted, table_wanted):
                return row
        budgeted = ", ".join(row.level for row in self.rows if row.table == table_wanted)
        raise ValueError(
            f"table {table_wanted!r} of {self.name} must be at one of {budgeted}, got {level_wanted!r}: no budget there"
        )

    def table_probabilities(self, level: str, table: str, count: ArrayLike) -> xr.DataArray:
        """Probability of each form of a group's table, and of none, by stage one and its thresholds.

        Parameters
        ----------
        level, table : as for `budget`
        count : true number of people in the group, whole, >= 0; or several. People for DDHC-B too, as their noisy total
            in DDHC-A decides

        Returns
        -------
        DataArray, dims (count, published), or (published,) for one count.

        >>> from adversary.census import product
        >>> product("DDHC-A").table_probabilities("tract", "detailed", 1000).round(3).values.tolist()
        [0.0, 0.04, 0.96, 0.0, 0.0]
        """
        row = self.budget(level, table)
        deciding_product = self.decider
        decider = (
            deciding_product.budget(row.level, row.decided_by)
            if deciding_product is not None and row.decided_by
            else None
        )
        return row.probabilities(count, decider)

    def privacy_unit(self, table: str, unit: str | None = None, neighbours: str | None = None) -> PrivacyUnit:
        """Privacy unit of a plan of one table: how many of its counts one unit changes, and by how much.

        In the Detailed DHC, a person changes nine counts by one. In S-DHC, a person moves a household of up to tau
        people from one count to another, and a household that is added or removed changes a count by at most tau.

        Parameters
        ----------
        table : name
        unit : "household" for S-DHC; default the unit of the product
        neighbours : as for `rho`

        Raises
        ------
        ValueError : an unknown table, another unit, or a changed unit of S-DHC
        """
        table_wanted = self.table_name(table)
        row = next(one for one in self.rows if one.table == table_wanted)
        is_household = row.sensitivity > 1
        units = (self.unit, "household") if is_household else (self.unit,)
        unit_name = match_option(f"unit of {self.name}", unit or self.unit, units, str)
        self._factor(neighbours)
        neighbours_used = neighbours or self.neighbours
        if is_household and neighbours_used == "bounded":
            raise ValueError(
                f"neighbours of a plan of {self.name} must be unbounded, got 'bounded': a changed person can change "
                "two households alike; take guarantee('bounded')"
            )
        if is_household:
            return PrivacyUnit(unit_name, row.tau or 1, 1 if unit_name == "household" else 2, neighbours_used)
        return PrivacyUnit(unit_name, 1, row.cells // (2 if self.neighbours == "bounded" else 1), neighbours_used)

    def plan(
        self,
        levels: str | Sequence[str],
        table: str,
        *,
        siblings: Mapping[str, int] | None = None,
        stage_one: bool = False,
        unit: str | None = None,
        neighbours: str | None = None,
    ) -> Plan:
        """Plan of one count: a cell of a table in one geographic unit, or in several units that contain one another.

        Parameters
        ----------
        levels : one level or several, in any order
        table : name
        siblings : by level, the number of other units of the same parent; required for every level below the highest,
            except where it is the same everywhere (50 states beside a state)
        stage_one : include the noisy count that chooses the form of the table, as a level "tract, stage one" of the
            same people: an upper bound on what the choice reveals
        unit, neighbours : as for `privacy_unit`

        Returns
        -------
        Plan with the privacy unit of `privacy_unit`. It does not include numbers published without noise.

        Raises
        ------
        ValueError : an unknown name, levels that do not contain one another, or siblings of a level not in the plan

        >>> from adversary.census import product
        >>> plan = product("DDHC-A").plan(["tract", "county"], "detailed", siblings={"tract": 12})
        >>> plan.names, plan.privacy_unit.cells, round(plan.total_rho, 4)
        (('tract', 'county'), 9, 0.2862)
        """
        chosen = {self.level_name(one) for one in ([levels] if isinstance(levels, str) else levels)}
        names = [one for one in self.levels if one in chosen]
        for lower, upper in pairwise(names):
            if upper not in self.within.get(lower, self.levels[self.levels.index(lower) + 1 :]):
                raise ValueError(f"levels of a plan must contain one another, got {lower!r} and {upper!r}")
        given = {self.level_name(name): count for name, count in (siblings or {}).items()}
        if unknown := [name for name in given if name not in names[:-1]]:
            raise ValueError(
                f"siblings must be of a level below the highest of the plan ({', '.join(names[:-1]) or 'none'}), "
                f"got {unknown[0]!r}"
            )
        levels_of_plan = []
        for lower, above in zip(names, [*names[1:], None], strict=True):
            row = self.budget(lower, table)
            default = self.siblings.get(lower) if above == "nation" else None
            sibling_count = None if above is None else given.get(lower, default)
            stages = [("", row.noise), (", stage one", row.stage_one_noise)][: 1 + stage_one]
            noises = [(lower + name, noise) for name, noise in stages if noise is not None]
            # Among levels of the same people the last has the siblings; truths and beliefs use the first one's name.
            levels_of_plan += [Level(name, noise, 0) for name, noise in noises[:-1]] + [
                Level(*noises[-1], sibling_count)
            ]
        return Plan(levels_of_plan, privacy_unit=self.privacy_unit(table, unit, neighbours))
