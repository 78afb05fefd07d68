"""Cases on which the reader of a tree of counts once stopped or answered wrongly, against all vectors of counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import adversary as adv
from tests.census.test_spine import square
from tests.census.test_spine_agreement import in_pieces
from tests.oracles import spine as oracle

spine = adv.spine
INF, NAN = np.inf, np.nan
STATUS = spine.STATUS


def enumerated(tree: Any, released: Any, rho: Any, groups: Any, most: int, **log_like: Any) -> oracle.Enumeration:
    likes = [square(r, y) for r, y in zip(rho, released, strict=True)]
    for name, like in log_like.items():
        likes[int(tree.index(name))] = like
    return oracle.Enumeration(tree.parent.tolist(), likes, most, groups)


def alone(leaves: Any, law: Any) -> Any:
    return [([int(leaf)], [0.0], [law]) for leaf in leaves]


def agrees(found: Any, truth: oracle.Enumeration) -> None:
    assert found.status == "ok"
    assert found.log_evidence == pytest.approx(truth.log_evidence, abs=1e-10)
    assert found.mean.values == pytest.approx([truth.mean(v) for v in range(len(found.tree))], abs=1e-9)


def test_a_reader_knows_of_more_than_a_leafs_prior_allows_under_an_exact_total() -> None:
    """The prior of one leaf, with the total, limits its siblings; not for a reader who knows better."""
    pmf = [0.2, 0.3, 0.1, 0.4]
    tree = spine.Tree.of({"r": None, "g": "r", "a": "g", "b": "g", "c": "r"})
    released, rho = [8, NAN, 2, 3, 2], [INF, 0.0, 0.1, 0.2, 0.4]
    found = spine.posterior(tree, released, rho, spine.Pmf(pmf))
    truth = enumerated(tree, released, rho, alone(tree.leaves, oracle.listed(pmf)), 8)
    agrees(found, truth)
    for known in (4, 5):
        answers = found.membership(known=known)
        expected = [truth.log_bayes_factor(leaf, known) for leaf in tree.leaves]
        assert np.isfinite(expected).all()
        assert [STATUS[i] for i in answers["status"].values] == ["rerun"] * 3
        assert answers["log_bayes_factor"].values == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("pmf", [[0.4, 0.6], [0.01, 0.0, 0.0, 0.0, 0.0, 0.86, 0.13]])
def test_a_reader_of_a_piece_knows_of_other_counts_than_the_leafs_prior(pmf: list[float]) -> None:
    tree = spine.Tree.of({"r": None, "g": "r", "h": "r", "a": "g", "b": "g", "c": "h"})
    released, rho = np.array([6.0, NAN, NAN, 1, 2, 0]), np.array([1.3, 0.0, 0.0, 0.2, 0.4, 0.1])
    prior = spine.Pmf(pmf)
    whole = spine.posterior(tree, released, rho, prior)
    _, parts = in_pieces(tree, released, rho, prior)
    for known in (0, 1, 2, 4):
        theirs = whole.membership(known=known)
        for _, part in parts.values():
            ours = part.membership(known=known)
            assert (ours["status"].values < 2).all()
            gap = ours["log_bayes_factor"].values - theirs.sel(unit=ours["unit"])["log_bayes_factor"].values
            assert np.abs(gap).max() < 1e-10


def test_geometric_noise_whose_unit_is_tilted_to_the_limit() -> None:
    """exp(alpha x) times exp(-alpha x) does not fall: the tilt stays a little inside."""
    tree = spine.Tree.of({"r": None, "a": "r", "g": "r", "b": "g"})
    noise = {name: adv.Geometric(alpha) for name, alpha in (("r", 0.1), ("g", 0.1), ("b", 0.4))}
    released, rho = [-8, NAN, 1, -1], [0.0, 0.0, 0.0, 0.0]
    likes = {name: lambda x, n=name, y=y: noise[n].log_noise(0) * 0 - noise[n].epsilon * abs(y - x)
             for name, y in (("r", -8), ("g", 1), ("b", -1))}  # fmt: skip
    for prior, law in ((spine.Poisson(0.3), oracle.poisson(0.3)), (spine.NegativeBinomial(0.5, 0.2),
                                                                  oracle.negative_binomial(0.5, 0.2))):  # fmt: skip
        found = spine.posterior(tree, released, rho, prior, noise=noise)
        agrees(found, enumerated(tree, released, rho, alone(tree.leaves, law), 60, **likes))
    shared = spine.SharedRate([0.003, 0.3], shape=None, within="tree")
    groups = [(tree.leaves.tolist(), [np.log(0.5)] * 2, [oracle.poisson(0.003), oracle.poisson(0.3)])]
    found = spine.posterior(tree, released, rho, shared, noise=noise)
    agrees(found, enumerated(tree, released, rho, groups, 60, **likes))


@pytest.mark.parametrize(
    ("means", "shape", "released"), [([0.003, 40.0], None, [-2, NAN]), ([1.0, 0.003, 12.0], None, [1, -5])]
)
def test_rates_so_far_apart_that_no_summit_keeps_the_others(means: Any, shape: Any, released: Any) -> None:
    tree = spine.Tree.of({"r": None, "a": "r"})
    rho = [0.02, 0.0 if np.isnan(released[1]) else 0.02]
    found = spine.posterior(tree, released, rho, spine.SharedRate(means, shape=shape))
    weights = [-np.log(len(means))] * len(means)
    agrees(found, enumerated(tree, released, rho, [([1], weights, [oracle.poisson(m) for m in means])], 150))
    assert found.truncation_bound < 1e-12


def test_an_exact_total_far_from_what_its_parts_were_observed_at() -> None:
    """All children at the ends of what they can be: their sum does not follow a small change of the tilt."""
    tree = spine.Tree.of({"r": None, "a": "r", "g": "r", "b": "g", "h": "g", "c": "h"})
    released, rho = [4, 93, 450, 205, -80, NAN], [INF, 0.5, 0.02, 0.1, 0.25, 0.0]
    means = [12.0, 0.05, 0.003]
    found = spine.posterior(tree, released, rho, spine.SharedRate(means, shape=2.0, within="tree"))
    laws = [oracle.negative_binomial(2.0, mean) for mean in means]
    agrees(found, enumerated(tree, released, rho, [(tree.leaves.tolist(), [-np.log(3)] * 3, laws)], 4))


def test_a_law_with_a_long_end_under_a_total_that_calls_for_more() -> None:
    """Tilted towards large counts, the end of the law, next to impossible, is not what the rest is measured by."""
    tree = spine.Tree.of({"r": None, "a": "r", "b": "r"})
    released, rho = [120, NAN, 0], [4.0, 0.0, 1.3]
    found = spine.posterior(tree, released, rho, spine.Pmf(scipy.stats.poisson(1.0)))
    agrees(found, enumerated(tree, released, rho, alone([1, 2], oracle.poisson(1.0)), 160))


@pytest.mark.slow
@pytest.mark.parametrize(
    "law",
    [scipy.stats.poisson(5000), scipy.stats.binom(9000, 0.5), scipy.stats.nbinom(400, 0.08)],
    ids=["poisson", "binomial", "negative binomial"],
)
def test_a_law_of_crowded_leaves_is_followed_where_its_mass_is(law: Any) -> None:
    mean = int(law.mean())
    released, rho = [2 * mean + 30, mean + 20, NAN], [0.5, 0.001, 0.0]
    found = spine.posterior(spine.Tree.of({"r": None, "a": "r", "b": "r"}), released, rho, spine.Pmf(law))
    k = np.arange(mean - 2500, mean + 2500)
    log_w = law.logpmf(k) - 0.001 * (k - released[1]) ** 2
    log_w = (log_w[:, None] + law.logpmf(k)) - 0.5 * (k[:, None] + k - released[0]) ** 2
    weight = np.exp(log_w - log_w.max())
    exact = [(weight * x).sum() / weight.sum() for x in (k[:, None] + k, k[:, None], k)]
    assert found.mean.values == pytest.approx(exact, rel=1e-10)
    assert found.status == "ok"


def test_a_law_that_would_be_cut_is_refused() -> None:
    with pytest.raises(ValueError, match=r"zipf.*lies on more counts than can be listed, .*: 65,536 at most"):
        spine.Pmf(scipy.stats.zipf(4.0))


def test_a_message_about_a_top_that_nothing_measures() -> None:
    """Its numbers end somewhere: tilted further up than they were made, what is beyond would have no bound."""
    tree = spine.Tree.of({"r": None, "g": "r", "h": "r", "a": "g", "b": "g", "c": "h", "d": "h"})
    released, rho = np.array([30.0, NAN, NAN, 2, 3, 8, 3]), np.array([0.1, 0, 0, 0.25, 4, 0.5, 1.3])
    for prior in (spine.Poisson(2.0), spine.Flat()):
        upper, _ = in_pieces(tree, released, rho, prior)
        whole = spine.posterior(tree, released, rho, prior)
        assert upper.status == "ok"
        assert upper.mean.values == pytest.approx(whole.mean.values[:3], abs=1e-9)


def test_releases_far_from_one_another_have_an_answer() -> None:
    """Small measurements of leaves that contradict the total: the default prior's search for tilts ended in none."""
    tree = spine.Tree.of({"r": None, "a": "r", "b": "r", "c": "r"})
    released, rho = [16, -20, 10, 5], [0.0019, 1 / 800, 1 / 800, 1 / 800]
    found = spine.posterior(tree, released, rho)
    assert found.status == "ok"
    assert found.truncation_bound < 1e-9
    assert float(found.mean[0]) == pytest.approx(float(found.mean[1:].sum()), rel=1e-9)
    some = spine.posterior(tree, released, rho, spine.NegativeBinomial(0.5, 5.0))
    truth = enumerated(tree, released, rho, [([1, 2, 3], [0.0], [oracle.negative_binomial(0.5, 5.0)])], 80)
    assert float(some.mean[1]) == pytest.approx(truth.mean(1), rel=1e-6)


