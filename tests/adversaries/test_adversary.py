"""The exact posterior against listing every state, over random plans, readers and releases."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.stats
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import adversary as adv
from adversary._core import log_sum_exp
from adversary.adversaries.path import windows
from adversary.adversaries.path.log_products import log_correlation
from adversary.adversaries.plans import Released
from adversary.adversaries.plans.release import release_arrays
from tests.catalogue import BELIEFS, DG, NOISES, RHO1, RHO2, RHO_TRACT, STORIES
from tests.oracles import paths
from tests.tables import refusals

LOWEST = ["knows 2 others", "others pmf", "others binomial", "flat to 6", "sure of 4", "flat"]
UPPER = list(BELIEFS)


class Case(NamedTuple):
    """A plan and a reader, and the same as oracles."""

    plan: adv.Plan
    reader: adv.Adversary
    noises: list[paths.Law]
    sums: list[paths.Law | None]
    beliefs: list[paths.Law]
    inside: tuple[int, int]

    def oracle(self, noisy: list[int], sums: list[int], top: int = 60) -> paths.PathPosterior:
        windows = [range(top + 1)] * len(self.noises)
        return paths.path_posterior(
            noisy, sums, self.noises, self.sums, self.beliefs, self.reader.prior, self.inside, counts=windows
        )

    def observe(self, noisy: Any, sums: Any) -> xr.Dataset:
        names = self.plan.names
        linked = {n: s for n, s, law in zip(names, sums, self.sums, strict=False) if law is not None}
        return self.plan.observe(dict(zip(names, noisy, strict=True)), linked)


def case(
    noises: list[str],
    siblings: list[int],
    beliefs: list[str],
    prior: float = 0.4,
    known: int = 0,
    hypotheses: tuple[int, int] = (0, 1),
) -> Case:
    """A case from names of the catalogue; beliefs[0] = "" means `known` at the lowest level."""
    names = ["block", "tract", "county"][: len(noises)]
    counts: list[int | None] = [*siblings, None]
    levels = [adv.Level(n, NOISES[noise][0], d) for n, noise, d in zip(names, noises, counts, strict=True)]
    held: dict[str, Any] = {}
    laws: list[paths.Law] = []
    for i, name in enumerate(names):
        if i and siblings[i - 1] == 0:
            laws.append(paths.known(0))
        elif not beliefs[i]:
            laws.append(paths.known(known))
        else:
            held[name] = BELIEFS[beliefs[i]].belief
            laws.append(BELIEFS[beliefs[i]].oracle)
    sums = [_sum_law(noise, d) if d else None for noise, d in zip(noises, siblings, strict=False)]
    reader = adv.Adversary(prior, known, held, hypotheses)
    return Case(adv.Plan(levels), reader, [NOISES[n][1](1) for n in noises], sums, laws, hypotheses)


_CACHE: dict[tuple[str, int], paths.Law] = {}


def _sum_law(noise: str, count: int) -> paths.Law:
    if (noise, count) not in _CACHE:
        _CACHE[noise, count] = NOISES[noise][1](count)
    return _CACHE[noise, count]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 3))
    names = [draw(st.sampled_from(list(NOISES))) for _ in range(count)]
    siblings = [draw(st.integers(0, 3)) for _ in range(count - 1)]
    beliefs = [draw(st.sampled_from(["", "", *LOWEST]))]
    beliefs += [draw(st.sampled_from(UPPER)) for _ in range(count - 1)]
    prior = draw(st.sampled_from([0.5, 0.4, 0.02, 0.97]))
    return case(
        names,
        siblings,
        beliefs,
        prior,
        draw(st.integers(0, 2)),
        draw(st.sampled_from([(0, 1), (0, 1), (1, 0), (0, 2)])),
    )


def releases(case: Case, draw: Any, count: int = 1) -> tuple[list[list[int]], list[list[int]]]:
    levels = len(case.noises)
    small = st.integers(-3, 7)
    noisy = [[draw(small) for _ in range(levels)] for _ in range(count)]
    sums = [[draw(st.integers(-4, 8)) for _ in range(levels - 1)] for _ in range(count)]
    return noisy, sums


def agree(case: Case, noisy: list[int], sums: list[int]) -> None:
    """Posterior, log-odds and every count's pmf, or the same refusal."""
    release = case.observe(noisy, sums)
    try:
        expected = case.oracle(noisy, sums)
    except ValueError:
        with pytest.raises(ValueError, match="impossible"):
            case.reader.posterior(case.plan, release)
        return
    assert expected.edge_mass < 1e-12
    found = case.reader.posterior(case.plan, release)
    assert float(found["posterior"]) == pytest.approx(expected.posterior, rel=1e-9, abs=1e-13)
    assert float(found["ratio"]) == pytest.approx(expected.posterior / case.reader.prior, rel=1e-9, abs=1e-12)
    if math.isfinite(expected.log_odds):
        assert float(found["log_odds"]) == pytest.approx(expected.log_odds, rel=1e-9, abs=1e-9)
    else:
        assert float(found["log_odds"]) == expected.log_odds
    assert found["count"].dims == ("level", "value")
    for i, level in enumerate(case.plan.names):
        pmf = found["count"].sel(level=level)
        wanted = np.array([expected.counts[i].get(int(x), 0.0) for x in pmf["value"].values])
        np.testing.assert_allclose(pmf.values, wanted, atol=1e-11)
        assert float(pmf.sum()) == pytest.approx(1.0, abs=1e-11)


@pytest.mark.slow
@given(case=cases(), data=st.data())
@settings(deadline=None, max_examples=130)
def test_posterior_lists_every_state(case: Case, data: st.DataObject) -> None:
    noisy, sums = releases(case, data.draw)
    agree(case, noisy[0], sums[0])


@pytest.mark.parametrize("belief", UPPER)
@pytest.mark.parametrize("noise", NOISES)
def test_posterior_under_every_belief_and_noise(belief: str, noise: str) -> None:
    for lowest in ("", "others pmf", "flat to 6"):
        one = case([noise, noise], [2], [lowest, belief])
        for noisy, sums in (([1, 3], [2]), ([-2, 8], [9]), ([4, 0], [-3])):
            agree(one, noisy, sums)


