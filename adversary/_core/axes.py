"""Named axes: alignment of arrays over the same releases, cells, siblings, rows or columns.

Published numbers and tables have axes in a fixed order. Plain arrays and pandas objects follow that order; a DataArray
names its dimensions, in any order, and may have one more dimension, of any name, over releases. Labels along each axis
are aligned by the rules of `labels`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from adversary._core.labels import UNNAMED, align_arguments, as_data_array, has_default_index, has_labels
from adversary._core.numeric import refuse_masked

if TYPE_CHECKING:
    import xarray as xr

CELL, SIBLING, TABLE = ("cell",), ("sibling",), ("row", "column")
"""Trailing dimensions of released numbers, of the numbers of siblings, and of a table."""

# Leading dimension, before `CELL`, `SIBLING` or `TABLE`.
LEAD = "release"


def arrays_over(given: Mapping[str, tuple[Any, tuple[str, ...]]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Numbers as plain arrays ([release,] *trailing dimensions), aligned by label; and the labels per dimension.

    Parameters
    ----------
    given : per argument name, (numbers or None, names of their trailing dimensions)

    Raises
    ------
    ValueError : labels that differ, a mix of labelled and unlabelled arrays, or unexpected dimensions

    >>> import pandas as pd
    >>> a, b = pd.Series([1, 2], ["x", "y"]), pd.Series([3, 4], ["y", "x"])
    >>> arrays, labels = arrays_over({"a": (a, ()), "b": (b, ())})
    >>> arrays["b"].tolist(), labels["release"].tolist()
    ([4, 3], ['x', 'y'])
    """
    for name, (values, _) in given.items():
        refuse_masked(name, values)
    arrays, along = {name: values for name, (values, _) in given.items()}, ""
    if all(has_default_index(x) for x in arrays.values() if has_labels(x)):
        return {name: np.asarray(x) if has_labels(x) else x for name, x in arrays.items()}, {}
    for name, (values, last) in given.items():
        if has_labels(values):
            arrays[name], along = _named_axes(name, values, last, along)
    if any(x.indexes for x in arrays.values() if has_labels(x)):
        arrays = align_arguments(arrays)
    labels = {dim: index for x in reversed(arrays.values()) if has_labels(x) for dim, index in x.indexes.items()}
    for dim, index in labels.items():
        # Labels 0, 1, 2, ... number the cells: put them in that order, so that they agree with plain arrays.
        if dim != LEAD and {*index.tolist()} == {*range(len(index))}:
            arrays = {k: x.sortby(dim) if has_labels(x) and dim in x.dims else x for k, x in arrays.items()}
            labels[dim] = index.sort_values()
    # NetCDF cannot store a MultiIndex: join its parts.
    if LEAD in labels and labels[LEAD].nlevels > 1:
        labels[LEAD] = [", ".join(map(str, parts)) for parts in labels[LEAD]]
    for name, (_, last) in given.items():
        if has_labels(x := arrays[name]):
            first = [LEAD] if LEAD in x.dims else []
            arrays[name] = x.transpose(*first, *(_own(name, dim) for dim in last)).values
    return arrays, labels


def labelled_array(name: str, values: Any, dims: tuple[str, ...]) -> xr.DataArray:
    """DataArray of the values; a plain array takes the last of `dims` as its dimensions, without coordinates.

    A DataArray is returned unchanged. The axes of a pandas object are named by its indexes or, where those have no
    name, by `dims`.

    Parameters
    ----------
    name : of the argument, for messages
    values : a number, an array or labelled numbers
    dims : names of dimensions, at least as many as the array has axes

    Raises
    ------
    ValueError : more axes than dims, or a masked entry

    >>> labelled_array("prior", [0.1, 0.9], ("release", "cell")).dims
    ('cell',)
    """
    import xarray as xr

    if has_labels(values):
        array = as_data_array(values)
        if array is not values and array.ndim <= len(dims):
            last = dims[len(dims) - array.ndim :]
            array = array.rename({f"{UNNAMED}{i}": dim for i, dim in enumerate(last) if f"{UNNAMED}{i}" in array.dims})
        return array
    refuse_masked(name, values)
    plain = np.asarray(values)
    if plain.ndim > len(dims):
        raise ValueError(f"{name} must have dims {dims} at most, got {plain.ndim} axes: label them in a DataArray")
    return xr.DataArray(plain, dims=dims[len(dims) - plain.ndim :])


def common_shape(given: Mapping[str, Any]) -> tuple[int, ...]:
    """Common broadcast shape of the arguments; arguments that are None are ignored.

    Parameters
    ----------
    given : per argument name, numbers, an array or None

    Raises
    ------
    ValueError : the shapes do not broadcast; the message lists them

    >>> common_shape({"n": 10, "mean": [1.0, 2.0], "variance": None})
    (2,)
    """
    shapes = {name: shape for name, x in given.items() if x is not None and (shape := np.shape(x))}
    if len(shapes) < 2:
        return next(iter(shapes.values()), ())
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"arrays must broadcast against one another, got shapes {listed}") from None


def paired_arrays(given: Mapping[str, Any]) -> list[Any]:
    """Arguments over the same items, as plain arrays in the order of the first argument's labels.

    Parameters
    ----------
    given : per argument name, values as `align_arguments` takes them

    Raises
    ------
    ValueError : as `align_arguments`; or labelled arguments with different dimensions

    >>> import pandas as pd
    >>> [x.tolist() for x in paired_arrays({"p": pd.Series([1, 2], ["a", "b"]), "q": pd.Series([3, 4], ["b", "a"])})]
    [[1, 2], [4, 3]]
    """
    aligned = align_arguments(given)
    dims = [x.dims for x in aligned.values() if has_labels(x) and x.dims]
    if any(set(one) != set(dims[0]) for one in dims):
        raise ValueError(f"{', '.join(aligned)} must have the same dimensions, got {', '.join(map(str, dims))}")
    return [x.transpose(*(dims[0] if x.dims else ())).values if has_labels(x) else x for x in aligned.values()]


def _named_axes(name: str, values: Any, last: tuple[str, ...], along: str) -> tuple[xr.DataArray, str]:
    """Labelled numbers with the dimensions "release" and `last`, and the original name of the release dimension."""
    array, by_place = as_data_array(values), not hasattr(values, "coords")
    if by_place and array.ndim <= len(last) + 1:
        places = (LEAD, *last)[len(last) + 1 - array.ndim :]
        array = array.rename(dict(zip(array.dims, places, strict=True)))
    first = [str(dim) for dim in array.dims if dim not in last]
    missing = [dim for dim in last if dim not in array.dims]
    if missing or len(first) > 1:
        wanted = ", ".join(["at most one of releases", *map(repr, last)])
        raise ValueError(f"{name} must have the dimensions {wanted}, got {', '.join(map(repr, array.dims)) or 'none'}")
    if first and not by_place and first[0] != (along := along or first[0]):
        raise ValueError(f"releases must lie along one dimension, got {along!r} and, for {name}, {first[0]!r}")
    array = array.drop_vars([one for one in array.coords if one not in array.xindexes or one in SIBLING])
    return array.rename({**dict.fromkeys(first, LEAD), **{dim: _own(name, dim) for dim in last}}), along


def _own(name: str, dim: str) -> str:
    """Name of a dimension within one argument: siblings of different levels get separate dimensions."""
    return f"{name}, {dim}" if dim in SIBLING else dim
