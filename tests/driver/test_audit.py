"""One call from plan, reader and truth to risk and bounds: schema, engines, mappings, status, simulation."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats
import xarray as xr

import adversary as adv
from adversary.adversaries.path.truth import settle_truth
from adversary.driver import shown_bound
from adversary.driver.case import Bounds
from tests.catalogue import DG, RHO1, RHO2, STORIES, Story
from tests.driver.test_model_case import agree

SCALARS = ("posterior_mean", "ratio_mean", "difference_mean", "prob_correct", "tie_mass")
STATUSES = {"holds", "exceeded", "violated"}
EXACT = [name for name in STORIES if "gaussian" not in name and "laplace" not in name]


def audit(story: Story, **options: Any) -> xr.DataTree:
    return adv.audit(story.plan, story.reader, story.truth, progress=False, **options)


# Schema


@pytest.mark.parametrize("name", STORIES)
def test_results_have_the_known_groups_and_dims(name: str) -> None:
    tree = audit(STORIES[name], guarantee=adv.ZeroConcentratedDP(0.5), draws=2000, rng=1)
    assert {"release", "exact", "risk", "bound"} <= set(tree.children)
    assert not {"posterior", "prior"} & set(tree.children)  # only as draws
    for variable in SCALARS:
        assert tree["risk"][variable].dims == ()
        assert tree["risk"][variable].attrs["direction"] in ("exact", "estimate", "lower", "upper")
    for variable in ("posterior", "log_odds", "ratio"):
        assert tree["exact"][variable].dims == ("release",)
    cell = ("cell",) if STORIES[name].plan.cells == 2 else ()
    assert tree["release"]["noisy"].dims == ("release", "level", *cell)
    assert tree["release"]["sibling_sum"].dims == ("release", "level", *cell)
    assert tree["release"]["weight"].dims == ("release",)
    bound = tree["bound"]
    for variable in ("posterior", "ratio", "difference"):
        assert bound[variable].dims == ("definition", "side")
    for variable in ("outside", "failure", "k", "status", "route"):
        assert bound[variable].dims == ("definition",)
    assert bound["side"].values.tolist() == ["lower", "upper"]
    assert bound["definition"].values.tolist() == ["zCDP", "privacy loss"]
    assert set(bound["status"].values.tolist()) <= STATUSES


@pytest.mark.parametrize(("name", "route"), [("one block, gaussian", "formula"), ("two levels, flat", "listed")])
def test_bounds_name_the_route_to_the_plans_own_loss(name: str, route: str) -> None:
    assert audit(STORIES[name])["bound"]["route"].sel(definition="privacy loss") == route


def test_attributes_say_what_was_done() -> None:
    tree = audit(STORIES["two levels, flat"], failure=0.1, rng=7)
    assert tree.attrs["engine"] == "exact"
    assert tree.attrs["failure"] == 0.1
    assert tree.attrs["seed"] == "7"
    assert tree.attrs["neighbours"] == "unbounded"
    text = json.dumps(tree.attrs, default=str)
    for word in ("version", "allocation", "sensitivity", "truncat"):
        assert word in text, word
    assert "siblings" in tree.attrs["allocation"]


@pytest.mark.slow_cases("two levels, flat")
@pytest.mark.parametrize(
    "name", ["two levels, flat", "one block, two cells", "one block, gaussian", "two levels, invariant"]
)
def test_results_survive_netcdf(name: str, tmp_path: Path) -> None:
    tree = audit(STORIES[name], guarantee={"census": adv.ZeroConcentratedDP(1.0)}, rng=1, draws=500)
    tree.to_netcdf(tmp_path / "audit.nc")
    back = xr.open_datatree(tmp_path / "audit.nc")
    try:
        assert set(back.children) == set(tree.children)
        for group in tree.children:
            xr.testing.assert_equal(back[group].to_dataset(), tree[group].to_dataset())
        assert back.attrs["engine"] == "exact"
    finally:
        back.close()


@pytest.mark.parametrize("name", [name for name in EXACT if name != "two levels, two cells"])  # too many to list
def test_release_weights_and_posteriors_give_the_mean(name: str) -> None:
    tree = audit(STORIES[name], rng=1)
    weight, posterior = tree["release"]["weight"], tree["exact"]["posterior"]
    assert tree["risk"]["posterior_mean"].attrs["direction"] == weight.attrs["direction"] == "exact"
    assert float(weight.sum()) == pytest.approx(1.0, abs=1e-9)
    assert float(weight.values @ posterior.values) == pytest.approx(float(tree["risk"]["posterior_mean"]), abs=1e-10)
    right = (tree["exact"]["log_odds"].values > 1e-9) == bool(STORIES[name].truth.get("in", _target(STORIES[name])))
    assert float(weight.values @ right) == pytest.approx(float(tree["risk"]["prob_correct"]), abs=1e-9)


def _target(story: Story) -> int:
    return settle_truth(story.plan, story.reader, story.truth).target


def test_posterior_of_the_audit_is_the_readers() -> None:
    story = STORIES["two levels, flat"]
    tree = audit(story)
    release = tree["release"].to_dataset()[["noisy", "sibling_sum"]].isel(release=slice(0, 200))
    found = story.reader.posterior(story.plan, release)
    np.testing.assert_allclose(tree["exact"]["posterior"].values[:200], found["posterior"].values, rtol=1e-12)


# Engines


@pytest.mark.parametrize(
    "name",
    [
        "one block",
        "one block, randomized response",
        "one block, others unknown",
        "one block, two cells",
        "two levels, same people",
    ],
)
def test_exact_and_enumerate_agree(name: str) -> None:
    listed = audit(STORIES[name], rng=1, engine="enumerate")
    assert listed.attrs["engine"] == "enumerate"
    agree(listed, audit(STORIES[name], rng=1))


@pytest.mark.slow_cases("Others([0.5, 0.5])")
@pytest.mark.parametrize("belief", [adv.Uniform(3), adv.Point(2), adv.Others([0.5, 0.5]), adv.Uniform()], ids=str)
def test_exact_and_enumerate_agree_on_two_levels(belief: adv.Belief) -> None:
    plan = adv.Plan([adv.Level("block", DG(3.0), siblings=1), adv.Level("tract", DG(3.0))])
    story = Story(plan, adv.Adversary(0.3, beliefs={"tract": belief}), {"block": 1, "tract": 2})
    agree(audit(story, rng=1, engine="enumerate"), audit(story, rng=1))


# Several plans, readers, truths


@pytest.mark.slow
def test_mappings_become_dims() -> None:
    plan, reader, truth = STORIES["two levels, flat"]
    readers = {
        "flat": reader,
        "sure": adv.Adversary(beliefs={"tract": adv.Point(2)}),
        "rare": adv.Adversary(0.1, 0, reader.beliefs),
    }
    less = adv.Plan([adv.Level("block", DG(0.1), siblings=3), adv.Level("tract", DG(0.2))])
    plans = {"more": plan, "less": less}
    truths = {"alone": {"block": 1, "tract": 1}, "with another": truth}
    tree = adv.audit(plans, readers, truths, progress=False, guarantee=adv.ZeroConcentratedDP(1.0))
    assert dict(tree["risk"]["posterior_mean"].sizes) == {"plan": 2, "truth": 2, "adversary": 3}
    assert set(tree["exact"]["posterior"].dims) == {"plan", "truth", "adversary", "release"}
    assert set(tree["bound"]["posterior"].dims) == {"plan", "truth", "adversary", "definition", "side"}
    for p, t, a in (("more", "alone", "sure"), ("less", "with another", "rare"), ("less", "alone", "flat")):
        single = adv.audit(plans[p], readers[a], truths[t], progress=False, guarantee=adv.ZeroConcentratedDP(1.0))
        chosen = {"plan": p, "truth": t, "adversary": a}
        for variable in SCALARS:
            assert float(tree["risk"][variable].sel(chosen)) == pytest.approx(
                float(single["risk"][variable]), rel=1e-12
            )
        assert tree["bound"]["status"].sel(chosen).values.tolist() == single["bound"]["status"].values.tolist()
        weight = tree["release"]["weight"].sel({"plan": p, "truth": t})
        posterior = tree["exact"]["posterior"].sel(chosen)
        assert float((weight * posterior.fillna(0.0)).sum()) == pytest.approx(
            float(single["risk"]["posterior_mean"]), abs=1e-10
        )


def test_one_name_still_makes_a_dim() -> None:
    story = STORIES["one block"]
    tree = adv.audit(story.plan, {"neighbour": story.reader}, story.truth, progress=False)
    assert tree["risk"]["posterior_mean"].dims == ("adversary",)
    assert tree["risk"]["adversary"].values.tolist() == ["neighbour"]


def test_guarantees_may_have_names() -> None:
    story = STORIES["one block"]
    tree = audit(story, guarantee={"stated": adv.ZeroConcentratedDP(0.4), "too good": adv.ZeroConcentratedDP(0.1)})
    assert tree["bound"]["definition"].values.tolist() == ["stated", "too good", "privacy loss"]
    assert tree["bound"]["status"].values.tolist() == ["holds", "violated", "holds"]


# Bounds: positive and negative controls


def _status(tree: xr.DataTree, definition: str) -> str:
    return str(tree["bound"]["status"].sel(definition=definition).item())


@pytest.mark.parametrize("name", STORIES)
def test_a_true_promise_is_never_called_violated(name: str) -> None:
    story = STORIES[name]
    loss = story.plan.privacy_loss()
    delta = max(float(side.bracket.delta(0.5)[1]) for side in (loss, loss.swapped))
    promises: dict[str, adv.Guarantee] = {"none": adv.NoPrivacy()}
    if delta < 0.999:
        promises["approximate"] = adv.ApproximateDP(0.5, delta)
    if math.isfinite(rho := story.plan.total_rho):
        promises["zCDP"] = adv.ZeroConcentratedDP(rho)
    if story.reader.records(story.plan) == 1:  # a loss speaks of one pair
        promises["loss"] = loss
    if math.isfinite(loss.maximum):
        promises["pure"] = adv.PureDP(loss.maximum)
    tree = audit(story, guarantee=promises, draws=2000, rng=1)
    for definition in tree["bound"]["definition"].values:
        assert _status(tree, definition) != "violated", definition


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, story in STORIES.items()
        if "response" not in name and "laplace" not in name and "three" not in name and story.plan.total_rho < math.inf
    ],
)
def test_nine_tenths_of_rho_is_caught(name: str) -> None:
    story = STORIES[name]
    if "geometric" in name:
        tree = audit(story, guarantee=adv.PureDP(0.9 * story.plan.privacy_loss().maximum))
        assert _status(tree, "pure DP") == "violated"
        return
    tree = audit(story, guarantee=adv.ZeroConcentratedDP(0.9 * story.plan.total_rho), draws=2000, rng=1)
    assert _status(tree, "zCDP") == "violated"


@pytest.mark.parametrize("rho", [1e-8, 1e-4, RHO1, RHO2, 1.0, 30.0])
@pytest.mark.parametrize("prior", [0.5, 1 / 864])
def test_promises_of_one_block_over_a_range_of_noise(rho: float, prior: float) -> None:
    plan = adv.Plan([adv.Level("block", DG(rho))])
    promises = {"true": adv.ZeroConcentratedDP(rho), "false": adv.ZeroConcentratedDP(0.9 * rho)}
    for target in (0, 1):
        tree = adv.audit(plan, adv.Adversary(prior), {"block": target}, guarantee=promises, progress=False)
        assert _status(tree, "true") == "holds"
        assert _status(tree, "false") == "violated"
        assert _status(tree, "privacy loss") == "holds"


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 1.0, 20.0])
def test_pure_promises_of_one_block_over_a_range_of_noise(epsilon: float) -> None:
    if epsilon < 1e-3:
        plan = adv.Plan([adv.Level("answer", adv.RandomizedResponse(epsilon))])
    else:
        plan = adv.Plan([adv.Level("answer", adv.Geometric(epsilon))])
    promises = {"true": adv.PureDP(epsilon), "false": adv.PureDP(0.9 * epsilon)}
    tree = adv.audit(plan, adv.Adversary(0.3), {"answer": 1}, guarantee=promises, progress=False)
    assert _status(tree, "true") == "holds"
    assert _status(tree, "false") == "violated"


def test_a_certain_bound_has_failure_zero() -> None:
    story = Story(adv.Plan([adv.Level("block", adv.Geometric(0.8))]), adv.Adversary(0.3), {"block": 1})
    tree = audit(story, guarantee={"pure": adv.PureDP(0.8), "zCDP": adv.ZeroConcentratedDP(0.32)}, failure=0.05)
    assert tree["bound"]["failure"].values.tolist() == [0.0, 0.05, 0.0]
    assert float(tree["bound"]["outside"].sel(definition="pure")) == 0.0
    np.testing.assert_allclose(tree["bound"]["posterior"].sel(definition="pure"), adv.PureDP(0.8).posterior_bounds(0.3))
    assert (
        float(tree["bound"]["posterior"].sel(definition="pure", side="upper"))
        >= float(tree["exact"]["posterior"].max()) - 1e-15
    )


def test_the_bound_that_is_shown_is_of_the_tightest_guarantee_that_the_noise_satisfies() -> None:
    """Of each adversary by itself: a looser one, one violated, one without a bound, and the plan's own loss are not."""
    names = ["zCDP", "pure DP", "approximate DP", "privacy loss"]
    cases = {
        "zCDP": ([1.2, 0.1, 2.0, 0.9], ["holds", "violated", "holds", "holds"]),
        "approximate DP": ([3.0, np.inf, 2.0, 0.9], ["holds", "holds", "exceeded", "holds"]),
        "privacy loss": ([0.3, np.inf, 0.4, 0.9], ["violated", "holds", "violated", "holds"]),
    }
    losses, statuses = (np.array(part) for part in zip(*cases.values(), strict=True))
    bound = xr.Dataset(
        {
            "loss_bound": (("adversary", "definition"), losses),
            "status": (("adversary", "definition"), statuses),
            "posterior": (("adversary", "definition", "side"), np.stack([-losses, losses], axis=-1)),
        },
        {"adversary": list(cases), "definition": names, "side": ["lower", "upper"]},
    )
    shown = shown_bound(bound)
    assert shown["definition"].values.tolist() == list(cases)
    assert shown["loss_bound"].values.tolist() == [1.2, 2.0, 0.9]
    assert shown["posterior"].sel(side="upper").values.tolist() == [1.2, 2.0, 0.9]
    assert shown_bound(bound.sel(adversary="zCDP"))["loss_bound"].item() == 1.2


