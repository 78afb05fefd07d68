"""Scenarios with a risk profile: verdicts that are the library's, and hold for the laws of the release themselves."""

import re
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import adversary as adv
from adversary.budget.recommend import recommend_epsilon
from adversary.budget.risk_bounds import relative_risk_bound
from adversary.budget.verdict_on_guarantee import own_losses, verdict
from adversary.report.answers import audit_answer, audit_page
from adversary.report.files.scenario import Scenario
from adversary.report.kit import audit_words, profile_verdict
from adversary.report.kit.rendering import to_markdown
from adversary.report.sections import profile_section
from tests import commands
from tests.tables import DATA

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
written = partial(commands.written, "scenario.toml")


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
    return audit_answer.solve(one, failure=failure, rng=1)


def audited(scenario: Scenario, failure: float | None = None) -> xr.DataTree:
    chance = scenario.failure if failure is None else failure
    return audit_of(scenario.path, scenario.path.read_text(encoding="utf-8"), chance)


def read(scenario: Scenario, failure: float | None = None) -> str:
    """The document in Markdown without its marks, on one line."""
    text = to_markdown(audit_page.document(scenario, audited(scenario, failure), words=False))
    return " ".join(text.replace("\\", "").replace("|", " ").split())


def stands(scenario: Scenario, name: str | None = None) -> dict[str, float]:
    """The numbers of one adversary in the profile."""
    found = audited(scenario)["tolerated"].to_dataset()
    one = found if name is None else found.sel(adversary=name)
    return {key: float(one[key]) for key in ("inclusion", "value", "ratio", "posterior", "outside")}


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
    assert float(found["epsilon"]) == pytest.approx(0.847298, abs=1e-6)


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
        worth, limit = section.tables[0].rows[-1][2:4]
        assert (float(worth) <= float(limit)) is (status == "kept")


@pytest.mark.parametrize("neighbours", VALUES)
@pytest.mark.parametrize("key", ["rho", 'noise = "geometric"\nepsilon'])
def test_the_budget_beside_a_broken_profile_keeps_it_and_a_hundredth_more_does_not(
    tmp_path: Path, neighbours: str, key: str
) -> None:
    found = judged(block(tmp_path, EVERYBODY, neighbours, f"{key} = 3"))
    name, number = named_budget(found.attrs["remedy"])
    assert key.endswith(name)
    for factor, status in ((1.0, "kept"), (1.01, "broken")):
        again = judged(block(tmp_path, EVERYBODY, neighbours, f"{key} = {factor * number!r}"))
        assert again.attrs["status"] == status
        assert bool(again.attrs["remedy"]) == (status == "broken")


def named_budget(remedy: str) -> tuple[str, float]:
    """The name of the budget in a remedy, and its number."""
    ((name, number),) = re.findall(r"^Noise of (\w+) ([\d.]+)(?: in all)? would keep it\.$", remedy)
    return name, float(number)


def test_the_budget_of_several_levels_is_named_in_all_and_noises_of_two_kinds_by_their_rho() -> None:
    profile = adv.RiskProfile.constant(2.0)
    gaussian, pure = adv.DiscreteGaussian.from_rho(0.4), adv.Geometric(1.0)
    for upper in (gaussian, pure):
        plan = adv.Plan([adv.Level("block", gaussian, 3), adv.Level("tract", upper)])
        said = audit_words.remedy(plan, profile, 0.05, "any")
        name, number = named_budget(said)
        assert name == "rho"
        assert " in all " in said
        for factor, status in ((1.0, "kept"), (1.01, "broken")):
            scaled = plan.scaled(factor * number / plan.total_rho)
            assert adv.budget.own_verdict(scaled, profile, 0.05).status == status


def test_the_budget_of_tables_published_again_is_that_of_one_release() -> None:
    noise = adv.DiscreteGaussian.from_rho(0.4)
    plan = adv.Plan([*(adv.Level(f"release {i}", noise, 0) for i in range(3)), adv.Level("last", noise)])
    said = audit_words.remedy(plan, adv.RiskProfile.constant(2.0), 0.05, "any", releases=4)
    rho = float(re.findall(r"^Noise of rho ([\d.]+) in each of 4 releases would keep it\.$", said)[0])
    for factor, status in ((1.0, "kept"), (1.01, "broken")):
        scaled = plan.scaled(factor * rho / 0.4)
        assert adv.budget.own_verdict(scaled, adv.RiskProfile.constant(2.0), 0.05).status == status


def test_where_no_noise_keeps_a_profile_the_remedy_names_the_input_to_change() -> None:
    plan = adv.Plan([adv.Level("block", adv.Geometric(1.0))])
    said = audit_words.remedy(plan, adv.RiskProfile.constant(1.0), 0.05, "any")
    assert said == "No noise keeps it: let profile tolerate more."


