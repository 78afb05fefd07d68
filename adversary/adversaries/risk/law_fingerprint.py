"""Identity of distributions of the log Bayes factor: equality up to the prior, and digests for a store."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import fields, is_dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np

from adversary.adversaries.beliefs import Belief, Others, is_law
from adversary.adversaries.path import Adversary, Truth
from adversary.adversaries.plans import Plan

# Largest number of counts at which distributions are compared; their names and parameters are compared too.
_LISTED = 2**16


def same_law(one: Adversary, other: Adversary) -> bool:
    """True if two adversaries differ at most in their prior, and so share one distribution of the log Bayes factor.

    Parameters
    ----------
    one, other : adversaries

    Returns
    -------
    True if `known`, `beliefs`, `hypotheses` and `sampling_rate` are equal; beliefs are compared by their content

    >>> same_law(Adversary(prior=0.1), Adversary(prior=0.5)), same_law(Adversary(known=0), Adversary(known=1))
    (True, False)
    """
    parts = ((who.known, who.hypotheses, who.sampling_rate, who.beliefs.keys()) for who in (one, other))
    return next(parts) == next(parts) and all(_alike(one.beliefs[name], other.beliefs[name]) for name in one.beliefs)


def _alike(one: Any, other: Any) -> bool:
    """True for equal beliefs, or tuples of them: the same object, or equal type, `repr` and digest."""
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    return repr(one) == repr(other) and _belief_digest(one) == _belief_digest(other)


@lru_cache(maxsize=1 << 14)
def _belief_digest(belief: Belief) -> str:
    return _digest(belief)


def law_fingerprint(plan: Plan, adversary: Adversary, truth: Truth) -> str:
    """Digest of a plan, an adversary without the prior, and a truth: a key of stored blocks, equal in all processes."""
    chains = [adversary.level_beliefs(plan, cell) for cell in range(plan.cells)]
    siblings = {name: counts.tolist() for name, counts in truth.siblings.items()}
    who = (adversary.hypotheses, adversary.sampling_rate)
    return _digest((plan, chains, *who, truth.counts.tolist(), truth.target, siblings))


def _digest(value: Any) -> str:
    content = BytesIO()
    _Fingerprint(content).dump(value)
    return hashlib.sha256(content.getvalue()).hexdigest()


class _Fingerprint(pickle.Pickler):
    """A pickler for comparison only: equal values have equal pickles, whatever was computed with them before.

    A `scipy.stats` distribution holds the state of a generator, which differs between processes; it is replaced by its
    name, parameters and log probabilities in its bulk. A dataclass is replaced by its fields without cached properties.
    """

    def __init__(self, file: BytesIO) -> None:
        super().__init__(file, protocol=4)
        # Without the memo, equal values are written alike, whether or not they are the same object.
        self.fast = True

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type):
            return NotImplemented
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return np.frombuffer, (value.tobytes(), value.dtype.str, value.shape)
        if is_law(value):
            return is_law, _law_content(value)
        if is_dataclass(value):
            return type(value), tuple(getattr(value, field.name) for field in fields(value))
        return NotImplemented


def _law_content(law: Any) -> tuple[Any, ...]:
    """Type, name and parameters of a distribution, and log probabilities: only these differ for lists of values."""
    belief, kind = Others(law), getattr(law, "dist", law)
    low, high = belief.bulk()
    counts = np.unique(np.linspace(low, high, _LISTED).astype(np.int64)).astype(np.float64)
    parameters = (getattr(law, "args", ()), sorted(getattr(law, "kwds", {}).items()))
    return type(kind).__qualname__, getattr(kind, "name", ""), parameters, low, high, belief.log_pmf(counts)
