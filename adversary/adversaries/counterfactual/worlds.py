"""Two worlds under one prior: a release made with the target's record, and a release made without it.

Let d be everyone else's records and r the target's, with a prior pi(d), pi(r | d) of any dependence, and P(w | d, r)
the distribution of the release:

    actual(r | w)          ~  sum_d pi(d) pi(r | d) P(w | d, r)
    counterfactual(r | w)  ~  sum_d pi(d) pi(r | d) m(w | d),    m(w | d) = sum_s pi(s | d) P(w | d, s)

The information of everyone else's records about the target is the same in both worlds, so it cancels in their ratio.
All computations are in log space. (Kifer et al. 2022, sections 7.1 and 7.2.)
"""

from __future__ import annotations

import warnings
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from xarray.ufuncs import exp, log

from adversary._core import Floats, check_probability, labelled_array, log_sum_exp
from adversary.privacy.mechanisms import Mechanism


def log_likelihood(mechanism: Mechanism, answers: Any, releases: ArrayLike | None = None) -> xr.DataArray:
    """log P(w | d, r) of one noisy answer, dims (rest, record, release).

    Parameters
    ----------
    mechanism : the noise
    answers : true answers if everyone else is d and the target r, whole numbers, dims ([rest,] record); for a world
        without the target, a DataArray with dim rest only
    releases : possible releases w; by default a range with all but 1e-18 of the mass for every answer. Required for
        continuous noise: the result is then a log density, whose ratios are exact but which has no sum over releases
        (use `rounded` noise for one)

    Returns
    -------
    Log probabilities, nats, with the attribute `measure`, "probability" or "density"

    >>> from adversary.privacy.mechanisms import RandomizedResponse
    >>> log_likelihood(RandomizedResponse(1.0), [0, 1]).sizes["release"]
    2
    """
    values = labelled_array("answers", answers, ("rest", "record"))
    if not set(values.dims) <= {"rest", "record"}:
        raise ValueError(
            f"answers must have dims 'rest' and 'record', got {values.dims}: see together for several queries"
        )
    continuous = mechanism.is_continuous
    if releases is None and continuous:
        raise TypeError(f"releases must be given for continuous noise {mechanism}, or round it")
    listed = [mechanism.support(int(x)) for x in np.unique(values)] if releases is None else [np.asarray(releases)]
    w = np.unique(np.concatenate(listed)) if releases is None else listed[0]
    log_prob, dims = mechanism.log_prob(w, values.values[..., None]), (*values.dims, "release")
    attrs = {"measure": "density" if continuous else "probability"}
    return xr.DataArray(log_prob, dims=dims, coords={**values.coords, "release": w}, attrs=attrs)


def together(*laws: xr.DataArray) -> xr.DataArray:
    """Joint log P of independent releases of the same worlds: every combination is one release, labelled by its parts.

    Parameters
    ----------
    laws : log probabilities from `log_likelihood`, with equal labels of rest and record

    Returns
    -------
    DataArray with the stacked dim release
    """
    names = [f"release_{i}" for i in range(len(laws))]
    parts = xr.align(
        *(law.rename(release=name) for law, name in zip(laws, names, strict=True)), join="exact", copy=False
    )
    density = any(law.attrs.get("measure") == "density" for law in laws)
    return reduce(add, parts).stack(release=names).assign_attrs(measure="density" if density else "probability")


