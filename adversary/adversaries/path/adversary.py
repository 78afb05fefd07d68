"""The adversary: hypotheses about one person, a prior, beliefs about everybody else, and the exact posterior."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Real
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from adversary._core import (
    Floats,
    check_positive,
    check_probability,
    check_whole,
    logit,
    posterior_after,
    posterior_ratio,
    quoted,
)
from adversary.adversaries.beliefs import Belief, Known, as_belief
from adversary.adversaries.path.recursion import Path, refuse_impossible
from adversary.adversaries.plans import Level, Plan, Released, release_arrays
from adversary.privacy.losses import PrivacyLoss, amplified_loss, compose_losses, sampled_loss

# Names of the attacks (Kazan and Reiter 2025, sections 2.3.1 and 2.6): see `attacks`.
ATTACKS = ("characteristics", "participation", "misreport", "unknown attribute")


@dataclass(frozen=True)
class Adversary:
    """An adversary: two hypotheses about one person, a prior, and beliefs about everybody else.

    Parameters
    ----------
    prior : probability, before the release, that the target is in the published cell
    known : count of everybody else in that cell of the target's lowest unit; one per cell when the plan has two
    beliefs : for every upper level by name, the belief about its total given the count inside; a belief about the
        lowest level replaces `known`. In a run of levels of the same people, the lowest has the belief. A bare
        `scipy.stats` distribution or pmf means `Others(law)`; a tuple of beliefs, distributions or pmfs is one per cell
    hypotheses : contribution of the target to the count if (out, in); default (0, 1)
    log_odds : the prior's log-odds, nats; needed only for a prior so extreme that the probability rounds to 0 or 1
    attack : meaning of "in", one of ATTACKS; the formulas are the same for all of them
    sampling_rate : probability q that the target was sampled, for counts of a Poisson sample (everybody is drawn
        independently) whose members the adversary does not know; 1, the default, if the target is known to be in the
        sample. `known` and `beliefs` are then about the sample. With BF the Bayes factor given that the target was
        sampled, this adversary's is 1 - q + q BF, since nothing else in the sample depends on the target's draw. In a
        sample of fixed size another person takes the target's place, and the formula fails: use a PyMC model for it

    >>> Adversary(prior=0.5, known=0).hypotheses
    (0, 1)
    """

    prior: float = 0.5
    known: int | tuple[int, ...] = 0
    beliefs: Mapping[str, Any] = field(default_factory=dict)
    hypotheses: tuple[int, int] | None = None
    log_odds: float | None = None
    attack: str = "characteristics"
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        if self.attack not in ATTACKS:
            raise ValueError(f"attack must be one of {quoted(ATTACKS)}, got {self.attack!r}")
        prior = check_probability("prior", self.prior)
        if prior.ndim:
            raise TypeError("prior must be one number: several adversaries are a mapping of adversaries")
        object.__setattr__(self, "prior", float(prior))
        if not abs(float(expit(self.prior_log_odds)) - self.prior) < 1e-12:
            raise ValueError(f"log_odds must be those of the prior {self.prior}, got {self.log_odds}")
        known = check_whole("known", self.known, minimum=0)
        object.__setattr__(self, "known", int(known) if known.ndim == 0 else tuple(int(k) for k in known))
        if not isinstance(self.beliefs, Mapping):
            raise TypeError(f"beliefs must be a mapping of level name to belief, got {self.beliefs!r}")
        beliefs = {name: _per_cell(name, belief) for name, belief in self.beliefs.items()}
        object.__setattr__(self, "beliefs", MappingProxyType(beliefs))
        pair = check_whole("hypotheses", (0, 1) if self.hypotheses is None else self.hypotheses, minimum=0)
        if pair.shape != (2,) or pair[0] == pair[1]:
            raise ValueError(f"hypotheses must be two different contributions (out, in), got {self.hypotheses}")
        object.__setattr__(self, "hypotheses", (int(pair[0]), int(pair[1])))
        rate = check_positive("sampling_rate", check_probability("sampling_rate", self.sampling_rate))
        object.__setattr__(self, "sampling_rate", float(rate))
        if self.sampling_rate < 1.0 and self.hypotheses != (0, 1):
            raise ValueError(f"sampling_rate is for hypotheses (0, 1), one person drawn or not, got {self.hypotheses}")

    @property
    def prior_log_odds(self) -> float:
        """Log-odds of the prior, in nats."""
        return float(logit(self.prior)) if self.log_odds is None else float(self.log_odds)

    def __reduce__(self) -> tuple[type[Adversary], tuple[Any, ...]]:
        given = (self.prior, self.known, dict(self.beliefs), self.hypotheses, self.log_odds, self.attack)
        return Adversary, (*given, self.sampling_rate)

    def contributions(self, cell: int = 0) -> tuple[int, int]:
        """Contributions of the target to a cell if (out, in); reversed in the second cell."""
        out, present = self.hypotheses or (0, 1)
        return (out, present) if cell == 0 else (present, out)

    def level_beliefs(self, plan: Plan, cell: int = 0) -> tuple[Belief, ...]:
        """One belief per level, lowest first: about its total given the count of the level below (or the target's).

        If a level has no siblings, the next level has the same people: its belief is `Known(0)`. Other queries of a
        unit require an adversary who knows everybody else in it; ValueError otherwise.
        """
        units = list(dict.fromkeys(level.unit for level in plan.levels))
        unknown = [name for name in self.beliefs if name not in units]
        if unknown:
            raise ValueError(f"beliefs: unknown level {unknown[0]!r}; the plan has {', '.join(units)}")
        if self.attack == "participation" and plan.cells > 1:
            raise ValueError(
                f"a participation attack needs a plan of one cell, got {plan.cells}: somebody who did not respond is "
                "in no cell; a misreport attack puts the target in another one"
            )
        if self.sampling_rate < 1.0 and (plan.cells > 1 or any(level.is_exact for level in plan.levels)):
            raise ValueError(
                f"sampling_rate must be 1 with two cells or an exact level, got {self.sampling_rate}: exact counts of "
                "a sample tell by themselves who may be in it, and a second cell whether the target is"
            )
        if isinstance(self.known, tuple) and len(self.known) != plan.cells:
            raise ValueError(f"known must be one count, or one for each of {plan.cells} cells, got {self.known}")
        for name, given in self.beliefs.items():
            if isinstance(given, tuple) and len(given) != plan.cells:
                raise ValueError(
                    f"beliefs: level {name!r} must have one belief, or a tuple of one for each of the plan's cells "
                    f"({plan.cells}), got {len(given)}"
                )
        return tuple(
            _bound(level.unit, self._belief(level, below, cell), below.siblings if below else None)
            for below, level in zip([None, *plan.levels[:-1]], plan.levels, strict=True)
        )

    def _belief(self, level: Level, below: Level | None, cell: int) -> Belief:
        name, lowest, same = level.unit, below is None, below is not None and below.siblings == 0
        if below is not None and below.unit == name:
            return Known(0)
        belief = self._of_unit(name, lowest, same, cell)
        if level.query_of and belief.known_count is None:
            raise ValueError(
                f"the other queries of level {name!r} count other people too, of whom only an adversary who knows "
                f"everybody else there can make anything: leave them out, or let the adversary know them, got {belief}"
            )
        return belief

    def _of_unit(self, name: str, lowest: bool, same: bool, cell: int) -> Belief:
        given = self.beliefs.get(name)
        if same and given is not None:
            raise ValueError(f"beliefs: level {name!r} holds the same people as the one below and takes no belief")
        if given is not None:
            return as_belief(name, given[cell] if isinstance(given, tuple) else given)
        if same:
            return Known(0)
        if lowest:
            return Known(self.known if isinstance(self.known, int) else self.known[cell])
        raise ValueError(
            f'beliefs: upper level {name!r} needs one, such as Uniform() (in a file: {name} = "uniform"); levels stand '
            "lowest first"
        )

    def path(self, plan: Plan, cell: int = 0, *, exact_only: bool = False) -> Path:
        """The recursion for this adversary in one cell of a plan."""
        path = Path.of(plan, self.level_beliefs(plan, cell), self.contributions(cell), exact_only=exact_only)
        if path.known and len(path.steps) > 1:
            ends = [path.steps[1].belief.support(int(x))[1] for x in path.known_counts()]
            if all(end is not None and end < x for end, x in zip(ends, path.known_counts(), strict=True)):
                name = next(above.name for below, above in pairwise(plan.levels) if below.siblings)
                raise ValueError(
                    f"the belief about {name!r} makes both hypotheses impossible: its "
                    f"largest total is {ends[0]}, and the counts inside are {[int(x) for x in path.known_counts()]}"
                )
        return path

    def posterior(self, plan: Plan, release: xr.Dataset, counts: bool | None = None) -> xr.Dataset:
        """The adversary's posterior from each release.

        Parameters
        ----------
        plan : the published counts and their noise
        release : one release or many (dim `release`), from `plan.observe` or `plan.release`
        counts : whether to add the marginal pmfs of every level's count; by default for one release only,
            and only if the range of counts is small enough to sum over

        Returns
        -------
        Dataset of `posterior` = P(target in | release), `log_odds`, `ratio` = posterior / prior (its limit at prior 0),
        and `count`, dims ([release,] level[, cell], value).
        """
        released = release_arrays(plan, release)
        factor = log_bayes_factor(plan, self, released)
        odds = self.updated(factor)
        single = "release" not in release.dims
        dims = () if single else ("release",)
        variables = {"posterior": expit(odds), "log_odds": odds, "ratio": posterior_ratio(self.prior, factor)}
        result = xr.Dataset({name: (dims, v[0] if single else v) for name, v in variables.items()})
        if "release" in release.coords:
            result = result.assign_coords(release=release["release"])
        if counts or (counts is None and single and self._countable(plan, released)):
            count = _count_pmfs(
                plan, self, released, expit(odds) * self._prob_sampled(_if_sampled(plan, self, released))
            )
            result["count"] = count.isel(release=0) if single else count
        return result

    def _countable(self, plan: Plan, released: Released) -> bool:
        return all(self.path(plan, cell).countable(released.cell(cell)) for cell in range(plan.cells))

    def after(self, plan: Plan, release: xr.Dataset) -> Adversary:
        """The adversary after one release: the posterior is the new prior, and beliefs are conditioned on the release.

        Log Bayes factors add, so the order of releases does not matter.

        Raises
        ------
        ValueError : siblings are read one by one: their joint posterior cannot be written as a belief about their
            total; or more than one release is given
        """
        if "release" in release.dims:
            raise ValueError("after takes one release: select it with release.isel(release=i)")
        released = release_arrays(plan, release)
        for cell in range(plan.cells):
            if any(step.link.includes_belief(released.cell(cell)) for step in self.path(plan, cell).steps if step.link):
                raise ValueError(
                    "after cannot keep what siblings read one by one have taught of each of them: leave them out, "
                    'release.drop_vars("siblings"), to read their sum, or ask posterior for this release'
                )
        factor = _if_sampled(plan, self, released)
        odds = float(self.updated(amplified_loss(factor, self.sampling_rate))[0])
        rate = float(self._prob_sampled(factor)[0])
        learned: dict[str, Any] = {}
        for cell in range(plan.cells):
            path = self.path(plan, cell)
            for level, belief in path.learned(released.cell(cell)).items():
                if (name := plan.levels[level].unit) in self.beliefs:
                    learned.setdefault(name, []).append(belief)
        beliefs = {name: cells[0] if plan.cells == 1 else tuple(cells) for name, cells in learned.items()}
        return Adversary(float(expit(odds)), self.known, beliefs, self.hypotheses, odds, self.attack, rate)

    def _prob_sampled(self, log_factor: Floats) -> Floats:
        """P(target sampled | in, release), (release,), from log Bayes factors given that the target was sampled."""
        return posterior_after(logit(self.sampling_rate), log_factor)

    def updated(self, log_factor: Floats) -> Floats:
        """Posterior log-odds, (release,); a prior of 0 or 1 stays, and a release that it excludes is a ValueError."""
        start = self.prior_log_odds
        if np.isinf(start) and (np.isinf(log_factor) & (np.sign(log_factor) != np.sign(start))).any():
            raise ValueError(
                f"a release is impossible under prior {self.prior}: the adversary is certain of what it rules out"
            )
        return np.full_like(log_factor, start) if np.isinf(start) else start + log_factor

    def records(self, plan: Plan) -> int:
        """Number k of privacy units in which the two hypotheses differ; a guarantee must hold for k units.

        The units for the change of the target's own count, plus, level by level, those of the others who change with
        it; doubled if neighbours are unbounded and the alternative puts the target in another cell.
        """
        return self._change(plan, plan.units) * (2 if plan.cells == 2 and plan.neighbours == "unbounded" else 1)

    def count_shift(self, plan: Plan) -> int:
        """Largest number of people by which a count differs between the hypotheses: the target's contribution plus the
        coupling distance, along the path, between others given in and given out. Exact levels fix their counts."""
        return self._change(plan, int)

    def _change(self, plan: Plan, measured: Callable[[int], int]) -> int:
        """Sum over the path of the changes of the target's count and of the others', each converted by `measured`."""
        exact = [level.is_exact for level in plan.levels]
        others = [
            _others_moved(self.level_beliefs(plan, cell), [False, *exact[1:]], self.shift, measured)
            for cell in range(plan.cells)
        ]
        return measured(self.shift) + max(others)

    def privacy_loss(self, plan: Plan) -> PrivacyLoss:
        """Privacy loss of this adversary's pair: the release's distribution if in and if out, averaged over beliefs.

        This is the exact distribution of the log Bayes factor over releases. ValueError for improper beliefs.
        """
        parts: list[PrivacyLoss] = []
        for cell in range(plan.cells):
            path = self.path(plan, cell)
            improper = [plan.names[step.levels[0]] for step in path.steps if not step.belief.proper]
            if improper:
                raise ValueError(f"the belief about {improper[0]!r} is improper: an averaged pair needs proper beliefs")
            parts += path.averaged_losses()
        loss = compose_losses(parts)
        return loss if self.sampling_rate == 1.0 else sampled_loss(loss, self.sampling_rate)

    @property
    def shift(self) -> int:
        """Number of people by which the target's contribution differs between the hypotheses."""
        out, present = self.hypotheses or (0, 1)
        return abs(present - out)


def _bound(name: str, belief: Belief, siblings: int | None) -> Belief:
    """A belief about each sibling with the number of siblings filled in; any other belief unchanged."""
    if belief.each is None:
        return belief
    if siblings is None:
        raise ValueError(f"beliefs: level {name!r} is the lowest: no siblings lie below it for Each to be about")
    siblings_total: Belief = belief.each.with_count(siblings)
    return siblings_total


def _per_cell(name: str, belief: Any) -> Any:
    """A belief, or a tuple of one per cell, checked; a tuple of numbers is a pmf."""
    if isinstance(belief, tuple) and not all(isinstance(part, Real) for part in belief):
        return tuple(as_belief(name, part) for part in belief)
    return as_belief(name, belief)


def _others_moved(chain: tuple[Belief, ...], exact: list[bool], gap: int, measured: Callable[[int], int]) -> int:
    """Largest number of others that differ, converted level by level, if the count inside differs by `gap`.

    At every level either the others of the belief change, or (unless the level is exact) nobody does.
    """
    # By difference of the count inside: the largest number of others changed so far.
    most = {gap: 0}
    for belief, settled in zip(chain, exact, strict=True):
        above: dict[int, int] = {}
        for apart, moved in most.items():
            others = apart if settled or not apart else belief.others_gap(apart)
            for left, so_far in (
                (abs(apart - others), moved + measured(others)),
                *([] if settled else [(apart, moved)]),
            ):
                above[left] = max(above.get(left, 0), so_far)
        most = above
    return max(most.values())


def log_bayes_factor(plan: Plan, adversary: Adversary, released: Released, *, lowest: bool = True) -> Floats:
    """Log Bayes factor of every release, log P(release | in) - log P(release | out), summed over cells.

    With a sampling rate q < 1 it is log(1 - q + q BF), BF the Bayes factor given that the target was sampled.

    Parameters
    ----------
    plan : the published counts
    adversary : the adversary
    released : arrays (release, level, cell) of that plan, from `release_arrays`
    lowest : False leaves out the first cell's release of the lowest level, which is independent of all others for an
        adversary who knows everybody else there

    Returns
    -------
    Nats, (release,)

    >>> from adversary.privacy.mechanisms import Geometric
    >>> from adversary.adversaries.plans import Level
    >>> plan = Plan([Level("block", Geometric(1.0))])
    >>> log_bayes_factor(plan, Adversary(), release_arrays(plan, plan.observe({"block": 1}))).round(6).tolist()
    [1.0]
    """
    return amplified_loss(_if_sampled(plan, adversary, released, lowest=lowest), adversary.sampling_rate)


def _if_sampled(plan: Plan, adversary: Adversary, released: Released, *, lowest: bool = True) -> Floats:
    """Log Bayes factors for an adversary who knows that the target was sampled."""
    parts = [
        adversary.path(plan, cell).log_bayes_factor(released.cell(cell), lowest=lowest or cell > 0)
        for cell in range(plan.cells)
    ]
    # inf - inf is NaN: one cell rules out the hypothesis that the other makes certain.
    with np.errstate(invalid="ignore"):
        total = np.sum(parts, axis=0)
    refuse_impossible(np.isnan(total))
    return np.asarray(total)


def _count_pmfs(plan: Plan, adversary: Adversary, released: Released, posterior: Floats) -> xr.DataArray:
    """Marginal posterior pmfs, dims (release, level[, cell], value)."""
    pieces: dict[tuple[int, int], tuple[Floats, Floats]] = {}
    for cell in range(plan.cells):
        path = adversary.path(plan, cell)
        weight = np.stack([1.0 - posterior, posterior], axis=1)
        for step, (total, table) in zip(path.steps, path.joint(released.cell(cell)), strict=True):
            weight = np.einsum("ri,rij->rj", weight, np.exp(table))
            for level in step.levels:
                pieces[level, cell] = (total, weight)
    first = int(min(total.min() for total, _ in pieces.values()))
    last = int(max(total.max() for total, _ in pieces.values()))
    pmf = np.zeros((len(released), len(plan.levels), plan.cells, last - first + 1))
    rows = np.arange(len(released))[:, None]
    for (level, cell), (total, weight) in pieces.items():
        pmf[rows, level, cell, (total - first).astype(np.int64)] = weight
    used = np.flatnonzero((pmf > 1e-18).any(axis=(0, 1, 2)))
    shown = slice(int(used[0]), int(used[-1]) + 1)
    array = xr.DataArray(
        pmf[..., shown],
        dims=("release", "level", "cell", "value"),
        coords={"level": list(plan.names), "value": np.arange(first, last + 1)[shown]},
        name="count",
    )
    return array.isel(cell=0) if plan.cells == 1 else array
