"""Discrete distributions of a count for beliefs: frozen scipy.stats ones directly, PreliZ ones through an adapter.

PreliZ elicits priors interactively. Its distributions name their methods after densities, and their upper tails are
inaccurate far from the bulk, hence the adapter.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, gammaln

from adversary._core import Floats, as_array, check_number, check_probability, check_whole, format_number

LAW_MASS = 1e-18
"""Mass that is cut off on either side of a distribution with infinite support; less where releases lie far out."""

_SCIPY = ("logpmf", "ppf", "support")
_PRELIZ = ("logpdf", "ppf", "cdf", "kind", "params_dict")


@dataclass(frozen=True, eq=False)
class PrelizLaw:
    """A frozen discrete PreliZ distribution with the method names of `scipy.stats`.

    Tails are bounded by geometric series in the ratio of neighbouring probabilities, which stays accurate where one
    minus a cdf does not.
    """

    distribution: Any

    def __post_init__(self) -> None:
        if self.distribution.kind != "discrete":
            raise ValueError(f"a belief about a count needs a discrete law, got {self.distribution!r}")
        if not self.distribution.is_frozen:
            raise ValueError(f"a belief needs a law with all its parameters, got {self.distribution!r}")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={float(value):g}" for name, value in self.distribution.params_dict.items())
        return f"{type(self.distribution).__name__}({shown})"

    def __reduce__(self) -> tuple[Any, ...]:
        kind, parameters = (
            type(self.distribution),
            {k: np.asarray(v).item() for k, v in self.distribution.params_dict.items()},
        )
        return _rebuilt, (kind, parameters)

    def logpmf(self, count: ArrayLike) -> Floats:
        """Log probability of each count, minus infinity off the support."""
        array = as_array(count)
        with np.errstate(all="ignore"):
            value = as_array(self.distribution.logpdf(np.atleast_1d(array))).reshape(array.shape)
        low, high = self.support()
        return np.where((array >= low) & (array <= high) & (array == np.rint(array)), value, -np.inf)

    def support(self) -> tuple[float, float]:
        """Smallest and largest possible count."""
        low, high = self.distribution.support
        return float(low), float(high)

    def ppf(self, level: float) -> float:
        """Smallest count whose cumulative probability reaches the level."""
        return float(np.asarray(self.distribution.ppf(level)))

    def logcdf(self, count: float) -> float:
        """Log of P(X <= count)."""
        with np.errstate(divide="ignore"):
            return float(np.log(np.asarray(self.distribution.cdf(count))))

    def cdf(self, count: float) -> float:
        """Upper bound on P(X <= count), relatively accurate far below the bulk."""
        return self._mass_outward(count, -1)

    def sf(self, count: float) -> float:
        """Upper bound on P(X > count), relatively accurate far above the bulk."""
        return self._mass_outward(count + 1, 1)

    def _mass_outward(self, start: float, step: int) -> float:
        """Upper bound on the mass from `start` outwards: a geometric series where the pmf falls, otherwise one."""
        here, following = self.logpmf([start, start + step])
        if np.isneginf(here):
            return 0.0 if np.isneginf(following) else 1.0
        ratio = float(np.exp(following - here))
        return float(min(1.0, np.exp(here) / (1.0 - ratio))) if ratio < 1.0 else 1.0


def _rebuilt(kind: Any, parameters: dict[str, Any]) -> PrelizLaw:
    return PrelizLaw(kind(**parameters))


def is_law(value: ArrayLike) -> bool:
    """True if a value has the methods of a frozen discrete `scipy.stats` distribution.

    Parameters
    ----------
    value : any object

    Returns
    -------
    bool

    Raises
    ------
    TypeError : a family without its parameters, such as scipy.stats.poisson

    >>> from scipy.stats import norm, poisson
    >>> is_law(poisson(2.0)), is_law(norm()), is_law([0.5, 0.5])
    (True, False, False)
    """
    # a law of listed values has no parameters, and is a distribution as it is
    if hasattr(value, "freeze") and getattr(value, "numargs", True):
        family = getattr(value, "name", value)
        raise TypeError(f"a law needs its parameters: {family} is the family, write {family}(...)")
    return all(callable(getattr(value, name, None)) for name in _SCIPY)


def has_own_tail(law: Any) -> bool:
    """True if a distribution defines its own tails; otherwise scipy sums the pmf from 0 on, to 1e-16 at best."""
    from scipy.stats import rv_discrete

    kind = type(getattr(law, "dist", law))
    return not issubclass(kind, rv_discrete) or kind._sf is not rv_discrete._sf or kind._cdf is not rv_discrete._cdf


def describe_law(law: Any) -> str:
    """A distribution of a count in words: its name and parameters, or the length and mean of a pmf."""
    if isinstance(law, np.ndarray):
        mean = float((np.arange(law.size) * law).sum())
        return f"a law of {law.size} probabilities, mean {format_number(mean)}"
    if isinstance(law, PrelizLaw):
        return repr(law)
    # a law of listed values is not frozen
    if not hasattr(law, "dist"):
        return f"{getattr(law, 'name', type(law).__name__)}, mean {format_number(float(law.mean()))}"
    given = [*map(format_number, law.args), *(f"{key} = {format_number(v)}" for key, v in law.kwds.items())]
    return f"{law.dist.name}({', '.join(given)})"


def as_law(value: ArrayLike) -> Any:
    """A PreliZ distribution in an adapter with the methods of a frozen scipy one; any other value unchanged.

    Parameters
    ----------
    value : any object

    Returns
    -------
    `PrelizLaw` for a PreliZ distribution, otherwise the value itself

    >>> as_law([0.5, 0.5])
    [0.5, 0.5]
    """
    if not is_law(value) and all(hasattr(value, name) for name in _PRELIZ):
        return PrelizLaw(value)
    return value


# Largest distance of a tail from the median: beyond it doubles do not hold every whole number.
FARTHEST = 2**53


def mass_within_reach(law: Any) -> float:
    """The mass up to a far quantile, to check that it is one; ValueError where scipy has no such quantile."""
    # scipy's search for quantiles fails further out, and at some levels, as with all mass on one count.
    for beyond in (1e-9, 1e-8, 1e-7, 5e-7):
        with suppress(RuntimeError), np.errstate(all="ignore"):
            return float(np.exp(law.logcdf(law.ppf(1.0 - beyond))))
    raise ValueError(f"scipy finds no far quantile of {describe_law(law)}: give a pmf")


def law_edges(
    median: int, ends: tuple[float, float], cdf: Callable[[int], float], sf: Callable[[int], float]
) -> tuple[int, int]:
    """Smallest and largest count with at most LAW_MASS beyond, by doubling steps outwards from the median."""
    low, high = ends
    below = _outwards(lambda step: median - step <= low or cdf(median - step - 1) <= LAW_MASS)
    above = _outwards(lambda step: median + step >= high or sf(median + step) <= LAW_MASS)
    return int(max(median - below, low)), int(min(median + above, high))


def looked_up(table: Floats, place: Floats) -> Floats:
    """Entries of a table of log probabilities at these places, minus infinity beyond its ends."""
    listed = (place >= 0) & (place < table.size)
    return np.where(listed, table[np.where(listed, place, 0).astype(np.int64)], -np.inf)


def _outwards(far_enough: Callable[[int], bool]) -> int:
    """Smallest step that is far enough, by doubling and then bisection."""
    step = 1
    while not far_enough(step):
        step *= 2
        if step > FARTHEST:
            raise ValueError(f"a belief must have all but {LAW_MASS:g} of its mass on counts below {FARTHEST:.0e}")
    low = step // 2
    while step - low > 1:
        middle = (low + step) // 2
        low, step = (low, middle) if far_enough(middle) else (middle, step)
    return step


ELICITED: dict[str, tuple[str, Callable[..., tuple[str, dict[str, float]]]]] = {
    "negative binomial": (
        "NegativeBinomial",
        lambda mu, alpha: ("nbinom", {"n": float(alpha), "p": float(alpha / (alpha + mu))}),
    ),
    "poisson": ("Poisson", lambda mu: ("poisson", {"mu": float(mu)})),
}
"""Distributions fitted to an interval: PreliZ's name, and the `scipy.stats` name and parameters."""

