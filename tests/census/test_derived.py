"""Sums, differences and shares of units of a spine, against every vector of leaf counts written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.census.spine.derived import _outside
from tests.oracles import spine as oracle

spine = adv.spine
PARENTS = {"t": None, "g": "t", "h": "t", "1": "g", "2": "g", "3": "g", "4": "h", "5": "h"}
TREE = spine.Tree.of(PARENTS, ("tract", "group", "block"))
RELEASED = np.array([6.0, 4, 1, 1, 3, -2, 0, 2])
RHO = np.array([0.35, 0.3, 0.3, 0.25, 0.2, 0.3, 0.25, 0.4])
MOST = 11


def logs(x: Any, law: str) -> Any:
    return oracle.poisson(0.9)(x) if law == "poisson" else oracle.negative_binomial(0.5, 0.7)(x)


def written_out(law: str) -> tuple[Any, Any]:
    """(unit, vector) counts and (vector,) posterior probabilities."""
    parents = [-1, 0, 0, 1, 1, 1, 2, 2]
    likes = [lambda x, r=r, y=y: -r * (y - x) ** 2 for r, y in zip(RHO, RELEASED, strict=True)]
    if law == "shared":
        means = np.geomspace(0.003, 40.0, 11)
        laws = [oracle.negative_binomial(0.5, m) for m in means]
        groups: Any = [(leaves, [-np.log(11.0)] * 11, laws) for leaves in ([3, 4, 5], [6, 7])]
    else:
        groups = [([leaf], [0.0], [lambda x: logs(x, law)]) for leaf in range(3, 8)]
    found = oracle.Enumeration(parents, likes, MOST, groups)
    return found.counts.astype(int), np.exp(found.log_weights() - found.log_evidence)


PRIORS = {"poisson": spine.Poisson(0.9), "negative binomial": spine.NegativeBinomial(0.5, 0.7)}
PRIORS["shared"] = spine.SharedRate()


def law_of(values: Any, p: Any, low: int, size: int) -> Any:
    return np.bincount(values - low, p, size)


@pytest.mark.slow_cases("shared")
@pytest.mark.parametrize("law", PRIORS)
def test_sums_differences_and_shares_are_those_of_all_vectors(law: str) -> None:
    counts, p = written_out(law)
    found = spine.posterior(TREE, RELEASED, RHO, PRIORS[law])
    row = {name: i for i, name in enumerate(TREE.names.tolist())}
    reach = 2e-5  # of counts above 11, which are not written out
    for units in (["1"], ["t"], ["1", "3"], ["2", "5"], ["g", "5"], ["1", "2", "3", "4", "5"]):
        total = counts[[row[name] for name in units]].sum(axis=0)
        told = found.sum(units)
        low = int(told["count"][0])
        assert 0 <= float(told["error"]) < 1e-9
        assert float(told["pmf"].sum()) == pytest.approx(1.0, abs=1e-12)
        expected = law_of(total, p, low, 60)[: told.sizes["count"]]
        np.testing.assert_allclose(told["pmf"][: expected.size], expected, atol=reach)
        assert float(told["mean"]) == pytest.approx(float((p * total).sum()), abs=20 * reach)
        assert float(told["mean"]) == pytest.approx(sum(float(found.mean.sel(unit=u)) for u in units), abs=1e-9)
    for a, b in ((["1"], ["2"]), (["1", "4"], ["5"]), (["g"], ["h"]), (["1", "5"], ["2", "4"])):
        gap = counts[[row[n] for n in a]].sum(axis=0) - counts[[row[n] for n in b]].sum(axis=0)
        told = found.compare(a, b)
        for name, chosen in (("greater", gap > 0), ("equal", gap == 0), ("less", gap < 0)):
            assert float(told[name]) == pytest.approx(p[chosen].sum(), abs=reach)
        assert float(told["sd"]) == pytest.approx(np.sqrt((p * gap**2).sum() - (p * gap).sum() ** 2), abs=50 * reach)
    for part, whole in (("1", "g"), (["1", "4"], "t"), (["1", "2"], ["g", "5"]), ("g", "g")):
        names = [part] if isinstance(part, str) else part
        every = [whole] if isinstance(whole, str) else whole
        some, of = (counts[[row[n] for n in ns]].sum(axis=0) for ns in (names, every))
        told = found.share(part, whole)
        held = of > 0
        share = np.where(held, some / np.maximum(of, 1), 0.0)
        assert float(told["empty"]) == pytest.approx(p[~held].sum(), abs=reach)
        assert float(told["mean"]) == pytest.approx((p * share)[held].sum() / p[held].sum(), abs=reach)


def test_a_sum_of_siblings_is_the_convolution_given_their_parent() -> None:
    """To rounding, with no counts left out: posteriors of siblings convolved given the parent's count."""
    tree = spine.Tree.of({"g": None, "a": "g", "b": "g", "c": "g"})
    released, rho = np.array([31.0, 12, 7, 15]), np.array([0.3, 0.2, 0.1, 0.15])
    found = spine.posterior(tree, released, rho, spine.Flat())
    x = np.arange(90)
    like = [np.exp(-r * (y - x) ** 2) for r, y in zip(rho, released, strict=True)]
    both = np.convolve(like[1], like[3])[:90]
    total = np.array([sum(like[2][k] * like[0][s + k] for k in range(90 - s)) for s in range(90)])
    expected = both * total / (both * total).sum()
    told = found.sum(["a", "c"])
    low = int(told["count"][0])
    np.testing.assert_allclose(told["pmf"], expected[low : low + told.sizes["count"]], atol=1e-13)


