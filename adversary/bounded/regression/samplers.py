r"""Bayesian simple linear regression given noisy sums of data in [0, 1].

`gibbs` is Gibbs-SS-Noisy of Bernstein and Sheldon (2019) with the constraints of the thesis (section 4.5): given the
coefficients, the sums are normal by the central limit theorem, with the moments of x from the release; given the sums,
the coefficients have the conjugate distribution. The two conditionals do not belong to one joint distribution: the
first is an approximation, and the noise in the moments is not modelled. `models.regression` is exact, for up to 200
records.

`published=True` reproduces the published script with its errors, for comparison only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from adversary._core import Floats, Seed, as_array, check_whole, diagnose_named, seed_sequence
from adversary.bounded.regression.gibbs_sweeps import Sweeps
from adversary.bounded.regression.regression_law import Region, RegressionLaw, check_region, coefficients_in_units
from adversary.bounded.regression.regressor_moments import MIXED, project_moments
from adversary.bounded.regression.sufficient_statistics import SUMS, RegressionRelease


def gibbs(
    release: RegressionRelease,
    prior: RegressionLaw | None = None,
    constrained: bool = True,
    region: Region = "weak",
    *,
    draws: int = 4_000,
    burn: int = 1_000,
    chains: int = 16,
    rng: Seed = None,
    max_tries: int = 1_000,
    projected: bool = True,
    published: bool = False,
) -> xr.DataTree:
    """Posterior draws of intercept, slope, residual variance and the confidential sums.

    Parameters
    ----------
    release : noisy sums and moments
    prior : of (intercept, slope) and sigma2, in the units of the data; default `RegressionLaw()` for the rescaled data
    constrained : whether sums, coefficients and sigma2 <= 1/4 are restricted to feasible values for data in [0, 1].
        Each block is drawn until it is feasible, and no density is renormalised
    region : region of the coefficients; see `feasible_coefficients`
    draws, burn, chains : recorded sweeps of each chain, sweeps before them, and number of chains. Each starts from a
        draw of the prior, and all are vectorised: twice the chains cost little more, twice the draws cost twice as
        much. Draws are highly autocorrelated (a hundred sweeps or more per independent draw if noise dominates)
    rng : seed or Generator
    max_tries : number of draws of one block in one sweep that may be infeasible before a chain takes hit-and-run steps
        instead, from its distribution truncated to the region. The posterior does not depend on it; releases far
        outside the region are sampled by such steps only, and mix slowly
    projected : whether the noisy moments are projected to those of a distribution on [0, 1] and mixed with 5 % of the
        uniform one's; otherwise most releases have moments that no data have
    published : for comparison, never for inference, reproduce the published script (weak region, moments not
        projected), whose figure shows the wrong constraint. Under constraints, the precision is truncated from above at
        1/4, so sigma2 >= 4 instead of sigma2 <= 1/4 (erratum E2); xi enters the covariance of xy with its indices in
        the wrong order; the noise of the sums has rate 0.6 / 5 with constraints and 0.6 / 6 without, per 0.1 of the
        release's epsilon; and without constraints n is noisy (erratum E3). It has no hit-and-run steps

    Returns
    -------
    DataTree with group ``posterior``: intercept, slope, sigma2, dims (chain, draw), in the units of the data; sums,
    dims (chain, draw, statistic), of the rescaled data. Attributes: smallest ess and largest r_hat of intercept, slope
    and sigma2, epsilon, n and the settings.

    Warns
    -----
    UserWarning : draws are unreliable

    Raises
    ------
    TypeError : a prior that is no `RegressionLaw`, such as a flag in its place
    ValueError : numbers of draws below 1, a prior with a0 <= 1 under the constraints, an unknown region
    SamplerStuck : with `published`, no feasible sums or coefficients in max_tries draws

    References
    ----------
    Bernstein and Sheldon (2019), "Differentially private Bayesian linear regression", algorithm Gibbs-SS-Noisy; the
    thesis, section 4.5, for the constraints.
    """
    if prior is not None and not isinstance(prior, RegressionLaw):
        raise TypeError(f"prior must be a RegressionLaw or None, got {prior!r}; flags are named: constrained=False")
    sums, moments, rate = release.noisy_sums[1:], release.noisy_moments / release.n, float(release.epsilon)
    if published:
        region, sums = "weak", sums if constrained else release.noisy_sums
        rate *= len(SUMS) / sums.size
    else:
        moments[0] = 1.0
        moments = project_moments(moments, mixed=MIXED) if projected else moments
    unit_prior = RegressionLaw() if prior is None else prior.on_unit(release.x_bounds, release.y_bounds)
    if constrained and unit_prior.a0 <= 1.0:
        raise ValueError(f"a0 must be above 1 under the constraints, got {unit_prior.a0}")
    checks = {"draws": (draws, 1), "burn": (burn, 0), "chains": (chains, 1), "max_tries": (max_tries, 1)}
    draws, burn, chains, tries = (int(check_whole(name, x, minimum=low)) for name, (x, low) in checks.items())
    tight = check_region(region) == "tight"
    sampler = Sweeps(
        float(release.n), sums, moments, rate, unit_prior.mean, as_array(unit_prior.Lambda0),
        float(unit_prior.a0), float(unit_prior.b0), bool(constrained), tight, published, tries,
    )  # fmt: skip
    trace = sampler.run(chains, burn, draws, np.random.default_rng(seed_sequence(rng)))
    settings = {"constrained": int(constrained), "region": region, "published": int(published)}
    return _tree(release, *trace, settings)


def _tree(
    release: RegressionRelease, theta: Floats, sigma2: Floats, sums: Floats, settings: dict[str, Any]
) -> xr.DataTree:
    """DataTree of draws in the units of the data, with diagnostics and settings as attributes."""
    height = release.y_bounds[1] - release.y_bounds[0]
    intercept, slope = np.moveaxis(coefficients_in_units(theta, release.x_bounds, release.y_bounds), -1, 0)
    scalars = {"intercept": intercept, "slope": slope, "sigma2": height**2 * sigma2}
    variables: dict[str, Any] = {name: (("chain", "draw"), values) for name, values in scalars.items()}
    variables["sums"] = (("chain", "draw", "statistic"), sums)
    coords = {
        "chain": np.arange(theta.shape[0]),
        "draw": np.arange(theta.shape[1]),
        "statistic": list(SUMS[-sums.shape[-1] :]),
    }
    diagnosis = diagnose_named(scalars, "take more draws")
    attrs = {
        "ess": diagnosis.ess.min(),
        "r_hat": diagnosis.r_hat.max(),
        "n": release.n,
        "epsilon": float(release.epsilon),
        **settings,
    }
    return xr.DataTree.from_dict({"posterior": xr.Dataset(variables, coords=coords, attrs=attrs)})
