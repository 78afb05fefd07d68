"""Trees of counts read by other routes: in pieces, along a path, linearly, with other noise; and where those fail."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import adversary as adv
from tests.oracles import spine as oracle

spine = adv.spine
PARENTS = {"s": None, "c": "s", "d": "s", "g": "c", "h": "c", "k": "d"} | {f"g{i}": "g" for i in range(6)}
PARENTS |= {f"h{i}": "h" for i in range(4)} | {f"k{i}": "k" for i in range(5)}
TREE = spine.Tree.of(PARENTS, ("state", "county", "group", "block"))
RHO = np.array([0.05, 0.05, 0.25, 0.1])[TREE.level]
SHARED = spine.SharedRate()
FEW = spine.SharedRate([0.3, 0.9], shape=None)


def noisy(seed=0, tree=TREE, rho=RHO, mean=1.0, cells=None):
    rng = np.random.default_rng(seed)
    counts = tree.sums(rng.negative_binomial(0.5, 0.5 / (0.5 + mean), (tree.leaves.size, cells or 1)))
    released = counts + np.rint(rng.normal(0, np.sqrt(0.5 / rho)[:, None], counts.shape))
    return (counts, released) if cells else (counts[:, 0], released[:, 0])


def in_pieces(tree, released, rho, *prior):
    """The top of a tree, to which every piece below passes its message; by name, where a piece lies and its answer."""
    released, rho, top = np.asarray(released), np.asarray(rho), len(tree.above(1))
    at = {str(name): tree.below(name) for name in tree.names[1:top]}
    pieces = {name: (tree.subtree(name), released[here], rho[here], *prior) for name, here in at.items()}
    messages = {name: spine.upward_message(*piece) for name, piece in pieces.items()}
    upper = spine.posterior(tree.above(1), released[:top], rho[:top], *prior, messages=messages)
    outside = {name: upper.downward_message(name) for name in at}
    return upper, {name: (at[name], spine.posterior(*pieces[name], outside=outside[name])) for name in at}


@pytest.mark.parametrize(
    "prior", [SHARED, spine.Flat(), spine.NegativeBinomial(0.5, 1.0), spine.Pmf(scipy.stats.poisson(1.0))]
)
@pytest.mark.parametrize("top", [np.inf, 0.05, 0.0])
def test_a_tree_in_pieces_is_the_whole(prior, top):
    counts, released = noisy(3)
    rho = RHO.copy()
    rho[0] = top
    released[0] = counts[0]
    whole = spine.posterior(TREE, released, rho, prior)
    upper, parts = in_pieces(TREE, released, rho, prior)
    assert upper.mean.values == pytest.approx(whole.mean.values[:3], abs=1e-12)
    assert upper.log_evidence == pytest.approx(whole.log_evidence, abs=1e-12)
    every = whole.membership(known=1)
    for at, part in parts.values():
        assert part.mean.values == pytest.approx(whole.mean.values[at], abs=1e-12)
        assert part.sd.values == pytest.approx(whole.sd.values[at], abs=1e-12)
        assert part.truncation_bound < 1e-12
        ours = part.membership(known=1)
        theirs = every.sel(unit=ours["unit"])
        assert ours["log_bayes_factor"].values == pytest.approx(theirs["log_bayes_factor"].values, abs=1e-12)


def test_a_piece_says_of_a_reader_whom_the_release_contradicts_what_the_whole_tree_says():
    """What lies off the window of a message from outside is not taken to be nothing."""
    _, released = noisy(3)
    prior = spine.Poisson(0.2)
    whole = spine.posterior(TREE, released, RHO, prior)
    _, part = in_pieces(TREE, released, RHO, prior)[1]["c"]
    answered = 0
    for known in (0, 5, 20, 40, 60, 80):
        ours = part.membership(known=known)
        theirs = whole.membership(known=known).sel(unit=ours["unit"])
        fine = ours["status"].values < 2
        answered += fine.sum()
        assert (theirs["status"].values < 2).all()
        gap = ours["log_bayes_factor"].values[fine] - theirs["log_bayes_factor"].values[fine]
        assert (np.abs(gap) <= (ours["error"] + theirs["error"]).values[fine] + 1e-10).all()
    assert answered > 20


@pytest.mark.parametrize(("prior", "groups"), [(spine.Poisson(30.0), 0), (spine.Flat(), 2), (SHARED, 2)])
@pytest.mark.parametrize("measured", ["us state", "us whole", "whole county", "us", "state", "us whole state county"])
def test_a_piece_below_a_chain_of_only_children_says_what_the_whole_tree_says(prior, groups, measured):
    """Everything above the county is one chain, measured here and there; readers know the others."""
    chain = ("us", "whole", "state", "county")
    parents = {"us": None, "whole": "us", "state": "whole", "county": "state"}
    parents |= {f"g{i}": "county" for i in range(groups)}
    parents |= {f"b{i}": f"g{i % groups}" if groups else "county" for i in range(20)}
    tree = spine.Tree.of(parents)
    rho = np.array([0.5 * (name in measured.split()) for name in chain] + [0.0] * groups + [0.05] * 20)
    released = np.array([600.0 + 3 * i for i in range(4)] + [0.0] * groups + [30.0] * 20)
    whole, at = spine.posterior(tree, released, rho, prior), tree.below("county")
    piece = (tree.subtree("county"), released[at], rho[at], prior)
    above = spine.posterior(
        tree.above(3), released[:4], rho[:4], prior, messages={"county": spine.upward_message(*piece)}
    )
    part = spine.posterior(*piece, outside=above.downward_message("county"))
    assert part.mean.values == pytest.approx(whole.mean.values[at], abs=1e-9)
    for known in (30, 28):
        ours, theirs = part.membership(0.1, known), whole.membership(0.1, known)
        assert (ours["status"].values < 2).all()
        assert ours["error"].values.max() < 1e-9
        assert ours["log_bayes_factor"].values == pytest.approx(theirs["log_bayes_factor"].values, abs=1e-10)


def test_many_cells_are_each_alone_and_workers_change_nothing():
    _, released = noisy(1, cells=4)
    released[2, 1] = np.nan
    rho = np.repeat(RHO[:, None], 4, axis=1)
    rho[2, 1] = 0.0
    together = spine.posterior(TREE, released, rho, cells=list("abcd"), workers=2)
    assert together.mean.dims == ("unit", "cell")
    assert together.mean["cell"].values.tolist() == list("abcd")
    members = together.membership(known=np.arange(4) % 2 * np.ones((TREE.leaves.size, 1), int), workers=2)
    for i in range(4):
        alone = spine.posterior(TREE, released[:, i], rho[:, i])
        assert (alone.mean.values == together.mean.values[:, i]).all()
        assert (alone.hdi()["upper"].values == together.hdi()["upper"].values[:, i]).all()
        one = alone.membership(known=i % 2)
        assert (one["posterior"].values == members["posterior"].values[:, i]).all()
    data = together.to_xarray()
    assert data["mean"].sizes == {"unit": len(TREE), "cell": 4}
    assert set(data["level"].values) == {"state", "county", "group", "block"}
    assert (data["status"] == "ok").all()


def test_the_path_engine_agrees_where_each_sibling_is_believed_apart():
    plan = adv.Plan(
        [
            adv.Level("block", adv.DiscreteGaussian.from_rho(0.3), siblings=3),
            adv.Level("tract", adv.DiscreteGaussian.from_rho(0.5)),
        ]
    )
    tree = spine.Tree.of({"tract": None, "block": "tract", "x": "tract", "y": "tract", "z": "tract"})
    rho = [0.5, 0.3, 0.3, 0.3, 0.3]
    laws = (
        (adv.Each(scipy.stats.poisson(1.3)), spine.Poisson(1.3)),
        (adv.Each([0.5, 0.2, 0.3]), spine.Pmf([0.5, 0.2, 0.3])),
    )
    for belief, prior in laws:
        for block, siblings, tract in ((2, [1, 0, -1], 3), (-3, [5, 2, 2], 4), (6, [-2, -1, 0], 1)):
            for known in (0, 2):
                reader = adv.Adversary(0.3, known=known, beliefs={"tract": belief})
                release = plan.observe({"block": block, "tract": tract}, siblings={"block": siblings})
                expected = reader.posterior(plan, release)["log_odds"].item()
                found = spine.posterior(tree, [tract, block, *siblings], rho, prior)
                ours = found.membership(prior=0.3, known=known).sel(unit="block")
                assert float(ours["log_odds"]) == pytest.approx(expected, abs=1e-12)
                assert float(ours["ratio"]) == pytest.approx(float(ours["posterior"]) / 0.3, rel=1e-12)


def test_large_counts_agree_with_least_squares():
    rng = np.random.default_rng(2)
    counts = TREE.sums(rng.integers(200, 2000, TREE.leaves.size))
    rho = RHO.copy()
    rho[TREE.index(["g", "k"])] = 0.0, np.inf
    released = counts + np.where(np.isinf(rho), 0, np.rint(rng.normal(0, 3, counts.size)))
    exact, linear = spine.posterior(TREE, released, rho, spine.Flat()), spine.least_squares(TREE, released, rho)
    assert exact.mean.values == pytest.approx(linear["mean"].values, abs=1e-8)
    assert exact.sd.values == pytest.approx(linear["sd"].values, abs=1e-8)


def test_least_squares_is_the_normal_equations():
    rho = np.where(TREE.names == "g3", 0.0, RHO)
    _, released = noisy(5)
    sums = np.zeros((len(TREE), TREE.leaves.size))
    for j, leaf in enumerate(TREE.leaves):
        v = leaf
        while v >= 0:
            sums[v, j] = 1.0
            v = TREE.parent[v]
    information = sums.T @ (2 * rho[:, None] * sums)
    covariance = np.linalg.inv(information)
    mean = sums @ covariance @ sums.T @ (2 * rho * released)
    found = spine.least_squares(TREE, released, rho)
    assert found["mean"].values == pytest.approx(mean, abs=1e-10)
    assert found["sd"].values ** 2 == pytest.approx(np.diag(sums @ covariance @ sums.T), abs=1e-10)


def test_least_squares_says_what_it_does_not_determine():
    tree = spine.Tree.of({"g": None, "a": "g", "b": "g", "c": "g"})
    found = spine.least_squares(tree, [9, 2, 3, 4], [np.inf, 0.5, 0, 0])
    assert found["sd"].values.tolist() == [0.0, 1.0, np.inf, np.inf]
    found = spine.least_squares(tree, [9, 2, 3, 4], [np.inf, 0.5, 0.5, 0])
    assert found["mean"].values.tolist() == [9.0, 2.0, 3.0, 4.0]
    assert found["sd"].values == pytest.approx([0.0, 1.0, 1.0, np.sqrt(2.0)])


@pytest.mark.parametrize(
    "mechanism",
    [adv.Geometric(0.7), adv.postprocessing.clamped(adv.Geometric(0.9)), adv.DiscreteGaussian.from_rho(0.2)],
    ids=["geometric", "clamped", "discrete Gaussian"],
)
@pytest.mark.parametrize("prior", [spine.Poisson(0.8), FEW], ids=["poisson", "shared rate"])
def test_any_integer_noise_by_its_mechanism(mechanism, prior):
    tree = spine.Tree.of({"g": None, "a": "g", "b": "g", "c": "g"}, ("group", "block"))
    released = [2, 0, 3, 1]
    laws = [oracle.poisson(mean) for mean in ((0.8,) if prior is not FEW else (0.3, 0.9))]
    groups = [([1, 2, 3], [-np.log(len(laws))] * len(laws), laws)]

    def like(y):
        return lambda x: mechanism.log_likelihood(np.full(np.shape(x), float(y)), np.asarray(x, dtype=float))

    for noise in ({"block": mechanism}, {"group": mechanism}, {"block": mechanism, "g": adv.Geometric(0.4)}):
        log_like = [
            lambda x: -0.5 * (released[0] - x) ** 2,
            *(lambda x, y=y: -0.5 * (y - x) ** 2 for y in released[1:]),
        ]
        if "block" in noise:
            log_like[1:] = [like(y) for y in released[1:]]
        if "group" in noise:
            log_like[0] = like(released[0])
        if "g" in noise:
            log_like[0] = lambda x: adv.Geometric(0.4).log_noise(released[0] - x)
        truth = oracle.Enumeration([-1, 0, 0, 0], log_like, 26, groups)
        found = spine.posterior(tree, released, 0.5, prior, noise=noise)
        assert found.mean.values == pytest.approx([truth.mean(v) for v in range(4)], abs=1e-9)
        expected = [truth.log_bayes_factor(v, 1) for v in (1, 2, 3)]
        assert found.membership(known=1)["log_bayes_factor"].values == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
def test_weights_of_rates_are_learned_as_the_average_posterior():
    _, released = noisy(8, cells=3)
    fitted = spine.fit_rate_prior(TREE, released, RHO, rounds=1)
    one = spine.posterior(TREE, released, RHO)
    assert one.rate_weights().shape == (3, 3, 11)
    assert np.asarray(fitted.weights) == pytest.approx(one.rate_weights().mean(axis=(0, 1)), rel=1e-12)
    again = spine.posterior(TREE, released, RHO, spine.fit_rate_prior(TREE, released, RHO))
    assert again.log_evidence.sum() > one.log_evidence.sum()


def naive_mean(n, rho_group, rho_block):
    """Mean of the sum of n flat blocks, all observed at 0: each message cut at 1e-18 of its own mass, untilted."""
    block = np.exp(-rho_block * np.arange(60.0) ** 2)
    message, low = np.ones(1), 0
    for _ in range(n):
        message = np.convolve(message, block / block.sum())
        keep = np.flatnonzero(np.minimum(np.cumsum(message), np.cumsum(message[::-1])[::-1]) > 1e-18 * message.sum())
        message, low = message[keep[0] : keep[-1] + 1], low + keep[0]
    x = low + np.arange(message.size)
    w = np.log(message) - rho_group * x**2
    w = np.exp(w - w.max())
    return w @ x / w.sum()


def test_windows_of_an_untilted_message_miss_the_posterior():
    tree = spine.Tree.of({"g": None} | {f"b{i}": "g" for i in range(80)})
    found = spine.posterior(tree, np.zeros(81), [0.2464845096] + [0.0992263542] * 80, spine.Flat())
    assert float(found.mean[0]) == pytest.approx(5.257413686, abs=1e-8)
    assert naive_mean(80, 0.2464845096, 0.0992263542) > 5.2575 + 1.0
