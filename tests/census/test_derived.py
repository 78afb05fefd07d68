"""Sums, differences and shares of units of a spine, against every vector of leaf counts written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.census.spine import derived, unit_sums
from adversary.census.spine.unit_sums import Combination
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
    solution, ends = found.solutions[0], [int(told["mean"] + k * told["sd"]) for k in (-3.5, 3.5)]
    beyond = float(told["pmf"].where((told["count"] < ends[0]) | (told["count"] > ends[1])).sum())
    chosen = Combination.of(tree, tree.index(place), np.ones(len(place)))
    tilts = np.array([-2.0, -1.0, 1.0, 2.0]) * 2.0 / float(told["sd"])
    log = derived._log_generating(tree, solution, chosen, tilts) - tilts * (
        np.where(tilts > 0, ends[1] + 1, ends[0] - 1) - derived._rounded_centre(solution, chosen)
    )
    assert 1e-4 < beyond <= np.exp(log[:2]).min() + np.exp(log[2:]).min() < 0.05


def county(blocks: int, prior: Any, seed: int = 5, groups: int = 8, people: int = 0) -> tuple[Any, list[str]]:
    """A posterior of a county, and the names of its blocks."""
    rng = np.random.default_rng(seed)
    parents: Any = {"c": None} | {f"t{i}": "c" for i in range(groups // 2)}
    parents |= {f"g{i}": f"t{i // 2}" for i in range(groups)} | {f"b{i}": f"g{i % groups}" for i in range(blocks)}
    tree = spine.Tree.of(parents, ("county", "tract", "group", "block"))
    counts = tree.sums(rng.negative_binomial(0.7, 0.05, tree.leaves.size) + people)
    rho = np.array([0.4, 0.1, 0.2, 0.08])[tree.level]
    return spine.posterior(tree, counts + np.rint(rng.normal(0, np.sqrt(0.5 / rho))), rho, prior), [
        f"b{i}" for i in range(blocks)
    ]


def test_frequencies_left_out_are_proven_to_be_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all frequencies, and with every sum term by term, laws are the same to their errors."""
    found, blocks = county(120, spine.Flat(), people=60)
    some = blocks[3:100:2]
    sizes: list[tuple[int, int]] = []
    expectation = unit_sums.expectation

    def counted(*arguments: Any, **more: Any) -> Any:
        sizes.append((len(arguments[3]), np.iscomplexobj(arguments[3])))
        return expectation(*arguments, **more)

    monkeypatch.setattr(derived, "expectation", counted)
    monkeypatch.setattr(unit_sums, "DIRECT", 0.0)
    fast = found.sum(some), found.compare(some[::2], some[1::2]), found.share(some[::2], some)
    used = max(size for size, inverted in sizes if inverted)
    assert used <= unit_sums.ENOUGH < fast[0].sizes["count"] // 2
    monkeypatch.setattr(derived, "_needed_frequencies", lambda *a, **_: (a[3] // 2 + 1, 0.0))
    monkeypatch.setattr(unit_sums, "DIRECT", np.inf)
    slow = found.sum(some), found.compare(some[::2], some[1::2]), found.share(some[::2], some)
    for one, other in zip(fast, slow, strict=True):
        assert float(one["error"]) < 1e-7
        for name in ("mean", "sd", "lower", "upper"):
            assert float(one[name]) == pytest.approx(float(other[name]), abs=1e-7, rel=1e-9)
    for one, other in zip(fast[:2], slow[:2], strict=True):
        off = float(np.abs(one["pmf"].values - other["pmf"].values).sum())
        assert off <= float(one["error"] + other["error"])
        values = one["pmf"].coords[one["pmf"].dims[0]].values
        assert float(one["mean"]) == pytest.approx(float((one["pmf"].values * values).sum()), abs=1e-6)
        moment = float((one["pmf"].values * (values - float(one["mean"])) ** 2).sum())
        assert float(one["sd"]) == pytest.approx(np.sqrt(moment), rel=1e-7)


def test_bounds_on_a_characteristic_function_hold_at_every_frequency() -> None:
    found, blocks = county(60, spine.Flat(), groups=4)
    tree, solution = found.tree, found.solutions[0]
    for signs in ([1.0] * 30, [1.0, -1.0] * 15):
        places = tree.index(blocks[:30])
        chosen = Combination.of(tree, places, np.array(signs))
        size = 601
        bound, missed = unit_sums.characteristic_bound(tree, solution, chosen, size)
        omega = 2j * np.pi * np.arange(bound.size) / size
        values, _ = unit_sums.expectation(tree, solution, chosen, omega[:, None] * chosen.coefficients, direct=True)
        assert (np.abs(values[0]) <= bound + missed + 1e-13).all()
        assert bound[40] < 0.01
        assert missed < 1e-15


def test_interval_and_moments_of_a_share_in_a_unit_and_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moments worked out without the joint law are those of the joint law."""
    monkeypatch.setattr(derived, "SMALL", 1 << 16)
    found, blocks = county(24, spine.NegativeBinomial(0.7, 13.0), groups=4)
    for part, of in ((blocks[:8], "c"), (blocks[:8], ["g0", "g1", *blocks[2:8:4], *blocks[3:8:4]]), ("b0", "g0")):
        share = found.share(part, of)
        table = share["joint"].values
        assert table.sum() == pytest.approx(1.0, abs=1e-9)
        total = share["count"].values[:, None] + share["rest"].values
        ratio = share["count"].values[:, None] / np.maximum(total, 1)
        there = table * (total > 0)
        mean = (there * ratio).sum() / there.sum()
        assert float(share["mean"]) == pytest.approx(mean, abs=1e-9)
        assert float(share["sd"]) == pytest.approx(np.sqrt((there * (ratio - mean) ** 2).sum() / there.sum()), abs=1e-8)
        assert share.attrs["interval"] == derived.EQUAL_TAILED
        outside = there[(ratio < float(share["lower"])) | (ratio > float(share["upper"]))].sum() / there.sum()
        assert outside <= 0.1 + 1e-12
        assert float(share["lower"]) < mean < float(share["upper"])


def test_where_a_joint_law_is_too_large_the_interval_is_that_of_a_beta_law(monkeypatch: pytest.MonkeyPatch) -> None:
    found, blocks = county(24, spine.NegativeBinomial(0.7, 13.0), groups=4)
    part, of = blocks[:8], ["g0", "g1", *blocks[2:8:4], *blocks[3:8:4]]
    monkeypatch.setattr(derived, "SMALL", 1 << 16)
    exact = found.share(part, of)
    monkeypatch.setattr(derived, "SMALL", 0)
    rough = found.share(part, of)
    assert "joint" not in rough
    assert rough.attrs["interval"] == derived.BETA
    for name in ("mean", "sd", "empty"):
        assert float(rough[name]) == pytest.approx(float(exact[name]), abs=1e-12)
    for name in ("lower", "upper"):
        assert float(rough[name]) == pytest.approx(float(exact[name]), abs=0.03)
    monkeypatch.setattr(derived, "LARGE", 3000)
    whole = found.share(part, "c")
    assert "joint" not in whole
    assert whole.attrs["interval"] == derived.EQUAL_TAILED


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
