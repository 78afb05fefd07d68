"""Release files: TOML in, a noisy mean and variance and how to read them out; what `adversary infer` reads.

`[release]` holds the published numbers, `[prior]` what was believed before (flat where there is none), `[posterior]`
how the two are put together. A file with `[regression]` instead is for `regression_file`. Nothing in a file is
executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from adversary._core import check_positive, meant
from adversary.analyst.bounded import FEASIBILITIES, IMPROPER, BoundedRelease, Flat, NormalInverseGamma, as_prior
from adversary.desk.files.keys import Key, Keys, Told, plain, read_toml, texts

PROB = 0.95
"""Probability of an interval where a file says nothing."""

PRIORS = ("flat", "normal-inverse-gamma")
HYPERPARAMETERS = tuple(field.name for field in fields(NormalInverseGamma))

_RELEASE = {
    "mean": Key("number", "published, with noise", None, example="34.3", live=True),
    "variance": Key("number", "published, with noise; divisor n - 1", None, example="2224.8", live=True),
    "n": Key("whole", "how many values there are", example="43"),
    "epsilon": Key("any", "of Laplace noise: of the mean, of the variance", None, example="[0.25, 0.25]", live=True),
    "rho": Key("any", "of Gaussian noise instead", None, example="[0.1, 0.1]"),
    "bounds": Key("numbers", "lowest and highest value there may be", example="[0, 100]"),
}
_PRIOR = {"kind": Key("word", "of what was believed before", words=PRIORS, example='"normal-inverse-gamma"')} | {
    name: Key("number", about, None, example=example, live=True)
    for name, about, example in (
        ("mu0", "the mean is near this", "12.5"), ("kappa0", "as if known from so many values", "1"),
        ("nu0", "so for the deviation", "1"), ("s0", "the standard deviation is near this", "3.8"),
    )
}  # fmt: skip
READ = {
    "constrained": Key("flag", "whether the bounds of the data are used", True),
    "prob": Key("number", "probability of every interval", PROB),
}
_POSTERIOR = READ | {
    "feasibility": Key("word", "what the bounds rule out", FEASIBILITIES[0], FEASIBILITIES),
    "cap": Key("number", "largest variance; inf for none", None, example="inf"),
}
FILE = {
    **texts(quantity="what the values are of", unit="their unit"),
    "release": Key("table", "what was published", keys=_RELEASE),
    "prior": Key("table", "what was believed before; without it: flat", None, keys=_PRIOR),
    "posterior": Key("table", "how the two are put together", None, keys=_POSTERIOR),
}


@dataclass(frozen=True)
class ReleaseFile(Told):
    """A release file, read and checked.

    Parameters
    ----------
    release, prior : what was published, and what was believed before
    constrained, feasibility, cap : as `adversary.analyst.bounded.posterior` takes them
    prob : probability of every interval
    quantity, unit : words, which may be empty; `quantity` is what the values are of
    """

    release: BoundedRelease
    prior: Flat | NormalInverseGamma
    constrained: bool
    feasibility: str
    prob: float
    cap: float | None
    quantity: str
    unit: str

    def asked(
        self, prior: Flat | NormalInverseGamma | None = None, prob: float | None = None, constrained: bool | None = None
    ) -> ReleaseFile:
        """The same file with another prior, probability or reading, where one is given, checked as in a file."""
        return replace(
            self,
            prior=self.prior if prior is None else prior,
            prob=self.prob if prob is None else check_prob("prob", prob),
            constrained=self.constrained if constrained is None else constrained,
        )


def load_release_file(path: str | Path) -> ReleaseFile:
    """Read a release file.

    Raises
    ------
    OSError : the file cannot be read
    ValueError : it is not TOML, or a key is unknown, missing, of the wrong kind or out of range; the message names
        file, key, rule and value
    """
    file = Path(path)
    top, reading = open_release(file, read_toml(file), FILE)
    release = _release(top.table("release"))
    return ReleaseFile(
        release, _read_prior(top) if top.has("prior") else Flat(),
        constrained=reading["constrained"],
        feasibility=reading["feasibility"],
        prob=reading.checked("prob", check_prob, PROB), cap=reading.checked("cap", _cap, None), **top.told,
    )  # fmt: skip


def open_release(file: Path, document: dict[str, Any], declared: Mapping[str, Key]) -> tuple[Keys, Keys]:
    """The file, and its table of how to read the release, empty where there is none."""
    top = Keys.of_file(document, file, "a release file", declared)
    return top, top.table("posterior") if top.has("posterior") else Keys(
        {}, file, "posterior", declared["posterior"].keys
    )


def parse_prior(text: str) -> Flat | NormalInverseGamma:
    """The prior of a mean and variance from its text form.

    Parameters
    ----------
    text : "flat", or the four numbers mu0, kappa0, nu0, s0 of `NormalInverseGamma`, in the units of the data

    Raises
    ------
    ValueError : it is neither, or has an improper posterior

    >>> parse_prior("12.5, 1, 1, 3.8")
    NormalInverseGamma(mu0=12.5, kappa0=1.0, nu0=1.0, s0=3.8)
    """
    word = text.strip()
    if word == PRIORS[0]:
        return Flat()
    _refuse_improper("--prior: ", word)
    try:
        mu0, kappa0, nu0, s0 = map(float, word.split(","))
    except ValueError:
        must = f'must be "flat" or {",".join(HYPERPARAMETERS)}, such as 12.5,1,1,3.8'
        raise ValueError(f"--prior {must}, got {text!r}{meant(word, PRIORS[:1])}") from None
    return NormalInverseGamma(mu0, kappa0, nu0, s0)


def _release(table: Keys) -> BoundedRelease:
    found = {name: plain(table.number(name, None)) for name in ("mean", "variance")}
    found |= {"n": whole(table, "n"), "bounds": table.pair("bounds", "[lowest, highest] of any value")}
    found |= {name: _budgets(table, name) for name in ("epsilon", "rho")}
    return table.build("", partial(BoundedRelease, **found))  # type: ignore[no-any-return]


def whole(table: Keys, key: str) -> Any:
    """How many values: a number and no text, whose range is checked with all the rest."""
    return plain(table.get(key, (int, float), "a whole number, of how many values there are"))


def _budgets(table: Keys, key: str) -> Any:
    """Of the mean and of the variance; one number where one of the two was released."""
    if isinstance(table.values.get(key), list):
        return table.pair(key, "[of the mean, of the variance]")
    return plain(table.number(key, None))


def _read_prior(top: Keys) -> Flat | NormalInverseGamma:
    given = top.values["prior"]
    if isinstance(given, str):
        rule = f"must be a table, such as [prior] with kind = {PRIORS[0]!r}"
        raise ValueError(f"{top.where('prior')}: {rule}, got {given!r}")
    return _prior(top.table("prior"))


def _prior(table: Keys) -> Flat | NormalInverseGamma:
    if isinstance(kind := table.values.get("kind"), str):
        _refuse_improper(f"{table.where('kind')}: ", kind)
    flat = table.one_of("kind", PRIORS) == PRIORS[0]
    table.only("kind", *(() if flat else HYPERPARAMETERS))
    if flat:
        return Flat()
    numbers = {name: plain(table.number(name)) for name in HYPERPARAMETERS}
    return table.build("", partial(NormalInverseGamma, **numbers))  # type: ignore[no-any-return]


def _refuse_improper(where: str, kind: str) -> None:
    """ValueError for a kind of prior that is known, and known to be improper."""
    try:
        as_prior(kind)
    except ValueError as error:
        if IMPROPER in str(error):
            raise ValueError(f"{where}{kind!r} gives an {IMPROPER}") from None


def check_prob(name: str, prob: float) -> float:
    """The probability of an interval, or ValueError."""
    if not 0.0 < prob < 1.0:
        raise ValueError(f"{name} must be between 0 and 1, both excluded, got {prob}")
    return float(prob)


def _cap(name: str, cap: float) -> float:
    """The largest variance allowed, in the units of the data; infinite for none."""
    return cap if cap == float("inf") else float(check_positive(name, cap))
