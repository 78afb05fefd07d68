"""PLACEHOLDER by LEAD so that imports work: helper POST replaces this file. See /tmp/lead/core_done.md for the signatures plans.py calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from adversary.privacy.mechanisms import Mechanism


class Clamped:
    """placeholder"""


def clamped(mechanism: Mechanism, lower: int = 0, upper: int | None = None) -> Any:
    """placeholder"""
    raise NotImplementedError


class Postprocessing(ABC):
    """placeholder"""

    @abstractmethod
    def exact(self, siblings: int) -> bool:
        """Whether log_prob is exact with so many siblings."""

    @abstractmethod
    def sample(self, own: Any, parent: Any, others: int, mechanism: Mechanism, siblings: int, rng: Any, sibling_counts: Any = None) -> Any:
        """t1 for noisy own releases and published parents: draws the siblings' noise, then adjusts."""

    @abstractmethod
    def log_prob(self, release: Any, parent: Any, own: Any, others: Any, mechanism: Mechanism, siblings: int) -> Any:
        """log P(t1 | t2, X1 = own, others)."""