def test_bounds_are_those_of_the_guarantee_for_k_records() -> None:
    story = STORIES["two levels, flat to 8"]
    promise = adv.ZeroConcentratedDP(1.0)
    tree = audit(story, guarantee=promise, failure=0.02)
    bound = tree["bound"].sel(definition="zCDP")
    assert int(bound["k"]) == 2
    assert float(bound["failure"]) == 0.02
    group = promise.group(2)
    np.testing.assert_allclose(bound["posterior"], group.posterior_bounds(0.2, failure=0.02), rtol=1e-12)
    np.testing.assert_allclose(bound["ratio"], group.ratio_bounds(0.2, failure=0.02), rtol=1e-12)
    np.testing.assert_allclose(bound["difference"], group.difference_bounds(0.2, failure=0.02), rtol=1e-9)
    own = tree["bound"].sel(definition="privacy loss")
    assert float(own["posterior"].sel(side="upper")) <= float(bound["posterior"].sel(side="upper"))


@pytest.mark.parametrize(
    "name", ["one block", "two levels, poisson", "two levels, flat to 8", "one block, two cells", "one block, gaussian"]
)
@pytest.mark.parametrize("failure", [0.01, 0.05, 0.3])
def test_outside_is_the_mass_beyond_the_bound(name: str, failure: float) -> None:
    story = STORIES[name]
    tree = audit(story, failure=failure, guarantee=adv.ZeroConcentratedDP(story.plan.total_rho), rng=1, draws=2000)
    weight, posterior = tree["release"]["weight"].values, tree["exact"]["posterior"].values
    for definition in ("zCDP", "privacy loss"):
        bound = tree["bound"].sel(definition=definition)
        low, high = (float(bound["posterior"].sel(side=side)) for side in ("lower", "upper"))
        listed = weight[(posterior > high * (1 + 1e-9)) | (posterior < low * (1 - 1e-9))].sum()
        slack = 1e-9 if tree["release"]["weight"].attrs["direction"] == "exact" else 4 * math.sqrt(0.25 / 2000)
        assert float(bound["outside"]) == pytest.approx(listed, abs=slack)
        assert float(bound["outside"]) <= failure
        assert str(bound["status"].item()) == "holds"


