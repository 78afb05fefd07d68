"""The oracles against hand calculations and against values worked out for the examples of Kazan & Reiter (2025).

Unless a test says otherwise: census 2020 noise for a block inside an optimized block group with 27 other blocks, nobody
else in the block with the trait, prior 1/2, improper flat belief about the block group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import pytest

from tests.oracles import paths

RHO1 = 2.56 * 165 / 4099 * 3945 / 4097
RHO2 = 2.56 * 1256 / 4099 * 1288 / 4099
RHO_TRACT = 2.56 * 687 / 4099 * 241 / 2051
PRIORS = (1 / 2, 1 / 5, 1 / 10, 1 / 50, 1 / 864)
SIBLINGS = 27


@pytest.fixture(scope="module")
def blocks() -> paths.Law:
    """Noise of the sum of 27 block releases, good far into the tails."""
    return paths.discrete_gaussian(RHO1, SIBLINGS, reach=70)


def alone(release: int, prior: float, rho: float = RHO1) -> paths.PathPosterior:
    noise = paths.discrete_gaussian(rho)
    return paths.path_posterior([release], [], [noise], [], [paths.known(0)], prior, counts=[range(2)])


def alone_risk(prior: float, rho: float = RHO1, target: int = 1) -> paths.PathRisk:
    noise, window = paths.discrete_gaussian(rho), [range(-30, 32)]
    return paths.path_risk([target], target, [noise], [], [paths.known(0)], prior, counts=[range(2)], releases=window)


def pair_posterior(blocks: paths.Law, data: Sequence[int], prior: float = 0.5) -> paths.PathPosterior:
    first, second, total = data
    noises = [paths.discrete_gaussian(RHO1, reach=60), paths.discrete_gaussian(RHO2, reach=400)]
    beliefs, counts = [paths.known(0), paths.flat], [range(2), range(450)]
    return paths.path_posterior([first, second], [total], noises, [blocks], beliefs, prior, counts=counts)


def pair_risk(
    blocks: paths.Law,
    truth: tuple[int, int],
    prior: float = 0.5,
    rho2: float = RHO2,
    belief: paths.Law = paths.flat,
) -> paths.PathRisk:
    """Windows leave out less than 1e-7 of the releases and, given any of them, of the counts."""
    noises, others = [paths.discrete_gaussian(RHO1), paths.discrete_gaussian(rho2)], truth[1] - truth[0]
    spread, total_spread = math.ceil(math.sqrt(20 / rho2)), 76
    reach = 2 * spread + 4
    return paths.path_risk(
        truth,
        truth[0],
        noises,
        [blocks],
        [paths.known(0), belief],
        prior,
        counts=[range(2), range(max(0, truth[1] - reach), truth[1] + reach + 1)],
        releases=[range(truth[0] - 14, truth[0] + 15), range(truth[1] - spread, truth[1] + spread + 1)],
        sums=range(others - total_spread, others + total_spread + 1),
    )


# Noise laws


def test_discrete_gaussian_at_the_block_rate() -> None:
    """Definition 3: the normaliser and the mass at 0."""
    assert float(paths.discrete_gaussian_normaliser(RHO1)) == pytest.approx(5.6267992, abs=1e-6)
    assert float(paths.discrete_gaussian_pmf(0, RHO1)) == pytest.approx(0.177721, abs=1e-6)


def test_masses_of_releases_one_to_five() -> None:
    """Table 2.4, the mass given a true count of 1 (the printed column is the mass given 0)."""
    masses = [float(paths.discrete_gaussian_pmf(release - 1, RHO1)) for release in range(1, 6)]
    assert masses == pytest.approx([0.177721, 0.160933, 0.119499, 0.072761, 0.036328], abs=1e-6)


@pytest.mark.parametrize("rho", [1e-4, 0.1, 1.0, 3.2, 40.0])
def test_normaliser_is_the_theta_function(rho: float) -> None:
    with mpmath.workdps(40):
        theta = mpmath.jtheta(3, 0, mpmath.exp(-mpmath.mpf(rho)))
        assert abs(paths.discrete_gaussian_normaliser(rho) / theta - 1) < 1e-30


@pytest.mark.parametrize("k", [-7, -1, 0, 3, 60])
def test_tails_are_what_is_left_of_the_mass(k: int) -> None:
    with mpmath.workdps(40):
        below = mpmath.fsum(paths.discrete_gaussian_pmf(j, 0.3) for j in range(-80, k + 1))
        assert abs(paths.discrete_gaussian_cdf(k, 0.3) - below) < mpmath.mpf(10) ** -38
        assert abs(paths.discrete_gaussian_sf(k, 0.3) + below - 1) < mpmath.mpf(10) ** -38


def test_far_tail_keeps_relative_accuracy() -> None:
    with mpmath.workdps(40):
        leading = paths.discrete_gaussian_pmf(101, 0.3)
        ratio = paths.discrete_gaussian_sf(100, 0.3) / leading
        assert ratio - 1 == pytest.approx(math.exp(-0.3 * (102**2 - 101**2)), rel=1e-12)


def test_geometric_tail_is_geometric() -> None:
    with mpmath.workdps(40):
        tail = paths.upper_tail(lambda k: paths.geometric_pmf(k, 0.5), 4)
        q = mpmath.exp(mpmath.mpf("-0.5"))
        assert abs(tail - q**5 / (1 + q)) < 1e-35


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_sum_of_copies_agrees_with_mpmath(count: int) -> None:
    reach = 12
    pmf = [paths.discrete_gaussian_pmf(k, 1.0) for k in range(-reach, reach + 1)]
    exact = [float(mpmath.log(x)) for x in paths.sum_pmf(pmf, count)]
    table = paths.sum_table(paths.discrete_gaussian_table(1.0, reach), count)
    np.testing.assert_allclose(table, exact, rtol=1e-12, atol=1e-13)


def test_sum_of_geometrics_has_known_law() -> None:
    """Two copies: P(0) = (1 - q)^2 (1 + q^2) / ((1 + q)^2 (1 - q^2)), q = exp(-epsilon)."""
    q = math.exp(-0.7)
    expected = ((1 - q) / (1 + q)) ** 2 * (1 + q * q) / (1 - q * q)
    assert math.exp(paths.geometric(0.7, 2, reach=80)(3, 3)) == pytest.approx(expected, rel=1e-12)


def test_sum_of_copies_is_quasi_periodic(blocks: paths.Law) -> None:
    """Shifting each of d noises by a: h(d a + r) = h(r) exp(-rho (d a^2 + 2 a r))."""
    for a, r in [(1, 0), (-2, 5), (20, -13), (-30, 7)]:
        expected = blocks(r, 0) - RHO1 * (SIBLINGS * a * a + 2 * a * r)
        assert blocks(SIBLINGS * a + r, 0) == pytest.approx(expected, rel=1e-12, abs=1e-11)


def test_fractional_release_is_refused() -> None:
    with pytest.raises(ValueError, match="whole number"):
        paths.discrete_gaussian(1.0)(1.5, 0)  # type: ignore[arg-type]


# One level


@pytest.mark.parametrize(
    ("release", "posteriors", "ratios"),
    [
        (1, (0.524786, 0.216349, 0.109292, 0.022040, 0.001278), (1.04957, 1.08175, 1.09292, 1.10202, 1.10418)),
        (2, (0.573875, 0.251879, 0.130160, 0.026749, 0.001558), (1.14775, 1.25940, 1.30160, 1.33745, 1.34619)),
        (4, (0.666986, 0.333653, 0.182032, 0.039270, 0.002315), (1.33397, 1.66826, 1.82032, 1.96349, 2.00055)),
    ],
)
def test_posterior_of_one_release(release: int, posteriors: tuple[float, ...], ratios: tuple[float, ...]) -> None:
    """Table 2.4, rows 1, 2 and 4 (release 2 at prior 1/2 is also section 2.4.3)."""
    computed = [alone(release, prior).posterior for prior in PRIORS]
    assert computed == pytest.approx(posteriors, abs=1e-6)
    assert [x / prior for x, prior in zip(computed, PRIORS, strict=True)] == pytest.approx(ratios, abs=1e-5)


@pytest.mark.parametrize(
    ("prior", "mean", "ratio"),
    [(1 / 2, 0.5236664, 1.047333), (1 / 10, 0.1167606, 1.167606), (1 / 864, 0.0014107, 1.218828)],
)
def test_mean_posterior_of_one_level(prior: float, mean: float, ratio: float) -> None:
    """Table 2.5."""
    risk = alone_risk(prior)
    assert risk.posterior_mean == pytest.approx(mean, abs=1e-6)
    assert risk.ratio_mean == pytest.approx(ratio, abs=1e-6)
    assert risk.mass == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize(
    ("prior", "rho", "correct"),
    [(1 / 5, 0.5, 0.300529), (1 / 5, 0.6, 0.281490), (1 / 2, RHO1, 0.588860), (1 / 2, 0.099, 0.588759)],
)
def test_decisions_of_one_level(prior: float, rho: float, correct: float) -> None:
    """Figures 2.3, 2.5 and 2.6."""
    risk = alone_risk(prior, rho)
    assert risk.prob_correct == pytest.approx(correct, abs=1e-6)
    assert risk.tie_mass == risk.wrong_to_right == risk.right_to_wrong == 0.0


def test_posterior_averages_to_the_prior() -> None:
    mean = 0.2 * alone_risk(0.2).posterior_mean + 0.8 * alone_risk(0.2, target=0).posterior_mean
    assert mean == pytest.approx(0.2, abs=1e-14)


def test_quantiles_are_attained_and_ordered() -> None:
    """P(posterior <= the one of release r) = P(noise <= r - 1); the median release is 1."""
    risk = alone_risk(0.5)
    assert risk.quantiles[0.5] == pytest.approx(alone(1, 0.5).posterior, rel=1e-14)
    assert risk.quantiles[0.05] == pytest.approx(alone(-3, 0.5).posterior, rel=1e-14)
    assert float(paths.discrete_gaussian_cdf(-5, RHO1)) < 0.05 < float(paths.discrete_gaussian_cdf(-4, RHO1))


def test_three_unknown_people() -> None:
    """X1 is binomial(3, 1/2): the target and two others, each with chance 1/2; release 2."""
    noise, belief = paths.discrete_gaussian(RHO1), paths.others([0.25, 0.5, 0.25])
    result = paths.path_posterior([2], [], [noise], [], [belief], 0.5, counts=[range(4)])
    pmf = [result.counts[0][k] for k in range(4)]
    assert pmf == pytest.approx([0.092178, 0.372417, 0.411266, 0.124139], abs=1e-6)
    assert result.posterior == pytest.approx(sum(k * x for k, x in enumerate(pmf)) / 3, rel=1e-14)


def test_extreme_priors_stay() -> None:
    assert alone(5, 0.0).posterior == 0.0
    assert alone(5, 1.0).posterior == 1.0
    assert alone(5, 1.0).log_odds == math.inf


def test_impossible_release_is_refused() -> None:
    with pytest.raises(ValueError, match="impossible"):
        alone(500, 0.5)


# Two levels


@pytest.mark.parametrize(
    ("data", "posterior", "tolerance"),
    [
        ((2, 1, -1), 0.5032878, 1e-6),
        ((40, -35, 600), 6.36837e-5, 1e-9),
        ((-40, 80, -900), 0.280158, 1e-6),
        ((3, 400, 380), 0.654155, 1e-6),
    ],
)
def test_posterior_of_two_levels(
    blocks: paths.Law, data: tuple[int, int, int], posterior: float, tolerance: float
) -> None:
    """Table 2.7, and three releases far in the tails."""
    result = pair_posterior(blocks, data)
    assert result.posterior == pytest.approx(posterior, abs=tolerance)
    assert result.posterior == pytest.approx(1 / (1 + math.exp(-result.log_odds)), rel=1e-12)
    assert result.edge_mass < 1e-12
    assert sum(result.counts[1].values()) == pytest.approx(1.0, abs=1e-12)


def test_gibbs_limits_explain_the_printed_table() -> None:
    """Table 2.7: the stated model gives 50.3 %, the published chain 57.8 % (57.0 % was printed)."""
    data = ((2, 1), -1, (RHO1, RHO2), SIBLINGS, 0.5)
    assert float(paths.gibbs_limit(*data, constrained=True)) == pytest.approx(0.5032878, abs=1e-6)
    assert float(paths.gibbs_limit(*data, constrained=False)) == pytest.approx(0.577702, abs=1e-6)


@pytest.mark.parametrize("constrained", [True, False])
def test_gibbs_chain_reaches_its_limit(constrained: bool) -> None:
    data = ((2, 1), -1, (RHO1, RHO2), SIBLINGS, 0.5)
    rng = np.random.default_rng(2020)
    mean = paths.gibbs(*data, constrained=constrained, sweeps=100_000, rng=rng)
    assert mean == pytest.approx(float(paths.gibbs_limit(*data, constrained=constrained)), abs=4e-3)


@pytest.mark.parametrize(("x2", "correct"), [(1, 0.318191), (3, 0.516999), (10, 0.589726), (100, 0.589726)])
def test_decisions_of_two_levels(blocks: paths.Law, x2: int, correct: float) -> None:
    """Figure 2.5 for the stated model."""
    risk = pair_risk(blocks, (1, x2))
    assert risk.prob_correct == pytest.approx(correct, abs=1e-6)
    assert risk.prob_correct == pytest.approx(0.588860 + risk.wrong_to_right - risk.right_to_wrong, abs=1e-6)
    assert risk.mass == pytest.approx(1.0, abs=1e-7)


@pytest.mark.parametrize(("x2", "correct"), [(1, 0.594586), (2, 0.592356), (3, 0.590866), (4, 0.590092)])
def test_decisions_of_the_published_chain(x2: int, correct: float) -> None:
    """Figure 2.5 as printed."""
    computed = paths.gibbs_limit_accuracy(
        (1, x2),
        (RHO1, RHO2),
        SIBLINGS,
        0.5,
        constrained=False,
        releases=[range(-13, 16), range(x2 - 9, x2 + 10)],
        sums=range(x2 - 77, x2 + 76),
        window=40,
    )
    assert computed == pytest.approx(correct, abs=2e-6)


def test_nobody_there_is_told_apart(blocks: paths.Law) -> None:
    risk = pair_risk(blocks, (0, 0))
    assert risk.prob_correct == pytest.approx(0.889271, abs=1e-6)
    assert risk.posterior_mean == pytest.approx(0.335154, abs=1e-6)


@pytest.mark.parametrize(
    ("truth", "prior", "mean"),
    [
        ((1, 1), 0.5, 0.435613),
        ((1, 1), 0.1, 0.086824),
        ((1, 3), 0.1, 0.109462),
        ((1, 5), 0.5, 0.522201),
        ((1, 10), 0.5, 0.524490),
        ((0, 5), 0.5, 0.473276),
    ],
)
def test_mean_posterior_of_two_levels(blocks: paths.Law, truth: tuple[int, int], prior: float, mean: float) -> None:
    risk = pair_risk(blocks, truth, prior)
    assert risk.posterior_mean == pytest.approx(mean, abs=1e-6)
    assert risk.ratio_mean == pytest.approx(risk.posterior_mean / prior, rel=1e-12)


@pytest.mark.parametrize(("rho2", "x2", "correct"), [(0.1, 1, 0.36018), (0.5, 1, 0.31748), (0.1, 10, 0.58927)])
def test_decisions_against_the_noise_of_the_second_level(
    blocks: paths.Law, rho2: float, x2: int, correct: float
) -> None:
    """Figure 2.6 for the stated model."""
    assert pair_risk(blocks, (1, x2), rho2=rho2).prob_correct == pytest.approx(correct, abs=1e-5)


@pytest.mark.parametrize(("value", "correct", "tie"), [(1, 0.586777, 0.005938), (25, 0.729468, 0.005157)])
def test_reader_sure_of_the_second_level(blocks: paths.Law, value: int, correct: float, tie: float) -> None:
    """Figure 2.11; a tie is decided "out", so it counts against this reader."""
    risk = _sure_risk(blocks, value)
    assert risk.prob_correct == pytest.approx(correct, abs=1e-6)
    assert risk.tie_mass == pytest.approx(tie, abs=1e-6)


def _sure_risk(blocks: paths.Law, value: int) -> paths.PathRisk:
    """The second release says nothing to a reader who is sure of its count, so one exact value stands for it."""
    return paths.path_risk(
        (1, 1),
        1,
        [paths.discrete_gaussian(RHO1), lambda release, value: 0.0],
        [blocks],
        [paths.known(0), paths.point(value)],
        0.5,
        counts=[range(2), [value]],
        releases=[range(-15, 18), [0]],
        sums=range(-80, 81),
    )


def test_sure_reader_ignores_the_second_release(blocks: paths.Law) -> None:
    full = pair_risk(blocks, (1, 1), belief=paths.point(1))
    assert full.prob_correct == pytest.approx(_sure_risk(blocks, 1).prob_correct, abs=1e-7)


def test_proper_flat_belief(blocks: paths.Law) -> None:
    """Figure 2.10, bottom, for the stated model."""
    assert pair_risk(blocks, (1, 1), belief=paths.flat_to(10)).prob_correct == pytest.approx(0.389694, abs=1e-6)


def test_same_people_again_add_their_log_bayes_factors() -> None:
    """No siblings: X2 = X1, no sibling sum, so the two log Bayes factors rho (2u - 1) add; eq. (2.12)."""
    noises = [paths.discrete_gaussian(RHO1), paths.discrete_gaussian(RHO2)]
    beliefs, counts = [paths.known(0), paths.known(0)], [range(2), range(2)]
    result = paths.path_posterior([3, -2], [], noises, [None], beliefs, 0.5, counts=counts)
    assert result.log_odds == pytest.approx(RHO1 * 5 + RHO2 * -5, rel=1e-12)
    assert result.posterior == pytest.approx(1 / (1 + math.exp(-result.log_odds)), rel=1e-12)


def test_averages_are_sums_over_single_posteriors() -> None:
    """Three unknown people, two kinds of noise, one release after the other through `path_posterior`."""
    noises = [paths.discrete_gaussian(0.2), paths.geometric(0.5)]
    sibling = paths.discrete_gaussian(0.2, 2)
    beliefs, counts = [paths.others([0.5, 0.3, 0.2]), paths.flat_to(6)], [range(4), range(7)]
    windows, sums, truth, prior = [range(-3, 5), range(-2, 7)], range(-4, 6), (2, 3), 0.47
    risk = paths.path_risk(
        truth, 1, noises, [sibling], beliefs, prior, counts=counts, releases=windows, sums=sums, quantiles=[0.4]
    )
    mean, correct, gained, lost, below, upto = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for first in windows[0]:
        single = paths.path_posterior([first], [], noises[:1], [], beliefs[:1], prior, counts=counts[:1])
        for second in windows[1]:
            for total in sums:
                weight = math.exp(noises[0](first, 2) + noises[1](second, 3) + sibling(total, 1))
                full = paths.path_posterior([first, second], [total], noises, [sibling], beliefs, prior, counts=counts)
                mean += weight * full.posterior
                correct += weight * (full.posterior > 0.5)
                gained += weight * (full.posterior > 0.5 >= single.posterior)
                lost += weight * (full.posterior <= 0.5 < single.posterior)
                below += weight * (full.posterior < risk.quantiles[0.4] * (1 - 1e-12))
                upto += weight * (full.posterior <= risk.quantiles[0.4] * (1 + 1e-12))
    computed = (risk.posterior_mean, risk.prob_correct, risk.wrong_to_right, risk.right_to_wrong)
    assert computed == pytest.approx((mean, correct, gained, lost), rel=1e-11)
    assert min(gained, lost) > 1e-3
    assert below / risk.mass < 0.4 <= upto / risk.mass


def test_belief_that_excludes_one_hypothesis_settles_the_matter() -> None:
    noises, sibling = [paths.geometric(1.0), paths.geometric(1.0)], paths.geometric(1.0, 2)
    beliefs, counts = [paths.known(0), paths.point(0)], [range(2), range(3)]
    windows = [range(-9, 10), range(-9, 10)]
    risk = paths.path_risk(
        (0, 0), 0, noises, [sibling], beliefs, 0.5, counts=counts, releases=windows, sums=range(-12, 13)
    )
    assert risk.posterior_mean == risk.tie_mass == risk.right_to_wrong == 0.0
    assert risk.prob_correct == risk.mass > 0.999
    assert paths.path_posterior([5, 5], [0], noises, [sibling], beliefs, 0.5, counts=counts).log_odds == -math.inf


def test_average_over_a_proper_belief_is_the_prior() -> None:
    """Geometric noise, two siblings, block group uniform on {x1..2}: mean posterior over the joint law is the prior."""
    noises, siblings, prior = [paths.geometric(1.5), paths.geometric(1.0)], paths.geometric(1.5, 2, reach=30), 0.3
    belief, mean, mass = paths.flat_to(2), 0.0, 0.0
    for x1, weight in ((0, 1 - prior), (1, prior)):
        for x2 in range(x1, 3):
            share = weight * math.exp(belief(x2, x1))
            risk = paths.path_risk(
                (x1, x2),
                x1,
                noises,
                [siblings],
                [paths.known(0), belief],
                prior,
                counts=[range(2), range(3)],
                releases=[range(-16, 18), range(-24, 27)],
                sums=range(-22, 25),
            )
            mean, mass = mean + share * risk.posterior_mean, mass + share * risk.mass
    assert mass == pytest.approx(1.0, abs=1e-9)
    assert mean == pytest.approx(prior, abs=1e-9)


def test_second_level_never_hurts_on_average(blocks: paths.Law) -> None:
    """Accuracy averaged over the uniform belief to 10 and the prior 1/2, against 0.588860 for the block alone."""
    total = 0.0
    for x1 in (0, 1):
        for x2 in range(x1, 11):
            risk = pair_risk(blocks, (x1, x2), belief=paths.flat_to(10))
            total += risk.prob_correct * 0.5 / (11 - x1)
    assert total == pytest.approx(0.598305, abs=1e-6)


# Three levels


@pytest.mark.parametrize(("prior", "posterior"), [(0.5, 0.497605), (0.1, 0.099141)])
def test_posterior_of_three_levels(blocks: paths.Law, prior: float, posterior: float) -> None:
    noises = [paths.discrete_gaussian(rho, reach=60) for rho in (RHO1, RHO2, RHO_TRACT)]
    siblings = [blocks, paths.discrete_gaussian(RHO2, 3)]
    beliefs, counts = [paths.known(0), paths.flat, paths.flat], [range(2), range(40), range(50)]
    result = paths.path_posterior((2, 1, 3), (-1, 2), noises, siblings, beliefs, prior, counts=counts)
    assert result.posterior == pytest.approx(posterior, abs=1e-6)
    assert result.edge_mass < 1e-12
    assert [sum(pmf.values()) for pmf in result.counts.values()] == pytest.approx([1.0] * 3, abs=1e-12)


# Pairs of laws


def test_randomized_response_pair() -> None:
    """Bit kept with odds e: profile 1/(1 + e^-1) (1 - e^(epsilon - 1)), loss is +-1."""
    keep = 1 / (1 + math.exp(-1.0))
    p, q = [keep, 1 - keep], [1 - keep, keep]
    assert paths.privacy_profile(p, q, 0.4) == pytest.approx(keep - math.exp(0.4) * (1 - keep), rel=1e-14)
    assert paths.privacy_profile(p, q, 1.0) == pytest.approx(0.0, abs=1e-15)
    assert paths.probabilistic_tail(p, q, 0.99) == pytest.approx((1.0, 1.0), abs=1e-15)
    assert paths.probabilistic_tail(p, q, 1.0) == (0.0, 0.0)
    assert paths.renyi_divergence(p, q, 2.0) == pytest.approx(math.log(keep * math.e + (1 - keep) / math.e), rel=1e-13)


@pytest.mark.parametrize(("rho", "order"), [(RHO1, 3.0), (2.0, 3.0), (RHO1, 1.5), (2.0, 1.5)])
def test_discrete_gaussian_pair_is_zero_concentrated(rho: float, order: float) -> None:
    """Counts one apart: the Renyi divergence is at most order * rho, and equal at whole orders or for wide noise."""
    table = np.exp(paths.discrete_gaussian_table(rho, 18)).tolist()
    p, q = table[1:], table[:-1]
    divergence = paths.renyi_divergence(p, q, order)
    if order == 3.0 or rho == RHO1:
        assert divergence == pytest.approx(order * rho, rel=1e-9)
    else:
        assert divergence < 0.999 * order * rho


def test_missing_mass_is_an_infinite_loss() -> None:
    p, q = [0.9, 0.1, 0.0], [0.8, 0.0, 0.2]
    assert paths.renyi_divergence(p, q, 2.0) == math.inf
    assert paths.privacy_profile(p, q, 5.0) == pytest.approx(0.1, abs=1e-15)
    assert paths.probabilistic_tail(p, q, 5.0) == (0.1, 0.2)


def test_random_pairs_obey_the_step_from_approximate_to_probabilistic() -> None:
    """Theorem 35: delta at epsilon, both ways round, bounds the tail of the loss beyond eps'."""
    rng = np.random.default_rng(35)
    for _ in range(500):
        p, q = (rng.dirichlet(np.full(4, 0.7)).tolist() for _ in range(2))
        epsilon, failure = rng.uniform(0.0, 1.5), rng.uniform(0.01, 1.0)
        delta = max(paths.privacy_profile(p, q, epsilon), paths.privacy_profile(q, p, epsilon))
        if delta < failure:
            tails = paths.probabilistic_tail(p, q, paths.pdp_epsilon(epsilon, delta, failure))
            assert max(tails) <= failure + 1e-12


