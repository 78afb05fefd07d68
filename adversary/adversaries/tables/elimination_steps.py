"""Steps by which counts are summed out, forwards, and by which derivatives come back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from adversary._core import Floats

Weights = Any
"""(row, (release,) offset of the sum, length) to the row's likelihood, (release, length)."""


@dataclass(frozen=True)
class Weigh:
    """A row of which one sum is left multiplies it."""

    node: int
    out: int
    row: int

    def forward(self, of: Pass) -> None:
        value, offset = of.value[self.node], of.offset[self.node]
        of.put(self.out, value * of.weights(self.row, offset[0], value.shape[1]), offset)

    def backward(self, of: Pass) -> None:
        gradient, offset = of.gradient(self.out), of.offset[self.node]
        of.give(self.node, gradient * of.weights(self.row, offset[0], gradient.shape[1]))


@dataclass(frozen=True)
class Fold:
    """Two sums that the same rows are left of are added up."""

    one: int
    other: int
    out: int

    def forward(self, of: Pass) -> None:
        a, b = of.value[self.one], of.value[self.other]
        found = np.zeros((len(a), a.shape[1] + b.shape[1] - 1))
        for k in range(b.shape[1]):
            found[:, k : k + a.shape[1]] += a * b[:, k : k + 1]
        of.put(self.out, found, [of.offset[self.one][0] + of.offset[self.other][0]])

    def backward(self, of: Pass) -> None:
        gradient, a, b = of.gradient(self.out), of.value[self.one], of.value[self.other]
        one, other = np.zeros_like(a), np.zeros_like(b)
        for k in range(b.shape[1]):
            part = gradient[:, k : k + a.shape[1]]
            one += part * b[:, k : k + 1]
            other[:, k] = (part * a).sum(axis=1)
        of.give(self.one, one)
        of.give(self.other, other)


@dataclass(frozen=True)
class Absorb:
    """A sum taken into the state, with the rows that this completes: (row, axes of the state in its sum) each.

    Axes that no row needs any more are summed out; the new sum is an axis of its own (`joins` -1), is added to that of
    an axis left, or is summed out too (`joins` None).
    """

    state: int
    law: int
    out: int
    complete: tuple[tuple[int, tuple[int, ...]], ...]
    done: tuple[int, ...]
    joins: int | None

    def forward(self, of: Pass) -> None:
        state, law = of.value[self.state], of.value[self.law]
        left = [n for axis, n in enumerate(state.shape[1:]) if axis not in self.done]
        width, offset = law.shape[1], self._offsets(of)
        if self.joins is not None:
            left = (
                [*left, width] if self.joins < 0 else [n + (width - 1) * (a == self.joins) for a, n in enumerate(left)]
            )
        found = np.zeros((len(state), *left))
        for x, factor in enumerate(self._factors(of)):
            part = state * _lift(law[:, x], state.ndim)
            for one in factor:
                part = part * one
            part = part.sum(axis=tuple(axis + 1 for axis in self.done)) if self.done else part
            found[self._place(x, part.shape)] += part
        of.put(self.out, found, offset)

    def backward(self, of: Pass) -> None:
        gradient, state, law = of.gradient(self.out), of.value[self.state], of.value[self.law]
        above, own = np.zeros_like(state), np.zeros_like(law)
        shape = tuple(n for axis, n in enumerate(state.shape) if axis - 1 not in self.done)
        every = tuple(range(1, state.ndim))
        for x, factor in enumerate(self._factors(of)):
            part = gradient[self._place(x, shape)]
            for axis in self.done:
                part = np.expand_dims(part, axis + 1)
            for one in factor:
                part = part * one
            above += part * _lift(law[:, x], state.ndim)
            own[:, x] = (part * state).sum(axis=every)
        of.give(self.state, above)
        of.give(self.law, own)

    def _place(self, x: int, shape: tuple[int, ...]) -> Any:
        """Where the terms of one number of people go."""
        if self.joins is None:
            return ...
        if self.joins < 0:
            return (..., x)
        return tuple(slice(x, x + n) if axis == self.joins + 1 else slice(None) for axis, n in enumerate(shape))

    def _offsets(self, of: Pass) -> list[Any]:
        left = [one for axis, one in enumerate(of.offset[self.state]) if axis not in self.done]
        (new,) = of.offset[self.law]
        if self.joins is None:
            return left
        return [*left, new] if self.joins < 0 else [one + new * (a == self.joins) for a, one in enumerate(left)]

    def _factors(self, of: Pass) -> Iterator[list[Floats]]:
        """What is published of the rows that are completed, for every number of people."""
        state, width = of.value[self.state], of.value[self.law].shape[1]
        tables = []
        for row, axes in self.complete:
            sizes = [state.shape[axis + 1] for axis in axes]
            offset = sum((of.offset[self.state][axis] for axis in axes), of.offset[self.law][0])
            grid = np.zeros([state.shape[a + 1] if a in axes else 1 for a in range(state.ndim - 1)], dtype=np.int64)
            for axis in axes:
                steps = np.arange(state.shape[axis + 1])
                grid = grid + steps.reshape([-1 if a == axis else 1 for a in range(state.ndim - 1)])
            tables.append((of.weights(row, offset, sum(sizes) - len(sizes) + width), grid))
        for x in range(width):
            yield [table[:, grid + x] for table, grid in tables]