def test_a_reader_sure_of_a_wrong_total_exceeds_a_true_promise() -> None:
    """Point(25) with truth (1, 1): k = 2, and more releases beyond the bound than the failure allows."""
    plan = adv.Plan([adv.Level("block", DG(RHO1), siblings=1), adv.Level("block group", DG(RHO2))])
    reader = adv.Adversary(beliefs={"block group": adv.Point(60)})
    promise = adv.ZeroConcentratedDP(RHO1 + RHO2)
    tree = adv.audit(plan, reader, {"block": 1, "block group": 1}, guarantee=promise, progress=False)
    bound = tree["bound"].sel(definition="zCDP")
    assert int(bound["k"]) == 2
    assert str(bound["status"].item()) == "exceeded"
    assert float(bound["outside"]) > float(bound["failure"])
    right = adv.audit(
        plan,
        adv.Adversary(beliefs={"block group": adv.Point(1)}),
        {"block": 1, "block group": 1},
        guarantee=promise,
        progress=False,
    )
    assert _status(right, "zCDP") == "holds"


def test_exceeded_begins_where_the_probability_passes_the_failure() -> None:
    """Exact releases: the probability beyond the bound is a step, the same at failures this close to it."""
    plan = adv.Plan([adv.Level("block", DG(0.3), siblings=1), adv.Level("tract", DG(0.4))])
    story = Story(plan, adv.Adversary(beliefs={"tract": adv.Point(9)}), {"block": 1, "tract": 1})
    outside = float(audit(story, failure=0.08, also=())["bound"]["outside"].item())
    assert 0.08 < outside < 0.085
    for failure, status in ((outside - 1e-9, "exceeded"), (outside, "holds"), (outside + 1e-9, "holds")):
        bound = audit(story, failure=failure, also=())["bound"]
        assert float(bound["outside"].item()) == outside
        assert str(bound["status"].item()) == status


