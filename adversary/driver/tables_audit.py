"""Audit of every finest cell of a file under all tables published of it, the largest risk first."""

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
from adversary.driver.case import Bounds, exceeds_failure, guarantee_of_bound, own_loss, plan_satisfies
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
"""Methods by which the risks are computed, each with its description."""

# Caution about small cells under an improper belief: it expects more others than are there, so that on average over
# releases the posterior is below the prior.
FLAT = (
    "Every number of others from 0 upwards is equally likely to the adversary: where few are there, more are expected, "
    "and the average leans towards “out”. A belief with an end, or last year's counts, leans less. Take these averages "
    "as those of this particular belief."
)

# Caution for several tables perturbed by one set of cell keys, whose noise is not independent between tables.
KEYED = (
    "The perturbations of every table are taken to be drawn anew. Where they are looked up by cell keys, two cells of "
    "the same people are perturbed alike: whoever sees them differ knows, for certain, that somebody is in one of them "
    "alone. Where a cell has all the people of another but for one, that person's risk is larger than it is here."
)

# Truths drawn where the file suppresses the counts of some cells: risks are averaged over them.
TRUTHS = 16


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
    """Risk of one person in every finest cell of a file, averaged over the noise of all tables.

    A finest cell holds the people who are in the same category of every table. The target is one of the people counted
    in the cell, or somebody who is not there if it is empty.

    Parameters
    ----------
    data : Population, or a DataFrame with a row for each person or each cell
    tables : what is published, with the noise
    adversary : prior and what is known of others; by default prior 1/2, others of the person's finest cell known, and
        every number of people elsewhere equally likely: in each finest cell where tables cross, or where the noise of
        a sum has no law; where tables nest, in each of the totals that the person is in, and of the cells beside them
        the sum is read. Where tables nest, an `Adversary` may have beliefs about the total of each table, by its name
    guarantee : the guarantee claimed for all tables together; by default the privacy loss of one unit in all of them
    privacy_unit : whose data a guarantee protects; a person who changes one count of each table unless given
    failure : probability with which a bound that is not certain may fail
    rng : seed of simulated releases
    draws : simulated releases in each of eight scrambled sequences, a power of two, where tables cross and others'
        counts are summed out; by default as many as a few seconds allow

    Returns
    -------
    DataFrame, a row for each finest cell, largest `posterior_mean` first: the columns of the file that tables use,
    "count", "target" ("in" or "out"), "prior", "posterior_mean", "mcse" (its standard error, 0 where it is exact),
    "ratio_mean", "prob_correct", "posterior_low" and "posterior_high" (90 % interval over releases), "bound"
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
    >>> risks = audit_tables(people, [PublishedTable(("sex", "age"), noise), PublishedTable("sex", noise)])
    >>> risks["target"].iloc[-1], risks.attrs["route"]
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
    joined = Joined.of(people, resolve_tables(published, people))
    table_adversary = _adversary_of(adversary or TableAdversary(), joined)
    tables_audit = _TablesAudit(joined, table_adversary, guarantee, privacy_unit, failure, rng)
    route = tables_audit.route
    counts, answers = joined.counts, list[_CellResults]()
    suppressed = joined.population.suppressed.ravel()
    if suppressed.any() and not (route == "known" and all(noise.is_additive for noise in joined.noises)):
        least_count = known_least(joined, table_adversary) + 1 if isinstance(table_adversary, TableAdversary) else 1
        least, most = (
            np.where(suppressed, np.maximum(counts, least_count), counts),
            np.asarray(joined.population.most).ravel(),
        )
        for seed in blocks.seed_sequence(rng).spawn(TRUTHS):
            truth = np.random.default_rng(seed).integers(least, most + 1)
            audit_of_truth = replace(tables_audit, rng=seed)
            answers.append(audit_of_truth.answer(route, truth, draws or LEAST, measured=not answers))
    else:
        answers.append(
            tables_audit.answer(route, np.where(suppressed, np.maximum(counts, 1), counts), draws, measured=True)
        )
    return _results_frame(tables_audit, route, answers, differenced(joined, published))


def _adversary_of(adversary: TableAdversary | Adversary, joined: Joined) -> TableAdversary | Adversary:
    """The adversary in a form that suits the tables.

    An `Adversary` stays if the tables nest; if they cross it becomes a `TableAdversary` with its prior, and its beliefs
    about totals of tables are refused.
    """
    if isinstance(adversary, TableAdversary):
        return adversary
    if not isinstance(adversary, Adversary):
        raise TypeError(f"adversary must be a TableAdversary, such as TableAdversary(prior=0.1), got {adversary!r}")
    if adversary.hypotheses != (0, 1):
        raise ValueError(
            f"adversary: hypotheses must be (0, 1), a person in the cell or not, got {adversary.hypotheses}"
        )
    if adversary.known != 0:
        raise ValueError(f"adversary: known must be left out: the file says it of each cell, got {adversary.known}")
    if chain_of(joined.queries) is not None:
        return adversary
    if adversary.beliefs or adversary.sampling_rate < 1.0:
        raise ValueError(
            "adversary: beliefs about the totals of tables, or a sampling rate, need tables that nest, and these "
            "cross: use a TableAdversary, whose belief is about others in the finest cells"
        )
    return TableAdversary(adversary.prior)


@dataclass(frozen=True)
class _CellResults:
    """Results of every finest cell under one truth.

    `risks`, `bound` (largest posterior that the guarantee allows), its `failure` probability and `tells_most` (index of
    the table that says most about the cell) are by cell; `guarantee_is_true` says whether the noise satisfies the
    guarantee, `error` is that of an approximation.
    """

    risks: CellRisks
    bound: Floats
    failure: Floats
    guarantee_is_true: bool
    tells_most: Integers
    cautions: tuple[str, ...] = ()
    error: EffectiveError | None = None


@dataclass(frozen=True)
class _TablesAudit:
    """Audit of one file's tables: the file and its tables (`joined`), one adversary, the guarantee and the unit."""

    joined: Joined
    adversary: TableAdversary | Adversary
    guarantee: Guarantee | None
    unit: PrivacyUnit | None
    failure: float
    rng: Any

    @property
    def plan(self) -> Plan:
        """Plan of one count in all tables, as levels of the same people: bounds are those of this plan."""
        names = [query.name for query in self.joined.queries]
        siblings = [*[0] * (len(names) - 1), None]
        levels = [Level(*one) for one in zip(names, self.joined.noises, siblings, strict=True)]
        return Plan(levels, privacy_unit=self.unit)

    @property
    def _flat(self) -> bool:
        """True if the adversary believes every number of others, without end, to be equally likely in a cell."""
        adversary = self.adversary
        return isinstance(adversary, TableAdversary) and adversary.belief is None and adversary.knows != "everybody"

    @property
    def route(self) -> str:
        """Method by which the risks are computed, one of `ROUTES`; ValueError if none can be used."""
        chain = chain_of(self.joined.queries)
        if isinstance(self.adversary, Adversary):
            return "nested"
        if self.adversary.knows == "everybody":
            return "known"
        people = self.joined.population
        most = np.asarray(people.most).ravel()
        others, least = most - np.minimum(most, 1), known_least(self.joined, self.adversary)
        if (too_many_known := np.flatnonzero(least > others)).size:
            cell = [int(i) for i in np.unravel_index(int(too_many_known[0]), people.counts.shape)]
            raise ValueError(
                "adversary: at_least must not be more than there are beside the person, got "
                f"{least[too_many_known[0]]} of {others[too_many_known[0]]} in "
                f"{', '.join(people.label(cell).values())}"
            )
        no_belief = self.adversary.belief is None and self.adversary.at_least is None
        if chain is not None and no_belief and sums_have_laws(self.joined, chain):
            return "nested"
        if CrossingRisk(self.joined, self.adversary, self.joined.counts).feasible:
            return "crossing"
        pairs = zip(self.plan.names, self.joined.noises, strict=True)
        if not_gaussian := [name for name, noise in pairs if not near_gaussian(noise)]:
            raise ValueError(
                f"table {not_gaussian[0]!r}: there are too many counts to sum out exactly where tables cross, and its "
                'noise is not Gaussian: audit an adversary who knows everybody else, knows="everybody", or leave a '
                "table out"
            )
        return "effective"

    def limit(self, bounds: Bounds) -> tuple[float, float, bool]:
        """(failure probability, largest loss in nats, whether the plan satisfies the guarantee)."""
        guarantee = (
            own_loss(bounds.plan, bounds.count_shift)
            if self.guarantee is None
            else self.guarantee.group(bounds.records)
        )
        return *bounds.limit(guarantee), self.guarantee is None or plan_satisfies(self.guarantee, bounds.plan)

    def answer(self, route: str, counts: Integers, draws: int | None, *, measured: bool = False) -> _CellResults:
        """Results of every cell under a truth, `counts` (cell,), by one of `ROUTES`.

        With `measured` the error of an approximation is estimated too.
        """
        if route == "nested":
            return self._nested(counts)
        failure, limit, is_true = self.limit(Bounds(self.plan, self.plan.units(1), 1, self.failure))
        approximation_error = None
        if route == "known":
            losses, place = known_losses(self.joined, counts)
            rows = [[risk_of_loss(loss, self.adversary.prior, side, limit) for side in (0, 1)] for loss in losses]
            risks = CellRisks.of([row for pair in rows for row in pair]).at(2 * place + np.minimum(counts, 1))
            precision = np.array([1.0 / max(noise.variance, 1e-300) for noise in self.joined.noises])
            most_informative = np.full(counts.size, np.argmax(np.bincount(self.joined.owner, precision)))
        else:
            assert isinstance(self.adversary, TableAdversary)
            variance, most_informative = information(self.joined)
            if route == "crossing":
                risks = CrossingRisk(self.joined, self.adversary, counts).risks(limit, self.rng, draws)
            else:
                self._check_estimated(variance)
                risks = effective_risks(self.joined, self.adversary, variance, counts, limit)
                approximation_error = (
                    effective_error(self.joined, self.adversary, counts, limit, self.rng) if measured else None
                )
        bound = guarantee_of_bound(limit).posterior_bounds(self.adversary.prior)[1]
        cautions = (*([FLAT] if self._flat else []), *([approximation_error.words] if approximation_error else []))
        return _CellResults(
            risks,
            np.full(counts.size, bound),
            np.full(counts.size, failure),
            is_true,
            most_informative,
            cautions,
            approximation_error,
        )

    def _check_estimated(self, variance: Floats) -> None:
        """ValueError if the tables do not determine an estimate of every cell and the adversary has no proper belief.

        Sums over cells then carry no information about one person, under a flat belief about all others.
        """
        assert isinstance(self.adversary, TableAdversary)
        unknown = int(np.isinf(variance).sum())
        if unknown and self.adversary.belief is None:
            columns = ", ".join(self.joined.population.columns)
            raise ValueError(
                f"the tables together do not tell the count of {unknown:,} of {variance.size:,} cells of {columns}: "
                "who finds every number of others there equally likely learns nothing of one person from sums, which "
                'says nothing of who knows more. Audit an adversary who knows everybody else, knows="everybody" '
                "(--knows everybody), or give a belief about others, such as last year's counts"
            )

    def _nested(self, counts: Integers) -> _CellResults:
        """Results under a truth if the tables nest, by the exact recursion along the path of each cell."""
        chain = chain_of(self.joined.queries)
        assert chain is not None
        nested = Nested.of(self.joined, chain, counts)
        path_adversary = self._path_adversary(nested)
        positions, place = nested.positions(path_adversary)
        rows: list[tuple[float, ...]] = [()] * len(positions)
        failure_and_bound = np.zeros((2, len(positions)))
        tilted = np.zeros((len(positions), len(chain)), dtype=bool)
        limits: dict[tuple[int, int], tuple[float, float, bool]] = {}
        for states, plan, believer, laws in nested.laws(path_adversary, positions, self.unit, self.rng):
            bounds = Bounds.of(plan, believer, self.failure)
            key = bounds.records, bounds.count_shift
            if key not in limits:
                limits[key] = self.limit(bounds)
            failure, limit, _ = limits[key]
            failure_and_bound[:, states] = [
                [failure],
                [guarantee_of_bound(limit).posterior_bounds(path_adversary.prior)[1]],
            ]
            tilted[states] = nested.tilted(plan, believer, positions[states])
            for state, law in zip(states, laws, strict=True):
                rows[state] = risk_of_law(law, limit)
        few_others_by_table = {
            name: int(n) for name, n in zip(nested.names, tilted[place].sum(axis=0), strict=True) if n
        }
        numbers = join_words([f"{one:,}" for one in few_others_by_table.values()])
        where_few = f"few others are there in {numbers} of {place.size:,} cells"
        cautions = (tilt_warning(plan, join_words([*few_others_by_table]), where_few),) if few_others_by_table else ()
        is_true = all(one[2] for one in limits.values())
        most_informative = np.array([self.joined.owner[i] for i in chain])[nested.tells_most(positions)]
        risks = CellRisks.of(rows)
        return _CellResults(
            risks.at(place),
            failure_and_bound[1, place],
            failure_and_bound[0, place],
            is_true,
            most_informative[place],
            cautions,
        )

    def _path_adversary(self, nested: Nested) -> Adversary:
        """The adversary with beliefs about the tables' totals: its own, or those that a `TableAdversary` implies."""
        if isinstance(self.adversary, TableAdversary):
            return nested.adversary(self.adversary)
        if self.adversary.beliefs:
            return self.adversary
        return replace(self.adversary, beliefs=nested.adversary(TableAdversary()).beliefs)


