"""A reader who does not know the others of a leaf: as enumerated, with the proven error, in one piece or several.

And counts that bounds limit, which such readers meet in published files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from adversary.reader import spine
from adversary.reader.spine.membership import STATUS
from tests.oracles import spine as oracle
from tests.reader.test_spine_agreement import in_pieces

PLACES = {"t": None, "g": "t", "h": "t", "1": "g", "2": "g", "3": "g", "4": "h", "5": "h"}
TREE = spine.Tree.of(PLACES)
PARENTS = [-1, 0, 0, 1, 1, 1, 2, 2]
OBS = [6, 4, 1, 1, 3, -2, 0, 2]
RHO = np.array([0.05, 0.25, 0.25, 0.1, 0.1, 0.1, 0.1, 0.1])
LEAVES = [3, 4, 5, 6, 7]
MEANS = [0.3, 0.7, 1.5]
EVEN = np.log(np.full(3, 1 / 3))
PMF = [0.2, 0.5, 0.0, 0.3]


def each(law: Any) -> Any:
    """Every leaf has a law of its own."""
    return [([leaf], [0.0], [law]) for leaf in LEAVES]


def shared(groups: Any, laws: Any) -> Any:
    """Leaves that share one of several laws."""
    return [(group, EVEN, laws) for group in groups]


NB = [oracle.negative_binomial(0.5, mean) for mean in MEANS]
POISSON = [oracle.poisson(mean) for mean in MEANS]
GROUPS = [[3, 4, 5], [6, 7]]
CASES: dict[str, tuple[spine.LeafPrior, Any, int]] = {
    "flat": (spine.Flat(), each(oracle.flat), 14),
    "negative binomial": (spine.NegativeBinomial(0.5, 0.7), each(oracle.negative_binomial(0.5, 0.7)), 14),
    "negative binomial of large shape": (spine.NegativeBinomial(4.0, 0.7), each(oracle.negative_binomial(4, 0.7)), 14),
    "Poisson": (spine.Poisson(0.7), each(oracle.poisson(0.7)), 14),
    "listed": (spine.Pmf(PMF), each(oracle.listed(PMF)), 5),
    "rate shared by a parent": (spine.SharedRate(MEANS), shared(GROUPS, NB), 14),
    "rate shared by all": (spine.SharedRate(MEANS, within="tree"), shared([LEAVES], NB), 14),
    "Poisson rate shared by a parent": (spine.SharedRate(MEANS, shape=None), shared(GROUPS, POISSON), 14),
}


def likelihoods(rho: Any, limits: Any = None) -> list[Any]:
    """Log likelihoods of the units' counts, infinitely sharp where exact, none off their limits."""

    def one(v: int) -> Any:
        low, high = (0, np.inf) if limits is None else (limits[0][v], limits[1][v])
        sharp = np.isinf(rho[v])

        def log(x: Any) -> Any:
            near = np.where(x == OBS[v], 0.0, -np.inf) if sharp else -rho[v] * (OBS[v] - x) ** 2
            return np.where((x >= low) & (x <= high), near, -np.inf)

        return log

    return [one(v) for v in range(len(PARENTS))]


