"""Readers who know some statistics exactly, against brute force over databases, and never beyond the bounds."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import nchypergeom_fisher

import adversary as adv
from adversary.adversaries import known_totals as cd
from adversary.adversaries.known_totals.contingency import complete_tables
from adversary.adversaries.known_totals.table_law import KnownMargins
from adversary.adversaries.known_totals.table_posteriors import record_radius
from adversary.literature.joint_distribution import JointDistribution
from adversary.privacy.invariants.span_noise import KNorm, SpanGaussian
from adversary.privacy.invariants.two_way_tables import sensitivity_space
from tests.oracles import conditioned as oracle
from tests.oracles import invariants

CUBE = list(itertools.product((0, 1), repeat=3))
SETS = [
    ((2, 1), (2, 1)),
    ((2, 2), (3, 1)),
    ((1, 1, 1), (2, 1)),
    ((2, 1, 1), (1, 2, 1)),
    ((3, 0, 1), (2, 2)),
    ((4,), (1, 3)),
]
SHORT = adv.Sampling(chains=8, tune=100, draws=400)
ROWS, COLUMNS = np.array([5, 4, 3]), np.array([4, 4, 4])
UNEVEN = np.array([[0.2, 0.1, 0.1], [0.1, 0.05, 0.15], [0.1, 0.1, 0.1]])
NOISY = np.array([[2, 2, 0], [3, 0, 1], [0, 2, 2]])


def random_cells(rng: np.random.Generator, shape: tuple[int, ...], concentration: float = 1.0) -> Any:
    return rng.dirichlet(np.full(math.prod(shape), concentration)).reshape(shape)


# tables with known margins


@pytest.mark.parametrize(("rows", "columns"), SETS)
def test_all_tables_with_the_margins_are_listed_once(rows: Any, columns: Any) -> None:
    listed = cd.conforming_tables(rows, columns)
    assert listed is not None
    found = [tuple(map(tuple, table)) for table in listed.tolist()]
    assert len(set(found)) == len(found)
    assert set(found) == oracle.tables(rows, columns)
    low, high = cd.cell_bounds(rows, columns)
    np.testing.assert_array_equal(low, listed.min(0))
    np.testing.assert_array_equal(high, listed.max(0))
    np.testing.assert_array_equal(complete_tables(listed[:, :-1, :-1].reshape(len(listed), -1), rows, columns), listed)


def test_too_many_tables_are_not_listed() -> None:
    assert cd.conforming_tables([50] * 4, [50] * 4, largest=1000) is None
    assert len(cd.conforming_tables([50, 50], [50, 50], largest=51)) == 51  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "columns"), SETS)
def test_a_record_and_a_cell_agree_with_all_databases(rows: Any, columns: Any) -> None:
    """The posterior of the first record and of each cell, summed over databases one by one."""
    rng = np.random.default_rng(4)
    shape, listed = (len(rows), len(columns)), oracle.databases(rows, columns)
    pi, noise = random_cells(rng, shape), adv.Geometric(0.7)
    noisy = np.asarray(oracle.table_of(listed[-1], shape)) + rng.integers(-1, 2, shape)

    def weight(database: oracle.Database) -> float:
        return math.prod(float(pi[record]) for record in database)

    def likelihood(database: oracle.Database) -> float:
        q, counts = math.exp(-0.7), np.asarray(oracle.table_of(database, shape))
        return math.prod((1 - q) / (1 + q) * q ** abs(int(k)) for k in (noisy - counts).ravel())

    found = cd.table_posterior((rows, columns), noisy, noise, pi)
    for law, of in (("given", lambda database: 1.0), ("posterior", likelihood)):
        expected = oracle.record_posterior(weight, of, listed)
        for cell in np.ndindex(*shape):
            assert float(found[law][cell]) == pytest.approx(expected.get(cell, 0.0), rel=1e-11), (law, cell)  # type: ignore[call-overload]
    mass = math.fsum(weight(database) for database in listed)
    evidence = math.fsum(weight(database) * likelihood(database) for database in listed) / mass
    assert float(found.log_evidence) == pytest.approx(math.log(evidence), rel=1e-11)
    np.testing.assert_allclose(found["mean"], found.posterior * sum(rows), rtol=1e-11)
    np.testing.assert_allclose(found.probability.sum("count"), 1.0, rtol=1e-12)
    np.testing.assert_allclose((found.probability * found["count"]).sum("count"), found["mean"], atol=1e-11)
    possible = found.given > 0
    np.testing.assert_allclose((found.invariant_ratio * found.prior).where(possible, 0.0), found.given, rtol=1e-12)
    np.testing.assert_allclose((found.ratio * found.given).where(possible, 0.0), found.posterior, rtol=1e-12)


@pytest.mark.parametrize("odds", [0.2, 1.0, 3.5])
def test_a_two_by_two_table_has_the_noncentral_hypergeometric_law(odds: float) -> None:
    found = cd.table_posterior(([9, 7], [6, 10]), prior=cd.Independent.from_odds_ratio(odds))
    law = nchypergeom_fisher(16, 9, 6, odds).pmf(found["count"].values)
    np.testing.assert_allclose(found.probability[0, 0], law, atol=1e-13)


def test_dirichlet_cells_are_learned_from_known_records() -> None:
    """A known record counts as one more of the concentration; with a sharp one it is the independent law."""
    known = np.array([[1, 0], [0, 1]])
    margins = ([3, 2], [2, 3])
    a = np.array([[1.0, 2.0], [0.5, 1.5]])
    told = cd.table_posterior(margins, prior=cd.Dirichlet(a), known=known)
    again = cd.table_posterior(([2, 1], [1, 2]), prior=cd.Dirichlet(a + known))
    np.testing.assert_allclose(told.given, again.given, rtol=1e-12)
    np.testing.assert_allclose(told["mean"], again["mean"] + known, rtol=1e-12)
    np.testing.assert_allclose(told.prior, (a + known) / (a + known).sum(), rtol=1e-12)
    sharp = cd.table_posterior(margins, prior=cd.Dirichlet(1e9 * a))
    np.testing.assert_allclose(sharp.given, cd.table_posterior(margins, prior=a / a.sum()).given, rtol=1e-6)


def test_known_records_are_taken_out_of_margins_and_release_alike() -> None:
    margins, known = ([3, 2], [2, 3]), np.array([[1, 1], [0, 0]])
    noisy = np.array([[2, 2], [1, 1]])
    told = cd.table_posterior(margins, noisy, adv.Geometric(1.0), known=known)
    rest = cd.table_posterior(([1, 2], [1, 2]), noisy - known, adv.Geometric(1.0))
    np.testing.assert_allclose(told.posterior, rest.posterior, rtol=1e-12)
    np.testing.assert_allclose(told["mean"], rest["mean"] + known, rtol=1e-12)


def test_rows_and_columns_are_paired_by_their_labels() -> None:
    noise, known = adv.Geometric(1.0), np.array([[1, 0, 0], [0, 1, 0], [0, 0, 0]])
    plain = cd.table_posterior((ROWS, COLUMNS), NOISY, noise, UNEVEN, known=known)
    rows, columns = ["a", "b", "c"], ["x", "y", "z"]
    margins = pd.Series(ROWS, rows), pd.Series(COLUMNS, columns)
    one, other, third = (pd.DataFrame(table, rows, columns) for table in (NOISY, UNEVEN, known))
    turned = xr.DataArray(one).rename({"dim_0": "row", "dim_1": "column"}).transpose()
    for released in (one.iloc[::-1, [1, 0, 2]], turned):
        found = cd.table_posterior(margins, released, noise, other.iloc[:, ::-1], known=third.iloc[[2, 0, 1]])
        np.testing.assert_allclose(found["posterior"].sel(row=rows, column=columns), plain["posterior"], rtol=1e-13)
        assert found["row"].values.tolist() == rows
    with pytest.raises(ValueError, match="without labels beside"):
        cd.table_posterior((ROWS, COLUMNS), one, noise)
    with pytest.raises(ValueError, match="same labels"):
        cd.table_posterior(margins, one.rename(index={"a": "d"}), noise)


def test_many_releases_are_read_as_one_by_one() -> None:
    rng = np.random.default_rng(8)
    noisy = NOISY + rng.integers(-2, 3, (7, 3, 3))
    together = cd.table_posterior((ROWS, COLUMNS), noisy, adv.Geometric(0.7), UNEVEN)
    assert together.posterior.dims == ("release", "row", "column")
    assert together.given.dims == ("row", "column")
    assert together.probability.dims == ("release", "row", "column", "count")
    labelled = xr.DataArray(noisy[3].T, dims=("column", "row"))
    one = cd.table_posterior((ROWS, COLUMNS), labelled, adv.Geometric(0.7), UNEVEN)
    xr.testing.assert_allclose(together.isel(release=3), one)


@pytest.mark.parametrize("make", [lambda space: KNorm(space, 0.8), lambda space: SpanGaussian(space, 0.8)])
def test_noise_on_the_span_is_read_as_its_density_says(make: Any) -> None:
    rows, columns = [2, 1, 1], [1, 2, 1]
    noise = make(sensitivity_space(rows, columns, 3))
    tables = cd.conforming_tables(rows, columns)
    assert tables is not None
    noisy = noise.sample(tables[3].astype(float), np.random.default_rng(2))
    found = cd.table_posterior((rows, columns), noisy, noise)
    weight = np.array([math.prod(1 / math.factorial(k) for k in table.ravel()) for table in tables])
    law = weight * np.exp([float(noise.log_prob(noisy, table)) for table in tables])
    np.testing.assert_allclose(found.posterior, np.tensordot(law / law.sum(), tables, 1) / 4, rtol=1e-10)
    assert int(found.radius) == 3
    assert float(found.odds_bound) == pytest.approx(0.8 if isinstance(noise, KNorm) else math.inf)
    assert float(abs(found.log_odds_factor).max()) <= float(found.odds_bound) + 1e-12


# the walk


def test_the_walk_agrees_with_the_list() -> None:
    exact = cd.table_posterior((ROWS, COLUMNS), NOISY, adv.Geometric(0.7), UNEVEN)
    walked = cd.table_posterior((ROWS, COLUMNS), NOISY, adv.Geometric(0.7), UNEVEN, largest=10, sampling=SHORT, rng=1)
    assert (exact.attrs["engine"], walked.attrs["engine"]) == ("enumeration", "walk")
    assert walked.attrs["status"] == "estimate"
    assert (abs(walked["mean"] - exact["mean"]) < 4.5 * walked.mcse).all()
    np.testing.assert_allclose(walked.given, exact.given, atol=0.02)
    np.testing.assert_allclose(walked.probability, exact.probability, atol=0.05)
    assert float(walked.r_hat.max()) < 1.05
    assert "log_evidence" not in walked


def test_the_walk_reads_noise_on_the_span() -> None:
    noise = SpanGaussian(sensitivity_space(ROWS, COLUMNS, 3), 1.0)
    tables = cd.conforming_tables(ROWS, COLUMNS)
    assert tables is not None
    noisy = noise.sample(tables[40].astype(float), np.random.default_rng(3))
    exact = cd.table_posterior((ROWS, COLUMNS), noisy, noise)
    walked = cd.table_posterior((ROWS, COLUMNS), noisy, noise, largest=10, sampling=SHORT, rng=5)
    assert walked.attrs["status"] == "estimate"
    assert (abs(walked["mean"] - exact["mean"]) < 4.5 * walked.mcse).all()


def test_the_walk_leaves_what_the_margins_settle() -> None:
    found = cd.table_posterior(([6, 0, 6], [4, 4, 4, 0]), largest=5, sampling=SHORT, rng=2)
    assert found.attrs["status"] == "estimate"
    np.testing.assert_allclose(found["mean"].sum("column"), [6, 0, 6], rtol=1e-12)
    np.testing.assert_allclose(found["mean"].sum("row"), [4, 4, 4, 0], rtol=1e-12)
    np.testing.assert_array_equal(found["mean"][1], 0)
    np.testing.assert_allclose(found["mean"][0, :3], 2, atol=0.1)


def test_a_walk_too_short_gives_no_numbers() -> None:
    rows = columns = [400, 400, 400]
    noisy = np.full((3, 3), 133) + 200 * np.eye(3, dtype=int)
    sampling = adv.Sampling(chains=4, tune=1, draws=4)
    found = cd.table_posterior((rows, columns), noisy, adv.Geometric(2.0), sampling=sampling, largest=100, rng=1)
    assert found.attrs["status"] == "unreliable"
    assert found.posterior.isnull().all()
    assert not found.r_hat.isnull().any()


def test_a_walk_is_refused_where_tables_are_ruled_out() -> None:
    pi = np.array([[0.0, 0.2, 0.1], [0.1, 0.1, 0.1], [0.1, 0.2, 0.1]])
    with pytest.raises(ValueError, match="ruled out though the margins allow it"):
        cd.table_posterior((ROWS, COLUMNS), prior=pi, largest=10, sampling=SHORT)
    with pytest.raises(ValueError, match="ruled out though the margins allow it"):
        cd.table_posterior((ROWS, COLUMNS), NOISY, adv.Exact(), largest=10, sampling=SHORT, rng=1)
    assert float(cd.table_posterior((ROWS, COLUMNS), prior=pi).given[0, 0]) == 0.0


# how far apart, and what that bounds


@pytest.mark.parametrize(("rows", "columns"), SETS)
@pytest.mark.parametrize("odd", [False, True])
def test_the_radius_of_tables_is_that_of_databases(rows: Any, columns: Any, odd: bool) -> None:
    """By Strassen's condition over all sets of tables, each distance the least over databases with those tables."""
    shape = (len(rows), len(columns))
    pi = random_cells(np.random.default_rng(6), shape, 0.3) if odd else None
    story = KnownMargins.of((rows, columns), pi, None)
    tables = story.tables(1000)
    assert tables is not None
    radius, sharp = record_radius(story, tables)
    assert sharp
    prior = np.full(shape, 1 / math.prod(shape)) if pi is None else pi
    listed = oracle.databases(rows, columns)
    weight = [math.prod(float(prior[record]) for record in database) for database in listed]
    kinds = sorted(oracle.tables(rows, columns))
    expected = 0
    for x, y in itertools.combinations(sorted({database[0] for database in listed}), 2):
        laws, nearest = [], {}
        for value in (x, y):
            law = [
                math.fsum(
                    w
                    for w, d in zip(weight, listed, strict=True)
                    if d[0] == value and oracle.table_of(d, shape) == kind
                )
                for kind in kinds
            ]
            laws.append([p / math.fsum(law) for p in law])
        for first, second in itertools.product(listed, listed):
            if first[0] == x and second[0] == y:
                key = kinds.index(oracle.table_of(first, shape)), kinds.index(oracle.table_of(second, shape))
                nearest[key] = min(nearest.get(key, 99), invariants.apart(first, second))
        need = next(
            k
            for k in range(1, 9)
            if invariants.coupled(*laws, lambda i, j, k=k, nearest=nearest: nearest.get((i, j), 99) <= k)
        )
        expected = max(expected, need)
    assert radius == expected


