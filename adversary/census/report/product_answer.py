"""Answer about a data product of the 2020 Census: budgets, margins of error, adaptive tables, bounds on beliefs.

Beliefs are bounded for a unit that is added or removed and for one that is changed: by the zCDP of the configuration,
by the exact composition of its noise if one unit changes counts by one, and by the budget as stated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import (
    DEFAULT_FAILURE,
    as_array,
    as_given,
    check_probability,
    format_number,
    percent,
    percentage,
    those_tied,
    tied,
)
from adversary.census.data_products import DataProduct, TableBudget, products
from adversary.privacy import Guarantee
from adversary.privacy.definitions import ZeroConcentratedDP
from adversary.report import plot
from adversary.report.answers import bounds_answer
from adversary.report.kit import Card, Document, Figure, Section, Summary, attempt, guarded_document, tabulate

PRIORS = bounds_answer.PRIORS

# Probabilities of a form of a table for which the size of the group is shown.
CHANCES = (0.05, 0.5, 0.95)

RELATIONS = {"unbounded": "added or removed", "bounded": "changed"}
EXACT = ", noise composed"
STATED = ", as stated"
LONG = 50
"""Largest number of rows of budgets on the screen."""


def solve_every(priors: Sequence[float] = PRIORS, failure: float = DEFAULT_FAILURE) -> xr.DataTree:
    """Answer about the five products: group `products`, over "product" and "prior"; arguments as for `solve`."""
    check_probability("prior", priors)
    check_probability("failure", failure)
    by_name = products()
    rho = {name: [float(one.rho(which)) for one in by_name.values()] for name, which in _RHO.items()}
    rho["rho_stated"] = [float(one.stated_rho) for one in by_name.values()]
    posterior = [
        bounds_answer.largest_posteriors(one.guarantee("bounded"), priors, failure) for one in by_name.values()
    ]
    words = {"title": [one.title for one in by_name.values()], "unit": [one.unit for one in by_name.values()]}
    columns: dict[str, Any] = {name: ("product", np.array(values)) for name, values in (words | rho).items()}
    columns["posterior"] = (("product", "prior"), np.array(posterior), {"direction": "upper"})
    rows = xr.Dataset(columns, {"product": list(by_name), "prior": as_array(priors)}, {"failure": float(failure)})
    tree = xr.DataTree.from_dict({"products": rows})
    tree.attrs["failure"] = float(failure)
    return Summary("Data products of the 2020 Census", ("products",)).on(tree)


_RHO = {"rho_added": "unbounded", "rho_changed": "bounded"}


def solve(product: DataProduct, priors: Sequence[float] = PRIORS, failure: float = DEFAULT_FAILURE) -> xr.DataTree:
    """Answer about a product: groups `beliefs` (guarantee, prior), `levels`, `tables` and, if adaptive, `forms`.

    Parameters
    ----------
    product : from `adversary.census.product`
    priors : prior probabilities of the adversary
    failure : failure probability of the bounds, over releases
    """
    check_probability("prior", priors)
    check_probability("failure", failure)
    groups = {
        "beliefs": _beliefs(product, priors, failure),
        "levels": _levels(product),
        "tables": _tables(product, priors, failure),
    }
    if any(row.has_noisy_form for row in product.rows):
        groups["forms"] = _forms(product)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(
        product=product.name, unit=product.unit, rho=str(product.rho()), neighbours=product.neighbours,
        rho_stated=str(product.stated_rho), failure=float(failure), sources="; ".join(product.sources),
    )  # fmt: skip
    return Summary(f"{product.name}: {product.title}", tuple(groups), _verdict(product, groups["beliefs"])).on(tree)


def _guarantees(product: DataProduct) -> dict[str, Guarantee]:
    """Guarantees by name: zCDP for both neighbours, the composed noise where possible, and zCDP as stated."""
    guarantees: dict[str, Guarantee] = {}
    composed = all(row.sensitivity == 1 for row in product.rows)
    for neighbours, words in RELATIONS.items():
        guarantees[words] = product.guarantee(neighbours)
        if composed:
            guarantees[words + EXACT] = product.loss(neighbours)
    guarantees[RELATIONS[product.stated_neighbours] + STATED] = ZeroConcentratedDP(float(product.stated_rho))
    return guarantees


def _beliefs(product: DataProduct, priors: Sequence[float], failure: float) -> xr.Dataset:
    """Dataset over (guarantee, prior): rho and the largest posterior."""
    guarantees = _guarantees(product)
    rho = {name: float(product.rho(which)) for which, words in RELATIONS.items() for name in (words, words + EXACT)}
    rho[RELATIONS[product.stated_neighbours] + STATED] = float(product.stated_rho)
    posterior = np.array([bounds_answer.largest_posteriors(one, priors, failure) for one in guarantees.values()])
    columns: dict[str, Any] = {
        "rho": ("guarantee", np.array([rho[name] for name in guarantees])),
        "posterior": (("guarantee", "prior"), posterior, {"direction": "upper"}),
    }
    return xr.Dataset(columns, {"guarantee": list(guarantees), "prior": as_array(priors)}, {"failure": float(failure)})


def _levels(product: DataProduct) -> xr.Dataset:
    """Dataset over "level": rho, number of tables, smallest and largest margin of error."""
    rows = {level: [row for row in product.counted if row.level == level] for level in product.levels}
    columns = {
        "rho": [float(sum(row.rho for row in here)) for here in rows.values()],
        "tables": [len(here) for here in rows.values()],
        "least_margin": [min(row.margin() for row in here) for here in rows.values()],
        "largest_margin": [max(row.margin() for row in here) for here in rows.values()],
    }
    return xr.Dataset({name: ("level", np.array(column)) for name, column in columns.items()}, {"level": list(rows)})


def _grouped(rows: Iterable[TableBudget], *same: str) -> dict[TableBudget, str]:
    """First row of each group of rows with equal table and fields `same`, with the names of the group's levels."""
    groups: dict[Any, tuple[TableBudget, list[str]]] = {}
    for row in rows:
        groups.setdefault((row.table, *(getattr(row, name) for name in same)), (row, []))[1].append(row.level)
    return {row: ", ".join(levels) for row, levels in groups.values()}


