"""Release files of a regression: TOML in, noisy sums of pairs (x, y) and how to read them out.

`[regression]` holds the published sums, `[prior]` what was believed of the line before, `[posterior]` how the two are
put together. Nothing in a file is executed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

from adversary._core import check_whole
from adversary.analyst.regression import MOMENTS, SUMS, Region, RegressionLaw, RegressionRelease
from adversary.desk.files import release_file
from adversary.desk.files.keys import Key, Keys, Told, plain, read_toml, texts

DRAWS, MOST_DRAWS = 3000, 10_000
"""Of each chain: where a file says nothing, and at most (a quarter of a minute, and as many as 200 MiB)."""

_BOUNDS = "[lowest, highest] of any value"


def _numbers(names: Sequence[str], *examples: float) -> dict[str, Key]:
    return {name: Key("number", f"of {name}", example=f"{one}") for name, one in zip(names, examples, strict=True)}


_REGRESSION = {
    "x": Key("text", "what the regressor is", "", example='"age"', live=True),
    "y": Key("text", "what the outcome is", "", example='"income"', live=True),
    "n": Key("whole", "pairs", example="46"),
    "epsilon": Key("number", "of each of the nine numbers, Laplace noise", example="0.1"),
    "x_bounds": Key("numbers", "lowest and highest regressor", example="[30, 177]"),
    "y_bounds": Key("numbers", "lowest and highest outcome", example="[28, 129.9]"),
    "sums": Key(
        "table",
        "of the data brought to [0, 1], with noise",
        keys=_numbers(SUMS[1:], 9.6, 3.9, 18.7, 6.1, 8.6),
    ),
    "moments": Key(
        "table", "sums of powers of x, with noise of their own", keys=_numbers(MOMENTS[1:], 9.2, 4.1, 2.1, 1.2)
    ),
}
_PRIOR = {
    "kind": Key(
        "word", "of what was believed before", words=release_file.PRIORS[1:], example=f'"{release_file.PRIORS[1]}"'
    ),
    "mu0": Key("numbers", "intercept and slope are near these", example="[0, 0]"),
    "Lambda0": Key("list", "precision matrix of the two", example="[[1, 0], [0, 1]]"),
    "a0": Key("number", "shape of the inverse gamma law of the variance", example="1"),
    "b0": Key("number", "its scale", example="1"),
}
_REGIONS = get_args(Region)
_POSTERIOR = release_file.READ | {
    "region": Key("word", "lines that the bounds allow", "weak", _REGIONS),
    "draws": Key("whole", "of each chain", DRAWS),
}
FILE = {
    **texts(),
    "regression": Key("table", "what was published of pairs (x, y)", keys=_REGRESSION),
    "prior": Key("table", "what was believed before, in the units of the data", None, keys=_PRIOR),
    "posterior": Key("table", "how the two are put together", None, keys=_POSTERIOR),
}


@dataclass(frozen=True, eq=False)
class RegressionFile(Told):
    """A release file of a regression, read and checked.

    Parameters
    ----------
    release : what was published
    prior : what was believed before, in the units of the data; None for `RegressionLaw()` of the rescaled data
    constrained, region, draws : as `adversary.analyst.regression.gibbs` takes them
    prob : probability of every interval
    x, y : what the variables are, which may be empty
    """

    release: RegressionRelease
    prior: RegressionLaw | None
    constrained: bool
    region: Region
    draws: int
    prob: float
    x: str
    y: str

    def asked(self, prior: Any = None, prob: float | None = None, constrained: bool | None = None) -> RegressionFile:
        """The same file with another probability or reading, where one is given, checked as in a file.

        Raises
        ------
        ValueError : a prior is given, which for a line takes more than one word; a probability that is none
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
    ReleaseFile or RegressionFile, by the table that is there.

    Raises
    ------
    OSError, ValueError : as of `load_release_file`; the file has both tables
    """
    document = read_toml(Path(path))
    if "regression" not in document:
        return release_file.load_release_file(path)
    if "release" in document:
        raise ValueError(f"{path}: give either a table 'release' or a table 'regression': both are there")
    return _regression_file(Path(path), document)


def _regression_file(file: Path, document: dict[str, Any]) -> RegressionFile:
    top, reading = release_file.open_release(file, document, FILE)
    table = top.table("regression")
    return RegressionFile(
        _release(table), _prior(top.table("prior")) if top.has("prior") else None,
        constrained=reading["constrained"],
        region=reading["region"],
        draws=reading.checked("draws", _draws, DRAWS),
        prob=reading.checked("prob", release_file.check_prob, release_file.PROB),
        **top.told, x=table["x"], y=table["y"],
    )  # fmt: skip


def _release(table: Keys) -> RegressionRelease:
    found: dict[str, Any] = {
        "sums": _numbers_by_name(table, "sums", SUMS[1:]),
        "moments": _numbers_by_name(table, "moments", MOMENTS[1:]),
    }
    found |= {"n": release_file.whole(table, "n"), "epsilon": plain(table.number("epsilon"))}
    found |= {name: table.pair(name, _BOUNDS) for name in ("x_bounds", "y_bounds")}
    return table.build("", partial(RegressionRelease, **found))  # type: ignore[no-any-return]


def _draws(name: str, given: Any) -> int:
    draws = int(check_whole(name, given, minimum=8))
    if draws > MOST_DRAWS:
        raise ValueError(f"{name} must be at most {MOST_DRAWS:,}, got {draws:,}")
    return draws


def _numbers_by_name(table: Keys, key: str, names: tuple[str, ...]) -> list[float]:
    """Numbers that the file gives by name, in their order."""
    numbers = table.table(key)
    return [float(numbers.number(name)) for name in names]


def _prior(table: Keys) -> RegressionLaw:
    table.one_of("kind", release_file.PRIORS[1:])
    rows = table.get("Lambda0", list, "two rows of two numbers")
    found: dict[str, Any] = {"mu0": table.pair("mu0", "(intercept, slope)")}
    found["Lambda0"] = [Keys({"Lambda0": row}, table.file, table.key).pair("Lambda0", "a row") for row in rows]
    found |= {name: plain(table.number(name)) for name in ("a0", "b0")}
    return table.build("", partial(RegressionLaw, **found))  # type: ignore[no-any-return]
