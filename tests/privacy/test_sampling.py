"""Amplification by sampling: the pair is a mixture, and the profiles are those of the theorems."""

import math
from collections.abc import Callable

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import pytest

import adversary as adv
from adversary.privacy.losses import LatticeLoss, PrivacyLoss
from adversary.privacy.losses.composition import ComposedLoss

EPSILONS = np.array([0.0, 0.05, 0.3, 1.0, 2.0])
LOSSES: dict[str, PrivacyLoss] = {
    "geometric": adv.Geometric(0.8).privacy_loss(),
    "discrete gaussian": adv.DiscreteGaussian(1.5).privacy_loss(),
    "laplace": adv.Laplace(1.0).privacy_loss(),
    "gaussian": adv.Gaussian(1.2).privacy_loss(),
    "some outcomes impossible": LatticeLoss.from_probs([0.5, 0.3, 0.2, 0.0], [0.2, 0.6, 0.0, 0.2]),
}


def amplified(loss: PrivacyLoss, rate: float) -> np.ndarray:
    """Theorem 8 of Balle, Barthe and Gaboardi, at epsilon >= 0."""
    return rate * np.asarray(loss.delta(np.log1p(np.expm1(EPSILONS) / rate)))


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("name", LOSSES)
def test_profiles_are_those_of_the_theorem_and_never_below(name: str, rate: float) -> None:
    loss = LOSSES[name]
    found, wanted = adv.sampled_loss(loss, rate).delta(EPSILONS), amplified(loss, rate)
    np.testing.assert_allclose(found, wanted, rtol=1e-9 if isinstance(loss, LatticeLoss) else 1e-2, atol=1e-7)
    assert (found >= wanted * (1.0 - 1e-12) - 1e-15).all()
    either = np.maximum(wanted, amplified(loss.swapped, rate))
    fixed = adv.sampled_loss(loss, rate, "without replacement")
    for side in fixed.directions:
        assert (side.delta(EPSILONS) >= either * (1.0 - 1e-9) - 1e-13).all()
        np.testing.assert_allclose(side.delta(EPSILONS), either, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_poisson_sampling_is_the_mixture_and_its_reader_is_bayes(rate: float) -> None:
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.2, 0.6, 0.0, 0.2])
    found = adv.sampled_loss(LatticeLoss.from_probs(p, q), rate)
    mixed = LatticeLoss.from_probs(rate * p + (1 - rate) * q, q)
    for one, other in ((found, mixed), (found.swapped, mixed.swapped)):
        np.testing.assert_allclose(one.delta(EPSILONS), other.delta(EPSILONS), rtol=1e-13, atol=1e-16)
    # the adversary who does not know whether the target was sampled, release by release
    prior, sampled = 0.3, rate * p + (1 - rate) * q
    posterior = prior * sampled / (prior * sampled + (1 - prior) * q)
    assert found.posterior(prior).mean("in") == pytest.approx(float(posterior @ sampled), rel=1e-13)


@pytest.mark.parametrize("rate", [0.05, 0.4])
@pytest.mark.parametrize("name", LOSSES)
def test_a_sample_of_fixed_size_is_certified_from_both_sides(name: str, rate: float) -> None:
    """Tails are those of the profile, in both directions; moments are never below those of a Poisson sample."""
    loss = adv.sampled_loss(LOSSES[name], rate, "without replacement")
    assert loss.swapped is loss
    e = np.concatenate([-EPSILONS[:0:-1], EPSILONS])
    p, q = loss.tail(e)
    np.testing.assert_allclose(p - np.exp(e) * q, loss.delta(e), rtol=1e-10, atol=1e-13)
    low, high = loss.bracket.delta(e)
    assert (low <= loss.delta(e)).all()
    assert (loss.delta(e) <= high).all()
    np.testing.assert_allclose(low, high, rtol=1e-9, atol=1e-15)
    alone = LOSSES[name]
    moment = loss.log_moment(2.0)
    sides = [adv.sampled_loss(one, rate) for one in alone.directions]
    assert moment >= max(side.log_moment(2.0) for one in sides for side in one.directions) * (1.0 - 1e-9)
    assert math.isfinite(moment) == (name != "some outcomes impossible")
    assert loss.kl_divergence >= max(one.kl_divergence for one in sides) * (1.0 - 1e-9)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "geometric"])
