"""Mechanisms: each `Mechanism` is the distribution of a release given the value.

`mechanism` is the abstract class, `additive` those of additive noise. `integers` has the discrete Gaussian and the
geometric mechanism, `continuous` Gaussian and Laplace noise. The noise of `perturbation` depends on the count. The
value of a mechanism in `local_reports` is the answer of one unit. `file_kinds` lists mechanisms for scenario files.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
