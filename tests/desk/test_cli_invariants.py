"""`adversary invariants`: promises before and beside exact totals, readers in two steps, tables, refusals, files."""

from __future__ import annotations

from functools import cache, partial
from io import StringIO
from math import comb, log10
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from rich.console import Console
from tests.pages import page_without_pictures

import adversary as adv
from adversary.desk.answers import exact_adversaries, table_answer
from adversary.desk.figures import exact_figures
from adversary.desk.files.table_file import load_table_file
from adversary.desk.kit import exact_words
from adversary.desk.report import audit_answer
from tests import commands
from tests.commands import flat

DATA = Path(__file__).parents[2] / "data"
DISTRICT, STATES, TOWN = (
    str(DATA / f"{name}.toml") for name in ("districts_1940_total", "redistricting_2020_state_totals", "town_table")
)
MARGINS = "[invariants]\nmargins = [[3, 2], [2, 3]]\n"
NOISE = '[table]\nnoise = "geometric"\nepsilon = 1\n'

run = partial(commands.run, "invariants")
answered = cache(partial(commands.answered, "invariants", silent=False))
printed = cache(partial(commands.printed, "invariants"))


def written(folder: Path, text: str) -> str:
    path = folder / "file.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


# Scenarios


def test_a_district_total_doubles_the_promise_and_one_reader_needs_no_release() -> None:
    answer = answered(DISTRICT)
    published = answer["published"]
    assert published["levels"] == ["district"]
    assert published["features"] == {"district": [45, 955]}
    assert (published["used"], published["disclosed"], published["databases"]) == (2, False, None)
    assert published["semi_adjacency"] == {
        name: {"value": 2, "lowest": 2, "exact": True} for name in ("worst", "literal")
    }
    assert published["log10_databases"] == pytest.approx(log10(comb(1000, 45)), rel=1e-9)
    promise = answer["promises"]["pure DP"]
    assert promise["before"]["parameters"] == {"epsilon": 0.5}
    assert promise["after"]["parameters"]["epsilon"] == pytest.approx(1.0, rel=1e-12)
    assert promise["after"]["advantage"] == pytest.approx(adv.PureDP(0.5).group(2).advantage, rel=1e-12)
    sure = answer["readers"]["counted everybody"]
    assert (sure["given"], sure["invariant_ratio"], sure["ratio_mean"]) == (1.0, 2.0, 1.0)
    assert "“counted everybody” is sure of the target before any noise is read" in answer["conclusion"]


def test_what_the_total_taught_is_the_likelihood_of_it() -> None:
    """Poisson(40) others: 45 people are 44 others and the target, or 45 others; the odds go up by 45 / 40."""
    one = answered(DISTRICT)["readers"]["a rough idea"]
    assert one["given"] == pytest.approx(45 / 85, rel=1e-12)
    assert one["invariant_ratio"] == pytest.approx(one["given"] / one["prior"], rel=1e-12)
    assert one["ratio_mean"] == pytest.approx(one["posterior_mean"] / one["given"], rel=1e-9)
    assert answered(DISTRICT)["readers"]["no idea of the others"]["invariant_ratio"] == 1.0


def test_the_promise_for_one_record_is_passed_and_the_one_beside_the_total_is_not() -> None:
    """In and out differ by one in the cell and by one elsewhere: the losses of two geometric noises add up."""
    for name, one in answered(DISTRICT)["readers"].items():
        row = one["bounds"]["pure DP"]
        assert (row["naive"], row["limit"], row["semi_limit"], row["k"]) == pytest.approx((0.5, 1.0, 1.0, 2))
        assert row["status"] == "holds"
        if name == "counted everybody":
            assert (row["naive_broken"], row["achieved"]) == (False, 0.0)
        else:
            assert row["naive_broken"]
            assert row["naive_outside"] > 0.5
            assert 0.5 < row["achieved"] <= 1.0
    words = flat(printed(DISTRICT))
    assert "That is no bound: 51.59 % of releases take reader" in words
    assert "which no promise limits" in words


