"""Exact posterior of every unit of a geographic tree of counts.

`Tree` holds the hierarchy of units, `posterior` takes noisy counts at every level of it, and the `SpinePosterior` has
the distribution of every count, a bound on the truncation error, and an adversary's posterior about one person in every
leaf; its `sum`, `compare` and `share` concern several units together. Leaf priors are `Flat`, `Poisson`,
`NegativeBinomial`, `Pmf` and, the default, `SharedRate`, whose weights `fit_rate_prior` estimates. `upward_message` and
`SpinePosterior.downward_message` solve a tree in pieces; `least_squares` is the best linear estimator, for comparison.

>>> from adversary.census.spine import Tree, posterior
>>> tree = Tree.of({"group": None, "a": "group", "b": "group"})
>>> counts = posterior(tree, released=[1, 2, -1], rho=[0.25, 0.1, 0.1])
>>> counts.status, float(counts.truncation_bound) < 1e-15
('ok', True)
>>> counts.membership(prior=0.5, known=0)["posterior"].round(3).values.tolist()
[0.625, 0.466]
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
