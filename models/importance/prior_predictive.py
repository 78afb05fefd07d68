"""Vectorized prior predictive draws of a model: latents, releases and deterministics.

A world is one joint draw of all variables. PyMC draws one world after another. Here each variable is drawn for all
worlds in one call, with a leading axis of worlds in its parameters and its size, so that a thousand worlds cost little
more than one. `latent_draws` keeps latents within the range of their transforms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.pytensorf import reseed_rngs
from pymc.vartypes import discrete_types
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.scan.op import Scan
from pytensor.tensor.random.basic import BetaBinomialRV, BinomialRV
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.variable import TensorVariable
from scipy.special import logsumexp

from adversary.models.enumeration import NUMPY_MODE, check_drawable, open_operations, sum_terms, vectorized_node
from adversary.models.stories import TabulatedRV

from .latent_draws import LatentDraw, evaluated, log_indicator, number_shape, with_draws

Draws = dict[str, NDArray[Any]]
Sampler = Callable[[int, np.random.Generator], list[NDArray[Any]]]

# Proposals per world wanted above which the model is refused.
_HOPELESS = 1000
# Smallest number of proposals in a later call.
_FEWEST = 256


@dataclass(frozen=True)
class PriorPredictive:
    r"""Compiled sampler of a model's joint distribution of latents and release.

    .. math:: s_1 \sim p(s_1), \quad s_2 \sim p(s_2 \mid s_1), \quad \dots, \quad
              \text{kept with probability } e^{\sum \text{potentials}}

    Forward draws of the variables ignore three parts of the joint density: potentials, rows of unequal mass in a
    `Tabulated` distribution, and transforms that restrict a support. Rejection accounts for these, so that accepted
    draws follow the density.

    Parameters
    ----------
    shapes : shape of each variable, by name, without the axis of worlds
    sampler : compiled function of a number of worlds and a generator, to the draws of each variable and the log
        acceptance probability (world,)
    rejects : whether any draw may be rejected
    log_share : log of the acceptance rate that order constraints would have, had vectors not been sorted

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
    rejects: bool
    log_share: float = 0.0

    @classmethod
    def of(
        cls,
        model: pm.Model,
        names: Iterable[str],
        graphs: Mapping[str, TensorVariable] | None = None,
        values: Iterable[str] = (),
        held: Mapping[TensorVariable, TensorVariable] | None = None,
    ) -> Self:
        """Compile the draws of the variables named, random or deterministic, and of further graphs of them.

        If `graphs` are given, draws are not rejected for potentials: the caller weighs them. `values` names latents to
        be drawn on the scale of their value variables, also without potentials. `held` has replacements for variables
        that are not drawn.
        """
        draws = {rv: LatentDraw.of(model, rv) for rv in model.free_RVs if rv not in (held or {})}
        wanted = {name: model[name] for name in names} | dict(graphs or {})
        wanted |= {name: draws[model[name]].value for name in values}
        terms = [] if graphs is not None or values else [*model.potentials, *_relative_masses(model.basic_RVs)]
        terms += [log_indicator(draw.inside) for draw in draws.values() if draw.inside is not None]
        every = with_draws([*wanted.values(), *terms], draws, held or {})
        outputs, terms = every[: len(wanted)], every[len(wanted) :]
        check_drawable(outputs)
        shapes = {name: number_shape(variable) for name, variable in zip(wanted, outputs, strict=True)}
        try:
            sampler = _all_at_once(outputs, terms)
        except NotImplementedError:
            sampler = _one_by_one(outputs, terms)
        return cls(shapes, sampler, bool(terms), sum(draw.log_share for draw in draws.values()))

    def draw(self, worlds: int, rng: np.random.Generator) -> tuple[Draws, float]:
        """Draw independent worlds, arrays (worlds, *shape), and return them with the acceptance rate.

        The rate counts a sorted vector as if it had been drawn until it was in order.
        """
        parts: list[Draws] = []
        accepted = proposed = 0
        while accepted < worlds:
            if proposed > _HOPELESS * worlds + _FEWEST:
                raise ValueError(
                    f"of {proposed} worlds drawn variable by variable only {accepted} have a positive prior "
                    "probability: write the model so that what it draws is possible"
                )
            batch = max(_FEWEST, worlds - accepted) if proposed else worlds
            parts.append(self._propose(batch, rng))
            accepted, proposed = accepted + len(next(iter(parts[-1].values()))), proposed + batch
        drawn = {name: np.concatenate([part[name] for part in parts])[:worlds] for name in self.shapes}
        return drawn, accepted / proposed * float(np.exp(self.log_share))

    def _propose(self, worlds: int, rng: np.random.Generator) -> Draws:
        """Propose `worlds` worlds and return the accepted ones."""
        *values, log_weight = self.sampler(worlds, rng)
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


def _relative_masses(variables: Sequence[TensorVariable]) -> list[TensorVariable]:
    """Log mass of a tabulated count's row relative to the largest row, for tables with rows of unequal mass."""
    terms = []
    for rv in variables:
        if isinstance(rv.owner.op, TabulatedRV):
            table, row, _ = rv.owner.op.dist_params(rv.owner)
            masses = logsumexp(evaluated(table), axis=-1).ravel()
            relative = masses - masses.max()
            if (relative[np.isfinite(relative)] < -1e-9).any():
                terms.append(pt.constant(relative)[row])
    return terms


