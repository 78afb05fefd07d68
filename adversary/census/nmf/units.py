"""Units of a spine by their geocodes: parents, names, and the selection of units to read.

Geocodes of a level have one length, and that of a unit begins with its parent's. The digit before a state's code is 0
for the part of the state outside American Indian, Alaska Native and Hawaiian areas and 1 for the part inside. The tree
joins both parts under a unit that is not in the file, the whole state, whose total is exact. Likewise, the uppermost
units of an extract are joined under one root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversary._core import Integers
from adversary.census.nmf.exact_counts import State
from adversary.census.nmf.records import US
from adversary.census.spine import Tree

# Level of the units that join both parts of a state.
WHOLE_STATE = "Whole_State"

# Level of the root that joins the uppermost units of a file, if there are several.
EXTRACT = "Extract"

# Levels of these added units.
NOT_IN_FILES = (WHOLE_STATE, EXTRACT)

# Lengths of FIPS codes of states and counties, and of the tabulation code at the end of a block's geocode.
STATE_DIGITS, COUNTY_DIGITS, GEOID = 2, 5, 16

Codes = NDArray[np.str_]


def root_geocode(root: str | None, state: str | None, county: str | None) -> str:
    """Geocode prefix to read: "" for all, two digits for a state, else the geocode of a unit.

    ValueError if more than one argument is given, or if a FIPS code is malformed.

    >>> root_geocode(None, "44", None), root_geocode(None, None, "44007")
    ('44', '04410007')
    """
    roots = [one for one in (root, state, county) if one is not None]
    if len(roots) > 1:
        raise ValueError("give one of root, state and county")
    for name, code, digits in (("state", state, STATE_DIGITS), ("county", county, COUNTY_DIGITS)):
        if code is not None and not (code.isdigit() and len(code) == digits):
            raise ValueError(f"{name} must be its FIPS code of {digits} digits, got {code!r}")
    if county is not None:
        return f"0{county[:2]}10{county[2:]}"
    return "" if not roots or root == US else roots[0]


def levels_below(root: str, lengths: Mapping[str, int], levels: tuple[str, ...]) -> tuple[str, ...]:
    """Levels of the tree below a root, top down, with the whole state; ValueError if no level fits the root."""
    names = list(levels)
    if "State" in names:
        names.insert(names.index("State"), WHOLE_STATE)
    if not root:
        return tuple(names if names[0] == US else names[1:] if names[0] == WHOLE_STATE else names)
    fits = [level for level in names if len(root) == (STATE_DIGITS if level == WHOLE_STATE else lengths.get(level, 0))]
    if not fits:
        lengths_in_words = ", ".join(f"{level}: {n}" for level, n in lengths.items() if level != US)
        raise ValueError(f"root {root!r} is no geocode of a level, by its length ({lengths_in_words})")
    return tuple(names[names.index(fits[0]) :])


def under_one_root(levels: tuple[str, ...], units: dict[str, Codes]) -> tuple[tuple[str, ...], dict[str, Codes]]:
    """Levels and units, with a root of level "Extract" added if there are several uppermost units."""
    if units[levels[0]].size <= 1:
        return levels, units
    return (EXTRACT, *levels), {EXTRACT: np.array([EXTRACT]), **units}


def keys_of(codes: Codes) -> Codes:
    """Sort keys: geocodes with the state's digits first, so that both parts of a state are adjacent.

    >>> keys_of(np.array(["US", "044", "14400100"])).tolist()
    ['US', '440', '44100100']
    """
    width = codes.dtype.itemsize // 4
    if width <= STATE_DIGITS or not codes.size:
        return codes
    letters = np.ascontiguousarray(codes).view(np.uint32).reshape(codes.size, width)
    reordered = letters[:, [1, 2, 0, *range(3, width)]]
    return np.where(letters[:, 2:3] > 0, reordered, letters).view(codes.dtype).ravel()


def sort_by_key(codes: Codes) -> Codes:
    """Geocodes sorted by `keys_of`: children of one unit are contiguous, in the order of their parents."""
    return codes[np.argsort(keys_of(codes), kind="stable")]


def places_of(units: Codes, codes: Codes) -> Integers:
    """Positions of codes among sorted units; -1 for those that are absent."""
    if units.size == 0:
        return np.full(codes.size, -1)
    known, wanted = keys_of(units), keys_of(codes)
    place = np.minimum(np.searchsorted(known, wanted), units.size - 1)
    return np.where(known[place] == wanted, place, -1)


def parents_of(above: Codes, below: Codes) -> Integers:
    """(unit,) position of each unit's parent among the sorted units of the level above; -1 if absent."""
    if above.tolist() in ([US], [EXTRACT]):
        return np.zeros(below.size, dtype=np.int64)
    keys, upper_keys = keys_of(below), keys_of(above)
    prefixes = keys.astype(f"<U{len(above[0])}") if above.size else keys
    place = np.minimum(np.searchsorted(upper_keys, prefixes), max(above.size - 1, 0))
    return np.where(upper_keys[place] == prefixes, place, -1) if above.size else np.full(below.size, -1)


