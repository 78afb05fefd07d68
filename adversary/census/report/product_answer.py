"""What a data product of the 2020 Census allows: its budgets, its margins, which of its tables exist, and beliefs.

Beliefs are bounded for a unit that is added or removed and for one that is changed, by the zCDP of the configuration,
by the exact composition of its noise where one unit changes counts by one, and as the product's budget is stated.
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

# Probabilities of a table at which the size of its group is shown.
CHANCES = (0.05, 0.5, 0.95)

RELATIONS = {"unbounded": "added or removed", "bounded": "changed"}
EXACT = ", noise composed"
STATED = ", as stated"
LONG = 50
"""Rows of budgets that a screen shows."""


def solve_every(priors: Sequence[float] = PRIORS, failure: float = DEFAULT_FAILURE) -> xr.DataTree:
    """The five products side by side: group `products`, over "product" and "prior"."""
    check_probability("prior", priors)
    check_probability("failure", failure)
    every = products()
    rho = {name: [float(one.rho(which)) for one in every.values()] for name, which in _RHO.items()}
    rho["rho_stated"] = [float(one.stated_rho) for one in every.values()]
    posterior = [bounds_answer.largest_posteriors(one.guarantee("bounded"), priors, failure) for one in every.values()]
    words = {"title": [one.title for one in every.values()], "unit": [one.unit for one in every.values()]}
    columns: dict[str, Any] = {name: ("product", np.array(values)) for name, values in (words | rho).items()}
    columns["posterior"] = (("product", "prior"), np.array(posterior), {"direction": "upper"})
    made = xr.Dataset(columns, {"product": list(every), "prior": as_array(priors)}, {"failure": float(failure)})
    tree = xr.DataTree.from_dict({"products": made})
    tree.attrs["failure"] = float(failure)
    return Summary("Data products of the 2020 Census", ("products",)).on(tree)


_RHO = {"rho_added": "unbounded", "rho_changed": "bounded"}


def solve(product: DataProduct, priors: Sequence[float] = PRIORS, failure: float = DEFAULT_FAILURE) -> xr.DataTree:
    """Answer about a product: groups `beliefs` (guarantee, prior), `levels`, `tables` and, of adaptive tables, `forms`.

    Parameters
    ----------
    product : of `adversary.census.product`
    priors : probabilities of the adversary's belief before
    failure : probability with which a bound may fail
    """
    check_probability("prior", priors)
    check_probability("failure", failure)
    made = {
        "beliefs": _beliefs(product, priors, failure),
        "levels": _levels(product),
        "tables": _tables(product, priors, failure),
    }
    if any(row.has_noisy_form for row in product.rows):
        made["forms"] = _forms(product)
    tree = xr.DataTree.from_dict(made)
    tree.attrs.update(
        product=product.name, unit=product.unit, rho=str(product.rho()), neighbours=product.neighbours,
        rho_stated=str(product.stated_rho), failure=float(failure), sources="; ".join(product.sources),
    )  # fmt: skip
    return Summary(f"{product.name}: {product.title}", tuple(made), _verdict(product, made["beliefs"])).on(tree)


def _guarantees(product: DataProduct) -> dict[str, Guarantee]:
    """By name: zCDP for both neighbours, the composed noise where it is known, and zCDP as stated."""
    made: dict[str, Guarantee] = {}
    composed = all(row.sensitivity == 1 for row in product.rows)
    for neighbours, words in RELATIONS.items():
        made[words] = product.guarantee(neighbours)
        if composed:
            made[words + EXACT] = product.loss(neighbours)
    made[RELATIONS[product.stated_neighbours] + STATED] = ZeroConcentratedDP(float(product.stated_rho))
    return made


def _beliefs(product: DataProduct, priors: Sequence[float], failure: float) -> xr.Dataset:
    every = _guarantees(product)
    rho = {name: float(product.rho(which)) for which, words in RELATIONS.items() for name in (words, words + EXACT)}
    rho[RELATIONS[product.stated_neighbours] + STATED] = float(product.stated_rho)
    posterior = np.array([bounds_answer.largest_posteriors(one, priors, failure) for one in every.values()])
    columns: dict[str, Any] = {
        "rho": ("guarantee", np.array([rho[name] for name in every])),
        "posterior": (("guarantee", "prior"), posterior, {"direction": "upper"}),
    }
    return xr.Dataset(columns, {"guarantee": list(every), "prior": as_array(priors)}, {"failure": float(failure)})


def _levels(product: DataProduct) -> xr.Dataset:
    """rho and the ends of the margins of error by level."""
    rows = {level: [row for row in product.counted if row.level == level] for level in product.levels}
    columns = {
        "rho": [float(sum(row.rho for row in here)) for here in rows.values()],
        "tables": [len(here) for here in rows.values()],
        "least_margin": [min(row.margin() for row in here) for here in rows.values()],
        "largest_margin": [max(row.margin() for row in here) for here in rows.values()],
    }
    return xr.Dataset({name: ("level", np.array(column)) for name, column in columns.items()}, {"level": list(rows)})


def _grouped(rows: Iterable[TableBudget], *same: str) -> dict[TableBudget, str]:
    """The first row of those that are alike but for the level, with the names of the levels of all."""
    made: dict[Any, tuple[TableBudget, list[str]]] = {}
    for row in rows:
        made.setdefault((row.table, *(getattr(row, name) for name in same)), (row, []))[1].append(row.level)
    return {row: ", ".join(levels) for row, levels in made.values()}


def _tables(product: DataProduct, priors: Sequence[float], failure: float) -> xr.Dataset:
    """Budget and noise of every table, and what one count alone allows; one row for all levels with the same."""
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
    # Many tables have the same noise: its bounds are worked out once.
    noises = [(row.noise, row.stage_one_noise, row.tau) for row in rows]
    once = {
        noise: bounds_answer.largest_posteriors(row.loss, priors, failure)
        for noise, row in dict(zip(noises, rows, strict=True)).items()
    }
    alone = np.array([once[noise] for noise in noises])
    columns["posterior"] = (("row", "prior"), alone, {"direction": "upper"})
    return xr.Dataset(columns, {"row": range(len(rows)), "prior": as_array(priors)})


def _forms(product: DataProduct) -> xr.Dataset:
    """For every form of an adaptive table, the noisy count it takes and the sizes of groups that have it by chance."""
    table: dict[str, list[Any]] = {name: [] for name in ("table", "levels", "form", "noisy_count", "count")}
    chosen = [row for row in product.rows if row.has_noisy_form]
    for row, levels in _grouped(chosen, "rho", "thresholds", "suppression").items():
        shown = (() if (least := _least_shown(product, row)) is None else (least + 1,)) + row.thresholds
        forms = row.details[len(row.details) - len(shown) :]
        for place, threshold, form in zip(range(-len(shown), 0), shown, forms, strict=True):
            table["table"].append(row.table)
            table["levels"].append(levels)
            table["form"].append(form)
            table["noisy_count"].append(threshold)
            table["count"].append(_sizes(product, row, place, threshold))
    columns: dict[str, Any] = {name: ("row", np.array(table[name])) for name in table if name != "count"}
    columns["count"] = (("row", "chance"), np.array(table["count"]))
    return xr.Dataset(columns, {"row": range(len(table["form"])), "chance": list(CHANCES)})


def _decides(product: DataProduct, row: TableBudget) -> TableBudget:
    """The table whose noisy total decides which form this one has: another product's, or its own."""
    return product.decider.budget(row.level, row.decided_by) if product.decider and row.decided_by else row


