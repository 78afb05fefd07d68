"""Equivalent attacks and readers who miss several people, against lists of every world."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import adversary as adv
from adversary.adversaries.path.attacks import (
    MEANINGS,
    all_but,
    characteristics,
    independent,
    misreport,
    one_of,
    participation,
    unknown_attribute,
)
from tests.catalogue import DG, RHO1
from tests.oracles import attacks, postprocessing

BLOCK = adv.Plan([adv.Level("block", DG(RHO1))])
NARROW = adv.Plan([adv.Level("block", DG(1.2))])
BOTH = adv.Plan([adv.Level("block", DG(1.2))], cells=2)
NOISE = postprocessing.discrete_gaussian(1.2, 7)
ATTACKS = {
    "characteristics": characteristics,
    "participation": participation,
    "misreport": misreport,
    "unknown attribute": unknown_attribute,
}
PMFS: dict[str, list[float]] = {
    "one person": [0.7, 0.3],
    "binomial": [float(p) for p in st.binom(3, 0.5).pmf(range(4))],
    "lumpy": [0.1, 0.0, 0.6, 0.05, 0.25],
    "nobody or everybody": [0.5, 0.0, 0.0, 0.5],
}


def posterior(reader: adv.Adversary, plan: adv.Plan, *noisy: Any) -> Any:
    return reader.posterior(plan, plan.observe({"block": noisy[0] if plan.cells == 1 else list(noisy)}))


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_on_one_cell_is_the_same_arithmetic(name: str) -> None:
    reader = ATTACKS[name](0.3, 2)
    assert reader.attack == name
    for noisy in (-1, 2, 3, 5):
        expected = attacks.posterior(attacks.one_record(0.3, [2], [NOISE]), (noisy,))
        assert float(posterior(reader, NARROW, noisy)["posterior"]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["misreport", "unknown attribute", "characteristics"])
def test_both_cells_equal_a_list_of_worlds(name: str) -> None:
    reader = ATTACKS[name](0.3, (2, 0))
    for noisy in ((3, 0), (2, 1), (1, -1)):
        expected = attacks.posterior(attacks.one_record(0.3, [2, 0], [NOISE]), noisy)
        assert float(posterior(reader, BOTH, *noisy)["posterior"]) == pytest.approx(expected, abs=1e-12)


def test_a_second_cell_that_says_the_same_doubles_the_log_bayes_factor() -> None:
    reader = misreport(0.5, (4, 4))
    one = float(posterior(misreport(0.5, 4), NARROW, 6)["log_odds"])
    assert float(posterior(reader, BOTH, 6, 3)["log_odds"]) == pytest.approx(2 * one, rel=1e-12)


def test_participation_is_about_one_cell() -> None:
    assert len(participation(0.5).level_beliefs(BLOCK)) == 1
    assert len(misreport(0.5).level_beliefs(BOTH)) == 1
    with pytest.raises(ValueError, match="did not respond is in no cell"):
        participation(0.5).level_beliefs(BOTH)


def test_every_attack_says_what_its_prior_is_about() -> None:
    assert set(MEANINGS) == set(ATTACKS)
    assert all(meaning.startswith("the target") for meaning in MEANINGS.values())


def test_three_unknown_people_with_a_binomial_prior() -> None:
    reader = all_but(st.binom(3, 0.5), level="block")
    result = posterior(reader, BLOCK, 2)
    pmf = result["count"].sel(level="block")
    assert pmf.sel(value=[0, 1, 2, 3]).values == pytest.approx([0.092178, 0.372417, 0.411266, 0.124139], abs=5e-7)
    assert float(result["posterior"]) == pytest.approx(float((pmf * pmf["value"]).sum()) / 3, abs=1e-14)


@pytest.mark.parametrize("name", PMFS)
@pytest.mark.parametrize("known", [0, 2])
def test_all_but_n_equals_a_list_of_worlds(name: str, known: int) -> None:
    pmf, reader = PMFS[name], all_but(PMFS[name], known, level="block")
    n = len(pmf) - 1
    assert reader.prior == pytest.approx(sum(k * p for k, p in enumerate(pmf)) / n, abs=1e-15)
    for noisy in (known - 1, known + 1, known + n):
        expected = attacks.posterior(attacks.missing_people(pmf, known, NOISE), (noisy,))
        result = posterior(reader, NARROW, noisy)
        assert float(result["posterior"]) == pytest.approx(expected, abs=1e-12)
        share = (result["count"].sel(level="block") * (result["value"] - known)).sum() / n
        assert float(share) == pytest.approx(expected, abs=1e-12)


def test_people_with_their_own_chances_equal_a_list_of_worlds() -> None:
    chances = [0.2, 0.9, 0.5]
    for target, noisy in [(0, 3), (1, 1), (2, 4)]:
        reader = one_of(chances, target, 1, level="block")
        expected = attacks.posterior(attacks.own_chances(chances, target, 1, NOISE), (noisy,))
        assert float(posterior(reader, NARROW, noisy)["posterior"]) == pytest.approx(expected, abs=1e-12)


def test_a_random_one_of_independent_people_averages_over_who_it_is() -> None:
    chances, release = [0.2, 0.9, 0.5], NARROW.observe({"block": 2})
    anyone = all_but(independent(chances), level="block").posterior(NARROW, release)
    named = [one_of(chances, i, level="block").posterior(NARROW, release) for i in range(3)]
    assert float(anyone["posterior"]) == pytest.approx(np.mean([float(one["posterior"]) for one in named]), abs=1e-12)
    np.testing.assert_allclose(independent([0.3] * 5), st.binom(5, 0.3).pmf(range(6)), rtol=1e-12)


def test_upper_levels_keep_their_beliefs() -> None:
    plan = adv.Plan([adv.Level("block", DG(1.2), siblings=1), adv.Level("tract", DG(1.2))])
    pmf = [0.2, 0.5, 0.3]
    reader = all_but(pmf, level="block", beliefs={"tract": [0.5, 0.25, 0.25]})
    flat = {(t, k): w for t, k, w in [(0, 0, 0.2), (0, 1, 0.25), (1, 1, 0.25), (1, 2, 0.3)]}
    masses = [0.0, 0.0]
    for (target, k), weight in flat.items():
        for other, chance in attacks.listed([0.5, 0.25, 0.25]).items():
            p = NOISE[1 - k] * NOISE[3 - k - other] * NOISE[2 - other]
            masses[target] += weight * chance * p
    release = plan.observe({"block": 1, "tract": 3}, sibling_sum={"block": 2})
    expected = masses[1] / sum(masses)
    assert float(reader.posterior(plan, release)["posterior"]) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("pmf", "prior"), [([1.0, 0.0, 0.0], 0.0), ([0.0, 0.0, 1.0], 1.0)])
def test_a_count_that_settles_the_target_is_a_certain_reader(pmf: list[float], prior: float) -> None:
    reader = all_but(pmf, level="block")
    assert reader.prior == prior
    assert float(posterior(reader, NARROW, 1)["posterior"]) == prior


def test_one_of_one_is_the_reader_of_one_unknown_person() -> None:
    alone, same = one_of([0.3], 0, level="block"), characteristics(0.3)
    release = BLOCK.observe({"block": 1})
    assert alone.posterior(BLOCK, release)["log_odds"].item() == pytest.approx(
        same.posterior(BLOCK, release)["log_odds"].item(), abs=1e-12
    )
