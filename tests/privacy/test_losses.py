"""Laws every privacy loss obeys, over the catalogue, against sums over all outcomes of a pair of hypotheses."""

from __future__ import annotations

import itertools
import math
from functools import reduce
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from scipy.special import expit

import adversary as adv
from adversary.adversaries import counterfactual as cf
from adversary.privacy.losses.analytic import GaussianLoss, LaplaceLoss, LaplaceSumLoss
from adversary.privacy.losses.composition import ComposedLoss, compose_losses, repeat_loss
from adversary.privacy.losses.discrete_gaussian import DiscreteGaussianLoss
from adversary.privacy.losses.grid_rounding import add_masses
from adversary.privacy.losses.lattice import LatticeLoss, repeat_product
from adversary.privacy.mechanisms import LocalReport, PerturbedCount
from tests.catalogue import BRACKETED, DG, LOSSES, MECHANISMS, RHO1
from tests.oracles import paths
from tests.tables import over, refusals

EXACT = {name: loss for name, loss in LOSSES.items() if name not in BRACKETED}
LATTICE = {name: loss for name, loss in LOSSES.items() if isinstance(loss, LatticeLoss)}
FINITE = {name: loss for name, loss in EXACT.items() if name not in ("partly revealing", "exact")}
GRID = np.concatenate([-np.geomspace(30, 1e-3, 20), [0.0], np.geomspace(1e-3, 30, 20)])


def outcomes(noise: adv.Mechanism, shift: int, cells: int = 1) -> tuple[list[float], list[float]]:
    """Probabilities of every outcome that matters if in and if out, all cells together."""
    if isinstance(noise, adv.RandomizedResponse):
        support = np.arange(noise.categories)
    else:
        support = np.arange(noise.support(0)[0] - 15, noise.support(shift)[-1] + 16)
    one = [np.exp(noise.log_prob(support, value)).tolist() for value in (shift, 0)]
    p, q = ([math.prod(combination) for combination in itertools.product(law, repeat=cells)] for law in one)
    return p, q


PAIRS: dict[str, tuple[adv.Mechanism, int, int]] = {
    "discrete gaussian": (DG(0.3), 1, 1),
    "discrete gaussian, census block": (DG(RHO1), 1, 1),
    "discrete gaussian, shift 3": (DG(0.3), 3, 1),
    "discrete gaussian, two cells": (DG(0.3), 1, 2),
    "discrete gaussian, narrow": (DG(4.0), 1, 1),
    "discrete gaussian, sum": (DG(1.0).total(3), 1, 1),
    "geometric": (adv.Geometric(0.8), 1, 1),
    "geometric, shift 3": (adv.Geometric(0.8), 3, 1),
    "geometric, two cells": (adv.Geometric(0.8), 1, 2),
    "randomized response": (adv.RandomizedResponse(1.2), 1, 1),
    "randomized response, 4 answers, twice": (adv.RandomizedResponse(0.5, 4), 1, 2),
}


def _both(noise: Any, count: int, shift: int) -> tuple[Any, Any]:
    """Masses of every release under count + shift and under count; of noise with a density, of pieces of it."""
    if not noise.is_continuous:
        ends = noise.support(count), noise.support(count + shift)
        support = np.union1d(*ends)
        return np.exp(noise.log_prob(support, count + shift)), np.exp(noise.log_prob(support, count))
    far = noise.tail_radius(60.0)
    own = noise.breaks(far)
    cuts = np.concatenate([own, -own])
    width = math.sqrt(noise.variance) / 400.0 if noise.log_concave else np.inf  # or constant between its breaks
    fine = np.arange(-far, far + shift, width) if np.isfinite(width) else np.zeros(0)
    edges = np.unique(np.concatenate([cuts, cuts + shift, fine, [-far, far + shift]]))
    middle = 0.5 * (edges[1:] + edges[:-1]) + count
    p, q = (np.exp(noise.log_prob(middle, x)) * np.diff(edges) for x in (count + shift, count))
    return p / p.sum(), q / q.sum()


