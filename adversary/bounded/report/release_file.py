"""Release files for `adversary infer`: TOML with a noisy mean and variance, a prior and options of the posterior.

`[release]` holds the published numbers, `[prior]` the prior (default flat), `[posterior]` the options. A file with
`[regression]` instead is for `regression_file`. Nothing in a file is executed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from adversary._core import check_positive, closest_name
from adversary.bounded.bounded_posterior import FEASIBILITIES, QUANTITIES
from adversary.bounded.bounded_release import BoundedRelease
from adversary.bounded.prior import IMPROPER, Flat, NormalInverseGamma, as_prior
from adversary.report.files.keys import FileDescription, Key, Keys, pair, plain, texts
from adversary.report.files.toml_text import read_toml

# Default probability of an interval.
PROB = 0.95

PRIORS = ("flat", "normal-inverse-gamma")
HYPERPARAMETERS = tuple(field.name for field in fields(NormalInverseGamma))


def _count(key: str, given: Any) -> Any:
    """Number of values; `BoundedRelease` checks its range."""
    del key
    return plain(given)


def _budgets(table: Keys, key: str) -> Any:
    """Budgets of mean and variance; one number if only one of them was released."""
    if isinstance(table.values[key], list):
        return pair("[of the mean, of the variance]")(key, table.numbers(key))
    return plain(table.number(key))


def _release(table: Keys) -> BoundedRelease:
    """Release from the table; ValueError for numbers that noise does not explain."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            return BoundedRelease(**table.read())
        except UserWarning as error:
            rule = str(error).partition(": did you")[0]
            budget = "rho" if table.has("rho") else "epsilon"
            raise ValueError(f"{rule}: check their unit, n, bounds and {budget}") from None


def _prior(table: Keys) -> Flat | NormalInverseGamma:
    """Prior from the table; ValueError for keys that do not belong to its kind."""
    if isinstance(kind := table.values.get("kind"), str):
        _refuse_improper(f"{table.where('kind')}: ", kind)
    flat = table["kind"] == PRIORS[0]
    table.only("kind", *(() if flat else HYPERPARAMETERS))
    return Flat() if flat else NormalInverseGamma(**{name: plain(table.number(name)) for name in HYPERPARAMETERS})


def _refuse_improper(where: str, kind: str) -> None:
    """ValueError for a named prior whose posterior is improper."""
    try:
        as_prior(kind)
    except ValueError as error:
        if IMPROPER in str(error):
            raise ValueError(f"{where}{kind!r} gives an {IMPROPER}") from None


def check_prob(name: str, prob: float) -> float:
    """Probability of an interval as float; ValueError outside (0, 1)."""
    if not 0.0 < prob < 1.0:
        raise ValueError(f"{name} must be between 0 and 1, both excluded, got {prob}")
    return float(prob)


def _cap(name: str, cap: float) -> float:
    """Largest variance of the population, in the squared unit of the data; infinite for none."""
    return cap if cap == float("inf") else float(check_positive(name, cap))


BOUNDS = pair("[lowest, highest] of any value")
COUNT = "a whole number, of how many values there are"
_RELEASE = {
    "mean": Key("real", "published, with noise", None, example="34.3", live=True),
    "variance": Key("real", "published, with noise; divisor n - 1", None, example="2224.8", live=True),
    "n": Key("whole", "how many values there are", example="43", rule=COUNT, make=_count),
    "epsilon": Key("any", "of Laplace noise: of the mean, of the variance", None, example="[0.25, 0.25]", live=True,
                   make=_budgets),
    "rho": Key("any", "of Gaussian noise instead", None, example="[0.1, 0.1]", make=_budgets),
    "bounds": Key("numbers", "lowest and highest value there may be", example="[0, 100]", make=BOUNDS),
}  # fmt: skip
_PRIOR = {"kind": Key("word", "of what was believed before", words=PRIORS, example='"normal-inverse-gamma"')} | {
    name: Key("number", about, None, example=example, live=True)
    for name, about, example in (
        ("mu0", "the mean is near this", "12.5"), ("kappa0", "as if known from so many values", "1"),
        ("nu0", "so for the deviation", "1"), ("s0", "the standard deviation is near this", "3.8"),
    )
}  # fmt: skip
READ = {
    "constrained": Key("flag", "whether the bounds of the data are used", True),
    "prob": Key("real", "probability of every interval", PROB, make=check_prob),
}
_POSTERIOR = READ | {
    "feasibility": Key("word", "what the bounds rule out", FEASIBILITIES[0], FEASIBILITIES),
    "cap": Key("real", "largest variance of the population; inf for none", None, example="inf", make=_cap),
    "quantity": Key("word", "whose mean and deviation: of the population, or of the data themselves", QUANTITIES[0],
                    QUANTITIES),
}  # fmt: skip
TABLE = "a table, such as [prior] with kind = 'flat'"
FILE = {
    **texts(quantity="what the values are of", unit="their unit"),
    "release": Key("table", "what was published", keys=_RELEASE, make=_release),
    "prior": Key("table", "what was believed before; without it: flat", None, keys=_PRIOR, rule=TABLE, make=_prior),
    "posterior": Key("table", "how the two are put together", {}, keys=_POSTERIOR, make=Keys.read),
}


@dataclass(frozen=True)
class ReleaseFile(FileDescription):
    """A release file, read and checked.

    Parameters
    ----------
    release, prior : published numbers, and prior
    constrained, feasibility, cap : as for `adversary.bounded.posterior`
    prob : probability of every interval
    quantity, unit : name of the measured quantity, and its unit, possibly empty
    posterior_of : "population" or "data", the key `quantity` of [posterior]
    """

    release: BoundedRelease
    prior: Flat | NormalInverseGamma
    constrained: bool
    feasibility: str
    prob: float
    cap: float | None
    quantity: str
    unit: str
    posterior_of: str = QUANTITIES[0]

    def with_options(
        self, prior: Flat | NormalInverseGamma | None = None, prob: float | None = None, constrained: bool | None = None
    ) -> ReleaseFile:
        """Copy with another prior, probability or choice of posterior, if given, checked as in a file."""
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
    given = open_release(Path(path), read_toml(Path(path)), FILE)
    if given["quantity"] == "data":
        raise ValueError(
            f"{path}: quantity: is what the values are of, such as 'blood lead', got 'data'; for the mean of the data "
            "themselves write it under [posterior]"
        )
    return ReleaseFile(**given | {"prior": given["prior"] or Flat()})


def open_release(file: Path, document: dict[str, Any], declared: Mapping[str, Key]) -> dict[str, Any]:
    """Checked values of a release file by key, those of [posterior] included.

    declared : keys that the file may have
    """
    given = Keys.of_file(document, file, "a release file", declared).read()
    reading: dict[str, Any] = given.pop("posterior")
    if "quantity" in reading:
        reading["posterior_of"] = reading.pop("quantity")
    return given | reading | {"path": file}


def parse_prior(text: str) -> Flat | NormalInverseGamma:
    """Parse the prior of a mean and variance from its text form.

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
        raise ValueError(f"--prior {must}, got {text!r}{closest_name(word, PRIORS[:1])}") from None
    return NormalInverseGamma(mu0, kappa0, nu0, s0)
