"""Kazan's thesis, Chapter 3, and its errata: from the risk an agency tolerates to an epsilon.

PB rows are numbers printed there or recomputed from its inputs, T rows are places where the printed text, form or
script gives another number than the mathematics; those tests hold both.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import adversary as adv
from adversary import RiskProfile
from tests.oracles import budget as oracles

budget = adv.budget
LOG_3 = math.log(3)


def epsilon_of(profile: RiskProfile) -> float:
    return float(adv.recommend_epsilon(profile).epsilon)


@pytest.mark.parametrize(
    ("inclusion", "value", "ratio", "expected"),
    [(1.0, 0.2, 3.0, 0.895880), (0.3, 1.0, 2.0, 1.252763), (0.05, 0.5, 3.0, 1.133714)],
    ids=["PB1", "PB2", "PB3"],
)
def test_pb1_to_pb3_epsilon_of_a_ratio(inclusion: float, value: float, ratio: float, expected: float) -> None:
    """Theorem 5, in the interior, at value prior 1 and at inclusion prior 1."""
    assert budget.epsilon_for_risk(inclusion, value, ratio) == pytest.approx(expected, abs=1e-6)
    assert oracles.printed_epsilon(inclusion, value, ratio) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("inclusion", "value", "ratio", "expected"),
    [(0.5, 0.5, 4.0, math.inf), (0.5, 0.5, 1.0, 0.0), (1, 1, 1.5, math.inf)],
)
def test_pb4_edges_of_theorem_5(inclusion: float, value: float, ratio: float, expected: float) -> None:
    """From 1 / (p q) on there is nothing to bound, and ratio 1 leaves no information."""
    assert budget.epsilon_for_risk(inclusion, value, ratio) == expected


def test_pb5_a_tiny_inclusion_prior() -> None:
    """Theorem 5 towards p = 0 is log r; the printed form loses half of its digits there."""
    assert budget.epsilon_for_risk(1e-8, 0.3, 2.0) == pytest.approx(0.693147, abs=1e-6)
    exact = float(oracles.exact_epsilon(1e-12, 0.3, 2.0))
    assert budget.epsilon_for_risk(1e-12, 0.3, 2.0) == pytest.approx(exact, rel=1e-15)
    assert abs(oracles.printed_epsilon(1e-12, 0.3, 2.0) - exact) > 1e-6


def test_pb6_round_trip_of_ten_thousand() -> None:
    """Theorem 4 undoes Theorem 5."""
    rng = np.random.default_rng(6)
    p, q = rng.uniform(0, 1, (2, 10_000))
    ratio = 1 + rng.uniform(0, 1, 10_000) * (np.minimum(1 / (p * q), 50) - 1)
    back = budget.relative_risk_bound(p, q, budget.epsilon_for_risk(p, q, ratio))
    np.testing.assert_allclose(back, ratio, rtol=1e-12)


@pytest.mark.parametrize(("ratio", "expected"), [(1.5, 0.202733), (3.0, 0.549306), (6.0, 0.895880)])
def test_pb7_constant_profiles(ratio: float, expected: float) -> None:
    """Theorem 10: half of log r."""
    assert epsilon_of(RiskProfile.constant(ratio)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("ratio", "epsilon", "sd", "exact", "printed"),
    [
        (1.5, 0.510826, 2.7386, 0.2500, ("0.51", "2.74", "25%")),
        (3.0, 1.299283, 1.0155, 0.5714, ("1.30", "1.02", "57%")),
    ],
    ids=["PB8", "PB9"],
)
def test_pb8_and_pb9_where_inclusion_is_the_secret(
    ratio: float, epsilon: float, sd: float, exact: float, printed: tuple[str, str, str]
) -> None:
    """Example 1, Table 3.1: value prior 1, posterior up to a quarter; epsilon, noise and probability of no noise."""
    answer = epsilon_of(RiskProfile.ratio_or_absolute(ratio, 0.25, value=1))
    noise = budget.mechanism_for("geometric", answer)
    assert answer == pytest.approx(epsilon, abs=1e-4)
    assert math.sqrt(noise.variance) == pytest.approx(sd, abs=1e-4)
    assert budget.rmse(noise) == pytest.approx(sd, abs=1e-4)
    assert budget.prob_exact(noise) == pytest.approx(exact, abs=1e-4)
    assert (f"{answer:.2f}", f"{budget.rmse(noise):.2f}", f"{budget.prob_exact(noise):.0%}") == printed


def test_pb10_and_t1_an_agency_at_the_case_boundary() -> None:
    """Table 3.5, agency B: a / r is 0.05, but in doubles one ulp below; the printed form is then 0 / 0.

    It answers -2.0794, which no mechanism can meet; the conjugate form answers 1.209838 on both sides.
    """
    assert np.nextafter(0.05, 0) == 0.15 / 3.0
    assert oracles.printed_theorem_11(0.05, 0.15, 3.0) == pytest.approx(-2.0794, abs=1e-4)
    assert oracles.printed_theorem_11(0.15 / 3.0, 0.15, 3.0) == pytest.approx(1.209838, abs=1e-6)
    for inclusion in (np.nextafter(0.15 / 3.0, 0), 0.15 / 3.0, 0.05, np.nextafter(0.05, 1)):
        profile = RiskProfile.ratio_or_absolute(3.0, 0.15, inclusion=float(inclusion))
        assert epsilon_of(profile) == pytest.approx(1.209838, abs=1e-6)
        assert epsilon_of(profile) == pytest.approx(math.log(0.15 * 0.95 / (0.05 * 0.85)), rel=1e-14)


@pytest.mark.parametrize(
    ("inclusion", "absolute", "ratio", "expected"),
    [
        pytest.param(0.005, 0.025, 3.0, 1.629743, id="PB11"),
        pytest.param(1.0, 0.25, 3.0, 0.649641, id="PB14"),
        pytest.param(0.5, 0.1, 2.0, 0.530343, id="PB27"),
        pytest.param(0.2, 0.05, 1.5, 0.368278, id="PB27b"),
    ],
)
def test_pb11_pb14_and_pb27_inclusion_prior_fixed(
    inclusion: float, absolute: float, ratio: float, expected: float
) -> None:
    """Theorem 11; the first is the text of section 3.10.2, which prints 1.63."""
    answer = epsilon_of(RiskProfile.ratio_or_absolute(ratio, absolute, inclusion=inclusion))
    assert answer == pytest.approx(expected, abs=1e-6)
    assert oracles.printed_theorem_11(inclusion, absolute, ratio) == pytest.approx(answer, rel=1e-12)


@pytest.mark.parametrize(
    ("value", "absolute", "expected"),
    [
        pytest.param(1.0, 0.1, 1.170071, id="PB12"),
        pytest.param(0.05, 0.25, 0.922913, id="PB13, below a/r"),
        pytest.param(0.2, 0.25, 0.895880, id="PB13, between"),
        pytest.param(0.25, 0.25, 1.098612, id="PB13, from 1/(r+1)"),
    ],
)
def test_pb12_and_pb13_value_prior_fixed(value: float, absolute: float, expected: float) -> None:
    """Theorem 12, every row; the first is agency 1 of Figure 3.1."""
    answer = epsilon_of(RiskProfile.ratio_or_absolute(3.0, absolute, value=value))
    assert answer == pytest.approx(expected, abs=1e-6)
    assert oracles.printed_theorem_12(value, absolute, 3.0) == pytest.approx(answer, rel=1e-12)


@pytest.mark.parametrize(
    ("inclusion", "value", "expected"),
    [((0.0, 0.6), (0.5, 1.0), 1.098612), ((0.2, 1.0), (0.0, 1.0), 0.549306), ((0.5, 1.0), (0.8, 1.0), math.inf)],
    ids=["PB15", "PB15b", "PB16"],
)
def test_pb15_and_pb16_boxes(inclusion: tuple[float, float], value: tuple[float, float], expected: float) -> None:
    """Equation (3.28), r = 3: approached as p tends to 0, as q tends to 0, and nothing to bound."""
    answer = adv.recommend_epsilon(RiskProfile.box(3.0, inclusion=inclusion, value=value))
    assert answer.epsilon == pytest.approx(expected, abs=1e-6)
    assert answer.status == ("unconstrained" if math.isinf(expected) else "bounded")
    assert not answer.attained


@pytest.mark.parametrize(("b", "expected"), [(0.1, 0.200671), (0.2, 0.405465)])
def test_pb17_differences(b: float, expected: float) -> None:
    """Equation (3.31): log((1 + b) / (1 - b)), bound by a reader with p = 1 and q = (1 - b) / 2."""
    answer = adv.recommend_epsilon(RiskProfile.difference(b))
    assert answer.epsilon == pytest.approx(expected, abs=1e-6)
    assert (answer.inclusion, answer.value) == pytest.approx((1.0, (1 - b) / 2), abs=1e-12)
    assert answer.attained


@pytest.mark.parametrize("method", ["closed", "numeric"])
def test_pb18_the_two_dimensional_example(method: str) -> None:
    """Equation (3.35), which the thesis minimises numerically: about 0.65 at q = 0.083."""
    answer = adv.recommend_epsilon(RiskProfile.ratio_or_absolute(3.0, 0.25), method=method)
    assert answer.epsilon == pytest.approx(0.649641, abs=1e-6)
    assert (answer.inclusion, answer.value) == pytest.approx((1.0, 1 / 12), abs=1e-3)
    assert answer.attained
    assert f"{answer.epsilon:.2f}" == "0.65"


def test_pb19_one_reader() -> None:
    """The profile that cares for p = 1/2, q = 1 only: log(r' / (2 - r')), against half of log r'."""
    assert epsilon_of(RiskProfile.point(1.5, 0.5, 1.0)) == pytest.approx(1.098612, abs=1e-6)
    assert epsilon_of(RiskProfile.constant(1.5)) == pytest.approx(0.202733, abs=1e-6)
    ratios = 2 - np.array([1e-2, 1e-4, 1e-8])
    assert np.all(np.diff([epsilon_of(RiskProfile.point(float(r), 0.5, 1.0)) for r in ratios]) > 4)
    assert epsilon_of(RiskProfile.point(2.0, 0.5, 1.0)) == math.inf


