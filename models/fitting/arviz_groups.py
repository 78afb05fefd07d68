"""ArviZ groups of a model: draws, predictions and log densities.

Log densities are on the latents' own scale, without the Jacobian of the sampler's transform.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray
from pymc.backends.arviz import find_constants, find_observations
from pymc.model.transform.conditioning import remove_value_transforms
from pytensor.tensor.variable import TensorVariable

from adversary._core import NAME, Sampling, seed_sequence
from adversary.models.enumeration import (
    Conditioned,
    compile_batches,
    condition,
    latent_names,
    sum_terms,
    wanted_names,
    without_starts,
)
from adversary.models.importance import releases_given

Arrays = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]

# Leading dims that get a coordinate of consecutive numbers.
DRAWN = ("chain", "draw", "release")
# Sampler statistics that are whole numbers.
_COUNTS = ("tree_depth", "n_steps")
# Differences below this are ties; ties are broken by random numbers of this size, far below Monte Carlo error.
TIED = 1e-9

# Largest array, in numbers, of a deterministic or of side data terms; larger ones are omitted from the tree.
LARGEST = 20_000_000


@dataclass(frozen=True)
class Groups:
    """Builder of ArviZ groups for a model, from draws (*leading, *shape) of every latent.

    Parameters
    ----------
    source : the model with its release left free
    given : the same with its release as an input, latents on their own scale
    """

    source: pm.Model
    given: Conditioned

    @classmethod
    def of(cls, model: pm.Model, released: Sequence[str]) -> Groups:
        return cls(model, condition(remove_value_transforms(without_starts(model)), tuple(released), continuous=True))

    def names(self, variables: Sequence[str] | None, draws: int) -> list[str]:
        """Latents and deterministics to include: `variables`, or all that do not read the release and fit `LARGEST`."""
        released = tuple(self.given.released)
        if variables is not None:
            return wanted_names(self.source, released, variables)
        model = self.given.model
        graphs = model.replace_rvs_by_values(model.deterministics)
        made = [v.name for v, g in zip(model.deterministics, graphs, strict=True) if not self.given.uses_release(g)]
        sizes = {name: int(np.prod([n or 1 for n in self.source[name].type.shape])) for name in made}
        return [*self.latents, *(name for name in made if sizes[name] * draws <= LARGEST)]

    @property
    def latents(self) -> list[str]:
        """Names of the latents, in the order of the model."""
        return latent_names(self.source, self.given.released)

    def all_of(
        self,
        latents: Arrays,
        prior: Arrays,
        released: Arrays,
        stats: Arrays,
        leading: tuple[str, ...],
        variables: Sequence[str] | None,
        rng: np.random.Generator,
        chances: tuple[str, Floats, Floats] | None = None,
    ) -> dict[str, xr.Dataset]:
        """Every non-empty group, for one release, or for many if the third leading dim is "release".

        `stats` are sampler statistics as in `Fit`. `chances` is (target, posterior, prior): the name of the target and
        its probability in every draw of the posterior and of the prior.
        """
        many = leading[2:]
        sizes = next(iter(latents.values())).shape[: len(leading)]
        names = self.names(variables, int(np.prod(sizes)))
        result = {"posterior": self.chosen(latents, names, leading), "prior": self.chosen(prior, names, leading[:2])}
        if chances is not None and (name := chance_name(chances[0])) not in self.source.named_vars:
            drawn = (leading, chances[1]), (leading[:2], chances[2])
            for group, (dims, chance) in zip(("posterior", "prior"), drawn, strict=True):
                result[group][name] = dims, spread_constant(chance, rng)
        result["posterior_predictive"] = self.predicted(latents, leading, rng)
        result["prior_predictive"] = self.predicted(prior, leading[:2], rng)
        result["log_prior"], result["log_likelihood"] = self.log_densities(latents, released, leading, not many)
        terms = [*result["log_prior"].values(), *result["log_likelihood"].values()]
        lp = sum((term.values.reshape(*sizes, -1).sum(axis=-1) for term in terms), start=np.zeros(sizes))
        known = {name: value for name, value in stats.items() if not np.isnan(value).all()}
        statistics = {"diverging": stats["diverging"] == 1, "lp": lp}
        statistics["energy"] = np.where(np.isnan(stats["energy"]), -lp, stats["energy"])
        counts = {n: v.astype(np.int64) for n, v in known.items() if n in _COUNTS and not np.isnan(v).any()}
        result["sample_stats"] = label_arrays(self.source, {**known, **statistics, **counts}, leading)
        library = "nutpie" if known else NAME
        made = {"inference_library": library, "inference_library_version": version(library)}
        made["created_at"] = datetime.now(UTC).isoformat()
        every = result | self.data(released, many)
        return {name: group.assign_attrs(made) for name, group in every.items() if group.data_vars}

    def chosen(self, latents: Arrays, names: Sequence[str], leading: tuple[str, ...]) -> xr.Dataset:
        """Draws of the variables named, computed from draws of every latent."""
        extra, given = [name for name in names if name not in latents], self.given
        at_full_size = dict(latents)
        if extra:
            sizes = next(iter(latents.values())).shape[: len(leading)]
            values = self._evaluated([given.values_of(name) for name in extra], latents, {}, leading)
            for name, value in zip(extra, values, strict=True):
                full = np.broadcast_to(value, (int(np.prod(sizes)), *value.shape[1:]))
                at_full_size[name] = full.reshape(*sizes, *value.shape[1:])
        return self._labelled({name: at_full_size[name] for name in names}, leading)

    def predicted(self, latents: Arrays, leading: tuple[str, ...], rng: np.random.Generator) -> xr.Dataset:
        """Predictive draws: a release per draw, and side data if they fit `LARGEST`; empty for a fit without draws."""
        if any(value.dtype.kind == "f" and np.isnan(value).any() for value in latents.values()):
            return xr.Dataset()
        sizes = next(iter(latents.values())).shape[: len(leading)]
        side = [rv for rv in self.source.observed_RVs if rv.name not in self.given.released]
        if int(np.prod(sizes)) * sum(int(rv.size.eval()) for rv in side) > LARGEST:
            side = []
        names = [*self.given.released, *(rv.name for rv in side)]
        names = [name for name in names if name in {rv.name for rv in self.source.basic_RVs}]
        flat = {name: self._flat(value, leading) for name, value in latents.items()}
        drawn = releases_given(self.source, flat, names, rng)
        return self._labelled({name: value.reshape(*sizes, *value.shape[1:]) for name, value in drawn.items()}, leading)

    def log_densities(
        self, latents: Arrays, released: Arrays, leading: tuple[str, ...], side: bool = True
    ) -> tuple[xr.Dataset, xr.Dataset]:
        """Log prior, one term per latent and potential, and log likelihood, one term per element observed."""
        model, given = self.given.model, self.given
        potentials = model.replace_rvs_by_values(model.potentials)
        of_release = [p for p, v in zip(model.potentials, potentials, strict=True) if given.uses_release(v)]
        observed = [rv for rv in model.observed_RVs if rv.name in given.released]
        draws = int(np.prod(next(iter(latents.values())).shape[: len(leading)]))
        others = [rv for rv in model.observed_RVs if rv.name not in given.released]
        if side and draws * sum(model.rvs_to_values[rv].eval().size for rv in others) <= LARGEST:
            observed += others
        before = [*model.free_RVs, *(p for p in model.potentials if p not in of_release)]
        variables = [*before, *observed, *of_release]
        graphs = model.logp(vars=variables, sum=False, jacobian=False)
        outputs = [sum_terms([graph]) for graph in graphs[: len(before)]] + graphs[len(before) :]
        densities = self._evaluated(outputs, latents, released, leading)
        sizes, groups = next(iter(latents.values())).shape[: len(leading)], []
        for part in (slice(len(before)), slice(len(before), None)):
            rng, terms = np.random.default_rng(0), {}
            for one, term in zip(variables[part], densities[part], strict=True):
                full = np.array(np.broadcast_to(term, (draws, *term.shape[1:])))
                terms[one.name] = _break_ties(full, rng).reshape(*sizes, *term.shape[1:])
            groups.append(label_arrays(model, terms, leading))
        return groups[0], groups[1]

    def data(self, released: Arrays, leading: tuple[str, ...] = ()) -> dict[str, xr.Dataset]:
        """Groups `observed_data` (the release and the side data) and `constant_data`."""
        side = {n: np.asarray(v) for n, v in find_observations(self.source).items() if n not in released}
        fixed = {n: np.asarray(v) for n, v in find_constants(self.source).items()}
        named = {n: np.asarray(v) for n, v in released.items()}
        observed = xr.merge([self._labelled(named, leading), self._labelled(side, ())])
        return {"observed_data": observed, "constant_data": self._labelled(fixed, ())}

    def _labelled(self, values: Arrays, leading: tuple[str, ...]) -> xr.Dataset:
        return label_arrays(self.given.model, values, leading, self.given.latents)

    @staticmethod
    def _flat(value: NDArray[Any], leading: tuple[str, ...]) -> NDArray[Any]:
        return value.reshape(-1, *value.shape[len(leading) :])

    def _evaluated(
        self, graphs: Sequence[TensorVariable], latents: Arrays, released: Arrays, leading: tuple[str, ...]
    ) -> list[NDArray[np.float64]]:
        """Values of graphs at every draw, (draw or 1, *shape) each."""
        given = self.given
        size = int(np.prod(next(iter(latents.values())).shape[: len(leading)]))
        inputs: dict[Any, NDArray[Any]] = {}
        for name, value in (given.latents | given.continuous).items():
            inputs[value] = self._flat(latents[name], leading).astype(value.dtype)
        known = {name: value for name, value in given.released.items() if name in released}
        for name, value in known.items():
            batch = np.asarray(released[name], value.dtype)
            batch = batch if batch.ndim > value.ndim else batch[None]
            inputs[value] = np.tile(batch, (size // len(batch), *[1] * value.ndim)) if len(batch) > 1 else batch
        single = {v for v in known.values() if len(inputs[v]) == 1}
        function = compile_batches(graphs, {v: (1,) if v in single else (None,) for v in inputs})
        return function(*inputs.values())


def _break_ties(terms: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Break ties among the largest or smallest terms (draw, *shape) if they fill the tail, by a billionth of a nat.

    ArviZ's power-scaling fits a Pareto tail and refuses equal values, which terms of discrete latents often have.
    """
    tail = int(min(0.2 * len(terms), 3.0 * np.sqrt(len(terms))))
    for end in (terms.max(axis=0), terms.min(axis=0)):
        # inf - inf is NaN, so infinite terms do not count as tied.
        with np.errstate(invalid="ignore"):
            tied = np.abs(terms - end) < TIED
        tied &= tied.sum(axis=0) >= tail
        terms = terms + np.where(tied, rng.uniform(-TIED, TIED, terms.shape), 0.0)
    return terms


