"""Answer about noisy sums: posteriors of a regression line, using and ignoring the bounds of the data.

All numbers are computed from the same draws.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from adversary._core import as_array, first_sentence, percent
from adversary.bounded import report
from adversary.bounded.regression import MOMENTS, SUMS, feasible_coefficients, feasible_sums
from adversary.bounded.report import both_readings
from adversary.bounded.report.both_readings import READINGS, interval_text, side_by_side
from adversary.bounded.report.posterior_words import COEFFICIENTS, on_variables, shortest
from adversary.bounded.report.regression_file import RegressionFile
from adversary.report.kit import Card, Column, Document, Figure, Section, attempt, guarded_document

CHAINS, SEED = 16, 2020


def solve(file: RegressionFile) -> tuple[xr.DataTree, dict[str, xr.Dataset]]:
    """Answer from a regression file, and the draws of both posteriors by name.

    Groups `parameters` (reading, parameter, end), `fit` (reading), `release`, `prior`, `posterior` (draws of the
    requested posterior; chain, draw) and the draws of the other one under its name.
    """
    from adversary.bounded.regression import gibbs

    def read(name: str) -> xr.Dataset:
        drawn = gibbs(
            file.release, file.prior, name == "constrained", file.region,
            draws=file.draws, burn=file.draws // 3, chains=CHAINS, rng=SEED,
        )["posterior"].to_dataset()  # fmt: skip
        return drawn.assign(sigma=np.sqrt(drawn.sigma2))

    posteriors, refused = both_readings.posteriors_by_reading(file, read)
    main, *others = posteriors
    groups = {
        **_numbers(file, posteriors), "release": _release(file), "prior": _prior(file),
        "posterior": posteriors[main], **{name: posteriors[name] for name in others},
    }  # fmt: skip
    tree = both_readings.tree_of(file, groups, refused, x=file.x, y=file.y, region=file.region)
    line = f"slope{on_variables(file.x, file.y)}"
    verdict = f"The {line} is {interval_text(tree, 'slope')} with probability {percent(file.prob)}."
    return both_readings.summarised(tree, verdict), posteriors


def _numbers(file: RegressionFile, posteriors: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Two tables by reading: "parameters", with posterior summaries of each, and "fit", with diagnostics of the draws.

    "fit" also has the share of draws with a positive slope, and of infeasible ones.
    """
    draws = np.array([[np.ravel(one[name].values) for name in COEFFICIENTS] for one in posteriors.values()])
    tails = np.quantile(draws, [(1.0 - file.prob) / 2.0, (1.0 + file.prob) / 2.0], axis=-1)
    dims, estimate = ("reading", "parameter"), {"direction": "estimate"}
    parameters = {
        "mean": (dims, draws.mean(-1), estimate),
        "sd": (dims, draws.std(-1), estimate),
        "hdi": ((*dims, "end"), [[shortest(one, file.prob) for one in row] for row in draws]),
        "eti": ((*dims, "end"), np.moveaxis(tails, 0, -1)),
    }
    fit = {
        "positive": [float((one.slope > 0.0).mean()) for one in posteriors.values()],
        "infeasible": [_infeasible(file, one) for one in posteriors.values()],
        "ess": [one.attrs["ess"] for one in posteriors.values()],
        "r_hat": [one.attrs["r_hat"] for one in posteriors.values()],
    }
    coords = {"reading": list(posteriors)}
    return {
        "parameters": xr.Dataset(parameters, {**coords, "parameter": list(COEFFICIENTS), "end": ["lower", "upper"]}),
        "fit": xr.Dataset({key: ("reading", as_array(values), estimate) for key, values in fit.items()}, coords),
    }


def _infeasible(file: RegressionFile, one: xr.Dataset) -> float:
    """Share of draws with sums, a line (by the file's region) or a deviation that no data within the bounds have."""
    (left, right), (low, high) = file.release.x_bounds, file.release.y_bounds
    start, end = ((one.intercept + one.slope * x - low) / (high - low) for x in (left, right))
    line = feasible_coefficients(np.stack([start, end - start], axis=-1), file.region)
    deviation = (one.sigma2 <= (high - low) ** 2 / 4.0).values
    return float(np.mean(~(line & deviation & feasible_sums(one.sums.values, file.release.n))))