def test_the_published_numbers_of_the_state_totals() -> None:
    """Cho and Awan, section 6: rho 2.56 to 10.24; epsilon at 1e-10 by the simple conversion 17.91528 and 40.95057."""
    answer = answered(STATES)
    before, after = (answer["promises"]["zCDP"][when] for when in ("before", "after"))
    assert (before["parameters"]["rho"], after["parameters"]["rho"]) == pytest.approx((2.56, 10.24), rel=1e-12)
    simple = [[row["simple"] for row in one["epsilon"]] for one in (before, after)]
    assert simple[0] == pytest.approx([13.417825, 17.91528], abs=1e-5)
    assert simple[1] == pytest.approx([31.955649, 40.95057], abs=1e-5)
    assert (before["mu_if_gaussian"], after["mu_if_gaussian"]) == pytest.approx((2.262742, 4.525483), abs=1e-6)
    assert answer["published"]["features"] is None
    assert answer["composition"]["same"]
    assert all(one["bounds"]["zCDP"]["k"] == 2 for one in answer["readers"].values())
    assert "20000 simulated releases" in answer["engine"]
    for name, one in answer["readers"].items():
        said = next(sentence for sentence in answer["words"] if f"“{name}”" in sentence)
        assert exact_words.after(one)[0] in said
        assert f" ± {100 * one['mcse']['posterior_mean']:#.2g}" in said


def test_a_scenario_may_have_several_truths(tmp_path: Path) -> None:
    text = Path(DISTRICT).read_text(encoding="utf-8").split('[adversaries."a rough')[0]
    text = text.replace("[truth]\ncell = 1", "[truths.in]\ncell = 1\ndistrict = 45\n[truths.out]\ncell = 0")
    answer = answered(written(tmp_path, text))
    assert set(answer["truths"]) == {"in", "out"}
    means = [answer["truths"][name]["readers"]["no idea of the others"]["posterior_mean"] for name in ("in", "out")]
    assert means[0] + means[1] == pytest.approx(1.0, abs=1e-6)  # even prior: what "in" gains, "out" loses


@pytest.mark.parametrize(
    ("margins", "said"),
    [("[[45, 955]]", exact_words.UNTOLD), ("[[45]]", exact_words.GONE)],
    ids=["no exact level", "nothing left"],
)
def test_readers_are_left_out_who_are_not_told_what_is_published(tmp_path: Path, margins: str, said: str) -> None:
    """Without an exact level a reader does not condition on margins: it would be false that they teach nothing."""
    text = Path(DISTRICT).read_text(encoding="utf-8").replace("[[45, 955]]", margins).split('[adversaries."a rough')[0]
    text = text.replace('epsilon = "1/2"', "epsilon = 2")
    text = text if said == exact_words.GONE else text.replace('noise = "exact"', 'noise = "geometric"\nepsilon = 2')
    path = written(tmp_path, text)
    answer = answered(path)
    assert answer["readers"] == {}
    assert said in answer["words"]
    assert not any("learn nothing" in one or "Read for one record" in one for one in answer["words"])
    assert "What it taught alone" not in printed(path)
    one = adv.load_scenario(path)
    tree = adv.audit(one.plan, one.adversary, one.truth, invariants=one.margins, progress=False)
    section = exact_adversaries.section(one, tree)
    assert section is not None
    assert (section.table, section.figures) == (None, [])
    assert exact_adversaries.moves(one, tree) == {}


def test_margins_beyond_the_exact_level_count_in_the_promise_alone(tmp_path: Path) -> None:
    """Seven features of 1,000 people: more databases than a float can count, and a(t) only between two numbers."""
    halves = ", ".join(["[500, 500]"] * 6)
    text = Path(DISTRICT).read_text(encoding="utf-8").replace("[[45, 955]]", f"[[45, 955], {halves}]")
    answer = answered(written(tmp_path, text.replace('features = ["district"]', "")))
    published = answer["published"]
    assert published["databases"] is None
    assert published["log10_databases"] == pytest.approx(log10(comb(1000, 45)) + 6 * log10(comb(1000, 500)), rel=1e-9)
    row = published["semi_adjacency"]["worst"]
    assert row["lowest"] < row["value"] == published["used"]
    assert any("readers are told the district's count; the other margins" in one for one in answer["words"])
    assert answer["readers"]["a rough idea"]["given"] == pytest.approx(45 / 85, rel=1e-12)


def test_a_promise_the_plan_does_not_keep_is_not_blamed_on_the_total(tmp_path: Path) -> None:
    text = Path(DISTRICT).read_text(encoding="utf-8").replace('"pure DP" = "1/2"', '"pure DP" = "1/4"')
    words = " ".join(answered(written(tmp_path, text))["words"])
    assert "The plan does not keep pure DP: its own privacy loss exceeds it" in words
    assert "nothing were published exactly, the plan's own loss would keep odds" in words
    assert "nothing were published exactly, pure DP" not in words


