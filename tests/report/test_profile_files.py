"""Profile files: read as meant; what is wrong is said in one line with file, key, rule and value; nothing is run."""

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.budget.tolerances import EVERYBODY, Tolerance
from adversary.report.files.keys import Keys
from adversary.report.files.profile_file import load_profile_file
from adversary.report.files.profile_keys import read_profile
from tests.tables import DATA

GOOD = """
title = "one profile"
statistic = "count"
round_down = 2
failure = 0.01
delta = 1e-5
releases = 12

[profile]
kind = "ratio or absolute"
ratio = 2
absolute = "1/4"
value = 1

[utility]
noise = "geometric"
base = 4012
target = "6/1000"
deviations = ["1/4000", 0.001]
"""
PROFILES: dict[str, tuple[str, adv.RiskProfile]] = {
    "constant": ('kind = "constant"\nratio = "6/5"', adv.RiskProfile.constant(1.2)),
    "constant, some readers": (
        'kind = "constant"\nratio = 3\ninclusion = [0.5, 1]', adv.RiskProfile.constant(3).within(inclusion=(0.5, 1)),
    ),
    "ratio or absolute": (
        'kind = "ratio or absolute"\nratio = 3\nabsolute = 0.25', adv.RiskProfile.ratio_or_absolute(3, 0.25),
    ),
    "ratio or absolute, one inclusion": (
        'kind = "ratio or absolute"\nratio = 3\nabsolute = 0.15\ninclusion = "1/20"',
        adv.RiskProfile.ratio_or_absolute(3, 0.15, inclusion=0.05),
    ),
    "ratio or absolute, a range of values": (
        'kind = "ratio or absolute"\nratio = 3\nabsolute = 0\nvalue = [0.1, "1/2"]',
        adv.RiskProfile.ratio_or_absolute(3, 0.0, value=(0.1, 0.5)),
    ),
    "box": (
        'kind = "box"\nratio = 3\ninclusion = [0, 0.6]\nvalue = [0.5, 1]',
        adv.RiskProfile.box(3, inclusion=(0, 0.6), value=(0.5, 1)),
    ),
    "difference": ('kind = "difference"\nby = 0.2', adv.RiskProfile.difference(0.2)),
    "point": ('kind = "point"\nratio = 1.5\ninclusion = 0.5\nvalue = 1', adv.RiskProfile.point(1.5, 0.5, 1.0)),
    "minimum": (
        'kind = "minimum"\nof = [{ kind = "constant", ratio = 3 }, { kind = "difference", by = 0.2 }]',
        adv.RiskProfile.constant(3).minimum(adv.RiskProfile.difference(0.2)),
    ),
    "minimum of one": (
        'kind = "minimum"\nof = [{ kind = "constant", ratio = 3 }]\nvalue = 1',
        adv.RiskProfile.constant(3).within(value=(1, 1)),
    ),
}  # fmt: skip
BAD = {
    "no profile": ("[profile]", "[extra]", ["extra", "unknown key"]),
    "misspelt kind": (
        '"ratio or absolute"',
        '"ratio_or_absolut"',
        ["kind", "did you mean 'ratio or absolute'"],
    ),
    "another kind": ('"ratio or absolute"', '"strict"', ["profile.kind", "must be one of", "'strict'"]),
    "kind of the wrong type": ('"ratio or absolute"', "3", ["profile.kind", "one of", "3"]),
    "kind missing": ('kind = "ratio or absolute"\n', "", ["profile.kind", "required"]),
    "misspelt key": ("ratio = 2", "ration = 2", ["profile.ration", "did you mean 'ratio'"]),
    "key of another kind": ("ratio = 2", "ratio = 2\nby = 0.1", ["profile.by", "unknown key"]),
    "ratio missing": ("ratio = 2\n", "", ["profile.ratio", "required"]),
    "ratio below 1": ("ratio = 2", "ratio = 0.5", ["profile", "ratio must be at least 1", "0.5"]),
    "NaN ratio": ("ratio = 2", "ratio = nan", ["profile", "ratio", "nan"]),
    "ratio that is code": ("ratio = 2", "ratio = '__import__(\"os\")'", ["profile.ratio", "number", "__import__"]),
    "ratio that is a truth value": ("ratio = 2", "ratio = true", ["profile.ratio", "number", "true"]),
    "negative absolute": ('"1/4"', "-0.1", ["profile", "absolute must be a probability", "-0.1"]),
    "absolute above 1": ('"1/4"', "1.5", ["profile", "absolute must be a probability", "1.5"]),
    "prior above 1": ("value = 1", "value = 2", ["profile", "value must be in (0, 1]", "2"]),
    "prior 0": ("value = 1", "value = 0", ["profile", "value must be in (0, 1]", "0"]),
    "range the wrong way": ("value = 1", "value = [0.5, 0.2]", ["profile", "value must be a range", "0.5, 0.2"]),
    "range of three": ("value = 1", "value = [0.1, 0.2, 0.3]", ["profile.value", "two", "[0.1, 0.2, 0.3]"]),
    "range of words": ("value = 1", 'value = ["a", "b"]', ["profile.value", "fraction", "'a'"]),
    "unknown statistic": ('"count"', '"mean"', ["statistic", "one of", "'mean'"]),
    "fractional digits": ("round_down = 2", "round_down = 1.5", ["round_down", "whole number", "1.5"]),
    "negative digits": ("round_down = 2", "round_down = -1", ["round_down", "at least 0", "-1"]),
    "failure above 1": ("failure = 0.01", "failure = 2", ["failure", "[0, 1]", "2"]),
    "delta of 0": ("delta = 1e-5", "delta = 0", ["delta", "(0, 1)", "0"]),
    "no release": ("releases = 12", "releases = 0", ["releases", "at least 1", "0"]),
    "half a release": ("releases = 12", "releases = 0.5", ["releases", "whole number", "0.5"]),
    "title that moves the cursor": ('"one profile"', '"\\u001b[2Jx"', ["title", "control characters", "\\x1b[2Jx"]),
    "title of the wrong type": ('"one profile"', "1", ["title", "text", "1"]),
    "empty base": ("base = 4012", "base = 0", ["utility.base", "at least 1", "0"]),
    "target above 1": ('"6/1000"', "6", ["utility.target", "[0, 1]", "6"]),
    "negative deviation": ("0.001]", "-0.001]", ["utility.deviations", "-0.001"]),
    "rate above 1": ("0.001]", "0.995]", ["utility.deviations", "at most 1", "0.995"]),
    "deviation twice": ('"1/4000", 0.001]', "0.001, 0.001]", ["utility.deviations", "must differ", "0.001"]),
    "too many digits": ("round_down = 2", "round_down = 16", ["round_down", "at most 15", "16"]),
    "no deviation": ('["1/4000", 0.001]', "[]", ["utility.deviations", "at least one", "[]"]),
    "unknown noise": ('"geometric"', '"cauchy"', ["utility.noise", "one of", "cauchy"]),
    "key of the utility": ("base = 4012", "bass = 4012", ["utility.bass", "did you mean 'base'"]),
    "a scenario file": ("[utility]", "[plan]", ["plan", "scenario file", "adversary audit"]),
    "malformed TOML": ("[profile]", "[profile", ["not a TOML file", "line"]),
}


