"""Options of commands: the common ones, conversion of numbers, output directories, and errors in one line."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn, get_args, get_origin

import typer
from typer.models import OptionInfo

from adversary._core import check_probability, check_whole, closest_name, remove_empty
from adversary.privacy import Guarantee, definitions
from adversary.report.files import Scenario, load_scenario, written_otherwise
from adversary.report.kit import FORMS, Answer, check_form, deliver, print_error

# Default seed, so that a run that is repeated, or resumed, gives the same numbers.
SEED = 2020

# Functions that compile code ahead of its use, registered by modules of commands; `adversary doctor` calls them.
COMPILED: list[Callable[[], object]] = []

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Priors = Annotated[
    list[float],
    typer.Option("--prior", help="An adversary's prior, such as 0.1 or 1/864; may be repeated.", metavar="P"),
]
Levels = Annotated[
    list[float], typer.Option("--level", help="Probability of a false alarm of a test; may be repeated.", metavar="P")
]
Truths = Annotated[
    list[str] | None,
    typer.Option("--truth", help='Replace a true count: "block group=10"; may be repeated.', metavar="LEVEL=COUNT"),
]
Epsilon = Annotated[
    float | None, typer.Option(help="Pure DP with this epsilon; with --delta, approximate DP.", metavar="NUMBER")
]
Rho = Annotated[float | None, typer.Option(help="Zero-concentrated DP with this rho.", metavar="NUMBER")]
Mu = Annotated[float | None, typer.Option(help="Gaussian DP with this mu.", metavar="NUMBER")]
Product = Annotated[
    str | None, typer.Option(help="Product folder, where the archive has several, such as US_Person_PL_PROD.")
]
Directory = Annotated[Path, typer.Argument(help="Noisy Measurement File, a directory.", metavar="NMF_DIR")]
Failure = Annotated[
    float, typer.Option(help="Probability with which a bound that is not certain may fail.", metavar="P")
]
Form = Annotated[
    str,
    typer.Option(
        "--format", help=f"What is printed: {', '.join(FORMS)}.", metavar="FORM", autocompletion=lambda: list(FORMS)
    ),
]
Full = Annotated[bool, typer.Option("--full", help="Print every section and table, not the card and one table alone.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no answer, only errors.")]
Out = Annotated[
    Path | None, typer.Option(help="Directory for report.html, data.nc, tables as CSV and figures.", metavar="DIR")
]
Cells = Annotated[int, typer.Option(help="Cells of a query in which two neighbours differ.", metavar="N")]
Workers = Annotated[int | None, typer.Option(help="Processes on this machine.", show_default="1")]
Scheduler = Annotated[
    str | None, typer.Option(help="Dask scheduler to work on, such as tcp://10.0.0.1:8786.", metavar="ADDRESS")
]


# Options whose numbers are probabilities.
PROBABILITIES = ("--prior", "--level", "--failure", "--baseline", "--mistaken")

# Longest error, in characters: a value that it quotes may be as long as its file.
LONGEST = 1000


@contextmanager
def one_line_errors(file: Path | None = None, *, interrupted: str = "") -> Iterator[None]:
    """Context in which errors of the input end the command with code 2 and one line, which names the file.

    `interrupted` says how to continue after Ctrl-C, which ends with code 130, or after the end of a worker.
    """
    try:
        yield
    except KeyboardInterrupt:
        print_error(f"interrupted{': ' * bool(interrupted)}{interrupted}")
        raise typer.Exit(130) from None
    except (ValueError, TypeError, ArithmeticError, OSError, MemoryError) as error:
        text = _of_system(error) if isinstance(error, OSError) and error.filename else str(error)
        text = f"needs more memory than there is: {text}" if isinstance(error, MemoryError) else text
        text += (
            f" ({interrupted})"
            if interrupted and isinstance(error, ChildProcessError) and not hasattr(error, "__notes__")
            else ""
        )
        named = file is None or isinstance(error, OSError) or text.startswith((f"{file}: ", "--")) or _names_file(text)
        words = " ".join([*(text if named else f"{file}: {text}").split(), *getattr(error, "__notes__", ())])
        cut = words if len(words) <= LONGEST else f"{words[: LONGEST - 200]} ... {words[-200:]}"
        print_error(f"error: {cut}")
        raise typer.Exit(2) from None


def _of_system(error: OSError) -> str:
    """Message on a file or folder that cannot be read or written, with the name that was probably meant."""
    path = Path(str(error.filename))
    if isinstance(error, IsADirectoryError):
        return f"{path}: must be a file, got a folder: give a file in it"
    if not isinstance(error, FileNotFoundError):
        return f"{path}: {error.strerror}"
    if re.fullmatch(r"[\d.,/%]+", str(path)):
        return f"{path}: {error.strerror}: a number goes with its option, such as --epsilon {path}"
    if re.match(r"https?:|ftp:|s3:", str(path)):
        return f"{path}: is an address, and files are read from this machine: fetch it, and give its path"
    if not path.parent.is_dir():
        return f"{path}: {error.strerror}: there is no folder {path.parent}"
    return f"{path}: {error.strerror}{closest_name(path.name, (one.name for one in path.parent.iterdir()))}"


def _names_file(text: str) -> bool:
    """True if an error begins with the name of a file, such as one that another file or an option names."""
    head, colon, _ = text.partition(": ")
    return bool(colon) and len(head) < LONGEST and Path(head).is_file()


@contextmanager
def ended_as_interrupted() -> Iterator[None]:
    """Context in which SIGTERM is handled as Ctrl-C: workers end too, and the message says how to continue."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def number(option: str, text: str) -> float:
    """Number of a text such as "0.1" or "1/864"; in [0, 1] if the option is a probability."""
    try:
        top, *bottom = map(float, text.split("/", 1))
        given = top / bottom[0] if bottom else top
    except (ValueError, ZeroDivisionError):
        rule = "must be a number such as 0.1 or 1/864"
        raise ValueError(f"{option} {rule}, got {text.strip()!r}{written_otherwise(text)}") from None
    return float(check_probability(option, given)) if option in PROBABILITIES else given