def test_a_place_of_many_blocks_is_as_precise_as_all_of_the_tree_and_the_rest_say() -> None:
    """A sum whose window is cut short: Chernoff's bound is above what lies outside, and moments agree."""
    rng = np.random.default_rng(3)
    parents: Any = {"c": None} | {f"g{i}": "c" for i in range(6)} | {f"b{i}": f"g{i % 6}" for i in range(180)}
    tree = spine.Tree.of(parents, ("county", "group", "block"))
    counts = tree.sums(rng.poisson(30.0, tree.leaves.size))
    rho = np.array([0.05, 0.2, 0.1])[tree.level]
    released = counts + np.rint(rng.normal(0, np.sqrt(0.5 / rho)))
    found = spine.posterior(tree, released, rho, spine.Flat())
    place = [f"b{i}" for i in range(0, 180, 2)]
    told = found.sum(place)
    window = found.solutions[0].messages.windows["size"]
    assert told.sizes["count"] < 0.5 * window[tree.index(place)].sum()
    assert float(told["error"]) < 1e-11
    squares = spine.least_squares_combination(tree, released, rho, dict.fromkeys(place, 1.0))
    assert float(told["mean"]) == pytest.approx(float(squares["mean"]), abs=1e-6)
    assert float(told["sd"]) == pytest.approx(float(squares["sd"]), rel=1e-6)
    places, ends = tree.index(place), tuple(int(told["mean"] + k * told["sd"]) for k in (-3.5, 3.5))
    beyond = float(told["pmf"].where((told["count"] < ends[0]) | (told["count"] > ends[1])).sum())
    bound = _outside(tree, found.solutions[0], places, np.ones(places.size), ends, float(told["sd"]))
    assert 1e-4 < beyond <= bound < 0.05