def profile_file(folder: Path, text: str = GOOD) -> Path:
    path = folder / "profile.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_good_file_reads_as_meant(tmp_path: Path) -> None:
    file = load_profile_file(profile_file(tmp_path))
    assert file.profiles == {"": adv.RiskProfile.ratio_or_absolute(2, 0.25, value=1)}
    assert (file.title, file.named, file.statistic, file.round_down) == ("one profile", False, "count", 2)
    assert (file.failure, file.delta, file.releases) == (0.01, 1e-5, 12)
    assert file.utility is not None
    assert (file.utility.base, file.utility.target, file.utility.noise) == (4012, Fraction(6, 1000), "geometric")
    assert file.utility.deviations == (Fraction(1, 4000), 0.001)


def test_what_is_left_out_has_a_usual_value(tmp_path: Path) -> None:
    file = load_profile_file(profile_file(tmp_path, '[profile]\nkind = "constant"\nratio = 3\n'))
    assert (file.statistic, file.round_down, file.failure, file.delta) == ("any", None, 0.05, 1e-6)
    assert (file.releases, file.utility) == (None, None)


@pytest.mark.parametrize("what", PROFILES)
def test_every_kind_of_profile_is_the_one_of_the_library(what: str, tmp_path: Path) -> None:
    text, expected = PROFILES[what]
    found = load_profile_file(profile_file(tmp_path, f"[profile]\n{text}\n")).profiles[""]
    p, q = np.linspace(0.01, 1.0, 34)[:, None], np.linspace(0.01, 1.0, 34)
    assert np.array_equal(found(p, q), expected(p, q))
    assert found.words == expected.words


