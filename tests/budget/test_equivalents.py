"""What a guarantee is worth as an epsilon: never less than what three-law mechanisms with it can do to a reader."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import binom

import adversary as adv
from adversary._core.numeric import Floats
from adversary.budget.risk_bounds import equivalent_epsilon, relative_risk_bound

Laws = tuple[Floats, Floats, Floats]

GUARANTEES = {
    "pure": adv.PureDP(0.7),
    "pure, nine times": 9 * adv.PureDP(0.1),
    "approximate": adv.ApproximateDP(0.5, 1e-3),
    "approximate, five times": 5 * adv.ApproximateDP(0.2, 1e-5),
    "probabilistic": adv.ProbabilisticDP(0.5, 1e-2),
    "Renyi": adv.RenyiDP(8.0, 0.2),
    "zCDP": adv.ZeroConcentratedDP(0.03),
    "Gaussian": adv.GaussianDP(0.4),
    "geometric": adv.Geometric(0.5).privacy_loss(),
    "discrete Gaussian": adv.DiscreteGaussian.from_rho(0.05).privacy_loss(),
}


def readers(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Priors of every kind: anywhere, sure of inclusion, sure of the value, rare."""
    p = np.concatenate([rng.random(60), np.ones(40), rng.random(40) ** 6, 1 - rng.random(40) ** 4])
    q = np.concatenate([rng.random(60), rng.random(40) ** 5, np.ones(40), rng.random(40) ** 3])
    return np.maximum(p, 1e-9), np.maximum(q, 1e-9)


def value_failure(one: adv.Guarantee, two: adv.Guarantee, epsilon: float) -> float:
    """Largest probability, whichever of P, N and O is true, of a release beyond R(p, q, epsilon), whatever the priors.

    max(t1, t2) under P, max(e^-e t1, f(e^(-2e) t2)) under O and max(f(e^-e t1), e^(-2e) t2) under N, f = `one.power`.
    """
    one, two = one.after_postprocessing, two.after_postprocessing
    first, second = one.pbdp_delta(epsilon), two.pbdp_delta(2.0 * epsilon)
    once, twice = np.exp(-epsilon) * first, np.exp(-2.0 * epsilon) * second
    powers = (side.power(level) for side in one.directions for level in (once, twice))
    return float(max(first, second, *powers))


def beyond(laws: Laws, p: Floats, q: Floats, epsilon: float) -> float:
    """Largest probability under P, N or O of a ratio beyond R(p, q, epsilon), by adding up the releases."""
    in_set, not_in_set, out = laws
    with np.errstate(divide="ignore", invalid="ignore"):
        rest = np.outer(not_in_set / in_set, p * (1 - q)) + np.outer(out / in_set, 1 - p)
        ratio = np.where(in_set[:, None] > 0, 1.0 / (p * q + rest), 0.0)
    outside = ratio > relative_risk_bound(p, q, epsilon) * (1 + 1e-12)
    return max(float((law @ outside).max()) for law in laws)


def excess(a: Floats, b: Floats, epsilon: float) -> float:
    return float(np.maximum(a - np.exp(epsilon) * b, 0.0).sum())


def mechanisms(rng: np.random.Generator, count: int) -> Iterator[tuple[Laws, adv.ApproximateDP]]:
    """Random laws (P, N, O) and the least delta with which P, O and N, O are neighbours at a random epsilon.

    Every third is a test on the edge of what (epsilon, delta)-DP allows over two steps.
    """
    for i in range(count):
        epsilon, size = float(rng.exponential(0.7)), int(rng.integers(2, 7))
        if i % 3 == 0:
            edge = adv.ApproximateDP(epsilon, float(rng.random() ** 4 * 0.3))
            low = float(rng.random() ** 6)
            middle = edge.power(low)
            high = edge.power(middle) if i % 2 else middle
            laws = tuple(np.array([x, 1.0 - x]) for x in (high, low, middle))
        else:
            out = rng.dirichlet(np.full(size, rng.choice([0.2, 1.0, 3.0])))
            moved = out * np.exp(rng.exponential(0.6) * rng.normal(size=(2, size)))
            told = rng.random() ** 3 * 0.2 * np.eye(size)[rng.integers(size)]
            moved[0] = (1 - told.sum()) * moved[0] / moved[0].sum() + told
            laws = (moved[0], moved[1] / moved[1].sum(), out)
        pairs = [(laws[a], laws[b]) for a, b in ((0, 2), (2, 0), (1, 2), (2, 1))]
        delta = max(excess(a, b, epsilon) for a, b in pairs)
        if delta < 0.5:
            yield laws, adv.ApproximateDP(epsilon, delta)