def test_posterior_where_the_same_people_are_published_twice_and_thrice() -> None:
    for siblings, beliefs in (([0, 0], ["", "", ""]), ([0, 2], ["", "", "flat"]), ([2, 0], ["", "flat", ""])):
        agree(case(["discrete gaussian", "geometric", "discrete gaussian"], siblings, beliefs), [2, 1, 3], [1, 1])


@pytest.mark.slow
@given(case=cases(), data=st.data())
@settings(deadline=None, max_examples=60)
def test_many_releases_at_once_are_one_by_one(case: Case, data: st.DataObject) -> None:
    noisy, sums = releases(case, data.draw, 7)
    columns = ([list(column) for column in zip(*rows, strict=True)] for rows in (noisy, sums))
    try:
        singles = [case.reader.posterior(case.plan, case.observe(n, s)) for n, s in zip(noisy, sums, strict=True)]
    except ValueError:
        return
    together = case.reader.posterior(case.plan, case.observe(*columns), counts=True)
    assert together["posterior"].dims == ("release",)
    for name in ("posterior", "log_odds", "ratio"):
        np.testing.assert_allclose(together[name].values, [float(one[name]) for one in singles], rtol=1e-11, atol=1e-12)
    for i, one in enumerate(singles):
        joined = together["count"].isel(release=i).reindex(value=one["value"].values, fill_value=0.0)
        np.testing.assert_allclose(joined.values, one["count"].values, atol=1e-11)


