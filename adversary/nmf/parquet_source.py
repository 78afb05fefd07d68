"""Parquet files of one kind at one level, streamed: only the files, row groups and columns asked for are read.

Files of other partitions are not opened, and row groups are skipped whose names of queries exclude the one asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from adversary._core import track
from adversary.nmf.file_layout import PARTITIONS, arrow

BATCH = 4096
"""Records held at once: 66 MB of the detailed histogram's 2,016 cells."""

NO_CODES = ("__HIVE_DEFAULT_PARTITION__", "null", "None")
"""What writers of partitions name that of no value."""

Words = NDArray[np.object_]


@dataclass(frozen=True)
class Source:
    """A directory of Parquet files with records of one kind at one level, opened only where it is read.

    Parameters
    ----------
    path, level, kind : the directory and what it holds
    where : partitions to read, such as {"State": "44"}; a file that has no such partition or column is read whole
    """

    path: Path
    level: str
    kind: str
    where: dict[str, str] = field(default_factory=dict)

    def files(self, faults: list[str] | None = None) -> list[tuple[Any, Any]]:
        """Files of the wanted partitions, each with the condition on its rows that is left (None for none).

        ValueError naming a folder that is no partition; with `faults`, that is added there and the folder is left.
        """
        pa = arrow()
        if not self.path.is_dir():
            return []
        partitioning = pa.dataset.partitioning(pa.schema([(name, pa.string()) for name in PARTITIONS]), flavor="hive")
        paths = sorted(str(file) for file in self._walk(self.path, faults))
        if not paths:
            return []
        fragments = pa.dataset.dataset(
            paths, schema=pa.schema([]), format="parquet", partitioning=partitioning, partition_base_dir=str(self.path)
        ).get_fragments()
        return [(one, self._rest(one)) for one in sorted(fragments, key=lambda one: str(one.path))]

    def _walk(self, folder: Path, faults: list[str] | None) -> Iterator[Path]:
        """Parquet files in a directory; those of partitions that are not wanted are not even listed."""
        for path in folder.iterdir():
            name, equals, value = path.name.partition("=")
            if path.name.startswith((".", "_")) or (equals and self.where.get(name, unquote(value)) != unquote(value)):
                continue
            if path.is_dir():
                if equals and not _is_key(name, value):
                    wrong = f"{path}: partition {name} must have a code of printable characters, got {value!r}"
                    if faults is None:
                        raise ValueError(wrong)
                    faults.append(wrong)
                    continue
                yield from self._walk(path, faults)
            elif path.suffix == ".parquet":
                yield path

    def _rest(self, fragment: Any) -> Any:
        """The condition left on a file's rows, of a partition that is a column and no directory; None for none."""
        pa = arrow()
        keys = pa.dataset.get_partition_keys(fragment.partition_expression)
        rest = None
        for name, value in self.where.items():
            if name not in keys and name in self.schema(fragment).names:
                term = pa.dataset.field(name) == value
                rest = term if rest is None else rest & term
        return rest

    @staticmethod
    def schema(fragment: Any) -> Any:
        """Columns of a file; ValueError naming a file that is not Parquet."""
        with _named(fragment.path):
            return fragment.physical_schema

    def batches(
        self, columns: Sequence[str], condition: Any = None, progress: str = "", faults: list[str] | None = None
    ) -> Iterator[tuple[str, Any]]:
        """(path, batch) of the columns, in the order of files and rows.

        ValueError naming a bad file or column; with `faults`, that is added there and the file is left.
        """
        for fragment, rest in track(self.files(faults), progress, enabled=bool(progress)):
            both = condition if rest is None else rest if condition is None else condition & rest
            try:
                yield from self._read(fragment, columns, both)
            except ValueError as error:
                if faults is None:
                    raise
                faults.append(str(error))

    def _read(self, fragment: Any, columns: Sequence[str], condition: Any) -> Iterator[tuple[str, Any]]:
        schema = self.schema(fragment)
        _check_columns(schema, columns, fragment.path)
        with _named(fragment.path):
            batches = fragment.to_batches(
                schema=schema, columns=list(columns), filter=condition, batch_size=BATCH, batch_readahead=2
            )
            for batch in batches:
                if batch.num_rows:
                    batch.validate(full=True)  # what is no text is found here, where its file is known
                    yield fragment.path, batch

    def query_names(self, faults: list[str] | None = None) -> list[str]:
        """Names of the queries in the records, as they are written, sorted."""
        names: set[str] = set()
        for path, batch in self.batches(["query_name"], faults=faults):
            found = set(batch.column(0).unique().to_pylist())
            if any(name is None or not name.strip() for name in found):
                wrong = f"{path}: query_name is missing in a record"
                if faults is None:
                    raise ValueError(wrong)
                faults.append(wrong)
            names |= {name for name in found if name and name.strip()}
        return sorted(names)

    def geocodes_by_partition(self) -> Iterator[tuple[dict[str, str], Any]]:
        """(partition, units that have any record, each once) of every file."""
        pa = arrow()
        for fragment, rest in self.files():
            _check_columns(self.schema(fragment), ["geocode"], fragment.path)
            with _named(fragment.path):
                table = fragment.to_table(schema=fragment.physical_schema, columns=["geocode"], filter=rest)
                table.validate(full=True)
            yield pa.dataset.get_partition_keys(fragment.partition_expression), texts(table.column(0)).unique()

    def geocodes(self) -> Any:
        """Units that have any record, each once, as an Arrow array."""
        pa = arrow()
        chunks = [texts(batch.column(0)).unique() for _, batch in self.batches(["geocode"])]
        return pa.chunked_array(chunks, pa.string()).unique()


def _is_key(name: str, value: str) -> bool:
    """Whether the value of a partition that is read by its value is one, and can be shown."""
    code = unquote(value)
    told = bool(code.strip()) and code.isprintable() and "\ufffd" not in code
    return name not in PARTITIONS or (told and code not in NO_CODES)


def texts(column: Any) -> Any:
    """A column of texts, however it is encoded, as plain ones."""
    pa = arrow()
    return column.cast(pa.string()) if column.type != pa.string() else column


def _check_columns(schema: Any, columns: Sequence[str], path: str) -> None:
    """Every column is there and of its kind, or ValueError naming file and column."""
    types = arrow().types

    def text(kind: Any) -> bool:
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))

    def numbers(kind: Any, whole: bool) -> bool:
        listed = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        inside = kind.value_type if listed else None
        return bool(listed and (types.is_integer(inside) or (types.is_floating(inside) and not whole)))

    rules = {
        "query_shape": ("a list of whole numbers", lambda kind: numbers(kind, True)),
        "value": ("a list of numbers", lambda kind: numbers(kind, False)),
        "variance": ("a number", lambda kind: types.is_floating(kind) or types.is_integer(kind)),
    }
    for name in columns:
        if name not in schema.names:
            raise ValueError(f"{path}: column {name} is absent, there are {', '.join(schema.names)}")
        what, ok = rules.get(name, ("text", text))
        kind = schema.field(name).type
        if not ok(kind):
            raise ValueError(f"{path}: column {name} must hold {what}, it holds {kind}")


@contextmanager
def _named(path: str) -> Iterator[None]:
    """What Arrow cannot read is told with its file."""
    try:
        yield
    except (arrow().ArrowException, OSError) as error:
        raise ValueError(f"{path}: cannot be read as Parquet: {error}") from None
