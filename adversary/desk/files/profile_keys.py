"""How a risk profile is written in a file: one table with a `kind` and its numbers, the same everywhere.

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

from adversary.desk.files.keys import Key, Keys
from adversary.policy.budget import RiskProfile, Tolerance

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
    """The risk profile of one table.

    Keys that belong to something else must have been asked for before: whatever else is left is refused.

    Raises
    ------
    ValueError : a key is unknown, missing, of the wrong kind or out of range; file, key, rule and value are named
    """
    kinds = _kinds()
    names, make = kinds[table.one_of("kind", tuple(kinds))]
    table.only("kind", *names, *_WHOM)
    return table.build("", partial(make, table))  # type: ignore[no-any-return]


def _difference(table: Keys) -> RiskProfile:
    (by,) = _numbers(table, "by")
    if not 0.0 < by < 1.0:
        points = f"; {by:g} percentage points are {by / 100.0:g}" if 1.0 <= by < 100.0 else ""
        raise ValueError(f"{table.where('by')}: must be a difference of probabilities in (0, 1), got {by:g}{points}")
    return _restrict(table, RiskProfile.difference(by))


def _minimum(table: Keys) -> RiskProfile:
    rule = 'a list of profiles, such as [{ kind = "constant", ratio = 3 }, { kind = "difference", by = 0.2 }]'
    rows = table.get("of", list, rule)
    if not rows:
        raise ValueError(f"{table.where('of')}: must be {rule}, got []")
    first, *others = (read_profile(Keys(row, table.file, f"{_below(table)}of[{i}]")) for i, row in enumerate(rows, 1))
    return _restrict(table, first.minimum(*others) if others else first)


_KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[Keys], RiskProfile]]] = {
    "constant": (("ratio",), lambda table: _restrict(table, RiskProfile.constant(*_numbers(table, "ratio")))),
    "ratio or absolute": (
        ("ratio", "absolute"),
        lambda table: RiskProfile.ratio_or_absolute(
            *_numbers(table, "ratio", "absolute"), *(_whom(table, name) for name in _WHOM)
        ),
    ),
    "box": (
        ("ratio",),
        lambda table: RiskProfile.box(
            float(table.number("ratio")), *(_whom(table, name, required=True) for name in _WHOM)
        ),
    ),
    "difference": (("by",), _difference),
    "point": (("ratio",), lambda table: RiskProfile.point(*_numbers(table, "ratio", *_WHOM))),
    "minimum": (("of",), _minimum),
}


def _kinds() -> dict[str, tuple[tuple[str, ...], Callable[[Keys], RiskProfile]]]:
    """Those written in a form of their own, and every tolerance with a `kind`, whose fields are the keys."""
    own = {one.kind: one for one in Tolerance.__subclasses__() if one.kind}
    return {**_KINDS, **{kind: (_names(one), partial(_from_fields, one)) for kind, one in own.items()}}


def _names(kind: type[Tolerance]) -> tuple[str, ...]:
    return tuple(getattr(kind, "__dataclass_fields__", ()))


def _from_fields(kind: type[Tolerance], table: Keys) -> RiskProfile:
    return _restrict(table, RiskProfile(kind(*_numbers(table, *_names(kind)))))


def _below(table: Keys) -> str:
    return f"{table.key}." if table.key else ""


def _numbers(table: Keys, *names: str) -> list[float]:
    return [float(table.number(name)) for name in names]


def _whom(table: Keys, key: str, *, required: bool = False) -> Any:
    """None, a number, or (from, to)."""
    if not table.has(key) and not required:
        return None
    given = table.get(key, (int, float, str, list), _RANGE)
    if not isinstance(given, list):
        return float(table.number(key))
    if len(given) != 2:
        raise ValueError(f"{table.where(key)}: must be {_RANGE}, got {given!r}")
    low, high = map(float, table.numbers(key))
    return low, high


def _restrict(table: Keys, profile: RiskProfile) -> RiskProfile:
    """The profile for the adversaries that the table names, if it names any."""
    given = {name: whom for name in _WHOM if (whom := _whom(table, name)) is not None}
    return profile.within(**given) if given else profile
