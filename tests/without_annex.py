"""The core without an annex: `python -m tests.without_annex NAME...`, on demand.

In a copy of the working tree the annex's folders are deleted, its entries in the registers, and what is its own among
tests: its folder, and lines and files elsewhere that name it. A core audit must then print the same bytes, and the fast
suite must pass.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

from tests.mutations import ROOT, copied, run
from tests.test_house import ANNEXES, public_names

REGISTERS = (
    "adversary/__init__.pyi", "models/__init__.pyi", "adversary/report/commands/cli.py",
    "adversary/report/files/kinds.py", "adversary/report/plot/__init__.py",
)  # fmt: skip
AUDIT = "audit data/granville_1940.toml --format json"


def names_of(annex: str) -> re.Pattern[str]:
    """A text that uses the annex: its modules, its public names, or a command of its own."""
    modules = [*ANNEXES[annex], *(module.replace("adversary.models", "models") for module in ANNEXES[annex])]
    own = "|".join(sorted(public_names(annex)))
    parts = [
        *(rf"\b{re.escape(module)}\b" for module in modules),
        rf"\b(?:adv|adversary)\.(?:{own})\b",
        rf"\bfrom adversary import .*\b(?:{own})\b",
        *(rf"\bmodels\.{name}\b" for name in sorted(public_names(annex, "adversary.models"))),
        *(rf"[\"' ]{command}[\"' ]" for command in commands_of(annex)),
    ]
    return re.compile("|".join(parts))


def commands_of(annex: str) -> list[str]:
    """Names of the annex's commands."""
    from adversary.report.commands.cli import MODULES

    return [name for name, module in MODULES.items() if module.startswith(f"adversary.{annex}.")]


def copy_without(annex: str, into: Path) -> list[str]:
    """A copy of the tree without the annex; returns the test files that were left out because they name it."""
    copied(into)
    own, commands = names_of(annex), commands_of(annex)
    for module in ANNEXES[annex]:
        folder = module.removeprefix("adversary.") if ".models." in module else module
        shutil.rmtree(into.joinpath(*folder.split(".")))
    shutil.rmtree(into / "tests" / annex, ignore_errors=True)
    for register in REGISTERS:
        path = into / register
        path.write_text(_without(path.read_text(), annex, commands))
    left: list[str] = []
    stems = [path.stem for path in (ROOT / "tests" / annex).glob("*.py")]
    while True:  # a test that uses another one goes with it
        used = re.compile(
            rf"from tests\S* import .*\b(?:{'|'.join(stems)})\b|from tests\S*\.(?:{'|'.join(stems)}) import"
        )
        gone = [
            path
            for path in sorted((into / "tests").rglob("*.py"))
            if path.name not in ("test_house.py", "without_annex.py", "catalogue.py")
            and ((path.name.startswith("test_") and own.search(path.read_text())) or used.search(path.read_text()))
        ]
        if not gone:
            break
        left += [str(path.relative_to(into)) for path in gone]
        stems += [path.stem for path in gone]
        for path in gone:
            path.unlink()
    catalogue, house = into / "tests" / "catalogue.py", into / "tests" / "test_house.py"
    catalogue.write_text(re.sub(rf"^.*  # annex: {annex}\n", "", catalogue.read_text(), flags=re.MULTILINE))
    rooms = "|".join([annex, *(module.partition(".")[2] for module in ANNEXES[annex])])
    house.write_text(re.sub(rf"^    \"(?:{rooms})[\".].*\n", "", house.read_text(), flags=re.MULTILINE))
    return left


def _without(text: str, annex: str, commands: list[str]) -> str:
    """A register without the entries of an annex: whole items of a dictionary, and single lines."""
    folders = [module.rpartition(".")[2] for module in ANNEXES[annex]]
    names = "|".join([rf"adversary\.{annex}\b", *(rf"^from \.(?: import )?{one}\b" for one in folders)])
    names += "".join(rf"|^    \"{one}\":" for one in commands)
    kept: list[str] = []
    lines = iter(text.splitlines(keepends=True))
    for line in lines:
        item = line + next(lines, "") if line.rstrip().endswith(("Kind(", "Entry(")) else line
        if not re.search(names, item, re.MULTILINE):
            kept.append(item)
        elif item.count("(") > item.count(")"):
            for more in lines:
                item += more
                if item.count("(") == item.count(")"):
                    break
    return "".join(kept)


def audited(copy: Path) -> str:
    """What the audit prints."""
    code = "from adversary.report.commands.cli import main; main()"
    done = run(copy, "-c", code, *AUDIT.split())
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def check(annex: str) -> str:
    """What is wrong without the annex; "" if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        left = copy_without(annex, copy)
        print(f"{annex}: {len(left)} further files of tests name it: {' '.join(left)}", flush=True)
        if audited(copy) != audited(ROOT):
            return "the audit prints other bytes"
        # the README, the site and the notebooks speak of the whole project
        whole = [word for name in ("readme", "site", "notebooks") for word in ("--ignore", f"tests/test_{name}.py")]
        done = run(copy, "-m", "pytest", "-q", "-n", "2", "-m", "not slow and not thorough", *whole)
        return "" if done.returncode == 0 else done.stdout[-3000:]


if __name__ == "__main__":
    wrong = {annex: check(annex) for annex in sys.argv[1:] or ANNEXES}
    print("\n".join(f"{annex}: {text or 'the core answers without it'}" for annex, text in wrong.items()))
    sys.exit(any(wrong.values()))
