"""Table of a risk profile in a file: its `kind`, its numbers, and the adversaries it is about.

```toml
[profile]
kind = "ratio or absolute"       # or "constant", "box", "difference", "point", "minimum"
ratio = 2                        # numbers, or fractions as text: "6/5"
absolute = 0.25
value = 1                        # whom it is about: a number, or from where to where, as in [0.1, 1]
```

`inclusion` and `value` name the adversaries a profile is about, by their priors; left out, it is about all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from adversary.budget import RatioOrAbsolute, RiskProfile, Tolerance
from adversary.report.files.keys import Key, Keys
from adversary.report.files.toml_text import as_toml

_WHOM = ("inclusion", "value")
PROFILE = {
    "kind": Key("any", 'how it is written: "constant", "ratio or absolute", "box", "difference", "point", "minimum"',
                example='"ratio or absolute"'),
    "ratio": Key("number", "posterior over prior that is tolerated", None, example="2", live=True),
    "absolute": Key("number", "posterior that is tolerated whatever the ratio", None, example="0.25", live=True),
    "by": Key("number", "of a difference: how far the posterior may rise", None, example="0.1"),
    "of": Key("list", "of a minimum: profiles, each a table", None, example='[{ kind = "constant", ratio = 3 }]'),
    "inclusion": Key("any", "prior that the target is in the data; or from where to where", None, example="[0.1, 1]"),
    "value": Key("any", "prior that their record is one that would do harm; or from where to where", None, example="1",
                 live=True),
}  # fmt: skip
_RANGE = 'a number such as 0.05 or "1/20", or two, from where to where, as in [0.1, 1]'


def read_profile(table: Keys) -> RiskProfile:
    """Risk profile of one table.

    Other keys of the table, which do not belong to the profile, must have been read before: all others are refused.

    Raises
    ------
    ValueError : a key is unknown, missing, of the wrong kind or out of range; file, key, rule and value are named
    """
    # tolerances with a kind have keys named as their fields
    own = {one.kind: one for one in Tolerance.__subclasses__() if one.kind}
    kinds: dict[str, Any] = {
        **_KINDS,
        **{kind: (tuple(getattr(one, "__dataclass_fields__", ())), one) for kind, one in own.items()},
    }
    kind = table.one_of("kind", tuple(kinds))
    names, make = kinds[kind]
    table.only("kind", *names, *_WHOM)
    return table.build("", partial(_made, table, kind, names, make))  # type: ignore[no-any-return]


def _made(table: Keys, kind: str, names: tuple[str, ...], make: Callable[..., Any]) -> RiskProfile:
    """Profile of a kind, restricted to the adversaries that the table names; some kinds require them.

    `names` are the keys of its numbers, from which `make` returns the profile or its tolerance.
    """
    required = kind in ("box", "point")
    whom = {name: given for name in _WHOM if (given := _whom(table, name, required, kind == "point")) is not None}
    if kind == "minimum":
        first, *others = _several(table)
        profile = first.minimum(*others) if others else first
    else:
        numbers = [float(table.number(name)) for name in names]
        made = table.build(names[0], partial(make, *numbers)) if len(names) == 1 else make(*numbers)
        profile = made if isinstance(made, RiskProfile) else RiskProfile(made)
    return profile.within(**whom) if whom else profile


def _several(table: Keys) -> list[RiskProfile]:
    """Profiles of the list `of`, at least one."""
    rule = 'a list of profiles, such as [{ kind = "constant", ratio = 3 }, { kind = "difference", by = 0.2 }]'
    rows = table.get("of", list, rule)
    if not rows:
        raise ValueError(f"{table.where('of')}: must be {rule}, got []")
    below = f"{table.key}." if table.key else ""
    return [read_profile(Keys(row, table.file, f"{below}of[{i}]")) for i, row in enumerate(rows, 1)]


def _difference(by: float) -> RiskProfile:
    """Profile that tolerates a rise of the posterior by a difference in (0, 1)."""
    if not 0.0 < by < 1.0:
        points = f"; {by:g} percentage points are {by / 100.0:g}" if 1.0 <= by < 100.0 else ""
        raise ValueError(f"must be a difference of probabilities in (0, 1), got {by:g}{points}")
    return RiskProfile.difference(by)


# Kinds of profile other than tolerances with a kind: the keys of their numbers, and a constructor from these.
_KINDS: Mapping[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "constant": (("ratio",), RiskProfile.constant),
    "ratio or absolute": (("ratio", "absolute"), RatioOrAbsolute),
    "box": (("ratio",), RiskProfile.constant),
    "difference": (("by",), _difference),
    "point": (("ratio",), RiskProfile.constant),
    "minimum": (("of",), RiskProfile.minimum),
}


def _whom(table: Keys, key: str, required: bool, single: bool) -> Any:
    """Priors of the adversaries under a key: None without it, a number, or (from, to) unless it must be `single`."""
    if not table.has(key) and not required:
        return None
    given = table.get(key, (int, float, str, list), _RANGE)
    if single or not isinstance(given, list):
        return float(table.number(key))
    if len(given) != 2:
        raise ValueError(f"{table.where(key)}: must be {_RANGE}, got {as_toml(given)}")
    low, high = map(float, table.numbers(key))
    return low, high
