"""The unit of privacy: whose data a guarantee protects, k in units, loss and rho of one, and calibration for it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import adversary as adv
from adversary.budget.verdict_on_guarantee import own_losses
from adversary.driver.other_plans import replace_levels
from adversary.models.noise import released
from adversary.privacy import contribution_to, units_changed
from adversary.privacy.definitions import PureDP, ZeroConcentratedDP
from adversary.report.files import load_guarantee, load_scenario
from tests import commands
from tests.catalogue import MECHANISMS
from tests.commands import number

PLAN = """
[plan]
[[plan.level]]
name = "page"
{noise}
[truth]
page = {truth}
[adversary]
prior = {prior}
known = {known}
"""
ONE = adv.PrivacyUnit()


def scenario(folder: Path, noise: str, top: str = "", *, truth: int = 5, known: int = 4, prior: Any = 0.5) -> Path:
    path = folder / "case.toml"
    path.write_text(top + PLAN.format(noise=noise, truth=truth, known=known, prior=prior), encoding="utf-8")
    return path


def bound(tree: Any, definition: str) -> float:
    return float(tree["bound"]["posterior"].sel(definition=definition, side="upper"))


# Numbers


def test_thirty_views_of_one_device_are_one_unit() -> None:
    """Laplace noise of scale 30 made for 30 views: epsilon 1, and at most 2.672% from 1%."""
    plan = adv.Plan([adv.Level("page", adv.Laplace(30.0, sensitivity=30))])
    reader = adv.Adversary(0.01, known=430, hypotheses=(0, 30))
    tree = adv.audit(plan, reader, {"page": 460}, guarantee=PureDP(1.0), draws=200, rng=0)
    right = 0.01 * math.e / (0.01 * math.e + 0.99)
    assert int(tree["bound"]["k"][0]) == 1
    assert right == pytest.approx(0.02672, abs=5e-6)
    for definition in ("pure DP", "privacy loss"):
        assert bound(tree, definition) == pytest.approx(right, rel=1e-12)
    assert set(tree["bound"]["status"].values) == {"holds"}


def test_a_household_of_ten_is_one_unit(tmp_path: Path) -> None:
    """zCDP 0.141622 for households of up to ten people: at most 81.58%, by the plan's own loss 78.18%."""
    noise = "rho = 0.141622\nsensitivity = 10"
    for rho in ("0.141622", '"sum of levels"'):
        made = scenario(tmp_path, noise, 'neighbours = "unbounded"\n', truth=40, known=30)
        made.write_text(made.read_text() + f"hypotheses = [0, 10]\n[guarantee]\nzCDP = {rho}\n")
        answer = commands.answered("audit", str(made), "--also", "budgets")
        uppers = [number(answer, "posterior", group="bound", side="upper", definition=one) for one in WORDS]
        np.testing.assert_allclose(uppers, [0.8158, 0.7818], atol=5e-5)
        assert number(answer, "k", group="bound", definition="zCDP") == 1


WORDS = ("zCDP", "privacy loss")


def test_a_replaced_answer_is_one_answer() -> None:
    plan = adv.Plan([adv.Level("bit", adv.RandomizedResponse(1.0))], neighbours="bounded")
    tree = adv.audit(plan, adv.Adversary(0.5), {"bit": 1}, guarantee=PureDP(1.0))
    assert set(tree["bound"]["status"].values) == {"holds"}
    assert bound(tree, "pure DP") == pytest.approx(1.0 / (1.0 + math.exp(-1.0)))
    assert plan.total_rho == pytest.approx(math.tanh(0.5))


