"""The gallery: bounds as of the guarantees alone, expectations as of an audit, order, page and command."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import adversary as adv
from adversary.report import plot
from tests.commands import run

RECORDS = adv.releases.records()
FEW = {
    name: RECORDS[name]
    for name in ("us_broadband", "exposure_notifications", "apple_emoji", "census_pl94", "uber_flex")
}
NAMES = ("google_mobility", "census_sdhc", "census_pl94", "ctdc_victims", "wikimedia_views", "apple_emoji")


@pytest.fixture(scope="module")
def tree() -> object:
    return adv.releases.gallery(FEW)


@pytest.mark.parametrize("name", NAMES)
def test_bounds_are_those_of_the_guarantee(name: str) -> None:
    record = replace(RECORDS[name], scenario=None)
    bounds = adv.releases.gallery({name: record})["bounds"].to_dataset().sel(release=name, relation="stated")
    guarantee = record.guarantee
    chance = 0.0 if np.isfinite(guarantee.loss_bound(0.0)) else 0.05
    for prior in bounds["prior"].values:
        most = guarantee.posterior_bounds(float(prior), chance)[1]
        assert float(bounds["posterior"].sel(prior=prior)) == pytest.approx(most, rel=1e-12)
    assert float(bounds["failure"]) == chance
    assert float(bounds["detections"]) == pytest.approx(guarantee.power(0.05))
    assert float(bounds["attack_success"]) == pytest.approx(guarantee.attack_success(0.01))


def test_a_year_is_the_periods_together() -> None:
    record = replace(RECORDS["wikimedia_russia"], scenario=None)
    bounds = adv.releases.gallery({"x": record})["bounds"].to_dataset().sel(release="x", relation="stated", prior=0.01)
    assert float(bounds["posterior_year"]) == pytest.approx(adv.PureDP(1.2).posterior_bounds(0.01)[1])


def test_expectations_are_those_of_an_audit(tree: object) -> None:
    for name, prior in itertools.product(("us_broadband", "exposure_notifications"), (0.01, 0.5)):
        found = tree["scenarios"].to_dataset().sel(release=name)
        scenario = RECORDS[name].scenario
        who = replace(scenario.adversary, prior=prior)
        alone = adv.audit(scenario.plan, who, scenario.truth, also=(), rng=2020)["risk"]
        here = found.sel(prior=prior)
        error = here["mcse"].item()
        assert (error > 0.0) is (name == "us_broadband")  # continuous noise: its releases are simulated
        assert float(here["posterior"]) == pytest.approx(float(alone["posterior_mean"]), rel=1e-10, abs=5.0 * error)
        ends = alone["posterior_quantile"].sel(quantile=[0.05, 0.95]).values
        np.testing.assert_allclose([here["lower"], here["upper"]], ends, rtol=1e-10 if error == 0.0 else 0.02)


def test_no_expectation_above_its_bound(tree: object) -> None:
    bounds, scenarios = tree["bounds"].to_dataset(), tree["scenarios"].to_dataset()
    for name in scenarios["release"].values:
        most = bounds["posterior"].sel(release=name, relation="stated")
        assert (scenarios["posterior"].sel(release=name) <= most + 1e-12).all()


def test_worst_first_and_unpublished_last(tree: object) -> None:
    most = tree["bounds"]["posterior"].sel(relation="replaced").isel(prior=0).values
    assert np.isnan(most[-1])
    assert (np.diff(most[:-1]) <= 0.0).all()


def test_a_scenario_that_fails_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    from adversary.releases import audited_records

    whole = audited_records.audit

    def broken(plan: object, *args: object, **kwargs: object) -> object:
        if plan is RECORDS["us_broadband"].scenario.plan:
            raise ValueError("no such noise")
        return whole(plan, *args, **kwargs)

    monkeypatch.setattr(audited_records, "audit", broken)
    tree = adv.releases.gallery(FEW)
    assert json.loads(tree.attrs["left_out"]) == {"us_broadband": "no such noise"}
    assert list(tree["scenarios"]["release"].values) == ["exposure_notifications"]


def test_refused() -> None:
    with pytest.raises(ValueError, match="records: must hold at least one"):
        adv.releases.gallery({})
    with pytest.raises(ValueError, match="prior"):
        adv.releases.gallery(FEW, priors=[1.5])


def test_figure_has_a_row_for_every_release_with_a_bound(tree: object) -> None:
    figure = plot.gallery(tree).figure
    labels = [one.get_text() for one in figure.axes[0].get_yticklabels()]
    order = ("census_pl94", "us_broadband", "exposure_notifications", "apple_emoji")
    assert labels == [FEW[n].title for n in order]
    assert "2 of 4 releases" in figure.get_suptitle()
    alone = adv.releases.gallery({"uber_flex": FEW["uber_flex"]})
    with pytest.raises(ValueError, match="no release has published parameters"):
        plot.gallery(alone)


RECORD = """title = "<b>My</b> counts"
curator = "An office"
neighbours = "unbounded"
[guarantee]
zCDP = 0.5
[[source]]
kind = "primary"
url = "https://example.org"
[[check]]
about = "sum of two tables"
stated = "0.5"
sum = ["0.2", "0.2"]
"""


@pytest.mark.slow
def test_command_on_files_of_both_notations(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(RECORD)
    registry = str(Path(__file__).with_name("registry_record.yaml"))
    done = run("gallery", str(mine), registry, "--full", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    assert "Made-up counts" in done.output
    assert "Sum of two tables: 0.4, where 0.5 is stated" in done.output
    page = (tmp_path / "out" / "report.html").read_text()
    assert "&lt;b&gt;My&lt;/b&gt; counts" in page
    assert "<b>My</b>" not in page


def test_command_on_one_file_and_json(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(RECORD)
    done = run("gallery", str(mine), "--prior", "0.02", "--json")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    (most,) = [
        one for one in answer["records"]
        if one["quantity"] == "posterior" and one["relation"] == "stated"
    ]  # fmt: skip
    assert most["direction"] == "upper"
    assert most["value"] == pytest.approx(adv.ZeroConcentratedDP(0.5).posterior_bounds(0.02, 0.05)[1])


def test_command_refuses_a_damaged_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(RECORD.replace("zCDP", "zCPD"))
    done = run("gallery", str(mine), "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert "mine.toml: guarantee.zCPD: unknown key" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_whole_gallery(tmp_path: Path) -> None:
    done = run("gallery", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "In 23 of 42 releases" in done.stdout
    assert "left out" not in done.stdout.lower()
    page = (tmp_path / "report.html").read_text()
    assert all(one.title in page for one in RECORDS.values())
