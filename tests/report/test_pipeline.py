"""The check as an action and as a hook: their shell steps run as they stand, on scenarios that hold and that do not."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import adversary

ROOT = Path(adversary.__file__).parents[1]
ACTION = yaml.safe_load((ROOT / ".github/actions/audit/action.yml").read_text(encoding="utf-8"))
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
CANNED = """#!/usr/bin/env bash
file="${@: -1}"
for word in "$@"; do case "$word" in *.toml) file="$word";; esac; done
case "$file" in
  *kept*) printf '# Kept\\n\\n**Every guarantee holds.**\\n\\n![a figure](a.svg)\\n\\n## More\\n\\nall of it\\n' ;;
  *broken*)
    printf '# Broken\\n\\n**A guarantee is violated.**\\n\\n## More\\n\\nall of it\\n'
    echo 'check failed: 5% is 5 percent' >&2; exit 3 ;;
  *) echo "error: $file: plan: is missing" >&2; exit 2 ;;
esac
"""
"""An `adversary` that answers by the name of the file."""
REAL = '#!/usr/bin/env bash\nexec "{python}" -m adversary "$@"\n'
UV = """#!/usr/bin/env bash
while [ "$1" != adversary ]; do
  if [ "$1" = --project ]; then [ -f "$2/pyproject.toml" ] || exit 99; fi
  shift
done
exec "$@"
"""
"""`uv run` in an environment that is ready: it drops its own options, among which a project must be one."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with programs `uv` and `adversary`, and a working directory."""
    for name, text in (("uv", UV), ("adversary", CANNED)):
        _program(tmp_path / "bin" / name, text)
    (tmp_path / "work").mkdir()
    return tmp_path


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def _shell(place: Path, command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(place / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "TMPDIR": str(place), **more}
    return subprocess.run(command, cwd=place / "work", env=environment, capture_output=True, text=True, check=False)


def _act(place: Path, scenarios: str) -> tuple[int, str, str]:
    """Exit code, log and job summary of the action's shell steps, as a runner starts them."""
    summary = place / "summary.md"
    summary.touch()
    more = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_ACTION_PATH": str(ROOT / ".github/actions/audit")}
    code, log = 0, ""
    for step in _shell_steps():
        (place / "step.sh").write_text(step["run"], encoding="utf-8")
        for key, value in step["env"].items():
            more[key] = value.replace("${{ inputs.scenarios }}", scenarios)
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(place / "step.sh")]
        result = _shell(place, command, **more)
        code, log = result.returncode, log + result.stdout + result.stderr
    return code, log, summary.read_text(encoding="utf-8")


def _shell_steps() -> list[dict[str, Any]]:
    return [step for step in ACTION["runs"]["steps"] if "run" in step]


def _files(place: Path, *names: str) -> None:
    for name in names:
        (place / "work" / name).write_text("", encoding="utf-8")


def test_the_action_installs_uv_and_then_audits() -> None:
    install, check = ACTION["runs"]["steps"]
    assert ACTION["runs"]["using"] == "composite"
    assert install["uses"].startswith("astral-sh/setup-uv@")
    assert check["shell"] == "bash"
    assert set(re.findall(r"inputs\.(\w+)", str(check["env"]))) == set(ACTION["inputs"])
    assert "${{" not in check["run"]  # what a user gives is data, never part of a script


def test_scenarios_that_hold_leave_a_summary_and_code_0(place: Path) -> None:
    _files(place, "kept a.toml", "kept b.toml")
    code, log, summary = _act(place, "kept *.toml\n")
    assert (code, log) == (0, "")
    assert summary.count("# Kept\n\n**Every guarantee holds.**") == 2
    assert summary.count("<details><summary>All numbers of kept a.toml</summary>\n\n## More\n\nall of it") == 1
    assert "a figure" not in summary


def test_one_broken_guarantee_fails_the_step_after_all_are_audited(place: Path) -> None:
    _files(place, "broken.toml", "kept.toml")
    code, log, summary = _act(place, "broken.toml\nkept.toml\n")
    assert code == 3
    assert "::error file=broken.toml::check failed: 5%25 is 5 percent\n" in log
    assert "> **Exit code 3.** check failed: 5% is 5 percent" in summary
    assert "**Every guarantee holds.**" in summary


def test_what_is_refused_fails_the_step(place: Path) -> None:
    code, log, summary = _act(place, "other.toml")
    assert code == 2
    assert "::error file=other.toml::error: other.toml: plan: is missing" in log
    assert summary == "# other.toml\n\n> **Exit code 2.** error: other.toml: plan: is missing\n\n"


@pytest.mark.parametrize(
    ("given", "words"), [("", "at least one file"), ("kept.toml\nnone*.toml", "matches none*.toml")]
)
def test_a_wildcard_without_files_fails_the_step(place: Path, given: str, words: str) -> None:
    _files(place, "kept.toml")
    code, log, summary = _act(place, given)
    assert (code, summary) == (2, "")
    assert words in log


def _commit(place: Path, *files: str) -> subprocess.CompletedProcess[str]:
    """The hook as pre-commit starts it: its entry split into words, then the files."""
    return _shell(place, [*shlex.split(HOOK["entry"]), *files])


def test_the_hook_checks_every_file(place: Path) -> None:
    assert _commit(place, "kept a.toml", "kept.toml").returncode == 0
    failed = _commit(place, "broken.toml", "kept.toml", "other.toml")
    assert failed.returncode == 2
    assert failed.stderr.splitlines() == ["check failed: 5% is 5 percent", "error: other.toml: plan: is missing"]
    assert _commit(place, "broken.toml", "kept.toml").returncode == 3


@pytest.mark.parametrize(
    ("path", "chosen"),
    [("scenarios/a.toml", True), ("b/scenario_1.toml", True), ("pyproject.toml", False), ("scenarios/a.csv", False)],
)
def test_the_hook_chooses_scenario_files(path: str, chosen: bool) -> None:
    assert bool(re.search(HOOK["files"], path)) == chosen


@pytest.mark.slow
def test_action_and_hook_run_the_toolkit(place: Path) -> None:
    _program(place / "bin" / "adversary", REAL.format(python=sys.executable))
    text = (ROOT / "data/dare_1940.toml").read_text(encoding="utf-8")
    (place / "work" / "kept.toml").write_text(text, encoding="utf-8")
    code, _, summary = _act(place, "kept.toml")
    assert code == 0
    assert "**Every guarantee holds for every adversary here.**" in summary
    assert summary.index("<details>") < summary.index("## For whom this holds") < summary.index("</details>")
    assert _commit(place, "kept.toml").returncode == 0
    broken = text.replace('zCDP = "sum of levels"', "zCDP = 0.089")
    (place / "work" / "broken.toml").write_text(broken, encoding="utf-8")
    code, log, summary = _act(place, "broken.toml")
    assert code == 3
    assert "::error file=broken.toml::check failed: guarantee zCDP is violated" in log
    assert "> **Exit code 3.** check failed: guarantee zCDP is violated" in summary
    assert _commit(place, "broken.toml", "kept.toml").returncode == 3
