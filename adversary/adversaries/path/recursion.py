"""The backward recursion on a path of nested counts, for one adversary and one published cell.

Given the target's contribution k0, the counts X1 <= X2 <= ... form a Markov chain whose transitions are the beliefs.
Every level releases X_l + noise. Every level below the top also releases the sum of its siblings' releases,
(X_{l+1} - X_l) + the sum of d noises. The likelihood of a release under each hypothesis is exact up to a truncated tail
of exp(-36) per level:

    M_l(x) = log P(noisy_l | x) + log sum_{x'} belief(x' | x) h_l(sum_l - (x' - x)) exp(M_{l+1}(x')).

with h_l the density of the sum of noises. The belief is a factor of every term, so a count inside never exceeds its
total (Kazan and Reiter 2025, section 2.3; the published sampler omits that constraint from one of its two updates).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from adversary._core import Floats, as_array, log_sum_exp, log_tail_sum, log_tail_sums
from adversary.adversaries.beliefs import Belief
from adversary.adversaries.path.links import AdjustedLink
from adversary.adversaries.path.log_products import log_correlation, log_matrix_product
from adversary.adversaries.path.posterior_belief import PosteriorBelief
from adversary.adversaries.path.steps import Step, link_above
from adversary.adversaries.path.windows import MAX_PRODUCTS, MAX_STATES, Windows, chunks, common, costs
from adversary.adversaries.plans import Plan, Released
from adversary.privacy.losses import LatticeLoss, PrivacyLoss
from adversary.privacy.mechanisms import Mechanism

AT_ONCE = 50_000
"""Releases per batch in the search for distinct ones: sorting takes several times the memory of the releases."""

# Pairs of counts of two steps whose work equals that of one count of a step, about: convolved, or one by one.
_CONVOLVED, _ONE_BY_ONE = 360.0, 7.0


def distinct_rows(rows: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of the distinct rows in lexical order, and the place of every row among them.

    Rows of whole numbers are coded as one whole number each if that is exact: sorting then takes a tenth of the time.

    Parameters
    ----------
    rows : numbers, (row, column)

    Returns
    -------
    Index of one row of each kind, (distinct,), and for each row the place of its kind in that index, (row,)

    >>> index, place = distinct_rows(np.array([[2.0, 1.0], [0.0, 5.0], [2.0, 1.0]]))
    >>> index.tolist(), place.tolist()
    ([1, 0], [1, 0, 1])
    """
    low, high = rows.min(axis=0), rows.max(axis=0)
    with np.errstate(invalid="ignore", over="ignore"):
        spans = high - low + 1.0
        exact = bool(np.prod(spans) < 2.0**53 and np.abs([low, high]).max() < 2.0**53 and (rows == np.rint(rows)).all())
    if not exact:
        _, index, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return index, inverse.ravel()
    # A mixed-radix code, below 2**53 and so exact in doubles, keeps the lexical order.
    weights = np.append(np.cumprod(spans[:0:-1])[::-1], 1.0)
    code = ((rows - low) @ weights).astype(np.int64)
    order = np.argsort(code)
    first = np.diff(code[order], prepend=-1) > 0
    place = np.empty(order.size, dtype=np.intp)
    place[order] = np.cumsum(first) - 1
    return order[first], place


