"""Register and entry point of the command line; commands print tables or JSON, or write a page, figures and data.

The module of a command is imported when the command is run, so that `--help` answers at once. Exit codes: 0; 2 if the
input is refused, in one line on standard error and with nothing written; 130 if interrupted.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

AUDIT, CHOOSE, INFER, SETUP = "Audit a release", "Choose a guarantee", "Analyse noisy data", "Set up"


class CommandEntry(NamedTuple):
    """Group in which help lists a command, an example, and its help if it is a group of commands itself."""

    group: str
    example: str
    help: str = ""


# Every command `x`, in the order in which a user needs them: `x_command` of its module.
COMMANDS = {
    "audit": CommandEntry(AUDIT, "audit data/granville_1940.toml --out report"),
    "tables": CommandEntry(
        AUDIT, 'tables data/districts.csv --table "district: age x sex, rho 0.3" --table "country: age, rho 0.1"'
    ),
    "compare": CommandEntry(AUDIT, "compare data/granville_1940.toml data/granville_1940_bounded.toml"),
    "sensitivity": CommandEntry(AUDIT, "sensitivity data/clinic_visits.toml --out sensitivity"),
    "explain": CommandEntry(AUDIT, "explain data/granville_1940.toml --audience regulator"),
    "gallery": CommandEntry(AUDIT, "gallery --out gallery"),
    "plan": CommandEntry(
        CHOOSE, "plan data/town_counts.csv --profile data/survey_profile.toml --levels block,group,tract"
    ),
    "epsilon": CommandEntry(CHOOSE, "epsilon data/durham_infant_mortality.toml --out epsilon"),
    "bounds": CommandEntry(CHOOSE, "bounds --rho 2.63 --prior 1/100"),
    "ledger": CommandEntry(CHOOSE, "ledger data/releases.toml"),
    "invariants": CommandEntry(CHOOSE, "invariants data/districts_1940_total.toml"),
    "census": CommandEntry(
        CHOOSE, "census scenario C --out census_c",
        "What the noise of the 2020 Census allows an adversary to learn, by concern.",
    ),
    "infer": CommandEntry(INFER, "infer data/blood_lead.toml"),
    "spine": CommandEntry(INFER, "spine county --query DETAILED --cell 0,1,0,2 --out found"),
    "nmf": CommandEntry(
        INFER, "nmf synth county --blocks 2000 --shape 2x2x2x7",
        "Noisy Measurement Files: make a synthetic one, or check one.",
    ),
    "init": CommandEntry(SETUP, "init audit scenario.toml"),
    "schema": CommandEntry(SETUP, "schema scenario"),
    "doctor": CommandEntry(SETUP, "doctor --json"),
}  # fmt: skip
_HERE = "adversary.report.commands"

# Module of every command; annexes register theirs here.
MODULES = {
    "audit": f"{_HERE}.audit_command",
    **dict.fromkeys(("compare", "sensitivity"), f"{_HERE}.comparison_commands"),
    **dict.fromkeys(("tables", "plan"), f"{_HERE}.tables_command"),
    **dict.fromkeys(("epsilon", "bounds"), f"{_HERE}.guarantee_commands"),
    **dict.fromkeys(("init", "schema", "doctor"), f"{_HERE}.setup_commands"),
    "ledger": f"{_HERE}.ledger_command",
    "explain": f"{_HERE}.explain_command", "invariants": f"{_HERE}.invariants_command",
    "infer": "adversary.bounded.report.infer_command",
    "gallery": "adversary.releases.report.gallery_command",
    **{name: f"adversary.census.report.{name}_command" for name in ("census", "spine", "nmf")},
}  # fmt: skip

# Commands that read no typed data files such as Parquet, and so need no pyarrow.
WITHOUT_FRAMES = ("audit", "compare", "sensitivity", "explain", "epsilon", "bounds", "ledger", "invariants", "census")


@cache
def _docstrings(module: str) -> dict[str, str]:
    """First lines of the docstrings of a module's functions, parsed without importing the module."""
    path = Path(__file__).parents[3].joinpath(*module.split(".")).with_suffix(".py")
    functions = [one for one in ast.parse(path.read_text("utf-8")).body if isinstance(one, ast.FunctionDef)]
    return {one.name: (ast.get_docstring(one) or "").partition("\n")[0] for one in functions}


def help_of(name: str) -> str:
    """Line of help of a command."""
    return COMMANDS[name].help or _docstrings(MODULES[name])[f"{name}_command"]


def _usage(error: Any) -> str:
    """Message on a mistake in a command line, with the option that was probably meant, or an example."""
    # imported late, as it loads numpy
    from adversary._core import closest_name

    context = getattr(error, "ctx", None)
    if context is None:
        return str(error.format_message())
    command, path = context.command, context.command_path
    if wrong := getattr(error, "possibilities", None) is not None and error.option_name:
        names = [name for one in command.params for name in (*one.opts, *one.secondary_opts)]
        near = closest_name(wrong, names).replace("'", "")
        return f"{path}: no option {wrong}{near or f'; {path} -h lists its options'}"
    text = " ".join(error.format_message().split()).rstrip(".").replace("argument(s)", "arguments")
    text = f"{text}; a text with blanks has quotes" if "extra arguments" in text else text
    example = (command.epilog or "").partition(": ")[2]
    return f"{path}: {text[0].lower()}{text[1:]}" + (f"; for example: {example}" if example else "")


