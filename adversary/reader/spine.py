"""Every unit of a geographic tree of counts at once: exact inference, by one name.

`Tree` says which unit lies in which, `posterior` reads noisy counts at every level of it, and the `SpinePosterior`
knows the law of every count, what was left out, and what a reader learns about one person in every leaf. Leaf priors
are `Flat`, `Poisson`, `NegativeBinomial`, `Pmf` and, the default, `SharedRate`, whose weights `refit` can learn. `rise`
and `SpinePosterior.outside` do a tree in pieces; `least_squares` is the linear estimator beside it.

>>> tree = Tree.of({"group": None, "a": "group", "b": "group"})
>>> found = posterior(tree, released=[1, 2, -1], rho=[0.25, 0.1, 0.1])
>>> found.status, float(found.dropped) < 1e-15
('ok', True)
>>> found.membership(prior=0.5, known=0)["posterior"].round(3).values.tolist()
[0.619, 0.453]
"""

from __future__ import annotations

from adversary.reader.leaf_priors import Flat as Flat
from adversary.reader.leaf_priors import LeafPrior as LeafPrior
from adversary.reader.leaf_priors import NegativeBinomial as NegativeBinomial
from adversary.reader.leaf_priors import Pmf as Pmf
from adversary.reader.leaf_priors import Poisson as Poisson
from adversary.reader.leaf_priors import SharedRate as SharedRate
from adversary.reader.spine_inference import posterior as posterior
from adversary.reader.spine_inference import refit as refit
from adversary.reader.spine_inference import rise as rise
from adversary.reader.spine_inputs import Message as Message
from adversary.reader.spine_memberships import STATUS as STATUS
from adversary.reader.spine_posteriors import SpinePosterior as SpinePosterior
from adversary.reader.squares import least_squares as least_squares
from adversary.reader.trees import Tree as Tree