def test_bounds_of_long_lists_are_no_smaller() -> None:
    for pi in (None, random_cells(np.random.default_rng(1), (2, 2))):
        story = KnownMargins.of(([400, 500], [450, 450]), pi, None)
        assert record_radius(story, story.tables(10_000)) == (3, False)
    odd = KnownMargins.of(([60, 60, 60], [60, 60, 60]), random_cells(np.random.default_rng(1), (3, 3)), None)
    assert record_radius(odd, None) == (180, False)
    assert record_radius(KnownMargins.of(([60, 60, 60], [60, 60, 60]), None, None), None) == (3, False)


def test_no_reader_of_a_table_is_moved_beyond_the_bound() -> None:
    """8,000 pairs of prior and release: record by record, and between any two tables."""
    rng, epsilon = np.random.default_rng(12), 0.9
    noise, promise = adv.Geometric(epsilon / 2), adv.PureDP(epsilon)  # a record changes two cells by one each
    for rows, columns in SETS[:4]:
        shape = len(rows), len(columns)
        tables = cd.conforming_tables(rows, columns)
        assert tables is not None
        for concentration in (0.2, 1.0, 1.0, 5.0):
            pi = random_cells(rng, shape, concentration)
            noisy = tables[rng.integers(len(tables), size=500)] + rng.integers(-3, 4, (500, *shape))
            found = cd.table_posterior((rows, columns), noisy, noise, pi, guarantee=promise)
            moved = abs(found.log_odds_factor.where(found.given > 1e-12))
            assert float(moved.max()) <= float(found.odds_bound) + 1e-7
            log_law = noise.log_prob(noisy[:, None], tables).sum((-2, -1))
            far = np.abs(tables[:, None] - tables).sum((-2, -1)) // 2
            ratio = log_law[:, :, None] - log_law[:, None]
            bound = np.vectorize(lambda k: promise.group(int(k)).loss_bound(0.0) if k else 0.0)(far)
            assert (np.abs(ratio) <= bound + 1e-9).all()