def whole(option: str, text: str) -> int:
    """Whole number of a text; at least 0 if the option is a seed."""
    try:
        given = int(text)
    except ValueError:
        raise ValueError(f"{option} must be a whole number, got {text!r}") from None
    return int(check_whole(option, given, minimum=0)) if option == "--seed" else given


# Converters of options that typer gets as texts, so that errors are one line.
PARSED: dict[Any, Callable[[str, str], Any]] = {float: number, int: whole}


def _as_text(one: Parameter) -> tuple[Parameter, Callable[[Any], Any]]:
    """(parameter that typer gets as text, function that converts its value to numbers), of a parameter of a command."""
    kind, *more = get_args(one.annotation) or (one.annotation,)
    listed = next((x for x in (kind, *get_args(kind)) if get_origin(x) is list), kind)
    inner = next((x for x in (listed, *get_args(listed)) if x in PARSED), None)
    option = next((x for x in more if isinstance(x, OptionInfo)), None)
    if inner is None or option is None:
        return one, lambda given: given
    option, many, usual = copy(option), get_origin(listed) is list, one.default
    option.metavar = option.metavar or "NUMBER"
    name = next(iter(option.param_decls or ()), f"--{one.name.replace('_', '-')}")
    required = usual is Parameter.empty
    default = usual if required or usual is None else [f"{x:g}" for x in usual] if many else f"{usual:g}"
    text = list[str] if many else str
    shown = one.replace(annotation=Annotated[text if required else text | None, option], default=default)

    def read(given: Any) -> Any:
        return given and ([PARSED[inner](name, x) for x in given] if many else PARSED[inner](name, given))

    return shown, read


def guarantee_of(
    epsilon: float | None, rho: float | None, mu: float | None, delta: float | None = None
) -> tuple[Guarantee, dict[str, float]]:
    """(guarantee, its parameters by name) of the options: exactly one of the first three; delta with epsilon only."""
    given = {name: x for name, x in {"epsilon": epsilon, "rho": rho, "mu": mu}.items() if x is not None}
    if len(given) != 1:
        got = " and ".join(f"--{name}" for name in given) or "none"
        raise ValueError(f"give exactly one of --epsilon, --rho and --mu, got {got}")
    if rho is not None:
        return definitions.ZeroConcentratedDP(rho), given
    if mu is not None:
        return definitions.GaussianDP(mu), given
    if delta is not None:
        return definitions.ApproximateDP(given["epsilon"], delta), {**given, "delta": delta}
    return definitions.PureDP(given["epsilon"]), given