@pytest.mark.parametrize(("errors", "exceeded"), [(0.0, False), (2.9, False), (3.1, True), (29.0, True)])
def test_simulated_releases_exceed_by_three_standard_errors(errors: float, exceeded: bool) -> None:
    law = SimpleNamespace(outside=lambda limit, centre: (0.05 + errors * 1e-4, 1e-4))
    readings = SimpleNamespace(prior=SimpleNamespace(base=0.5, invariant=0.0), sampled=False, failed=False)
    bounds = Bounds(plan=None, records=1, count_shift=1, failure=0.05)
    assert bounds._prob_beyond(1.0, 0.05, law, readings) == (0.05 + errors * 1e-4, exceeded)  # type: ignore[arg-type]


@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_certain_readers_learn_nothing(prior: float) -> None:
    for name in ("one block", "two levels, flat"):
        plan, reader, truth = STORIES[name]
        tree = adv.audit(
            plan,
            adv.Adversary(prior, reader.known, reader.beliefs),
            truth,
            guarantee=adv.ZeroConcentratedDP(2.0),
            progress=False,
        )
        assert float(tree["risk"]["posterior_mean"]) == prior
        assert np.all(tree["exact"]["posterior"] == prior)
        assert np.all(tree["bound"]["posterior"] == prior)
        assert "violated" not in tree["bound"]["status"].values
        for variable in SCALARS:
            assert not np.isnan(tree["risk"][variable])


