"""An `[adversary]` of a scenario file: prior or unknown people, what is known and believed, and what "in" means."""

from __future__ import annotations

from functools import partial

from adversary._core import check_whole
from adversary.desk.files.belief_keys import read_beliefs
from adversary.desk.files.keys import Keys
from adversary.reader.beliefs import Belief
from adversary.reader.path import MEANINGS, Adversary, all_but, count_pmf
from adversary.reader.plans import Plan


def read_adversary(table: Keys, plan: Plan) -> Adversary:
    """The reader, every key checked and every belief against the plan."""
    table.only("prior", "known", "hypotheses", "beliefs", "attack", "unknown")
    attack = table.one_of("attack", tuple(MEANINGS), "characteristics")
    beliefs = read_beliefs(table.table("beliefs")) if table.has("beliefs") else {}
    rule = f"how many others of {plan.names[0]!r} are in the published cell, a whole number, or one per cell"
    known = table.get("known", (int, list), rule, 0 if plan.names[0] in beliefs else ...)
    if table.has("unknown"):
        part = table.table("unknown")
        make = partial(_all_but, table, part, plan, known, beliefs, attack)
        return part.build("", make)  # type: ignore[no-any-return]
    prior = table.number("prior")
    pair = table.get("hypotheses", list, "two whole numbers [out, in]", None)
    counts = tuple(known) if isinstance(known, list) else known

    def make_known() -> Adversary:
        reader = Adversary(prior, counts, beliefs, tuple(pair) if pair else None, attack=attack)
        return _fitting(plan, reader)

    return table.build("", make_known)  # type: ignore[no-any-return]


def _all_but(
    table: Keys, unknown: Keys, plan: Plan, known: int | list[int], beliefs: dict[str, Belief], attack: str
) -> Adversary:
    """The reader who misses several people of the lowest unit, all alike to them; the prior follows."""
    for key in ("prior", "hypotheses"):
        if table.has(key):
            raise ValueError(
                f"{table.where(key)}: must be left out where {table.key}.unknown describes the people the reader "
                f"misses: it follows from their law, got {table.values[key]!r}"
            )
    if attack != "characteristics" or isinstance(known, list) or plan.cells > 1:
        raise ValueError(
            "people unknown to the reader are described for the characteristics attack on one cell, got "
            f"attack {attack!r} and {plan.cells} cell{'s' * (plan.cells > 1)}"
        )
    unknown.only("probabilities", "n", "chance")
    if unknown.has("probabilities") == (unknown.has("n") or unknown.has("chance")):
        raise ValueError("give either probabilities of 0, 1, ..., n, or n and chance")
    if unknown.has("probabilities"):
        counts = unknown.numbers("probabilities")
    else:
        from scipy.stats import binom

        people = int(check_whole("n", unknown.get("n", int, "a whole number of people"), minimum=1))
        counts = binom(people, float(unknown.number("chance")))
    pmf = count_pmf([float(p) for p in counts] if isinstance(counts, list) else counts)
    return _fitting(plan, all_but(pmf, known, level=plan.names[0], beliefs=beliefs))


def _fitting(plan: Plan, reader: Adversary) -> Adversary:
    """The reader, if their beliefs and their attack make sense of the plan."""
    reader.chain(plan)
    return reader
