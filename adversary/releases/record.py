"""Records of real releases: publisher, statistics, guarantee, sources, and consistency checks of their numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from adversary._core import as_given
from adversary.adversaries.plans import Plan
from adversary.privacy import Guarantee, PrivacyUnit
from adversary.privacy.definitions import NoPrivacy, ZeroConcentratedDP
from adversary.report.files import FileDescription, Scenario

# Models, by where the noise is added: by a curator who holds the data, by each person (local), or in between.
MODELS = ("central", "local", "shuffle", "federated", "varies")

# Kinds of source: a document or repository of the publisher, the field's registry alone, or no publication at all of
# the parameters.
KINDS = ("primary", "registry", "none")


class Source(NamedTuple):
    """Source of the numbers of a record.

    Parameters
    ----------
    kind : "primary", "registry" or "none"
    url : of the document or repository; "" where there is none
    about : what it says, and its version
    """

    kind: str
    url: str = ""
    about: str = ""


class Check(NamedTuple):
    """Consistency check: a stated number of a record beside its value computed from the record's other numbers.

    Parameters
    ----------
    about : name of the compared quantity
    stated : the number as published, exactly
    computed : the value that follows from other numbers
    rounding : half a unit of the last digit of `stated`
    """

    about: str
    stated: Fraction
    computed: float
    rounding: float

    @property
    def agrees(self) -> bool:
        """True if the two numbers differ by rounding alone."""
        # 1e-9 for the rounding of doubles, where the difference is exactly half a unit
        return abs(float(self.stated) - self.computed) <= self.rounding * (1.0 + 1e-9)

    @property
    def words(self) -> str:
        """Sentence with the computed and the stated number."""
        shown = as_given(float(f"{self.computed:.6g}"))
        return f"{self.about}: {shown}, {'as' if self.agrees else 'where'} {as_given(float(self.stated))} is stated"


@dataclass(frozen=True, kw_only=True)
class Record(FileDescription):
    """Record of a real release: its parameters, its guarantee, and if they are known its plan and one scenario.

    Parameters
    ----------
    title, description : what was published, in a line and in a few sentences
    source : addresses of its sources, in one text
    path : file of the record
    curator : who published it
    date : year, month or day of the publication, as ISO 8601; "" where it is not known
    sector : government, technology, healthcare ...
    model : one of `MODELS`; "" where it is not known
    published, mechanism, invariants, processing : in words: the statistics, the noise, what is exact, and what is done
        to noisy numbers before they are published
    unknown : what is not known, and why
    sources : each with its kind
    parameters : published numbers by name, exact
    unit : whose data is protected; its `neighbours` are None where they are not stated, its `periods` are of a year
    guarantee : of one unit in one period; None where nothing is guaranteed or no parameter is published
    replaced : the guarantee for a replaced unit, where the publisher states it beside that for an added one
    failure : probability with which a bound that is not certain may fail
    plan : everything that is published of one unit, or None
    scenario : a truth and an adversary, with the plan or a part of it; or None
    checks : sums over its own numbers
    """

    curator: str
    date: str = ""
    sector: str = ""
    model: str = ""
    published: str = ""
    mechanism: str = ""
    invariants: str = ""
    processing: str = ""
    unknown: str = ""
    sources: tuple[Source, ...] = ()
    parameters: Mapping[str, Fraction | float] = field(default_factory=dict)
    unit: PrivacyUnit
    guarantee: Guarantee | None = None
    replaced: Guarantee | None = None
    failure: float
    plan: Plan | None = None
    scenario: Scenario | None = None
    checks: tuple[Check, ...] = ()

    @property
    def kind_of_source(self) -> str:
        """Kind of the best source; "none" if there is no source or any of them is of that kind."""
        kinds = [one.kind for one in self.sources] or ["none"]
        return "none" if "none" in kinds else min(kinds, key=KINDS.index)

    @cached_property
    def loss(self) -> Guarantee | None:
        """The stated guarantee, else the privacy loss of the plan; None without either."""
        if self.guarantee is not None or self.plan is None:
            return self.guarantee
        return _plan_loss(self.plan)

    @cached_property
    def replaced_loss(self) -> Guarantee | None:
        """Guarantee for a unit that is replaced by another, rather than added or removed; the first of these.

        The stated guarantee, if it is for a replaced unit; the publisher's guarantee for one; the stated guarantee in
        the local model; the loss of the plan with replaced units; the stated guarantee for a group of two (one unit
        removed, one added).
        """
        loss = self.loss
        if loss is None or self.unit.is_replaced:
            return loss
        if self.replaced is not None:
            return self.replaced
        if self.model == "local":
            return loss
        if self.plan is None:
            return loss.group(2)
        plan = replace(self.plan, privacy_unit=replace(self.plan.privacy_unit, neighbours="bounded"))
        plan_loss = _plan_loss(plan)
        is_zcdp = isinstance(loss, ZeroConcentratedDP) and not isinstance(plan_loss, NoPrivacy)
        return ZeroConcentratedDP(plan.total_rho) if is_zcdp else plan_loss

    @property
    def findings(self) -> tuple[Check, ...]:
        """Checks whose two numbers differ by more than rounding."""
        return tuple(one for one in self.checks if not one.agrees)


def _plan_loss(plan: Plan) -> Guarantee:
    """Privacy loss of one unit under the plan; `NoPrivacy` if a count is published exactly."""
    return NoPrivacy() if any(level.is_exact for level in plan.levels) else plan.unit_loss()