# The distribution fitted to intervals that are too narrow for those.
BINOMIAL = "binomial"
BETWEEN = (*ELICITED, BINOMIAL)
"""All distributions that can be fitted to an interval."""

# Tolerance on the mass of the interval, for distributions with too few parameters to match it exactly.
REACHED = 0.02


def law_between(low: int, high: int, mass: float = 0.9, law: str | None = None) -> Any:
    """The maximum-entropy distribution with a given mass between two counts: "between 3 and 20 people, 90 % sure".

    Parameters
    ----------
    low, high : the counts, both included, 0 <= low < high
    mass : probability of a count between them, in (0, 1)
    law : "negative binomial", "poisson" or "binomial". By default negative binomial; binomial if the interval is so
        narrow that no Poisson distribution, and so no mixture of them, has the mass

    Returns
    -------
    Frozen distribution of `scipy.stats`, for `Others`, `Each` or an Adversary's beliefs

    Raises
    ------
    ImportError : PreliZ, which fits the first two, is not installed; it comes with the extra `elicit`
    ValueError : an argument out of range, or no such distribution has the mass within 0.02

    >>> law_between(10, 12).kwds["n"], round(float(law_between(10, 12).kwds["p"]), 4)
    (12, 0.9043)
    """
    first, last = (int(check_whole(name, x, minimum=0)) for name, x in (("low", low), ("high", high)))
    wanted = float(check_probability("mass", mass))
    if not first < last:
        raise ValueError(f"between must be two counts, the smaller first, got {low} and {high}")
    if not 0.0 < wanted < 1.0:
        raise ValueError(f"mass must be above 0 and below 1, got {mass}")
    if law is not None and law not in BETWEEN:
        raise ValueError(f"law between two counts must be one of {', '.join(BETWEEN)}, got {law!r}")
    widest = _largest_poisson_mass(first, last)
    kind = law or (BINOMIAL if widest < wanted - REACHED else "negative binomial")
    if kind == BINOMIAL:
        if widest >= wanted:
            raise ValueError(
                f"a Poisson law can have mass {wanted:g} between {first} and {last}, and is wider than every binomial "
                f"one: use law = {' or '.join(map(repr, ELICITED))}"
            )
        return _binomial_between(first, last, wanted)
    if widest < wanted - REACHED:
        raise ValueError(
            f"no {kind} law has mass {wanted:g} between {first} and {last}: the nearest has {widest:.3g}; use law = "
            f"{BINOMIAL!r}, which is narrower"
        )
    return _by_preliz(kind, first, last, wanted)