def test_samples_of_fixed_size_add_up_between_ends_that_meet(name: str) -> None:
    """One release is known to its digits; ten lie between the ends, no wider than those of a Poisson sample."""
    fixed, poisson = (10 * adv.sampled_loss(LOSSES[name], 0.1, scheme) for scheme in ("without replacement", "poisson"))
    low, high = fixed.bracket.epsilon(1e-5)
    assert 0.0 < low <= high
    assert high - low < 1e-3 * high
    assert high >= max(side.bracket.epsilon(1e-5)[0] for side in poisson.directions)


def test_a_rate_or_scheme_that_is_none_is_refused() -> None:
    loss = LOSSES["geometric"]
    for rate in (0.0, 1.5):
        with pytest.raises(ValueError, match="rate"):
            adv.sampled_loss(loss, rate)
    with pytest.raises(ValueError, match="scheme must be one of poisson, without replacement, got 'shuffled'"):
        adv.sampled_loss(loss, 0.1, "shuffled")


# Exact tails and moments


def mean_of(function: Callable[[mpmath.mpf], mpmath.mpf], mu: float, upper: float) -> mpmath.mpf:
    """Under z ~ N(0, 1), of a function of the ratio e^(mu z - mu^2 / 2): the trapezium rule, right to 60 digits."""
    with mpmath.workdps(40):
        points = [mpmath.mpf(k) / 5 for k in range(-70, round(5 * upper))]
        terms = (mpmath.exp(-z * z / 2) * function(mpmath.exp(mu * z - mpmath.mpf(mu) ** 2 / 2)) for z in points)
        return sum(terms, mpmath.mpf(0)) / (5 * mpmath.sqrt(2 * mpmath.pi))


@pytest.mark.parametrize(("mu", "rate"), [(1.0, 0.2), (0.3, 0.01), (1.25, 0.5)])
def test_moments_of_a_sampled_gaussian_are_those_to_forty_digits(mu: float, rate: float) -> None:
    loss = adv.sampled_loss(adv.Gaussian(1.0 / mu).privacy_loss(), rate)

    def mixed(x: mpmath.mpf) -> mpmath.mpf:
        return 1 - mpmath.mpf(rate) + mpmath.mpf(rate) * x

    for alpha in (1.5, 2.0, 3.0, 8.0):
        for side, power in ((loss, alpha), (loss.swapped, 1.0 - alpha)):

            def powered(x: mpmath.mpf, a: float = power) -> mpmath.mpf:
                return mixed(x) ** a

            exact = mpmath.log(mean_of(powered, mu, alpha * mu + 14)) / (alpha - 1)
            assert side.renyi(alpha) == pytest.approx(float(exact), rel=1e-9), (alpha, power)
    there = mean_of(lambda x: mixed(x) * mpmath.log(mixed(x)), mu, 16)
    back = mean_of(lambda x: -mpmath.log(mixed(x)), mu, 16)
    assert loss.kl_divergence == pytest.approx(float(there), rel=1e-9)
    assert loss.swapped.renyi(1.0) == pytest.approx(float(back), rel=1e-9)


def test_a_moment_of_an_order_that_is_not_whole_is_never_too_small() -> None:
    """Where the weight of x^a lies beyond what expectations see: between the moments of whole orders."""
    loss = adv.sampled_loss(adv.Gaussian(0.5).privacy_loss(), 0.1)
    exact = mpmath.log(mean_of(lambda x: (0.9 + mpmath.mpf("0.1") * x) ** 12.5, 2.0, 40)) / 11.5
    assert float(exact) <= loss.renyi(12.5) <= float(exact) * 1.01


@pytest.mark.parametrize("rate", [0.01, 0.3])
@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_tails_and_profiles_are_those_of_the_mixture(name: str, rate: float) -> None:
    """P(L > t) - e^t Q(L > t) in both directions; L is negative no farther than log(1 - q)."""
    base = LOSSES[name]
    loss = adv.sampled_loss(base, rate)
    t = np.array([-3.0, math.log1p(-rate) - 1e-9, -0.5 * rate, 0.0, 0.1 * rate, 0.4 * rate, 0.2, 1.5, 40.0])
    for side in loss.directions:
        p, q = side.tail(t)
        np.testing.assert_allclose(side.delta(t), np.maximum(p - np.exp(t) * q, 0.0), rtol=1e-9, atol=1e-14)
    before = np.log1p(np.expm1(0.2) / rate)
    p, q = base.tail(before)
    np.testing.assert_allclose(loss.tail(0.2), (rate * p + (1 - rate) * q, q), rtol=1e-12)
    assert loss.tail(-3.0) == (1.0, 1.0)
    least = math.log1p(-rate) if name == "gaussian" else math.log1p(rate * math.expm1(-1.0))
    assert loss.swapped.maximum == pytest.approx(-least, rel=1e-12)
    assert loss.swapped.tail(loss.swapped.maximum) == (0.0, 0.0)