def _tables(product: DataProduct, priors: Sequence[float], failure: float) -> xr.Dataset:
    """Dataset over "row" of tables: budget, noise, and bounds from one count; one row for all levels that agree."""
    rows = _grouped(product.rows, "rho", "universe")
    numbers = {
        "rho": [float(row.rho) for row in rows],
        "sigma2": [float(row.noise.sigma2 or 0) for row in rows],
        "margin": [row.margin() for row in rows],
        "largest_error": [row.largest_error() for row in rows],
        "tau": [np.nan if row.tau is None else row.tau for row in rows],
        "stage_one_sigma2": [
            np.nan if row.stage_one_noise is None else float(row.stage_one_noise.sigma2 or 0) for row in rows
        ],
    }
    words = {
        "table": [row.table for row in rows],
        "levels": list(rows.values()),
        "universe": [row.universe for row in rows],
        "rho_exact": [str(row.rho) for row in rows],
        "part_of": [row.part_of for row in rows],
    }
    columns: dict[str, Any] = {name: ("row", np.array(column)) for name, column in (words | numbers).items()}
    # Many tables have the same noise: its bounds are computed once.
    noises = [(row.noise, row.stage_one_noise, row.tau) for row in rows]
    posterior_of_noise = {
        noise: bounds_answer.largest_posteriors(row.loss, priors, failure)
        for noise, row in dict(zip(noises, rows, strict=True)).items()
    }
    posteriors = np.array([posterior_of_noise[noise] for noise in noises])
    columns["posterior"] = (("row", "prior"), posteriors, {"direction": "upper"})
    return xr.Dataset(columns, {"row": range(len(rows)), "prior": as_array(priors)})


