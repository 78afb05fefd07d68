"""Trees that disagree with themselves, exact totals, budgets of zero, and input that cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adversary as adv
from tests.census.test_spine_numbers import T, changed
from tests.tables import refusals

spine = adv.spine
NOISY = np.array([6.0, 4, 1, 1, 3, -2, 0, 2])
RHO = np.array([0.05, 0.25, 0.25, 0.1, 0.1, 0.1, 0.1, 0.1])
INF = np.inf
TO_SIX = adv.postprocessing.clamped(adv.Geometric(1.0), 0, 6)


def wide(groups=40, blocks=30):
    parents = {"c": None} | {f"g{i}": "c" for i in range(groups)}
    parents |= {f"b{i}.{j}": f"g{i}" for i in range(groups) for j in range(blocks)}
    return spine.Tree.of(parents, ("county", "group", "block"))


@pytest.mark.parametrize("prior", [spine.Flat(), spine.NegativeBinomial(0.5, 2.0), spine.SharedRate()])
def test_levels_that_contradict_one_another_are_followed(prior):
    tree = wide()
    rho = np.array([0.05, 0.25, 0.1])[tree.level]
    noisy = np.zeros(len(tree))
    noisy[tree.index("b3.4")] = 300
    noisy[0] = -500
    found = spine.posterior(tree, noisy, rho, prior)
    assert found.status == "ok"
    assert found.truncation_bound < 1e-10
    assert np.isfinite(found.mean).all()
    total = found.mean.values[tree.level == 1].sum()
    assert float(found.mean[0]) == pytest.approx(total, abs=1e-8)


@pytest.mark.parametrize("total", [7000.0, 9000.0])
def test_a_law_with_a_second_top_at_zero_is_followed_from_where_the_measurement_asks(total):
    tree = spine.Tree.of({"g": None} | {f"b{i}": "g" for i in range(6)})
    noisy, rho = np.array([total, *[0.0] * 6]), np.array([INF, *[6.3e-5] * 6])
    found = spine.posterior(tree, noisy, rho, spine.SharedRate())  # each leaf rises by more than exp(709) from 0
    assert found.status == "ok"
    np.testing.assert_allclose(found.mean.values[1:], total / 6, rtol=1e-9)


def test_exact_totals_pin_what_they_leave_no_room():
    found = spine.posterior(T, changed(NOISY, g=0, t=3), changed(RHO, g=INF, t=INF), spine.Flat())
    assert found.mean.sel(unit=["g", "h", "1", "2", "3"]).values.tolist() == [0, 3, 0, 0, 0]
    assert found.sd.sel(unit=["g", "h", "1"]).values.tolist() == [0, 0, 0]
    answers = found.membership(known=0)
    words = [spine.STATUS[i] for i in answers["status"].values]
    assert words == ["certain"] * 3 + ["ok"] * 2
    assert (answers["posterior"].values[:3] == 0).all()
    assert spine.STATUS[int(found.membership(known=1)["status"][0])] == "impossible"
    assert np.isnan(found.membership(known=1)["posterior"][0])
    assert found.membership(known=2)["posterior"].notnull().sel(unit=["4", "5"]).all()


def test_an_exact_leaf_answers_for_itself():
    found = spine.posterior(T, changed(NOISY, _1=2), changed(RHO, _1=INF), spine.Flat())
    assert found.membership(known=1)["posterior"].values[0] == 1.0
    assert found.membership(known=2)["posterior"].values[0] == 0.0
    assert np.isnan(found.membership(known=5)["posterior"].values[0])


def test_totals_that_cannot_add_up_are_named():
    with pytest.raises(ValueError, match=r"no count vector satisfies the exact totals of 't': it is 3, .* between 4"):
        spine.posterior(T, changed(NOISY, t=3, g=4), changed(RHO, t=INF, g=INF))
    with pytest.raises(ValueError, match="exact totals of 'g'"):
        spine.posterior(T, changed(NOISY, g=7), changed(RHO, g=INF), spine.Pmf([0.5, 0.3, 0.2]))


def test_a_flat_leaf_that_nothing_measures_is_named():
    with pytest.raises(ValueError, match="unit '2' is improper"):
        spine.posterior(T, NOISY, changed(RHO, t=0, g=0, _2=0), spine.Flat())
    assert spine.posterior(T, NOISY, changed(RHO, t=0, g=0, _2=0), spine.Poisson(1.0)).status == "ok"
    assert spine.posterior(T, NOISY, changed(RHO, g=0, _2=0), spine.Flat()).status == "ok"


def test_no_measurement_leaves_the_prior():
    found = spine.posterior(T, np.full(8, np.nan), 0.0, spine.NegativeBinomial(2.0, 1.5))
    assert found.mean.values == pytest.approx([7.5, 4.5, 3.0, *[1.5] * 5], abs=1e-9)
    assert found.log_evidence == pytest.approx(0.0, abs=1e-12)
    assert np.abs(found.membership(known=0)["log_bayes_factor"]).max() < 1e-12
    shared = spine.SharedRate([0.5, 2.0], [0.25, 0.75])
    found = spine.posterior(T, np.full(8, np.nan), 0.0, shared)
    assert found.mean.values[3:] == pytest.approx(np.full(5, 1.625), abs=1e-8)
    assert found.rate_weights() == pytest.approx(np.array([[0.25, 0.75]] * 2), abs=1e-9)


def test_a_reader_whose_knowledge_contradicts_the_release_is_answered_after_a_second_run():
    tree = wide(4, 10)
    rho = np.array([0.05, 0.25, 0.1])[tree.level]
    noisy = np.zeros(len(tree))
    found = spine.posterior(tree, noisy, rho, spine.Poisson(0.05))
    first = np.where(np.arange(tree.leaves.size) == 7, 60, 0)
    answers = found.membership(known=first)
    assert [spine.STATUS[i] for i in answers["status"].values[6:9]] == ["ok", "rerun", "ok"]
    pinned = []
    for count in (60, 61):
        unit = tree.leaves[7]
        there = put_at(noisy, unit, count), put_at(rho, unit, INF)
        pinned.append(spine.posterior(tree, *there, spine.Poisson(0.05)).log_evidence)
    prior = np.log(0.05 / 61)
    expected = pinned[1] - pinned[0] - prior + 0.1 * (2 * (0 - 60) - 1)
    assert float(answers["log_bayes_factor"][7]) == pytest.approx(expected, abs=1e-9)
    none = found.membership(known=first, reruns=0)
    assert spine.STATUS[int(none["status"][7])] == "unresolved"
    assert np.isnan(none["posterior"][7])


def test_a_second_run_goes_over_the_part_of_the_tree_that_it_needs():
    from adversary.census.spine.membership import log_ratios, rerun
    from adversary.census.spine.solution import TRUSTED

    tree = wide(30, 10)
    rho = np.array([0.05, 0.25, 0.1])[tree.level]
    released = np.random.default_rng(3).integers(-3, 6, len(tree)).astype(float)
    for prior in (spine.Poisson(0.05), spine.SharedRate([0.05, 0.2], None, None)):
        solution = spine.posterior(tree, released, rho, prior).solutions[0]
        for count in (20, 60):
            known = np.where(tree.children == 0, count, -1)
            _, error, told = log_ratios(solution, known)
            leaf = int(tree.leaves[np.argmax(error[tree.leaves])])
            assert error[leaf] > TRUSTED
            asked, v = np.array([leaf]), int(tree.parent[leaf])
            here, whole = (rerun(tree, solution, asked, known, t, v, TRUSTED) for t in (told, None))
            assert here[0] == pytest.approx(whole[0], abs=1e-9)
            assert max(here[1], whole[1]) < 1e-9
        answers = spine.posterior(tree, released, rho, prior).membership(known=20, reruns=1)
        assert (answers["status"].values == spine.STATUS.index("rerun")).sum() > 20


def test_hundreds_of_siblings_leave_out_no_more_than_a_few():
    """Where each unit's mean is a little off its saddle point, sums over all of them would miss what was published."""
    for groups in (20, 800):
        tree = wide(groups, 3)
        rho = np.array([0.05, 0.25, 0.1])[tree.level]
        found = spine.posterior(tree, np.where(tree.level == 0, 2.0 * groups, 0.0), rho, spine.Flat())
        dropped = found.solutions[0].messages.windows["dropped"]
        assert dropped[0] < 1e3 * dropped[1 : groups + 1].sum()
        assert float(found.mean[0]) == pytest.approx(float(found.mean[1 : groups + 1].sum()), rel=1e-12)


