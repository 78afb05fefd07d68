"""The audit as a document: its numbers are the tree's, it is escaped, honest about rounding, and says what applies."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.special import expit, logit

import adversary as adv
from adversary.adversaries.risk import empirical_epsilon, upper_evidence
from adversary.adversaries.risk.postprocessed_risk import consistency_risk
from adversary.driver import EVERYTHING, GROUPS
from adversary.report.answers import audit_answer, audit_page, comparison, explain_answer
from adversary.report.files.scenario import Scenario
from adversary.report.kit import Document, Measured, as_json
from adversary.report.kit.rendering import to_html, to_markdown
from adversary.report.sections import method_sections, release_sections, result_sections
from adversary.report.words import explain
from tests import commands
from tests.report.test_cli import SIMULATED
from tests.tables import DATA


@cache
def audited(name: str) -> tuple[Scenario, xr.DataTree]:
    scenario = adv.load_scenario(DATA / f"{name}.toml")
    return scenario, audit_answer.solve(scenario, rng=1)


@cache
def document(name: str) -> Document:
    return audit_page.document(*audited(name))


def of(scenario: Scenario, **how: Any) -> Document:
    return audit_page.document(scenario, audit_answer.solve(scenario, rng=1, **how), words=False)


def titles(made: Document) -> list[str]:
    return [section.title for section in made.every_section]


def table(made: Document, name: str) -> list[list[str]]:
    """The cells of a table as they are shown, with plain spaces."""
    (found,) = [one for one in made.tables if one.name == name]
    return found.texts


def words(made: Document) -> str:
    return " ".join(re.sub(r"\\(.)", r"\1", to_markdown(made)).split())


def changed(folder: Path, name: str, *pairs: tuple[str, str], more: str = "") -> Scenario:
    text = (DATA / f"{name}.toml").read_text(encoding="utf-8")
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    path = folder / "scenario.toml"
    path.write_text(text + more, encoding="utf-8")
    return adv.load_scenario(path)


@pytest.mark.slow
def test_the_card_says_verdict_before_after_and_bound() -> None:
    card, summary = document("granville_1940").card, document("granville_1940").summary
    assert card is not None
    assert (summary.status, summary.verdict) == ("holds", "Every guarantee holds for every adversary here.")
    shown = dict(card.numbers)
    assert shown == {
        "Before the release": "50%",
        "After it, on average": "44%",
        "In 9 of 10 releases": "22% to 65%",
        "At most, by zCDP": "91.8%",
    }


SEVERAL = """neighbours = "unbounded"
failure = 0.05
[[plan.level]]
name = "block"
rho = 0.1
[truth]
block = 1
[adversary]
prior = 0.2
known = 0
[guarantee]
zCDP = 0.1
"approximate DP" = { epsilon = 3.0, delta = 1e-6 }
"pure DP" = 0.3
"""


def test_one_bound_stands_on_the_card_in_the_figure_in_words_and_beside_another_audit(tmp_path: Path) -> None:
    """The tightest guarantee that the noise satisfies, by its name; the same digits wherever it is written."""
    path = tmp_path / "several.toml"
    path.write_text(SEVERAL, encoding="utf-8")
    scenario = adv.load_scenario(path)
    made = of(scenario)
    reach = adv.ZeroConcentratedDP(0.1).loss_bound(0.05)
    low, high = (float(expit(logit(0.2) + sign * reach)) for sign in (-1.0, 1.0))
    assert reach < adv.ApproximateDP(3.0, 1e-6).loss_bound(0.05)
    assert scenario.plan.privacy_loss().loss_bound(0.05) < reach  # the own loss is sharper, and no guarantee
    assert made.card is not None
    card = dict(made.card.numbers)
    most = card["At most, by zCDP"]
    assert 100.0 * high <= float(most.removesuffix("%")) <= 100.0 * high + 0.1
    assert made.card.figure is not None
    axes = made.card.figure.draw()
    (whisker,) = (line for line in axes.lines if line.get_gid() == "bound 1 in 5")
    assert whisker.get_xdata() == pytest.approx([low, high], rel=1e-12)
    (row,) = (row for row in table(made, "bounds") if row[0] == "zCDP")
    assert row[2].endswith(f" to {most}")
    assert card["In 9 of 10 releases"] == "11% to 39%"
    spoken = explain(made.data)
    assert f" and {most.removesuffix('%')} in 100, at least 95 times in 100" in spoken
    assert "One guarantee was to keep" in spoken  # that of pure DP, which the noise does not satisfy
    assert "; zCDP allows" in words(made)
    other = commands.written("other.toml", tmp_path, SEVERAL.replace("prior = 0.2", "prior = 0.3"))
    answer = commands.answered("compare", str(path), other)
    assert commands.numbers(answer, "bound", file="several") == pytest.approx([high], rel=1e-12)
    assert f" {most} zCDP " in commands.flat(commands.printed("compare", str(path), other))


def test_adversaries_who_learn_as_much_are_named_together(tmp_path: Path) -> None:
    """Of a prior of 0.3 the ratio does not hang on the name: a headline does not choose one."""
    one = "[adversaries.{name}]\nprior = {prior}\nknown = 0\n"
    before, after = SEVERAL.split("[adversary]\nprior = 0.2\nknown = 0\n")
    for priors, said, card in (
        ({"a": 0.3, "b": 0.3, "c": 0.6}, "times the prior for adversaries a and b.", "adversary a, one of 2 who"),
        ({"a": 0.3, "b": 0.3}, "times the prior for all 2 adversaries.", "adversary a, one of 2 who learn as much"),
        ({"a": 0.3, "b": 0.4}, "times the prior for adversary a.", "Before the release, adversary a"),
    ):
        path = tmp_path / "readers.toml"
        readers = "".join(one.format(name=name, prior=prior) for name, prior in priors.items())
        path.write_text(before + readers + after, encoding="utf-8")
        made = of(adv.load_scenario(path))
        assert made.card is not None
        assert made.card.figure is not None
        assert said in made.card.figure.finding
        assert card in made.card.numbers[0][0]


def test_two_audits_with_the_same_answer_are_said_to_have_it(tmp_path: Path) -> None:
    paths = [commands.written(f"{name}.toml", tmp_path, SEVERAL) for name in ("one", "two")]
    assert re.search(
        r"The highest risk is the same in both, [\d.]+%; errors of [\d.]+ people\.",
        commands.flat(commands.printed("compare", *paths)),
    )
    other = commands.written("three.toml", tmp_path, SEVERAL.replace("prior = 0.2", "prior = 0.3"))
    assert "three raises the highest risk from " in commands.flat(commands.printed("compare", paths[0], other))


def test_less_risk_is_said_with_its_price_and_short_titles_name_the_plans(tmp_path: Path) -> None:
    more = SEVERAL.replace("rho = 0.1", "rho = 0.025")
    assert more != SEVERAL
    texts = {name: f'title = "Plan {name}"\n' + text for name, text in (("A", SEVERAL), ("B", more))}
    paths = [commands.written(f"{name}.toml", tmp_path, text) for name, text in texts.items()]
    shown = commands.flat(commands.printed("compare", *paths))
    said = r"Plan B lowers the highest risk from [\d.]+% to [\d.]+%, at the price of (.*) people"
    (errors,) = re.findall(said, shown)
    assert errors == "errors of 4.5 instead of 2.2"


def test_a_plan_without_a_guarantee_that_holds_is_bounded_by_its_own_loss(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(SEVERAL[: SEVERAL.index("zCDP")] + '"pure DP" = 0.3\n', encoding="utf-8")
    made = of(adv.load_scenario(path))
    assert made.card is not None
    own = adv.DiscreteGaussian.from_rho(0.1).privacy_loss().loss_bound(0.05)
    name, most = made.card.numbers[-1]
    assert name == "At most, by the plan's own loss"
    assert 100.0 * float(expit(logit(0.2) + own)) <= float(most.removesuffix("%"))


@pytest.mark.slow
def test_tables_show_the_numbers_of_the_tree() -> None:
    assert table(document("granville_1940"), "averages") == [
        ["50%", "43.6%", "22.2% to 64.7%", "0.871", "−6.44", "18.0%", "50%"]
    ]
    assert table(document("granville_1940"), "both truths") == [["43.6%", "33.5%", "18.0%", "1.85", "2.42", "2.06"]]
    assert [row[:3] for row in table(document("granville_1940"), "bounds")] == [
        ["zCDP", "holds", "8.24% to 91.8%"],
        ["approximate DP", "holds", "0.368% to 99.7%"],
        ["the plan's own loss", "holds", "11.3% to 88.7%"],
    ]
    for made in map(document, ("granville_1940", "dare_1940", "clinic_visits")):
        for one in made.tables:
            for row, shown in zip(one.rows, one.texts, strict=True):
                assert len(row) == len(shown) == len(one.columns)


@pytest.mark.slow_cases("dare_1940")
@pytest.mark.parametrize("name", ["dare_1940", "dare_1940_bounded"])
def test_both_meanings_of_the_budget_have_their_numbers(name: str) -> None:
    rows = [row for row in table(document(name), "other meanings") if row[1] == "1/2"]
    assert rows == [
        ["bounded, both cells read", "1/2", "10.1", "52.4%", "1.05"],
        ["bounded, one cell read", "1/2", "10.1", "51.2%", "1.02"],
        ["unbounded, one cell read", "1/2", "5.04", "52.4%", "1.05"],
    ]
    (found,) = [one for one in document(name).tables if one.name == "other meanings"]
    marked = {found.rows[i][0] for i in found.marked}
    assert marked == {"bounded, both cells read" if "bounded" in name else "unbounded, one cell read"}


@pytest.mark.slow
def test_sections_are_those_that_apply(tmp_path: Path) -> None:
    always = {"For whom this holds", "What the guarantees allow", "What else the same budget could mean"}
    some = {"Repeated releases", "Post-processing", "Sensitivity", "The risk profile", "Diagnostics"}
    for name, own in (
        ("dare_1940", set()),
        ("dare_1940_republished", {"Repeated releases"}),
        ("granville_1940_consistent", {"Post-processing"}),
        ("clinic_visits", {"Repeated releases", "Post-processing", "Sensitivity"}),
        ("clinic_patients", {"The risk profile"}),
    ):
        found = set(titles(document(name)))
        assert always <= found, name
        assert found & some == own, name


def test_five_releases_are_those_of_the_study(tmp_path: Path) -> None:
    scenario, tree = audited("dare_1940_republished")
    risk = tree["risk"]["posterior_mean"]
    assert float(risk.sel(adversary="1/2")) == pytest.approx(0.601372, abs=1e-6)
    assert float(risk.sel(adversary="1/10")) == pytest.approx(0.192711, abs=1e-6)
    repeated = tree["repeated"]["posterior_mean"].isel(count=0).sel(target="in")
    np.testing.assert_allclose(repeated.sel(releases=5), risk, rtol=1e-12)
    text = scenario.path.read_text(encoding="utf-8")
    for number in (1, 3):
        file = tmp_path / "fewer.toml"
        file.write_text(text.replace("releases = 5", f"releases = {number}"), encoding="utf-8")
        one = adv.load_scenario(file)
        alone = adv.audit(one.plan, one.adversary, one.truth, also=(), progress=False)["risk"]["posterior_mean"]
        np.testing.assert_allclose(repeated.sel(releases=number), alone, rtol=1e-12)


def test_post_processing_lies_between_the_raw_cell_and_the_bound() -> None:
    _, tree = audited("granville_1940_consistent")
    found = tree["postprocessing"]["posterior_mean"].sel(target="in")
    block, group = audited("granville_1940_consistent")[0].plan.levels
    parents, weight = group.mechanism.releases(1)
    kept = weight > 1e-12
    means = [
        float(consistency_risk(int(parent), block.mechanism, 27, 1, 0.5)["posterior_mean"]) for parent in parents[kept]
    ]
    assert float(np.dot(weight[kept], means)) == pytest.approx(float(found.sel(published="published")), abs=1e-9)
    assert float(found.sel(published="published")) == float(tree["risk"]["posterior_mean"])
    assert float(found.sel(published="published")) < float(found.sel(published="raw"))


@pytest.mark.slow
def test_empirical_epsilon_is_below_what_the_accounting_allows() -> None:
    for name in ("granville_1940", "dare_1940", "clinic_visits"):
        scenario, tree = audited(name)
        readers = scenario.adversary if isinstance(scenario.adversary, dict) else {"": scenario.adversary}
        for key, reader in readers.items():
            one = tree["empirical"]["epsilon"]
            own = float(one.sel(adversary=key)) if key else float(one)
            assert own == pytest.approx(empirical_epsilon(scenario.plan, reader, scenario.truth), rel=1e-12)
            limit = tree["bound"]["loss_bound"].sel(definition="privacy loss")
            assert own <= float(limit.sel(adversary=key) if key else limit)


@pytest.mark.slow_cases("granville_1940_bounded-rho 0.346 in all: 0.0992 at the block and 0.246 at the block group")
@pytest.mark.parametrize(
    ("name", "budget"),
    [
        ("granville_1940_bounded", "rho 0.346 in all: 0.0992 at the block and 0.246 at the block group"),
        ("dare_1940_republished", "rho 0.496 in all: 0.0992 in each of 5 releases of the block"),
        ("clinic_patients", "epsilon 0.8 at the clinic"),
    ],
)
def test_the_budget_of_a_plan_stands_with_its_shares(name: str, budget: str) -> None:
    """As the file states it, for the counts that one person moves, in words and as an attribute."""
    assert document(name).data.attrs["budget"] == budget
    assert f"The budget is {budget}." in words(document(name))


@pytest.mark.slow
def test_a_violated_guarantee_is_called_so(tmp_path: Path) -> None:
    made = of(changed(tmp_path, "granville_1940", ('zCDP = "sum of levels"', "zCDP = 0.05")))
    assert made.summary.status == "violated"
    assert "Not every guarantee holds." in words(made)
    assert not audit_answer.check_failure(audited("granville_1940")[0], document("granville_1940").data)


def test_provenance_names_seed_versions_allocation_scenario_and_date() -> None:
    found = dict(document("granville_1940").provenance)
    assert found["Seed"] == "1 (the averages do not depend on it)"
    assert "adversary 0." in found["Versions"]
    assert "64/25 * 165/4099 * 3945/4097" in found["Allocation: block"]
    assert '"block group"' in found["Scenario"]
    assert list(found)[-1] == "Written"
    assert str(DATA) not in to_html(document("granville_1940")), "no path of this machine"


@pytest.mark.slow
def test_estimates_carry_one_error_wherever_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "simulated.toml"
    path.write_text(SIMULATED, encoding="utf-8")
    scenario = adv.load_scenario(path)
    tree = audit_answer.solve(scenario, rng=2, draws=2048)
    risk, both = tree["risk"].to_dataset(), tree["both_truths"].to_dataset()
    side = "in"
    for name in ("posterior_mean", "ratio_mean", "prob_correct"):
        np.testing.assert_array_equal(risk[name], both[name].sel(target=side))
        np.testing.assert_array_equal(risk["mcse"].sel(measure=name), both["mcse"].sel(target=side, measure=name))
    made = audit_page.document(scenario, tree, words=False)
    (averages,) = [one for one in made.tables if one.name == "averages"]
    assert all(isinstance(row[2], Measured) and row[2].error > 0 for row in averages.rows)
    assert "estimates from 2,048 simulated releases" in words(made)
    assert float(tree["empirical"]["mcse"].sel(measure="epsilon").min()) > 0


@pytest.mark.slow
def test_several_truths_have_a_section_each(tmp_path: Path) -> None:
    scenario = changed(
        tmp_path, "granville_1940", ("[truth]", "[truths.alone]"),
        more='\n[truths.nobody]\nblock = 0\n"block group" = 3\n[sensitivity]\nprior = [0.1, 0.5]\n',
    )  # fmt: skip
    made = of(scenario)
    found = titles(made)
    assert {"What the adversary learns: alone", "What the adversary learns: nobody"} <= set(found)
    assert found.count("Sensitivity") == 2
    answer = as_json(made.data)
    for truth in ("alone", "nobody"):
        risk = commands.number(answer, "posterior_mean", group="risk", truth=truth)
        base = [
            row["value"]
            for row in commands.rows(answer, "posterior_mean", group=f"sensitivity/{truth}/base")
            if row["truth"] == ("in" if truth == "alone" else "out")
        ]
        assert base == [risk]


@pytest.mark.slow
def test_what_does_not_depend_on_the_truth_is_said_and_drawn_once(tmp_path: Path) -> None:
    """With the same others under both truths; the page says so where something is left out."""
    scenario = changed(
        tmp_path, "granville_1940", ("[truth]", "[truths.alone]"), ('"block group" = 1', '"block group" = 4'),
        more='\n[truths.nobody]\nblock = 0\n"block group" = 3\n[sensitivity]\nprior = [0.1, 0.5]\n',
    )  # fmt: skip
    made = of(scenario)
    tables = [one.name for one in made.tables]
    assert (tables.count("both truths"), tables.count("sensitivity"), tables.count("bounds")) == (1, 1, 2)
    made.draw_once()
    drawn = [one.name for one in made.figures]
    assert (drawn.count("tests"), drawn.count("tornado"), drawn.count("posterior_by_release")) == (1, 1, 2)
    assert [titles(made).count(one) for one in ("Sensitivity", "What the guarantees allow")] == [1, 2]
    assert words(made).count("What does not depend on the truth stands under the first.") == 1


@pytest.mark.slow
def test_a_meaning_of_the_budget_that_does_not_apply_is_a_sentence() -> None:
    scenario, tree = audited("school_classes")
    assert "Not applicable: bounded, both cells read, because the scenario describes a single cell." in words(
        audit_page.document(scenario, tree, words=False)
    )


def test_a_failed_sampler_gives_a_word_instead_of_a_number(tmp_path: Path) -> None:
    scenario, tree = audited("granville_1940")
    failed = tree.copy()
    risk = failed["risk"].to_dataset().assign(status="unreliable", unreliable_mass=0.25)
    failed["risk"] = xr.DataTree(risk.map(lambda a: a * np.nan if a.dtype.kind == "f" else a, keep_attrs=True))
    bound = failed["bound"].to_dataset()
    failed["bound"] = xr.DataTree(bound.assign(status=bound["status"].copy(data=["unreliable"] * 3)))
    failed["diagnostics"] = xr.DataTree(xr.Dataset({"releases": 10, "unreliable_releases": 3, "unreliable_mass": 0.25}))
    made = audit_page.document(scenario, failed, words=False)
    assert made.card is not None
    assert (audit_answer.verdict(scenario, failed)[1], made.card.numbers) == ("unreliable", [])
    (row,) = table(made, "averages")
    assert row.count("unreliable") == 4
    assert table(made, "diagnostics") == [["unreliable", "10", "3", "25%", "–", "–", "–"]]
    assert [one["value"] for one in commands.rows(as_json(made.data), "posterior_mean", group="risk")] == [None]


def test_two_audits_side_by_side_have_the_numbers_of_each(tmp_path: Path) -> None:
    names = ("dare_1940", "dare_1940_bounded")
    files = [str(DATA / f"{name}.toml") for name in names]
    answer = commands.answered("compare", *files, "--out", str(tmp_path), silent=False)
    for name in names:
        alone = as_json(document(name).data)
        for quantity in ("posterior_mean", "ratio_mean", "prior"):
            found = commands.numbers(answer, quantity, file=name)
            assert found == pytest.approx(commands.numbers(alone, quantity, group="risk"), rel=1e-12)
        most = commands.numbers(alone, "posterior", group="bound", side="upper", definition="zCDP")
        assert commands.numbers(answer, "bound", file=name) == pytest.approx(most, rel=1e-12)
        assert set(commands.numbers(answer, "bounded_by", file=name)) == {"zCDP"}
    head, *lines = (tmp_path / "compared.csv").read_text().splitlines()
    assert head.startswith('adversary,plan,before,"after, on average","9 of 10 releases, lower"')
    assert len(lines) == 2 * len(commands.numbers(answer, "prior", file=names[0]))
    commands.refused(tmp_path, "compare", files[0], files[0], words="the same file twice")


def test_noise_that_limits_nothing_is_not_said_to_hold(tmp_path: Path) -> None:
    file = tmp_path / "rounded.toml"
    file.write_text(
        'neighbours = "unbounded"\n[[plan.level]]\nname = "cell"\nnoise = "random rounding"\nbase = 3\n'
        "[truth]\ncell = 4\nin = 1\n[adversary]\nprior = 0.5\nknown = 3\n",
        encoding="utf-8",
    )
    shown = " ".join(commands.run("audit", str(file)).stdout.split())
    assert "Nothing is guaranteed here" in shown
    assert "Every guarantee holds" not in shown


def test_adversaries_who_differ_in_the_sampling_rate_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "sampled.toml"
    path.write_text(
        'neighbours = "unbounded"\ntruth = { block = 1 }\n'
        'plan = { level = [{ name = "block", noise = "geometric", epsilon = 1.0 }] }\n'
        "adversaries.all = { prior = 0.5, known = 0 }\n"
        "adversaries.some = { prior = 0.5, known = 0, sampling_rate = 0.1 }\n",
        encoding="utf-8",
    )
    made = of(adv.load_scenario(path))
    assert table(made, "adversaries") == [["all", "100%"], ["some", "10%"]]
    assert "does not know whether the target was drawn. What is known" in words(made)


LISTED_AND_SIMULATED = (
    'neighbours = "unbounded"\n[[plan.level]]\nname = "block"\nrho = 0.3\nsiblings = 2\n'
    '[[plan.level]]\nname = "tract"\nrho = 0.4\n[truth]\nblock = 1\ntract = 2\n'
    '[adversary]\nprior = "1/4"\nknown = 0\n[adversary.beliefs]\ntract = { upper = 6 }\n'
    "[sensitivity]\nrho = [0.05, 7.0]\n"
)


def test_one_meaning_is_listed_and_another_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise twice as wide has more releases than are listed; so has that of a small budget."""
    monkeypatch.setattr(upper_evidence, "MAX_GRID", 1000)
    scenario = adv.load_scenario(commands.written("two.toml", tmp_path, LISTED_AND_SIMULATED))
    tree = audit_answer.solve(scenario, rng=1, draws=400)
    assert ["mcse" in tree[name] for name in ("risk", "alternatives")] == [False, True]
    assert ["mcse" in tree[f"sensitivity/{name}"] for name in ("base", "rho")] == [False, True]
    made = audit_page.document(scenario, tree, words=False)
    assert ["±" in " ".join(row) for row in table(made, "other meanings")] == [True, True, False]
    assert ["±" in " ".join(row) for row in table(made, "sensitivity")] == [False, True, False]
    wide = scenario.with_neighbours("bounded", 1)
    audits = {"listed": (scenario, tree), "simulated": (wide, audit_answer.solve(wide, whole=False, rng=1, draws=400))}
    rows = table(comparison.document(audits, comparison.solve(audits)), "compared")
    assert [(row[0], "±" in row[2]) for row in rows] == [("listed", False), ("simulated", True)]