@pytest.mark.parametrize("chunk", [1, 100, 5000])
@pytest.mark.parametrize("name", [name for name in STORIES if "two levels" in name or "three" in name])
def test_results_do_not_depend_on_chunks(name: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, reader, truth = STORIES[name]
    release = plan.release({k: v for k, v in truth.items() if k != "in"}, rng=5, draws=80)
    whole = reader.posterior(plan, release)
    monkeypatch.setattr(windows, "_CHUNK_STATES", chunk)
    monkeypatch.setattr(windows, "_CHUNK_COUNTS", chunk)
    xr.testing.assert_allclose(reader.posterior(plan, release), whole, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", ["flat", "flat to 6", "sure of 4", "others pmf", "others poisson"])
def test_continuous_noise_against_sums_over_counts(name: str) -> None:
    """Gaussian and Laplace releases: P(y | k0) = sum over x2 of belief times densities, in plain numpy."""
    for noise in (adv.Gaussian(1.3), adv.Laplace(0.9)):
        plan = adv.Plan([adv.Level("block", noise, siblings=2), adv.Level("tract", noise)])
        reader = adv.Adversary(0.3, 1, {"tract": BELIEFS[name].belief})
        found = reader.posterior(plan, plan.observe({"block": 1.6, "tract": 4.2}, {"block": 2.9}))
        x2, likelihood = np.arange(200), []
        for x1 in (1, 2):
            law = np.array([BELIEFS[name].oracle(int(t), x1) for t in x2])
            link = noise.total(2).log_prob(2.9 - x2 + x1, 0)
            terms = law + noise.log_prob(4.2 - x2, 0) + link + noise.log_prob(1.6, x1)
            likelihood.append(np.exp(terms).sum())
        expected = 0.3 * likelihood[1] / (0.3 * likelihood[1] + 0.7 * likelihood[0])
        assert float(found["posterior"]) == pytest.approx(expected, rel=1e-10)


def test_invariants_condition_the_prior() -> None:
    """The tract's total is published exactly: the belief is read at that total, as in section 8.2."""
    plan = adv.Plan([adv.Level("block", DG(0.4), siblings=2), adv.Level("tract", adv.Exact())])
    reader = adv.Adversary(0.3, beliefs={"tract": adv.Uniform(5)})
    found = reader.posterior(plan, plan.observe({"block": 2, "tract": 3}, {"block": 1}))
    odds = 0.3 / 0.7
    odds *= math.exp(DG(0.4).log_prob(2, 1) - DG(0.4).log_prob(2, 0))
    odds *= math.exp(DG(0.4).total(2).log_prob(1, 2) - DG(0.4).total(2).log_prob(1, 3)) * (1 / 5) / (1 / 6)
    assert float(found["posterior"]) == pytest.approx(odds / (1 + odds), rel=1e-12)
    with pytest.raises(ValueError, match="impossible"):
        reader.posterior(plan, plan.observe({"block": 2, "tract": 9}, {"block": 1}))


def test_exact_lowest_level_reveals_the_target() -> None:
    plan = adv.Plan([adv.Level("block", adv.Exact())])
    found = adv.Adversary(0.3, 2).posterior(plan, plan.observe({"block": [2, 3]}))
    assert found["posterior"].values.tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="impossible"):
        adv.Adversary(0.3, 2).posterior(plan, plan.observe({"block": 7}))


def test_randomized_response_about_one_answer() -> None:
    plan = adv.Plan([adv.Level("answer", adv.RandomizedResponse(1.0))])
    found = adv.Adversary(0.5).posterior(plan, plan.observe({"answer": [0, 1]}))
    np.testing.assert_allclose(found["log_odds"], [-1.0, 1.0], rtol=1e-14)


# Two cells, by listing the target and both cells' counts


def _two_cells(reader: adv.Adversary, noise: Any, beliefs: list[Any], noisy: Any, sums: Any, link: Any) -> float:
    weight = {0: 1 - reader.prior, 1: reader.prior}
    for target in (0, 1):
        for cell in (0, 1):
            x1 = reader.contributions(cell)[target] + (
                reader.known[cell] if isinstance(reader.known, tuple) else reader.known
            )
            total = 0.0
            for x2 in range(60):
                belief = beliefs[cell](x2, x1)
                if belief > -math.inf:
                    log_p = belief + noise(noisy[1][cell], x2) + link(sums[cell], x2 - x1)
                    total += math.exp(log_p)
            weight[target] *= total * math.exp(noise(noisy[0][cell], x1))
    return weight[1] / (weight[0] + weight[1])


@pytest.mark.parametrize("names", [("flat", "flat"), ("flat to 6", "flat to 6"), ("others poisson", "sure of 4")])
@pytest.mark.parametrize("known", [0, (0, 2)])
def test_two_cells_list_every_state(names: tuple[str, str], known: Any) -> None:
    plan = adv.Plan([adv.Level("block", DG(0.3), siblings=2), adv.Level("tract", DG(0.3))], cells=2)
    pair = tuple(BELIEFS[name].belief for name in names)
    reader = adv.Adversary(0.4, known, {"tract": pair})
    noise, link = NOISES["discrete gaussian"][1](1), NOISES["discrete gaussian"][1](2)
    for noisy, sums in (([[1, 0], [2, 3]], [1, 2]), ([[-2, 3], [0, 5]], [4, -3])):
        release = plan.observe({"block": noisy[0], "tract": noisy[1]}, {"block": sums})
        found = reader.posterior(plan, release)
        laws = [BELIEFS[name].oracle for name in names]
        assert float(found["posterior"]) == pytest.approx(_two_cells(reader, noise, laws, noisy, sums, link), rel=1e-10)
        assert found["count"].dims == ("level", "cell", "value")
        np.testing.assert_allclose(found["count"].sum("value"), 1.0, atol=1e-11)


def test_two_cells_count_pmfs_mix_over_the_target() -> None:
    plan = adv.Plan([adv.Level("block", DG(0.4))], cells=2)
    found = adv.Adversary(0.4, (0, 2)).posterior(plan, plan.observe({"block": [1, 2]}))
    p = float(found["posterior"])
    assert found["count"].sel(cell=0, value=1).item() == pytest.approx(p, rel=1e-12)
    assert found["count"].sel(cell=1, value=3).item() == pytest.approx(1 - p, rel=1e-12)


# Composition


@pytest.mark.parametrize(
    "setting",
    [
        (["discrete gaussian"], [], [""]),
        (["geometric"], [], ["others pmf"]),
        (["discrete gaussian", "geometric"], [2], ["", "flat"]),
        (["discrete gaussian", "discrete gaussian"], [2], ["", "flat to 6"]),
        (["discrete gaussian", "geometric"], [2], ["others binomial", "others poisson"]),
        (["geometric", "discrete gaussian"], [0], ["", ""]),
        (["geometric", "discrete gaussian", "geometric"], [1, 2], ["", "flat", "others pmf"]),
    ],
    ids=str,
)
def test_composition_is_one_joint_release_in_any_order(setting: Any) -> None:
    """Two releases of the same counts: `after` one and then the other, against listing states for both at once."""
    one = case(*setting)
    levels = len(one.noises)
    first, second = ([2, 3, 3][:levels], [1, 0][: levels - 1]), ([0, 4, 1][:levels], [3, 2][: levels - 1])

    def both(law: Any) -> Any:
        return None if law is None else lambda r, v: law(r[0], v) + law(r[1], v)

    joint = paths.path_posterior(
        list(zip(first[0], second[0], strict=True)),
        list(zip(first[1], second[1], strict=True)),
        [both(law) for law in one.noises],
        [both(law) for law in one.sums],
        one.beliefs,
        one.reader.prior,
        counts=[range(50)] * levels,
    )
    releases = [one.observe(*first), one.observe(*second)]
    for a, b in (releases, releases[::-1]):
        later = one.reader.after(one.plan, a)
        found = later.posterior(one.plan, b)
        assert float(found["posterior"]) == pytest.approx(joint.posterior, rel=1e-10)
        for i, level in enumerate(one.plan.names):
            pmf = found["count"].sel(level=level)
            wanted = [joint.counts[i].get(int(x), 0.0) for x in pmf["value"].values]
            np.testing.assert_allclose(pmf.values, wanted, atol=1e-11)
    final = one.reader.after(one.plan, releases[0]).after(one.plan, releases[1])
    assert final.prior == pytest.approx(joint.posterior, rel=1e-10)


def test_overwhelming_evidence_can_still_be_answered() -> None:
    """Log-odds of +79.6 and then -80.4 leave -0.8: the order and the size of the steps do not matter."""
    plan = adv.Plan([adv.Level("block", DG(0.4))])
    up, down = plan.observe({"block": 100}), plan.observe({"block": -100})
    expected = float(
        adv.Adversary(0.5).posterior(plan, up)["log_odds"] + adv.Adversary(0.5).posterior(plan, down)["log_odds"]
    )
    assert expected == pytest.approx(-0.8)
    for first, second in ((up, down), (down, up)):
        found = adv.Adversary(0.5).after(plan, first).posterior(plan, second)
        assert float(found["log_odds"]) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("beliefs", "cells"),
    [
        ({"b": adv.Known(1)}, 1),
        ({"a": adv.Known(2), "b": adv.Known(1)}, 1),
        ({"a": adv.Known(2), "b": adv.Uniform(6)}, 1),
        ({"b": (adv.Known(1), adv.Others([0.5, 0.5]))}, 2),
    ],
)
def test_what_was_known_is_known_after_a_release(beliefs: dict[str, Any], cells: int) -> None:
    plan = adv.Plan([adv.Level("a", DG(0.4), siblings=2), adv.Level("b", DG(0.3))], cells=cells)
    reader = adv.Adversary(0.3, beliefs=beliefs)
    both = plan.release({"a": [3] * cells, "b": [4] * cells} if cells > 1 else {"a": 3, "b": 4}, 1, 2)
    first, second = both.isel(release=0), both.isel(release=1)
    after = reader.after(plan, first)
    assert set(after.beliefs) == set(beliefs)
    factors = [float(reader.posterior(plan, one, counts=False)["log_odds"]) for one in (first, second)]
    found = float(after.posterior(plan, second, counts=False)["log_odds"])
    if all(isinstance(one, adv.Known) for one in beliefs.values()):
        assert found == pytest.approx(sum(factors) - reader.prior_log_odds, abs=1e-9)
    assert math.isfinite(found)


# The reader's own pair


