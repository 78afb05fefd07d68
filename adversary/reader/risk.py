"""Risk averaged over releases: the law of the reader's log Bayes factor under a truth, and what follows from it.

The log Bayes factor is a sum of independent parts: the lowest level's own release, and the evidence of all above.
The first is summed analytically, the second on a grid of releases (one matrix product per hypothesis), so the averages
are exact up to the mass a support leaves out (1e-18). Where the grid is too large or the noise continuous, the second
part is simulated and every average carries its Monte Carlo standard error.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.special import expit

from adversary import runner
from adversary._numeric import Floats, Integers, as_array, posterior_ratio
from adversary.privacy.mechanisms import ContinuousNoise, Exact
from adversary.reader.beliefs import Point
from adversary.reader.factors import NOTHING, Atoms, FactorLaw, LossPart
from adversary.reader.inference import Adversary, log_bayes_factor
from adversary.reader.paths import Path, log_matrix_product
from adversary.reader.plans import Plan
from adversary.reader.releases import make_release, release_arrays

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
MAX_GRID = 20_000_000
PRUNED = 1e-15
"""Releases of least probability, this much in all, that a large grid leaves out."""
DRAWS = 20_000
_LARGE = 1_000_000
_NEGLIGIBLE = 1e-30
_ROWS = 4096
_TABLE_GRID = 2_000_000
_TABLE_ROWS = 200_000
_TABLE_LOST = 1e-12


@dataclass(frozen=True)
class Truth:
    """True counts (level, cell) and whether the target is in (1) or out (0)."""

    counts: Integers
    target: int

    def by_level(self, plan: Plan) -> dict[str, Any]:
        """The counts as a truth mapping for `plan.release`."""
        return {name: row if plan.cells > 1 else int(row[0]) for name, row in zip(plan.names, self.counts, strict=True)}


def settle_truth(plan: Plan, reader: Adversary, truth: Mapping[str, Any]) -> Truth:
    """True counts and target, checked against the plan and against what the reader holds possible.

    The target may be named ("in": 1 or 0) and must be when the counts do not settle it. With two cells, single counts
    are those of the first, and the second cell holds as many others. A truth that a belief excludes is refused, except
    by `Point`, which stands for a reader who is sure and may be wrong.
    """
    named = truth.get("in")
    if named is not None and named not in (0, 1):
        raise ValueError(f'truth: "in" must be 0 or 1, got {named!r}')
    cells = {name: value for name, value in truth.items() if name != "in"}
    single = plan.cells > 1 and all(np.ndim(value) == 0 for value in cells.values())
    one_cell = Plan(plan.levels) if single else plan
    counts = one_cell.counts(cells)
    lowest = reader.chain(plan, 0)[0]
    held = [t for t in (0, 1) if np.isfinite(lowest.log_prob(counts[0, 0], reader.contributions(0)[t]))]
    if not held:
        supports = [lowest.support(k) for k in sorted(reader.contributions(0))]
        raise ValueError(
            f"truth of level {plan.names[0]!r} is {counts[0, 0]}, outside the reader's belief: "
            f"possible from {supports[0][0]} to {supports[1][1] if supports[1][1] is not None else 'any number'}"
        )
    if named is None and len(held) > 1:
        raise ValueError('the counts do not settle whether the target is in: add "in" = 1 or 0 to the truth')
    if named is not None and named not in held:
        raise ValueError(f'truth: "in" = {named} contradicts a count of {counts[0, 0]} at level {plan.names[0]!r}')
    target = held[0] if named is None else int(named)
    if single:
        known = reader.known if isinstance(reader.known, int) else reader.known[1]
        other = known + reader.contributions(1)[target] + counts[:, 0] - counts[0, 0]
        counts = np.stack([counts[:, 0], other], axis=1)
    for cell in range(plan.cells):
        chain, below = reader.chain(plan, cell), reader.contributions(cell)[target]
        for level, belief, count in zip(plan.levels, chain, counts[:, cell], strict=True):
            if not isinstance(belief, Point) and not np.isfinite(belief.log_prob(count, below)):
                raise ValueError(
                    f"truth of level {level.name!r} is {count}, outside the reader's belief {belief} "
                    f"(count inside: {below})"
                )
            if isinstance(belief, Point) and isinstance(level.mechanism, Exact) and belief.total != count:
                raise ValueError(
                    f"truth of level {level.name!r} is {count} and published exactly, "
                    f"but the reader is sure of {belief.total}"
                )
            below = count
    return Truth(counts, target)


def opposite(plan: Plan, reader: Adversary, truth: Truth) -> Truth:
    """The same truth but for the target: the other hypothesis, everybody else as they are.

    Raises
    ------
    ValueError : the reader's beliefs, or an exact level, rule it out
    """
    target = 1 - truth.target
    moved = [reader.contributions(cell)[target] - reader.contributions(cell)[1 - target] for cell in range(plan.cells)]
    other = Truth(truth.counts + np.array(moved), target)
    return settle_truth(plan, reader, {**other.by_level(plan), "in": target})


def factor_law(
    plan: Plan,
    reader: Adversary,
    truth: Truth,
    *,
    draws: int = DRAWS,
    rng: Any = None,
    progress: bool = False,
    store: Any = None,
) -> FactorLaw:
    """Law of the log Bayes factor over releases of this truth, exact where a grid of releases is small enough."""
    paths = [reader.path(plan, cell) for cell in range(plan.cells)]
    known = all(path.known for path in paths)
    first = _own_part(plan, paths[0], truth, 0) if known else NOTHING
    continuous = any(
        isinstance(level.mechanism, ContinuousNoise) for level in plan.levels[1 if plan.cells == 1 else 0 :]
    )
    linked = any(isinstance(step.link, ContinuousNoise) for path in paths for step in path.steps)
    rest, separable = None, plan.cells == 1 or all(len(path.steps) == 1 for path in paths)
    if not (continuous or linked):
        if not known:
            rest = _whole_grid(plan, reader, truth)
        elif plan.cells == 1:
            rest = _rest_part(plan, paths[0], truth, 0, progress)
        else:
            totals = [_cell_part(plan, path, truth, cell, progress) for cell, path in enumerate(paths)]
            if totals[0] is not None and totals[1] is not None:
                first, rest = totals
    simulated = draws if rest is None else 0
    if rest is None:
        rest = _simulated_rest(plan, reader, truth, draws, rng, progress, store, whole=not known)
        first, separable = _own_part(plan, paths[0], truth, 0) if known else NOTHING, known
    return FactorLaw(
        reader.prior_log_odds,
        truth.target,
        first,
        rest,
        simulated,
        first.spacing,
        separable and known,
    )


def _own_part(plan: Plan, path: Path, truth: Truth, cell: int) -> Any:
    """The lowest level's own release: every log Bayes factor it can give, with its probability."""
    noise = plan.levels[0].mechanism
    out, present = path.known_counts()
    if isinstance(noise, ContinuousNoise):
        return LossPart(noise.privacy_loss(int(abs(present - out))), truth.target)
    support, weight = noise.releases(int(truth.counts[0, cell]))

    def log_exponential_mean() -> float:  # 0 if out: the average likelihood ratio is one
        return noise.privacy_loss(int(abs(present - out))).log_moment(1.0) if truth.target else 0.0

    return Atoms(as_array(noise.log_ratio(support, present, out)), weight, log_exponential_mean)