def chance_name(target: str) -> str:
    """Variable name of a target's probability in every draw.

    Parameters
    ----------
    target : name of the target

    >>> chance_name("in")
    'P(in)'
    """
    return f"P({target})"


def spread_constant(chance: Floats, rng: np.random.Generator) -> Floats:
    """Probabilities (chain, draw, ...), with noise of a billionth where all draws of a release are equal.

    ArviZ can neither plot a density of a constant nor compare its chains.
    """
    with np.errstate(invalid="ignore"):
        same = np.ptp(chance, axis=(0, 1)) < TIED
    moved = chance + chance * (1.0 - chance) * rng.uniform(-TIED, TIED, chance.shape)
    return np.where(same, moved, chance)


def attributes(engine: str, sampling: Sampling, seed: Any) -> dict[str, Any]:
    """Provenance attributes (engine, seed, sampling, versions), in types that NetCDF can store."""
    packages = (NAME, "numpy", "scipy", "xarray", "pymc", "pytensor", "nutpie", "arviz")
    return {
        "engine": engine,
        "seed": str(seed_sequence(seed).entropy if seed is None or np.isscalar(seed) else "given as a generator"),
        "sampling": repr(sampling),
        "versions": json.dumps({name: version(name) for name in packages}),
    }


def label_arrays(model: pm.Model, values: Arrays, leading: tuple[str, ...], whole: Collection[str] = ()) -> xr.Dataset:
    """Dataset of a model's variables with the model's own dims and coordinates.

    Parameters
    ----------
    model : pymc.Model
    values : arrays (*leading, *shape) by name
    leading : names of the first dims
    whole : names of variables to convert to int64

    Returns
    -------
    Dataset with dims (*leading, *the variable's own).
    """
    variables: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    for name, array in values.items():
        own = array.ndim - len(leading)
        named = list(model.named_vars_to_dims.get(name) or ())
        dims = named if len(named) == own else [f"{name}_dim_{i}" for i in range(own)]
        coords |= {d: list(model.coords[d]) for d in dims if model.coords.get(d) is not None}
        variables[name] = ((*leading, *dims), array.astype(np.int64) if name in whole else array)
    if values:
        sizes = next(iter(values.values())).shape
        coords |= {d: np.arange(n) for d, n in zip(leading, sizes, strict=False) if d in DRAWN}
    return xr.Dataset(variables, coords=coords)