def test_ten_pages_a_device() -> None:
    unit = adv.PrivacyUnit("device-day", contribution=1, cells=10, neighbours="unbounded")
    plan = adv.Plan([adv.Level("page", adv.DiscreteGaussian(10.0))], privacy_unit=unit)
    reader = adv.Adversary(0.5, known=94)
    assert plan.total_rho == pytest.approx(0.05)
    assert reader.records(plan) == 1
    tree = adv.audit(plan, reader, {"page": 95}, guarantee=ZeroConcentratedDP(0.015))
    assert str(tree["bound"]["status"].sel(definition="zCDP").item()) == "violated"
    own = adv.Plan([adv.Level("page", adv.DiscreteGaussian(10.0))]).privacy_loss()
    assert float(tree["bound"]["loss_bound"].sel(definition="privacy loss")) == own.loss_bound(0.05)


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("c", [1, 3, 5])
@pytest.mark.parametrize(("neighbours", "times"), [("unbounded", 1), ("bounded", 2)])
def test_rho_and_epsilon_of_one_unit_by_their_formulas(m: int, c: int, neighbours: str, times: int) -> None:
    unit = adv.PrivacyUnit(contribution=m, cells=c, neighbours=neighbours)
    n = times * c
    for noise in (adv.DiscreteGaussian(7.0), adv.Gaussian(7.0)):
        plan = adv.Plan([adv.Level("a", noise)], privacy_unit=unit)
        assert plan.total_rho == pytest.approx(n * m**2 / (2 * 49.0), rel=1e-12)
        assert ZeroConcentratedDP(plan.total_rho).is_satisfied_by(plan.unit_loss())
        if isinstance(noise, adv.Gaussian):
            mu = m * math.sqrt(n) / 7.0
            assert plan.unit_loss().delta(1.0) == pytest.approx(adv.GaussianDP(mu).delta(1.0), rel=1e-10)
    plan = adv.Plan([adv.Level("a", adv.Laplace(7.0))], privacy_unit=unit)
    assert plan.unit_loss().loss_bound(0.0) == pytest.approx(n * m / 7.0, rel=1e-9)


def test_rho_of_a_wide_change_is_not_the_square_of_it() -> None:
    noise = adv.Laplace.from_epsilon(10.0, sensitivity=10)
    plan = adv.Plan([adv.Level("a", noise)], privacy_unit=adv.PrivacyUnit(contribution=10))
    assert plan.total_rho == pytest.approx(9.0000454, rel=1e-7)


def test_others_who_move_are_other_units() -> None:
    """A point above moves one other person, so that two households differ though one holds up to 30 people."""
    levels = [adv.Level("block", adv.Gaussian(30.0), siblings=1), adv.Level("tract", adv.Gaussian(30.0))]
    plan = adv.Plan(levels, privacy_unit=adv.PrivacyUnit(contribution=30))
    assert adv.Adversary(0.5, beliefs={"tract": adv.Point(9)}).records(plan) == 2
    assert adv.Adversary(0.5, beliefs={"tract": adv.Uniform()}).records(plan) == 1
    assert adv.Adversary(0.5, hypotheses=(0, 61), beliefs={"tract": adv.Point(90)}).records(plan) == 6


def test_two_cells_count_twice_for_units_added_or_removed() -> None:
    for neighbours, k in (("bounded", 1), ("unbounded", 2)):
        plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian(3.0))], 2, neighbours=neighbours)
        assert adv.Adversary(0.5, known=(0, 0)).records(plan) == k


def test_a_plan_of_two_cells_says_what_it_said() -> None:
    """zCDP 0.1 and prior 1/2: at most 77.56%; 93.18% were it unbounded."""
    for neighbours, most in ((None, 0.7756), ("unbounded", 0.9318)):
        noise = adv.DiscreteGaussian.from_rho(0.1, cells=2)
        plan = adv.Plan([adv.Level("block", noise)], 2, neighbours=neighbours)
        tree = adv.audit(plan, adv.Adversary(0.5, known=(0, 0)), {"block": [1, 0]}, guarantee=ZeroConcentratedDP(0.1))
        assert bound(tree, "zCDP") == pytest.approx(most, abs=5e-5)


def test_a_daily_budget_and_a_year_of_it(tmp_path: Path) -> None:
    path = tmp_path / "daily.toml"
    path.write_text('[privacy_unit]\nneighbours = "unbounded"\nperiods = 365\n[guarantee]\n"pure DP" = 0.1\n')
    read = load_guarantee(path)
    assert (read.guarantee, read.unit.periods) == (PureDP(0.1), 365)
    answer = commands.answered("bounds", str(path))
    assert number(answer, "loss_bound", group="periods", periods=1) == pytest.approx(0.1)
    assert number(answer, "loss_bound", group="periods", periods=365) == pytest.approx(36.5)
    text = commands.printed("bounds", str(path))
    assert "present in all 365 periods" in text
    text = commands.flat(commands.printed("explain", str(path), "--audience", "technical"))
    assert "365 releases with independent noise, together: e = 36.5 nats for certain" in text


# Laws


