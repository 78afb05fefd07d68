"""Exact posterior of every unit of a tree of counts, with labels: counts, their sums, and membership in each leaf."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from adversary._core import Floats, as_array, check_probability, check_whole, logit, posterior_ratio
from adversary.census.spine.derived import difference_distribution, share_distribution, sum_distribution
from adversary.census.spine.leaf_priors import LeafPrior, SharedRate
from adversary.census.spine.membership import STATUS, extended_downward_message, log_bayes_factors
from adversary.census.spine.others_unknown import tail_probability, unknown_others
from adversary.census.spine.problem import Message
from adversary.census.spine.solution import Solution, map_threads
from adversary.census.spine.tree import Tree, in_order

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False, repr=False)
class SpinePosterior:
    """Posterior of every unit of a tree, for one cell or several. Made by `posterior`.

    Quantities are `xarray` objects over "unit" (geocodes, with their `level`), and over "cell" if the released counts
    have cells.
    """

    tree: Tree
    prior: LeafPrior
    solutions: tuple[Solution, ...]
    tolerance: float
    single: bool
    cells: tuple[Any, ...] | None = None

    def __repr__(self) -> str:
        bound = float(np.max(self.truncation_bound))
        return f"SpinePosterior({self.tree!r}, {len(self.solutions)} cells, truncation bound {bound:.1e})"

    @cached_property
    def _coords(self) -> dict[str, Any]:
        names = np.asarray(self.tree.levels)[self.tree.level]
        coords: dict[str, Any] = {"unit": self.tree.names, "level": ("unit", names)}
        return coords if self.cells is None else coords | {"cell": list(self.cells)}

    def _labelled(self, columns: Iterable[Any]) -> xr.DataArray:
        """DataArray over units, and cells if there are several, from one (unit,) column per cell."""
        import xarray as xr

        values = np.stack(list(columns), axis=-1)
        if self.single:
            return xr.DataArray(values[:, 0], {k: v for k, v in self._coords.items() if k != "cell"}, ("unit",))
        return xr.DataArray(values, self._coords, ("unit", "cell"))

    def _per_cell(self, name: str) -> Any:
        """Attribute `name` of every cell's solution; a scalar if the counts have no cells."""
        values = np.array([getattr(solution, name) for solution in self.solutions])
        return values[0].item() if self.single else values

    @cached_property
    def mean(self) -> xr.DataArray:
        """Posterior means, people."""
        return self._labelled(s.mean for s in self.solutions)

    @cached_property
    def sd(self) -> xr.DataArray:
        """Posterior standard deviations, people."""
        return self._labelled(np.sqrt(s.variance) for s in self.solutions)

    @property
    def log_evidence(self) -> Any:
        """Log marginal likelihood, without the normalising constants of the noise; NaN for a piece of a larger tree."""
        return self._per_cell("log_evidence")

    @property
    def truncation_bound(self) -> Any:
        """Bound on the probability that some count lies off its window; it bounds the error of every pmf."""
        return self._per_cell("truncation_bound")

    @property
    def status(self) -> Any:
        """ "ok", "loose" if the truncation bound exceeds the tolerance, "unresolved" above 1e-6: numbers are NaN."""
        within = np.array([s.truncation_bound for s in self.solutions]) <= self.tolerance
        resolved = [s.resolved for s in self.solutions]
        status = np.where(resolved, np.where(within, "ok", "loose"), "unresolved")
        return status[0].item() if self.single else status

    def pmf(self, name: str, cell: int = 0) -> xr.DataArray:
        """Posterior probabilities of one unit's count, over "count"."""
        import xarray as xr

        solution, v = self.solutions[cell], int(self.tree.index(name))
        window = solution.messages.windows[v]
        here = slice(window["place"], window["place"] + window["size"])
        p = solution.messages.data[here] * solution.outer[here]
        p = p / p.sum() if solution.resolved else np.full_like(p, np.nan)
        counts = int(window["low"]) + np.arange(p.size)
        return xr.DataArray(p, {"count": counts}, ("count",), attrs={"unit": name})

    def hdi(self, prob: float = 0.9) -> xr.Dataset:
        """Highest posterior density sets: the most probable counts with total probability at least `prob`.

        Returns a Dataset of `lower` and `upper`, the ends; `mass`, the probability, which exceeds `prob` because counts
        are whole; and `gaps`, the number of counts between the ends that are not in the set.
        """
        import xarray as xr

        sets = [self._density(solution, prob, np.full(len(self.tree), -1)) for solution in self.solutions]
        names = {"lower": 0, "upper": 1, "mass": 2, "gaps": 3}
        columns = {name: self._labelled(f[i] for f in sets) for name, i in names.items()}
        resolved = self._labelled(np.full(len(self.tree), s.resolved) for s in self.solutions)
        return xr.Dataset(columns if resolved.all() else {name: c.where(resolved) for name, c in columns.items()},
                          attrs={"prob": prob})  # fmt: skip

    def covers(self, counts: ArrayLike, prob: float = 0.9) -> xr.DataArray:
        """True where the highest posterior density set contains the given count.

        counts : (unit,) or (unit, cell) in the tree's order, or by unit name
        """
        counts = as_array(in_order(self.tree.names, counts, "counts"))
        given = np.broadcast_to(counts.T, (len(self.solutions), len(self.tree)))
        whole = [check_whole("counts", row) for row in given]
        return self._labelled(
            self._density(solution, prob, row)[4] for solution, row in zip(self.solutions, whole, strict=True)
        )

    def _density(self, solution: Solution, prob: float, counts: Any) -> Any:
        """Highest posterior density sets of one cell, see `compiled.highest_density`."""
        from adversary._core import call
        from adversary.census.spine.compiled import highest_density

        p = float(check_probability("prob", prob))
        return call(highest_density, solution.messages, solution.outer, p, counts)

    def membership(self, prior: ArrayLike = 0.5, known: Any = None, *, reruns: int = 8, workers: int = 1) -> xr.Dataset:
        """Adversary's posterior that one more person is in a leaf, for every leaf.

        Without `known`, the adversary does not know the number of other people in the leaf and uses its distribution
        given everything else; the privacy guarantee covers this adversary. With `known`, the adversary is certain of
        that number, possibly wrongly; under a `SharedRate` the known people are draws of the rate, as all others are.

        Parameters
        ----------
        prior : probability that the person is there; a number, (leaf,) or (leaf, cell) in the order of `tree.leaves`,
            or by name: a mapping, or labelled over "unit"
        known : number of other people the adversary knows to be in the leaf, whole; shaped like prior, NaN where
            unknown; None: unknown in every leaf
        reruns : limit of work per cell to recompute tilts and windows around known counts, in passes over the whole
            tree (or 0.1 seconds, if a pass takes less). Most leaves need only the part below their parent, once for
            all siblings with the same known count

        Returns
        -------
        Dataset over the leaves: `log_bayes_factor`, `log_odds`, `posterior`, `ratio` of posterior to prior, `error`
        (proven bound on the error of log_bayes_factor, without rounding), `known`, `tail` (the smaller of the
        posterior probabilities of at most known + 1 and at least `known` people: small if the adversary is mistaken;
        NaN if unknown) and `status`: see `STATUS`

        >>> tree = Tree.of({"group": None, "a": "group", "b": "group"})
        >>> from adversary.census.spine import Flat, posterior
        >>> counts = posterior(tree, [1, 2, -1], [0.25, 0.1, 0.1], Flat())
        >>> counts.membership(0.5)["log_bayes_factor"].round(4).values.tolist()  # log(1 - P(count = 0))
        [-0.344, -0.8659]
        """
        import xarray as xr

        leaves, count = self.tree.leaves, len(self.solutions)
        given = np.nan if known is None else known
        prior, given = (in_order(self.tree.names[leaves], x, n) for n, x in (("prior", prior), ("known", given)))
        others = np.broadcast_to(as_array(given).T, (count, leaves.size))
        check_whole("known", others[~np.isnan(others)], minimum=0)
        p = check_probability("prior", prior)

        def membership_of(task: tuple[Solution, Floats]) -> tuple[Any, ...]:
            return self._membership_of_cell(*task, reruns)

        parts = map_threads(membership_of, list(zip(self.solutions, others, strict=True)), workers)
        factor, error, status, tail = (np.stack([f[i] for f in parts], axis=-1) for i in range(4))
        p = np.broadcast_to(p[:, None] if p.ndim == 1 else p, factor.shape)
        with np.errstate(invalid="ignore"):
            odds = logit(p) + factor
            columns = {
                "log_bayes_factor": factor,
                "log_odds": odds,
                "posterior": expit(odds),
                "ratio": posterior_ratio(p, factor),
                "error": error,
                "known": np.array(others.T),
                "tail": tail,
                "status": status.astype(np.int8),
            }
        dims = ("unit",) if self.single else ("unit", "cell")
        flags = {"flag_values": list(range(len(STATUS))), "flag_meanings": " ".join(STATUS)}
        variables = {
            name: (dims, column[:, 0] if self.single else column, flags if name == "status" else {})
            for name, column in columns.items()
        }
        coords: dict[str, Any] = {"unit": self.tree.names[leaves]}
        return xr.Dataset(variables, coords if self.cells is None else coords | {"cell": list(self.cells)})

    def sum(self, units: str | Iterable[str], cell: int = 0, prob: float = 0.9) -> xr.Dataset:
        """Posterior of the total count of several disjoint units, such as a place that is not a unit of the spine.

        Parameters
        ----------
        units : names, at any levels; none may lie in another
        cell : number of the cell, where there are several
        prob : probability of the interval

        Returns
        -------
        Dataset of `pmf` over "count", `mean`, `sd` and the equal-tailed `lower` and `upper` in people, and `error`: a
        bound on the total variation distance to the untruncated posterior, including rounding errors of 1e-13

        Raises
        ------
        ValueError : unknown or overlapping units, or a posterior that is not resolved

        >>> from adversary.census.spine import Flat, Tree, posterior
        >>> tree = Tree.of({"g": None, "a": "g", "b": "g", "c": "g"})
        >>> total = posterior(tree, [4, 2, -1, 3], 0.2, Flat()).sum(["a", "c"])
        >>> total["mean"].round(4).item(), bool(total["error"] < 1e-12)
        (4.1335, True)
        """
        return sum_distribution(self.tree, self.solutions[cell], units, prob)

    def compare(self, a: str | Iterable[str], b: str | Iterable[str], cell: int = 0, prob: float = 0.9) -> xr.Dataset:
        """Posterior of the difference between two disjoint units, or sums of units.

        Parameters
        ----------
        a, b : name of a unit, or names of several
        cell : number of the cell, where there are several
        prob : probability of the interval

        Returns
        -------
        Dataset of `pmf` over "difference" (a minus b), its `mean` and `sd` and the equal-tailed `lower` and `upper` in
        people, the probabilities `greater` (a > b), `equal` and `less`, and `error`: a bound on the error of each
        probability

        Raises
        ------
        ValueError : unknown or overlapping units, or a posterior that is not resolved

        >>> from adversary.census.spine import Flat, Tree, posterior
        >>> tree = Tree.of({"g": None, "a": "g", "b": "g", "c": "g"})
        >>> posterior(tree, [4, 2, -1, 3], 0.2, Flat()).compare("a", "b")["greater"].round(4).item()
        0.693
        """
        return difference_distribution(self.tree, self.solutions[cell], a, b, prob)

    def share(
        self, units: str | Iterable[str], of: str | Iterable[str], cell: int = 0, prob: float = 0.9
    ) -> xr.Dataset:
        """Posterior of the share of some units in the total of units that contain them.

        Parameters
        ----------
        units : name of a unit, or names of several, disjoint
        of : the same; each of `units` lies in one of them
        cell : number of the cell, where there are several
        prob : probability of the interval

        Returns
        -------
        Dataset of `mean`, `sd`, `lower` and `upper` of the share given a positive total; `empty`, the probability that
        the total is 0; `error`, a bound on the error of each probability; and, unless the table is too large, `joint`,
        probabilities over "count" (of the units) and "rest" (total minus count). `lower` and `upper` are equal-tailed
        of the posterior or, if the joint distribution would take too long, of the beta distribution with this mean and
        sd; the attribute `interval` states which

        Raises
        ------
        ValueError : unknown or overlapping units, or one that lies in none of `of`

        >>> from adversary.census.spine import Flat, Tree, posterior
        >>> tree = Tree.of({"g": None, "a": "g", "b": "g", "c": "g"})
        >>> posterior(tree, [4, 2, -1, 3], 0.2, Flat()).share("a", of="g")["mean"].round(4).item()
        0.3606
        """
        return share_distribution(self.tree, self.solutions[cell], units, of, prob)

    def downward_message(self, name: str, cell: int | None = None, known: bool = True) -> Any:
        """Downward message of a unit: the likelihood of its count given everything outside it.

        For `posterior` of the subtree below the unit, as `outside`.

        Parameters
        ----------
        name : name of the unit
        cell : number of the cell; None: all cells
        known : also compute the message on a wider window, for later `membership` with `known` counts or a `Pmf` prior;
            doubles the time, and compiles code on first use

        Returns
        -------
        Message, or a tuple of one per cell
        """
        v = int(self.tree.index(name))
        if cell is None and not self.single:
            return tuple(self.downward_message(name, i, known) for i in range(len(self.solutions)))
        solution = self.solutions[cell or 0].with_measurements_above(v)
        window = solution.messages.windows[v]
        values = solution.outer[window["place"] : window["place"] + window["size"]]
        tilt = float(solution.theta[self.tree.parent[v]]) if v else solution.layout.top_tilt
        limits = (float(solution.bounds.outer_low[v]), float(solution.bounds.outer_high[v]))
        further = extended_downward_message(solution, v) if known else None
        values = values / values.max() if values.any() else values
        return Message(int(window["low"]), values, tilt, 0.0, solution.truncation_bound, limits, further)

    def _membership_of_cell(self, solution: Solution, others: Floats, reruns: int) -> tuple[Any, ...]:
        """Log Bayes factors of one more person, error bounds, statuses and tail probabilities in one cell, by leaf.

        Parameters
        ----------
        solution : posterior of the cell
        others : number of other people that the adversary knows to be in each leaf, (leaf,); NaN if unknown
        reruns : largest amount of repeated work, as in `membership`
        """
        is_unknown = np.isnan(others)
        results: tuple[Any, ...] = ()
        if is_unknown.any():
            results = unknown_others(self.tree, self.prior, solution)
        if not is_unknown.all():
            counts = np.where(is_unknown, 0, others).astype(np.int64)
            results_known = log_bayes_factors(self.tree, solution, counts, reruns)
            results = (
                tuple(np.where(is_unknown, *both) for both in zip(results, results_known, strict=True))
                if results
                else results_known
            )
        return *results, tail_probability(self.tree, solution, others)

    def rate_weights(self) -> Floats:
        """(unit[, cell], rate) posterior weights of the rates, in the units within which a rate is shared.

        One row per unit with an unsettled leaf in some cell; NaN in cells where all its leaves are settled.
        """
        from adversary._core import call
        from adversary.census.spine.compiled import rate_posteriors

        if not isinstance(self.prior, SharedRate):
            raise ValueError(f"{self.prior!r} has no shared rate")
        weights = np.stack([call(rate_posteriors, s.layout, s.messages, s.outer) for s in self.solutions], axis=1)
        weights = weights[np.isfinite(weights).any(axis=(1, 2))]
        return np.asarray(weights[:, 0] if self.single else weights, dtype=np.float64)

    def to_xarray(self, prob: float = 0.9) -> xr.Dataset:
        """Dataset of means, standard deviations, highest posterior density sets and truncation bounds."""
        import xarray as xr

        sets = self.hdi(prob).rename(lower="hdi_lower", upper="hdi_upper", mass="hdi_mass", gaps="hdi_gaps")
        dims = () if self.single else ("cell",)
        totals = {name: (dims, getattr(self, name)) for name in ("log_evidence", "truncation_bound", "status")}
        summary = xr.Dataset({"mean": self.mean, "sd": self.sd, **sets.data_vars}).assign(totals)
        return summary.assign_attrs(prob=prob, tolerance=self.tolerance, prior=repr(self.prior))
