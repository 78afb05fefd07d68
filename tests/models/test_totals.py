"""Released totals of many latents: by convolution, against sums over all states written out."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest
import scipy.stats as st
from numpy.typing import NDArray

import adversary as adv
from adversary.models.enumeration import compile_enumerator
from adversary.models.importance import WeighedPrior
from adversary.models.noise import released

NOISE = adv.Geometric(1.0)
CHANCES = np.linspace(0.1, 0.8, 12)
SEEN = {"noisy": np.array([7, 11, 3]), "first": np.array([2, 3, 0])}


def survey(unknown: bool = False) -> pm.Model:
    """Twelve people of a trait, four counts with weights, and the target twice, in one total; a total of the first."""
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 0.5) if unknown else 0.0
        chances = pm.math.sigmoid(np.log(CHANCES / (1 - CHANCES)) + level)
        present = pm.Bernoulli("in", 0.3)
        people = pm.Bernoulli("people", chances, shape=12)
        counts = pm.Binomial("counts", 3, 0.4, shape=4)
        weighted = (counts * np.array([1, 2, 0, -1])).sum()
        released("noisy", NOISE, people.sum() + 2 * present + weighted)
        released("first", NOISE, people[:3].sum() + counts[0])
    return model


def posterior(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(in) for each of `SEEN` and its evidence, (release, 2): the people of one total alone by their own law."""
    rest = np.ones(1)
    for chance in chances[3:]:
        rest = np.convolve(rest, [1 - chance, chance])
    law, masses = st.binom.pmf(np.arange(4), 3, 0.4), np.zeros((3, 2))
    for head in itertools.product((0, 1), repeat=3):
        known = np.prod(np.where(np.array(head) == 1, chances[:3], 1 - chances[:3]))
        for a, b, d in itertools.product(range(4), repeat=3):
            chance = known * law[a] * law[b] * law[d] * np.exp(NOISE.log_prob(SEEN["first"], sum(head) + a))
            for present, own in ((0, 0.7), (1, 0.3)):
                cells = sum(head) + np.arange(10) + 2 * present + a + 2 * b - d
                noise = np.exp(NOISE.log_prob(SEEN["noisy"][:, None], cells))
                masses[:, present] += own * chance * (noise @ rest)
    return np.stack([masses[:, 1] / masses.sum(axis=1), masses.sum(axis=1)], axis=1)


def test_a_total_is_a_convolution() -> None:
    """2^12 x 4^4 x 2 joint states: the nine people and the counts that only the total reads are added up."""
    run = compile_enumerator(survey(), ["noisy", "first"])
    assert run.states < 20_000
    found, right = run(SEEN), posterior(CHANCES)
    np.testing.assert_allclose(found["posterior"].values, right[:, 0], atol=1e-12)
    np.testing.assert_allclose(found["log_evidence"].values, np.log(right[:, 1]), atol=1e-10)
    assert found["prior"].item() == pytest.approx(0.3, abs=1e-12)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_chain_of_additions_is_a_convolution(shape: tuple[int, ...]) -> None:
    """People one by one, added with +, on their own or as rows: 2^12 states, or 2^24."""
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.3)
        total = present if not shape else present * np.array([1, 0])
        for i, chance in enumerate(CHANCES):
            total = total + pm.Bernoulli(f"person {i}", chance, shape=shape)
        released("noisy", NOISE, total)
    run = compile_enumerator(model, ["noisy"])
    assert run.states < 200
    law = np.ones(1)
    for chance in CHANCES:
        law = np.convolve(law, [1 - chance, chance])
    noise = [NOISE.log_prob(np.array(7), np.arange(13) + t) for t in (0, 1)]
    out, inside = 0.7 * np.exp(noise[0]) @ law, 0.3 * np.exp(noise[1]) @ law
    found = run({"noisy": np.full(shape, 7)})
    assert found["posterior"].item() == pytest.approx(inside / (inside + out), abs=1e-12)