BIRTHS, TARGET = 4012, 6 / 1000
DEVIATIONS = [0.25e-3, 0.5e-3, 1e-3, 2e-3]
INFANT_DEATHS = {
    0.0: (0.6931, 2.0000, (0.3333, 0.1667, 0.0417, 0.0026)),
    0.1: (0.7472, 1.8493, (0.3214, 0.1523, 0.0342, 0.0017)),
    0.25: (0.8473, 1.6202, (0.3000, 0.1286, 0.0236, 0.0008)),
    0.5: (1.0986, 1.2247, (0.2500, 0.0833, 0.0093, 0.0001)),
}


def test_pb20_infant_deaths_at_ratio_two() -> None:
    """Example 3: 4,012 births, target 6 per 1,000, so at most 24 deaths; truths of 25, 26, 28 and 32."""
    profiles = {str(a): RiskProfile.ratio_or_absolute(2.0, a, value=1) for a in INFANT_DEATHS}
    table = budget.tradeoff_table(profiles, base=BIRTHS, target=TARGET, deviations=DEVIATIONS)
    assert table["switch"].sizes == {"profile": 4, "deviation": 4, "side": 2}
    for a, (epsilon, rmse, flips) in INFANT_DEATHS.items():
        row = table.sel(profile=str(a))
        assert float(row["epsilon"]) == pytest.approx(epsilon, abs=5e-5)
        assert float(row["rmse"]) == pytest.approx(rmse, abs=5e-5)
        np.testing.assert_allclose(row["switch"].sel(side="above"), flips, rtol=0, atol=5e-5)
        noise = budget.mechanism_for("geometric", float(row["epsilon"]))
        for truth, flip in zip((25, 26, 28, 32), flips, strict=True):
            assert budget.misclassification_probability(noise, truth, 24) == pytest.approx(flip, abs=5e-5)


