"""Skeleton of a PyMC model: copy it to `models/stories/`, then change the story. Its release is left free."""

from __future__ import annotations

import numpy as np
import pymc as pm

from adversary.models import noise
from adversary.privacy.mechanisms import Mechanism


def shared_household(mechanism: Mechanism, prior: float = 0.5, size: int = 4, together: float = 0.3) -> pm.Model:
    r"""A count of people with a trait that runs in households: the target, and others of the same household.

    .. math::
       \text{in} &\sim \text{Bernoulli}(p), \qquad
       \text{others} \mid \text{in} \sim \text{Binomial}(n, c \text{ if in else } c / 2) \\
       \text{noisy} &= \text{in} + \text{others} + \text{noise}

    Parameters
    ----------
    mechanism : Mechanism
        Noise of the count.
    prior : float
        p, the adversary's probability of the trait before the release.
    size : int
        n, other people of the household.
    together : float
        c, the probability that somebody has the trait whose housemate has it.

    Returns
    -------
    pymc.Model
        Free: ``in``, ``others``, ``noisy``.

    Examples
    --------
    >>> from adversary import DiscreteGaussian, enumerate_posterior
    >>> model = shared_household(DiscreteGaussian(1.0))
    >>> round(enumerate_posterior(model, {"noisy": 3}).posterior.item(), 4)
    0.8242
    """
    with pm.Model() as model:
        target = pm.Bernoulli("in", p=np.float64(prior))
        chance = pm.math.switch(target, np.float64(together), np.float64(together / 2.0))
        others = pm.Binomial("others", size, chance)
        noise.released("noisy", mechanism, target + others)
    return model