# Invariants


def test_exact_levels_split_the_ratio_in_two() -> None:
    story = STORIES["two levels, invariant"]
    tree = audit(story, guarantee=adv.ZeroConcentratedDP(0.4))
    risk = tree["risk"]
    base = 0.3 * 6 / (0.3 * 6 + 0.7 * 5)
    assert float(risk["invariant_ratio"]) == pytest.approx(base / 0.3, rel=1e-12)
    assert float(risk["ratio_mean"]) == pytest.approx(float(risk["posterior_mean"]) / base, rel=1e-12)
    assert float(risk["invariant_ratio"] * risk["ratio_mean"]) == pytest.approx(
        float(risk["posterior_mean"]) / 0.3, rel=1e-12
    )
    bound = tree["bound"].sel(definition="zCDP")
    assert int(bound["k"]) == 2
    np.testing.assert_allclose(
        bound["posterior"], adv.ZeroConcentratedDP(1.6).posterior_bounds(base, failure=0.05), rtol=1e-12
    )
    assert str(bound["status"].item()) == "holds"


@pytest.mark.parametrize("target", [0, 1])
def test_an_exact_block_leaves_nothing_to_the_noise(target: int) -> None:
    """The count itself is published: everything is learned from the invariant, nothing from there on."""
    plan = adv.Plan([adv.Level("block", adv.Exact())])
    tree = adv.audit(plan, adv.Adversary(0.3), {"block": target}, guarantee=adv.ZeroConcentratedDP(0.1), progress=False)
    risk = tree["risk"]
    assert float(risk["posterior_mean"]) == float(risk["prior"]) == target
    assert float(risk["invariant_ratio"]) == pytest.approx(target / 0.3)
    assert float(risk["prob_correct"]) == 1.0
    assert risk["status"].item() == "ok"
    for variable in risk.data_vars:
        assert not risk[variable].isnull().any(), variable
    assert np.all(tree["bound"]["outside"] == 0.0)
    assert set(tree["bound"]["status"].values.tolist()) == {"holds"}


