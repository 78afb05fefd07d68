"""Posteriors to be calibrated: from many releases to the law of each variable, exact or by draws.

A posterior is any function from released arrays (simulation, ...) to a mapping of variable to its law: either (values
(value,), pmf (simulation, ..., value)) or independent draws (simulation, draw, ...).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary._core import check_whole, diagnose, seed_sequence
from adversary.models.enumeration import (
    Enumerator,
    compile_enumerator,
    derived,
    released_names,
    wanted_names,
)
from adversary.models.fitting import Marginalised, Settings
from adversary.reader.path import Adversary
from adversary.reader.plans import Plan

Arrays = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]
Posterior = Callable[[Arrays], Mapping[str, Any]]


@dataclass(frozen=True)
class Law(ABC):
    """A law of one variable in every simulation: values, shape (simulation, ..., value) or fewer leading axes."""

    values: NDArray[Any]

    @abstractmethod
    def place(self, truth: NDArray[Any], uniform: Floats) -> Floats:
        """Where the truth (simulation, ...) falls: uniform when the truth has this law."""


@dataclass(frozen=True)
class Pmf(Law):
    r"""Exact probabilities of the values: :math:`F(x-) + V \, P(x)`."""

    probability: Floats

    def place(self, truth: NDArray[Any], uniform: Floats) -> Floats:
        x = truth[..., None]
        below = np.where(self.values < x, self.probability, 0.0).sum(axis=-1)
        at = np.where(self.values == x, self.probability, 0.0).sum(axis=-1)
        return np.asarray(np.minimum(below + uniform * at, 1.0))  # probabilities add up to one and a rounding error


@dataclass(frozen=True)
class Sample(Law):
    r"""L independent draws: :math:`(\#\{v < x\} + V (\#\{v = x\} + 1)) / (L + 1)`."""

    def place(self, truth: NDArray[Any], uniform: Floats) -> Floats:
        x = truth[..., None]
        below, at = (self.values < x).sum(axis=-1), (self.values == x).sum(axis=-1)
        return np.asarray((below + uniform * (at + 1)) / (self.values.shape[-1] + 1))


def as_law(name: str, given: Any, shape: tuple[int, ...]) -> Law:
    """(values, pmf) or draws as a law of a variable of this shape, (simulation, ...), checked."""
    if isinstance(given, tuple):
        values, pmf = (np.asarray(part) for part in given)
        if pmf.shape != (*shape, values.shape[-1]):
            raise ValueError(f"pmf of {name} must have shape {(*shape, values.shape[-1])}, got {pmf.shape}")
        if not (np.abs(pmf.sum(axis=-1) - 1) < 1e-6).all():
            raise ValueError(f"pmf of {name} must sum to one in every simulation, got {pmf.sum(axis=-1).min()}")
        return Pmf(values, pmf)
    draws = np.asarray(given)
    rest = draws.shape[:1] + draws.shape[2:]
    if draws.ndim != len(shape) + 1 or rest != shape or draws.size == 0 or not np.isfinite(draws).all():
        raise ValueError(
            f"draws of {name} must have shape (simulations, draws, ...) = {(shape[0], 'L', *shape[1:])}, finite, "
            f"got {draws.shape}"
        )
    return Sample(np.moveaxis(draws, 1, -1))


@dataclass(frozen=True)
class Enumerated:
    """The exact posterior of a model with discrete latents, for many releases at once.

    Call it with released arrays (simulation, ...) to get (values, pmf) of each variable. Given to `calibrate` with
    another model, it says how far wrong assumptions go.
    """

    enumerator: Enumerator
    variables: tuple[str, ...]

    @classmethod
    def of(
        cls,
        model: pm.Model,
        variables: Sequence[str] | None = None,
        support: Mapping[str, ArrayLike] | None = None,
        released: Iterable[str] | None = None,
    ) -> Enumerated:
        """Compile the posterior of `variables` (every latent unless given, and "in")."""
        given = released_names(model, released)
        names = wanted_names(model, given, variables)
        return cls(compile_enumerator(model, given, names, support), tuple(names))

    def __call__(self, observed: Arrays) -> dict[str, Any]:
        return listed_laws(self.enumerator(observed), self.variables)


def listed_laws(table: xr.Dataset, variables: Iterable[str]) -> dict[str, Any]:
    """(values, pmf) of each variable from what an enumerator says."""
    return {name: (table[name].values, table[f"probability[{name}]"].values) for name in variables}


@dataclass(frozen=True)
class Likelihood:
    """log p(y | v) at values v (value,), for each simulation: (simulation, ..., value)."""

    values: NDArray[Any]
    log_p: Floats

    def __call__(self, at: NDArray[Any]) -> Floats:
        """At values (..., k), minus infinity at those that are not listed."""
        place = np.clip(np.searchsorted(self.values, at), 0, self.values.size - 1)
        shape = np.broadcast_shapes(place.shape, (*self.log_p.shape[:-1], 1))
        found = np.take_along_axis(self.log_p, np.broadcast_to(place, shape), axis=-1)
        return np.where(self.values[place] == at, found, -np.inf)


def likelihoods(table: xr.Dataset, variables: Iterable[str]) -> dict[str, Likelihood]:
    r"""Log likelihood of each variable's values, :math:`\log P(v \mid y) - \log P(v)` up to a constant of y."""
    result = {}
    for name in variables:
        pmf, prior = table[f"probability[{name}]"].values, table[f"prior_probability[{name}]"].values
        with np.errstate(divide="ignore", invalid="ignore"):
            log_p = np.where(pmf > 0, np.log(pmf) - np.log(prior), -np.inf)
        result[name] = Likelihood(table[name].values, log_p)
    return result