def test_pb21_and_t4_the_most_permissive_profile() -> None:
    """Ratio 5 or posterior 1/2: epsilon 2 log 3, and a flip probability of exactly 1/10, printed as below 10%.

    With the truth at the target the flip needs two steps from 23, one from 24: x^2 / (1 + x) = 1/90 and x / (1 + x).
    """
    answer = epsilon_of(RiskProfile.ratio_or_absolute(5.0, 0.5, value=1))
    noise = budget.mechanism_for("geometric", answer)
    assert answer == pytest.approx(2.197225, abs=1e-6)
    assert answer == pytest.approx(2 * LOG_3, rel=1e-15)
    assert budget.rmse(noise) == pytest.approx(0.5303, abs=1e-4)
    assert budget.misclassification_probability(noise, 25, 24) == pytest.approx(0.1, rel=1e-14)
    assert budget.misclassification_probability(noise, 24, 24) == pytest.approx(0.1, rel=1e-14)
    assert budget.misclassification_probability(noise, 23, 24) == pytest.approx(1 / 90, rel=1e-14)


def test_pb22_the_absent_one_of_four() -> None:
    """Lee and Clifton: ours log((n - 1) a / (1 - a)), 0.41 printed; theirs for the mean of 1, 2, 3, 4, 0.34 printed."""
    assert budget.inclusion_epsilon(4, 1 / 3) == pytest.approx(0.405465, abs=1e-6)
    assert budget.lee_clifton_epsilon([1, 2, 3, 4], np.mean, 1 / 3) == pytest.approx(0.337888, abs=1e-6)
    point = RiskProfile.ratio_or_absolute(1.0, 1 / 3, inclusion=1 / 4, value=1.0)
    assert epsilon_of(point) == pytest.approx(budget.inclusion_epsilon(4, 1 / 3), rel=1e-14)


