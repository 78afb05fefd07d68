"""The preview of a link to a page: title and first sentence, and a figure where the site has an address."""

from html import escape
from typing import Any

from docutils import nodes

PREVIEW = "hundred_censuses_preview.png"


def preview(
    app: Any, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Add the tags that programs read that show a preview of a link."""
    if doctree is None:
        return
    paragraph = next(iter(doctree.findall(nodes.paragraph)), None)
    words = " ".join(paragraph.astext().split()) if paragraph else ""
    text = (
        words if len(words) <= 200 else f"{words[:200].rsplit(' ', 1)[0]} ..."
    )
    tags = {
        "og:type": "website",
        "og:site_name": "adversary",
        "og:title": context["title"].partition("<")[0] or "adversary",
        "og:description": text,
    }
    if base := app.config.html_baseurl.rstrip("/"):
        tags |= {
            "og:url": f"{base}/{page}.html",
            "og:image": f"{base}/{PREVIEW}",
            "twitter:card": "summary_large_image",
        }
    named = [
        f'<meta property="{name}" content="{escape(value)}">'
        for name, value in tags.items()
        if value
    ]
    context["metatags"] += "\n".join(
        [f'<meta name="description" content="{escape(text)}">', *named]
    )


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("html-page-context", preview)
