"""Profile files of `adversary epsilon`: the risk that an agency tolerates, read from TOML and checked.

A file has one `[profile]` or several `[profiles.NAME]`, as `profile_keys` reads them, and options: the parameters of
definitions that are not certain (`failure`, `delta`), the number of releases of the same data, and a published rate
whose error by the noise is of interest (`[utility]`). Nothing in a file is executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from adversary._core import DEFAULT_FAILURE, check_non_negative, check_probability, check_whole
from adversary.budget import NOISES, STATISTICS, RiskProfile, check_word
from adversary.report.files.keys import FileDescription, Key, Keys, plain, probability, texts
from adversary.report.files.plan_keys import check_releases
from adversary.report.files.profile_keys import PROFILE, read_profile
from adversary.report.files.toml_text import read_toml

# Default delta of approximate DP.
DELTA = 1e-6

# Largest number of decimals: doubles have about 15 significant digits.
DIGITS = 15


@dataclass(frozen=True)
class Utility:
    """Rate that will be published with noise, and compared with a target.

    Parameters
    ----------
    base : number of people or events that the rate is out of, known exactly
    target : the rate it is compared with
    deviations : distances of the true rate from the target, each a row of the answer
    noise : one of `adversary.budget.forms.NOISES`
    """

    base: int
    target: float | Fraction
    deviations: tuple[float | Fraction, ...]
    noise: str = "geometric"


def _read_utility(table: Keys) -> Utility:
    """Utility of a table `[utility]`; its deviations must differ and leave the rate at most 1."""
    utility = table.read()
    for deviation in utility["deviations"]:
        table.build("deviations", partial(check_non_negative, "deviations", plain(deviation)))
        if plain(utility["target"]) + plain(deviation) > 1.0:
            raise ValueError(f"{table.where('deviations')}: must leave the rate at most 1, got {deviation}")
        if utility["deviations"].count(deviation) > 1:
            raise ValueError(f"{table.where('deviations')}: values must differ, got {deviation} more than once")
    return Utility(**utility | {"deviations": tuple(utility["deviations"])})


def _count(name: str, given: Any) -> int:
    """A whole number >= 1."""
    return int(check_whole(name, given, minimum=1))


def _rate(name: str, given: Any) -> Any:
    """A probability as it is written, so that fractions stay exact."""
    check_probability(name, plain(given))
    return given


def _digits(name: str, given: Any) -> int:
    """A number of decimals, at most `DIGITS`."""
    digits = int(check_whole(name, given, minimum=0))
    if digits > DIGITS:
        raise ValueError(f"{name} must be at most {DIGITS}, got {digits}")
    return digits


def _delta(name: str, given: Any) -> float:
    """A delta in (0, 1)."""
    if not 0.0 < given < 1.0:
        raise ValueError(f"{name} must be in (0, 1), got {given}")
    return float(given)


_UTILITY = {
    "base": Key("whole", "people or events that the rate is out of, known exactly", example="4012", make=_count),
    "target": Key("number", "the rate it is compared with", example='"6/1000"', make=_rate),
    "deviations": Key("numbers", "distances of the true rate from it", example='["1/2000", "1/1000"]'),
    "noise": Key("word", "distribution of the noise", "geometric", tuple(NOISES)),
}
REQUESTS = {
    "statistic": Key("word", "what may be published: anything, or one count only", STATISTICS[0], STATISTICS),
    "round_down": Key("whole", "decimals to keep of epsilon", None, example="2", make=_digits),
    "failure": Key("real", "probability with which a definition that is not certain may fail", DEFAULT_FAILURE,
                   live=True, make=probability),
    "delta": Key("real", "of approximate DP", DELTA, example="1e-6", make=_delta),
    "releases": Key("whole", "releases of the same data that keep the profile together", None, example="12",
                    make=lambda _, given: check_releases(given)),
    "utility": Key("table", "a rate that is published with the noise, to see what it costs", None, keys=_UTILITY,
                   make=_read_utility),
}  # fmt: skip
FILE = {
    **texts(),
    **REQUESTS,
    "profile": Key("open", "the risk that is tolerated", None, keys=PROFILE, live=True),
    "profiles": Key("named", "several by name, in place of [profile]", None, keys=PROFILE),
}


@dataclass(frozen=True)
class ProfileFile(FileDescription):
    """Profile file, read and checked.

    Parameters
    ----------
    profiles : by name; a single one has the name ""
    named : whether the file names its profiles
    statistic : what may be published, one of `adversary.budget.STATISTICS`
    round_down : decimals to which epsilon is rounded down, or None
    failure : probability with which a definition that is not certain may fail
    delta : of approximate DP
    releases : number of releases of the same data, None for one
    utility : published rate, or None
    document : the TOML document
    """

    profiles: dict[str, RiskProfile]
    named: bool
    statistic: str
    round_down: int | None
    failure: float
    delta: float
    releases: int | None
    utility: Utility | None
    document: Mapping[str, Any]

    def with_options(self, statistic: str | None = None, round_down: int | None = None) -> ProfileFile:
        """Copy with another statistic or rounding, if one is given, checked as in a file."""
        if statistic is not None:
            check_word("--statistic", statistic, STATISTICS)
        digits = self.round_down if round_down is None else _digits("--round-down", round_down)
        return replace(self, statistic=statistic or self.statistic, round_down=digits)


def load_profile_file(path: str | Path) -> ProfileFile:
    """Read a profile file, the input of `adversary epsilon`.

    Parameters
    ----------
    path : TOML file with `[profile]` or several `[profiles.NAME]`

    Returns
    -------
    ProfileFile : the risk profiles by name, and what else the file asks for.

    Raises
    ------
    OSError : the file cannot be read
    ValueError : it is not TOML, or a key is unknown, missing, of the wrong kind or out of range; the message names
        file, key, rule and value
    """
    file = Path(path)
    document = read_toml(file)
    top = Keys.of_file(document, file, "a profile file", FILE)
    profiles, named = top.one_or_many("profile", "profiles", _profile), top.has("profiles")
    return ProfileFile(
        profiles=profiles if named else {"": profiles}, named=named, **{key: top[key] for key in (*texts(), *REQUESTS)},
        path=file, document=document,
    )  # fmt: skip


def _profile(table: Keys) -> RiskProfile:
    """Risk profile of a table, whose name must be printable."""
    many, _, name = table.key.partition(".")
    if not name.isprintable():
        raise ValueError(f"{table.file}: {many}: names must be without control characters, got {name!r}")
    return read_profile(table)