def test_pb23_taking_part_or_not() -> None:
    """Wood et al.: from one half to at most 0.549834 at epsilon 0.1; the shape of Theorem 4 at p = 1."""
    assert budget.participation_bound(0.5, 0.1) == pytest.approx(0.549834, abs=1e-6)
    assert budget.participation_bound(0.5, 0.1) == pytest.approx(budget.absolute_risk_bound(1.0, 0.5, 0.1), rel=1e-15)


def test_pb24_two_bins_attain_the_bound() -> None:
    """Both counts through geometric noise at epsilon 1/2, p = 0.5, q = 0.1; every release listed."""
    noise = adv.Geometric(epsilon=0.5)
    assert budget.attained_risk(noise, 0.5, 0.1) == pytest.approx(1.927484, abs=1e-6)
    assert budget.attained_risk(noise, 0.5, 0.1, side="lower") == pytest.approx(0.476738, abs=1e-6)
    listed = oracles.two_bin_ratios(oracles.geometric_noise(0.5), 0.5, 0.1)
    assert budget.relative_risk_bound(0.5, 0.1, 0.5) == pytest.approx(listed.largest, rel=1e-13)
    assert budget.relative_risk_bound(0.5, 0.1, 0.5, side="lower") == pytest.approx(listed.smallest, rel=1e-13)


def test_pb25_one_count_reveals_less() -> None:
    """The count of S alone, same inputs."""
    assert budget.attained_risk(adv.Geometric(epsilon=0.5), 0.5, 0.1, statistic="count") == pytest.approx(
        1.596923, abs=1e-6
    )
    listed = oracles.one_count_ratios(oracles.geometric_noise(0.5), 0.5, 0.1)
    assert budget.relative_risk_bound(0.5, 0.1, 0.5, statistic="count") == pytest.approx(listed.largest, rel=1e-13)


