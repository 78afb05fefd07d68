"""The sampler of histograms: against enumeration, the spine with one query, and least squares of large counts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import chi2, poisson

import adversary as adv
from adversary.adversaries.tables import Query, effective_measurements, linear_weights, misstatement, pl94_persons
from adversary.census import PERSONS
from adversary.census.histograms import sample_histograms
from tests.oracles.histograms import histograms_of, posterior, shared
from tests.oracles.spine import negative_binomial

spine = adv.spine
D = "detailed"
SHAPE = (2, 2)
QUERIES = tuple(
    Query.of(name, SHAPE, recodes) for name, recodes in {"total": "**", "a": (D, "*"), "b": ("*", D), D: (D, D)}.items()
)
VARIANCE = {"total": 1.0, "a": 2.0, "b": 2.5, D: 4.0}
GROUP = spine.Tree.of({"g": None, "b1": "g", "b2": "g"})


def release(tree: Any, leaves: Any, variance: Any, rng: Any, queries: Any = QUERIES) -> Any:
    """Noisy answers of all queries in all units, of (leaf, cell) counts."""
    answers = {q.name: q.answer(tree.sums(leaves)) for q in queries}
    return {
        name: y if variance[name] == 0 else y + adv.DiscreteGaussian(variance[name] ** 0.5).sample(y * 0, rng)
        for name, y in answers.items()
    }


def log_likelihood(tree: Any, leaves: Any, released: Any, variance: Any, queries: Any = QUERIES) -> Any:
    """(state,) log likelihood of (state, leaf, cell) counts."""
    counts = np.moveaxis(tree.sums(np.moveaxis(leaves, 1, 0)), 0, 1)
    total = np.zeros(len(leaves))
    for q in queries:
        gap = released[q.name] - q.answer(counts)
        if variance[q.name] == 0:
            total = np.where((gap == 0).all(axis=(1, 2)), total, -np.inf)
        else:
            total -= 0.5 * (gap**2).sum(axis=(1, 2)) / variance[q.name]
    return total


def states(most: int, entries: int) -> Any:
    return np.array(list(itertools.product(range(most + 1), repeat=entries)))


@pytest.mark.parametrize("absent", [None, (1, 1)])
@pytest.mark.parametrize("known", [False, True])
def test_small_blocks_are_enumerated(absent: Any, known: bool) -> None:
    """Two blocks of up to three people in each of 2 x 2 cells, four queries at both levels, and a target."""
    mean, target = 0.35, np.zeros((2, 4), dtype=int)
    out = target.copy()
    target[1, 0] = 1
    out[1, 3] = 0 if absent is None else 1
    every = states(3, 8).reshape(-1, 2, 4)
    truth = np.array([[1, 0, 0, 1], [0, 1, 0, 0]])
    if known:
        every = every[(every[:, 1] == truth[1]).all(axis=1)]
    released = release(GROUP, truth + target, VARIANCE, np.random.default_rng(5))
    log_prior = poisson(mean).logpmf(every).sum(axis=(1, 2))
    inside, outside = (log_prior + log_likelihood(GROUP, every + seat, released, VARIANCE) for seat in (target, out))
    top = max(inside.max(), outside.max())
    weights = [0.3 * np.exp(inside - top), 0.7 * np.exp(outside - top)]
    posterior = weights[0].sum() / (weights[0].sum() + weights[1].sum())
    everybody = sum((w[:, None, None] * (every + s)).sum(0) for w, s in zip(weights, (target, out), strict=True))
    everybody = everybody / sum(w.sum() for w in weights)
    found = sample_histograms(
        GROUP, QUERIES, released, VARIANCE, spine.Poisson(mean), target="b2", present=(0, 0), absent=absent,
        target_prior=0.3, known=truth[1] if known else None, draws=6000, rng=1,
    )  # fmt: skip
    assert float(found["r_hat"]) < 1.02
    assert float(found["posterior"]) == pytest.approx(posterior, abs=5 * float(found["mcse"]) + 2e-3)
    np.testing.assert_allclose(found["histogram"].mean(("chain", "draw")), everybody, atol=0.03)
    assert float(found["in"].mean()) == pytest.approx(posterior, abs=0.03)
    factor = np.log(posterior / (1 - posterior)) - np.log(0.3 / 0.7)
    assert float(found["log_bayes_factor"]) == pytest.approx(factor, abs=0.1)


def test_exact_sums_are_kept_and_enumerated() -> None:
    """Blocks of exactly three people, and an exact marginal of their group: every draw has them."""
    variance = {**VARIANCE, "total": 0.0}
    truth = np.array([[1, 0, 2, 0], [0, 1, 1, 1]])
    released = release(GROUP, truth, variance, np.random.default_rng(2))
    varied: Any = {name: np.full(3, v) for name, v in variance.items()}
    varied["a"] = np.array([0.0, 2.0, 2.0])
    released["a"][0] = QUERIES[1].answer(truth.sum(axis=0))
    every = states(3, 8).reshape(-1, 2, 4)
    keeps = (every.sum(axis=2) == 3).all(axis=1)
    keeps &= (QUERIES[1].answer(every.sum(axis=1)) == released["a"][0]).all(axis=1)
    every = every[keeps]
    log = poisson(0.8).logpmf(every).sum(axis=(1, 2))
    for q in QUERIES[1:]:
        for u in range(3):
            if varied[q.name][u] > 0:
                answer = q.answer(every.sum(axis=1) if u == 0 else every[:, u - 1])
                log -= 0.5 * ((released[q.name][u] - answer) ** 2).sum(axis=1) / varied[q.name][u]
    weight = np.exp(log - log.max())
    expected = (weight[:, None, None] * every).sum(axis=0) / weight.sum()
    found = sample_histograms(GROUP, QUERIES, released, varied, spine.Poisson(0.8), draws=6000, rng=4)["histogram"]
    assert (found.sum("cell") == 3).all()
    assert (QUERIES[1].answer(found.sum("unit").values) == released["a"][0]).all()
    np.testing.assert_allclose(found.mean(("chain", "draw")), expected, atol=0.03)


MEANS, WEIGHTS = (0.1, 0.6, 2.5), (0.5, 0.3, 0.2)
ROWS = {"total": [(0, 1, 2, 3)], "a": [(0, 1), (2, 3)], "b": [(0, 2), (1, 3)], D: [(0,), (1,), (2,), (3,)]}
"""Cells of every row of the queries, counted by hand."""


def of_three_people(empty: bool, prior: str) -> tuple[Any, Any, Any, Any]:
    """Two blocks of three people each, whose totals are exact: states, probabilities, answers and variances by name.

    empty : whether the second row of `a` is exactly 0 in the second block: its counts settle no shared rate
    """
    rng, truth = np.random.default_rng(11), np.array([[1, 0, 2, 0], [2, 1, 0, 0]])
    members = {0: (0, 1), 1: (0,), 2: (1,)}
    released, variance, answers = {}, {}, []
    for name, rows in ROWS.items():
        spread = np.full(3, {"total": 1.0, "a": 2.0, "b": 2.5, D: 4.0}[name])
        spread[1:] = 0.0 if name == "total" else spread[1:]
        spread[2] = 0.0 if name == "a" and empty else spread[2]
        sums = np.array([[truth[list(of)][:, list(row)].sum() for row in rows] for of in members.values()], dtype=float)
        noisy = sums + np.rint(rng.normal(size=sums.shape) * np.sqrt(spread[:, None]))
        released[name], variance[name] = noisy, spread
        answers += [(members[u], row, noisy[u, i], spread[u]) for u in range(3) for i, row in enumerate(rows)]
    laws = [negative_binomial(0.5, mean) for mean in MEANS] if prior == "shared" else [negative_binomial(0.7, 0.8)]
    alone = {(1, 2), (1, 3)} if empty else set()

    def log_prior(states: Any) -> Any:
        total = np.zeros(len(states))
        weights = WEIGHTS if prior == "shared" else (1.0,)
        for cell in range(4):
            draws = [block for block in range(2) if (block, cell) not in alone]
            total = total + shared(weights, laws)(states[:, draws, cell])
        return total

    every = histograms_of(3, 4)
    return *posterior([every, every], log_prior, answers), released, variance


def error_of(draws: Any) -> Any:
    """Standard errors of the means of (chain, draw, ...) draws, by 25 batches of each chain."""
    batches = draws.reshape(draws.shape[0] * 25, -1, *draws.shape[2:]).mean(axis=1)
    return batches.std(axis=0, ddof=1) / np.sqrt(len(batches))


@pytest.mark.parametrize("prior", ["shared", "independent"])
@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("draws", [5000, pytest.param(200_000, marks=pytest.mark.thorough)])
def test_all_histograms_of_three_people_have_the_means_of_the_draws(draws: int, empty: bool, prior: str) -> None:
    """Four hundred states at most, to four standard errors of 0.02 people, or 0.003, at most."""
    states, p, released, variance = of_three_people(empty, prior)
    law = spine.SharedRate(MEANS, WEIGHTS) if prior == "shared" else spine.NegativeBinomial(0.7, 0.8)
    found = sample_histograms(GROUP, QUERIES, released, variance, law, draws=draws, burn=200, rng=6)["histogram"].values
    for values, exact in (
        (found, states),
        (found**2, states**2),
        (found[:, :, :1] * found[:, :, 1:], states[:, :1] * states[:, 1:]),
    ):
        error = error_of(values.astype(float))
        assert error.max() < (1.4 if values is found else 5.0) / np.sqrt(draws)
        expected = np.tensordot(p, exact, axes=1)
        assert (np.abs(values.mean(axis=(0, 1)) - expected) <= 4.0 * error + 1e-12).all()


def test_settled_counts_of_a_target_are_enumerated() -> None:
    """One block whose detailed counts are exact, and another: a target in the first is one of those counted there."""
    law = spine.SharedRate(MEANS, WEIGHTS)
    tree, query = spine.Tree.of({"g": None, "b1": "g", "b2": "g"}), Query(D, ((0, 1),))
    released, variance = {D: [[6.0, 3.0], [2.0, 1.0], [4.0, 1.0]]}, {D: np.array([4.0, 0.0, 4.0])}
    found = sample_histograms(
        tree, [query], released, variance, law, target="b1", present=0, target_prior=0.4, draws=5000, rng=7
    )
    laws = [negative_binomial(0.5, mean) for mean in MEANS]
    one, two = (logsumexp([np.log(w) + f(np.array(n)) for w, f in zip(WEIGHTS, laws, strict=True)]) for n in (1.0, 2.0))
    expected = 1.0 / (1.0 + 1.5 * np.exp(two - one))
    assert float(found["posterior"]) == pytest.approx(expected, abs=5 * float(found["mcse"]))
    assert float(found["mcse"]) < 0.01


@pytest.mark.parametrize(
    "prior", [spine.Poisson(1.5), spine.NegativeBinomial(0.5, 2.0), spine.Flat(), spine.SharedRate()], ids=repr
)
def test_with_one_query_it_is_the_spine(prior: Any) -> None:
    """Means and standard deviations of counts, and what a reader learns who knows the target's block."""
    tree = spine.Tree.of({"g": None, "a": "g", "b": "g", "c": "g"})
    query = Query(D, ((0, 1),))
    y, v = np.array([[6, 3.0], [2, 0], [-1, 2], [3, 1]]), np.array([2.0, 4, 4, 4])
    found = sample_histograms(tree, [query], {D: y}, {D: v}, prior, draws=5000, rng=2)["histogram"]
    exact = spine.posterior(tree, y, 0.5 / v, prior)
    np.testing.assert_allclose(found.mean(("chain", "draw")), exact.mean[1:], atol=0.06)
    np.testing.assert_allclose(found.std(("chain", "draw")), exact.sd[1:], atol=0.06)
    told = sample_histograms(
        tree, [query], {D: y}, {D: v}, prior, target="b", present=0, known=[1, 2], draws=5000, rng=3
    )
    expected = float(exact.membership(known=1)["log_bayes_factor"].sel(unit="b")[0])
    assert float(told["log_bayes_factor"]) == pytest.approx(expected, abs=0.03)


