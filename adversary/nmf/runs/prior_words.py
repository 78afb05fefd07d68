"""Priors of leaves in words: as a command takes them, and as a manifest keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from adversary.reader.spine import Flat, LeafPrior, NegativeBinomial, Poisson, SharedRate

KINDS: dict[str, tuple[Callable[..., LeafPrior], int]] = {
    "shared-rate": (SharedRate, 0),
    "flat": (Flat, 0),
    "poisson": (Poisson, 1),
    "negative-binomial": (NegativeBinomial, 2),
}
"""Each with its number of parameters."""
FORMS = "shared-rate, flat, poisson=MEAN or negative-binomial=SHAPE,MEAN"


def leaf_prior(text: str) -> LeafPrior:
    """A prior from its words; ValueError naming them and the forms there are.

    >>> leaf_prior("poisson=0.7").mean.tolist()
    0.7
    """
    kind, sign, rest = text.strip().partition("=")
    told = f"the prior of leaves must be {FORMS}, got {text!r}"
    if kind not in KINDS:
        raise ValueError(told)
    make, count = KINDS[kind]
    try:
        values = [float(part) for part in rest.split(",")] if sign else []
    except ValueError:
        raise ValueError(told) from None
    if len(values) != count:
        raise ValueError(told)
    return make(*values)


def description(prior: LeafPrior) -> dict[str, Any]:
    """Kind and parameters of a prior, as JSON can hold them.

    >>> description(Poisson(0.7))
    {'kind': 'Poisson', 'mean': 0.7}
    """
    found = {f.name: getattr(prior, f.name) for f in fields(prior) if f.name != "law"}  # type: ignore[arg-type]
    plain = {
        name: value if isinstance(value, str | None) else np.asarray(value).tolist() for name, value in found.items()
    }
    return {"kind": type(prior).__name__, **plain}