def test_no_reader_of_databases_is_moved_beyond_the_bound() -> None:
    """Thousands of priors, each with every release of randomised response: posteriors against the two-point cap."""
    rng, epsilon = np.random.default_rng(3), 1.0
    listed = [(1, 1, 0), (1, 0, 1), (0, 1, 1)]
    noise = adv.RandomizedResponse(epsilon)
    every = adv.literature.record_log_likelihood(noise, CUBE, JointDistribution.listed(listed, np.full(3, 1 / 3)))
    law = np.exp([[one[database] for database in listed] for one in every])  # (release, database)
    prior = rng.dirichlet(np.full(3, 0.4), size=4000)
    joint = prior[:, None] * law
    posterior = joint / joint.sum(-1, keepdims=True)
    lower, upper = adv.PureDP(epsilon).group(2).posterior_bounds(prior[:, None])
    assert (posterior <= upper + 1e-12).all()
    assert (posterior >= lower - 1e-12).all()
    _, naive = adv.PureDP(epsilon).posterior_bounds(prior[:, None])
    assert (posterior > naive + 1e-6).any(axis=(1, 2)).mean() > 0.9


def test_no_record_is_moved_beyond_its_radius() -> None:
    rng, noise, promise = np.random.default_rng(5), adv.RandomizedResponse(1.0, 4), adv.PureDP(1.0)
    listed = [tuple(2 * a + b for a, b in database) for database in oracle.databases([2, 1], [2, 1])]
    answers = list(itertools.product(range(4), repeat=3))
    for concentration in (0.1, 0.5, 1.0, 1.0, 10.0):
        prior = rng.dirichlet(np.full(len(listed), concentration))
        known = JointDistribution.listed(listed, prior)
        odds = adv.literature.record_odds(known, adv.literature.record_log_likelihood(noise, answers, known), promise)
        assert (abs(odds.log_odds_factor).max("release") <= odds.bound + 1e-7).all()
        np.testing.assert_array_equal(odds.bound, odds.radius)
        x, y = 0, 3
        laws = [[p * (d[0] == v) for p, d in zip(prior, listed, strict=True)] for v in (x, y)]
        laws = [[p / math.fsum(one) for p in one] for one in laws]
        assert int(odds.radius.sel(value=x, other=y)) == invariants.coupling_radius(listed, *laws)


