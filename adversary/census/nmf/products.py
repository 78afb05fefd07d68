"""Products published as Noisy Measurement Files: their levels, axes, categories and groups of categories.

As published for the 2020 Census: persons and housing units of the redistricting data (PL 94-171), and persons of the
Demographic and Housing Characteristics file (DHC). In a query, each axis has a word: "*" (summed over), the axis' own
name or "detailed" (every category), or the name of a grouping.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

Shape = tuple[int, ...]


class Category(NamedTuple):
    """Categories of an axis that a query counts together, by index, and their name ("" for all of them)."""

    label: str
    members: frozenset[int]


RACES = ("White", "Black", "American Indian", "Asian", "Pacific Islander", "some other race")
CENRACE = tuple(
    f"{' and '.join(races)}{' alone' * (size == 1)}" for size in range(1, 7) for races in combinations(RACES, size)
)
HISPANIC = ("not Hispanic", "Hispanic")
QUARTERS = (
    "households", "correctional facilities for adults", "juvenile facilities", "nursing facilities",
    "other institutions", "student housing", "military quarters", "other noninstitutional facilities",
)  # fmt: skip
RELATIONS = (
    "householder living alone", "householder not living alone", "opposite-sex spouse", "opposite-sex unmarried partner",
    "same-sex spouse", "same-sex unmarried partner", "biological child", "adopted child", "stepchild",
    "brother or sister", "father or mother", "grandchild", "parent-in-law", "son- or daughter-in-law", "other relative",
    "housemate or roommate", "foster child", "other nonrelative",
)  # fmt: skip
FACILITIES = (
    "federal detention centers", "federal prisons", "state prisons", "local jails", "correctional residences",
    "military disciplinary barracks", "group homes for juveniles", "residential treatment centers for juveniles",
    "correctional facilities for juveniles", "nursing facilities", "mental hospitals", "hospitals",
    "in-patient hospices", "military treatment facilities", "residential schools", "student housing",
    "military quarters", "military ships", "shelters", "group homes for adults",
    "residential treatment centers for adults", "maritime vessels", "workers' quarters", "other noninstitutional",
)  # fmt: skip

# First index of each of the eight `QUARTERS` in the axis of relations and facilities, and the end of the axis.
EIGHT = (0, 18, 24, 27, 28, 33, 34, 36, 42)


def _ranges(starts: tuple[int, ...], labels: tuple[str, ...]) -> tuple[Category, ...]:
    """Groups of consecutive categories from their first indices; the last start is the end of the last group."""
    ends = zip(starts, starts[1:], labels, strict=False)
    return tuple(Category(label, frozenset(range(start, stop))) for start, stop, label in ends)


# Groupings by axis and name; `Product.groups` derives more from names such as "relgq7" and "age_lessthan15".
GROUPINGS: dict[str, dict[str, tuple[Category, ...]]] = {
    "hhgq": {
        "hhinstlevels": _ranges((0, 1, 5, 8), ("households", "institutions", "noninstitutional group quarters")),
        "gqNursingTotal": (Category("nursing facilities", frozenset({3})),),
    },
    "votingage": {"nonvoting": (Category("under 18", frozenset({0})),)},
    "relgq": {
        "hhgq8lev": _ranges(EIGHT, QUARTERS),
        "gqlevels": _ranges((0, *range(18, 43)), ("households", *FACILITIES)),
    },
    "age": {"votingage": _ranges((0, 18, 116), ("under 18", "18 and over"))},
}


@dataclass(frozen=True)
class Product:
    """Product: a published histogram of noisy counts.

    Parameters
    ----------
    name : name in words
    levels : geographic levels from the top down
    axes : categories of every axis, in the order of the histogram
    total : name of the total count
    residents : whether the total is the resident population, which is exact for states
    """

    name: str
    levels: tuple[str, ...]
    axes: dict[str, tuple[str, ...]]
    total: str
    residents: bool = True

    @property
    def shape(self) -> Shape:
        """Lengths of the axes."""
        return tuple(map(len, self.axes.values()))

    def cut(self, shape: Shape) -> Product:
        """Product with only the first `shape` categories of each axis, as synthetic files may have."""
        return replace(self, axes={name: c[:n] for (name, c), n in zip(self.axes.items(), shape, strict=True)})

    def groups(self, axis: str, word: str, length: int) -> tuple[Category, ...] | None:
        """Groups of categories that the rows of an axis count; None if the grouping is unknown.

        axis : name of the axis
        word : word of the axis in the query
        length : number of rows
        """
        categories = self.axes[axis]
        everything = frozenset(range(len(categories)))
        if word in ("", "*"):
            return (Category("", everything),) if length == 1 else None
        if word in ("detailed", axis) and length == len(categories):
            return tuple(Category(label, frozenset({i})) for i, label in enumerate(categories))
        groups = GROUPINGS.get(axis, {}).get(word)
        if groups is None and (named := re.fullmatch(rf"{axis}(\d+)", word)) and int(named[1]) in everything:
            groups = (Category(categories[int(named[1])], frozenset({int(named[1])})),)
        if groups is None and (named := re.fullmatch(r"age_(?:lessthan(\d+))?_?(?:greaterthan(\d+))?", word)):
            low, high = int(named[1] or 0), int(named[2] or len(categories))
            groups = (Category(word.removeprefix("age_"), frozenset(i for i in everything if i < low or i > high)),)
        inside = tuple(Category(label, members & everything) for label, members in groups or ())
        inside = tuple(one for one in inside if one.members)
        return inside if len(inside) == length else None

    def label(self, words: tuple[str, ...], shape: Shape, cell: Any) -> str:
        """Description of a cell of a query, the last axis first: "Hispanic, 18 and over".

        Parameters
        ----------
        words : word of every axis in the query
        shape : lengths of its axes
        cell : index of the cell on every axis
        """
        parts = []
        for axis, word, length, place in zip(self.axes, words, shape, cell, strict=True):
            groups = self.groups(axis, word, length)
            numbered = f"{axis} {word if word != axis else ''}".strip() + f" {int(place) + 1} of {length}"
            parts.append(groups[int(place)].label if groups else numbered)
        return ", ".join(part for part in reversed(parts) if part) or self.total


PL_LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
DHC_LEVELS = ("US", "State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block")
AGES = ("under 1 year", *(f"{age} years" for age in range(1, 115)), "115 and over")
PL_PERSONS = Product(
    "PL 94-171 persons",
    PL_LEVELS,
    {"hhgq": QUARTERS, "votingage": ("under 18", "18 and over"), "hispanic": HISPANIC, "cenrace": CENRACE},
    "P1 total",
)
PL_UNITS = Product("PL 94-171 housing units", PL_LEVELS, {"h1": ("vacant", "occupied")}, "H1 total", False)
DHC_PERSONS = Product(
    "DHC persons",
    DHC_LEVELS,
    {
        "relgq": (*RELATIONS, *FACILITIES),
        "sex": ("male", "female"),
        "age": AGES,
        "hispanic": HISPANIC,
        "cenrace": CENRACE,
    },
    "P1 total",
)
PRODUCTS = (PL_PERSONS, PL_UNITS, DHC_PERSONS)