def only_file(*options: float | None) -> None:
    """ValueError if a guarantee is given by options beside that of a file."""
    if any(one is not None for one in options):
        raise ValueError("a file states the guarantee: leave out --epsilon, --rho and --mu")


class Output(NamedTuple):
    """Output of an answer: a directory, if any, and the screen, in one of `FORMS` or not at all."""

    folder: Path | None
    form: str
    quiet: bool
    full: bool = False

    def deliver(self, answer: Answer) -> None:
        """Write and print an answer."""
        deliver(answer, self.form, self.folder, quiet=self.quiet, full=self.full)


def with_output(function: Callable[..., None]) -> Callable[..., None]:
    """Decorator of a function of its own options and an `Output`: a command with the common options too (--out, ...).

    The common options are checked before anything is computed; an option of the same name in the function replaces one.
    """
    given_own = [one for one in signature(function, eval_str=True).parameters.values() if one.name != "output"]
    own, readers = zip(*map(_as_text, given_own), strict=True) if given_own else ((), ())
    common = signature(_common, eval_str=True).parameters.values()
    names = {one.name for one in own}
    every = [*own, *(one for one in common if one.name not in names)]

    @wraps(function)
    def command(**given: Any) -> None:
        out, as_json, form, quiet, full = (given.pop(one.name) for one in common)
        with one_line_errors():
            chosen = check_form("json" if as_json else form)
            given |= {
                one.name: read(given[one.name]) for one, read in zip(own, readers, strict=True) if one.name in given
            }
        if "out" in names:
            given["out"] = out
        function(**given, output=Output(out, chosen, quiet, full))

    command.__signature__ = Signature(sorted(every, key=lambda one: one.default is not Parameter.empty))  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in every}
    return command


def end(code: int, problem: str) -> NoReturn:
    """End the command with a code, after one line with the reason on standard error."""
    print_error(f"check failed: {' '.join(problem.split())}")
    raise typer.Exit(code)


def answering(file: str = "") -> Callable[[Callable[..., Answer]], Callable[..., None]]:
    """Decorator of a function of its own options that returns an `Answer`: a command that writes and prints it.

    Errors are one line, as in `one_line_errors`, begin with the file given by the argument named `file`, and leave
    nothing in the directory.
    """

    def made(function: Callable[..., Answer]) -> Callable[..., None]:
        @wraps(function)
        def command(output: Output, **given: Any) -> None:
            with one_line_errors(given.get(file)), directory(output.folder):
                answer = function(**given)
                output.deliver(answer)
            if answer.code:
                end(answer.code, answer.problem)

        return with_output(command)

    return made


def _common(
    out: Out = None, as_json: Json = False, form: Form = "text", quiet: Quiet = False, full: Full = False
) -> None:
    """Options of every command."""


@contextmanager
def extras() -> Iterator[None]:
    """Turn the ImportError of a missing extra into an input error that names the extra."""
    try:
        yield
    except ImportError as error:
        raise ValueError(str(error)) from None


@contextmanager
def directory(out: Path | None) -> Iterator[Path | None]:
    """Context with a directory to write into, if any; after an error empty folders made for it are removed."""
    if out is None:
        yield None
        return
    from adversary.report.kit import check_directory

    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        yield check_directory(out)
    except BaseException:
        remove_empty(made)
        raise


def read_scenario(path: Path, changes: list[str] | None) -> Scenario:
    """Scenario of a file, with the true counts of `--truth` in place of its own."""
    scenario = load_scenario(path)
    return scenario.with_truth(dict(map(_count, changes))) if changes else scenario


def _count(text: str) -> tuple[str, Any]:
    """(level, count) of a text: "block group=10" is ("block group", 10), "block=1,34" is ("block", [1, 34])."""
    name, sign, value = text.partition("=")
    try:
        numbers = [json.loads(part) for part in value.split(",")]
    except json.JSONDecodeError:
        numbers = []
    if not sign or not name.strip() or not numbers:
        raise ValueError(f"--truth must be LEVEL=COUNT, such as 'block group=10', got {text!r}")
    return name.strip(), numbers if len(numbers) > 1 else numbers[0]