def _rest_part(plan: Plan, path: Path, truth: Truth, cell: int, progress: bool) -> Atoms | None:
    """Everything in a cell but its lowest release, on a grid; None if the grid is too large."""
    total: Atoms | None = NOTHING
    for level in path.steps[0].levels[1:]:
        noise = plan.levels[level].mechanism
        support, weight = noise.releases(int(truth.counts[level, cell]))
        out, present = path.known_counts()
        total = _convolved(total, Atoms(as_array(noise.log_ratio(support, present, out)), weight))
    return _convolved(total, _evidence_part(path, truth, cell, progress)) if len(path.steps) > 1 else total


def _cell_part(plan: Plan, path: Path, truth: Truth, cell: int, progress: bool) -> Atoms | None:
    """Everything in a cell."""
    return _convolved(_own_part(plan, path, truth, cell), _rest_part(plan, path, truth, cell, progress))


def _convolved(a: Atoms | None, b: Atoms | None) -> Atoms | None:
    """Sum of two independent parts, atoms of no consequence (PRUNED in all) dropped; None if too large."""
    if a is None or b is None or a is NOTHING:
        return None if a is None else b
    if b is NOTHING:
        return a
    a, b = _pruned(a), _pruned(b)
    if a.values.size * b.values.size > MAX_GRID:
        return None
    with np.errstate(invalid="ignore"):
        values = (a.values[:, None] + b.values[None, :]).ravel()
    weights = (a.weights[:, None] * b.weights[None, :]).ravel()
    return _pruned(Atoms(values, weights))


