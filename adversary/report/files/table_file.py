"""Table files of `adversary invariants`: a table of counts with exact margins and noise, read from TOML and checked.

`[invariants]` has the margins, `[table]` the noise and, if there are any, the released table and counts that the
adversary knows, `[prior]` their prior for the cell of a record (uniform without it), and `[guarantee]` the guarantee
for a change of one record, unless the noise was made for the margins. Nothing in a file is executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import DEFAULT_FAILURE
from adversary.adversaries.known_totals import Dirichlet, Independent, TablePrior, table_prior, unknown_margins
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.definitions import PureDP, ZeroConcentratedDP
from adversary.privacy.invariants import KNorm, SpanGaussian, VectorNoise, sensitivity_space
from adversary.privacy.mechanisms import ContinuousNoise, IntegerNoise, Mechanism
from adversary.report.files.guarantee_keys import GUARANTEE, read_guarantees
from adversary.report.files.invariant_keys import INVARIANTS, Published, read_invariants
from adversary.report.files.keys import FileDescription, Key, Keys, probability, texts
from adversary.report.files.plan_keys import LEVEL, NOISES, PARAMETERS, check_releases, read_noise
from adversary.report.files.toml_text import as_toml, read_toml

# Kinds of noise made for the margins, with their parameter.
MADE = {"k-norm": "epsilon", "span gaussian": "mu"}

# Kinds of noise that is added to every cell on its own.
CELLS = tuple(kind for kind, law in NOISES.items() if issubclass(law, IntegerNoise | ContinuousNoise))
_PRIOR = {
    "cells": Key("list", "probability of a record in each cell", None, example="[[0.2, 0.3], [0.1, 0.4]]"),
    "odds_ratio": Key("number", "of a two by two table, in place of cells", None, example="2"),
    "concentration": Key(
        "list", "of a Dirichlet distribution of the table, in place of cells", None, example="[[1, 1], [1, 1]]"
    ),
}
_TABLE = {
    "noise": Key(
        "word",
        "distribution of the noise, the first two of the whole table",
        words=(*MADE, *CELLS),
        example='"geometric"',
    ),
    **{name: LEVEL[name] for name in PARAMETERS},
    "epsilon": LEVEL["epsilon"]._replace(live=True),
    "mu": Key("number", "of span gaussian noise", None, example="1.0"),
    "records": Key("whole", "that noise made for the margins covers, at most", None, example="2"),
    "released": Key("list", "the noisy table, if there is one", None, example="[[6, 8], [1, 6]]", live=True),
    "known": Key("list", "counts that the adversary knows to be in it", None, example="[[0, 0], [0, 0]]"),
    "releases": Key(
        "whole", "tables that are released beside the same margins", 1, make=lambda _, given: check_releases(given)
    ),
}
_GUARANTEE = GUARANTEE | {"zCDP": GUARANTEE["zCDP"]._replace(example="0.1")}
FILE = {
    **texts(),
    "failure": Key(
        "real",
        "probability with which a bound that is not certain may fail",
        DEFAULT_FAILURE,
        live=True,
        make=probability,
    ),
    "invariants": Key("table", "margins that are published exactly", keys=INVARIANTS),
    "table": Key("table", "the noise, and what was released", keys=_TABLE),
    "prior": Key("table", "what is believed of a record; without it: all cells alike", None, keys=_PRIOR),
    "guarantee": Key("table", "for a change of one record; not of noise made for the margins", None, keys=_GUARANTEE),
}

# Number of cells that change if one record does: the old cell loses it and the new one gains it.
MOVED = 2

# Largest number of changed records for which noise is made: the set of all such changes grows fast with it.
MOST_RECORDS = 3


@dataclass(frozen=True)
class TableFile(FileDescription):
    """Table file, read and checked.

    Parameters
    ----------
    invariants : the two margins, rows and columns
    mechanism : noise of every cell on its own, or of the whole table, made for the margins
    guarantees : for a change of one record, on all databases, by name; none if the noise is made for the margins
    made_for : number of changed records for which noise made for the margins has its guarantee; None for other noise
    prior : of one record, and of the table
    released, known : the noisy table, and counts that the adversary knows to be in it; or None
    releases : number of such tables released with the same margins, each with its guarantee; the file has one of them
    failure : probability with which a bound that is not certain may fail
    """

    invariants: Published
    mechanism: Mechanism | VectorNoise
    guarantees: dict[str, Guarantee]
    made_for: int | None
    prior: TablePrior
    released: list[list[float]] | None
    known: list[list[int]] | None
    releases: int
    failure: float

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        rows, columns = self.invariants.margins.counts
        return len(rows), len(columns)


def load_table_file(path: str | Path, failure: float | None = None) -> TableFile:
    """Read a table file, the input of `adversary invariants`.

    Parameters
    ----------
    path : TOML file with `[invariants]` and `[table]`
    failure : probability that a bound may fail, in place of that of the file (`DEFAULT_FAILURE` where it has none)

    Returns
    -------
    TableFile : the margins published exactly, the noise, the prior, and the released table if there is one.

    Raises
    ------
    OSError : the file cannot be read
    ValueError : it is not TOML, or a key is unknown, missing, of the wrong kind or out of range, or no database can
        have these margins and what is known; the message names file, key, rule and value
    """
    file = Path(path)
    top = Keys.of_file(read_toml(file), file, "a table file", FILE)
    published = read_invariants(top.table("invariants"))
    table = top.table("table")
    if len(published.features) != 2:
        raise ValueError(
            f"{file}: invariants.margins: must be two, of the rows and of the columns of the table, got "
            f"{len(published.features)}"
        )
    shape = tuple(len(counts) for counts in published.margins.counts)
    made_for, mechanism = table.build("", partial(_mechanism, table, published))
    released, known = (_table(table, key, shape, kind) for key, kind in (("released", float), ("known", int)))
    times = table["releases"]
    prior = _prior(top.table("prior"), published) if top.has("prior") else table_prior(None, *_margins(published))
    if known is not None:
        table.build("known", partial(unknown_margins, published.margins, known))
    if top.has("guarantee") and made_for is not None:
        raise ValueError(
            f"{file}: guarantee: must be left out where the noise is made for the margins, which has a guarantee, "
            f"got {mechanism!r}"
        )
    guarantees = (
        read_guarantees(top.table("guarantee")) if top.has("guarantee") else _noise_guarantees(mechanism, made_for)
    )
    chance = top["failure"] if failure is None else top.build("failure", partial(probability, "failure", failure))
    words = {key: top[key] for key in texts()}
    return TableFile(
        published, mechanism, guarantees, made_for, prior, released, known, times, chance, **words, path=file
    )


def _margins(published: Published) -> tuple[Any, Any]:
    """Exact totals of the rows and of the columns, as arrays."""
    rows, columns = (np.asarray(counts) for counts in published.margins.counts)
    return rows, columns


def _mechanism(table: Keys, published: Published) -> tuple[int | None, Mechanism | VectorNoise]:
    """(records that noise made for the margins covers, noise)."""
    noise = table["noise"]
    if noise not in MADE:
        given = [key for key in ("mu", "records") if table.has(key)]
        if given:
            raise ValueError(f"{given[0]} is for noise made for the margins, {' or '.join(MADE)}, got {noise!r}")
        return None, read_noise(table, PrivacyUnit(neighbours="bounded"))
    given = [key for key in ("mu", *PARAMETERS) if table.has(key)]
    if given != [MADE[noise]]:
        raise ValueError(f"{noise} noise takes {MADE[noise]}, got {', '.join(given) or 'nothing'}")
    default = min(max(published.margins.semi_adjacency, 1), MOST_RECORDS)
    records = table.get("records", int, "2 or 3", default)
    rows, columns = published.margins.counts
    space = sensitivity_space(rows, columns, records)
    if space.rank == 0:
        raise ValueError("the margins determine the table: there is nothing left to add noise to")
    value = float(table.number(MADE[noise]))
    return records, KNorm(space, value) if noise == "k-norm" else SpanGaussian(space, value)


def _noise_guarantees(mechanism: Any, made_for: int | None) -> dict[str, Guarantee]:
    """Guarantee of noise of every cell for a change of one record, pure DP or zCDP; none if made for the margins."""
    if made_for is not None:
        return {}
    certain = mechanism.privacy_loss(1, MOVED).loss_bound(0.0)
    if np.isfinite(certain):
        return {"pure DP": PureDP(float(certain))}
    return {"zCDP": ZeroConcentratedDP(MOVED * float(mechanism.rho()))}


def _table(table: Keys, key: str, shape: tuple[int, ...], kind: type) -> Any:
    """Rows of numbers of one type, of a given shape; None without the key."""
    rows = table.get(key, list, "a list of rows of numbers", None)
    if rows is None:
        return None
    whole = kind is int
    right = len(rows) == shape[0] and all(isinstance(row, list) and len(row) == shape[1] for row in rows)
    if not right or not all(
        isinstance(x, int if whole else (int, float)) and not isinstance(x, bool) for row in rows for x in row
    ):
        numbers = "whole numbers" if whole else "numbers"
        raise ValueError(f"{table.where(key)}: must be {shape[0]} rows of {shape[1]} {numbers}, got {as_toml(rows)}")
    return [[kind(x) for x in row] for row in rows]


def _prior(table: Keys, published: Published) -> TablePrior:
    """Prior of a table `[prior]`, from exactly one of its three keys."""
    given = [key for key in _PRIOR if table.has(key)]
    if len(given) != 1:
        raise ValueError(f"{table.file}: {table.key}: give exactly one of {', '.join(_PRIOR)}, got {given or 'none'}")
    key = given[0]
    if key == "odds_ratio":
        odds_ratio = float(table.number(key))
        made = table.build(key, lambda: Independent.from_odds_ratio(odds_ratio))
    else:
        shape = tuple(len(counts) for counts in published.margins.counts)
        cells = np.array(_table(table, key, shape, float))
        made = table.build(key, lambda: (Independent if key == "cells" else Dirichlet)(cells))
    checked: TablePrior = table.build(key, lambda: table_prior(made, *_margins(published)))
    return checked