def test_who_is_sure_from_the_total_is_wholly_sure() -> None:
    sure = answered(DISTRICT)["readers"]["counted everybody"]
    assert sure["posterior_mean"] == 1.0
    assert sure["mcse"] == {"posterior_mean": 0.0, "ratio_mean": 0.0}
    assert "> 99.9" not in printed(DISTRICT)
    assert "What follows: engine exact, exact averages over releases" in printed(DISTRICT)


def test_margins_that_leave_one_database_leave_no_privacy(tmp_path: Path) -> None:
    text = Path(DISTRICT).read_text(encoding="utf-8").replace("[[45, 955]]", "[[45]]")
    answer = answered(written(tmp_path, text))
    assert answer["published"]["disclosed"]
    assert answer["promises"]["pure DP"]["after"]["definition"] == adv.NoPrivacy().definition
    assert answer["promises"]["pure DP"]["after"]["loss_bound"] is None
    assert answer["conclusion"] == exact_words.GONE


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[[45, 955]]", "[[44, 956]]", "level 'district' publishes 45"),
        ("[[45, 955]]", "[[45, 955], [1, 2]]", "margins must agree on the number of records, got totals 1000, 3"),
        ("[[45, 955]]", "[[45, -1]]", "must be at least 0, got -1"),
        ("[[45, 955]]", "[]", "margins must have at least one feature, got none"),
        ("[[45, 955]]", "45", "a list of lists of counts"),
        ("[[45, 955]]", '[["45", 955]]', "invariants.margins: must hold counts, whole numbers, got '45'"),
        ("[[45, 955]]", "[[45, true]]", "invariants.margins: must hold counts, whole numbers, got True"),
        ('features = ["district"]', 'feature = ["district"]', "did you mean 'features'?"),
        ('features = ["district"]', 'features = ["a", "b"]', "must be 1 different names"),
        ('features = ["district"]', 'reading = "best"', "must be one of ('worst', 'literal'), got 'best'"),
        ("mu = 40", "mu = -40", "law"),
        ("n = 46", "n = 20", "outside the reader's belief"),
        ("[invariants]", "[invariant]", "did you mean 'invariants'?"),
    ],
)
def test_bad_scenarios_are_refused_with_the_reason(tmp_path: Path, old: str, new: str, reason: str) -> None:
    text = Path(DISTRICT).read_text(encoding="utf-8")
    assert old in text
    path = written(tmp_path, text.replace(old, new))
    result = run(path, "--out", str(tmp_path / "out"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {path}: ")
    assert result.stderr.count("\n") == 1
    assert reason in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_scenario_without_exact_totals_has_nothing_to_say() -> None:
    result = run(str(DATA / "dare_1940.toml"))
    assert result.exit_code == 2
    assert 'nothing is published exactly: give a level noise = "exact"' in result.stderr


# Tables


def test_a_table_gives_what_the_library_gives() -> None:
    answer, file = answered(TOWN), load_table_file(TOWN)
    found = adv.conditioned.table_posterior(
        file.invariants.margins, file.released, adv.Geometric(0.5), guarantee=adv.PureDP(1.0)
    )
    for name in ("given", "invariant_ratio", "posterior", "ratio", "log_odds_factor"):
        np.testing.assert_allclose(answer["table"][name], found[name].values, rtol=1e-12, err_msg=name)
    assert answer["table"]["radius"] == int(found["radius"]) == 3
    assert answer["table"]["odds_bound"] == pytest.approx(3.0)
    assert answer["table"]["achieved"] == pytest.approx(float(np.abs(found["log_odds_factor"]).max()))
    assert answer["published"]["databases"] == adv.invariants.Margins([[12, 9], [7, 14]]).databases
    readings = {name: row["value"] for name, row in answer["published"]["semi_adjacency"].items()}
    assert readings == {"worst": 3, "literal": 2}


def test_two_releases_are_stretched_first_and_then_added_up() -> None:
    """Pure DP with epsilon 1, two releases, three records: total variation 0.881191 against 0.927205."""
    both = answered(TOWN)["composition"]
    found = [both[order]["advantage"] for order in ("extend_then_compose", "compose_then_extend")]
    assert found == pytest.approx([0.881191, 0.927205], abs=1e-6)
    assert not both["same"]
    assert "each stretched, then added up" in printed(TOWN)


def test_noise_made_for_the_margins_costs_less() -> None:
    """Like for like at three records: 3 sqrt(2) E|Z_4| for the usual Gaussian noise, 2 E|Z_1| for its own."""
    costs = answered(TOWN)["costs"]
    assert costs["own"]["gaussian"] == pytest.approx(1.595769, abs=1e-6)
    assert costs["usual"]["gaussian"] == pytest.approx(7.976042, abs=1e-6)
    assert costs["own"]["k-norm"] == pytest.approx(2.0)


def test_a_release_may_pass_the_promise_for_one_record(tmp_path: Path) -> None:
    """Few people and a release far to one side: beyond epsilon, never beyond three times it."""
    text = "[invariants]\nmargins = [[2, 1], [2, 1]]\n" + NOISE + "released = [[9, -9], [-9, 9]]\n"
    one = answered(written(tmp_path, text))["table"]
    assert one["naive_broken"]
    assert one["naive"] < one["achieved"] <= one["odds_bound"] == pytest.approx(3.0)


def test_noise_made_for_the_margins_brings_its_own_promise(tmp_path: Path) -> None:
    """Made for two records, in a 3 x 3 table three may change: mu sqrt(6) / 2."""
    text = '[invariants]\nmargins = [[1, 1, 1], [1, 1, 1]]\n[table]\nnoise = "span gaussian"\nmu = 1\nrecords = 2\n'
    answer = answered(written(tmp_path, text))
    one = answer["promises"]["noise made for the margins"]
    assert one["made_for"] == 2
    assert one["before"]["parameters"] == {"mu": 1.0}
    assert one["after"]["parameters"]["mu"] == pytest.approx(np.sqrt(6) / 2, rel=1e-12)
    assert "has mu = 1 for changes of 2 records" in answer["conclusion"]


def test_who_knows_all_records_but_one_needs_no_release(tmp_path: Path) -> None:
    text = MARGINS + NOISE + "known = [[1, 1], [1, 1]]\nreleased = [[1, 2], [1, 1]]\n"
    answer = answered(written(tmp_path, text))
    assert answer["table"]["given"] == answer["table"]["posterior"] == [[0.0, 1.0], [0.0, 0.0]]
    assert answer["table"]["radius"] == 0
    assert any("the noise hides nothing" in sentence for sentence in answer["words"])


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        ("cells = [[0.5, 0.25], [0.125, 0.125]]", adv.conditioned.Independent(np.array([[0.5, 0.25], [0.125, 0.125]]))),
        ("odds_ratio = 4", adv.conditioned.Independent.from_odds_ratio(4.0)),
        ("concentration = [[2, 1], [1, 2]]", adv.conditioned.Dirichlet(np.array([[2.0, 1.0], [1.0, 2.0]]))),
    ],
)
def test_priors_of_a_table(tmp_path: Path, prior: str, expected: Any) -> None:
    answer = answered(written(tmp_path, MARGINS + NOISE + f"[prior]\n{prior}\n"))
    found = adv.conditioned.table_posterior(([3, 2], [2, 3]), prior=expected)
    np.testing.assert_allclose(answer["table"]["given"], found["given"].values, rtol=1e-12)
    assert "posterior" not in answer["table"]


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
        (MARGINS + '[table]\nnoise = "k-norn"\nepsilon = 1', "must be one of ('k-norm'"),
        (MARGINS + '[table]\nnoise = "k-norm"\nmu = 1', "k-norm noise takes epsilon, got ['mu']"),
        (MARGINS + '[table]\nnoise = "k-norm"\nepsilon = 1\n[guarantee]\n"pure DP" = 1', "must be left out"),
        (
            MARGINS + '[table]\nnoise = "k-norm"\nepsilon = 1\nreleased = [[9, 9], [9, 9]]',
            "no table with these margins",
        ),
        ('[invariants]\nmargins = [[5, 0], [2, 3]]\n[table]\nnoise = "k-norm"\nepsilon = 1', "settle the table"),
        (MARGINS + NOISE + "[plan]\ncells = 1", "either [plan] or [table]"),
        (NOISE, "invariants: is required"),
        ("not = [toml", "not a TOML file"),
    ],
)
def test_bad_tables_are_refused_with_the_reason(tmp_path: Path, text: str, reason: str) -> None:
    path = written(tmp_path, text)
    result = run(path, "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {path}: ")
    assert reason in result.stderr