def _pruned(part: Atoms, mass: float = PRUNED) -> Atoms:
    keep = _probable(part.weights, mass)
    return part if keep.all() else Atoms(part.values[keep], part.weights[keep])


def _probable(weights: Floats, lost: float) -> NDArray[np.bool_]:
    """All but the least weights, which sum to at most `lost`."""
    ascending = np.sort(weights, axis=None)
    kept: NDArray[np.bool_] = weights >= ascending[np.searchsorted(np.cumsum(ascending), lost)]
    return kept


def _evidence_part(path: Path, truth: Truth, cell: int, progress: bool) -> Atoms | None:
    """Law of the evidence above the lowest step: a grid over the second step's releases and the sibling sum.

    Per hypothesis, log sum_x' exp(A[release, x'] + H[sum, x']) is one matrix product of positive terms, each row scaled
    by its maximum. Levels further up are looped over: each of their releases gives one message.
    """
    counts = truth.counts[:, cell]
    link, low = path.steps[0].link, path.steps[0].link_level
    second = path.steps[1]
    assert link is not None
    sums, sum_weight = link.releases(int(counts[second.levels[0]] - counts[low]))
    rows, row_weight = _grid([n.releases(int(counts[i])) for n, i in zip(second.noises, second.levels, strict=True)])
    further: list[tuple[Floats, Floats]] = []
    columns: list[tuple[str, int]] = []
    for below, step in zip(path.steps[1:-1], path.steps[2:], strict=True):
        assert below.link is not None
        further.append(below.link.releases(int(counts[step.levels[0]] - counts[below.link_level])))
        columns.append(("sum", below.link_level))
        for noise, level in zip(step.noises, step.levels, strict=True):
            further.append(noise.releases(int(counts[level])))
            columns.append(("noisy", level))
    size = len(sums) * len(rows) * int(np.prod([len(values) for values, _ in further]) if further else 1)
    if size > MAX_GRID:
        return None
    beyond, beyond_weight = _grid(further) if further else (np.zeros((1, 0)), np.ones(1))
    noisy = np.full((beyond.shape[0], counts.size), 0.0)
    links = np.full((beyond.shape[0], counts.size), np.nan)
    for j, (kind, level) in enumerate(columns):
        (links if kind == "sum" else noisy)[:, level] = beyond[:, j]
    window = path.second_window(list(rows.T), sums, (noisy, links))
    if window.size * max(len(sums), len(rows)) > MAX_GRID:
        return None
    grid_noisy = np.zeros((len(rows), counts.size))
    grid_noisy[:, list(second.levels)] = rows
    own = second.log_likelihood(grid_noisy, np.broadcast_to(window, (len(rows), window.size)))
    x = path.known_counts()
    belief = [as_array(second.belief.log_prob(window, k)) for k in x]
    spread = [path.log_link(0, sums[:, None] - (window[None, :] - k)) for k in x]
    messages = path.messages_beyond(window, noisy, links)
    evidence = np.empty((beyond.shape[0], len(rows), len(sums)))
    group = max(1, _ROWS // len(rows))
    starts = range(0, beyond.shape[0], group)
    for start in runner.track(starts, "releases of the upper levels", enabled=progress and len(starts) > 20):
        part = slice(start, start + group)
        stacked = (own[None] + messages[part, None, :]).reshape(-1, window.size)
        out, present = (log_matrix_product(stacked + belief[k], spread[k]) for k in (0, 1))
        with np.errstate(invalid="ignore"):
            evidence[part] = (present - out).reshape(-1, len(rows), len(sums))
    weight = beyond_weight[:, None, None] * row_weight[None, :, None] * sum_weight[None, None, :]
    lost = np.argwhere(np.isnan(evidence) & (weight > _NEGLIGIBLE))
    if lost.size:  # releases so far apart that the scaled products underflow, or impossible ones: one by one
        upper, row, total = lost.T
        noisy, links = noisy[upper], links[upper]
        noisy[:, list(second.levels)] = rows[row]
        links[:, low] = sums[total]
        evidence[upper, row, total] = path.evidence_above(noisy, links, path.known_counts())
    keep = ~np.isnan(evidence)
    if evidence.size > _LARGE:
        keep &= _probable(weight, PRUNED)
    return Atoms(evidence[keep], weight[keep])


def _grid(columns: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """All combinations of independent releases (combination, column), with their probabilities."""
    values = np.stack([g.ravel() for g in np.meshgrid(*[v for v, _ in columns], indexing="ij")], axis=1)
    weights = np.prod(np.stack([g.ravel() for g in np.meshgrid(*[w for _, w in columns], indexing="ij")]), axis=0)
    return values, weights


def _all_columns(plan: Plan, truth: Truth) -> list[tuple[Any, Floats]] | None:
    """Supports and probabilities of every released number, level by level, cell by cell; None with continuous noise."""
    columns: list[tuple[Any, Floats]] = []
    for i, level in enumerate(plan.levels):
        if isinstance(level.mechanism, ContinuousNoise):
            return None
        for cell in range(plan.cells):
            columns.append(level.mechanism.releases(int(truth.counts[i, cell])))
            if level.siblings:
                others = int(truth.counts[i + 1, cell] - truth.counts[i, cell])
                columns.append(level.mechanism.total(level.siblings).releases(others))
    return columns


def _placed(plan: Plan, values: Floats) -> tuple[Floats, Floats]:
    """Columns of `_all_columns` as (noisy, sums), each (release, level, cell)."""
    noisy, sums = np.full((2, values.shape[0], len(plan.levels), plan.cells), np.nan)
    place = iter(values.T)
    for i, level in enumerate(plan.levels):
        for cell in range(plan.cells):
            noisy[:, i, cell] = next(place)
            if level.siblings:
                sums[:, i, cell] = next(place)
    return noisy, sums


def _whole_grid(plan: Plan, reader: Adversary, truth: Truth) -> Atoms | None:
    """Every release at once, for a reader who does not know the others at the lowest level; None if too many."""
    columns = _all_columns(plan, truth)
    if columns is None or np.prod([float(len(values)) for values, _ in columns]) > MAX_GRID // 20:
        return None
    values, weights = _grid(columns)
    keep = weights > 1e-22
    return Atoms(log_bayes_factor(plan, reader, *_placed(plan, values[keep])), weights[keep])


def _fingerprint(plan: Plan, reader: Adversary, truth: Truth) -> str:
    """What tells one reader's stored blocks from another's."""
    chains = [reader.chain(plan, cell) for cell in range(plan.cells)]
    told = (plan, chains, reader.prior_log_odds, reader.hypotheses, truth.counts.tolist(), truth.target)
    return hashlib.sha256(pickle.dumps(told)).hexdigest()


def _simulated_rest(
    plan: Plan,
    reader: Adversary,
    truth: Truth,
    draws: int,
    rng: Any,
    progress: bool,
    store: Any,
    *,
    whole: bool = False,
) -> Atoms:
    """Draws of everything but the first cell's lowest release (of everything, if `whole`), equally weighted."""

    def evidence(size: int, generator: np.random.Generator) -> Floats:
        release = plan.release(truth.by_level(plan), generator, size)
        noisy, sums = release_arrays(plan, release)
        value = log_bayes_factor(plan, reader, noisy, sums)
        if whole:
            return value
        out, present = reader.path(plan, 0).known_counts()
        own = as_array(plan.levels[0].mechanism.log_ratio(noisy[:, 0, 0], present, out))
        return np.where(np.isfinite(own), value - np.where(np.isfinite(own), own, 0.0), 0.0)

    values = runner.simulate(
        evidence,
        draws,
        rng,
        description="simulated releases",
        progress=progress,
        store=store,
        key=_fingerprint(plan, reader, truth),
    )
    return Atoms(values, np.full(values.size, 1.0 / values.size))


def prob_correct(plan: Plan, reader: Adversary, truth: Mapping[str, Any]) -> float:
    """Probability, over releases of this truth, that the reader's best guess about the target is right (0-1 loss)."""
    settled = settle_truth(plan, reader, truth)
    return factor_law(plan, reader, settled).prob_correct()[0]


def invariant_factor(plan: Plan, reader: Adversary, truth: Truth) -> float:
    """Log Bayes factor of the exact levels alone: what invariants already say before any noise is read."""
    if not any(isinstance(level.mechanism, Exact) for level in plan.levels):
        return 0.0
    noisy = truth.counts[None].astype(np.float64)
    total = 0.0
    for cell in range(plan.cells):
        path = reader.path(plan, cell, exact_only=True)
        if path.steps:
            total += float(path.log_bayes_factor(noisy[:, :, cell], np.zeros_like(noisy[:, :, cell]))[0])
    return total


def risk_summary(law: FactorLaw, invariant: float = 0.0, base: float | None = None) -> xr.Dataset:
    """The risk group of an audit: averages, decisions, quantiles, and standard errors where simulated.

    `invariant` is the log Bayes factor of exact levels and `base` the prior given them: `ratio` and `difference` are
    from there, and `invariant_ratio` is from the prior to there.
    """
    posterior, ratio, correct, tie = law.posterior_mean(), law.ratio_mean(), law.prob_correct(), law.tie()
    start = law.log_odds
    base = float(expit(start + invariant)) if base is None else base
    levels, factors = np.array(QUANTILES), law.quantiles(QUANTILES)
    settled = not np.isfinite(invariant)  # the exact levels tell the target: noise adds nothing
    since = np.zeros_like(factors) if settled else factors - invariant
    if invariant:
        ratio = (1.0, 0.0) if settled else (posterior[0] / base, posterior[1] / base)
    result = xr.Dataset(
        {
            "prior": base,
            "posterior_mean": posterior[0],
            "ratio_mean": ratio[0],
            "difference_mean": posterior[0] - base,
            "prob_correct": correct[0],
            "tie_mass": tie[0],
            "posterior_quantile": (
                "quantile",
                expit(start + factors) if np.isfinite(start) else 0 * levels + law.prior,
            ),
            "ratio_quantile": ("quantile", posterior_ratio(base, since)),
        },
        coords={"quantile": list(QUANTILES)},
    )
    if invariant:
        result = result.assign(invariant_ratio=float(posterior_ratio(law.prior, invariant)))
    if law.separable:
        wrong_to_right, right_to_wrong = law.changed()
        result = result.assign(wrong_to_right=wrong_to_right, right_to_wrong=right_to_wrong)
    for name in result.data_vars:
        result[name].attrs["direction"] = "estimate" if law.simulated and name != "prior" else "exact"
    if law.simulated:
        errors = [posterior[1], ratio[1], posterior[1], correct[1], tie[1]]
        measures = ["posterior_mean", "ratio_mean", "difference_mean", "prob_correct", "tie_mass"]
        result = result.assign(mcse=("measure", errors)).assign_coords(measure=measures)
    return result


def release_table(plan: Plan, truth: Truth, *, draws: int = DRAWS, rng: Any = None) -> tuple[xr.Dataset, xr.DataArray]:
    """(releases, weights): every release that matters under this truth, or simulated ones if there are too many.

    The least probable releases, 1e-12 in all, are left out; `weight.attrs` says what the table is.
    """
    columns = _all_columns(plan, truth)
    if columns is not None and np.prod([float(len(values)) for values, _ in columns]) <= _TABLE_GRID:
        values, weights = _grid(columns)
        keep = np.flatnonzero(_probable(weights, _TABLE_LOST))
        if keep.size <= _TABLE_ROWS:
            noisy, sums = _placed(plan, values[keep])
            weight = xr.DataArray(
                weights[keep], dims="release", attrs={"direction": "exact", "mass": float(weights[keep].sum())}
            )
            return make_release(plan, noisy, sums), weight
    generator = np.random.default_rng(runner.seed_sequence(rng))
    size = min(draws, _TABLE_ROWS)
    weight = xr.DataArray(np.full(size, 1.0 / size), dims="release", attrs={"direction": "estimate", "mass": 1.0})
    return plan.release(truth.by_level(plan), generator, size), weight
