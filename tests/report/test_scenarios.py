"""Scenario files: what is shipped reads as meant; what is wrong is refused in words, with nothing written."""

import re
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import adversary as adv
from adversary.report.files import parse_table
from tests import commands
from tests.catalogue import GUARANTEES
from tests.commands import run
from tests.tables import DATA

GOOD = """
title = "two levels"
neighbours = "unbounded"
failure = 0.05

[plan]
cells = 1
[[plan.level]]
name = "block"
rho = "1/10"
siblings = 3
[[plan.level]]
name = "tract"
rho = 0.2

[truth]
block = 1
tract = 4

[adversary]
prior = "1/2"
known = 0
[adversary.beliefs]
tract = "uniform"

[guarantee]
zCDP = "sum of levels"
"""

# what is wrong -> (text to find, text in its place, words the message must hold)
BAD = {
    "prior above one": ('prior = "1/2"', "prior = 1.5", ["adversary", "prior", "[0, 1]", "1.5"]),
    "prior of the wrong type": ('prior = "1/2"', "prior = true", ["adversary.prior", "number", "true"]),
    "prior that is no fraction": ('prior = "1/2"', 'prior = "one half"', ["adversary.prior", "fraction", "one half"]),
    "division by zero": ('prior = "1/2"', 'prior = "1/0"', ["adversary.prior", "fraction", "1/0"]),
    "missing prior": ('prior = "1/2"\n', "", ["adversary.prior", "required", 'prior = "1/2"']),
    "fractional known": ("known = 0", "known = 0.5", ["adversary.known", "whole number", "0.5"]),
    "fractional count": ("tract = 4", "tract = 4.5", ["truth.tract", "whole number", "4.5"]),
    "negative count": ("block = 1", "block = -1", ["truth", "block", "at least 0", "-1"]),
    "zero rho": ("rho = 0.2", "rho = 0", ["plan.level[2]", "rho", "positive", "0"]),
    "infinite rho": ("rho = 0.2", "rho = inf", ["plan.level[2]", "rho", "finite", "inf"]),
    "two parameters of one noise": ("rho = 0.2", "rho = 0.2\nsigma = 1", ["plan.level[2]", "rho", "sigma"]),
    "unknown noise": ("rho = 0.2", 'rho = 0.2\nnoise = "cauchy"', ["plan.level[2]", "noise", "cauchy"]),
    "unknown level in the truth": ("tract = 4", "tracct = 4", ["truth.tracct", "unknown key", "'tract'"]),
    "further level in the truth": ("tract = 4", "tract = 4\ncounty = 9", ["truth.county", "unknown key", "known here"]),
    "unknown level in the beliefs": ('tract = "uniform"', 'county = "uniform"', ["county", "block", "tract"]),
    "unknown statistic": ("cells = 1", 'cells = 1\npublished = "ratio"', ["plan.published", "'ratio'", "ratios"]),
    "ratios beside an exact count": (
        'cells = 1\n[[plan.level]]\nname = "block"\nrho = "1/10"',
        'published = "ratios"\n[[plan.level]]\nname = "block"\nnoise = "exact"',
        ["plan", "'ratios to known numbers'", "'block'"],
    ),
    "siblings missing": ("siblings = 3\n", "", ["block", "siblings is required", "0 if it holds the same people"]),
    "siblings at the top": ("rho = 0.2", "rho = 0.2\nsiblings = 1", ["tract", "top", "siblings"]),
    "upper belief missing": ('[adversary.beliefs]\ntract = "uniform"\n', "", ['tract = "uniform"', "lowest first"]),
    "truth outside the belief": ('"uniform"', "{ upper = 2 }", ["tract", "4", "outside the adversary's belief"]),
    "truth outside what is known": ("known = 0", "known = 2", ["block", "1", "2 others are known there"]),
    "tract smaller than its block": ("tract = 4", "tract = 0", ["tract", "cannot be smaller", "0 < 1"]),
    "belief without mass": ('"uniform"', "{ probabilities = [0.0, 0.0] }", ["beliefs.tract", "mass"]),
    "belief that does not add up": ('"uniform"', "{ probabilities = [0.5, 0.2] }", ["beliefs.tract", "sum to one"]),
    "belief with negative mass": ('"uniform"', "{ probabilities = [1.5, -0.5] }", ["beliefs.tract", "non-negative"]),
    "unknown law": ('"uniform"', '{ law = "norm" }', ["beliefs.tract", "law", "norm", "poisson"]),
    "law of something negative": ('"uniform"', '{ law = "randint", low = -5, high = 5 }', ["beliefs.tract", "count"]),
    "unknown parameter of a law": ('"uniform"', '{ law = "poisson", lam = 2 }', ["beliefs.tract", "lam"]),
    "belief of the wrong type": ('"uniform"', "7", ["beliefs.tract", "table", "7"]),
    "misspelt belief": ('"uniform"', '"uniformm"', ["beliefs.tract", "uniform", "uniformm"]),
    "known missing": ("known = 0\n", "", ["adversary.known", "required", "how many others", "known = 0"]),
    "no base": ("rho = 0.2", 'noise = "random rounding"', ["plan.level[2]", "takes base"]),
    "half a base": ("rho = 0.2", 'noise = "random rounding"\nbase = 2.5', ["base", "whole number", "2.5"]),
    "no threshold": ("rho = 0.2", 'rho = 0.2\nsuppress = "few"', ["suppress", "such as 5", "few"]),
    "clamped counts with siblings": (
        "siblings = 3\n", "siblings = 3\nclamp = 0\n", ["plan.level[1].siblings", "{ each = ... }"],
    ),
    "unknown key": ("known = 0", "knwon = 0", ["adversary.knwon", "unknown key", "did you mean 'known'"]),
    "unknown key at the top": ('title = "two levels"', 'titel = "x"', ["titel", "unknown key", "did you mean 'title'"]),
    "unknown definition": ("zCDP =", "zcdp =", ["guarantee.zcdp", "unknown key", "did you mean 'zCDP'"]),
    "title of the wrong type": ('title = "two levels"', "title = 3", ["title", "text", "3"]),
    "neighbours nobody knows": ('"unbounded"', '"close"', ["neighbours", "bounded", "close"]),
    "missing neighbours": ('neighbours = "unbounded"\n', "", ["neighbours", "required", "a record is added"]),
    "three cells": ("cells = 1", "cells = 3", ["cells", "1 or 2", "3"]),
    "delta missing": (
        'zCDP = "sum of levels"', '"approximate DP" = { epsilon = 1 }', ["guarantee.approximate DP.delta", "required"],
    ),
    "percentage as a prior": ('prior = "1/2"', "prior = 50", ["adversary", "prior", "50% is 0.5"]),
    "percentage in words": ('prior = "1/2"', 'prior = "50%"', ["adversary.prior", "write 50% as 0.5"]),
    "epsilon of the default noise": (
        "rho = 0.2", "epsilon = 1", ["takes one of rho, sigma, got epsilon", 'noise = "geometric"'],
    ),
    "noise written otherwise": (
        "rho = 0.2", 'rho = 0.2\nnoise = "discrete_gaussian"', ["did you mean 'discrete gaussian'?"],
    ),
    "levels from the top": (
        'name = "block"\nrho = "1/10"\nsiblings = 3\n[[plan.level]]\nname = "tract"\nrho = 0.2',
        'name = "tract"\nrho = 0.2\n[[plan.level]]\nname = "block"\nrho = "1/10"\nsiblings = 3',
        ["level 'tract'", "lowest first"],
    ),
    "guarantee without a definition": (
        'zCDP = "sum of levels"', "epsilon = 1", ["guarantee.epsilon", 'write "pure DP" = 1.0'],
    ),
    "guarantee without its delta": (
        'zCDP = "sum of levels"', '"approximate DP" = 1', ["such as { epsilon = 1.0, delta = 1e-6 }, got 1"],
    ),
    "no truth": ("[truth]\nblock = 1\ntract = 4\n", "", ["[truth]", "the true counts"]),
    "level without a true count": ("tract = 4\n", "", ["truth.tract", "required"]),
    "belief of a file that is not there": (
        '"uniform"', '{ counts = "2010.csv", column = "renters" }', ["tract.counts", "CSV file", "2010.csv"],
    ),
    "one bracket for a level": ("[[plan.level]]", "[plan.level]", ["not a TOML file", "two brackets"]),
    "word without quotes": ('tract = "uniform"', "tract = uniform", ["line 24", "'tract = uniform'", "double quotes"]),
    "decimal comma": ("rho = 0.2", "rho = 0,2", ["line 14", "'rho = 0,2'", "a point"]),
    "malformed TOML": ("[plan]", "[plan", ["not a TOML file", "line 6", "'[plan'"]),
}  # fmt: skip
scenario_file = partial(commands.written, "scenario.toml")


