"""Analyses of DP Wizard: guarantee, unit and plans, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import adversary as adv

FILE = Path(__file__).with_name("dp_wizard.yaml")
"""Laid out as DP Wizard 0.9 dumps its objects; its numbers are made up."""


def test_an_analysis_is_a_guarantee_a_unit_and_a_plan_for_each_histogram() -> None:
    analysis = adv.releases.read_dp_wizard(FILE)
    assert analysis.guarantee == adv.PureDP(2.0)
    assert analysis.unit == adv.PrivacyUnit("Family", contribution=3, neighbours="unbounded")
    assert analysis.others == {"income": "Mean"}
    assert analysis.notes == ()
    ((name, plan),) = analysis.plans.items()
    assert name == "age"
    scale = 3 / (2.0 * 2 / 6)  # contributions over the share of epsilon
    assert plan.levels[0].mechanism == adv.Geometric(1.0 / scale)
    assert plan.unit_loss().epsilon(0.0) == pytest.approx(2.0 * 2 / 6, rel=1e-12)
    adversary = adv.Adversary(0.1, known=20, hypotheses=(0, 3))
    tree = adv.audit(plan, adversary, {"age, one bin": 23}, guarantee=analysis.guarantee, also=(), progress=False)
    assert tree["risk"]["status"] == "ok"


@pytest.mark.parametrize(
    ("old", "new", "guarantee", "words"),
    [
        ("    - north\n    - south\n", "    []\n", adv.ApproximateDP(2.0, 1e-7), "take the groups for public"),
        ("1000\n", "50000000\n", adv.PureDP(2.0), ""),
        ("'STATISTICS'", "'SYNTHETIC_DATA'", adv.PureDP(2.0), "Synthetic data: the noise .* is not in the file"),
    ],
    ids=["groups that are not public", "many rows", "synthetic data"],
)
def test_what_the_guarantee_of_an_analysis_hangs_on(
    old: str, new: str, guarantee: adv.Guarantee, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(FILE.read_text().replace(old, new).replace("'region':\n    []", "'region': []"))
    analysis = adv.releases.read_dp_wizard(file)
    assert analysis.guarantee == guarantee
    assert [bool(re.search(words, note)) for note in analysis.notes] == [True] * bool(words)
    assert bool(analysis.plans) == ("SYNTHETIC" not in new)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("epsilon: 2.0", "epsilon: -2.0", r"analysis_plan\.epsilon: must be positive, got -2"),
        ("epsilon: 2.0", "epsilons: 2.0", r"analysis_plan\.epsilons: unknown key"),
        (
            "contributions: 3",
            "contributions: 0",
            "analysis_plan.contributions: contributions must be at least 1, got 0",
        ),
        ("'Histogram'", "'Mode'", r"analysis_columns\.age\.statistic_name: must be one of .*'Mode'"),
        ("weight: 2", "weight: 0", r"analysis_columns\.age\.weight: .*at least 1"),
        ("analysis_plan:", "analysis:", "must have environment and analysis_plan"),
        ("weight: 2", "weight: [", "must be a YAML file"),
        ("path: people.csv", "path: &a [*a]", "references .* are not read"),
    ],
)
def test_an_analysis_that_is_none_is_refused(old: str, new: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(FILE.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"a\.yaml: .*{words}"):
        adv.releases.read_dp_wizard(file)


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    file, made = tmp_path / "a.yaml", tmp_path / "made"
    harm = f"path: !!python/object/apply:os.mkdir ['{made}']"
    file.write_text(FILE.read_text().replace("path: people.csv", harm))
    assert adv.releases.read_dp_wizard(file).guarantee == adv.PureDP(2.0)
    assert not made.exists()
