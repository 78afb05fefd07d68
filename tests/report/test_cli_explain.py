"""`adversary explain` and the words of the report: the library's own texts, each under its name, and escaped."""

import json
import re
from functools import cache, partial
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import adversary as adv
from adversary._core import percentage
from adversary.budget.recommend import Recommendation, recommend_epsilon
from adversary.budget.release_budget import ReleaseBudget, allocate
from adversary.budget.verdict_on_guarantee import verdict
from adversary.report.answers import audit_page, explain_answer
from adversary.report.commands.options import SEED
from adversary.report.files.profile_file import load_profile_file
from adversary.report.files.scenario import Scenario
from adversary.report.kit.rendering import to_html
from adversary.report.words import guarantee_facts
from adversary.report.words.explanation import AUDIENCES, explain
from tests import commands
from tests.commands import flat
from tests.tables import DATA

CLINIC = (DATA / "clinic_patients.toml").read_text(encoding="utf-8")
KINDS = {
    "pure DP": (("--epsilon", "1/2"), adv.PureDP(0.5)),
    "approximate DP": (("--epsilon", "1", "--delta", "1e-6"), adv.ApproximateDP(1.0, 1e-6)),
    "zCDP": (("--rho", "0.1"), adv.ZeroConcentratedDP(0.1)),
    "Gaussian DP": (("--mu", "0.5"), adv.GaussianDP(0.5)),
}


run = partial(commands.run, "explain")
answered = partial(commands.answered, "explain")
written = partial(commands.written, "scenario.toml")


def texts_of(answer: dict[str, Any]) -> dict[str, dict[str, str]]:
    """By subject: its title, and its texts by audience."""
    found: dict[str, dict[str, str]] = {}
    for one in answer["records"]:
        found.setdefault(one["subject"], {})[one.get("audience", "title")] = one["value"]
    return found


def told(*arguments: str) -> dict[str, dict[str, str]]:
    return texts_of(answered(*arguments))


def notes(*arguments: str) -> list[str]:
    return [line for line in answered(*arguments)["attributes"]["notes"].split("\n\n") if line]