def test_large_counts_are_generalised_least_squares() -> None:
    """One unit, and a tree whose levels share out their budgets alike: then the spine of estimates loses nothing."""
    counts = np.array([[140, 95, 120, 80], [60, 75, 110, 90]])
    released = release(GROUP, counts, VARIANCE, np.random.default_rng(8))
    found = effective_measurements(QUERIES, released, VARIANCE)
    linear = spine.least_squares(GROUP, found["estimate"].values, found["rho"].values, whole=False)
    draws = sample_histograms(GROUP, QUERIES, released, VARIANCE, spine.Flat(), draws=8000, burn=500, rng=9)[
        "histogram"
    ]
    np.testing.assert_allclose(draws.mean(("chain", "draw")), linear["mean"][1:], atol=0.08)
    np.testing.assert_allclose(draws.std(("chain", "draw")), linear["sd"][1:], rtol=0.05)
    one = spine.Tree.of({"b": None})
    single = {name: y[1:2] for name, y in released.items()}
    draws = sample_histograms(one, QUERIES, single, VARIANCE, spine.Flat(), draws=8000, rng=9)["histogram"]
    np.testing.assert_allclose(draws.mean(("chain", "draw"))[0], found["estimate"][1], atol=0.08)
    np.testing.assert_allclose(draws.std(("chain", "draw"))[0] ** 2, found["variance"][1], rtol=0.06)


