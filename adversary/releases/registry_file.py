"""Records of the deployments registry: YAML in, a checked `Record` out.

The registry (github.com/opendp/deployments-registry-data) has one file for each deployment of differential privacy:
epsilon, delta or rho as numbers, and everything else in prose. Neighbours are read from that prose where it names one
relation and not the other; where it does not, the record has none.
"""

from __future__ import annotations

import math
import re
from datetime import date
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from adversary._core import DEFAULT_FAILURE
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.definitions import ApproximateDP, PureDP, ZeroConcentratedDP
from adversary.releases.record import MODELS, Check, Record, Source
from adversary.releases.yaml_text import load_yaml
from adversary.report.files.keys import Key, Keys

VARIANTS = ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom")
SUFFIXES = (".yaml", ".yml")
_REPLACED = re.compile(r"\bbounded neighbo|change-one|replac|modif|substitut", re.IGNORECASE)
_ADDED = re.compile(r"\badd(ed|ing|ition)?\b|remov|delet|symmetric distance|unbounded", re.IGNORECASE)

# An epsilon beside a rho is compared to within half a unit of this digit.
_DIGITS = 3


def _prose(*names: str) -> dict[str, Key]:
    """Keys whose values are texts of any length."""
    return {name: Key("any", "in words", None) for name in names}


BASIC = {
    "name": Key("text", "what was published", example="Community Mobility Reports"),
    "data_curators": Key("list", "who published it"),
    "publication_date": Key("any", "year, month or day", None),
    **_prose("intended_use", "description", "data_product_type", "data_product_region", "data_product_sector"),
}
PARAMETERS = {
    "epsilon": Key("number", "of pure or approximate DP", None),
    "delta": Key("any", "of approximate DP", None),
    "rho": Key("number", "of zero-concentrated DP", None),
}
DEPLOYMENT = {
    "basic": Key("table", "what was published, by whom and when", keys=BASIC),
    "dp_variant": Key("table", "the definition", {}, keys={
        "variant_name": Key("word", "the definition", None, VARIANTS),
        **_prose("data_domain", "unprotected_quantities"),
    }),
    "privacy_loss": Key("table", "unit and parameters", {}, keys={
        **_prose("privacy_unit", "privacy_unit_details", "privacy_parameters_details"),
        "privacy_parameters": Key("table", "epsilon, delta, rho", {}, keys=PARAMETERS),
    }),
    "deployment_model": Key("table", "central or local", {}, keys={
        "model_name": Key("word", "where the noise is added", None, tuple(one.title() for one in MODELS)),
        **_prose("model_name_details", "actors", "release_type", "release_type_details", "data_source_type",
                 "data_source_type_details", "access_type", "access_type_details"),
    }),
    "accounting": Key("table", "post-processing and composition", {}, keys=_prose("post_processing", "composition")),
    "implementation": Key("table", "mechanisms", {}, keys=_prose(
        "preprocessing_and_hyperparameter_tuning", "mechanisms", "justification",
    )),
    "administrative": Key("table", "sources", {}, keys=_prose("sources", "notes", "registry_authors")),
}  # fmt: skip
REGISTRY = {
    **_prose("url_slug", "status", "tier"),
    "deployment": Key("table", "the deployment", keys=DEPLOYMENT),
}