def _averaged_pair(one: Case, top: int, reach: int) -> tuple[list[float], list[float]]:
    """P(release if in), P(release if out) over every release, the others averaged."""
    laws: list[list[float]] = [[], []]
    levels = len(one.noises)
    links = [range(-reach, reach + top) for law in one.sums if law is not None]
    for values in itertools.product(*[range(-reach, reach + top)] * levels, *links):
        noisy, sums = values[:levels], values[levels:]
        for side, contribution in enumerate((one.inside[1], one.inside[0])):
            total = 0.0
            for x in itertools.product(range(top), repeat=levels):
                log_p = one.beliefs[0](x[0], contribution) + one.noises[0](noisy[0], x[0])
                if levels == 2 and log_p > -math.inf:
                    log_p += one.beliefs[1](x[1], x[0]) + one.noises[1](noisy[1], x[1])
                    law = one.sums[0]
                    if law is not None and log_p > -math.inf:
                        log_p += law(sums[0], x[1] - x[0])
                if log_p > -math.inf:
                    total += math.exp(log_p)
            laws[side].append(total)
    return laws[0], laws[1]


@pytest.mark.parametrize(
    ("setting", "top", "reach"),
    [
        ((["discrete gaussian"], [], [""]), 3, 14),
        ((["geometric"], [], ["others pmf"]), 6, 40),
        ((["discrete gaussian"], [], ["flat to 6"]), 8, 14),
        ((["discrete gaussian, narrow", "discrete gaussian, narrow"], [1], ["", "flat to 6"]), 8, 6),
        ((["discrete gaussian, narrow", "discrete gaussian, narrow"], [1], ["", "others pmf"]), 6, 6),
        ((["discrete gaussian, narrow", "discrete gaussian, narrow"], [2], ["", "sure of 4"]), 6, 7),
        ((["discrete gaussian, narrow", "geometric"], [0], ["", ""]), 3, 25),
    ],
    ids=str,
)
def test_own_pair_lists_every_release(setting: Any, top: int, reach: int) -> None:
    one = case(*setting)
    loss = one.reader.privacy_loss(one.plan)
    p, q = _averaged_pair(one, top, reach)
    assert sum(p) == pytest.approx(1.0, abs=1e-9)
    for epsilon in (-0.5, 0.0, 0.3, 1.0, 2.5):
        assert loss.delta(epsilon) == pytest.approx(paths.privacy_profile(p, q, epsilon), abs=1e-8)
        assert loss.swapped.delta(epsilon) == pytest.approx(paths.privacy_profile(q, p, epsilon), abs=1e-8)


def test_own_pair_of_two_cells_composes_both() -> None:
    plan, reader, _ = STORIES["one block, two cells"]
    loss = reader.privacy_loss(plan)
    worst = plan.privacy_loss()
    e = np.linspace(-1, 3, 9)
    np.testing.assert_allclose(loss.delta(e), worst.delta(e), rtol=1e-9, atol=1e-15)


def test_own_pair_of_unbounded_noise_has_no_largest_loss() -> None:
    """log P(y | in) / P(y | out) rises with y for ever, whatever is listed."""
    unsure = adv.Adversary(beliefs={"block": adv.Others([0.5, 0.5])})
    found = [
        unsure.privacy_loss(adv.Plan([adv.Level("block", noise)])).loss_bound(0.0)
        for noise in (DG(0.3), adv.postprocessing.clamped(DG(0.3)), adv.Geometric(0.7))
    ]
    assert found[:2] == [math.inf, math.inf]
    assert found[2] == pytest.approx(0.7, rel=1e-9)  # the largest ratio is that of 2 against 1


def test_own_pair_needs_proper_beliefs() -> None:
    plan, reader, _ = STORIES["two levels, flat"]
    with pytest.raises(ValueError, match="belief about 'tract' is improper"):
        reader.privacy_loss(plan)


# Records


@pytest.mark.parametrize(
    ("belief", "lowest", "top", "expected"),
    [
        (adv.Uniform(), None, DG(0.5), 1),
        (adv.Uniform(9), None, DG(0.5), 2),
        (adv.Point(4), None, DG(0.5), 2),
        (adv.Others([0.5, 0.5]), None, DG(0.5), 1),
        (scipy.stats.poisson(2.0), None, DG(0.5), 1),
        (adv.Known(3), None, DG(0.5), 1),
        (adv.Uniform(), None, adv.Exact(), 2),
        (adv.Others([0.5, 0.5]), adv.Point(3), DG(0.5), 2),
        (adv.Others([0.5, 0.5]), adv.Uniform(3), DG(0.5), 2),
        (adv.Others([0.5, 0.5]), [0.3, 0.7], DG(0.5), 1),
    ],
)
def test_records_in_which_the_hypotheses_differ(belief: Any, lowest: Any, top: Any, expected: int) -> None:
    plan = adv.Plan([adv.Level("block", DG(0.5), siblings=2), adv.Level("tract", top)])
    beliefs = {"tract": belief} if lowest is None else {"tract": belief, "block": lowest}
    assert adv.Adversary(beliefs=beliefs).records(plan) == expected


@pytest.mark.parametrize("releases", [52, 1000])
def test_records_are_counted_for_any_number_of_releases_of_the_same_people(releases: int) -> None:
    levels = [adv.Level(f"week {i}", DG(0.1), 0 if i < releases - 1 else None) for i in range(releases)]
    assert adv.Adversary(known=1, hypotheses=(0, 3)).records(adv.Plan(levels)) == 3


@pytest.mark.parametrize("exact", [(False,) * 5, (False, False, True, False, False), (False, True, False, True, True)])
@pytest.mark.parametrize("shift", [1, 3])
def test_records_are_the_most_over_every_choice_of_who_moves(exact: tuple[bool, ...], shift: int) -> None:
    beliefs = [adv.Known(2), adv.Uniform(40), adv.Others([0.5, 0.5]), adv.Point(60), adv.Uniform()]
    levels = [
        adv.Level(f"level {i}", adv.Exact() if settled else DG(0.2), siblings=2 if i < 4 else None)
        for i, settled in enumerate(exact)
    ]
    held = dict(zip([level.name for level in levels], beliefs, strict=True))
    most = 0
    for moves in itertools.product([True, False], repeat=5):
        apart, moved = shift, 0
        for move, settled, belief in zip(moves, exact, beliefs, strict=True):
            others = (apart if settled else belief.others_gap(apart)) if move or settled else 0
            apart, moved = abs(apart - others), moved + others
        most = max(most, moved)
    assert adv.Adversary(hypotheses=(0, shift), beliefs=held).records(adv.Plan(levels)) == shift + most


