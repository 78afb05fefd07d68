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
    least : where given, releases below it are published as well, so that of `least` to `below` - 1 nothing is said but
        that: 1 where zeros are shown

    >>> from adversary.privacy.mechanisms import Exact, Geometric
    >>> Suppressed(Exact(), 5).log_prob([4, 4, 3, 7], [0, 4, 3, 7]).tolist()
    [0.0, 0.0, -inf, 0.0]
    >>> Suppressed(Exact(), 8, least=1).log_prob([0, 7, 3, 8], [0, 3, 3, 8]).tolist()  # 1 to 7 are suppressed
    [0.0, 0.0, -inf, 0.0]
    >>> noise = Geometric(1.0)
    >>> Suppressed(noise, 5).log_prob(4, 6) == float(np.log(noise.cdf(4, 6)))
    True
    """

    mechanism: Mechanism
    below: int
    least: int | None = None

    def __post_init__(self) -> None:
        check_mechanism(self.mechanism)
        object.__setattr__(self, "below", int(check_whole("below", self.below)))
        if self.least is not None:
            object.__setattr__(self, "least", int(check_whole("least", self.least)))
            if self.least >= self.below:
                raise ValueError(
                    f"least must be less than below, got {self.least} and {self.below}: nothing suppressed"
                )

    @property
    def step(self) -> str:
        which = f"below {self.below}" if self.least is None else f"from {self.least} to {self.below - 1}"
        return f'numbers {which} are suppressed ("suppressed" stands here as {self.below - 1})'

    @property
    def _start(self) -> float:
        return -np.inf if self.least is None else self.least

    def image(self, release: Any) -> Any:
        return np.where(np.less(release, self.below) & np.greater_equal(release, self._start), self.below - 1, release)

    def first(self, release: Floats) -> Floats:
        inside = np.where(release < self._start, release, self._start)
        return np.where(release <= self.below - 1, inside, np.maximum(release, self.below))

    def last(self, release: Floats) -> Floats:
        edge = np.nextafter(self.below, -np.inf) if self.is_continuous else self.below - 1.0
        before = np.nextafter(self._start, -np.inf) if self.is_continuous else self._start - 1.0
        shown = np.minimum(release, before)
        return np.where(release < self.below - 1, shown, np.where(release < self.below, edge, release))

    def reach(self, nats: float = TAIL_NATS) -> float:
        """Of counts, which start at 0."""
        return self.mechanism.reach(nats) + abs(self.below)


suppressed = Suppressed
"""As `clamped` and `rounded`."""
