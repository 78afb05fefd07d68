"""The command line: commands that print tables or one JSON object, or write a directory of figures and data.

The module of a command is imported when the command is run, so that `--help` answers at once. What is wrong with the
input is said in one line on standard error, with exit code 2 and nothing written.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from adversary._core import __version__

COMMANDS = {
    "audit": "What the scenario's readers learn, averaged over releases, and what was promised.",
    "sensitivity": "How far the answers move with prior, budget, siblings and beliefs, under both truths.",
    "epsilon": "The largest epsilon that keeps a tolerated risk, who needs it, and what it costs in accuracy.",
    "bounds": "What a guarantee leaves open to any reader: beliefs, tests, and epsilon at a delta.",
    "explain": "What a promise, a tolerated risk or an audit means, in words.",
    "invariants": "What exact totals beside a noisy release cost: guarantees before and after, and what readers learn.",
    "infer": "The real mean and deviation behind noisy ones, or the line behind noisy sums, with the bounds for free.",
    "spine": "The exact posterior of every count of a spine, and what a reader learns about one person in every block.",
    "nmf": "Noisy Measurement Files: noisy counts of every unit of a spine.",
    "census": "What the noise of the 2020 Census leaves to a reader, by concern.",
}
"""A line of help for every command `x`, which is `x_command` in the module of that name."""


class Commands(TyperGroup):
    """The commands, each imported when it is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(str(name)), rest


def load(name: str) -> Any:
    """A command with all its options."""
    made = getattr(import_module(f"adversary.desk.commands.{name}_command"), f"{name}_command")
    if isinstance(made, typer.Typer):
        return typer.main.get_group(made)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(made)
    return typer.main.get_command(alone)


app = typer.Typer(
    name="adversary", cls=Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False
)
for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)


def main() -> None:
    """Entry point of the `adversary` command; a warning is one line on standard error."""
    warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
    app()


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
    """What a real reader could learn about one person from a differentially private release."""
    del version


if __name__ == "__main__":
    main()
