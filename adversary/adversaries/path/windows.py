"""Windows: ranges of the counts that are summed at each step of a path, given the releases."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from adversary._core import Floats, Integers, as_array
from adversary.adversaries.beliefs import Belief
from adversary.adversaries.path.links import REACH_NATS, AdjustedLink, EachLink, SumLink
from adversary.adversaries.path.steps import Step
from adversary.adversaries.plans import Released
from adversary.privacy.mechanisms import Mechanism

MAX_STATES = 50_000_000
# Largest number of pairs of counts of two levels, per release: if held in memory, and if convolved.
MAX_PRODUCTS = 2_000_000_000
# Pairs of counts in memory at a time or, where sums are convolutions, counts: these stay in a processor's cache.
_CHUNK_STATES, _CHUNK_COUNTS = 4_000_000, 100_000
_WHOLE_SUPPORT = 4096
_DRIFT_ROUNDS = 6
# Truncated weight of a level's window, in nats: at most exp(-36), about 2e-16, under either hypothesis.
NEAR_NATS = 36.0
_SHARP = 1e6
_BLOCK = 64
# Candidates per step if the release was adjusted to its parent's total.
_CHOICES = 9


@dataclass(frozen=True)
class Windows:
    """Ranges of counts of the steps of a path; `steps` stand lowest first."""

    steps: tuple[Step, ...]

    def closed_form(self, step: int) -> bool:
        """True where the sum over the next count has a closed form: last step, flat belief, and Gaussian noise only.

        Without siblings' releases below, one release with Laplace or geometric noise has a closed form too."""
        above = self.steps[step + 1]
        if step + 2 < len(self.steps) or not above.belief.flat or not above.noises:
            return False
        link = self.steps[step].link if step >= 0 else None
        if link is None:
            return step < 0 and (above.rate is not None or all(noise.parabola for noise in above.noises))
        return isinstance(link, SumLink) and all(noise.parabola for noise in (*above.noises, link.noise))

    def above(self, released: Released, step: int, x: Floats, *, closed: bool) -> list[tuple[Floats, Integers]]:
        """For every step above `step`: the first count and the number of counts in its window, (release,) each."""
        low, high = np.full(len(released), x.min()), np.full(len(released), x.max())
        ranges: list[tuple[Floats, Floats]] = []
        last = step + 1
        while last < len(self.steps) and not (closed and self.closed_form(last - 1)):
            last += 1
        evidence_gap = self.evidence_gap(step, x, released) if last > step + 1 else low
        for i in range(step + 1, last):
            inside = low, high
            low, high = self._near(i, *self.of(i, low, high, released), inside, released, evidence_gap)
            low, high = self._of_both(i, low, high, inside, released, evidence_gap)
            ranges.append((low, high))
        for i in reversed(range(len(ranges) - 1)):
            ranges[i] = self._below(step + 1 + i, *ranges[i], *ranges[i + 1])
        return [(low, (high - low + 1).astype(np.int64)) for low, high in ranges]

    def _below(self, i: int, first: Floats, last: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """The part of step i's range that allows some total from low to high; at least one count."""
        belief = self.steps[i + 1].belief
        least, most = belief.support(0) if belief.independent else (0, None)
        last = np.clip(high - least, first, last)
        return np.clip(low - _or_infinity(most), first, last), last

    def of(self, i: int, low: Floats, high: Floats, released: Released) -> tuple[Floats, Floats]:
        """First and last count of step i's window, given the range below: hull of all estimates, widened by a reach.

        With log-concave factors the mode lies inside the hull; within the reach the step's likelihood falls by
        REACH_NATS. If a noise is neither log-concave nor bounded, all counts stay for `_near`, which needs neither.
        """
        step, noisy = self.steps[i], released.noisy
        for noise, level in zip(step.noises, step.levels, strict=False):
            if noise.is_exact:
                return noisy[:, level], noisy[:, level]
        bottom = _by_value(lambda k: float(step.belief.support(k)[0]), low)
        top = np.minimum(_by_value(lambda k: _or_infinity(step.belief.support(k)[1]), high), self._ceiling(i))
        top = np.maximum(top, bottom)
        if np.all(top - bottom < _WHOLE_SUPPORT):
            return bottom, np.maximum(top, bottom)
        # no release of its own: everything up to the next level that has one
        if not step.noises:
            above = next(s for s in self.steps[i + 1 :] if s.noises)
            ends = [noisy[:, above.levels[0]] + above.narrowest_radius] if np.isfinite(above.narrowest_radius) else []
            if step.belief.proper:
                ends.append(_by_value(lambda k: float((step.belief.window(k) or (k, k))[1]), high))
            if not ends and not np.isfinite(top).all():
                raise _endless(step.belief)
            return bottom, np.maximum(bottom, np.minimum(top, np.max(ends or [top], 0)))
        if i and self.closed_form(i - 1):
            return self._of_parabolas(i, low, high, released)
        if not self._hull_holds(i):
            return bottom, top
        sources = [noisy[:, level] for level in step.levels]
        below = self.steps[i - 1].link if i else None
        if below is not None:
            rise = below.suggested_increase(released)
            sources += [low + rise, high + rise]
        fall = np.zeros(len(released))
        for lower, upper in zip(self.steps[i:-1], self.steps[i + 1 :], strict=True):
            rise = lower.link.suggested_increase(released) if lower.link else np.zeros(len(released))
            fall = fall + np.minimum(rise, _supports(upper.belief, low)[1] - low)
            sources += [noisy[:, level] - fall for level in upper.levels]
        if step.belief.proper:
            sources.append(_by_value(lambda k: float((step.belief.window(k) or (k, k))[0]), low))
            sources.append(_by_value(lambda k: float((step.belief.window(k) or (k, k))[1]), high))
        sources += [np.clip(np.min(sources, 0), bottom, top), np.clip(np.max(sources, 0), bottom, top)]
        centre, reach = np.max(sources, 0), self._reach(i, np.zeros(len(released)))
        first = np.clip(np.floor(np.min(sources, 0) - reach), bottom, top)
        last = np.clip(np.ceil(centre + self._reach_of_growth(i, low, centre)), bottom, top)
        return first, last

    def _hull_holds(self, i: int) -> bool:
        """True where every noise from step i upwards, and of the siblings below it, is log-concave or has an end."""
        links = [step.link for step in self.steps[max(i - 1, 0) :] if step.link]
        noises = [noise for step in self.steps[i:] for noise in step.noises] + [link.released_noise for link in links]
        return all(
            one.log_concave or one.tail_radius(REACH_NATS) == one.tail_radius(2.0 * REACH_NATS) for one in noises
        )

    def evidence_gap(self, step: int, x: Floats, released: Released) -> Floats:
        """Upper bound on log peak - log evidence, in nats, from one feasible choice of the counts above x; (release,).

        The maximum over x. Each chosen count lies between its own release and the estimate from the count below.
        Beliefs and noise have mass one, so no sum over counts exceeds the noise's peaks. Infinite without a bound.
        """
        below = np.broadcast_to(np.asarray(x, dtype=np.float64), (len(released), np.size(x)))
        lost = np.zeros(below.shape)
        for i in range(step + 1, len(self.steps)):
            here, link = self.steps[i], self.steps[i - 1].link if i else None
            summed, one_by_one = self._noise_of_sum(i, released), link is not None and link.includes_belief(released)
            tractable = (
                link is None or (isinstance(link, AdjustedLink) and link.formula) or summed is not None or one_by_one
            )
            if not (here.noises or here.adjusted) or not tractable or not _at_most_one(here.belief):
                return np.full(len(released), np.inf)
            # an adjusted count is one release
            rho = [min(noise.curvature, _SHARP) for noise in here.noises] or [1.0]
            centre = sum((r * released.noisy[:, [j]] for r, j in zip(rho, here.levels, strict=True)), np.zeros(1))
            weight = sum(rho)
            if summed is not None:
                curve = min(summed.curvature, _SHARP)
                centre = centre + curve * (below + released.sums[:, [self.steps[i - 1].link_level]])
                weight = weight + curve
            low, high = _supports(here.belief, below)
            high = np.maximum(high, low)
            least, count = np.clip(below, low, high), np.clip(np.rint(centre / weight), low, high)
            several = here.adjusted or isinstance(link, AdjustedLink) or one_by_one
            choices = np.rint(np.linspace(least, count, _CHOICES, axis=-1)) if several else count[..., None]
            each = choices.reshape(len(released), -1)
            short = self._short(i, released, np.repeat(below, choices.shape[-1], axis=1), each).reshape(choices.shape)
            best = short.argmin(axis=-1)[..., None]
            lost = lost + np.take_along_axis(short, best, axis=-1)[..., 0]
            below = np.take_along_axis(choices, best, axis=-1)[..., 0]
        return np.asarray(lost.max(axis=1), dtype=np.float64)

    def _short(self, i: int, released: Released, below: Floats, count: Floats) -> Floats:
        """Log peak minus log likelihood of these counts of step i, given those below, in nats: (release, count)."""
        here, link = self.steps[i], self.steps[i - 1].link if i else None
        short = sum(noise.log_peak for noise in here.noises) - here.log_likelihood(released.noisy, count)
        if link is not None:
            short = short - link.log_prob(released, below, count)
        if isinstance(link, EachLink) and link.includes_belief(released):
            return np.asarray(short + link.belief.count * link.single.log_peak)
        peak = 0.0 if link is None or isinstance(link, AdjustedLink) else link.noise.log_peak
        return np.asarray(short - as_array(here.belief.log_prob(count, below)) + peak)

    def _noise_of_sum(self, i: int, released: Released) -> Mechanism | None:
        """Noise of the siblings' sum below step i, where that sum is the only link to the count below; else None."""
        link = self.steps[i - 1].link if i else None
        summed = isinstance(link, SumLink | EachLink) and not link.includes_belief(released)
        return link.noise if link is not None and summed else None

    def _near(
        self,
        i: int,
        first: Floats,
        last: Floats,
        inside: tuple[Floats, Floats],
        released: Released,
        evidence_gap: Floats,
    ) -> tuple[Floats, Floats]:
        """The part of a range near its own releases and near the siblings' sum, given the counts inside (low, high).

        All counts beyond it weigh at most exp(-NEAR_NATS)."""
        for noise, least, most in self._sources(i, inside, released):
            reach = np.full(len(released), np.inf)
            known = np.isfinite(evidence_gap)
            if known.any() and np.isfinite(noise.tail_radius(NEAR_NATS)):
                reach[known] = _reaches(noise, evidence_gap[known])
            first = np.maximum(first, np.minimum(least - reach, last))
            last = np.minimum(last, np.maximum(most + reach, first))
        if not np.isfinite(last).all():
            raise ValueError(
                f"noise must be log-concave beside the belief {self.steps[i].belief} and what is released above and of "
                "siblings: nothing tells how far the counts must be followed; give a belief with an end, such as "
                "Uniform(upper)"
            )
        return np.ceil(first), np.floor(last)

    def _sources(
        self, i: int, inside: tuple[Floats, Floats], released: Released
    ) -> list[tuple[Mechanism, Floats, Floats]]:
        """Noises of step i and of the siblings' sum below, with the smallest and largest count that each estimates."""
        step = self.steps[i]
        own = [(n, released.noisy[:, j], released.noisy[:, j]) for n, j in zip(step.noises, step.levels, strict=False)]
        if (summed := self._noise_of_sum(i, released)) is None:
            return own
        sums = released.sums[:, self.steps[i - 1].link_level]
        return [*own, (summed, inside[0] + sums, inside[1] + sums)]

    def _of_both(
        self,
        i: int,
        first: Floats,
        last: Floats,
        inside: tuple[Floats, Floats],
        released: Released,
        evidence_gap: Floats,
    ) -> tuple[Floats, Floats]:
        """The part of a wide range outside which the product of belief and noise is negligible.

        Counts are grouped in blocks. A block is dropped if its upper bound, over all counts inside, lies NEAR_NATS plus
        the log of the number of counts below a lower bound on the evidence: from `evidence_gap` or, at the last step,
        the largest of the blocks' lower bounds.
        """
        wide = np.flatnonzero(
            (last - first > _WHOLE_SUPPORT) & ((i + 1 == len(self.steps)) | np.isfinite(evidence_gap))
        )
        if not wide.size:
            return first, last
        belief, sources = self.steps[i].belief, self._sources(i, inside, released)
        falls_on_both_sides = len(sources) > len(self.steps[i].noises) or not i or self.steps[i - 1].link is None
        falling = all(n.summands[0].parabola or n.summands[0].laplace_rate for n, *_ in sources)
        if not (falls_on_both_sides and falling and belief.independent):
            return first, last
        low, high = inside[0][wide].min(), inside[1][wide].max()
        start, stop = first[wide].min(), last[wide].max()
        # A block of totals corresponds to `gap` more counts of others, since the count inside varies by as much.
        gap = int(high - low)
        block = _BLOCK + gap
        count = int(stop - start) // block + 1
        if count < 4 or count * block > MAX_STATES:
            return first, last
        others = start - high + np.arange(count * block + gap)
        law = sliding_window_view(as_array(belief.log_prob(others, 0.0)), block + gap)[::block]
        most = law.max(axis=1)
        peaks = sum(noise.log_peak for noise, *_ in sources)
        head = start + block * np.arange(count)
        tail = head + block - 1
        first, last = first.copy(), last.copy()
        for rows in np.array_split(wide, wide.size * count // _CHUNK_STATES + 1):
            upper = lower = most + np.zeros((rows.size, 1))
            for noise, below, above in sources:
                under, over = below[rows, None], above[rows, None]
                upper = upper + noise.log_likelihood(np.maximum(np.maximum(head - over, under - tail), 0.0), 0.0)
                lower = lower + noise.log_likelihood(np.maximum(tail - under, over - head) + gap, 0.0)
            certain = peaks - evidence_gap[rows, None]
            if i + 1 == len(self.steps):
                certain = np.maximum(certain, lower.max(axis=1, keepdims=True))
            near_bound = upper >= certain - NEAR_NATS - np.log(count * block)
            first[rows] = np.maximum(first[rows], head[near_bound.argmax(axis=1)])
            last[rows] = np.minimum(last[rows], tail[count - 1 - near_bound[:, ::-1].argmax(axis=1)])
        return first, last

    def _ceiling(self, i: int) -> float:
        """The largest total that any belief further up allows; no count below it can be larger."""
        laws = [step.belief for step in self.steps[i + 1 :]]
        fixed = [law.support(0)[1] for law in laws if law.support(0)[1] == law.support(1)[1]]
        return min((float(end) for end in fixed if end is not None), default=np.inf)

    def _reach_of_growth(self, i: int, low: Floats, centre: Floats) -> Floats:
        """Reach upwards, in people; longer if an improper belief grows with the total.

        The growth over the reach, in nats, is added to the fall required of the noise, and the reach is recomputed."""
        further = self._reach(i, np.zeros_like(centre))
        belief = self.steps[i].belief
        for _ in range(0 if belief.proper else _DRIFT_ROUNDS):
            grown = as_array(belief.log_prob(np.ceil(centre + further), low)) - belief.log_prob(low, low)
            further = self._reach(i, np.where(np.isfinite(grown), np.ceil(grown), 0.0))
        return further

    def _reach(self, i: int, nats: Floats) -> Floats:
        """Distance from the releases at which a step's likelihood has fallen by REACH_NATS + nats, (release,).

        A release clamped from above fits every larger count equally well; the siblings' releases or the belief must
        then bound the count.
        """
        step, below = self.steps[i], self.steps[i - 1].link if i else None
        holding = [noise for noise in step.noises if np.isfinite(noise.tail_radius(REACH_NATS))]
        if not holding and isinstance(below, SumLink | EachLink) and np.isfinite(below.noise.tail_radius(REACH_NATS)):
            holding = [below.noise]
        if holding:
            return _by_value(lambda n: min(noise.tail_radius(REACH_NATS + n) for noise in holding), nats)
        if step.belief.proper:
            return np.zeros_like(nats)
        raise _endless(step.belief)

    def _of_parabolas(self, i: int, low: Floats, high: Floats, released: Released) -> tuple[Floats, Floats]:
        """Window of the last step where all noise is Gaussian: the mode for either end below, and the joint reach."""
        step, noisy = self.steps[i], released.noisy
        curves = [noise.curvature for noise in step.noises]
        rho = sum(curves)
        link = self.steps[i - 1].link
        a = link.noise.curvature if link else 0.0
        centre = sum(curve * noisy[:, level] for curve, level in zip(curves, step.levels, strict=True)) / rho
        reach = np.sqrt(REACH_NATS / (rho + a))
        modes = [
            (rho * centre + a * (edge + released.sums[:, self.steps[i - 1].link_level])) / (rho + a)
            for edge in (low, high)
        ]
        return np.maximum(low, np.floor(modes[0] - reach)), np.ceil(np.maximum(modes[1], high) + reach)

    def of_second(self, x: Floats, releases: list[Floats], sums: Floats, beyond: Released) -> Floats:
        """Counts of the second step to follow for every combination of these releases and sibling sums.

        `beyond` holds releases of everything further up.
        """
        second, link_level = self.steps[1], self.steps[0].link_level
        columns = [*releases, sums]
        ends = [*([c.min(), c.max()] for c in columns), [0, 1], [0, 1]]
        corners: Floats = np.stack(np.meshgrid(*ends, indexing="ij"), -1).reshape(-1, len(ends))
        extremes = [(part.min(0), part.max(0)) for part in (beyond.noisy, beyond.sums)]
        edges = corners[:, -2:].astype(np.int64).T
        noisy, links = (np.array([low, high])[edge] for (low, high), edge in zip(extremes, edges, strict=True))
        noisy[:, list(second.levels)] = corners[:, : len(releases)]
        links[:, link_level] = corners[:, len(releases)]
        corner = Released(noisy, links)
        inside = np.full(len(corner), x.min()), np.full(len(corner), x.max())
        low, high = self._near(1, *self.of(1, *inside, corner), inside, corner, self.evidence_gap(0, x, corner))
        return np.arange(low.min(), high.max() + 1)


def _endless(belief: Belief) -> ValueError:
    return ValueError(
        f"a count clamped from above fits every larger count: the improper belief {belief} leaves it without an end; "
        "give one with an end, such as Uniform(upper)"
    )


def chunks(
    windows: list[tuple[Floats, Integers]], first: int, rows: int, most: int = MAX_STATES, *, convolved: bool = False
) -> Iterator[Integers]:
    """Row numbers in groups of similar window size, so that padding and memory stay small."""
    cost = costs(windows, first, rows)
    if cost.max() > most:
        worst = int(np.argmax(cost))
        widths = [int(size[worst]) for _, size in windows]
        raise ValueError(
            f"release number {worst} spans {widths} possible counts at its levels, too many to add up: "
            "the releases disagree too much, or the noise is too wide, for this belief or this many levels"
        )
    limit = _CHUNK_COUNTS if convolved else _CHUNK_STATES
    cost = sum((size for _, size in windows), np.full(rows, first)) if convolved else cost
    order, start = np.argsort(cost, kind="stable"), 0
    while start < rows:
        # Rows stand in order of cost: the last of a group has the largest. The group is halved until it fits.
        stop = rows
        while stop - start > 1 and (stop - start) * cost[order[stop - 1]] > limit:
            stop = start + (stop - start) // 2
        yield order[start:stop]
        start = stop


def _at_most_one(belief: Belief) -> bool:
    """True where no total has weight above one; with flat beliefs about several siblings, a total has many vectors."""
    alone = belief.each is not None and belief.each.count == 1
    return belief.proper or belief.flat or alone


def _supports(belief: Belief, inside: Floats) -> tuple[Floats, Floats]:
    """Smallest and largest possible totals given these counts inside."""
    low = _by_value(lambda k: float(belief.support(k)[0]), inside.ravel())
    high = _by_value(lambda k: _or_infinity(belief.support(k)[1]), inside.ravel())
    return low.reshape(inside.shape), high.reshape(inside.shape)


def _reaches(noise: Mechanism, nats: Floats) -> Floats:
    """Distances from a release at which the likelihood has fallen by nats + NEAR_NATS, or up to a sixteenth more.

    Nats are rounded up to few distinct values, since sums of noises need a search for each."""
    step = 2.0 ** np.maximum(np.floor(np.log2(np.maximum(nats, 1.0))) - 4.0, 0.0)
    return _by_value(lambda n: noise.tail_radius(NEAR_NATS + n), np.ceil(nats / step) * step)


def _by_value(function: Callable[[int], float], x: Floats) -> Floats:
    """A function of whole numbers over an array, called once per distinct value."""
    values, inverse = np.unique(x, return_inverse=True)
    return np.array([function(int(v)) for v in values])[inverse.ravel()]


def _or_infinity(end: int | None) -> float:
    return float("inf") if end is None else float(end)


def costs(windows: list[tuple[Floats, Integers]], first: int, rows: int) -> Integers:
    """Largest number of pairs of counts in the sums of one step, per release, with `first` counts at the bottom."""
    sizes = [np.full(rows, first), *(size for _, size in windows)]
    return np.asarray(np.max([np.full(rows, 32), *(a * b for a, b in itertools.pairwise(sizes))], axis=0))


def common(windows: list[tuple[Floats, Integers]], rows: Integers) -> list[tuple[Floats, int]]:
    """Windows of these rows, widened to one width: (first counts, width) per step."""
    return [(low, int(size[rows].max())) for low, size in windows]
