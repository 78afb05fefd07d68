"""A guarantee in sentences: what is guaranteed, about what, and which parameters let a belief move further."""

from __future__ import annotations

from adversary.privacy import Guarantee
from adversary.privacy.losses import PrivacyLoss


def of_the_release(guarantee: Guarantee) -> bool:
    """Whether the guarantee is about the release itself, not about what is computed from it."""
    return guarantee.after_postprocessing is not guarantee


def stands_for(guarantee: Guarantee) -> str:
    """A sentence that says what is guaranteed, or that the numbers are those of the noise."""
    if isinstance(guarantee, PrivacyLoss):
        return "This is what the noise of a release delivers, its own privacy loss, worked out for one pair of data."
    if guarantee.vacuous:
        return "The release keeps no privacy definition."
    return f"The release keeps {guarantee.describe()}."


def wider(guarantee: Guarantee) -> str:
    """Which parameters let a belief move further."""
    names = " or ".join(guarantee.budget)
    return f"A larger {names} lets it move further." if names else "Less noise lets it move further."
