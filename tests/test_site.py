"""The site: built from the notebooks, the pages beside them and the docstrings without a warning, nothing executed."""

import importlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

import adversary as adv

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Modules of the site's own extensions, by name."""
    monkeypatch.syspath_prepend(str(NOTEBOOKS / "_ext"))
    return importlib.import_module


class Page(HTMLParser):
    """Addresses, anchors and pictures of a built page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.anchors, self.silent = list[str](), set[str](), list[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := given.get(key))}
        self.links += [value for key in ("href", "src", "srcset") if (value := given.get(key))]
        if tag == "img" and not given.get("alt") and "logo" not in str(given.get("class")):
            self.silent.append(str(given.get("src")))


@pytest.mark.slow
def test_it_is_built_without_a_warning_and_every_link_and_picture_is_there(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E", "-d", str(tmp_path / "trees")]
    built = subprocess.run([*command, str(NOTEBOOKS), str(site)], capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    dead, silent = set[str](), set[str]()
    for path, page in pages.items():
        place = path.relative_to(site).as_posix()
        silent |= {f"{place}: {picture}" for picture in page.silent}
        for link in page.links:
            address, anchor = urldefrag(link)
            if urlsplit(address).scheme or address.startswith("//"):
                continue
            target = (path.parent / unquote(urlsplit(address).path)).resolve() if address else path
            if not target.exists() or (anchor and target in pages and unquote(anchor) not in pages[target].anchors):
                dead.add(f"{place}: {link}")
    assert sorted(dead) == []
    assert sorted(silent) == []
    assert {path.name: size for path in pages if (size := path.stat().st_size) > 300_000} == {}


def test_every_export_is_in_the_reference() -> None:
    index = (NOTEBOOKS / "reference/api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"~adversary\.(\w+)$|\(api/adversary\.(\w+)\)", index, flags=re.MULTILINE))
    assert {"".join(pair) for pair in listed} == set(adv.__all__) - {"__version__"}


@pytest.mark.slow
def test_every_export_has_a_page_under_its_public_path(own: Any) -> None:
    pages = own("api_pages")
    index = (NOTEBOOKS / "reference/api.md").read_text(encoding="utf-8")
    written = dict(pages.pages())
    for place, entries in pages.rooms().items():
        assert place == "adversary" or f"(api/{place})" in index
        for one in entries:
            assert one.path in written or re.search(rf"py:data:: {one.path.rpartition('.')[2]}\n", written[place])
    assert not [path for path in written if "._" in path]


def test_sections_of_a_docstring_become_definition_lists(own: Any) -> None:
    """Descriptions are no types, plurals break no markup, and bars and stars stay."""
    text = """A pair of `Level`s: |x| <= 2 * `sigma[0]`.

Parameters
----------
rate : probability that a person is
    drawn. Everybody is
support : mapping, optional
    Values of latents.

Raises
------
ValueError : a rate beyond 1

>>> 1 * 2
2"""
    lines = own("docstrings").rst(text.splitlines())
    assert lines[0] == r"A pair of `Level`\ s: \|x\| <= 2 \* ``sigma[0]``."
    body = "\n".join(lines)
    assert "    ``rate``\n        probability that a person is\n        drawn. Everybody is\n" in body
    assert "    ``support`` : mapping, optional\n        Values of latents.\n" in body
    assert ":Raises:\n    ``ValueError``\n        a rate beyond 1\n" in body
    assert body.endswith(".. rubric:: Examples\n\n>>> 1 * 2\n2\n")


def test_every_notebook_has_a_card_with_its_finding() -> None:
    gallery = (NOTEBOOKS / "gallery.md").read_text(encoding="utf-8")
    cards = dict(re.findall(r"^(\w+): (.+)$", gallery, flags=re.MULTILINE))
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(cards) - {"html_theme"}
    assert {name: finding for name, finding in cards.items() if len(finding.split()) > 12} == {}


@pytest.mark.slow
def test_pages_of_commands_and_files_have_every_option_and_key(own: Any) -> None:
    pages = own("command_pages")
    line, files = pages.command_line(), pages.files()
    assert {"--out", "--profile", "--workers", "--resume", "--audience"} <= set(re.findall(r"--\w+", line))
    for key in ("plan.level[].noise", "adversary.known", "privacy_unit.periods", "regression.x_bounds"):
        assert f"`{key}`\n: " in files, key
