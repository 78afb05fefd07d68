"""Schemas and starting files: as the readers have it, since all three come from the same declarations."""

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from adversary.bounded.report import load_any_release_file
from adversary.budget import Ledger
from adversary.releases.record_file import load_record
from adversary.report.commands.setup_commands import STARTS
from adversary.report.files import (
    KINDS,
    keys_of_kind,
    load_guarantee,
    load_profile_file,
    load_scenario,
    load_table_file,
    schema,
)
from adversary.report.files.tables import load_tables_file
from adversary.report.kit import RESULT
from tests import commands
from tests.tables import DATA

READERS: dict[str, Any] = {
    "scenario": load_scenario, "guarantee": load_guarantee, "profile": load_profile_file,
    "release": load_any_release_file,
    "regression": load_any_release_file, "table": load_table_file, "tables": load_tables_file,
    "record": load_record, "ledger": Ledger.load,
}  # fmt: skip


def kind_of(document: dict[str, Any]) -> str:
    if "limit" in document:
        return "ledger"
    if "curator" in document:
        return "record"
    if "plan" in document or "data" in document:
        return "scenario" if "plan" in document else "tables"
    return next("profile" if one == "profiles" else one for one in document if one in (*KINDS, "profiles"))


@pytest.mark.parametrize("path", sorted(DATA.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_file_is_valid_and_a_misspelt_key_is_not(path: Path) -> None:
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    made = schema(kind_of(document))
    jsonschema.Draft202012Validator.check_schema(made)
    jsonschema.validate(document, made)
    with pytest.raises(jsonschema.ValidationError, match="'titel' was unexpected"):
        jsonschema.validate({**document, "titel": "x"}, made)


@pytest.mark.parametrize("name", STARTS)
def test_a_starting_file_can_be_read_and_has_every_key(name: str, tmp_path: Path) -> None:
    path = tmp_path / "start.toml"
    assert commands.run("init", name, str(path)).exit_code == 0
    text = path.read_text(encoding="utf-8")
    assert commands.printed("init", name, full=False) == text
    kind = STARTS[name][0]
    jsonschema.validate(tomllib.loads(text), schema(kind))
    bare = "\n".join(line.removeprefix("# ") for line in text.splitlines()[1:])
    for key, one in keys_of_kind(kind).items():
        assert one.kind == "named" or f"\n{key} = " in f"\n{bare}" or f"[{key}]" in bare, key
    READERS[kind](path)
    assert commands.run("init", name, str(path)).exit_code == 2
    assert path.read_text(encoding="utf-8") == text


def test_what_json_prints_has_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(RESULT)
    assert json.loads(commands.printed("schema", "result", full=False)) == RESULT
    jsonschema.validate(commands.answered("bounds", "--mu", "1"), RESULT)
    assert json.loads(commands.printed("schema", "release", full=False)) == schema("release")


def test_kinds_that_there_are_not_are_refused() -> None:
    for arguments in (("schema", "novel"), ("init", "spine")):
        result = commands.run(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"got {arguments[1]!r}" in result.stderr
