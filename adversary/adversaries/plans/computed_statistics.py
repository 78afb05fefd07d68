"""Statistics that are published in the place of noisy counts: ratios, and synthetic records.

Whatever is computed from noisy counts alone, at random or not, is post-processing: an audit of the counts underneath
covers it. With X the counts, S the statistic, and an adversary's own law of X under prior p,

    P(in | S = s) = E[P(in | X) | S = s],

the mean of the posteriors of all counts that give s. Their averages follow by Jensen's inequality, since

    E[P(in | X) | in] = E[P(in | X)^2] / p,        E[P(in | X) | out] = E[P(in | X) (1 - P(in | X))] / (1 - p):

from S the expected posterior is no further from the prior than from X, under either truth, if the law is the one that
releases come from: if what the adversary believes of everybody else is right. A test on S is a test on X, so that it
detects no more. A ratio to a number that everybody knows is the count itself in other units: then both are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

COUNTS, RATIOS = "counts", "ratios"
KNOWN_RATIOS, SYNTHETIC = "ratios to known numbers", "synthetic records"
PUBLISHED = (COUNTS, RATIOS, KNOWN_RATIOS, SYNTHETIC)
"""Statistics that may be published: the noisy counts of a plan, or functions of them."""


class Statistic(NamedTuple):
    """Words about a statistic that is published in the place of counts.

    Parameters
    ----------
    description : of what is published, a sentence after one about the counts
    caution : what the numbers of an audit of the counts mean then; "" where the counts follow from the statistic
    """

    description: str
    caution: str = ""


def _underneath(name: str, made: str) -> str:
    """The caution about statistics from which the counts do not follow."""
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
"""Words about what is published, by its name."""


def check_published(published: str, exact: Iterable[str]) -> str:
    """Name of what is published, checked.

    Parameters
    ----------
    published : one of `PUBLISHED`
    exact : names of the levels without noise

    Raises
    ------
    ValueError : another name, or ratios that hide the counts beside levels which are published exactly

    >>> check_published("synthetic records", ["state"])
    'synthetic records'
    """
    if published not in PUBLISHED:
        raise ValueError(f"published must be one of {', '.join(map(repr, PUBLISHED))}, got {published!r}")
    exact = list(exact)
    # an exact level is taken as known: were it not, what the ratios reveal would count as known beforehand
    if published == RATIOS and exact:
        raise ValueError(
            f"published must be {KNOWN_RATIOS!r} where a count is published exactly, or the count be noisy, got "
            f"{published!r} and an exact level {exact[0]!r}"
        )
    return published