# Bad input


test_bad_readers_are_refused_with_name_rule_and_value = refusals(
    (lambda: adv.Adversary(beliefs=[1]), "beliefs must be a mapping", TypeError),  # type: ignore[arg-type]
    (lambda: adv.Adversary(beliefs={"tract": 3}), "belief about 'tract'.*got 3", TypeError),
    (lambda: adv.Adversary(hypotheses=(1, 1)), r"hypotheses must be two different.*\(1, 1\)"),
)


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        (adv.Adversary(), "upper level 'tract' needs one"),
        (adv.Adversary(beliefs={"county": adv.Uniform(), "tract": adv.Uniform()}), "unknown level 'county'"),
        (adv.Adversary(beliefs={"tract": adv.Point(0)}, known=3), "impossible"),
        (adv.Adversary(beliefs={"tract": adv.Uniform(1)}, known=3), "impossible"),
    ],
)
def test_readers_that_do_not_fit_the_plan_are_refused(reader: adv.Adversary, message: str) -> None:
    plan = STORIES["two levels, flat"].plan
    with pytest.raises(ValueError, match=message):
        reader.posterior(plan, plan.observe({"block": 1, "tract": 2}, {"block": 1}))


@pytest.mark.parametrize(
    "pair",
    [
        (scipy.stats.poisson(1), scipy.stats.poisson(2)),
        ([0.5, 0.5], [0.3, 0.7]),
        ((0.5, 0.5), np.array([0.3, 0.7])),
        (adv.Uniform(4), [0.3, 0.7]),
    ],
    ids=["laws", "lists", "arrays", "mixed"],
)
def test_a_pair_of_laws_is_one_belief_per_cell(pair: tuple[Any, Any]) -> None:
    plan = adv.Plan([adv.Level("block", DG(0.4), siblings=2), adv.Level("tract", DG(0.3))], cells=2)
    release = plan.observe({"block": [1, 0], "tract": [3, 2]}, {"block": [1, 2]})
    beliefs = tuple(one if isinstance(one, adv.Uniform) else adv.Others(one) for one in pair)
    found, same = (
        float(adv.Adversary(0.4, beliefs={"tract": one}).posterior(plan, release, counts=False)["posterior"])
        for one in (pair, beliefs)
    )
    assert found == same


# Wide and far


def _far_log_odds(rho1: float, rho2: float, d: int, noisy: tuple[int, int], total: int) -> float:
    """Flat belief, wide block noise (its sum is a parabola): a plain sum over others j = 0, 1, ... around the mode."""
    r = rho2 + rho1 / d

    def log_sum(k: int) -> float:
        mode = (rho2 * (noisy[1] - k) + rho1 / d * total) / r
        reach = math.sqrt(60 / r) + min(60.0 / r, 60.0 / max(1e-300, 2 * r * max(-mode, 1e-9)))
        low, high = max(0, math.floor(mode - math.sqrt(60 / r))), max(mode, 0.0) + reach
        j = np.arange(low, min(high, low + 4e6) + 1)
        terms = -rho2 * (noisy[1] - k - j) ** 2 - rho1 / d * (total - j) ** 2
        return float(
            np.logaddexp.reduce(terms) if j.size < 100 else terms.max() + np.log(np.exp(terms - terms.max()).sum())
        )

    return rho1 * (2 * noisy[0] - 1) + log_sum(1) - log_sum(0)


