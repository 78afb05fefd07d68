"""An audit of every finest cell of a file under all the tables that are published of it, worst first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adversary._core import DEFAULT_FAILURE, Floats, Integers, Seed, blocks, check_probability, join_words, shared_ranks
from adversary.adversaries.path import Adversary
from adversary.adversaries.plans import Level, Plan
from adversary.adversaries.risk import tilt_warning
from adversary.adversaries.tables import (
    LEAST,
    CellRisks,
    CrossingRisk,
    EffectiveError,
    Joined,
    Nested,
    Population,
    PublishedTable,
    TableAdversary,
    chain_of,
    differenced,
    effective_error,
    effective_risks,
    information,
    known_least,
    known_losses,
    near_gaussian,
    risk_of_law,
    risk_of_loss,
    sums_have_laws,
)
from adversary.driver.case import Bounds, exceeds, guarantee_within, own_loss, promise_kept
from adversary.driver.columns import population_of_data, resolve_tables
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.losses import check_guarantee
from adversary.privacy.mechanisms import PerturbationTable

if TYPE_CHECKING:
    import pandas as pd

ROUTES = {
    "known": "everybody else is known: the tables' log ratios add, exactly",
    "nested": "the tables nest: the path through them, exactly",
    "crossing": "others' counts in the finest cells summed out exactly, averaged over simulated releases",
    "effective": "the tables cross: one estimate of each finest cell from all tables, an approximation",
}
"""Ways to the answer, and what they are in words."""

# Caution for people in small cells under a belief without an upper end.
FLAT = (
    "Every number of others from 0 upwards is equally likely to the adversary: where few are there, more are expected, "
    "and the average leans towards “out”. A belief with an end, or last year's counts, leans less. Take these averages "
    "as those of this particular belief."
)

# Caution for several tables perturbed by one set of cell keys.
KEYED = (
    "The perturbations of every table are taken to be drawn anew. Where they are looked up by cell keys, two cells of "
    "the same people are perturbed alike: whoever sees them differ knows, for certain, that somebody is in one of them "
    "alone. Where a cell has all the people of another but for one, that person's risk is larger than it is here."
)
TRUTHS = 16
"""Truths drawn where the file does not say the counts of some cells."""


def audit_tables(
    data: Any,
    tables: Iterable[PublishedTable],
    adversary: TableAdversary | Adversary | None = None,
    *,
    guarantee: Guarantee | None = None,
    privacy_unit: PrivacyUnit | None = None,
    failure: float = DEFAULT_FAILURE,
    rng: Seed = None,
    draws: int | None = None,
) -> pd.DataFrame:
    """The risk of one person in every finest cell of a file, averaged over the noise of all tables.

    A finest cell holds the people whom no table tells apart. The person asked about is one of those counted in the
    cell; where it is empty, somebody who is not there.

    Parameters
    ----------
    data : Population, or a DataFrame with a row for each person or each cell
    tables : what is published, with the noise
    adversary : prior and what is known of others; by default prior 1/2, others of the person's finest cell known, and
        every number of people elsewhere equally likely: in each finest cell where tables cross, or where the noise of
        a sum has no law; where tables nest, in each of the totals that the person is in, and of the cells beside them
        the sum is read. Where tables nest, an `Adversary` may have beliefs about the total of each table, by its name
    guarantee : what is promised; unless given, the privacy loss of one unit in all tables
    privacy_unit : whose data a guarantee protects; a person who changes one count of each table unless given
    failure : probability with which a bound that is not certain may fail
    rng : seed of simulated releases
    draws : of each of eight scrambled sequences of simulated releases, a power of two, where others' counts are summed
        out beside tables that cross; unless given, as many as some seconds allow

    Returns
    -------
    DataFrame, a row for each finest cell, largest `posterior_mean` first: the columns of the file that tables use,
    "count", "target" ("in" or "out"), "prior", "posterior_mean", "mcse" (its standard error, 0 where it is exact),
    "ratio_mean", "prob_correct", "posterior_low" and "posterior_high" (9 of 10 releases lie between them), "bound"
    (the largest posterior that the guarantee allows), "outside" (probability of a release beyond the bounds), "status"
    ("holds", "exceeded" or "violated", as in `audit`), "tells_most" (the table that says most about the cell) and
    "rank", shared by risks equal within error. `attrs`: "understood", "route", "route_words", "cautions", "error"
    (of the approximation: `estimate`, `exact`, `mcse`, `cells`; else None), and "budget", the loss of one unit in all
    tables: `rho` where there is one, and `loss`

    Raises
    ------
    ValueError : a table of columns that the file has not, an exact table, or tables that cross with noise for which
        there is no way to the answer; the message says what to do

    References
    ----------
    Li, Miklau, Hay, McGregor and Rastogi (2015), "The matrix mechanism", VLDB Journal: estimates from all tables.

    >>> from adversary.adversaries.tables import Axis
    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> sexes, ages = Axis(("sex",), np.array([["m"], ["f"]])), Axis(("age",), np.array([["0-17"], ["18+"]]))
    >>> people, noise = Population((sexes, ages), np.array([[3, 0], [2, 4]])), DiscreteGaussian.from_rho(0.1)
    >>> found = audit_tables(people, [PublishedTable(("sex", "age"), noise), PublishedTable("sex", noise)])
    >>> found["target"].iloc[-1], found.attrs["route"]
    ('out', 'nested')
    """
    published = [tables] if isinstance(tables, PublishedTable) else [*tables]
    if not published:
        raise ValueError("tables must be at least one, got none")
    for table in published:
        if not isinstance(table, PublishedTable):
            raise TypeError(f"tables must be PublishedTable, got {table!r}")
        if table.noise.is_exact:
            raise ValueError(
                f"table {table.name!r} is exact, which may settle a count for certain: leave it out, or audit one cell "
                "by a Plan with an exact level"
            )
    if privacy_unit is not None and privacy_unit.periods > 1:
        raise ValueError(
            f"privacy_unit: periods must be 1 beside tables, got {privacy_unit.periods}: say how often a table is "
            f"published of the same people by its own releases, releases={privacy_unit.periods}"
        )
    people = data if isinstance(data, Population) else population_of_data(data, published)
    failure = float(check_probability("failure", failure))
    if guarantee is not None:
        check_guarantee("guarantee", guarantee)
    world = Joined.of(people, resolve_tables(published, people))
    who = _adversary_of(adversary or TableAdversary(), world)
    case = _Case(world, who, guarantee, privacy_unit, failure, rng)
    route = case.route
    counts, answers = world.counts, list[_Answer]()
    suppressed = world.population.suppressed.ravel()
    if suppressed.any() and not (route == "known" and all(noise.is_additive for noise in world.noises)):
        there = known_least(world, who) + 1 if isinstance(who, TableAdversary) else 1
        low, most = np.where(suppressed, np.maximum(counts, there), counts), np.asarray(world.population.most).ravel()
        for seed in blocks.seed_sequence(rng).spawn(TRUTHS):
            truth = np.random.default_rng(seed).integers(low, most + 1)
            own = replace(case, rng=seed)
            answers.append(own.answer(route, truth, draws or LEAST, measured=not answers))
    else:
        answers.append(case.answer(route, np.where(suppressed, np.maximum(counts, 1), counts), draws, measured=True))
    return _framed(case, route, answers, differenced(world, published))


def _adversary_of(who: TableAdversary | Adversary, world: Joined) -> TableAdversary | Adversary:
    """The adversary; one of a path, without beliefs, where tables cross as well."""
    if isinstance(who, TableAdversary):
        return who
    if not isinstance(who, Adversary):
        raise TypeError(f"adversary must be a TableAdversary, such as TableAdversary(prior=0.1), got {who!r}")
    if who.hypotheses != (0, 1):
        raise ValueError(f"adversary: hypotheses must be (0, 1), a person in the cell or not, got {who.hypotheses}")
    if who.known != 0:
        raise ValueError(f"adversary: known must be left out: the file says it of each cell, got {who.known}")
    if chain_of(world.queries) is not None:
        return who
    if who.beliefs or who.sampling_rate < 1.0:
        raise ValueError(
            "adversary: beliefs about the totals of tables, or a sampling rate, need tables that nest, and these "
            "cross: use a TableAdversary, whose belief is about others in the finest cells"
        )
    return TableAdversary(who.prior)


@dataclass(frozen=True)
class _Answer:
    """Risks, and the largest posterior allowed, of every cell; whether the guarantee is kept; what to know before."""

    risks: CellRisks
    bound: Floats
    failure: Floats
    guarantee_is_true: bool
    tells_most: Integers
    cautions: tuple[str, ...] = ()
    error: EffectiveError | None = None


@dataclass(frozen=True)
class _Case:
    """One file, its tables, one adversary and what is promised."""

    world: Joined
    who: TableAdversary | Adversary
    guarantee: Guarantee | None
    unit: PrivacyUnit | None
    failure: float
    rng: Any

    @property
    def plan(self) -> Plan:
        """One count in all tables, as levels of the same people: what bounds are about."""
        names = [query.name for query in self.world.queries]
        siblings = [*[0] * (len(names) - 1), None]
        levels = [Level(*one) for one in zip(names, self.world.noises, siblings, strict=True)]
        return Plan(levels, privacy_unit=self.unit)

    @property
    def _flat(self) -> bool:
        """True of beliefs about others in cells, one by one, that have no end."""
        who = self.who
        return isinstance(who, TableAdversary) and who.belief is None and who.knows != "everybody"

    @property
    def route(self) -> str:
        """The way to the answer."""
        chain = chain_of(self.world.queries)
        if isinstance(self.who, Adversary):
            return "nested"
        if self.who.knows == "everybody":
            return "known"
        people = self.world.population
        most = np.asarray(people.most).ravel()
        others, least = most - np.minimum(most, 1), known_least(self.world, self.who)
        if (wrong := np.flatnonzero(least > others)).size:
            cell = [int(i) for i in np.unravel_index(int(wrong[0]), people.counts.shape)]
            raise ValueError(
                f"adversary: at_least must not be more than there are beside the person, got {least[wrong[0]]} of "
                f"{others[wrong[0]]} in {', '.join(people.label(cell).values())}"
            )
        alone = self.who.belief is None and self.who.at_least is None
        if chain is not None and alone and sums_have_laws(self.world, chain):
            return "nested"
        if CrossingRisk(self.world, self.who, self.world.counts).feasible:
            return "crossing"
        pairs = zip(self.plan.names, self.world.noises, strict=True)
        if odd := [name for name, noise in pairs if not near_gaussian(noise)]:
            raise ValueError(
                f"table {odd[0]!r}: there are too many counts to sum out exactly where tables cross, and its noise is "
                'not Gaussian: ask about an adversary who knows everybody else, knows="everybody", or leave a table out'
            )
        return "effective"

    def limit(self, bounds: Bounds) -> tuple[float, float, bool]:
        """(failure, largest loss, whether the plan keeps the guarantee)."""
        guarantee = (
            own_loss(bounds.plan, bounds.moved) if self.guarantee is None else self.guarantee.group(bounds.records)
        )
        return *bounds.limit(guarantee), self.guarantee is None or promise_kept(self.guarantee, bounds.plan)

    def answer(self, route: str, counts: Integers, draws: int | None, *, measured: bool = False) -> _Answer:
        """The risk in every cell of a truth; the error of an approximation is `measured` if so asked."""
        if route == "nested":
            return self._nested(counts)
        failure, limit, is_true = self.limit(Bounds(self.plan, self.plan.units(1), 1, self.failure))
        error = None
        if route == "known":
            losses, place = known_losses(self.world, counts)
            rows = [[risk_of_loss(loss, self.who.prior, side, limit) for side in (0, 1)] for loss in losses]
            risks = CellRisks.of([row for pair in rows for row in pair]).at(2 * place + np.minimum(counts, 1))
            own = np.array([1.0 / max(noise.variance, 1e-300) for noise in self.world.noises])
            most = np.full(counts.size, np.argmax(np.bincount(self.world.owner, own)))
        else:
            assert isinstance(self.who, TableAdversary)
            variance, most = information(self.world)
            if route == "crossing":
                risks = CrossingRisk(self.world, self.who, counts).risks(limit, self.rng, draws)
            else:
                self._check_estimated(variance)
                risks = effective_risks(self.world, self.who, variance, counts, limit)
                error = effective_error(self.world, self.who, counts, limit, self.rng) if measured else None
        bound = guarantee_within(limit).posterior_bounds(self.who.prior)[1]
        cautions = (*([FLAT] if self._flat else []), *([error.words] if error else []))
        return _Answer(
            risks, np.full(counts.size, bound), np.full(counts.size, failure), is_true, most, cautions, error
        )

    def _check_estimated(self, variance: Floats) -> None:
        """ValueError where the tables settle no estimate of a cell, to an adversary of whom sums then say nothing."""
        assert isinstance(self.who, TableAdversary)
        unknown = int(np.isinf(variance).sum())
        if unknown and self.who.belief is None:
            columns = ", ".join(self.world.population.columns)
            raise ValueError(
                f"the tables together do not tell the count of {unknown:,} of {variance.size:,} cells of {columns}: "
                "who finds every number of others there equally likely learns nothing of one person from sums, which "
                'says nothing of who knows more. Ask about an adversary who knows everybody else, knows="everybody" '
                "(--knows everybody), or give a belief about others, such as last year's counts"
            )

    def _nested(self, counts: Integers) -> _Answer:
        chain = chain_of(self.world.queries)
        assert chain is not None
        nested = Nested.of(self.world, chain, counts)
        who = self._path_adversary(nested)
        positions, place = nested.positions(who)
        rows: list[tuple[float, ...]] = [()] * len(positions)
        ends = np.zeros((2, len(positions)))
        tilted = np.zeros((len(positions), len(chain)), dtype=bool)
        limits: dict[tuple[int, int], tuple[float, float, bool]] = {}
        for states, plan, believer, laws in nested.laws(who, positions, self.unit, self.rng):
            bounds = Bounds.of(plan, believer, self.failure)
            key = bounds.records, bounds.moved
            if key not in limits:
                limits[key] = self.limit(bounds)
            failure, limit, _ = limits[key]
            ends[:, states] = [[failure], [guarantee_within(limit).posterior_bounds(who.prior)[1]]]
            tilted[states] = nested.tilted(plan, believer, positions[states])
            for state, law in zip(states, laws, strict=True):
                rows[state] = risk_of_law(law, limit)
        few = {name: int(n) for name, n in zip(nested.names, tilted[place].sum(axis=0), strict=True) if n}
        where = f"few others are there in {join_words([f'{one:,}' for one in few.values()])} of {place.size:,} cells"
        cautions = (tilt_warning(plan, join_words([*few]), where),) if few else ()
        is_true = all(one[2] for one in limits.values())
        most = np.array([self.world.owner[i] for i in chain])[nested.tells_most(positions)]
        risks = CellRisks.of(rows)
        return _Answer(risks.at(place), ends[1, place], ends[0, place], is_true, most[place], cautions)

    def _path_adversary(self, nested: Nested) -> Adversary:
        if isinstance(self.who, TableAdversary):
            return nested.adversary(self.who)
        if self.who.beliefs:
            return self.who
        return replace(self.who, beliefs=nested.adversary(TableAdversary()).beliefs)


def _framed(case: _Case, route: str, answers: list[_Answer], shown: NDArray[np.bool_]) -> pd.DataFrame:
    """A row for each finest cell, the largest posterior first; of cells that are `shown`, certainty."""
    import pandas as pd

    world, people = case.world, case.world.population
    risks = answers[0].risks if len(answers) == 1 else CellRisks.averaged([one.risks for one in answers])
    one = answers[0]
    index = np.indices(people.counts.shape).reshape(people.counts.ndim, -1)
    columns: dict[str, Any] = {}
    for axis, i in zip(people.axes, index, strict=True):
        columns |= {name: axis.labels[i, c] for c, name in enumerate(axis.columns) if name != "all"}
    suppressed = people.suppressed.ravel()
    columns["count"] = world.counts
    if suppressed.any():
        columns["most"] = np.asarray(people.most).ravel()
    columns |= {"target": np.where((world.counts > 0) | suppressed, "in", "out"), "prior": case.who.prior}
    uncertain, outside = risks.uncertain, risks.outside
    columns |= {name: values for name, values in vars(risks).items() if name not in ("outside", "uncertain")}
    over = [exceeds(*row) for row in zip(outside, one.failure, uncertain, strict=True)]
    status = np.where(over, "exceeded", "holds") if one.guarantee_is_true else np.full(world.size, "violated")
    columns |= {"bound": one.bound, "outside": outside, "status": status.astype(object)}
    shown = shown & (case.who.prior > 0.0)
    beyond = shown & (one.bound < 1.0)
    certain = {"posterior_mean": 1.0, "posterior_low": 1.0, "posterior_high": 1.0, "prob_correct": 1.0, "mcse": 0.0}
    certain["ratio_mean"] = 1.0 / (case.who.prior or 1.0)
    columns |= {name: np.where(shown, x, columns[name]) for name, x in certain.items()}
    columns["outside"] = np.where(beyond, 1.0, columns["outside"])
    columns["status"] = np.where(beyond & (columns["status"] == "holds"), "exceeded", columns["status"])
    columns["tells_most"] = np.array(world.names, dtype=object)[one.tells_most]
    frame = pd.DataFrame(columns).sort_values("posterior_mean", ascending=False, kind="stable", ignore_index=True)
    frame["rank"] = shared_ranks(frame["posterior_mean"], frame["mcse"])
    plan = case.plan
    cautions = list(dict.fromkeys(caution for one in answers for caution in one.cautions))
    noises = zip(world.owner, world.noises, strict=True)
    if len({table for table, noise in noises if isinstance(noise, PerturbationTable)}) > 1:
        cautions.append(KEYED)
    if shown.any():
        cautions.append(
            f"{int(shown.sum()):,} cells have a person who is all that two published numbers differ in, whose noise is "
            "the same for the same people: whether that person is there is shown for certain."
        )
    if suppressed.any():
        cautions.append(
            f"{int(suppressed.sum()):,} suppressed counts are not in the file: each is drawn, at least 1 person, "
            f"from those that it may be{f', {len(answers)} times' * (len(answers) > 1)}."
        )
    frame.attrs.update(
        understood=[*people.understood],
        route=route,
        route_words=ROUTES[route],
        cautions=cautions,
        error=one.error,
        budget={"rho": plan.total_rho, "loss": plan.unit_loss()},
    )
    return frame
