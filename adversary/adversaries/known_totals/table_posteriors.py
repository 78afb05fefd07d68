r"""Posterior of a noisy table whose margins were published exactly, and of the cell of one person in it.

    P(x | margins, release)  ~  prior(x) 1{x has the margins} p(release | x)
    P(record i in cell (j, k) | ...)  =  E[x_jk | ...] / n          records are exchangeable

All tables are listed if there are few enough, and sampled by a random walk otherwise. Two ratios are reported: that
of the margins alone, which no privacy parameter bounds, and that of the noisy table given the margins.

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", section 5.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import TABLE, Floats, Integers, Sampling, arrays_over, logit
from adversary.adversaries.known_totals.contingency import LARGEST_LIST, TablePrior
from adversary.adversaries.known_totals.table_law import KnownMargins, TableLaw, listed_law, walked_law
from adversary.adversaries.known_totals.table_release import released_tables
from adversary.privacy import Guarantee
from adversary.privacy.definitions import NoPrivacy
from adversary.privacy.invariants import Margins, VectorNoise, sensitivity_space, transport_radius
from adversary.privacy.losses import check_guarantee

Others = tuple[Integers, Floats]

# Largest number of tables for which the smallest radius is computed.
LARGEST_COUPLED = 200

# probability that rounding may leave over between two cumulative sums
_DUST = 1e-13


def record_radius(story: KnownMargins, tables: Integers | None) -> tuple[int, bool]:
    """(radius, whether it is the smallest): coupling distance in records, over all pairs of cells of an unknown record.

    The hypotheses are two cells of one record; the radius is the largest distance of coupled databases. For up to 200
    tables it is the smallest, by optimal transport up to probability 1e-9. For more it is an upper bound, which errs
    toward more risk: for a 2 x 2 table from the quantile coupling; for independent features 1 + the number of features
    that vary (swap partners drawn uniformly); otherwise the number of unknown records.
    """
    if tables is not None and len(tables) <= LARGEST_COUPLED:
        return _over_pairs(story, tables, _smallest), True
    varying = sum(int(np.count_nonzero(margin) > 1) for margin in (story.rows, story.columns))
    bounds = [story.records]
    if story.prior.independent_features:
        bounds.append(varying + 1)
    if tables is not None and tables.shape[1:] == (2, 2):
        bounds.append(_over_pairs(story, tables, _in_order))
    return min(bounds), False


def _over_pairs(story: KnownMargins, tables: Integers, radius: Callable[[Others, Others], int]) -> int:
    """Largest radius over pairs of possible cells; 0 if there is only one."""
    weights = listed_law(story, tables).weights[0]
    cells = [(i, j) for i, j in np.ndindex(*tables.shape[1:]) if weights @ tables[:, i, j] > 0]
    laws = [_others(tables, weights * tables[:, i, j], (i, j)) for i, j in cells]
    return max((radius(*pair) for pair in itertools.combinations(laws, 2)), default=0)


def _others(tables: Integers, law: Floats, cell: tuple[int, int]) -> Others:
    """The other records' tables (table, r c) where the record is in the cell, and their probabilities."""
    positive = np.flatnonzero(law > 0)
    rest = tables[positive].copy()
    rest[:, cell[0], cell[1]] -= 1
    return rest.reshape(positive.size, -1), law[positive] / law[positive].sum()


def _distance(one: Integers, other: Integers) -> Integers:
    """Number of records in which two databases differ: the target's, plus the fewest for the others' tables."""
    return 1 + np.abs(one - other).sum(-1) // 2


def _smallest(first: Others, second: Others) -> int:
    (one, p), (other, q) = first, second
    return transport_radius(_distance(one[:, None], other), p, q)


def _in_order(first: Others, second: Others) -> int:
    """Radius of the quantile coupling, with tables in the order of their first cell."""
    (one, p), (other, q) = first, second
    above = np.cumsum(p)[:-1], np.cumsum(q)[:-1]
    ends = np.sort(np.concatenate([[0.0, 1.0], *above]))
    middle = (0.5 * (ends[1:] + ends[:-1]))[np.diff(ends) > _DUST]
    i, j = (np.searchsorted(cumulative, middle, side="right") for cumulative in above)
    return int(_distance(one[i], other[j]).max())


