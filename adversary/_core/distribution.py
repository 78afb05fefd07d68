"""Name and version of the Python distribution, `dp-adversary`, that provides `import adversary`."""

from __future__ import annotations

NAME = "dp-adversary"
"""Name on package indexes, where `adversary` is another project."""


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # late: it imports the parser of e-mails
    from importlib.metadata import version

    return version(NAME)


def missing_extra(need: str, extra: str) -> ImportError:
    """ImportError for an optional package that is not installed, with the commands that install it.

    Parameters
    ----------
    need : start of the message, for example "several workers need Dask"
    extra : of this distribution that includes the package

    >>> raise missing_extra("several workers need Dask", "scale")
    Traceback (most recent call last):
    ImportError: several workers need Dask, which comes with the extra `scale`: pip install 'dp-adversary[scale]', ...
    """
    return ImportError(
        f"{need}, which comes with the extra `{extra}`: pip install '{NAME}[{extra}]', or uv sync --extra {extra}"
    )