def test_other_commands_say_who_reads_a_table() -> None:
    for command in ("audit", "infer"):
        result = commands.run(command, TOWN)
        assert result.exit_code == 2
        assert "table" in result.stderr
    result = run(TOWN, "--truth", "district=4")
    assert "--truth replaces counts of a scenario" in result.stderr


# Files, figures and the report


@pytest.mark.parametrize(
    ("path", "names", "group"), [(DISTRICT, ["odds", "promise"], "bound"), (TOWN, ["noise", "table"], "costs")]
)
def test_files_are_written_whole(tmp_path: Path, path: str, names: list[str], group: str) -> None:
    result = run(path, "--out", str(tmp_path), "--json")
    assert result.exit_code == 0, result.stderr
    figures = sorted(f"{name}.{kind}" for name in names for kind in ("png", "svg"))
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["invariants.nc", *figures])
    with xr.open_datatree(tmp_path / "invariants.nc", engine="h5netcdf") as tree:
        assert group in tree.children
        assert tree.attrs["title"] == answered(path)["title"]


@cache
def audited() -> tuple[Any, Any]:
    one = adv.load_scenario(DISTRICT)
    what = (one.plan, one.adversary, one.truth)
    return one, adv.audit(*what, guarantee=one.guarantee, invariants=one.margins, rng=1, progress=False)