def put_at(values, unit, value):
    values = np.array(values, dtype=float)
    values[unit] = value
    return values


def test_a_tolerance_out_of_reach_is_a_status():
    tree = wide(4, 10)
    noisy = np.zeros(len(tree))
    found = spine.posterior(tree, noisy, 0.1, spine.Flat(), tau=1e-3, tolerance=1e-300)
    assert found.status == "loose"
    assert found.truncation_bound > 0
    assert spine.posterior(tree, noisy, 0.1, spine.Flat(), tau=1e-3).status == "ok"


@pytest.mark.parametrize("tau", [1e-2, 1e-4, 1e-7])
def test_the_ledger_bounds_what_is_lost(tau):
    """Against a run that drops next to nothing: no probability of any unit is off by more than the ledger says."""
    rng = np.random.default_rng(int(-np.log10(tau)))
    for prior in (spine.Flat(), spine.NegativeBinomial(0.5, 1.0), spine.SharedRate()):
        for _ in range(5):
            noisy = NOISY + rng.integers(-4, 5, 8)
            fine = spine.posterior(T, noisy, RHO, prior, tau=1e-30)
            rough = spine.posterior(T, noisy, RHO, prior, tau=tau, tolerance=1.0)
            assert rough.truncation_bound < 1.0
            for name in T.names:
                p, q = fine.pmf(name), rough.pmf(name)
                lost = float(p.sum() - p.sel(count=p["count"].isin(q["count"])).sum())
                assert lost <= rough.truncation_bound * (1 + 1e-9) + 1e-14
                both = np.intersect1d(p["count"], q["count"])
                apart = 0.5 * (abs(p.sel(count=both) - q.sel(count=both)).sum() + lost)
                assert float(apart) <= rough.truncation_bound + 1e-13
            ours, theirs = (f.membership(known=1) for f in (rough, fine))
            gap = np.abs(ours["log_bayes_factor"] - theirs["log_bayes_factor"])
            given = ours["status"] != spine.STATUS.index("unresolved")
            assert (gap <= ours["error"] + 1e-12).where(given, True).all()


