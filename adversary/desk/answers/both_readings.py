"""The two readings of a release, with the bounds of the data used and with them ignored, worked out side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.text import Text

from adversary.desk.kit import IGNORING, USING

READINGS = {"constrained": USING, "unconstrained": IGNORING}
"""The two readings of a release, and their names."""


class File(Protocol):
    """What a file says of any release."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def constrained(self) -> bool:
        """Which reading is asked for."""

    @property
    def prob(self) -> float:
        """Probability of an interval."""

    @property
    def title(self) -> str:
        """Words, which may be empty; so are the next two."""

    @property
    def description(self) -> str:
        """What it is about."""

    @property
    def source(self) -> str:
        """Where its numbers are from."""


@dataclass(frozen=True)
class Answer[F: File, P]:
    """A release file worked out.

    `posteriors` are by the names of `READINGS`, the one that was asked for first; one that does not exist, because it
    is improper, is not there, and `refused` says why. `notes` are warnings about the numbers of the file.
    """

    file: F
    posteriors: dict[str, P]
    refused: dict[str, str]
    notes: tuple[str, ...] = ()

    @property
    def main(self) -> str:
        """The reading that was asked for."""
        return next(iter(self.posteriors))


def both[F: File, P](file: F, read: Callable[[F, str], P]) -> Answer[F, P]:
    """Both readings of a release file, each by its name.

    Raises
    ------
    ValueError : the reading that was asked for does not exist; the message names the file and says why
    """
    names = list(READINGS) if file.constrained else list(READINGS)[::-1]
    found: dict[str, P] = {}
    refused: dict[str, str] = {}
    for name in names:
        try:
            found[name] = read(file, name)
        except (ValueError, RuntimeError) as error:
            if name == names[0]:
                raise ValueError(f"{file.path}: {error}") from None
            refused[name] = str(error)
    return Answer(file, found, refused)


def summed_up[F: File, P](
    answer: Answer[F, P],
    about: Mapping[str, Any],
    read: Callable[[F, P], Mapping[str, Any]],
    conclude: Callable[[Mapping[str, Any]], str],
) -> dict[str, Any]:
    """The answer as one JSON object: what it is about, each reading under its name, and "main", the one asked for.

    A reading that does not exist has only `refused`, which says why.
    """
    file = answer.file
    found: dict[str, Any] = {
        "title": file.title or file.path.name, "description": file.description, "source": file.source,
        **about, "prob": file.prob, "main": answer.main,
    }  # fmt: skip
    for name in READINGS:
        one = answer.posteriors.get(name)
        found[name] = {"refused": answer.refused[name]} if one is None else {"refused": None, **read(file, one)}
    return found | {"conclusion": conclude(found), "notes": list(answer.notes)}


def show_first(found: Mapping[str, Any], published: str, console: Console) -> dict[str, Any]:
    """Of a summary: title, what was published and the conclusion. The readings by what they are called, main first."""
    console.print(Text(found["title"], style="bold"))
    console.print(Text(published))
    console.print(Text(f"\n{found['conclusion']}"))
    names = sorted(READINGS, key=lambda name: name != found["main"])
    return {READINGS[name]: found[name] for name in names if not found[name]["refused"]}


def show_rest(found: Mapping[str, Any], console: Console) -> None:
    """Of a summary: the readings that do not exist, the one that was asked for first, and the notes."""
    for name in sorted(READINGS, key=lambda name: name != found["main"]):
        if found[name]["refused"]:
            console.print(Text(f"\nThere is no answer {READINGS[name]}: {found[name]['refused']}."))
    for note in found["notes"]:
        console.print(Text(f"\nNote: {note}{'' if note.endswith('?') else '.'}"))
