"""The register of kinds of files: the module that reads each, the tables that tell it from others, and its commands.

An annex enters the kinds of files that it reads here. The modules are imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of file.

    Parameters
    ----------
    module : name of the module whose `FILE` declares the keys
    tables : top-level tables that no other kind has
    about : the kind and the command that reads it, as messages name them
    commands : commands that read it, each with the optional tables that a file to begin with needs
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
"""Every kind of file by name; a guarantee also stands in files of other kinds, which their own tables tell first."""

# The kind of file that has a top-level table.
ABOUT = {table: kind.about for kind in KINDS.values() for table in kind.tables}
