"""Certified composition of many losses: profiles and tails as contour integrals, with proved error bounds.

`certified_composition` is the entry point. `contour_sum` sums along the contour, `contour_terms` computes the terms,
`revivals` finds where characteristic functions return close to 1. `tilted_sum` composes distributions on a grid by
Fourier transforms.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
