"""Noise laws: each is a `Mechanism`, a release's law given the value.

`mechanism` is the abstract class, `additive` those of additive noise; `integers` are the discrete ones (discrete
Gaussian, geometric), `continuous` the others, `perturbation` depends on the count, and of `local_reports` the value is
one unit's own answer. `file_kinds` lists those that scenario files may ask for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
