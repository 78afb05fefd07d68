"""The 2020 Census allocations, as exact fractions.

The redistricting release spent rho = 2.56 on persons. Each geographic level got a share of it, and the detailed
histogram (the query that publishes every cell) a share of its level.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType

GLOBAL_RHO = Fraction(64, 25)
"""zCDP of the 2020 redistricting persons tables, 2.56."""

LEVEL_SHARE: Mapping[str, Fraction] = MappingProxyType(
    {
        "block": Fraction(165, 4099),
        "block group": Fraction(1256, 4099),
        "tract": Fraction(687, 4099),
        "county": Fraction(447, 4099),
        "state": Fraction(1440, 4099),
        "nation": Fraction(104, 4099),
    }
)
"""Share of the global rho by geographic level (the block group is the "optimized" one); they sum to one."""

DETAILED_SHARE: Mapping[str, Fraction] = MappingProxyType(
    {
        "block": Fraction(3945, 4097),
        "block group": Fraction(1288, 4099),
        "tract": Fraction(241, 2051),
        "county": Fraction(754, 4097),
        "state": Fraction(230, 4097),
        "nation": Fraction(189, 241),
    }
)
"""Share of the detailed histogram in its level's rho."""

DETAILED_RHO: Mapping[str, Fraction] = MappingProxyType(
    {level: GLOBAL_RHO * LEVEL_SHARE[level] * DETAILED_SHARE[level] for level in LEVEL_SHARE}
)
"""rho of one cell of the detailed histogram at each level (Kazan and Reiter 2025, Table 2)."""
