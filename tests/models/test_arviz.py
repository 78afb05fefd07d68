"""ArviZ reads what `fit` and sampled audits return: every function of a table, without a warning, and from files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.stats import norm

import adversary as adv
from adversary import Sampling
from adversary.models import noise
from adversary.models.fitting import fit

YEARS = [2019, 2020, 2021, 2022, 2023, 2024]
NOISY = [3, 2, 4, 3, 1, 2]
NOISE = adv.Gaussian(2.0)
SETTINGS = Sampling(draws=800, chains=2)


def story(*, unknown_rate: bool) -> pm.Model:
    """A count over years, with exposures that are data, side data, and something computed."""
    with pm.Model(coords={"year": YEARS}) as model:
        present = pm.Bernoulli("in", 0.5)
        exposure = pm.Data("exposure", np.linspace(0.8, 1.3, 6), dims="year")
        rate = (
            pm.Gamma("rate", 4.0, 2.0)
            if unknown_rate
            else pm.Deterministic("rate", 1.0 + pm.Binomial("step", 40, 0.4) / 10.0)
        )
        pm.Deterministic("expected", rate * exposure, dims="year")
        pm.Normal("survey", rate, 1.0, observed=[1.8, 2.2])
        pm.Deterministic("odds", rate / (1.0 + rate))
        noise.released("noisy", NOISE, present + rate * exposure, dims="year")
    return model


def of_fit(*, unknown_rate: bool) -> xr.DataTree:
    return fit(story(unknown_rate=unknown_rate), {"noisy": NOISY}, sampling=SETTINGS, rng=1, progress=False)


def of_audit(engine: str) -> xr.DataTree:
    truth = {"in": 1, "rate": 2.0}
    options: dict[str, Any] = {"engine": engine, "draws": 3, "sampling": SETTINGS, "rng": 1, "progress": False}
    return adv.audit_model(story(unknown_rate=True), truth, **options)


@pytest.fixture(scope="module")
def trees() -> dict[str, xr.DataTree]:
    """Fits of a discrete model and of one that NUTS samples; audits whose draws are weighed, or NUTS's."""
    return {
        "enumerated fit": of_fit(unknown_rate=False),
        "sampled fit": of_fit(unknown_rate=True),
        "weighed audit": of_audit("importance"),
        "sampled audit": of_audit("mcmc"),
    }


TREES = ("enumerated fit", "sampled fit", "weighed audit", "sampled audit")


def single(tree: xr.DataTree) -> xr.DataTree:
    """A fit as it is; of an audit one release, as ArviZ knows no dim of releases."""
    return tree.isel(release=0, drop=True) if "release" in tree["posterior"].dims else tree


GROUPS = {
    "posterior", "prior", "posterior_predictive", "prior_predictive", "sample_stats", "log_prior", "log_likelihood",
    "observed_data", "constant_data",
}  # fmt: skip
VECTOR = {"var_names": ["rate", "odds", "P(in)"]}