def units() -> Iterator[Any]:
    for m in range(1, 6):
        for c in range(1, 6):
            for neighbours in ("unbounded", "bounded"):
                yield pytest.param(m, c, neighbours, id=f"{m}-{c}-{neighbours}")


@pytest.mark.parametrize(("m", "c", "neighbours"), list(units()))
def test_sum_of_levels_is_the_number_typed(m: int, c: int, neighbours: str, tmp_path: Path) -> None:
    top = f'[privacy_unit]\ncontribution = {m}\ncells = {c}\nneighbours = "{neighbours}"\n'
    made = scenario(tmp_path, 'rho = "1/5"', top)
    text = made.read_text()
    found = []
    for rho in ('"sum of levels"', "0.2"):
        made.write_text(f"{text}[guarantee]\nzCDP = {rho}\n")
        read = load_scenario(made)
        assert read.plan.total_rho == pytest.approx(0.2, rel=1e-12)
        tree = adv.audit(read.plan, read.adversary, read.truth, guarantee=read.guarantee)
        found.append((bound(tree, "zCDP"), list(tree["bound"]["status"].values)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-9)
    assert found[0][1] == found[1][1] == ["holds", "holds"]
    assert load_scenario(scenario(tmp_path, 'noise = "laplace"\nepsilon = 1', top)).plan.unit_loss().loss_bound(
        0.0
    ) == pytest.approx(1.0, rel=1e-9)


UNIT = adv.PrivacyUnit("household", 10, 3, "bounded", 7)


def test_no_rebuilt_plan_loses_its_unit() -> None:
    levels = [adv.Level("block", adv.Gaussian(3.0), siblings=2), adv.Level("tract", adv.Gaussian(3.0))]
    plan = adv.Plan(levels, privacy_unit=UNIT, queries={"block": {"total": adv.Gaussian(4.0)}})
    rebuilt = [
        plan.without_queries(),
        plan.scaled(2.0),
        replace_levels(plan, plan.levels),
        replace(plan, levels=plan.levels),
        adv.Plan(levels, privacy_unit=plan.privacy_unit),
        adv.Plan(levels, postprocessing=adv.postprocessing.clamped, privacy_unit=UNIT),
    ]
    assert {one.privacy_unit for one in rebuilt} == {UNIT}


def test_a_table_and_a_model_are_audited_for_the_unit() -> None:
    """k, the guarantee and the verdict of a table's cells, and of a model that says no plan, are those of the unit."""
    frame = pd.DataFrame({"block": ["a", "b"], "renters": [3, 8]})
    unit = adv.PrivacyUnit("household", contribution=4, cells=2, neighbours="unbounded")
    guarantee = ZeroConcentratedDP(0.02)
    statuses = {}
    for name, given in (("person", None), ("household", unit)):
        table = adv.PublishedTable("block", adv.Gaussian(5.0))
        found = adv.audit_tables(frame, [table], guarantee=guarantee, privacy_unit=given)
        statuses[name] = set(found["status"])
    assert statuses == {"person": {"holds"}, "household": {"violated"}}
    with pm.Model() as model:
        target = pm.Bernoulli("in", 0.5)
        released("noisy", adv.Gaussian(5.0), 4 * target + 7)
    truth = {"in": 1}
    plain = adv.audit_model(model, truth, guarantee=guarantee, draws=50, rng=0)
    tree = adv.audit_model(model, truth, guarantee=guarantee, privacy_unit=replace(unit, periods=12), draws=50, rng=0)
    assert [str(one["bound"]["status"].sel(definition="zCDP").item()) for one in (plain, tree)] == [
        "exceeded",
        "violated",
    ]
    own = adv.Gaussian(5.0).privacy_loss(4, 2).loss_bound(0.05)
    assert float(tree["bound"]["loss_bound"].sel(definition="privacy loss")) == pytest.approx(own)
    every = (12 * guarantee).loss_bound(0.05)
    assert float(tree["bound"]["loss_bound_all_periods"].sel(definition="zCDP")) == pytest.approx(every)
    assert json.loads(tree.attrs["privacy_unit"])["model"]["name"] == "household"


def test_a_scenario_for_other_neighbours_or_another_truth_has_its_unit(tmp_path: Path) -> None:
    top = '[privacy_unit]\nname = "household"\ncontribution = 2\ncells = 3\nneighbours = "unbounded"\nperiods = 4\n'
    read = load_scenario(scenario(tmp_path, "rho = 0.1", top))
    unit = read.plan.privacy_unit
    assert unit == adv.PrivacyUnit("household", 2, 3, "unbounded", 4)
    assert read.with_truth({"page": 4}).plan.privacy_unit == unit
    assert read.with_neighbours("bounded").plan.privacy_unit == replace(unit, neighbours="bounded")


@pytest.mark.parametrize("name", [name for name, one in MECHANISMS.items() if not one.is_exact])
def test_one_person_in_one_cell_changes_nothing(name: str) -> None:
    noise = MECHANISMS[name]
    try:
        expected = noise.privacy_loss(1, 1)
    except NotImplementedError:
        return
    plan = adv.Plan([adv.Level("a", noise)], privacy_unit=adv.PrivacyUnit(contribution=1))
    e = np.linspace(-1.0, 2.0, 5)
    np.testing.assert_allclose(plan.unit_loss().delta(e), expected.delta(e), rtol=1e-11)
    assert plan.total_rho == pytest.approx(noise.rho(), rel=3e-6)  # of lists whose losses differ by 1e-9


def test_the_verdict_on_a_profile_is_about_the_unit() -> None:
    plan = adv.Plan([adv.Level("a", adv.Laplace(10.0))], privacy_unit=adv.PrivacyUnit(contribution=2, cells=3))
    one, two = own_losses(plan)
    assert (one.loss_bound(0.0), two and two.loss_bound(0.0)) == (pytest.approx(0.6), pytest.approx(1.2))
    single, none = own_losses(plan, "count")
    assert (single.loss_bound(0.0), none) == (pytest.approx(0.2), None)


def test_periods_stand_beside_one_period() -> None:
    unit = adv.PrivacyUnit(neighbours="unbounded", periods=30)
    plan = adv.Plan([adv.Level("a", adv.Gaussian(10.0))], privacy_unit=unit)
    guarantee = ZeroConcentratedDP(0.005)
    tree = adv.audit(plan, adv.Adversary(0.5, hypotheses=(0, 2)), {"a": 2}, guarantee=guarantee)
    found = tree["bound"]
    assert int(found["k"][0]) == 2
    expected = (30 * guarantee).group(2).loss_bound(0.05)
    assert float(found["loss_bound_all_periods"].sel(definition="zCDP")) == pytest.approx(expected)
    own = (30 * adv.Gaussian(10.0).privacy_loss(2)).loss_bound(0.05)
    assert float(found["loss_bound_all_periods"].sel(definition="privacy loss")) == pytest.approx(own)
    assert float(found["loss_bound"].sel(definition="zCDP")) == guarantee.group(2).loss_bound(0.05)


# Bad input


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": ""}, "name of the privacy unit"),
        ({"contribution": 0}, "contribution"),
        ({"contribution": -1}, "contribution"),
        ({"cells": 0}, "cells"),
        ({"cells": 1.5}, "cells"),
        ({"periods": 0}, "periods"),
        ({"neighbours": "both"}, "neighbours must be one of"),
    ],
)
def test_a_unit_out_of_range_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        adv.PrivacyUnit(**given)


