"""Readers of every query: the sum of losses, the known block, and generalised least squares, against brute force."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import poisson

import adversary as adv
from adversary.adversaries.tables import (
    Query,
    effective_measurements,
    linear_weights,
    log_bayes_factor,
    path_loss,
    pl94_persons,
)
from adversary.census import PERSONS

GROUPINGS = {"g": (0, 1, 1, 2), "h": (0, 0, 1, 1)}
SHAPE = (4, 3, 2)
D = "detailed"


def of(name: str, *recodes: str, shape: tuple[int, ...] = SHAPE) -> Query:
    return Query.of(name, shape, recodes, GROUPINGS)


QUERIES = (
    of("total", "*", "*", "*"),
    of("a", D, "*", "*"),
    of("g x b", "g", D, "*"),
    of("h x c", "h", "*", D),
    of("b x c", "*", D, D),
    of(D, D, D, D),
    Query("in another order", ((3, 1, 0, 2), (2, 0, 1), (0, 0))),
)
TWO = (of("total", "*", "*", shape=(2, 2)), of("a", D, "*", shape=(2, 2)))
TWO += (of("b", "*", D, shape=(2, 2)), of(D, D, D, shape=(2, 2)))


def matrix(query: Query) -> Any:
    a = np.zeros((query.size, query.rows.size))
    a[query.rows, np.arange(query.rows.size)] = 1.0
    return a


def dense(queries: Any, released: Any, variance: Any, whole: bool = False) -> tuple[Any, Any]:
    """Generalised least squares with constraints by dense algebra: estimates and (co)variances of all cells."""
    n = queries[0].rows.size
    exact = [q for q in queries if variance[q.name] == 0]
    noisy = [q for q in queries if 0 < variance[q.name] < np.inf]
    precision = sum(matrix(q).T @ matrix(q) / variance[q.name] for q in noisy)
    weighted = sum(matrix(q).T @ released[q.name] / variance[q.name] for q in noisy)
    start, free = np.zeros(n), np.eye(n)
    if exact:
        fixed = np.vstack([matrix(q) for q in exact])
        start = np.linalg.pinv(fixed) @ np.concatenate([released[q.name] for q in exact])
        _, size, right = np.linalg.svd(fixed)
        free = right[int((size > 1e-10).sum()) :].T
    covariance = free @ np.linalg.inv(free.T @ precision @ free) @ free.T
    return start + covariance @ (weighted - precision @ start), covariance if whole else np.diag(covariance)


def draw(queries: Any, exact: Any, seed: int, units: int = 1) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    variance = {q.name: 0.0 if q.name in exact else float(rng.uniform(0.5, 9.0)) for q in queries}
    truth = rng.integers(0, 30, (units, queries[0].rows.size))
    noise = {q.name: np.rint(rng.normal(0, np.sqrt(variance[q.name]), (units, q.size))) for q in queries}
    return {q.name: q.answer(truth) + noise[q.name] for q in queries}, variance


@pytest.mark.parametrize("exact", [(), ("total",), ("g x b",), ("total", "h x c"), ("h x c", "b x c"), ("a", "b x c")])
def test_effective_measurements_are_dense_generalised_least_squares(exact: Any) -> None:
    released, variance = draw(QUERIES, exact, seed=len(exact))
    found = effective_measurements(QUERIES, released, variance)
    mean, spread = dense(QUERIES, {name: y[0] for name, y in released.items()}, variance)
    np.testing.assert_allclose(found["estimate"][0], mean, atol=1e-10)
    np.testing.assert_allclose(found["variance"][0], spread, atol=1e-10)
    some = effective_measurements(QUERIES, released, variance, [(1, 2, 0), 7])
    assert some["cell"].values.tolist() == [10, 7]
    np.testing.assert_allclose(some["estimate"][0], mean[[10, 7]], atol=1e-10)


@pytest.mark.parametrize("table", [*QUERIES[:4], QUERIES[6], of("g x c", "g", "*", D)], ids=lambda query: query.name)
@pytest.mark.parametrize("exact", [(), ("total", "h x c")])
def test_rows_of_any_query_are_estimated_from_all_of_them(table: Query, exact: Any) -> None:
    released, variance = draw(QUERIES[:6], exact, seed=5)
    found = effective_measurements(QUERIES[:6], released, variance, of=table)
    mean, covariance = dense(QUERIES[:6], {name: y[0] for name, y in released.items()}, variance, whole=True)
    np.testing.assert_allclose(found["estimate"][0], matrix(table) @ mean, atol=1e-10)
    np.testing.assert_allclose(found["variance"][0], np.diag(matrix(table) @ covariance @ matrix(table).T), atol=1e-10)


def test_of_the_2020_budget_all_queries_say_more_of_sums_than_of_cells() -> None:
    """Variances at the block, people squared: of one detailed cell 10.08 becomes 9.81, of the total 7,951 2,406."""
    queries, total = pl94_persons(), pl94_persons()[0]
    variance = np.array([1 / float(PERSONS.rho_star("block", query.name)) for query in queries])
    cell = linear_weights(queries, variance, np.array([0]))[1][0]
    assert (variance[-1], cell) == (pytest.approx(10.078, abs=1e-3), pytest.approx(9.809, abs=1e-3))
    every = linear_weights(queries, variance, np.array([0]), total)[1][0]
    assert variance[0] == pytest.approx(7951.5, abs=0.1)
    assert every == pytest.approx(2406.3, abs=0.1)


def test_variances_may_differ_from_unit_to_unit_and_queries_may_be_absent() -> None:
    released, _ = draw(QUERIES, (), seed=3, units=4)
    variance: Any = {q.name: np.array([2.0, 2.0, 3.0, 1.0]) for q in QUERIES}
    variance["a"] = np.array([1.0, 1.0, np.inf, np.nan])
    variance["total"] = np.array([1.0, 4.0, 0.0, 1.0])
    released["a"][2:] = np.nan
    found = effective_measurements(QUERIES, released, variance, units=["p", "q", "r", "s"])
    assert found["unit"].values.tolist() == ["p", "q", "r", "s"]
    for u in range(4):
        own = {name: np.nan_to_num(v[u], nan=np.inf) for name, v in variance.items()}
        mean, spread = dense(QUERIES, {name: np.nan_to_num(y[u]) for name, y in released.items()}, own)
        np.testing.assert_allclose(found["estimate"][u], mean, atol=1e-10)
        np.testing.assert_allclose(found["rho"][u], 0.5 / spread, rtol=1e-9)


def test_the_published_example_has_variance_1_44_against_4() -> None:
    """full_information.md: precisions 6.25, 1.25, 1.25, 0.25; a quarter of the sum of their inverses."""
    weights, variance = linear_weights(TWO, np.array([1.0, 2.0, 2.0, 4.0]), np.arange(4))
    np.testing.assert_allclose(variance, 1.44, rtol=1e-14)
    for cell in range(4):
        hit = sum(w[cell] @ matrix(q) for w, q in zip(weights, TWO, strict=True))
        np.testing.assert_allclose(hit, np.eye(4)[cell], atol=1e-14)


def test_what_exact_answers_settle_is_exact_and_what_nothing_determines_is_unknown() -> None:
    halves = Query("halves", ((0, 0, 1),))
    found = effective_measurements([halves], {"halves": [[5, 2], [5, 2]]}, {"halves": [0.0, 3.0]})
    assert found["variance"].values.tolist() == [[np.inf, np.inf, 0.0], [np.inf, np.inf, 3.0]]
    assert found["estimate"].values[:, 2].tolist() == [2.0, 2.0]
    assert found["rho"].values[0].tolist() == [0.0, 0.0, np.inf]
    assert np.isnan(found["estimate"].values[:, :2]).all()
    nothing = effective_measurements([halves], {"halves": [[np.nan, np.nan]]}, {"halves": np.inf})
    assert nothing["rho"].values.tolist() == [[0.0, 0.0, 0.0]]
    with pytest.raises(ValueError, match="exact answers contradict each other"):
        effective_measurements(
            [Query("t", ((0, 0),)), Query("d", ((0, 1),))], {"t": [[3]], "d": [[1, 1]]}, {"t": 0, "d": 0}
        )


@pytest.mark.parametrize(
    ("released", "variance", "words"),
    [
        ({"total": [[1.0]]}, {"total": 1.0, "a": 1.0}, "released must have one entry for each query"),
        ({"total": [[1.0]], "a": [[1, 2]]}, {"total": 1.0}, "variance must have one entry for each query"),
        ({"total": [[1.0]], "a": [[1, 2, 3]]}, {"total": 1.0, "a": 1.0}, "must be .unit, 2. or"),
        ({"total": [[1.0], [2.0]], "a": [[1, 2]]}, {"total": 1.0, "a": 1.0}, "one row of answers per unit"),
        ({"total": [[1.0]], "a": [[1, 2]]}, {"total": -1.0, "a": 1.0}, "variance of 'total' must be non-negative"),
        ({"total": [[1.0]], "a": [[1, 2]]}, {"total": [1.0, 1], "a": 1.0}, "one number or one per unit"),
        ({"total": [[np.nan]], "a": [[1, 2]]}, {"total": 1.0, "a": 1.0}, "finite where it was measured, unit 0"),
    ],
)
def test_answers_that_do_not_fit_are_refused(released: Any, variance: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        effective_measurements(TWO[:2], released, variance)


def test_queries_that_do_not_fit_are_refused() -> None:
    cases: list[tuple[Any, str]] = [
        (lambda: Query("q", ()), "at least one axis"),
        (lambda: Query("q", ((0, 2),)), "without gaps"),
        (lambda: Query("q", ((0, -1),)), "at least 0"),
        (lambda: of("q", "*", "*"), "a recode for each of 3 axes"),
        (lambda: of("q", "nobody", "*", "*"), r"grouping 'nobody', known are \['g', 'h'\]"),
        (lambda: of("q", "*", "g", "*"), "grouping 'g' has 4 categories, axis 1 has 3"),
        (lambda: effective_measurements([], {}, {}), "at least one"),
        (lambda: effective_measurements([TWO[0], TWO[0]], {}, {}), "distinct names"),
        (lambda: effective_measurements([TWO[0], QUERIES[1]], {}, {}), "about one histogram"),
        (lambda: effective_measurements(TWO[:1], {"total": [[1]]}, {"total": 1.0}, [(0, 2)]), "must lie in"),
        (lambda: effective_measurements(TWO[:1], {"total": [[1]]}, {"total": 1.0}, [4]), "must lie in"),
        (lambda: TWO[0].answer(np.zeros(3)), "must have 4 cells"),
        (
            lambda: effective_measurements(TWO[:1], {"total": [[1]]}, {"total": 1.0}, of=QUERIES[0]),
            "of must be about the histogram",
        ),
    ]
    for make, words in cases:
        with pytest.raises(ValueError, match=words):
            make()


def test_the_queries_of_the_2020_release_are_those_of_its_budget() -> None:
    queries = pl94_persons()
    assert tuple(query.name for query in queries) == PERSONS.queries
    assert sum(query.size for query in queries) == 2603
    rng = np.random.default_rng(0)
    histogram = rng.poisson(0.01, (8, 2, 2, 63))
    by_name = {query.name: query.answer(histogram).reshape(query.shape) for query in queries}
    assert by_name["HHINSTLEVELS"].ravel().tolist() == [
        histogram[:1].sum(), histogram[1:5].sum(), histogram[5:].sum()
    ]  # fmt: skip
    np.testing.assert_array_equal(by_name["VOTINGAGE*CENRACE"][0, :, 0], histogram.sum((0, 2)))


NOISE = {"total": adv.DiscreteGaussian(0.6), "a": adv.Geometric(1.5), "b": adv.DiscreteGaussian(0.8)}
THREE = TWO[:3]


@pytest.mark.slow_cases("None")
@pytest.mark.parametrize("absent", [None, (1, 0)])
def test_the_law_of_the_log_bayes_factor_is_the_sum_of_the_losses(absent: Any) -> None:
    """Every release of the rows that move, one by one: its probability if in, and its log Bayes factor."""
    others, present = np.array([[1, 0], [2, 1]]), (0, 0)
    noise = {name: adv.DiscreteGaussian(0.5) if name == "b" else m for name, m in NOISE.items()}
    loss = path_loss(THREE, noise, present, absent)
    plus = np.zeros((2, 2))
    plus[present] = 1
    minus = np.zeros((2, 2))
    if absent is not None:
        minus[absent] = 1
    inside = {q.name: q.answer(others + plus) for q in THREE}
    outside = {q.name: q.answer(others + minus) for q in THREE}
    moving = [(q.name, r) for q in THREE for r in range(q.size) if inside[q.name][r] != outside[q.name][r]]
    assert len(moving) == (3 if absent is None else 2)
    values, weight = [], []
    spans = [range(int(inside[n][r]) - 7, int(inside[n][r]) + 8) for n, r in moving]
    for release in itertools.product(*spans):
        released = {name: y.copy() for name, y in inside.items()}
        for (name, row), y in zip(moving, release, strict=True):
            released[name][row] = y
        values.append(log_bayes_factor(THREE, released, noise, others, present, absent))
        logs = [noise[n].log_prob(y, int(inside[n][r])) for (n, r), y in zip(moving, release, strict=True)]
        weight.append(np.exp(sum(logs)))
    value, p = np.array(values), np.array(weight)
    assert p.sum() == pytest.approx(1.0, abs=2e-4)
    for threshold in (-1.3, 0.1, 2.2):
        assert p[value > threshold].sum() == pytest.approx(loss.tail(threshold)[0], abs=2e-4)
    assert (p / (1 + 9 * np.exp(-value))).sum() == pytest.approx(loss.posterior(0.1).mean("in"), abs=2e-4)


def test_units_of_a_path_add_up_and_shared_rows_say_nothing() -> None:
    noise = {**NOISE, "a": [adv.DiscreteGaussian(0.7), adv.DiscreteGaussian(1.1)]}
    released = {"total": [[4], [9]], "a": [[2, 2], [3, 5]], "b": [[3, 0], [4, 4]]}
    others = np.array([[1, 0, 2, 1], [2, 2, 3, 1]])
    both = log_bayes_factor(THREE, released, noise, others, 0)
    for u in range(2):
        own: Any = {n: m[u] if isinstance(m, list) else m for n, m in noise.items()}
        one = log_bayes_factor(THREE, {n: y[u] for n, y in released.items()}, own, others[u].reshape(2, 2), (0, 0))
        assert both[u] == one
    expected = -0.5 / 0.7**2 * ((2 - 2) ** 2 - (2 - 1) ** 2) - 0.5 / 1.1**2 * ((3 - 5) ** 2 - (3 - 4) ** 2)
    expected += 0.5 / 0.7**2 * ((2 - 4) ** 2 - (2 - 3) ** 2) + 0.5 / 1.1**2 * ((5 - 5) ** 2 - (5 - 4) ** 2)
    a_only = log_bayes_factor(THREE, released, noise, others, (0, 1), (1, 1))
    assert a_only.sum() == pytest.approx(expected, rel=1e-13)


def test_the_loss_of_every_person_query_at_every_level_is_the_censuss() -> None:
    """Cells that every query separates but the total: 2 x 10 x 6 discrete Gaussians of sigma^2 = 1 / rho_star."""
    queries = [query for query in pl94_persons() if query.name != "TOTAL"]
    by_level = {query.name: [PERSONS.rho_star(level, query.name) for level in PERSONS.levels] for query in queries}
    noise = {name: [adv.DiscreteGaussian.from_rho(rho, cells=2) for rho in row] for name, row in by_level.items()}
    loss = path_loss(queries, noise, (0, 0, 0, 0), (1, 1, 1, 1))
    rho = float(sum(sum(row) for row in by_level.values()))
    assert loss.renyi(1.0) == pytest.approx(rho, rel=1e-12)


def test_answers_and_noise_that_do_not_fit_are_refused() -> None:
    total, released = TWO[0], {"total": [3]}
    with pytest.raises(ValueError, match="noise must have one entry"):
        log_bayes_factor([total], released, {}, [0, 0, 0, 0], 0)
    with pytest.raises(TypeError, match="must be a Mechanism"):
        log_bayes_factor([total], released, {"total": [1.0]}, [0, 0, 0, 0], 0)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="one for each of 1 units"):
        log_bayes_factor([total], released, {"total": [NOISE["total"]] * 2}, [0, 0, 0, 0], 0)
    with pytest.raises(ValueError, match="must be of 1 units, got 2"):
        log_bayes_factor([total], {"total": [[3], [4]]}, {"total": NOISE["total"]}, [0, 0, 0, 0], 0)


def test_a_spine_reads_estimates_as_gaussian_likelihoods_of_whole_counts() -> None:
    """Estimates that are no whole numbers, against every vector of counts written out; membership too."""
    spine = adv.spine
    tree = spine.Tree.of({"g": None, "b1": "g", "b2": "g"})
    estimate, rho = np.array([2.3, -0.61, 3.47]), np.array([0.31, 0.12, 0.4])
    found = spine.posterior(tree, estimate, rho, spine.Poisson(1.5), whole=False)
    x, y = np.indices((40, 40))
    log = poisson(1.5).logpmf(x) + poisson(1.5).logpmf(y)
    gaps = [estimate[0] - x - y, estimate[1] - x, estimate[2] - y]
    weight = np.exp(log - sum(r * gap**2 for r, gap in zip(rho, gaps, strict=True)))
    weight /= weight.sum()
    expected = [(weight * z).sum() for z in (x + y, x, y)]
    np.testing.assert_allclose(found.mean, expected, rtol=1e-12)
    counts = np.arange(40)
    outside = poisson(1.5).pmf(counts) * np.exp(-rho[2] * (estimate[2] - counts) ** 2)
    both = [np.sum(outside * np.exp(-rho[0] * (estimate[0] - counts - m) ** 2)) for m in (2, 3)]
    factor = np.log(both[1] / both[0]) - rho[1] * ((estimate[1] - 3) ** 2 - (estimate[1] - 2) ** 2)
    told = found.membership(0.5, known={"b1": 2, "b2": 0})
    assert float(told["log_bayes_factor"][0]) == pytest.approx(factor, rel=1e-11)
    above = spine.upward_message(tree, estimate, rho, spine.Poisson(1.5), whole=False)
    top = spine.posterior(spine.Tree.of({"g": None}), estimate[:1], rho[:1], messages={"g": above}, whole=False)
    np.testing.assert_allclose(top.mean, expected[:1], rtol=1e-12)
    linear = spine.least_squares(tree, estimate, rho, whole=False)["mean"]
    assert float(linear[0]) == pytest.approx(float(linear[1] + linear[2]), rel=1e-12)
    with pytest.raises(ValueError, match="must be a whole number"):
        spine.posterior(tree, estimate, rho)
    with pytest.raises(ValueError, match="must be a whole number"):
        spine.posterior(tree, estimate, [np.inf, 1, 1], whole=False)


def test_a_spine_takes_what_all_queries_of_its_units_say() -> None:
    """Labelled by unit and cell; unmeasured units are read through the others; pieces agree with the whole."""
    spine = adv.spine
    tree = spine.Tree.of({"t": None, "g": "t", "h": "t", "a": "g", "b": "g", "c": "h"})
    counts = np.array([[9, 4, 2, 5], [5, 3, 1, 4], [4, 1, 1, 1], [3, 1, 0, 2], [2, 2, 1, 2], [4, 1, 1, 1]])
    rng = np.random.default_rng(4)
    released = {q.name: q.answer(counts) + rng.integers(-2, 3, (6, q.size)) for q in TWO}
    variance: Any = dict.fromkeys(released, 2.0)
    variance["total"] = np.array([0.0, 1.0, np.inf, 3.0, 3.0, 3.0])
    for name in ("a", "b", D):
        variance[name] = np.array([2.0, 2.0, np.inf, 2.0, 2.0, 2.0])
    released["total"][0] = 20
    order = [3, 0, 5, 2, 1, 4]
    found = effective_measurements(
        TWO, {n: y[order] for n, y in released.items()},
        {n: v[order] if np.ndim(v) else v for n, v in variance.items()}, [(0, 0), (1, 1)], units=tree.names[order],
    )  # fmt: skip
    prior = spine.Poisson(2.0)
    told = spine.posterior(tree, found["estimate"], found["rho"], prior, whole=False)
    assert told.mean["cell"].values.tolist() == [0, 3]
    plain = effective_measurements(TWO, released, variance, [0, 3])
    estimate, rho = plain["estimate"].values, plain["rho"].values
    assert rho[2].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(told.mean, spine.posterior(tree, estimate, rho, prior, whole=False).mean, rtol=1e-12)
    below, top = tree.below("g"), tree.above(1)
    message = spine.upward_message(tree.subtree("g"), estimate[below], rho[below], prior, whole=False)
    other = spine.upward_message(tree.subtree("h"), estimate[[2, 5]], rho[[2, 5]], prior, whole=False)
    above = spine.posterior(top, estimate[:3], rho[:3], prior, messages={"g": message, "h": other}, whole=False)
    np.testing.assert_allclose(above.mean, told.mean[:3], rtol=1e-9)
    total = effective_measurements(TWO, released, variance, of=TWO[0])
    exact = spine.posterior(tree, total["estimate"], total["rho"], prior, whole=False)
    assert exact.mean[0].item() == 20.0
    assert exact.sd[0].item() == 0.0


def test_one_measurement_per_unit_loses_little_to_all_answers_of_a_tree_at_once() -> None:
    """Cells of a tree by dense algebra with the 2020 budget of four queries: 0.3% of a block's variance at most.

    Where a block and its group divide their budgets alike, nothing is lost.
    """
    spine = adv.spine
    tree = spine.Tree.of({"g": None} | {f"b{i}": "g" for i in range(5)})
    under = np.vstack([np.ones(5), np.eye(5)])
    names = {"total": "TOTAL", "a": "VOTINGAGE", "b": "HISPANIC", D: PERSONS.queries[-1]}
    levels = ["block group", *["block"] * 5]
    census = {q: np.array([1 / float(PERSONS.rho_star(level, n)) for level in levels]) for q, n in names.items()}
    alike = {q: np.array([1.0, *[3.0] * 5]) * v for q, v in zip(names, (2.0, 3.0, 5.0, 4.0), strict=True)}
    for variance, most in ((census, 1.003), (alike, 1.0 + 1e-9)):
        precision = sum(
            np.einsum("u,ub,uc,ij->bicj", 1 / variance[q.name], under, under, matrix(q).T @ matrix(q)) for q in TWO
        )
        joint = np.linalg.inv(precision.reshape(20, 20)).diagonal().reshape(5, 4)
        nothing = {q.name: np.zeros((6, q.size)) for q in TWO}
        found = effective_measurements(TWO, nothing, variance)
        sd = spine.least_squares(tree, found["estimate"].values, found["rho"].values, whole=False)["sd"].values[1:]
        assert (sd**2 >= joint * (1 - 1e-12)).all()
        assert (sd**2 <= joint * most).all(), (sd**2 / joint).max()