# Default length of a random walk.
WALK = Sampling(draws=500, tune=300, chains=16)

# Largest number of records moved by the changes for which noise of a table with margins is calibrated.
LARGEST_CYCLE = 3

_DIMS = ("row", "column")
_BY_RELEASE = ("release", *_DIMS)


def table_posterior(
    margins: Any,
    released: Any = None,
    mechanism: Any = None,
    prior: Any = None,
    *,
    known: Any = None,
    guarantee: Guarantee | None = None,
    failure: float = 0.0,
    largest: int = LARGEST_LIST,
    sampling: Sampling | None = None,
    rng: Any = None,
) -> xr.Dataset:
    """Posterior of a table of counts with known margins, and of any one record in it.

    Parameters
    ----------
    margins : `Margins` of two features, or (row totals, column totals)
    released : the noisy table ([release,] r, c), any real numbers; None for the posterior from the margins alone.
        Labels of rows and columns are paired with those of the margins, the prior and the known records
    mechanism : a `Mechanism`, with independent noise in every cell, or a `VectorNoise` for all cells together (`KNorm`,
        `SpanGaussian`)
    prior : a `TablePrior`, or probabilities of the cells (r, c) for independent records; None for equal probabilities
    known : table of the records that the adversary knows; results are about one of the others
    guarantee : for a change of one record, on all databases; adds bounds on the odds. A `VectorNoise` made for these
        margins has its own
    failure : probability of a release beyond the bound; at 0 Gaussian noise has no finite bound
    largest : largest number of tables that are listed; with more, a random walk takes one release at a time
    sampling, rng : length and seed of the walk; by default 16 chains of 500 draws

    Returns
    -------
    Dataset over row and column, and release if several were given:

    `prior`, `given`, `posterior` : probability that an unknown record is in the cell: before any information, given the
        margins (and the known records), and after the release
    `invariant_ratio`, `ratio` : given / prior and posterior / given
    `mean`, `probability` : expected count of the cell and its pmf (row, column, count) after the release, or given the
        margins if there is none; `given_probability` is the pmf given the margins
    `log_evidence` : log probability (density) of the release given the margins, nats; only if tables are listed
    `log_odds_factor`, `odds_bound`, `radius` : with a guarantee, the change of the log odds that a record is in the
        cell rather than elsewhere, the guarantee's bound on it, and the number of records at which the bound is
        evaluated (`record_radius`)
    `r_hat`, `ess`, `mcse` : convergence and standard errors of `mean`, if sampled

    Attributes: `engine` ("enumeration" or "walk"), `tables` (their number, if listed), `status` ("exact", "estimate",
    or "unreliable": not converged in a second run of four times the length; all results are NaN).

    Raises
    ------
    ValueError : a release without a mechanism or the reverse, margins that do not fit, or several releases of a table
        that must be sampled

    >>> posterior = table_posterior(([2, 1], [2, 1]))
    >>> round(float(posterior.probability.sel(row=0, column=0, count=1)), 4)
    0.6667
    """
    if (released is None) != (mechanism is None):
        raise ValueError("give a release and its mechanism, or neither")
    if guarantee is not None:
        check_guarantee("guarantee", guarantee)
    margins, released, prior, known, labels = _paired(margins, released, prior, known)
    story = KnownMargins.of(margins, prior, known)
    noisy, many = (None, False) if released is None else released_tables(released, story.prior.cells.shape)
    tables = story.tables(largest)
    if tables is None:
        if noisy is not None and len(noisy) > 1:
            raise ValueError(f"too many tables have these margins to list: ask for one release, got {len(noisy)}")
        length, generator = sampling or WALK, np.random.default_rng(rng)
        given = walked_law(story, length, generator)
        after = None if noisy is None else walked_law(story, length, generator, mechanism, noisy)
    else:
        given = listed_law(story, tables)
        after = None if noisy is None else listed_law(story, tables, mechanism, noisy)
    result = _laws_of_tables(story, given, after)
    if guarantee is not None or isinstance(mechanism, VectorNoise):
        radius, sharp = record_radius(story, tables)
        guaranteed = _promise(guarantee, mechanism, story, radius)
        result = _odds_and_bounds(result, guaranteed, failure, radius).assign_attrs(radius_exact=sharp)
    result = result.assign_coords({dim: (dim, index) for dim, index in labels.items() if dim in result.dims})
    return result if many else result.isel(release=0, drop=True)


