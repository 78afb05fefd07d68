r"""NUTS for the continuous latents of a model whose discrete latents are summed out; compiled once for all releases.

.. math:: \log p(\theta, y) = \sum_c \log \sum_{s_c} \exp\big(m_c(\theta, s_c, y) + \ell_c(s_c, y)\big)

over every state of each component c of the discrete latents. The terms :math:`\ell` that no continuous latent enters
are a table of numbers for each release y, computed by `Terms` and passed to the compiled sampler as data; they need no
formula in PyTensor. :math:`\theta` is on PyMC's unconstrained scale, with its Jacobian. It is standardized by the
median and spread of its prior, so that step sizes are comparable across latents from the start.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from numpy.typing import NDArray
from pytensor.gradient import NullTypeGradError
from pytensor.graph.traversal import ancestors
from pytensor.graph.utils import MethodNotDefined

from adversary._core import Sampling, trajectories_passed
from adversary.models.importance import WeighedPrior

Floats = NDArray[np.float64]


_COLUMNS = {
    "diverging": "diverging",
    "energy": "energy",
    "tree_depth": "depth",
    "n_steps": "n_steps",
    "acceptance_rate": "mean_tree_accept",
    "step_size": "step_size",
}

# Sampler statistics of every trajectory, by their ArviZ names.
STATS = tuple(_COLUMNS)


@dataclass(frozen=True)
class Trace:
    """Draws (chain, draw, cell) of the continuous latents on the unconstrained scale, and `STATS` (chain, draw).

    Everything is NaN if no chain could be started.
    """

    points: Floats
    stats: Mapping[str, NDArray[Any]]

    @property
    def diverging(self) -> NDArray[np.bool_]:
        """Flags (chain, draw): True if a trajectory diverged."""
        return np.asarray(self.stats["diverging"] == 1)

    @property
    def energy(self) -> Floats:
        """Energy of each trajectory, (chain, draw)."""
        return np.asarray(self.stats["energy"])

    @property
    def passed(self) -> bool:
        """True if no trajectory diverged and the energies mix; a user's own steps may have no energies to check."""
        known = not np.isnan(self.energy).all()
        return trajectories_passed(self.diverging, self.energy) if known else not self.diverging.any()

    def at(self, draws: NDArray[np.int64]) -> Trace:
        """Trace of some draws of every chain."""
        return Trace(self.points[:, draws], {name: value[:, draws] for name, value in self.stats.items()})


@dataclass(frozen=True)
class Nuts:
    """Model compiled for nutpie.

    Parameters
    ----------
    prior : draws of the model's prior, and the terms of its density
    centre, scale : median and spread of every continuous cell under the prior, (cell,)
    carried : names of released variables that share a term with a continuous latent
    compiled : nutpie's compiled model
    """

    prior: WeighedPrior
    centre: Floats
    scale: Floats
    carried: tuple[str, ...]
    compiled: Any

    @classmethod
    def of(
        cls, prior: WeighedPrior, released: bool = True, compile_kwargs: Mapping[str, Any] = MappingProxyType({})
    ) -> Nuts:
        """Compile the density with the release, or that of the side data only; all sampled latents must be continuous.

        Raises
        ------
        TypeError : a continuous latent in a term without a gradient, or a setting that nutpie does not know
        ImportError : a backend that is not installed
        """
        terms, given = prior.terms, prior.terms.given
        centre, scale = _units(prior.points(prior.values))
        met = set(ancestors(terms.smooth[0 if released else 1]))
        carried = tuple(name for name, value in given.released.items() if value in met)
        data = {
            given.released[n]: pytensor.shared(np.zeros(_sizes(given.released[n]), given.released[n].dtype), name=n)
            for n in carried
        }
        table = pytensor.shared(np.zeros((max(terms.met.sizes), len(terms.met.sizes))), name="log_table")
        middle, width = pytensor.shared(centre, name="centre"), pytensor.shared(scale, name="scale")
        with pm.Model() as flat:
            point = pm.Flat("z", shape=centre.size) * width + middle
            ends = np.cumsum([int(np.prod(value.shape[1:])) for value in prior.values])
            pieces = {
                variable: point[end - int(np.prod(value.shape[1:])) : end].reshape(value.shape[1:])
                for variable, value, end in zip(given.continuous.values(), prior.values, ends, strict=True)
            }
            pm.Potential("marginal", terms.log_density({**data, **pieces}, table, released))
        return cls(prior, centre, scale, carried, _compile_gradient(flat, list(given.continuous), compile_kwargs))

    def sample(
        self,
        row: Mapping[str, NDArray[Any]],
        starts: Floats,
        sampling: Sampling,
        seed: int,
        progress: bool = False,
    ) -> Trace:
        """Sample the posterior of one release (`row`, *shape by name), with chains started at points (chain, cell).

        A KeyboardInterrupt stops the sampler and is raised again.
        """
        import nutpie  # type: ignore[import-untyped]

        data = {name: row[name] for name in self.carried}
        table = self.prior.terms.table({name: value[None] for name, value in row.items()})
        places = itertools.cycle((starts - self.centre) / self.scale)
        ready = _starting_at(
            self.compiled.with_data(log_table=self.prior.terms.met_table(table), **data), lambda: next(places).copy()
        )
        shape = (sampling.chains, sampling.draws)
        lengths = {"chains": sampling.chains, "tune": sampling.tune, "draws": sampling.draws, "cores": 1, "seed": seed}
        options = {"target_accept": sampling.target_accept, "progress_bar": progress, "save_warmup": False}
        running = None
        try:
            running = nutpie.sample(ready, **lengths, **options, return_raw_trace=True, blocking=False)
            drawn, traces = running.wait().get_arrow_trace()
        # nutpie raises this if the density is not finite at any starting point.
        except RuntimeError:
            nothing = np.full((*shape, self.centre.size), np.nan)
            return Trace(nothing, dict.fromkeys(STATS, nothing[..., 0]))
        except KeyboardInterrupt:
            if running is not None:
                running.cancel()
            raise
        sampled = [_column(one, "tuning") == 0 for one in traces]

        def stacked(tables: Any, name: str) -> Floats:
            return np.stack([_column(one, name)[keep] for one, keep in zip(tables, sampled, strict=True)])

        points = self.centre + self.scale * stacked(drawn, "z").reshape(*shape, -1)
        return Trace(points, {name: stacked(traces, column) for name, column in _COLUMNS.items()})


