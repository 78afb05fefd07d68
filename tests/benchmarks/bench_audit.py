"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_audit.py -s

Every figure is a median over repeats, and every claim a ratio against a twin in the same run: a compiled (numba) Gibbs
sampler of the same two-level model, the constraint in both conditionals, with the published study's 1,000 sweeps per
release; numpy's own normal generator for the noise.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

import adversary as adv
from adversary.adversaries.risk import law_of_plan
from tests.benchmarks.stopwatch import PLAN, RHO, median_seconds, processor_once, processor_seconds, record

READER = adv.Adversary(0.5, 0, {"block group": adv.Uniform()})
TRUTH = {"block": 1, "block group": 1}
SWEEPS = 1000


@numba.njit
def gibbs_posterior(noisy1, noisy2, sums, rho1, rho2, siblings, sweeps, seed):  # type: ignore[no-untyped-def]
    """Mean over sweeps of P(X1 = 1 | X2, release), prior 1/2, flat belief, for every release."""
    np.random.seed(seed)
    curvature = rho2 + rho1 / siblings
    width = np.sqrt(40.0 / curvature)
    result = np.empty(noisy1.size)
    for n in range(noisy1.size):
        x1, total = 0, 0.0
        for _ in range(sweeps):
            centre = (rho2 * noisy2[n] + rho1 / siblings * (sums[n] + x1)) / curvature
            low = max(x1, int(np.floor(centre - width)))
            high = int(np.ceil(max(centre, x1) + width))
            mass = 0.0
            for x2 in range(low, high + 1):
                mass += np.exp(-curvature * ((x2 - centre) ** 2 - (low - centre) ** 2 * (low > centre)))
            target = np.random.random() * mass
            x2 = low
            mass = np.exp(-curvature * ((x2 - centre) ** 2 - (low - centre) ** 2 * (low > centre)))
            while mass < target and x2 < high:
                x2 += 1
                mass += np.exp(-curvature * ((x2 - centre) ** 2 - (low - centre) ** 2 * (low > centre)))
            if x2 == 0:
                chance = 0.0
            else:
                c1 = (siblings * noisy1[n] + x2 - sums[n]) / (siblings + 1)
                gap = (siblings + 1) * rho1 / siblings * ((1 - c1) ** 2 - c1**2)
                chance = 1.0 / (1.0 + np.exp(gap))
            x1 = 1 if np.random.random() < chance else 0
            total += chance
        result[n] = total / sweeps
    return result


def gibbs(release: Any) -> Any:
    noisy, sums = release["noisy"].values, release["sibling_sum"].values[:, 0]
    return gibbs_posterior(noisy[:, 0], noisy[:, 1], sums, *RHO, 27, SWEEPS, 1)


@pytest.fixture(scope="module")
def gibbs_seconds_per_release() -> float:
    release = PLAN.release(TRUTH, 1, 400)
    return median_seconds(lambda: gibbs(release), 3) / 400


def test_one_exact_probability_of_a_correct_guess(gibbs_seconds_per_release: float) -> None:
    seconds = median_seconds(lambda: adv.risk.prob_correct(PLAN, READER, TRUTH), 200)
    published = 1e5 * gibbs_seconds_per_release
    print(
        f"\none exact P(correct): {1e3 * seconds:.3f} ms; 1e5 releases x {SWEEPS} compiled sweeps: {published:.0f} s,"
    )
    print(
        f"   ratio {published / seconds:.2g}, with a standard error of {np.sqrt(0.318 * 0.682 / 1e5):.1e} left on top"
    )


def test_a_hundred_thousand_posteriors(gibbs_seconds_per_release: float) -> None:
    rng = np.random.default_rng(2)
    draws = {name: rng.integers(-300, 300, 100_000) for name in ("block", "block group", "sum")}
    release = PLAN.observe({k: draws[k] for k in PLAN.names}, {"block": draws["sum"]})
    seconds = median_seconds(lambda: READER.posterior(PLAN, release), 5)
    drawn = PLAN.release(TRUTH, 3, 100_000)
    likely = median_seconds(lambda: READER.posterior(PLAN, drawn), 5)
    twin = 1e5 * gibbs_seconds_per_release
    print(f"\n1e5 posteriors of all-different releases: {seconds:.3f} s; of drawn releases: {likely:.3f} s;")
    print(f"   compiled Gibbs: {twin:.0f} s, ratio {twin / seconds:.3g}")
    difference = READER.posterior(PLAN, drawn.isel(release=slice(400)))["posterior"].values - gibbs(
        drawn.isel(release=slice(400))
    )
    print(f"   and they agree: mean difference {difference.mean():+.4f}, root mean square {difference.std():.4f}")
    assert abs(difference.mean()) < 0.01


