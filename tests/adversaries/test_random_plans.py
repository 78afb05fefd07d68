"""Laws of averages over random plans, and over every mechanism of the catalogue against brute force.

risk.posterior_mean = sum over the listed releases of weight * posterior
prior E_in[posterior] + (1 - prior) E_out[posterior] = prior, the others drawn from what is believed of them
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.integrate
import xarray as xr
from scipy.special import expit

import adversary as adv
from adversary.adversaries.path import settle_truth
from adversary.adversaries.risk import bayes_factor_law
from tests.catalogue import MECHANISMS
from tests.oracles import audits, paths
from tests.random_plans import ENDLESS, Drawn, Held, draw, worlds

MOST_RELEASES = 300_000
MOST_WORLDS, MOST_WORK = 120, 3_000_000
"""Truths that are gone over, and these times the releases of one; 20 where releases are not listed by hand."""


def listing(drawn: Drawn) -> audits.Listing | None:
    """Every release by hand; None where there are too many, noise is continuous, or counts are adjusted."""
    plan, reader = drawn.plan, drawn.reader
    if plan.postprocessing is not None or any(level.mechanism.is_continuous for level in plan.levels):
        return None
    settled = settle_truth(plan, reader, drawn.truth)
    tiers = [
        audits.Tier(level.mechanism, one.oracle, level.siblings or 0, above and above.each)
        for level, one, above in zip(plan.levels, drawn.held, [*drawn.held[1:], None], strict=True)
    ]
    largest = max(drawn.tops) if drawn.ends else ENDLESS + 40
    parts = []
    for cell in range(plan.cells):
        siblings = {plan.names.index(name): each[:, cell].tolist() for name, each in settled.siblings.items()}
        counts = settled.counts[:, cell].tolist()
        parts.append(audits.list_path(tiers, reader.contributions(cell), counts, siblings, largest, MOST_RELEASES))
    if any(part is None for part in parts):
        return None
    first, *others = parts
    for other in others:
        first = first and other and first.beside(other, 3 * MOST_RELEASES)
    return first


def errors(tree: xr.DataTree, measure: str) -> float:
    """Five standard errors of an average; nothing where it is exact."""
    return 5.0 * float(tree["risk"]["mcse"].sel(measure=measure)) if "mcse" in tree["risk"] else 0.0


def law_of_releases(tree: xr.DataTree) -> bool:
    """The average is that of the listed releases, or of simulated ones to five standard errors."""
    weight, posterior = tree["release"]["weight"], tree["exact"]["posterior"]
    slack = errors(tree, "posterior_mean") + 1e-9
    if weight.attrs["direction"] != "exact":
        slack += 5.0 * float(posterior.std()) / math.sqrt(weight.size)
    return abs(float(weight.values @ posterior.values) - float(tree["risk"]["posterior_mean"])) <= slack


def disagreements(tree: xr.DataTree, found: audits.Listing, drawn: Drawn) -> list[str]:
    """Averages, decisions and quantiles that a listing by hand does not confirm."""
    risk, reader = tree["risk"], drawn.reader
    target = settle_truth(drawn.plan, reader, drawn.truth).target
    odds = found.log_odds(reader.prior, reader.sampling_rate)
    wrong = [
        name
        for name, value in {
            "posterior_mean": found.weight @ expit(odds),
            "prob_correct": found.weight[(odds > 1e-9) == bool(target)].sum(),
            "tie_mass": found.weight[np.abs(odds) <= 1e-9].sum(),
        }.items()
        if abs(float(risk[name]) - value) > errors(tree, name) + 1e-9
    ]
    if "mcse" in risk:
        return wrong
    posterior = expit(odds)
    for q, value in zip(risk["quantile"].values, risk["posterior_quantile"].values, strict=True):
        near = 1e-9 * value * (1.0 - value)
        below, up_to = posterior < value - near, posterior <= value + near
        if found.weight[below].sum() > q + 1e-9 or found.weight[up_to].sum() < q - 1e-9:
            wrong.append(f"quantile {q}")
    return wrong


def law_of_the_prior(drawn: Drawn, found: audits.Listing | None) -> float | None:
    """How far the posterior, averaged over everything the adversary holds possible, is from the prior.

    In units of what simulation allows, or of 1e-9; None where there is too much to go over.
    """
    every = worlds(drawn) if drawn.ends else []
    most = 20 if found is None else min(MOST_WORLDS, MOST_WORK // found.weight.size)
    if not 0 < len(every) <= most:
        return None
    total, allowed = 0.0, 1e-9
    for i, (weight, truth) in enumerate(every):
        settled = settle_truth(drawn.plan, drawn.reader, truth)
        mean, error = bayes_factor_law(drawn.plan, drawn.reader, settled, draws=200, rng=i).posterior_mean()
        total += weight * mean
        allowed += 5.0 * weight * error
    return abs(total - drawn.reader.prior) / allowed


REFUSED = "fits every larger count", "nothing tells how far the counts must be followed"
"""Noise that is clamped from above or not log-concave leaves a belief without an end without one: refused."""


def check(drawn: Drawn) -> dict[str, int]:
    """Both laws, and brute force where it is feasible; what was compared."""
    try:
        tree = adv.audit(drawn.plan, drawn.reader, drawn.truth, also=(), draws=2000, rng=1, progress=False)
    except ValueError as error:
        if any(words in str(error) for words in REFUSED):
            return {"refused": 1}
        raise
    assert law_of_releases(tree), drawn
    found = listing(drawn)
    distance = law_of_the_prior(drawn, found)
    if found is not None:
        assert found.weight.sum() == pytest.approx(1.0, abs=1e-12)
        assert disagreements(tree, found, drawn) == [], drawn
    assert distance is None or distance <= 1.0, (distance, drawn)
    exact = tree["risk"]["posterior_mean"].attrs["direction"] == "exact"
    return {"exact" if exact else "simulated": 1, "by hand": found is not None, "prior": distance is not None}


@pytest.mark.parametrize("seed", [*range(8), 24, 93])
def test_averages_of_random_plans(seed: int) -> None:
    assert check(draw(seed, most_levels=2)).keys() >= {"by hand", "prior"}


@pytest.mark.thorough
@pytest.mark.parametrize("block", range(40))
def test_averages_of_a_thousand_random_plans(block: int) -> None:
    compared = [check(draw(1000 + 25 * block + i)) for i in range(25)]
    assert sum(one.get("by hand", 0) for one in compared) >= 10
    assert sum(one.get("prior", 0) for one in compared) >= 10


# Every mechanism of the catalogue


LISTED = [name for name, one in MECHANISMS.items() if not one.is_continuous]
CONTINUOUS = [name for name in MECHANISMS if name not in (*LISTED, "laplace, sum of 3")]  # whose loss is not derived
FEW = [name for name in LISTED if MECHANISMS[name].support(1).size <= 60]


def of_mechanism(name: str, siblings: int | None = None) -> Drawn:
    """A block with this noise: alone, others unknown; or with siblings, below a group with noise of its own."""
    noise, others = MECHANISMS[name], [0.4, 0.6]
    if siblings is None:
        alone = [1.0] if getattr(noise, "categories", 3) == 2 else [0.3, 0.5, 0.2]
        held = [Held(adv.Others(alone), paths.others(alone))]
        plan, truth = adv.Plan([adv.Level("block", noise)]), {"block": len(alone) // 2, "in": len(alone) // 2}
    else:
        held = [Held(adv.Known(0), paths.known(0)), Held(adv.Others(others), paths.others(others))]
        plan = adv.Plan([adv.Level("block", noise, siblings), adv.Level("group", adv.Geometric(2.5))])
        truth = {"block": 1, "group": 2, "in": 1}
    beliefs = {level.name: one.belief for level, one in zip(plan.levels, held, strict=True)}
    return Drawn(plan, adv.Adversary(0.3, beliefs=beliefs), truth, held, [3, 3][: len(held)])


WIDE = {"discrete gaussian, very wide", "geometric, weak"}


@pytest.mark.parametrize(
    ("name", "siblings"),
    [pytest.param(name, None, marks=[pytest.mark.slow] * (name in WIDE)) for name in LISTED]
    + [(name, 1) for name in FEW],
)
def test_every_mechanism_by_hand(name: str, siblings: int | None) -> None:
    drawn = of_mechanism(name, siblings)
    found, tree = (
        listing(drawn),
        adv.audit(drawn.plan, drawn.reader, drawn.truth, also=("both_truths",), progress=False),
    )
    assert found is not None
    assert tree["risk"]["posterior_mean"].attrs["direction"] == "exact"
    assert law_of_releases(tree)
    assert disagreements(tree, found, drawn) == []
    assert law_of_the_prior(drawn, found) <= 1.0  # type: ignore[operator]


@pytest.mark.slow_cases("staircase")
@pytest.mark.parametrize("name", CONTINUOUS)
def test_every_continuous_mechanism_by_an_integral(name: str) -> None:
    noise, reader = MECHANISMS[name], adv.Adversary(0.3, 2)

    def density(y: float, count: int) -> float:
        return math.exp(noise.log_prob(y, count))

    def weighed(y: float) -> float:
        out, present = density(y, 2), density(y, 3)
        return present * 0.3 * present / (0.3 * present + 0.7 * out) if present else 0.0

    edges = np.arange(-60.0, 67.0, 0.5)
    by_hand = sum(scipy.integrate.quad(weighed, a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(edges))
    by_hand += sum(map(weighed, [0.0, noise.largest] if getattr(noise, "ends", "") == "truncated" else []))
    tree = adv.audit(adv.Plan([adv.Level("block", noise)]), reader, {"block": 3}, also=(), progress=False, draws=500)
    assert float(tree["risk"]["posterior_mean"]) == pytest.approx(by_hand, abs=1e-8)


# One sibling whose noise is not added


CROSSED = adv.PerturbationTable([[0.0, 0.0, 0.0, 1.0], [0.75, 0.25, 0.0, 0.0]], lowest=-1)
"""A count of 0 is released as 2, a count of 1 as 0 or 1."""
NOT_ADDED = {
    name: noise
    for name, noise in {**{name: MECHANISMS[name] for name in FEW}, "crossed": CROSSED}.items()
    if not noise.is_additive
}


@pytest.mark.parametrize("name", NOT_ADDED)
def test_the_averaged_pair_reads_one_sibling_by_its_own_law(name: str) -> None:
    """Every release (block, sibling, group) under either hypothesis."""
    noise, others = NOT_ADDED[name], [0.4, 0.6]
    plan = adv.Plan([adv.Level("block", noise, siblings=1), adv.Level("group", adv.Geometric(2.5))])
    block, group = audits.release_law(noise), audits.release_law(adv.Geometric(2.5))
    laws: list[dict[tuple[int, int, int], float]] = [{}, {}]
    for k, law in enumerate(laws):
        for j, chance in enumerate(others):
            for parts in itertools.product(block(k).items(), block(j).items(), group(k + j).items()):
                key = parts[0][0], parts[1][0], parts[2][0]
                law[key] = law.get(key, 0.0) + chance * math.prod(p for _, p in parts)
    out, present = laws
    loss = adv.Adversary(beliefs={"group": adv.Others(others)}).privacy_loss(plan)
    for epsilon in (0.0, 0.7, 2.0):
        by_hand = math.fsum(max(0.0, p - math.exp(epsilon) * out.get(y, 0.0)) for y, p in present.items())
        assert float(loss.delta(epsilon)) == pytest.approx(by_hand, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("noise", [adv.Laplace(1.0), adv.Gaussian(1.0), adv.Staircase(1.5)], ids=repr)
def test_siblings_are_listed_beside_a_continuous_count_of_the_same_people(noise: adv.Mechanism) -> None:
    """The continuous release is integrated, and what lies above it listed: as exact as without the former."""
    above = [adv.Level("table 2", adv.Geometric(1.5), siblings=1), adv.Level("group", adv.RandomRounding(3))]
    plan = adv.Plan([adv.Level("block", noise, siblings=0), *above])
    reader = adv.Adversary(0.3, beliefs={"group": adv.Each([0.4, 0.6])})
    truth = {"block": 1, "table 2": 1, "group": 2, "siblings": {"table 2": [1]}}
    found, without = (
        bayes_factor_law(
            one, reader, settle_truth(one, reader, {name: truth[name] for name in (*one.names, "siblings")})
        )
        for one in (plan, adv.Plan(above))
    )
    assert not found.simulated
    grid = np.linspace(-40.0, 40.0, 160_001)
    log_present, log_out = (noise.log_prob(grid, count) for count in (1, 0))
    density, own = np.exp(log_present), log_present - log_out
    values, weights = (
        np.add.outer(without.analytic.values, without.listed.values).ravel(),
        np.multiply.outer(without.analytic.weights, without.listed.weights).ravel(),
    )
    start = math.log(0.3 / 0.7)
    mean = sum(w * (density * expit(start + own + z)).sum() for z, w in zip(values, weights, strict=True) if w > 1e-9)
    assert found.posterior_mean()[0] == pytest.approx(mean * (grid[1] - grid[0]), abs=2e-4)


def test_a_release_that_settles_the_target_leaves_the_others_as_they_are() -> None:
    """A block of 2 is rounded to 0 in a third of releases, which rules "in" out; the rest is simulated."""
    plan = adv.Plan([adv.Level("block", adv.RandomRounding(3), siblings=1), adv.Level("group", adv.Gaussian(0.5))])
    reader = adv.Adversary(0.5, 2, {"group": adv.Known(0)})
    tree = adv.audit(plan, reader, {"block": 2, "group": 2}, also=(), rng=1, progress=False)

    def weighed(y: float) -> float:
        out, present = (math.exp(-2.0 * (y - count) ** 2) for count in (2, 3))
        return 2.0 / 3.0 * out * present / (present + 2.0 / 3.0 * out) / math.sqrt(math.pi / 2.0)

    by_hand = scipy.integrate.quad(weighed, -6.0, 11.0, epsabs=1e-12, limit=200)[0]
    assert 0.0 < errors(tree, "posterior_mean") < 0.02
    assert float(tree["risk"]["posterior_mean"]) == pytest.approx(by_hand, abs=errors(tree, "posterior_mean"))
