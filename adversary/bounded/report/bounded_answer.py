"""Answer about a noisy mean and variance: posteriors of the exact ones, using and ignoring the bounds of the data.

They concern the population from which the values are drawn, or the values themselves, by the file's option. All numbers
come from quadrature; draws are added for ArviZ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from adversary._core import as_array, as_given, exactly, first_sentence, percent
from adversary.bounded import report
from adversary.bounded.bounded_posterior import UNSURE
from adversary.bounded.prior import Flat
from adversary.bounded.report import both_readings
from adversary.bounded.report.both_readings import READINGS, interval_text, side_by_side
from adversary.bounded.report.posterior_words import PARAMETERS
from adversary.bounded.report.release_file import HYPERPARAMETERS, PRIORS, ReleaseFile
from adversary.report.kit import Card, Column, Document, Figure, Section, attempt, guarded_document

if TYPE_CHECKING:
    from adversary.bounded.bounded_posterior import Posterior

DRAWS, SEED = 4000, 2020
ENDS = ["lower", "upper"]


def solve(file: ReleaseFile) -> tuple[xr.DataTree, dict[str, Posterior]]:
    """Answer from a release file, and both posteriors by name.

    Groups `parameters` (reading, parameter, end), `predictive` and `fit` (reading), `release`, `prior`, `posterior`
    (draws of the requested posterior) and `density` (marginals on grids).
    """
    from adversary.bounded.bounded_posterior import posterior

    def read(name: str) -> Posterior:
        constrained = name == "constrained"
        # without the bounds nothing is infeasible
        feasibility = file.feasibility if constrained else "event"
        return posterior(file.release, file.prior, constrained, feasibility, cap=file.cap, quantity=file.posterior_of)

    posteriors, refused = both_readings.posteriors_by_reading(file, read)
    groups = {**_numbers(posteriors, file.prob), "release": _release(file), "prior": _prior(file)}
    words: dict[str, Any] = {"quantity": file.quantity, "unit": file.unit, "feasibility": file.feasibility}
    words |= {"posterior_of": file.posterior_of, "noise": file.release.noise}
    tree = both_readings.tree_of(file, groups, refused, **words)
    tree["posterior"] = next(iter(posteriors.values())).sample(DRAWS, SEED)["posterior"]
    tree["density"] = xr.DataTree.from_dict({name: one.to_xarray()["density"] for name, one in posteriors.items()})
    return both_readings.summarised(tree, _intervals(file, tree)[0], _convergence_warnings(tree)), posteriors


def _numbers(posteriors: Mapping[str, Posterior], prob: float) -> dict[str, xr.Dataset]:
    """Datasets by group: parameters, prediction of a new value, and diagnostics of the posteriors."""
    fits, coords, dims = list(posteriors.values()), {"reading": list(posteriors)}, ("reading", "parameter")
    names = list(PARAMETERS[fits[0].quantity])

    def of(key: str, *given: float) -> Any:
        return as_array([[getattr(one, key)(name, *given) for name in names] for one in fits])

    def each(ones: Sequence[Any], *names: str) -> xr.Dataset:
        return xr.Dataset({name: ("reading", [float(getattr(one, name)) for one in ones]) for name in names}, coords)

    parameters: dict[str, Any] = {key: (dims, of(key)) for key in ("mean", "sd", "mode")}
    parameters |= {key: ((*dims, "end"), of(key, prob)) for key in ("hdi", "eti")}
    fit = each(fits, "infeasible", "log_evidence", "max_variance", "quadrature_error")
    numbers = {
        "parameters": xr.Dataset(parameters, {**coords, "parameter": names, "end": ENDS}),
        "fit": fit.rename(max_variance="cap"),
    }
    if fits[0].quantity == "population":
        predictions = [one.predictive() for one in fits]
        numbers["predictive"] = each(predictions, "mean", "sd", "below", "above", "outside")
    return numbers


def _release(file: ReleaseFile) -> xr.Dataset:
    """Dataset of the released numbers, n, bounds and budgets."""
    release = file.release
    values = {name: getattr(release, name) for name in ("mean", "variance")}
    low, high = release.bounds
    budget = [np.nan if x is None else float(x) for x in release.budgets]
    return xr.Dataset(
        {
            **{name: float(x) for name, x in values.items() if x is not None},
            "n": int(release.size), "lowest": float(low), "highest": float(high),
            "epsilon" if release.rho is None else "rho": ("statistic", budget),
        },
        {"statistic": list(values)},
    )  # fmt: skip


def _prior(file: ReleaseFile) -> xr.Dataset:
    """Dataset of the kind of the prior and its parameters."""
    flat = isinstance(file.prior, Flat)
    numbers = {} if flat else {name: float(as_array(getattr(file.prior, name))) for name in HYPERPARAMETERS}
    return xr.Dataset({"kind": PRIORS[0] if flat else PRIORS[1], **numbers})


@guarded_document
def document(file: ReleaseFile, posteriors: Mapping[str, Posterior], tree: xr.DataTree) -> Document:
    """Document from the results of `solve`."""
    low, high = file.release.bounds
    prob, called = percent(file.prob), PARAMETERS[file.posterior_of]
    rows = {name: words.replace("standard deviation", "sd") for name, words in called.items()}
    mean, deviation = (interval_text(tree, name, file.unit) for name in ("mu", "sigma"))
    known = f"every value is between {low:g} and {high:g}"
    gain = both_readings.gain(
        tree, {name: called[name] for name in ("mu", "sigma")}, known,
        "means and standard deviations that no such data can have",
    )  # fmt: skip
    marginals, joint, *predictive = release_figures(file, posteriors)
    card = Card(
        numbers=[(f"{called['mu']}, {prob} interval", mean), (f"{called['sigma']}, {prob} interval", deviation)],
        figure=joint,
        sentence=first_sentence(gain),
    )
    unit = f"In {file.unit}; the variance in its square." if file.unit else ""
    fit = {
        "infeasible": Column("P(impossible)", "probability"),
        "log_evidence": Column("log marginal likelihood", "number"),
        "cap": Column("largest variance considered", "number"), "quadrature_error": Column("numerical error", "number"),
    }  # fmt: skip
    new = {"mean": Column("mean", "number"), "sd": Column("sd", "number")} | {
        key: Column(f"P({key} {end:g})", "probability") for key, end in (("below", low), ("above", high))
    }
    sections = [
        attempt("Posterior", lambda: Section(
            "Posterior",
            _intervals(file, tree)[1],
            tables=[both_readings.intervals(tree, rows, ("mean", "sd", "mode"))],
            figures=[marginals],
            notes=[*[unit] * bool(unit), _quantity_note(file)],
        )),
        *(
            attempt("A new value", partial(_new_value, tree, new, figure))
            for figure in predictive
        ),
        attempt("What the bounds change", lambda: Section(
            "What the bounds change", gain, tables=[side_by_side(tree, "fit", fit, "fit")],
            notes=["P(impossible): probability of a mean and standard deviation that no data within the bounds have."],
        )),
    ]  # fmt: skip
    return both_readings.document(file, tree, card, _describe_release(file), sections)


def _intervals(file: ReleaseFile, tree: xr.DataTree) -> list[str]:
    """One sentence each on the credible intervals of mean and deviation; the mean first if it was published."""
    whose, called = f" of {file.quantity}" if file.quantity else "", PARAMETERS[file.posterior_of]
    names = ("sigma", "mu") if file.release.mean is None else ("mu", "sigma")
    ends = {name: interval_text(tree, name, file.unit) for name in names}
    prob = percent(file.prob)
    return [f"The {called[name]}{whose} is {text} with probability {prob}." for name, text in ends.items()]


def _quantity_note(file: ReleaseFile) -> str:
    """Sentence on the quantity of the answer (population or data), and the option for the other."""
    n = f"{int(file.release.size):,}"
    if file.posterior_of == "data":
        return (
            f"Sample: the {n} values themselves. For the population they are drawn from, leave out "
            'quantity = "data" under [posterior].'
        )
    return (
        f"Population: what the {n} values are independent draws from. For the mean and deviation of the {n} values "
        'themselves: quantity = "data" under [posterior].'
    )


def _new_value(tree: xr.DataTree, columns: dict[str, Column], figure: Figure) -> Section:
    """Section on the prediction of one more value."""
    return Section("A new value", tables=[side_by_side(tree, "predictive", columns, "new_value")], figures=[figure])


def _describe_release(file: ReleaseFile) -> list[str]:
    """One sentence each on the release, the prior, and a statistic that was not released."""
    release = file.release
    budget = "epsilon" if release.rho is None else "rho"
    parts = [
        f"{name} {exactly(float(as_array(x)))} ({release.noise.capitalize()} noise, {budget} = {as_given(spent)})"
        for name, x, spent in zip(("mean", "variance"), (release.mean, release.variance), release.budgets, strict=True)
        if x is not None
    ]
    low, high = release.bounds
    values = f"{release.size:,} values between {low:g} and {high:g} {file.unit}".rstrip()
    given = "" if isinstance(file.prior, Flat) else ", ".join(
        f"{name} = {float(as_array(getattr(file.prior, name))):g}" for name in HYPERPARAMETERS
    )  # fmt: skip
    prior = f"{PRIORS[1]} ({given})" if given else PRIORS[0]
    missing = [name for name in ("mean", "variance") if getattr(release, name) is None]
    unseen = [f"No {name} was released: its posterior follows from the prior and the bounds." for name in missing]
    return [f"Published of {values}: {', '.join(parts)}.", f"Prior: {prior}.", *unseen]


def _convergence_warnings(tree: xr.DataTree) -> list[str]:
    """Warning for each posterior whose quadrature has not converged."""
    fit = tree["fit"].to_dataset()
    fits = zip(fit["reading"].values, fit["quadrature_error"].values, strict=True)
    errors = {READINGS[str(name)]: float(error) for name, error in fits}
    return [
        f"The numbers {called} are unreliable: their quadrature has not converged (estimated error {error:.0e}). "
        "Prior and release contradict each other, or the release itself."
        for called, error in errors.items()
        if not error <= UNSURE
    ]


def release_figures(file: ReleaseFile, posteriors: Mapping[str, Posterior]) -> list[Figure]:
    """Figures of marginals, joint density and, for a population, predictive density; drawn on demand."""
    posteriors_in_words = {READINGS[reading]: one for reading, one in posteriors.items()}
    words: dict[str, Any] = {"quantity": file.quantity, "unit": file.unit}
    figures = [
        Figure(
            "marginals",
            lambda: report.posterior_figures.posterior_marginals(posteriors_in_words, file.prob, **words),
            f"Densities of both; shaded: shortest {percent(file.prob)} interval; grey: impossible.",
        ),
        Figure(
            "joint",
            lambda: report.posterior_figures.posterior_joint(posteriors_in_words, **words),
            "Mean and standard deviation together: regions with 50% and 95% of each posterior, the largest standard "
            "deviation that the bounds allow, and the published values (cross).",
        ),
        Figure(
            "predictive",
            lambda: report.posterior_figures.posterior_predictive(posteriors_in_words, **words),
            "Density of one more value; grey: values outside the bounds.",
        ),
    ]
    return figures if file.posterior_of == "population" else figures[:2]