def calibration(groups: int, draws: int) -> tuple[Any, Any, Any]:
    """Ranks of true counts among thinned draws, and posterior probabilities beside who was in."""
    rng, ranks, chances, truths = np.random.default_rng(300), [], [], []
    tree = spine.Tree.of({"g": None} | {f"b{i}": "g" for i in range(3)})
    prior = spine.NegativeBinomial(0.6, 1.2)
    for _ in range(groups):
        others = rng.poisson(rng.gamma(0.6, 1.2 / 0.6, (3, 4)))
        inside = bool(rng.random() < 0.4)
        everybody = others.copy()
        everybody[0, 0 if inside else 3] += 1
        released = release(tree, everybody, VARIANCE, rng)
        found = sample_histograms(
            tree, QUERIES, released, VARIANCE, prior, target="b0", present=0, absent=3, target_prior=0.4,
            draws=draws, burn=200, chains=2, rng=rng,
        )  # fmt: skip
        kept = found["histogram"][:, ::20].values.reshape(-1, 3, 4)
        for value, truth in ((kept[:, 1, 2], everybody[1, 2]), (kept[:, 0].sum(axis=1), everybody[0].sum())):
            below, ties = (value < truth).sum(), (value == truth).sum()
            ranks.append((below + rng.integers(ties + 1)) / kept.shape[0])
        chances.append(float(found["posterior"]))
        truths.append(inside)
    return np.array(ranks), np.array(chances), np.array(truths)


