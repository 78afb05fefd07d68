"""Mistakes of a first day with the program, each answered in one line: file, key, rule, value and remedy.

Forty are of a review of the tables of an office, the others of a later reading; further ones stand in the tests of each
kind of file. What is no mistake after all is read as meant.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

import adversary as adv
from adversary import models
from tests import commands
from tests.tables import refusals

NOISE = adv.DiscreteGaussian.from_rho(0.3)
FILES = {
    "one.toml": 'neighbours = "unbounded"\n[plan]\n[[plan.level]]\nname = "district"\nrho = 0.5\nround = 5\n'
    "suppress = 10\n[truth]\ndistrict = 12\n[adversary]\nprior = 0.1\nknown = 11\n[guarantee]\n"
    'zCDP = "sum of levels"\n',
    "two.toml": 'neighbours = "unbounded"\n[[plan.level]]\nname = "district"\nrho = 0.3\nsiblings = 11\n'
    '[[plan.level]]\nname = "country"\nrho = 0.1\n[truth]\ndistrict = 1\ncountry = 14\n[adversary]\nprior = "1/10"\n'
    'known = 0\n[adversary.beliefs]\ncountry = "uniform"\n',
    "people.csv": "district,sex,age,n\nN1,m,0-17,3\nN1,f,0-17,4\nN2,m,0-17,5\nN2,f,0-17,1\n",
    "town.csv": "town,n\nA,3\nB,1\n",
    "tables.toml": '[data]\nfile = "people.csv"\n[[table]]\nof = "district: age x sex"\nrho = 0.3\n'
    "[adversary]\nprior = 0.1\n",
    "margins.toml": '[table]\nnoise = "geometric"\nepsilon = 1\n[invariants]\nmargins = [[12, 9], [7, 14]]\n',
    "profile.toml": '[profile]\nkind = "ratio or absolute"\nratio = 3\nabsolute = 0.25\n',
    "income.toml": "[release]\nn = 500\nbounds = [0, 150000]\nmean = 41000\nvariance = 9e8\nepsilon = [0.5, 0.5]\n",
    "ledger.toml": '[limit]\nzCDP = 2.0\n[[release]]\nname = "maps"\nzCDP = 0.5\n',
    "keys.csv": "i,0,1,2\n0,1,0,0\n1,0.5,0,0.5\n",
}
"""What lies in the folder; a case changes one of them."""
AUDIT, BOTH, TABLE = "audit one.toml", "audit two.toml", "tables people.csv --table 'district: age x sex, rho 0.3'"
TOWN, TOLD, AT_END = "tables town.csv --table 'town: total, rho 1'", "tables tables.toml", "prior = 0.1"
SAME = "one.toml", "rho", "rho"
"""No file is changed."""
RHO, KEYS, SUM = "rho = 0.5", 'noise = "perturbation table"\ntable = "keys.csv"', 'zCDP = "sum of levels"'
LEVELS = 'name = "district"\nrho = 0.3\nsiblings = 11\n[[plan.level]]\nname = "country"\nrho = 0.1\n'
UPPER_FIRST = 'name = "country"\nrho = 0.1\nsiblings = 11\n[[plan.level]]\nname = "district"\nrho = 0.3\n'
DOUBTFUL = re.compile(r"\[['\"(]|\(['\"]|<class|object at 0x|Traceback|codec|Error\b|None\b|True\b|False\b")
"""What a message of the program must not have: Python's way to write lists and classes, and its names of errors."""