def refused(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr


@cache
def clinic() -> tuple[Scenario, xr.DataTree]:
    one = adv.load_scenario(DATA / "clinic_patients.toml")
    return one, adv.audit(one.plan, one.adversary, one.truth, guarantee=one.guarantee, failure=one.failure, rng=SEED)


@pytest.mark.parametrize("definition", KINDS)
def test_a_promise_is_told_in_the_library_s_words_to_everybody(definition: str) -> None:
    asked, guarantee = KINDS[definition]
    answer = answered(*asked, "--audience", "all")
    assert answer["title"].startswith(definition)
    (texts,) = texts_of(answer).values()
    for audience in AUDIENCES:
        assert texts[audience] == explain(guarantee, audience)
    assert (answer["attributes"]["topic"], answer["attributes"]["notes"]) == ("all", "")


def test_the_screen_has_the_text_for_the_person_in_the_data_unless_told() -> None:
    shown = flat(run("--rho", "0.1").stdout)
    assert "What zCDP guarantees. For the person in the data" in shown
    for paragraph in explain(adv.ZeroConcentratedDP(0.1)).split("\n\n"):
        assert flat(paragraph) in shown
    assert "For a regulator" not in shown


def test_priors_failure_and_releases_are_the_ones_asked_for() -> None:
    asked = ("--rho", "0.1", "--prior", "1/5", "--prior", "0.3", "--failure", "0.01", "--releases", "6")
    expected = explain(adv.ZeroConcentratedDP(0.1), "regulator", priors=[0.2, 0.3], failure=0.01, releases=6)
    assert told(*asked, "--audience", "regulator")["zCDP"]["regulator"] == expected


@pytest.mark.parametrize("topic", ["guarantee", "pure or approximate", "composition"])
def test_every_topic_of_a_promise(topic: str) -> None:
    more = ("--releases", "3") if topic == "composition" else ()
    asked = ("--epsilon", "1", "--delta", "1e-6", "--topic", topic)
    expected = explain(adv.ApproximateDP(1.0, 1e-6), topic=topic, releases=3)
    assert told(*asked, *more)["approximate DP"]["lay"] == expected


def test_a_scenario_is_told_promise_by_promise_with_its_profile_and_its_audit() -> None:
    scenario, tree = clinic()
    texts = told(str(scenario.path), "--audience", "technical")
    assert list(texts) == ["zCDP", "pure DP", "profile", "verdict", "audit"]
    for name, guarantee in (scenario.guarantee or {}).items():
        assert texts[name]["technical"] == explain(guarantee, "technical")
    assert scenario.profile is not None
    best = recommend_epsilon(scenario.profile)
    assert texts["profile"]["technical"] == explain(best, "technical", topic="tolerance")
    own = verdict(scenario.profile, scenario.plan.privacy_loss(), 0.05)
    assert own.status == "kept"
    assert texts["verdict"]["technical"] == explain(own, "technical")
    assert texts["audit"]["technical"] == explain(tree, "technical")
    assert "7.95" in texts["audit"]["technical"]


def test_only_what_the_topic_fits_is_told() -> None:
    path = str(DATA / "clinic_patients.toml")
    assert list(told(path, "--topic", "guarantee")) == ["zCDP", "pure DP"]
    assert list(told(path, "--topic", "budget")) == ["profile", "verdict"]
    assert list(told(path, "--topic", "tolerance")) == ["profile"]
    assert list(told(path, "--topic", "audit")) == ["audit"]


def test_a_replaced_count_is_audited() -> None:
    scenario = clinic()[0].with_truth({"clinic": 11})
    tree = adv.audit(scenario.plan, scenario.adversary, scenario.truth, guarantee=scenario.guarantee, rng=SEED)
    found = told(str(scenario.path), "--topic", "audit", "--truth", "clinic=11")["audit"]["lay"]
    assert found == explain(tree)
    assert found != explain(clinic()[1])


def test_the_failure_of_the_file_is_the_one_told_unless_another_is_asked_for(tmp_path: Path) -> None:
    path = written(tmp_path, CLINIC.replace("failure = 0.05", "failure = 0.2"))
    for more, failure in ((), 0.2), (("--failure", "0.1"), 0.1):
        text = told(path, "--topic", "guarantee", *more)["zCDP"]["lay"]
        assert text == explain(adv.ZeroConcentratedDP(0.32), failure=failure)


def test_a_scenario_that_promises_nothing_is_told_by_its_noise(tmp_path: Path) -> None:
    text = re.sub(r"\[guarantee\].*?\n\n", "", CLINIC, flags=re.S)
    texts = told(written(tmp_path, text), "--topic", "guarantee")
    assert list(texts) == ["privacy loss"]
    assert texts["privacy loss"]["title"] == "What the noise itself delivers"
    assert texts["privacy loss"]["lay"] == explain(clinic()[0].plan.privacy_loss())


@pytest.mark.parametrize("topic", [None, "guarantee", "pure or approximate", "composition"])
def test_a_promise_that_the_noise_does_not_keep_is_told_as_such(topic: str | None, tmp_path: Path) -> None:
    path = written(tmp_path, CLINIC.replace('epsilon = "4/5"', "epsilon = 2"))
    more = () if topic is None else ("--topic", topic, *(("--releases", "3") if topic == "composition" else ()))
    texts = told(path, *more, "--audience", "all")
    assert texts["pure DP"]["title"] == "What pure DP guarantees, which the noise does not keep"
    for audience in AUDIENCES:
        assert texts["pure DP"][audience] == explain(adv.PureDP(0.8), audience, kept=False)
    assert "percentage points" in texts["privacy loss"]["lay"]
    if topic is None:
        assert "not enough to keep" in texts["verdict"]["lay"]


def test_what_the_noise_does_is_told_by_the_verdict_and_not_by_the_profile(tmp_path: Path) -> None:
    for epsilon in (0.5, 3):
        text = CLINIC.replace('epsilon = "4/5"', f"epsilon = {epsilon}")
        texts = told(written(tmp_path, text), "--topic", "budget", "--audience", "all")
        for audience in AUDIENCES:
            assert not re.search("cannot be exceeded|ends no higher|upper bound", texts["profile"][audience])
        assert ("none of them can be brought beyond it" in texts["verdict"]["lay"]) is (epsilon == 0.5)


TIED = """title = "a total"
neighbours = "unbounded"
[plan]
[[plan.level]]
name = "clinic"
noise = "geometric"
epsilon = 0.79
siblings = 1
[[plan.level]]
name = "town"
noise = "geometric"
epsilon = 0.05
[truth]
clinic = 12
town = 25
[adversaries.tied]
prior = "1/8"
known = 11
[adversaries.tied.beliefs]
town = { total = 25 }
[adversaries.free]
prior = "1/8"
known = 11
[adversaries.free.beliefs]
town = "uniform"
[guarantee]
"pure DP" = 0.84
"""


def test_readers_whose_beliefs_hang_on_the_target_are_told_apart(tmp_path: Path) -> None:
    path = written(tmp_path, TIED)
    (note,) = notes(path, "--topic", "guarantee")
    assert note.startswith("What adversary tied believes of everybody else depends on whether the target is in.")
    assert "stretch over up to 2 people" in note
    assert flat(note) in flat(run(path, "--topic", "guarantee").stdout)
    profile = '[profile]\nkind = "ratio or absolute"\nratio = 2\nabsolute = "1/4"\nvalue = 1\n'
    assert notes(written(tmp_path, TIED + profile), "--topic", "budget")[1] == explain_answer.NOT_OF_PROFILE
    assert "town = { total = 25 }" in TIED
    free = TIED.replace("town = { total = 25 }", 'town = "uniform"')
    assert notes(written(tmp_path, free), "--topic", "guarantee") == []
    shipped = str(DATA / "granville_1940_consistent.toml")
    assert len(notes(shipped, "--topic", "guarantee")) == 1


def test_the_truth_of_an_audit_is_among_the_notes() -> None:
    found = notes(str(DATA / "clinic_patients.toml"), "--topic", "audit")
    assert found == ["True counts of the cell: clinic 12; in truth the target is “in”."]


def test_of_bounded_neighbours_it_is_said_what_a_record_stands_for() -> None:
    path = str(DATA / "dare_1940_bounded.toml")
    replaced = guarantee_facts.REPLACED.format(record="record")
    assert notes(path, "--topic", "guarantee") == [replaced]
    assert flat(replaced) in flat(run(path, "--topic", "guarantee").stdout)


def test_a_profile_file_is_told_profile_by_profile() -> None:
    path = DATA / "durham_infant_mortality.toml"
    file = load_profile_file(path)
    answer = answered(str(path), "--audience", "all")
    assert answer["title"] == file.title
    assert list(texts_of(answer)) == list(file.profiles)
    for texts, profile in zip(texts_of(answer).values(), file.profiles.values(), strict=True):
        best = recommend_epsilon(profile, statistic=file.statistic, round_down=file.round_down)
        for audience in AUDIENCES:
            assert texts[audience] == explain(best, audience)
    guarantee = told(str(path), "--topic", "guarantee")
    assert all("no higher than" in texts["lay"] for texts in guarantee.values())


def promised(name: str, releases: int, failure: float, delta: float) -> dict[str, ReleaseBudget]:
    """What keeps the profile of a file with one profile, by the names of its texts."""
    file = load_profile_file(DATA / f"{name}.toml")
    best = recommend_epsilon(file.profiles[""], statistic=file.statistic, round_down=file.round_down)
    return {
        "profile, pure DP": allocate(best, releases=releases, composition="basic"),
        "profile, approximate DP": allocate(best, "approximate DP", failure=failure, delta=delta, releases=releases),
        "profile, zCDP": allocate(best, "zCDP", failure=failure, releases=releases),
    }


@pytest.mark.parametrize(
    ("more", "releases", "failure"),
    [((), 12, 0.01), (("--releases", "4"), 4, 0.01), (("--failure", "0.1"), 12, 0.1)],
)
def test_releases_failure_and_delta_of_a_profile_file_are_those_of_its_texts(
    more: tuple[str, ...], releases: int, failure: float
) -> None:
    texts = told(str(DATA / "survey_profile.toml"), *more, "--audience", "all")
    expected = promised("survey_profile", releases, failure, 1e-6)
    assert list(texts) == ["profile", *expected]
    for name, made in expected.items():
        for audience in AUDIENCES:
            assert texts[name][audience] == explain(made, audience)
    best = next(iter(expected.values())).recommended
    assert texts["profile"]["lay"] == explain(best, topic="tolerance")
    assert f"each of {releases} releases" in texts["profile, zCDP"]["title"]


def test_several_releases_of_a_profile_file_compose_what_each_may_have() -> None:
    texts = told(str(DATA / "survey_profile.toml"), "--topic", "composition")
    for name, made in promised("survey_profile", 12, 0.01, 1e-6).items():
        assert made.guarantee is not None
        assert texts[name]["lay"] == explain(made.guarantee, topic="composition", releases=12, failure=0.01)
    assert "For 12 publications" in texts["profile, pure DP"]["lay"]


def test_a_profile_that_rounds_to_nothing_is_told_unrounded(tmp_path: Path) -> None:
    path = tmp_path / "profile.toml"
    path.write_text('round_down = 2\n[profile]\nkind = "difference"\nby = 0.001\n', encoding="utf-8")
    text = told(str(path))["profile"]["lay"]
    assert "would end no higher than" in text
    assert "cannot be kept" not in text


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--epsilon", "1", "--topic", "guarantee", "--releases", "3"), "--releases"),
        (("--epsilon", "1", "--topic", "pure or approximate", "--prior", "0.2"), "--prior"),
        ((str(DATA / "clinic_patients.toml"), "--topic", "tolerance", "--failure", "0.1"), "--failure"),
        ((str(DATA / "clinic_patients.toml"), "--topic", "audit", "--prior", "0.1"), "--prior"),
        ((str(DATA / "survey_profile.toml"), "--topic", "tolerance", "--releases", "2"), "--releases"),
    ],
)
def test_an_option_that_changes_nothing_is_refused(arguments: tuple[str, ...], option: str) -> None:
    assert f"{option} does not apply to topic" in refused(*arguments)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "give either a file or one of --epsilon, --rho and --mu, got neither"),
        ((str(DATA / "clinic_patients.toml"), "--epsilon", "1"), "got both"),
        (("--epsilon", "1", "--rho", "1"), "give exactly one of --epsilon, --rho and --mu"),
        (("--rho", "1", "--delta", "0.1"), "--delta belongs to --epsilon, got it with --rho"),
        (("--delta", "0.1"), "--delta belongs to --epsilon"),
        (("--epsilon", "-1"), "epsilon must be"),
        (("--epsilon", "one"), "--epsilon must be a number"),
        (("--epsilon", "1", "--audience", "judge"), "audience must be one of"),
        (("--epsilon", "1", "--topic", "audits"), "topic must be one of 'guarantee'"),
        (
            ("--epsilon", "1", "--topic", "audit"),
            "topic must be one of 'guarantee', 'pure or approximate', 'composition'",
        ),
        (("--epsilon", "1", "--topic", "composition"), "composition needs releases"),
        (("--epsilon", "1", "--releases", "1.5"), "--releases must be a whole number"),
        (("--epsilon", "1", "--prior", "2"), "--prior must be in [0, 1], got 2.0"),
        (("--epsilon", "1", "--truth", "block=1"), "--truth replaces a count of a scenario file"),
        ((str(DATA / "survey_profile.toml"), "--truth", "block=1"), "--truth replaces a count of a scenario file"),
        (("no such file.toml",), "no such file.toml: No such file"),
        ((str(DATA / "dare_1940.toml"), "--topic", "budget"), "topic must be one of"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(arguments: tuple[str, ...], named: str) -> None:
    assert named in refused(*arguments)


def test_a_file_that_is_not_toml_is_named(tmp_path: Path) -> None:
    assert "scenario.toml: not a TOML file" in refused(written(tmp_path, "= what"))


def text_of(html: str) -> str:
    body = re.sub(r"<style>.*?</style>", "", html, flags=re.S)
    return flat(unescape(re.sub(r"<[^>]+>", " ", body)))


def test_the_report_has_the_texts_of_every_promise_and_of_the_audit() -> None:
    scenario, tree = clinic()
    html = to_html(audit_page.document(scenario, tree))
    text = text_of(html).rpartition(" In words ")[2]
    assert scenario.profile is not None
    subjects = [*(scenario.guarantee or {}).values(), recommend_epsilon(scenario.profile), tree]
    for subject in subjects:
        topic = "tolerance" if isinstance(subject, Recommendation) else None
        for audience in ("lay", "technical"):
            for paragraph in explain(subject, audience, topic=topic).split("\n\n"):
                assert flat(paragraph.replace("`", "")) in text
    # and how to read the numbers, and the scenario as it was read
    assert html.count("<details>") == 2 * (len(subjects) + 1) + 2
    assert "replaced by another" not in text


def test_the_page_and_the_command_tell_of_the_audit_s_own_failure() -> None:
    scenario, _ = clinic()
    tree = adv.audit(
        scenario.plan, scenario.adversary, scenario.truth, guarantee=scenario.guarantee, failure=0.2, rng=SEED
    )
    told = {one.title.removesuffix(". For the person in the data"): one for one in explain_answer.page(scenario, tree)}
    assert told["What zCDP guarantees"].paragraphs == explain(adv.ZeroConcentratedDP(0.32), failure=0.2).split("\n\n")


def test_a_text_that_fails_is_a_line_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = commands.answered("explain", "--rho", "0.1", "--audience", "all")
    told = explain_answer.explain

    def fails(thing: Any, audience: str, **options: Any) -> str:
        if audience == "lay":
            raise KeyError("word")
        return told(thing, audience, **options)

    monkeypatch.setattr(explain_answer, "explain", fails)
    result = commands.run("explain", "--rho", "0.1", "--audience", "all", "--json", "--out", str(tmp_path))
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == "warning: For the person in the data: KeyError: 'word'"
    texts = {row["audience"]: row["value"] for row in commands.rows(json.loads(result.stdout), "text")}
    assert texts == {row["audience"]: row["value"] for row in commands.rows(whole, "text")} | {"lay": ""}


def test_the_page_has_a_card_a_figure_and_what_the_file_says_of_itself(tmp_path: Path) -> None:
    scenario = adv.load_scenario(DATA / "granville_1940.toml")
    assert commands.run("explain", str(scenario.path), "--topic", "guarantee", "--out", str(tmp_path)).exit_code == 0
    page = commands.flat((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.index(scenario.description[:40]) < page.index('class="card')
    assert (tmp_path / "posterior_by_prior.svg").exists()
    most = scenario.guarantee["zCDP"].loss_bound(0.05)
    rise = 1.0 / (1.0 + 9.0 * np.exp(-most))
    assert percentage(rise, True) in page


def test_a_profile_alone_is_limited_by_all_its_releases_together_and_several_profiles_by_none() -> None:
    one = commands.flat(commands.run("explain", str(DATA / "survey_profile.toml")).stdout)
    assert "in all releases together: limits on every adversary" in one
    several = commands.flat(commands.run("explain", str(DATA / "durham_infant_mortality.toml")).stdout)
    assert "can rise to" not in several.split("The risk that is tolerated")[0]
