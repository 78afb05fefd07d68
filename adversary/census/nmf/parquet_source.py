"""Streaming reads of Parquet files of one kind at one level: only the required files, row groups and columns.

Files of other partitions are not opened; row groups are skipped if their statistics of geocodes or query names exclude
the requested records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from adversary._core import track
from adversary.census.nmf.file_layout import COLUMNS, PARTITIONS, arrow

# Records held in memory at once: 66 MB for the 2,016 cells of the detailed histogram.
BATCH = 4096

# Names that writers of partitions use for a missing value.
NO_CODES = ("__HIVE_DEFAULT_PARTITION__", "null", "None")

# Largest character: `code + LAST` is above every text that begins with `code`.
LAST = "\U0010ffff"


class PartitionedFile(NamedTuple):
    """Path of a Parquet file, and the codes of the partitions it lies in, the deepest first."""

    path: str
    codes: tuple[str, ...]

    def outside_partitions(self, geocodes: Any) -> NDArray[np.bool_]:
        """Mask of the geocodes of an Arrow column outside the partitions; `State=44` has both parts of a state."""
        compute, outside = arrow().compute, np.zeros(len(geocodes), dtype=bool)
        for code in self.codes:
            inside = compute.starts_with(geocodes, code)
            if len(code) == 2:
                inside = compute.or_(inside, compute.equal(compute.utf8_slice_codeunits(geocodes, 1, 3), code))
            outside |= ~inside.fill_null(True).to_numpy(zero_copy_only=False)
        return outside


@dataclass(frozen=True)
class ParquetSource:
    """Directory of Parquet files with records of one kind at one level.

    Parameters
    ----------
    path, level, kind : the directory, and the level and kind of its records
    root : beginning of the geocodes that are read; two digits: a state, both its parts; "": everything
    """

    path: Path
    level: str
    kind: str
    root: str = ""

    def files(self, faults: list[str] | None = None) -> list[PartitionedFile]:
        """Files of the wanted partitions, sorted. An invalid partition raises ValueError, or is added to `faults`."""
        return sorted(self._walk(self.path, (), faults)) if self.path.is_dir() else []

    def _walk(self, folder: Path, codes: tuple[str, ...], faults: list[str] | None) -> Iterator[PartitionedFile]:
        """Yield the Parquet files below a folder, with the codes of their partitions."""
        for path in folder.iterdir():
            name, equals, value = path.name.partition("=")
            code = unquote(value)
            if path.name.startswith((".", "_")):
                continue
            if not path.is_dir():
                if path.suffix == ".parquet":
                    yield PartitionedFile(str(path), codes)
                continue
            known = name in PARTITIONS and bool(equals)
            if known and not (code.strip() and code.isprintable() and "\ufffd" not in code and code not in NO_CODES):
                wrong = f"{path}: partition {name} must have a code of printable characters, got {value!r}"
                if faults is None:
                    raise ValueError(wrong)
                faults.append(wrong)
            elif not known or self._overlaps(code):
                yield from self._walk(path, (code, *codes) if known else codes, faults)

    def _overlaps(self, code: str) -> bool:
        """True if a partition may contain units below the root."""
        root = self.root
        if len(root) < 3 or len(code) < 3:
            return not root or root[-2:] == code[1:3] or root[1:3] == code or root == code
        return code.startswith(root) or root.startswith(code)

    def batches(
        self,
        columns: Sequence[str],
        condition: Any = None,
        progress: str = "",
        faults: list[str] | None = None,
        optional: Sequence[str] = (),
    ) -> Iterator[tuple[PartitionedFile, Any]]:
        """Yield (file, Arrow batch) of the columns, and of existing `optional` ones, in the order of files and rows.

        ValueError naming a bad file or column; with `faults`, the message is added there and the file is skipped.

        condition : Arrow expression that records must satisfy
        progress : label of a progress bar; "": none
        """
        pa = arrow()
        if len(self.root) > 2:
            code = pa.dataset.field("geocode")
            inside = (code >= self.root) & (code < self.root + LAST)
            condition = inside if condition is None else condition & inside
        for file in track(self.files(faults), progress, enabled=bool(progress)):
            try:
                with _errors_name_file(file.path):
                    schema = pa.parquet.read_schema(file.path)
                    dataset = pa.dataset.dataset(file.path, schema=schema, format="parquet")
                there = [*columns, *(name for name in optional if name in schema.names)]
                _check_columns(schema, there, file.path)
                with _errors_name_file(file.path):
                    for batch in dataset.to_batches(
                        columns=there, filter=condition, batch_size=BATCH, batch_readahead=2
                    ):
                        if batch.num_rows:
                            # invalid text is detected here, where its file is known
                            batch.validate(full=True)
                            yield file, batch
            except ValueError as error:
                if faults is None:
                    raise
                faults.append(str(error))

    def query_names(self) -> list[str]:
        """Names of the queries in the first file that has any, sorted.

        A row group whose statistics show a single query is not read.
        """
        names: set[str] = set()
        for file in self.files():
            with _errors_name_file(file.path), arrow().parquet.ParquetFile(file.path) as opened:
                _check_columns(opened.schema_arrow, ["query_name"], file.path)
                place = opened.schema_arrow.get_field_index("query_name")
                for group in range(opened.num_row_groups):
                    known = opened.metadata.row_group(group).column(place).statistics
                    if known is not None and known.has_min_max and known.min == known.max:
                        names.add(known.min)
                    else:
                        column = opened.read_row_group(group, columns=["query_name"]).column(0)
                        names |= set(column.unique().to_pylist())
            if names := {name for name in names if name and name.strip()}:
                break
        return sorted(names)

    def first_geocode(self) -> str | None:
        """Geocode of some record in the wanted partitions, or None; unreadable files are skipped."""
        for file in self.files([]):
            try:
                with arrow().parquet.ParquetFile(file.path) as opened:
                    for batch in opened.iter_batches(64, columns=["geocode"]):
                        if codes := [code for code in batch.column(0).to_pylist() if isinstance(code, str)]:
                            return str(codes[0])
            except (arrow().ArrowException, OSError, UnicodeDecodeError, IndexError):
                continue
        return None


def as_strings(column: Any) -> Any:
    """Arrow column of texts in any encoding, cast to plain strings."""
    pa = arrow()
    return column.cast(pa.string()) if column.type != pa.string() else column


def _check_columns(schema: Any, columns: Sequence[str], path: str) -> None:
    """ValueError naming file and column if a column is missing or of another type."""
    types = arrow().types

    def text(kind: Any) -> bool:
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))

    def numbers(kind: Any, whole: bool) -> bool:
        listed = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        inside = kind.value_type if listed else None
        return bool(listed and (types.is_integer(inside) or (types.is_floating(inside) and not whole)))

    def number(kind: Any) -> bool:
        return bool(types.is_floating(kind) or types.is_integer(kind))

    rules: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "query_shape": ("a list of whole numbers", lambda kind: numbers(kind, True)),
        "value": ("a list of numbers", lambda kind: numbers(kind, False)),
        "variance": ("a number", number),
        "plb": ("a number", number),
    }
    for name in columns:
        if name not in schema.names:
            expected = "column" if name in COLUMNS else "the axis"
            raise ValueError(f"{path}: {expected} {name} is absent, there are {', '.join(schema.names)}")
        expected, ok = rules.get(name, ("text", text))
        kind = schema.field(name).type
        if not ok(kind):
            raise ValueError(f"{path}: column {name} must hold {expected}, it holds {kind}")


@contextmanager
def _errors_name_file(path: str) -> Iterator[None]:
    """Turn errors of Arrow into a ValueError that names the file."""
    try:
        yield
    except (arrow().ArrowException, OSError) as error:
        raise ValueError(f"{path}: cannot be read as Parquet: {error}") from None
