"""`adversary ledger`: releases about the same people under one limit, and the budget that is left."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import xarray as xr

from adversary._core import as_given, format_bound, join_words
from adversary.budget import Ledger
from adversary.budget.ledger import KINDS as LIMITS
from adversary.budget.ledger import RULES
from adversary.privacy import Guarantee, definitions
from adversary.privacy.losses import PrivacyLoss
from adversary.report.commands import options
from adversary.report.files.keys import Key, Keys
from adversary.report.files.toml_text import read_toml
from adversary.report.kit import Answer, Card, Column, Document, Section, Summary, attempt, guarded_document, tabulate

# Definitions of `--limit` and `--add`, by the names of their parameters.
NAMES: dict[tuple[str, ...], type[Guarantee]] = {
    ("rho",): definitions.ZeroConcentratedDP,
    ("epsilon",): definitions.PureDP,
    ("mu",): definitions.GaussianDP,
    ("epsilon", "delta"): definitions.ApproximateDP,
    ("alpha", "gamma"): definitions.RenyiDP,
}
_EXAMPLES = {
    "pure DP": "0.5", "approximate DP": "{ epsilon = 0.5, delta = 1e-7 }", "zCDP": "0.1", "Gaussian DP": "0.3",
    "Renyi DP": "{ alpha = 4.0, gamma = 0.2 }",
}  # fmt: skip
_DEFINITIONS = {
    name: Key("any", f"its {' and '.join(kind.parameter_names())}", None, example=_EXAMPLES.get(name, "1.0"))
    for name, kind in LIMITS.items()
}
_RELEASE = {
    "name": Key("text", "of the release"),
    **_DEFINITIONS,
    "times": Key("whole", "how many releases alike", 1),
    "fixed": Key("flag", "its parameters were fixed before the first release was seen", False),
    "date": Key("text", "when", "", example='"2026-02-01"'),
}

# Keys of a ledger, which `Ledger.load` reads.
FILE = {
    "title": Key("text", "whose releases these are", "", example='"..."', live=True),
    "limit": Key("table", "what all releases together must guarantee: one of these definitions", keys={
        **_DEFINITIONS,
        "zCDP": _DEFINITIONS["zCDP"]._replace(example="1.0", live=True),
        "rule": Key("word", "by which they add up; the first that keeps the limit", None, tuple(RULES)),
    }),
    "release": Key("rows", "releases so far", (), keys=_RELEASE, live=True,
                   example=[{"name": '"tables of 2025"', "zCDP": "0.4"}]),
}  # fmt: skip

# Delta at which a composed loss is stated as an epsilon.
DELTA = 1e-6


@options.answering("file")
def ledger_command(
    file: Annotated[Path, typer.Argument(help="Ledger file (TOML); made by --limit.", metavar="LEDGER.toml")],
    add: Annotated[
        str | None, typer.Option(help='One more release: "tables of 2026: rho 0.1".', metavar="NAME: GUARANTEE")
    ] = None,
    times: Annotated[int, typer.Option(help="With --add: so many releases alike.", metavar="N")] = 1,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="With --add: its parameters were fixed before any release was seen.")
    ] = False,
    date: Annotated[str, typer.Option(help="With --add: its date.", metavar="TEXT")] = "",
    limit: Annotated[
        str | None,
        typer.Option(help='Begin a ledger with this limit: "rho 2", or "epsilon 1, delta 1e-6".', metavar="GUARANTEE"),
    ] = None,
    rule: Annotated[
        str, typer.Option(help="With --limit: sum, zCDP, Renyi, Gaussian or losses.", show_default="by the limit")
    ] = "",
) -> Answer:
    """What releases about the same people spend of a limit, what is left, and by which rule."""
    if limit is not None:
        if file.exists():
            raise ValueError(f"--limit begins a ledger, and {file} is there: leave it out, or name another file")
        ledger = Ledger(_guarantee("--limit", limit), rule)
    elif rule:
        raise ValueError("--rule goes with --limit: the rule of a ledger is fixed before its first release")
    else:
        ledger = _load(file)
    if add is not None:
        name, colon, text = add.rpartition(":")
        if not colon or not name.strip():
            raise ValueError(f'--add must be NAME: GUARANTEE, such as "tables of 2026: rho 0.1", got {add!r}')
        if name.strip() in [one.name for one in ledger.entries]:
            raise ValueError(
                f"--add: {name.strip()!r} is in {file} already: give another name, such as with its date, or --times "
                "for several alike"
            )
        ledger.add(name.strip(), _guarantee("--add", text), times=times, fixed=fixed, date=date)
    elif times != 1 or fixed or date:
        raise ValueError("--times, --fixed and --date go with --add: they are about one more release")
    if add is not None or limit is not None:
        if not file.parent.is_dir():
            raise ValueError(f"{file}: cannot be written: there is no folder {file.parent}")
        ledger.save(file)
    return Answer(_solve(ledger, file), partial(_document, ledger))


def _load(file: Path) -> Ledger:
    """Ledger of a file; ValueError for a file of another kind, with the command that reads it."""
    if not file.exists():
        raise ValueError(f'{file}: no such file; --limit begins it: adversary ledger {file} --limit "rho 1"')
    document = read_toml(file)
    Keys.of_file({key: x for key, x in document.items() if key not in FILE}, file, "a ledger", {})
    return Ledger.load(file)


def _guarantee(option: str, text: str) -> Guarantee:
    """Guarantee of a text such as "rho 0.1" or "epsilon 1, delta 1e-6"; `option` is named in errors."""
    parts = [one.split() for one in re.split(r"[,;]", text.replace("=", " "))]
    names = tuple(part[0] for part in parts if part)
    if names not in NAMES or any(len(part) != 2 for part in parts):
        known = "; ".join(", ".join(f"{name} .." for name in one) for one in NAMES)
        comma = "; numbers have a point, as 0.1, and no comma" if re.search(r"\d,\d", text) else ""
        raise ValueError(f"{option}: a guarantee must be one of {known}; got {text.strip()!r}{comma}")
    kind: Any = NAMES[names]
    made: Guarantee = kind(*(options.number(option, part[1]) for part in parts))
    return made


def _solve(ledger: Ledger, file: Path) -> xr.DataTree:
    """Tree of a ledger: groups `releases` (release) and `left` (definition), and the summary."""
    entries, left = ledger.entries, ledger.left
    rows = {
        "name": [one.name for one in entries],
        "guarantee": [one.guarantee.describe() for one in entries],
        "times": np.array([one.times for one in entries], dtype=np.int64),
        "date": [one.date for one in entries],
    }
    releases = xr.Dataset({key: ("release", np.asarray(x)) for key, x in rows.items()})
    room = xr.Dataset(
        {"left": ("definition", np.array([*left.values()], dtype=float), {"direction": "lower"})},
        {"definition": [*left]},
    )
    tree = xr.DataTree.from_dict({"releases": releases, "left": room})
    total = ledger.spent
    spent = f"epsilon {format_bound(float(total.epsilon(DELTA)), True)} at delta {as_given(DELTA)}"
    if not isinstance(total, PrivacyLoss):
        spent = total.describe() if entries else "nothing"
    tree.attrs.update(limit=ledger.limit.describe(), rule=ledger.rule, spent=spent, words=ledger.words)
    shown = [f"{name} {format_bound(x, False)}" for name, x in left.items() if x > 0.0]
    rest = f"Left of {ledger.limit.describe()}: {join_words(shown, 'or')}."
    verdict = rest if shown else f"Nothing is left of {ledger.limit.describe()}."
    return Summary(ledger.title or file.stem, ("releases", "left"), verdict).on(tree)


def _short(guarantee: Guarantee, upper: bool) -> str:
    """A guarantee's definition and parameters, to three digits."""
    parameters = join_words([f"{name} {format_bound(x, upper)}" for name, x in guarantee.budget.items()])
    return f"{guarantee.definition}, {parameters}"


