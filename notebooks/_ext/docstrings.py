"""Docstrings as pages: sections of numpydoc become definition lists, formulas and code in back-quotes stay as written.

The house writes `name : description`, where numpydoc has `name : type`. Both are read: a type is a short word of Python
above an indented description; anything else is the description itself.
"""

import inspect
import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

ENTRIES = ("Parameters", "Raises", "Warns", "Returns")
"""Sections of named entries."""
TYPE = re.compile(
    r"(?:array_like|array|bool|callable|class|dict|float|frozen|int|list|mapping|ndarray|number|numpy|optional|Path|"
    r"pathlib|pm|pymc|sequence|set|str|tensor_like|tensor|tuple|xarray|xr|[A-Z][A-Za-z]+)\b[^.;:]{0,80}"
)
"""What a type looks like: `array_like of int ([rest,] record)`, `mapping, optional`, `Dataset`."""
ITEM = re.compile(
    r"(?P<names>[*`]{0,2}\w+`?(?:, [*`]{0,2}\w+`?)*)(?: : (?P<text>.*))?"
)


def rst(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText that Sphinx typesets without a warning."""
    out, examples = list[str](), False
    for name, block in _sections(lines):
        if name in ENTRIES:
            body = (
                _returned(block) if name == "Returns" else list(_entries(block))
            )
            out += [
                f":{name}:",
                *(f"    {line}" if line else "" for line in body),
                "",
            ]
            continue
        if name:
            out += [f".. rubric:: {name}", ""]
            examples = examples or name == "Examples"
        for text, code in _runs(block):
            if code and not examples:
                out += ["", ".. rubric:: Examples", ""]
                examples = True
            out += (text if code else _text(text)).split("\n")
        out.append("")
    return out


def _sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Name and lines of every section; the first has no name. Examples end the section before them."""
    name, block, i = "", list[str](), 0
    while i < len(lines):
        if (
            i + 1 < len(lines)
            and re.fullmatch(r"-{3,}", lines[i + 1])
            and re.fullmatch(r"[A-Z][a-z]+", lines[i])
        ):
            yield name, block
            name, block, i = lines[i], [], i + 2
            continue
        after = (
            name in ENTRIES
            and block
            and not block[-1].strip()
            and lines[i].strip()
        )
        if (
            after
            and not lines[i].startswith(" ")
            and not (ITEM.fullmatch(lines[i]) and " : " in lines[i])
        ):
            yield name, block
            name, block = "", []
        block.append(lines[i])
        i += 1
    yield name, block


def _entries(block: list[str]) -> Iterator[str]:
    """A definition list: the name and, where one is stated, the type; the description below."""
    items = list[tuple[str, str, list[str]]]()
    for line in block:
        item = None if line.startswith(" ") else ITEM.fullmatch(line)
        if item:
            items.append((item["names"], item["text"] or "", []))
        elif line.strip() and items:
            items[-1][2].append(line.strip())
    for names, text, more in items:
        typed = (
            bool(more) and bool(TYPE.fullmatch(text)) and more[0][0].isupper()
        )
        yield f"``{names.replace('`', '')}``" + (
            f" : {_text(text)}" if typed else ""
        )
        for line in _text(
            "\n".join([*([text] if text and not typed else []), *more]) or "\\"
        ).split("\n"):
            yield f"    {line}"
        yield ""


def _returned(block: list[str]) -> list[str]:
    """A paragraph, and entries where several things are returned; a type above an indented description begins it."""
    first = next(
        (
            i
            for i, line in enumerate(block)
            if " : " in line and ITEM.fullmatch(line)
        ),
        len(block),
    )
    lines = [line.strip() for line in block[:first] if line.strip()]
    if (
        first > 1
        and block[1].startswith(" ")
        and not block[0].rstrip().endswith((".", ",", ";"))
    ):
        lines[0] += ":"
    return [*_text("\n".join(lines)).split("\n"), "", *_entries(block[first:])]


def _runs(block: list[str]) -> Iterator[tuple[str, bool]]:
    """Runs of lines that are code, an example with what it prints, or are not."""
    flags, code = list[bool](), False
    for line in block:
        code = line.lstrip().startswith(">>>") or (code and bool(line.strip()))
        flags.append(code)
    for flag, run in groupby(
        zip(flags, block, strict=True), key=lambda pair: pair[0]
    ):
        yield "\n".join(line for _, line in run), flag


def _text(text: str) -> str:
    """Bars and stars of formulas are no markup; `word` is a link where there is such an object, `any code` is code."""
    parts = re.split(r"(``.+?``|:\w+:`.+?`|`[^`]+`)", text, flags=re.DOTALL)
    return "".join(
        _quoted(part, after)
        for part, after in zip(parts, [*parts[1:], ""], strict=True)
    )


def _quoted(part: str, after: str) -> str:
    if part.startswith(":") and part.endswith("`"):
        return part
    if not part.startswith("`"):
        return re.sub(r"([|*])", r"\\\1", part)
    gap = "\\ " if re.match(r"[\w(\[]", after) else ""
    inside = part.strip("`")
    name = re.fullmatch(
        r"[A-Za-z_]\w*(?:\.\w+)*", inside
    ) and not part.startswith("``")
    return (f"`{inside}`" if name else f"``{inside}``") + gap


def process(
    app: object,
    what: str,
    name: str,
    documented: object,
    options: object,
    lines: list[str],
) -> None:
    """The listener of `autodoc-process-docstring`."""
    lines[:] = rst(lines)


def signature(
    app: object,
    what: str,
    name: str,
    documented: Any,
    options: object,
    given: Any,
    returned: Any,
) -> Any:
    """Of a class whose own construction hides its arguments: those of its fields."""
    if what != "class" or not str(given).startswith("(*args"):
        return None
    arguments = list(
        inspect.signature(documented.__init__).parameters.values()
    )[1:]
    plain = [
        one.replace(annotation=inspect.Parameter.empty) for one in arguments
    ]
    return str(inspect.Signature(plain)), returned


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", process)
    app.connect("autodoc-process-signature", signature)