def test_a_variance_beyond_all_reason_is_refused_by_name() -> None:
    tree = spine.Tree.of({"r": None, "a": "r", "b": "r"})
    for rho in (0.5e-300, 0.5e300, 0.4e-10):
        with pytest.raises(ValueError, match=r"rho of unit 'b' must be 0 .* within \[1e-12, 1e\+10\], got"):
            spine.posterior(tree, [5, 2, 3], [0.1, 0.1, rho])
    assert spine.posterior(tree, [5, 2, 3], [0.1, 0.1, 0.5e-10]).status == "ok"


def test_what_underflows_is_not_proven() -> None:
    tree = spine.Tree.of({"r": None, "a": "r", "b": "a"})
    found = spine.posterior(tree, [0, 0, NAN], [4.0, 0.1, 0.0], spine.NegativeBinomial(1.0, 0.05))
    for known in (20, 60, 66, 68, 70, 72):
        answer = found.membership(known=known)
        if STATUS[int(answer["status"][0])] != "unresolved":
            assert float(answer["log_bayes_factor"][0]) == pytest.approx(-4.1 * (2 * known + 1), rel=1e-12)


def test_a_unit_measured_far_better_than_its_leaves_answers_at_once() -> None:
    """A wide window reaches far off what is likely: exponents are taken about the latter."""
    tree = spine.Tree.of({"r": None, "a": "r", "b": "r"})
    released, rho = [9, NAN, NAN], [1.3, 0.0, 0.0]
    found = spine.posterior(tree, released, rho, spine.SharedRate([40.0], shape=2.0))
    truth = enumerated(tree, released, rho, [([1, 2], [0.0], [oracle.negative_binomial(2.0, 40.0)])], 40)
    answers = found.membership(known=1)
    assert [STATUS[i] for i in answers["status"].values] == ["ok", "ok"]
    assert answers["log_bayes_factor"].values == pytest.approx([truth.log_bayes_factor(1, 1)] * 2, abs=1e-10)