@pytest.mark.slow
def test_no_three_law_mechanism_exceeds_the_failure() -> None:
    """(epsilon, delta)-DP between P and O and between N and O, whatever the priors and whichever law is true."""
    rng = np.random.default_rng(20)
    closest = 0.0
    for laws, guarantee in mechanisms(rng, 400):
        p, q = readers(rng)
        chained = guarantee.group(2).delta(2 * guarantee.epsilon0)
        for failure in (1.0001 * guarantee.delta0, 1.001 * chained, 1.5 * chained, 0.05, 0.3):
            if guarantee.delta0 < failure < 1.0:
                epsilon = equivalent_epsilon(guarantee, failure)
                actual = beyond(laws, p, q, epsilon) if epsilon < np.inf else 0.0
                assert actual <= failure * (1 + 1e-9)
                closest = max(closest, actual / failure)
    assert closest > 0.99  # and some come close: the bound cannot be lowered


def test_the_failure_at_any_epsilon_bounds_every_mechanism() -> None:
    rng = np.random.default_rng(21)
    for laws, guarantee in mechanisms(rng, 40):
        epsilon = guarantee.epsilon0 + float(rng.exponential(0.4))
        bound = value_failure(guarantee, guarantee.group(2), epsilon)
        assert beyond(laws, *readers(rng), epsilon) <= bound * (1 + 1e-9)


def test_the_bound_is_attained_by_a_reader_sure_of_inclusion() -> None:
    """Three laws on the edge of what two steps allow: a ratio beyond the bound has exactly the failure probability."""
    guarantee, failure = adv.ApproximateDP(1.5, 1e-3), 0.05
    epsilon = equivalent_epsilon(guarantee, failure)
    middle = guarantee.level(failure)
    laws = tuple(np.array([x, 1.0 - x]) for x in (failure, guarantee.level(middle), middle))
    sure, rare = np.ones(1), np.full(1, 1e-3)
    assert beyond(laws, sure, rare, epsilon * (1 - 1e-9)) == pytest.approx(failure, rel=1e-9)


def test_the_failure_is_the_larger_of_the_two_and_not_their_sum() -> None:
    for guarantee in GUARANTEES.values():
        pair = guarantee.group(2)
        first, second = guarantee.pbdp_delta(0.9), pair.pbdp_delta(1.8)
        assert value_failure(guarantee, pair, 0.9) == pytest.approx(max(first, second), rel=1e-7)


@pytest.mark.parametrize("name", GUARANTEES)
def test_at_the_equivalent_epsilon_the_failure_is_met(name: str) -> None:
    guarantee = GUARANTEES[name]
    epsilon = equivalent_epsilon(guarantee, 0.05)
    if epsilon < np.inf:
        assert value_failure(guarantee, guarantee.group(2), epsilon * (1 + 1e-9)) <= 0.05 * (1 + 1e-6)


def test_approximate_dp_in_closed_form() -> None:
    """epsilon + log(f / (f - delta (1 + e^epsilon))) / 2, two records apart; no less than Theorem 3.9 of one."""
    for epsilon, delta, failure in ((0.5, 1e-3, 0.05), (2.0, 1e-6, 0.01), (0.1, 0.01, 0.05)):
        guarantee = adv.ApproximateDP(epsilon, delta)
        twice = epsilon - 0.5 * np.log1p(-delta * (1 + np.exp(epsilon)) / failure)
        expected = max(twice, guarantee.loss_bound(failure))
        assert equivalent_epsilon(guarantee, failure) == pytest.approx(expected, rel=1e-9)