# databases


def test_learning_twice_is_learning_from_both() -> None:
    prior = np.random.default_rng(2).dirichlet(np.ones(8))
    known = JointDistribution.listed(CUBE, prior).given(lambda database: sum(database) == 2)
    law = adv.literature.record_log_likelihood(adv.RandomizedResponse(0.7), [[0, 1, 1], [1, 1, 0]], known)
    again, both = known.after(law[0]).after(law[1]), known.after(law.sum(0))
    np.testing.assert_allclose(again.array, both.array, rtol=1e-12)
    joint = known.array * np.exp(law.sum(0))
    np.testing.assert_allclose(both.array, joint / joint.sum(), rtol=1e-12)


def test_a_record_is_summed_over_databases() -> None:
    prior = np.random.default_rng(3).dirichlet(np.ones(8))
    law = JointDistribution.listed(CUBE, prior)
    known = law.given(lambda database: sum(database) == 2)
    in_second = np.array([database[1] == 1 for database in CUBE])
    two = np.array([sum(database) == 2 for database in CUBE])
    assert law.mass({"record 1": 1}) == pytest.approx(prior[in_second].sum())
    assert known.mass({"record 1": 1}) == pytest.approx(prior[in_second & two].sum() / prior[two].sum())
    np.testing.assert_allclose(known.after(np.zeros((2, 2, 2))).array, known.array, rtol=1e-12)


