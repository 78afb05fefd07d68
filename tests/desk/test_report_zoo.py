"""Reports and commands of the zoo: both truths, sequences, post-processing, sensitivity, diagnostics, in words."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

import adversary as adv
from adversary.desk.commands.cli import app
from adversary.desk.figures import audited_guarantees
from adversary.desk.files.scenario import Scenario
from adversary.desk.kit import audit_words
from adversary.desk.report import (
    audit_answer,
    descriptions,
    diagnostics_section,
    empirical_epsilon_section,
    other_neighbours,
    postprocessing_section,
    repeated_releases,
    report_text,
    results_section,
    sensitivity_section,
)
from adversary.desk.report.audit_page import render
from adversary.reader.risk.postprocessed_risk import consistency_risk
from tests.pages import page_without_pictures

DATA = Path(__file__).parents[2] / "data"
NEW = ("dare_1940_republished", "granville_1940_consistent", "clinic_visits")
RHO1 = 64 / 25 * 165 / 4099 * 3945 / 4097
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


@cache
def audited_page(name: str) -> tuple[Scenario, xr.DataTree]:
    scenario = adv.load_scenario(DATA / f"{name}.toml")
    return scenario, adv.audit(
        scenario.plan, scenario.adversary, scenario.truth, guarantee=scenario.guarantee, failure=scenario.failure, rng=1
    )


@cache
def page(name: str) -> str:
    """With its pictures for the scenario that has every section."""
    return (render if name == "clinic_visits" else page_without_pictures)(*audited_page(name))


@cache
def swept_page(name: str) -> sensitivity_section.SweepResult:
    return sensitivity_section.run_sweeps(audited_page(name)[0], progress=False)


def text_of(html: str) -> str:
    body = re.sub(r"<style>.*?</style>", "", html, flags=re.S)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body))).replace("\u00a0", " ")


def small(folder: Path, more: str = "", *changes: tuple[str, str]) -> Scenario:
    text = SMALL + more
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "small.toml"
    path.write_text(text, encoding="utf-8")
    return adv.load_scenario(path)


@pytest.mark.parametrize("name", NEW)
def test_shipped_scenarios_read_and_keep_their_promises(name: str) -> None:
    scenario, tree = audited_page(name)
    assert scenario.source
    assert (tree["bound"]["status"] == "holds").all()
    assert tree["risk"]["posterior_mean"].attrs["direction"] == "exact"


def test_five_releases_are_those_of_the_study() -> None:
    risk = audited_page("dare_1940_republished")[1]["risk"]
    assert float(risk["posterior_mean"].sel(adversary="1/2")) == pytest.approx(0.601372, abs=1e-6)
    assert float(risk["posterior_mean"].sel(adversary="1/10")) == pytest.approx(0.192711, abs=1e-6)


def test_fitted_children_are_those_of_the_published_algorithm_at_every_parent() -> None:
    scenario, tree = audited_page("granville_1940_consistent")
    block, group = scenario.plan.levels
    parents, weight = group.mechanism.releases(1)
    kept = weight > 1e-12
    means = [
        float(consistency_risk(int(parent), block.mechanism, 27, 1, 0.5)["posterior_mean"]) for parent in parents[kept]
    ]
    assert float(np.dot(weight[kept], means)) == pytest.approx(float(tree["risk"]["posterior_mean"]), abs=1e-9)


def test_pages_have_the_sections_that_apply_and_no_others() -> None:
    headings = {name: re.findall(r"<h3>(.*?)</h3>", page(name)) for name in NEW}
    always = ["What was promised", "Both truths, and what a reader could do"]
    assert headings["dare_1940_republished"] == [*always, "What each further release adds"]
    assert headings["granville_1940_consistent"] == [*always, "Post-processing"]
    assert headings["clinic_visits"] == [*always, "What each further release adds", "Post-processing", "Sensitivity"]
    for name in NEW:
        assert "Left out:" not in text_of(page(name))
        assert not re.search(r"\bnan\b", text_of(page(name)))


def test_every_reader_is_told_with_their_own_epsilon_against_the_accounting() -> None:
    text = text_of(page_without_pictures(*audited_page("dare_1940")))
    assert "Each of the 5 readers could do epsilon = 0.8930 (failing in 5 % of releases), against 1.043" in text
    found = empirical_epsilon_section.capabilities(*audited_page("dare_1940"))
    assert found["1/2"].epsilon == pytest.approx(0.893037, abs=1e-6)
    assert found["1/2"].posterior["out"] == pytest.approx(1 - 0.5236664, abs=1e-6)
    assert found["1/2"].allowed["privacy loss"] > 0.893037
    assert found["1/864"].posterior["in"] == pytest.approx(0.0014107, abs=1e-6)


def test_both_truths_of_the_study_stand_in_the_page() -> None:
    text = text_of(page_without_pictures(*audited_page("granville_1940")))
    assert "43.56 % 33.52 % 31.82 % 88.93 %" in text


def test_each_release_adds_what_the_study_says() -> None:
    scenario, tree = audited_page("dare_1940_republished")
    found = repeated_releases.after_each(scenario, tree, "block", "1/10")["posterior_mean"].sel(truth="in")
    assert found.sel(releases=1) == pytest.approx(0.1167606, abs=1e-6)
    assert found.sel(releases=5) == pytest.approx(0.192711, abs=1e-6)
    assert bool((found.diff("releases") > 0).all())
    assert "block 1/10 5 19.27 %" in text_of(page("dare_1940_republished"))


def test_post_processing_stands_between_the_raw_cell_and_the_bound() -> None:
    text = text_of(page("granville_1940_consistent"))
    for part in (
        "moved as little as possible, in squares, to add up to it",
        "those half way to the even one",
        "the cell's raw release alone 52.37 %",
        "everything raw: the bound 52.45 %",
        "It can tell more than the raw release of the same cell, because the siblings' releases enter it.",
        "The published numbers tell less than the cell's raw release alone",
    ):
        assert part in text


def test_an_adjusted_cell_that_tells_more_than_its_raw_release_is_told(tmp_path: Path) -> None:
    adjusted = '[plan.postprocessing]\nkind = "least squares"\n[truth]'
    scenario = small(
        tmp_path, "", ("rho = 0.3\nsiblings = 2", f"rho = {RHO1}\nsiblings = 27"), ("rho = 0.4", "rho = 300"),
        ("[truth]", adjusted), ("block = 1\ntract = 2", "block = 21\ntract = 60"),
        ("{ upper = 6 }", "{ total = 60 }"), ('prior = "1/4"', "prior = 0.5"), ("known = 0", "known = 20"),
    )  # fmt: skip
    reader = scenario.adversary
    assert isinstance(reader, adv.Adversary)
    alone, published, bound = (
        float(one["posterior_mean"].sel(truth="in"))
        for one in postprocessing_section.compared(scenario, xr.DataTree(), reader).values()
    )
    assert alone == pytest.approx(0.5236664, abs=1e-6)
    assert bound == pytest.approx(0.524502, abs=1e-6)
    assert alone < published < bound
    text = text_of(page_without_pictures(scenario, adv.audit(scenario.plan, reader, scenario.truth)))
    assert "The published numbers tell more than the cell's raw release alone" in text


def test_the_attack_is_told_in_words() -> None:
    text = text_of(page("clinic_visits"))
    assert "that the target responded (a participation attack: this is what “in” means)" in text
    assert "“In” means, in a participation attack, that the target responded." in text
    assert "Neighbours bounded, both read: adversary: a participation attack needs a plan of one cell" in text
    assert "Poisson with a rate not known: a Gamma law of shape 4 and rate 2, times 3 (6 people expected)" in text
    assert "At the tract, numbers below 0 are published as 0." in text
    assert "the tract is published 2 times" in text


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
        assert said in descriptions.reader(scenario.plan, scenario.adversary, "")  # type: ignore[arg-type]
    unknown = small(
        tmp_path, "", ('prior = "1/4"', "unknown = { n = 3, chance = 0.5 }"), ("block = 1", "block = 1\nin = 1")
    )
    said = descriptions.reader(unknown.plan, unknown.adversary, "")  # type: ignore[arg-type]
    assert (
        "does not know all the others in the block: the block's count in the cell is between 0 and 3, 1 on average"
        in said
    )
    assert "and 2 if in" in said


def test_a_flat_belief_about_each_sibling_is_warned_about(tmp_path: Path) -> None:
    flat = small(tmp_path, "", ("{ upper = 6 }", '{ each = "uniform" }'))
    assert len(warnings(flat)) == 1
    assert warnings(small(tmp_path, "", ("{ upper = 6 }", "{ each = [0.5, 0.5] }"))) == []


def warnings(scenario: Scenario) -> list[str]:
    tree = adv.audit(scenario.plan, scenario.adversary, scenario.truth, draws=10, rng=1)
    return audit_words.warnings(tree)


def test_what_a_mistaken_belief_does_is_told_under_both_truths() -> None:
    text = text_of(page("clinic_visits"))
    assert "The belief “sure of 20” pushes towards “in” whatever the truth" in text
    gone = swept_page("clinic_visits")
    row = gone.swept["beliefs"].sel(beliefs="sure of 20")
    for truth in ("in", "out"):
        assert f"{100 * float(row['posterior_mean'].sel(truth=truth)):.2f} % with the target {truth}" in text


EFFECTS = {
    "makes little difference": (0.001, -0.001),
    "pushes towards “in”": (0.1, 0.2),
    "pushes towards “out”": (-0.1, -0.001),
    "tells the two truths apart better": (0.1, -0.1),
    "tells the two truths apart worse": (-0.1, 0.1),
}


@pytest.mark.parametrize("said", EFFECTS)
def test_the_words_for_a_belief_follow_both_changes(said: str) -> None:
    def risk(present: float, out: float) -> xr.Dataset:
        values = {name: ("truth", [present, out]) for name in ("posterior_mean", "prob_correct")}
        return xr.Dataset({**values, "possible": ("truth", [True, True])}, coords={"truth": ["in", "out"]})

    moved = EFFECTS[said]
    assert said in sensitivity_section.belief_line("b", risk(0.5, 0.5), risk(0.5 + moved[0], 0.5 + moved[1]))


def test_a_belief_that_leaves_one_truth_is_said_to(tmp_path: Path) -> None:
    more = "[sensitivity.beliefs.few]\ntract = { upper = 1 }\n"
    lines = list(sensitivity_section.belief_lines(sensitivity_section.run_sweeps(small(tmp_path, more))))
    assert "only one truth is possible" in lines[0]
    assert "outside the reader's belief" in lines[1]


def test_the_sensitivity_command_prints_both_truths_and_writes_figures_and_data(tmp_path: Path) -> None:
    more = '[sensitivity]\nprior = [0.1, 0.5]\nrho = [0.2, 0.7]\n[sensitivity.beliefs."sure of 5"]\n'
    more += "tract = { total = 5 }\n"
    scenario, out = small(tmp_path, more), tmp_path / "out"
    result = CliRunner().invoke(app, ["sensitivity", str(scenario.path), "--out", str(out), "--json"])
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    rows = {(row["input"], str(row["value"])): row for row in answer["rows"]}
    assert set(rows) == {
        ("as it is", "None"), ("prior", "0.1"), ("prior", "0.5"), ("rho", "0.2"), ("rho", "0.7"),
        ("beliefs", "sure of 5"),
    }  # fmt: skip
    risk = adv.audit(scenario.plan, scenario.adversary, {"block": 0, "tract": 1})["risk"]
    assert rows["as it is", "None"]["out"]["posterior_mean"] == pytest.approx(float(risk["posterior_mean"]), abs=1e-9)
    drawn = {f"{name}.{kind}" for name in ("tornado", "fan_prior", "fan_rho") for kind in ("svg", "png")}
    assert {path.name for path in out.iterdir()} == {*drawn, "sensitivity.nc"}
    with xr.open_datatree(out / "sensitivity.nc", engine="h5netcdf") as data:
        assert set(data.children) == {"base", "tornado", "prior", "rho", "beliefs"}
    shown = CliRunner().invoke(app, ["sensitivity", str(scenario.path)])
    assert "sure of 5" in shown.stdout
    assert "How far the answers move, under both truths" in shown.stdout


def test_a_file_without_ranges_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = small(tmp_path).path
    result = CliRunner().invoke(app, ["sensitivity", str(path), "--out", str(tmp_path / "out")])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {path}: sensitivity: is required")
    assert list(tmp_path.iterdir()) == [path]


def test_one_json_object_holds_both_truths_for_every_reader_and_truth(tmp_path: Path) -> None:
    truths = (
        "[truth]\nblock = 1\ntract = 2",
        "[truths.few]\nblock = 1\ntract = 2\n[truths.many]\nblock = 1\ntract = 5",
    )
    readers = (
        '[adversary]\nprior = "1/4"\nknown = 0\n[adversary.beliefs]\ntract',
        "[adversaries.a]\nprior = 0.5\nknown = 0\n[adversaries.a.beliefs]\ntract",
    )
    scenario = small(tmp_path, "", truths, readers)
    tree = adv.audit(scenario.plan, scenario.adversary, scenario.truth)
    both = audit_answer.summary(scenario, tree)["both_truths"]
    assert set(both) == {"a"}
    assert set(both["a"]) == {"few", "many"}
    for name in ("few", "many"):
        risk = tree["risk"].sel(adversary="a", truth=name)
        assert both["a"][name]["posterior_mean"]["in"] == pytest.approx(float(risk["posterior_mean"]), abs=1e-9)


def sampled(scenario: Scenario, *, failed: float) -> xr.DataTree:
    """An exact audit dressed as a sampled one, some of whose fits failed."""
    tree = adv.audit(scenario.plan, scenario.adversary, scenario.truth, guarantee=scenario.guarantee)
    groups = {name: node.to_dataset() for name, node in tree.children.items()}
    posterior, risk, bound = groups.pop("exact"), groups["risk"], groups["bound"]
    size = posterior.sizes["release"]
    status = np.where(np.arange(size) == 0, "unreliable" if failed else "ok", "ok")
    posterior = posterior.assign(r_hat=("release", np.full(size, 1.003)), ess=("release", np.full(size, 400.0)))
    posterior = posterior.assign(divergences=("release", np.zeros(size)), status=("release", status))
    if failed:
        kept = ("prior",)
        risk = risk.assign({name: xr.full_like(risk[name], np.nan) for name in risk if name not in kept})
        bound = bound.assign(
            status=xr.full_like(bound["status"], "unreliable", dtype="<U10"), outside=bound["outside"] * np.nan
        )
    risk = risk.assign(status="unreliable" if failed else "ok", unreliable_mass=failed)
    made = xr.DataTree.from_dict({**groups, "estimate": posterior, "risk": risk, "bound": bound})
    made.attrs.update({**tree.attrs, "engine": "mcmc"})
    return made


def test_diagnostics_stand_in_page_tables_and_json(tmp_path: Path) -> None:
    scenario = small(tmp_path)
    tree = sampled(scenario, failed=0.0)
    assert diagnostics_section.worst(scenario, tree)[""]["r_hat"] == 1.003
    text = text_of(page_without_pictures(scenario, tree))
    assert "Diagnostics Posteriors were sampled (engine mcmc)" in text
    assert "1.003 400 0" in text
    answer = audit_answer.summary(scenario, tree)
    assert answer["status"] == "ok"
    assert answer["diagnostics"]["ess"] == 400.0
    assert not list(diagnostics_section.reasons(diagnostics_section.worst(scenario, tree)))


def test_where_a_sampler_failed_the_word_stands_instead_of_the_number(tmp_path: Path) -> None:
    scenario = small(tmp_path)
    tree = sampled(scenario, failed=0.07)
    row = results_section.results(scenario, tree).rows[0]["cells"]
    assert row[1:] == ("unreliable",) * 6
    text = text_of(page_without_pictures(scenario, tree))
    assert "no number is given; the section on diagnostics says why" in text
    assert "releases with a share of 7 % in all could not be sampled" in text
    assert "some posteriors could not be sampled, so that this cannot be judged" in text
    assert not re.search(r"\bnan\b", text)
    answer = audit_answer.summary(scenario, tree)
    assert answer["posterior_mean"] == answer["prob_correct"] == answer["status"] == "unreliable"
    json.dumps(answer, allow_nan=False)


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
    assert [row["cells"][0] for row in report_text.levels(scenario).rows] == ["block", "tract"]
    assert "published one by one" in report_text.published(scenario)


SIMULATED = """
title = "simulated"
neighbours = "unbounded"
[plan]
[[plan.level]]
name = "block"
noise = "laplace"
epsilon = 1
siblings = 2
[[plan.level]]
name = "tract"
noise = "laplace"
epsilon = 1
releases = 2
[truth]
block = 1
tract = 3
[adversary]
prior = 0.4
known = 0
[adversary.beliefs]
tract = { upper = 6 }
[sensitivity]
prior = [0.1, 0.8]
siblings = [1, 3]
"""


@cache
def simulated_page() -> tuple[Scenario, xr.DataTree, str]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "simulated.toml"
        path.write_text(SIMULATED, encoding="utf-8")
        scenario = adv.load_scenario(path)
        tree = adv.audit(scenario.plan, scenario.adversary, scenario.truth, draws=600, rng=5)
        return scenario, tree, text_of(page_without_pictures(scenario, tree))


def test_a_simulated_quantity_has_one_value_and_one_error_wherever_it_stands() -> None:
    scenario, tree, text = simulated_page()
    row = results_section.results(scenario, tree).rows[0]["cells"]
    expected, right = row[1], row[5]
    assert " ± " in expected
    assert " ± " in right
    others = {
        "neighbours": other_neighbours.alternatives(scenario, tree)[0].rows[0]["cells"][-3:],
        "both truths": empirical_epsilon_section.section(scenario, tree).table.rows[0]["cells"],  # type: ignore[union-attr]
        "releases": repeated_releases.section(scenario, tree).table.rows[-1]["cells"],  # type: ignore[union-attr]
        "sensitivity": sensitivity_section.section(scenario, tree).table.rows[0]["cells"],  # type: ignore[union-attr]
    }
    for where, cells in others.items():
        assert expected in cells, where
        assert right in cells, where
    text = text.partition(" In words ")[0]
    assert text.count(expected.replace("\u00a0", " ")) == 2 + len(others)  # and the first sentence
    assert text.count(expected.replace("\u00a0", " ").partition(" ±")[0]) == 2 + len(others)
    law = audited_guarantees.audited_posteriors(scenario, tree)[""]
    assert law.mean("in") == pytest.approx(float(tree["risk"]["posterior_mean"]), rel=1e-12)


def test_the_error_of_a_simulated_epsilon_is_about_its_spread_over_seeds() -> None:
    scenario, tree, _ = simulated_page()
    errors, found = [], []
    for seed in range(12):
        tree.attrs["seed"] = str(seed)
        one = empirical_epsilon_section.capabilities(scenario, tree)[""]
        assert one.epsilon is not None
        found.append(one.epsilon)
        errors.append(one.errors["epsilon"])
    tree.attrs["seed"] = "5"
    assert 0.4 < np.mean(errors) / np.std(found, ddof=1) < 2.5


def test_exact_numbers_carry_no_error() -> None:
    assert "±" not in text_of(page("dare_1940_republished")).split("How to read the numbers")[0].replace("± is one", "")


def test_what_is_not_the_sampler_s_is_called_the_exact_engine_s(tmp_path: Path) -> None:
    more = "[sensitivity]\nprior = [0.1, 0.5]\n"
    scenario = small(tmp_path, more, ("rho = 0.4", "rho = 0.4\nround = 2\nreleases = 2"))
    failed = text_of(page_without_pictures(scenario, sampled(scenario, failed=0.07)))
    assert failed.count("The sampler failed on some releases") == 1
    assert "simulated releases; ±" not in failed
    assert "with the lowest release alone" not in failed
    assert failed.count("Numbers here come from the exact engine, not from the sampler that failed.") == 4
    assert "The rows that are not highlighted come from the exact engine." in failed
    worked = text_of(page_without_pictures(scenario, sampled(scenario, failed=0.0)))
    assert "The sampler failed" not in worked
    assert worked.count("Numbers here come from the exact engine, not from the engine of the audit (mcmc).") == 4
    assert "exact engine" not in text_of(page("clinic_visits")).partition(" In words ")[0]


def test_a_sweep_over_siblings_says_that_beliefs_stay() -> None:
    said = "the beliefs stay as the file has them"
    assert said in simulated_page()[2]
    scenario = simulated_page()[0]
    ranges = replace(scenario.sensitivity, siblings=())  # type: ignore[type-var]
    gone = sensitivity_section.run_sweeps(replace(scenario, sensitivity=ranges), progress=False)  # type: ignore[arg-type]
    assert not list(sensitivity_section.sibling_lines(gone))


def test_fans_pass_through_the_rows_of_the_table_and_the_scenario_itself() -> None:
    gone = swept_page("clinic_visits")
    for dim in ("prior", "rho"):
        drawn, rows = gone.smooth(dim), gone.swept[dim]
        assert drawn[dim].to_index().is_monotonic_increasing
        assert drawn[dim].to_index().is_unique
        np.testing.assert_array_equal(
            drawn["posterior_mean"].sel({dim: rows[dim]}).values, rows["posterior_mean"].transpose(dim, "truth").values
        )
        own = drawn["posterior_quantile"].sel({dim: gone.own(dim)}, method="nearest")
        assert float(own[dim]) == pytest.approx(gone.own(dim), rel=1e-9)
        np.testing.assert_allclose(
            own.transpose(*gone.base["posterior_quantile"].dims), gone.base["posterior_quantile"]
        )