def test_a_promise_that_the_noise_does_not_keep_counts_for_nothing(tmp_path: Path) -> None:
    text = CLINIC.replace('epsilon = "4/5"', "epsilon = 2").replace('zCDP = "8/25"', "zCDP = 2")
    scenario = adv.load_scenario(written(tmp_path, text))
    found = judged(scenario)
    assert status_of(found)["pure DP"] == "kept"
    assert found["true"].values.tolist() == [True, False, True]
    assert found.attrs["status"] == "broken"
    section = profile_section.section(scenario, audited(scenario))
    assert section is not None
    assert section.finding == f"{profile_verdict.SENTENCES['broken']} Noise of epsilon 0.847 would keep it."
    assert section.tables[0].rows[1][1] == "kept, but the noise violates this guarantee"
    checked = commands.run("audit", str(scenario.path), "--quiet", "--check")
    assert (checked.exit_code, checked.stdout) == (3, "")
    (line,) = checked.stderr.splitlines()
    assert line.startswith("check failed: ")
    allowed, spent = re.findall(
        r"allows a privacy loss of ([\d.]+), and spent are (?:.*and )?([\d.]+) by the plan's", line
    )[0]
    own = own_losses(scenario.plan)
    epsilon = verdict(scenario.profile, own[0], scenario.failure, two=own[1]).loss
    assert float(allowed) == pytest.approx(recommend_epsilon(scenario.profile).loss, rel=1e-2)
    assert float(spent) == pytest.approx(epsilon, rel=1e-2)
    assert str(found.attrs["words"]) in line


def test_whom_the_profile_of_a_plan_is_not_about_stands_with_where_the_noise_lets_them_come(tmp_path: Path) -> None:
    profile = '[profile]\nkind = "ratio or absolute"\nratio = 3\nabsolute = "1/4"\n'
    profile += 'inclusion = ["1/1000", "1/200"]\nvalue = 1\n'
    scenario = block(tmp_path, profile)
    loss = scenario.plan.privacy_loss().loss_bound(scenario.failure)
    (most,) = re.findall(
        r"It is not about one who gives 1% to .* who may come to as much as ([\d.]+)%, but", read(scenario)
    )
    exact = 100.0 / (1.0 + 99.0 * np.exp(-loss))
    assert exact <= float(most) <= exact * 1.01


def test_a_check_fails_in_one_line_where_nothing_covers_the_profile(tmp_path: Path) -> None:
    profile = '[profile]\nkind = "ratio or absolute"\nratio = 3\nabsolute = "1/4"\ninclusion = ["1/100", "1/2"]\n'
    scenario = block(tmp_path, profile, "bounded")
    checked = commands.run("audit", str(scenario.path), "--quiet", "--check")
    assert (checked.exit_code, checked.stdout) == (3, "")
    assert "is not covered" in checked.stderr
    assert checked.stderr.count("\n") == 1


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
    assert judged(scenario).attrs["adversaries"] == "inclusion 1"
    assert profile_section.SURE_ONLY in read(scenario)