def _all_at_once(outputs: list[TensorVariable], terms: list[TensorVariable]) -> Sampler:
    """Sampler that draws all worlds at once, by a leading axis in sizes and in parameters that vary.

    Distributions that are graphs of others (mixtures, truncations) are inlined first.

    Raises
    ------
    NotImplementedError : a distribution cannot be vectorized
    """
    worlds, graphs = pt.lscalar("worlds"), [*outputs, *terms]
    fgraph = FunctionGraph(_inputs(graphs), graphs, clone=True, copy_inputs=False)
    in2out(_whole_trials).rewrite(fgraph)
    open_operations(fgraph)
    new: dict[Any, Any] = {}
    for node in fgraph.toposort():
        batches = [new.get(i, i) for i in node.inputs]
        if isinstance(node.op, RandomVariable):
            made = _draw_worlds(node, batches, worlds)
        elif not any(i in new for i in node.inputs):
            continue
        elif isinstance(node.op, OpFromGraph | Scan):
            raise NotImplementedError(f"{node.op} cannot be drawn for many worlds at once")
        else:
            made = vectorized_node(node, batches)
        new |= zip(node.outputs, made, strict=True)

    def spread(graph: TensorVariable) -> TensorVariable:
        batch = new.get(graph, graph)
        return batch if batch.ndim > graph.ndim else pt.repeat(graph[None], worlds, axis=0)

    values = [spread(graph) for graph in fgraph.outputs]
    weights = [value.reshape((worlds, -1)).sum(axis=1) for value in values[len(outputs) :]]
    weight = sum(weights, start=pt.zeros(worlds, dtype="float64"))
    function = _compile([worlds], [*values[: len(outputs)], weight])
    return lambda number, rng: function(rng, number)


def _draw_worlds(node: Any, batches: Sequence[Any], worlds: TensorVariable) -> list[Any]:
    """Outputs of a random operation (generator, value) for all worlds."""
    op, value = node.op, node.outputs[1]
    shape = number_shape(value)[: value.ndim - op.ndim_supp]
    size = pt.stack([worlds, *map(np.int64, shape)])
    rng, _, *parameters = batches
    aligned = [
        _align_worlds(p, value.ndim - op.ndim_supp + n + 1) if p.ndim > old.ndim else p
        for p, old, n in zip(parameters, node.inputs[2:], op.ndims_params, strict=True)
    ]
    next_rng, drawn = op.make_node(rng, size, *aligned).outputs
    # The copy has one output: some operations assume that of the node of their input.
    return [next_rng, drawn.copy()]


def _align_worlds(parameter: TensorVariable, ndim: int) -> TensorVariable:
    """Reshape a parameter (worlds, ...) to `ndim` axes, so that the axis of worlds stays first."""
    missing = ndim - parameter.ndim
    return parameter.reshape((parameter.shape[0], *([1] * missing), *parameter.shape[1:])) if missing > 0 else parameter


def _one_by_one(outputs: list[TensorVariable], terms: list[TensorVariable]) -> Sampler:
    """Sampler that draws world after world, for distributions that cannot be vectorized: slow, same distribution."""
    fgraph = FunctionGraph(_inputs([*outputs, *terms]), [*outputs, *terms], clone=True, copy_inputs=False)
    in2out(_whole_trials).rewrite(fgraph)
    values, parts = fgraph.outputs[: len(outputs)], fgraph.outputs[len(outputs) :]
    function = _compile([], [*values, sum_terms(parts)])

    def sampler(worlds: int, rng: np.random.Generator) -> list[NDArray[Any]]:
        return [np.array(values) for values in zip(*(function(rng) for _ in range(worlds)), strict=True)]

    return sampler


def _compile(inputs: list[TensorVariable], outputs: list[TensorVariable]) -> Callable[..., list[NDArray[Any]]]:
    """Compile a function of a generator and of inputs; every call reseeds all random generators of the graph.

    PyMC's own `compile` updates the generators from call to call. This fails if a distribution draws from one generator
    in two ways, as `Truncated` does; every call would then repeat the same numbers.
    """
    mode = NUMPY_MODE.including("random_make_inplace", "local_check_parameter_to_ninf_switch")
    random = [v for v in ancestors(outputs) if isinstance(v.type, RandomType) and isinstance(v, SharedVariable)]
    generators = list(dict.fromkeys(random))
    function = pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")

    def seeded(rng: np.random.Generator, *arguments: Any) -> list[NDArray[Any]]:
        reseed_rngs(generators, int(rng.integers(2**63)))
        values: list[NDArray[Any]] = function(*arguments)
        return values

    return seeded


@node_rewriter([BinomialRV, BetaBinomialRV])  # type: ignore[untyped-decorator]
def _whole_trials(fgraph: Any, node: Any) -> list[Variable] | None:
    """Cast a float number of trials, as `pm.Data` stores it, to int64, which NumPy's binomial requires."""
    del fgraph
    trials, *others = node.op.dist_params(node)
    if trials.dtype in discrete_types:
        return None
    return list(node.op.make_node(*node.inputs[:2], trials.astype("int64"), *others).outputs)


def _inputs(graphs: Sequence[TensorVariable]) -> list[Any]:
    return [v for v in graph_inputs(graphs) if not isinstance(v, Constant)]
