"""Draws of everything in a model from its own prior, many at once: latents, release and what is computed from them.

PyMC draws one world after another. Here each variable is drawn for all worlds in one call, with a leading axis added to
its parameters and to its size, so that a thousand worlds cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.pytensorf import compile as compile_random
from pymc.pytensorf import reseed_rngs
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.variable import TensorVariable
from scipy.special import logsumexp

from adversary.models.enumeration import NUMPY_MODE, summed, vectorized
from adversary.models.stories import TabulatedRV

Draws = dict[str, NDArray[Any]]
Sampler = Callable[[int], list[NDArray[Any]]]

_HOPELESS = 1000  # proposals for each world wanted, beyond which the model is refused
_FEWEST = 256  # proposals in a later call


@dataclass(frozen=True)
class PriorPredictive:
    r"""A model's joint law of latents and release, drawn from.

    .. math:: s_1 \sim p(s_1), \quad s_2 \sim p(s_2 \mid s_1), \quad \dots, \quad
              \text{kept with probability } e^{\sum \text{potentials}}

    Potentials, and rows of unlike mass in a `Tabulated` law, make the joint density another one than what the variables
    draw one by one; draws are then rejected, so that those kept follow the density.

    Parameters
    ----------
    shapes : shape of each variable, by name, without the axis of worlds
    sampler : compiled; for a number of worlds, the draws of each variable and the log probability of keeping them
    generators : the random generators it uses
    rejects : whether any draw may be rejected

    Examples
    --------
    >>> with pm.Model() as model:
    ...     count = pm.Poisson("count", np.float64(3))
    ...     noisy = pm.Normal("noisy", count, np.float64(2))
    >>> draws, accepted = PriorPredictive.of(model, ["count", "noisy"]).draw(1000, np.random.default_rng(1))
    >>> draws["noisy"].shape, accepted
    ((1000,), 1.0)
    """

    shapes: dict[str, tuple[int, ...]]
    sampler: Sampler
    generators: tuple[SharedVariable, ...]
    rejects: bool

    @classmethod
    def of(cls, model: pm.Model, names: Iterable[str]) -> PriorPredictive:
        """Compile the draws of the variables named, random or deterministic."""
        wanted = {name: model[name] for name in names}
        terms = [*model.potentials, *_relative_masses(model.basic_RVs)]
        inputs = [v for v in ancestors([*model.basic_RVs, *wanted.values()]) if isinstance(v.type, RandomType)]
        generators = tuple({v: None for v in inputs if isinstance(v, SharedVariable)})
        make = _all_at_once if _known_laws(model, inputs) else _one_by_one
        shapes = {name: _shape(variable) for name, variable in wanted.items()}
        return cls(shapes, make(model, list(wanted.values()), terms), generators, bool(terms))

    def draw(self, worlds: int, rng: np.random.Generator) -> tuple[Draws, float]:
        """So many independent worlds, arrays (worlds, *shape), and the share of those proposed that was accepted."""
        reseed_rngs(self.generators, int(rng.integers(2**63)))
        parts: list[Draws] = []
        found = proposed = 0
        while found < worlds:
            if proposed > _HOPELESS * worlds + _FEWEST:
                raise ValueError(
                    f"of {proposed} worlds drawn variable by variable only {found} have a positive prior probability: "
                    "write the model so that what it draws is possible"
                )
            batch = max(_FEWEST, worlds - found) if proposed else worlds
            parts.append(self._proposed(batch, rng))
            found, proposed = found + len(next(iter(parts[-1].values()))), proposed + batch
        return {name: np.concatenate([part[name] for part in parts])[:worlds] for name in self.shapes}, found / proposed

    def _proposed(self, worlds: int, rng: np.random.Generator) -> Draws:
        """What is kept of so many worlds."""
        *values, log_weight = self.sampler(worlds)
        for (name, shape), value in zip(self.shapes.items(), values, strict=True):
            if value.shape != (worlds, *shape):
                raise ValueError(
                    f"{worlds} draws of {name} came with shape {value.shape} and not {(worlds, *shape)}: "
                    "a law must draw as many values as the size it is given"
                )
        if not (log_weight <= 1e-9).all():
            raise ValueError(
                "potentials must be at most 0, the log probability of keeping a draw, to draw from a model; "
                f"got {log_weight.max()}"
            )
        keep = np.log1p(-rng.random(worlds)) <= log_weight if self.rejects else np.ones(worlds, dtype=bool)
        return {name: value[keep] for name, value in zip(self.shapes, values, strict=True)}


def _known_laws(model: pm.Model, generators: Sequence[Any]) -> bool:
    """Whether everything random is a variable of the model with a plain law, not a graph of other laws."""
    plain = all(isinstance(rv.owner.op, RandomVariable) for rv in model.basic_RVs)
    return plain and len({v for v in generators if v.owner is None}) == len(model.basic_RVs)


def _number(graph: TensorVariable) -> NDArray[Any]:
    return np.asarray(compile_random([], graph, mode=NUMPY_MODE, on_unused_input="ignore")())


def _shape(variable: TensorVariable) -> tuple[int, ...]:
    """Numbers, not symbols; asked of the graph where the type does not say."""
    known = variable.type.shape
    return tuple(int(n) for n in (known if None not in known else _number(variable.shape)))


def _relative_masses(variables: Sequence[TensorVariable]) -> list[TensorVariable]:
    """Log mass of the row a tabulated count is drawn from, over the largest row's, where rows are not alike."""
    terms = []
    for rv in variables:
        if isinstance(rv.owner.op, TabulatedRV):
            table, row, _ = rv.owner.op.dist_params(rv.owner)
            masses = logsumexp(_number(table), axis=-1).ravel()
            relative = masses - masses.max()
            if (relative[np.isfinite(relative)] < -1e-9).any():
                terms.append(pt.constant(relative)[row])
    return terms


