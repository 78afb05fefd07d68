"""The gallery of real releases: upper bounds on any posterior from each guarantee, and one adversary's expectation.

Bounds are those of `adversary bounds`: certain if the definition implies a certain one, else valid except with the
record's failure probability. Each is given for the record's own neighbour relation and for a replaced unit (by which
releases are ranked), for one period and for a year.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from adversary._core import Seed, as_array, blocks, check_probability, error_text, logit
from adversary.driver import audit
from adversary.privacy import Guarantee
from adversary.releases.record import Record
from adversary.releases.record_file import records as every_record
from adversary.report.answers import bounds_answer
from adversary.report.kit import LEFT_OUT

PRIORS = (0.01, 0.1, 0.5)

# Operating points of two bounds: false-alarm rate of the test, and success rate of the attack without the release.
ALARMS, BASELINE = 0.05, 0.01

# Posterior above which a hypothesis is more likely than not.
EVEN = 0.5
SEED = 2020

# Simulated releases of a scenario: fixed, so that the gallery is the same on every machine. Fewer with siblings, whose
# posterior takes some milliseconds a release.
DRAWS, DRAWS_WITH_SIBLINGS = 20_000, 2_000

# Neighbour relations: the record's own, and a unit that is replaced by another.
RELATIONS = ("stated", "replaced")


def gallery(
    records: Mapping[str, Record] | None = None, priors: Sequence[float] = PRIORS, rng: Seed = SEED
) -> xr.DataTree:
    """Audit records of real releases.

    Parameters
    ----------
    records : by name; those that come with the toolkit unless given
    priors : of adversaries, each in (0, 1)
    rng : seed or numpy Generator, of scenarios that are simulated

    Returns
    -------
    xr.DataTree : group `bounds` (release, relation, prior): upper bounds `posterior` of one period and
        `posterior_year`; (release, relation): `detections` at 5 % false alarms and `attack_success` of an attack that
        succeeds in 1 % of cases without the release; (release,): `failure`, and the record in words. Releases are
        ranked by the bound at the first prior for a replaced unit, the largest first; those without a published
        parameter, whose bounds are NaN, last. Group `scenarios` (release, prior): of one adversary, expected
        `posterior` where the target is as the scenario says, its standard error `mcse` (measure; 0 where releases are
        listed), and `lower` and `upper`, its 90 % interval over releases; (release,): `status`. Group `findings`
        (finding): numbers of a record that contradict one another. Attribute `left_out`: scenarios that failed.

    Raises
    ------
    ValueError : no record, or a prior outside (0, 1)

    >>> from adversary.releases import RECORDS, read
    >>> tree = gallery({"mine": read(RECORDS / "google_mobility.toml")})
    >>> round(float(tree["bounds"]["posterior"].sel(release="mine", relation="stated", prior=0.01)), 4)
    0.124
    """
    by_name = every_record() if records is None else dict(records)
    if not by_name:
        raise ValueError("records: must hold at least one, got none")
    check_probability("prior", priors)
    bounds = xr.concat([_bounds(one, priors) for one in by_name.values()], "release")
    bounds = bounds.assign_coords(release=[*by_name])
    for key in WORDS:
        bounds[key] = ("release", np.array([WORDS[key](one) for one in by_name.values()], dtype=str))
    scenarios, failures = _scenarios(by_name, priors, rng)
    bounds = bounds.isel(release=_worst_first(bounds.isel(prior=0), scenarios))
    tree = xr.DataTree.from_dict(
        {"bounds": bounds, **({"scenarios": scenarios} if scenarios else {}), "findings": _findings(by_name)}
    )
    if failures:
        tree.attrs[LEFT_OUT] = json.dumps(failures)
    return tree


def expected_posteriors(tree: xr.DataTree) -> dict[str, float]:
    """Expected posterior at the first prior, by release, of the scenarios with status "ok".

    Parameters
    ----------
    tree : of `gallery`

    Returns
    -------
    dict of release to probability; empty without scenarios
    """
    if "scenarios" not in tree:
        return {}
    scenarios = tree["scenarios"].to_dataset().isel(prior=0)
    columns = (scenarios[key].values for key in ("release", "posterior", "status"))
    return {str(name): float(mean) for name, mean, status in zip(*columns, strict=True) if status == "ok"}


def _worst_first(bounds: xr.Dataset, scenarios: xr.Dataset | None) -> Any:
    """Indices that sort releases, largest first, by the replaced bound, then the stated one, then the expectation."""
    keys = [bounds["posterior"].sel(relation=one).fillna(-1.0).values for one in ("stated", "replaced")]
    expected = np.zeros(bounds.sizes["release"])
    if scenarios is not None:
        expected = scenarios["posterior"].isel(prior=0).reindex(release=bounds["release"]).fillna(0.0).values
    # bounds that differ by less than the digits shown count as equal, so that the next key decides
    return np.lexsort([-expected, *(-np.round(key, 6) for key in keys)])


# Texts of a record, by the name of their array in group `bounds`.
WORDS: dict[str, Any] = {
    "title": lambda one: one.name,
    "curator": lambda one: one.curator,
    "date": lambda one: one.date,
    "model": lambda one: one.model,
    "unit": lambda one: one.unit.name,
    "neighbours": lambda one: one.unit.neighbours or "",
    "guarantee": lambda one: "" if one.guarantee is None else one.guarantee.describe(),
    "source_kind": lambda one: one.kind_of_source,
}


def _bounds(record: Record, priors: Sequence[float]) -> xr.Dataset:
    """Upper bounds of one record, by relation and prior; NaN if no parameter is published."""
    losses = [record.loss, record.replaced_loss]
    yearly_losses = [
        None if one is None or record.unit.periods == 1 else record.unit.over_periods(one) for one in losses
    ]
    upper_bound = {"direction": "upper"}
    columns = {
        "posterior": [_posterior(one, priors, record.failure) for one in losses],
        "posterior_year": [_posterior(one, priors, record.failure) for one in yearly_losses],
    }
    single = {
        "detections": [np.nan if one is None else float(one.power(ALARMS)) for one in losses],
        "attack_success": [np.nan if one is None else float(one.attack_success(BASELINE)) for one in losses],
    }
    failure = np.nan if record.loss is None else bounds_answer.certain(record.loss, record.failure)[1]
    return xr.Dataset(
        {name: (("relation", "prior"), np.array(x), upper_bound) for name, x in columns.items()}
        | {name: ("relation", np.array(x), upper_bound) for name, x in single.items()}
        | {"failure": failure, "periods": record.unit.periods},
        {"relation": [*RELATIONS], "prior": list(priors)},
    )


def _posterior(loss: Guarantee | None, priors: Sequence[float], failure: float) -> Any:
    """Largest posterior that the guarantee allows from each prior; NaN without a guarantee."""
    return np.full(len(priors), np.nan) if loss is None else bounds_answer.largest_posteriors(loss, priors, failure)


def _scenarios(
    records: Mapping[str, Record], priors: Sequence[float], rng: Any
) -> tuple[xr.Dataset | None, dict[str, str]]:
    """Expected posteriors of the scenarios (release, prior), None if there are none; and errors of failed ones."""
    with_scenario = {name: one for name, one in records.items() if one.scenario is not None}
    answers, failures = {}, {}
    for name in blocks.track(list(with_scenario), f"auditing {len(with_scenario)} scenarios"):
        try:
            answers[name] = _scenario(with_scenario[name], priors, rng)
        except Exception as error:
            failures[name] = error_text(error)
    if not answers:
        return None, failures
    return xr.concat(answers.values(), "release").assign_coords(release=[*answers]), failures


def _scenario(record: Record, priors: Sequence[float], rng: Any) -> xr.Dataset:
    """Audit of one scenario at every prior, from one simulation.

    The log Bayes factor of a release does not depend on the prior: each posterior is expit of its sum with the log
    odds of a prior.
    """
    scenario = record.scenario
    assert scenario is not None
    plan = scenario.plan
    draws = DRAWS_WITH_SIBLINGS if any(level.siblings for level in plan.levels) else DRAWS
    tree = audit(
        plan, scenario.adversaries[""], scenario.truth, failure=scenario.failure, also=(), draws=draws, rng=rng
    )
    release, exact, risk = (tree[name].to_dataset() for name in ("release", "exact", "risk"))
    weight = as_array(release["weight"].values)
    log_ratio = as_array(exact["log_odds"].values) - logit(risk["prior"].item())
    posterior = as_array(expit(log_ratio[:, None] + logit(priors)))
    mean = weight @ posterior
    simulated = "mcse" in risk
    standard_error = np.sqrt(weight @ (posterior - mean) ** 2 / weight.size) if simulated else np.zeros(len(priors))
    interval = np.quantile(posterior, (0.05, 0.95), axis=0, method="inverted_cdf", weights=weight)
    arrays = {"posterior": mean, "lower": interval[0], "upper": interval[1]}
    return xr.Dataset(
        {name: ("prior", x, {"direction": "estimate"}) for name, x in arrays.items()}
        | {"mcse": (("measure", "prior"), standard_error[None])}
        | {"status": str(risk["status"].item()), "scenario": scenario.title or record.name},
        {"prior": list(priors), "measure": ["posterior"]},
    )


def _findings(records: Mapping[str, Record]) -> xr.Dataset:
    """Failed checks of all records, as arrays over `finding`."""
    rows = [(name, finding) for name, one in records.items() for finding in one.findings]
    return xr.Dataset(
        {
            "release": ("finding", np.array([name for name, _ in rows], dtype=str)),
            "about": ("finding", np.array([one.about for _, one in rows], dtype=str)),
            "stated": ("finding", np.array([float(one.stated) for _, one in rows])),
            "computed": ("finding", np.array([one.computed for _, one in rows])),
        },
        {"finding": np.arange(len(rows))},
    )