def _results_frame(
    audited: _TablesAudit, route: str, answers: list[_CellResults], disclosed: NDArray[np.bool_]
) -> pd.DataFrame:
    """Data frame of the results: a row for each finest cell, the largest posterior first.

    `answers` are the results of each truth that was drawn; in cells that are `disclosed` the target is certain.
    """
    import pandas as pd

    joined, people = audited.joined, audited.joined.population
    risks = answers[0].risks if len(answers) == 1 else CellRisks.averaged([one.risks for one in answers])
    first = answers[0]
    index = np.indices(people.counts.shape).reshape(people.counts.ndim, -1)
    columns: dict[str, Any] = {}
    for axis, i in zip(people.axes, index, strict=True):
        columns |= {name: axis.labels[i, c] for c, name in enumerate(axis.columns) if name != "all"}
    suppressed = people.suppressed.ravel()
    columns["count"] = joined.counts
    if suppressed.any():
        columns["most"] = np.asarray(people.most).ravel()
    columns |= {"target": np.where((joined.counts > 0) | suppressed, "in", "out"), "prior": audited.adversary.prior}
    uncertain, outside = risks.uncertain, risks.outside
    columns |= {name: values for name, values in vars(risks).items() if name not in ("outside", "uncertain")}
    over = [exceeds_failure(*row) for row in zip(outside, first.failure, uncertain, strict=True)]
    status = np.where(over, "exceeded", "holds") if first.guarantee_is_true else np.full(joined.size, "violated")
    columns |= {"bound": first.bound, "outside": outside, "status": status.astype(object)}
    disclosed = disclosed & (audited.adversary.prior > 0.0)
    above_bound = disclosed & (first.bound < 1.0)
    certain = {"posterior_mean": 1.0, "posterior_low": 1.0, "posterior_high": 1.0, "prob_correct": 1.0, "mcse": 0.0}
    certain["ratio_mean"] = 1.0 / (audited.adversary.prior or 1.0)
    columns |= {name: np.where(disclosed, x, columns[name]) for name, x in certain.items()}
    columns["outside"] = np.where(above_bound, 1.0, columns["outside"])
    columns["status"] = np.where(above_bound & (columns["status"] == "holds"), "exceeded", columns["status"])
    columns["tells_most"] = np.array(joined.names, dtype=object)[first.tells_most]
    frame = pd.DataFrame(columns).sort_values("posterior_mean", ascending=False, kind="stable", ignore_index=True)
    frame["rank"] = shared_ranks(frame["posterior_mean"], frame["mcse"])
    plan = audited.plan
    cautions = list(dict.fromkeys(caution for one in answers for caution in one.cautions))
    noises = zip(joined.owner, joined.noises, strict=True)
    if len({table for table, noise in noises if isinstance(noise, PerturbationTable)}) > 1:
        cautions.append(KEYED)
    if disclosed.any():
        cautions.append(
            f"{int(disclosed.sum()):,} cells have a person who is all that two published numbers differ in, whose "
            "noise is the same for the same people: whether that person is there is shown for certain."
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
        error=first.error,
        budget={"rho": plan.total_rho, "loss": plan.unit_loss()},
    )
    return frame
