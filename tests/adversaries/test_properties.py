"""What must hold for every reader, plan and release: checked over random ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adversary as adv
from adversary.adversaries.path.recursion import distinct_rows
from adversary.adversaries.path.truth import settle_truth
from adversary.adversaries.risk.averages import risk_summary
from adversary.adversaries.risk.law_of_plan import bayes_factor_law
from tests.catalogue import DG, STORIES

PROBABILITIES = st.sampled_from([0.5, 0.3, 0.04, 0.9])


def averages(plan: adv.Plan, reader: adv.Adversary, truth: dict[str, Any]) -> tuple[float, float]:
    """(E[posterior], P(correct)) under a truth, which must come out exactly."""
    law = bayes_factor_law(plan, reader, settle_truth(plan, reader, truth))
    assert not law.simulated
    inside = law.decided_in()[0]
    return law.posterior_mean()[0], inside if law.target else 1 - inside


# The martingale identity


def worlds(plan: adv.Plan, reader: adv.Adversary) -> Iterator[tuple[float, dict[str, Any]]]:
    """Every truth that a reader holds possible, with its probability: the target, then the counts level by level."""
    for target, chance in ((0, 1 - reader.prior), (1, reader.prior)):
        cells = []
        for cell in range(plan.cells):
            paths = [((reader.contributions(cell)[target],), chance if cell == 0 else 1.0)]
            for belief in reader.level_beliefs(plan, cell):
                paths = [
                    ((*path, x), weight * math.exp(belief.log_prob(x, path[-1])))
                    for path, weight in paths
                    for x in range(belief.support(path[-1])[0], belief.support(path[-1])[1] + 1)  # type: ignore[operator]
                    if belief.log_prob(x, path[-1]) > -math.inf
                ]
            cells.append(paths)
        for chosen in itertools.product(*cells):
            counts = zip(*(path[1:] for path, _ in chosen), strict=True)
            truth = {name: list(x) if plan.cells > 1 else x[0] for name, x in zip(plan.names, counts, strict=True)}
            yield math.prod(weight for _, weight in chosen), truth | {"in": target}


def finite(plan: adv.Plan, reader: adv.Adversary) -> bool:
    """Whether every belief is proper and about finitely many counts."""
    beliefs = [belief for cell in range(plan.cells) for belief in reader.level_beliefs(plan, cell)]
    return all(belief.proper and belief.support(0)[1] is not None for belief in beliefs)


AVERAGED = [
    name
    for name, (plan, reader, _) in STORIES.items()
    if reader.sampling_rate == 1.0 and not plan.levels[0].mechanism.is_continuous and finite(plan, reader)
]


@pytest.mark.parametrize("prior", [0.04, 0.5, 0.9])
@pytest.mark.parametrize("name", AVERAGED)
def test_posteriors_average_to_the_prior(name: str, prior: float) -> None:
    """Over the target, every count given it, and every release; decisions by it are never worse than by the prior."""
    plan, reader, _ = STORIES[name]
    reader = replace(reader, prior=prior)
    total, accuracy = 0.0, 0.0
    for weight, truth in worlds(plan, reader):
        mean, right = averages(plan, reader, truth)
        total += weight * mean
        accuracy += weight * right
    assert total == pytest.approx(prior, rel=1e-9)
    assert accuracy >= max(prior, 1 - prior) - 1e-9


@given(
    m=st.integers(0, 10**6),
    block=st.integers(-20, 20),
    tract=st.integers(-20, 20),
    total=st.integers(-20, 20),
    flat=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_shifting_everything_known_changes_nothing(m: int, block: int, tract: int, total: int, flat: bool) -> None:
    """m more people known inside, and every count's release m higher; the sum over the siblings stays."""
    plan = adv.Plan([adv.Level("block", DG(0.4), siblings=3), adv.Level("tract", adv.Geometric(0.8))])
    beliefs: dict[str, Any] = {"tract": adv.Uniform() if flat else adv.Others([0.3, 0.3, 0.4])}
    start = adv.Adversary(0.3, 0, beliefs).posterior(
        plan, plan.observe({"block": block, "tract": tract}, {"block": total})
    )
    moved = adv.Adversary(0.3, m, beliefs).posterior(
        plan, plan.observe({"block": block + m, "tract": tract + m}, {"block": total}), counts=False
    )
    assert float(moved["log_odds"]) == pytest.approx(float(start["log_odds"]), rel=1e-9, abs=1e-9)


@pytest.mark.slow
@given(data=st.data(), prior=PROBABILITIES)
@settings(deadline=None, max_examples=25)
def test_releases_can_be_read_in_any_order(data: st.DataObject, prior: float) -> None:
    plan = adv.Plan([adv.Level("block", DG(0.3), siblings=2), adv.Level("tract", adv.Geometric(0.8))])
    small = st.integers(-4, 7)
    seen = [
        plan.observe({"block": data.draw(small), "tract": data.draw(small)}, {"block": data.draw(small)})
        for _ in range(3)
    ]
    answers = []
    for order in itertools.permutations(seen):
        reader = adv.Adversary(prior, 0, {"tract": adv.Uniform()})
        for release in order:
            reader = reader.after(plan, release)
        answers.append(reader.prior)
    np.testing.assert_allclose(answers, answers[0], rtol=1e-9)


# More noise


