"""`adversary sensitivity`, and how plans and beliefs are described in words."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import adversary as adv
from adversary.driver import sweep
from adversary.report.files.scenario import Scenario
from adversary.report.kit import audit_words
from adversary.report.sections import descriptions, method_sections
from adversary.report.sections import sensitivity_sections as sensitivity_answer
from tests import commands
from tests.tables import DATA

SMALL = """
title = "small"
neighbours = "unbounded"
[plan]
[[plan.level]]
name = "block"
rho = 0.3
siblings = 2
[[plan.level]]
name = "tract"
rho = 0.4
[truth]
block = 1
tract = 2
[adversary]
prior = "1/4"
known = 0
[adversary.beliefs]
tract = { upper = 6 }
"""


def small(folder: Path, more: str = "", *changes: tuple[str, str]) -> Scenario:
    text = SMALL + more
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "small.toml"
    path.write_text(text, encoding="utf-8")
    return adv.load_scenario(path)


@cache
def visits() -> tuple[Scenario, xr.DataTree]:
    scenario = adv.load_scenario(DATA / "clinic_visits.toml")
    return scenario, sensitivity_answer.solve(scenario)


@pytest.mark.slow
def test_rows_are_those_of_sweeps() -> None:
    scenario, tree = visits()
    assert scenario.sensitivity is not None
    for dim, values in scenario.sensitivity.given.items():
        group = "siblings" if dim == "siblings" else dim
        expected = sweep(scenario.plan, scenario.adversary, scenario.truth, **{dim: values}, progress=False)  # type: ignore[arg-type]
        for name in ("posterior_mean", "ratio_mean", "prob_correct"):
            np.testing.assert_allclose(tree[group][name], expected[name], rtol=1e-12)


@pytest.mark.slow
def test_the_command_answers_and_writes_both_truths(tmp_path: Path) -> None:
    more = '[sensitivity]\nprior = [0.1, 0.5]\nrho = [0.2, 0.7]\n[sensitivity.beliefs."sure of 5"]\n'
    more += "tract = { total = 5 }\n"
    scenario, out = small(tmp_path, more), tmp_path / "out"
    answer = commands.answered("sensitivity", str(scenario.path), "--out", str(out), silent=False)
    groups = {row["group"] for row in answer["records"]}
    assert groups == {"base", "extremes", "prior", "rho", "beliefs"}
    risk = adv.audit(scenario.plan, scenario.adversary, {"block": 0, "tract": 1}, also=(), progress=False)["risk"]
    base = commands.number(answer, "posterior_mean", group="base", truth="out")
    assert base == pytest.approx(float(risk["posterior_mean"]), abs=1e-9)
    assert {path.name for path in out.iterdir()} == {
        "report.html", "data.nc", "sensitivity.csv", "tornado.svg", "fan_prior.svg", "fan_rho.svg",
    }  # fmt: skip
    assert "sure of 5" in commands.run("sensitivity", str(scenario.path)).stdout


def test_a_section_that_fails_leaves_page_and_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ValueError("made to fail")

    monkeypatch.setattr(sensitivity_answer, "_table", fails)
    scenario, out = small(tmp_path, "[sensitivity]\nprior = [0.1, 0.5]\n"), tmp_path / "out"
    result = commands.run("sensitivity", str(scenario.path), "--out", str(out))
    assert (result.exit_code, result.stderr.splitlines()[0]) == (0, "warning: Sensitivity: made to fail")
    assert "Left out: made to fail" in (out / "report.html").read_text(encoding="utf-8")
    with xr.open_datatree(out / "data.nc") as tree:
        assert {"base", "extremes", "prior"} <= set(tree.children)


def test_a_file_without_ranges_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = small(tmp_path).path
    commands.refused(tmp_path, "sensitivity", str(path), words=f"error: {path}: sensitivity: is required")


def test_what_a_mistaken_belief_does_is_told_under_both_truths() -> None:
    scenario, tree = visits()
    (section,) = sensitivity_answer.document(scenario, tree).sections
    (line,) = [note for note in section.notes if "sure of 20" in note]
    assert "raises the posterior whatever the truth" in line
    row = tree["beliefs"].to_dataset().sel(beliefs="sure of 20")["posterior_mean"]
    for truth in ("in", "out"):
        assert f"{100 * float(row.sel(truth=truth)):.1f}% with the target {truth}" in line


EFFECTS = {
    "makes little difference": (0.001, -0.001),
    "raises the posterior": (0.1, 0.2),
    "lowers the posterior": (-0.1, -0.001),
    "separates the two truths better": (0.1, -0.1),
    "separates the two truths less well": (-0.1, 0.1),
}


@pytest.mark.parametrize("said", EFFECTS)
def test_the_words_for_a_belief_follow_both_changes(said: str) -> None:
    def risk(present: float, out: float) -> xr.Dataset:
        values = {"posterior_mean": ("truth", [present, out]), "possible": ("truth", [True, True])}
        return xr.Dataset(values, coords={"truth": ["in", "out"]})

    moved = EFFECTS[said]
    assert said in sensitivity_answer.belief_line("b", risk(0.5, 0.5), risk(0.5 + moved[0], 0.5 + moved[1]))


def test_a_belief_that_leaves_one_truth_is_said_to(tmp_path: Path) -> None:
    scenario = small(tmp_path, "[sensitivity.beliefs.few]\ntract = { upper = 1 }\n")
    (section,) = sensitivity_answer.document(scenario, sensitivity_answer.solve(scenario)).sections
    assert "only one truth is possible" in section.notes[0]
    assert "outside the adversary's belief" in section.notes[1]


def test_a_flat_belief_about_each_sibling_is_warned_about(tmp_path: Path) -> None:
    def warnings(scenario: Scenario) -> list[str]:
        return audit_words.warnings(adv.audit(scenario.plan, scenario.adversary, scenario.truth, draws=10, rng=1))

    assert len(warnings(small(tmp_path, "", ("{ upper = 6 }", '{ each = "uniform" }')))) == 1
    assert warnings(small(tmp_path, "", ("{ upper = 6 }", "{ each = [0.5, 0.5] }"))) == []


def test_the_attack_is_told_in_words() -> None:
    scenario, _ = visits()
    text = descriptions.adversaries(scenario.plan, scenario.adversaries)[0]
    assert "that the target responded (a participation attack: this is what “in” means)" in text
    assert "Poisson with a rate not known: a Gamma law of shape 4 and rate 2, times 3 (6 people expected)" in text
    assert descriptions.processing(scenario) == ["At the tract, numbers below 0 are published as 0."]
    assert "the tract is published 2 times" in method_sections.publication_words(scenario)


def test_beliefs_are_told_in_words(tmp_path: Path) -> None:
    cases = {
        '{ each = "uniform" }': "each other unit of the tract holds any number of people, all equally likely",
        '{ each = { law = "poisson", mu = 2 } }': (
            "each other unit of the tract holds a number of its own, all after poisson(mu = 2)"
        ),
        '{ law = "beta binomial", n = 40, alpha = 1, beta = 9 }': (
            "each of 40 people of the tract outside the block is in the cell with the same chance, which is not known: "
            "a Beta law, alpha = 1, beta = 9 (4 people expected)"
        ),
    }  # fmt: skip
    for written, said in cases.items():
        scenario = small(tmp_path, "", ("{ upper = 6 }", written))
        assert said in descriptions.adversaries(scenario.plan, scenario.adversaries)[0]
    unknown = small(
        tmp_path, "", ('prior = "1/4"', "unknown = { n = 3, chance = 0.5 }"), ("block = 1", "block = 1\nin = 1")
    )
    said = descriptions.adversaries(unknown.plan, unknown.adversaries)[0]
    assert "the block's count in the cell is between 0 and 3, 1 on average" in said
    assert "and 2 if in" in said


def test_repeated_levels_and_siblings_are_told_once(tmp_path: Path) -> None:
    scenario = small(
        tmp_path, "", ("rho = 0.4", "rho = 0.4\nround = 5\nclamp = 0\nreleases = 2"),
        ("[adversary]", "[truth.siblings]\nblock = [1, 0]\n[adversary]"),
    )  # fmt: skip
    assert descriptions.counts(scenario) == "block 1, tract 2, siblings of the block [1, 0]"
    assert descriptions.processing(scenario) == [
        "At the tract, numbers below 0 are published as 0; then numbers are rounded to multiples of 5, "
        "those half way to the even one."
    ]
    assert [row[0] for row in method_sections.levels(scenario).rows] == ["block", "tract"]
    assert "published one by one" in method_sections.publication_words(scenario)
