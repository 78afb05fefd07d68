"""Plain NumPy for every model in the tests, read when PyTensor is first imported; and no example against a clock."""

import os

from hypothesis import settings

os.environ.setdefault("PYTENSOR_FLAGS", "linker=py,cxx=,optimizer_excluding=fusion")
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
