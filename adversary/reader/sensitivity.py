"""How much a reader's conclusions move with their prior, the noise, the siblings, and what they believe of others.

One law of the log Bayes factor over releases serves every prior, so priors cost next to nothing; every other input asks
for a law of its own. Both truths are always told: a belief that helps a reader under one of them hurts under the other,
and one alone misleads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from adversary import runner
from adversary._numeric import Floats, check_positive, check_probability, check_whole, logit
from adversary.privacy.mechanisms import (
    DiscreteGaussian,
    Gaussian,
    Geometric,
    Laplace,
    Mechanism,
    RandomizedResponse,
)
from adversary.reader.coarsening import Clamped, Rounded
from adversary.reader.factors import FactorLaw
from adversary.reader.inference import Adversary
from adversary.reader.laws import factor_law, invariant_factor
from adversary.reader.plans import Plan
from adversary.reader.risk import QUANTILES, risk_summary
from adversary.reader.tables import DRAWS
from adversary.reader.truths import Truth, settle_truth

TRUTHS = ("in", "out")
MEASURES = ("posterior_mean", "ratio_mean", "difference_mean", "prob_correct", "tie_mass")
_BY_QUANTILE = ("posterior_quantile", "ratio_quantile")


@dataclass(frozen=True)
class _Case:
    """One plan and one reader of a sweep."""

    plan: Plan
    reader: Adversary


@dataclass(frozen=True)
class _Range:
    """An input, the values it takes, and what a case becomes at each."""

    dim: str
    values: tuple[Any, ...]
    at: Callable[[_Case, Any], _Case]


def sweep(
    plan: Plan,
    reader: Adversary,
    truth: Mapping[str, Any],
    *,
    prior: Any = None,
    rho: Any = None,
    siblings: Any = None,
    beliefs: Mapping[str, Mapping[str, Any]] | None = None,
    draws: int = DRAWS,
    rng: Any = None,
    progress: bool = True,
) -> xr.Dataset:
    """Risk averaged over releases at every combination of the inputs given, under both truths.

    Parameters
    ----------
    plan, reader, truth : as in `adversary.audit`; what is not swept stays as it is there
    prior : probabilities that the target is in
    rho : zCDP budgets of the whole plan, in nats; the noise of every level gets the same factor. An exact level stays
    siblings : numbers of other units, for the lowest level; or a mapping of level name to such numbers, one dim each
    beliefs : named mappings of level to belief, each in place of the reader's own
    draws, rng : simulated releases and seed, where a law is simulated; every case sees the same random numbers
    progress : show a bar on longer work

    Returns
    -------
    Dataset with dims `prior`, `rho`, `siblings` (`siblings[level]` for a mapping) and `beliefs` as far as given, and
    always `truth`: "in" and "out", everybody else as they truly are. Variables are those of the risk group of an audit:
    `posterior_mean`, `ratio_mean`, `difference_mean`, `prob_correct`, `tie_mass`, `posterior_quantile` and
    `ratio_quantile` (dim `quantile`), and `mcse` where anything was simulated. `possible` says which truths a reader
    holds possible; where it is False there is no average (and the attribute `impossible` says why), so the entries of
    the other variables are missing. Coordinate `budget` is the factor that makes each rho.

    Raises
    ------
    ValueError, TypeError : naming the argument, the rule and the value; also where neither truth is ever possible

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> from adversary.reader.plans import Level
    >>> plan = Plan([Level("block", DiscreteGaussian.from_rho(0.1))])
    >>> found = sweep(plan, Adversary(), {"block": 1}, prior=[0.1, 0.5])
    >>> [round(float(p), 4) for p in found["posterior_mean"].sel(truth="in")]
    [0.1169, 0.5239]
    """
    ranges = _ranges(plan, reader, truth, rho, siblings, beliefs)
    priors = None if prior is None else _several("prior", check_probability("prior", prior))
    seed, size = runner.seed_sequence(rng), int(check_whole("draws", draws, minimum=1))
    both = _both_truths(plan, reader, truth)
    shape = tuple(len(one.values) for one in ranges)
    work = [(*place, side) for place in np.ndindex(*shape) for side in range(2)]
    table: dict[tuple[int, ...], list[xr.Dataset]] = {}
    why: dict[tuple[int, ...], str] = {}
    for place in runner.track(work, "laws of the sweep", enabled=progress and len(work) > 8):
        chosen = [one.values[i] for one, i in zip(ranges, place[:-1], strict=True)]
        case = _case(_Case(plan, reader), ranges, chosen)
        try:
            settled = settle_truth(case.plan, case.reader, both[TRUTHS[place[-1]]])
        except ValueError as error:
            why[place] = _named(ranges, chosen) + f"truth {TRUTHS[place[-1]]!r}: {error}"
            continue
        law = factor_law(case.plan, case.reader, settled, draws=size, rng=seed)
        invariant = invariant_factor(case.plan, case.reader, settled)
        starts = [case.reader.prior] if priors is None else list(priors)
        table[place] = [_summary(law, p, invariant) if priors is not None else _own(law, invariant) for p in starts]
    if not table:
        raise ValueError(f"no truth is possible for any reader of the sweep: {next(iter(why.values()))}")
    return _dataset(plan, reader, ranges, priors, table, why)


def one_at_a_time(
    plan: Plan,
    reader: Adversary,
    truth: Mapping[str, Any],
    *,
    prior: Any = None,
    rho: Any = None,
    siblings: Any = None,
    beliefs: Mapping[str, Mapping[str, Any]] | None = None,
    draws: int = DRAWS,
    rng: Any = None,
    progress: bool = True,
) -> xr.Dataset:
    """How far each measure moves as one input goes over its range, all others as they are: what a tornado draws.

    The arguments are those of `sweep`, at least one input given.

    Returns
    -------
    Dataset of the measures of `sweep`, dims (input, truth, end): `end` is "low" (the least value over the input's
    range), "base" (the plan and reader as they are) and "high" (the largest); ends are never inside the base.
    `at_<measure>` names the input's value at each end, "as it is" where the base itself is the end. Truths that a
    reader holds impossible are left out of the range; one impossible at the base is missing throughout.
    """
    given = {"prior": prior, "rho": rho, "siblings": siblings, "beliefs": beliefs}
    base, swept = each_alone(plan, reader, truth, **given, draws=draws, rng=rng, progress=progress)
    return extremes(base, swept)


def each_alone(
    plan: Plan,
    reader: Adversary,
    truth: Mapping[str, Any],
    *,
    draws: int = DRAWS,
    rng: Any = None,
    progress: bool = True,
    **inputs: Any,
) -> tuple[xr.Dataset, dict[str, xr.Dataset]]:
    """(the plan and reader as they are, {dim: sweep over that input alone}), each as `sweep` returns it.

    The inputs are those of `sweep`, at least one given; a mapping of siblings is one input for each level.
    """
    asked = {name: values for name, values in inputs.items() if values is not None}
    alone: dict[str, dict[str, Any]] = {}
    for name, values in asked.items():
        if name == "siblings" and isinstance(values, Mapping):
            alone |= {_sibling_dim(level): {name: {level: one}} for level, one in values.items()}
        else:
            alone[name] = {name: values}
    if not alone:
        raise ValueError("give at least one of prior, rho, siblings or beliefs to go over, got none")
    seed = runner.seed_sequence(rng)

    def over(**one: Any) -> xr.Dataset:
        return sweep(plan, reader, truth, **one, draws=draws, rng=seed, progress=progress)

    return over(), {dim: over(**one) for dim, one in alone.items()}


def extremes(base: xr.Dataset, swept: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """What `one_at_a_time` returns, from the answers of `each_alone`."""
    rows = [_ends(base, one, dim) for dim, one in swept.items()]
    found = xr.concat(rows, xr.DataArray(list(swept), dims="input", name="input"))
    return found.assign_attrs(base.attrs)


def at_prior(law: FactorLaw, prior: float) -> FactorLaw:
    """The same law of the log Bayes factor, for a reader with another prior."""
    return replace(law, log_odds=float(logit(prior)))


def same_law(one: Adversary, other: Adversary) -> bool:
    """Whether two readers differ in their prior only, so that one law of the Bayes factor serves both."""
    return (one.known, one.beliefs, one.hypotheses) == (other.known, other.beliefs, other.hypotheses)


def total_rho(plan: Plan) -> float:
    """zCDP that the plan's noise spends, in nats: of every noisy level, once for every count that a neighbour moves."""
    moved = 2 if plan.neighbours == "bounded" else 1
    return float(sum(moved * level.mechanism.rho for level in plan.levels if level.mechanism.rho < np.inf))


