r"""Generative PyMC model of noisy nested counts, its release left free.

.. math::
   \text{in} &\sim \text{Bernoulli}(p), \qquad k_0 = \text{out or in contribution} \\
   X_1 \mid k_0 &\sim \text{belief}_1, \qquad X_{l+1} \mid X_l \sim \text{belief}_{l+1} \\
   \text{noisy}_l &= X_l + \text{noise}_l \\
   \text{sibling sum}_l &= (X_{l+1} - X_l) + \text{sum of } d_l \text{ noises of level } l

or, if siblings are read one by one, :math:`\text{sibling}_{l,i} = Y_{l,i} + \text{noise}_{l,i}` with
:math:`X_{l+1} = X_l + \sum_i Y_{l,i}`. The same model serves prior prediction, calibration, `pm.observe`, `pm.do`,
enumeration and sampling.

References
----------
Kazan and Reiter (2025), "Assessing statistical disclosure risk for differentially private, hierarchical count data",
Statistica Sinica 35, section 2.3, eqs 2.9-2.11, and sections 2.6, 2.10 and 2.11 for its variants.
"""

from __future__ import annotations

import numpy as np
import pymc as pm

from adversary.adversaries.path import Adversary
from adversary.adversaries.plans import Plan
from adversary.models.noise import released

from .adjusted_release import released_adjusted
from .belief_laws import Count, Limit, OthersOfLevel, Upper, has_rate