def test_discrete_gaussian_draws() -> None:
    rng = np.random.default_rng(4)
    noise = adv.DiscreteGaussian.from_rho(RHO[0])
    ours = median_seconds(lambda: noise.sample(0, rng, 10_000_000), 5)
    normal = median_seconds(lambda: np.rint(rng.standard_normal(10_000_000)), 5)
    print(f"\n1e7 discrete Gaussian draws: {ours:.3f} s ({1e7 / ours:.3g} a second); rounded normals: {normal:.3f} s")
    print(f"   ratio {ours / normal:.2f}")


def by_hand(priors: Any, width: int = 160) -> Any:
    """Expected posterior of each prior by numpy alone: evidence of every release on a grid, then one sum a prior."""
    rho1, rho2 = RHO
    own, total, above = (np.arange(-half, half + 1) for half in (25, 120, 15))
    weights = [np.exp(-rho * k.astype(float) ** 2) for rho, k in ((rho1, own), (rho1 / 27, total), (rho2, above))]
    weights = [one / one.sum() for one in weights]
    counts, spread = np.arange(width), rho1 / 27
    sums, parents = np.meshgrid(total, 1 + above, indexing="ij")
    logs = []
    for inside in (0, 1):
        log_terms = -spread * (sums[..., None] - counts) ** 2 - rho2 * (parents[..., None] - inside - counts) ** 2
        top = log_terms.max(-1)
        logs.append(top + np.log(np.exp(log_terms - top[..., None]).sum(-1)))
    factor = ((logs[1] - logs[0])[..., None] + rho1 * (2 * (1 + own) - 1)).ravel()
    weight = (weights[1][:, None, None] * weights[2][None, :, None] * weights[0]).ravel()
    odds = np.log(priors) - np.log1p(-priors)
    return np.array([weight @ (1.0 / (1.0 + np.exp(-(start + factor)))) for start in odds])


def test_a_thousand_adversaries_who_differ_in_their_prior() -> None:
    priors = np.arange(1, 1001) / 1002
    many = {f"a{i}": adv.Adversary(prior, 0, READER.beliefs) for i, prior in enumerate(priors)}
    few = dict(list(many.items())[:10])
    seconds, one = (
        median_seconds(lambda who=who: adv.audit(PLAN, who, TRUTH, progress=False), 3) for who in (many, few["a0"])
    )
    each = median_seconds(lambda: [adv.audit(PLAN, who, TRUTH, progress=False) for who in few.values()], 1) / 10
    peer = median_seconds(lambda: by_hand(priors), 3)
    tree = adv.audit(PLAN, many, TRUTH, progress=False)
    size = sum(group.nbytes for group in tree.to_dict().values()) / 1e6
    print(f"\n1,000 adversaries of one law: {seconds:.2f} s and {size:.0f} MB of results; one: {one:.3f} s;")
    print(
        f"   one after another {1000 * each:.0f} s, ratio {1000 * each / seconds:.0f}; numpy by hand, the means alone:"
    )
    print(f"   {peer:.2f} s, ratio {peer / seconds:.1f}")
    record("audit of 1,000 adversaries who differ in their prior", seconds, "their means in numpy", peer, most=3.0)
    np.testing.assert_allclose(tree["risk"]["posterior_mean"], by_hand(priors), atol=1e-9)


