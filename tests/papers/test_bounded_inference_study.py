"""Kazan's thesis, chapter 4: its simulation study and what its figures say.

BI rows are numbers read from its figures' line coordinates; E4 and E7 are errata. The published intervals are the
shortest ones among 20,000 autocorrelated draws and its estimates are kernel modes of draws; ours come from exact
posteriors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from adversary.bounded.thesis.coverage import coverage_study
from adversary.bounded.thesis.populations import TruncatedNormal, sample_statistics

LOW, MIDDLE = (0.1, 0.04), (0.5, 0.2)
Key = tuple[float, int, tuple[float, float], bool]

PUBLISHED: dict[Key, tuple[float, float, float]] = {
    (0.1, 10, LOW, True): (0.7857, 0.6222, 0.3798),
    (0.1, 10, MIDDLE, True): (0.7850, 1.0000, 0.0986),
    (0.1, 32, LOW, True): (0.7162, 0.7835, 0.2767),
    (0.1, 32, LOW, False): (1.9076, 0.9511, 0.4456),
    (0.1, 32, MIDDLE, True): (0.7132, 1.0000, 0.1920),
    (0.1, 32, MIDDLE, False): (1.9076, 0.9538, 0.4375),
    (0.1, 100, LOW, True): (0.4115, 0.9283, 0.1064),
    (0.1, 100, LOW, False): (0.6065, 0.9483, 0.1438),
    (0.1, 100, MIDDLE, True): (0.4901, 0.9426, 0.1329),
    (0.1, 100, MIDDLE, False): (0.6087, 0.9489, 0.1430),
    (0.1, 1000, LOW, True): (0.0595, 0.9472, 0.0141),
    (0.1, 1000, LOW, False): (0.0598, 0.9484, 0.0140),
    (0.1, 1000, MIDDLE, True): (0.0633, 0.9480, 0.0155),
    (0.1, 1000, MIDDLE, False): (0.0633, 0.9514, 0.0154),
    (1.0, 100, LOW, True): (0.0733, 0.9709, 0.0147),
    (1.0, 100, LOW, False): (0.0746, 0.9742, 0.0145),
    (1.0, 100, MIDDLE, True): (0.0963, 0.9459, 0.0243),
    (1.0, 100, MIDDLE, False): (0.0962, 0.9507, 0.0237),
}
"""(epsilon of each statistic, n, truth, constrained): (length, coverage, RMSE), of 10,000 data sets."""


def cells(epsilon: float, n: int) -> dict[tuple[tuple[float, float], bool], tuple[float, float, float]]:
    return {key[2:]: value for key, value in PUBLISHED.items() if key[:2] == (epsilon, n)}


def study(n: Any, epsilon: Any, datasets: int, **options: Any) -> xr.Dataset:
    return coverage_study(
        n=n, truths={"low": LOW, "middle": MIDDLE}, epsilon=epsilon, datasets=datasets, rng=42, **options
    )


def told(found: xr.Dataset, n: int, truth: tuple[float, float], constrained: bool) -> xr.Dataset:
    name = "low" if truth == LOW else "middle"
    return found.isel(epsilon=0, prior=0).sel(n=n, truth=name, constrained=constrained)


def compared(found: xr.Dataset, epsilon: float, n: int) -> None:
    """BI15: coverage within 4 standard errors and 0.005, length within 3%, RMSE within 10%, each for 2,000 data sets.

    With fewer data sets the last two widen by 4 standard errors less those of 2,000.
    """
    datasets = found.attrs["datasets"]
    fewer = max(1.0 - np.sqrt(datasets / 2000), 0.0)
    for (truth, constrained), (length, coverage, rmse) in cells(epsilon, n).items():
        one = told(found, n, truth, constrained).sel(estimate="mode")
        spread = np.sqrt(max(coverage * (1 - coverage), 1 / datasets) / datasets)
        assert abs(one["coverage"] - coverage) <= 4 * spread + 0.005, (n, truth, constrained)
        assert abs(one["length"] - length) <= 0.03 * length + 4 * fewer * one["length_mcse"], (n, truth, constrained)
        assert abs(one["rmse"] - rmse) <= 0.1 * rmse + 4 * fewer * one["rmse_mcse"], (n, truth, constrained)


def slope(lengths: Any, n: Any) -> float:
    """Of log length on log n, least squares, with an intercept for each truth: lengths of shape (n, truth)."""
    x, y = np.log(np.asarray(n, dtype=float)), np.log(np.asarray(lengths))
    x, y = x - x.mean(), y - y.mean(0)
    return float((x[:, None] * y).sum() / (y.shape[1] * (x * x).sum()))


def test_bi24_mean_of_the_data() -> None:
    """The truth of the study is the parameter 0.1; data cut to [0, 1] have another mean (E9)."""
    mean, _ = TruncatedNormal().moments(*LOW)
    assert mean == pytest.approx(0.100706, abs=1e-6)
    sample, _ = sample_statistics(TruncatedNormal(), *LOW, 1000, 1000, (0, 1), np.random.default_rng(1))
    assert sample.mean() == pytest.approx(mean, abs=5 * 0.04 / 1000)
    assert sample.mean() - 0.1 > 10 * 0.04 / 1000


def test_bi16_slope_of_the_published_lengths() -> None:
    sizes = (32, 100, 1000)
    lengths = [[PUBLISHED[0.1, n, truth, False][0] for truth in (LOW, MIDDLE)] for n in sizes]
    assert slope(lengths, sizes) == pytest.approx(-0.9973, abs=0.0005)


@pytest.fixture(scope="module")
def small() -> xr.Dataset:
    """All sizes of the table at epsilon 0.1 + 0.1, with few data sets."""
    return study([10, 32, 100, 1000], 0.1, 100)


@pytest.mark.thorough
@pytest.mark.parametrize("n", [10, 32, 100, 1000])
def test_bi15_figures_of_the_study_small(small: xr.Dataset, n: int) -> None:
    compared(small, 0.1, n)


@pytest.mark.slow
def test_bi15_figures_of_the_study_at_epsilon_one_small() -> None:
    compared(study(100, 1.0, 100), 1.0, 100)


@pytest.mark.thorough
@pytest.mark.slow
def test_bi15_figures_of_the_study() -> None:
    """With the table's 2,000 data sets, at n = 100; there every published length is short, by up to 2.5%.

    `test_bi15_figures_of_the_study_small` and `test_published_lengths_run_short` say the same of fewer.
    """
    found = study(100, 0.1, 2000)
    compared(found, 0.1, 100)
    longer = [
        told(found, n, truth, constrained)["length"].item() / length - 1
        for (epsilon, n, truth, constrained), (length, _, _) in PUBLISHED.items()
        if epsilon == 0.1 and n == 100
    ]
    assert 0.0005 < min(longer) < max(longer) < 0.028


@pytest.mark.slow
def test_bi16_slope_of_our_lengths(small: xr.Dataset) -> None:
    """Without bounds the interval is nearly that of the noise alone, 2 log(20) / (n epsilon): the slope is near -1.

    Ours is -0.9946, a little flatter than the published lengths', which are short by 2.5% at n = 1000 and mu = 0.1.
    """
    free = small.isel(epsilon=0, prior=0).sel(n=[32, 100, 1000], constrained=False)["length"]
    assert slope(free.transpose("n", "truth"), free["n"]) == pytest.approx(-0.9946, abs=0.001)
    low = free.sel(truth="low")
    np.testing.assert_allclose(low * free["n"], 2 * np.log(20) / 0.1, rtol=0.03)


@pytest.mark.slow
def test_published_lengths_run_short(small: xr.Dataset) -> None:
    """The shortest interval among draws is biased short: without bounds exact ones are 0.6 to 2.5% longer (mu 0.1)."""
    for (epsilon, n, truth, constrained), (length, _, _) in PUBLISHED.items():
        if epsilon == 0.1 and truth == LOW and not constrained:
            one = told(small, n, truth, constrained)
            assert one["length"] - 4 * one["length_mcse"] > length, (n, truth)
            assert one["length"] < 1.028 * length, (n, truth)


@pytest.mark.slow
def test_e4_figure_4_12_is_of_epsilon_a_tenth_not_one(small: xr.Dataset) -> None:
    """Its caption says epsilon 1 + 1; its lengths at n = 10 are those of 0.1 + 0.1."""
    other = study(10, 1.0, 60)
    for truth in (LOW, MIDDLE):
        length = PUBLISHED[0.1, 10, truth, True][0]
        assert told(small, 10, truth, True)["length"] == pytest.approx(length, rel=0.01)
        assert told(other, 10, truth, True)["length"] < 0.75 * length


def test_e7_rmse_is_not_uniformly_lower_with_the_bounds() -> None:
    """By the plotted values themselves it is higher where n epsilon is large."""
    for epsilon, n in ((0.1, 1000), (1.0, 100)):
        for truth in (LOW, MIDDLE):
            assert PUBLISHED[epsilon, n, truth, True][2] > PUBLISHED[epsilon, n, truth, False][2]
    for n in (32, 100):
        for truth in (LOW, MIDDLE):
            assert PUBLISHED[0.1, n, truth, True][2] < PUBLISHED[0.1, n, truth, False][2]


@pytest.mark.slow
def test_e7_on_the_same_data_exact_modes_are_no_worse(small: xr.Dataset) -> None:
    """The plotted excess is that of kernel modes of draws: paired, the bounds lower the RMSE at n = 32 and 100 and
    leave it as it is at n = 1000 (4,000 data sets: by 5e-6 ± 1e-6 at mu = 0.1, by less than 1e-6 at mu = 0.5)."""
    rmse = small["rmse"].isel(epsilon=0, prior=0).sel(estimate="mode")
    gain = rmse.sel(constrained=False) - rmse.sel(constrained=True)
    assert (gain.sel(n=[32, 100], truth="low") > 0.005).all()
    np.testing.assert_allclose(gain.sel(n=1000), 0.0, atol=5e-5)