# Composed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "sigma", "releases", "delta", "epsilon", "digits"),
    [
        (0.2, 1.0, 10, 1e-5, 4.98421, 5e-6),
        (0.2, 1.0, 500, 1e-5, 38.170, 2e-3),
        (0.2, 3.0, 50, 1 / 48000, 1.96081, 5e-6),
        (0.01, 0.8136, 100, 1e-5, 1.425, 5e-4),
        (0.01, 0.8136, 300, 1e-5, 1.923, 5e-4),
        (0.01, 0.8136, 1000, 1e-5, 3.000, 5e-4),
    ],
)
def test_many_sampled_gaussians_are_worth_what_the_finest_accountants_say(
    rate: float, sigma: float, releases: int, delta: float, epsilon: float, digits: float
) -> None:
    """Google's accountant on a grid of 1e-4 or 1e-5: an upper end. Ours is certified from both sides."""
    loss = releases * adv.sampled_loss(adv.Gaussian(sigma).privacy_loss(), rate)
    low, high = loss.bracket.epsilon(delta)
    assert low <= epsilon + digits
    assert low <= high <= (epsilon + digits) * 1.0005
    assert high - low < 5e-4 * high
    assert loss.epsilon(delta) == pytest.approx(high, rel=1e-6)


def _random_lists(rng: np.random.Generator) -> tuple[ComposedLoss, list[tuple[mpmath.mpf, mpmath.mpf]]]:
    """Up to three kinds of listed losses, some sampled, a few times each; and every outcome to 40 digits."""
    outcomes, parts, times = [(mpmath.mpf(1), mpmath.mpf(1))], [], []
    for _ in range(rng.integers(1, 4)):
        size = int(rng.integers(2, 4))
        p, q = ([int(x) for x in rng.integers(0 if rng.random() < 0.2 else 1, 1000, size)] for _ in range(2))
        p[0], q[-1] = max(p[0], 1), max(q[-1], 1)
        rate, count = float(rng.choice([1.0, 0.5, 0.1, 0.01])), int(rng.integers(1, 4 if size == 2 else 3))
        loss = LatticeLoss.from_probs(np.array(p) / sum(p), np.array(q) / sum(q))
        parts.append(adv.sampled_loss(loss, rate))
        times.append(count)
        share = mpmath.mpf(rate)
        out = [mpmath.mpf(x) / sum(q) for x in q]
        mixed = [share * x / sum(p) + (1 - share) * y for x, y in zip(p, out, strict=True)]
        for _ in range(count):
            outcomes = [(a * x, b * y) for a, b in outcomes for x, y in zip(mixed, out, strict=True)]
    return ComposedLoss(tuple(parts), tuple(times)), outcomes


def _never_misses(rng: np.random.Generator) -> None:
    """Profile and tail in both directions, within the brackets of the grid."""
    with mpmath.workdps(40):
        loss, outcomes = _random_lists(rng)
        farthest = max((abs(float(mpmath.log(p / q))) for p, q in outcomes if p and q), default=1.0)
        epsilons = np.append(rng.uniform(-0.6, 1.0, 3) * farthest, 0.0)
        for side, turned in ((loss, False), (loss.swapped, True)):
            pairs = [(q, p) for p, q in outcomes] if turned else outcomes
            deltas, tails = side.bracket.delta(epsilons), side.bracket.tail(epsilons)
            for i, e in enumerate(epsilons.tolist()):
                size = mpmath.exp(mpmath.mpf(e))
                delta = sum((max(p - size * q, mpmath.mpf(0)) for p, q in pairs), mpmath.mpf(0))
                tail = sum((p for p, q in pairs if p > size * q), mpmath.mpf(0))
                for exact, (low, high) in ((delta, deltas), (tail, tails)):
                    room = exact * mpmath.mpf("1e-12")
                    assert float(low[i]) <= exact + room, (loss, e)
                    assert exact - room <= float(high[i]) + 1e-300, (loss, e)


@pytest.mark.parametrize("seed", range(2))
def test_brackets_of_the_grid_contain_sums_of_forty_digits(seed: int) -> None:
    _never_misses(np.random.default_rng(seed))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(100, 110))
def test_brackets_of_the_grid_never_miss_in_a_thousand_compositions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(100):
        _never_misses(rng)