@pytest.mark.parametrize(
    ("released", "rho", "words"),
    [
        (changed(NOISY, h=0.5), RHO, "noisy count of unit 'h' must be a whole number"),
        (changed(NOISY, h=np.nan), RHO, "noisy count of unit 'h' must be a whole number"),
        (NOISY, changed(RHO, _3=-1), "rho of unit '3' must be non-negative, got -1"),
        (NOISY, changed(RHO, _3=np.nan), "rho of unit '3' must be non-negative"),
        (NOISY, changed(RHO, _3=INF), "exact count of unit '3' must be at least 0, got -2"),
        (NOISY[:5], RHO[:5], "8 units"),
        (NOISY, RHO[:5], "rho must be as released"),
    ],
)
def test_measurements_that_cannot_be_are_named(released, rho, words):
    with pytest.raises(ValueError, match=words):
        spine.posterior(T, released, rho)


test_other_input_that_cannot_be_is_named = refusals(
    (lambda: spine.Pmf([0.5, -0.5, 1.0]), "non-negative"),
    (lambda: spine.Pmf([0.0, 0.0]), "some mass"),
    (lambda: spine.Poisson(0.0), "mean must be positive"),
    (lambda: spine.NegativeBinomial(-1.0, 2.0), "shape must be positive"),
    (lambda: spine.SharedRate([1.0, 2.0], [1.0]), "as many as means"),
    (lambda: spine.SharedRate([1.0], [0.0]), "positive sum"),
    (lambda: spine.posterior(T, NOISY, RHO, spine.Poisson([1.0, 2.0])), "2 entries for 5 leaves"),
    (lambda: spine.posterior(T, NOISY, RHO, spine.SharedRate(within="street")), "within must be"),
    (lambda: spine.posterior(T, NOISY, RHO, tolerance=0.0), "tolerance must be positive"),
    (
        lambda: spine.posterior(T, changed(NOISY, g=6), RHO, noise={"g": TO_SIX}),
        "leaves more than 65,536 counts possible",
    ),
)


