"""Worked trees with their numbers to nine digits. The rows P3 to P15 are our own numbering, from no paper: each was
worked out by writing down every vector of counts, but for P6 and P7, which are too large for that.

RHO1, RHO2 and RHOT are the block's, block group's and tract's shares of the 2020 Census's person tables
(2.56 in all). Tree S: a block group with blocks a, b. Tree T: a tract over block groups g (1, 2, 3) and h (4, 5).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import adversary as adv

spine = adv.spine
RHO1 = 2.56 * 165 / 4099 * 3945 / 4097
RHO2 = 2.56 * 1256 / 4099 * 1288 / 4099
RHOT = 2.56 * 687 / 4099 * 241 / 2051
S = spine.Tree.of({"sum": None, "a": "sum", "b": "sum"})
T = spine.Tree.of({"t": None, "g": "t", "h": "t", "1": "g", "2": "g", "3": "g", "4": "h", "5": "h"})
NOISY = np.array([6, 4, 1, 1, 3, -2, 0, 2])
RHO = np.array([RHOT, RHO2, RHO2, *[RHO1] * 5])
CLOSE = {"abs": 1.5e-9, "rel": 0}


def of_t(prior=None, noisy=NOISY, rho=RHO):
    return spine.posterior(T, noisy, rho, prior or spine.Flat())


def bayes_factor(found, known=0):
    return found.membership(known=known)["log_bayes_factor"].values


def changed(values, **units):
    values = np.array(values, dtype=float)
    for name, value in units.items():
        values[T.index(name.lstrip("_"))] = value
    return values


def test_p3_means_of_three_levels():
    found = of_t()
    blocks = [1.347562995, 2.373356557, 0.617050034, 0.679179209, 1.126888041]
    assert found.mean.values == pytest.approx([6.144036835, 4.337969585, 1.806067250, *blocks], **CLOSE)
    assert float(found.sd.sel(unit="t")) == pytest.approx(1.466487377, **CLOSE)
    assert found.log_evidence == pytest.approx(4.024083792, **CLOSE)


def test_p4_messages_and_bayes_factors():
    found = of_t()
    told, p = found.downward_message("g"), found.pmf("g").values
    out = told.values * np.exp(-told.tilt * np.arange(told.values.size))
    assert told.lowest == 0
    assert out[1:4] / out[0] == pytest.approx([1.389887529, 1.767002250, 2.054325081], **CLOSE)
    inner = p[:4] / out[:4]
    assert inner[1:] / inner[0] == pytest.approx([18.840491018, 134.827248652, 455.378076837], rel=1e-10)
    expected = [0.058944943, 0.688834238, -0.655803121, -0.434316853, 0.149733273]
    assert bayes_factor(found) == pytest.approx(expected, **CLOSE)


def test_p5_proper_leaf_priors():
    for prior, mean, evidence, first in (
        (spine.Poisson(0.7), 4.400143301, -2.984808582, 0.845861289),
        (spine.NegativeBinomial(0.5, 0.7), 4.262220010, -3.481841594, 0.701240526),
    ):
        found = of_t(prior)
        assert float(found.mean[0]) == pytest.approx(mean, **CLOSE)
        assert found.log_evidence == pytest.approx(evidence, **CLOSE)
        assert bayes_factor(found)[0] == pytest.approx(first, **CLOSE)


@pytest.mark.parametrize(
    ("n", "mean", "empty", "first", "theta"),
    [
        (40, 4.286428039, 2.137014168e-4, -2.271661065, 2.1723),
        (80, 5.257413686, 8.433579908e-6, -2.748634047, 2.6442),
        (160, 6.288649726, 1.634271418e-7, -3.253444156, 3.1471),
    ],
)
def test_p6_many_empty_blocks(n, mean, empty, first, theta):
    """The children alone would say about 60, 120 and 240: windows laid about that miss the posterior."""
    tree = spine.Tree.of({"sum": None} | {f"b{i}": "sum" for i in range(n)})
    found = spine.posterior(tree, np.zeros(n + 1), [RHO2] + [RHO1] * n, spine.Flat())
    assert float(found.mean[0]) == pytest.approx(mean, **CLOSE)
    assert found.pmf("sum").sel(count=0).item() == pytest.approx(empty, rel=1e-9)
    assert bayes_factor(found) == pytest.approx(np.full(n, first), **CLOSE)
    assert found.solutions[0].theta[0] == pytest.approx(theta, abs=2e-4)
    assert found.truncation_bound < 1e-15


def test_p7_large_counts_are_least_squares():
    noisy = NOISY + np.array([5000, 3000, 2000, *[1000] * 5])
    found, linear = of_t(noisy=noisy), spine.least_squares(T, noisy, RHO)
    blocks = [1001.635374369, 1003.635374369, 998.635374369, 999.651166090, 1001.651166090]
    assert found.mean.values == pytest.approx([5005.208455286, 3003.906123106, 2001.302332180, *blocks], **CLOSE)
    sds = [1.604527435, 1.244873821, 1.214804229, *[1.879231940] * 3, *[1.699537958] * 2]
    assert found.sd.values == pytest.approx(sds, **CLOSE)
    assert found.mean.values == pytest.approx(linear["mean"].values, **CLOSE)
    assert found.sd.values == pytest.approx(linear["sd"].values, **CLOSE)


def test_p8_an_exact_total():
    found = of_t(noisy=changed(NOISY, t=5), rho=changed(RHO, t=np.inf))
    assert found.mean.values[1:3] == pytest.approx([3.709696574, 1.290303426], **CLOSE)
    expected = [0.000017638, 0.002189366, 0.054180248, 0.323153411, 0.472610207, 0.147849131]
    assert found.pmf("g").values == pytest.approx(expected, **CLOSE)
    assert bayes_factor(found)[[0, 4]] == pytest.approx([-0.022274401, 0.009637981], **CLOSE)
    assert found.log_evidence == pytest.approx(2.492062546, **CLOSE)


def test_p9_missing_measurements():
    found = of_t(rho=changed(RHO, g=0, _5=0))
    assert found.mean.values[:3] == pytest.approx([6.878033534, 5.234611899, 1.643421635], **CLOSE)
    assert float(found.mean.sel(unit="5")) == pytest.approx(0.956617114, **CLOSE)
    assert bayes_factor(found)[4] == pytest.approx(-0.210035313, **CLOSE)
    assert found.log_evidence == pytest.approx(4.882027697, **CLOSE)


def test_p10_a_block_far_too_high():
    found = of_t(noisy=changed(NOISY, _2=30))
    assert found.mean.values[:2] == pytest.approx([11.821624114, 10.623362061], **CLOSE)
    assert found.mean.sel(unit=["2", "1"]).values == pytest.approx([10.589225825, 0.022046094], **CLOSE)
    assert bayes_factor(found)[1] == pytest.approx(6.047057366, **CLOSE)
    assert found.log_evidence == pytest.approx(-47.787813034, **CLOSE)


def test_p11_one_unknown_rate_for_all():
    rates = [0.3, 0.7, 1.5]
    evidence = np.array([of_t(spine.Poisson(rate)).log_evidence for rate in rates])
    assert evidence == pytest.approx([-4.159055580, -2.984808582, -3.146203639], **CLOSE)
    found = of_t(spine.SharedRate(rates, shape=None, within="tree"))
    assert found.rate_weights()[0] == pytest.approx([0.143078956, 0.462961369, 0.393959675], **CLOSE)
    assert float(found.mean[0]) == pytest.approx(4.726995161, **CLOSE)
    assert found.log_evidence == pytest.approx(np.log(np.exp(evidence).mean()), **CLOSE)


def test_p12_an_unknown_rate_for_each_block_group():
    found = of_t(spine.SharedRate([0.3, 0.7, 1.5], shape=None))
    assert float(found.mean[0]) == pytest.approx(4.651427324, **CLOSE)
    assert found.log_evidence == pytest.approx(-3.223762121, **CLOSE)
    assert found.rate_weights()[0] == pytest.approx([0.123252525, 0.370425304, 0.506322171], **CLOSE)


@pytest.mark.slow_cases("0.0-0.0255032558-0.000919363764-0.374414134-0.0706331944")
@pytest.mark.parametrize(
    ("theta", "a", "b", "kept", "root"),
    [
        (0.0, 0.0255032558, 0.000919363764, 0.374414134, 0.0706331944),
        (0.473701949, 0.00190529053, 4.61434819e-5, 0.663178501, 0.00294157197),
    ],
)
def test_p13_p14_the_ledger(theta, a, b, kept, root):
    """Leaf windows 0 .. 6 with their true tails, no other cut: masses multiply and the factor is at most one.

    Scaled by its largest value at a whole count; by that at a real one, the second root's ledger is 0.00294267972.
    """
    from adversary.census.spine.compiled.messages import upward
    from adversary.census.spine.problem import Likelihood, layout

    tables = {}
    x = np.arange(60)
    for name, released in (("a", 2), ("b", -1)):
        w = np.exp(-RHO1 * (released - x) ** 2 - theta * x)
        tables[name] = spine.Message(0, w[:7] / w[:7].sum(), theta, 0.0, w[7:].sum() / w[:7].sum())
    assert [tables[name].truncation_bound for name in "ab"] == pytest.approx([a, b], rel=1e-8)
    free = np.zeros(3), {}, np.zeros(3), np.full(3, np.inf)
    like = Likelihood(np.array([1, np.nan, np.nan]), np.array([RHO2, 0, 0]), *free)
    made, _ = layout(S, like, spine.Flat(), tables, None)
    messages, log_scale, _ = upward(made, np.array([theta, 0.0, 0.0]), 0.0, 0)
    assert messages.windows["dropped"][0] == pytest.approx(root, rel=1e-8)
    top = max(0.0, 1 + theta / (2 * RHO2))
    assert np.exp(log_scale + RHO2 * (1 - top) ** 2 - theta * top) == pytest.approx(kept, rel=1e-8)


def test_p15_siblings_lumped_into_one_leaf():
    """A flat leaf of precision rho / d stands for the sum of d siblings: the published worked example, corrected."""
    tree = spine.Tree.of({"sum": None, "block": "sum", "others": "sum"})
    found = spine.posterior(tree, [1, 2, -1], [RHO2, RHO1, RHO1 / 27], spine.Flat())
    assert expit(bayes_factor(found)[0]) == pytest.approx(0.503287826, **CLOSE)