# what -> (file, text in it, text in its place, or None and its whole content; command; words of the answer)
REVIEWED: dict[str, tuple[str, str | None, str | bytes, str, str]] = {
    "epsilon of the default noise": ("one.toml", RHO, "epsilon = 0.5", AUDIT, "takes one of rho, sigma, got epsilon"),
    "rho in per cent": ("one.toml", RHO, 'rho = "50 %"', AUDIT, "plan.level[1].rho: must be a number such as"),
    "noise misspelt": ("one.toml", RHO, 'noise = "laplacian"', AUDIT, "'laplacian'; did you mean 'laplace'?"),
    "sigma of Laplace": ("one.toml", RHO, 'noise = "laplace"\nsigma = 1', AUDIT, "laplace noise takes one of epsilon,"),
    "prior as a percentage": ("one.toml", "= 0.1", "= 10", AUDIT, "prior must be in [0, 1] (10% is 0.1), got 10"),
    "prior in per cent": ("one.toml", "= 0.1", '= "10 %"', AUDIT, "got '10 %'; write 10 % as 0.1"),
    "more known than there are": ("one.toml", "= 11", "= 20", AUDIT, "outside the adversary's belief (20 others are k"),
    "truth missing": ("one.toml", "[truth]\ndistrict = 12\n", "", AUDIT, "a table [truth] or several by name"),
    "truth of another level": ("one.toml", "]\ndistrict", "]\ndistrct", AUDIT, "truth.distrct: unknown key, got 'dist"),
    "fractional truth": ("one.toml", "= 12", "= 12.4", AUDIT, "truth.district: must be a whole number, or one per cel"),
    "name without quotes": ("one.toml", "district = 12", "my district = 12", AUDIT, 'has quotes, as "my district" = 1'),
    "adversary twice": ("one.toml", "[guarantee]", "[adversary]\n[guarantee]", AUDIT, "as [adversaries.NAME]"),
    "guarantee by epsilon": ("one.toml", SUM, "epsilon = 1", AUDIT, 'got \'epsilon\'; write "pure DP" = 1.0'),
    "guarantee by rho": ("one.toml", SUM, "rho = 1", AUDIT, "guarantee.rho: unknown key, got 'rho'; write \"zCDP\""),
    "belief missing": ("two.toml", 'country = "uniform"', "", BOTH, "upper level 'country' needs one, such as"),
    "siblings missing": ("two.toml", "siblings = 11\n", "", BOTH, "level 'district': siblings is required below"),
    "upper level first": ("two.toml", LEVELS, UPPER_FIRST, BOTH, "levels stand lowest first"),
    "zCDP of a perturbation table": ("one.toml", RHO, KEYS, AUDIT, "guarantee.zCDP: 'sum of levels' is infinite"),
    "suppression in words": ("one.toml", "= 10", '= "<10"', AUDIT, "suppress: must be the smallest count that is publ"),
    "counts for a scenario": ("town.csv", None, "town,n\nA,3\n", "audit town.csv", "adversary tables town.csv --table"),
    "scenario for tables": (*SAME, "tables one.toml", "this is a scenario file, which adversary audit reads"),
    "profile for a scenario": (*SAME, "audit profile.toml", "a profile file, which adversary epsilon reads"),
    "scenario for a profile": (*SAME, "epsilon one.toml", "a scenario file, which adversary audit reads"),
    "column that is not there": (*SAME, "tables town.csv --levels a --rho 1", "no column 'a'; there are town, n"),
    "no number of values": ("income.toml", "n = 500\n", "", "infer income.toml", "release.n: is required (how many va"),
    "one epsilon for two": ("income.toml", "= [0.5, 0.5]", "= 1.0", "infer income.toml", "must be two numbers, (mean,"),
    "mean beyond its bounds": ("income.toml", "41000", "410000", "infer income.toml", "check their unit, n, bounds an"),
    "deviation for variance": ("income.toml", "variance", "sd", "infer income.toml", "known here: bounds, epsilon, me"),
    "decimal comma": ("one.toml", RHO, "rho = 0,5", AUDIT, "got 'rho = 0,5'; numbers have a point, as 0.5"),
    "no guarantee": (*SAME, "bounds", "exactly one of --epsilon, --rho and --mu, got none"),
    "two guarantees": (*SAME, "bounds --epsilon 1 --rho 1", "got --epsilon and --rho"),
    "nothing to explain": (*SAME, "explain", "give either a file or one of --epsilon, --rho and --mu"),
    "profile beside a scenario": (*SAME, "compare one.toml profile.toml", "error: profile.toml: plan: is missing"),
    "command misspelt": (*SAME, "adit one.toml", "no such command 'adit'. Did you mean 'audit'?"),
    "option misspelt": (*SAME, "bounds --eps 1", "adversary bounds: no option --eps; did you mean --epsilon?"),
    "option of another command": (*SAME, "plan people.csv --rho 1", "no option --rho; adversary plan -h lists"),
    "nothing to go over": (*SAME, "sensitivity one.toml", "sensitivity: is required (what to go over"),
}  # fmt: skip
FRESH: dict[str, tuple[str, str | None, str | bytes, str, str]] = {
    "semicolon as decimal mark": (*SAME, f"{TABLE} --decimal ';'", "decimal must be '.' or ',', the mark"),
    "sheet of a CSV file": (*SAME, f"{TABLE} --sheet Data", "people.csv: sheet must be left out, as only an"),
    "suppressed below nothing": (*SAME, f"{TABLE} --suppressed-below 0", "suppressed_below must be a whole number >="),
    "negative seed": (*SAME, f"{TABLE} --seed -1", "error: --seed must be at least 0, got -1"),
    "prior option in per cent": (*SAME, f"{TABLE} --prior 10%", "got '10%'; write 10% as 0.1"),
    "prior option with a comma": (*SAME, f"{TABLE} --prior 0,1", "got '0,1'; write 0,1 as 0.1"),
    "failure as a percentage": (*SAME, f"{TABLE} --failure 5", "--failure must be in [0, 1] (5% is 0.05)"),
    "other columns the year before": (*SAME, f"{TABLE} --before town.csv", "error: town.csv: no columns 'district'"),
    "profile that is a scenario": (*SAME, f"{TABLE} --profile one.toml", "error: one.toml: plan: this is a scenario"),
    "features after a comma": (*SAME, "tables people.csv --table 'district: age, sex, rho 1'", "with x between"),
    "table without quotes": (*SAME, "tables people.csv --table district: age", "a text with blanks has quotes"),
    "counts with words": ("town.csv", "3", "3 persons", TOWN, "line 2: column 'n': must be a whole number >= 0"),
    "page of a login": ("town.csv", None, "<!DOCTYPE html>\n<p>Log in", "tables town.csv", "got a page of HTML or XML"),
    "noise inside of a line": ("tables.toml", 'sex"', 'sex, rho 1"', TOLD, "table[1].of: must be plac"),
    "data that are not there": ("tables.toml", "people.csv", "p.csv", TOLD, "tables.toml: data.file:"),
    "last year that is not there": ("tables.toml", AT_END, 'last_year = "l.csv"', TOLD, "last_year: must be a file"),
    "belief of another kind": ("tables.toml", AT_END, "belief = { total = 3 }", TOLD, "got { total = 3 }"),
    "UTF-16": ("one.toml", None, FILES["one.toml"].encode("utf-16"), AUDIT, "must be in UTF-8, got UTF-16: save it as"),
    "Latin-1": ("one.toml", "district", b"Z\xfcrich", AUDIT, "must be in UTF-8, got another encoding in line 4"),
    "quotes of a word processor": ("one.toml", '"district"', "“district”", AUDIT, "got 'name = “district”'; quotes ar"),
    "another format": ("one.toml", None, '{"plan": {}}\n', AUDIT, "this looks like another format"),
    "nothing in the file": ("one.toml", None, "# later\n", AUDIT, "the file is empty: adversary init writes a scenari"),
    "key twice": ("one.toml", RHO, "rho = 0.5\nrho = 0.6", AUDIT, "line 6: 'rho' stands twice, 'rho = 0.6': leave one"),
    "one bracket": ("one.toml", "[[plan.level]]", "[plan.level]", AUDIT, "write [[plan.level]], in two brackets"),
    "key of the file below a table": ("one.toml", SUM, f"{SUM}\nfailure = 0.01", AUDIT, "write it above the first tab"),
    "truth value for a number": ("one.toml", RHO, "rho = true", AUDIT, "plan.level[1].rho: must be a number such as"),
    "capital letter": ("two.toml", '"uniform"', '"Uniform"', BOTH, "got 'Uniform'; did you mean 'uniform'?"),
    "thousands in the bounds": ("income.toml", "150000]", "150.000]", "infer income.toml", "farther than noise reache"),
    "release entered twice": (*SAME, "ledger ledger.toml --add 'maps: rho 0.1'", "'maps' is in ledger.toml already"),
    "release with a comma": (*SAME, "ledger ledger.toml --add 'x: rho 0,1'", "numbers have a point, as 0.1, and no"),
    "ledger by rho": ("ledger.toml", "zCDP = 0.5", "rho = 0.5", "ledger ledger.toml", "release[1].rho: unknown key; d"),
    "ledger in no folder": (*SAME, "ledger no/l.toml --limit 'rho 1'", "no/l.toml: cannot be written: there is no fol"),
    "statistic misspelt": (*SAME, "epsilon profile.toml --statistic all", "--statistic must be one of 'any', 'count'"),
    "number for a file": (*SAME, "bounds 1", "a number goes with its option, such as --epsilon 1"),
    "name of a file misspelt": (*SAME, "explain on.toml", "did you mean 'one.toml'?"),
    "folder for a file": (*SAME, "audit .", "must be a file, got a folder: give a file in it"),
    "argument missing": (*SAME, "compare one.toml", "missing argument 'B.toml'; for example: adversary compare"),
    "tables to explain": (*SAME, "explain tables.toml", "explain reads scenarios, profiles, guarantees"),
    "scenario for a record": (*SAME, "gallery one.toml", "curator: is missing: this is a scenario file"),
    "margins that disagree": ("margins.toml", "14]", "15]", "invariants margins.toml", "got totals 21, 22"),
    "product misspelt": (*SAME, "census product DHCA", "must be one of PL94, DHC, DDHC-A, DDHC-B, S-DHC, got 'DHCA'"),
    "counts for a noisy file": (*SAME, "nmf check people.csv", "is a directory, this is a file"),
    "no file of measurements": (*SAME, "spine . --query TOTAL", "this is no Noisy Measurement File"),
    "two separators": ("people.csv", "N1,f,", "N1;f;", TABLE, "must have a cell for each of 4 columns, got 2"),
    "another separator in a line": ("people.csv", "N1,f,0-17,4", "N1;f;0-17;4", TABLE, "is ',' elsewhere, and may be "),
    "no Excel file": (*SAME, TABLE.replace("people.csv", "one.xlsx"), "one.xlsx: No such file or directory"),
    "file of another kind": ("town.csv", None, b"town,n\nA\x02,3\n", TOWN, "got the character 0x02, which no text has"),
    "noisy counts": ("town.csv", "B,1", "B,-1", TOWN, "counts stand here as they are before noise, which --table name"),
    "cases and residents": ("town.csv", None, "town,cases,residents\nA,3,9\nB,1,8\n", TOWN, "'cases' and 'residents'"),
    "counts said to be people": (*SAME, f"{TABLE} --people", "column 'n' is called a count, so that a row may be a ce"),
    "variance for rho": (*SAME, "tables town.csv --table 'town: total, variance 4'", "'variance 4' is no noise: write"),
    "delta of a table": (*SAME, "tables town.csv --table 'town: total, epsilon 1, delta 1e-6'", "noise has no delta;"),
    "address": (*SAME, "tables https://example.org/t.csv --table 'town: total, rho 1'", "is an address, and files are"),
    "real release by its name": (*SAME, "gallery Broadband", "Broadband must be a file of a record of your own, s"),
    "belief in per cent": ("two.toml", '"uniform"', "{ probabilities = [60, 40] }", BOTH, "one, got 100.0 (50% is 0.5"),
    "negative mean": ("two.toml", '"uniform"', '{ law = "poisson", mu = -2 }', BOTH, "in their range, got mu = -2"),
    "cell key of no row": ("one.toml", RHO, KEYS.split("\n")[0] + "\nV = 1\nD = 2\njs = 3", AUDIT, "js must be"),
}  # fmt: skip


