"""Scenarios with a risk profile: verdicts that are the library's, and hold for the laws of the release themselves."""

import json
import re
from functools import cache
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from rich.console import Console
from typer.testing import CliRunner

import adversary as adv
from adversary.desk.answers import profile_verdict
from adversary.desk.commands import cli
from adversary.desk.files.scenario import Scenario
from adversary.desk.report import audit_answer, profile_section
from adversary.policy.budget.recommend import recommend_epsilon
from adversary.policy.budget.risk_bounds import relative_risk_bound
from adversary.policy.budget.verdict_on_guarantee import verdict
from tests.pages import page_without_pictures

DATA = Path(__file__).parents[2] / "data"
CLINIC = (DATA / "clinic_patients.toml").read_text(encoding="utf-8")
PROFILE = CLINIC[CLINIC.index("[profile]") :]
BLOCK = """title = "one block"
neighbours = "{neighbours}"
[plan]
cells = {cells}
[[plan.level]]
name = "block"
{noise}
[truth]
block = {truth}
[adversary]
prior = "1/5"
known = {known}
"""
EVERYBODY = '[profile]\nkind = "ratio or absolute"\nratio = 3\nabsolute = "1/4"\n'
VALUES = {"unbounded": (1, "1", "0"), "bounded": (2, "[1, 0]", "[0, 0]")}


def written(folder: Path, text: str) -> Path:
    path = folder / "scenario.toml"
    path.write_text(text, encoding="utf-8")
    return path


def block(
    folder: Path, profile: str, neighbours: str = "unbounded", noise: str = "rho = 0.02", more: str = ""
) -> Scenario:
    cells, truth, known = VALUES[neighbours]
    text = BLOCK.format(neighbours=neighbours, cells=cells, noise=noise, truth=truth, known=known)
    return adv.load_scenario(written(folder, text + profile + more))


@cache
def audit_of(scenario_path: Path, text: str, failure: float) -> xr.DataTree:
    """One audit for every scenario that says the same."""
    del text
    one = adv.load_scenario(scenario_path)
    return adv.audit(one.plan, one.adversary, one.truth, guarantee=one.guarantee, failure=failure, rng=1)


def audited(scenario: Scenario, failure: float | None = None) -> xr.DataTree:
    chance = scenario.failure if failure is None else failure
    return audit_of(scenario.path, scenario.path.read_text(encoding="utf-8"), chance)


def judged(scenario: Scenario) -> xr.Dataset:
    return profile_verdict.verdicts(scenario, audited(scenario))


def status_of(found: xr.Dataset) -> dict[str, str]:
    return dict(zip(found["definition"].values.tolist(), found["status"].values.tolist(), strict=True))


def shipped() -> Scenario:
    return adv.load_scenario(DATA / "clinic_patients.toml")


def test_a_scenario_has_the_profile_of_its_file() -> None:
    scenario = shipped()
    assert scenario.profile == adv.RiskProfile.ratio_or_absolute(2.0, 0.25, value=1.0)
    assert scenario.statistic == "any"
    assert adv.load_scenario(DATA / "dare_1940.toml").profile is None


def test_every_promise_and_the_noise_are_judged_as_the_library_judges_them() -> None:
    scenario = shipped()
    found = judged(scenario)
    losses = {**(scenario.guarantee or {}), "privacy loss": scenario.plan.privacy_loss()}
    assert found["definition"].values.tolist() == list(losses)
    for name, guarantee in losses.items():
        assert scenario.profile is not None
        expected = verdict(scenario.profile, guarantee, 0.05, two=adv.Plan(scenario.plan.levels, 2).privacy_loss())
        one = found.sel(definition=name)
        assert (one["status"].item(), one["failure"].item()) == (expected.status, expected.failure)
        assert one["loss"].item() == pytest.approx(expected.loss, rel=1e-12)
        assert one["allowed"].item() == expected.allowed == pytest.approx(float(np.log(7 / 3)))
    assert status_of(found) == {"zCDP": "broken", "pure DP": "kept", "privacy loss": "kept"}
    assert found.attrs["status"] == "kept"
    assert found.attrs["epsilon"] == pytest.approx(0.847298, abs=1e-6)


