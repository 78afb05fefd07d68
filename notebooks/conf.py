"""The site, from the notebooks, the pages beside them and the docstrings: `sphinx-build notebooks build/site`."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

# Where the repository and this site are published, "https://..."; while they are empty, no page links to them.
repository = ""
html_baseurl = ""
project = "adversary"
author = "The maintainers of dp-adversary"
release = version = version_of("dp-adversary")
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "api_pages",
    "command_pages",
    "docstrings",
    "gallery_cards",
    "graphs",
    "page_heads",
]
exclude_patterns = ["*.py", "_ext", "_static", "_templates"]
templates_path = ["_templates"]
source_suffix = {
    ".ipynb": "myst-nb",
    ".md": "myst-nb",
    ".rst": "restructuredtext",
}
nb_execution_mode = "off"  # the notebooks hold their outputs
nb_remove_code_source = False
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]
suppress_warnings = [
    "myst.xref_missing",  # links to files of the repository
    "misc.highlighting_failure",  # graphs in notebooks
    "ref.python",  # a word such as `noise` is an attribute of several classes
]
autodoc_typehints = "none"
autosummary_generate = (
    False  # pages of the reference are written by _ext/api_pages.py
)
add_module_names = False
default_role = "py:obj"
copybutton_exclude = ".linenos, .gp, .go"
html_theme = "pydata_sphinx_theme"
html_title = "adversary"
html_static_path = ["_static"]
html_extra_path = sorted(one.name for one in HERE.glob("hundred_censuses_*"))
html_css_files = ["site.css"]
html_favicon = "_static/mark.svg"
html_show_sourcelink = False
html_sidebars = {
    page: []
    for page in [
        "index",
        "start",
        "gallery",
        "reference/api/*",
        *(one.stem for one in HERE.glob("*.ipynb")),
    ]
}
html_theme_options = {
    "logo": {
        "text": "adversary",
        "image_light": "_static/mark.svg",
        "image_dark": "_static/mark.svg",
    },
    "icon_links": [
        {"name": "Repository", "url": repository, "icon": "fa-brands fa-github"}
    ]
    * bool(repository),
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["version"],
    "footer_end": [],
    "show_prev_next": True,
}