def test_zcdp_in_closed_form_is_the_tail_bound_of_its_profile() -> None:
    guarantee = adv.ZeroConcentratedDP(0.03)
    for failure in (0.01, 0.5):
        expected = max(guarantee.loss_bound(failure), 0.5 * guarantee.group(2).pbdp_epsilon(failure))
        assert equivalent_epsilon(guarantee, failure) == pytest.approx(expected, rel=1e-9)


def test_several_geometric_releases_exactly() -> None:
    """Two counts, in S and not in S, six times: every release is a pair of binomial numbers, so all can be added up."""
    times, each = 6, 0.3
    noise = adv.Geometric(each)
    one, two = times * noise.privacy_loss(), times * noise.privacy_loss(cells=2)
    k, up = np.arange(times + 1), 1.0 / (1.0 + np.exp(-each))
    high, low = binom.pmf(k, times, up), binom.pmf(k, times, 1 - up)
    laws = tuple(np.outer(a, b).ravel() for a, b in ((high, low), (low, high), (low, low)))
    p, q = readers(np.random.default_rng(22))
    for failure in (0.0, 1e-3, 0.05, 0.2):
        assert beyond(laws, p, q, equivalent_epsilon(one, failure, two=two)) <= failure
    assert equivalent_epsilon(one, two=two) == pytest.approx(times * each)


@pytest.mark.parametrize("name", GUARANTEES)
def test_values_never_cost_less_than_inclusion(name: str) -> None:
    guarantee = GUARANTEES[name]
    for failure in (0.0, 0.02, 0.2):
        inclusion = equivalent_epsilon(guarantee, failure, values=False)
        assert inclusion == guarantee.after_postprocessing.loss_bound(failure)
        assert equivalent_epsilon(guarantee, failure) >= inclusion


@pytest.mark.parametrize("failure", [0.0, 0.05])
def test_pure_dp_is_worth_its_epsilon(failure: float) -> None:
    assert equivalent_epsilon(adv.PureDP(0.7), failure) == 0.7


def test_probabilistic_dp_is_held_to_what_survives_post_processing() -> None:
    guarantee = adv.ProbabilisticDP(0.5, 0.01)
    assert guarantee.loss_bound(0.05) == 0.5
    assert equivalent_epsilon(guarantee, 0.05) == pytest.approx(equivalent_epsilon(guarantee.implied, 0.05), rel=0.01)
    assert equivalent_epsilon(guarantee, 0.05) > 0.5


def test_probabilistic_dp_promises_nothing_sharper_to_a_reader_unsure_of_others() -> None:
    """Such a reader sees the release averaged over others, which is post-processing: 11% are beyond, not 1.05%.

    A discrete Gaussian of rho 1 keeps probabilistic DP at 3.03389 but for 0.010472; the others' count is 12 or 13.
    """
    own, guarantee = adv.DiscreteGaussian.from_rho(1.0).privacy_loss(), adv.ProbabilisticDP(3.03389, 0.010472)
    assert guarantee.is_satisfied_by(own)
    k = np.arange(-40, 60)

    def law(count: int) -> np.ndarray:
        weight = np.exp(-((k - count) ** 2.0))
        return weight / weight.sum()

    share, prior = 0.4846, 1e-4
    present, absent = ((1 - share) * law(i) + share * law(i + 1) for i in (1, 0))
    seen = (k > -20) & (k < 22)
    beyond = present[seen][present[seen] > 20.78 * (prior * present[seen] + (1 - prior) * absent[seen])].sum()
    assert beyond > 0.1
    profile = adv.RiskProfile.constant(20.78).within(value=(1.0, 1.0))
    for judged in (guarantee, own):
        assert adv.budget.verdict(profile, judged, 0.0105).status == "broken"
    assert equivalent_epsilon(guarantee, 0.0105, values=False) == guarantee.implied.loss_bound(0.0105)