def _least_shown(product: DataProduct, row: TableBudget) -> int | None:
    """Largest noisy total that is left out, by this table's rule or by that of the one which decides it."""
    return _decides(product, row).suppressed_up_to


def _sizes(product: DataProduct, row: TableBudget, place: int, threshold: int) -> list[int]:
    """Least sizes of groups that have the form at this place, or a later one, with the probabilities of `CHANCES`."""
    decides = _decides(product, row)
    noises = [decides.noise.total(max(decides.counts, default=1)), decides.stage_one_noise or decides.noise]
    within = int(np.ceil(6.0 * np.sqrt(max(noise.variance for noise in noises))))
    sizes = np.arange(max(0, threshold - within), threshold + within)
    reached = product.table_probabilities(row.level, row.table, sizes).values[:, place:].sum(axis=1)
    return [int(sizes[int(np.argmax(reached >= chance))]) for chance in CHANCES]


def _verdict(product: DataProduct, beliefs: xr.Dataset) -> str:
    at = beliefs.isel(prior=0).sel(guarantee=_best(beliefs, "bounded"))
    most = percentage(float(at["posterior"]), True)
    return (
        f"Except with probability {percent(float(beliefs.attrs['failure']))}, a prior of {percent(float(at['prior']))} "
        f"can rise to at most {most}, for one {product.unit} that is changed."
    )


