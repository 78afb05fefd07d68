"""Certified composition of many losses: tail probabilities as contour integrals, with brackets.

`products` is the way in, and `atoms` for losses that are listed; `contour_sum` adds along the contour at its `nodes`,
`revivals` bounds where characteristic functions return to 1, and `wrapped_gaussian` holds the closed forms.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
