"""Unary encoding and RAPPOR: reports of several bits, against a list of all vectors of bits."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import adversary as adv
from adversary.report.files import load_scenario
from tests.oracles.audits import bit_vectors
from tests.tables import refusals

Unary = adv.UnaryEncoding


REPORTS = {
    "symmetric": Unary.from_epsilon(2.0),
    "optimised": Unary.from_epsilon(2.0, optimised=True),
    "three bits each": Unary(0.8, 0.1, ones=3),
    "permanent": Unary(permanent=0.5, ones=2),
    "permanent and instantaneous": Unary(0.75, 0.5, ones=2, permanent=0.4),
    "permanent, five reports": Unary(0.75, 0.5, permanent=0.5, reports=5),
    "two bits each, two reports": Unary(0.7, 0.2, ones=2, permanent=0.3, reports=2),
}


@pytest.mark.parametrize("name", REPORTS)
def test_the_loss_is_that_of_all_vectors_of_bits(name: str) -> None:
    noise, epsilon = REPORTS[name], np.linspace(-4.0, 4.0, 81)
    one, zero = (bit_vectors(noise, answer) for answer in (1, 0))
    assert math.fsum(one.values()) == pytest.approx(1.0, abs=1e-12)
    p, q = np.array([*one.values()]), np.array([*zero.values()])
    wanted = np.maximum(p - np.exp(epsilon)[:, None] * q, 0.0).sum(1)
    loss = noise.report_loss()
    np.testing.assert_allclose(loss.delta(epsilon), wanted, atol=1e-12)
    np.testing.assert_allclose(loss.swapped.delta(epsilon), wanted, atol=1e-12)
    assert noise.epsilon == pytest.approx(float(np.log(p / q).max()), rel=1e-12)
    assert noise.nominal_guarantee.epsilon(0.0) == noise.epsilon
    assert loss.renyi(2.0) / 2.0 <= noise.report_rho() <= noise.epsilon * math.tanh(noise.epsilon / 2.0) * (1 + 1e-12)


@pytest.mark.parametrize("name", REPORTS)
def test_what_is_released_is_the_place_of_the_likelihood_ratio(name: str) -> None:
    noise = REPORTS[name]
    one, zero = (bit_vectors(noise, answer) for answer in (1, 0))
    ratio = {seen: round(math.log(one[seen] / zero[seen]), 9) + 0.0 for seen in one}
    by_ratio: dict[float, float] = defaultdict(float)
    for seen, chance in one.items():
        by_ratio[ratio[seen]] += chance
    ordered = sorted(by_ratio)
    middle = ordered.index(0.0)
    places = noise.support(1)
    assert places.tolist() == [i - middle for i in range(len(ordered))]
    np.testing.assert_allclose(np.exp(noise.log_prob(places, 1)), [by_ratio[x] for x in ordered], rtol=1e-9)
    np.testing.assert_allclose(noise.log_prob(places, 0), np.asarray(noise.log_prob(-places, 1)), rtol=1e-9)


def test_the_number_of_one_report_is_a_difference_of_ones() -> None:
    noise = Unary(0.8, 0.1, ones=3)
    found: dict[int, float] = defaultdict(float)
    for seen, chance in bit_vectors(noise, 1).items():
        found[sum(seen[:3]) - sum(seen[3:])] += chance
    for place, chance in found.items():
        assert math.exp(noise.log_prob(place, 1)) == pytest.approx(chance, rel=1e-12)


def test_epsilon_has_the_chances_of_the_papers() -> None:
    """Wang et al. 2017, section 4: p / (1 - p) = e^(eps / 2); p = 1/2, q = 1 / (e^eps + 1). Erlingsson et al. 2014."""
    symmetric, optimised = Unary.from_epsilon(2.0), Unary.from_epsilon(2.0, optimised=True)
    assert symmetric.stay == pytest.approx(math.e / (math.e + 1.0))
    assert symmetric.rise == pytest.approx(1.0 - symmetric.stay)
    assert optimised.stay == 0.5
    assert optimised.rise == pytest.approx(1.0 / (math.exp(2.0) + 1.0))
    for made in (symmetric, optimised, Unary.from_epsilon(6.0, cells=3), Unary.from_epsilon(2.0, ones=4)):
        assert made.epsilon == pytest.approx(2.0)
    f, p, q, h = 0.5, 0.5, 0.75, 2  # p and q as RAPPOR has them: chances of a permanent 0 and 1
    assert Unary(permanent=f, ones=h).epsilon == pytest.approx(2 * h * math.log((1.0 - f / 2.0) / (f / 2.0)))
    set_bit, clear = 0.5 * f * (p + q) + (1.0 - f) * q, 0.5 * f * (p + q) + (1.0 - f) * p
    one_report = h * math.log(set_bit * (1.0 - clear) / (clear * (1.0 - set_bit)))
    assert Unary(q, p, h, f).epsilon == pytest.approx(one_report)
    assert one_report == pytest.approx(1.0743, abs=1e-4)


def test_two_differing_bits_are_two_randomized_responses() -> None:
    epsilon = np.linspace(-3.0, 3.0, 61)
    two = adv.RandomizedResponse(1.0).privacy_loss(1, 2)
    np.testing.assert_allclose(Unary.from_epsilon(2.0).report_loss().delta(epsilon), two.delta(epsilon), atol=1e-14)
    assert Unary.from_epsilon(2.0).report_rho() == pytest.approx(2.0 * math.tanh(0.5), rel=1e-3)


def test_reports_on_permanent_bits_never_say_more_than_these() -> None:
    always, epsilon = Unary(permanent=0.5), np.linspace(0.0, 2.5, 26)
    bound = np.asarray(always.report_loss().delta(epsilon))
    last = np.zeros(epsilon.size)
    for n in (1, 2, 10, 100):
        several = Unary(0.75, 0.5, permanent=0.5, reports=n)
        assert Unary(0.75, 0.5, permanent=0.5).memoised(n) == several
        delta = np.asarray(several.report_loss().delta(epsilon))
        assert (delta <= bound + 1e-12).all()
        assert (delta >= last - 1e-12).all()
        last = delta
    assert several.epsilon == pytest.approx(always.epsilon, rel=1e-6)
    np.testing.assert_allclose(last, bound, atol=1e-2)
    fresh = 100 * Unary(0.75, 0.5, permanent=0.5).report_loss()
    assert fresh.epsilon(0.0) > 20.0 * several.epsilon


def test_the_same_answer_again_says_nothing_new() -> None:
    for noise in (adv.RandomizedResponse(1.0, 7), Unary.from_epsilon(2.0), adv.Geometric(0.3)):
        assert noise.memoised(365) == noise
    with pytest.raises(ValueError, match="must be those of the noise inside"):
        adv.postprocessing.clamped(adv.Geometric(1.0)).memoised(3)


test_bad_chances_are_refused_in_one_line = refusals(
    (lambda: Unary(0.2, 0.5), "stay must be above rise, got 0.2 and 0.5"),
    (lambda: Unary(), "stay must be below 1 and rise above 0 without permanent noise, got 1.0 and 0.0"),
    (lambda: Unary(0.5, 0.0), "rise above 0 without permanent noise, got 0.5 and 0.0"),
    (lambda: Unary(permanent=1.0), "permanent must be below 1, got 1.0"),
    (lambda: Unary(1.2, 0.5), r"stay must be in \[0, 1\], got 1.2"),
    (lambda: Unary(0.7, 0.5, ones=0), "ones must be at least 1, got 0"),
    (lambda: Unary(0.7, 0.5, 3, 0.5, 365), "at most 4,000,000 pairs of likelihood ratios, got 3 and 365"),
    (lambda: Unary(0.7, 0.5).log_prob(0, 2), "value must be below categories = 2, got 2"),
    (lambda: Unary.from_epsilon(-1.0), "epsilon must be positive"),
    (lambda: Unary.from_epsilon(1.0, rise=0.2), "rise must be left out beside epsilon"),
    (lambda: Unary.from_stay(0.7, rise=0.2, optimised=True), "optimised must be left out beside stay"),
    (lambda: Unary(0.7, 0.5).total(2), "unary encoding is not additive noise: a sum of 2 releases has no total"),
)


def _file(folder: Path, noise: str) -> adv.Plan:
    """The plan of a file with one level of this noise."""
    (folder / "scenario.toml").write_text(
        'neighbours = "bounded"\n[truth]\nanswer = 1\n[adversary]\nprior = 0.5\nknown = 0\n'
        f'[plan]\n[[plan.level]]\nname = "answer"\n{noise}\n'
    )
    return load_scenario(folder / "scenario.toml").plan


RAPPOR = 'noise = "unary encoding"\nstay = 0.75\nrise = 0.5\npermanent = 0.5'


@pytest.mark.parametrize(
    ("noise", "wanted"),
    [
        (RAPPOR, [Unary(0.75, 0.5, permanent=0.5)]),
        (f"{RAPPOR}\nreleases = 2", [Unary(0.75, 0.5, permanent=0.5)] * 2),
        (f"{RAPPOR}\nreleases = 30\nmemoised = true", [Unary(0.75, 0.5, permanent=0.5, reports=30)]),
        ('noise = "unary encoding"\nepsilon = 2\noptimised = true\nones = 2', [Unary(0.5, 1 / (1 + math.e), ones=2)]),
        (
            'noise = "randomized response"\nepsilon = 1\ncategories = 2925\nreleases = 9\nmemoised = true',
            [adv.RandomizedResponse(1.0, 2925)],
        ),
    ],
    ids=["one report", "fresh reports", "memoised bits", "optimised", "memoised answer"],
)
def test_reports_in_a_file(tmp_path: Path, noise: str, wanted: list[adv.Mechanism]) -> None:
    plan = _file(tmp_path, noise)
    assert [level.mechanism for level in plan.levels] == wanted
    assert plan.unit_loss().epsilon(0.0) == pytest.approx(sum(one.report_loss().epsilon(0.0) for one in wanted))


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (f"{RAPPOR}\nones = 9\nreleases = 30\nmemoised = true", "at most 4,000,000 pairs of likelihood ratios"),
        (f"{RAPPOR}\noptimised = true", "optimised must be left out beside stay"),
        (f"{RAPPOR}\nclosed = true", r'closed: must be left out of unary encoding noise; it is for noise = "perturb'),
        (f"{RAPPOR}\nmemoised = 1", "memoised: must be true or false, got 1"),
        (f"{RAPPOR}\nones = 20000", "ones: must be at most 10,000, got 20,000"),
        ('noise = "unary encoding"\nepsilon = 1\nrise = 0.2', "rise must be left out beside epsilon"),
        ('noise = "laplace"\nscale = 1\nlocal = true', "local: must be left out of laplace noise"),
    ],
)
def test_reports_that_a_file_cannot_ask_for(tmp_path: Path, noise: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _file(tmp_path, noise)