def test_one_count_is_judged_by_one_cell_whatever_the_neighbours(tmp_path: Path) -> None:
    counted = EVERYBODY + 'statistic = "count"\n'
    scenario = block(tmp_path, counted)
    assert scenario.statistic == "count"
    own, two = own_losses(scenario.plan, "count")
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
    text = read(scenario)
    assert profile_verdict.SENTENCES["not covered"] in text
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
    assert ("asks for nothing here" if status == "kept" else "the profile allows 0") in read(scenario)
    assert set(found["status"].values) == {status}
    assert float(found["epsilon"]) == (np.inf if status == "kept" else 0.0)


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
            "profile.statistic: must be one of 'any', 'count', got 'counts'",
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
    result = commands.run("audit", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1


def test_one_count_is_not_what_a_reader_of_two_cells_sees(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"profile\.statistic: must be 'any' where the adversary watches two cells"):
        block(tmp_path, EVERYBODY + 'statistic = "count"\n', "bounded")


def test_the_audited_readers_stand_in_the_profile_where_their_question_puts_them(tmp_path: Path) -> None:
    found = [stands(shipped(), name) for name in ("employer", "neighbour")]
    assert [(one["inclusion"], one["value"], one["ratio"]) for one in found] == [(0.05, 1.0, 5.0), (0.25, 1.0, 2.0)]
    assert [one["outside"] for one in found] == [0.0, 0.0]
    about_values = block(tmp_path, EVERYBODY.replace("ratio = 3", "ratio = 1.1"), noise="rho = 0.2")
    tree, one = audited(about_values), stands(about_values)
    assert (one["inclusion"], one["value"], one["posterior"]) == (1.0, 0.2, 0.25)
    above = tree["exact"]["posterior"].values > 0.25
    assert one["outside"] == pytest.approx(float(tree["release"]["weight"].values[above].sum()), abs=1e-10)
    assert one["outside"] > 0.1


def test_a_reader_to_whom_a_release_exactly_does_what_is_tolerated_is_not_beyond(tmp_path: Path) -> None:
    text = CLINIC.replace('epsilon = "4/5"', f"epsilon = {float(np.log(7 / 3))!r}").replace(
        'prior = "1/4"', 'prior = "1/8"'
    )
    scenario = adv.load_scenario(written(tmp_path, text))
    one = stands(scenario, "neighbour")
    assert one["ratio"] == 2.0
    assert float(audited(scenario)["exact"]["ratio"].sel(adversary="neighbour").max()) == pytest.approx(2.0, rel=1e-12)
    assert one["outside"] == 0.0


@pytest.mark.slow
def test_readers_whose_beliefs_of_others_hang_on_the_target_are_told_apart(tmp_path: Path) -> None:
    text = (DATA / "granville_1940.toml").read_text(encoding="utf-8")
    for belief, notes in (('"block group" = "uniform" ', 0), ('"block group" = { total = 60 } ', 1)):
        scenario = adv.load_scenario(written(tmp_path, text.replace('"block group" = "uniform" ', belief) + EVERYBODY))
        caveat = judged(scenario).attrs["caveat"]
        assert bool(caveat) is bool(notes)
        if notes:
            assert "this adversary believes of everybody else depends on" in caveat
            assert caveat in read(scenario)


@pytest.mark.parametrize("neighbours", ["unbounded", "bounded"])
def test_a_reader_of_two_cells_is_not_tied_by_that(neighbours: str, tmp_path: Path) -> None:
    assert profile_verdict.dependent_adversaries(block(tmp_path, EVERYBODY, neighbours)) == {}


def test_a_reader_who_holds_it_impossible_has_no_ratio(tmp_path: Path) -> None:
    scenario = adv.load_scenario(written(tmp_path, CLINIC.replace('prior = "1/20"', "prior = 0")))
    tolerated = audited(scenario)["tolerated"]
    assert tolerated["adversary"].values.tolist() == ["neighbour"]
    assert stands(scenario, "neighbour")["ratio"] == 2.0


def test_the_failure_asked_for_is_the_one_judged_by() -> None:
    answer = commands.answered("audit", str(DATA / "clinic_patients.toml"), "--failure", "0.5", silent=False)
    one = {"group": "profile", "definition": "zCDP"}
    assert commands.number(answer, "failure", **one) == 0.5
    loss = commands.number(answer, "loss", **one)
    assert loss == pytest.approx(adv.ZeroConcentratedDP(0.32).loss_bound(0.5))
    assert loss < 2.3


def test_noise_that_bounds_nothing_for_certain_is_said_to(tmp_path: Path) -> None:
    scenario = block(tmp_path, EVERYBODY)
    broken = profile_verdict.SENTENCES[profile_verdict.UNGUARANTEED]
    text = read(scenario, 0.0)
    assert broken in text
    assert "The noise bounds no privacy loss for certain; the profile allows 0.649." in text


def test_losses_are_rounded_up_and_what_is_allowed_down() -> None:
    text = read(shipped())
    for part in (
        "zCDP broken 2.31 0.847 5%",
        "pure DP kept 0.800 0.847 0%",
        "the plan's own loss kept 0.800 0.847 0%",
        "The planned release keeps the risk profile.",
        "neighbour 25% 25% 100% 2 50% 0%",
        profile_section.ASSUMED,
    ):
        assert part in text


def test_a_scenario_without_a_profile_is_as_it_was(tmp_path: Path) -> None:
    plain = adv.load_scenario(written(tmp_path, CLINIC.replace(PROFILE, "")))
    tree = audited(plain)
    assert plain.profile is None
    assert profile_verdict.with_verdicts(plain, tree) is tree
    assert not {"profile", "tolerated"} & set(tree.children)
    assert profile_section.section(plain, tree) is None
    assert "risk profile" not in read(plain)
    with pytest.raises(ValueError, match="profile: is required"):
        profile_verdict.verdicts(plain, tree)
    for name in set(tree.children) - {"release"}:
        xr.testing.assert_equal(tree[name].to_dataset(), audited(shipped())[name].to_dataset())


def test_every_truth_has_its_readers_and_all_share_the_verdicts(tmp_path: Path) -> None:
    text = CLINIC.replace("[truth]\nclinic = 12", "[truths.patient]\nclinic = 12\n[truths.stranger]\nclinic = 11")
    scenario = adv.load_scenario(written(tmp_path, text))
    tree = audited(scenario)
    assert tree["tolerated"]["truth"].values.tolist() == ["patient", "stranger"]
    assert tree["profile"].attrs["status"] == "kept"
    assert (tree["tolerated"]["outside"] == 0.0).all()  # under both truths, so that it is said once
    assert read(scenario).count("These adversaries and the risk profile") == 1
