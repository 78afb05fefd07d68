"""Labels of xarray and pandas: arguments are paired by them, and every answer keeps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import adversary as adv
from adversary import budget, decisions, regression
from adversary.bounded import BoundedRelease, NormalInverseGamma, posterior
from adversary.literature.joint_distribution import JointDistribution
from adversary.privacy.losses import interop

TOWNS = xr.DataArray([0.1, 0.45], dims="town", coords={"town": ["A", "B"], "state": "X"})
YEARS = xr.DataArray([0.02, 0.05, 0.01], dims="year", coords={"year": [2019, 2020, 2021]})
BELIEFS = xr.DataArray([0.2, 0.6, 0.4], dims="belief", coords={"belief": ["low", "high", "middle"]})
BUDGET = (0.4, 0.4)


def test_releases_are_paired_by_names_and_not_by_places() -> None:
    release = BoundedRelease(TOWNS, YEARS, 12, BUDGET)
    assert (release.shape, release.labels.dims) == ((2, 3), ("town", "year"))
    found = posterior(release).mean("mu")
    assert found.dims == ("town", "year")
    assert found.coords["state"] == "X"
    for town in ("A", "B"):
        for year in (2019, 2021):
            numbers = float(TOWNS.sel(town=town)), float(YEARS.sel(year=year))
            one = posterior(BoundedRelease(*numbers, 12, BUDGET))
            assert float(found.sel(town=town, year=year)) == pytest.approx(one.mean("mu"), rel=1e-12)


def test_the_order_of_dimensions_does_not_matter() -> None:
    grid = TOWNS + 0.0 * YEARS
    one = posterior(BoundedRelease(grid, YEARS, 12, BUDGET)).hdi("sigma")
    other = posterior(BoundedRelease(grid.transpose("year", "town"), YEARS, 12, BUDGET)).hdi("sigma")
    xr.testing.assert_allclose(one, other.transpose(*one.dims), rtol=1e-12)


def test_budgets_and_sizes_may_have_labels_too() -> None:
    sizes = xr.DataArray([12, 40], dims="town", coords={"town": ["A", "B"]})
    budgets = xr.DataArray([0.2, 0.9], dims="epsilon", coords={"epsilon": [0.2, 0.9]})
    found = posterior(BoundedRelease(0.3, 0.05, sizes, (budgets, 0.4))).sd("mu")
    assert dict(found.sizes) == {"town": 2, "epsilon": 2}
    one = posterior(BoundedRelease(0.3, 0.05, 40, (0.9, 0.4))).sd("mu")
    assert float(found.sel(town="B", epsilon=0.9)) == pytest.approx(one, rel=1e-12)


def test_priors_with_labels_are_asked_of_every_release() -> None:
    prior = NormalInverseGamma(BELIEFS, 2.0, 3.0, 0.1)
    found = posterior(BoundedRelease(TOWNS, 0.02, 12, BUDGET), prior)
    assert found.mean("mu").dims == ("town", "belief")
    one = posterior(BoundedRelease(0.45, 0.02, 12, BUDGET), NormalInverseGamma(0.6, 2.0, 3.0, 0.1))
    at: dict[str, Any] = {"town": "B", "belief": "high"}
    assert float(found.mean("mu").sel(at)) == pytest.approx(one.mean("mu"), rel=1e-12)
    assert float(found.log_evidence.sel(at)) == pytest.approx(one.log_evidence, rel=1e-12)
    assert float(found.predictive().sd.sel(at)) == pytest.approx(one.predictive().sd, rel=1e-12)
    alone = posterior(BoundedRelease(0.45, 0.02, 12, BUDGET), prior)
    assert alone.mean("mu").dims == ("belief",)


@pytest.mark.parametrize("constrained", [True, False])
def test_every_answer_has_labels(constrained: bool) -> None:
    found = posterior(BoundedRelease(TOWNS, 0.05, 12, BUDGET), constrained=constrained)
    new = found.predictive()
    for answer in (found.mean("mu"), found.sd("sigma"), found.mode("sigma2"), found.infeasible, found.log_evidence,
                   found.quadrature_error, found.max_variance, new.mean, new.sd, new.below, new.above,
                   new.outside):  # fmt: skip
        assert answer.dims == ("town",)
        assert answer.coords["town"].values.tolist() == ["A", "B"]
    for interval in (found.hdi("mu"), found.eti("sigma")):
        assert interval.dims == ("town", "ci_bound")
        assert (interval.sel(ci_bound="lower") < interval.sel(ci_bound="upper")).all()
    at = xr.DataArray([0.2, 0.4], dims="at", coords={"at": ["first", "second"]})
    assert found.quantile("mu", [0.1, 0.9]).coords["quantile"].values.tolist() == [0.1, 0.9]
    assert found.cdf("mu", at).coords["at"].values.tolist() == ["first", "second"]
    assert found.density("mu", [0.1, 0.2]).dims == ("town", "mu_grid")
    assert found.density("mu", 0.3).dims == ("town",)
    assert found.expect(lambda mu, v: np.stack([mu + 0.0 * v, v + 0.0 * mu])).dims == ("town", "value_0")
    plain = posterior(BoundedRelease([0.1, 0.45], 0.05, 12, BUDGET), constrained=constrained)
    np.testing.assert_array_equal(found.cdf("mu", at).values, plain.cdf("mu", [0.2, 0.4]))


def test_labels_of_the_argument_alone_are_kept_too() -> None:
    at = xr.DataArray([0.2, 0.4], dims="at", coords={"at": ["first", "second"]})
    one = posterior(BoundedRelease(0.3, 0.05, 12, BUDGET)).density("mu", at)
    many = posterior(BoundedRelease([0.3, 0.4], 0.05, 12, BUDGET)).density("mu", at)
    assert (one.dims, many.dims) == (("at",), ("release_0", "at"))
    np.testing.assert_array_equal(many.isel(release_0=0), one)


def test_labels_are_in_the_file_too() -> None:
    tree = posterior(BoundedRelease(TOWNS, 0.05, 12, BUDGET)).to_xarray()
    assert tree["summary"]["mu"].sel(town="B", measure="mean") > tree["summary"]["mu"].sel(town="A", measure="mean")
    assert tree["density"]["mu"].dims == ("town", "mu_grid")
    assert float(tree["release"]["mean"].sel(town="B")) == 0.45


def test_data_with_labels_are_released_with_those_of_the_data_sets() -> None:
    people = xr.DataArray(
        np.random.default_rng(1).random((2, 5)),
        dims=("town", "person"),
        coords={"town": ["A", "B"], "person": range(5)},
    )
    release = BoundedRelease.of(people, BUDGET, rng=1)
    assert release.labels.dims == ("town",)
    assert set(release.labels.coords) == {"town"}
    plain = BoundedRelease.of(people.values, BUDGET, rng=1)
    np.testing.assert_array_equal(release.mean, plain.mean)
    np.testing.assert_array_equal(release.variance, plain.variance)


def test_a_scalar_with_coordinates_is_a_number() -> None:
    found = posterior(BoundedRelease(TOWNS.sel(town="A"), 0.05, 12, BUDGET))
    assert isinstance(found.mean("mu"), float)


@pytest.mark.parametrize(
    ("release", "prior", "message"),
    [
        ((TOWNS, [0.1, 0.2]), None, r"variance is an array of shape \(2,\) without labels beside mean"),
        ((TOWNS, TOWNS.assign_coords(town=["A", "C"])), None, "mean, variance must have the same labels"),
        ((TOWNS, 0.1), [0.1, 0.2], r"mu0 is an array of shape \(2,\) without labels beside mean"),
        (([0.1, 0.2], 0.1), BELIEFS, r"mean is an array of shape \(2,\) without labels beside mu0"),
        (([0.1, 0.2], 0.1), [0.1, 0.2, 0.3], r"got shapes release \(2,\), prior \(3,\)"),
        (([0.1, 0.2], [0.1, 0.2, 0.3]), None, r"got shapes mean \(2,\), variance \(3,\)"),
    ],
)
def test_what_cannot_be_paired_is_refused(release: tuple[Any, Any], prior: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        posterior(
            BoundedRelease(*release, 12, BUDGET), "flat" if prior is None else NormalInverseGamma(prior, 1.0, 1.0, 0.1)
        )


def test_a_dimension_of_the_releases_cannot_be_one_of_the_argument() -> None:
    found = posterior(BoundedRelease(TOWNS, 0.05, 12, BUDGET))
    with pytest.raises(ValueError, match="dimension 'town' is one of the releases and of the argument"):
        found.density("mu", TOWNS)


# One rule for every argument


def _series(*values: Any, of: Any = ("a", "b", "c")) -> pd.Series:
    return pd.Series(list(values), list(of)[: len(values)])


def _array(*values: Any, of: Any = ("a", "b", "c")) -> xr.DataArray:
    return xr.DataArray(list(values), dims="o", coords={"o": list(of)[: len(values)]})


BOTH = pytest.mark.parametrize("make", [_series, _array], ids=["pandas", "xarray"])
P, Q = (0.5, 0.3, 0.2), (0.2, 0.6, 0.2)
POINTS = (0.9, 0.6, 0.8), (0.5, 0.7, 0.3)

PAIRED: dict[str, tuple[Callable[[Any, Any], Any], tuple[float, ...], tuple[float, ...]]] = {
    "loss from probabilities": (lambda p, q: adv.LatticeLoss.from_probs(p, q).delta(0.1), P, Q),
    "loss from log probabilities": (
        lambda p, q: adv.LatticeLoss.from_log_probs(np.log(p), np.log(q)).delta(0.1), P, Q,
    ),
    "loss from a trade-off": (lambda a, t: interop.from_trade_off(a, t).delta(0.1), (0.0, 0.4, 1.0), (0.1, 0.8, 1.0)),
    "epsilon of an attack": (decisions.epsilon_lower_bound, *POINTS),
    "epsilon of counts": (
        lambda hits, alarms: decisions.epsilon_lower_bound_from_counts(hits, 100, alarms, 100),
        (90, 20, 50), (60, 2, 40),
    ),
    "precision": (adv.PureDP(1.0).precision, *POINTS),
    "posterior bounds": (lambda prior, failure: adv.GaussianDP(1.0).posterior_bounds(prior, failure)[1], P, Q),
    "f-score": (decisions.f_score, *POINTS),
    "noise": (adv.Geometric(1.0).log_prob, (1, 2, 3), (0, 4, 2)),
    "risk profile": (budget.RiskProfile.ratio_or_absolute(2.0, 0.1), P, Q),
    "participation": (budget.participation_bound, P, Q),
    "perturbation table": (
        lambda release, probs: adv.PerturbationTable.from_columns(_like(release, 0, 1, 1), release, probs).variance,
        (0, 0, 2), (1.0, 0.25, 0.75),
    ),
    "regression": (lambda x, y: regression.statistics(x, y).sums, P, Q),
    "databases": (
        lambda rows, probs: JointDistribution.listed(_rows(rows), probs).mass({"record 0": 0.9}), POINTS[0], P,
    ),
}  # fmt: skip
"""What pairs two lists: alike in value whatever order their labels have."""


def _like(x: Any, *values: Any) -> Any:
    return x.copy(data=list(values)) if isinstance(x, xr.DataArray) else pd.Series(values, getattr(x, "index", None))


def _rows(x: Any) -> Any:
    if isinstance(x, xr.DataArray):
        return xr.concat([x, x], "record").transpose("o", "record")
    return pd.DataFrame({"first": x, "second": x}) if isinstance(x, pd.Series) else [(v, v) for v in x]


@BOTH
@pytest.mark.parametrize("name", PAIRED)
def test_lists_are_paired_by_their_labels_in_any_order(name: str, make: Any) -> None:
    function, one, other = PAIRED[name]
    wanted = np.asarray(function(*map(np.asarray, (one, other))), dtype=float)
    for order in ([0, 1, 2], [2, 0, 1]):
        moved = make(*(other[i] for i in order), of=[("a", "b", "c")[i] for i in order])
        np.testing.assert_allclose(np.asarray(function(make(*one), moved), dtype=float), wanted, rtol=1e-13)


@BOTH
@pytest.mark.parametrize("name", PAIRED)
def test_other_labels_and_lists_without_any_are_refused(name: str, make: Any) -> None:
    function, one, other = PAIRED[name]
    with pytest.raises(ValueError, match="must have the same labels along a dimension"):
        function(make(*one), make(*other, of=("a", "b", "d")))
    with pytest.raises(ValueError, match="without labels beside"):
        function(make(*one), list(other))


@pytest.mark.parametrize("name", PAIRED)
def test_masked_entries_are_refused(name: str) -> None:
    function, one, other = PAIRED[name]
    bare = np.ma.array(one, mask=False)
    np.testing.assert_array_equal(function(bare, np.asarray(other)), function(np.asarray(one), np.asarray(other)))
    with pytest.raises(ValueError, match="must have no masked entries, got 1"):
        function(np.asarray(one), np.ma.array(other, mask=[False, True, False]))


def test_the_index_that_pandas_gives_by_default_only_counts() -> None:
    p, q = pd.Series([0.7, 0.3]), [0.6, 0.4]
    assert adv.LatticeLoss.from_probs(p, q).delta(0.0) == adv.LatticeLoss.from_probs([0.7, 0.3], q).delta(0.0)
    assert isinstance(adv.PureDP(1.0).delta(pd.Series([0.1, 0.2])), np.ndarray)
    turned = pd.Series([0.4, 0.6], [1, 0])
    assert adv.LatticeLoss.from_probs(p, turned).delta(0.0) == pytest.approx(0.1, rel=1e-14)


def test_answers_have_the_labels_of_their_arguments() -> None:
    found = adv.PureDP(1.0).posterior_bounds(_series(0.1, 0.2))[1]
    assert (found.dims, found["dim_0"].values.tolist()) == (("dim_0",), ["a", "b"])
    named = _series(0.1, 0.2).rename_axis("town")
    assert adv.PureDP(1.0).delta(named).dims == ("town",)
    both = decisions.f_score(named, _series(0.3, 0.4, of="ba"))
    assert both["town"].values.tolist() == ["a", "b"]
    assert float(both.sel(town="a")) == pytest.approx(decisions.f_score(0.1, 0.4), rel=1e-14)


def test_targets_go_by_label_where_they_have_one_and_cross_where_they_have_none() -> None:
    grid = decisions.epsilon_from_f_score([0.9, 0.8], prior=[0.5, 0.3])["epsilon"]
    assert grid.dims == ("f", "prior")
    for make in (_series, _array):
        found = decisions.epsilon_from_f_score(make(0.9, 0.8), prior=make(0.3, 0.5, of="ba"))["epsilon"]
        np.testing.assert_allclose(found, np.diagonal(grid), rtol=1e-14)
        with pytest.raises(ValueError, match="same labels"):
            decisions.epsilon_from_f_score(make(0.9, 0.8), prior=make(0.3, 0.5, of="bc"))
    best = decisions.max_f_score(adv.PureDP(1.0), _series(0.5, 0.3), _series(1.0, 2.0, of="ba"))["f_score"]
    assert float(best[0]) == pytest.approx(float(decisions.max_f_score(adv.PureDP(1.0), 0.5, 2.0)["f_score"]))


def test_a_label_twice_is_paired_in_one_order_only() -> None:
    twice = pd.Series([0.7, 0.3], ["a", "a"])
    assert adv.LatticeLoss.from_probs(twice, twice).delta(0.0) == 0.0
    with pytest.raises(ValueError, match="same labels along a dimension: 'dim_0' has 'a', 'b', and 'a', 'a'"):
        adv.LatticeLoss.from_probs(_series(0.5, 0.5), twice)


def test_arrays_of_other_dimensions_do_not_list_the_same() -> None:
    with pytest.raises(ValueError, match="p, q must have the same dimensions"):
        adv.LatticeLoss.from_probs(xr.DataArray([0.7, 0.3], dims="x"), xr.DataArray([0.7, 0.3], dims="y"))
    with pytest.raises(ValueError, match="entries without labels"):
        adv.LatticeLoss.from_probs(_array(0.7, 0.3), xr.DataArray([0.7, 0.3], dims="o"))


COUNTED: dict[str, Callable[[Any], Any]] = {
    "others": lambda law: adv.Others(law).law,
    "each": lambda law: adv.Each(law).law,
    "beliefs": lambda law: adv.Adversary(0.3, beliefs={"tract": law}).level_beliefs(PLAN)[1].law,
    "unknown people": lambda law: adv.attacks.count_pmf(law),
}
PLAN = adv.Plan([adv.Level("block", adv.Geometric(1.0), 2), adv.Level("tract", adv.Geometric(1.0))])


@pytest.mark.parametrize("name", COUNTED)
def test_labels_of_a_law_of_counts_are_the_counts(name: str) -> None:
    made = COUNTED[name]
    np.testing.assert_array_equal(made(pd.Series([0.25, 0.75], [3, 1])), [0.0, 0.75, 0.0, 0.25])
    np.testing.assert_array_equal(made(_array(0.25, 0.75, of=[1, 0])), [0.75, 0.25])
    np.testing.assert_array_equal(made(pd.Series([0.25, 0.75], ["1", "0"])), [0.75, 0.25])
    np.testing.assert_array_equal(made(pd.Series([0.25, 0.75])), [0.25, 0.75])
    for labels in (["a", "b"], [0.5, 1.0], [1, 1], [-1, 0], [0, 10**7]):
        with pytest.raises(ValueError, match="must be labelled by"):
            made(pd.Series([0.25, 0.75], labels))
    with pytest.raises(ValueError, match="no masked entries"):
        made(np.ma.array([0.25, 0.75], mask=[True, False]))


def test_records_of_a_joint_law_have_their_labels() -> None:
    table = pd.DataFrame([[0.4, 0.1], [0.2, 0.3]], pd.Index(["a", "b"], name="x"), pd.Index(["c", "d"], name="y"))
    law = JointDistribution(table)
    assert law.records == {"x": ["a", "b"], "y": ["c", "d"]}
    event = pd.DataFrame([[True, False], [False, True]], ["b", "a"], ["d", "c"])  # (b, d) and (a, c)
    assert law.mass(event) == pytest.approx(0.7, rel=1e-14)
    turned = xr.DataArray(event.to_numpy().T, dims=("y", "x"), coords={"y": ["d", "c"], "x": ["b", "a"]})
    assert law.mass(turned) == pytest.approx(0.7, rel=1e-14)
    assert JointDistribution.independent({"r": pd.Series([0.2, 0.8], [5, 3])}).mass({"r": 5}) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="unstack"):
        JointDistribution(table.stack())
    with pytest.raises(ValueError, match="same labels"):
        law.mass(pd.DataFrame(True, ["b", "z"], ["d", "c"]))


@pytest.mark.parametrize("value", [[1, 2], np.ma.masked])
def test_a_number_is_one_number_without_a_mask(value: Any) -> None:
    for make in (adv.Uniform, adv.Point, adv.Known):
        with pytest.raises((TypeError, ValueError), match=r"must (be one number|have no masked entries)"):
            make(value)
