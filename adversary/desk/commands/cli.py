"""The command line: commands that print tables or one JSON object, or write a directory of a page, figures and data.

The module of a command is imported when the command is run, so that `--help` answers at once. Exit codes: 0; 2 where
the input is refused, in one line on standard error and with nothing written; 130 when interrupted.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from adversary._core import __version__

AUDIT, CHOOSE, INFER, SETUP = "Audit a release", "Choose a guarantee", "Analyse noisy data", "Set up"


class Entry(NamedTuple):
    """The line of help of a command, its group, an example, and its module where that has another name."""

    help: str
    group: str
    example: str
    module: str = ""


COMMANDS = {
    "audit": Entry(
        "What an adversary learns about one person, averaged over releases, and what the guarantee allows.",
        AUDIT,
        "adversary audit data/granville_1940.toml --out report",
    ),
    "table": Entry(
        "What an adversary learns about one person in every cell of a table, under planned noise.",
        AUDIT,
        "adversary table data/town_counts.csv --rho 0.1 --levels block,group,tract",
    ),
    "compare": Entry(
        "Two audits side by side: the same scenario with other noise, other neighbours or another adversary.",
        AUDIT,
        "adversary compare data/granville_1940.toml data/granville_1940_bounded.toml",
        "audit_command",
    ),
    "sensitivity": Entry(
        "How far the answers move with prior, budget, siblings and beliefs.",
        AUDIT,
        "adversary sensitivity data/clinic_visits.toml --out sensitivity",
        "audit_command",
    ),
    "explain": Entry(
        "What a guarantee, a tolerated risk or an audit means, in words.",
        AUDIT,
        "adversary explain data/granville_1940.toml --audience regulator",
    ),
    "plan": Entry(
        "The noise of a table's levels that keeps a tolerated risk with the least error.",
        CHOOSE,
        "adversary plan data/town_counts.csv --profile data/survey_profile.toml --levels block,group,tract",
        "table_command",
    ),
    "epsilon": Entry(
        "The largest epsilon that keeps a tolerated risk, who needs it, and what it costs in accuracy.",
        CHOOSE,
        "adversary epsilon data/durham_infant_mortality.toml --out epsilon",
        "guarantee_commands",
    ),
    "bounds": Entry(
        "What a guarantee allows any adversary: beliefs, tests, and epsilon at a delta.",
        CHOOSE,
        "adversary bounds --rho 2.63 --prior 1/100",
        "guarantee_commands",
    ),
    "invariants": Entry(
        "What exact totals beside a noisy release cost: guarantees with and without them, and what is learned.",
        CHOOSE,
        "adversary invariants data/districts_1940_total.toml",
    ),
    "census": Entry(
        "What the noise of the 2020 Census allows an adversary to learn, by concern.",
        CHOOSE,
        "adversary census scenario C --out census_c",
        "guarantee_commands",
    ),
    "infer": Entry(
        "The posterior of the real mean and deviation behind noisy ones, or of a regression line behind noisy sums.",
        INFER,
        "adversary infer data/blood_lead.toml",
    ),
    "spine": Entry(
        "The exact posterior of every count of a geographic spine, and what it reveals about one person by block.",
        INFER,
        "adversary spine county --query DETAILED --cell 0,1,0,2 --out found",
    ),
    "nmf": Entry(
        "Noisy Measurement Files: make a synthetic one, or check one.",
        INFER,
        "adversary nmf synth county --blocks 2000 --shape 2x2x2x7",
    ),
    "init": Entry(
        "A commented file for a command to begin with.",
        SETUP,
        "adversary init audit scenario.toml",
        "setup_commands",
    ),
    "schema": Entry(
        "The JSON schema of a kind of file, so that an editor completes keys, or of what --json prints.",
        SETUP,
        "adversary schema scenario",
        "setup_commands",
    ),
    "doctor": Entry(
        "Versions, cores, caches and optional extras of this installation.",
        SETUP,
        "adversary doctor --json",
        "setup_commands",
    ),
}
"""Every command `x`, in the order in which a user needs them: `x_command` in the module of that name."""


class Commands(TyperGroup):
    """The commands, each imported when it is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(str(name)), rest


def load(name: str) -> Any:
    """A command with all its options, its line of help and its example."""
    entry = COMMANDS[name]
    made = getattr(import_module(f"adversary.desk.commands.{entry.module or f'{name}_command'}"), f"{name}_command")
    if isinstance(made, typer.Typer):
        command: Any = typer.main.get_group(made)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(made)
        command = typer.main.get_command(alone)
    command.help = "\n\n".join([entry.help, *(command.help or "").split("\n\n")[1:]])
    command.epilog = f"Example: {entry.example}"
    return command


app = typer.Typer(
    name="adversary",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Begin with: adversary audit data/granville_1940.toml --out report",
)
for _name, _entry in COMMANDS.items():
    app.command(_name, help=_entry.help, rich_help_panel=_entry.group)(lambda: None)


def main() -> None:
    """Entry point of the `adversary` command; a warning is one line on standard error."""
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    app(prog_name="adversary")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"adversary {__version__}")
        raise typer.Exit


@app.callback()
def adversary(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """What an adversary could learn about one person from a differentially private release."""
    del version


if __name__ == "__main__":
    main()