# refusals


@pytest.mark.parametrize(
    ("prior", "databases", "total", "reason"),
    [
        ([0.5, 0.5], [(0, 1), (1, 0)], 5, "event must be possible to be given"),
        ([1.0, 0.0], [(0, 1), (1, 1)], 2, "event must be possible to be given"),
        ([0.5, 0.4], [(0, 1), (1, 0)], 1, "probability must sum to 1"),
        ([1.0], [(0, 1), (1, 0)], 1, "one number per database"),
        ([1.5, -0.5], [(0, 1), (1, 0)], 1, "probability must be non-negative"),
        ([0.5, 0.5], [(0, 1), (0, 1)], 1, "listed twice"),
        ([0.5, 0.5], [(0, 1), (1,)], 1, "same number of records"),
        ([1.0], [tuple(range(9))], 36, "9 records of 9 values are too many"),
    ],
)
def test_contradictions_are_refused(prior: Any, databases: Any, total: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        JointDistribution.listed(databases, prior).given(lambda database: sum(database) == total)


def test_impossible_releases_are_refused() -> None:
    known = JointDistribution.listed([(0, 1), (1, 1)], [0.5, 0.5]).given({"record 0": 0})
    with pytest.raises(ValueError, match="impossible under every database"):
        known.after([[0.0, -math.inf], [0.0, 0.0]])
    with pytest.raises(ValueError, match="impossible under every database"):
        adv.literature.record_odds(known, [[0.0, -math.inf], [0.0, 0.0]], adv.PureDP(1.0))
    with pytest.raises(ValueError, match="log_likelihood must have the distribution's shape"):
        known.after([0.0])
    with pytest.raises(ValueError, match="log_likelihood must be finite or -inf"):
        known.after([[0.0, math.nan], [0.0, 0.0]])
    with pytest.raises(ValueError, match="one number per record"):
        adv.literature.record_log_likelihood(adv.RandomizedResponse(1.0), [0, 1, 1], known)
    with pytest.raises(ValueError, match="position must be one of the 2 records"):
        adv.literature.record_odds(known, np.zeros((2, 2)), adv.PureDP(1.0), 2)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "reason"),
    [
        ((([2, 1], [2, 2]),), {}, ValueError, "agree on the number of records"),
        ((([2, 1], [2, 1]), [[1, 1], [1, np.nan]], adv.Laplace(1.0)), {}, ValueError, "released must be finite"),
        ((([2, 1], [2, 1]), [[0, 3], [1, 0]], adv.Exact()), {}, ValueError, "can have led to release 0"),
        ((([2, 1], [2, 1]),), {"prior": [[0.5, 0.5], [0.5, 0.5]]}, ValueError, "must add up to 1"),
        ((([2, 1], [2, 1]),), {"known": [[3, 0], [0, 0]]}, ValueError, "more records of row 0 than its margin"),
        ((([2, 1], [2, 1]),), {"known": [[2, 0], [0, 1]]}, ValueError, "known holds every record"),
    ],
)
def test_tables_that_cannot_be_are_refused(arguments: Any, options: Any, error: Any, reason: str) -> None:
    with pytest.raises(error, match=reason):
        cd.table_posterior(*arguments, **options)


def test_a_table_settled_by_its_margins_is_known() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cd.table_posterior(([4], [1, 3]), [[0, 7]], adv.Geometric(0.1), guarantee=adv.PureDP(0.2))
    np.testing.assert_allclose(found["mean"], [[1, 3]])
    assert (float(found.radius), found.attrs["tables"]) == (2, 1)
