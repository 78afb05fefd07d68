"""Thousands of releases of one model by importance sampling, and by nutpie only where that cannot be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary._core import blocks
from adversary.models.enumeration import condition
from adversary.models.importance import DRAWS, Hypotheses, WeighedPrior

from .fit_records import Refits, labelled
from .fit_releases import refit

KEPT = (4, 100)
"""Chains and draws of each, of every release: weighed draws of the prior, drawn again."""
METHOD = "draws of the prior, weighed by each release"
ADVICE = "more draws of the prior, a prior that explains the release, or another parametrisation may help"
WEIGHED = ("mcse", "ess", "k_hat")


def weigh_releases(
    model: Any,
    observed: Mapping[str, ArrayLike],
    target: str = "in",
    *,
    support: Mapping[str, ArrayLike] | None = None,
    settled: Sequence[str] = (),
    prior_draws: int = DRAWS,
    escalate: bool = True,
    rng: Any = None,
    prior_rng: Any = None,
    progress: bool = True,
    **how: Any,
) -> Refits:
    """Posteriors of a model's target for every release, from one set of draws of the prior.

    Parameters
    ----------
    model : pymc.Model with its release left free
    observed : released variables by name, arrays over releases
    target : name of a latent or Deterministic with values 0 and 1
    support : values of latents without a finite support of their own
    settled : released variables that are published exactly, the same in every release
    prior_draws : draws of the prior
    escalate : whether releases that these draws do not settle are fitted by nutpie, where that is possible
    rng : seed
    prior_rng : seed of the draws, from `rng` unless given: with the same one the prior is the same number whatever is
        fitted
    progress, how : as for `refit`

    Returns
    -------
    Refits : estimates per release, draws with dims (chain, draw, release), and the prior.

    Raises
    ------
    ValueError : an improper prior, or a target that is not 0 or 1
    """
    prior_seed, fit_seed, draw_seed, better_seed = blocks.seed_sequence(rng).spawn(4)
    prior = WeighedPrior.of(
        model, tuple(observed), target, support, settled, prior_seed if prior_rng is None else prior_rng, prior_draws
    )
    released, generator = prior.batched(observed), np.random.default_rng(draw_seed)
    before = prior.before()
    after = prior.before({name: released[name] for name in settled}) if settled else before
    size, count = next(iter(released.values())).shape[0], KEPT[0] * KEPT[1]
    answers, drawn = [], []
    reliable, reached, explained = (np.empty(size, dtype=kind) for kind in (bool, bool, float))
    samples = blocks.track(prior.weigh(observed, better_seed), "releases weighed", enabled=progress, total=size)
    for i, sample in enumerate(samples):
        answers.append(sample.answer)
        reliable[i], reached[i], explained[i] = sample.reliable, sample.reached, sample.explained
        row = {name: value[i] for name, value in released.items()}
        possible = sample.answer.weights.any()
        drawn.append(prior.draws_of(sample, row, count, generator) if possible else _nothing(prior, count))
    estimate = _estimate(answers, reliable).assign(explained=("release", explained))
    traces = {name: np.stack([_chained(one)[name] for one in drawn], axis=2) for name in prior.latents}
    failed = np.flatnonzero(~reliable & reached)
    fitted = 0
    if failed.size and escalate and _may_be_fitted(prior):
        some = {name: value[failed] for name, value in released.items()}
        options = {"support": support, "settled": settled, "rng": fit_seed, "prior_rng": prior_rng}
        found = refit(model, some, target, **options, progress=progress, **how)
        fitted = _put(estimate, traces, found, failed)
    first = _chained(prior.prior_draws(count, generator))
    return Refits(
        estimate,
        labelled(condition(model, tuple(observed), continuous=True), traces, ("chain", "draw", "release")),
        None,
        labelled(condition(model, tuple(observed), continuous=True), first, ("chain", "draw")),
        before,
        after,
        METHOD + (f"; {fitted} of {size} releases by nutpie" if fitted else ""),
        ADVICE,
    )


def _may_be_fitted(prior: WeighedPrior) -> bool:
    """Whether nutpie can sample all that is drawn, and sum out the target."""
    smooth = all(value.dtype.kind == "f" for value in prior.values)
    return bool(prior.values) and smooth and not prior.terms.one_reads_draws


def _nothing(prior: WeighedPrior, count: int) -> dict[str, NDArray[Any]]:
    """In place of draws where none is possible."""
    return {
        name: np.full((count, *v.shape[1:]), np.nan if v.dtype.kind == "f" else -1) for name, v in prior.latents.items()
    }


def _estimate(answers: Sequence[Hypotheses], reliable: NDArray[np.bool_]) -> xr.Dataset:
    """Estimates per release; no probability where they cannot be trusted."""
    values = {name: np.array([getattr(one, name) for one in answers]) for name in ("present", "out", *WEIGHED)}
    found = {"posterior": np.where(reliable, values["present"], np.nan)}
    found["complement"] = np.where(reliable, values["out"], np.nan)
    found |= {name: values[name] for name in WEIGHED}
    result = xr.Dataset({name: ("release", value) for name, value in found.items()})
    return result.assign(status=("release", np.where(reliable, "ok", "unreliable")))


def _put(estimate: xr.Dataset, traces: dict[str, NDArray[Any]], fits: Refits, failed: NDArray[np.int64]) -> int:
    """Fits in the place of what failed, where they passed and reach what the heaviest weighed draws reach."""
    accepted = 0
    for j, i in enumerate(failed):
        row = fits.estimate.isel(release=j)
        names = [name for name in traces if traces[name].dtype.kind == "f"]
        chains = {name: fits.draws[name].values[:, :, j] for name in names}
        if row["status"].item() != "ok" or not all(_covers(chains[n], traces[n][:, :, i]) for n in names):
            continue
        accepted += 1
        for name in ("posterior", "complement", "mcse", "ess", "k_hat", "status"):
            estimate[name].values[i] = row[name].item()
        step = max(1, fits.draws.sizes["draw"] // KEPT[1])
        for name, trace in traces.items():
            trace[:, :, i] = fits.draws[name].values[:, ::step, j][:, : KEPT[1]]
    return accepted


def _covers(chains: NDArray[Any], weighed: NDArray[Any]) -> bool:
    """Whether every cell's draws of the chains reach as far as draws weighed: in no mode of their own alone."""
    low, high, spread = chains.min(axis=(0, 1)), chains.max(axis=(0, 1)), np.ptp(chains, axis=(0, 1))
    inside = (weighed >= low - spread) & (weighed <= high + spread)
    return bool(inside.all())


def _chained(draws: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: value.reshape(*KEPT, *value.shape[1:]) for name, value in draws.items()}