@pytest.mark.parametrize("rho1", [1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("rho2", [1e-6, 1e-2, 1.0, 1e3])
@pytest.mark.parametrize("far", [(3, 1, -1), (40, -35, 600), (-40, 80, -900), (1000, -1000, 1000), (-7, -300, -300)])
def test_two_levels_far_out_against_a_plain_sum(rho1: float, rho2: float, far: tuple[int, int, int]) -> None:
    plan = adv.Plan([adv.Level("block", DG(rho1), siblings=5), adv.Level("tract", DG(rho2))])
    reader = adv.Adversary(beliefs={"tract": adv.Uniform()})
    found = reader.posterior(plan, plan.observe({"block": far[0], "tract": far[1]}, {"block": far[2]}), counts=False)
    expected = _far_log_odds(rho1, rho2, 5, (far[0], far[1]), far[2])
    scale = 1e-13 * (rho2 * 4e6 + rho1 * 4e6)  # rounding of the plain sum's squares
    assert float(found["log_odds"]) == pytest.approx(expected, rel=1e-7, abs=1e-8 + scale)


def _census_tract() -> adv.Plan:
    return adv.Plan(
        [
            adv.Level("block", DG(RHO1), siblings=27),
            adv.Level("block group", DG(RHO2), siblings=3),
            adv.Level("tract", DG(RHO_TRACT)),
        ]
    )


def test_census_path_of_three_levels() -> None:
    plan, reader = _census_tract(), adv.Adversary(beliefs={"block group": adv.Uniform(), "tract": adv.Uniform()})
    noises = [paths.discrete_gaussian(rho, reach=60) for rho in (RHO1, RHO2, RHO_TRACT)]
    sums: list[paths.Law | None] = [paths.discrete_gaussian(RHO1, 27, reach=50), paths.discrete_gaussian(RHO2, 3)]
    expected = paths.path_posterior(
        [1, 4, 2],
        [5, 0],
        noises,
        sums,
        [paths.known(0), paths.flat, paths.flat],
        0.5,
        counts=[range(2), range(45), range(60)],
    )
    release = plan.observe({"block": 1, "block group": 4, "tract": 2}, {"block": 5, "block group": 0})
    found = reader.posterior(plan, release)
    assert float(found["posterior"]) == pytest.approx(expected.posterior, rel=1e-10)
    for i, level in enumerate(plan.names):
        pmf = found["count"].sel(level=level)
        wanted = [expected.counts[i].get(int(x), 0.0) for x in pmf["value"].values]
        np.testing.assert_allclose(pmf.values, wanted, atol=1e-10)


@pytest.mark.parametrize("released", [26, 30, 36, 40, 60])
def test_counts_below_a_total_the_reader_is_sure_of_are_followed_down_from_it(released: int) -> None:
    """Releases of the tract point beyond what a sure belief about the county allows."""
    levels = [adv.Level("block", DG(0.5), siblings=3), adv.Level("tract", DG(1.0), siblings=3)]
    plan = adv.Plan([*levels, adv.Level("county", DG(1.0))])
    for law, most in ((adv.Point(25), 25), (adv.Uniform(25), 25)):
        reader = adv.Adversary(beliefs={"tract": adv.Uniform(), "county": law})
        noisy = {"block": 1, "tract": released, "county": 30}
        got = reader.posterior(plan, plan.observe(noisy, {"block": released - 1, "tract": 1}), counts=False)
        terms = []
        for k in (0, 1):
            x2 = np.arange(float(k), most + 1.0)
            total = np.arange(0.0, most + 1.0)
            up = law.log_prob(total[None, :], x2[:, None]) + DG(1.0).log_noise(30.0 - total)[None, :]
            up = up + DG(1.0).total(3).log_noise(1.0 - (total[None, :] - x2[:, None]))
            own = DG(1.0).log_noise(released - x2) + DG(0.5).total(3).log_noise(released - 1.0 - (x2 - k))
            terms.append(np.logaddexp.reduce((own[:, None] + up).ravel()) - 0.5 * (1.0 - k) ** 2)
        assert got["log_odds"].item() == pytest.approx(terms[1] - terms[0], abs=1e-9)


# Windows follow the noise


@pytest.mark.parametrize(
    "belief",
    [
        lambda others: adv.Uniform(),
        lambda others: adv.Uniform(3 * others),
        lambda others: scipy.stats.poisson(others),
        lambda others: adv.GammaPoisson(2.0, 2.0 / others),
    ],
    ids=["flat", "flat to thrice", "poisson", "unknown rate"],
)
def test_counts_are_followed_as_far_as_the_noise_whatever_their_size(belief: Any) -> None:
    plan, followed = _census_tract(), []
    for block, group, tract in ((500, 2_000, 10_000), (500, 20_000, 300_000), (50_000, 200_000, 1_000_000)):
        truth = {"block": block, "block group": group, "tract": tract}
        beliefs = {"block group": belief(group - block), "tract": belief(tract - group)}
        reader = adv.Adversary(known=block - 1, beliefs=beliefs)
        release = release_arrays(plan, plan.release(truth, 1, 500)).cell(0)
        path = reader.path(plan)
        found = path.windows.above(release, 0, path.known_counts(), closed=False)
        followed.append([int(size.max()) for _, size in found])
    assert max(map(max, followed)) < 200, followed


def test_a_far_away_tract_tells_what_a_near_one_does() -> None:
    """Far from zero only differences count: flat beliefs give one law of the log Bayes factor."""
    plan, factors = _census_tract(), []
    for start in (60, 600_000):
        reader = adv.Adversary(known=start, beliefs={"block group": adv.Uniform(), "tract": adv.Uniform(10**9)})
        base = plan.release({"block": 201, "block group": 402, "tract": 603}, 3, 200)
        shift = np.array([start - 200, 2 * (start - 200), 3 * (start - 200)])
        moved = base.assign(
            noisy=base["noisy"] + shift, sibling_sum=base["sibling_sum"] + np.array([1, 1, 1]) * (start - 200)
        )
        factors.append(reader.posterior(plan, moved, counts=False)["log_odds"].values)
    np.testing.assert_allclose(factors[0], factors[1], rtol=1e-9, atol=1e-9)


SPIKES = np.zeros(301)
SPIKES[[0, 7, 150, 300]] = 0.25


@pytest.mark.parametrize(
    "beliefs",
    [
        {"block group": adv.Others(SPIKES), "tract": adv.Others(SPIKES)},
        {"block group": scipy.stats.poisson(40.0), "tract": adv.Others(SPIKES)},
        {"block group": adv.Uniform(), "tract": scipy.stats.poisson(400.0)},
        {"block group": adv.GammaPoisson(0.3, 0.01), "tract": adv.Point(200)},
        {"block": scipy.stats.poisson(12.0), "block group": adv.Uniform(150), "tract": adv.Uniform(180)},
    ],
)
def test_what_windows_leave_out_weighs_nothing(beliefs: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the release contradicts the belief, and where the belief has several peaks."""
    plan, reader = _census_tract(), adv.Adversary(0.3, 0 if "block" in beliefs else 5, beliefs=beliefs)
    truths = [{"block": 6, "block group": 40, "tract": 190}, {"block": 5, "block group": 5, "tract": 12}]
    for i, truth in enumerate(truths):
        release = plan.release(truth, i, 40)
        found = reader.posterior(plan, release, counts=False)["log_odds"].values
        with monkeypatch.context() as patch:
            patch.setattr(windows, "NEAR_NATS", 1e6)
            wide = reader.posterior(plan, release, counts=False)["log_odds"].values
        np.testing.assert_allclose(found, wide, rtol=1e-12, atol=1e-12)


def test_a_broad_belief_beside_an_adjusted_count_is_followed_as_far_as_the_releases_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A county's law with a tail of 3,000, its own noise of two, and a block's count made to fit it."""
    levels = [adv.Level("block", DG(50.0), siblings=3), adv.Level("county", DG(0.1))]
    plan = adv.Plan(levels, postprocessing=adv.postprocessing.LeastSquares())
    beliefs = {"block": scipy.stats.poisson(1.0), "county": scipy.stats.nbinom(0.1, 1 / 300)}
    reader = adv.Adversary(0.5, beliefs=beliefs)
    release = plan.observe({"block": [0, 1, 1, 3, 0], "county": [1, 3, 12, 40, 0]})
    path = reader.path(plan)
    rows = release_arrays(plan, release).cell(0)
    assert max(size.max() for _, size in path.windows.above(rows, -1, path.contributions, closed=False)) < 200
    found = reader.posterior(plan, release, counts=False)["log_odds"].values
    monkeypatch.setattr(windows, "NEAR_NATS", 1e6)
    assert path.windows.above(rows, -1, path.contributions, closed=False)[1][1].max() > 3_000
    np.testing.assert_allclose(reader.posterior(plan, release, counts=False)["log_odds"], found, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_a_narrow_belief_far_from_a_broad_release_is_all_that_is_followed() -> None:
    """Millions of counts that the belief all but rules out, or rules out, took minutes to add up."""
    plan = adv.Plan([adv.Level("tract", adv.Laplace(1e5))])
    release = plan.observe({"tract": [-1e6, 0.0, 2e6, 1e7]})
    for law in (scipy.stats.poisson(0.0), scipy.stats.poisson(3.0)):
        reader = adv.Adversary(0.5, beliefs={"tract": law})
        path = reader.path(plan)
        found = path.windows.above(release_arrays(plan, release).cell(0), -1, path.contributions, closed=True)
        assert found[0][1].max() <= 4_096
        others = np.arange(200.0)
        weight = law.pmf(others) * np.exp(-np.abs(release["noisy"].values.reshape(4, 1, 1) - others - [[0], [1]]) / 1e5)
        expected = np.log(weight.sum(-1))
        odds = reader.posterior(plan, release, counts=False)["log_odds"]
        np.testing.assert_allclose(odds, expected[:, 1] - expected[:, 0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("told", [slice(0, 81), slice(0, 2), slice(50, 52), slice(80, 81), slice(0, 0)])
@pytest.mark.parametrize("few", [slice(0, 3), slice(40, 43), slice(117, 120), slice(0, 0), slice(0, 120)])
def test_a_table_of_few_values_beside_a_long_message_gives_the_sums_over_all(few: slice, told: slice) -> None:
    """And where few numbers of the message are possible."""
    rng = np.random.default_rng(3)
    table, message = np.full((2, 120), -np.inf), rng.normal(0.0, 30.0, (2, 81))
    possible = np.zeros(81, dtype=bool)
    possible[told] = True
    message[:, ~possible] = -np.inf
    table[:, few] = rng.normal(0.0, 30.0, (2, 120))[:, few]
    table[1, min(few.start, 119)] = -900.0  # no number beside the others, but alone where there are none
    sums = [log_sum_exp(table[:, 39 - i : 120 - i] + message) for i in range(40)]
    np.testing.assert_allclose(log_correlation(table, message), np.stack(sums, axis=1), rtol=1e-13, atol=1e-12)


def test_totals_are_followed_no_further_than_the_sum_of_the_siblings_allows() -> None:
    plan = adv.Plan([adv.Level("block", adv.Geometric(20.0), 4), adv.Level("tract", adv.Laplace(1e5))])
    path = adv.Adversary(known=0, beliefs={"tract": adv.Uniform()}).path(plan, 0)
    released = Released(np.array([[0.0, 70_000.0]]), np.array([[1.0, np.nan]]))
    ((first, size),) = path.windows.above(released, 0, np.array([0.0, 1.0]), closed=True)
    assert first[0] == 0.0
    assert size[0] < 20


def test_exact_counts_that_rule_out_either_hypothesis_are_refused() -> None:
    """The block says that the target is in, the tract that they cannot be: no number, and no warning."""
    plan = adv.Plan([adv.Level("block", adv.Exact(), siblings=5), adv.Level("tract", adv.Laplace(0.5))])
    reader = adv.Adversary(prior=0.3, known=4, beliefs={"tract": adv.Point(4)})
    release = plan.observe({"block": 5, "tract": 5}, sibling_sum={"block": 0})
    with pytest.raises(ValueError, match="impossible"):
        reader.posterior(plan, release)
    plan = adv.Plan([adv.Level("block", adv.Exact())], cells=2)
    release = plan.observe({"block": [[1, 1]]})
    with pytest.raises(ValueError, match="impossible"):
        adv.attacks.characteristics().posterior(plan, release)


def test_a_sum_beside_beliefs_about_each_sibling_holds_the_total(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tract's noise alone would leave 13,000 counts possible; its one other block group is released sharply."""
    levels = [adv.Level("block", DG(1.0), siblings=4), adv.Level("block group", DG(1.5), siblings=1)]
    plan = adv.Plan([*levels, adv.Level("tract", adv.Laplace(300.0))])
    reader = adv.Adversary(0.4, 7, {"block group": adv.Each(scipy.stats.poisson(9.0)), "tract": adv.Each()})
    release = plan.release({"block": 8, "block group": 40, "tract": 70}, 1, 20)
    path, rows = reader.path(plan), release_arrays(plan, release).cell(0)
    assert max(size.max() for _, size in path.windows.above(rows, 0, path.known_counts(), closed=False)) < 100
    found = reader.posterior(plan, release, counts=False)["log_odds"].values
    monkeypatch.setattr(windows, "NEAR_NATS", 1e12)
    assert path.windows.above(rows, 0, path.known_counts(), closed=False)[1][1].max() > 10_000
    np.testing.assert_allclose(reader.posterior(plan, release, counts=False)["log_odds"], found, rtol=1e-12, atol=1e-12)


def test_siblings_read_one_by_one_leave_the_total_where_its_own_noise_puts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block's count clamped from below fits all smaller ones: thousands of counts times those of the tract."""
    block = adv.postprocessing.clamped(adv.Geometric(0.05), 1)
    plan = adv.Plan([adv.Level("block", block, siblings=2), adv.Level("tract", DG(4.4))])
    beliefs = {"block": scipy.stats.logser(0.68), "tract": adv.Each(scipy.stats.nbinom(2, 0.001))}
    reader = adv.Adversary(0.4, 0, beliefs=beliefs)
    release = plan.observe({"block": [1, 30, 9], "tract": [5, 42, 99]}, siblings={"block": [[1, 2], [14, 1], [9, 50]]})
    path, rows = reader.path(plan), release_arrays(plan, release).cell(0)
    products, convolve = list[int](), np.convolve

    def counted(one: Any, other: Any, mode: Any = "full") -> Any:
        products.append(one.size * other.size)
        return convolve(one, other, mode)

    with monkeypatch.context() as patch:
        patch.setattr(np, "convolve", counted)
        assert max(size.max() for _, size in path.windows.above(rows, -1, path.contributions, closed=True)) < 200
        found = reader.posterior(plan, release, counts=False)["log_odds"].values
    assert 0 < sum(products) < 1e6
    monkeypatch.setattr(windows, "NEAR_NATS", 1e6)
    monkeypatch.setattr(windows.Windows, "_below", lambda self, i, first, last, low, high: (first, last))
    wide = path.windows.above(rows, -1, path.contributions, closed=True)
    assert np.prod([size.max() for _, size in wide], dtype=float) > 5e5
    np.testing.assert_allclose(reader.posterior(plan, release, counts=False)["log_odds"], found, rtol=1e-12, atol=1e-12)


def test_a_broad_belief_above_people_unknown_is_followed_as_far_as_the_releases_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counts that one hypothesis excludes do not count as a misfit: the state's law has a tail of 36,000."""
    plan = adv.Plan([adv.Level("town", adv.Geometric(2.2), siblings=5), adv.Level("state", DG(300.0))])
    beliefs = {"state": scipy.stats.geom(1 / 864)}
    reader = adv.attacks.all_but(scipy.stats.binom(5, 0.999999), level="town", beliefs=beliefs)
    release = plan.observe({"town": [0, 5, -13, 4], "state": [2, 9, 2, 40]}, {"town": [1, 7, 1, 30]})
    path, rows = reader.path(plan), release_arrays(plan, release).cell(0)
    assert max(size.max() for _, size in path.windows.above(rows, -1, path.contributions, closed=False)) < 10
    found = reader.posterior(plan, release, counts=False)["log_odds"].values
    monkeypatch.setattr(windows, "NEAR_NATS", 1e12)
    assert path.windows.above(rows, -1, path.contributions, closed=False)[1][1].max() > 30_000
    np.testing.assert_allclose(reader.posterior(plan, release, counts=False)["log_odds"], found, rtol=1e-12, atol=1e-12)


def assert_cut_from(
    above: int,
    below: int,
    plan: adv.Plan,
    reader: adv.Adversary,
    release: xr.Dataset,
    monkeypatch: pytest.MonkeyPatch,
    **near: float,
) -> None:
    """Fewer than `below` counts are followed where noise alone asks for more than `above`, with the same answer."""
    path, rows = reader.path(plan), release_arrays(plan, release).cell(0)

    def widest() -> float:
        return max(size.max() for _, size in path.windows.above(rows, 0, path.known_counts(), closed=False))

    assert widest() < below
    found = reader.posterior(plan, release, counts=False)["log_odds"].values
    monkeypatch.setattr(windows.Windows, "_of_both", lambda _, i, first, last, *__: (first, last))
    assert widest() > above
    np.testing.assert_allclose(reader.posterior(plan, release, counts=False)["log_odds"], found, **near)


@pytest.mark.parametrize("law", [scipy.stats.nbinom(1.4, 0.26), adv.GammaPoisson(1.4, 0.35)], ids=["scipy", "own"])
def test_counts_beyond_the_tail_of_a_belief_are_not_followed_however_wide_the_noise(
    law: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where releases are three standard deviations from all that is believed."""
    plan = adv.Plan([adv.Level("a", adv.Laplace.from_epsilon(1e-3), siblings=4), adv.Level("block", DG(5e-7))])
    reader = adv.Adversary(prior=0.3, known=2, beliefs={"block": law})
    release = plan.observe({"a": [3.0, 2.5, -7.5], "block": [40, 900, -3000]}, {"a": [1.0, -4000.0, -9000.0]})
    assert_cut_from(10_000, 1_000, plan, reader, release, monkeypatch, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("noise", [adv.Laplace(0.7), adv.Gaussian(3.0), adv.Geometric(0.2)], ids=lambda one: one.kind)
def test_a_steep_belief_is_followed_where_it_meets_the_releases(noise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It expects four million people, and noise alone would have to make up for three million nats."""
    law = scipy.stats.nbinom(1e7, 0.7)
    plan = adv.Plan([adv.Level("block", DG(0.1), siblings=2), adv.Level("tract", noise)])
    reader = adv.Adversary(0.3, 2, {"tract": law})
    release = plan.observe({"block": [2, 5, 3], "tract": [20, 31, -4]}, {"block": [9, 40, 3]})
    assert_cut_from(6_000, 2_000, plan, reader, release, monkeypatch, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    "noise",
    [adv.Laplace(0.01), adv.Laplace(0.6), adv.Laplace(40.0), adv.Geometric(4.0), adv.Geometric(0.03), DG(0.05)],
    ids=repr,
)
@pytest.mark.parametrize("shift", [1, -1, 3])
def test_others_of_whom_nothing_is_known_are_summed_out_in_closed_form(noise: adv.Mechanism, shift: int) -> None:
    plan, counts = adv.Plan([adv.Level("block", noise)]), np.arange(9_000.0)
    reader = adv.Adversary(0.5, beliefs={"block": adv.Uniform()}, hypotheses=(1, 1 + shift) if shift > 0 else (2, 1))
    noisy = np.array([-700, -3, 0, 1, 2, 3, 40, 900]) + 0.3 * noise.is_continuous
    each = noise.log_likelihood(noisy[:, None], counts)
    first, second = (1, 1 + shift) if shift > 0 else (2, 1)
    expected = log_sum_exp(each[:, second:]) - log_sum_exp(each[:, first:])
    found = reader.posterior(plan, plan.observe({"block": noisy}), counts=False)["log_odds"]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-13)


def test_a_total_clamped_from_above_ends_no_improper_belief_about_an_adjusted_count() -> None:
    """Only a count adjusted to its parent's is published, and the parent fits every larger count."""
    levels = [adv.Level("block", DG(3.5), siblings=1), adv.Level("tract", adv.postprocessing.clamped(DG(0.05), 0, 5))]
    plan = adv.Plan(levels, postprocessing=adv.postprocessing.LeastSquares())
    reader = adv.Adversary(0.3, beliefs={"block": adv.Uniform(), "tract": adv.Uniform()})
    with pytest.raises(ValueError, match="leaves it without an end; give one with an end, such as Uniform"):
        reader.posterior(plan, plan.release({"block": 0, "tract": 0}, 1, 3))