def test_siblings_that_are_read_one_by_one_need_true_counts(tmp_path: Path) -> None:
    text = GOOD.replace("siblings = 3", "siblings = 3\nclamp = 0").replace('"uniform"', '{ each = "uniform" }')
    with pytest.raises(ValueError, match=r"truth\.siblings"):
        adv.load_scenario(scenario_file(tmp_path, text))


@pytest.mark.parametrize("name", [name for name, one in GUARANTEES.items() if one.kind])
def test_every_definition_with_a_kind_is_read_as_it_is(name: str, tmp_path: Path) -> None:
    one = GUARANTEES[name]
    several = ", ".join(f"{key} = {float(x)!r}" for key, x in one.parameters.items())
    written = f"{{ {several} }}" if len(one.parameters) > 1 else several.partition(" = ")[2]
    text = f'{GOOD.partition("[guarantee]")[0]}\n[guarantee]\n"{one.kind}" = {written}\n'
    assert adv.load_scenario(scenario_file(tmp_path, text)).guarantee == {one.kind: one}


def check_refusal(path: Path, text: str, expected: list[str], *commands: str) -> None:
    """A file is refused in one line that names it once and says all this; commands say the same and write nothing."""
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: ") as caught:
        adv.load_scenario(path)
    message = str(caught.value)
    assert message.count(str(path)) == 1, f"the file is named more than once: {message}"
    for part in expected:
        assert part in message
    for command in commands:
        result = run(command, str(path), "--out", str(path.parent / "out"))
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"error: {' '.join(message.split())}\n"
    assert sorted(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_written(what: str, tmp_path: Path) -> None:
    old, new, expected = BAD[what]
    assert GOOD.count(old) >= 1
    check_refusal(tmp_path / "scenario.toml", GOOD.replace(old, new, 1), expected, "audit")


def test_a_good_file_reads_as_meant(tmp_path: Path) -> None:
    scenario = adv.load_scenario(scenario_file(tmp_path, GOOD))
    assert scenario.title == "two levels"
    assert scenario.neighbours == "unbounded"
    assert scenario.plan.names == ("block", "tract")
    assert scenario.plan.levels[0].siblings == 3
    assert scenario.plan.levels[0].mechanism == adv.DiscreteGaussian.from_rho(Fraction(1, 10))
    assert isinstance(scenario.adversary, adv.Adversary)
    assert scenario.adversary.prior == 0.5
    assert scenario.adversary.beliefs["tract"] == adv.Uniform()
    assert scenario.truth == {"block": 1, "tract": 4}
    assert scenario.guarantee is not None
    assert scenario.guarantee["zCDP"].rho == pytest.approx(0.3, abs=1e-15)  # type: ignore[attr-defined]


def test_a_product_of_fractions_is_kept_exact() -> None:
    plan = adv.load_scenario(DATA / "granville_1940.toml").plan
    for level in plan.levels:
        assert level.mechanism == adv.DiscreteGaussian.from_rho(adv.census.DETAILED_RHO[level.name])


def test_every_shipped_scenario_can_be_read() -> None:
    for path in sorted(DATA.glob("*.toml")):
        if "[plan]" not in path.read_text(encoding="utf-8"):  # a profile, or a guarantee alone
            continue
        scenario = adv.load_scenario(path)
        assert scenario.title
        assert scenario.source
        assert scenario.guarantee


def test_bounded_neighbours_double_the_variance_and_keep_the_promise() -> None:
    one, two = adv.load_scenario(DATA / "dare_1940.toml"), adv.load_scenario(DATA / "dare_1940_bounded.toml")
    assert (two.neighbours, two.plan.cells) == ("bounded", 2)
    assert two.plan.levels[0].mechanism.sigma2 == 2 * one.plan.levels[0].mechanism.sigma2  # type: ignore[attr-defined]
    assert one.guarantee is not None
    assert two.guarantee is not None
    assert two.guarantee["zCDP"].rho == pytest.approx(one.guarantee["zCDP"].rho)  # type: ignore[attr-defined]
    assert one.with_neighbours("bounded", cells=2).plan == two.plan
    assert two.with_neighbours("unbounded", cells=1).plan == one.plan


def test_a_truth_can_be_replaced_and_is_checked_as_in_a_file(tmp_path: Path) -> None:
    scenario = adv.load_scenario(scenario_file(tmp_path, GOOD))
    assert scenario.with_truth({"tract": 9}).truth == {"block": 1, "tract": 9}
    assert scenario.truth == {"block": 1, "tract": 4}
    with pytest.raises(ValueError, match="unknown key, got 'trakt'; did you mean 'tract'"):
        scenario.with_truth({"trakt": 9})
    with pytest.raises(ValueError, match="outside the adversary's belief"):
        scenario.with_truth({"block": 2})


def test_several_readers_and_truths_are_mappings_of_names(tmp_path: Path) -> None:
    text = GOOD.replace("[adversary]", "[adversaries.a]").replace("[adversary.beliefs]", "[adversaries.a.beliefs]")
    text = text.replace("[truth]", "[truths.here]") + "\n[truths.there]\nblock = 0\ntract = 6\n"
    scenario = adv.load_scenario(scenario_file(tmp_path, text))
    assert isinstance(scenario.adversary, dict)
    assert list(scenario.adversary) == ["a"]
    assert scenario.truth["there"] == {"block": 0, "tract": 6}
    assert scenario.with_truth({"tract": 8}).truth["here"] == {"block": 1, "tract": 8}


def test_a_table_and_its_plural_exclude_each_other(tmp_path: Path) -> None:
    without = GOOD.replace("[truth]\nblock = 1\ntract = 4\n", "")
    for text, word in ((GOOD + "\n[adversaries.a]\nprior = 0.1\n", "both are"), (without, "neither is")):
        with pytest.raises(ValueError, match=word):
            adv.load_scenario(scenario_file(tmp_path, text))


def test_a_file_that_cannot_be_read_is_an_os_error(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.toml", tmp_path):
        with pytest.raises(OSError, match=r".+"):
            adv.load_scenario(path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a TOML file"):
        adv.load_scenario(path)


def test_a_scenario_is_a_value() -> None:
    scenario = adv.load_scenario(DATA / "dare_1940.toml")
    assert replace(scenario, title="x").plan is scenario.plan


def test_noise_of_statistical_offices_is_read_from_files(tmp_path: Path) -> None:
    """A table from its CSV file, random rounding by its base, suppression after all else; mistakes name their line."""
    table = tmp_path / "ptable.csv"
    table.write_text("count,release,probability\n0,0,1\n1,0,0.5\n1,2,0.5\n")
    noise = 'noise = "perturbation table"\ntable = "ptable.csv"\nsiblings = 0'
    text = GOOD.replace('rho = "1/10"\nsiblings = 3', noise).replace("rho = 0.2", 'noise = "random rounding"\nbase = 3')
    text = (
        text.replace("tract = 4", "tract = 1")
        .replace('tract = "uniform"\n', "")
        .replace("base = 3", "base = 3\nsuppress = 4")
    )
    file = tmp_path / "a.toml"
    file.write_text(text.split("[guarantee]")[0])
    lowest, highest = adv.load_scenario(file).plan.levels
    assert lowest.mechanism == adv.PerturbationTable([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]], lowest=-1)
    assert highest.mechanism == adv.postprocessing.suppressed(adv.RandomRounding(3), below=4)
    answer = run("audit", str(file), "--full")
    assert (answer.exit_code, "suppressed" in answer.stdout) == (0, True)
    for wrong, words in (("1,2,half", ["line 4", "probability", "half"]), ("1,2,0.4", ["add up to 1", "count 1"])):
        table.write_text("count,release,probability\n0,0,1\n1,0,0.5\n" + wrong + "\n")
        answer = run("audit", str(file))
        assert answer.exit_code == 2
        assert all(word in answer.stderr for word in words), answer.stderr


def test_a_range_of_counts_is_suppressed_and_zero_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(GOOD.replace("rho = 0.2", "rho = 0.2\nsuppress = [1, 7]"))
    noise = adv.load_scenario(file).plan.levels[-1].mechanism
    assert isinstance(noise, adv.postprocessing.Suppressed)
    assert (noise.least, noise.below) == (1, 8)
    file.write_text(GOOD.replace("rho = 0.2", "rho = 0.2\nsuppress = [1, 4, 7]"))
    answer = run("audit", str(file))
    assert (answer.exit_code, "[first, last]" in answer.stderr) == (2, True)


def test_a_threshold_of_a_key_is_read_from_files(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(GOOD.split("[guarantee]")[0].replace("rho = 0.2", 'rho = 0.2\nthreshold = 5\npasses = ">"'))
    noise = adv.load_scenario(file).plan.levels[-1].mechanism
    assert isinstance(noise, adv.postprocessing.Selected)
    assert noise.below == 6
    for text, words in (
        ('passes = ">"', ["needs threshold"]),
        ("threshold = 5\nsuppress = 3", ["suppress", "threshold"]),
        ("threshold = 10000000", ["threshold", "10,000"]),
    ):
        file.write_text(GOOD.replace("rho = 0.2", f"rho = 0.2\n{text}"))
        answer = run("audit", str(file))
        assert answer.exit_code == 2
        assert all(word in answer.stderr for word in words), answer.stderr


def test_noise_within_a_range_is_read_from_files(tmp_path: Path) -> None:
    """A score of 0 to 4; what says how noise stays within nothing is refused."""
    file = tmp_path / "a.toml"
    text = (
        'title = "score"\n[privacy_unit]\ncontribution = 1\nneighbours = "bounded"\n[[plan.level]]\nname = "score"\n'
        'noise = "geometric"\nepsilon = 1.0\nlargest = 4\nends = "reflected"\nlocal = true\n[truth]\nscore = 4\n'
        "[adversary]\nprior = 0.5\nknown = 0\nhypotheses = [3, 4]\n"
    )
    file.write_text(text)
    noise = adv.load_scenario(file).plan.levels[0].mechanism
    assert noise == adv.PerturbationTable.on_range(adv.Geometric(1.0), 4, "reflected", local=True)
    file.write_text(text.replace("geometric", "laplace"))
    noise = adv.load_scenario(file).plan.levels[0].mechanism
    assert noise == adv.RangedNoise(adv.Laplace(1.0), 4, "reflected", local=True)
    for old, new, words in (
        ("largest = 4\n", "", ["needs largest", "reflected"]),
        ("largest = 4", "largest = 4000", ["plan.level[1]", "largest", "1,000", "4,000"]),
        ('"geometric"\nepsilon', '"staircase"\nepsilon', ["Laplace or Gaussian noise", "Staircase"]),
    ):
        file.write_text(text.replace(old, new))
        answer = run("audit", str(file))
        assert answer.exit_code == 2
        assert all(word in answer.stderr for word in words), answer.stderr


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("transitions", "i,0,1,2\n0,1,0,0\n1,0.5,0,0.5\n"),
        ("transitions", "count,2,1,0\n1,0.5,0,0.5\n0,0,0,1\n"),
        ("table", "i,j,p,v,p_int_lb,p_int_ub,type\n0,0,1,0,0,1,all\n1,0,0.5,-1,0,0.5,all\n1,2,0.5,1,0.5,1,all\n"),
    ],
)
def test_tables_of_the_package_ptable_are_read_from_files(tmp_path: Path, key: str, text: str) -> None:
    """Its wide format, whose columns are published counts, and its long one."""
    (tmp_path / "ptable.csv").write_text(text)
    law, file = f'noise = "perturbation table"\n{key} = "ptable.csv"\nsiblings = 0', tmp_path / "a.toml"
    text = GOOD.replace('rho = "1/10"\nsiblings = 3', law).replace('tract = "uniform"\n', "")
    file.write_text(text.replace("tract = 4", "tract = 1").split("[guarantee]")[0])
    noise = adv.load_scenario(file).plan.levels[0].mechanism
    np.testing.assert_allclose(np.exp(noise.log_prob([[0, 1, 2], [6, 7, 8]], [[1], [7]])), [[0.5, 0.0, 0.5]] * 2)


def _office(pcv: int) -> int:
    """Perturbation of a made-up table: below 10 to 0, above to the nearest multiple of 5."""
    return -pcv if pcv < 10 else 5 * round(pcv / 5) - pcv


def _cell_keys(last: int = 750, keys: int = 4) -> str:
    """A p-table of the ONS in which every fourth key leaves a count as it is."""
    rows = [(n, key, _office(n) if key else 0) for n in range(1, last + 1) for key in range(keys)]
    return '"pcv","ckey","pvalue"\n' + "".join(f"{a},{b},{c}\n" for a, b, c in rows)


PTABLE = "i;j;p;v;p_int_ub\n0;0;1.00000000; 0;1.0\n1;0;0.40000000;-1;0.4\n1;1;0.2; 0;0.6\n1;2;0.4; 1;1.0\n"
"""As `pt_export` writes it for tau-ARGUS."""


@pytest.mark.parametrize(
    ("text", "layout", "laws"),
    [
        (_cell_keys(), "pcv, ckey, pvalue of the ONS: 4 keys, each as likely",
         {0: {0: 1.0}, 7: {0: 0.75, 7: 0.25}, 12: {10: 0.75, 12: 0.25}, 750: {750: 1.0}, 751: {750: 0.75, 751: 0.25},
          1003: {1003: 0.25, 1005: 0.75}}),
        (PTABLE, "i, j, p of ptable", {0: {0: 1.0}, 1: {0: 0.4, 1: 0.2, 2: 0.4}, 9: {8: 0.4, 9: 0.2, 10: 0.4}}),
        (PTABLE.replace("1;0;0.40000000;-1;0.4", "1;0;0.1;-1;0.1\n1;0;0.3;-1;0.4"), "i, j, p of ptable",
         {1: {0: 0.4, 1: 0.2, 2: 0.4}}),
        ("i,0,1,2\n0,1,0,0\n1,0.4,0.2,0.4\n", "a matrix, a column for each published count",
         {0: {0: 1.0}, 1: {0: 0.4, 1: 0.2, 2: 0.4}, 9: {8: 0.4, 9: 0.2, 10: 0.4}}),
        ("-1,0,1\n0,1,0\n0.4,0.2,0.4\n", "a matrix, a column for each perturbation",
         {0: {0: 1.0}, 1: {0: 0.4, 1: 0.2, 2: 0.4}}),
        ('"count";"0";"1"\n0;1;0\n1;0,98;0,02\n2;0,97;0,03\n', "a matrix, a column for each perturbation",
         {2: {2: 0.97, 3: 0.03}}),
    ],
    ids=["cell keys", "tau-ARGUS", "intervals in parts", "transitions", "perturbations", "perturbations from 0"],
)  # fmt: skip
def test_a_perturbation_table_is_read_as_the_office_wrote_it(
    text: str, layout: str, laws: dict[int, dict[int, float]], tmp_path: Path
) -> None:
    (tmp_path / "keys.csv").write_text(text)
    noise = adv.load_perturbation_table(tmp_path / "keys.csv")
    assert noise.describe().endswith(f"; read as {layout}")
    for count, law in laws.items():
        assert dict(zip(*(one.tolist() for one in noise.releases(count)), strict=True)) == pytest.approx(law)
    assert parse_table("a: b, cell key keys.csv", tmp_path).noise == noise


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_cell_keys(38), "column 'pcv': must have every count from 1 to 750, .*none of 39 .*give the whole file"),
        (_cell_keys().replace("\n3,1,", "\n3,0,"), "column 'ckey': must have each key of a count once, got 0 of pcv 3"),
        (_cell_keys().replace("\n3,1,-3", "\n3,1.5,-3"), "line 11: column 'ckey': must be a whole number from 0 on"),
        (
            PTABLE.replace("1; 0;0.6", "1; 0;0.6").replace("1;2;0.4; 1", "1;2;0.4; 2"),
            "line 5: column 'v': must be j - i",
        ),
        ("i,j,p,type\n0,0,1,all\n1,0,1,even\n", "line 3: column 'type': must be 'all', .* magnitudes"),
        ("i,j,prob\n0,0,1\n", "columns must be count, release, probability; .* got 'j' among i, j, prob"),
        ("0,1,2\n1,0,0\n1,0,0\n0.2,0.3,0.5\n", "may be published counts or perturbations: .* write transitions"),
    ],
)
def test_what_is_no_perturbation_table_is_refused_with_the_remedy(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "keys.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"keys\.csv: .*{words}"):
        adv.load_perturbation_table(tmp_path / "keys.csv")


def test_the_parameters_of_a_perturbation_table_are_keys_of_a_level(tmp_path: Path) -> None:
    file, law = tmp_path / "a.toml", 'noise = "perturbation table"\nV = 1.05\nD = 2\njs = 1\nsiblings = 0'
    text = GOOD.replace('rho = "1/10"\nsiblings = 3', law).replace('tract = "uniform"\n', "")
    file.write_text(text.replace("tract = 4", "tract = 1").split("[guarantee]")[0])
    wanted = adv.PerturbationTable.from_parameters(D=2, V=1.05, js=1)
    assert adv.load_scenario(file).plan.levels[0].mechanism == wanted
    assert parse_table("a: b, cell key V 1.05 D 2 js 1").noise == wanted
    given = file.read_text()
    for old, new, words in (
        ("D = 2\n", "", "D, the largest perturbation, must be given beside V"),
        ("V = 1.05", "V = 8", "V must be from 1 to 2, got 8: the perturbations of count 1 (D = 2, js = 1)"),
        ("js = 1", "closed = true", "closed must be left out of a table by D, V and js"),
    ):
        file.write_text(given.replace(old, new))
        with pytest.raises(ValueError, match=r"plan\.level\[1\]") as error:
            adv.load_scenario(file)
        assert words in str(error.value)


def test_a_table_that_is_no_matrix_of_transitions_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(GOOD.replace('rho = "1/10"', 'noise = "perturbation table"\ntransitions = "ptable.csv"'))
    for text, words in (
        ("i,0,0\n0,1,0\n", ["different names"]),
        ("i,0,x\n0,1,0\n", ["whole numbers", "x"]),
        ("i,0,1\n0,1,half\n", ["line 2", "'1'", "half"]),
        ("i,-1,0,1\n0,0,1,0\n1,0.5,0,0.5\n", ["column '-1'", "must be at least 0", "write table"]),
        ("i,0,1\n0,1,0\n2,0,1\n", ["missing [1]"]),
    ):
        (tmp_path / "ptable.csv").write_text(text)
        answer = run("audit", str(file))
        assert answer.exit_code == 2
        assert all(word in answer.stderr for word in ["ptable.csv", *words]), answer.stderr
