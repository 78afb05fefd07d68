"""The largest epsilon that satisfies a risk profile: the inverse of a risk bound.

epsilon* is the infimum over adversaries (p, q) of the largest epsilon at which no release moves that adversary beyond
r*(p, q) (Kazan's thesis, Equation 3.15). It may be a limit, as a prior tends to 0. Solutions are closed-form where
available, otherwise the lower end of the bracket of a search; rounding never goes towards more risk.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, Decimal

import numpy as np

from adversary._core import DIGITS, MOST_DIGITS, check_whole, format_bound, percentage, shown_epsilon
from adversary.budget.risk_bounds import check_statistic, check_word
from adversary.budget.risk_profile import RiskProfile
from adversary.budget.search import first_priors, least_epsilon
from adversary.budget.tolerances import Tolerance

METHODS = ("auto", "closed", "numeric")
BOUNDED, UNATTAINABLE, UNCONSTRAINED = "bounded", "unattainable", "unconstrained"
SEARCH = "search"
EMPTY = "this profile tolerates every ratio for every adversary given: it limits nothing"
SEARCHED = "This was found by a search, which proves nothing of adversaries it did not meet."


@dataclass(frozen=True)
class Recommendation:
    """The largest epsilon that satisfies a risk profile, and the binding adversary.

    Parameters
    ----------
    loss : the infimum, nats, unrounded; exceeds the true one at most by rounding, except for the method "search", which
        may miss adversaries
    inclusion, value : priors of the binding adversary or, if not `attained`, their limit; NaN without one
    attained : whether the binding adversary exists, rather than being a limit
    method : "closed", "certified search" or "search" (of a user's function: not certified)
    bracket : (lower, upper) around the infimum; the lower end is 0 if not certified
    status : "bounded"; "unattainable", no epsilon above 0 satisfies the profile (`loss` is 0: only no release does);
        "unconstrained", every epsilon satisfies it (`loss` is infinite)
    profile : the risk profile
    statistic : "any" or "count", see `recommend_epsilon`
    round_down : decimals of `epsilon`; None for no rounding
    """

    loss: float
    inclusion: float
    value: float
    attained: bool
    method: str
    bracket: tuple[float, float]
    status: str
    profile: RiskProfile = field(repr=False)
    statistic: str = "any"
    round_down: int | None = None

    @property
    def epsilon(self) -> float:
        """The recommendation, in nats: `loss`, rounded down if requested."""
        if self.round_down is None or not np.isfinite(self.loss):
            return self.loss
        return rounded_down(self.loss, self.round_down)

    @property
    def words(self) -> str:
        """The recommendation in a sentence or two."""
        profile = self.profile.words
        caveat = f" {SEARCHED}" if self.method == SEARCH else ""
        if self.status == UNCONSTRAINED:
            return f"Every epsilon keeps this profile ({profile}): no release moves its adversaries beyond it.{caveat}"
        if self.status == UNATTAINABLE:
            who = self._who(" (", ")")
            return f"No epsilon above 0 keeps this profile ({profile}): some adversaries may learn nothing at all{who}."
        shown = shown_epsilon(self.epsilon, self.loss, self.round_down)
        if self.epsilon < self.loss:
            exact = (format_bound(self.loss, False, digits) for digits in range(DIGITS, 2 * MOST_DIGITS))
            shown += f", rounded down from {next((text for text in exact if text != shown), shown)},"
        return f"epsilon = {shown} is the largest that allows {profile}. {self._binding()}{caveat}"

    def _binding(self) -> str:
        if not self.attained:
            return f"It is approached by adversaries as their priors tend to{self._who(' ', '')}; none needs less."
        reached = min(1.0, self.inclusion * self.value * self.profile(self.inclusion, self.value))
        return (
            f"The adversary with{self._who(' ', '')} binds, and none needs less: their posterior may reach "
            f"{percentage(reached, True)}."
        )

    def _who(self, before: str, after: str) -> str:
        if np.isnan(self.inclusion):
            return ""
        return f"{before}inclusion prior {self.inclusion:.4g} and value prior {self.value:.4g}{after}"


def recommend_epsilon(
    profile: RiskProfile, *, statistic: str = "any", round_down: int | None = None, method: str = "auto"
) -> Recommendation:
    """Largest epsilon such that no release moves any adversary beyond a risk profile.

    Adversaries are assumed to know the mechanism, and their belief about everybody else's records does not depend on
    the target (see `relative_risk_bound`).

    Parameters
    ----------
    profile : the tolerated risk
    statistic : "any" published statistic, or one "count" of the people in S
    round_down : decimals of `.epsilon`, e.g. 2; None for no rounding
    method : "auto"; "closed" for a formula (or an error); "numeric" for the search, even if there is a formula

    Returns
    -------
    Recommendation

    Raises
    ------
    ValueError : the profile is below 1, or NaN, for some adversary

    Warns
    -----
    RuntimeWarning : a function given as a profile is infinite for every evaluated adversary

    >>> best = recommend_epsilon(RiskProfile.difference(0.2), round_down=2)
    >>> best.epsilon, best.inclusion, best.value, best.method
    (0.4, 1.0, 0.4, 'closed')
    """
    if not isinstance(profile, RiskProfile):
        raise TypeError(f"profile must be a RiskProfile, got {profile!r}")
    check_statistic(statistic)
    check_word("method", method, METHODS)
    decimals = None if round_down is None else int(check_whole("round_down", round_down, minimum=0))
    every = [_of_part(part, profile, statistic, decimals, method) for part in profile.tolerance.parts]
    least = min(every, key=lambda one: one.loss)
    if len(every) == 1:
        return least
    searched = [one.method for one in every if one.method != "closed"]
    ends = np.min([one.bracket for one in every], axis=0)
    return Recommendation(
        least.loss, least.inclusion, least.value, least.attained, min(searched, key=len, default="closed"),
        (float(ends[0]), float(ends[1])), least.status, profile, statistic, decimals,
    )  # fmt: skip


def _of_part(
    part: Tolerance, profile: RiskProfile, statistic: str, decimals: int | None, method: str
) -> Recommendation:
    """The recommendation of one part of a profile."""
    closed_form = None if method == "numeric" else part.closed(part.domain, statistic)
    if closed_form is None and method == "closed":
        raise ValueError(f"there is no closed form for this profile ({part.words}): use method='auto'")
    if closed_form is not None:
        best, loss, bracket, how = closed_form, closed_form.epsilon, (closed_form.epsilon,) * 2, "closed"
    else:
        lower, best, certified = least_epsilon(part, statistic)
        unlimited = part.is_function and best.epsilon == np.inf
        if unlimited and np.isinf(part.ratios(*np.meshgrid(*first_priors(part)))).all():
            warnings.warn(f"{EMPTY} ({part.words})", RuntimeWarning, stacklevel=3)
        loss, bracket = lower, (lower if certified else 0.0, best.epsilon)
        how = "certified search" if certified else SEARCH
    status = UNCONSTRAINED if loss == np.inf else BOUNDED if best.epsilon > 0.0 else UNATTAINABLE
    return Recommendation(
        loss, best.inclusion, best.value, best.attained, how, bracket, status, profile, statistic, decimals
    )


def rounded_down(x: float, decimals: int) -> float:
    """A number rounded down to some decimals, of its shortest decimal form: 0.57 stays 0.57, and 0.5699 is 0.56."""
    exact = Decimal(repr(float(x)))
    if exact.as_tuple().exponent >= -decimals:  # type: ignore[operator]
        return float(x)
    return float(exact.quantize(Decimal(1).scaleb(-decimals), ROUND_FLOOR))
