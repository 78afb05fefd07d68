r"""Gibbs sampler of the mean and variance given a noisy release: the thesis's algorithm, one update corrected.

The state is (mu, sigma2, Ybar, S2, w2), with w2 the variance of the mean's noise as a scale mixture of normals.
Constraints truncate every conditional; the target is the posterior given the event that the statistics are feasible
(`feasibility="event"`). `adv.bounded.posterior` computes it by quadrature; the sampler is its slow check.

References
----------
The thesis, sections 4.3 and 4.4, equations 4.27 to 4.58.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from adversary._core import Floats, Seed, check_whole, diagnose_named, in_threads, seed_sequence
from adversary.bounded.bounded_release import BoundedRelease
from adversary.bounded.prior import Flat, NormalInverseGamma, as_prior
from adversary.bounded.propriety import check_proper, unit_cap

if TYPE_CHECKING:
    import xarray as xr

NAMES = ("mu", "sigma2", "sample_mean", "sample_variance")


class ChainInput(NamedTuple):
    """Input of a compiled chain, on [0, 1]."""

    n: int
    release: tuple[float, float, float, float]
    prior: tuple[float, float, float, float, float]
    constrained: bool
    limit: float
    """Cap on sigma2 in the thesis, (n - 1) / (2 n epsilon2)."""


def gibbs(
    release: BoundedRelease,
    prior: Any = "flat",
    constrained: bool = True,
    *,
    draws: int = 20_000,
    burn: int = 2_000,
    chains: int = 4,
    thin: int = 10,
    rng: Seed = None,
    cap: float | None = None,
    published: bool = False,
) -> xr.DataTree:
    r"""Draw mu, sigma2 and the confidential sample mean and variance, given a release with Laplace noise.

    One sweep draws mu, sigma2, Ybar, S2 and 1 / w2 from their full conditionals:

    .. math::
        \mu &\sim N((n \bar Y + \kappa_0 \mu_0) / (n + \kappa_0), \sigma^2 / (n + \kappa_0)) \\
        \sigma^2 &\sim IG((n + \nu_0 + 1) / 2,
            [\nu_0 s_0^2 + (n - 1) S^2 + n (\bar Y - \mu)^2 + \kappa_0 (\mu - \mu_0)^2] / 2) \\
        \bar Y &\sim N((Y^* / w^2 + n \mu / \sigma^2) / (1 / w^2 + n / \sigma^2), 1 / (1 / w^2 + n / \sigma^2)) \\
        S^2 &\sim TGM((n - 1) / 2, (n - 1) / (2 \sigma^2), n \epsilon_2, S^*) \\
        1 / w^2 &\sim \mathrm{InverseGaussian}(n \epsilon_1 / |Y^* - \bar Y|, n^2 \epsilon_1^2)

    with kappa0 = 0 and shape (n - 2) / 2 for a flat prior. Constrained: sigma2 <= mu (1 - mu), S2 <= n / (n - 1) Ybar
    (1 - Ybar), both means inside [0, 1].

    Parameters
    ----------
    release : one release of a mean and a variance, Laplace noise
    prior : "flat" or a `NormalInverseGamma` in the units of the data
    constrained : whether the bounds of the data are used
    draws, burn, chains, thin : recorded draws of each chain, sweeps before them, number of chains, sweeps per recorded
        draw. A sweep takes about a microsecond; with an informative prior, about 200 sweeps equal one independent draw
    rng : seed; every chain has its own child, so the number of threads does not matter
    cap : largest sigma2, in the squared unit of the data; default (n - 1) / (2 n epsilon2) on [0, 1]
    published : for comparison only, use the conditional of sigma2 as printed in the thesis (4.28, 4.33, 4.58), which
        belongs to independent priors on mu and sigma2: without kappa0 (mu - mu0)^2, and with shape (n + nu0) / 2. No
        joint distribution has both it and the conditional of mu (4.27), so with an informative prior the result is
        wrong (erratum E1)

    Returns
    -------
    xarray.DataTree with group "posterior", dims (chain, draw): mu, sigma2, sample_mean, sample_variance in the units of
    the data; `ess` (the smaller of bulk and tails) and `r_hat` (rank-normalised) are attributes of every variable.

    Raises
    ------
    ValueError : Gaussian noise, a statistic missing, many releases or priors, a prior given as a function, a flat prior
        with too few values (`check_proper`), epsilon2 >= 2 (n - 1) / n without `cap`

    Warns
    -----
    UserWarning : an effective sample below 400, R-hat above 1.01 or a draw that is not a number

    >>> release = BoundedRelease(34.3, 2224.8, n=43, epsilon=(0.25, 0.25), bounds=(0, 100))
    >>> draws = gibbs(release, draws=2000, rng=1)["posterior"]
    >>> round(float(draws["mu"].mean()), -1)
    40.0
    """
    inputs = chain_input(release, prior, constrained, cap, published=published)
    size, top = check_size(draws, burn, thin), _cap(inputs, release, cap)
    from adversary.bounded.thesis.chains import statistics_chain

    def chain(generator: np.random.Generator) -> Floats:
        return statistics_chain(generator, size, *inputs[:4], top)

    states = run_chains(chain, chains, rng)
    name = "gibbs, conditional of sigma2 as printed (erratum E1)" if published else "gibbs"
    return as_tree(states, release, {"sampler": name, "feasibility": "event", **settings(inputs, size, prior)})


def chain_input(
    release: BoundedRelease, prior: Any, constrained: bool, cap: float | None = None, *, published: bool = False
) -> ChainInput:
    """Input of a chain; ValueError if these samplers do not apply, or the posterior is improper."""
    remedy = "adv.bounded.posterior handles it"
    if not isinstance(release, BoundedRelease):
        raise TypeError(f"release must be a BoundedRelease, got {release!r}")
    if release.shape:
        raise ValueError(f"a sampler takes one release, got shape {release.shape}: {remedy}")
    if release.noise != "laplace":
        raise ValueError(f"the Gibbs sampler is for Laplace noise, got {release.noise} noise: {remedy}")
    for name in ("mean", "variance"):
        if getattr(release, name) is None:
            raise ValueError(f"the Gibbs sampler needs a released mean and variance, got {name}=None: {remedy}")
    n, numbers = int(release.size), prior_numbers(prior, release.bounds, published=published)
    check_proper(release, as_prior(prior), constrained, cap)
    first, second = (float(1.0 / scale) for scale in release.unit_scales)
    noisy = (float(release.unit_mean), float(release.unit_variance), first, second)
    return ChainInput(n, noisy, numbers, bool(constrained), (n - 1) / (2.0 * second))


def prior_numbers(
    prior: Any, bounds: tuple[float, float], *, published: bool = False
) -> tuple[float, float, float, float, float]:
    """Prior (mu0, kappa0, power, scale, pull) on [0, 1], see `chains`; `published`: as printed in the thesis."""
    checked_prior = as_prior(prior)
    if isinstance(checked_prior, Flat):
        return (0.0, 0.0, 0.0, 0.0, 0.0)
    if not isinstance(checked_prior, NormalInverseGamma):
        raise ValueError(f"prior must be flat or a NormalInverseGamma, got {prior!r}: adv.bounded.posterior handles it")
    if checked_prior.shape:
        raise ValueError(
            f"a sampler takes one prior, got shape {checked_prior.shape}: adv.bounded.posterior handles it"
        )
    unit = checked_prior.on_unit(bounds)
    mu0, kappa0, nu0, s0 = (float(np.asarray(x)) for x in (unit.mu0, unit.kappa0, unit.nu0, unit.s0))
    if published:
        return (mu0, kappa0, 0.5 * nu0 + 1.0, nu0 * s0**2, 0.0)
    return (mu0, kappa0, 0.5 * (nu0 + 3.0), nu0 * s0**2, kappa0)


def _cap(inputs: ChainInput, release: BoundedRelease, cap: float | None) -> float:
    """Largest sigma2 on [0, 1]: `cap`, by default that of the thesis, which must be above 1/4."""
    if cap is None:
        if inputs.limit <= 0.25:
            raise ValueError(
                f"epsilon of the variance must be below 2 (n - 1) / n = {2.0 * (inputs.n - 1) / inputs.n:g}, got "
                f"{inputs.release[3] / inputs.n:g}: use adv.bounded.posterior (quadrature), or give cap="
            )
        return inputs.limit
    top = unit_cap(cap, release)
    largest = min(top, 0.25) if inputs.constrained else top
    if inputs.n == 2 and largest > inputs.limit:
        raise ValueError(
            f"with n = 2 cap must be at most {inputs.limit * release.width**2:g}, (n - 1) / (2 n epsilon2) in the "
            f"units of the data, got {cap!r}: adv.bounded.posterior handles it"
        )
    return top


def check_size(draws: Any, burn: Any, thin: Any) -> tuple[int, int, int]:
    """(draws, burn, thin), checked, as int."""
    values = {"draws": (draws, 1), "burn": (burn, 0), "thin": (thin, 1)}
    first, second, third = (int(check_whole(name, x, minimum=low)) for name, (x, low) in values.items())
    return first, second, third


def run_chains(chain: Callable[[np.random.Generator], Floats], chains: Any, rng: Seed) -> Floats:
    """(chain, draw, variable) draws: every chain with the generator of its own child seed, in threads."""
    seeds = seed_sequence(rng).spawn(int(check_whole("chains", chains, minimum=1)))
    generators = [np.random.default_rng(seed) for seed in seeds]
    return np.stack(in_threads(chain, generators, os.cpu_count() or 1))


def settings(inputs: ChainInput, size: tuple[int, int, int], prior: Any) -> dict[str, Any]:
    """Settings of a run as attributes of a Dataset."""
    return {
        "n": inputs.n,
        "prior": "flat" if inputs.prior[1] == 0.0 else repr(prior),
        "constrained": int(inputs.constrained),
        "burn": size[1],
        "thin": size[2],
    }


def as_tree(states: Floats, release: BoundedRelease, attrs: dict[str, Any]) -> xr.DataTree:
    """DataTree of draws in the units of the data, with diagnostics; UserWarning if they are unreliable.

    states : (chain, draw, variable) draws on [0, 1]
    """
    import xarray as xr

    (low, _), width = release.bounds, release.width
    offset, factor = (low, 0.0, low, 0.0), (width, width**2, width, width**2)
    coords = {name: np.arange(size) for name, size in zip(("chain", "draw"), states.shape, strict=False)}
    remedy = "raise draws or thin, or use adv.bounded.posterior"
    diagnosis = diagnose_named({name: states[..., i] for i, name in enumerate(NAMES)}, remedy)
    variables = {
        name: (
            ("chain", "draw"),
            offset[i] + factor[i] * states[..., i],
            {"ess": diagnosis.ess[i], "r_hat": diagnosis.r_hat[i]},
        )
        for i, name in enumerate(NAMES)
    }
    posterior = xr.Dataset(variables, coords, {**attrs, "bounds": [float(x) for x in release.bounds]})
    tree = xr.DataTree.from_dict({"posterior": posterior})
    if states.shape[-1] > len(NAMES):
        acceptance = (("chain", "draw"), states[..., len(NAMES)])
        tree["sample_stats"] = xr.DataTree(xr.Dataset({"acceptance_rate": acceptance}, coords))
    return tree