def load_registry_record(path: str | Path) -> Record:
    """Read a record of the deployments registry.

    Parameters
    ----------
    path : YAML file

    Returns
    -------
    Record : without plan and scenario, which the registry has no words for.

    Raises
    ------
    ImportError : PyYAML is not installed (extra `interop`)
    OSError : the file cannot be read
    ValueError : it is not YAML, or a key is unknown, missing or of the wrong kind, or a parameter is out of range; the
        message names file, key, rule and value
    """
    file = Path(path)
    document = load_yaml(file, "records of the registry")
    if not isinstance(document, dict):
        raise ValueError(
            f"{file}: must be a record of the registry, with a key deployment, got {document or 'nothing'!r:.80}"
        )
    top = Keys(document, file, "", REGISTRY)
    deployment = top["deployment"]
    parts = {name: deployment[name] for name in DEPLOYMENT}
    parts["basic"].get("name", str, "text")
    basic, loss = parts["basic"], parts["privacy_loss"]
    numbers = loss["privacy_parameters"]
    guarantee, reason = _guarantee(numbers, parts["dp_variant"]["variant_name"])
    return Record(
        title=basic["name"],
        description=_text(basic, "description"),
        source="",
        path=file,
        curator=", ".join(map(str, basic.get("data_curators", list, "a list of names"))),
        date=_date(basic),
        sector=_text(basic, "data_product_sector"),
        model=(parts["deployment_model"]["model_name"] or "").lower(),
        published=_text(basic, "data_product_type"),
        mechanism=_text(parts["implementation"], "mechanisms"),
        invariants=_text(parts["dp_variant"], "unprotected_quantities"),
        processing=_text(parts["accounting"], "post_processing"),
        unknown=reason,
        sources=(Source("registry", "", _text(parts["administrative"], "sources")),),
        parameters={name: x for name in PARAMETERS if (x := _number(numbers, name)) is not None},
        unit=PrivacyUnit(_unit(loss), neighbours=_neighbours(_text(loss, "privacy_unit_details"))),
        guarantee=guarantee,
        failure=DEFAULT_FAILURE,
        checks=tuple(_checks(numbers)),
    )


def _text(table: Keys, key: str) -> str:
    """A text on one line, or several put together; "" where there is none."""
    given = table.values.get(key)
    if isinstance(given, list):
        given = ", ".join(map(str, given))
    if given is not None and not isinstance(given, str | int | float):
        raise ValueError(f"{table.where(key)}: must be text, got {given!r:.80}")
    words = " ".join(("" if given is None else str(given)).split())
    return "".join(letter for letter in words if letter.isprintable())


def _date(basic: Keys) -> str:
    given = basic.values.get("publication_date")
    return given.isoformat() if isinstance(given, date) else _text(basic, "publication_date")


def _unit(loss: Keys) -> str:
    """Name of a unit: "User-day-level" is "user-day"."""
    name = _text(loss, "privacy_unit").lower().removesuffix("-level").replace("-level", "")
    return name or "record"


def _neighbours(details: str) -> str | None:
    """The relation that a text names, where it names one of the two alone."""
    replaced, added = bool(_REPLACED.search(details)), bool(_ADDED.search(details))
    return None if replaced == added else "bounded" if replaced else "unbounded"


def _number(numbers: Keys, key: str) -> Any:
    """A parameter as an exact number; None where there is none, or a formula."""
    given = numbers.values.get(key)
    if key == "delta" and isinstance(given, str):
        try:
            return Fraction(given)
        except (ValueError, ZeroDivisionError):
            return None
    given = numbers.number(key, None)
    return None if given is None else Fraction(str(given)) if math.isfinite(given) else float(given)


def _guarantee(numbers: Keys, variant: str | None) -> tuple[Guarantee | None, str]:
    """The guarantee that the parameters make, or None and why."""
    epsilon, delta, rho = (_number(numbers, key) for key in PARAMETERS)
    if rho is not None:
        return numbers.build("rho", partial(ZeroConcentratedDP, float(rho))), ""
    if epsilon is None:
        return None, "The registry has no parameter."
    if numbers.values.get("delta") is not None and delta is None:
        return None, f"Delta is a formula, {numbers.values['delta']}."
    if delta is not None:
        return numbers.build("delta", partial(ApproximateDP, float(epsilon), float(delta))), ""
    if variant not in (None, "Pure DP"):
        return None, f"{variant} needs more than epsilon."
    return numbers.build("epsilon", partial(PureDP, float(epsilon))), ""


def _checks(numbers: Keys) -> list[Check]:
    """An epsilon at a delta beside the one that follows from a rho."""
    epsilon, delta, rho = (_number(numbers, key) for key in PARAMETERS)
    if epsilon is None or delta is None or rho is None:
        return []
    numbers.build("", partial(ApproximateDP, float(epsilon), float(delta)))
    follows = float(ZeroConcentratedDP(float(rho)).epsilon(float(delta)))
    if not math.isfinite(follows):
        return []
    size = 10.0 ** (math.floor(math.log10(float(epsilon))) + 1 - _DIGITS) if epsilon else 0.0
    about = f"epsilon of rho {float(rho):g} at delta {float(delta):g}"
    return [Check(about, Fraction(epsilon), follows, 0.5 * size)]
