"""What a release file of a regression says of the line behind it, with the bounds used and with them ignored.

A `RegressionFile` is sampled once; JSON, tables, figures and the NetCDF file are readings of the same draws. JSON has
every number unrounded, and null where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Console

from adversary._core import Floats, as_array, blocks, finite, numbers, percent
from adversary.analyst.regression import MOMENTS, SUMS, RegressionRelease, feasible_coefficients, feasible_sums
from adversary.desk.answers import both_readings
from adversary.desk.answers.both_readings import READINGS
from adversary.desk.files import RegressionFile
from adversary.desk.kit import add, counted, nearly, put, shortest, table, unmixed
from adversary.desk.kit.bounded_words import span
from adversary.desk.kit.regression_words import NAMES, conclusion

CHAINS, SEED = 32, 2020

type Answer = both_readings.Answer[RegressionFile, xr.Dataset]


def work_out(file: RegressionFile) -> Answer:
    """Draws of both readings of a release file: intercept, slope, sigma2 and sigma, dims (chain, draw), and sums.

    Raises
    ------
    ValueError : the reading that was asked for does not exist; the message names the file and says why
    """
    return both_readings.both(file, _read)


def _read(file: RegressionFile, name: str) -> xr.Dataset:
    from adversary.analyst.regression import gibbs

    tree = gibbs(
        file.release, file.prior, name == "constrained", file.region,
        draws=file.draws, burn=file.draws // 3, chains=CHAINS, rng=SEED,
    )  # fmt: skip
    drawn = tree["posterior"].to_dataset()
    return drawn.assign(sigma=np.sqrt(drawn.sigma2))


def summary(answer: Answer) -> dict[str, Any]:
    """The answer as one JSON object; each reading under its name, the one that was asked for also as "main"."""
    file = answer.file
    about = {
        "x": file.x, "y": file.y, "release": _release(file.release), "prior": _prior(file), "region": file.region,
    }  # fmt: skip
    found = both_readings.summed_up(answer, about, _reading, conclusion)
    found["notes"] += unmixed({READINGS[name]: found[name] for name in answer.posteriors})
    return found


def _release(release: RegressionRelease) -> dict[str, Any]:
    sums = dict(zip(SUMS[1:], numbers(release.noisy_sums[1:]), strict=True))
    moments = dict(zip(MOMENTS[1:], numbers(release.noisy_moments[1:]), strict=True))
    bounds = {name: [float(end) for end in getattr(release, name)] for name in ("x_bounds", "y_bounds")}
    budget = {"epsilon": float(release.epsilon), "total_epsilon": release.total_epsilon}
    return {"sums": sums, "moments": moments, "n": int(release.n), **budget, **bounds}


def _prior(file: RegressionFile) -> dict[str, Any]:
    if file.prior is None:
        return {"kind": "default"}
    law = file.prior
    shown = {name: as_array(getattr(law, name)).tolist() for name in ("mu0", "Lambda0", "a0", "b0")}
    return {"kind": "normal-inverse-gamma", **shown}


def _reading(file: RegressionFile, one: xr.Dataset) -> dict[str, Any]:
    """Everything about one reading."""
    about = {quantity: _measures(np.ravel(one[quantity].values), file.prob) for quantity in NAMES}
    alone = {"positive": float((one.slope > 0.0).mean()), "infeasible": _infeasible(file, one)}
    return {**about, **alone, "ess": finite(one.attrs["ess"]), "r_hat": finite(one.attrs["r_hat"])}


def _measures(draws: Floats, prob: float) -> dict[str, Any]:
    tails = np.quantile(draws, [(1.0 - prob) / 2.0, (1.0 + prob) / 2.0])
    ends = {"hdi": numbers(shortest(draws, prob)), "eti": numbers(tails)}
    return {"mean": finite(draws.mean()), "sd": finite(draws.std()), **ends}


def _infeasible(file: RegressionFile, one: xr.Dataset) -> float:
    """Share of the draws whose sums, line or deviation no data within the bounds have, in the region of the file."""
    (left, right), (low, high) = file.release.x_bounds, file.release.y_bounds
    start, end = ((one.intercept + one.slope * x - low) / (high - low) for x in (left, right))
    line = feasible_coefficients(np.stack([start, end - start], axis=-1), file.region)
    deviation = (one.sigma2 <= (high - low) ** 2 / 4.0).values
    return float(np.mean(~(line & deviation & feasible_sums(one.sums.values, file.release.n))))


def show(found: dict[str, Any], console: Console) -> None:
    """A `summary` as tables."""
    shown = both_readings.show_first(found, _published(found), console)
    _show_intervals(found, shown, console)
    _show_beside(shown, console)
    both_readings.show_rest(found, console)


def _published(found: Mapping[str, Any]) -> str:
    """The release and the prior in two lines."""
    release = found["release"]
    (left, right), (low, high) = release["x_bounds"], release["y_bounds"]
    ranges = f"x between {left:g} and {right:g}, y between {low:g} and {high:g}"
    spent = f"Laplace noise, epsilon = {release['epsilon']:g} each, {release['total_epsilon']:g} together"
    prior = "that of the rescaled data" if found["prior"]["kind"] == "default" else found["prior"]["kind"]
    return f"Released of {release['n']} pairs, {ranges}: sums ({spent}).\nPrior: {prior}."


def _show_intervals(found: Mapping[str, Any], shown: Mapping[str, Any], console: Console) -> None:
    prob = percent(found["prob"])
    made = table("Posterior, with intervals", ["", ""], ["estimate", "sd", f"shortest {prob}", f"equal-tailed {prob}"])
    for name, one in shown.items():
        for i, (quantity, called) in enumerate(NAMES.items()):
            at = one[quantity]
            cells = [nearly(at[key], at["sd"]) for key in ("mean", "sd")]
            add(made, name if i == 0 else "", called, *cells, span(at["hdi"]), span(at["eti"]))
    put(made, console)


def _show_beside(shown: Mapping[str, Any], console: Console) -> None:
    """What else there is to say, the readings side by side."""
    made = table("What the bounds change", [""], list(shown))
    rows = {
        "probability that the slope is above 0": [counted(one["positive"]) for one in shown.values()],
        "probability of sums or lines no such data have": [counted(one["infeasible"]) for one in shown.values()],
        "draws, in independent ones": [f"{one['ess']:.0f}" for one in shown.values()],
        "R-hat": [f"{one['r_hat']:.3f}" for one in shown.values()],
    }
    for what, cells in rows.items():
        add(made, what, *cells)
    put(made, console)


def data(answer: Answer) -> xr.DataTree:
    """Draws of the posterior that was asked for, those of the other reading under its name, and the release."""
    file = answer.file
    release = xr.Dataset(
        {
            "sums": ("statistic", file.release.noisy_sums[1:]),
            "moments": ("moment", file.release.noisy_moments[1:]),
        },
        coords={"statistic": list(SUMS[1:]), "moment": list(MOMENTS[1:])},
        attrs={"n": int(file.release.n), "epsilon": float(file.release.epsilon)},
    )
    others = {name: one for name, one in answer.posteriors.items() if name != answer.main}
    tree = xr.DataTree.from_dict({"posterior": answer.posteriors[answer.main], **others, "release": release})
    tree.attrs.update(title=file.title or file.path.name, source=file.source, main=answer.main)
    return tree


def figures(answer: Answer) -> dict[str, Any]:
    """The figures of an answer by name."""
    from adversary.desk.figures import regression_figures

    both, file = {READINGS[name]: one for name, one in answer.posteriors.items()}, answer.file
    words = {"x": file.x, "y": file.y}
    drawn = {
        "marginals": lambda: regression_figures.marginals(both, file.prob, **words),
        "lines": lambda: regression_figures.lines(both, file.release, file.prob, **words),
    }
    return {name: drawn[name]() for name in blocks.track(list(drawn), "drawing")}
