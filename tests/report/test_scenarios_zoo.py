"""Scenario files of the adversary zoo: attacks, unknown people, beliefs, post-processing, sequences and ranges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.adversaries.beliefs.each import Each
from adversary.adversaries.beliefs.unknown_rate import BetaBinomial, GammaPoisson
from adversary.adversaries.path import attacks
from adversary.adversaries.postprocessing.coarsening import Clamped, Rounded
from adversary.adversaries.postprocessing.nonnegative import NonNegative
from adversary.adversaries.postprocessing.sibling_adjustment import LeastSquares
from adversary.report.files.scenario import Scenario
from tests.report import test_scenarios

GOOD = (
    test_scenarios.GOOD
    + """
[sensitivity]
prior = [0.1, "1/2"]
rho = [0.1, 1]
siblings = [1, 3]
[sensitivity.beliefs.sure]
tract = { total = 9 }
"""
)


def changed(*changes: tuple[str, str]) -> str:
    text = GOOD
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def read(folder: Path, *changes: tuple[str, str]) -> Scenario:
    return adv.load_scenario(test_scenarios.scenario_file(folder, changed(*changes)))


def single(scenario: Scenario) -> adv.Adversary:
    assert isinstance(scenario.adversary, adv.Adversary)
    return scenario.adversary


BELIEFS: dict[str, tuple[str, Any]] = {
    "each sibling flat": ('{ each = "uniform" }', Each()),
    "each sibling a law": ('{ each = { law = "poisson", mu = 2 } }', None),
    "each sibling a pmf": ("{ each = [0.5, 0.3, 0.2] }", None),
    "unknown rate": (
        '{ law = "gamma poisson", shape = 3, rate = 1, exposure = 27 }', GammaPoisson(3, 1, 27),
    ),
    "unknown rate, one unit": ('{ law = "gamma poisson", shape = "5/2", rate = 1 }', GammaPoisson(2.5, 1)),
    "unknown chance": ('{ law = "beta binomial", n = 40, alpha = 1, beta = 9 }', BetaBinomial(40, 1, 9)),
}  # fmt: skip


@pytest.mark.parametrize("what", BELIEFS)
def test_beliefs_about_each_sibling_and_unknown_rates_are_read(what: str, tmp_path: Path) -> None:
    written, expected = BELIEFS[what]
    belief = single(read(tmp_path, ('"uniform"', written))).beliefs["tract"]
    if expected is None:
        from scipy.stats import poisson

        law = [0.5, 0.3, 0.2] if "pmf" in what else poisson(2)
        expected = Each(law)
    totals, inside = np.arange(1, 30), np.ones(29)
    assert type(belief) is type(expected)
    if isinstance(expected, Each):
        belief, expected = belief.with_count(3), expected.with_count(3)
    np.testing.assert_allclose(belief.log_prob(totals, inside), expected.log_prob(totals, inside), atol=1e-12)


@pytest.mark.parametrize("attack", attacks.MEANINGS)
def test_attacks_are_read(attack: str, tmp_path: Path) -> None:
    assert single(read(tmp_path, ('prior = "1/2"', f'prior = "1/2"\nattack = "{attack}"'))).attack == attack


def test_people_unknown_to_the_reader_give_the_prior(tmp_path: Path) -> None:
    known, counted = ("block = 1", "block = 1\nin = 1"), 'prior = "1/2"'
    one = single(read(tmp_path, known, (counted, "unknown = { probabilities = [0.1, 0.2, 0.3, 0.4] }")))
    assert one.prior == pytest.approx((0.2 + 0.6 + 1.2) / 3)
    other = single(read(tmp_path, known, (counted, "unknown = { n = 3, chance = 0.25 }")))
    by_hand = attacks.all_but([27 / 64, 27 / 64, 9 / 64, 1 / 64], level="block")
    assert other.prior == pytest.approx(by_hand.prior)
    counts, inside = np.arange(4)[:, None], np.arange(2)
    np.testing.assert_allclose(
        np.exp(other.beliefs["block"].log_prob(counts, inside)),
        np.exp(by_hand.beliefs["block"].log_prob(counts, inside)),
        atol=1e-15,
    )


def test_numbers_are_clamped_then_rounded(tmp_path: Path) -> None:
    rho, noise = "rho = 0.2", adv.DiscreteGaussian.from_rho(0.2)
    cases: dict[str, Any] = {
        "clamp = 0": Clamped(noise, 0),
        "clamp = [0, 10]": Clamped(noise, 0, 10),
        "round = 5": Rounded(noise, 5),
        'round = 5\nties = "half_up"\nclamp = 0': Rounded(Clamped(noise, 0), 5, "half_up"),
    }
    for written, expected in cases.items():
        assert read(tmp_path, (rho, f"{rho}\n{written}")).plan.levels[1].mechanism == expected


def test_children_are_fitted_to_their_parent(tmp_path: Path) -> None:
    start = ("[truth]", '[plan.postprocessing]\nkind = "least squares"\n{}\n[truth]')
    plan = read(tmp_path, (start[0], start[1].format('rounding = "half_up"'))).plan
    assert plan.postprocessing == LeastSquares("half_up")
    plan = read(tmp_path, (start[0], start[1].format('own_weight = 2\nsibling_weight = "1/3"'))).plan
    assert plan.postprocessing == LeastSquares(own_weight=2, sibling_weight=1 / 3)
    nearest = start[1].replace("least squares", "nonnegative").format("")
    assert read(tmp_path, ("siblings = 3", "siblings = 2"), (start[0], nearest)).plan.postprocessing == NonNegative()


def test_a_level_published_again_is_more_levels_of_the_same_people(tmp_path: Path) -> None:
    scenario = read(tmp_path, ("siblings = 3", "siblings = 3\nreleases = 3"), ("rho = 0.2", "rho = 0.2\nreleases = 2"))
    names = ("block", "block, release 2", "block, release 3", "tract", "tract, release 2")
    assert scenario.plan.names == names
    assert [level.siblings for level in scenario.plan.levels] == [0, 0, 3, 0, None]
    assert scenario.truth == dict(zip(names, (1, 1, 1, 4, 4), strict=True))
    assert scenario.sequences == {"block": 3, "tract": 2}
    assert [scenario.origins[name] for name in names] == ["block"] * 3 + ["tract"] * 2
    assert scenario.with_truth({"tract": 7}).truth["tract, release 2"] == 7
    guarantee = read(tmp_path, ("rho = 0.2", "rho = 0.2\nreleases = 4")).plan
    assert sum(level.mechanism.rho() for level in guarantee.levels) == pytest.approx(0.1 + 4 * 0.2)


def test_siblings_may_be_told_one_by_one(tmp_path: Path) -> None:
    siblings = ("[adversary]", "[truth.siblings]\nblock = [0, 1, 2]\n[adversary]")
    scenario = read(tmp_path, siblings, ("siblings = [1, 3]\n", ""), ('"uniform"', '{ each = "uniform" }'))
    assert scenario.truth["siblings"] == {"block": [0, 1, 2]}
    assert "siblings" in scenario.plan.release(scenario.truth, 1)
    twice = read(tmp_path, siblings, ("siblings = [1, 3]\n", ""), ("siblings = 3", "siblings = 3\nreleases = 2"))
    assert twice.truth["siblings"] == {"block, release 2": [0, 1, 2]}


def test_what_to_go_over_is_read(tmp_path: Path) -> None:
    ranges = read(tmp_path).sensitivity
    assert ranges is not None
    assert ranges.prior == (0.1, 0.5)
    assert ranges.rho == (0.1, 1.0)
    assert ranges.siblings == (1, 3)
    assert ranges.beliefs["sure"]["tract"] == adv.Point(9)
    by_level = read(
        tmp_path, ("siblings = [1, 3]\n", ""), ("[sensitivity.", "[sensitivity.siblings]\nblock = [2]\n[sensitivity.")
    )
    assert by_level.sensitivity is not None
    assert by_level.sensitivity.given["siblings"] == {"block": (2,)}
    assert adv.load_scenario(Path(__file__).parents[2] / "data" / "dare_1940.toml").sensitivity is None


def test_other_neighbours_are_read_where_they_make_sense(tmp_path: Path) -> None:
    scenario = read(tmp_path, ("rho = 0.2", "rho = 0.2\nclamp = 0\nreleases = 2"))
    other = scenario.with_neighbours("bounded")
    assert other.plan.levels[1].mechanism == Clamped(adv.DiscreteGaussian.from_rho(0.2, cells=2))
    joined = read(tmp_path, ('prior = "1/2"', 'prior = "1/2"\nattack = "participation"'))
    with pytest.raises(ValueError, match="participation attack needs a plan of one cell, got 2"):
        joined.with_neighbours("bounded", 2)


FIT = '[plan.postprocessing]\nkind = "least squares"\n[truth]'
BAD: dict[str, tuple[list[tuple[str, str]], list[str]]] = {
    "unknown attack": ([('"1/2"', '"1/2"\nattack = "theft"')], ["adversary.attack", "one of", "theft"]),
    "misspelt attack key": ([('"1/2"', '"1/2"\natack = "misreport"')], ["did you mean 'attack'"]),
    "prior beside unknown people": (
        [('"1/2"', '"1/2"\nunknown = { n = 2, chance = 0.5 }')], ["adversary.prior", "left out", "follows"],
    ),
    "unknown people twice": (
        [('prior = "1/2"', "unknown = { n = 2, chance = 0.5, probabilities = [1] }")], ["adversary.unknown", "either"],
    ),
    "unknown people without a chance": (
        [('prior = "1/2"', "unknown = { n = 2 }")], ["adversary.unknown.chance", "required"],
    ),
    "probabilities that do not add up": (
        [('prior = "1/2"', "unknown = { probabilities = [0.5, 0.2] }")], ["adversary.unknown", "sum to one"],
    ),
    "unknown people and an attack": (
        [('prior = "1/2"', 'attack = "misreport"\nunknown = { n = 2, chance = 0.5 }')],
        ["adversary.unknown", "misreport"],
    ),
    "a target the counts do not settle": (
        [('prior = "1/2"', "unknown = { n = 2, chance = 0.5 }")], ["truth", 'add "in" = 1 or 0'],
    ),
    "each of something": ([('"uniform"', '{ each = "flat" }')], ["beliefs.tract", "each must be", "flat"]),
    "each with a mixed belief": ([('"uniform"', '{ each = "uniform", upper = 3 }')], ["exactly one of", "each"]),
    "each that does not add up": ([('"uniform"', "{ each = [0.5, 0.2] }")], ["beliefs.tract", "sum to one"]),
    "unknown rate of zero": (
        [('"uniform"', '{ law = "gamma poisson", shape = 1, rate = 0 }')], ["beliefs.tract", "rate", "positive", "0"],
    ),
    "unknown parameter of a rate": (
        [('"uniform"', '{ law = "gamma poisson", shape = 1, scale = 2 }')], ["beliefs.tract.scale", "unknown key"],
    ),
    "half a person": (
        [('"uniform"', '{ law = "beta binomial", n = 2.5, alpha = 1, beta = 1 }')], ["beliefs.tract.n", "2.5"],
    ),
    "clamp upside down": ([("rho = 0.2", "rho = 0.2\nclamp = [5, 1]")], ["plan.level[2]", "lower", "5 > 1"]),
    "clamp of three": ([("rho = 0.2", "rho = 0.2\nclamp = [1, 2, 3]")], ["plan.level[2]", "clamp", "[1, 2, 3]"]),
    "rounding to nothing": ([("rho = 0.2", "rho = 0.2\nround = 0")], ["plan.level[2]", "base", "at least 1", "0"]),
    "ties of nothing": ([("rho = 0.2", 'rho = 0.2\nties = "half_up"')], ["plan.level[2]", "needs round"]),
    "unknown ties": ([("rho = 0.2", 'rho = 0.2\nround = 5\nties = "up"')], ["plan.level[2].ties", "half_even", "up"]),
    "no release": ([("rho = 0.2", "rho = 0.2\nreleases = 0")], ["plan.level[2]", "releases", "at least 1", "0"]),
    "unknown post-processing": (
        [("[truth]", FIT.replace("least squares", "raking"))], ["postprocessing.kind", "raking"],
    ),
    "post-processing of three levels": (
        [("[truth]", FIT), ("rho = 0.2", "rho = 0.2\nreleases = 2")], ["plan", "two levels"],
    ),
    "weights of a projection": (
        [("[truth]", FIT.replace('least squares"', 'nonnegative"\nown_weight = 2'))], ["own_weight", "unknown key"],
    ),
    "no weight": (
        [("[truth]", FIT.replace('squares"', 'squares"\nown_weight = 0'))], ["postprocessing", "own_weight", "0"],
    ),
    "siblings that do not add up": (
        [("[adversary]", "[truth.siblings]\nblock = [0, 1, 1]\n[adversary]")], ["truth.siblings", "add up"],
    ),
    "too few siblings": (
        [("[adversary]", "[truth.siblings]\nblock = [1, 2]\n[adversary]")], ["truth.siblings", "3 siblings"],
    ),
    "siblings at the top": (
        [("[adversary]", "[truth.siblings]\ntract = [4]\n[adversary]")], ["truth.siblings", "tract"],
    ),
    "sensitivity to nothing": (
        [(GOOD[GOOD.index("prior = [0.1"):], "")], ["sensitivity", "at least one of", "prior"],
    ),
    "prior given twice": (
        [("[0.1, \"1/2\"]", "[0.5, \"1/2\"]")], ["sensitivity.prior: values must differ, got 0.5 twice"],
    ),
    "budget given three times": (
        [("rho = [0.1, 1]", "rho = [1, 0.5, 0.5, 0.5]")], ["sensitivity.rho: values must differ, got 0.5 3 times"],
    ),
    "siblings given twice": (
        [("siblings = [1, 3]", "siblings = [3, 3]")], ["sensitivity.siblings: values must differ, got 3 twice"],
    ),
    "siblings of a level given twice": (
        [("siblings = [1, 3]\n", ""), ("[sensitivity.", "[sensitivity.siblings]\nblock = [2, 2]\n[sensitivity.")],
        ["sensitivity.siblings.block: values must differ, got 2 twice"],
    ),
    "prior of a range above one": ([("[0.1, \"1/2\"]", "[0.1, 2]")], ["sensitivity.prior", "[0, 1]", "2"]),
    "empty range": ([("rho = [0.1, 1]", "rho = []")], ["sensitivity.rho", "at least one number"]),
    "text in a range": ([("rho = [0.1, 1]", "rho = [true]")], ["sensitivity.rho", "numbers", "true"]),
    "siblings of a range below zero": ([("[1, 3]", "[1, -3]")], ["sensitivity.siblings", "at least 0", "-3"]),
    "belief of a range about nothing": (
        [("\ntract = { total", "\ncounty = { total")], ["sensitivity.beliefs.sure", "county"],
    ),
    "misspelt range": ([("rho = [0.1, 1]", "roh = [0.1]")], ["sensitivity.roh", "did you mean 'rho'"]),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_written(what: str, tmp_path: Path) -> None:
    changes, expected = BAD[what]
    test_scenarios.check_refusal(tmp_path / "scenario.toml", changed(*changes), expected, "audit", "sensitivity")
