"""One distinct count on the path from the target's unit upwards: the levels that publish it, and its link upwards."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from adversary._core import Floats
from adversary.adversaries.beliefs import Belief
from adversary.adversaries.path.links import REACH_NATS, AdjustedLink, EachLink, Link, SumLink
from adversary.adversaries.plans import Level, Plan
from adversary.privacy.mechanisms import Mechanism


@dataclass(frozen=True)
class Step:
    """One distinct count on the path: the levels that publish it, and its link to the next.

    Parameters
    ----------
    levels : places in the plan of the levels that publish this count, lowest first
    noises : their noise, one per level; none where the count is read through its link only
    belief : about this count, given the count of the step below
    link : to the next step; None at the top, and where no siblings' releases are read
    """

    levels: tuple[int, ...]
    noises: tuple[Mechanism, ...]
    belief: Belief
    link: Link | None

    def log_likelihood(self, noisy: Floats, x: Floats) -> Floats:
        """Log P(its releases | count x), for releases (release, level) and x (release, count)."""
        return sum(
            (n.log_likelihood(noisy[:, i, None], x) for n, i in zip(self.noises, self.levels, strict=False)),
            np.zeros(x.shape),
        )

    @property
    def rate(self) -> float | None:
        """Epsilon of its release, if there is exactly one and it has Laplace or geometric noise; None otherwise."""
        return self.noises[0].laplace_rate if len(self.noises) == 1 else None

    def log_likelihood_from(self, noisy: Floats, x: Floats) -> Floats:
        """Log of the sum of its one release's likelihoods over all counts from x upwards; needs `rate`.

        The likelihoods form one geometric series above the release and one below it. Shapes (release, count).
        """
        epsilon = self.rate or 0.0
        # over: release - x; below: number of counts from x up to the release; near: distance to the next count above.
        over = noisy[:, self.levels[:1]] - x
        below = np.floor(np.maximum(over, -1.0)) + 1.0
        near = np.where(over < 0.0, -over, below - over)
        least = -epsilon * near
        with np.errstate(divide="ignore"):
            rest = epsilon * (near - 1.0) + np.log(-np.expm1(-epsilon * below))
        peak = float(self.noises[0].log_likelihood(0.0, 0.0))
        return np.asarray(np.logaddexp(least, rest) + peak - np.log(-np.expm1(-epsilon)))

    def alike(self) -> list[tuple[Mechanism, list[int]]]:
        """Its distinct noises, each with the consecutive levels that share it."""
        pairs = groupby(zip(self.noises, self.levels, strict=False), key=lambda pair: id(pair[0]))
        groups = [list(group) for _, group in pairs]
        return [(group[0][0], [level for _, level in group]) for group in groups]

    @property
    def link_level(self) -> int:
        """The level whose siblings' releases lead to the next step."""
        return self.levels[-1]

    @property
    def adjusted(self) -> bool:
        """True where its own count is published only after adjustment to the next step's."""
        return isinstance(self.link, AdjustedLink)

    def exact_part(self) -> Step:
        """The step with its exact releases only, and no link."""
        exact = [(i, n) for i, n in zip(self.levels, self.noises, strict=False) if n.is_exact]
        return Step(tuple(i for i, _ in exact), tuple(n for _, n in exact), self.belief, None)

    @property
    def narrowest_radius(self) -> float:
        """Distance from its releases at which the narrowest likelihood has fallen by REACH_NATS, in people."""
        return min(noise.tail_radius(REACH_NATS) for noise in self.noises)


def link_above(plan: Plan, i: int, above: Belief) -> Link:
    """The link of a level's count to the next: the likelihood of the siblings' releases.

    Parameters
    ----------
    plan : the published counts
    i : place of the level, below the top
    above : belief about the total of the level above
    """
    level: Level = plan.levels[i]
    if plan.postprocessing is not None:
        return AdjustedLink(plan.postprocessing, level.mechanism, level.siblings or 0)
    if above.each is not None:
        return EachLink(i, level.mechanism, above.each)
    return SumLink(i, level.mechanism.total(level.siblings or 0))