def _forms(product: DataProduct) -> xr.Dataset:
    """Dataset over "row" of forms: the noisy count required, and group sizes by probability of the form (`CHANCES`)."""
    table: dict[str, list[Any]] = {name: [] for name in ("table", "levels", "form", "noisy_count", "count")}
    adaptive = [row for row in product.rows if row.has_noisy_form]
    for row, levels in _grouped(adaptive, "rho", "thresholds", "suppression").items():
        thresholds = (() if (least := _least_shown(product, row)) is None else (least + 1,)) + row.thresholds
        forms = row.details[len(row.details) - len(thresholds) :]
        for place, threshold, form in zip(range(-len(thresholds), 0), thresholds, forms, strict=True):
            table["table"].append(row.table)
            table["levels"].append(levels)
            table["form"].append(form)
            table["noisy_count"].append(threshold)
            table["count"].append(_sizes(product, row, place, threshold))
    columns: dict[str, Any] = {name: ("row", np.array(table[name])) for name in table if name != "count"}
    columns["count"] = (("row", "chance"), np.array(table["count"]))
    return xr.Dataset(columns, {"row": range(len(table["form"])), "chance": list(CHANCES)})


def _decides(product: DataProduct, row: TableBudget) -> TableBudget:
    """Table whose noisy total decides the form of this one: another product's, or itself."""
    return product.decider.budget(row.level, row.decided_by) if product.decider and row.decided_by else row


def _least_shown(product: DataProduct, row: TableBudget) -> int | None:
    """Largest noisy total that is suppressed, by the rule of the deciding table; None if none is."""
    return _decides(product, row).suppressed_up_to


def _sizes(product: DataProduct, row: TableBudget, place: int, threshold: int) -> list[int]:
    """Smallest group sizes that have the form at `place`, or a later one, with the probabilities `CHANCES`."""
    deciding_table = _decides(product, row)
    noises = [
        deciding_table.noise.total(max(deciding_table.counts, default=1)),
        deciding_table.stage_one_noise or deciding_table.noise,
    ]
    half_width = int(np.ceil(6.0 * np.sqrt(max(noise.variance for noise in noises))))
    sizes = np.arange(max(0, threshold - half_width), threshold + half_width)
    probability = product.table_probabilities(row.level, row.table, sizes).values[:, place:].sum(axis=1)
    return [int(sizes[int(np.argmax(probability >= chance))]) for chance in CHANCES]


def _verdict(product: DataProduct, beliefs: xr.Dataset) -> str:
    """Sentence on the largest posterior at the lowest prior, for a changed unit."""
    lowest_prior = beliefs.isel(prior=0).sel(guarantee=_best(beliefs, "bounded"))
    most = percentage(float(lowest_prior["posterior"]), True)
    prior = percent(float(lowest_prior["prior"]))
    return (
        f"Except with probability {percent(float(beliefs.attrs['failure']))}, a prior of {prior} "
        f"can rise to at most {most}, for one {product.unit} that is changed."
    )


def _best(beliefs: xr.Dataset, neighbours: str) -> str:
    """Name of the sharpest guarantee from the configuration: the composed noise, or else zCDP."""
    words = RELATIONS[neighbours]
    return words + EXACT if words + EXACT in beliefs["guarantee"].values else words


