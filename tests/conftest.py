"""Plain NumPy for every model in the tests: PyTensor reads this when it is first imported."""

import os

os.environ.setdefault("PYTENSOR_FLAGS", "linker=py,cxx=,optimizer_excluding=fusion")
