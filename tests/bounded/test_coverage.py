"""The simulation study: paired, independent of how it was cut, resumed where it stopped, and right on average."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from adversary._core.blocks import BLOCK, seed_sequence
from adversary.bounded.bounded_posterior import posterior
from adversary.bounded.bounded_release import BoundedRelease
from adversary.bounded.prior import NormalInverseGamma
from adversary.bounded.thesis import coverage, populations
from adversary.bounded.thesis.coverage import averages, coverage_study
from adversary.bounded.thesis.design import Trial, design
from adversary.bounded.thesis.populations import TruncatedNormal, sample_statistics

CELL: dict[str, Any] = {"n": 20, "truths": (0.3, 0.1), "epsilon": 1.0, "rng": 7}


class Interrupted(RuntimeError):
    """What an interruption raises here."""


class Posterior:
    """Intervals of half-width 0.2 (0.3 without the bounds) about the released mean: arithmetic in place of integrals.

    The mode is the released mean, the mean is pulled towards 0.5.
    """

    calls = 0
    fail_at = 10**9

    def __init__(self, release: Any, prior: Any, constrained: bool, feasibility: str) -> None:
        cls = type(self)
        if release.shape and cls.calls == cls.fail_at:
            raise Interrupted
        cls.calls += release.shape != ()
        self.release, self.half = release, 0.2 if constrained else 0.3

    def hdi(self, name: str, prob: float) -> Any:
        centre = np.asarray(self.release.mean)
        return np.stack([centre - self.half, centre + self.half], axis=-1)

    def mode(self, name: str) -> Any:
        return self.release.mean

    def mean(self, name: str) -> Any:
        return 0.5 * (self.release.mean + 0.5)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> type[Posterior]:
    """The study with `Posterior` in place of the real one."""

    class Fresh(Posterior):
        pass

    monkeypatch.setattr(coverage, "posterior", Fresh)
    return Fresh


def numbers(study: xr.Dataset) -> Any:
    return np.concatenate([np.ravel(study[name]) for name in study.data_vars])


# What it answers


def test_dims_and_labels(quick: type[Posterior]) -> None:
    priors = {"flat": "flat", "near 0.3": NormalInverseGamma(0.3, 1.0, 1.0, 0.1)}
    study = coverage_study(
        n=[10, 20, 30], truths=[(0.1, 0.04), (0.5, 0.2)], epsilon=[0.1, (0.1, 0.2)], priors=priors, datasets=5, rng=1
    )
    sizes = {"n": 3, "truth": 2, "epsilon": 2, "prior": 2, "constrained": 2}
    for name in ("coverage", "length", "coverage_mcse", "length_mcse"):
        assert dict(study[name].sizes) == sizes
    for name in ("rmse", "bias", "rmse_mcse", "bias_mcse"):
        assert dict(study[name].sizes) == sizes | {"estimate": 2}
    assert study["truth"].values.tolist() == ["mu = 0.1, sigma = 0.04", "mu = 0.5, sigma = 0.2"]
    assert study["epsilon"].values.tolist() == ["0.1 + 0.1", "0.1 + 0.2"]
    assert study["epsilon_variance"].values.tolist() == [0.1, 0.2]
    assert study["true_value"].dims == study["sigma"].dims == ("truth",)
    assert study["prior"].values.tolist() == list(priors)
    assert float(study["length"].sel(n=20, truth="mu = 0.1, sigma = 0.04", constrained=True).max()) < 0.4 + 1e-12


def test_budgets_in_every_form(quick: type[Posterior]) -> None:
    """A tuple of two numbers is a pair, as everywhere in this wing; a list is several cells."""
    for given, label in ((0.5, [0.5]), ((0.5, 0.5), [0.5]), ([0.5, 1.0], [0.5, 1.0]), ((0.5, 1.0), ["0.5 + 1.0"])):
        assert coverage_study(**CELL | {"epsilon": given, "datasets": 2})["epsilon"].values.tolist() == label
    study = coverage_study(**CELL | {"truths": {"low": (0.1, 0.04)}, "datasets": 2})
    assert study["truth"].values.tolist() == ["low"]


def test_averages_are_those_of_the_releases(quick: type[Posterior]) -> None:
    study = coverage_study(**CELL | {"epsilon": 0.4}, datasets=300).squeeze()
    asked = design(20, (0.3, 0.1), 0.4, "flat", True, 300, 0.95, (0, 1), "mu", "truncated normal", "event")
    (cell,) = asked.cells
    mean = coverage.releases(asked, cell, seed_sequence(7), 0).unit_mean
    for use, half in ((True, 0.2), (False, 0.3)):
        one = study.sel(constrained=use)
        share = np.mean(np.abs(mean - 0.3) <= half)
        assert one["coverage"] == share
        assert one["length"] == pytest.approx(2 * half)
        assert one["coverage_mcse"] == pytest.approx(np.sqrt(share * (1 - share) / 300), rel=0.05)
        for estimate, value in (("mode", mean), ("mean", 0.5 * (mean + 0.5))):
            error = value - 0.3
            assert one["rmse"].sel(estimate=estimate) == pytest.approx(np.sqrt(np.mean(error**2)))
            assert one["bias"].sel(estimate=estimate) == pytest.approx(error.mean())
            assert one["bias_mcse"].sel(estimate=estimate) == pytest.approx(error.std(ddof=1) / np.sqrt(300))


def test_standard_errors_are_those_of_repetitions(quick: type[Posterior]) -> None:
    """Over 300 studies of 100 data sets the averages scatter as each says they would."""
    asked = design(20, (0.3, 0.1), 1.0, "flat", True, 30_000, 0.95, (0, 1), "mu", "truncated normal", "event")
    values = coverage.outcomes(asked, seed_sequence(7)).reshape(300, 1, 1, 1, 1, 100, 4)
    parts = averages(values, np.array(0.3)[None, None, None, None])
    for name in ("coverage", "length", "rmse", "bias"):
        found = parts[name][1].std(0, ddof=1)
        told = np.sqrt((parts[f"{name}_mcse"][1] ** 2).mean(0))
        np.testing.assert_allclose(told, found, rtol=0.15, atol=1e-12)


def test_of_one_data_set_there_is_no_standard_error(quick: type[Posterior]) -> None:
    study = coverage_study(**CELL, datasets=1)
    assert np.isnan(study["rmse_mcse"]).all()
    assert np.isfinite(study["coverage_mcse"]).all()


def test_what_is_covered_is_the_parameter(quick: type[Posterior]) -> None:
    for parameter, value in (("mu", 0.1), ("sigma", 0.04), ("sigma2", 0.0016)):
        study = coverage_study(**CELL | {"truths": (0.1, 0.04), "parameter": parameter, "datasets": 2})
        assert study["true_value"].item() == pytest.approx(value)
        assert study.attrs["covers"].startswith(f"{parameter} as a parameter of the population")
    assert study["moment"].item() == pytest.approx(TruncatedNormal().moments(0.1, 0.04)[1] ** 2)


@pytest.mark.slow
def test_flat_without_bounds_has_the_error_of_the_noise() -> None:
    """The posterior mean of mu is the released mean, whose variance is sigma^2 / n + 2 / (n epsilon)^2."""
    study = coverage_study(**CELL | {"n": 100}, constrained=False, datasets=60).squeeze()
    sd = TruncatedNormal().moments(0.3, 0.1)[1]
    mean = study.sel(estimate="mean")
    assert abs(mean["rmse"] - np.sqrt(sd**2 / 100 + 2 / 100**2)) < 5 * mean["rmse_mcse"]
    assert abs(mean["bias"]) < 5 * mean["bias_mcse"]
    assert abs(study["coverage"] - 0.96) < 5 * study["coverage_mcse"] + 0.02


@pytest.mark.slow
def test_units_are_those_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one seed for all cells, a study in other units draws the same data in those units."""
    monkeypatch.setattr(Trial, "seed", lambda cell, root, block: root)
    options: dict[str, Any] = {"n": 20, "epsilon": 0.5, "datasets": 4, "rng": 3}
    unit = coverage_study(truths=(0.3, 0.1), **options)
    wide = coverage_study(truths=(40.0, 10.0), bounds=(10.0, 110.0), **options)
    np.testing.assert_array_equal(wide["coverage"], unit["coverage"])
    for name in ("length", "rmse", "bias"):
        np.testing.assert_allclose(wide[name], 100.0 * unit[name], rtol=1e-4, atol=2e-3)