def _release(file: RegressionFile) -> xr.Dataset:
    """Dataset of the released sums and moments, n, budgets and bounds."""
    release = file.release
    ends = {f"{name}_bounds": ("end", as_array(getattr(release, f"{name}_bounds"))) for name in "xy"}
    return xr.Dataset(
        {
            "sums": ("statistic", as_array(release.noisy_sums[1:])),
            "moments": ("moment", as_array(release.noisy_moments[1:])),
            "n": int(release.n), "epsilon": float(release.epsilon), "total_epsilon": release.total_epsilon, **ends,
        },
        {"statistic": list(SUMS[1:]), "moment": list(MOMENTS[1:]), "end": ["lower", "upper"]},
    )  # fmt: skip


def _prior(file: RegressionFile) -> xr.Dataset:
    """Dataset of the kind of the prior and its parameters."""
    if file.prior is None:
        return xr.Dataset({"kind": "default"})
    mu0, precision, a0, b0 = (as_array(getattr(file.prior, name)) for name in ("mu0", "Lambda0", "a0", "b0"))
    names = list(COEFFICIENTS)[:2]
    numbers = {"mu0": ("coefficient", mu0), "Lambda0": (("coefficient", "other"), precision), "a0": a0, "b0": b0}
    return xr.Dataset({"kind": "normal-inverse-gamma", **numbers}, {"coefficient": names, "other": names})


@guarded_document
def document(file: RegressionFile, draws: Mapping[str, xr.Dataset], tree: xr.DataTree) -> Document:
    """Document from the results of `solve`."""
    prob, line = percent(file.prob), f"slope{on_variables(file.x, file.y)}"
    up = percent(round(float(tree["fit"]["positive"].sel(reading=tree.attrs["main"])), 3))
    gain = both_readings.gain(
        tree, {"slope": "slope"}, "both variables are bounded", "sums and lines that no such data can have"
    )
    lines, marginals = line_figures(file, draws)
    numbers = [(f"{COEFFICIENTS[name]}, {prob} interval", interval_text(tree, name)) for name in COEFFICIENTS]
    card = Card(numbers=[*numbers, ("P(slope above 0)", up)], figure=lines, sentence=first_sentence(gain))
    fit = {
        "infeasible": Column("P(impossible)", "probability"), "positive": Column("P(slope above 0)", "probability"),
        "ess": Column("effective draws", "count"), "r_hat": Column("R-hat", "number"),
    }  # fmt: skip
    sections = [
        attempt("Posterior", lambda: Section(
            "Posterior", f"The {line} is above 0 with probability {up}.",
            tables=[both_readings.intervals(tree, COEFFICIENTS, ("mean", "sd"))], figures=[marginals],
        )),
        attempt("What the bounds change", lambda: Section(
            "What the bounds change", gain, tables=[side_by_side(tree, "fit", fit, "fit")],
            notes=["P(impossible): probability of sums, a line or a deviation that no data within the bounds have."],
        )),
    ]  # fmt: skip
    return both_readings.document(file, tree, card, _describe_release(file), sections)


def _describe_release(file: RegressionFile) -> list[str]:
    """One sentence each on the release and the prior."""
    release, prior = file.release, "default, of the rescaled data" if file.prior is None else "normal-inverse-gamma"
    (left, right), (low, high) = release.x_bounds, release.y_bounds
    ranges = f"x between {left:g} and {right:g}, y between {low:g} and {high:g}"
    spent = f"Laplace noise, epsilon = {release.epsilon:g} each, {release.total_epsilon:g} in total"
    return [f"Published of {release.n:,} pairs, {ranges}: sums ({spent}).", f"Prior: {prior}."]


def line_figures(file: RegressionFile, draws: Mapping[str, xr.Dataset]) -> list[Figure]:
    """Figures of the line and of the marginals, drawn on demand."""
    named, prob = {READINGS[one]: draws[one] for one in draws}, percent(file.prob)
    return [
        Figure(
            "lines",
            lambda: report.regression_figures.regression_lines(named, file.release, file.prob, x=file.x, y=file.y),
            f"The regression line: median, and the band that holds each height with probability {prob}.",
        ),
        Figure(
            "marginals",
            lambda: report.regression_figures.regression_marginals(named, file.prob),
            f"Densities of the parameters; shaded: shortest {prob} interval.",
        ),
    ]
