"""Gibbs steps of discrete latents: draws from the exact conditional distribution over a set of states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.util import get_random_generator, get_value_vars_from_user_vars
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from adversary.models.enumeration import sum_terms, vectorize

Point = dict[str, NDArray[Any]]
"""Current values of a chain, by name of the value variable."""


class GibbsStep(BlockedStep):
    """Base of steps that draw each latent from its exact conditional over states that include the current one."""

    stats_dtypes_shapes: dict[str, Any] = {}  # noqa: RUF012
    _state_class = StepMethodState

    def prepare(self, vars: Any, model: pm.Model, options: Mapping[str, Any]) -> None:
        """Compile, for each latent, the terms of the density that depend on it."""
        self.vars = get_value_vars_from_user_vars(vars, model)
        self.blocked, self.rng = options.get("blocked", True), get_random_generator(options.get("rng"))
        self.densities = {value.name: _local_density(model, value) for value in self.vars}

    def chosen(self, name: str, states: NDArray[Any], point: Point) -> NDArray[Any]:
        """Draw one of the states (state, *shape) of a latent by its probability given the rest of the point."""
        log_density, inputs = self.densities[name]
        log_p = log_density(states, *(point[other] for other in inputs))
        if not np.isfinite(top := log_p.max()):
            raise ValueError(
                f"no state of {name} is possible given the rest of the point: start the chain at a point of positive "
                "probability (model.check_start_vals)"
            )
        cumulative = np.cumsum(np.exp(log_p - top))
        place = np.searchsorted(cumulative, self.rng.random() * cumulative[-1], side="right")
        # An array also for a scalar latent: compiled code accepts arrays only.
        return np.asarray(states[place])


def _local_density(model: pm.Model, value: TensorVariable) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """Log density terms that depend on a latent, compiled; and the names of the other variables they read."""
    terms = [term for term in model.logp(sum=False) if value in ancestors([term])]
    batch = pt.tensor(dtype=value.dtype, shape=(None, *value.type.shape))
    (log_density,) = vectorize([sum_terms(terms)], {value: batch})
    used = set(ancestors([log_density]))
    others = [v for v in model.value_vars if v in used]
    function = pytensor.function([batch, *others], log_density, on_unused_input="ignore")
    return function, tuple(v.name for v in others)
