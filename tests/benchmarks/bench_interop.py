"""On demand:  uv run --group bench pytest tests/benchmarks/bench_interop.py

The real libraries: loss distributions of dp_accounting, both ways: 16,000 atoms and more keep their profile to 1e-12;
descriptions of noise and privacy profiles of OpenDP; trade-off curves of riskcal.
"""

import numpy as np
import pytest

import adversary as adv
from adversary.privacy.losses import interop

distributions = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
dp = pytest.importorskip("opendp.prelude")
EPSILONS = np.linspace(0.0, 6.0, 61)


def test_a_distribution_of_16_000_atoms_is_the_same_there_and_back() -> None:
    pld = distributions.from_gaussian_mechanism(1.0, value_discretization_interval=1e-3, use_connect_dots=True)
    loss = interop.from_pld(pld)
    assert loss.losses.size >= 16_000
    back = interop.to_pld(loss, 1e-3)
    theirs, again = (np.array([one._pmf_remove.get_delta_for_epsilon(e) for e in EPSILONS]) for one in (pld, back))
    np.testing.assert_allclose(loss.delta(EPSILONS), theirs, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(again, theirs, rtol=0, atol=1e-12)


def test_a_loss_of_ours_is_bounded_by_theirs_and_read_back() -> None:
    loss = adv.DiscreteGaussian(3.0).privacy_loss()
    theirs = interop.to_pld(loss, 1e-4)
    values = np.array([theirs.get_delta_for_epsilon(e) for e in EPSILONS])
    assert (values >= loss.delta(EPSILONS) - 1e-15).all()
    np.testing.assert_allclose(interop.from_pld(theirs).delta(EPSILONS), values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"rho": 0.1}])
def test_levels_are_those_that_opendp_summarizes(budget: dict[str, float]) -> None:
    """Of a count and a sum of floats: whole-number and continuous noise, in OpenDP's own words.

    The sum is of numbers from 0 to 1, of which one person adds 1 at most, as of a count.
    """
    import polars as pl

    dp.enable_features("contrib")
    people = pl.LazyFrame({"income": [1.0, 2.0, 3.0]})
    context = dp.Context.compositor(
        people,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(**budget),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=100)],
    )
    income = pl.col("income").fill_nan(0.0).fill_null(0.0).dp.sum((0.0, 1.0))
    rows = context.query().select(dp.len(signed=True), income).summarize().to_dicts()
    assert [row["aggregate"] for row in rows] == ["Frame Length", "Sum"]
    with pytest.raises(ValueError, match="row 2: must be a count"):
        adv.levels_of_noise(rows)
    whole, continuous = adv.levels_of_noise([row | {"aggregate": "Count"} for row in rows])
    assert [whole.name, continuous.name] == ["len", "income"]
    spent = [level.mechanism.privacy_loss(1) for level in (whole, continuous)]
    if "epsilon" in budget:
        assert sum(loss.epsilon(0.0) for loss in spent) == pytest.approx(1.0, rel=1e-9)
    else:
        assert whole.mechanism.rho() + continuous.mechanism.rho() == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize("make", ["make_laplace", "make_gaussian"])
def test_a_scale_means_what_it_means_to_opendp(make: str) -> None:
    measurement = getattr(dp.m, make)(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale=2.5)
    row = {"distribution": "Integer " + make.removeprefix("make_").capitalize(), "scale": 2.5}
    (level,) = adv.levels_of_noise([row], ["count"])
    loss = level.mechanism.privacy_loss(1)
    if make == "make_laplace":
        assert loss.epsilon(0.0) == pytest.approx(measurement.map(1), rel=1e-12)
        return
    assert level.mechanism.rho() == pytest.approx(measurement.map(1), rel=1e-12)
    profile = dp.c.make_zCDP_to_approxDP(measurement).map(1)
    ours = interop.from_delta(profile.delta)
    theirs = np.array([profile.delta(float(e)) for e in EPSILONS])
    assert (ours.delta(EPSILONS) >= theirs * (1.0 - 1e-9) - 1e-15).all()
    assert (loss.delta(EPSILONS) <= theirs + 1e-15).all()  # of the noise itself: no more than its zCDP allows


def test_a_trade_off_curve_of_riskcal_is_the_loss_it_came_from() -> None:
    analysis = pytest.importorskip("riskcal.analysis")
    pld = distributions.from_laplace_mechanism(1.5, value_discretization_interval=1e-2)
    level = np.linspace(0.0, 1.0, 2001)
    power = 1.0 - analysis.get_beta_from_pld(pld, alpha=level)
    loss = interop.from_trade_off(level, power, linear=True)
    mine = interop.from_pld(pld)
    np.testing.assert_allclose(loss.advantage, mine.advantage, atol=1e-3)
    np.testing.assert_allclose([loss.power(a) for a in (0.05, 0.2)], [mine.power(a) for a in (0.05, 0.2)], atol=1e-3)