# Bounds on beliefs


@pytest.mark.parametrize(
    ("epsilon", "delta", "failure", "expected", "tolerance"),
    [
        (0.1, 1e-7, 0.01, 0.10001905, 1e-8),
        (1.0, 1e-6, 1e-5, 1.141488, 1e-6),
        (1.0, 1e-6, 1e-4, 1.013722, 1e-6),
        (1.0, 1e-6, 0.05, 1.000027, 1e-6),
        (1.8, 1e-5, 0.05, 1.800233, 1e-6),
    ],
)
def test_epsilon_at_a_failure_rate(
    epsilon: float, delta: float, failure: float, expected: float, tolerance: float
) -> None:
    """Theorem 35 in Example 6, Figure 5.1 and Example 9."""
    assert paths.pdp_epsilon(epsilon, delta, failure) == pytest.approx(expected, abs=tolerance)


def test_failure_rate_below_delta_is_refused() -> None:
    with pytest.raises(ValueError, match="above delta"):
        paths.pdp_epsilon(1.0, 0.1, 0.1)
    assert paths.pdp_epsilon(1.0, 0.0, 1e-9) == 1.0


def test_bounds_of_an_advertising_system() -> None:
    """Example 9."""
    epsilon = paths.pdp_epsilon(1.8, 1e-5, 0.05)
    assert paths.posterior_bounds(0.5, epsilon)[1] == pytest.approx(0.858177, abs=1e-6)
    assert paths.difference_bounds(epsilon, 0.5)[1] == pytest.approx(0.358177, abs=1e-6)
    assert paths.ratio_bounds(epsilon, 0.5)[1] == pytest.approx(1.716355, abs=1e-6)
    assert paths.ratio_bounds(epsilon)[1] == pytest.approx(6.051058, abs=1e-6)


