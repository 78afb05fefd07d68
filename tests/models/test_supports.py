"""Supports of truncated laws, in enumeration and in the law's own density."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy.stats as st

from adversary import DiscreteGaussian, Geometric
from adversary.models.enumeration import batched_graphs, supports
from adversary.models.enumeration.enumerate import enumerate_posterior
from adversary.models.importance import WeighedPrior
from adversary.models.noise import released


def bounds(build: Any) -> tuple[int, int]:
    """Smallest and largest value of the latent x of a model."""
    with pm.Model() as model:
        build()
    (axis,) = supports.support_of(model["x"], {}, set(model.basic_RVs))[1]
    return int(axis[0]), int(axis[-1])


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: pm.Truncated("x", pm.Poisson.dist(2.5), upper=7), (0, 7)),
        (lambda: pm.Truncated("x", pm.Poisson.dist(2.5), lower=2, upper=7), (2, 7)),
        (lambda: pm.Truncated("x", pm.Poisson.dist(2.5), lower=1.5, upper=7.5), (2, 7)),
        (lambda: pm.Truncated("x", pm.NegativeBinomial.dist(alpha=3.0, p=0.5), upper=9), (0, 9)),
        (lambda: pm.Truncated("x", pm.Geometric.dist(0.5), upper=4), (1, 4)),
        (lambda: pm.Truncated("x", pm.Binomial.dist(12, 0.5), lower=3), (3, 12)),
        (lambda: pm.Truncated("x", pm.Poisson.dist(pm.Gamma("rate", 2.0, 1.0)), upper=6), (0, 6)),
        (lambda: pm.Truncated("x", pm.Binomial.dist(pm.DiscreteUniform("n", 2, 5), 0.5), lower=1), (1, 5)),
        (lambda: pm.Binomial("x", 4, pm.Beta("theta", 1.0, 2.0)), (0, 4)),
        (lambda: pm.Bernoulli("x", pm.Beta("theta", 1.0, 2.0)), (0, 1)),
        (lambda: pm.HyperGeometric("x", N=10, k=4, n=8), (2, 4)),
    ],
)
def test_a_support_is_the_laws_own_cut_by_the_truncation(build: Any, expected: tuple[int, int]) -> None:
    assert bounds(build) == expected


@pytest.mark.parametrize(
    "build",
    [
        lambda: pm.Poisson("x", 2.0),
        lambda: pm.Truncated("x", pm.Poisson.dist(2.0), lower=1),
        lambda: pm.Mixture("x", np.array([0.5, 0.5]), [pm.Poisson.dist(1.0), pm.Poisson.dist(2.0)]),
    ],
)
def test_an_infinite_support_is_refused_with_its_remedies(build: Any) -> None:
    with pytest.raises(ValueError, match=r"latent 'x' has no finite support.*pm\.Truncated.*support=\{'x': values\}"):
        bounds(build)


@pytest.mark.parametrize(
    ("law", "twin", "lower", "upper"),
    [
        (lambda: pm.Poisson.dist(2.3), st.poisson(2.3), 0, 12),
        (lambda: pm.Poisson.dist(2.3), st.poisson(2.3), 3, 9),
        (lambda: pm.NegativeBinomial.dist(alpha=3.0, p=0.25), st.nbinom(3, 0.25), 0, 30),
        (lambda: pm.Binomial.dist(20, 0.1), st.binom(20, 0.1), 2, 8),
    ],
)
def test_truncated_laws_have_their_exact_log_probabilities(law: Any, twin: Any, lower: int, upper: int) -> None:
    """To the precision of a double, with constants that PyTensor would read as 32-bit ones."""
    with pm.Model() as model:
        pm.Truncated("x", law(), lower=lower or None, upper=upper)
    values = np.arange(-1, upper + 3)
    (graph,) = batched_graphs.vectorize(model.logp(sum=False), {model.rvs_to_values[model["x"]]: pt.constant(values)})
    found = graph.eval(mode=batched_graphs.NUMPY_MODE)
    inside = (values >= lower) & (values <= upper)
    mass = twin.cdf(upper) - twin.cdf(lower - 1)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found[inside], twin.logpmf(values[inside]) - np.log(mass), rtol=1e-12)
    assert np.isneginf(found[~inside]).all()


def edges(build: Any, support: dict[str, Any], noisy: float = 3.0) -> Any:
    """`edge_mass` of a model whose latent x is built, given a support for it."""
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.3)
        x = build()
        pm.Normal("noisy", present + (x if x.ndim == 0 else x[0]), 1.0)
    return enumerate_posterior(model, {"noisy": noisy}, support=support).edge_mass


def listed_law(weights: Any) -> Any:
    """A law that only says its log probabilities."""
    table = np.log(np.maximum(weights, 1e-300))

    def logp(value: Any) -> Any:
        inside = (
            (value >= 0) & (value < len(weights)) & (pt.constant(table)[pt.clip(value, 0, len(weights) - 1)] > -600)
        )
        return pt.switch(inside, pt.constant(table)[pt.clip(value, 0, len(weights) - 1)], -np.inf)

    return pm.CustomDist("x", logp=logp, dtype="int64", signature="->()")


LISTED = [0.1, 0.2, 0.3, 0.4]


@pytest.mark.slow_cases("too wide")
@pytest.mark.parametrize(
    ("build", "support"),
    [
        (lambda: pm.Binomial("x", pm.DiscreteUniform("n", 2, 5), 0.5), {"x": range(6)}),
        (lambda: pm.Binomial("x", pm.DiscreteUniform("n", 2, 5), 0.5), {"x": range(-2, 9)}),
        (lambda: pm.ZeroInflatedPoisson("x", 0.4, 1.5), {"x": range(40)}),
        (lambda: pm.Poisson("x", pm.math.switch(pm.Bernoulli("dense", 0.5), 3.0, 1.0)), {"x": range(40)}),
        (lambda: pm.Multinomial("x", 3, np.array([0.2, 0.3, 0.5])), {"x": range(4)}),
        (lambda: listed_law(LISTED), {"x": range(4)}),
        (lambda: pm.HyperGeometric("x", 10, 4, 3), {"x": range(4)}),
        (lambda: pm.Geometric("x", 0.5, shape=2), {"x": range(1, 60)}),
    ],
    ids=["moving n", "too wide", "zero-inflated", "moving rate", "multinomial", "custom", "hypergeometric", "vector"],
)
def test_a_support_that_a_law_does_not_leave_has_no_mass_beyond_its_ends(build: Any, support: Any) -> None:
    mass = edges(build, support)
    assert 0 <= mass.item() < 1e-9
    assert "not_checked" not in mass.attrs


@pytest.mark.slow_cases("vector")
@pytest.mark.parametrize(
    ("build", "support", "noisy"),
    [
        (lambda: pm.Binomial("x", pm.DiscreteUniform("n", 2, 5), 0.5), {"x": range(4)}, 3.0),
        (lambda: pm.ZeroInflatedPoisson("x", 0.4, 1.5), {"x": range(3)}, 3.0),
        (lambda: pm.Poisson("x", 5.0), {"x": range(3, 40)}, 3.0),
        (lambda: pm.Poisson("x", 1.2), {"x": range(30)}, 60.0),
        (lambda: pm.Geometric("x", 0.5, shape=2), {"x": range(1, 4)}, 3.0),
    ],
    ids=["binomial", "zero-inflated", "below", "far out", "vector"],
)
def test_a_support_that_cuts_a_law_shows(build: Any, support: Any, noisy: float) -> None:
    assert edges(build, support, noisy).item() > 0.1


def at_or_beyond(law: Any, kept: Any, ends: Any, noisy: float) -> float:
    """P(at an end or outside the values), before or after a release, whichever is larger; a law of 0, 1, ..."""
    k, listed = np.arange(law.size), np.isin(np.arange(law.size), [*kept]) & ~np.isin(np.arange(law.size), [*ends])
    after = law * (0.7 * st.norm.pdf(noisy, k) + 0.3 * st.norm.pdf(noisy, k + 1))
    first = law[~np.isin(k, [*kept])].sum() / law.sum()
    return max(first, 1.0 - after[listed].sum() / after.sum())


FAR = 0.5 * st.poisson.pmf(np.arange(400), 2.0) + 0.5 * st.poisson.pmf(np.arange(400), 60.0)


@pytest.mark.slow_cases("far release")
@pytest.mark.parametrize(
    ("build", "law", "values", "ends", "noisy"),
    [
        (lambda: pm.Poisson("x", 5.0), st.poisson.pmf(np.arange(200), 5.0), range(8), [7], 3.0),
        (lambda: pm.Poisson("x", 5.0), st.poisson.pmf(np.arange(200), 5.0), range(3, 40), [3], 9.0),
        (lambda: pm.Poisson("x", 5.0), st.poisson.pmf(np.arange(200), 5.0), [*range(5), *range(9, 40)], [], 2.0),
        (lambda: pm.Poisson("x", 2.0), st.poisson.pmf(np.arange(200), 2.0), range(30), [29], 45.0),
        (
            lambda: pm.Mixture("x", np.array([0.5, 0.5]), [pm.Poisson.dist(2.0), pm.Poisson.dist(60.0)]),
            FAR,
            range(20),
            [19],
            3.0,
        ),
        (lambda: listed_law(LISTED), np.array(LISTED), range(3), [0, 2], 1.0),
        (lambda: listed_law([0.5, 0.4, 0, 0, 0, 0, 0.1]), np.array([0.5, 0.4, 0, 0, 0, 0, 0.1]), range(6), [0, 5], 6.0),
        (lambda: listed_law([2.0, 1.0, 3.0]), np.array([2.0, 1.0, 3.0]), range(2), [0, 1], 0.5),
    ],
    ids=["above", "below", "gap", "far release", "second mode", "custom", "behind nothing", "not normalised"],
)
def test_the_edge_mass_is_the_probability_at_the_ends_and_outside(
    build: Any, law: Any, values: Any, ends: Any, noisy: float
) -> None:
    """Of a law without a distribution function either end may hide more; one that does not sum to one is compared."""
    found = edges(build, {"x": [*values]}, noisy)
    assert found.item() == pytest.approx(at_or_beyond(law, values, ends, noisy), rel=1e-9)


def test_of_a_joint_law_the_prior_mass_outside_is_what_its_values_lack() -> None:
    share = np.array([0.2, 0.3, 0.5])
    found = edges(lambda: pm.Multinomial("x", 3, share), {"x": range(3)})
    assert found.item() >= (share**3).sum() - 1e-12
    assert edges(lambda: pm.Multinomial("x", 3, share), {"x": range(4)}).item() < 1e-12


def test_one_latent_out_of_its_values_is_enough() -> None:
    def build() -> Any:
        pm.Poisson("y", 3.0)
        return pm.Poisson("x", 2.0)

    assert edges(build, {"x": range(40), "y": range(3)}).item() == pytest.approx(1.0 - st.poisson.cdf(1, 3), abs=1e-12)


def test_a_prior_that_a_support_cuts_is_seen_where_the_release_says_nothing_of_it() -> None:
    """The target in makes x large, a release of a small one leaves no doubt: the posterior is right, not the prior."""
    with pm.Model() as model:
        x = pm.Poisson("x", pt.switch(pm.Bernoulli("in", 0.4), 60.0, 2.0))
        pm.Normal("noisy", x, 1.0)
    found = enumerate_posterior(model, {"noisy": 2.0}, support={"x": range(20)})
    assert found.prior.item() < 1e-6
    assert found.edge_mass.item() == pytest.approx(0.4, abs=1e-6)
    assert found.status.item() == "unreliable"
    whole = enumerate_posterior(model, {"noisy": 2.0}, support={"x": range(140)})
    assert (whole.prior.item(), whole.status.item()) == (pytest.approx(0.4, abs=1e-9), "ok")


@pytest.mark.parametrize("length", [8, 30])
def test_a_support_that_is_all_a_table_has_is_judged_by_its_law(length: int) -> None:
    """Further values have no entry in the table, and are not looked at."""
    with pm.Model() as model:
        x = pm.Poisson("x", 2.0)
        pm.Normal("noisy", pm.Bernoulli("in", 0.3) + pt.constant(np.linspace(0, 9, length))[x], 1.0)
    found = enumerate_posterior(model, {"noisy": 3.0}, support={"x": range(length)})
    assert found.status.item() == ("unreliable" if length == 8 else "ok")
    assert found.edge_mass.item() >= st.poisson.sf(length - 1, 2.0)


# Latents without a largest value, cut where nothing is lost


@pytest.mark.slow_cases("zero-inflated", "heavy")
@pytest.mark.parametrize(
    ("build", "law"),
    [
        (lambda: pm.ZeroInflatedPoisson("x", 0.6, 3.0), 0.6 * st.poisson.pmf(np.arange(1500), 3.0)),
        (lambda: pm.NegativeBinomial("x", alpha=0.4, mu=3.0), st.nbinom.pmf(np.arange(1500), 0.4, 0.4 / 3.4)),
        (lambda: pm.Geometric("x", 0.2), st.geom.pmf(np.arange(1500), 0.2)),
        (
            lambda: pm.Poisson("x", pt.switch(pm.Bernoulli("dense", 0.25), 40.0, 2.0)),
            0.75 * st.poisson.pmf(np.arange(1500), 2.0) + 0.25 * st.poisson.pmf(np.arange(1500), 40.0),
        ),
    ],
    ids=["zero-inflated", "heavy", "geometric", "two rates"],
)
def test_an_unbounded_latent_reaches_as_far_as_its_releases_need(build: Any, law: Any) -> None:
    """Also a release far out, where the tail of the prior is all there is."""
    law, continuous = law + (1.0 - law.sum()) * (np.arange(law.size) == 0), law[0] > 0.6
    with pm.Model() as model:
        count = pm.Bernoulli("in", 0.4) + build()
        if continuous:
            pm.Laplace("noisy", count, 1.5)
        else:
            released("noisy", DiscreteGaussian(1.5), count)
    noisy = np.array([-1, 2, 30, 120])
    found = enumerate_posterior(model, {"noisy": noisy})
    k, noise = np.arange(law.size), st.laplace(scale=1.5) if continuous else None
    for y, posterior, cut in zip(noisy, found["posterior"].values, found["cut_mass"].values, strict=True):
        log_p = [noise.logpdf(y - k - i) if noise else DiscreteGaussian(1.5).log_prob(y, k + i) for i in (0, 1)]
        joint = [p * law @ np.exp(one - log_p[0].max()) for p, one in zip((0.6, 0.4), log_p, strict=True)]
        assert posterior == pytest.approx(joint[1] / sum(joint), rel=1e-6 if cut > 1e-15 else 1e-7)
        assert 0 <= cut <= 1e-12
    assert (found["edge_mass"] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True])
def test_an_unbounded_latent_reaches_as_far_as_its_prior_needs(several: bool) -> None:
    """The release of a small count leaves no doubt that the target is out; before it, the chance was 0.4."""
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.4)
        released("noisy", DiscreteGaussian(1.5), pm.Poisson("x", pt.switch(present, 200.0, 2.0)))
        observed = {"noisy": np.array([2, 200])}
        if several:
            released("other", DiscreteGaussian(1.5), pm.Poisson("y", pt.switch(present, 2.0, 300.0)))
            observed["other"] = np.array([300, 2])
    found = enumerate_posterior(model, observed)
    assert found["prior"].item() == pytest.approx(0.4, abs=1e-12)
    np.testing.assert_allclose(found["posterior"], [0.0, 1.0], atol=1e-12)
    assert (found["cut_mass"] <= 1e-12).all()


def test_one_release_is_enough_for_the_prior_to_be_whole() -> None:
    with pm.Model() as model:
        x = pm.Poisson("x", pt.switch(pm.Bernoulli("in", 0.4), 200.0, 2.0))
        released("noisy", DiscreteGaussian(1.5), x)
    assert enumerate_posterior(model, {"noisy": 2})["prior"].item() == pytest.approx(0.4, abs=1e-12)


@pytest.mark.slow
def test_an_unbounded_latent_reaches_the_second_mode_of_its_law() -> None:
    with pm.Model() as model:
        parts = [pm.Poisson.dist(2.0), pm.Poisson.dist(900.0)]
        x = pm.Mixture("x", np.array([0.75, 0.25]), parts)
        pm.Deterministic("in", pt.gt(x, 500).astype("int64"))
        released("noisy", DiscreteGaussian(1.5), x)
    found = enumerate_posterior(model, {"noisy": np.array([3, 890])})
    np.testing.assert_allclose(found["posterior"], [0.0, 1.0], atol=1e-12)
    assert found["prior"].item() == pytest.approx(0.25, abs=1e-12)


def test_a_short_support_beside_an_unbounded_latent_is_seen() -> None:
    with pm.Model() as model:
        x, y = pm.Poisson("x", 5.0), pm.Poisson("y", 2.0)
        released("noisy", DiscreteGaussian(1.5), pm.Bernoulli("in", 0.4) + x + y)
    found = enumerate_posterior(model, {"noisy": 6}, support={"x": range(5)})
    assert found["edge_mass"].item() >= st.poisson.sf(4, 5.0)
    assert found["status"].item() == "unreliable"
    assert found["cut_mass"].item() <= 1e-12


def test_a_potential_that_may_favour_any_number_is_refused() -> None:
    with pm.Model() as model:
        x = pm.Poisson("x", 2.0)
        pm.Potential("tilt", 0.5 * x)
        pm.Normal("noisy", pm.Bernoulli("in", 0.4) + x, 1.0)
    with pytest.raises(ValueError, match="'tilt' depends on a latent without a finite support"):
        enumerate_posterior(model, {"noisy": 1.0})


def test_a_support_reads_its_own_parents_only() -> None:
    """What a parent depends on itself may be continuous: its values settle the support."""
    with pm.Model() as model:
        chance = pm.Beta("chance", 2.0, 2.0)
        total = pm.DiscreteUniform("total", 3, 6)
        first = pm.Binomial("first", total, chance)
        second = pm.Binomial("second", total - first, chance)
    moving = {chance, total, first, second}
    (values,) = supports.support_of(model["second"], {}, moving)[1]
    assert values.tolist() == list(range(7))


def poisson_of_unknown_rate(truncated: bool = False) -> pm.Model:
    """Others of a rate that is unknown, and somebody who is in by it."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 3.0, 1.0)
        law = pm.Poisson.dist(rate)
        others = pm.Truncated("others", law, upper=80) if truncated else pm.Poisson("others", rate)
        present = pm.Bernoulli("in", 1.0 - pm.math.exp(-rate / 5.0))
        released("noisy", Geometric(1.0), others + present)
    return model


@pytest.mark.slow
def test_a_count_is_cut_where_its_law_ends_at_draws_of_its_rate() -> None:
    """Summed out beside a continuous rate, as a Poisson law up to a value nobody reaches is."""
    answers = []
    for truncated in (False, True):
        prior = WeighedPrior.of(poisson_of_unknown_rate(truncated), ["noisy"], rng=3, draws=2000)
        assert list(prior.terms.given.continuous) == ["rate"]
        answers.append([one.answer.present for one in prior.weigh({"noisy": np.array([0, 4, 9])}, rng=1)])
    np.testing.assert_allclose(*answers, atol=1e-9)


def test_a_release_beyond_the_cut_of_a_count_is_not_answered() -> None:
    """At 60, where the count is cut at 53, draws explain the release, and the answer is off by nine of its errors."""
    prior = WeighedPrior.of(poisson_of_unknown_rate(), ["noisy"], rng=3, draws=4000)
    near, beyond = prior.weigh({"noisy": np.array([6, 60])}, rng=1)
    assert near.reliable
    assert near.cut < 1e-12
    assert beyond.explained > -7.0
    assert beyond.cut > 0.1
    assert not beyond.reliable