def test_plans_without_exact_levels_have_one_ratio() -> None:
    assert "invariant_ratio" not in audit(STORIES["two levels, flat"])["risk"]


# Simulation


def _simulated(siblings: int = 2) -> Story:
    """Continuous noise above the block: releases cannot be listed."""
    plan = adv.Plan([adv.Level("block", DG(0.4), siblings=siblings), adv.Level("tract", adv.Gaussian(1.2))])
    return Story(plan, adv.Adversary(beliefs={"tract": adv.Uniform(8)}), {"block": 1, "tract": 3})


def test_simulated_audits_carry_their_error() -> None:
    tree = audit(_simulated(), rng=1, draws=5000)
    assert tree["risk"]["posterior_mean"].attrs["direction"] == "estimate"
    assert set(SCALARS) <= set(tree["risk"]["measure"].values.tolist())
    assert 0 < float(tree["risk"]["mcse"].sel(measure="posterior_mean")) < 0.01
    assert tree["bound"]["outside"].attrs["direction"] == "estimate"


def test_fewer_releases_are_simulated_where_each_takes_long_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from adversary.adversaries.risk import listed_releases

    assert audit(_simulated(), rng=1).attrs["draws"] == 20_000
    wide = adv.Plan([adv.Level("block", adv.Laplace(1e4))])
    broad = adv.Adversary(beliefs={"block": scipy.stats.randint(0, 60_000)})
    settled = settle_truth(wide, broad, {"block": 30_000, "in": 1})
    assert listed_releases.affordable_draws(wide, broad, settled) < 1_000
    monkeypatch.setattr(listed_releases, "_MOST_WORK", 1e3)
    tree = audit(_simulated(), rng=1)
    assert tree.attrs["draws"] == tree["release"].sizes["release"] == 500
    assert float(tree["risk"]["mcse"].sel(measure="posterior_mean")) > 0
    assert audit(_simulated(), rng=1, draws=3000).attrs["draws"] == 3000


@pytest.mark.slow
def test_simulation_agrees_with_the_exact_average(monkeypatch: pytest.MonkeyPatch) -> None:
    from adversary.adversaries.risk import listed_releases, upper_evidence

    stories = [
        STORIES[name] for name in ("two levels, flat", "two levels, poisson", "three levels", "two levels, census")
    ]
    exact = [audit(story) for story in stories]
    monkeypatch.setattr(upper_evidence, "MAX_GRID", 10)
    monkeypatch.setattr(listed_releases, "_TABLE_GRID", 10)
    for story, known in zip(stories, exact, strict=True):
        tree = audit(story, rng=2020, draws=20_000)
        assert tree["risk"]["posterior_mean"].attrs["direction"] == "estimate"
        for variable in SCALARS:
            error = float(tree["risk"]["mcse"].sel(measure=variable))
            assert abs(float(tree["risk"][variable] - known["risk"][variable])) <= 4 * error + 5 / 20_000 * (
                variable == "tie_mass"
            )
        weight, posterior = tree["release"]["weight"].values, tree["exact"]["posterior"].values
        spread = 4 * posterior.std() / math.sqrt(posterior.size)
        assert float(weight @ posterior) == pytest.approx(float(known["risk"]["posterior_mean"]), abs=spread)