def _all_at_once(model: pm.Model, outputs: list[TensorVariable], terms: list[TensorVariable]) -> Sampler:
    """Each variable with a leading axis of worlds in its size and, where these vary, in its parameters."""
    worlds = pt.lscalar("worlds")
    roots = {rv: rv.type() for rv in model.basic_RVs}
    batches: dict[TensorVariable, TensorVariable] = {}

    def batched(graphs: Sequence[TensorVariable]) -> list[TensorVariable]:
        rooted = graph_replace(list(graphs), roots, strict=False)
        return vectorized(rooted, batches) if rooted and batches else rooted

    def spread(graph: TensorVariable, ndim: int) -> TensorVariable:
        return pt.repeat(graph[None], worlds, axis=0) if graph.ndim == ndim else graph

    for rv in model.basic_RVs:
        node = rv.owner
        shape = _shape(rv)[: rv.ndim - node.op.ndim_supp]
        size = pt.stack([worlds, *map(np.int64, shape)])
        draw = node.op.make_node(node.op.rng_param(node), size, *batched(node.op.dist_params(node)))
        batches[roots[rv]] = draw.outputs[1].copy()  # some operations take the node of their input for its one output
    values = [spread(batch, v.ndim) for v, batch in zip(outputs, batched(outputs), strict=True)]
    weights = [spread(batch, v.ndim) for v, batch in zip(terms, batched(terms), strict=True)]
    weight = sum((w.reshape((worlds, -1)).sum(axis=1) for w in weights), start=pt.zeros(worlds, dtype="float64"))
    sampler: Sampler = compile_random([worlds], [*values, weight], mode=NUMPY_MODE, on_unused_input="ignore")
    return sampler


def _one_by_one(model: pm.Model, outputs: list[TensorVariable], terms: list[TensorVariable]) -> Sampler:
    """World after world, where a law is a graph of other laws (mixtures, truncations): slow, and the same law."""
    del model
    function = compile_random([], [*outputs, summed(terms)], mode=NUMPY_MODE)

    def sampler(worlds: int) -> list[NDArray[Any]]:
        return [np.array(values) for values in zip(*(function() for _ in range(worlds)), strict=True)]

    return sampler