FIRST = (-19, -69, 46, -23, 52, 29, 44, -8, -28, 80, 35, 23, -4, -6, 80, 97, 83, 0, -63, -5, -33, -32)
SECOND = (-70, 61, -8, -64, 96, -49, -8, 17, -69, -10, -22, 72, -69, 2, 0, -4, 40, -5)
SECOND += (66, 8, -6, 9, -11, -27, -29, -110, -14, 29, 48, -20, -60, -48, 9, 67, -42, 8)


def test_blocks_hardly_measured_under_a_shared_rate():
    """A mixture of rates bends upwards where it passes from one to the next: the search for tilts went to and fro."""
    parents = {"t": None, "g": "t", "h": "t"}
    parents |= {f"g{i}": "g" for i in range(len(FIRST))} | {f"h{i}": "h" for i in range(len(SECOND))}
    tree = spine.Tree.of(parents)
    released = np.array([2.0, -2, 0, *FIRST, *SECOND])
    rho = np.array([0.101, 0.101, 0.101] + [0.000264] * (len(FIRST) + len(SECOND)))
    found = spine.posterior(tree, released, rho)
    assert found.status == "ok"
    assert float(found.truncation_bound) < 1e-12
    assert float(found.mean[0]) == pytest.approx(float(found.mean[1:3].sum()), rel=1e-12)
    assert 0 < float(found.mean[0]) < 5


