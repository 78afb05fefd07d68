"""Ledgers: limits kept by each rule, what is left, files, and what would overspend."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adversary as adv
from adversary.budget import Ledger
from adversary.privacy.definitions import pure_mu, pure_rho
from tests import commands
from tests.tables import DATA, refusals

PURE, APPROXIMATE, ZCDP = adv.PureDP(1.0), adv.ApproximateDP(1.0, 1e-6), adv.ZeroConcentratedDP(1.0)


def test_ten_tenths_are_one_and_the_eleventh_is_refused() -> None:
    ledger = Ledger(PURE)
    for i in range(10):
        ledger.add(f"release {i}", adv.PureDP(0.1))
    assert ledger.spent == adv.PureDP(1.0)
    assert ledger.left == {"pure DP": 0.0}
    with pytest.raises(ValueError, match=r"'one more' would overspend the limit, pure .* epsilon 1, by"):
        ledger.add("one more", adv.PureDP(1e-6))
    assert len(ledger.entries) == 10


def test_each_rule_adds_its_own_parameter() -> None:
    two, wide = [adv.PureDP(0.2), adv.PureDP(0.3)], adv.ApproximateDP(4.0, 1e-6)
    totals = {}
    for rule in ("sum", "zCDP", "Gaussian", "losses"):
        ledger = Ledger(wide, rule)
        for i, one in enumerate(two):
            ledger.add(str(i), one, fixed=True)
        totals[rule] = ledger.spent
    assert totals["sum"] == adv.PureDP(0.5)
    assert totals["zCDP"].parameters["rho"] == pytest.approx(pure_rho(0.2) + pure_rho(0.3), rel=1e-14)
    assert totals["Gaussian"].parameters["mu"] == pytest.approx(math.hypot(pure_mu(0.2), pure_mu(0.3)), rel=1e-14)
    assert float(totals["losses"].delta(0.4)) == pytest.approx(float((two[0] + two[1]).delta(0.4)), rel=1e-12)
    renyi = Ledger(adv.RenyiDP(8.0, 1.0))
    renyi.add("z", adv.ZeroConcentratedDP(0.05))
    renyi.add("p", adv.PureDP(0.1))
    gamma = 0.4 + adv.PureDP(0.1).worst_pair.renyi(8.0)
    assert renyi.spent.parameters["gamma"] == pytest.approx(gamma, rel=1e-14)


@pytest.mark.parametrize("rule", ["sum", "zCDP", "Gaussian", "losses"])
def test_what_is_left_may_be_spent_and_a_little_more_may_not(rule: str) -> None:
    ledger = Ledger(APPROXIMATE, rule)
    ledger.add("first", adv.PureDP(0.1), fixed=True)
    makers: dict[str, Any] = {"pure DP": adv.PureDP, "zCDP": adv.ZeroConcentratedDP, "Gaussian DP": adv.GaussianDP}
    assert ledger.left
    for kind, most in ledger.left.items():
        again = Ledger(APPROXIMATE, rule, ledger.entries)
        again.add("rest", makers[kind](most), fixed=True)
        assert APPROXIMATE.epsilon0 >= float(again.spent.epsilon(1e-6)) * (1.0 - 1e-9)
        with pytest.raises(ValueError, match="would overspend"):
            Ledger(APPROXIMATE, rule, ledger.entries).add("rest", makers[kind](1.001 * most), fixed=True)


def test_the_sharper_the_rule_the_more_small_releases_it_allows() -> None:
    """An epsilon of 0.01, again and again, within epsilon 1 and delta 1e-6."""
    for rule, fits, passes in (("sum", 100, 101), ("zCDP", 480, 490), ("losses", 490, 2000)):
        Ledger(APPROXIMATE, rule).add("many", adv.PureDP(0.01), times=fits, fixed=True)
        with pytest.raises(ValueError, match="would overspend"):
            Ledger(APPROXIMATE, rule).add("many", adv.PureDP(0.01), times=passes, fixed=True)


@settings(max_examples=25)
@given(st.lists(st.floats(1e-3, 0.3), min_size=1, max_size=12))
def test_a_ledger_never_passes_its_limit(epsilons: list[float]) -> None:
    ledger = Ledger(ZCDP)
    for i, epsilon in enumerate(epsilons):
        try:
            ledger.add(str(i), adv.PureDP(10.0 * epsilon))
        except ValueError:
            continue
    spent = math.fsum(pure_rho(float(one.guarantee.parameters["epsilon"])) for one in ledger.entries)
    assert spent <= 1.0 + 1e-12
    assert ledger.left["zCDP"] == pytest.approx(max(0.0, 1.0 - spent), abs=3e-6)


def test_a_file_comes_back_and_keeps_its_comments(tmp_path: Path) -> None:
    path = tmp_path / "ledger.toml"
    text = (DATA / "releases.toml").read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    ledger = Ledger.load(path)
    ledger.add('a "quoted" name\n', adv.GaussianDP(0.1), times=3, fixed=True, date="2026")
    ledger.save(path)
    assert path.read_text(encoding="utf-8").startswith(text.rstrip())
    again = Ledger.load(path)
    assert again.entries == ledger.entries
    assert (again.limit, again.rule, again.title) == (ledger.limit, ledger.rule, ledger.title)
    fresh = Ledger(adv.ApproximateDP(2.0, 1e-7), "sum", again.entries[1:2], "new")
    fresh.save(path)
    assert Ledger.load(path) == fresh
    assert [one.name for one in tmp_path.iterdir()] == ["ledger.toml"]


def refused_file(text: str, tmp_path: Path) -> str:
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"bad\.toml") as caught:
        Ledger.load(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "limit: is required (a table with one definition, such as zCDP = 1.0)"),
        ("[limit]\n", "limit: must have exactly one of pure DP, approximate DP, zCDP, Gaussian DP, Renyi DP, got none"),
        ("[limit]\nzCDP = 1\nrle = 'sum'\n", "limit.rle: unknown key; did you mean 'rule'?"),
        ("[limit]\nzCDP = 1\nrule = 'sum'\n", "rule of a limit of zCDP must be one of zCDP, got 'sum'"),
        ("[limit]\nzCDP = -1\n", "limit.zCDP: rho must be"),
        ("[limit]\n'approximate DP' = 1\n", "limit.approximate DP: must be { epsilon = .., delta = .. }, got 1"),
        ("[limit]\nzCDP = 1\n[release]\nname = 'a'\n", "release: must be rows [[release]], in two brackets"),
        ("[limit]\nzCDP = 1\n[[release]]\nzCDP = 0.1\n", "release[1]: name must say which release this is, got ''"),
        ("[limit]\nzCDP = 1\n[[release]]\nname = 'a'\nzCDP = 2\n", "release 'a' would overspend the limit"),
        ("[limit]\nzCDP = 1\n[[release]]\nname = 'a'\n'Renyi DP' = {alpha = 2, gamma = 0.1}\n", "cannot add Renyi"),
    ],
)
def test_a_bad_file_is_refused_by_its_key(text: str, words: str, tmp_path: Path) -> None:
    assert words in refused_file(text, tmp_path)


test_refusals = refusals(
    (lambda: Ledger(adv.NoPrivacy()), "limit must be one of pure DP, approximate DP, zCDP"),
    (lambda: Ledger(adv.RenyiDP([2.0, 3.0], [0.1, 0.2])), "Renyi DP of one order, got RenyiDP"),
    (lambda: Ledger(PURE, "zCDP"), "rule of a limit of pure DP must be one of sum, losses, got 'zCDP'"),
    (
        lambda: Ledger(APPROXIMATE, "losses").add("chosen later", adv.PureDP(0.1)),
        "'chosen later': the rule 'losses' holds only for parameters that were fixed before the first",
    ),
    (lambda: Ledger(ZCDP).add("a", adv.ApproximateDP(0.1, 1e-9)), "the rule 'zCDP' cannot add approximate"),
    (lambda: Ledger(adv.GaussianDP(1.0)).add("a", adv.ZeroConcentratedDP(0.1)), "the rule 'Gaussian' cannot add"),
    (lambda: Ledger(PURE).add("a", adv.PureDP(0.1), times=0), "times must be"),
)


def test_the_command_shows_adds_and_refuses(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.toml")
    made = commands.printed("ledger", path, "--limit", "rho 0.02", "--rule", "zCDP")
    assert "spent: nothing" in made
    added = commands.answered("ledger", path, "--add", "maps: rho 0.005", "--times", "2")
    assert commands.numbers(added, "times") == [2]
    left = commands.number(commands.answered("ledger", path), "left", definition="zCDP")
    assert left == pytest.approx(Ledger.load(path).left["zCDP"])
    full = commands.printed("ledger", str(tmp_path / "full.toml"), "--limit", "rho 1", "--add", "all: rho 1")
    assert "Nothing is left of zero-concentrated differential privacy (zCDP) with rho 1." in commands.flat(full)
    before = Path(path).read_bytes()
    refused = commands.run("ledger", path, "--add", "atlas: rho 1")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "release 'atlas' would overspend the limit" in refused.stderr
    for asked, words in (
        (("--add", "rho 1"), "--add must be NAME: GUARANTEE, such as"),
        (("--add", "a: sigma 1"), "--add: a guarantee must be one of rho ..; epsilon ..;"),
        (("--limit", "rho 1"), "--limit begins a ledger, and"),
        (("--rule", "sum"), "--rule goes with --limit"),
        (("--times", "3"), "--times, --fixed and --date go with --add"),
        (("--fixed",), "--times, --fixed and --date go with --add"),
        (("--add", "a: epsilon 1, delta 1e-9"), "which implies no rho: enter what does, or begin another ledger"),
    ):
        result = commands.run("ledger", path, *asked)
        assert (result.exit_code, words in result.stderr) == (2, True)
    assert Path(path).read_bytes() == before


def test_a_file_that_is_no_ledger_is_refused_with_the_command_that_reads_it(tmp_path: Path) -> None:
    data = Path(__file__).parents[2] / "data"
    (tmp_path / "latin.toml").write_bytes('title = "Zürich"\n'.encode("latin-1"))
    for path, words in (
        (tmp_path / "none.toml", "no such file; --limit begins it: adversary ledger"),
        (data / "districts.toml", "data: this is a file of several tables of one population, which adversary tables"),
        (data / "districts.csv", "must be a TOML file, got CSV"),
        (tmp_path / "latin.toml", "not a TOML file: must be in UTF-8"),
    ):
        refused = commands.run("ledger", str(path))
        assert (refused.exit_code, refused.stdout, words in refused.stderr) == (2, "", True)
    other = commands.run("infer", str(data / "releases.toml"))
    assert (other.exit_code, "limit: this is a ledger, which adversary ledger reads" in other.stderr) == (2, True)


def test_what_is_left_of_a_round_limit_is_round_and_may_be_spent() -> None:
    ledger = Ledger(adv.PureDP(3.0))
    assert ledger.left == {"pure DP": 3.0}
    ledger.add("a", adv.PureDP(0.1), times=2)
    assert ledger.left == {"pure DP": 2.8}
    ledger.add("b", adv.PureDP(ledger.left["pure DP"]))
    assert ledger.left["pure DP"] == pytest.approx(0.0, abs=1e-12)
    third = Ledger(adv.PureDP(1.0 / 3.0)).left["pure DP"]
    assert 1.0 / 3.0 * (1.0 - 1e-6) <= third <= 1.0 / 3.0