def test_more_noise_than_the_profile_needs_keeps_it_and_less_breaks_it(tmp_path: Path) -> None:
    allowed = float(np.log(7 / 3))
    for epsilon, status in ((allowed, "kept"), (allowed * (1 + 1e-6), "broken")):
        text = CLINIC.replace('epsilon = "4/5"', f"epsilon = {epsilon!r}").replace('"pure DP" = "4/5"', "")
        scenario = adv.load_scenario(written(tmp_path, text))
        found = judged(scenario)
        assert status_of(found)["privacy loss"] == status
        assert found.attrs["status"] == status
        section = profile_section.section(scenario, audited(scenario))
        assert section is not None
        assert section.table is not None
        worth, limit = section.table.rows[-1]["cells"][2:4]
        assert (float(worth) <= float(limit)) is (status == "kept")


def test_a_promise_that_the_noise_does_not_keep_counts_for_nothing(tmp_path: Path) -> None:
    text = CLINIC.replace('epsilon = "4/5"', "epsilon = 2").replace('zCDP = "8/25"', "zCDP = 2")
    scenario = adv.load_scenario(written(tmp_path, text))
    found = judged(scenario)
    assert status_of(found)["pure DP"] == "kept"
    assert found["true"].values.tolist() == [True, False, True]
    assert found.attrs["status"] == "broken"
    section = profile_section.section(scenario, audited(scenario))
    assert section is not None
    assert section.lines[0] == profile_section.SAID["broken"]
    assert section.table is not None
    assert section.table.rows[1]["cells"][1] == "kept, but the noise does not keep this promise"


def laws(noise: adv.Mechanism) -> dict[str, Any]:
    """Two cells, (y1, y2) on a square: in S (1, 0), in and not in S (0, 1), out (0, 0)."""
    reach = int(9.0 * np.sqrt(noise.variance))
    y = np.arange(-reach, reach + 1)
    at = [np.exp(noise.log_prob(y, k)) for k in (0, 1)]
    return {"P": np.outer(at[1], at[0]), "N": np.outer(at[0], at[1]), "O": np.outer(at[0], at[0])}


@pytest.mark.parametrize("rho", [0.005, 0.02, 0.1])
def test_the_noise_of_a_plan_stays_within_its_equivalent_epsilon_but_for_the_failure(
    rho: float, tmp_path: Path
) -> None:
    scenario = block(tmp_path, EVERYBODY, noise=f"rho = {rho}")
    one = judged(scenario).sel(definition="privacy loss")
    e, law = float(one["loss"]), laws(scenario.plan.levels[0].mechanism)
    assert one["failure"] == 0.05
    worst = 0.0
    for p, q in [(1.0, 0.01), (1.0, 0.3), (0.5, 0.2), (0.2, 1.0), (0.01, 0.5), (0.9, 0.001)]:
        ratio = 1.0 / (p * q + (p * (1 - q) * law["N"] + (1 - p) * law["O"]) / law["P"])
        beyond = ratio > relative_risk_bound(p, q, e) * (1 + 1e-9)
        worst = max(worst, *(float(truth[beyond].sum()) for truth in law.values()))
    assert 0.005 < worst <= 0.05


@pytest.mark.parametrize("rho", [0.02, 0.1])
def test_between_bounded_neighbours_readers_sure_of_inclusion_are_within_theirs(rho: float, tmp_path: Path) -> None:
    scenario = block(tmp_path, EVERYBODY, "bounded", noise=f"rho = {rho}")
    one = judged(scenario).sel(definition="privacy loss")
    law = laws(scenario.plan.levels[0].mechanism)
    for q in (0.01, 0.2, 0.6):
        ratio = 1.0 / (q + (1 - q) * law["N"] / law["P"])
        beyond = ratio > relative_risk_bound(1.0, q, float(one["loss"]) / 2.0) * (1 + 1e-9)
        assert max(law["P"][beyond].sum(), law["N"][beyond].sum()) <= 0.05
    assert scenario.profile is not None
    slice_of = recommend_epsilon(scenario.profile.within(inclusion=(1.0, 1.0)))
    assert float(one["allowed"]) == 2.0 * slice_of.loss
    assert judged(scenario).attrs["readers"] == "inclusion 1"
    (line,) = profile_section.summary(scenario, audited(scenario))
    assert profile_section.SURE_ONLY in line


