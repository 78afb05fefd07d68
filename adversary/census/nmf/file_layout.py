"""The layout of a Noisy Measurement File as published: product folders, levels, kinds of records, names of queries.

An archive holds product folders, such as `US_Person_PL_PROD`. In each, `<Geolevel>.parquet/DPQuery` holds noisy
answers and `<Geolevel>.parquet/Constraint` exact information, as Parquet files in partitions `State=044` and, for DHC,
`County=<geocode>`. A record is the answer to one query in one unit: a list of whole numbers, flattened in C order over
the query's shape, with one variance for all. Units that were bypassed (only children) have no measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import Integers, check_whole, closest_name, missing_extra
from adversary.census.nmf.products import PRODUCTS, Product, Shape

MEASUREMENTS, CONSTRAINTS = "DPQuery", "Constraint"
KINDS = (MEASUREMENTS, CONSTRAINTS)

# Suffix of the names of queries, by kind of record.
SUFFIX = {MEASUREMENTS: "_dpq", CONSTRAINTS: "_con"}

PARTITIONS = ("State", "County")

# Columns of a record; every other column is an axis of the histogram.
COLUMNS = ("geocode", "query_name", "query_shape", "value", "variance", "plb", "sign", *PARTITIONS)

# Largest number of cells that an error message lists.
FEW = 8
EQUAL, AT_LEAST, AT_MOST = "=", ">=", "<="

# Spellings of the signs of constraints.
SIGNS = {EQUAL: EQUAL, "==": EQUAL, "eq": EQUAL, AT_LEAST: AT_LEAST, "ge": AT_LEAST, AT_MOST: AT_MOST, "le": AT_MOST}

# Signs of the constraints whose names end so: lower and upper bounds.
NAMED_SIGNS = {"_lb": AT_LEAST, "_ub": AT_MOST}


def arrow() -> Any:
    """Import pyarrow with its submodules; ImportError names the extra `scale` if it is missing."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        raise missing_extra("Noisy Measurement Files need pyarrow", "scale") from error
    return pyarrow


def open_product(directory: str | Path, product: str | None = None) -> Path:
    """Path of the product folder: the directory itself, or the one folder in it whose name contains `product`.

    FileNotFoundError, NotADirectoryError or ValueError if there is no such folder, or several.
    """
    path = Path(directory)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such directory")
    if not path.is_dir():
        raise NotADirectoryError(f"{path}: a Noisy Measurement File is a directory, this is a file")
    inside = [one for one in (path, *sorted(path.glob("*/")), *sorted(path.glob("*/*/"))) if level_names(one)]
    if not inside:
        raise ValueError(f"{path}: this is no Noisy Measurement File, it has no <Geolevel>.parquet directory")
    if inside[0] == path and product is None:
        return path
    names = ", ".join(one.name for one in inside)
    fits = [one for one in inside if product is None or product.casefold() in one.resolve().name.casefold()]
    if len(fits) != 1:
        remedy = f"several products lie in it ({names}): choose one with product" if product is None else ""
        raise ValueError(f"{path}: {remedy or f'product {product!r} must name one of {names}'}")
    return fits[0]


def level_names(directory: Path) -> list[str]:
    """Names of the levels in a directory, in alphabetical order."""
    return sorted(path.name.removesuffix(".parquet") for path in directory.glob("*.parquet") if path.is_dir())


def folder(directory: Path, level: str, kind: str) -> Path:
    """Folder of the records of one kind at one level."""
    return directory / f"{level}.parquet" / kind


def product_of(directory: Path) -> tuple[Product, bool]:
    """Product of a folder, by the axes of its records, and True if its metadata declare it synthetic.

    ValueError naming the axes if no product has them.
    """
    pa, axes = arrow(), ()
    for file in sorted(path for path in directory.glob("*.parquet/*/**/*.parquet") if path.is_file()):
        try:
            schema = pa.parquet.read_schema(file)
        except (pa.ArrowException, OSError):  # reported where its records are read
            continue
        axes = tuple(name for name in schema.names if name not in COLUMNS)
        metadata = schema.metadata or {}
        for product in PRODUCTS:
            if set(product.axes) == set(axes):
                shape = metadata.get(b"shape", b"").decode()
                product = product.cut(tuple(map(int, shape.split("x")))) if shape else product
                return product, metadata.get(b"synthetic") == b"true"
    known = "; ".join(f"{one.name}: {', '.join(one.axes)}" for one in PRODUCTS)
    raise ValueError(f"{directory}: its axes ({', '.join(axes) or 'none'}) are those of no product ({known})")


