r"""PyMC models of the actual and the counterfactual world of one record, their release left free.

.. math::
   d &\sim \pi(d), \qquad r \mid d \sim \pi(r \mid d), \qquad s \mid d \sim \pi(r \mid d) \text{ independently of } r \\
   \text{noisy} &= a(d, r) + \text{noise in the actual world}, \qquad a(d, s) + \text{noise in the other}

The record r is inferred. In the counterfactual world the mechanism receives a copy s in place of r, so the release
depends on r only through the other records d.

References
----------
Kifer et al. (2022), "Bayesian and frequentist semantics for common variations of differential privacy", section 7.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.tensor.variable import TensorVariable

from adversary._core import check_whole, labelled_array
from adversary.adversaries.counterfactual import aligned, select_records
from adversary.models.noise import released
from adversary.privacy.mechanisms import Mechanism


def actual_world(prior_rest: Any, prior_record: Any, mechanism: Mechanism, answers: Any) -> pm.Model:
    """PyMC model of the actual world: the release is computed from the target's own record.

    Parameters
    ----------
    prior_rest : array_like (rest,)
        Prior pi(d) of the other records; 1.0 if they are known.
    prior_record : array_like ([rest,] record)
        Prior pi(r | d) of the target's record.
    mechanism : Mechanism
        Noise of each answer.
    answers : array_like of int ([rest,] record)
        Exact answers a(d, r); further dims of a DataArray (queries, cells) get independent noise and become dims of the
        release.

    Returns
    -------
    pymc.Model
        Free: ``rest`` and ``record``, as positions 0, 1, ...; ``noisy``. Deterministic: ``answer``.

    Raises
    ------
    ValueError
        Priors that are not probabilities, answers that are not whole numbers, or labels that do not agree.

    Examples
    --------
    >>> from adversary import DiscreteGaussian, enumerate_posterior
    >>> model = actual_world(1.0, [0.7, 0.3], DiscreteGaussian(1.0), [0, 1])
    >>> enumerate_posterior(model, {"noisy": 1}, "record").probability.values.round(4).tolist()
    [0.586, 0.414]
    """
    story = _Story.of(prior_rest, prior_record, answers)
    with pm.Model(coords=story.coords) as model:
        rest, record = story.people()
        story.publish(mechanism, _looked_up(story.answers.values, rest, record))
    return model


def counterfactual_world(
    prior_rest: Any, prior_record: Any, mechanism: Mechanism, answers: Any, *, default: Any = None, dropped: Any = None
) -> pm.Model:
    """PyMC model of the counterfactual world: the release is computed from a copy in place of the target's record.

    The copy is drawn from the same prior, given the other records, and independently of the target's record.

    Parameters
    ----------
    prior_rest, prior_record, mechanism, answers
        As in `actual_world`.
    default : optional
        Label (or position) of a fixed record to use instead of a copy.
    dropped : array_like of int ([rest]), optional
        Answers without the target's record, with the dims of the queries, to use instead of a copy.

    Returns
    -------
    pymc.Model
        As in `actual_world`, with the free variable ``copy`` if one is drawn.

    Raises
    ------
    ValueError
        As in `actual_world`, or `default` and `dropped` are both given.

    Examples
    --------
    >>> from adversary import DiscreteGaussian, enumerate_posterior
    >>> model = counterfactual_world(1.0, [0.7, 0.3], DiscreteGaussian(1.0), [0, 1])
    >>> enumerate_posterior(model, {"noisy": 1}, "record").probability.values.round(4).tolist()
    [0.7, 0.3]
    """
    if default is not None and dropped is not None:
        raise ValueError("give default or dropped, not both: each says what the counterfactual world holds")
    story = _Story.of(prior_rest, prior_record, answers)
    with pm.Model(coords=story.coords) as model:
        rest, _ = story.people()
        if default is None and dropped is None:
            copy = pm.Categorical("copy", p=_looked_up(story.record, rest))
            story.publish(mechanism, _looked_up(story.answers.values, rest, copy))
        else:
            fixed = select_records(story.answers, default) if dropped is None else story.answers_without(dropped)
            story.publish(mechanism, _looked_up(fixed.values, rest))
    return model


def _looked_up(table: Any, *positions: TensorVariable) -> TensorVariable:
    """Entries of a table at positions, clipped to its ends: step methods may propose impossible positions outside."""
    inside = [pt.clip(k, np.int64(0), np.int64(n - 1)) for k, n in zip(positions, table.shape, strict=False)]
    return pt.constant(table)[tuple(inside)]


@dataclass(frozen=True)
class _Story:
    """Priors (rest,) and (rest, record), and integer answers (rest, record, ...)."""

    rest: Any
    record: Any
    answers: xr.DataArray

    @classmethod
    def of(cls, prior_rest: Any, prior_record: Any, answers: Any) -> _Story:
        given = labelled_array("answers", answers, ("rest", "record"))
        rest, record, values = aligned(prior_rest, prior_record, answers=given)
        everybody = xr.zeros_like(rest) + xr.zeros_like(record)
        table = (everybody + values).transpose("rest", "record", ...)
        each = (everybody + record).transpose("rest", "record").values
        return cls(rest.values, each, table.copy(data=check_whole("answers", table.values)))

    @property
    def queries(self) -> tuple[Any, ...]:
        return self.answers.dims[2:]

    @property
    def coords(self) -> dict[str, Any]:
        """Labels of the release's dims."""
        return {str(dim): self.answers[dim].values for dim in self.queries}

    def people(self) -> tuple[TensorVariable, TensorVariable]:
        rest = pm.Categorical("rest", p=self.rest)
        return rest, pm.Categorical("record", p=_looked_up(self.record, rest))

    def answers_without(self, dropped: Any) -> xr.DataArray:
        """Answers without the target's record, dims (rest, ...)."""
        values = labelled_array("dropped", dropped, ("rest",))
        table = (xr.zeros_like(self.answers.isel(record=0, drop=True)) + values).transpose("rest", *self.queries)
        return table.copy(data=check_whole("dropped", table.values))

    def publish(self, mechanism: Mechanism, value: TensorVariable) -> None:
        dims = tuple(map(str, self.queries)) or None
        released("noisy", mechanism, pm.Deterministic("answer", value, dims=dims), dims=dims)