def test_one_count_is_judged_by_one_cell_whatever_the_neighbours(tmp_path: Path) -> None:
    counted = EVERYBODY + 'statistic = "count"\n'
    scenario = block(tmp_path, counted)
    assert scenario.statistic == "count"
    own, two = profile_verdict.own_losses(scenario.plan, "count")
    assert two is None
    one = judged(scenario).sel(definition="privacy loss")
    assert float(one["loss"]) == own.loss_bound(0.05)
    e, noise = float(one["loss"]), scenario.plan.levels[0].mechanism
    y = np.arange(-90, 92)
    inside, outside = (np.exp(noise.log_prob(y, k)) for k in (1, 0))
    for pq in (0.01, 0.2, 0.6):
        ratio = 1.0 / (pq + (1 - pq) * outside / inside)
        beyond = ratio > relative_risk_bound(pq, 1.0, e, statistic="count") * (1 + 1e-9)
        assert max(inside[beyond].sum(), outside[beyond].sum()) <= 0.05


def test_bounded_neighbours_do_not_cover_a_profile_about_inclusion(tmp_path: Path) -> None:
    scenario = block(tmp_path, PROFILE, "bounded", more='[guarantee]\nzCDP = "sum of levels"\n')
    found = judged(scenario)
    assert set(found["status"].values) == {"not covered"}
    assert found.attrs["status"] == "not covered"
    text = text_of(page_without_pictures(scenario, audited(scenario)))
    assert profile_section.SAID["not covered"] in text
    assert "unsure whether the person is in the data" in text


def test_what_is_published_exactly_is_not_covered(tmp_path: Path) -> None:
    text = CLINIC.replace('noise = "geometric"\nepsilon = "4/5"', 'noise = "exact"')
    text = text.replace('"pure DP" = "4/5"', "").replace(
        'zCDP = "8/25"                    # what that epsilon', "zCDP = 1 #"
    )
    found = judged(adv.load_scenario(written(tmp_path, text)))
    assert set(found["status"].values) == {"not covered"}
    assert np.isinf(found["loss"]).all()
    assert "published exactly" in found["words"].values[0]
    assert profile_verdict.answer(found)["verdicts"]["privacy loss"]["loss"] is None