class Commands(TyperGroup):
    """Group of all commands: each is imported when it is run, and its help read when it is listed."""

    def list_commands(self, ctx: Any) -> list[str]:
        for name, command in self.commands.items():
            command.help = help_of(name)
        return super().list_commands(ctx)

    def main(self, *args: Any, **given: Any) -> Any:
        """Run a command; a mistake in its line is reported in one line, as any other error."""
        if not given.get("standalone_mode", True):
            return super().main(*args, **given)
        try:
            code = super().main(*args, **given | {"standalone_mode": False})
        except typer.TyperException as error:
            # a group without arguments has printed its help already
            if type(error).__name__ != "NoArgsIsHelpError":
                from adversary.report.kit import print_error

                print_error(f"error: {_usage(error)}")
            code = error.exit_code
        raise SystemExit(code if isinstance(code, int) else 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, load(str(name)), rest


def load(name: str) -> Any:
    """Typer command of a name, with all its options, its help and its example."""
    entry = COMMANDS[name]
    made = getattr(import_module(MODULES[name]), f"{name}_command")
    if isinstance(made, typer.Typer):
        command: Any = typer.main.get_group(made)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(made)
        command = typer.main.get_command(alone)
    command.help = entry.help or command.help
    command.epilog = f"Example: adversary {entry.example}"
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
    app.command(_name, rich_help_panel=_entry.group)(lambda: None)


def _defer_libraries(name: str) -> None:
    """Prevent or defer imports of libraries that the command `name` may not need, so that it starts faster.

    xarray imports Dask, if it is installed, to test whether arrays are Dask's (`import_distributed` undoes this);
    pandas imports pyarrow for columns of words, which files alone have; scipy imports numpy.f2py and numpy.testing with
    all of numpy. xarray itself is imported when it is first used.
    """
    sys.modules.setdefault("dask", None)  # type: ignore[arg-type]
    if name in WITHOUT_FRAMES:
        sys.modules.setdefault("pyarrow", None)  # type: ignore[arg-type]
    for library in ("xarray", "numpy.f2py", "numpy.testing") if name else ():
        spec = None if library in sys.modules else find_spec(library)
        if spec is not None:
            sys.modules[library] = module = module_from_spec(spec)
            module.__class__ = _Deferred
            del module.__path__
            parent, _, child = library.rpartition(".")
            # the parent has its submodule as an attribute, as after an import
            if parent:
                setattr(sys.modules[parent], child, module)


class _AsGiven:
    """Conversion of an option's text by one function, in place of typer's, which imports pydantic (0.1 s)."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self.make = make

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Value of an option, or the list of its values."""
        del ctx
        if param.multiple or param.nargs == -1:
            return [self.make(one) for one in value or ()]
        return None if value is None else self.make(value)


def _convert_without_pydantic() -> None:
    """Replace typer's conversion of texts, paths and flags, for which it imports pydantic (as of version 0.29)."""
    plain = {str: str, list[str]: str, Path: Path, bool: bool}
    if (usual := getattr(typer.core, "build_runtime_param", None)) is not None:

        def build(descriptor: Any) -> Any:
            make = plain.get(descriptor.annotation)
            return usual(descriptor) if make is None else _AsGiven(make)

        typer.core.build_runtime_param = build  # type: ignore[attr-defined]


class _Deferred(ModuleType):
    """Module that is executed when an attribute is first used; importlib's `LazyLoader` does so at a second import."""

    def __getattr__(self, name: str) -> Any:
        spec = self.__spec__
        if type(self) is _Deferred and spec is not None and spec.loader is not None:
            self.__class__ = ModuleType  # type: ignore[assignment]
            self.__path__ = spec.submodule_search_locations or []
            spec.loader.exec_module(self)
        return getattr(self, name)


def main() -> None:
    """Entry point of the `adversary` command; warnings and missing packages are one line on standard error.

    Characters that the terminal's encoding lacks are shown by their numbers.
    """
    from adversary.report.kit import print_error

    _convert_without_pydantic()
    _defer_libraries(next((word for word in sys.argv[1:] if word in COMMANDS), ""))
    warnings.showwarning = lambda message, *_, **__: print_error(f"warning: {message}")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="adversary")
    except ModuleNotFoundError as error:
        if (error.name or "adversary").partition(".")[0] == "adversary":
            raise
        from adversary._core import error_text

        print_error(f"error: {error_text(error)}")
        raise SystemExit(1) from None


def _version(wanted: bool) -> None:
    """Print the version and stop, if `--version` is given."""
    if wanted:
        from adversary._core import __version__

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
