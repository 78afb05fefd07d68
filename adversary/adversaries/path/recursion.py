"""The backward recursion on a path of nested counts, for one reader and one published cell.

Given the target's contribution k0, counts X1 <= X2 <= ... form a Markov chain (beliefs), every level releases
X_l + noise and, below the top, the sum of its siblings' releases, (X_{l+1} - X_l) + the sum of d noises. The likelihood
of a release under each hypothesis is exact up to a tail of exp(-36) per level:

    M_l(x) = log P(noisy_l | x) + log sum_{x'} belief(x' | x) h_l(sum_l - (x' - x)) exp(M_{l+1}(x')).

The belief stands in every term, so a count inside never exceeds its total (Kazan and Reiter 2025, section 2.3; the
published sampler leaves that constraint out of one of its two updates).
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
from adversary.adversaries.path.posterior_belief import Learned
from adversary.adversaries.path.steps import Step, link_above
from adversary.adversaries.path.windows import MAX_PRODUCTS, MAX_STATES, Windows, chunks, common, costs
from adversary.adversaries.plans import Plan, Released
from adversary.privacy.losses import LatticeLoss, PrivacyLoss
from adversary.privacy.mechanisms import Mechanism

AT_ONCE = 50_000
"""Releases per batch when distinct ones are looked for: sorting them takes several times their memory."""
_PAIRS = 32
"""Pairs of counts of two steps take as long as one count of a step, more or less."""


def distinct_rows(rows: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Index of one row of each kind in lexical order, and for each row which of these it is.

    Rows of whole numbers are sorted as one whole number each, where that is exact: a tenth of the time.

    Parameters
    ----------
    rows : (row, column)

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
    weights = np.append(np.cumprod(spans[:0:-1])[::-1], 1.0)
    code = ((rows - low) @ weights).astype(np.int64)
    order = np.argsort(code)
    first = np.diff(code[order], prepend=-1) > 0
    place = np.empty(order.size, dtype=np.intp)
    place[order] = np.cumsum(first) - 1
    return order[first], place


@dataclass(frozen=True)
class Path:
    """The recursion for one reader, one plan, one cell."""

    steps: tuple[Step, ...]
    contributions: Floats  # (out, in)

    @classmethod
    def of(
        cls, plan: Plan, chain: tuple[Belief, ...], contributions: tuple[int, int], *, exact_only: bool = False
    ) -> Path:
        """The path of a plan; with `exact_only`, only exact levels are read, and nothing above the last of them."""
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
        """The counts that matter at each of its steps."""
        return Windows(self.steps)

    @property
    def known(self) -> bool:
        """True where the adversary knows everybody else at the lowest level."""
        return bool(self.steps) and self.steps[0].belief.known_count is not None

    def known_counts(self) -> Floats:
        """The lowest count if (out, in), for a reader who knows everybody else there."""
        count = self.steps[0].belief.known_count
        if count is None:
            raise TypeError("this adversary does not know the others at the lowest level")
        return self.contributions + count

    def log_bayes_factor(self, released: Released, *, lowest: bool = True) -> Floats:
        """log P(release | in) - log P(release | out) of one cell's releases; all but the `lowest` if that is False.

        The release of the lowest level is independent of all others where everybody else in that unit is known.
        """
        first, noisy = self.steps[0], released.noisy
        if lowest and not self.known:
            return self._difference(self._log_likelihoods(released, -1, self.contributions))
        x = self.known_counts()
        own = np.zeros(len(released))
        with np.errstate(invalid="ignore"):  # exact counts may rule out one hypothesis here and the other there
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
        """The part of the log Bayes factor that is not in the lowest step's own releases, each distinct case once."""
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
        """log P(everything above step | its count) at these counts, in chunks that fit in memory: (release, count)."""
        windows = self.windows.above(released, step, x, closed=True)
        result = np.full((len(released), x.size), np.nan)
        most = MAX_PRODUCTS if self._convolved else MAX_STATES
        for rows in chunks(windows, x.size, len(released), most):
            part = [(low[rows], size) for low, size in common(windows, rows)]
            result[rows] = self._transition(step, np.broadcast_to(x, (rows.size, x.size)), released.rows(rows), part)
        return result

    @property
    def _convolved(self) -> bool:
        """True where every sum over counts is a convolution, whose pairs are not held in memory."""
        adjusted = any(isinstance(step.link, AdjustedLink) for step in self.steps)
        return not adjusted and all(step.belief.independent for step in self.steps[1:])

    def _transition(self, step: int, x: Floats, released: Released, windows: list[tuple[Floats, int]]) -> Floats:
        """log P(all that lies above step | its count x), (release, count)."""
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
        """Values of `kernel` for every total - count, from the smallest, (release, distance).

        None where counts are not one after another, or what is released of the others depends on more than that.
        """
        link, belief = self.steps[step].link if step >= 0 else None, self.steps[step + 1].belief
        if isinstance(link, AdjustedLink) or not _consecutive(x):
            return None
        apart = total[:, :1] - x[:, -1:] + np.arange(x.shape[1] + total.shape[1] - 1)
        table = np.zeros(apart.shape) if link is None else link.log_likelihood(released, 0.0 * x[:, :1], apart)[:, 0]
        averaged = link is not None and link.believes(released)
        return table + belief.log_prob(apart, 0.0) if belief.independent and not averaged else table

    def kernel(self, step: int, x: Floats, total: Floats, released: Released) -> Floats:
        """log belief(total | x) + log P(what is released of the others | x, total), (release, count, total)."""
        link, belief = self.steps[step].link if step >= 0 else None, self.steps[step + 1].belief
        table = self._by_distance(step, x, total, released)
        if table is None:
            read = 0.0 if link is None else link.log_likelihood(released, x, total)
            averaged = link is not None and link.believes(released)
            return as_array(read if averaged else read + belief.log_prob(total[:, None, :], x[:, :, None]))
        kernel = sliding_window_view(table, total.shape[1], axis=1)[:, ::-1]
        return kernel if belief.independent else kernel + belief.log_prob(total[:, None, :], x[:, :, None])

    def _tail_form(self, step: int, x: Floats, noisy: Floats, sums: Floats) -> Floats:
        """Complete the square: sum_{j >= 0} exp(-R (A - j)^2 - a (B - j)^2) is a tail sum of curvature R + a."""
        above = self.steps[step + 1]
        if step < 0 and above.rate is not None:
            return above.log_likelihood_from(noisy, x)
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
        """Independent parts of the pair (release if in, release if out), averaged over proper beliefs."""
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
        """Loss of step i's releases (and the sum that leads there), step i's count averaged over the belief given x."""
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
        list(chunks(windows, 2, len(released)))  # refuses what is too wide
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
        """Counts to go through for the log Bayes factor of one of these releases, on average."""
        step, x = (0, self.known_counts()) if self.known else (-1, self.contributions)
        if step + 1 == len(self.steps):
            return 1.0
        windows = self.windows.above(released, step, x, closed=True)
        pairs = costs(windows, x.size, len(released))
        return float(np.mean(sum((size for _, size in windows), pairs / _PAIRS)))

    def learned(self, released: Released) -> dict[int, Belief]:
        """Beliefs after one release, for the lowest level of every step: what was known for certain stays so."""
        below = np.arange(self.contributions.min(), self.contributions.max() + 1)
        beliefs: dict[int, Belief] = {}
        for step, (total, table) in zip(self.steps, self.joint(released), strict=True):
            rows = np.full((below.size, total.shape[1]), -np.inf)
            if step is self.steps[0]:
                rows[(self.contributions - below[0]).astype(np.int64)] = table[0]
            else:
                rows = table[0]
            known = step.belief.known_count is not None
            beliefs[step.levels[0]] = step.belief if known else Learned(below, total[0], rows)
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
    """Loss of one release of either count; a bound where clamped continuous noise has atoms beside its density."""
    if noise.is_additive or noise.is_continuous:
        return noise.pair_loss(int(present), int(out))
    y = _span(noise, np.array([out, present]))
    log_p, log_q = (noise.log_likelihood(y, count) for count in (present, out))
    return LatticeLoss.from_log_probs(log_p, log_q, bounded=_bounded([noise]))


def _bounded(noises: Iterable[Mechanism]) -> bool:
    """True where no release beyond those listed can have a larger loss than they have."""
    inside = [noise.noise.summands[0] for noise in noises]
    return all(not one.is_additive or one.is_exact or np.isfinite(one.privacy_loss(1, 1).maximum) for one in inside)


def _span(noise: Mechanism, values: Floats) -> Floats:
    """Every release that matters for any of these values.

    Of noise that is not added the ends may lie outside those of the least and the largest value.
    """
    ends = [noise.support(int(value))[[0, -1]] for value in (values[[0, -1]] if noise.is_additive else values)]
    return np.arange(np.min(ends), np.max(ends) + 1, dtype=np.float64)


def _consecutive(x: Floats) -> bool:
    """True where the counts of every release, (release, count), follow one another."""
    return bool((np.diff(x, axis=1) == 1.0).all())


def _counts(window: tuple[Floats, int]) -> Floats:
    low, size = window
    return np.asarray(low[:, None] + np.arange(size, dtype=np.float64))