@pytest.mark.parametrize(
    ("profile", "status"),
    [
        ('kind = "box"\nratio = 3\ninclusion = [0.5, 1]\nvalue = [0.8, 1]', "kept"),
        ('kind = "constant"\nratio = 1', "broken"),
    ],
)
def test_profiles_that_ask_for_nothing_or_for_too_much(profile: str, status: str, tmp_path: Path) -> None:
    scenario = block(tmp_path, f"[profile]\n{profile}\n")
    found = judged(scenario)
    (line,) = profile_section.summary(scenario, audited(scenario))
    assert ("asks for nothing here" if status == "kept" else "the profile allows 0.") in line
    assert set(found["status"].values) == {status}
    answer = profile_verdict.answer(found)
    assert answer["epsilon"] == (None if status == "kept" else 0.0)
    json.dumps(answer, allow_nan=False)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("ratio = 2", "ratoi = 2", "profile.ratoi: unknown key, got 'ratoi'; did you mean 'ratio'?"),
        ("absolute =", "absolut =", "profile.absolut: unknown key, got 'absolut'; did you mean 'absolute'?"),
        ("ratio = 2", "ratio = 0.5", "ratio must be at least 1, got 0.5"),
        ('absolute = "1/4"', "absolute = 2", "absolute must be a probability"),
        ("value = 1 ", "value = 0 ", "value must be"),
        ('"ratio or absolute"', '"ratio or absolut"', "did you mean 'ratio or absolute'?"),
        (
            "ratio = 2",
            'ratio = 2\nstatistic = "counts"',
            "profile.statistic: must be one of ('any', 'count'), got 'counts'",
        ),
        ("[profile]", "[profil]", "profil: unknown key, got 'profil'; did you mean 'profile'?"),
    ],
)
def test_what_is_wrong_with_a_profile_is_named(old: str, new: str, named: str, tmp_path: Path) -> None:
    assert old in CLINIC
    path = written(tmp_path, CLINIC.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(named)) as error:
        adv.load_scenario(path)
    assert str(error.value).startswith(f"{path}: ")
    result = CliRunner().invoke(cli.app, ["audit", str(path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1


def test_one_count_is_not_what_a_reader_of_two_cells_sees(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"profile\.statistic: must be 'any' where the reader watches two cells"):
        block(tmp_path, EVERYBODY + 'statistic = "count"\n', "bounded")


def test_the_audited_readers_stand_in_the_profile_where_their_question_puts_them(tmp_path: Path) -> None:
    scenario = shipped()
    found = profile_section.standings(scenario, audited(scenario))
    assert [(one.inclusion, one.value, one.tolerated) for one in found.values()] == [(0.05, 1.0, 5.0), (0.25, 1.0, 2.0)]
    assert [one.beyond for one in found.values()] == [0.0, 0.0]
    about_values = block(tmp_path, EVERYBODY.replace("ratio = 3", "ratio = 1.1"), noise="rho = 0.2")
    tree = audited(about_values)
    (one,) = profile_section.standings(about_values, tree).values()
    assert (one.inclusion, one.value, one.posterior) == (1.0, 0.2, 0.25)
    above = tree["exact"]["posterior"].values > 0.25
    assert one.beyond == pytest.approx(float(tree["release"]["weight"].values[above].sum()), abs=1e-10)
    assert one.beyond > 0.1


def test_a_reader_to_whom_a_release_exactly_does_what_is_tolerated_is_not_beyond(tmp_path: Path) -> None:
    text = CLINIC.replace('epsilon = "4/5"', f"epsilon = {float(np.log(7 / 3))!r}").replace(
        'prior = "1/4"', 'prior = "1/8"'
    )
    scenario = adv.load_scenario(written(tmp_path, text))
    one = profile_section.standings(scenario, audited(scenario))["neighbour"]
    assert one.tolerated == 2.0
    assert float(audited(scenario)["exact"]["ratio"].sel(adversary="neighbour").max()) == pytest.approx(2.0, rel=1e-12)
    assert one.beyond == 0.0


def test_readers_whose_beliefs_of_others_hang_on_the_target_are_told_apart(tmp_path: Path) -> None:
    text = (DATA / "granville_1940.toml").read_text(encoding="utf-8")
    for belief, notes in (('"block group" = "uniform" ', 0), ('"block group" = { total = 60 } ', 1)):
        scenario = adv.load_scenario(written(tmp_path, text.replace('"block group" = "uniform" ', belief) + EVERYBODY))
        tree = audited(scenario)
        section = profile_section.readers(scenario, tree)
        assert section is not None
        assert len(section.notes) == notes
        assert all("this reader believes of everybody else depends on" in note for note in section.notes)
        (line,) = profile_section.summary(scenario, tree)
        shown = StringIO()
        profile_section.show(scenario, tree, Console(file=shown, width=1000))
        caveat = audit_answer.summary(scenario, tree)["profile"]["caveat"]
        assert (caveat is None) is (notes == 0)
        if notes:
            assert [caveat] == list(section.notes)
            assert line.endswith(caveat)
            assert caveat in shown.getvalue()


@pytest.mark.parametrize("neighbours", ["unbounded", "bounded"])
def test_a_reader_of_two_cells_is_not_tied_by_that(neighbours: str, tmp_path: Path) -> None:
    assert profile_verdict.tied(block(tmp_path, EVERYBODY, neighbours)) == {}


def test_a_reader_who_holds_it_impossible_has_no_ratio(tmp_path: Path) -> None:
    scenario = adv.load_scenario(written(tmp_path, CLINIC.replace('prior = "1/20"', "prior = 0")))
    answer = audit_answer.summary(scenario, audited(scenario))["profile"]["readers"]
    assert answer["employer"] is None
    assert answer["neighbour"]["tolerated"] == 2.0


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli.app, list(arguments))
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_json_has_the_verdicts_and_the_netcdf_too(tmp_path: Path) -> None:
    answer = json.loads(run("audit", str(DATA / "clinic_patients.toml"), "--json", "--out", str(tmp_path)))["profile"]
    found = judged(shipped())
    assert (answer["status"], answer["statistic"], answer["words"]) == ("kept", "any", found.attrs["words"])
    assert answer["epsilon"] == found.attrs["epsilon"]
    for name, one in answer["verdicts"].items():
        for key in ("loss", "allowed", "failure", "status", "true"):
            assert one[key] == found[key].sel(definition=name).item()
    assert list(answer["readers"]) == ["employer", "neighbour"]
    with xr.open_datatree(tmp_path / "audit.nc", engine="h5netcdf") as tree:
        stored = tree["profile"].to_dataset().load()
    xr.testing.assert_equal(stored, found)
    assert stored.attrs == found.attrs
    assert "Whether the risk profile is kept" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_failure_asked_for_is_the_one_judged_by() -> None:
    path = str(DATA / "clinic_patients.toml")
    answer = json.loads(run("audit", path, "--json", "--failure", "0.5"))["profile"]["verdicts"]["zCDP"]
    assert answer["failure"] == 0.5
    assert answer["loss"] == pytest.approx(adv.ZeroConcentratedDP(0.32).loss_bound(0.5))
    assert answer["loss"] < 2.3


def test_noise_that_bounds_nothing_for_certain_is_said_to(tmp_path: Path) -> None:
    scenario = block(tmp_path, EVERYBODY)
    (line,) = profile_section.summary(scenario, audited(scenario, 0.0))
    broken = profile_section.SAID[profile_section.UNPROMISED]
    assert broken == "The noise does not keep the profile."
    assert line == f"{broken} The noise bounds no privacy loss for certain; the profile allows 0.6496."


def test_the_screen_rounds_losses_up_and_what_is_allowed_down() -> None:
    text = re.sub(r" +", " ", run("audit", str(DATA / "clinic_patients.toml")).replace("\u00a0", " "))
    assert "zCDP broken 2.309 0.8472 5 %" in text
    assert "pure DP kept 0.8000 0.8472 0 %" in text
    assert "The planned release keeps the profile." in text
    assert "neighbour 25 % 25 % 100 % 2.000 50.00 % 0 %" in text


def text_of(html: str) -> str:
    body = re.sub(r"<style>.*?</style>", "", html, flags=re.S)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body))).replace("\u00a0", " ")