def _spent_in_short(ledger: Ledger, tree: xr.DataTree) -> str:
    """What is spent, in short where it is a guarantee with parameters."""
    total = ledger.spent
    short = bool(ledger.entries) and not isinstance(total, PrivacyLoss)
    return _short(total, True) if short else str(tree.attrs["spent"])


@guarded_document
def _document(ledger: Ledger, tree: xr.DataTree) -> Document:
    """Document of a ledger: the budget spent, the budget left, and every release."""
    sentence = "One more release may have as much, of one definition at a time."
    columns: dict[str, Any] = {
        "release": None, "name": Column("release"), "date": Column("date"), "guarantee": Column("guarantee of each"),
        "times": Column("times", "count"),
    }  # fmt: skip
    if not any(one.date for one in ledger.entries):
        del columns["date"]
    room = {"definition": Column("definition"), "left": Column("parameter at most", "at least")}
    count = sum(one.times for one in ledger.entries)
    releases, left = tree["releases"].to_dataset(), tree["left"].to_dataset()
    return Document(
        tree,
        Card([("limit", _short(ledger.limit, False)), ("spent", _spent_in_short(ledger, tree)),
              ("releases", as_given(count))], sentence=str(tree.attrs["words"])),
        sections=[
            attempt(
                "What is left",
                lambda: Section("What is left", sentence, tables=[tabulate(left, room, name="left")]),
            ),
            attempt("Releases", lambda: Section("Releases", tables=[tabulate(releases, columns, name="releases")])),
        ],
        provenance=[("rule", ledger.rule)],
    )  # fmt: skip