@guarded_document
def document_of_every(tree: xr.DataTree) -> Document:
    """Document from the tree of `solve_every`."""
    rows = tree["products"].to_dataset()
    columns = {
        "product": "product", "unit": "protected", "rho_added": ("rho, added or removed", "number"),
        "rho_changed": ("rho, changed", "number"), "rho_stated": ("rho, stated", "parameter"),
    }  # fmt: skip
    limits = {"product": "product", "prior": ("prior", "probability"), "posterior": ("can rise to", "% at most")}
    chance = percent(float(rows.attrs["failure"]))
    return Document(
        tree,
        sections=[
            Section(
                "Budgets",
                "Sums of the configurations, of one unit in all tables and levels, beside the budgets as stated.",
                tables=[tabulate(rows, columns, name="products")],
                notes=["The stated budget of DHC includes that of PL94. `adversary census product NAME` has the rest."],
            ),
            Section(
                "Beliefs about one changed unit",
                f"Bounds from the zCDP of the configuration, except with probability {chance}.",
                tables=[tabulate(rows, limits, name="beliefs")],
            ),
        ],
    )


@guarded_document
def document(product: DataProduct, tree: xr.DataTree) -> Document:
    """Document from the product and the tree of `solve`."""
    beliefs, failure = tree["beliefs"].to_dataset(), float(tree.attrs["failure"])
    best = _guarantees(product)[_best(beliefs, "bounded")]
    cards = []
    for prior in beliefs["prior"].values:
        most = float(beliefs["posterior"].sel(prior=prior, guarantee=_best(beliefs, "bounded")))
        cards.append((f"posterior at prior {percent(prior)}", f"at most {percentage(most, True)}"))
    sections = [
        attempt("Beliefs", _belief_section, product, beliefs),
        attempt("Budget by level", _level_section, tree["levels"].to_dataset()),
        attempt("Tables and margins of error", _table_section, product, tree["tables"].to_dataset()),
    ]
    if "forms" in tree:
        sections.append(attempt("Which tables exist", _form_section, product, tree["forms"].to_dataset()))
    return Document(
        tree,
        card=Card(
            numbers=cards,
            figure=Figure(
                "posterior_by_prior",
                partial(
                    plot.posterior_by_prior, *bounds_answer.certain(best, failure), beliefs["prior"].values.tolist()
                ),
                f"Range of posteriors at each prior, for one {product.unit} that is changed.",
            ),
        ),
        lead=[_cost(product), bounds_answer.LEAD.format(person=product.unit)],
        sections=[*sections, Section("Notes and sources", paragraphs=list(product.notes), notes=list(product.sources))],
    )


def _cost(product: DataProduct) -> str:
    """Sentences on the total rho under either neighbour relation (add or remove, change), and on the stated rho."""
    sums = " and ".join(
        f"{as_given(float(product.rho(which)))} for one {product.unit} {words}" for which, words in RELATIONS.items()
    )
    stated = f"{as_given(float(product.stated_rho))} for one {product.unit} {RELATIONS[product.stated_neighbours]}"
    return (
        f"The budgets of the configuration, which are for one {product.unit} {RELATIONS[product.neighbours]}, sum to "
        f"rho = {sums}. Stated: {stated}{f', with {product.adds} in it' if product.adds else ''}."
    )


def _belief_section(product: DataProduct, beliefs: xr.Dataset) -> Section:
    """Section with the largest posterior of every guarantee and prior."""
    columns: dict[str, Sequence[str]] = {"guarantee": f"one {product.unit}", "rho": ("rho", "number")}
    wide, heads = _by_prior(beliefs)
    columns.update(heads)
    composed = "“noise composed” is the exact composition of all noisy counts, the other rows are zCDP. " * (
        _best(beliefs, "bounded").endswith(EXACT)
    )
    first = beliefs.isel(prior=0).sel(guarantee=_best(beliefs, "bounded"))
    return Section(
        "Beliefs",
        f"A prior of {percent(float(first['prior']))} can rise to at most "
        f"{percentage(float(first['posterior']), True)} if the {product.unit} is changed.",
        tables=[tabulate(wide, columns, name="beliefs")],
        notes=[f"{composed}Bounds may fail with probability {percent(float(beliefs.attrs['failure']))}."],
    )