def test_the_report_has_the_verdicts_the_readers_and_what_is_assumed() -> None:
    scenario = shipped()
    text = text_of(page_without_pictures(scenario, profile_verdict.judged(scenario, audited(scenario))))
    for part in (
        "The planned release keeps the profile. The noise limits the privacy loss to 0.8000 for certain; the profile",
        "zCDP broken 2.309 0.8472 5 %",
        "the plan's own loss kept 0.8000 0.8472 0 %",
        "employer 5 % 5 % 100 % 5.000 25.00 % 0 %",
        profile_section.ASSUMED,
    ):
        assert part in text


def test_names_of_readers_are_escaped(tmp_path: Path) -> None:
    text = CLINIC.replace("[adversaries.employer]", "[adversaries.'<script>alert(1)</script>']")
    scenario = adv.load_scenario(written(tmp_path, text))
    html = page_without_pictures(scenario, audited(scenario))
    assert "<script" not in html
    assert re.search(r"These readers and the profile.*&lt;script&gt;", html, flags=re.S)


def test_a_scenario_without_a_profile_is_as_it_was(tmp_path: Path) -> None:
    plain = adv.load_scenario(written(tmp_path, CLINIC.replace(PROFILE, "")))
    tree = audited(plain)
    assert plain.profile is None
    assert profile_verdict.judged(plain, tree) is tree
    assert "profile" not in audit_answer.summary(plain, tree)
    assert profile_section.section(plain, tree) is None
    assert profile_section.readers(plain, tree) is None
    assert "risk profile" not in page_without_pictures(plain, tree)
    assert "profile" not in run("audit", str(plain.path))
    with pytest.raises(ValueError, match="profile: is needed"):
        profile_verdict.verdicts(plain, tree)
    there, here = audit_answer.summary(shipped(), audited(shipped())), audit_answer.summary(plain, tree)
    del there["profile"]
    assert there == here


def test_every_truth_has_its_readers_and_all_share_the_verdicts(tmp_path: Path) -> None:
    text = CLINIC.replace("[truth]\nclinic = 12", "[truths.patient]\nclinic = 12\n[truths.stranger]\nclinic = 11")
    scenario = adv.load_scenario(written(tmp_path, text))
    answer = audit_answer.summary(scenario, audited(scenario))["profile"]
    assert list(answer["readers"]["employer"]) == ["patient", "stranger"]
    assert answer["status"] == "kept"
    assert (
        text_of(page_without_pictures(scenario, audited(scenario))).count("The planned release keeps the profile.") == 3
    )
