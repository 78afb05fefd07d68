"""Smallest epsilon under each privacy framework, for one query, mechanism and joint distribution of the records.

DP, Blowfish, Pufferfish, dependent DP, inferential, membership and mutual-information privacy differ in the hypotheses
they compare and in what they bound about them (Liu, He, Chanyaswad, Wang and Mittal 2019, section 6). Every function
takes the joint distribution of the records, a query (a function of the tuple of record values, or the array of its
answers) and a mechanism that adds noise to the answer. Hypotheses come at three levels, and the answers differ:

- "database": complete databases; the release has the noise distribution around one answer.
- "known": the values of one record, all others known: complete databases that differ in that record.
- "record": the values of one record, the others integrated out given it: mixtures of noise distributions. Correlation
  enters the likelihood ratio here.

Theorem 7 of that paper, eps_BP >= eps_DDP = eps_IP >= eps_DP, eps_DDP <= 2 eps_MP and eps_MIDP <= eps_MP, is about one
adversary, so about one level. It holds for complete databases, and with others known, whenever every database is
possible. At the level of a record eps_IP >= eps_DP can fail: averaging over others can hide a record altogether. Where
some databases are impossible, DP still compares them, while the frameworks that use the distribution do not.

>>> from adversary.privacy.mechanisms import Laplace
>>> agree = JointDistribution([[0.4, 0.1], [0.1, 0.4]])
>>> differential_privacy(agree, sum, Laplace(1.0)), dependent(agree, sum, Laplace(1.0))
(1.0, 2.0)
>>> round(inferential(agree, sum, Laplace(1.0), level="record"), 5)
1.56945
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from adversary._core import check_non_negative, check_probability, check_whole, over_labels
from adversary.literature.joint_distribution import LEVELS, Event, EventHypotheses, blocks, common_coarsening
from adversary.literature.joint_distribution import JointDistribution as JointDistribution
from adversary.privacy import TOLERANCE
from adversary.privacy.losses import PrivacyLoss, check_loss
from adversary.privacy.mechanisms import Mechanism

FRAMEWORKS = ("DP", "Blowfish", "dependent DP", "inferential", "membership", "mutual information")

# Theorem 7, each as (larger, its factor, smaller).
INEQUALITIES = {
    "Blowfish >= dependent DP": ("Blowfish", 1.0, "dependent DP"),
    "dependent DP >= inferential": ("dependent DP", 1.0, "inferential"),
    "inferential >= dependent DP": ("inferential", 1.0, "dependent DP"),
    "inferential >= DP": ("inferential", 1.0, "DP"),
    "2 membership >= dependent DP": ("membership", 2.0, "dependent DP"),
    "membership >= mutual information": ("membership", 1.0, "mutual information"),
}


def differential_privacy(joint: JointDistribution, query: Any, mechanism: Mechanism) -> float:
    """Epsilon of DP: sup of |log P(o | x) / P(o | x')| over databases that differ in one record, in nats.

    Of the distribution only the values that a record may take are used: impossible databases are compared too.
    """
    all_databases = np.ones(joint.array.shape, dtype=np.bool_)
    return EventHypotheses.of(joint, query, mechanism).largest_ratio_of_databases(
        all_databases, [(record,) for record in range(all_databases.ndim)]
    )


def blowfish(joint: JointDistribution, query: Any, mechanism: Mechanism, constraint: Event | None = None) -> float:
    """Epsilon of Blowfish with a public constraint (a count, margins): sup of the log ratio between complete databases.

    Compares all databases that satisfy the constraint, possible under the distribution or not, and differ in any
    number of records that move together: records tied by the constraint, or dependent under the distribution. Minimal
    neighbours of He, Machanavajjhala and Ding 2014 are among these pairs; a policy with fewer secrets than all values
    is a case for `pufferfish`, and outside Theorem 7. With independent records and no constraint this is DP.
    """
    every = np.ones(joint.array.shape, dtype=np.bool_)
    possible = every if constraint is None else joint.holds(constraint, "constraint")
    if not possible.any():
        raise ValueError("constraint must hold for some database of the records, got none")
    tied = common_coarsening(blocks(joint.array), blocks(possible.astype(np.float64)))
    return EventHypotheses.of(joint, query, mechanism).largest_ratio_of_databases(possible, tied)


def dependent(
    joint: JointDistribution, query: Any, mechanism: Mechanism, level: str = "database", records: int | None = None
) -> float:
    """Epsilon of dependent DP: sup of |log P(o | hypothesis) / P(o | other)|, in nats.

    At "database": possible databases in which one record and some that depend on it differ, at most `records` in all
    (no limit by default; 1 is DP among possible databases). Independent groups of records never change together.
    At "known" and "record": all possible values of one record.
    """
    hypotheses = EventHypotheses.of(joint, query, mechanism)
    if level != "database":
        if records is not None:
            raise ValueError(f"records limits complete databases: level must be 'database', got {level!r}")
        return hypotheses.largest_ratio_of_hypotheses(level)
    largest_group = joint.array.ndim if records is None else int(check_whole("records", records, minimum=1))
    groups = (group for block in blocks(joint.array) for group in combinations(block, min(len(block), largest_group)))
    return hypotheses.largest_ratio_of_databases(joint.possible, groups)


def inferential(
    joint: JointDistribution, query: Any, mechanism: Mechanism, level: str = "database", records: int | None = None
) -> float:
    """Epsilon of inferential privacy: sup of |log posterior odds - log prior odds| between hypotheses, in nats.

    By Bayes' rule the log ratio of likelihoods, so `dependent` at the same level. At "record" (Ghosh and Kleinberg
    2016) it can be far below the complete databases': 1.569 against 2 for two records that agree four times in five.
    """
    return dependent(joint, query, mechanism, level, records)


def pufferfish(
    joints: JointDistribution | Iterable[JointDistribution],
    query: Any,
    mechanism: Mechanism,
    secrets: Iterable[tuple[Event, Event]] | None = None,
) -> float:
    """Epsilon of Pufferfish: sup of |log P(o | s, joint) / P(o | s', joint)| over pairs of secrets and joints, in nats.

    Secrets are events, everything else is integrated out given them; without any, all pairs of values of one record,
    which is `inferential` at "record". A pair is compared under each joint distribution that gives both positive
    probability (Kifer and Machanavajjhala 2014); if there is no such pair, the secrets are refused.
    """
    family = [joints] if isinstance(joints, JointDistribution) else list(joints)
    pairs = None if secrets is None else list(secrets)
    distances = []
    for joint in family:
        hypotheses = EventHypotheses.of(joint, query, mechanism)
        for pair in _value_pairs(joint) if pairs is None else pairs:
            events = [joint.holds(event, "secrets") & joint.possible for event in pair]
            if all(event.any() for event in events):
                distances.append(hypotheses.releases.largest_absolute_log_ratio(*map(hypotheses.weights, events)))
    if not distances:
        raise ValueError("secrets must hold a pair that is possible under some distribution, got none")
    return max(distances)


def membership(joint: JointDistribution, query: Any, mechanism: Mechanism, level: str = "database") -> float:
    """Epsilon of membership privacy: sup of |log posterior - log prior| over hypotheses and releases, in nats.

    Two-sided, under this distribution. At "known" the prior is given the others. Theorem 7's eps_DDP <= 2 eps_MP pairs
    it with `dependent` at the same level; one record's posterior says little about many records that move together.
    """
    hypotheses = EventHypotheses.of(joint, query, mechanism)
    return max(
        hypotheses.releases.largest_absolute_log_ratio(weights, hypothesis_set.prior @ hypothesis_set.weights)
        for hypothesis_set in hypotheses.hypothesis_sets(level)
        for weights in hypothesis_set.weights
    )


def mutual_information_privacy(
    joint: JointDistribution, query: Any, mechanism: Mechanism, level: str = "known", *, worst_prior: bool = False
) -> float:
    """Epsilon of mutual-information DP: nats of information between a record and the release, worst over records.

    At "known", as defined (Cuff and Yu 2016), I(record; release | others) under this distribution; at "record"
    I(record; release), at "database" that of all records together. With `worst_prior` the most over priors of the
    hypotheses (and over values of the others at "known"), as the definition requires of a mechanism. An average over
    releases either way: finite under Gaussian noise, and no bound on any single release.
    """
    hypotheses = EventHypotheses.of(joint, query, mechanism)
    if worst_prior:
        return max(
            hypotheses.releases.capacity(hypothesis_set.weights) for hypothesis_set in hypotheses.hypothesis_sets(level)
        )
    total = np.zeros(joint.array.ndim)
    for hypothesis_set in hypotheses.hypothesis_sets(level):
        total[hypothesis_set.record] += hypothesis_set.mass * hypotheses.releases.information(
            hypothesis_set.prior, hypothesis_set.weights
        )
    return float(total.max())


def largest_loss(
    joint: JointDistribution, query: Any, mechanism: Mechanism, event: Event, against: Event | None = None
) -> float:
    """sup over releases of log P(o | event) / P(o | against), in nats; one direction.

    `against` is the event's complement by default, under which the release is a mixture. The largest posterior of the
    event is then expit(logit(joint.mass(event)) + largest_loss).
    """
    hypotheses, true = EventHypotheses.of(joint, query, mechanism), joint.holds(event)
    other = ~true if against is None else joint.holds(against, "against")
    return hypotheses.releases.largest_log_ratio(hypotheses.weights(true), hypotheses.weights(other))


def compare(
    joint: JointDistribution,
    query: Any,
    mechanism: Mechanism,
    constraint: Event | None = None,
    records: int | None = None,
) -> xr.Dataset:
    """All frameworks side by side: `epsilon` (framework, level) and whether Theorem 7 `holds` (inequality, level).

    DP and Blowfish compare complete databases at every level; mutual information is that of the level, under the
    distribution. A constraint is public: all but DP condition on it. `records` limits dependent and inferential pairs
    of databases. The attribute `every_database_possible` says whether the theorem's last premise is met.
    """
    answers = joint.evaluated(query, "query")
    known = joint if constraint is None else joint.given(constraint)
    fixed = differential_privacy(joint, answers, mechanism), blowfish(joint, answers, mechanism, constraint)
    columns = []
    for level in LEVELS:
        odds = inferential(known, answers, mechanism, level, records if level == "database" else None)
        bayes = membership(known, answers, mechanism, level)
        columns.append([*fixed, odds, odds, bayes, mutual_information_privacy(known, answers, mechanism, level)])
    epsilon = np.array(columns).T
    row = dict(zip(FRAMEWORKS, epsilon, strict=True))
    holds = [factor * row[a] >= row[b] * (1.0 - TOLERANCE) - TOLERANCE for a, factor, b in INEQUALITIES.values()]
    return xr.Dataset(
        {"epsilon": (("framework", "level"), epsilon, {"units": "nats"}), "holds": (("inequality", "level"), holds)},
        coords={"framework": list(FRAMEWORKS), "inequality": list(INEQUALITIES), "level": list(LEVELS)},
        attrs={"every_database_possible": bool(known.possible.all())},
    )


def membership_epsilon(prior: ArrayLike, epsilon: ArrayLike) -> Any:
    """Membership epsilon of a binary record of prior p: log(min(p, 1-p) + max(p, 1-p) e^epsilon).

    For a log ratio that reaches +-epsilon: Laplace and geometric noise, randomised response. log((1 + e^epsilon) / 2)
    at the uniform prior, epsilon itself as the prior goes to 0 or 1: twice it is always well above epsilon.
    """
    check_probability("prior", prior), check_non_negative("epsilon", epsilon, finite=False)
    return over_labels(lambda p, e: np.log1p(np.minimum(p, 1.0 - p) * np.expm1(-e)) + e, prior, epsilon)


def mutual_information(loss: PrivacyLoss, prior: Any = None) -> Any:
    """Nats of information between the hypothesis and the release of one pair: E[log posterior / prior].

    p E_P[-log(p + (1-p) e^-L)] + (1-p) E_Q[-log(1-p + p e^L)], at most p's entropy; the largest over priors if none is
    given (it is concave in the prior).
    """
    check_loss("loss", loss)
    if prior is None:
        from scipy.optimize import minimize_scalar

        best = minimize_scalar(lambda p: -_information(loss, p), bounds=(0.0, 1.0), options={"xatol": 1e-10})
        return abs(float(best.fun))
    check_probability("prior", prior)
    return over_labels(np.vectorize(lambda p: _information(loss, p), otypes=[np.float64]), prior)


def _value_pairs(joint: JointDistribution) -> Sequence[tuple[Event, Event]]:
    """Pairs of secrets, in the form of `pufferfish`: every two values of every record."""
    return [({name: a}, {name: b}) for name, values in joint.records.items() for a, b in combinations(values, 2)]


def _information(loss: PrivacyLoss, prior: float) -> float:
    """Mutual information, in nats, of one pair at one prior."""
    if prior in (0.0, 1.0):
        return 0.0
    p, q = np.log(prior), np.log1p(-prior)
    true = loss.expect(lambda losses: -np.logaddexp(p, q - losses))[0]
    false = loss.expect(lambda losses: -np.logaddexp(q, p + losses))[1]
    return max(float(prior * true + (1.0 - prior) * false), 0.0)
