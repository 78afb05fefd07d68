"""Statistics that are published in place of noisy counts: ratios, and synthetic records.

Any function of noisy counts alone, random or not, is post-processing: an audit of the noisy counts covers it. Let X be
the noisy counts, S the statistic, and p the prior. Under the adversary's distribution of X,

    P(in | S = s) = E[P(in | X) | S = s],

the mean of the posteriors over all counts that give s. Their averages follow by Jensen's inequality, since

    E[P(in | X) | in] = E[P(in | X)^2] / p,        E[P(in | X) | out] = E[P(in | X) (1 - P(in | X))] / (1 - p).

Under either truth, the expected posterior given S is no further from the prior than given X. This requires that X has
the adversary's distribution: that the beliefs about everybody else are right. A test on S is also a test on X, so S has
no more power. A ratio to a number that everybody knows is the count itself in other units: then both are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

COUNTS, RATIOS = "counts", "ratios"
KNOWN_RATIOS, SYNTHETIC = "ratios to known numbers", "synthetic records"
PUBLISHED = (COUNTS, RATIOS, KNOWN_RATIOS, SYNTHETIC)
"""Statistics that may be published: the noisy counts of a plan, or functions of them."""


class Statistic(NamedTuple):
    """Sentences about a statistic that is published in place of counts.

    Parameters
    ----------
    description : of the statistic, a sentence that follows one about the counts
    caution : meaning of an audit of the counts for this statistic; "" if the counts follow from the statistic
    """

    description: str
    caution: str = ""


def _underneath(name: str, made: str) -> str:
    """The caution for statistics that do not determine the counts."""
    return (
        f"Audited are the noisy counts under the {name}, not the {name}, which reveal no more. For an adversary who "
        f"sees the {name} alone, and whose beliefs about everybody else are right, the expected posterior is no "
        "further from the prior than here, and there are no more detections. This requires every noisy count of the "
        f"target that the {name} are {made} to be a level or query of the plan."
    )


STATISTICS = {
    COUNTS: Statistic(""),
    RATIOS: Statistic(
        "Published are only ratios of these counts to one another or to other noisy numbers.",
        _underneath("ratios", "computed from"),
    ),
    KNOWN_RATIOS: Statistic(
        "Published are their ratios to numbers that everybody knows, from which the counts follow; a ratio that is "
        "rounded reveals less."
    ),
    SYNTHETIC: Statistic(
        "Published are only synthetic records, drawn from a model that is fitted to these counts.",
        _underneath("synthetic records", "fitted to"),
    ),
}
"""Description and caution of each statistic, by name."""


def check_published(published: str, exact: Iterable[str]) -> str:
    """Check the name of the published statistic.

    Parameters
    ----------
    published : one of `PUBLISHED`
    exact : names of the levels without noise

    Returns
    -------
    The name

    Raises
    ------
    ValueError : another name, or "ratios" together with levels that are published exactly

    >>> check_published("synthetic records", ["state"])
    'synthetic records'
    """
    if published not in PUBLISHED:
        raise ValueError(f"published must be one of {', '.join(map(repr, PUBLISHED))}, got {published!r}")
    exact = list(exact)
    # The audit takes an exact level as known beforehand. If only ratios are published it is not known, and what they
    # reveal of it would be missing from the risk.
    if published == RATIOS and exact:
        raise ValueError(
            f"published must be {KNOWN_RATIOS!r} where a count is published exactly, or the count be noisy, got "
            f"{published!r} and an exact level {exact[0]!r}"
        )
    return published
