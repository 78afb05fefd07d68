"""Labels of xarray and pandas objects: one alignment rule for all functions.

Labelled arguments are aligned by label, in the order of the first argument. Different labels are refused, and so is a
mix of labelled and unlabelled arrays. Results carry the labels. An axis of a pandas object takes the name of its index
or, if that has no name, the only dimension of the other arguments. The default index 0, 1, 2, ... of pandas counts as
no labels. `numeric.as_array` refuses masked entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from inspect import isroutine, signature
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from adversary._core.numeric import Floats, Integers, as_array, refuse_masked, scalar_or_array

# pandas and xarray are imported late: a bound for one number needs neither.
if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Extra = Mapping[str, Any]
"""Trailing dimensions, after those of the releases, in order; each with its labels or None."""

# Prefix of xarray's names for unnamed axes.
UNNAMED = "dim_"

# A mistyped label of 10^12 would otherwise allocate terabytes; a million values are 8 MB.
# Counts that label an entry of a list must be below this limit.
MOST_LISTED = 1_000_000

_BARE = (float, int, str, np.ndarray, list, tuple, type(None))


@dataclass(frozen=True)
class Labels:
    """Dimensions and coordinates of an array of releases or priors; empty for plain arrays.

    Parameters
    ----------
    dims : names of the dimensions
    coords : labels along the dimensions, as `coords` of an `xarray.DataArray`
    """

    dims: tuple[str, ...] = ()
    coords: Any = field(default_factory=dict)

    @classmethod
    def of(cls, *given: Any) -> Labels:
        """The labels of the first argument that has any; the arguments are already aligned."""
        for x in given:
            if has_labels(x) and x.dims:
                return cls(tuple(str(dim) for dim in x.dims), x.coords)
        return cls()

    def before(self, axes: int) -> Labels:
        """The labels of all but the last `axes` dimensions."""
        last = self.dims[len(self.dims) - axes :]
        return Labels(self.dims[:-axes], {k: x for k, x in self.coords.items() if not set(last) & set(x.dims)})

    def over(self, axes: int) -> Labels:
        """These labels or, if empty, the dimensions release_0, release_1, ... for the number of axes."""
        return self if self.dims else Labels(tuple(f"release_{i}" for i in range(axes)))

    def put_on(self, array: Floats, extra: Extra | None = None) -> Any:
        """DataArray with these dimensions first and `extra` ones last; without labels, the plain array or number.

        Raises
        ------
        ValueError : a dimension of `extra` is also a dimension of the releases
        """
        return self._named(array, extra or {}) if self.dims else scalar_or_array(array)

    def put_last(self, array: Floats, x: Any, name: str) -> Any:
        """Array with these labels on its first axes and those of `x` on its last ones.

        If `x` has no labels: a single axis is called `name` and labelled by the values of `x`, several are called
        `name_0`, `name_1` and so on. If neither has labels, the plain array or number is returned.
        """
        if has_labels(x) and (given := as_data_array(x)).dims:
            own = {str(dim): given.coords[dim].values if dim in given.coords else None for dim in given.dims}
            return self.over(array.ndim - given.ndim)._named(array, own)
        axes = {name: np.asarray(x)} if np.ndim(x) == 1 else {f"{name}_{i}": None for i in range(np.ndim(x))}
        return self.put_on(array, axes)

    def _named(self, array: Floats, extra: Extra) -> xr.DataArray:
        import xarray as xr

        shared = [dim for dim in extra if dim in self.dims]
        if shared:
            raise ValueError(f"dimension {shared[0]!r} is one of the releases and of the argument: rename one")
        coords = {dim: labels for dim, labels in extra.items() if labels is not None}
        return xr.DataArray(array, dims=(*self.dims, *extra), coords={**self.coords, **coords})


def has_labels(x: Any) -> bool:
    """True for a DataArray and for a Series or DataFrame of pandas.

    Parameters
    ----------
    x : any argument

    >>> has_labels([1, 2])
    False
    """
    return not isinstance(x, _BARE) and any(hasattr(x, name) for name in ("coords", "iloc"))


def as_data_array(x: Any) -> xr.DataArray:
    """DataArray of a Series or DataFrame, with its index and columns as dimensions; a DataArray unchanged.

    Parameters
    ----------
    x : labelled numbers
    """
    import xarray as xr

    return x if isinstance(x, xr.DataArray) else xr.DataArray(x)


def align_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, the labelled ones as DataArrays in the label order of the first labelled argument.

    Without any labels the arguments are returned unchanged, to be aligned by position.

    Parameters
    ----------
    given : per argument name, numbers, arrays or labelled arrays; None is ignored

    Raises
    ------
    ValueError : labels that differ along a dimension; repeated labels in another order; a mix of labelled and
        unlabelled arrays

    >>> import pandas as pd
    >>> p, q = pd.Series([0.7, 0.3], ["a", "b"]), pd.Series([0.7, 0.3], ["b", "a"])
    >>> align_arguments({"p": p, "q": q})["q"].values.tolist()
    [0.3, 0.7]
    """
    named = {name: x for name, x in given.items() if has_labels(x)}
    if not named:
        return dict(given)
    labelled = {name: as_data_array(x) for name, x in named.items()}
    with_dims = [name for name, x in labelled.items() if x.dims]
    plain = [name for name, x in given.items() if name not in labelled and x is not None and np.ndim(x)]
    if not with_dims:
        return {**given, **labelled}
    if all(has_default_index(named[name]) for name in with_dims):
        return {name: x.values if name in labelled else x for name, x in {**given, **labelled}.items()}
    if plain:
        raise ValueError(
            f"{plain[0]} is an array of shape {np.shape(given[plain[0]])} without labels beside {with_dims[0]}, which "
            "has labels: give both dimensions with names, or neither"
        )
    labelled = _named_alike(labelled)
    for dim in dict.fromkeys(dim for x in labelled.values() for dim in x.dims):
        users = [name for name, x in labelled.items() if dim in x.dims]
        first = labelled[users[0]]
        for name in users[1:]:
            labelled[name] = _in_order(labelled[name], first, str(dim), ", ".join(with_dims))
    return {**given, **labelled}