def enumerated(rho: Any, groups: Any, most: int) -> Any:
    """Log evidence with a person more than its law has in each leaf, minus that without."""
    whole = oracle.Enumeration(PARENTS, likelihoods(rho), most, groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.array([evidence(whole, groups, leaf) for leaf in LEAVES]) - whole.log_evidence


def evidence(whole: oracle.Enumeration, groups: Any, leaf: int) -> float:
    total = np.zeros(whole.counts.shape[1])
    for v, log in enumerate(whole.log_like):
        total = total + log(whole.counts[v])  # type: ignore[misc]
    for leaves, weights, laws in groups:
        rates = []
        for weight, law in zip(weights, laws, strict=True):
            log_p = np.full(total.size, float(weight))
            for u in leaves:
                x = whole.counts[u]
                log_p = log_p + (np.where(x > 0, law(np.maximum(x - 1, 0)), -np.inf) if u == leaf else law(x))
            rates.append(log_p)
        total = total + logsumexp(np.array(rates), axis=0)
    return float(logsumexp(total))


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_enumeration(case: str) -> None:
    prior, groups, most = CASES[case]
    found = spine.posterior(TREE, OBS, RHO, prior).membership(0.2)
    expected = enumerated(RHO, groups, most)
    np.testing.assert_allclose(found["log_bayes_factor"], expected, atol=1e-12)
    assert float(found["error"].max()) < 1e-15
    assert (found["status"] == STATUS.index("ok")).all()
    np.testing.assert_allclose(found["log_odds"], np.log(0.25) + expected, atol=1e-12)
    assert np.isnan(found["known"]).all()
    assert np.isnan(found["tail"]).all()


def test_under_a_flat_law_it_is_the_probability_that_somebody_is_there() -> None:
    found = spine.posterior(TREE, OBS, RHO, spine.Flat())
    empty = [float(found.pmf(str(TREE.names[leaf])).sel(count=0)) for leaf in LEAVES]
    np.testing.assert_allclose(found.membership()["log_bayes_factor"], np.log1p(-np.array(empty)), atol=1e-14)


def test_exact_counts_settle_or_inform() -> None:
    rho = RHO.copy()
    rho[[0, 6, 7]] = np.inf  # the total is 6; one leaf has nobody, one has two
    found = spine.posterior(TREE, OBS, rho, spine.SharedRate(MEANS)).membership(0.2)
    expected = enumerated(rho, shared(GROUPS, NB), 8)
    np.testing.assert_allclose(found["log_bayes_factor"], expected, atol=1e-12)
    assert expected[3] == -np.inf
    assert [STATUS[i] for i in found["status"].values] == ["ok", "ok", "ok", "certain", "ok"]
    assert found["posterior"].values[3] == 0.0


def test_a_count_that_all_but_excludes_anybody_is_proven_on_wider_windows() -> None:
    tree = spine.Tree.of({"g": None, "a": "g", "b": "g"})
    found = spine.posterior(tree, [0, 0, 3], [0.1, 60.0, 0.1], spine.Flat())
    members = found.membership()
    assert (members["status"] == STATUS.index("ok")).all()
    x, y = np.arange(40.0)[:, None], np.arange(40.0)
    log = -60.0 * x**2 - 0.1 * (3 - y) ** 2 - 0.1 * (x + y) ** 2
    expected = logsumexp(log[1:]) - logsumexp(log)
    assert members["log_bayes_factor"].values[0] == pytest.approx(expected, abs=1e-9)
    assert expected < -59.0


def test_some_leaves_may_be_known_and_others_not() -> None:
    found = spine.posterior(TREE, OBS, RHO, spine.SharedRate(MEANS))
    none, all_of = found.membership(0.2), found.membership(0.2, [0, 3, 0, 1, 9])
    some = found.membership(0.2, {"1": np.nan, "2": 3, "3": 0, "4": np.nan, "5": 9})
    for name in ("log_bayes_factor", "error", "status"):
        expected = np.where([True, False, False, True, False], none[name], all_of[name])
        np.testing.assert_array_equal(some[name], expected)
    np.testing.assert_array_equal(np.isnan(some["tail"]), [True, False, False, True, False])
    with pytest.raises(ValueError, match="known must be a whole number"):
        found.membership(0.2, [0.5, np.nan, 0, 0, 0])


def test_the_tail_is_that_of_the_posterior() -> None:
    found = spine.posterior(TREE, OBS, RHO, spine.SharedRate(MEANS))
    known = np.array([0, 12, 3, 1, 0])
    members = found.membership(0.2, known)
    for leaf, n, tail in zip(LEAVES, known, members["tail"].values, strict=True):
        pmf = found.pmf(str(TREE.names[leaf]))
        count = pmf["count"].values
        assert tail == pytest.approx(min(float(pmf[count <= n + 1].sum()), float(pmf[count >= n].sum())), abs=1e-12)
    assert members["tail"].values[1] < 1e-6


def agree(whole: Any, pieces: Any) -> None:
    for _, found in pieces[1].values():
        part = found.membership(0.2)
        expected = whole.membership(0.2).sel(unit=part["unit"])
        np.testing.assert_allclose(part["log_bayes_factor"], expected["log_bayes_factor"], atol=1e-11)


@pytest.mark.parametrize("case", ["flat", "Poisson", "negative binomial"])
def test_a_tree_in_pieces_answers_as_the_whole(case: str) -> None:
    prior = CASES[case][0]
    whole = spine.posterior(TREE, OBS, RHO, prior)
    agree(whole, in_pieces(TREE, OBS, RHO, prior))


def test_pieces_whose_blocks_share_rates_answer_as_the_whole() -> None:
    places = {"s": None, "c": "s", "d": "s", "g": "c", "h": "c", "i": "d"} | {f"{p}{k}": p for p in "ghi" for k in "12"}
    tree = spine.Tree.of(places)
    rng = np.random.default_rng(2)
    obs, rho = rng.integers(-2, 6, len(tree)).astype(float), np.full(len(tree), 0.1)
    whole, prior = spine.posterior(tree, obs, rho), spine.SharedRate()
    agree(whole, in_pieces(tree, obs, rho, prior))


def test_such_readers_are_right_on_average() -> None:
    """Truths drawn from the prior, with the person in or not: the posterior is the share of those where it is in."""
    rng, prior = np.random.default_rng(5), spine.NegativeBinomial(0.5, 2.0)
    tree = spine.Tree.of({"g": None, **{f"b{i}": "g" for i in range(4)}})
    rho = np.array([0.2, 0.1, 0.1, 0.1, 0.1])
    draws = 4000
    counts = rng.negative_binomial(0.5, 0.5 / 2.5, (draws, 4))
    inside = rng.random(draws) < 0.3
    counts[:, 0] += inside
    truth = np.column_stack([counts.sum(axis=1), counts])
    noise = np.stack([np.rint(rng.normal(0.0, np.sqrt(0.5 / r), draws)) for r in rho], axis=1)
    found = spine.posterior(tree, (truth + noise).T, np.repeat(rho[:, None], draws, axis=1), prior)
    believed = found.membership(0.3)["posterior"].values[0]
    off = (inside - believed).sum() / np.sqrt((believed * (1 - believed)).sum())
    assert abs(off) < 4.0
    assert believed[inside].mean() > believed[~inside].mean() + 0.01


@pytest.mark.parametrize("case", ["flat", "negative binomial", "rate shared by a parent"])
def test_bounds_limit_counts_as_in_the_enumeration(case: str) -> None:
    prior, groups, _ = CASES[case]
    low, high = np.zeros(8), np.full(8, np.inf)
    low[3], high[4], low[6], high[6] = 3, 2, 1, 4
    high[2] = 5
    found = spine.posterior(TREE, OBS, RHO, prior, bounds=(low, high))
    whole = oracle.Enumeration(PARENTS, likelihoods(RHO, (low, high)), 14, groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = [whole.mean(v) for v in range(8)]
    np.testing.assert_allclose(found.mean, expected, atol=1e-9)
    assert found.status == "ok"
    assert 0 not in found.pmf("1")["count"].values[found.pmf("1").values > 0]


def test_bounds_that_do_not_bind_change_nothing_and_bad_ones_are_refused() -> None:
    prior = spine.NegativeBinomial(0.5, 0.7)
    free = spine.posterior(TREE, OBS, RHO, prior)
    loose = spine.posterior(TREE, OBS, RHO, prior, bounds=(np.zeros(8), np.full(8, 99999.0)))
    np.testing.assert_array_equal(free.mean, loose.mean)
    with pytest.raises(ValueError, match="no count of unit '1' lies within its bounds"):
        spine.posterior(TREE, OBS, RHO, prior, bounds=(np.eye(8)[3] * 5, np.where(np.arange(8) == 3, 4.0, np.inf)))
    rho = RHO.copy()
    rho[3] = 0.0
    wide = np.where(np.arange(8) == 3, 99999.0, np.inf)  # of what was not measured: too many counts to list
    found = spine.posterior(TREE, OBS, rho, prior, bounds=(np.zeros(8), wide))
    np.testing.assert_array_equal(found.mean, spine.posterior(TREE, OBS, rho, prior).mean)