def test_intervals_are_those_of_the_posterior() -> None:
    asked = design(30, (0.3, 0.1), (0.2, 0.4), "flat", [True, False], 2, 0.8, (0, 2), "sigma", "truncated normal",
                   "normalised")  # fmt: skip
    (cell,) = asked.cells
    root = seed_sequence(4)
    found = coverage.outcomes(asked, root).squeeze()
    released = coverage.releases(asked, cell, root, 0)
    assert (released.n, released.epsilon, released.bounds) == (30, (0.2, 0.4), (0, 2))
    for row, use in zip(found, (True, False), strict=True):
        for i in range(2):
            one = BoundedRelease(released.mean[i], released.variance[i], 30, (0.2, 0.4), (0, 2))
            post = posterior(one, "flat", use, "normalised" if use else "event")
            expected = [*post.hdi("sigma", 0.8), post.mode("sigma"), post.mean("sigma")]
            np.testing.assert_allclose(row[i], expected, rtol=2e-8)


# Data


@pytest.mark.parametrize(("mu", "sigma"), [(0.1, 0.04), (0.5, 0.2), (0.0, 0.3), (1.0, 0.01), (0.4, 5.0)])
def test_the_truncated_normal_is_scipys(mu: float, sigma: float) -> None:
    from scipy.stats import kstest, truncnorm

    law = truncnorm((0 - mu) / sigma, (1 - mu) / sigma, mu, sigma)
    np.testing.assert_allclose(TruncatedNormal().moments(mu, sigma), [law.mean(), law.std()], rtol=1e-10)
    values = TruncatedNormal()(mu, sigma, (4000,), np.random.default_rng(1))
    assert kstest(values, law.cdf).pvalue > 1e-3
    assert values.min() >= 0
    assert values.max() <= 1