def _by_prior(data: xr.Dataset) -> tuple[xr.Dataset, dict[str, tuple[str, str]]]:
    """Dataset with one column of posteriors per prior, and the heads of these columns."""
    names = {f"prior_{place}": data["posterior"].isel(prior=place, drop=True) for place in range(data.sizes["prior"])}
    heads = {
        name: (f"from {percent(float(prior))}", "% at most")
        for name, prior in zip(names, data["prior"].values, strict=True)
    }
    return data.drop_dims("prior").assign(names), heads


def _level_section(levels: xr.Dataset) -> Section:
    """Section with rho and margins of error by level."""
    columns = {
        "level": "level", "rho": ("rho", "number"), "tables": ("tables", "count"),
        "least_margin": ("narrowest margin of error", "number"), "largest_margin": ("widest", "number"),
    }  # fmt: skip
    rho = levels["rho"].values
    places = [str(name) for name in levels["level"].values[tied(rho)]]
    return Section(
        "Budget by level",
        f"Most rho is spent at {those_tied(places, rho.size, 'levels')}: {format_number(float(rho.max()))}.",
        tables=[tabulate(levels, columns, name="levels")],
    )


_ALONE = (
    "The last columns bound beliefs from one count alone, with stage one, about a unit that changes it by one, or by "
    "tau; other groups, tables and levels add to it."
)


def _table_section(product: DataProduct, tables: xr.Dataset) -> Section:
    """Section with budget, noise and bounds of every table."""
    columns: dict[str, Sequence[str] | None] = {
        "row": None, "table": "table", "levels": "levels", "universe": "counts", "rho": ("rho", "parameter"),
        "sigma2": ("sigma²", "number"), "margin": ("margin of error (95%)", "number"),
        "tau": ("tau", "parameter"), "stage_one_sigma2": ("sigma² of stage one", "number"),
    }  # fmt: skip
    wide, heads = _by_prior(tables)
    columns.update(heads)
    empty_columns = [name for name in ("tau", "stage_one_sigma2") if bool(np.isnan(tables[name]).all())]
    margins = [format_number(float(end)) for end in (tables["margin"].min(), tables["margin"].max())]
    others = [f"“{row.table}” spends the budget of “{row.part_of}”" for row in product.rows if row.part_of]
    return Section(
        "Tables and margins of error",
        f"Margins of error of one count run from {margins[0]} to {margins[1]}.",
        tables=[tabulate(wide, {key: one for key, one in columns.items() if key not in empty_columns}, name="tables")],
        notes=[
            "Margins are those of the normal distribution: 1.96 sigma. " + _ALONE,
            *(f"{one}." for one in dict.fromkeys(others)),
        ],
        on_screen=tables.sizes["row"] <= LONG,
    )


def _form_section(product: DataProduct, forms: xr.Dataset) -> Section:
    """Section with the forms of adaptive tables, and group sizes that have them."""
    chances = [f"chance_{place}" for place in range(len(CHANCES))]
    wide = forms.drop_vars("count").assign(
        {name: ("row", forms["count"].values[:, place]) for place, name in enumerate(chances)}
    )
    heads = {name: (f"{percent(chance)} at", "count") for name, chance in zip(chances, CHANCES, strict=True)}
    columns = {
        "row": None, "table": "table", "levels": "levels", "form": "published", "noisy_count": ("noisy total", "count"),
    } | heads  # fmt: skip
    decider = (
        f"the noisy total of the group in {product.decider.name}" if product.decider else "a noisy total of stage one"
    )
    return Section(
        "Which tables exist",
        f"A group has a table from {decider} on; sizes of groups beside it are those with that chance of the table.",
        tables=[tabulate(wide, columns, name="forms")],
        notes=[
            "Groups are listed in advance, so that a table reveals no more than the noisy total. Below the states the "
            "total of a small group is suppressed, and the group with it."
        ]
        * bool((forms["form"] == "total").any()),
    )