@dataclass(frozen=True)
class Merge:
    """Two axes of the state that the same rows need are added up: `other` goes into `one`, which is before it."""

    state: int
    out: int
    one: int
    other: int

    def forward(self, of: Pass) -> None:
        state = np.moveaxis(of.value[self.state], self.other + 1, -1)
        shape = list(state.shape[:-1])
        shape[self.one + 1] += state.shape[-1] - 1
        found = np.zeros(shape)
        for k in range(state.shape[-1]):
            found[self._place(k, state)] += state[..., k]
        offset = [*of.offset[self.state]]
        offset[self.one] = offset[self.one] + offset[self.other]
        del offset[self.other]
        of.put(self.out, found, offset)

    def backward(self, of: Pass) -> None:
        gradient, state = of.gradient(self.out), np.moveaxis(of.value[self.state], self.other + 1, -1)
        above = np.stack([gradient[self._place(k, state)] for k in range(state.shape[-1])], axis=-1)
        of.give(self.state, np.moveaxis(above, -1, self.other + 1))

    def _place(self, k: int, state: Floats) -> Any:
        size = state.shape[self.one + 1]
        return tuple(slice(k, k + size) if axis == self.one + 1 else slice(None) for axis in range(state.ndim - 1))


Step = Weigh | Fold | Absorb | Merge


class Pass:
    """One pass over some releases: the value of every node, forwards, and its derivative, backwards."""

    def __init__(self, weights: Weights) -> None:
        self.value: dict[int, Floats] = {}
        self.offset: dict[int, list[Any]] = {}
        self.derivative: dict[int, Floats] = {}
        self._weights = weights
        self._used: dict[int, Floats] = {}

    def weights(self, row: int, offset: Any, length: int) -> Floats:
        """Of a row, which both passes need."""
        if row not in self._used:
            self._used[row] = self._weights(row, offset, length)
        found: Floats = self._used[row]
        return found

    def put(self, node: int, value: Floats, offset: list[Any]) -> None:
        """A value, scaled to a largest term of 1 in each release."""
        self.value[node], self.offset[node] = _scaled(value), offset

    def give(self, node: int, derivative: Floats) -> None:
        """A derivative, scaled too."""
        self.derivative[node] = _scaled(derivative)

    def gradient(self, node: int) -> Floats:
        """The derivative by a node; 1 where nothing comes after it."""
        if node not in self.derivative:
            return np.ones_like(self.value[node])
        return self.derivative[node]


def _lift(values: Floats, ndim: int) -> Floats:
    return values.reshape(len(values), *(1,) * (ndim - 1))


def _scaled(values: Floats) -> Floats:
    largest = values.reshape(len(values), -1).max(axis=1)
    return values / _lift(np.where(largest > 0.0, largest, 1.0), values.ndim)