@dataclass(frozen=True)
class Path:
    """The recursion for one adversary, one plan, one cell: steps, lowest first, and contributions if (out, in)."""

    steps: tuple[Step, ...]
    contributions: Floats

    @classmethod
    def of(
        cls, plan: Plan, chain: tuple[Belief, ...], contributions: tuple[int, int], *, exact_only: bool = False
    ) -> Path:
        """The path of a plan, from one belief per level, lowest first; `exact_only` reads its exact levels only."""
        groups: list[list[int]] = []
        for i in range(len(plan.levels)):
            if i and plan.levels[i - 1].siblings == 0:
                groups[-1].append(i)
            else:
                groups.append([i])
        steps = []
        for group in groups:
            last = group[-1]
            link = link_above(plan, last, chain[last + 1]) if plan.levels[last].siblings else None
            noises = () if isinstance(link, AdjustedLink) else tuple(plan.levels[i].mechanism for i in group)
            steps.append(Step(tuple(group), noises, chain[group[0]], link))
        if exact_only:
            steps = [step.exact_part() for step in steps]
            steps = steps[: max((i + 1 for i, step in enumerate(steps) if step.noises), default=0)]
        path = cls(tuple(steps), np.array(contributions, dtype=np.float64))
        for k in path.contributions:
            for noise in steps[0].noises if steps else ():
                noise.check_value(steps[0].belief.support(int(k))[0], "smallest count believed in")
        return path

    @property
    def windows(self) -> Windows:
        """Ranges of the counts that are summed at each step."""
        return Windows(self.steps)

    @property
    def known(self) -> bool:
        """True where the adversary knows everybody else at the lowest level."""
        return bool(self.steps) and self.steps[0].belief.known_count is not None

    def known_counts(self) -> Floats:
        """The lowest count if (out, in), (2,), for an adversary who knows everybody else there; TypeError otherwise."""
        count = self.steps[0].belief.known_count
        if count is None:
            raise TypeError("this adversary does not know the others at the lowest level")
        return self.contributions + count

    def log_bayes_factor(self, released: Released, *, lowest: bool = True) -> Floats:
        """log P(release | in) - log P(release | out) of one cell's releases, nats, (release,).

        `lowest=False` leaves out the lowest level's release, which is independent of all others if `known`.
        """
        first, noisy = self.steps[0], released.noisy
        if lowest and not self.known:
            return self._difference(self._log_likelihoods(released, -1, self.contributions))
        x = self.known_counts()
        own = np.zeros(len(released))
        # inf - inf is NaN: one exact count rules out "in" and another rules out "out".
        with np.errstate(invalid="ignore"):
            for noise, levels in first.alike():
                read = [level for level in levels if lowest or level > 0]
                seen, place = np.unique(noisy[:, read], return_inverse=True)
                ratio = as_array(noise.log_ratio(seen, x[1], x[0]))
                own = own + ratio[place.reshape(len(noisy), len(read))].sum(axis=1)
            refuse_impossible(np.isnan(own))
            log_factor = own if len(self.steps) == 1 else own + self.evidence_above(released, x)
        refuse_impossible(np.isnan(log_factor))
        return log_factor

    def log_likelihoods(self, released: Released) -> Floats:
        """log P(release | out) and log P(release | in) of one cell's releases, up to one constant: (release, 2)."""
        return self._log_likelihoods(released, -1, self.contributions)

    def evidence_above(self, released: Released, x: Floats) -> Floats:
        """The log Bayes factor without the lowest step's own releases, nats, (release,); `x` its count if (out, in)."""
        used = [i for step in self.steps[1:] for i in step.levels]
        if len(released) > AT_ONCE:
            parts = (np.arange(i, min(i + AT_ONCE, len(released))) for i in range(0, len(released), AT_ONCE))
            return np.concatenate([self.evidence_above(released.rows(part), x) for part in parts])
        if len(released) == 1:
            return self._difference(self._log_likelihoods(released, 0, x))
        linked = [step.link.columns(released) for step in self.steps[:-1] if step.link]
        key = np.concatenate([released.noisy[:, used], *linked], axis=1)
        index, inverse = distinct_rows(key)
        return self._difference(self._log_likelihoods(released.rows(index), 0, x))[inverse]

    @staticmethod
    def _difference(log_likelihoods: Floats) -> Floats:
        refuse_impossible(np.isneginf(log_likelihoods).all(-1))
        return log_likelihoods[:, 1] - log_likelihoods[:, 0]

    def _log_likelihoods(self, released: Released, step: int, x: Floats) -> Floats:
        """log P(all releases above a step | its count x), in chunks that fit in memory: (release, count)."""
        windows = self.windows.above(released, step, x, closed=True)
        result = np.full((len(released), x.size), np.nan)
        most = MAX_PRODUCTS if self._convolved else MAX_STATES
        for rows in chunks(windows, x.size, len(released), most, convolved=self._convolved):
            part = [(low[rows], size) for low, size in common(windows, rows)]
            result[rows] = self._transition(step, np.broadcast_to(x, (rows.size, x.size)), released.rows(rows), part)
        return result

    @property
    def _convolved(self) -> bool:
        """True where every sum over counts is a convolution, which needs no table of pairs in memory."""
        adjusted = any(isinstance(step.link, AdjustedLink) for step in self.steps)
        return not adjusted and all(step.belief.independent for step in self.steps[1:])

    def _transition(self, step: int, x: Floats, released: Released, windows: list[tuple[Floats, int]]) -> Floats:
        """log P(all releases above a step | its count x), (release, count), with sums over the given windows."""
        if self.windows.closed_form(step):
            return self._tail_form(step, x, released.noisy, released.sums)
        above, total = self.steps[step + 1], _counts(windows[0])
        message = above.log_likelihood(released.noisy, total)
        if step + 2 < len(self.steps):
            message = message + self._transition(step + 1, total, released, windows[1:])
        table = self._by_distance(step, x, total, released) if above.belief.independent else None
        if table is not None:
            return log_correlation(table, message)
        return log_sum_exp(self.kernel(step, x, total, released) + message[:, None, :])

    def _by_distance(self, step: int, x: Floats, total: Floats, released: Released) -> Floats | None:
        """Values of `kernel` for every distance total - count, from the smallest, (release, distance).

        None where counts are not consecutive, or where the kernel does not depend on the distance alone.
        """
        link, belief = self.steps[step].link if step >= 0 else None, self.steps[step + 1].belief
        if isinstance(link, AdjustedLink) or not _consecutive(x):
            return None
        apart = total[:, :1] - x[:, -1:] + np.arange(x.shape[1] + total.shape[1] - 1)
        table = np.zeros(apart.shape) if link is None else link.log_likelihood(released, 0.0 * x[:, :1], apart)[:, 0]
        averaged = link is not None and link.includes_belief(released)
        return table + belief.log_prob(apart, 0.0) if belief.independent and not averaged else table

    def kernel(self, step: int, x: Floats, total: Floats, released: Released) -> Floats:
        """log belief(total | x) + log P(releases of the others | x, total), nats, (release, count, total)."""
        link, belief = self.steps[step].link if step >= 0 else None, self.steps[step + 1].belief
        table = self._by_distance(step, x, total, released)
        if table is None:
            read = 0.0 if link is None else link.log_likelihood(released, x, total)
            averaged = link is not None and link.includes_belief(released)
            return as_array(read if averaged else read + belief.log_prob(total[:, None, :], x[:, :, None]))
        kernel = sliding_window_view(table, total.shape[1], axis=1)[:, ::-1]
        return kernel if belief.independent else kernel + belief.log_prob(total[:, None, :], x[:, :, None])

    def _tail_form(self, step: int, x: Floats, noisy: Floats, sums: Floats) -> Floats:
        """Closed form of `_transition`: a tail sum of a discrete Gaussian, or two geometric series."""
        above = self.steps[step + 1]
        if step < 0 and above.rate is not None:
            return above.log_likelihood_from(noisy, x)
        # Completing the square, sum_{j >= 0} exp(-R (A - j)^2 - a (B - j)^2) is a tail sum of curvature R + a: j is
        # total - x, A and R belong to the releases of the next step, B and a to the siblings' sum.
        fits = [noise.parabola for noise in above.noises]
        rho = np.array([fit[0] for fit in fits if fit])
        below = self.steps[step].link if step >= 0 else None
        link = (below.noise.parabola if below else None) or (0.0, 0.0)
        releases = noisy[:, list(above.levels)]
        big, a = rho.sum(), link[0]
        centre = releases @ rho / big
        spread = ((releases - centre[:, None]) ** 2) @ rho
        peak = sum(fit[1] for fit in fits if fit) + link[1] - spread
        big_a, w = centre[:, None] - x, big + a
        b = sums[:, self.steps[step].link_level, None] if a else 0.0 * big_a
        start = -(big * big_a[:, 0] + a * b[:, 0]) / w
        if _consecutive(x):
            tail = log_tail_sums(start, big / w, x.shape[1], w)
        else:
            tail = log_tail_sum(start[:, None] + big / w * (x - x[:, :1]), w)
        return np.asarray(peak[:, None] - big * a / w * (big_a - b) ** 2 + tail, dtype=np.float64)

    def second_window(self, releases: list[Floats], sums: Floats, beyond: Released) -> Floats:
        """Counts of the second step to follow for every combination of these releases and sibling sums.

        `beyond` holds releases of everything further up.
        """
        return self.windows.of_second(self.known_counts(), releases, sums, beyond)

    def messages_beyond(self, counts: Floats, released: Released) -> Floats:
        """log P(all releases above the second step | its count), (release, count)."""
        if len(self.steps) == 2:
            return np.zeros((len(released), counts.size))
        return self._log_likelihoods(released, 1, counts)

    def averaged_losses(self) -> list[PrivacyLoss]:
        """Privacy losses of the independent parts of the pair (release if in, if out), averaged over proper beliefs."""
        if self.steps[0].adjusted:
            raise ValueError("an averaged pair is not worked out for post-processed counts: ask the plan without it")
        if self.known and len(self.steps) == 1:
            return [_pair_of(noise, *self.known_counts()) for noise in self.steps[0].noises]
        if len(self.steps) > 2 or (not self.known and len(self.steps) > 1):
            raise ValueError(
                "an averaged pair is worked out for one count, or for two when the lowest is known but for the target"
            )
        if not self.known:
            return [self._pair(0, self.contributions)]
        x = self.known_counts()
        return [*(_pair_of(noise, *x) for noise in self.steps[0].noises), self._pair(1, x)]

    def _pair(self, i: int, x: Floats) -> PrivacyLoss:
        """Loss of step i's releases and the siblings' sum below, averaged over its belief given x, if (out, in)."""
        step = self.steps[i]
        edges = [step.belief.window(int(k)) or (0, 0) for k in x]
        total = np.arange(min(e[0] for e in edges), max(e[1] for e in edges) + 1, dtype=np.float64)
        grids = [_span(noise, total) for noise in step.noises]
        columns = np.stack([g.ravel() for g in np.meshgrid(*grids, indexing="ij")], axis=1)
        noisy = np.zeros((columns.shape[0], max(step.levels) + 1))
        noisy[:, list(step.levels)] = columns
        own = step.log_likelihood(noisy, np.broadcast_to(total, (columns.shape[0], total.size)))
        laws = []
        link = self.steps[i - 1].link if i else None
        noises, sums = step.noises, np.zeros(0)
        if link is not None:
            others = np.maximum(np.array(edges) - x[:, None], 0.0)
            noises, sums = (*noises, link.noise), _span(link.noise, np.arange(others.min(), others.max() + 1.0))
        for k in x:
            weighted = own + as_array(step.belief.log_prob(total, k))
            if link is None:
                laws.append(log_sum_exp(weighted))
            else:
                product = log_matrix_product(weighted, link.noise.log_likelihood(sums[:, None], total[None, :] - k))
                laws.append(np.where(np.isnan(product), -np.inf, product).ravel())
        return LatticeLoss.from_log_probs(laws[1], laws[0], bounded=_bounded(noises))

    def joint(self, released: Released) -> list[tuple[Floats, Floats]]:
        """Per step: counts (release, count), and log P(count | count below, release), (release, below, count)."""
        x = np.broadcast_to(self.contributions, (len(released), 2))
        windows = self.windows.above(released, -1, self.contributions, closed=False)
        # Consumed only for its ValueError, if the windows are too wide.
        list(chunks(windows, 2, len(released)))
        alike = common(windows, np.arange(len(released)))
        result = []
        for i, window in enumerate(alike):
            total = _counts(window)
            message = self.steps[i].log_likelihood(released.noisy, total)
            if i + 1 < len(self.steps):
                message = message + self._transition(i, total, released, alike[i + 1 :])
            joint = self.kernel(i - 1, x, total, released) + message[:, None, :]
            norm = log_sum_exp(joint)
            result.append(
                (
                    total,
                    np.where(
                        np.isneginf(norm)[..., None], -np.inf, joint - np.where(np.isneginf(norm), 0, norm)[..., None]
                    ),
                )
            )
            x = total
        return result

    def countable(self, released: Released) -> bool:
        """True where `joint` would stay within MAX_STATES."""
        windows = self.windows.above(released, -1, self.contributions, closed=False)
        return bool(costs(windows, self.contributions.size, len(released)).max() <= MAX_STATES)

    def work(self, released: Released) -> float:
        """Mean number of counts to sum over for the log Bayes factor of one of these releases: a measure of time."""
        step, x = (0, self.known_counts()) if self.known else (-1, self.contributions)
        if step + 1 == len(self.steps):
            return 1.0
        windows = self.windows.above(released, step, x, closed=True)
        pairs = costs(windows, x.size, len(released))
        each = _CONVOLVED if self._convolved else _ONE_BY_ONE
        return float(np.mean(sum((size for _, size in windows), pairs / each)))

    def learned(self, released: Released) -> dict[int, Belief]:
        """Posterior beliefs after one release, by the lowest level of every step; certain knowledge is unchanged."""
        below = np.arange(self.contributions.min(), self.contributions.max() + 1)
        beliefs: dict[int, Belief] = {}
        for step, (total, table) in zip(self.steps, self.joint(released), strict=True):
            rows = np.full((below.size, total.shape[1]), -np.inf)
            if step is self.steps[0]:
                rows[(self.contributions - below[0]).astype(np.int64)] = table[0]
            else:
                rows = table[0]
            known = step.belief.known_count is not None
            beliefs[step.levels[0]] = step.belief if known else PosteriorBelief(below, total[0], rows)
            below = total[0]
        return beliefs


