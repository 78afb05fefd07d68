"""One reader and one release: exact inference along the target's path of nested levels.

`Adversary` holds prior and beliefs. `recursion` sums over counts level by level, with `links` between levels, `steps`
within one, `windows` of counts that matter and `log_products`, the sums themselves; `truth` says what really holds,
`posterior_belief` what the reader believes afterwards, and `attacks` are hypotheses other than membership.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