def test_seeds_reproduce_simulated_audits() -> None:
    story = _simulated()
    one, two, other = (audit(story, rng=seed, draws=3000) for seed in (5, 5, 6))
    for group in ("risk", "exact", "release", "bound"):
        xr.testing.assert_identical(one[group].to_dataset(), two[group].to_dataset())
    assert float(one["risk"]["posterior_mean"]) != float(other["risk"]["posterior_mean"])


def test_a_case_does_not_depend_on_what_else_is_audited() -> None:
    plan, reader, truth = _simulated()
    alone = adv.audit(plan, reader, truth, rng=5, draws=3000, progress=False)
    many = adv.audit(
        plan,
        {"other": adv.Adversary(0.1, 0, reader.beliefs), "this": reader},
        {"a": {"block": 0, "tract": 1}, "b": truth},
        rng=5,
        draws=3000,
        progress=False,
    )
    found = many["risk"]["posterior_mean"].sel(adversary="this", truth="b")
    assert float(found) == pytest.approx(float(alone["risk"]["posterior_mean"]), rel=1e-14)


def test_stored_draws_of_another_reader_are_never_taken(tmp_path: Path) -> None:
    plan, reader, truth = _simulated()
    readers = {
        "flat": reader,
        "sure": adv.Adversary(beliefs={"tract": adv.Point(6)}),
        "knows more": adv.Adversary(0.5, 1, reader.beliefs),
    }
    truths = {"flat": truth, "sure": truth, "knows more": {"block": 1, "tract": 3, "in": 0}}
    for name, one in readers.items():
        plain = adv.audit(plan, one, truths[name], rng=5, draws=3000, progress=False)
        stored = adv.audit(plan, one, truths[name], rng=5, draws=3000, progress=False, store=tmp_path)
        xr.testing.assert_identical(stored["risk"].to_dataset(), plain["risk"].to_dataset())


# Bad input


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"engine": "fast"}, ValueError, r"engine must be one of.*'fast'"),
        ({"target": "neighbour"}, ValueError, "target must be \"in\".*'neighbour'"),
        ({"failure": 1.5}, ValueError, r"failure must be in \[0, 1\], got 1\.5"),
        ({"rng": -1}, ValueError, "rng must be None, a seed >= 0.*-1"),
        ({"guarantee": 1.0}, TypeError, r"guarantee must be a Guarantee.*got 1\.0"),
        ({"plan": {}}, ValueError, "plan must not be an empty mapping"),
        ({"truth": {"a": {"block": 1}, "b": {"tract": 1}}}, ValueError, "unknown level 'tract'"),
        ({"truth": {"block": 7}}, ValueError, "'block' is 7, outside the adversary's belief"),
    ],
)
def test_bad_input_is_refused_with_name_rule_and_value(options: dict[str, Any], kind: Any, message: str) -> None:
    story = STORIES["one block"]
    arguments = {"plan": story.plan, "adversary": story.reader, "truth": story.truth, "progress": False, **options}
    plan, adversary, truth = (arguments.pop(name) for name in ("plan", "adversary", "truth"))
    with pytest.raises(kind, match=message):
        adv.audit(plan, adversary, truth, **arguments)


# Promises, neighbours and records


RHO = 0.1


def status(plan: adv.Plan, reader: adv.Adversary, guarantee: Any, truth: Any) -> tuple[str, int]:
    bound = adv.audit(plan, reader, truth, guarantee=guarantee)["bound"]
    return str(bound["status"].values[0]), int(bound["k"].values[0])


