r"""Release of two levels of counts that are adjusted, after the noise, to add up to the parent's count.

.. math::
   t_2 &= \max(0, X_2 + \text{noise}) \\
   t_1 &= f(X_1 + \text{noise}, \text{the siblings' noisy counts}, t_2)

with f the agency's own algorithm. Only t1 and t2 are published. The noisy counts behind them are summed out exactly: a
Markov chain that had them as latents could not move.

References
----------
Kazan and Reiter (2025), "Assessing statistical disclosure risk for differentially private, hierarchical count data",
Statistica Sinica 35, section 2.11, eqs 2.41-2.47.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

from adversary._core import Floats, Seed
from adversary.adversaries.plans import Plan
from adversary.adversaries.postprocessing import Postprocessing
from adversary.models.noise import OwnLogProb, float64, released
from adversary.privacy.mechanisms import Mechanism


def released_adjusted(plan: Plan, rule: Postprocessing) -> None:
    """Add the published counts t2, then t1, to the model in context.

    Parameters
    ----------
    plan : plan with two levels, whose counts ``count[level]`` are in the model
    rule : the adjustment; draws run it on drawn noise, the density is `Postprocessing.log_prob`
    """
    lower, higher = plan.levels
    model = pm.modelcontext(None)
    own, total = (model[f"count[{level.name}]"] for level in plan.levels)
    parent = released(f"noisy[{higher.name}]", higher.mechanism, total)
    law = _Adjusted(rule, lower.mechanism, lower.siblings or 0)
    pm.CustomDist(
        f"noisy[{lower.name}]",
        float64(own),
        float64(total - own),
        float64(parent),
        logp=OwnLogProb(law),
        random=law.random,
        signature="(),(),()->()",
        dtype="int64",
        class_name=type(rule).__name__,
    )


@dataclass(frozen=True, eq=False)
class _Adjusted:
    """Distribution of a unit's published count given the true counts and the parent's published count."""

    postprocessing: Postprocessing
    mechanism: Mechanism
    siblings: int

    def log_prob(self, release: Floats, own: Floats, others: Floats, parent: Floats) -> Floats:
        """Log probability of the published count; minus infinity for negative true counts of others or parents."""
        possible = (others >= 0) & (parent >= 0)
        log_p = self.postprocessing.log_prob(
            release, np.maximum(parent, 0), own, np.maximum(others, 0), self.mechanism, self.siblings
        )
        return np.where(possible, log_p, -np.inf)

    def random(self, own: Any, others: Any, parent: Any, rng: Seed = None, size: Any = None) -> Any:
        """Draw of the published count: the algorithm applied to drawn noise."""
        generator = np.random.default_rng(rng)
        shape = np.broadcast_shapes(np.shape(own), np.shape(others), np.shape(parent)) if size is None else tuple(size)
        own, others, parent = (np.broadcast_to(x, shape) for x in (own, others, parent))
        noisy = self.mechanism.sample(own, generator, shape)
        return np.asarray(
            self.postprocessing.sample(noisy, parent, others, self.mechanism, self.siblings, generator), dtype=np.int64
        )