@pytest.mark.parametrize("what", BAD)
def test_what_is_wrong_is_said_in_one_line(what: str, tmp_path: Path) -> None:
    old, new, expected = BAD[what]
    assert GOOD.count(old) >= 1
    path = profile_file(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: ") as caught:
        load_profile_file(path)
    message = str(caught.value)
    assert message.count(str(path)) == 1, message
    for part in expected:
        assert part in message


def test_profiles_inside_a_minimum_are_named_by_their_place(tmp_path: Path) -> None:
    for row, expected in (
        ('{ kind = "difference", by = 2 }', "profile.of[2].by: must be a difference of probabilities in (0, 1), got 2"),
        ('{ kind = "differences" }', "profile.of[2].kind: must be one of"),
        ('{ kind = "point", ratio = 2 }', "profile.of[2].inclusion: is required"),
        ("3", "profile.of[2]: must be a table, got 3"),
    ):
        text = f'[profile]\nkind = "minimum"\nof = [{{ kind = "constant", ratio = 3 }}, {row}]\n'
        with pytest.raises(ValueError, match=re.escape(expected)):
            load_profile_file(profile_file(tmp_path, text))
    with pytest.raises(ValueError, match=r"profile\.of: must be a list of profiles, such as .*, got \[\]"):
        load_profile_file(profile_file(tmp_path, '[profile]\nkind = "minimum"\nof = []\n'))


def test_percentage_points_are_recognized(tmp_path: Path) -> None:
    for by, hint in ((20, "; 20 percentage points are 0.2"), (-1, ""), (0, ""), (100, "")):
        path = profile_file(tmp_path, f'[profile]\nkind = "difference"\nby = {by}\n')
        with pytest.raises(ValueError, match=re.escape("profile.by: must be a difference of probabilities")) as caught:
            load_profile_file(path)
        assert str(caught.value).endswith(f"in (0, 1), got {by}{hint}")


def test_one_profile_and_named_ones_exclude_each_other(tmp_path: Path) -> None:
    named = '[profiles.strict]\nkind = "constant"\nratio = 2\n[profiles.lax]\nkind = "constant"\nratio = 4\n'
    file = load_profile_file(profile_file(tmp_path, named))
    assert (list(file.profiles), file.named) == (["strict", "lax"], True)
    for text, what in ((GOOD + named, "both are there"), ("title = 'x'\n", "neither is there")):
        with pytest.raises(ValueError, match=what):
            load_profile_file(profile_file(tmp_path, text))
    with pytest.raises(ValueError, match="profiles: names must be without control characters"):
        load_profile_file(profile_file(tmp_path, '[profiles."a\\u0007"]\nkind = "constant"\nratio = 2\n'))
    with pytest.raises(ValueError, match="profiles: must hold at least one"):
        load_profile_file(profile_file(tmp_path, "[profiles]\n"))


def test_the_same_keys_are_read_from_any_table(tmp_path: Path) -> None:
    """A scenario's [profile] asks for its own keys first; what nobody asked for is refused."""
    values: dict[str, Any] = {"kind": "constant", "ratio": 3, "statistic": "count"}
    table = Keys(values, tmp_path, "profile")
    assert table.one_of("statistic", ("any", "count"), "any") == "count"
    assert read_profile(table) == adv.RiskProfile.constant(3)
    with pytest.raises(ValueError, match=r"profile\.statistic: unknown key"):
        read_profile(Keys(values, tmp_path, "profile"))


@dataclass(frozen=True)
class OddsRatio(Tolerance):
    """Posterior odds of at most `factor` times the prior odds: a kind that the library does not have."""

    factor: float
    domain = EVERYBODY
    decreasing = True
    words = "no odds ratio above the factor"

    def tolerated(self, p: Any, q: Any) -> Any:
        return self.factor / (1.0 - p * q + self.factor * p * q)


def test_a_tolerance_with_a_kind_is_read_by_its_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OddsRatio, "kind", "odds ratio")
    found = read_profile(Keys({"kind": "odds ratio", "factor": 3, "value": 1}, tmp_path, "profile"))
    assert found == adv.RiskProfile(OddsRatio(3.0)).within(value=(1, 1))
    assert found(0.5, 1.0) == 1.5
    with pytest.raises(ValueError, match="unknown key"):
        read_profile(Keys({"kind": "odds ratio", "factor": 3, "ratio": 2}, tmp_path, "profile"))


def test_what_is_asked_on_the_command_line_replaces_what_the_file_says(tmp_path: Path) -> None:
    file = load_profile_file(profile_file(tmp_path))
    assert file.with_options() == file
    assert (file.with_options("any").statistic, file.with_options(round_down=4).round_down) == ("any", 4)
    with pytest.raises(ValueError, match="statistic must be one of"):
        file.with_options("mean")
    with pytest.raises(ValueError, match="--round-down must be at least 0"):
        file.with_options(round_down=-2)


def test_shipped_profile_files_can_be_read() -> None:
    durham = load_profile_file(DATA / "durham_infant_mortality.toml")
    assert len(durham.profiles) == 12
    assert {one.domain for one in durham.profiles.values()} == {((0.0, 1.0), (1.0, 1.0))}
    assert durham.utility is not None
    assert durham.utility.base * Fraction(25, 4012) == 25  # the real count, above the target of 24.072
    assert float(durham.utility.base * durham.utility.target) == pytest.approx(24.072)
    survey = load_profile_file(DATA / "survey_profile.toml")
    assert (survey.releases, survey.round_down, list(survey.profiles)) == (12, 3, [""])
    for file in (durham, survey):
        assert file.title
        assert file.source


def test_a_file_that_cannot_be_read_is_an_os_error(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.toml", tmp_path):
        with pytest.raises(OSError, match=r".+"):
            load_profile_file(path)
    path = tmp_path / "profile.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="not a TOML file"):
        load_profile_file(path)