def is_calibrated(ranks: Any, chances: Any, truths: Any) -> None:
    for column in ranks.reshape(-1, 2).T:
        counts = np.histogram(column, np.linspace(0, 1 + 1e-9, 6))[0]
        expected = column.size / 5
        assert ((counts - expected) ** 2 / expected).sum() < chi2(4).isf(1e-4)
    gap = truths - chances
    assert abs(gap.sum()) < 4 * np.sqrt((chances * (1 - chances)).sum())
    score = np.where(truths, np.log(chances), np.log1p(-chances))
    prior = np.where(truths, np.log(0.4), np.log(0.6))
    assert score.mean() > prior.mean() or chances.size < 100


@pytest.mark.slow
def test_synthetic_block_groups_are_calibrated() -> None:
    is_calibrated(*calibration(30, 600))


@pytest.mark.thorough
def test_300_synthetic_block_groups_are_calibrated() -> None:
    is_calibrated(*calibration(300, 2000))


def test_arguments_that_do_not_fit_are_refused() -> None:
    released = release(GROUP, np.ones((2, 4), dtype=int), VARIANCE, np.random.default_rng(0))
    clash = {"a": 0.0, "b": 0.0, "total": 1.0, D: 4.0}
    apart = {**released, "total": np.array([[5.0], [1], [1]])}
    cases: list[tuple[Any, str]] = [
        ({"tree": spine.Tree.of({"g": None})}, "must have the tree's 1 units, got 3"),
        ({"target": "b1"}, "present must be"),
        ({"target": "g", "present": 0}, "'g' has children"),
        ({"target": "nobody", "present": 0}, "no unit 'nobody'"),
        ({"target": "b1", "present": 4}, "present|cell must lie in"),
        ({"target": "b1", "present": 0, "absent": (0, 0)}, "must be two cells"),
        ({"target": "b1", "present": 0, "target_prior": 1.5}, "target_prior"),
        ({"target": "b1", "present": 0, "known": [1, 2]}, "known must be"),
        ({"known": [1, 2, 0, 0]}, "known must be"),
        ({"draws": 0}, "draws must be at least 1"),
        ({"prior": spine.Pmf([0.5, 0.5])}, "prior must be Flat, Poisson, NegativeBinomial or SharedRate"),
        ({"variance": clash}, "exact queries must be nested, 'a' and 'b' are not"),
        ({"variance": {**VARIANCE, "total": 0.0}, "released": apart}, "no histogram was found"),
    ]
    for options, words in cases:
        arguments: Any = {"tree": GROUP, "released": released, "variance": VARIANCE, "draws": 2, "burn": 0, "rng": 0}
        arguments |= options
        with pytest.raises(ValueError, match=words):
            sample_histograms(queries=QUERIES, **arguments)