TABLE: dict[str, Callable[[xr.DataTree], Any]] = {
    "summary": lambda tree: az.summary(tree),
    "summary of the prior": lambda tree: az.summary(tree, group="prior"),
    "ess": lambda tree: az.ess(tree),
    "rhat": lambda tree: az.rhat(tree),
    "mcse": lambda tree: az.mcse(tree),
    "hdi": lambda tree: az.hdi(tree),
    "bfmi": lambda tree: az.bfmi(tree),
    "psense_summary": lambda tree: az.psense_summary(tree, prior_var_names=["rate"] if sampled(tree) else ["step"]),
    "loo": lambda tree: az.loo(tree, var_name="noisy"),
    "extract": lambda tree: az.extract(tree, num_samples=10),
    "diagnose": lambda tree: az.diagnose(tree),
    "compare": lambda tree: az.compare({"one": tree, "same": tree}, var_name="noisy"),
}
FIGURES: dict[str, Callable[[xr.DataTree], Any]] = {
    "trace_dist": lambda tree: az.plot_trace_dist(tree, **VECTOR),
    "rank": lambda tree: az.plot_rank(tree, **VECTOR),
    "forest": lambda tree: az.plot_forest(tree, **VECTOR),
    "dist": lambda tree: az.plot_dist(tree, **VECTOR),
    "pair": lambda tree: az.plot_pair(tree, **VECTOR),
    "parallel": lambda tree: az.plot_parallel(tree, **VECTOR),
    "ess": lambda tree: az.plot_ess(tree, **VECTOR),
    "mcse": lambda tree: az.plot_mcse(tree, **VECTOR),
    "autocorr": lambda tree: az.plot_autocorr(tree, **VECTOR),
    "energy": lambda tree: az.plot_energy(tree),
    "prior_posterior": lambda tree: az.plot_prior_posterior(tree, **VECTOR),
    "ppc_dist": lambda tree: az.plot_ppc_dist(tree, var_names=["noisy"], num_samples=20),
    "ppc_dist of the prior": lambda tree: az.plot_ppc_dist(tree, group="prior_predictive", num_samples=20),
    "ppc_pit": lambda tree: az.plot_ppc_pit(tree, var_names=["noisy"]),
    "ecdf_pit": lambda tree: az.plot_ecdf_pit(ranks(tree)),
    "loo_pit": lambda tree: az.plot_loo_pit(tree, var_names=["noisy"]),
    "psense_dist": lambda tree: az.plot_psense_dist(tree, var_names=["rate"]),
    "bf": lambda tree: az.plot_bf(tree, var_names=["rate"], ref_val=2.0),
}


def sampled(tree: xr.DataTree) -> bool:
    return "step" not in tree["posterior"]


def ranks(tree: xr.DataTree) -> xr.DataTree:
    """Where each released number falls among those predicted of it."""
    predicted, seen = tree["posterior_predictive"]["noisy"], tree["observed_data"]["noisy"]
    place = (predicted < seen).mean(("chain", "draw")).values
    return az.from_dict({"prior_sbc": {"noisy": place[None]}})


@pytest.fixture
def closed() -> Iterator[None]:
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.mark.slow
@pytest.mark.usefixtures("closed")
@pytest.mark.parametrize("name", TREES)
def test_arviz_reads_every_tree(trees: dict[str, xr.DataTree], name: str) -> None:
    one = single(trees[name])
    failed = {}
    drawn = name in ("enumerated fit", "sampled audit")  # the groups of the two others are made alike
    for function, read in (TABLE | (FIGURES if drawn else {})).items():
        try:
            read(one)
        except Exception as error:
            failed[function] = f"{type(error).__name__}: {error}"
        plt.close("all")
    assert not failed


ALONE: dict[str, Callable[[xr.DataTree], Any]] = {
    name: getattr(az, name) for name in ("summary", "ess", "rhat", "mcse", "hdi", "bfmi", "extract", "diagnose")
} | {
    name: getattr(az, f"plot_{name}")
    for name in ("dist", "forest", "trace_dist", "rank", "pair", "parallel", "energy", "autocorr", "prior_posterior")
}


@pytest.mark.slow
@pytest.mark.usefixtures("closed")
def test_arviz_reads_the_draws_of_an_exact_audit() -> None:
    plan = adv.Plan([adv.Level("block", adv.Geometric(1.0))])
    audit = adv.audit(plan, adv.Adversary(0.3, beliefs={"block": adv.Uniform()}), {"block": 3, "in": 1})
    failed = {}
    for release in (None, 30):
        tree = adv.to_draws(audit, release=release, sampling=SETTINGS, rng=1)
        of_one = {"psense_summary": az.psense_summary, "psense_dist": az.plot_psense_dist} if release else {}
        for function, read in (ALONE | of_one).items():
            try:
                read(tree)
            except Exception as error:
                failed[function, release] = f"{type(error).__name__}: {error}"
            plt.close("all")
    assert not failed