def test_what_contradicts_itself_is_refused() -> None:
    levels = [adv.Level("a", adv.Laplace(30.0, sensitivity=30), 0), adv.Level("b", adv.Laplace(1.0))]
    with pytest.raises(ValueError, match=r"sensitivities 1, 30: say how much one unit changes a count"):
        adv.Plan(levels)
    assert adv.Plan(levels, privacy_unit=adv.PrivacyUnit(contribution=2)).contribution == 2
    with pytest.raises(ValueError, match="neighbours must be given once"):
        adv.Plan(levels[1:], neighbours="bounded", privacy_unit=adv.PrivacyUnit(neighbours="unbounded"))
    with pytest.raises(TypeError, match="privacy_unit must be a PrivacyUnit"):
        adv.Plan(levels[1:], privacy_unit="household")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("top", "words"),
    [
        ("", ["neighbours: is required", "[privacy_unit]"]),
        ('[privacy_unit]\nname = "household"\n', ["neighbours: is required"]),
        ('neighbours = "bounded"\n[privacy_unit]\nneighbours = "unbounded"\n', ["neighbours: must be that of"]),
        ('[privacy_unit]\nneighbours = "bounded"\ncels = 2\n', ["privacy_unit.cels", "cells"]),
        ('[privacy_unit]\nneighbours = "bounded"\ncontribution = 0\n', ["privacy_unit: contribution", "got 0"]),
        ('[privacy_unit]\nneighbours = "bounded"\nperiods = 2\n', ["releases", "periods is 2"]),
    ],
)
def test_a_file_with_a_wrong_unit_is_refused_in_one_line(top: str, words: list[str], tmp_path: Path) -> None:
    path = scenario(tmp_path, "rho = 0.1\nreleases = 2", top)
    for word in words:
        commands.refused(tmp_path, "audit", str(path), words=word)


