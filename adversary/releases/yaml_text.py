"""YAML files of other tools, read as plain mappings, lists and values: nothing in them is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adversary._core import missing_extra
from adversary.report.files.toml_text import MOST_BYTES


def load_yaml(file: Path, kind: str, *, tagged: bool = False) -> Any:
    """Document of a YAML file of at most 1 MiB.

    An alias inside an anchored node is refused: a few lines of nested aliases expand to arbitrarily many values.

    Parameters
    ----------
    file : its path
    kind : kind of file, for messages: "records of the registry"
    tagged : whether nodes with a tag, such as that of a Python object, are read as plain mappings, lists and values;
        otherwise they are refused

    Returns
    -------
    Nested dictionaries, lists and values.

    Raises
    ------
    ImportError : PyYAML is not installed; the extra `interop` is named
    OSError : the file cannot be read
    ValueError : it is not YAML, or too long; the message names the file
    """
    try:
        import yaml
    except ImportError as error:
        raise missing_extra(f"{file}: {kind} need PyYAML", "interop") from error

    class Plain(yaml.SafeLoader):  # type: ignore[misc]
        """Loader that can be given constructors for tags without changing PyYAML's own."""

    def plain(loader: Any, suffix: str, node: Any) -> Any:
        """The value of a node without its tag."""
        del suffix
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    for prefix in ("!", "tag:yaml.org,2002:python/") if tagged else ():
        Plain.add_multi_constructor(prefix, plain)
    # one byte more than allowed, so that a longer file is noticed without reading all of it
    with file.open("rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"{file}: must be a YAML file of at most {MOST_BYTES:,} bytes (1 MiB), got a longer one")
    try:
        text = content.decode("utf-8-sig")
        _refuse_nested_references(yaml.parse(text, Plain), yaml)
        return yaml.load(text, Plain)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{file}: must be a YAML file; {line}{error.problem}") from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{file}: must be a YAML file, got {' '.join(str(error).split())}") from None


def _refuse_nested_references(events: Any, yaml: Any) -> None:
    """ValueError at an alias inside an anchored node, from the parser's events, before anything is expanded."""
    # of every mapping or list that is open: whether it has an anchor
    anchored: list[bool] = []
    for event in events:
        if isinstance(event, yaml.AliasEvent) and any(anchored):
            raise ValueError("references (*name) inside of what is referred to are not read; write the value out")
        if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            anchored.append(event.anchor is not None)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            anchored.pop()