def test_statistics_do_not_depend_on_the_memory_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> Any:
        return sample_statistics(TruncatedNormal(), 0.1, 0.04, 25, 40, (0, 1), np.random.default_rng(2))

    whole = run()
    values = TruncatedNormal()(0.1, 0.04, (40, 25), np.random.default_rng(2))
    np.testing.assert_allclose(whole, [values.mean(-1), values.var(-1, ddof=1)], rtol=1e-12)
    for at_once in (1, 60):
        monkeypatch.setattr(populations, "_AT_ONCE", at_once)
        np.testing.assert_array_equal(run(), whole)


def test_a_population_of_ones_own(quick: type[Posterior]) -> None:
    def beta(mu: float, sigma: float, size: tuple[int, ...], rng: np.random.Generator) -> Any:
        worth = mu * (1 - mu) / sigma**2 - 1
        return rng.beta(mu * worth, (1 - mu) * worth, size)

    study = coverage_study(**CELL, population=beta, datasets=400)
    assert "beta" in study.attrs["population"]
    assert "moment" not in study
    np.testing.assert_array_less(np.abs(study["bias"].sel(estimate="mode")), 5 * study["bias_mcse"][..., 0])
    for bad, message in (
        (lambda mu, sigma, size, rng: rng.random(size) + 0.5, r"within bounds=\(0.0, 1.0\), got 1\."),
        (lambda mu, sigma, size, rng: np.full(size, np.nan), "within bounds.*nan"),
        (lambda mu, sigma, size, rng: rng.random(3), r"requested size, \(4, 20\), got \(3,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            coverage_study(**CELL, population=bad, datasets=4)


# Seeds


def test_a_cell_has_the_same_numbers_whatever_else_is_in_the_study(quick: type[Posterior]) -> None:
    alone = coverage_study(**CELL, datasets=BLOCK + 5)
    options = {
        "n": [50, 20, 3],
        "truths": [(0.5, 0.2), (0.3, 0.1)],
        "epsilon": [0.1, 1.0],
        "constrained": [False, True],
    }
    among = coverage_study(
        **CELL | options, datasets=BLOCK + 5, priors={"a": NormalInverseGamma(0, 1, 1, 1), "b": "flat"}
    )
    there = among.sel(n=[20], truth=alone["truth"], epsilon=[1.0], prior=["b"]).isel(constrained=[1, 0])
    np.testing.assert_array_equal(numbers(there), numbers(alone))


def test_all_analyses_see_the_same_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Watching(Posterior):
        def __init__(self, release: Any, *args: Any) -> None:
            super().__init__(release, *args)
            if release.shape:
                seen.append(release)

    monkeypatch.setattr(coverage, "posterior", Watching)
    priors = {"flat": "flat", "near": NormalInverseGamma(0.3, 1.0, 1.0, 0.1)}
    coverage_study(**CELL | {"n": [20, 21]}, priors=priors, datasets=10)
    assert len(seen) == 8
    for four in (seen[:4], seen[4:]):
        for other in four[1:]:
            np.testing.assert_array_equal(other.mean, four[0].mean)
            np.testing.assert_array_equal(other.variance, four[0].variance)
    assert not np.isin(seen[0].mean, seen[4].mean).any()


def test_cells_and_blocks_and_seeds_have_draws_of_their_own() -> None:
    cells = [Trial(20, 0.3, 0.1, (1.0, 1.0)), Trial(20, 0.3, 0.1, (1.0, 1.1)), Trial(20, 0.3, 0.11, (1.0, 1.0))]
    roots = (seed_sequence(1), seed_sequence(2), *seed_sequence(1).spawn(2))
    seeds = [cell.seed(root, block) for cell in cells for root in roots for block in (0, 1)]
    assert len({tuple(seed.generate_state(4)) for seed in seeds}) == len(seeds)
    assert cells[0].seed(roots[0], 0).generate_state(1)[0] == cells[0].seed(roots[0], 0).generate_state(1)[0]


@pytest.mark.slow
def test_workers_change_nothing() -> None:
    options = CELL | {"n": [8, 20], "datasets": 3}
    one, many = (coverage_study(**options, workers=workers) for workers in (None, 4))
    xr.testing.assert_identical(one, many)


# Resumption


def test_finished_cells_are_taken_by_larger_studies(quick: type[Posterior], tmp_path: Path) -> None:
    coverage_study(**CELL, datasets=BLOCK, store=tmp_path)
    quick.calls = 0
    coverage_study(**CELL | {"n": [10, 20]}, datasets=BLOCK, store=tmp_path)
    assert quick.calls == 2
    coverage_study(**CELL, datasets=BLOCK + 3, store=tmp_path)
    assert quick.calls == 4


CHANGES: dict[str, Any] = {
    "seed": {"rng": 8},
    "child": {"rng": np.random.SeedSequence(7).spawn(1)[0]},
    "prob": {"prob": 0.9},
    "parameter": {"parameter": "sigma"},
    "feasibility": {"feasibility": "normalised"},
    "bounds": {"bounds": (0.0, 1.5)},
    "epsilon": {"epsilon": (1.0, 1.5)},
    "truth": {"truths": (0.3, 0.11)},
    "size": {"datasets": 9},
    "prior": {"priors": {"flat": NormalInverseGamma(0.3, 1.0, 1.0, 0.1)}},
    "function": {"priors": {"flat": lambda mu, sigma2: -np.log(1.0 + mu**2)}},
    "law": {"population": lambda mu, sigma, size, rng: rng.random(size)},
}


@pytest.mark.parametrize("change", CHANGES)
def test_blocks_of_another_design_are_never_taken(quick: type[Posterior], tmp_path: Path, change: str) -> None:
    options = CELL | {"datasets": 10, "constrained": True}
    coverage_study(**options, store=tmp_path)
    quick.calls = 0
    changed = coverage_study(**options | CHANGES[change], store=tmp_path)
    assert quick.calls == 1
    xr.testing.assert_identical(changed, coverage_study(**options | CHANGES[change]))


def test_priors_are_known_by_what_they_do(quick: type[Posterior], tmp_path: Path) -> None:
    """Two functions of one name and one text, closed over different numbers."""

    def about(centre: float) -> Any:
        return lambda mu, sigma2: -((mu - centre) ** 2)

    for centre, calls in ((0.1, 1), (0.2, 2), (0.1, 2)):
        coverage_study(**CELL, datasets=3, constrained=True, priors={"about": about(centre)}, store=tmp_path)
        assert quick.calls == calls


def test_a_store_needs_a_seed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="store needs rng: without a seed"):
        coverage_study(**CELL | {"rng": None}, datasets=3, store=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_study_says_how_it_was_made(quick: type[Posterior], tmp_path: Path) -> None:
    study = coverage_study(**CELL, datasets=3, priors={"p": NormalInverseGamma(0.3, 1.0, 1.0, 0.1)})
    assert study.attrs["seed"] == "7"
    assert study.attrs["datasets"] == 3
    assert study.attrs["population"] == "truncated normal"
    assert "NormalInverseGamma" in json.loads(study.attrs["priors"])["p"]
    assert set(json.loads(study.attrs["versions"])) == {"dp-adversary", "numpy", "scipy", "xarray"}
    study.to_netcdf(tmp_path / "study.nc")
    with xr.open_dataset(tmp_path / "study.nc") as back:
        xr.testing.assert_equal(back.load(), study)
        assert back["constrained"].dtype == bool


# What cannot be studied


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"datasets": 0}, "datasets must be at least 1, got 0"),
        ({"n": 1}, "n must be at least 2, got 1"),
        ({"n": []}, "n must hold at least one value"),
        ({"n": [20, 20]}, r"n must not name a cell twice, got \[20, 20\]"),
        ({"truths": (1.2, 0.1)}, r"truths must have mu within bounds=\(0.0, 1.0\), got 1\.2"),
        ({"truths": (0.3, 0.0)}, r"sigma of truths must be positive and finite, got 0\.0"),
        ({"truths": (0.3, 0.1, 0.2)}, "truths must be pairs"),
        ({"truths": (0.1,)}, r"truths must be pairs \(mu, sigma\), got \(0.1,\)"),
        ({"truths": [(0.3, 0.1), 0.3]}, r"truths must be pairs \(mu, sigma\), got 0.3"),
        ({"truths": []}, "truths must hold at least one value"),
        ({"truths": [(0.3, 0.1), (0.3, 0.1)]}, "truths must not name a cell twice"),
        ({"epsilon": [0.1, (0.1, 0.1)]}, "epsilon must not name a cell twice"),
        ({"epsilon": [(0.1, 0.2, 0.3)]}, "epsilon must be numbers or pairs"),
        ({"epsilon": (1, 2, 3)}, r"a tuple of numbers is one cell, \(mean, variance\), got \(1, 2, 3\).* give a list"),
        ({"bounds": (1, 0)}, "bounds must be two finite numbers"),
        ({"bounds": (1, 2, 3)}, "bounds must be two finite numbers"),
        ({"parameter": "tau"}, "parameter must be one of mu, sigma, sigma2, got 'tau'"),
        ({"population": "normal"}, 'population must be "truncated normal" or a function'),
        ({"priors": "jeffreys"}, "improper posterior"),
        ({"priors": {"many": NormalInverseGamma([0.1, 0.2], 1, 1, 1)}}, "one prior under each name"),
        ({"priors": {}}, "priors must hold at least one"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"feasibility": "sometimes"}, "feasibility must be"),
        ({"n": 2}, "Theorem 18"),
    ],
)
def test_what_cannot_be_studied_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        coverage_study(**{**CELL, "datasets": 3, "store": tmp_path, **change})
    assert list(tmp_path.iterdir()) == []


def test_three_values_are_enough_with_the_bounds() -> None:
    study = coverage_study(**CELL | {"n": 3}, datasets=4, constrained=True)
    assert np.isfinite(study["length"]).all()