class ImpossibleRelease(ValueError):
    """A release that no hypothesis of the adversary allows."""


def refuse_impossible(impossible: NDArray[np.bool_]) -> None:
    """ImpossibleRelease for the first release that no hypothesis allows."""
    if impossible.any():
        raise ImpossibleRelease(
            f"release number {int(np.argmax(impossible))} is impossible under the adversary's beliefs: "
            "its probability is zero whether the target is in or out"
        )


def _pair_of(noise: Mechanism, out: float, present: float) -> PrivacyLoss:
    """Loss of one release of either count; an upper bound for clamped continuous noise, which has atoms too."""
    if noise.is_additive or noise.is_continuous:
        return noise.pair_loss(int(present), int(out))
    y = _span(noise, np.array([out, present]))
    log_p, log_q = (noise.log_likelihood(y, count) for count in (present, out))
    return LatticeLoss.from_log_probs(log_p, log_q, bounded=_bounded([noise]))


def _bounded(noises: Iterable[Mechanism]) -> bool:
    """True where no release beyond the listed ones has a larger loss than they do."""
    inside = [noise.noise.summands[0] for noise in noises]
    return all(not one.is_additive or one.is_exact or np.isfinite(one.privacy_loss(1, 1).maximum) for one in inside)


def _span(noise: Mechanism, values: Floats) -> Floats:
    """All consecutive releases within the truncated support for any of these values."""
    # Without additive noise an inner value may reach further than the smallest and the largest.
    ends = [noise.support(int(value))[[0, -1]] for value in (values[[0, -1]] if noise.is_additive else values)]
    return np.arange(np.min(ends), np.max(ends) + 1, dtype=np.float64)


def _consecutive(x: Floats) -> bool:
    """True where the counts of every release, (release, count), follow one another."""
    return bool((np.diff(x, axis=1) == 1.0).all())


def _counts(window: tuple[Floats, int]) -> Floats:
    low, size = window
    return np.asarray(low[:, None] + np.arange(size, dtype=np.float64))