def _by_preliz(law: str, first: int, last: int, wanted: float) -> Any:
    """PreliZ's maximum-entropy distribution; ValueError unless its mass is within REACHED of the wanted one."""
    try:
        import matplotlib

        # the import sets savefig.bbox to "tight", which cuts our titles off
        with matplotlib.rc_context():
            import preliz
    except ImportError:
        raise ImportError("a law between two counts needs PreliZ: install the extra elicit") from None
    import scipy.stats

    name, made = ELICITED[law]
    elicited = getattr(preliz, name)()
    # PreliZ warns where the mass is not reached; the check below refuses that.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        preliz.maxent(elicited, first, last, wanted, plot=False)
    kind, parameters = made(**{key: np.asarray(x).item() for key, x in elicited.params_dict.items()})
    frozen = getattr(scipy.stats, kind)(**parameters)
    reached = float(frozen.cdf(last) - frozen.cdf(first - 1))
    if not abs(reached - wanted) <= REACHED:
        others = ", ".join(repr(other) for other in ELICITED if other != law)
        raise ValueError(
            f"no {law} law has mass {wanted:g} between {first} and {last}: the nearest has {reached:.3g}; use law = "
            f"{others}, or another mass"
        )
    return frozen


def _largest_poisson_mass(first: int, last: int) -> float:
    """Largest mass of any Poisson distribution between two counts."""
    # The derivative of the mass in mu is P(first - 1) - P(last), zero at the mu below.
    from scipy.stats import poisson

    if first == 0:
        return 1.0
    mu = np.exp((gammaln(last + 1) - gammaln(first)) / (last - first + 1))
    return float(poisson.cdf(last, mu) - poisson.cdf(first - 1, mu))