def has_default_index(x: Any) -> bool:
    """True for a pandas object with the default index 0, 1, 2, ..., which labels nothing.

    Parameters
    ----------
    x : any argument
    """
    axes = getattr(x, "axes", None)
    return axes is not None and all(
        axis.name is None and type(axis).__name__ == "RangeIndex" and axis.start == 0 and axis.step == 1
        for axis in axes
    )


def _named_alike(labelled: dict[str, Any]) -> dict[str, Any]:
    """The arrays, with unnamed axes named after the only named dimension, if there is exactly one."""
    dims = {str(dim) for x in labelled.values() for dim in x.dims}
    names = {dim for dim in dims if not dim.startswith(UNNAMED)}
    if len(names) != 1:
        return labelled
    (name,) = names
    return {k: x.rename({x.dims[0]: name}) if x.dims == (f"{UNNAMED}0",) else x for k, x in labelled.items()}


def _in_order(x: xr.DataArray, first: xr.DataArray, dim: str, names: str) -> xr.DataArray:
    """An array reordered to the labels of `first` along a dimension."""
    order: pd.Index | None = first.indexes.get(dim)
    own: pd.Index | None = x.indexes.get(dim)
    if order is None and own is None and first.sizes[dim] == x.sizes[dim]:
        return x
    if order is not None and own is not None:
        if own.equals(order):
            return x
        if len(own) == len(order) and own.is_unique and order.is_unique:
            place = own.get_indexer(order)
            if (place >= 0).all():
                return x.isel({dim: place})
    raise ValueError(
        f"{names} must have the same labels along a dimension: {dim!r} has {_listed(order, first.sizes[dim])}, and "
        f"{_listed(own, x.sizes[dim])} in another"
    )


def _listed(index: Any, size: int) -> str:
    if index is None:
        return f"{size} entries without labels"
    return ", ".join(map(repr, index[:6].tolist())) + (f", ... ({size} labels)" if size > 6 else "")


