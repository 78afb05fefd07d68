"""The 2020 Census: its budget by level and query, published concerns, and what each query could reveal."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