def hierarchical_counts(
    plan: Plan, adversary: Adversary, upper: Upper = None, *, individually: bool = False, rates: bool = False
) -> pm.Model:
    """PyMC model of a plan's published counts around one target, with an adversary's prior.

    The equations are those of the module: ``in`` ~ Bernoulli(prior); the count of each level is that of the level below
    plus others from the belief; every published number is a count plus noise.

    Parameters
    ----------
    plan : Plan
        Levels, lowest first. A level without siblings has the same people as the next and no sibling sum. With two
        cells, variables have dim ``cell``: the target counts in cell 0 if in, in cell 1 if out. Postprocessing may
        clamp or round numbers one by one, or adjust them to add up.
    adversary : Adversary
        Prior, hypotheses, beliefs. Its `attack` defines the meaning of "in": see `adversary.attacks`.
    upper : int or mapping of level name to int, optional
        Largest total (people) considered under an improper belief. The others of such a level (each sibling, under a
        flat `Each` read individually) are uniform on {0, ..., upper - c}, c the largest possible count at the lowest
        level. The posterior equals that of the improper belief once `upper` is beyond the range that the releases
        support. Unbounded proper beliefs are truncated where less than 1e-18 of their mass is left, but not below
        `upper`.
    individually : bool
        Whether siblings under an `Each` belief are released one by one instead of as their sum. Clamped or rounded
        numbers, which have no sum, always are. Every sibling's count is then a latent, so use it for few siblings.
    rates : bool
        Whether rates of `GammaPoisson` (mean per unit of exposure) and `BetaBinomial` beliefs (each person's
        probability) are latents instead of being integrated out.

    Returns
    -------
    pymc.Model
        Free: ``in``, ``others[level]``, ``noisy[level]``, ``sibling_sum[level]``; ``sampled`` under a sampling
        rate; with rates ``rate[level]``; individually ``sibling_count[level]`` and ``siblings[level]``, dim
        ``sibling of <level>``, instead of others and sum. Deterministic: ``count[level]``. A belief that excludes a
        count inside adds ``belief[level]``, a potential of minus infinity there.

    Raises
    ------
    ValueError
        An improper belief without `upper`, a belief that excludes every count inside, or an option without a belief
        that it applies to.

    Examples
    --------
    >>> from adversary import DiscreteGaussian, Level, enumerate_posterior
    >>> noise = DiscreteGaussian(2.0)
    >>> plan = Plan([Level("block", noise, siblings=27), Level("group", noise)])
    >>> model = hierarchical_counts(plan, Adversary(0.5, beliefs={"group": [0.2, 0.5, 0.3]}))
    >>> seen = {"noisy[block]": 2, "noisy[group]": 1, "sibling_sum[block]": -1}
    >>> round(enumerate_posterior(model, seen).posterior.item(), 4)
    0.5605
    """
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan, and the adversary comes after it, got {plan!r}")
    dims = ("cell",) if plan.cells > 1 else None
    believed = list(zip(*(adversary.level_beliefs(plan, cell) for cell in range(plan.cells)), strict=True))
    contributions = np.array([adversary.contributions(cell) for cell in range(plan.cells)])
    out, present = contributions.T if dims else contributions[0]
    least, most = int(contributions.min()), int(contributions.max())
    limit = Limit(upper, most + max(belief.known_count or 0 for belief in believed[0]))
    apart = individually or _must_be_apart(plan)
    if individually and not any(belief.each is not None for row in believed for belief in row):
        raise ValueError("individually: no belief is about each sibling; give some upper level Each(law)")
    if rates and not any(has_rate(belief) for row in believed for belief in row):
        raise ValueError(f"rates: no belief is GammaPoisson or BetaBinomial, got {dict(adversary.beliefs)}")

    with pm.Model(coords={"level": plan.names, **({"cell": range(plan.cells)} if dims else {})}) as model:
        target = pm.Bernoulli("in", p=np.float64(adversary.prior))
        sampled = pm.Bernoulli("sampled", p=np.float64(adversary.sampling_rate)) if adversary.sampling_rate < 1.0 else 1
        count = Count(out + (present - out) * target * sampled, least, most)
        for below, level, beliefs in zip([None, *plan.levels[:-1]], plan.levels, believed, strict=True):
            outside = OthersOfLevel(level.name, f"others[{level.name}]", beliefs, count, limit, dims, rates)
            if below is None:
                count += outside.counted()
            elif below.siblings and apart and outside.each:
                siblings = outside.siblings(below.name)
                released(f"siblings[{below.name}]", below.mechanism, siblings.value, dims=siblings.dims)
                count += siblings.total()
            elif below.siblings:
                others = outside.counted()
                if plan.postprocessing is None:
                    released(f"sibling_sum[{below.name}]", below.mechanism, others.value, below.siblings, dims=dims)
                count += others
            count = count.named(f"count[{level.name}]")
            if plan.postprocessing is None:
                released(f"noisy[{level.name}]", level.mechanism, count.value, dims=dims)
        if plan.postprocessing is not None:
            released_adjusted(plan, plan.postprocessing)
    return model


def _must_be_apart(plan: Plan) -> bool:
    """True if siblings publish clamped or rounded numbers, which cannot be summed."""
    sums = [plan.sibling_noise(i) for i, level in enumerate(plan.levels) if level.siblings]
    return plan.postprocessing is None and None in sums


def membership(plan: Plan, adversary: Adversary, upper: Upper = None) -> pm.Model:
    """PyMC model of the target's membership in one published count: `hierarchical_counts` for a plan with one level.

    Parameters
    ----------
    plan : Plan
        Plan with exactly one level.
    adversary : Adversary
        Prior, hypotheses and belief about the others.
    upper : int, optional
        Largest total (people) considered under an improper belief.

    Returns
    -------
    pymc.Model
        As in `hierarchical_counts`.

    Raises
    ------
    ValueError
        The plan has several levels.

    Examples
    --------
    >>> from adversary import DiscreteGaussian, Level
    >>> [rv.name for rv in membership(Plan([Level("block", DiscreteGaussian(2.0))]), Adversary(0.5)).free_RVs]
    ['in', 'noisy[block]']
    """
    if len(plan.levels) != 1:
        raise ValueError(f"membership is about one level, the plan has {[*plan.names]}: use hierarchical_counts")
    return hierarchical_counts(plan, adversary, upper)