SETTLED = {
    name: m
    for name, m in MECHANISMS.items()
    if name != "laplace, sum of 3" and (m.is_additive or not m.is_continuous)  # whose loss is not derived, or by cells
}


@over(SETTLED, "noise")
@pytest.mark.parametrize("shift", [1, 2])
def test_the_loss_of_every_mechanism_is_that_of_the_list_of_both_distributions(noise: Any, shift: int) -> None:
    """Of the worst count where the noise depends on it; at least that where noise is put through a function."""
    if isinstance(noise, LocalReport) and shift >= noise.categories:
        return
    counts = range(12) if isinstance(noise.noise, PerturbedCount) or noise.steps else [0]
    if isinstance(noise, PerturbedCount) and math.isfinite(noise.largest_count):
        counts = range(int(noise.largest_count) - shift + 1)
    loss = noise.privacy_loss(shift, 1)
    top = loss.maximum if math.isfinite(loss.maximum) else 3.0
    epsilon = np.array([0.0, 0.1, 0.5, 0.99]) * top
    pairs = [_both(noise, count, shift) for count in counts]
    listed = [[np.maximum(p - np.exp(e) * q, 0.0).sum() for e in epsilon] for p, q in pairs]
    turned = [[np.maximum(q - np.exp(e) * p, 0.0).sum() for e in epsilon] for p, q in pairs]
    for side, wanted in ((loss, np.max(listed, axis=0)), (loss.swapped, np.max(turned, axis=0))):
        found = np.asarray(side.delta(epsilon))
        room = 2e-5 if noise.is_continuous and noise.log_concave else 1e-11
        assert (found >= wanted - room).all()
        if not noise.steps:
            np.testing.assert_allclose(found, wanted, rtol=0.0, atol=room)


# Tails and expectations


@over(LOSSES, "loss")
def test_tails_fall_from_one_to_the_infinite_mass(loss: Any) -> None:
    for side in (0, 1):
        tail = loss.tail(GRID)[side]
        assert np.all(np.diff(tail) <= 1e-16)
        assert np.all((tail >= 0) & (tail <= 1))
    assert loss.tail(1e300)[1] == 0.0
    assert isinstance(loss.tail(0.0)[0], float)


@over(EXACT, "loss")
def test_expectation_of_one_is_one(loss: Any) -> None:
    assert loss.expect(np.ones_like) == pytest.approx((1.0, 1.0), abs=2e-13)


@over(EXACT, "loss")
def test_tails_and_expectations_are_of_one_law(loss: Any) -> None:
    """E[f(L)] = integral of f'(t) P(L > t) for f = expit: the two methods describe the same law."""
    t = np.linspace(-60, 60, 240_001)
    slope = expit(t) * expit(-t)
    for side in (0, 1):
        integral = scipy.integrate.trapezoid(slope * loss.tail(t)[side], t)
        assert loss.expect(expit)[side] == pytest.approx(integral, abs=3e-4)


@over(FINITE, "loss")
def test_hypotheses_are_related_by_change_of_measure(loss: Any) -> None:
    """E_P[e^-L f(L)] = E_Q[f(L)]."""
    under_p = loss.expect(lambda z: np.exp(-np.maximum(z, -700.0)) * expit(z))[0]
    assert under_p == pytest.approx(loss.expect(expit)[1], rel=1e-10)


@over(LATTICE, "loss")
def test_loss_tails_are_related_by_change_of_measure(loss: Any) -> None:
    """Q(L > t) = E_P[e^-L; L > t], over the finite atoms."""
    for t in (-3.0, 0.0, 0.31, 2.5):
        weighed = loss.expect(lambda z, t=t: np.where(np.isfinite(z) & (z > t), np.exp(-np.clip(z, -700, 700)), 0.0))[0]
        assert loss.tail(t)[1] == pytest.approx(weighed, rel=1e-10, abs=1e-300)


