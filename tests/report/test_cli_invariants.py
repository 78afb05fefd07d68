"""`adversary invariants`: guarantees before and beside exact totals, adversaries in two steps, tables, refusals."""

from __future__ import annotations

from functools import cache, partial
from math import comb, log10
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import adversary as adv
from adversary.report.answers import table_answer
from adversary.report.files.table_file import load_table_file
from adversary.report.kit.figure_files import figure_of
from adversary.report.plot import exact_figures
from adversary.report.sections import exact_adversaries, exact_guarantees
from tests import commands
from tests.commands import flat, number, numbers
from tests.tables import DATA

DISTRICT, STATES, TOWN = (
    str(DATA / f"{name}.toml") for name in ("districts_1940_total", "redistricting_2020_state_totals", "town_table")
)
MARGINS = "[invariants]\nmargins = [[3, 2], [2, 3]]\n"
NOISE = '[table]\nnoise = "geometric"\nepsilon = 1\n'

run = partial(commands.run, "invariants")
answered = cache(partial(commands.answered, "invariants", silent=False))
printed = cache(partial(commands.printed, "invariants"))
written = partial(commands.written, "file.toml")


def has(answer: dict[str, Any], quantity: str) -> bool:
    """Whether there is a record of it."""
    return any(one["quantity"] == quantity for one in answer["records"])


# Scenarios


@pytest.mark.slow
def test_a_district_total_doubles_the_guarantee_and_one_adversary_needs_no_release() -> None:
    answer = answered(DISTRICT)
    assert numbers(answer, "margin", feature="district") == [45, 955]
    assert (number(answer, "used"), number(answer, "disclosed")) == (2, False)
    assert numbers(answer, "semi_adjacency") == [2, 2, 2, 2]
    assert number(answer, "log10_databases") == pytest.approx(log10(comb(1000, 45)), rel=1e-9)
    assert not has(answer, "databases")
    pure = {"guarantee": "pure DP"}
    assert numbers(answer, "parameter", **pure, symbol="epsilon") == pytest.approx([0.5, 1.0], rel=1e-12)
    doubled = adv.PureDP(0.5).group(2)
    assert number(answer, "advantage", **pure, when="after") == pytest.approx(doubled.advantage, rel=1e-12)
    sure = {"adversary": "counted everybody"}
    names = ("given", "invariant_ratio", "posterior_mean", "ratio_mean")
    assert [number(answer, name, **sure) for name in names] == [1.0, 2.0, 1.0, 1.0]
    said = "Beside exact totals, pure DP with epsilon = 0.5 for one record becomes epsilon = 1 for 2 records."
    assert answer["verdict"]["text"] == said
    assert "take the adversary “counted everybody” from 50% to 100%; no guarantee limits this." in flat(
        printed(DISTRICT)
    )


def test_what_the_total_revealed_is_its_likelihood() -> None:
    """Poisson(40) others: 45 people are 44 others and the target, or 45 others; the odds go up by 45 / 40."""
    answer, at = answered(DISTRICT), {"adversary": "a rough idea"}
    given = number(answer, "given", **at)
    assert given == pytest.approx(45 / 85, rel=1e-12)
    assert number(answer, "invariant_ratio", **at) == pytest.approx(given / number(answer, "prior", **at), rel=1e-12)
    mean = number(answer, "posterior_mean", **at)
    assert number(answer, "ratio_mean", **at) == pytest.approx(mean / given, rel=1e-9)
    assert number(answer, "invariant_ratio", adversary="no idea of the others") == 1.0


