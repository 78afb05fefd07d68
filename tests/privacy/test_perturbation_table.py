"""Perturbation tables: three ways to write one, and what their labels say."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import adversary as adv
from tests.catalogue import MECHANISMS
from tests.tables import refusals

Table = adv.PerturbationTable
MATRIX = np.array([[1, 0, 0, 0, 0], [0.5, 0, 0.5, 0, 0], [0.2, 0, 0.4, 0.4, 0], [0, 0, 0.25, 0.5, 0.25]])
"""Rows are true counts 0 to 3, columns published counts 0 to 4; the mean perturbation of every row is 0."""
WIDE = pd.DataFrame(MATRIX, pd.Index(range(4), name="i"), [str(j) for j in range(5)])
LONG = pd.DataFrame([(i, j, p) for (i, j), p in np.ndenumerate(MATRIX) if p], columns=["i", "j", "p"])


def test_a_table_of_transitions_is_the_same_table() -> None:
    noise = MECHANISMS["perturbation table"]
    count, release = (grid.ravel() for grid in np.meshgrid(np.arange(4), np.arange(7), indexing="ij"))
    probs = np.exp(noise.log_prob(release, count))
    kept = probs > 0.0
    made = adv.PerturbationTable.from_columns(count[kept], release[kept], probs[kept])
    np.testing.assert_allclose(np.exp(made.log_prob(release, count)), probs, rtol=1e-14)
    np.testing.assert_allclose(made.log_prob(release + 90, 93), noise.log_prob(release + 90, 93), rtol=1e-14)


def _laws(noise: adv.Mechanism) -> Any:
    """P(published | count) of the counts 0 to 3, and of 9, of which only perturbations are known."""
    return np.exp(noise.log_prob(np.arange(5), np.arange(4)[:, None])), np.exp(noise.log_prob(np.arange(6, 12), 9))


@pytest.mark.parametrize(
    "noise",
    [
        Table.from_transitions(MATRIX),
        Table.from_transitions(MATRIX.tolist()),
        Table.from_transitions(WIDE),
        Table.from_transitions(WIDE.reset_index()),
        Table.from_transitions(WIDE.iloc[::-1, ::-1]),
        Table.from_transitions(xr.DataArray(MATRIX[:, ::-1], coords={"i": range(4), "j": range(4, -1, -1)})),
        Table.from_columns(LONG.i, LONG.j, LONG.p),
        Table.from_columns(LONG.i, LONG.j.sample(frac=1.0, random_state=1), LONG.p),
    ],
    ids=["matrix", "lists", "frame", "frame with a column of counts", "turned", "xarray", "long", "long, shuffled"],
)
def test_transitions_are_read_as_such_however_they_are_written(noise: adv.Mechanism) -> None:
    here, far = _laws(noise)
    np.testing.assert_allclose(here, MATRIX, rtol=1e-15)
    np.testing.assert_allclose(far, [0.0, 0.0, 0.25, 0.5, 0.25, 0.0], rtol=1e-15)
    assert noise.support(3).tolist() == [2, 3, 4]


def test_labels_of_perturbations_say_which_they_are() -> None:
    table = pd.DataFrame([[0.0, 1.0, 0.0], [0.25, 0.5, 0.25]], columns=[-1, 0, 1])
    for given in (table, table.iloc[::-1, ::-1]):
        assert Table(given) == Table(table.to_numpy(), lowest=-1) == Table(given, lowest=-1)


def test_a_matrix_of_transitions_read_as_perturbations_is_warned_of() -> None:
    with pytest.warns(UserWarning, match=r"from_transitions; otherwise give lowest"):
        Table(MATRIX)
    with pytest.warns(UserWarning, match="more, by 0.5 on average"):
        Table([[1.0, 0.0], [0.5, 0.5]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Table([[1.0], [1.0]])
        Table([[0.0, 1.0, 0.0], [0.25, 0.5, 0.25]], lowest=-1)
        assert Table.from_columns([0, 1], [0, 2], [1.0, 1.0]).support(1).tolist() == [2]


def _indexed(rows: Any, columns: Any) -> pd.DataFrame:
    return pd.DataFrame([[0.5, 0.5]] * len(rows), rows, columns)


test_tables_with_other_labels_are_refused = refusals(
    (lambda: Table(_indexed([0, 1], [-1, 0]), lowest=-2), "lowest must be the first perturbation, -1.*got -2"),
    (lambda: Table(_indexed([3], [-1, 0])), r"labelled by counts 0, 1, .* got \[3\]"),
    (lambda: Table(_indexed([0, 1], [-1, 1])), "perturbations one apart"),
    (lambda: Table.from_transitions(_indexed([0, 1], ["x", "1"])), "columns of matrix must be labelled by different"),
    (lambda: Table.from_transitions(_indexed([0, 2], [0, 1])), r"those of counts 0, 1, ..., without \[1\]"),
    (lambda: Table.from_transitions([0.5, 0.5]), "must have a row for each count"),
    (lambda: Table.from_transitions(np.ma.array(MATRIX, mask=MATRIX == 1.0)), "matrix must have no masked entries"),
    (lambda: Table(np.ma.array(MATRIX, mask=MATRIX == 1.0)), "probabilities must have no masked entries"),
    (lambda: Table.from_columns(LONG.i, LONG.j, LONG.p[:3]), "must have the same labels|three of one length"),
)