@over(EXACT, "loss")
def test_swapping_mirrors_the_law(loss: Any) -> None:
    swapped = loss.swapped
    for t in (-2.3, -0.01, 0.0, 0.5, 4.1):
        p, q = loss.tail(t)
        below_q, below_p = swapped.tail(-t - 1e-12)  # P(-L > -t - 0), ties apart = P(L <= t), finite and not
        assert p + below_p == pytest.approx(1.0, abs=1e-9)
        assert q + below_q == pytest.approx(1.0, abs=1e-9)
    mirrored = swapped.expect(lambda z: expit(-z))
    assert mirrored[::-1] == pytest.approx(loss.expect(expit), abs=1e-12)
    twice = swapped.swapped
    np.testing.assert_allclose(twice.tail(GRID)[0], loss.tail(GRID)[0], rtol=1e-13)


def test_swapping_exchanges_what_only_one_truth_can_release() -> None:
    swapped = LatticeLoss.from_probs([0.7, 0.3, 0.0], [0.4, 0.5, 0.1]).swapped
    assert swapped.tail(1e9) == (pytest.approx(0.1), 0.0)
    assert swapped.swapped.tail(1e9) == (0.0, 0.0)


@over(EXACT, "loss")
def test_maximum_is_the_end_of_the_law(loss: Any) -> None:
    if np.isfinite(loss.maximum):
        assert loss.tail(loss.maximum * (1 + 1e-12) + 1e-12)[0] == pytest.approx(0.0, abs=1e-23)
        if loss.maximum > 0:
            assert loss.tail(loss.maximum * 0.99)[0] > 0
    else:
        assert loss.tail(5.0)[0] > 0 or loss.log_moment(1.0) > 0


@over({name: loss for name, loss in LOSSES.items() if isinstance(loss, LatticeLoss)}, "loss")
def test_a_lattice_whose_losses_run_on_has_no_largest_loss(loss: Any) -> None:
    twice = loss + loss
    for side, double in ((loss, twice), (loss.swapped, twice.swapped)):
        ends = math.inf if side.infinite_p or not loss.bounded else side.losses[-1]
        assert (side.bounded, side.maximum) == (loss.bounded, ends)
        assert double.maximum == pytest.approx(2.0 * ends, rel=1e-12)
    if not loss.bounded:
        assert loss.loss_bound(0.0) == math.inf
        assert not loss.never_exceeds(loss.losses[-1] + 1.0)


# Ties: a loss a few last digits from a threshold equals it


STEPS = [0.01, 0.1, 0.37, 1.1]
UNIT = {
    "randomized response": lambda e: adv.RandomizedResponse(e).privacy_loss(),
    "geometric": lambda e: adv.Geometric(e).privacy_loss(),
    "laplace": lambda e: adv.Laplace.from_epsilon(e).privacy_loss(),
    "pure": lambda e: adv.PureDP(e),
    "pure, groups of 3": lambda e: adv.PureDP(e / 3.0).group(3),
    "pure, three times": lambda e: 3 * adv.PureDP(e / 3.0),
    "geometric and laplace": lambda e: (
        adv.Geometric(e / 10.0).privacy_loss() + adv.Laplace.from_epsilon(0.9 * e).privacy_loss()
    ),
}


