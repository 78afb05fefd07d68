"""Records of releases: those that come with the toolkit, files of one's own, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from urllib.parse import urlparse

import pytest

import adversary as adv
from adversary.releases import Check
from adversary.releases.record import KINDS, MODELS
from adversary.report.files import starting_file

RECORDS = adv.releases.records()
RECORD = """
title = "A table"
curator = "An office"
neighbours = "unbounded"
[guarantee]
zCDP = "0.5"
[[source]]
kind = "primary"
url = "https://example.org"
"""
PLAN = """
[[plan.level]]
name = "cell"
rho = 0.5
"""
SCENARIO = """
[scenario.truth]
cell = 3
[scenario.adversary]
prior = "1/2"
known = 2
"""


def read(tmp_path: Path, text: str) -> adv.releases.Record:
    path = tmp_path / "record.toml"
    path.write_text(text)
    return adv.releases.read(path)


def test_at_least_forty_with_sources_titles_and_publishers() -> None:
    assert len(RECORDS) >= 40
    assert len({one.title for one in RECORDS.values()}) == len(RECORDS)
    for name, one in RECORDS.items():
        assert one.curator, name
        assert one.sources, name
        assert len(one.title) <= 46, name  # so that it stands whole beside its row of the figure
        assert one.kind_of_source in KINDS, name
        assert one.model in MODELS, name
        assert all(urlparse(source.url).scheme in ("", "http", "https") for source in one.sources), name
        assert one.unknown, name
    assert {one.kind_of_source for one in RECORDS.values()} == {*KINDS}


@pytest.mark.parametrize("name", RECORDS)
def test_bounds_are_of_something_published(name: str) -> None:
    one = RECORDS[name]
    assert (one.loss is None) == (one.guarantee is None and one.plan is None)
    if one.loss is None:
        assert one.replaced_loss is None
        assert one.scenario is None
    else:
        assert one.replaced_loss is not None
        # a replaced unit is never better protected than an added one
        assert one.replaced_loss.attack_success(0.01) >= one.loss.attack_success(0.01) * (1 - 1e-9)


def test_six_inconsistencies_of_the_registry() -> None:
    """Each stated number beside the one that follows; sources are in the records."""
    found = {(name, one.about): one for name, record in RECORDS.items() for one in record.findings}

    def pair(name: str, start: str) -> tuple[float, float]:
        one = next(x for (n, about), x in found.items() if n == name and about.startswith(start))
        return float(one.stated), one.computed

    assert pair("census_dhc", "rho of persons and units") == (15.29, pytest.approx(12.66))
    assert pair("census_dhc", "epsilon of persons") == (26.34, pytest.approx(25.42, abs=5e-3))
    assert pair("census_dhc", "epsilon of units") == (34.33, pytest.approx(33.29, abs=5e-3))
    assert pair("census_pl94", "epsilon of units") == (2.47, pytest.approx(2.387, abs=5e-4))
    assert pair("google_symptoms", "epsilon of normalisation") == (0.042, pytest.approx(0.021))
    assert pair("wikimedia_russia", "epsilon of noise") == (0.9, pytest.approx(0.1))
    assert pair("census_ddhcb", "rho of a replaced") == (17.790604, pytest.approx(35.581208))


def test_numbers_that_agree_are_no_findings() -> None:
    agreeing = [one for name in RECORDS for one in RECORDS[name].checks if one.agrees]
    assert len(agreeing) >= 20
    assert all(abs(float(one.stated) - one.computed) <= one.rounding * 1.001 for one in agreeing)


@pytest.mark.parametrize(
    ("stated", "rule", "agrees"),
    [
        ('"2.47"', 'epsilon_of = { rho = "3379/12343 * 3379/12343", delta = 1e-10 }', True),
        ('"2.47"', "epsilon_of = { rho = 0.07, delta = 1e-10 }", False),
        ('"0.1"', "epsilon_of_laplace = { scale = 10 }", True),
        ('"0.9"', "epsilon_of_laplace = { scale = 10 }", False),
        ("5.06e-9", 'product = ["0.124", 4.08e-8]', True),
        ("5.07e-9", 'product = ["0.124", 4.08e-8]', False),
        ('"2.64"', 'sum = ["1.76", "0.44", "0.44"]', True),
        ("3", "sum = [1, 1]", False),
    ],
)
def test_a_check_rounds_as_the_number_is_written(tmp_path: Path, stated: str, rule: str, agrees: bool) -> None:
    (check,) = read(tmp_path, RECORD + f'[[check]]\nabout = "x"\nstated = {stated}\n{rule}\n').checks
    assert check.agrees is agrees
    assert ("where" in check.words) is not agrees


def test_a_plan_that_spends_more_than_the_guarantee_is_a_finding(tmp_path: Path) -> None:
    assert read(tmp_path, RECORD + PLAN).findings == ()
    (one,) = read(tmp_path, RECORD + PLAN.replace("0.5", "0.7")).findings
    assert one.words == "zCDP of the plan: 0.7, where 0.5 is stated"
    assert read(tmp_path, RECORD + PLAN.replace("0.5", "0.1")).findings == ()
    laplace = RECORD.replace("zCDP", "'pure DP'") + PLAN.replace("rho = 0.5", 'noise = "laplace"\nepsilon = 2')
    (one,) = read(tmp_path, laplace).findings
    assert one.computed == pytest.approx(2.0, rel=1e-9)
    gauss = RECORD.replace("zCDP", "'pure DP'") + PLAN.replace("rho = 0.5", 'noise = "gaussian"\nsigma = 2')
    assert read(tmp_path, gauss).findings[0].words == "pure DP of the plan: inf, where 0.5 is stated"


def test_words_of_a_check_have_both_numbers() -> None:
    assert Check("sum", Fraction(1, 2), 0.4, 0.05).words == "sum: 0.4, where 0.5 is stated"


def test_replaced_unit_from_plan_statement_or_group(tmp_path: Path) -> None:
    assert read(tmp_path, RECORD).replaced_loss.rho == pytest.approx(2.0)  # a group of two: four times rho
    assert read(tmp_path, RECORD + PLAN).replaced_loss.rho == pytest.approx(1.0)  # leaves one cell, enters another
    assert read(tmp_path, RECORD + "[replaced]\nzCDP = 0.7\n").replaced_loss.rho == 0.7
    bounded = read(tmp_path, RECORD.replace("unbounded", "bounded"))
    assert bounded.replaced_loss is bounded.loss
    local = read(tmp_path, 'model = "local"\n' + RECORD)
    assert local.replaced_loss is local.loss
    assert read(tmp_path, 'model = "local"\n' + RECORD + "[replaced]\nzCDP = 0.7\n").replaced_loss.rho == 0.7


def test_a_guarantee_is_no_smaller_than_its_exact_parts() -> None:
    for name in ("census_pl94", "census_dhc"):
        one = RECORDS[name]
        parts = [float(one.parameters[f"rho, {part}, exact"]) for part in ("persons", "housing units")]
        assert one.guarantee.rho >= sum(parts) - 1e-9, name


def test_a_replaced_unit_of_a_count_published_exactly_has_no_guarantee(tmp_path: Path) -> None:
    exact = 'siblings = 1\n[[plan.level]]\nname = "all"\nnoise = "exact"\n'
    record = read(tmp_path, RECORD + PLAN + exact)
    assert record.loss.rho == 0.5  # as stated
    assert record.replaced_loss == adv.NoPrivacy()


def test_a_count_published_exactly_guarantees_nothing(tmp_path: Path) -> None:
    text = RECORD.replace('[guarantee]\nzCDP = "0.5"\n', "") + '[[plan.level]]\nname = "cell"\nnoise = "exact"\n'
    assert read(tmp_path, text).loss == adv.NoPrivacy()


def test_a_scenario_has_the_plan_of_the_record_or_its_own(tmp_path: Path) -> None:
    whole = read(tmp_path, RECORD + PLAN + SCENARIO)
    assert whole.scenario.plan == whole.plan
    part = read(tmp_path, RECORD + PLAN.replace("plan.level", "scenario.plan.level") + SCENARIO)
    assert part.plan is None
    assert part.scenario.plan.names == ("cell",)
    inside = PLAN.replace("plan.level", "scenario.plan.level")
    other = RECORD + "[scenario]\nneighbours = 'bounded'\n" + inside + SCENARIO
    assert read(tmp_path, other).scenario.plan.neighbours == "bounded"


def test_a_starting_file_is_a_record(tmp_path: Path) -> None:
    assert read(tmp_path, starting_file("record")).guarantee == adv.ZeroConcentratedDP(0.1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RECORD.replace("curator", "curators"), "curators: unknown key, got 'curators'; did you mean 'curator'?"),
        (RECORD.replace('curator = "An office"', ""), r"curator: is required \(who published it\)"),
        ('model = "centrall"\n' + RECORD, "model: must be one of .* got 'centrall'; did you mean 'central'?"),
        ('date = "2023-13"\n' + RECORD, "date: must be a year, month or day such as .* got '2023-13'"),
        ('date = "May 2023"\n' + RECORD, "date: must be a year, month or day such as \"2023-05-25\", got 'May 2023'"),
        (RECORD.replace('"primary"', '"secondary"'), r"source\[1\].kind: must be one of .* got 'secondary'"),
        (RECORD.replace('zCDP = "0.5"', 'zCDP = "-1"'), "guarantee.zCDP: must be a number"),
        (RECORD.replace('zCDP = "0.5"', "zCDP = 1\n'pure DP' = 1"), "must state one definition, got zCDP, pure DP"),
        (RECORD.replace('neighbours = "unbounded"', "") + PLAN, "plan: needs privacy_unit.neighbours"),
        (
            RECORD.replace("unbounded", "bounded") + "[replaced]\nzCDP = 1\n",
            r'replaced: stands beside the \[guarantee\] .* got neighbours = "bounded"',
        ),
        (RECORD.replace("[guarantee]", "[replaced]"), r"replaced: stands beside .* got no \[guarantee\]"),
        (RECORD + SCENARIO, r"scenario.plan: is required where the record has no \[plan\]"),
        (RECORD + PLAN + SCENARIO.replace("cell = 3", "cel = 3"), "scenario.truth.cel: "),
        (RECORD + "[[check]]\nabout = 'x'\nstated = 1\n", r"check\[1\]: must have one of sum, .* got none of them"),
        (RECORD + "[[check]]\nabout = 'x'\nstated = 1\nsum = []\n", r"check\[1\].sum: must hold at least one number"),
        (RECORD + "[[check]]\nstated = 1\nsum = [1]\n", r"check\[1\].about: is required \(what is compared\)"),
        (
            RECORD + "[[check]]\nabout = 'x'\nstated = 1\nepsilon_of_laplace = { scale = 0 }\n",
            r"check\[1\].epsilon_of_laplace: scale must be positive and finite, got 0",
        ),
        (RECORD + "[parameters]\nrho = 'half'\n", "parameters.rho: must be a number such as 0.5"),
        ("[plan]\n", "title: is required|curator: is required|source: is required"),
        ("title = ", "not a TOML file"),
    ],
)  # fmt: skip
def test_damaged_records_are_refused_by_file_key_rule_and_value(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        read(tmp_path, text)
    assert "record.toml: " in str(error.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        adv.releases.read("nowhere.toml")
