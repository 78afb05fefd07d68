"""Every model of the zoo against a list of every world, against the exact engine, and against its own prior draws."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st

import adversary as adv
from adversary import models
from adversary.adversaries.path import attacks
from adversary.models.enumeration.enumerate import compile_enumerator
from tests.catalogue import DG
from tests.oracles import attacks as zoo
from tests.oracles import postprocessing
from tests.oracles.attacks import World

LOW, HIGH, GEO = DG(2.5), DG(1.8), adv.Geometric(2.2)
NOISE = {
    LOW: postprocessing.discrete_gaussian(2.5, 3),
    HIGH: postprocessing.discrete_gaussian(1.8, 4),
    GEO: postprocessing.geometric(2.2, 14),
    adv.Exact(): zoo.NOTHING,
}

BLOCK = adv.Plan([adv.Level("block", LOW)])
TWICE = adv.Plan([adv.Level("block", LOW, siblings=0), adv.Level("tract", GEO)])
BOTH = adv.Plan([adv.Level("block", LOW)], cells=2)
TRACT = adv.Plan([adv.Level("block", LOW, siblings=2), adv.Level("tract", HIGH)])
TRACT_ONE = adv.Plan([adv.Level("block", LOW, siblings=1), adv.Level("tract", HIGH)])
SEVERAL = (LOW, GEO, HIGH)
REPEATED = adv.Plan([*(adv.Level(f"release {i}", noise, siblings=0) for i, noise in enumerate(SEVERAL[:2], 1)),
                     adv.Level("release 3", HIGH)])  # fmt: skip

EACH = [0.5, 0.3, 0.2]
PMF = [0.1, 0.4, 0.0, 0.3, 0.2]


class Beast(NamedTuple):
    """A model, the worlds it stands for, and the same reader for the exact engine.

    `released` names the released variables with their shapes, in the order of a world's numbers.
    """

    model: Callable[[], pm.Model]
    worlds: Callable[[], Iterable[World]]
    released: dict[str, tuple[int, ...]]
    releases: list[tuple[int, ...]]
    exact: tuple[adv.Plan, adv.Adversary]
    dims: dict[str, tuple[str, ...]] = {}  # noqa: RUF012
    proper: bool = True


def one_each(laws: Sequence[zoo.Pmf]) -> Callable[[], Iterator[tuple[float, tuple[int, ...]]]]:
    return lambda: zoo.each_way(laws)


def record(prior: float, known: Sequence[int], noises: Sequence[adv.Mechanism]) -> Callable[[], Iterator[World]]:
    return lambda: zoo.one_record(prior, known, [NOISE[noise] for noise in noises])


def tract(prior: float, known: int, laws: Sequence[zoo.Pmf]) -> Callable[[], Iterator[World]]:
    return lambda: zoo.two_levels(prior, known, one_each(laws), NOISE[LOW], NOISE[HIGH])


def tract_sum(prior: float, known: int, laws: Sequence[zoo.Pmf]) -> Callable[[], Iterator[World]]:
    return lambda: zoo.summed(tract(prior, known, laws)())


ONE: dict[str, tuple[int, ...]] = {"noisy[block]": ()}
CELLS: dict[str, tuple[int, ...]] = {"noisy[block]": (2,)}
LEVELS: dict[str, tuple[int, ...]] = {"noisy[block]": (), "noisy[tract]": ()}
SUMS: dict[str, tuple[int, ...]] = {**LEVELS, "sibling_sum[block]": ()}
APART: dict[str, tuple[int, ...]] = {**LEVELS, "siblings[block]": (2,)}
FEW = [(0, 1, 1), (2, 3, 1), (1, 0, -1), (1, 4, 3)]
SEPARATE = [(1, 2, 0, 1), (0, 4, 2, 2), (2, 1, -1, 0)]
ADJUSTED: dict[str, tuple[int, ...]] = {"noisy[block]": (), "noisy[tract]": ()}
SEEN = [(0, 0), (1, 2), (0, 2), (2, 3), (4, 4)]
GAMMA, BETA = adv.GammaPoisson(1.5, 2.0, exposure=1.2), adv.BetaBinomial(6, 1.3, 2.0)

ZOO: dict[str, Beast] = {
    "membership": Beast(
        lambda: models.membership(BLOCK, adv.Adversary(0.3, 2)),
        record(0.3, [2], [LOW]),
        ONE,
        [(1,), (2,), (3,), (4,)],
        (BLOCK, adv.Adversary(0.3, 2)),
    ),
    "participation": Beast(
        lambda: models.hierarchical_counts(TWICE, attacks.participation(0.9, 3)),
        record(0.9, [3], [LOW, GEO]),
        LEVELS,
        [(3, 3), (4, 2), (2, 5)],
        (TWICE, attacks.participation(0.9, 3)),
    ),
    "misreport": Beast(
        lambda: models.hierarchical_counts(BLOCK, attacks.misreport(0.6, 1)),
        record(0.6, [1], [LOW]),
        ONE,
        [(0,), (2,)],
        (BLOCK, attacks.misreport(0.6, 1)),
    ),
    "misreport, both cells": Beast(
        lambda: models.hierarchical_counts(BOTH, attacks.misreport(0.6, (1, 3))),
        record(0.6, [1, 3], [LOW]),
        CELLS,
        [(1, 4), (2, 3), (0, 2)],
        (BOTH, attacks.misreport(0.6, (1, 3))),
        {"noisy[block]": ("cell",), "count[block]": ("cell",)},
    ),
    "unknown attribute": Beast(
        lambda: models.hierarchical_counts(BLOCK, attacks.unknown_attribute(0.2)),
        record(0.2, [0], [LOW]),
        ONE,
        [(0,), (1,), (-2,)],
        (BLOCK, attacks.unknown_attribute(0.2)),
    ),
    "unknown attribute, both cells": Beast(
        lambda: models.hierarchical_counts(BOTH, attacks.unknown_attribute(0.2, 2)),
        record(0.2, [2, 2], [LOW]),
        CELLS,
        [(3, 2), (2, 3), (1, 1)],
        (BOTH, attacks.unknown_attribute(0.2, 2)),
        {"noisy[block]": ("cell",), "count[block]": ("cell",)},
    ),
    "all but four": Beast(
        lambda: models.hierarchical_counts(BLOCK, attacks.all_but(PMF, 1, level="block")),
        lambda: zoo.missing_people(PMF, 1, NOISE[LOW]),
        ONE,
        [(0,), (1,), (3,), (5,)],
        (BLOCK, attacks.all_but(PMF, 1, level="block")),
    ),
    "sequence": Beast(
        lambda: models.hierarchical_counts(REPEATED, adv.Adversary(0.7, 4)),
        record(0.7, [4], SEVERAL),
        {f"noisy[release {i}]": () for i in (1, 2, 3)},
        [(5, 4, 4), (3, 6, 5)],
        (REPEATED, adv.Adversary(0.7, 4)),
    ),
    "siblings each, as a sum": Beast(
        lambda: models.hierarchical_counts(TRACT, adv.Adversary(0.3, beliefs={"tract": adv.Each(EACH)})),
        tract_sum(0.3, 0, [zoo.listed(EACH)] * 2),
        SUMS,
        FEW,
        (TRACT, adv.Adversary(0.3, beliefs={"tract": adv.Each(EACH)})),
    ),
    "siblings each, individually": Beast(
        lambda: models.hierarchical_counts(
            TRACT, adv.Adversary(0.3, beliefs={"tract": adv.Each(EACH)}), individually=True
        ),
        tract(0.3, 0, [zoo.listed(EACH)] * 2),
        APART,
        SEPARATE,
        (TRACT, adv.Adversary(0.3, beliefs={"tract": adv.Each(EACH)})),
        {"siblings[block]": ("sibling of block",), "sibling_count[block]": ("sibling of block",)},
    ),
    "siblings each, flat, as a sum": Beast(
        lambda: models.hierarchical_counts(TRACT, adv.Adversary(0.3, 1, {"tract": adv.Each()}), upper=16),
        tract_sum(0.3, 1, [dict.fromkeys(range(6), 1.0)] * 2),
        SUMS,
        FEW,
        (TRACT, adv.Adversary(0.3, 1, {"tract": adv.Each()})),
        proper=False,
    ),
    "siblings each, flat, individually": Beast(
        lambda: models.hierarchical_counts(TRACT, adv.Adversary(0.3, 1, {"tract": adv.Each()}), 10, individually=True),
        tract(0.3, 1, [dict.fromkeys(range(6), 1.0)] * 2),
        APART,
        SEPARATE,
        (TRACT, adv.Adversary(0.3, 1, {"tract": adv.Each()})),
        proper=False,
    ),
    "gamma-Poisson others, rate integrated out": Beast(
        lambda: models.hierarchical_counts(TRACT_ONE, adv.Adversary(0.4, 1, {"tract": GAMMA})),
        tract_sum(0.4, 1, [zoo.mixed_poisson(1.5, 2.0, 1.2, 40)]),
        SUMS,
        FEW,
        (TRACT_ONE, adv.Adversary(0.4, 1, {"tract": GAMMA})),
    ),
    "beta-binomial others, chance integrated out": Beast(
        lambda: models.hierarchical_counts(TRACT_ONE, adv.Adversary(0.4, 0, {"tract": BETA})),
        tract_sum(0.4, 0, [zoo.mixed_binomial(6, 1.3, 2.0)]),
        SUMS,
        FEW,
        (TRACT_ONE, adv.Adversary(0.4, 0, {"tract": BETA})),
    ),
}


def spread(total: zoo.Pmf, siblings: int) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Everybody else, placed evenly."""
    for people, p in total.items():
        yield from ((p * weight, counts) for counts, weight in postprocessing.splits(people, siblings))


