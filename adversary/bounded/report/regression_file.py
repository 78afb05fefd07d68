"""Release files of a regression: TOML with noisy sums of pairs (x, y), a prior and options of the posterior.

`[regression]` holds the published sums, `[prior]` the prior of the line, `[posterior]` the options. Nothing in a file
is executed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from adversary._core import check_whole
from adversary.bounded.regression import MOMENTS, SUMS, Region, RegressionLaw, RegressionRelease
from adversary.bounded.report import release_file
from adversary.report.files.keys import FileDescription, Key, Keys, pair, texts
from adversary.report.files.toml_text import read_toml

# Of each chain. Where noise dominates, so many keep R-hat within 1.01; the most take a minute and 80 MiB.
DRAWS, MOST_DRAWS = 10_000, 40_000


def _release(table: Keys) -> dict[str, Any]:
    """Release from the table, and the names of the variables x and y."""
    values = table.read()
    words = {name: values.pop(name) for name in "xy"}
    return {"release": RegressionRelease(**values), **words}


def _prior(table: Keys) -> RegressionLaw:
    """Prior from the table."""
    values = table.read()
    del values["kind"]
    return RegressionLaw(**values)


def _rows(table: Keys, key: str) -> list[tuple[float, float]]:
    """Two rows of two numbers, for a matrix."""
    rows = table.get(key, list, "two rows of two numbers")
    return [pair("a row")(key, Keys({key: row}, table.file, table.key).numbers(key)) for row in rows]


def _draws(name: str, given: Any) -> int:
    """Number of draws, checked against `MOST_DRAWS`."""
    draws = int(check_whole(name, given, minimum=8))
    if draws > MOST_DRAWS:
        raise ValueError(f"{name} must be at most {MOST_DRAWS:,}, got {draws:,}")
    return draws


def _sums(about: str, names: Sequence[str], *examples: float) -> Key:
    """Key for a table of named numbers, read as a list in the order of `names`."""
    keys = {name: Key("real", f"of {name}", example=f"{one}") for name, one in zip(names, examples, strict=True)}
    return Key("table", about, keys=keys, make=lambda table: [float(x) for x in table.read().values()])


_REGRESSION = {
    "x": Key("text", "what the regressor is", "", example='"age"', live=True),
    "y": Key("text", "what the outcome is", "", example='"income"', live=True),
    "n": release_file.FILE["release"].keys["n"]._replace(about="pairs", example="46"),
    "epsilon": Key("real", "of each of the nine numbers, Laplace noise", example="0.1"),
    "x_bounds": Key("numbers", "lowest and highest regressor", example="[30, 177]", make=release_file.BOUNDS),
    "y_bounds": Key("numbers", "lowest and highest outcome", example="[28, 129.9]", make=release_file.BOUNDS),
    "sums": _sums("of the data brought to [0, 1], with noise", SUMS[1:], 9.6, 3.9, 18.7, 6.1, 8.6),
    "moments": _sums("sums of powers of x, with noise of their own", MOMENTS[1:], 9.2, 4.1, 2.1, 1.2),
}
_KIND = release_file.PRIORS[1]
_PRIOR = {
    "kind": Key("word", "of what was believed before", words=(_KIND,), example=f'"{_KIND}"'),
    "mu0": Key("numbers", "intercept and slope are near these", example="[0, 0]", make=pair("(intercept, slope)")),
    "Lambda0": Key("list", "precision matrix of the two", example="[[1, 0], [0, 1]]", make=_rows),
    "a0": Key("real", "shape of the inverse gamma distribution of the variance", example="1"),
    "b0": Key("real", "its scale", example="1"),
}
_REGIONS = get_args(Region)
_POSTERIOR = release_file.READ | {
    "region": Key("word", "lines that the bounds allow", "weak", _REGIONS),
    "draws": Key("whole", "of each chain", DRAWS, make=_draws),
}
FILE = {
    **texts(),
    "regression": Key("table", "what was published of pairs (x, y)", keys=_REGRESSION, make=_release),
    "prior": Key("table", "what was believed before, in the units of the data", None, keys=_PRIOR, make=_prior),
    "posterior": Key("table", "how the two are put together", {}, keys=_POSTERIOR, make=Keys.read),
}


@dataclass(frozen=True, eq=False)
class RegressionFile(FileDescription):
    """A release file of a regression, read and checked.

    Parameters
    ----------
    release : the published sums
    prior : prior in the units of the data; None for `RegressionLaw()` of the rescaled data
    constrained, region, draws : as for `adversary.bounded.regression.gibbs`
    prob : probability of every interval
    x, y : names of the variables, possibly empty
    """

    release: RegressionRelease
    prior: RegressionLaw | None
    constrained: bool
    region: Region
    draws: int
    prob: float
    x: str
    y: str

    def with_options(
        self, prior: Any = None, prob: float | None = None, constrained: bool | None = None
    ) -> RegressionFile:
        """Copy with another probability or choice of posterior, if given, checked as in a file.

        Raises
        ------
        ValueError : a prior, which a regression file gives in [prior]; a probability outside its range
        """
        if prior is not None:
            raise ValueError(f"--prior is for a mean and a variance: {self.path} has [regression], and takes [prior]")
        return replace(
            self,
            prob=self.prob if prob is None else release_file.check_prob("prob", prob),
            constrained=self.constrained if constrained is None else constrained,
        )


def load_any_release_file(path: str | Path) -> release_file.ReleaseFile | RegressionFile:
    """Read a release file of either kind: a mean and variance (`[release]`), or a regression line (`[regression]`).

    Parameters
    ----------
    path : TOML file with one of the two tables

    Returns
    -------
    ReleaseFile or RegressionFile, by the table in the file.

    Raises
    ------
    OSError, ValueError : as for `load_release_file`; the file has both tables
    """
    document = read_toml(Path(path))
    if "regression" not in document:
        return release_file.load_release_file(path)
    if "release" in document:
        raise ValueError(f"{path}: give either a table 'release' or a table 'regression': both are there")
    given = release_file.open_release(Path(path), document, FILE)
    return RegressionFile(**given.pop("regression"), **given)