def test_an_early_turn_does_not_hold_up_the_search_for_tilts() -> None:
    rng = np.random.default_rng(0)
    parents = {"t": None} | {f"g{i}": "t" for i in range(30)}
    parents |= {f"b{i}.{j}": f"g{i}" for i in range(30) for j in range(40)}
    tree = spine.Tree.of(parents)
    rho = np.array([0.05, 0.25, 0.1])[tree.level]
    released = np.rint(rng.normal(0, np.sqrt(0.5 / rho)))
    for prior in (spine.SharedRate(), spine.SharedRate(shape=None), spine.NegativeBinomial(0.5, 1.0)):
        assert spine.posterior(tree, released, rho, prior).solutions[0].sweeps < 45


def county(groups: tuple[tuple[int, float], ...]) -> tuple[Any, Any, Any]:
    """A county of block groups of so many blocks, hardly measured, and people; the state's total is exact."""
    parents = {"s": None, "c": "s"} | {f"g{i}": "c" for i in range(len(groups))}
    parents |= {f"b{i}.{j}": f"g{i}" for i, (blocks, _) in enumerate(groups) for j in range(blocks)}
    tree = spine.Tree.of(parents)
    people = [n for _, n in groups]
    released = np.array([sum(people), sum(people) + 2, *people, *(n // b for b, n in groups for _ in range(b))])
    return tree, released, np.array([INF, 0.1, 0.17, 0.17])[tree.depth] * np.where(tree.depth == 3, 4e-4, 1.0)


def test_blocks_with_wide_siblings_under_an_exact_total_are_resolved() -> None:
    """Weights of the siblings' total were scaled to their largest far away, and vanished where they met the rest."""
    tree, released, rho = county(((40, 3000), (60, 3001), (4, 2500), (1, 30)))
    answers = spine.posterior(tree, released, rho).membership(known=0)
    assert np.isin(answers["status"].values, [STATUS.index("ok"), STATUS.index("rerun")]).all()
    prior = spine.NegativeBinomial(0.5, 40.0)
    found = spine.posterior(tree, released, rho, spine.SharedRate([40.0]))
    answers = found.membership(known=0)
    for name in ("b0.0", "b1.7", "b2.1"):
        unit, logs = int(tree.index(name)), []
        for count in (0, 1):
            there = released.astype(float), rho.copy()
            there[0][unit], there[1][unit] = count, INF
            logs.append(spine.posterior(tree, *there, prior).log_evidence)
        expected = logs[1] - logs[0] - np.log(0.5 * 40 / 40.5) + rho[unit] * (2 * released[unit] - 1)
        assert float(answers["log_bayes_factor"].sel(unit=name)) == pytest.approx(expected, abs=1e-8)


def test_second_runs_are_not_begun_where_they_would_take_longer_than_is_left() -> None:
    from adversary.census.spine.membership import log_ratios, rerun

    tree = spine.Tree.of({"r": None} | {f"g{i}": "r" for i in range(4)} | {f"b{i}": f"g{i % 4}" for i in range(40)})
    rho = np.array([0.05, 0.25, 0.1])[tree.depth]
    found = spine.posterior(tree, np.zeros(len(tree)), rho, spine.Poisson(0.05))
    known = np.where(tree.children == 0, 60, -1)
    ratio, error, told = log_ratios(found.solutions[0], known)
    asked = tree.leaves[tree.parent[tree.leaves] == 1]
    assert (error[asked] > 1e-6).all()
    args = (tree, found.solutions[0], asked, known, told, 1, 1e-6)
    ratio, error, _ = rerun(*args)
    assert (error < 1e-6).all()  # one run for ten siblings, and one more in its tilts
    assert ratio == pytest.approx(np.full(asked.size, ratio[0]), abs=1e-9)
    takes = np.ones(len(tree))
    runs = int(rerun(*args, takes, np.inf)[2])
    assert rerun(*args, takes, 0.5)[2] == 0.0
    assert np.isfinite(rerun(*args, takes, runs - 0.5)[0]).tolist() == [True] + [False] * 9


def test_a_message_bounds_what_it_leaves_out() -> None:
    """Its ledger was read from memory that was free already."""
    tree = spine.Tree.of({"g": None} | {f"b{i}": "g" for i in range(6)})
    released, rho = np.array([0.0, 3, 1, 0, 2, 5, 1]), 0.1
    fine = spine.upward_message(tree, released, rho, spine.Flat(), tau=1e-30)
    for tau in (1e-3, 1e-6):
        rough = spine.upward_message(tree, released, rho, spine.Flat(), tau=tau)
        start = rough.lowest - fine.lowest
        kept = fine.values[start : start + rough.values.size].sum()
        assert (fine.values.sum() - kept) / kept <= rough.truncation_bound < 20 * tau
        assert {
            spine.upward_message(tree, released, rho, spine.Flat(), tau=tau).truncation_bound for _ in range(5)
        } == {rough.truncation_bound}


@pytest.mark.parametrize("tau", [1e-2, 1e-4, 1e-5])
def test_the_ledger_counts_what_combinations_cut(tau: float) -> None:
    """Six blocks of zero to nine people, as likely each: only the window of their sum is cut, at either end."""
    from adversary.census.spine.compiled import upward
    from adversary.census.spine.problem import Likelihood, layout

    tree = spine.Tree.of({"g": None} | {f"b{i}": "g" for i in range(6)})
    digits, law = np.full(10, 0.1), np.ones(1)
    for _ in range(6):
        law = np.convolve(law, digits)
    nothing = Likelihood(np.full(7, NAN), np.zeros(7), np.zeros(7), {}, np.zeros(7), np.full(7, INF))
    made, _ = layout(tree, nothing, spine.Pmf(digits), {}, None)
    window = upward(made, np.zeros(7), tau, True)[0].windows[0]
    lost = law[: window["low"]].sum() + law[window["low"] + window["size"] :].sum()
    assert lost > 1e-6
    assert lost / (1.0 - lost) * (1.0 - 1e-9) <= window["dropped"] < 6.0 * tau


@pytest.mark.parametrize("prior", [spine.Flat(), spine.Poisson(1.0), spine.NegativeBinomial(0.5, 2.0)])
def test_pieces_agree_with_the_whole_or_are_unresolved(prior: Any) -> None:
    parents = {"r": None, "g": "r", "h": "r"} | {f"{name}{i}": name for name in "gh" for i in range(30)}
    tree = spine.Tree.of(parents)
    rho = np.array([0.5, 0.0, 0.0] + [0.1] * 60)
    words = []
    for total in (40, 150, 300, 3000):
        released = np.zeros(len(tree))
        released[0] = total
        whole = spine.posterior(tree, released, rho, prior)
        upper, parts = in_pieces(tree, released, rho, prior)
        at, part = parts["g"]
        members = part.membership(known=0)
        for found, units in ((upper, np.arange(3)), (part, at)):
            words.append(found.status)
            assert (found.status == "unresolved") == (not found.truncation_bound <= 1e-6)
            if found.status == "unresolved":
                assert found.mean.isnull().all()
                assert found.hdi()["mass"].isnull().all()
                assert found.pmf(found.tree.names[0]).isnull().all()
                assert (members["status"] == STATUS.index("unresolved")).all()
            else:
                assert found.mean.values == pytest.approx(whole.mean.values[units], abs=1e-4)
    assert {"ok", "unresolved"} <= set(words)


def test_the_default_prior_is_one_for_every_tree() -> None:
    one = spine.posterior(spine.Tree.of({"a": None}), [1], [0.5])  # flat
    x = np.arange(40)
    w = np.exp(-0.5 * (1 - x) ** 2)
    assert float(one.mean[0]) == pytest.approx(w @ x / w.sum(), abs=1e-12)
    assert float(one.membership(known=0)["log_bayes_factor"][0]) == pytest.approx(0.5)
    mixed = spine.Tree.of({"r": None, "g": "r", "a": "r", "b": "g", "c": "g"})
    released, rho = [6, 3, 2, 1, 1], 0.3
    found = spine.posterior(mixed, released, rho)
    same = spine.posterior(mixed, released, rho, spine.SharedRate(within="tree"))
    assert found.mean.values.tolist() == same.mean.values.tolist()
    with pytest.raises(ValueError, match=r"'r' has both leaves, .* or share the rate within='tree'"):
        spine.posterior(mixed, released, rho, spine.SharedRate())
    for within in ("parent", "tree", "level 0"):
        with pytest.raises(ValueError, match=r"^a rate is shared by several units, got 'a' alone: give its count a"):
            spine.posterior(one.tree, [1], [0.5], spine.SharedRate(within=within))
    with pytest.raises(ValueError, match=r"within must be a level above every leaf, 'a' lies below no"):
        spine.posterior(mixed, released, rho, spine.SharedRate(within="level 1"))


def test_children_with_too_many_counts_are_named() -> None:
    tree = spine.Tree.of({"r": None} | {f"b{i}": "r" for i in range(1000)})
    released, rho = np.full(len(tree), 1e6), np.full(len(tree), 0.5e-8)
    released[0], rho[0] = 1e9, 0.5
    with pytest.raises(ValueError, match=r"the 1,000 children of unit 'r' leave too many counts possible: .* 4 GiB"):
        spine.posterior(tree, released, rho, spine.Flat())


@pytest.mark.slow
def test_a_group_that_nobody_measured_is_told_by_the_rest() -> None:
    rng = np.random.default_rng(5)
    up: dict[str, str | None] = {"county": None} | {f"g{i}": "county" for i in range(4)}
    up |= {f"b{i}{j}": f"g{i}" for i in range(4) for j in range(40)}
    tree = spine.Tree.of(up)
    truth = np.where(tree.children == 0, rng.poisson(30, len(tree)), 0)
    np.add.at(truth, tree.parent[tree.leaves], truth[tree.leaves])
    truth[0] = truth[tree.leaves].sum()
    rho = np.where(tree.children == 0, 6e-5, 0.16)
    rho[tree.index("g0")] = 0.0
    rho[0] = np.inf
    noisy = np.where(np.isinf(rho), truth, truth + np.rint(rng.normal(0, np.sqrt(0.5 / np.maximum(rho, 6e-5)))))
    found = spine.posterior(tree, noisy, rho)
    assert found.status == "ok"
    finest = spine.posterior(tree, noisy, rho, tau=1e-150)
    np.testing.assert_allclose(found.mean, finest.mean, rtol=1e-9)
    np.testing.assert_allclose(found.membership(0.1)["log_odds"], finest.membership(0.1)["log_odds"], rtol=1e-9)


@pytest.mark.parametrize("measured", ["tract", "group"])
def test_a_piece_whose_tilts_must_keep_all_rates_is_the_whole(measured: str) -> None:
    """Tilts for one summit cut windows on which the bound of a weakly measured group is exp(1000) times its factor."""
    parents: dict[str, str | None] = {"r": None, "s": "r", "t": "r"}
    parents |= {f"{top}{name}": top for top in "st" for name in "gh"}
    parents |= {f"{tract}-": tract for tract in ("sg", "sh", "tg", "th")}  # its only group
    parents |= {f"{tract}{i}": f"{tract}-" for tract in ("sg", "sh", "tg", "th") for i in range(6)}
    tree = spine.Tree.of(parents)
    rho = np.array([1e-3, 6.6e-4, 0.0, 2.87e-4, 6.3e-5])[tree.depth]
    said = rho if measured == "group" else np.array([1e-3, 6.6e-4, 2.87e-4, 0.0, 6.3e-5])[tree.depth]
    released = np.where(tree.depth == 4, np.round(np.random.default_rng(3).normal(0.0, 89.0, len(tree))), 0.0)
    released[:11] = 200, 100, 60, *2 * (86, 15, -20, 150)
    prior = spine.SharedRate()
    whole = spine.posterior(tree, released, rho, prior)
    at = {name: tree.below(name) for name in "st"}
    messages = {name: spine.upward_message(tree.subtree(name), released[i], said[i], prior) for name, i in at.items()}
    assert max(one.truncation_bound for one in messages.values()) < 1e-25
    upper = spine.posterior(tree.above(1), released[:3], rho[:3], prior, messages=messages)
    assert upper.log_evidence == pytest.approx(whole.log_evidence, abs=1e-10)
    for name, i in at.items():
        outside = upper.downward_message(name)
        part = spine.posterior(tree.subtree(name), released[i], rho[i], prior, outside=outside)
        np.testing.assert_allclose(part.mean.values, whole.mean.values[i], rtol=1e-9)
        ours = part.membership(0.1)["ratio"]
        np.testing.assert_allclose(ours, whole.membership(0.1)["ratio"].sel(unit=ours["unit"]), rtol=1e-9)


CHAIN = {"r": None, "h": "r", "t": "r", "u": "t", "g": "u", "a": "g", "b": "g", "c": "h"}
"""A tract t whose only group g, by way of u, was not measured; and a block c beside them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("released", "rho"),
    [
        ([12, -18, 26, 2, -43, 14], [0.11523, 0.04955, 0.00052, 0.00047, 0.00047, 0.00047]),
        ([16, -18, 26, 2, -43, 14], [INF, 0.04955, 0.00052, 0.00047, 0.00047, 0.00047]),
        ([20, 3, 25, 2, -8, 4], [0.05, 0.2, 0.1, 0.02, 0.02, 0.02]),
    ],
)
@pytest.mark.parametrize("measured", ["t", "u", "g"])
def test_a_group_whose_noise_is_that_of_its_tract_is_answered(released: Any, rho: Any, measured: str) -> None:
    """Its tilt could not leave that above: most of the mixture of rates lay off the windows, "no counts possible"."""
    tree, means = spine.Tree.of(CHAIN), [0.003, 40.0]
    at = tree.index(["r", "h", measured, "a", "b", "c"])
    y, precision = np.full(len(tree), NAN), np.zeros(len(tree))
    y[at], precision[at] = released, rho
    found = spine.posterior(tree, y, precision, spine.SharedRate(means))
    laws = [oracle.negative_binomial(0.5, mean) for mean in means]
    below = [tree.index(["a", "b"]).tolist(), [int(tree.index("c"))]]
    truth = enumerated(
        tree, y, precision, [(leaves, [-np.log(2)] * 2, laws) for leaves in below], 16 if np.isinf(rho[0]) else 65
    )
    agrees(found, truth)
    answers = found.membership(known=3)
    expected = [truth.log_bayes_factor(leaf, 3) for leaf in tree.leaves]
    assert answers["log_bayes_factor"].values == pytest.approx(expected, abs=1e-9)
    mine = found.membership()["log_bayes_factor"]
    for name in "tug":
        here = tree.below(name)
        part = spine.posterior(
            tree.subtree(name), y[here], precision[here], found.prior, outside=found.downward_message(name)
        )
        assert part.mean.values == pytest.approx(found.mean.values[here], abs=1e-9)
        for known, theirs in ((3, answers["log_bayes_factor"]), (None, mine)):
            ours = part.membership(known=known)["log_bayes_factor"]
            assert ours.values == pytest.approx(theirs.sel(unit=ours["unit"]).values, abs=1e-9)


def test_the_only_piece_of_what_is_measured_is_the_whole() -> None:
    """What its message lacks might lie at any count, whose weight in other tilts than its own nothing limited."""
    parents: dict[str, str | None] = {"s": None, "c": "s"} | {f"g{i}": "c" for i in range(3)}
    tree = spine.Tree.of(parents | {f"b{i}.{j}": f"g{i}" for i in range(3) for j in range(12)})
    rho = np.array([1e-3, 0.0, 2.9e-4, 6.3e-5])[tree.depth]
    released = np.round(np.random.default_rng(1).normal(np.array([9000, NAN, 3000, 250])[tree.depth], 60.0))
    whole = spine.posterior(tree, released, rho)
    upper, parts = in_pieces(tree, released, rho)
    here, part = parts["c"]
    assert (upper.status, whole.status) == ("ok", "ok")
    assert upper.mean.values == pytest.approx(whole.mean.values[:2], rel=1e-9)
    assert part.mean.values == pytest.approx(whole.mean.values[here], rel=1e-9)
    ours = part.membership()["log_bayes_factor"].values
    assert ours == pytest.approx(whole.membership()["log_bayes_factor"].values, abs=1e-9)