def test_a_promise_cannot_hide_behind_the_name_of_the_plans_own_loss() -> None:
    plan, reader = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(RHO))]), adv.Adversary(0.5)
    with pytest.raises(ValueError, match="'privacy loss' is kept for the plan's own loss"):
        adv.audit(plan, reader, {"block": 1}, guarantee={"privacy loss": adv.ZeroConcentratedDP(0.01)})
    promised = adv.DiscreteGaussian.from_rho(0.001).privacy_loss()
    bound = adv.audit(plan, reader, {"block": 1}, guarantee=promised)["bound"]
    assert bound["definition"].values.tolist() == ["guaranteed privacy loss", "privacy loss"]
    assert bound["status"].values.tolist() == ["violated", "holds"]


def test_promises_are_judged_between_neighbours_whatever_the_reader_watches() -> None:
    one, two = adv.DiscreteGaussian.from_rho(RHO), adv.DiscreteGaussian.from_rho(RHO, cells=2)
    reader, pair, truth = adv.Adversary(0.5), adv.Adversary(0.5, (0, 3)), {"block": 1}
    # records added or removed: moving between two cells takes two of them
    moving = adv.Plan([adv.Level("block", one)], cells=2, neighbours="unbounded")
    assert status(moving, pair, adv.ZeroConcentratedDP(RHO), truth) == ("holds", 2)
    assert status(moving, pair, adv.ZeroConcentratedDP(0.9 * RHO), truth) == ("violated", 2)
    # records that change: two cells move, also when the reader watches one
    for plan, who in (
        (adv.Plan([adv.Level("block", two)], neighbours="bounded"), reader),
        (adv.Plan([adv.Level("block", two)], cells=2), pair),
    ):
        assert plan.neighbours == "bounded"
        assert status(plan, who, adv.ZeroConcentratedDP(RHO), truth) == ("holds", 1)
        assert status(plan, who, adv.ZeroConcentratedDP(0.9 * RHO), truth) == ("violated", 1)


def test_no_discrete_gaussian_keeps_a_pure_promise_however_far_the_tail() -> None:
    plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(RHO))])
    assert status(plan, adv.Adversary(0.5), adv.ApproximateDP(40.0, 0.0), {"block": 1})[0] == "violated"


def test_records_of_a_reader_who_learned_are_their_coupling_distance() -> None:
    """Others 0 or 50: a release between the two ties the hypotheses to 50 other records."""
    noise = adv.DiscreteGaussian.from_rho(RHO)
    plan = adv.Plan([adv.Level("block", noise, siblings=3), adv.Level("tract", noise)])
    pmf = np.zeros(51)
    pmf[[0, 50]] = 0.5
    between = plan.observe({"block": 1, "tract": 25}, {"block": 25})
    reader = adv.Adversary(0.5, 0, {"tract": adv.Others(pmf)})
    assert reader.records(plan) == 1
    assert reader.after(plan, between).records(plan) == 51
    flat = adv.Adversary(0.5, 0, {"tract": adv.Uniform()}).after(
        plan, plan.observe({"block": 1, "tract": 5}, {"block": 4})
    )
    assert flat.records(plan) == 2


def test_ratios_in_one_audit_start_from_the_same_prior() -> None:
    plan = adv.Plan(
        [adv.Level("block", adv.DiscreteGaussian.from_rho(RHO), siblings=3), adv.Level("tract", adv.Exact())]
    )
    tree = adv.audit(
        plan, adv.Adversary(0.3, 0, {"tract": adv.Others(scipy.stats.poisson(3))}), {"block": 1, "tract": 4}
    )
    averaged = float(tree["release"]["weight"] @ tree["exact"]["ratio"])
    assert averaged == pytest.approx(float(tree["risk"]["ratio_mean"]), rel=1e-10)
    assert float(tree["exact"]["invariant_ratio"]) == float(tree["risk"]["invariant_ratio"])


@pytest.mark.parametrize(("target", "ratio"), [(0, 1.0), (1, np.inf)])
def test_ratio_at_prior_zero_under_needle_noise(target: int, ratio: float) -> None:
    """Its limit is the mean likelihood ratio: one if out, exp(2 rho) if in."""
    plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(1e3))])
    risk = adv.audit(plan, adv.Adversary(0.0), {"block": target})["risk"]
    assert float(risk["ratio_mean"]) == ratio
    assert not risk.to_dataset().to_array("quantity").isnull().any()
