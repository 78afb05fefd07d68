r"""PyMC model of the histograms of small units and of noisy queries on them, for any prior.

.. math::
   \text{others}_{u c} &\sim \text{prior}, \qquad \text{in} \sim \operatorname{Bernoulli}(p), \qquad
   x = \text{others} + \text{the target} \\
   \text{noisy}_{q} &= A_q \, (\text{sums of } x \text{ over the leaves of each unit}) + \text{discrete Gaussian noise}

`adversary.census.histograms.sample_histograms` samples the same posterior, much faster, for priors of independent
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.tensor.variable import TensorVariable

from adversary._core import check_probability
from adversary.adversaries.tables import Query, check_answers, flat_cell
from adversary.census.spine import Tree
from adversary.models.noise import DiscreteGaussian, Exact

Prior = Callable[..., TensorVariable]


def noisy_histograms(
    tree: Tree,
    queries: Sequence[Query],
    variance: Mapping[str, ArrayLike],
    prior: Prior | None = None,
    *,
    target: str | None = None,
    present: Any = None,
    absent: Any = None,
    target_prior: float = 0.5,
    released: Mapping[str, ArrayLike] | None = None,
) -> pm.Model:
    """PyMC model of all queries of all units of a tree, such as a block group and its blocks.

    Parameters
    ----------
    tree : Tree
        Units; the counts of a unit are the sums of its children's.
    queries : sequence of Query
        Queries of one histogram.
    variance : mapping of name to array_like
        Noise variance of each query: one number, or (unit,) in the tree's order; 0 means exact, infinite not measured.
    prior : function, optional
        Called in the model as ``prior("others", dims=("leaf", "cell"))``; it must return non-negative integer counts.
        Default: independent Poisson counts of mean 1. The function may add latent rates to the model.
    target : str, optional
        Leaf of a target who is not among the others; adds the variable ``in``.
    present, absent : int or tuple, optional
        Cell of the target if in, and if out; absent None means that the target is not counted.
    target_prior : float
        Prior probability of in.
    released : mapping of name to array_like, optional
        Answers (unit, row) of each query, to be observed; default: the release is left free.

    Returns
    -------
    pymc.Model
        Free: ``others``, dims (leaf, cell); ``in`` if there is a target; ``noisy[query]``, dims (unit with noise of the
        query, row), and ``exact[query]`` of the units where it is exact. Deterministic: ``histogram``.

    Raises
    ------
    ValueError
        Arrays do not match the tree or the queries, or the target is not a leaf or has no cell.

    Notes
    -----
    Sample ``others`` with `HistogramGibbs`. A step that changes one count at a time mixes slowly if sums have less
    noise than their parts, and not at all under exact sums.

    Examples
    --------
    >>> from adversary import enumerate_posterior
    >>> tree, query = Tree.of({"block": None}), Query("sex", ((0, 1),))
    >>> def prior(name, dims):
    ...     return pm.Binomial(name, n=3, p=np.float64(0.3), dims=dims)
    >>> model = noisy_histograms(tree, [query], {"sex": 2.0}, prior, target="block", present=0)
    >>> round(enumerate_posterior(model, {"noisy[sex]": [[3, 0]]}).posterior.item(), 4)
    0.6459
    """
    nothing = {query.name: np.zeros((len(tree), query.size)) for query in queries}
    given = check_answers(queries, nothing if released is None else released, variance)
    if given.variance.shape[0] != len(tree):
        raise ValueError(f"released must have the tree's {len(tree)} units, got {given.variance.shape[0]}")
    leaves, size = tree.names[tree.leaves].tolist(), given.queries[0].rows.size
    if target is not None and (target not in leaves or present is None):
        raise ValueError(f"target must be a leaf, with its cell in present, got {target!r} and {present}")
    model = pm.Model(coords={"leaf": leaves, "cell": np.arange(size)})
    with model:
        counts = (prior or _poisson)("others", dims=("leaf", "cell"))
        if target is not None:
            inside = pm.Bernoulli("in", p=np.float64(check_probability("target_prior", target_prior)))
            for cell, share in ((present, inside), (absent, 1 - inside)):
                if cell is not None:
                    seat = np.zeros((len(leaves), size), dtype=np.int64)
                    seat[leaves.index(target), flat_cell(cell, given.shape)] = 1
                    counts = counts + seat * share
        histogram = pm.Deterministic("histogram", counts, dims=("leaf", "cell"))
        units = pt.constant(tree.sums(np.eye(len(leaves)))) @ histogram.astype("float64")
        observed: dict[str, Any] = {}
        for query, answers, v in zip(given.queries, given.released, given.variance.T, strict=True):
            member = np.zeros((size, query.size))
            member[np.arange(size), query.rows] = 1.0
            for word, here in (("noisy", (v > 0) & np.isfinite(v)), ("exact", v == 0)):
                if not here.any():
                    continue
                name, rows = f"{word}[{query.name}]", np.flatnonzero(here)
                dims = (f"unit of {name}", f"row of {query.name}")
                model.add_coords({dims[0]: tree.names[rows], dims[1]: np.arange(query.size)})
                value = units[rows] @ pt.constant(member)
                if word == "noisy":
                    DiscreteGaussian(name, mu=value, sigma2=np.repeat(v[rows, None], query.size, axis=1), dims=dims)
                else:
                    Exact(name, value=value, dims=dims)
                observed[name] = answers[rows].astype(np.int64)
    return model if released is None else pm.observe(model, observed)


def _poisson(name: str, dims: Any) -> TensorVariable:
    return pm.Poisson(name, mu=np.float64(1.0), dims=dims)
