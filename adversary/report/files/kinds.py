"""Register of kinds of files: the module that reads each, the tables by which it is recognised, and its commands.

An annex registers the kinds of files that it reads here. The modules are imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Kind(NamedTuple):
    """Kind of file.

    Parameters
    ----------
    module : name of the module whose `FILE` declares the keys
    tables : top-level tables that no other kind has
    about : the kind and the command that reads it, for messages
    commands : commands that read it, each with the optional tables that a starting file for it needs
    """

    module: str
    tables: tuple[str, ...]
    about: str
    commands: Mapping[str, tuple[str, ...]]


KINDS = {
    "scenario": Kind(
        "adversary.report.files.scenario", ("plan",), "a scenario file, which adversary audit reads",
        {"audit": (), "compare": (), "explain": (), "sensitivity": ("sensitivity",)},
    ),
    "profile": Kind(
        "adversary.report.files.profile_file", ("profile", "profiles"),
        "a profile file, which adversary epsilon reads", {"epsilon": ()},
    ),
    "ledger": Kind(
        "adversary.report.commands.ledger_command", ("limit",), "a ledger, which adversary ledger reads", {"ledger": ()}
    ),
    "release": Kind(
        "adversary.bounded.report.release_file", ("release",), "a release file, which adversary infer reads",
        {"infer": ()},
    ),
    "regression": Kind(
        "adversary.bounded.report.regression_file", ("regression",), "a release file, which adversary infer reads", {}
    ),
    "tables": Kind(
        "adversary.report.files.tables.tables_file", ("data",),
        "a file of several tables of one population, which adversary tables reads", {"tables": ()},
    ),
    "table": Kind(
        "adversary.report.files.table_file", ("table",), "a table file, which adversary invariants reads",
        {"invariants": ()},
    ),
    "record": Kind(
        "adversary.releases.record_file", ("curator",), "a record of a release, which adversary gallery reads",
        {"gallery": ()},
    ),
    "guarantee": Kind(
        "adversary.report.files.guarantee_keys", ("guarantee",),
        "a file with a guarantee alone, which adversary bounds reads", {"bounds": ()},
    ),
}  # fmt: skip
"""Every kind of file by name. Files of other kinds may have a guarantee too: their own tables are looked for first."""

# Description of the kind of file that has a top-level table, by the table.
ABOUT = {table: kind.about for kind in KINDS.values() for table in kind.tables}
