"""Levels from noise descriptions of other libraries: OpenDP, Tumult Analytics, PipelineDP. None is imported.

| library | keys of a row | noise parameter |
|---|---|---|
| OpenDP, `query.summarize().to_dicts()` | "distribution", "scale" | scale s of an "Integer Laplace" is 1 / epsilon |
| Tumult, `session._noise_info(query, budget)` | "noise_mechanism", "noise_parameter" | sigma^2, or 1 / epsilon |
| PipelineDP, `vars` of a `MetricUtility` | "noise_kind", "noise_std" | the standard deviation |
| PipelineDP, `vars` of a `SumMetrics` | "noise_kind", "std_noise" | the standard deviation |

In a row of OpenDP, no distribution or a scale of 0 means a public number, published exactly. With a "threshold", a key
is published only if its noisy count is above it, and a key that nobody has is never published: the noise is `Selected`.

Read from the sources of OpenDP 0.16, Tumult Analytics 0.21 and PipelineDP (`analysis/metrics.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from adversary._core import check_positive, closest_name
from adversary.adversaries.plans.plan import Level
from adversary.adversaries.postprocessing import selected
from adversary.privacy.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, Mechanism

type Made = Callable[[float], Mechanism]

_OF_PIPELINE_DP: dict[str, Made] = {"laplace": lambda std: Laplace(std / math.sqrt(2.0)), "gaussian": Gaussian}

# Per library: keys of the noise kind and of its parameter, and a constructor of the mechanism per kind.
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

# Keys under which a library names what a row adds its noise to (OpenDP, PipelineDP).
STATISTIC = ("aggregate", "aggregation")

# Statistics that one person changes by more or less than 1. Their noise, read as that of a count, would make the risk
# of somebody with an income of 40,000 that of somebody with an income of 1.
_NO_COUNT = re.compile(r"(?<![a-z])(sum|mean|average|variance|std|median|quantile|percentile|min|max)(?![a-z])")


def levels_of_noise(
    rows: Any, names: Sequence[str] | None = None, siblings: Sequence[int] | None = None
) -> list[Level]:
    """Levels with the noise that another library describes: one row per level, lowest first.

    The keys of a row are "distribution" and "scale" (OpenDP), "noise_mechanism" and "noise_parameter" (Tumult
    Analytics), or "noise_kind" and "noise_std" or "std_noise" (PipelineDP).

    Parameters
    ----------
    rows : dictionaries, or a data frame of pandas or Polars. Members of an enumeration are read by their names,
        whatever their case. Post-processing is not in a row, except for a threshold: OpenDP's `dp.len()` is `clamped`
        at 0 unless signed counts are requested
    names : of the levels; by default each row's "column", or "level 1", "level 2", ...
    siblings : number of siblings of every level but the last; by default 0, levels of the same people

    Returns
    -------
    list of Level, for a Plan

    Raises
    ------
    ValueError : no rows, a wrong number of names or siblings, a row of unknown format, noise that is not additive
        (such as an exponential mechanism), or a row that is no count (a sum); the message names the row

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
    """The rows of a pandas or Polars data frame as dictionaries; any other value unchanged."""
    if hasattr(rows, "to_dicts"):
        return list(rows.to_dicts())
    return list(rows.to_dict("records")) if hasattr(rows, "columns") and hasattr(rows, "to_dict") else rows


def _row(where: str, row: Any) -> dict[str, Any]:
    """A row as a dictionary, with NaN as None."""
    # `value != value` is true of NaN only.
    if not isinstance(row, Mapping):
        raise ValueError(f"{where}: must be a dictionary such as {{'distribution': ..., 'scale': ...}}, got {row!r}")
    return {str(key): None if value is None or value != value else value for key, value in row.items()}


def _noise(where: str, row: Mapping[str, Any]) -> Mechanism:
    """The mechanism of a row."""
    _check_count(where, row)
    if "distribution" in row and (
        row.get("scale", 1.0) == 0.0 or (row["distribution"], row.get("scale")) == (None,) * 2
    ):
        return Exact()
    mechanism = _added_noise(where, row)
    if (threshold := row.get("threshold")) is None:
        return mechanism
    lowest = math.ceil(threshold) if mechanism.is_continuous else math.floor(threshold) + 1
    return selected(mechanism, lowest)


def _check_count(where: str, row: Mapping[str, Any]) -> None:
    """ValueError for a row about a sum, a mean or a quantile, whose change by one person is not in the row."""
    stated = next((row[key] for key in STATISTIC if row.get(key) is not None), "")
    statistic = str(getattr(stated, "name", stated))
    if _NO_COUNT.search(statistic.casefold()):
        raise ValueError(
            f"{where}: must be a count, which one person changes by 1, got aggregate {statistic!r}: where 0s and 1s "
            "are summed, write its aggregate as 'Count'; else make its Level yourself, with the most that one person "
            "adds: PrivacyUnit(contribution=40000) in the Plan and Adversary(hypotheses=(0, 40000))"
        )


def _added_noise(where: str, row: Mapping[str, Any]) -> Mechanism:
    """The noise of a row, by its kind and its number."""
    for (kind, number), made in FORMATS.items():
        if kind in row and number in row:
            kind_name = str(getattr(row[kind], "name", row[kind])).casefold()
            if kind_name not in made:
                known = ", ".join(made)
                raise ValueError(
                    f"{where}: {kind} must be one of {known}, got {row[kind]!r}{closest_name(kind_name, made)}"
                )
            return made[kind_name](float(check_positive(f"{where}: {number}", row[number])))
    known = "; ".join(" and ".join(keys) for keys in FORMATS)
    raise ValueError(f"{where}: must have {known}, got {', '.join(map(str, row))}")
