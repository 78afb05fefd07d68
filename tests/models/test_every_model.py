"""Laws every model of the catalogue obeys: its enumeration, its draws and its results against a list of its worlds."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.typing import NDArray

import adversary as adv
from adversary.models.enumeration import latent_names, released_names
from adversary.models.importance import PriorPredictive
from tests.catalogue import MODELS

QUICK = ("membership", "actual_world", "counterfactual_world, a record instead", "invariants", "skeleton")
"""Models whose laws are tested in the fast suite."""
EACH = [pytest.param(name, marks=[pytest.mark.slow] * (name not in QUICK)) for name in MODELS]
DRAWS, MOST = 4000, 5000


class Worlds(NamedTuple):
    """Values of the latents in each world that can be, (world, *shape), and what is drawn from the model's prior."""

    states: dict[str, NDArray[Any]]
    drawn: dict[str, NDArray[Any]]
    released: tuple[str, ...]

    @classmethod
    def of(cls, model: pm.Model) -> Worlds:
        """Every combination of values up to the largest that is drawn, and a little beyond."""
        released = released_names(model)
        latents = latent_names(model, released)
        drawn, _ = PriorPredictive.of(model, (*latents, *released)).draw(DRAWS, np.random.default_rng(5))
        ends = [(int(drawn[name].max()) + 3, drawn[name][0].size) for name in latents]
        if np.prod([(end + 1.0) ** cells for end, cells in ends]) > MOST:
            pytest.skip("too many worlds to list one by one")
        every = np.array([*itertools.product(*(range(end + 1) for end, cells in ends for _ in range(cells)))])
        parts = np.split(every, np.cumsum([cells for _, cells in ends])[:-1], axis=1)
        shaped = {name: part.reshape(-1, *drawn[name].shape[1:]) for name, part in zip(latents, parts, strict=True)}
        return cls(shaped, drawn, released)

    def log_p(self, model: pm.Model, given: dict[str, Any]) -> NDArray[np.float64]:
        """Log density of each world, and of a release where one is given, by PyMC's own function."""
        variables = [*(model[name] for name in self.states), *model.potentials]
        log_p = model.compile_logp(vars=None if given else variables)
        names = {variable.name: model.rvs_to_values[variable].name for variable in model.free_RVs}
        rest = {name: self.drawn[name][0] for name in self.released} | given
        with np.errstate(all="ignore"):
            return np.array(
                [
                    float(log_p({names[name]: value[i] for name, value in self.states.items()} | rest))
                    for i in range(len(next(iter(self.states.values()))))
                ]
            )


@pytest.mark.slow_cases("invariants")
@pytest.mark.parametrize("name", EACH)
def test_enumeration_and_draws_are_those_of_the_worlds(name: str) -> None:
    model = MODELS[name]()
    worlds = Worlds.of(model)
    prior = np.exp(worlds.log_p(model, {}))
    assert prior.sum() == pytest.approx(1.0, abs=1e-3)
    given = {name: values[7] for name, values in worlds.drawn.items() if name in worlds.released}
    posterior = np.exp(worlds.log_p(model, given) - np.logaddexp.reduce(worlds.log_p(model, given)))
    result = adv.enumerate_posterior(model, given, list(worlds.states))
    for latent, values in worlds.states.items():
        flat, drawn = values.reshape(len(values), -1), worlds.drawn[latent].reshape(DRAWS, -1)
        found = result[f"probability[{latent}]"].transpose(..., latent)
        for cell in range(flat.shape[1]):
            law = np.bincount(flat[:, cell], posterior)
            of_cell = found.values.reshape(-1, found.sizes[latent])[cell]
            seen = dict(zip(found[latent].values.tolist(), of_cell, strict=True))
            np.testing.assert_allclose([seen.get(k, 0.0) for k in range(law.size)], law, atol=1e-6)
            expected, counted = np.bincount(flat[:, cell], prior), np.bincount(drawn[:, cell], minlength=law.size)
            deviation = np.sqrt(expected * (1.0 - expected) / DRAWS) + 1.0 / DRAWS
            assert (np.abs(counted / DRAWS - expected) < 5.0 * deviation).all()


@pytest.mark.slow_cases("skeleton")
@pytest.mark.parametrize("name", [one for one in EACH if "world" not in one.values[0]])
def test_its_audit_comes_back_from_a_file_as_it_was(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    tree = adv.audit_model(model, {"in": 1}, released=list(released_names(model)), draws=20, rng=3, progress=False)
    tree.to_netcdf(tmp_path / "audit.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "audit.nc", engine="h5netcdf") as read:
        xr.testing.assert_identical(read.load(), tree)