@pytest.mark.parametrize(
    ("noisy", "rho"),
    [([400, 1, 3], [50.0, 2.0, 3.0]), ([3, 400, 1], [50.0, 2.0, 3.0]), ([400, 1, 3], [500.0] * 3),
     ([4, 1, 1], [500.0] * 3)],
)  # fmt: skip
def test_counts_that_are_hundreds_of_standard_deviations_apart_are_answered_as_by_enumeration(noisy, rho):
    tree = spine.Tree.of({"g": None, "a": "g", "b": "g"})
    found = spine.posterior(tree, noisy, rho, spine.Flat())
    a, b = np.meshgrid(np.arange(450.0), np.arange(450.0), indexing="ij")
    log = -sum(r * (y - x) ** 2 for r, y, x in zip(rho, noisy, (a + b, a, b), strict=True))
    weight = np.exp(log - log.max())
    expected = [float((weight * x).sum() / weight.sum()) for x in (a + b, a, b)]
    assert (found.status, found.truncation_bound < 1e-10) == ("ok", True)
    np.testing.assert_allclose(found.mean, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("noisy", [[3, 1, 1], [2_000_000_000, 0, 0]])
def test_counts_that_contradict_each_other_beyond_numbers_are_said_to_be(noisy):
    tree = spine.Tree.of({"g": None, "a": "g", "b": "g"})
    with pytest.raises(ValueError, match=r"contradict each other: that of unit '.', .*, is .* standard deviations"):
        spine.posterior(tree, noisy, 1e11, spine.Flat())


def noisy_blocks(blocks: int) -> tuple[Any, Any, Any]:
    """A tract with one block group, which is bypassed, beside one with two; blocks with noise of 90 people."""
    parents: dict[str, str | None] = {"county": None, "t0": "county", "t1": "county", "t0g0": "t0"}
    parents |= {"t1g0": "t1", "t1g1": "t1"}
    for group in ("t0g0", "t1g0", "t1g1"):
        parents |= {f"{group}b{i}": group for i in range(blocks)}
    tree, rng = spine.Tree.of(parents), np.random.default_rng(1)
    counts = tree.sums(rng.poisson(rng.gamma(0.5, 50.0, tree.leaves.size)))
    variance = np.array([np.inf, 6.0, 3.0, 8000.0])[tree.depth]
    variance[tree.index("t0g0")] = np.inf
    noise = np.rint(rng.normal(size=len(tree)) * np.sqrt(np.where(np.isinf(variance), 0.0, variance)))
    return tree, counts + noise, 0.5 / variance


def test_a_rate_shared_within_a_bypassed_group_of_very_noisy_blocks_needs_no_finer_windows() -> None:
    tree, released, rho = noisy_blocks(12)
    found, finer = spine.posterior(tree, released, rho), spine.posterior(tree, released, rho, tau=1e-120)
    assert (found.solutions[0].tau, found.status) == (1e-22, "ok")
    np.testing.assert_allclose(found.mean, finer.mean, atol=1e-8)
    np.testing.assert_allclose(found.sd, finer.sd, atol=1e-8)
    for known in (None, 0):
        mine, theirs = (one.membership(0.1, known) for one in (found, finer))
        assert (mine["status"] == 0).all()
        np.testing.assert_allclose(mine["log_odds"], theirs["log_odds"], atol=1e-8)
    message = spine.upward_message(tree, released, rho)
    assert message.truncation_bound < 1e-12
    tree, released, rho = noisy_blocks(200)
    assert spine.upward_message(tree, released, rho).truncation_bound < 1e-12


def beside_a_group_not_measured(groups: dict[str, str]) -> tuple[Any, Any]:
    """Posteriors, at two sizes of what is left out, of nearly empty blocks in these groups; t0g0 is not measured."""
    parents: dict[str, str | None] = {"county": None, "t0": "county", "t1": "county", **groups}
    parents |= {f"{group}b{i}": group for group in groups for i in range(12)}
    tree, rng = spine.Tree.of(parents), np.random.default_rng(1)
    counts = tree.sums(rng.poisson(0.3, tree.leaves.size))
    variance = np.array([6.0, 6.0, 3.0, 8000.0])[tree.depth]
    variance[tree.index("t0g0")] = np.inf
    released = counts + np.rint(rng.normal(size=len(tree)) * np.sqrt(np.where(np.isinf(variance), 0.0, variance)))
    first, second = (spine.posterior(tree, released, 0.5 / variance, tau=tau) for tau in (1e-22, 1e-120))
    return first, second


def test_what_is_known_against_limits_of_counts_is_answered_without_them() -> None:
    """Nearly empty blocks of a group not measured beside one that is, and an adversary who knows 19 people in each."""
    found, finer = beside_a_group_not_measured({f"t{i}g{j}": f"t{i}" for i in range(2) for j in range(2)})
    assert found.solutions[0].unlimited is not None
    for known in (0, 19):
        mine, theirs = (one.membership(0.1, known) for one in (found, finer))
        assert (mine["status"] <= 1).all()  # ok, or after a second run
        np.testing.assert_allclose(mine["log_odds"], theirs["log_odds"], rtol=1e-9, atol=1e-9)


def test_limits_of_counts_get_as_many_trims_after_other_tilts() -> None:
    """A group not measured beside one that is, and a tract of one group: said to leave no counts possible."""
    found, finer = beside_a_group_not_measured({"t0g0": "t0", "t0g1": "t0", "t1g0": "t1"})
    assert (found.status, finer.status) == ("ok", "ok")
    np.testing.assert_allclose(found.mean, finer.mean, atol=1e-8)
    np.testing.assert_allclose(found.sd, finer.sd, atol=1e-8)
    np.testing.assert_allclose(found.log_evidence, finer.log_evidence, atol=1e-8)