def scaled(mechanism: Mechanism, factor: float) -> Mechanism:
    """The same kind of noise with its rho multiplied: sigma^2 and scale^2 divided, epsilon^2 multiplied."""
    match mechanism:
        case DiscreteGaussian():
            return DiscreteGaussian.from_rho(mechanism.rho * factor)
        case Gaussian():
            return Gaussian(mechanism.sigma / np.sqrt(factor))
        case Geometric():
            return Geometric(mechanism.epsilon * np.sqrt(factor))
        case Laplace():
            return Laplace(mechanism.scale / np.sqrt(factor))
        case RandomizedResponse():
            return RandomizedResponse(mechanism.epsilon * np.sqrt(factor), mechanism.categories)
        case Clamped() | Rounded():
            return replace(mechanism, mechanism=scaled(mechanism.mechanism, factor))
        case _:
            return mechanism


def scaled_plan(plan: Plan, factor: float) -> Plan:
    """The plan with the rho of every noisy level multiplied."""
    return replace(plan, levels=tuple(replace(one, mechanism=scaled(one.mechanism, factor)) for one in plan.levels))


def _ranges(
    plan: Plan, reader: Adversary, truth: Mapping[str, Any], rho: Any, siblings: Any, beliefs: Any
) -> list[_Range]:
    """Every input but the prior, checked."""
    found: list[_Range] = []
    if rho is not None:
        values = _several("rho", check_positive("rho", rho))
        total = total_rho(plan)
        if not 0.0 < total < np.inf:
            raise ValueError(f"rho can be swept only where the plan spends a finite rho, got {total}")
        found.append(_Range("rho", tuple(values), lambda case, value: _with_budget(case, value / total)))
    if siblings is not None:
        if "siblings" in truth:
            raise ValueError("siblings cannot be swept where the truth names each sibling's own count")
        several = isinstance(siblings, Mapping)
        given = siblings if several else {plan.names[0]: siblings}
        for name, numbers in _check_siblings(plan, given).items():
            dim = _sibling_dim(name) if several else "siblings"
            found.append(_Range(dim, numbers, _sibling_setter(name)))
    if beliefs is not None:
        if not isinstance(beliefs, Mapping) or not beliefs:
            raise ValueError(f"beliefs must be a mapping of names to beliefs by level, got {beliefs!r}")
        readers = {str(name): _believing(reader, name, one) for name, one in beliefs.items()}
        found.append(_Range("beliefs", tuple(readers), lambda case, name: replace(case, reader=readers[name])))
    return found


