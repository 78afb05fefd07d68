"""Certified composition of many losses: tail probabilities as contour integrals, with brackets.

`certified_composition` is the way in; `contour_sum` adds along the contour, `contour_terms` are what it adds up, and
`revivals` bounds where characteristic functions return to 1. `tilted_sum` adds up laws on a grid by transforms.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
