"""Labelled counts of a tree are aligned by name: the order in which they come changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import adversary as adv
from adversary.census.nmf.runs.block_results import errors, results

spine = adv.spine
TREE = spine.Tree.of({"g": None, "a": "g", "b": "g"})
RELEASED, RHO = {"g": 1.0, "a": 2.0, "b": -1.0}, {"g": 0.25, "a": 0.1, "b": 0.2}
ORDER = ["a", "b", "g"]


def labelled(values: dict[str, float], order: Any = ORDER) -> xr.DataArray:
    return xr.DataArray([values[name] for name in order], {"unit": order}, ("unit",))


def in_order(values: dict[str, float]) -> list[float]:
    return [values[name] for name in TREE.names.tolist()]


def series(values: dict[str, float]) -> pd.Series:
    return pd.Series({name: values[name] for name in ORDER})


@pytest.mark.parametrize("form", [labelled, lambda values: {name: values[name] for name in ORDER}, series])
def test_counts_with_names_are_those_in_the_trees_order(form: Any) -> None:
    prior = spine.Flat()
    plain, named = (spine.posterior(TREE, make(RELEASED), make(RHO), prior) for make in (in_order, form))
    assert float(plain.mean[0]) != pytest.approx(float(spine.posterior(TREE, [2, -1, 1], 0.2, prior).mean[0]), abs=0.1)
    assert named.mean.identical(plain.mean)
    rises = [spine.upward_message(TREE, make(RELEASED), make(RHO), prior) for make in (in_order, form)]
    assert rises[0].values.tolist() == rises[1].values.tolist()
    fits = [spine.fit_rate_prior(TREE, make(RELEASED), make(RHO), rounds=1) for make in (in_order, form)]
    assert fits[0].weights.tolist() == fits[1].weights.tolist()
    squares = [spine.least_squares(TREE, make(RELEASED), make(RHO)) for make in (in_order, form)]
    assert squares[0].identical(squares[1])
    noise = {"level 1": adv.Geometric(0.3)}
    both = [spine.posterior(TREE, make(RELEASED), make(RHO), prior, noise=noise) for make in (in_order, form)]
    assert both[0].mean.identical(both[1].mean)
    counts = {"g": 3.0, "a": 3.0, "b": 0.0}
    assert plain.covers(form(counts), 0.5).identical(plain.covers(in_order(counts), 0.5))
    truth = errors(TREE, form(counts), {"here": plain})
    assert truth.identical(errors(TREE, in_order(counts), {"here": plain}))
    rows = [results(make(RELEASED), make(RHO), plain)["noisy"].tolist() for make in (in_order, form)]
    assert rows[0] == rows[1] == in_order(RELEASED)


def test_readers_of_leaves_are_named_too() -> None:
    found = spine.posterior(TREE, RELEASED, RHO, spine.Flat())
    expected = found.membership([0.1, 0.4], [2, 0])
    assert found.membership({"b": 0.4, "a": 0.1}, xr.DataArray([0, 2], {"unit": ["b", "a"]})).identical(expected)
    with pytest.raises(ValueError, match=r"known lacks unit 'b' \(1 such\)"):
        found.membership(0.1, {"a": 2})


def test_cells_keep_their_labels_and_find_their_rho() -> None:
    counts = xr.DataArray([[2.0, 0], [-1, 3], [1, 4]], {"unit": ORDER, "cell": ["x", "y"]}, ("unit", "cell"))
    rho = xr.DataArray([[0.4, 0.2, 0.9], [0.1, 0.3, 0.5]], {"cell": ["y", "x"], "unit": ["b", "g", "a"]},
                       ("cell", "unit"))  # fmt: skip
    found = spine.posterior(TREE, counts.T, rho, spine.Flat())
    plain = spine.posterior(TREE, [[1, 4], [2, 0], [-1, 3]], [[0.3, 0.2], [0.5, 0.9], [0.1, 0.4]], spine.Flat())
    assert found.mean.values.tolist() == plain.mean.values.tolist()
    assert found.mean["cell"].values.tolist() == ["x", "y"]
    assert spine.posterior(TREE, counts.drop_vars("unit"), 0.1).mean["cell"].values.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("released", "words"),
    [
        (labelled(RELEASED, ["a", "g"]), r"released lacks unit 'b' \(1 such\)"),
        (labelled(RELEASED | {"c": 1.0}, [*ORDER, "c"]), "released names unit 'c', which is not there"),
        (labelled(RELEASED, [*ORDER, "a"]), "released: unit 'a' is listed twice"),
        ({"g": 1, "a": 2}, r"released lacks unit 'b' \(1 such\)"),
        (RELEASED | {"c": 1}, "released names unit 'c', which is not there"),
        (labelled(RELEASED).rename(unit="block"), r"released must have the dimension 'unit', got \['block'\]"),
    ],
)
def test_units_missing_unknown_or_doubled_are_named(released: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        spine.posterior(TREE, released, 0.1, spine.Flat())
    with pytest.raises(ValueError, match=words.replace("released", "rho")):
        spine.least_squares(TREE, np.zeros(3), released)