def _believing(reader: Adversary, name: Any, beliefs: Any) -> Adversary:
    if not isinstance(beliefs, Mapping):
        raise TypeError(f"beliefs {name!r} must be a mapping of level to belief, got {beliefs!r}")
    return replace(reader, beliefs=beliefs)


def _check_siblings(plan: Plan, siblings: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    lower = plan.names[:-1]
    if not siblings:
        raise ValueError("siblings must name at least one level, got none")
    for name in siblings:
        if name not in lower:
            raise ValueError(f"siblings: only levels below the top have any, {list(lower)}, got {name!r}")
    return {
        name: tuple(int(n) for n in _several("siblings", check_whole("siblings", numbers, minimum=0)))
        for name, numbers in siblings.items()
    }


def _sibling_dim(level: str) -> str:
    return f"siblings[{level}]"


def _sibling_setter(name: str) -> Callable[[_Case, int], _Case]:
    def at(case: _Case, number: int) -> _Case:
        levels = (replace(one, siblings=number) if one.name == name else one for one in case.plan.levels)
        return replace(case, plan=replace(case.plan, levels=tuple(levels)))

    return at


def _with_budget(case: _Case, factor: float) -> _Case:
    return replace(case, plan=scaled_plan(case.plan, factor))


def _several(name: str, values: Any) -> Floats:
    """One or more different values, along one axis."""
    array = np.atleast_1d(values)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must hold at least one value along one axis, got shape {array.shape}")
    if np.unique(array).size < array.size:
        raise ValueError(f"{name} must hold different values, got {array.tolist()}")
    return np.asarray(array)


def _case(start: _Case, ranges: Sequence[_Range], chosen: Sequence[Any]) -> _Case:
    """The case at these values of the inputs; an error says at which."""
    case = start
    try:
        for one, value in zip(ranges, chosen, strict=True):
            case = one.at(case, value)
        for cell in range(case.plan.cells):
            case.reader.path(case.plan, cell)
    except (ValueError, TypeError) as error:
        raise type(error)(_named(ranges, chosen) + str(error)) from None
    return case


def _named(ranges: Sequence[_Range], chosen: Sequence[Any]) -> str:
    """ "rho 0.1, beliefs 'sure': " before what is wrong there."""
    return "".join(f"{one.dim} {value!r}: " for one, value in zip(ranges, chosen, strict=True))


def _both_truths(plan: Plan, reader: Adversary, truth: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The truth with the target in, and with the target out, everybody else as they are; neither yet held possible."""
    settled = settle_truth(plan, reader, truth)
    found = {}
    for target, name in ((1, "in"), (0, "out")):
        cells = [reader.contributions(cell) for cell in range(plan.cells)]
        moved = np.array([pair[target] - pair[settled.target] for pair in cells])
        found[name] = {**Truth(settled.counts + moved, target, settled.siblings).by_level(plan), "in": target}
    return found


def _summary(law: FactorLaw, prior: float, invariant: float) -> xr.Dataset:
    return risk_summary(at_prior(law, prior), invariant)


def _own(law: FactorLaw, invariant: float) -> xr.Dataset:
    return risk_summary(law, invariant)


def _dataset(
    plan: Plan,
    reader: Adversary,
    ranges: Sequence[_Range],
    priors: Floats | None,
    table: Mapping[tuple[int, ...], list[xr.Dataset]],
    why: Mapping[tuple[int, ...], str],
) -> xr.Dataset:
    """Summaries laid out along the named dims."""
    outer, first = ([] if priors is None else ["prior"]), next(iter(table.values()))[0]
    dims = [*outer, *(one.dim for one in ranges), "truth"]
    shape = ([] if priors is None else [priors.size]) + [len(one.values) for one in ranges] + [2]
    simulated = any("mcse" in one for rows in table.values() for one in rows)
    inner = {"posterior_quantile": "quantile", "ratio_quantile": "quantile", "mcse": "measure"}
    variables: dict[str, Any] = {}
    for name in (*MEASURES, *_BY_QUANTILE, *(["mcse"] if simulated else [])):
        more = [inner[name]] if name in inner else []
        width = [{"quantile": len(QUANTILES), "measure": len(MEASURES)}[dim] for dim in more]
        values = np.full([*shape, *width], np.nan)
        for place, rows in table.items():
            for i, one in enumerate(rows):
                at = place if priors is None else (i, *place)
                values[at] = one[name].values if name in one else 0.0
        variables[name] = ([*dims, *more], values, {"direction": "estimate" if simulated else "exact"})
    possible = np.zeros(shape[len(outer) :], dtype=bool)
    for place in table:
        possible[place] = True
    coords: dict[str, Any] = {one.dim: list(one.values) for one in ranges} | {"truth": list(TRUTHS)}
    coords |= {"quantile": list(QUANTILES)} | ({} if priors is None else {"prior": priors})
    coords |= {"measure": first["measure"].values} if simulated and "measure" in first.coords else {}
    result = xr.Dataset({**variables, "possible": (dims[len(outer) :], possible)}, coords=coords)
    if "rho" in result.dims:
        result = result.assign_coords(budget=("rho", result["rho"].values / total_rho(plan)))
    return result.assign_attrs(_base(plan, reader), impossible="; ".join(why.values()))


def _base(plan: Plan, reader: Adversary) -> dict[str, Any]:
    """What the inputs are where they are not swept."""
    below = {"base_siblings": plan.levels[0].siblings} if len(plan.levels) > 1 else {}
    return {"base_prior": reader.prior, "base_rho": total_rho(plan), **below}


def _ends(base: xr.Dataset, swept: xr.Dataset, dim: str) -> xr.Dataset:
    """Least and largest value of every measure over an input's range, and where they are."""
    label = swept[dim].values
    variables: dict[str, Any] = {}
    for name in MEASURES:
        ends = np.full((2, 3), np.nan)
        where = np.full((2, 3), "as it is", dtype=object)
        for i, truth in enumerate(TRUTHS):
            start = float(base[name].sel(truth=truth))
            over = swept[name].sel(truth=truth).values
            known = np.flatnonzero(np.isfinite(over))
            ends[i] = start
            if not np.isfinite(start) or not known.size:
                continue
            for end, pick, better in ((0, np.argmin, np.less), (2, np.argmax, np.greater)):
                at = known[pick(over[known])]
                if better(over[at], start):
                    ends[i, end], where[i, end] = over[at], _text(label[at])
        variables[name] = (("truth", "end"), ends)
        variables[f"at_{name}"] = (("truth", "end"), where.astype(str))
    return xr.Dataset(variables, coords={"truth": list(TRUTHS), "end": ["low", "base", "high"]})


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else f"{float(value):.6g}"