@given(pair=st.tuples(st.floats(1e-6, 2.5), st.floats(1e-6, 2.5)), prior=st.floats(1e-6, 0.999))
@settings(deadline=None, max_examples=60)
def test_more_discrete_gaussian_noise_never_raises_the_expected_ratio(pair: tuple[float, float], prior: float) -> None:
    """True while the noise is not narrow: from rho = 2.8 or so the lattice shows (see the next test)."""
    more, less = (
        averages(adv.Plan([adv.Level("block", DG(rho))]), adv.Adversary(prior), {"block": 1})[0] for rho in sorted(pair)
    )
    assert more <= less * (1 + 1e-10)


@given(pair=st.tuples(st.floats(0.02, 20.0), st.floats(0.02, 20.0)), prior=st.floats(1e-6, 0.999))
@settings(deadline=None, max_examples=60)
def test_more_geometric_noise_never_raises_the_expected_ratio(pair: tuple[float, float], prior: float) -> None:
    more, less = (
        averages(adv.Plan([adv.Level("block", adv.Geometric(e))]), adv.Adversary(prior), {"block": 1})[0]
        for e in sorted(pair)
    )
    assert more <= less * (1 + 1e-12)


@given(rho=st.floats(1e-8, 0.25), prior=st.floats(1e-9, 1.0))
@settings(deadline=None, max_examples=40)
def test_expected_ratio_lies_between_one_and_its_limit(rho: float, prior: float) -> None:
    """1 <= R <= exp(2 rho), the limit at prior 0."""
    plan = adv.Plan([adv.Level("block", DG(rho))])
    ratio = averages(plan, adv.Adversary(prior), {"block": 1})[0] / prior
    assert 1 - 1e-11 <= ratio <= math.exp(2 * rho) * (1 + 1e-11)


# Fixed points and extremes


@given(
    prior=st.sampled_from([0.0, 1.0]),
    block=st.integers(-50, 50),
    tract=st.integers(-50, 50),
    total=st.integers(-50, 50),
)
@settings(deadline=None, max_examples=30)
def test_certain_priors_are_fixed_points(prior: float, block: int, tract: int, total: int) -> None:
    plan = adv.Plan([adv.Level("block", DG(0.4), siblings=3), adv.Level("tract", DG(0.8))])
    for belief in (adv.Uniform(), adv.Uniform(9), adv.Others([0.5, 0.5])):
        found = adv.Adversary(prior, 0, {"tract": belief}).posterior(
            plan, plan.observe({"block": block, "tract": tract}, {"block": total})
        )
        assert float(found["posterior"]) == prior
        assert float(found["log_odds"]) == (math.inf if prior else -math.inf)
        assert np.isfinite(found["ratio"])
        if prior:
            assert float(found["ratio"]) == 1.0


RHOS = st.sampled_from([1e-8, 1e-5, 0.1, 3.0, 1e3])
FAR = st.sampled_from([-(10**6), -1000, -1, 0, 1, 3, 1000, 10**6])


@given(
    rhos=st.tuples(RHOS, RHOS),
    block=FAR,
    tract=FAR,
    total=FAR,
    siblings=st.sampled_from([1, 27]),
    belief=st.sampled_from([adv.Uniform(), adv.Uniform(50), adv.Point(3), adv.Others([0.5, 0.5])]),
)
@settings(deadline=None, max_examples=150)
def test_two_levels_never_give_nan(
    rhos: tuple[float, float], block: int, tract: int, total: int, siblings: int, belief: adv.Belief
) -> None:
    plan = adv.Plan([adv.Level("block", DG(rhos[0]), siblings=siblings), adv.Level("tract", DG(rhos[1]))])
    reader = adv.Adversary(0.3, beliefs={"tract": belief})
    found = reader.posterior(plan, plan.observe({"block": block, "tract": tract}, {"block": total}), counts=False)
    assert 0 <= float(found["posterior"]) <= 1
    assert np.isfinite(found["log_odds"])
    assert not np.isnan(found["ratio"])


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 0.1, 10.0, 1e3])
@pytest.mark.parametrize("prior", [1e-12, 0.5, 1 - 1e-12])
def test_averages_never_give_nan(rho: float, prior: float) -> None:
    plan = adv.Plan([adv.Level("block", DG(rho))])
    for target in (0, 1):
        law = bayes_factor_law(plan, adv.Adversary(prior), settle_truth(plan, adv.Adversary(prior), {"block": target}))
        summary = risk_summary(law)
        for name in summary.data_vars:
            assert not np.isnan(summary[name]).any(), name
        assert 0 <= float(summary["posterior_mean"]) <= 1 + 1e-12
        if rho == 1e3:
            assert float(summary["prob_correct"]) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("kind", ["whole", "fractions", "wide", "infinite", "one"])
def test_distinct_rows_are_those_of_numpy(kind: str) -> None:
    rng = np.random.default_rng(3)
    rows = rng.integers(-4, 5, (200, 3)).astype(np.float64)
    rows = {
        "whole": rows, "fractions": rows / 3.0, "wide": rows * 1e9, "infinite": np.where(rows > 3, np.inf, rows),
        "one": rows[:, :1],
    }[kind]  # fmt: skip
    index, place = distinct_rows(rows)
    expected, inverse = np.unique(rows, axis=0, return_inverse=True)
    np.testing.assert_array_equal(rows[index], expected)
    np.testing.assert_array_equal(place, inverse.ravel())