@pytest.mark.slow
@pytest.mark.parametrize("name", TREES)
def test_a_tree_is_the_same_after_a_file(trees: dict[str, xr.DataTree], name: str, tmp_path: Path) -> None:
    trees[name].to_netcdf(tmp_path / "tree.nc")
    with az.from_netcdf(tmp_path / "tree.nc") as again:
        assert set(again.children) == set(trees[name].children)
        xr.testing.assert_equal(again["posterior"].load().to_dataset(), trees[name]["posterior"].to_dataset())


@pytest.mark.slow
@pytest.mark.parametrize("name", TREES)
def test_every_tree_has_every_group_and_what_the_model_computes(trees: dict[str, xr.DataTree], name: str) -> None:
    tree = trees[name]
    assert set(tree.children) >= GROUPS
    assert "audit" not in name or tree["risk"]["status"] == "ok"
    one = single(tree)
    rate, present = one["posterior"]["rate"], one["posterior"]["in"]
    xr.testing.assert_allclose(one["posterior"]["odds"], (rate / (1.0 + rate)).rename("odds"))
    centre = present + one["posterior"]["expected"]
    assert one["posterior"]["expected"].dims == ("chain", "draw", "year")
    seen = one["observed_data"]["noisy"]
    np.testing.assert_allclose(
        one["log_likelihood"]["noisy"], norm(centre.values, NOISE.sigma).logpdf(seen.values), atol=1e-8
    )
    np.testing.assert_array_equal(one["observed_data"]["survey"], [1.8, 2.2])
    np.testing.assert_allclose(one["constant_data"]["exposure"], np.linspace(0.8, 1.3, 6))
    off = (one["posterior_predictive"]["noisy"] - centre).values / NOISE.sigma  # each release is of its own draw
    assert abs(off.mean()) < 5 / np.sqrt(off.size)
    assert off.std() == pytest.approx(1.0, abs=5 / np.sqrt(2 * off.size))
    before = one["prior_predictive"]["noisy"] - one["prior"]["in"] - one["prior"]["expected"]
    assert before.values.std() == pytest.approx(NOISE.sigma, abs=5 * NOISE.sigma / np.sqrt(2 * before.size))
    assert np.isfinite(one["sample_stats"]["energy"].values).all()
    library = {"inference_library", "inference_library_version", "created_at"}
    assert {"seed", "versions", "engine"} | library <= set(tree.attrs)
    assert library <= set(tree["posterior"].attrs)
    assert tree.attrs["inference_library"] == ("nutpie" if "sampled" in name else "dp-adversary")
    chance, group = tree["posterior"]["P(in)"], "exact" if "exact" in tree.children else "estimate"
    off, kept = abs(chance.mean(("chain", "draw")) - tree[group]["posterior"]), chance.sizes
    spread = chance.std(("chain", "draw")) / np.sqrt(kept["chain"] * kept["draw"])
    assert (off < (4 * spread if "audit" in name else 1e-9)).all()  # an audit keeps some of its draws
    if "audit" in name:
        assert tree["posterior"]["release"].values.tolist() == [0, 1, 2]
        assert float(chance.std(("chain", "draw")).min()) > 1e-4  # it moves with the rate
    trajectory = {"tree_depth", "n_steps", "acceptance_rate", "step_size"}
    assert set(tree["sample_stats"].data_vars) == {"diverging", "energy", "lp"} | (
        trajectory if "sampled" in name else set()
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", TREES)
def test_trees_come_back_from_files(trees: dict[str, xr.DataTree], name: str, tmp_path: Path) -> None:
    tree = trees[name]
    tree.to_netcdf(tmp_path / "tree.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "tree.nc", engine="h5netcdf") as back:
        xr.testing.assert_identical(back.load(), tree)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Cc]onsolidated metadata")
        tree.to_zarr(tmp_path / "tree.zarr")
        with xr.open_datatree(tmp_path / "tree.zarr", engine="zarr") as back:
            xr.testing.assert_equal(back.load(), tree)
