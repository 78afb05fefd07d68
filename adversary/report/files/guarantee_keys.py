"""Tables `[guarantee]` and `[privacy_unit]` of a file: guarantees by the name of their definition, and the unit.

A definition with one parameter is written as a number, as in `"pure DP" = 1`, one with several as a table of them.
`adversary bounds FILE` reads a file with a guarantee and no plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from pathlib import Path

from adversary._core import DEFAULT_FAILURE, quoted
from adversary.privacy import NEIGHBOURS, Guarantee, PrivacyUnit, definitions
from adversary.report.files.keys import FileDescription, Key, Keys, probability, texts
from adversary.report.files.toml_text import read_toml

# The order in which guarantees are shown; definitions that it does not name come after these.
FIRST = ("zCDP", "pure DP", "approximate DP", "probabilistic DP", "Gaussian DP")

# Values of parameters in a starting file.
EXAMPLES = {"epsilon": "1.0", "delta": "1e-6", "rho": "0.1", "mu": "1.0"}


def _example(kind: type[Guarantee]) -> str:
    """Value of a definition in a starting file, as TOML."""
    names = kind.parameter_names()
    if names == ("rho",):
        return '"sum of levels"'
    given = {name: EXAMPLES.get(name, "2.0") for name in names}
    return given[names[0]] if len(names) == 1 else f"{{ {', '.join(f'{name} = {x}' for name, x in given.items())} }}"


def _kinds() -> dict[str, type[Guarantee]]:
    """Definitions with a `kind` that `privacy.definitions` exports, by kind, in the order of `FIRST`."""
    exported = [getattr(definitions, name) for name in dir(definitions)]
    kinds = [one for one in exported if isinstance(one, type) and issubclass(one, Guarantee) and one.kind]
    return {one.kind: one for one in sorted(kinds, key=lambda one: FIRST.index(one.kind) if one.kind in FIRST else 99)}


DEFINITIONS = _kinds()
GUARANTEE = {
    name: Key("any", f"its {' and '.join(one.parameter_names())}", None, example=_example(one), live=name == FIRST[0])
    for name, one in DEFINITIONS.items()
}

UNIT = {
    "name": Key("text", "what one of them is called: person, household, device-day, report", "person",
                example='"person"'),
    "contribution": Key("number", "the most by which one changes one published number", None, example="1"),
    "cells": Key("whole", "the most numbers of one level or table that one changes when added or removed", 1),
    "neighbours": Key("word", "whether one is added or removed (unbounded) or replaced (bounded)", None, NEIGHBOURS,
                      example='"unbounded"'),
    "periods": Key("whole", "how many periods, each with a release of its own, the same one is present in", 1),
}  # fmt: skip

# Keys about the neighbour relation and privacy unit of a budget, in every file with a guarantee.
UNITS = {
    "neighbours": Key("word", "for which the budget is: a record is added (unbounded) or changes (bounded)", None,
                      words=NEIGHBOURS, example='"unbounded"', live=True),
    "privacy_unit": Key("table", "whose data is protected, and how much of the release one of them changes", None,
                        keys=UNIT),
}  # fmt: skip

# Keys of a file with a guarantee and no plan.
FILE = {
    **texts(),
    **UNITS,
    "failure": Key("real", "probability with which a bound that is not certain may fail", DEFAULT_FAILURE, live=True,
                   make=probability),
    "guarantee": Key("table", "what is guaranteed",
                     keys={**GUARANTEE, "zCDP": GUARANTEE["zCDP"]._replace(example="0.1")}),
}  # fmt: skip


@dataclass(frozen=True)
class GuaranteeFile(FileDescription):
    """File with one guarantee of one privacy unit in one period, and no plan; read and checked."""

    guarantee: Guarantee
    unit: PrivacyUnit
    failure: float


def load_guarantee(path: str | Path) -> GuaranteeFile:
    """Read a file with a guarantee and no plan, the input of `adversary bounds`.

    Parameters
    ----------
    path : TOML file with a `[guarantee]` of one definition

    Returns
    -------
    GuaranteeFile

    Raises
    ------
    OSError : the file cannot be read
    ValueError : it is not TOML, a key is unknown, missing, of the wrong kind or out of range, or there are several
        guarantees; the message names file, key, rule and value
    """
    file = Path(path)
    top = Keys.of_file(read_toml(file), file, "a file with a guarantee alone", FILE)
    words = {name: top.get(name, str, "text", "") for name in texts()}
    guarantee = read_guarantee(top.table("guarantee"), " where there is no plan")
    unit = read_unit(top).resolved(None)
    return GuaranteeFile(**words, path=file, guarantee=guarantee, unit=unit, failure=top["failure"])


def read_unit(top: Keys) -> PrivacyUnit:
    """Privacy unit of a file; its neighbours may also be the file's `neighbours`, and are None if neither is given.

    Raises
    ------
    ValueError : a key of the wrong kind or out of range, or two words for the neighbours
    """
    above = top["neighbours"]
    if not top.has("privacy_unit"):
        return PrivacyUnit(neighbours=above)
    table = top.table("privacy_unit")
    given = {key: table[key] for key in ("name", "cells", "neighbours", "periods")}
    unit = table.build("", partial(PrivacyUnit, contribution=table.measure("contribution", None), **given))
    if above is not None and unit.neighbours not in (None, above):
        raise ValueError(
            f"{top.where('neighbours')}: must be that of privacy_unit, {unit.neighbours!r}, or be left out, "
            f"got {above!r}"
        )
    made: PrivacyUnit = replace(unit, neighbours=unit.neighbours or above)
    return made


def read_guarantee(table: Keys, why: str = "") -> Guarantee:
    """Guarantee of a table that must state exactly one definition; `why` is added to the error."""
    guarantees = read_guarantees(table)
    if len(guarantees) > 1:
        raise ValueError(f"{table.file}: {table.key}: must state one definition{why}, got {', '.join(guarantees)}")
    return next(iter(guarantees.values()))


def read_guarantees(table: Keys, total: Callable[[], float] | None = None) -> dict[str, Guarantee]:
    """Guarantees of a table by definition, at least one; for `zCDP = "sum of levels"` rho is `total()` if given."""
    guarantees: dict[str, Guarantee] = {}
    for name in DEFINITIONS:
        if table.has(name):
            guarantees[name] = table.build(name, partial(_guarantee, table, name, total))
    if not guarantees:
        raise ValueError(f"{table.file}: {table.key}: must state at least one of {quoted(DEFINITIONS)}, got nothing")
    return guarantees


def _guarantee(table: Keys, name: str, total: Callable[[], float] | None) -> Guarantee:
    """Guarantee of one definition, from its number or its table."""
    kind = DEFINITIONS[name]
    names = kind.parameter_names()
    if names == ("rho",) and table.values[name] == "sum of levels" and total is not None:
        if not isfinite(rho := total()):
            raise ValueError(
                f"{table.values[name]!r} is infinite: the noise of a level, such as a perturbation table, has no zCDP: "
                "leave the guarantee out, or state one that holds"
            )
        return kind(rho)
    if len(names) == 1:
        return kind(float(table.number(name)))
    several = table.table(name)
    given = [float(several.number(key)) for key in names]
    several.finish()
    return kind(*given)