@pytest.mark.parametrize("name", UNIT)
@pytest.mark.parametrize("hundredths", range(1, 140, 23))
def test_nothing_is_lost_beyond_the_epsilon_a_mechanism_was_made_for(name: str, hundredths: int) -> None:
    epsilon = hundredths / 100.0
    g = UNIT[name](epsilon)
    assert g.pbdp_delta(epsilon) == 0.0
    assert cf.functional_bound(g, epsilon) == 0.0
    loss = g.worst_pair
    for at in (np.nextafter(epsilon, 0.0), epsilon, np.nextafter(epsilon, 9.0)):
        assert loss.tail(at) == (0.0, 0.0)
        assert loss.probabilistic_delta(at) == 0.0
    assert adv.ProbabilisticDP(epsilon, 0.0).is_satisfied_by(loss)
    assert loss.tail(epsilon * (1.0 - 1e-9))[0] > 0.1
    assert g.pbdp_delta(epsilon * (1.0 - 1e-9)) > 0.1


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("count", [2, 3, 12, 50])
def test_multiples_of_a_step_are_ties_however_they_are_computed(step: float, count: int) -> None:
    """P(L > k step) is P(more than so many of the answers say "in"), a binomial tail."""
    loss = count * adv.PureDP(step)
    chance = expit(step)
    for k in range(-count, count + 1):
        more = (count + k) // 2  # answers "in" beyond which the loss is above k steps
        expected = [scipy.stats.binom.sf(more, count, p) for p in (chance, 1.0 - chance)]
        for at in {k * step, float(f"{k * step:.12g}"), math.fsum([math.copysign(step, k)] * abs(k))}:
            assert loss.tail(at) == pytest.approx(expected, rel=1e-9, abs=1e-300)
            if k >= 0:
                beyond = expected[0] + scipy.stats.binom.cdf(-(-(count - k) // 2) - 1, count, chance)
                assert loss.probabilistic_delta(at) == pytest.approx(beyond, rel=1e-9, abs=1e-300)


def test_ties_of_many_discrete_gaussians_are_those_of_their_lattice() -> None:
    loss = 300 * DG(1e-3).privacy_loss()
    assert loss.route == "contour"
    at = 0.3 + 2e-3 * np.arange(1, 20)
    tails = [loss.tail(x)[0] for x in (at * (1.0 - 4e-16), at, at * (1.0 + 4e-16))]
    np.testing.assert_allclose(tails[0], tails[1], rtol=1e-9)
    np.testing.assert_allclose(tails[2], tails[1], rtol=1e-9)


# Against sums over outcomes


@pytest.mark.parametrize("name", PAIRS)
def test_delta_is_the_hockey_stick_divergence(name: str) -> None:
    loss = LOSSES[name]
    p, q = outcomes(*PAIRS[name])
    for epsilon in (-2.0, -0.3, 0.0, 0.1, 0.8, 1.7, 4.0):
        assert loss.delta(epsilon) == pytest.approx(paths.privacy_profile(p, q, epsilon), rel=1e-9, abs=1e-15)
        assert loss.swapped.delta(epsilon) == pytest.approx(paths.privacy_profile(q, p, epsilon), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("name", PAIRS)
def test_tails_add_up_outcomes(name: str) -> None:
    loss = LOSSES[name]
    p, q = (np.array(law) for law in outcomes(*PAIRS[name]))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(p) - np.log(q)
    for t in (-1.7, -0.05, 0.05, 0.9, 3.3):
        beyond = value > t
        assert loss.tail(t) == pytest.approx((p[beyond].sum(), q[beyond].sum()), rel=1e-9, abs=1e-16)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("order", [1.1, 1.5, 2.0, 3.0, 7.0])
def test_renyi_divergence_is_its_definition(name: str, order: float) -> None:
    p, q = outcomes(*PAIRS[name])
    kept = [(a, b) for a, b in zip(p, q, strict=True) if b > 0]
    expected = paths.renyi_divergence(*zip(*kept, strict=True), order)
    if name == "discrete gaussian, narrow" and order == 7.0:
        expected = 7.0 * 4.0  # whole orders of a discrete Gaussian; the outcomes that carry it are beyond the list
    assert LOSSES[name].renyi(order) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("order", [1.0 + 1e-9, 1.5, 2.0, 100.0, 1e8])
@pytest.mark.parametrize("epsilon", [1e-20, 1e-10, 1e-3, 0.3, 10.0, 1e5])
def test_renyi_divergence_of_laplace_is_the_closed_form_in_200_digits(epsilon: float, order: float) -> None:
    with mpmath.workdps(200):
        e, a = mpmath.mpf(epsilon), mpmath.mpf(order)
        moment = (a * mpmath.exp((a - 1) * e) + (a - 1) * mpmath.exp(-a * e)) / (2 * a - 1)
        expected = float(mpmath.log(moment) / (a - 1))
    assert LaplaceLoss(epsilon).renyi(order) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rho", [1e-8, 1e-3, RHO1, 1.0, 5.0, 40.0])
def test_discrete_gaussian_costs_at_most_rho(rho: float) -> None:
    """D_alpha <= alpha rho, with equality at whole orders (Canonne, Kamath and Steinke, Theorem 4)."""
    loss = DG(rho).privacy_loss()
    for order in (1.2, 1.9, 2.0, 2.5, 3.0):
        divergence = loss.renyi(order)
        assert divergence <= order * rho * (1 + 1e-9) + 1e-14 / (order - 1)
        if order in (2.0, 3.0) and rho <= 5.0:
            assert divergence == pytest.approx(order * rho, rel=1e-6 if rho < 1e-6 else 1e-9)


def test_far_tail_of_a_loss_keeps_relative_accuracy() -> None:
    """P(L > t) far out is one tail of the noise: P(1 + Z >= u), u the first release with rho (2u - 1) > t."""
    rho = 0.5
    loss = DG(rho).privacy_loss()
    for u in (10, 20, 30):
        t = rho * (2 * u - 1) - 0.5 * rho
        p, q = loss.tail(t)
        assert math.log(p) == pytest.approx(float(np.log(DG(rho).sf(u - 2, 0))), rel=1e-12)
        assert math.log(q) == pytest.approx(float(np.log(DG(rho).sf(u - 1, 0))), rel=1e-12)


@pytest.mark.parametrize("scale", [0.2, 1.0, 4.0])
def test_laplace_loss_against_integrals(scale: float) -> None:
    noise, loss = adv.Laplace(scale), adv.Laplace(scale).privacy_loss()
    for epsilon in (-0.1, 0.0, 0.2, 0.9 / scale):

        def integrand(x: float, e: float = epsilon) -> float:
            return max(0.0, math.exp(noise.log_prob(x, 1)) - math.exp(e + noise.log_prob(x, 0)))

        corners = sorted([-40 * scale, 0.0, min(max(0.5 + epsilon * scale / 2, 0.0), 1.0), 1.0, 40 * scale + 1])
        excess = sum(scipy.integrate.quad(integrand, low, high)[0] for low, high in itertools.pairwise(corners))
        assert loss.delta(epsilon) == pytest.approx(excess, abs=1e-7)
    corners = [-60 * scale, 0.0, 1.0, 60 * scale + 1]
    moment = sum(
        scipy.integrate.quad(lambda x: math.exp(2 * noise.log_prob(x, 1) - noise.log_prob(x, 0)), low, high)[0]
        for low, high in itertools.pairwise(corners)
    )
    assert loss.renyi(2.0) == pytest.approx(math.log(moment), rel=1e-7)


def test_exact_release_is_never_no_loss() -> None:
    loss = adv.Exact().privacy_loss()
    assert loss.delta(10.0) == 1.0
    assert loss.tail(1e9) == (1.0, 0.0)
    assert loss.maximum == math.inf
    assert loss.epsilon(0.5) == math.inf
    assert adv.Exact().privacy_loss(0).delta(0.0) == 0.0


# Composition


def test_composition_is_the_product_of_the_pairs() -> None:
    first, second = adv.RandomizedResponse(1.2), adv.Geometric(0.8)
    loss = first.privacy_loss() + second.privacy_loss(2)
    (p1, q1), (p2, q2) = outcomes(first, 1), outcomes(second, 2)
    p, q = ([a * b for a, b in itertools.product(*laws)] for laws in ((p1, p2), (q1, q2)))
    for epsilon in (-1.0, 0.0, 0.5, 1.3, 2.7):
        assert loss.delta(epsilon) == pytest.approx(paths.privacy_profile(p, q, epsilon), rel=1e-9, abs=1e-15)
    assert loss.renyi(2.5) == pytest.approx(paths.renyi_divergence(p, q, 2.5), rel=1e-9)


def test_renyi_divergences_add() -> None:
    a, b = LOSSES["discrete gaussian"], LOSSES["geometric"]
    assert (a + b).renyi(3.0) == pytest.approx(a.renyi(3.0) + b.renyi(3.0), rel=1e-12)
    gaussian = LOSSES["gaussian"]
    assert (gaussian + b).renyi(3.0) == pytest.approx(gaussian.renyi(3.0) + b.renyi(3.0), rel=1e-12)


# Brackets


@pytest.mark.parametrize("name", [name for name in BRACKETED if isinstance(LOSSES[name], ComposedLoss)])
def test_moments_of_a_bracketed_loss_are_exact(name: str) -> None:
    """Logs of moments add, whatever was rounded."""
    loss: Any = LOSSES[name]
    counted = loss.counted.items()
    assert loss.log_moment(1.5) == pytest.approx(sum(n * part.log_moment(1.5) for part, n in counted), rel=1e-14)
    assert loss.maximum == pytest.approx(sum(n * part.maximum for part, n in counted))


@pytest.mark.parametrize("name", BRACKETED)
def test_bracket_is_ordered_and_narrow(name: str) -> None:
    loss = LOSSES[name]
    e = np.linspace(-2.0, 6.0, 33)
    lower, upper = loss.bracket.delta(e)
    assert np.all(lower <= upper + 1e-15)
    assert np.max(upper - lower) < 5e-3


def test_bracket_contains_two_laplace_releases() -> None:
    """Two Laplace releases of epsilon 1/3 each: delta by a double integral over the two losses."""
    e0 = 1 / 3
    loss = adv.Laplace(3.0).privacy_loss(1, 2)
    assert isinstance(loss, ComposedLoss)
    one = LaplaceLoss(e0)
    for epsilon in (0.0, 0.2, 0.5):
        exact = one.expect(lambda z, e=epsilon: np.array([one.delta(e - x) for x in z]))[0]
        lower, upper = loss.bracket.delta(epsilon)
        assert lower - 1e-6 <= exact <= upper + 1e-6
        assert upper - lower < 1e-3


def test_bracket_contains_gaussian_and_geometric() -> None:
    gaussian, geometric = adv.Gaussian(2.0).privacy_loss(), adv.Geometric(0.8).privacy_loss()
    loss = gaussian + geometric
    for epsilon in (-0.5, 0.0, 0.3, 1.0, 2.0):
        exact = geometric.expect(lambda z, e=epsilon: np.array([gaussian.delta(e - x) for x in z]))[0]
        lower, upper = loss.bracket.delta(epsilon)
        assert lower - 1e-12 <= exact <= upper + 1e-12
        assert loss.delta(epsilon) == upper
    assert loss.swapped.bracket.delta(0.3)[0] <= loss.swapped.bracket.delta(0.3)[1]


def test_bracket_contains_a_census_path() -> None:
    """Three levels on three lattices: the certified engine, the atoms themselves, and both ways of rounding."""
    parts = [DG(rho).privacy_loss() for rho in (0.3, 0.5, 0.21)]
    certified = compose_losses(parts)
    assert isinstance(certified, DiscreteGaussianLoss)
    listed = compose_losses([part.law for part in parts])
    assert isinstance(listed, LatticeLoss)
    rounded = ComposedLoss(tuple(parts))
    for epsilon in (-1.0, 0.0, 0.5, 2.0, 5.0):
        low, high = certified.bracket.delta(epsilon)
        assert low * (1 - 1e-12) <= listed.delta(epsilon) <= high * (1 + 1e-12)
        lower, upper = rounded.bracket.delta(epsilon)
        assert lower - 1e-14 <= listed.delta(epsilon) <= upper + 1e-14
        assert upper - lower < 1e-2


# Bad input


test_bad_input_is_refused_with_name_rule_and_value = refusals(
    (lambda: GaussianLoss(-1.0), "mu must be non-negative.*-1"),
    (lambda: repeat_loss(LOSSES["geometric"], 1.5), r"times must be a whole number.*1\.5"),  # type: ignore[arg-type]
    (lambda: LOSSES["geometric"].epsilon(1.5), r"delta must be in \[0, 1\], got 1\.5"),
)


def test_probabilistic_delta_is_the_mass_beyond_under_the_worse_truth() -> None:
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.2, 0.6, 0.0, 0.2])
    with np.errstate(divide="ignore"):
        size = np.abs(np.log(p) - np.log(q))
    loss = LatticeLoss.from_probs(p, q)
    for epsilon in (0.0, 0.5, 0.69, 0.7, 0.95, 3.0):
        beyond = size > epsilon
        assert loss.probabilistic_delta(epsilon) == pytest.approx(max(p[beyond].sum(), q[beyond].sum()), abs=1e-15)
        assert loss.probabilistic_delta(epsilon) >= loss.worst_delta(epsilon)
    twice = adv.RandomizedResponse(1.0).privacy_loss() + adv.RandomizedResponse(1.0).privacy_loss()
    assert twice.probabilistic_delta(0.5) == pytest.approx(0.5344466454 + 0.0723294881, abs=1e-10)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([0.0, 0.0], [np.log(0.5)] * 2, [np.log(0.5)] * 2), "losses must rise"),
        (([1.0, -1.0], [np.log(0.5)] * 2, [np.log(0.5)] * 2), "losses must rise"),
        (([0.0, math.nan], [np.log(0.5)] * 2, [np.log(0.5)] * 2), "losses must rise"),
        (([0.0], [np.log(0.9)], [0.0]), r"masses of p.*0\.9"),
        (([0.0], [0.0], [np.log(0.8)]), r"masses of q.*0\.8"),
        (([0.0, 1.0], [0.0], [0.0]), "one length"),
    ],
)
def test_a_lattice_that_is_no_pair_of_laws_is_refused(arrays: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LatticeLoss(*(np.array(x) for x in arrays))


@pytest.mark.parametrize("e", [1e-100, 1e-17, 4e-15, 1e-9])
def test_tiny_losses_add_up_and_are_not_merged(e: float) -> None:
    for loss in (adv.RandomizedResponse(e).privacy_loss(), adv.Geometric(e).privacy_loss(), adv.PureDP(e).worst_pair):
        assert loss.delta([0.0, 0.5 * e]) == pytest.approx([math.tanh(0.5 * e), 0.25 * e], rel=1e-6)
        thrice = repeat_loss(loss, 3)
        assert thrice.losses == pytest.approx(e * np.array([-3.0, -1.0, 1.0, 3.0]), rel=1e-12)
        assert thrice.delta(0.0) == pytest.approx(0.75 * e, rel=1e-6)


def test_laplace_power_at_levels_that_few_doubles_hold() -> None:
    assert LaplaceLoss(1000.0).power([0.0, 5e-324, 1e-310, 0.3, 1.0]) == pytest.approx([0.0, 1.0, 1.0, 1.0, 1.0])
    e = 720.0
    level = np.array([1e-314, 2e-313, 1e-312, 1e-305])
    lifted = np.exp(e + np.log(level))
    assert LaplaceLoss(e).power(level) == pytest.approx(np.where(lifted <= 0.5, lifted, 1.0 - 0.25 / lifted), rel=1e-9)


@pytest.mark.parametrize("times", [1, 2, 7])
def test_equal_parts_on_a_grid_add_up_as_one_by_one(times: int) -> None:
    """A narrow law with two far ends, whose masses between are 0 in doubles: nearly all, or few of them."""
    for inner in (0, 40, 400):
        mass = np.zeros(401)
        mass[[0, -1]] = 0.25, 0.5
        mass[1 : inner + 1] += 0.25 / max(inner, 1)
        together = repeat_product(mass, times, np.ones(1), add_masses)
        slow = reduce(np.convolve, [mass] * times)
        np.testing.assert_allclose(together, slow, rtol=1e-13, atol=0.0)


def test_a_thousand_sharp_releases_are_added_up() -> None:
    """Losses of at most 33,333 nats, and hardly below it if the target is in, a thousand times: 685,000 bins."""
    loss = repeat_loss(adv.Laplace.from_epsilon(1e5 / 3.0).privacy_loss(), 1000)
    assert loss.maximum == pytest.approx(1e8 / 3.0)
    assert [loss.delta(0.0), loss.tail(3.3e7)[0], loss.tail(loss.maximum)[0]] == pytest.approx([1.0, 1.0, 0.0])


# Laplace losses alike


def _sum_of_laplaces(epsilon0: float, count: int, epsilon: float) -> mpmath.mpf:
    """Delta in 30 digits: every number of losses at either end, and an integral over the sum of those inside."""
    with mpmath.workdps(30):
        e, total = mpmath.mpf(epsilon0), mpmath.mpf(0)
        for inside in range(count + 1):
            for ups in range(count - inside + 1):
                downs = count - inside - ups
                weight = mpmath.factorial(count) / (
                    mpmath.factorial(inside) * mpmath.factorial(ups) * mpmath.factorial(downs)
                )
                weight *= mpmath.mpf(1) / 2 ** (ups + downs) * mpmath.exp(-e * downs)
                start = (ups - downs) * e
                if not inside:
                    total += weight * max(mpmath.mpf(0), 1 - mpmath.exp(epsilon - start))
                    continue
                # the density of one inside is e^((z - e) / 2) / 4 on [-e, e]: of several, a spline times e^(z / 2)
                knots = [2 * e * j - inside * e for j in range(inside + 1)]

                def density(z: mpmath.mpf, n: int = inside) -> mpmath.mpf:
                    terms = (
                        (-1) ** j * mpmath.binomial(n, j) * max(mpmath.mpf(0), z + n * e - 2 * e * j) ** (n - 1)
                        if n > 1 or z + n * e - 2 * e * j >= 0
                        else mpmath.mpf(0)
                        for j in range(n + 1)
                    )
                    spline = sum(terms, mpmath.mpf(0)) / mpmath.factorial(n - 1)
                    return mpmath.exp((z - n * e) / 2) / 4**n * spline

                low = max(epsilon - start, knots[0])
                cuts = [low, *(k for k in knots if k > low)]
                if len(cuts) > 1:
                    total += weight * mpmath.quad(
                        lambda z, s=start: (1 - mpmath.exp(epsilon - s - z)) * density(z), cuts
                    )
        return total


@pytest.mark.parametrize(
    ("epsilon0", "count"),
    [(0.7, 1), (0.7, 2), pytest.param(2.5, 3, marks=pytest.mark.slow), pytest.param(0.05, 4, marks=pytest.mark.slow)],
)
def test_a_sum_of_laplace_losses_is_its_integral_in_thirty_digits(epsilon0: float, count: int) -> None:
    reach = epsilon0 * count
    epsilons = [0.0, 0.23 * reach, 0.61 * reach, 0.97 * reach]
    wanted = [float(_sum_of_laplaces(epsilon0, count, e)) for e in epsilons]
    low, high = LaplaceSumLoss(epsilon0, count).bracket(epsilons)
    assert (low <= np.array(wanted) * (1.0 + 1e-15)).all()
    assert (high >= np.array(wanted) * (1.0 - 1e-15)).all()
    np.testing.assert_allclose(low, high, rtol=1e-8)


@pytest.mark.parametrize(("epsilon0", "count"), [(0.1, 100), (1.0, 20), (4.0, 30)])
def test_a_sum_of_laplace_losses_lies_within_the_ends_of_the_grid(epsilon0: float, count: int) -> None:
    """A hundred to 1e-8, in both directions; deeper than splines see by the grid."""
    loss: Any = count * LaplaceLoss(epsilon0)
    epsilons = np.linspace(-0.3, 0.95, 8) * count * epsilon0
    low, high = loss.bracket.delta(epsilons)
    below, above = loss._grid_delta(epsilons)
    assert (low <= np.asarray(above) * (1.0 + 1e-12)).all()
    assert (high >= np.asarray(below) * (1.0 - 1e-12)).all()
    assert ((high - low)[high > 1e-15] < 1e-8 * high[high > 1e-15]).all()
    ends = loss.bracket.epsilon(1e-6)
    assert ends[1] - ends[0] <= 1e-8 * ends[1]
    assert loss.epsilon(1e-6) == pytest.approx(ends[1], rel=1e-9)
