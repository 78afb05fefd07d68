"""Adversaries who know totals: contingency tables and distributions given exactly published margins."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
