"""One adversary and one release: exact inference along the target's path of nested levels.

`Adversary` holds the prior and the beliefs. `recursion` sums over counts level by level. `links` connects two levels,
`steps` describes one, `windows` bounds the counts that are summed, and `log_products` computes the sums. `truth` checks
true counts, `posterior_belief` is a belief after a release, and `attacks` are hypotheses other than membership.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
