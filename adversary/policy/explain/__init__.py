"""A privacy budget in words, for a respondent, a regulator and a curator.

`explanation` is the way in and `outcomes` the numbers; one module per audience, and one each for an epsilon and for
an audit.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
