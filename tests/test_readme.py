"""README and the pages of the site keep their word: examples run, commands exist, and files they name are there."""

import doctest
import re
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import adversary
from tests.commands import run

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SITE = ROOT / "notebooks"
WRITTEN = ("*.md", "tasks/**/*.md", "concepts/*.md", "about/*.md", "reference/errata.md")
PAGES = {
    path.relative_to(SITE).as_posix(): path.read_text(encoding="utf-8")
    for pattern in WRITTEN
    for path in sorted(SITE.glob(pattern))
}
PAGES["README.md"] = README
TEXT = "\n".join(PAGES.values())
ASKED = re.findall(r"\| `([^`]+)` \| \[", README)
"""Commands of the table of questions."""
COMMANDS = list(dict.fromkeys(c.strip() for c in [*re.findall(r"uv run adversary ([^\n#`]+)", TEXT), *ASKED]))


BLOCK = re.compile(r"^(```|~~~)python\n(.*?)^\1", flags=re.DOTALL | re.MULTILINE)
BLOCKS = {name: [block for _, block in BLOCK.findall(text) if ">>>" not in block] for name, text in PAGES.items()}
"""Code of a page, the first block first. A page that needs what is not installed is tested elsewhere."""
ELSEWHERE = ("tasks/from_elsewhere/bambi_or_preliz.md",)


@pytest.mark.slow_cases("tasks/from_elsewhere/bambi_or_preliz.md")
@pytest.mark.parametrize("page", [name for name, text in PAGES.items() if ">>>" in text])
def test_examples_run(page: str) -> None:
    failed, seen = doctest.testfile(str(SITE / page), module_relative=False, encoding="utf-8")
    assert (failed, seen > 3) == (0, True)


@pytest.mark.slow_cases("tasks/describe/own_model.md", "tasks/describe/counts_of_a_sample.md")
@pytest.mark.parametrize("page", [name for name, blocks in BLOCKS.items() if blocks and name not in ELSEWHERE])
def test_blocks_of_code_run_one_after_the_other(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What they print is the text that the page shows after them."""
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    for block in BLOCKS[page]:
        exec(block, names)
    printed = capsys.readouterr().out
    assert not printed or printed in PAGES[page]


@pytest.mark.slow_cases(
    "compare data/granville_1940.toml data/granville_1940_bounded.toml --quiet",
    "gallery --out gallery",
    "spine county --query TOTAL --queries all --out found",
    "spine county --block 990010000001000",
)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_print_an_answer(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    made = [one for one in COMMANDS if one.startswith("nmf synth") and " county" in command and one != command]
    for one in [*made, command]:
        result = run(*shlex.split(one))
        assert result.exit_code == 0, result.stderr
        assert result.stdout or "--quiet" in one


def test_its_commands_print_what_it_shows() -> None:
    """Word for word, of the command that stands before it."""
    command, shown = "", 0
    for one, text in re.findall(r"uv run adversary ([^\n#`]+)|```text\n(.*?)```", README, flags=re.DOTALL):
        command = one or command
        if text:
            words = text.split()
            printed = run(*shlex.split(command)).stdout.split()
            assert any(printed[i : i + len(words)] == words for i in range(len(printed))), command
            shown += 1
    assert shown == 1


@pytest.mark.slow
def test_the_picture_of_the_audit_is_the_figure_of_its_command(tmp_path: Path) -> None:
    """Text for text: the words and numbers of the file beside the notebooks are those which `--out` writes."""
    command = next(one for one in COMMANDS if one.startswith("audit"))
    result = run(*shlex.split(command), "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.stderr
    drawn, shown = (path.read_text(encoding="utf-8") for path in (tmp_path / "out/beliefs.svg", SITE / "dare_1940.svg"))
    words = re.compile(r"<text [^>]*>([^<]*)</text>")
    assert words.findall(shown) == words.findall(drawn)
    assert len(words.findall(shown)) > 8


@pytest.mark.slow
def test_the_picture_of_real_releases_is_that_of_the_gallery(tmp_path: Path) -> None:
    assert run("gallery", "--out", str(tmp_path)).exit_code == 0
    words = re.compile(r"<text [^>]*>([^<]*)</text>")
    files = tmp_path / "gallery.svg", SITE / "real_releases.svg"
    drawn, shown = (words.findall(path.read_text("utf-8")) for path in files)
    assert shown == drawn
    assert len(shown) > 40


def test_its_scenario_and_its_examples_are_no_traps() -> None:
    """Only the example that warns about its belief has one to be warned about."""
    (first,) = re.findall(r"pip install .* run adversary (audit [^\n#`]+)", README)
    assert "Take care" not in run(*shlex.split(first)).stdout
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(import adversary as adv\n.*?)```", README, flags=re.DOTALL)[0], names)
    assert names["tree"].attrs["warnings"] == "[]"
    assert float(names["tree"]["risk"]["posterior_mean"]) > 0.5


def test_the_scenario_it_shows_is_read_and_audited(tmp_path: Path) -> None:
    page = PAGES["tasks/describe/scenario_file.md"]
    (text,) = (one for one in re.findall(r"```toml\n(title.*?)```", page, flags=re.DOTALL) if "[plan]" in one)
    (tmp_path / "scenario.toml").write_text(text, encoding="utf-8")
    result = run("audit", str(tmp_path / "scenario.toml"))
    assert result.exit_code == 0, result.stderr
    assert "Take care" not in result.stdout


def test_the_files_it_names_are_there() -> None:
    for name in re.findall(r"(?:notebooks|data|tests|adversary|models)/[\w/]+\.\w+", TEXT):
        assert (ROOT / name).exists(), name


def test_nobody_is_sent_to_the_package_of_somebody_else() -> None:
    """Python's index has an `adversary` that is not this one: what is installed is called dp-adversary."""
    texts = [ROOT / name for name in ("README.md", "pyproject.toml", "uv.lock", ".ci/run")]
    for folder in ("adversary", "models", "notebooks"):
        texts += [path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".md", ".j2"}]
    wrong = re.compile(
        r'install [^&]*(?<![\w-])adversary(?![\w./-])|(?<![\w-])adversary\[scale\]|version\(["\']adversary["\']\)'
        r'|^(?:    \{ )?name = "adversary"'
    )
    for path in texts:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if wrong.search(line)] == [], path


def test_the_distribution_tells_its_version() -> None:
    assert adversary.__version__ == version("dp-adversary")
