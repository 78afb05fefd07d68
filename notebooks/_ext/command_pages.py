"""Pages written before a build: every command as its `--help` prints it, and the keys of every kind of file."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click import unstyle
from typer.main import get_command
from typer.testing import CliRunner

from adversary.report.commands.cli import app

FOLDER = Path(__file__).parents[1] / "reference"
KINDS = {
    "scenario": "`adversary audit`, `sensitivity`, `compare`, `invariants`, `explain`",
    "tables": "`adversary tables`, `plan`",
    "profile": "`adversary epsilon`, `plan`",
    "guarantee": "`adversary bounds`, `explain`",
    "ledger": "`adversary ledger`",
    "release": "`adversary infer`",
    "regression": "`adversary infer`",
    "table": "`adversary invariants`",
    "record": "`adversary gallery`",
    "result": "`--json` of every command prints this",
}
"""Kinds of files and the commands that read them."""
TYPES = {
    "object": "table",
    "array": "list",
    "integer": "whole number",
    "boolean": "true or false",
    "string": "text",
}


def printed(*arguments: str) -> str:
    """What a command prints on a screen of 84 letters."""
    os.environ["COLUMNS"] = "84"
    try:
        result = CliRunner().invoke(app, list(arguments))
    finally:
        del os.environ["COLUMNS"]
    assert result.exit_code == 0, (arguments, result.output)
    return "\n".join(
        line.rstrip()
        for line in unstyle(result.stdout).strip("\n").splitlines()
    )


def command_line() -> str:
    """The page of commands."""
    group: Any = get_command(app)
    parts = [
        """# Command line

One command for each question, with all its options: what `adversary COMMAND --help` prints.
""",
        f"```text\n{printed('--help')}\n```\n",
    ]
    parts += [
        f"## adversary {name}\n\n```text\n{printed(name, '--help')}\n```\n"
        for name in group.commands
    ]
    return "\n".join(parts)


def files() -> str:
    """The page of keys."""
    parts = [
        """# Files

Keys of the files that commands read, in TOML. `adversary init COMMAND` prints a commented file to begin with;
`adversary schema KIND` prints the JSON schema with which an editor completes keys. `[]` stands for the entries of a
list, `NAME` for a name of your choice.
"""
    ]
    for kind, commands in KINDS.items():
        schema = json.loads(printed("schema", kind))
        lines = [
            f"`{key}`\n: {text}\n"
            for key, text in dict(_keys(schema, "")).items()
        ]
        parts.append(f"## {kind}\n\n{commands}.\n\n" + "\n".join(lines))
    return "\n".join(parts)


def _keys(schema: dict[str, Any], place: str) -> Iterator[tuple[str, str]]:
    """Keys with their type, default and meaning, those of nested tables under their path."""
    for name, part in schema.get("properties", {}).items():
        key = f"{place}.{name}" if place else name
        words = [f"*{kind}*"] if (kind := _type(part)) else []
        words += [part["description"]] if part.get("description") else []
        words += (
            [f"default `{json.dumps(part['default'])}`"]
            if part.get("default") not in (None, "")
            else []
        )
        yield key, "; ".join(words) or "\\"
        yield from _keys(part, key)
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _keys(items, f"{place}[]")
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        yield from _keys(others, f"{place}.NAME")
    for option in [*schema.get("anyOf", []), *schema.get("oneOf", [])]:
        yield from _keys(option, place)


def _type(part: dict[str, Any]) -> str:
    if "enum" in part:
        return ", ".join(json.dumps(one) for one in part["enum"])
    options = dict.fromkeys(
        _type(one) for one in [*part.get("anyOf", []), *part.get("oneOf", [])]
    )
    names = {
        "object": "table",
        "array": "list",
        "integer": "whole number",
        "boolean": "true or false",
        "string": "text",
    }
    return " or ".join(one for one in options if one) or names.get(
        str(part.get("type")), str(part.get("type", ""))
    )


def write(*_: object) -> None:
    """Write pages that changed."""
    for name, text in {
        "command_line.md": command_line(),
        "files.md": files(),
    }.items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
