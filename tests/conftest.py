import os; os.environ.setdefault("PYTENSOR_FLAGS", "linker=py,cxx=,optimizer_excluding=fusion")  # noqa: E702, I001