def risk_errors(mean: float, groups: int, draws: int) -> tuple[Any, Any]:
    """Error in risk at prior 0.5 of effective measurements, and of the detailed query alone; budgets in equal parts.

    Under Poisson counts the Bayes factor of one person more in a cell is its posterior mean count over the prior's.
    """
    rng = np.random.default_rng(24)
    tree = spine.Tree.of({"g": None} | {f"b{i}": "g" for i in range(4)})
    variance = {q.name: np.array([5.1, *[38.82] * 4]) for q in QUERIES}
    noise = [adv.DiscreteGaussian(5.1**0.5), *[adv.DiscreteGaussian(38.82**0.5)] * 4]
    errors: list[Any] = []
    for _ in range(groups):
        leaves = rng.poisson(mean, (4, 4))
        counts = np.vstack([leaves.sum(axis=0), leaves])
        released = {
            q.name: q.answer(counts) + np.array([m.sample(np.zeros(q.size, dtype=int), rng) for m in noise])
            for q in QUERIES
        }
        prior = spine.Poisson(mean)
        every = effective_measurements(QUERIES, released, variance)
        one = effective_measurements(QUERIES[3:], {D: released[D]}, {D: variance[D]})
        draw = sample_histograms(tree, QUERIES, released, variance, prior, draws=draws, burn=200, chains=2, rng=rng)
        exact = draw["histogram"].mean(("chain", "draw")).values
        read = [spine.posterior(tree, f["estimate"].values, f["rho"].values, prior, whole=False) for f in (every, one)]
        risks = [m / (m + mean) for m in (exact, *(found.mean.values[1:] for found in read))]
        errors.append([risks[1] - risks[0], risks[2] - risks[0]])
    both = np.abs(np.array(errors))
    return both[:, 0], both[:, 1]


