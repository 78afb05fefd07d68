"""Posteriors to be calibrated: functions from many releases to the distribution of each variable.

A posterior maps released arrays (simulation, ...) to one distribution per variable: either (values (value,), pmf
(simulation, ..., value)) or independent draws (simulation, draw, ...).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary._core import KEPT, Sampling, Seed, seed_sequence
from adversary.adversaries.path import Adversary
from adversary.adversaries.plans import Plan
from adversary.models.enumeration import (
    Enumerator,
    compile_enumerator,
    released_names,
    wanted_names,
)
from adversary.models.fitting import Fitter, Groups

Arrays = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float64]
Posterior = Callable[[Arrays], Mapping[str, Any]]


@dataclass(frozen=True)
class Ranked:
    r"""Posterior of one variable in every simulation: a pmf, or L independent draws.

    Parameters
    ----------
    values : support points or draws, (simulation, ..., value) or fewer leading axes
    weight : probability of each value; 1 for draws
    own : weight of the truth itself: 1 for draws, since the truth is ranked as one more draw, and 0 for a pmf
    """

    values: NDArray[Any]
    weight: Any = 1.0
    own: float = 1.0

    def place(self, truth: NDArray[Any], uniform: Floats) -> Floats:
        r"""Randomised rank of the truth (simulation, ...), uniform on (0, 1) if the truth has this distribution.

        :math:`F(x-) + V \, P(x)`, or :math:`(\#\{v < x\} + V (\#\{v = x\} + 1)) / (L + 1)`.
        """
        x = truth[..., None]
        below = np.where(self.values < x, self.weight, 0.0).sum(axis=-1)
        at = np.where(self.values == x, self.weight, 0.0).sum(axis=-1) + self.own
        total = self.values.shape[-1] + 1 if self.own else 1.0
        # The cut at 1 removes rounding: a pmf can sum to slightly more than one.
        return np.asarray(np.minimum((below + uniform * at) / total, 1.0))


def as_law(name: str, given: Any, shape: tuple[int, ...]) -> Ranked:
    """`Ranked` from (values, pmf) or draws of a variable of this shape (simulation, ...), after checking shapes."""
    if isinstance(given, tuple):
        values, pmf = (np.asarray(part) for part in given)
        if pmf.shape != (*shape, values.shape[-1]):
            raise ValueError(f"pmf of {name} must have shape {(*shape, values.shape[-1])}, got {pmf.shape}")
        if not (np.abs(pmf.sum(axis=-1) - 1) < 1e-6).all():
            raise ValueError(f"pmf of {name} must sum to one in every simulation, got {pmf.sum(axis=-1).min()}")
        return Ranked(values, pmf, 0.0)
    draws = np.asarray(given)
    rest = draws.shape[:1] + draws.shape[2:]
    if draws.ndim != len(shape) + 1 or rest != shape or draws.size == 0 or not np.isfinite(draws).all():
        raise ValueError(
            f"draws of {name} must have shape (simulations, draws, ...) = {(shape[0], 'L', *shape[1:])}, finite, "
            f"got {draws.shape}"
        )
    return Ranked(np.moveaxis(draws, 1, -1))


@dataclass(frozen=True)
class Enumerated:
    """The exact posterior of a model with discrete latents, for many releases at once.

    Call it with released arrays (simulation, ...) to get (values, pmf) of each variable. Passed to `calibrate` with
    another model, it measures the miscalibration that wrong assumptions cause.
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
    """(values, pmf) of each variable from the Dataset that an enumerator returns."""
    return {name: (table[name].values, table[f"probability[{name}]"].values) for name in variables}


def _looked_up(values: NDArray[Any], log_p: Floats, at: NDArray[Any]) -> Floats:
    """Look up log_p (simulation, ..., value), listed at `values` (value,), at points (..., k); -inf if not listed."""
    place = np.clip(np.searchsorted(values, at), 0, values.size - 1)
    shape = np.broadcast_shapes(place.shape, (*log_p.shape[:-1], 1))
    log_pmf = np.take_along_axis(log_p, np.broadcast_to(place, shape), axis=-1)
    return np.where(values[place] == at, log_pmf, -np.inf)


def likelihoods(table: xr.Dataset, variables: Iterable[str]) -> dict[str, Callable[[NDArray[Any]], Floats]]:
    r"""Log likelihood of each variable by value, :math:`\log P(v \mid y) - \log P(v)` up to a constant of y."""
    result: dict[str, Callable[[NDArray[Any]], Floats]] = {}
    for name in variables:
        pmf, prior = table[f"probability[{name}]"].values, table[f"prior_probability[{name}]"].values
        with np.errstate(divide="ignore", invalid="ignore"):
            log_p = np.where(pmf > 0, np.log(pmf) - np.log(prior), -np.inf)
        result[name] = partial(_looked_up, table[name].values, log_p)
    return result


def posterior_of(plan: Plan, adversary: Adversary) -> Posterior:
    """The exact posterior P(in | release) of an `Adversary`, as the posterior to calibrate, without PyMC.

    Truths and releases still come from a model: `calibrate(hierarchical_counts(plan, adversary),
    posterior=posterior_of(plan, adversary), variables=["in"])`. Improper beliefs cannot be calibrated:
    they have no prior to draw truths from.

    Parameters
    ----------
    plan : what is published, and its noise
    adversary : the adversary, with proper beliefs

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
        inside = adversary.posterior(plan, release, counts=False)["posterior"].values
        return {"in": (np.array([0, 1]), np.stack([1 - inside, inside], axis=-1))}

    return posterior


def posterior_draws(
    model: pm.Model,
    variables: Sequence[str],
    support: Mapping[str, ArrayLike] | None,
    released: Sequence[str],
    rng: Seed,
    sampling: Sampling | None = None,
) -> Posterior:
    """Posterior draws of all latents, continuous ones too: reweighted prior draws, or NUTS."""
    prior_seed, fit_seed = seed_sequence(rng).spawn(2)
    fitter = Fitter.of(model, tuple(released), None, support, (), prior_seed, sampling)
    groups = Groups.of(model, tuple(released))

    def posterior(observed: Arrays) -> dict[str, Any]:
        size = len(next(iter(observed.values())))
        fits = fitter.fits(observed, fit_seed.spawn(size), KEPT)
        failed = [i for i, one in enumerate(fits) if not one.passed]
        if failed:
            row = {name: value[failed[0]] for name, value in observed.items()}
            raise ValueError(
                f"of {size} posteriors {len(failed)} cannot be trusted, the first of {row}: give longer settings, or "
                "another parametrisation"
            )
        latents = {name: np.stack([one.latents[name] for one in fits]) for name in fitter.prior.latents}
        latents = {name: value.reshape(size, -1, *value.shape[3:]) for name, value in latents.items()}
        every = [*latents, *(name for name in variables if name not in latents)]
        draws = groups.chosen(latents, every, ("simulation", "draw"))
        return {name: draws[name].values for name in every}

    return posterior