def levels_of(directory: Path, product: Product) -> tuple[str, ...]:
    """Levels of a folder, from the top down: all levels of the product, or consecutive ones (an extract).

    ValueError naming a level that is not the product's, FileNotFoundError naming one that is skipped.
    """
    present = level_names(directory)
    for name in present:
        if name not in product.levels:
            spine = " > ".join(product.levels)
            raise ValueError(f"{directory}: {name}.parquet is no level of {product.name} ({spine})")
    places = [product.levels.index(name) for name in present]
    contiguous = product.levels[min(places) : max(places) + 1]
    for name in contiguous:
        if name not in present:
            raise FileNotFoundError(f"{directory}: level {name} is absent, there is no directory {name}.parquet")
    return contiguous


def bare(query: str) -> str:
    """Name of a query without its suffix, axes joined by " * ", case unchanged.

    >>> bare("TOTAL"), bare("hispanic*cenrace_dpq"), bare("popSehsdTargetsRelship_dpq")
    ('TOTAL', 'hispanic * cenrace', 'popSehsdTargetsRelship')
    """
    name = query.strip()
    for suffix in SUFFIX.values():
        name = name.removesuffix(suffix)
    return " * ".join(part.strip() for part in name.split("*"))


def spelling_in_file(query: str, names: Iterable[str]) -> str | None:
    """Spelling of a query in a file: the exact one, else up to case and order of axes; None if it is absent.

    >>> spelling_in_file("CENRACE*hispanic", ["total_dpq", "hispanic * cenrace_dpq"])
    'hispanic * cenrace_dpq'
    """
    listed = list(names)
    exact = [name for name in listed if query == name or bare(query) == bare(name)]
    wanted = sorted(bare(query).casefold().split(" * "))
    alike = [name for name in listed if sorted(bare(name).casefold().split(" * ")) == wanted]
    return next(iter(exact or alike), None)


def flat_cells(cells: Any, shape: Shape, query: str, labels: Sequence[str] = ()) -> tuple[Integers, bool]:
    """(cell,) flat indices of the given cells, and True for a single cell rather than a list.

    A cell is a flat index, a tuple with an index per axis of the shape (axes of length one may be omitted), or one of
    the `labels`. `cells` is one, a list, or "all"; None for a query with one cell. ValueError naming query, cell and
    shape.

    >>> flat_cells([(1, 0), 5], (2, 1, 3), "race")[0].tolist()
    [3, 5]
    """
    size = int(np.prod(shape))
    across = " x ".join(map(str, shape))
    if cells is None:
        if size != 1:
            raise ValueError(
                f"query {query} has {across} cells: say which, one or a list of them, or 'all'{_listed(labels)}"
            )
        return np.zeros(1, dtype=np.int64), True
    if isinstance(cells, str) and cells == "all":
        return np.arange(size), False
    one = not isinstance(cells, (list, np.ndarray, range))
    listed = [cells] if one else list(cells)
    if not listed:
        raise ValueError(f"cells must name one cell of query {query} at least, got none")
    places = np.array([_flat(cell, shape, across, query, labels) for cell in listed], dtype=np.int64)
    if np.unique(places).size < places.size:
        raise ValueError(f"cells must be distinct, got {listed}")
    return places, one


def _listed(labels: Sequence[str], words: str = "") -> str:
    """End of an error message that lists a query's cells: all if few, else their number and one that fits `words`."""
    if len(labels) <= FEW:
        return f"; there are {'; '.join(map(repr, labels))}" if labels else ""
    wanted = set(words.casefold().replace(",", " ").split())
    alike = [one for one in labels if wanted and wanted <= set(one.casefold().replace(",", " ").split())]
    some = f"; {len(alike)} have these words, such as {alike[0]!r}" if alike else f", such as {labels[0]!r}"
    return f"; there are {len(labels):,}{some}"


def _flat(cell: Any, shape: Shape, across: str, query: str, labels: Sequence[str]) -> int:
    """Flat index of one cell, from a flat index, a tuple, or a label; ValueError naming query, cell and shape."""
    if isinstance(cell, str):
        folded = [label.casefold() for label in labels]
        if cell.casefold() not in folded:
            raise ValueError(f"query {query} has no cell {cell!r}{closest_name(cell, labels) or _listed(labels, cell)}")
        return folded.index(cell.casefold())
    index: tuple[int, ...] = (int(check_whole("cell", cell)),) if not isinstance(cell, tuple) else ()
    lengths: tuple[int, ...] = (int(np.prod(shape)),)
    if isinstance(cell, tuple):
        long = tuple(n for n in shape if n > 1)
        index = tuple(int(check_whole("cell", i)) for i in cell)
        lengths = shape if len(cell) == len(shape) else long
    if len(index) != len(lengths) or not all(0 <= i < n for i, n in zip(index, lengths, strict=False)):
        ends = " or ".join(map(str, dict.fromkeys((int(np.prod(shape)) - 1, tuple(n - 1 for n in shape)))))
        raise ValueError(f"cell {cell} lies outside query {query}, which has {across} cells: up to {ends}")
    return int(np.ravel_multi_index(index, lengths)) if lengths else 0
