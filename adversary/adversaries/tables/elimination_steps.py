"""Steps of an elimination: each sums out counts forwards and passes derivatives backwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from adversary._core import Floats

# Function of (row, first sum (release,), number of sums) with the row's likelihood, (release, sum).
Weights = Any

# Axes of a state, and an array (release, number of people, *sums) over them.
Factor = tuple[tuple[int, ...], Floats]


@dataclass(frozen=True)
class Weigh:
    """Multiplication of a row into its only remaining sum."""

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
    """Convolution of two sums that belong to the same remaining rows."""

    one: int
    other: int
    out: int

    def forward(self, of: Pass) -> None:
        a, b = of.value[self.one], of.value[self.other]
        product = np.zeros((len(a), a.shape[1] + b.shape[1] - 1))
        for k in range(b.shape[1]):
            product[:, k : k + a.shape[1]] += a * b[:, k : k + 1]
        of.put(self.out, product, [of.offset[self.one][0] + of.offset[self.other][0]])

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
    """Entry of a sum into the state, with the rows that it completes: (row, axes of the state in its sum) each.

    Axes that no row needs any more (`done`) are summed out. The new sum becomes an axis of its own (`joins` -1), is
    added to the axis `joins`, or is summed out too (`joins` None).
    """

    state: int
    law: int
    out: int
    complete: tuple[tuple[int, tuple[int, ...]], ...]
    done: tuple[int, ...]
    joins: int | None

    def forward(self, of: Pass) -> None:
        state, (own, factors) = of.value[self.state], self._factors(of)
        terms = self._summed(state, factors, own.shape[1])
        for factor in self._left(factors, state.ndim - 1):
            terms = terms * factor
        terms = terms * _lift(own, terms.ndim, 2)
        if self.joins is None:
            result = terms.sum(axis=1)
        elif self.joins < 0:
            result = np.moveaxis(terms, 1, -1)
        else:
            shape = [*terms.shape[:1], *terms.shape[2:]]
            shape[self.joins + 1] += own.shape[1] - 1
            result = np.zeros(shape)
            for x in range(own.shape[1]):
                result[self._place(x, terms)] += terms[:, x]
        of.put(self.out, result, self._offsets(of))

    def backward(self, of: Pass) -> None:
        gradient, state, (own, factors) = of.gradient(self.out), of.value[self.state], self._factors(of)
        width = own.shape[1]
        terms = self._summed(state, factors, width)
        if self.joins is None:
            above = np.broadcast_to(gradient[:, None], terms.shape)
        elif self.joins < 0:
            above = np.moveaxis(gradient, -1, 1)
        else:
            above = np.stack([gradient[self._place(x, terms)] for x in range(width)], axis=1)
        for factor in self._left(factors, state.ndim - 1):
            above = above * factor
        of.give(self.law, (above * terms).reshape(len(above), width, -1).sum(axis=2) * self._alone(of))
        above = above * _lift(own, above.ndim, 2)
        pivot, remaining = self._pivot(factors, state.ndim - 1)
        for axis in self.done:
            if axis != pivot:
                above = np.expand_dims(above, remaining.index(axis) + 2)
        for factor in self._on_done(factors, pivot, remaining):
            above = above * factor
        if pivot is None:
            of.give(self.state, above.sum(axis=1))
            return
        product = np.swapaxes(dict(factors)[pivot,], 1, 2) @ above.reshape(len(above), width, -1)
        of.give(self.state, np.moveaxis(product.reshape(len(above), -1, *above.shape[2:]), 1, pivot + 1))

    def _pivot(self, factors: list[Factor], axes: int) -> tuple[int | None, list[int]]:
        """(a done axis with one factor that depends on no other axis, or None; the other axes).

        Summing out this axis is a matrix product, which is fast."""
        pivots = (axis for axis in self.done if [on for on, _ in factors if axis in on] == [(axis,)])
        pivot = next(pivots, None)
        return pivot, [axis for axis in range(axes) if axis != pivot]

    def _summed(self, state: Floats, factors: list[Factor], width: int) -> Floats:
        """The state with the done axes summed out, for every number of people, (release, number, *axes)."""
        pivot, remaining = self._pivot(factors, state.ndim - 1)
        if pivot is None:
            state_sum = np.broadcast_to(state[:, None], (len(state), width, *state.shape[1:]))
        else:
            turned = np.moveaxis(state, pivot + 1, 1)
            state_sum = dict(factors)[pivot,] @ turned.reshape(*turned.shape[:2], -1)
            state_sum = state_sum.reshape(len(state), width, *turned.shape[2:])
        for factor in self._on_done(factors, pivot, remaining):
            state_sum = state_sum * factor
        gone = tuple(remaining.index(axis) + 2 for axis in self.done if axis != pivot)
        return np.asarray(state_sum.sum(axis=gone) if gone else state_sum)

    def _on_done(self, factors: list[Factor], pivot: int | None, remaining: list[int]) -> Iterator[Floats]:
        """Factors on axes about to be summed out, except that on the pivot alone, (release, number, *remaining axes).

        An axis that a factor does not depend on has size 1.
        """
        for axes, factor in factors:
            if axes != (pivot,) and {*axes} & {*self.done}:
                yield _along(factor, axes, remaining)

    def _left(self, factors: list[Factor], axes: int) -> Iterator[Floats]:
        """Factors on remaining axes only, (release, number, *remaining axes)."""
        remaining = [axis for axis in range(axes) if axis not in self.done]
        for on, factor in factors:
            if not {*on} & {*self.done}:
                yield _along(factor, on, remaining)

    def _place(self, x: int, terms: Floats) -> Any:
        """Index into the new state for the terms of x people: shifted by x on the axis that they join."""
        sizes = [terms.shape[0], *terms.shape[2:]]
        return tuple(slice(x, x + n) if i == (self.joins or 0) + 1 else slice(None) for i, n in enumerate(sizes))

    def _offsets(self, of: Pass) -> list[Any]:
        left = [one for axis, one in enumerate(of.offset[self.state]) if axis not in self.done]
        (new,) = of.offset[self.law]
        if self.joins is None:
            return left
        return [*left, new] if self.joins < 0 else [one + new * (a == self.joins) for a, one in enumerate(left)]

    def _alone(self, of: Pass) -> Floats:
        """Likelihood of completed rows that consist of this sum only, (release, number of people)."""
        own = np.ones_like(of.value[self.law])
        for row, axes in self.complete:
            if not axes:
                own = own * of.weights(row, of.offset[self.law][0], own.shape[1])
        return own

    def _factors(self, of: Pass) -> tuple[Floats, list[Factor]]:
        """(weights of each number of people, likelihoods of the other completed rows by the axes in their sums).

        (release, number) and (release, number, *sums).
        """
        law, state, width = of.value[self.law], of.value[self.state], of.value[self.law].shape[1]
        by_axes: dict[tuple[int, ...], Floats] = {}
        for row, axes in self.complete:
            if not axes:
                continue
            sizes = [width, *(state.shape[axis + 1] for axis in axes)]
            offset = sum((of.offset[self.state][axis] for axis in axes), of.offset[self.law][0])
            weights = of.weights(row, offset, sum(sizes) - len(sizes) + 1)
            own = weights[:, np.add.outer(np.arange(width), sum(np.ix_(*map(np.arange, sizes[1:]))))]
            by_axes[axes] = by_axes[axes] * own if axes in by_axes else own
        return law * self._alone(of), [*by_axes.items()]


@dataclass(frozen=True)
class Merge:
    """Sum of two axes of the state that belong to the same rows: `other` is added to the earlier axis `one`."""

    state: int
    out: int
    one: int
    other: int

    def forward(self, of: Pass) -> None:
        state = np.moveaxis(of.value[self.state], self.other + 1, -1)
        shape = list(state.shape[:-1])
        shape[self.one + 1] += state.shape[-1] - 1
        merged = np.zeros(shape)
        for k in range(state.shape[-1]):
            merged[self._place(k, state)] += state[..., k]
        offset = [*of.offset[self.state]]
        offset[self.one] = offset[self.one] + offset[self.other]
        del offset[self.other]
        of.put(self.out, merged, offset)

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
        """Likelihood of a row, computed once for both passes."""
        if row not in self._used:
            self._used[row] = self._weights(row, offset, length)
        weights: Floats = self._used[row]
        return weights

    def put(self, node: int, value: Floats, offset: list[Any]) -> None:
        """Store a node's value, scaled to a maximum of 1 in each release, which avoids underflow."""
        self.value[node], self.offset[node] = _scaled(value), offset

    def give(self, node: int, derivative: Floats) -> None:
        """Store the derivative by a node, scaled likewise."""
        self.derivative[node] = _scaled(derivative)

    def gradient(self, node: int) -> Floats:
        """The derivative by a node; 1 for a node that no later step uses."""
        if node not in self.derivative:
            return np.ones_like(self.value[node])
        return self.derivative[node]


def _lift(values: Floats, ndim: int, leading: int = 1) -> Floats:
    return values.reshape(*values.shape[:leading], *(1,) * (ndim - leading))


def _along(factor: Floats, axes: tuple[int, ...], remaining: Sequence[int]) -> Floats:
    """A factor (release, number, *sums), with its sums at their places among the remaining axes."""
    sizes = dict(zip(axes, factor.shape[2:], strict=True))
    return factor.reshape(*factor.shape[:2], *(sizes.get(axis, 1) for axis in remaining))


def _scaled(values: Floats) -> Floats:
    largest = values.reshape(len(values), -1).max(axis=1)
    return values / _lift(np.where(largest > 0.0, largest, 1.0), values.ndim)
