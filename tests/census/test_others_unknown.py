"""A reader who does not know the others of a leaf: as enumerated, with the proven error, in one piece or several.

And counts that bounds limit, which such readers meet in published files.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import poisson

from adversary.census import spine
from adversary.census.spine.membership import STATUS
from tests.census.test_spine_agreement import in_pieces
from tests.oracles import spine as oracle

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
    return expected_of(whole)


def expected_of(whole: oracle.Enumeration) -> Any:
    """Log evidence with a person more than its law has in each leaf, minus that without."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.array([evidence(whole, leaf) for leaf in whole.leaves]) - whole.log_evidence


def evidence(whole: oracle.Enumeration, leaf: int) -> float:
    total = np.zeros(whole.counts.shape[1])
    for v, log in enumerate(whole.log_like):
        total = total + (0.0 if log is None else log(whole.counts[v]))
    for leaves, weights, laws in whole.draws:
        rates = []
        for weight, law in zip(weights, laws, strict=True):
            log_p = np.full(total.size, float(weight))
            for u in leaves:
                x = whole.counts[u]
                log_p = log_p + (np.where(x > 0, law(np.maximum(x - 1, 0)), -np.inf) if u == leaf else law(x))
            rates.append(log_p)
        total = total + logsumexp(np.array(rates), axis=0)
    return float(logsumexp(total))


@pytest.mark.slow
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


@pytest.mark.parametrize("case", CASES)
def test_who_does_not_know_the_others_is_the_mean_over_those_who_do(case: str) -> None:
    """Bayes factors of readers who know k others, averaged over the posterior of k that nobody is there besides."""
    found = spine.posterior(TREE, OBS, RHO, CASES[case][0])
    expected = np.zeros(len(LEAVES))
    for known in range(16):
        factor = found.membership(known=known)["log_bayes_factor"].values
        for i, leaf in enumerate(LEAVES):
            pmf = found.pmf(str(TREE.names[leaf]))
            chance = float(pmf[pmf["count"] == known].sum())
            expected[i] += chance * np.exp(factor[i]) if chance > 0.0 else 0.0
    np.testing.assert_allclose(found.membership()["log_bayes_factor"], np.log(expected), atol=2e-5)


SETTLED = {"exact": (np.inf, 0.0, np.inf), "bounds that meet": (0.1, 0.0, 0.0)}


@pytest.mark.parametrize("by", SETTLED)
@pytest.mark.parametrize(("noisy", "count"), [(4, 0), (12, 0), (12, 7)])
def test_settled_leaves_say_nothing_of_a_shared_rate(by: str, noisy: int, count: int) -> None:
    """Nineteen blocks that have exactly nobody, or seven people, for reasons of their own, beside one that is noisy."""
    rho, low, high = SETTLED[by]
    alone = spine.Tree.of({"g": None, "a": "g"})
    many = spine.Tree.of({"g": None, "a": "g"} | {f"z{i}": "g" for i in range(19)})
    limits = np.array([[0.0, np.inf], [0.0, np.inf], *[[low + count, high + count]] * 19]).T
    prior = spine.SharedRate()
    found = spine.posterior(many, [noisy + 19 * count, noisy, *[count] * 19], [0.02, 0.05, *[rho] * 19], bounds=limits)
    without = spine.posterior(alone, [noisy, noisy], [0.02, 0.05], prior)
    x = np.arange(400.0)
    log_p = [oracle.negative_binomial(0.5, float(mean))(x) for mean in np.asarray(prior.means)]
    log_w = logsumexp(np.array(log_p), axis=0) - 0.07 * (noisy - x) ** 2
    weight = np.exp(log_w - log_w.max())
    assert float(found.mean[1]) == pytest.approx(float(weight @ x / weight.sum()), abs=1e-9)
    for known in (None, 2):
        ours, theirs = (one.membership(known=known).sel(unit="a") for one in (found, without))
        assert float(ours["log_bayes_factor"]) == pytest.approx(float(theirs["log_bayes_factor"]), abs=1e-10)
    assert found.hdi()["upper"].values[1] == without.hdi()["upper"].values[1]
    np.testing.assert_allclose(found.rate_weights(), without.rate_weights(), atol=1e-12)
    other = found.membership().sel(unit="z3")
    assert STATUS[int(other["status"])] == ("ok" if count else "certain")