def test_bounds_of_a_small_epsilon() -> None:
    """Example 6."""
    epsilon = paths.pdp_epsilon(0.1, 1e-7, 0.01)
    assert paths.posterior_bounds(0.5, epsilon) == pytest.approx((0.475016, 0.524984), abs=1e-6)
    assert paths.ratio_bounds(epsilon) == pytest.approx((0.904820, 1.105192), abs=1e-6)
    assert paths.difference_bounds(epsilon) == pytest.approx((-0.0249996, 0.0249996), abs=1e-6)


def test_difference_bound_is_attained_at_the_worst_prior() -> None:
    """Lemma 30: p = 1/(1 + e^(epsilon/2))."""
    grid = [k / 2000 for k in range(1, 2000)]
    best = max(grid, key=lambda p: paths.difference_bounds(2.0, p)[1])
    assert best == pytest.approx(1 / (1 + math.e), abs=1e-3)
    assert paths.difference_bounds(2.0, 1 / (1 + math.e))[1] == pytest.approx(
        paths.difference_bounds(2.0)[1], rel=1e-14
    )


def test_a_week_of_daily_releases() -> None:
    """Example 7: rho = 0.01 a day for seven days, best delta."""
    epsilon, delta = paths.zcdp_pdp_epsilon(0.07, 0.01)
    assert epsilon == pytest.approx(1.584140, abs=1e-5)
    assert delta == pytest.approx(7.4e-4, abs=1e-5)
    assert paths.posterior_bounds(0.5, epsilon)[1] == pytest.approx(0.829790, abs=1e-5)
    assert paths.difference_bounds(epsilon)[1] == pytest.approx(0.376551, abs=1e-5)
    assert paths.posterior_bounds(0.31172, epsilon)[1] == pytest.approx(0.68828, abs=1e-5)


def test_direct_bound_is_tighter() -> None:
    epsilon = paths.zcdp_direct_epsilon(0.07, 0.01)
    assert epsilon == pytest.approx(1.236547, abs=1e-6)
    assert paths.posterior_bounds(0.5, epsilon)[1] == pytest.approx(0.774962, abs=1e-6)
    assert epsilon < paths.zcdp_pdp_epsilon(0.07, 0.01)[0]
