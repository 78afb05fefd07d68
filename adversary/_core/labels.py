"""Labels of xarray: arguments that have them are paired by the names of their dimensions, and answers keep them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from adversary._core.numeric import Floats, scalar_or_array

Extra = Mapping[str, Any]
"""Dimensions behind those of the releases, in order, each with its labels or None."""


@dataclass(frozen=True)
class Labels:
    """Dimensions and coordinates of many releases or priors; none for plain arrays.

    Parameters
    ----------
    dims : names of the dimensions
    coords : labels along them, as of an `xarray.DataArray`
    """

    dims: tuple[str, ...] = ()
    coords: Any = field(default_factory=dict)

    @classmethod
    def of(cls, *given: Any) -> Labels:
        """Those of the first argument that has any; all of them are paired already."""
        for x in given:
            if isinstance(x, xr.DataArray) and x.dims:
                return cls(tuple(str(dim) for dim in x.dims), x.coords)
        return cls()

    def before(self, axes: int) -> Labels:
        """Those of all but so many last dimensions."""
        last = self.dims[len(self.dims) - axes :]
        return Labels(self.dims[:-axes], {k: x for k, x in self.coords.items() if not set(last) & set(x.dims)})

    def over(self, axes: int) -> Labels:
        """The same; where there are none, the dimensions release_0, release_1, ... of so many axes."""
        return self if self.dims else Labels(tuple(f"release_{i}" for i in range(axes)))

    def put_on(self, array: Floats, extra: Extra | None = None) -> Any:
        """An array with these dimensions first and `extra` ones last; without labels, the array or its one number.

        Raises
        ------
        ValueError : an extra dimension is one of these
        """
        return self._named(array, extra or {}) if self.dims else scalar_or_array(array)

    def put_last(self, array: Floats, x: Any, name: str) -> Any:
        """An array whose last axes are those of x: with the labels of x if it has any, else along `name`."""
        if isinstance(x, xr.DataArray) and x.dims:
            own = {str(dim): x.coords[dim].values if dim in x.coords else None for dim in x.dims}
            return self.over(array.ndim - x.ndim)._named(array, own)
        axes = {name: np.asarray(x)} if np.ndim(x) == 1 else {f"{name}_{i}": None for i in range(np.ndim(x))}
        return self.put_on(array, axes)

    def _named(self, array: Floats, extra: Extra) -> xr.DataArray:
        shared = [dim for dim in extra if dim in self.dims]
        if shared:
            raise ValueError(f"dimension {shared[0]!r} is one of the releases and of the argument: rename one")
        coords = {dim: labels for dim, labels in extra.items() if labels is not None}
        return xr.DataArray(array, dims=(*self.dims, *extra), coords={**self.coords, **coords})


def broadcast_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name, those with labels broadcast against one another by the names of their dimensions.

    Without any labels they come back as they are, to be paired by position.

    Raises
    ------
    ValueError : different labels along one dimension; an array without labels beside one that has them
    """
    labelled = {name: x for name, x in given.items() if isinstance(x, xr.DataArray)}
    if not any(x.dims for x in labelled.values()):
        return {name: x.values if name in labelled else x for name, x in given.items()}
    for name, x in given.items():
        if name not in labelled and x is not None and np.ndim(x):
            raise ValueError(
                f"{name} is an array of shape {np.shape(x)} without labels beside {next(iter(labelled))}, which has "
                f"labels: give both dimensions with names, or neither"
            )
    try:
        together = xr.broadcast(*xr.align(*labelled.values(), join="exact", copy=False))
    except ValueError as error:
        raise ValueError(f"{', '.join(labelled)} must have the same labels along a dimension: {error}") from None
    return {**given, **dict(zip(labelled, together, strict=True))}


def labelled_array(name: str, values: Any, dims: tuple[str, ...]) -> xr.DataArray:
    """A DataArray as it is; a plain array labelled with the last of these dims, without coordinates.

    Raises
    ------
    ValueError : more axes than dims
    """
    if isinstance(values, xr.DataArray):
        return values
    array = np.asarray(values)
    if array.ndim > len(dims):
        raise ValueError(f"{name} must have dims {dims} at most, got {array.ndim} axes: label them in a DataArray")
    return xr.DataArray(array, dims=dims[len(dims) - array.ndim :])


def common_shape(given: Mapping[str, Any]) -> tuple[int, ...]:
    """The shape that all arguments broadcast to, those that are None left out.

    Raises
    ------
    ValueError : there is none; every shape is named
    """
    shapes = {name: shape for name, x in given.items() if x is not None and (shape := np.shape(x))}
    if len(shapes) < 2:
        return next(iter(shapes.values()), ())
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"arrays must broadcast against one another, got shapes {listed}") from None
