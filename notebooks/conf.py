"""The site, from the notebooks, the how-to pages and the docstrings: `sphinx-build notebooks build/site`."""

import re
from importlib.metadata import version as version_of
from typing import Any

project = "adversary"
author = "The maintainers of dp-adversary"
release = version = version_of("dp-adversary")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
exclude_patterns = ["*.py"]
source_suffix = {".ipynb": "myst-nb", ".md": "myst-nb"}
nb_execution_mode = "off"  # the notebooks hold their outputs
nb_remove_code_source = False
myst_heading_anchors = 3
suppress_warnings = [
    "myst.xref_missing",  # links to files of the repository
    "misc.highlighting_failure",  # graphs are drawn where Mermaid is known, and text elsewhere
    "ref.python",  # a word such as `noise` is an attribute of several classes
]
autodoc_typehints = "none"
autosummary_generate = True
autosummary_imported_members = True
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
html_theme = "pydata_sphinx_theme"
html_title = "adversary"
html_theme_options = {"show_prev_next": False}
html_show_sourcelink = False

SEEN: set[str] = set()


def first_time(app: object, what: str, name: str, found: object, skip: bool, options: object) -> bool | None:
    """A class or function that several doors hand out is described once, where it comes first."""
    own = f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', '')}"
    if what == "module" and own in SEEN:
        return True
    SEEN.update({own} if what == "module" else ())
    return None


def plain(app: object, what: str, name: str, found: object, options: object, lines: list[str]) -> None:
    """Bars and stars of formulas are no markup; examples have their heading."""
    example, headed, out = False, False, list[str]()
    for line in lines:
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if example and not headed:
            out += ["Examples", "--------", ""]
        headed = headed or example
        out.append(line if example else re.sub(r"([|*])", r"\\\1", line))
    lines[:] = out


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", first_time)
    app.connect("autodoc-process-docstring", plain, priority=1)