def in_folder(folder: Path, file: str, old: str | None, new: str | bytes) -> None:
    """All files, one of them changed."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    if old is not None:
        assert old.encode() in (folder / file).read_bytes()
    content = new if isinstance(new, bytes) else new.encode()
    (folder / file).write_bytes(content if old is None else FILES[file].encode().replace(old.encode(), content, 1))


@pytest.mark.parametrize("what", [*REVIEWED, *FRESH])
def test_a_mistake_is_answered_in_one_line(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, old, new, command, words = (REVIEWED | FRESH)[what]
    monkeypatch.chdir(tmp_path)
    in_folder(tmp_path, file, old, new)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    commands.refused(tmp_path, *shlex.split(command), words=words)
    said = commands.run(*shlex.split(command), "--out", "out").stderr
    assert not DOUBTFUL.search(said), said
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_cannot_be_written_into_is_named(tmp_path: Path) -> None:
    """A full or closed disk, which no test can make, is read from the operating system: here no folder can be made."""
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for out in (tmp_path / "file", tmp_path / "file" / "deep", Path(os.devnull) / "out"):
        result = commands.run("bounds", "--rho", "1", "--out", str(out))
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"error: cannot write into {out}: ")


def test_what_stands_there_is_not_overwritten_by_a_file_to_begin_with(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("x", encoding="utf-8")
    for asked, words in ((("audit", str(path)), "is there already"), (("audits",), "did you mean 'audit'?")):
        result = commands.run("init", *asked)
        assert (result.exit_code, result.stdout, words in result.stderr) == (2, "", True)
    assert path.read_text(encoding="utf-8") == "x"


@pytest.mark.parametrize("content", ["\ufeff{}", "{}"], ids=["byte order mark", "Windows"])
def test_what_windows_writes_is_read_as_meant(content: str, tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_bytes(content.format(FILES["one.toml"]).replace("\n", "\r\n").encode())
    assert adv.load_scenario(path).truth == {"district": 12}


PEOPLE = pd.DataFrame({"district": ["N1", "N1", "N2", "N2"], "sex": [*"mfmf"], "n": [3, 4, 5, 1]})
TABLES = [adv.PublishedTable(["district", "sex"], NOISE)]
ONE = adv.Plan([adv.Level("district", NOISE)])
SEEN = ONE.observe({"district": [1, 2]})
PROFILE = adv.RiskProfile.difference(0.2)
PLAN = adv.Plan([adv.Level("district", NOISE, siblings=5), adv.Level("country", NOISE)])
WHO: Any = adv.Adversary(0.1, known=11, beliefs={"country": adv.Uniform()})
TRUTH: dict[str, Any] = {"district": 12, "country": 40}
test_refusals_of_python = refusals(
    (lambda: adv.Adversary(10, known=0), r"prior must be in \[0, 1\] \(10% is 0.1\), got 10"),
    (lambda: adv.Adversary("10 %", known=0), "prior must be a number, got '10 %'", TypeError),
    (lambda: adv.Level("district", adv.DiscreteGaussian), "is the class, write DiscreteGaussian", TypeError),
    (lambda: adv.Adversary(0.1, known=0, beliefs={"country": adv.Uniform}), "is the class, write Uniform", TypeError),
    (lambda: adv.audit(PLAN, WHO, TRUTH, guarantee=adv.PureDP), "is the class, write PureDP", TypeError),
    (lambda: adv.DiscreteGaussian(rho=0.3), r"made by rho: write DiscreteGaussian.from_rho\(", TypeError),
    (lambda: adv.Laplace(epsilon=1), r"made by epsilon: write Laplace.from_epsilon\(", TypeError),
    (lambda: adv.Discretegaussian, "adversary has no Discretegaussian; did you mean 'Discr", AttributeError),
    (lambda: adv.audit(PLAN, WHO, TRUTH | {"distrct": 1}), "unknown level 'distrct'; the plan has district, country"),
    (lambda: adv.audit(PLAN, WHO, {"district": 12}), "truth: no count for level 'country'"),
    (lambda: adv.audit(PLAN, WHO, TRUTH | {"district": np.nan}), "truth of level 'district' must be a whole number"),
    (lambda: adv.audit(PLAN, adv.Adversary(0.1, known=11), TRUTH), "upper level 'country' needs one"),
    (lambda: adv.audit(PLAN, WHO, TRUTH, also="priors"), r"must be a list of names, such as \['priors'\]", TypeError),
    (lambda: PLAN.release(TRUTH, rng=-1), "rng must be None, a seed >= 0 or a numpy Generator, got -1"),
    (lambda: adv.audit_tables("people.csv", TABLES), r"read it first, as by pandas.read_csv\('people", TypeError),
    (lambda: adv.audit_tables(PEOPLE, TABLES, adversary=0.1), "must be a TableAdversary, .* got 0.1", TypeError),
    (lambda: adv.audit_tables(PEOPLE, TABLES, guarantee=0.3), "guarantee must be a Guarantee, got 0.3", TypeError),
    (lambda: adv.audit_tables(PEOPLE.assign(n=[1, np.nan, 2, 3]), TABLES), "column 'n': a blank hides a count"),
    (lambda: adv.audit_tables(PEOPLE.assign(n=[1, 1.5, 2, 3]), TABLES), "must be whole numbers >= 0, got '1.5'"),
    (lambda: adv.PublishedTable(["sex", "sex"], NOISE), "by must name every feature once, got sex, sex"),
    (lambda: adv.audit_tables(PEOPLE, []), "tables must be at least one, got none"),
    (lambda: adv.audit_tables(PEOPLE, TABLES, adv.Adversary(0.1, known=3)), "known must be left out: the file says it"),
    (lambda: adv.Adversary(0.1, beliefs={"country": scipy.stats.poisson}), "is the family, write poisson", TypeError),
    (lambda: PLAN.observe(3), r"noisy must be a mapping such as \{'district': 2\}, got 3", TypeError),
    (lambda: PLAN.observe({"district": 1, "country": 3}, 4), "sibling_sum must be a mapping such as", TypeError),
    (lambda: ONE.observe({"district": np.ones((2, 2))}), r"one number, or one for each release, got shape \(2, 2\)"),
    (lambda: adv.Adversary().posterior(ONE, SEEN.rename(release="block")), r"rename it, release.rename\(block="),
    (lambda: adv.Adversary().posterior(ONE, SEEN.expand_dims(day=2)), r"take one of it, release.isel\(day=0\)"),
    (lambda: adv.observed({"district": 3}), r"release must be a Dataset, as plan.observe\(", TypeError),
    (lambda: adv.enumerate_posterior(PLAN, {}), "model must be a pymc.Model, .* got Plan", TypeError),
    (lambda: models.hierarchical_counts(WHO, PLAN), "plan must be a Plan, and the adversary comes after", TypeError),
    (lambda: models.fit(PLAN, 3), r"observed must be a mapping such as \{'noisy': 3\}, got 3", TypeError),
    (lambda: models.fit(PLAN, {}), r"observed must name the release, such as \{'noisy': 3\}, got none"),
    (lambda: adv.budget.split_rho(PEOPLE, ["district"], PROFILE), "tables must be a mapping such as", TypeError),
    (lambda: adv.zCDP(1.0), "adversary has no zCDP; did you mean 'ZeroConcentratedDP'", AttributeError),
)  # fmt: skip


def test_options_in_an_error_are_said_where_python_has_them() -> None:
    with pytest.raises(ValueError, match="--leave-out n") as caught:
        adv.audit_tables(PEOPLE.assign(n=[3, -1, 5, 1]), TABLES)
    assert "adversary.driver.columns.population(data, tables, ...)" in caught.value.__notes__[0]


def test_a_prior_that_nothing_moves_is_said() -> None:
    for prior in (0.0, 1.0):
        tree = adv.audit(ONE, adv.Adversary(prior, known=11), {"district": 12})
        assert "No release moves a prior of" in tree.attrs["warnings"]


def test_one_level_or_table_needs_no_list() -> None:
    assert adv.Plan(adv.Level("district", NOISE)).names == ("district",)
    assert len(adv.audit_tables(PEOPLE, TABLES[0])) == 4
