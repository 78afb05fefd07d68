"""Why an epsilon was chosen, in sentences: what is tolerated, and what releases that keep it would do.

A recommendation is told by readers: where each starts, how far the bound of Theorem 4 at that epsilon would let them
rise, and what the profile tolerates of them. What is told of a release that keeps it is no statement about any that is
planned: that is a verdict's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adversary._core import AT_A_TIME, PERCENT, exactly, holding, in_100, outward, percentage, points, sentence
from adversary.policy.budget import BOUNDED, SEARCH, UNCONSTRAINED, Recommendation, ReleaseBudget, limits_of
from adversary.policy.explain.outcomes import Rise, kept_by, rises, unrounded, worth
from adversary.policy.explain.regulator_text import APART as COVERED
from adversary.policy.explain.regulator_text import GROUPS, belief
from adversary.policy.explain.respondent_text import APART
from adversary.privacy.losses import PrivacyLoss

METHODS = {"closed": "a closed form", "certified search": "a certified search", SEARCH: "a search without certificate"}

FORMULAS = {
    "any": "R = 1 / (p q + exp(-2 epsilon) p (1 - q) + exp(-epsilon) (1 - p))",
    "count": "R = 1 / (p q + exp(-epsilon) (1 - p q)), of one published count",
}

BEING_IN = "your data are used"


# The person in the data


def decided_respondent(found: Recommendation, priors: Sequence[float] | None) -> Iterator[str]:
    """What was decided, and nothing of any release; no symbols, no formulas."""
    yield _decided(found)
    if unkept := _no_budget(found):
        yield unkept
        return
    told = [_tolerated_respondent(rise) for rise in rises(unrounded(found), priors)]
    yield " ".join([*told, "This is what was decided. Whether the results keep to it is another question."])


def _decided(found: Recommendation) -> str:
    values = found.profile.about_values
    what = "your data are used and that your answer is one of those that could harm you" if values else BEING_IN
    return (
        "Before anything is published it was decided how far the results may raise anyone's belief about you: the "
        f"belief that {what}."
    )


def _no_budget(found: Recommendation) -> str:
    """What to say where every release keeps the profile, or none; nothing otherwise."""
    known = ", as far as a search has found" if found.method == SEARCH else ""
    if found.status == UNCONSTRAINED:
        return f"No results could bring anyone beyond what was decided{known}, so it asks for no protection."
    return "" if found.status == BOUNDED else "What was decided cannot be kept by any results that depend on the data."


def _tolerated_respondent(rise: Rise) -> str:
    start = f"Someone who starts at {in_100(rise.start)} in 100"
    return f"{start} may come to {rise.up_to(2)} in 100." if rise.limited else f"{start} may come to any belief."


def budget_respondent(found: Recommendation, priors: Sequence[float] | None) -> Iterator[str]:
    """What was decided, how far results that keep it would let readers rise, and what is not counted; no symbols."""
    yield _decided(found)
    if unkept := _no_budget(found):
        yield unkept
        return
    known = ", as far as a search has found," if found.method == SEARCH else ""
    told = [_rise_respondent(rise) for rise in rises(unrounded(found), priors)]
    yield " ".join(
        [f"With as much chance in the results as that asks for, nobody{known} would be brought beyond it.", *told]
    )
    yield _bounds_respondent()
    yield PEOPLE_IN_GENERAL


PEOPLE_IN_GENERAL = (
    "They do not count what the results say of people in general: if they show what is common in a group you belong "
    "to, readers can apply that to you, and could do so if your data had not been used."
)


def _bounds_respondent() -> str:
    return (
        f"These numbers are upper bounds. They cover every reader about whom it was decided and {APART}, even one who "
        "holds the complete data of everybody else, whatever is worked out from the results."
    )


def _rise_respondent(rise: Rise) -> str:
    most = rise.ends(2, " in 100", "was decided")
    free = ""
    if not rise.limited:
        free = (
            ", and for that start what was decided allows any belief"
            if rise.asked
            else ", about which nothing was decided"
        )
    return f"Someone who starts at {in_100(rise.start)} in 100 would end no higher than {most}{free}."


def promise_respondent(made: ReleaseBudget, priors: Sequence[float] | None) -> Iterator[str]:
    """What was decided of several publications together, what each may tell, and all of them; no symbols."""
    made, found = kept_by(made), made.recommended
    many = f" It is about {made.releases:,} publications together." if made.releases > 1 else ""
    yield _decided(found) + many
    if made.total is None or made.guarantee is None:
        yield _no_budget(found) or "What was decided cannot be kept by a protection of this kind."
        return
    each = f"each of {made.releases:,} publications" if made.releases > 1 else "the results"
    together = " by all of them together" if made.releases > 1 else ""
    known = ", as far as a search has found," if found.method == SEARCH else ""
    first = f"With as much chance in {each} as that asks for, nobody{known} would be brought beyond it{together}"
    surely = f", {holding(made.failure)}, {AT_A_TIME}. The following holds as often" if made.failure else ""
    yield " ".join([f"{first}{surely}.", *map(_rise_respondent, rises(found, priors, worth(made)))])
    one, every = (limits_of(g, made.failure)[-1] for g in (made.guarantee, made.total))
    if made.releases > 1 and one.exists and every.exists:
        often = f", {holding(made.failure)}" if made.failure else ""
        yield (
            "One publication alone would move what a reader believes about whether your data were used by at most "
            f"{points(one.difference, 2)} percentage points, all of them together by at most "
            f"{points(every.difference, 2)}{often}."
        )
    yield _bounds_respondent()
    yield PEOPLE_IN_GENERAL


# The regulator


def decided_regulator(found: Recommendation, priors: Sequence[float] | None) -> Iterator[str]:
    """The tolerance and what it allows a few readers, in percent, and nothing of any release."""
    yield f"The tolerance: {found.profile.words}."
    if unkept := _no_release(found):
        yield unkept
        return
    if told := [_tolerated(rise) for rise in rises(unrounded(found), priors)]:
        yield f"{sentence('; '.join(told))}."
    yield "This is what is tolerated. Whether a release keeps to it is said where that release is judged."


def _tolerated(rise: Rise) -> str:
    may = f"may come to {rise.up_to(3)}{PERCENT}" if rise.limited else "may come to any belief"
    return f"a reader who gives {_starts(rise.inclusion, rise.value)} {may}"


def _no_release(found: Recommendation) -> str:
    known = ", as far as a search without certificate has found" if found.method == SEARCH else ""
    if found.status == UNCONSTRAINED:
        return f"It asks for nothing: no release, however exact, brings a reader it is about beyond it{known}."
    return "" if found.status == BOUNDED else "No release that depends on the data keeps it."


def budget_regulator(found: Recommendation, priors: Sequence[float] | None) -> Iterator[str]:
    """The tolerance, the epsilon and what it would do to a few readers, in percent."""
    yield f"The tolerance: {found.profile.words}."
    if unkept := _no_release(found):
        yield unkept
        return
    used = unrounded(found)
    known = ", as far as a search without certificate has found" if found.method == SEARCH else ""
    yield f"The largest epsilon of pure differential privacy that keeps it is {_epsilon(found)}{known}. {RECORDS}"
    if told := [_rise(rise) for rise in rises(used, priors)]:
        yield f"At that epsilon these would be upper bounds, for every release: {'; '.join(told)}."
    yield f"{_binding(found)} Covered is every reader {COVERED}."
    yield GROUPS


RECORDS = "It is meant for data to which one person's record is added, or from which it is removed."


def _epsilon(found: Recommendation) -> str:
    if found.round_down is None:
        return outward(found.loss, False)
    if found.epsilon == 0.0:
        return f"{outward(found.loss, False)}; rounded down to {found.round_down} decimals it would read 0"
    return f"{exactly(found.epsilon)}, rounded down"


def _rise(rise: Rise) -> str:
    most = rise.ends(3, PERCENT, "is tolerated")
    if not rise.limited:
        most += ", where any belief is tolerated" if rise.asked else ", where nothing is asked"
    return f"a reader who gives {_starts(rise.inclusion, rise.value)} would come to at most {most}"


def _starts(inclusion: float, value: float) -> str:
    """Starting beliefs of a reader; only that of inclusion where the value is not in question."""
    being_in = f"{belief(inclusion)} to the person being in the data"
    if value == 1.0:
        return being_in
    return f"{being_in} and {belief(value)} to a sensitive value if so, together {belief(inclusion * value)},"


def _binding(found: Recommendation) -> str:
    who = _starts(found.inclusion, found.value).rstrip(",")
    if found.attained:
        return f"A reader who needs it, and none needs less, gives {who}."
    return f"No single reader needs it: it is approached by readers who tend to give {who}."


def promise_regulator(made: ReleaseBudget, priors: Sequence[float] | None) -> Iterator[str]:
    """The tolerance, the promise of each release and what all of them together would do, in percent."""
    made, found = kept_by(made), made.recommended
    several = made.releases > 1
    yield f"The tolerance: {found.profile.words}." + f" It is about {made.releases:,} releases together." * several
    chance = f"but for at most {percentage(made.failure, True)} of releases" if made.failure else "for certain"
    if made.total is None or made.guarantee is None:
        yield _no_release(found) or f"No {made.unit} of {made.definition} above 0 keeps it {chance}."
        return
    known = ", as far as a search without certificate has found" if found.method == SEARCH else ""
    counted = f" The share of releases is {AT_A_TIME}." if made.failure else ""
    yield (
        f"The largest {made.unit} of {made.definition} {'for each release ' * several}that keeps it {chance} is "
        f"{outward(made.parameter, False)}{_delta(made)}{known}.{counted} {RECORDS}"
    )
    if told := [_rise(rise) for rise in rises(found, priors, worth(made))]:
        yield f"With it these would be upper bounds, as surely: {'; '.join(told)}."
    one, every = (limits_of(g, made.failure)[-1] for g in (made.guarantee, made.total))
    if several and one.exists and every.exists:
        yield (
            f"One release alone would move a belief about whether the record is in the data by at most "
            f"{points(one.difference)} percentage points, all {made.releases:,} together by at most "
            f"{points(every.difference)}, {'as surely' if made.failure else 'for certain'}."
        )
    yield f"Covered is every reader {COVERED}."
    yield GROUPS


def _delta(made: ReleaseBudget) -> str:
    return f", with delta {made.delta_each:.4g}" if made.delta_each else ""


# Who keeps the data


def decided_curator(found: Recommendation, priors: Sequence[float] | None) -> Iterator[str]:
    """The profile, the largest epsilon that would keep it, and nothing of any release."""
    yield found.words
    told = [f"{_priors(rise)}: posterior up to {rise.up_to(3)}{PERCENT}" for rise in rises(unrounded(found), priors)]
    if told and found.status == BOUNDED:
        yield f"Tolerated, rounded down: {'; '.join(told)}."
    yield "This is the profile. Whether the release keeps it is the verdict's to say."


def budget_curator(found: Recommendation, priors: Sequence[float] | None) -> Iterator[str]:
    """The recommendation, its formula, method, bracket and assumptions."""
    yield found.words
    yield _setting(found)
    low, high = found.bracket
    if found.status == BOUNDED:
        yield (
            f"Found by {METHODS[found.method]}; the infimum over readers lies between {outward(low, False)} and "
            f"{outward(high, True)}{'' if low > 0.0 else ', the lower end without certificate'}."
        )
        if every := rises(unrounded(found), priors):
            yield f"At that epsilon, rounded outward: {'; '.join(map(_rise_curator, every))}."
    yield GROUPS


def _setting(found: Recommendation) -> str:
    return (
        "p is the prior of inclusion, q that of a value in S given inclusion, r the ratio of the posterior of both to "
        f"p q. Under pure epsilon-DP for records added or removed, r <= {FORMULAS[found.statistic]}, under every "
        "truth and for every release. The worst case is a reader who holds everybody else's complete records; assumed "
        "is that the reader knows the mechanism and believes the same of the others whatever the target's record is."
    )


def _priors(rise: Rise) -> str:
    return f"p = {rise.inclusion:.6g}, q = {rise.value:.6g}"


def _rise_curator(rise: Rise) -> str:
    return f"{_priors(rise)}: posterior at most {rise.ends(4, PERCENT, 'is tolerated')}" + (
        "" if rise.limited else f", tolerated 100{PERCENT}" if rise.asked else ", nothing asked"
    )


def promise_curator(made: ReleaseBudget, priors: Sequence[float] | None) -> Iterator[str]:
    """The promise, what each release and all of them keep, the losses and the readers."""
    yield made.words
    made, found = kept_by(made), made.recommended
    yield _setting(found)
    if made.total is not None and made.guarantee is not None:
        total = "" if isinstance(made.total, PrivacyLoss) else f" keep {made.total.describe()}, and"
        together = f"All together{total} are" if made.releases > 1 else "It is"
        chance = f"at failure {exactly(made.failure)}, counted {AT_A_TIME}" if made.failure else "for certain"
        allowed = f"{outward(found.loss, False)}, found by {METHODS[found.method]}"
        yield f"{together} worth no more than the epsilon of the profile, {allowed}; {chance}."
        if every := rises(found, priors, worth(made)):
            yield f"There, rounded outward: {'; '.join(map(_rise_curator, every))}."
    yield GROUPS