def test_the_figure_has_every_reader_who_is_not_sure_and_both_limits() -> None:
    scenario, tree = audited()
    found, moves = exact_adversaries.brief(scenario, tree), exact_adversaries.moves(scenario, tree)
    assert list(moves) == ["no idea of the others", "a rough idea", "all but a few"]
    figure = exact_figures.odds_moved(found, moves)
    assert isinstance(figure, Figure)
    drawn = {line.get_gid(): line for line in figure.axes[0].get_lines()}
    assert drawn["naive"].get_xdata()[0] == pytest.approx(0.5)
    assert drawn["semi_limit"].get_xdata()[0] == pytest.approx(1.0)
    curve = drawn["moved no idea of the others"]  # three readers whose odds move alike share a curve
    at = float(np.interp(0.5001, curve.get_xdata(), curve.get_ydata()))
    assert at == pytest.approx(found["readers"]["a rough idea"]["bounds"]["pure DP"]["naive_outside"], abs=1e-6)
    with pytest.raises(ValueError, match="every reader is sure"):
        exact_figures.odds_moved(found, {})


def test_the_figure_says_where_no_limit_is_certain() -> None:
    moves = {"": (np.array([0.5, -7.5]), np.array([0.9, 0.1]))}
    row = {"naive": None, "naive_outside": 0.0, "naive_broken": False, "semi_limit": None}
    found = {"published": {"used": 2}, "violated": [], "readers": {"": {"bounds": {"zCDP": row}}}}
    axes = exact_figures.odds_moved(found, moves).axes[0]
    assert "ZCDP sets no limit that holds for certain" in flat(axes.figure.get_suptitle())
    assert [axes.xaxis.get_major_formatter()(e, 0) for e in (1, 7)] == ["1\n×2.72", "7\n×1,100"]


def test_the_figure_of_a_table_has_the_three_steps() -> None:
    answer = table_answer.work_out(load_table_file(TOWN))
    figure = exact_figures.table_beliefs(answer.posterior, ("sex", "work"))
    drawn = {line.get_gid(): line.get_xdata() for line in figure.axes[0].get_lines()}
    for name in ("prior", "given", "posterior"):
        np.testing.assert_allclose(drawn[name], answer.posterior[name].values.ravel())


def test_the_report_and_the_audit_say_what_the_total_costs() -> None:
    scenario, tree = audited()
    page = flat(page_without_pictures(scenario, tree))
    assert exact_adversaries.TITLE in page
    assert "Without noise, exactly: district." in page
    assert "The promise of pure DP, epsilon = 0.5 for one record, is beside it epsilon = 1, for 2." in page
    assert "51.59 % of releases take reader" in page
    screen = Console(width=200, record=True, file=StringIO())
    audit_answer.show(scenario, tree, screen)
    assert "51.59\u00a0% of releases take reader" in screen.export_text()
    answer = audit_answer.summary(scenario, tree)["invariants"]
    assert answer["published"]["used"] == 2
    assert answer["readers"]["a rough idea"]["bounds"]["pure DP"]["naive_broken"]


def test_an_audit_without_exact_totals_says_nothing_of_them() -> None:
    scenario = adv.load_scenario(DATA / "clinic_patients.toml")
    tree = adv.audit(scenario.plan, scenario.adversary, scenario.truth, progress=False)
    assert exact_adversaries.section(scenario, tree) is None
    assert "semi_adjacency" not in tree["bound"]