def compare_worlds(
    prior_rest: ArrayLike, prior_record: ArrayLike, likelihood: Any, *, default: Any = None, dropped: Any = None
) -> xr.Dataset:
    """The adversary's posterior about the record from each release, in the actual and in the counterfactual world.

    Parameters
    ----------
    prior_rest : pi(d), dim (rest); 1.0 if everyone else's records are known
    prior_record : pi(r | d), dims ([rest,] record); without rest it is independent of everyone else
    likelihood : log P(w | d, r), nats, dims ([rest,] record, release); may be -inf
    default : a record that replaces the target's in the counterfactual world; by default one is drawn from pi(. | d)
    dropped : for a counterfactual world without any record in its place, log P(w | d), dims ([rest,] release)

    The axes of plain arrays are in this order; with fewer axes the first dims are absent. Further dims of a DataArray
    (such as adversaries) are retained.

    Returns
    -------
    Dataset of `actual`, `counterfactual`, `log_ratio` = log(actual / counterfactual), `log_odds`,
    `counterfactual_log_odds` and `log_prob_given` = log P(w | r), dims (record, release); `log_prob` = log P(w), dim
    (release); `prior` = P(r), dim (record); `rest_known`. Logs are in nats. Values that are undefined because a record
    or a release has probability 0 are NaN, with a warning. If only the counterfactual world excludes a release, the
    ratio is infinite.

    Notes
    -----
    If the rest is known, every counterfactual posterior is the prior, and the three agree. Otherwise `default` and
    `dropped` change P(w) too, and pure epsilon-DP allows a ratio of e^(2 epsilon) instead of e^epsilon.

    >>> import numpy as np
    >>> worlds = compare_worlds(1.0, [0.6, 0.4], np.log([[0.75, 0.25], [0.25, 0.75]]))
    >>> round(float(np.exp(worlds.log_ratio.sel(record=1, release=1))), 6)
    1.666667
    """
    if default is not None and dropped is not None:
        raise ValueError("give default or dropped, not both: each says what the counterfactual world holds")
    law = _log_probabilities("likelihood", likelihood, ("rest", "record", "release"))
    if "record" not in law.dims:
        raise ValueError(f"likelihood must have dims 'record' and 'release', got {law.dims}")
    attrs = {"measure": law.attrs.get("measure", "probability")}
    rest, record, law = aligned(prior_rest, prior_record, likelihood=law)
    if "record" in record.coords:
        law = law.assign_coords(record=record["record"])
    with np.errstate(divide="ignore", invalid="ignore"):
        log_record = log(record)
        joint = log(rest) + log_record
        peak = law.where(joint > -np.inf, -np.inf).max(("rest", "record"))
        # Likelihoods are scaled by the likeliest world, so tiny ones neither underflow nor lose digits.
        peak = peak.where(peak > -np.inf, 0.0)
        scaled = law - peak
        kind, replaced = _counterfactual_law(scaled, log_record, peak, default, dropped)
        actual, other = _log_sum(joint + scaled, "rest"), _log_sum(joint + replaced, "rest")
        total = _log_sum(actual, "record")
        other_total = total if kind == "resample" else _log_sum(other, "record")
        ratio = (actual - other) + (other_total - total)
        prior = _log_sum(joint, "rest")
        variables = {
            "actual": exp(actual - total),
            "counterfactual": exp(other - other_total),
            "log_ratio": ratio.where((other_total > -np.inf) | (actual == -np.inf), np.inf),
            "log_odds": _log_odds(actual),
            "counterfactual_log_odds": _log_odds(other),
            "log_prob": total + peak,
            "log_prob_given": actual + peak - prior,
            "prior": exp(prior),
            "rest_known": (rest > 0).sum("rest") == 1,
        }
    _warn("record", prior == -np.inf, "has probability 0: its ratio is undefined (NaN)")
    _warn("release", total == -np.inf, "has probability 0: what would follow from it is undefined (NaN)")
    only_actual = (other_total == -np.inf) & (total > -np.inf)
    _warn("release", only_actual, "is impossible in the counterfactual world: ratios there are infinite")
    worlds = xr.Dataset(variables, attrs={"counterfactual": kind, **attrs}).transpose(..., "record", "release")
    return worlds.assign_coords({d: np.arange(n) for d, n in worlds.sizes.items() if d not in worlds.coords})


def aligned(prior_rest: ArrayLike, prior_record: ArrayLike, **third: xr.DataArray) -> tuple[xr.DataArray, ...]:
    """The two priors, checked and normalised, and a third array aligned with them by label.

    Parameters
    ----------
    prior_rest : probabilities over (rest), or 1.0 for one known rest
    prior_record : probabilities over ([rest,] record)
    third : one array over the rest, the record or both, as a keyword that names it in messages

    Returns
    -------
    (prior_rest, prior_record, array)

    Raises
    ------
    ValueError : a prior without its dim, outside [0, 1], or with a sum further than 1e-9 from 1; different labels

    >>> [part.dims for part in aligned(1.0, [0.6, 0.4], answers=xr.DataArray([0, 1], dims="record"))]
    [('rest',), ('record',), ('record',)]
    """
    ((name, array),) = third.items()
    rest = _prior("prior_rest", np.atleast_1d(prior_rest) if np.ndim(prior_rest) == 0 else prior_rest, ("rest",))
    record = _prior("prior_record", prior_record, ("rest", "record"))
    try:
        return xr.align(rest, record, array, join="exact", copy=False)
    except ValueError as error:
        raise ValueError(f"prior_rest, prior_record and {name} must have the same labels: {error}") from None