def broadcast_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, aligned; those with labels are broadcast by the names of their dimensions.

    Without any labels the arguments are returned unchanged, to be aligned by position.

    Parameters
    ----------
    given : as `align_arguments` takes them

    Raises
    ------
    ValueError : as `align_arguments`
    """
    import xarray as xr

    aligned = align_arguments(given)
    labelled = {name: x for name, x in aligned.items() if has_labels(x)}
    together = dict(zip(labelled, xr.broadcast(*labelled.values()), strict=True))
    return {**aligned, **{name: x if x.dims else x.values for name, x in together.items()}}


def values_by_count(name: str, x: Any, *, gaps: bool = True) -> Any:
    """Values at the counts 0, 1, 2, ...; labels of a Series or DataArray are read as counts, other input is unchanged.

    Parameters
    ----------
    name : of the argument, for messages
    x : one value per count
    gaps : set counts without a label to 0; otherwise gaps are refused

    Raises
    ------
    ValueError : labels that are not different whole numbers from 0 on

    >>> import pandas as pd
    >>> values_by_count("pmf", pd.Series([0.75, 0.25], [3, 1])).tolist()
    [0.0, 0.25, 0.0, 0.75]
    """
    if not has_labels(x):
        return x
    array = as_data_array(x)
    index = array.indexes.get(array.dims[0]) if array.ndim == 1 else None
    if index is None:
        return array.values
    count = whole_labels(name, index)
    values = np.zeros(min(int(count.max(initial=-1)) + 1, MOST_LISTED), dtype=array.dtype)
    if count.min(initial=0) < 0 or count.max(initial=0) >= MOST_LISTED or (values.size != count.size and not gaps):
        rule = f"counts from 0 to {MOST_LISTED - 1:,}" if gaps else "0, 1, 2, ... without gaps"
        raise ValueError(f"{name} must be labelled by {rule}, got {_listed(index, len(index))}")
    values[count] = array.values
    return values


def whole_labels(name: str, index: Any) -> Integers:
    """Labels as distinct whole numbers; text such as the header of a CSV file is converted.

    Parameters
    ----------
    name : of the labelled argument, for messages
    index : the labels

    Raises
    ------
    ValueError : a label that is not a whole number, or one that occurs twice
    """
    labels = np.asarray(index)
    try:
        numbers = labels.astype(np.float64)
        whole = numbers.astype(np.int64) if np.isfinite(numbers).all() else np.zeros(numbers.size, np.int64)
        good = labels.ndim == 1 and labels.dtype.kind != "b" and (whole == numbers).all()
    except (TypeError, ValueError):
        good = False
    if not good or np.unique(whole).size < whole.size:
        raise ValueError(
            f"{name} must be labelled by different whole numbers, got {_listed(labels, labels.size)}: pass the values "
            "alone (.to_numpy()) where their order says which is which"
        )
    return whole


def over_labels(function: Callable[..., Any], *arguments: Any) -> Any:
    """Apply a function of plain arrays to numbers, arrays and labelled arrays alike.

    Parameters
    ----------
    function : elementwise, of float64 arrays that broadcast, to one array
    arguments : numbers, arrays, or labelled arrays, which broadcast by the names of their dimensions

    Returns
    -------
    A float if every argument is a number; a DataArray with all dimensions and coordinates if any argument has labels;
    otherwise a float64 array of the broadcast shape.

    >>> over_labels(np.add, 1, 2), over_labels(np.add, 1, [2, 3]).tolist()
    (3.0, [3.0, 4.0])
    """
    if any(map(has_labels, arguments)):
        own = list(signature(function).parameters) if isroutine(function) else []
        named = {(own[i : i + 1] or [f"argument {i + 1}"])[0]: x for i, x in enumerate(arguments)}
        arguments = tuple(align_arguments(named).values())
    if not any(map(has_labels, arguments)):
        return scalar_or_array(function(*(as_array(x) for x in arguments)))
    import xarray as xr

    return xr.apply_ufunc(function, *(x if has_labels(x) else as_array(x) for x in arguments))


def labelled[F: Callable[..., Any]](method: F) -> F:
    """Decorator of a method of arrays: labelled arguments give a labelled DataArray.

    Parameters
    ----------
    method : elementwise, of `self` and arrays that broadcast, to one array or a pair. Or a function whose first
        argument, such as a guarantee, is not an array
    """
    # The first names of a code object are those of its arguments, in order.
    names = method.__code__.co_varnames

    @wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not any(map(has_labels, args[1:])) and not any(map(has_labels, kwargs.values())):
            return method(*args, **kwargs)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        subject = given.pop(names[0])
        arrays = align_arguments({name: x for name, x in given.items() if x is not None})
        if not any(map(has_labels, arrays.values())):
            return method(subject, **arrays)
        import xarray as xr

        def plain(*values: Any) -> Any:
            return method(subject, **dict(zip(arrays, values, strict=True)))

        pair = isinstance(plain(*(np.asarray(a, dtype=np.float64).ravel()[:1] for a in arrays.values())), tuple)
        return xr.apply_ufunc(plain, *arrays.values(), output_core_dims=[[], []] if pair else [[]])

    return cast(F, wrapped)


def elementwise[F: Callable[..., Any]](method: F) -> F:
    """Decorator that applies a method of one number to every element of an array; labels are preserved.

    Parameters
    ----------
    method : of `self` and one number, to one number; or a function, as for `labelled`
    """
    names = method.__code__.co_varnames[:2]

    @wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(args) + len(kwargs) != 2 or {*given} != {*names}:
            raise TypeError(f"{method.__name__}() takes one argument, {names[1]}, got {(*args[1:], *kwargs)}")
        subject, value = given[names[0]], align_arguments({names[1]: given[names[1]]})[names[1]]
        if np.ndim(value) == 0 and not has_labels(value):
            return method(subject, value)
        refuse_masked(names[1], value)
        answer = np.array([method(subject, float(one)) for one in np.ravel(value)]).reshape(np.shape(value))
        return value.copy(data=answer) if has_labels(value) else answer

    return cast(F, wrapped)
