"""The README keeps its word: its examples run, its commands exist, and the files it names are there."""

import doctest
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from adversary.desk import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"uv run adversary ([^\n#`]+)", README)


def test_examples_run() -> None:
    failed, run = doctest.testfile(str(ROOT / "README.md"), module_relative=False, encoding="utf-8")
    assert (failed, run > 5) == (0, True)


def test_blocks_of_code_run_one_after_the_other() -> None:
    blocks = [block for block in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL) if ">>>" not in block]
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert float(names["tree"]["risk"]["posterior_mean"]) > float(names["tree"]["risk"]["prior"])


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_print_an_answer(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    made = [one for one in COMMANDS if one.startswith("nmf synth") and command.startswith("spine")]
    for one in [*made, command]:
        result = CliRunner().invoke(cli.app, one.split())
        assert result.exit_code == 0, result.stderr
        assert result.stdout


def test_the_files_it_names_are_there() -> None:
    for name in re.findall(r"(?:notebooks|data|tests|adversary|models)/[\w/]+\.\w+", README):
        assert (ROOT / name).exists(), name