def test_pb26_and_t2_a_grid_errs_towards_more_risk() -> None:
    """The authors' scan of step 0.001 answers 0.550308 to the constant profile 3: above the truth, 0.549306.

    Where no cell is finite their scan stops with an undefined variable; here that is a status.
    """
    grid = np.arange(1, 1001) / 1000
    scanned = float(np.min(budget.epsilon_for_risk(grid[:, None], grid, 3.0)))
    assert scanned == pytest.approx(0.550308, abs=1e-6)
    assert oracles.authors_grid(lambda p, q: 3.0, cells=100) > scanned
    answer = epsilon_of(RiskProfile.constant(3.0))
    assert answer == pytest.approx(0.549306, abs=1e-6)
    assert answer < scanned
    with pytest.warns(RuntimeWarning, match="limits nothing"):
        nobody = adv.recommend_epsilon(RiskProfile.custom(lambda p, q: np.full(np.broadcast(p, q).shape, np.inf)))
    assert (nobody.epsilon, nobody.status) == (math.inf, "unconstrained")


def test_t3_no_absolute_bound_is_constant_on_a_slice_only() -> None:
    """Example 3 calls a = 0 the constant profile, 0.3466 by Theorem 10; the number used, 0.6931, is that of q = 1."""
    assert epsilon_of(RiskProfile.constant(2.0)) == pytest.approx(0.3466, abs=5e-5)
    assert epsilon_of(RiskProfile.ratio_or_absolute(2.0, 0.0)) == pytest.approx(0.3466, abs=5e-5)
    assert epsilon_of(RiskProfile.ratio_or_absolute(2.0, 0.0, value=1)) == pytest.approx(0.6931, abs=5e-5)
    assert epsilon_of(RiskProfile.constant(2.0).within(value=(1, 1))) == pytest.approx(0.6931, abs=5e-5)


@pytest.mark.parametrize(
    ("ratio", "everywhere", "slice_of_q"), [(1.5, 0.2027, 0.4055), (3.0, 0.5493, 1.0986), (6.0, 0.8959, 1.7918)]
)
def test_t5_less_than_half_is_mostly_the_slice(ratio: float, everywhere: float, slice_of_q: float) -> None:
    """Example 1 finds the constant profile under half of its own epsilons; on the same slice it is twice as large."""
    own = epsilon_of(RiskProfile.ratio_or_absolute(ratio, 0.25, value=1))
    assert epsilon_of(RiskProfile.constant(ratio)) == pytest.approx(everywhere, abs=5e-5)
    assert epsilon_of(RiskProfile.constant(ratio).within(value=(1, 1))) == pytest.approx(slice_of_q, abs=5e-5)
    assert everywhere < own / 2 < slice_of_q < own


def test_t6_the_minimum_is_an_infimum() -> None:
    """Theorem 10 is printed with a minimum; no reader has value prior 0, and every one of them allows more.

    Lemma 9 ends with "increasing"; where p q r >= 1 epsilon is infinite and no longer increases.
    """
    answer = adv.recommend_epsilon(RiskProfile.constant(3.0))
    assert not answer.attained
    assert (answer.inclusion, answer.value) == (1.0, 0.0)
    near = budget.epsilon_for_risk(1.0, np.array([1e-2, 1e-4, 1e-8]), 3.0)
    assert np.all(np.diff(near) < 0)
    assert np.all(near > answer.epsilon)
    assert budget.epsilon_for_risk(np.array([0.7, 0.8, 0.9]), 0.5, 3.0) == pytest.approx([math.inf] * 3)


def test_t7_a_figure_at_value_prior_0999() -> None:
    """The script of Figure 3.1 draws q = 0.999 under the label 1: for agency 1, 1.170047 in place of 1.170071."""
    labelled, drawn = (epsilon_of(RiskProfile.ratio_or_absolute(3.0, 0.1, value=q)) for q in (1.0, 0.999))
    assert labelled == pytest.approx(1.170071, abs=1e-6)
    assert drawn == pytest.approx(1.170047, abs=1e-6)
    assert oracles.printed_theorem_12(0.999, 0.1, 3.0) == pytest.approx(drawn, rel=1e-12)
    assert budget.epsilon_for_risk(0.3, 1.0, 2.0) == pytest.approx(1.252763, abs=1e-6)
    assert budget.epsilon_for_risk(0.3, 0.999, 2.0) == pytest.approx(1.251387, abs=1e-6)