def adjusted(
    rule: adv.postprocessing.Postprocessing,
    algorithm: Callable[[int, int, Sequence[int]], int],
    top: adv.Mechanism,
    laws: Sequence[zoo.Pmf],
    belief: Any,
    evenly: int = 0,
) -> Beast:
    """A unit and its siblings made to fit the parent; with `evenly`, a total law falls on that many siblings."""
    d = evenly or len(laws)
    siblings = (lambda: spread(laws[0], d)) if evenly else one_each(laws)
    plan = adv.Plan([adv.Level("block", LOW, siblings=d), adv.Level("tract", top)], postprocessing=rule)
    reader = adv.Adversary(0.3, 1, {"tract": belief})
    return Beast(
        lambda: models.hierarchical_counts(plan, reader),
        lambda: zoo.consistent(zoo.two_levels(0.3, 1, siblings, NOISE[LOW], NOISE[top]), algorithm),
        ADJUSTED,
        [(min(own, 1 + total), 1 + total) for own, total in SEEN],
        (plan, reader),
    )


def coarser(
    change: Callable[[adv.Mechanism], adv.Mechanism],
    same: Callable[[int], int],
    released: dict[str, tuple[int, ...]],
    releases: list[tuple[int, ...]],
) -> Beast:
    """Two levels, every number changed on its own; two siblings are read one by one, a single one as the sum."""
    d = len(releases[0]) - 2
    plan = adv.Plan([adv.Level("block", LOW, siblings=d), adv.Level("tract", HIGH)], postprocessing=change)
    reader = adv.Adversary(0.3, beliefs={"tract": adv.Each(EACH)})
    return Beast(
        lambda: models.hierarchical_counts(plan, reader),
        lambda: zoo.changed(tract(0.3, 0, [zoo.listed(EACH)] * d)(), same),
        released,
        releases,
        (plan, reader),
    )