@dataclass(frozen=True)
class OwnSteps:
    """User's step methods in place of NUTS, on the model given the release, with all of its latents.

    Parameters
    ----------
    prior : draws of the model's prior, and the terms of its density
    step : function from the model given a release to PyMC's step methods; PyMC assigns its own to all other latents
    """

    prior: WeighedPrior
    step: Callable[[pm.Model], Any]

    def sample(
        self,
        row: Mapping[str, NDArray[Any]],
        starts: Floats,
        sampling: Sampling,
        seed: int,
        progress: bool = False,
    ) -> Trace:
        """As `Nuts.sample`: draws of the latents that are not summed out; draws of the others are discarded."""
        terms, seeds = self.prior.terms, np.random.SeedSequence(seed).generate_state(sampling.chains + 1)
        rng, given = np.random.default_rng(seeds[-1]), pm.observe(self.prior.model, dict(row))
        places = terms.latents(self.prior.split(starts), row, rng, len(starts))
        lengths: dict[str, Any] = {"draws": sampling.draws, "tune": sampling.tune, "chains": sampling.chains}
        lengths["initvals"] = [{name: value[i] for name, value in places.items()} for i in range(sampling.chains)]
        quiet: dict[str, Any] = {"progressbar": progress, "quiet": not progress, "compute_convergence_checks": False}
        with given:
            drawn = pm.sample(
                **lengths,
                **quiet,
                cores=1,
                step=self.step(given),
                random_seed=seeds[:-1].tolist(),
                idata_kwargs={"include_transformed": True},
            )
        names = [given.rvs_to_values[given[name]].name for name in terms.given.continuous]
        shape = (sampling.chains, sampling.draws)
        points = [drawn["posterior"][name].values.reshape(*shape, -1) for name in names]
        statistics = {name: drawn["sample_stats"].get(name) for name in STATS}
        unknown = np.full(shape, np.nan)
        stats = {n: unknown if v is None or v.shape != shape else v.values.astype(float) for n, v in statistics.items()}
        return Trace(np.concatenate(points, axis=-1).astype(np.float64), stats)


def _compile_gradient(flat: pm.Model, names: list[str], options: Mapping[str, Any]) -> Any:
    """Nutpie's compiled gradient of a density of one vector; TypeError with the latents' names if there is none."""
    import nutpie

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="Numba will use object mode")
            # Without loop fusion the code is slower, but right.
            warnings.filterwarnings("ignore", message="Loop fusion failed")
            return nutpie.compile_pymc_model(flat, **options)
    except (NotImplementedError, NullTypeGradError, MethodNotDefined, UserWarning) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TypeError(
            f"the log density has no compiled gradient in the continuous latents {names} ({reason}): write the laws in "
            "which they appear with PyTensor's operations; a law without a formula may only depend on discrete latents"
        ) from error


def _starting_at(compiled: Any, place: Callable[[], Floats]) -> Any:
    """Nutpie's model with given starting points; its two backends name the field differently."""
    known = [one.name for one in fields(compiled)]
    name = next(one for one in ("initial_point_func", "_make_initial_points") if one in known)
    return replace(compiled, **{name: lambda seed: place()})


def _sizes(variable: Any) -> tuple[int, ...]:
    return tuple(n or 0 for n in variable.type.shape)


def _column(table: Any, name: str) -> Floats:
    """Column of nutpie's trace, one row per step."""
    return np.array(table.column(name).to_pylist(), dtype=np.float64)


def _units(draws: Floats) -> tuple[Floats, Floats]:
    """Median, and half the width of the central 68 % interval, of every column; 1 in place of a zero width."""
    low, centre, high = np.quantile(draws, [0.16, 0.5, 0.84], axis=0)
    scale = 0.5 * (high - low)
    return centre, np.where(scale > 0, scale, 1.0)
