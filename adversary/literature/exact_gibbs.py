"""Gibbs sampling of discrete latents from their exact full conditionals, and the faulty chain of a published table.

The belief about a total given the count inside is a factor of *both* conditionals of the two-level model, eqs 2.10 and
2.11 of Kazan and Reiter (2025): given a total of m, the count inside cannot be m + 1. `ExactGibbs` computes each
conditional from the model's joint density, so no factor can be left out. The published tables come from a chain whose
update of the count inside leaves the belief out; no joint distribution has these two conditionals.
`published_gibbs_probability` is P(in) under the stationary distribution of that chain.

References
----------
Kazan and Reiter (2025), "Assessing statistical disclosure risk for differentially private, hierarchical count data",
Statistica Sinica 35, section 2.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike, NDArray
from pymc.vartypes import discrete_types
from scipy.special import expit, logit, logsumexp

from adversary.adversaries.path import Adversary
from adversary.adversaries.plans import Plan
from adversary.models.enumeration import support_of
from adversary.models.fitting import GibbsStep, Point

Floats = NDArray[np.float64]


class ExactGibbs(GibbsStep):
    r"""Update of discrete latents one cell at a time, each from its exact distribution given all the rest.

    .. math:: P(v \mid \text{rest}) = p(v, \text{rest}) \Big/ \sum_{v'} p(v', \text{rest})

    over the finite support of v, evaluated in one call of the model's density.

    Parameters
    ----------
    vars : list of variables, optional
        Discrete latents to update; all of them unless given.
    support : mapping of name to values, optional
        For latents without a finite support of their own.
    model : pymc.Model, optional
        The model in context unless given.
    rng : seed or numpy.random.Generator, optional

    Notes
    -----
    Start at a point of positive probability: for such steps PyMC does not check, `model.check_start_vals` does.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     x = pm.DiscreteUniform("x", np.float64(0), np.float64(9))
    ...     y = pm.Normal("y", x, np.float64(2), observed=np.float64(4.2))
    ...     draws = pm.sample(100, tune=0, step=ExactGibbs(), progressbar=False, quiet=True)  # doctest: +SKIP
    """

    name = "exact_gibbs"

    def __init__(
        self, vars: Any = None, *, support: Mapping[str, ArrayLike] | None = None, model: Any = None, **options: Any
    ) -> None:
        model = pm.modelcontext(model)
        discrete = [rv for rv in model.free_RVs if rv.dtype in discrete_types]
        self.prepare(discrete if vars is None else vars, model, options)
        self.supports = {}
        for rv in (model.values_to_rvs[value] for value in self.vars):
            if rv.dtype not in discrete_types:
                raise TypeError(f"exact Gibbs updates discrete latents, {rv.name!r} is continuous ({rv.dtype})")
            self.supports[rv.name] = support_of(rv, support or {}, set(model.basic_RVs))[1]

    def step(self, point: Point) -> tuple[Point, list[dict[str, Any]]]:
        """One sweep over all cells of all latents."""
        for name, supports in self.supports.items():
            current = np.array(point[name])
            for cell, values in zip(np.ndindex(current.shape), supports, strict=True):
                states = np.repeat(current[None], values.size, axis=0)
                states[(slice(None), *cell)] = values
                current = self.chosen(name, states, point)
            point = {**point, name: current}
        return point, [{}]


def published_gibbs_probability(plan: Plan, adversary: Adversary, observed: Mapping[str, ArrayLike]) -> Any:
    r"""P(in) under the stationary distribution of the published, faulty two-level chain. For comparison only.

    .. math:: \frac{a}{a + 1 - b}, \qquad a = E[q(X_2) \mid \text{out}], \quad b = E[q(X_2) \mid \text{in}],

    where :math:`q(x_2)` is the chance that the chain's update of the count inside chooses "in". It uses
    :math:`P(k) \, P(\text{noisy}_1 \mid k) \, h(\text{sum} - x_2 + k)` but not the belief :math:`\pi(x_2 \mid k)`,
    so it can choose a count inside above the total. The update of :math:`X_2` is the right one. The posterior of the
    model itself is `Adversary.posterior`.

    Parameters
    ----------
    plan : Plan
        Two levels, one cell.
    adversary : Adversary
        With a known count at the lowest level.
    observed : mapping
        ``noisy[level]`` and ``sibling_sum[level]`` as `observed` names them: scalars, or arrays over releases.

    Returns
    -------
    float or array
        One probability per release.

    References
    ----------
    Kazan and Reiter (2025), eqs 2.10 and 2.11, and the tables of its section 2.4.
    """
    chain = adversary.level_beliefs(plan) if len(plan.levels) == 2 and plan.cells == 1 else ()
    known = chain[0].known_count if chain else None
    if known is None or not plan.levels[0].siblings:
        raise ValueError("the published chain is for two levels with siblings, one cell, and a known count below")
    low, high = plan.levels
    siblings = low.siblings or 0
    names = (f"noisy[{low.name}]", f"noisy[{high.name}]", f"sibling_sum[{low.name}]")
    noisy1, noisy2, total = np.broadcast_arrays(*(np.asarray(observed[name], dtype=np.float64) for name in names))
    inside = np.array(adversary.contributions()) + known
    totals = _totals(chain[1], inside, high.mechanism, noisy2, total)
    link = low.mechanism.total(siblings)

    def log_prob(mechanism: Any, release: Floats, value: ArrayLike) -> Floats:
        return np.asarray(mechanism.log_prob(release[..., None], value), dtype=np.float64)

    log_link = [log_prob(link, total, totals - k) for k in inside]
    own = log_prob(low.mechanism, noisy1, inside)
    with np.errstate(divide="ignore"):
        choose_in = expit(logit(adversary.prior) + own[..., 1:] - own[..., :1] + log_link[1] - log_link[0])
    stay = []
    for k, log_h in zip(inside, log_link, strict=True):
        log_p = log_h + log_prob(high.mechanism, noisy2, totals) + np.asarray(chain[1].log_prob(totals, k))
        stay.append((np.exp(log_p - logsumexp(log_p, axis=-1, keepdims=True)) * choose_in).sum(-1))
    out_to_in, in_to_in = stay
    return (out_to_in / (out_to_in + 1 - in_to_in))[()]


def _totals(belief: Any, inside: NDArray[np.int64], mechanism: Any, noisy: Floats, total: Floats) -> NDArray[np.int64]:
    """Grid of totals to sum over: from the smallest count inside to the end of the belief's support.

    Where the belief has no end, the grid goes on to the largest total that a release points to, plus the distance at
    which the noise of the total has no mass left.
    """
    reach = int(mechanism.support(0)[-1])
    pulled = int(max(noisy.max(), (inside.max() + total).max(), inside.max())) + reach
    ends = [belief.support(int(k))[1] for k in inside]
    last: Sequence[int] = [pulled if end is None else end for end in ends]
    return np.arange(int(inside.min()), max(last) + 1)
