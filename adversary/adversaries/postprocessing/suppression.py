"""Releases below a threshold that are not published: a wrapper, as those that clamp and round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from adversary._core import TAIL_NATS, Floats, check_whole
from adversary.adversaries.postprocessing.coarsening import Coarsened, check_mechanism
from adversary.privacy.mechanisms import Mechanism


@dataclass(frozen=True, slots=True)
class Suppressed(Coarsened):
    """Releases below a threshold are published as "suppressed", which is itself a release.

    As a number "suppressed" is `below` - 1, the largest that is never published: write that number where a table shows
    a suppressed cell. So an adversary who reads it knows that the release inside was less than `below`, and no more.
    Complementary suppression, of further cells so that totals do not give these away, is a choice that depends on the
    whole table and has no law of one count; leave levels above unpublished where that is what is done.

    Without noise inside, `suppressed(Exact(), below=5)`, no guarantee holds: the loss is infinite, and the risk is that
    of counts that are published exactly from 5 on. `variance` is that of the mechanism inside.

    Parameters
    ----------
    mechanism : what is suppressed
    below : a whole number; releases from it on are published as they are

    >>> from adversary.privacy.mechanisms import Exact, Geometric
    >>> Suppressed(Exact(), 5).log_prob([4, 4, 3, 7], [0, 4, 3, 7]).tolist()
    [0.0, 0.0, -inf, 0.0]
    >>> noise = Geometric(1.0)
    >>> Suppressed(noise, 5).log_prob(4, 6) == float(np.log(noise.cdf(4, 6)))
    True
    """

    mechanism: Mechanism
    below: int

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)
        object.__setattr__(self, "below", int(check_whole("below", self.below)))

    @property
    def step(self) -> str:
        return f'numbers below {self.below} are suppressed ("suppressed" stands here as {self.below - 1})'

    def image(self, release: Any) -> Any:
        return np.where(np.less(release, self.below), self.below - 1, release)

    def first(self, release: Floats) -> Floats:
        return np.where(release <= self.below - 1, -np.inf, np.maximum(release, self.below))

    def last(self, release: Floats) -> Floats:
        edge = np.nextafter(self.below, -np.inf) if self.is_continuous else self.below - 1.0
        return np.where(release < self.below - 1, -np.inf, np.where(release < self.below, edge, release))

    def reach(self, nats: float = TAIL_NATS) -> float:
        """Of counts, which start at 0."""
        return self.mechanism.reach(nats) + abs(self.below)


suppressed = Suppressed
"""As `clamped` and `rounded`."""