def test_weights_of_rates_are_fitted_to_the_leaves_that_are_draws() -> None:
    """In one cell no leaf of a group is one; the group is left out there."""
    tree = spine.Tree.of({"t": None, "g": "t", "h": "t"} | {f"{p}{i}": p for p in "gh" for i in range(2)})
    released = np.array([[9.0, 6.0], [6, 0], [3, 6], [2, 0], [4, 0], [1, 2], [2, 4]])
    rho = np.full((7, 2), 0.3)
    rho[[1, 3, 4], 1] = np.inf
    weights = spine.posterior(tree, released, rho).rate_weights()
    assert np.isfinite(weights).all(axis=2).tolist() == [[True, False], [True, True]]
    fitted = spine.fit_rate_prior(tree, released, rho, rounds=1)
    np.testing.assert_allclose(fitted.weights, weights[[0, 1, 1], [0, 0, 1]].mean(axis=0), rtol=1e-12)


def test_bounds_of_one_block_are_answered_as_by_hand() -> None:
    tree = spine.Tree.of({"r": None, "a": "r", "b": "r"})
    a, b = np.arange(60)[:, None], np.arange(60)
    weight = np.exp(-0.5 * ((2 - a) ** 2 + (2 - b) ** 2 + (4 - a - b) ** 2)) * (a <= 2)
    for prior, p in ((spine.Poisson(1.0), poisson.pmf(b, 1)), (spine.Pmf(PMF), np.pad(PMF, (0, 56)))):
        found = spine.posterior(tree, [4, 2, 2], 0.5, prior, bounds=([0.0] * 3, [np.inf, 2.0, np.inf]))
        with_one, parts = np.append(0.0, p[:-1]), (p[:, None] * p * weight).sum()
        expected = [(with_one[:, None] * p * weight).sum() / parts, (p[:, None] * with_one * weight).sum() / parts]
        members = found.membership(0.5)
        np.testing.assert_allclose(members["log_bayes_factor"], np.log(expected), atol=1e-12)
        assert (members["status"] == STATUS.index("ok")).all()


def test_bounds_off_the_whole_numbers_or_the_exact_count_are_refused() -> None:
    tree = spine.Tree.of({"r": None, "a": "r", "b": "r"})
    rho, free = [0.1, np.inf, 0.1], [0.0, 0.0, 0.0]
    for low, high, said in (
        (free, [np.inf, np.inf, -1.0], r"no count of unit 'b' lies within its bounds, \[0, -1\]"),
        ([0.0, 0.0, 0.2], [np.inf, np.inf, 0.8], r"no count of unit 'b' lies within its bounds, \[0.2, 0.8\]"),
        ([0.0, 0.0, np.nan], [np.inf] * 3, r"no count of unit 'b' lies within its bounds, \[nan, inf\]"),
        ([0.0, 3.0, 0.0], [np.inf] * 3, r"the exact count of unit 'a', 2, lies outside its bounds, \[3, inf\]"),
        ([9.0, 0.0, 0.0], [9.0, np.inf, 6.0], r"totals of 'r': it is 9, and what lies in it holds between 2 and 8"),
        ([9.0, 0.0, 0.0], [10.0, np.inf, 6.0], r"totals of 'r': it is 9 to 10, and what lies in it holds between 2"),
    ):
        with pytest.raises(ValueError, match=said):
            spine.posterior(tree, [5, 2, 3], rho, spine.Poisson(1.0), bounds=(low, high))
    rounded = spine.posterior(tree, [5, 2, 3], rho, spine.Poisson(1.0), bounds=(free, [np.inf, np.inf, 2.9]))
    assert rounded.pmf("b")["count"].values.max() == 2


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


@pytest.mark.slow
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


@pytest.mark.slow
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
    np.testing.assert_allclose(free.mean, loose.mean, rtol=1e-12)
    with pytest.raises(ValueError, match="no count of unit '1' lies within its bounds"):
        spine.posterior(TREE, OBS, RHO, prior, bounds=(np.eye(8)[3] * 5, np.where(np.arange(8) == 3, 4.0, np.inf)))
    rho = RHO.copy()
    rho[3] = 0.0
    wide = np.where(np.arange(8) == 3, 99999.0, np.inf)
    found = spine.posterior(TREE, OBS, rho, prior, bounds=(np.zeros(8), wide))
    np.testing.assert_allclose(found.mean, spine.posterior(TREE, OBS, rho, prior).mean, rtol=1e-12)