# One section fails


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError("made\nto fail")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "title"),
    [
        (method_sections, "coverage_section", "For whom this holds"),
        (method_sections, "other_meanings", "What else the same budget could mean"),
        (method_sections, "levels", "What is published"),
        (method_sections, "reading_section", "How to read the numbers"),
        (result_sections, "_averaged", "What the adversary learns"),
        (result_sections, "bounds", "What the guarantees allow"),
        (result_sections, "both_truths", "Both truths, and tests of “in” against “out”"),
        (result_sections, "averages", "What the adversary learns"),
        (explain_answer, "page", "In words"),
    ],
)
def test_a_section_that_fails_is_one_line_and_the_others_stay(
    module: Any, name: str, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = document("granville_1940")
    monkeypatch.setattr(module, name, fails)
    made = audit_page.document(*audited("granville_1940"))
    assert made.failures == [f"{title}: RuntimeError: made to fail"]
    (section,) = [one for one in made.every_section if one.title == title]
    assert (section.finding, section.tables) == ("Left out: RuntimeError: made to fail", [])
    assert [one.title for one in made.sections] == [one.title for one in whole.sections]
    assert as_json(made.data) == as_json(whole.data)
    assert "Left out: RuntimeError: made to fail" in to_html(made)


def test_sections_and_json_are_about_groups_of_the_registry() -> None:
    assert set(release_sections.SECTIONS) <= set(GROUPS)
    whole = adv.load_scenario(DATA / "dare_1940_republished.toml")
    made = set(audit_answer.solve(whole, rng=1).children)
    listed = {name for key, one in GROUPS.items() for name in ((key,) if one.listed is None else one.listed)}
    assert {"repeated", "alternatives", "tests"} <= made & listed
    assert made - listed <= {"release", "exact", "risk", "bound", "priors", "sensitivity"}


@pytest.mark.slow
def test_the_numbers_stay_where_the_words_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, tree = audited("granville_1940")
    monkeypatch.setattr(audit_page, "_card", fails)
    made = audit_page.document(scenario, tree)
    assert made.failures == ["Words, tables and figures: RuntimeError: made to fail"]
    assert made.summary.title == scenario.name
    assert made.data is tree
    risk = commands.number(as_json(made.data), "posterior_mean", group="risk")
    assert risk == float(tree["risk"]["posterior_mean"])


@pytest.mark.parametrize(
    ("group", "title"),
    [
        ("budgets", "Other budgets"),
        ("alternatives", "What else the same budget could mean"),
        ("both_truths", "Both truths, and tests of “in” against “out”"),
    ],
)
def test_numbers_beside_the_audit_that_fail_are_left_out(
    group: str, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, whole = audited("dare_1940")
    monkeypatch.setitem(GROUPS, group, GROUPS[group]._replace(make=fails))
    tree = audit_answer.solve(scenario, rng=1)
    assert group not in tree.children
    xr.testing.assert_equal(tree["risk"].to_dataset(), whole["risk"].to_dataset())
    assert audit_page.document(scenario, tree, words=False).failures == [f"{title}: RuntimeError: made to fail"]
    what = scenario.plan, scenario.adversary, scenario.truth
    with pytest.raises(RuntimeError, match="made"):
        adv.audit(*what, also=EVERYTHING, alternatives={"again": what}, progress=False)
