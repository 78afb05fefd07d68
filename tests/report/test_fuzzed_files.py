"""Any file gets an answer or one line that begins with its name: no traceback, no NaN, no words of numpy's alone."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.commands import number, run
from tests.report import grammar
from tests.report.grammar import Case

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "scenario": (("audit", "--draws", "50"), ("explain",), ("sensitivity",), ("invariants",)),
    "profile": (("epsilon",), ("explain",)),
    "release": (("infer",),),
    "table": (("invariants",),),
    "guarantee": (("bounds",), ("explain",)),
}
"""What reads each kind of file; the first of them half of the time or more."""
PICKS = 8
FOREIGN = re.compile(
    "division by zero|could not be broadcast|cannot convert|has no attribute|Unable to allocate|not supported between|"
    "to unpack|ufunc|argument must be|out of range|verflow|too large to|math domain|more memory|<class|keyword|"
    "positional"
)
"""Words of Python or of numpy, which name nothing in a file."""
SECONDS, ANSWERED, BYTES = 2, 30, 2**30
"""Of a case, checked on demand: two seconds where it is refused; an answer, such as an audit of counts made
non-negative for two adversaries, may take longer, and shows its progress."""


def check(case: Case, which: int, folder: Path) -> bool:
    """Run one of the commands that read a file; whether it answered."""
    kind, text = case
    commands = COMMANDS[kind]
    command, *options = commands[max(0, which - PICKS + len(commands))]
    path = folder / "case.toml"
    path.write_text(text, encoding="utf-8")
    result = run(command, str(path), "--json", *options)
    if result.exit_code == 0:
        json.loads(result.stdout, parse_constant=_refuse)
        return True
    if not isinstance(result.exception, SystemExit):
        raise AssertionError(f"adversary {command} ends in a traceback on\n{text}") from result.exception
    line = result.stderr
    assert line.startswith(f"error: {path}: "), line
    assert line.count("\n") == 1, line
    assert result.exit_code == 2
    assert FOREIGN.search(line) is None, line
    return False


def _refuse(token: str) -> None:
    raise AssertionError(f"an answer has {token}")


WHICH = st.integers(0, PICKS - 1)
CASES = settings(
    database=None, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink]
)


@pytest.mark.slow
@settings(CASES, max_examples=300, derandomize=True)
@given(case=grammar.files(), which=WHICH)
def test_any_file_gets_an_answer_or_one_line_that_names_it(case: Case, which: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(case, which, Path(folder))


@pytest.mark.thorough
def test_twenty_thousand_files_get_answers_or_one_line_each_within_its_time_and_memory() -> None:
    call = "from tests.report.test_fuzzed_files import go_through; go_through()"
    ended = subprocess.run([sys.executable, "-W", "error", "-c", call], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-5000:]


def go_through(count: int = 20_000) -> None:
    """So many files, each within its seconds of a processor, and `BYTES` more than the commands take up themselves."""

    @settings(CASES, max_examples=count, print_blob=True)
    @given(case=grammar.files(), which=WHICH)
    def each(case: Case, which: int) -> None:
        start = time.process_time()
        with tempfile.TemporaryDirectory() as folder, _limited(ANSWERED):
            refused = not check(case, which, Path(folder))
        took = time.process_time() - start
        assert not refused or took <= SECONDS, f"is refused after {took:.1f} s"

    with tempfile.TemporaryDirectory() as folder:
        for kind, document in grammar.shipped():  # what is imported or compiled once is no case's
            for which in range(PICKS - len(COMMANDS[kind]), PICKS):
                check((kind, grammar.toml(document)), which, Path(folder))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    each()


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """A body that may take so many seconds of this process."""

    def stop(*_: Any) -> None:
        raise AssertionError(f"takes more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


SCENARIO = """
neighbours = "unbounded"
[plan]
[[plan.level]]
name = "block"
rho = 0.5
siblings = 2
[[plan.level]]
name = "tract"
rho = 0.5
siblings = 2
[[plan.level]]
name = "state"
noise = "exact"
[truth]
block = 3
tract = 5
state = 9
[adversary]
prior = 0.5
known = 3
[adversary.beliefs]
tract = { upper = 9 }
state = "uniform"
"""
FIRST = 'name = "block"\nrho = 0.5'

# what is wrong -> (the file, words the message must hold)
REFUSED = {
    "deep brackets": ("x = " + "[" * 100_000, ["nested at most 20 deep"]),
    "deep tables": (SCENARIO + "x = " + "{ a = " * 21 + "1" + " }" * 21, ["nested at most 20 deep"]),
    "a key of many parts": ("a." * 200_000 + "a = 1", ["nested at most 20 deep"]),
    "quoted parts": ('"a b".' * 100_000 + "a = 1", ["nested at most 20 deep"]),
    "parts in heads and keys": ("[a.b.c.d.e.f.g.h.i.j.k]\nl.m.n.o.p.q.r.s.t.u = 1", ["nested at most 20 deep"]),
    "a long file": (SCENARIO + "#" * 2**20, ["at most 1,048,576 bytes"]),
    "a long number": (SCENARIO.replace("block = 3", "block = " + "9" * 400), ["truth.block", "64 bits"]),
    "a long fraction": (SCENARIO.replace("rho = 0.5", f'rho = "{"9" * 400}"'), ["plan.level[1].rho", "fraction"]),
    "many releases": (SCENARIO.replace(FIRST, FIRST + "\nreleases = 10000000"), ["plan.level[1]", "releases", "1,000"]),
    "wide noise": (
        SCENARIO.replace(FIRST, 'name = "block"\nsigma = 1e9'),
        ["plan.level[1].sigma", "100,000 values"],
    ),
    "noise of too many values": (
        SCENARIO.replace(FIRST, 'name = "block"\nrho = 1e-9'),
        ["plan.level[1].rho", "100,000 values", "4.07e+05"],
    ),
    "rounded noise of too many values": (
        SCENARIO.replace(FIRST, 'name = "block"\nnoise = "laplace"\nepsilon = 1e-6\nround = 1\nclamp = [0, 1000000]'),
        ["plan.level[1].epsilon", "100,000 values", "1e+06"],
    ),
    "clamped counts without end": (
        SCENARIO.replace('"block"\nrho', '"block"\nclamp = [0, 9]\nrho')
        .replace('"tract"\nrho', '"tract"\nclamp = [0, 5]\nrho')
        .replace("{ upper = 9 }", '{ each = "uniform" }')
        .replace("siblings = 2", "siblings = 1")
        .replace("state = 9\n", "state = 9\n[truth.siblings]\nblock = [2]\n"),
        ["clamped from above", "Each"],
    ),
    "non-negative counts of two siblings beside broad noise": (
        SCENARIO.replace(FIRST, 'name = "block"\nsigma = 1e-6')
        .replace('"tract"\nrho = 0.5\nsiblings = 2', '"tract"\nrho = 1e-6\nsuppress = 0')
        .replace('[[plan.level]]\nname = "state"\nnoise = "exact"\n', "")
        .replace("[plan]", '[plan]\npostprocessing = { kind = "nonnegative" }')
        .replace("{ upper = 9 }", '"uniform"')
        .replace("state = 9\n", "")
        .replace('state = "uniform"\n', ""),
        ["vectors of siblings' noisy counts are too many to list", "narrower noise"],
    ),
    "numbers published from ten million on": (
        SCENARIO.replace(FIRST, 'name = "block"\nrho = 0.5\nclamp = 10000000'),
        ["plan.level[1]", "clamp", "from 10,000 on", "10,000,000"],
    ),
    "numbers suppressed below ten million": (
        SCENARIO.replace(FIRST, 'name = "block"\nrho = 0.5\nsuppress = 10000000'),
        ["plan.level[1]", "suppress", "from 10,000 on", "10,000,000"],
    ),
    "many categories": (
        SCENARIO.replace(FIRST, 'name = "block"\nnoise = "randomized response"\nepsilon = 1\ncategories = 1000000000'),
        ["plan.level[1].categories", "at most 10,000", "1,000,000,000"],
    ),
    "many siblings": (
        SCENARIO.replace("siblings = 2", "siblings = 10000000", 1),
        ["plan.level[1].siblings", "at most 5,000", "10,000,000", "square of their number", "adversary.Plan"],
    ),
    "many siblings to go over": (
        SCENARIO + "[sensitivity]\nsiblings = [2, 10000000]",
        ["sensitivity.siblings", "at most 5,000", "10,000,000", "square of their number", "adversary.Plan"],
    ),
    "a name that is empty": (
        SCENARIO.replace("[adversary", '[adversaries.""'),
        ["adversaries", "must not be empty"],
    ),
    "a law without end": (
        SCENARIO.replace("{ upper = 9 }", '{ law = "zipf", a = 1.0001 }'),
        ["adversary.beliefs.tract", "100,000 counts", "1.0001"],
    ),
    "a law of each sibling without end": (
        SCENARIO.replace("{ upper = 9 }", '{ each = { law = "zipf", a = 4.458951298096283 } }'),
        ["adversary.beliefs.tract", "161,489", "65,536 at most"],
    ),
    "noise beyond doubles": (
        SCENARIO.replace(FIRST, 'name = "block"\nsigma = 1e-300'),
        ["plan.level[1].sigma", "1e-12"],
    ),
    "an impossible belief": (
        SCENARIO.replace("{ upper = 9 }", "{ total = 1 }"), ["belief about 'tract'", "both hypotheses impossible", "1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_machine_could_hold_is_refused_by_name(what: str, tmp_path: Path) -> None:
    text, words = REFUSED[what]
    check(("scenario", text), 0, tmp_path)
    error = run("audit", str(tmp_path / "case.toml")).stderr
    assert [word for word in words if word not in error] == [], error
    assert len(error) < 1_300


def test_dots_and_brackets_in_texts_and_comments_are_not_depth(tmp_path: Path) -> None:
    path = tmp_path / "case.toml"
    texts = f'title = "{"a." * 40}{"[" * 40}" # {"a." * 40}{"{" * 40}\ndescription = """\n"{"[" * 30}\\""""\n'
    path.write_text(texts + SCENARIO + f"# {'[' * 50}", encoding="utf-8")
    assert run("audit", str(path), "--json").exit_code == 0


@pytest.mark.parametrize("level", ["block", "tract"])
@pytest.mark.parametrize("more", ["clamp = 0", "round = 5", ""])
def test_sixty_releases_of_a_level_are_read_together(level: str, more: str, tmp_path: Path) -> None:
    below, above = SCENARIO.split('siblings = 2\n[[plan.level]]\nname = "state"\nnoise = "exact"\n')
    text = below + above.replace("state = 9\n", "").replace('state = "uniform"\n', "")
    head = f'name = "{level}"\nrho = 0.5'
    if level == "block" and more:
        text = text.replace("siblings = 2", "siblings = 1")
    path = tmp_path / "case.toml"
    path.write_text(text.replace(head, f"{head}\nreleases = 60\n{more}"), encoding="utf-8")
    result = run("audit", str(path), "--json", "--draws", "20")
    assert result.exit_code == 0, result.stderr
    mean = number(json.loads(result.stdout), "posterior_mean", group="risk")
    assert mean < (0.01 if level == "block" else 0.5)


def test_many_releases_of_a_profile_are_refused_by_name(tmp_path: Path) -> None:
    text = "releases = 1000000\n[profile]\nkind = 'constant'\nratio = 2\n"
    for which in (0, PICKS - 1):
        check(("profile", text), which, tmp_path)
    error = run("epsilon", str(tmp_path / "case.toml")).stderr
    assert [word for word in ("releases", "at most 1,000", "1000000") if word not in error] == [], error


@pytest.mark.slow
def test_laplace_noise_of_a_tiny_epsilon_does_not_set_the_grid(tmp_path: Path) -> None:
    noise = 'noise = "laplace"\nepsilon = 1e-9'
    check(("scenario", SCENARIO.replace(FIRST, f'name = "block"\n{noise}')), 0, tmp_path)
    assert run("audit", str(tmp_path / "case.toml"), "--json").exit_code == 0


def test_a_prior_of_nobody_overflows_in_no_threshold(tmp_path: Path) -> None:
    text = SCENARIO.replace(FIRST, 'name = "block"\nnoise = "laplace"\nscale = 2.6')
    check(("scenario", text + "[sensitivity]\nprior = [0.1, 0]\n"), PICKS - 2, tmp_path)


def test_a_bound_that_may_always_fail_is_explained(tmp_path: Path) -> None:
    assert check(("scenario", "failure = 1\n" + SCENARIO), PICKS - 3, tmp_path)


# what used to fail or to take half a minute -> the file
ANSWERED_NOW = {
    "a reader who is sure of what a release rules out": SCENARIO.replace("prior = 0.5", "prior = 1")
    .replace("rho = 0.5", 'noise = "exact"')
    .replace("{ upper = 9 }", '{ law = "logser", p = 0.5 }')
    .replace("known = 3", "known = 2"),
    "odds without end": SCENARIO.replace(FIRST, 'name = "block"\nnoise = "laplace"\nscale = 1e-10').replace(
        "0.5\nknown", "0\nknown"
    ),
    "a law whose tails are added up, beside exact totals": SCENARIO.replace(
        'state = "uniform"', 'state = { law = "zipf", a = 4.458951298096283 }'
    ),
    "sharp noise beside continuous noise": SCENARIO.replace(FIRST, 'name = "block"\nrho = 1e5').replace(
        'name = "tract"\nrho = 0.5', 'name = "tract"\nnoise = "gaussian"\nsigma = 20'
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ANSWERED_NOW)
def test_extreme_noise_and_beliefs_are_answered(what: str, tmp_path: Path) -> None:
    assert check(("scenario", ANSWERED_NOW[what]), 0, tmp_path), (tmp_path / "case.toml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("room", [0, 2000, 20_000])
def test_a_full_disk_is_told_with_the_name_of_the_file(room: int, tmp_path: Path) -> None:
    (tmp_path / "case.toml").write_text(SCENARIO, encoding="utf-8")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        result = run("audit", str(tmp_path / "case.toml"), "--out", str(tmp_path / "out"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.stderr
    assert result.stderr.startswith(f"error: cannot write {tmp_path / 'out' / 'data.nc'}: "), result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("names", [(".hidden", "..", "."), ("/", "a/b", "...c")])
def test_names_of_truths_hide_no_file_and_leave_no_folder(names: tuple[str, ...], tmp_path: Path) -> None:
    head, truth = SCENARIO.split("[truth]")
    counts, rest = truth.split("[adversary]", 1)
    text = head + "".join(f'[truths."{name}"]{counts}' for name in names) + "[adversary]" + rest
    (tmp_path / "case.toml").write_text(text + "[sensitivity]\nprior = [0.1, 0.5]\n", encoding="utf-8")
    result = run("sensitivity", str(tmp_path / "case.toml"), "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.stderr
    found = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["case.toml", "out"]
    assert len(found) > len(names)
    assert [name for name in found if name.startswith(".")] == []


def test_noise_too_narrow_to_matter_is_answered_or_named(tmp_path: Path) -> None:
    check(("scenario", SCENARIO.replace(FIRST, 'name = "block"\nsigma = 1e-9')), 0, tmp_path)