def _prior(name: str, values: Any, dims: tuple[str, ...]) -> xr.DataArray:
    """Probabilities that sum to one over the last of the dims, divided by their total."""
    array = labelled_array(name, values, dims)
    if dims[-1] not in array.dims:
        raise ValueError(f"{name} must have dim {dims[-1]!r}, got {array.dims}")
    check_probability(name, array.values)
    total = array.sum(dims[-1])
    wrong = total.values[abs(total.values - 1.0) > 1e-9]
    if wrong.size:
        raise ValueError(f"{name} must sum to 1 over {dims[-1]!r}, got {wrong[0]}")
    return array / total


def _log_probabilities(name: str, values: Any, dims: tuple[str, ...]) -> xr.DataArray:
    array = labelled_array(name, values, dims)
    if "release" not in array.dims:
        raise ValueError(f"{name} must have dim 'release', got {array.dims}")
    bad = np.isnan(array.values) | (array.values == np.inf)
    if bad.any():
        raise ValueError(f"{name} must hold log probabilities, finite or -inf, got {array.values[bad][0]}")
    return array


def _counterfactual_law(
    law: xr.DataArray, log_record: xr.DataArray, peak: xr.DataArray, default: Any, dropped: Any
) -> tuple[str, xr.DataArray]:
    """The counterfactual's name and log m(w | d), the release's distribution without the target's own record."""
    if default is not None:
        return "default", select_records(law, default).drop_vars("record", errors="ignore")
    if dropped is not None:
        without = _log_probabilities("dropped", dropped, ("rest", "release"))
        return "drop", xr.align(without, peak, join="exact", copy=False)[0] - peak
    return "resample", _log_sum(log_record + law, "record")


def select_records(array: xr.DataArray, record: Any) -> xr.DataArray:
    """The part of an array for these records.

    Parameters
    ----------
    array : DataArray with dim "record"
    record : one label, which drops the dim, or a list of labels, which keeps it

    Returns
    -------
    DataArray with the other dims unchanged

    Raises
    ------
    ValueError : a label that is not among the records

    >>> select_records(xr.DataArray([0.6, 0.4], dims="record", coords={"record": ["a", "b"]}), "b").item()
    0.4
    """
    try:
        return array.sel(record=record)
    except (KeyError, IndexError):
        raise ValueError(f"record {record!r} is not among the {array.sizes['record']} records") from None


def _log_sum(x: xr.DataArray, dim: str) -> xr.DataArray:
    return x.reduce(log_sum_exp, dim)


def _log_odds(log_mass: xr.DataArray) -> xr.DataArray:
    """Log mass of each record minus log mass of all others, summed from both sides: 1 - p would cancel."""

    def odds(x: Floats) -> Floats:
        none = np.full((*x.shape[:-1], 1), -np.inf)
        before = np.logaddexp.accumulate(np.concatenate([none, x[..., :-1]], axis=-1), axis=-1)
        after = np.logaddexp.accumulate(np.concatenate([none, x[..., :0:-1]], axis=-1), axis=-1)[..., ::-1]
        return np.asarray(x - np.logaddexp(before, after))

    log_odds: xr.DataArray = xr.apply_ufunc(odds, log_mass, input_core_dims=[["record"]], output_core_dims=[["record"]])
    return log_odds


def _warn(dim: str, bad: xr.DataArray, what: str) -> None:
    labels = bad[dim].values[bad.any([d for d in bad.dims if d != dim]).values].tolist()
    if labels:
        more = f" (and {len(labels) - 1} more)" if len(labels) > 1 else ""
        warnings.warn(f"{dim} {labels[0]!r}{more} {what}", RuntimeWarning, stacklevel=3)