def nested(levels: int, rho: float) -> tuple[adv.Plan, adv.Adversary, dict[str, int]]:
    """A plan of nested levels with the same noise, an adversary with flat beliefs, and a truth."""
    names, counts = ("block", "group", "tract", "county")[:levels], (1, 3, 9, 20)
    siblings = [*(9, 4, 3)[: levels - 1], None]
    noise = adv.DiscreteGaussian.from_rho(rho)
    plan = adv.Plan([adv.Level(name, noise, siblings=many) for name, many in zip(names, siblings, strict=True)])
    return (
        plan,
        adv.Adversary(0.5, 0, {name: adv.Uniform() for name in names[1:]}),
        dict(zip(names, counts, strict=False)),
    )


@pytest.mark.parametrize("rho", [100.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("levels", [2, 3, 4])
def test_one_adversary_by_levels_and_noise(levels: int, rho: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the other way: all releases listed where the audit simulates them, if they can be, or simulated."""
    plan, reader, truth = nested(levels, rho)
    trees: list[Any] = []

    def audit() -> None:
        trees.append(adv.audit(plan, reader, truth, progress=False, rng=1)["risk"])

    seconds = processor_seconds(audit, 2)
    simulated = "mcse" in trees[-1]
    monkeypatch.setattr(law_of_plan, "_MOST_LISTED", np.inf if simulated else 0.0)
    twin = processor_once(audit)
    error, off = 0.0, abs(float(trees[0]["posterior_mean"] - trees[-1]["posterior_mean"]))
    if two_ways := ("mcse" in trees[-1]) != simulated:
        error = float((trees[0] if simulated else trees[-1])["mcse"][0])
    item = f"audit of {levels} levels at rho {rho:g}, {'simulated' if simulated else 'listed'}"
    other = ("listed" if simulated else "simulated") if two_ways else ""
    record(item, seconds, other, twin if two_ways else np.nan, most=1.0)
    print(f"\n{item}: standard error {error:.1e}, means differ by {off:.1e}")
    assert off <= 5.0 * error + 1e-11


@numba.njit
def posteriors_in_numba(noisy1, noisy2, sums, rho1, rho2, siblings):  # type: ignore[no-untyped-def]
    """P(X1 = 1 | release), prior 1/2, flat belief: sums over the group's others about their largest term."""
    spread = rho1 / siblings
    curvature = spread + rho2
    width = int(np.ceil(np.sqrt(40.0 / curvature))) + 1
    result = np.empty(noisy1.size)
    logs = np.empty(2)
    for n in range(noisy1.size):
        for x in range(2):
            centre = max(int(np.rint((spread * sums[n] + rho2 * (noisy2[n] - x)) / curvature)), 0)
            top = -spread * (sums[n] - centre) ** 2 - rho2 * (noisy2[n] - x - centre) ** 2
            mass = 0.0
            for others in range(max(0, centre - width), centre + width + 1):
                mass += np.exp(-spread * (sums[n] - others) ** 2 - rho2 * (noisy2[n] - x - others) ** 2 - top)
            logs[x] = top + np.log(mass)
        result[n] = 1.0 / (1.0 + np.exp(-(rho1 * (2.0 * noisy1[n] - 1.0) + logs[1] - logs[0])))
    return result


@pytest.mark.parametrize("drawn", [False, True], ids=["all different", "drawn"])
def test_a_hundred_thousand_posteriors_beside_numba(drawn: bool) -> None:
    rng = np.random.default_rng(2)
    values = {name: rng.integers(-300, 300, 100_000) for name in ("block", "block group", "sum")}
    apart = PLAN.observe({k: values[k] for k in PLAN.names}, {"block": values["sum"]})
    release = PLAN.release(TRUTH, 3, 100_000) if drawn else apart
    noisy, sums = release["noisy"].values.astype(float), release["sibling_sum"].values[:, 0]
    seconds = processor_seconds(lambda: READER.posterior(PLAN, release))
    peer = processor_seconds(lambda: posteriors_in_numba(noisy[:, 0], noisy[:, 1], sums, *RHO, 27))
    kind = "drawn" if drawn else "all different"
    record(f"100,000 posteriors, {kind}", seconds, "numba by hand", peer, times=1.5)
    by_numba = posteriors_in_numba(noisy[:, 0], noisy[:, 1], sums, *RHO, 27)
    np.testing.assert_allclose(READER.posterior(PLAN, release)["posterior"], by_numba, atol=1e-9)