def test_the_guarantee_for_one_record_is_exceeded_and_the_one_beside_the_total_is_not() -> None:
    """In and out differ by one in the cell and by one elsewhere: the losses of two geometric noises add up."""
    answer = answered(DISTRICT)
    for name in ("no idea of the others", "a rough idea", "all but a few", "counted everybody"):
        at = {"adversary": name, "definition": "pure DP", "group": "limits"}
        bounds = [
            number(answer, key, **at) for key in ("single_record_bound", "loss_bound", "semi_adjacency_bound", "k")
        ]
        assert bounds == pytest.approx((0.5, 1.0, 1.0, 2))
        assert number(answer, "status", **at) == "holds"
        reached = number(answer, "achieved", **at)
        if name == "counted everybody":
            assert (number(answer, "single_record_exceeded", **at), reached) == (False, 0.0)
        else:
            assert number(answer, "single_record_exceeded", **at)
            assert number(answer, "prob_beyond_single_record", **at) > 0.5
            assert 0.5 < reached <= 1.0
    assert "That is no bound here: 51.6% of releases take the adversary" in flat(printed(DISTRICT))


def test_a_thousand_releases_are_named_and_only_all_together_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each had its largest advantage worked out, which no table shows: minutes."""
    asked, in_numbers = list[int](), exact_guarantees._guarantee_numbers

    def counted(guarantees: Any, *rest: Any) -> Any:
        asked.append(len(guarantees))
        return in_numbers(guarantees, *rest)

    monkeypatch.setattr(exact_guarantees, "_guarantee_numbers", counted)
    answer = commands.answered("invariants", written(tmp_path, MARGINS + NOISE + "releases = 1000"))
    assert set(asked) == {2}
    assert numbers(answer, "parameter", group="releases") == [1.0] * 1000
    assert numbers(answer, "loss_bound", group="composition") == [3000.0, 3000.0]


@pytest.mark.slow
def test_the_published_numbers_of_the_state_totals() -> None:
    """Cho and Awan, section 6: rho 2.56 to 10.24; epsilon at 1e-10 by the simple conversion 17.91528 and 40.95057."""
    answer, zcdp = answered(STATES), {"guarantee": "zCDP"}
    assert numbers(answer, "parameter", **zcdp, symbol="rho") == pytest.approx((2.56, 10.24), rel=1e-12)
    simple = [numbers(answer, "simple_epsilon", **zcdp, when=when) for when in ("before", "after")]
    assert simple[0] == pytest.approx([13.417825, 17.91528], abs=1e-5)
    assert simple[1] == pytest.approx([31.955649, 40.95057], abs=1e-5)
    assert numbers(answer, "mu_if_gaussian", **zcdp) == pytest.approx((2.262742, 4.525483), abs=1e-6)
    assert not has(answer, "margin")
    for key in ("advantage", "loss_bound"):
        first, last = numbers(answer, key, group="composition")
        assert first == last
    assert set(numbers(answer, "k", definition="zCDP", group="limits")) == {2}
    errors = [one["error"] for one in answer["records"] if one["group"] == "adversaries"]
    assert sum(error is not None and error > 0.0 for error in errors) == 4
    assert f" ± {100 * next(error for error in errors if error):#.2g}" in printed(STATES)


@pytest.mark.slow
def test_a_scenario_may_have_several_truths(tmp_path: Path) -> None:
    text = Path(DISTRICT).read_text(encoding="utf-8").split('[adversaries."a rough')[0]
    text = text.replace("[truth]\ncell = 1", "[truths.in]\ncell = 1\ndistrict = 45\n[truths.out]\ncell = 0")
    path = written(tmp_path, text)
    means = [number(answered(path), "posterior_mean", truth=name, group="adversaries") for name in ("in", "out")]
    assert means[0] + means[1] == pytest.approx(1.0, abs=1e-6)  # even prior: what "in" gains, "out" loses
    assert "What the totals and the noisy release reveal, truth out" in printed(path)


@pytest.mark.parametrize(
    ("margins", "said"),
    [("[[45, 955]]", exact_adversaries.UNTOLD), ("[[45]]", exact_guarantees.GONE)],
    ids=["no exact level", "nothing left"],
)
def test_adversaries_are_left_out_who_do_not_condition_on_the_margins(tmp_path: Path, margins: str, said: str) -> None:
    """Without an exact level an adversary does not condition on margins: it would be false that they reveal nothing."""
    text = Path(DISTRICT).read_text(encoding="utf-8").replace("[[45, 955]]", margins).split('[adversaries."a rough')[0]
    text = text.replace('epsilon = "1/2"', "epsilon = 2")
    gone = said == exact_guarantees.GONE
    text = text if gone else text.replace('noise = "exact"', 'noise = "geometric"\nepsilon = 2')
    path = written(tmp_path, text)
    answer = answered(path)
    assert not has(answer, "invariant_ratio")
    assert said in flat(printed(path))
    assert "alone reveal nothing" not in printed(path)
    assert number(answer, "disclosed") == gone
    if gone:
        assert number(answer, "definition", guarantee="pure DP", when="after") == adv.NoPrivacy().definition
        assert number(answer, "loss_bound", guarantee="pure DP", when="after") is None
        assert answer["verdict"]["text"] == said
    one = adv.load_scenario(path)
    tree = adv.audit(one.plan, one.adversary, one.truth, invariants=one.margins, progress=False)
    section = exact_adversaries.exact_section(one, tree)
    assert section is not None
    assert (section.tables, section.figures) == ([], [])
    assert exact_adversaries.moves(one, tree) == {}


@pytest.mark.slow
def test_margins_beyond_the_exact_level_count_in_the_guarantee_alone(tmp_path: Path) -> None:
    """Seven features of 1,000 people: more databases than a float can count, and a(t) only between two numbers."""
    halves = ", ".join(["[500, 500]"] * 6)
    text = Path(DISTRICT).read_text(encoding="utf-8").replace("[[45, 955]]", f"[[45, 955], {halves}]")
    path = written(tmp_path, text.replace('features = ["district"]', ""))
    answer = answered(path)
    assert not has(answer, "databases")
    expected = log10(comb(1000, 45)) + 6 * log10(comb(1000, 500))
    assert number(answer, "log10_databases") == pytest.approx(expected, rel=1e-9)
    low, high = numbers(answer, "semi_adjacency", reading="worst")
    assert low < high == number(answer, "used")
    assert "condition on the district's count only; the other margins enter a(t)" in flat(printed(path))
    assert number(answer, "given", adversary="a rough idea") == pytest.approx(45 / 85, rel=1e-12)


def test_a_guarantee_the_plan_violates_is_not_blamed_on_the_total(tmp_path: Path) -> None:
    text = Path(DISTRICT).read_text(encoding="utf-8").replace('"pure DP" = "1/2"', '"pure DP" = "1/4"')
    words = flat(printed(written(tmp_path, text)))
    assert "The plan violates pure DP: its own privacy loss exceeds it" in words
    assert "nothing were published exactly, the plan's own loss would keep the odds" in words
    assert "nothing were published exactly, pure DP" not in words


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[[45, 955]]", "[[44, 956]]", "level 'district' publishes 45"),
        ("[[45, 955]]", "[[45, 955], [1, 2]]", "margins must agree on the number of records, got totals 1000, 3"),
        ("[[45, 955]]", "[[45, -1]]", "must be at least 0, got -1"),
        ("[[45, 955]]", "[]", "margins must have at least one feature, got none"),
        ("[[45, 955]]", "45", "a list of lists of counts"),
        ("[[45, 955]]", '[["45", 955]]', "invariants.margins: must hold counts, whole numbers, got '45'"),
        ("[[45, 955]]", "[[45, true]]", "invariants.margins: must hold counts, whole numbers, got true"),
        ('features = ["district"]', 'feature = ["district"]', "did you mean 'features'?"),
        ('features = ["district"]', 'features = ["a", "b"]', "must be 1 different names"),
        ('features = ["district"]', 'reading = "best"', "must be one of 'worst', 'literal', got 'best'"),
        ("mu = 40", "mu = -40", "law"),
        ("n = 46", "n = 20", "outside the adversary's belief"),
        ("[invariants]", "[invariant]", "did you mean 'invariants'?"),
    ],
)
def test_bad_scenarios_are_refused_with_the_reason(tmp_path: Path, old: str, new: str, reason: str) -> None:
    text = Path(DISTRICT).read_text(encoding="utf-8")
    assert old in text
    commands.refused(tmp_path, "invariants", written(tmp_path, text.replace(old, new)), words=reason)


def test_a_scenario_without_exact_totals_has_nothing_to_say() -> None:
    result = run(str(DATA / "dare_1940.toml"))
    assert result.exit_code == 2
    assert 'nothing is published exactly: give a level noise = "exact"' in result.stderr


# Tables


def test_a_table_gives_what_the_library_gives() -> None:
    answer, file = answered(TOWN), load_table_file(TOWN)
    found = adv.known_totals.table_posterior(
        file.invariants.margins, file.released, adv.Geometric(0.5), guarantee=adv.PureDP(1.0)
    )
    for name in ("given", "invariant_ratio", "posterior", "ratio", "log_odds_factor"):
        np.testing.assert_allclose(
            numbers(answer, name, group="table"), found[name].values.ravel(), 1e-12, err_msg=name
        )
    assert number(answer, "radius") == int(found["radius"]) == 3
    assert number(answer, "odds_bound") == pytest.approx(3.0)
    assert number(answer, "achieved") == pytest.approx(float(np.abs(found["log_odds_factor"]).max()))
    assert number(answer, "databases") == adv.invariants.Margins([[12, 9], [7, 14]]).databases
    assert numbers(answer, "semi_adjacency", side="upper") == [3, 2]


def test_two_releases_are_extended_first_and_then_composed() -> None:
    """Pure DP with epsilon 1, two releases, three records: total variation 0.881191 against 0.927205."""
    found = numbers(answered(TOWN), "advantage", group="composition")
    assert found == pytest.approx([0.881191, 0.927205], abs=1e-6)
    assert "each extended, then composed" in printed(TOWN)


def test_noise_made_for_the_margins_costs_less() -> None:
    """Like for like at three records: 3 sqrt(2) E|Z_4| for the usual Gaussian noise, 2 E|Z_1| for its own."""
    answer = answered(TOWN)
    assert number(answer, "own", mechanism="gaussian") == pytest.approx(1.595769, abs=1e-6)
    assert number(answer, "naive", baseline="gaussian") == pytest.approx(7.976042, abs=1e-6)
    assert number(answer, "own", mechanism="k-norm") == pytest.approx(2.0)


def test_a_release_may_exceed_the_guarantee_for_one_record(tmp_path: Path) -> None:
    """Few people and a release far to one side: beyond epsilon, never beyond three times it."""
    text = "[invariants]\nmargins = [[2, 1], [2, 1]]\n" + NOISE + "released = [[9, -9], [-9, 9]]\n"
    answer = answered(written(tmp_path, text))
    assert number(answer, "single_record_exceeded")
    single, reached, bound = (number(answer, key) for key in ("single_record_bound", "achieved", "odds_bound"))
    assert single < reached <= bound == pytest.approx(3.0)


def test_noise_made_for_the_margins_brings_its_own_guarantee(tmp_path: Path) -> None:
    """Made for two records, in a 3 x 3 table three may change: mu sqrt(6) / 2."""
    text = '[invariants]\nmargins = [[1, 1, 1], [1, 1, 1]]\n[table]\nnoise = "span gaussian"\nmu = 1\nrecords = 2\n'
    path = written(tmp_path, text)
    made = {"guarantee": "noise made for the margins", "symbol": "mu"}
    assert numbers(answered(path), "parameter", **made) == pytest.approx([1.0, np.sqrt(6) / 2], rel=1e-12)
    assert answered(path)["verdict"]["text"] == (
        "The noise made for the margins has mu = 1 for changes of up to 2 records that keep them, and mu = 1.22474 for "
        "all changes of 3."
    )


def test_who_knows_all_records_but_one_needs_no_release(tmp_path: Path) -> None:
    path = written(tmp_path, MARGINS + NOISE + "known = [[1, 1], [1, 1]]\nreleased = [[1, 2], [1, 1]]\n")
    answer = answered(path)
    assert numbers(answer, "given") == numbers(answer, "posterior") == [0.0, 1.0, 0.0, 0.0]
    assert number(answer, "radius") == 0
    assert "the noise hides nothing" in flat(printed(path))


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        (
            "cells = [[0.5, 0.25], [0.125, 0.125]]",
            adv.known_totals.Independent(np.array([[0.5, 0.25], [0.125, 0.125]])),
        ),
        ("odds_ratio = 4", adv.known_totals.Independent.from_odds_ratio(4.0)),
        ("concentration = [[2, 1], [1, 2]]", adv.known_totals.Dirichlet(np.array([[2.0, 1.0], [1.0, 2.0]]))),
    ],
)
def test_priors_of_a_table(tmp_path: Path, prior: str, expected: Any) -> None:
    answer = answered(written(tmp_path, MARGINS + NOISE + f"[prior]\n{prior}\n"))
    found = adv.known_totals.table_posterior(([3, 2], [2, 3]), prior=expected)
    np.testing.assert_allclose(numbers(answer, "given"), found["given"].values.ravel(), rtol=1e-12)
    assert not has(answer, "posterior")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[invariants]\nmargins = [[3, 2], [2, 4]]\n" + NOISE, "margins must agree on the number of records"),
        ("[invariants]\nmargins = [[3, -2], [1, 0]]\n" + NOISE, "must be at least 0, got -2"),
        ("[invariants]\nmargins = [[3, 2]]\n" + NOISE, "must be two, of the rows and of the columns"),
        (MARGINS + NOISE + "known = [[4, 0], [0, 0]]", "no table conforms to both"),
        (MARGINS + NOISE + "known = [[2, 1], [0, 2]]", "nothing is left to learn about"),
        (MARGINS + NOISE + "known = [[1, 1]]", "must be 2 rows of 2 whole numbers"),
        (MARGINS + NOISE + "known = [[-1, 1], [1, 1]]", "must be at least 0, got -1"),
        (MARGINS + NOISE + "relesed = [[1, 1], [1, 1]]", "did you mean 'released'?"),
        (MARGINS + NOISE + "releases = 0", "releases must be at least 1, got 0"),
        (MARGINS + NOISE + "records = 2", "records is for noise made for the margins"),
        (MARGINS + NOISE + "[prior]\ncells = [[1, 0], [0, 0]]", "probability 0 to every table with these margins"),
        (MARGINS + NOISE + "[prior]\ncells = [[1, 1], [0, 0]]", "must add up to 1"),
        (MARGINS + NOISE + "[prior]\nodds_ratio = 1\ncells = [[1, 0], [0, 0]]", "give exactly one of cells"),
        (MARGINS + NOISE + "[prior]\nodds_ratio = -1", "odds_ratio must be"),
        (MARGINS + NOISE + '[guarantee]\n"pure dp" = 1', "did you mean 'pure DP'?"),
        (MARGINS + '[table]\nnoise = "k-norn"\nepsilon = 1', "must be one of 'k-norm'"),
        (MARGINS + '[table]\nnoise = "k-norm"\nmu = 1', "k-norm noise takes epsilon, got mu"),
        (MARGINS + '[table]\nnoise = "k-norm"\nepsilon = 1\n[guarantee]\n"pure DP" = 1', "must be left out"),
        (
            MARGINS + '[table]\nnoise = "k-norm"\nepsilon = 1\nreleased = [[9, 9], [9, 9]]',
            "no table with these margins",
        ),
        ('[invariants]\nmargins = [[5, 0], [2, 3]]\n[table]\nnoise = "k-norm"\nepsilon = 1', "determine the table"),
        (MARGINS + NOISE + "[plan]\ncells = 1", "either [plan] or [table]"),
        (NOISE, "invariants: is required"),
        ("not = [toml", "not a TOML file"),
    ],
)
def test_bad_tables_are_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    commands.refused(tmp_path, "invariants", written(tmp_path, text), words=reason)


def test_other_commands_say_who_reads_a_table() -> None:
    for command in ("audit", "infer"):
        result = commands.run(command, TOWN)
        assert result.exit_code == 2
        assert "table" in result.stderr
    result = run(TOWN, "--truth", "district=4")
    assert "--truth replaces counts of a scenario" in result.stderr


# Files, figures and the report


@cache
def audited() -> tuple[Any, Any]:
    one = adv.load_scenario(DISTRICT)
    what = (one.plan, one.adversary, one.truth)
    return one, adv.audit(*what, guarantee=one.guarantee, invariants=one.margins, rng=1, progress=False)


def test_the_figure_has_every_reader_who_is_not_sure_and_both_limits() -> None:
    scenario, tree = audited()
    limits, moves = exact_adversaries.solve(scenario, tree)["limits"], exact_adversaries.moves(scenario, tree)
    assert list(moves) == ["no idea of the others", "a rough idea", "all but a few"]
    figure = figure_of(exact_figures.odds_moved(limits, moves))
    assert isinstance(figure, Figure)
    drawn = {line.get_gid(): line for line in figure.axes[0].get_lines()}
    assert drawn["single_record_bound"].get_xdata()[0] == pytest.approx(0.5)
    assert drawn["semi_adjacency_bound"].get_xdata()[0] == pytest.approx(1.0)
    curve = drawn["moved no idea of the others"]  # three adversaries whose odds move alike share a curve
    at = float(np.interp(0.5001, curve.get_xdata(), curve.get_ydata()))
    one = limits.sel(adversary="a rough idea", definition="pure DP")
    assert at == pytest.approx(float(one["prob_beyond_single_record"]), abs=1e-6)
    assert flat(figure.get_suptitle()) == "51.6% of releases exceed pure DP for one record"
    with pytest.raises(ValueError, match="every adversary is sure"):
        figure_of(exact_figures.odds_moved(limits, {}))


def test_the_figure_says_where_no_bound_is_certain() -> None:
    moves = {"": (np.array([0.5, -7.5]), np.array([0.9, 0.1]))}
    values = {
        "single_record_bound": np.inf, "semi_adjacency_bound": np.inf, "prob_beyond_single_record": 0.0,
        "single_record_exceeded": False, "status": "holds",
    }  # fmt: skip
    at = {"adversary": [""], "definition": ["zCDP"]}
    limits = xr.Dataset({name: (list(at), [[x]]) for name, x in values.items()}, at, {"semi_adjacency": 2})
    axes = figure_of(exact_figures.odds_moved(limits, moves)).axes[0]
    assert flat(axes.figure.get_suptitle()) == "ZCDP sets no bound that is certain"
    assert [axes.xaxis.get_major_formatter()(e, 0) for e in (1, 7)] == ["1\n×2.72", "7\n×1,100"]


def test_the_figure_of_a_table_has_the_three_steps() -> None:
    found = table_answer.solve(load_table_file(TOWN))["table"]
    figure = figure_of(exact_figures.table_beliefs(found, ("sex", "work")))
    drawn = {line.get_gid(): line.get_xdata() for line in figure.axes[0].get_lines()}
    for name in ("prior", "given", "posterior"):
        np.testing.assert_allclose(drawn[name], found[name].values.ravel())


def test_the_section_of_an_audit_says_what_the_total_costs() -> None:
    section = exact_adversaries.exact_section(*audited())
    assert section is not None
    text = flat(" ".join([section.finding, *section.paragraphs]))
    assert "Published exactly: the district's count." in text
    assert "pure DP: epsilon = 0.5 for one record, epsilon = 1 for 2." in text
    assert "51.6% of releases take the adversary" in text
    assert [figure.name for figure in section.figures] == ["odds"]


def test_an_audit_without_exact_totals_says_nothing_of_them() -> None:
    scenario = adv.load_scenario(DATA / "clinic_patients.toml")
    tree = adv.audit(scenario.plan, scenario.adversary, scenario.truth, progress=False)
    assert exact_adversaries.exact_section(scenario, tree) is None
    assert "semi_adjacency" not in tree["bound"]