def test_a_contribution_that_the_noise_cannot_have_is_refused() -> None:
    for noise in (adv.DiscreteGaussian(7.0), adv.Geometric(1.0), adv.RandomRounding(3)):
        with pytest.raises(ValueError, match=r"contribution must be a whole number where the noise is on the integers"):
            adv.Plan([adv.Level("a", noise)], privacy_unit=adv.PrivacyUnit(contribution=2.5))
    half = adv.PrivacyUnit(contribution=0.5)
    assert adv.Plan([adv.Level("a", adv.Laplace(1.0))], privacy_unit=half).unit_loss().loss_bound(0.0) == 0.5
    with pytest.raises(ValueError, match="contribution must be at least 1, how far answers are apart"):
        adv.Plan([adv.Level("a", adv.RandomizedResponse(1.0))], privacy_unit=half)


def test_a_table_whose_smaller_change_tells_more_is_bounded_by_it() -> None:
    """A change of at most two: counts one apart are told apart for certain here, counts two apart not at all."""
    table = adv.PerturbationTable([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], lowest=-1, closed=True)
    plan = adv.Plan([adv.Level("a", table)], privacy_unit=adv.PrivacyUnit(contribution=2))
    one, two = table.privacy_loss(1, 1), table.privacy_loss(2, 1)
    worst = max(float(one.worst_delta(0.0)), float(two.worst_delta(0.0)))
    assert float(plan.unit_loss().worst_delta(0.0)) == pytest.approx(worst)
    assert (worst, float(two.worst_delta(0.0))) == (1.0, 0.0)


def test_texts_of_a_local_report_speak_of_answers(tmp_path: Path) -> None:
    top = '[privacy_unit]\nname = "phone"\nneighbours = "unbounded"\ncontribution = 3\n'
    noise = 'noise = "randomized response"\nepsilon = 1\ncategories = 9'
    path = str(scenario(tmp_path, noise, top, truth=1, known=0))
    text = commands.flat(commands.printed("explain", path, "--audience", "regulator"))
    assert "are about what one phone answers" in text
    assert "about whether one phone is in the data" in text
    assert "do not depend on this phone" in text
    audit = commands.flat(commands.printed("audit", path))
    assert "every answer may become one at most 3 away" in audit
    assert "every answer may become any other" not in audit


def test_units_and_contributions() -> None:
    assert [units_changed(x, 30.0) for x in (0, 1, 30, 31, 60)] == [0, 1, 1, 2, 2]
    assert units_changed(0.3, 0.1) == 3
    assert units_changed(7, math.inf) == 1
    assert contribution_to([], ONE) == 1
    assert contribution_to([adv.RandomizedResponse(1.0)], ONE) == math.inf


def test_a_file_is_sent_to_the_command_that_reads_it(tmp_path: Path) -> None:
    alone = '[guarantee]\n"pure DP" = 1\n'
    path = commands.written("alone.toml", tmp_path, alone)
    commands.refused(
        tmp_path, "audit", path, words="this is a file with a guarantee alone, which adversary bounds reads"
    )
    commands.refused(tmp_path, "epsilon", path, words="which adversary bounds reads")
    commands.refused(tmp_path, "bounds", path, "--rho", "1", words="leave out --epsilon, --rho and --mu")
    both = commands.written("both.toml", tmp_path, alone + "zCDP = 1\n")
    commands.refused(tmp_path, "bounds", both, words="must state one definition where there is no plan")
    plan = commands.written("plan.toml", tmp_path, "[plan]\n")
    commands.refused(tmp_path, "bounds", plan, words="this is a scenario file, which adversary audit reads")
