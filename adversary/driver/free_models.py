"""Any `pymc.Model` as an adversary, and as what makes the releases: no plan, released variables of any kind and shape.

The same answer as an audit of a plan has. What the truth names is held in the model, what it leaves open is drawn from
its conditional law, and the releases from the model's own; or a function of the user's makes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary._core import DEFAULT_FAILURE, Sampling, blocks, check_probability, check_whole, dask_address
from adversary.adversaries.risk import DRAWS
from adversary.driver.case import Bounds, groups_of
from adversary.driver.model_case import FITS, is_model, latents_of, target_side
from adversary.driver.posteriors import NUTS, distinct_arrays, read_releases
from adversary.driver.run_audit import ENGINES, named_guarantees, origin, unit_of
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.losses import PrivacyLoss

Simulator = Callable[[np.random.Generator, int], Mapping[str, ArrayLike]]


def audit_model(
    model: Any,
    truth: Mapping[str, Any],
    *,
    released: str | Iterable[str] | None = None,
    target: str = "in",
    guarantee: Guarantee | Mapping[str, Guarantee] | None = None,
    records: int = 1,
    privacy_unit: PrivacyUnit | None = None,
    failure: float = DEFAULT_FAILURE,
    engine: str = "exact",
    support: Mapping[str, ArrayLike] | None = None,
    simulate: Simulator | None = None,
    draws: int | None = None,
    sampling: Sampling | None = None,
    rng: Any = None,
    progress: bool = True,
    store: Any = None,
    scheduler: str | None = None,
    workers: int | None = None,
) -> xr.DataTree:
    """Audit of an adversary who believes a model: what is learned of its target, averaged over releases of a truth.

    Parameters
    ----------
    model : pymc.Model with its released variables left free. They may be of any number, shape and kind
    truth : values by name: of the target, and of as many latents and deterministics as are to be held. The others are
        drawn from their law given these and the side data observed in the model
    released : names of the released variables; unless given every variable called noisy, sibling_sum or siblings, alone
        or with a level, as in "noisy[block]"
    target : a latent or Deterministic with values 0 and 1
    guarantee : what was promised, one or a mapping of names. Beside it stands the loss of the model's own mechanisms,
        composed, where all releases were made by `models.noise.released`
    records : number of privacy units in which the two hypotheses differ
    privacy_unit : whose data a guarantee protects, and how much of the release one of them changes; unless given, a
        person who changes what the noise was calibrated for
    failure : probability with which a bound that is not certain may fail
    engine : "exact" enumerates where all latents are discrete and finite; otherwise, and with "importance", discrete
        latents are summed out as far as they can be and draws of the others weighed by every release. "enumerate" adds
        up states or refuses, "mcmc" samples continuous latents release by release with NUTS
    support : values of latents without a finite support of their own
    simulate : makes the releases instead of the model: a function of (generator, number of releases) that returns
        arrays (release, *shape) by name
    draws : number of simulated releases. Unless given 20,000 where states are enumerated, and otherwise 1,000
    sampling : lengths of sampled posteriors, `adversary.Sampling`
    rng : seed
    progress, store, scheduler, workers : as for `audit`; the last three are for releases that are not enumerated

    Returns
    -------
    DataTree with groups `release` (the released variables and `weight`), `exact` or `estimate` (posterior, log_odds and
    ratio per release; estimates with mcse, log_odds_mcse, ess, k_hat and status), `risk`, `bound`, and draws, where
    there are any, in the groups of ArviZ: as `audit` returns them.

    Raises
    ------
    ValueError, TypeError : naming the argument, the rule and the value

    Examples
    --------
    >>> import pymc as pm
    >>> from adversary import DiscreteGaussian, models
    >>> with pm.Model() as model:
    ...     sick = pm.Bernoulli("in", np.float64(0.1))
    ...     others = pm.Binomial("others", 20, np.float64(0.1))
    ...     noisy = models.noise.released("noisy", DiscreteGaussian(1.0), sick + others)
    >>> tree = audit_model(model, {"in": 1}, draws=1000, rng=1)
    >>> round(float(tree["risk"]["posterior_mean"]), 2), tree["bound"]["status"].values.tolist()
    (0.13, ['holds'])
    """
    from adversary.models.enumeration import released_names
    from adversary.models.fitting import label_arrays

    if not is_model(model):
        raise TypeError(f"model must be a pymc.Model, got {model!r}")
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {ENGINES}, got {engine!r}")
    check_probability("failure", failure)
    if sampling is not None and not isinstance(sampling, Sampling):
        raise TypeError(f"sampling must be an adversary.Sampling, got {sampling!r}")
    check_whole("records", records, minimum=1)
    names = list(released_names(model, released))
    way = _way(model, names, target, support or {}, engine)
    side = target_side(truth, target)
    size = (DRAWS if way == "enumerate" else FITS) if draws is None else int(check_whole("draws", draws, minimum=1))
    seed = blocks.seed_sequence(rng)
    prior_seed, release_seed, fit_seed = seed.spawn(3)
    data, weight = distinct_arrays(_simulated(model, names, truth, simulate, size, np.random.default_rng(release_seed)))
    release = label_arrays(model, data, ("release",))
    with dask_address(scheduler, workers) as address:
        options: dict[str, Any] = {"nuts": NUTS.get(way), "support": support or {}, "sampling": sampling}
        options |= {"rng": fit_seed, "prior_rng": prior_seed}
        options |= {"progress": progress, "store": store, "scheduler": address}
        readings = read_releases(model, side, release, weight, data, size, target=target, **options)
    bounds = Bounds(_Recognised(model, tuple(names), privacy_unit), int(records), int(records), float(failure))
    table = bounds.table(named_guarantees(guarantee), readings.law, readings)
    groups = groups_of(readings, readings.risk(), table)
    tree = xr.DataTree.from_dict({name: xr.DataTree(group) for name, group in groups.items()})
    own = {"engine": engine, "method": readings.method, "target": target, "failure": failure, "draws": size}
    own |= {"sensitivity": str(records), "released": json.dumps(names), "warnings": json.dumps([])}
    own |= {} if privacy_unit is None else {"privacy_unit": json.dumps({"model": unit_of(privacy_unit)})}
    own |= dict(groups["posterior"].attrs) if "posterior" in groups else {}
    tree.attrs |= own | origin(seed, rng, dict(truth), support, ["pymc"])
    return tree


def _way(model: Any, names: list[str], target: str, support: Mapping[str, ArrayLike], engine: str) -> str:
    """Method of the posteriors: "enumerate", "importance" or "mcmc"."""
    from adversary.models.enumeration import condition, is_enumerable

    continuous = latents_of(model, names, target, support)
    condition(model, names, continuous=True)
    if engine == "enumerate" and continuous:
        raise ValueError(f'engine "enumerate" adds up discrete states, and latent {continuous[0]!r} is continuous')
    if engine == "enumerate" or (engine == "exact" and is_enumerable(model, names, support, [target])):
        return "enumerate"
    return "importance" if engine == "exact" else engine


def _simulated(
    model: Any,
    names: list[str],
    truth: Mapping[str, Any],
    simulate: Simulator | None,
    size: int,
    rng: np.random.Generator,
) -> dict[str, NDArray[Any]]:
    """Releases (release, *shape) by name, of the model or of the user's function."""
    from adversary.models.enumeration import check_truth
    from adversary.models.importance import releases_under

    if simulate is None:
        return releases_under(model, truth, names, size, rng)
    check_truth(model, truth, names)
    made = simulate(rng, size)
    if not isinstance(made, Mapping):
        raise TypeError(f"simulate must return a mapping of {names} to arrays, got {type(made).__name__}")
    data = {name: np.asarray(value) for name, value in made.items()}
    if set(data) != set(names):
        raise ValueError(f"simulate must return {names}, got {list(data)}")
    for name, value in data.items():
        wanted = (size, *(int(n) for n in (model[name].shape.eval() if model[name].ndim else ())))
        if value.shape != wanted:
            raise ValueError(f"simulate: {name} must have shape {wanted}, got {value.shape}")
    return {name: data[name] for name in names}


@dataclass(frozen=True, eq=False)
class _Recognised:
    """What a plan says of its own noise, from the mechanisms of a model's released variables."""

    model: Any
    names: tuple[str, ...]
    unit: PrivacyUnit | None = None
    contribution: float = 1.0

    @property
    def privacy_unit(self) -> PrivacyUnit:
        return self.unit or PrivacyUnit()

    def units(self, change: int) -> int:
        """A model's hypotheses differ in units, not in counts."""
        return change

    def privacy_loss(self, records: int = 1) -> Guarantee:
        """The loss when so many privacy units change."""
        from adversary.models.noise import released_loss

        return released_loss(self.model, self.names, records, self.unit)

    def unit_loss(self) -> Guarantee | None:
        """The loss when one does; None where the mechanisms are not known."""
        loss = self.privacy_loss()
        return loss if isinstance(loss, PrivacyLoss) else None
