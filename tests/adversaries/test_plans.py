"""Plans, and the releases made from them: schema, story, and everything that is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import scipy.stats
import xarray as xr

import adversary as adv
from adversary.census.spine import Poisson, Tree, posterior
from adversary.models.noise import released
from tests.catalogue import DG, STORIES
from tests.tables import refusals

PLAN = adv.Plan([adv.Level("block", DG(0.4), siblings=3), adv.Level("tract", DG(0.6))])
TOP = adv.Level("tract", DG(0.6))
PAIR = adv.Plan([adv.Level("block", DG(0.4), siblings=1), adv.Level("tract", DG(0.6))], cells=2)
SAME = adv.Plan([adv.Level("block", DG(0.4), siblings=0), adv.Level("tract", adv.Gaussian(2.0))])


@pytest.mark.parametrize("name", STORIES)
def test_releases_have_the_known_schema(name: str) -> None:
    plan, _, truth = STORIES[name]
    counts = {k: v for k, v in truth.items() if k != "in"}
    for draws, dims in ((None, ()), (5, ("release",))):
        release = plan.release(counts, rng=1, draws=draws)
        expected = (*dims, "level") if plan.cells == 1 else (*dims, "level", "cell")
        for variable in ("noisy", "sibling_sum"):
            assert release[variable].dims == expected
            assert release[variable].dtype == np.float64
        assert tuple(release["level"].values) == plan.names
        published = [bool(level.siblings) and plan.postprocessing is None for level in plan.levels]
        missing = release["sibling_sum"].isnull().any([d for d in expected if d != "level"])
        np.testing.assert_array_equal(missing, ~np.array(published))
        assert not release["noisy"].isnull().any()


@pytest.mark.parametrize("name", STORIES)
def test_releases_are_reproducible(name: str) -> None:
    plan, _, truth = STORIES[name]
    counts = {k: v for k, v in truth.items() if k != "in"}
    xr.testing.assert_identical(plan.release(counts, 7, 20), plan.release(counts, 7, 20))
    generator = np.random.default_rng(7)
    xr.testing.assert_identical(plan.release(counts, generator, 20), plan.release(counts, 7, 20))


def test_noise_and_sibling_sums_follow_their_laws() -> None:
    release = PLAN.release({"block": 2, "tract": 7}, rng=2020, draws=20_000)
    for variable, level, noise, value in (
        ("noisy", "block", DG(0.4), 2),
        ("noisy", "tract", DG(0.6), 7),
        ("sibling_sum", "block", DG(0.4).total(3), 5),
    ):
        seen = release[variable].sel(level=level).values
        support = noise.support(value)
        expected = 20_000 * np.exp(noise.log_prob(support, value))
        kept = expected > 10
        counts = np.array([(seen == k).sum() for k in support[kept]])
        expected = expected[kept] * counts.sum() / expected[kept].sum()
        assert scipy.stats.chisquare(counts, expected).pvalue > 1e-3


def test_observing_keeps_values_and_names() -> None:
    release = PLAN.observe({"tract": 5, "block": 2}, sibling_sum={"block": -1})
    assert release["noisy"].dims == ("level",)
    assert release["noisy"].values.tolist() == [2.0, 5.0]
    assert release["sibling_sum"].values[0] == -1.0
    assert math.isnan(release["sibling_sum"].values[1])
    many = PLAN.observe({"block": [1, 2, 3], "tract": 5}, sibling_sum={"block": [0, 0, 1]})
    assert many["noisy"].dims == ("release", "level")
    assert many["noisy"].values.tolist() == [[1, 5], [2, 5], [3, 5]]


def test_siblings_releases_are_added_up() -> None:
    one = PLAN.observe({"block": 2, "tract": 5}, siblings={"block": [1, 0, -2]})
    xr.testing.assert_identical(
        one.drop_vars("siblings"), PLAN.observe({"block": 2, "tract": 5}, sibling_sum={"block": -1})
    )
    many = PLAN.observe({"block": [2, 3], "tract": [5, 5]}, siblings={"block": [[1, 0, -2], [1, 1, 1]]})
    assert many["sibling_sum"].sel(level="block").values.tolist() == [-1.0, 3.0]


def test_two_cells_have_a_last_axis() -> None:
    release = PAIR.observe({"block": [1, 0], "tract": [2, 2]}, sibling_sum={"block": [1, 1]})
    assert release["noisy"].dims == ("level", "cell")
    assert release["noisy"].values.tolist() == [[1, 0], [2, 2]]
    many = PAIR.observe({"block": [[1, 0], [2, 0]], "tract": [[2, 2], [2, 3]]}, sibling_sum={"block": [[1, 1], [0, 0]]})
    assert many["noisy"].shape == (2, 2, 2)


def test_observed_names_the_released_variables() -> None:
    one = adv.observed(PLAN.observe({"block": 2, "tract": 5}, sibling_sum={"block": -1}))
    assert {name: np.asarray(value).tolist() for name, value in one.items()} == {
        "noisy[block]": 2.0,
        "sibling_sum[block]": -1.0,
        "noisy[tract]": 5.0,
    }
    many = adv.observed(PAIR.release({"block": [1, 0], "tract": [1, 1]}, rng=3, draws=4))
    assert {name: value.shape for name, value in many.items()} == {
        "noisy[block]": (4, 2),
        "sibling_sum[block]": (4, 2),
        "noisy[tract]": (4, 2),
    }
    assert set(adv.observed(SAME.release({"block": 1, "tract": 1}, rng=3))) == {"noisy[block]", "noisy[tract]"}


def test_worst_pair_of_a_plan() -> None:
    """Every person moves every level's count by one, in every cell; invariants are left out."""
    assert PLAN.privacy_loss().renyi(2.0) == pytest.approx(2 * 1.0, rel=1e-9)
    assert PLAN.privacy_loss(2).renyi(2.0) == pytest.approx(2 * 4.0, rel=1e-9)
    assert PAIR.privacy_loss().renyi(2.0) == pytest.approx(2 * 2.0, rel=1e-9)
    invariant = adv.Plan([adv.Level("block", DG(0.4), siblings=3), adv.Level("tract", adv.Exact())])
    assert invariant.privacy_loss().renyi(2.0) == pytest.approx(0.8, rel=1e-9)