def test_a_target_among_those_added_up_stays_apart() -> None:
    """What a target reads is no part of the convolution, and has the law of the sum over all states."""
    with pm.Model() as model:
        people = pm.Bernoulli("people", CHANCES[:8], shape=8)
        pm.Deterministic("in", people[2])
        pm.Deterministic("many", (people.sum() > 4).astype("int64"))
        released("noisy", NOISE, people.sum())
    states = np.array([*itertools.product((0, 1), repeat=8)])
    mass = np.where(states == 1, CHANCES[:8], 1 - CHANCES[:8]).prod(axis=1)
    mass = mass * np.exp(NOISE.log_prob(np.array(5), states.sum(axis=1)))
    found = adv.enumerate_posterior(model, {"noisy": 5}, ["in", "many"])
    assert found["posterior[in]"].item() == pytest.approx(mass[states[:, 2] == 1].sum() / mass.sum(), abs=1e-12)
    assert found["posterior[many]"].item() == pytest.approx(mass[states.sum(axis=1) > 4].sum() / mass.sum(), abs=1e-12)


@pytest.mark.slow
def test_weighed_draws_add_up_totals_too() -> None:
    prior = WeighedPrior.of(survey(), [*SEEN], rng=1)
    samples = list(prior.weigh(SEEN))
    np.testing.assert_allclose([one.answer.present for one in samples], posterior(CHANCES)[:, 0], atol=1e-12)
    row = {name: values[0] for name, values in SEEN.items()}
    drawn = prior.draws_of(samples[0], row, 4000, np.random.default_rng(3))
    with pm.Model() as few:  # every person apart
        people = pm.Bernoulli("people", CHANCES[:7], shape=7)
        released("noisy", NOISE, people.sum())
        pm.Bernoulli("in", 0.5)
    law = adv.enumerate_posterior(few, {"noisy": 6}, "people")["probability"].values[:, 1]
    small = WeighedPrior.of(few, ["noisy"], rng=1)
    (sample,) = small.weigh({"noisy": np.array([6])})
    seen = small.draws_of(sample, {"noisy": np.array(6)}, 4000, np.random.default_rng(3))["people"].mean(axis=0)
    assert set(drawn) == {"in", "people", "counts"}
    assert drawn["people"].shape == (4000, 12)
    assert (np.abs(seen - law) < 5.0 * np.sqrt(law * (1 - law) / 4000)).all()


def test_the_graph_for_nuts_has_the_same_density() -> None:
    """At some draws, the graph in which latents are summed out and the numbers of weighed draws."""
    prior = WeighedPrior.of(survey(unknown=True), [*SEEN], rng=1, draws=1000)
    terms = prior.terms
    row: dict[str, Any] = {name: values[:1] for name, values in SEEN.items()}
    values = [np.array([-0.4, 0.0, 1.1])]
    expected = np.logaddexp(*(part[:, 0] for part in terms.hypotheses(values, row)))
    held = {terms.given.released[name]: value[0] for name, value in row.items()}
    (level,) = terms.given.continuous.values()
    graph = terms.log_density({level: level, **held}, terms.met_table(terms.table(row)), True)
    density = pytensor.function([level], [graph, pytensor.grad(graph, level)], mode="FAST_COMPILE")
    found = np.array([density(value) for value in values[0]])
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-10)
    step = 1e-5
    ahead, behind = (np.logaddexp(*terms.hypotheses([values[0] + s], row))[:, 0] for s in (step, -step))
    np.testing.assert_allclose(found[:, 1], (ahead - behind) / (2 * step), atol=1e-5)


@pytest.mark.slow
def test_draws_of_an_unknown_rate_agree_with_quadrature() -> None:
    grid, weights = np.polynomial.hermite_e.hermegauss(40)
    laws = np.stack([posterior(1 / (1 + np.exp(-(np.log(CHANCES / (1 - CHANCES)) + 0.5 * x)))) for x in grid])
    evidence = (weights[:, None] * laws[..., 1]).sum(axis=0)
    right = (weights[:, None] * laws[..., 0] * laws[..., 1]).sum(axis=0) / evidence
    prior = WeighedPrior.of(survey(unknown=True), [*SEEN], rng=2, draws=1000)
    for sample, chance in zip(prior.weigh(SEEN), right, strict=True):
        assert sample.reliable
        assert abs(sample.answer.present - chance) < 5.0 * sample.answer.mcse
