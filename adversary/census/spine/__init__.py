"""Every unit of a geographic tree of counts at once: exact inference, by one name.

`Tree` says which unit lies in which, `posterior` reads noisy counts at every level of it, and the `SpinePosterior`
knows the law of every count, what was left out, and what a reader learns about one person in every leaf; its `sum`,
`compare` and `share` are about several units together. Leaf priors are `Flat`, `Poisson`, `NegativeBinomial`, `Pmf`
and, the default, `SharedRate`, whose weights `fit_rate_prior` can learn. `upward_message` and
`SpinePosterior.downward_message` do a tree in pieces; `least_squares` is the linear estimator beside it.

>>> from adversary.census.spine import Tree, posterior
>>> tree = Tree.of({"group": None, "a": "group", "b": "group"})
>>> found = posterior(tree, released=[1, 2, -1], rho=[0.25, 0.1, 0.1])
>>> found.status, float(found.truncation_bound) < 1e-15
('ok', True)
>>> found.membership(prior=0.5, known=0)["posterior"].round(3).values.tolist()
[0.625, 0.466]
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