def test_plans_are_values() -> None:
    rho = Fraction(64, 25)
    one, other = (adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(rho))]) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one.names == ("block",)
    assert isinstance(one.levels, tuple)


test_bad_input_is_refused_with_name_rule_and_value = refusals(
    (lambda: adv.Plan([TOP, TOP]), "names must differ.*tract"),
    (lambda: adv.Plan([adv.Level("block", DG(1.0)), TOP]), "'block': siblings is required below the top level"),
    (lambda: adv.Plan([adv.Level("tract", DG(1.0), siblings=2)]), "'tract' is the top: siblings"),
    (lambda: adv.Plan([TOP], cells=3), "cells must be 1 or 2.*got 3"),
    (lambda: PLAN.release({"block": 1, "county": 2}), "truth: unknown level 'county'"),
    (lambda: PLAN.release({"block": 3, "tract": 2}), r"'tract' holds level 'block'.*2 < 3"),
    (lambda: PLAN.release({"block": 1, "tract": 2}, draws=0), "draws must be at least 1, got 0"),
    (lambda: SAME.release({"block": 1, "tract": 2}), "'block' has no siblings"),
    (lambda: PLAN.observe({"block": 1, "tract": 2}), "sibling_sum: no value for level 'block'"),
    (
        lambda: PLAN.observe({"block": 1, "tract": 2}, {"block": 1, "tract": 1}),
        "sibling_sum: level 'tract' has no siblings",
    ),
    (
        lambda: PLAN.observe({"block": math.nan, "tract": 2}, {"block": 1}),
        "noisy of level 'block' must be a whole number.*nan",
    ),
    (lambda: PLAN.observe({"block": [1, 2], "tract": [1, 2, 3]}, {"block": 1}), "releases must have one length"),
)


