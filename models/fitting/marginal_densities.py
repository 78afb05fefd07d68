"""The compiled functions of a marginalised model: its gradient for nutpie, its terms at many points, its own scale."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.gradient import NullTypeGradError
from pytensor.graph.traversal import ancestors
from pytensor.graph.utils import MethodNotDefined
from pytensor.tensor.variable import TensorVariable

from adversary.models.enumeration import NUMPY_MODE, Conditioned, summed, vectorized

from .prior_draws import Priors


def parted(
    given: Conditioned, terms: Sequence[TensorVariable] | None = None
) -> tuple[list[TensorVariable], list[TensorVariable]]:
    """Terms, all of the log density unless given, that some continuous latent enters, and all others."""
    smooth = set(given.continuous.values())
    terms = given.model.logp(sum=False) if terms is None else terms
    meets = [not smooth.isdisjoint(ancestors([term])) for term in terms]
    entered = [term for term, met in zip(terms, meets, strict=True) if met]
    return entered, [term for term, met in zip(terms, meets, strict=True) if not met]


def latents_met(given: Conditioned, smooth: Sequence[TensorVariable]) -> list[str]:
    """Discrete latents that meet a continuous one in some term."""
    found = set(ancestors(smooth)) if smooth else set()
    return [name for name, value in given.latents.items() if value in found]


def _split_smooth(given: Conditioned, smooth: Sequence[TensorVariable]) -> list[TensorVariable]:
    """[m, c]: the sum of terms that discrete latents enter too, and of those they do not."""
    discrete = set(given.latents.values())
    mixed = [t for t in smooth if not discrete.isdisjoint(ancestors([t]))]
    return [summed(mixed), summed([t for t in smooth if t not in mixed])]


def compiled_sampler(
    given: Conditioned,
    smooth: Sequence[TensorVariable],
    states: list[NDArray[np.int64]],
    priors: Priors,
    carried: Sequence[str],
) -> Any:
    """The marginal density as a flat PyMC model of one vector, compiled by nutpie with everything else as data."""
    import nutpie  # type: ignore[import-untyped]

    table = pytensor.shared(np.zeros(states[0].shape[0] if states else 1), name="log_table")
    centre, scale = pytensor.shared(priors.centre, name="centre"), pytensor.shared(priors.scale, name="scale")
    data = {
        given.released[n]: pytensor.shared(np.zeros(_sizes(given, n), given.released[n].dtype), name=n) for n in carried
    }
    with pm.Model() as flat:
        z = pm.Flat("z", shape=priors.size)
        point = z * scale + centre
        pieces = {given.continuous[n]: point[part].reshape(shape) for n, part, shape in priors.layout}
        held = {v: pt.constant(s.astype(v.dtype)) for v, s in zip(given.latents.values(), states, strict=True)}
        met, alone = vectorized(_split_smooth(given, smooth), {**held, **data, **pieces})
        pm.Potential("marginal", alone + pt.logsumexp(met + table))
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Numba will use object mode")
            warnings.filterwarnings("ignore", message="Loop fusion failed")  # only slower
            return nutpie.compile_pymc_model(flat)
    except (NotImplementedError, NullTypeGradError, MethodNotDefined, UserWarning) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TypeError(
            f"the log density has no compiled gradient in the continuous latents {list(given.continuous)} ({reason}): "
            "write the laws in which they appear with PyTensor's operations; a law without a formula may only depend "
            "on discrete latents"
        ) from error


def _sizes(given: Conditioned, name: str) -> tuple[int, ...]:
    return tuple(n or 0 for n in given.released[name].type.shape)


def over_points(
    given: Conditioned,
    smooth: Sequence[TensorVariable],
    states: list[NDArray[np.int64]],
    priors: Priors,
    carried: Sequence[str],
) -> Callable[..., Any]:
    """[m, c] at many points: inputs continuous values (point, 1, *shape), then releases (1, 1, *shape)."""
    held = {v: pt.constant(s.astype(v.dtype)[None]) for v, s in zip(given.latents.values(), states, strict=True)}
    values = {given.continuous[n]: pt.tensor(dtype="float64", shape=(None, 1, *s)) for n, _, s in priors.layout}
    data = {given.released[n]: _placed(given.released[n], (1, 1)) for n in carried}
    outputs = vectorized(_split_smooth(given, smooth), {**held, **values, **data})
    compiled: Callable[..., Any] = pytensor.function(
        [*values.values(), *data.values()], outputs, mode=NUMPY_MODE, on_unused_input="ignore"
    )
    return compiled


def restored(given: Conditioned, priors: Priors, carried: Sequence[str]) -> Callable[..., Any]:
    """Continuous latents on their own scale; inputs their values, the discrete latents, the release, (point, ...)."""
    values = {given.continuous[n]: pt.tensor(dtype="float64", shape=(None, *s)) for n, _, s in priors.layout}
    latents = {v: _placed(v, (None,)) for v in given.latents.values()}
    data = {given.released[n]: _placed(given.released[n], (1,)) for n in carried}
    graphs = given.model.replace_rvs_by_values([given.model[name] for name in given.continuous])
    outputs = vectorized(graphs, {**values, **latents, **data})
    compiled: Callable[..., Any] = pytensor.function(
        [*values.values(), *latents.values(), *data.values()], outputs, mode=NUMPY_MODE, on_unused_input="ignore"
    )
    return compiled


def _placed(variable: TensorVariable, leading: tuple[int | None, ...]) -> TensorVariable:
    return pt.tensor(dtype=variable.dtype, shape=(*leading, *variable.type.shape))