def _binomial_between(first: int, last: int, wanted: float) -> Any:
    """The binomial distribution of greatest entropy with exactly this mass.

    All numbers of trials are tried until none has the mass: with more trials it approaches a Poisson distribution.
    """
    from scipy.optimize import brentq
    from scipy.stats import binom

    def surplus(p: float, n: int) -> float:
        return float(binom.cdf(last, n, p) - binom.cdf(first - 1, n, p)) - wanted

    laws: list[Any] = []
    n = last
    while True:
        # The p with the largest mass, from the zero of the derivative in p.
        peak = 1.0
        if n > last:
            odds = (gammaln(last + 1) + gammaln(n - last) - gammaln(first) - gammaln(n - first + 1)) / (
                last - first + 1
            )
            peak = float(expit(odds))
        if surplus(peak, n) < 0.0:
            return max(laws, key=lambda one: float(one.entropy()))
        ends = [(0.0, peak), (peak, 1.0)] if n > last else [(0.0, 1.0)]
        laws += [binom(n=n, p=brentq(surplus, *pair, args=(n,), xtol=1e-15)) for pair in ends]
        n += 1


def law_of_counts(counts: ArrayLike) -> Floats:
    """Empirical pmf of observed counts, such as those of the last census, as a belief about another count.

    Parameters
    ----------
    counts : whole numbers >= 0, (n,)

    Returns
    -------
    Probabilities of 0, 1, ..., the largest, for `Others`, `Each` or an Adversary's beliefs

    Raises
    ------
    ValueError : no counts, or one that is negative or not whole

    >>> law_of_counts([0, 2, 2, 3]).tolist()
    [0.25, 0.0, 0.5, 0.25]
    """
    seen = np.ravel(check_whole("counts", counts, minimum=0))
    if not seen.size:
        raise ValueError("counts must hold at least one count")
    return np.bincount(seen) / seen.size


def law_of_sample(sampled: int, population: float) -> Any:
    """Distribution of a cell's count in the population, from sdcMicro's sample and population frequencies fk and Fk.

    Franconi and Polettini (2004), as in sdcMicro's individual risk: given fk, the number of people outside the sample
    is negative binomial with fk successes of probability fk / Fk, so the count's mean is Fk.

    Parameters
    ----------
    sampled : fk, people of the cell in the sample, at least 1; without the target, if the target was sampled and the
        belief is about others
    population : Fk, at least fk: the estimated number in the population, the sum of their sampling weights

    Returns
    -------
    Frozen distribution of `scipy.stats`, for `Others` or an Adversary's beliefs

    Raises
    ------
    ValueError : a count that is not whole or below 1, or an Fk below fk

    >>> law = law_of_sample(3, 60.0)
    >>> round(float(law.mean()), 9), float(law.pmf(2))
    (60.0, 0.0)
    """
    import scipy.stats

    f = int(check_whole("sampled", sampled, minimum=1))
    total = float(check_number("population", population))
    if not f <= total < np.inf:
        raise ValueError(f"population must be finite and at least sampled = {f}, got {population}")
    return scipy.stats.nbinom(f, f / total, loc=f)