def posterior_of(plan: Plan, reader: Adversary) -> Posterior:
    """The exact posterior P(in | release) of an `Adversary`, as the posterior to calibrate, without PyMC.

    Truths and releases still come from a model: `calibrate(hierarchical_counts(plan, reader),
    posterior=posterior_of(plan, reader), variables=["in"])`. Improper beliefs have no prior to be calibrated under.

    Parameters
    ----------
    plan : what is published, and its noise
    reader : the adversary, with proper beliefs

    Returns
    -------
    A function from released arrays (simulation, ...), by name as in `noisy[level]`, to {"in": (values (2,), pmf
    (simulation, 2))}.

    Examples
    --------
    >>> from adversary import DiscreteGaussian, Level, models
    >>> plan, noisy = Plan([Level("block", DiscreteGaussian(2.0))]), {"noisy[block]": np.array([-1, 0, 3])}
    >>> exact = Enumerated.of(models.membership(plan, Adversary()))
    >>> bool(np.allclose(posterior_of(plan, Adversary())(noisy)["in"][1], exact(noisy)["in"][1], rtol=1e-12))
    True
    """

    def posterior(observed: Arrays) -> dict[str, Any]:
        numbers = {
            kind: {name: observed[f"{kind}[{name}]"] for name in plan.names if f"{kind}[{name}]" in observed}
            for kind in ("noisy", "sibling_sum", "siblings")
        }
        release = plan.observe(**{kind: values for kind, values in numbers.items() if values})
        inside = reader.posterior(plan, release, counts=False)["posterior"].values
        return {"in": (np.array([0, 1]), np.stack([1 - inside, inside], axis=-1))}

    return posterior


@dataclass(frozen=True)
class Sampled:
    """Draws from the posterior of a model with continuous latents too, release after release, compiled once.

    The discrete latents are summed out and drawn afterwards (see `marginal`). A fit whose effective size is below
    `keep` is repeated four times as long, and refused if that is not enough, so that the draws kept, evenly spaced,
    are nearly independent.

    Parameters
    ----------
    fit : the compiled model
    keep : draws kept of each fit
    settings : chains and their length
    rng : of the seeds of the fits
    variables : deterministics that are worked out from the draws
    derive : compiled, from the latents to these
    """

    fit: Marginalised
    keep: int
    settings: Settings
    rng: np.random.Generator
    variables: tuple[str, ...] = ()
    derive: Callable[..., Any] | None = None

    @classmethod
    def of(
        cls,
        model: pm.Model,
        support: Mapping[str, ArrayLike] | None = None,
        released: Iterable[str] | None = None,
        *,
        keep: int = 100,
        settings: Settings | None = None,
        variables: Sequence[str] | None = None,
        rng: Any = None,
    ) -> Sampled:
        """Compile the model for releases of the variables named in `released`.

        Every latent is drawn, and the deterministics among `variables` ("in" unless given).
        """
        generator = np.random.default_rng(seed_sequence(rng))
        names = released_names(model, released)
        derivable = {v.name for v in model.deterministics}
        extra = tuple(name for name in wanted_names(model, names, variables) if name in derivable)
        fit = Marginalised.of(model, names, None, support, int(generator.integers(2**31)))
        derive = derived(fit.conditioned, extra) if extra else None
        return cls(fit, int(check_whole("keep", keep, minimum=1)), settings or Settings(), generator, extra, derive)

    def __call__(self, observed: Arrays) -> dict[str, Any]:
        tables = self.fit.tables(observed)
        fits = [self._one(tables[..., i], self.fit.row(observed, i)) for i in range(tables.shape[-1])]
        return {name: np.stack([draws[name] for draws in fits]) for name in fits[0]}

    def _one(self, table: Floats, row: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        for settings in (self.settings, self.settings.longer(4)):
            draws, _ = self.fit.sample(table, row, settings, int(self.rng.integers(2**31)))
            if diagnose(draws).ess.min() >= self.keep:
                points = draws.reshape(-1, draws.shape[-1])
                kept = points[np.linspace(0, len(points) - 1, self.keep).astype(np.int64)]
                latents = self.fit.latents(kept, table, row, self.rng)
                values = self.derive(*latents.values()) if self.derive is not None else ()
                return latents | dict(zip(self.variables, values, strict=True))
        raise ValueError(
            f"the posterior of {row} has an effective size of {diagnose(draws).ess.min():.0f}, "
            f"fewer than the {self.keep} to keep: give longer settings"
        )
