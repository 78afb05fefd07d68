"""The program as its user meets it: a command run, its JSON, what it prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from adversary.report.commands import cli

DOUBLED = re.compile(r"[^./\s]\.\.(?![./])|\?\.(?!\S)")
"""Two full stops, or a question and one: a sentence put into another."""


def run(*arguments: str) -> Result:
    """`adversary` with these arguments, the name of the command first."""
    return CliRunner().invoke(cli.app, list(arguments))


def answered(*arguments: str, silent: bool = True) -> dict[str, Any]:
    """The one JSON object of a command that succeeds; nothing beside it, unless it is not `silent`."""
    answer: dict[str, Any] = json.loads(_succeeded(*arguments, "--json", silent=silent), parse_constant=_refuse)
    return answer


def numbers(answer: dict[str, Any], quantity: str, **labels: Any) -> list[Any]:
    """Values of all records of a quantity that have these labels, in their order; there is one at least."""
    found = [
        record["value"]
        for record in answer["records"]
        if record["quantity"] == quantity and all(record.get(name) == label for name, label in labels.items())
    ]
    assert found, f"no {quantity} of {labels}"
    return found


def number(answer: dict[str, Any], quantity: str, **labels: Any) -> Any:
    """The value of the one record of a quantity that has these labels."""
    (value,) = numbers(answer, quantity, **labels)
    return value


def refused(folder: Path, *arguments: str, words: str) -> None:
    """The command says these words in one line, ends with code 2, prints nothing and writes nothing into a folder."""
    before = sorted(folder.iterdir())
    result = run(*arguments, "--out", str(folder / "out" / "deep"))
    assert (result.exit_code, result.stdout) == (2, ""), arguments
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
    assert words in result.stderr
    assert not DOUBLED.search(result.stderr)
    assert sorted(folder.iterdir()) == before, arguments


def written(name: str, folder: Path, text: str) -> str:
    """The path of a file of this name and text in a folder."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def printed(*arguments: str, full: bool = True) -> str:
    """What a command that succeeds shows, every section unless not `full`."""
    text = _succeeded(*arguments, *["--full"] * full, silent=True)
    assert not DOUBLED.search(text), text
    return text


def flat(text: str) -> str:
    """A text on one line, with plain spaces."""
    return " ".join(text.split())


def _succeeded(*arguments: str, silent: bool) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert not silent or result.stderr == ""
    return result.stdout


def _refuse(token: str) -> None:
    raise AssertionError(f"{token} is not JSON")


def rows(answer: dict[str, Any], quantity: str, **labels: Any) -> list[dict[str, Any]]:
    """The records of one quantity with these labels."""
    asked = {"quantity": quantity, **labels}
    return [row for row in answer["records"] if all(row.get(key) == value for key, value in asked.items())]
