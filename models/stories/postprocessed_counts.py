r"""Counts published after post-processing: made to add up to their parent's, or clamped and rounded one by one.

.. math::
   \text{in} &\sim \text{Bernoulli}(p), \qquad X_1 = m + \text{in}, \qquad X_2 \mid X_1 \sim \text{belief} \\
   t_2 &= \max(0, X_2 + \text{noise}) \\
   t_1 &= f(X_1 + \text{noise}, \text{the siblings' noisy counts}, t_2)

with f the agency's own algorithm. Only t1 and t2 are published; the noisy counts behind them are summed out exactly, as
latents of a chain they would freeze it.

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
from pytensor.tensor.variable import TensorVariable

from adversary._core import Floats
from adversary.models.noise import float64, own_log_prob, released
from adversary.privacy.mechanisms import Mechanism
from adversary.reader.path import Adversary
from adversary.reader.plans import Plan
from adversary.reader.postprocessing import Postprocessing

from .belief_priors import Upper, believed
from .counts import hierarchical_counts, latent_counts


def postprocessed(plan: Plan, reader: Adversary, upper: Upper = None) -> pm.Model:
    """A plan whose numbers are changed after the noise, as the reader sees what is published.

    Parameters
    ----------
    plan : Plan
        With a `Postprocessing` (`LeastSquares`, `NonNegative`), or with levels that are `clamped` or `rounded`.
    reader : Adversary
        Prior, hypotheses, beliefs; those about rates through their tables.
    upper : int or mapping of level name to int, optional
        As in `hierarchical_counts`.

    Returns
    -------
    pymc.Model
        Free: ``in``, ``others[level]``, and the published ``noisy[level]``: t1 at the lower level, t2 at the upper.
        Deterministic: ``count[level]``. Draws run the algorithm itself on drawn noises; the density is
        `Postprocessing.log_prob`. With clamped or rounded levels, the model of `hierarchical_counts`; several siblings
        of such a level have no sum to release and are read individually, under an `Each` belief.
    """
    if plan.postprocessing is None:
        if not any(level.mechanism.steps for level in plan.levels):
            raise ValueError(
                "postprocessed needs a plan with postprocessing, or with clamped or rounded levels: for releases as "
                "they are use hierarchical_counts"
            )
        apart = any(level.siblings and plan.sibling_noise(i) is None for i, level in enumerate(plan.levels))
        return hierarchical_counts(plan, reader, upper, individually=apart)
    model, ((lower, own, _), (higher, total, _)) = latent_counts(plan, reader, upper, believed)
    law = _Adjusted(plan.postprocessing, lower.mechanism, lower.siblings or 0)
    with model:
        parent = released(f"noisy[{higher.name}]", higher.mechanism, total)
        pm.CustomDist(
            f"noisy[{lower.name}]",
            float64(own),
            float64(total - own),
            float64(parent),
            logp=law.logp,
            random=law.random,
            signature="(),(),()->()",
            dtype="int64",
            class_name=type(plan.postprocessing).__name__,
        )
    return model


@dataclass(frozen=True, eq=False)
class _Adjusted:
    """Law of the unit's published count given the true counts and the parent's published count."""

    postprocessing: Postprocessing
    mechanism: Mechanism
    siblings: int

    def logp(
        self, release: TensorVariable, own: TensorVariable, others: TensorVariable, parent: TensorVariable
    ) -> TensorVariable:
        """The log probability in a graph."""
        return own_log_prob(self, release, own, others, parent)

    def log_prob(self, release: Floats, own: Floats, others: Floats, parent: Floats) -> Floats:
        """That of the algorithm; minus infinity where some number is no count."""
        possible = (others >= 0) & (parent >= 0)
        log_p = self.postprocessing.log_prob(
            release, np.maximum(parent, 0), own, np.maximum(others, 0), self.mechanism, self.siblings
        )
        return np.where(possible, log_p, -np.inf)

    def random(self, own: Any, others: Any, parent: Any, rng: Any = None, size: Any = None) -> Any:
        """The algorithm run on drawn noise."""
        generator = np.random.default_rng(rng)
        shape = np.broadcast_shapes(np.shape(own), np.shape(others), np.shape(parent)) if size is None else tuple(size)
        own, others, parent = (np.broadcast_to(x, shape) for x in (own, others, parent))
        noisy = self.mechanism.sample(own, generator, shape)
        return np.asarray(
            self.postprocessing.sample(noisy, parent, others, self.mechanism, self.siblings, generator), dtype=np.int64
        )
