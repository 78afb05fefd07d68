"""Beliefs of an adversary about all others in a unit: each is a `Belief` about a level's total.

`belief` holds the abstract class and the simple beliefs, `each` the belief about every sibling, `unknown_rate`
distributions with unknown rates, and `elicited` reads distributions of scipy and PreliZ.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