@pytest.mark.parametrize("seed", range(4))
def test_least_squares_of_a_combination_is_dense_algebra(seed: int) -> None:
    """Means and variances of every unit, and of combinations, from the normal equations of all leaves at once."""
    rng = np.random.default_rng(seed)
    released, rho = RELEASED + rng.normal(0, 3, 8).round(), rng.uniform(0.05, 0.6, 8)
    exact = []
    if seed == 1:
        rho[1] = 0.0
    if seed == 2:
        rho[3], rho[0] = 0.0, 0.0
    if seed == 3:
        rho[1], released[1] = np.inf, 9.0
        exact = [1]
    under = np.zeros((8, 5))
    for leaf in range(5):
        v = leaf + 3
        while v >= 0:
            under[v, leaf] = 1.0
            v = int(TREE.parent[v])
    weight = np.where(np.isinf(rho), 0.0, 2.0 * rho)
    precision, start, free = under.T @ (weight[:, None] * under), np.zeros(5), np.eye(5)
    if exact:
        start = np.linalg.pinv(under[exact]) @ released[exact]
        free = np.linalg.svd(under[exact])[2][len(exact) :].T
    covariance = free @ np.linalg.inv(free.T @ precision @ free) @ free.T
    estimate = start + covariance @ (under.T @ (weight * released) - precision @ start)
    two = spine.least_squares(TREE, released, rho)
    np.testing.assert_allclose(two["mean"], under @ estimate, atol=1e-10)
    np.testing.assert_allclose(two["sd"] ** 2, np.diag(under @ covariance @ under.T), atol=1e-10)
    row = {name: i for i, name in enumerate(TREE.names.tolist())}
    cases: Any = (
        {"1": 1, "5": 1},
        {"g": 1, "h": -1},
        {"1": 2.0, "2": -1, "t": 0.5},
        {"3": 1},
        {"t": 1},
        {"g": 1, "1": -1},
    )
    for coefficients in cases:
        a = np.zeros(8)
        a[[row[name] for name in coefficients]] = list(coefficients.values())
        found = spine.least_squares_combination(TREE, released, rho, coefficients)
        assert float(found["mean"]) == pytest.approx(float(a @ under @ estimate), abs=1e-10)
        assert float(found["sd"]) ** 2 == pytest.approx(float(a @ under @ covariance @ under.T @ a), abs=1e-10)


def test_what_the_measurements_do_not_determine_has_no_end() -> None:
    rho = np.array([0.3, 0.3, 0.3, 0, 0, 0.3, 0.3, 0.3])
    told = spine.least_squares_combination(TREE, RELEASED, rho, {"1": 1})
    assert np.isinf(told["sd"])
    assert np.isnan(told["mean"])
    both = spine.least_squares_combination(TREE, RELEASED, rho, {"1": 1, "2": 1})
    g = spine.least_squares_combination(TREE, RELEASED, rho, {"g": 1, "3": -1})
    assert float(both["sd"]) == pytest.approx(float(g["sd"]), rel=1e-12)
    several = np.stack([RELEASED, RELEASED + 1], axis=1)
    cells = spine.least_squares_combination(TREE, several, RHO, {"g": 1})
    assert cells["mean"].dims == ("cell",)
    for cell in range(2):
        one = spine.least_squares_combination(TREE, several[:, cell], RHO, {"g": 1})
        assert float(cells["mean"][cell]) == float(one["mean"])


def test_units_that_overlap_or_are_not_there_are_refused() -> None:
    found = spine.posterior(TREE, RELEASED, RHO, spine.Flat())
    cases: list[tuple[Any, str]] = [
        (lambda: found.sum([]), "units must name at least one unit"),
        (lambda: found.sum(["1", "nowhere"]), "no unit 'nowhere'"),
        (lambda: found.sum(["1", "2", "1"]), "'1' comes twice"),
        (lambda: found.sum(["1", "g"]), "'1' lies in 'g'"),
        (lambda: found.compare("1", ["2", "1"]), "'1' comes twice"),
        (lambda: found.compare("g", "2"), "'2' lies in 'g'"),
        (lambda: found.share("1", of="h"), "'1' lies in none of the units"),
        (lambda: found.share("t", of="h"), "'t' lies in none of the units"),
        (lambda: spine.least_squares_combination(TREE, RELEASED, RHO, {}), "at least one unit"),
        (lambda: spine.least_squares_combination(TREE, RELEASED, RHO, {"x": 1}), "no unit 'x'"),
        (lambda: spine.least_squares_combination(TREE, RELEASED, RHO, {"1": np.nan}), "coefficient of '1'"),
    ]
    for make, words in cases:
        with pytest.raises(ValueError, match=words):
            make()
