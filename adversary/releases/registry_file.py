"""Records of the deployments registry, read from YAML files and checked.

The registry (github.com/opendp/deployments-registry-data) has one file for each deployment of differential privacy:
epsilon, delta or rho as numbers, and everything else in prose. The neighbour relation is taken from that prose if it
names one relation and not the other; otherwise the record has none.
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

# Words in the description of a privacy unit by which it is replaced, or added or removed.
_REPLACED = re.compile(r"\bbounded neighbo|change-one|replac|modif|substitut", re.IGNORECASE)
_ADDED = re.compile(r"\badd(ed|ing|ition)?\b|remov|delet|symmetric distance|unbounded", re.IGNORECASE)

# Significant digits to which a stated epsilon is compared with that of a stated rho: registry entries are rounded to
# about three.
_DIGITS = 3


def _prose(*names: str) -> dict[str, Key]:
    """Declarations of keys whose values are free text, all optional."""
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
    """A text on one line, printable characters only; a list is joined by commas; "" where there is none."""
    value = table.values.get(key)
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if value is not None and not isinstance(value, str | int | float):
        raise ValueError(f"{table.where(key)}: must be text, got {value!r:.80}")
    words = " ".join(("" if value is None else str(value)).split())
    return "".join(letter for letter in words if letter.isprintable())


def _date(basic: Keys) -> str:
    """Date of publication, in ISO 8601 if YAML reads it as a date."""
    value = basic.values.get("publication_date")
    return value.isoformat() if isinstance(value, date) else _text(basic, "publication_date")


def _unit(loss: Keys) -> str:
    """Name of the privacy unit: "user-day" for "User-day-level"; "record" where none is stated."""
    name = _text(loss, "privacy_unit").lower().removesuffix("-level").replace("-level", "")
    return name or "record"


def _neighbours(details: str) -> str | None:
    """Neighbour relation named by a description, "bounded" or "unbounded"; None if it names neither or both."""
    replaced, added = bool(_REPLACED.search(details)), bool(_ADDED.search(details))
    return None if replaced == added else "bounded" if replaced else "unbounded"


def _number(numbers: Keys, key: str) -> Any:
    """A parameter as an exact number; None if it is missing or a formula such as "1/n"."""
    value = numbers.values.get(key)
    if key == "delta" and isinstance(value, str):
        try:
            return Fraction(value)
        except (ValueError, ZeroDivisionError):
            return None
    value = numbers.number(key, None)
    return None if value is None else Fraction(str(value)) if math.isfinite(value) else float(value)


def _guarantee(numbers: Keys, variant: str | None) -> tuple[Guarantee | None, str]:
    """(guarantee, "") from the parameters of a deployment, or (None, the reason) if they do not determine one."""
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
    """Check of a stated epsilon at a delta against the one that follows from a stated rho; none without all three."""
    epsilon, delta, rho = (_number(numbers, key) for key in PARAMETERS)
    if epsilon is None or delta is None or rho is None:
        return []
    numbers.build("", partial(ApproximateDP, float(epsilon), float(delta)))
    computed = float(ZeroConcentratedDP(float(rho)).epsilon(float(delta)))
    if not math.isfinite(computed):
        return []
    unit_of_last_digit = 10.0 ** (math.floor(math.log10(float(epsilon))) + 1 - _DIGITS) if epsilon else 0.0
    about = f"epsilon of rho {float(rho):g} at delta {float(delta):g}"
    return [Check(about, Fraction(epsilon), computed, 0.5 * unit_of_last_digit)]
