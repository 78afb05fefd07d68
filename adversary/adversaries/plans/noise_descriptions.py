"""Levels from the noise that other libraries say they add: OpenDP, Tumult Analytics, PipelineDP. None is imported.

| library | a row | noise |
|---|---|---|
| OpenDP, `query.summarize().to_dicts()` | "distribution", "scale" | scale s of an "Integer Laplace" is 1 / epsilon |
| Tumult, `session._noise_info(query, budget)` | "noise_mechanism", "noise_parameter" | sigma^2, or 1 / epsilon |
| PipelineDP, `vars` of a `MetricUtility` | "noise_kind", "noise_std" | the standard deviation |
| PipelineDP, `vars` of a `SumMetrics` | "noise_kind", "std_noise" | the standard deviation |

In a row of OpenDP no distribution, or a scale of 0, is a public number, published exactly; a key exists only where its
noisy count is above the "threshold", and one that nobody has never does, so that its delta is that of `Selected`.

Read from the sources of OpenDP 0.16, Tumult Analytics 0.21 and PipelineDP (`analysis/metrics.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from adversary._core import check_positive, meant
from adversary.adversaries.plans.plan import Level
from adversary.adversaries.postprocessing import selected
from adversary.privacy.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, Mechanism

type Made = Callable[[float], Mechanism]

_OF_PIPELINE_DP: dict[str, Made] = {"laplace": lambda std: Laplace(std / math.sqrt(2.0)), "gaussian": Gaussian}
FORMATS: dict[tuple[str, str], dict[str, Made]] = {
    ("distribution", "scale"): {
        "integer laplace": lambda scale: Geometric(1.0 / scale),
        "integer gaussian": DiscreteGaussian,
        "float laplace": Laplace,
        "float gaussian": Gaussian,
    },
    ("noise_mechanism", "noise_parameter"): {
        "geometric": lambda alpha: Geometric(1.0 / alpha),
        "discrete_gaussian": lambda sigma2: DiscreteGaussian(math.sqrt(sigma2)),
        "laplace": Laplace,
        "gaussian": lambda sigma2: Gaussian(math.sqrt(sigma2)),
    },
    ("noise_kind", "noise_std"): _OF_PIPELINE_DP,
    ("noise_kind", "std_noise"): _OF_PIPELINE_DP,
}
"""Keys of the kind and of the number in a row, by library; and what the number makes of each kind."""


def levels_of_noise(
    rows: Any, names: Sequence[str] | None = None, siblings: Sequence[int] | None = None
) -> list[Level]:
    """Levels with the noise that a library describes, a row for each level, lowest first.

    Parameters
    ----------
    rows : as dictionaries, or a data frame of pandas or Polars: see the table above. An enumeration stands for its
        name, in any case. What is done to the number afterwards is not in a row, but for the threshold: OpenDP's
        `dp.len()` is `clamped` at 0 unless it is asked for signed counts
    names : of the levels; unless given, each row's "column", or "level 1", "level 2", ...
    siblings : of every level but the last; unless given 0, counts of the same people

    Returns
    -------
    list of Level, for a Plan

    Raises
    ------
    ValueError : no rows, names or siblings that do not fit them, a row of no known format, or noise that is not added
        to a count (an exponential mechanism, for instance); the message names the row

    >>> summary = [{"column": "len", "aggregate": "Frame Length", "distribution": "Integer Laplace", "scale": 2.0}]
    >>> level, = levels_of_noise(summary)
    >>> level.name, level.mechanism
    ('len', Geometric(epsilon=0.5))
    """
    given = [_row(f"row {i}", row) for i, row in enumerate(_records(rows), 1)]
    called = names or [str(row.get("column", f"level {i}")) for i, row in enumerate(given, 1)]
    below = [0] * (len(given) - 1) if siblings is None else list(siblings)
    if not given or len(called) != len(given) or len(below) != len(given) - 1:
        raise ValueError(
            f"there must be a row for each level, and siblings for all but the last: got {len(given)} rows, "
            f"{len(called)} names and {len(below)} siblings"
        )
    noises = [_noise(f"row {i}", row) for i, row in enumerate(given, 1)]
    return [Level(*one) for one in zip(called, noises, [*below, None], strict=True)]


def _records(rows: Any) -> Iterable[Any]:
    """The rows of a data frame of pandas or Polars; of anything else its items."""
    if hasattr(rows, "to_dicts"):
        return list(rows.to_dicts())
    return list(rows.to_dict("records")) if hasattr(rows, "columns") and hasattr(rows, "to_dict") else rows


def _row(where: str, row: Any) -> dict[str, Any]:
    """A row as a dictionary, without what is missing."""
    if not isinstance(row, Mapping):
        raise ValueError(f"{where}: must be a dictionary such as {{'distribution': ..., 'scale': ...}}, got {row!r}")
    return {str(key): None if value is None or value != value else value for key, value in row.items()}


def _noise(where: str, row: Mapping[str, Any]) -> Mechanism:
    """The mechanism of a row."""
    if "distribution" in row and (
        row.get("scale", 1.0) == 0.0 or (row["distribution"], row.get("scale")) == (None,) * 2
    ):
        return Exact()
    mechanism = _added_noise(where, row)
    if (threshold := row.get("threshold")) is None:
        return mechanism
    lowest = math.ceil(threshold) if mechanism.is_continuous else math.floor(threshold) + 1
    return selected(mechanism, lowest)


def _added_noise(where: str, row: Mapping[str, Any]) -> Mechanism:
    """The noise of a row, by its kind and its number."""
    for (kind, number), made in FORMATS.items():
        if kind in row and number in row:
            kind_name = str(getattr(row[kind], "name", row[kind])).casefold()
            if kind_name not in made:
                known = ", ".join(made)
                raise ValueError(f"{where}: {kind} must be one of {known}, got {row[kind]!r}{meant(kind_name, made)}")
            return made[kind_name](float(check_positive(f"{where}: {number}", row[number])))
    known = "; ".join(" and ".join(keys) for keys in FORMATS)
    raise ValueError(f"{where}: must have {known}, got {', '.join(map(str, row))}")