def test_effective_measurements_err_less_than_one_query_and_most_in_sparse_cells() -> None:
    sparse, dense = (risk_errors(mean, groups=3, draws=1500) for mean in (0.3, 10.0))
    assert sparse[0].mean() < sparse[1].mean()
    assert dense[0].mean() < dense[1].mean()
    assert dense[0].mean() < 0.03 < sparse[0].mean()


@pytest.mark.thorough
@pytest.mark.parametrize(("mean", "expected"), [(0.1, (0.076, 0.120)), (1.0, (0.039, 0.065)), (10.0, (0.015, 0.029))])
def test_the_table_of_errors_in_risk(mean: float, expected: Any) -> None:
    """And what the page warns of: the limit of what is neglected, which few errors exceed."""
    found = risk_errors(mean, groups=40, draws=4000)
    for error, value in zip(found, expected, strict=True):
        assert error.mean() == pytest.approx(value, rel=0.2)
    used = sum(0.5 / linear_weights(QUERIES, np.full(4, v), np.array([0]))[1][0] for v in (5.1, 38.82))
    limit = misstatement(sum(2.0 / v for v in (5.1, 38.82)) - used)
    assert np.quantile(found[0], 0.95) < limit < 0.4


@pytest.mark.thorough
def test_of_a_real_block_group_empty_cells_tell_the_total() -> None:
    """Five blocks, the person queries and budgets of 2020: detailed cells agree, totals are far better known."""
    queries, rng = pl94_persons(), np.random.default_rng(5)
    tree = spine.Tree.of({"g": None} | {f"b{i}": "g" for i in range(5)})
    share = np.zeros((8, 2, 2, 63))
    share[0, :, 0, :6] = np.outer([0.23, 0.77], [0.7, 0.12, 0.01, 0.06, 0.002, 0.06]) * 0.85
    share[0, :, 1, :6] = share[0, :, 0, :6] * 0.15 / 0.85
    people = np.array([35, 60, 8, 20, 45])
    leaves = np.stack([rng.multinomial(n, share.ravel() / share.sum()) for n in people])
    counts = np.vstack([leaves.sum(axis=0), leaves])
    levels = ["block group", *["block"] * 5]
    variance = {q.name: np.array([1 / float(PERSONS.rho_star(level, q.name)) for level in levels]) for q in queries}
    noise = {name: [adv.DiscreteGaussian(v**0.5) for v in row] for name, row in variance.items()}
    released = {
        q.name: np.stack(
            [m.sample(row, rng) for m, row in zip(noise[q.name], q.answer(counts).astype(int), strict=True)]
        )
        for q in queries
    }
    draws = sample_histograms(tree, queries, released, variance, draws=150, burn=100, chains=2, rng=rng)["histogram"]
    cell = int(np.ravel_multi_index((0, 1, 0, 0), share.shape))
    found = effective_measurements(queries, released, variance, [cell])
    linear = spine.posterior(tree, found["estimate"].values[:, 0], found["rho"].values[:, 0], whole=False)
    kept = draws.sel(cell=cell)
    np.testing.assert_allclose(kept.mean(("chain", "draw")), linear.mean.values[1:], atol=2.5)
    total = effective_measurements(queries, released, variance, of=queries[0])
    linear = spine.posterior(tree, total["estimate"].values[:, 0], total["rho"].values[:, 0], whole=False)
    sampled = draws.sum("cell")
    assert (sampled.std(("chain", "draw")).values < 0.5 * linear.sd.values[1:]).all()
    assert np.abs(sampled.mean(("chain", "draw")).values - people).max() < 25