def _paired(margins: Any, released: Any, prior: Any, known: Any) -> tuple[Any, ...]:
    """Margins, release, prior and known records, with rows and columns paired by label, and the labels."""
    totals = margins.margins if isinstance(margins, Margins) else margins
    if not hasattr(totals, "__len__") or len(totals) != len(TABLE):
        return margins, released, prior, known, {}
    given = {f"{dim} totals": (counts, (dim,)) for dim, counts in zip(TABLE, totals, strict=True)}
    tables = {"released": released, "known": known, "prior": None if isinstance(prior, TablePrior) else prior}
    arrays, labels = arrays_over({**given, **{name: (table, TABLE) for name, table in tables.items()}})
    own = prior if isinstance(prior, TablePrior) else arrays["prior"]
    totals = margins if isinstance(margins, Margins) else [arrays[name] for name in given]
    return totals, arrays["released"], own, arrays["known"], labels


def _laws_of_tables(story: KnownMargins, given: TableLaw, after: TableLaw | None) -> xr.Dataset:
    """Dataset of the distributions of a record and of the cells, with diagnostics; NaN if unreliable."""
    last, size = given if after is None else after, story.largest + 1
    record, mean = given.mean[0] / story.records, last.mean
    prior = story.prior.cells
    variables: dict[str, Any] = {
        "prior": (_DIMS, prior),
        "given": (_DIMS, record),
        "invariant_ratio": (_DIMS, _ratio(record, prior)),
        "mean": (_BY_RELEASE, mean + story.known),
        "probability": ((*_BY_RELEASE, "count"), last.cell_laws(story.known, size)),
        "given_probability": ((*_DIMS, "count"), given.cell_laws(story.known, size)[0]),
    }
    if after is not None:
        posterior = mean / story.records
        variables |= {"posterior": (_BY_RELEASE, posterior), "ratio": (_BY_RELEASE, _ratio(posterior, record))}
    if last.log_evidence is not None:
        variables["log_evidence"] = (("release",), last.log_evidence)
    reliable = given.reliable and last.reliable
    if not reliable:
        variables = {name: (dims, np.full(np.shape(x), np.nan)) for name, (dims, x) in variables.items()}
    if last.diagnosis is not None:
        numbers = {name: getattr(last.diagnosis, name) for name in ("r_hat", "ess", "mcse")}
        variables |= {name: (_BY_RELEASE, x.reshape(1, *prior.shape)) for name, x in numbers.items()}
        attrs: dict[str, Any] = {"engine": "walk", "status": "estimate" if reliable else "unreliable"}
    else:
        attrs = {"engine": "enumeration", "status": "exact", "tables": len(last.tables)}
    posteriors = xr.Dataset(variables, attrs=attrs)
    return posteriors.assign_coords({dim: np.arange(posteriors.sizes[dim]) for dim in (*_DIMS, "count")})


def _ratio(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / below)


def _promise(guarantee: Guarantee | None, mechanism: Any, story: KnownMargins, radius: int) -> Guarantee | None:
    """The guarantee between databases `radius` records apart; None at radius 0."""
    if radius == 0:
        return None
    if guarantee is not None:
        return guarantee.group(radius)
    if radius > LARGEST_CYCLE:
        return NoPrivacy()
    guaranteed: Guarantee = mechanism.under(sensitivity_space(story.rows, story.columns, radius))
    return guaranteed


def _odds_and_bounds(posteriors: xr.Dataset, guaranteed: Guarantee | None, failure: float, radius: int) -> xr.Dataset:
    """The results with the change of a record's log odds and its bound."""
    bound = 0.0 if guaranteed is None else guaranteed.loss_bound(failure)
    result = posteriors.assign(radius=radius, odds_bound=xr.DataArray(bound, attrs={"direction": "upper"}))
    if "posterior" not in posteriors:
        return result
    after, before = (np.clip(posteriors[name].values, 0.0, 1.0) for name in ("posterior", "given"))
    with np.errstate(invalid="ignore"):
        return result.assign(log_odds_factor=(_BY_RELEASE, logit(after) - logit(before)))