def whole_states(states: Codes) -> Codes:
    """Sorted two-digit codes of the states that have a part among `states`."""
    return np.unique(np.array([code[1:3] for code in states.tolist()], dtype=np.str_))


def build_tree(
    levels: tuple[str, ...], units: Mapping[str, Codes], location: Callable[[str, str], str]
) -> tuple[Tree, list[str]]:
    """Tree of the sorted units of every level, and faults: orphans, and units without children above the lowest level.

    location : function of level and geocode that returns file, geocode and query, for messages
    """
    parents, faults = [np.full(units[levels[0]].size, -1)], []
    start = 0
    for upper, lower in pairwise(levels):
        parents_of_level, children_of_level = units[upper], units[lower]
        place = parents_of(parents_of_level, children_of_level)
        if (orphans := np.flatnonzero(place < 0)).size:
            code, width = str(children_of_level[orphans[0]]), len(parents_of_level[0]) if parents_of_level.size else 0
            fault = f"an orphan, {code[:width]!r} is no unit of level {upper}" + f" ({orphans.size} such)" * (
                orphans.size > 1
            )
            faults.append(f"{location(lower, code)}: {fault}")
        if (childless := np.setdiff1d(np.arange(parents_of_level.size), place)).size:
            fault = f"no unit of level {lower} lies in it" + f" ({childless.size} such)" * (childless.size > 1)
            faults.append(f"{location(upper, str(parents_of_level[childless[0]]))}: {fault}")
        parents.append(start + place)
        start += parents_of_level.size
    sizes = [units[level].size for level in levels]
    tree = Tree(
        np.concatenate([units[level] for level in levels]), np.repeat(np.arange(len(levels)), sizes), levels,
        np.concatenate(parents).astype(np.int64),
    )  # fmt: skip
    return tree, faults


def geoid(code: str) -> str:
    """GEOID of a block: the last 16 characters of its geocode, in which the block group's digit is doubled.

    >>> geoid("0441000700010144007000101" + "11000")
    '440070001011000'
    """
    last = code[-GEOID:]
    return last[:11] + last[12:]


def name_of(code: str, level: str, states: Mapping[str, State]) -> str:
    """Name of a unit: GEOID of a block, name of a state or its part, number of a county; "" for other units."""
    if level == "Block":
        return geoid(code) if len(code) > GEOID else ""
    digits = code if level == WHOLE_STATE else code[1:3]
    state = states[digits].name if digits in states else f"state {digits}"
    if level == WHOLE_STATE:
        return state
    where = "inside" if code[:1] == "1" else "outside"
    if level == "State":
        return f"{state}, {where} American Indian, Alaska Native and Hawaiian areas"
    if level == "County":
        return f"county {digits}{code[5:]}, {state}" if code[3:5] == "10" else f"area {code[4:]}, {state}"
    return "United States" if level == US else ""


def names_of(tree: Any, states: Mapping[str, State]) -> NDArray[np.object_]:
    """(unit,) names of a tree's units, None for units without a name."""
    levels = np.asarray(tree.levels, dtype=object)[tree.level]
    names = [name_of(code, level, states) or None for code, level in zip(tree.names.tolist(), levels, strict=True)]
    return np.array(names, dtype=object)
