r"""Published adversaries of whole records: absence from a known population, synthetic data, reconstruction from tables.

.. math:: \text{record} \sim \pi, \qquad \text{release} \sim \text{law of a statistic of all records}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from adversary._core import check_number, check_positive, check_probability, check_whole
from adversary.models.noise import released
from adversary.privacy.mechanisms import Mechanism


def lee_clifton(
    population: ArrayLike,
    statistic: Callable[[Any], Any],
    mechanism: Mechanism,
    target: int = 0,
) -> pm.Model:
    """Lee and Clifton's adversary, who knows a population of which all but one person are in the data.

    Differential identifiability: the adversary knows the value of every person, has a uniform prior for the one who is
    absent, and reads a noisy statistic of the others.

    Parameters
    ----------
    population : values (person,) or rows (person, column)
    statistic : function of the values of those present, to a number
    mechanism : noise of the statistic
    target : position of the target in the population

    Returns
    -------
    pymc.Model
        Free: ``absent`` (a position) and ``noisy``. Deterministic: ``in``, 1 if the target is the absent one.

    Raises
    ------
    ValueError : fewer than two people, or a position outside the population

    References
    ----------
    Lee and Clifton (2011), "How much is enough? Choosing epsilon for differential privacy", ISC, section 4; and (2012),
    "Differential identifiability", KDD.

    Examples
    --------
    >>> from adversary import Laplace, audit_model
    >>> tree = audit_model(lee_clifton([1, 2, 3, 4], np.mean, Laplace(1.0)), {"in": 1}, rng=1, progress=False)
    >>> round(float(tree["risk"]["prior"]), 2)
    0.25
    """
    people = np.asarray(check_number("population", population), dtype=np.float64)
    if people.ndim not in (1, 2) or len(people) < 2:
        raise ValueError(f"population must hold at least two people, got shape {people.shape}")
    place = int(check_whole("target", target, minimum=0))
    if place >= len(people):
        raise ValueError(f"target must be a position among {len(people)} people, got {target}")
    answers = np.array([float(statistic(np.delete(people, i, axis=0))) for i in range(len(people))])
    if not mechanism.is_continuous:
        answers = check_whole("statistic of those present", answers)
    with pm.Model() as model:
        absent = pm.Categorical("absent", np.full(len(people), 1.0 / len(people)))
        pm.Deterministic("in", pt.eq(absent, place).astype("int64"))
        released("noisy", mechanism, pt.constant(answers)[absent])
    return model


def mcclure_reiter(
    epsilon: float, prior: float = 0.5, known: int = 0, people: int = 100, synthetic: int | None = None
) -> pm.Model:
    r"""McClure and Reiter's intruder, who reads binary synthetic data and knows every record but the target's.

    The synthesizer of Abowd and Vilhuber draws a share from a beta posterior, then synthetic records with that share:

    .. math:: \theta \sim \text{Beta}(\alpha + x, \alpha + n - x), \qquad \text{noisy} \sim \text{Binomial}(m, \theta),
              \qquad \alpha = \frac{m}{e^\epsilon - 1}

    The pseudo-counts alpha make it epsilon-differentially private with n public: one record changes the log likelihood
    of m synthetic records by at most log(1 + m / alpha) = epsilon.

    Parameters
    ----------
    epsilon : privacy parameter of the synthesizer, above 0 (nats)
    prior : prior probability that the target's value is 1
    known : number of ones among the others
    people : number n of records, including the target's
    synthetic : number m of synthetic records; default: n

    Returns
    -------
    pymc.Model
        Free: ``in``, the target's value, and ``noisy``, the number of ones among the synthetic records.

    Raises
    ------
    ValueError : an argument out of range

    References
    ----------
    McClure and Reiter (2012), "Differential privacy and statistical disclosure risk measures: an investigation with
    binary synthetic data", Transactions on Data Privacy 5; Abowd and Vilhuber (2008), "How protective are synthetic
    data?", Privacy in Statistical Databases.

    Examples
    --------
    >>> from adversary import audit_model
    >>> tree = audit_model(mcclure_reiter(1.0, prior=0.5, known=3, people=20), {"in": 1}, rng=1, progress=False)
    >>> bool(tree["exact"]["posterior"].max() < 1 / (1 + np.exp(-1.0)))
    True
    """
    check_probability("prior", prior)
    check_positive("epsilon", epsilon)
    size = int(check_whole("people", people, minimum=1))
    drawn = size if synthetic is None else int(check_whole("synthetic", synthetic, minimum=1))
    ones = int(check_whole("known", known, minimum=0))
    if ones > size - 1:
        raise ValueError(f"known must be at most {size - 1}, the records of everybody else, got {known}")
    alpha = drawn / math.expm1(epsilon)
    with pm.Model() as model:
        total = ones + pm.Bernoulli("in", np.float64(prior))
        pm.BetaBinomial("noisy", alpha=np.float64(alpha) + total, beta=np.float64(alpha) + size - total, n=drawn)
    return model


def block_reconstruction(
    shares: ArrayLike,
    people: int,
    tables: Sequence[Sequence[int]],
    mechanism: Mechanism | Sequence[Mechanism],
    target: Sequence[int],
) -> pm.Model:
    """Reconstruction of one person's record from all published tables of a small block together.

    Parameters
    ----------
    shares : prior probabilities (feature, feature, ...) of a record
    people : number of records in the block, including the target's
    tables : for each table, the numbers of the features that it crosses; an empty one is the total
    mechanism : noise of the cells, one for all tables or one per table; `Exact` publishes a table without noise
    target : cell of the hypothesised record, one index per feature

    Returns
    -------
    pymc.Model
        Free: ``record`` (a number, in C order), ``others``, the counts of all other records, and ``noisy[...]`` for
        each table. Deterministic: ``in``, 1 if the target's record is in the cell `target`.

    Raises
    ------
    ValueError : shares that do not sum to 1, an unknown feature, or a number of mechanisms that is not that of tables

    References
    ----------
    Garfinkel, Abowd and Martindale (2018), "Understanding database reconstruction attacks on public data", ACM Queue
    16; Abowd (2021), "Declaration", Fair Lines America v. US Department of Commerce, appendix on reconstruction.

    Examples
    --------
    >>> from adversary import Exact, audit_model
    >>> model = block_reconstruction(np.full((2, 2), 0.25), 3, [[0], [1]], Exact(), (0, 0))
    >>> tree = audit_model(model, {"in": 1}, draws=50, rng=1, progress=False)
    >>> round(float(tree["risk"]["prior"]), 2)
    0.25
    """
    law = np.asarray(check_number("shares", shares), dtype=np.float64)
    if not (law >= 0).all() or abs(law.sum() - 1.0) > 1e-9:
        raise ValueError(f"shares must be probabilities that sum to 1, they sum to {law.sum():.6g}")
    size = int(check_whole("people", people, minimum=1))
    noises = [mechanism] * len(tables) if isinstance(mechanism, Mechanism) else list(mechanism)
    if len(noises) != len(tables):
        raise ValueError(f"mechanism must be one or {len(tables)}, as many as tables, got {len(noises)}")
    for table in tables:
        if any(axis not in range(law.ndim) for axis in table):
            raise ValueError(f"tables must be by features 0 to {law.ndim - 1}, got {list(table)}")
    target_cell = int(np.ravel_multi_index(tuple(target), law.shape))
    with pm.Model() as model:
        record = pm.Categorical("record", law.ravel())
        pm.Deterministic("in", pt.eq(record, target_cell).astype("int64"))
        counts = pt.eq(np.arange(law.size), record).astype("int64")
        if size > 1:
            counts = counts + pm.Multinomial("others", n=size - 1, p=law.ravel())
        every = counts.reshape(law.shape)
        for table, noise in zip(tables, noises, strict=True):
            along = tuple(axis for axis in range(law.ndim) if axis not in table)
            name = " x ".join(str(axis) for axis in table) or "total"
            released(f"noisy[{name}]", noise, every.sum(axis=along) if along else every, cells=1)
    return model