def to_threes(mechanism: adv.Mechanism) -> adv.Mechanism:
    return adv.postprocessing.rounded(mechanism, 3, "half_up")


def clamped(mechanism: adv.Mechanism) -> adv.Mechanism:
    return adv.postprocessing.clamped(mechanism)


PAIR = [zoo.listed(EACH)] * 2
ZOO |= {
    "least squares": adjusted(
        adv.postprocessing.LeastSquares(), zoo.least_squares("half_even"), HIGH, PAIR, adv.Each(EACH)
    ),
    "least squares, half up": adjusted(
        adv.postprocessing.LeastSquares("half_up"),
        zoo.least_squares("half_up"),
        adv.Exact(),
        [zoo.listed(PMF)],
        adv.Others(PMF),
    ),
    "least squares, weighted": adjusted(
        adv.postprocessing.LeastSquares("half_down", 2, 3),
        zoo.least_squares("half_down", (2, 3)),
        HIGH,
        PAIR,
        adv.Each(EACH),
    ),
    "non-negative, one sibling": adjusted(
        adv.postprocessing.NonNegative(), zoo.simplex("half_even"), HIGH, [zoo.listed(PMF)], adv.Others(PMF)
    ),
    "non-negative, two siblings": adjusted(
        adv.postprocessing.NonNegative("half_up"), zoo.simplex("half_up"), HIGH, [zoo.listed(PMF)], adv.Others(PMF), 2
    ),
    "clamped at zero": coarser(clamped, lambda x: max(x, 0), SUMS, [(0, 0, 0), (1, 2, 1), (0, 3, 0), (2, 1, 1)]),
    "rounded to threes": coarser(
        to_threes, lambda x: 3 * ((x + 1) // 3), SUMS, [(0, 0, 0), (3, 3, 0), (0, 6, 3), (-3, 3, 0)]
    ),
    "clamped siblings, individually": coarser(
        clamped, lambda x: max(x, 0), APART, [(0, 0, 0, 0), (1, 3, 0, 2), (2, 1, 1, 1)]
    ),
}


def values_of(beast: Beast, releases: Sequence[Sequence[int]]) -> dict[str, np.ndarray[Any, Any]]:
    """Released numbers as the model names them, along a first axis."""
    table, result, start = np.array(releases), {}, 0
    for name, shape in beast.released.items():
        stop = start + math.prod(shape)
        result[name] = table[:, start:stop].reshape(-1, *shape)
        start = stop
    return result


def observe(plan: adv.Plan, values: dict[str, Any]) -> Any:
    """The same numbers as a release of the plan."""
    groups: dict[str, dict[str, Any]] = {"noisy": {}, "sibling_sum": {}, "siblings": {}}
    for name, value in values.items():
        kind, level = name[:-1].split("[")
        groups[kind][level] = value
    return plan.observe(groups["noisy"], groups["sibling_sum"], groups["siblings"] or None)


@functools.cache
def listed_worlds(name: str) -> zoo.Summary:
    """Posteriors and moments of a beast's worlds, gone through once."""
    return zoo.summary(ZOO[name].worlds(), ZOO[name].releases)


@functools.cache
def enumerated(name: str) -> np.ndarray[Any, Any]:
    """P(in | release) of a beast's releases, its states enumerated once."""
    values = values_of(ZOO[name], ZOO[name].releases)
    posterior = compile_enumerator(ZOO[name].model(), tuple(values))(values).posterior.values
    posterior.setflags(write=False)
    return posterior


@pytest.mark.slow_cases("siblings each, flat, as a sum", "siblings each, flat, individually")
@pytest.mark.parametrize("name", ZOO)
def test_enumeration_equals_a_list_of_worlds(name: str) -> None:
    np.testing.assert_allclose(enumerated(name), listed_worlds(name).posteriors, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ZOO)
def test_the_exact_engine_says_the_same(name: str) -> None:
    beast = ZOO[name]
    plan, reader = beast.exact
    exact = reader.posterior(plan, observe(plan, values_of(beast, beast.releases))).posterior
    np.testing.assert_allclose(enumerated(name), exact, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", [name for name, beast in ZOO.items() if beast.proper])
def test_prior_draws_have_the_means_of_the_worlds(name: str) -> None:
    beast, draws = ZOO[name], 600
    prior = pm.sample_prior_predictive(draws, model=beast.model(), random_seed=11).prior.isel(chain=0)
    columns = np.concatenate([prior[v].values.reshape(draws, -1) for v in beast.released], axis=1)
    means, variances = listed_worlds(name).means, listed_worlds(name).variances
    errors = np.sqrt(np.array(variances) / draws)
    assert (np.abs(columns.mean(axis=0) - means) < 4.5 * errors).all()
    np.testing.assert_allclose(columns.var(axis=0), variances, rtol=0.3)
    p = beast.exact[1].prior
    assert float(prior["in"].mean()) == pytest.approx(p, abs=4.5 * math.sqrt(p * (1 - p) / draws))


@pytest.mark.parametrize("name", ZOO)
def test_releases_are_left_free_and_densities_are_double(name: str) -> None:
    beast = ZOO[name]
    model = beast.model()
    free = {rv.name for rv in model.free_RVs}
    assert set(beast.released) | {"in"} <= free
    assert not model.observed_RVs
    assert model.logp().dtype == "float64"
    assert "level" in model.coords
    for variable, dims in beast.dims.items():
        assert model.named_vars_to_dims[variable] == dims
        assert all(dim in model.coords for dim in dims)


def test_individual_siblings_in_two_cells_agree_with_the_exact_engine() -> None:
    reader = adv.Adversary(0.4, (1, 0), {"tract": adv.Each([0.6, 0.4])})
    plan = adv.Plan([adv.Level("block", LOW, siblings=2), adv.Level("tract", HIGH)], cells=2)
    model = models.hierarchical_counts(plan, reader, individually=True)
    truth = {"block": [2, 0], "tract": [3, 1], "siblings": {"block": [[1, 0], [0, 1]]}}
    release = plan.release(truth, rng=5, draws=6)
    values = adv.observed(release, individually=True)
    assert model.named_vars_to_dims["siblings[block]"] == ("sibling of block", "cell")
    result = compile_enumerator(model, tuple(values))(values)
    np.testing.assert_allclose(result.posterior, reader.posterior(plan, release).posterior, atol=1e-10)


@pytest.mark.slow
def test_the_actual_world_can_be_sampled_with_default_steps() -> None:
    """Which propose people outside the tables."""
    model = models.actual_world([0.2, 0.8], [[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]], LOW, [[0, 1, 2], [2, 0, 1]])
    exact = adv.enumerate_posterior(model, {"noisy": 1}, "record")["probability"].values
    with pm.observe(model, {"noisy": np.int64(1)}):
        trace = pm.sample(
            draws=300, tune=50, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False,
        )  # fmt: skip
    seen = np.bincount(trace["posterior"]["record"].values.ravel(), minlength=3) / 600
    np.testing.assert_allclose(seen, exact, atol=0.15)


RATES = {
    "gamma-Poisson": (GAMMA, 40, [zoo.mixed_poisson(1.5, 2.0, 1.2, 40)]),
    "beta-binomial": (BETA, 6, [zoo.mixed_binomial(6, 1.3, 2.0)]),
}


def rate_grid(belief: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Nodes for the rate and log weights that hold its prior density: Gauss-Legendre in a variable smooth at 0."""
    t, w = np.polynomial.legendre.leggauss(160)
    t, w = (t + 1) / 2, w / 2
    if isinstance(belief, adv.GammaPoisson):
        rate = (2.6 * t) ** 4
        log_p = st.gamma(belief.shape, scale=1 / belief.rate).logpdf(rate)
        return rate, log_p + np.log(w * 4 * 2.6 * (2.6 * t) ** 3)
    u = t**4 * (35 - 84 * t + 70 * t**2 - 20 * t**3)
    return u, st.beta(belief.alpha, belief.beta).logpdf(u) + np.log(w * 140 * t**3 * (1 - t) ** 3)


@pytest.mark.slow_cases("gamma-Poisson")
@pytest.mark.parametrize("name", RATES)
def test_an_unknown_rate_integrated_out_gives_the_exact_posterior(name: str) -> None:
    belief, high, laws = RATES[name]
    reader = adv.Adversary(0.4, 1, {"tract": belief})
    model = models.hierarchical_counts(TRACT_ONE, reader, rates=True)
    rate, log_weight = rate_grid(belief)
    at_rate = pm.do(model, {"rate[tract]": rate[0]})
    names = ("rate[tract]", *SUMS)
    enumerator = compile_enumerator(at_rate, names, support={"others[tract]": np.arange(high + 1)})
    for release in FEW:
        given = dict(zip(SUMS, np.array(release)[:, None].repeat(rate.size, 1), strict=True))
        result = enumerator({"rate[tract]": rate, **given})
        mass = np.exp(result.log_evidence.values + log_weight)
        posterior = float((mass * result.posterior.values).sum() / mass.sum())
        plan_release = TRACT_ONE.observe({"block": release[0], "tract": release[1]}, {"block": release[2]})
        assert posterior == pytest.approx(float(reader.posterior(TRACT_ONE, plan_release).posterior), abs=1e-9)
        assert posterior == pytest.approx(zoo.posterior(tract_sum(0.4, 1, laws)(), release), abs=1e-9)


@pytest.mark.slow
def test_a_rate_has_a_gradient_and_only_the_rate_is_continuous() -> None:
    reader = adv.Adversary(0.4, 1, {"tract": GAMMA})
    model = models.hierarchical_counts(TRACT_ONE, reader, rates=True)
    assert [v.name for v in model.continuous_value_vars] == ["rate[tract]_log__"]
    assert model.logp().dtype == "float64"
    given = pm.observe(model, {"noisy[block]": 1, "noisy[tract]": 3, "sibling_sum[block]": 1})
    point = {"in": np.array(1), "others[tract]": np.array(2), "rate[tract]_log__": np.array(0.3)}
    log_density, slope = given.compile_logp(), given.compile_dlogp()
    step = 1e-6
    ends = [float(log_density({**point, "rate[tract]_log__": np.array(0.3 + s)})) for s in (-step, step)]
    assert float(slope(point)[0]) == pytest.approx((ends[1] - ends[0]) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("base", [adv.Gaussian(1.3), adv.Laplace(0.8)])
def test_clamped_continuous_noise_keeps_its_atom_and_its_density(base: adv.Mechanism) -> None:
    plan = adv.Plan([adv.Level("block", base)], postprocessing=adv.postprocessing.clamped)
    model = models.hierarchical_counts(plan, adv.Adversary(0.3, 1))
    assert model["noisy[block]"].dtype == "float64"
    for noisy in (0.0, 0.7, 3.1):
        weights = [
            chance * (float(base.cdf(0.0, count)) if noisy == 0 else math.exp(float(base.log_prob(noisy, count))))
            for chance, count in ((0.7, 1), (0.3, 2))
        ]
        result = adv.enumerate_posterior(model, {"noisy[block]": noisy})
        assert float(result.posterior) == pytest.approx(weights[1] / sum(weights), abs=1e-12)
    draws = pm.draw(model["noisy[block]"], draws=2000, random_seed=4)
    empty = 0.7 * float(base.cdf(0.0, 1)) + 0.3 * float(base.cdf(0.0, 2))
    assert (draws >= 0).all()
    assert (draws == 0).mean() == pytest.approx(empty, abs=4.5 * math.sqrt(empty * (1 - empty) / 2000))
