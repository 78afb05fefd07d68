"""Labels of xarray: releases and priors are paired by names of dimensions, and every answer keeps them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from adversary.analyst.bounded import BoundedRelease, NormalInverseGamma, posterior

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