@pytest.mark.parametrize(
    ("release", "kind", "message"),
    [
        ({"noisy": 1}, TypeError, "release must be a Dataset"),
        (xr.Dataset({"noisy": ("level", [1.0, 2.0])}), TypeError, "release must be a Dataset with variables"),
        (
            SAME.observe({"block": 1, "tract": 2.0}).assign_coords(level=["a", "b"]),
            ValueError,
            "release has levels a, b, the plan has",
        ),
        (PAIR.release({"block": [1, 0], "tract": [1, 1]}, rng=1), ValueError, "release has 2 cells, the plan has 1"),
    ],
)
def test_foreign_releases_are_refused(release: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        adv.Adversary(beliefs={"tract": adv.Uniform()}).posterior(PLAN, release)


@pytest.mark.parametrize("value", [[], "1", True, None, [1, "x"]])
def test_what_is_no_number_is_no_release(value: object) -> None:
    with pytest.raises((TypeError, ValueError), match="noisy of level 'block'"):
        PLAN.observe({"block": value, "tract": 5}, {"block": 1})


Described = Enum("Described", ["GEOMETRIC", "DISCRETE_GAUSSIAN", "EXPONENTIAL", "LAPLACE", "GAUSSIAN", "SUM"])
"""As Tumult names its mechanisms."""


@pytest.mark.parametrize(
    ("row", "noise"),
    [
        ({"column": "len", "distribution": "Integer Laplace", "scale": 2.0}, adv.Geometric(0.5)),
        ({"column": "len", "distribution": "Integer Gaussian", "scale": 3.0}, adv.DiscreteGaussian(3.0)),
        ({"column": "sum", "distribution": "Float Laplace", "scale": 2.0}, adv.Laplace(2.0)),
        ({"noise_mechanism": Described.GEOMETRIC, "noise_parameter": 4.0}, adv.Geometric(0.25)),
        ({"noise_mechanism": Described.DISCRETE_GAUSSIAN, "noise_parameter": 9.0}, adv.DiscreteGaussian(3.0)),
        ({"noise_mechanism": Described.GAUSSIAN, "noise_parameter": 9.0}, adv.Gaussian(3.0)),
        ({"noise_kind": "GAUSSIAN", "noise_std": 3.0}, adv.Gaussian(3.0)),
        ({"noise_kind": Described.GAUSSIAN, "std_noise": 3.0, "sum": 5.0}, adv.Gaussian(3.0)),
        ({"noise_kind": Described.LAPLACE, "noise_std": 2.0 * math.sqrt(2.0)}, adv.Laplace(2.0)),
    ],
)
def test_noise_that_other_libraries_describe_becomes_a_level(row: dict[str, Any], noise: adv.Mechanism) -> None:
    (level,) = adv.levels_of_noise([row], ["block"])
    assert (level.name, level.siblings) == ("block", None)
    assert type(level.mechanism) is type(noise)
    assert level.mechanism.variance == pytest.approx(noise.variance, rel=1e-12)
    two = adv.Plan(adv.levels_of_noise([row, row], ["block", "tract"], [3]))
    assert [one.siblings for one in two.levels] == [3, None]


SUMMARY = [
    {"column": "hours", "aggregate": "Count", "distribution": "Integer Laplace", "scale": 2.0, "threshold": None},
    {"column": "len", "aggregate": "Length", "distribution": "Integer Laplace", "scale": 0.0, "threshold": None},
    {"column": "A", "aggregate": "Len", "distribution": None, "scale": None, "threshold": None},
    {"column": "len", "aggregate": "Len", "distribution": "Integer Laplace", "scale": 8.0, "threshold": 130},
]
"""Rows that OpenDP's `summarize()` gives: noise, two public numbers, and keys that are left out."""


class Polars:
    """As a data frame of Polars."""

    def to_dicts(self) -> list[dict[str, Any]]:
        return SUMMARY


@pytest.mark.parametrize("rows", [SUMMARY, pd.DataFrame(SUMMARY), Polars()], ids=["rows", "pandas", "Polars"])
def test_a_summary_of_opendp_is_read_whatever_holds_it(rows: Any) -> None:
    noisy, public, null, keys = (level.mechanism for level in adv.levels_of_noise(rows))
    assert noisy == adv.Geometric(0.5)
    assert public == null == adv.Exact()
    assert keys == adv.postprocessing.selected(adv.Geometric(0.125), 130, strict=True)
    delta = np.exp(-130 / 8) / (1 + np.exp(-1 / 8))  # noise > 129
    assert keys.privacy_loss().delta(5.0) == pytest.approx(delta, rel=1e-9)
    assert keys.log_prob(130, 140) == pytest.approx(np.log(adv.Geometric(0.125).cdf(130, 140)), rel=1e-12)


def test_a_threshold_of_real_numbers_leaves_out_those_below() -> None:
    row = {"distribution": "Float Laplace", "scale": 2.0, "threshold": 10.0}
    assert adv.levels_of_noise([row])[0].mechanism == adv.postprocessing.selected(adv.Laplace(2.0), 10)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "a row for each level.* got 0 rows"),
        ([{"column": "len", "scale": 1.0}], "row 1: must have distribution and scale; noise_mechanism"),
        ([{"noise_mechanism": Described.EXPONENTIAL, "noise_parameter": 1.0}], "row 1: noise_mechanism must be one of"),
        ([{"noise_kind": "GAUSSIAN", "noise_std": 0.0}], "row 1: noise_std must be positive"),
        (["distribution", "scale"], "row 1: must be a dictionary such as .* got 'distribution'"),
        ([{"distribution": None, "scale": 2.0}], "row 1: distribution must be one of"),
        ([SUMMARY[0] | {"aggregate": "Sum"}], r"row 1: must be a count, .* got aggregate 'Sum'.*contribution=40000"),
        (
            [{"aggregation": Described.SUM, "noise_kind": "GAUSSIAN", "std_noise": 1.0}],
            "row 1: must be a count, .*'SUM'",
        ),
    ],
)
def test_noise_that_is_no_level_is_refused(rows: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        adv.levels_of_noise(rows)


# Labels


def _series(values: Any, names: str) -> pd.Series:
    return pd.Series(values, list(names))


def _over(dim: str) -> Callable[[Any, str], xr.DataArray]:
    return lambda values, names: xr.DataArray(values, dims=dim, coords={dim: list(names)})


MAKERS = {"pandas": _series, "a dimension of any name": _over("area"), "the dimension release": _over("release")}


@pytest.mark.parametrize("name", MAKERS)
def test_published_numbers_are_paired_by_label(name: str) -> None:
    make = MAKERS[name]
    reader = adv.Adversary(0.3, known=1, beliefs={"tract": adv.Others([0.25, 0.25, 0.5])})
    one = [PLAN.observe({"block": b, "tract": t}, {"block": s}) for b, t, s in ((2, 3, 1), (1, 2, 4))]
    wanted = [float(reader.posterior(PLAN, release)["posterior"]) for release in one]
    for order in ("pq", "qp"):
        tract = make([{"p": 3, "q": 2}[area] for area in order], order)
        release = PLAN.observe({"block": make([2, 1], "pq"), "tract": tract}, {"block": make([1, 4], "pq")})
        assert release["release"].values.tolist() == ["p", "q"]
        found = reader.posterior(PLAN, release)["posterior"]
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
        assert found["release"].values.tolist() == ["p", "q"]


def test_released_siblings_and_single_numbers_go_along() -> None:
    each = pd.DataFrame([[1, 2, 0], [3, 4, 5]], ["q", "p"])
    release = PLAN.observe({"block": _series([2, 1], "pq"), "tract": 7}, siblings={"block": each})
    assert release["noisy"].values.tolist() == [[2.0, 7.0], [1.0, 7.0]]
    assert release["siblings"].sel(level="block").values.tolist() == [[3.0, 4.0, 5.0], [1.0, 2.0, 0.0]]
    turned = xr.DataArray(each.to_numpy().T, dims=("sibling", "area"), coords={"area": ["q", "p"]})
    again = PLAN.observe({"block": _over("area")([2, 1], "pq"), "tract": 7}, siblings={"block": turned})
    assert again.equals(release)
    single = PLAN.observe({"block": 2, "tract": 7}, siblings={"block": _series([1, 2, 0], "xyz")})
    assert single["siblings"].sel(level="block").values.tolist() == [1.0, 2.0, 0.0]


@pytest.mark.parametrize("labels", [None, [0, 1], [1, 0], ["own", "other"]])
def test_cells_go_by_the_name_of_their_axis_and_by_their_labels(labels: Any) -> None:
    plan = adv.Plan([adv.Level("b", adv.Geometric(1.0), siblings=0), adv.Level("g", adv.Geometric(1.0))], cells=2)
    plain = np.array([[5, 0], [1, 2]])
    own = plain if labels != [1, 0] else plain[:, ::-1]
    coords = {} if labels is None else {"cell": labels}
    given = xr.DataArray(own, dims=("release", "cell"), coords=coords)
    for turned in (given, given.transpose()):
        release = plan.observe({"b": turned, "g": given[:, ::-1] if labels else given})
        np.testing.assert_array_equal(release["noisy"].sel(level="b"), plain)
        np.testing.assert_array_equal(release["noisy"].sel(level="g"), plain)
    if labels:
        frame, cell = pd.DataFrame(own, columns=labels), pd.Series(own[0], labels)
        np.testing.assert_array_equal(plan.observe({"b": frame, "g": frame.iloc[:, ::-1]})["noisy"][:, 1], plain)
        assert plan.counts({"b": cell, "g": cell[::-1]}).tolist() == [[5, 0], [5, 0]]


def test_siblings_of_a_truth_have_the_cells_of_its_levels() -> None:
    truth = {"block": _series([5, 0], "uv"), "tract": _series([3, 9], "vu")}
    each = pd.DataFrame([[4, 3]], columns=["u", "v"])
    wanted = PAIR.sibling_counts({"block": [5, 0], "tract": [9, 3], "siblings": {"block": [[4, 3]]}})["block"]
    for given in (each, each[["v", "u"]]):
        found = PAIR.sibling_counts({**truth, "siblings": {"block": given}})["block"]
        np.testing.assert_array_equal(found, wanted)


def test_an_index_of_several_levels_labels_releases() -> None:
    index = pd.MultiIndex.from_tuples([("x", 1), ("y", 2)], names=["county", "level"])
    release = PLAN.observe({"block": pd.Series([2, 1], index), "tract": 5}, {"block": pd.Series([1, 4], index[::-1])})
    assert release["release"].values.tolist() == ["x, 1", "y, 2"]
    assert release["sibling_sum"].sel(level="block").values.tolist() == [4.0, 1.0]


def _labelled(block: Any, tract: Any, plan: adv.Plan = PLAN) -> Callable[[], Any]:
    return lambda: plan.observe({"block": block, "tract": tract}, {"block": 0})


test_labels_that_do_not_go_together_are_refused = refusals(
    (_labelled(_series([2, 1], "pq"), [2, 3]), "noisy of level 'tract' is an array of shape .* without labels beside"),
    (_labelled(_series([2, 1], "pq"), _series([2, 3], "pr")), "same labels along a dimension: 'release' has 'p', 'q'"),
    (_labelled(_series([2, 1], "pp"), _series([2, 3], "pq")), "same labels along a dimension"),
    (_labelled(_series([2, 1], "pq"), _series([2, 3, 4], "pqr")), "same labels along a dimension"),
    (_labelled(_over("x")([2, 1], "pq"), _over("y")([2, 1], "pq")), "must lie along one dimension, got 'x' and.*'y'"),
    (_labelled(xr.DataArray([2, 1], dims="x"), xr.DataArray([2, 1], dims="y")), "must lie along one dimension"),
    (_labelled(xr.DataArray([[2, 1]], dims=("x", "y")), 3), "at most one of releases, got 'x', 'y'"),
    (_labelled(np.ma.array([2, 999], mask=[False, True]), [1, 2]), "'block' must have no masked entries, got 1"),
    (lambda: PAIR.observe({"block": xr.DataArray([1, 2], dims="x"), "tract": [3, 4]}), "one of releases, 'cell', got"),
    (lambda: PAIR.counts({"block": np.ma.array([1, 2], mask=[0, 1]), "tract": [3, 4]}), "no masked entries"),
    (lambda: PAIR.counts({"block": _series([1, 2], "uv"), "tract": [3, 4]}), "without labels beside"),
)


ROUNDED = np.float32(2**24 + 1)
SMALL = adv.Plan([adv.Level("block", adv.Geometric(1.0))])
SMALL_TABLES = [adv.PublishedTable("block", adv.Geometric(1.0))]


def enumerated(value: Any) -> Any:
    with pm.Model() as model:
        released("noisy", adv.Geometric(1.0), pm.Bernoulli("in", 0.5) + 2**24)
    return adv.enumerate_posterior(model, {"noisy": value})


@pytest.mark.parametrize(
    "read",
    [
        lambda count: SMALL.observe({"block": count}),
        lambda count: SMALL.observe({"block": xr.DataArray([count], dims="release")}),
        lambda count: adv.Adversary().posterior(SMALL, SMALL.observe({"block": 1}).assign(noisy=("level", [count]))),
        lambda count: adv.audit_tables(pd.DataFrame({"block": ["a"], "count": np.array([count])}), SMALL_TABLES),
        lambda count: posterior(Tree.of({"g": None, "a": "g"}), np.array([count, count]), 0.1, Poisson(2.0)),
        enumerated,
    ],
    ids=["observe", "labelled", "dataset", "table", "spine", "model"],
)
def test_counts_in_a_type_that_rounds_them_are_refused_wherever_they_come_in(read: Any) -> None:
    with pytest.raises(ValueError, match=r"must be below 2\^24 in size where it is float32"):
        read(ROUNDED)


def test_real_numbers_in_a_small_type_are_read_as_they_are() -> None:
    plan = adv.Plan([adv.Level("block", adv.Laplace(1.0))])
    assert plan.observe({"block": np.float32(2**25)})["noisy"].item() == 2**25
