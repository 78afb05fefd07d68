r"""A reader of explicit databases: what an exact statistic teaches, and what a noisy release adds to that.

    given(X)      = prior(X) 1{T(X) = t} / prior(D_t)         the invariant alone: no privacy parameter bounds this
    posterior(X)  ~ given(X) p(m | X)                         the release: bounded by the guarantee, see `odds`

Databases are tuples of records, few enough to list; any prior over them, with any dependence between records. For
tables of counts with known margins see `table_posterior`.

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from adversary._core import Floats, Integers, check_number, check_probability, check_whole, log_sum_exp, scalar_or_array
from adversary.privacy import Guarantee
from adversary.privacy.invariants import conforming, coupling_radius, plain
from adversary.privacy.mechanisms import Mechanism


def log_odds_bound(guarantee: Guarantee, distance: ArrayLike, failure: float = 0.0) -> Any:
    """Largest |log R| between databases `distance` records apart, nats: the loss bound of the group, 0 at distance 0.

    Parameters
    ----------
    guarantee : of a change of one record, on all databases; for a mechanism made for the conforming databases, count
        the distance in its own steps
    distance : whole numbers
    failure : probability, under X and under Y, of a release beyond the bound; at 0 Gaussian noise has no bound (inf)
    """
    return _of_groups(distance, 0.0, lambda size: guarantee.group(size).loss_bound(failure))


def odds_bound(guarantee: Guarantee, distance: ArrayLike, failure: float = 0.0) -> tuple[Any, Any]:
    """Range of the factor by which a release multiplies the odds between two databases: exp(-bound) to exp(bound).

    Parameters
    ----------
    guarantee : of a change of one record, as in `log_odds_bound`
    distance : number of records in which the two databases differ; whole numbers, any shape
    failure : probability, under either database, of a release beyond the bound; in [0, 1]

    Returns
    -------
    (lower, upper), each of the shape of `distance`; (1, 1) at distance 0

    >>> from adversary.privacy.definitions import PureDP
    >>> tuple(round(factor, 4) for factor in odds_bound(PureDP(1.0), 2))
    (0.1353, 7.3891)
    """
    bound = np.asarray(log_odds_bound(guarantee, distance, failure))
    with np.errstate(over="ignore"):
        return scalar_or_array(np.exp(-bound)), scalar_or_array(np.exp(bound))


def odds_tail(guarantee: Guarantee, distance: int, log_odds: ArrayLike) -> Any:
    """Bound on P(log R > s) when X is the true database, R the factor on the odds of X against one other database Y.

    The other direction needs no guarantee: P(log R < -s) <= exp(-s) for any mechanism. The bound holds for each Y, not
    for all Y at once.

    Parameters
    ----------
    guarantee : of a change of one record, as in `log_odds_bound`
    distance : number of records in which X and Y differ, a whole number
    log_odds : s, in nats, any shape

    Returns
    -------
    Probability in [0, 1], of the shape of `log_odds`; 1 at s <= 0 (at distance 0: 1 at s < 0, otherwise 0)

    >>> from adversary.privacy.definitions import PureDP
    >>> odds_tail(PureDP(1.0), 2, [0.0, 1.0, 2.0]).round(4).tolist()
    [1.0, 0.91, 0.0]
    """
    k, s = int(check_whole("distance", distance, minimum=0)), check_number("log_odds", log_odds)
    if k == 0:
        return scalar_or_array(np.where(s < 0.0, 1.0, 0.0))
    tail: Floats = np.ones(s.shape)
    promise: Any = guarantee.group(k)
    tail[s > 0.0] = promise.pbdp_delta(s[s > 0.0])
    return scalar_or_array(tail)


def guess_bound(guarantee: Guarantee, distance: ArrayLike) -> Any:
    """Largest probability of guessing right between two databases, equally likely a priori: (1 + advantage) / 2.

    One minus the fixed point of the trade-off function iterated `distance` times; Phi(k mu / 2) for Gaussian DP.

    Parameters
    ----------
    guarantee : of a change of one record
    distance : number k of records in which the two databases differ; whole numbers, any shape

    Returns
    -------
    Probability in [1/2, 1], of the shape of `distance`; 1/2 at distance 0

    >>> from adversary.privacy.definitions import GaussianDP
    >>> round(guess_bound(GaussianDP(1.0), 2), 6)
    0.841345
    """
    return _of_groups(distance, 0.5, lambda size: 0.5 * (1.0 + guarantee.group(size).advantage))


def _of_groups(distance: ArrayLike, nothing: float, of: Callable[[int], float]) -> Any:
    """A number for each distance, worked out once for each size; `nothing` at distance 0."""
    sizes, place = np.unique(check_whole("distance", distance, minimum=0), return_inverse=True)
    values = np.array([of(int(size)) if size else nothing for size in sizes])
    return scalar_or_array(values[place].reshape(np.shape(distance)))


def condition(prior: ArrayLike, databases: Iterable[Any], statistic: Callable[[Any], Any], value: Any) -> xr.Dataset:
    """A prior over databases, conditioned on the exact value of a statistic.

    Parameters
    ----------
    prior : probability of each database, adding up to 1: of any kind, or what `posterior_given` called the posterior
    before
    databases : tuples of records, all different and of one length
    statistic : a function of a database
    value : what was published; ValueError where no database has it, or only ones of prior probability 0

    Returns
    -------
    Dataset over `database`: `prior`, `given`, `conforms`, and `record` (database, position), each record by its place
    in the attribute `values`; `invariant_ratio` = given / prior of the databases that conform, one over the prior
    probability of the invariant. Nothing in a privacy guarantee bounds it.

    >>> two = condition([0.4, 0.3, 0.2, 0.1], [(0, 0), (0, 1), (1, 0), (1, 1)], sum, 1)
    >>> two.given.values.round(6).tolist(), round(float(two.invariant_ratio), 6)
    ([0.0, 0.6, 0.4, 0.0], 2.0)
    """
    listed = list(map(plain, databases))
    weight = check_probability("prior", prior)
    if weight.shape != (len(listed),):
        raise ValueError(f"prior must have one probability per database, {len(listed)}, got shape {weight.shape}")
    if abs(weight.sum() - 1.0) > 1e-9:
        raise ValueError(f"prior must add up to 1, got {weight.sum()}")
    if len(set(listed)) < len(listed):
        raise ValueError("databases must be different, one is listed twice")
    if len({len(database) for database in listed}) > 1:
        raise ValueError("databases must have the same number of records")
    kept = set(conforming(listed, statistic, value))
    conforms = np.array([database in kept for database in listed])
    mass = float(weight[conforms].sum())
    if mass == 0.0:
        raise ValueError(
            f"the prior gives probability 0 to every database with the published value {value!r}: these beliefs "
            "contradict an exact release"
        )
    values, codes = _coded(listed)
    return xr.Dataset(
        {
            "prior": ("database", weight),
            "given": ("database", np.where(conforms, weight, 0.0) / mass),
            "conforms": ("database", conforms),
            "record": (("database", "position"), codes),
            "invariant_ratio": 1.0 / mass,
        },
        attrs={"values": values, "engine": "enumeration"},
    )


def _coded(databases: Sequence[tuple[Any, ...]]) -> tuple[list[Any], Integers]:
    """The different records, in their order where they have one, and each database as their places."""
    different = list(dict.fromkeys(record for database in databases for record in database))
    try:
        values = sorted(different)
    except TypeError:
        values = different
    place = {record: i for i, record in enumerate(values)}
    return values, np.array([[place[record] for record in database] for database in databases], dtype=np.int64)


def record_log_likelihood(mechanism: Mechanism, released: ArrayLike, databases: ArrayLike) -> Floats:
    """log P(m | X) where every record is released on its own: the sum over records, ([release,] database).

    Parameters
    ----------
    mechanism : for instance `RandomizedResponse`
    released : whole numbers ([release,] record)
    databases : whole numbers (database, record)
    """
    m, x = np.asarray(released), np.asarray(databases)
    if x.ndim != 2 or m.shape[-1:] != x.shape[1:]:
        raise ValueError(f"released must have one number per record, {x.shape[1:]}, got shape {m.shape}")
    return np.asarray(mechanism.log_prob(m[..., None, :], x).sum(-1), dtype=np.float64)


def posterior_given(conditioned: xr.Dataset, log_likelihood: ArrayLike) -> xr.Dataset:
    """What a noisy release adds.

    Parameters
    ----------
    conditioned : from `condition`
    log_likelihood : log P(m | X) in nats, ([release,] database), up to a constant of the release

    Returns
    -------
    The Dataset with `posterior` and `ratio` = posterior / given ([release,] database), and `log_evidence` ([release]),
    log sum given(X) P(m | X). A database already ruled out has posterior 0 and an undefined ratio (NaN).
    """
    law = np.asarray(log_likelihood, dtype=np.float64)
    given = conditioned["given"].values
    if law.shape[-1:] != given.shape or law.ndim > 2 or np.isnan(law).any() or (law == np.inf).any():
        raise ValueError(
            f"log_likelihood must hold a finite number or -inf per database, ([release,] {given.size}), got shape "
            f"{law.shape}"
        )
    with np.errstate(divide="ignore"):
        joint = np.log(given) + law
    evidence = log_sum_exp(joint)
    if np.isneginf(evidence).any():
        raise ValueError("the release is impossible under every database that conforms")
    dims = ("release", "database")[2 - law.ndim :]
    posterior = xr.DataArray(np.exp(joint - evidence[..., None]), dims=dims)
    ratio = np.exp(law - evidence[..., None])
    return conditioned.assign(
        posterior=posterior,
        ratio=posterior.copy(data=np.where(given > 0, ratio, np.nan)),
        log_evidence=(dims[:-1], evidence),
    )


def record_law(learned: xr.Dataset, position: int = 0) -> xr.Dataset:
    """Marginal law of one record: a priori, given the invariant, and given the release if there is one.

    Parameters
    ----------
    learned : from `condition` or `posterior_given`
    position : index of the record, from 0

    Returns
    -------
    Dataset over `value`, the different records (tuples as strings): `prior` and `given` (value), `posterior`
    ([release,] value) after `posterior_given`; `invariant_ratio` = given / prior and `ratio` = posterior / given, NaN
    at values of probability 0 before.

    Raises
    ------
    ValueError : a position that no record has

    >>> two = condition([0.4, 0.3, 0.2, 0.1], [(0, 0), (0, 1), (1, 0), (1, 1)], sum, 1)
    >>> record_law(two).given.round(6).values.tolist()
    [0.6, 0.4]
    """
    laws = learned.drop_vars("ratio", errors="ignore")
    member = _membership(learned, position)
    result = xr.Dataset({name: laws[name] @ member for name in ("prior", "given", "posterior") if name in laws})
    with np.errstate(divide="ignore", invalid="ignore"):
        result["invariant_ratio"] = result["given"] / result["prior"]
        if "posterior" in result:
            result["ratio"] = result["posterior"] / result["given"]
    return result


def _membership(learned: xr.Dataset, position: int) -> xr.DataArray:
    """1 where record `position` of a database has a value, (database, value)."""
    records, values = learned["record"], learned.attrs["values"]
    if not 0 <= position < records.sizes["position"]:
        raise ValueError(f"position must be one of the {records.sizes['position']} records, got {position}")
    labels = [str(value) if isinstance(value, tuple) else value for value in values]
    member = records.values[:, position, None] == np.arange(len(values))
    return xr.DataArray(member.astype(np.float64), dims=("database", "value"), coords={"value": labels})


def record_odds(learned: xr.Dataset, guarantee: Guarantee, position: int = 0, failure: float = 0.0) -> xr.Dataset:
    r"""How far the release moved the odds between two values of one record, beside what the guarantee allows.

    Parameters
    ----------
    learned : from `posterior_given`
    guarantee : of a change of one record, on all databases
    position : the record
    failure : as in `log_odds_bound`

    Returns
    -------
    Dataset over (value, other), the values still possible: `log_odds_factor` ([release,] ...), log of
    P(m | X_i = value) / P(m | X_i = other); `radius`, the smallest k such that this reader's databases given the two
    values can be coupled k records apart, but for 1e-9 of probability left to rounding; `bound` = `log_odds_bound` at
    that radius. A reader who ties the record to far-away databases has a large radius, up to the number of records.
    """
    member = _membership(learned, position)
    law = record_law(learned, position)
    possible = np.flatnonzero(law["given"].values > 0)
    law = law.isel(value=possible)
    with np.errstate(divide="ignore"):
        log_ratio = xr.DataArray(np.log(law["ratio"].values), dims=law["ratio"].dims, coords=law["ratio"].coords)
    kept = np.flatnonzero(learned["conforms"].values)
    databases = [tuple(row) for row in learned["record"].values[kept].tolist()]
    given = learned["given"].values[kept, None] * member.values[np.ix_(kept, possible)]
    given = given / given.sum(0)
    radius = np.zeros((possible.size, possible.size), dtype=np.int64)
    for i in range(possible.size):
        for j in range(i):
            radius[i, j] = radius[j, i] = coupling_radius(databases, given[:, i], given[:, j])
    coords = {"value": law["value"].values, "other": law["value"].values}
    dims = ("value", "other")
    with np.errstate(invalid="ignore"):  # a release that is impossible under both values says nothing: NaN
        factor = log_ratio - log_ratio.rename(value="other")
    return xr.Dataset(
        {
            "log_odds_factor": factor,
            "radius": xr.DataArray(radius, dims=dims, coords=coords),
            "bound": xr.DataArray(
                log_odds_bound(guarantee, radius, failure), dims=dims, coords=coords, attrs={"direction": "upper"}
            ),
        }
    )