def _best(beliefs: xr.Dataset, neighbours: str) -> str:
    """The sharpest guarantee that follows from the configuration."""
    words = RELATIONS[neighbours]
    return words + EXACT if words + EXACT in beliefs["guarantee"].values else words


@guarded_document
def document_of_every(tree: xr.DataTree) -> Document:
    """The answer of `solve_every` for people."""
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
    """The answer of `solve` for people."""
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
    """Sums and the stated budget in sentences."""
    sums = " and ".join(
        f"{as_given(float(product.rho(which)))} for one {product.unit} {words}" for which, words in RELATIONS.items()
    )
    stated = f"{as_given(float(product.stated_rho))} for one {product.unit} {RELATIONS[product.stated_neighbours]}"
    return (
        f"The budgets of the configuration, which are for one {product.unit} {RELATIONS[product.neighbours]}, sum to "
        f"rho = {sums}. Stated: {stated}{f', with {product.adds} in it' if product.adds else ''}."
    )


def _belief_section(product: DataProduct, beliefs: xr.Dataset) -> Section:
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
    """A column of posteriors for each prior, with its head."""
    names = {f"prior_{place}": data["posterior"].isel(prior=place, drop=True) for place in range(data.sizes["prior"])}
    heads = {
        name: (f"from {percent(float(prior))}", "% at most")
        for name, prior in zip(names, data["prior"].values, strict=True)
    }
    return data.drop_dims("prior").assign(names), heads


def _level_section(levels: xr.Dataset) -> Section:
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
    "The last columns are what a belief can rise to by one count alone, with stage one, for whoever changes it by one, "
    "or by tau; other groups, tables and levels add to it."
)


def _table_section(product: DataProduct, tables: xr.Dataset) -> Section:
    columns: dict[str, Sequence[str] | None] = {
        "row": None, "table": "table", "levels": "levels", "universe": "counts", "rho": ("rho", "parameter"),
        "sigma2": ("sigma²", "number"), "margin": ("margin of error (95%)", "number"),
        "tau": ("tau", "parameter"), "stage_one_sigma2": ("sigma² of stage one", "number"),
    }  # fmt: skip
    wide, heads = _by_prior(tables)
    columns.update(heads)
    bare = [name for name in ("tau", "stage_one_sigma2") if bool(np.isnan(tables[name]).all())]
    ends = [format_number(float(end)) for end in (tables["margin"].min(), tables["margin"].max())]
    others = [f"“{row.table}” spends the budget of “{row.part_of}”" for row in product.rows if row.part_of]
    return Section(
        "Tables and margins of error",
        f"Margins of error of one count run from {ends[0]} to {ends[1]}.",
        tables=[tabulate(wide, {key: one for key, one in columns.items() if key not in bare}, name="tables")],
        notes=[
            "Margins are those of the normal law: 1.96 sigma. " + _ALONE,
            *(f"{one}." for one in dict.fromkeys(others)),
        ],
        on_screen=tables.sizes["row"] <= LONG,
    )


def _form_section(product: DataProduct, forms: xr.Dataset) -> Section:
    chances = [f"chance_{place}" for place in range(len(CHANCES))]
    wide = forms.drop_vars("count").assign(
        {name: ("row", forms["count"].values[:, place]) for place, name in enumerate(chances)}
    )
    heads = {name: (f"{percent(chance)} at", "count") for name, chance in zip(chances, CHANCES, strict=True)}
    columns = {
        "row": None, "table": "table", "levels": "levels", "form": "published", "noisy_count": ("noisy total", "count"),
    } | heads  # fmt: skip
    who = f"the noisy total of the group in {product.decider.name}" if product.decider else "a noisy total of stage one"
    return Section(
        "Which tables exist",
        f"A group has a table from {who} on; sizes of groups beside it are those with that chance of the table.",
        tables=[tabulate(wide, columns, name="forms")],
        notes=[
            "Groups are listed in advance, so that a table reveals no more than the noisy total. Below the states the "
            "total of a small group is left out, and with it the group."
        ]
        * bool((forms["form"] == "total").any()),
    )
