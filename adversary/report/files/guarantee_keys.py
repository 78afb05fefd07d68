"""The `[guarantee]` of a file: every guarantee it makes, by the name of its definition.

A definition with one parameter is a number, as in `"pure DP" = 1`, one with several a table of them by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from adversary.privacy import Guarantee, definitions
from adversary.report.files.keys import Key, Keys

FIRST = ("zCDP", "pure DP", "approximate DP", "probabilistic DP", "Gaussian DP")
"""The order in which guarantees are shown; definitions that it does not name come after these."""
EXAMPLES = {"epsilon": "1.0", "delta": "1e-6", "rho": "0.1", "mu": "1.0"}
"""Of parameters, in a starting file."""


def _example(kind: type[Guarantee]) -> str:
    names = kind.parameter_names()
    if names == ("rho",):
        return '"sum of levels"'
    given = {name: EXAMPLES.get(name, "2.0") for name in names}
    return given[names[0]] if len(names) == 1 else f"{{ {', '.join(f'{name} = {x}' for name, x in given.items())} }}"


def _kinds() -> dict[str, type[Guarantee]]:
    """Every definition handed out by the door of `privacy.definitions` that has a `kind`."""
    exported = [getattr(definitions, name) for name in dir(definitions)]
    kinds = [one for one in exported if isinstance(one, type) and issubclass(one, Guarantee) and one.kind]
    return {one.kind: one for one in sorted(kinds, key=lambda one: FIRST.index(one.kind) if one.kind in FIRST else 99)}


DEFINITIONS = _kinds()
GUARANTEE = {
    name: Key("any", f"its {' and '.join(one.parameter_names())}", None, example=_example(one), live=name == FIRST[0])
    for name, one in DEFINITIONS.items()
}


def read_guarantees(table: Keys, total: Callable[[], float] | None = None) -> dict[str, Guarantee]:
    """Every guarantee of the table. `zCDP = "sum of levels"` is `total`, where there is such a sum."""
    promises: dict[str, Guarantee] = {}
    for name in DEFINITIONS:
        if table.has(name):
            promises[name] = table.build(name, partial(_guarantee, table, name, total))
    if not promises:
        raise ValueError(f"{table.file}: {table.key}: must state at least one of {tuple(DEFINITIONS)}, got nothing")
    return promises


def _guarantee(table: Keys, name: str, total: Callable[[], float] | None) -> Guarantee:
    kind = DEFINITIONS[name]
    names = kind.parameter_names()
    if names == ("rho",) and table.values[name] == "sum of levels" and total is not None:
        return kind(total())
    if len(names) == 1:
        return kind(float(table.number(name)))
    several = table.table(name)
    given = [float(several.number(key)) for key in names]
    several.finish()
    return kind(*given)
